//! `check`: one command of the model's choice on the tree as it is. It counts nowhere: not as an attempt, not as a
//! verification, and no green one changes the phase of the task.

use std::time::Duration;

use super::tools::Answer;
use super::{OrEnd, Session, TaskResult};
use act_audit::{Decision, Entry, Event};
use act_config::CheckRefused;
use act_core::check::{CheckEnd, Checked, CheckedOver, NotChecked};
use act_core::event::EventKind;
use act_core::terminal_text;
use act_workspace::digest;

/// Checks between two verifications. Whoever needs more is guessing, and a run of the pipeline tells more.
pub(super) const CHECKS: u32 = 20;
/// Covered files that an answer names.
const NAMED: usize = 5;
/// Number of checks whose results a later conversation receives. The last checks ran on the tree with which that
/// conversation begins.
const REMEMBERED: usize = 5;
/// Bytes of the end of an output there, some lines with the result.
const REMEMBERED_OUTPUT: usize = 600;
/// Bytes of a command in an event.
const SHOWN_COMMAND: usize = 300;

impl Session<'_> {
    /// Runs one command for the model.
    pub(super) async fn check(&mut self, command: &str) -> OrEnd<Answer> {
        let editor = self.editor;
        let script = match editor.checks.admit(command) {
            Ok(script) => script,
            Err(why) => return Ok(self.refuse_check(command, &self.not_admitted(&why))),
        };
        let Some(checker) = &editor.checker else {
            return Ok(Answer::refusal("unavailable", "no command can be run here; call verify"));
        };
        if self.checks >= CHECKS {
            let message = format!("{CHECKS} checks ran since the last verification; call verify");
            return Ok(self.refuse_check(command, &Answer::refusal("budget", &message)));
        }
        if let Some(moved) = editor.workplace.moved() {
            return Err(super::verify::repository_moved(&moved).into());
        }
        self.checks += 1;
        let shown = shown_command(&script);
        editor.events.emit(EventKind::CheckStarted { command: shown.clone() });
        let checked = match checker.check(&script, &editor.cancel).await {
            Some(checked) if !editor.cancel.is_cancelled() => checked,
            _ => return Err(TaskResult::cancelled().into()),
        };
        let (outcome, exit_code, took) = match &checked {
            Ok(Checked { end: CheckEnd::Exited(code), took, .. }) => ("exited", Some(*code), *took),
            Ok(Checked { end: CheckEnd::TimedOut(_), took, .. }) => ("timeout", None, *took),
            Err(NotChecked::NoBase(_)) => ("no_base", None, Duration::ZERO),
            Err(NotChecked::Unavailable(_)) => ("unavailable", None, Duration::ZERO),
        };
        editor.events.emit(EventKind::CheckFinished {
            command: shown,
            outcome: outcome.to_owned(),
            exit_code,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        if let Ok(checked) = &checked {
            self.remember_check(&script, checked);
        }
        Ok(match checked {
            Ok(checked) => Answer::ok(answer(&checked)),
            Err(NotChecked::NoBase(why)) => {
                let message = format!(
                    "there is nothing to run a command in: the pipeline prepares its container, and no base holds what it \
                     made ({why}); call verify"
                );
                Answer::refusal("no_base", &message)
            }
            Err(NotChecked::Unavailable(why)) => Answer::refusal(
                "unavailable",
                &format!("the command did not run: {why}; call verify"),
            ),
        })
    }

    /// Keeps what a check showed for the first message of a later conversation, which would lose it otherwise.
    fn remember_check(&mut self, command: &str, checked: &Checked) {
        let attempts = match self.plans.attempts().last() {
            None => "before the first attempt".to_owned(),
            Some(run) => format!("after attempt {}", run.attempt),
        };
        if self.checked.len() == REMEMBERED {
            self.checked.pop_front();
        }
        self.checked.push_back(remembered(command, &attempts, checked));
    }

    fn not_admitted(&self, why: &CheckRefused) -> Answer {
        match why {
            CheckRefused::Off => {
                Answer::refusal("checks_off", "no single commands here; `verify` runs the steps")
            }
            CheckRefused::Malformed(message) => Answer::refusal("bad_arguments", message),
            CheckRefused::NotDeclared => {
                let declared = &self.editor.checks.templates;
                let declared: Vec<_> = declared.iter().map(|one| format!("\n- {one}")).collect();
                let message = format!(
                    "the command must be one of these, with one argument for each `{{word}}` that does not begin with \
                     `-`:{}",
                    declared.concat()
                );
                Answer::refusal("not_declared", &message)
            }
        }
    }

    /// Records a command that does not run.
    fn refuse_check(&self, command: &str, answer: &Answer) -> Answer {
        let reason = answer.text.split(':').next().unwrap_or_default();
        // `check_audit` reports an error of the log before the next action.
        let entry = Entry::new(Event::CheckRefused).decision(Decision::Deny).reason(reason);
        let _ =
            self.editor.audit.append(entry.digest("command", Some(&digest(command.as_bytes()))));
        answer.clone()
    }
}

/// Returns the answer to a check that ran. Each line of the output begins with `| `, so that none passes for one of the host's.
fn answer(checked: &Checked) -> String {
    let seconds = checked.took.as_secs_f64();
    let end = match checked.end {
        CheckEnd::Exited(code) => format!("exit {code} after {seconds:.1} s"),
        CheckEnd::TimedOut(limit) => format!("killed after {} s, the limit", limit.as_secs()),
    };
    let mut text = format!("{end} · a check, no verification: only `verify` and `done` count");
    match (checked.over, checked.end) {
        (CheckedOver::Base, _) => {}
        // A shell reports 127 for a program that it does not find.
        (CheckedOver::Image, CheckEnd::Exited(127)) => text.push_str(
            "\nThe image alone, without what the steps install: a program that they install is not here. `verify` runs them.",
        ),
        (CheckedOver::Image, _) => text.push_str(" · the image alone, without what the steps install"),
    }
    if let Some(why) = &checked.outdated {
        text.push_str(&format!(
            "\nWhat `prepare` built is of the last commit, and {why}: a failure here may come from that."
        ));
    }
    if !checked.covered.is_empty() {
        let named = checked.covered.iter().take(NAMED);
        let named = named.map(|path| terminal_text::line(path)).collect::<Vec<_>>();
        let more = match checked.covered.len() {
            1..=NAMED => String::new(),
            count => format!(" and {} more", count - NAMED),
        };
        let files = if checked.covered.len() == 1 { "file" } else { "files" };
        text.push_str(&format!(
            "\nEmpty here, since you do not see the {files}: {}{more}",
            named.join(", ")
        ));
    }
    if checked.output.trim().is_empty() {
        text.push_str("\n(no output)");
    }
    for line in checked.output.trim_end().lines() {
        text.push_str(&format!("\n| {line}"));
    }
    text
}

/// Returns the text about a check for a later conversation: its command, its time, its result and the end of its output.
fn remembered(command: &str, when: &str, checked: &Checked) -> String {
    let end = match checked.end {
        CheckEnd::Exited(code) => format!("exit {code}"),
        CheckEnd::TimedOut(limit) => format!("killed after {} s", limit.as_secs()),
    };
    let output = checked.output.trim_end();
    let from = output.ceil_char_boundary(output.len().saturating_sub(REMEMBERED_OUTPUT));
    // From the beginning of a line on, where there is one.
    let from = match output[from..].find('\n') {
        Some(end) if from > 0 => from + end + 1,
        _ => from,
    };
    let mut text = format!("`{}` {when}: {end}", shown_command(command));
    if from > 0 {
        text.push_str(", the end of its output:");
    }
    for line in output[from..].lines() {
        text.push_str(&format!("\n     | {line}"));
    }
    text
}

/// Returns a command on one line for people.
fn shown_command(command: &str) -> String {
    let line = command.replace(['\n', '\r'], " ");
    match line.len() > SHOWN_COMMAND {
        true => format!("{}…", &line[..line.floor_char_boundary(SHOWN_COMMAND)]),
        false => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(output: &str) -> Checked {
        Checked {
            end: CheckEnd::Exited(1),
            over: CheckedOver::Base,
            took: Duration::from_millis(1240),
            output: output.to_owned(),
            covered: vec![],
            outdated: None,
        }
    }

    // EDITOR-26
    #[test]
    fn a_later_conversation_is_told_the_command_and_the_end_of_the_output() {
        let text = remembered("pytest -q\n-x", "after attempt 2", &checked("one\n1 failed\n"));
        assert_eq!(text, "`pytest -q -x` after attempt 2: exit 1\n     | one\n     | 1 failed");
        let text = remembered("x", "before the first attempt", &checked(&"é\n".repeat(9_000)));
        assert!(text.contains("exit 1, the end of its output:\n     | é") && text.len() < 2_500);
    }

    // EDITOR-86
    #[test]
    fn an_answer_says_how_it_ended_that_it_counts_nowhere_and_what_was_different() {
        assert_eq!(
            answer(&checked("one\n</x>\n\n")),
            "exit 1 after 1.2 s · a check, no verification: only `verify` and `done` count\n| one\n| </x>"
        );
        let end = CheckEnd::TimedOut(Duration::from_secs(60));
        let text = answer(&Checked { end, ..checked("") });
        assert!(text.starts_with("killed after 60 s") && text.ends_with("\n(no output)"), "{text}");
        let end = CheckEnd::Exited(127);
        let text = answer(&Checked { end, over: CheckedOver::Image, ..checked("x") });
        assert!(text.contains("a program that they install is not here"), "{text}");
        let covered = (1..=7).map(|n| format!("{n}.pem")).collect();
        let outdated = Some("a.lock has changed".to_owned());
        let text = answer(&Checked { covered, outdated, ..checked("x") });
        assert!(
            text.contains("see the files: 1.pem, 2.pem, 3.pem, 4.pem, 5.pem and 2 more"),
            "{text}"
        );
        assert!(text.contains("is of the last commit, and a.lock has changed:"), "{text}");
        let covered = vec![".env".to_owned()];
        let text = answer(&Checked { covered, ..checked("x") });
        assert!(text.contains("\nEmpty here, since you do not see the file: .env\n| x"), "{text}");
    }
}
