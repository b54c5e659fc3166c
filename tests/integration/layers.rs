//! Modules use lower layers only. The list is the one in the documentation of `host/src/lib.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

type Layers = BTreeMap<String, u32>;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Lines like `3 scout verifier` of the list.
fn layers(lib: &str) -> Layers {
    let list = lib.lines().skip_while(|line| *line != "//! ```text").skip(1);
    let list = list.take_while(|line| *line != "//! ```");
    let mut layers = Layers::new();
    for line in list {
        let mut words = line.trim_start_matches("//!").split_whitespace();
        let layer = words
            .next()
            .and_then(|word| word.parse().ok())
            .expect("a layer begins with its number");
        for module in words {
            assert!(layers.insert(module.into(), layer).is_none(), "{module} is listed twice");
        }
    }
    layers
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Modules behind `crate::`, with their lines; also those of `crate::{one::X, two::Y}`.
fn uses(text: &str) -> Vec<(usize, String)> {
    let mut code = String::new();
    for line in text.lines() {
        let comment =
            line.find("//").filter(|at| *at == 0 || line[..*at].ends_with(char::is_whitespace));
        code.push_str(&line[..comment.unwrap_or(line.len())]);
        code.push('\n');
    }
    let mut found = vec![];
    for (at, _) in code.match_indices("crate::") {
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(heads(group).into_iter().map(|head| (line, head))),
            None => found.push((line, word(rest))),
        }
    }
    found
}

/// First words of the items of a group, whose opening brace has been read.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut at_start, mut heads) = (1, true, vec![]);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => at_start = true,
            c if at_start && !c.is_whitespace() => {
                heads.push(word(&group[at..]));
                at_start = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// What a file of `module` uses although its layer does not allow it.
fn violations(layers: &Layers, module: &str, text: &str) -> Vec<String> {
    let Some(own) = layers.get(module) else { return vec![format!("{module} is not in the list")] };
    let wrong = uses(text).into_iter().filter_map(|(line, used)| match layers.get(&used) {
        _ if used == module => None,
        Some(layer) if layer < own => None,
        Some(layer) => Some(format!("{line}: {module} ({own}) uses {used} ({layer})")),
        None => Some(format!("{line}: {used} is not in the list")),
    });
    wrong.collect()
}

#[test]
fn a_module_uses_only_lower_layers() {
    let source = source();
    let layers = layers(&fs::read_to_string(source.join("lib.rs")).unwrap());
    assert!(layers.len() > 10, "{layers:?}");
    let mut paths = vec![];
    files(&source, &mut paths);
    let mut wrong = vec![];
    let mut seen = 0;
    for path in paths {
        let inner = path.strip_prefix(&source).unwrap();
        if inner == Path::new("lib.rs") || inner == Path::new("main.rs") {
            continue;
        }
        let top = inner.iter().next().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        seen += uses(&text).len();
        let found = violations(&layers, top.trim_end_matches(".rs"), &text);
        wrong.extend(found.into_iter().map(|violation| format!("{}:{violation}", inner.display())));
    }
    assert!(seen > 20, "the uses were not found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_use_of_a_neighbour_or_of_a_higher_layer_is_found() {
    let layers =
        layers("//! ```text\n//! 2 high\n//! 1 left right\n//! 0 low\n//! ```\n//! 9 prose");
    assert_eq!(layers.len(), 4);
    let found = |text: &str| violations(&layers, "left", text);
    assert_eq!(
        found("use crate::low::X;\nuse crate::left::Y; // crate::high"),
        Vec::<String>::new()
    );
    assert_eq!(found("\nuse crate::right::X;"), ["2: left (1) uses right (1)"]);
    assert_eq!(found("let x = crate::high::x();"), ["1: left (1) uses high (2)"]);
    assert_eq!(
        found("use crate::{\n    low::{a, high},\n    high,\n    other::b,\n};"),
        ["1: left (1) uses high (2)", "1: other is not in the list"]
    );
    assert_eq!(violations(&layers, "new", ""), ["new is not in the list"]);
}
