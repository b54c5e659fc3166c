//! The capability boundary: the only module that names wasmtime.
//!
//! A component gets what it imports, declares and was granted, and nothing else; every query runs in a store
//! of its own that ends with it. Decides who is let in with what (`admission`), what a component says of itself
//! (`manifest`) and how a query ends (`failure`); everything else translates between the engine and the
//! modules that it lends from, `workspace` and `model`.

mod admission;
mod audited;
mod bindings;
pub mod builtin;
mod cache;
mod closed_wasi;
pub mod custom_section;
mod denials;
mod engine;
mod failure;
mod fs_reader;
mod fs_view;
mod fs_words;
mod grant;
mod imports;
mod instance;
mod limits;
mod linker;
mod manifest;
mod state;
mod voice;
mod wasm_file;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wasmtime::Engine;

pub use admission::{Mismatch, MissingGrant, Need, missing};
pub use audited::in_words;
pub use cache::{CacheState, cache_dir, cache_state};
pub use failure::{ComponentFailure, GuestFailure, Limit};
pub use grant::{Grant, Limits, Llm, RepoRead};
pub use manifest::{Kind, Manifest, ManifestError, SuggestedLimits};
pub use wasm_file::NotAComponent;

use crate::audit::{Audit, AuditError, Subject};
use crate::event::Events;
use crate::model::Model;
use crate::workspace::{RepoView, RepoWriter, Versions};
use audited::Audited;
use failure::{MAX_LINE, one_line};
use instance::{Answer, Holder, Job, Pre};

/// Loads components. Costs nothing until the first one is loaded.
pub struct ComponentHost {
    audit: Option<Audit>,
    cache: Option<PathBuf>,
    engine: OnceLock<Engine>,
}

/// Why a component is not loaded. Nothing of it has run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    NotAComponent(#[from] NotAComponent),
    #[error(transparent)]
    Manifest(ManifestError),
    #[error("`{name}` is refused: {mismatch}")]
    Refused { name: String, mismatch: Mismatch },
    #[error("`{name}` says that it is a {} but does not export {}", kind.word(), kind.export())]
    WrongKind { name: String, kind: Kind },
    #[error("`{name}` is a scout and imports {import}: a scout can never change a file")]
    ScoutThatEdits { name: String, import: String },
    #[error("`{name}` cannot be compiled or linked: {why}")]
    Engine { name: String, why: String },
    #[error("`{name}` is not loaded without a record: {why}; {hint}", hint = why.hint())]
    Unrecorded { name: String, why: AuditError },
}

impl LoadError {
    /// A stable word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotAComponent(_) => "not_a_component",
            Self::Manifest(_) => "bad_manifest",
            Self::Refused { .. } => "not_granted",
            Self::WrongKind { .. } => "wrong_kind",
            Self::ScoutThatEdits { .. } => "scout_that_edits",
            Self::Engine { .. } => "not_compiled",
            Self::Unrecorded { .. } => "unrecorded",
        }
    }
}

impl From<ManifestError> for LoadError {
    fn from(error: ManifestError) -> Self {
        match error {
            ManifestError::NotAComponent(error) => Self::NotAComponent(error),
            error => Self::Manifest(error),
        }
    }
}

/// What the host lends for one query; a component gets of it what its grant covers.
#[derive(Clone)]
pub struct Services {
    pub view: Option<RepoView>,
    /// The task's counters of file versions, which the writer shares.
    pub versions: Option<Versions>,
    pub writer: Option<Arc<RepoWriter>>,
    /// The model and the role under which the component talks to it.
    pub model: Option<(Arc<dyn Model>, String)>,
    /// 1 for the first try; told in events only.
    pub attempt: u32,
    pub events: Events,
}

/// What a Scout is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScoutQuestion {
    pub text: String,
    pub context: Vec<(String, String)>,
    pub facts_only: bool,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// For the model.
    pub text: String,
    /// For events and diffs, as JSON text.
    pub data: Option<String>,
    pub is_error: bool,
}

/// A component that was checked against its grant and is ready to be asked, any number of times at once.
#[derive(Clone)]
pub struct LoadedComponent {
    pub manifest: Manifest,
    /// Of the component's bytes.
    pub sha256: String,
    /// What is in force: declared ∩ granted, limits narrowed to those that the manifest suggests.
    pub grant: Grant,
    pub world: &'static str,
    pub imports: Vec<String>,
    pre: Arc<Pre>,
    audited: Option<Arc<Audited>>,
}

impl ComponentHost {
    /// `cache` is a directory for compiled code that nobody but the user may open; it is made when needed.
    pub fn new(cache: Option<&Path>) -> Self {
        Self { audit: None, cache: cache.map(Path::to_owned), engine: OnceLock::new() }
    }

    /// Whose components are recorded: what is loaded or refused, what they are denied, change and use. Nothing of
    /// them runs while that cannot be written.
    #[must_use]
    pub fn audited(self, audit: Audit) -> Self {
        Self { audit: Some(audit), ..self }
    }

