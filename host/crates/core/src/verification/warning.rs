//! Warnings of a run, and their short form in the audit log.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::IntoDeserializer;
use serde::de::value::{Error as NoCode, StrDeserializer};
use serde::{Deserialize, Serialize};

/// The kind of a [`Warning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    ArtifactsChanged,
    ArtifactsIncomplete,
    CleanupFailed,
    ContainerLeft,
    GitUnavailable,
    LogIncomplete,
    MountHidden,
    NeedsWritableView,
    NetworkCutOff,
    NoTestsRan,
    Oom,
    OverlayUnavailable,
    ProposalUnfinished,
    SourceWrites,
}

impl WarningCode {
    /// The code that `word` names, if it names one.
    fn of(word: &str) -> Option<Self> {
        let word: StrDeserializer<'_, NoCode> = word.into_deserializer();
        Self::deserialize(word).ok()
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ArtifactsChanged => "artifacts_changed",
            Self::ArtifactsIncomplete => "artifacts_incomplete",
            Self::CleanupFailed => "cleanup_failed",
            Self::ContainerLeft => "container_left",
            Self::GitUnavailable => "git_unavailable",
            Self::LogIncomplete => "log_incomplete",
            Self::MountHidden => "mount_hidden",
            Self::NeedsWritableView => "needs_writable_view",
            Self::NetworkCutOff => "network_cut_off",
            Self::NoTestsRan => "no_tests_ran",
            Self::Oom => "oom",
            Self::OverlayUnavailable => "overlay_unavailable",
            Self::ProposalUnfinished => "proposal_unfinished",
            Self::SourceWrites => "source_writes",
        }
    }

    /// Returns whether a verdict with this warning is worth less than it seems: something was not tested, not tested as
    /// configured, or not tested to its end. The other codes are about cleaning up and about how the tree was provided.
    pub fn lessens_verdict(self) -> bool {
        match self {
            Self::LogIncomplete
            | Self::MountHidden
            | Self::NetworkCutOff
            | Self::NoTestsRan
            | Self::Oom
            | Self::SourceWrites => true,
            Self::ArtifactsChanged
            | Self::ArtifactsIncomplete
            | Self::CleanupFailed
            | Self::ContainerLeft
            | Self::GitUnavailable
            | Self::NeedsWritableView
            | Self::OverlayUnavailable
            | Self::ProposalUnfinished => false,
        }
    }
}

// A fact about a run that its user should know although it does not decide the verdict. A doc comment would become part
// of the published schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Warning {
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub code: WarningCode,
    pub step: Option<String>,
    pub message: String,
}

/// Maximum length of a mark in bytes; a longer one names no steps.
const LONGEST: usize = 320;

/// The warnings as the audit log records them: one mark for each code, in the order of the codes, such as
/// `no_tests_ran 2 3` with the numbers of its steps, or the code alone when a warning is about the whole run. `steps` holds
/// the names of the steps that ran; steps of equal names are all numbered.
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

/// Returns the steps of a mark whose code [lessens the verdict](WarningCode::lessens_verdict), and `None` for other marks.
/// An empty list stands for all steps.
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
    // VERIFIER-32
    #[test]
    fn the_codes_of_warnings_are_those_of_the_specification() {
        let rules = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../specs/verifier.md"
        ))
        .unwrap();
        let rule = rules.split("**VERIFIER-32**").nth(1).unwrap().split("\n\n").next().unwrap();
        let listed: Vec<_> = rule.split('`').skip(1).step_by(2).collect();
        assert_eq!(listed.len(), WarningCode::SourceWrites as usize + 1, "{listed:?}");
        for word in listed {
            let code = WarningCode::of(word).expect(word);
            assert_eq!(code.as_str(), word);
            assert_eq!(serde_json::to_value(code).unwrap(), word);
        }
        assert_eq!(WarningCode::of("Oom"), None);
    }
}
