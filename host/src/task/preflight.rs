//! What must hold before a task starts. Everything is looked at here, nothing is left behind by a refusal,
//! and each refusal has a stable code and says what to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::apply;
use super::apply::Proposal;
use super::policy;
use super::queue;
use super::queue::TaskContext;
use super::secret_scan;
use super::{Mode, RunArgs};
use act_agent::editor::TaskRequest;
use act_audit::{Audit, AuditError, CheckpointStore};
use act_component::registry::{self, Member, OpenError, Policy, Registry, Repo};
use act_component::{ComponentHost, Grant, builtin};
use act_config::{ComponentRequest, Config, ModelAccess};
use act_core::Failure;
use act_core::secret::Secrets;
use act_records::artifacts::ArtifactDir;
use act_records::store::Store;
use act_verifier::{Engine, EngineUnavailable};
use act_workspace::{GlobError, NotesDir, Overlay, RepoWriter, WriteRules};

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
    pub(super) mode: Mode,
    /// Keeps compiled components in the user's cache directory, where there is one.
    pub(super) host: ComponentHost,
    /// Components that the user approved for here.
    pub(super) members: Vec<Member>,
    /// What the administrator allows any component.
    pub(super) ceiling: Grant,
    /// The audit log's head must leave this machine before anything begins.
    pub(super) anchored: bool,
    /// What the person typed for this task.
    flag_max_tokens: Option<u64>,
    /// What the administrator allows any task to spend.
    policy_max_tokens: Option<u64>,
}

impl Ready {
    /// Returns how many tokens the task may spend, from the flag, the configuration of now and the policy.
    pub(super) fn max_tokens(&self) -> Option<u64> {
        let user = act_config::ConfigCeiling::of_user().max_tokens;
        let agent_yaml = self.config.max_tokens;
        act_config::effective(self.flag_max_tokens, agent_yaml, user, self.policy_max_tokens)
    }

    /// Begins to fetch what the task is going to load, unless something else takes its place.
    pub(super) fn read_ahead(&self) {
        let replaced = |name| self.members.iter().any(|one| one.replaces.as_deref() == Some(name));
        self.host.read_ahead(builtin::ALL.into_iter().filter(|one| !replaced(one.name)));
    }

    /// Its turn has come, maybe after others: what counts is what holds now, and that is recorded first. `config`
    /// is what `agent.yaml` says now, where it may be something else.
    pub(super) fn begin(&mut self, config: Option<Config>, audit: &Audit) -> Result<(), Failure> {
        let mut config = config.unwrap_or_else(|| self.config.clone());
        let (members, policy) = capabilities(&mut config, AuditMode::All(audit))?;
        (self.members, self.ceiling) = (members, policy.ceiling);
        (self.config, self.anchored) = (config, policy.require_anchor);
        self.policy_max_tokens = policy.config.max_tokens;
        Ok(())
    }
}

/// What the audit log hears of looking who may take part.
#[derive(Clone, Copy)]
pub(super) enum AuditMode<'a> {
    /// Nothing, from one who only wants to know.
    Nothing,
    /// A refusal, which leaves its record and nothing else.
    Refusals,
    /// Also grants that were changed past `act components`: from one who is about to act on them.
    All(&'a Audit),
}

/// Who may take part in tasks of this configuration, and under which policy.
fn capabilities(
    config: &mut Config,
    audit_mode: AuditMode<'_>,
) -> Result<(Vec<Member>, Policy), Failure> {
    let (registry, members) = admitted(&config.root, &config.components, audit_mode)?;
    policy::hold(&registry.policy, config)?;
    Ok((members, registry.policy))
}

/// Everything that was approved for here, if all that the repository asks for is.
pub(super) fn admitted(
    root: &Path,
    requests: &[ComponentRequest],
    audit_mode: AuditMode<'_>,
) -> Result<(Registry, Vec<Member>), Failure> {
    let repo = repo(Some(root))?;
    let opened = match audit_mode {
        AuditMode::All(audit) => Registry::open_recorded(place().as_deref(), repo, audit),
        _ => Registry::open(place().as_deref(), repo).map_err(OpenError::from),
    };
    if let Err(OpenError::File(error)) = &opened {
        tell(audit_mode, root, |audit| Registry::record_unusable(audit, error));
    }
    let registry = opened?;
    match registry.members(requests) {
        Ok(members) => Ok((registry, members)),
        Err(refused) => {
            tell(audit_mode, root, |audit| Registry::record_refusal(audit, &refused));
            Err(refused.into())
        }
    }
}

