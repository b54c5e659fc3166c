//! What the task's tests prove. Tests that demand less than at the start of the task are named to the model with the edit, with
//! each run and before the end, so that a green run of weaker tests never passes for one of the old ones. Before a success the
//! changed tests run on the code of the start, where one of them should fail (red first), and the tests of the start on the
//! changed code.

use std::collections::BTreeSet;

use super::tools::{Account, Answer, DoneOutcome, ToolOutput};
use super::verify::{AfterVerification, LogOf};
use super::{AfterConversation, Aim, OrEnd, Phase, Session, TaskResult};
use crate::context::VerifiedRun;
use crate::gate_inputs::{FileChange, Weakening, is_test};
use act_audit::{Entry, Event};
use act_core::StuckReason;
use act_core::event::{EventKind, Milestone};
use act_core::evidence::{
    DOES_NOT_COMPILE, Evidence, EvidenceRule, FileAtStart, OldTests, RedFirst, Shown,
};
use act_core::verification::{FailReason, Status, Verdict, Verification, Warning, WarningCode};
use act_reports::failures::{Failure, Failures};
use act_reports::source::{self, Kind};
use act_workspace::{ChangedFile, digest};

/// The changed tests that were reported to the model and to the user.
#[derive(Debug, Default)]
pub(super) struct Weakened {
    /// Named in an answer to an edit, without lines, which change with each edit above them.
    named: BTreeSet<Weakening>,
    /// Named in a refusal of `done`, without lines. Called again, `done` stands for a reason.
    refused: BTreeSet<Weakening>,
    /// The warning in the answer about the last run.
    warned: Option<String>,
    /// The sentence about a green run that ran fewer tests than the one before, until a run has as many again.
    fewer: Option<String>,
    fewer_refused: Option<String>,
}

/// The words above the places. An assertion that became another one may demand more, which no comparison of texts can tell.
const CHANGED_TESTS: &str =
    "existing tests no longer demand what they did at the start of the task";
/// Places that a manifest lists, as many as the audit log records files of one run.
const IN_MANIFEST: usize = 200;
/// Places that one answer lists; a task that changes more of them needs a look at the files.
const LISTED: usize = 20;

/// The places that are not among the known ones, whatever their lines are.
fn not_in(known: &BTreeSet<Weakening>, now: &[Weakening]) -> Vec<Weakening> {
    now.iter().filter(|one| !known.contains(&one.without_line())).cloned().collect()
}

