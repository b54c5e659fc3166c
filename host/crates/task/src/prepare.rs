//! Prepares a task: checks everything that must hold before it starts, and builds the Editor from real parts.
//!
//! A refusal leaves nothing behind, has a stable code and says what to do.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::audit::anchor;
use crate::components::{ComponentScout, component_tools};
use crate::proposal::Proposal;
use crate::queue::TaskContext;
use crate::run::{Mode, Place, RunArgs};
use crate::trees::{TaskTrees, Trees};
use crate::{engines, proposal, queue, worktree};
use act_agent::editor::{Aim, EarlierTask, Editor, Gate, TaskInput, TaskRequest, Workplace};
use act_agent::gate_inputs::{FileChange, MAX_SCRIPT, Steps, gate_inputs_changed, has_tests};
use act_agent::scout::{Grounded, OwnReport, Scout};
use act_audit::{Audit, AuditError, CheckpointStore};
use act_component::builtin::Builtin;
use act_component::registry::{Member, OpenError, Policy, Refused, Registry, Repo};
use act_component::{
    ComponentHost, Grant, Kind, LoadError, Loaded, LoadedComponent, ScoutComponent, Services,
    ToolComponent, builtin,
};
use act_config::{ComponentRequest, Config, ConfigCeiling, ModelAccess, UserSettings, Warm};
use act_core::check::Checker;
use act_core::consent::Consent;
use act_core::event::Events;
use act_core::evidence::{Evidence, VariantVerifier};
use act_core::exit::Exit;
use act_core::secret::Secrets;
use act_core::user_command::UserCommand;
use act_core::verification::{ComponentDigest, InfraError, NoVerifier, Verifier};
use act_core::{Failure, RunId, Usd};
use act_model::{Budget, Deadlines, Model, TokenLedger};
use act_records::artifacts::ArtifactDir;
use act_records::store::{ProposalRecord, Store, Worktree};
use act_reports::failures::{Log, LogReader};
use act_verifier::{
    ChangedFile, DockerChecker, DockerVerifier, Downloads, Engine, EngineUnavailable, GateChange,
    ResolvedImage, StepTimes, VerificationConfig, WarmRuns, relative_to_repo,
};
use act_workspace::{
    GlobError, NotesDir, OpenRoot, Originals, Overlay, PathGlobs, Profile, RepoView, RepoWriter,
    Slice, WriteRules, files, hides_only_notes, is_binary, read, tree_digest,
};

/// Everything that a task needs, checked: the task can begin.
#[derive(Clone)]
pub(super) struct Ready {
    pub(super) request: TaskRequest,
    pub(super) config: Config,
    /// The settings of `config.toml`.
    user: UserSettings,
    pub(super) access: ModelAccess,
    pub(super) artifacts: Arc<ArtifactDir>,
    /// The engine of all runs; `None` for a dry run, which verifies nothing.
    pub(super) engine: Option<Engine>,
    /// Why the engine was chosen among several, for the person.
    pub(super) engine_why: Option<String>,
    pub(super) rules: WriteRules,
    /// The items of `Boundaries:` that the write rules enforce.
    pub(super) enforced: Vec<String>,
    /// Test files that may change although the tests of the task's start then fail.
    pub(super) allowed_test_changes: PathGlobs,
    pub(super) mode: Mode,
    /// The host of the components; it stores compiled components in the user's cache directory if there is one.
    pub(super) host: ComponentHost,
    /// The components that the user approved for this repository.
    pub(super) members: Vec<Member>,
    /// The upper limits of the administrator's policy for every component.
    pub(super) ceiling: Grant,
    /// The policy requires that the head of the audit log is sent to another machine before anything begins.
    pub(super) anchored: bool,
    /// The limits that the user typed for this task.
    flags: SpendingLimits,
    /// The limits that the policy sets for any task.
    policy_limits: SpendingLimits,
    /// The user typed `--no-agents-md` for this task.
    flag_no_agents_md: bool,
    /// The person who is asked about guarded paths; `None` where there is no one to ask.
    pub(super) consent: Option<Arc<dyn Consent>>,
    /// The task before this one in the same session of a client.
    pub(super) previous: Option<EarlierTask>,
}

/// What one source allows a task to spend; `None` where it sets no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SpendingLimits {
    max_tokens: Option<u64>,
    max_cost: Option<Usd>,
}

impl SpendingLimits {
    fn of(ceiling: &ConfigCeiling) -> Self {
        Self { max_tokens: ceiling.max_tokens, max_cost: ceiling.max_cost }
    }

    /// Returns the limits in force: those of the command line, or else the smaller ones of `agent.yaml` and `config.toml`; never
    /// more than the policy allows.
    fn in_force(flags: Self, config: &Config, user: &ConfigCeiling, policy: Self) -> Self {
        use act_config::effective;
        let Config { max_tokens, max_cost, .. } = config;
        Self {
            max_tokens: effective(
                flags.max_tokens,
                *max_tokens,
                user.max_tokens,
                policy.max_tokens,
            ),
            max_cost: effective(flags.max_cost, *max_cost, user.max_cost, policy.max_cost),
        }
    }
}

impl Ready {
    /// Returns what the task may spend, from the flags, the configuration of now and the policy, and the price of its model.
    pub(super) fn budget(&self) -> Budget {
        let Self { flags, config, user, policy_limits, .. } = self;
        let SpendingLimits { max_tokens, max_cost } =
            SpendingLimits::in_force(*flags, config, &user.ceiling, *policy_limits);
        let price = user.price(&self.access).map(|priced| priced.price);
        Budget { max_tokens, max_cost, price }
    }

    /// Refuses a task whose cost is limited and whose model has no known price.
    fn check_price(&self) -> Result<(), Failure> {
        match self.budget() {
            Budget { max_cost: Some(limit), price: None, .. } => {
                Err(price_unknown(limit, &self.access))
            }
            _ => Ok(()),
        }
    }

