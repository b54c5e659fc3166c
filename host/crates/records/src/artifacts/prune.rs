//! Makes room: removes the runs that `retention` names, while others create, use and remove.
//!
//! A run is live as long as somebody holds an exclusive lock on its directory; the system lets go of it with
//! the process, so a killed host leaves no run that can never go. One remover at a time decides, and gives
//! what goes another name in the same moment; the slow part comes afterwards. What a killed remover leaves
//! has that other name, and the next one goes on with it.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rustix::fs::{FileType, renameat};
use rustix::io::Errno;

use super::layout::ArtifactDir;
use super::remove::{open_any, remove_tree_while};
use super::retention::{Kept, RUNS, expired};
use act_core::RunId;
use act_core::fail_point;
use act_fs::Dir;
use act_fs::lock::{self, Kind};

/// What a run is called from the moment it goes.
const REMOVING: &str = ".removing-";
/// Another remover decides in milliseconds; one that does not is stopped, and this is not worth waiting for.
const TURN: Duration = Duration::from_secs(2);

/// What one round removed.
#[derive(Debug, Default)]
pub struct Pruned {
    pub runs: Vec<RunId>,
    /// Runs that could not be looked at or removed, and why.
    pub left: Vec<(RunId, io::Error)>,
}

impl ArtifactDir {
    /// Removes what is too old or too many. `pinned` is asked once everything live is known: whoever pins his
    /// runs before he lets go of them finds them again. If it fails, nothing is removed. As soon as `go_on` says no,
    /// what has not gone by then is left to the next round.
    pub fn prune(
        &self,
        now: DateTime<Utc>,
        go_on: &dyn Fn() -> bool,
        pinned: impl FnOnce() -> io::Result<BTreeSet<RunId>>,
    ) -> io::Result<Pruned> {
        let mut pruned = Pruned::default();
        let Some(turn) = self.turn(go_on)? else { return Ok(pruned) };
        fail_point::reach("deciding_what_goes");
        let (mut runs, mut removing) = self.runs(&mut pruned.left)?;
        let pinned = pinned()?;
        for run in &mut runs {
            run.spared |= pinned.contains(&run.name);
        }
        for Kept { name: run, .. } in expired(runs, RUNS, now) {
            match self.set_aside(&run) {
                Ok(true) => removing.push(run),
                Ok(false) => {}
                Err(error) => pruned.left.push((run, error)),
            }
        }
        drop(turn);
        fail_point::reach("set_aside");
        for run in removing {
            if !go_on() {
                break;
            }
            match self.remove(&run, go_on) {
                Ok(true) => {
                    pruned.runs.push(run);
                    fail_point::reach("run_removed");
                }
                Ok(false) => {}
                Err(error) => pruned.left.push((run, error)),
            }
        }
        Ok(pruned)
    }

    /// The right to decide; none while another remover has it for long.
    fn turn(&self, go_on: &dyn Fn() -> bool) -> io::Result<Option<Dir>> {
        // A handle of its own, because a lock belongs to the handle.
        let turn = self.runs_handle().reopen()?;
        let ours = lock::wait_while(&turn, Kind::Exclusive, TURN, go_on)?;
        Ok(ours.then_some(turn))
    }

    /// Runs with their age and whether they are live, and those that another round has begun to remove.
    /// Whatever else lies there is nobody's business; a run that cannot be looked at goes to `left`.
    fn runs(
        &self,
        left: &mut Vec<(RunId, io::Error)>,
    ) -> io::Result<(Vec<Kept<RunId>>, Vec<RunId>)> {
        let (mut runs, mut removing) = (vec![], vec![]);
        for name in self.runs_handle().names(usize::MAX)? {
            let Ok(text) = name.to_str() else { continue };
            if let Some(run) = text.strip_prefix(REMOVING).and_then(|id| RunId::parse(id).ok()) {
                removing.push(run);
            } else if let Ok(run) = RunId::parse(text) {
                match self.open_real(&name) {
                    Ok(Some(handle)) => {
                        let live = !lock::try_lock(&handle, Kind::Shared)?;
                        runs.push(Kept { since: run.time(), name: run, spared: live });
                    }
                    Ok(None) => {}
                    Err(error) => left.push((run, error)),
                }
            }
        }
        Ok((runs, removing))
    }

    /// A directory that is one; none for a link, a file or what has just gone.
    fn open_real(&self, name: &CStr) -> io::Result<Option<Dir>> {
        let runs = self.runs_handle();
        match runs.stat(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory => {
                return Ok(None);
            }
            Ok(_) => {}
        }
        match open_any(runs.as_fd(), name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(|handle| Some(handle.into())),
        }
    }

    /// Takes a run's name away, unless it has become live.
    fn set_aside(&self, run: &RunId) -> io::Result<bool> {
        let Some(handle) = self.open_real(&CString::new(run.as_str())?)? else { return Ok(false) };
        if !lock::try_lock(&handle, Kind::Exclusive)? {
            return Ok(false);
        }
        let runs = self.runs_handle();
        match renameat(runs, run.as_str(), runs, format!("{REMOVING}{run}")) {
            Ok(()) => Ok(true),
            // The leftover of that name goes first, in this round.
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// False when somebody else is at it or has done it, and when it is not wanted any more.
    fn remove(&self, run: &RunId, go_on: &dyn Fn() -> bool) -> io::Result<bool> {
        let name = format!("{REMOVING}{run}");
        let Some(handle) = self.open_real(&CString::new(name.as_str())?)? else { return Ok(false) };
        if !lock::try_lock(&handle, Kind::Exclusive)? {
            return Ok(false);
        }
        remove_tree_while(self.runs_handle(), &name, go_on)
    }
}
