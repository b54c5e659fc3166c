//! What was behind the end of a step: its own exit code, memory, the disk, or the end of the container.

use super::{Broken, ContainerSteps};
use crate::docker_error::EngineError;
use crate::oom::Kills;
use crate::pipeline::{KILLED, StepEnd};
use act_config::Step;
use act_core::verification::{ErrorType, InfraError};

/// Below this a failed step is blamed on the disk.
const FREE_SPACE: u64 = 1024 * 1024;

impl ContainerSteps<'_> {
    pub(super) async fn ended_early(&self, number: usize, error: EngineError) -> Broken {
        if error.unreachable() {
            return error.into();
        }
        match self.container.state().await {
            Ok(state) if !state.running && number == 1 && !state.oom_killed => {
                Broken::Infra(InfraError::new(
                    ErrorType::ContainerCreation,
                    "the container ended before the first step; an image needs `sleep` and a working /bin/sh",
                ))
            }
            Ok(state) if !state.running => {
                let step = self.gate.pipeline.steps.get(number - 1);
                Broken::Infra(
                    step.map_or_else(|| error.into(), |step| gone(step, state.oom_killed)),
                )
            }
            Ok(_) => error.into(),
            Err(error) => error.into(),
        }
    }

    /// What was behind a step's failure: memory, the disk, or the end of the container? A failed step ends the
    /// run, so the container may go to find out.
    pub(super) async fn examine(
        &mut self,
        step: &Step,
        end: StepEnd,
        seen: Kills,
    ) -> (StepEnd, bool) {
        let oom = &self.container.oom;
        let mut killed = oom.since(seen);
        let StepEnd::Exited(code) = end else { return (end, killed == Some(true)) };
        if code == 0 {
            return (end, killed == Some(true));
        }
        if code == KILLED {
            // Whoever ends the container kills the step first, and the engine tells of it a little later.
            if killed != Some(true) && oom.event_since(seen).await {
                killed = Some(true);
            }
            match self.container.state().await {
                Ok(state) if state.running => {}
                Ok(state) => {
                    let killed = killed == Some(true);
                    return (StepEnd::Infra(gone(step, killed || state.oom_killed)), killed);
                }
                Err(error) => return (StepEnd::Infra(error.into()), killed == Some(true)),
            }
        }
        if killed.is_none() && seen.none() {
            // The flag speaks of the whole container, so it counts only while no earlier step had an event.
            if let Err(error) = self.container.kill().await {
                return (StepEnd::Infra(error.into()), false);
            }
            killed = self.container.state().await.ok().map(|state| state.oom_killed);
        }
        let killed = killed == Some(true);
        match self.run.free_space() {
            Ok(free) if free < FREE_SPACE => {
                let error = InfraError::new(
                    ErrorType::ResourceExhaustion,
                    "the disk of the artifact directory is full; make room and run again",
                );
                (StepEnd::Infra(error), killed)
            }
            _ => (end, killed),
        }
    }
}

pub(super) fn gone(step: &Step, oom_killed: bool) -> InfraError {
    if oom_killed {
        InfraError::new(
            ErrorType::ResourceExhaustion,
            format!(
                "the container ran out of memory in step {:?}; raise verification.limits.memory_mb in \
                 agent.yaml",
                step.name
            ),
        )
    } else {
        InfraError::new(
            ErrorType::Unknown,
            format!(
                "the container ended while step {:?} ran, and not by this run; was it removed, or the \
                 engine restarted?",
                step.name
            ),
        )
    }
}
