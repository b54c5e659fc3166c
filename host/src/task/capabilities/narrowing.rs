//! Taking away what a component does not need: what that would be is decided from what it used.

use std::path::PathBuf;

use super::show::{never_used, past_of};
use super::{ALL, Here, apply, component_name, used};
use act_component::registry::{Change, ComponentDocument, State, UsageHistory};
use act_component::{Capability, Grant, Origin, RepoPart, Set, ValueError};
use act_core::event::Events;
use act_core::{Failure, shell_word};

/// What to take away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrow {
    /// Names of grants that go altogether.
    pub drop: Vec<String>,
    /// Reading is kept to these.
    pub paths: Vec<String>,
    /// Requests are kept to these.
    pub origins: Vec<String>,
}

impl Narrow {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// As it would be typed.
    pub(super) fn command(&self, name: &str) -> String {
        let mut command = format!("act components narrow {name}");
        for (option, values) in
            [("--drop", &self.drop), ("--path", &self.paths), ("--origin", &self.origins)]
        {
            for value in values {
                command.push_str(&format!(" {option} {}", shell_word(value)));
            }
        }
        command
    }
}

/// Never used, or only a part of it. Pure.
pub(super) fn proposal(grant: &Grant, past: &UsageHistory) -> Option<Narrow> {
    if past.queries == 0 {
        return None;
    }
    let mut narrow = Narrow { drop: never_used(grant, past), ..Narrow::default() };
    if let (Some(read), Some(parts)) = (&grant.repo_read, past.known_parts())
        && read.paths == Set::Any
        && parts.iter().all(|part| part.parse::<RepoPart>().is_ok())
    {
        narrow.paths = parts.iter().cloned().collect();
    }
    if let Some(http) = &grant.http
        && !past.origins.is_empty()
        && http.origins.values().any(|origin| !past.origins.contains(origin.as_str()))
    {
        narrow.origins = past.origins.iter().cloned().collect();
    }
    (!narrow.is_empty()).then_some(narrow)
}

/// Without a wish it is what `show` proposes.
pub fn narrow(
    start: PathBuf,
    name: &str,
    wish: Narrow,
    events: &Events,
) -> Result<ComponentDocument, Failure> {
    let name = component_name(name)?;
    let here = Here::open(&start)?;
    let component = here.document(name.as_str(), &used(ALL))?;
    if !matches!(component.state, State::Approved) {
        let message =
            format!("`{name}` is {}, so there is nothing to narrow", component.state.word());
        return Err(Failure::refused("nothing_to_narrow", message)
            .hint("only what you approved can be narrowed; policy.toml narrows what is built in"));
    }
    let wish = if wish.is_empty() {
        proposal(&component.grants, &past_of(&component)).ok_or_else(|| {
            let message = format!("nothing that `{name}` was granted is known to be too much");
            Failure::refused("nothing_to_narrow", message)
                .hint("say what to take away: --drop GRANT, --path PATH, --origin ORIGIN")
        })?
    } else {
        wish
    };
    let grant = narrowed(&component.grants, &wish)?;
    let sha256 = component.sha256.parse();
    let sha256 = sha256.map_err(|error: ValueError| Failure::usage(error.to_string()))?;
    apply(&start, Change::Narrow { name: name.clone(), sha256, grant }, events)?;
    Here::open(&start)?.document(name.as_str(), &used(ALL))
}

fn narrowed(grant: &Grant, wish: &Narrow) -> Result<Grant, Failure> {
    let usage = |error: ValueError| Failure::usage(error.to_string());
    let mut less = grant.clone();
    for name in &wish.drop {
        let held = |capability: &Capability| grant.has(*capability);
        let Some(capability) = Capability::named(name).filter(held) else {
            return Err(Failure::refused("nothing_to_narrow", format!("`{name}` is not granted"))
                .hint("`act components show NAME` lists what is"));
        };
        capability.close(&mut less);
        less.withheld.insert(name.clone());
    }
    for (values, option, held) in [
        (&wish.paths, "--path", less.repo_read.is_some()),
        (&wish.origins, "--origin", less.http.is_some()),
    ] {
        if !values.is_empty() && !held {
            let message = format!("{option}: it was granted nothing of that kind");
            return Err(Failure::refused("nothing_to_narrow", message)
                .hint("`act components show NAME` lists what it was granted"));
        }
    }
    if let Some(read) = less.repo_read.as_mut().filter(|_| !wish.paths.is_empty()) {
        let paths = wish.paths.iter().map(|path| path.parse());
        read.paths =
            paths.collect::<Result<Vec<RepoPart>, _>>().map_err(usage)?.into_iter().collect();
    }
    if let Some(http) = less.http.as_mut().filter(|_| !wish.origins.is_empty()) {
        let origins = wish.origins.iter().map(|origin| origin.parse());
        http.origins =
            origins.collect::<Result<Vec<Origin>, _>>().map_err(usage)?.into_iter().collect();
    }
    let less = grant.meet(&less);
    let of_nothing = less.repo_read.as_ref().is_some_and(|read| read.paths.is_empty())
        || less.http.as_ref().is_some_and(|http| http.origins.is_empty());
    if of_nothing {
        return Err(Failure::refused("nothing_to_narrow", "none of that was granted")
            .hint("to take a grant away altogether say --drop GRANT"));
    }
    Ok(less)
}

#[cfg(test)]
mod tests {
    use super::*;

    // CAPABILITY-32
    #[test]
    fn what_was_not_used_is_proposed_and_nothing_is_proposed_for_nothing() {
        let grant = Grant::builtin_scout();
        assert_eq!(proposal(&grant, &UsageHistory::default()), None);
        let past = UsageHistory {
            queries: 3,
            grants: ["repo.read".to_owned()].into(),
            parts: Some(["src".to_owned(), "it's".to_owned()].into()),
            ..UsageHistory::default()
        };
        let narrow = proposal(&grant, &past).unwrap();
        assert_eq!(
            narrow.command("x"),
            "act components narrow x --drop llm --path 'it'\\''s' --path src"
        );
        let less = narrowed(&grant, &narrow).unwrap();
        assert_eq!(less.llm, None);
        assert!(less.withheld.contains("llm"));
        let read = less.repo_read.as_ref().unwrap();
        assert!(read.covers("src/lib.rs") && !read.covers("docs"));
        let all = UsageHistory {
            grants: ["repo.read".to_owned(), "llm".to_owned()].into(),
            parts: None,
            ..past
        };
        assert_eq!(proposal(&grant, &all), None);
    }

    // CAPABILITY-32
    #[test]
    fn no_wish_widens() {
        let wide = Narrow { drop: vec!["http".into()], ..Narrow::default() };
        assert!(narrowed(&Grant::builtin_scout(), &wide).is_err());
        let first = Narrow { paths: vec!["src".into()], ..Narrow::default() };
        let once = narrowed(&Grant::builtin_scout(), &first).unwrap();
        let other = Narrow { paths: vec!["docs".into()], ..Narrow::default() };
        assert!(narrowed(&once, &other).is_err(), "reading nothing is no reading");
        let none = Narrow { origins: vec!["https://a.example".into()], ..Narrow::default() };
        assert!(narrowed(&once, &none).is_err());
        let second = Narrow { paths: vec!["docs".into(), "src/a".into()], ..Narrow::default() };
        let twice = narrowed(&once, &second).unwrap().repo_read.unwrap();
        assert!(twice.covers("src/a/b") && !twice.covers("docs") && !twice.covers("src/b"));
    }
}
