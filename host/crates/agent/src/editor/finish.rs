//! The end of a task: a summary, a stuck report with hypotheses, or nothing when the user cancelled it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::tools::{self, Account, Answer, DoneOutcome};
use super::{Draft, Session, TaskInput, prompt};
use crate::context::{
    Hypothesis, MachineFailure, NotesWriter, SnapshotKind, StuckReport, Summary, VerifiedRun,
    WrittenReport,
};
use crate::gate_inputs::{GateInput, Steps, gate_inputs_changed, is_test};
use act_audit::{Decision, Entry, Event, Head};
use act_core::event::{EventKind, Events};
use act_core::{Outcome, RunId, StuckReason, reason};
use act_model::{Stop, TokenLedger, ToolCall, ToolResult, Turn};
use act_workspace::ChangedFile;

/// How a task ended, with what the user is shown of it.
#[derive(Debug, Clone)]
pub struct TaskResult {
    pub outcome: Outcome,
    /// The id of the green run of a success, else of the last run.
    pub run_id: Option<String>,
    /// The changes and their reasons, or why the task ended without success.
    pub summary: Option<String>,
    pub report_path: Option<String>,
    /// Changed files that the verification depends on, as `path (why)`.
    pub gate_inputs_changed: Vec<String>,
    /// How many edits each rule refused, by its word.
    pub edits_refused: BTreeMap<String, u64>,
    /// What a task that applies the changes has to know: of a dry run, and of a success, which may be applied elsewhere.
    pub draft: Option<Draft>,
}

impl TaskResult {
    /// A result with nothing but its outcome.
    pub fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            run_id: None,
            summary: None,
            report_path: None,
            gate_inputs_changed: vec![],
            edits_refused: BTreeMap::new(),
            draft: None,
        }
    }

    /// The user ended the task.
    pub fn cancelled() -> Self {
        Self::of(Outcome::cancelled())
    }

    /// The machine failed: a stable code and a diagnosis for the user.
    pub fn infra(code: &str, diagnosis: impl Into<String>) -> Self {
        Self { summary: Some(diagnosis.into()), ..Self::of(Outcome::infra(code)) }
    }

    /// The agent gave up. `why` explains to the user what the word of the reason does not.
    pub(super) fn stuck(reason: StuckReason, why: Option<String>) -> Self {
        Self { summary: why, ..Self::of(Outcome::Stuck { reason }) }
    }
}

/// A value, or the end of the task; `?` carries the end up to `Editor::work`.
pub type OrEnd<T> = Result<T, Box<TaskResult>>;

