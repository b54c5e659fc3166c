//! Loading components: from bytes to a [`LoadedComponent`], which [`crate::call`] calls.
//!
//! [`ComponentHost::load`] inspects and admits a component, compiles it or takes it from the cache, and links what its
//! effective grant covers. Nothing of the component runs.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre, Linker};

use crate::admission::{AdmissionError, Admitted};
use crate::audit::{self, ComponentAudit};
use crate::bindings::scout::ScoutPre;
use crate::bindings::tool::ToolPre;
use crate::builtin::{self, Builtin};
use crate::cache::{Cache, ReadAhead};
use crate::call::State;
use crate::capability::{Capability, Grant};
use crate::confined::{self, ConfinementError, Work};
use crate::engine::{Code, Engines};
use crate::failure::{MAX_LINE, one_line};
use crate::foreign::Function;
use crate::inspect::{Inspection, NotAComponent};
use crate::manifest::{Kind, Manifest, ManifestError};
use crate::outbound::Outbound;
use crate::wasi;
use crate::workers::Workers;
use act_audit::{Audit, AuditError, Subject};
use act_core::event::{EventKind, Events};
use act_symbols::Index;

/// Loads components. A host costs nothing until it loads the first one. Clones share the engine.
#[derive(Clone)]
pub struct ComponentHost {
    audit: Option<Audit>,
    cache: Option<PathBuf>,
    /// The grant that the administrator allows any component.
    ceiling: Grant,
    outbound: Outbound,
    outlines: Option<Arc<Index>>,
    engines: Arc<OnceLock<Engines>>,
    workers: Workers,
    ahead: ReadAhead,
}

/// The reason why a component is not loaded. Nothing of it has run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    NotAComponent(#[from] NotAComponent),
    #[error(transparent)]
    Manifest(ManifestError),
    #[error("`{name}` is refused: {why}")]
    Refused { name: String, why: AdmissionError },
    #[error("the manifest of `{name}` declares a {}, but it does not export {}", kind.word(), kind.export())]
    WrongKind { name: String, kind: Kind },
    #[error("`{name}` is a {}, and a {} is required here", kind.word(), wanted.word())]
    OtherKind { name: String, kind: Kind, wanted: Kind },
    #[error("`{name}` cannot be compiled or linked: {why}")]
    Engine { name: String, why: String },
    #[error("`{name}` cannot be compiled: {why}")]
    Confined { name: String, why: ConfinementError },
    #[error("`{name}` is not loaded, because that cannot be recorded: {why}; {hint}", hint = why.hint())]
    Unrecorded { name: String, why: AuditError },
}

impl LoadError {
    /// A stable word for records.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAComponent(_) => "not_a_component",
            Self::Manifest(_) => "manifest_invalid",
            Self::Refused { why, .. } => why.code(),
            Self::WrongKind { .. } | Self::OtherKind { .. } => "wrong_kind",
            Self::Engine { .. } => "not_loadable",
            Self::Confined { .. } => "over_limit",
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

/// The interfaces with which a call may begin on the thread of its caller. Each of their functions returns at once, waits as a
/// future, or traps before it has copied more than a few kilobytes. Functions of other interfaces may wait for a lock of the audit
/// log, or copy megabytes for each of a thousand calls between two checks of the engine.
const QUICK: [&str; 6] = [
    "agentcommand:types/",
    "wasi:cli/",
    "wasi:clocks/",
    "wasi:filesystem/",
    "wasi:io/",
    "wasi:random/",
];

/// A component that was checked against its grant. Several calls of one component can run at the same time.
#[derive(Clone)]
pub struct LoadedComponent {
    pub manifest: Manifest,
    /// SHA-256 of the component's bytes.
    pub sha256: String,
    /// The effective grant: imports ∩ needs ∩ grants ∩ ceiling.
    pub grant: Grant,
    pub world: &'static str,
    pub imports: Vec<String>,
    /// The threads of the host's calls.
    pub(crate) workers: Workers,
    pub(crate) outbound: Outbound,
    /// The index of outlines that earlier calls stored.
    pub(crate) outlines: Option<Arc<Index>>,
    /// True if the directory that the component sees is a scratch copy.
    pub(crate) has_scratch: bool,
    /// Records the calls in the audit log; `None` if they are not recorded.
    pub(crate) audit: Option<Arc<ComponentAudit>>,
}

impl LoadedComponent {
    /// Returns whether a call may begin on the thread of its caller: no function that the component can call may wait there.
    /// Without the grant to read, the interfaces of files have no file.
    pub(crate) fn may_stay(&self) -> bool {
        let is_quick = |import: &String| QUICK.iter().any(|quick| import.starts_with(quick));
        !self.grant.may_wait() && self.imports.iter().all(is_quick)
    }
}

/// A loaded Scout.
#[derive(Clone)]
pub struct ScoutComponent {
    pub(crate) component: LoadedComponent,
    pub(crate) code: Arc<Code<ScoutPre<State>>>,
}

/// A loaded tool component.
#[derive(Clone)]
pub struct ToolComponent {
    pub(crate) component: LoadedComponent,
    pub(crate) code: ToolCode,
}

#[derive(Clone)]
pub(crate) enum ToolCode {
    Typed(Arc<Code<ToolPre<State>>>),
    /// A foreign component, whose exported functions are its tools.
    Foreign(Arc<Code<InstancePre<State>>>, Arc<[Function]>),
}

/// A loaded component of either kind.
#[derive(Clone)]
pub enum Loaded {
    Scout(ScoutComponent),
    Tool(ToolComponent),
}

impl Loaded {
    /// Returns the Scout.
    ///
    /// # Errors
    ///
    /// [`LoadError::OtherKind`] for a tool component.
    pub fn into_scout(self) -> Result<ScoutComponent, LoadError> {
        match self {
            Self::Scout(scout) => Ok(scout),
            Self::Tool(tool) => Err(tool.component.other_kind(Kind::Scout)),
        }
    }

