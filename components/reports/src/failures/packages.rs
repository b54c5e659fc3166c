//! Reads failures of package managers to resolve or to download: cargo, pip, npm and similar ones.

use super::log::Log;
use super::{Failing, Reading};

fn reading(log: &Log, tool: &'static str, at: usize, message: &str) -> Reading {
    Reading {
        tool,
        end: at,
        region: at..log.len(),
        failing: vec![Failing::new(
            "",
            Some(message.trim().to_owned()),
            at..log.len().min(at + 60),
        )],
        ..Reading::default()
    }
}

pub(super) fn cargo(log: &Log) -> Option<Reading> {
    const SAID: [&str; 13] = [
        "error: no matching package",
        "error: failed to select a version",
        "error: failed to get ",
        "error: failed to parse manifest",
        "error: failed to load manifest",
        "error: failed to download",
        "error: could not find `Cargo.toml`",
        "error: the lock file ",
        "error: cannot update the lock file",
        "error: no such command",
        "error: package ID specification",
        "error: failed to load source for dependency",
        "error: rustc ",
    ];
    let at = log.position(|line| {
        SAID.iter().any(|message| line.starts_with(message))
            || (line.starts_with("error: package `") && line.contains("cannot be built"))
    })?;
    Some(reading(log, "cargo", at, log.line(at)))
}

pub(super) fn pip(log: &Log) -> Option<Reading> {
    const SAID: [&str; 9] = [
        "ERROR: Could not find a version that satisfies",
        "ERROR: No matching distribution found",
        "ERROR: ResolutionImpossible",
        "ERROR: Cannot install ",
        "ERROR: Could not open requirements file",
        "ERROR: Package ",
        "ERROR: Failed building wheel",
        "ERROR: Invalid requirement",
        "error: externally-managed-environment",
    ];
    let at = log.position(|line| SAID.iter().any(|message| line.starts_with(message)));
    if let Some(at) = at {
        return Some(reading(log, "pip", at, log.line(at).trim_start_matches("ERROR: ")));
    }
    let uv = log.position(|line| line.trim_start().starts_with("× No solution found"))?;
    let message = log.line(uv).trim_start().trim_start_matches("× ").to_owned();
    Some(reading(log, "uv", uv, &message))
}

/// Reads `npm ERR! code X` and, since version 10, `npm error code X`.
pub(super) fn npm(log: &Log) -> Option<Reading> {
    let message = |line: &str| {
        let rest = line.strip_prefix("npm ERR! ").or_else(|| line.strip_prefix("npm error "))?;
        Some(rest.trim().to_owned())
    };
    let lines = log.iter().filter_map(|(at, line)| Some((at, message(line)?))).collect::<Vec<_>>();
    if let Some((at, _)) = lines.first() {
        let code = lines.iter().find_map(|(_, line)| line.strip_prefix("code ")).map(str::trim);
        let text = |line: &&(usize, String)| {
            !["code ", "syscall", "path ", "errno", "dest "]
                .iter()
                .any(|word| line.1.starts_with(word))
                && !line.1.is_empty()
        };
        let first = lines.iter().find(text).map_or("", |(_, line)| line);
        let first = match code {
            Some(code) if !first.contains(code) => format!("{code} {first}"),
            _ => first.to_owned(),
        };
        return Some(reading(log, "npm", *at, &first));
    }
    let pnpm = log.position(|line| line.trim_start().starts_with("ERR_PNPM_"));
    if let Some(at) = pnpm {
        return Some(reading(log, "pnpm", at, log.line(at)));
    }
    let yarn = log.position(|line| line.starts_with("error "))?;
    log.holds("yarnpkg.com").then(|| reading(log, "yarn", yarn, log.line(yarn)))
}