impl Session<'_> {
    /// Ends a green task with its summary.
    pub(super) fn succeed(&self, done: Option<Account>) -> TaskResult {
        if self.editor.cancel.is_cancelled() {
            return TaskResult::cancelled();
        }
        let Some(last) = &self.last else {
            let why = "a task without a verification cannot succeed";
            return self.report(TaskResult::infra(reason::UNKNOWN, why), vec![], false);
        };
        let run_id = last.run_id.as_ref().map(ToString::to_string).unwrap_or_default();
        let files = self.editor.writer.changed();
        let gate_inputs = self.gate_inputs();
        let evidence = self.publish_evidence(&run_id);
        let goals = self.plans.goals();
        let by_host = done.is_none();
        let draft = self.draft_of(done.clone());
        let done = done.unwrap_or_else(|| self.account_of_host());
        let summary = Summary {
            task_id: self.editor.input.task_id.clone(),
            what: done.what,
            why: done.why,
            tests: done.tests,
            nothing_to_do: done.outcome == DoneOutcome::NothingToDo,
            assumptions: goals.assumptions.clone(),
            criteria_dropped: goals.dropped_lines(),
            test_files: self.test_files(),
            tests_weakened: self.weakened_lines(),
            evidence,
            had_tests: self.has_tests != Some(false),
            run_id: run_id.clone(),
            warm: self.last.as_ref().is_some_and(|last| last.is_warm()),
            // The last verification may be an answer about an earlier run of the same tree.
            attempts: self
                .plans
                .runs()
                .iter()
                .rfind(|run| run.run_id.as_deref() == Some(&run_id))
                .map_or(0, |run| run.attempt),
            files_changed: self.changed_files(),
            gate_inputs_changed: gate_inputs
                .iter()
                .map(|input| with_digests(input, files.iter().find(|file| file.path == input.path)))
                .collect(),
            allowed_paths_changed: files
                .iter()
                .filter(|f| f.guarded)
                .map(|f| f.path.clone())
                .collect(),
            untested: self.untested(),
            boundaries_not_enforced: self.editor.input.not_enforced.clone(),
            host_wrote: self.editor.input.host_wrote.clone(),
            edits_refused: self.refusals(),
            tokens: self.editor.ledger.by_role(),
            cost: self.editor.ledger.cost(),
            baseline: self
                .baseline
                .as_ref()
                .map(|baseline| baseline.for_people(self.plans.attempts())),
            warnings: last.warnings.iter().map(|warning| warning.message.clone()).collect(),
            left_out: self.left_out.iter().map(|kind| (*kind).to_owned()).collect(),
            by_host,
            audit_head: self.audit_head(),
        };
        let written = self.snapshot(SnapshotKind::Success).and_then(|()| {
            let Some(notes) = &self.editor.notes else { return Ok(()) };
            notes.summary(&summary).map_err(|error| {
                let why = format!("the summary could not be written: {error}");
                TaskResult::infra(reason::UNKNOWN, why)
            })?;
            Ok(())
        });
        if let Err(ended) = written {
            return self.report(*ended, vec![], false);
        }
        TaskResult {
            run_id: Some(run_id),
            summary: Some(summary.render()),
            gate_inputs_changed: named(&gate_inputs),
            draft,
            ..TaskResult::of(Outcome::Success)
        }
    }

    /// Refuses an account that names a run of another task, because readers take the summary as proof.
    pub(super) fn names_foreign_run(&self, done: &Account) -> Option<Answer> {
        let known = self.known_runs();
        let texts = [Some(&done.what), Some(&done.why), done.tests.as_ref()];
        let run = texts.into_iter().flatten().find_map(|text| foreign_run(text, &known))?;
        Some(Answer::refusal("bad_arguments", &format!("{run} is no run of this task")))
    }

    /// Removes text for a commit or a pull request from an account, and announces what was removed. The host's account
    /// replaces a field that is empty then.
    pub(super) fn without_commit_text(&mut self, done: Account) -> Account {
        let mut left_out = vec![];
        let mut clean = |text: &str| without_commit_text(text, &mut left_out);
        let (what, why) = (clean(&done.what), clean(&done.why));
        let tests = done.tests.as_deref().map(clean);
        if left_out.is_empty() {
            return done;
        }
        let text = format!("left out of the Editor's account: {}", left_out.join(", "));
        self.editor.events.emit(EventKind::Diagnosis { text });
        self.left_out = left_out;
        let host = self.account_of_host();
        let or = |text: String, other: String| if text.is_empty() { other } else { text };
        let outcome = done.outcome;
        Account { what: or(what, host.what), why: or(why, host.why), tests, outcome }
    }

    /// The host's account, for a task without one of the Editor.
    fn account_of_host(&self) -> Account {
        let strategy = Some(self.strategies.in_force()).filter(|text| !text.is_empty());
        let strategy = strategy.map(|text| without_commit_text(text, &mut vec![]));
        let strategy = strategy.filter(|text| !text.is_empty());
        let strategy = strategy.map(|text| format!(" Strategy: {text}")).unwrap_or_default();
        let (what, why) = match self.is_unchanged() {
            true => ("No file was changed.", "The Editor says that the task needs no change."),
            false => ("The files below were changed.", "The task asked for it."),
        };
        Account { what: what.to_owned(), why: format!("{why}{strategy}"), ..Account::default() }
    }

    /// Changed files that are tests, or have tests inside that differ.
    fn test_files(&self) -> Vec<String> {
        let named = |file: &ChangedFile| {
            let inside = if is_test(&file.path) { "" } else { ", tests inside" };
            format!("{} ({}{inside})", file.path, file.op())
        };
        let touched: Vec<String> = self.with_changes(|changes| {
            let touches = changes.iter().filter(|change| self.tests.touches_tests(change));
            touches.map(|change| change.path.to_owned()).collect()
        });
        let changed = self.editor.writer.changed();
        changed.iter().filter(|file| touched.contains(&file.path)).map(named).collect()
    }

    /// Changed files that the green run did not verify.
    fn untested(&self) -> Vec<String> {
        self.editor.writer.unverified().into_iter().map(|file| file.path).collect()
    }

    /// Refused edits as people read them, such as `protected: 3`.
    fn refusals(&self) -> Vec<String> {
        let refused = self.editor.writer.refused().into_iter();
        refused.map(|(rule, count)| format!("{rule}: {count}")).collect()
    }

    /// Changes that could have made the verification easier, for the user to look at.
    pub(super) fn gate_inputs(&self) -> Vec<GateInput> {
        let commands: Vec<&str> =
            self.editor.gate.pipeline.all_steps().map(|step| step.command.as_str()).collect();
        let steps = Steps {
            commands: &commands,
            package: self.editor.input.package.as_deref(),
            look: &|path| self.editor.workplace.read_script(path),
        };
        self.with_changes(|changes| {
            gate_inputs_changed(changes, &steps, &self.tests.weakened(changes))
        })
    }

    /// Completes the result of a task that did not succeed, with a report unless the user cancelled it.
    pub(super) async fn end(&mut self, ended: TaskResult) -> TaskResult {
        if matches!(ended.outcome, Outcome::Cancelled { .. }) {
            return ended;
        }
        // No decision can follow any more. If the snapshot cannot be written, the report still names the end.
        let _ = self.write_due_snapshot();
        let (theories, derived) = match &ended.outcome {
            Outcome::Stuck { reason: StuckReason::Impossible } => {
                (self.theories_of_the_impossible(ended.summary.as_deref()), false)
            }
            Outcome::Stuck { reason } => {
                let model_answers = match reason {
                    StuckReason::HardStop => true,
                    // The model calls no tools, has no tokens left or accepts no more text. No other version of act ended
                    // this task.
                    StuckReason::ModelIdle
                    | StuckReason::Impossible
                    | StuckReason::Budget
                    | StuckReason::ContextFull
                    | StuckReason::Other(_) => false,
                };
                let items = if model_answers { self.hypotheses().await } else { None };
                match items {
                    Some(items) => (items, false),
                    None => (derived(&self.failed_runs(), self.is_unchanged()), true),
                }
            }
            _ => (vec![], false),
        };
        if self.editor.cancel.is_cancelled() {
            return TaskResult::cancelled();
        }
        self.report(ended, theories, derived)
    }

    /// The reason of a model that calls the task impossible, as hypotheses: one for each of its paragraphs and list items.
    /// The evidence is where the model looked; the host cannot judge more than that it did.
    fn theories_of_the_impossible(&self, reason: Option<&str>) -> Vec<Hypothesis> {
        let run_id = self.last.as_ref().and_then(|last| last.run_id.as_ref());
        let run_id = run_id.map(ToString::to_string).unwrap_or_default();
        let evidence = self.looked.join(", ");
        paragraphs(reason.unwrap_or_default())
            .into_iter()
            .map(|text| Hypothesis { text, run_id: run_id.clone(), evidence: evidence.clone() })
            .collect()
    }

    /// Records a successful call that looks into the files, as the report of an impossible task names it.
    pub(super) fn note_look(&mut self, call: &ToolCall) {
        let fresh = looks(call).into_iter().filter(|look| !self.looked.contains(look));
        let room = MOST_LOOKS.saturating_sub(self.looked.len());
        let fresh: Vec<_> = fresh.take(room).collect();
        self.looked.extend(fresh);
    }

    /// Asks the model for hypotheses, twice if needed. Returns `None` when it gives too few that can be checked.
    async fn hypotheses(&self) -> Option<Vec<Hypothesis>> {
        let offered = [tools::hypotheses_tool()];
        let mut conversation = self.editor.model.open("editor", prompt::HYPOTHESES, &offered);
        let failed = self.failed_runs();
        conversation.say(&prompt::hard_stop(&self.editor.input, &failed));
        for _ in 0..2 {
            let turn = self.turn(conversation.as_mut()).await.ok()?;
            let mut items = vec![];
            let mut wrong = String::from("call `hypotheses`");
            for call in &turn.calls {
                match tools::read_hypotheses(call) {
                    Ok(read) => items.extend(read),
                    Err(why) => wrong = why,
                }
            }
            let items = usable(items, &failed);
            if items.len() >= NEEDED {
                return Some(items);
            }
            let needed = format!(
                "{wrong}: at least {NEEDED} are needed, each with a run_id of the list and evidence"
            );
            let results = turn.calls.iter().map(|call| ToolResult {
                id: call.id.clone(),
                content: Answer::refusal("bad_arguments", &needed).text,
                is_error: true,
            });
            if turn.calls.is_empty() {
                conversation.say(&needed);
            } else {
                conversation.answer(results.collect()).ok()?;
            }
        }
        None
    }

    fn failed_runs(&self) -> Vec<VerifiedRun> {
        self.plans.attempts().cloned().collect()
    }

    fn report(&self, ended: TaskResult, theories: Vec<Hypothesis>, derived: bool) -> TaskResult {
        let editor = self.editor;
        let gate_inputs_changed = named(&self.gate_inputs());
        let report = StuckReport {
            hypotheses: theories,
            hypotheses_derived: derived,
            steps: editor.gate.pipeline.all_steps().map(|step| step.name.clone()).collect(),
            strategies: self.strategies.so_far(&self.changes()),
            runs: self.plans.runs().to_vec(),
            files_modified: self.changed_files(),
            gate_inputs_changed: gate_inputs_changed.clone(),
            tests_weakened: self.weakened_lines(),
            edits_refused: self.refusals(),
            audit_head: self.audit_head(),
            baseline: self
                .baseline
                .as_ref()
                .map(|baseline| baseline.for_people(self.plans.attempts())),
            ..StuckReport::default()
        };
        let run_id =
            self.last.as_ref().and_then(|last| last.run_id.as_ref().map(ToString::to_string));
        let ended = TaskResult { run_id, gate_inputs_changed, ..ended };
        write_report(&editor.input, editor.notes.as_ref(), &editor.events, ended, report)
    }

    /// Changes that could have made the verification easier, as `path (why)`.
    pub(super) fn gate_inputs_named(&self) -> Vec<String> {
        named(&self.gate_inputs())
    }
}

