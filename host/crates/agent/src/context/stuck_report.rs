//! What `stuck_report.md` says when a task did not reach a green run (pure).

use std::fmt::Write as _;

use serde::Deserialize;

use super::failure_matrix::{Strategy, matrix};
use super::markdown::{code, code_list, cut, quote};
use super::verified_run::VerifiedRun;
use act_audit::Head;

/// Of a task's text, which may be long; the user has it anyway.
const TASK: usize = 2000;
/// Of what the model or the machine says at a time.
const WORDS: usize = 1000;
const HYPOTHESES: usize = 12;
const FILES: usize = 50;

/// One explanation, and the evidence it rests on; read from what the model says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hypothesis {
    pub text: String,
    pub run_id: String,
    /// A step, file or line.
    pub evidence: String,
}

#[derive(Debug, Clone, Default)]
pub struct StuckReport {
    pub task_id: String,
    pub task_text: String,
    /// `STUCK` or `INFRA_ERROR`.
    pub state: String,
    pub reason: String,
    /// The reason in words, where the word alone does not say what to do.
    pub explanation: Option<String>,
    pub hypotheses: Vec<Hypothesis>,
    /// The hypotheses come from the failure matrix, because the model gave none that can be checked.
    pub hypotheses_derived: bool,
    /// Kind and message of the trouble when it was the machine's.
    pub infrastructure: Option<(String, String)>,
    /// Names of the pipeline's steps, in order.
    pub steps: Vec<String>,
    pub strategies: Vec<Strategy>,
    pub runs: Vec<VerifiedRun>,
    pub files_modified: Vec<String>,
    /// Changed files that the verification depends on.
    pub gate_inputs_changed: Vec<String>,
    /// How many edits each rule refused: `protected: 3`.
    pub edits_refused: Vec<String>,
    /// Files that act itself wrote into the repository, beside its notes.
    pub host_wrote: Vec<String>,
    /// How far the audit log was.
    pub audit_head: Option<Head>,
    /// What the pipeline said before the first edit.
    pub baseline: Option<String>,
}

impl StuckReport {
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
        if let Some((kind, message)) = &self.infrastructure {
            let _ = write!(
                out,
                "\n## Infrastructure\n\n- error: {}\n\n{}",
                code(kind),
                quote(&cut(message, WORDS))
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
            let _ = write!(
                out,
                "{}{}\n- run: {}\n- evidence: {}\n",
                if at == 0 { "" } else { "\n" },
                quote(&cut(&hypothesis.text, WORDS)),
                code(&hypothesis.run_id),
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

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::verification::Status;

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
                    attempt,
                    strategy: 1,
                    run_id: Some(run_id.into()),
                    status: Status::Fail,
                    steps_run: 1,
                    failing_step: Some("test".into()),
                    reason: Some("step_failed".into()),
                    first_failing_line: Some("expected 5".into()),
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
            infrastructure: Some(("image_pull".into(), "no such image\n# x".into())),
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
            infrastructure: Some(("unknown".into(), long)),
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
