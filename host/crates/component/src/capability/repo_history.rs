//! The capability `repo.history`: which files the newest commits of git changed, through `repo/history`. Only paths that
//! the view shows are in an answer, so the view is needed too. Authors, messages and times of commits reach no component.

use wasmtime::component::{HasSelf, Linker};

use super::{Access, Capability, Grant, Import, Metered, NoCeiling};
use crate::bindings::history::{self, Change, Changes, Host};
use crate::bindings::types::Refusal;
use crate::call::State;
use crate::limits::Limits;
use crate::meter::Count;
use act_workspace::{CommitFiles, History, HistoryLimits};

/// The object of the access in records.
const OBJECT: &str = "repo.history";

pub(crate) struct Rules;

impl super::Rules for Rules {
    type Bounds = bool;
    type Ceiling = NoCeiling;
    type Meters = HistoryMeters;
    const MEANING: &'static str =
        "learns which files changed together in git's history, not who changed them or why";

    fn meters(_granted: &bool, _limits: &Limits) -> HistoryMeters {
        HistoryMeters::default()
    }

    fn is_behind(import: &Import<'_>) -> bool {
        import.interface == "agentcommand:repo/history"
    }

    fn covers(grant: &Grant, _access: &Access) -> bool {
        grant.repo_history
    }

    fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
        history::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
    }
}

#[derive(Debug, Default)]
pub(crate) struct HistoryMeters {
    asked: Count,
    commits: Count,
}

impl Metered for HistoryMeters {
    fn is_used(&self) -> bool {
        self.asked.get() > 0
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("commits", self.commits.get())]
    }
}

impl Host for State {
    fn recent_changes(&mut self, limit: u32) -> wasmtime::Result<Result<Changes, Refusal>> {
        self.call.go_on()?;
        if !self.call.grant.repo_history {
            return Ok(Err(self.call.refuse(Capability::RepoHistory, OBJECT)));
        }
        let Some(reading) = &self.call.read else {
            return Ok(Err(self.call.refuse(Capability::RepoRead, OBJECT)));
        };
        let most = HistoryLimits::default();
        let room = usize::try_from(self.call.grant.limits.host_call_bytes).unwrap_or(usize::MAX);
        let found = act_workspace::history(
            &reading.view,
            HistoryLimits {
                commits: most.commits.min(limit as usize),
                answer_bytes: most.answer_bytes.min(room),
                ..most
            },
        );
        // A stopped call gets no answer, not even with the commits that were looked at.
        self.call.go_on()?;
        let meters = &self.call.meters.repo_history;
        meters.asked.add(1);
        meters.commits.add(found.commits.into());
        let History { paths, changes, commits, complete } = found;
        let is_all =
            complete && (limit as usize <= most.commits || (commits as usize) < most.commits);
        let items = changes.into_iter().map(|CommitFiles { age, files }| Change { age, files });
        Ok(Ok(Changes { paths, items: items.collect(), commits, complete: is_all }))
    }
}
