//! The engine that a command uses: the usual one, or one of `engines.toml`; and the state of the engines in that file.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::Duration;

use act_component::registry::Policy;
use act_config::{Config, EngineSettings, Engines, Labels, Warm};
use act_core::Failure;
use act_core::exit::Exit;
use act_core::verification::{EngineIdentity, InfraError};
use act_records::artifacts::{ArtifactDir, BaseSize};
use act_verifier::{Engine, EngineUnavailable, Machine};
use futures_util::future::join_all;

use crate::prepare;

/// How long an engine may take to answer where another one could be used. Each task waits for it once, and an engine that needs
/// longer is busy or away.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of that time the removal of what dead processes left may take.
const REAPING: Duration = Duration::from_secs(3);

/// The engine of a command.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) engine: Engine,
    /// Why it was chosen among several, for the person.
    pub(crate) why: Option<String>,
}

/// Engines that do not answer.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    pub(crate) error: EngineUnavailable,
    /// They are in `engines.toml`.
    of_file: bool,
}

impl From<NoAnswer> for Failure {
    fn from(NoAnswer { error, of_file }: NoAnswer) -> Self {
        if of_file { unreachable(error) } else { error.into() }
    }
}

/// Returns the engine for the pipeline of a repository: the one of `engines.toml` with this name, else the best one of that file,
/// or the usual one if there is no file.
///
/// # Errors
///
/// The file is refused, or names no such engine (exit code 2); no engine has the labels that `agent.yaml` asks for, is allowed by the
/// policy, or can do what the pipeline needs (exit code 4). The inner error is that of engines that do not answer.
pub(crate) async fn choose(
    name: Option<&str>,
    config: &Config,
    policy: &Policy,
) -> Result<Result<Chosen, NoAnswer>, Failure> {
    let engines = Engines::read(Some(&config.root))?;
    let wanted = match name {
        Some(name) => vec![named(&engines, name)?],
        None => engines.engines.iter().collect(),
    };
    match wanted.as_slice() {
        [] => match Engine::connect().await {
            Ok(engine) => fits(&engine, config, policy).map(|()| Ok(alone(engine))),
            Err(error) => Ok(Err(NoAnswer { error, of_file: false })),
        },
        [settings] => match Engine::connect_to_named(settings).await {
            Ok(engine) => fits(&engine, config, policy).map(|()| Ok(alone(engine))),
            Err(error) => Ok(Err(NoAnswer { error, of_file: true })),
        },
        several => place(several, config, policy).await,
    }
}

fn alone(engine: Engine) -> Chosen {
    Chosen { engine, why: None }
}

/// Checks an engine against `agent.yaml` and the policy.
fn fits(engine: &Engine, config: &Config, policy: &Policy) -> Result<(), Failure> {
    let unfit = |code, message: String, hint: &str| {
        Err(Failure { exit: Exit::Infra, ..Failure::refused(code, message) }.hint(hint))
    };
    let what = match &engine.identity().entry {
        Some(entry) => format!("the engine {entry}"),
        None => format!("the engine at {}", engine.host()),
    };
    if let Some((key, value)) = missing_label(&config.pipeline.engine, engine.labels()) {
        let has = engine.labels().get(key).map_or("none", String::as_str);
        return unfit(
            "engine_unmatched",
            format!("agent.yaml asks for an engine with {key}: {value}, and {what} has {has}"),
            "name such an engine in engines.toml, with its `labels`",
        );
    }
    let id = engine.identity().id.as_deref();
    if !policy.allows_engine(engine.host(), id) {
        return unfit(
            "engine_not_allowed",
            format!("the administrator's policy does not allow {what}"),
            "`engines` in policy.toml lists the engines that count; use one of them",
        );
    }
    Ok(())
}

/// Returns the first label that an engine does not have (pure).
fn missing_label<'a>(wanted: &'a Labels, labels: &Labels) -> Option<(&'a str, &'a str)> {
    let missing = wanted.iter().find(|(key, value)| labels.get(*key) != Some(value));
    missing.map(|(key, value)| (key.as_str(), value.as_str()))
}

/// An engine that could be used, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    has_image: bool,
    has_base: bool,
    /// `u32::MAX` for as many as want.
    free_slots: u32,
}

/// Returns the position of the best of several engines; the first of equals (pure).
///
/// An engine without a free slot comes last, because waiting takes as long as the run of somebody else. Then what would have to be
/// fetched and made again counts, then the number of free slots.
fn best(standings: &[Standing]) -> Option<usize> {
    let rank = |at: &usize| {
        let Standing { has_image, has_base, free_slots } = standings[*at];
        (free_slots > 0, has_base, has_image, free_slots, Reverse(*at))
    };
    (0..standings.len()).max_by_key(rank)
}

