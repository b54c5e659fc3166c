//! Commands that the server runs: each is `act` itself in a process of its own, with `--json`.
//!
//! A process and not a call in the server's own process, for four reasons. A command that panics or grows ends alone. A signal
//! cancels it as it does at a terminal, which removes its container and stores its end. The server's stdout carries the
//! protocol and nothing else. And refusals have the codes and hints that people get. The server is the parent, and a
//! command ends when its parent dies.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use act_core::exit::Exit;
use act_core::{Schema, TaskState, Usd, terminal_text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

/// Names the process that a command may not outlive.
pub const PARENT: &str = "ACT_PARENT";
/// Time for a cancelled command to end by itself; then it is killed. The end of the server waits no longer than 5 s.
const GRACE: Duration = Duration::from_millis(4_200);
/// Maximum number of bytes of a document that a command prints. `act logs` prints at most 16 MiB of a log.
const MAX_DOCUMENT: u64 = 40 << 20;
/// Maximum number of bytes of a line; the patch of a large proposal is longer and is left out.
const MAX_LINE: usize = 4 << 20;
/// Characters of a line of progress that a client gets.
const MAX_PROGRESS: usize = 200;
/// Lines of stderr that explain a command without a document.
const STDERR_LINES: usize = 20;

/// A command line of `act`, and what it reads.
#[derive(Debug, Clone)]
pub(super) struct CommandLine {
    pub(super) arguments: Vec<OsString>,
    pub(super) stdin: String,
    /// The command prints events, one a line, and not one document.
    pub(super) events: bool,
}

/// The output of a command, and the way in which it ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Ended {
    /// The document, or the last event of a task.
    pub(super) document: Option<Value>,
    /// The event `proposed` of a dry run.
    pub(super) proposed: Option<Value>,
    /// The task that was accepted.
    pub(super) task_id: Option<String>,
    pub(super) exit_code: Option<i32>,
    /// The end of stderr.
    pub(super) stderr: String,
    /// The client has cancelled the command, or it ended as cancelled.
    pub(super) cancelled: bool,
}

impl Ended {
    /// Returns whether the command ended as cancelled. A document says how it ended: a task that had ended, or a command that was
    /// refused, before the client cancelled it was not cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        let Some(document) = &self.document else { return self.cancelled };
        match document["type"] == "task_finished" {
            true => document["state"] == TaskState::Cancelled.as_str(),
            false => document["exit_code"] == Exit::Cancelled as i32,
        }
    }
}

/// The state of a command that runs, as far as it has said.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Rises with each message.
    pub(super) number: u32,
    pub(super) message: String,
    pub(super) task_id: Option<String>,
    /// The cost of the requests so far; `None` once the cost of one is not known.
    pub(super) cost: Option<Usd>,
    /// The result, which a task has before its process ends: a command of `notify` may run for a while after it.
    pub(super) result: Option<Arc<Ended>>,
    /// The process has ended.
    pub(super) is_over: bool,
}

/// A command that the server has begun.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) tool: &'static str,
    pub(super) repo: PathBuf,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) cancel: CancellationToken,
}

impl Job {
    /// Starts the command. A command that ends without a task gives its place in the budget of tasks back.
    pub(super) fn start(
        id: String,
        tool: &'static str,
        repo: &Path,
        line: CommandLine,
        place: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let begun = Progress { cost: Some(Usd::ZERO), ..Progress::default() };
        let (sender, progress) = watch::channel(begun);
        let cancel = CancellationToken::new();
        let (token, directory) = (cancel.clone(), repo.to_owned());
        tokio::spawn(async move {
            let mut ended = run(&directory, line, &token, Some(&sender)).await;
            if let (None, Some(task_id)) = (&ended.document, ended.task_id.clone()) {
                // The process was killed, and the store says what has become of its task.
                ended.document = tokio::task::spawn_blocking(move || stored_end(&task_id))
                    .await
                    .unwrap_or_default();
            }
            match (place, &ended.task_id) {
                (Some(place), Some(_)) => place.forget(),
                (place, _) => drop(place),
            }
            sender.send_modify(|progress| {
                progress.result = Some(Arc::new(ended));
                progress.is_over = true;
            });
        });
        Self { id, tool, repo: repo.to_owned(), progress, cancel }
    }

    /// Returns whether the process has ended.
    pub(super) fn is_over(&self) -> bool {
        self.progress.borrow().is_over
    }

    /// Waits for the end of the process, and returns the result.
    pub(super) async fn wait(&self) -> Arc<Ended> {
        self.result_when(|progress| progress.is_over).await
    }

    /// Waits for the result.
    pub(super) async fn result(&self) -> Arc<Ended> {
        self.result_when(|progress| progress.result.is_some()).await
    }

    async fn result_when(&self, so: impl FnMut(&Progress) -> bool) -> Arc<Ended> {
        let mut progress = self.progress.clone();
        let reached = progress.wait_for(so).await;
        let result = reached.ok().and_then(|progress| progress.result.clone());
        result.unwrap_or_default()
    }
}

