//! How a query ends, what is left of it for the next one, and what it may say.

use act_component::{ComponentFailure, Grant, GuestFailure, Services};
use act_core::event::EventKind;

use crate::hostile::{Heard, attack, load, nothing};

#[tokio::test]
async fn security_line_20_a_trap_is_one_bounded_line_and_the_next_query_is_fresh() {
    let hostile = load(Grant::builtin_scout());
    for (waste, argument, says) in [
        ("recurse", "", "call stack exhausted"),
        ("unreachable", "", "unreachable"),
        ("panic", "10000000", "panicked at"),
    ] {
        let ended = attack(&hostile, waste, &[argument], nothing()).await;
        let Err(failure @ ComponentFailure::Trap(_)) = ended else { panic!("{waste}: {ended:?}") };
        let line = failure.to_string();
        assert!(line.contains(says), "{line}");
        assert!(line.len() < 500 && !line.chars().any(char::is_control), "{line}");
        let next = attack(&hostile, "remember", &[], nothing()).await.unwrap();
        assert_eq!(next, serde_json::json!({ "global": 0, "heap": 0 }));
    }
}

#[tokio::test]
async fn security_line_24_nothing_is_remembered_between_queries() {
    let hostile = load(Grant::builtin_scout());
    for _ in 0..2 {
        let left = attack(&hostile, "remember", &[], nothing()).await.unwrap();
        assert_eq!(left, serde_json::json!({ "global": 0, "heap": 0 }));
    }
    let many = (0..4).map(|_| attack(&hostile, "remember", &[], nothing()));
    for left in futures_util::future::join_all(many).await {
        assert_eq!(left.unwrap()["global"], 0);
    }
}

#[tokio::test]
async fn what_a_component_says_is_bounded_and_cannot_control_a_terminal() {
    let hostile = load(Grant::builtin_scout());
    for (waste, limit) in [("steps", 200), ("print", 1000)] {
        let heard = Heard::default();
        let services = Services { events: heard.events(), ..nothing() };
        attack(&hostile, waste, &["20000"], services).await.unwrap();
        let mut bytes = 0;
        for kind in heard.kinds() {
            let (EventKind::ComponentStep { message, .. }
            | EventKind::ComponentLog { message, .. }) = kind
            else {
                continue;
            };
            assert!(message.len() <= limit && !message.chars().any(char::is_control), "{message}");
            bytes += message.len();
        }
        assert!(bytes > 10_000 && bytes <= 64 << 10, "{waste}: {bytes}");
        assert!(heard.denials().iter().any(|(grant, _)| grant == "limits.log"), "{waste}");
    }
}

#[tokio::test]
async fn what_the_guest_says_when_it_gives_up_is_one_line() {
    let hostile = load(Grant::builtin_scout());
    let ended = attack(&hostile, "fail", &[], nothing()).await;
    let Err(ComponentFailure::Guest(GuestFailure::Other(why))) = ended else { panic!("{ended:?}") };
    assert_eq!(why, "no reason [2J");
    let ended = attack(&hostile, "dance", &[], nothing()).await;
    assert!(
        matches!(ended, Err(ComponentFailure::Guest(GuestFailure::OutOfScope(_)))),
        "{ended:?}"
    );
}