    /// Returns the tool component.
    ///
    /// # Errors
    ///
    /// [`LoadError::OtherKind`] for a Scout.
    pub fn into_tool(self) -> Result<ToolComponent, LoadError> {
        match self {
            Self::Tool(tool) => Ok(tool),
            Self::Scout(scout) => Err(scout.component.other_kind(Kind::Tool)),
        }
    }

    pub(crate) fn component_mut(&mut self) -> &mut LoadedComponent {
        match self {
            Self::Scout(scout) => &mut scout.component,
            Self::Tool(tool) => &mut tool.component,
        }
    }
}

impl Deref for Loaded {
    type Target = LoadedComponent;

    fn deref(&self) -> &LoadedComponent {
        match self {
            Self::Scout(scout) => &scout.component,
            Self::Tool(tool) => &tool.component,
        }
    }
}

impl Deref for ScoutComponent {
    type Target = LoadedComponent;

    fn deref(&self) -> &LoadedComponent {
        &self.component
    }
}

impl Deref for ToolComponent {
    type Target = LoadedComponent;

    fn deref(&self) -> &LoadedComponent {
        &self.component
    }
}

impl LoadedComponent {
    fn other_kind(&self, wanted: Kind) -> LoadError {
        let name = self.manifest.name.clone();
        LoadError::OtherKind { name, kind: self.manifest.kind, wanted }
    }
}

impl ComponentHost {
    /// Creates a host. `cache` is a directory for compiled code and outlines, which only the user may open. The first
    /// component that is loaded creates it.
    pub fn new(cache: Option<&Path>) -> Self {
        let ceiling = Grant::everything();
        let cache = cache.map(Path::to_owned);
        let outlines = cache.as_deref().map(|dir| Arc::new(Index::new(dir)));
        let (outbound, engines, ahead) =
            (Outbound::default(), Arc::default(), ReadAhead::default());
        let workers = Workers::default();
        Self { audit: None, cache, ceiling, outbound, outlines, engines, workers, ahead }
    }

    /// Begins to read the code of components that are going to be loaded, in the background.
    pub fn read_ahead(&self, components: impl IntoIterator<Item = Builtin>) {
        let (Some(dir), Ok(engines)) = (&self.cache, self.engines()) else { return };
        for component in components {
            self.ahead.begin(engines, dir, component);
        }
    }

    /// Replaces the way to the network.
    #[must_use]
    pub fn reaching(mut self, outbound: Outbound) -> Self {
        self.outbound = outbound;
        self
    }

    /// Sets the administrator's ceiling for all components that are loaded from here on.
    #[must_use]
    pub fn below(mut self, ceiling: Grant) -> Self {
        self.ceiling = ceiling;
        self
    }

    /// Records what is loaded or refused, and what components are denied, change and use. No component runs while
    /// records cannot be written.
    #[must_use]
    pub fn audited(self, audit: Audit) -> Self {
        Self { audit: Some(audit), ..self }
    }

