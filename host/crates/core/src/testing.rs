//! For the tests of every crate: a test that cannot run on a machine says so instead of passing in silence, and the
//! event of a task that ended.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::TaskState;
use crate::event::EventKind;
use crate::exit::Exit;

/// Returns the event of a task that ended and has nothing to report but its state and exit code.
pub fn task_finished(state: TaskState, exit: Exit) -> EventKind {
    EventKind::TaskFinished {
        state,
        exit_code: exit as u8,
        run_id: None,
        reason: None,
        summary: None,
        report_path: None,
        tokens: Default::default(),
        cost_usd: None,
        gate_inputs_changed: vec![],
        edits_refused: Default::default(),
    }
}

/// Returns the checkout whose tests run: the nearest directory above the package of the running test that holds
/// `specs/schemas`. Cargo names the package when it runs a test; the path from the time of compilation would be another one
/// where several checkouts share a target directory.
///
/// # Panics
///
/// Outside of `cargo test`.
#[allow(clippy::expect_used, reason = "a test that cannot go on panics")]
pub fn checkout() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    let above = Path::new(&package).ancestors();
    let found = above.into_iter().find(|directory| directory.join("specs/schemas").is_dir());
    found.expect("the tests run in a checkout").to_owned()
}

/// Reports that the running test, or a part of it, cannot run on this machine. The caller returns afterwards.
///
/// libtest knows no such outcome and counts the test as passed. Therefore the reason is written to stderr past
/// libtest's capture, and appended to the file that `ACT_SKIPPED_TESTS` names: `scripts/test` reads that file, lists the
/// reasons and does not count those tests as passed.
pub fn skip(reason: impl std::fmt::Display) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a test"));
    // libtest captures `eprintln`. A failure to write is ignored, because there is no other place to report it.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("ACT_SKIPPED_TESTS") {
        let file = std::fs::File::options().create(true).append(true).open(path);
        // Two test binaries may have tests of one name.
        let line = format!("{}\t{line}", std::process::id());
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
