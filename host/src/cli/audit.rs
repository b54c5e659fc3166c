//! `act audit`: shows and checks the record of everything that was done.

use std::fmt::Write as _;
use std::path::PathBuf;

use chrono::{DateTime, NaiveDate, Utc};
use clap::Subcommand;

use super::{CommonOptions, answer};
use crate::output::{Line, Output, Tone};
use act_audit::{Decision, History, LogVerification, Record, Subject, cure};
use act_core::Failure;
use act_core::exit::Exit;
use act_task::{
    self as task, AuditFilter, AuditList, AuditRestarted, Explanation, GrantsAt, ManifestCheck,
};

const AFTER_HELP: &str = "\
Examples:
  act audit list --deny
  act audit explain run_20260131_235959_a1b2c3
  act audit verify

Exit codes:
  0 in order, 1 not in order, or there is no such record";

const LIST_HELP: &str = "\
Examples:
  act audit list --deny    every access that was denied
  act audit list --task t-p2jww3 --json
  act audit list --since 2026-11-21 --component scout-a
  act audit list --repo .  the records of this repository alone

Exit codes:
  0 listed, even if there are no records; 1 the log cannot be read";

const SHOW_HELP: &str = "\
Examples:
  act audit show 12
  act audit show 12 --json | jq .digests

Exit codes:
  0 shown, 1 there is no such record";

const VERIFY_HELP: &str = "\
Examples:
  act audit verify
  act audit verify --head HASH            the log must contain this hash
  act audit verify --accept-restart 41    accept a gap that you can explain

Exit codes:
  0 in order, 1 changed, cut off or restarted, or without the hash of --head";

const GRANTS_HELP: &str = "\
Examples:
  act audit grants
  act audit grants --at 2026-11-21T16:00:00Z

Exit codes:
  0 shown, 1 the log cannot be read";

const EXPLAIN_HELP: &str = "\
Examples:
  act audit explain run_20260131_235959_a1b2c3
  act audit explain run_20260131_235959_a1b2c3 --json

Exit codes:
  0 explained, 1 the run is not in the log, its manifest differs, or the
  store has no result for it";

const EXPORT_HELP: &str = "\
Examples:
  act audit export run_20260131_235959_a1b2c3 --in-toto > statement.json
  act audit export run_20260131_235959_a1b2c3 --in-toto --sign ~/ci.pem

Exit codes:
  0 printed, 1 refused: no such run, no verdict, or the log or the manifest
  was changed";

const ANCHOR_HELP: &str = "\
Examples:
  act audit anchor
  act audit anchor --send

Exit codes:
  0 printed, and sent with --send; 1 refused, or not sent";

const RESTART_HELP: &str = "\
Examples:
  act audit restart

Exit codes:
  0 restarted, 1 refused: the log is in order";

