//! `act components test`: checks that a component does what its interfaces promise, and measures it.

use std::path::PathBuf;
use std::time::Duration;

use super::answer;
use crate::cli::block_on;
use crate::conformance::{self, CheckResult, Conformance, Options};
use crate::output::{Line, Output, Tone};
use act_component::registry::read_component_file;
use act_core::Failure;
use act_core::exit::Exit;
use act_model::scripted::Script;
use act_task::cancelled_by_signals;
use tokio_util::sync::CancellationToken;

pub(super) const USUAL: &str = "What can you say about this repository?";
/// Default time limit for one query. In a task a Scout has 60 s and a tool call 30 s.
const SECONDS: u64 = 30;
/// Time to remove the generated repository after a signal.
const TIDYING: Duration = Duration::from_secs(2);

const AFTER_HELP: &str = "\
Examples:
  act components test scout.wasm
  act components test scout.wasm --question \"where are dates parsed\" --timeout 5
  act components test scout.wasm --json | jq .conforms

Exit codes:
  0 it conforms, 1 a check failed or the test cannot run, 130 CANCELLED";

/// Test a component on a generated repository, with a scripted model
///
/// The component gets what its manifest requests, but only inside that repository: no network, no environment
/// variables, and no model but the scripted one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Test {
    /// The component: a .wasm file
    file: PathBuf,
    /// The question for a Scout
    #[arg(long, value_name = "TEXT", default_value = USUAL)]
    question: String,
    /// Text that is sent with the question, such as tail_log=TEXT; may be repeated
    #[arg(long, value_name = "NAME=TEXT", value_parser = named)]
    context: Vec<(String, String)>,
    /// Replies of the model, instead of generated ones (format: specs/scripted-model.md)
    #[arg(long, value_name = "FILE.yaml")]
    script: Option<PathBuf>,
    /// Time limit for one query, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = SECONDS, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

fn named(text: &str) -> Result<(String, String), &'static str> {
    let (name, text) = text.split_once('=').ok_or("NAME=TEXT was expected")?;
    Ok((name.to_owned(), text.to_owned()))
}

impl Test {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let bytes = read_component_file(&self.file).map_err(|error| {
            let message = format!("cannot read {}: {error}", self.file.display());
            Failure::refused("component_unreadable", message).hint("name a regular file")
        })?;
        let options = Options {
            question: self.question,
            context: self.context,
            script: self.script.as_deref().map(script).transpose()?,
            wall: Duration::from_secs(self.timeout),
            cache: act_component::cache_dir(),
        };
        let found = block_on(async {
            let stopped = cancelled_by_signals()?;
            until_stopped(bytes, options, &stopped).await
        })??;
        answer(output, &found, || lines(&found));
        Ok(if found.conforms { Exit::Ok } else { Exit::Refused })
    }
}

/// Runs the test until a signal ends it; the generated repository is removed. A component that is still being compiled
/// has no repository yet.
///
/// # Errors
///
/// The test cannot run, or was stopped.
pub(super) async fn until_stopped(
    bytes: Vec<u8>,
    options: Options,
    stopped: &CancellationToken,
) -> Result<Conformance, Failure> {
    let mut testing = tokio::spawn(async move { conformance::test(&bytes, &options).await });
    tokio::select! {
        biased;
        () = stopped.cancelled() => {}
        found = &mut testing => {
            let found = found.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
            return found.map_err(|error| {
                Failure::refused("test_failed", format!("cannot run the test: {error}"))
                    .hint("TMPDIR may name another directory for its repository")
            });
        }
    }
    testing.abort();
    let _ = tokio::time::timeout(TIDYING, testing).await;
    Err(Failure { exit: Exit::Cancelled, ..Failure::refused("cancelled", "cancelled") })
}

fn script(path: &std::path::Path) -> Result<Script, Failure> {
    let unusable = |why: String| {
        Failure::refused("script_unusable", format!("{}: {why}", path.display()))
            .hint("its format is in specs/scripted-model.md")
    };
    let bytes = read_component_file(path).map_err(|error| unusable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| unusable("it is not UTF-8 text".to_owned()))?;
    Script::from_yaml(&text).map_err(|error| unusable(error.to_string()))
}

pub(super) fn lines(found: &Conformance) -> Vec<Line> {
    let mut lines: Vec<_> = found
        .checks
        .iter()
        .map(|check| {
            let (tone, word) = match check.verdict {
                CheckResult::Pass => (Tone::Good, "pass"),
                CheckResult::Fail => (Tone::Bad, "FAIL"),
                CheckResult::Skipped => (Tone::Faint, "skip"),
            };
            let reason = check.reason.as_ref().map(|reason| format!(": {reason}"));
            Line::of(tone, word)
                .and(Tone::Plain, format!("  {}{}", check.name, reason.unwrap_or_default()))
        })
        .collect();
    let count = |verdict| found.checks.iter().filter(|check| check.verdict == verdict).count();
    let (tone, word) =
        if found.conforms { (Tone::Good, "Conforms") } else { (Tone::Bad, "Does not conform") };
    let failed = match count(CheckResult::Fail) {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let text =
        format!(": {} of {} checks passed{failed}", count(CheckResult::Pass), found.checks.len());
    lines.push(Line::of(tone, word).and(Tone::Plain, text));
    let how = if found.compiled { "compiled and loaded" } else { "loaded" };
    lines.push(Line::of(
        Tone::Faint,
        format!(
            "{how} in {} ms; {} queries, the slowest {} ms, at most {:.1} MiB of memory; {:.1} MiB of WebAssembly",
            found.load_ms,
            found.queries.len(),
            found.slowest_ms,
            mebibytes(found.memory_bytes),
            mebibytes(found.bytes)
        ),
    ));
    lines
}

#[expect(clippy::cast_precision_loss, reason = "one place after the point is shown")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
