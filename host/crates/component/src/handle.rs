//! Loaded components: a Scout that answers questions, and a tool component whose tools are called.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wasmtime::component::InstancePre;
use wasmtime::{Engine, Store};

use crate::LoadError;
use crate::audit::ComponentAudit;
use crate::bindings::scout::{ScoutPre, exports::agentcommand::scout::scout};
use crate::bindings::tool::{ToolPre, exports::agentcommand::tool::tool};
use crate::call::{Call, State, run};
use crate::capability::Grant;
use crate::failure::{ComponentFailure, GuestFailure, MAX_LINE, one_line};
use crate::foreign::{self, Function};
use crate::manifest::{Kind, Manifest};
use crate::outbound::Outbound;
use act_core::event::Events;
use act_model::Model;
use act_symbols::Index;
use act_workspace::{RepoView, RepoWriter, Versions};

/// What is known about a loaded component. Several calls of one component can run at the same time.
#[derive(Clone)]
pub struct LoadedComponent {
    pub manifest: Manifest,
    /// SHA-256 of the component's bytes.
    pub sha256: String,
    /// The effective grant: imports ∩ needs ∩ grants ∩ ceiling.
    pub grant: Grant,
    pub world: &'static str,
    pub imports: Vec<String>,
    pub(crate) outbound: Outbound,
    /// The index of outlines that earlier calls stored.
    pub(crate) outlines: Option<Arc<Index>>,
    /// Whether the directory that the component sees is a scratch copy.
    pub(crate) has_scratch: bool,
    /// Records the calls in the audit log; `None` if they are not recorded.
    pub(crate) audit: Option<Arc<ComponentAudit>>,
}

/// A loaded Scout.
#[derive(Clone)]
pub struct ScoutComponent {
    pub(crate) component: LoadedComponent,
    pub(crate) code: ScoutPre<State>,
}

/// A loaded tool component.
#[derive(Clone)]
pub struct ToolComponent {
    pub(crate) component: LoadedComponent,
    pub(crate) code: ToolCode,
}

#[derive(Clone)]
pub(crate) enum ToolCode {
    Typed(ToolPre<State>),
    /// A plain component, whose exported functions are its tools.
    Plain(InstancePre<State>, Arc<[Function]>),
}

/// A loaded component of either kind.
#[derive(Clone)]
pub enum Loaded {
    Scout(ScoutComponent),
    Tool(ToolComponent),
}

/// The services of the host for one call. A component reaches those that its effective grant covers.
#[derive(Clone)]
pub struct HostContext {
    pub view: Option<RepoView>,
    /// The counters of file versions of this task, shared with the writer.
    pub versions: Option<Versions>,
    pub writer: Option<Arc<RepoWriter>>,
    /// The model, and the role under which the component talks to it.
    pub model: Option<(Arc<dyn Model>, String)>,
    /// Number of the attempt, from 1. Only events show it.
    pub attempt: u32,
    pub events: Events,
}

/// A question to a Scout, with named texts as its context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScoutQuestion {
    pub text: String,
    pub context: Vec<(String, String)>,
    pub facts_only: bool,
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// The text that the model reads.
    pub text: String,
    pub is_error: bool,
}

impl Loaded {
    /// Returns the Scout.
    ///
    /// # Errors
    ///
    /// [`LoadError::OtherKind`] for a tool component.
    pub fn into_scout(self) -> Result<ScoutComponent, LoadError> {
        match self {
            Self::Scout(scout) => Ok(scout),
            Self::Tool(tool) => Err(tool.component.other_kind(Kind::Scout)),
        }
    }

    /// Returns the tool component.
    ///
    /// # Errors
    ///
    /// [`LoadError::OtherKind`] for a Scout.
    pub fn into_tool(self) -> Result<ToolComponent, LoadError> {
        match self {
            Self::Tool(tool) => Ok(tool),
            Self::Scout(scout) => Err(scout.component.other_kind(Kind::Tool)),
        }
    }

    pub(crate) fn component_mut(&mut self) -> &mut LoadedComponent {
        match self {
            Self::Scout(scout) => &mut scout.component,
            Self::Tool(tool) => &mut tool.component,
        }
    }
}

impl Deref for Loaded {
    type Target = LoadedComponent;

    fn deref(&self) -> &LoadedComponent {
        match self {
            Self::Scout(scout) => &scout.component,
            Self::Tool(tool) => &tool.component,
        }
    }
}

impl Deref for ScoutComponent {
    type Target = LoadedComponent;

    fn deref(&self) -> &LoadedComponent {
        &self.component
    }
}

impl Deref for ToolComponent {
    type Target = LoadedComponent;

