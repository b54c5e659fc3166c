//! The Editor: the loop in which a model plans, edits and verifies until a run of the pipeline is green.
//!
//! This file is the loop. [`Editor::work`] holds conversations until the task ends; a conversation is a row of turns; a turn
//! is calls of tools, and what the host does by itself when the model calls none. The decisions of the loop are the pure
//! functions at the end of the file, from `batches` on. Beside it:
//!
//! - `tools`: the tools that the model may call, the host's and those of components, in one list
//! - `plan`: plans, strategies and snapshots
//! - `scouts`: questions to the Scouts, and conflicts between their reports
//! - `review`: the differences that the model sees of its own edits
//! - `shown_lines`: the lines of files that the conversation has shown, which no answer repeats
//! - `check`: single commands that the model runs between verifications
//! - `verify`: verifications, the debug loop and the baseline
//! - `evidence`: what the tests of the task prove, and tests that demand less than at its start
//! - `finish`: summary, stuck report, hypotheses
//! - `resume`: the draft of a dry run, and the task that applies it
//! - `prompt`: the first message of each conversation
//! - `request`: the text of a task, with its sections

mod check;
mod evidence;
mod finish;
mod plan;
mod prompt;
mod request;
mod resume;
mod review;
mod scouts;
mod shown_lines;
#[cfg(test)]
mod tests;
mod tools;
mod verify;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use futures_util::future::{Either, join_all, ready};
use tokio_util::sync::CancellationToken;

pub use finish::{OrEnd, TaskResult, end_before_work};
pub use prompt::Gate;
pub use request::{Boundary, MAX_TEXT_BYTES, RequestError, TaskRequest};
pub use resume::Draft;
pub use tools::{Answer, Called, Tool};

use self::evidence::{Gathered, Weakened};
use self::plan::{Changes, History, Plans, Strategies};
use self::review::Review;
use self::scouts::Decisions;
use self::shown_lines::ShownLines;
use self::tools::{Account, DoneOutcome, Request, ToolOutput, Tools};
use self::verify::{Baseline, DebugLoop, JudgedTree, TreeAt};
use crate::context::{NotesWriter, ScoutPayload, SnapshotKind};
use crate::gate_inputs::TestReader;
use crate::instructions::{Found, Instructions};
use crate::scout::{ReportCheck, Scout};
use act_audit::{Audit, Entry, Event};
use act_config::Checks;
use act_core::check::Checker;
use act_core::event::{EventKind, Events, Milestone};
use act_core::evidence::{Evidence, EvidenceRule, VariantVerifier};
use act_core::verification::{Verification, Verifier};
use act_core::{Outcome, StuckReason, reason};
use act_model::{
    Ask, Conversation, Model, ModelError, ModelErrorKind, Stop, TokenLedger, TokioTimer, ToolCall,
    ToolResult, Turn, with_attempts,
};
use act_reports::failures::Log;
use act_workspace::{ChangedFile, PathGlobs, RepoView, RepoWriter};

/// The task as the user gave it.
#[derive(Debug, Clone)]
pub struct TaskInput {
    pub task_id: String,
    pub request: TaskRequest,
    /// Directory of the monorepo package that the task is scoped to.
    pub package: Option<String>,
    /// Items of `Boundaries:` that the host does not enforce.
    pub not_enforced: Vec<String>,
    /// Test files of the start that the user allows to be changed, although their old tests fail then.
    pub allowed_test_changes: PathGlobs,
    /// Files that act itself wrote into the repository for this task, beside its notes.
    pub host_wrote: Vec<String>,
    /// The unresolved stuck report of an earlier task of ours in this repository.
    pub stuck_report: Option<EarlierReport>,
    /// The task before this one in the same session of an editor.
    pub previous: Option<EarlierTask>,
}

/// How the task before this one ended, in the same session of an editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierTask {
    pub text: String,
    /// The state in which it ended, and the reason if it has one.
    pub outcome: String,
    /// The account of the model that worked on it.
    pub summary: Option<String>,
}

/// The stuck report of an earlier task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierReport {
    pub text: String,
    /// The runs of that task, whose logs the model may read.
    pub run_ids: Vec<String>,
}

/// The repository of a task and the logs of its runs, as the Editor reads them.
pub trait Workplace: Send + Sync {
    /// Returns the digest of the tree, computed as for the manifest of a run.
    ///
    /// # Errors
    ///
    /// The repository cannot be read.
    fn tree_digest(&self) -> io::Result<String>;

    /// Returns why the repository's path no longer means the directory that is edited, or `None` while it does.
    fn moved(&self) -> Option<String>;

    /// Returns whether the repository, or the package in work, has any tests.
    fn has_tests(&self) -> bool;

    /// Returns the real path and the text of a file that a step's command names.
    fn read_script(&self, path: &str) -> Option<(String, String)>;

    /// Reads the log of a run of this task, or of one step of it, from a line on, counted from 1. Paths in it are relative
    /// to the repository.
    ///
    /// # Errors
    ///
    /// The log does not exist or cannot be read.
    fn log(&self, run_id: &str, step: Option<&str>, from: usize) -> io::Result<Log>;

    /// Adds what the tests of the task prove to the manifest of the run that decided.
    ///
    /// # Errors
    ///
    /// The manifest cannot be written.
    fn add_evidence(&self, run_id: &str, evidence: &Evidence) -> io::Result<()>;

