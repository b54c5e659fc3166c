//! A verification and what follows from it: the answer to the model, the debug loop, and the baseline before the first edit.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use regex::Regex;
use similar::{ChangeTag, DiffTag, TextDiff};

use super::scouts::requery;
use super::tools::{Account, Answer, DoneOutcome, ToolOutput};
use super::{
    AfterConversation, Aim, CLOSING_TURNS, Editor, OrEnd, Phase, Session, TaskResult, Workplace,
    done_refusal, finish, prompt,
};
use crate::context::{ChangedLines, VerifiedRun};
use act_core::event::{EventKind, Milestone};
use act_core::verification::{FailReason, Status, Verdict, Verification};
use act_core::{RunId, StuckReason, reason};
use act_reports::failures::{Counts, Failure, Failures, Group, Log, Passed, Place};
use act_reports::source;
use act_workspace::{Content, ContentChange, RootMoved};

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
        let current = self.tree_digest().await?;
        Ok(green.tree_digest().is_some_and(|verified| verified == current))
    }

    /// Returns the digest of the tree as it is now.
    async fn tree_digest(&self) -> OrEnd<String> {
        let workplace = Arc::clone(&self.editor.workplace);
        let current = tokio::task::spawn_blocking(move || workplace.tree_digest()).await;
        // The digest is read by path, and is one of the edited directory only while the path means that directory.
        if let Some(moved) = self.editor.workplace.moved() {
            return Err(repository_moved(&moved).into());
        }
        current.unwrap_or_else(|stopped| Err(std::io::Error::other(stopped))).map_err(|error| {
            let diagnosis = format!("the repository cannot be read: {error}");
            TaskResult::infra(reason::UNKNOWN, diagnosis).into()
        })
    }

    /// The runs of the task that judged exactly the current tree, as indices of the results.
    async fn runs_of_this_tree(&self) -> OrEnd<Vec<usize>> {
        if self.results.is_empty() {
            return Ok(vec![]);
        }
        let current = self.tree_digest().await?;
        let fingerprint = self.fingerprint();
        let judges = |JudgedTree { verification, changes, .. }: &JudgedTree| {
            // A run during which the tree changed has no verdict about any tree.
            let judges = !matches!(
                verification.verdict,
                Verdict::Fail(FailReason::TreeChanged) | Verdict::Infra(_)
            );
            // The digest leaves out files that git ignores. A step may read one that the user allowed the model to edit.
            judges && verification.tree_digest() == Some(&current) && *changes == fingerprint
        };
        Ok((0..self.results.len()).filter(|at| judges(&self.results[*at])).collect())
    }

    /// Returns why the failures of the ending strategy may not come from the change, or `None` where nothing says so.
    pub(super) fn failures_of_no_change(&self) -> Option<Unrelated> {
        let failed = |run: &&VerifiedRun| run.status == Status::Fail;
        let mut last = self.plans.attempts().filter(failed).collect::<Vec<_>>();
        last.drain(..last.len().saturating_sub(REPLAN_AFTER as usize));
        let known = |run: &&VerifiedRun| self.baseline.as_ref().is_some_and(|it| it.knows(run));
        if !last.is_empty() && last.iter().all(known) {
            return Some(Unrelated::Known(
                "All failures of these attempts were there before your first edit".to_owned(),
            ));
        }
        let of_last = |one: &&JudgedTree| last.iter().any(|run| run.run_id == one.run.run_id);
        let judged: Vec<_> = self.results.iter().filter(of_last).collect();
        let pairs =
            judged.iter().flat_map(|one| self.results.iter().map(move |other| (*one, other)));
        let mut two_results = pairs.filter(|(one, other)| {
            one.changes == other.changes
                && one.verification.tree_digest().is_some()
                && one.verification.tree_digest() == other.verification.tree_digest()
                && other.run.status != Status::InfraError
                && differ(&one.run, &other.run)
        });
        if let Some((one, other)) = two_results.next() {
            let id = |run: &VerifiedRun| run.run_id.clone().unwrap_or_else(|| "a run".to_owned());
            return Some(Unrelated::Known(format!(
                "One tree ended differently in {} and {}",
                id(&other.run),
                id(&one.run)
            )));
        }
        let changed: Vec<_> = self.changed_paths().collect();
        failed_alike_elsewhere(&last, &changed).then(|| {
            Unrelated::Possible(format!(
                "The same failures with the same messages ended each of these {} attempts, whose trees differ, and none \
                 of them names a file that you changed",
                last.len()
            ))
        })
    }

    /// Answers for a tree that runs of the task have judged, without another run: the same tree gives the same result, and an
    /// attempt is worth more than that. `None` where the tree may run once more ([`Again`]).
    fn judged_before(&mut self, runs: &[usize]) -> Option<Answer> {
        let JudgedTree { verification, answer, run, .. } = self.results.get(*runs.last()?)?.clone();
        let id = run.run_id.clone().unwrap_or_default();
        let again = Again::of(&run, runs.len(), self.asked_again.as_deref() == Some(&id));
        let remedy = match again {
            Again::Run => return None,
            Again::IfAskedTwice => {
                self.asked_again = Some(id.clone());
                "; edit before you verify again, or call verify once more if a test is flaky: the tree then runs once \
                 more, as an attempt"
            }
            Again::No => "",
        };
        let Answer { text, is_error } = answer;
        let text = format!(
            "unchanged since {id}: this tree was judged, so nothing ran and no attempt is counted{remedy}\n{text}"
        );
        let text = match (is_error, verification.verdict.reason_word()) {
            (true, Some(word)) => format!("{word}: {text}"),
            _ => text,
        };
        self.verified_tree = self.fingerprint();
        self.last = Some(verification);
        self.phase = self.phase_of_tree();
        Some(Answer { text, is_error })
    }

    /// Reads what a run printed: the failures of the step that failed, or the counts of the steps that passed.
    async fn read_run(
        &mut self,
        number: u32,
        verification: &Verification,
    ) -> (VerifiedRun, Vec<(String, Passed)>) {
        let files = self.lines_since(&self.at_last_run);
        let (added, removed) =
            files.iter().fold((0, 0), |(a, r), file| (a + file.added, r + file.removed));
        let step = verification.failing_step();
        let mut run = VerifiedRun {
            attempt: number,
            strategy: self.strategies.all().len() as u32,
            run_id: verification.run_id.as_ref().map(ToString::to_string),
            status: verification.verdict.status(),
            warm: verification.is_warm(),
            steps_run: verification.steps().len()
                + if verification.is_warm() { self.editor.gate.pipeline.prepare.len() } else { 0 },
            failing_step: step.filter(|_| verification.failed()).map(|step| step.name.clone()),
            exit_code: step.and_then(|step| step.exit_code),
            reason: verification.verdict.reason_word().map(str::to_owned),
            failures: Failures::default(),
            passed: Counts::default(),
            lines: (added, removed),
            files,
            changed_place: None,
            tree: verification.tree_digest().map(str::to_owned),
        };
        let (mut reader, verification) = (LogOf::of(self.editor, &run), verification.clone());
        reader.own_tests = self.changed_paths().filter(|path| source::is_test(path)).collect();
        let end = verification.tail.clone().unwrap_or_default();
        let reading = tokio::task::spawn_blocking(move || reader.read(&verification));
        let read = tokio::select! {
            biased;
            () = self.editor.cancel.cancelled() => return (run, vec![]),
            read = reading => read,
        };
        let Ok(read) = read else {
            self.editor
                .events
                .warn("the log of the run could not be parsed; only its end is shown");
            (run.failures, self.end_of_log) = (Failures::of(&Log::of(""), &|_| None), end.clone());
            run.failures.tail = end;
            return (run, vec![]);
        };
        (run.failures, self.end_of_log) = (read.failures, read.end);
        run.changed_place = changed_place(&run.failures, &self.lines_of_the_change());
        run.passed =
            read.passed.iter().fold(Counts::default(), |sum, (_, step)| sum.plus(step.counts));
        (run, read.passed)
    }

    fn tree_now(&self) -> TreeAt {
        let writer = &self.editor.writer;
        let changed = writer.changed().into_iter();
        changed.map(|file| (file.path.clone(), writer.text(&file.path).now)).collect()
    }

    fn changed_paths(&self) -> impl Iterator<Item = String> {
        self.editor.writer.changed().into_iter().map(|file| file.path)
    }

    /// The lines of source files that the task has written since the last green run, or since its start. The lines of tests
    /// are left out, since a test that fails is in its own stack.
    fn lines_of_the_change(&self) -> WrittenLines {
        let source = self.changed_paths().filter(|path| !source::is_test(path));
        let of_file = |path: String| {
            let ContentChange { before, now } = self.editor.writer.text(&path);
            let was = self.at_last_green.get(&path).cloned().unwrap_or(before);
            let lines = written_lines(was.text()?, now.text()?);
            Some((path, lines))
        };
        source.filter_map(of_file).collect()
    }

    /// The files that differ from an earlier state of the tree, with the numbers of their lines that differ.
    fn lines_since(&self, then: &TreeAt) -> Vec<ChangedLines> {
        let writer = &self.editor.writer;
        let paths = self.changed_paths().chain(then.keys().cloned());
        let mut changed = vec![];
        for path in paths.collect::<BTreeSet<_>>() {
            let ContentChange { before, now } = writer.text(&path);
            let was = then.get(&path).cloned().unwrap_or(before);
            if was != now {
                let (added, removed) =
                    changed_lines(was.text().unwrap_or_default(), now.text().unwrap_or_default());
                changed.push(ChangedLines { path, added, removed });
            }
        }
        changed
    }

    /// The changes since the last green run, or since the start of the task, for a Scout that looks for the cause of a
    /// failure.
    pub(super) fn changes_since_green(&self) -> String {
        let since = match self.plans.runs().iter().rfind(|run| run.status == Status::Pass) {
            Some(run) => {
                format!("since {}, which passed", run.run_id.as_deref().unwrap_or("a run"))
            }
            None => "since the start of the task".to_owned(),
        };
        let changed = self.lines_since(&self.at_last_green);
        let files = if changed.len() == 1 { "file was" } else { "files were" };
        let mut text = format!("{since}: {} {files} changed\n", changed.len());
        changed.iter().take(MOST_CHANGED).for_each(|file| text.push_str(&format!("{file}\n")));
        text
    }

    /// Ends the task with the model's account, if the outcome has its proof.
    pub(super) async fn done(&mut self, account: Account) -> OrEnd<ToolOutput> {
        if let Some(refusal) = account.refusal() {
            return Ok(refusal.into());
        }
        let account = match account.outcome {
            // The text becomes part of the stuck report, which is never committed.
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
        if outcome == DoneOutcome::Changed
            && let Some(refusal) = self.refuse_weakened(account.tests.as_deref())
        {
            return Ok(refusal.into());
        }
        match outcome {
            DoneOutcome::Impossible => Err(finish::impossible(&account).into()),
            // `verify` has answered in this turn already.
            _ if needs_green && !green && self.this_turn.verified => {
                let message = "only a green run of the tree as it is now ends a task";
                Ok(Answer::refusal("not_verified", message).into())
            }
            DoneOutcome::NothingToDo | DoneOutcome::Changed if needs_green && !green => {
                self.prove(account).await
            }
            DoneOutcome::NothingToDo | DoneOutcome::Changed => self.end_green(Some(account)).await,
        }
    }

    /// Verifies the tree that, by the model's account, ends the task. A green run ends it.
    async fn prove(&mut self, account: Account) -> OrEnd<ToolOutput> {
        let answer = match self.verify().await? {
            ToolOutput::End(next) => return Ok(ToolOutput::End(next)),
            ToolOutput::Answer(answer) => answer,
        };
        if self.tree_is_green().await? {
            return self.end_green(Some(account)).await;
        }
        let text =
            format!("{}\ndone needs a green run of this tree, so the task goes on.", answer.text);
        Ok(Answer { text, is_error: true }.into())
    }

    async fn close_or(&mut self, answer: Answer) -> OrEnd<ToolOutput> {
        if self.is_unchanged() {
            let why = format!(
                "the pipeline passed {GREEN_RUNS} times, the task has changed nothing, and the model did not say whether \
                 it needs a change"
            );
            return Err(TaskResult::stuck(StuckReason::ModelIdle, Some(why)).into());
        }
        match self.tree_is_green().await? {
            true => self.end_green(None).await,
            false => Ok(answer.into()),
        }
    }

    /// Ends the task of a model that never calls `done`, or verifies again if the tree changed meanwhile.
    pub(super) async fn close(&mut self) -> OrEnd<ToolOutput> {
        if self.tree_is_green().await? {
            return self.end_green(None).await;
        }
        self.verify().await
    }

    /// Runs the pipeline, for the model or for the host. A verification that the host starts is refused for the same reasons,
    /// so that silence bypasses none of them.
    pub(super) async fn verify(&mut self) -> OrEnd<ToolOutput> {
        if let Some(refusal) = self.ignored_changes() {
            return Ok(refusal.into());
        }
        let earlier = self.runs_of_this_tree().await?;
        if let Some(answer) = self.judged_before(&earlier) {
            return Ok(answer.into());
        }
        if let Some(refusal) = self.pending_review() {
            return Ok(refusal.into());
        }
        (self.criteria_shown, self.questions, self.checks) = (false, 0, 0);
        self.verified_tree = self.fingerprint();

        let number = self.debug_loop.next_attempt();
        self.milestone(Milestone::Attempt { number, of: HARD_STOP_AFTER });
        self.milestone(Milestone::Verifying);
        self.editor.verifier.tests_weakened(self.weakened_places());
        let verification = self.editor.verifier.run(number, &self.editor.cancel).await;
        let Some(mut verification) = verification.filter(|_| !self.editor.cancel.is_cancelled())
        else {
            return Err(TaskResult::cancelled().into());
        };
        self.record_gate_inputs(verification.run_id.as_ref().map(RunId::as_str));
        let before = self.debug_loop;
        let next = self.debug_loop.judge(verification.verdict.status());
        self.before_green = if verification.passed() { before } else { self.debug_loop };
        let (run, passed) = self.read_run(number, &verification).await;
        self.warn_of_tests(&run, &mut verification);
        let warnings = self.warnings_for_model(&verification);
        let as_before = self.baseline.as_ref().and_then(|baseline| baseline.comparison(&run));
        let mut text = match verification.failed() {
            true => {
                let before = self.plans.runs().last();
                failed_answer(&run, before, as_before, &warnings)
            }
            false => passed_answer(&run, &passed, self.is_unchanged(), &warnings),
        };
        match earlier.iter().map(|at| &self.results[*at].run).rfind(|one| differ(one, &run)) {
            Some(other) => {
                let note = not_deterministic(other);
                self.editor.events.warn(&note);
                text.push_str(&format!("\n{note}"));
            }
            None if earlier.is_empty() && may_pass(&run) => {
                text.push_str(&format!("\n{MAY_PASS}"));
            }
            None => {}
        }
        self.asked_again = None;
        let answer = Answer { text, is_error: verification.failed() };
        if verification.failed() {
            self.milestone(Milestone::VerificationFailed);
            self.editor.events.emit(EventKind::Diagnosis { text: prompt::run_line(&run) });
        }
        self.at_last_run = self.tree_now();
        if verification.passed() {
            self.at_last_green = self.at_last_run.clone();
        }
        self.plans.add_run(run.clone());
        let infra = verification.verdict.infra().cloned();
        self.results.push(JudgedTree {
            verification: verification.clone(),
            answer: answer.clone(),
            changes: self.verified_tree.clone(),
            run,
        });
        self.last = Some(verification);
        match next {
            AfterVerification::Fix => {
                self.phase = Phase::Working;
                Ok(answer.into())
            }
            AfterVerification::Finish => {
                self.phase = self.phase_of_tree();
                let green = |run: &&VerifiedRun| run.status == Status::Pass;
                // A model that edits a green tree again and again is closed while the tree is green.
                if self.plans.runs().iter().filter(green).count() >= GREEN_RUNS {
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
pub(super) fn repository_moved(diagnosis: &str) -> TaskResult {
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

/// The changed files of a task at one moment, with their contents.
pub(super) type TreeAt = BTreeMap<String, Content>;

/// Maximum number of changed files that are listed in a question to a Scout.
const MOST_CHANGED: usize = 40;

/// Time for finding the smallest difference; after it the counts may be larger than necessary.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

fn changed_lines(was: &str, now: &str) -> (usize, usize) {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(was, now);
    diff.iter_all_changes().fold((0, 0), |(added, removed), change| match change.tag() {
        ChangeTag::Insert => (added + 1, removed),
        ChangeTag::Delete => (added, removed + 1),
        ChangeTag::Equal => (added, removed),
    })
}

/// The lines of files that were written, as ranges that begin at 1.
type WrittenLines = BTreeMap<String, Vec<Range<u32>>>;

fn written_lines(was: &str, now: &str) -> Vec<Range<u32>> {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(was, now);
    let line = |index: usize| u32::try_from(index + 1).unwrap_or(u32::MAX);
    let written = diff.ops().iter().filter(|op| op.tag() != DiffTag::Equal);
    let written = written.map(|op| op.new_range()).filter(|range| !range.is_empty());
    written.map(|range| line(range.start)..line(range.end)).collect()
}

/// Returns the written line that is a frame of most failures, with the number of those failures.
fn changed_place(found: &Failures, written: &WrittenLines) -> Option<(Place, usize)> {
    let is_written = |place: &&Place| {
        let ranges = written.get(&place.path).map(Vec::as_slice).unwrap_or_default();
        ranges.iter().any(|range| range.contains(&place.line))
    };
    let mut times = BTreeMap::<&Place, usize>::new();
    for failure in &found.failures {
        let places: BTreeSet<_> = failure.frames.iter().filter(is_written).collect();
        places.into_iter().for_each(|place| *times.entry(place).or_default() += 1);
    }
    let most = times.values().max().copied()?;
    // Of several such lines the one is named that the first failure reaches last.
    let named = found.failures.iter().flat_map(|failure| &failure.frames);
    let mut named = named.filter(|place| times.get(place) == Some(&most));
    named.next().map(|place| (place.clone(), most))
}

/// Bytes of the end of a log that Scout B parses. Its component reads no more than twice that.
const END_OF_LOG: usize = 128 * 1024;

/// The end of a log as a Scout gets it, below the lines of the first failure where the end does not reach back to it: the first
/// failure is most often the cause of the others.
fn for_a_scout(log: &Log, failures: &Failures) -> String {
    let end = log.end(END_OF_LOG);
    let begins = log.len().saturating_sub(end.lines().count());
    let first = failures.failures.iter().map(|failure| failure.lines).min();
    let Some((from, to)) = first.filter(|_| !log.is_empty()) else { return end.to_owned() };
    let above = (0..begins).filter(|at| (from..=to).contains(&log.number(*at)));
    let above: Vec<&str> = above.take(FIRST_FAILURE).map(|at| log.line(at)).collect();
    match above.is_empty() {
        true => end.to_owned(),
        false => format!("{}\n…\n{end}", above.join("\n")),
    }
}

/// Lines of the first failure that a Scout gets above the end of a long log.
const FIRST_FAILURE: usize = 100;

/// Reads the logs of one run.
pub(super) struct LogOf {
    workplace: Arc<dyn Workplace>,
    run_id: Option<String>,
    step: Option<String>,
    /// Files with tests that the task changed.
    own_tests: BTreeSet<String>,
}

/// The parsed logs of a run.
struct RunLog {
    failures: Failures,
    /// The end of the failing step's log.
    end: String,
    /// Each step of a run that passed.
    passed: Vec<(String, Passed)>,
}

impl LogOf {
    fn of(editor: &Editor, run: &VerifiedRun) -> Self {
        let workplace = Arc::clone(&editor.workplace);
        let (run_id, step) = (run.run_id.clone(), run.failing_step.clone());
        Self { workplace, run_id, step, own_tests: BTreeSet::new() }
    }

    /// Returns the reader of a run that is no attempt.
    pub(super) fn of_run(editor: &Editor, run: &Verification) -> Self {
        let step = run.failing_step().filter(|_| run.failed()).map(|step| step.name.clone());
        let run_id = run.run_id.as_ref().map(ToString::to_string);
        Self { workplace: Arc::clone(&editor.workplace), run_id, step, own_tests: BTreeSet::new() }
    }

    /// Reads what failed in the run.
    pub(super) fn failures(&self, verification: &Verification) -> Failures {
        self.read(verification).failures
    }

    fn read(&self, verification: &Verification) -> RunLog {
        let log = |step: &str| {
            self.run_id.as_deref().and_then(|run| self.workplace.log(run, Some(step), 1).ok())
        };
        // Without the log of the step, its end is in the result.
        let tail = || Log::of(verification.tail.as_deref().unwrap_or_default());
        let mut read = RunLog { failures: Failures::default(), end: String::new(), passed: vec![] };
        match verification.verdict {
            Verdict::Pass => {
                let steps = verification.steps().iter();
                read.passed = steps
                    .map(|step| {
                        (
                            step.name.clone(),
                            log(&step.name).map(|log| Passed::of(&log)).unwrap_or_default(),
                        )
                    })
                    .collect();
            }
            Verdict::Fail(FailReason::StepFailed | FailReason::Timeout) => {
                let log = self.step.as_deref().and_then(log).unwrap_or_else(tail);
                let files = Files::of(self.workplace.paths());
                let own_test = |path: &str| self.own_tests.contains(path);
                read.failures = Failures::of_task(&log, &|path| files.named(path), &own_test);
                read.end = for_a_scout(&log, &read.failures);
            }
            Verdict::Fail(reason) => {
                let step = verification.failing_step();
                let wrote = step
                    .iter()
                    .flat_map(|step| &step.source_writes)
                    .map(|write| format!("{} ({})", write.path, write.change));
                let wrote = wrote.take(5).collect::<Vec<_>>().join(", ");
                read.failures = Failures::message(&match reason {
                    FailReason::SourceWrites => {
                        format!("the step changed files of the repository: {wrote}")
                    }
                    _ => "the tree changed while the pipeline ran".to_owned(),
                });
                read.end = tail().end(END_OF_LOG).to_owned();
            }
            Verdict::Infra(_) => {}
        }
        read
    }
}

/// The files of the repository by their names, to look up the paths in a log.
struct Files {
    of_name: HashMap<String, Vec<String>>,
}

impl Files {
    fn of(paths: Vec<String>) -> Self {
        let mut of_name = HashMap::<String, Vec<String>>::new();
        for path in paths {
            of_name.entry(source::name(&path).to_owned()).or_default().push(path);
        }
        Self { of_name }
    }

    /// Returns the file that a path means: the same path, or the only one with that ending. Steps run in directories of their
    /// own, and some tools print a file's name alone.
    fn named(&self, path: &str) -> Option<String> {
        let path = path.trim_start_matches("file://");
        let path = path.trim_start_matches("./").trim_start_matches("../");
        let same_name = self.of_name.get(source::name(path))?;
        if let Some(same) = same_name.iter().find(|file| *file == path) {
            return Some(same.clone());
        }
        if path.starts_with('/') {
            return None;
        }
        let ending = format!("/{path}");
        let mut ends = same_name.iter().filter(|file| file.ends_with(&ending));
        let only = ends.next()?;
        ends.next().is_none().then(|| only.clone())
    }
}

/// Bytes of the log's end behind failures that were parsed, and of one that no parser knows.
const TAIL: usize = 1_200;
const WHOLE_TAIL: usize = 6 * 1024;
/// Bytes of the texts of failures in one answer.
const EXCERPTS: usize = 5 * 1024;
/// Groups that are listed, and names in each.
const GROUPS: usize = 8;
const NAMES: usize = 5;
/// Places that a group names.
const PLACES: usize = 3;
/// Failures that are named as new or gone.
const NEW_OR_GONE: usize = 5;
/// Failures from which on a person would look for one cause of many.
const MANY: usize = 10;

/// The last bytes of a text, from the start of a line where there is one.
fn end_of(text: &str, most: usize) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(most));
    let rest = text.get(from..).unwrap_or_default();
    match rest.split_once('\n') {
        Some((_, lines)) if from > 0 && !lines.is_empty() => lines,
        _ => rest,
    }
}

/// A tree that a run of the task has judged.
#[derive(Debug, Clone)]
pub(super) struct JudgedTree {
    verification: Verification,
    /// The answer to the model.
    answer: Answer,
    /// The fingerprint of the task's changes before the run.
    changes: String,
    run: VerifiedRun,
}

/// The decision about another run of a tree that runs have judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    /// The tree is green, or the machine failed.
    No,
    /// The model holds a test for flaky if it asks a second time.
    IfAskedTwice,
    Run,
}

impl Again {
    /// Decides by the last of the `runs` that judged the tree. `asked`: the model has asked for another run of it since that
    /// one. A test that fails every second time is red twice in a row in one of four cases, so a tree may run as often as the
    /// model asks for it twice; each run is an attempt, and these are counted.
    fn of(last: &VerifiedRun, runs: usize, asked: bool) -> Self {
        match last.status {
            Status::Fail if asked || (runs == 1 && may_pass(last)) => Self::Run,
            Status::Fail => Self::IfAskedTwice,
            Status::Pass | Status::InfraError => Self::No,
        }
    }
}

/// The sentence behind a failure that may be gone in another run of the same tree.
const MAY_PASS: &str = "if time or the environment caused this, call verify again: this tree may run once more, as an attempt";

/// Returns whether a run failed for a reason that is not in the tree alone: time, tools, permissions or the network.
fn may_pass(run: &VerifiedRun) -> bool {
    run.status == Status::Fail && requery(std::iter::once(run)).contains(&"scout-b")
}

/// Returns whether two runs of one tree ended differently.
fn differ(one: &VerifiedRun, other: &VerifiedRun) -> bool {
    one.status != other.status
        || one.failing_step != other.failing_step
        || identities(one) != identities(other)
}

/// Why the failures of a strategy may not come from the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unrelated {
    /// The host knows it: they were there before the change, or one tree had two results.
    Known(String),
    /// They look like it. A test that fails alike on each tree may be one that the change does not reach yet, or one that
    /// fails by itself, which only the model can find out.
    Possible(String),
}

/// Returns whether as many runs as a REPLAN needs failed alike on different trees, and no failure names one of the changed
/// files. A failure without a place in the repository may be anywhere, so it counts as one that may name them.
fn failed_alike_elsewhere(runs: &[&VerifiedRun], changed: &[String]) -> bool {
    let [first, rest @ ..] = runs else { return false };
    let trees: BTreeSet<_> = runs.iter().filter_map(|run| run.tree.as_ref()).collect();
    let elsewhere = |failure: &Failure| {
        let names = |path: &String| {
            failure.name.contains(path.as_str())
                || failure.place.iter().chain(&failure.frames).any(|place| place.path == *path)
        };
        failure.place.is_some() && !changed.iter().any(names)
    };
    let messages = |run: &VerifiedRun| -> BTreeSet<String> {
        let failures = run.failures.failures.iter();
        failures.map(|one| untimed(&one.headline()).into_owned()).collect()
    };
    runs.len() == REPLAN_AFTER as usize
        && trees.len() == runs.len()
        && !first.failures.failures.is_empty()
        && runs.iter().all(|run| run.failures.more == 0)
        && first.failures.failures.iter().all(elsewhere)
        && rest.iter().all(|run| {
            run.failing_step == first.failing_step
                && messages(run) == messages(first)
                && run.failures.failures.iter().all(elsewhere)
        })
}

/// The sentence for a tree that gave two results.
fn not_deterministic(other: &VerifiedRun) -> String {
    let id = other.run_id.as_deref().unwrap_or("an earlier run");
    let first = other.first_failing_line();
    let first = if first.is_empty() { String::new() } else { format!(", {first}") };
    format!(
        "this tree ended otherwise in {id} ({}{first}): a test or a step is not deterministic, so neither result proves \
         anything about your change; find what it depends on (time, order, randomness, network), or name it in done",
        other.status.as_str()
    )
}

/// The failures of a run without their durations, which differ from run to run.
fn identities(run: &VerifiedRun) -> BTreeSet<String> {
    run.failures.failures.iter().map(|one| untimed(&one.identity()).into_owned()).collect()
}

/// The answer of `verify` for a run that passed.
fn passed_answer(
    run: &VerifiedRun,
    steps: &[(String, Passed)],
    unchanged: bool,
    warnings: &[String],
) -> String {
    let mut lines = vec![head(run)];
    for (step, Passed { counts, last_line }) in steps {
        let stated = counts.passed.is_some_and(|passed| states(last_line, passed));
        let counts = match counts.is_empty() || stated {
            true => String::new(),
            false => format!("{counts}; "),
        };
        let last = if last_line.is_empty() { "it printed nothing" } else { last_line.as_str() };
        lines.push(format!("step {step}: {counts}{last}"));
    }
    lines.push(match unchanged {
        true => {
            "nothing is changed since the start of the task, so this run proves no work: edit, or call done with the \
             outcome nothing_to_do if the task needs no change"
                .to_owned()
        }
        false => format!(
            "call done within {CLOSING_TURNS} turns, or edit on and verify again"
        ),
    });
    lines.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.join("\n")
}

/// Returns whether a line states the number of tests that passed.
fn states(line: &str, passed: u64) -> bool {
    let number = passed.to_string();
    line.contains("pass") && line.split(|c: char| !c.is_ascii_digit()).any(|part| part == number)
}

fn head(run: &VerifiedRun) -> String {
    let (status, id) = (run.status.as_str(), run.run_id.as_deref().unwrap_or_default());
    let warm = if run.warm { " · warm" } else { "" };
    format!("{status} · {id} · attempt {} of {HARD_STOP_AFTER}{warm}", run.attempt)
}

/// The answer of `verify` for a run that failed.
fn failed_answer(
    run: &VerifiedRun,
    before: Option<&VerifiedRun>,
    as_before: Option<&str>,
    warnings: &[String],
) -> String {
    let step = run.failing_step.iter().map(|step| format!(" · step {step}"));
    let code = run.exit_code.iter().map(|code| format!(" · exit code {code}"));
    let place: String = step.chain(code).collect();
    let mut lines =
        vec![format!("{}: {}{place}", run.reason.as_deref().unwrap_or_default(), head(run))];
    let found = &run.failures;
    let counts = if found.tool == "unknown" { String::new() } else { counted(found) };
    lines.extend(Some(counts).filter(|counts| !counts.is_empty()));
    lines.extend(before.map(|before| since(run, before)));
    lines.extend(as_before.map(str::to_owned));
    lines.extend(run.changed_place.as_ref().map(|(place, times)| {
        format!("{place}, which you changed, is in {times} of {} failures", found.failures.len())
    }));
    lines.extend(hint(run));
    lines.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.push(described(run));
    lines.join("\n")
}

/// The tool and its numbers: `pytest: 23 failed, 61 passed`.
fn counted(found: &Failures) -> String {
    match found.counts.is_empty() {
        true => format!("{}: {} errors", found.tool, found.count()),
        false => format!("{}: {}", found.tool, found.counts),
    }
}

/// Describes the failure of a run from its log: the groups of failures, the text of the first, and the log's end.
pub(super) fn last_failure(run: &VerifiedRun) -> String {
    match run.status {
        Status::Fail => described(run),
        _ => String::new(),
    }
}

fn described(run: &VerifiedRun) -> String {
    let found = &run.failures;
    let known = found.tool != "unknown";
    let mut parts = vec![];
    if let Some(short) = &found.short
        && found.groups.len() <= 2
    {
        parts.push(format!(
            "the log, without passing tests and frames of toolchains:\n{}",
            marked(short)
        ));
        return parts.join("\n");
    }
    if !known {
        // The groups of an unknown tool are single lines, which the end of the log may not reach.
        let first: Vec<_> =
            found.groups.iter().take(GROUPS).map(|group| format!("  {}", group.message)).collect();
        if !first.is_empty() {
            parts.push(format!(
                "the lines that look like failures, {} in all:\n{}",
                found.count(),
                first.join("\n")
            ));
        }
        parts.push(format!("the end of the log:\n{}", marked(end_of(&found.tail, WHOLE_TAIL))));
    } else {
        parts.extend(found.groups.iter().take(GROUPS).map(|group| listed(group, found)));
        let more: usize = found.groups.iter().skip(GROUPS).map(|group| group.failures.len()).sum();
        if more + found.more > 0 {
            parts.push(format!("and {} more failures", more + found.more));
        }
        let mut left = EXCERPTS;
        for (at, group) in found.groups.iter().enumerate() {
            let first = group.failures.first().and_then(|index| found.failures.get(*index));
            let Some(first) = first else { continue };
            // The first one is shown whole; others as far as there is room.
            if group.excerpt.is_empty() || (at > 0 && group.excerpt.len() > left.min(EXCERPTS / 4))
            {
                continue;
            }
            left = left.saturating_sub(group.excerpt.len());
            let name = if first.name.is_empty() { &first.message } else { &first.name };
            let (from, to) = first.lines;
            let text = marked(&group.excerpt);
            parts.push(format!("{name} (lines {from}-{to} of the log):\n{text}"));
        }
        let tail = end_of(&found.tail, TAIL).trim();
        if !tail.is_empty() {
            parts.push(format!(
                "the end of the log, without the above and without passing tests:\n{}",
                marked(tail)
            ));
        }
    }
    if let Some(id) = &run.run_id {
        let step = run.failing_step.as_deref().unwrap_or_default();
        parts.push(format!(
            "the log has {} lines; read_log {{run_id: {id}, step: {step}}} returns any part of it, by start or pattern",
            found.lines
        ));
    }
    parts.join("\n")
}

/// Puts a mark before each line of a log, so that no line of it can pass for one of the host's.
fn marked(log: &str) -> String {
    log.trim_end().lines().map(|line| format!("| {line}")).collect::<Vec<_>>().join("\n")
}

/// A group on one line, with the first places of its failures, and its tests on the next.
fn listed(group: &Group, found: &Failures) -> String {
    let all = || group.failures.iter().filter_map(|index| found.failures.get(*index));
    let mut places = Vec::<String>::new();
    for place in all().filter_map(|one| one.place.as_ref()).map(Place::to_string) {
        if places.len() <= PLACES && !places.contains(&place) {
            places.push(place);
        }
    }
    let more = if places.len() > PLACES { ", …" } else { "" };
    places.truncate(PLACES);
    let place = if places.is_empty() { "" } else { " · " };
    let place = format!("{place}{}{more}", places.join(", "));
    let message = if group.message.is_empty() { "no message" } else { &group.message };
    let others = all().filter(|one| one.message != group.message).count();
    let values = match others {
        0 => String::new(),
        1 => " (the first; 1 has other values)".to_owned(),
        others => format!(" (the first; {others} have other values)"),
    };
    let mut text = format!("{} × {message}{values}{place}", group.failures.len());
    let names: Vec<_> =
        all().map(|one| one.name.as_str()).filter(|name| !name.is_empty()).collect();
    if !names.is_empty() {
        text.push_str(&format!("\n  {}", some(&names, NAMES)));
    }
    text
}

/// The first names, and how many there are more.
fn some(names: &[&str], most: usize) -> String {
    let shown = names.iter().take(most).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Lists the failures that are new or gone since the run before.
fn since(run: &VerifiedRun, before: &VerifiedRun) -> String {
    let id = before.run_id.as_deref().unwrap_or("the run before");
    let (added, removed) = run.lines;
    let head = format!("since {id} (+{added} -{removed} lines)");
    if before.status != Status::Fail {
        return format!("{head}: that run ended with {}", before.status.as_str());
    }
    if before.failing_step != run.failing_step {
        let step = before.failing_step.as_deref().unwrap_or("-");
        return format!("{head}: that run failed in step {step}");
    }
    let (was, now) = (identities(before), identities(run));
    let list = |all: Vec<&String>, word: &str| {
        let names: Vec<_> = all.iter().map(|name| name.as_str()).collect();
        let failures = if names.len() == 1 { "failure" } else { "failures" };
        (!names.is_empty())
            .then(|| format!("{} {failures} {word}: {}", names.len(), some(&names, NEW_OR_GONE)))
    };
    let new = list(now.difference(&was).collect(), "new");
    let gone = list(was.difference(&now).collect(), "gone");
    let parts: Vec<_> = new.into_iter().chain(gone).collect();
    match parts.is_empty() {
        true => format!("{head}: the same failures"),
        false => format!("{head}: {}", parts.join("; ")),
    }
}

/// The hint to ask Scouts about a failure whose cause the log does not name: no failure has a place in the repository, or
/// many have none outside of tests.
fn hint(run: &VerifiedRun) -> Option<String> {
    let found = &run.failures;
    let named = found.failures.iter().any(|failure| {
        failure
            .place
            .as_ref()
            .is_some_and(|place| found.count() < MANY || !source::is_test(&place.path))
    });
    if named {
        return None;
    }
    let whom = match requery(std::iter::once(run)).as_slice() {
        [] => "scout-b".to_owned(),
        names => names.join(" or "),
    };
    Some(format!(
        "ask_scout {whom} about the cause if you do not see it; the log and the changes go along"
    ))
}

/// Failing lines of the baseline that are shown.
const SHOWN: usize = 10;

/// The run of the pipeline before the first edit.
pub(super) struct Baseline(VerifiedRun);

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
        let baseline = Baseline(self.read_run(0, &verification).await.0);
        self.editor.events.emit(EventKind::Baseline {
            run_id: baseline.0.run_id.clone(),
            status: baseline.0.status.as_str().to_owned(),
            step: baseline.0.failing_step.clone(),
            failures: baseline.lines(),
        });
        self.baseline = Some(baseline);
        Ok(())
    }
}

impl Baseline {
    pub(super) fn run_id(&self) -> Option<&str> {
        self.0.run_id.as_deref()
    }

    pub(super) fn run(&self) -> &VerifiedRun {
        &self.0
    }

    fn lines(&self) -> Vec<String> {
        self.0.failures.failures.iter().take(SHOWN).map(Failure::headline).collect()
    }

    fn named_run(&self) -> &str {
        self.run_id().unwrap_or("a run")
    }

    /// The text for the model's first message.
    pub(super) fn for_model(&self) -> String {
        let run = self.named_run();
        if self.0.status != Status::Fail {
            return format!("Before any edit the pipeline was green ({run}).");
        }
        let step = self.0.failing_step.as_deref().unwrap_or("-");
        let counts = self.0.counts();
        let counts = if counts.is_empty() { String::new() } else { format!(", {counts}") };
        let mut text = format!(
            "Before any edit the pipeline failed in step {step}{counts} ({run}; `read_log` takes it)."
        );
        let lines = self.lines();
        text.push_str(if lines.is_empty() { " It printed nothing." } else { " What failed then:" });
        lines.iter().for_each(|line| text.push_str(&format!("\n- {line}")));
        text
    }

    /// Returns whether a run failed as the baseline did: in the same step, with no other failures.
    fn knows(&self, run: &VerifiedRun) -> bool {
        let (known, now) = (identities(&self.0), identities(run));
        self.0.status == Status::Fail
            && self.0.failing_step == run.failing_step
            && self.0.reason == run.reason
            && !now.is_empty()
            && now.is_subset(&known)
    }

    /// The remark for the model beside a failure.
    pub(super) fn comparison(&self, run: &VerifiedRun) -> Option<&'static str> {
        Some(match self.knows(run) {
            true => "every one of these failures was there before your first edit",
            false => "the run before your first edit did not fail in this way",
        })
    }

    /// The text for the summary and the stuck report.
    pub(super) fn for_people<'a>(&self, attempts: impl Iterator<Item = &'a VerifiedRun>) -> String {
        let run = self.named_run();
        if self.0.status != Status::Fail {
            return format!("The pipeline was green in {run}: every failure below is new.");
        }
        let step = self.0.failing_step.as_deref().unwrap_or("-");
        let lines = self.lines();
        let end = if lines.is_empty() { ", and printed nothing." } else { ":" };
        let mut text = format!("The pipeline failed in {run}, step {step}{end}\n");
        lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        let (known, new): (Vec<_>, Vec<_>) = attempts.partition(|one| self.knows(one));
        let numbers = |attempts: &[&VerifiedRun]| {
            let numbers: Vec<_> = attempts.iter().map(|one| one.attempt.to_string()).collect();
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

        fn run(attempt: u32, log: &str) -> VerifiedRun {
            let files = ["src/price.py", "tests/test_price.py", "src/c_test.go"];
            let files = Files::of(files.map(str::to_owned).to_vec());
            let failures = Failures::of(&Log::of(log), &|path| files.named(path));
            VerifiedRun { failures, ..VerifiedRun::failed(attempt, "test", "") }
        }

        fn pytest(failed: &[&str]) -> String {
            let mut log = String::from("tests/test_price.py ....\n==== FAILURES ====\n");
            for name in failed {
                log.push_str(&format!(
                    "____ {name} ____\n\n    def {name}():\n>       total()\n\ntests/test_price.py:4: \n\
                     _ _ _ _ _ _ _ _ _ _\nsrc/price.py:11: NameError\n    sum += amuont\nE   NameError: name 'amuont' is not defined\n\n\
                     src/price.py:11: NameError\n"
                ));
            }
            log.push_str("==== short test summary info ====\n");
            failed.iter().for_each(|name| {
                log.push_str(&format!("FAILED tests/test_price.py::{name} - NameError\n"))
            });
            log + &format!("==== {} failed, 4 passed in 0.1s ====\n", failed.len())
        }

        /// EDITOR-25
        #[test]
        fn many_failures_of_one_cause_are_one_line_and_one_text() {
            let names: Vec<String> = (0..600).map(|n| format!("test_{n}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let log = pytest(&names);
            let text = failed_answer(&run(1, &log), None, None, &[]);
            let expected = "step_failed: FAIL · run_1 · attempt 1 of 12 · step test · exit code 1\n\
                            pytest: 600 failed, 4 passed\n\
                            600 × NameError: name 'amuont' is not defined · src/price.py:11\n  \
                            tests/test_price.py::test_0, tests/test_price.py::test_1, tests/test_price.py::test_2, \
                            tests/test_price.py::test_3, tests/test_price.py::test_4 and 595 more\n\
                            tests/test_price.py::test_0 (lines 3-14 of the log):\n";
            assert!(text.starts_with(expected), "{text}");
            assert!(text.contains("sum += amuont") && !text.contains("ask_scout"), "{text}");
            assert!(text.len() < 1_500, "{}", text.len());
        }

        /// EDITOR-25
        #[test]
        fn what_is_new_or_gone_since_the_last_run_is_said() {
            let before = run(1, &pytest(&["test_a", "test_b", "test_c"]));
            let after = VerifiedRun { lines: (3, 1), ..run(2, &pytest(&["test_b", "test_d"])) };
            let test = "tests/test_price.py::test_";
            let expected = format!(
                "since run_1 (+3 -1 lines): 1 failure new: {test}d; 2 failures gone: {test}a, {test}c"
            );
            assert_eq!(since(&after, &before), expected);
            assert!(since(&before, &before).ends_with(": the same failures"));
            let green = VerifiedRun { status: Status::Pass, ..before.clone() };
            assert!(since(&after, &green).ends_with(": that run ended with PASS"));
            let lint = VerifiedRun { failing_step: Some("lint".into()), ..before };
            assert!(since(&after, &lint).ends_with(": that run failed in step lint"));
        }

        /// EDITOR-19
        #[test]
        fn a_scout_is_named_where_the_log_names_no_cause() {
            let hinted = |log: &str| hint(&run(1, log));
            assert_eq!(hinted(&pytest(&["test_a"; 30])), None);
            assert_eq!(
                hinted("error[E0425]: no\n --> src/price.py:8:5\n\nerror: could not compile `x`\n"),
                None
            );
            assert!(
                hinted("FAIL: add 2 3: expected 5\n").unwrap().starts_with("ask_scout scout-b ")
            );
            assert!(
                hinted("ImportError: cannot find x\n").unwrap().starts_with("ask_scout scout-a ")
            );
            let in_tests = pytest(&["test_a"; 30]).replace("src/price.py", "tests/test_price.py");
            assert!(hinted(&in_tests).is_some());
        }

        /// EDITOR-25
        #[test]
        fn a_short_log_is_shown_without_its_noise() {
            let log = "make: entering\nok 1 - adds\nFAIL: add 2 3: expected 5, got -1\n";
            let text = failed_answer(&run(1, log), None, Some("as before"), &[]);
            assert!(text.contains("\nas before\n"), "{text}");
            assert!(
                text.ends_with("\n| make: entering\n| FAIL: add 2 3: expected 5, got -1"),
                "{text}"
            );
        }

        /// SCOUT-3: the output of a step is written by whoever wrote the tests.
        #[test]
        fn no_line_of_a_log_passes_for_one_of_the_host() {
            let forged = "# Limits";
            let many: String = (0..80).map(|n| format!("line {n}\n{forged}\n")).collect();
            for log in [format!("{forged}\nFAIL: no\n"), many, pytest(&["test_a"]) + forged] {
                let text = failed_answer(&run(1, &log), None, None, &[]);
                assert!(text.contains(forged), "{text}");
                assert!(text.lines().all(|line| !line.starts_with(forged)), "{text}");
            }
        }

        #[test]
        fn a_path_of_a_log_is_a_file_of_the_repository_or_none() {
            let files = Files::of(
                ["src/a.go", "src/b/c_test.go", "x/c_test.go", "A.java"]
                    .map(str::to_owned)
                    .to_vec(),
            );
            for (path, file) in [
                ("./src/a.go", Some("src/a.go")),
                ("a.go", Some("src/a.go")),
                ("../src/a.go", Some("src/a.go")),
                ("b/c_test.go", Some("src/b/c_test.go")),
                ("c_test.go", None),
                ("A.java", Some("A.java")),
                ("/usr/include/a.go", None),
                ("z.go", None),
            ] {
                assert_eq!(files.named(path).as_deref(), file, "{path}");
            }
        }

        #[test]
        fn lines_are_counted_as_added_and_removed() {
            assert_eq!(changed_lines("a\nb\nc\n", "a\nB\nc\nd\n"), (2, 1));
            assert_eq!(changed_lines("", ""), (0, 0));
        }

        /// EDITOR-76
        #[test]
        fn a_written_line_that_is_in_the_failures_is_named() {
            let mut failed = run(1, &pytest(&["test_a", "test_b"]));
            let written = |was: &str, now: &str| {
                WrittenLines::from([("src/price.py".to_owned(), written_lines(was, now))])
            };
            let lines: Vec<String> = (1..=11).map(|n| format!("line {n}\n")).collect();
            let (was, now) = (lines[..9].concat(), lines.concat());
            assert_eq!(written_lines(&was, &now), vec![10..12]);
            assert_eq!(written_lines("a\nb\nc\n", "a\nc\n"), []);
            failed.changed_place = changed_place(&failed.failures, &written(&was, &now));
            let text = failed_answer(&failed, None, None, &[]);
            let line = "\nsrc/price.py:11, which you changed, is in 2 of 2 failures\n";
            assert!(text.contains(line), "{text}");
            assert_eq!(changed_place(&failed.failures, &written(&now, &now)), None);
        }

        /// EDITOR-75
        #[test]
        fn a_group_names_its_first_places() {
            let names = ["a", "b", "c", "d"];
            let failed: String = (1..)
                .zip(names)
                .map(|(n, name)| {
                    format!("--- FAIL: Test{name} (0.00s)\n    c_test.go:{n}: it is broken\n")
                })
                .collect();
            let text = failed_answer(&run(1, &format!("{failed}FAIL\tx\t0.1s\n")), None, None, &[]);
            let many =
                format!("{failed}{}FAIL\tx\t0.1s\n", "noise of the test binary\n".repeat(90));
            let text = text + &failed_answer(&run(1, &many), None, None, &[]);
            let group = "4 × it is broken · src/c_test.go:1, src/c_test.go:2, src/c_test.go:3, …\n";
            assert!(text.contains(group), "{text}");
            // The message is in the group and at no other place.
            assert_eq!(described(&run(1, &many)).matches("it is broken").count(), 1);
        }

        /// EDITOR-87
        #[test]
        fn a_group_says_how_many_of_its_failures_have_other_values() {
            let failed = |values: &[u32]| -> String {
                let failures: String = (1..)
                    .zip(values)
                    .map(|(n, value)| {
                        format!(
                            "--- FAIL: Test{n} (0.00s)\n    c_test.go:{n}: got {value}, want 7\n"
                        )
                    })
                    .collect();
                let noise = "noise of the test binary\n".repeat(90);
                let log = format!("{failures}{noise}FAIL\tx\t0.1s\n");
                failed_answer(&run(1, &log), None, None, &[])
            };
            for (values, head) in [
                (&[1, 1, 1][..], "\n3 × got 1, want 7 · src/c_test.go:1"),
                (
                    &[1, 2, 1],
                    "\n3 × got 1, want 7 (the first; 1 has other values) · src/c_test.go:1",
                ),
                (
                    &[1, 2, 3],
                    "\n3 × got 1, want 7 (the first; 2 have other values) · src/c_test.go:1",
                ),
            ] {
                let text = failed(values);
                assert!(text.contains(head), "{head}: {text}");
            }
        }

        /// EDITOR-57
        #[test]
        fn a_pass_tells_each_step_with_its_counts_and_last_line() {
            let green = VerifiedRun { status: Status::Pass, ..VerifiedRun::failed(2, "", "") };
            let steps = [
                ("build".to_owned(), Passed::of(&Log::of("built\n"))),
                ("test".to_owned(), Passed::of(&Log::of("==== 84 passed in 0.15s ====\n"))),
                ("lint".to_owned(), Passed::default()),
            ];
            assert_eq!(
                passed_answer(&green, &steps, false, &[]),
                "PASS · run_2 · attempt 2 of 12\nstep build: built\nstep test: 84 passed in 0.15s\n\
                 step lint: it printed nothing\ncall done within 3 turns, or edit on and verify again"
            );
        }
    }

    mod baseline {
        use super::super::*;

        fn attempt(number: u32, log: &str) -> VerifiedRun {
            let failures = Failures::of(&Log::of(log), &|_| None);
            VerifiedRun { failures, ..VerifiedRun::failed(number, "test", "") }
        }

        // EDITOR-51
        #[test]
        fn failures_that_were_there_before_are_told_from_new_ones() {
            let baseline = Baseline(attempt(0, "FAIL old one\nFAIL old two\nFAIL: 1 in 0.3s"));
            let attempts = [
                attempt(1, "FAIL old two\n"),
                attempt(2, "FAIL old two\nFAIL new\n"),
                attempt(3, ""),
                attempt(4, "FAIL: 1 in 0.25s"),
            ];
            let known: Vec<_> = attempts.iter().map(|one| baseline.knows(one)).collect();
            assert_eq!(known, [true, false, false, true]);
            assert_eq!(
                baseline.for_people(attempts.iter()),
                format!(
                    "The pipeline failed in run_0, step test:\n  FAIL old one\n  FAIL old two\n  \
                 FAIL: 1 in 0.3s\nFailed so as well: attempts 1, 4.\nFailed otherwise, so new: attempts 2, 3.\n"
                )
            );
            assert!(baseline.for_model().contains(":\n- FAIL old one\n- FAIL old two\n"));
        }

        // EDITOR-51
        #[test]
        fn after_a_green_baseline_every_failure_is_new() {
            let green = VerifiedRun { status: Status::Pass, ..attempt(0, "FAIL is a word here\n") };
            let baseline = Baseline(green);
            assert!(!baseline.knows(&attempt(1, "FAIL is a word here\n")));
            assert!(baseline.for_people([].into_iter()).contains("every failure below is new"));
        }
    }
}
