//! The Editor: the loop in which a model plans, edits and verifies until a run of the pipeline is green.
//!
//! This file is the loop. [`Editor::work`] holds conversations until the task ends; a conversation is a row of turns; a turn
//! is calls of tools, and what the host does by itself when the model calls none. The decisions of the loop are the pure
//! functions at the end of the file, from `host_action` on. Beside it:
//!
//! - `tools`: the tools that the model may call, the host's and those of components, in one list
//! - `plan`: plans, strategies and snapshots
//! - `scouts`: questions to the Scouts, and conflicts between their reports
//! - `review`: the differences that the model sees of its own edits
//! - `verify`: verifications, the debug loop and the baseline
//! - `finish`: summary, stuck report, hypotheses
//! - `resume`: the draft of a dry run, and the task that applies it
//! - `prompt`: the first message of each conversation
//! - `request`: the text of a task, with its sections

mod finish;
mod plan;
mod prompt;
mod request;
mod resume;
mod review;
mod scouts;
#[cfg(test)]
mod tests;
mod tools;
mod verify;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use finish::{OrEnd, TaskResult, end_before_work};
pub use request::{Boundary, MAX_TEXT_BYTES, RequestError, TaskRequest};
pub use resume::Draft;
pub use tools::{Answer, Tool, ToolOutput};

use self::plan::{Changes, History, Plans, Strategies};
use self::review::Review;
use self::scouts::Decisions;
use self::tools::{Account, Tools};
use self::verify::{Baseline, DebugLoop};
use crate::context::{NotesWriter, ScoutPayload, SnapshotKind, VerifiedRun};
use crate::scout::{ReportCheck, Scout};
use act_audit::Audit;
use act_config::Step;
use act_core::event::{Events, Milestone};
use act_core::verification::{Verification, Verifier};
use act_core::{Outcome, StuckReason, reason};
use act_model::{
    Ask, Conversation, Model, ModelError, ModelErrorKind, Stop, TokenLedger, TokioTimer, ToolCall,
    ToolResult, Turn, with_attempts,
};
use act_workspace::{ChangedFile, RepoWriter};

/// The task as the user gave it.
#[derive(Debug, Clone)]
pub struct TaskInput {
    pub task_id: String,
    pub request: TaskRequest,
    /// Directory of the monorepo package that the task is scoped to.
    pub package: Option<String>,
    /// Items of `Boundaries:` that the host does not enforce.
    pub not_enforced: Vec<String>,
    /// Files that act itself wrote into the repository for this task, beside its notes.
    pub host_wrote: Vec<String>,
    /// The unresolved stuck report of an earlier task of ours in this repository.
    pub stuck_report: Option<EarlierReport>,
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

