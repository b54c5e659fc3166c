//! Slots: how many runs an engine of `engines.toml` has at once, of everybody who shares it.
//!
//! A slot is the name of a container that never starts. An engine gives a name once, so hosts need nothing else between them.
//! The labels name the owner as those of every container do, so the slot of a dead process is freed with the rest that it
//! left.

use crate::container::{Guard, requested};
use crate::docker_verifier::{DockerVerifier, unrecorded};
use crate::engine::{BOOT_ID, Engine, PID, UID};
use crate::engine_error::EngineError;
use crate::request::{ContainerRequest, Role};
use act_core::process::Process;
use act_core::verification::{ErrorType, InfraError};
use act_records::artifacts::RunDir;
use std::fmt;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Pause before a waiting run looks again. A run takes seconds, and a look is one question.
const PAUSE: Duration = Duration::from_millis(500);
/// Pause before a waiting run looks for slots of dead processes again.
const REAPING: Duration = Duration::from_secs(10);
/// The name of a slot ends with its number, from 1.
const NAME: &str = "act-slot-";

/// The permission to run on an engine, until it is released or dropped. Engines without a number of slots give it to everybody.
pub(crate) struct Slot(Option<Guard>);

impl Slot {
    /// Frees the slot.
    pub(crate) async fn release(self) -> Result<(), EngineError> {
        match self.0 {
            Some(guard) => guard.remove().await,
            None => Ok(()),
        }
    }
}

/// A slot that somebody has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TakenSlot {
    pub number: u32,
    /// The process and the user that have it, as its labels say. They are those of another machine unless `is_here` is set.
    pub pid: Option<u32>,
    pub uid: Option<u32>,
    pub is_here: bool,
}

impl fmt::Display for TakenSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} by ", self.number)?;
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => write!(f, "a container that act did not make")?,
        }
        if let Some(uid) = self.uid {
            write!(f, " of user {uid}")?;
        }
        if self.pid.is_some() && !self.is_here {
            write!(f, " on another machine")?;
        }
        Ok(())
    }
}

impl DockerVerifier {
    /// Waits for a slot of the engine, and says once to the person what the run waits for. Returns `None` when cancelled.
    ///
    /// # Errors
    /// The engine or the audit log fails.
    pub(crate) async fn slot(
        &self,
        run: &RunDir,
        cancel: &CancellationToken,
    ) -> Result<Option<Slot>, InfraError> {
        let Some(count) = self.engine.slots() else { return Ok(Some(Slot(None))) };
        let (mut said, mut reaped) = (false, Instant::now());
        loop {
            let taken = self.engine.taken_slots().await?;
            let is_free = |number: &u32| taken.iter().all(|slot| slot.number != *number);
            for number in (1..=count).filter(is_free) {
                if cancel.is_cancelled() {
                    return Ok(None);
                }
                if let Some(guard) = self.take(format!("{NAME}{number}"), run).await? {
                    return Ok(Some(Slot(Some(guard))));
                }
            }
            if !said && !taken.is_empty() {
                said = true;
                let name = self.engine.identity().entry.as_deref().unwrap_or_default();
                let owners: Vec<_> = taken.iter().map(TakenSlot::to_string).collect();
                self.events.inform(format!(
                    "waiting for a free slot of the engine {name}, which has {count}: {}",
                    owners.join(", ")
                ));
            }
            if reaped.elapsed() >= REAPING {
                // A slot that cannot be removed stays taken.
                let _ = self.engine.reap_orphans().await;
                reaped = Instant::now();
            }
            if cancel.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
                return Ok(None);
            }
        }
    }

    /// Takes the slot with this name, or returns `None` if somebody has it.
    async fn take(&self, name: String, run: &RunDir) -> Result<Option<Guard>, InfraError> {
        let request = ContainerRequest::helper(&self.image, vec![], 1, self.labels(run));
        let request = ContainerRequest { role: Role::Name, ..request };
        self.audit.append(requested(&self.engine, &name, &request)).map_err(unrecorded)?;
        let engine = self.engine.clone();
        // A task of its own, because a creation that nobody waits for any more has to end with a guard all the same. The guard
        // is not armed earlier: it would remove the slot of somebody else.
        let taken = tokio::spawn(async move {
            match engine.create(&name, &request).await {
                Ok(()) => {
                    let by_name = Guard::arm(&engine, &name, vec![]);
                    let Some(id) = engine.inspect(&name).await?.id else {
                        return Ok(Some(by_name));
                    };
                    // By its id, because after a long sleep of this machine somebody else may have the name.
                    by_name.disarm();
                    Ok(Some(Guard::arm(&engine, &id, vec![])))
                }
                // Engines report in different ways that a name is taken.
                Err(error) => engine.inspect(&name).await.map(|_| None).map_err(|_| error),
            }
        });
        let failed = || InfraError::new(ErrorType::Unknown, "the program is shutting down");
        Ok(taken.await.map_err(|_| failed())??)
    }
}

impl Engine {
    /// Lists the slots that are taken, by their numbers.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn taken_slots(&self) -> Result<Vec<TakenSlot>, InfraError> {
        let boot = Process::this().boot_id;
        let mut taken: Vec<_> = self
            .containers_of_runs()
            .await?
            .into_iter()
            .filter_map(|found| {
                let number = slot_number(found.name.as_deref()?)?;
                let label = |name: &str| found.labels.get(name).map(String::as_str);
                let number_of = |name: &str| label(name).and_then(|text| text.parse().ok());
                let is_here = label(BOOT_ID) == Some(boot.as_str());
                Some(TakenSlot { number, pid: number_of(PID), uid: number_of(UID), is_here })
            })
            .collect();
        taken.sort();
        Ok(taken)
    }

    /// Returns how many runs could begin at once now, or `None` for as many as want.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn free_slots(&self) -> Result<Option<u32>, InfraError> {
        let Some(count) = self.slots() else { return Ok(None) };
        let taken = self.taken_slots().await?;
        let taken = taken.iter().filter(|slot| slot.number <= count).count();
        Ok(Some(count.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX))))
    }
}

fn slot_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(NAME)?;
    let number = digits.parse().ok()?;
    // Others could choose another spelling of a number.
    (number > 0 && digits == u32::to_string(&number)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    // ENGINE-5
    #[test]
    fn a_slot_is_named_by_its_number_and_its_owner_by_numbers_alone() {
        assert_eq!(slot_number("act-slot-12"), Some(12));
        for odd in
            ["act-slot-", "act-slot-0", "act-slot-01", "act-slot-+1", "act-slot-x", "act-run"]
        {
            assert_eq!(slot_number(odd), None, "{odd}");
        }
        let slot = TakenSlot { number: 2, pid: Some(7), uid: Some(1000), is_here: true };
        assert_eq!(slot.to_string(), "slot 2 by process 7 of user 1000");
        let away = TakenSlot { is_here: false, ..slot };
        assert_eq!(away.to_string(), "slot 2 by process 7 of user 1000 on another machine");
        let odd = TakenSlot { pid: None, uid: None, ..away };
        assert_eq!(odd.to_string(), "slot 2 by a container that act did not make");
    }
}