    /// Returns the user's command that learns when the task ends or needs a person.
    pub(super) fn notify(&self) -> Option<UserCommand> {
        self.user.notify.clone()
    }

    /// Returns whether the model gets the instructions of the repository.
    pub(super) fn agents_md(&self) -> bool {
        self.config.agents_md && !self.flag_no_agents_md
    }

    /// Returns the time limits of requests to the model.
    fn deadlines(&self) -> Deadlines {
        self.user.deadlines(&self.access, self.config.model_timeouts)
    }

    /// Checks permissions and policy again when the turn of the task has come, because both may have changed
    /// while it waited, and records the grants that are now in force. `config` is `agent.yaml` as it is now, if
    /// the task waited.
    ///
    /// # Errors
    ///
    /// A component was not approved, the policy refuses the configuration, the grants cannot be recorded, or the cost of the task
    /// is limited and its model has no known price.
    pub(super) fn begin(&mut self, config: Option<Config>, audit: &Audit) -> Result<(), Failure> {
        let mut config = config.unwrap_or_else(|| self.config.clone());
        let (members, policy, user) = capabilities(&mut config, AuditMode::All(audit))?;
        (self.members, self.ceiling, self.user) = (members, policy.ceiling, user);
        (self.config, self.anchored) = (config, policy.require_anchor);
        self.policy_limits = SpendingLimits::of(&policy.config);
        self.check_price()
    }
}

/// The records that are written to the audit log while permissions are checked.
#[derive(Clone, Copy)]
pub(super) enum AuditMode<'a> {
    /// None: the caller only asks whether the check passes.
    Nothing,
    /// Refusals only.
    Refusals,
    /// Refusals, and grants that were changed by hand: the caller is about to use them.
    All(&'a Audit),
}

/// Returns the components that may take part in tasks of this configuration, the policy and the user's settings. Lowers the
/// configuration to what policy and user allow.
fn capabilities(
    config: &mut Config,
    audit_mode: AuditMode<'_>,
) -> Result<(Vec<Member>, Policy, UserSettings), Failure> {
    let (registry, members) = admitted(&config.root, &config.components, audit_mode)?;
    let user = lowered(&registry.policy, config)?;
    Ok((members, registry.policy, user))
}

/// Returns the registry and every component that was approved for the repository.
///
/// # Errors
///
/// The registry cannot be read, or the repository requests a component that was not approved.
pub(super) fn admitted(
    root: &Path,
    requests: &[ComponentRequest],
    audit_mode: AuditMode<'_>,
) -> Result<(Registry, Vec<Member>), Failure> {
    let repo = repo(Some(root))?;
    let opened = match audit_mode {
        AuditMode::All(audit) => Registry::open_recorded(artifact_dir().as_deref(), repo, audit),
        _ => Registry::open(artifact_dir().as_deref(), repo).map_err(OpenError::from),
    };
    if let Err(OpenError::File(error)) = &opened {
        record_refusal(audit_mode, root, |audit| Registry::record_unusable(audit, error));
    }
    let registry = opened?;
    match registry.members(requests).and_then(with_usable_reports) {
        Ok(members) => Ok((registry, members)),
        Err(refused) => {
            record_refusal(audit_mode, root, |audit| Registry::record_refusal(audit, &refused));
            Err(refused.into())
        }
    }
}

/// Refuses a Scout whose reports cannot be checked by the schema in its manifest, before anything is accepted.
fn with_usable_reports(members: Vec<Member>) -> Result<Vec<Member>, Refused> {
    for member in &members {
        OwnReport::new(member.admitted.report()).map_err(|why| Refused::Unusable {
            name: member.name.clone(),
            why: format!("the schema of its report cannot be used: {why}"),
        })?;
    }
    Ok(members)
}

/// Records a refusal in the audit log. If that fails, the task is refused all the same.
pub(super) fn record_refusal(
    audit_mode: AuditMode<'_>,
    root: &Path,
    record: impl FnOnce(&Audit) -> Result<(), AuditError>,
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
    let _ = audit.map(|audit| record(&audit));
}

/// Returns the components that the repository at or above `start` requests; none if its `agent.yaml` is broken.
pub(super) fn requests(start: &Path) -> Vec<ComponentRequest> {
    act_config::load(start).map(|config| config.components).unwrap_or_default()
}

/// Checks that everything that a task of this configuration would load was approved, and that the policy allows it. The
/// user's `config.toml` is not read, so that a broken one hides nothing here. Writes nothing.
///
/// # Errors
///
/// Returns the refusal that a task would get.
pub fn granted(config: &Config) -> Result<(), Failure> {
    let (registry, _) = admitted(&config.root, &config.components, AuditMode::Nothing)?;
    allowed(&registry.policy, config)
}

/// A configuration as tasks use it, and the limits that lowered it.
#[derive(Debug, Clone)]
pub struct InForce {
    pub config: Config,
    pub user: ConfigCeiling,
    pub policy: ConfigCeiling,
}

impl InForce {
    /// Returns how many tokens a task without flags may spend.
    pub fn max_tokens(&self) -> Option<u64> {
        self.limits().max_tokens
    }

    /// Returns how much a task without flags may cost.
    pub fn max_cost(&self) -> Option<Usd> {
        self.limits().max_cost
    }

    fn limits(&self) -> SpendingLimits {
        let Self { config, user, policy } = self;
        SpendingLimits::in_force(
            SpendingLimits::default(),
            config,
            user,
            SpendingLimits::of(policy),
        )
    }
}

