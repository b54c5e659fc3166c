//! The Editor: it owns the plan and every decision of a task, and its tools are the only writers of the repository.
//!
//! This file holds the loop: [`Editor::work`] runs conversations until the task ends, a conversation is turns, and a turn is
//! calls of tools. The decisions of the loop are pure functions at its end. Beside it:
//!
//! - `tools`: the tools that the model may call, the host's and those of components alike
//! - `plan`: plans, strategies and the snapshots that follow from them
//! - `scouts`: questions to the Scouts, and conflicts between their reports
//! - `review`: the differences that the model sees of its own edits
//! - `verify`: verifications, the debug loop and the baseline
//! - `finish`: summary, stuck report, hypotheses
//! - `resume`: a dry run's draft, and the task that applies it
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
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use finish::end_before_work;
pub use request::{Boundary, MAX_TEXT_BYTES, RequestError, TaskRequest};
pub use resume::Draft;
pub use tools::{Answer, Tool, ToolOutput};

use self::plan::{Changes, History, Plans, Strategies};
use self::review::Review;
use self::scouts::Decisions;
use self::tools::{Done, Tools};
use self::verify::{Baseline, DebugLoop};
use crate::context::{NotesWriter, ScoutPayload, SnapshotKind, VerifiedRun};
use crate::scout::{Scout, query::ReportCheck};
use act_audit::Audit;
use act_config::Step;
use act_core::event::{Events, Milestone};
use act_core::verification::{Verification, Verifier};
use act_core::{Outcome, StuckReason, reason};
use act_model::{
    Ask, Conversation, Model, ModelError, ModelErrorKind, Stop, TokenLedger, TokioTimer, ToolCall,
    ToolResult, Turn, with_attempts,
};
use act_workspace::{NotesDir, RepoWriter};

/// The user's words, and where they hold.
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
    /// Its verifications, whose logs can still be read.
    pub run_ids: Vec<String>,
}

type TreeDigest = dyn Fn() -> std::io::Result<String> + Send + Sync;
type Moved = dyn Fn() -> Option<String> + Send + Sync;
type HasTests = dyn Fn() -> bool + Send + Sync;
type ReadScript = dyn Fn(&str) -> Option<(String, String)> + Send + Sync;
type ReadLog = dyn Fn(&str, Option<&str>) -> std::io::Result<String> + Send + Sync;

/// Everything that one task works with. Each part can be replaced by a fake.
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
    /// Returns the digest of the tree, by the rule of the manifest's.
    pub tree_digest: Arc<TreeDigest>,
    /// Returns why the repository's path no longer means the directory that is edited, or `None` while it does.
    pub moved: Arc<Moved>,
    /// Returns whether the repository, or the package in work, has any tests.
    pub has_tests: Arc<HasTests>,
    /// Returns the log of a run of this task, or of one step of it.
    pub read_log: Box<ReadLog>,
    /// Steps of the pipeline; a changed file that one of their commands names or reaches is reported to the user.
    pub steps: Vec<Step>,
    /// Returns the real path and the text of a file that a step's command names.
    pub read_script: Box<ReadScript>,
    /// The task takes no action that cannot be recorded here.
    pub audit: Audit,
    /// `None` in a dry run, which leaves nothing in the repository.
    pub notes: Option<NotesWriter<NotesDir>>,
    pub aim: Aim,
    /// A dry run's draft whose files have just been put into the repository (`begin_with`).
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

/// How a task ended, with what the user is shown of it.
#[derive(Debug, Clone)]
pub struct TaskResult {
    pub outcome: Outcome,
    /// The id of the green run of a success, else of the last run.
    pub run_id: Option<String>,
    /// What was done and why, or why the task ended without it.
    pub summary: Option<String>,
    pub report_path: Option<String>,
    /// Changed files that the verification depends on, as `path (why)`.
    pub gate_inputs_changed: Vec<String>,
    /// How many edits each rule refused, by its word.
    pub edits_refused: BTreeMap<String, u64>,
    /// The proposal of a dry run.
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
    fn stuck(reason: StuckReason, why: Option<String>) -> Self {
        Self { summary: why, ..Self::of(Outcome::Stuck { reason }) }
    }
}

