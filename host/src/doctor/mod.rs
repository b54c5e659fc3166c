//! Checks everything that a task needs on this machine and in this repository, without starting one. Nothing is changed,
//! created or repaired.

mod containers;
mod repository;
mod settings;
mod trial;

use std::path::PathBuf;

use serde::Serialize;

use act_config::{Config, Root};
use act_workspace::hidden;

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
    /// `repository`, `agent_dir`, `grants`, `ca_bundle`, `engine`, `image`, `limits`, `leftovers`, `components`,
    /// `model`, `artifacts`, `store`, `excluded` or `model_call`.
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

/// Progress of an examination.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    Check(&'a Check),
    Waiting(&'a str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorArgs {
    pub repo: PathBuf,
    /// Spend one request.
    pub model: bool,
    pub excluded: bool,
}

/// Runs all checks. `tell` gets each check as soon as it is done, and the work that takes long before it begins.
pub async fn examine(args: &DoctorArgs, tell: &mut dyn FnMut(Progress<'_>)) -> Report {
    let mut checks: Vec<Check> = vec![];
    let mut found = |more: Vec<Check>, tell: &mut dyn FnMut(Progress<'_>)| {
        more.iter().for_each(|check| tell(Progress::Check(check)));
        checks.extend(more);
    };
    let (root, config, more) = repository::check(&args.repo);
    found(more, tell);
    found(containers::check(config.as_ref()).await, tell);
    let access = act_config::model_access(|name: &str| std::env::var(name).ok());
    found(vec![settings::components(), settings::model(&access)], tell);
    found(settings::artifacts(root.as_deref()), tell);
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
                let why = format!("the repository cannot be looked through: {error}");
                found(vec![Check::red("excluded", why, "check that it may be read")], tell);
                Some(vec![])
            }
        },
    };
    // Last, because it may take its time.
    match (args.model, &access) {
        (false, _) => {}
        (true, Ok(access)) => {
            tell(Progress::Waiting(&trial::waiting()));
            found(vec![trial::call(access).await], tell);
        }
        (true, Err(_)) => {
            let why = "not tried: no model is set up";
            found(vec![Check::red("model_call", why, "see the line about the model")], tell);
        }
    }
    let healthy = checks.iter().all(|check| check.level != Level::Red);
    Report { healthy, checks, excluded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_report_is_published() {
        // EVENT-8
        schema::holds::<Report>("doctor");
    }
}
