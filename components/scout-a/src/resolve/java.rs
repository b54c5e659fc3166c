//! Java: a class is a file and a package is a directory, both below a source root.

use super::{DIRECTORY, Resolver};
use act_kit::paths::{directory, join};
use act_kit::summaries::Imported;

pub(super) fn files(resolver: &Resolver<'_>, from: &str, import: &Imported<'_>) -> Vec<usize> {
    let target = import.target;
    if !import.names.is_empty() {
        return own_package(resolver, from, target, &import.names);
    }
    if let Some(package) = target.strip_suffix(".*") {
        let package = package.replace('.', "/");
        let found = in_package(resolver, &package);
        if !found.is_empty() {
            return found;
        }
        return class(resolver, from, &package).into_iter().collect();
    }
    let mut path = target.replace('.', "/");
    // A nested class or a static member is defined in the file of the class around it.
    for _ in 0..3 {
        if let Some(found) = class(resolver, from, &path) {
            return vec![found];
        }
        let Some((around, _)) = path.rsplit_once('/') else { break };
        path = around.to_owned();
    }
    vec![]
}

/// Returns the files of the own package that define these names. Tests are in the same package below another root.
fn own_package(resolver: &Resolver<'_>, from: &str, package: &str, names: &[&str]) -> Vec<usize> {
    let file = |name: &&str| match package {
        "." => resolver.find(&join(directory(from), &format!("{name}.java"))),
        _ => class(resolver, from, &format!("{}/{name}", package.replace('.', "/"))),
    };
    names.iter().filter_map(file).collect()
}

fn class(resolver: &Resolver<'_>, from: &str, path: &str) -> Option<usize> {
    resolver.nearest(from, &format!("{path}.java"))
}

fn in_package(resolver: &Resolver<'_>, package: &str) -> Vec<usize> {
    let ends = |directory: &str| {
        directory.strip_suffix(package).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    let directories = resolver.by_directory.iter().filter(|(directory, _)| ends(directory));
    let mut found = directories.flat_map(|(_, files)| files.iter().copied()).collect::<Vec<_>>();
    found.retain(|at| {
        resolver.path(*at).ends_with(".java") && !act_kit::inventory::is_test(resolver.path(*at))
    });
    found.sort_unstable();
    found.truncate(DIRECTORY);
    found
}
