//! `act components`: shows components and their permissions, and approves or revokes them.

mod languages;
mod new;
mod test;
mod watch;

use std::io::{BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use clap::Subcommand;
use rustix::termios::{QueueSelector, tcflush};
use serde_json::Value;

use super::{CommonOptions, answer, block_on};
use crate::output::{Line, Output, Tone};
use act_component::confined::{self, CheckLimits, Work};
use act_component::registry::{ComponentDocument, ComponentList, Source, State};
use act_component::{Capability, Ceiling, Grant, LeftOut, Need, Party};
use act_config::UserSettings;
use act_core::exit::Exit;
use act_core::{Document, Failure};
use act_task::capabilities::{
    self as task, CallDocument, Candidate, Difference, FieldChange, InspectDocument, ModelText,
    Narrow, Outdated, OutdatedDocument, Proposal, Shown, Signature, Unchecked, WhyDocument,
};

const AFTER_HELP: &str = "\
Examples:
  act components inspect scout.wasm
  act components approve scout.wasm --name licences
  act components approve oci://ghcr.io/example/licences:1.2 --name licences
  act components outdated
  act components narrow licences --path src
  act components why scout-a .env
  act components call licences list
  act components watch notes --dev

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

const PULL_HELP: &str = "\
Examples:
  act components pull oci://ghcr.io/example/licences:1.2
  act components pull oci://localhost:5000/licences:1 --output licences.wasm

Exit codes:
  0 written, 1 refused: the registry, or what it sent";

const PUSH_HELP: &str = "\
Examples:
  act components push scout.wasm oci://ghcr.io/example/licences:1.2
  act components push scout.wasm oci://localhost:5000/licences:1 --json | jq -r .digest

Exit codes:
  0 stored, 1 refused: not a component, or by the registry";

const OUTDATED_HELP: &str = "\
Examples:
  act components outdated
  act components outdated --json | jq -r '.outdated[].name'

Exit codes:
  0 no tag has moved, 1 some tags have moved, 4 none has, and some could
  not be looked up";

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
  act components narrow licences               as `show` proposes
  act components narrow licences --path src --path LICENSE
  act components narrow licences --drop llm

Exit codes:
  0 narrowed, 1 refused and nothing changed: no such grant, or a wider one";

const WHY_HELP: &str = "\
Examples:
  act components why scout-a .env              may it read this file?
  act components why licences \"GET https://example.com/a\"
  act components why licences env:HOME

Exit codes:
  0 allowed, 1 not allowed, or there is no such component";

const CALL_HELP: &str = "\
Examples:
  act components call licences list '{\"path\": \"src\"}'
  act components call licences list --json | jq -r .answer

Exit codes:
  0 answered, 1 refused, or the tool answered with an error, 4 the call
  failed, 130 CANCELLED";

const PACK_HELP: &str = "\
Examples:
  act components pack scout.wasm --manifest manifest.json
  act components pack built.wasm --manifest manifest.json --output scout.wasm

Exit codes:
  0 written, 1 refused: not a component, or the manifest does not fit it";

/// Show components, decide what they may do
///
/// A component is a WebAssembly file that takes part in tasks: a Scout or tools. A repository can only request one. You
/// decide here what it may do, and the approval holds for exactly the bytes that you saw.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Components {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    common: CommonOptions,
}

