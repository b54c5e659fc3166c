//! Metrics as a person reads them (pure).

use crate::output::{Line, Tone};
use crate::task::{Metrics, Spread};

pub(super) fn lines(metrics: &Metrics) -> Vec<Line> {
    let since = metrics.since.as_ref();
    let first =
        since.map_or("No task was ever accepted".to_owned(), |time| format!("Since {time}"));
    let mut lines = vec![Line::plain(first)];
    for (title, columns, rows) in tables(metrics) {
        if !rows.is_empty() {
            lines.push(Line::default());
            lines.extend(table(title, columns, rows));
        }
    }
    lines
}

type Row = (String, Vec<String>);

/// Each with its title and the names of its columns; those without rows are not shown.
fn tables(metrics: &Metrics) -> [(&'static str, &'static [&'static str], Vec<Row>); 4] {
    let ended = metrics.tasks.iter().filter(|(_, count)| **count > 0);
    let ended = ended.map(|(state, count)| (state.clone(), vec![count.to_string()]));
    let means = [("attempts", metrics.verify_attempts_mean), ("REPLANs", metrics.replans_per_task)];
    let means = means
        .into_iter()
        .filter_map(|(name, mean)| Some((name.to_owned(), vec![format!("{:.2}", mean?)])));
    let scouts = metrics.scout_latency_ms.iter().map(|(name, spread)| (name.as_str(), spread));
    let timed = scouts.chain([("verifier", &metrics.verifier_ms)]);
    let timed = timed.filter(|(_, spread)| spread.count > 0);
    let timed = timed.map(|(name, Spread { count, p50, p90, p99, .. })| {
        (
            name.to_owned(),
            [count.to_string()].into_iter().chain([p50, p90, p99].map(seconds)).collect(),
        )
    });
    let tokens = metrics.tokens.iter().map(|(role, usage)| {
        let counts = [usage.input, usage.cached, usage.output];
        (role.clone(), counts.map(|count| count.to_string()).into())
    });
    [
        ("Tasks", &[], ended.collect()),
        ("Mean of verified tasks", &[], means.collect()),
        ("Seconds", &["count", "p50", "p90", "p99"], timed.collect()),
        ("Tokens", &["input", "cached", "output"], tokens.collect()),
    ]
}

/// As narrow as what stands in it, so that the usual ones fit into 40 columns.
fn table(title: &str, columns: &[&str], rows: Vec<Row>) -> Vec<Line> {
    let rows: Vec<_> = rows.into_iter().map(|(name, cells)| (format!("  {name}"), cells)).collect();
    let named = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    // A title alone is above the names, not beside the cells.
    let named = if columns.is_empty() { named } else { named.max(title.len()) };
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|(_, cells)| cells.get(at)).map(String::len);
        cells.chain(columns.get(at).map(|name| name.len())).max().unwrap_or_default()
    };
    let row = |tone, name: &str, cells: &[&str]| {
        let cells = cells.iter().enumerate().map(|(at, cell)| format!("  {cell:>0$}", width(at)));
        // The name is a span of its own, so that cells for which a terminal has no room stay beside it.
        Line::of(tone, format!("{name:<named$}")).and(tone, cells.collect::<String>())
    };
    let mut lines = vec![match columns {
        [] => Line::of(Tone::Strong, title),
        columns => row(Tone::Strong, title, columns),
    }];
    lines.extend(rows.iter().map(|(name, cells)| {
        row(Tone::Plain, name, &cells.iter().map(String::as_str).collect::<Vec<_>>())
    }));
    lines
}

fn seconds(milliseconds: &Option<u64>) -> String {
    milliseconds.map_or("-".into(), |ms| format!("{:.2}", ms as f64 / 1000.0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn text(metrics: &Metrics) -> String {
        lines(metrics).iter().map(|line| line.render(false)).collect()
    }

    #[test]
    fn columns_line_up_and_nothing_empty_is_shown() {
        // CLI-52
        let metrics = super::super::prometheus::tests::metrics();
        assert_eq!(
            text(&metrics),
            "Since 2026-11-21T10:00:00.000Z\n\nTasks\n  SUCCESS  2\n\n\
             Mean of verified tasks\n  attempts  1.50\n  REPLANs   0.50\n\n\
             Seconds     count   p50   p90   p99\n\
             \x20 scout-a       2  0.10  0.30  0.30\n\
             \x20 verifier      1  2.50  2.50  2.50\n\n\
             Tokens    input  cached  output\n\
             \x20 editor     30      20      10\n"
        );
    }

    #[test]
    fn what_there_is_without_a_task_is_shown() {
        // CLI-52
        let metrics = super::super::prometheus::tests::metrics();
        let verified = Metrics {
            since: None,
            tasks: BTreeMap::from([("SUCCESS".into(), 0)]),
            verify_attempts_mean: None,
            replans_per_task: None,
            scout_latency_ms: BTreeMap::new(),
            tokens: BTreeMap::new(),
            ..metrics
        };
        assert_eq!(
            text(&verified),
            "No task was ever accepted\n\nSeconds     count   p50   p90   p99\n  verifier      1  2.50  2.50  2.50\n"
        );
        let none = Metrics { verifier_ms: Spread::default(), ..verified };
        assert_eq!(text(&none), "No task was ever accepted\n");
    }
}
