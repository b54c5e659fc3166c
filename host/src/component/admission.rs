//! Whether a component is let in, and with what.
//!
//! Decides what an import asks for, whether declared needs and the grant cover it, and what is then in force:
//! imports ∩ declared ∩ granted. Pure, so that every answer can be tested without an engine.

use serde::Serialize;

use super::grant::Grant;

/// What a component says that it needs, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    pub grant: String,
    pub why: String,
}

/// An import that no grant covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingGrant {
    pub import: String,
    pub grant: String,
}

impl std::fmt::Display for MissingGrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (grant `{}`)", self.import, self.grant)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Capability {
    RepoRead,
    RepoWrite,
    Llm,
    Http,
    Sockets,
}

impl Capability {
    const ALL: [Self; 5] = [Self::RepoRead, Self::RepoWrite, Self::Llm, Self::Http, Self::Sockets];

    fn name(self) -> &'static str {
        match self {
            Self::RepoRead => "repo.read",
            Self::RepoWrite => "repo.write",
            Self::Llm => "llm",
            Self::Http => "http",
            Self::Sockets => "sockets",
        }
    }

    /// In the world of every component, so that an import alone says nothing: without a need it is linked
    /// and answers `denied`.
    fn in_base_world(self) -> bool {
        matches!(self, Self::RepoRead | Self::Llm)
    }
}

/// What stands behind the name of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// Comes with every guest's standard library, or is `progress`: linked, and closed where it could reach
    /// anything.
    Base,
    Needs(Capability),
    /// No such interface here.
    Unknown,
}

fn behind(import: &str) -> Behind {
    let interface = import.split('@').next().unwrap_or(import);
    let (package, _) = interface.split_once('/').unwrap_or((interface, ""));
    match (package, interface) {
        ("wasi:io" | "wasi:cli" | "wasi:clocks" | "wasi:random" | "wasi:filesystem", _) => {
            Behind::Base
        }
        (_, "agentcommand:progress/progress" | "agentcommand:types/types") => Behind::Base,
        (_, "agentcommand:repo/read" | "agentcommand:repo/symbols") => {
            Behind::Needs(Capability::RepoRead)
        }
        (_, "agentcommand:repo/edit") => Behind::Needs(Capability::RepoWrite),
        (_, "agentcommand:model/chat") => Behind::Needs(Capability::Llm),
        ("wasi:http", _) => Behind::Needs(Capability::Http),
        ("wasi:sockets", _) => Behind::Needs(Capability::Sockets),
        _ => Behind::Unknown,
    }
}

/// The imports that `grant` does not cover, in their order.
pub fn missing(imports: &[String], grant: &Grant) -> Vec<MissingGrant> {
    let uncovered = |import: &String| match behind(import) {
        Behind::Needs(capability) if !grant.covers(capability) => {
            Some(MissingGrant { import: import.clone(), grant: capability.name().to_owned() })
        }
        _ => None,
    };
    imports.iter().filter_map(uncovered).collect()
}

/// Why imports, declared needs and grant do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("it imports {} without that grant; approve it with the grant, or leave it out", list(.0))]
    Missing(Vec<MissingGrant>),
    #[error(
        "it imports {0}, which this program does not have; build it against the interfaces in `wit/`"
    )]
    UnknownImport(String),
    #[error("it needs `{0}` but imports nothing for it; drop the need from its manifest")]
    NeedWithoutImport(String),
    #[error(
        "it needs `{0}`, which is no grant; the grants are `repo.read`, `repo.write` and `llm`"
    )]
    UnknownNeed(String),
}

