//! package.json: the lock file or `packageManager` says which manager, the scripts say which commands.

use super::{Detected, Framework, Manifests, System};
use serde_json::Value;

/// What `npm init` writes where no test is.
const NO_TEST: &str = "no test specified";

pub(super) fn node(manifests: &Manifests) -> Option<Detected> {
    let text = manifests.text("package.json")?;
    let mut notes = Vec::new();
    let package = serde_json::from_str::<Value>(text).unwrap_or_else(|error| {
        notes.push(format!("package.json is no JSON ({error})"));
        Value::Null
    });
    let (system, tool) = manager(manifests, &package);
    let script = |name: &str| package["scripts"][name].as_str();
    let run = |name: &str| script(name).map(|_| format!("{tool} run {name}"));
    let first = |names: &[&str]| names.iter().find_map(|name| run(name));
    let depends = |name: &str| {
        ["dependencies", "devDependencies"].iter().any(|kind| package[*kind].get(name).is_some())
    };

    let test = script("test").filter(|test| !test.contains(NO_TEST));
    let uses = |name: &str| test.is_some_and(|test| test.contains(name));
    let framework = match () {
        () if uses("jest") => Framework::Jest,
        () if uses("mocha") => Framework::Mocha,
        () if uses("vitest") || uses("node --test") || uses("ava") || uses("tap") => {
            Framework::Custom
        }
        () if depends("jest") => Framework::Jest,
        () if depends("mocha") => Framework::Mocha,
        () => Framework::Custom,
    };
    if let Some(test) = test.filter(|_| framework == Framework::Custom) {
        notes.push(format!("the test script is `{test}`"));
    }
    // Without a script the framework's own command is the next best thing.
    let bare = match framework {
        Framework::Jest => Some("npx jest".to_owned()),
        Framework::Mocha => Some("npx mocha".to_owned()),
        _ => None,
    };
    let jest_coverage = (framework == Framework::Jest).then(|| "npx jest --coverage".to_owned());
    let node = package["engines"]["node"].as_str();
    Some(Detected {
        system,
        framework,
        source: manifests.source("package.json"),
        install: Some(install(manifests, system)),
        build: run("build"),
        clean: run("clean"),
        test: test.map(|_| format!("{tool} test")).or(bare),
        unit: first(&["test:unit", "unit"]),
        integration: first(&["test:integration", "integration", "test:e2e"]),
        coverage: first(&["coverage", "test:coverage", "test:cov"]).or(jest_coverage),
        prerequisites: vec![node.map_or("node".to_owned(), |version| format!("node {version}"))],
        notes,
    })
}

fn manager(manifests: &Manifests, package: &Value) -> (System, &'static str) {
    let named = package["packageManager"].as_str().unwrap_or_default();
    if named.starts_with("pnpm@")
        || manifests.has("pnpm-lock.yaml")
        || manifests.has("pnpm-workspace.yaml")
    {
        (System::Pnpm, "pnpm")
    } else if named.starts_with("yarn@") || manifests.has("yarn.lock") {
        (System::Yarn, "yarn")
    } else {
        (System::Npm, "npm")
    }
}

/// The command that installs exactly what is locked.
fn install(manifests: &Manifests, system: System) -> String {
    let command = match system {
        System::Pnpm if manifests.has("pnpm-lock.yaml") => "pnpm install --frozen-lockfile",
        System::Pnpm => "pnpm install",
        System::Yarn if manifests.has(".yarnrc.yml") => "yarn install --immutable",
        System::Yarn => "yarn install --frozen-lockfile",
        _ if manifests.has("package-lock.json") || manifests.has("npm-shrinkwrap.json") => "npm ci",
        _ => "npm install",
    };
    command.to_owned()
}