fn named(inputs: &[GateInput]) -> Vec<String> {
    inputs.iter().map(|input| format!("{} ({})", input.path, input.why)).collect()
}

/// A changed file with the first digits of its digests before and after, by which people can compare texts.
fn with_digests(input: &GateInput, file: Option<&ChangedFile>) -> String {
    let short = |digest: Option<&String>| {
        digest.and_then(|digest| digest.get(..12)).unwrap_or("nothing").to_owned()
    };
    let before = short(file.and_then(|file| file.sha256_before.as_ref()));
    let now = short(file.and_then(|file| file.sha256_now.as_ref()));
    format!("{} ({}, {before} to {now})", input.path, input.why)
}

/// Reports a task that the machine ended before its first conversation.
pub fn end_before_work(
    input: &TaskInput,
    notes: Option<&NotesWriter>,
    events: &Events,
    audit_head: Option<Head>,
    (code, diagnosis): (&str, &str),
) -> TaskResult {
    let report = StuckReport { audit_head, ..StuckReport::default() };
    write_report(input, notes, events, TaskResult::infra(code, diagnosis), report)
}

/// Completes a report with the facts that every report holds, writes it and adds its path to the result.
fn write_report(
    input: &TaskInput,
    notes: Option<&NotesWriter>,
    events: &Events,
    ended: TaskResult,
    report: StuckReport,
) -> TaskResult {
    let reason = ended.outcome.reason().unwrap_or_default().to_owned();
    let by_machine = matches!(ended.outcome, Outcome::InfraError { .. });
    let report = StuckReport {
        task_id: input.task_id.clone(),
        task_text: input.request.text().to_owned(),
        state: ended.outcome.state().as_str().to_owned(),
        host_wrote: input.host_wrote.clone(),
        explanation: ended.summary.clone().filter(|_| !by_machine),
        infrastructure: ended
            .summary
            .clone()
            .filter(|_| by_machine)
            .map(|message| MachineFailure { code: reason.clone(), message }),
        reason,
        ..report
    };
    let written = notes.map(|notes| notes.stuck_report(&report));
    match &written {
        None => {}
        Some(Ok(WrittenReport { path, sha256 })) => {
            events.emit(EventKind::ReportWritten { path: path.clone(), sha256: sha256.clone() });
        }
        Some(Err(error)) => {
            let text = format!("the stuck report could not be written: {error}");
            events.emit(EventKind::Diagnosis { text });
        }
    }
    TaskResult { report_path: written.and_then(Result::ok).map(|report| report.path), ..ended }
}