impl Components {
    /// Returns whether the command runs a component and ends cleanly on a signal.
    pub(super) fn catches_signals(&self) -> bool {
        matches!(self.action, Some(Action::Test(_) | Action::Watch(_) | Action::Call { .. }))
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
    Watch(watch::Watch),
    Approve(Approve),
    /// Fetch a component from a registry into a file; it is not approved
    #[command(after_long_help = PULL_HELP)]
    Pull {
        /// oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:HEX
        reference: String,
        /// File to write; by default the last part of NAME with .wasm, which must not exist
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Store a component in a registry, and print its digest
    #[command(after_long_help = PUSH_HELP)]
    Push {
        /// The component: a .wasm file
        file: PathBuf,
        /// oci://HOST/NAME:TAG
        reference: String,
    },
    /// List approved components whose tag leads to something else now
    #[command(after_long_help = OUTDATED_HELP)]
    Outdated,
    /// Call a tool of an approved component, without changing a file
    ///
    /// The tool has the permissions that you granted to it, and the call is in the audit log. What it edits is a copy in
    /// memory, which is dropped.
    #[command(after_long_help = CALL_HELP)]
    Call {
        /// Approved name, as shown by `act components`
        name: String,
        /// Tool of the component, as shown by `act components show NAME`
        tool: String,
        /// Arguments of the tool, as a JSON object
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
    },
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
    /// Remove permissions that a component does not need
    ///
    /// Without an option it removes what `act components show` proposes.
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
        /// The component; a manifest that it already has is replaced
        file: PathBuf,
        /// JSON: kind, name, version, about, needs, and tools or report
        #[arg(long, value_name = "MANIFEST.json")]
        manifest: PathBuf,
        /// Write the result to another file
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

impl Components {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let start = self.common.repo;
        match self.action {
            None | Some(Action::List) => {
                let list = task::list(&start)?;
                answer(output, &list, || list_lines(&list));
            }
            Some(Action::Inspect { file }) => {
                let document = task::inspect(&file)?;
                answer(output, &document, || inspected_lines(&document));
            }
            Some(Action::New(new)) => return new.run(output),
            Some(Action::Test(test)) => return test.run(output),
            Some(Action::Watch(watch)) => return watch.run(start, output),
            Some(Action::Approve(approve)) => return approve.run(start, output),
            Some(Action::Pull { reference, output: to }) => {
                let pulled = block_on(task::pull(&reference, to, &start))??;
                answer(output, &pulled, || {
                    vec![
                        decided("Fetched", &pulled.file),
                        row("digest", &pulled.digest),
                        row("sha256", &pulled.sha256),
                    ]
                });
            }
            Some(Action::Push { file, reference }) => {
                let pushed = block_on(task::push(&file, &reference, &start))??;
                answer(output, &pushed, || vec![Line::plain(&pushed.digest)]);
            }
            Some(Action::Outdated) => {
                let outdated = block_on(task::outdated(&start))??;
                answer(output, &outdated, || outdated_lines(&outdated));
                return Ok(match (outdated.outdated.is_empty(), outdated.unchecked.is_empty()) {
                    (false, _) => Exit::Refused,
                    (true, false) => Exit::Infra,
                    (true, true) => Exit::Ok,
                });
            }
            Some(Action::Call { name, tool, arguments }) => {
                let call = task::Call { name, tool, arguments, start };
                let called = block_on(task::call(call, &output.events()))??;
                answer(output, &called, || called_lines(&called));
                return Ok(if called.is_error { Exit::Refused } else { Exit::Ok });
            }
            Some(Action::Revoke { name }) => {
                let document = task::revoke(&start, &name, &output.events())?;
                answer(output, &Revoked(&document), || vec![decided("Revoked", &document.name)]);
            }
            Some(Action::Show { name }) => {
                let shown = task::show(&start, &name)?;
                answer(output, &shown, || shown_lines(&shown));
            }
            Some(Action::Narrow { name, drop, paths, origins }) => {
                let narrow = Narrow { drop, paths, origins };
                let document = task::narrow(start, &name, narrow, &output.events())?;
                answer(output, &Narrowed(&document), || vec![granted("Narrowed", &document)]);
            }
            Some(Action::Why { name, object }) => {
                let why = task::why(&start, &name, &object)?;
                answer(output, &why, || why_lines(&why));
                return Ok(if why.allowed { Exit::Ok } else { Exit::Refused });
            }
            Some(Action::Pack { file, manifest, output: to }) => {
                let packed = task::pack(&file, &manifest, to)?;
                let text = format!("Packed {}, sha256 {}", packed.file, packed.sha256);
                answer(output, &packed, || vec![Line::plain(text)]);
            }
        }
        Ok(Exit::Ok)
    }
}

/// The name of the hidden command that reads or compiles a component in a process with limits.
const CHECK_COMPONENT: &str = "check-component";

/// Has components that were not approved read and compiled by processes of this program, within the limits of the user.
/// `repo` is the repository that the command names.
pub(super) fn confine(repo: Option<PathBuf>) {
    confined::install(vec![CHECK_COMPONENT.into()], move || {
        let start = repo.clone().unwrap_or_else(|| PathBuf::from("."));
        // A repository that cannot be found is the matter of the command.
        let root = act_config::find_root(&start).ok().flatten().map(|root| root.path);
        let settings = UserSettings::read(root.as_deref()).map_err(|error| error.to_string())?;
        Ok(settings.check)
    });
}

/// Reads or compiles the component in the standard input, for [`confine`]
#[derive(Debug, clap::Args)]
#[command(name = CHECK_COMPONENT)]
pub(super) struct CheckComponent {
    #[arg(value_parser = work)]
    work: Work,
    memory_mb: u64,
    seconds: u64,
}

fn work(word: &str) -> Result<Work, &'static str> {
    Work::named(word).ok_or("no such work")
}

impl CheckComponent {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let limits = CheckLimits { memory_mb: self.memory_mb, seconds: self.seconds };
        confined::serve(self.work, limits).map(|()| Exit::Ok).map_err(|error| {
            Failure::refused("check_failed", format!("the component cannot be checked: {error}"))
        })
    }
}

/// Returns the answer as the model would read it, and what the call would have changed.
fn called_lines(called: &CallDocument) -> Vec<Line> {
    let mut lines: Vec<_> = called.answer.lines().map(Line::plain).collect();
    if !called.would_change.is_empty() {
        let files = called.would_change.join(", ");
        lines.push(Line::of(Tone::Caution, "Not written: ").and(Tone::Plain, files));
    }
    lines
}

