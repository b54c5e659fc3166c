//! Theories about a hard stop: which of the model's count, and what the failures suggest without it. Pure.

use super::attempt::Attempt;
use crate::context::Hypothesis;

pub(super) const NEEDED: usize = 3;

/// Hypotheses that name a run of this task and evidence in it; the rest is no use to a reader.
pub(super) fn usable(items: Vec<Hypothesis>, attempts: &[Attempt]) -> Vec<Hypothesis> {
    let mut usable: Vec<Hypothesis> = vec![];
    for item in items {
        let cited = attempts.iter().any(|attempt| {
            attempt.run_id == item.run_id && is_evidence(&item.evidence, attempt.step.as_deref())
        });
        let said = !item.text.trim().is_empty();
        let new = usable.iter().all(|known| known.text.trim() != item.text.trim());
        if cited && said && new {
            usable.push(item);
        }
    }
    usable
}

/// A step of the run, a file or a line: something that a reader can look at.
fn is_evidence(text: &str, step: Option<&str>) -> bool {
    let step = step.is_some_and(|step| text.contains(step));
    let file = text.split(|c: char| c.is_whitespace() || "`'\"(),;".contains(c)).any(|word| {
        let inner = word.trim_matches('.');
        inner.contains('/') || inner.contains('.') || inner.contains(':')
    });
    let line = text.to_lowercase().contains("line") && text.chars().any(|c| c.is_ascii_digit());
    step || file || line
}

/// What the failure matrix alone suggests, for when the model cannot be asked: one theory for each way the
/// attempts failed, then what the strategies have in common, until there are enough.
pub(super) fn derived(attempts: &[Attempt]) -> Vec<Hypothesis> {
    let mut items: Vec<Hypothesis> = vec![];
    let mut kinds: Vec<(&Option<String>, &str)> = vec![];
    for attempt in attempts {
        let kind = (&attempt.step, attempt.first_failing_line.as_str());
        if kinds.contains(&kind) {
            continue;
        }
        kinds.push(kind);
        items.push(Hypothesis {
            text: theory(attempt),
            run_id: attempt.run_id.clone(),
            evidence: evidence(attempt),
        });
    }
    let (Some(first), Some(last)) = (attempts.first(), attempts.last()) else { return items };
    let general = [
        (
            first,
            "The failure was there before the first edit or does not depend on the edited files.",
        ),
        (last, "The last strategy changed something the failing step does not reach."),
        (last, "The environment of the step (image, tools, network, time) lacks what it needs."),
    ];
    for (attempt, text) in general {
        if items.len() >= NEEDED {
            break;
        }
        items.push(Hypothesis {
            text: text.to_owned(),
            run_id: attempt.run_id.clone(),
            evidence: evidence(attempt),
        });
    }
    items
}

fn theory(attempt: &Attempt) -> String {
    let step = attempt.step.as_deref().unwrap_or("-");
    match attempt.first_failing_line.trim() {
        "" => format!("Step {step} fails and says nothing: what it runs ends early, or is quiet."),
        line => format!("Step {step} fails for what its output says first: {line}"),
    }
}

fn evidence(attempt: &Attempt) -> String {
    let step = attempt.step.as_deref().unwrap_or("-");
    match attempt.first_failing_line.trim() {
        "" => format!("step {step}, which printed nothing"),
        line => format!("step {step}: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(lines: &[&str]) -> Vec<Attempt> {
        lines
            .iter()
            .enumerate()
            .map(|(index, line)| Attempt {
                number: index as u32 + 1,
                run_id: format!("run_20260101_000000_aaaaa{index}"),
                strategy: 1,
                step: Some("test".into()),
                exit_code: Some(1),
                reason: "step_failed",
                first_failing_line: (*line).to_owned(),
                failing_lines: vec![],
            })
            .collect()
    }

    /// EDITOR-31: at least three, each citing a run and a step, also without a model.
    #[test]
    fn derived_hypotheses_are_three_and_cite_runs() {
        for lines in [vec!["a"; 12], vec!["a", "b", "c", "d"], vec!["a"]] {
            let attempts = attempts(&lines);
            let items = derived(&attempts);
            assert!(items.len() >= NEEDED, "{items:?}");
            assert_eq!(usable(items.clone(), &attempts), items);
        }
        let silent = derived(&attempts(&[""; 4]));
        let said: Vec<_> = silent.iter().flat_map(|item| [&item.text, &item.evidence]).collect();
        assert!(said.iter().all(|text| !text.trim_end().ends_with(':')), "{said:?}");
        assert!(derived(&[]).is_empty());
    }

    #[test]
    fn a_hypothesis_about_an_unknown_run_does_not_count() {
        let item = Hypothesis {
            text: "t".into(),
            run_id: "run_20260101_000000_zzzzzz".into(),
            evidence: "e".into(),
        };
        assert!(usable(vec![item], &attempts(&["a"])).is_empty());
    }

    #[test]
    fn evidence_is_a_step_a_file_or_a_line() {
        for (evidence, counts) in [
            ("step test", true),
            ("src/add.rs", true),
            ("`add.py`, line 3", true),
            ("because", false),
            ("", false),
        ] {
            assert_eq!(is_evidence(evidence, Some("test")), counts, "{evidence}");
        }
    }
}
