//! The command of `notify` in `config.toml`: it learns when a task ends and when a task begins to need a person.
//!
//! A sink turns the events of the task into documents and never waits. One worker starts the command for each document, one
//! after the other. [`Notifier::finish`] waits until the last one has ended, so that a process that ends with its task does not
//! lose them. How the command ends changes nothing about the task; the first failure is said once.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::attention::{Attention, OpenQuestions, Situation, needs_person};
use crate::repository::repository;
use act_core::event::{Event, EventKind, Sink, TaskWorktree};
use act_core::secret::Secrets;
use act_core::user_command::{ENVIRONMENT, ProcessGroup, UnfitCommand, UserCommand};
use act_core::{Document, Repo, Schema, TaskState, terminal_text};
use act_records::store::Worktree;

/// Maximum time of one command: enough for a slow web server, and not so long that somebody who waits for `act` wonders.
const LONGEST: Duration = Duration::from_secs(10);
/// The same limit after the user cancelled the task, who wants the process to end.
const LONGEST_CANCELLED: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// The document that the command reads on its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Notification {
    pub event: NotificationEvent,
    /// The id of the task.
    pub task: String,
    /// The repository as it is when the command starts.
    pub repo: Repo,
    /// The worktree in which the task works; omitted for a task that works in the repository itself. `head` and `dirty` of `repo`
    /// are its.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<TaskWorktree>,
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub state: TaskState,
    /// The newest run of the task; null if there was none.
    pub run: Option<String>,
    /// Path of the stuck report from the repository's root; null if the task wrote none.
    pub report: Option<String>,
    /// Why the task ended, as a stable word; null for a success, a proposal and a task that has not ended.
    pub reason: Option<String>,
    /// Why a person is needed; null with `task_ended`.
    pub needs: Option<Attention>,
}

impl Document for Notification {
    const NAME: &'static str = "notification";
}

/// The kind of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub enum NotificationEvent {
    /// The task has ended, in whatever way.
    TaskEnded,
    /// The task needs a person from now on.
    NeedsPerson,
}

/// A notification as the sink makes it; the worker completes it with the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Happened {
    event: NotificationEvent,
    task: String,
    state: TaskState,
    run: Option<String>,
    report: Option<String>,
    reason: Option<String>,
    needs: Option<Attention>,
}

/// The worker of one task.
pub(super) struct Notifier {
    /// Nothing more happens, whatever the sink has got.
    closed: CancellationToken,
    trouble: Arc<Mutex<Trouble>>,
    worker: JoinHandle<()>,
}

/// The first failure of the command.
#[derive(Debug, Default)]
struct Trouble {
    said: bool,
    warning: Option<String>,
}

impl Trouble {
    fn take(of: &Mutex<Self>) -> Option<String> {
        of.lock().unwrap_or_else(PoisonError::into_inner).warning.take()
    }
}

impl Notifier {
    /// Starts the worker. Returns it with the sink that feeds it.
    pub(super) fn start(
        command: UserCommand,
        (root, worktree): (&Path, Option<Worktree>),
        secrets: Secrets,
        cancel: &CancellationToken,
    ) -> (Self, Box<dyn Sink>) {
        let (sender, receiver) = unbounded_channel();
        let trouble = Arc::new(Mutex::new(Trouble::default()));
        let closed = CancellationToken::new();
        let worker = Worker {
            closed: closed.clone(),
            command,
            root: root.to_owned(),
            worktree,
            secrets,
            cancel: cancel.clone(),
            trouble: Arc::clone(&trouble),
        };
        let sink = NotifySink {
            sender,
            run: None,
            report: None,
            questions: OpenQuestions::default(),
            trouble: Arc::clone(&trouble),
        };
        (Self { closed, trouble, worker: tokio::spawn(worker.work(receiver)) }, Box::new(sink))
    }