/// Returns each component whose tag has moved with the difference in what it needs, and each that could not be looked up.
fn outdated_lines(document: &OutdatedDocument) -> Vec<Line> {
    let mut lines = vec![];
    for one in &document.outdated {
        let Outdated { name, reference, approved, found, difference, problem } = one;
        lines.push(Line::of(Tone::Strong, name).and(Tone::Plain, format!(" {reference}")));
        lines.push(row("approved", approved));
        lines.push(row("now", found));
        lines.extend(problem.as_ref().map(|why| Line::of(Tone::Bad, why)));
        if let Some(difference) = difference {
            let mut changed = needs(&difference.needs_added, "+ needs ");
            changed.extend(needs(&difference.needs_removed, "- needs "));
            if changed.is_empty() {
                lines.push(row("needs", "no other than before"));
            }
            lines.extend(changed.into_iter().map(Line::quoted));
        }
    }
    for Unchecked { name, reference, message, .. } in &document.unchecked {
        let text = format!(" {reference} could not be looked up: {message}");
        lines.push(Line::of(Tone::Caution, name).and(Tone::Plain, text));
    }
    if lines.is_empty() {
        lines.push(Line::plain("No tag of an approved component has moved"));
    }
    lines
}

fn decided(what: &str, name: &str) -> Line {
    Line::of(Tone::Strong, what).and(Tone::Plain, format!(" {name}"))
}

fn granted(what: &str, component: &ComponentDocument) -> Line {
    let grants = grants_in_words(&component.grants).join(", ");
    decided(what, &component.name).and(Tone::Plain, format!(": {grants}"))
}

const APPROVE_HELP: &str = "\
Examples:
  act components approve scout.wasm --name licences
  act components approve scout.wasm --name licences --here --without llm
  act components approve next.wasm --name scout-next --replaces scout-a
  act components approve oci://ghcr.io/example/licences:1.2 --name licences

Exit codes:
  0 approved, 1 refused or not answered with `yes`, nothing was changed";

/// Approve a component with the permissions that it needs
///
/// Shows digest, imports, needs and what has changed, then asks. Without a terminal, give the digest that you have
/// reviewed with `--sha256`, or for a registry with `--digest` and `--yes`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = APPROVE_HELP)]
struct Approve {
    /// The component: a .wasm file, or oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:HEX
    #[arg(value_name = "FILE|REF")]
    file: PathBuf,
    /// Name of the component in tasks; its tools are named NAME__TOOL
    #[arg(long)]
    name: String,
    /// Digest that you have reviewed; required without a terminal
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
    /// Digest of the registry's manifest that you have reviewed
    #[arg(long, value_name = "sha256:HEX")]
    digest: Option<String>,
    /// Approve what `--digest` names without a question
    #[arg(long, requires = "digest")]
    yes: bool,
    /// Public key of which a signature by cosign is required, in PEM; may be repeated, and one is enough
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// Name of the built-in component that it replaces
    #[arg(long, value_name = "BUILTIN")]
    replaces: Option<String>,
    /// Approve for this repository only
    #[arg(long)]
    here: bool,
    /// Approve for every repository, even if it was approved for one only
    #[arg(long, conflicts_with = "here")]
    everywhere: bool,
    /// Grant everything that it needs, including what was removed before
    #[arg(long)]
    anew: bool,
    /// Do not grant this need; may be repeated
    #[arg(long, value_name = "GRANT")]
    without: Vec<String>,
    /// Model tokens of one call; 100000 by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    tokens: Option<u64>,
    /// Seconds of one call; by default 60 for a Scout and 30 for a tool
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: Option<u64>,
    /// Let it reach this loopback address, such as http://127.0.0.1:8080, from this repository; may be repeated
    #[arg(long, value_name = "ORIGIN", requires = "here")]
    allow_local: Vec<String>,
}

impl Approve {
    fn run(self, start: PathBuf, output: &Output) -> Result<Exit, Failure> {
        let sha256 = self.sha256;
        let component = candidate(self.file, self.digest.as_deref(), &self.keys, &start)?;
        let args = task::Approve {
            component,
            name: self.name,
            replaces: self.replaces,
            here: self.here,
            everywhere: self.everywhere,
            without: self.without,
            anew: self.anew,
            tokens: self.tokens,
            seconds: self.seconds,
            allow_local: self.allow_local,
            start: start.clone(),
        };
        let proposal = {
            // The events are dropped before the question; otherwise progress would be drawn over the user's input.
            let events = output.events();
            task::propose(args, &events)?
        };
        let question = Question {
            text: "Type `yes` to approve exactly these bytes:",
            more: vec![],
            sha256,
            // `--digest` was compared with what was fetched.
            is_answered: self.yes && self.digest.is_some(),
        };
        question.put(&proposal, output, || true)?;
        if let Some((source, _)) = &proposal.source {
            block_on(task::confirm(source, &start))??;
        }
        let difference = proposal.difference.clone();
        let document = proposal.approve(&output.events())?;
        let approved = Approved { component: &document, difference: difference.as_ref() };
        answer(output, &approved, || vec![granted("Approved", &document)]);
        Ok(Exit::Ok)
    }
}

