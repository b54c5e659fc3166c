//! `act edit`: versioned documents. Every answer is one JSON document on stdout.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Subcommand};
use edit_protocol::{Decision, Refusal};
use serde::Serialize;

use crate::output::Output;
use act_core::exit::Exit;
use act_documents::{Listing, MAX_BYTES, Publishing, Refused};
use act_records::artifacts::ArtifactDir;

const AFTER_HELP: &str = "\
Examples:
  act edit show --file doc.json
  act edit edit_line --file doc.json --expect_version 3 --index 0 --new \"a line\"
  act edit full_rewrite --file doc.json --expect_version 4 --content-file -
  act edit finish --file doc.json --expect_version 5 --decision pass

Exit codes:
  0 done, 1 refused, nothing was changed";

const EDIT_LINE_HELP: &str = "\
Examples:
  act edit edit_line --file doc.json --expect_version 3 --index 0 --new \"a line\"

Exit codes:
  0 replaced: {\"ok\":true,\"new_version\":4}; 1 refused, nothing was changed";

const FULL_REWRITE_HELP: &str = "\
Examples:
  act edit full_rewrite --file doc.json --expect_version 4 --content \"one line\"
  act edit full_rewrite --file d.json --expect_version 4 --content-file text.md

Exit codes:
  0 replaced: {\"ok\":true,\"new_version\":5,\"line_count\":1}; 1 refused and
  nothing changed";

const FINISH_HELP: &str = "\
Examples:
  act edit finish --file doc.json --expect_version 5 --decision pass
  act edit finish --file d.json --expect_version 5 --decision hold --notes typos

Exit codes:
  0 finished, 1 refused, nothing was changed";

const SHOW_HELP: &str = "\
Examples:
  act edit show --file doc.json
  act edit show --file doc.json | jq .version

Exit codes:
  0 shown, 1 the file cannot be read or is not a document";

const QUEUE_HELP: &str = "\
Examples:
  act edit queue

Exit codes:
  0 listed, even if the queue is empty; 1 the queue cannot be read";

const REVIEW_HELP: &str = "\
Examples:
  act edit review

Exit codes:
  0 listed, even if the queue is empty; 1 the queue cannot be read";

/// Edit a versioned document by lines
///
/// A document is a JSON file: {"doc_id": …, "version": …, "meta": {…}, "lines": {"0": "…"}}; lines are counted from 0.
/// Every edit names the version that it was based on; of two edits of one version only one succeeds. The answer is
/// {"ok":true,…}, or {"ok":false,"reason":…} with exit code 1.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Edit {
    #[command(subcommand)]
    action: Action,
    /// Print one JSON document; this is also the default
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Replace one line
    #[command(name = "edit_line", alias = "edit-line", after_long_help = EDIT_LINE_HELP)]
    EditLine(EditLine),
    /// Replace the whole text
    #[command(name = "full_rewrite", alias = "full-rewrite", after_long_help = FULL_REWRITE_HELP)]
    FullRewrite(FullRewrite),
    /// Put the document into the publishing queue or the review queue
    #[command(after_long_help = FINISH_HELP)]
    Finish(Finish),
    /// Show the document
    #[command(after_long_help = SHOW_HELP)]
    Show(Document),
    /// List the documents of the publishing queue
    #[command(after_long_help = QUEUE_HELP)]
    Queue,
    /// List the documents of the review queue
    #[command(after_long_help = REVIEW_HELP)]
    Review,
}

#[derive(Debug, Args)]
struct Document {
    /// File of the document
    #[arg(long, value_name = "DOC.json")]
    file: PathBuf,
}

#[derive(Debug, Args)]
struct Expected {
    #[command(flatten)]
    document: Document,
    /// Version that the edit is based on
    #[arg(long = "expect_version", visible_alias = "expect-version", value_name = "VERSION")]
    #[arg(value_parser = integer)]
    expect_version: u64,
}

#[derive(Debug, Args)]
struct EditLine {
    #[command(flatten)]
    expected: Expected,
    /// Number of the line, counted from 0
    #[arg(long, value_parser = integer)]
    index: u64,
    /// New text of the line
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    new: OsString,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("text").required(true).args(["content", "content_file"]))]
struct FullRewrite {
    #[command(flatten)]
    expected: Expected,
    /// The new text; `-` reads it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    content: Option<OsString>,
    /// File with the new text; `-` reads standard input
    #[arg(long = "content-file", visible_alias = "content_file", value_name = "FILE")]
    content_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Finish {
    #[command(flatten)]
    expected: Expected,
    /// `pass` or `hold`
    #[arg(long, allow_hyphen_values = true)]
    decision: OsString,
    /// Notes that are stored with the decision
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    notes: OsString,
}

impl Edit {
    pub(super) fn run(self, output: &Output) -> Exit {
        match self.action.perform() {
            Ok(Performed::Edit(answer)) => {
                output.json(&answer);
                Exit::Ok
            }
            Ok(Performed::List(listing)) => {
                output.document(&listing);
                Exit::Ok
            }
            Err(refused) => {
                output.json(&Answer::from(&refused).print());
                Exit::Refused
            }
        }
    }
}

impl Action {
    /// Performs the edit and returns the answer of a success.
    fn perform(self) -> Result<Performed, Refused> {
        let answer = match self {
            Self::EditLine(EditLine { expected, index, new }) => {
                let new = text("--new", new)?;
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                let after = act_documents::edit_line(
                    expected.path(),
                    expected.expect_version,
                    index,
                    &new,
                )?;
                Answer { new_version: Some(after.version()), ..yes() }.print()
            }
            Self::FullRewrite(FullRewrite { expected, content, content_file }) => {
                let content = content_of(content, content_file)?;
                let after = act_documents::full_rewrite(
                    expected.path(),
                    expected.expect_version,
                    &content,
                )?;
                let (version, count) = (after.version(), after.lines().len());
                Answer { new_version: Some(version), line_count: Some(count), ..yes() }.print()
            }
            Self::Finish(Finish { expected, decision, notes }) => {
                // Bytes that are not text cannot be a decision, so any replacement is refused as well.
                let decision = decision.to_string_lossy();
                let notes = text("--notes", notes)?;
                let path = expected.path();
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let place = || publishing(directory.unwrap_or(Path::new(".")));
                let decision =
                    act_documents::finish(path, expected.expect_version, &decision, &notes, place)?;
                let decision = Some(decision.word());
                Answer { decision, notes: Some(notes), ..yes() }.print()
            }
            Self::Show(document) => act_documents::show(&document.file)?.print(),
            Self::Queue => return listed(Decision::Pass),
            Self::Review => return listed(Decision::Hold),
        };
        Ok(Performed::Edit(answer))
    }
}

/// What an action of `act edit` answers with.
enum Performed {
    /// An answer of the document protocol, or the document itself, as JSON text. The protocol defines it exactly.
    Edit(String),
    List(Listing),
}

impl Expected {
    fn path(&self) -> &Path {
        &self.document.file
    }
}

fn listed(decision: Decision) -> Result<Performed, Refused> {
    publishing(Path::new("."))?.list(decision).map(Performed::List)
}

/// The answer to an edit: `ok`, and the fields of this call or of the refusal; fields without a value are omitted.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Answer {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<String>,
    /// Why the edit was refused, as a stable word.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_version: Option<u64>,
    /// The largest index of a line; -1 in an empty document.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_index: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

fn yes() -> Answer {
    Answer { ok: true, ..Answer::default() }
}

impl Answer {
    fn print(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Converts a refusal: a refusal of the protocol has fields of its own, any other refusal has a message.
impl From<&Refused> for Answer {
    fn from(refused: &Refused) -> Self {
        let answer = Self { reason: Some(refused.reason()), ..Self::default() };
        match refused {
            Refused::Protocol(Refusal::VersionMismatch { current_version }) => {
                Self { current_version: Some(*current_version), ..answer }
            }
            Refused::Protocol(Refusal::IndexOutOfBounds { max_index }) => {
                Self { max_index: Some(*max_index), ..answer }
            }
            Refused::Protocol(Refusal::BadArguments { message }) => {
                Self { message: Some(message.clone()), ..answer }
            }
            Refused::Protocol(_) => answer,
            other => Self { message: Some(other.to_string()), ..answer },
        }
    }
}

/// Opens the queues in ARTIFACT_DIR, which must not be inside the repository of `directory`.
fn publishing(directory: &Path) -> Result<Publishing, Refused> {
    let no_place = |error: &dyn std::fmt::Display| Refused::NoPlace(error.to_string());
    let root = act_config::find_root(directory).map_err(|error| no_place(&error))?;
    let variable = std::env::var_os;
    let place = ArtifactDir::locate(variable("AGENT_ARTIFACT_DIR"), variable("HOME"));
    let place = place.map_err(|error| no_place(&error))?;
    let artifacts = ArtifactDir::open_for(&place, root.as_ref().map(|root| root.path.as_path()));
    let artifacts = artifacts.map_err(|error| no_place(&error))?;
    Publishing::open(&artifacts.state().map_err(|error| no_place(&error))?)
}

/// Parses any whole number. Numbers outside of `u64` become `u64::MAX`, which no version and no index can have.
fn integer(text: &str) -> Result<u64, &'static str> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a whole number");
    }
    match text.strip_prefix('+').unwrap_or(text).parse::<i128>() {
        Ok(number) => Ok(u64::try_from(number).unwrap_or(u64::MAX)),
        Err(_) => Ok(u64::MAX),
    }
}

fn text(name: &str, value: OsString) -> Result<String, Refused> {
    value.into_string().map_err(|_| Refused::Content(format!("{name} is not UTF-8 text")))
}

/// Reads the new text; the parser has made sure that there is exactly one source.
fn content_of(words: Option<OsString>, file: Option<PathBuf>) -> Result<String, Refused> {
    let dash = |path: &PathBuf| path.as_os_str() == "-";
    let (name, read) = match (words, file) {
        (Some(words), _) if words != "-" => return text("--content", words),
        (None, Some(file)) if !dash(&file) => {
            (file.display().to_string(), File::open(&file).and_then(bytes))
        }
        _ => ("standard input".to_owned(), bytes(io::stdin().lock())),
    };
    let read = read.map_err(|error| Refused::Content(format!("{name} cannot be read: {error}")))?;
    if read.len() as u64 > MAX_BYTES {
        return Err(Refused::TooLarge);
    }
    String::from_utf8(read).map_err(|_| Refused::Content(format!("{name} is not UTF-8 text")))
}

fn bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The answer of `edit show`: the document as it is in its file, including fields that act does not know.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[schemars(title = "Document", extend("additionalProperties" = true))]
    #[allow(dead_code, reason = "read for its shape")]
    struct Shown {
        doc_id: String,
        version: u64,
        meta: BTreeMap<String, serde_json::Value>,
        /// By their index, from 0.
        lines: BTreeMap<String, String>,
    }

