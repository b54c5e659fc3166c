//! `act components test`: the built-in components conform, and every hostile guest fails for the right reason.

use std::path::Path;
use std::time::Duration;

use act::conformance::{self, CheckResult, Conformance, Options};
use act_component::{builtin, custom_section};
use serde_json::{Value, json};

use crate::hostile::{bytes, packed};

fn options(question: &str, arguments: &[&str]) -> Options {
    Options {
        question: question.to_owned(),
        context: arguments.iter().map(|text| (String::new(), text.to_string())).collect(),
        script: None,
        wall: Duration::from_secs(60),
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("code")),
    }
}

async fn tried(bytes: &[u8], options: &Options) -> Conformance {
    conformance::test(bytes, options).await.unwrap()
}

/// The first check that failed, and why.
fn failed(found: &Conformance) -> (&str, &str) {
    assert!(!found.conforms, "{found:#?}");
    let failed = found.checks.iter().filter(|check| check.verdict == CheckResult::Fail);
    let mut failed = failed.map(|check| (check.name.as_str(), check.reason.as_deref().unwrap()));
    failed.next().unwrap_or_else(|| panic!("{found:#?}"))
}

fn conforms(name: &str, found: &Conformance) {
    assert!(found.conforms, "{name}: {:#?}", found.checks);
    assert!(found.checks.iter().all(|check| check.verdict == CheckResult::Pass), "{found:#?}");
    assert!(found.memory_bytes > 1 << 16 && !found.queries.is_empty(), "{found:#?}");
}

// COMPONENT-5
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_with_the_program_conforms() {
    for one in builtin::ALL {
        conforms(one.name, &tried(one.bytes, &options("What is where?", &[])).await);
    }
    conforms("outline", &tried(&bytes("outline"), &options("", &[])).await);
}

// COMPONENT-6
#[tokio::test(flavor = "multi_thread")]
async fn the_hostile_scout_fails_each_attack_for_its_reason() {
    let scout = packed("hostile", &["repo.read", "llm"]);
    for (attack, arguments, check, why) in [
        ("what is here", &[][..], "facts", "out of scope"),
        ("fail", &[], "facts", "no reason"),
        ("chat", &["1"], "facts", "asked the model"),
        ("loop", &[], "ends", "after 2000 ms"),
        ("sleep", &[], "ends", "after 2000 ms"),
        ("recurse", &[], "ends", "trapped"),
        ("unreachable", &[], "ends", "unreachable"),
        ("panic", &["9"], "ends", "panicked"),
        ("grow", &[], "limits", "MiB of memory"),
        ("allocate", &[], "limits", "memory"),
        ("huge-report", &[], "limits", "memory"),
        ("huge-argument", &[], "limits", "memory"),
        ("long-report", &["5000000"], "limits", "bytes of the result"),
        ("argument", &["9000000"], "limits", "in one call"),
        ("handles", &[], "limits", "handles"),
        ("print", &["100000"], "limits", "limits.log"),
        ("steps", &["2000"], "limits", "limits.log"),
        ("chat-forever", &[], "limits", "conversations"),
        ("read", &[".env"], "confined", "repo.read: .env"),
        ("batch-read", &[".git/HEAD"], "confined", "repo.read: .git/HEAD"),
        ("stat", &["ignored.txt"], "confined", "repo.read: ignored.txt"),
        ("change", &["README.md"], "confined", "repo.write"),
    ] {
        let impatient = Duration::from_secs(2);
        let patience = if why.starts_with("after") { impatient } else { Duration::from_secs(60) };
        let found = tried(&scout, &Options { wall: patience, ..options(attack, arguments) }).await;
        let (failed, reason) = failed(&found);
        assert_eq!(failed, check, "{attack}: {:#?}", found.checks);
        assert!(reason.contains(why), "{attack}: {reason}");
    }
}

