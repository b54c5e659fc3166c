//! `act components watch`: builds a component again whenever its author changes it. With `--dev` what was built takes part
//! in tasks of one repository until the command ends, within the terms that the user approved at its start.
//!
//! The build is a command of the user. What it leaves is taken for the work of an attacker: the file is opened once, by handle
//! and through no link, at most 64 MiB of it are read, and these bytes are hashed, checked in a process with limits and
//! stored.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;

use super::pack::{MAX_MANIFEST, not_a_manifest};
use super::{Approve, Candidate, Proposal, RepoRegistry, free_name, not_a_component, propose};
use crate::audit::anchor;
use crate::prepare;
use act_audit::Audit;
use act_component::registry::{DevSession, DevTerms, NewSession, Policy};
use act_component::{Inspection, MAX_WASM, ManifestError};
use act_core::Failure;
use act_core::event::Events;
use act_core::user_command::ProcessGroup;
use act_fs::{READ, Root, read_bounded, regular};

/// Bytes of a build's output that are kept: its end, in which compilers report their errors.
const KEPT_OUTPUT: usize = 16 << 10;
/// Maximum number of files of a project that are looked at for changes. A component has some dozens.
const MAX_FILES: usize = 20_000;
/// Maximum depth of a project's directories.
const MAX_DEPTH: usize = 32;
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum wait for the rest of a build's output after its processes were killed.
const LAST_BYTES: Duration = Duration::from_millis(500);
/// Variables that begin so are settings of act, or keys of models. No build needs them.
const OURS: [&str; 4] = ["ACT_", "AGENT_", "ANTHROPIC_", "OPENAI_"];
const MANIFEST: &str = "manifest.json";

/// A directory with the sources of a component, and how it is built.
#[derive(Debug)]
pub struct DevProject {
    root: Root,
    pub path: PathBuf,
    /// The user's command, for `/bin/sh` in that directory.
    pub build: String,
    /// The component that the command writes, below that directory.
    pub output: String,
}

/// Why there is nothing new after a build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildFailed {
    #[error("the build cannot be started: {0}")]
    NotStarted(String),
    #[error("the build did not end within {} s and was killed; --build-timeout gives it more", .0.as_secs())]
    TooSlow(Duration),
    #[error("stopped")]
    Stopped,
    #[error("the build failed: {why}")]
    Failed {
        why: String,
        /// The end of what it printed.
        output: String,
    },
}

