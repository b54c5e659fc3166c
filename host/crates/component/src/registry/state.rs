//! What a component is to this machine. Pure.

use serde::Serialize;

/// The word that every listing shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Part of this program.
    Builtin,
    /// By the user, and its bytes are there.
    Approved,
    /// Under its name stand, or are asked for, other bytes than those that were approved.
    Changed,
    /// Asked for, and nobody has approved it here.
    Unapproved,
    /// The user took it back.
    Revoked,
    /// Approved, and its bytes are gone.
    Missing,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Approved => "approved",
            Self::Changed => "changed",
            Self::Unapproved => "unapproved",
            Self::Revoked => "revoked",
            Self::Missing => "missing",
        }
    }
}

/// What the store holds under the approved digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    Whole,
    Missing,
    Changed,
}

/// An approval as far as it counts here: its digest, whether it was taken back, and what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known<'a> {
    pub sha256: &'a str,
    pub revoked: bool,
    pub stored: Stored,
}

/// `asked`: digests under which the repository asks for that name, its file's own among them.
pub fn state(known: Option<Known<'_>>, asked: &[&str]) -> State {
    match known {
        None => State::Unapproved,
        Some(known) if known.revoked => State::Revoked,
        Some(known) if asked.iter().any(|sha256| *sha256 != known.sha256) => State::Changed,
        Some(Known { stored: Stored::Changed, .. }) => State::Changed,
        Some(Known { stored: Stored::Missing, .. }) => State::Missing,
        Some(_) => State::Approved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CAPABILITY-26
    #[test]
    fn only_the_approved_bytes_are_approved() {
        let known = |stored, revoked| Some(Known { sha256: "a", revoked, stored });
        for (known, asked, is) in [
            (None, &["a"][..], State::Unapproved),
            (known(Stored::Whole, false), &["a", "a"], State::Approved),
            (known(Stored::Whole, false), &[], State::Approved),
            (known(Stored::Whole, false), &["b"], State::Changed),
            (known(Stored::Whole, false), &["a", "b"], State::Changed),
            (known(Stored::Changed, false), &["a"], State::Changed),
            (known(Stored::Missing, false), &["a"], State::Missing),
            (known(Stored::Whole, true), &["a"], State::Revoked),
            (known(Stored::Missing, true), &["b"], State::Revoked),
        ] {
            assert_eq!(state(known, asked), is, "{known:?} {asked:?}");
        }
    }
}
