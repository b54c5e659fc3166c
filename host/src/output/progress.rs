//! Turns each event into lines of progress, without side effects.
//!
//! Without `--verbose`: milestones, what a person waits for, and problems. With it also the summaries of the Scouts, the
//! diagnosis, every edit and the output of the steps.

use super::line::{Line, Tone};
use act_core::event::{EventKind, ModelUsage, NoticeLevel, ProposedChange, Uncommitted};
use act_core::verification::{ErrorType, FailReason};
use act_core::{TaskState, Usd};

/// Returns the lines for one event. Image pulls and step output need state and are handled by the caller.
pub(super) fn lines(kind: &EventKind, verbose: bool) -> Vec<Line> {
    let mut lines = always(kind);
    if verbose {
        lines.extend(details(kind));
    }
    lines
}

/// Returns the line of a warning.
pub(super) fn warning(text: &str) -> Line {
    Line::of(Tone::Caution, "act:").and(Tone::Plain, format!(" {text}"))
}

fn always(kind: &EventKind) -> Vec<Line> {
    match kind {
        EventKind::Waiting { repo, holder, position, stalled, works } => {
            let holder = holder.as_deref().unwrap_or("another act process");
            let what = match (stalled, works) {
                (true, _) => "is stopped",
                (false, true) => "works",
                (false, false) => "comes first",
            };
            let place = format!(" place {position}; {holder} {what} in {repo} (Ctrl-C to give up)");
            vec![Line::of(Tone::Caution, "Waiting:").and(Tone::Plain, place)]
        }
        EventKind::TaskStarted { uncommitted: Some(Uncommitted { count, paths }), .. } => {
            let files = if *count == 1 { "file differs" } else { "files differ" };
            let more = match count.saturating_sub(paths.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let text = format!(" {count} {files} from the last commit: {}{more}", paths.join(", "));
            vec![Line::of(Tone::Caution, "Uncommitted:").and(Tone::Plain, text)]
        }
        EventKind::Constraints { constraints, non_goals, boundaries, enforced } => {
            [("Constraints:", constraints), ("Non-goals:", non_goals), ("Boundaries:", boundaries)]
                .into_iter()
                .filter(|(_, items)| !items.is_empty())
                .flat_map(|(title, items)| {
                    let mark = move |item: &String| match (title, enforced.contains(item)) {
                        ("Boundaries:", true) => " (enforced)",
                        ("Boundaries:", false) => {
                            " (not enforced: no path found in it; passed to the model as text)"
                        }
                        _ => "",
                    };
                    let line = move |item: &String| {
                        Line::plain(format!("- {item}")).and(Tone::Faint, mark(item))
                    };
                    std::iter::once(Line::of(Tone::Strong, title)).chain(items.iter().map(line))
                })
                .collect()
        }
        EventKind::Milestone { text, .. } => vec![Line::of(Tone::Strong, text)],
        EventKind::Notice(notice) => vec![match notice.level {
            NoticeLevel::Info => Line::of(Tone::Strong, &notice.text),
            NoticeLevel::Warning => warning(&notice.text),
        }],
        EventKind::ComponentCompiled { name, duration_ms, .. } => vec![Line::of(
            Tone::Faint,
            format!("Compiled component {name} in {}; cached for next time", seconds(*duration_ms)),
        )],
        EventKind::Evidence { evidence } => {
            let head = Line::of(Tone::Strong, "What the tests prove:");
            let lines =
                evidence.sentences().into_iter().map(|line| Line::plain(format!("- {line}")));
            std::iter::once(head).chain(lines).collect()
        }
        EventKind::Baseline { run_id, status, step, failures } => {
            let run = run_id.as_deref().unwrap_or("no run");
            let step = step.as_ref().map(|step| format!(" in step {step:?}")).unwrap_or_default();
            let head = Line::of(Tone::Strong, "Before the first edit:")
                .and(Tone::Plain, format!(" {status}{step} ({run})"));
            let failures = failures.iter().map(|line| Line::plain(format!("- {line}")));
            std::iter::once(head).chain(failures).collect()
        }
        // A refusal looks as if it had been refused before the task started.
        EventKind::TaskFinished { state, summary, .. } if *state == TaskState::Refused => {
            let mut lines = summary.as_deref().unwrap_or_default().lines();
            let message = lines.next().unwrap_or_default();
            let head = Line::of(Tone::Bad, "act:").and(Tone::Plain, format!(" {message}"));
            std::iter::once(head).chain(lines.map(Line::plain)).collect()
        }
        EventKind::Proposed { files, apply, .. } => {
            let change = |file: &ProposedChange| {
                let from = file.from.as_ref().map(|from| format!("{from} to "));
                Line::plain(format!("- {} {}{}", file.op, from.unwrap_or_default(), file.path))
            };
            let head = match files.len() {
                1 => "Proposed: 1 file".to_owned(),
                count => format!("Proposed: {count} files"),
            };
            let apply = apply.as_ref().map(|apply| {
                Line::of(Tone::Strong, "hint:")
                    .and(Tone::Plain, format!(" `{apply}` makes these changes"))
            });
            let head = std::iter::once(Line::of(Tone::Strong, head));
            head.chain(files.iter().map(change)).chain(apply).collect()
        }
        EventKind::ScoutFinished { outcome, .. } if outcome == "cancelled" => vec![],
        EventKind::ScoutFinished { scout, error: Some(error), .. } => {
            vec![
                Line::of(Tone::Caution, format!("{}:", scout_name(scout)))
                    .and(Tone::Plain, format!(" {error}")),
            ]
        }
        // A request that the user cancelled is no problem.
        EventKind::ModelRequest { role, attempt, error: Some(error), .. }
            if error != "cancelled" =>
        {
            vec![
                Line::of(Tone::Caution, "Model:")
                    .and(Tone::Plain, format!(" {error} (asked by {role}, attempt {attempt})")),
            ]
        }
        _ => vec![],
    }
}

/// Returns the lines that `--verbose` adds for one event.
pub(super) fn details(kind: &EventKind) -> Vec<Line> {
    let text = match kind {
        EventKind::TaskStarted { repo, pipeline_sha256, worktree, .. } => {
            let place = match worktree {
                Some(worktree) => format!("the worktree {} of {repo}", worktree.path),
                None => repo.clone(),
            };
            format!("task in {place}, verified by pipeline {}", short(pipeline_sha256))
        }
        EventKind::ScoutStarted { scout, sha256, attempt, .. } => {
            format!("{} ({}), attempt {attempt}", scout_name(scout), short(sha256))
        }
        EventKind::ScoutFinished { scout, outcome, duration_ms, summary, error: None } => {
            let head =
                detail(format!("{} {outcome} after {}", scout_name(scout), seconds(*duration_ms)));
            return std::iter::once(head).chain(paragraph(summary)).collect();
        }
        EventKind::ComponentStep { name, message } => format!("{name}: {message}"),
        EventKind::ComponentLog { name, level, message } => format!("{name} [{level}]: {message}"),
        EventKind::ComponentDenied { name, grant, object } => {
            format!("{name} was denied {grant}: {object}")
        }
        // The answer of a Scout has a line of its own.
        EventKind::ComponentUsed { call, outcome, .. }
            if call == "ask" && outcome == "answered" =>
        {
            return vec![];
        }
        EventKind::ComponentUsed {
            name,
            call,
            outcome,
            duration_ms,
            files,
            edits,
            denials,
            ..
        } => {
            let mut text = format!("{name}: {call} {outcome} after {}", seconds(*duration_ms));
            for (count, what) in [(files, "files read"), (edits, "edits"), (denials, "denials")] {
                if *count > 0 {
                    text.push_str(&format!(", {count} {what}"));
                }
            }
            text
        }
        EventKind::ModelRequest { role, usage, duration_ms, error: None, .. } => {
            format!("model for {role}: {}, {}", tokens(usage), seconds(*duration_ms))
        }
        EventKind::InstructionsRead { path, bytes, .. } => {
            format!("{path}: instructions of the repository, {bytes} bytes")
        }
        EventKind::Diagnosis { text } => {
            return std::iter::once(detail("diagnosis:".into())).chain(paragraph(text)).collect();
        }
        EventKind::Edit { path, op, version, .. } => format!("{op} {path}, now version {version}"),
        EventKind::EditRefused { path, op, reason } => format!("{op} {path} refused: {reason}"),
        EventKind::VerifyStarted { run_id, attempt, warm } => {
            format!("{run_id}, attempt {attempt}{}", if *warm { ", warm" } else { "" })
        }
        EventKind::StepStarted { name, last_ms, .. } => {
            format!("step {name} has begun{}", last_time(*last_ms))
        }
        EventKind::StepFinished { name, exit_code, duration_ms, .. } => {
            let end = match exit_code {
                Some(code) => format!("exit {code}"),
                None => "no exit code".into(),
            };
            format!("step {name}: {end} after {}", seconds(*duration_ms))
        }
        EventKind::CheckFinished { command, outcome, exit_code, duration_ms } => {
            let end = match exit_code {
                Some(code) => format!("exit {code}"),
                None => outcome.clone(),
            };
            format!("check `{command}`: {end} after {}", seconds(*duration_ms))
        }
        EventKind::VerifyFinished {
            run_id, status, error_type, reason, duration_ms, warm, ..
        } => {
            let warm = if *warm { ", warm" } else { "" };
            let reason = reason.map(FailReason::as_str);
            let why = error_type.map(ErrorType::as_str).or(reason);
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            format!("{run_id}: {}{why}{warm} after {}", status.as_str(), seconds(*duration_ms))
        }
        EventKind::Replan { number, strategy, requery, .. } => {
            let again = if requery.is_empty() {
                String::new()
            } else {
                format!(", asking {} again", requery.join(" and "))
            };
            let head = detail(format!("plan {}{again}", number.saturating_add(1)));
            return std::iter::once(head).chain(paragraph(strategy)).collect();
        }
        EventKind::Snapshot { path, .. } => format!("wrote {path}"),
        EventKind::TaskFinished { tokens: spent, .. } if !spent.is_empty() => {
            let spent: Vec<_> =
                spent.iter().map(|(role, usage)| format!("{role} {}", tokens(usage))).collect();
            format!("tokens: {}", spent.join("; "))
        }
        _ => return vec![],
    };
    vec![detail(text)]
}

fn detail(text: String) -> Line {
    Line::of(Tone::Faint, format!("  {text}"))
}

fn paragraph(text: &str) -> impl Iterator<Item = Line> {
    text.trim().lines().map(|line| Line::of(Tone::Faint, format!("    {line}")))
}

/// Returns the display names of the built-in Scouts.
fn scout_name(scout: &str) -> &str {
    match scout {
        "scout-a" => "Scout A",
        "scout-b" => "Scout B",
        other => other,
    }
}

fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

/// Returns what a step took last time, behind its name.
pub(super) fn last_time(last_ms: Option<u64>) -> String {
    last_ms.map(|last| format!(" ({} last time)", seconds(last))).unwrap_or_default()
}

pub(super) fn tokens(usage: &ModelUsage) -> String {
    format!("{} in ({} cached), {} out", usage.input, usage.cached, usage.output)
}

/// Returns a cost for people.
pub(crate) fn cost(cost: Option<Usd>) -> String {
    cost.map_or("unknown".to_owned(), Usd::rounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::Milestone;

    fn text(kind: &EventKind, verbose: bool) -> String {
        lines(kind, verbose).iter().map(|line| line.render(false)).collect()
    }

    #[test]
    fn a_milestone_is_shown_in_its_own_words() {
        let attempt = EventKind::from(Milestone::Attempt { number: 2, of: 12 });
        assert_eq!(text(&attempt, false), "Attempt 2/12...\n");
        assert_eq!(text(&attempt, true), "Attempt 2/12...\n");
    }

    #[test]
    fn waiting_says_for_whom() {
        // TASK-22
        let kind = |holder: Option<&str>, position, stalled, works| {
            let (repo, holder) = ("/r".to_owned(), holder.map(str::to_owned));
            EventKind::Waiting { repo, holder, position, stalled, works }
        };
        let said = |holder, position, stalled| text(&kind(holder, position, stalled, true), false);
        let end = "in /r (Ctrl-C to give up)\n";
        assert_eq!(
            said(Some("t-abc123"), 2, false),
            format!("Waiting: place 2; t-abc123 works {end}")
        );
        assert_eq!(
            said(Some("t-abc123"), 1, true),
            format!("Waiting: place 1; t-abc123 is stopped {end}")
        );
        let first = text(&kind(Some("t-abc123"), 2, false, false), false);
        assert_eq!(first, format!("Waiting: place 2; t-abc123 comes first {end}"));
        assert_eq!(
            said(None, 1, false),
            format!("Waiting: place 1; another act process works {end}")
        );
    }

    // TASK-44
    #[test]
    fn a_tree_with_uncommitted_changes_is_named_at_the_start() {
        let started = |count, paths: &[&str]| EventKind::TaskStarted {
            repo: "/r".into(),
            pipeline_sha256: String::new(),
            notes_dir: None,
            uncommitted: (count > 0).then(|| Uncommitted {
                count,
                paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            }),
            worktree: None,
        };
        assert_eq!(text(&started(0, &[]), false), "");
        let one = "Uncommitted: 1 file differs from the last commit: a.txt\n";
        assert_eq!(text(&started(1, &["a.txt"]), false), one);
        let many = "Uncommitted: 7 files differ from the last commit: a, b and 5 more\n";
        assert_eq!(text(&started(7, &["a", "b"]), false), many);
    }

    #[test]
    fn constraints_are_echoed_by_section_and_empty_sections_left_out() {
        let constraints = EventKind::Constraints {
            constraints: vec!["no new dependency".into()],
            non_goals: vec![],
            boundaries: vec!["src/".into(), "tests/".into()],
            enforced: vec!["src/".into()],
        };
        assert_eq!(
            text(&constraints, false),
            "Constraints:\n- no new dependency\nBoundaries:\n- src/ (enforced)\n- tests/ (not enforced: no path found in it; passed to the model as text)\n"
        );
    }

    #[test]
    fn verbose_adds_summaries_diagnosis_and_edits() {
        let scout = EventKind::ScoutFinished {
            scout: "scout-a".into(),
            outcome: "ok".into(),
            duration_ms: 1250,
            summary: "two files\none risk".into(),
            error: None,
        };
        assert_eq!(text(&scout, false), "");
        assert_eq!(text(&scout, true), "  Scout A ok after 1.2 s\n    two files\n    one risk\n");
        let edit = EventKind::Edit {
            path: "a.sh".into(),
            op: "edit_line".into(),
            version: 2,
            sha256_before: None,
            sha256_after: None,
        };
        assert_eq!(text(&edit, false), "");
        assert_eq!(text(&edit, true), "  edit_line a.sh, now version 2\n");
        let diagnosis = EventKind::Diagnosis { text: "off by one".into() };
        assert_eq!(text(&diagnosis, true), "  diagnosis:\n    off by one\n");
    }

    #[test]
    fn trouble_is_shown_without_verbose() {
        let request = |error: &str| EventKind::ModelRequest {
            role: "editor".into(),
            request_id: None,
            status: Some(500),
            attempt: 2,
            usage: ModelUsage::default(),
            cost_usd: None,
            duration_ms: 3,
            error: Some(error.into()),
        };
        let expected = "Model: the server answered 500 (asked by editor, attempt 2)\n";
        assert_eq!(text(&request("the server answered 500"), false), expected);
        assert_eq!(text(&request("cancelled"), true), "");
        let scout = EventKind::ScoutFinished {
            scout: "scout-b".into(),
            outcome: "failed".into(),
            duration_ms: 1,
            summary: String::new(),
            error: Some("timed out".into()),
        };
        assert_eq!(text(&scout, false), "Scout B: timed out\n");
    }

    #[test]
    fn names_from_elsewhere_stay_on_their_line() {
        // security line 166
        let log = EventKind::ComponentLog {
            name: "x\x1b[2J".into(),
            level: "info".into(),
            message: "a\nAttempt 1/12...\u{9b}1m".into(),
        };
        assert_eq!(text(&log, true), "  x [info]: a\\nAttempt 1/12...\\u{9b}1m\n");
    }
}
