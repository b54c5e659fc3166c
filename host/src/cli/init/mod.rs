//! `act init`: an `agent.yaml` to begin with. Written once and new, never over anything, never through a link.

mod starter;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::config::{self, Root};
use crate::exit::Exit;
use crate::output::{Failure, Line, Output, Tone};
use crate::workspace::{Profile, RepoView, Slice, read};
use starter::Manifests;

const NAME: &str = "agent.yaml";
/// Of a manifest; where it names its scripts.
const MANIFEST: u64 = 256 * 1024;

/// Write an agent.yaml to begin with
///
/// Image and steps come from the manifests of the project. Look at them before the first task: they decide
/// when a task is done. An agent.yaml that is there is never touched.
#[derive(Debug, clap::Args)]
pub(super) struct Init {
    /// Repository, or a directory in it
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
}

impl Init {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let root = match config::find_root(&self.repo)? {
            Some(Root { path, has_config: true }) => return Err(exists(&path)),
            Some(Root { path, has_config: false }) => path,
            None => self.repo.canonicalize().map_err(|error| unwritable(&self.repo, &error))?,
        };
        let manifests = look(&root);
        let starter = starter::choose(&manifests);
        write(&root, &starter.yaml()).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&root),
            _ => unwritable(&root, &error),
        })?;
        let path = root.join(NAME);
        output.result_line(
            &Line::of(Tone::Good, "Wrote")
                .and(Tone::Plain, format!(" {} for {}", path.display(), starter.kind)),
        );
        output.result_line(&Line::plain(format!("  image  {}", starter.image)));
        for (name, command) in &starter.steps {
            output.result_line(&Line::plain(format!("  step   {name}: {command}")));
        }
        output.result_line(&Line::plain(starter.check()));
        output.result_line(&Line::plain("Then: act doctor"));
        Ok(Exit::Ok)
    }
}

/// The manifests of the root, read like a Scout reads: by handle and bounded.
fn look(root: &Path) -> Manifests {
    let Ok(view) = RepoView::open(root, Profile::Scout) else { return Manifests::default() };
    let text = |name: &str| {
        let slice = Slice { path: name.to_owned(), length: Some(MANIFEST), ..Slice::default() };
        let chunk = read(&view, &slice, None).ok()?;
        Some(String::from_utf8_lossy(&chunk.bytes).into_owned())
    };
    let found = starter::NAMES.iter().filter_map(|name| Some(((*name).to_owned(), text(name)?)));
    Manifests(found.collect())
}

fn write(root: &Path, text: &str) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(root, flags, Mode::empty())?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&directory, NAME, flags, Mode::from_raw_mode(0o644));
    let mut file = File::from(file.map_err(|error| match error {
        Errno::LOOP => Errno::EXIST,
        other => other,
    })?);
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn exists(root: &Path) -> Failure {
    Failure::refused("config_exists", format!("{} exists", root.join(NAME).display()))
        .hint("change it by hand, or remove it first; `act doctor` says what is wrong with it")
}

fn unwritable(root: &Path, error: &io::Error) -> Failure {
    let message = format!("{NAME} cannot be written in {}: {error}", root.display());
    Failure::refused("config_unwritable", message).hint("name a directory that you may write")
}
