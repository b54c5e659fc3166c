//! `act components`: shows components and their permissions, and approves or revokes them.

mod approve;
mod lines;
mod new;
mod test;

use std::path::PathBuf;

use clap::Subcommand;

use super::repo::RepoArg;
use crate::output::{Line, Output, Tone};
use crate::task::capabilities::{self as task, Narrow};
use act_core::Failure;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  act components inspect scout.wasm
  act components approve scout.wasm --name licences
  act components narrow licences --path src
  act components why scout-a .env

Exit codes:
  0 done, 1 refused, nothing was changed";

const LIST_HELP: &str = "\
Examples:
  act components list
  act components list --json";

const INSPECT_HELP: &str = "\
Examples:
  act components inspect scout.wasm
  act components inspect scout.wasm --json | jq -r .sha256

Exit codes:
  0 it is a component, 1 it is not a component or cannot be read";

const REVOKE_HELP: &str = "\
Examples:
  act components revoke licences

Exit codes:
  0 revoked, 1 there is no such approval";

const SHOW_HELP: &str = "\
Examples:
  act components show scout-a
  act components show licences --json

Exit codes:
  0 shown, 1 there is no such component";

const NARROW_HELP: &str = "\
Examples:
  act components narrow licences                             as proposed by `act components show licences`
  act components narrow licences --path src --path LICENSE
  act components narrow licences --drop llm

Exit codes:
  0 narrowed, 1 refused, nothing was changed: there is no such grant, or it would be wider";

const WHY_HELP: &str = "\
Examples:
  act components why scout-a .env                            may it read this file?
  act components why licences \"GET https://example.com/a\"    may it send this request?
  act components why licences env:HOME

Exit codes:
  0 allowed, 1 not allowed, or there is no such component";

const PACK_HELP: &str = "\
Examples:
  act components pack scout.wasm --manifest manifest.json
  act components pack built.wasm --manifest manifest.json --output scout.wasm

Exit codes:
  0 written, 1 refused: not a component, or the manifest does not fit it";

/// Show components and decide what they may do
///
/// A component is a WebAssembly file that takes part in tasks: a Scout or tools. A repository can only request one. You
/// decide here what it may do, and the approval holds for exactly the bytes that you saw.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Components {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    at: RepoArg,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl Components {
    /// Returns whether the command runs a component and ends cleanly on a signal.
    pub(super) fn catches_signals(&self) -> bool {
        matches!(self.action, Some(Action::Test(_)))
    }
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List all components with their state and permissions
    #[command(after_long_help = LIST_HELP)]
    List,
    /// Show kind, imports and needs of a file without running it
    #[command(after_long_help = INSPECT_HELP)]
    Inspect {
        /// The component: a .wasm file
        file: PathBuf,
    },
    New(new::New),
    Test(test::Test),
    Approve(approve::Approve),
    /// Revoke an approval; the component is not loaded any more
    #[command(after_long_help = REVOKE_HELP)]
    Revoke {
        /// Approved name, as shown by `act components`
        name: String,
    },
    /// Show the permissions of a component, their source and their use
    #[command(after_long_help = SHOW_HELP)]
    Show {
        /// Name of a built-in or approved component, as shown by `act components`
        name: String,
    },
    /// Remove permissions that a component does not need; default: as `show` proposes
    #[command(after_long_help = NARROW_HELP)]
    Narrow {
        /// Approved name, as shown by `act components`
        name: String,
        /// Remove this grant
        #[arg(long, value_name = "GRANT")]
        drop: Vec<String>,
        /// Limit reading to this path; may be repeated
        #[arg(long = "path", value_name = "PATH")]
        paths: Vec<String>,
        /// Limit requests to this origin; may be repeated
        #[arg(long = "origin", value_name = "ORIGIN")]
        origins: Vec<String>,
    },
    /// Explain whether an access is allowed, and which rule decides
    #[command(after_long_help = WHY_HELP)]
    Why {
        /// Name of a built-in or approved component, as shown by `act components`
        name: String,
        /// A URL, `METHOD URL`, `env:NAME`, a path, `write:PATH`, or the name of a grant
        object: String,
    },
    /// Add a manifest to a component that any toolchain built
    #[command(after_long_help = PACK_HELP)]
    Pack {
        /// A component without a manifest, or with one that is replaced
        file: PathBuf,
        /// JSON: kind, name, version, about, needs, and tools or report
        #[arg(long, value_name = "MANIFEST.json")]
        manifest: PathBuf,
        /// Write another file instead of this one
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

impl Components {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let start = self.at.repo;
        match self.action {
            None | Some(Action::List) => {
                let list = task::list(&start)?;
                print(output, &list, || lines::list(&list));
            }
            Some(Action::Inspect { file }) => {
                let document = task::inspect(&file)?;
                print(output, &document, || lines::inspected(&document));
            }
            Some(Action::New(new)) => return new.run(output),
            Some(Action::Test(test)) => return test.run(output),
            Some(Action::Approve(approve)) => return approve.run(start, output),
            Some(Action::Revoke { name }) => {
                let document = task::revoke(&start, &name, output)?;
                print(output, &document, || vec![decided("Revoked", &document.name)]);
            }
            Some(Action::Show { name }) => {
                let shown = task::show(&start, &name)?;
                print(output, &shown, || lines::shown(&shown));
            }
            Some(Action::Narrow { name, drop, paths, origins }) => {
                let document = task::narrow(start, &name, Narrow { drop, paths, origins }, output)?;
                let line = || {
                    let grants = lines::grants(&document.grants);
                    vec![
                        decided("Narrowed", &document.name)
                            .and(Tone::Plain, format!(": {}", grants.join(", "))),
                    ]
                };
                print(output, &document, line);
            }
            Some(Action::Why { name, object }) => {
                let answer = task::why(&start, &name, &object)?;
                print(output, &answer, || lines::answered(&answer));
                return Ok(if answer.allowed { Exit::Ok } else { Exit::Refused });
            }
            Some(Action::Pack { file, manifest, output: to }) => {
                let packed = task::pack(&file, &manifest, to)?;
                let text = format!("Packed {}, sha256 {}", packed.file, packed.sha256);
                print(output, &packed, || vec![Line::plain(text)]);
            }
        }
        Ok(Exit::Ok)
    }
}

fn print(output: &Output, document: &impl serde::Serialize, lines: impl FnOnce() -> Vec<Line>) {
    if output.is_json() {
        output.document(document);
    } else {
        lines().iter().for_each(|line| output.result_line(line));
    }
}

fn decided(what: &str, name: &str) -> Line {
    Line::of(Tone::Strong, what).and(Tone::Plain, format!(" {name}"))
}
