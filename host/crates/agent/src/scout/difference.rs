//! Compares two reports field by field. Entries of lists are matched by the file or the name they are about, so that another
//! order is no difference.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

/// Differences that are listed.
const MOST: usize = 500;

/// One place where two reports do not say the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "ReportDifference")
)]
pub struct Difference {
    /// Names of fields with dots between them; an entry of a list in brackets, by its own name where it has one.
    pub field: String,
    /// The value in the report of the component in use; null where that report has none.
    pub installed: Value,
    /// The value in the report of the component in FILE; null where that report has none.
    pub with: Value,
}

/// Returns the first 500 differences, and how many more there are.
pub fn differences(installed: &Value, with: &Value) -> (Vec<Difference>, usize) {
    let mut found = Found::default();
    found.compare(String::new(), installed, with);
    (found.all, found.more)
}

#[derive(Default)]
struct Found {
    all: Vec<Difference>,
    more: usize,
}

impl Found {
    fn add(&mut self, field: String, installed: &Value, with: &Value) {
        if self.all.len() >= MOST {
            self.more += 1;
            return;
        }
        self.all.push(Difference { field, installed: installed.clone(), with: with.clone() });
    }

    fn compare(&mut self, field: String, installed: &Value, with: &Value) {
        match (installed, with) {
            (one, other) if one == other => {}
            (Value::Object(one), Value::Object(other)) => {
                let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
                for name in names {
                    let (one, other) = (one.get(name), other.get(name));
                    let (one, other) = (one.unwrap_or(&Value::Null), other.unwrap_or(&Value::Null));
                    let dot = if field.is_empty() { "" } else { "." };
                    self.compare(format!("{field}{dot}{name}"), one, other);
                }
            }
            (Value::Array(one), Value::Array(other)) => self.lists(&field, one, other),
            (one, other) => self.add(field, one, other),
        }
    }

    fn lists(&mut self, field: &str, one: &[Value], other: &[Value]) {
        let (Some(keys), Some(others)) = (keys(one), keys(other)) else {
            return self.without_names(field, one, other);
        };
        for (key, value) in keys.iter().zip(one) {
            let same = others.iter().position(|other| other == key);
            let same = same.and_then(|at| other.get(at)).unwrap_or(&Value::Null);
            self.compare(format!("{field}[{key}]"), value, same);
        }
        for (key, value) in others.iter().zip(other).filter(|(key, _)| !keys.contains(key)) {
            self.add(format!("{field}[{key}]"), &Value::Null, value);
        }
    }

    /// Lists without names: entries that only one of the lists has, counted as often as they occur.
    fn without_names(&mut self, field: &str, one: &[Value], other: &[Value]) {
        let mut left: Vec<_> = other.iter().collect();
        for value in one {
            match left.iter().position(|other| *other == value) {
                Some(at) => drop(left.remove(at)),
                None => self.add(format!("{field}[]"), value, &Value::Null),
            }
        }
        for value in left {
            self.add(format!("{field}[]"), &Value::Null, value);
        }
    }
}

/// The name of each entry, or `None` when the names are not unique.
fn keys(entries: &[Value]) -> Option<Vec<String>> {
    let keys: Option<Vec<_>> = entries.iter().map(key).collect();
    let keys = keys?;
    let different: BTreeSet<_> = keys.iter().collect();
    (different.len() == keys.len()).then_some(keys)
}

/// The field by which reports name an entry, with its lines, since several entries may be about one file.
fn key(entry: &Value) -> Option<String> {
    if let Some(text) = entry.as_str() {
        return Some(text.to_owned());
    }
    let names = ["path", "file", "id", "name", "issue"];
    let name = names.iter().find_map(|name| entry.get(name)?.as_str())?;
    let lines = ["start_line", "end_line"].map(|line| entry.get(line).and_then(Value::as_u64));
    Some(match lines {
        [Some(start), Some(end)] => format!("{name}:{start}-{end}"),
        _ => name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(installed: Value, with: Value) -> Vec<String> {
        differences(&installed, &with).0.into_iter().map(|one| one.field).collect()
    }

    // CAPABILITY-43
    #[test]
    fn reports_differ_by_field_and_by_what_an_entry_is_about() {
        let one = json!({"build": {"commands": {"test": "a", "clean": null}}, "notes": ["x", "y"],
            "files": [{"path": "a", "why": "1"}, {"path": "b", "why": "2"}]});
        let same = json!({"build": {"commands": {"test": "a"}}, "notes": ["y", "x"],
            "files": [{"path": "b", "why": "2"}, {"path": "a", "why": "1"}]});
        assert_eq!(fields(one.clone(), same), Vec::<String>::new());
        let other = json!({"build": {"commands": {"test": "b", "clean": null}}, "notes": ["y", "z"],
            "files": [{"path": "a", "why": "other"}, {"path": "c", "why": "3"}]});
        assert_eq!(
            fields(one, other),
            ["build.commands.test", "notes[x]", "notes[z]", "files[a].why", "files[b]", "files[c]"]
        );
        let zone = |line: u64, level: &str| json!({"file": "a", "start_line": line, "end_line": 9, "level": level});
        let zones = json!([zone(1, "low"), zone(2, "low")]);
        assert_eq!(fields(zones, json!([zone(2, "high"), zone(1, "low")])), ["[a:2-9].level"]);
    }

    #[test]
    fn what_has_no_name_is_counted() {
        let (all, _) = differences(&json!([1, 1, {"x": 2}]), &json!([{"x": 3}, 1]));
        let of =
            |value: Value, with: Value| Difference { field: "[]".into(), installed: value, with };
        assert_eq!(
            all,
            [
                of(json!(1), Value::Null),
                of(json!({"x": 2}), Value::Null),
                of(Value::Null, json!({"x": 3}))
            ]
        );
    }

    #[test]
    fn there_is_an_end_to_differences() {
        let numbers = |from: usize| json!((from..from + 2000).collect::<Vec<_>>());
        let (all, more) = differences(&numbers(0), &numbers(2000));
        assert_eq!((all.len(), more), (MOST, 4000 - MOST));
    }
}