/// Lowers a configuration to what the user and the policy allow. Writes nothing.
///
/// # Errors
///
/// Returns the refusal that a task would get.
pub fn in_force(mut config: Config) -> Result<InForce, Failure> {
    let policy = registry(Some(&config.root))?.policy;
    let user = lowered(&policy, &mut config)?.ceiling;
    Ok(InForce { config, user, policy: policy_ceiling(&policy) })
}

/// Reads grants and policy. Writes nothing.
///
/// # Errors
///
/// The repository or the registry cannot be read.
pub(super) fn registry(root: Option<&Path>) -> Result<Registry, Failure> {
    Ok(Registry::open(artifact_dir().as_deref(), repo(root)?)?)
}

/// Reads the registry and records the grants that it holds.
///
/// # Errors
///
/// The registry cannot be read, or the audit log cannot be written.
pub(super) fn recorded_registry(root: Option<&Path>, audit: &Audit) -> Result<Registry, Failure> {
    Ok(Registry::open_recorded(artifact_dir().as_deref(), repo(root)?, audit)?)
}

/// Returns the repository to which grants belong. A worktree that act made has those of its repository.
fn repo(root: Option<&Path>) -> Result<Option<Repo>, Failure> {
    let Some(root) = root else { return Ok(None) };
    let mut repo = Repo::at(root).map_err(|error| {
        Failure::refused("repository_unusable", format!("the repository cannot be opened: {error}"))
    })?;
    let worktree = artifact_dir().and_then(|artifacts| worktree::below(&artifacts, root));
    if let Some(Worktree { home, .. }) = worktree {
        repo.identity = home;
    }
    Ok(Some(repo))
}

fn artifact_dir() -> Option<PathBuf> {
    ArtifactDir::locate(std::env::var_os("AGENT_ARTIFACT_DIR"), std::env::var_os("HOME")).ok()
}

/// Checks everything that must hold before a task is accepted, in the order in which a new user meets it: the task,
/// the repository, the model, the machine.
///
/// # Errors
///
/// Returns the first refusal. Nothing was written then.
pub(super) async fn check(args: &RunArgs) -> Result<Ready, Failure> {
    let request = TaskRequest::parse(&args.text)?;
    refuse_keys("task", request.text())?;
    let mut config = act_config::load(&args.repo)?;
    match args.mode {
        // A dry run writes no notes, but a broken notes directory is refused now and not when the proposal is
        // applied.
        Mode::DryRun => drop(NotesDir::open_existing(&config.root)?),
        Mode::Run { .. } | Mode::Apply { .. } => drop(NotesDir::check(&config.root)?),
    }
    let (members, policy, user) = capabilities(&mut config, AuditMode::Refusals)?;
    let access = match &args.script {
        Some(script) => ModelAccess::Scripted(script.clone()),
        None => model_access(&user)?,
    };
    // Again, because the settings have a key as well.
    refuse_keys("task", request.text())?;
    // In a task for one package, `src` means the directory of the package first.
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
    let allowed_test_changes = PathGlobs::new(&args.allow_test_changes)
        .map_err(|error| Failure::usage(format!("--allow-test-change: {error}")))?;
    let (only, never): (Vec<_>, Vec<_>) =
        held.into_iter().map(|held| (held.only, held.never)).unzip();
    let rules = rules
        .protecting(&config.root, &own_directories())
        .guarding_targets(&config.root, &view(&config.root)?)
        .within(&only.concat(), &never.concat())
        .map_err(|error| Failure::refused("boundary_invalid", format!("Boundaries: {error}")))?;
    let host = ComponentHost::new(act_component::cache_dir().as_deref());
    // The engine needs some milliseconds for its answers. A task that gets a worktree is checked again there.
    if args.place == Place::Here {
        read_ahead(&host, &members);
    }
    let chosen = match args.mode {
        Mode::DryRun => None,
        Mode::Run { .. } | Mode::Apply { .. } => {
            ca_bundle(&config)?;
            let chosen = engines::choose(args.engine.as_deref(), &config, &policy).await??;
            chosen.engine.check_abilities(&config.pipeline).map_err(engine_unable)?;
            Some(chosen)
        }
    };
    let (engine, engine_why) = chosen.map(|chosen| (chosen.engine, chosen.why)).unzip();
    // Last, because this is the only check that creates something.
    let artifacts = artifacts(&config.root)?;
    let mode = args.mode.clone();
    let ready = Ready {
        request,
        config,
        user,
        access,
        artifacts,
        engine,
        engine_why: engine_why.flatten(),
        rules,
        enforced,
        allowed_test_changes,
        mode,
        host,
        members,
        ceiling: policy.ceiling,
        anchored: policy.require_anchor,
        flags: SpendingLimits { max_tokens: args.max_tokens, max_cost: args.max_cost },
        policy_limits: SpendingLimits::of(&policy.config),
        flag_no_agents_md: args.no_agents_md,
        consent: None,
        previous: None,
    };
    ready.check_price()?;
    Ok(ready)
}

/// Starts to read the built-in components from the cache, except those that an approved component replaces.
fn read_ahead(host: &ComponentHost, members: &[Member]) {
    let replaced = |name| members.iter().any(|one| one.replaces.as_deref() == Some(name));
    host.read_ahead(builtin::ALL.into_iter().filter(|one| !replaced(one.name)));
}

/// Returns the refusal of a limit of cost that cannot be enforced, because the price of the model is unknown.
pub fn price_unknown(limit: Usd, access: &ModelAccess) -> Failure {
    let (model, address) = match access {
        ModelAccess::Server(server) => (server.model.as_str(), server.base_url.as_str()),
        ModelAccess::Scripted(_) => ("of the script", "this process"),
    };
    let message = format!(
        "this task may cost at most ${limit}, and the price of the model {model} at {address} is not known"
    );
    Failure::refused("price_unknown", message).hint(
        "write `[prices.\"MODEL\"]` with `input` and `output`, in dollars for a million tokens, into config.toml, or remove \
         `max_cost` (--max-cost, [limits] in config.toml, limits in agent.yaml)",
    )
}

