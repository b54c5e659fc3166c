//! Tasks over each provider's wire, selected by the variables that a user sets.

use act_testing::Wire;

use crate::harness::json::lines;
use crate::harness::script::{asking, attempt, call, done, opening, script};
use crate::harness::{Act, CANARY, Done, image};
use serde_json::{Value, json};

fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt || { cat answer.txt; exit 1; }")])
}

/// A detour over a mistake, a failure, and the right answer.
fn story() -> String {
    let wrong = [call("read", json!("no json at all")), call("nobody", json!({}))];
    let turns = opening("write it").into_iter().chain(wrong).chain(attempt("one\n"));
    script(turns.chain(attempt("right\n")).chain([done()]))
}

fn roles(told: &Done) -> Vec<String> {
    told.requests()
        .into_iter()
        .map(|request| request.role)
        .filter(|role| role == "editor")
        .collect()
}

#[test]
fn the_same_task_ends_the_same_over_every_wire() {
    for wire in Wire::ALL {
        let told = repository().script_over(wire, &story()).run("write the answer").status(0);
        let told = told.script_used_up().stderr_lines(&[
            "Attempt 1/12...",
            "Verification failed, debugging...",
            "Attempt 2/12...",
        ]);
        assert_eq!(told.read("answer.txt"), "right\n");
        assert_eq!(roles(&told).len(), 10, "{wire:?}");
    }
}

/// MODEL-4: tools, system prompt and messages of each turn, marks for the cache removed, begin the next.
#[test]
fn every_prompt_of_a_task_begins_like_the_one_before() {
    for wire in Wire::ALL {
        let told = repository().script_over(wire, &story()).run("write the answer").status(0);
        let bodies: Vec<_> =
            told.requests_of("editor").iter().map(|it| unmarked(&it.raw)).collect();
        for pair in bodies.windows(2) {
            assert!(pair[1].starts_with(&pair[0]), "{wire:?}:\n{}\n{}", pair[0], pair[1]);
        }
    }
}

fn unmarked(raw: &[u8]) -> String {
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let text = std::str::from_utf8(raw).unwrap().replace(mark, "");
    let end = [r#"]}],"max_tokens""#, "]}"].iter().find_map(|end| text.rfind(end)).unwrap();
    text[..end].to_owned()
}

/// The canary is in the header of each request, and nowhere else.
fn only_in_headers(told: &Done, wire: Wire) {
    let name = if wire == Wire::Messages { "x-api-key" } else { "authorization" };
    for request in told.requests() {
        let sent = request.headers.iter().filter(|(_, value)| value.contains(CANARY));
        assert_eq!(sent.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), [name]);
        assert!(!String::from_utf8_lossy(&request.raw).contains(CANARY));
    }
    assert!(!told.requests().is_empty());
    assert_eq!(told.files_with(CANARY), Vec::<std::path::PathBuf>::new(), "{told}");
    assert!(!told.to_string().contains(CANARY), "{told}");
}

/// A server that answers with what it was sent.
fn echo(status: u16) -> Value {
    let body = json!({"error": {"message": format!("headers: x-api-key: {CANARY}; authorization: Bearer {CANARY}")}});
    json!({"role": "editor", "status": status, "body": body.to_string()})
}

/// Security line 162: a key is in no file, no message and no container, however the task ends.
#[test]
fn a_key_is_nowhere_but_in_its_header() {
    for wire in [Wire::Messages, Wire::Responses] {
        // A step that prints its whole environment; a model that asks for the log.
        let act = Act::new().file("answer.txt", "none\n").pipeline(
            image(),
            &[("test", "env; cat /proc/*/environ 2>/dev/null; grep -qx right answer.txt")],
        );
        let look = call("read_log", json!({"run_id": "{{last_run_id}}"}));
        let failed = opening("write it").into_iter().chain(attempt("one\n")).chain([look]);
        let turns = failed.chain([echo(503)]).chain(attempt("right\n")).chain([done()]);
        let told = act
            .script_over(wire, &script(turns))
            .act(["run", "--verbose", "write the answer"])
            .status(0)
            .script_used_up();
        only_in_headers(&told, wire);

        let told = repository()
            .script_over(wire, &script([echo(401)]))
            .act(["run", "--verbose", "write the answer"])
            .status(4)
            .stdout_has("[redacted]");
        only_in_headers(&told, wire);

        let idle = json!({"role": "editor", "text": "hm", "repeat": 9});
        let told = repository()
            .script_over(wire, &script(opening("x").into_iter().chain([idle])))
            .act(["run", "--verbose", "write the answer"])
            .status(3);
        only_in_headers(&told, wire);
    }
}

