//! Records of the audit log as lines for people.

use std::fmt::Write as _;

use crate::output::{Line, Tone};
use crate::task::{AuditList, AuditRestarted, Explanation, GrantsAt, ManifestCheck};
use act_audit::{Decision, History, Record, Subject, Verification, cure};

/// Digits of a digest that tell it from others here.
const SHORT: usize = 12;

fn short(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}

fn tone(decision: Option<Decision>) -> Tone {
    match decision {
        Some(Decision::Deny) => Tone::Bad,
        Some(Decision::Limit) => Tone::Caution,
        Some(Decision::Allow) | None => Tone::Plain,
    }
}

fn named(subject: &Subject) -> String {
    format!("{} {}", subject.name, short(&subject.sha256))
}

fn field(name: &str, value: &str) -> Line {
    Line::of(Tone::Faint, format!("  {name:<14} ")).and(Tone::Plain, value)
}

/// Limits are no right of their own.
fn capability(may: &str, word: &str) -> Line {
    match word.strip_prefix("limits ") {
        Some(limits) => field("within", limits),
        None => field(may, word),
    }
}

/// None without a value.
fn field_of(name: &str, value: Option<&str>) -> Option<Line> {
    value.map(|value| field(name, value))
}

pub(super) fn list(found: &AuditList) -> Vec<Line> {
    let mut lines: Vec<_> = found.records.iter().map(one).collect();
    if found.left_out > 0 {
        let more = format!("{} earlier ones are left out; --limit shows more", found.left_out);
        lines.insert(0, Line::of(Tone::Faint, more));
    }
    if lines.is_empty() {
        let none = if found.head.is_some() { "No such record" } else { "Nothing was recorded yet" };
        lines.push(Line::plain(none));
    }
    if found.unreadable > 0 {
        let what = format!("{} lines are no records", found.unreadable);
        lines.push(Line::of(Tone::Bad, what).and(Tone::Plain, "; `act audit verify` says where"));
    }
    lines
}

/// `12  2026-11-21T16:40:01.123Z  edit  allow  src/a.rs  t-abc123`
fn one(record: &Record) -> Line {
    let decision = record.decision.map_or("", Decision::as_str);
    let head = format!("{:>6}  {}  {:<20} ", record.seq, record.time, record.event);
    let mut rest = String::new();
    let object =
        record.object.as_deref().or(record.reason.as_deref().filter(|_| record.subject.is_none()));
    // Writing to a string does not fail.
    if let Some(subject) = &record.subject {
        let _ = write!(rest, "  {}", named(subject));
    }
    if let Some(object) = object {
        let _ = write!(rest, "  {object}");
    }
    if let Some(reason) = record.reason.as_deref().filter(|reason| object != Some(reason)) {
        let _ = write!(rest, "  ({reason})");
    }
    if let Some(task) = &record.task {
        let _ = write!(rest, "  {task}");
    }
    Line::plain(head).and(tone(record.decision), format!("{decision:<5}")).and(Tone::Plain, rest)
}

pub(super) fn record(record: &Record) -> Vec<Line> {
    let mut lines = vec![Line::of(Tone::Strong, format!("{} {}", record.seq, record.event))];
    let decision = record.decision.map(Decision::as_str);
    let repo = record.repo.as_ref().map(|repo| {
        format!("{} at {}", repo.identity, repo.head.as_deref().unwrap_or("no commit"))
    });
    let subject = record.subject.as_ref().map(|subject| {
        format!(
            "{} {} {}",
            subject.name,
            subject.sha256,
            subject.world.as_deref().unwrap_or_default()
        )
    });
    let clock = format!("{} ms since boot {}", record.mono_ms, record.boot_id);
    let process = format!("pid {} of uid {}, act {}", record.pid, record.uid, record.act_version);
    let fields = [
        ("time", Some(record.time.as_str())),
        ("clock", Some(clock.as_str())),
        ("process", Some(process.as_str())),
        ("task", record.task.as_deref()),
        ("repository", repo.as_deref()),
        ("component", subject.as_deref()),
        ("object", record.object.as_deref()),
        ("decision", decision),
        ("reason", record.reason.as_deref()),
        ("in force", record.effective_sha256.as_deref()),
    ];
    lines.extend(fields.iter().filter_map(|(name, value)| field_of(name, *value)));
    lines.extend(record.names.iter().map(|name| field("", name)));
    lines.extend(record.counts.iter().map(|(name, count)| field(name, &count.to_string())));
    lines.extend(record.digests.iter().map(|(name, digest)| field(name, digest)));
    lines.extend([field("prev", &record.prev), field("hash", &record.hash)]);
    lines
}