    /// Returns the paths of the files of the repository, in which places of a log are looked up.
    fn paths(&self) -> Vec<String>;
}

/// Everything that one task works with. Tests replace each part by a fake.
pub struct Editor {
    pub input: TaskInput,
    pub model: Arc<dyn Model>,
    /// The tokens that all roles have spent so far.
    pub ledger: TokenLedger,
    /// Scout A, Scout B, then any others.
    pub scouts: Vec<Arc<dyn Scout>>,
    pub check: Arc<dyn ReportCheck>,
    /// Tools of components, offered behind the host's own.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Writes the repository for the tools, and records what they changed.
    pub writer: Arc<RepoWriter>,
    pub verifier: Arc<dyn Verifier>,
    /// Verifies other trees than the working tree, for the evidence of a success; `None` in a dry run.
    pub variants: Option<Arc<dyn VariantVerifier>>,
    pub evidence: EvidenceRule,
    /// Runs the commands of `check`; `None` in a dry run.
    pub checker: Option<Arc<dyn Checker>>,
    /// Which commands those may be.
    pub checks: Checks,
    pub workplace: Arc<dyn Workplace>,
    /// The pipeline. A changed file that one of its steps names or reaches is reported to the user.
    pub gate: Gate,
    /// The repository as Scouts see it.
    pub view: RepoView,
    /// The model gets the instructions of the repository, `AGENTS.md` or `CLAUDE.md`.
    pub agents_md: bool,
    /// The audit log. The Editor takes no action that the log cannot record.
    pub audit: Audit,
    /// `None` in a dry run, which writes nothing into the repository.
    pub notes: Option<NotesWriter>,
    pub aim: Aim,
    /// The draft of a dry run, whose files the caller has just written into the repository ([`Editor::begin_with`]).
    pub draft: Option<Draft>,
    /// Runs the pipeline before the first edit.
    pub baseline: bool,
    pub events: Events,
    pub cancel: CancellationToken,
}

/// The goal of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// A green run.
    Green,
    /// A dry run's proposal: edits that the user may apply. Nothing is verified.
    Proposal,
}

impl Editor {
    /// Works until the task ends. The call itself never fails: every end is a [`TaskResult`].
    pub async fn work(&self) -> TaskResult {
        let mut session = Session::new(self);
        let result = match session.drive().await {
            Ok(done) if self.aim == Aim::Proposal => session.propose(done),
            Ok(done) => session.succeed(done),
            Err(ended) => session.end(*ended).await,
        };
        TaskResult { edits_refused: session.refused_edits(), ..result }
    }
}

/// What follows a conversation.
#[derive(Debug)]
pub enum AfterConversation {
    /// Another conversation, with this first message.
    Conversation(String),
    /// The task is done, with the model's account if it gave one.
    Done(Option<Account>),
}

/// Calls that run at once. Each call of a component has a memory of its own, by default of up to 256 MiB, so that they
/// take at most 1 GiB together.
const AT_ONCE: usize = 4;
/// Calls of one turn that are performed. The others are refused, so that one turn cannot fill the conversation.
const CALLS_PER_TURN: usize = 64;
/// Bytes of one answer of a component's tool. The built-in tools stay far below.
const RESULT_BYTES: usize = 256 * 1024;
/// Bytes of all answers in one conversation: about a million tokens, which few models accept.
const CONVERSATION_BYTES: usize = 4 * 1024 * 1024;

/// The state of one task.
pub struct Session<'a> {
    editor: &'a Editor,
    debug_loop: DebugLoop,
    phase: Phase,
    plans: Plans,
    strategies: Strategies,
    history: History,
    /// The newest raw report of each Scout, in the order of the Scouts.
    reports: Vec<ScoutPayload>,
    /// The repository's own instructions that the model got.
    instructions: Instructions,
    /// The last run before each report, by the name of the Scout.
    asked_after: BTreeMap<String, String>,
    /// The reports as the first message of this conversation held or named them, by the name of the Scout.
    reports_sent: BTreeMap<String, String>,
    decisions: Decisions,
    /// The run before the first edit, if there was one.
    baseline: Option<Baseline>,
    /// The result of each verification in the order of the plans' runs, with the answer to the model.
    results: Vec<JudgedTree>,
    /// The changed files as they were at the last verification, and at the last green one.
    at_last_run: TreeAt,
    at_last_green: TreeAt,
    /// The end of the log of the last run that failed, for a Scout.
    end_of_log: String,
    /// Which Scouts were asked for each plan, for the snapshots.
    asked: Vec<String>,
    /// The number and the attempt of a REPLAN that waits for a new plan.
    replanning: Option<(u32, u32)>,
    /// Fingerprint of the tree that the last verification judged.
    verified_tree: String,
    /// The number of failures at the last REPLAN.
    failing_at_replan: Option<usize>,
    /// Fewer tests fail than at the REPLAN before, so that a strategy may be refined.
    refining: bool,
    /// The last verification.
    last: Option<Verification>,
    /// True when the repository had tests when the task began; `None` before the first plan.
    has_tests: Option<bool>,
    /// A snapshot that waits for the Editor's decision about a conflict. Every action but `plan` writes it first.
    snapshot_due: Option<SnapshotKind>,
    /// Kinds of text that were left out of the Editor's account.
    left_out: Vec<&'static str>,
    review: Review,
    /// The tests of changed files, at the start of the task and now.
    tests: TestReader,
    weaker: Weakened,
    /// What the tests prove about the last green tree that ended or was to end the task.
    gathered: Option<Gathered>,
    /// The counters before the last green run, which hold again where its evidence is missing.
    before_green: DebugLoop,
    /// The criteria in force were shown since the last verification.
    criteria_shown: bool,
    /// The reads and searches of the Editor in this task.
    looked: Vec<String>,
    /// The lines of files that this conversation has shown.
    shown: ShownLines,
    this_turn: ThisTurn,
    /// The run of a red tree that the model asked to verify again. Asked once more, it runs once more.
    asked_again: Option<String>,
    /// The account in the model's last `done`.
    account: Option<Account>,
    /// Bytes of the host's answers in this conversation.
    answer_bytes: usize,
    /// Questions to Scouts since the last verification.
    questions: u32,
    /// Checks since the last verification.
    checks: u32,
    /// The last checks with what they showed, for a conversation that begins anew.
    checked: VecDeque<String>,
    /// The number of verifications when a conversation was last closed for its length.
    verifications_at_restart: Option<usize>,
}