/// Show and check the record of all actions
///
/// The log records each component that was loaded or refused, the resources of its queries, every denial, every edit,
/// and the inputs of each verification. Records are chained by their hashes, so that later changes are detected.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Audit {
    #[command(subcommand)]
    command: AuditCommand,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// List records, oldest first
    #[command(after_long_help = LIST_HELP)]
    List(List),
    /// Show one record with all its fields
    #[command(after_long_help = SHOW_HELP)]
    Show {
        /// Number of the record, the first column of `act audit list`
        #[arg(value_name = "SEQ")]
        seq: u64,
    },
    /// Check that no record is missing or changed
    ///
    /// Names the first bad record and ends with 1. Also compares the log with the store and the manifests of the runs,
    /// so that a log that was cut off or rewritten is detected.
    #[command(after_long_help = VERIFY_HELP)]
    Verify {
        /// A hash that you noted down, which the log must contain
        #[arg(long, value_name = "HASH", value_parser = hash)]
        head: Option<String>,
        /// Accept the gap before record SEQ, where the log was restarted
        ///
        /// The acceptance is recorded. Later losses or changes are reported again.
        #[arg(long, value_name = "SEQ")]
        accept_restart: Option<u64>,
    },
    /// Show the permissions of each component at a point in time
    #[command(after_long_help = GRANTS_HELP)]
    Grants {
        /// A time such as 2026-11-21T16:00:00Z, or a date; default: now
        #[arg(long, value_name = "TIME", value_parser = end_of)]
        at: Option<DateTime<Utc>>,
    },
    /// Show the inputs of a verification
    ///
    /// Prints the digests of the pipeline, the image, the working tree and the components, the resources they used, and
    /// the changes of the task that could have made the pipeline easier to pass.
    #[command(after_long_help = EXPLAIN_HELP)]
    Explain {
        /// Id of the verification, as shown by `act history`, `act verify` and the summary of its task
        #[arg(value_name = "RUN_ID")]
        run_id: String,
    },
    /// Export a verification as an attestation, for other tools
    ///
    /// Prints an in-toto statement with the working tree as its subject, the verdict, and the digests of pipeline, image
    /// and components. Refused if the log was changed or differs from the manifest or the logs of the run.
    #[command(after_long_help = EXPORT_HELP)]
    Export {
        /// Id of the verification, as shown by `act history`, `act verify` and the summary of its task
        #[arg(value_name = "RUN_ID")]
        run_id: String,
        /// Print an in-toto Statement v1 with a test-result predicate
        #[arg(long, required = true)]
        in_toto: bool,
        /// Sign the statement with this private key and print a DSSE envelope
        ///
        /// The file holds an unencrypted PKCS#8 key in PEM, Ed25519 or P-256. It must be yours alone (mode 0600) and lie
        /// outside of the repository.
        #[arg(long, value_name = "KEY")]
        sign: Option<PathBuf>,
    },
    /// Print the number and the hash of the last record
    ///
    /// Keep them where the user of this machine cannot change them: `act audit verify --head HASH` then shows whether the log
    /// was rewritten.
    #[command(after_long_help = ANCHOR_HELP)]
    Anchor {
        /// Also run the command in ~/.config/act/anchor, which sends them to another machine
        #[arg(long)]
        send: bool,
    },
    /// Start a new log if the old one was changed or cut off
    ///
    /// The old log is stored under another name. The first record of the new log names it and continues the numbers.
    #[command(after_long_help = RESTART_HELP)]
    Restart,
}