/// Returns the component of an approval: a file, or what a reference leads to, which has to be `digest` if that is given.
fn candidate(
    file: PathBuf,
    digest: Option<&str>,
    keys: &[PathBuf],
    start: &Path,
) -> Result<Candidate, Failure> {
    let reference = file.to_str().filter(|text| act_config::is_in_registry(text));
    let Some(reference) = reference else {
        if digest.is_some() {
            let message = "--digest is for a component in a registry; --sha256 is for a file";
            return Err(Failure::usage(message));
        }
        if !keys.is_empty() {
            let message = "--key is for a component in a registry; a file has no signature";
            return Err(Failure::usage(message));
        }
        return Ok(Candidate::File(file));
    };
    let fetched = block_on(task::fetch(reference, keys, start))??;
    let found = &fetched.source.digest;
    if let Some(given) = digest.filter(|given| given != found) {
        let message = format!("--digest is {given}, but {reference} is {found}");
        return Err(Failure::refused("digest_differs", message)
            .hint("nothing was changed; review what it is now, or approve the digest itself"));
    }
    Ok(Candidate::Fetched(fetched))
}

#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Approved<'a> {
    component: &'a ComponentDocument,
    /// Differences from the component that was approved under this name before; null when there was none.
    difference: Option<&'a Difference>,
}

impl Document for Approved<'_> {
    const NAME: &'static str = "components-approve";
}

/// The document of `act components narrow --json`.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
struct Narrowed<'a>(&'a ComponentDocument);

impl Document for Narrowed<'_> {
    const NAME: &'static str = "components-narrow";
}

/// The document of `act components revoke --json`.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
struct Revoked<'a>(&'a ComponentDocument);

impl Document for Revoked<'_> {
    const NAME: &'static str = "components-revoke";
}

/// How a person is asked about a proposal.
struct Question {
    text: &'static str,
    /// What is shown beside the proposal.
    more: Vec<Line>,
    /// The digest that the user has reviewed, for a machine without a terminal.
    sha256: Option<String>,
    is_answered: bool,
}

impl Question {
    /// Shows the proposal, and asks. The question ends without an answer when `is_wanted` returns false.
    ///
    /// # Errors
    ///
    /// The answer is not yes, there is no terminal for it, or the digest is another one.
    fn put(
        self,
        proposal: &Proposal,
        output: &Output,
        is_wanted: impl Fn() -> bool,
    ) -> Result<(), Failure> {
        let (sha256, found) = (self.sha256, &proposal.inspection.sha256);
        if let Some(given) = sha256.as_ref().filter(|given| !given.eq_ignore_ascii_case(found)) {
            let message = format!("--sha256 is {given}, but the file has {found}");
            return Err(Failure::refused("sha256_differs", message)
                .hint("review the file with `act components inspect FILE`"));
        }
        proposed_lines(proposal).iter().chain(&self.more).for_each(|line| output.progress(line));
        for origin in proposal.never_reached() {
            output.caution(&format!("{origin} is not public: no component can ever reach it"));
        }
        for origin in proposal.local_origins() {
            output.caution(&format!(
                "{origin} is on this machine: the component can reach whatever answers there"
            ));
        }
        // The digest is the last line, beside the question that it belongs to.
        output.progress(&row("sha256", found.as_str()));
        if self.is_answered {
            Ok(())
        } else if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
            ask(self.text, output, is_wanted)
        } else if sha256.is_some() {
            Ok(())
        } else {
            let message = "an approval needs a terminal, or the digest that you have reviewed";
            let hint = match &proposal.source {
                Some((source, _)) => format!("add --digest {} --yes", source.digest),
                None => format!("add --sha256 {found}"),
            };
            Err(Failure::refused("approval_unanswered", message).hint(hint))
        }
    }
}

fn ask(question: &str, output: &Output, is_wanted: impl Fn() -> bool) -> Result<(), Failure> {
    // Discards input that was typed before the question.
    tcflush(std::io::stdin(), QueueSelector::IFlush)
        .map_err(|errno| not_approved(&format!("the terminal cannot be asked: {errno}")))?;
    output.progress(&Line::of(Tone::Strong, question));
    let (send, receive) = channel();
    // A read cannot be interrupted, so it has a thread, which ends with the answer or the process.
    std::thread::spawn(move || {
        let mut answer = String::new();
        // 100 bytes are more than any answer has.
        let read = std::io::stdin().lock().take(100).read_line(&mut answer);
        let _ = send.send(read.is_ok() && answer.trim() == "yes");
    });
    loop {
        match receive.recv_timeout(Duration::from_millis(100)) {
            Ok(true) => return Ok(()),
            Err(RecvTimeoutError::Timeout) if is_wanted() => {}
            _ => return Err(not_approved("not approved")),
        }
    }
}

fn not_approved(why: &str) -> Failure {
    Failure::refused("not_approved", why).hint("nothing was changed")
}

/// Number of digits of a digest that are printed; they are enough to compare two by eye.
const DIGEST: usize = 12;

fn list_lines(list: &ComponentList) -> Vec<Line> {
    list.components.iter().flat_map(component_lines).collect()
}

