//! `act engines`: the container engines of `engines.toml`, and what they answer.

use clap::Subcommand;
use serde::Serialize;

use super::{answer, block_on};
use crate::output::{Line, Output, Tone};
use act_config::{EnginePlace, Labels};
use act_core::Failure;
use act_core::exit::Exit;
use act_task::{self as task, EngineState};

const AFTER_HELP: &str = "\
Examples:
  act engines
  act engines check lab
  act verify --engine lab

Exit codes:
  0 done, 1 engines.toml is refused";

const CHECK_HELP: &str = "\
Examples:
  act engines check lab
  act engines check lab --json | jq .taken

Exit codes:
  0 the engine answers, 1 engines.toml is refused, 2 it names no such engine,
  4 the engine does not answer";

const RBAC_HELP: &str = "\
Examples:
  act engines rbac act | kubectl apply -f -
  kubectl create rolebinding act --role act --user me -n act

Exit codes:
  0 done, 2 this is no name of a namespace";

const IMAGE_HELP: &str = "\
Examples:
  act engines image act-loader.tar
  act engines image --push registry.example/act-loader:1

Exit codes:
  0 done, 1 the file exists or cannot be written, or the registry refuses the image";

/// Show the container engines in engines.toml
///
/// The file lies beside config.toml and names engines for `act run --engine NAME` and `act verify --engine NAME`, each with a
/// number of runs at once. Several people may share an engine: a run waits until one of its slots is free.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Engines {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the engines, with what they answer
    #[command(
        after_long_help = "Examples:\n  act engines list\n  act engines list --json | jq .engines"
    )]
    List,
    /// Ask one engine whether runs can use it
    #[command(after_long_help = CHECK_HELP)]
    Check {
        /// Name of the engine in engines.toml
        name: String,
    },
    /// Print what a namespace of Kubernetes needs for runs: its Pod security, a role and a quota
    #[command(
        after_long_help = RBAC_HELP
    )]
    Rbac {
        /// Name of the namespace
        #[arg(value_parser = namespace)]
        namespace: String,
    },
    /// Write the image that Pods of Kubernetes get beside the image of the steps, or push it to a registry
    #[command(
        after_long_help = IMAGE_HELP
    )]
    Image {
        /// The file to write, an archive in the layout of OCI
        #[arg(required_unless_present = "push")]
        file: Option<std::path::PathBuf>,
        /// Push the image to this tag, with the settings and credentials of `act components push`
        #[arg(long, value_name = "HOST/NAME:TAG")]
        push: Option<String>,
    },
}

/// Checks the name of a namespace by the rules of Kubernetes.
fn namespace(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edge = |c: Option<char>| c.is_some_and(|c| c != '-');
    let (first, last) = (text.chars().next(), text.chars().next_back());
    match text.len() <= 63 && text.chars().all(fits) && edge(first) && edge(last) {
        true => Ok(text.to_owned()),
        false => Err("a namespace has 1 to 63 of the characters a-z, 0-9 and `-`, and `-` neither first nor last".to_owned()),
    }
}