impl Session<'_> {
    /// Calls `work` with the changed files of the task and their texts.
    pub(super) fn with_changes<T>(&self, work: impl FnOnce(&[FileChange<'_>]) -> T) -> T {
        let writer = &self.editor.writer;
        let files: Vec<_> =
            writer.changed().into_iter().map(|file| (writer.text(&file.path), file)).collect();
        let changes: Vec<_> = files
            .iter()
            .map(|(text, file)| FileChange {
                path: &file.path,
                sha256_before: file.sha256_before.as_deref(),
                sha256_now: file.sha256_now.as_deref(),
                text_before: text.before.text(),
                text_now: text.now.text(),
            })
            .collect();
        work(&changes)
    }

    /// The places where tests demand less than at the start of the task, or something else.
    pub(super) fn weakened(&self) -> Vec<Weakening> {
        self.with_changes(|changes| self.tests.weakened(changes))
    }

    /// The same places without text of the files, for the manifest of a run.
    pub(super) fn weakened_places(&self) -> Vec<String> {
        self.weakened().iter().take(IN_MANIFEST).map(Weakening::place).collect()
    }

    /// The sentences about changed tests for the answer to the edit that changed them.
    pub(super) fn newly_weakened(&mut self) -> Option<String> {
        let now = self.weakened();
        let new = not_in(&self.weaker.named, &now);
        // The rule is said once; later edits only name their places.
        let is_first = self.weaker.named.is_empty();
        self.weaker.named = now.iter().map(Weakening::without_line).collect();
        let rule = match is_first {
            true => {
                "\nrestore what the task does not ask for; for the rest name each test or its file in the `tests` of done, \
                 with the reason why the task wants it"
            }
            false => "",
        };
        (!new.is_empty()).then(|| format!("{CHANGED_TESTS}:\n{}{rule}", listed(&new)))
    }

    /// Adds what is to be said about the tests of a run to its warnings. `run` is not among the runs of the plans yet.
    pub(super) fn warn_of_tests(&mut self, run: &VerifiedRun, verification: &mut Verification) {
        if run.status == Status::Pass {
            let green = self.plans.runs().iter().rfind(|run| run.status == Status::Pass);
            let earlier = green.or(self.baseline.as_ref().map(|baseline| baseline.run()));
            if let Some(earlier) = earlier {
                self.weaker.fewer = fewer_tests(run, earlier, self.weaker.fewer.take());
            }
        }
        let warning = |code, message| Warning { code, step: None, message };
        let weakened = self.weakened();
        if !weakened.is_empty() {
            let places = listed(&weakened).replace("\n- ", "; ");
            let message = format!("{CHANGED_TESTS}: {}", places.trim_start_matches("- "));
            verification.warnings.push(warning(WarningCode::TestsWeakened, message));
        }
        if let Some(fewer) = self.weaker.fewer.clone().filter(|_| run.status == Status::Pass) {
            verification.warnings.push(warning(WarningCode::FewerTestsRan, fewer));
        }
    }

    /// The warnings of a run for the model. The places in tests are listed once, until they change.
    pub(super) fn warnings_for_model(&mut self, verification: &Verification) -> Vec<String> {
        let mut shown = vec![];
        for Warning { code, message, .. } in &verification.warnings {
            let known = *code == WarningCode::TestsWeakened
                && self.weaker.warned.replace(message.clone()).as_ref() == Some(message);
            shown.push(match known {
                true => format!("{CHANGED_TESTS}, in the places of the last run"),
                false => message.clone(),
            });
        }
        shown
    }

    /// Refuses `done` once for tests that no longer demand what they did, with their places. Places that the answer to an edit
    /// named and that `reason` names, by the test or its file, need no refusal: the model has received the list and has answered.
    pub(super) fn refuse_weakened(&mut self, reason: Option<&str>) -> Option<Answer> {
        let allowed = &self.editor.input.allowed_test_changes;
        let explained = |one: &Weakening| {
            reason.is_some_and(|reason| one.is_named_in(reason))
                && self.weaker.named.contains(&one.without_line())
        };
        let mut new = not_in(&self.weaker.refused, &self.weakened());
        new.retain(|one| !allowed.matches(&one.path) && !explained(one));
        if new.is_empty() {
            return None;
        }
        self.weaker.refused.extend(new.iter().map(Weakening::without_line));
        let message = format!(
            "{CHANGED_TESTS}:\n{}\nrestore them, or call done again and say in `tests` why the task wants each; the user \
             reads the places and your reason",
            listed(&new)
        );
        Some(Answer::refusal("tests_weakened", &message))
    }

    /// Refuses `done` once for a green run that ran fewer tests than the one before.
    pub(super) fn refuse_fewer_tests(&mut self) -> Option<Answer> {
        let fewer = self.weaker.fewer.clone()?;
        if self.weaker.fewer_refused.as_ref() == Some(&fewer) {
            return None;
        }
        self.weaker.fewer_refused = Some(fewer.clone());
        let message = format!(
            "{fewer}; let them run again, or call done again and say in `tests` why the task wants it"
        );
        Some(Answer::refusal("tests_weakened", &message))
    }

    /// What the summary says about tests that demand less, one item for each place.
    pub(super) fn weakened_lines(&self) -> Vec<String> {
        let weakened = self.weakened();
        weakened.iter().map(ToString::to_string).chain(self.weaker.fewer.clone()).collect()
    }
}

/// The evidence about one tree.
#[derive(Debug)]
pub(super) struct Gathered {
    /// The fingerprint of the task's changes.
    changes: String,
    pub(super) evidence: Evidence,
    /// Why `verification.evidence: require` does not accept it.
    missing: Option<String>,
    /// The run of a machine that could not make the evidence.
    by_machine: bool,
    /// The missing evidence was counted as an attempt.
    counted: bool,
}

impl Session<'_> {
    /// Ends the task with a green tree, once its evidence is gathered and, where it is required, accepted.
    pub(super) async fn end_green(&mut self, account: Option<Account>) -> OrEnd<ToolOutput> {
        if self.editor.aim == Aim::Proposal {
            return Ok(ToolOutput::End(AfterConversation::Done(account)));
        }
        if account.as_ref().is_some_and(|account| account.outcome == DoneOutcome::Changed)
            && let Some(refusal) = self.refuse_fewer_tests()
        {
            return Ok(refusal.into());
        }
        self.gather_evidence().await?;
        let gathered = self.gathered.as_ref();
        let refused = gathered.and_then(|gathered| {
            let why = gathered.missing.clone()?;
            (self.editor.evidence == EvidenceRule::Require).then_some((why, gathered.by_machine))
        });
        match refused {
            None => Ok(ToolOutput::End(AfterConversation::Done(account))),
            Some((why, true)) => Err(TaskResult::infra("evidence_unavailable", why).into()),
            Some((why, false)) => self.evidence_missing(&why),
        }
    }

    /// Runs the tests that tell what the task's tests prove, once for each tree.
    async fn gather_evidence(&mut self) -> OrEnd<()> {
        let changes = self.fingerprint();
        if self.gathered.as_ref().is_some_and(|gathered| gathered.changes == changes) {
            return Ok(());
        }
        let changed = self.editor.writer.changed();
        let files = ChangedFiles::of(&changed);
        let inside = self.with_changes(|changes| {
            changes.iter().any(|change| !is_test(change.path) && self.tests.touches_tests(change))
        });
        if files.needs_runs() {
            self.editor.events.emit(Milestone::ComparingTests.into());
        }
        let red_first = self.red_first(&files, inside).await?;
        let old_tests = self.old_tests(&files).await?;
        let evidence = Evidence { red_first, old_tests };
        let by_machine = evidence.red_first.result == RedFirst::Unavailable
            || evidence.old_tests.as_ref().is_some_and(|old| old.result == OldTests::Unavailable);
        let missing = self.missing(&evidence, &files, &changed);
        self.gathered = Some(Gathered { changes, evidence, missing, by_machine, counted: false });
        Ok(())
    }

    /// Runs the changed tests on the code of the start.
    async fn red_first(&self, files: &ChangedFiles<'_>, inside: bool) -> OrEnd<Shown<RedFirst>> {
        if files.tests_now().next().is_none() {
            let why = match inside {
                true => "the tests are inside source files",
                false => "no file of tests was changed",
            };
            return Ok(Shown::without_run(RedFirst::None, why));
        }
        if files.sources.is_empty() {
            return Ok(Shown::without_run(RedFirst::NotShown, "only tests were changed"));
        }
        let at_start = files.sources.iter().map(|file| at_start(file)).collect::<Vec<_>>();
        let (verification, failures) = match self.run_variant("red_first", &at_start).await? {
            Ok(run) => run,
            Err(why) => return Ok(Shown::without_run(RedFirst::Unavailable, why)),
        };
        let tests: Vec<&str> = files.tests_now().map(|file| file.path.as_str()).collect();
        let run_id = verification.run_id.as_ref().map(ToString::to_string);
        let (result, reason, failed) = judge_red(&verification, &failures, &tests);
        Ok(Shown { result, reason, failed, run_id })
    }

    /// Runs the tests of the start on the changed code.
    async fn old_tests(&self, files: &ChangedFiles<'_>) -> OrEnd<Option<Shown<OldTests>>> {
        if files.tests.iter().all(|file| file.sha256_before.is_none()) {
            return Ok(None);
        }
        let at_start = files.tests.iter().map(|file| at_start(file)).collect::<Vec<_>>();
        let (verification, failures) = match self.run_variant("old_tests", &at_start).await? {
            Ok(run) => run,
            Err(why) => return Ok(Some(Shown::without_run(OldTests::Unavailable, why))),
        };
        let run_id = verification.run_id.as_ref().map(ToString::to_string);
        let (result, reason) = match &verification.verdict {
            Verdict::Pass => (OldTests::Pass, None),
            Verdict::Infra(error) => (OldTests::Unavailable, Some(error.to_string())),
            Verdict::Fail(FailReason::TreeChanged) => {
                (OldTests::Unavailable, Some("the tree changed meanwhile".to_owned()))
            }
            Verdict::Fail(reason) => {
                let step = verification.failing_step().map(|step| step.name.as_str());
                let step = step.unwrap_or_default();
                (OldTests::Fail, Some(format!("{}, step {step}", reason.as_str())))
            }
        };
        let failed = match result {
            OldTests::Fail => failed_names(&failures),
            OldTests::Pass | OldTests::Unavailable => vec![],
        };
        Ok(Some(Shown { result, reason, failed, run_id }))
    }

    /// Runs the pipeline on another tree and reads what failed. The inner error says why there is no result.
    async fn run_variant(
        &self,
        purpose: &'static str,
        at_start: &[FileAtStart],
    ) -> OrEnd<Result<(Verification, Failures), String>> {
        let editor = self.editor;
        let Some(variants) = &editor.variants else {
            return Ok(Err("no other tree can be verified here".to_owned()));
        };
        let view =
            self.last.as_ref().and_then(|last| Some(last.manifest.as_ref()?.workspace.clone()));
        if let Some(view) = view.filter(|view| view != "copy") {
            return Ok(Err(format!(
                "the steps see the repository itself (workspace: {view}), which holds more than a written tree"
            )));
        }
        let verification = match variants.run(purpose, at_start, &editor.cancel).await {
            Some(verification) if !editor.cancel.is_cancelled() => verification,
            _ => return Err(TaskResult::cancelled().into()),
        };
        let verification = match verification {
            Ok(verification) => verification,
            Err(why) => return Ok(Err(why)),
        };
        if let Verdict::Infra(error) = &verification.verdict {
            return Ok(Err(error.to_string()));
        }
        let (reader, read) = (LogOf::of_run(editor, &verification), verification.clone());
        let failures = tokio::task::spawn_blocking(move || reader.failures(&read)).await;
        Ok(Ok((verification, failures.unwrap_or_default())))
    }

    /// Returns why the evidence is not enough where it is required, or `None` when it is.
    fn missing(
        &self,
        evidence: &Evidence,
        files: &ChangedFiles<'_>,
        changed: &[ChangedFile],
    ) -> Option<String> {
        let documents = changed.iter().all(|file| source::kind(&file.path) == Kind::Document);
        if documents {
            return None;
        }
        let red = &evidence.red_first;
        let accepted = match red.result {
            RedFirst::RedFirst => true,
            // Places of changed tests are named only where the tests themselves do not compile.
            RedFirst::RedOther => {
                red.reason.as_deref() == Some(DOES_NOT_COMPILE) && !red.failed.is_empty()
            }
            RedFirst::NotShown | RedFirst::None | RedFirst::Unavailable => false,
        };
        if !accepted {
            return evidence.sentences().into_iter().next();
        }
        let old = evidence.old_tests.as_ref()?;
        match old.result {
            OldTests::Pass => None,
            OldTests::Unavailable => evidence.sentences().pop(),
            OldTests::Fail => {
                let existing = files.tests.iter().filter(|file| file.sha256_before.is_some());
                let existing: Vec<&str> = existing.map(|file| file.path.as_str()).collect();
                let input = &self.editor.input;
                let allowed = |path: &str| input.allowed_test_changes.matches(path);
                let asked = is_asked_for(input.request.text(), &old.failed, &existing, &allowed);
                (!asked).then(|| evidence.sentences().pop().unwrap_or_default())
            }
        }
    }

    /// Fails a green tree whose evidence is missing, as an attempt.
    fn evidence_missing(&mut self, why: &str) -> OrEnd<ToolOutput> {
        let text = format!(
            "the steps pass, and verification.evidence in agent.yaml requires a test that fails without the change: {why}\n\
             add or restore such a test, then call done again"
        );
        let refusal = Answer::refusal("evidence_missing", &text);
        self.phase = Phase::Working;
        let run_id = self.last.as_ref().and_then(|last| last.run_id.as_ref());
        let run_id = run_id.map(ToString::to_string);
        let green = self.plans.runs().iter().rfind(|run| run.run_id == run_id).cloned();
        // The same tree is no attempt again.
        let counted = self
            .gathered
            .as_mut()
            .is_some_and(|gathered| std::mem::replace(&mut gathered.counted, true));
        let Some(green) = green.filter(|_| !counted) else { return Ok(refusal.into()) };
        // The green run reset the counters. Without evidence it is worth no more than a red one.
        let number = self.before_green.next_attempt();
        self.debug_loop = self.before_green;
        let next = self.debug_loop.judge(Status::Fail);
        self.before_green = self.debug_loop;
        self.editor.events.emit(Milestone::VerificationFailed.into());
        self.plans.add_run(VerifiedRun {
            attempt: number,
            status: Status::Fail,
            reason: Some("evidence_missing".to_owned()),
            failures: Failures::message(why),
            ..green
        });
        match next {
            AfterVerification::HardStop => {
                Err(TaskResult::stuck(StuckReason::HardStop, None).into())
            }
            AfterVerification::Replan { number: replan } => Ok(ToolOutput::End(
                AfterConversation::Conversation(self.start_replan(replan, number)),
            )),
            _ => Ok(refusal.into()),
        }
    }

    /// Emits and records the evidence of a success, and returns its sentences for the summary.
    pub(super) fn publish_evidence(&self, run_id: &str) -> Vec<String> {
        let Some(Gathered { evidence, .. }) = &self.gathered else { return vec![] };
        self.editor.events.emit(EventKind::Evidence { evidence: evidence.clone() });
        let red = &evidence.red_first;
        let old = evidence.old_tests.as_ref();
        let names = old
            .map(|old| format!("old_tests {}", old.result.as_str()))
            .into_iter()
            .chain(red.reason.clone().filter(|reason| reason == DOES_NOT_COMPILE))
            .chain(red.run_id.clone())
            .chain(old.and_then(|old| old.run_id.clone()));
        let entry = Entry::new(Event::TestsCompared)
            .object(run_id)
            .reason(red.result.as_str())
            .digest("evidence", json_digest(evidence).as_deref())
            .names(names);
        // `check_audit` and the record of the task's end report an error of the log. The record is first, because a manifest
        // with evidence that no record covers would look changed.
        let recorded = self.editor.audit.append(entry);
        if recorded.is_ok()
            && let Err(error) = self.editor.workplace.add_evidence(run_id, evidence)
        {
            self.editor.events.warn(format!(
                "what the tests prove cannot be added to the manifest of {run_id}: {error}"
            ));
        }
        evidence.sentences()
    }
}

