//! The engine is lost during a task: a proxy socket before the real one is closed.

use crate::harness::script::{attempt, call, opening, script};
use crate::harness::{Act, Done, image, remove_containers_of};
use crate::proxy::Proxy;
use serde_json::json;

const ENGINE: &str = "unix:///var/run/docker.sock";

fn ended_for_the_engine(told: Done) -> Done {
    ended_for(told, "docker_unavailable")
}

fn ended_for(told: Done, error_type: &str) -> Done {
    let told = told.status(4).stdout_has(&format!("INFRA_ERROR: {error_type}"));
    let report = told.read("agent/stuck_report.md");
    assert!(report.contains(error_type), "{report}");
    assert!(!told.repo().join("agent/summary.md").exists());
    told
}

fn engine() -> String {
    std::env::var("DOCKER_HOST").unwrap_or_else(|_| ENGINE.to_owned())
}

/// Security line 101: an image that cannot be had ends the task, with a report and without a run.
#[test]
fn an_image_that_cannot_be_had_ends_the_task() {
    let turns = opening("write it").into_iter().chain(attempt("right\n"));
    let told = Act::new()
        .file("answer.txt", "none\n")
        .pipeline("127.0.0.1:1/act-test/none:1", &[("test", "true")])
        .script(&script(turns))
        .run("write the answer");
    assert!(ended_for(told, "image_pull").runs().is_empty());
}

/// VERIFIER-81: the model is not asked about a task that no attempt could end.
#[test]
fn an_engine_that_cannot_run_the_pipeline_refuses_the_task_before_the_first_request() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let place = tempfile::tempdir().unwrap();
    let body = r#"{"Name":"box","MemoryLimit":false,"CpuCfsQuota":true,"PidsLimit":true}"#;
    let (proxy, _) = Proxy::answering(place.path(), &engine(), "/info", body);
    let told = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "true")])
        .script(&script(opening("write it")))
        .env("DOCKER_HOST", proxy.host())
        .run("write the answer");
    proxy.cut();
    let told = told.status(4).stderr_has("cannot limit memory");
    assert!(told.runs().is_empty());
    assert!(!told.repo().join("agent").exists(), "nothing was begun");
}

/// Security line 103, VERIFIER: gone in the middle of a step.
#[test]
fn an_engine_lost_in_mid_step_ends_the_task_and_nothing_is_tried_again() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let place = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(place.path(), &engine());
    let turns = opening("write it").into_iter().chain(attempt("right\n"));
    let running = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("slow", "echo it has begun; sleep 100")])
        .script(&script(turns))
        .env("DOCKER_HOST", proxy.host())
        .start(["run", "write the answer", "--verbose"]);
    running.until_stderr_has("it has begun");
    proxy.cut();
    let told = ended_for_the_engine(running.wait()).script_used_up();
    let runs = told.runs();
    assert_eq!(runs.len(), 1, "{told}");
    assert!(told.read("agent/stuck_report.md").contains("Infrastructure"));
    for run in &runs {
        remove_containers_of(run);
    }
}

/// Security line 103: gone when verification begins.
#[test]
fn an_engine_lost_before_verification_ends_the_task() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let place = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(place.path(), &engine());
    let slow_verify = json!({
        "role": "editor", "call": {"name": "verify", "arguments": {}}, "delay_ms": 600_000
    });
    let turns = opening("write it")
        .into_iter()
        .chain([call("read", json!({"path": "answer.txt"})), slow_verify]);
    let running = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "true")])
        .script(&script(turns))
        .env("DOCKER_HOST", proxy.host())
        .start(["run", "write the answer"]);
    running.until_stderr_has("Implementing changes...");
    proxy.cut();
    running.model().release();
    let told = ended_for_the_engine(running.wait());
    assert!(told.runs().is_empty(), "{told}");
}
