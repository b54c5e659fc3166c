//! The failure matrix of a stuck report: attempt, step, first failing line, and what each strategy changed
//! (pure). It stays small however long a task was and whatever its texts hold.

use std::fmt::Write as _;

use super::markdown::{code, cut, quote, some};
use super::verified_run::VerifiedRun;
use act_core::verification::Status;

/// Newest runs that are shown; the debug loop itself makes twelve at most without a green one.
const RUNS: usize = 24;
/// Steps that have a column and a name.
const STEPS: usize = 30;
const STEP_NAME: usize = 60;
const STRATEGY: usize = 600;
const FILES: usize = 12;

/// What was tried, and what it did to the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strategy {
    pub text: String,
    /// The REPLAN that brought it, and the attempt after which; none for the first plan and for one that the
    /// model made of its own accord.
    pub replan: Option<Replan>,
    /// Scouts that were asked again for it.
    pub requery: Vec<String>,
    /// Files that differ from the tree it began with.
    pub changed: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replan {
    pub number: u32,
    pub after_attempt: u32,
}

pub(super) fn matrix(steps: &[String], strategies: &[Strategy], runs: &[VerifiedRun]) -> String {
    let earlier = runs.len().saturating_sub(RUNS);
    let shown = runs.get(earlier..).unwrap_or_default();
    let mut out = String::new();
    if !steps.is_empty() && !shown.is_empty() {
        out.push_str(&legend(steps));
    }
    if earlier > 0 {
        let _ = writeln!(out, "{earlier} earlier runs are left out.\n");
    }
    if shown.is_empty() {
        out.push_str("nothing was verified\n");
    }
    for (strategy, number) in strategies.iter().zip(1..) {
        let mine: Vec<_> = shown.iter().filter(|run| run.strategy == number).collect();
        let last = number as usize == strategies.len();
        if mine.is_empty() && !last {
            continue;
        }
        let replan = strategy.replan.map(|replan| {
            format!(", REPLAN {} after attempt {}", replan.number, replan.after_attempt)
        });
        let _ = write!(
            out,
            "{}### Strategy {number}{}\n\n{}\nFiles it changed: {}\n",
            if out.is_empty() || out.ends_with("\n\n") { "" } else { "\n" },
            replan.unwrap_or_default(),
            quote(&cut(&strategy.text, STRATEGY)),
            some(&strategy.changed, FILES, |file| code(file)),
        );
        if strategy.replan.is_some() {
            let asked = some(&strategy.requery, FILES, |scout| code(scout));
            let before = runs.iter().rev().find(|run| run.strategy < number);
            let effect = effect(before, mine.last().copied());
            let _ = write!(out, "Scouts asked again: {asked}\nEffect: {effect}\n");
        }
        if !mine.is_empty() {
            out.push('\n');
        }
        for run in mine {
            out.push_str(&row(run, steps.len(), runs));
        }
    }
    out
}

fn legend(steps: &[String]) -> String {
    let numbered: Vec<_> = steps.iter().zip(1..).collect();
    let names = some(&numbered, STEPS, |(name, number)| {
        format!("{number} {}", code(&cut(name, STEP_NAME)))
    });
    format!(
        "`+` passed, `x` failed, `?` cut short by the machine, `.` not reached. Steps: {names}\n\n"
    )
}

fn row(run: &VerifiedRun, steps: usize, runs: &[VerifiedRun]) -> String {
    let mut out = format!("- attempt {}: ", run.attempt);
    if let Some(cells) = cells(run, steps) {
        let _ = write!(out, "`{cells}` ");
    }
    out.push_str(&run.run_id.as_deref().map_or("no run".into(), code));
    if run.failing_step.is_none() {
        let _ = write!(out, ", {}", code(run.status.as_str()));
    }
    if let Some(step) = &run.failing_step {
        let _ = write!(out, ", step {}", code(&cut(step, STEP_NAME)));
    }
    if let Some(reason) = &run.reason {
        let _ = write!(out, ", {}", code(reason));
    }
    match same_before(run, runs) {
        Some(first) => {
            let _ = write!(out, ": the same as attempt {first}");
        }
        None => {
            let line = run.first_failing_line.as_deref().filter(|line| !line.is_empty());
            if let Some(line) = line {
                let _ = write!(out, ": {}", code(line));
            }
        }
    }
    out.push('\n');
    out
}

