//! A verification and what follows from it: the debug loop, the failing lines of a log, and the baseline before the first
//! edit.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::plan::Repeat;
use super::scouts::requery;
use super::tools::{Account, Answer, DoneOutcome, ToolOutput};
use super::{
    AfterConversation, Aim, OrEnd, Phase, Session, TaskResult, done_refusal, finish, prompt,
};
use crate::context::VerifiedRun;
use act_core::event::{EventKind, Milestone};
use act_core::verification::{FailReason, Status, Verdict, Verification};
use act_core::{RunId, StuckReason, reason};
use act_workspace::RootMoved;

/// Green runs in one task after which the host closes it; as many as the attempts that one task has.
const GREEN_RUNS: usize = 12;

impl Session<'_> {
    /// The phase that follows from the tree: closing while it is the one that the last run found green and holds changes of
    /// the task. An edit that is undone leaves it green. A tree without changes proves no work, so that only `done` with an
    /// outcome of its own ends such a task.
    pub(super) fn phase_of_tree(&self) -> Phase {
        let green = self.last.as_ref().is_some_and(Verification::passed);
        if green && !self.edited() && !self.is_unchanged() {
            Phase::Closing
        } else {
            Phase::Working
        }
    }

    /// Returns whether the last run was green and judged exactly the current tree.
    pub(super) async fn tree_is_green(&self) -> OrEnd<bool> {
        let Some(green) = self.last.as_ref().filter(|last| last.passed()) else { return Ok(false) };
        let verified = green.tree_digest();
        let workplace = Arc::clone(&self.editor.workplace);
        let current = tokio::task::spawn_blocking(move || workplace.tree_digest()).await;
        // The digest is read by path, and is one of the edited directory only while the path means that directory.
        if let Some(moved) = self.editor.workplace.moved() {
            return Err(repository_moved(&moved).into());
        }
        match current.unwrap_or_else(|stopped| Err(std::io::Error::other(stopped))) {
            Ok(current) => Ok(verified.is_some_and(|verified| verified == current)),
            Err(error) => {
                let diagnosis = format!("the repository cannot be read: {error}");
                Err(TaskResult::infra(reason::UNKNOWN, diagnosis).into())
            }
        }
    }

    /// Ends the task with the model's account, if the outcome has its proof.
    pub(super) async fn done(&mut self, account: Account) -> OrEnd<ToolOutput> {
        if let Some(refusal) = account.refusal() {
            return Ok(refusal.into());
        }
        let account = match account.outcome {
            // Its text becomes part of the stuck report, which nobody commits.
            DoneOutcome::Impossible => account,
            DoneOutcome::Changed | DoneOutcome::NothingToDo => self.without_commit_text(account),
        };
        let (aim, outcome) = (self.editor.aim, account.outcome);
        let needs_green = aim == Aim::Green && outcome != DoneOutcome::Impossible;
        let green = needs_green && self.tree_is_green().await?;
        if needs_green && !green {
            self.phase = Phase::Working;
        }
        let (unchanged, looked) = (self.is_unchanged(), !self.looked.is_empty());
        if let Some((word, message)) = done_refusal(aim, outcome, unchanged, green, looked) {
            return Ok(Answer::refusal(word, message).into());
        }
        if let Some(refusal) = self.names_foreign_run(&account) {
            return Ok(refusal.into());
        }
        match outcome {
            DoneOutcome::Impossible => Err(finish::impossible(&account).into()),
            DoneOutcome::NothingToDo if needs_green && !green => self.prove(account).await,
            DoneOutcome::NothingToDo | DoneOutcome::Changed => {
                Ok(ToolOutput::End(AfterConversation::Done(Some(account))))
            }
        }
    }

    /// Verifies a tree that, by the model's account, needs no change. A green run ends the task.
    async fn prove(&mut self, account: Account) -> OrEnd<ToolOutput> {
        let answer = match self.verify().await? {
            ToolOutput::End(next) => return Ok(ToolOutput::End(next)),
            ToolOutput::Answer(answer) => answer,
        };
        if self.tree_is_green().await? {
            return Ok(ToolOutput::End(AfterConversation::Done(Some(account))));
        }
        let text = format!("{}\nnothing_to_do needs a green run of this tree.", answer.text);
        Ok(Answer { text, is_error: true }.into())
    }

    async fn close_or(&self, answer: Answer) -> OrEnd<ToolOutput> {
        if self.is_unchanged() {
            let why = format!(
                "the pipeline passed {GREEN_RUNS} times, the task has changed nothing, and the model did not say whether \
                 it needs a change"
            );
            return Err(TaskResult::stuck(StuckReason::ModelIdle, Some(why)).into());
        }
        let green = self.tree_is_green().await?;
        Ok(if green { ToolOutput::End(AfterConversation::Done(None)) } else { answer.into() })
    }

    /// Ends the task of a model that never calls `done`, or verifies again if the tree changed meanwhile.
    pub(super) async fn close(&mut self) -> OrEnd<ToolOutput> {
        if self.tree_is_green().await? {
            return Ok(ToolOutput::End(AfterConversation::Done(None)));
        }
        self.verify().await
    }

    /// Runs the pipeline, for the model or for the host. A verification that the host starts is refused for the same reasons,
    /// so that silence bypasses none of them.
    pub(super) async fn verify(&mut self) -> OrEnd<ToolOutput> {
        if let Some(refusal) = self.ignored_changes().or_else(|| self.pending_review()) {
            return Ok(refusal.into());
        }
        let fingerprint = self.fingerprint();
        if !self.verified_in_strategy && self.debug_loop.replans() > 0 {
            match self.history.judge_tree(&fingerprint) {
                Repeat::No => {}
                Repeat::Refused => {
                    let message =
                        "this tree was verified before and failed; change something first";
                    return Ok(Answer::refusal("same_strategy", message).into());
                }
                Repeat::Accepted => {
                    self.strategies.mark_in_force(" (verified an unchanged tree)");
                }
            }
        }
        self.verified_in_strategy = true;
        (self.criteria_shown, self.questions) = (false, 0);
        self.verified_tree.clone_from(&fingerprint);

        let number = self.debug_loop.next_attempt();
        self.milestone(Milestone::Attempt { number, of: HARD_STOP_AFTER });
        self.milestone(Milestone::Verifying);
        let verification = self.editor.verifier.run(number, &self.editor.cancel).await;
        let Some(verification) = verification.filter(|_| !self.editor.cancel.is_cancelled()) else {
            return Err(TaskResult::cancelled().into());
        };
        self.record_gate_inputs(verification.run_id.as_ref().map(RunId::as_str));
        let next = self.debug_loop.judge(verification.verdict.status());
        let failure = Attempt::of(number, self.strategies.all().len() as u32, &verification);
        let as_before = self.baseline.as_ref().and_then(|baseline| baseline.comparison(&failure));
        let unchanged = self.is_unchanged();
        let answer = Answer::ok(answer_for_model(&verification, &failure, as_before, unchanged));
        self.verified.push(failure.shown(&verification));
        if verification.failed() {
            self.milestone(Milestone::VerificationFailed);
            self.editor.events.emit(EventKind::Diagnosis { text: prompt::attempt_line(&failure) });
            self.plans.fail(failure);
            self.history.add_tree(&fingerprint);
        }
        let infra = verification.verdict.infra().cloned();
        self.last = Some(verification);
        match next {
            AfterVerification::Fix => {
                self.phase = Phase::Working;
                Ok(ToolOutput::Answer(Answer { is_error: true, ..answer }))
            }
            AfterVerification::Finish => {
                self.phase = self.phase_of_tree();
                let green = |run: &&VerifiedRun| run.status == Status::Pass;
                // A model that edits a green tree again and again is closed while the tree is green.
                if self.verified.iter().filter(green).count() >= GREEN_RUNS {
                    return self.close_or(answer).await;
                }
                Ok(answer.into())
            }
            AfterVerification::Replan { number: replan } => Ok(ToolOutput::End(
                AfterConversation::Conversation(self.start_replan(replan, number)),
            )),
            AfterVerification::HardStop => {
                Err(TaskResult::stuck(StuckReason::HardStop, None).into())
            }
            AfterVerification::InfraStop => {
                if let Some(moved) = self.editor.workplace.moved() {
                    return Err(repository_moved(&moved).into());
                }
                let (code, diagnosis) = infra.map_or((reason::UNKNOWN, String::new()), |error| {
                    (error.error_type.as_str(), error.message)
                });
                Err(TaskResult::infra(code, diagnosis).into())
            }
        }
    }
}

