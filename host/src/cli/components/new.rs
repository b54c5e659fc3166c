//! `act components new`: writes a project that builds and passes `act components test`. Templates, interfaces and, for
//! Rust, the kit of the built-in components are part of the program.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use super::answer;
use super::languages::{Lang, Tools, world};
use crate::output::{Line, Output, Tone};
use act_component::{ComponentName, Kind};
use act_core::exit::Exit;
use act_core::{Document, Failure};
use act_task::capabilities as task;

const AFTER_HELP: &str = "\
Examples:
  act components new licences --kind scout --lang rust
  act components new units --kind tool --lang python --in tools

Exit codes:
  0 created, 1 refused: the directory exists, or cannot be created";

/// Start a component of your own
///
/// Creates the directory NAME with a working component, its manifest and the interfaces of this `act`. Nothing is
/// downloaded until you build the project with the tools of its language.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct New {
    /// Name of the component and of its directory: a-z, 0-9 and `-`
    name: String,
    /// A Scout answers questions about a repository; a tool is called by the Editor
    #[arg(long, value_parser = PossibleValuesParser::new(["scout", "tool"]).map(kind))]
    kind: Kind,
    /// Programming language
    #[arg(long, value_enum)]
    lang: Lang,
    /// Parent directory of the new directory
    #[arg(long = "in", value_name = "DIR", default_value = ".")]
    parent: PathBuf,
}

fn kind(word: String) -> Kind {
    if word == "scout" { Kind::Scout } else { Kind::Tool }
}

/// The document of `act components new --json`: the files of the new project and the next commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Begun {
    directory: String,
    kind: Kind,
    lang: String,
    files: Vec<String>,
    /// Commands to run in that directory, in this order: build, pack, test, approve.
    commands: Vec<String>,
    /// What has to be installed before these commands work; empty if this machine has everything.
    missing: Vec<String>,
}

impl Document for Begun {
    const NAME: &'static str = "components-new";
}

impl New {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let name = task::free_name(&self.name)?;
        if self.lang == Lang::Rust && VENDORED.contains(&name.as_str()) {
            let message =
                format!("`{name}` is the name of a crate that every Rust project contains");
            return Err(Failure::refused("name_reserved", message).hint("choose another name"));
        }
        let directory = self.parent.join(name.as_str());
        let repo = act_config::find_root(&self.parent).ok().flatten().map(|root| root.path);
        let tools = Tools::find(self.lang, repo.as_deref());
        let commands = commands(&name, self.kind, &tools);
        let project = project(&name, self.kind, self.lang, &commands);
        write(&directory, &project).map_err(|error| unwritable(&directory, &error))?;
        let begun = Begun {
            directory: directory.display().to_string(),
            kind: self.kind,
            lang: self.lang.word().to_owned(),
            files: project.iter().map(|(path, _)| path.clone()).collect(),
            commands,
            missing: tools.missing,
        };
        answer(output, &begun, || lines(&begun, self.lang));
        begun.missing.iter().for_each(|what| output.caution(&format!("this machine lacks {what}")));
        Ok(Exit::Ok)
    }
}