/// One character for each step; none where they are too many to be looked at.
fn cells(run: &VerifiedRun, steps: usize) -> Option<String> {
    if steps == 0 || steps > STEPS {
        return None;
    }
    let last = run.steps_run.checked_sub(1);
    let ended = match (&run.failing_step, run.status.as_str()) {
        (Some(_), _) => 'x',
        (None, "INFRA_ERROR") => '?',
        (None, _) => '+',
    };
    let cell = |at| match last {
        Some(last) if at == last => ended,
        Some(last) if at < last => '+',
        _ => '.',
    };
    Some((0..steps).map(cell).collect())
}

/// The first attempt since the last green run that failed in exactly this way.
fn same_before(run: &VerifiedRun, runs: &[VerifiedRun]) -> Option<u32> {
    let at = runs.iter().position(|other| std::ptr::eq(other, run))?;
    let before = runs.get(..at)?;
    let since =
        before.iter().rposition(|other| other.status == Status::Pass).map_or(0, |at| at + 1);
    // A line that is not shown cannot be referred to.
    let since = since.max(runs.len().saturating_sub(RUNS));
    let first = before.get(since..)?.iter().find(|other| same_failure(other, run))?;
    Some(first.attempt)
}

fn same_failure(a: &VerifiedRun, b: &VerifiedRun) -> bool {
    let how = |run: &VerifiedRun| {
        (run.status, run.steps_run, run.failing_step.clone(), run.reason.clone())
    };
    a.status == Status::Fail && how(a) == how(b) && a.first_failing_line == b.first_failing_line
}

