//! The capability boundary: the only module that names wasmtime.
//!
//! A component gets what it imports, declares and was granted, and nothing else; every query runs in a store
//! of its own that ends with it. Decides who is let in with what (`admission`), what a component says of itself
//! (`manifest`) and how a query ends (`failure`); everything else translates between the engine and the
//! modules that it lends from, `workspace` and `model`.

mod admission;
mod audited;
mod bindings;
mod bounds;
pub mod builtin;
mod cache;
mod closed_wasi;
pub mod custom_section;
mod denials;
mod engine;
mod failure;
mod files;
mod foreign;
mod grant;
mod http_left;
mod imports;
mod inspect;
mod instance;
mod interfaces;
mod limits;
mod linker;
mod manifest;
mod narrowed;
mod outbound;
mod read_ahead;
pub mod registry;
mod state;
mod usage;
mod voice;
mod wasm_file;
mod why;
mod words;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;

pub use admission::{Capability, Mismatch, MissingGrant, Need, Terms, effective, usual};
pub use audited::in_words;
pub use bounds::WASM as MAX_WASM;
pub use cache::{CacheState, cache_dir, cache_state};
pub use failure::{ComponentFailure, GuestFailure, Limit};
pub use foreign::LeftOut;
#[cfg(any(test, feature = "testing"))]
pub use foreign::arbitrary::Parameters as ArbitraryParameters;
pub use grant::{Clock, Grant, Http, Limits, Llm, Random, RepoRead, Set};
pub use inspect::Inspection;
pub use manifest::{Kind, Manifest, ManifestError, SuggestedLimits};
pub use narrowed::Narrowed;
pub use outbound::{Outbound, never_reached};
pub use wasm_file::NotAComponent;
pub use why::{Access, Party, Says, why};
pub use words::{ComponentName, EnvName, Method, NotAWord, Origin, RepoPart, Sha256};

use act_audit::{Audit, AuditError, Subject};
use act_core::event::{EventKind, Events};
use act_model::Model;
use act_symbols::Index;
use act_workspace::{RepoView, RepoWriter, Versions};
use audited::Audited;
use builtin::Builtin;
use failure::{MAX_LINE, one_line};
use instance::{Answer, Holder, Job, Lent, Pre, Ready};
use read_ahead::ReadAhead;
use usage::Usage;

/// Loads components. Costs nothing until the first one is loaded. Clones share the engine.
#[derive(Clone)]
pub struct ComponentHost {
    audit: Option<Audit>,
    cache: Option<PathBuf>,
    /// What the administrator allows any component.
    ceiling: Grant,
    outbound: Outbound,
    outlines: Option<Arc<Index>>,
    engine: Arc<OnceLock<Engine>>,
    ahead: ReadAhead,
}

/// Of its bytes without its manifest, in hex: whether two components are the same code.
pub fn code_sha256(component: &[u8]) -> Option<String> {
    let bare = wasm_file::without_manifest(component).ok()?;
    Some(act_workspace::digest(&bare))
}

/// A component that nobody has packed yet, with this manifest in place of any that it has.
pub fn pack(component: &[u8], manifest: &[u8]) -> Result<Vec<u8>, ManifestError> {
    let bare = wasm_file::without_manifest(component)?;
    Manifest::parse(manifest)?;
    Ok(custom_section::pack(&bare, manifest))
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
    #[error("`{name}` is a scout and wants {import}: a scout can never change a file")]
    ScoutThatEdits { name: String, import: String },
    #[error("`{name}` cannot be compiled or linked: {why}")]
    Engine { name: String, why: String },
    #[error("`{name}` is not loaded without a record: {why}; {hint}", hint = why.hint())]
    Unrecorded { name: String, why: AuditError },
}

impl LoadError {
    /// A stable word for records.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAComponent(_) => "not_a_component",
            Self::Manifest(_) => "manifest_invalid",
            Self::Refused { mismatch, .. } => mismatch.code(),
            Self::WrongKind { .. } => "wrong_kind",
            Self::ScoutThatEdits { .. } => "scout_that_edits",
            Self::Engine { .. } => "not_loadable",
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
    pub is_error: bool,
}