async fn place(
    several: &[&EngineSettings],
    config: &Config,
    policy: &Policy,
) -> Result<Result<Chosen, NoAnswer>, Failure> {
    let bases = &bases(config);
    let asked = several.iter().map(|settings| survey(settings, config, policy, bases));
    let answers = join_all(asked).await;
    let (mut usable, mut refusals, mut away) = (vec![], vec![], vec![]);
    for (settings, answer) in several.iter().zip(answers) {
        let name = &settings.name;
        match answer {
            Ok(found) => usable.push((name, found)),
            Err(Unfit::Refused(failure)) => refusals.push(failure),
            Err(Unfit::Away(error)) => away.push(format!("{}: {}", error.host, error.why)),
            Err(Unfit::Troubled(error)) => away.push(format!("{name}: {}", error.message)),
            Err(Unfit::Silent) => {
                away.push(format!("{name}: no answer within {} s", PATIENCE.as_secs()));
            }
        }
    }
    let standings: Vec<_> = usable.iter().map(|(_, (_, standing))| *standing).collect();
    let Some(at) = best(&standings) else {
        return match (away.is_empty(), refusals.into_iter().next()) {
            (true, Some(refusal)) => Err(refusal),
            _ => {
                let error = EngineUnavailable {
                    host: "the engines of engines.toml".to_owned(),
                    why: away.join("; "),
                    hint: "start one of them, or correct engines.toml; `act engines` asks all"
                        .to_owned(),
                };
                Ok(Err(NoAnswer { error, of_file: true }))
            }
        };
    };
    for why in away {
        prepare::say_once(&format!("an engine of engines.toml cannot be used now: {why}"));
    }
    let (name, (engine, standing)) = usable.swap_remove(at);
    let why = Some(described(name, standing));
    Ok(Ok(Chosen { engine, why }))
}

/// Says why an engine was chosen (pure).
fn described(name: &str, standing: Standing) -> String {
    let image = match standing {
        Standing { has_base: true, .. } => "it has the image and a warm base",
        Standing { has_image: true, .. } => "it has the image",
        _ => "no engine with a free slot has the image",
    };
    let slots = match standing.free_slots {
        0 => "no engine has a free slot".to_owned(),
        1 => "1 free slot".to_owned(),
        free => format!("{free} free slots"),
    };
    match standing {
        Standing { free_slots: 0, has_image: false, .. } => {
            format!("using the engine {name}: {slots}")
        }
        _ => format!("using the engine {name}: {image}, {slots}"),
    }
}

/// Why an engine is not among those that could be used.
enum Unfit {
    Away(EngineUnavailable),
    Troubled(InfraError),
    Silent,
    Refused(Failure),
}