fn json_digest(evidence: &Evidence) -> Option<String> {
    serde_json::to_vec(evidence).ok().map(|json| digest(&json))
}

/// The changed files of a task, divided into tests with what they read, and everything else.
struct ChangedFiles<'a> {
    tests: Vec<&'a ChangedFile>,
    sources: Vec<&'a ChangedFile>,
}

impl<'a> ChangedFiles<'a> {
    fn of(changed: &'a [ChangedFile]) -> Self {
        let (tests, sources) = changed.iter().partition(|file| is_test(&file.path));
        Self { tests, sources }
    }

    /// The files of tests that exist now.
    fn tests_now(&self) -> impl Iterator<Item = &'a ChangedFile> {
        self.tests.iter().copied().filter(|file| file.sha256_now.is_some())
    }

    fn needs_runs(&self) -> bool {
        let red = self.tests_now().next().is_some() && !self.sources.is_empty();
        red || self.tests.iter().any(|file| file.sha256_before.is_some())
    }
}

fn at_start(file: &ChangedFile) -> FileAtStart {
    FileAtStart { path: file.path.clone(), sha256: file.sha256_before.clone() }
}

/// Names of failed tests that are shown.
const FAILED: usize = 20;

/// The names of the tests that failed; where there are none, the places or messages of the failures.
fn failed_names(failures: &Failures) -> Vec<String> {
    let named = failures.failures.iter().filter(|one| is_a_test(one)).map(|one| one.name.clone());
    let mut all: Vec<String> = named.take(FAILED).collect();
    if all.is_empty() {
        all.extend(failures.failures.iter().take(FAILED).map(Failure::headline));
    }
    all
}

