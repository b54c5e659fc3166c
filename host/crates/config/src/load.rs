//! Finds the repository and reads `agent.yaml` by directory handle, never through a link.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::{ConfigError, Position, shown};
use super::{Config, agent_yaml};
use act_workspace::digest;

const NAME: &str = "agent.yaml";
/// Maximum number of bytes of the file.
const MAX_SIZE: u64 = 1 << 20;

/// The directory that a command works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Absolute path without links.
    pub path: PathBuf,
    /// The directory has an `agent.yaml`. Otherwise it has a `.git`.
    pub has_config: bool,
}

/// Finds the repository of a directory: the nearest directory at or above `start` with `agent.yaml`, otherwise the nearest
/// with `.git`. Returns `None` when there is neither.
///
/// # Errors
///
/// Fails when `start` is not a directory or cannot be opened.
pub fn find_root(start: &Path) -> Result<Option<Root>, ConfigError> {
    let start = resolve(start)?;
    let with = |name| start.ancestors().find(|directory| has(directory, name));
    let root = |path: &Path, has_config| Root { path: path.to_owned(), has_config };
    Ok(with(NAME)
        .map(|path| root(path, true))
        .or_else(|| with(".git").map(|path| root(path, false))))
}

/// Finds, reads and checks the configuration for `start`.
///
/// ```no_run
/// let config = act_config::load(std::path::Path::new(".")).unwrap();
/// assert!(!config.pipeline.steps.is_empty());
/// ```
///
/// # Errors
///
/// Names the first problem of the file with its line and column, or that there is no file.
pub fn load(start: &Path) -> Result<Config, ConfigError> {
    let root = match find_root(start)? {
        Some(Root { path, has_config: true }) => path,
        Some(Root { path, has_config: false }) => {
            return Err(ConfigError::Missing { searched: path });
        }
        None => return Err(ConfigError::Missing { searched: resolve(start)? }),
    };
    // The engine would refuse such a path only after tokens were spent.
    if root.to_str().is_none() {
        return Err(ConfigError::NotText { path: root });
    }
    let directory = open_directory(&root).map_err(|error| unusable(&root, error.into()))?;
    let text = read(&directory)?;
    let yaml = agent_yaml::parse(&text)?;
    if let Some(package) = &yaml.package {
        check_package(&directory, &package.value).map_err(|reason| ConfigError::Package {
            position: Position::from(package.referenced),
            package: shown(&package.value),
            reason,
        })?;
    }
    Ok(yaml.into_config(root, digest(text.as_bytes())))
}

fn resolve(start: &Path) -> Result<PathBuf, ConfigError> {
    let found = std::fs::canonicalize(start).map_err(|error| unusable(start, error))?;
    if found.is_dir() {
        return Ok(found);
    }
    Err(unusable(start, std::io::ErrorKind::NotADirectory.into()))
}

fn unusable(path: &Path, error: std::io::Error) -> ConfigError {
    ConfigError::Directory { path: path.to_owned(), reason: error.to_string() }
}

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Returns whether the directory has an entry of this name of any kind. A link named `agent.yaml` marks the root as well;
/// reading it is refused.
fn has(directory: &Path, name: &str) -> bool {
    open_directory(directory)
        .is_ok_and(|handle| rustix::fs::statat(handle, name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
}

fn read(root: &OwnedFd) -> Result<String, ConfigError> {
    let file =
        rustix::fs::openat(root, NAME, act_fs::READ, Mode::empty()).map_err(
            |error| match error {
                Errno::LOOP => ConfigError::NotAFile { what: "a symbolic link" },
                Errno::NXIO => ConfigError::NotAFile { what: "a socket" },
                other => {
                    ConfigError::Unreadable { reason: std::io::Error::from(other).to_string() }
                }
            },
        )?;
    let unreadable = |error: std::io::Error| ConfigError::Unreadable { reason: error.to_string() };
    let stat = rustix::fs::fstat(&file).map_err(|error| unreadable(error.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(ConfigError::NotAFile { what: "a directory" }),
        FileType::Fifo => return Err(ConfigError::NotAFile { what: "a FIFO" }),
        _ => return Err(ConfigError::NotAFile { what: "a special file" }),
    }
    let mut bytes = vec![];
    File::from(file).take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(ConfigError::TooLarge);
    }
    String::from_utf8(bytes)
        .map_err(|_| ConfigError::Unreadable { reason: "it is not UTF-8 text".into() })
}

/// Opens each part of the path without following links, so that the package is a real directory below the root.
fn check_package(root: &OwnedFd, package: &str) -> Result<(), &'static str> {
    let mut inside: Option<OwnedFd> = None;
    for part in package.split('/') {
        let above = inside.as_ref().unwrap_or(root);
        let next =
            rustix::fs::openat(above, part, act_fs::DIRECTORY, Mode::empty()).map_err(|error| {
                match error {
                    Errno::NOENT => "does not exist",
                    Errno::LOOP | Errno::NOTDIR => {
                        "is not a directory, or lies behind a symbolic link"
                    }
                    _ => "cannot be opened",
                }
            })?;
        inside = Some(next);
    }
    Ok(())
}
