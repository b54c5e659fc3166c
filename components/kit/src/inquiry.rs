//! The conversation with the model that ends with a report. In each turn the model reads something or reports.
//!
//! It has at most ten turns, and a report may be wrong once.

pub use crate::json::report as parse;

use crate::inventory::Inventory;
use crate::reading::{Reader, tools};
use crate::world::{Advice, Answer, Call, Failure, Stop, Tool, Turn, World};

/// Maximum number of turns, and the turn after which the model is asked to report.
const TURNS: usize = 10;
const LAST_READING_TURN: usize = 7;

/// The texts that one Scout's inquiry starts with.
pub struct Brief<'a> {
    pub system: &'a str,
    /// The first message: question, context, facts.
    pub opening: &'a str,
    /// JSON Schema of the report.
    pub schema: &'a str,
}

/// Asks the model until `accept` takes a report. A report that `accept` refuses goes back to the model once, with the reason.
///
/// # Errors
///
/// [`Failure::Model`] when the model declines, fails, reports wrongly twice or gives no report in ten turns.
pub fn inquire<T>(
    world: World<'_>,
    inventory: &Inventory,
    brief: &Brief<'_>,
    accept: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    let mut offered = tools().to_vec();
    offered.push(Tool {
        name: "report".to_owned(),
        description: "Give the report; ends the inquiry.".to_owned(),
        parameters: brief.schema.to_owned(),
    });
    let conversation = world.model.open(brief.system, &offered);
    conversation.say(brief.opening);
    let mut reader = Reader::new(world.repository, inventory);
    let mut chances = SecondChances { wrong: false, asked_to_report: false };
    let mut advice = world.progress.step("asking the model");

    for turn in 1..=TURNS {
        let Turn { text, calls, stop, .. } = conversation.next().map_err(Failure::Model)?;
        if stop == Stop::Refused {
            return Err(Failure::Model("the model declined to answer".to_owned()));
        }
        if calls.is_empty() {
            let why = match stop {
                Stop::Length => "the answer was cut: be brief".to_owned(),
                _ => match accept(json_in(&text)) {
                    Ok(report) => return Ok(report),
                    Err(why) => why,
                },
            };
            chances.wrong_report(&why)?;
            conversation.say(&format!("That is no report ({why}). Call the tool report."));
            continue;
        }
        let mut answers = Vec::with_capacity(calls.len());
        for Call { id, name, arguments } in calls {
            let outcome = if name == "report" {
                match accept(json_in(&arguments)) {
                    Ok(report) => return Ok(report),
                    Err(why) => {
                        chances.wrong_report(&why)?;
                        Err(format!("report refused: {why}. Call report again."))
                    }
                }
            } else {
                advice = world.progress.step(&format!("{name} {arguments}"));
                reader.run(&name, &arguments)
            };
            let is_error = outcome.is_err();
            answers.push(Answer { id, content: outcome.unwrap_or_else(|why| why), is_error });
        }
        conversation.answer(answers).map_err(Failure::Model)?;
        let why = match advice {
            _ if reader.is_spent() => "The reading budget is used up",
            Advice::WrapUp => "The time is nearly used up",
            Advice::CarryOn if turn >= LAST_READING_TURN => "Most turns are used up",
            Advice::CarryOn => continue,
        };
        if !std::mem::replace(&mut chances.asked_to_report, true) {
            conversation.say(&format!("{why}: call report now with what you know."));
        }
    }
    Err(Failure::Model(format!("the model gave no report in {TURNS} turns")))
}

/// Second chances that the model has already used: each is given once.
struct SecondChances {
    wrong: bool,
    asked_to_report: bool,
}

impl SecondChances {
    fn wrong_report(&mut self, why: &str) -> Result<(), Failure> {
        if std::mem::replace(&mut self.wrong, true) {
            return Err(Failure::Model(format!("the model's report is wrong twice: {why}")));
        }
        Ok(())
    }
}

/// Returns the JSON object in a text. Small models put prose or a code fence around it.
fn json_in(text: &str) -> &str {
    match (text.find('{'), text.rfind('}')) {
        (Some(start), Some(end)) if start < end => &text[start..=end],
        _ => text.trim(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeHost, Files};

    const BRIEF: Brief<'_> =
        Brief { system: "You scout.", opening: "What is there?", schema: "{}" };

    fn ask(host: &FakeHost) -> Result<String, Failure> {
        let inventory = Inventory::of(&host.files).unwrap();
        inquire(host.world(), &inventory, &BRIEF, |text| match text {
            "{\"ok\":1}" => Ok(text.to_owned()),
            other => Err(format!("not ok: {other}")),
        })
    }

    fn files() -> Files {
        Files::of(&[("a.py", "one\n")])
    }

    // SCOUT-4
    #[test]
    fn reads_what_the_model_asks_for_until_it_reports() {
        let host = FakeHost::new(files())
            .calls(&[("read", r#"{"path":"a.py"}"#), ("read", r#"{"path":"b.py"}"#)])
            .calls(&[("report", r#"{"ok":1}"#)]);
        assert_eq!(ask(&host).unwrap(), r#"{"ok":1}"#);
        let read = "answer: a.py · lines 1-1 of 1\n1| one\n(24 of 24 kB left)\n";
        assert_eq!(
            host.sent(),
            ["system: You scout.", "say: What is there?", read, "error: not found"]
        );
    }

    #[test]
    fn takes_a_report_given_as_text() {
        let host = FakeHost::new(files()).says("Here it is:\n```json\n{\"ok\":1}\n```\n");
        assert_eq!(ask(&host).unwrap(), r#"{"ok":1}"#);
    }

    // SCOUT-5
    #[test]
    fn a_wrong_report_is_asked_for_once_more_and_then_the_attempt_has_failed() {
        let healed =
            FakeHost::new(files()).calls(&[("report", "{}")]).calls(&[("report", r#"{"ok":1}"#)]);
        assert!(ask(&healed).is_ok());
        assert_eq!(healed.sent()[2], "error: report refused: not ok: {}. Call report again.");
        let hopeless =
            FakeHost::new(files()).says("I think it is fine.").calls(&[("report", "{}")]);
        let why = "the model's report is wrong twice: not ok: {}".to_owned();
        assert_eq!(ask(&hopeless), Err(Failure::Model(why)));
    }

    // SCOUT-6
    #[test]
    fn a_model_that_only_reads_is_asked_to_report_and_ended_after_ten_turns() {
        let mut host = FakeHost::new(files());
        for _ in 0..20 {
            host = host.calls(&[("read", r#"{"path":"a.py"}"#)]);
        }
        assert_eq!(
            ask(&host),
            Err(Failure::Model("the model gave no report in 10 turns".to_owned()))
        );
        let asked = "say: Most turns are used up: call report now with what you know.";
        assert_eq!(host.sent().iter().position(|line| line == asked), Some(2 + 7));
        assert_eq!(host.sent().iter().filter(|line| *line == asked).count(), 1);
        assert_eq!(host.turns_left(), 10);
    }

    #[test]
    fn advice_to_wrap_up_is_passed_on_at_once() {
        let host = FakeHost::new(files())
            .advising_to_wrap_up()
            .calls(&[("list", "{}")])
            .calls(&[("report", r#"{"ok":1}"#)]);
        assert!(ask(&host).is_ok());
        assert!(host.sent()[3].starts_with("say: The time is nearly used up: call report"));
    }

    #[test]
    fn a_model_that_cannot_be_asked_is_its_failure() {
        let host = FakeHost::new(files());
        assert_eq!(ask(&host), Err(Failure::Model("the script has no further turn".to_owned())));
    }
}
