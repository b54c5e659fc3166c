//! The text of `stuck_report.md`, which explains a task that did not reach a green run.

use std::fmt::Write as _;

use serde::Deserialize;

use super::markdown::{code, code_list, cut, quote, some};
use super::snapshot::VerifiedRun;
use act_audit::Head;
use act_core::verification::Status;

/// Characters of the task's text that are shown; the user has the whole text.
const TASK: usize = 2000;
/// Characters of one text of the model or of an error message that are shown.
const WORDS: usize = 1000;
/// Hypotheses that are shown.
const HYPOTHESES: usize = 12;
/// Files that are listed.
const FILES: usize = 50;

/// A possible explanation of the failure, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hypothesis {
    pub text: String,
    /// Empty where no run speaks for it, as in a task that was called impossible before a verification.
    pub run_id: String,
    /// A step, a file or a line.
    pub evidence: String,
}

/// A failure of the machine: its stable code and a message for the user.
#[derive(Debug, Clone)]
pub struct MachineFailure {
    pub code: String,
    pub message: String,
}

/// Everything that a stuck report lists.
#[derive(Debug, Clone, Default)]
pub struct StuckReport {
    pub task_id: String,
    pub task_text: String,
    /// `STUCK` or `INFRA_ERROR`.
    pub state: String,
    pub reason: String,
    /// The reason in a sentence, where the word alone does not tell the user what to do.
    pub explanation: Option<String>,
    pub hypotheses: Vec<Hypothesis>,
    /// The host derived the hypotheses from the failures, because the model gave none that can be checked.
    pub hypotheses_derived: bool,
    /// The failure of the machine that ended the task, if one did.
    pub infrastructure: Option<MachineFailure>,
    /// Names of the pipeline's steps, in order.
    pub steps: Vec<String>,
    pub strategies: Vec<Strategy>,
    pub runs: Vec<VerifiedRun>,
    pub files_modified: Vec<String>,
    /// Changed files that the verification depends on.
    pub gate_inputs_changed: Vec<String>,
    /// Places where existing tests demand less than at the start of the task, or something else.
    pub tests_weakened: Vec<String>,
    /// How many edits each rule refused: `protected: 3`.
    pub edits_refused: Vec<String>,
    /// Files that act itself wrote into the repository, beside its notes.
    pub host_wrote: Vec<String>,
    /// The newest record of the audit log.
    pub audit_head: Option<Head>,
    /// The result of the pipeline before the first edit.
    pub baseline: Option<String>,
}

impl StuckReport {
    /// Renders the report as Markdown.
    pub fn render(&self) -> String {
        // Writing to a string does not fail.
        let mut out = format!(
            "# Stuck report\n\n- task: {}\n- state: {}\n- reason: {}\n{}\n## Task\n\n{}",
            code(&self.task_id),
            code(&self.state),
            code(&self.reason),
            self.audit_head.as_ref().map(audited).unwrap_or_default(),
            quote(&cut(&self.task_text, TASK))
        );
        if let Some(explanation) = &self.explanation {
            let _ = write!(out, "\n## Why it ended\n\n{}", quote(explanation));
        }
        if let Some(failure) = &self.infrastructure {
            let _ = write!(
                out,
                "\n## Infrastructure\n\n- error: {}\n\n{}",
                code(&failure.code),
                quote(&cut(&failure.message, WORDS))
            );
        }
        if let Some(baseline) = &self.baseline {
            let baseline = quote(&cut(baseline, TASK));
            let _ = write!(out, "\n## Before the first edit\n\n{baseline}");
        }
        out.push_str("\n## Hypotheses\n\n");
        if self.hypotheses.is_empty() {
            out.push_str("none\n");
        } else if self.hypotheses_derived {
            out.push_str(
                "Derived from the failures alone; the model gave none that can be checked.\n\n",
            );
        }
        for (at, hypothesis) in self.hypotheses.iter().take(HYPOTHESES).enumerate() {
            let run = match hypothesis.run_id.as_str() {
                "" => String::new(),
                run_id => format!("- run: {}\n", code(run_id)),
            };
            let _ = write!(
                out,
                "{}{}\n{run}- evidence: {}\n",
                if at == 0 { "" } else { "\n" },
                quote(&cut(&hypothesis.text, WORDS)),
                code(&cut(&hypothesis.evidence, WORDS))
            );
        }
        let _ = write!(
            out,
            "\n## Failure matrix\n\n{}\n## Working tree\n\nChanges are kept. Files modified:\n\n{}",
            matrix(&self.steps, &self.strategies, &self.runs),
            files(&self.files_modified),
        );
        if !self.gate_inputs_changed.is_empty() {
            let changed = files(&self.gate_inputs_changed);
            let _ = write!(out, "\n## Changed, and verification depends on it\n\n{changed}");
        }
        if !self.tests_weakened.is_empty() {
            let weakened = files(&self.tests_weakened);
            let _ = write!(
                out,
                "\n## Existing tests that demand less, or something else\n\n{weakened}"
            );
        }
        if !self.edits_refused.is_empty() {
            let refused = code_list(&self.edits_refused);
            let _ = write!(out, "\n## Edits that were refused\n\n{refused}");
        }
        if !self.host_wrote.is_empty() {
            let wrote = code_list(&self.host_wrote);
            let _ = write!(out, "\n## Written by act itself\n\n{wrote}");
        }
        out
    }
}

