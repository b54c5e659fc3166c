//! Tasks whose process died while they ran: found by whichever `act` comes next.

use crate::exit::Exit;
use crate::process::{self, Life, Process};
use crate::store::{Ended, Store, StoreError, TaskState};

/// In every repository. What is not known to be dead is left alone.
pub(super) fn bury(store: &Store, this: &Process) -> Result<(), StoreError> {
    for place in store.running()? {
        if place.owner.life(this, process::look) == Life::Dead {
            end(store, &place.task_id, &place.owner)?;
        }
    }
    Ok(())
}

/// The end of one of them; nothing when its owner is another one by now.
pub(super) fn end(store: &Store, task_id: &str, owner: &Process) -> Result<(), StoreError> {
    let how = Ended {
        state: TaskState::InfraError,
        exit_code: Exit::Infra as u8,
        reason: Some("interrupted".to_owned()),
    };
    store.end(task_id, owner, &how)?;
    Ok(())
}
