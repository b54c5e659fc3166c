//! Finds the commit that `act --version` prints, and hands it to the program as `ACT_COMMIT`.
//!
//! The first of these places that knows it counts: the environment variable `ACT_COMMIT`, for whoever builds outside of a
//! checkout; `host/COMMIT`, into which `git archive` writes the commit; the checkout itself. Without any of them the commit is
//! `unknown`. One commit gives one text, so the build stays reproducible.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

const VARIABLE: &str = "ACT_COMMIT";

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=COMMIT");
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    let commit = match env::var(VARIABLE).ok().filter(|text| !text.is_empty()) {
        Some(text) if is_commit(&text) => text,
        Some(_) => {
            println!(
                "cargo:error={VARIABLE} is not a commit: 40 or 64 hexadecimal digits, a-f in lower case"
            );
            return ExitCode::FAILURE;
        }
        None => archived().or_else(checked_out).unwrap_or_else(|| "unknown".to_owned()),
    };
    println!("cargo:rustc-env={VARIABLE}={commit}");
    ExitCode::SUCCESS
}

/// Returns the commit that `git archive` wrote into `COMMIT`. In a checkout the file holds the placeholder for it.
fn archived() -> Option<String> {
    let text = fs::read_to_string("COMMIT").ok()?;
    Some(text.trim().to_owned()).filter(|text| is_commit(text))
}

/// Returns the commit of the checkout that this package lies in. A repository further up, in which somebody unpacked the
/// source, has commits of something else.
fn checked_out() -> Option<String> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?).parent()?.canonicalize().ok()?;
    let top = git(&root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root {
        return None;
    }
    // Each commit and each switch of branches adds a line to this log. Without the log, the commit cannot be watched.
    let log = root.join(git(&root, &["rev-parse", "--git-path", "logs/HEAD"])?);
    if !log.is_file() {
        return None;
    }
    println!("cargo:rerun-if-changed={}", log.display());
    git(&root, &["rev-parse", "HEAD"]).filter(|text| is_commit(text))
}

fn git(directory: &Path, arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    // A build that a hook of git started must not look at the repository of that hook.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(variable);
    }
    let output = git.current_dir(directory).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end_matches('\n').to_owned())
}

fn is_commit(text: &str) -> bool {
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    matches!(text.len(), 40 | 64) && text.chars().all(hex)
}
