//! One conversation, turn by turn: what the model asks for is performed, and what the host owes is done unasked.

use super::ending::Ending;
use super::hands::Answer;
use super::phase::{self, Overdue, Phase, Silence};
use super::session::{End, Left, Session};
use super::{prompt, tools};
use act_model::{
    Ask, Conversation, ModelError, ModelErrorKind, Stop, TimerPause, ToolResult, Turn,
    with_attempts,
};

/// Calls of one turn that are performed; the rest is refused.
const CALLS_PER_TURN: usize = 64;

const OVERDUE: &str = "Many turns have passed without a verification, so the host ran `verify`";
const NOT_CLOSED: &str =
    "You did not call `done`, and the tree is not the one that was green, so the host ran `verify`";

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

impl Session<'_> {
    /// One conversation, until it is left for a REPLAN or the task is done.
    pub(super) async fn converse(&mut self, opening: &str) -> Result<Left, End> {
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
            let (was_closing, verified) = (self.phase == Phase::Closing, self.verified.len());
            let changed = self.editor.hands.changed();
            turns += 1;
            // What the host does by itself after this turn; its outcome is said to the model.
            let mut unasked = None;
            if turn.calls.is_empty() {
                self.write_due_snapshot()?;
                silent += 1;
                let cut = matches!(turn.stop, Stop::Length | Stop::Refused);
                match phase::after_silence(self.editor.aim, self.phase, self.edited(), cut, silent)
                {
                    Silence::Nudge => conversation.say(phase::nudge(self.phase, turn.stop)),
                    Silence::Idle => return Err(End::Stuck(Ending::idle(&turn))),
                    Silence::HostSummary => {
                        unasked = Some((NOT_CLOSED, self.close().await?));
                    }
                    Silence::Verify => {
                        let step = self.verify().await?;
                        // A model that is told three times why nothing is verified, and does nothing, is idle.
                        if self.verified.len() == verified && silent >= phase::SILENT_TURNS {
                            return Err(End::Stuck(Ending::idle(&turn)));
                        }
                        unasked = Some(("You called no tool, so the host ran `verify`", step));
                    }
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
                && self.verified.len() == verified
                && self.editor.hands.changed() == changed;
            closing = if idle_closing { closing + 1 } else { 0 };
            if unasked.is_none() {
                unasked = match phase::after_turns(self.editor.aim, self.phase, turns, closing) {
                    Overdue::No => None,
                    Overdue::Idle => return Err(End::Stuck(Ending::idle(&turn))),
                    Overdue::Verify => {
                        let step = self.verify().await?;
                        // A refused verification leaves the counter where it is; that must end as well.
                        if self.verified.len() == verified && turns >= 2 * phase::TURNS_PER_ATTEMPT
                        {
                            return Err(End::Stuck(Ending::idle(&turn)));
                        }
                        Some((OVERDUE, step))
                    }
                    Overdue::HostSummary => Some((NOT_CLOSED, self.close().await?)),
                    Overdue::Propose => return Ok(Left::Finished(None)),
                };
            }
            match unasked {
                None => {}
                Some((_, Step::Leave(left))) => return Ok(left),
                Some((why, Step::Answer(answer))) => {
                    if self.verified.len() != verified {
                        silent = 0;
                    }
                    let text = format!("{why}. It answered:\n{}", answer.json);
                    self.told_bytes += text.len();
                    conversation.say(&text);
                }
            }
            if self.verified.len() != verified {
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
}

fn model_failed(error: &ModelError) -> End {
    End::Stuck(match error.kind {
        ModelErrorKind::Budget => Ending::Budget,
        ModelErrorKind::TooLong => Ending::ContextFull { said: error.to_string() },
        _ => Ending::infra("model_unavailable", format!("the model did not answer: {error}")),
    })
}
