//! The pure part of a run: the order of the steps, the stop at the first failure, and the verdict.

use act_config::{Config, Pipeline, SourceWrites, Step};
use act_core::verification::{
    CommandExecuted, ComponentDigest, ErrorType, FailReason, InfraError, Verdict, Warning,
    WarningCode,
};
use futures_util::future::BoxFuture;
use std::path::PathBuf;
use std::time::Duration;

/// The part of `agent.yaml` that a verification uses, as it was when the task started.
#[derive(Debug, Clone, PartialEq)]
pub struct VerificationConfig {
    pub pipeline: Pipeline,
    pub step_timeout: Duration,
    /// Directory of the repository in which the steps run.
    pub package: Option<String>,
    /// Digest of `agent.yaml`.
    pub sha256: String,
    /// The repository whose cache of downloads the run shares, where its own tree is a worktree of that repository.
    pub downloads_of: Option<PathBuf>,
}

impl VerificationConfig {
    /// Copies the part that a verification uses.
    pub fn of(config: &Config) -> Self {
        Self {
            pipeline: config.pipeline.clone(),
            step_timeout: config.step_timeout,
            package: config.monorepo_package.clone(),
            sha256: config.sha256.clone(),
            downloads_of: None,
        }
    }
}

/// Runs single steps. The container of a run is one implementation, the script of a test another.
pub(crate) trait StepRunner: Send {
    /// Runs a step, whose `number` counts from 1, and returns its record with its [verdict](verdict_of_step). Returns `None` when
    /// the run was cancelled.
    fn run<'a>(
        &'a mut self,
        number: usize,
        step: &'a Step,
    ) -> BoxFuture<'a, Option<(CommandExecuted, Verdict)>>;
}

/// The exit code that a shell reports for a process that SIGKILL ended.
pub(crate) const KILLED: i64 = 137;

/// Runs the steps in order and appends their records to `commands`; the first step that does not pass is the last that
/// runs. Returns `None` when the run was cancelled.
pub(crate) async fn run_steps<'s>(
    steps: impl Iterator<Item = &'s Step>,
    runner: &mut dyn StepRunner,
    commands: &mut Vec<CommandExecuted>,
) -> Option<Verdict> {
    for (number, step) in (1..).zip(steps) {
        let (command, verdict) = runner.run(number, step).await?;
        commands.push(command);
        if verdict != Verdict::Pass {
            return Some(verdict);
        }
        act_core::fail_point::reach("step_passed");
    }
    Some(Verdict::Pass)
}

/// Returns the verdict of one step. `trouble` is what the machine failed with while the step ran. A warning about
/// memory is appended to `warnings`.
pub(crate) fn verdict_of_step(
    pipeline: &Pipeline,
    command: &CommandExecuted,
    trouble: Option<InfraError>,
    warnings: &mut Vec<Warning>,
) -> Verdict {
    let wrote = !command.source_writes.is_empty();
    let verdict = match (trouble, command.exit_code) {
        (Some(error), _) => Verdict::Infra(error),
        (None, None) => Verdict::Fail(FailReason::Timeout),
        (None, Some(0)) if wrote && pipeline.source_writes == SourceWrites::Fail => {
            Verdict::Fail(FailReason::SourceWrites)
        }
        (None, Some(0)) => Verdict::Pass,
        // A step may send SIGKILL to itself, so the exit code proves nothing without the kernel's report.
        (None, Some(KILLED)) if command.oom => Verdict::Infra(InfraError::new(
            ErrorType::ResourceExhaustion,
            format!(
                "step {:?} was killed at the memory limit of {} MiB; raise verification.limits.memory_mb \
                 in agent.yaml",
                command.name, pipeline.limits.memory_mb
            ),
        )),
        (None, Some(_)) => Verdict::Fail(FailReason::StepFailed),
    };
    if command.oom && !matches!(verdict, Verdict::Infra(_)) {
        warnings.push(oom_warning(Some(&command.name)));
    }
    verdict
}

/// Returns the verdict after the tree was read again. The steps passed on a tree that does not exist if it has changed.
pub(crate) fn after_run(verdict: Verdict, digest_before: &str, digest_after: &str) -> Verdict {
    match verdict {
        Verdict::Pass if digest_before != digest_after => Verdict::Fail(FailReason::TreeChanged),
        other => other,
    }
}