/// Returns the refusal of an engine that cannot do what the pipeline needs. No attempt of a task could end on it.
pub(crate) fn engine_unable(error: InfraError) -> Failure {
    Failure { exit: Exit::Infra, ..Failure::refused("engine_unable", error.message) }
}

/// Checks that steps would get the certificates of `ca_bundle`. A verification checks this again; here it has not
/// cost anything yet.
///
/// # Errors
///
/// The file cannot be used (`ca_bundle_unusable`).
pub fn ca_bundle(config: &Config) -> Result<(), Failure> {
    let Some(path) = &config.pipeline.ca_bundle else { return Ok(()) };
    act_verifier::check_ca_bundle(path).map_err(|error| {
        Failure::refused("ca_bundle_unusable", error.message)
            .hint("name a file of PEM certificates on this machine, or remove the key")
    })
}

/// Returns the directories whose content act trusts or runs later, so that no task may write there: grants and the
/// anchor command, compiled components, artifacts.
pub(super) fn own_directories() -> Vec<PathBuf> {
    let compiled = act_component::cache_dir().and_then(|dir| dir.parent().map(Path::to_owned));
    [act_fs::trusted::user_directory(), compiled, artifact_dir()].into_iter().flatten().collect()
}

/// Opens the store for a task that was checked, and records the end of tasks whose process died. This is not part of
/// `check`, because it creates the database.
///
/// # Errors
///
/// The store or the audit log cannot be used.
pub(super) fn context(ready: &Ready) -> Result<TaskContext, Failure> {
    let context = open_context(&ready.artifacts, &ready.config.root)?;
    // A task that could not be recorded is not accepted.
    context.audit.ready()?;
    Ok(context)
}

pub(super) fn open_context(
    artifacts: &Arc<ArtifactDir>,
    root: &Path,
) -> Result<TaskContext, Failure> {
    let context = TaskContext::new(store(artifacts)?, Arc::clone(artifacts), root)?;
    queue::record_dead_tasks(&context.store, artifacts, &context.this, Some(&context.repo))?;
    Ok(context)
}

/// Opens the state directory of the ARTIFACT_DIR, and returns its path as well.
///
/// # Errors
///
/// The directory cannot be opened (`store_unusable`).
pub(super) fn state(artifacts: &ArtifactDir) -> Result<(act_fs::Dir, PathBuf), Failure> {
    let path = artifacts.path().join("state");
    let state = artifacts.state().map_err(|error| {
        Failure::refused("store_unusable", format!("{} cannot be used: {error}", path.display()))
            .hint("make it writable for you, or set AGENT_ARTIFACT_DIR")
    })?;
    Ok((state, path))
}

pub(super) fn store(artifacts: &ArtifactDir) -> Result<Arc<Store>, Failure> {
    let (state, path) = state(artifacts)?;
    Ok(Arc::new(Store::open(&state, &path)?))
}

/// Returns the proposal that the task applies, after checking that it still fits the tree.
///
/// # Errors
///
/// The proposal is unknown, was changed or does not fit the tree.
pub(super) fn proposal(
    ready: &Ready,
    context: &TaskContext,
) -> Result<Option<(ProposalRecord, Proposal)>, Failure> {
    let Mode::Apply { dry_run } = &ready.mode else { return Ok(None) };
    // A dry writer, because other tasks may be working in the repository.
    let unusable = |why: String| {
        let root = ready.config.root.display();
        Failure::refused("repository_unusable", format!("{root}: {why}"))
    };
    let rules = ready.write_rules().map_err(|error| unusable(error.to_string()))?;
    let writer = RepoWriter::open_dry(&ready.config.root, rules, Overlay::default())
        .map_err(|error| unusable(error.to_string()))?;
    proposal::check(context, &writer, dry_run).map(Some)
}

impl Ready {
    /// Returns the rules for the writes of the task.
    ///
    /// # Errors
    ///
    /// A glob of `verification.include` is invalid.
    pub(super) fn write_rules(&self) -> Result<WriteRules, GlobError> {
        let rules = self.rules.clone().scoped(self.config.monorepo_package.as_deref());
        rules.including(&self.config.pipeline.include)
    }
}

/// Returns the audit log of an ARTIFACT_DIR; its store holds the head of the log. The first record opens the file.
///
/// # Errors
///
/// The state directory cannot be opened (`store_unusable`).
pub(super) fn audit(artifacts: &ArtifactDir, store: &Arc<Store>) -> Result<Audit, Failure> {
    let (state, path) = state(artifacts)?;
    let keeper: Arc<dyn CheckpointStore> = Arc::<Store>::clone(store);
    Ok(Audit::new(state, &path, keeper, secrets()))
}

/// Returns the keys of the environment, which must never be stored, sent or printed.
pub(super) fn secrets() -> Secrets {
    act_config::secrets(|name| std::env::var(name).ok())
}

/// Everything that a verification without a task needs.
pub(super) struct VerificationParts {
    pub(super) config: Config,
    pub(super) artifacts: Arc<ArtifactDir>,
    /// A missing engine is the result of the verification and not a refusal.
    pub(super) engine: Result<Engine, EngineUnavailable>,
    /// Why the engine was chosen among several, for the person.
    pub(super) engine_why: Option<String>,
    /// The policy requires that the head of the audit log is sent first.
    pub(super) anchored: bool,
}

