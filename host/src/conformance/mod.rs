//! Conformance tests of a component, for `act components test`: whether it keeps the promises of its interfaces.
//!
//! [`test`] loads the component as any other, but into a repository that was made for the test, with a scripted model and
//! without a network. `queries` asks it what an Editor may ask, and `sample` makes up arguments and answers from schemas.
//! The result lists each check by its name.

mod queries;
mod sample;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

pub use queries::Queried;

use act_component::{
    AdmissionError, Capability, ComponentHost, Grant, Inspection, Kind, Limits, LoadError, Loaded,
    Need, NotAComponent, Outbound, usual,
};
use act_core::Document;
use act_core::event::{Event, EventKind, Events, Sink};
use act_model::scripted::Script;

/// The checks before any code of the component runs, in this order.
const LOADING: [&str; 6] = ["component", "manifest", "interfaces", "kind", "grants", "loads"];
const SCOUT: [&str; 6] = ["facts", "model_nonsense", "report", "paths", "repeats", "model_failure"];
const TOOL: [&str; 3] = ["calls", "bad_arguments", "unknown_tool"];
/// The checks over all queries.
const ALL_QUERIES: [&str; 3] = ["ends", "limits", "confined"];

/// The options of a test.
#[derive(Debug, Clone)]
pub struct Options {
    /// The question to a Scout.
    pub question: String,
    pub context: Vec<(String, String)>,
    /// The model's answers to the question. Without a script they are made up from the schemas.
    pub script: Option<Script>,
    /// Maximum wall time of one query.
    pub wall: Duration,
    /// The cache of compiled components.
    pub cache: Option<PathBuf>,
}

/// The result of a test: the document of `act components test --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Conformance {
    pub sha256: String,
    pub bytes: u64,
    /// The name in the component's manifest; null when the manifest cannot be read.
    pub name: Option<String>,
    pub kind: Option<Kind>,
    /// True when no check failed.
    pub conforms: bool,
    pub checks: Vec<Check>,
    /// Milliseconds until the component was ready for queries; `compiled` is true when it was not in the cache.
    pub load_ms: u64,
    pub compiled: bool,
    pub queries: Vec<Queried>,
    /// Duration of the slowest query, and the peak memory of any query.
    pub slowest_ms: u64,
    pub memory_bytes: u64,
}

impl Document for Conformance {
    const NAME: &'static str = "components-test";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Verdict"))]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    Pass,
    Fail,
    /// The check was not made, because an earlier one failed.
    Skipped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// Name of the check, a stable word.
    pub name: String,
    pub verdict: CheckResult,
    /// Why the check failed.
    pub reason: Option<String>,
}

/// Tests a component.
///
/// # Errors
///
/// The error of the system if the repository for the test cannot be made, or the scripted model cannot be started. What is
/// wrong with the component is no error but a failed check.
pub async fn test(bytes: &[u8], options: &Options) -> std::io::Result<Conformance> {
    let mut checks = Checks::default();
    let manifest =
        Inspection::of_stranger(bytes.to_vec()).ok().map(|inspection| inspection.manifest);
    let needs = manifest.as_ref().map(|manifest| manifest.needs.as_slice());
    let loading = Loading::load(bytes, needs, options, &mut checks);
    let queries = match &loading.component {
        Some(component) => queries::run(component, options, &mut checks).await?,
        None => vec![],
    };
    let kind = manifest.as_ref().map(|manifest| manifest.kind);
    let checks = checks.complete(kind);
    Ok(Conformance {
        sha256: act_workspace::digest(bytes),
        bytes: bytes.len() as u64,
        name: manifest.map(|manifest| manifest.name),
        kind,
        conforms: checks.iter().all(|check| check.verdict == CheckResult::Pass),
        checks,
        load_ms: loading.load_ms,
        compiled: loading.compiled,
        slowest_ms: queries.iter().map(|query| query.duration_ms).max().unwrap_or_default(),
        memory_bytes: queries.iter().map(|query| query.memory_bytes).max().unwrap_or_default(),
        queries,
    })
}

/// How the component was loaded.
struct Loading {
    component: Option<Loaded>,
    load_ms: u64,
    compiled: bool,
}

