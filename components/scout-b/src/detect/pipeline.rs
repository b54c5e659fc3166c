//! The user's own pipeline in `agent.yaml`: the last word on how tests are run where no manifest has one.

use super::fields::unquoted;
use super::{Detected, Framework, Manifests};

/// Fills a missing test command from the steps, and says what the gate runs.
pub(super) fn complete(manifests: &Manifests, detected: &mut Detected) {
    let Some(text) = manifests.texts.get("agent.yaml") else { return };
    let steps = steps(text);
    if steps.is_empty() {
        return;
    }
    let shown =
        steps.iter().map(|(name, command)| format!("{name}: `{command}`")).collect::<Vec<_>>();
    detected.notes.push(format!("verification runs {}", shown.join(", then ")));
    if detected.test.is_none() {
        let test = steps.iter().find(|(name, _)| name.contains("test")).or(steps.last());
        detected.test = test.map(|(_, command)| command.clone());
        if let Some(framework) = detected.test.as_deref().and_then(framework) {
            detected.framework = framework;
        }
    }
}

fn framework(command: &str) -> Option<Framework> {
    let known = [
        ("pytest", Framework::Pytest),
        ("cargo test", Framework::CargoTest),
        ("go test", Framework::GoTest),
        ("jest", Framework::Jest),
        ("mocha", Framework::Mocha),
    ];
    known.into_iter().find(|(word, _)| command.contains(word)).map(|(_, framework)| framework)
}

/// Name and command of each step, in block or flow style. Scalars over several lines are left out.
fn steps(text: &str) -> Vec<(String, String)> {
    let mut steps = Vec::<(String, String)>::new();
    let below = text.lines().skip_while(|line| line.trim() != "steps:").skip(1);
    for line in below.take_while(|line| line.starts_with([' ', '-', '#']) || line.trim().is_empty())
    {
        let line = line.trim();
        let item = line.strip_prefix("- ").map_or(line, str::trim);
        if item != line {
            steps.push(Default::default());
        }
        let Some((name, command)) = steps.last_mut() else { continue };
        let flow = item.strip_prefix('{').and_then(|item| item.strip_suffix('}'));
        for field in flow.map_or_else(|| vec![item], fields) {
            match field.split_once(':') {
                Some(("name", value)) => *name = unquoted(value).to_owned(),
                Some(("command", value)) if !value.trim().starts_with(['|', '>']) => {
                    *command = unquoted(value).to_owned();
                }
                _ => {}
            }
        }
    }
    steps.retain(|(_, command)| !command.is_empty());
    steps
}

/// The fields of a flow mapping, split at commas outside quotes.
fn fields(flow: &str) -> Vec<&str> {
    let mut quote = None;
    let parts = flow.split(move |c: char| match (quote, c) {
        (None, ',') => true,
        (None, '"' | '\'') => {
            quote = Some(c);
            false
        }
        (Some(open), close) if open == close => {
            quote = None;
            false
        }
        _ => false,
    });
    parts.map(str::trim).collect()
}
