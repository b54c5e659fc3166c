//! Rust: a module is a file below its crate's root. Crates of the workspace are known by name.

use super::Resolver;
use act_kit::inventory::name;
use act_kit::paths::{directory, join, resolve, upwards};

pub(super) fn files(resolver: &Resolver<'_>, from: &str, target: &str) -> Vec<usize> {
    file(resolver, from, target).into_iter().collect()
}

fn file(resolver: &Resolver<'_>, from: &str, target: &str) -> Option<usize> {
    // The target of a `#[path]` attribute.
    if target.ends_with(".rs") {
        return resolver.find(&resolve(directory(from), target)?);
    }
    let parts = target.trim_start_matches("::").split("::").collect::<Vec<_>>();
    match parts.split_first()? {
        (&"crate", rest) => {
            let root = root(resolver, from);
            within(resolver, &root, rest).or_else(|| crate_file(resolver, &root))
        }
        (&"self", rest) => within(resolver, &inside(from), rest),
        (&"super", rest) => above(resolver, from, rest),
        (first, rest) => {
            let sibling = within(resolver, &inside(from), &parts[..1]);
            let in_workspace = || {
                let root = resolver.manifests.crates.get(*first)?;
                within(resolver, root, rest).or_else(|| crate_file(resolver, root))
            };
            match sibling {
                Some(_) => within(resolver, &inside(from), &parts),
                None => in_workspace(),
            }
        }
    }
}

/// Finds the file for the longest prefix of a path below `base`.
fn within(resolver: &Resolver<'_>, base: &str, parts: &[&str]) -> Option<usize> {
    (1..=parts.len().min(12)).rev().find_map(|count| {
        let place = join(base, &parts[..count].join("/"));
        resolver.ended(&place, &[".rs", "/mod.rs"])
    })
}

/// Returns the directory of the crate's root: the nearest one above with a `lib.rs` or `main.rs`.
fn root(resolver: &Resolver<'_>, from: &str) -> String {
    let start = directory(from);
    let found = upwards(start).find(|at| crate_file(resolver, at).is_some());
    found.unwrap_or(start).to_owned()
}

fn crate_file(resolver: &Resolver<'_>, root: &str) -> Option<usize> {
    resolver.first(["lib.rs", "main.rs"].map(|name| join(root, name)))
}

/// Returns the directory of a file's child modules.
fn inside(from: &str) -> String {
    match name(from) {
        "lib.rs" | "main.rs" | "mod.rs" => directory(from).to_owned(),
        name => join(directory(from), name.strip_suffix(".rs").unwrap_or(name)),
    }
}

/// Finds the file that a path with `super` means: a sibling module, or the parent module itself.
fn above(resolver: &Resolver<'_>, from: &str, rest: &[&str]) -> Option<usize> {
    let mut around = match name(from) {
        "mod.rs" => directory(directory(from)).to_owned(),
        _ => directory(from).to_owned(),
    };
    let mut rest = rest;
    while let Some((&"super", further)) = rest.split_first() {
        around = directory(&around).to_owned();
        rest = further;
    }
    within(resolver, &around, rest)
        .or_else(|| resolver.first([join(&around, "mod.rs"), format!("{around}.rs")]))
        .or_else(|| crate_file(resolver, &around))
}
