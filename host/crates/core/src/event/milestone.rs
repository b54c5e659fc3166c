//! The milestones of a task and their texts, which `specs/task-lifecycle.md` defines.

use super::EventKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Milestone {
    Analyzing,
    QueryingScoutA,
    QueryingScoutB,
    Implementing,
    /// Attempt `number` of at most `of` begins.
    Attempt {
        number: u32,
        of: u32,
    },
    Verifying,
    VerificationFailed,
    Replanning,
}

impl Milestone {
    pub fn text(self) -> String {
        match self {
            Self::Analyzing => "Analyzing codebase...".into(),
            Self::QueryingScoutA => "Querying Scout A...".into(),
            Self::QueryingScoutB => "Querying Scout B...".into(),
            Self::Implementing => "Implementing changes...".into(),
            Self::Attempt { number, of } => format!("Attempt {number}/{of}..."),
            Self::Verifying => "Running verification...".into(),
            Self::VerificationFailed => "Verification failed, debugging...".into(),
            Self::Replanning => "Replanning...".into(),
        }
    }
}

impl From<Milestone> for EventKind {
    fn from(milestone: Milestone) -> Self {
        let attempt = match milestone {
            Milestone::Attempt { number, .. } => Some(number),
            _ => None,
        };
        Self::Milestone { text: milestone.text(), attempt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milestones_have_the_words_of_the_specification() {
        // TASK-12
        let texts = [
            (Milestone::Analyzing, "Analyzing codebase..."),
            (Milestone::QueryingScoutA, "Querying Scout A..."),
            (Milestone::QueryingScoutB, "Querying Scout B..."),
            (Milestone::Implementing, "Implementing changes..."),
            (Milestone::Attempt { number: 3, of: 12 }, "Attempt 3/12..."),
            (Milestone::Verifying, "Running verification..."),
            (Milestone::VerificationFailed, "Verification failed, debugging..."),
            (Milestone::Replanning, "Replanning..."),
        ];
        for (milestone, text) in texts {
            assert_eq!(milestone.text(), text);
        }
    }

    #[test]
    fn only_an_attempt_carries_its_number() {
        let attempt = |milestone: Milestone| match milestone.into() {
            EventKind::Milestone { attempt, .. } => attempt,
            other => panic!("not a milestone: {other:?}"),
        };
        assert_eq!(attempt(Milestone::Attempt { number: 7, of: 12 }), Some(7));
        assert_eq!(attempt(Milestone::Verifying), None);
    }
}