    fn deref(&self) -> &LoadedComponent {
        &self.component
    }
}

impl LoadedComponent {
    fn other_kind(&self, wanted: Kind) -> LoadError {
        let name = self.manifest.name.clone();
        LoadError::OtherKind { name, kind: self.manifest.kind, wanted }
    }
}

impl ScoutComponent {
    /// Asks the Scout once and returns its report as the component wrote it: text that should be JSON and is not checked
    /// yet.
    ///
    /// # Errors
    ///
    /// A [`ComponentFailure`] of this call. Later calls are not affected, because each has a store of its own.
    pub async fn ask(
        &self,
        question: ScoutQuestion,
        host: HostContext,
        wall: Duration,
        cancel: &CancellationToken,
    ) -> Result<String, ComponentFailure> {
        let call = Ask { code: self.code.clone(), question };
        run(&self.component, call, host, wall, cancel).await
    }
}

impl ToolComponent {
    /// Calls a tool once, with the arguments as the model wrote them.
    ///
    /// # Errors
    ///
    /// A [`ComponentFailure`] of this call. Later calls are not affected, because each has a store of its own.
    pub async fn call(
        &self,
        tool: &str,
        arguments: &str,
        host: HostContext,
        wall: Duration,
        cancel: &CancellationToken,
    ) -> Result<ToolOutcome, ComponentFailure> {
        let (code, tool, arguments) = (self.code.clone(), tool.to_owned(), arguments.to_owned());
        run(&self.component, ToolCall { code, tool, arguments }, host, wall, cancel).await
    }
}

struct Ask {
    code: ScoutPre<State>,
    question: ScoutQuestion,
}

impl Call for Ask {
    type Answer = String;

    fn engine(&self) -> &Engine {
        self.code.engine()
    }

    fn record(&self) -> (String, String) {
        let ScoutQuestion { text, context, .. } = &self.question;
        let context = context.iter().map(|(name, text)| format!("\0{name}\0{text}"));
        ("ask".to_owned(), format!("{text}{}", context.collect::<String>()))
    }

    fn text(report: &String) -> &str {
        report
    }

    fn bytes(report: &String) -> usize {
        report.len()
    }

    async fn run(self, store: &mut Store<State>) -> wasmtime::Result<Result<String, GuestFailure>> {
        let instance = self.code.instantiate_async(&mut *store).await?;
        let ScoutQuestion { text, context, facts_only } = self.question;
        let question = scout::Question { text, context, facts_only };
        let answer = instance.agentcommand_scout_scout().call_ask(store, &question).await?;
        Ok(answer.map_err(|failure| match failure {
            scout::Failure::OutOfScope(why) => GuestFailure::OutOfScope(line(&why)),
            scout::Failure::Model(why) => GuestFailure::Model(line(&why)),
            scout::Failure::Other(why) => GuestFailure::Other(line(&why)),
        }))
    }
}

struct ToolCall {
    code: ToolCode,
    tool: String,
    arguments: String,
}

impl Call for ToolCall {
    type Answer = ToolOutcome;

    fn engine(&self) -> &Engine {
        match &self.code {
            ToolCode::Typed(code) => code.engine(),
            ToolCode::Plain(code, _) => code.engine(),
        }
    }

    fn record(&self) -> (String, String) {
        (self.tool.clone(), self.arguments.clone())
    }

    fn text(outcome: &ToolOutcome) -> &str {
        &outcome.text
    }

    fn bytes(outcome: &ToolOutcome) -> usize {
        outcome.text.len()
    }

    async fn run(
        self,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Result<ToolOutcome, GuestFailure>> {
        let Self { code, tool, arguments } = self;
        let code = match code {
            ToolCode::Typed(code) => code,
            ToolCode::Plain(code, functions) => {
                return foreign::call(&code, &functions, store, &tool, &arguments).await;
            }
        };
        let instance = code.instantiate_async(&mut *store).await?;
        let answer = instance.agentcommand_tool_tool().call_call(store, &tool, &arguments).await?;
        Ok(match answer {
            // `data` is not used: a tool reports refused edits through `repo/edit.report-refusal`.
            Ok(tool::Outcome { text, is_error, .. }) => Ok(ToolOutcome { text, is_error }),
            Err(tool::Failure::UnknownTool) => Err(GuestFailure::UnknownTool),
            Err(tool::Failure::BadArguments(why)) => Err(GuestFailure::BadArguments(line(&why))),
            Err(tool::Failure::Other(why)) => Err(GuestFailure::Other(line(&why))),
        })
    }
}

fn line(text: &str) -> String {
    one_line(text, MAX_LINE)
}