/// The path of the repository no longer means the directory that is edited, so a verification would judge another one.
fn repository_moved(diagnosis: &str) -> TaskResult {
    TaskResult::infra(RootMoved::CODE, format!("{diagnosis}; {}", RootMoved::HINT))
}

/// Failed attempts in a row after which a REPLAN asks for another strategy.
pub(super) const REPLAN_AFTER: u32 = 3;
/// Attempts without a green one after which the task ends as STUCK.
pub(super) const HARD_STOP_AFTER: u32 = 12;

/// The decision after a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterVerification {
    /// Close the task; the tree is green.
    Finish,
    /// Go on with the strategy in force.
    Fix,
    /// Start a fresh conversation with another strategy. `number` counts from 1.
    Replan { number: u32 },
    /// End as STUCK.
    HardStop,
    /// End as INFRA_ERROR. A failure of the machine is never retried.
    InfraStop,
}

/// The two counters of EDITOR-20 and the number of REPLANs so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DebugLoop {
    consecutive_failures: u32,
    total_verify_loops: u32,
    replans: u32,
}

impl DebugLoop {
    /// The number of the next attempt, from 1.
    pub(super) fn next_attempt(&self) -> u32 {
        self.total_verify_loops + 1
    }

    pub(super) fn replans(&self) -> u32 {
        self.replans
    }

