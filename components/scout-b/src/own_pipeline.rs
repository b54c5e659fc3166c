//! Reads the user's own verification pipeline in `agent.yaml`.

use crate::draft::{Offer, Rank};
use crate::facts::{Kind, Location};
use crate::located::Node;
use crate::shell::parse_line;
use crate::tree::{Tree, location};

/// The pipeline in `agent.yaml`, which the user wrote.
#[derive(Debug, Default)]
pub(crate) struct OwnPipeline {
    pub(crate) image: Option<String>,
    /// The directory in which the steps run.
    pub(crate) root: String,
    /// Name, command and location of each step. Commands over several lines are left out.
    pub(crate) steps: Vec<(String, String, Location)>,
}

const PATH: &str = "agent.yaml";

/// Reads the pipeline. It has no steps if there is no `agent.yaml` or it cannot be parsed.
pub(crate) fn read(tree: &Tree<'_>) -> OwnPipeline {
    let Some(node) = tree.has(PATH).then(|| tree.manifest(PATH)).flatten() else {
        return OwnPipeline::default();
    };
    let text = |path: &[&str]| node.text_at(path).map(|(text, _)| text.to_owned());
    let steps = node.get(&["verification", "steps"]).map_or(&[][..], Node::items);
    let step = |step: &Node| {
        let (command, line) = step.text_at(&["command"])?;
        let name = step.text_at(&["name"]).map_or("", |(name, _)| name);
        let single = !command.trim().contains('\n');
        single.then(|| (name.to_owned(), command.trim().to_owned(), location(PATH, line)))
    };
    OwnPipeline {
        image: text(&["verification", "container_image"]),
        root: text(&["monorepo", "package"]).unwrap_or_default().trim_matches('/').to_owned(),
        steps: steps.iter().filter_map(step).collect(),
    }
}

impl OwnPipeline {
    /// Offers the steps as commands, by what they run or else by their names. Steps that only fit the pipeline's own container
    /// are left out.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        let fitting = self.steps.iter().filter(|(_, command, _)| {
            !command.contains("/artifacts/") && !command.contains("$TMPDIR")
        });
        let offer = |(name, command, source): &(String, String, Location)| {
            let kind = parse_line(command).into_iter().rev().find_map(|parsed| parsed.kind);
            let kind = kind.or_else(|| Kind::of_task(name))?;
            Some(Offer {
                kind,
                rank: Rank::OwnPipeline,
                command: command.clone(),
                source: source.clone(),
            })
        };
        fitting.filter_map(offer).collect()
    }
}