/// `engine` is the name of one in `engines.toml`.
pub(super) async fn verification(
    repo: &Path,
    engine: Option<&str>,
) -> Result<VerificationParts, Failure> {
    let mut config = act_config::load(repo)?;
    let policy = registry(Some(&config.root))?.policy;
    lowered(&policy, &mut config)?;
    let artifacts = artifacts(&config.root)?;
    let chosen = engines::choose(engine, &config, &policy).await?;
    let (engine, engine_why) = match chosen {
        Ok(chosen) => (Ok(chosen.engine), chosen.why),
        Err(away) => (Err(away.error), None),
    };
    let anchored = policy.require_anchor;
    Ok(VerificationParts { config, artifacts, engine, engine_why, anchored })
}

pub(super) fn artifacts(root: &Path) -> Result<Arc<ArtifactDir>, Failure> {
    artifacts_for(Some(root))
}

/// Opens the ARTIFACT_DIR, which must not lie in the repository at `root`. Commands outside of a repository pass
/// `None`.
///
/// # Errors
///
/// The directory is unknown, cannot be used, or lies in the repository.
pub(super) fn artifacts_for(root: Option<&Path>) -> Result<Arc<ArtifactDir>, Failure> {
    let path =
        ArtifactDir::locate(std::env::var_os("AGENT_ARTIFACT_DIR"), std::env::var_os("HOME"))?;
    let artifacts = ArtifactDir::open_for(&path, root)?;
    artifacts.tightened().iter().for_each(|text| say_once(text));
    Ok(Arc::new(artifacts))
}

/// The notices of this process, each of which the user reads once, and whether it was handed out. Every command opens the
/// ARTIFACT_DIR or reads the settings, and only some have events, so the program asks after any of them.
static NOTICES: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());

/// Adds a notice, unless this process has it already.
pub(crate) fn say_once(text: &str) {
    let mut notices = NOTICES.lock().unwrap_or_else(PoisonError::into_inner);
    notices.entry(text.to_owned()).or_insert(false);
}

/// Returns the notices since the last call: what was closed to other users in the ARTIFACT_DIR, and the limits to which
/// `agent.yaml` was held.
pub fn notices() -> Vec<String> {
    let mut notices = NOTICES.lock().unwrap_or_else(PoisonError::into_inner);
    let new =
        |(text, told): (&String, &mut bool)| (!std::mem::replace(told, true)).then(|| text.clone());
    notices.iter_mut().filter_map(new).collect()
}

/// Refuses a configuration that the policy forbids, and lowers the others to what policy and user allow. Returns the
/// settings of the user.
fn lowered(policy: &Policy, config: &mut Config) -> Result<UserSettings, Failure> {
    allowed(policy, config)?;
    let user = UserSettings::read(Some(&config.root))?;
    let policy = policy_ceiling(policy);
    if config.asks_for_root(&user.ceiling, &policy) {
        let message = "agent.yaml sets `verification.user: root`, and only you can let the steps of a repository be root: a \
                       step could make a program that runs as root on this machine";
        return Err(Failure::refused("root_not_allowed", message).hint(
            "if you trust this pipeline, write `user = \"root\"` under [verifier] in config.toml (~/.config/act, mode 0600); \
             otherwise remove the line from agent.yaml, and build an image that holds what the steps install",
        ));
    }
    config.lower(&user.ceiling, &policy).iter().for_each(|text| say_once(text));
    Ok(user)
}

/// Refuses a configuration that the policy forbids.
fn allowed(policy: &Policy, config: &Config) -> Result<(), Failure> {
    pinned(policy, &config.pipeline.image)?;
    match policy.require_anchor {
        true => anchor::is_set_up(Some(&config.root)).map(drop),
        false => Ok(()),
    }
}

/// Returns what the policy allows any `agent.yaml`. A query of a Scout is a call of a component as well, which has a limit of
/// its own in the policy.
fn policy_ceiling(policy: &Policy) -> ConfigCeiling {
    ConfigCeiling { scout_timeout: Some(policy.ceiling.limits.wall), ..policy.config }
}

/// Selects the model by the environment of this process and the settings of the user.
pub(super) fn model_access(user: &UserSettings) -> Result<ModelAccess, Failure> {
    let selected = act_config::model_access(user, |name: &str| std::env::var(name).ok())?;
    Ok(ModelAccess::Server(selected.server))
}

/// Refuses an image without a digest, because its tag may name another image tomorrow, unless the policy allows it.
fn pinned(policy: &Policy, image: &str) -> Result<(), Failure> {
    if policy.allow_unpinned_images || image.contains("@sha256:") {
        return Ok(());
    }
    let message =
        format!("image {image} is not pinned by digest, which the administrator's policy requires");
    Err(Failure::refused("image_unpinned", message)
        .hint("write it as NAME@sha256:DIGEST in verification.container_image"))
}

/// Refuses a text of the user that contains the value of a key of the environment or of `config.toml`, because the text is sent to the
/// model and stored. `what` names the text.
///
/// # Errors
///
/// The text contains a key (`key_in_text`).
pub(super) fn refuse_keys(what: &str, text: &str) -> Result<(), Failure> {
    let keys = secrets().unmistakable();
    if !keys.are_in(text) {
        return Ok(());
    }
    let message = format!(
        "the {what} holds a key: the value of ANTHROPIC_API_KEY or OPENAI_API_KEY, or the key of config.toml"
    );
    let hint = "name the variable instead of its value; the text is sent to the model and stored";
    Err(Failure::refused("key_in_text", message).hint(hint))
}

/// A part of the Editor or of a Scout could not be built; a failure of the machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Incomplete(String);

pub(super) fn failed<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Incomplete {
    let what = what.to_owned();
    move |error| Incomplete(format!("{what}: {error}"))
}

/// Opens the model for one task, one question or one check.
///
/// # Errors
///
/// The address or the key of the model cannot be used.
pub fn connect_model(
    access: &ModelAccess,
    deadlines: Deadlines,
    ledger: &TokenLedger,
    events: &Events,
) -> Result<Arc<dyn Model>, Incomplete> {
    act_model::connect(access.clone(), deadlines, events.clone(), ledger.clone())
        .map_err(failed("the model client cannot be made"))
}