/// Characters of a model's last words that the user is shown.
const LAST_WORDS: usize = 300;

/// The model called no tool for several turns, of which this is the last.
pub(super) fn idle(last: &Turn) -> TaskResult {
    let what = match last.stop {
        Stop::Refused => {
            "the provider or the model refused to go on (a refusal or a content filter); describe the task in \
             other words, or choose another model with AGENT_LLM_MODEL"
        }
        Stop::Length => {
            "each turn of the model ended at its output limit before a tool call was complete; ask for \
             less, or take a model that may write more"
        }
        Stop::Tools => "the model called tools and never a plan",
        Stop::Done if last.text.trim().is_empty() => {
            "the model answered with nothing, again and again; `act doctor --model` shows whether it \
             calls tools"
        }
        Stop::Done => {
            "the model talked and called no tool; `act doctor --model` shows whether it does at all"
        }
    };
    let words = last.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = words.chars().take(LAST_WORDS).collect();
    let mark = if cut.len() < words.len() { "…" } else { "" };
    let quoted =
        if cut.is_empty() { String::new() } else { format!(". Its last words: {cut}{mark}") };
    TaskResult::stuck(StuckReason::ModelIdle, Some(format!("{what}{quoted}")))
}

/// The model says that the task cannot be done.
pub(super) fn impossible(account: &Account) -> TaskResult {
    let texts = [account.why.trim(), account.what.trim()];
    let texts: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    TaskResult::stuck(StuckReason::Impossible, Some(texts.join("\n\n")))
}

