//! The gate of a task: `agent.yaml` as it stood when the task started, in the Verifier's words.

use crate::config::{self, Config};
use crate::verifier::{Limits, Pipeline, Step, Workspace};

pub(super) fn of(config: &Config) -> Pipeline {
    let asked = &config.pipeline;
    let step = |step: &config::Step| Step {
        name: step.name.clone(),
        command: step.command.clone(),
        network: Some(step.network),
    };
    Pipeline {
        image: asked.image.clone(),
        steps: asked.steps.iter().map(step).collect(),
        step_timeout: config.step_timeout,
        limits: Limits {
            cpus: asked.limits.cpus,
            memory_mb: asked.limits.memory_mb,
            pids: i64::try_from(asked.limits.pids).unwrap_or(i64::MAX),
        },
        workspace: match asked.workspace {
            config::Workspace::Auto => Workspace::Auto,
            config::Workspace::Copy => Workspace::Copy,
            config::Workspace::Overlay => Workspace::Overlay,
            config::Workspace::Readonly => Workspace::Readonly,
        },
        include: asked.include.clone(),
        network: true,
        package: config.monorepo_package.clone(),
        sha256: config.sha256.clone(),
    }
}
