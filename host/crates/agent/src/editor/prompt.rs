//! The first message of each conversation. It contains no clock and no ids of the host, so that the same task gives the same
//! bytes and the provider's cache can serve it.

use super::TaskInput;
use super::plan::{FailedStrategy, PlanGoals};
use super::scouts::report_for_model;
use super::verify::Attempt;
use crate::context::ScoutPayload;

pub(super) const EDITOR: &str = include_str!("prompts/editor.md");
pub(super) const HYPOTHESES: &str = include_str!("prompts/hypotheses.md");

fn list(into: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    into.push_str(&format!("\n\n{title}:"));
    for item in items {
        into.push_str(&format!("\n- {item}"));
    }
}

/// The sections of the task, for a Scout that gets a question instead of the task.
pub(super) fn sections(task: &TaskInput) -> String {
    let mut text = String::new();
    list(&mut text, "Constraints (always in force)", task.request.constraints());
    list(&mut text, "Non-goals (always in force)", task.request.non_goals());
    list(&mut text, "Boundaries (always in force)", task.request.boundaries());
    text
}

/// The task, with which every first message begins.
fn assignment(task: &TaskInput) -> String {
    let request = &task.request;
    let mut text = format!("Task:\n{}", request.text().trim());
    let sections = [request.constraints(), request.non_goals(), request.boundaries()];
    if sections.iter().any(|items| !items.is_empty()) {
        text.push_str("\n\nThe constraints, non-goals and boundaries in it are always in force.");
    }
    if let Some(package) = &task.package {
        text.push_str(&format!(
            "\n\nScope: the package `{package}`. `list` and `search` mean it unless you name a place; \
             elsewhere you may read, not write."
        ));
    }
    text
}

/// The first message of a task. `baseline` is the result of the run before any edit.
pub(super) fn opening(task: &TaskInput, baseline: Option<String>, dry_run: bool) -> String {
    let mut text = assignment(task);
    if dry_run {
        text.push_str(
            "\n\nThis is a dry run: your edits become a proposal and nothing is verified. Call `done` when \
             it is complete.",
        );
    }
    if let Some(baseline) = baseline {
        text.push_str(&format!("\n\n{baseline}"));
    }
    if let Some(report) = &task.stuck_report {
        text.push_str("\n\nAn earlier attempt at work in this repository got stuck. Its report:\n");
        text.push_str(report.text.trim());
        list(&mut text, "`read_log` also takes its runs", &report.run_ids);
    }
    text
}

/// The facts of a task after its first conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResumeContext<'a> {
    pub goals: &'a PlanGoals,
    pub reports: &'a [ScoutPayload],
    /// Decisions about conflicts between the reports.
    pub decisions: &'a [String],
    /// The strategies so far, in the order of time.
    pub tried: &'a [FailedStrategy],
    /// The difference so far.
    pub changed: &'a str,
    /// The end of the last log.
    pub tail: &'a str,
}

/// The first message of a later conversation: the task, the facts so far, and what the model has to do now.
pub(super) fn resuming(task: &TaskInput, facts: &ResumeContext<'_>, instruction: &str) -> String {
    let mut text = assignment(task);
    list(&mut text, "Criteria", &facts.goals.criteria);
    list(&mut text, "Acceptance", &facts.goals.acceptance);
    list(&mut text, "Not wanted", &facts.goals.non_goals);
    list(&mut text, "Taken for granted", &facts.goals.assumptions);
    for report in facts.reports {
        text.push_str(&format!("\n\nReport of {}:\n{}", report.scout, report_for_model(report)));
    }
    list(&mut text, "Decided where the Scouts disagreed", facts.decisions);
    text.push_str("\n\nStrategies so far, each with its attempts that failed:");
    for (index, strategy) in facts.tried.iter().enumerate() {
        text.push_str(&format!("\n{}. {}", index + 1, strategy.plan.strategy.trim()));
        for attempt in &strategy.attempts {
            text.push_str(&format!("\n   - {}", attempt_line(attempt)));
        }
    }
    if !facts.changed.is_empty() {
        text.push_str("\n\nChanged so far; the tree stands as it was left, fix forward:\n");
        text.push_str(facts.changed.trim_end());
    }
    text.push_str(&format!("\n\nEnd of the last log:\n{}\n\n{instruction}", facts.tail.trim_end()));
    text
}

/// The instruction after a REPLAN.
pub(super) const REPLANNING: &str = "Three attempts in a row failed. Call `plan` with a strategy that differs from every one above.";

/// The instruction after a conversation that became longer than the model accepts. The last strategy is in force.
pub(super) fn going_on(green: bool) -> String {
    let next = match green {
        true => "The tree is green: call `done`, or edit on and verify again.",
        false => "Go on from the tree as it stands, then `verify`.",
    };
    format!(
        "The conversation so far became too long and was closed. The last strategy above is in force; read again \
         what you need, in small pieces. {next}"
    )
}

/// The instruction after the proposal of a dry run was applied and verified.
pub(super) fn after_apply(green: bool) -> String {
    let next = match green {
        true => "The run was green, and the tree has changed since: call `verify`.",
        false => "Go on from the tree as it stands, then `verify`.",
    };
    format!(
        "A dry run proposed these changes; they have been made and verified just now. The strategy above is in \
         force. {next}"
    )
}

/// Everything the model needs to explain a hard stop.
pub(super) fn hard_stop(task: &TaskInput, attempts: &[Attempt], tail: &str) -> String {
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
    use crate::editor::{EarlierReport, TaskRequest};

    fn texts(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    fn task(text: &str) -> TaskInput {
        TaskInput {
            task_id: "t-abc123".to_owned(),
            request: TaskRequest::parse(text).unwrap(),
            package: None,
            not_enforced: vec![],
            host_wrote: vec![],
            stuck_report: None,
        }
    }

    /// EDITOR-12: the user's sections are part of every conversation, also after a REPLAN.
    #[test]
    fn constraints_stand_in_every_first_message() {
        let task = task("Fix add\n\nConstraints:\n- keep the public API");
        let plan = Plan { strategy: "flip the sign".into(), ..Plan::default() };
        let tried = [FailedStrategy { plan, attempts: vec![] }];
        let goals = PlanGoals::default();
        let facts = ResumeContext {
            goals: &goals,
            reports: &[],
            decisions: &[],
            tried: &tried,
            changed: "",
            tail: "",
        };
        for text in [
            opening(&task, None, false),
            resuming(&task, &facts, &after_apply(false)),
            resuming(&task, &facts, REPLANNING),
            resuming(&task, &facts, &going_on(false)),
            hard_stop(&task, &[], ""),
        ] {
            assert!(text.contains("- keep the public API"), "{text}");
            assert!(text.contains("always in force"), "{text}");
        }
    }

    /// EDITOR-36
    #[test]
    fn an_earlier_report_stands_in_the_first_message_with_its_runs() {
        let report = EarlierReport {
            text: "# Stuck report\n\nhypothesis".into(),
            run_ids: texts(&["run_20260101_000000_aaaaaa"]),
        };
        let first = task("Fix add");
        assert!(!opening(&first, None, false).contains("earlier"));
        let again = TaskInput { stuck_report: Some(report), ..first };
        let text = opening(&again, None, false);
        assert!(text.contains("Its report:\n# Stuck report\n\nhypothesis\n"), "{text}");
        assert!(text.ends_with("takes its runs:\n- run_20260101_000000_aaaaaa"), "{text}");
    }
}