#[derive(Debug, clap::Args)]
struct List {
    /// List the records of one task
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// List the records of one component: its name, or the beginning of its sha256
    #[arg(long, value_name = "NAME")]
    component: Option<String>,
    /// List denials and exceeded limits only
    #[arg(long)]
    deny: bool,
    /// List records from this time on, such as 2026-11-21T16:00:00Z, or a date
    #[arg(long, value_name = "TIME", value_parser = beginning_of)]
    since: Option<DateTime<Utc>>,
    /// List records up to this time
    #[arg(long, value_name = "TIME", value_parser = end_of)]
    until: Option<DateTime<Utc>>,
    /// Maximum number of records to list; the last ones are listed
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

impl Audit {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let Self { command, common: CommonOptions { repo, .. } } = self;
        match command {
            AuditCommand::List(list) => {
                let filter = AuditFilter { here: output.names_repo(), ..list.filter() };
                let list = task::audit_list(&repo, &filter)?;
                answer(output, &list, || list_lines(&list));
            }
            AuditCommand::Show { seq } => {
                let record = task::audit_show(&repo, seq)?;
                match output.is_json() {
                    true => output.verbatim(&record),
                    false => record_lines(&record).iter().for_each(|line| output.result_line(line)),
                }
            }
            AuditCommand::Verify { head, accept_restart } => {
                let head = head.as_deref();
                let found = match accept_restart {
                    Some(seq) => task::audit_accept(&repo, head, seq, &output.events())?,
                    None => task::audit_verify(&repo, head)?,
                };
                answer(output, &found, || verification_lines(&found, head));
                return Ok(if found.ok { Exit::Ok } else { Exit::Refused });
            }
            AuditCommand::Grants { at } => {
                let grants = task::audit_grants(&repo, at.unwrap_or_else(act_core::clock::now))?;
                answer(output, &grants, || grants_lines(&grants));
            }
            AuditCommand::Explain { run_id } => {
                let found = task::audit_explain(&repo, &run_id)?;
                answer(output, &found, || explanation_lines(&found));
                let differs = matches!(found.manifest, task::ManifestCheck::Differs(_));
                let doubtful = differs || found.disputed.is_some() || found.log_damaged.is_some();
                return Ok(if doubtful { Exit::Refused } else { Exit::Ok });
            }
            AuditCommand::Export { run_id, in_toto: _, sign: None } => {
                let (statement, logs_cut) = task::audit_export(&repo, &run_id)?;
                output.verbatim(&statement);
                note_cut_logs(output, &logs_cut);
            }
            AuditCommand::Export { run_id, in_toto: _, sign: Some(key) } => {
                let (envelope, logs_cut) = task::audit_export_signed(&repo, &run_id, &key)?;
                output.verbatim(&envelope);
                note_cut_logs(output, &logs_cut);
            }
            AuditCommand::Anchor { send } => {
                let anchored = task::audit_anchor(&repo, send)?;
                answer(output, &anchored, || {
                    vec![Line::plain(format!("{} {}", anchored.seq, anchored.head))]
                });
            }
            AuditCommand::Restart => {
                let restarted = task::audit_restart(&repo, &output.events())?;
                answer(output, &restarted, || restarted_lines(&restarted));
            }
        }
        Ok(Exit::Ok)
    }
}

impl List {
    fn filter(self) -> AuditFilter {
        let Self { task, component, deny, since, until, limit } = self;
        let (limit, here) = (limit as usize, false);
        AuditFilter { task, component, denied: deny, here, since, until, limit }
    }
}

fn hash(text: &str) -> Result<String, String> {
    let is_one = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_one {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("a hash has 64 hexadecimal digits".to_owned())
    }
}

fn beginning_of(text: &str) -> Result<DateTime<Utc>, String> {
    time(text, false)
}

/// Parses a time. A date means its last moment, and so does a whole second.
fn end_of(text: &str) -> Result<DateTime<Utc>, String> {
    time(text, true)
}

fn time(text: &str, end: bool) -> Result<DateTime<Utc>, String> {
    if let Ok(date) = text.parse::<NaiveDate>() {
        let of_day =
            if end { date.and_hms_milli_opt(23, 59, 59, 999) } else { date.and_hms_opt(0, 0, 0) };
        return of_day.map(|time| time.and_utc()).ok_or_else(|| "no such date".to_owned());
    }
    let time = DateTime::parse_from_rfc3339(text)
        .map_err(|_| "write it like 2026-11-21T16:00:00Z or 2026-11-21".to_owned())?
        .to_utc();
    let rest = if end && time.timestamp_subsec_millis() == 0 { 999 } else { 0 };
    Ok(time + chrono::TimeDelta::milliseconds(rest))
}

/// Number of digits of a digest that are printed; they are enough to compare two by eye.
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

/// Returns the line of a capability. Limits are not permissions, so they have a name of their own.
fn capability(may: &str, word: &str) -> Line {
    match word.strip_prefix("limits ") {
        Some(limits) => field("within", limits),
        None => field(may, word),
    }
}

/// Returns the line of a field, or `None` without a value.
fn field_of(name: &str, value: Option<&str>) -> Option<Line> {
    value.map(|value| field(name, value))
}

/// Width of the column with the name of the repository.
const REPOSITORY: usize = 12;