    /// Returns the log of a run of this task, or of one step of it.
    ///
    /// # Errors
    ///
    /// The log does not exist or cannot be read.
    fn read_log(&self, run_id: &str, step: Option<&str>) -> io::Result<String>;
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
    pub workplace: Arc<dyn Workplace>,
    /// Steps of the pipeline; a changed file that one of their commands names or reaches is reported to the user.
    pub steps: Vec<Step>,
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
    decisions: Decisions,
    /// The run before the first edit, if there was one.
    baseline: Option<Baseline>,
    /// Every verification, as snapshots show it.
    verified: Vec<VerifiedRun>,
    /// Which Scouts were asked for each plan, for the snapshots.
    asked: Vec<String>,
    /// The number and the attempt of a REPLAN that waits for a new plan.
    replanning: Option<(u32, u32)>,
    /// Fingerprint of the tree that the last verification judged.
    verified_tree: String,
    /// The strategy in force was verified.
    verified_in_strategy: bool,
    /// The last verification.
    last: Option<Verification>,
    /// True when the repository had tests when the task began; `None` before the first plan.
    has_tests: Option<bool>,
    /// A snapshot that waits for the Editor's decision about a conflict. Every action but `plan` writes it first.
    snapshot_due: Option<SnapshotKind>,
    /// Kinds of text that were left out of the Editor's account.
    left_out: Vec<&'static str>,
    review: Review,
    /// The criteria were shown since the last verification.
    criteria_shown: bool,
    /// Bytes of the host's answers in this conversation.
    answer_bytes: usize,
    /// Questions to Scouts since the last verification.
    questions: u32,
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
            decisions: Decisions::default(),
            baseline: None,
            verified: vec![],
            asked: vec![],
            replanning: None,
            verified_tree: String::new(),
            verified_in_strategy: false,
            last: None,
            has_tests: None,
            snapshot_due: None,
            left_out: vec![],
            review: Review::default(),
            criteria_shown: false,
            answer_bytes: 0,
            questions: 0,
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
        if self.editor.baseline {
            self.run_baseline().await?;
        }
        if let Some(draft) = &self.editor.draft {
            return self.resume(draft).await;
        }
        self.milestone(Milestone::Analyzing);
        let baseline = self.baseline.as_ref().map(Baseline::for_model);
        let dry_run = self.editor.aim == Aim::Proposal;
        Ok(AfterConversation::Conversation(prompt::opening(&self.editor.input, baseline, dry_run)))
    }

    /// Holds one conversation, until a REPLAN or the end of the task.
    async fn converse(&mut self, opening: &str) -> OrEnd<AfterConversation> {
        let tools = Tools::of(self.editor);
        let mut conversation = self.editor.model.open("editor", prompt::EDITOR, &tools.specs());
        conversation.say(opening);
        self.answer_bytes = opening.len();
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
            if self.verified.len() > before.verifications {
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
        let mut results = Vec::with_capacity(turn.calls.len());
        for (at, call) in turn.calls.iter().enumerate() {
            let output = match at < CALLS_PER_TURN {
                true => self.perform(call, tools).await?,
                false => Answer::refusal("budget", "too many calls in one turn").into(),
            };
            let answer = match output {
                ToolOutput::End(next) => return Ok(Some(next)),
                ToolOutput::Answer(answer) => answer,
            };
            self.answer_bytes += answer.text.len();
            let (id, is_error) = (call.id.clone(), answer.is_error);
            results.push(ToolResult { id, content: answer.text, is_error });
        }
        conversation.answer(results).map_err(|error| model_failed(&error))?;
        Ok(None)
    }

    /// Requests one turn of the model. Errors that may pass are retried.
    async fn turn(&self, conversation: &mut dyn Conversation) -> OrEnd<Turn> {
        let cancel = &self.editor.cancel;
        let turn = with_attempts(&TokioTimer, cancel, conversation, |talk, attempt, cancel| {
            talk.next(Ask { attempt, ..Ask::default() }, cancel)
        });
        Ok(turn.await.map_err(|error| match cancel.is_cancelled() {
            true => TaskResult::cancelled(),
            false => model_failed(&error),
        })?)
    }

    /// Performs one call, or refuses it. A call of a tool that may edit is answered with the difference it made.
    async fn perform(&mut self, call: &ToolCall, tools: &Tools) -> OrEnd<ToolOutput> {
        self.check_audit()?;
        let tool = match tools.find(self.editor.aim, self.phase, &call.name) {
            Ok(tool) => tool,
            Err(refusal) => return Ok(refusal.into()),
        };
        if call.name != "plan" {
            self.write_due_snapshot()?;
        }
        if tool.adds_material() && self.answer_bytes > CONVERSATION_BYTES {
            let message = "the conversation is full: nothing more can be read; call verify with the edits so far";
            return Ok(Answer::refusal("budget", message).into());
        }
        let output = tool.call(&call.arguments, self).await?;
        let answer = match output {
            ToolOutput::Answer(answer) if tool.may_edit() => answer,
            output => return Ok(output),
        };
        if self.editor.cancel.is_cancelled() {
            return Err(TaskResult::cancelled().into());
        }
        let answer = match answer.text.len() > RESULT_BYTES {
            true => Answer::refusal("too_large", "the tool's answer is too large; ask for less"),
            false => self.with_difference(answer),
        };
        self.phase = self.phase_of_tree();
        Ok(answer.into())
    }

    fn milestone(&self, milestone: Milestone) {
        self.editor.events.emit(milestone.into());
    }

    /// Returns whether anything changed since the last verification.
    fn edited(&self) -> bool {
        self.fingerprint() != self.verified_tree
    }

    /// The parts of the task that show whether a turn achieved anything.
    fn progress(&self) -> Progress {
        let changed = self.editor.writer.changed();
        Progress { phase: self.phase, verifications: self.verified.len(), changed }
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

fn model_failed(error: &ModelError) -> TaskResult {
    match error.kind {
        ModelErrorKind::Budget => finish::budget_spent(),
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

/// The phase of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Only `plan` may be called.
    Planning,
    Working,
    /// The tree is the one that was green.
    Closing,
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
    NotVerified,
    DryRun,
}

impl PhaseRefusal {
    /// The stable word of the refusal.
    fn reason(self) -> &'static str {
        match self {
            Self::PlanFirst => "plan_first",
            Self::NotVerified => "not_verified",
            Self::DryRun => "dry_run",
        }
    }

    /// The message that leads the model on.
    fn hint(self) -> &'static str {
        match self {
            Self::PlanFirst => "call plan before any other tool",
            Self::NotVerified => {
                "only a green run of the current tree finishes a task; call verify"
            }
            Self::DryRun => {
                "this is a dry run: nothing is verified; call done when the proposal is complete"
            }
        }
    }
}

/// Decides whether a tool may be called in this phase; `None` when it may.
fn phase_refusal(aim: Aim, phase: Phase, tool: &str) -> Option<PhaseRefusal> {
    match (phase, tool) {
        (Phase::Planning, "plan") => None,
        (Phase::Planning, _) => Some(PhaseRefusal::PlanFirst),
        (_, "verify") if aim == Aim::Proposal => Some(PhaseRefusal::DryRun),
        (Phase::Working, "done") if aim == Aim::Proposal => None,
        (Phase::Working, "done") => Some(PhaseRefusal::NotVerified),
        _ => None,
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
             or call `verify`. Words alone do not finish the task."
        }
        (Phase::Closing, _) => "The tree is green. Call `done`, or edit on and verify again.",
    }
}