/// Nothing happens either way: where it cannot be recorded, it is refused all the same.
pub(super) fn tell(
    audit_mode: AuditMode<'_>,
    root: &Path,
    say: impl FnOnce(&Audit) -> Result<(), AuditError>,
) {
    let log = || {
        let artifacts = artifacts(root).ok()?;
        let context = TaskContext::new(store(&artifacts).ok()?, artifacts, root).ok()?;
        context.audit_here(root).ok()
    };
    let audit = match audit_mode {
        AuditMode::Nothing => None,
        AuditMode::Refusals => log(),
        AuditMode::All(audit) => Some(audit.clone()),
    };
    let _ = audit.map(|audit| say(&audit));
}

/// What the repository at or above `start` asks for; a broken `agent.yaml` asks for nothing.
pub(super) fn requests(start: &Path) -> Vec<ComponentRequest> {
    act_config::load(start).map(|config| config.components).unwrap_or_default()
}

/// Whether everything that a task of this configuration would load was granted; makes nothing.
pub fn granted(mut config: Config) -> Result<(), Failure> {
    capabilities(&mut config, AuditMode::Nothing).map(|_| ())
}

/// Grants, policy and store as they stand; makes nothing.
pub(super) fn registry(root: Option<&Path>) -> Result<Registry, Failure> {
    Ok(Registry::open(place().as_deref(), repo(root)?)?)
}

/// Reads the registry and records the grants that it holds.
pub(super) fn recorded_registry(root: Option<&Path>, audit: &Audit) -> Result<Registry, Failure> {
    Ok(Registry::open_recorded(place().as_deref(), repo(root)?, audit)?)
}

fn repo(root: Option<&Path>) -> Result<Option<Repo>, Failure> {
    root.map(Repo::at).transpose().map_err(|error| {
        Failure::refused("repository_unusable", format!("the repository cannot be opened: {error}"))
    })
}

fn place() -> Option<PathBuf> {
    ArtifactDir::locate(std::env::var_os("AGENT_ARTIFACT_DIR"), std::env::var_os("HOME")).ok()
}

/// In the order of what a newcomer meets: the task, the repository, the model, the machine.
pub(super) async fn check(args: &RunArgs) -> Result<Ready, Failure> {
    let request = TaskRequest::parse(&args.text)?;
    secret_scan::refuse("task", request.text())?;
    let mut config = act_config::load(&args.repo)?;
    match args.mode {
        // It writes nothing there, and is refused what a task of another mode would be refused later.
        Mode::DryRun => drop(NotesDir::open_existing(&config.root)?),
        Mode::Run { .. } | Mode::Apply { .. } => drop(NotesDir::check(&config.root)?),
    }
    let (members, policy) = capabilities(&mut config, AuditMode::Refusals)?;
    let lookup = |name: &str| std::env::var(name).ok();
    let access = match &args.script {
        Some(script) => ModelAccess::Scripted(script.clone()),
        None => act_config::model_access(lookup)?,
    };
    // In a package, what the user calls `src` is the package's.
    let find = |name: &str| {
        let within = config.monorepo_package.iter().map(|package| format!("{package}/{name}"));
        let mut places = within.chain([name.to_owned()]);
        places.find(|path| config.root.join(path).symlink_metadata().is_ok())
    };
    let boundaries = request.enforced(find)?.into_iter();
    let (enforced, held): (Vec<_>, Vec<_>) = boundaries.unzip();
    let enforced = enforced.into_iter().map(str::to_owned).collect();
    let rules = WriteRules::allowing(&args.allow_paths)
        .map_err(|error| Failure::usage(format!("--allow-path: {error}")))?;
    let (only, never): (Vec<_>, Vec<_>) =
        held.into_iter().map(|held| (held.only, held.never)).unzip();
    let rules = rules
        .protecting(&config.root, &own_places())
        .within(&only.concat(), &never.concat())
        .map_err(|error| Failure::refused("boundary_invalid", format!("Boundaries: {error}")))?;
    let engine = match args.mode {
        Mode::DryRun => None,
        Mode::Run { .. } | Mode::Apply { .. } => {
            ca_bundle(&config)?;
            Some(Engine::connect().await?)
        }
    };
    // Last, because it is the one thing that a check leaves behind.
    let artifacts = artifacts(&config.root)?;
    let mode = args.mode.clone();
    let host = ComponentHost::new(act_component::cache_dir().as_deref());
    Ok(Ready {
        request,
        config,
        access,
        artifacts,
        engine,
        rules,
        enforced,
        mode,
        host,
        members,
        ceiling: policy.ceiling,
        anchored: policy.require_anchor,
        flag_max_tokens: args.max_tokens,
        policy_max_tokens: policy.config.max_tokens,
    })
}

