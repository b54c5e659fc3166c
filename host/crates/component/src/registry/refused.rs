//! Why a component cannot take part: facts, a stable code, and the command that would change it.

use crate::{AdmissionError, Kind};
use act_core::shell_word;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refused {
    #[error(
        "component `{name}` (sha256 {sha256}) needs approval: agent.yaml asks for it and nobody has granted it anything"
    )]
    Unapproved { name: String, sha256: String, path: String, replaces: Option<String> },
    #[error(
        "{path} (sha256 {sha256}) needs approval: nobody has granted these bytes anything here"
    )]
    NeverApproved { path: String, sha256: String },
    #[error("component `{name}` has changed: approved is sha256 {approved}, found is {found}")]
    Changed { name: String, approved: String, found: String, again: Option<Box<Refused>> },
    /// The store holds something under the digest that cannot be read as a file.
    #[error(
        "component `{name}` has changed: approved is sha256 {approved}, found is unreadable: {why}"
    )]
    StoreDamaged { name: String, approved: String, why: String },
    #[error(
        "component `{name}` is not the file that agent.yaml asks for: it says sha256 {asked}, {path} has {found}"
    )]
    OtherFile { name: String, path: String, asked: String, found: String },
    /// And the repository asks for it again.
    #[error("component `{name}` was revoked")]
    RevokedHere { name: String, again: Box<Refused> },
    #[error("component `{name}` was revoked")]
    Revoked { name: String, path: Option<String>, sha256: String },
    #[error(
        "component `{name}` is missing: it is approved, but sha256 {sha256} is not in the store"
    )]
    Missing { name: String, sha256: String },
    #[error("component `{name}` is asked for as a {asked} and was approved as a {approved}", asked = asked.word(), approved = approved.word())]
    OtherKind { name: String, asked: Kind, approved: Kind },
    #[error("component `{name}` is asked for in the place of {asked}, and was approved {approved}", asked = place(asked.as_deref()), approved = approved_for(approved.as_deref()))]
    OtherPlace {
        name: String,
        asked: Option<String>,
        approved: Option<String>,
        path: String,
        sha256: String,
    },
    #[error("component `{name}` was approved as a {approved} and is a {found}", approved = approved.word(), found = found.word())]
    OtherManifest { name: String, approved: Kind, found: Kind },
    #[error("component `{name}` cannot be asked for: {why}")]
    NoSuchName { name: String, why: String },
    #[error("both `{first}` and `{second}` replace `{builtin}`")]
    TwoReplace { first: String, second: String, builtin: String },
    #[error("component `{name}` is refused: {why}")]
    NotAdmitted { name: String, why: AdmissionError },
    #[error("no Scout `{name}` is approved here")]
    NoScout { name: String },
    #[error("no Scout `{name}` is approved here: it is, in another repository alone")]
    Elsewhere { name: String, sha256: String },
    #[error(
        "no Scout `{name}` is approved here under that name: it has the place of `{place}`, and is asked as that"
    )]
    HasPlace { name: String, place: String, sha256: String },
    #[error("`{name}` is a tool component and answers no question")]
    NotAScout { name: String, sha256: String },
    #[error("component `{name}` cannot be read: {why}")]
    Unreadable { name: String, why: String },
}

fn place(replaces: Option<&str>) -> String {
    replaces.map_or_else(|| "none of ours".to_owned(), |name| format!("`{name}`"))
}

fn approved_for(replaces: Option<&str>) -> String {
    replaces.map_or_else(|| "to replace nothing".to_owned(), |name| format!("to replace `{name}`"))
}