    /// Waits until the command has ended for every document; the sink got the end of the task before. Returns a warning about
    /// the first failure, unless the sink has returned it.
    pub(super) async fn finish(self) -> Option<String> {
        self.closed.cancel();
        // A worker that panicked has said so on stderr.
        let _ = self.worker.await;
        Trouble::take(&self.trouble)
    }
}

/// Turns events into documents.
struct NotifySink {
    sender: UnboundedSender<Happened>,
    run: Option<String>,
    report: Option<String>,
    questions: OpenQuestions,
    trouble: Arc<Mutex<Trouble>>,
}

impl NotifySink {
    /// Returns what has happened by this event (pure, except for what the sink remembers).
    fn take(&mut self, event: &Event) -> Vec<Happened> {
        let asked = self.questions.is_open();
        self.questions.take(&event.kind);
        let happened = |event_of, state, reason: Option<String>, needs| Happened {
            event: event_of,
            task: event.task_id.clone(),
            state,
            run: None,
            report: None,
            reason,
            needs,
        };
        let mut all = vec![];
        match &event.kind {
            EventKind::VerifyStarted { run_id, .. } => self.run = Some(run_id.clone()),
            EventKind::ReportWritten { path, .. } => self.report = Some(path.clone()),
            EventKind::ConsentAsked { .. } => {
                let (state, asks) = (TaskState::Running, self.questions.is_open() && !asked);
                let needs = needs_person(Situation {
                    state,
                    reason: None,
                    asks,
                    stalled: false,
                    cancel_requested: false,
                    settled: false,
                });
                if needs.is_some() {
                    all.push(happened(NotificationEvent::NeedsPerson, state, None, needs));
                }
            }
            EventKind::TaskFinished { state, run_id, reason, report_path, .. } => {
                self.run = run_id.clone().or(self.run.take());
                self.report = report_path.clone().or(self.report.take());
                let situation = Situation {
                    state: *state,
                    reason: reason.as_deref(),
                    asks: false,
                    stalled: false,
                    cancel_requested: false,
                    settled: false,
                };
                let needs = needs_person(situation);
                all.push(happened(NotificationEvent::TaskEnded, *state, reason.clone(), None));
                if needs.is_some() {
                    let event = NotificationEvent::NeedsPerson;
                    all.push(happened(event, *state, reason.clone(), needs));
                }
            }
            _ => {}
        }
        for one in &mut all {
            (one.run, one.report) = (self.run.clone(), self.report.clone());
        }
        all
    }
}

impl Sink for NotifySink {
    fn event(&mut self, event: &Event) {
        for happened in self.take(event) {
            // The worker ends before the sink only by a fault of act.
            let _ = self.sender.send(happened);
        }
    }

    fn take_warning(&mut self) -> Option<String> {
        Trouble::take(&self.trouble)
    }
}

struct Worker {
    closed: CancellationToken,
    command: UserCommand,
    root: PathBuf,
    worktree: Option<Worktree>,
    secrets: Secrets,
    cancel: CancellationToken,
    trouble: Arc<Mutex<Trouble>>,
}

impl Worker {
    async fn work(self, mut receiver: UnboundedReceiver<Happened>) {
        loop {
            let happened = tokio::select! {
                biased;
                happened = receiver.recv() => happened,
                () = self.closed.cancelled() => None,
            };
            let Some(happened) = happened else { return };
            let text = self.document(happened).await;
            let (command, cancel) = (self.command.clone(), self.cancel.clone());
            let of = self.worktree.as_ref().map(|worktree| PathBuf::from(&worktree.of));
            let repositories: Vec<_> =
                [Some(self.root.clone()), of].into_iter().flatten().collect();
            let ended = tokio::task::spawn_blocking(move || {
                let longest = || if cancel.is_cancelled() { LONGEST_CANCELLED } else { LONGEST };
                let command = still_fit(command, &repositories)?;
                run(&command, &text, &longest)
            });
            if let Ok(Err(failure)) = ended.await {
                self.failed(&failure);
            }
        }
    }

