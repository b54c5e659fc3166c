//! One task from its first conversation to its end: asks, edits, verifies and does what the pure modules
//! beside it decide. Only sequence and IO.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::attempt::Attempt;
use super::baseline::Baseline;
use super::debug_loop::{DebugLoop, HARD_STOP_AFTER, NextStep};
use super::decisions::Conflict;
use super::draft::TakenUp;
use super::ending::Ending;
use super::hands::Answer;
use super::phase::{self, Overdue, Phase, Silence};
use super::prompt::{self, Assignment, FailedStrategy};
use super::reread::Reread;
use super::strategy::{SAME_STRATEGY_REFUSALS, Tried};
use super::tools::{self, Call, Done, Goals, Plan};
use super::{Aim, Editor, Finished, scope, verification};
use crate::context::{Moment, ScoutPayload, Strategy, VerifiedRun};
use crate::event::{EventKind, Milestone};
use crate::model::{
    Ask, Conversation, ModelError, ModelErrorKind, Stop, TimerPause, ToolCall, ToolResult,
    ToolSpec, Turn, with_attempts,
};
use crate::verifier::{ErrorType, Status, VerifyResponse};

/// Calls of one turn that are performed; the rest is refused.
const CALLS_PER_TURN: usize = 64;
/// Of one tool answer; built-in tools stay far below it.
const RESULT_BYTES: usize = 256 * 1024;
/// Of all tool answers in one conversation; about a million tokens.
const CONVERSATION_BYTES: usize = 4 * 1024 * 1024;
/// Green runs in one task before the host closes it by itself.
const GREEN_RUNS: u32 = 12;

/// Why a task ends without success; carried up by `?`.
pub(super) enum End {
    Cancelled,
    Stuck(Ending),
}

/// How one conversation was left.
pub(super) enum Left {
    /// REPLAN of this number, after this attempt.
    Replan { number: u32, attempt: u32 },
    /// Green and closed, with the model's own account if it gave one.
    Finished(Option<Done>),
}

/// What one tool call leads to.
pub(super) enum Step {
    Answer(Answer),
    Leave(Left),
}

impl From<Answer> for Step {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

pub(super) fn answered(value: &Value) -> Answer {
    Answer { json: value.to_string(), is_error: false }
}

pub(super) struct Session<'a> {
    pub(super) editor: &'a Editor,
    pub(super) debug_loop: DebugLoop,
    pub(super) phase: Phase,
    /// The plan in force, and what all plans of the task wanted.
    pub(super) plan: Option<Plan>,
    pub(super) goals: Goals,
    /// Raw reports, newest per Scout, in the order of the Scouts.
    pub(super) reports: Vec<ScoutPayload>,
    pub(super) tried: Tried,
    pub(super) failed: Vec<FailedStrategy>,
    /// Failures under the strategy in hand.
    pub(super) failures: Vec<Attempt>,
    pub(super) attempts: Vec<Attempt>,
    /// What the pipeline said before the first edit, if it was asked.
    pub(super) baseline: Option<Baseline>,
    /// Every verification, green ones too, as snapshots show them.
    pub(super) verified: Vec<VerifiedRun>,
    pub(super) strategies: Vec<Strategy>,
    /// The task's changes when the strategy in hand began: path and digest.
    pub(super) strategy_began: BTreeMap<String, Option<String>>,
    pub(super) decisions: Vec<String>,
    pub(super) same_strategy: u32,
    pub(super) same_tree: u32,
    /// REPLAN that a new plan still has to answer.
    pub(super) replanning: Option<(u32, u32)>,
    /// Fingerprint of the tree that the last verification judged.
    pub(super) verified_tree: String,
    pub(super) verified_in_strategy: bool,
    pub(super) last: Option<VerifyResponse>,
    pub(super) last_attempt: u32,
    pub(super) verifications: u32,
    pub(super) greens: u32,
    /// Whether there were tests when the task began; none before the first plan.
    pub(super) has_tests: Option<bool>,
    /// Contradictions between the Scouts: all, those not yet settled, and how the others were.
    pub(super) conflicts: Vec<Conflict>,
    pub(super) open_conflicts: Vec<Conflict>,
    pub(super) settled: Vec<String>,
    /// To be written as soon as the Editor has spoken.
    pub(super) snapshot_due: Option<Moment>,
    /// What the model has seen of its changes.
    pub(super) reread: Reread,
    /// The criteria were said again since the last verification.
    pub(super) reminded: bool,
    /// Bytes of the host's answers in this conversation.
    told_bytes: usize,
    /// Questions to Scouts since the last verification.
    pub(super) asked: u32,
    /// How many verifications there had been when a conversation was last given up for its length.
    pub(super) started_over: Option<u32>,
}

