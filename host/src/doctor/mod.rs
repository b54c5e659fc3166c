//! What a task would meet on this machine and in this repository, looked at without starting one. Nothing is
//! changed, made or repaired.

mod containers;
mod repository;
mod settings;
mod trial;

use std::path::PathBuf;

use serde::Serialize;

use crate::config::{self, Config, Root};
use crate::workspace::hidden;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Ok,
    /// Works, and is worth knowing.
    Note,
    /// A task would not start, or not come to its end.
    Red,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// `repository`, `engine`, `image`, `limits`, `leftovers`, `components`, `model`, `model_call`,
    /// `artifacts` or `excluded`.
    pub name: &'static str,
    pub level: Level,
    pub message: String,
    /// What to do; on every red line.
    pub fix: Option<String>,
}

impl Check {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, message: message.into(), fix: None }
    }

    fn note(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, level: Level::Note, message: message.into(), fix: Some(fix.into()) }
    }

    fn red(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, level: Level::Red, message: message.into(), fix: Some(fix.into()) }
    }
}

/// A tracked file that no Scout can see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Excluded {
    pub path: String,
    /// `secret`, `binary`, `build_directory`, `version_control`, `temporary` or `ignored`.
    pub rule: &'static str,
}

/// `act doctor --json` prints it as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// No line is red.
    pub healthy: bool,
    pub checks: Vec<Check>,
    /// With `--excluded`.
    pub excluded: Option<Vec<Excluded>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorArgs {
    pub repo: PathBuf,
    /// Spend one request.
    pub model: bool,
    pub excluded: bool,
}

pub async fn examine(args: &DoctorArgs) -> Report {
    let (root, config, mut checks) = repository::check(&args.repo);
    checks.extend(containers::check(config.as_ref()).await);
    checks.push(settings::components());
    let access = config::model_access(|name: &str| std::env::var(name).ok());
    checks.push(settings::model(&access));
    if args.model {
        match &access {
            Ok(access) => checks.push(trial::call(access).await),
            Err(_) => checks.push(Check::red(
                "model_call",
                "not tried: no model is set up",
                "see the line about the model",
            )),
        }
    }
    checks.push(settings::artifacts(root.as_deref()));
    let excluded = match (args.excluded, &root) {
        (false, _) => None,
        (true, None) => Some(vec![]),
        (true, Some(root)) => match hidden(root) {
            Ok(hidden) => {
                let rows = hidden.into_iter();
                Some(
                    rows.map(|file| Excluded { path: file.path, rule: file.rule.word() }).collect(),
                )
            }
            Err(error) => {
                checks.push(Check::red(
                    "excluded",
                    format!("the repository cannot be looked through: {error}"),
                    "check that it may be read",
                ));
                Some(vec![])
            }
        },
    };
    let healthy = checks.iter().all(|check| check.level != Level::Red);
    Report { healthy, checks, excluded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::schema;

    #[test]
    fn the_schema_of_a_report_is_published() {
        // EVENT-8
        schema::holds::<Report>("doctor");
    }
}