fn list(missing: &[MissingGrant]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What the component really gets: imports ∩ declared ∩ granted, or why it is not to be loaded.
pub(super) fn effective(
    imports: &[String],
    needs: &[Need],
    grant: &Grant,
) -> Result<Grant, Mismatch> {
    let declared =
        |capability: Capability| needs.iter().any(|need| need.grant == capability.name());
    let mut wanted = vec![];
    for import in imports {
        match behind(import) {
            Behind::Base => {}
            Behind::Unknown => return Err(Mismatch::UnknownImport(import.clone())),
            Behind::Needs(capability) => {
                if declared(capability) || !capability.in_base_world() {
                    wanted.push(import.clone());
                }
            }
        }
    }
    let narrowed = grant.narrowed_to(needs);
    let mut missing = missing(&wanted, &narrowed);
    for Need { grant: name, .. } in needs {
        let Some(capability) =
            Capability::ALL.into_iter().find(|capability| capability.name() == name)
        else {
            return Err(Mismatch::UnknownNeed(name.clone()));
        };
        // A guest may read through its preopen alone.
        let preopens =
            imports.iter().find(|import| import.starts_with("wasi:filesystem/preopens@"));
        match preopens.filter(|_| capability == Capability::RepoRead) {
            Some(_) if narrowed.repo_read.is_some() => {}
            Some(import) => {
                missing.push(MissingGrant { import: import.clone(), grant: name.clone() });
            }
            None if imports.iter().any(|import| behind(import) == Behind::Needs(capability)) => {}
            None => return Err(Mismatch::NeedWithoutImport(name.clone())),
        }
    }
    if missing.is_empty() { Ok(narrowed) } else { Err(Mismatch::Missing(missing)) }
}

impl Grant {
    fn covers(&self, capability: Capability) -> bool {
        match capability {
            Capability::RepoRead => self.repo_read.is_some(),
            Capability::RepoWrite => self.repo_write,
            Capability::Llm => self.llm.is_some(),
            Capability::Http | Capability::Sockets => false,
        }
    }

    /// Declared ∩ granted: what was given but not asked for stays shut.
    fn narrowed_to(&self, needs: &[Need]) -> Self {
        let asked =
            |capability: Capability| needs.iter().any(|need| need.grant == capability.name());
        Self {
            repo_read: self.repo_read.clone().filter(|_| asked(Capability::RepoRead)),
            repo_write: self.repo_write && asked(Capability::RepoWrite),
            llm: self.llm.clone().filter(|_| asked(Capability::Llm)),
            limits: self.limits.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: &str = "agentcommand:repo/read@0.1.0";
    const CHAT: &str = "agentcommand:model/chat@0.1.0";
    const EDIT: &str = "agentcommand:repo/edit@0.1.0";
    const PREOPENS: &str = "wasi:filesystem/preopens@0.2.6";
    const TCP: &str = "wasi:sockets/tcp@0.2.6";

    fn imports(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn needs(grants: &[&str]) -> Vec<Need> {
        grants
            .iter()
            .map(|grant| Need { grant: grant.to_string(), why: "a test".to_owned() })
            .collect()
    }

    #[test]
    fn every_import_beyond_base_wasi_and_progress_needs_a_grant() {
        let all = imports(&[
            "wasi:io/streams@0.2.6",
            "wasi:cli/environment@0.2.6",
            PREOPENS,
            "agentcommand:progress/progress@0.1.0",
            "agentcommand:types/types@0.1.0",
            READ,
            "agentcommand:repo/symbols@0.1.0",
            EDIT,
            CHAT,
            TCP,
            "wasi:http/outgoing-handler@0.2.6",
        ]);
        let names = |grant: &Grant| {
            missing(&all, grant).into_iter().map(|missing| missing.grant).collect::<Vec<_>>()
        };
        assert_eq!(
            names(&Grant::default()),
            ["repo.read", "repo.read", "repo.write", "llm", "sockets", "http"]
        );
        assert_eq!(names(&Grant::builtin_scout()), ["repo.write", "sockets", "http"]);
        assert_eq!(names(&Grant::builtin_tool()), ["llm", "sockets", "http"]);
    }

    // CAPABILITY-3
    #[test]
    fn what_is_granted_but_not_declared_stays_shut() {
        let all = imports(&[READ, CHAT]);
        let effective = effective(&all, &needs(&["llm"]), &Grant::builtin_scout()).unwrap();
        assert_eq!(effective.repo_read, None);
        assert!(effective.llm.is_some());
    }

    #[test]
    fn an_undeclared_import_of_the_base_world_is_linked_closed() {
        let effective = effective(&imports(&[READ, CHAT]), &[], &Grant::default()).unwrap();
        assert_eq!(effective, Grant::default());
    }

    // CAPABILITY-4, security line 27
    #[test]
    fn a_missing_grant_names_the_import_and_the_grant() {
        for (import, need, grant) in
            [(TCP, None, "sockets"), (EDIT, None, "repo.write"), (CHAT, Some("llm"), "llm")]
        {
            let declared = needs(need.as_slice());
            let refused = effective(&imports(&[import]), &declared, &Grant::default()).unwrap_err();
            let shown = refused.to_string();
            assert!(shown.contains(import) && shown.contains(&format!("`{grant}`")), "{shown}");
        }
    }

    #[test]
    fn a_preopen_that_was_declared_but_not_granted_is_missing_too() {
        let declared = needs(&["repo.read"]);
        let refused = effective(&imports(&[PREOPENS]), &declared, &Grant::default());
        let missing = MissingGrant { import: PREOPENS.to_owned(), grant: "repo.read".to_owned() };
        assert_eq!(refused, Err(Mismatch::Missing(vec![missing])));
        assert!(effective(&imports(&[PREOPENS]), &declared, &Grant::builtin_scout()).is_ok());
    }

    #[test]
    fn a_need_that_nothing_imports_is_refused() {
        let refused = effective(&[], &needs(&["llm"]), &Grant::builtin_scout());
        assert_eq!(refused, Err(Mismatch::NeedWithoutImport("llm".to_owned())));
    }

    #[test]
    fn a_need_that_is_no_grant_and_an_import_that_is_no_interface_are_refused() {
        let grant = Grant::builtin_tool();
        let refused = effective(&[], &needs(&["root"]), &grant);
        assert_eq!(refused, Err(Mismatch::UnknownNeed("root".to_owned())));
        let refused = effective(&imports(&["evil:shell/run@1.0.0"]), &[], &grant);
        assert_eq!(refused, Err(Mismatch::UnknownImport("evil:shell/run@1.0.0".to_owned())));
        // No name is matched by its beginning.
        let refused = effective(&imports(&["wasi:iota/x@0.2.0"]), &[], &grant);
        assert!(matches!(refused, Err(Mismatch::UnknownImport(_))));
    }
}