/// Writes the project into a new directory.
fn write(directory: &Path, project: &[(String, String)]) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(directory)?;
    for (path, text) in project {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn unwritable(directory: &Path, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::AlreadyExists {
        let message = format!("{} exists", directory.display());
        return Failure::refused("project_exists", message)
            .hint("choose another name, or remove it");
    }
    let message = format!("{} cannot be written: {error}", directory.display());
    Failure::refused("project_unwritable", message)
        .hint("name a directory that you may write with --in")
}

fn lines(begun: &Begun, lang: Lang) -> Vec<Line> {
    let mut lines = vec![
        Line::of(Tone::Good, "Created").and(
            Tone::Plain,
            format!(
                " {} in {}; its code is in {}",
                begun.kind.word(),
                begun.directory,
                lang.source()
            ),
        ),
        Line::plain(format!("  cd {}", begun.directory)),
    ];
    lines.extend(begun.commands.iter().map(|command| Line::plain(format!("  {command}"))));
    lines
}

macro_rules! embedded {
    ($from:literal: $($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../", $from, $path)))),*]
    };
}

type Embedded = &'static [(&'static str, &'static str)];

const WIT: Embedded = embedded!["wit/":
    "worlds.wit", "deps/model/model.wit", "deps/progress/progress.wit", "deps/repo/repo.wit",
    "deps/scout/scout.wit", "deps/tool/tool.wit", "deps/types/types.wit",
];

const KIT: Embedded = embedded!["components/kit/":
    "Cargo.toml", "src/bindings.rs", "src/grounding.rs", "src/host.rs", "src/inquiry.rs", "src/inventory.rs", "src/json.rs", "src/lib.rs",
    "src/paths.rs", "src/quoting.rs", "src/reading.rs", "src/report.rs", "src/summaries.rs", "src/testing.rs", "src/tool.rs", "src/tool_bindings.rs", "src/world.rs",
];

/// Report types of the Scouts. The kit depends on them as `../reports`.
const REPORTS: Embedded = embedded!["components/reports/":
    "Cargo.toml", "src/commands/effects.rs", "src/commands/mod.rs", "src/commands/proof.rs", "src/commands/tools.rs",
    "src/commands/variables.rs", "src/facts_a.rs", "src/facts_b.rs", "src/failures/counts.rs", "src/failures/go.rs",
    "src/failures/javascript.rs", "src/failures/jvm.rs", "src/failures/lines.rs", "src/failures/log.rs",
    "src/failures/mod.rs", "src/failures/native.rs", "src/failures/packages.rs", "src/failures/places.rs",
    "src/failures/python.rs", "src/failures/ran.rs", "src/failures/rust.rs", "src/failures/tests.rs", "src/lib.rs", "src/report_a.rs", "src/report_b.rs",
    "src/source.rs", "src/version.rs",
];

const TEMPLATES: Embedded = embedded!["components/templates/":
    "README.md.in", "gitignore", "scout.json", "tool.json", "rust/Cargo.toml.in", "rust/scout.rs",
    "rust/tool.rs", "python/requirements.txt", "python/scout.py", "python/tool.py", "js/package.json.in",
    "js/build.mjs", "js/scout.js", "js/tool.js",
];

/// Crates that every Rust project contains; a component cannot have their names.
const VENDORED: [&str; 2] = ["act-kit", "act-reports"];

fn template(path: &str) -> &'static str {
    TEMPLATES.iter().find(|(name, _)| *name == path).map_or("", |(_, text)| text)
}

/// Returns the files of a project: paths below its directory, and texts.
fn project(
    name: &ComponentName,
    kind: Kind,
    lang: Lang,
    commands: &[String],
) -> Vec<(String, String)> {
    let word = kind.word();
    let mut files = vec![
        ("README.md", template("README.md.in")),
        (".gitignore", template("gitignore")),
        ("manifest.json", template(if kind == Kind::Scout { "scout.json" } else { "tool.json" })),
    ];
    match lang {
        Lang::Rust => files.push(("Cargo.toml", template("rust/Cargo.toml.in"))),
        Lang::Python => files.push(("requirements.txt", template("python/requirements.txt"))),
        Lang::Js => files.extend([
            ("package.json", template("js/package.json.in")),
            ("build.mjs", template("js/build.mjs")),
        ]),
    }
    let source = match lang {
        Lang::Rust => format!("rust/{word}.rs"),
        Lang::Python => format!("python/{word}.py"),
        Lang::Js => format!("js/{word}.js"),
    };
    files.push((lang.source(), template(&source)));
    let commands = commands.join("\n");
    let filled = |text: &str| {
        text.replace("{{name}}", name.as_str())
            .replace("{{kind}}", word)
            .replace("{{world}}", world(kind, false))
            .replace("{{lang}}", lang.word())
            .replace("{{source}}", lang.source())
            .replace("{{commands}}", &commands)
    };
    let mut project: Vec<_> =
        files.into_iter().map(|(path, text)| (path.to_owned(), filled(text))).collect();
    let verbatim = |below: &str, files: Embedded| -> Vec<_> {
        files.iter().map(|(path, text)| (format!("{below}/{path}"), (*text).to_owned())).collect()
    };
    project.extend(verbatim("wit", WIT));
    if lang == Lang::Rust {
        project.extend(verbatim("vendor/act-kit", KIT));
        project.extend(verbatim("vendor/reports", REPORTS));
    }
    project
}

/// Returns the commands from the sources to an approval, to be run in the project's directory.
fn commands(name: &ComponentName, kind: Kind, tools: &Tools) -> Vec<String> {
    let mut commands = tools.commands(name.as_str(), world(kind, false));
    let (built, packed) = (tools.output(name.as_str()), format!("{name}.wasm"));
    let to = if built == packed { String::new() } else { format!(" --output {packed}") };
    commands.push(format!("act components pack {built} --manifest manifest.json{to}"));
    commands.push(format!("act components test {packed}"));
    commands.push(format!("act components approve {packed} --name {name}"));
    commands
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use act_component::Manifest;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_new_project_is_published() {
        // EVENT-8
        schema::document_holds::<Begun>();
    }

    fn below(root: &Path, path: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(root, &path, found);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    // COMPONENT-4
    #[test]
    fn nothing_of_the_interfaces_the_kit_and_the_templates_is_left_out() {
        for (from, embedded) in [
            ("wit", WIT),
            ("components/kit", KIT),
            ("components/reports", REPORTS),
            ("components/templates", TEMPLATES),
        ] {
            let root = act_core::testing::checkout().join(from);
            let mut there = BTreeSet::new();
            below(&root, &root, &mut there);
            let ours: BTreeSet<_> = embedded.iter().map(|(path, _)| (*path).to_owned()).collect();
            assert_eq!(ours, there, "{from}");
        }
    }

    // COMPONENT-4
    #[test]
    fn every_project_is_whole_and_has_a_manifest_of_its_name_and_kind() {
        let name: ComponentName = "my-notes".parse().unwrap();
        for kind in [Kind::Scout, Kind::Tool] {
            for lang in [Lang::Rust, Lang::Python, Lang::Js] {
                let project = project(&name, kind, lang, &["true".to_owned()]);
                for (path, text) in &project {
                    let filled = path.contains('/') || !text.contains("{{");
                    assert!(!text.is_empty() && filled, "{lang:?} {path}: {text}");
                }
                let of = |path: &str| &project.iter().find(|(one, _)| one == path).unwrap().1;
                let manifest = Manifest::parse(of("manifest.json").as_bytes()).unwrap();
                assert_eq!((manifest.name.as_str(), manifest.kind), ("my-notes", kind));
                assert!(of(lang.source()).lines().count() <= 60);
                assert!(of("wit/worlds.wit").contains(kind.world().rsplit_once('@').unwrap().1));
            }
        }
    }
}