pub(super) fn verification(found: &Verification, asked: Option<&str>) -> Vec<Line> {
    let mut lines = vec![];
    match &found.bad {
        Some(bad) => {
            let place = bad.line.map(|line| format!(" (line {line})")).unwrap_or_default();
            let what = format!("Record {}{place} is not what it was", bad.seq);
            lines.push(Line::of(Tone::Bad, what).and(Tone::Plain, format!(": {}", bad.why)));
            let before = format!("{} records before it are in their place", found.records);
            lines.push(Line::of(Tone::Faint, before));
        }
        None => {
            let what = format!("{} records, each in its place and unchanged", found.records);
            lines.push(Line::of(Tone::Good, what));
        }
    }
    if let Some(head) = &found.head {
        lines.push(field("last", &format!("{} {}", head.seq, head.hash)));
    }
    if found.bad.is_none() {
        let store = found.store.as_ref().map_or_else(
            || "remembers no head yet".to_owned(),
            |head| format!("agrees, at record {}", head.seq),
        );
        lines.push(field("store", &store));
        lines.extend(manifests(found));
    }
    match (asked, found.asked_seq) {
        (Some(_), Some(seq)) => lines.push(field("asked for", &format!("it is record {seq}"))),
        (Some(hash), None) => {
            let not = format!("No record has the hash {hash}");
            lines.push(Line::of(Tone::Bad, not));
        }
        (None, _) => {}
    }
    lines.extend(history(found));
    if found.recovered > 0 {
        let torn =
            format!("{} lines of stopped writers, each recorded by the next", found.recovered);
        lines.push(field("torn", &torn));
    }
    if found.torn_bytes > 0 {
        let torn = format!("{} bytes at the end, of a writer that was stopped", found.torn_bytes);
        lines.push(field("torn", &torn));
    }
    lines
}

/// What agrees, and what nobody can know.
fn manifests(found: &Verification) -> Vec<Line> {
    let agree = if found.runs_compared > 0 { ", all agree" } else { "" };
    let mut lines = vec![field("manifests", &format!("{} compared{agree}", found.runs_compared))];
    for run in &found.runs_unknown {
        let why = "its record would stand in what is missing";
        let by = run.accepted_seq.map(|by| format!("; accepted by record {by}"));
        let told = format!("{}: {why}{}", run.run_id, by.unwrap_or_default());
        lines.push(Line::of(Tone::Caution, "  unknown        ").and(Tone::Plain, told));
    }
    for run in &found.runs_without_head {
        let why = "its manifest names no record of the log, or cannot be read";
        let told = format!("{run}: {why}; {}", cure(run));
        lines.push(Line::of(Tone::Caution, "  unknown        ").and(Tone::Plain, told));
    }
    lines
}

/// What was before a new beginning, which is said first of all where it is missing.
fn history(found: &Verification) -> Vec<Line> {
    let Some(seq) = found.restarted_at else { return vec![] };
    let mut lines = vec![field("begun", &format!("anew, with record {seq}"))];
    for log in &found.earlier {
        let told = match &log.missing {
            None => {
                field("before", &format!("{}, {} records, all in place", log.name, log.records))
            }
            Some(why) => {
                let what = format!("History is missing up to record {}", log.seq);
                Line::of(Tone::Bad, what).and(Tone::Plain, format!(": {}: {why}", log.name))
            }
        };
        lines.push(told);
        lines.extend(
            log.accepted_seq.map(|by| field("accepted", &format!("as it stands, by record {by}"))),
        );
    }
    match found.history {
        History::Whole => {}
        History::Missing => {
            let how = format!("once you know why: act audit verify --accept-restart {seq}");
            lines.push(field("accept", &how));
        }
        History::Accepted => {}
    }
    lines
}

/// What no `act components` has recorded in this log.
const ELSEWHERE: &str = " by hand or under another ARTIFACT_DIR";

pub(super) fn grants(found: &GrantsAt) -> Vec<Line> {
    let mut lines = vec![Line::of(
        Tone::Faint,
        format!("Who could do what at {}, after record {}", found.at, found.seq),
    )];
    for component in &found.components {
        let state = match component.state.as_str() {
            "revoked" | "superseded" => Tone::Bad,
            "approved" => Tone::Good,
            _ => Tone::Plain,
        };
        let head = Line::of(Tone::Strong, named(&component.subject));
        let since = format!(" since {} (record {})", component.since, component.since_seq);
        let by = if component.by_hand { ELSEWHERE } else { "" };
        let line = head.and(state, format!(" {}{by}", component.state)).and(Tone::Plain, since);
        lines.push(line);
        lines.extend(field_of("in place of", component.replaces.as_deref()));
        lines.extend(field_of("only in", component.repository.as_deref()));
        let held = matches!(component.state.as_str(), "approved" | "in_use");
        let had = if held { "may" } else { "had" };
        lines.extend(component.capabilities.iter().map(|word| capability(had, word)));
        lines.extend(field_of("loaded last", component.last_loaded.as_deref()));
    }
    if let Some(file) = &found.file {
        let what = match file.reason.as_deref() {
            Some("gone") => format!("{} was removed", file.path),
            Some("not_written") => format!("{} could not be written as decided", file.path),
            _ => format!("{} was changed{ELSEWHERE}", file.path),
        };
        let seen = format!(", seen {} (record {}); it gave:", file.seen, file.seen_seq);
        lines.push(Line::of(Tone::Caution, what).and(Tone::Plain, seen));
        lines.extend(file.grants.iter().map(|grant| field("", grant)));
    }
    if found.components.is_empty() && found.file.is_none() {
        let none =
            "No component had any right yet; those of act itself are told from their first use on";
        lines.push(Line::plain(none));
    }
    lines
}