impl Engines {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        match self.action {
            None | Some(Action::List) => {
                let list = block_on(task::list_engines())??;
                let document = Listed {
                    file: list.file.map(|file| file.to_string_lossy().into_owned()),
                    engines: list.engines.iter().map(Engine::of).collect(),
                };
                let last = match (&document.file, document.engines.len()) {
                    (None, _) => {
                        "no engines.toml, so commands use the engine of DOCKER_HOST or of this machine".to_owned()
                    }
                    (Some(file), count) => format!("{count} in {file}"),
                };
                let lines = || {
                    let engines = document.engines.iter().flat_map(Engine::lines);
                    engines.chain([Line::plain(&last)]).collect()
                };
                answer(output, &Document::Listed(&document), lines);
                Ok(Exit::Ok)
            }
            Some(Action::Check { name }) => {
                let state = block_on(task::check_engine(&name))??;
                let engine = Engine::of(&state);
                answer(output, &Document::Checked(&engine), || engine.lines());
                Ok(if state.answer.is_ok() { Exit::Ok } else { Exit::Infra })
            }
            Some(Action::Rbac { namespace }) => {
                let list = serde_json::json!({
                    "apiVersion": "v1", "kind": "List", "items": act_verifier::rights(&namespace),
                });
                // kubectl reads JSON as well as YAML.
                for line in format!("{list:#}").lines() {
                    output.result_line(&Line::plain(line));
                }
                Ok(Exit::Ok)
            }
            Some(Action::Image { file, push }) => {
                let image = act_verifier::LoaderImage::new()
                    .map_err(|error| Failure::refused("image_missing", error.to_string()))?;
                // First, because a push may be repeated and a file is not replaced.
                if let Some(reference) = push {
                    let start = std::path::Path::new(".");
                    let stored =
                        block_on(task::capabilities::push_loader(&image, &reference, start))??;
                    output.result_line(&Line::plain(format!("loader = \"{stored}\"")));
                }
                if let Some(file) = file {
                    // A file that exists is not replaced, because nothing says that it is an image.
                    let written = std::fs::File::create_new(&file).and_then(|to| image.write(to));
                    written.map_err(|error| {
                        let message = format!("{}: {error}", file.display());
                        Failure::refused("image_not_written", message)
                            .hint("name a new file in a directory that exists")
                    })?;
                    output.result_line(&Line::plain(format!(
                        "{} has the image {}; copy it to a registry of the cluster, and name it there as `loader` in \
                         engines.toml: NAME@{}",
                        file.display(),
                        image.digest,
                        image.digest
                    )));
                }
                Ok(Exit::Ok)
            }
        }
    }
}