/// A value, or the end of the task; `?` carries the end up to [`Editor::work`].
pub type OrEnd<T> = Result<T, Box<TaskResult>>;

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
pub enum Next {
    /// Another conversation, with this first message.
    Conversation(String),
    /// The task is done, with the model's account if it gave one.
    Done(Option<Done>),
}

/// Calls of one turn that are performed; the rest is refused.
const CALLS_PER_TURN: usize = 64;
/// Bytes of one answer of a component's tool; built-in tools stay far below it.
const RESULT_BYTES: usize = 256 * 1024;
/// Bytes of all answers in one conversation; about a million tokens.
const CONVERSATION_BYTES: usize = 4 * 1024 * 1024;

const SILENT: &str = "You called no tool, so the host ran `verify`";
const OVERDUE: &str = "Many turns have passed without a verification, so the host ran `verify`";
const NOT_CLOSED: &str =
    "You did not call `done`, and the tree is not the one that was green, so the host ran `verify`";

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
    /// Every verification, green ones too, as snapshots show them.
    verified: Vec<VerifiedRun>,
    /// Which Scouts were asked for each plan, for the snapshots.
    asked: Vec<String>,
    /// The number and the attempt of a REPLAN that a new plan still has to answer.
    replanning: Option<(u32, u32)>,
    /// Fingerprint of the tree that the last verification judged.
    verified_tree: String,
    verified_in_strategy: bool,
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
    restarted_at: Option<usize>,
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
            restarted_at: None,
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
    async fn drive(&mut self) -> OrEnd<Option<Done>> {
        let mut next = self.begin().await?;
        loop {
            next = match next {
                Next::Done(done) => return Ok(done),
                Next::Conversation(opening) => match self.converse(&opening).await {
                    Err(end) if end.outcome == CONTEXT_FULL => self.restart_conversation(*end)?,
                    next => next?,
                },
            };
        }
    }

    /// Prepares the first conversation. A proposal that is green needs none.
    async fn begin(&mut self) -> OrEnd<Next> {
        if self.editor.baseline {
            self.run_baseline().await?;
        }
        if let Some(draft) = &self.editor.draft {
            return self.resume(draft).await;
        }
        self.milestone(Milestone::Analyzing);
        let context = prompt::OpeningContext {
            report: self.editor.input.stuck_report.as_ref(),
            baseline: self.baseline.as_ref().map(Baseline::for_model),
            dry_run: self.editor.aim == Aim::Proposal,
        };
        Ok(Next::Conversation(prompt::opening(self.task(), context)))
    }

    /// Holds one conversation, until a REPLAN or the end of the task.
    async fn converse(&mut self, opening: &str) -> OrEnd<Next> {
        let tools = Tools::of(self.editor);
        let mut conversation = self.editor.model.open("editor", prompt::EDITOR, &tools.specs());
        conversation.say(opening);
        self.answer_bytes = opening.len();
        // Turns without a tool call in a row, turns since the last verification, turns since the tree became green.
        let (mut silent, mut turns, mut closing) = (0, 0, 0);
        loop {
            let turn = self.turn(conversation.as_mut()).await?;
            let (was_closing, verified) = (self.phase == Phase::Closing, self.verified.len());
            let changed = self.editor.writer.changed();
            turns += 1;
            let mut action = if turn.calls.is_empty() {
                silent += 1;
                self.write_due_snapshot()?;
                let cut = matches!(turn.stop, Stop::Length | Stop::Refused);
                after_silence(self.editor.aim, self.phase, self.edited(), cut, silent)
            } else {
                silent = 0;
                let mut results = Vec::with_capacity(turn.calls.len());
                for (at, call) in turn.calls.iter().enumerate() {
                    let output = match at < CALLS_PER_TURN {
                        true => self.perform(call, &tools).await?,
                        false => Answer::refusal("budget", "too many calls in one turn").into(),
                    };
                    let answer = match output {
                        ToolOutput::End(next) => return Ok(next),
                        ToolOutput::Answer(answer) => answer,
                    };
                    self.answer_bytes += answer.json.len();
                    let (id, is_error) = (call.id.clone(), answer.is_error);
                    results.push(ToolResult { id, content: answer.json, is_error });
                }
                conversation.answer(results).map_err(|error| model_failed(&error))?;
                HostAction::Nothing
            };
            if action == HostAction::Remind {
                conversation.say(reminder(self.phase, turn.stop));
                action = HostAction::Nothing;
            }
            let mut why = if action == HostAction::Verify { SILENT } else { NOT_CLOSED };
            let at_rest = was_closing
                && self.phase == Phase::Closing
                && self.verified.len() == verified
                && self.editor.writer.changed() == changed;
            closing = if at_rest { closing + 1 } else { 0 };
            if action == HostAction::Nothing {
                action = after_turn(self.editor.aim, self.phase, turns, closing);
                why = if action == HostAction::Verify { OVERDUE } else { NOT_CLOSED };
            }
            let output = match action {
                HostAction::Nothing | HostAction::Remind => None,
                HostAction::Idle => return Err(finish::idle(&turn).into()),
                HostAction::Propose => return Ok(Next::Done(None)),
                HostAction::Verify => Some(self.verify().await?),
                HostAction::Close => Some(self.close().await?),
            };
            match output {
                None => {}
                Some(ToolOutput::End(next)) => return Ok(next),
                Some(ToolOutput::Answer(answer)) => {
                    // A verification that the host refuses again and again would otherwise never end.
                    let refused = self.verified.len() == verified;
                    if refused && (silent >= SILENT_TURNS || turns >= 2 * TURNS_PER_ATTEMPT) {
                        return Err(finish::idle(&turn).into());
                    }
                    let text = format!("{why}. It answered:\n{}", answer.json);
                    self.answer_bytes += text.len();
                    conversation.say(&text);
                }
            }
            if self.verified.len() != verified {
                (silent, turns, closing) = (0, 0, 0);
            }
        }
    }

    /// Requests one turn of the model, and again while the trouble may pass.
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

    /// Performs one call, or refuses it.
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
        let answer = match answer.json.len() > RESULT_BYTES {
            true => Answer::refusal("too_large", "the tool's answer is too large; ask for less"),
            false => self.with_difference(answer),
        };
        self.phase = self.phase_of_tree();
        Ok(answer.into())
    }

    fn task(&self) -> prompt::TaskSpec<'a> {
        let input = &self.editor.input;
        prompt::TaskSpec {
            text: input.request.text(),
            constraints: input.request.constraints(),
            non_goals: input.request.non_goals(),
            boundaries: input.request.boundaries(),
            package: input.package.as_deref(),
        }
    }

    fn milestone(&self, milestone: Milestone) {
        self.editor.events.emit(milestone.into());
    }

    /// Returns whether anything changed since the last verification.
    fn edited(&self) -> bool {
        self.fingerprint() != self.verified_tree
    }

    fn changes(&self) -> Changes {
        let files = self.editor.writer.changed().into_iter();
        files.map(|file| (file.path, file.sha256_now)).collect()
    }

    /// The changes as one text; two equal texts mean equal trees.
    fn fingerprint(&self) -> String {
        let mut text = String::new();
        for (path, sha256) in self.changes() {
            text.push_str(&format!("{} {path}\n", sha256.as_deref().unwrap_or("-")));
        }
        text
    }

    /// The changed files as people read them: `path (replace)`.
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
/// short enough that a model that lost its way meets a fact again.
const TURNS_PER_ATTEMPT: u32 = 40;
/// Turns in a row without a tool call after which a model counts as idle.
const SILENT_TURNS: u32 = 3;
/// Turns after a green run that a model may take before the host writes the summary.
const CLOSING_TURNS: u32 = 3;

