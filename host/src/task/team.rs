//! Puts an Editor together from real parts: components with their grants, the model, the gate.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::preflight::Ready;
use crate::artifacts::ComponentDigest;
use crate::component::builtin::{self, Builtin};
use crate::component::{ComponentHost, Grant, LoadedComponent, Services};
use crate::context::Notebook;
use crate::editor::{Brief, ComponentHands, Editor};
use crate::event::Events;
use crate::model::{self, Deadlines, TokenLedger};
use crate::scout::{ComponentScout, Grounded, Scout};
use crate::verifier::{DockerVerifier, Gate, ResolvedImage};
use crate::workspace::{AgentDir, PathGlobs, Profile, RepoView, RepoWriter, tree_digest};

/// How much of a log the model gets at once.
const LOG: u64 = 16 * 1024;

/// What could not be put together; the machine's trouble, for people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Incomplete(String);

fn failed<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Incomplete {
    let what = what.to_owned();
    move |error| Incomplete(format!("{what}: {error}"))
}

/// What the team works for.
pub(super) struct Work<'a> {
    pub(super) ready: &'a Ready,
    pub(super) brief: Brief,
    pub(super) notes: Notebook<AgentDir>,
    pub(super) image: ResolvedImage,
    pub(super) ledger: &'a TokenLedger,
    pub(super) events: &'a Events,
    pub(super) cancel: &'a CancellationToken,
}

pub(super) fn assemble(work: Work<'_>) -> Result<Editor, Incomplete> {
    let Work { ready, brief, notes, image, ledger, events, cancel } = work;
    let config = &ready.config;
    let root = &config.root;
    let access = ready.access.clone();
    let model = model::connect(access, Deadlines::default(), events.clone(), ledger.clone())
        .map_err(failed("the model client cannot be made"))?;

    let host = ComponentHost::new(ready.cache.as_deref());
    let load = |builtin: Builtin, grant: Grant| -> Result<LoadedComponent, Incomplete> {
        host.load(builtin.bytes, grant, events).map_err(failed("a component cannot be loaded"))
    };
    let wall = config.scout_timeout;
    let grant = Grant::builtin_scout().within(wall);
    let scouts = [load(builtin::SCOUT_A, grant.clone())?, load(builtin::SCOUT_B, grant)?];
    let tools = load(builtin::FILE_TOOLS, Grant::builtin_tool())?;
    let components: Vec<_> = scouts.iter().chain([&tools]).map(digest).collect();

    let unopened = "the repository cannot be opened";
    let view = RepoView::open(root, Profile::Scout).map_err(failed(unopened))?;
    let writer = RepoWriter::open(root, ready.rules.clone()).map_err(failed(unopened))?;
    let hands = ComponentHands::new(tools, Arc::new(writer), events.clone());
    let scouts = scouts.into_iter().map(|component| -> Arc<dyn Scout> {
        let name = component.manifest.name.clone();
        let services = Services {
            view: Some(view.clone()),
            versions: None,
            writer: None,
            model: Some((Arc::clone(&model), name.clone())),
            attempt: 1,
            events: events.clone(),
        };
        Arc::new(ComponentScout::new(&name, component, services, wall))
    });
    let scouts = scouts.collect();

    let include =
        PathGlobs::new(&config.pipeline.include).map_err(failed("verification.include"))?;
    let verifier = DockerVerifier {
        engine: ready.engine.clone(),
        image,
        artifacts: Arc::clone(&ready.artifacts),
        repo: root.clone(),
        gate: Arc::new(Gate::of(config)),
        task_id: Some(brief.task_id.clone()),
        components,
        events: events.clone(),
    };
    let (tree, artifacts) = (root.clone(), Arc::clone(&ready.artifacts));
    Ok(Editor {
        brief,
        model: Arc::clone(&model),
        scouts,
        check: Arc::new(Grounded::new(view)),
        hands: Arc::new(hands),
        verifier: Arc::new(verifier),
        tree_digest: Arc::new(move || tree_digest(&tree, &include).map_err(std::io::Error::other)),
        read_log: Box::new(move |run_id, step| {
            let log = artifacts.read_log(run_id, step, LOG).map_err(std::io::Error::other)?;
            Ok(match log.left_out {
                0 => log.text,
                bytes => format!("[{bytes} bytes before this are left out]\n{}", log.text),
            })
        }),
        gate_commands: config.pipeline.steps.iter().map(|step| step.command.clone()).collect(),
        notes,
        events: events.clone(),
        cancel: cancel.clone(),
    })
}

fn digest(component: &LoadedComponent) -> ComponentDigest {
    ComponentDigest { name: component.manifest.name.clone(), sha256: component.sha256.clone() }
}