/// Returns name, state, digest and kind of a component, and below them what it may do.
fn component_lines(component: &ComponentDocument) -> Vec<Line> {
    let digest: String = component.sha256.chars().take(DIGEST).collect();
    let mut lines = vec![
        Line::of(Tone::Strong, format!("{:<16}", component.name))
            .and(tone(component.state), format!(" {:<10}", component.state.word()))
            .and(Tone::Plain, format!(" {digest}  {}", component.kind.word())),
    ];
    let mut about = vec![grants_in_words(&component.grants).join(", ")];
    about.extend(component.replaces.as_ref().map(|name| format!("replaces {name}")));
    match component.scope {
        _ if component.state == State::Dev => {
            about.push("until `act components watch --dev` ends".to_owned());
        }
        "here" if component.state != State::Unapproved => {
            about.push("in this repository only".to_owned())
        }
        "elsewhere" => about.push("in another repository only".to_owned()),
        _ => {}
    }
    about.extend(component.last_used.as_ref().map(|time| format!("last used {time}")));
    if component.denials > 0 {
        about.push(format!("{} denials", component.denials));
    }
    lines.push(Line::of(Tone::Faint, format!("  {}", about.join("; "))));
    lines.extend(
        component.found.as_ref().map(|found| {
            Line::of(Tone::Bad, "  found: ").and(Tone::Plain, format!("sha256 {found}"))
        }),
    );
    lines
}

fn tone(state: State) -> Tone {
    match state {
        State::Builtin | State::Approved => Tone::Good,
        State::Unapproved | State::Revoked | State::Dev => Tone::Caution,
        State::Changed | State::Missing => Tone::Bad,
    }
}

/// Returns each grant in a few words, or `nothing`.
fn grants_in_words(grant: &Grant) -> Vec<String> {
    let words = in_words(grant);
    if words.is_empty() { vec!["nothing".to_owned()] } else { words }
}

fn in_words(grant: &Grant) -> Vec<String> {
    capabilities(grant).map(|capability| capability.in_words(grant)).collect()
}

/// Returns the granted capabilities.
fn capabilities(grant: &Grant) -> impl Iterator<Item = Capability> {
    Capability::ALL.into_iter().filter(|capability| grant.has(*capability))
}

/// Returns each grant with its meaning, for a user who does not know the names of the grants.
fn may(grant: &Grant) -> Vec<Line> {
    let line = |what: &str, means: &str| {
        Line::of(Tone::Strong, format!("  {what}")).and(Tone::Plain, format!(": {means}"))
    };
    if capabilities(grant).next().is_none() {
        return vec![line("nothing", "it has no permission")];
    }
    capabilities(grant).map(|one| line(&one.in_words(grant), one.meaning())).collect()
}

fn joined<T: std::fmt::Display>(values: impl Iterator<Item = T>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}

fn row(name: &str, value: impl Into<String>) -> Line {
    Line::of(Tone::Faint, format!("  {name:<9} ")).and(Tone::Plain, value)
}

/// The titles of the two parts of what is shown of a component. A manifest is free text of a stranger, so its values are in
/// one block, and each row of the block has a mark that no line of act has.
const AUTHOR: &str = "What its author says";
const FOUND: &str = "What act found";

fn named(name: &str, version: &str, about: &str) -> Line {
    Line::of(Tone::Strong, name).and(Tone::Plain, format!(" {version}: {about}"))
}

fn needs(needs: &[Need], sign: &str) -> Vec<Line> {
    let line = |need: &Need| {
        let mut what = need.grant.clone();
        for list in [
            joined(need.paths.iter()),
            joined(need.methods.iter()),
            joined(need.origins.iter()),
            joined(need.names.iter()),
        ] {
            if !list.is_empty() {
                what.push_str(&format!(" {list}"));
            }
        }
        Line::of(Tone::Strong, format!("{sign}{what}")).and(Tone::Plain, format!(": {}", need.why))
    };
    needs.iter().map(line).collect()
}

fn inspected_lines(document: &InspectDocument) -> Vec<Line> {
    let mut lines = vec![Line::plain(AUTHOR)];
    let mut author = vec![named(&document.name, &document.version, &document.about)];
    author.extend(needs(&document.needs, "needs "));
    author.extend(model_text_lines(&document.says));
    lines.extend(author.into_iter().map(Line::quoted));
    lines.extend([
        Line::plain(FOUND),
        row("sha256", &document.sha256),
        row("bytes", document.bytes.to_string()),
        row("world", &document.world),
    ]);
    lines.extend(imports(&document.imports));
    lines.extend(left_out(&document.left_out));
    // The reason may quote a name of the manifest.
    if let Some(problem) = &document.problem {
        lines.push(Line::of(Tone::Bad, "Cannot be loaded"));
        lines.push(Line::plain(problem).quoted());
    }
    lines
}

/// Returns the imports. Those that every guest's standard library has are only counted, because they do not tell components
/// apart.
fn imports(imports: &[String]) -> Vec<Line> {
    let prefixes = ["wasi:io/", "wasi:cli/", "wasi:clocks/", "wasi:random/", "wasi:filesystem/"];
    let (base, own): (Vec<_>, Vec<_>) =
        imports.iter().partition(|import| prefixes.iter().any(|prefix| import.starts_with(prefix)));
    let mut lines: Vec<_> = own.iter().map(|import| row("imports", import.as_str())).collect();
    if !base.is_empty() {
        lines.push(row("imports", format!("base WASI ({} interfaces)", base.len())));
    }
    lines
}