fn list_lines(found: &AuditList) -> Vec<Line> {
    let mut lines: Vec<_> = found.records.iter().map(|record| one(record, found)).collect();
    if found.left_out > 0 {
        let more = format!("{} earlier ones are left out; --limit shows more", found.left_out);
        lines.insert(0, Line::of(Tone::Faint, more));
    }
    if lines.is_empty() {
        let none = if found.head.is_some() { "No such record" } else { "Nothing was recorded yet" };
        lines.push(Line::plain(none));
    }
    if found.unreadable > 0 {
        let what = format!("{} lines are not records", found.unreadable);
        lines.push(
            Line::of(Tone::Bad, what).and(Tone::Plain, "; `act audit verify` names the first"),
        );
    }
    lines
}

/// `12  2026-11-21T16:40:01.123Z  shop  edit  allow  src/a.rs  t-abc123`
fn one(record: &Record, list: &AuditList) -> Line {
    let decision = record.decision.map_or("", Decision::as_str);
    let repo: String = list.repository(record).unwrap_or("-").chars().take(REPOSITORY).collect();
    let head =
        format!("{:>6}  {}  {repo:<REPOSITORY$}  {:<20} ", record.seq, record.time, record.event);
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

fn record_lines(record: &Record) -> Vec<Line> {
    let mut lines = vec![Line::of(Tone::Strong, format!("{} {}", record.seq, record.event))];
    let decision = record.decision.map(Decision::as_str);
    let repo = record.repo.as_ref().map(|repo| {
        let of = repo.worktree_of.as_ref().map(|of| format!(", a worktree of {of}"));
        let head = repo.head.as_deref().unwrap_or("no commit");
        format!("{} at {head}{}", repo.identity, of.unwrap_or_default())
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

fn verification_lines(found: &LogVerification, asked: Option<&str>) -> Vec<Line> {
    let mut lines = vec![];
    match &found.bad {
        Some(bad) => {
            let place = bad.line.map(|line| format!(" (line {line})")).unwrap_or_default();
            let what = format!("Record {}{place} was changed or is missing", bad.seq);
            lines.push(Line::of(Tone::Bad, what).and(Tone::Plain, format!(": {}", bad.why)));
            let before = format!("the {} records before it are in order", found.records);
            lines.push(Line::of(Tone::Faint, before));
        }
        None => {
            let what = format!("{} records, complete and unchanged", found.records);
            lines.push(Line::of(Tone::Good, what));
        }
    }
    if let Some(head) = &found.head {
        lines.push(field("last", &format!("{} {}", head.seq, head.hash)));
    }
    for row in &found.store_differs {
        let what = Line::of(Tone::Bad, "The store was changed");
        lines.push(what.and(Tone::Plain, format!(": {row}")));
    }
    if found.bad.is_none() && found.store_differs.is_empty() {
        let store = found.store.as_ref().map_or_else(
            || "has no head yet".to_owned(),
            |head| format!("agrees, at record {}", head.seq),
        );
        lines.push(field("store", &store));
    }
    if found.bad.is_none() {
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
        let torn = format!(
            "{} incomplete lines of stopped processes, each recorded by the next one",
            found.recovered
        );
        lines.push(field("torn", &torn));
    }
    if found.torn_bytes > 0 {
        let torn = format!("{} bytes at the end, of a process that was stopped", found.torn_bytes);
        lines.push(field("torn", &torn));
    }
    let against = "changes of single files, and other users; not a program of your own user that rewrites everything, \
                   unless a head is kept elsewhere (act audit anchor, verify --head)";
    lines.push(Line::of(Tone::Faint, "  against        ").and(Tone::Faint, against));
    lines
}

/// Returns how many manifests agree, and the runs that cannot be compared.
fn manifests(found: &LogVerification) -> Vec<Line> {
    let agree = if found.runs_compared > 0 { ", all agree" } else { "" };
    let unknown = |run: String| Line::of(Tone::Caution, "  unknown        ").and(Tone::Plain, run);
    let mut lines = vec![field("manifests", &format!("{} compared{agree}", found.runs_compared))];
    for run in &found.runs_unknown {
        let why = "its record would be in the missing part";
        let by = run.accepted_seq.map(|by| format!("; accepted by record {by}"));
        lines.push(unknown(format!("{}: {why}{}", run.run_id, by.unwrap_or_default())));
    }
    for evidence in &found.evidence_unknown {
        let why = "the record of its evidence may be in the missing part";
        let by = evidence.accepted_seq.map(|by| format!("; accepted by record {by}"));
        lines.push(unknown(format!("{}: {why}{}", evidence.run_id, by.unwrap_or_default())));
    }
    lines.extend(found.logs_cut.iter().map(|log| field("in part", log)));
    for run in &found.runs_without_head {
        let why = "its manifest cannot be read or names no record of the log";
        lines.push(unknown(format!("{run}: {why}; {}", cure(run))));
    }
    lines
}

/// Returns the earlier logs after a restart, and how to accept a gap in the history.
fn history(found: &LogVerification) -> Vec<Line> {
    let Some(seq) = found.restarted_at else { return vec![] };
    let mut lines = vec![field("restarted", &format!("with record {seq}"))];
    for log in &found.earlier {
        lines.push(match &log.missing {
            None => field("before", &format!("{}, {} records, in order", log.name, log.records)),
            Some(why) => {
                let what = format!("History is missing up to record {}", log.seq);
                Line::of(Tone::Bad, what).and(Tone::Plain, format!(": {}: {why}", log.name))
            }
        });
        lines.extend(
            log.accepted_seq.map(|by| field("accepted", &format!("as it is now, by record {by}"))),
        );
    }
    match found.history {
        History::Whole => {}
        History::Missing => {
            let how = format!("after you know the reason: act audit verify --accept-restart {seq}");
            lines.push(field("accept", &how));
        }
        History::Accepted => {}
    }
    lines
}

/// Follows a change that no `act components` command has recorded in this log.
const ELSEWHERE: &str = " by hand or under another ARTIFACT_DIR";

fn grants_lines(found: &GrantsAt) -> Vec<Line> {
    let mut lines = vec![Line::of(
        Tone::Faint,
        format!("Permissions at {}, after record {}", found.at, found.seq),
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
        lines.extend(field_of("replaces", component.replaces.as_deref()));
        lines.extend(field_of("only in", component.repository.as_deref()));
        let held = matches!(component.state.as_str(), "approved" | "in_use");
        let had = if held { "may" } else { "had" };
        lines.extend(component.capabilities.iter().map(|word| capability(had, word)));
        lines.extend(field_of("loaded last", component.last_loaded.as_deref()));
    }
    if let Some(file) = &found.file {
        let what = match file.reason.as_deref() {
            Some("gone") => format!("{} was removed", file.path),
            Some("not_written") => format!("{} could not be written after the decision", file.path),
            _ => format!("{} was changed{ELSEWHERE}", file.path),
        };
        let seen = format!("; found {} (record {}); it grants:", file.seen, file.seen_seq);
        lines.push(Line::of(Tone::Caution, what).and(Tone::Plain, seen));
        lines.extend(file.grants.iter().map(|grant| field("", grant)));
    }
    if found.components.is_empty() && found.file.is_none() {
        let none =
            "No component had a permission yet; built-in ones are listed from their first use";
        lines.push(Line::plain(none));
    }
    lines
}

fn explanation_lines(found: &Explanation) -> Vec<Line> {
    let outcome = found.outcome.as_deref().unwrap_or("without an end");
    let good = if outcome == "pass" { Tone::Good } else { Tone::Bad };
    let mut lines: Vec<_> = found
        .log_damaged
        .iter()
        .map(|why| {
            let rest = format!(": {why}; what follows may not be true");
            Line::of(Tone::Bad, "The audit log is damaged").and(Tone::Plain, rest)
        })
        .collect();
    lines.push(Line::of(Tone::Strong, &found.run_id).and(good, format!(" {outcome}")));
    let task = found.task_id.as_ref().map_or_else(
        || "none: act verify".to_owned(),
        |task| format!("{task}, attempt {}", found.attempt),
    );
    let commit = found.repo.as_ref().and_then(|repo| repo.head.as_deref());
    let compares = found.compares.as_ref().map(|purpose| {
        format!("{purpose}: on another tree than the working tree, so it is no verdict about that")
    });
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
        ("pipeline", found.pipeline_sha256.as_deref()),
        ("image", found.image_digest.as_deref()),
        ("engine", found.engine.as_deref()),
        ("tree", found.tree_digest.as_deref()),
        (
            "tree after",
            found
                .tree_digest_after
                .as_deref()
                .filter(|after| Some(*after) != found.tree_digest.as_deref()),
        ),
        ("commit", commit),
        ("worktree", found.worktree_identity.as_deref()),
        ("warm base", found.base.as_deref()),
        ("compares", compares.as_deref()),
        ("requested", found.container_request_sha256.as_deref()),
        ("inspected", found.container_inspect_sha256.as_deref()),
        ("in the task", Some(edits.as_str()).filter(|_| found.task_id.is_some())),
        ("records", Some(records.as_str())),
    ];
    lines.extend(fields.iter().filter_map(|(name, value)| field_of(name, *value)));
    lines.extend(found.warnings.iter().flatten().map(|mark| field("warning", mark)));
    lines.extend(manifest(&found.run_id, &found.manifest));
    lines.extend(found.logs_cut.iter().map(|log| field("compared", log)));
    let disputed = found.disputed.as_ref();
    lines.extend(disputed.map(|why| Line::of(Tone::Bad, format!("  disputed       {why}"))));
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
    if !found.evidence.is_empty() {
        lines.push(field("evidence", &found.evidence.join("; ")));
    }
    if found.task_id.is_some() {
        lines.push(Line::of(
            Tone::Strong,
            "Changed by the task, and the verification depends on it",
        ));
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

/// Says which logs an export could compare only in part.
fn note_cut_logs(output: &Output, logs_cut: &[String]) {
    for log in logs_cut {
        output.notice(&format!("compared in part: {log}"));
    }
}

fn manifest(run_id: &str, check: &ManifestCheck) -> Vec<Line> {
    match check {
        ManifestCheck::Agrees => vec![field("manifest", "agrees")],
        ManifestCheck::Gone => vec![field("manifest", "was removed")],
        ManifestCheck::Differs(fields) => {
            let what = format!("  manifest differs in: {}", fields.join(", "));
            vec![Line::of(Tone::Bad, what), field("", &cure(run_id))]
        }
    }
}

fn restarted_lines(found: &AuditRestarted) -> Vec<Line> {
    let old = found
        .kept_as
        .as_ref()
        .map_or_else(|| "There was no log".to_owned(), |name| format!("The old log is now {name}"));
    vec![Line::plain(format!("{old}; the new log begins with record {}", found.seq))]
}

#[cfg(test)]
mod tests {
    use super::*;

    // AUDIT-17
    #[test]
    fn a_time_is_a_moment_or_a_whole_day() {
        let shown =
            |time: Result<DateTime<Utc>, String>| act_core::clock::milliseconds(time.unwrap());
        assert_eq!(shown(beginning_of("2026-11-21")), "2026-11-21T00:00:00.000Z");
        assert_eq!(shown(end_of("2026-11-21")), "2026-11-21T23:59:59.999Z");
        assert_eq!(shown(beginning_of("2026-11-21T16:00:00+01:00")), "2026-11-21T15:00:00.000Z");
        assert_eq!(shown(end_of("2026-11-21T16:00:00Z")), "2026-11-21T16:00:00.999Z");
        assert_eq!(shown(end_of("2026-11-21T16:00:00.5Z")), "2026-11-21T16:00:00.500Z");
        assert!(time("yesterday", false).is_err());
    }

    #[test]
    fn a_hash_is_whole() {
        assert!(hash(&"A".repeat(64)).is_ok_and(|hash| hash == "a".repeat(64)));
        assert!(hash("abc").is_err());
    }
}