    // EDIT-36
    #[test]
    fn the_schema_of_a_document_is_what_is_shown() {
        let text = r#"{"doc_id":"d","version":1,"meta":{"a":[1]},"lines":{"0":"x"},"more":null}"#;
        let snapshot = edit_protocol::Snapshot::parse(text).unwrap();
        let shown: Shown = serde_json::from_str(&snapshot.print()).unwrap();
        assert_eq!((shown.version, shown.lines["0"].as_str()), (1, "x"));
        act_core::event::schema::holds::<Shown>("edit-show");
    }

    #[test]
    fn the_schemas_are_written_down() {
        act_core::event::schema::holds::<Answer>("edit");
        act_core::event::schema::document_holds::<Listing>();
    }

    // security line 182
    #[test]
    fn numbers_that_nothing_has_stand_for_none_and_never_for_another() {
        assert_eq!((integer("0"), integer("+7")), (Ok(0), Ok(7)));
        for none in ["-1", "18446744073709551616", "-18446744073709551616", &"9".repeat(60)] {
            assert_eq!(integer(none), Ok(u64::MAX), "{none}");
        }
        for no_number in ["", "-", "1.0", "1e3", "0x1", " 1", "--1", "+-1", "one"] {
            assert!(integer(no_number).is_err(), "{no_number}");
        }
    }
}