impl<'a> Session<'a> {
    fn new(editor: &'a Editor) -> Self {
        Self {
            editor,
            debug_loop: DebugLoop::default(),
            phase: Phase::Planning,
            plans: Plans::default(),
            strategies: Strategies::default(),
            history: History::default(),
            reports: vec![],
            instructions: Instructions::of(editor.agents_md.then(|| editor.view.clone())),
            asked_after: BTreeMap::new(),
            reports_sent: BTreeMap::new(),
            decisions: Decisions::default(),
            baseline: None,
            results: vec![],
            at_last_run: TreeAt::default(),
            at_last_green: TreeAt::default(),
            end_of_log: String::new(),
            asked: vec![],
            replanning: None,
            verified_tree: String::new(),
            failing_at_replan: None,
            refining: false,
            last: None,
            has_tests: None,
            snapshot_due: None,
            left_out: vec![],
            review: Review::default(),
            tests: TestReader::default(),
            weaker: Weakened::default(),
            gathered: None,
            before_green: DebugLoop::default(),
            criteria_shown: false,
            looked: vec![],
            shown: ShownLines::default(),
            this_turn: ThisTurn::default(),
            asked_again: None,
            account: None,
            answer_bytes: 0,
            questions: 0,
            checks: 0,
            checked: VecDeque::new(),
            verifications_at_restart: None,
        }
    }

