//! `act metrics`: what is left of tasks when their runs and journals are gone.

use std::fs;

use serde_json::json;

use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, image};

/// CLI-52
#[test]
fn metrics_are_kept_in_the_store_for_people_programs_and_prometheus() {
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let none = act.clone().act(["metrics"]).status(0);
    none.stdout("No task was ever accepted\n");
    let turns = opening("write it").into_iter().chain(attempt("wrong\n")).chain(attempt("right\n"));
    act.clone().script(&script(turns.chain([done()]))).run("write it").status(0);
    fs::remove_dir_all(act.artifacts().join("runs")).unwrap();
    fs::remove_dir_all(act.artifacts().join("state/journal")).unwrap();
    let told = act.clone().act(["metrics", "--json"]).status(0);
    let document = told.document("metrics");
    assert_eq!(document["tasks"]["SUCCESS"], 1);
    assert_eq!(
        (&document["verify_attempts_mean"], &document["replans_per_task"]),
        (&json!(2.0), &json!(0.0))
    );
    assert_eq!(document["verifier_ms"]["count"], 2);
    for name in ["scout-a", "scout-b"] {
        assert_eq!(document["scout_latency_ms"][name]["count"], 1, "{told}");
        assert!(document["scout_latency_ms"][name]["p99"].as_u64().is_some(), "{told}");
    }
    assert!(document["tokens"]["editor"]["input"].as_u64().is_some(), "{told}");
    act.clone().act(["metrics"]).status(0).stdout_has("verifier").stdout_has("SUCCESS");
    let page = act.act(["metrics", "--prometheus"]).status(0);
    page.stdout_has("act_tasks_total{state=\"SUCCESS\"} 1\n")
        .stdout_has("act_verifier_duration_seconds_count 2\n")
        .stdout_has("# TYPE act_scout_latency_seconds summary\n");
}
