//! What a run's steps amount to: order, stop at the first failure, verdict. Knows no engine.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::docker_error::InfraError;
use super::response::{ErrorType, FailReason, Warning};
use crate::artifacts::CommandExecuted;

/// The gate as it stood when the task started.
#[derive(Debug, Clone)]
pub struct Pipeline {
    pub image: String,
    pub steps: Vec<Step>,
    pub step_timeout: Duration,
    pub limits: Limits,
    pub workspace: Workspace,
    /// Globs of git-ignored files that the copy view needs.
    pub include: Vec<String>,
    /// For steps that do not say otherwise.
    pub network: bool,
    /// Directory of the repository in which the steps run.
    pub package: Option<String>,
    /// Digest of the `agent.yaml` that all of this came from.
    pub sha256: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub name: String,
    pub command: String,
    pub network: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    pub cpus: f64,
    pub memory_mb: u64,
    pub pids: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { cpus: 4.0, memory_mb: 8192, pids: 2048 }
    }
}

/// What the steps see as the repository.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Workspace {
    #[default]
    Auto,
    Copy,
    Overlay,
    Readonly,
}

impl Pipeline {
    pub fn network_of(&self, step: &Step) -> bool {
        step.network.unwrap_or(self.network)
    }
}

/// Runs one step; `pipeline` decides what its end means.
pub trait StepRunner: Send {
    /// `number` counts from 1.
    fn run<'a>(&'a mut self, number: usize, step: &'a Step) -> BoxFuture<'a, StepReport>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepReport {
    pub end: StepEnd,
    /// The kernel killed a process for memory while the step ran.
    pub oom: bool,
    pub duration: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepEnd {
    /// By itself, in a container that was alive.
    Exited(i64),
    TimedOut,
    Cancelled,
    Infra(InfraError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Fail(FailReason),
    Infra(InfraError),
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    pub verdict: Verdict,
    pub commands: Vec<CommandExecuted>,
    pub warnings: Vec<Warning>,
}

/// Exit code of a process killed by SIGKILL, as a shell reports it.
pub(super) const KILLED: i64 = 137;

/// Steps in order; the first that does not succeed is the last that runs.
pub async fn run_steps(pipeline: &Pipeline, runner: &mut dyn StepRunner) -> Judged {
    let mut judged = Judged { verdict: Verdict::Pass, commands: vec![], warnings: vec![] };
    for (number, step) in (1..).zip(&pipeline.steps) {
        let report = runner.run(number, step).await;
        judged.commands.push(record(pipeline, step, &report));
        judged.verdict = judge(pipeline, step, &report);
        if report.oom && !matches!(judged.verdict, Verdict::Infra(_)) {
            judged.warnings.push(oom_warning(Some(step)));
        }
        if judged.verdict != Verdict::Pass {
            break;
        }
    }
    judged
}

fn judge(pipeline: &Pipeline, step: &Step, report: &StepReport) -> Verdict {
    match &report.end {
        StepEnd::Exited(0) => Verdict::Pass,
        // 137 alone is any SIGKILL, the step's own included; memory takes the kernel's word as well.
        StepEnd::Exited(KILLED) if report.oom => Verdict::Infra(InfraError::new(
            ErrorType::ResourceExhaustion,
            format!(
                "step {:?} was killed at the memory limit of {} MiB; raise verification.limits.memory_mb \
                 in agent.yaml",
                step.name, pipeline.limits.memory_mb
            ),
        )),
        StepEnd::Exited(_) => Verdict::Fail(FailReason::StepFailed),
        StepEnd::TimedOut => Verdict::Fail(FailReason::Timeout),
        StepEnd::Cancelled => Verdict::Cancelled,
        StepEnd::Infra(error) => Verdict::Infra(error.clone()),
    }
}

fn record(pipeline: &Pipeline, step: &Step, report: &StepReport) -> CommandExecuted {
    CommandExecuted {
        name: step.name.clone(),
        command: step.command.clone(),
        exit_code: match report.end {
            StepEnd::Exited(code) => Some(code),
            _ => None,
        },
        duration_ms: u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
        timed_out: report.end == StepEnd::TimedOut,
        oom: report.oom,
        network: if pipeline.network_of(step) { "on" } else { "off" }.to_owned(),
        source_writes: vec![],
    }
}

pub(super) fn oom_warning(step: Option<&Step>) -> Warning {
    Warning {
        code: "oom".to_owned(),
        step: step.map(|step| step.name.clone()),
        message:
            "the kernel killed a process at the memory limit; raise verification.limits.memory_mb \
                  in agent.yaml if that was not meant"
                .to_owned(),
    }
}

/// A green run of a tree that changed under it says nothing about either tree.
pub(super) fn settle(verdict: Verdict, before: &str, after: &str) -> Verdict {
    match verdict {
        Verdict::Pass if before != after => Verdict::Fail(FailReason::TreeChanged),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Script {
        ends: Vec<(StepEnd, bool)>,
        ran: Vec<String>,
    }

    impl StepRunner for Script {
        fn run<'a>(&'a mut self, number: usize, step: &'a Step) -> BoxFuture<'a, StepReport> {
            Box::pin(async move {
                self.ran.push(step.name.clone());
                let (end, oom) = self.ends[number - 1].clone();
                StepReport { end, oom, duration: Duration::from_millis(7) }
            })
        }
    }

    fn pipeline(steps: usize) -> Pipeline {
        let step =
            |n| Step { name: format!("s{n}"), command: format!("c{n}"), network: Some(n == 1) };
        Pipeline {
            image: "image".into(),
            steps: (1..=steps).map(step).collect(),
            step_timeout: Duration::from_secs(1),
            limits: Limits::default(),
            workspace: Workspace::Auto,
            include: vec![],
            network: false,
            package: None,
            sha256: "0".into(),
        }
    }

    fn judged(ends: Vec<(StepEnd, bool)>) -> (Judged, Vec<String>) {
        let mut script = Script { ends, ran: vec![] };
        let pipeline = pipeline(script.ends.len());
        let judged =
            futures_util::future::FutureExt::now_or_never(run_steps(&pipeline, &mut script));
        (judged.unwrap(), script.ran)
    }

    const GREEN: (StepEnd, bool) = (StepEnd::Exited(0), false);

    // VERIFIER-11
    #[test]
    fn passes_when_every_step_exits_with_zero_in_order() {
        let (judged, ran) = judged(vec![GREEN, GREEN]);
        assert_eq!(judged.verdict, Verdict::Pass);
        assert_eq!(ran, ["s1", "s2"]);
        let networks: Vec<_> = judged.commands.iter().map(|c| c.network.as_str()).collect();
        assert_eq!(networks, ["on", "off"]);
        assert_eq!(judged.commands[0].exit_code, Some(0));
    }

    // VERIFIER-11
    #[test]
    fn the_first_failing_step_is_the_last_that_runs() {
        let (judged, ran) = judged(vec![GREEN, (StepEnd::Exited(3), false), GREEN]);
        assert_eq!(judged.verdict, Verdict::Fail(FailReason::StepFailed));
        assert_eq!(ran, ["s1", "s2"]);
        assert_eq!(judged.commands.len(), 2);
        assert_eq!(judged.commands[1].exit_code, Some(3));
    }

    // VERIFIER-14
    #[test]
    fn a_timeout_fails_and_skips_what_follows() {
        let (judged, ran) = judged(vec![(StepEnd::TimedOut, false), GREEN]);
        assert_eq!(judged.verdict, Verdict::Fail(FailReason::Timeout));
        assert_eq!(ran, ["s1"]);
        assert!(judged.commands[0].timed_out);
        assert_eq!(judged.commands[0].exit_code, None);
    }

    // VERIFIER-21, security line 99
    #[test]
    fn only_137_together_with_an_oom_is_resource_exhaustion() {
        let verdict = |code, oom| judged(vec![(StepEnd::Exited(code), oom)]).0;
        let exhausted = verdict(137, true);
        assert!(
            matches!(&exhausted.verdict, Verdict::Infra(error)
                if error.error_type == ErrorType::ResourceExhaustion
                    && error.message.contains("8192 MiB")),
            "{exhausted:?}"
        );
        assert!(exhausted.commands[0].oom);
        assert_eq!(verdict(137, false).verdict, Verdict::Fail(FailReason::StepFailed));
    }

    // VERIFIER-21, security line 100
    #[test]
    fn an_oom_that_the_step_survives_is_a_warning() {
        let (green, _) = judged(vec![(StepEnd::Exited(0), true), GREEN]);
        assert_eq!(green.verdict, Verdict::Pass);
        assert_eq!(green.warnings, [oom_warning(Some(&pipeline(1).steps[0]))]);
        let (red, _) = judged(vec![(StepEnd::Exited(1), true)]);
        assert_eq!(red.verdict, Verdict::Fail(FailReason::StepFailed));
        assert_eq!(red.warnings.len(), 1);
    }

    // VERIFIER-12
    #[test]
    fn a_green_run_of_a_changed_tree_fails_and_a_red_one_keeps_its_reason() {
        let changed = |verdict| settle(verdict, "before", "after");
        assert_eq!(changed(Verdict::Pass), Verdict::Fail(FailReason::TreeChanged));
        let timeout = Verdict::Fail(FailReason::Timeout);
        assert_eq!(changed(timeout.clone()), timeout);
        assert_eq!(settle(Verdict::Pass, "same", "same"), Verdict::Pass);
    }
}