    /// Checks `bytes` against `grant` and gets them ready to be called. Nothing of the component runs. Compiling may
    /// take seconds, so load outside of a deadline.
    ///
    /// # Errors
    ///
    /// A [`LoadError`] if the bytes are no component, its imports, needs, grant and the ceiling do not agree, it
    /// cannot be compiled, or nothing can be recorded. The refusal is recorded and emitted as an event.
    pub fn load(&self, bytes: &[u8], grant: Grant, events: &Events) -> Result<Loaded, LoadError> {
        let size = bytes.len() as u64;
        let limit = grant.limits.wasm_bytes.min(self.ceiling.limits.wasm_bytes);
        let inspected = if size > limit {
            Err(NotAComponent::TooLarge { bytes: size, limit }.into())
        } else {
            Inspection::of_stranger(Bytes::copy_from_slice(bytes))
        };
        match inspected {
            Ok(inspection) => self.load_inspected(None, inspection, &grant, events),
            Err(error) => {
                let sha256 = act_workspace::digest(bytes);
                let author = Manifest::author(bytes).unwrap_or_else(|| "unknown".to_owned());
                let error = match error {
                    // A component with a manifest whose body is damaged is one that cannot be compiled.
                    ManifestError::NotAComponent(NotAComponent::Malformed(why)) => {
                        LoadError::Engine { name: author.clone(), why }
                    }
                    error => error.into(),
                };
                self.report((None, &author), &sha256, Err(error), events)
            }
        }
    }

    /// Loads a component that is part of the program.
    ///
    /// # Errors
    ///
    /// The errors of [`ComponentHost::load`].
    pub fn load_builtin(
        &self,
        builtin: Builtin,
        grant: &Grant,
        events: &Events,
    ) -> Result<Loaded, LoadError> {
        match Inspection::of_builtin(builtin) {
            Ok(inspection) => self.load_inspected(None, inspection, grant, events),
            Err(error) => {
                let author = (None, builtin.name);
                self.report(author, builtin.sha256, Err(error.into()), events)
            }
        }
    }

    /// Loads a component that was inspected before. With a name, the component is known by it instead of by the name
    /// that its author gave it.
    ///
    /// # Errors
    ///
    /// The errors of [`ComponentHost::load`].
    pub fn load_inspected(
        &self,
        name: Option<&str>,
        inspection: Inspection,
        grant: &Grant,
        events: &Events,
    ) -> Result<Loaded, LoadError> {
        let author = inspection.manifest.name.clone();
        let sha256 = inspection.sha256.clone();
        let known_as = name.unwrap_or(&author);
        let loaded = inspection
            .admit(grant, &self.ceiling)
            .map_err(|why| LoadError::Refused { name: known_as.to_owned(), why })
            .and_then(|admitted| self.link(known_as, &admitted, events));
        self.report((name, &author), &sha256, loaded, events)
    }

    /// Loads a component that was admitted before, as [`ComponentHost::load_inspected`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`ComponentHost::load`].
    pub fn load_admitted(
        &self,
        name: &str,
        admitted: &Admitted,
        events: &Events,
    ) -> Result<Loaded, LoadError> {
        let (author, sha256) = (&admitted.inspection.manifest.name, &admitted.inspection.sha256);
        let loaded = self.link(name, admitted, events);
        self.report((Some(name), author), sha256, loaded, events)
    }

    /// Records that a component was loaded or refused, and emits an event for it. A component that cannot be recorded is
    /// refused.
    fn report(
        &self,
        (name, author): (Option<&str>, &str),
        sha256: &str,
        loaded: Result<Loaded, LoadError>,
        events: &Events,
    ) -> Result<Loaded, LoadError> {
        let loaded = match (&self.audit, loaded) {
            (None, loaded) => loaded,
            (Some(audit), Ok(mut loaded)) => {
                let component = loaded.component_mut();
                let subject = Subject {
                    name: component.manifest.name.clone(),
                    sha256: component.sha256.clone(),
                    world: Some(component.world.to_owned()),
                };
                match ComponentAudit::loaded(audit, subject, &component.grant) {
                    Ok(recorded) => {
                        component.audit = Some(recorded);
                        Ok(loaded)
                    }
                    Err(why) => {
                        let name = component.manifest.name.clone();
                        Err(LoadError::Unrecorded { name, why })
                    }
                }
            }
            (Some(audit), Err(error)) => {
                // The component is refused whether that can be recorded or not.
                let _ = audit::refused(audit, name.unwrap_or(author), sha256, &error);
                Err(error)
            }
        };
        events.emit(match &loaded {
            Ok(loaded) => EventKind::ComponentLoaded {
                name: loaded.manifest.name.clone(),
                sha256: loaded.sha256.clone(),
                world: loaded.world.to_owned(),
                effective_sha256: loaded.grant.sha256(),
            },
            Err(error) => EventKind::ComponentRefused {
                name: name.unwrap_or(author).to_owned(),
                sha256: sha256.to_owned(),
                reason: error.code().to_owned(),
                message: one_line(&error.to_string(), MAX_LINE),
            },
        });
        loaded
    }

