//! The text of `summary.md`, which describes the last success: prose of the model, and facts of the host.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::markdown::{code, code_list, quote};
use act_audit::Head;
use act_core::Usd;
use act_core::event::ModelUsage;

/// Everything that a summary lists.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub task_id: String,
    pub what: String,
    pub why: String,
    /// The Editor says that the task needs no change, and changed nothing.
    pub nothing_to_do: bool,
    /// What the plans take for granted.
    pub assumptions: Vec<String>,
    /// Criteria that a plan took back, each with its reason.
    pub criteria_dropped: Vec<String>,
    /// The Editor's words about tests: which it added, or why none.
    pub tests: Option<String>,
    /// Changed files that the host counts as tests.
    pub test_files: Vec<String>,
    /// Places where existing tests demand less than at the start of the task, or something else.
    pub tests_weakened: Vec<String>,
    /// What the tests prove, one sentence each.
    pub evidence: Vec<String>,
    /// The repository had tests when the task began.
    pub had_tests: bool,
    pub run_id: String,
    /// That run began with what `prepare` made of the last commit.
    pub warm: bool,
    pub attempts: u32,
    pub files_changed: Vec<String>,
    /// Changed files that the verification depends on.
    pub gate_inputs_changed: Vec<String>,
    /// Changed files that are guarded and that the user allowed for this task.
    pub allowed_paths_changed: Vec<String>,
    /// Changed files that git ignores, so that the run did not judge them.
    pub untested: Vec<String>,
    /// Boundaries of the task that the host does not enforce; the model got them as text.
    pub boundaries_not_enforced: Vec<String>,
    /// How many edits each rule refused: `protected: 3`.
    pub edits_refused: Vec<String>,
    /// Files that act itself wrote into the repository, beside its notes.
    pub host_wrote: Vec<String>,
    /// Tokens by role.
    pub tokens: BTreeMap<String, ModelUsage>,
    /// What all requests cost; `None` where that is not known.
    pub cost: Option<Usd>,
    /// The result of the pipeline before the first edit.
    pub baseline: Option<String>,
    /// Warnings of the green run.
    pub warnings: Vec<String>,
    /// Kinds of text that the host left out of the Editor's account.
    pub left_out: Vec<String>,
    /// The host wrote the summary, because the Editor gave no account.
    pub by_host: bool,
    /// The newest record of the audit log.
    pub audit_head: Option<Head>,
}

impl Summary {
    /// Renders the summary as Markdown. It contains no commit message and no text for a pull request: the user commits.
    pub fn render(&self) -> String {
        let mut out = String::from("# Summary\n\n");
        if self.by_host {
            out.push_str("The Editor wrote no summary; the host did.\n\n");
        }
        if self.nothing_to_do {
            out.push_str("The Editor found nothing to do: the tree is the one of the start, and its pipeline is green.\n\n");
        }
        let unsaid = match self.test_files.is_empty() {
            true => "The Editor gave no reason for adding none.",
            false => "The Editor said nothing about tests.",
        };
        let tests = self.tests.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or(unsaid);
        // The host states this fact, whatever the Editor writes.
        let whereabouts = match self.files_changed.is_empty() {
            true => "act changed no file, and no history, branch or remote of git.",
            false => {
                "The changes are in your working tree; act touched no history, branch or remote of git."
            }
        };
        let before = if self.had_tests { "" } else { "The repository had none.\n\n" };
        let green = match self.warm {
            false => "The whole pipeline was green in",
            true => {
                "The steps were green in a warm run, which began with what `prepare` made of the last commit:"
            }
        };
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "## What changed\n\n{}\n{}\n{whereabouts}\n\n## Why\n\n{}\n## How it was verified\n\n\
             {green} {} at attempt {} of task {}.{}\n\n## Tests\n\n{}\n{before}Test files changed:\n\n{}",
            quote(&self.what),
            code_list(&self.files_changed),
            quote(&self.why),
            code(&self.run_id),
            self.attempts,
            code(&self.task_id),
            self.audit_head.as_ref().map(audited).unwrap_or_default(),
            quote(tests),
            code_list(&self.test_files),
        );
        if !self.tests_weakened.is_empty() {
            let unexplained =
                match self.tests.as_deref().is_some_and(|text| !text.trim().is_empty()) {
                    true => "the words of the Editor above are its reason",
                    false => "the Editor gave no reason",
                };
            let _ = write!(
                out,
                "\nExisting tests that demand less than at the start of the task, or something else; {unexplained}:\n\n{}",
                code_list(&self.tests_weakened)
            );
        }
        if !self.evidence.is_empty() {
            let _ = write!(out, "\n## What the tests prove\n\n{}", code_list(&self.evidence));
        }
        for (title, texts) in [
            ("Assumptions", &self.assumptions),
            ("Criteria that were dropped", &self.criteria_dropped),
        ] {
            if !texts.is_empty() {
                let items: Vec<_> = texts.iter().map(|text| quote(text)).collect();
                let _ = write!(out, "\n## {title}\n\n{}", items.join("\n"));
            }
        }
        if let Some(baseline) = &self.baseline {
            let _ = write!(out, "\n## Before the first edit\n\n{}", quote(baseline));
        }
        if !self.left_out.is_empty() {
            let kinds = self.left_out.join(", ");
            let _ = write!(
                out,
                "\n## Left out\n\nThe host left out of the Editor's account: {kinds}. You commit in your own words.\n"
            );
        }
        let lists = [
            ("Changed, and verification depends on it", &self.gate_inputs_changed),
            ("Guarded, and allowed for this task", &self.allowed_paths_changed),
            ("Changed, and not in the tree that was verified", &self.untested),
            ("Boundaries that were not enforced", &self.boundaries_not_enforced),
            ("Edits that were refused", &self.edits_refused),
            ("Written by act itself", &self.host_wrote),
            ("Warnings of the run", &self.warnings),
        ];
        if !self.tokens.is_empty() {
            let cost =
                self.cost.map_or("unknown: the model has no known price".to_owned(), Usd::rounded);
            let _ = write!(out, "\n## Cost\n\n{cost}\n");
            out.push_str("\n## Tokens\n\n| role | input | of it cached | output |\n| --- | --- | --- | --- |\n");
        }
        for (role, ModelUsage { input, cached, output, .. }) in &self.tokens {
            let _ = writeln!(out, "| {role} | {input} | {cached} | {output} |");
        }
        for (title, items) in lists.into_iter().filter(|(_, items)| !items.is_empty()) {
            let _ = write!(out, "\n## {title}\n\n{}", code_list(items));
        }
        out
    }
}

