//! Tests of the token budget: it is checked before each request, and missing counts are estimated.

use super::*;

#[tokio::test]
async fn a_spent_budget_ends_all_requests_of_the_task() {
    for wire in Wire::ALL {
        let server = server(
            "turns: [{role: editor, text: a, usage: {input: 50, cached: 50, output: 9}},
                     {role: editor, text: b, usage: {input: 40, output: 1}}, {role: editor, text: c}]",
        );
        let ledger = TokenLedger::limited(Some(100));
        let origin = server.anthropic_base_url();
        let client = client_with(wire, &origin, Deadlines::default(), ledger);
        client.once().await.unwrap();
        client.once().await.unwrap();
        let waits = Waits::default();
        let error = client.attempts(&waits).await.unwrap_err();
        assert_eq!((error.kind, error.is_retryable()), (ModelErrorKind::Budget, false));
        assert!(error.message.contains("--max-tokens"), "{}", error.message);
        assert!(waits.0.lock().unwrap().is_empty());
        let other = client
            .model
            .open("scout-a", "s", &[])
            .next(Ask::default(), &CancellationToken::new())
            .await;
        assert_eq!(other.unwrap_err().kind, ModelErrorKind::Budget);
        assert_eq!((server.counts().requests, client.requests().len()), (2, 2));
    }
}

#[tokio::test]
async fn a_repetition_counts_against_the_budget() {
    for wire in Wire::ALL {
        let server = server("turns: [{role: editor, text: abc, cut_after_bytes: 500, repeat: 3}]");
        let ledger = TokenLedger::limited(Some(1));
        let client = client_with(wire, &server.anthropic_base_url(), Deadlines::default(), ledger);
        let error = client.attempts(&Waits::default()).await.unwrap_err();
        assert_eq!((error.kind, server.counts().requests), (ModelErrorKind::Budget, 1));
    }
}

// MODEL-44
#[tokio::test]
async fn a_request_that_was_cut_off_counts_with_an_estimate() {
    for wire in Wire::ALL {
        let text = "x".repeat(4000);
        let server =
            server(&format!("turns: [{{role: editor, text: {text}, cut_after_bytes: 4000}}]"));
        let client = client(wire, &server);
        assert_eq!(client.once().await.unwrap_err().kind, ModelErrorKind::Cut);
        let sent = server.requests()[0].raw.len() as u64;
        let spent = client.ledger.by_role()["editor"];
        assert_eq!(spent.input, sent.div_ceil(4), "{wire:?}");
        assert!((60..1000).contains(&spent.output), "{wire:?}: {spent:?}");
        assert_eq!(client.requests(), [(1, Some(200), spent)]);
    }
}

#[tokio::test]
async fn what_no_model_has_read_costs_nothing() {
    // No number that the system gives to another test's server.
    let closed = "127.0.0.1:1";
    for wire in Wire::ALL {
        let server = server("turns: [{role: editor, status: 429}, {role: editor, status: 500}]");
        let client = client(wire, &server);
        client.once().await.unwrap_err();
        client.once().await.unwrap_err();
        assert_eq!(client.ledger.total(), ModelUsage::default());
        let nobody = client_at(wire, &format!("http://{closed}"));
        nobody.once().await.unwrap_err();
        assert_eq!(nobody.ledger.total(), ModelUsage::default());
    }
}