/// Returns whether a failure is one of a test. Runners report a file of tests that cannot be loaded under its path.
fn is_a_test(failure: &Failure) -> bool {
    let name = failure.name.as_str();
    let is_file = source::language(name).is_some() && !name.contains("::") && !name.contains(' ');
    !name.is_empty() && !is_file && !name.contains("_FailedTest") && !cannot_load(&failure.message)
}

/// Returns whether a text says that code does not compile or cannot be imported.
fn cannot_load(text: &str) -> bool {
    const WORDS: [&str; 16] = [
        "[build failed]",
        "[setup failed]",
        "COMPILATION ERROR",
        "Cannot find module",
        "ERR_MODULE_NOT_FOUND",
        "ImportError",
        "IndentationError",
        "ModuleNotFoundError",
        "SyntaxError",
        "Test suite failed to run",
        "cannot find symbol",
        "could not compile",
        "does not provide an export",
        "error TS",
        "error collecting",
        "undefined reference",
    ];
    WORDS.iter().any(|word| text.contains(word))
}

/// Judges a run of the changed tests on the code of the start. `tests`: the changed files of tests. Returns the result, its
/// reason, and the tests or places that failed.
fn judge_red(
    verification: &Verification,
    failures: &Failures,
    tests: &[&str],
) -> (RedFirst, Option<String>, Vec<String>) {
    let step = verification.failing_step();
    let named_step = || format!("step {}", step.map_or("-", |step| step.name.as_str()));
    match &verification.verdict {
        Verdict::Pass => return (RedFirst::NotShown, None, vec![]),
        Verdict::Infra(error) => return (RedFirst::Unavailable, Some(error.to_string()), vec![]),
        Verdict::Fail(FailReason::TreeChanged) => {
            return (RedFirst::Unavailable, Some("the tree changed meanwhile".to_owned()), vec![]);
        }
        Verdict::Fail(reason @ (FailReason::Timeout | FailReason::SourceWrites)) => {
            let why = format!("{}, {}", reason.as_str(), named_step());
            return (RedFirst::RedOther, Some(why), vec![]);
        }
        Verdict::Fail(FailReason::StepFailed) => {}
    }
    let named: Vec<_> = failures.failures.iter().filter(|one| is_a_test(one)).collect();
    if !named.is_empty() {
        let names = named.iter().take(FAILED).map(|one| one.name.clone()).collect();
        return (RedFirst::RedFirst, None, names);
    }
    // The places of failures in the changed tests.
    let in_tests: Vec<String> = failures
        .failures
        .iter()
        .filter_map(|one| {
            let place =
                one.place.iter().chain(&one.frames).find(|at| tests.contains(&at.path.as_str()));
            let named =
                || tests.iter().find(|path| one.name == **path || one.message.contains(**path));
            place.map(ToString::to_string).or_else(|| named().map(|path| (*path).to_owned()))
        })
        .take(FAILED)
        .collect();
    let compiler = ["rustc", "tsc", "javac", "gcc", "clang", "compiler"].contains(&failures.tool);
    let text = failures.failures.iter().map(|one| format!("{} {}", one.name, one.message));
    let text = text.chain([failures.tail.clone()]).collect::<Vec<_>>().join("\n");
    if compiler
        || cannot_load(&text)
        || cannot_load(verification.tail.as_deref().unwrap_or_default())
    {
        return (RedFirst::RedOther, Some(DOES_NOT_COMPILE.to_owned()), in_tests);
    }
    // Without names: the step runs a changed test, or fails inside of one.
    let runs_test = step.and_then(|step| {
        tests.iter().find(|path| {
            step.command
                .split(|c: char| c.is_whitespace() || "\"'".contains(c))
                .any(|word| word == **path)
        })
    });
    let inside = in_tests.first().map(String::as_str).or(runs_test.copied());
    match inside {
        Some(place) => {
            let why = format!("{} fails inside {place}", named_step());
            (RedFirst::RedFirst, Some(why), in_tests)
        }
        None => {
            let first = failures.headline();
            let why =
                if first.is_empty() { named_step() } else { format!("{}: {first}", named_step()) };
            (RedFirst::RedOther, Some(why), vec![])
        }
    }
}