fn audited(head: &Head) -> String {
    format!(" The audit log was at record {}, {}.", head.seq, code(&head.hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-52
    #[test]
    fn a_warm_run_that_ends_a_task_is_called_warm() {
        let of = |warm| Summary { warm, ..summary() }.render();
        assert!(of(true).contains("in a warm run") && !of(true).contains("whole pipeline"));
        assert!(of(false).contains("The whole pipeline was green in"));
    }

    fn summary() -> Summary {
        Summary {
            task_id: "t-abc123".into(),
            what: "Handle centuries.".into(),
            why: "1900 was a leap year.".into(),
            run_id: "run_20261121_100000_abc123".into(),
            attempts: 2,
            files_changed: vec!["leap.sh".into()],
            had_tests: true,
            ..Summary::default()
        }
    }

    #[test]
    fn a_summary_says_what_why_how_verified_and_tests() {
        // CONTEXT-7
        assert_eq!(
            summary().render(),
            "# Summary\n\n## What changed\n\n> Handle centuries.\n\n- `leap.sh`\n\n\
             The changes are in your working tree; act touched no history, branch or remote of git.\n\n\
             ## Why\n\n> 1900 was a leap year.\n\n## How it was verified\n\n\
             The whole pipeline was green in `run_20261121_100000_abc123` at attempt 2 of task `t-abc123`.\n\n\
             ## Tests\n\n> The Editor gave no reason for adding none.\n\nTest files changed:\n\nnone\n"
        );
        let text = Summary {
            tests: Some("Asks about 1900.".into()),
            test_files: vec!["test.sh (create)".into()],
            had_tests: false,
            ..summary()
        }
        .render();
        assert!(
            text.contains(
                "## Tests\n\n> Asks about 1900.\n\nThe repository had none.\n\nTest files changed:\n\n\
                 - `test.sh (create)`\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn weaker_tests_stand_below_the_reason_or_its_absence() {
        // CONTEXT-7
        let place = "tests/a.py:3 test_a (test_skipped): @skip";
        let weaker = Summary { tests_weakened: vec![place.into()], ..summary() };
        let text = weaker.render();
        let end = format!("the Editor gave no reason:\n\n- `{place}`\n");
        assert!(text.ends_with(&end), "{text}");
        let text = Summary { tests: Some("It is slow.".into()), ..weaker }.render();
        assert!(text.contains("the words of the Editor above are its reason:\n\n- `"), "{text}");
    }

    #[test]
    fn what_became_of_the_changes_is_the_hosts_to_say() {
        // CONTEXT-7
        let claimed =
            Summary { what: "Änderungen wurden committet und gepusht.".into(), ..summary() };
        let text = Summary { files_changed: vec![], ..claimed.clone() }.render();
        assert!(text.contains("\nact changed no file, and no history, branch or remote of git.\n"));
        assert!(
            claimed
                .render()
                .contains("\nThe changes are in your working tree; act touched no history,")
        );
    }

    #[test]
    fn changed_gate_inputs_and_allowed_paths_are_named() {
        let text = Summary {
            gate_inputs_changed: vec!["test.sh".into()],
            allowed_paths_changed: vec![".envrc".into()],
            untested: vec!["x.local".into()],
            edits_refused: vec!["protected: 3".into()],
            tokens: [(
                "editor".to_owned(),
                ModelUsage { input: 12, cached: 4, cache_write: 0, output: 3 },
            )]
            .into(),
            cost: None,
            ..summary()
        }
        .render();
        assert!(text.contains("| --- |\n| editor | 12 | 4 | 3 |\n\n## Changed"), "{text}");
        assert!(
            text.contains("## Changed, and verification depends on it\n\n- `test.sh`\n"),
            "{text}"
        );
        assert!(text.contains("## Guarded, and allowed for this task\n\n- `.envrc`\n"), "{text}");
        assert!(
            text.contains("## Cost\n\nunknown: the model has no known price\n\n## Tokens"),
            "{text}"
        );
        let priced = Summary {
            tokens: [("editor".to_owned(), ModelUsage::default())].into(),
            cost: Some(Usd::from_nanos(12_300_000)),
            ..summary()
        };
        assert!(priced.render().contains("## Cost\n\n$0.0123\n\n## Tokens"));
        let untested = "## Changed, and not in the tree that was verified\n\n- `x.local`\n";
        assert!(text.contains(untested), "{text}");
        assert!(text.contains("## Edits that were refused\n\n- `protected: 3`\n"), "{text}");
    }

    #[test]
    fn prose_cannot_claim_a_verification() {
        let text =
            Summary { what: "x\n## How it was verified\nin run_evil".into(), ..summary() }.render();
        assert_eq!(text.lines().filter(|line| *line == "## How it was verified").count(), 1);
    }
}