/// MODEL-45: whoever spends them, Editor or Scout, the last tokens end the task, with a report.
#[test]
fn a_spent_budget_ends_the_task_stuck() {
    let costing = |mut turns: Vec<Value>, at: usize| {
        turns[at]["usage"] = json!({"input": 900, "cached": 800, "output": 100});
        turns
    };
    for wire in Wire::ALL {
        // After the plan, after one report (the other may be under way), after a failed attempt.
        for (at, requests) in [(0, 1..=1), (2, 2..=3), (5, 6..=6)] {
            let turns = asking("write it").into_iter().chain(attempt("one\n")).collect();
            let turns = costing(turns, at).into_iter().map(|mut turn| {
                let free = json!({"input": 0, "output": 0});
                turn.as_object_mut().unwrap().entry("usage").or_insert(free);
                turn
            });
            let told = repository()
                .script_over(wire, &script(turns))
                .act(["run", "--max-tokens", "1000", "write the answer"])
                .status(3);
            let asked = told.requests().len();
            assert!(requests.contains(&asked), "{wire:?}, {asked} requests: {told}");
            assert!(told.read("agent/stuck_report.md").contains("budget"), "{told}");
        }
    }
}

/// Security line 142: the program waits as long as the server asks, and then the task continues.
#[test]
fn a_rate_limit_delays_the_task_as_long_as_it_says() {
    let limited = json!({"role": "editor", "status": 429, "headers": {"retry-after": "2"}});
    let turns = [limited].into_iter().chain(opening("write it"));
    let turns = turns.chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let editor = told.requests_of("editor");
    let waited = (editor[1].time - editor[0].answered.unwrap()).num_milliseconds();
    // More on a busy machine.
    assert!((2000..60_000).contains(&waited), "{waited} ms");
    assert_eq!(editor[0].raw, editor[1].raw);
}

/// Security line 144: a server that stays overloaded ends the task as the machine's trouble after three requests.
#[test]
fn a_server_that_stays_overloaded_ends_the_task() {
    for (wire, status) in Wire::ALL.into_iter().zip([500, 529, 503]) {
        let failing = json!({"role": "editor", "status": status, "repeat": 9});
        let told = repository()
            .script_over(wire, &script([failing]))
            .run("write the answer")
            .status(4)
            .stdout_has("INFRA_ERROR: model_unavailable")
            .stdout_has(&status.to_string());
        assert_eq!(told.requests().len(), 3, "{wire:?}: {told}");
    }
}

/// How each provider says that a conversation is longer than its model takes.
fn too_long(wire: Wire) -> Value {
    let error = match wire {
        Wire::Messages => {
            json!({"type": "invalid_request_error", "message": "prompt is too long: 200251 tokens > 200000 maximum"})
        }
        Wire::Responses => {
            json!({"type": "invalid_request_error", "code": "context_length_exceeded", "message": "too much"})
        }
        Wire::ChatCompletions => {
            json!({"code": 400, "message": "This model's maximum context length is 4096 tokens."})
        }
    };
    let body = json!({"type": "error", "error": error}).to_string();
    json!({"role": "editor", "status": 400, "body": body})
}

/// EDITOR-37: the plan and the tree go on in a fresh conversation, once for each attempt.
#[test]
fn a_conversation_that_is_too_long_goes_on_in_a_fresh_one() {
    for wire in Wire::ALL {
        let look = || call("read", json!({"path": "answer.txt"}));
        let turns = opening("write it by hand").into_iter().chain([look(), too_long(wire)]);
        let turns = turns.chain(attempt("one\n")).chain([look(), too_long(wire)]);
        let turns = turns.chain(attempt("right\n")).chain([done()]);
        let told = repository()
            .script_over(wire, &script(turns))
            .act(["run", "--verbose", "write the answer"])
            .status(0)
            .script_used_up()
            .stderr_has("a fresh conversation goes on");
        let editor: Vec<_> =
            told.requests_of("editor").iter().map(|it| unmarked(&it.raw)).collect();
        // plan, read, refused; read, write, verify, read, refused; read, write, verify, done
        assert_eq!(editor.len(), 12, "{wire:?}");
        for (fresh, refused) in [(3, 2), (8, 7)] {
            assert!(editor[fresh].len() < editor[refused].len() + 600, "{wire:?}");
            assert!(!editor[fresh].contains("call_editor_"), "{wire:?}: {}", editor[fresh]);
            for fact in ["write the answer", "write it by hand", "holds the answer", "too long"] {
                assert!(editor[fresh].contains(fact), "{wire:?}, {fact}: {}", editor[fresh]);
            }
        }
        assert!(editor[8].contains("attempt 1 (run_"), "{wire:?}: {}", editor[8]);
        assert!(!told.agent_files().contains(&"context_004.md".to_owned()), "{told}");
    }
}