fn audited(head: &Head) -> String {
    format!("- audit log: record {}, {}\n", head.seq, code(&head.hash))
}

fn files(files: &[String]) -> String {
    let mut list = code_list(files.get(..FILES).unwrap_or(files));
    if let Some(more) = files.len().checked_sub(FILES + 1) {
        let _ = writeln!(list, "\nand {} more", more + 1);
    }
    list
}

/// Newest runs that are shown: twice as many as the debug loop makes without a green one.
const RUNS: usize = 24;
/// Steps that have a column and a name; more would not fit on a line.
const STEPS: usize = 30;
/// Characters of a step's name that are shown.
const STEP_NAME: usize = 60;
/// Characters of a strategy's text that are shown.
const STRATEGY: usize = 600;
/// Changed files that are listed for each strategy.
const FILES_OF_STRATEGY: usize = 12;

/// A strategy that was tried, and what it changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strategy {
    pub text: String,
    /// The REPLAN that asked for the strategy; `None` for the first plan and for plans that the model changed by itself.
    pub replan: Option<Replan>,
    /// Scouts that the REPLAN asked again.
    pub requery: Vec<String>,
    /// Files that differ from the tree with which the strategy began.
    pub changed: Vec<String>,
}

/// A REPLAN, and the attempt after which it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replan {
    pub number: u32,
    pub after_attempt: u32,
}

/// Renders the failure matrix: attempts, failing steps, first failing lines, and what each strategy changed. The text stays
/// small however long the task was.
fn matrix(steps: &[String], strategies: &[Strategy], runs: &[VerifiedRun]) -> String {
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
            some(&strategy.changed, FILES_OF_STRATEGY, |file| code(file)),
        );
        if strategy.replan.is_some() {
            let asked = some(&strategy.requery, FILES_OF_STRATEGY, |scout| code(scout));
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
            let counts = run.counts();
            if !counts.is_empty() {
                let _ = write!(out, ", {counts}");
            }
            let line = run.first_failing_line();
            if !line.is_empty() {
                let _ = write!(out, ": {}", code(&line));
            }
        }
    }
    out.push('\n');
    out
}

/// One character for each step; `None` when the steps are too many for a line.
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

/// Returns the first attempt since the last green run that failed in exactly the same way.
fn same_before(run: &VerifiedRun, runs: &[VerifiedRun]) -> Option<u32> {
    let at = runs.iter().position(|other| std::ptr::eq(other, run))?;
    let before = runs.get(..at)?;
    let since =
        before.iter().rposition(|other| other.status == Status::Pass).map_or(0, |at| at + 1);
    // A row that is not shown cannot be referred to.
    let since = since.max(runs.len().saturating_sub(RUNS));
    let first = before.get(since..)?.iter().find(|other| same_failure(other, run))?;
    Some(first.attempt)
}

fn same_failure(a: &VerifiedRun, b: &VerifiedRun) -> bool {
    let how = |run: &VerifiedRun| {
        (run.status, run.steps_run, run.failing_step.clone(), run.reason.clone())
    };
    a.status == Status::Fail && how(a) == how(b) && a.first_failing_line() == b.first_failing_line()
}