/// Returns the end of a task whose process died, as its last event would have said it.
fn stored_end(task_id: &str) -> Option<Value> {
    let observer = act_task::Observer::open().ok()?;
    observer.record_dead_tasks().ok()?;
    let task = observer.task(task_id).ok()??.task;
    let exit_code = task.exit_code.filter(|_| task.state.is_final())?;
    Some(json!({
        "type": "task_finished",
        "state": task.state.as_str(),
        "exit_code": exit_code,
        "run_id": task.run_ids.last(),
        "reason": task.reason,
        "cost_usd": task.cost_usd,
    }))
}

/// Runs a command to its end, in the repository.
pub(super) async fn run(
    repo: &Path,
    line: CommandLine,
    cancel: &CancellationToken,
    progress: Option<&watch::Sender<Progress>>,
) -> Ended {
    if cancel.is_cancelled() {
        return Ended { cancelled: true, ..Ended::default() };
    }
    let mut child = match spawn(repo, &line) {
        Ok(child) => child,
        Err(error) => {
            let stderr = format!("act could not be started: {error}");
            return Ended { stderr, ..Ended::default() };
        }
    };
    let stdin = child.stdin.take();
    let write = async {
        if let Some(mut stdin) = stdin {
            // A command that ends without reading is reported by its exit code.
            let _ = stdin.write_all(line.stdin.as_bytes()).await;
        }
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let output = async {
        match stdout {
            Some(stdout) if line.events => read_events(stdout, progress).await,
            Some(stdout) => Ended { document: read_document(stdout).await, ..Ended::default() },
            None => Ended::default(),
        }
    };
    let errors = read_stderr(stderr, progress);
    let end = wait(&mut child, cancel);
    let ((), mut ended, stderr, exit_code) = tokio::join!(write, output, errors, end);
    ended.stderr = stderr;
    ended.exit_code = exit_code;
    ended.cancelled = cancel.is_cancelled() || exit_code == Some(Exit::Cancelled as i32);
    ended
}

fn spawn(repo: &Path, line: &CommandLine) -> std::io::Result<Child> {
    let mut command = Command::new(act_core::process::running_program()?);
    command.args(&line.arguments).arg("--json").arg("--repo").arg(repo);
    command.env(PARENT, std::process::id().to_string());
    // The results of tools have one version, whatever the caller of the server wants of commands.
    command.env_remove(Schema::VARIABLE);
    // A signal for the client's terminal is not meant for the command, which the server ends itself.
    command.current_dir("/").process_group(0);
    let stdin = if line.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn()
}

/// Waits for the end of a process, and ends it when `cancel` is cancelled. Returns its exit code.
async fn wait(child: &mut Child, cancel: &CancellationToken) -> Option<i32> {
    if let Some(status) = cancel.run_until_cancelled(child.wait()).await {
        return status.ok()?.code();
    }
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        // It has not been waited for, so the number is still its own.
        let _ = kill_process(pid, Signal::TERM);
    }
    match tokio::time::timeout(GRACE, child.wait()).await {
        Ok(status) => status.ok()?.code(),
        Err(_) => {
            let _ = child.kill().await;
            None
        }
    }
}

async fn read_document(stdout: impl AsyncRead + Unpin) -> Option<Value> {
    let mut bytes = vec![];
    let mut stdout = stdout.take(MAX_DOCUMENT + 1);
    stdout.read_to_end(&mut bytes).await.ok()?;
    // Whatever is left has to be read, so that the command can end.
    let _ = tokio::io::copy(&mut stdout.into_inner(), &mut tokio::io::sink()).await;
    serde_json::from_slice(&bytes).ok()
}

async fn read_events(
    stdout: impl AsyncRead + Unpin,
    progress: Option<&watch::Sender<Progress>>,
) -> Ended {
    let mut ended = Ended::default();
    let mut lines = Lines::new(stdout);
    while let Some(line) = lines.next().await {
        let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
        let text = |field: &str| event.get(field).and_then(Value::as_str).map(str::to_owned);
        match text("type").unwrap_or_default().as_str() {
            "task_queued" => {
                ended.task_id = text("task_id");
                if let Some(progress) = progress {
                    progress.send_modify(|progress| progress.task_id.clone_from(&ended.task_id));
                }
            }
            "model_request" => {
                let cost = text("cost_usd").and_then(|sum| Usd::parse(&sum));
                if let Some(progress) = progress {
                    progress.send_modify(|progress| {
                        progress.cost = progress.cost.zip(cost).map(|(mut sum, cost)| {
                            sum += cost;
                            sum
                        });
                    });
                }
            }
            "milestone" => report(progress, &text("text").unwrap_or_default()),
            "proposed" => ended.proposed = Some(event),
            "task_finished" => {
                ended.document = Some(event);
                if let Some(progress) = progress {
                    let result = Some(Arc::new(ended.clone()));
                    progress.send_modify(|progress| progress.result = result);
                }
            }
            "refused" | "failed" => ended.document = Some(event),
            _ => {}
        }
    }
    ended
}

