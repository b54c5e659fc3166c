//! Finds the repository and reads `agent.yaml` by directory handle, never through a link.

use std::io;
use std::path::{Path, PathBuf};

use act_fs::Dir;
use rustix::fs::FileType;
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
    let directory = Dir::open_following(&root).map_err(|error| unusable(&root, error))?;
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
    Err(unusable(start, io::ErrorKind::NotADirectory.into()))
}

fn unusable(path: &Path, error: io::Error) -> ConfigError {
    ConfigError::Directory { path: path.to_owned(), reason: error.to_string() }
}

/// Returns whether the directory has an entry of this name of any kind. A link named `agent.yaml` marks the root as well;
/// reading it is refused.
fn has(directory: &Path, name: &str) -> bool {
    Dir::open_following(directory)
        .is_ok_and(|handle| handle.contains(name).is_ok_and(|found| found))
}

fn read(root: &Dir) -> Result<String, ConfigError> {
    let unreadable = |error: io::Error| ConfigError::Unreadable { reason: error.to_string() };
    match FileType::from_raw_mode(root.stat(NAME).map_err(unreadable)?.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => return Err(ConfigError::NotAFile { what: "a symbolic link" }),
        FileType::Directory => return Err(ConfigError::NotAFile { what: "a directory" }),
        FileType::Fifo => return Err(ConfigError::NotAFile { what: "a FIFO" }),
        FileType::Socket => return Err(ConfigError::NotAFile { what: "a socket" }),
        _ => return Err(ConfigError::NotAFile { what: "a special file" }),
    }
    let bytes = root.read(NAME, MAX_SIZE).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => ConfigError::TooLarge,
        _ => unreadable(error),
    })?;
    String::from_utf8(bytes)
        .map_err(|_| ConfigError::Unreadable { reason: "it is not UTF-8 text".into() })
}

/// Opens each part of the path without following links, so that the package is a real directory below the root.
fn check_package(root: &Dir, package: &str) -> Result<(), &'static str> {
    let mut inside: Option<Dir> = None;
    for part in package.split('/') {
        let next = inside.as_ref().unwrap_or(root).subdirectory(part);
        inside = Some(next.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => "does not exist",
            Some(Errno::LOOP | Errno::NOTDIR) => "is not a directory, or is behind a symbolic link",
            _ => "cannot be opened",
        })?);
    }
    Ok(())
}