    /// Checks `bytes` against `grant` and makes them ready; runs nothing of them. Takes seconds when they
    /// have to be compiled, so not inside a deadline.
    pub fn load(
        &self,
        bytes: &[u8],
        grant: Grant,
        events: &Events,
    ) -> Result<LoadedComponent, LoadError> {
        let loaded = self.check(bytes, grant, events);
        let Some(audit) = &self.audit else { return loaded };
        let name = |manifest: &Manifest| manifest.name.clone();
        match loaded {
            Ok(mut loaded) => {
                let unrecorded = |why| LoadError::Unrecorded { name: name(&loaded.manifest), why };
                let subject = Subject {
                    name: name(&loaded.manifest),
                    sha256: loaded.sha256.clone(),
                    world: Some(loaded.world.to_owned()),
                };
                let audited = Audited::loaded(audit, subject, &loaded.grant).map_err(unrecorded)?;
                loaded.audited = Some(audited);
                Ok(loaded)
            }
            Err(error) => {
                let name =
                    Manifest::read(bytes).map_or_else(|_| "unknown".to_owned(), |m| name(&m));
                // The refusal stands, whether it can be written or not.
                let _ = audited::refused(audit, &name, &crate::workspace::digest(bytes), &error);
                Err(error)
            }
        }
    }

    fn check(
        &self,
        bytes: &[u8],
        grant: Grant,
        events: &Events,
    ) -> Result<LoadedComponent, LoadError> {
        let (size, limit) = (bytes.len() as u64, grant.limits.wasm_bytes);
        if size > limit {
            return Err(NotAComponent::TooLarge { bytes: size, limit }.into());
        }
        let manifest = Manifest::read(bytes)?;
        let name = manifest.name.clone();
        let failed = |error: wasmtime::Error| LoadError::Engine {
            name: name.clone(),
            why: one_line(&format!("{error:#}"), MAX_LINE),
        };
        let sha256 = crate::workspace::digest(bytes);
        let engine = self.engine().map_err(failed)?;
        let cache = self.cache.as_deref();
        let component =
            engine::code(engine, cache, bytes, &sha256, &name, events).map_err(failed)?;

        let component_type = component.component_type();
        let imports: Vec<_> =
            component_type.imports(engine).map(|(import, _)| import.to_owned()).collect();
        let edits = imports.iter().find(|import| import.starts_with("agentcommand:repo/edit@"));
        if let (Kind::Scout, Some(import)) = (manifest.kind, edits) {
            return Err(LoadError::ScoutThatEdits { name, import: import.clone() });
        }
        let mut grant = admission::effective(&imports, &manifest.needs, &grant)
            .map_err(|mismatch| LoadError::Refused { name: name.clone(), mismatch })?;
        if !component_type.exports(engine).any(|(export, _)| export == manifest.kind.export()) {
            return Err(LoadError::WrongKind { name, kind: manifest.kind });
        }
        grant.limits.narrow(&manifest.limits);

        let pre = linker::linker(engine, &grant)
            .and_then(|linker| linker.instantiate_pre(&component))
            .and_then(|pre| Pre::new(manifest.kind, pre))
            .map_err(failed)?;
        let world = manifest.kind.world();
        let pre = Arc::new(pre);
        Ok(LoadedComponent { manifest, sha256, grant, world, imports, pre, audited: None })
    }

    fn engine(&self) -> wasmtime::Result<&Engine> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let engine = engine::engine()?;
        Ok(self.engine.get_or_init(|| engine))
    }
}

impl LoadedComponent {
    /// Asks a Scout once. The report is JSON text as the component wrote it, not yet checked.
    pub async fn ask(
        &self,
        question: ScoutQuestion,
        services: Services,
        wall: Duration,
        cancel: &CancellationToken,
    ) -> Result<String, ComponentFailure> {
        match self.run(Job::Ask(question), services, wall, cancel).await? {
            Answer::Report(report) => Ok(report),
            Answer::Outcome(_) => {
                Err(ComponentFailure::Host("an outcome instead of a report".to_owned()))
            }
        }
    }

    /// An edit that the tool itself refused, so that the host never heard of it.
    pub fn tell_refused_edit(&self, path: &str, op: &str, reason: &str) {
        if let Some(audited) = &self.audited {
            audited.edit_refused(path, op, reason);
        }
    }

    /// Calls a tool once with arguments as the model wrote them.
    pub async fn call(
        &self,
        tool: &str,
        arguments: &str,
        services: Services,
        wall: Duration,
        cancel: &CancellationToken,
    ) -> Result<ToolOutcome, ComponentFailure> {
        let job = Job::Call { tool: tool.to_owned(), arguments: arguments.to_owned() };
        match self.run(job, services, wall, cancel).await? {
            Answer::Outcome(outcome) => Ok(outcome),
            Answer::Report(_) => {
                Err(ComponentFailure::Host("a report instead of an outcome".to_owned()))
            }
        }
    }

    async fn run(
        &self,
        job: Job,
        services: Services,
        wall: Duration,
        cancel: &CancellationToken,
    ) -> Result<Answer, ComponentFailure> {
        let pre = Arc::clone(&self.pre);
        let audited = self.audited.as_ref();
        let holder = Holder { name: &self.manifest.name, grant: &self.grant, audited };
        instance::run(holder, pre, job, services, wall, cancel).await
    }
}
