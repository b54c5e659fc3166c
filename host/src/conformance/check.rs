//! The checks by their names, and what came of each.

use serde::Serialize;

use act_component::Kind;

/// Before anything runs, in this order.
pub(super) const ADMITTED: [&str; 6] =
    ["component", "manifest", "interfaces", "kind", "grants", "loads"];
const SCOUT: [&str; 6] = ["facts", "model_nonsense", "report", "paths", "repeats", "model_failure"];
const TOOL: [&str; 3] = ["calls", "bad_arguments", "unknown_tool"];
/// Over all queries.
const ALWAYS: [&str; 3] = ["ends", "limits", "confined"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Pass,
    Fail,
    /// Something before it failed.
    Skipped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// A stable word.
    pub name: String,
    pub verdict: Verdict,
    /// Why it failed.
    pub reason: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Checks(Vec<Check>);

impl Checks {
    /// The first reason counts.
    pub(super) fn note(&mut self, name: &'static str, found: Result<(), String>) {
        let (verdict, reason) = match found {
            Ok(()) => (Verdict::Pass, None),
            Err(reason) => (Verdict::Fail, Some(reason)),
        };
        let known = self.0.iter_mut().find(|check| check.name == name);
        match known {
            Some(check) if check.verdict == Verdict::Fail => {}
            Some(check) => (check.verdict, check.reason) = (verdict, reason),
            None => self.0.push(Check { name: name.to_owned(), verdict, reason }),
        }
    }

    /// Every check of such a component is named, also one that was not reached.
    pub(super) fn skip_the_rest(&mut self, kind: Option<Kind>) {
        let own: &[&str] = match kind {
            Some(Kind::Scout) => &SCOUT,
            Some(Kind::Tool) => &TOOL,
            None => &[],
        };
        let asked: &[&str] = if kind.is_some() { &ALWAYS } else { &[] };
        let mut all = vec![];
        for name in ADMITTED.iter().chain(own).chain(asked) {
            let found = self.0.iter().find(|check| check.name == *name).cloned();
            all.push(found.unwrap_or_else(|| Check {
                name: (*name).to_owned(),
                verdict: Verdict::Skipped,
                reason: None,
            }));
        }
        self.0 = all;
    }

    pub(super) fn hold(&self) -> bool {
        self.0.iter().all(|check| check.verdict == Verdict::Pass)
    }

    pub(super) fn into_list(self) -> Vec<Check> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // COMPONENT-5
    #[test]
    fn the_first_reason_stays_and_what_was_not_reached_is_named() {
        let mut checks = Checks::default();
        checks.note("component", Ok(()));
        checks.note("manifest", Err("one".to_owned()));
        checks.note("manifest", Ok(()));
        checks.skip_the_rest(Some(Kind::Tool));
        assert!(!checks.hold());
        let list = checks.into_list();
        assert_eq!(list.len(), 12);
        assert_eq!(list[1].reason.as_deref(), Some("one"));
        assert!(list[2..].iter().all(|check| check.verdict == Verdict::Skipped));
    }
}
