//! Attacks that the program has to stand: every numbered line of a boundary has a test that names its number.
//! A line without one fails here, so a test cannot go away in silence.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Boundaries whose lines are held here, with the numbers of the security catalogue.
const HELD: [(&str, &[u32]); 2] = [
    ("editor-writes", &[51, 52, 55, 57, 60, 64, 65, 66, 71, 73, 74]),
    ("edit-protocol", &[176, 177, 179, 182]),
];
/// Lines between a quotation and the attribute of its test: the comment stands above it, or first in its body.
const NEAR: usize = 5;

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
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

/// Number → tests that quote it, as `file:line`.
fn quoted() -> BTreeMap<u32, Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = vec![];
    for directory in ["host/src", "tests", "components"] {
        sources(&root.join(directory), &mut files);
    }
    let quote = Regex::new(r"(?i)//.*security lines? (\d+(?:(?:, | and |, and )\d+)*)").unwrap();
    let number = Regex::new(r"\d+").unwrap();
    let test = Regex::new(r"#\[(tokio::)?test\b").unwrap();
    let mut found = BTreeMap::<u32, Vec<String>>::new();
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(numbers) = quote.captures(line) else { continue };
            let near = at.saturating_sub(NEAR)..(at + NEAR).min(lines.len());
            if !lines[near].iter().any(|line| test.is_match(line)) {
                continue;
            }
            for number in number.find_iter(&numbers[1]) {
                let place = format!("{}:{}", path.display(), at + 1);
                found.entry(number.as_str().parse().unwrap()).or_default().push(place);
            }
        }
    }
    found
}

#[test]
fn every_line_of_a_held_boundary_has_a_test_that_names_it() {
    let quoted = quoted();
    let missing: Vec<_> = HELD
        .iter()
        .flat_map(|(boundary, lines)| lines.iter().map(move |line| (*boundary, *line)))
        .filter(|(_, line)| !quoted.contains_key(line))
        .collect();
    assert_eq!(missing, [], "no test says `Security line N` for these");
    // One that is held twice was meant to be another one.
    let all: Vec<_> = HELD.iter().flat_map(|(_, lines)| lines.iter()).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}
