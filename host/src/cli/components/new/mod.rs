//! `act components new`: a project that builds, passes its test and can be changed from there.

mod files;

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use super::print;
use crate::output::{Line, Output, Tone};
use crate::task::capabilities as task;
use act_component::Kind;
use act_core::Failure;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  act components new licences --kind scout --lang rust
  act components new units --kind tool --lang python --in tools

Exit codes:
  0 made, 1 refused: the directory is there already, or cannot be made";

/// Begin a component of your own
///
/// Makes the directory NAME with a component that works, its manifest and the interfaces of this `act`. Nothing is
/// downloaded; the language's own tools fetch what they need when they build.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct New {
    /// Of the component and of its directory: a-z, 0-9 and `-`
    name: String,
    /// What it is for: answering questions, or giving the Editor tools
    #[arg(long, value_enum)]
    kind: Which,
    /// What it is written in
    #[arg(long, value_enum)]
    lang: Lang,
    /// Where the directory is made
    #[arg(long = "in", value_name = "DIR", default_value = ".")]
    parent: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    Scout,
    Tool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lang {
    Rust,
    Python,
    Js,
}

impl Which {
    fn kind(self) -> Kind {
        match self {
            Self::Scout => Kind::Scout,
            Self::Tool => Kind::Tool,
        }
    }
}

impl Lang {
    fn word(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Js => "js",
        }
    }

    /// The file that is to be changed.
    fn source(self) -> &'static str {
        match self {
            Self::Rust => "src/lib.rs",
            Self::Python => "app.py",
            Self::Js => "component.js",
        }
    }
}

/// What was made, and what to do with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Begun {
    directory: String,
    kind: Kind,
    lang: String,
    files: Vec<String>,
    /// In that directory, in this order: build, pack, test, approve.
    commands: Vec<String>,
}

impl New {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let name = task::free_name(&self.name)?;
        if self.lang == Lang::Rust && files::VENDORED.contains(&name.as_str()) {
            let message = format!("`{name}` is a crate that every project in Rust contains");
            return Err(Failure::refused("name_reserved", message).hint("choose another name"));
        }
        let directory = self.parent.join(name.as_str());
        let project = files::project(&name, self.kind.kind(), self.lang);
        write(&directory, &project).map_err(|error| unwritable(&directory, &error))?;
        let begun = Begun {
            directory: directory.display().to_string(),
            kind: self.kind.kind(),
            lang: self.lang.word().to_owned(),
            files: project.iter().map(|(path, _)| path.clone()).collect(),
            commands: files::commands(&name, self.kind.kind(), self.lang),
        };
        print(output, &begun, || lines(&begun, self.lang));
        Ok(Exit::Ok)
    }
}

/// Into a directory that was not there.
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
        Line::of(Tone::Good, "Began").and(
            Tone::Plain,
            format!(
                " {} in {}: {} is the component",
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

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_new_project_is_published() {
        // EVENT-8
        schema::holds::<Begun>("components-new");
    }
}