impl DevProject {
    /// Opens the directory of a project.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn open(path: &Path, build: String, output: String) -> Result<Self, Failure> {
        let unusable = |why: String| {
            Failure::refused("project_unusable", format!("{}: {why}", path.display()))
                .hint("name the directory of a component, as `act components new` creates it")
        };
        let root = Root::open(path).map_err(|errno| unusable(errno.to_string()))?;
        let path = std::path::absolute(path).map_err(|error| unusable(error.to_string()))?;
        Ok(Self { root, path, build, output })
    }

    /// Runs the build, and kills all that it started when it has ended, after `longest`, or when `is_stopped` says so.
    ///
    /// # Errors
    ///
    /// A [`BuildFailed`].
    pub fn build(
        &self,
        longest: Duration,
        is_stopped: impl Fn() -> bool,
    ) -> Result<(), BuildFailed> {
        let not_started = |error: io::Error| BuildFailed::NotStarted(error.to_string());
        let (reader, writer) = io::pipe().map_err(not_started)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &self.build]).current_dir(&self.path).process_group(0);
        command.stdin(Stdio::null());
        command.stdout(writer.try_clone().map_err(not_started)?).stderr(writer);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_none_or(|name| OURS.iter().any(|ours| name.starts_with(ours))) {
                command.env_remove(name);
            }
        }
        let mut child = ProcessGroup(command.spawn().map_err(not_started)?);
        // It holds this end of the pipe as well, so the output would not end.
        drop(command);
        let output = Arc::new(BuildOutput::default());
        let printed = Arc::clone(&output);
        std::thread::spawn(move || printed.fill(reader));
        let end = Instant::now() + longest;
        let stopped = loop {
            match () {
                () if child.has_ended() => break None,
                () if is_stopped() => break Some(BuildFailed::Stopped),
                () if Instant::now() >= end => break Some(BuildFailed::TooSlow(longest)),
                () => std::thread::sleep(PAUSE),
            }
        };
        let status = child.kill().map_err(not_started)?;
        match stopped {
            Some(stopped) => Err(stopped),
            None if status.success() => Ok(()),
            None => {
                let why = match (status.code(), status.signal()) {
                    (Some(code), _) => format!("exit code {code}"),
                    (None, signal) => format!("signal {}", signal.unwrap_or_default()),
                };
                Err(BuildFailed::Failed { why, output: output.end() })
            }
        }
    }

    /// Reads what the build has left, once, and inspects it with the manifest of the project.
    ///
    /// # Errors
    ///
    /// The file or the manifest is missing, behind a link, no regular file or too large, or the bytes are not a component
    /// within the limits for a stranger's.
    pub fn component(&self) -> Result<Inspection, Failure> {
        let bytes = self.read(&self.output, MAX_WASM)?;
        let bytes = bytes.ok_or_else(|| self.unreadable(&self.output, "does not exist"))?;
        // A project may pack the manifest itself.
        let bytes = match self.read(MANIFEST, MAX_MANIFEST)? {
            None => bytes,
            Some(manifest) => {
                act_component::pack_manifest(&bytes, &manifest).map_err(|error| match error {
                    ManifestError::NotAComponent(_) => not_a_component(&self.output, &error),
                    _ => not_a_manifest(&self.path.join(MANIFEST), &error),
                })?
            }
        };
        Inspection::of_stranger(bytes).map_err(|error| not_a_component(&self.output, &error))
    }

    /// Reads a file below the directory, through no link; `None` if it does not exist.
    fn read(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>, Failure> {
        let opened = match self.root.open_real(path.as_bytes(), READ) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(self.unreadable(path, "is behind a link, which act does not follow"));
            }
            Err(Errno::XDEV) => {
                return Err(self.unreadable(path, "lies outside of the project's directory"));
            }
            Err(errno) => return Err(self.unreadable(path, &errno.to_string())),
        };
        let read = regular(opened.into()).and_then(|file| read_bounded(file, most));
        read.map(Some).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                self.unreadable(path, &format!("is larger than {most} bytes"))
            }
            _ => self.unreadable(path, &error.to_string()),
        })
    }

    fn unreadable(&self, path: &str, why: &str) -> Failure {
        let message = format!("{} {why}", self.path.join(path).display());
        Failure::refused("component_unreadable", message)
            .hint("--build names the command that builds, and --output the built file in the project's directory")
    }

    /// Returns the files of the project with the times of their changes, without those that builds write.
    pub fn sources(&self) -> Sources {
        let (mut found, mut directories) = (BTreeMap::new(), vec![(self.path.clone(), 0)]);
        while let Some((directory, depth)) = directories.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                if found.len() >= MAX_FILES {
                    return Sources(found);
                }
                let name = entry.file_name();
                // Neither this nor the kind follows a link.
                let Ok(status) = entry.metadata() else { continue };
                if is_written_by_builds(&name.to_string_lossy()) {
                    continue;
                }
                if status.is_dir() && depth < MAX_DEPTH {
                    directories.push((entry.path(), depth + 1));
                } else if !status.is_dir() {
                    let changed = status.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.insert(entry.path(), (changed, status.len()));
                }
            }
        }
        Sources(found)
    }
}

/// Files that builds write, which start no other build: those of the package managers, hidden ones, and components.
fn is_written_by_builds(name: &str) -> bool {
    const NAMES: [&str; 5] =
        ["target", "node_modules", "__pycache__", "Cargo.lock", "package-lock.json"];
    name.starts_with('.') || name.ends_with(".wasm") || NAMES.contains(&name)
}

/// The files of a project at one time. Two values are equal when no file was changed between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources(BTreeMap<PathBuf, (SystemTime, u64)>);

/// The end of what a build has printed so far.
#[derive(Debug, Default)]
struct BuildOutput {
    bytes: Mutex<VecDeque<u8>>,
    ended: AtomicBool,
}

impl BuildOutput {
    fn fill(&self, mut pipe: impl Read) {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = pipe.read(&mut piece) {
            let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.extend(&piece[..read]);
            let beyond = bytes.len().saturating_sub(KEPT_OUTPUT);
            bytes.drain(..beyond);
        }
        self.ended.store(true, Ordering::Release);
    }

    /// Returns the last lines. The processes were killed, so the pipe ends soon unless one has left their group.
    fn end(&self) -> String {
        let last = Instant::now() + LAST_BYTES;
        while !self.ended.load(Ordering::Acquire) && Instant::now() < last {
            std::thread::sleep(PAUSE);
        }
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let text: Vec<u8> = bytes.iter().copied().collect();
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// What the user asked a session for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevOptions {
    /// The name in tasks; by default that of the manifest.
    pub name: Option<String>,
    pub replaces: Option<String>,
    /// Needs that are not granted.
    pub without: Vec<String>,
    pub start: PathBuf,
}

impl DevOptions {
    /// Checks what a build would be granted in a session of the repository in use. Decides nothing.
    ///
    /// # Errors
    ///
    /// The policy forbids sessions (`dev_not_allowed`), the name is approved, or the component could not be approved.
    pub fn propose(&self, build: Inspection, events: &Events) -> Result<Proposal, Failure> {
        let here = RepoRegistry::open(&self.start)?;
        allowed(&here.registry.policy)?;
        let name = self.name.clone().unwrap_or_else(|| build.manifest.name.clone());
        let name = free_name(&name)?;
        let in_force = here.registry.grants.get(name.as_str());
        if in_force.is_some_and(|approval| approval.revoked_at.is_none()) {
            let message = format!("`{name}` is approved already");
            return Err(Failure::refused("component_conflict", message)
                .hint("choose another --name, or revoke the approval"));
        }
        // A later build may not need any more what the user withheld.
        let needed = |grant: &&String| build.needs().iter().any(|need| need.grant == **grant);
        let args = Approve {
            name: name.to_string(),
            replaces: self.replaces.clone(),
            here: true,
            everywhere: false,
            without: self.without.iter().filter(needed).cloned().collect(),
            anew: false,
            tokens: None,
            seconds: None,
            allow_local: vec![],
            component: Candidate::Built(Box::new(build)),
            start: self.start.clone(),
        };
        propose(args, events)
    }

