//! The first message of each conversation. Pure text, without a clock or ids of the host: the same task gives the same
//! bytes.

use super::EarlierReport;
use super::plan::{FailedStrategy, PlanGoals};
use super::scouts::report_for_model;
use super::verify::Attempt;
use crate::context::ScoutPayload;

pub(super) const EDITOR: &str = include_str!("prompts/editor.md");
pub(super) const HYPOTHESES: &str = include_str!("prompts/hypotheses.md");

/// The user's words, which every conversation repeats.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskSpec<'a> {
    pub text: &'a str,
    pub constraints: &'a [String],
    pub non_goals: &'a [String],
    pub boundaries: &'a [String],
    /// Directory of the monorepo package the task is scoped to.
    pub package: Option<&'a str>,
}

fn list(into: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    into.push_str(&format!("\n\n{title}:"));
    for item in items {
        into.push_str(&format!("\n- {item}"));
    }
}

/// The user's sections, for a Scout that does not get the whole text of the task.
pub(super) fn sections(task: TaskSpec<'_>) -> String {
    let mut text = String::new();
    list(&mut text, "Constraints (always in force)", task.constraints);
    list(&mut text, "Non-goals (always in force)", task.non_goals);
    list(&mut text, "Boundaries (always in force)", task.boundaries);
    text
}

fn assignment(task: TaskSpec<'_>) -> String {
    let mut text = format!("Task:\n{}", task.text.trim());
    if !(task.constraints.is_empty() && task.non_goals.is_empty() && task.boundaries.is_empty()) {
        text.push_str("\n\nThe constraints, non-goals and boundaries in it are always in force.");
    }
    if let Some(package) = task.package {
        text.push_str(&format!(
            "\n\nScope: the package `{package}`. `list` and `search` mean it unless you name a place; \
             elsewhere you may read, not write."
        ));
    }
    text
}

/// The facts of the first message of a task.
#[derive(Debug, Clone, Default)]
pub(super) struct OpeningContext<'a> {
    /// Our own unresolved stuck report.
    pub report: Option<&'a EarlierReport>,
    /// The result of the run before any edit.
    pub baseline: Option<String>,
    pub dry_run: bool,
}

/// First message of a task.
pub(super) fn opening(task: TaskSpec<'_>, known: OpeningContext<'_>) -> String {
    let mut text = assignment(task);
    if known.dry_run {
        text.push_str(
            "\n\nThis is a dry run: your edits become a proposal and nothing is verified. Call `done` when \
             it is complete.",
        );
    }
    if let Some(baseline) = known.baseline {
        text.push_str(&format!("\n\n{baseline}"));
    }
    if let Some(report) = known.report {
        text.push_str("\n\nAn earlier attempt at work in this repository got stuck. Its report:\n");
        text.push_str(report.text.trim());
        list(&mut text, "`read_log` also takes its runs", &report.run_ids);
    }
    text
}

/// The facts of the first message of a later conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResumeContext<'a> {
    pub goals: &'a PlanGoals,
    pub reports: &'a [ScoutPayload],
    /// How contradictions between them were settled.
    pub decisions: &'a [String],
    /// In the order of time; the first one's criteria are the task's.
    pub tried: &'a [FailedStrategy],
    /// The difference so far.
    pub changed: &'a str,
    /// The end of the last log.
    pub tail: &'a str,
}

fn known(task: TaskSpec<'_>, known: ResumeContext<'_>) -> String {
    let mut text = assignment(task);
    list(&mut text, "Criteria", &known.goals.criteria);
    list(&mut text, "Acceptance", &known.goals.acceptance);
    list(&mut text, "Not wanted", &known.goals.non_goals);
    for report in known.reports {
        text.push_str(&format!("\n\nReport of {}:\n{}", report.scout, report_for_model(report)));
    }
    list(&mut text, "Decided where the Scouts disagreed", known.decisions);
    text.push_str("\n\nStrategies so far, each with its attempts that failed:");
    for (index, strategy) in known.tried.iter().enumerate() {
        text.push_str(&format!("\n{}. {}", index + 1, strategy.plan.strategy.trim()));
        for attempt in &strategy.attempts {
            text.push_str(&format!("\n   - {}", attempt_line(attempt)));
        }
    }
    if !known.changed.is_empty() {
        text.push_str("\n\nChanged so far; the tree stands as it was left, fix forward:\n");
        text.push_str(known.changed.trim_end());
    }
    text.push_str(&format!("\n\nEnd of the last log:\n{}", known.tail.trim_end()));
    text
}