/// EDITOR-37: what a fresh conversation cannot help ends the task, and says why.
#[test]
fn a_conversation_that_stays_too_long_ends_the_task_stuck() {
    for wire in Wire::ALL {
        let refused = |times: usize| vec![too_long(wire); times];
        let with_plan = opening("write it").into_iter().chain(refused(9)).collect();
        for (turns, requests) in [(refused(9), 1), (with_plan, 3)] {
            let turns: Vec<Value> = turns;
            let told = repository()
                .script_over(wire, &script(turns))
                .run("write the answer")
                .status(3)
                .stdout_has("STUCK: context_full")
                .stdout_has("a larger context of model or server helps");
            assert_eq!(told.requests_of("editor").len(), requests, "{wire:?}: {told}");
            let report = told.read("agent/stuck_report.md");
            assert!(
                report.contains("## Why it ended\n\n> the model's server answered 400"),
                "{report}"
            );
        }
    }
}

/// Security line 147: a stream that ends inside the arguments of a call changes nothing; the turn is asked
/// for again, and its effect happens once.
#[test]
fn a_turn_that_was_cut_off_inside_a_call_has_its_effect_once() {
    for wire in Wire::ALL {
        let content = format!("right\n{}", "and more\n".repeat(500));
        let mut cut = call(
            "full_rewrite",
            json!({"path": "answer.txt", "expect_version": 1, "content": content}),
        );
        let whole = cut.clone();
        cut["cut_after_bytes"] = 3000.into();
        let read = call("read", json!({"path": "answer.txt"}));
        let turns = opening("write it").into_iter().chain([read, cut, whole]);
        let turns = turns.chain([call("verify", json!({})), done()]);
        let told = Act::new()
            .file("answer.txt", "none\n")
            .pipeline(image(), &[("test", "grep -qx right answer.txt")])
            .script_over(wire, &script(turns))
            .run("write the answer")
            .status(0)
            .script_used_up();
        assert_eq!(told.read("answer.txt"), content);
        let editor = told.requests_of("editor");
        assert_eq!(editor[2].raw, editor[3].raw, "{wire:?}: the same turn was asked for again");
        let last = String::from_utf8_lossy(&editor.last().unwrap().raw).into_owned();
        let mismatch = r#"\"reason\":\"version_mismatch"#;
        assert!(!last.contains(mismatch), "{wire:?}: {last}");
    }
}

/// Security line 156: a Scout's time is over when it is over, however the model drips.
#[test]
fn the_time_of_a_scout_holds_against_a_model_that_stands_still() {
    let story = |wire| {
        let mut turns = asking("write it");
        turns[1]["stall_after_bytes"] = 300.into();
        turns[1]["repeat"] = 3.into();
        let yaml = json!({
            "verification": {"container_image": image(), "steps": [{"name": "test", "command": "true"}]},
            // Long enough for each attempt to come as far as the model, on a busy machine as well.
            "timeouts": {"scout_query": 6000},
        });
        Act::new()
            .file("answer.txt", "none\n")
            .file("agent.yaml", yaml.to_string())
            .script_over(wire, &script(turns))
            .start(["run", "--json", "write the answer"])
    };
    // Together, because all that they do is wait.
    for (wire, running) in Wire::ALL.map(|wire| (wire, story(wire))) {
        let told = running.wait().status(4);
        assert_eq!(told.requests_of("scout-a").len(), 3, "{wire:?}: {told}");
        assert!(told.runs().is_empty());
        let events = lines(&told);
        let ends = events.iter().filter(|event| event["type"] == "scout_finished");
        let times: Vec<_> = ends
            .filter(|event| event["scout"] == "scout-a" && event["outcome"] == "failed")
            .map(|event| event["duration_ms"].as_u64().unwrap())
            .collect();
        assert_eq!(times.len(), 3, "{wire:?}: {told}");
        // Its own clock: what a busy machine adds is its turn to look at that.
        assert!(times.iter().all(|time| (5900..9000).contains(time)), "{wire:?}: {times:?}");
    }
}