    /// Returns the document as one line of JSON without keys.
    async fn document(&self, happened: Happened) -> String {
        let Happened { event, task, state, run, report, reason, needs } = happened;
        let root = self.root.clone();
        // A thread that cannot be waited for has panicked and said so on stderr.
        let mut repo =
            tokio::task::spawn_blocking(move || repository(&root)).await.unwrap_or_default();
        let worktree = self.worktree.as_ref().map(|worktree| {
            repo.path = Some(worktree.of.clone());
            repo.identity = Some(worktree.home.clone());
            worktree.at(&self.root.display().to_string())
        });
        let document =
            Notification { event, task, repo, worktree, state, run, report, reason, needs };
        let text = Schema::Second.to_json(&document);
        format!("{}\n", terminal_text::json(&self.secrets.redact(&text)))
    }

    fn failed(&self, failure: &CommandFailure) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut trouble.said, true) {
            let program = self.command.program().escape_debug();
            trouble.warning = Some(format!(
                "the command `{program}` of `notify` in config.toml {failure}; the task goes on and ends as if there were none. \
                 To see why, run the command by hand with a document on its standard input"
            ));
        }
    }
}

/// Why the command did not do its work. Nothing that it printed is part of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum CommandFailure {
    #[error("{0}")]
    Unfit(UnfitCommand),
    #[error("cannot be started: {0}")]
    NotStarted(std::io::ErrorKind),
    #[error("did not end within {} s and was killed", .0.as_secs())]
    TooSlow(Duration),
    #[error("failed ({0})")]
    Failed(ExitStatus),
}

/// Checks the files of the command again. They were checked when the task began, and a link that led nowhere then may lead to a
/// file that the task has made since.
fn still_fit(
    command: UserCommand,
    repositories: &[PathBuf],
) -> Result<UserCommand, CommandFailure> {
    let path = std::env::var_os("PATH");
    let check = |command: UserCommand, repo: &PathBuf| {
        command.found_outside_of(Some(repo), path.as_deref()).map_err(CommandFailure::Unfit)
    };
    repositories.iter().try_fold(command, check)
}