/// Whether steps would get the certificates that they are to have. Looked at again when a verification begins; here it
/// has not cost anything yet.
pub fn ca_bundle(config: &Config) -> Result<(), Failure> {
    let Some(path) = &config.pipeline.ca_bundle else { return Ok(()) };
    act_verifier::check_ca_bundle(path).map_err(|error| {
        Failure::refused("ca_bundle_unusable", error.message)
            .hint("name a file of PEM certificates on this machine, or remove the key")
    })
}

/// What is believed or run later, wherever it lies: grants and the anchor, compiled code, artifacts.
fn own_places() -> Vec<PathBuf> {
    let compiled = act_component::cache_dir().and_then(|dir| dir.parent().map(Path::to_owned));
    let (artifacts, home) = (std::env::var_os("AGENT_ARTIFACT_DIR"), std::env::var_os("HOME"));
    let artifacts = ArtifactDir::locate(artifacts, home).ok();
    [registry::directory_path(), compiled, artifacts].into_iter().flatten().collect()
}

/// Where its task is going to be kept; tasks of dead processes have ended when this returns. Only now, because a database is made when there is none.
pub(super) fn context(ready: &Ready) -> Result<TaskContext, Failure> {
    let context = open_context(&ready.artifacts, &ready.config.root)?;
    // What could not be recorded is not accepted.
    context.audit.ready()?;
    Ok(context)
}

pub(super) fn open_context(
    artifacts: &Arc<ArtifactDir>,
    root: &Path,
) -> Result<TaskContext, Failure> {
    let context = TaskContext::new(store(artifacts)?, Arc::clone(artifacts), root)?;
    queue::record_dead_tasks(&context.store, artifacts, &context.this)?;
    Ok(context)
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

/// What is to be applied; before a task is accepted that could only end in a refusal.
pub(super) fn proposal(ready: &Ready, context: &TaskContext) -> Result<Option<Proposal>, Failure> {
    let Mode::Apply { dry_run } = &ready.mode else { return Ok(None) };
    // Only to look: other tasks may be at work.
    let unusable = |why: String| {
        let root = ready.config.root.display();
        Failure::refused("repository_unusable", format!("{root}: {why}"))
    };
    let rules = ready.write_rules().map_err(|error| unusable(error.to_string()))?;
    let writer = RepoWriter::open_dry(&ready.config.root, rules, Overlay::default())
        .map_err(|error| unusable(error.to_string()))?;
    apply::check(context, &writer, dry_run).map(Some)
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
    let keeper: Arc<dyn CheckpointStore> = Arc::<Store>::clone(store);
    Ok(Audit::new(state, &path, keeper, secrets()))
}

/// Returns the keys of the environment, which are written nowhere.
pub(super) fn secrets() -> Secrets {
    act_config::secrets(|name| std::env::var(name).ok())
}

/// What the gate alone needs.
pub(super) struct GateReady {
    pub(super) config: Config,
    pub(super) artifacts: Arc<ArtifactDir>,
    /// That there is none is what a verification answers, and not a refusal.
    pub(super) engine: Result<Engine, EngineUnavailable>,
    /// As in `Ready`.
    pub(super) anchored: bool,
}

pub(super) async fn gate(repo: &Path) -> Result<GateReady, Failure> {
    let mut config = act_config::load(repo)?;
    let policy = registry(Some(&config.root))?.policy;
    policy::hold(&policy, &mut config)?;
    let artifacts = artifacts(&config.root)?;
    let engine = Engine::connect().await;
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