/// Returns whether the task's text asks for the changes of the old tests that fail, by file or by name, or the user allowed
/// them. `failed`: names of tests; `files`: the test files of the start that the task changed.
fn is_asked_for(
    task: &str,
    failed: &[String],
    files: &[&str],
    allowed: &dyn Fn(&str) -> bool,
) -> bool {
    let says = |word: &str| {
        let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !word.is_empty()
            && task.match_indices(word).any(|(at, _)| {
                !joins(task[..at].chars().next_back())
                    && !joins(task[at + word.len()..].chars().next())
            })
    };
    let file_asked = |path: &&str| allowed(path) || says(path) || says(source::name(path));
    let test_asked = |name: &String| {
        let bare = name.rsplit(['>', ':', '.', '/']).next().unwrap_or(name).trim();
        let of_file = files.iter().filter(|path| name.contains(**path));
        says(name) || says(bare) || of_file.into_iter().any(file_asked)
    };
    files.iter().all(file_asked) || (!failed.is_empty() && failed.iter().all(test_asked))
}

/// A list of places, cut behind the first ones.
pub(super) fn listed(weakened: &[Weakening]) -> String {
    let mut lines: Vec<_> = weakened.iter().take(LISTED).map(|one| format!("- {one}")).collect();
    if let more @ 1.. = weakened.len().saturating_sub(LISTED) {
        lines.push(format!("- and {more} more"));
    }
    lines.join("\n")
}