/// Opens the repository as Scouts see it.
pub(super) fn view(root: &Path) -> Result<RepoView, Incomplete> {
    RepoView::open(root, Profile::Scout).map_err(failed("the repository cannot be opened"))
}

/// Loads components and gives them the services that they may use.
pub(super) struct ComponentLoader<'a> {
    pub(super) host: ComponentHost,
    /// The approved components: each replaces a built-in one or is added to them.
    pub(super) members: &'a [Member],
    /// `None` where no component may ask a model, whatever it was granted.
    pub(super) model: Option<Arc<dyn Model>>,
    pub(super) view: RepoView,
    /// The time limit of a Scout's own computing, and of each of its requests to the model.
    pub(super) wall: Duration,
    pub(super) events: &'a Events,
}

impl ComponentLoader<'_> {
    /// Loads a built-in component, or the approved one that replaces it and then has its name.
    fn load<C>(
        &self,
        builtin: Builtin,
        grant: &Grant,
        of_kind: fn(Loaded) -> Result<C, LoadError>,
    ) -> Result<C, Incomplete> {
        let replaces = |member: &&Member| member.replaces.as_deref() == Some(builtin.name);
        if let Some(member) = self.members.iter().find(replaces) {
            return self.load_member(member, builtin.name, of_kind);
        }
        let loaded = self.host.load_builtin(builtin, grant, self.events);
        loaded.and_then(of_kind).map_err(failed("a component cannot be loaded"))
    }

    fn load_member<C>(
        &self,
        member: &Member,
        name: &str,
        of_kind: fn(Loaded) -> Result<C, LoadError>,
    ) -> Result<C, Incomplete> {
        let loaded = self.host.load_admitted(name, &member.admitted, self.events);
        loaded.and_then(of_kind).map_err(failed("an approved component cannot be loaded"))
    }

    /// Returns the approved name of the component that replaces the built-in `place`, or `place` itself.
    pub(super) fn known_as(&self, builtin: &str) -> String {
        let replaces = |member: &&Member| member.replaces.as_deref() == Some(builtin);
        let member = self.members.iter().find(replaces);
        member.map_or(builtin, |member| &member.name).to_owned()
    }

    pub(super) fn load_scout(&self, builtin: Builtin) -> Result<ScoutComponent, Incomplete> {
        self.load(builtin, &Grant::builtin_scout().for_requests_of(self.wall), Loaded::into_scout)
    }

    pub(super) fn load_tools(&self, builtin: Builtin) -> Result<ToolComponent, Incomplete> {
        self.load(builtin, &Grant::builtin_tool(), Loaded::into_tool)
    }

    pub(super) fn load_member_scout(
        &self,
        member: &Member,
        name: &str,
    ) -> Result<ScoutComponent, Incomplete> {
        self.load_member(member, name, Loaded::into_scout)
    }

    pub(super) fn load_member_tool(&self, member: &Member) -> Result<ToolComponent, Incomplete> {
        self.load_member(member, &member.name, Loaded::into_tool)
    }

    /// Returns the approved components that replace nothing, in the order of their approval.
    pub(super) fn others(&self, kind: Kind) -> impl Iterator<Item = &Member> {
        let wanted = move |member: &&Member| member.kind == kind && member.replaces.is_none();
        self.members.iter().filter(wanted)
    }

    /// Makes one of the two Scouts that every Editor knows.
    pub(super) fn scout(&self, component: ScoutComponent) -> Arc<dyn Scout> {
        Arc::new(self.component_scout(component))
    }

    /// Makes an additional Scout, which is introduced to the Editor by what its author says about it.
    pub(super) fn added_scout(&self, component: ScoutComponent) -> Arc<dyn Scout> {
        Arc::new(self.component_scout(component).introduced())
    }

    fn component_scout(&self, component: ScoutComponent) -> ComponentScout {
        let name = component.manifest.name.clone();
        let services = self.services(&name);
        ComponentScout::new(&name, component, services, self.wall)
    }

    /// Returns the services of a Scout.
    pub(super) fn services(&self, name: &str) -> Services {
        Services {
            view: Some(self.view.clone()),
            versions: None,
            writer: None,
            model: self.model.clone().map(|model| (model, name.to_owned())),
            attempt: 1,
            events: self.events.clone(),
        }
    }
}

/// Bytes of a log that are read at once.
const CHUNK: usize = 256 * 1024;

/// The parts that an Editor is built from.
pub(super) struct EditorParts {
    pub(super) ready: Ready,
    /// The directory of the repository, open since its lock was taken.
    pub(super) held: OpenRoot,
    pub(super) input: TaskInput,
    /// How long the last verification of the repository took.
    pub(super) last_run: Option<Duration>,
    /// How long each of its steps took.
    pub(super) step_times: StepTimes,
    /// Where files are stored before they change; `None` in a dry run, which changes none.
    pub(super) originals: Option<Arc<Originals>>,
    /// The engine and the image of the verification, `None` in a dry run. Components are loaded while the image is looked for.
    pub(super) pipeline: oneshot::Receiver<Option<(Engine, ResolvedImage)>>,
    pub(super) audit: Audit,
    pub(super) ledger: TokenLedger,
    pub(super) events: Events,
    pub(super) cancel: CancellationToken,
}

/// The Editor, without notes, and what its task needs besides.
pub(super) struct AssembledEditor {
    pub(super) editor: Editor,
    pub(super) writer: Arc<RepoWriter>,
    /// The changes of a dry run, which are only in memory.
    pub(super) overlay: Option<Overlay>,
    /// The warm runs of the task, with the verifier that makes their base.
    pub(super) warm: Option<(DockerVerifier, Arc<WarmRuns>)>,
}