fn left_out(functions: &[LeftOut]) -> impl Iterator<Item = Line> {
    functions.iter().map(|one| row("left out", format!("{}: {}", one.function, one.why)))
}

fn proposed_lines(proposal: &Proposal) -> Vec<Line> {
    let inspection = &proposal.inspection;
    let manifest = &inspection.manifest;
    let mut author = vec![named(&manifest.name, &manifest.version, &manifest.about)];
    author.extend(needs(&manifest.needs, "needs "));
    author.extend(model_text_lines(&proposal.model_text()));
    author.extend(proposal.difference.as_ref().into_iter().flat_map(says_otherwise));
    let mut lines = vec![Line::plain(AUTHOR)];
    lines.extend(author.into_iter().map(Line::quoted));
    lines.extend([Line::plain(FOUND)]);
    if let Some((Source { reference, digest, .. }, signature)) = &proposal.source {
        lines.push(row("from", reference));
        lines.push(row("digest", digest));
        lines.push(row("signature", signature_in_words(signature)));
    }
    lines
        .extend([row("bytes", inspection.bytes.len().to_string()), row("world", manifest.world())]);
    lines.extend(imports(&inspection.imports));
    lines.extend(left_out(&manifest.left_out));
    let name = proposal.name.as_str();
    lines.push(Line::plain("The approval of ").and(Tone::Strong, name));
    lines.push(row("granted", grants_in_words(&proposal.grant).join(", ")));
    if !proposal.grant.withheld.is_empty() {
        lines.push(row("withheld", joined(proposal.grant.withheld.iter())));
    }
    lines.extend(taken_away(&proposal.narrowed));
    let limits = &proposal.grant.limits;
    let (memory, wall) = (bytes(limits.memory_bytes), limits.wall.as_secs());
    lines.push(row("limits", format!("{memory}, {wall} s for one query")));
    lines.extend(
        proposal
            .replaces
            .as_ref()
            .map(|name| Line::of(Tone::Caution, format!("  It replaces the built-in {name}"))),
    );
    lines.push(row(
        "holds",
        if proposal.is_local() { "in this repository" } else { "in every repository" },
    ));
    lines.extend(proposal.difference.as_ref().into_iter().flat_map(differs));
    lines
}

fn signature_in_words(signature: &Signature) -> String {
    match signature {
        Signature::Unsigned => "unsigned".to_owned(),
        Signature::OfOthers(found) => {
            format!("{found} found, none of a key that you named with --key")
        }
        Signature::With(file) => format!("valid, with the key {file}"),
        Signature::Unknown(why) => format!("unknown: {why}"),
    }
}

fn differs(difference: &Difference) -> Vec<Line> {
    // A version is free text of the author; only a usual one is shown in a line of act.
    let usual = |version: &&String| {
        version.chars().all(|c| c.is_ascii_alphanumeric() || ".+-_".contains(c))
    };
    let version = difference.version_before.as_ref().filter(usual);
    let version = version.map(|version| format!(" ({version})"));
    let title = format!("Differs from sha256 {}{}", difference.before, version.unwrap_or_default());
    if difference.is_nothing() {
        return vec![Line::plain("  Nothing has changed since the last approval")];
    }
    let mut lines = vec![Line::of(Tone::Caution, title)];
    lines.push(Line::plain(match (difference.unknown, difference.code_changed) {
        (true, _) => {
            "  the bytes approved before are not stored any more, so they cannot be compared"
        }
        (false, true) => "  in its code, which act cannot show",
        (false, false) => "  not in its code",
    }));
    let import =
        |sign: &'static str| move |name: &String| Line::plain(format!("  {sign} imports {name}"));
    lines.extend(difference.imports_added.iter().map(import("+")));
    lines.extend(difference.imports_removed.iter().map(import("-")));
    lines
}

/// Returns the differences that hold words of the author.
fn says_otherwise(difference: &Difference) -> Vec<Line> {
    let mut lines = needs(&difference.needs_added, "+ needs ");
    lines.extend(needs(&difference.needs_removed, "- needs "));
    lines.extend(difference.manifest.iter().flat_map(|change| changed("says", change)));
    lines.extend(difference.approval.iter().flat_map(|change| changed("may", change)));
    lines
}

fn changed(what: &str, change: &FieldChange) -> Vec<Line> {
    let line = |sign: &str, text: &String| {
        let field = &change.field;
        Line::of(Tone::Strong, format!("{sign} {what} {field}: ")).and(Tone::Plain, text)
    };
    let before = change.before.as_ref().map(|text| line("-", text));
    before.into_iter().chain(change.after.as_ref().map(|text| line("+", text))).collect()
}

/// Returns every text of the component that the Editor's model sees, to be quoted.
fn model_text_lines(text: &ModelText) -> Vec<Line> {
    let mut lines = vec![];
    for tool in &text.tools {
        lines.push(
            Line::of(Tone::Strong, format!("tool {}", tool.name))
                .and(Tone::Plain, format!(": {}", tool.description)),
        );
        lines.push(Line::of(Tone::Faint, "takes ").and(Tone::Plain, tool.parameters.to_string()));
    }
    if let Some(report) = &text.report {
        schema_lines("report", report, 0, &mut lines);
    }
    lines
}

