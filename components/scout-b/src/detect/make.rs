//! Makefiles: the targets that people call by custom.

use super::{Detected, Manifests, System};

const NAMES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

pub(super) fn make(manifests: &Manifests) -> Option<Detected> {
    let (source, targets) = read(manifests)?;
    let first = |names: &[&str]| {
        names.iter().find(|name| targets.contains(*name)).map(|name| format!("make {name}"))
    };
    Some(Detected {
        system: System::Make,
        source: manifests.source(source),
        install: first(&["deps", "setup"]),
        build: first(&["build", "all"]).or_else(|| Some("make".to_owned())),
        clean: first(&["clean"]),
        test: first(&["test", "tests", "check"]),
        unit: first(&["test-unit", "unit-test", "unit"]),
        integration: first(&["test-integration", "integration-test", "integration"]),
        coverage: first(&["coverage", "cover"]),
        prerequisites: vec!["make".to_owned()],
        ..Detected::default()
    })
}

/// The targets in words, if there is a Makefile beside another system.
pub(super) fn targets(manifests: &Manifests) -> Option<String> {
    let (_, targets) = read(manifests)?;
    let names = targets.iter().take(12).map(|name| format!("`{name}`")).collect::<Vec<_>>();
    (!names.is_empty()).then(|| names.join(", "))
}

fn read(manifests: &Manifests) -> Option<(&'static str, Vec<&str>)> {
    let source = NAMES.into_iter().find(|name| manifests.text(name).is_some())?;
    let mut targets = Vec::new();
    for line in manifests.text(source)?.lines() {
        let Some((names, rest)) = line.split_once(':') else { continue };
        // Recipes, comments, assignments, special and computed targets are none that people call.
        if rest.starts_with('=')
            || names.starts_with(['\t', ' ', '#', '.'])
            || names.contains(['$', '%', '=', '/'])
        {
            continue;
        }
        targets.extend(names.split_whitespace());
    }
    Some((source, targets))
}