/// The sentence about a green run in which fewer tests passed than ran before. `known`: the one in force, which stays until as
/// many tests run again.
fn fewer_tests(run: &VerifiedRun, before: &VerifiedRun, known: Option<String>) -> Option<String> {
    let ran = |run: &VerifiedRun| {
        let counts = if run.status == Status::Pass { run.passed } else { run.failures.counts };
        let (passed, failed) = (counts.passed?, counts.failed.unwrap_or(0));
        Some(passed.saturating_add(failed))
    };
    let (Some(now), Some(then)) = (ran(run), ran(before)) else { return known };
    let id = before.run_id.as_deref().unwrap_or("the run before");
    match now.cmp(&then) {
        std::cmp::Ordering::Less => {
            Some(format!("fewer tests ran than in {id}: {now} instead of {then}"))
        }
        std::cmp::Ordering::Equal => known,
        std::cmp::Ordering::Greater => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::verification::testing::verification;
    use act_reports::failures::{Log, Passed};

    fn judged(log: &str, tests: &[&str]) -> (RedFirst, Option<String>, Vec<String>) {
        let red = verification(Verdict::Fail(FailReason::StepFailed), &["build", "test"], log);
        let own = |path: &str| Some(path.trim_start_matches("./").to_owned());
        judge_red(&red, &Failures::of(&Log::of(log), &own), tests)
    }

    // EDITOR-81
    #[test]
    fn a_test_that_fails_by_name_is_red_first() {
        let log = "==== FAILURES ====\n____ test_half ____\n\n    def test_half():\n>       assert half(4) == 2\nE       assert 4 == 2\n\n\
                   tests/test_shop.py:4: AssertionError\n==== short test summary info ====\n\
                   FAILED tests/test_shop.py::test_half - assert 4 == 2\n==== 1 failed, 3 passed in 0.1s ====\n";
        let (result, reason, failed) = judged(log, &["tests/test_shop.py"]);
        assert_eq!((result, reason), (RedFirst::RedFirst, None));
        assert_eq!(failed, ["tests/test_shop.py::test_half"]);
        let log = "--- FAIL: TestHalf (0.00s)\n    shop_test.go:8: got 4, want 2\nFAIL\nFAIL\texample.com/shop\t0.002s\nFAIL\n";
        assert_eq!(judged(log, &["shop_test.go"]).2, ["TestHalf"]);
    }

    // EDITOR-81
    #[test]
    fn tests_that_do_not_compile_with_the_code_of_the_start_are_red_for_another_reason() {
        for (log, test) in [
            (
                "error[E0425]: cannot find function `half` in this scope\n --> tests/half.rs:3:5\n  |\n\nerror: could not compile `shop` (test \"half\") due to 1 previous error\n",
                "tests/half.rs",
            ),
            (
                "# example.com/shop [example.com/shop.test]\n./shop_test.go:8:10: undefined: Half\nFAIL\texample.com/shop [build failed]\nFAIL\n",
                "shop_test.go",
            ),
            (
                "==== ERRORS ====\n____ ERROR collecting tests/test_shop.py ____\nImportError while importing test module 'tests/test_shop.py'.\n\
                 tests/test_shop.py:1: in <module>\n    from shop import half\nE   ImportError: cannot import name 'half' from 'shop'\n\
                 ==== short test summary info ====\nERROR tests/test_shop.py\n!!!! Interrupted: 1 error during collection !!!!\n==== 1 error in 0.1s ====\n",
                "tests/test_shop.py",
            ),
        ] {
            let (result, reason, places) = judged(log, &[test]);
            assert_eq!(
                (result, reason.as_deref()),
                (RedFirst::RedOther, Some(DOES_NOT_COMPILE)),
                "{log}"
            );
            assert!(places.iter().any(|place| place.starts_with(test)), "{log}: {places:?}");
        }
    }

    // EDITOR-81
    #[test]
    fn other_ends_of_the_run_are_told_with_their_reason() {
        let ends = |verdict| {
            let run = verification(verdict, &["test"], "");
            let (result, reason, _) = judge_red(&run, &Failures::default(), &["tests/a.sh"]);
            (result, reason)
        };
        assert_eq!(ends(Verdict::Pass), (RedFirst::NotShown, None));
        let timeout = (RedFirst::RedOther, Some("timeout, step test".to_owned()));
        assert_eq!(ends(Verdict::Fail(FailReason::Timeout)), timeout);
        assert_eq!(ends(Verdict::Fail(FailReason::TreeChanged)).0, RedFirst::Unavailable);
        // Without names: a script prints its place, or the step names it.
        let (result, reason, _) = judged("tests/a.sh: line 3: want 5\n", &["tests/a.sh"]);
        assert_eq!(result, RedFirst::RedFirst);
        assert!(reason.unwrap().starts_with("step test fails inside tests/a.sh"));
        let mut run = verification(Verdict::Fail(FailReason::StepFailed), &["test"], "no\n");
        run.manifest.as_mut().unwrap().commands_executed[0].command = "sh tests/a.sh".into();
        let failures = Failures::of(&Log::of("no\n"), &|_| None);
        assert_eq!(judge_red(&run, &failures, &["tests/a.sh"]).0, RedFirst::RedFirst);
        let (result, reason, _) = judge_red(&run, &failures, &["tests/b.sh"]);
        assert_eq!((result, reason.as_deref()), (RedFirst::RedOther, Some("step test: no")));
    }

    // EDITOR-81
    #[test]
    fn a_failing_old_test_is_asked_for_by_file_by_name_or_by_the_user() {
        let failed = ["tests/test_shop.py::test_half".to_owned()];
        let files = ["tests/test_shop.py"];
        let asked = |task: &str| is_asked_for(task, &failed, &files, &|_| false);
        assert!(asked("Change tests/test_shop.py: half rounds up now."));
        assert!(asked("In test_shop.py half rounds up now."));
        assert!(asked("Adapt test_half: it rounds up now."));
        assert!(!asked("half rounds up now"));
        assert!(!asked("Adapt test_halfway and my_test_shop.py."));
        assert!(is_asked_for("x", &failed, &files, &|path| path == "tests/test_shop.py"));
        let others = ["tests/test_shop.py", "tests/test_b.py"];
        let unnamed: [String; 0] = [];
        assert!(!is_asked_for("See test_shop.py.", &unnamed, &others, &|_| false));
    }

    // EDITOR-80
    #[test]
    fn a_green_run_with_fewer_tests_is_told_until_they_run_again() {
        let green = |attempt, log: &str| VerifiedRun {
            status: Status::Pass,
            passed: Passed::of(&Log::of(log)).counts,
            ..VerifiedRun::failed(attempt, "test", "")
        };
        let eight = green(1, "==== 8 passed in 0.1s ====\n");
        let seven = green(2, "==== 7 passed, 1 skipped in 0.1s ====\n");
        let told = fewer_tests(&seven, &eight, None);
        assert_eq!(told.as_deref(), Some("fewer tests ran than in run_1: 7 instead of 8"));
        assert_eq!(fewer_tests(&seven, &seven, told.clone()), told);
        assert_eq!(fewer_tests(&eight, &seven, told), None);
        let quiet = green(3, "all is well\n");
        assert_eq!(fewer_tests(&quiet, &eight, None), None);
        let log = Log::of("FAILED tests/a.py::test_a - x\n==== 1 failed, 9 passed in 0.1s ====\n");
        let red = VerifiedRun {
            failures: Failures::of(&log, &|_| None),
            ..VerifiedRun::failed(0, "test", "")
        };
        let told = fewer_tests(&eight, &red, None);
        assert_eq!(told.as_deref(), Some("fewer tests ran than in run_0: 8 instead of 10"));
    }
}
