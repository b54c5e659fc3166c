//! `specs/events.md` and `event.rs` list the same kinds with the same fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use regex::Regex;

type Kinds = BTreeMap<String, BTreeSet<String>>;

fn read(path: &str) -> String {
    fs::read_to_string(act_core::testing::checkout().join(path)).unwrap()
}

fn snake_case(name: &str) -> String {
    let upper = Regex::new("([a-z])([A-Z])").unwrap();
    upper.replace_all(name, "${1}_$2").to_lowercase()
}

/// Variants with their named fields, as rustfmt writes them.
fn of_code(code: &str) -> Kinds {
    let body = code.split("pub enum EventKind {\n").nth(1).unwrap().split("\n}\n").next().unwrap();
    let comment = Regex::new("(?m)^ *//.*\n").unwrap();
    let body = comment.replace_all(body, "");
    let variant = Regex::new(r"(?m)^    ([A-Z]\w+)(?: \{([^}]*)\}|\(\w+\))?,$").unwrap();
    let field = Regex::new(r"(\w+): ").unwrap();
    let kinds = variant.captures_iter(&body).map(|found| {
        let fields = found.get(2).map_or("", |fields| fields.as_str());
        let fields = field.captures_iter(fields).map(|name| name[1].to_owned()).collect();
        (snake_case(&found[1]), fields)
    });
    kinds.collect()
}

/// Rows of the table; a field's name ends at its mark or its explanation.
fn of_specification(text: &str) -> Kinds {
    let row = Regex::new(r"(?m)^\| `(\w+)` \| ([^|]*) \|").unwrap();
    let explanation = Regex::new(r"\([^)]*\)|\{[^}]*\}").unwrap();
    let kinds = row.captures_iter(text).map(|found| {
        let fields = explanation.replace_all(&found[2], "").into_owned();
        let fields =
            fields.split(',').map(|name| name.trim().trim_end_matches(['?', ']', '[']).to_owned());
        (found[1].to_owned(), fields.collect())
    });
    kinds.collect()
}

#[test]
fn every_event_is_specified_with_its_fields() {
    let mut code = of_code(&read("host/crates/core/src/event.rs"));
    let specified = of_specification(&read("specs/events.md"));
    // Beside the patch as text, where that cannot hold it.
    code.get_mut("proposed").unwrap().insert("diff_base64".into());
    // The fields of these four are not named in the variant.
    let edited_text = ["path", "before", "now"].map(str::to_owned);
    code.insert("edited_text".into(), BTreeSet::from(edited_text));
    code.insert("evidence".into(), BTreeSet::from(["red_first".into(), "old_tests".into()]));
    code.insert("step_output".into(), BTreeSet::from(["bytes".into()]));
    code.insert("notice".into(), BTreeSet::from(["level".into(), "text".into()]));
    assert!(code.len() > 20 && code["edit"].contains("sha256_before"), "{code:#?}");
    assert_eq!(code, specified);
}
