//! Conversations that need the real program: tools of components, failing Scouts, the prompt on the wire and signals.
//! `host/crates/agent/src/editor/tests.rs` tests the loop itself, with a fake model and a fake verifier.

use crate::harness::script::{asking, attempt, done, opening, script};
use crate::harness::{Act, image};
use serde_json::{Value, json};

/// Green when `answer.txt` says `right`.
fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt || { cat answer.txt; exit 1; }")])
}

/// EDITOR-32: a Scout that gives no report after three attempts ends the task; nothing was edited.
#[test]
fn a_scout_that_fails_three_times_is_an_infrastructure_error() {
    let broken = json!({"repeat": 9, "role": "scout-b", "status": 503});
    let turns = asking("write it").into_iter().take(2).chain([broken]);
    let told = repository().script(&script(turns)).run("write the answer").status(4);
    let told = told.stdout_has("INFRA_ERROR: scout_failed");
    assert_eq!(told.requests_of("scout-b").len(), 3, "{told}");
    assert!(told.read("agent/stuck_report.md").contains("scout-b"), "{told}");
    assert!(told.runs().is_empty() && told.read("answer.txt") == "none\n");
}

/// Security line 21: a model that never answers a Scout meets the limit of one request, and the connection is closed.
#[test]
fn a_stalled_scout_is_stopped_by_the_query_limit() {
    let stalls =
        json!({"repeat": 3, "role": "scout-a", "text": "thinking", "stall_after_bytes": 10});
    let [plan, _, scout_b] = <[Value; 3]>::try_from(asking("write it")).unwrap();
    let yaml = json!({
        "verification": {"container_image": image(), "steps": [{"name": "test", "command": "true"}]},
        // Long enough for each attempt to come as far as the model, on a busy machine as well.
        "timeouts": {"scout_query": 6000},
    });
    let act = Act::new().file("agent.yaml", yaml.to_string());
    let running = act.script(&script([plan, stalls, scout_b])).start(["run", "write the answer"]);
    let hung_up =
        running.model().wait(std::time::Duration::from_secs(120), |seen| seen.hang_ups >= 3);
    assert!(hung_up, "the connections stay open");
    running.wait().status(4).stdout_has("INFRA_ERROR: scout_failed");
}

/// The prompt only grows, so that the provider's cache serves it.
#[test]
fn prompts_only_grow() {
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let editor = told.requests_of("editor");
    for pair in editor.windows(2) {
        let messages = |at: usize| pair[at].body["messages"].as_array().unwrap().clone();
        let (before, after) = (messages(0), messages(1));
        assert_eq!(after[..before.len()], before, "the prompt changed behind the model's back");
        assert_eq!(pair[0].body["tools"], pair[1].body["tools"]);
    }
}

/// A signal counts from the first moment, also while the engine is still being asked.
#[test]
fn a_signal_before_the_task_is_accepted_cancels() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("silent.sock");
    let silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let running = repository()
        .script("turns: []")
        .env("DOCKER_HOST", format!("unix://{}", socket.display()))
        .start(["run", "write the answer"]);
    let _connection = silent.accept().unwrap();
    running.signal(rustix::process::Signal::TERM);
    let told = running.wait().status(130);
    assert!(!told.repo().join("agent").exists());
}
