//! `scripts/bench prompt`: the bytes that one small task sends over each wire, counted in the bodies of its requests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on panics"
)]

#[allow(dead_code, reason = "a bench needs a part of it")]
#[path = "../../tests/harness/engine.rs"]
mod engine;
#[path = "../../tests/harness/mod.rs"]
mod harness;
#[path = "../../tests/container/image.rs"]
mod image;
mod small_task;

use act_testing::{Recorded, Wire};
use small_task::Pace;

fn unmarked(request: &Recorded) -> String {
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    String::from_utf8_lossy(&request.raw).replace(mark, "")
}

/// Returns the body up to the end of the conversation, which a cache of the provider could hold.
fn conversation(request: &Recorded) -> String {
    let text = unmarked(request);
    let end = [r#"]}],"max_tokens""#, "]}"].iter().find_map(|end| text.rfind(end)).unwrap();
    text[..end].to_owned()
}

fn main() {
    println!(
        "{:<34}{:>8}{:>8}{:>8}{:>8}{:>10}",
        "bytes", "first", "editor", "scouts", "task", "prefix"
    );
    let paces = [(Pace::One, "one call a turn"), (Pace::Several, "several")];
    for (wire, (pace, words)) in
        Wire::ALL.into_iter().flat_map(|wire| paces.map(|pace| (wire, pace)))
    {
        let told = small_task::start(wire, pace).wait().status(0).script_used_up();
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
            "{:<34}{first:>8}{editors:>8}{:>8}{task:>8}{prefix:>10}",
            format!("{}, {words}", wire.name()),
            task - editors
        );
    }
    println!("{:<34}{:>8}{:>8}{:>8}{:>8}{:>10}", "aim", "", "", "", 70000, "all");
    println!(
        "others: mini-swe-agent 3400 first, 15700 task; aider 11500 first; Codex 37000 first, 155000 task; Claude Code 116000 first"
    );
}
