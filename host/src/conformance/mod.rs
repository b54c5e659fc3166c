//! Whether a component keeps what its interfaces promise: it is loaded like any other, but into a repository that was made
//! for this, with a scripted model on loopback and without a network, and asked what an Editor may ask.
//!
//! `check` names what is looked at, `admitted` looks before anything runs, `scout` and `tools` ask, `probe` is one query
//! and what came of it, `fixture` the repository, `model` the server, `sample` makes values up from schemas.

mod admitted;
mod check;
mod fixture;
mod model;
mod pattern;
mod probe;
mod sample;
mod scout;
mod tools;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

pub use check::{Check, Verdict};
pub use probe::Queried;

use act_component::{Kind, Loaded};
use act_model::scripted::Script;
use check::Checks;
use fixture::Fixture;
use probe::Probe;

/// What is asked, beside the usual.
#[derive(Debug, Clone)]
pub struct Options {
    /// Of a Scout.
    pub question: String,
    pub context: Vec<(String, String)>,
    /// What the model says to the question; made up from the schemas without one.
    pub script: Option<Script>,
    /// For one query.
    pub wall: Duration,
    /// Where compiled code is kept.
    pub cache: Option<PathBuf>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Conformance {
    pub sha256: String,
    pub bytes: u64,
    /// As its author calls it; null when that cannot be read.
    pub name: Option<String>,
    pub kind: Option<Kind>,
    /// No check failed.
    pub conforms: bool,
    pub checks: Vec<Check>,
    /// Until it could be asked, in milliseconds; `compiled` when nothing was kept from before.
    pub load_ms: u64,
    pub compiled: bool,
    pub queries: Vec<Queried>,
    /// The longest query, and the most memory that one held.
    pub slowest_ms: u64,
    pub memory_bytes: u64,
}

/// Looks at `bytes` before anything of them runs, and then at what they do.
pub async fn test(bytes: &[u8], options: &Options) -> std::io::Result<Conformance> {
    let mut checks = Checks::default();
    let admitted = admitted::look(bytes, options, &mut checks);
    let mut queries = vec![];
    let mut kind = None;
    if let Some(component) = &admitted.component {
        kind = Some(component.manifest.kind);
        queries = asked(component, options, &mut checks).await?;
    }
    let (kind, name) = (kind.or(admitted.kind), admitted.name);
    checks.skip_the_rest(kind);
    Ok(Conformance {
        sha256: act_workspace::digest(bytes),
        bytes: bytes.len() as u64,
        name,
        kind,
        conforms: checks.hold(),
        checks: checks.into_list(),
        load_ms: admitted.load_ms,
        compiled: admitted.compiled,
        slowest_ms: queries.iter().map(|query| query.duration_ms).max().unwrap_or_default(),
        memory_bytes: queries.iter().map(|query| query.memory_bytes).max().unwrap_or_default(),
        queries,
    })
}

async fn asked(
    component: &Loaded,
    options: &Options,
    checks: &mut Checks,
) -> std::io::Result<Vec<Queried>> {
    let fixture = Fixture::create()?;
    match component {
        Loaded::Scout(component) => {
            let mut probe = Probe::new(component, &fixture, options.wall)?;
            scout::look(&mut probe, options, checks).await?;
            Ok(probe.conclude(checks))
        }
        Loaded::Tool(component) => {
            let mut probe = Probe::new(component, &fixture, options.wall)?;
            tools::look(&mut probe, checks).await;
            Ok(probe.conclude(checks))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_test_is_published() {
        // EVENT-8
        schema::holds::<Conformance>("components-test");
    }
}