/// Maximum indentation of a field; schemas nest up to 100 deep.
const MAX_INDENT: usize = 16;

/// Returns a schema as fields: one line with name, type and description for each, below it whatever else the schema says of
/// the field. No part of the schema is left out, because the model reads all of it.
fn schema_lines(name: &str, schema: &Value, depth: usize, lines: &mut Vec<Line>) {
    let indent = |depth: usize| "· ".repeat(depth.min(MAX_INDENT));
    let Value::Object(keywords) = schema else {
        lines.push(field_line(&indent(depth), name, &schema.to_string()));
        return;
    };
    let text = |keyword: &str| keywords.get(keyword).and_then(Value::as_str);
    let kind = match keywords.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) if kinds.iter().all(Value::is_string) => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => String::new(),
    };
    let mut about = kind.clone();
    if let Some(description) = text("description") {
        about.push_str(if about.is_empty() { "" } else { ", " });
        about.push_str(description);
    }
    lines.push(field_line(&indent(depth), name, if about.is_empty() { "any" } else { &about }));
    let required: Vec<&str> = match keywords.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("type", _) if !kind.is_empty() => {}
            ("description", Value::String(_)) => {}
            (
                "properties" | "$defs" | "definitions" | "patternProperties",
                Value::Object(fields),
            ) => {
                for (field, schema) in fields {
                    let label = match keyword.as_str() {
                        "properties" if required.contains(&field.as_str()) => {
                            format!("{field} (required)")
                        }
                        "properties" => field.clone(),
                        "patternProperties" => format!("fields like {field}"),
                        _ => format!("where {field}"),
                    };
                    schema_lines(&label, schema, depth + 1, lines);
                }
            }
            ("items" | "additionalProperties", Value::Object(_)) => {
                let label = if keyword == "items" { "each" } else { "other fields" };
                schema_lines(label, value, depth + 1, lines);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(choices)) => {
                for choice in choices {
                    schema_lines(keyword, choice, depth + 1, lines);
                }
            }
            ("required", Value::Array(names)) if names.iter().all(Value::is_string) => {
                // Those with a schema are marked there.
                let has_schema = |field: &str| {
                    keywords.get("properties").is_some_and(|fields| fields.get(field).is_some())
                };
                let others: Vec<_> =
                    required.iter().copied().filter(|field| !has_schema(field)).collect();
                if !others.is_empty() {
                    lines.push(field_line(&indent(depth + 1), "required", &others.join(", ")));
                }
            }
            _ => lines.push(field_line(&indent(depth + 1), keyword, &value.to_string())),
        }
    }
}

fn field_line(indent: &str, name: &str, about: &str) -> Line {
    Line::of(Tone::Faint, indent).and(Tone::Strong, name).and(Tone::Plain, format!(": {about}"))
}

/// Returns what `act components narrow` removed, which also holds for later versions of the component.
fn taken_away(narrowed: &Ceiling) -> Vec<Line> {
    if narrowed.is_nothing() {
        return vec![];
    }
    let bounds = narrowed.bounds();
    let mut words: Vec<_> = narrowed.withheld.iter().map(|name| format!("no {name}")).collect();
    if bounds != Grant::default() {
        words.extend(in_words(&bounds).iter().map(|word| format!("at most {word}")));
    }
    if bounds.limits != Grant::default().limits {
        words.push("lower limits".to_owned());
    }
    vec![row("narrowed", format!("{}; `approve --anew` restores it", words.join(", ")))]
}

