//! Checks the repository and its `agent.yaml`.

use std::path::{Path, PathBuf};

use super::{Check, Config, Root};
use crate::task;
use act_workspace::{AgentDir, NOTES_DIRS, hidden_by_unanchored_line};

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
            checks.extend(notes(&config));
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

/// The directory of act's notes, where it is not the usual one or cannot be used; and what the line that act 0.1.0 wrote
/// hides from git and from the tested tree.
fn notes(config: &Config) -> Vec<Check> {
    const NAME: &str = "agent_dir";
    let usual = NOTES_DIRS[0];
    let mut checks = match AgentDir::check(&config.root) {
        Ok(name) if name == usual => vec![],
        Ok(name) => vec![Check::note(
            NAME,
            format!("{usual}/ is yours, so act keeps its notes in {name}/"),
            format!("to have them in {usual}/, rename yours"),
        )],
        Err(error) => vec![Check::red(NAME, error.to_string(), error.hint())],
    };
    let hidden = hidden_by_unanchored_line(&config.root);
    if let Some(first) = hidden.first() {
        let more = hidden.len() - 1;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        checks.push(Check::note(
            NAME,
            format!(
                "the line `{usual}/` in .gitignore hides {first}/{more} from git and from the tested tree"
            ),
            format!("write `/{usual}/` instead: act's notes lie in the root alone"),
        ));
    }
    checks
}
