//! What must hold before a task starts. Everything is looked at here, nothing is left behind by a refusal,
//! and each refusal has a stable code and says what to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::apply;
use super::interrupted;
use super::policy;
use super::ticket::Desk;
use super::{Errand, RunArgs};
use crate::artifacts::{ArtifactDir, ArtifactDirError};
use crate::audit::{Audit, AuditError, Keeper};
use crate::component::{self, Grant};
use crate::config::{self, Config, ConfigError, EnvironmentError, ModelAccess};
use crate::editor::TaskRequest;
use crate::output::Failure;
use crate::registry::{self, FileError, Member, Policy, Refused, Registry, Repo};
use crate::store::Store;
use crate::verifier::{Engine, EngineUnavailable};
use crate::workspace::{AgentDir, GlobError, HostWriteError, Overlay, RepoWriter, WriteRules};

/// Everything that was found; a task can begin.
#[derive(Clone)]
pub(super) struct Ready {
    pub(super) request: TaskRequest,
    pub(super) config: Config,
    pub(super) access: ModelAccess,
    pub(super) artifacts: Arc<ArtifactDir>,
    /// None for a dry run.
    pub(super) engine: Option<Engine>,
    pub(super) rules: WriteRules,
    /// Items of `Boundaries:` that the rules hold to.
    pub(super) enforced: Vec<String>,
    pub(super) errand: Errand,
    /// Where compiled components are kept; none without a home directory.
    pub(super) cache: Option<PathBuf>,
    /// Components that the user approved for here.
    pub(super) members: Vec<Member>,
    /// What the administrator allows any component.
    pub(super) ceiling: Grant,
    /// The audit log's head must leave this machine before anything begins.
    pub(super) anchored: bool,
}

impl Ready {
    /// Again, because a task that has waited counts with what holds now.
    pub(super) fn look_again(&mut self, mut config: Config) -> Result<(), Failure> {
        let (members, policy) = capabilities(&mut config)?;
        (self.members, self.ceiling) = (members, policy.ceiling);
        self.config = config;
        Ok(())
    }
}

/// Who may take part in tasks of this configuration, and under which policy.
fn capabilities(config: &mut Config) -> Result<(Vec<Member>, Policy), Failure> {
    let registry = registry(Some(&config.root))?;
    policy::hold(&registry.policy, config)?;
    let members = registry.members(&config.components)?;
    Ok((members, registry.policy))
}

/// Whether everything that a task of this configuration would load was granted; makes nothing.
pub fn granted(mut config: Config) -> Result<(), Failure> {
    capabilities(&mut config).map(|_| ())
}

/// Grants, policy and store as they stand; makes nothing.
pub(super) fn registry(root: Option<&Path>) -> Result<Registry, Failure> {
    let place =
        ArtifactDir::locate(std::env::var_os("AGENT_ARTIFACT_DIR"), std::env::var_os("HOME"));
    let unusable = |error: std::io::Error| {
        Failure::refused("repository_unusable", format!("the repository cannot be opened: {error}"))
    };
    let repo = root.map(Repo::at).transpose().map_err(unusable)?;
    Ok(Registry::open(place.ok().as_deref(), repo)?)
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self::refused(refused.code(), refused.to_string()).hint(refused.hint())
    }
}

/// In the order of what a newcomer meets: the task, the repository, the model, the machine.
pub(super) async fn check(args: &RunArgs) -> Result<Ready, Failure> {
    let request = TaskRequest::parse(&args.text)?;
    let mut config = config::load(&args.repo)?;
    AgentDir::check(&config.root)?;
    let (members, policy) = capabilities(&mut config)?;
    let lookup = |name: &str| std::env::var(name).ok();
    let access = config::model_access(lookup)?;
    // In a package, what the user calls `src` is the package's.
    let find = |name: &str| {
        let within = config.monorepo_package.iter().map(|package| format!("{package}/{name}"));
        let mut places = within.chain([name.to_owned()]);
        places.find(|path| config.root.join(path).symlink_metadata().is_ok())
    };
    let boundaries = request.enforced(find).into_iter();
    let (enforced, held): (Vec<_>, Vec<_>) = boundaries.unzip();
    let enforced = enforced.into_iter().map(str::to_owned).collect();
    let rules = WriteRules::allowing(&args.allow_paths)
        .map_err(|error| Failure::usage(format!("--allow-path: {error}")))?;
    let (only, never): (Vec<_>, Vec<_>) =
        held.into_iter().map(|held| (held.only, held.never)).unzip();
    let rules = rules
        .keeping(&config.root, &own_places())
        .within(&only.concat(), &never.concat())
        .map_err(|error| Failure::refused("boundary_invalid", format!("Boundaries: {error}")))?;
    let engine = match args.errand {
        Errand::DryRun => None,
        Errand::Run { .. } | Errand::Apply { .. } => Some(Engine::connect().await?),
    };
    // Last, because it is the one thing that a check leaves behind.
    let artifacts = artifacts(&config.root)?;
    let errand = args.errand.clone();
    let cache = component::cache_dir();
    Ok(Ready {
        request,
        config,
        access,
        artifacts,
        engine,
        rules,
        enforced,
        errand,
        cache,
        members,
        ceiling: policy.ceiling,
        anchored: policy.require_anchor,
    })
}

