//! Letting it in: what is found wrong before anything runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::Options;
use super::check::{ADMITTED, Checks};
use act_component::{
    AdmissionError, Capability, ComponentHost, Grant, Inspection, Kind, Limits, LoadError, Loaded,
    NotAComponent, Outbound, usual,
};
use act_core::event::{Event, EventKind, Events, Sink};

pub(super) struct Admitted {
    pub(super) name: Option<String>,
    pub(super) kind: Option<Kind>,
    pub(super) component: Option<Loaded>,
    pub(super) load_ms: u64,
    pub(super) compiled: bool,
}

/// Loads it with what its manifest asks for and nothing real: no address can be reached and no variable is shown.
pub(super) fn look(bytes: &[u8], options: &Options, checks: &mut Checks) -> Admitted {
    let inspected = Inspection::of(bytes.to_vec()).ok();
    let manifest = inspected.map(|inspection| inspection.manifest);
    let limits = Limits { wall: options.wall, ..Limits::default() };
    let grant = manifest.as_ref().map_or_else(Grant::default, |manifest| {
        let mut grant = usual(&manifest.needs, limits);
        if !grant.env.is_empty() {
            Capability::Env.close(&mut grant);
            grant.withheld.insert(Capability::Env.name().to_owned());
        }
        grant
    });
    let nowhere = Outbound::new(
        |_, _| Box::pin(async { Err(std::io::Error::other("there is no network in a test")) }),
        |_| false,
    );
    let compiled = Compiled::default();
    let events = Events::new("", vec![Box::new(compiled.clone())]);
    let started = Instant::now();
    let host = ComponentHost::new(options.cache.as_deref()).reaching(nowhere);
    let loaded = host.load(bytes, grant, &events);
    let load_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let failed = loaded.as_ref().err().map(|error| (which(error), error.to_string()));
    for name in ADMITTED {
        match &failed {
            Some((failed, why)) if *failed == name => {
                checks.note(name, Err(why.clone()));
                break;
            }
            _ => checks.note(name, Ok(())),
        }
    }
    let compiled = *compiled.0.lock().unwrap_or_else(PoisonError::into_inner);
    Admitted {
        name: manifest.as_ref().map(|manifest| manifest.name.clone()),
        kind: manifest.map(|manifest| manifest.kind),
        component: loaded.ok(),
        load_ms,
        compiled,
    }
}

/// The check that an error belongs to.
fn which(error: &LoadError) -> &'static str {
    match error {
        LoadError::NotAComponent(NotAComponent::NoManifest | NotAComponent::SeveralManifests)
        | LoadError::Manifest(_) => "manifest",
        LoadError::NotAComponent(_) => "component",
        LoadError::Refused {
            why: AdmissionError::Newer { .. } | AdmissionError::OtherMajor { .. },
            ..
        } => "interfaces",
        LoadError::WrongKind { .. }
        | LoadError::OtherKind { .. }
        | LoadError::Refused { why: AdmissionError::ScoutThatEdits(_), .. } => "kind",
        LoadError::Refused { .. } => "grants",
        LoadError::Engine { .. } | LoadError::Unrecorded { .. } => "loads",
    }
}

#[derive(Clone, Default)]
struct Compiled(Arc<Mutex<bool>>);

impl Sink for Compiled {
    fn event(&mut self, event: &Event) {
        if matches!(event.kind, EventKind::ComponentCompiled { .. }) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
    }
}
