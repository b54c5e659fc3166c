//! The engine that a command uses, and the state of the engines in `engines.toml`.

use std::path::{Path, PathBuf};

use act_config::{EngineSettings, Engines};
use act_core::Failure;
use act_core::exit::Exit;
use act_core::verification::EngineIdentity;
use act_verifier::{Engine, EngineUnavailable, Machine};
use futures_util::future::join_all;

/// Connects to the engine of `engines.toml` with this name, or else to the usual one.
///
/// # Errors
///
/// The file is refused, or names no such engine (exit code 2). An engine that does not answer is the inner error.
pub(crate) async fn connect(
    name: Option<&str>,
    root: &Path,
) -> Result<Result<Engine, EngineUnavailable>, Failure> {
    let Some(name) = name else { return Ok(Engine::connect().await) };
    let engines = Engines::read(Some(root))?;
    Ok(Engine::connect_to_named(named(&engines, name)?).await)
}

fn named<'a>(engines: &'a Engines, name: &str) -> Result<&'a EngineSettings, Failure> {
    engines.find(name).ok_or_else(|| {
        let known: Vec<_> = engines.engines.iter().map(|engine| engine.name.as_str()).collect();
        let failure = Failure::usage(format!("no engine has the name {name:?}"));
        match (&engines.file, known.as_slice()) {
            (None, _) => failure.hint("write it into engines.toml beside config.toml"),
            (Some(file), []) => failure.hint(format!("{} has no engine", file.display())),
            (Some(file), known) => {
                failure.hint(format!("{} has {}", file.display(), known.join(", ")))
            }
        }
    })
}

/// Returns the failure of a task whose engine, which the user named, does not answer.
pub(crate) fn unreachable(error: EngineUnavailable) -> Failure {
    Failure { exit: Exit::Infra, ..Failure::from(error) }
}

/// The engines of the user.
#[derive(Debug)]
pub struct EngineList {
    /// `None` if there is no `engines.toml`.
    pub file: Option<PathBuf>,
    pub engines: Vec<EngineState>,
}

/// An engine and what it answers.
#[derive(Debug)]
pub struct EngineState {
    pub settings: EngineSettings,
    pub answer: Result<EngineAnswer, Failure>,
}

/// What an engine says about itself.
#[derive(Debug)]
pub struct EngineAnswer {
    pub host: String,
    pub identity: EngineIdentity,
    pub machine: Machine,
    /// The slots that are taken, each with its owner.
    pub taken: Vec<String>,
    /// What the engine cannot do, each with the reason.
    pub lacks: Vec<String>,
}

/// Asks all engines of `engines.toml` at once, in the order of the file.
///
/// # Errors
///
/// The file is refused.
pub async fn list_engines() -> Result<EngineList, Failure> {
    let root = act_config::find_root(Path::new("."))?;
    let engines = Engines::read(root.as_ref().map(|root| root.path.as_path()))?;
    let states = engines.engines.into_iter().map(async |settings| {
        let answer = ask(&settings).await;
        EngineState { settings, answer }
    });
    Ok(EngineList { file: engines.file, engines: join_all(states).await })
}

/// Asks one engine of `engines.toml`.
///
/// # Errors
///
/// The file is refused, or names no such engine (exit code 2).
pub async fn check_engine(name: &str) -> Result<EngineState, Failure> {
    let root = act_config::find_root(Path::new("."))?;
    let engines = Engines::read(root.as_ref().map(|root| root.path.as_path()))?;
    let settings = named(&engines, name)?.clone();
    let answer = ask(&settings).await;
    Ok(EngineState { settings, answer })
}

async fn ask(settings: &EngineSettings) -> Result<EngineAnswer, Failure> {
    let engine = Engine::connect_to_named(settings).await.map_err(unreachable)?;
    let failed = |error: act_core::verification::InfraError| Failure {
        exit: Exit::Infra,
        ..Failure::refused(error.error_type.as_str(), error.message)
    };
    Ok(EngineAnswer {
        host: engine.host().to_owned(),
        identity: engine.identity().clone(),
        machine: engine.machine().await.map_err(failed)?,
        taken: engine.taken_slots().await.map_err(failed)?,
        lacks: engine.lacks(),
    })
}