/// Returns the judge of the changes that make an attempt cold, because the build or the verification depends on them.
fn gate_change(config: &Config, writer: &Arc<RepoWriter>) -> Box<GateChange> {
    let (writer, package) = (Arc::clone(writer), config.monorepo_package.clone());
    let commands: Vec<String> =
        config.pipeline.all_steps().map(|step| step.command.clone()).collect();
    Box::new(move |files| {
        // The line that a task adds to hide its notes is no change of the build. The settings of `agent.yaml` that a build
        // depends on are in the key of the base, and no task changes that file.
        let harmless = |file: &&ChangedFile| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let [before, now] = [&file.text_before, &file.text_now].map(text);
            file.path == "agent.yaml"
                || (file.path == ".gitignore" && hides_only_notes(&before, &now))
        };
        let changes: Vec<_> = files
            .iter()
            .filter(|file| !harmless(file))
            .map(|file| FileChange {
                path: &file.path,
                sha256_before: file.sha256_before.as_deref(),
                sha256_now: Some(&file.sha256_now),
                text_before: file.text_before.as_deref(),
                text_now: file.text_now.as_deref(),
            })
            .collect();
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let look = |path: &str| read_script(&writer, path);
        let steps = Steps { commands: &commands, package: package.as_deref(), look: &look };
        let changed = gate_inputs_changed(&changes, &steps, &[]).into_iter().next()?;
        Some(format!(
            "{} has changed ({}), and the build or the verification depends on it",
            changed.path, changed.why
        ))
    })
}

/// Reads a script of the repository as the task sees it.
fn read_script(writer: &RepoWriter, path: &str) -> Option<(String, String)> {
    let want = Slice { path: path.to_owned(), length: Some(MAX_SCRIPT), ..Slice::default() };
    let chunk = read(writer.view(), &want, None).ok()?;
    let text = String::from_utf8_lossy(&chunk.bytes).into_owned();
    (!is_binary(&chunk.bytes)).then_some((chunk.path, text))
}

/// Builds the Editor. Compiling components may take seconds, so this does not run on a thread of the runtime.
///
/// # Errors
///
/// A component cannot be loaded, the repository cannot be opened, or there is no image, which the caller reports.
pub(super) fn assemble(work: EditorParts) -> Result<AssembledEditor, Incomplete> {
    let EditorParts {
        ready,
        held,
        input,
        last_run,
        step_times,
        originals,
        pipeline,
        audit,
        ledger,
        events,
        cancel,
    } = work;
    let config = &ready.config;
    let root = &config.root;
    let model = connect_model(&ready.access, ready.deadlines(), &ledger, &events)?;
    let overlay = (ready.mode == Mode::DryRun).then(Overlay::default);
    let component_loader = ComponentLoader {
        host: ready.host.clone().below(ready.ceiling.clone()).audited(audit.clone()),
        members: &ready.members,
        model: Some(Arc::clone(&model)),
        view: view(root)?.over(overlay.as_ref()),
        wall: config.scout_timeout,
        events: &events,
    };
    let scouts = [
        component_loader.load_scout(builtin::SCOUT_A)?,
        component_loader.load_scout(builtin::SCOUT_B)?,
    ];
    let tools = component_loader.load_tools(builtin::FILE_TOOLS)?;
    let added = component_loader
        .others(Kind::Scout)
        .map(|scout| component_loader.load_member_scout(scout, &scout.name));
    let added = added.collect::<Result<Vec<_>, _>>()?;
    let more_tools =
        component_loader.others(Kind::Tool).map(|tool| component_loader.load_member_tool(tool));
    let more_tools = more_tools.collect::<Result<Vec<_>, _>>()?;
    let digest = |component: &LoadedComponent| digest(component, &ready.members);
    let mut components: Vec<_> = scouts.iter().map(|scout| digest(scout)).collect();
    components.push(digest(&tools));
    components.extend(added.iter().map(|scout| digest(scout)));
    components.extend(more_tools.iter().map(|tool| digest(tool)));

    let rules = ready.write_rules().map_err(failed("verification.include"))?;
    let writer = match &overlay {
        None => RepoWriter::open(root, rules),
        Some(overlay) => RepoWriter::open_dry(root, rules, overlay.clone()),
    };
    let writer = writer.map_err(failed("the repository cannot be opened"))?;
    let writer = writer.asking(ready.consent.clone());
    let writer = Arc::new(match &originals {
        Some(originals) => writer.with_originals(Arc::clone(originals)),
        None => writer,
    });
    let kept = originals.and_then(|originals| {
        let dir = ready.artifacts.task_dir(&input.task_id);
        let dir = dir.inspect_err(|error| {
            events
                .warn(format!("the tests of this task cannot be compared with its start: {error}"));
        });
        Some((Arc::new(dir.ok()?), originals))
    });
    let tools = component_tools(tools, more_tools, &writer, &model, &events);
    let mut check = Grounded::new(component_loader.view.clone());
    for scout in &added {
        let manifest = &scout.manifest;
        check = check
            .with(&manifest.name, manifest.report.as_deref())
            .map_err(failed(&format!("the report schema of {} cannot be used", manifest.name)))?;
    }
    let scouts = scouts.into_iter().map(|component| component_loader.scout(component));
    let scouts =
        scouts.chain(added.into_iter().map(|added| component_loader.added_scout(added))).collect();

    let include =
        PathGlobs::new(&config.pipeline.include).map_err(failed("verification.include"))?;
    let warm = match ready.mode {
        // What `act apply` writes was proposed by another task, so only a cold run accepts it.
        Mode::Apply { .. } => config.pipeline.warm().min(Warm::Attempts),
        Mode::Run { .. } | Mode::DryRun => config.pipeline.warm(),
    };
    let warm = WarmRuns::of(warm, gate_change(config, &writer));
    let pipeline = pipeline.blocking_recv().map_err(failed("the image of the pipeline"))?;
    let verifier = pipeline.map(|(engine, image)| DockerVerifier {
        downloads: Downloads::Shared,
        warm: warm.clone(),
        engine,
        image,
        artifacts: Arc::clone(&ready.artifacts),
        repo: held.clone(),
        config: Arc::new(verification_config(config, &ready.artifacts)),
        variant: None,
        tests_weakened: Arc::default(),
        step_times,
        task_id: Some(input.task_id.clone()),
        components,
        audit: audit.clone(),
        events: events.clone(),
    });
    let variants = kept.zip(verifier.clone()).map(|((dir, originals), verifier)| {
        let trees = TaskTrees { verifier, originals, dir };
        Arc::new(Trees(Arc::new(trees))) as Arc<dyn VariantVerifier>
    });
    let checker = verifier.clone().map(|verifier| {
        let view = writer.view().clone();
        Arc::new(DockerChecker { verifier, view, secrets: secrets() }) as Arc<dyn Checker>
    });
    let warm = verifier.clone().zip(warm);
    let verifier: Arc<dyn Verifier> = match verifier {
        None => Arc::new(NoVerifier),
        Some(verifier) => Arc::new(verifier),
    };
    let workplace = TaskWorkplace {
        held,
        include,
        scout_view: component_loader.view.clone(),
        writer: Arc::clone(&writer),
        package: config.monorepo_package.clone(),
        artifacts: Arc::clone(&ready.artifacts),
    };
    let editor = Editor {
        input,
        model,
        ledger: ledger.clone(),
        scouts,
        check: Arc::new(check),
        tools,
        writer: Arc::clone(&writer),
        verifier,
        variants,
        evidence: config.evidence,
        checker,
        checks: config.checks.clone(),
        workplace: Arc::new(workplace),
        gate: Gate {
            pipeline: config.pipeline.clone(),
            step_timeout: config.step_timeout,
            last_run,
        },
        view: component_loader.view.clone(),
        agents_md: ready.agents_md(),
        audit,
        notes: None,
        aim: if overlay.is_some() { Aim::Proposal } else { Aim::Green },
        draft: None,
        baseline: ready.mode == Mode::Run { baseline: true },
        events: events.clone(),
        cancel: cancel.clone(),
    };
    Ok(AssembledEditor { editor, writer, overlay, warm })
}

