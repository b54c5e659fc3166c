//! Puts an Editor together from real parts: components with their grants, the model, the gate.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Mode;
use super::component_loader::{self, ComponentLoader, Incomplete, failed};
use super::component_tools::component_tools;
use super::preflight::Ready;
use act_agent::context::NotesWriter;
use act_agent::editor::{Aim, Editor, TaskInput};
use act_agent::gate_inputs::{MAX_SCRIPT, has_tests};
use act_agent::scout::Grounded;
use act_audit::Audit;
use act_component::{Kind, LoadedComponent, builtin};
use act_core::event::Events;
use act_core::verification::{ComponentDigest, NoVerifier, Verifier};
use act_model::TokenLedger;
use act_verifier::{DockerVerifier, Downloads, Engine, ResolvedImage, VerificationConfig};
use act_workspace::{
    OpenRoot, Overlay, PathGlobs, RepoWriter, Slice, is_binary, read, tree_digest,
};

/// How much of a log the model gets at once.
const LOG: u64 = 16 * 1024;

/// The parts that an Editor is built from.
pub(super) struct EditorParts {
    pub(super) ready: Ready,
    /// Of the repository, held since its lock was taken.
    pub(super) held: OpenRoot,
    pub(super) brief: TaskInput,
    pub(super) notes: Option<NotesWriter>,
    /// What judges; none in a dry run.
    pub(super) gate: Option<(Engine, ResolvedImage)>,
    pub(super) audit: Audit,
    pub(super) ledger: TokenLedger,
    pub(super) events: Events,
    pub(super) cancel: CancellationToken,
}

/// The Editor, and the writer of its tools.
pub(super) struct AssembledEditor {
    pub(super) editor: Editor,
    pub(super) writer: Arc<RepoWriter>,
    /// Of a dry run.
    pub(super) overlay: Option<Overlay>,
}

/// May take seconds, when components are compiled for the first time; so not on the runtime's own threads.
pub(super) fn assemble(work: EditorParts) -> Result<AssembledEditor, Incomplete> {
    let EditorParts { ready, held, brief, notes, gate, audit, ledger, events, cancel } = work;
    let config = &ready.config;
    let root = &config.root;
    let model = component_loader::model(&ready.access, &ledger, &events)?;
    let overlay = (ready.mode == Mode::DryRun).then(Overlay::default);
    let component_loader = ComponentLoader {
        host: ready.host.clone().below(ready.ceiling.clone()).audited(audit.clone()),
        members: &ready.members,
        model: Some(Arc::clone(&model)),
        view: component_loader::view(root)?.over(overlay.as_ref()),
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
    let mut components: Vec<_> = scouts.iter().map(|scout| digest(scout)).collect();
    components.push(digest(&tools));
    components.extend(added.iter().map(|scout| digest(scout)));
    components.extend(more_tools.iter().map(|tool| digest(tool)));

    let rules = ready.write_rules().map_err(failed("verification.include"))?;
    let writer = match &overlay {
        None => RepoWriter::open(root, rules),
        Some(overlay) => RepoWriter::open_dry(root, rules, overlay.clone()),
    };
    let writer = Arc::new(writer.map_err(failed("the repository cannot be opened"))?);
    // As Scouts see it: what others brought along is not what the project is tested by.
    let (view, package) = (component_loader.view.clone(), config.monorepo_package.clone());
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
    let verifier: Arc<dyn Verifier> = match gate {
        None => Arc::new(NoVerifier),
        Some((engine, image)) => Arc::new(DockerVerifier {
            downloads: Downloads::Shared,
            engine,
            image,
            artifacts: Arc::clone(&ready.artifacts),
            repo: held.clone(),
            config: Arc::new(VerificationConfig::of(config)),
            task_id: Some(brief.task_id.clone()),
            components,
            audit: audit.clone(),
            events: events.clone(),
        }),
    };
    let (tree, artifacts) = (root.clone(), Arc::clone(&ready.artifacts));
    let stays = held.clone();
    let scripts = writer.view().clone();
    let editor = Editor {
        input: brief,
        model,
        ledger: ledger.clone(),
        scouts,
        check: Arc::new(check),
        tools,
        writer: Arc::clone(&writer),
        verifier,
        tree_digest: Arc::new(move || tree_digest(&tree, &include).map_err(std::io::Error::other)),
        moved: Arc::new(move || stays.check_not_moved().err().map(|moved| moved.to_string())),
        has_tests: Arc::new(move || has_tests(&view, package.as_deref())),
        read_log: Box::new(move |run_id, step| {
            let log = artifacts.read_log(run_id, step, LOG).map_err(std::io::Error::other)?;
            Ok(match log.left_out {
                0 => log.text,
                bytes => format!("[{bytes} bytes before this are left out]\n{}", log.text),
            })
        }),
        steps: config.pipeline.steps.clone(),
        read_script: Box::new(move |path| {
            let want =
                Slice { path: path.to_owned(), length: Some(MAX_SCRIPT), ..Slice::default() };
            let chunk =
                read(&scripts, &want, None).ok().filter(|chunk| !is_binary(&chunk.bytes))?;
            Some((chunk.path, String::from_utf8_lossy(&chunk.bytes).into_owned()))
        }),
        audit,
        notes,
        aim: if overlay.is_some() { Aim::Proposal } else { Aim::Green },
        draft: None,
        baseline: ready.mode == Mode::Run { baseline: true },
        events: events.clone(),
        cancel: cancel.clone(),
    };
    Ok(AssembledEditor { editor, writer, overlay })
}

fn digest(component: &LoadedComponent) -> ComponentDigest {
    ComponentDigest { name: component.manifest.name.clone(), sha256: component.sha256.clone() }
}