/// Runs the command with `input` on its standard input. Its process group ends with it, and at the latest after the time that
/// `longest` returns.
fn run(
    command: &UserCommand,
    input: &str,
    longest: &dyn Fn() -> Duration,
) -> Result<(), CommandFailure> {
    let begun = Instant::now();
    let mut started = command.command();
    let kept = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    started.env_clear().envs(kept).envs(command.path().map(|path| ("PATH", path)));
    started.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = started.spawn().map_err(|error| CommandFailure::NotStarted(error.kind()))?;
    let mut group = ProcessGroup(started);
    if let Some(mut stdin) = group.0.stdin.take() {
        let input = input.to_owned();
        // A command that does not read, or a process that it left behind, must not hold up the time limit.
        std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
    let leader = Pid::from_child(&group.0);
    loop {
        // The first process stays a zombie until its group is gone, so that its number means nothing else meanwhile.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(leader), options) {
            Ok(Some(_)) => break,
            Ok(None) => {}
            Err(error) => {
                let _ = group.kill();
                return Err(CommandFailure::NotStarted(error.kind()));
            }
        }
        let longest = longest();
        if begun.elapsed() >= longest {
            let _ = group.kill();
            return Err(CommandFailure::TooSlow(longest));
        }
        std::thread::sleep(PAUSE);
    }
    let _ = kill_process_group(leader, Signal::KILL);
    match group.0.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CommandFailure::Failed(status)),
        Err(_) => Err(CommandFailure::Failed(ExitStatus::from_raw(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::{Events, Milestone, schema};
    use act_core::exit::Exit;

    fn command(script: &str) -> UserCommand {
        UserCommand::new(["/bin/sh", "-c", script].map(str::to_owned).to_vec()).unwrap()
    }

    fn run_for(script: &str, seconds: u64) -> Result<(), CommandFailure> {
        run(&command(script), "{}\n", &|| Duration::from_secs(seconds))
    }

    #[test]
    fn the_schema_of_a_notification_is_published() {
        // EVENT-8
        schema::document_holds::<Notification>();
    }

    // NOTIFY-4
    #[test]
    fn the_command_reads_the_document_and_sees_a_small_environment_and_the_root_directory() {
        let temp = tempfile::tempdir().unwrap();
        let out = temp.path().join("out");
        let script = format!("{{ cat; pwd; env | cut -d= -f1 | sort; }} > {}", out.display());
        run(&command(&script), "{\"a\":1}\n", &|| Duration::from_secs(60)).unwrap();
        let text = std::fs::read_to_string(out).unwrap();
        let mut lines = text.lines();
        assert_eq!((lines.next(), lines.next()), (Some("{\"a\":1}"), Some("/")));
        for name in lines {
            // A shell sets some by itself.
            let own = ["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name);
            assert!(own || ENVIRONMENT.contains(&name), "{name}");
        }
    }

    // NOTIFY-5
    #[test]
    fn a_command_that_fails_hangs_or_does_not_exist_is_told_apart() {
        assert_eq!(run_for("cat > /dev/null", 60), Ok(()));
        assert_eq!(run_for("exit 0", 60), Ok(()), "a command need not read");
        assert!(
            matches!(run_for("exit 3", 60), Err(CommandFailure::Failed(status)) if status.code() == Some(3))
        );
        let slow = Err(CommandFailure::TooSlow(Duration::from_secs(1)));
        assert_eq!(run_for("sleep 600", 1), slow);
        assert_eq!(run_for("trap '' TERM; while :; do sleep 1; done", 1), slow);
        let missing = UserCommand::new(vec!["/nonexistent/notify".into()]).unwrap();
        let missing = run(&missing, "", &|| LONGEST);
        assert_eq!(missing, Err(CommandFailure::NotStarted(std::io::ErrorKind::NotFound)));
    }

    // NOTIFY-5
    #[test]
    fn the_process_group_ends_with_the_command_and_at_its_limit() {
        for (script, seconds) in
            [("sleep 600 & echo $! > FILE", 60), ("sleep 600 & echo $! > FILE; wait", 1)]
        {
            let temp = tempfile::tempdir().unwrap();
            let file = temp.path().join("pid");
            let script = script.replace("FILE", file.to_str().unwrap());
            let ended = run_for(&script, seconds);
            assert_eq!(ended.is_ok(), seconds == 60, "{ended:?}");
            let pid: u32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
            while !matches!(act_core::process::look_up(pid), Ok(None)) {
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn sink() -> NotifySink {
        NotifySink {
            sender: unbounded_channel().0,
            run: None,
            report: None,
            questions: OpenQuestions::default(),
            trouble: Arc::default(),
        }
    }

    /// Returns the documents of a story as event, state and need.
    fn told(kinds: Vec<EventKind>) -> Vec<(NotificationEvent, TaskState, Option<Attention>)> {
        let mut sink = sink();
        let event =
            |kind| Event { seq: 1, time: act_core::clock::now(), task_id: "t-1".into(), kind };
        let all = kinds.into_iter().flat_map(|kind| sink.take(&event(kind)));
        all.map(|happened| (happened.event, happened.state, happened.needs)).collect()
    }

    fn asked(path: &str) -> EventKind {
        EventKind::ConsentAsked { path: path.into(), op: "create".into() }
    }

    fn answered(path: &str) -> EventKind {
        EventKind::Consent { path: path.into(), op: "create".into(), answer: "refused".into() }
    }

    // NOTIFY-3
    #[test]
    fn each_question_and_each_end_is_told_once() {
        use NotificationEvent::{NeedsPerson, TaskEnded};
        let permission = (NeedsPerson, TaskState::Running, Some(Attention::Permission));
        let finished = act_core::testing::task_finished;
        let success = finished(TaskState::Success, Exit::Ok);
        let story =
            vec![Milestone::Analyzing.into(), asked("a"), asked("b"), answered("a"), answered("b")];
        assert_eq!(told(story), [permission]);
        let again = vec![asked("a"), answered("a"), asked("b"), success.clone()];
        assert_eq!(told(again), [permission, permission, (TaskEnded, TaskState::Success, None)]);
        for (state, exit, need) in [
            (TaskState::Stuck, Exit::Stuck, Attention::Stuck),
            (TaskState::InfraError, Exit::Infra, Attention::InfraError),
            (TaskState::Proposed, Exit::Ok, Attention::Proposed),
        ] {
            let expected = [(TaskEnded, state, None), (NeedsPerson, state, Some(need))];
            assert_eq!(told(vec![finished(state, exit)]), expected);
        }
        let cancelled = finished(TaskState::Cancelled, Exit::Cancelled);
        assert_eq!(told(vec![cancelled]), [(TaskEnded, TaskState::Cancelled, None)]);
    }

    // NOTIFY-2
    #[tokio::test]
    async fn a_link_that_leads_into_the_repository_by_now_is_not_run() {
        let temp = tempfile::tempdir().unwrap();
        let (repo, ran) = (temp.path().join("repo"), temp.path().join("ran"));
        std::fs::create_dir(&repo).unwrap();
        let (link, made) = (temp.path().join("link"), repo.join("made"));
        std::os::unix::fs::symlink(&made, &link).unwrap();
        let words = ["/bin/sh", link.to_str().unwrap()].map(str::to_owned).to_vec();
        let path = std::env::var_os("PATH");
        let command = UserCommand::new(words).unwrap();
        // It leads nowhere when the task begins.
        let command = command.found_outside_of(Some(&repo), path.as_deref()).unwrap();
        std::fs::write(&made, format!("touch {}\n", ran.display())).unwrap();
        let cancel = CancellationToken::new();
        let (notifier, sink) = Notifier::start(command, (&repo, None), Secrets::default(), &cancel);
        let events = Events::new("t-abc123", vec![sink]);
        events.emit(act_core::testing::task_finished(TaskState::Success, Exit::Ok));
        let warning = notifier.finish().await.unwrap();
        assert!(warning.contains("would use a file of the repository"), "{warning}");
        assert!(!ran.exists());
    }

    // NOTIFY-5
    #[tokio::test]
    async fn the_first_failure_is_said_once_and_the_documents_after_it_are_sent_all_the_same() {
        let (temp, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let out = elsewhere.path().join("out");
        let command = command(&format!("cat >> {}; exit 7", out.display()));
        let cancel = CancellationToken::new();
        let secrets = Secrets::new([act_core::secret::Secret::new("t-secret")]);
        let (notifier, sink) = Notifier::start(command, (temp.path(), None), secrets, &cancel);
        let events = Events::new("t-secret", vec![sink]);
        events.emit(act_core::testing::task_finished(TaskState::Stuck, Exit::Stuck));
        let warning = notifier.finish().await.unwrap();
        assert!(
            warning.contains("`/bin/sh` of `notify`") && warning.contains("exit status: 7"),
            "{warning}"
        );
        let text = std::fs::read_to_string(out).unwrap();
        let documents: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let field = |name: &str| documents.iter().map(|one| one[name].clone()).collect::<Vec<_>>();
        assert_eq!(field("event"), ["task_ended", "needs_person"]);
        assert_eq!(field("needs"), [serde_json::Value::Null, "stuck".into()]);
        assert_eq!(field("task"), ["[redacted]", "[redacted]"]);
        assert_eq!(documents[0]["schema"], 2);
        let identity = act_workspace::RootIdentity::of(temp.path()).unwrap().to_string();
        let repo = serde_json::json!(
            {"path": temp.path(), "identity": identity, "head": null, "dirty": null}
        );
        assert_eq!(documents[1]["repo"], repo);
    }
}
