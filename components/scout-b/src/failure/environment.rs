//! Finds what the environment lacks, and says what to do about it. It never advises to ignore a failure.

use crate::tree::Tree;
use act_kit::quoting::cut;
use act_kit::reports::failures::Log;
use act_kit::reports::report_b::{EnvironmentIssue, Severity};

const MOST: usize = 10;

use Severity::{Blocking, Warning};

/// Text in a line, its severity, and what to do.
const ISSUES: [(&str, Severity, &str); 40] = [
    ("No space left on device", Blocking, "free disk space, or give the container more"),
    (
        "Read-only file system",
        Blocking,
        "write below TMPDIR or another writable directory, or use another workspace mode",
    ),
    (
        "Could not resolve host",
        Blocking,
        "allow the network for this step, or install in an earlier one",
    ),
    (
        "Temporary failure in name resolution",
        Blocking,
        "allow the network for this step, or install in an earlier one",
    ),
    (
        "getaddrinfo EAI_AGAIN",
        Blocking,
        "allow the network for this step, or install in an earlier one",
    ),
    (
        "getaddrinfo ENOTFOUND",
        Blocking,
        "allow the network for this step, or correct the host's name",
    ),
    (
        "Network is unreachable",
        Blocking,
        "allow the network for this step, or install in an earlier one",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        Blocking,
        "give the container the certificate authority it must trust",
    ),
    (
        "self-signed certificate",
        Blocking,
        "give the container the certificate authority it must trust",
    ),
    (
        "JavaScript heap out of memory",
        Blocking,
        "give the container more memory, or NODE_OPTIONS=--max-old-space-size",
    ),
    ("java.lang.OutOfMemoryError", Blocking, "give the container or the JVM more memory"),
    (
        "virtual memory exhausted",
        Blocking,
        "give the container more memory, or build with fewer jobs",
    ),
    (
        "Cannot connect to the Docker daemon",
        Blocking,
        "the tests need a Docker engine, which a container does not have",
    ),
    ("ECONNREFUSED", Blocking, "start the service that is connected to, in the step itself"),
    ("Connection refused", Blocking, "start the service that is connected to, in the step itself"),
    ("EADDRINUSE", Warning, "let tests take a free port (0), or end what holds this one"),
    (
        "Address already in use",
        Warning,
        "let tests take a free port (0), or end what holds this one",
    ),
    ("EBADENGINE", Warning, "use an image with the version of node that package.json asks for"),
    (
        "requires a different Python",
        Blocking,
        "use an image with a version of Python that requires-python allows",
    ),
    (
        "ERESOLVE",
        Blocking,
        "bring the versions of the dependencies in line; the report names the two that disagree",
    ),
    (
        "can only install packages when your package.json and package-lock.json",
        Blocking,
        "bring package-lock.json up to date (npm install) and commit it",
    ),
    (
        "ERR_PNPM_OUTDATED_LOCKFILE",
        Blocking,
        "bring pnpm-lock.yaml up to date (pnpm install) and commit it",
    ),
    ("needs to be updated but", Blocking, "bring the lock file up to date and commit it"),
    (
        "because --locked was passed",
        Blocking,
        "bring Cargo.lock up to date (cargo check) and commit it",
    ),
    ("missing go.sum entry", Blocking, "bring go.sum up to date (go mod tidy) and commit it"),
    ("externally-managed-environment", Blocking, "install into a virtual environment"),
    (
        "linker `cc` not found",
        Blocking,
        "use an image with a C compiler, or install one in an earlier step",
    ),
    (
        "is not installed for the toolchain",
        Blocking,
        "install the toolchain or target in an earlier step, or use an image that has it",
    ),
    ("invalid target release", Blocking, "use an image with a newer JDK"),
    ("release version", Blocking, "use an image with a JDK of that version"),
    ("UnsupportedClassVersionError", Blocking, "use an image with a newer JDK"),
    ("JAVA_HOME", Blocking, "use an image with a JDK, and set JAVA_HOME"),
    (
        "version `GLIBC_",
        Blocking,
        "use an image with a newer C library, or build what was brought along in the image",
    ),
    ("requires rustc ", Blocking, "use an image with a newer Rust"),
    (
        "Could not find a version that satisfies the requirement",
        Blocking,
        "correct name or version of the requirement, allow the network, or use a version of Python it supports",
    ),
    ("No matching version found for", Blocking, "correct name or version of the requirement"),
    (
        "Cannot access central",
        Blocking,
        "allow the network for this step, or fetch dependencies in an earlier one",
    ),
    (
        "have conflicting dependencies",
        Blocking,
        "bring the versions of the requirements in line; the report names those that disagree",
    ),
    (
        "Could not transfer artifact",
        Blocking,
        "allow the network for this step, or fetch dependencies in an earlier one",
    ),
    ("Executable doesn't exist at", Blocking, "install the browsers in an earlier step"),
];

