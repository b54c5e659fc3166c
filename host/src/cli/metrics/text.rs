//! Metrics as a person reads them (pure).

use std::fmt::Write as _;

use crate::task::{Metrics, Spread};

pub(super) fn text(metrics: &Metrics) -> String {
    let Some(since) = &metrics.since else {
        return "No task was ever accepted\n".to_owned();
    };
    // Writing to a string does not fail.
    let mut out = format!("Since {since}\n\nTasks\n");
    for (state, count) in metrics.tasks.iter().filter(|(_, count)| **count > 0) {
        let _ = writeln!(out, "  {state:<12} {count:>7}");
    }
    if let (Some(attempts), Some(replans)) =
        (metrics.verify_attempts_mean, metrics.replans_per_task)
    {
        let _ = write!(
            out,
            "\nOf a task that was verified, on average\n  attempts     {attempts:>7.2}\n  REPLANs      {replans:>7.2}\n"
        );
    }
    let verifier = [("verifier", &metrics.verifier_ms)];
    let scouts = metrics.scout_latency_ms.iter().map(|(name, spread)| (name.as_str(), spread));
    let timed: Vec<_> = scouts.chain(verifier).filter(|(_, spread)| spread.count > 0).collect();
    if !timed.is_empty() {
        out.push_str("\nSeconds          count     p50     p90     p99\n");
    }
    for (name, spread) in timed {
        let Spread { count, p50, p90, p99, .. } = spread;
        let [p50, p90, p99] = [p50, p90, p99].map(|share| seconds(*share));
        let _ = writeln!(out, "  {name:<12} {count:>7} {p50:>7} {p90:>7} {p99:>7}");
    }
    if !metrics.tokens.is_empty() {
        out.push_str("\nTokens           input   cached   output\n");
    }
    for (role, usage) in &metrics.tokens {
        let (input, cached, output) = (usage.input, usage.cached, usage.output);
        let _ = writeln!(out, "  {role:<10} {input:>9} {cached:>8} {output:>8}");
    }
    out
}

fn seconds(milliseconds: Option<u64>) -> String {
    milliseconds.map_or("-".into(), |ms| format!("{:.2}", ms as f64 / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_empty_is_shown() {
        // CLI-52
        let metrics = super::super::prometheus::tests::metrics();
        assert_eq!(
            text(&metrics),
            "Since 2026-11-21T10:00:00.000Z\n\nTasks\n  SUCCESS            2\n\n\
             Of a task that was verified, on average\n  attempts        1.50\n  REPLANs         0.50\n\n\
             Seconds          count     p50     p90     p99\n\
             \x20 scout-a            2    0.10    0.30    0.30\n\
             \x20 verifier           1    2.50    2.50    2.50\n\n\
             Tokens           input   cached   output\n\
             \x20 editor            30       20       10\n"
        );
        let none = Metrics { since: None, ..metrics };
        assert_eq!(text(&none), "No task was ever accepted\n");
    }
}