    /// Ends a call of a tool when the task is cancelled.
    pub fn cancel(&self) -> &'a CancellationToken {
        &self.editor.cancel
    }

    /// Directory of the monorepo package that the task is scoped to.
    pub fn package(&self) -> Option<&'a str> {
        self.editor.input.package.as_deref()
    }

    /// Holds conversations until the task is done.
    async fn drive(&mut self) -> OrEnd<Option<Account>> {
        let mut next = self.begin().await?;
        loop {
            next = match next {
                AfterConversation::Done(done) => return Ok(done),
                AfterConversation::Conversation(opening) => match self.converse(&opening).await {
                    Err(end) if end.outcome == CONTEXT_FULL => self.restart_conversation(*end)?,
                    next => next?,
                },
            };
        }
    }

    /// Prepares the first conversation. An applied proposal that passes needs no conversation.
    async fn begin(&mut self) -> OrEnd<AfterConversation> {
        let found = self.instructions.down_to(self.package().unwrap_or_default());
        self.record_instructions(&found);
        if self.editor.baseline {
            self.run_baseline().await?;
        }
        if let Some(draft) = &self.editor.draft {
            return self.resume(draft).await;
        }
        self.milestone(Milestone::Analyzing);
        self.first_reports().await?;
        Ok(AfterConversation::Conversation(self.opening()))
    }

    /// Holds one conversation, until a REPLAN or the end of the task.
    async fn converse(&mut self, opening: &str) -> OrEnd<AfterConversation> {
        let tools = Tools::of(self.editor);
        let mut conversation = self.editor.model.open("editor", prompt::EDITOR, &tools.specs());
        conversation.say(opening);
        self.answer_bytes = opening.len();
        self.shown = ShownLines::default();
        self.shown.note(opening);
        let sent = self.reports.iter().map(|one| (one.scout.clone(), one.payload.clone()));
        self.reports_sent = sent.collect();
        let mut pace = Pace::default();
        loop {
            let turn = self.turn(conversation.as_mut()).await?;
            let before = self.progress();
            if turn.calls.is_empty() {
                self.write_due_snapshot()?;
            } else if let Some(next) =
                self.perform_calls(&turn, &tools, conversation.as_mut()).await?
            {
                return Ok(next);
            }
            pace.count(turn.calls.is_empty(), &before, &self.progress());
            let action = host_action(self.editor.aim, self.phase, self.edited(), turn.stop, pace);
            let (why, output) = match action {
                HostAction::Nothing => continue,
                HostAction::Remind => {
                    conversation.say(reminder(self.phase, turn.stop));
                    continue;
                }
                HostAction::Idle => return Err(finish::idle(&turn).into()),
                HostAction::Propose => return Ok(AfterConversation::Done(None)),
                HostAction::Verify { why } => (why, self.verify().await?),
                HostAction::Close => (NOT_CLOSED, self.close().await?),
            };
            let answer = match output {
                ToolOutput::End(next) => return Ok(next),
                ToolOutput::Answer(answer) => answer,
            };
            if self.plans.runs().len() > before.verifications {
                pace = Pace::default();
            } else if pace.silent >= SILENT_TURNS || pace.turns >= 2 * TURNS_PER_ATTEMPT {
                // The host refused to verify, and would refuse again and again.
                return Err(finish::idle(&turn).into());
            }
            let text = format!("{why}. It answered:\n{}", answer.text);
            self.answer_bytes += text.len();
            conversation.say(&text);
        }
    }

    /// Performs the calls of a turn and sends their answers. Returns what follows when a call ends the conversation.
    async fn perform_calls(
        &mut self,
        turn: &Turn,
        tools: &Tools,
        conversation: &mut dyn Conversation,
    ) -> OrEnd<Option<AfterConversation>> {
        let places: Vec<_> = turn.calls.iter().map(|call| tools.place(&call.name)).collect();
        let mut answers: Vec<Option<Answer>> = vec![None; turn.calls.len()];
        self.this_turn = ThisTurn::default();
        self.shown.next_turn();
        for batch in batches(&places) {
            self.check_audit()?;
            if batch.iter().take(1).any(|&at| turn.calls[at].name != "plan") {
                self.write_due_snapshot()?;
            }
            let mut calls = self.call_at_once(turn, &batch, tools).await.into_iter();
            let mut of_scouts = BTreeMap::new();
            while let Some((at, called)) = calls.next() {
                let call = &turn.calls[at];
                if call.name != "plan" {
                    self.write_due_snapshot()?;
                }
                let output = match called {
                    Called::Answer(answer) => self.take_answer(call, places[at], answer).into(),
                    Called::Question(ask) => {
                        let answer = match of_scouts.remove(&at) {
                            Some(answer) => answer,
                            None => self.ask_scouts(ask, calls.as_slice(), &mut of_scouts).await?,
                        };
                        answer.into()
                    }
                    Called::Request(request) => {
                        self.check_audit()?;
                        self.perform(request).await?
                    }
                };
                let answer = match output {
                    ToolOutput::End(next) => return Ok(Some(next)),
                    ToolOutput::Answer(answer) => self.with_instructions(call, answer),
                };
                self.this_turn.edit_refused |= answer.is_error && places[at] == Place::Alone;
                self.answer_bytes += answer.text.len();
                answers[at] = Some(answer);
            }
            if self.editor.cancel.is_cancelled() {
                return Err(TaskResult::cancelled().into());
            }
        }
        let answered = turn.calls.iter().zip(answers).filter_map(|(call, answer)| {
            let Answer { text, is_error } = answer?;
            Some(ToolResult { id: call.id.clone(), content: text, is_error })
        });
        conversation
            .answer(answered.collect())
            .map_err(|error| model_failed(&error, &self.editor.ledger))?;
        Ok(None)
    }

    /// Records the instructions that the model gets, and warns the user of those that it does not get.
    fn record_instructions(&self, found: &Found) {
        let Editor { events, audit, .. } = self.editor;
        for file in &found.files {
            let (bytes, left_out) = (file.text.len() as u64, file.left_out as u64);
            // `check_audit` reports an error of the log before the next action.
            let entry = Entry::new(Event::InstructionsRead).object(&file.path);
            let entry = entry.digest("file", Some(&file.sha256));
            let _ = audit.append(entry.count("bytes", bytes).count("left_out", left_out));
            events.emit(EventKind::InstructionsRead {
                path: file.path.clone(),
                sha256: file.sha256.clone(),
                bytes,
                left_out,
            });
        }
        found.warnings.iter().for_each(|warning| events.warn(warning));
    }

    /// Adds the instructions of directories that a call reached for the first time to its answer.
    fn with_instructions(&mut self, call: &ToolCall, answer: Answer) -> Answer {
        if answer.is_error {
            return answer;
        }
        let paths = tools::paths_of(&call.arguments);
        let found = self.instructions.around(paths.iter().map(String::as_str));
        self.record_instructions(&found);
        match found.files.is_empty() {
            true => answer,
            false => {
                Answer { text: answer.text + &prompt::instructions_below(&found.files), ..answer }
            }
        }
    }

    /// Makes the calls of a batch at once. A call that is refused is not made.
    async fn call_at_once(
        &self,
        turn: &Turn,
        batch: &[usize],
        tools: &Tools,
    ) -> Vec<(usize, Called)> {
        let calls = batch.iter().map(|&at| {
            let call = &turn.calls[at];
            match self.admit(at, call, tools) {
                Ok(tool) => Either::Left(tool.call(&call.arguments, self)),
                Err(refusal) => Either::Right(ready(Called::Answer(refusal))),
            }
        });
        batch.iter().copied().zip(join_all(calls).await).collect()
    }

    /// Returns the tool of the `at`th call of a turn, or the refusal of the call.
    fn admit<'t>(
        &self,
        at: usize,
        call: &ToolCall,
        tools: &'t Tools,
    ) -> Result<&'t dyn Tool, Answer> {
        if at >= CALLS_PER_TURN {
            return Err(Answer::refusal("budget", "too many calls in one turn"));
        }
        let tool = tools.find(self.editor.aim, self.phase, &call.name)?;
        if tool.adds_material() && self.answer_bytes > CONVERSATION_BYTES {
            let message = "the conversation is full: nothing more can be read; call verify with the edits so far";
            return Err(Answer::refusal("budget", message));
        }
        Ok(tool)
    }

    /// Takes the answer of a tool. A call that may have edited is answered with the difference it made.
    fn take_answer(&mut self, call: &ToolCall, place: Place, answer: Answer) -> Answer {
        let answer = match answer.text.len() > RESULT_BYTES {
            true => Answer::refusal("too_large", "the tool's answer is too large; ask for less"),
            false => answer,
        };
        if !answer.is_error {
            self.note_look(call);
        }
        if place != Place::Alone {
            let text = match answer.is_error {
                true => answer.text,
                false => self.shown.without_known(&answer.text),
            };
            return Answer { text, ..answer };
        }
        let answer = self.with_difference(&call.arguments, answer);
        if self.phase != Phase::Planning {
            self.phase = self.phase_of_tree();
        }
        answer
    }

    /// Performs a request of the model.
    async fn perform(&mut self, mut request: Request) -> OrEnd<ToolOutput> {
        let is_done = matches!(request, Request::Done(_));
        if let Request::Done(account) = &mut request {
            // A red run or a refusal is often followed by the same account, which need not be sent again.
            *account = std::mem::take(account).completed(self.account.as_ref());
            self.account = Some(account.clone());
        }
        if request.judges_the_tree()
            && let Some(message) = self.this_turn.refusal(is_done)
        {
            return Ok(Answer::refusal("not_verified", message).into());
        }
        match request {
            Request::Plan(plan) => self.adopt(plan).await.map(ToolOutput::Answer),
            Request::ReadLog(wanted) => Ok(self.read_log(wanted).await.into()),
            Request::Check(call) => self.check(&call.command).await.map(ToolOutput::Answer),
            Request::Verify => {
                self.this_turn.verified = true;
                self.verify().await
            }
            Request::Done(account) => self.done(account).await,
        }
    }

    /// Requests one turn of the model. Errors that may pass are retried.
    async fn turn(&self, conversation: &mut dyn Conversation) -> OrEnd<Turn> {
        let cancel = &self.editor.cancel;
        let turn = with_attempts(&TokioTimer, cancel, conversation, |talk, attempt, cancel| {
            talk.next(Ask { attempt, ..Ask::default() }, cancel)
        });
        Ok(turn.await.map_err(|error| match cancel.is_cancelled() {
            true => TaskResult::cancelled(),
            false => model_failed(&error, &self.editor.ledger),
        })?)
    }

    fn milestone(&self, milestone: Milestone) {
        self.editor.events.emit(milestone.into());
    }

    /// Returns whether anything changed since the last verification.
    fn edited(&self) -> bool {
        self.fingerprint() != self.verified_tree
    }

    /// Returns whether the task has changed no file, or has undone every change.
    fn is_unchanged(&self) -> bool {
        self.editor.writer.changed().is_empty()
    }

    /// The parts of the task that show whether a turn achieved anything.
    fn progress(&self) -> Progress {
        let changed = self.editor.writer.changed();
        Progress { phase: self.phase, verifications: self.plans.runs().len(), changed }
    }

    fn changes(&self) -> Changes {
        let files = self.editor.writer.changed().into_iter();
        files.map(|file| (file.path, file.sha256_now)).collect()
    }

    /// The changes as one text. Equal texts mean equal trees.
    fn fingerprint(&self) -> String {
        let mut text = String::new();
        for (path, sha256) in self.changes() {
            text.push_str(&format!("{} {path}\n", sha256.as_deref().unwrap_or("-")));
        }
        text
    }

    /// The changed files as people read them, such as `src/a.rs (replace)`.
    fn changed_files(&self) -> Vec<String> {
        let changed = self.editor.writer.changed();
        changed.iter().map(|file| format!("{} ({})", file.path, file.op())).collect()
    }

    /// How many edits each rule refused, by its word.
    fn refused_edits(&self) -> BTreeMap<String, u64> {
        let refused = self.editor.writer.refused().into_iter();
        refused.map(|(rule, count)| (rule.to_owned(), count)).collect()
    }
}

