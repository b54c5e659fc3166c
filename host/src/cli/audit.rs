//! `act audit`: shows and checks the record of everything that was done.

use chrono::{DateTime, NaiveDate, Utc};
use clap::Subcommand;

use super::audit_lines as lines;
use super::repo_arg::RepoArg;
use crate::output::{Line, Output};
use crate::task::{self, AuditFilter};
use act_core::Failure;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  act audit list --deny
  act audit explain run_20260131_235959_a1b2c3
  act audit verify

Exit codes:
  0 in order, 1 not in order, or there is no such record";

const LIST_HELP: &str = "\
Examples:
  act audit list --deny                       every access that was denied
  act audit list --task t-p2jww3 --json
  act audit list --since 2026-11-21 --component scout-a

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
  act audit verify --head HASH                check that the log contains a hash that you noted down
  act audit verify --accept-restart 41        accept a gap after you have looked into it

Exit codes:
  0 in order, 1 changed, cut off or restarted, or the hash of --head is missing";

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
  0 explained, 1 the run is not in the log, its manifest differs, or the store has no result for it";

const EXPORT_HELP: &str = "\
Examples:
  act audit export run_20260131_235959_a1b2c3 --in-toto > statement.json

Exit codes:
  0 printed, 1 refused: no such run, no verdict, or a log or manifest that was changed";

const RESTART_HELP: &str = "\
Examples:
  act audit restart

Exit codes:
  0 restarted, 1 refused: the log is in order";

/// Show and check the record of everything that was done
///
/// The log records each component that was loaded or refused, the resources of its queries, every denial, every edit,
/// and the inputs of each verification. Records are chained by their hashes, so that later changes are detected.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Audit {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    at: RepoArg,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
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
    /// and components. Refused if the log was changed or differs from the manifest of the run. It is not signed.
    #[command(after_long_help = EXPORT_HELP)]
    Export {
        /// Id of the verification, as shown by `act history`, `act verify` and the summary of its task
        #[arg(value_name = "RUN_ID")]
        run_id: String,
        /// Print an in-toto Statement v1 with a test-result predicate
        #[arg(long, required = true)]
        in_toto: bool,
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
        let Self { what, at: RepoArg { repo }, json } = self;
        let say = |all: Vec<Line>| all.iter().for_each(|line| output.result_line(line));
        match what {
            What::List(list) => {
                let found = task::audit_list(&repo, &list.filter())?;
                if json { output.document(&found) } else { say(lines::list(&found)) }
            }
            What::Show { seq } => {
                let record = task::audit_show(&repo, seq)?;
                if json { output.document(&record) } else { say(lines::record(&record)) }
            }
            What::Verify { head, accept_restart } => {
                let head = head.as_deref();
                let found = match accept_restart {
                    Some(seq) => task::audit_accept(&repo, head, seq, output)?,
                    None => task::audit_verify(&repo, head)?,
                };
                if json {
                    output.document(&found)
                } else {
                    say(lines::verification(&found, head))
                }
                return Ok(if found.ok { Exit::Ok } else { Exit::Refused });
            }
            What::Grants { at } => {
                let found = task::audit_grants(&repo, at.unwrap_or_else(act_core::clock::now))?;
                if json { output.document(&found) } else { say(lines::grants(&found)) }
            }
            What::Explain { run_id } => {
                let found = task::audit_explain(&repo, &run_id)?;
                if json {
                    output.document(&found)
                } else {
                    say(lines::explanation(&found))
                }
                let differs = matches!(found.manifest, task::ManifestCheck::Differs(_))
                    || found.disputed.is_some();
                return Ok(if differs { Exit::Refused } else { Exit::Ok });
            }
            What::Export { run_id, in_toto: _ } => {
                output.document(&task::audit_export(&repo, &run_id)?);
            }
            What::Restart => {
                let found = task::audit_restart(&repo, output)?;
                if json { output.document(&found) } else { say(lines::restarted(&found)) }
            }
        }
        Ok(Exit::Ok)
    }
}

impl List {
    fn filter(self) -> AuditFilter {
        let Self { task, component, deny, since, until, limit } = self;
        AuditFilter { task, component, denied: deny, since, until, limit: limit as usize }
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

/// Of a date its last moment, of a second as well.
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