/// Where a conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Only `plan` may be called.
    Planning,
    Working,
    /// The tree is the one that was green.
    Closing,
}

/// An action that the host takes by itself after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostAction {
    Nothing,
    Remind,
    Verify,
    /// Ends the task with a summary of the host's, if the tree is still the green one.
    Close,
    /// Ends a dry run.
    Propose,
    /// Ends the task as STUCK, `model_idle`.
    Idle,
}

/// Why a tool may not be called in this phase, as the reason of the refusal; `None` when it may.
fn phase_refusal(aim: Aim, phase: Phase, tool: &str) -> Option<&'static str> {
    match (phase, tool) {
        (Phase::Planning, "plan") => None,
        (Phase::Planning, _) => Some("plan_first"),
        (_, "verify") if aim == Aim::Proposal => Some("dry_run"),
        (Phase::Working, "done") if aim == Aim::Proposal => None,
        (Phase::Working, "done") => Some("not_verified"),
        _ => None,
    }
}

/// Decides what follows a turn without a tool call. `edited`: something changed since the last verification. `in_row`: turns
/// without a call, this one included. `cut`: the turn ended for its length or was refused by the provider, so that
/// the missing call says nothing.
fn after_silence(aim: Aim, phase: Phase, edited: bool, cut: bool, in_row: u32) -> HostAction {
    match phase {
        Phase::Working if aim == Aim::Proposal && !cut => HostAction::Propose,
        Phase::Working if edited && !cut => HostAction::Verify,
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
        Phase::Working if turns >= TURNS_PER_ATTEMPT => HostAction::Verify,
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
            assert_eq!(phase_refusal(Aim::Green, Phase::Planning, tool), Some("plan_first"));
        }
        assert_eq!(phase_refusal(Aim::Green, Phase::Planning, "plan"), None);
    }

    #[test]
    fn done_needs_a_green_run() {
        assert_eq!(phase_refusal(Aim::Green, Phase::Working, "done"), Some("not_verified"));
        assert_eq!(phase_refusal(Aim::Green, Phase::Closing, "done"), None);
    }

    #[test]
    fn silence_after_edits_verifies_and_otherwise_ends_at_the_third() {
        assert_eq!(after_silence(Aim::Green, Phase::Working, true, false, 1), HostAction::Verify);
        assert_eq!(after_silence(Aim::Green, Phase::Working, false, false, 1), HostAction::Remind);
        assert_eq!(after_silence(Aim::Green, Phase::Working, false, false, 2), HostAction::Remind);
        assert_eq!(after_silence(Aim::Green, Phase::Working, false, false, 3), HostAction::Idle);
        assert_eq!(after_silence(Aim::Green, Phase::Planning, false, false, 3), HostAction::Idle);
        assert_eq!(after_silence(Aim::Green, Phase::Closing, false, false, 3), HostAction::Close);
    }

    #[test]
    fn the_fortieth_turn_of_an_attempt_verifies() {
        assert_eq!(after_turn(Aim::Green, Phase::Working, 39, 0), HostAction::Nothing);
        assert_eq!(after_turn(Aim::Green, Phase::Working, 40, 0), HostAction::Verify);
        assert_eq!(after_turn(Aim::Green, Phase::Planning, 40, 0), HostAction::Idle);
        assert_eq!(after_turn(Aim::Green, Phase::Closing, 1, 3), HostAction::Close);
    }

    #[test]
    fn a_cut_turn_is_no_claim_to_be_finished() {
        assert_eq!(after_silence(Aim::Green, Phase::Working, true, true, 1), HostAction::Remind);
    }

    /// EDITOR-50
    #[test]
    fn a_dry_run_verifies_nothing_and_ends_with_done_or_silence() {
        let dry = Aim::Proposal;
        assert_eq!(phase_refusal(dry, Phase::Working, "verify"), Some("dry_run"));
        assert_eq!(phase_refusal(dry, Phase::Working, "done"), None);
        assert_eq!(phase_refusal(dry, Phase::Planning, "done"), Some("plan_first"));
        assert_eq!(after_silence(dry, Phase::Working, true, false, 1), HostAction::Propose);
        assert_eq!(after_silence(dry, Phase::Working, false, false, 1), HostAction::Propose);
        assert_eq!(after_silence(dry, Phase::Working, true, true, 1), HostAction::Remind);
        assert_eq!(after_silence(dry, Phase::Planning, false, false, 3), HostAction::Idle);
        assert_eq!(after_turn(dry, Phase::Working, 40, 0), HostAction::Propose);
    }
}