const CONTEXT_FULL: Outcome = Outcome::Stuck { reason: StuckReason::ContextFull };

fn model_failed(error: &ModelError, ledger: &TokenLedger) -> TaskResult {
    match error.kind {
        ModelErrorKind::Budget => finish::budget_spent(ledger),
        ModelErrorKind::TooLong => {
            TaskResult::stuck(StuckReason::ContextFull, Some(error.to_string()))
        }
        _ => {
            let why = format!("the model did not answer: {error}");
            TaskResult::infra(reason::MODEL_UNAVAILABLE, why)
        }
    }
}

/// Turns without a verification after which the host verifies by itself: long enough to read and edit a large change,
/// short enough that a model that lost its way gets a fact again.
const TURNS_PER_ATTEMPT: u32 = 40;
/// Turns in a row without a tool call after which a model counts as idle: one slip and one reminder are allowed.
const SILENT_TURNS: u32 = 3;
/// Turns after a green run that a model may take before the host writes the summary.
const CLOSING_TURNS: u32 = 3;

const SILENT: &str = "You called no tool, so the host ran `verify`";
const OVERDUE: &str = "Many turns have passed without a verification, so the host ran `verify`";
const NOT_CLOSED: &str =
    "You did not call `done`, and the tree is not the one that was green, so the host ran `verify`";

