//! The capability `env`: environment variables that a component may read, each granted by name.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::p2::bindings::cli::environment;

use super::{Access, Capability, Grant, Import, Metered, Need, joined};
use crate::bounds::{Element, Set};
use crate::call::State;
use crate::limits::Limits;
use crate::values::value;
use act_core::secret::Secrets;

/// Longest name of a variable, in bytes.
const MAX_NAME: usize = 128;

value!(
    /// Name of an environment variable that may be granted.
    EnvName,
    is_env_name
);

/// Checks the name of a variable. Keys and settings of the model are never granted, in upper or lower case.
fn is_env_name(text: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.is_empty()
        || text.len() > MAX_NAME
        || text.starts_with(|c: char| c.is_ascii_digit())
        || !text.chars().all(fits)
    {
        return Err(format!("`{}` is not the name of a variable", text.escape_debug()));
    }
    let upper = text.to_ascii_uppercase();
    if ["AGENT_", "ANTHROPIC_", "OPENAI_"].iter().any(|start| upper.starts_with(start)) {
        return Err(format!(
            "`{text}` is never granted: keys and settings of the model stay with the host"
        ));
    }
    Ok(())
}

impl Element for EnvName {}

pub(crate) struct Rules;

impl super::Rules for Rules {
    type Bounds = Set<EnvName>;
    type Ceiling = Option<Set<EnvName>>;
    type Meters = EnvMeters;
    const MEANING: &'static str = "reads these environment variables and no others";

    fn meters(_granted: &Set<EnvName>, _limits: &Limits) -> EnvMeters {
        EnvMeters::default()
    }

    fn is_behind(import: &Import<'_>) -> bool {
        import.interface == "wasi:cli/environment"
    }

    fn requested(need: &Need) -> Set<EnvName> {
        need.names.iter().cloned().collect()
    }

    fn check(need: &Need) -> Result<(), (&'static str, &'static str)> {
        if need.names.is_empty() { Err(("needs.names", "name each variable")) } else { Ok(()) }
    }

    fn in_words(names: &Set<EnvName>) -> Option<String> {
        Some(joined(names.values())).filter(|names| !names.is_empty())
    }

    fn covers(grant: &Grant, access: &Access) -> bool {
        match access {
            Access::Env(name) => grant.env.contains(name),
            _ => !grant.env.is_empty(),
        }
    }

    fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
        environment::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
    }
}

/// The names of the variables that were given to the component.
#[derive(Debug, Default)]
pub(crate) struct EnvMeters(Mutex<BTreeSet<String>>);

impl EnvMeters {
    fn add<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(names.map(str::to_owned));
    }

    pub(crate) fn variables(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Metered for EnvMeters {
    fn is_used(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn names(&self) -> Vec<String> {
        self.variables()
    }
}

impl environment::Host for State {
    /// Returns the granted variables that are set. A variable that holds a key of the host is withheld, whatever
    /// its name.
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        let secrets = Secrets::of(|name| std::env::var(name).ok());
        let names = self.call.grant.env.values();
        let set =
            names.filter_map(|name| Some((name.to_string(), std::env::var(name.as_str()).ok()?)));
        let (withheld, set): (Vec<_>, Vec<_>) = set.partition(|(_, value)| secrets.are_in(value));
        for (name, _) in withheld {
            let object = format!("{name}: it holds a key of the host");
            self.call.deny(Capability::Env, &object);
        }
        self.call.meters.env.add(set.iter().map(|(name, _)| name.as_str()));
        Ok(set)
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(vec![])
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}