pub(super) async fn run(editor: &Editor) -> Finished {
    let mut session = Session::new(editor);
    let finished = match session.drive().await {
        Ok(done) if editor.aim == Aim::Proposal => session.propose(done),
        Ok(done) => session.succeed(done),
        Err(end) => session.end(end).await,
    };
    Finished { edits_refused: editor.hands.refused(), ..finished }
}

impl<'a> Session<'a> {
    fn new(editor: &'a Editor) -> Self {
        Self {
            editor,
            debug_loop: DebugLoop::default(),
            phase: Phase::Planning,
            plan: None,
            goals: Goals::default(),
            reports: vec![],
            tried: Tried::default(),
            failed: vec![],
            failures: vec![],
            attempts: vec![],
            baseline: None,
            verified: vec![],
            strategies: vec![],
            strategy_began: BTreeMap::new(),
            decisions: vec![],
            same_strategy: 0,
            same_tree: 0,
            replanning: None,
            verified_tree: String::new(),
            verified_in_strategy: false,
            last: None,
            last_attempt: 0,
            verifications: 0,
            greens: 0,
            has_tests: None,
            conflicts: vec![],
            open_conflicts: vec![],
            settled: vec![],
            snapshot_due: None,
            reread: Reread::default(),
            reminded: false,
            told_bytes: 0,
            asked: 0,
            started_over: None,
        }
    }

