//! One question to two Scouts, the one in use and another one: what each answered, and what it took.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use super::scouting::{Asked, Inquiry, ScoutArgs};
use act_agent::scout::difference::{Difference, differences};
use act_core::Failure;
use act_core::event::{Event, EventKind, Events, ModelUsage, Sink};

/// `act scout --with FILE --compare --json` prints it as it is.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// `a`, `b` or the name of an approved one.
    pub scout: String,
    pub question: String,
    /// The component that a task would ask.
    pub installed: Side,
    /// The one that was named.
    pub with: Side,
    /// Of the reports; null unless both answered.
    pub differences: Option<Vec<Difference>>,
    /// Differences beyond those.
    pub more_differences: usize,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ComparisonSide"))]
pub struct Side {
    /// Under which it was approved; of the program's own, its own.
    pub name: String,
    pub sha256: String,
    /// Why there is no report; null when there is one.
    pub error: Option<String>,
    /// One line.
    pub summary: Option<String>,
    pub report: Option<Value>,
    #[serde(flatten)]
    pub took: Took,
    /// Of the model, by role.
    pub tokens: BTreeMap<String, ModelUsage>,
}

/// Of all attempts together; of memory, the most that one of them had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Took {
    pub attempts: u32,
    /// The model's time included.
    pub duration_ms: u64,
    /// Of WebAssembly.
    pub memory_bytes: u64,
    pub model_calls: u64,
    pub files: u64,
    pub bytes: u64,
    pub denials: u64,
}

/// Adds up what the events of one Scout report.
#[derive(Clone, Default)]
struct Meter(Arc<Mutex<Took>>);

impl Sink for Meter {
    fn event(&mut self, event: &Event) {
        let took = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &event.kind {
            EventKind::ScoutFinished { duration_ms, .. } => {
                took.attempts += 1;
                took.duration_ms += duration_ms;
            }
            EventKind::ComponentUsed {
                memory_bytes, model_calls, files, bytes, denials, ..
            } => {
                took.memory_bytes = took.memory_bytes.max(*memory_bytes);
                took.model_calls += model_calls;
                took.files += files;
                took.bytes += bytes;
                took.denials += denials;
            }
            _ => {}
        }
    }
}

/// Both are ready before the first one is asked, and neither hears of the other. Fails only when nothing could be
/// asked; a Scout that gives no report is a result. None when cancelled.
pub async fn compare(
    args: ScoutArgs,
    file: &Path,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<Option<Comparison>, Failure> {
    let inquiry = Inquiry::open(&args).await?;
    let other = inquiry.candidate(file)?;
    let meter = Meter::default();
    let meter_sink: Box<dyn Sink> = Box::new(meter.clone());
    let events = Events::new("", sinks.into_iter().chain([meter_sink]).collect());
    let installed = inquiry.loaded_scout(&args.scout, None, &events)?;
    let with = inquiry.loaded_scout(&args.scout, Some(&other), &events)?;
    let question = inquiry.question(&args);
    let mut sides = vec![];
    for (side, loaded_scout) in [("installed", installed), ("with", with)] {
        // Both say `Scout B` on their way, and may fail.
        let (name, sha256) = (&loaded_scout.known_as, loaded_scout.short_sha256());
        events.inform(format!("{side} asks {name} {sha256}"));
        let asked = loaded_scout.ask(&question, &inquiry).await?;
        let (summary, report, error) = match asked {
            Asked::Answered { summary, report } => (Some(summary), Some(report), None),
            Asked::Failed(failure) => (None, None, Some(failure.message)),
            Asked::Cancelled => return Ok(None),
        };
        let took = std::mem::take(&mut *meter.0.lock().unwrap_or_else(PoisonError::into_inner));
        let (name, sha256) = (loaded_scout.known_as.clone(), loaded_scout.sha256().to_owned());
        let tokens = loaded_scout.tokens();
        sides.push(Side { name, sha256, error, summary, report, took, tokens });
    }
    inquiry.anchor(&events).await;
    let (Some(with), Some(installed)) = (sides.pop(), sides.pop()) else { return Ok(None) };
    let reports = installed.report.as_ref().zip(with.report.as_ref());
    let compared = reports.map(|(one, other)| differences(one, other));
    let more_differences = compared.as_ref().map_or(0, |(_, more)| *more);
    Ok(Some(Comparison {
        scout: args.scout.word().to_owned(),
        question: question.text,
        installed,
        with,
        differences: compared.map(|(all, _)| all),
        more_differences,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_comparison_is_published() {
        // EVENT-8
        schema::holds::<Comparison>("scout-compare");
    }
}