    /// Counts a verification and decides what follows.
    pub(super) fn judge(&mut self, verdict: Status) -> AfterVerification {
        match verdict {
            Status::InfraError => AfterVerification::InfraStop,
            Status::Pass => {
                self.consecutive_failures = 0;
                self.total_verify_loops = 0;
                AfterVerification::Finish
            }
            Status::Fail => {
                self.consecutive_failures += 1;
                self.total_verify_loops += 1;
                if self.total_verify_loops >= HARD_STOP_AFTER {
                    AfterVerification::HardStop
                } else if self.consecutive_failures >= REPLAN_AFTER {
                    self.consecutive_failures = 0;
                    self.replans += 1;
                    AfterVerification::Replan { number: self.replans }
                } else {
                    AfterVerification::Fix
                }
            }
        }
    }
}

/// Bytes of a log that the model gets with a failure; `read_log` returns the rest.
const TAIL: usize = 8 * 1024;

/// The last bytes of a log, from the start of a line where there is one.
pub(super) fn tail(log: &str) -> &str {
    let from = log.len().saturating_sub(TAIL);
    if from == 0 {
        return log;
    }
    let from = (from..log.len()).find(|at| log.is_char_boundary(*at)).unwrap_or(log.len());
    let rest = log.get(from..).unwrap_or_default();
    match rest.split_once('\n') {
        Some((_, lines)) if !lines.is_empty() => lines,
        _ => rest,
    }
}

/// The result of `verify` for PASS and FAIL.
fn answer_for_model(
    verification: &Verification,
    attempt: &Attempt,
    as_before: Option<&str>,
    unchanged: bool,
) -> String {
    let run = verification.run_id.as_ref().map(RunId::as_str).unwrap_or_default();
    let status = verification.verdict.status().as_str();
    let head = format!("{status} · {run} · attempt {} of {HARD_STOP_AFTER}", attempt.number);
    let mut lines = vec![];
    if !verification.failed() {
        lines.push(head);
        let next = match unchanged {
            true => {
                "nothing is changed since the start of the task, so this run proves no work: edit, or call done with the \
                 outcome nothing_to_do if the task needs no change"
            }
            false => "call done, or edit on and verify again",
        };
        lines.push(next.to_owned());
    } else {
        let step = attempt.step.iter().map(|step| format!(" · step {step}"));
        let code = attempt.exit_code.iter().map(|code| format!(" · exit code {code}"));
        let place: String = step.chain(code).collect();
        lines.push(format!("{}: {head}{place}", attempt.reason));
        lines.extend(as_before.map(str::to_owned));
        lines.extend(ask(&requery(std::slice::from_ref(attempt))));
    }
    lines.extend(
        verification.warnings.iter().map(|warning| format!("warning: {}", warning.message)),
    );
    if verification.failed() {
        lines.push("the end of the log:".to_owned());
        lines.push(tail(verification.tail.as_deref().unwrap_or_default()).to_owned());
    }
    lines.join("\n")
}

