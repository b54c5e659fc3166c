//! The specifications are listed, their rules are numbered once, and nobody quotes a rule that is not there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn specifications() -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join("specs")).unwrap().map(|entry| entry.unwrap());
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let files = names.filter(|name| name.ends_with(".md") && name != "README.md");
    files
        .map(|name| {
            let text = fs::read_to_string(root().join("specs").join(&name)).unwrap();
            (name, text)
        })
        .collect()
}

#[test]
fn the_index_lists_every_specification() {
    let index = fs::read_to_string(root().join("specs/README.md")).unwrap();
    let linked = Regex::new(r"\]\(([\w-]+\.md)\)").unwrap();
    let linked: BTreeSet<_> = linked.captures_iter(&index).map(|link| link[1].to_owned()).collect();
    let there: BTreeSet<_> = specifications().into_iter().map(|(name, _)| name).collect();
    assert_eq!(linked, there);
}

pub(crate) fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn a_quoted_rule_exists_and_every_rule_exists_once() {
    let rule = Regex::new(r"\*\*([A-Z][A-Z-]*)-(\d+)\*\*").unwrap();
    let (mut rules, mut prefixes) = (BTreeSet::new(), BTreeSet::new());
    for (name, text) in specifications() {
        for found in rule.captures_iter(&text) {
            prefixes.insert(found[1].to_owned());
            assert!(
                rules.insert(format!("{}-{}", &found[1], &found[2])),
                "{} is there twice: {name}",
                &found[0]
            );
        }
    }
    let prefixes: Vec<_> = prefixes.into_iter().collect();
    let quote = Regex::new(&format!(r"\b(?:{})-\d+\b", prefixes.join("|"))).unwrap();
    let mut files = vec![];
    for directory in ["host/src", "tests", "components"] {
        if root().join(directory).is_dir() {
            sources(&root().join(directory), &mut files);
        }
    }
    let mut quotes = 0;
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        for comment in text.lines().filter_map(|line| line.split_once("//")) {
            for quoted in quote.find_iter(comment.1) {
                quotes += 1;
                let known = rules.contains(quoted.as_str());
                assert!(
                    known,
                    "{} quotes {}, which no specification has",
                    path.display(),
                    quoted.as_str()
                );
            }
        }
    }
    assert!(rules.len() > 30 && quotes > 20, "{} rules, {quotes} quotes", rules.len());
}