/// Paragraphs and list items of a text, each on one line.
fn paragraphs(text: &str) -> Vec<String> {
    let mut all: Vec<String> = vec![];
    let mut continues = false;
    for line in text.lines() {
        let item = line.trim();
        let marked =
            item.starts_with(['-', '*', '+']) || item.starts_with(|c: char| c.is_ascii_digit());
        match all.last_mut() {
            _ if item.is_empty() => {}
            Some(last) if continues && !marked => {
                last.push(' ');
                last.push_str(item);
            }
            _ => all.push(item.trim_start_matches(['-', '*', '+', ' ']).to_owned()),
        }
        continues = !item.is_empty();
    }
    all
}

/// Places that a report names as looked at; a person would not read more.
const MOST_LOOKS: usize = 12;
/// Characters of a path or pattern in a report.
const LOOK: usize = 120;

/// The files that a call of `read` names, or the pattern of a `search`; nothing for other tools.
fn looks(call: &ToolCall) -> Vec<String> {
    let short = |text: &str| text.chars().take(LOOK).collect::<String>();
    match call.name.as_str() {
        "read" => tools::paths_of(&call.arguments).iter().map(|path| short(path)).collect(),
        "search" => {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            let pattern = arguments["pattern"].as_str().unwrap_or_default();
            vec![format!("search for {}", short(pattern))]
        }
        _ => vec![],
    }
}

/// The task has spent its tokens or its money.
pub(super) fn budget_spent(ledger: &TokenLedger) -> TaskResult {
    let (what, flag, key) = match ledger.is_cost_spent() {
        true => ("cost", "--max-cost", "max_cost"),
        false => ("token", "--max-tokens", "max_tokens"),
    };
    let why = format!(
        "the task has spent its {what} budget; raise it with {flag}, or with `[limits] {key}` in config.toml (agent.yaml and \
         policy.toml can only lower it), or split the task"
    );
    TaskResult::stuck(StuckReason::Budget, Some(why))
}

/// Hypotheses that a stuck report needs: fewer are too easily the first thought only.
const NEEDED: usize = 3;

/// Returns the hypotheses that name a run of this task and evidence in it. A reader cannot check the others.
pub(super) fn usable(items: Vec<Hypothesis>, attempts: &[VerifiedRun]) -> Vec<Hypothesis> {
    let mut usable: Vec<Hypothesis> = vec![];
    for item in items {
        let cited = attempts.iter().any(|attempt| {
            attempt.run_id.as_ref() == Some(&item.run_id)
                && is_evidence(&item.evidence, attempt.failing_step.as_deref())
        });
        let said = !item.text.trim().is_empty();
        let new = usable.iter().all(|known| known.text.trim() != item.text.trim());
        if cited && said && new {
            usable.push(item);
        }
    }
    usable
}

/// Returns whether a text names a step of the run, a file or a line, which a reader can look up.
fn is_evidence(text: &str, step: Option<&str>) -> bool {
    let step = step.is_some_and(|step| text.contains(step));
    let file = text.split(|c: char| c.is_whitespace() || "`'\"(),;".contains(c)).any(|word| {
        let inner = word.trim_matches('.');
        inner.contains('/') || inner.contains('.') || inner.contains(':')
    });
    let line = text.to_lowercase().contains("line") && text.chars().any(|c| c.is_ascii_digit());
    step || file || line
}

/// Derives hypotheses from the attempts when the model gives none: one for each way in which they failed, then general ones
/// until there are enough.
pub(super) fn derived(attempts: &[VerifiedRun], unchanged: bool) -> Vec<Hypothesis> {
    let mut items: Vec<Hypothesis> = vec![];
    let mut kinds: Vec<(&Option<String>, String)> = vec![];
    for attempt in attempts {
        let kind = (&attempt.failing_step, attempt.first_failing_line());
        if kinds.contains(&kind) {
            continue;
        }
        kinds.push(kind);
        items.push(Hypothesis {
            text: theory(attempt),
            run_id: attempt.run_id.clone().unwrap_or_default(),
            evidence: evidence(attempt),
        });
    }
    let (Some(first), Some(last)) = (attempts.first(), attempts.last()) else { return items };
    let general = [
        (
            first,
            "The failure was there before the first edit or does not depend on the edited files.",
        ),
        match unchanged {
            true => (last, "No file is changed, so the failing step judges the code as it was."),
            false => (last, "The last strategy changed something the failing step does not reach."),
        },
        (last, "The environment of the step (image, tools, network, time) lacks what it needs."),
    ];
    for (attempt, text) in general {
        if items.len() >= NEEDED {
            break;
        }
        items.push(Hypothesis {
            text: text.to_owned(),
            run_id: attempt.run_id.clone().unwrap_or_default(),
            evidence: evidence(attempt),
        });
    }
    items
}

