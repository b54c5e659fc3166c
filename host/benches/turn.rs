//! `scripts/bench turn`: the time that passes in the program itself, and its processor time and memory.
//!
//! This process serves the scripted model; only the process of the program is measured, not Docker. BENCH_RUNS is the number
//! of tasks on each wire (10).

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

use std::process::{Command, Stdio};
use std::time::Duration;

use act_testing::Wire;
use chrono::Utc;
use harness::Running;

/// Turns of the Editor whose only call is one of a file tool, so that only the program works until the next request.
const FILE_TOOLS: std::ops::RangeInclusive<usize> = 1..=4;
const VERSIONS: u32 = 200;
/// Clock ticks per second in `/proc`, which is 100 on every current Linux.
const TICKS: f64 = 100.0;

/// Returns the seconds of processor time of all children that have ended.
fn children() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(13)? + ticks(14)?) / TICKS)
}

/// Returns the peak memory of a running process in MiB.
fn peak(running: &Running) -> Option<f64> {
    let path = format!("/proc/{}/status", running.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(path).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// Returns the average processor time of `children_since` children since `before`, in milliseconds. One child alone is too short for
/// the resolution of clock ticks.
fn each(before: Option<f64>, children_since: u32) -> Figures {
    let spent = children().zip(before).map(|(after, before)| after - before);
    Figures(spent.map(|seconds| seconds * 1e3 / f64::from(children_since)).into_iter().collect())
}

/// Measured values, which are sorted when they are printed.
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

/// Runs one task, adds its turns and its start to the figures, and returns its peak memory. The start begins with the process:
/// the repository and the model are made before.
fn task(wire: Wire, turns: &mut Figures, start: &mut Figures) -> Option<f64> {
    let prepared = small_task::prepare(wire, small_task::Pace::One);
    let began = Utc::now();
    let running = prepared.start(small_task::TASK);
    let mut most = None;
    // Plan, four calls of file tools, verify and done; Scouts answer from facts. After them only the summary is written.
    for asked in 1..=7 {
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
    // The first task compiles the components and builds the image.
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
    start.show("start to first request, warm", "ms", "40");
    processor.show("processor time of the small task", "ms", "100");
    memory.show("memory of the small task, at most", "MiB", "60");
    version().show("processor time of --version", "ms", "5");
    println!(
        "others: mini-swe-agent 17 ms a turn; Claude Code 30 ms; Codex 125 ms to the first request, 310 ms and 148 MiB for a task, 8 ms for --version"
    );
}
