//! What a run's steps amount to: order, stop at the first failure, verdict. Knows no engine.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::source_writes::{Writes, listed};
use act_config::{Config, Pipeline, SourceWrites, Step};
use act_core::verification::{
    CommandExecuted, ErrorType, FailReason, InfraError, Verdict, Warning, WarningCode,
};

/// What a run judges by: `agent.yaml` as it stood when the task started.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    pub pipeline: Pipeline,
    pub step_timeout: Duration,
    /// Directory of the repository in which the steps run.
    pub package: Option<String>,
    /// Digest of the `agent.yaml` that all of this came from.
    pub sha256: String,
}

impl Gate {
    pub fn of(config: &Config) -> Self {
        Self {
            pipeline: config.pipeline.clone(),
            step_timeout: config.step_timeout,
            package: config.monorepo_package.clone(),
            sha256: config.sha256.clone(),
        }
    }
}

/// Runs one step; `pipeline` decides what its end means.
pub(crate) trait StepRunner: Send {
    /// `number` counts from 1.
    fn run<'a>(&'a mut self, number: usize, step: &'a Step) -> BoxFuture<'a, StepReport>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepReport {
    pub end: StepEnd,
    /// The kernel killed a process for memory while the step ran.
    pub oom: bool,
    pub duration: Duration,
    pub(crate) writes: Writes,
    /// What else the host noticed.
    pub(crate) warnings: Vec<Warning>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepEnd {
    /// By itself, in a container that was alive.
    Exited(i64),
    TimedOut,
    Cancelled,
    Infra(InfraError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepResults {
    pub verdict: Verdict,
    pub commands: Vec<CommandExecuted>,
    pub warnings: Vec<Warning>,
}

/// Exit code of a process killed by SIGKILL, as a shell reports it.
pub(crate) const KILLED: i64 = 137;

/// Runs the steps in order; the first one that does not succeed is the last one that runs. Returns `None` when the run
/// was cancelled.
pub(crate) async fn run_steps(
    pipeline: &Pipeline,
    runner: &mut dyn StepRunner,
) -> Option<StepResults> {
    let warnings = cut_off_warning(pipeline).into_iter().collect();
    let mut judged = StepResults { verdict: Verdict::Pass, commands: vec![], warnings };
    for (number, step) in (1..).zip(&pipeline.steps) {
        let mut report = runner.run(number, step).await;
        judged.commands.push(record(step, &report));
        judged.verdict = judge(pipeline, step, &report)?;
        if report.oom && !matches!(judged.verdict, Verdict::Infra(_)) {
            judged.warnings.push(oom_warning(Some(step)));
        }
        if !report.writes.told.is_empty() {
            judged.warnings.push(Warning {
                code: WarningCode::SourceWrites,
                step: Some(step.name.clone()),
                message: format!(
                    "step {:?} wrote to the source: {}",
                    step.name,
                    listed(&report.writes)
                ),
            });
        }
        judged.warnings.append(&mut report.warnings);
        if judged.verdict != Verdict::Pass {
            break;
        }
    }
    Some(judged)
}

/// What the end of one step makes of the run; `None` when it was cancelled.
fn judge(pipeline: &Pipeline, step: &Step, report: &StepReport) -> Option<Verdict> {
    let wrote = !report.writes.told.is_empty();
    Some(match &report.end {
        StepEnd::Exited(0) if wrote && pipeline.source_writes == SourceWrites::Fail => {
            Verdict::Fail(FailReason::SourceWrites)
        }
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
        StepEnd::Cancelled => return None,
        StepEnd::Infra(error) => Verdict::Infra(error.clone()),
    })
}

fn record(step: &Step, report: &StepReport) -> CommandExecuted {
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
        network: if step.network { "on" } else { "off" }.to_owned(),
        source_writes: report.writes.told.clone(),
    }
}

/// A step that fails for want of a network says so in its own words, and those name another cause.
fn cut_off_warning(pipeline: &Pipeline) -> Option<Warning> {
    let steps: Vec<_> = pipeline.cut_off.iter().map(|name| format!("{name:?}")).collect();
    (!steps.is_empty()).then(|| Warning {
        code: WarningCode::NetworkCutOff,
        step: None,
        message: format!(
            "the administrator's policy.toml takes the network from every step, agent.yaml gives it to {}",
            steps.join(", ")
        ),
    })
}

pub(crate) fn oom_warning(step: Option<&Step>) -> Warning {
    Warning {
        code: WarningCode::Oom,
        step: step.map(|step| step.name.clone()),
        message:
            "the kernel killed a process at the memory limit; raise verification.limits.memory_mb \
                  in agent.yaml if that was not meant"
                .to_owned(),
    }
}

/// A green run of a tree that changed under it says nothing about either tree.
pub(crate) fn settle(verdict: Verdict, before: &str, after: &str) -> Verdict {
    match verdict {
        Verdict::Pass if before != after => Verdict::Fail(FailReason::TreeChanged),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_config::{Limits, User, Workspace};
    use act_core::verification::SourceWrite;

    struct Script {
        ends: Vec<(StepEnd, bool)>,
        writes: Writes,
        ran: Vec<String>,
    }

    impl StepRunner for Script {
        fn run<'a>(&'a mut self, number: usize, step: &'a Step) -> BoxFuture<'a, StepReport> {
            Box::pin(async move {
                self.ran.push(step.name.clone());
                let (end, oom) = self.ends[number - 1].clone();
                let duration = Duration::from_millis(7);
                StepReport { end, oom, duration, writes: self.writes.clone(), warnings: vec![] }
            })
        }
    }

    fn pipeline(steps: usize) -> Pipeline {
        let step = |n| Step { name: format!("s{n}"), command: format!("c{n}"), network: n == 1 };
        Pipeline {
            image: "image".into(),
            steps: (1..=steps).map(step).collect(),
            workspace: Workspace::Auto,
            include: vec![],
            source_writes: SourceWrites::Fail,
            user: User::Caller,
            ca_bundle: None,
            limits: Limits::default(),
            cut_off: vec![],
        }
    }

    // CAPABILITY-40
    #[test]
    fn steps_without_the_network_that_they_were_given_are_named() {
        let mut script =
            Script { ends: vec![GREEN, GREEN], writes: Writes::default(), ran: vec![] };
        let mut pipeline = pipeline(2);
        pipeline.cut_off();
        let judged =
            futures_util::future::FutureExt::now_or_never(run_steps(&pipeline, &mut script));
        let judged = judged.unwrap().unwrap();
        assert!(judged.commands.iter().all(|command| command.network == "off"));
        assert_eq!(judged.warnings.len(), 1);
        assert_eq!(judged.warnings[0].code, WarningCode::NetworkCutOff);
        assert!(judged.warnings[0].message.ends_with("gives it to \"s1\""));
    }

    fn wrote(policy: SourceWrites, end: StepEnd) -> StepResults {
        let told = vec![SourceWrite { path: "a.snap".into(), change: "new".into() }];
        let writes = Writes { told, more: 0 };
        let mut script = Script { ends: vec![(end, false)], writes, ran: vec![] };
        let pipeline = Pipeline { source_writes: policy, ..pipeline(1) };
        let judged =
            futures_util::future::FutureExt::now_or_never(run_steps(&pipeline, &mut script));
        judged.unwrap().unwrap()
    }

    // VERIFIER-25
    #[test]
    fn a_write_to_the_source_fails_a_green_step_or_warns() {
        let failed = wrote(SourceWrites::Fail, StepEnd::Exited(0));
        assert_eq!(failed.verdict, Verdict::Fail(FailReason::SourceWrites));
        assert_eq!(failed.commands[0].source_writes[0].path, "a.snap");
        assert_eq!(failed.warnings[0].message, "step \"s1\" wrote to the source: a.snap (new)");
        let warned = wrote(SourceWrites::Warn, StepEnd::Exited(0));
        assert_eq!((warned.verdict, warned.warnings), (Verdict::Pass, failed.warnings));
        let red = wrote(SourceWrites::Fail, StepEnd::Exited(1));
        assert_eq!(red.verdict, Verdict::Fail(FailReason::StepFailed));
        assert_eq!(red.commands[0].source_writes.len(), 1);
    }

    fn judged(ends: Vec<(StepEnd, bool)>) -> (StepResults, Vec<String>) {
        let mut script = Script { ends, writes: Writes::default(), ran: vec![] };
        let pipeline = pipeline(script.ends.len());
        let judged =
            futures_util::future::FutureExt::now_or_never(run_steps(&pipeline, &mut script));
        (judged.unwrap().unwrap(), script.ran)
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