/// The hint to ask Scouts about a failure that the change itself does not explain.
fn ask(scouts: &[&str]) -> Option<String> {
    let whom = scouts.join(" or ");
    (!scouts.is_empty()).then(|| format!("ask_scout {whom} about it; the log goes along"))
}

/// One failed attempt as the failure matrix shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    pub number: u32,
    pub run_id: String,
    /// Number of the strategy, from 1.
    pub strategy: u32,
    /// The step that ended the run.
    pub step: Option<String>,
    pub exit_code: Option<i64>,
    pub reason: &'static str,
    /// The first line of the log that describes the failure.
    pub first_failing_line: String,
    /// All lines of the log that describe failures, each once.
    pub failing_lines: Vec<String>,
}

/// Failing lines of one log; more would crowd out the rest of a message.
const LINES: usize = 50;
/// Characters of a failing line.
const LINE: usize = 200;

impl Attempt {
    pub(super) fn of(number: u32, strategy: u32, verification: &Verification) -> Self {
        let step = verification.failing_step();
        let log = verification.tail.as_deref().unwrap_or_default();
        Self {
            number,
            run_id: verification.run_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            strategy,
            step: step.map(|step| step.name.clone()),
            exit_code: step.and_then(|step| step.exit_code),
            reason: verification.verdict.fail_reason().unwrap_or(FailReason::StepFailed).as_str(),
            first_failing_line: first_failing_line(log),
            failing_lines: failing_lines(log),
        }
    }

    /// The attempt as notes list it, whatever the verdict.
    pub(super) fn shown(&self, verification: &Verification) -> VerifiedRun {
        let failed = verification.failed();
        VerifiedRun {
            attempt: self.number,
            strategy: self.strategy,
            run_id: verification.run_id.as_ref().map(ToString::to_string),
            status: verification.verdict.status(),
            steps_run: verification.steps().len(),
            failing_step: self.step.clone().filter(|_| failed),
            reason: verification.verdict.reason_word().map(str::to_owned),
            first_failing_line: failed.then(|| self.first_failing_line.clone()),
        }
    }
}

/// The first failing line, or an empty text for an empty log.
fn first_failing_line(log: &str) -> String {
    failing_lines(log).into_iter().next().unwrap_or_default()
}

/// The lines of a log that report a failure, each once: first the lines that a tool marks as failures, then the lines that
/// only mention one. Lines that report a success do not count. A log without any such line gives its last line.
pub(super) fn failing_lines(log: &str) -> Vec<String> {
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    let of = |wanted: Sign| lines().filter(move |line| sign(line) == wanted);
    let mut found: Vec<String> = vec![];
    for line in of(Sign::Failure).chain(of(Sign::Mention)) {
        let line: String = line.chars().take(LINE).collect();
        if !found.contains(&line) {
            found.push(line);
        }
        if found.len() == LINES {
            break;
        }
    }
    if found.is_empty() {
        found.extend(lines().next_back().map(|line| line.chars().take(LINE).collect()));
    }
    found
}

/// The meaning of a line of a log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// A tool marks this line as a failure: `error:`, `FAILED`, `panicked at`.
    Failure,
    /// The line contains a word such as `error`, which names and passing text contain too.
    Mention,
    None,
}

