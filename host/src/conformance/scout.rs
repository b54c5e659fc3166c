//! What a Scout is asked: facts without a model, then the same question with a model that talks nonsense, one that helps,
//! that one again, and one that is not there.

use std::io;

use serde_json::Value;

use super::Options;
use super::check::Checks;
use super::fixture::Fixture;
use super::model;
use super::probe::Probe;
use super::sample;
use act_agent::scout::OwnReport;
use act_component::{ComponentFailure, GuestFailure, ScoutQuestion};

pub(super) async fn look(
    probe: &mut Probe<'_, act_component::ScoutComponent>,
    options: &Options,
    checks: &mut Checks,
) -> io::Result<()> {
    let manifest = &probe.component.manifest;
    let role = manifest.name.clone();
    let own = match OwnReport::new(manifest.report.as_deref()) {
        Ok(own) => own,
        Err(why) => {
            checks.note("report", Err(format!("its schema cannot be used: {why}")));
            return Ok(());
        }
    };
    let schema: Value = manifest
        .report
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let question = |facts_only| ScoutQuestion {
        text: options.question.clone(),
        context: options.context.clone(),
        facts_only,
    };

    let played = model::play(model::nonsense(&role)?)?;
    let answer = probe.ask("facts", question(true), &played).await;
    let asked = played.requests().len();
    if probe.goes_on() {
        checks.note("facts", facts(answer, asked));
    } else {
        return Ok(());
    }

    let answer = probe.ask("model_nonsense", question(false), &played).await;
    if !probe.goes_on() {
        return Ok(());
    }
    checks.note("model_nonsense", coped(answer, &own));

    let script = match &options.script {
        Some(script) => script.clone(),
        None => model::helpful(&role, played.requests().get(asked), &schema)?,
    };
    let played = model::play(script.clone())?;
    let first = probe.ask("report", question(false), &played).await;
    if !probe.goes_on() {
        return Ok(());
    }
    let first = first.map_err(|failure| failure.to_string());
    let first = first.and_then(|report| own.check(&report).map(|_| report));
    checks.note("report", first.as_ref().map(drop).map_err(Clone::clone));
    if let Ok(report) = first {
        checks.note("paths", paths(&report, probe.fixture));
        let played = model::play(script)?;
        let again = probe.ask("repeats", question(false), &played).await;
        if !probe.goes_on() {
            return Ok(());
        }
        checks.note(
            "repeats",
            match again {
                Ok(again) if again == report => Ok(()),
                Ok(_) => {
                    Err("the same question and the same answers gave another report".to_owned())
                }
                Err(failure) => Err(failure.to_string()),
            },
        );
    }

    let played = model::play(model::unavailable(&role)?)?;
    let answer = probe.ask("model_failure", question(false), &played).await;
    if probe.goes_on() {
        checks.note("model_failure", coped(answer, &own));
    }
    Ok(())
}

/// JSON, and nobody was asked.
fn facts(answer: Result<String, ComponentFailure>, asked: usize) -> Result<(), String> {
    let facts = answer.map_err(|failure| failure.to_string())?;
    serde_json::from_str::<Value>(&facts)
        .map_err(|error| format!("the facts are no JSON: {error}"))?;
    match asked {
        0 => Ok(()),
        _ => Err("it asked the model where only facts were wanted".to_owned()),
    }
}

/// A report that fits all the same, or that the model did not deliver.
fn coped(answer: Result<String, ComponentFailure>, own: &OwnReport) -> Result<(), String> {
    match answer {
        Ok(report) => own.check(&report).map(drop),
        Err(failure @ ComponentFailure::Guest(GuestFailure::OutOfScope(_))) => {
            Err(failure.to_string())
        }
        Err(_) => Ok(()),
    }
}

/// Every file that a report names in a field `path`, `file`, `…files` or `…paths` is there.
fn paths(report: &str, fixture: &Fixture) -> Result<(), String> {
    let report: Value = serde_json::from_str(report).map_err(|error| error.to_string())?;
    let mut wrong = vec![];
    missing(&report, false, &|path| fixture.has(path), &mut wrong);
    match wrong.first() {
        None => Ok(()),
        Some(path) => Err(format!("the report names {path:?}, which is not in the repository")),
    }
}

fn missing(value: &Value, is_path: bool, has: &dyn Fn(&str) -> bool, wrong: &mut Vec<String>) {
    match value {
        Value::String(path) if is_path && !has(path) => wrong.push(path.clone()),
        Value::Array(items) => items.iter().for_each(|item| missing(item, is_path, has, wrong)),
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(name, value)| missing(value, sample::names_files(name), has, wrong));
        }
        _ => {}
    }
}