fn theory(attempt: &VerifiedRun) -> String {
    let step = attempt.failing_step.as_deref().unwrap_or("-");
    match attempt.first_failing_line().trim() {
        "" => format!(
            "Step {step} fails without output: its command ends early, or prints no errors."
        ),
        line => format!("The first failure in the output of step {step} is the cause: {line}"),
    }
}

fn evidence(attempt: &VerifiedRun) -> String {
    let step = attempt.failing_step.as_deref().unwrap_or("-");
    match attempt.first_failing_line().trim() {
        "" => format!("step {step}, which printed nothing"),
        line => format!("step {step}: {line}"),
    }
}

const COMMIT: &str = "a commit message";
const REQUEST: &str = "the text of a pull request";
const TRAILER: &str = "a trailer of a commit";

/// Removes each heading, label and trailer of a commit or a pull request with the block below it, and adds the kinds that it
/// removed to `left_out`.
pub(super) fn without_commit_text(text: &str, left_out: &mut Vec<&'static str>) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = vec![];
    let (mut at, mut in_code) = (0, false);
    while let Some(line) = lines.get(at) {
        let rest = &lines[at + 1..];
        let found = if in_code { None } else { block(line, rest) };
        let Some((kind, length)) = found else {
            in_code ^= is_fence(line);
            kept.push(*line);
            at += 1;
            continue;
        };
        if !left_out.contains(&kind) {
            left_out.push(kind);
        }
        at += 1 + length;
    }
    kept.join("\n").trim().to_owned()
}

/// The kind of block that a line opens, and the number of lines after it that belong to the block.
fn block(line: &str, rest: &[&str]) -> Option<(&'static str, usize)> {
    const TRAILERS: [&str; 3] = ["co-authored-by:", "signed-off-by:", "reviewed-by:"];
    let lowered = bare(line).to_lowercase();
    if TRAILERS.iter().any(|trailer| lowered.starts_with(trailer)) {
        let continues = |line: &&&str| line.starts_with([' ', '\t']) && !line.trim().is_empty();
        return Some((TRAILER, rest.iter().take_while(continues).count()));
    }
    let (kind, behind) = label(&lowered)?;
    if let Some(level) = heading_level(line) {
        let ends = |line: &&str| heading_level(line).is_some_and(|other| other <= level);
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        return Some((kind, length));
    }
    let marked = line.trim_start().starts_with(['*', '_']);
    match behind.strip_prefix(':').map(|text| text.trim_matches(EMPHASIS)) {
        None if !(marked && behind.is_empty()) => None,
        Some(text) if !text.is_empty() => Some((kind, paragraph(rest))),
        _ => {
            let blank = rest.iter().take_while(|line| line.trim().is_empty()).count();
            let below = &rest[blank..];
            let length = match below {
                [first, code @ ..] if is_fence(first) => {
                    let end = code.iter().position(|line| is_fence(line));
                    end.map_or(below.len(), |end| end + 2)
                }
                _ => paragraph(below),
            };
            Some((kind, blank + length))
        }
    }
}

const EMPHASIS: [char; 4] = ['*', '_', '`', ' '];

/// A label such as `commit message` or `suggested pr title` at the start of a line, and the text after it.
fn label(line: &str) -> Option<(&'static str, &str)> {
    const THINGS: [(&str, &str); 5] = [
        ("commit", COMMIT),
        ("pr", REQUEST),
        ("mr", REQUEST),
        ("pull request", REQUEST),
        ("merge request", REQUEST),
    ];
    const PARTS: [&str; 7] =
        [" message", " title", " subject", " body", " description", " summary", " text"];
    let offer = ["suggested ", "proposed ", "recommended "];
    let offered = offer.iter().find_map(|word| line.strip_prefix(word));
    let thing = offered.unwrap_or(line);
    THINGS.into_iter().find_map(|(name, kind)| {
        let rest = thing.strip_prefix(name)?;
        let part = PARTS.iter().find_map(|part| rest.strip_prefix(part));
        let rest = part.or_else(|| offered.map(|_| rest))?;
        let rest = rest.trim_start_matches(EMPHASIS);
        (rest.is_empty() || rest.starts_with(':')).then_some((kind, rest))
    })
}

/// The line without marks of headings, quotations, lists and emphasis before it.
fn bare(line: &str) -> &str {
    line.trim_start_matches(|c: char| c.is_whitespace() || "#>*-_`\"'".contains(c)).trim_end()
}

