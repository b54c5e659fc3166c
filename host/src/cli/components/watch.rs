//! `act components watch`: builds and tests a component whenever its sources change, and with `--dev` lets what was built
//! take part in tasks of this repository.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::languages::{Lang, Tools, world};
use super::{Question, answer, row, test};
use crate::cli::block_on;
use crate::conformance::Options;
use crate::output::{Line, Output, Tone};
use act_component::{Inspection, Manifest};
use act_core::Failure;
use act_core::exit::Exit;
use act_task::cancelled_by_signals;
use act_task::capabilities::{BuildFailed, Dev, DevOptions, DevProject, Rebuilt, Sources};

/// Default time limit of one build: the first one may compile all dependencies.
const BUILD_SECONDS: u64 = 600;
/// Time limit of one query of the test, as in `act components test`.
const QUERY: Duration = Duration::from_secs(30);
/// Pause between two looks at the sources.
const PAUSE: Duration = Duration::from_millis(300);
/// Number of builds in a row that changes during a build start. A build that changes its own sources would start the next one
/// for ever.
const MAX_AT_ONCE: usize = 3;
/// Lines of a failed build that are shown.
const SHOWN: usize = 30;
/// Maximum number of bytes of a manifest that is looked at for the name and kind of a project.
const MAX_MANIFEST: u64 = 256 << 10;

const AFTER_HELP: &str = "\
Examples:
  act components watch notes
  act components watch notes --dev
  act components watch . --dev --build 'make notes.wasm' --output notes.wasm

Exit codes:
  0 it was interrupted, 1 refused: the project, the approval, or a build
  that asks for more than was approved";

/// Build and test a component whenever its sources change
///
/// The build is a command of yours, by default that of the project's language. With `--dev` what was built takes part in
/// tasks of this repository until the command ends: you approve once, and a build that asks for more stops and asks.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Watch {
    /// Directory of the component's project
    #[arg(value_name = "DIR")]
    project: PathBuf,
    /// Let what is built take part in tasks of this repository until the command ends
    #[arg(long)]
    dev: bool,
    /// Name of the component in tasks; by default that of its manifest
    #[arg(long, requires = "dev")]
    name: Option<String>,
    /// Name of the built-in component that it replaces
    #[arg(long, value_name = "BUILTIN", requires = "dev")]
    replaces: Option<String>,
    /// Do not grant this need; may be repeated
    #[arg(long, value_name = "GRANT", requires = "dev")]
    without: Vec<String>,
    /// Digest of the first build that you have reviewed; required without a terminal
    #[arg(long, value_name = "HEX", requires = "dev")]
    sha256: Option<String>,
    /// Command for a shell in that directory, in place of the language's own
    #[arg(long, value_name = "COMMAND", requires = "output")]
    build: Option<String>,
    /// The component that the command writes, below that directory
    #[arg(long, value_name = "FILE", requires = "build")]
    output: Option<String>,
    /// Time limit of one build, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = BUILD_SECONDS, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    build_timeout: u64,
}

impl Watch {
    pub(super) fn run(self, start: PathBuf, output: &Output) -> Result<Exit, Failure> {
        block_on(async {
            let stopped = cancelled_by_signals()?;
            let project = self.project(&start)?;
            let options = DevOptions {
                name: self.name,
                replaces: self.replaces,
                without: self.without,
                start,
            };
            let mut watching = Watching {
                longest: Duration::from_secs(self.build_timeout),
                sha256: self.sha256,
                options: self.dev.then_some(options),
                session: None,
                project,
                stopped,
                output,
            };
            let ended = watching.go_on().await;
            let recorded = watching.session.take().map(Dev::end).transpose();
            ended?;
            recorded?;
            Ok(Exit::Ok)
        })?
    }

    /// Returns the project with the user's build, or else that of its language.
    fn project(&self, start: &Path) -> Result<DevProject, Failure> {
        if let (Some(build), Some(output)) = (&self.build, &self.output) {
            return DevProject::open(&self.project, build.clone(), output.clone());
        }
        let unknown = |why: String| {
            Failure::refused("project_unusable", format!("{}: {why}", self.project.display()))
                .hint("name a directory that `act components new` has created, or say --build and --output")
        };
        let lang = Lang::of(&self.project).ok_or_else(|| {
            unknown("it has no Cargo.toml, package.json or requirements.txt".into())
        })?;
        let manifest = act_fs::Dir::open_following(&self.project)
            .and_then(|dir| dir.read("manifest.json", MAX_MANIFEST))
            .map_err(|error| unknown(format!("manifest.json cannot be read: {error}")))?;
        let manifest = Manifest::parse(&manifest)
            .map_err(|error| unknown(format!("manifest.json: {error}")))?;
        // The name becomes a part of a command, and the name of an approval is safe there.
        let name = act_task::capabilities::free_name(&manifest.name)?;
        let repo = act_config::find_root(start).ok().flatten().map(|root| root.path);
        let tools = Tools::find(lang, repo.as_deref());
        if let Some(what) = tools.missing.first() {
            let message = format!("this machine lacks {what}");
            return Err(Failure::refused("tools_missing", message)
                .hint("install it, or say --build and --output"));
        }
        let writes = manifest.needs.iter().any(|need| need.grant == "repo.write");
        let build = tools.script(name.as_str(), world(manifest.kind, writes));
        DevProject::open(&self.project, build, tools.output(name.as_str()))
    }
}

/// The command while it runs.
struct Watching<'o> {
    project: DevProject,
    longest: Duration,
    /// What the user wants of a session; `None` without `--dev`.
    options: Option<DevOptions>,
    sha256: Option<String>,
    session: Option<Dev>,
    stopped: CancellationToken,
    output: &'o Output,
}