/// Connects to an engine and asks how it stands.
async fn survey(
    settings: &EngineSettings,
    config: &Config,
    policy: &Policy,
    bases: &[BaseSize],
) -> Result<(Engine, Standing), Unfit> {
    let asked = async {
        let engine = Engine::connect_to_named(settings).await.map_err(Unfit::Away)?;
        fits(&engine, config, policy).map_err(Unfit::Refused)?;
        let able = engine.check_abilities(&config.pipeline);
        able.map_err(|error| Unfit::Refused(prepare::engine_unable(error)))?;
        let standing = standing(&engine, config, bases).await.map_err(Unfit::Troubled)?;
        Ok((engine, standing))
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or(Err(Unfit::Silent))
}

async fn standing(
    engine: &Engine,
    config: &Config,
    bases: &[BaseSize],
) -> Result<Standing, InfraError> {
    // What dead processes left must not count as taken. The run that follows tries again.
    let _ = tokio::time::timeout(REAPING, engine.reap_orphans()).await;
    let (image, free) =
        futures_util::future::join(engine.find_image(&config.pipeline.image), engine.free_slots())
            .await;
    // A name that cannot be looked up is refused when the image is resolved.
    let has_image = matches!(image, Ok(Some(_)));
    let root = config.root.to_string_lossy();
    let is_of_this = |base: &BaseSize| {
        base.repo == root && base.image == config.pipeline.image && base.engine == engine.host()
    };
    Ok(Standing {
        has_image,
        has_base: has_image && bases.iter().any(is_of_this),
        free_slots: free?.unwrap_or(u32::MAX),
    })
}

/// Lists the warm bases of this user. The directory is not created for that, and a place that cannot be read has none.
fn bases(config: &Config) -> Vec<BaseSize> {
    if config.pipeline.warm() == Warm::Off {
        return vec![];
    }
    let path =
        ArtifactDir::locate(std::env::var_os("AGENT_ARTIFACT_DIR"), std::env::var_os("HOME"));
    let Some(path) = path.ok().filter(|path| path.is_dir()) else { return vec![] };
    let artifacts = ArtifactDir::open_for(&path, Some(&config.root));
    artifacts.ok().and_then(|artifacts| artifacts.bases().ok()).unwrap_or_default()
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

/// Returns the failure of a command whose engine, which is in `engines.toml`, does not answer.
fn unreachable(error: EngineUnavailable) -> Failure {
    Failure { exit: Exit::Infra, ..Failure::from(error) }
}

/// Connects to every engine that a run of this user could use: those of `engines.toml`, or the usual one. An engine that does not
/// answer is the inner error.
///
/// # Errors
///
/// The file is refused.
pub async fn every_engine(
    root: Option<&Path>,
) -> Result<Vec<Result<Engine, EngineUnavailable>>, Failure> {
    let engines = Engines::read(root)?;
    if engines.engines.is_empty() {
        return Ok(vec![Engine::connect().await]);
    }
    Ok(join_all(engines.engines.iter().map(Engine::connect_to_named)).await)
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
    pub identity: EngineIdentity,
    /// The labels of the file, and the architecture that the engine reports.
    pub labels: Labels,
    pub machine: Machine,
    /// The slots that are taken, each with its owner.
    pub taken: Vec<String>,
    /// What the engine cannot do, each with the reason.
    pub lacks: Vec<String>,
    /// The administrator's policy lets runs on this engine count.
    pub allowed: bool,
}

/// Asks all engines of `engines.toml` at once, in the order of the file.
///
/// # Errors
///
/// The file or the policy is refused.
pub async fn list_engines() -> Result<EngineList, Failure> {
    let (engines, policy) = read()?;
    let policy = &policy;
    let states = engines.engines.into_iter().map(|settings| async move {
        let answer = ask(&settings, policy).await;
        EngineState { settings, answer }
    });
    Ok(EngineList { file: engines.file, engines: join_all(states).await })
}

/// Asks one engine of `engines.toml`.
///
/// # Errors
///
/// The file or the policy is refused, or the file names no such engine (exit code 2).
pub async fn check_engine(name: &str) -> Result<EngineState, Failure> {
    let (engines, policy) = read()?;
    let settings = named(&engines, name)?.clone();
    let answer = ask(&settings, &policy).await;
    Ok(EngineState { settings, answer })
}

fn read() -> Result<(Engines, Policy), Failure> {
    let root = act_config::find_root(Path::new("."))?;
    Ok((Engines::read(root.as_ref().map(|root| root.path.as_path()))?, Policy::read()?))
}

async fn ask(settings: &EngineSettings, policy: &Policy) -> Result<EngineAnswer, Failure> {
    let engine = Engine::connect_to_named(settings).await.map_err(unreachable)?;
    let failed = |error: InfraError| Failure {
        exit: Exit::Infra,
        ..Failure::refused(error.error_type.as_str(), error.message)
    };
    let taken = engine.taken_slots().await.map_err(failed)?;
    Ok(EngineAnswer {
        identity: engine.identity().clone(),
        labels: engine.labels().clone(),
        machine: engine.machine().await.map_err(failed)?,
        taken: taken.iter().map(ToString::to_string).collect(),
        lacks: engine.lacks(),
        allowed: policy.allows_engine(engine.host(), engine.identity().id.as_deref()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(has_image: bool, has_base: bool, free_slots: u32) -> Standing {
        Standing { has_image, has_base, free_slots }
    }

    // ENGINE-7
    #[test]
    fn image_and_base_come_before_free_slots_and_a_free_slot_before_both() {
        let of = |standings: &[(bool, bool, u32)]| {
            let all: Vec<_> = standings
                .iter()
                .map(|(image, base, free)| standing(*image, *base, *free))
                .collect();
            best(&all)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(false, false, 2), (false, false, 2)]), Some(0), "the first of equals");
        assert_eq!(of(&[(false, false, 2), (false, false, 3)]), Some(1));
        assert_eq!(of(&[(false, false, 9), (true, false, 1)]), Some(1));
        assert_eq!(of(&[(true, false, 9), (true, true, 1)]), Some(1));
        assert_eq!(of(&[(true, true, 0), (false, false, 1)]), Some(1));
        assert_eq!(of(&[(false, false, 0), (true, false, 0)]), Some(1), "nothing is free");
    }

    // ENGINE-7
    #[test]
    fn the_choice_is_said_with_its_reason() {
        assert_eq!(
            described("lab", standing(true, true, 1)),
            "using the engine lab: it has the image and a warm base, 1 free slot"
        );
        assert_eq!(
            described("lab", standing(false, false, 2)),
            "using the engine lab: no engine with a free slot has the image, 2 free slots"
        );
        assert_eq!(
            described("lab", standing(true, false, 0)),
            "using the engine lab: it has the image, no engine has a free slot"
        );
        assert_eq!(
            described("lab", standing(false, false, 0)),
            "using the engine lab: no engine has a free slot"
        );
    }

    // ENGINE-7
    #[test]
    fn an_engine_has_every_label_that_is_asked_for() {
        let labels = |all: &[(&str, &str)]| -> Labels {
            all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let has = labels(&[("arch", "arm64"), ("gpu", "none")]);
        assert_eq!(missing_label(&labels(&[]), &has), None);
        assert_eq!(missing_label(&labels(&[("arch", "arm64")]), &has), None);
        assert_eq!(missing_label(&labels(&[("arch", "amd64")]), &has), Some(("arch", "amd64")));
        assert_eq!(missing_label(&labels(&[("ssd", "yes")]), &has), Some(("ssd", "yes")));
    }
}
