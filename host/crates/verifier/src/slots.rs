//! Slots: how many runs an engine of `engines.toml` has at once, of everybody who shares it.
//!
//! A slot is the name of a container that never starts. An engine gives a name once, so hosts share it with nothing else between
//! them. The labels name the owner as those of every container do, so the slot of a dead process is freed with the rest that it
//! left.

use crate::container::{Guard, requested};
use crate::docker_verifier::{DockerVerifier, unrecorded};
use crate::engine::Engine;
use crate::engine_error::EngineError;
use crate::request::ContainerRequest;
use act_core::verification::{ErrorType, InfraError};
use act_records::artifacts::RunDir;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Pause before a waiting run looks again. A run takes seconds, and a look is one question for each slot.
const PAUSE: Duration = Duration::from_millis(500);
/// Pause before a waiting run looks for slots of dead processes again.
const REAPING: Duration = Duration::from_secs(10);
/// The name of a slot ends with its number.
const NAME: &str = "act-slot-";

/// The number of runs at once on an engine, and the name that the user gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slots {
    pub(crate) engine: String,
    pub(crate) count: u32,
}

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

impl DockerVerifier {
    /// Waits for a slot of the engine, and tells the person what it waits for. Returns `None` when cancelled.
    ///
    /// # Errors
    /// The engine or the audit log fails.
    pub(crate) async fn slot(
        &self,
        run: &RunDir,
        cancel: &CancellationToken,
    ) -> Result<Option<Slot>, InfraError> {
        let Some(slots) = self.engine.slots() else { return Ok(Some(Slot(None))) };
        let (mut told, mut reaped) = (false, Instant::now());
        loop {
            for number in 1..=slots.count {
                if cancel.is_cancelled() {
                    return Ok(None);
                }
                if let Some(guard) = self.take(format!("{NAME}{number}"), run).await? {
                    return Ok(Some(Slot(Some(guard))));
                }
            }
            if !told {
                told = true;
                let Slots { engine, count } = slots;
                let owners = self.engine.taken_slots().await.unwrap_or_default().join(", ");
                self.events.inform(format!(
                    "waiting for the engine {engine}: its {count} slots are taken ({owners})"
                ));
            }
            if reaped.elapsed() >= REAPING {
                // A slot that cannot be removed is taken.
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
        match self.engine.inspect(&name).await {
            Ok(_) => return Ok(None),
            Err(error) if error.status() == Some(404) => {}
            Err(error) => return Err(error.into()),
        }
        let request = ContainerRequest::helper(&self.image, vec![], 1, self.labels(run));
        self.audit.append(requested(&self.engine, &name, &request)).map_err(unrecorded)?;
        let engine = self.engine.clone();
        // A task of its own, because a creation that nobody waits for any more has to end with a guard all the same. The guard
        // is not armed earlier: it would remove the slot of somebody else.
        let taken = tokio::spawn(async move {
            match engine.create(&name, &request).await {
                Ok(()) => Ok(Some(Guard::arm(&engine, &name, vec![]))),
                // Engines report in different ways that a name is taken.
                Err(error) => engine.inspect(&name).await.map(|_| None).map_err(|_| error),
            }
        });
        let failed = || InfraError::new(ErrorType::Unknown, "the program is shutting down");
        Ok(taken.await.map_err(|_| failed())??)
    }
}

impl Engine {
    /// Lists the slots that are taken, each with its owner.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn taken_slots(&self) -> Result<Vec<String>, InfraError> {
        let mut taken: Vec<_> = self
            .containers_of_runs()
            .await?
            .into_iter()
            .filter(|found| found.name.as_deref().is_some_and(|name| name.starts_with(NAME)))
            .map(|found| {
                let label = |name: &str| found.labels.get(name).map_or("?", String::as_str);
                let name = found.name.as_deref().unwrap_or_default();
                format!("{name} by process {} of user {}", label("act.pid"), label("act.uid"))
            })
            .collect();
        taken.sort();
        Ok(taken)
    }
}