impl Watching<'_> {
    /// Builds and tests until a signal ends the command.
    ///
    /// # Errors
    ///
    /// The approval was refused, at the start or for a build that asks for more.
    async fn go_on(&mut self) -> Result<(), Failure> {
        let mut at_once = 0;
        loop {
            let before = self.project.sources();
            if self.round().await?.is_break() {
                return Ok(());
            }
            self.output.progress(&Line::of(Tone::Faint, "Waiting for a change; Ctrl-C ends."));
            let after = self.project.sources();
            at_once = if after == before { 0 } else { at_once + 1 };
            let seen = if at_once < MAX_AT_ONCE { before } else { after };
            if !self.changed(seen).await {
                return Ok(());
            }
        }
    }

    /// Waits until the sources differ from `seen` and are no longer being written. Returns false after a signal.
    async fn changed(&self, seen: Sources) -> bool {
        let mut last = seen.clone();
        loop {
            let now = self.project.sources();
            if now != seen && now == last {
                return true;
            }
            last = now;
            tokio::select! {
                () = self.stopped.cancelled() => return false,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// Builds once, and tests what was built.
    async fn round(&mut self) -> Result<ControlFlow<()>, Failure> {
        let directory = self.project.path.display();
        let building = format!("Building in {directory}: {}", self.project.build);
        self.output.progress(&Line::of(Tone::Faint, building));
        let stopped = self.stopped.clone();
        match self.project.build(self.longest, || stopped.is_cancelled()) {
            Ok(()) => {}
            Err(BuildFailed::Stopped) => return Ok(ControlFlow::Break(())),
            Err(failed) => {
                self.build_failed(&failed);
                return Ok(ControlFlow::Continue(()));
            }
        }
        let built = match self.project.component() {
            Ok(built) => built,
            Err(failure) => {
                self.not_in_force(&failure);
                return Ok(ControlFlow::Continue(()));
            }
        };
        let bytes = built.bytes.to_vec();
        self.let_in(built)?;
        let options = Options {
            question: test::USUAL.to_owned(),
            context: vec![],
            script: None,
            wall: QUERY,
            cache: act_component::cache_dir(),
        };
        match test::until_stopped(bytes, options, &self.stopped).await {
            Ok(found) => answer(self.output, &found, || test::lines(&found)),
            Err(failure) if failure.exit == Exit::Cancelled => return Ok(ControlFlow::Break(())),
            Err(failure) => self.output.caution(&failure.message),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Begins the session with the first build, or puts a later one in force.
    ///
    /// # Errors
    ///
    /// The user did not agree, or a session cannot begin here.
    fn let_in(&mut self, built: Inspection) -> Result<(), Failure> {
        let Some(options) = &self.options else { return Ok(()) };
        let (stopped, more) = (self.stopped.clone(), self.terms());
        let is_wanted = || !stopped.is_cancelled();
        let events = || self.output.events();
        let Some(session) = &mut self.session else {
            // The events are dropped before the question; otherwise progress would be drawn over the user's input.
            let proposal = options.propose(built, &events())?;
            let question = Question {
                text: "Type `yes` to let this build and later ones take part within these terms:",
                more,
                sha256: self.sha256.take(),
                is_answered: false,
            };
            question.put(&proposal, self.output, is_wanted)?;
            let session = options.clone().begin(&proposal, &events())?;
            self.in_force(&session);
            self.session = Some(session);
            return Ok(());
        };
        match session.rebuilt(built, &events()) {
            Ok(Rebuilt::InForce) => {}
            // Without the administrator's leave no component of a session is loaded.
            Err(failure) if failure.code == "dev_not_allowed" => return Err(failure),
            Err(failure) => {
                self.not_in_force(&failure);
                return Ok(());
            }
            Ok(Rebuilt::AsksForMore { more: wider, proposal }) => {
                let wider = wider.join("; ");
                self.output
                    .caution(&format!("this build asks for more than you approved: {wider}"));
                let question = Question {
                    text: "Type `yes` to let this build and later ones take part within these wider terms:",
                    more,
                    sha256: None,
                    is_answered: false,
                };
                question.put(&proposal, self.output, is_wanted).map_err(|_| {
                    let message = format!(
                        "a build asks for more than was approved, so the session has ended: {wider}"
                    );
                    Failure::refused("dev_asks_for_more", message)
                        .hint("start the command again to approve it from the beginning")
                })?;
                session.widen(&proposal)?;
            }
        }
        if let Some(session) = &self.session {
            self.in_force(session);
        }
        Ok(())
    }

    /// What the question says beside the proposal: which command builds, and how long the answer holds.
    fn terms(&self) -> Vec<Line> {
        let directory = self.project.path.display().to_string();
        vec![
            row("until", "this command ends; every build within these terms takes part"),
            row("built in", directory).quoted(),
            row("built by", &self.project.build).quoted(),
        ]
    }

    fn in_force(&self, session: &Dev) {
        let text = format!(" sha256 {} in this repository", session.sha256());
        self.output.progress(&Line::of(Tone::Good, "In force").and(Tone::Plain, text));
    }

    fn build_failed(&self, failed: &BuildFailed) {
        self.output.caution(&failed.to_string());
        if let BuildFailed::Failed { output, .. } = failed {
            let lines: Vec<_> = output.lines().collect();
            let shown = lines.iter().skip(lines.len().saturating_sub(SHOWN));
            shown.for_each(|line| self.output.progress(&Line::plain(*line).quoted()));
        }
    }

    fn not_in_force(&self, failure: &Failure) {
        let before = match &self.session {
            Some(_) => "; the build before stays in force",
            None => "",
        };
        let hint = failure.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        self.output.caution(&format!("{}{before}{hint}", failure.message));
    }
}
