//! `act metrics`: what is left of tasks when their runs and journals are gone.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, image, program};

/// CLI-52
#[test]
fn metrics_are_kept_in_the_store_for_people_programs_and_prometheus() {
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let none = act.clone().act(["metrics"]).status(0);
    none.stdout("No tasks yet\n");
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

/// CLI-52: `act verify` alone is no task, and takes time.
#[test]
fn a_verification_without_a_task_is_shown() {
    let act = Act::new().pipeline(image(), &[("test", "true")]);
    act.clone().act(["verify"]).status(0);
    let told = act.act(["metrics"]).status(0).stdout_has("No tasks yet\n\nSeconds ");
    assert!(told.stdout_text().lines().last().unwrap().starts_with("  verifier      1 "), "{told}");
}

/// CLI-52, CLI-55: at 40 columns, cells that do not fit are below the name of their row, and no row is longer.
#[test]
fn tables_fit_on_a_narrow_terminal() {
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    act.clone().script(&script(turns)).run("write it").status(0);
    let shown = |columns: usize| {
        let line = format!("stty rows 24 cols {columns}; exec {} metrics --color never", program());
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &line, "/dev/null"]);
        let told = act.clone().start_command(terminal).wait().status(0);
        let rows: Vec<_> =
            told.stdout_text().lines().map(|row| row.trim_end().to_owned()).collect();
        assert!(rows.iter().all(|row| row.chars().count() <= columns), "{columns}: {told}");
        rows
    };
    let (wide, narrow) = (shown(200), shown(40));
    assert_eq!(wide, narrow, "the usual tables fit into 40 columns");
    assert!(shown(30).len() > wide.len());
}
