//! The Scout that is a component: one store for each attempt, nothing remembered between two.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use act_agent::scout::{QueryFailure, Question, Scout};
use act_component::{ComponentFailure, HostContext, ScoutComponent, ScoutQuestion};
use act_model::ModelErrorKind;

pub struct ComponentScout {
    name: String,
    component: ScoutComponent,
    services: HostContext,
    about: Option<String>,
    /// For one attempt, the model's time included.
    wall: Duration,
}

impl ComponentScout {
    pub fn new(
        name: &str,
        component: ScoutComponent,
        services: HostContext,
        wall: Duration,
    ) -> Self {
        Self { name: name.to_owned(), component, services, about: None, wall }
    }

    /// One more than the two that every Editor knows: what its author says that it is good for.
    #[must_use]
    pub fn introduced(mut self) -> Self {
        self.about = Some(self.component.manifest.about.clone());
        self
    }
}

impl Scout for ComponentScout {
    fn name(&self) -> &str {
        &self.name
    }

    fn sha256(&self) -> &str {
        &self.component.sha256
    }

    fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
        attempt: u32,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, QueryFailure>> {
        Box::pin(async move {
            let asked = ScoutQuestion {
                text: question.text.clone(),
                context: question.context.clone(),
                facts_only: false,
            };
            let services = HostContext { attempt, ..self.services.clone() };
            self.component.ask(asked, services, self.wall, cancel).await.map_err(failure)
        })
    }
}

fn failure(failure: ComponentFailure) -> QueryFailure {
    QueryFailure {
        message: failure.to_string(),
        is_retryable: failure.is_retryable(),
        retry_after: failure.retry_after(),
        cancelled: matches!(failure, ComponentFailure::Cancelled),
        budget_spent: matches!(
            &failure,
            ComponentFailure::Model(error) if error.kind == ModelErrorKind::Budget
        ),
    }
}
