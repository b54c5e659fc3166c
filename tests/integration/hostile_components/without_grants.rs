//! A component without any grant.

use act_component::{Grant, Services};
use serde_json::Value;

use super::all_refused;
use crate::hostile::{Heard, Repository, attack, load, load_with, nothing, reading};

#[tokio::test]
async fn without_the_grant_there_is_no_directory_and_every_batch_call_is_denied() {
    let repository = Repository::new();
    // Declared and lent, but not granted: not loaded at all. Not declared: linked closed.
    assert!(load_with(&["repo.read", "llm"], Grant::default()).is_err());
    let undeclared = load_with(&[], Grant::builtin_scout()).unwrap();
    for view in repository.views() {
        let heard = Heard::default();
        let ask = async |name: &str, arguments: &[&str]| {
            let services = Services { events: heard.events(), ..reading(&view) };
            attack(&undeclared, name, arguments, services).await.unwrap()
        };
        assert_eq!(ask("preopens", &[]).await, serde_json::json!([]));
        all_refused(&ask("read", &["a.txt"]).await, &["a.txt"]);
        let denied = "Refusal::Denied(\"repo.read: not granted to this component\")";
        assert_eq!(ask("batch-read", &["a.txt"]).await["a.txt"]["error"], denied);
        assert_eq!(ask("batch-list", &[]).await["error"], denied);
        assert_eq!(ask("batch-search", &["x"]).await["error"], denied);
        assert_eq!(ask("symbols", &["a.txt"]).await["outlines"][0], denied);
        assert_eq!(
            ask("chat", &["1"]).await[0]["error"],
            "Refusal::Denied(\"llm: not granted to this component\")"
        );
        assert!(heard.denials().contains(&("repo.read".into(), "a.txt".into())));
        assert!(heard.denials().contains(&("llm".into(), "model.chat".into())));
    }
}

// security line 33 without a grant, security line 38
#[tokio::test]
async fn the_surroundings_are_empty_and_two_runs_are_the_same() {
    let hostile = load(Grant::builtin_scout());
    let first = attack(&hostile, "surroundings", &[], nothing()).await.unwrap();
    assert_eq!(first["environment"], serde_json::json!([]));
    assert_eq!(first["arguments"], serde_json::json!([]));
    assert_eq!(first["directory"], Value::Null);
    assert_eq!(first["input"], "");
    assert_eq!(first["monotonic"], 0);
    let second = attack(&hostile, "surroundings", &[], nothing()).await.unwrap();
    assert_eq!(first, second);
}

// CAPABILITY-35: a date of 1970 would look like an answer.
#[tokio::test]
async fn without_the_grant_reading_the_date_ends_the_query_and_names_the_grant() {
    let hostile = load(Grant::builtin_scout());
    let heard = Heard::default();
    let ended = attack(&hostile, "date", &[], Services { events: heard.events(), ..nothing() })
        .await
        .unwrap_err();
    assert_eq!(
        ended.to_string(),
        "the component was stopped: it used `clock`, which is not granted"
    );
    assert!(!ended.is_retryable());
    assert!(heard.denials().contains(&("clock".into(), "the date".into())));
    let coarse = Grant { clock: act_component::Clock::Coarse, ..Grant::builtin_scout() };
    let granted = load_with(&["repo.read", "llm", "clock"], coarse).unwrap();
    let date = attack(&granted, "date", &[], nothing()).await.unwrap();
    assert!(date["wall"].as_u64() > Some(1_700_000_000), "{date}");
}
