//! The repository and its `agent.yaml`.

use std::path::{Path, PathBuf};

use super::{Check, Config, Root, config};
use crate::task;
use crate::workspace::AgentDir;

pub(super) fn check(start: &Path) -> (Option<PathBuf>, Option<Config>, Vec<Check>) {
    const NAME: &str = "repository";
    let root = match config::find_root(start) {
        Ok(root) => root.map(|Root { path, .. }| path),
        Err(error) => {
            return (None, None, vec![Check::red(NAME, error.to_string(), error.hint())]);
        }
    };
    match config::load(start) {
        Ok(config) => {
            let steps: Vec<_> =
                config.pipeline.steps.iter().map(|step| step.name.as_str()).collect();
            let message = format!("{}: {}", config.root.display(), steps.join(", "));
            let mut checks = vec![Check::ok(NAME, message)];
            // Said only when it is in the way: the first task makes it.
            if let Err(error) = AgentDir::check(&config.root) {
                let fix = "remove it or give it another name";
                checks.push(Check::red("agent_dir", error.to_string(), fix));
            }
            if let Err(refused) = task::granted(config.clone()) {
                let fix = refused.hint.unwrap_or_default();
                checks.push(Check::red("grants", refused.message, fix));
            }
            (root, Some(config), checks)
        }
        Err(error) => (root, None, vec![Check::red(NAME, error.to_string(), error.hint())]),
    }
}