/// A component that was checked against its grant and is ready to be asked, any number of times at once.
#[derive(Clone)]
pub struct LoadedComponent {
    pub manifest: Manifest,
    /// Of the component's bytes.
    pub sha256: String,
    /// What is in force: imports ∩ needs ∩ grants ∩ ceiling.
    pub grant: Grant,
    pub world: &'static str,
    pub imports: Vec<String>,
    outbound: Outbound,
    ready: Arc<Ready>,
    audited: Option<Arc<Audited>>,
}

impl ComponentHost {
    /// `cache` is a directory for compiled code and outlines that nobody but the user may open; it is made when
    /// needed.
    pub fn new(cache: Option<&Path>) -> Self {
        let ceiling = Grant::everything();
        let cache = cache.map(Path::to_owned);
        let outlines = cache.as_deref().map(|dir| Arc::new(Index::new(dir)));
        let (outbound, engine, ahead) = (Outbound::default(), Arc::default(), ReadAhead::default());
        Self { audit: None, cache, ceiling, outbound, outlines, engine, ahead }
    }

    /// Begins to fetch the code of what is going to be loaded, in the background.
    pub fn read_ahead(&self, components: impl IntoIterator<Item = Builtin>) {
        let (Some(dir), Ok(engine)) = (&self.cache, self.engine()) else { return };
        for component in components {
            self.ahead.begin(engine, dir, component);
        }
    }

    /// The same with another way to the network.
    #[must_use]
    pub fn reaching(mut self, outbound: Outbound) -> Self {
        self.outbound = outbound;
        self
    }

    /// The same below this ceiling.
    #[must_use]
    pub fn below(mut self, ceiling: Grant) -> Self {
        self.ceiling = ceiling;
        self
    }

    /// Whose components are recorded: what is loaded or refused, what they are denied, change and use. Nothing of
    /// them runs while that cannot be written.
    #[must_use]
    pub fn audited(self, audit: Audit) -> Self {
        Self { audit: Some(audit), ..self }
    }

    /// Checks `bytes` against `grant` and makes them ready; runs nothing of them. Takes seconds when they
    /// have to be compiled, so not inside a deadline. Whether it was let in is told either way.
    pub fn load(
        &self,
        bytes: &[u8],
        grant: Grant,
        events: &Events,
    ) -> Result<LoadedComponent, LoadError> {
        self.load_as(None, bytes, grant, events)
    }

    /// One that came with the program, by the digest that the build pinned it to.
    pub fn load_builtin(
        &self,
        builtin: Builtin,
        grant: Grant,
        events: &Events,
    ) -> Result<LoadedComponent, LoadError> {
        self.load_known(None, builtin.bytes, builtin.sha256, grant, events)
    }

    /// The same under another name than its author's, by which it is then known everywhere.
    pub fn load_as(
        &self,
        name: Option<&str>,
        bytes: &[u8],
        grant: Grant,
        events: &Events,
    ) -> Result<LoadedComponent, LoadError> {
        self.load_known(name, bytes, &act_workspace::digest(bytes), grant, events)
    }

    fn load_known(
        &self,
        name: Option<&str>,
        bytes: &[u8],
        sha256: &str,
        grant: Grant,
        events: &Events,
    ) -> Result<LoadedComponent, LoadError> {
        let admitted = self.admit(name, bytes, sha256, grant, events);
        let loaded = self.recorded(name, bytes, sha256, admitted);
        events.emit(match &loaded {
            Ok(loaded) => EventKind::ComponentLoaded {
                name: loaded.manifest.name.clone(),
                sha256: loaded.sha256.clone(),
                world: loaded.world.to_owned(),
                effective_sha256: loaded.grant.sha256(),
            },
            Err(error) => EventKind::ComponentRefused {
                name: name.unwrap_or("?").to_owned(),
                sha256: sha256.to_owned(),
                reason: error.code().to_owned(),
                message: one_line(&error.to_string(), MAX_LINE),
            },
        });
        loaded
    }

