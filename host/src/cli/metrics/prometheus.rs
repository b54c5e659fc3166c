//! Metrics in the text exposition format of Prometheus, version 0.0.4 (pure).

use std::fmt::Write as _;

use crate::task::{Metrics, Spread};

pub(super) fn exposition(metrics: &Metrics) -> String {
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
        // Without a task there is no mean, and a family without samples says nothing.
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
pub(super) mod tests {
    use std::collections::BTreeMap;

    use regex::Regex;

    use super::*;
    use act_core::event::ModelUsage;

    pub(in super::super) fn metrics() -> Metrics {
        let spread = |count, sum, p50, p99| Spread {
            count,
            sum,
            p50: Some(p50),
            p90: Some(p99),
            p99: Some(p99),
        };
        let usage = ModelUsage { input: 30, cached: 20, output: 10 };
        Metrics {
            since: Some("2026-11-21T10:00:00.000Z".into()),
            tasks: BTreeMap::from([("STUCK".into(), 0), ("SUCCESS".into(), 2)]),
            verify_attempts_mean: Some(1.5),
            replans_per_task: Some(0.5),
            scout_latency_ms: BTreeMap::from([("scout-a".into(), spread(2, 400, 100, 300))]),
            verifier_ms: spread(1, 2500, 2500, 2500),
            tokens: BTreeMap::from([("editor".into(), usage)]),
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
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
    }
}
