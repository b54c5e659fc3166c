//! Tests of the promises of a conversation, over all three wires.

use super::*;

#[tokio::test]
async fn a_turn_with_text_calls_and_usage_arrives_whole() {
    for wire in Wire::ALL {
        let server = server(
            "turns: [{role: editor, text: 'Grüße, I plan', calls: [{name: plan, arguments: {a: [1, \"ü\"]}}, {name: list}],
                      usage: {input: 100, cached: 40, output: 7}}]",
        );
        let client = client(wire, &server);
        let turn = client.once().await.unwrap();
        assert_eq!(
            turn,
            Turn {
                text: "Grüße, I plan".into(),
                calls: vec![
                    call("call_editor_1_0", "plan", r#"{"a":[1,"ü"]}"#),
                    call("call_editor_1_1", "list", "{}")
                ],
                stop: Stop::Tools,
                // MODEL-43: `input` includes what came from the cache, on every wire.
                usage: ModelUsage { input: 100, cached: 40, cache_write: 0, output: 7 },
            },
            "{wire:?}"
        );
        assert_eq!(client.requests(), [(1, Some(200), turn.usage)]);
        assert_eq!(client.ledger.by_role()["editor"], turn.usage);
        let events = client.seen.0.lock().unwrap();
        let EventKind::ModelRequest { role, request_id, .. } = &events[0] else { panic!() };
        assert_eq!((role.as_str(), request_id.as_deref()), ("editor", Some("req_editor_1")));
    }
}

// SCRIPT-4
#[tokio::test]
async fn past_the_end_of_its_script_a_role_hears_that_it_is_over() {
    for wire in Wire::ALL {
        let server = server("turns: [{role: scout-a, text: x}]");
        let turn = client(wire, &server).once().await.unwrap();
        let Turn { text, calls, stop, .. } = turn;
        assert_eq!((text.as_str(), stop, calls.len()), ("script is over", Stop::Done, 0));
    }
}

/// Returns the body without cache marks and without the part after the conversation.
fn conversation(raw: &[u8]) -> String {
    let text =
        std::str::from_utf8(raw).unwrap().replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    let end = [r#"]}],"max_tokens""#, "]}"].iter().find_map(|end| text.rfind(end)).unwrap();
    text[..end].to_owned()
}

// MODEL-4: what was sent before is a byte prefix of what is sent next.
#[tokio::test]
async fn the_prompt_only_grows() {
    for wire in Wire::ALL {
        let server = server(
            "turns:
              - {role: editor, text: thinking, calls: [{name: a}, {name: b}]}
              - {role: editor, call: {name: c, arguments: {x: 1}}}
              - {role: editor, text: done}
              - {role: editor, text: again}",
        );
        let (client, cancel) = (client(wire, &server), CancellationToken::new());
        let tool = ToolSpec {
            name: "a".into(),
            description: "does a".into(),
            parameters: r#"{"type": "object", "properties": {"z": {}, "a": {}}}"#.into(),
        };
        let mut chat = client.model.open("editor", "be good", &[tool]);
        chat.say("go");
        chat.next(Ask::default(), &cancel).await.unwrap();
        chat.say("held back");
        // The results arrive in another order; the wire has the order of the calls.
        chat.answer(vec![result("call_editor_1_1"), result("call_editor_1_0")]).unwrap();
        chat.next(Ask::default(), &cancel).await.unwrap();
        chat.answer(vec![result("call_editor_2_0")]).unwrap();
        chat.next(Ask::default(), &cancel).await.unwrap();
        chat.say("more");
        chat.next(Ask::default(), &cancel).await.unwrap();

        let bodies: Vec<_> =
            server.requests().iter().map(|request| conversation(&request.raw)).collect();
        for pair in bodies.windows(2) {
            assert!(pair[1].starts_with(&pair[0]), "{wire:?}: {pair:?}");
        }
        let places: Vec<_> = ["call_editor_1_0\\\"}", "call_editor_1_1\\\"}", "held back"]
            .iter()
            .map(|text| bodies[1].rfind(text).unwrap_or_else(|| panic!("{text}: {}", bodies[1])))
            .collect();
        assert!(places.is_sorted(), "{wire:?}: {}", bodies[1]);
        // MODEL-9
        assert!(bodies.iter().all(|body| !body.contains("parallel_tool")), "{wire:?}");
    }
}

#[tokio::test]
async fn answers_must_fit_the_calls() {
    for wire in Wire::ALL {
        let server = server("turns: [{role: editor, calls: [{name: a}, {name: b}]}]");
        let (client, cancel) = (client(wire, &server), CancellationToken::new());
        let mut chat = client.open();
        chat.next(Ask::default(), &cancel).await.unwrap();
        let (a, b) = ("call_editor_1_0", "call_editor_1_1");
        for wrong in [
            vec![],
            vec![result(a)],
            vec![result(a), result(a)],
            vec![result(a), result(b), result(b)],
            vec![result(a), result("x")],
        ] {
            assert_eq!(chat.answer(wrong).unwrap_err().kind, ModelErrorKind::Misused);
        }
        let early = chat.next(Ask::default(), &cancel).await.unwrap_err();
        assert_eq!(early.kind, ModelErrorKind::Misused);
        assert_eq!(server.counts().requests, 1);
        chat.answer(vec![result(a), result(b)]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_closes_the_connection() {
    for wire in Wire::ALL {
        let server = server("turns: [{role: editor, text: abc, stall_after_bytes: 400}]");
        let client = client(wire, &server);
        let cancel = CancellationToken::new();
        let asking = {
            let (model, cancel) = (client.model.clone(), cancel.clone());
            // Spawned as a session's future may be: it can move between threads.
            tokio::spawn(async move {
                let mut chat = model.open("editor", "s", &[]);
                chat.say("go");
                with_attempts(&Waits::default(), &cancel, &mut *chat, |chat, attempt, cancel| {
                    chat.next(Ask { attempt, ..Ask::default() }, cancel)
                })
                .await
            })
        };
        assert!(server.wait(LONG, |seen| seen.requests == 1));
        cancel.cancel();
        assert_eq!(asking.await.unwrap().unwrap_err().kind, ModelErrorKind::Cancelled);
        assert!(server.wait(LONG, |seen| seen.hang_ups == 1));
        assert_eq!(client.requests().len(), 1, "a cancelled request is told too");
    }
}
