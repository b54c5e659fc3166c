//! Warnings of a run in few words, as the audit log keeps them, and which of them take something from its verdict.

use std::collections::{BTreeMap, BTreeSet};

use super::response::{Warning, WarningCode};

/// Bytes of a mark; a longer one names no steps.
const LONGEST: usize = 320;

/// One for each code, in their order: `no_tests_ran 2 3`, with the numbers of the steps that it is about, or the
/// code alone where it is about the run. `steps`: the names of those that ran; of equal ones nobody knows which.
pub fn marks(warnings: &[Warning], steps: &[&str]) -> Vec<String> {
    let mut by_code = BTreeMap::<&str, Option<BTreeSet<usize>>>::new();
    for warning in warnings {
        let about = by_code.entry(warning.code.as_str()).or_insert_with(|| Some(BTreeSet::new()));
        let named = |name: &String| {
            let numbers = (1..).zip(steps).filter(|(_, step)| *step == name);
            numbers.map(|(number, _)| number).collect::<Vec<usize>>()
        };
        match (about.as_mut(), warning.step.as_ref().map(named)) {
            (Some(about), Some(numbers)) if !numbers.is_empty() => about.extend(numbers),
            _ => *about = None,
        }
    }
    let mark = |(code, about): (&str, Option<BTreeSet<usize>>)| {
        let numbers: String =
            about.into_iter().flatten().map(|number| format!(" {number}")).collect();
        let numbers = Some(numbers).filter(|numbers| numbers.len() < LONGEST);
        format!("{code}{}", numbers.unwrap_or_default())
    };
    by_code.into_iter().map(mark).collect()
}

/// The steps of one whose code lessens a verdict; none of the steps: all of them.
pub fn lessens(mark: &str) -> Option<Vec<usize>> {
    let mut words = mark.split(' ');
    let code = WarningCode::of(words.next()?)?;
    code.lessens_verdict().then(|| words.filter_map(|number| number.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(code: WarningCode, step: Option<&str>) -> Warning {
        Warning { code, step: step.map(str::to_owned), message: "x".to_owned() }
    }

    // AUDIT-24
    #[test]
    fn a_mark_names_the_steps_or_is_about_all_of_them() {
        let told = [
            warning(WarningCode::NoTestsRan, Some("unit")),
            warning(WarningCode::MountHidden, None),
            warning(WarningCode::NoTestsRan, Some("slow")),
            warning(WarningCode::Oom, Some("unit")),
            warning(WarningCode::Oom, None),
            warning(WarningCode::CleanupFailed, None),
        ];
        let all = marks(&told, &["build", "unit", "slow"]);
        assert_eq!(all, ["cleanup_failed", "mount_hidden", "no_tests_ran 2 3", "oom"]);
        let lessening: Vec<_> = all.iter().map(|mark| lessens(mark)).collect();
        assert_eq!(lessening, [None, Some(vec![]), Some(vec![2, 3]), Some(vec![])]);
        assert_eq!(
            marks(&[warning(WarningCode::Oom, Some("same"))], &["same", "x", "same"]),
            ["oom 1 3"]
        );
        // A step that nobody knows is no step.
        assert_eq!(marks(&[warning(WarningCode::Oom, Some("other"))], &["x"]), ["oom"]);
        let steps = vec!["same"; 500];
        assert_eq!(marks(&[warning(WarningCode::Oom, Some("same"))], &steps), ["oom"]);
    }
}
