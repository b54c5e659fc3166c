//! The capability `env`: environment variables that a component may read, each granted by name. `wasi:config` reads the same
//! variables by their names as keys, because other hosts give their components settings and keys in this way.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use wasmtime::component::{ComponentType, HasSelf, Lift, Linker, Lower};
use wasmtime_wasi::p2::bindings::cli::environment;

use super::{Access, Capability, Grant, Import, Metered, Need, joined};
use crate::bindings::refusal_text;
use crate::bounds::{Element, Set};
use crate::call::State;
use crate::failure::one_line;
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

/// The interfaces of `wasi:config` under the names by which components are built against it. They have the same functions.
/// An engine does not take one draft for another, so each name is linked.
pub(crate) const CONFIG: [&str; 5] = [
    "wasi:config/store@0.2.0-draft",
    "wasi:config/store@0.2.0-draft-2024-09-27",
    "wasi:config/store@0.2.0-rc.1",
    "wasi:config/runtime@0.2.0-draft",
    "wasi:config/runtime@0.2.0-draft-2024-09-27",
];

pub(crate) struct Rules;

impl super::Rules for Rules {
    type Bounds = Set<EnvName>;
    type Ceiling = Option<Set<EnvName>>;
    type Meters = EnvMeters;
    const MEANING: &'static str = "reads these environment variables and no others";
    const MAY_WAIT: bool = false;

    fn meters(_granted: &Set<EnvName>, _limits: &Limits) -> EnvMeters {
        EnvMeters::default()
    }

    fn is_behind(import: &Import<'_>) -> bool {
        import.interface == "wasi:cli/environment" || import.package == "wasi:config"
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
        environment::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
        for name in CONFIG {
            let mut config = linker.instance(name)?;
            config.func_wrap("get", |mut store, (key,): (String,)| {
                Ok((store.data_mut().setting(&key),))
            })?;
            config.func_wrap("get-all", |mut store, (): ()| {
                Ok((Ok::<_, ConfigError>(store.data_mut().variables()),))
            })?;
        }
        Ok(())
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

/// The error of `wasi:config`.
#[derive(Debug, Clone, ComponentType, Lift, Lower)]
#[component(variant)]
enum ConfigError {
    #[component(name = "upstream")]
    Upstream(String),
    #[component(name = "io")]
    Io(String),
}

impl State {
    /// Returns the granted variables that are set. A variable that holds a key of the host is withheld, whatever
    /// its name.
    fn variables(&mut self) -> Vec<(String, String)> {
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
        set
    }

    /// Returns the variable that a key of `wasi:config` names; `None` if it is granted and not set. The interface has an
    /// error, so a key that is not granted does not look like one that is not set.
    fn setting(&mut self, key: &str) -> Result<Option<String>, ConfigError> {
        let refused = |why: &str| Err(ConfigError::Upstream(refusal_text("denied", why)));
        let granted = key.parse::<EnvName>().ok().filter(|name| self.call.grant.env.contains(name));
        let Some(name) = granted else {
            let key = one_line(key, MAX_NAME);
            self.call.deny(Capability::Env, &key);
            return refused(&format!(
                "`{key}` is not granted to this component; a need of `env` with this name would grant it"
            ));
        };
        let Ok(value) = std::env::var(name.as_str()) else { return Ok(None) };
        if Secrets::of(|name| std::env::var(name).ok()).are_in(&value) {
            self.call.deny(Capability::Env, &format!("{name}: it holds a key of the host"));
            return refused(&format!("`{name}` holds a key of the host, which no component gets"));
        }
        self.call.meters.env.add([name.as_str()].into_iter());
        Ok(Some(value))
    }
}

impl environment::Host for State {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(self.variables())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(vec![])
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}
