//! The events of a journal, gathered for the page of its task.
//!
//! A journal is not trusted: lines that are no events are counted, and every list has a bound.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use act_core::event::ModelUsage;

/// Maximum number of bytes of a journal that are read for a page. Journals of most tasks have some hundred kilobytes.
const MAX_JOURNAL: u64 = 16 << 20;
/// Maximum number of bytes of a line.
const MAX_LINE: u64 = 2 << 20;
/// Maximum number of items of a list; later ones are counted.
const MAX_ITEMS: usize = 300;

/// A list with a bound.
#[derive(Debug, Default)]
pub(crate) struct Items<T> {
    pub(crate) items: Vec<T>,
    /// Number of items that are not in the list.
    pub(crate) left_out: usize,
}

impl<T> Items<T> {
    fn push(&mut self, item: T) {
        match self.items.len() < MAX_ITEMS {
            true => self.items.push(item),
            false => self.left_out += 1,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) time: String,
    /// The number of the REPLAN that made it; 0 for a plan of the model itself.
    pub(crate) replan: u64,
    pub(crate) strategy: String,
    pub(crate) criteria: Vec<String>,
    pub(crate) acceptance: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// `None` while the step runs.
    pub(crate) ended: Option<Ended>,
}

#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) exit_code: Option<i64>,
    pub(crate) duration_ms: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Attempt {
    pub(crate) number: u64,
    pub(crate) run_id: String,
    pub(crate) warm: bool,
    pub(crate) time: String,
    pub(crate) steps: Items<Step>,
    /// `None` while the run lasts.
    pub(crate) status: Option<String>,
    pub(crate) why: Option<String>,
    pub(crate) duration_ms: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Scout {
    pub(crate) name: String,
    pub(crate) question: String,
    pub(crate) attempt: u64,
    pub(crate) outcome: Option<String>,
    pub(crate) duration_ms: Option<u64>,
    pub(crate) answer: String,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Milestone {
    pub(crate) time: String,
    pub(crate) text: String,
}

/// The events of a journal, in the order and the lists of a page.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// There is no journal any more.
    pub(crate) gone: bool,
    /// The journal goes on behind what was read.
    pub(crate) cut: bool,
    /// Number of lines that are no events.
    pub(crate) unreadable: usize,
    pub(crate) waits_for: Option<String>,
    pub(crate) constraints: Vec<String>,
    pub(crate) non_goals: Vec<String>,
    pub(crate) boundaries: Vec<String>,
    pub(crate) enforced: Vec<String>,
    pub(crate) plans: Items<Plan>,
    pub(crate) attempts: Items<Attempt>,
    pub(crate) scouts: Items<Scout>,
    /// Path, what was done, and how often.
    pub(crate) edits: BTreeMap<String, (String, u64)>,
    /// Path and reason.
    pub(crate) refused: Items<(String, String)>,
    /// Component, grant and object.
    pub(crate) denials: Items<(String, String, String)>,
    /// Components that were refused, with the message.
    pub(crate) components_refused: Items<(String, String)>,
    pub(crate) milestones: Items<Milestone>,
    pub(crate) diagnoses: Items<Milestone>,
    pub(crate) consents: Items<(String, String)>,
    /// Command, outcome and exit code.
    pub(crate) checks: Items<(String, String)>,
    pub(crate) instructions: Items<String>,
    pub(crate) baseline: Option<(String, Vec<String>)>,
    pub(crate) evidence: Option<Value>,
    /// The patch of a dry run, and the command that applies it.
    pub(crate) proposed: Option<(String, Option<String>)>,
    pub(crate) requests: u64,
    pub(crate) failed_requests: u64,
    pub(crate) usage: BTreeMap<String, ModelUsage>,
    pub(crate) summary: Option<String>,
    pub(crate) report_path: Option<String>,
    pub(crate) gate_inputs: Vec<String>,
    /// The last milestone or the step that runs.
    pub(crate) now: Option<String>,
}

impl Story {
    /// Reads a journal; `None` where there is none.
    pub(crate) fn read(journal: Option<File>) -> Self {
        let mut story = Self::default();
        let Some(file) = journal else {
            story.gone = true;
            return story;
        };
        story.cut = file.metadata().is_ok_and(|about| about.len() > MAX_JOURNAL);
        let mut reader = BufReader::new(file.take(MAX_JOURNAL));
        let mut line = vec![];
        loop {
            line.clear();
            let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            if !read.is_ok_and(|read| read > 0) {
                return story;
            }
            if !line.ends_with(b"\n") {
                // Either the line is being written, or it is too long.
                story.unreadable += usize::from(line.len() as u64 >= MAX_LINE);
                let skipped = skip_line(&mut reader);
                if !skipped {
                    return story;
                }
                continue;
            }
            match serde_json::from_slice::<Value>(&line) {
                Ok(event) if event["type"].is_string() => story.take(&event),
                _ => story.unreadable += 1,
            }
        }
    }

    fn take(&mut self, event: &Value) {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let optional = |name: &str| event[name].as_str().map(str::to_owned);
        let number = |name: &str| event[name].as_u64().unwrap_or_default();
        let list = |name: &str| strings(&event[name]);
        match event["type"].as_str().unwrap_or_default() {
            "waiting" => {
                let holder = optional("holder").unwrap_or_else(|| "another task".to_owned());
                self.waits_for = Some(format!("{holder}, position {}", number("position")));
            }
            "task_started" => self.waits_for = None,
            "constraints" => {
                self.constraints = list("constraints");
                self.non_goals = list("non_goals");
                self.boundaries = list("boundaries");
                self.enforced = list("enforced");
            }
            "milestone" => {
                self.now = optional("text");
                self.milestones.push(Milestone { time: text("time"), text: text("text") });
            }
            "plan" => self.plans.push(Plan {
                time: text("time"),
                replan: 0,
                strategy: text("strategy"),
                criteria: list("criteria"),
                acceptance: list("acceptance"),
            }),
            "replan" => self.plans.push(Plan {
                time: text("time"),
                replan: number("number"),
                strategy: text("strategy"),
                ..Plan::default()
            }),
            "verify_started" => self.attempts.push(Attempt {
                number: number("attempt"),
                run_id: text("run_id"),
                warm: event["warm"].as_bool().unwrap_or_default(),
                time: text("time"),
                ..Attempt::default()
            }),
            "step_started" => {
                let name = text("name");
                self.now = Some(format!("step {name}"));
                if let Some(attempt) = self.attempt(&text("run_id")) {
                    attempt.steps.push(Step { name, ended: None });
                }
            }
            "step_finished" => {
                let (name, ended) = (
                    text("name"),
                    Ended {
                        exit_code: event["exit_code"].as_i64(),
                        duration_ms: number("duration_ms"),
                    },
                );
                if let Some(attempt) = self.attempt(&text("run_id")) {
                    let open = attempt.steps.items.iter_mut().rev();
                    let mut open = open.filter(|step| step.name == name && step.ended.is_none());
                    match open.next() {
                        Some(step) => step.ended = Some(ended),
                        None => attempt.steps.push(Step { name, ended: Some(ended) }),
                    }
                }
            }
            "verify_finished" => {
                let (status, why) =
                    (optional("status"), optional("reason").or(optional("error_type")));
                let duration = event["duration_ms"].as_u64();
                if let Some(attempt) = self.attempt(&text("run_id")) {
                    attempt.status = status;
                    attempt.why = why;
                    attempt.duration_ms = duration;
                }
            }
            "scout_started" => self.scouts.push(Scout {
                name: text("scout"),
                question: text("question"),
                attempt: number("attempt"),
                ..Scout::default()
            }),
            "scout_finished" => {
                let name = text("scout");
                let scouts = &mut self.scouts.items;
                let open = scouts
                    .iter_mut()
                    .rev()
                    .find(|scout| scout.name == name && scout.outcome.is_none());
                if let Some(scout) = open {
                    scout.outcome = optional("outcome");
                    scout.duration_ms = event["duration_ms"].as_u64();
                    scout.answer = text("summary");
                    scout.error = optional("error");
                }
            }
            "edit" if self.edits.len() < MAX_ITEMS => {
                let entry = self.edits.entry(text("path")).or_default();
                *entry = (text("op"), entry.1 + 1);
            }
            "edit_refused" => self.refused.push((text("path"), text("reason"))),
            "component_denied" => {
                self.denials.push((text("name"), text("grant"), text("object")));
            }
            "component_refused" => self.components_refused.push((text("name"), text("message"))),
            "consent" => self.consents.push((text("path"), text("answer"))),
            "check_finished" => self.checks.push((text("command"), text("outcome"))),
            "instructions_read" => self.instructions.push(text("path")),
            "diagnosis" => {
                self.diagnoses.push(Milestone { time: text("time"), text: text("text") });
            }
            "baseline" => self.baseline = Some((text("status"), list("failures"))),
            "evidence" => self.evidence = Some(event.clone()),
            "proposed" => self.proposed = Some((text("diff"), optional("apply"))),
            "model_request" => {
                self.requests += 1;
                self.failed_requests += u64::from(!event["error"].is_null());
                let usage: ModelUsage =
                    serde_json::from_value(event["usage"].clone()).unwrap_or_default();
                if self.usage.len() < MAX_ITEMS {
                    *self.usage.entry(text("role")).or_default() += usage;
                }
            }
            "task_finished" => {
                self.now = None;
                self.summary = optional("summary");
                self.report_path = optional("report_path");
                self.gate_inputs = list("gate_inputs_changed");
                let (time, words) = (text("time"), [optional("state"), optional("reason")]);
                let words: Vec<_> = words.into_iter().flatten().collect();
                let text = format!("Ended: {}", words.join(", "));
                self.milestones.push(Milestone { time, text });
            }
            _ => {}
        }
    }

    fn attempt(&mut self, run_id: &str) -> Option<&mut Attempt> {
        self.attempts.items.iter_mut().rev().find(|attempt| attempt.run_id == run_id)
    }
}

/// Returns the texts of a list, at most as many as a page shows.
fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).take(MAX_ITEMS).map(str::to_owned).collect()
}

