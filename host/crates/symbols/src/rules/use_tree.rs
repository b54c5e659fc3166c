//! `a::{b, c::{d, e as f}, self, *}` as the paths that it means.

/// Paths of one declaration at most, and how deep its braces are followed.
const PATHS: usize = 200;
const DEPTH: usize = 16;

/// Every path that a `use` names, without its other name.
pub(super) fn targets(argument: &str) -> Vec<String> {
    let mut found = vec![];
    expand("", argument, DEPTH, &mut found);
    found
}

fn expand(before: &str, tree: &str, depth: usize, found: &mut Vec<String>) {
    if found.len() >= PATHS {
        return;
    }
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        found.push(path(before, tree));
        return;
    };
    let (head, group) = tree.split_at(open);
    let group = group.strip_prefix('{').unwrap_or(group).trim_end();
    let group = group.strip_suffix('}').unwrap_or(group);
    let prefix = format!("{before}{}", head.split_whitespace().collect::<String>());
    if depth == 0 {
        found.push(prefix.trim_end_matches(':').to_owned());
        return;
    }
    for part in parts(group) {
        expand(&prefix, part, depth - 1, found);
    }
}

fn path(before: &str, leaf: &str) -> String {
    let leaf = leaf.split(" as ").next().unwrap_or(leaf);
    let leaf = leaf.split_whitespace().collect::<String>();
    let path = format!("{before}{leaf}");
    match path.strip_suffix("::self") {
        Some(module) => module.to_owned(),
        None => path,
    }
}

/// What stands between the outermost commas.
fn parts(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let parts = group.split(move |c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.filter(|part| !part.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_the_paths_that_they_mean() {
        let cases = [
            ("std::fs", vec!["std::fs"]),
            ("a :: {b, c::{d, e as f}, self, *}", vec!["a::b", "a::c::d", "a::c::e", "a", "a::*"]),
            ("{x, y::z,}", vec!["x", "y::z"]),
            ("self::a as b", vec!["self::a"]),
            ("a::{", vec![]),
            ("a::{b", vec!["a::b"]),
        ];
        for (tree, expected) in cases {
            assert_eq!(targets(tree), expected, "{tree}");
        }
    }

    #[test]
    fn braces_without_end_are_bounded() {
        assert_eq!(targets(&"a::{".repeat(5_000)).len(), 1);
        assert_eq!(targets(&format!("a::{{{}}}", "b,".repeat(5_000))).len(), PATHS);
    }
}