/// Returns a size in the largest unit that is not above it.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn shown_lines(shown: &Shown) -> Vec<Line> {
    let component = &shown.component;
    let mut lines = component_lines(component);
    let mut author: Vec<_> = component.about.iter().map(Line::plain).collect();
    author.extend(needs(&component.needs, "needs "));
    author.extend(shown.says.iter().flat_map(model_text_lines));
    lines.push(Line::plain(AUTHOR));
    lines.extend(author.into_iter().map(Line::quoted));
    lines.push(Line::plain(FOUND));
    lines.push(row("sha256", &component.sha256));
    if let Some(Source { reference, digest, signed_by }) = &component.source {
        lines.push(row("from", format!("{reference} {digest}")));
        let key = signed_by.as_ref().map(|key| format!("with the key {key}"));
        lines.push(row("signed", key.unwrap_or_else(|| "with no key that was named".to_owned())));
    }
    lines.push(row("world", &component.world));
    lines.extend(imports(&component.imports));
    if !component.tools.is_empty() {
        lines.push(row("tools", component.tools.join(" ")));
    }
    lines.push(Line::plain(match (&component.approved_at, component.state) {
        (Some(time), _) => format!("Granted by you, {time}"),
        (None, State::Builtin) => "Granted because it is part of act".to_owned(),
        (None, _) => "Granted".to_owned(),
    }));
    lines.extend(may(&component.grants));
    lines.extend(taken_away(&component.narrowed));
    match &shown.effective {
        Some(effective) => {
            if grants_in_words(effective) != grants_in_words(&component.grants) {
                let why = "In force, because a grant counts only if the component needs it and policy.toml allows it:";
                lines.push(Line::plain(why));
                lines.extend(may(effective));
            }
            let limits = &effective.limits;
            let (memory, wall) = (bytes(limits.memory_bytes), limits.wall.as_millis());
            lines.push(row("limits", format!("{memory} of memory, {wall} ms for one query")));
        }
        None => lines.push(Line::of(Tone::Caution, "In force: nothing, it cannot be loaded")),
    }
    let used = &shown.used;
    lines.push(Line::plain("Used in the last 20 tasks"));
    if used.queries == 0 {
        lines.push(Line::plain("  it was not used"));
    } else {
        lines.push(row("queries", format!("{} in {} tasks", used.queries, used.tasks)));
        lines.push(row("used", used.grants.join(", ")));
        let parts = used.parts.as_ref().map(|parts| parts.join(" "));
        lines.extend(parts.filter(|parts| !parts.is_empty()).map(|parts| row("read in", parts)));
        for (name, list) in [("asked", &used.origins), ("variables", &used.env)] {
            if !list.is_empty() {
                lines.push(row(name, list.join(" ")));
            }
        }
        let (calls, tokens) = (used.most_calls, used.most_tokens);
        lines.push(row("at most", format!("{calls} calls and {tokens} tokens in one query")));
        lines.push(row("denials", used.denials.to_string()));
    }
    if !shown.never_used.is_empty() {
        lines.push(
            Line::of(Tone::Caution, "Never used: ").and(Tone::Plain, shown.never_used.join(", ")),
        );
    }
    lines.extend(
        shown.can_be_narrowed_with.as_ref().map(|command| {
            Line::of(Tone::Strong, "Can be narrowed with: ").and(Tone::Plain, command)
        }),
    );
    lines
}

fn why_lines(answer: &WhyDocument) -> Vec<Line> {
    let (tone, word, may) = match answer.allowed {
        true => (Tone::Good, "yes", "may"),
        false => (Tone::Bad, "no", "may not"),
    };
    let mut lines = vec![
        Line::of(tone, word)
            .and(Tone::Plain, format!(": {} {may} access {}", answer.name, answer.object)),
    ];
    for says in &answer.parties {
        let (tone, word) = if says.allows { (Tone::Good, "yes") } else { (Tone::Bad, "no ") };
        lines.push(Line::of(tone, format!("  {word} ")).and(Tone::Plain, party(says.party)));
    }
    lines.extend(answer.carved_out.as_ref().map(|rule| {
        let text = format!("host: denied to every component ({})", rule.replace('_', " "));
        Line::of(Tone::Bad, "  no  ").and(Tone::Plain, text)
    }));
    lines
}

fn party(party: Party) -> &'static str {
    match party {
        Party::Imports => "imports: what the component's code can call",
        Party::Needs => "needs: what its manifest declares",
        Party::Grants => "grants: what you granted to this component",
        Party::Ceiling => "ceiling: what the administrator's policy.toml allows",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    // CAPABILITY-21
    #[test]
    fn a_schema_is_shown_as_fields_and_nothing_of_it_is_left_out() {
        let schema = serde_json::json!({
            "type": "object",
            "title": "Licences",
            "required": ["files", "note"],
            "additionalProperties": false,
            "properties": {
                "files": {
                    "type": "array",
                    "description": "One per file",
                    "maxItems": 9,
                    "items": {"type": ["string", "null"], "pattern": "^a"},
                },
                "kind": {"enum": ["x", "y"]},
                "free": true,
                "type": {"$ref": "#/$defs/d"},
            },
            "$defs": {"d": {"anyOf": [{"const": 1}, {"type": "null"}]}},
        });
        let mut lines = vec![];
        schema_lines("report", &schema, 0, &mut lines);
        let text: Vec<_> =
            lines.iter().map(|line| line.render(false).trim_end().to_owned()).collect();
        let mut sorted = text.clone();
        sorted.sort();
        let mut expected = vec![
            "report: object",
            "· title: \"Licences\"",
            "· additionalProperties: false",
            "· required: note",
            "· files (required): array, One per file",
            "· · maxItems: 9",
            "· · each: string or null",
            "· · · pattern: \"^a\"",
            "· kind: any",
            "· · enum: [\"x\",\"y\"]",
            "· free: true",
            "· type: any",
            "· · $ref: \"#/$defs/d\"",
            "· where d: any",
            "· · anyOf: any",
            "· · · const: 1",
            "· · anyOf: null",
        ];
        expected.sort_unstable();
        assert_eq!(sorted, expected, "{text:#?}");
        assert_eq!(text[0], "report: object");
    }

    #[test]
    fn the_schema_of_an_approval_is_published() {
        // EVENT-8
        schema::document_holds::<Approved<'_>>();
        // The grants that remain of the component that the refusal names.
        schema::document_holds::<Narrowed<'_>>();
        schema::document_holds::<Revoked<'_>>();
    }
}