/// What is believed or run later, wherever it lies: grants and the anchor, compiled code, artifacts.
fn own_places() -> Vec<PathBuf> {
    let compiled = component::cache_dir().and_then(|dir| dir.parent().map(Path::to_owned));
    let (artifacts, home) = (std::env::var_os("AGENT_ARTIFACT_DIR"), std::env::var_os("HOME"));
    let artifacts = ArtifactDir::locate(artifacts, home).ok();
    [registry::directory_path(), compiled, artifacts].into_iter().flatten().collect()
}

/// Where its task is going to be kept; tasks of dead processes have ended when this returns. Only now, because a database is made when there is none.
pub(super) fn desk(ready: &Ready) -> Result<Desk, Failure> {
    let desk = open_desk(&ready.artifacts, &ready.config.root)?;
    // What could not be recorded is not accepted.
    desk.audit.ready()?;
    registry(Some(&ready.config.root))?.note(&desk.audit)?;
    Ok(desk)
}

pub(super) fn open_desk(artifacts: &Arc<ArtifactDir>, root: &Path) -> Result<Desk, Failure> {
    let desk = Desk::new(store(artifacts)?, Arc::clone(artifacts), root)?;
    interrupted::bury(&desk.store, artifacts, &desk.this)?;
    Ok(desk)
}

pub(super) fn store(artifacts: &ArtifactDir) -> Result<Arc<Store>, Failure> {
    let path = artifacts.path().join("state");
    let unusable = |error: std::io::Error| {
        Failure::refused("store_unusable", format!("{} cannot be used: {error}", path.display()))
            .hint("make it a directory that you can write, or set AGENT_ARTIFACT_DIR")
    };
    let state = artifacts.state().map_err(unusable)?;
    Ok(Arc::new(Store::open(&state, &path)?))
}

/// Before a task is accepted that could only end in a refusal.
pub(super) fn proposal(ready: &Ready, desk: &Desk) -> Result<(), Failure> {
    let Errand::Apply { dry_run } = &ready.errand else { return Ok(()) };
    // Only to look: other tasks may be at work.
    let unusable = |why: String| {
        let root = ready.config.root.display();
        Failure::refused("repository_unusable", format!("{root}: {why}"))
    };
    let rules = ready.write_rules().map_err(|error| unusable(error.to_string()))?;
    let writer = RepoWriter::open_dry(&ready.config.root, rules, Overlay::default())
        .map_err(|error| unusable(error.to_string()))?;
    apply::check(desk, &writer, dry_run)
}

impl Ready {
    /// What the task may write.
    pub(super) fn write_rules(&self) -> Result<WriteRules, GlobError> {
        let rules = self.rules.clone().scoped(self.config.monorepo_package.as_deref());
        rules.including(&self.config.pipeline.include)
    }
}

/// The log of an ARTIFACT_DIR, whose head is kept in its store. Opened by the first record.
pub(super) fn audit(artifacts: &ArtifactDir, store: &Arc<Store>) -> Result<Audit, Failure> {
    let path = artifacts.path().join("state");
    let state = artifacts.state().map_err(|error| {
        Failure::refused("store_unusable", format!("{} cannot be used: {error}", path.display()))
    })?;
    let secrets = config::secrets(|name| std::env::var(name).ok());
    let keeper: Arc<dyn Keeper> = Arc::<Store>::clone(store);
    Ok(Audit::new(state, &path, keeper, secrets))
}

/// What the gate alone needs.
pub(super) struct GateReady {
    pub(super) config: Config,
    pub(super) artifacts: Arc<ArtifactDir>,
    pub(super) engine: Engine,
    /// As in `Ready`.
    pub(super) anchored: bool,
}

pub(super) async fn gate(repo: &Path) -> Result<GateReady, Failure> {
    let mut config = config::load(repo)?;
    let policy = registry(Some(&config.root))?.policy;
    policy::hold(&policy, &mut config)?;
    let engine = Engine::connect().await?;
    let artifacts = artifacts(&config.root)?;
    Ok(GateReady { config, artifacts, engine, anchored: policy.require_anchor })
}

pub(super) fn artifacts(root: &Path) -> Result<Arc<ArtifactDir>, Failure> {
    artifacts_for(Some(root))
}

/// Also for a command that is used outside of every repository.
pub(super) fn artifacts_for(root: Option<&Path>) -> Result<Arc<ArtifactDir>, Failure> {
    let place =
        ArtifactDir::locate(std::env::var_os("AGENT_ARTIFACT_DIR"), std::env::var_os("HOME"))?;
    Ok(Arc::new(ArtifactDir::open_for(&place, root)?))
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}

impl From<EnvironmentError> for Failure {
    fn from(error: EnvironmentError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}

impl From<ArtifactDirError> for Failure {
    fn from(error: ArtifactDirError) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        Self::refused("artifact_dir", format!("{error}{}", cause.unwrap_or_default()))
            .hint(error.hint())
    }
}

impl From<EngineUnavailable> for Failure {
    fn from(error: EngineUnavailable) -> Self {
        let message = format!("Docker unavailable: tried {}: {}", error.host, error.why);
        Self::refused("docker_unavailable", message).hint(error.hint)
    }
}

impl From<AuditError> for Failure {
    fn from(error: AuditError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}

impl From<HostWriteError> for Failure {
    fn from(error: HostWriteError) -> Self {
        Self::refused("agent_dir", error.to_string())
    }
}
