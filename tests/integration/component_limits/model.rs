//! Calls, tokens and the history of conversations; and a model that fails.

use std::sync::Arc;
use std::time::Duration;

use act_component::{ComponentFailure, Grant, GuestFailure, Limit, Llm, Services};
use act_model::{Model, ModelError, ModelErrorKind};

use super::usage;
use crate::hostile::{Reply, Repository, Scripted, Told, attack, load, nothing, reading, talking};

#[tokio::test]
async fn calls_and_tokens_of_the_model_are_counted() {
    let llm = |calls, tokens| Grant { llm: Some(Llm { calls, tokens }), ..Grant::builtin_scout() };
    let script = || (0..5).map(|_| Reply::Text("yes", usage(90, 10))).collect::<Vec<_>>();
    let answers = async |grant: Grant| {
        let (model, hear) = Scripted::new(script());
        let services = Services { attempt: 2, ..talking(&model) };
        let answers = attack(&load(grant), "chat", &["5"], services).await.unwrap();
        (answers, hear)
    };
    let (few, mut hear) = answers(llm(2, u64::MAX)).await;
    assert_eq!(few[1]["ok"], "yes");
    assert_eq!(few[2]["error"], "Refusal::Limit(\"llm.calls: used up\")");
    let system = "You are mine now.".to_owned();
    assert_eq!(hear.try_recv().ok(), Some(Told::Opened { role: "hostile".to_owned(), system }));
    assert_eq!(hear.try_recv().ok(), Some(Told::Asked { attempt: 2, max_tokens: None }));

    let (little, mut hear) = answers(llm(9, 250)).await;
    assert_eq!(little[2]["ok"], "yes", "a call that has begun is answered");
    assert_eq!(little[3]["error"], "Refusal::Limit(\"llm.tokens: used up\")");
    let mut bounds = vec![];
    while let Ok(told) = hear.try_recv() {
        if let Told::Asked { max_tokens, .. } = told {
            bounds.push(max_tokens);
        }
    }
    assert_eq!(bounds, [Some(250), Some(150), Some(50)], "a reply is no longer than what is left");
}

#[tokio::test]
async fn what_is_left_can_be_asked() {
    let repository = Repository::new();
    let (model, _hear) = Scripted::new(vec![]);
    let lent: Arc<dyn Model> = model;
    let services =
        Services { model: Some((lent, String::new())), ..reading(&repository.views()[0]) };
    let hostile = load(Grant { llm: Some(Llm { calls: 7, tokens: 70 }), ..Grant::builtin_scout() });
    let left = attack(&hostile, "remaining", &[], services).await.unwrap();
    assert_eq!((&left["model-calls"], &left["model-tokens"]), (&7.into(), &70.into()));
    let read = Grant::builtin_scout().repo_read.unwrap();
    assert_eq!(left["read-bytes"], read.query_bytes);
    let milliseconds = left["milliseconds"].as_u64().unwrap();
    assert!(milliseconds > 0 && milliseconds <= 60_000);
    let left = attack(&hostile, "remaining", &[], nothing()).await.unwrap();
    assert_eq!((&left["model-calls"], &left["read-bytes"]), (&0.into(), &0.into()));
}

#[tokio::test]
async fn the_history_of_conversations_is_bounded() {
    let (model, _hear) = Scripted::new(vec![]);
    let ended = attack(&load(Grant::builtin_scout()), "chat-forever", &[], talking(&model)).await;
    assert!(matches!(ended, Err(ComponentFailure::Limit(Limit::Conversation))), "{ended:?}");
}

#[tokio::test]
async fn what_the_model_says_counts_into_the_history_as_well() {
    let long: &str = "x".repeat(6 << 20).leak();
    let replies = (0..3).map(|_| Reply::Text(long, usage(1, 1))).collect();
    let (model, _hear) = Scripted::new(replies);
    let hostile = load(Grant::builtin_scout());
    let ended = attack(&hostile, "chat", &["2"], talking(&model)).await;
    // It came to its end: what is too long is its report.
    assert!(matches!(ended, Err(ComponentFailure::Limit(Limit::HostCall))), "{ended:?}");
    let replies = (0..3).map(|_| Reply::Text(long, usage(1, 1))).collect();
    let (model, _hear) = Scripted::new(replies);
    let ended = attack(&hostile, "chat", &["3"], talking(&model)).await;
    assert!(matches!(ended, Err(ComponentFailure::Limit(Limit::Conversation))), "{ended:?}");
}

fn unavailable() -> ModelError {
    ModelError {
        kind: ModelErrorKind::Unavailable,
        message: "the server is busy".to_owned(),
        status: Some(503),
        retry_after: Some(Duration::from_secs(7)),
    }
}

#[tokio::test]
async fn giving_up_after_a_failed_model_call_tells_what_the_model_said() {
    let hostile = load(Grant::builtin_scout());
    let (model, _hear) = Scripted::new(vec![Reply::Error(unavailable())]);
    let ended = attack(&hostile, "fail-like-the-model", &[], talking(&model)).await;
    let Err(ComponentFailure::Model(error)) = ended else { panic!("{ended:?}") };
    assert_eq!((error.status, error.is_retryable()), (Some(503), true));
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));

    // After a turn that came the guest cannot blame the model.
    let (model, _hear) = Scripted::new(vec![Reply::Text("yes", usage(1, 1))]);
    let ended = attack(&hostile, "fail-like-the-model", &[], talking(&model)).await;
    assert!(matches!(ended, Err(ComponentFailure::Guest(GuestFailure::Model(_)))), "{ended:?}");
}

#[tokio::test]
async fn a_failed_model_call_is_a_refusal_that_the_guest_may_survive() {
    let (model, _hear) =
        Scripted::new(vec![Reply::Error(unavailable()), Reply::Text("yes", usage(1, 1))]);
    let answers =
        attack(&load(Grant::builtin_scout()), "chat", &["2"], talking(&model)).await.unwrap();
    assert_eq!(answers[0]["error"], "Refusal::Failed(\"the server is busy\")");
    assert_eq!(answers[1]["ok"], "yes");
}