impl Loading {
    /// Loads the component with what its manifest requests, except for variables, and without a network.
    fn load(bytes: &[u8], needs: Option<&[Need]>, options: &Options, checks: &mut Checks) -> Self {
        let limits = Limits { wall: options.wall, ..Limits::default() };
        let mut grant = needs.map_or_else(Grant::default, |needs| usual(needs, limits));
        if !grant.env.is_empty() {
            Capability::Env.close(&mut grant);
            grant.withheld.insert(Capability::Env.name().to_owned());
        }
        let no_network = Outbound::new(
            |_, _| Box::pin(async { Err(std::io::Error::other("there is no network in a test")) }),
            |_| false,
        );
        let compiled = CompiledEvent::default();
        let events = Events::new("", vec![Box::new(compiled.clone())]);
        let started = Instant::now();
        let host = ComponentHost::new(options.cache.as_deref()).reaching(no_network);
        let loaded = host.load(bytes, grant, &events);
        let load_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let failed = loaded.as_ref().err().map(|error| (check_of(error), error.to_string()));
        for name in LOADING {
            match &failed {
                Some((failed, why)) if *failed == name => {
                    checks.add(name, Err(why.clone()));
                    break;
                }
                _ => checks.add(name, Ok(())),
            }
        }
        let compiled = *compiled.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self { component: loaded.ok(), load_ms, compiled }
    }
}

/// The check that an error belongs to.
fn check_of(error: &LoadError) -> &'static str {
    match error {
        LoadError::NotAComponent(NotAComponent::NoManifest | NotAComponent::SeveralManifests)
        | LoadError::Manifest(_) => "manifest",
        LoadError::NotAComponent(_) => "component",
        LoadError::Refused {
            why:
                AdmissionError::Newer { .. }
                | AdmissionError::OtherMajor { .. }
                | AdmissionError::OtherDraft { .. },
            ..
        } => "interfaces",
        LoadError::WrongKind { .. }
        | LoadError::OtherKind { .. }
        | LoadError::Refused { why: AdmissionError::ScoutThatEdits(_), .. } => "kind",
        LoadError::Refused { .. } => "grants",
        LoadError::Engine { .. } | LoadError::Confined { .. } | LoadError::Unrecorded { .. } => {
            "loads"
        }
    }
}

/// Notices the event that the component was compiled.
#[derive(Clone, Default)]
struct CompiledEvent(Arc<Mutex<bool>>);

impl Sink for CompiledEvent {
    fn event(&mut self, event: &Event) {
        if matches!(event.kind, EventKind::ComponentCompiled { .. }) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
    }
}

/// The results of the checks so far.
#[derive(Debug, Default)]
struct Checks(Vec<Check>);

impl Checks {
    /// Adds a result. The first failure of a check stays.
    fn add(&mut self, name: &'static str, result: Result<(), String>) {
        let (verdict, reason) = match result {
            Ok(()) => (CheckResult::Pass, None),
            Err(reason) => (CheckResult::Fail, Some(reason)),
        };
        match self.0.iter_mut().find(|check| check.name == name) {
            Some(check) if check.verdict == CheckResult::Fail => {}
            Some(check) => (check.verdict, check.reason) = (verdict, reason),
            None => self.0.push(Check { name: name.to_owned(), verdict, reason }),
        }
    }

    /// All checks of a component of this kind, in their order. A check without a result was skipped.
    fn complete(self, kind: Option<Kind>) -> Vec<Check> {
        let (own, all_queries): (&[&str], &[&str]) = match kind {
            Some(Kind::Scout) => (&SCOUT, &ALL_QUERIES),
            Some(Kind::Tool) => (&TOOL, &ALL_QUERIES),
            None => (&[], &[]),
        };
        let result = |name: &&str| {
            let check = self.0.iter().find(|check| check.name == *name).cloned();
            check.unwrap_or_else(|| Check {
                name: (*name).to_owned(),
                verdict: CheckResult::Skipped,
                reason: None,
            })
        };
        LOADING.iter().chain(own).chain(all_queries).map(result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    // COMPONENT-5
    #[test]
    fn the_first_reason_stays_and_what_was_not_reached_is_named() {
        let mut checks = Checks::default();
        checks.add("component", Ok(()));
        checks.add("manifest", Err("one".to_owned()));
        checks.add("manifest", Ok(()));
        let list = checks.complete(Some(Kind::Tool));
        assert_eq!(list.len(), 12);
        assert_eq!((list[0].verdict, list[1].verdict), (CheckResult::Pass, CheckResult::Fail));
        assert_eq!(list[1].reason.as_deref(), Some("one"));
        assert!(list[2..].iter().all(|check| check.verdict == CheckResult::Skipped));
    }

    #[test]
    fn the_schema_of_a_test_is_published() {
        // EVENT-8
        schema::document_holds::<Conformance>();
    }
}