/// Returns the warning about steps that lost their network to `config.toml` or `policy.toml`. Their own output would name another cause.
pub(crate) fn cut_off_warning(pipeline: &Pipeline) -> Option<Warning> {
    let steps: Vec<_> = pipeline.cut_off.iter().map(|name| format!("{name:?}")).collect();
    (!steps.is_empty()).then(|| Warning {
        code: WarningCode::NetworkCutOff,
        step: None,
        message: format!(
            "`network` in [verifier] of config.toml or policy.toml turns the network off for every step, although agent.yaml turns it on for {}",
            steps.join(", ")
        ),
    })
}

/// Returns the warning that components of a development session took part in the task.
pub(crate) fn dev_warning(components: &[ComponentDigest]) -> Option<Warning> {
    let dev = components.iter().filter(|component| component.dev_component);
    let dev: Vec<_> = dev.map(|one| format!("{} (sha256 {})", one.name, one.sha256)).collect();
    (!dev.is_empty()).then(|| Warning {
        code: WarningCode::DevComponent,
        step: None,
        message: format!(
            "dev_component: {} is of `act components watch --dev`, so nobody approved exactly these bytes",
            dev.join(", ")
        ),
    })
}

pub(crate) fn oom_warning(step: Option<&str>) -> Warning {
    Warning {
        code: WarningCode::Oom,
        step: step.map(str::to_owned),
        message: "the kernel killed a process at the memory limit; raise verification.limits.memory_mb in \
                  agent.yaml if that was not meant"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_config::{Limits, User, Workspace};
    use act_core::verification::SourceWrite;
    use futures_util::FutureExt;

    /// How a step ends: its exit code, or `None` when its time is up, and whether the kernel killed a process for
    /// memory.
    type End = (Option<i64>, bool);

    struct Script {
        pipeline: Pipeline,
        ends: Vec<End>,
        writes: Vec<SourceWrite>,
        ran: Vec<String>,
        warnings: Vec<Warning>,
    }

    impl StepRunner for Script {
        fn run<'a>(
            &'a mut self,
            number: usize,
            step: &'a Step,
        ) -> BoxFuture<'a, Option<(CommandExecuted, Verdict)>> {
            Box::pin(async move {
                self.ran.push(step.name.clone());
                let (exit_code, oom) = self.ends[number - 1];
                let command = CommandExecuted {
                    name: step.name.clone(),
                    command: step.command.clone(),
                    exit_code,
                    duration_ms: 7,
                    timed_out: exit_code.is_none(),
                    oom,
                    network: "off".to_owned(),
                    source_writes: self.writes.clone(),
                    log_sha256: None,
                    log_bytes: None,
                    log_end_sha256: None,
                };
                let verdict = verdict_of_step(&self.pipeline, &command, None, &mut self.warnings);
                Some((command, verdict))
            })
        }
    }

    struct Run {
        verdict: Verdict,
        commands: Vec<CommandExecuted>,
        ran: Vec<String>,
        warnings: Vec<Warning>,
    }

    fn run(ends: Vec<End>, writes: Vec<SourceWrite>, policy: SourceWrites) -> Run {
        let pipeline = Pipeline { source_writes: policy, ..pipeline(ends.len()) };
        let mut script =
            Script { pipeline: pipeline.clone(), ends, writes, ran: vec![], warnings: vec![] };
        let mut commands = vec![];
        let verdict = run_steps(pipeline.all_steps(), &mut script, &mut commands).now_or_never();
        let verdict = verdict.unwrap().unwrap();
        Run { verdict, commands, ran: script.ran, warnings: script.warnings }
    }

    fn run_of(ends: Vec<End>) -> Run {
        run(ends, vec![], SourceWrites::Fail)
    }

    fn pipeline(steps: usize) -> Pipeline {
        let step = |n| Step { name: format!("s{n}"), command: format!("c{n}"), network: n == 1 };
        Pipeline {
            image: "image".into(),
            prepare: vec![],
            prepare_inputs: vec![],
            warm: None,
            steps: (1..=steps).map(step).collect(),
            workspace: Workspace::Auto,
            include: vec![],
            source_writes: SourceWrites::Fail,
            user: User::Caller,
            ca_bundle: None,
            limits: Limits::default(),
            engine: [].into(),
            private_network: true,
            cut_off: vec![],
        }
    }

    const GREEN: End = (Some(0), false);

    // CAPABILITY-40
    #[test]
    fn steps_without_the_network_that_they_were_given_are_named() {
        let mut pipeline = pipeline(2);
        assert_eq!(cut_off_warning(&pipeline), None);
        pipeline.cut_off();
        assert!(pipeline.all_steps().all(|step| !step.network));
        let warning = cut_off_warning(&pipeline).unwrap();
        assert_eq!(warning.code, WarningCode::NetworkCutOff);
        assert!(warning.message.ends_with("turns it on for \"s1\""));
    }

    // VERIFIER-25
    #[test]
    fn a_write_to_the_source_fails_a_green_step_or_warns() {
        let write = SourceWrite { path: "a.snap".into(), change: "new".into() };
        let wrote = |policy, code| run(vec![(Some(code), false)], vec![write.clone()], policy);
        let failed = wrote(SourceWrites::Fail, 0);
        assert_eq!(failed.verdict, Verdict::Fail(FailReason::SourceWrites));
        assert_eq!(failed.commands[0].source_writes[0].path, "a.snap");
        assert_eq!(wrote(SourceWrites::Warn, 0).verdict, Verdict::Pass);
        let red = wrote(SourceWrites::Fail, 1);
        assert_eq!(red.verdict, Verdict::Fail(FailReason::StepFailed));
        assert_eq!(red.commands[0].source_writes.len(), 1);
    }

    // VERIFIER-11
    #[test]
    fn passes_when_every_step_exits_with_zero_in_order() {
        let run = run_of(vec![GREEN, GREEN]);
        assert_eq!(run.verdict, Verdict::Pass);
        assert_eq!(run.ran, ["s1", "s2"]);
        assert_eq!(run.commands[0].exit_code, Some(0));
    }

    // VERIFIER-11
    #[test]
    fn the_first_failing_step_is_the_last_that_runs() {
        let run = run_of(vec![GREEN, (Some(3), false), GREEN]);
        assert_eq!(run.verdict, Verdict::Fail(FailReason::StepFailed));
        assert_eq!(run.ran, ["s1", "s2"]);
        assert_eq!(run.commands.len(), 2);
        assert_eq!(run.commands[1].exit_code, Some(3));
    }

    // VERIFIER-14
    #[test]
    fn a_timeout_fails_and_skips_what_follows() {
        let run = run_of(vec![(None, false), GREEN]);
        assert_eq!(run.verdict, Verdict::Fail(FailReason::Timeout));
        assert_eq!(run.ran, ["s1"]);
        assert_eq!(run.commands[0].exit_code, None);
    }

    // VERIFIER-21, security line 99
    #[test]
    fn only_137_together_with_an_oom_is_resource_exhaustion() {
        let exhausted = run_of(vec![(Some(137), true)]);
        assert!(
            matches!(&exhausted.verdict, Verdict::Infra(error)
                if error.error_type == ErrorType::ResourceExhaustion
                    && error.message.contains("8192 MiB")),
            "{:?}",
            exhausted.verdict
        );
        assert!(exhausted.commands[0].oom && exhausted.warnings.is_empty());
        let killed = run_of(vec![(Some(137), false)]);
        assert_eq!(killed.verdict, Verdict::Fail(FailReason::StepFailed));
    }

    // VERIFIER-21, security line 100
    #[test]
    fn an_oom_that_the_step_survives_is_a_warning() {
        let green = run_of(vec![(Some(0), true), GREEN]);
        assert_eq!(green.verdict, Verdict::Pass);
        assert_eq!(green.warnings, [oom_warning(Some("s1"))]);
        let red = run_of(vec![(Some(1), true)]);
        assert_eq!(red.verdict, Verdict::Fail(FailReason::StepFailed));
        assert_eq!(red.warnings.len(), 1);
    }

    // VERIFIER-12
    #[test]
    fn a_green_run_of_a_changed_tree_fails_and_a_red_one_keeps_its_reason() {
        let changed = |verdict| after_run(verdict, "before", "after");
        assert_eq!(changed(Verdict::Pass), Verdict::Fail(FailReason::TreeChanged));
        let timeout = Verdict::Fail(FailReason::Timeout);
        assert_eq!(changed(timeout.clone()), timeout);
        assert_eq!(after_run(Verdict::Pass, "same", "same"), Verdict::Pass);
    }
}
