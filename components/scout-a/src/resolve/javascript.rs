//! JavaScript and TypeScript: resolves relative paths without extension, packages of the workspace, and path aliases of a
//! `tsconfig.json`.

use super::Resolver;
use act_kit::paths::{directory, join, normal, resolve, upwards};

const ENDINGS: [&str; 9] = [".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".d.ts"];

pub(super) fn files(resolver: &Resolver<'_>, from: &str, target: &str) -> Vec<usize> {
    let found = match target.starts_with('.') {
        true => resolve(directory(from), target).and_then(|place| module(resolver, &place)),
        false => short_name(resolver, from, target).or_else(|| package(resolver, target)),
    };
    found.into_iter().collect()
}

/// Finds a file, with or without its extension, or the `index` file of a directory.
fn module(resolver: &Resolver<'_>, place: &str) -> Option<usize> {
    let whole = resolver.find(place);
    let ended = || resolver.ended(place, &ENDINGS);
    // TypeScript code imports `a.ts` as `a.js`.
    let compiled = || {
        let (stem, ending) = place.rsplit_once('.')?;
        let endings: &[&str] = match ending {
            "js" => &[".ts", ".tsx", ".jsx"],
            "mjs" => &[".mts"],
            "cjs" => &[".cts"],
            _ => &[],
        };
        resolver.ended(stem, endings)
    };
    let index = || resolver.ended(&join(place, "index"), &ENDINGS);
    whole.or_else(ended).or_else(compiled).or_else(index)
}

fn package(resolver: &Resolver<'_>, target: &str) -> Option<usize> {
    let parts = if target.starts_with('@') { 2 } else { 1 };
    let end = target.match_indices('/').nth(parts - 1).map_or(target.len(), |(at, _)| at);
    let package = resolver.manifests.packages.get(&target[..end])?;
    let rest = target[end..].trim_start_matches('/');
    if !rest.is_empty() {
        let inner = |below: &str| module(resolver, &join(&join(&package.root, below), rest));
        return inner("").or_else(|| inner("src"));
    }
    let entries = package.entries.iter().filter_map(|entry| resolve(&package.root, entry));
    let entry = entries.filter_map(|entry| module(resolver, &entry)).next();
    entry
        .or_else(|| module(resolver, &join(&package.root, "src")))
        .or_else(|| module(resolver, &package.root))
}

fn short_name(resolver: &Resolver<'_>, from: &str, target: &str) -> Option<usize> {
    let configs = &resolver.manifests.short_names;
    let names = upwards(directory(from)).find_map(|above| configs.get(above))?;
    names.iter().find_map(|(pattern, places)| {
        let matched = match pattern.split_once('*') {
            Some((before, after)) => target.strip_prefix(before)?.strip_suffix(after)?,
            None => (pattern == target).then_some("")?,
        };
        places.iter().find_map(|place| module(resolver, &normal(&place.replacen('*', matched, 1))?))
    })
}
