//! A verification as the conversation sees it: what the model is told about the response.

use serde_json::{Value, json};

use super::attempt::Attempt;
use super::debug_loop::HARD_STOP_AFTER;
use super::replan;
use act_core::verification::{Verdict, Verification};

/// The model gets the end of the tail; the rest is one `read_log` away.
const TAIL: usize = 8 * 1024;

/// The last bytes of a log, from the start of a line where there is one.
pub(super) fn tail(log: &str) -> &str {
    let from = log.len().saturating_sub(TAIL);
    if from == 0 {
        return log;
    }
    let from = (from..log.len()).find(|at| log.is_char_boundary(*at)).unwrap_or(log.len());
    let rest = log.get(from..).unwrap_or_default();
    match rest.split_once('\n') {
        Some((_, lines)) if !lines.is_empty() => lines,
        _ => rest,
    }
}

/// The result of `verify` for PASS and FAIL.
pub(super) fn told(
    verification: &Verification,
    attempt: &Attempt,
    as_before: Option<&str>,
) -> Value {
    let number = attempt.number;
    let warnings: Vec<_> = verification.warnings.iter().map(|warning| &warning.message).collect();
    match &verification.verdict {
        Verdict::Pass => json!({
            "ok": true,
            "status": "PASS",
            "run_id": verification.run_id,
            "attempt": format!("{number}/{HARD_STOP_AFTER}"),
            "warnings": warnings,
            "next": "call done, or edit on and verify again",
        }),
        verdict => {
            let mut told = json!({
                "ok": false,
                "status": verdict.status(),
                "run_id": verification.run_id,
                "attempt": format!("{number}/{HARD_STOP_AFTER}"),
                "reason": attempt.reason,
                "step": attempt.step,
                "exit_code": attempt.exit_code,
                "warnings": warnings,
                "tail": tail(verification.tail.as_deref().unwrap_or_default()),
            });
            let scouts = replan::requery(std::slice::from_ref(attempt));
            if let Some(as_before) = as_before {
                told["baseline"] = as_before.into();
            }
            if let Some(hint) = ask(&scouts) {
                told["hint"] = hint.into();
            }
            told
        }
    }
}

/// Whom to ask about a failure that no thinking about the change explains.
fn ask(scouts: &[&str]) -> Option<String> {
    let whom = scouts.join(" or ");
    (!scouts.is_empty()).then(|| format!("ask_scout {whom} about it; the log goes along"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EDITOR-19
    #[test]
    fn a_scout_is_named_where_it_can_help() {
        assert_eq!(ask(&[]), None);
        assert!(ask(&["scout-b"]).unwrap().starts_with("ask_scout scout-b "));
    }

    #[test]
    fn a_long_tail_starts_at_a_line_and_a_character() {
        let log: String = (0..4000).map(|n| format!("é line {n}\n")).collect();
        let end = tail(&log);
        assert!(end.len() <= TAIL && end.starts_with("é line ") && end.ends_with("line 3999\n"));
        assert_eq!(tail("short"), "short");
        assert!(tail(&"é".repeat(TAIL)).len() <= TAIL);
    }
}