impl Refused {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unapproved { .. } | Self::NeverApproved { .. } => "component_unapproved",
            Self::Changed { .. } | Self::StoreDamaged { .. } | Self::OtherFile { .. } => {
                "component_changed"
            }
            Self::Revoked { .. } | Self::RevokedHere { .. } => "component_revoked",
            Self::Missing { .. } => "component_missing",
            Self::OtherKind { .. }
            | Self::OtherPlace { .. }
            | Self::OtherManifest { .. }
            | Self::NotAScout { .. }
            | Self::TwoReplace { .. } => "component_conflict",
            Self::NoScout { .. } | Self::Elsewhere { .. } | Self::HasPlace { .. } => {
                "scout_unknown"
            }
            Self::NoSuchName { .. } => "name_reserved",
            Self::NotAdmitted { .. } => "component_refused",
            Self::Unreadable { .. } => "component_unreadable",
        }
    }

    /// Name and digest of what was refused, as far as they are known.
    pub fn about(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::Unapproved { name, sha256, .. }
            | Self::Revoked { name, sha256, .. }
            | Self::Missing { name, sha256 }
            | Self::NotAScout { name, sha256 }
            | Self::Elsewhere { name, sha256 }
            | Self::HasPlace { name, sha256, .. }
            | Self::OtherPlace { name, sha256, .. } => Some((name, Some(sha256))),
            Self::RevokedHere { again, .. } => again.about(),
            Self::Changed { name, found, .. } | Self::OtherFile { name, found, .. } => {
                Some((name, Some(found)))
            }
            Self::TwoReplace { second: name, .. }
            | Self::OtherKind { name, .. }
            | Self::OtherManifest { name, .. }
            | Self::NotAdmitted { name, .. }
            | Self::StoreDamaged { name, .. }
            | Self::Unreadable { name, .. } => Some((name, None)),
            Self::NoSuchName { name, .. } | Self::NoScout { name } => Some((name, None)),
            Self::NeverApproved { path, sha256 } => Some((path, Some(sha256))),
        }
    }

    /// What the user can do, with the exact command if one command does it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unapproved { name, sha256, path, replaces } => {
                to_approve(name, path, sha256, replaces.as_deref(), &[])
            }
            Self::NeverApproved { path, sha256 } => {
                to_approve("NAME", path, sha256, None, &["--here"])
            }
            Self::Changed { name, again: Some(again), .. } => format!(
                "if that is no new version of your `{name}`, give it another name in agent.yaml; else this takes \
                 the place of what you approved, wherever that holds: {}",
                again.hint()
            ),
            Self::Changed { name, .. } | Self::StoreDamaged { name, .. } => {
                format!(
                    "look at it, then approve the new bytes under the name `{name}`, or put the old ones back"
                )
            }
            Self::RevokedHere { again, .. } => again.hint(),
            Self::OtherFile { .. } => "correct sha256 in agent.yaml, or the file".to_owned(),
            Self::Revoked { name, path: Some(path), sha256 } => {
                to_approve(name, path, sha256, None, &[])
            }
            Self::Revoked { .. } => "approve it again, or do not ask for it".to_owned(),
            Self::Missing { name, sha256 } => approve_command("FILE", name, sha256, &[]),
            Self::OtherKind { .. } => "correct `kind` in agent.yaml".to_owned(),
            Self::OtherPlace { name, asked, path, sha256, .. } => {
                to_approve(name, path, sha256, asked.as_deref(), &[])
            }
            Self::OtherManifest { name, .. } => {
                format!("`{}`, then approve it anew", components_command(&["revoke", name]))
            }
            Self::NoScout { .. } | Self::Elsewhere { .. } => format!(
                "there are a and b; `{}` lists what else was approved",
                components_command(&[])
            ),
            Self::HasPlace { place, .. } => {
                let scout = place.strip_prefix("scout-").unwrap_or(place);
                format!("`{}` asks it", command(&["act", "scout", scout]))
            }
            Self::NotAScout { .. } => {
                format!("name a Scout; `{}` lists them", components_command(&[]))
            }
            Self::NoSuchName { .. } => "correct `components` in agent.yaml".to_owned(),
            Self::TwoReplace { second, .. } => components_command(&["revoke", second]),
            Self::NotAdmitted { .. } => {
                let inspect = components_command(&["inspect", "FILE"]);
                format!("`{inspect}` shows what it imports and needs")
            }
            Self::Unreadable { .. } => "look at the file and its mode".to_owned(),
        }
    }
}

/// A command that a person can paste into a shell. Each word is quoted if the shell would read it as something else.
fn command(words: &[&str]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// A command `act components …`.
pub(super) fn components_command(words: &[&str]) -> String {
    command(&[&["act", "components"], words].concat())
}

fn approve_command(file: &str, name: &str, sha256: &str, flags: &[&str]) -> String {
    let words = ["approve", file, "--name", name, "--sha256", sha256];
    components_command(&[&words, flags].concat())
}

/// The two commands that look at a file and approve it.
fn to_approve(
    name: &str,
    path: &str,
    sha256: &str,
    replaces: Option<&str>,
    flags: &[&str],
) -> String {
    let replaces = replaces.map(|builtin| ["--replaces", builtin]);
    let flags = [replaces.as_ref().map_or(&[][..], |flag| flag), flags].concat();
    let inspect = components_command(&["inspect", path]);
    let approve = approve_command(path, name, sha256, &flags);
    format!("look at it with `{inspect}`; to approve it: {approve}")
}

impl From<Refused> for act_core::Failure {
    fn from(refused: Refused) -> Self {
        Self::refused(refused.code(), refused.to_string()).hint(refused.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CAPABILITY-27, security line 41
    #[test]
    fn the_command_is_exact_and_a_path_cannot_add_to_it() {
        let asked = |path: &str| {
            let (name, sha256) = ("license".to_owned(), "ab".to_owned());
            let replaces = Some("scout-a".to_owned());
            Refused::Unapproved { name, sha256, path: path.to_owned(), replaces }.hint()
        };
        assert!(asked("/r/x.wasm").ends_with(
            "act components approve /r/x.wasm --name license --sha256 ab --replaces scout-a"
        ));
        assert!(
            asked("/r/$(rm -rf x);'.wasm").contains("approve '/r/$(rm -rf x);'\\''.wasm' --name")
        );
    }
}
