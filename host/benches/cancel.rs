//! `scripts/bench cancel`: the time from a signal to the prompt, in the phases in which a task spends its time. BENCH_RUNS is
//! the number of measurements of each phase (20).

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

use std::time::{Duration, Instant};

use harness::script::{attempt, opening, script};
use harness::{Act, Running, containers_of, image};
use rustix::process::Signal;
use serde_json::json;

/// Starts a task and returns when it has reached the phase.
type Phase = fn() -> Running;

fn repository(step: &str) -> Act {
    Act::new().file("answer.txt", "none\n").pipeline(image(), &[("step", step)])
}

/// The phase in which the model does not answer.
fn thinking() -> Running {
    let turn = json!({"role": "editor", "text": "thinking", "stall_after_bytes": 40});
    let running = repository("true").script(&script([turn])).start(["run", "x"]);
    assert!(running.model().wait(Duration::from_secs(60), |seen| seen.requests >= 1));
    running
}

/// The phase in which components are compiled for the first time.
fn compiling() -> Running {
    let act = repository("true");
    let cache = act.repo().with_file_name("cache");
    let act = act.script("turns: []").env("XDG_CACHE_HOME", cache);
    let running = act.start(["run", "x", "--json"]);
    running.until_stdout_has(r#""type":"constraints""#);
    std::thread::sleep(Duration::from_millis(200));
    running
}

/// The phase in which a step runs in its container.
fn in_a_step() -> Running {
    let turns = opening("write it").into_iter().chain(attempt("right\n"));
    let act = repository("echo in the step; sleep 600").script(&script(turns));
    let running = act.start(["run", "x", "--verbose"]);
    running.until_stderr_has("in the step");
    running
}

/// Returns the milliseconds to the prompt, when no container of the run is left.
fn measure(start: Phase) -> f64 {
    let running = start();
    let signalled = Instant::now();
    running.signal(Signal::INT);
    let told = running.wait();
    let taken = signalled.elapsed().as_secs_f64() * 1e3;
    let told = told.status(130);
    for run in told.runs() {
        assert!(containers_of(&run).is_empty(), "a container of {run} is left\n{told}");
    }
    taken
}

fn main() {
    let runs = std::env::var("BENCH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(20);
    println!("{:<44}{:>8}{:>8}{:>8}  {:<4}{:>6}", "", "median", "95 %", "most", "", "aim");
    let phases: [(&str, Phase, &str); 3] = [
        ("signal to prompt, the model is asked", thinking, "100"),
        ("signal to prompt, first compilation", compiling, "100"),
        ("signal to prompt and container gone, in a step", in_a_step, "500"),
    ];
    for (what, start, aim) in phases {
        measure(start);
        let mut taken: Vec<f64> = (0..runs).map(|_| measure(start)).collect();
        taken.sort_by(f64::total_cmp);
        let at = |share: f64| taken[((taken.len() - 1) as f64 * share).round() as usize];
        let (median, most) = (at(0.5), at(1.0));
        println!("{what:<44}{median:>8.1}{:>8.1}{most:>8.1}  {:<4}{aim:>6}", at(0.95), "ms");
    }
}
