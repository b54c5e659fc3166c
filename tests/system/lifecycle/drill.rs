//! Processes that are killed at random moments, again and again, in one queue.

use std::time::Duration;

use rand::RngExt;
use rustix::process::Signal;

use super::{Kept, history, in_order, repository, starts, whole_tasks};
use crate::harness::script::{call, opening, script};
use crate::harness::{Act, Running, containers_of, image};

/// `scripts/drill` asks for more.
fn rounds() -> usize {
    std::env::var("ACT_DRILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(30)
}

/// A task of another user that runs all the time, with a container that no other process may touch.
fn bystander() -> (Act, Running, String) {
    let slow = "printf 'in the %s\\n' step; sleep 3600";
    let yaml = serde_json::json!({
        "verification": {"container_image": image(), "steps": [{"name": "slow", "command": slow}]},
        // Longer than the drill, which may take a quarter of an hour.
        "timeouts": {"verification_step": 3_600_000},
    });
    let act = repository().file("agent.yaml", yaml.to_string());
    let turns = opening("look").into_iter().chain([call("verify", serde_json::json!({}))]);
    let running = act.clone().script(&script(turns)).start(["run", "bystander", "--verbose"]);
    running.until_stderr_has("in the step");
    let run_id = history(&act)[0].run_ids[0].clone();
    (act, running, run_id)
}

/// Kills processes of queued tasks at random, and waits for the end of the queue.
fn batch(act: &Act, rounds: usize, accepted: &mut Vec<String>) -> usize {
    let mut random = rand::rng();
    let mut line: Vec<(String, Running)> = vec![];
    let mut killed = 0;
    for _ in 0..rounds {
        while line.len() < 3 {
            let text = format!("task {}", accepted.len());
            let running = act.clone().script(&whole_tasks(200)).start(["run", &text, "--json"]);
            running.until_stdout_has("task_queued");
            accepted.push(text.clone());
            line.push((text, running));
        }
        std::thread::sleep(Duration::from_millis(random.random_range(0..900)));
        // Mostly the one at work, as a machine that runs out of memory would.
        let at = if random.random_bool(0.7) { 0 } else { random.random_range(0..line.len()) };
        let (text, running) = line.remove(at);
        running.kill();
        let told = running.wait();
        assert!(told.killed_by().is_some() || told.ended_well(), "{text}: {told}");
        killed += usize::from(told.killed_by().is_some());
        line.retain(|(_, running)| !running.has_ended());
    }
    for (text, running) in line {
        let told = running.wait();
        assert!(told.ended_well(), "{text}: {told}");
    }
    // No process may be left to record the last deaths: one more start does.
    let text = format!("task {}", accepted.len());
    act.clone().script(&whole_tasks(200)).run(&text).status(0);
    accepted.push(text);
    killed
}

fn nothing_is_lost_or_was_run_twice(act: &Act, accepted: &[String]) -> Vec<Kept> {
    let tasks = history(act);
    let texts: Vec<_> = tasks.iter().map(|task| task.text.clone()).collect();
    assert_eq!(texts, accepted, "none lost, in the order of acceptance");
    in_order(&tasks);
    for task in &tasks {
        let starts = starts(act, &task.task_id);
        let fine = match (task.state.as_str(), task.reason.as_deref()) {
            ("SUCCESS", None) => starts == 1,
            ("INFRA_ERROR", Some("interrupted")) => starts <= 1,
            ("CANCELLED", Some("owner_died")) => starts == 0,
            _ => false,
        };
        assert!(fine, "started {starts} times: {task:#?}");
    }
    tasks
}

/// TASK-23, TASK-24, security lines 111, 129, 131.
#[test]
fn random_kills_lose_nothing_and_run_nothing_twice() {
    let (_other, bystander, untouched) = bystander();
    let act = repository().pipeline(image(), &[("step", "sleep 0.2")]);
    let (mut accepted, mut killed, mut left) = (vec![], 0, rounds());
    while left > 0 {
        // The dead leave more than the living run: the line ends now and then.
        let now = left.min(15);
        killed += batch(&act, now, &mut accepted);
        left -= now;
        let tasks = nothing_is_lost_or_was_run_twice(&act, &accepted);
        for run_id in tasks.iter().flat_map(|task| &task.run_ids) {
            assert_eq!(containers_of(run_id), Vec::<String>::new(), "of a dead process");
        }
        assert_eq!(containers_of(&untouched).len(), 1, "of a living one");
        let whole = tasks.iter().filter(|task| task.state == "SUCCESS").count();
        eprintln!("{killed} killed, {} not whole, {whole} whole", tasks.len() - whole);
    }
    bystander.signal(Signal::INT);
    bystander.wait().status(130);
    assert!(killed * 2 > rounds(), "{killed} were killed in mid-life");
}
