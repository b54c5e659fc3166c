use serde_json::json;

use super::*;

/// A plain client of a few lines, so that the server is not tested by our own client alone.
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
        server.wait(std::time::Duration::ZERO, |counts| counts
            == Counts { requests: 4, hang_ups: 0 })
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
