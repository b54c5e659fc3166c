//! Compares versions as manifests state them: can two statements hold at once?
//!
//! A version that is not understood contradicts nothing.

use crate::facts::Location;

/// A statement of one file about the version of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// `node`, `python`, `go`, `java`, `rust`.
    pub(crate) tool: &'static str,
    /// As written.
    pub(crate) spec: String,
    /// Whether this is the one version that is used, and no range.
    pub(crate) exact: bool,
    /// Whether this is one of several versions that are all used, as in a matrix.
    pub(crate) among: bool,
    pub(crate) location: Location,
}

impl Claim {
    pub(crate) fn exact(tool: &'static str, spec: &str, location: Location) -> Self {
        Self { tool, spec: clean(spec), exact: true, among: false, location }
    }

    pub(crate) fn range(tool: &'static str, spec: &str, location: Location) -> Self {
        Self { tool, spec: spec.trim().to_owned(), exact: false, among: false, location }
    }

    /// Returns a statement. Digits alone are one version, anything else is a range.
    pub(crate) fn of(tool: &'static str, spec: &str, location: Location) -> Self {
        match numbers(&clean(spec)) {
            Some(_) => Self::exact(tool, spec, location),
            None => Self::range(tool, spec, location),
        }
    }

    pub(crate) fn among(self) -> Self {
        Self { among: true, ..self }
    }
}

fn clean(spec: &str) -> String {
    let spec = spec.trim().trim_matches(['"', '\'']);
    spec.trim_start_matches(['v', 'V']).to_owned()
}

type Numbers = Vec<u64>;

/// Splits a version: `3.11` is `[3, 11]`. Returns `None` when it has other parts than numbers.
pub(crate) fn numbers(text: &str) -> Option<Numbers> {
    let text = text.split(['-', '+']).next()?.trim().trim_start_matches(['v', 'V']);
    let text = text.trim_end_matches(".x").trim_end_matches(".*").trim_end_matches(".X");
    let parts = text.split('.').take(4).map(|part| part.parse().ok());
    parts.collect::<Option<Numbers>>().filter(|parts| !parts.is_empty())
}

/// Returns whether a range allows a version, compared in the numbers that both have. `None` when it is not understood.
pub(crate) fn allows(range: &str, version: &str) -> Option<bool> {
    let version = numbers(version)?;
    let mut any = false;
    for alternative in range.split("||") {
        any |= all_of(alternative, &version)?;
    }
    Some(any)
}

fn all_of(range: &str, version: &[u64]) -> Option<bool> {
    let range = range.trim();
    if range.is_empty() || range == "*" || range == "x" {
        return Some(true);
    }
    if let Some((from, to)) = range.split_once(" - ") {
        return Some(at_least(version, &numbers(from)?) && at_most(version, &numbers(to)?));
    }
    let spaced = range.replace(',', " ");
    // There may be a blank between an operator and its version.
    let mut terms = Vec::<String>::new();
    for word in spaced.split_whitespace() {
        match terms.last_mut() {
            Some(last) if last.ends_with(['<', '>', '=', '~', '^']) => last.push_str(word),
            _ => terms.push(word.to_owned()),
        }
    }
    let mut all = true;
    for term in &terms {
        let split = term.find(|c: char| !"<>=~^!".contains(c))?;
        let (operator, number) = term.split_at(split);
        let bound = numbers(number)?;
        all &= match operator {
            "" | "=" | "==" | "===" => same(version, &bound),
            ">=" => at_least(version, &bound),
            ">" => at_least(version, &bound) && !same(version, &bound),
            "<=" => at_most(version, &bound),
            "<" => below(version, &bound),
            "!=" => !same(version, &bound),
            "^" => {
                let fixed = bound.iter().position(|part| *part != 0).map_or(1, |at| at + 1);
                at_least(version, &bound) && same(version, bound.get(..fixed).unwrap_or(&bound))
            }
            "~" | "~=" => {
                let fixed = match operator {
                    "~=" => bound.len().saturating_sub(1).max(1),
                    _ => bound.len().min(2),
                };
                at_least(version, &bound) && same(version, bound.get(..fixed).unwrap_or(&bound))
            }
            _ => return None,
        };
    }
    Some(all)
}

/// Returns whether two versions are equal in the numbers that both have.
fn same(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

fn at_least(version: &[u64], bound: &[u64]) -> bool {
    for (a, b) in version.iter().zip(bound) {
        if a != b {
            return a > b;
        }
    }
    true
}

fn at_most(version: &[u64], bound: &[u64]) -> bool {
    at_least(bound, version)
}

/// Returns whether a version is lower than another: `3` is lower than `3.9`, and not lower than `3`.
fn below(version: &[u64], bound: &[u64]) -> bool {
    for (a, b) in version.iter().zip(bound) {
        if a != b {
            return a < b;
        }
    }
    bound.len() > version.len() && bound.iter().skip(version.len()).any(|part| *part > 0)
}

/// Returns whether two statements about one tool contradict each other.
pub(crate) fn contradict(a: &Claim, b: &Claim) -> bool {
    match (a.exact, b.exact) {
        // Two versions of a matrix differ on purpose. `any_of` compares a matrix with other files.
        (true, true) => {
            let (Some(a), Some(b)) = (numbers(&a.spec), numbers(&b.spec)) else { return false };
            !same(&a, &b)
        }
        (true, false) => allows(&b.spec, &a.spec) == Some(false),
        (false, true) => allows(&a.spec, &b.spec) == Some(false),
        (false, false) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_all_the_package_managers_are_understood() {
        for (range, version, allowed) in [
            (">=18", "20", Some(true)),
            (">=18", "16.4", Some(false)),
            ("^18.0.0", "20", Some(false)),
            ("18.x", "18.19.1", Some(true)),
            ("18 || 20", "20.1", Some(true)),
            (">= 16 < 19", "20", Some(false)),
            (">=3.9,<3.13", "3.12", Some(true)),
            (">=3.9,<3.13", "3.13", Some(false)),
            ("~=3.8", "3.12", Some(true)),
            ("~3.8", "3.9", Some(false)),
            ("<4", "3.9", Some(true)),
            ("^0.3.1", "0.4", Some(false)),
            ("12 - 14", "13", Some(true)),
            ("lts/*", "18", None),
            ("*", "1", Some(true)),
        ] {
            assert_eq!(allows(range, version), allowed, "{range} {version}");
        }
    }
}
