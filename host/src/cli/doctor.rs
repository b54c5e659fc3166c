//! `act doctor`: checks everything that a task needs, and says how to fix what is missing.

use super::repo::RepoArg;
use super::runtime;
use crate::doctor::{self, Check, DoctorArgs, Level, Progress, Report};
use crate::output::{Line, Output, Tone};
use act_core::Failure;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  act doctor
  act doctor --model       also request one tool call from the model; uses a few tokens
  act doctor --excluded    also list the tracked files that Scouts cannot see";

/// Check everything that a task needs
///
/// Nothing is changed. Each red line says how to fix the problem; the exit code is 1 if there is one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Doctor {
    /// Also make one real request to the model, with a tool to call
    #[arg(long)]
    model: bool,
    /// Also list the tracked files that Scouts cannot see, and why
    #[arg(long)]
    excluded: bool,
    #[command(flatten)]
    at: RepoArg,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl Doctor {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let args = DoctorArgs { repo: self.at.repo, model: self.model, excluded: self.excluded };
        let mut tell = |told: Progress<'_>| match told {
            Progress::Check(_) if output.is_json() => {}
            Progress::Check(found) => check(&with_fix_for_here(found, output))
                .iter()
                .for_each(|line| output.result_line(line)),
            Progress::Waiting(what) => output.progress(&Line::of(Tone::Faint, what)),
        };
        let mut report = runtime::block_on(doctor::examine(&args, &mut tell))?;
        if output.is_json() {
            report.checks =
                report.checks.iter().map(|check| with_fix_for_here(check, output)).collect();
            output.document(&report);
        } else {
            hidden(&report).iter().for_each(|line| output.result_line(line));
        }
        Ok(if report.healthy { Exit::Ok } else { Exit::Refused })
    }
}

/// Returns the check with a fix that can be typed in the current directory.
fn with_fix_for_here(check: &Check, output: &Output) -> Check {
    let fix = check.fix.as_deref().map(|fix| output.told(fix).into_owned());
    Check { fix, ..check.clone() }
}

/// The list of hidden files below the checks.
fn hidden(report: &Report) -> Vec<Line> {
    let mut lines = vec![];
    if let Some(excluded) = &report.excluded {
        lines.push(Line::plain(""));
        lines.push(match excluded.is_empty() {
            true => Line::plain("Scouts can see every tracked file."),
            false => Line::of(Tone::Strong, "Tracked files that Scouts cannot see:"),
        });
        lines.extend(excluded.iter().map(|file| {
            let rule = file.rule.replace('_', " ");
            Line::plain(format!("  {} ", file.path)).and(Tone::Faint, format!("({rule})"))
        }));
    }
    lines
}

fn check(check: &Check) -> Vec<Line> {
    let (tone, word) = match check.level {
        Level::Ok => (Tone::Good, "ok   "),
        Level::Note => (Tone::Caution, "note "),
        Level::Red => (Tone::Bad, "RED  "),
    };
    let name = check.name.replace('_', " ");
    let line = Line::of(tone, word)
        .and(Tone::Strong, format!("{name:<11}"))
        .and(Tone::Plain, format!(" {}", check.message));
    let fix = check.fix.as_ref().map(|fix| Line::of(tone, "     fix: ").and(Tone::Plain, fix));
    std::iter::once(line).chain(fix).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_red_line_is_followed_by_its_fix() {
        // DOCTOR-2
        let red = Check {
            name: "model_call",
            level: Level::Red,
            message: "no answer\x1b[2J".into(),
            fix: Some("start it".into()),
        };
        let mut lines = check(&red);
        let report = Report { healthy: false, checks: vec![red], excluded: Some(vec![]) };
        lines.extend(hidden(&report));
        let text: String = lines.iter().map(|line| line.render(false)).collect();
        assert_eq!(
            text,
            "RED  model call  no answer\n     fix: start it\n\nScouts can see every tracked file.\n"
        );
    }
}
