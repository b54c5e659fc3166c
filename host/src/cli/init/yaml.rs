//! The text of the `agent.yaml` that `act init` writes.

use super::gate::{Gate, OtherProject, Step};

/// The first line. Scout B takes no command of a file that begins with it for evidence, because it would be its own.
const FIRST: &str = "# written by act init";

/// The page about the keys, in the published sources if the build knows their address.
const PAGE: &str = "specs/configuration.md";

/// The keys that `agent.yaml` may have beside those that are written, with their defaults or an example.
const IN_VERIFICATION: &str = "\
\x20 # workspace: auto      # the view of the steps: copy, overlay (for a large tree) or readonly
  # include: []          # ignored files that the steps need, as globs: [\"data/*.csv\"]
  # source_writes: fail  # warn: a step may change files of its copy of the repository
  # prepare_inputs: []   # the files that decide what `prepare` makes, as globs; without them every committed file does
  # warm: attempts       # off: every run executes `prepare`, too
  # network: on          # off: no step has network; a step may have its own `network`
  # limits: {cpus: 4, memory_mb: 8192, pids: 2048}
  # ca_bundle: /etc/ssl/certs/ca-certificates.crt  # certificates that the steps trust, as for a proxy
";
const FAILS: &str =
    "  # source_writes: fail  # warn: a step may change files of its copy of the repository\n";
const WARNS: &str = "  # make compiles beside the sources, in places that git does not ignore.\n  source_writes: warn\n";
/// The beginning of the steps that install, fetch and build.
const PREPARE: &str = "\
\x20 # Preparation: these steps install, fetch and build what the tests need. `act` runs them once on the last commit, and\n\
\x20 # the attempts of a task begin with the result; before a task succeeds, everything runs once more from nothing.\n\
\x20 prepare:\n";
const USER: &str =
    "  # user: caller         # root: the steps may install packages of the system\n";
const PACKAGE: &str =
    "# monorepo: {package: packages/api}  # the directory in which the steps run\n";
const GITIGNORE: &str =
    "# gitignore: true    # false: tasks add no line to .gitignore to hide act's notes\n";
const REST: &str = "\
# limits: {max_tokens: 3000000, max_cost: 2.50}  # what one task may spend: tokens, dollars
# agents_md: true      # false: the model does not get AGENTS.md or CLAUDE.md
# components: []       # components that the repository asks for: {name, path, sha256, kind}
";
/// The time limit of a step of a compiled project in milliseconds: 30 minutes. A first build fetches and compiles all
/// dependencies, which takes longer than the default of five.
const SLOW: u64 = 1_800_000;

/// Returns the text of `agent.yaml`.
pub(super) fn text(gate: &Gate, no_gitignore: bool) -> String {
    let page = match env!("CARGO_PKG_REPOSITORY") {
        "" => format!("{PAGE}, in the sources of act"),
        repository => format!("{repository}/blob/main/{PAGE}"),
    };
    let mut out = format!(
        "{FIRST}\n\
         #\n\
         # A task is done when every step ends with exit code 0, in a fresh container of the image. `act init --check` runs\n\
         # the steps once. Every key: {page}\n\
         verification:\n\
         \x20 # For {}; check the version.\n\
         \x20 container_image: {}\n",
        gate.kind,
        quoted(&gate.image),
    );
    match gate.as_root {
        true => out.push_str(
            "  # A step below installs packages of the system. You allow it with `user = \"root\"` under [verifier] in your\n  \
             # config.toml.\n  user: root\n",
        ),
        false => out.push_str(USER),
    }
    for note in &gate.notes {
        out.push_str(&format!("  # Note: {}\n", one_line(note)));
    }
    out.push_str("  # Steps see a copy of the working tree, or an overlay if it is large; they cannot change the repository.\n");
    let (prepare, steps): (Vec<_>, Vec<_>) = gate.steps.iter().partition(|step| step.prepares);
    if !prepare.is_empty() {
        out.push_str(PREPARE);
        prepare.into_iter().for_each(|step| out.push_str(&entry(step)));
    }
    out.push_str("  # Tests.\n  steps:\n");
    steps.into_iter().for_each(|step| out.push_str(&entry(step)));
    match gate.writes_beside {
        // A step that writes to its copy of the source fails otherwise.
        true => out.push_str(&IN_VERIFICATION.replace(FAILS, WARNS)),
        false => out.push_str(IN_VERIFICATION),
    }
    if !gate.others.is_empty() {
        out.push_str(
            "# Other projects found here. They are verified only if a step above runs them:\n",
        );
        for OtherProject { root, test } in &gate.others {
            out.push_str(&format!("#   {}: {}\n", one_line(root), one_line(test)));
        }
    }
    match &gate.package {
        Some(package) => out.push_str(&format!(
            "# The steps run in this directory.\nmonorepo: {{package: {}}}\n",
            quoted(package)
        )),
        None => out.push_str(PACKAGE),
    }
    let (mark, limit) = if gate.slow { ("", SLOW) } else { ("# ", 300_000) };
    out.push_str(&format!(
        "{mark}timeouts:              # milliseconds\n\
         {mark}  verification_step: {limit}\n\
         #   scout_query: 60000\n\
         #   model_first_byte: 120000\n\
         #   model_silence: 60000\n\
         #   model_total: 1200000\n"
    ));
    match no_gitignore {
        true => out.push_str(
            "# Tasks add no line to .gitignore; agent/.gitignore hides act's notes.\ngitignore: false\n",
        ),
        false => out.push_str(GITIGNORE),
    }
    out.push_str(REST);
    out
}

fn entry(step: &Step) -> String {
    let Step { name, command, why, network, .. } = step;
    let network = match network {
        None => "",
        Some(true) => ", network: on",
        Some(false) => ", network: off",
    };
    let (why, name, command) = (one_line(why), quoted(name), quoted(command));
    format!("    # {why}\n    - {{name: {name}, command: {command}{network}}}\n")
}

/// Returns a text as a string of YAML: a string of JSON is one.
fn quoted(text: &str) -> String {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase());
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// Replaces control characters, because a line feed would end the YAML comment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
