//! One query after the other, and what each used.

use std::collections::BTreeSet;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::check::Checks;
use super::fixture::Fixture;
use act_component::{
    ComponentFailure, HostContext, LoadedComponent, ScoutComponent, ScoutQuestion, ToolComponent,
    ToolOutcome,
};
use act_core::event::{Event, EventKind, Events, Sink};
use act_model::Model;
use act_model::scripted::ScriptedModel;
use act_workspace::{RepoWriter, WriteRules};

/// Denials that are named.
const SHOWN: usize = 3;
/// Grants of which there was not enough, in the words of a denial.
const AMOUNTS: [&str; 5] = ["limits.", "repo.read.bytes", "llm.calls", "llm.tokens", "http.bytes"];

/// One query as it was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Queried {
    /// `facts`, `report`, …, or the name of the tool.
    pub what: String,
    pub duration_ms: u64,
    pub memory_bytes: u64,
    pub model_calls: u64,
    /// `answered`, or why not.
    pub outcome: String,
}

pub(super) struct Probe<'a, C> {
    pub(super) component: &'a C,
    pub(super) fixture: &'a Fixture,
    writer: Arc<RepoWriter>,
    wall: Duration,
    heard: Heard,
    queries: Vec<Queried>,
    /// Why nothing more is asked.
    ended: Result<(), String>,
    limits: Result<(), String>,
}

impl<'a, C: Deref<Target = LoadedComponent>> Probe<'a, C> {
    pub(super) fn new(component: &'a C, fixture: &'a Fixture, wall: Duration) -> io::Result<Self> {
        let writer = RepoWriter::open(fixture.root(), WriteRules::default());
        let writer = Arc::new(writer.map_err(io::Error::other)?);
        let (heard, queries) = (Heard::default(), vec![]);
        let (ended, limits) = (Ok(()), Ok(()));
        Ok(Self { component, fixture, writer, wall, heard, queries, ended, limits })
    }

    /// Whether another query makes sense.
    pub(super) fn goes_on(&self) -> bool {
        self.ended.is_ok() && self.limits.is_ok()
    }

    fn services(&self, model: Option<&Arc<ScriptedModel>>) -> HostContext {
        let scout = self.component.manifest.kind == act_component::Kind::Scout;
        let role = self.component.manifest.name.clone();
        let view = if scout {
            act_workspace::RepoView::open(self.fixture.root(), act_workspace::Profile::Scout).ok()
        } else {
            Some(self.writer.view().clone())
        };
        HostContext {
            view,
            versions: Some(self.writer.versions().clone()),
            writer: (!scout).then(|| Arc::clone(&self.writer)),
            model: model.map(|model| (Arc::clone(model) as Arc<dyn Model>, role)),
            attempt: 1,
            events: Events::new("", vec![Box::new(self.heard.clone())]),
        }
    }

    fn note(&mut self, what: &str, started: Instant, failure: Option<&ComponentFailure>) {
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (memory_bytes, model_calls) = self.heard.used();
        let told = failure.map(|failure| format!("{what}: {failure}"));
        match failure {
            Some(ComponentFailure::Limit(_)) => self.limits = Err(told.unwrap_or_default()),
            Some(
                ComponentFailure::Trap(_)
                | ComponentFailure::Deadline(_)
                | ComponentFailure::Cancelled
                | ComponentFailure::Host(_)
                | ComponentFailure::Unrecorded(_),
            ) => self.ended = Err(told.unwrap_or_default()),
            Some(ComponentFailure::Guest(_) | ComponentFailure::Model(_)) | None => {}
        }
        let most = self.component.grant.limits.memory_bytes;
        if self.limits.is_ok() && memory_bytes > most / 10 * 9 {
            let (held, most) = (memory_bytes >> 20, most >> 20);
            self.limits = Err(format!("{what}: it held {held} of {most} MiB of memory"));
        }
        let outcome = failure.map_or_else(|| "answered".to_owned(), ToString::to_string);
        let what = what.to_owned();
        self.queries.push(Queried { what, duration_ms, memory_bytes, model_calls, outcome });
    }

    /// What holds over all queries.
    pub(super) fn conclude(self, checks: &mut Checks) -> Vec<Queried> {
        let (amounts, rights): (Vec<_>, Vec<_>) =
            self.heard.denials().into_iter().partition(|(grant, _)| is_amount(grant));
        let shown = |denials: &[(String, String)]| {
            let shown =
                denials.iter().take(SHOWN).map(|(grant, object)| format!("{grant}: {object}"));
            let more = denials.len().saturating_sub(SHOWN);
            let more = (more > 0).then(|| format!("{more} more"));
            shown.chain(more).collect::<Vec<_>>().join(", ")
        };
        checks.note("ends", self.ended);
        checks.note(
            "limits",
            self.limits.and_then(|()| match amounts.as_slice() {
                [] => Ok(()),
                amounts => Err(format!("it wanted more than there was: {}", shown(amounts))),
            }),
        );
        checks.note(
            "confined",
            match rights.as_slice() {
                [] => Ok(()),
                rights => Err(format!("it reached for what it may not: {}", shown(rights))),
            },
        );
        self.queries
    }
}

fn is_amount(grant: &str) -> bool {
    AMOUNTS.iter().any(|amount| grant.starts_with(amount))
}

impl Probe<'_, ScoutComponent> {
    pub(super) async fn ask(
        &mut self,
        what: &str,
        question: ScoutQuestion,
        model: &Arc<ScriptedModel>,
    ) -> Result<String, ComponentFailure> {
        let (never, started) = (CancellationToken::new(), Instant::now());
        let services = self.services(Some(model));
        let answer = self.component.ask(question, services, self.wall, &never).await;
        self.note(what, started, answer.as_ref().err());
        answer
    }
}

impl Probe<'_, ToolComponent> {
    pub(super) async fn call(
        &mut self,
        tool: &str,
        arguments: &str,
    ) -> Result<ToolOutcome, ComponentFailure> {
        let (never, started) = (CancellationToken::new(), Instant::now());
        let services = self.services(None);
        let answer = self.component.call(tool, arguments, services, self.wall, &never).await;
        self.note(tool, started, answer.as_ref().err());
        answer
    }
}

/// What is told while it runs.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    denials: BTreeSet<(String, String)>,
    /// Of the last query: memory and requests to the model.
    used: (u64, u64),
}

impl Heard {
    fn used(&self) -> (u64, u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).used
    }

    fn denials(&self) -> BTreeSet<(String, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).denials.clone()
    }
}

impl Sink for Heard {
    fn event(&mut self, event: &Event) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &event.kind {
            // How many there were, of which those above are the first.
            EventKind::ComponentDenied { grant, .. } if grant == "total" => {}
            EventKind::ComponentDenied { grant, object, .. } => {
                told.denials.insert((grant.clone(), object.clone()));
            }
            EventKind::ComponentUsed { memory_bytes, model_calls, .. } => {
                told.used = (*memory_bytes, *model_calls);
            }
            _ => {}
        }
    }
}