fn sign(line: &str) -> Sign {
    static PASSED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?i)(\.\.\.|…) *(ok|passed|ignored|skipped)\b|^[\W_]*(ok|pass|passed|skip|skipped|xfail)\b[\W_]|^[✓✔√]|\bPASSED\b|\b(0|no) (failed|failures?|errors?)\b",
        )
        .ok()
    });
    static FAILED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?x)
            \b(error|Error|ERROR)(\[\w+\])?: | \w+(Error|Exception)\b(:|$) | ^E\s{2,} |
            \bFAIL(ED|URE)?\b | \bpanicked\ at\b | \bassertion\b.*\bfailed\b | ^Assertion | ^Traceback\b |
            ^not\ ok\b | ^[✗✘✕×] | (?i:\bfatal(\ error)?:) | :\ not\ found$ | command\ not\ found |
            No\ such\ file\ or\ directory",
        )
        .ok()
    });
    static COUNT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i)\b[1-9]\d* (failed|failures?|errors?)\b").ok());
    const MENTIONS: [&str; 7] =
        ["error", "fail", "panic", "assert", "exception", "not found", "expected"];
    let is =
        |pattern: &LazyLock<Option<Regex>>| pattern.as_ref().is_some_and(|re| re.is_match(line));
    let lowered = line.to_lowercase();
    if is(&COUNT) {
        // A summary counts failures and describes none.
        Sign::Mention
    } else if is(&PASSED) && !lowered.starts_with("not ok") {
        Sign::None
    } else if is(&FAILED) {
        Sign::Failure
    } else if MENTIONS.iter().any(|word| lowered.contains(word)) {
        Sign::Mention
    } else {
        Sign::None
    }
}

/// Failing lines of the baseline that are shown.
const SHOWN: usize = 10;

/// The run of the pipeline before the first edit.
pub(super) struct Baseline {
    run_id: Option<String>,
    /// `None` when the run was green.
    failure: Option<Failure>,
}

struct Failure {
    /// The failure as an attempt, for comparison.
    as_attempt: Attempt,
    /// Lines of the log that look like failures, in order.
    lines: Vec<String>,
}

impl Session<'_> {
    /// Runs the pipeline before the first edit. The run counts as no attempt.
    pub(super) async fn run_baseline(&mut self) -> OrEnd<()> {
        self.milestone(Milestone::Verifying);
        let verification = self.editor.verifier.run(0, &self.editor.cancel).await;
        let Some(verification) = verification.filter(|_| !self.editor.cancel.is_cancelled()) else {
            return Err(TaskResult::cancelled().into());
        };
        if let Verdict::Infra(error) = verification.verdict {
            let code = error.error_type.as_str();
            return Err(TaskResult::infra(code, error.message).into());
        }
        let baseline = Baseline::of(&verification);
        self.editor.events.emit(EventKind::Baseline {
            run_id: baseline.run_id.clone(),
            status: verification.verdict.status().as_str().to_owned(),
            step: baseline.failure.as_ref().and_then(|failure| failure.as_attempt.step.clone()),
            failures: baseline.lines(),
        });
        self.baseline = Some(baseline);
        Ok(())
    }
}

impl Baseline {
    fn of(verification: &Verification) -> Self {
        let failure = verification.failed().then(|| Failure {
            as_attempt: Attempt::of(0, 0, verification),
            lines: failing_lines(verification.tail.as_deref().unwrap_or_default()),
        });
        Self { run_id: verification.run_id.as_ref().map(ToString::to_string), failure }
    }

    pub(super) fn run_id(&self) -> Option<&str> {
        self.run_id.as_deref()
    }

    fn lines(&self) -> Vec<String> {
        let lines = self.failure.iter().flat_map(|failure| &failure.lines);
        lines.take(SHOWN).cloned().collect()
    }

    fn named_run(&self) -> &str {
        self.run_id.as_deref().unwrap_or("a run")
    }

    /// The text for the model's first message.
    pub(super) fn for_model(&self) -> String {
        let run = self.named_run();
        match &self.failure {
            None => format!("Before any edit the pipeline was green ({run})."),
            Some(failure) => {
                let step = failure.as_attempt.step.as_deref().unwrap_or("-");
                let mut text = format!(
                    "Before any edit the pipeline failed in step {step} ({run}; `read_log` takes it)."
                );
                text.push_str(match failure.lines.as_slice() {
                    [] => " It printed nothing.",
                    _ => " What failed then:",
                });
                self.lines().iter().for_each(|line| text.push_str(&format!("\n- {line}")));
                text
            }
        }
    }

    /// Returns whether an attempt failed as the baseline did: in the same step, with no other failing lines.
    fn knows(&self, attempt: &Attempt) -> bool {
        let Some(failure) = &self.failure else { return false };
        let known: BTreeSet<_> = failure.lines.iter().map(|line| untimed(line)).collect();
        failure.as_attempt.step == attempt.step
            && failure.as_attempt.reason == attempt.reason
            && !attempt.failing_lines.is_empty()
            && attempt.failing_lines.iter().all(|line| known.contains(&untimed(line)))
    }