fn tool(needs: &[&str], tools: &Value) -> Vec<u8> {
    let needs: Vec<_> = needs.iter().map(|grant| json!({"grant": grant, "why": "x"})).collect();
    let manifest = json!({"kind": "tool", "name": "hostile-tool", "version": "1", "about": "Attacks.",
        "needs": needs, "tools": tools});
    custom_section::pack(&bytes("hostile-tool"), manifest.to_string().as_bytes())
}

// COMPONENT-6
#[tokio::test(flavor = "multi_thread")]
async fn the_hostile_tools_fail_each_attack_for_its_reason() {
    let both = &["repo.read", "repo.write"][..];
    for (needs, name, parameters, check, why) in [
        (&["repo.read"][..], "read", json!({"type": "array"}), "grants", "agentcommand:repo/edit"),
        (both, "read", json!({"type": "array", "examples": [[".env"]]}), "confined", ".env"),
        (
            both,
            "change",
            json!({"type": "array", "examples": [["README.md"]]}),
            "confined",
            "repo.write",
        ),
        (both, "change", json!({"type": "array"}), "ends", "trapped"),
        (both, "not_there", json!({"type": "array"}), "calls", "no such tool"),
        (both, "read", json!({"type": "object"}), "calls", "bad arguments"),
        (both, "read", json!({"type": "string", "not": {"const": "text"}}), "calls", "examples"),
    ] {
        let tools = json!([{"name": name, "description": "X.", "parameters": parameters}]);
        let found = tried(&tool(needs, &tools), &options("", &[])).await;
        let (failed, reason) = failed(&found);
        assert_eq!(failed, check, "{name}: {:#?}", found.checks);
        assert!(reason.contains(why), "{name}: {reason}");
    }
}

// COMPONENT-6
#[tokio::test(flavor = "multi_thread")]
async fn the_hostile_client_fails_for_its_origins_and_reaches_nothing() {
    let with = |needs: Value| {
        let manifest = json!({"kind": "scout", "name": "hostile-http", "version": "1", "about": "Attacks.",
            "needs": needs, "report": {"type": "object"}});
        custom_section::pack(&bytes("hostile-http"), manifest.to_string().as_bytes())
    };
    let asking = |address: &str| Options {
        context: vec![("GET".to_owned(), address.to_owned())],
        ..options("0", &[])
    };
    let undeclared = tried(&with(json!([])), &asking("https://example.com/")).await;
    assert_eq!(failed(&undeclared).0, "grants", "{undeclared:#?}");
    let needs = json!([{"grant": "http", "why": "x", "origins": ["https://example.com"]}]);
    let elsewhere = tried(&with(needs.clone()), &asking("https://example.org/")).await;
    let (check, why) = failed(&elsewhere);
    assert!(check == "confined" && why.contains("https://example.org"), "{elsewhere:#?}");
    // The declared import is linked and leads nowhere.
    conforms("hostile-http", &tried(&with(needs), &asking("https://example.com/")).await);
}

// COMPONENT-6
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_before_anything_runs_is_named() {
    let other = |text: &str| custom_section::pack(&bytes("hostile"), text.as_bytes());
    let lying = r#"{"kind":"tool","name":"x","version":"1","about":"X.","needs":[],
        "tools":[{"name":"x","description":"X.","parameters":{}}]}"#;
    let needing = r#"{"kind":"scout","name":"x","version":"1","about":"X.","needs":[{"grant":"env","why":"x","names":["X"]},
        {"grant":"http","why":"x","origins":["https://example.com"]}]}"#;
    for (component, check) in [
        (b"#!/bin/sh".to_vec(), "component"),
        (bytes("hostile"), "manifest"),
        (other("{}"), "manifest"),
        (other(lying), "kind"),
        (other(needing), "grants"),
    ] {
        let found = tried(&component, &options("", &[])).await;
        assert_eq!(failed(&found).0, check, "{found:#?}");
        let after = found.checks.iter().skip_while(|one| one.name != check).skip(1);
        assert!(after.into_iter().all(|one| one.verdict == CheckResult::Skipped), "{found:#?}");
        assert!(found.queries.is_empty());
    }
}