/// Returns what a verification uses of a configuration. One in a worktree shares the downloads of its repository.
pub(super) fn verification_config(config: &Config, artifacts: &ArtifactDir) -> VerificationConfig {
    let worktree = worktree::at(artifacts, &config.root);
    let downloads_of = worktree.map(|worktree| PathBuf::from(worktree.of));
    VerificationConfig { downloads_of, ..VerificationConfig::of(config) }
}

/// The access of an Editor to the repository and the artifacts of its task.
struct TaskWorkplace {
    held: OpenRoot,
    /// Paths that a verification includes although git ignores them.
    include: PathGlobs,
    scout_view: RepoView,
    writer: Arc<RepoWriter>,
    package: Option<String>,
    artifacts: Arc<ArtifactDir>,
}

impl Workplace for TaskWorkplace {
    fn tree_digest(&self) -> io::Result<String> {
        tree_digest(self.held.path(), &self.include).map_err(io::Error::other)
    }

    fn moved(&self) -> Option<String> {
        self.held.check_not_moved().err().map(|moved| moved.to_string())
    }

    fn has_tests(&self) -> bool {
        // The view of the Scouts leaves out vendored code, whose tests are not the tests of the project.
        has_tests(&self.scout_view, self.package.as_deref())
    }

    fn read_script(&self, path: &str) -> Option<(String, String)> {
        read_script(&self.writer, path)
    }

    fn log(&self, run_id: &str, step: Option<&str>, from: usize) -> io::Result<Log> {
        let mut file = self.artifacts.open_log(run_id, step).map_err(io::Error::other)?;
        let mut reader = LogReader::starting_at(from);
        let (mut chunk, mut held) = (vec![0; CHUNK], vec![]);
        loop {
            let count = file.read(&mut chunk)?;
            held.extend(chunk.iter().take(count));
            // Paths are looked for in whole lines. A line that fills a chunk is not waited for.
            let whole = match held.iter().rposition(|byte| *byte == b'\n') {
                Some(end) if count > 0 => end + 1,
                None if count > 0 && held.len() < CHUNK => 0,
                _ => held.len(),
            };
            let lines: Vec<u8> = held.drain(..whole).collect();
            reader.push(relative_to_repo(&String::from_utf8_lossy(&lines)).as_bytes());
            if count == 0 {
                return Ok(reader.finish());
            }
        }
    }

    fn add_evidence(&self, run_id: &str, evidence: &Evidence) -> io::Result<()> {
        let run_id = RunId::parse(run_id).map_err(io::Error::other)?;
        self.artifacts.add_evidence(&run_id, evidence)
    }

    fn paths(&self) -> Vec<String> {
        files(self.writer.view()).map(|paths| paths.into_iter().collect()).unwrap_or_default()
    }
}

fn digest(component: &LoadedComponent, members: &[Member]) -> ComponentDigest {
    let (name, sha256) = (component.manifest.name.clone(), component.sha256.clone());
    // The same bytes may be approved under another name, so the name counts as well.
    let is_known_as = |member: &Member| member.replaces.as_ref().unwrap_or(&member.name) == &name;
    let dev_component =
        members.iter().any(|member| member.dev && member.sha256 == sha256 && is_known_as(member));
    ComponentDigest { name, sha256, dev_component }
}