fn heading_level(line: &str) -> Option<usize> {
    let line = line.trim_start();
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    ((1..=6).contains(&level) && line[level..].starts_with(' ')).then_some(level)
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

fn paragraph(lines: &[&str]) -> usize {
    lines.iter().take_while(|line| !line.trim().is_empty() && heading_level(line).is_none()).count()
}

/// Returns the first run id in the text that is not among the known ones.
pub(super) fn foreign_run(text: &str, known: &[&str]) -> Option<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut runs = words.filter(|word| RunId::parse(word).is_ok());
    runs.find(|run| !known.contains(run)).map(str::to_owned)
}

/// Changed files that the audit log records for one run.
const MOST_INPUTS: usize = 200;

impl Session<'_> {
    /// Ends the task when the audit log cannot record the next action.
    pub(super) fn check_audit(&self) -> OrEnd<()> {
        Ok(self.editor.audit.ready().map_err(|error| {
            TaskResult::infra(error.code(), format!("{error}; {}", error.hint()))
        })?)
    }

    /// Records the changes that could have made a verification easier. `check_audit` reports an error of the log before the
    /// next action.
    pub(super) fn record_gate_inputs(&self, run_id: Option<&str>) {
        let files = self.editor.writer.changed();
        for input in self.gate_inputs().iter().take(MOST_INPUTS) {
            let file = files.iter().find(|file| file.path == input.path);
            let digest = |of: Option<&String>| of.map(String::as_str).map(str::to_owned);
            let before = digest(file.and_then(|file| file.sha256_before.as_ref()));
            let after = digest(file.and_then(|file| file.sha256_now.as_ref()));
            let entry = Entry::new(Event::GateInputChanged)
                .object(&input.path)
                .decision(Decision::Allow)
                .reason(input.why)
                .digest("before", before.as_deref())
                .digest("after", after.as_deref())
                .names(run_id);
            let _ = self.editor.audit.append(entry);
        }
    }

    /// The newest record of the audit log, for the notes.
    pub(super) fn audit_head(&self) -> Option<Head> {
        self.editor.audit.head()
    }
}

#[cfg(test)]
mod tests {
    mod ending {
        use super::super::*;
        use act_model::ModelUsage;

        /// EDITOR-7, security line 153
        #[test]
        fn an_idle_model_is_told_by_how_it_stopped_and_its_last_words() {
            let idle = |stop, text: &str| {
                let turn =
                    Turn { text: text.into(), calls: vec![], stop, usage: ModelUsage::default() };
                super::super::idle(&turn).summary.unwrap()
            };
            assert!(idle(Stop::Refused, "I will\nnot").contains("refused to go on"));
            assert!(idle(Stop::Refused, "I will\nnot").ends_with(" Its last words: I will not"));
            assert!(idle(Stop::Length, "so").contains("output limit"));
            assert!(idle(Stop::Done, " ").contains("answered with nothing"));
            assert!(!idle(Stop::Done, " ").contains("last words"));
            let long = idle(Stop::Done, &"word ".repeat(1000));
            assert!(long.len() < 600 && long.ends_with('…'), "{long}");
        }
    }

    mod hypotheses {
        use super::super::*;
        fn attempts(lines: &[&str]) -> Vec<VerifiedRun> {
            let lines = lines.iter().zip(0..);
            lines
                .map(|(line, index)| VerifiedRun {
                    run_id: Some(format!("run_20260101_000000_aaaaa{index}")),
                    ..VerifiedRun::failed(index + 1, "test", line)
                })
                .collect()
        }

        /// EDITOR-31: at least three, each citing a run and a step, also without a model.
        #[test]
        fn derived_hypotheses_are_three_and_cite_runs() {
            for lines in [vec!["a"; 12], vec!["a", "b", "c", "d"], vec!["a"]] {
                let attempts = attempts(&lines);
                let items = derived(&attempts, false);
                assert!(items.len() >= NEEDED, "{items:?}");
                assert_eq!(usable(items.clone(), &attempts), items);
            }
            let silent = derived(&attempts(&[""; 4]), false);
            let said: Vec<_> =
                silent.iter().flat_map(|item| [&item.text, &item.evidence]).collect();
            assert!(said.iter().all(|text| !text.trim_end().ends_with(':')), "{said:?}");
            assert!(derived(&[], false).is_empty());
        }

        /// EDITOR-33
        #[test]
        fn no_derived_hypothesis_says_that_something_changed_when_nothing_did() {
            let said = |unchanged| {
                let items = derived(&attempts(&["a"]), unchanged);
                items.iter().any(|item| item.text.contains("changed something"))
            };
            assert!(said(false) && !said(true));
            assert!(derived(&attempts(&["a"]), true).len() >= NEEDED);
        }