#[cfg(test)]
mod decisions {
    use super::*;

    #[test]
    fn before_the_plan_every_other_tool_is_refused() {
        for tool in ["verify", "done", "read", "edit_line", "ask_scout"] {
            assert_eq!(
                phase_refusal(Aim::Green, Phase::Planning, tool),
                Some(PhaseRefusal::PlanFirst)
            );
        }
        assert_eq!(phase_refusal(Aim::Green, Phase::Planning, "plan"), None);
    }

    #[test]
    fn done_needs_a_green_run() {
        assert_eq!(
            phase_refusal(Aim::Green, Phase::Working, "done"),
            Some(PhaseRefusal::NotVerified)
        );
        assert_eq!(phase_refusal(Aim::Green, Phase::Closing, "done"), None);
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
        assert_eq!(phase_refusal(dry, Phase::Working, "verify"), Some(PhaseRefusal::DryRun));
        assert_eq!(phase_refusal(dry, Phase::Working, "done"), None);
        assert_eq!(phase_refusal(dry, Phase::Planning, "done"), Some(PhaseRefusal::PlanFirst));
        assert_eq!(after_silence(dry, Phase::Working, true, false, 1), HostAction::Propose);
        assert_eq!(after_silence(dry, Phase::Working, false, false, 1), HostAction::Propose);
        assert_eq!(after_silence(dry, Phase::Working, true, true, 1), HostAction::Remind);
        assert_eq!(after_silence(dry, Phase::Planning, false, false, 3), HostAction::Idle);
        assert_eq!(after_turn(dry, Phase::Working, 40, 0), HostAction::Propose);
    }
}