/// The place of a call among the calls of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At once with the calls beside it: the call edits nothing.
    Beside,
    /// After the calls before it and before the calls after it: the call may edit, or names no tool, which may have been
    /// meant as an edit.
    Alone,
    /// After all other calls: the call judges the tree that the turn leaves.
    Last(LastCall),
}

/// The calls that run at the end of a turn, in the order in which they run: a claim that the task is done is about the
/// verification that was asked for beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LastCall {
    Check,
    Verify,
    Done,
}

impl LastCall {
    fn of(tool: &str) -> Option<Self> {
        match tool {
            "check" => Some(Self::Check),
            "verify" => Some(Self::Verify),
            "done" => Some(Self::Done),
            _ => None,
        }
    }
}

/// Divides the calls of a turn into batches, by their indices. The calls of a batch run at once, and the batches in order,
/// so that a call sees the edits before it.
fn batches(places: &[Place]) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = vec![];
    let mut last = vec![];
    let mut open = false;
    for (at, place) in places.iter().enumerate() {
        match (place, batches.last_mut()) {
            (Place::Last(call), _) => last.push((*call, at)),
            (Place::Beside, Some(batch)) if open && batch.len() < AT_ONCE => batch.push(at),
            (place, _) => {
                batches.push(vec![at]);
                open = *place == Place::Beside;
            }
        }
    }
    last.sort();
    batches.extend(last.into_iter().map(|(_, at)| vec![at]));
    batches
}

/// The phase of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No edit, verification or end before a plan.
    Planning,
    Working,
    /// The tree is the same as in the last green run, and holds changes of the task.
    Closing,
}

/// What the calls of the turn in work have shown so far.
#[derive(Debug, Clone, Copy, Default)]
struct ThisTurn {
    edit_refused: bool,
    /// An edit left a line beside its like.
    line_doubled: bool,
    /// `verify` was called.
    verified: bool,
}

impl ThisTurn {
    /// Returns why a call that judges the tree is not performed in this turn, or `None` when it may be.
    fn refusal(self, is_done: bool) -> Option<&'static str> {
        if self.edit_refused {
            return Some(
                "not run: an edit of this turn was refused, so this is not the tree you meant; mend the edit first, \
                 then call again",
            );
        }
        (is_done && self.line_doubled).then_some(
            "the task goes on: an edit of this turn left lines twice, as its answer says; remove the copy, or call \
             done again if both are meant",
        )
    }
}

/// The state of a task before or after a turn.
#[derive(Debug, PartialEq, Eq)]
struct Progress {
    phase: Phase,
    verifications: usize,
    changed: Vec<ChangedFile>,
}

/// Turns since something happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Pace {
    /// Turns in a row without a tool call.
    silent: u32,
    /// Turns since the last verification.
    turns: u32,
    /// Turns since the tree became green, as long as nothing changed.
    closing: u32,
}

impl Pace {
    /// Counts a turn.
    fn count(&mut self, is_silent: bool, before: &Progress, after: &Progress) {
        if after.verifications > before.verifications {
            *self = Self::default();
            return;
        }
        self.turns += 1;
        self.silent = if is_silent { self.silent + 1 } else { 0 };
        let at_rest = after.phase == Phase::Closing && after == before;
        self.closing = if at_rest { self.closing + 1 } else { 0 };
    }
}

/// An action that the host takes by itself after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostAction {
    Nothing,
    /// Tells the model what to call.
    Remind,
    /// Verifies, and tells the model why.
    Verify {
        why: &'static str,
    },
    /// Ends the task with a summary of the host's, if the tree is still the green one.
    Close,
    /// Ends a dry run.
    Propose,
    /// Ends the task as STUCK, `model_idle`.
    Idle,
}

/// Why a tool may not be called in a phase of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PhaseRefusal {
    PlanFirst,
    DryRun,
}

impl PhaseRefusal {
    /// The stable word of the refusal.
    fn reason(self) -> &'static str {
        match self {
            Self::PlanFirst => "plan_first",
            Self::DryRun => "dry_run",
        }
    }

    /// The message that leads the model on.
    fn hint(self) -> &'static str {
        match self {
            Self::PlanFirst => {
                "edits, verify and done need a plan: call plan first; list, read, search, read_log and ask_scout work \
                 before it"
            }
            Self::DryRun => {
                "this is a dry run: nothing runs in a container; call done when the proposal is complete"
            }
        }
    }
}

/// Decides whether a tool may be called in this phase; `None` when it may. `may_edit`: the tool can change the repository.
fn phase_refusal(aim: Aim, phase: Phase, tool: &str, may_edit: bool) -> Option<PhaseRefusal> {
    match (phase, tool) {
        (Phase::Planning, "verify" | "done") => Some(PhaseRefusal::PlanFirst),
        (Phase::Planning, _) if may_edit => Some(PhaseRefusal::PlanFirst),
        (_, "check" | "verify") if aim == Aim::Proposal => Some(PhaseRefusal::DryRun),
        _ => None,
    }
}