    /// The remark for the model beside a failure.
    pub(super) fn comparison(&self, attempt: &Attempt) -> Option<&'static str> {
        Some(match self.knows(attempt) {
            true => "it failed so before your first edit",
            false => "before your first edit it did not fail so",
        })
    }

    /// The text for the summary and the stuck report.
    pub(super) fn for_people(&self, attempts: &[Attempt]) -> String {
        let run = self.named_run();
        let Some(failure) = &self.failure else {
            return format!("The pipeline was green in {run}: every failure below is new.");
        };
        let step = failure.as_attempt.step.as_deref().unwrap_or("-");
        let end = if failure.lines.is_empty() { ", and printed nothing." } else { ":" };
        let mut text = format!("The pipeline failed in {run}, step {step}{end}\n");
        self.lines().iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        let (known, new): (Vec<_>, Vec<_>) = attempts.iter().partition(|one| self.knows(one));
        let numbers = |attempts: &[&Attempt]| {
            let numbers: Vec<_> = attempts.iter().map(|one| one.number.to_string()).collect();
            numbers.join(", ")
        };
        if !known.is_empty() {
            text.push_str(&format!("Failed so as well: attempts {}.\n", numbers(&known)));
        }
        if !new.is_empty() {
            text.push_str(&format!("Failed otherwise, so new: attempts {}.\n", numbers(&new)));
        }
        text
    }
}