/// The document of `act engines --json`: all engines, or the one that was checked.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Document<'a> {
    Listed(&'a Listed),
    Checked(&'a Engine),
}

impl act_core::Document for Document<'_> {
    const NAME: &'static str = "engines";
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Listed {
    /// Null if there is no engines.toml.
    file: Option<String>,
    engines: Vec<Engine>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Engine {
    name: String,
    kind: String,
    /// The address in engines.toml, or `context NAME`.
    place: String,
    /// Number of runs at once.
    slots: u32,
    /// What the engine answers. Null if it does not answer.
    answer: Option<Answer>,
    /// Why the engine cannot be used. Null if it answers.
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Answer {
    version: String,
    cpus: u64,
    memory_bytes: u64,
    /// The slots that are taken, each with its owner.
    taken: Vec<String>,
    /// What the engine cannot do. A run that needs it is refused.
    lacks: Vec<String>,
    /// The id of the engine, which `id` in engines.toml and `engines` in policy.toml may name. Null where it has none that lasts.
    id: Option<String>,
    /// What `verification.engine` in agent.yaml is compared with.
    labels: Labels,
    /// The administrator's policy lets runs on this engine count.
    allowed: bool,
}

impl Engine {
    fn of(state: &EngineState) -> Self {
        let EngineState { settings, answer } = state;
        let found = answer.as_ref().ok().map(|found| Answer {
            version: found.identity.version.clone(),
            cpus: found.machine.cpus,
            memory_bytes: found.machine.memory_bytes,
            taken: found.taken.clone(),
            lacks: found.lacks.clone(),
            id: found.identity.id.clone(),
            labels: found.labels.clone(),
            allowed: found.allowed,
        });
        Self {
            name: settings.name.clone(),
            kind: settings.kind.as_str().to_owned(),
            place: match &settings.place {
                EnginePlace::Endpoint { address, .. } => address.clone(),
                EnginePlace::Context(name) => format!("context {name}"),
                EnginePlace::Cluster(place) => {
                    let context = place.context.as_deref().unwrap_or("current");
                    format!("namespace {} of context {context}", place.namespace)
                }
            },
            slots: settings.slots,
            answer: found,
            error: answer.as_ref().err().map(|failure| match &failure.hint {
                Some(hint) => format!("{}; {hint}", failure.message),
                None => failure.message.clone(),
            }),
        }
    }

    fn lines(&self) -> Vec<Line> {
        let Self { name, kind, place, slots, answer, error } = self;
        let mut lines = vec![];
        match answer {
            None => {
                let why = error.as_deref().unwrap_or_default();
                let line = Line::of(Tone::Bad, name)
                    .and(Tone::Plain, format!("  {kind} at {place}: {why}"));
                lines.push(line);
            }
            Some(found) => {
                let Answer { version, cpus, memory_bytes, taken, lacks, id, labels, allowed } =
                    found;
                // A cluster does not say how large it is.
                let size = match cpus {
                    0 => String::new(),
                    cpus => format!(", {cpus} CPUs, {} MiB of memory", memory_bytes >> 20),
                };
                let text = format!(
                    "  {kind} {version} at {place}: {} of {slots} slots taken{size}",
                    taken.len()
                );
                lines.push(Line::of(Tone::Good, name).and(Tone::Plain, text));
                lines.extend(id.iter().map(|id| Line::plain(format!("  id: {id}"))));
                let labels: Vec<_> =
                    labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                if !labels.is_empty() {
                    lines.push(Line::plain(format!("  labels: {}", labels.join(" "))));
                }
                if !allowed {
                    let text = "  not allowed by the administrator's policy";
                    lines.push(Line::of(Tone::Caution, text));
                }
                lines.extend(taken.iter().map(|slot| Line::plain(format!("  taken: {slot}"))));
                lines.extend(
                    lacks
                        .iter()
                        .map(|lack| Line::of(Tone::Caution, "  cannot ").and(Tone::Plain, lack)),
                );
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_written_down() {
        act_core::event::schema::document_holds::<Document<'_>>();
    }

    // ENGINE-10
    #[test]
    fn a_namespace_has_a_name_that_kubernetes_takes() {
        for name in ["a", "act", "0-9", &"n".repeat(63)] {
            assert_eq!(namespace(name).as_deref(), Ok(name));
        }
        for name in ["", "-a", "a-", "A", "a_b", "a\nb", &"n".repeat(64)] {
            assert!(namespace(name).is_err(), "{name:?}");
        }
    }

    // ENGINE-3
    #[test]
    fn an_engine_is_a_line_with_what_it_answers_or_why_it_does_not() {
        let mut engine = Engine {
            name: "lab".into(),
            kind: "docker".into(),
            place: "tcp://10.0.0.5:2376".into(),
            slots: 2,
            answer: Some(Answer {
                version: "27.1".into(),
                cpus: 16,
                memory_bytes: 64 << 30,
                taken: vec!["slot 1 by process 7 of user 1000".into()],
                lacks: vec!["limit memory: why".into()],
                id: Some("7TRN:IPZB".into()),
                labels: [("arch".into(), "arm64".into()), ("gpu".into(), "A100".into())].into(),
                allowed: false,
            }),
            error: None,
        };
        let text = |engine: &Engine| {
            engine.lines().iter().map(|line| line.render(false)).collect::<String>()
        };
        assert_eq!(
            text(&engine),
            "lab  docker 27.1 at tcp://10.0.0.5:2376: 1 of 2 slots taken, 16 CPUs, 65536 MiB of memory\n  \
             id: 7TRN:IPZB\n  labels: arch=arm64 gpu=A100\n  not allowed by the administrator's policy\n  taken: slot 1 by process 7 of user 1000\n  cannot limit memory: why\n"
        );
        (engine.answer, engine.error) = (None, Some("no answer".into()));
        assert_eq!(text(&engine), "lab  docker at tcp://10.0.0.5:2376: no answer\n");
    }
}
