//! `scripts/bench watch`: how soon an event is at those who watch, the memory of the server, and what watchers cost a task.
//!
//! The server is a process of its own. BENCH_PAIRS is the number of tasks with and without watchers (10), and BENCH_ENGINE=off
//! leaves them out, because they need a Docker engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on panics"
)]

#[allow(dead_code, reason = "a bench needs a part of it")]
#[path = "../../tests/harness/engine.rs"]
mod engine;
#[path = "../../tests/harness/mod.rs"]
mod harness;
#[path = "../../tests/container/image.rs"]
mod image;
#[allow(dead_code, reason = "a bench needs a part of it")]
mod small_task;

use std::fs::{File, create_dir_all};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use act_core::process::Process;
use act_records::artifacts::ArtifactDir;
use act_records::store::{Flags, Store, Submission};
use act_testing::Wire;
use harness::Act;
use harness::script::{call, done, opening, script};
use serde_json::{Value, json};

const WATCHERS: usize = 20;
/// Clock ticks per second in `/proc`, which is 100 on every current Linux.
const TICKS: f64 = 100.0;

/// A server with its socket.
struct Watch {
    child: Child,
    socket: PathBuf,
}

impl Watch {
    fn start(act: &Act) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let private = act.artifacts().parent().unwrap().join("private");
        create_dir_all(&private).unwrap();
        std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o700)).unwrap();
        let socket = private.join("watch.sock");
        let mut child = act.piped(&["watch", "--socket", socket.to_str().unwrap()]);
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("unix:"), "{line}");
        Self { child, socket }
    }

    fn ask(&self, path: &str) -> BufReader<UnixStream> {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        BufReader::new(stream)
    }

    /// Returns the body of an answer, read to its end.
    fn whole(&self, path: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        body.to_owned()
    }

    /// Reads a log in pieces to its end, and returns the number of its bytes.
    fn read_log(&self, run: &str) -> u64 {
        let mut from = 0;
        loop {
            let piece = self.whole(&format!("/api/runs/{run}/log?from={from}"));
            let piece: Value = serde_json::from_str(&piece).unwrap();
            from = piece["to"].as_u64().unwrap();
            if from == piece["end"].as_u64().unwrap() {
                return from;
            }
        }
    }

    /// Starts a reader of the stream that reports when each event arrives, and returns when it has its first frame.
    fn reader(&self, arrived: Option<Sender<(String, Instant)>>, stop: &Arc<AtomicBool>) {
        let mut stream = self.ask("/api/events");
        let stop = Arc::clone(stop);
        let (ready, is_ready) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while !stop.load(Ordering::SeqCst)
                && stream.read_line(&mut line).is_ok_and(|read| read > 0)
            {
                if line.starts_with("event: here") {
                    ready.send(()).unwrap();
                }
                if let (Some(data), Some(arrived)) = (line.strip_prefix("data: {\"v\""), &arrived) {
                    let _ = arrived.send((data.to_owned(), Instant::now()));
                }
                line.clear();
            }
        });
        is_ready.recv().unwrap();
    }

    /// The peak of the server's memory in MiB.
    fn peak(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn show(what: &str, mut values: Vec<f64>, unit: &str, aim: &str) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    println!("{what:<52}{:>9.2}{:>9.2}  {unit:<4}{aim:>6}", at(0.5), at(0.95));
}

/// Accepts running tasks and returns their journals.
fn journals(act: &Act, count: usize) -> (Arc<ArtifactDir>, Vec<(String, File)>) {
    let artifacts = Arc::new(ArtifactDir::open(&act.artifacts(), &act.repo()).unwrap());
    let store = Store::open(&artifacts.state().unwrap(), &act.artifacts().join("state")).unwrap();
    let made = (0..count).map(|number| {
        let task_id = format!("t-bench{}", char::from(b'a' + (number % 26) as u8));
        let task_id = task_id.replace('h', &char::from(b'0' + (number / 26) as u8).to_string());
        let journal = artifacts.create_journal(&task_id).unwrap();
        let task = Submission {
            task_id: &task_id,
            repo: &task_id,
            root: "/repo",
            text: "measure",
            flags: &Flags::default(),
            owner: &Process::this(),
        };
        store.submit(&task).unwrap();
        assert!(store.start(&task_id, &Process::this()).unwrap());
        (task_id, journal.file)
    });
    let made = made.collect();
    (artifacts, made)
}

fn event(task_id: &str, seq: usize) -> String {
    format!(
        "{{\"v\":1,\"seq\":{seq},\"time\":\"2026-11-24T10:00:00.000Z\",\"task_id\":\"{task_id}\",\"type\":\"component_used\",\
         \"name\":\"file-tools\",\"call\":\"read\",\"outcome\":\"answered\",\"duration_ms\":3,\"files_sha256\":\"{:064}\"}}\n",
        seq
    )
}

