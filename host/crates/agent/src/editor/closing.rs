//! The end of a task: summary, stuck report with hypotheses, or nothing at all after a cancel.

use super::ending::Ending;
use super::hands::Answer;
use super::session::{End, Session};
use super::tools::{self, Done};
use super::{Brief, Finished, State, hand_over, hypotheses, prompt, verification};
use crate::context::{Hypothesis, Moment, Notebook, StuckReport, Summary, WrittenReport};
use crate::gate_inputs::{GateChange, GateInput, Steps, gate_inputs_changed, touches_tests};
use act_core::event::{EventKind, Events};
use act_model::ToolResult;
use act_workspace::{AgentDir, ChangedFile};

impl Session<'_> {
    pub(super) fn succeed(&self, done: Option<Done>) -> Finished {
        if self.editor.cancel.is_cancelled() {
            return cancelled();
        }
        let Some(last) = &self.last else {
            let missing = Ending::infra("unknown", "a task without a verification cannot succeed");
            return self.report(&missing, vec![], false);
        };
        let run_id = last.run_id.as_ref().map(ToString::to_string).unwrap_or_default();
        let files = self.editor.hands.changed();
        let gate_inputs = self.gate_inputs();
        let by_host = done.is_none();
        let done = done.unwrap_or_else(|| self.account_of_host());
        let summary = Summary {
            task_id: self.editor.brief.task_id.clone(),
            what: done.what,
            why: done.why,
            tests: done.tests,
            test_files: self.test_files(),
            had_tests: self.has_tests != Some(false),
            run_id: run_id.clone(),
            attempts: self.verified.last().map_or(0, |run| run.attempt),
            files_changed: self.changed(),
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
            boundaries_unheld: self.editor.brief.unheld.clone(),
            edits_refused: self.refusals(),
            tokens: self.editor.ledger.by_role(),
            baseline: self
                .baseline
                .as_ref()
                .map(|baseline| baseline.for_people(self.plans.attempts())),
            warnings: last.warnings.iter().map(|warning| warning.message.clone()).collect(),
            left_out: self.left_out.iter().map(|kind| (*kind).to_owned()).collect(),
            by_host,
            audit_head: self.audit_head(),
        };
        let written = self.snapshot(Moment::Success).and_then(|()| {
            let Some(notes) = &self.editor.notes else { return Ok(()) };
            notes.summary(&summary).map(|_| ()).map_err(|error| {
                End::Stuck(Ending::infra(
                    "unknown",
                    format!("the summary could not be written: {error}"),
                ))
            })
        });
        if let Err(End::Stuck(ending)) = written {
            return self.report(&ending, vec![], false);
        }
        Finished {
            run_id: Some(run_id),
            summary: Some(summary.render()),
            gate_inputs_changed: named(&gate_inputs),
            ..Finished::of(State::Success)
        }
    }

    /// Refuses a run id that is none of this task's: the summary is read as proof.
    pub(super) fn names_foreign_run(&self, done: &Done) -> Option<Answer> {
        let known = self.known_runs();
        let texts = [Some(&done.what), Some(&done.why), done.tests.as_ref()];
        let run =
            texts.into_iter().flatten().find_map(|text| hand_over::foreign_run(text, &known))?;
        Some(Answer::refusal("bad_arguments", &format!("{run} is no run of this task")))
    }

    /// Removes text for a commit or a pull request, and announces what was removed. What is empty then is the host's
    /// to state.
    pub(super) fn without_commit_text(&mut self, done: Done) -> Done {
        let mut left_out = vec![];
        let mut clean = |text: &str| hand_over::without_commit_text(text, &mut left_out);
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
        Done { what: or(what, host.what), why: or(why, host.why), tests }
    }

    /// What the host says where the Editor says nothing.
    fn account_of_host(&self) -> Done {
        let strategy = Some(self.strategies.in_hand()).filter(|text| !text.is_empty());
        let strategy = strategy.map(|text| hand_over::without_commit_text(text, &mut vec![]));
        let strategy = strategy.filter(|text| !text.is_empty());
        let strategy = strategy.map(|text| format!(" Strategy: {text}")).unwrap_or_default();
        Done {
            what: "The files below were changed.".to_owned(),
            why: format!("The task asked for it.{strategy}"),
            tests: None,
        }
    }

    /// Changed files that are tests, or have more of them inside than before.
    fn test_files(&self) -> Vec<String> {
        let hands = &self.editor.hands;
        let is_test = |file: &&ChangedFile| {
            let text = hands.text(&file.path);
            touches_tests(&file.path, text.before.text(), text.now.text())
        };
        let named = |file: &ChangedFile| format!("{} ({})", file.path, file.op());
        hands.changed().iter().filter(is_test).map(named).collect()
    }

    /// Changed files that the green run did not judge.
    fn untested(&self) -> Vec<String> {
        self.editor.hands.untested().into_iter().map(|file| file.path).collect()
    }

    /// As people read it: `protected: 3`.
    fn refusals(&self) -> Vec<String> {
        let refused = self.editor.hands.refused().into_iter();
        refused.map(|(rule, count)| format!("{rule}: {count}")).collect()
    }

    /// Changes that could have made the gate easier, for the user to look at.
    pub(super) fn gate_inputs(&self) -> Vec<GateInput> {
        let hands = &self.editor.hands;
        let files: Vec<_> =
            hands.changed().into_iter().map(|file| (hands.text(&file.path), file)).collect();
        let changes: Vec<_> = files
            .iter()
            .map(|(text, file)| GateChange {
                path: &file.path,
                sha256_before: file.sha256_before.as_deref(),
                sha256_now: file.sha256_now.as_deref(),
                text_before: text.before.text(),
                text_now: text.now.text(),
            })
            .collect();
        let commands: Vec<&str> =
            self.editor.steps.iter().map(|step| step.command.as_str()).collect();
        let package = self.editor.brief.package.as_deref();
        gate_inputs_changed(
            &changes,
            &Steps { commands: &commands, package, look: &*self.editor.look },
        )
    }

    pub(super) async fn end(&mut self, end: End) -> Finished {
        match end {
            End::Cancelled => cancelled(),
            End::Stuck(ending) => {
                // Nobody will say any more what settles it; the report tells the trouble if there is more.
                let _ = self.write_due_snapshot();
                let (theories, derived) = match ending {
                    Ending::HardStop => match self.hypotheses().await {
                        Some(items) => (items, false),
                        None => (hypotheses::derived(self.plans.attempts()), true),
                    },
                    // Nobody is left to be asked.
                    Ending::ModelIdle { .. } | Ending::Budget | Ending::ContextFull { .. } => {
                        (hypotheses::derived(self.plans.attempts()), true)
                    }
                    Ending::Infra { .. } => (vec![], false),
                };
                if self.editor.cancel.is_cancelled() {
                    return Box::pin(self.end(End::Cancelled)).await;
                }
                self.report(&ending, theories, derived)
            }
        }
    }

    /// The model's own theories, asked for twice at most; none when it does not deliver.
    async fn hypotheses(&self) -> Option<Vec<Hypothesis>> {
        let offered = [tools::hypotheses_tool()];
        let mut conversation = self.editor.model.open("editor", prompt::HYPOTHESES, &offered);
        let log = self.last.as_ref().and_then(|last| last.tail.as_deref()).unwrap_or_default();
        conversation.say(&prompt::hard_stop(
            self.assignment(),
            self.plans.attempts(),
            verification::tail(log),
        ));
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
            let items = hypotheses::usable(items, self.plans.attempts());
            if items.len() >= hypotheses::NEEDED {
                return Some(items);
            }
            let needed = format!(
                "{wrong}: at least {} are needed, each with a run_id of the list and evidence",
                hypotheses::NEEDED
            );
            let results = turn.calls.iter().map(|call| ToolResult {
                id: call.id.clone(),
                content: Answer::refusal("bad_arguments", &needed).json,
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

    fn report(&self, ending: &Ending, theories: Vec<Hypothesis>, derived: bool) -> Finished {
        let editor = self.editor;
        let report = StuckReport {
            hypotheses: theories,
            hypotheses_derived: derived,
            steps: editor.steps.iter().map(|step| step.name.clone()).collect(),
            strategies: self.strategies.so_far(&self.changes()),
            runs: self.verified.clone(),
            files_modified: self.changed(),
            gate_inputs_changed: named(&self.gate_inputs()),
            edits_refused: self.refusals(),
            audit_head: self.audit_head(),
            baseline: self
                .baseline
                .as_ref()
                .map(|baseline| baseline.for_people(self.plans.attempts())),
            ..StuckReport::default()
        };
        let finished =
            write_report(&editor.brief, editor.notes.as_ref(), &editor.events, ending, report);
        let run_id =
            self.last.as_ref().and_then(|last| last.run_id.as_ref().map(ToString::to_string));
        Finished { run_id, gate_inputs_changed: named(&self.gate_inputs()), ..finished }
    }
}

impl Session<'_> {
    /// For the last word, as `path (why)`.
    pub(super) fn gate_inputs_named(&self) -> Vec<String> {
        named(&self.gate_inputs())
    }
}

fn named(inputs: &[GateInput]) -> Vec<String> {
    inputs.iter().map(|input| format!("{} ({})", input.path, input.why)).collect()
}

/// With the beginnings of the digests before and after, by which both texts can be recognised.
fn with_digests(input: &GateInput, file: Option<&ChangedFile>) -> String {
    let short = |digest: Option<&String>| {
        digest.and_then(|digest| digest.get(..12)).unwrap_or("nothing").to_owned()
    };
    let before = short(file.and_then(|file| file.sha256_before.as_ref()));
    let now = short(file.and_then(|file| file.sha256_now.as_ref()));
    format!("{} ({}, {before} to {now})", input.path, input.why)
}

/// Nothing is written; partial changes stay.
pub(super) fn cancelled() -> Finished {
    Finished { reason: Some("cancelled".into()), ..Finished::of(State::Cancelled) }
}

/// Completes a report with what every report says, writes it and says how the task ended.
pub(super) fn write_report(
    brief: &Brief,
    notes: Option<&Notebook<AgentDir>>,
    events: &Events,
    ending: &Ending,
    report: StuckReport,
) -> Finished {
    let explanation = ending.explanation().map(str::to_owned);
    let (state, infrastructure) = match ending {
        Ending::Infra { code, diagnosis } => {
            (State::InfraError, Some((code.clone(), diagnosis.clone())))
        }
        _ => (State::Stuck, None),
    };
    let diagnosis = infrastructure.as_ref().map(|(_, diagnosis)| diagnosis.clone());
    let report = StuckReport {
        task_id: brief.task_id.clone(),
        task_text: brief.request.text().to_owned(),
        state: state.as_str().to_owned(),
        reason: ending.reason().to_owned(),
        explanation: explanation.clone().filter(|_| infrastructure.is_none()),
        infrastructure,
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
    Finished {
        reason: Some(ending.reason().to_owned()),
        // Where no report tells it, the last word does.
        summary: explanation.or_else(|| diagnosis.filter(|_| written.is_none())),
        report_path: written.and_then(Result::ok).map(|report| report.path),
        ..Finished::of(state)
    }
}