    /// Begins the session, after the user has agreed to the proposal.
    ///
    /// # Errors
    ///
    /// The name was approved meanwhile, or the decision cannot be recorded or written.
    pub fn begin(self, agreed: &Proposal, events: &Events) -> Result<Dev, Failure> {
        let here = RepoRegistry::open(&self.start)?;
        let repo = here.registry.repo.ok_or_else(|| {
            Failure::refused(
                "no_repository",
                "there is no repository here or in a parent directory",
            )
            .hint("change into the repository whose tasks the component should take part in")
        })?;
        let audit = self.audit()?;
        anchor::before(Some(&repo.root), &audit)?;
        let new = NewSession {
            name: agreed.name.clone(),
            grant: agreed.grant.clone(),
            replaces: agreed.replaces.clone(),
            repo,
        };
        let root = new.repo.root.clone();
        let session = DevSession::begin(new, &agreed.inspection, &audit)?;
        anchor::after(Some(&root), &audit, events);
        Ok(Dev { terms: terms(agreed), session, options: self })
    }

    fn audit(&self) -> Result<Audit, Failure> {
        let root = act_config::find_root(&self.start)?.map(|root| root.path);
        let artifacts = prepare::artifacts_for(root.as_deref())?;
        prepare::audit(&artifacts, &prepare::store(&artifacts)?)
    }
}

fn terms(agreed: &Proposal) -> DevTerms {
    let Proposal { inspection, grant, .. } = agreed;
    DevTerms {
        kind: inspection.kind(),
        manifest_name: inspection.manifest.name.clone(),
        imports: inspection.imports.clone(),
        grant: grant.clone(),
    }
}

fn allowed(policy: &Policy) -> Result<(), Failure> {
    if policy.allow_dev {
        return Ok(());
    }
    let message =
        "the administrator's policy.toml forbids development sessions (`allow_dev = false`)";
    Err(Failure::refused("dev_not_allowed", message)
        .hint("leave --dev out, or approve what is built with `act components approve`"))
}

/// A session that has begun. Its component takes part in tasks of the repository until the end of this value.
#[derive(Debug)]
pub struct Dev {
    options: DevOptions,
    terms: DevTerms,
    session: DevSession,
}

/// What became of another build.
#[derive(Debug)]
pub enum Rebuilt {
    InForce,
    /// It asks for more than was approved; the build before stays in force.
    AsksForMore {
        more: Vec<String>,
        proposal: Box<Proposal>,
    },
}

impl Dev {
    /// Puts another build in the place of the one before, if it stays within the terms.
    ///
    /// # Errors
    ///
    /// The component could not be approved, the policy forbids sessions by now, or the bytes cannot be recorded or written.
    pub fn rebuilt(&mut self, build: Inspection, events: &Events) -> Result<Rebuilt, Failure> {
        let proposal = self.options.propose(build, events)?;
        let more = self.terms.exceeded_by(&proposal.inspection, &proposal.grant);
        if !more.is_empty() {
            return Ok(Rebuilt::AsksForMore { more, proposal: Box::new(proposal) });
        }
        self.session.rebuilt(&proposal.inspection, None, &self.options.audit()?)?;
        Ok(Rebuilt::InForce)
    }

    /// Puts a build in force that asked for more, after the user has agreed. Its terms are those of the session now.
    ///
    /// # Errors
    ///
    /// The decision cannot be recorded or written.
    pub fn widen(&mut self, agreed: &Proposal) -> Result<(), Failure> {
        let audit = self.options.audit()?;
        self.session.rebuilt(&agreed.inspection, Some(agreed.grant.clone()), &audit)?;
        self.terms = terms(agreed);
        Ok(())
    }

    /// The digest that is in force.
    pub fn sha256(&self) -> &str {
        self.session.sha256()
    }

    /// Ends the session.
    ///
    /// # Errors
    ///
    /// The end cannot be recorded; the session has ended all the same.
    pub fn end(self) -> Result<(), Failure> {
        let audit = self.options.audit();
        Ok(self.session.end(&audit?)?)
    }
}
