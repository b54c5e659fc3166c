//! One call of the model: refused where the conversation stands, or performed by whoever it is meant for.

use serde_json::{Value, json};

use super::baseline::Baseline;
use super::hands::Answer;
use super::session::{End, Session};
use super::tools::{self, Call};
use super::turns::Step;
use super::{phase, scope};
use act_model::{ToolCall, ToolSpec};

/// Of one tool answer; built-in tools stay far below it.
const RESULT_BYTES: usize = 256 * 1024;
/// Of all tool answers in one conversation; about a million tokens.
const CONVERSATION_BYTES: usize = 4 * 1024 * 1024;

impl Session<'_> {
    pub(super) async fn perform(
        &mut self,
        call: &ToolCall,
        offered: &[ToolSpec],
    ) -> Result<Step, End> {
        self.recordable()?;
        if !offered.iter().any(|tool| tool.name == call.name) {
            return Ok(
                Answer::refusal("unknown_tool", &format!("there is no tool {}", call.name)).into()
            );
        }
        if let Some(reason) = phase::refusal(self.editor.aim, self.phase, &call.name) {
            return Ok(Answer::refusal(reason, refusal_hint(reason)).into());
        }
        if call.name != "plan" {
            self.write_due_snapshot()?;
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
            Call::Verify => return self.verify().await,
            Call::ReadLog(wanted) => self.read_log(&wanted).into(),
            Call::Done(done) => match self.names_foreign_run(&done) {
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
}

pub(super) fn answered(value: &Value) -> Answer {
    Answer { json: value.to_string(), is_error: false }
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
