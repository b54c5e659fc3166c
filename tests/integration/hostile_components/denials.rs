//! Denials are in the events and in the audit log.

use act_audit::Decision;
use act_component::{Grant, Services};
use act_core::event::Events;

use super::all_refused;
use crate::hostile::{Heard, Repository, attack, load, packed, reading};
use crate::recorded::Recorded;

/// Security lines 1, 4 and 7: each of them is in the log, with who it was, what was asked for, and under which rights.
#[tokio::test]
async fn what_was_denied_is_on_record_and_changed_nothing() {
    let repository = Repository::new();
    let recorded = Recorded::new();
    let grant = Grant::builtin_scout();
    let hostile = packed("hostile", &["repo.read", "llm"]);
    let hostile =
        recorded.host().load(&hostile, grant, &Events::silent()).unwrap().into_scout().unwrap();
    let before = repository.state();
    for (asked, is) in [
        ("../outside/x", "../outside/x"),
        ("sub/../../outside/x", "sub/../../outside/x"),
        ("out", "out"),
        ("out-dir/x", "out-dir/x"),
        ("etc/passwd", "etc/passwd"),
        (".env", ".env"),
        ("link-env", ".env"),
        (".git/config", ".git/config"),
        ("id_rsa", "id_rsa"),
        ("ignored.txt", "ignored.txt"),
        ("../a\u{1b}[2J\u{200d}b", "../a\\u{1b}[2J\\u{200d}b"),
    ] {
        for view in repository.views() {
            for route in ["read", "batch-read"] {
                let known = recorded.of("denied").len();
                let answers = attack(&hostile, route, &[asked], reading(&view)).await.unwrap();
                all_refused(&answers, &[asked]);
                let denied = recorded.of("denied").split_off(known);
                let told = denied.iter().find(|record| record.object.as_deref() == Some(is));
                let told = told.unwrap_or_else(|| panic!("{route} {asked}: {denied:#?}"));
                let who = told.subject.as_ref().unwrap();
                assert_eq!((&*who.name, &*who.sha256), ("hostile", &*hostile.sha256));
                assert_eq!(told.reason.as_deref(), Some("repo.read"));
                assert_eq!(told.decision, Some(Decision::Deny));
                assert_eq!(told.effective_sha256, Some(hostile.grant.sha256()));
            }
        }
    }
    // A listing that is to begin elsewhere names where.
    for view in repository.views() {
        for asked in ["../outside", "sub/../../outside", ".git"] {
            let known = recorded.of("denied").len();
            attack(&hostile, "batch-within", &[asked], reading(&view)).await.unwrap();
            let denied = recorded.of("denied").split_off(known);
            assert!(
                denied.iter().any(|record| record.object.as_deref() == Some(asked)),
                "{asked}: {denied:#?}"
            );
        }
    }
    assert_eq!(repository.state(), before);
}

#[tokio::test]
async fn a_hidden_name_is_audited_as_a_denial_and_an_absent_one_is_not() {
    let repository = Repository::new();
    let hostile = load(Grant::builtin_scout());
    for view in repository.views() {
        for route in ["read", "batch-read"] {
            let heard = Heard::default();
            let services = Services { events: heard.events(), ..reading(&view) };
            let paths = ["link-env", ".git/config", "absent"];
            attack(&hostile, route, &paths, services).await.unwrap();
            let denials = heard.denials();
            for object in [".env", ".git/config"] {
                assert!(
                    denials.contains(&("repo.read".into(), object.into())),
                    "{route}: {denials:?}"
                );
            }
            assert!(!denials.iter().any(|(_, object)| object.contains("absent")), "{denials:?}");
        }
    }
}