/// Five journals grow, and twenty read: the time from a line in the journal to its event at each reader.
fn latency() {
    let act = Act::new();
    let (_artifacts, mut journals) = journals(&act, 5);
    let watch = Watch::start(&act);
    let stop = Arc::new(AtomicBool::new(false));
    let (arrived, arrivals) = channel();
    for _ in 0..WATCHERS {
        watch.reader(Some(arrived.clone()), &stop);
    }
    let (mut written, events) = (std::collections::BTreeMap::new(), 40);
    for seq in 1..=events {
        for (task_id, journal) in &mut journals {
            let line = event(task_id, seq);
            let key = line.strip_prefix("{\"v\"").unwrap().to_owned();
            let begun = Instant::now();
            journal.write_all(line.as_bytes()).unwrap();
            written.insert(key, begun);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let mut times = vec![];
    while times.len() < events * 5 * WATCHERS {
        let (key, at) = arrivals.recv_timeout(Duration::from_secs(30)).unwrap();
        times.push((at - written[&key]).as_secs_f64() * 1e3);
    }
    stop.store(true, Ordering::SeqCst);
    show("journal line to event, 5 journals, 20 watchers", times, "ms", "100");
}

/// Returns the events of the journal of a dry run, which needs no engine, each with the time since the one before it. The end of
/// the task is left out.
fn recorded() -> Vec<(Duration, Value)> {
    let create = call("create", json!({"path": "answer.txt", "content": "right\n"}));
    let turns = opening("write it").into_iter().chain([create, done()]);
    let act = Act::new()
        .without_engine()
        .pipeline("busybox:stable", &[("test", "true")])
        .script(&script(turns));
    act.clone().act(["run", "--dry-run", "write it"]).status(0);
    let journals = std::fs::read_dir(act.artifacts().join("state/journal")).unwrap();
    let journal = std::fs::read_to_string(journals.last().unwrap().unwrap().path()).unwrap();
    let events = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut before = None;
    let timed = events.filter(|event| event["type"] != "task_finished").map(|event| {
        let time =
            event["time"].as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>().unwrap();
        let since = before
            .replace(time)
            .map_or(Duration::ZERO, |before| (time - before).to_std().unwrap_or_default());
        (since, event)
    });
    timed.collect()
}

/// Writes a recorded journal again and again at its speed, until the time is over.
fn replay(recording: &[(Duration, Value)], task_id: &str, journal: &mut File, until: Instant) {
    let mut seq = 0;
    while Instant::now() < until {
        for (since, event) in recording {
            std::thread::sleep(*since);
            seq += 1;
            let mut event = event.clone();
            (event["task_id"], event["seq"]) = (task_id.into(), seq.into());
            journal.write_all(format!("{event}\n").as_bytes()).unwrap();
        }
        // A model takes longer than a script that answers at once.
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Fifty journals are replayed at the speed at which one was recorded, while 100 MB of logs are searched and read to their ends.
fn memory() {
    let recording = recorded();
    let act = Act::new();
    let (artifacts, mut journals) = journals(&act, 50);
    let chunk = "a line of a step's output, as compilers and tests print them\n".repeat(16_384);
    let store = Store::open(&artifacts.state().unwrap(), &act.artifacts().join("state")).unwrap();
    let runs: Vec<_> = (0..50)
        .map(|_| {
            let run = artifacts.create_run(chrono::Utc::now()).unwrap();
            // The page of a run exists only where the store knows the run.
            store.run_started(run.id().as_str(), None, "repo", false, &Process::this()).unwrap();
            let mut log = run.create_log("combined.log").unwrap();
            (0..2).for_each(|_| log.write_all(chunk.as_bytes()).unwrap());
            run.id().as_str().to_owned()
        })
        .collect();
    let watch = Watch::start(&act);
    let stop = Arc::new(AtomicBool::new(false));
    (0..WATCHERS).for_each(|_| watch.reader(None, &stop));
    let (read, until) = (AtomicU64::new(0), Instant::now() + Duration::from_secs(10));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for run in &runs {
                assert!(watch.whole(&format!("/runs/{run}?q=compilers")).contains("compilers"));
                read.fetch_add(watch.read_log(run), Ordering::SeqCst);
            }
        });
        for (task_id, journal) in &mut journals {
            scope.spawn(|| replay(&recording, task_id, journal, until));
        }
    });
    stop.store(true, Ordering::SeqCst);
    let (read, written) = (read.into_inner(), 50 * 2 * chunk.len() as u64);
    assert_eq!(read, written, "every log was read to its end");
    show("memory, 50 journals, 100 MB of logs, at most", vec![watch.peak()], "MiB", "60");
}

/// The seconds of processor time of all children that have ended.
fn children() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(13) + ticks(14)) / TICKS
}

/// Processor time of tasks with and without watchers, one after the other.
fn cost() {
    let pairs: u32 =
        std::env::var("BENCH_PAIRS").ok().and_then(|pairs| pairs.parse().ok()).unwrap_or(10);
    small_task::start(Wire::ChatCompletions, small_task::Pace::One).wait().status(0);
    let task = |watched: bool| {
        let act = small_task::prepare(Wire::ChatCompletions, small_task::Pace::One);
        let watch = watched.then(|| Watch::start(&act));
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..WATCHERS {
            watch.iter().for_each(|watch| watch.reader(None, &stop));
        }
        let before = children();
        act.start(small_task::TASK).wait().status(0);
        stop.store(true, Ordering::SeqCst);
        (children() - before) * 1e3
    };
    let mut differences = vec![];
    let (mut with, mut without) = (vec![], vec![]);
    for pair in 0..pairs {
        // The order alternates, so that a machine that gets slower favours neither.
        let (one, two) = match pair % 2 {
            0 => (task(true), task(false)),
            _ => {
                let two = task(false);
                (task(true), two)
            }
        };
        differences.push((one - two) / two * 100.0);
        with.push(one);
        without.push(two);
    }
    show("processor time of a task with 20 watchers", with, "ms", "");
    show("processor time of a task without", without, "ms", "");
    show("difference of a pair", differences, "%", "2");
}

fn main() {
    println!("{:<52}{:>9}{:>9}  {:<4}{:>6}", "", "median", "95 %", "", "aim");
    latency();
    memory();
    if std::env::var_os("BENCH_ENGINE").is_none_or(|value| value != "off") {
        cost();
    }
}
