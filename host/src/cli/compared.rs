//! Two Scouts side by side: what each took, then where their reports differ.

use serde_json::Value;

use crate::output::{Line, Output, Tone};
use crate::task::{Comparison, Side};
use act_core::exit::Exit;

/// Differences and characters of a value that a person is shown.
const SHOWN: usize = 40;
const VALUE: usize = 160;
/// Digits of a digest that tell it from others here.
const SHORT: usize = 12;

/// Both must have answered for exit code 0.
pub(super) fn show(found: &Comparison, output: &Output) -> Exit {
    if output.is_json() {
        output.document(found);
    } else {
        lines(found).iter().for_each(|line| output.result_line(line));
    }
    exit(found)
}

fn exit(found: &Comparison) -> Exit {
    let failed = found.installed.error.is_some() || found.with.error.is_some();
    if failed { Exit::Infra } else { Exit::Ok }
}

fn lines(found: &Comparison) -> Vec<Line> {
    let title = format!("Scout {}", found.scout);
    let mut lines =
        vec![Line::of(Tone::Strong, title).and(Tone::Plain, format!(": {}", found.question))];
    lines.extend(side("installed", &found.installed));
    lines.extend(side("with", &found.with));
    let Some(differences) = &found.differences else { return lines };
    if differences.is_empty() {
        lines.push(Line::of(Tone::Good, "The reports say the same"));
        return lines;
    }
    let count = differences.len() + found.more_differences;
    lines.push(Line::of(Tone::Strong, format!("{count} differences (installed, with)")));
    for difference in differences.iter().take(SHOWN) {
        let field = Line::of(Tone::Faint, format!("  {}: ", difference.field));
        let values = format!("{}, {}", short(&difference.installed), short(&difference.with));
        lines.push(field.and(Tone::Plain, values));
    }
    if count > SHOWN {
        lines.push(Line::of(Tone::Faint, format!("  {} more, shown with --json", count - SHOWN)));
    }
    lines
}

fn side(name: &str, side: &Side) -> Vec<Line> {
    let sha256 = side.sha256.get(..SHORT).unwrap_or(&side.sha256);
    let head = Line::of(Tone::Strong, format!("{name:<9} ")).and(Tone::Plain, &side.name);
    let said = match (&side.summary, &side.error) {
        (Some(summary), _) => (Tone::Plain, summary.clone()),
        (None, error) => (Tone::Bad, error.clone().unwrap_or_default()),
    };
    let sum =
        |of: fn(&act_core::event::ModelUsage) -> u64| side.tokens.values().map(of).sum::<u64>();
    let took = &side.took;
    let figures = format!(
        "  {} ms in {}, {:.1} MiB of memory, {} files with {} bytes, {} model calls, {} tokens in and {} out, {} denials",
        took.duration_ms,
        if took.attempts == 1 {
            "1 attempt".to_owned()
        } else {
            format!("{} attempts", took.attempts)
        },
        took.memory_bytes as f64 / f64::from(1 << 20),
        took.files,
        took.bytes,
        took.model_calls,
        sum(|usage| usage.input),
        sum(|usage| usage.output),
        took.denials,
    );
    vec![
        head.and(Tone::Faint, format!(" {sha256}  ")).and(said.0, said.1),
        Line::of(Tone::Faint, figures),
    ]
}

fn short(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        value => {
            let text = value.to_string();
            let cut: String = text.chars().take(VALUE).collect();
            if cut.len() < text.len() { format!("{cut}…") } else { cut }
        }
    }
}
