//! `scripts/bench turn`: the time that passes in the program alone, and what it takes from the machine.
//!
//! The model is scripted and served by this process; the program is another one, and only that is measured.
//! Docker is a third. BENCH_RUNS is how many tasks are done on each wire (10).

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
mod small_task;

use std::process::{Command, Stdio};
use std::time::Duration;

use act_testing::Wire;
use chrono::Utc;
use harness::Running;

/// Turns of the Editor whose only call is one of a file tool: nobody but the program works until the next.
const FILE_TOOLS: std::ops::RangeInclusive<usize> = 1..=4;
const VERSIONS: u32 = 200;
/// Clock ticks of `/proc`, the same on every Linux of today.
const TICKS: f64 = 100.0;

/// Seconds of processor time of all children that have ended; Linux tells.
fn children() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(13)? + ticks(14)?) / TICKS)
}

/// The most memory that a running process has had so far, in MiB.
fn peak(running: &Running) -> Option<f64> {
    let path = format!("/proc/{}/status", running.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(path).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// Milliseconds of processor time that each of so many children took since `before`, on average: one of them
/// alone is too short for the clock ticks that are counted.
fn each(before: Option<f64>, children_since: u32) -> Figures {
    let spent = children().zip(before).map(|(after, before)| after - before);
    Figures(spent.map(|seconds| seconds * 1e3 / f64::from(children_since)).into_iter().collect())
}

/// Milliseconds and the like; sorted when they are shown.
#[derive(Default)]
struct Figures(Vec<f64>);

impl Figures {
    fn show(mut self, what: &str, unit: &str, aim: &str) {
        self.0.sort_by(f64::total_cmp);
        let at = |share: f64| match self.0.len() {
            0 => "-".to_owned(),
            all => format!("{:.1}", self.0[((all - 1) as f64 * share).round() as usize]),
        };
        println!("{what:<44}{:>8}{:>8}  {unit:<4}{aim:>6}", at(0.5), at(0.95));
    }
}

fn milliseconds(time: chrono::TimeDelta) -> f64 {
    time.num_microseconds().unwrap() as f64 / 1e3
}

/// One task: its turns and its start go into the figures, its peak of memory is answered.
fn task(wire: Wire, turns: &mut Figures, start: &mut Figures) -> Option<f64> {
    let began = Utc::now();
    let running = small_task::start(wire);
    let mut most = None;
    // Plan, four times a file tool, verify, done; each Scout twice. Then only the summary is left.
    for asked in 1..=11 {
        assert!(running.model().wait(Duration::from_secs(60), |seen| seen.requests >= asked));
        most = peak(&running).or(most);
    }
    let told = running.wait().status(0).script_used_up();
    let editor = told.requests_of("editor");
    start.0.push(milliseconds(editor[0].time - began));
    for at in FILE_TOOLS {
        turns.0.push(milliseconds(editor[at + 1].time - editor[at].answered.unwrap()));
    }
    most
}

fn version() -> Figures {
    let before = children();
    for _ in 0..VERSIONS {
        let mut command = Command::new(harness::program());
        assert!(command.arg("--version").stdout(Stdio::null()).status().unwrap().success());
    }
    each(before, VERSIONS)
}

fn main() {
    let runs = std::env::var("BENCH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(10u32);
    // Compiles the components and makes the image.
    task(Wire::ChatCompletions, &mut Figures::default(), &mut Figures::default());
    println!("{:<44}{:>8}{:>8}  {:<4}{:>6}", "", "median", "95 %", "", "aim");
    let (mut start, mut memory) = <(Figures, Figures)>::default();
    let before = children();
    for wire in Wire::ALL {
        let mut turns = Figures::default();
        for _ in 0..runs {
            memory.0.extend(task(wire, &mut turns, &mut start));
        }
        turns.show(&format!("last byte to next request, {}", wire.name()), "ms", "5");
    }
    let processor = each(before, runs * Wire::ALL.len() as u32);
    start.show("start to first request, warm", "ms", "50");
    processor.show("processor time of the small task", "ms", "100");
    memory.show("memory of the small task, at most", "MiB", "60");
    version().show("processor time of --version", "ms", "5");
    println!(
        "others: mini-swe-agent 17 ms a turn; Claude Code 30 ms; Codex 125 ms to the first request, 310 ms and 148 MiB for a task, 8 ms for --version"
    );
}