/// What a REPLAN changed in the end, from the last run before it and the last one under it.
fn effect(before: Option<&VerifiedRun>, after: Option<&VerifiedRun>) -> String {
    let (Some(before), Some(after)) = (before, after) else { return "not verified".into() };
    if after.status != Status::Fail {
        return format!("ended with {}", code(after.status.as_str()));
    }
    if before.status != Status::Fail {
        return format!("step {} fails", after.steps_run);
    }
    match after.steps_run.cmp(&before.steps_run) {
        std::cmp::Ordering::Greater => format!("got further, to step {}", after.steps_run),
        std::cmp::Ordering::Less => format!("fell back to step {}", after.steps_run),
        std::cmp::Ordering::Equal if same_failure(before, after) => "none, the same failure".into(),
        std::cmp::Ordering::Equal => "the same step, another failure".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(attempt: u32, strategy: u32, steps_run: usize, line: &str) -> VerifiedRun {
        VerifiedRun {
            attempt,
            strategy,
            run_id: Some(format!("run_{attempt}")),
            status: Status::Fail,
            steps_run,
            failing_step: Some(["build", "test", "lint"][steps_run - 1].into()),
            reason: Some("step_failed".into()),
            first_failing_line: Some(line.into()),
        }
    }

    fn steps() -> Vec<String> {
        ["build", "test", "lint"].map(str::to_owned).to_vec()
    }

    fn replanned(number: u32, after_attempt: u32) -> Option<Replan> {
        Some(Replan { number, after_attempt })
    }

    // CONTEXT-10
    #[test]
    fn a_matrix_shows_attempts_steps_lines_and_what_each_replan_changed() {
        let strategies = [
            Strategy {
                text: "flip the sign".into(),
                changed: vec!["add.sh".into()],
                ..Strategy::default()
            },
            Strategy {
                text: "rewrite add".into(),
                replan: replanned(1, 3),
                requery: vec!["scout-a".into()],
                changed: vec!["add.sh".into(), "sub.sh".into()],
            },
        ];
        let runs = [
            failed(1, 1, 2, "expected 5"),
            failed(2, 1, 1, "syntax error"),
            failed(3, 1, 2, "expected 5"),
            failed(4, 2, 3, "a line is too long"),
        ];
        assert_eq!(
            matrix(&steps(), &strategies, &runs),
            "`+` passed, `x` failed, `?` cut short by the machine, `.` not reached. Steps: 1 `build`, 2 `test`, 3 `lint`\n\n\
             ### Strategy 1\n\n> flip the sign\n\nFiles it changed: `add.sh`\n\n\
             - attempt 1: `+x.` `run_1`, step `test`, `step_failed`: `expected 5`\n\
             - attempt 2: `x..` `run_2`, step `build`, `step_failed`: `syntax error`\n\
             - attempt 3: `+x.` `run_3`, step `test`, `step_failed`: the same as attempt 1\n\n\
             ### Strategy 2, REPLAN 1 after attempt 3\n\n> rewrite add\n\n\
             Files it changed: `add.sh`, `sub.sh`\nScouts asked again: `scout-a`\n\
             Effect: got further, to step 3\n\n\
             - attempt 4: `++x` `run_4`, step `lint`, `step_failed`: `a line is too long`\n"
        );
    }

    #[test]
    fn the_effect_of_a_replan_is_read_from_the_runs_around_it() {
        let before = failed(3, 1, 2, "expected 5");
        let pass = VerifiedRun { status: Status::Pass, ..before.clone() };
        for (after, said) in [
            (Some(failed(6, 2, 2, "expected 5")), "none, the same failure"),
            (Some(failed(6, 2, 2, "expected 6")), "the same step, another failure"),
            (Some(failed(6, 2, 3, "x")), "got further, to step 3"),
            (Some(failed(6, 2, 1, "x")), "fell back to step 1"),
            (Some(pass), "ended with `PASS`"),
            (None, "not verified"),
        ] {
            assert_eq!(effect(Some(&before), after.as_ref()), said);
        }
    }

    #[test]
    fn trouble_before_a_run_and_a_tree_that_changed_have_no_failing_step() {
        let mut changed = failed(1, 1, 3, "");
        (changed.failing_step, changed.reason) = (None, Some("tree_changed".into()));
        let mut infra = changed.clone();
        (infra.run_id, infra.steps_run, infra.status) = (None, 0, Status::InfraError);
        infra.reason = Some("image_pull".into());
        let text = matrix(&steps(), &[Strategy::default()], &[changed, infra]);
        assert!(text.contains("- attempt 1: `+++` `run_1`, `FAIL`, `tree_changed`\n"), "{text}");
        assert!(
            text.contains("- attempt 1: `...` no run, `INFRA_ERROR`, `image_pull`\n"),
            "{text}"
        );
        let mut killed = failed(1, 1, 2, "");
        (killed.failing_step, killed.status) = (None, Status::InfraError);
        let text = matrix(&steps(), &[Strategy::default()], &[killed]);
        assert!(text.contains("- attempt 1: `+?.` `run_1`, `INFRA_ERROR`"), "{text}");
    }

    // CONTEXT-10
    #[test]
    fn the_longest_task_with_the_longest_texts_stays_readable() {
        let long = "x".repeat(100_000);
        let steps: Vec<_> = (0..20).map(|n| format!("{n}{long}")).collect();
        let strategies: Vec<_> = (0..200)
            .map(|n| Strategy {
                text: long.clone(),
                replan: replanned(n, n),
                changed: (0..1000).map(|n| format!("dir/file{n}.rs")).collect(),
                ..Strategy::default()
            })
            .collect();
        let run = |n: u32| VerifiedRun {
            failing_step: Some(long.clone()),
            steps_run: 20,
            first_failing_line: Some(format!("{n}{}", "y".repeat(199))),
            ..failed(n % 12 + 1, n, 1, "")
        };
        let twelve: Vec<_> = (189..=200).map(run).collect();
        let text = matrix(&steps, &strategies, &twelve);
        assert!(text.len() < 20_000, "{}", text.len());
        assert_eq!(text.lines().filter(|line| line.starts_with("- attempt")).count(), 12);
        let many: Vec<_> = (1..=200).map(run).collect();
        let text = matrix(&steps, &strategies, &many);
        assert!(text.len() < 40_000 && text.contains("176 earlier runs are left out"), "{text}");
    }

    #[test]
    fn pipelines_of_many_steps_have_names_but_no_columns() {
        let steps: Vec<_> = (0..100).map(|n| format!("s{n}")).collect();
        let text = matrix(&steps, &[Strategy::default()], &[failed(1, 1, 3, "x")]);
        assert!(text.contains("30 `s29` and 70 more\n"), "{text}");
        assert!(text.contains("- attempt 1: `run_1`, step `lint`"), "{text}");
    }
}