async fn read_stderr(
    stderr: Option<impl AsyncRead + Unpin>,
    progress: Option<&watch::Sender<Progress>>,
) -> String {
    let Some(stderr) = stderr else { return String::new() };
    let (mut lines, mut last) = (Lines::new(stderr), VecDeque::new());
    while let Some(line) = lines.next().await {
        let line = String::from_utf8_lossy(&line).into_owned();
        report(progress, &line);
        last.push_back(line);
        if last.len() > STDERR_LINES {
            last.pop_front();
        }
    }
    last.make_contiguous().join("\n")
}

/// Publishes a message of the command.
fn report(progress: Option<&watch::Sender<Progress>>, message: &str) {
    let message: String =
        terminal_text::line(message.trim_end()).chars().take(MAX_PROGRESS).collect();
    if let Some(progress) = progress.filter(|_| !message.is_empty()) {
        progress.send_modify(|progress| {
            progress.number = progress.number.saturating_add(1);
            progress.message = message;
        });
    }
}

/// Lines of a stream; longer ones than [`MAX_LINE`] are left out.
struct Lines<R> {
    from: BufReader<R>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(from: R) -> Self {
        Self { from: BufReader::new(from) }
    }

    /// Returns the next line without its end, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<Vec<u8>> {
        let (mut line, mut too_long) = (vec![], false);
        loop {
            let piece = self.from.fill_buf().await.ok()?;
            if piece.is_empty() {
                return Some(line).filter(|line| !line.is_empty() && !too_long);
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = piece.get(..end.unwrap_or(piece.len())).unwrap_or_default();
            too_long |= line.len() + taken.len() > MAX_LINE;
            match too_long {
                true => line.clear(),
                false => line.extend_from_slice(taken),
            }
            let read = end.map_or(piece.len(), |end| end + 1);
            self.from.consume(read);
            if end.is_some() {
                if !too_long {
                    return Some(line);
                }
                (line, too_long) = (vec![], false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_is_left_out_and_the_next_one_is_read() {
        let mut text = vec![b'x'; MAX_LINE + 1];
        text.extend(b"\nshort\n\nlast");
        let mut lines = Lines::new(&text[..]);
        let mut found = vec![];
        while let Some(line) = lines.next().await {
            found.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(found, ["short", "", "last"]);
    }

    // MCP-6
    #[test]
    fn a_command_was_cancelled_if_its_document_says_so_or_it_has_none() {
        let ended =
            |document: Option<Value>, cancelled| Ended { document, cancelled, ..Ended::default() };
        let task =
            |state: &str| Some(json!({"type": "task_finished", "state": state, "exit_code": 0}));
        let refusal = |exit_code: u8| Some(json!({"code": "x", "exit_code": exit_code}));
        for (document, cancelled, expected) in [
            (task("SUCCESS"), true, false),
            (task("STUCK"), true, false),
            (task("CANCELLED"), true, true),
            // Another process has cancelled it.
            (task("CANCELLED"), false, true),
            (refusal(1), true, false),
            (refusal(130), true, true),
            (None, true, true),
            (None, false, false),
        ] {
            assert_eq!(ended(document.clone(), cancelled).is_cancelled(), expected, "{document:?}");
        }
    }

    #[tokio::test]
    async fn the_last_event_and_the_proposal_are_what_a_task_ends_with() {
        let lines = br#"{"type":"task_queued","task_id":"t-abc123"}
no json
{"type":"milestone","text":"Analyzing codebase..."}
{"type":"model_request","cost_usd":"0.0012"}
{"type":"model_request","cost_usd":"0.01"}
{"type":"proposed","diff":"d"}
{"type":"task_finished","state":"PROPOSED"}
"#;
        let begun = Progress { cost: Some(Usd::ZERO), ..Progress::default() };
        let (sender, receiver) = watch::channel(begun);
        let ended = read_events(&lines[..], Some(&sender)).await;
        assert_eq!(ended.task_id.as_deref(), Some("t-abc123"));
        assert_eq!(ended.document.unwrap()["state"], "PROPOSED");
        assert_eq!(ended.proposed.unwrap()["diff"], "d");
        let result = receiver.borrow().result.clone().unwrap();
        assert!(result.proposed.is_some() && !receiver.borrow().is_over, "the process may go on");
        assert_eq!(receiver.borrow().message, "Analyzing codebase...");
        assert_eq!(receiver.borrow().task_id.as_deref(), Some("t-abc123"));
        assert_eq!(receiver.borrow().cost, Usd::parse("0.0112"));
        let unknown = br#"{"type":"model_request","cost_usd":null}
{"type":"model_request","cost_usd":"0.01"}
"#;
        read_events(&unknown[..], Some(&sender)).await;
        assert_eq!(receiver.borrow().cost, None, "a sum with an unknown part is unknown");
    }
}
