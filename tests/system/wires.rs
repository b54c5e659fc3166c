//! The same tasks over each provider's wire, chosen by the variables a user sets.

use act::model::scripted::Wire;

use crate::harness::script::{attempt, call, done, opening, script};
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
            .stderr_has("[redacted]");
        only_in_headers(&told, wire);

        let idle = json!({"role": "editor", "text": "hm", "repeat": 9});
        let told = repository()
            .script_over(wire, &script(opening("x").into_iter().chain([idle])))
            .act(["run", "--verbose", "write the answer"])
            .status(3);
        only_in_headers(&told, wire);
    }
}
