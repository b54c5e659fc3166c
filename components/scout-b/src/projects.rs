//! Finds the directories that are projects: those with a manifest, and the members of workspaces.
//!
//! Directories of fixtures, examples and third-party code are ignored, unless a workspace names them.

use crate::draft::Draft;
use crate::ecosystem::{MANIFESTS, maven, projects};
use crate::facts::{Conflict, Topic};
use crate::located::Node;
use crate::tree::{Tree, location};
use act_kit::inventory::name;
use act_kit::paths::{directory, join, resolve};
use std::collections::BTreeSet;

/// Maximum number of directories that are searched.
const MOST: usize = 200;

const ASIDE: [&str; 16] = [
    "fixtures",
    "__fixtures__",
    "testdata",
    "test-data",
    "test_data",
    "vendor",
    "third_party",
    "third-party",
    "examples",
    "example",
    "samples",
    "templates",
    "template",
    "node_modules",
    "bench-data",
    "snapshots",
];

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) truncated: bool,
}

/// A member of a workspace: a pattern from the repository's root, the manifest that it must have, and where it is named.
struct Named {
    pattern: String,
    manifest: &'static str,
    path: String,
    line: u32,
}

pub(crate) fn find(tree: &Tree<'_>) -> Found {
    // A workspace of Go has its own file and may be no module.
    let known = |path: &&str| MANIFESTS.contains(&name(path)) || name(path) == "go.work";
    let manifests = tree.inventory.paths().filter(known);
    let directories = manifests.map(directory).collect::<BTreeSet<_>>();
    let aside = |path: &str| path.split('/').any(|part| ASIDE.contains(&part));
    let mut found = Found::default();
    let mut roots = BTreeSet::new();
    let mut queue = directories.iter().copied().filter(|path| !aside(path)).collect::<Vec<_>>();
    queue.reverse();
    while let Some(root) = queue.pop() {
        if !roots.insert(root) {
            continue;
        }
        found.conflicts.extend(outside(tree, root));
        if roots.len() > MOST {
            roots.pop_last();
            found.truncated = true;
            break;
        }
        for named in members(tree, root) {
            let fits =
                |path: &&str| tree.has(&join(path, named.manifest)) && glob(&named.pattern, path);
            let fitting = directories.iter().copied().filter(fits).collect::<Vec<_>>();
            if fitting.is_empty() && !named.pattern.contains(['*', '?', '[', '!']) {
                found.conflicts.push(Conflict {
                    topic: Topic::Workspace.word().to_owned(),
                    message: format!(
                        "{} names the member {}, which has no {}",
                        named.path, named.pattern, named.manifest
                    ),
                    sources: vec![location(&named.path, named.line)],
                });
            }
            queue.extend(fitting.into_iter().filter(|path| !roots.contains(path)));
        }
    }
    for root in roots {
        let drafts = projects(tree, root, &found.drafts);
        found.drafts.extend(drafts);
    }
    found
}

fn members(tree: &Tree<'_>, root: &str) -> Vec<Named> {
    named(tree, root).0
}

/// Finds members that are outside of the repository.
fn outside(tree: &Tree<'_>, root: &str) -> Vec<Conflict> {
    named(tree, root).1
}

fn named(tree: &Tree<'_>, root: &str) -> (Vec<Named>, Vec<Conflict>) {
    let (mut named, mut outside) = (Vec::new(), Vec::new());
    let mut add = |pattern: &str, manifest: &'static str, path: &str, line: u32| {
        let pattern = pattern.trim_start_matches('!');
        if let Some(pattern) = resolve(root, pattern).filter(|_| !pattern.starts_with('/')) {
            named.push(Named { pattern, manifest, path: path.to_owned(), line });
        } else {
            let shown = act_kit::quoting::cut(pattern, 100);
            outside.push(Conflict {
                topic: Topic::Workspace.word().to_owned(),
                message: format!("{path} names the member {shown}, outside of the repository"),
                sources: vec![location(path, line)],
            });
        }
    };
    let lists: [(&str, &'static str, &[&str]); 5] = [
        ("Cargo.toml", "Cargo.toml", &["workspace", "members"]),
        ("package.json", "package.json", &["workspaces"]),
        ("package.json", "package.json", &["workspaces", "packages"]),
        ("pnpm-workspace.yaml", "package.json", &["packages"]),
        ("pyproject.toml", "pyproject.toml", &["tool", "uv", "workspace", "members"]),
    ];
    for (file, manifest, at) in lists {
        let path = join(root, file);
        let Some(node) = tree.has(&path).then(|| tree.manifest(&path)).flatten() else { continue };
        for item in node.get(at).map_or(&[][..], Node::items) {
            let pattern = item.text().unwrap_or_default();
            if !pattern.starts_with('!') {
                add(pattern, manifest, &path, item.line);
            }
        }
    }
    let path = join(root, "go.work");
    let text = tree.has(&path).then(|| tree.text(&path)).flatten().unwrap_or_default();
    let mut block = false;
    for (line, number) in text.lines().zip(1..) {
        let line = line.split("//").next().unwrap_or_default().trim();
        match line.strip_prefix("use ") {
            Some(rest) if rest.trim() != "(" => add(rest.trim(), "go.mod", &path, number),
            Some(_) => block = true,
            None if line == ")" => block = false,
            None if block && !line.is_empty() => add(line, "go.mod", &path, number),
            None => {}
        }
    }
    for (module, line) in maven::modules(tree, root) {
        named.push(Named {
            pattern: module,
            manifest: "pom.xml",
            path: join(root, "pom.xml"),
            line,
        });
    }
    (named, outside)
}

/// Returns whether a path matches a pattern: `*` and `?` within a name, `**` across names.
pub(crate) fn glob(pattern: &str, path: &str) -> bool {
    let pattern = pattern.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let path = path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>();
    names(&pattern, &path, 0)
}

fn names(pattern: &[&str], path: &[&str], deep: usize) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) if deep < 8 => {
            (0..=path.len()).any(|skip| names(rest, path.get(skip..).unwrap_or_default(), deep + 1))
        }
        (Some((first, rest)), Some((name, below))) => {
            one(first.as_bytes(), name.as_bytes()) && names(rest, below, deep)
        }
        _ => false,
    }
}

/// Matches one name. Only the last star is retried, so that the time is bounded by the product of both lengths.
fn one(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                p = at + 1;
                n = from + 1;
            }
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_and_not_parts_of_names() {
        for (pattern, path, fits) in [
            ("crates/*", "crates/a", true),
            ("crates/*", "crates/a/b", false),
            ("packages/**", "packages/a/b", true),
            ("a", "a", true),
            ("lib-*/x?", "lib-one/x1", true),
            ("lib-*", "liberty", false),
        ] {
            assert_eq!(glob(pattern, path), fits, "{pattern} {path}");
        }
        assert!(!glob(&"*a".repeat(50), &"a".repeat(49)));
    }
}