    pub(super) fn assignment(&self) -> Assignment<'a> {
        let brief = &self.editor.brief;
        Assignment {
            text: brief.request.text(),
            constraints: brief.request.constraints(),
            non_goals: brief.request.non_goals(),
            boundaries: brief.request.boundaries(),
            package: brief.package.as_deref(),
        }
    }

    pub(super) fn milestone(&self, milestone: Milestone) {
        self.editor.events.emit(milestone.into());
    }

    fn edited(&self) -> bool {
        self.fingerprint() != self.verified_tree
    }

    async fn drive(&mut self) -> Result<Option<Done>, End> {
        let mut opening = match self.begin().await? {
            TakenUp::Finished(done) => return Ok(done),
            TakenUp::Opening(opening) => opening,
        };
        loop {
            match self.converse(&opening).await {
                Ok(Left::Finished(done)) => return Ok(done),
                Ok(Left::Replan { number, attempt }) => {
                    self.milestone(Milestone::Replanning);
                    opening = self.start_replan(number, attempt);
                }
                Err(End::Stuck(Ending::ContextFull { said })) => opening = self.start_over(said)?,
                Err(end) => return Err(end),
            }
        }
    }

    /// To the first conversation, which a proposal that is green does not need.
    async fn begin(&mut self) -> Result<TakenUp, End> {
        if self.editor.baseline {
            self.look_before_the_first_edit().await?;
        }
        if let Some(draft) = &self.editor.draft {
            return self.take_up(draft).await;
        }
        self.milestone(Milestone::Analyzing);
        let known = prompt::Beginning {
            report: self.editor.brief.stuck_report.as_ref(),
            baseline: self.baseline.as_ref().map(Baseline::told),
            dry_run: self.editor.aim == Aim::Proposal,
        };
        Ok(TakenUp::Opening(prompt::opening(self.assignment(), known)))
    }

    /// One conversation, until it is left for a REPLAN or the task is done.
    async fn converse(&mut self, opening: &str) -> Result<Left, End> {
        let added = self.editor.scouts.iter();
        let added: Vec<_> = added.filter_map(|one| Some((one.name(), one.about()?))).collect();
        let mut offered = tools::host_tools(&added);
        offered.extend(self.editor.hands.tools());
        let mut conversation = self.editor.model.open("editor", prompt::EDITOR, &offered);
        conversation.say(opening);
        self.told_bytes = opening.len();
        // Turns without a tool call in a row, turns since the last verification, turns since green.
        let (mut silent, mut turns, mut closing) = (0, 0, 0);
        loop {
            let turn = self.turn(conversation.as_mut()).await?;
            self.settle(&turn)?;
            let (was_closing, verified) = (self.phase == Phase::Closing, self.verifications);
            let changed = self.editor.hands.changed();
            turns += 1;
            // What the host does by itself after this turn; its outcome is said to the model.
            let mut unasked = None;
            if turn.calls.is_empty() {
                silent += 1;
                let cut = matches!(turn.stop, Stop::Length | Stop::Refused);
                match phase::after_silence(self.editor.aim, self.phase, self.edited(), cut, silent)
                {
                    Silence::Nudge => conversation.say(phase::nudge(self.phase, turn.stop)),
                    Silence::Idle => return Err(End::Stuck(Ending::idle(&turn))),
                    Silence::HostSummary => unasked = Some(self.close().await?),
                    Silence::Verify => unasked = Some(self.verify().await?),
                    Silence::Propose => return Ok(Left::Finished(None)),
                }
            } else {
                silent = 0;
                let mut results = Vec::with_capacity(turn.calls.len());
                for (at, call) in turn.calls.iter().enumerate() {
                    let step = if at < CALLS_PER_TURN {
                        self.perform(call, &offered).await?
                    } else {
                        Answer::refusal("budget", "too many calls in one turn").into()
                    };
                    match step {
                        Step::Leave(left) => return Ok(left),
                        Step::Answer(answer) => {
                            self.told_bytes += answer.json.len();
                            results.push(ToolResult {
                                id: call.id.clone(),
                                content: answer.json,
                                is_error: answer.is_error,
                            });
                        }
                    }
                }
                conversation.answer(results).map_err(|error| model_failed(&error))?;
            }
            let idle_closing = was_closing
                && self.phase == Phase::Closing
                && self.verifications == verified
                && self.editor.hands.changed() == changed;
            closing = if idle_closing { closing + 1 } else { 0 };
            if unasked.is_none() {
                unasked = match phase::after_turns(self.editor.aim, self.phase, turns, closing) {
                    Overdue::No => None,
                    Overdue::Idle => return Err(End::Stuck(Ending::idle(&turn))),
                    Overdue::Verify => Some(self.verify().await?),
                    Overdue::HostSummary => Some(self.close().await?),
                    Overdue::Propose => return Ok(Left::Finished(None)),
                };
            }
            match unasked {
                None => {}
                Some(Step::Leave(left)) => return Ok(left),
                Some(Step::Answer(answer)) => {
                    silent = 0;
                    self.told_bytes += answer.json.len();
                    conversation.say(&answer.json);
                }
            }
            if self.verifications != verified {
                turns = 0;
            }
        }
    }

    /// One turn of the model, asked for again while trouble may pass.
    pub(super) async fn turn(&self, conversation: &mut dyn Conversation) -> Result<Turn, End> {
        let cancel = &self.editor.cancel;
        let turn = with_attempts(&TimerPause, cancel, conversation, |talk, attempt, cancel| {
            talk.next(Ask { attempt, ..Ask::default() }, cancel)
        });
        turn.await.map_err(|error| {
            if cancel.is_cancelled() { End::Cancelled } else { model_failed(&error) }
        })
    }

    async fn perform(&mut self, call: &ToolCall, offered: &[ToolSpec]) -> Result<Step, End> {
        self.recordable()?;
        if !offered.iter().any(|tool| tool.name == call.name) {
            return Ok(
                Answer::refusal("unknown_tool", &format!("there is no tool {}", call.name)).into()
            );
        }
        if let Some(reason) = phase::refusal(self.editor.aim, self.phase, &call.name) {
            return Ok(Answer::refusal(reason, refusal_hint(reason)).into());
        }
        let call_read = tools::read_call(call);
        let grows = matches!(call_read, Call::AskScout(_) | Call::ReadLog(_) | Call::Component);
        if grows && self.told_bytes > CONVERSATION_BYTES {
            let message = "this conversation holds as much as it may; verify with what there is";
            return Ok(Answer::refusal("budget", message).into());
        }
        Ok(match call_read {
            Call::BadArguments(why) => Answer::refusal("bad_arguments", &why).into(),
            Call::Plan(plan) => self.adopt(plan).await?.into(),
            Call::AskScout(ask) => self.ask_scout(ask).await?.into(),
            Call::Verify => match self.hidden().or_else(|| self.owed()) {
                Some(answer) => answer.into(),
                None => return self.verify().await,
            },
            Call::ReadLog(wanted) => self.read_log(&wanted).into(),
            Call::Done(done) => match self.names_what_is_not(&done) {
                Some(refusal) => refusal.into(),
                None => return self.done(done).await,
            },
            Call::Component => {
                let answer = self.use_hands(call).await?;
                self.phase = self.phase_of_tree();
                answer.into()
            }
        })
    }

    /// A tool of the component.
    async fn use_hands(&mut self, call: &ToolCall) -> Result<Answer, End> {
        let (hands, cancel) = (&self.editor.hands, &self.editor.cancel);
        let package = self.editor.brief.package.as_deref();
        let arguments = scope::scoped(package, &call.name, &call.arguments);
        let answer = hands.call(&call.name, &arguments, cancel).await;
        if cancel.is_cancelled() {
            return Err(End::Cancelled);
        }
        if answer.json.len() > RESULT_BYTES {
            return Ok(Answer::refusal(
                "too_large",
                "the tool's answer is too large; ask for less",
            ));
        }
        Ok(self.with_change(answer))
    }

    /// Green as long as nothing differs from what the green run judged; an edit that is undone counts.
    fn phase_of_tree(&self) -> Phase {
        let green = self.last.as_ref().is_some_and(|last| last.status == Status::Pass);
        if green && !self.edited() { Phase::Closing } else { Phase::Working }
    }

    /// Runs that the model may speak of: this task's and those of the report that it began with.
    pub(super) fn known_runs(&self) -> Vec<&str> {
        let earlier = self.editor.brief.stuck_report.iter().flat_map(|report| &report.run_ids);
        let own = self.verified.iter().filter_map(|run| run.run_id.as_ref());
        let own = own.chain(self.baseline.iter().filter_map(Baseline::run_id));
        own.chain(earlier).map(String::as_str).collect()
    }

    fn read_log(&self, wanted: &tools::ReadLog) -> Answer {
        if !self.known_runs().contains(&wanted.run_id.as_str()) {
            return Answer::refusal("not_found", "no run of this task has that run_id");
        }
        match (self.editor.read_log)(&wanted.run_id, wanted.step.as_deref()) {
            Ok(log) => answered(&json!({"ok": true, "run_id": wanted.run_id, "log": log})),
            Err(error) => Answer::refusal("not_found", &error.to_string()),
        }
    }

    /// Whether the last run was green and judged exactly the tree as it stands.
    pub(super) async fn tree_is_green(&self) -> Result<bool, End> {
        let verified =
            self.last.as_ref().filter(|last| last.status == Status::Pass).and_then(tree_digest);
        let read = Arc::clone(&self.editor.tree_digest);
        let current = tokio::task::spawn_blocking(move || read()).await;
        // What was read by its path proves something about what is edited only while they are the same.
        if let Some(moved) = (self.editor.moved)() {
            return Err(End::Stuck(Ending::moved(moved)));
        }
        match current.unwrap_or_else(|stopped| Err(std::io::Error::other(stopped))) {
            Ok(current) => Ok(verified.is_some_and(|verified| verified == current)),
            Err(error) => {
                let diagnosis = format!("the repository cannot be read: {error}");
                Err(End::Stuck(Ending::infra("unknown", diagnosis)))
            }
        }
    }

    async fn done(&mut self, done: Done) -> Result<Step, End> {
        if self.editor.aim == Aim::Proposal {
            return Ok(Step::Leave(Left::Finished(Some(done))));
        }
        if !self.tree_is_green().await? {
            self.phase = Phase::Working;
            let message = "the tree has changed since the green run; call verify again";
            return Ok(Answer::refusal("not_verified", message).into());
        }
        Ok(Step::Leave(Left::Finished(Some(done))))
    }

    async fn close_or(&self, told: Answer) -> Result<Step, End> {
        let green = self.tree_is_green().await?;
        Ok(if green { Step::Leave(Left::Finished(None)) } else { told.into() })
    }

    /// A green model that never says `done`: closed by the host, unless the tree changed meanwhile.
    async fn close(&mut self) -> Result<Step, End> {
        if self.tree_is_green().await? {
            return Ok(Step::Leave(Left::Finished(None)));
        }
        self.verify().await
    }

    pub(super) async fn verify(&mut self) -> Result<Step, End> {
        let fingerprint = self.fingerprint();
        if !self.verified_in_strategy
            && self.debug_loop.replans() > 0
            && self.tried.knows_tree(&fingerprint)
        {
            if self.same_tree < SAME_STRATEGY_REFUSALS {
                self.same_tree += 1;
                let message = "this tree was verified before and failed; change something first";
                return Ok(Answer::refusal("same_strategy", message).into());
            }
            if let Some(last) = self.strategies.last_mut() {
                last.text.push_str(" (verified an unchanged tree)");
            }
        }
        self.verified_in_strategy = true;
        (self.reminded, self.asked) = (false, 0);
        self.verified_tree.clone_from(&fingerprint);

        let number = self.debug_loop.next_attempt();
        self.last_attempt = number;
        self.verifications += 1;
        self.milestone(Milestone::Attempt { number, of: HARD_STOP_AFTER });
        self.milestone(Milestone::Verifying);
        let response = self.editor.verifier.run(number, &self.editor.cancel).await;
        let Some(response) = response.filter(|_| !self.editor.cancel.is_cancelled()) else {
            return Err(End::Cancelled);
        };
        self.record_gate_inputs(response.run_id.as_deref());
        let next = self.debug_loop.judge(verification::verdict(&response));
        let failure = Attempt::of(number, self.strategies.len() as u32, &response);
        let as_before = self.baseline.as_ref().and_then(|baseline| baseline.comparison(&failure));
        let told = answered(&verification::told(&response, &failure, as_before));
        self.verified.push(failure.shown(&response));
        if response.status == Status::Fail {
            self.milestone(Milestone::VerificationFailed);
            self.editor.events.emit(EventKind::Diagnosis { text: prompt::attempt_line(&failure) });
            self.failures.push(failure.clone());
            self.attempts.push(failure);
            self.tried.add_tree(&fingerprint);
        }
        let diagnosis = response.error_message.clone().unwrap_or_default();
        let error_type = response.error_type;
        self.last = Some(response);
        match next {
            NextStep::Fix => {
                self.phase = Phase::Working;
                Ok(Step::Answer(Answer { is_error: true, ..told }))
            }
            NextStep::Finish => {
                self.phase = Phase::Closing;
                self.greens += 1;
                // A model that goes on editing a green tree for ever is closed while it is green.
                if self.greens >= GREEN_RUNS { self.close_or(told).await } else { Ok(told.into()) }
            }
            NextStep::Replan { number: replan } => {
                Ok(Step::Leave(Left::Replan { number: replan, attempt: number }))
            }
            NextStep::HardStop => Err(End::Stuck(Ending::HardStop)),
            NextStep::InfraStop => {
                if let Some(moved) = (self.editor.moved)() {
                    return Err(End::Stuck(Ending::moved(moved)));
                }
                let code = error_type.map_or("unknown", ErrorType::as_str);
                Err(End::Stuck(Ending::infra(code, diagnosis)))
            }
        }
    }

    /// The changes of this task so far: every changed file and what it is now.
    pub(super) fn tree(&self) -> BTreeMap<String, Option<String>> {
        let files = self.editor.hands.changed().into_iter();
        files.map(|file| (file.path, file.sha256_now)).collect()
    }

    /// The same as one text that is equal when they are.
    fn fingerprint(&self) -> String {
        let mut text = String::new();
        for (path, sha256) in self.tree() {
            text.push_str(&format!("{} {path}\n", sha256.as_deref().unwrap_or("-")));
        }
        text
    }

    pub(super) fn changed(&self) -> Vec<String> {
        self.editor
            .hands
            .changed()
            .iter()
            .map(|file| format!("{} ({})", file.path, file.op()))
            .collect()
    }
}

fn model_failed(error: &ModelError) -> End {
    End::Stuck(match error.kind {
        ModelErrorKind::Budget => Ending::Budget,
        ModelErrorKind::TooLong => Ending::ContextFull { said: error.to_string() },
        _ => Ending::infra("model_unavailable", format!("the model did not answer: {error}")),
    })
}

pub(super) fn tree_digest(response: &VerifyResponse) -> Option<String> {
    Some(response.manifest.as_ref()?.get("tree_digest")?.as_str()?.to_owned())
}

pub(super) fn refusal_hint(reason: &str) -> &'static str {
    match reason {
        "plan_first" => "call plan before any other tool",
        "not_verified" => "only a green run of the current tree finishes a task; call verify",
        "same_strategy" => "this strategy failed before; plan a different one",
        "dry_run" => {
            "this is a dry run: nothing is verified; call done when the proposal is complete"
        }
        _ => "",
    }
}