    /// Compiles an admitted component and links what its effective grant covers.
    fn link(&self, name: &str, admitted: &Admitted, events: &Events) -> Result<Loaded, LoadError> {
        let Inspection { bytes, sha256, manifest, imports, .. } = &admitted.inspection;
        // The ceiling was met at admission. Meeting it again costs nothing and holds for every caller.
        let grant = admitted.effective.meet(&self.ceiling);
        let (size, limit) = (bytes.len() as u64, grant.limits.wasm_bytes);
        if size > limit {
            return Err(NotAComponent::TooLarge { bytes: size, limit }.into());
        }
        if !admitted.inspection.is_what_it_says() {
            return Err(LoadError::WrongKind { name: name.to_owned(), kind: manifest.kind });
        }
        let failed = |error: wasmtime::Error| LoadError::Engine {
            name: name.to_owned(),
            why: one_line(&format!("{error:#}"), MAX_LINE),
        };
        let engines = self.engines().map_err(failed)?;
        let cache = self.cache.as_deref();
        let compiled = match self.ahead.take(sha256) {
            Some(compiled) => compiled,
            None => compiled(engines, cache, bytes, sha256, name, events)?,
        };
        let mut manifest = manifest.clone();
        name.clone_into(&mut manifest.name);
        let component = LoadedComponent {
            sha256: sha256.clone(),
            workers: self.workers.clone(),
            world: manifest.world(),
            imports: imports.clone(),
            outbound: self.outbound.clone(),
            outlines: self.outlines.clone(),
            has_scratch: manifest.is_foreign() && grant.repo_write && grant.repo_read.is_some(),
            audit: None,
            manifest,
            grant,
        };
        loaded(component, engines, compiled).map_err(failed)
    }

    fn engines(&self) -> wasmtime::Result<&Engines> {
        if let Some(engines) = self.engines.get() {
            return Ok(engines);
        }
        let engines = Engines::new()?;
        Ok(self.engines.get_or_init(|| engines))
    }
}

fn loaded(
    component: LoadedComponent,
    engines: &Engines,
    compiled: Component,
) -> wasmtime::Result<Loaded> {
    let (engines, grant) = (engines.clone(), component.grant.clone());
    Ok(match component.manifest.kind {
        Kind::Scout => {
            let code = Arc::new(Code::new(engines, compiled, grant, ScoutPre::new)?);
            Loaded::Scout(ScoutComponent { code, component })
        }
        Kind::Tool => {
            let code = if component.manifest.is_foreign() {
                let code = Code::new(engines, compiled, grant, Ok)?;
                ToolCode::Foreign(Arc::new(code), component.manifest.functions.clone().into())
            } else {
                ToolCode::Typed(Arc::new(Code::new(engines, compiled, grant, ToolPre::new)?))
            };
            Loaded::Tool(ToolComponent { component, code })
        }
    })
}

/// Reads compiled code from the cache, or compiles and stores it. Only a built-in component is compiled in this process.
fn compiled(
    engines: &Engines,
    cache: Option<&Path>,
    wasm: &[u8],
    sha256: &str,
    name: &str,
    events: &Events,
) -> Result<Component, LoadError> {
    let not_loadable =
        |why: &str| LoadError::Engine { name: name.to_owned(), why: one_line(why, MAX_LINE) };
    let failed = |error: wasmtime::Error| not_loadable(&format!("{error:#}"));
    let engine = engines.any().map_err(failed)?;
    let cache = cache.map(|dir| Cache::new(dir, engine, sha256));
    if let Some(component) = cache.as_ref().and_then(|cache| cache.load(engines)) {
        return Ok(component);
    }
    let started = Instant::now();
    let is_ours = builtin::ALL.into_iter().any(|one| one.sha256 == sha256);
    let code = if is_ours {
        engine.precompile_component(wasm).map_err(failed)?
    } else {
        confined::run(Work::Compile, wasm).map_err(|why| match why {
            ConfinementError::Failed(why) => not_loadable(&why),
            why => LoadError::Confined { name: name.to_owned(), why },
        })?
    };
    let component =
        engines.load(|engine| crate::cache::deserialize(engine, &code)).map_err(failed)?;
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    events.emit(EventKind::ComponentCompiled {
        name: name.to_owned(),
        sha256: sha256.to_owned(),
        duration_ms,
    });
    if let Some(cache) = cache {
        // A cache that cannot be written costs time at the next start and nothing else.
        let _ = cache.store(&code);
    }
    Ok(component)
}

/// Links base WASI and the interfaces of the base world for every component, and the interfaces of any other capability
/// for a component that was granted it.
pub(crate) fn linker(engine: &Engine, grant: &Grant) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasi::link(&mut linker)?;
    for capability in Capability::ALL {
        if capability.is_in_base_world() || grant.links(capability) {
            capability.link(&mut linker)?;
        }
    }
    Ok(linker)
}
