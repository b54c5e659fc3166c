use serde_json::json;

use super::substitute::Values;
use super::*;

fn refused(yaml: &str) -> ScriptError {
    Script::from_yaml(yaml).unwrap_err()
}

/// Texts of all turns of a role, with their round filled in.
fn texts(script: &Script, role: &str) -> Vec<String> {
    let turns = script.roles.get(role).into_iter().flatten();
    turns.map(|turn| Values::new(turn.n, "").text(turn.text.as_deref().unwrap())).collect()
}

#[test]
fn loops_are_written_out_in_order_and_count_their_rounds() {
    let script = Script::from_yaml(
        "turns:
          - {role: editor, text: first}
          - repeat: 2
            turns:
              - {role: editor, text: 'a{{n}}'}
              - {role: scout-a, text: 's{{n}}'}
          - {role: editor, repeat: 2, text: 'b{{n}}'}",
    )
    .unwrap();
    assert_eq!(texts(&script, "editor"), ["first", "a1", "a2", "b1", "b2"]);
    assert_eq!(texts(&script, "scout-a"), ["s1", "s2"]);
}

#[test]
fn errors_name_the_line() {
    let unknown = refused("turns:\n  - {role: editor, text: a}\n  - {role: editor, txet: b}\n");
    assert_eq!((unknown.line, unknown.column), (3, 20), "{unknown}");
    assert!(unknown.to_string().starts_with("script line 3, column 20: "), "{unknown}");
    assert_eq!(
        refused("turns:\n  - {text: a}\n").to_string(),
        "script line 2, column 5: a turn needs a role"
    );
    assert_eq!(refused("turns:\n  - {role: editor}\n").line, 2);
    assert_eq!(
        refused("turns: [{role: e, text: a, cut_after_bytes: 1, stall_after_bytes: 2}]").line,
        1
    );
    assert_eq!(refused("turns: [{repeat: 200000, role: e, text: a}]").line, 1);
    assert_eq!(refused("turns:\n  - {repeat: 2, turns: [{repeat: 2, turns: []}]}").line, 2);
    assert_eq!(
        refused("turns:\n  - {role: e, text: a}\n  - {role: e, text: a, repeat: -1}").line,
        3
    );
}

#[test]
fn placeholders_take_their_values_from_the_request() {
    let request = r#"{"messages":["run_20261121_100000_aaaaaa run_20261121_100001_bbbbbb",
        "{\"ok\":true,\"new_version\":3}","again run_20261121_100000_aaaaaa \"version\": 4"]}"#;
    let values = Values::new(7, request);
    assert_eq!(values.text("{{n}}: {{last_run_id}}"), "7: run_20261121_100000_aaaaaa");
    assert_eq!(
        values.text("{{run_ids}}"),
        "run_20261121_100001_bbbbbb, run_20261121_100000_aaaaaa"
    );
    assert_eq!(
        values.json(&json!({"a": ["{{last_version}}", "v{{last_version}}", "{{n}}", 1]})),
        json!({"a": [4, "v4", 7, 1]})
    );
    assert_eq!(Values::new(1, "").text("{{last_run_id}}"), "{{last_run_id}}");
}

/// A plain client of a few lines, so that the server is judged by other eyes than our own client's.
fn post(server: &ScriptedServer, path: &str, body: &str) -> (u16, String) {
    use std::io::{Read, Write};
    let address =
        server.base_url().strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap().to_owned();
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut reply = String::new();
    let _ = stream.read_to_string(&mut reply);
    let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
    (status, reply)
}

fn request(role: &str) -> String {
    json!({"model": "m", "messages": [{"role": "system", "content": format!("act role: {role}\nx")}]}).to_string()
}

#[test]
fn roles_have_their_own_turns() {
    let script =
        Script::from_yaml("turns: [{role: editor, text: hi}, {role: scout-a, status: 503}]")
            .unwrap();
    let server = ScriptedServer::start(script).unwrap();
    let path = "/v1/chat/completions";
    assert_eq!(post(&server, path, &request("scout-a")).0, 503);
    assert_eq!(server.left(), [("editor".to_owned(), 1)].into());
    assert_eq!(post(&server, path, &request("editor")).0, 200);
    assert!(server.left().is_empty());
    assert_eq!(post(&server, path, &request("editor")).0, 200);
    assert_eq!(post(&server, "/v1/other", "{}").0, 404);
    let roles: Vec<_> = server.requests().into_iter().map(|request| request.role).collect();
    assert_eq!(roles, ["scout-a", "editor", "editor", ""]);
    assert!(
        server.wait(std::time::Duration::ZERO, |seen| seen == Seen { requests: 4, hang_ups: 0 })
    );
}

// SCRIPT-7
#[test]
fn a_delay_ends_when_it_is_released() {
    let script = "turns: [{role: editor, text: hi, delay_ms: 86400000}]";
    let server = ScriptedServer::start(Script::from_yaml(script).unwrap()).unwrap();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| post(&server, "/v1/chat/completions", &request("editor")));
        assert!(server.wait(std::time::Duration::from_secs(60), |seen| seen.requests == 1));
        assert!(server.requests()[0].answered.is_none());
        server.release();
        assert_eq!(asking.join().unwrap().0, 200);
    });
}

#[test]
fn the_same_script_gives_the_same_bytes() {
    let script = Script::from_yaml(
        "turns: [{role: e, text: 'äöü and more', calls: [{name: f, arguments: {b: 1, a: 2}}]}]",
    );
    let script = script.unwrap();
    let answers: Vec<_> = (0..2)
        .map(|_| {
            let server = ScriptedServer::start(script.clone()).unwrap();
            let (_, reply) = post(&server, "/v1/chat/completions", &request("e"));
            reply.split_once("\r\n\r\n").unwrap().1.to_owned()
        })
        .collect();
    assert_eq!(answers[0], answers[1]);
}