/// The line without durations, which differ from run to run.
fn untimed(line: &str) -> Cow<'_, str> {
    static DURATION: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\b\d+(\.\d+)? ?(s|ms|us|sec|seconds)\b").ok());
    match &*DURATION {
        Some(duration) => duration.replace_all(line, "#"),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests {
    mod debug_loop {
        use super::super::*;
        use AfterVerification::{Finish, Fix, HardStop, InfraStop, Replan};

        /// EDITOR-20 to EDITOR-23: attempt, consecutive and total failures after it, next step.
        #[test]
        fn twelve_failures_replan_at_3_6_9_and_stop_at_12() {
            let table = [
                (1, 1, 1, Fix),
                (2, 2, 2, Fix),
                (3, 0, 3, Replan { number: 1 }),
                (4, 1, 4, Fix),
                (5, 2, 5, Fix),
                (6, 0, 6, Replan { number: 2 }),
                (7, 1, 7, Fix),
                (8, 2, 8, Fix),
                (9, 0, 9, Replan { number: 3 }),
                (10, 1, 10, Fix),
                (11, 2, 11, Fix),
                (12, 3, 12, HardStop), // hard stop wins over REPLAN
            ];
            let mut state = DebugLoop::default();
            for (attempt, consecutive, total, next) in table {
                assert_eq!(state.next_attempt(), attempt);
                assert_eq!(state.judge(Status::Fail), next, "attempt {attempt}");
                assert_eq!(
                    (state.consecutive_failures, state.total_verify_loops),
                    (consecutive, total),
                    "attempt {attempt}"
                );
            }
        }

        #[test]
        fn green_resets_both_counters() {
            let mut state = DebugLoop::default();
            for _ in 0..5 {
                state.judge(Status::Fail);
            }
            assert_eq!(state.judge(Status::Pass), Finish);
            assert_eq!(state.next_attempt(), 1);
            assert_eq!(state.judge(Status::Fail), Fix);
            assert_eq!(state.judge(Status::Fail), Fix);
            assert_eq!(state.judge(Status::Fail), Replan { number: 2 });
        }

        #[test]
        fn trouble_of_the_machine_stops_at_once_and_counts_nothing() {
            let mut state = DebugLoop::default();
            state.judge(Status::Fail);
            let before = state;
            assert_eq!(state.judge(Status::InfraError), InfraStop);
            assert_eq!(state, before);
        }
    }

    mod answers {
        use super::super::*;
        /// EDITOR-19
        #[test]
        fn a_scout_is_named_where_it_can_help() {
            assert_eq!(ask(&[]), None);
            assert!(ask(&["scout-b"]).unwrap().starts_with("ask_scout scout-b "));
        }

        #[test]
        fn a_long_tail_starts_at_a_line_and_a_character() {
            let log: String = (0..4000).map(|n| format!("é line {n}\n")).collect();
            let end = tail(&log);
            assert!(
                end.len() <= TAIL && end.starts_with("é line ") && end.ends_with("line 3999\n")
            );
            assert_eq!(tail("short"), "short");
            assert!(tail(&"é".repeat(TAIL)).len() <= TAIL);
        }
    }

    mod failing_lines {
        use super::super::*;
        #[test]
        fn the_line_that_names_the_failure_wins_over_the_last_one() {
            assert_eq!(
                first_failing_line("run 1\nFAIL: add 2 3: expected 5, got -1\n1 of 2 done\n"),
                "FAIL: add 2 3: expected 5, got -1"
            );
            assert_eq!(first_failing_line("one\n\ntwo\n"), "two");
            assert_eq!(first_failing_line(""), "");
        }
        /// EDITOR-25
        #[test]
        fn a_line_that_reports_a_pass_is_not_the_failure() {
            let many: String =
                (0..60).map(|n| format!("test parse_error_{n}_is_reported ... ok\n")).collect();
            let log = format!("{many}expected output follows\nerror[E0308]: mismatched types\n");
            assert_eq!(
                failing_lines(&log),
                ["error[E0308]: mismatched types", "expected output follows"]
            );
            for (passed, failed) in [
                ("test result: ok. 3 passed; 0 failed; 0 ignored", "test a ... FAILED"),
                ("ok 1 - handles errors", "not ok 2 - handles errors"),
                ("✓ throws an error (3 ms)", "✕ adds"),
                (
                    "tests/test_error.py::test_error PASSED [ 50%]",
                    "FAILED tests/test_a.py::test_b - assert 1 == 2",
                ),
                ("--- PASS: TestError (0.00s)", "--- FAIL: TestAdd (0.00s)"),
                ("PASS src/error.test.js", "FAIL src/add.test.js"),
                ("the error handler was loaded", "thread 'main' panicked at src/lib.rs:3:5:"),
                ("test_error (x.Test) ... ok", "ValueError: no"),
            ] {
                assert_eq!(first_failing_line(&format!("{passed}\n{failed}\nend\n")), failed);
            }
        }
    }

    mod baseline {
        use super::super::*;
        use act_core::verification::FailReason;
        use act_core::verification::testing::{RUN_ID, verification};

        fn failed(log: &str) -> Verification {
            verification(Verdict::Fail(FailReason::StepFailed), &["test"], log)
        }

        fn attempt(number: u32, log: &str) -> Attempt {
            Attempt::of(number, 1, &failed(log))
        }

        // EDITOR-51
        #[test]
        fn failures_that_were_there_before_are_told_from_new_ones() {
            let baseline = Baseline::of(&failed("FAIL old one\nFAIL old two\nFAIL: 1 in 0.3s"));
            let attempts = [
                attempt(1, "FAIL old two\n"),
                attempt(2, "FAIL old two\nFAIL new\n"),
                attempt(3, ""),
                attempt(4, "FAIL: 1 in 0.25s"),
            ];
            let known: Vec<_> = attempts.iter().map(|one| baseline.knows(one)).collect();
            assert_eq!(known, [true, false, false, true]);
            assert_eq!(
                baseline.for_people(&attempts),
                format!(
                    "The pipeline failed in {RUN_ID}, step test:\n  FAIL old one\n  FAIL old two\n  \
                 FAIL: 1 in 0.3s\nFailed so as well: attempts 1, 4.\nFailed otherwise, so new: attempts 2, 3.\n"
                )
            );
            assert!(baseline.for_model().contains(":\n- FAIL old one\n- FAIL old two\n"));
        }

        // EDITOR-51
        #[test]
        fn after_a_green_baseline_every_failure_is_new() {
            let green = verification(Verdict::Pass, &["test"], "FAIL is a word here\n");
            let baseline = Baseline::of(&green);
            assert!(!baseline.knows(&attempt(1, "FAIL is a word here\n")));
            assert!(baseline.for_people(&[]).contains("every failure below is new"));
        }
    }
}