        #[test]
        fn a_hypothesis_about_an_unknown_run_does_not_count() {
            let item = Hypothesis {
                text: "t".into(),
                run_id: "run_20260101_000000_zzzzzz".into(),
                evidence: "e".into(),
            };
            assert!(usable(vec![item], &attempts(&["a"])).is_empty());
        }

        /// EDITOR-61
        #[test]
        fn the_reason_of_an_impossible_task_is_divided_into_hypotheses() {
            let text = "The format is\nunknown.\n\n- no parser\n  in src/\n* no test\n\n\nEnd.";
            assert_eq!(
                paragraphs(text),
                ["The format is unknown.", "no parser in src/", "no test", "End."]
            );
            assert!(paragraphs(" \n").is_empty());
        }

        /// EDITOR-61
        #[test]
        fn reads_and_searches_are_looks() {
            let look = |name: &str, arguments: &str| {
                let (name, arguments) = (name.to_owned(), arguments.to_owned());
                looks(&ToolCall { id: String::new(), name, arguments })
            };
            assert_eq!(
                look("read", r#"{"files":[{"path":"a"},{"path":"b","start":3}]}"#),
                ["a", "b"]
            );
            assert_eq!(look("read", r#"{"path":"a"}"#), ["a"]);
            assert_eq!(look("search", r#"{"pattern":"x"}"#), ["search for x"]);
            assert!(look("list", r#"{"path":"a"}"#).is_empty());
        }

        #[test]
        fn evidence_is_a_step_a_file_or_a_line() {
            for (evidence, counts) in [
                ("step test", true),
                ("src/add.rs", true),
                ("`add.py`, line 3", true),
                ("because", false),
                ("", false),
            ] {
                assert_eq!(is_evidence(evidence, Some("test")), counts, "{evidence}");
            }
        }
    }

    mod commit_text {
        use super::super::*;
        /// EDITOR-33
        #[test]
        fn headings_labels_and_trailers_are_left_out_with_their_blocks() {
            for (text, kept, left_out) in [
                ("Done.\n\nCommit message: Handle centuries", "Done.", COMMIT),
                ("**Commit message**\n\nHandle centuries\nin leap\n\nGreen.", "Green.", COMMIT),
                ("**Commit message:** Handle centuries\n\nGreen.", "Green.", COMMIT),
                ("Commit message:\n\n```\nfix: x\n\nbody\n```\nGreen.", "Green.", COMMIT),
                ("- Suggested commit: `handle centuries`\nGreen.", "", COMMIT),
                (
                    "Fixed.\n\n## PR description\n\nLong.\n\n### Part\n\nx\n\n## Rest\n\ny",
                    "Fixed.\n\n## Rest\n\ny",
                    REQUEST,
                ),
                ("Pull request title: Centuries\n\nFixed.", "Fixed.", REQUEST),
                (
                    "Fixed.\n\nCo-authored-by: A Model <model@example.com>\nSigned-off-by: B",
                    "Fixed.",
                    TRAILER,
                ),
            ] {
                let mut found = vec![];
                assert_eq!(without_commit_text(text, &mut found), kept, "{text}");
                assert_eq!(found, [left_out], "{text}");
            }
        }

        /// EDITOR-33: prose may say what it likes; the host states the facts beside it.
        #[test]
        fn prose_is_not_changed() {
            for text in [
                "",
                "fix(leap): refuse 1900",
                "Committed and merged into the main branch as 1a2b3c4d. PR #12 is open.",
                "The two helpers were merged into main.",
                "The hook reads the commit message: its first line must be short.",
                "Commit messages are checked for their length.",
                "The check looks at the\ncommit message\nof each commit.",
                "- commit: waits for the log",
                "```\nCommit message: an example\n```",
                "`git commit -m x` is refused by the hook.",
            ] {
                let mut found = vec![];
                assert_eq!(without_commit_text(text, &mut found), text);
                assert!(found.is_empty(), "{text}: {found:?}");
            }
        }

        /// EDITOR-33
        #[test]
        fn a_run_of_another_task_is_found() {
            let (ours, forged) = ("run_20261121_100000_abc123", "run_20261121_100000_zzzzzz");
            assert_eq!(foreign_run(&format!("green in `{ours}`."), &[ours]), None);
            assert_eq!(
                foreign_run(&format!("see {ours}, {forged}."), &[ours]).as_deref(),
                Some(forged)
            );
            assert_eq!(foreign_run("run_x and run_fast_enough", &[]), None);
        }
    }
}
