//! A started program. Its output is collected, and it cannot outlive its test.

use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use act_testing::ScriptedServer;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

use super::Done;

/// A program that runs longer is taken to hang. The limit is generous, because machines are shared.
const LIMIT: Duration = Duration::from_secs(600);

/// Output of one stream so far.
#[derive(Default)]
struct Collected {
    bytes: Mutex<Vec<u8>>,
    grew: Condvar,
}

impl Collected {
    /// Waits until `enough` is true. It is evaluated after every output and every 50 ms, because it may also depend on the
    /// end of the program.
    fn until(&self, enough: impl Fn(&str) -> bool) {
        let mut bytes = self.bytes.lock().unwrap();
        while !enough(&String::from_utf8_lossy(&bytes)) {
            (bytes, _) = self.grew.wait_timeout(bytes, Duration::from_millis(50)).unwrap();
        }
    }
}

pub(crate) struct Running {
    pid: Pid,
    end: Receiver<ExitStatus>,
    /// Whether the process was reaped, after which its number may belong to another process. It is not reaped while this is
    /// locked.
    reaped: Arc<Mutex<bool>>,
    stdout: (Arc<Collected>, Option<JoinHandle<()>>),
    stderr: (Arc<Collected>, Option<JoinHandle<()>>),
    place: Option<Arc<TempDir>>,
    model: Option<Arc<ScriptedServer>>,
}

impl Running {
    pub(super) fn start(
        mut command: Command,
        stdin: Vec<u8>,
        answer: Option<(&'static str, Vec<u8>)>,
        place: Arc<TempDir>,
        model: Option<Arc<ScriptedServer>>,
    ) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        let pid = Pid::from_child(&child);
        let (ended, end) = channel();
        let reaped = Arc::new(Mutex::new(false));
        let (gone, told, ends) = (reaped.clone(), stdout.0.clone(), reaped.clone());
        // The program may end without reading its standard input.
        std::thread::spawn(move || {
            input.write_all(&stdin)?;
            let Some((question, answer)) = answer else { return Ok(()) };
            told.until(|text| text.contains(question) || *ends.lock().unwrap());
            input.write_all(&answer)
        });
        std::thread::spawn(move || {
            let left = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), left), Err(rustix::io::Errno::INTR)) {}
            let status = {
                let mut gone = gone.lock().unwrap();
                *gone = true;
                child.wait().unwrap()
            };
            ended.send(status)
        });
        Self { reaped, pid, end, stdout, stderr, place: Some(place), model }
    }

    /// Sends a signal; panics if the program has ended.
    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        assert!(self.signal_if_alive(signal), "it has ended");
    }

    /// Sends a signal; returns false if the program has ended.
    pub(crate) fn signal_if_alive(&self, signal: Signal) -> bool {
        let reaped = self.reaped.lock().unwrap();
        if !*reaped {
            kill_process(self.pid, signal).unwrap();
        }
        !*reaped
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the directory of the repository, for changes while the program runs.
    pub(crate) fn repo(&self) -> std::path::PathBuf {
        self.place.as_ref().unwrap().path().join("repo")
    }

    /// Returns the model, to wait for requests.
    pub(crate) fn model(&self) -> &ScriptedServer {
        self.model.as_ref().expect("the story has a script")
    }

    /// Sends SIGSTOP as soon as the program waits for the model. Before that it may hold the lock of the store, and then
    /// no other program gets it.
    #[track_caller]
    pub(crate) fn stop(&self) {
        assert!(self.model().wait(Duration::from_secs(120), |counts| counts.requests >= 1));
        self.signal(Signal::STOP);
    }

    /// Sends SIGKILL, unless the program has ended.
    pub(crate) fn kill(&self) {
        self.signal_if_alive(Signal::KILL);
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.reaped.lock().unwrap()
    }

    /// Returns as soon as stderr holds `text`.
    #[track_caller]
    pub(crate) fn until_stderr_has(&self, text: &str) {
        until_has(&self.stderr.0, text);
    }

    /// Returns as soon as stderr holds `text`, or the program has ended.
    pub(crate) fn until_stderr_has_or_end(&self, text: &str) {
        self.stderr.0.until(|so_far| so_far.contains(text) || self.has_ended());
    }

    #[track_caller]
    pub(crate) fn until_stdout_has(&self, text: &str) {
        until_has(&self.stdout.0, text);
    }

    /// Waits for the end of the program. A program that does not end is killed and fails the test.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Done {
        let status = self.end.recv_timeout(LIMIT);
        if status.is_err() {
            self.kill();
        }
        let text = |(collected, thread): &mut (Arc<Collected>, Option<JoinHandle<()>>)| {
            thread.take().unwrap().join().unwrap();
            std::mem::take(&mut *collected.bytes.lock().unwrap())
        };
        let (stdout, stderr) = (text(&mut self.stdout), text(&mut self.stderr));
        let Ok(status) = status else {
            panic!("no end after {LIMIT:?}; stderr:\n{}", String::from_utf8_lossy(&stderr));
        };
        let place = self.place.take().unwrap();
        // `tests/conformance` compares the requests with the providers' own definitions.
        if let (Some(model), Some(directory)) =
            (&self.model, std::env::var_os("ACT_CONFORMANCE_DIR"))
        {
            model.write_requests(std::path::Path::new(&directory)).unwrap();
        }
        Done { status, stdout, stderr, place, model: self.model.take() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

#[track_caller]
fn until_has(collected: &Collected, text: &str) {
    let bytes = collected.bytes.lock().unwrap();
    let lacks = |bytes: &mut Vec<u8>| !String::from_utf8_lossy(bytes).contains(text);
    let (bytes, waited) = collected.grew.wait_timeout_while(bytes, LIMIT, lacks).unwrap();
    assert!(!waited.timed_out(), "no {text:?} in:\n{}", String::from_utf8_lossy(&bytes));
}

fn collect(mut from: impl Read + Send + 'static) -> (Arc<Collected>, Option<JoinHandle<()>>) {
    let collected = Arc::new(Collected::default());
    let into = collected.clone();
    let thread = std::thread::spawn(move || {
        let mut piece = [0; 8192];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            into.bytes.lock().unwrap().extend_from_slice(&piece[..length]);
            into.grew.notify_all();
        }
    });
    (collected, Some(thread))
}
