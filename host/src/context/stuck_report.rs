//! What `stuck_report.md` says when a task did not reach a green run (pure).

use std::fmt::Write as _;

use serde::Deserialize;

use super::markdown::{code, code_list, quote};
use super::verified_run::{VerifiedRun, runs};

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
    pub hypotheses: Vec<Hypothesis>,
    /// The hypotheses come from the failure matrix, because the model gave none that can be checked.
    pub hypotheses_derived: bool,
    /// Kind and message of the trouble when it was the machine's.
    pub infrastructure: Option<(String, String)>,
    pub strategies: Vec<String>,
    pub runs: Vec<VerifiedRun>,
    pub files_modified: Vec<String>,
    /// How many edits each rule refused: `protected: 3`.
    pub edits_refused: Vec<String>,
}

impl StuckReport {
    pub fn render(&self) -> String {
        // Writing to a string does not fail.
        let mut out = format!(
            "# Stuck report\n\n- task: {}\n- state: {}\n- reason: {}\n\n## Task\n\n{}",
            code(&self.task_id),
            code(&self.state),
            code(&self.reason),
            quote(&self.task_text)
        );
        if let Some((kind, message)) = &self.infrastructure {
            let _ =
                write!(out, "\n## Infrastructure\n\n- error: {}\n\n{}", code(kind), quote(message));
        }
        out.push_str("\n## Hypotheses\n\n");
        if self.hypotheses.is_empty() {
            out.push_str("none\n");
        } else if self.hypotheses_derived {
            out.push_str(
                "Derived from the failures alone; the model gave none that can be checked.\n\n",
            );
        }
        for (at, hypothesis) in self.hypotheses.iter().enumerate() {
            let _ = write!(
                out,
                "{}{}\n- run: {}\n- evidence: {}\n",
                if at == 0 { "" } else { "\n" },
                quote(&hypothesis.text),
                code(&hypothesis.run_id),
                code(&hypothesis.evidence)
            );
        }
        let _ = write!(out, "\n## Runs\n\n{}", runs(&self.runs));
        if !self.strategies.is_empty() {
            let strategies: Vec<_> = self.strategies.iter().map(|text| quote(text)).collect();
            let _ = write!(out, "\n## Strategies tried\n\n{}", strategies.join("\n"));
        }
        let _ = write!(
            out,
            "\n## Working tree\n\nChanges are kept. Files modified:\n\n{}",
            code_list(&self.files_modified)
        );
        if !self.edits_refused.is_empty() {
            let refused = code_list(&self.edits_refused);
            let _ = write!(out, "\n## Edits that were refused\n\n{refused}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_every_run_and_cites_evidence() {
        // CONTEXT-8
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
                    status: "FAIL".into(),
                    failing_step: Some("test".into()),
                    reason: Some("step_failed".into()),
                    first_failing_line: Some("expected 5".into()),
                })
                .collect(),
            files_modified: vec!["a.sh".into()],
            edits_refused: vec!["protected: 3".into()],
            ..StuckReport::default()
        };
        assert_eq!(
            report.render(),
            "# Stuck report\n\n- task: `t-abc123`\n- state: `STUCK`\n- reason: `hard_stop`\n\n\
             ## Task\n\n> fix it\n\n\
             ## Hypotheses\n\n> the fixture is stale\n\n- run: `run_b`\n- evidence: `step test, test.sh:4`\n\n\
             ## Runs\n\n- attempt 1, strategy 1: `run_a`, `FAIL`, step `test`, `step_failed`: `expected 5`\n\
             - attempt 2, strategy 1: `run_b`, `FAIL`, step `test`, `step_failed`: `expected 5`\n\n\
             ## Working tree\n\nChanges are kept. Files modified:\n\n- `a.sh`\n\n\
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
        assert!(text.contains("## Hypotheses\n\nnone\n\n## Runs\n\nnone\n"), "{text}");
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