/// First message after a REPLAN: facts, constraints, what was tried and why it failed.
pub(super) fn replanning(task: TaskSpec<'_>, facts: ResumeContext<'_>) -> String {
    let mut text = known(task, facts);
    text.push_str(
        "\n\nThree attempts in a row failed. Call `plan` with a strategy that differs from every one above.",
    );
    text
}

/// First message when the conversation before grew longer than the model takes; the last strategy is the
/// one in force.
pub(super) fn going_on(task: TaskSpec<'_>, facts: ResumeContext<'_>, green: bool) -> String {
    let mut text = known(task, facts);
    text.push_str(
        "\n\nThe conversation so far became too long and was closed. The last strategy above is in force; \
         read again what you need, in small pieces. ",
    );
    text.push_str(match green {
        true => "The tree is green: call `done`, or edit on and verify again.",
        false => "Go on from the tree as it stands, then `verify`.",
    });
    text
}

/// First message of a task that applied a proposal: the plan of the dry run and the result of the verification.
pub(super) fn after_apply(task: TaskSpec<'_>, facts: ResumeContext<'_>, green: bool) -> String {
    let mut text = known(task, facts);
    text.push_str(
        "\n\nA dry run proposed these changes; they have been made and verified just now. The strategy above \
         is in force. ",
    );
    text.push_str(match green {
        true => "The run was green, and the tree has changed since: call `verify`.",
        false => "Go on from the tree as it stands, then `verify`.",
    });
    text
}

/// Everything the model needs to explain a hard stop.
pub(super) fn hard_stop(task: TaskSpec<'_>, attempts: &[Attempt], tail: &str) -> String {
    let mut text = assignment(task);
    text.push_str("\n\nFailed runs:");
    for attempt in attempts {
        text.push_str(&format!("\n- {}", attempt_line(attempt)));
    }
    text.push_str(&format!("\n\nEnd of the last log:\n{}", tail.trim_end()));
    text
}

pub(super) fn attempt_line(attempt: &Attempt) -> String {
    format!(
        "attempt {} ({}): {} in step {}: {}",
        attempt.number,
        attempt.run_id,
        attempt.reason,
        attempt.step.as_deref().unwrap_or("-"),
        attempt.first_failing_line
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::editor::plan::Plan;

    fn texts(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    /// EDITOR-12: the user's sections are part of every conversation, also after a REPLAN.
    #[test]
    fn constraints_stand_in_every_first_message() {
        let constraints = texts(&["keep the public API"]);
        let task = TaskSpec {
            text: "Fix add\n\nConstraints:\n- keep the public API",
            constraints: &constraints,
            non_goals: &[],
            boundaries: &[],
            package: None,
        };
        let plan = Plan {
            criteria: texts(&["adds"]),
            acceptance: vec![],
            non_goals: vec![],
            strategy: "flip the sign".into(),
            questions: Default::default(),
            decisions: vec![],
        };
        let tried = [FailedStrategy { plan, attempts: vec![] }];
        let goals = PlanGoals::default();
        let known = ResumeContext {
            goals: &goals,
            reports: &[],
            decisions: &[],
            tried: &tried,
            changed: "",
            tail: "",
        };
        for text in [
            opening(task, OpeningContext::default()),
            after_apply(task, known, false),
            replanning(task, known),
            going_on(task, known, false),
            hard_stop(task, &[], ""),
        ] {
            assert!(text.contains("- keep the public API"), "{text}");
            assert!(text.contains("always in force"), "{text}");
        }
    }

    /// EDITOR-36
    #[test]
    fn an_earlier_report_stands_in_the_first_message_with_its_runs() {
        let task = TaskSpec {
            text: "Fix add",
            constraints: &[],
            non_goals: &[],
            boundaries: &[],
            package: None,
        };
        let report = EarlierReport {
            text: "# Stuck report\n\nhypothesis".into(),
            run_ids: texts(&["run_20260101_000000_aaaaaa"]),
        };
        let known = OpeningContext { report: Some(&report), ..OpeningContext::default() };
        let text = opening(task, known);
        assert!(text.contains("Its report:\n# Stuck report\n\nhypothesis\n"), "{text}");
        assert!(text.ends_with("takes its runs:\n- run_20260101_000000_aaaaaa"), "{text}");
        assert!(!opening(task, OpeningContext::default()).contains("earlier"));
    }
}