    /// No record, no component.
    fn recorded(
        &self,
        name: Option<&str>,
        bytes: &[u8],
        sha256: &str,
        loaded: Result<LoadedComponent, LoadError>,
    ) -> Result<LoadedComponent, LoadError> {
        let Some(audit) = &self.audit else { return loaded };
        match loaded {
            Ok(mut loaded) => {
                let name = loaded.manifest.name.clone();
                let subject = Subject {
                    name: name.clone(),
                    sha256: loaded.sha256.clone(),
                    world: Some(loaded.world.to_owned()),
                };
                let audited = Audited::loaded(audit, subject, &loaded.grant)
                    .map_err(|why| LoadError::Unrecorded { name, why })?;
                loaded.audited = Some(audited);
                Ok(loaded)
            }
            Err(error) => {
                let author =
                    || Manifest::read(bytes).map_or_else(|_| "unknown".to_owned(), |m| m.name);
                let name = name.map_or_else(author, str::to_owned);
                // The refusal stands, whether it can be written or not.
                let _ = audited::refused(audit, &name, sha256, &error);
                Err(error)
            }
        }
    }

    fn admit(
        &self,
        name: Option<&str>,
        bytes: &[u8],
        sha256: &str,
        grant: Grant,
        events: &Events,
    ) -> Result<LoadedComponent, LoadError> {
        let (size, limit) = (bytes.len() as u64, grant.limits.wasm_bytes);
        if size > limit {
            return Err(NotAComponent::TooLarge { bytes: size, limit }.into());
        }
        let mut manifest = Manifest::read(bytes)?;
        if let Some(name) = name {
            name.clone_into(&mut manifest.name);
        }
        let name = manifest.name.clone();
        let failed = |error: wasmtime::Error| LoadError::Engine {
            name: name.clone(),
            why: one_line(&format!("{error:#}"), MAX_LINE),
        };
        let engine = self.engine().map_err(failed)?;
        let cache = self.cache.as_deref();
        let component = match self.ahead.take(sha256) {
            Some(component) => component,
            None => engine::code(engine, cache, bytes, sha256, &name, events).map_err(failed)?,
        };

        let component_type = component.component_type();
        // As in `inspect`: a named type is nothing that has to be brought.
        let imports = component_type.imports(engine);
        let imports = imports.filter(|(_, item)| !matches!(item.ty, ComponentItem::Type(_)));
        let imports: Vec<_> = imports.map(|(import, _)| import.to_owned()).collect();
        let exports: Vec<_> =
            component_type.exports(engine).map(|(export, _)| export.to_owned()).collect();
        let refused = |mismatch| LoadError::Refused { name: name.clone(), mismatch };
        // First of all: what follows reads the names by what they mean here.
        interfaces::check(imports.iter().chain(&exports)).map_err(refused)?;
        let edits = imports.iter().find(|import| import.starts_with("agentcommand:repo/edit@"));
        if let (Kind::Scout, Some(import)) = (manifest.kind, edits) {
            return Err(LoadError::ScoutThatEdits { name, import: import.clone() });
        }
        if let (Kind::Scout, true) = (manifest.kind, admission::needs_to_write(&manifest.needs)) {
            return Err(LoadError::ScoutThatEdits { name, import: "`repo.write`".to_owned() });
        }
        let Manifest { needs, limits, .. } = &manifest;
        let terms = Terms::new(&imports, needs, limits, &grant, &self.ceiling);
        let grant = admission::effective(&imports, needs, &terms).map_err(refused)?;
        let says_so = |export: &String| interfaces::is(export, manifest.kind.export());
        if !manifest.is_foreign() && !exports.iter().any(says_so) {
            return Err(LoadError::WrongKind { name, kind: manifest.kind });
        }

        let with_scratch = manifest.is_foreign() && grant.repo_write && grant.repo_read.is_some();
        let pre = linker::linker(engine, &grant)
            .and_then(|linker| linker.instantiate_pre(&component))
            .and_then(|pre| Pre::new(&manifest, pre))
            .map_err(failed)?;
        let world = manifest.world();
        let outlines = self.outlines.clone();
        let ready = Arc::new(Ready { pre, outlines, scratch: with_scratch });
        let (sha256, outbound, audited) = (sha256.to_owned(), self.outbound.clone(), None);
        Ok(LoadedComponent { manifest, sha256, grant, world, imports, outbound, ready, audited })
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
        let ready = Arc::clone(&self.ready);
        let audited = self.audited.as_ref();
        let (name, sha256) = (&self.manifest.name, &self.sha256);
        let holder = Holder { name, sha256, grant: &self.grant, audited };
        let with = Lent { services, outbound: self.outbound.clone(), usage: Usage::default() };
        instance::run(holder, ready, job, with, wall, cancel).await
    }
}
