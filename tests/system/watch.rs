//! The pages of `act watch` in a real browser, while real tasks run. `scripts/test-watch` installs what the test needs.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::script::{asking, attempt, done, opening, script};
use crate::harness::{Act, UNTIL_TOLD, image};

/// Waits until a question has an answer.
fn until<T>(what: &str, mut question: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

// WATCH-40 to WATCH-44
#[test]
fn every_page_is_whole_in_a_real_browser_while_tasks_run() {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (Some(tools), Some(chromium)) = (set("ACT_WATCH_BROWSER"), set("ACT_WATCH_CHROMIUM"))
    else {
        return act_core::testing::skip("there is no browser: scripts/test-watch");
    };
    let mut turns: Vec<Value> = opening("propose it");
    turns.extend(attempt("right\n").into_iter().take(2));
    turns.push(done());
    turns.extend(asking("try a guess first"));
    turns.extend(attempt("wrong\n"));
    turns.extend(attempt("right\n"));
    turns.push(done());
    turns.extend(opening("write it again"));
    turns.extend(attempt("right\n"));
    turns.push(done());
    let step = format!(
        "if [ -e hold ]; then {UNTIL_TOLD}; fi; echo one of two checks; \
         grep -qx right answer.txt || {{ echo \"answer.txt:1: expected right\"; cat answer.txt; exit 1; }}"
    );
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("build", "echo nothing to build"), ("test", &step)])
        .script(&script(turns));
    let tasks = |act: &Act| -> Vec<Value> {
        let history = act.clone().act(["history", "--json", "--limit", "9"]).status(0);
        let history = history.json();
        history["tasks"].as_array().unwrap().clone()
    };
    act.clone().act(["run", "--dry-run", "Propose the <b>answer</b> & nothing else."]).status(0);
    act.clone().run("Write the answer to answer.txt, so that the pipeline is green.").status(0);
    std::fs::write(act.repo().join("answer.txt"), "none\n").unwrap();
    std::fs::write(act.repo().join("hold"), "").unwrap();
    let running = act.clone().start(["run", "Write the answer once more."]);
    let go = until("the step", || {
        let run = tasks(&act).first()?["run_ids"][0].as_str()?.to_owned();
        let db = act.artifacts().join("runs").join(run).join("db");
        db.exists().then(|| db.join("go"))
    });
    let waiting = act.clone().start(["run", "Wait for your turn."]);
    let ids = until("the queue", || {
        let tasks = tasks(&act);
        (tasks.len() == 4).then(|| {
            tasks
                .iter()
                .map(|task| task["task_id"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        })
    });
    let red = tasks(&act)[2]["run_ids"][0].as_str().unwrap().to_owned();
    let mut watch = act.piped(&["watch", "--json"]);
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(watch.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    let address: Value = serde_json::from_str(&line).unwrap();
    let situation = json!({
        "url": address["url"],
        "pages": [
            "/", format!("/tasks/{}", ids[3]), format!("/tasks/{}", ids[2]), format!("/tasks/{}", ids[1]),
            format!("/tasks/{}/cancel", ids[1]), format!("/runs/{red}"), format!("/runs/{red}?q=answer"), "/audit", "/metrics",
            "/nothing",
        ],
        "running": ids[1],
        "cancel": ids[0],
        "go": go,
        "chromium": chromium,
        "pictures": set("ACT_WATCH_PICTURES"),
    });
    let file = act.repo().parent().unwrap().join("situation.json");
    std::fs::write(&file, situation.to_string()).unwrap();
    // A green run is followed by others that prove it, each of which waits as well.
    let (runs, ended) = (act.artifacts().join("runs"), Arc::new(AtomicBool::new(false)));
    let (told, is_over) = (go.clone(), Arc::clone(&ended));
    let letting_go = std::thread::spawn(move || {
        while !is_over.load(Ordering::SeqCst) {
            if told.exists() {
                for run in std::fs::read_dir(&runs).unwrap().flatten() {
                    let _ = std::fs::write(run.path().join("db/go"), "");
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let output = Command::new("node").arg(tools.join("browser.mjs")).arg(&file).output().unwrap();
    let _ = watch.kill();
    let _ = watch.wait();
    let told = String::from_utf8_lossy(&output.stdout);
    println!("{told}\n{}", String::from_utf8_lossy(&output.stderr));
    waiting.wait().status(130);
    running.wait().status(0).script_used_up();
    ended.store(true, Ordering::SeqCst);
    letting_go.join().unwrap();
    for story in [
        "entered once",
        "looked at every page",
        "used the keyboard",
        "cancelled without script",
        "worked without script",
        "opened seven pages",
        "followed a task to its end",
        "no faults",
    ] {
        assert!(told.contains(story), "{story}");
    }
}