/// Decides why `done` with this outcome cannot end the task, as the word and the message of a refusal; `None` when it can, if
/// need be after a run. `green`: a run judged exactly this tree and passed. `looked`: the Editor has read or searched in this task.
fn done_refusal(
    aim: Aim,
    outcome: DoneOutcome,
    unchanged: bool,
    green: bool,
    looked: bool,
) -> Option<(&'static str, &'static str)> {
    match outcome {
        DoneOutcome::Impossible if !looked => Some((
            "bad_arguments",
            "impossible needs evidence: read or search the places that show it, and name them in why",
        )),
        DoneOutcome::Impossible => None,
        DoneOutcome::NothingToDo if !unchanged => Some((
            "bad_arguments",
            "the task has changed files, so there was something to do: undo the changes, or verify them and call done \
             with the outcome changed",
        )),
        DoneOutcome::NothingToDo => None,
        DoneOutcome::Changed if aim == Aim::Green && !green && unchanged => Some((
            "not_verified",
            "nothing is changed and no run is green: edit and verify; where the task needs no change or cannot be \
             done, call done with the outcome nothing_to_do or impossible",
        )),
        DoneOutcome::Changed if aim == Aim::Green && !green => None,
        DoneOutcome::Changed if unchanged => Some((
            "bad_arguments",
            "nothing is changed since the start of the task: edit, or call done with the outcome nothing_to_do or \
             impossible",
        )),
        DoneOutcome::Changed => None,
    }
}

/// Decides what the host does after a turn. `edited`: something changed since the last verification. `stop`: how the turn
/// ended.
fn host_action(aim: Aim, phase: Phase, edited: bool, stop: Stop, pace: Pace) -> HostAction {
    let silence = match pace.silent {
        0 => HostAction::Nothing,
        // A turn that was cut or refused by the provider might have held a call, so it is no claim to be finished.
        in_row => {
            let cut = matches!(stop, Stop::Length | Stop::Refused);
            after_silence(aim, phase, edited, cut, in_row)
        }
    };
    match (silence, after_turn(aim, phase, pace.turns, pace.closing)) {
        (HostAction::Nothing | HostAction::Remind, due) if due != HostAction::Nothing => due,
        (silence, _) => silence,
    }
}

/// Decides what follows a turn without a tool call, the `in_row`th in a row. `cut`: the missing call says nothing.
fn after_silence(aim: Aim, phase: Phase, edited: bool, cut: bool, in_row: u32) -> HostAction {
    match phase {
        Phase::Working if aim == Aim::Proposal && !cut => HostAction::Propose,
        Phase::Working if edited && !cut => HostAction::Verify { why: SILENT },
        Phase::Planning | Phase::Working if in_row >= SILENT_TURNS => HostAction::Idle,
        Phase::Closing if in_row >= CLOSING_TURNS => HostAction::Close,
        _ => HostAction::Remind,
    }
}

/// Decides what is due after a turn, with or without calls. `turns`: since the last verification. `closing`: since the tree
/// became green and stayed so.
fn after_turn(aim: Aim, phase: Phase, turns: u32, closing: u32) -> HostAction {
    match phase {
        Phase::Planning if turns >= TURNS_PER_ATTEMPT => HostAction::Idle,
        Phase::Working if turns >= TURNS_PER_ATTEMPT && aim == Aim::Proposal => HostAction::Propose,
        Phase::Working if turns >= TURNS_PER_ATTEMPT => HostAction::Verify { why: OVERDUE },
        Phase::Closing if closing >= CLOSING_TURNS => HostAction::Close,
        _ => HostAction::Nothing,
    }
}

/// The message to a model that called no tool.
fn reminder(phase: Phase, stop: Stop) -> &'static str {
    match (phase, stop) {
        (_, Stop::Refused) => {
            "Your turn was refused, or taken away by a filter. Go on with what can be done of the task, with \
             tool calls."
        }
        (_, Stop::Length) => {
            "Your turn ended before it was complete. Continue in smaller steps, with tool calls."
        }
        (Phase::Planning, _) => "Call `plan` first.",
        (Phase::Working, _) => {
            "Nothing has been edited since the last verification. Use the file tools to make the change, \
             or call `verify`. Words alone do not finish the task: where it needs no change, or cannot be done, call \
             `done` with the outcome `nothing_to_do` or `impossible`."
        }
        (Phase::Closing, _) => "The tree is green. Call `done`, or edit on and verify again.",
    }
}

#[cfg(test)]
mod decisions {
    use super::*;

    /// EDITOR-4
    #[test]
    fn before_the_plan_edits_verify_and_done_are_refused() {
        let refusal = |tool, may_edit| phase_refusal(Aim::Green, Phase::Planning, tool, may_edit);
        for (tool, may_edit) in [("verify", false), ("done", false), ("replace", true)] {
            assert_eq!(refusal(tool, may_edit), Some(PhaseRefusal::PlanFirst), "{tool}");
        }
        for tool in ["plan", "list", "read", "search", "ask_scout", "read_log", "check"] {
            assert_eq!(refusal(tool, false), None, "{tool}");
        }
    }

    /// EDITOR-60
    #[test]
    fn calls_take_effect_in_order_and_judgements_come_last() {
        use LastCall::{Check, Done, Verify};
        use Place::{Alone, Beside, Last};
        for (places, expected) in [
            (vec![], vec![]),
            (vec![Beside, Beside, Beside], vec![vec![0, 1, 2]]),
            (
                vec![Beside, Beside, Alone, Beside, Alone, Alone],
                vec![vec![0, 1], vec![2], vec![3], vec![4], vec![5]],
            ),
            (
                vec![Last(Done), Alone, Last(Verify), Beside, Last(Verify), Beside],
                vec![vec![1], vec![3, 5], vec![2], vec![4], vec![0]],
            ),
            (
                vec![Last(Done), Last(Verify), Last(Check), Alone, Last(Check)],
                vec![vec![3], vec![2], vec![4], vec![1], vec![0]],
            ),
            (vec![Beside; 6], vec![vec![0, 1, 2, 3], vec![4, 5]]),
        ] {
            assert_eq!(batches(&places), expected, "{places:?}");
        }
    }

