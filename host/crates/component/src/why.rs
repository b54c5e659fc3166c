//! Which of the four parties says no to one thing that a component may want to do. Pure.

use serde::Serialize;

use super::admission::{Capability, Terms};
use super::grant::{Clock, Grant, Random};
use super::words::{EnvName, Method, NotAWord, Origin, RepoPart};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    Read(String),
    Write(String),
    Request {
        origin: Origin,
        method: Method,
    },
    Env(EnvName),
    /// Without anything more exact.
    Plain(Capability),
}

/// Who has a say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Party {
    Imports,
    Needs,
    Grants,
    Ceiling,
}

/// What one of them says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Says {
    pub party: Party,
    pub allows: bool,
}

impl Access {
    /// As people write it: an address, `METHOD ADDRESS`, `env:NAME`, `write:PATH`, `read:PATH`, the name of a
    /// grant, else a path to read.
    pub fn parse(text: &str) -> Result<Self, NotAWord> {
        if let Some(capability) = Capability::named(text) {
            return Ok(Self::Plain(capability));
        }
        if let Some(name) = text.strip_prefix("env:") {
            return name.parse().map(Self::Env);
        }
        let (method, address) = match text.split_once(' ') {
            Some((method, address)) => (method, address),
            None => ("GET", text),
        };
        if address.contains("://") {
            let (origin, method) = (origin_of(address)?, method.parse()?);
            return Ok(Self::Request { origin, method });
        }
        let part = |path: &str| path.parse().map(|part: RepoPart| part.as_str().to_owned());
        match text.split_once(':') {
            Some(("write", path)) => part(path).map(Self::Write),
            Some(("read", path)) => part(path).map(Self::Read),
            _ => part(text).map(Self::Read),
        }
    }

    fn allowed_by(&self, grant: &Grant) -> bool {
        match self {
            Self::Read(path) => grant.repo_read.as_ref().is_some_and(|read| read.covers(path)),
            Self::Write(path) => grant.may_write(path),
            Self::Request { origin, method } => grant
                .http
                .as_ref()
                .is_some_and(|http| http.origins.contains(origin) && http.methods.contains(method)),
            Self::Env(name) => grant.env.contains(name),
            Self::Plain(Capability::Clock) => grant.clock > Clock::Constant,
            Self::Plain(Capability::Random) => grant.random > Random::Seeded,
            Self::Plain(capability) => grant.has(*capability),
        }
    }

    fn capability(&self) -> Capability {
        match self {
            Self::Read(_) => Capability::RepoRead,
            Self::Write(_) => Capability::RepoWrite,
            Self::Request { .. } => Capability::Http,
            Self::Env(_) => Capability::Env,
            Self::Plain(capability) => *capability,
        }
    }
}

/// Scheme, host and port as they stand there, so that a spelling that is not exact is told as such.
fn origin_of(address: &str) -> Result<Origin, NotAWord> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    format!("{scheme}://{host}").parse()
}

/// All four, in the order in which they are asked.
pub fn why(terms: &Terms, access: &Access) -> [Says; 4] {
    let withheld = terms.grants.withheld.contains(access.capability().name());
    [
        (Party::Imports, &terms.imports),
        (Party::Needs, &terms.needs),
        (Party::Grants, &terms.grants),
        (Party::Ceiling, &terms.ceiling),
    ]
    .map(|(party, grant)| Says {
        party,
        allows: access.allowed_by(grant) && !(withheld && party == Party::Grants),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Need;
    use crate::manifest::SuggestedLimits;

    fn no(terms: &Terms, object: &str) -> Vec<Party> {
        let access = Access::parse(object).unwrap();
        let says = why(terms, &access).into_iter();
        says.filter(|says| !says.allows).map(|says| says.party).collect()
    }

    // CAPABILITY-31
    #[test]
    fn every_party_that_says_no_is_named() {
        let need = |grant: &str| Need { grant: grant.into(), why: "x".into(), ..Need::default() };
        let needs = [need("repo.read"), need("llm")];
        let imports: Vec<String> = [
            "agentcommand:repo/read@1.3.0",
            "agentcommand:model/chat@1.0.0",
            "wasi:http/types@0.2.6",
        ]
        .map(str::to_owned)
        .into();
        let mut granted = Grant::builtin_scout();
        granted.repo_read.as_mut().unwrap().paths =
            [RepoPart::try_from("src".to_owned()).unwrap()].into_iter().collect();
        let ceiling = Grant { llm: None, ..Grant::everything() };
        let terms = Terms::new(&imports, &needs, &SuggestedLimits::default(), &granted, &ceiling);
        assert_eq!(no(&terms, "src/lib.rs"), []);
        assert_eq!(no(&terms, "docs/a.md"), [Party::Grants]);
        assert_eq!(no(&terms, "llm"), [Party::Ceiling]);
        assert_eq!(no(&terms, "https://api.example.com/v1"), [Party::Needs, Party::Grants]);
        assert_eq!(no(&terms, "write:src/lib.rs"), [Party::Imports, Party::Needs, Party::Grants]);
        assert_eq!(no(&terms, "env:FOO"), [Party::Imports, Party::Needs, Party::Grants]);
    }

    #[test]
    fn an_object_that_is_none_is_refused() {
        for bad in [
            "",
            "../x",
            "https://API.example.com",
            "https://user@h",
            "BREW https://h",
            "env:AGENT_X",
        ] {
            assert!(Access::parse(bad).is_err(), "{bad}");
        }
    }
}
