//! One run's directory: made by handle, written by the host alone where the host's files are.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use super::archive::{Allowance, LeftOut, unpack};
use super::cache::Cache;
use super::tree::{Swept, sweep};
use super::tree::{open_any, remove_tree};
use act_core::RunId;
use act_core::verification::Manifest;
use act_fs::{Dir, Durability};

/// The parts that steps may write; each is mounted by itself, so `logs` and the manifest stay out of reach.
pub const STEP_PARTS: [&str; 5] = ["build", "tmp", "db", "snapshots", "home"];

/// What the host lends to the container: small files, and the two layers of an overlay.
const LENT: &str = "lent";
const VIEW: &str = "view";
const OVERLAY: &str = "overlay";
/// Of a run that cannot have the shared one.
const CACHE: &str = "cache";

/// Longest part of a step's name that its log file carries.
const MAX_NAME: usize = 100;

#[derive(Debug)]
pub struct RunDir {
    id: RunId,
    path: PathBuf,
    handle: Dir,
    logs: Dir,
}

/// Below `path` lie `lower`, a link, and `upper` and `work`, which are new.
#[derive(Debug)]
pub struct OverlayDirs {
    pub path: PathBuf,
    pub upper: OwnedFd,
}

impl RunDir {
    pub(super) fn new(id: RunId, path: PathBuf, handle: Dir) -> io::Result<Self> {
        let logs = handle.private_subdirectory("logs")?;
        for part in STEP_PARTS {
            handle.private_subdirectory(part)?;
        }
        Ok(Self { id, path, handle, logs })
    }

    pub fn id(&self) -> &RunId {
        &self.id
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the copy view goes, made new, and its path. It is mounted by itself at `build/tree`: a mount point
    /// cannot be moved away to put another tree in its place.
    pub fn create_view(&self) -> io::Result<(OwnedFd, PathBuf)> {
        self.handle.private_subdirectory("build")?.private_subdirectory("tree")?;
        Ok((self.handle.create_subdirectory(VIEW)?.into(), self.path.join(VIEW)))
    }

    /// A new file for the container, which only the host writes.
    pub fn lend_file(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let mut file = self.handle.private_subdirectory(LENT)?.create(name)?;
        file.write_all(bytes)?;
        // Steps may run under another uid.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o444))?;
        Ok(self.path.join(LENT).join(name))
    }

    /// A cache for this run alone.
    pub fn private_cache(&self) -> io::Result<Cache> {
        Ok(Cache::new(self.path.join(CACHE), self.handle.private_subdirectory(CACHE)?))
    }

    /// The writable layers of an overlay over `lower`, made new. The lower one gets a name without the
    /// characters that mean something among mount options.
    pub fn create_overlay(&self, lower: &Path) -> io::Result<OverlayDirs> {
        let overlay = self.handle.create_subdirectory(OVERLAY)?;
        let upper = overlay.private_subdirectory("upper")?;
        overlay.private_subdirectory("work")?;
        // The root of the overlay is what the upper layer's root is.
        rustix::fs::fchmod(&upper, Mode::from_raw_mode(0o755))?;
        rustix::fs::symlinkat(lower, &overlay, "lower")?;
        Ok(OverlayDirs { path: self.path.join(OVERLAY), upper: upper.into() })
    }

    /// A new file below `logs`.
    pub fn create_log(&self, name: &str) -> io::Result<File> {
        self.logs.create(name)
    }

    /// Whole or not at all: written beside, synced, then renamed.
    pub fn write_manifest(&self, manifest: &Manifest) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(manifest)?;
        text.push(b'\n');
        self.handle.replace("manifest.json", &text, Durability::Contents)
    }

    /// Takes one of the parts that steps wrote, as an engine archived it, into its empty directory.
    pub fn receive(
        &self,
        part: &str,
        archive: impl Read,
        allowance: &mut Allowance,
    ) -> io::Result<LeftOut> {
        unpack(self.handle.private_subdirectory(part)?.into(), archive, allowance)
    }

    /// Removes the view and what was lent. Only after the container is gone.
    pub fn remove_scratch(&self) -> io::Result<()> {
        // A step may have closed the directory itself.
        remove_tree(&open_any(self.handle.as_fd(), &CString::new("build")?)?, "tree")?;
        remove_tree(&self.handle, VIEW)?;
        remove_tree(&self.handle, OVERLAY)?;
        remove_tree(&self.handle, CACHE)?;
        remove_tree(&self.handle, LENT)
    }

    /// Takes away what must not survive in the parts that steps wrote. Only after the container is gone.
    pub fn sweep(&self) -> io::Result<Swept> {
        let mut swept = Swept::default();
        for part in STEP_PARTS {
            match open_any(self.handle.as_fd(), &CString::new(part)?) {
                Ok(part) => swept += sweep(part)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(swept)
    }

    /// What the run left, as absolute paths: manifest, logs, and the parts that steps wrote something into.
    pub fn artifact_paths(&self) -> io::Result<Vec<String>> {
        let mut found = vec![];
        if self.handle.stat("manifest.json").is_ok() {
            found.push("manifest.json".to_owned());
        }
        let mut logs = names(&self.logs)?;
        logs.sort();
        found.extend(logs.into_iter().map(|name| format!("logs/{name}")));
        for part in STEP_PARTS {
            if let Ok(part_handle) = self.handle.subdirectory(part)
                && !names(&part_handle)?.is_empty()
            {
                found.push(part.to_owned());
            }
        }
        let absolute = |name: String| self.path.join(name).to_string_lossy().into_owned();
        Ok(found.into_iter().map(absolute).collect())
    }

    /// Bytes that an ordinary user can still write on the run's file system.
    pub fn free_space(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(self.handle.as_fd())?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// At most so many that a directory full of names costs nothing.
fn names(directory: &Dir) -> io::Result<Vec<String>> {
    const MOST: usize = 1000;
    let names = directory.names(MOST)?;
    Ok(names.iter().map(|name| name.to_string_lossy().into_owned()).collect())
}

/// `step-{nn}-{name}.log`, counted from 1; what is not `[A-Za-z0-9._-]` in a name becomes `_`.
pub fn log_name(number: usize, step: &str) -> String {
    format!("step-{number:02}-{}.log", safe_name(step))
}

pub(super) fn safe_name(step: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    step.chars().take(MAX_NAME).map(|c| if kept(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARTIFACT-5
    #[test]
    fn a_step_log_is_numbered_and_its_name_is_one_harmless_component() {
        assert_eq!(log_name(1, "test"), "step-01-test.log");
        assert_eq!(log_name(12, "../a b/ü\n"), "step-12-.._a_b___.log");
        assert_eq!(log_name(3, &"x".repeat(5_000)).len(), "step-03-.log".len() + MAX_NAME);
    }
}
