//! Checks the repository and its `agent.yaml`.

use std::path::{Path, PathBuf};

use super::{Check, Config, Root};
use crate::task;
use act_workspace::AgentDir;

pub(super) fn check(start: &Path) -> (Option<PathBuf>, Option<Config>, Vec<Check>) {
    const NAME: &str = "repository";
    let root = match act_config::find_root(start) {
        Ok(root) => root.map(|Root { path, .. }| path),
        Err(error) => {
            return (None, None, vec![Check::red(NAME, error.to_string(), error.hint())]);
        }
    };
    match act_config::load(start) {
        Ok(config) => {
            let steps: Vec<_> =
                config.pipeline.steps.iter().map(|step| step.name.as_str()).collect();
            let message = format!("{}: {}", config.root.display(), steps.join(", "));
            let mut checks = vec![Check::ok(NAME, message)];
            // Reported only when it is a problem: the first task creates the directory.
            if let Err(error) = AgentDir::check(&config.root) {
                checks.push(Check::red("agent_dir", error.to_string(), error.hint()));
            }
            let looked = [
                ("grants", task::granted(config.clone())),
                ("ca_bundle", task::ca_bundle(&config)),
            ];
            checks.extend(looked.into_iter().filter_map(|(name, looked)| {
                let refused = looked.err()?;
                Some(Check::red(name, refused.message, refused.hint.unwrap_or_default()))
            }));
            (root, Some(config), checks)
        }
        Err(error) => (root, None, vec![Check::red(NAME, error.to_string(), error.hint())]),
    }
}
