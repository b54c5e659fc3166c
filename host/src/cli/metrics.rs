//! `act metrics`: results, durations and token use of all tasks, for people, programs and Prometheus.

use std::fmt::Write as _;
use std::path::Path;

use super::answer;
use crate::output::{Line, Output, Tone};
use act_core::exit::Exit;
use act_core::{Failure, Usd};
use act_task::{self as task, Metrics as Measured, Spread};

const AFTER_HELP: &str = "\
Examples:
  act metrics
  act metrics --prometheus > /var/lib/node_exporter/act.prom";

/// Show results, durations and token use
///
/// Counts the tasks of every repository that uses this artifact directory, since the first task, including tasks whose
/// runs were deleted.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Metrics {
    /// Print in the exposition format of Prometheus
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Metrics {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let metrics = task::metrics(Path::new("."))?;
        match self.prometheus {
            true => output.result(&exposition(&metrics)),
            false => answer(output, &metrics, || lines(&metrics)),
        }
        Ok(Exit::Ok)
    }
}

fn lines(metrics: &Measured) -> Vec<Line> {
    let since = metrics.since.as_ref();
    let first = since.map_or("No tasks yet".to_owned(), |time| format!("Since {time}"));
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

/// Returns the tables with their titles, the names of their columns and their rows.
fn tables(metrics: &Measured) -> [(&'static str, &'static [&'static str], Vec<Row>); 5] {
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
        ("Cost", &[], costs(metrics)),
    ]
}

/// Returns the rows about the cost; none where no task has sent a request.
fn costs(metrics: &Measured) -> Vec<Row> {
    let row = |name: &str, cell: String| (name.to_owned(), vec![cell]);
    let known = (metrics.cost_usd > Usd::ZERO).then(|| row("known", metrics.cost_usd.rounded()));
    let unknown = metrics.cost_unknown_tasks;
    let unknown = (unknown > 0).then(|| row("tasks of unknown cost", unknown.to_string()));
    known.into_iter().chain(unknown).collect()
}

/// Returns a table whose columns are as narrow as their content, so that usual tables fit into 40 columns.
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

/// Returns the metrics in the text exposition format of Prometheus, version 0.0.4.
fn exposition(metrics: &Measured) -> String {
    let mut page = Page(String::new());
    page.family("act_tasks_total", "counter", "Tasks that have ended, by final state.");
    for (state, count) in &metrics.tasks {
        page.sample("act_tasks_total", &[("state", state)], *count as f64);
    }
    let means = [
        (
            "act_verify_attempts_mean",
            "Verify attempts of a task that was verified.",
            metrics.verify_attempts_mean,
        ),
        ("act_replans_per_task", "REPLANs of a task that was verified.", metrics.replans_per_task),
    ];
    for (name, help, value) in means {
        // Without a task there is no mean; a family without samples would be noise.
        if let Some(value) = value {
            page.family(name, "gauge", help);
            page.sample(name, &[], value);
        }
    }
    if !metrics.scout_latency_ms.is_empty() {
        let name = "act_scout_latency_seconds";
        page.family(name, "summary", "Time of one attempt of a Scout's query.");
        for (scout, spread) in &metrics.scout_latency_ms {
            page.summary(name, &[("scout", scout)], spread);
        }
    }
    let name = "act_verifier_duration_seconds";
    page.family(name, "summary", "Time of one verification.");
    page.summary(name, &[], &metrics.verifier_ms);
    if !metrics.tokens.is_empty() {
        let name = "act_tokens_total";
        page.family(name, "counter", "Tokens by role; input includes what came from a cache.");
        for (role, usage) in &metrics.tokens {
            for (kind, count) in
                [("input", usage.input), ("cached", usage.cached), ("output", usage.output)]
            {
                page.sample(name, &[("role", role), ("kind", kind)], count as f64);
            }
        }
    }
    // Without a request there is no cost to report.
    if !metrics.tokens.is_empty() {
        let name = "act_cost_usd_total";
        page.family(name, "counter", "Cost of the tasks whose cost is known, in US dollars.");
        let _ = writeln!(page.0, "{name} {}", metrics.cost_usd);
        let name = "act_tasks_of_unknown_cost_total";
        page.family(name, "counter", "Tasks whose cost is not known.");
        page.sample(name, &[], metrics.cost_unknown_tasks as f64);
    }
    page.0
}

struct Page(String);

impl Page {
    // Writing to a string does not fail.

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn summary(&mut self, name: &str, labels: &[(&str, &str)], spread: &Spread) {
        for (quantile, share) in [("0.5", spread.p50), ("0.9", spread.p90), ("0.99", spread.p99)] {
            if let Some(share) = share {
                let labels: Vec<_> =
                    labels.iter().copied().chain([("quantile", quantile)]).collect();
                self.sample(name, &labels, share as f64 / 1000.0);
            }
        }
        self.sample(&format!("{name}_sum"), labels, spread.sum as f64 / 1000.0);
        self.sample(&format!("{name}_count"), labels, spread.count as f64);
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use regex::Regex;

    use super::*;
    use act_core::event::ModelUsage;

    fn metrics() -> Measured {
        let spread = |count, sum, p50, p99| Spread {
            count,
            sum,
            p50: Some(p50),
            p90: Some(p99),
            p99: Some(p99),
        };
        let usage = ModelUsage { input: 30, cached: 20, cache_write: 0, output: 10 };
        Measured {
            since: Some("2026-11-21T10:00:00.000Z".into()),
            tasks: BTreeMap::from([("STUCK".into(), 0), ("SUCCESS".into(), 2)]),
            verify_attempts_mean: Some(1.5),
            replans_per_task: Some(0.5),
            scout_latency_ms: BTreeMap::from([("scout-a".into(), spread(2, 400, 100, 300))]),
            verifier_ms: spread(1, 2500, 2500, 2500),
            tokens: BTreeMap::from([("editor".into(), usage)]),
            cost_usd: Usd::from_nanos(1_230_000_000),
            cost_unknown_tasks: 2,
            damaged_tasks: 0,
        }
    }

    #[test]
    fn every_line_is_one_of_the_format() {
        // CLI-52
        let mut odd = metrics();
        odd.scout_latency_ms.insert("a\"b\\c\nd".into(), Spread::default());
        odd.verify_attempts_mean = None;
        let text = exposition(&odd);
        let comment = Regex::new(r"^# (HELP [a-z_]+ .+|TYPE [a-z_]+ (counter|gauge|summary))$");
        let sample = Regex::new(
            r#"^[a-z_]+(\{[a-z]+="([^"\\]|\\["\\n])*"(,[a-z]+="([^"\\]|\\["\\n])*")*\})? [0-9.]+$"#,
        );
        let (comment, sample) = (comment.unwrap(), sample.unwrap());
        for line in text.lines() {
            assert!(comment.is_match(line) || sample.is_match(line), "{line:?}");
        }
        assert!(text.ends_with('\n'));
        assert!(text.contains("{scout=\"a\\\"b\\\\c\\nd\"} 0\n"), "{text}");
        assert!(!text.contains("attempts_mean"));
    }

    #[test]
    fn durations_are_seconds_and_tokens_have_role_and_kind() {
        // CLI-52
        let text = exposition(&metrics());
        for line in [
            "act_tasks_total{state=\"STUCK\"} 0",
            "act_verify_attempts_mean 1.5",
            "act_scout_latency_seconds{scout=\"scout-a\",quantile=\"0.5\"} 0.1",
            "act_scout_latency_seconds_sum{scout=\"scout-a\"} 0.4",
            "act_verifier_duration_seconds_count 1",
            "act_tokens_total{role=\"editor\",kind=\"cached\"} 20",
            "act_cost_usd_total 1.23",
            "act_tasks_of_unknown_cost_total 2",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
    }

    fn text(metrics: &Measured) -> String {
        lines(metrics).iter().map(|line| line.render(false)).collect()
    }

    #[test]
    fn columns_line_up_and_nothing_empty_is_shown() {
        // CLI-52
        let metrics = metrics();
        assert_eq!(
            text(&metrics),
            "Since 2026-11-21T10:00:00.000Z\n\nTasks\n  SUCCESS  2\n\n\
             Mean of verified tasks\n  attempts  1.50\n  REPLANs   0.50\n\n\
             Seconds     count   p50   p90   p99\n\
             \x20 scout-a       2  0.10  0.30  0.30\n\
             \x20 verifier      1  2.50  2.50  2.50\n\n\
             Tokens    input  cached  output\n\
             \x20 editor     30      20      10\n\n\
             Cost\n  known                  $1.23\n  tasks of unknown cost      2\n"
        );
    }

    #[test]
    fn what_there_is_without_a_task_is_shown() {
        // CLI-52
        let metrics = metrics();
        let verified = Measured {
            since: None,
            tasks: BTreeMap::from([("SUCCESS".into(), 0)]),
            verify_attempts_mean: None,
            replans_per_task: None,
            scout_latency_ms: BTreeMap::new(),
            tokens: BTreeMap::new(),
            cost_usd: Usd::ZERO,
            cost_unknown_tasks: 0,
            ..metrics
        };
        assert_eq!(
            text(&verified),
            "No tasks yet\n\nSeconds     count   p50   p90   p99\n  verifier      1  2.50  2.50  2.50\n"
        );
        let none = Measured { verifier_ms: Spread::default(), ..verified };
        assert_eq!(text(&none), "No tasks yet\n");
    }
}