pub(super) fn issues(log: &Log, tree: &Tree<'_>) -> Vec<EnvironmentIssue> {
    let mut issues = Vec::<EnvironmentIssue>::new();
    for (_, line) in log.iter() {
        let Some((severity, fix)) = issue(line, tree) else { continue };
        if issues.len() < MOST && !issues.iter().any(|known| known.suggested_fix == fix) {
            issues.push(EnvironmentIssue {
                issue: cut(line.trim(), 200),
                severity,
                suggested_fix: fix,
            });
        }
    }
    issues
}

fn issue(line: &str, tree: &Tree<'_>) -> Option<(Severity, String)> {
    if let Some(found) = command(line).or_else(|| module(line, tree)).or_else(|| header(line, tree))
    {
        return Some((Blocking, found));
    }
    if line.contains("release version") && !line.contains("not supported") {
        return None;
    }
    if line.contains("JAVA_HOME") && !line.contains("not ") {
        return None;
    }
    if let Some((_, severity, fix)) = ISSUES.iter().find(|(text, ..)| line.contains(text)) {
        return Some((*severity, (*fix).to_owned()));
    }
    let denied = line.contains("Permission denied") || line.contains("EACCES");
    denied.then(|| (Warning, "check the mode and the owner of what is named".to_owned()))
}

/// Finds a missing program: `sh: 1: ruff: not found`, `bash: line 3: ruff: command not found`.
fn command(line: &str) -> Option<String> {
    let before =
        line.strip_suffix(": not found").or_else(|| line.strip_suffix(": command not found"));
    let before = before.or_else(|| {
        line.strip_suffix(": No such file or directory").filter(|_| line.starts_with("make: "))
    });
    let name = before?.rsplit([' ', ':']).next()?.trim();
    let shell = ["sh: ", "bash: ", "/bin/sh: ", "/bin/bash: ", "make: ", "dash: "]
        .iter()
        .any(|shell| line.contains(shell));
    (shell && !name.is_empty() && name.len() < 60)
        .then(|| format!("use an image that has {name}, or install it in an earlier step"))
}

/// Finds a module that is not installed. A module of the repository is missing for another reason.
fn module(line: &str, tree: &Tree<'_>) -> Option<String> {
    if let Some((_, rest)) = line.split_once("ModuleNotFoundError: No module named ") {
        let name = rest.trim().trim_matches(['\'', '"']);
        let top = name.split('.').next()?;
        let own = tree.inventory.paths().any(|path| {
            path == format!("{top}.py")
                || path.ends_with(&format!("/{top}.py"))
                || path == format!("{top}/__init__.py")
                || path.ends_with(&format!("/{top}/__init__.py"))
        });
        return Some(match own {
            true => format!(
                "{top} is of this repository: install the project (pip install -e .), or put its directory on PYTHONPATH"
            ),
            false => format!("install {top} with the project's dependencies in an earlier step"),
        });
    }
    let rest =
        line.split_once("Cannot find module ").or_else(|| line.split_once("Cannot find package "));
    let name = rest?.1.split(['\'', '"']).nth(1)?;
    let package = !name.starts_with(['.', '/', '#', '~']) && !name.starts_with("node:");
    package.then(|| format!("install {name} with the project's dependencies in an earlier step"))
}

/// Finds a missing header or library of the system.
fn header(line: &str, tree: &Tree<'_>) -> Option<String> {
    if let Some((_, rest)) = line.split_once("fatal error: ") {
        let name = rest.split(": No such file").next().filter(|_| rest.contains("No such file"));
        let name =
            name.or_else(|| rest.split('\'').nth(1).filter(|_| rest.contains("file not found")))?;
        let own =
            tree.inventory.paths().any(|path| path == name || path.ends_with(&format!("/{name}")));
        return (!own).then(|| {
            format!("install the development package that has {name} in an earlier step")
        });
    }
    let (_, rest) = line.split_once("cannot find -l")?;
    let name = rest.split([':', ' ']).next()?;
    Some(format!("install the development package of lib{name} in an earlier step"))
}