    /// EDITOR-9, EDITOR-61
    #[test]
    fn each_outcome_needs_its_proof() {
        use DoneOutcome::{Changed, Impossible, NothingToDo};
        let word = |aim, outcome, unchanged, green, looked| {
            done_refusal(aim, outcome, unchanged, green, looked).map(|(word, _)| word)
        };
        for (outcome, unchanged, green, looked, expected) in [
            (Changed, false, true, false, None),
            (Changed, false, false, true, None),
            (Changed, true, false, true, Some("not_verified")),
            (Changed, true, true, true, Some("bad_arguments")),
            (NothingToDo, true, false, false, None),
            (NothingToDo, true, true, false, None),
            (NothingToDo, false, true, true, Some("bad_arguments")),
            (Impossible, true, false, true, None),
            (Impossible, false, true, true, None),
            (Impossible, true, false, false, Some("bad_arguments")),
        ] {
            let case = format!("{outcome:?} {unchanged} {green} {looked}");
            assert_eq!(word(Aim::Green, outcome, unchanged, green, looked), expected, "{case}");
        }
        // EDITOR-50: nothing is verified in a dry run.
        for (outcome, unchanged, expected) in [
            (Changed, false, None),
            (Changed, true, Some("bad_arguments")),
            (NothingToDo, true, None),
            (NothingToDo, false, Some("bad_arguments")),
        ] {
            assert_eq!(word(Aim::Proposal, outcome, unchanged, false, false), expected);
        }
    }

    #[test]
    fn silence_after_edits_verifies_and_otherwise_ends_at_the_third() {
        assert_eq!(
            after_silence(Aim::Green, Phase::Working, true, false, 1),
            HostAction::Verify { why: SILENT }
        );
        assert_eq!(after_silence(Aim::Green, Phase::Working, false, false, 1), HostAction::Remind);
        assert_eq!(after_silence(Aim::Green, Phase::Working, false, false, 2), HostAction::Remind);
        assert_eq!(after_silence(Aim::Green, Phase::Working, false, false, 3), HostAction::Idle);
        assert_eq!(after_silence(Aim::Green, Phase::Planning, false, false, 3), HostAction::Idle);
        assert_eq!(after_silence(Aim::Green, Phase::Closing, false, false, 3), HostAction::Close);
    }

    #[test]
    fn the_fortieth_turn_of_an_attempt_verifies() {
        assert_eq!(after_turn(Aim::Green, Phase::Working, 39, 0), HostAction::Nothing);
        assert_eq!(
            after_turn(Aim::Green, Phase::Working, 40, 0),
            HostAction::Verify { why: OVERDUE }
        );
        assert_eq!(after_turn(Aim::Green, Phase::Planning, 40, 0), HostAction::Idle);
        assert_eq!(after_turn(Aim::Green, Phase::Closing, 1, 3), HostAction::Close);
    }

    #[test]
    fn a_turn_with_a_verification_starts_the_count_again() {
        let state =
            |verifications| Progress { phase: Phase::Closing, verifications, changed: vec![] };
        let mut pace = Pace { silent: 2, turns: 39, closing: 0 };
        pace.count(false, &state(0), &state(0));
        assert_eq!(pace, Pace { silent: 0, turns: 40, closing: 1 });
        assert_eq!(
            host_action(Aim::Green, Phase::Working, false, Stop::Tools, pace),
            HostAction::Verify { why: OVERDUE }
        );
        pace.count(false, &state(0), &state(1));
        assert_eq!(pace, Pace::default());
        pace.count(true, &state(1), &state(1));
        let action = host_action(Aim::Green, Phase::Closing, false, Stop::Done, pace);
        assert_eq!((pace, action), (Pace { silent: 1, turns: 1, closing: 1 }, HostAction::Remind));
    }

    #[test]
    fn a_cut_turn_is_no_claim_to_be_finished() {
        assert_eq!(after_silence(Aim::Green, Phase::Working, true, true, 1), HostAction::Remind);
    }

    /// EDITOR-50
    #[test]
    fn a_dry_run_verifies_nothing_and_ends_with_done_or_silence() {
        let dry = Aim::Proposal;
        assert_eq!(phase_refusal(dry, Phase::Working, "verify", false), Some(PhaseRefusal::DryRun));
        for phase in [Phase::Planning, Phase::Working] {
            assert_eq!(phase_refusal(dry, phase, "check", false), Some(PhaseRefusal::DryRun));
        }
        assert_eq!(phase_refusal(dry, Phase::Working, "done", false), None);
        assert_eq!(
            phase_refusal(dry, Phase::Planning, "done", false),
            Some(PhaseRefusal::PlanFirst)
        );
        assert_eq!(after_silence(dry, Phase::Working, true, false, 1), HostAction::Propose);
        assert_eq!(after_silence(dry, Phase::Working, false, false, 1), HostAction::Propose);
        assert_eq!(after_silence(dry, Phase::Working, true, true, 1), HostAction::Remind);
        assert_eq!(after_silence(dry, Phase::Planning, false, false, 3), HostAction::Idle);
        assert_eq!(after_turn(dry, Phase::Working, 40, 0), HostAction::Propose);
    }
}
