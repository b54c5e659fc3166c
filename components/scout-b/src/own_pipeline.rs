//! Reads the user's own verification pipeline in `agent.yaml`.

use crate::draft::{Offer, Rank};
use crate::facts::{Command, Kind, Pipeline, PipelineStep};
use crate::located::Node;
use crate::tree::{Tree, location};
use act_kit::reports::commands::{not_a_test, parse_line};

/// The pipeline in `agent.yaml`.
#[derive(Debug, Default)]
pub(crate) struct OwnPipeline {
    pub(crate) image: Option<String>,
    /// The directory in which the steps run.
    pub(crate) root: String,
    pub(crate) steps: Option<Pipeline>,
}

const PATH: &str = "agent.yaml";
/// The first line of a file that `act init` wrote. An editor may have put a byte order mark before it.
const BY_INIT: &str = "# written by act init";
/// Maximum number of steps that are listed; more are no pipeline that a reader could follow.
const STEPS: usize = 64;
/// Maximum number of bytes of a step's command in the facts.
const COMMAND: usize = 4_000;

/// Reads the pipeline. It has no steps if there is no `agent.yaml` or it cannot be parsed.
pub(crate) fn read(tree: &Tree<'_>) -> OwnPipeline {
    let Some(node) = tree.has(PATH).then(|| tree.manifest(PATH)).flatten() else {
        return OwnPipeline::default();
    };
    let text = |path: &[&str]| node.text_at(path).map(|(text, _)| text.to_owned());
    let listed = |key| node.get(&["verification", key]).map_or(&[][..], Node::items);
    let steps = listed("prepare").iter().chain(listed("steps"));
    let step = |step: &Node| {
        let (command, line) = step.text_at(&["command"])?;
        let name = step.text_at(&["name"]).map_or("", |(name, _)| name).to_owned();
        let command = act_kit::quoting::cut(command.trim(), COMMAND);
        Some(PipelineStep { name, command, source: location(PATH, line) })
    };
    let steps = steps.filter_map(step).take(STEPS).collect::<Vec<_>>();
    let by_init = tree
        .text(PATH)
        .is_some_and(|text| text.trim_start_matches('\u{feff}').starts_with(BY_INIT));
    OwnPipeline {
        // An image that was suggested once is no reason to suggest it again.
        image: text(&["verification", "container_image"]).filter(|_| !by_init),
        root: text(&["monorepo", "package"]).unwrap_or_default().trim_matches('/').to_owned(),
        steps: (!steps.is_empty()).then_some(Pipeline { by_init, steps }),
    }
}

impl OwnPipeline {
    /// Returns the steps as commands: what they run decides about their kind, else their names. Of several steps for one kind
    /// the first counts. Where no step is known to test, the last one that may test does.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        let Some(pipeline) = self.steps.as_ref().filter(|pipeline| !pipeline.by_init) else {
            return vec![];
        };
        let kinds = pipeline.steps.iter().map(|step| (kind(step), step)).collect::<Vec<_>>();
        let unknown = |(kind, step): &&(Option<Kind>, &PipelineStep)| {
            kind.is_none() && not_a_test(&step.command, &|_| None).is_none()
        };
        let tested = kinds.iter().any(|(kind, _)| kind.is_some_and(Kind::tests));
        let last = kinds.iter().rev().find(unknown).filter(|_| !tested);
        let last = last.map(|(_, step)| (Kind::Test, *step));
        let known = kinds.iter().filter_map(|(kind, step)| Some(((*kind)?, *step)));
        let offer = |(kind, step): (Kind, &PipelineStep)| Offer {
            kind,
            rank: Rank::OwnPipeline,
            weight: 0,
            command: Command {
                command: step.command.clone(),
                source: step.source.clone(),
                remark: None,
            },
        };
        known.chain(last).map(offer).collect()
    }
}

/// Returns the purpose of a step. A test is one whatever is installed or built before it in the same step.
fn kind(step: &PipelineStep) -> Option<Kind> {
    let lines = step.command.replace("\\\n", " ");
    let kinds = lines.lines().flat_map(parse_line).filter_map(|parsed| parsed.kind);
    let kinds = kinds.collect::<Vec<_>>();
    let by_command = kinds.iter().rev().find(|kind| kind.tests()).or(kinds.last());
    let by_name = Kind::of_task(&step.name);
    match (by_command, by_name) {
        // A step that is called a test may install or build by the way.
        (Some(command), Some(name)) if name.tests() && !command.tests() => Some(name),
        (Some(command), _) => Some(*command),
        (None, name) => name,
    }
}