/// Reads to the end of a line. Returns false at the end of the file.
fn skip_line(reader: &mut impl BufRead) -> bool {
    loop {
        let Ok(buffer) = reader.fill_buf() else { return false };
        if buffer.is_empty() {
            return false;
        }
        match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                reader.consume(end + 1);
                return true;
            }
            None => {
                let all = buffer.len();
                reader.consume(all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn story(lines: &[&str]) -> Story {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.concat().as_bytes()).unwrap();
        Story::read(Some(file.reopen().unwrap()))
    }

    #[test]
    fn attempts_have_their_steps_with_durations_and_results() {
        let story = story(&[
            "{\"type\":\"milestone\",\"text\":\"Running verification...\"}\n",
            "{\"type\":\"verify_started\",\"run_id\":\"r1\",\"attempt\":1,\"warm\":true}\n",
            "{\"type\":\"step_started\",\"run_id\":\"r1\",\"name\":\"build\"}\n",
            "{\"type\":\"step_finished\",\"run_id\":\"r1\",\"name\":\"build\",\"exit_code\":0,\"duration_ms\":1200}\n",
            "{\"type\":\"step_started\",\"run_id\":\"r1\",\"name\":\"test\"}\n",
        ]);
        let attempt = &story.attempts.items[0];
        assert_eq!((attempt.number, attempt.warm, attempt.status.is_none()), (1, true, true));
        assert_eq!(attempt.steps.items[0].ended.as_ref().unwrap().duration_ms, 1200);
        assert!(attempt.steps.items[1].ended.is_none());
        assert_eq!(story.now.as_deref(), Some("step test"));
    }

    // attack 612
    #[test]
    fn a_hostile_journal_is_read_within_bounds() {
        let long = format!("{{\"type\":\"diagnosis\",\"text\":\"{}\"}}\n", "x".repeat(3 << 20));
        let many = "{\"type\":\"edit_refused\",\"path\":\"a\",\"reason\":\"b\"}\n".repeat(5000);
        let story = story(&[
            "no event\n",
            "[[[[\n",
            "{\"type\":7}\n",
            "{\"type\":\"plan\",\"strategy\":{},\"criteria\":[1,null,\"c\"]}\n",
            &long,
            "\u{0}\u{0}\n",
            "{\"type\":\"step_finished\",\"run_id\":\"none\"}\n",
            &many,
            "{\"type\":\"milestone\",\"text\":\"last\"}\n",
            "{\"type\":\"milestone\",\"text\":\"half",
        ]);
        assert_eq!(story.unreadable, 5);
        assert_eq!(story.plans.items[0].criteria, ["c"]);
        assert_eq!((story.refused.items.len(), story.refused.left_out), (MAX_ITEMS, 4700));
        assert_eq!(story.now.as_deref(), Some("last"));
        assert!(Story::read(None).gone);
    }
}
