//! The corpus: small repositories with what a person reads off them, and how much of it is found.
//!
//! An archive holds files below lines `-- path --`; the first is `expected.json`.

use super::*;
use act_kit::testing::{FakeHost, Files};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn fixtures(directory: &str) -> Vec<PathBuf> {
    // Asked when the test runs: several checkouts may share a target directory.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap();
    let path = Path::new(&package).join("../../tests/fixtures").join(directory);
    let mut paths =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    paths.sort();
    paths
}

pub(crate) fn archive(text: &str) -> Vec<(String, String)> {
    let mut files = Vec::<(String, String)>::new();
    for line in text.split_inclusive('\n') {
        let name = line.trim_end().strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --"));
        match (name, files.last_mut()) {
            (Some(name), _) => files.push((name.to_owned(), String::new())),
            (None, Some((_, text))) => text.push_str(line),
            (None, None) => {}
        }
    }
    files
}

pub(crate) fn facts(files: &[(String, String)]) -> Value {
    let files = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>();
    let host = FakeHost::new(Files::of(&files));
    let question = Question { facts_only: true, ..Question::default() };
    serde_json::from_str(&ask(host.world(), &question).unwrap()).unwrap()
}

/// As expectations are written: `[command, "path:line"]`, `name version`, topics, `path:line`.
fn brief(facts: &Value) -> Value {
    let location =
        |source: &Value| format!("{}:{}", source["path"].as_str().unwrap(), source["line"]);
    let list = |value: &Value| value.as_array().unwrap().clone();
    let projects = list(&facts["projects"]).into_iter().map(|mut project| {
        for (_, command) in project["commands"].as_object_mut().unwrap() {
            if !command.is_null() {
                *command = json!([command["command"], location(&command["source"])]);
            }
        }
        let needed = list(&project["prerequisites"]).into_iter().map(|needed| {
            let version = needed["version"].as_str().map_or(String::new(), |v| format!(" {v}"));
            format!("{}{version}", needed["name"].as_str().unwrap())
        });
        project["prerequisites"] = json!(needed.collect::<Vec<_>>());
        project.as_object_mut().unwrap().remove("source");
        project
    });
    let topics = list(&facts["conflicts"]).into_iter().map(|conflict| conflict["topic"].clone());
    let problems = list(&facts["problems"])
        .into_iter()
        .map(|p| format!("{}:{}", p["path"].as_str().unwrap(), p["line"]));
    let mut topics = topics.collect::<Vec<_>>();
    topics.sort_by_key(Value::to_string);
    let mut problems = problems.collect::<Vec<_>>();
    problems.sort();
    json!({"projects": projects.collect::<Vec<_>>(), "suggested_image": facts["suggested_image"],
           "conflicts": topics, "problems": problems})
}

/// Expected and found, field by field.
#[derive(Default)]
pub(crate) struct Score {
    fields: BTreeMap<String, (usize, usize)>,
    pub(crate) wrong: Vec<String>,
}

impl Score {
    pub(crate) fn field(&mut self, name: &str, whose: &str, expected: &Value, found: &Value) {
        let (right, all) = self.fields.entry(name.to_owned()).or_default();
        *all += 1;
        if expected == found {
            *right += 1;
        } else {
            self.wrong.push(format!("{whose}: {name}\n  expected {expected}\n  found    {found}"));
        }
    }

    /// Printed by `cargo test -- --nocapture corpus`.
    #[allow(clippy::print_stderr, reason = "the score is what this test is run for")]
    pub(crate) fn print(&self) {
        for (name, (right, all)) in &self.fields {
            eprintln!("{name:18} {right:3} of {all:3}");
        }
        for wrong in &self.wrong {
            eprintln!("{wrong}");
        }
    }
}

// SCOUT-B-9
#[test]
fn corpus_of_repositories() {
    let mut score = Score::default();
    let paths = fixtures("repos");
    assert!(paths.len() >= 24);
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut files = archive(&std::fs::read_to_string(&path).unwrap());
        let expected: Value = serde_json::from_str(&files.remove(0).1).unwrap();
        let found = facts(&files);
        assert_eq!(found, facts(&files), "twice the same");
        let found = brief(&found);
        let sorted = |value: &Value| {
            let mut list = value.as_array().unwrap().clone();
            list.sort_by_key(Value::to_string);
            Value::from(list)
        };
        score.field(
            "suggested_image",
            &name,
            &expected["suggested_image"],
            &found["suggested_image"],
        );
        for field in ["conflicts", "problems"] {
            score.field(field, &name, &sorted(&expected[field]), &sorted(&found[field]));
        }
        let (wanted, there) =
            (expected["projects"].as_array().unwrap(), found["projects"].as_array().unwrap());
        score.field("projects", &name, &json!(wanted.len()), &json!(there.len()));
        for (wanted, there) in wanted.iter().zip(there) {
            for (field, value) in wanted.as_object().unwrap() {
                if field == "commands" {
                    for (kind, command) in value.as_object().unwrap() {
                        score.field(kind, &name, command, &there["commands"][kind]);
                    }
                } else {
                    score.field(field, &name, value, &there[field]);
                }
            }
        }
    }
    score.print();
    assert!(score.wrong.is_empty());
}