/// Describes what a REPLAN achieved, from the last run before it and the last run of its strategy.
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

    mod matrix {
        use super::super::*;

        fn failed(attempt: u32, strategy: u32, steps_run: usize, line: &str) -> VerifiedRun {
            VerifiedRun {
                strategy,
                steps_run,
                ..VerifiedRun::failed(attempt, ["build", "test", "lint"][steps_run - 1], line)
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
            assert!(
                text.contains("- attempt 1: `+++` `run_1`, `FAIL`, `tree_changed`\n"),
                "{text}"
            );
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
                ..failed(n % 12 + 1, n, 1, &format!("{n}{}", "y".repeat(199)))
            };
            let twelve: Vec<_> = (189..=200).map(run).collect();
            let text = matrix(&steps, &strategies, &twelve);
            assert!(text.len() < 20_000, "{}", text.len());
            assert_eq!(text.lines().filter(|line| line.starts_with("- attempt")).count(), 12);
            let many: Vec<_> = (1..=200).map(run).collect();
            let text = matrix(&steps, &strategies, &many);
            assert!(
                text.len() < 40_000 && text.contains("176 earlier runs are left out"),
                "{text}"
            );
        }

        #[test]
        fn pipelines_of_many_steps_have_names_but_no_columns() {
            let steps: Vec<_> = (0..100).map(|n| format!("s{n}")).collect();
            let text = matrix(&steps, &[Strategy::default()], &[failed(1, 1, 3, "x")]);
            assert!(text.contains("30 `s29` and 70 more\n"), "{text}");
            assert!(text.contains("- attempt 1: `run_1`, step `lint`"), "{text}");
        }
    }

    #[test]
    fn a_report_names_every_run_and_cites_evidence() {
        // CONTEXT-8, CONTEXT-10
        let report = StuckReport {
            task_id: "t-abc123".into(),
            task_text: "fix it".into(),
            state: "STUCK".into(),
            reason: "hard_stop".into(),
            hypotheses: vec![Hypothesis {
                text: "the fixture is stale".into(),
                run_id: "run_b".into(),
                evidence: "step test, test.sh:4".into(),
            }],
            runs: ["run_a", "run_b"]
                .into_iter()
                .zip(1..)
                .map(|(run_id, attempt)| VerifiedRun {
                    run_id: Some(run_id.into()),
                    ..VerifiedRun::failed(attempt, "test", "expected 5")
                })
                .collect(),
            steps: vec!["test".into()],
            strategies: vec![Strategy { text: "guess".into(), ..Strategy::default() }],
            files_modified: vec!["a.sh".into()],
            gate_inputs_changed: vec!["test.sh (a step runs it)".into()],
            edits_refused: vec!["protected: 3".into()],
            ..StuckReport::default()
        };
        assert_eq!(
            report.render(),
            "# Stuck report\n\n- task: `t-abc123`\n- state: `STUCK`\n- reason: `hard_stop`\n\n\
             ## Task\n\n> fix it\n\n\
             ## Hypotheses\n\n> the fixture is stale\n\n- run: `run_b`\n- evidence: `step test, test.sh:4`\n\n\
             ## Failure matrix\n\n`+` passed, `x` failed, `?` cut short by the machine, `.` not reached. Steps: 1 `test`\n\n\
             ### Strategy 1\n\n> guess\n\nFiles it changed: none\n\n\
             - attempt 1: `x` `run_a`, step `test`, `step_failed`: `expected 5`\n\
             - attempt 2: `x` `run_b`, step `test`, `step_failed`: the same as attempt 1\n\n\
             ## Working tree\n\nChanges are kept. Files modified:\n\n- `a.sh`\n\n\
             ## Changed, and verification depends on it\n\n- `test.sh (a step runs it)`\n\n\
             ## Edits that were refused\n\n- `protected: 3`\n"
        );
    }

    #[test]
    fn trouble_of_the_machine_is_diagnosed_and_needs_no_hypothesis() {
        let text = StuckReport {
            state: "INFRA_ERROR".into(),
            infrastructure: Some(MachineFailure {
                code: "image_pull".into(),
                message: "no such image\n# x".into(),
            }),
            ..StuckReport::default()
        }
        .render();
        assert!(
            text.contains("## Infrastructure\n\n- error: `image_pull`\n\n> no such image\n> # x\n"),
            "{text}"
        );
        assert!(
            text.contains("## Hypotheses\n\nnone\n\n## Failure matrix\n\nnothing was verified\n"),
            "{text}"
        );
    }

    // CONTEXT-10
    #[test]
    fn a_report_stays_small_whatever_was_said() {
        let long = "word ".repeat(50_000);
        let hypothesis = Hypothesis {
            text: long.clone(),
            run_id: "run_20261121_100000_abc123".into(),
            evidence: long.clone(),
        };
        let text = StuckReport {
            task_text: long.clone(),
            infrastructure: Some(MachineFailure { code: "unknown".into(), message: long }),
            hypotheses: vec![hypothesis; 100],
            files_modified: (0..5000).map(|n| format!("src/file{n}.rs (changed)")).collect(),
            gate_inputs_changed: (0..5000).map(|n| format!("test{n}.sh (named)")).collect(),
            ..StuckReport::default()
        }
        .render();
        assert!(text.len() < 40_000, "{}", text.len());
        assert!(text.contains("\nand 4950 more\n"), "{text}");
    }

    #[test]
    fn derived_hypotheses_say_so() {
        let hypothesis =
            Hypothesis { text: "x".into(), run_id: "run_a".into(), evidence: "step test".into() };
        let text = StuckReport {
            hypotheses: vec![hypothesis],
            hypotheses_derived: true,
            ..StuckReport::default()
        }
        .render();
        assert!(text.contains("Derived from the failures"), "{text}");
    }
}
