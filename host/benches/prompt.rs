//! `scripts/bench prompt`: what one small task sends, counted in bytes, over each wire.
//!
//! One attempt in a repository of a few files: plan, both Scouts with a look of their own, search, read,
//! an edit, a test, verify, done. Counted are bodies of requests as they were sent.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on panics"
)]

#[path = "../../tests/harness/mod.rs"]
mod harness;
#[path = "../../tests/container/image.rs"]
mod image;

use act::model::scripted::{Recorded, Wire};
use harness::Act;
use harness::script::{call, done, opening, plan, script};
use serde_json::{Value, json};

const FILES: [(&str, &str); 5] = [
    ("answer.txt", "none\n"),
    ("README.md", "# Leap\n\nTells leap years from others.\n\n    sh leap.sh 2024\n"),
    (
        "leap.sh",
        "#!/bin/sh\n# Succeeds for leap years.\nleap() {\n    [ $(($1 % 4)) -eq 0 ]\n}\n\nleap \"$1\"\n",
    ),
    (
        "test.sh",
        "#!/bin/sh\nfailed=0\ncheck() {\n    sh leap.sh \"$1\"; got=$?\n    [ $got -eq \"$2\" ] && echo \"ok $1\" || { echo \"FAIL $1\"; failed=1; }\n}\ncheck 2024 0\ncheck 2023 1\ncheck 1900 1\ncheck 2000 0\nexit $failed\n",
    ),
    ("Makefile", "test:\n\tsh test.sh\n"),
];

/// A look of each Scout's own before its report.
fn scouts() -> Vec<Value> {
    let look = |role: &str| json!({"role": role, "call": {"name": "read", "arguments": {"path": "leap.sh"}}});
    let [_, report_a, report_b] = <[Value; 3]>::try_from(opening("")).unwrap();
    vec![look("scout-a"), report_a, look("scout-b"), report_b]
}

fn story() -> String {
    let rule =
        "    [ $(($1 % 4)) -eq 0 ] && { [ $(($1 % 100)) -ne 0 ] || [ $(($1 % 400)) -eq 0 ]; }";
    let turns = [plan("Century years are leap years only when 400 divides them.")]
        .into_iter()
        .chain(scouts())
        .chain([
            call("search", json!({"pattern": "leap"})),
            call("read", json!({"path": "leap.sh"})),
            call(
                "edit_line",
                json!({"path": "leap.sh", "expect_version": 1, "index": 3, "new": rule}),
            ),
            call("read", json!({"path": "test.sh"})),
            call("verify", json!({})),
            done(),
        ]);
    script(turns)
}

fn unmarked(request: &Recorded) -> String {
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    String::from_utf8_lossy(&request.raw).replace(mark, "")
}

/// Up to the end of the conversation: what a cache could hold.
fn conversation(request: &Recorded) -> String {
    let text = unmarked(request);
    let end = [r#"]}],"max_tokens""#, "]}"].iter().find_map(|end| text.rfind(end)).unwrap();
    text[..end].to_owned()
}

fn main() {
    println!(
        "{:<18}{:>8}{:>8}{:>8}{:>8}{:>10}",
        "bytes", "first", "editor", "scouts", "task", "prefix"
    );
    for wire in Wire::ALL {
        let told = Act::new()
            .files(&FILES)
            .pipeline(harness::image(), &[("test", "sh test.sh")])
            .script_over(wire, &story())
            .run("leap says that 1900 is a leap year. Fix it.")
            .status(0)
            .script_used_up();
        let all = told.requests();
        let sum = |requests: &[Recorded]| requests.iter().map(|it| it.raw.len()).sum::<usize>();
        let editor = told.requests_of("editor");
        let mut kept = (0, 0);
        for role in ["editor", "scout-a", "scout-b"] {
            let turns: Vec<_> = told.requests_of(role).iter().map(conversation).collect();
            kept.0 += turns.windows(2).filter(|pair| pair[1].starts_with(&pair[0])).count();
            kept.1 += turns.len().saturating_sub(1);
        }
        let (first, editors, task) = (editor[0].raw.len(), sum(&editor), sum(&all));
        let prefix = format!("{} / {}", kept.0, kept.1);
        println!(
            "{:<18}{first:>8}{editors:>8}{:>8}{task:>8}{prefix:>10}",
            wire.name(),
            task - editors
        );
    }
    println!("{:<18}{:>8}{:>8}{:>8}{:>8}{:>10}", "aim", 6000, "", "", 70000, "all");
    println!(
        "others: mini-swe-agent 3400 first, 15700 task; aider 11500 first; Codex 37000 first, 155000 task; Claude Code 116000 first"
    );
}