pub(super) fn explanation(found: &Explanation) -> Vec<Line> {
    let outcome = found.outcome.as_deref().unwrap_or("without an end");
    let good = if outcome == "pass" { Tone::Good } else { Tone::Bad };
    let mut lines = vec![Line::of(Tone::Strong, &found.run_id).and(good, format!(" {outcome}"))];
    let task = found.task_id.as_ref().map_or_else(
        || "none: act verify".to_owned(),
        |task| format!("{task}, attempt {}", found.attempt),
    );
    let commit = found.repo.as_ref().and_then(|repo| repo.head.as_deref());
    let records = match found.finished_seq {
        Some(end) => format!("{} to {end}", found.started_seq),
        None => format!("{}, without an end", found.started_seq),
    };
    let edits = format!(
        "{} edits, {} refused, {} denials",
        found.edits, found.edits_refused, found.denials
    );
    let fields = [
        ("task", Some(task.as_str())),
        ("began", Some(found.started_at.as_str())),
        ("ended", found.finished_at.as_deref()),
        ("gate", found.pipeline_sha256.as_deref()),
        ("image", found.image_digest.as_deref()),
        ("tree", found.tree_digest.as_deref()),
        (
            "tree after",
            found
                .tree_digest_after
                .as_deref()
                .filter(|after| Some(*after) != found.tree_digest.as_deref()),
        ),
        ("commit", commit),
        ("asked engine", found.container_request_sha256.as_deref()),
        ("engine said", found.container_inspect_sha256.as_deref()),
        ("of the task", Some(edits.as_str()).filter(|_| found.task_id.is_some())),
        ("records", Some(records.as_str())),
    ];
    lines.extend(fields.iter().filter_map(|(name, value)| field_of(name, *value)));
    lines.extend(found.warnings.iter().flatten().map(|mark| field("warning", mark)));
    lines.extend(manifest(&found.run_id, &found.manifest));
    let disputed = found.disputed.as_ref();
    lines.extend(disputed.map(|why| Line::of(Tone::Bad, format!("  not believed   {why}"))));
    if !found.container.is_empty() {
        lines.push(Line::of(Tone::Strong, "Container"));
        let said = found.container.iter().filter(|wall| !wall.ends_with('='));
        lines.extend(said.map(|wall| field("", wall)));
    }
    for component in &found.components {
        let head = Line::of(Tone::Strong, named(&component.subject));
        let queries = match component.queries {
            1 => " 1 query".to_owned(),
            count => format!(" {count} queries"),
        };
        lines.push(head.and(Tone::Plain, queries));
        lines.extend(component.capabilities.iter().map(|word| capability("may", word)));
        let used: Vec<_> =
            component.used.iter().map(|(what, count)| format!("{what} {count}")).collect();
        if !used.is_empty() {
            lines.push(field("used", &used.join(", ")));
        }
    }
    if found.task_id.is_some() {
        lines.push(Line::of(Tone::Strong, "Changed by the task, and the gate depends on it"));
        if found.gate_inputs_changed.is_empty() {
            lines.push(field("", "nothing"));
        }
    }
    for input in &found.gate_inputs_changed {
        let digest =
            |digest: &Option<String>| digest.as_deref().map_or("nothing", short).to_owned();
        let (before, after) = (digest(&input.sha256_before), digest(&input.sha256_after));
        let line = format!("  {} ({}, {before} to {after})", input.path, input.why);
        lines.push(Line::of(Tone::Caution, line));
    }
    lines
}

fn manifest(run_id: &str, check: &ManifestCheck) -> Vec<Line> {
    match check {
        ManifestCheck::Agrees => vec![field("manifest", "says the same")],
        ManifestCheck::Gone => vec![field("manifest", "is not there (any more)")],
        ManifestCheck::Differs(fields) => {
            let what = format!("  manifest says something else about: {}", fields.join(", "));
            vec![Line::of(Tone::Bad, what), field("", &cure(run_id))]
        }
    }
}

pub(super) fn restarted(found: &AuditRestarted) -> Vec<Line> {
    let kept = found.kept_as.as_ref().map_or_else(
        || "There was no log any more".to_owned(),
        |name| format!("The old log is kept as {name}"),
    );
    vec![Line::plain(format!("{kept}; a new one begins with record {}", found.seq))]
}
