//! Every attack that `specs/attacks.md` lists is named by a test.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;

use crate::specifications::{root, sources};

/// Numbers of security lines that stand at a test: in its name, or in a comment above it or first in its body.
fn named(text: &str, numbers: &mut BTreeSet<u32>) {
    let quote = Regex::new(
        r"(?i)//.*\bsecurity lines? (\d+(?:(?:, | and )\d+)*)|fn security_lines?_(\d+(?:_(?:and_)?\d+)*)",
    )
    .unwrap();
    let number = Regex::new(r"\d+").unwrap();
    let lines: Vec<_> = text.lines().collect();
    let is_test = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("#[test]") || line.starts_with("#[tokio::test")
    };
    for (at, line) in lines.iter().enumerate() {
        let Some(quoted) = quote.captures(line) else { continue };
        let around = &lines[at.saturating_sub(4)..(at + 5).min(lines.len())];
        if around.iter().any(is_test) {
            let list = quoted.get(1).or(quoted.get(2)).unwrap().as_str();
            let found = number.find_iter(list);
            numbers.extend(found.map(|number| number.as_str().parse::<u32>().unwrap()));
        }
    }
}

/// What components may try, who may let them in, and what may be done to the audit log: none of these lines is given
/// up, whatever becomes of the table.
const NEVER_GIVEN_UP: [u32; 28] = [
    1, 2, 3, 4, 7, 9, 12, 15, 16, 18, 20, 21, 24, 27, 29, 33, 35, 37, 38, 39, 41, 43, 44, 48, 49,
    185, 186, 187,
];

#[test]
fn every_listed_attack_has_a_test_with_its_number() {
    let list = fs::read_to_string(root().join("specs/attacks.md")).unwrap();
    let row = Regex::new(r"(?m)^\| (\d+) \|").unwrap();
    let listed: BTreeSet<u32> =
        row.captures_iter(&list).map(|row| row[1].parse().unwrap()).collect();
    let given_up: Vec<_> = NEVER_GIVEN_UP.iter().filter(|line| !listed.contains(line)).collect();
    assert!(given_up.is_empty(), "no longer in specs/attacks.md: {given_up:?}");
    let mut files = vec![];
    for directory in ["host/src", "tests"] {
        sources(&root().join(directory), &mut files);
    }
    let mut tested = BTreeSet::new();
    for path in files {
        named(&fs::read_to_string(path).unwrap(), &mut tested);
    }
    let missing: Vec<_> = listed.difference(&tested).collect();
    assert!(missing.is_empty(), "no test names these lines of specs/attacks.md: {missing:?}");
}

#[test]
fn a_number_counts_at_a_test_alone() {
    let mut numbers = BTreeSet::new();
    named("/// Security lines 1, 2 and 3: all of them.\n#[test]\nfn a() {\n", &mut numbers);
    named("#[tokio::test]\nasync fn b() {\n    // MODEL-1, security line 4\n", &mut numbers);
    named("// security line 5: a remark\nfn c() {}\n", &mut numbers);
    named("#[test]\nfn security_lines_6_and_7_hold() {}\n", &mut numbers);
    named("fn security_line_8_is_no_test() {}\n", &mut numbers);
    assert_eq!(numbers, [1, 2, 3, 4, 6, 7].into());
}
