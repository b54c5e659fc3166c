//! Build system, package manager, framework and commands, read off the manifests. No model is asked and none can
//! overrule it.
//!
//! Decides which manifest speaks when there are several: the nearest to the package that is worked on, there the
//! first of the order in [`detect`].

mod fields;
mod javascript;
mod jvm;
mod make;
mod native;
mod pipeline;
mod python;

use scouting::inventory::{Inventory, name};
use scouting::world::Repository;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Of one manifest.
const MANIFEST: u64 = 256 * 1024;
/// Manifests that are read.
const MOST: usize = 24;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum System {
    Npm,
    Yarn,
    Pnpm,
    Make,
    Cargo,
    Go,
    Gradle,
    Maven,
    #[default]
    Custom,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Framework {
    #[serde(rename = "jest")]
    Jest,
    #[serde(rename = "pytest")]
    Pytest,
    #[serde(rename = "go test")]
    GoTest,
    #[serde(rename = "cargo test")]
    CargoTest,
    #[serde(rename = "junit")]
    Junit,
    #[serde(rename = "mocha")]
    Mocha,
    #[default]
    #[serde(rename = "custom")]
    Custom,
}

/// What the manifests say; nothing where they say nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Detected {
    pub(crate) system: System,
    pub(crate) framework: Framework,
    /// Where it was found.
    pub(crate) source: Option<String>,
    pub(crate) install: Option<String>,
    pub(crate) build: Option<String>,
    pub(crate) clean: Option<String>,
    pub(crate) test: Option<String>,
    pub(crate) unit: Option<String>,
    pub(crate) integration: Option<String>,
    pub(crate) coverage: Option<String>,
    pub(crate) prerequisites: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Detected {
    /// No manifest said anything about how to build.
    pub(crate) fn is_nothing(&self) -> bool {
        self.source.is_none()
    }

    /// One line for each thing that was found, for the model.
    pub(crate) fn shown(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        let said = value.as_object().into_iter().flatten().filter(|(_, value)| match value {
            serde_json::Value::Null => false,
            serde_json::Value::Array(list) => !list.is_empty(),
            _ => true,
        });
        said.map(|(name, value)| format!("{name}: {value}\n")).collect()
    }
}

/// The manifests of one directory and of the root, and the paths of everything in view.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    /// The directory, with a `/` behind it; empty for the root.
    directory: String,
    texts: BTreeMap<String, String>,
    paths: Vec<String>,
}

/// What is read, if it is there.
const NAMES: [&str; 24] = [
    ".yarnrc.yml",
    "Cargo.toml",
    "GNUmakefile",
    "Makefile",
    "Pipfile",
    "build.gradle",
    "build.gradle.kts",
    "go.mod",
    "makefile",
    "mocharc.json",
    "package.json",
    "pnpm-workspace.yaml",
    "poetry.lock",
    "pom.xml",
    "pyproject.toml",
    "pytest.ini",
    "requirements-dev.txt",
    "requirements-test.txt",
    "requirements.txt",
    "rust-toolchain.toml",
    "setup.cfg",
    "setup.py",
    "tox.ini",
    "agent.yaml",
];

/// Those that a project begins with.
const ROOTS: [&str; 11] = [
    "Cargo.toml",
    "go.mod",
    "package.json",
    "pyproject.toml",
    "setup.py",
    "requirements.txt",
    "Pipfile",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "Makefile",
];

impl Manifests {
    /// Of the package if one is named and has manifests, else of the root, else of the shallowest directory that has.
    pub(crate) fn read(
        repository: &dyn Repository,
        inventory: &Inventory,
        package: Option<&str>,
    ) -> Self {
        let has =
            |directory: &str| ROOTS.iter().any(|root| inventory.has(&format!("{directory}{root}")));
        let package = package.map(|package| format!("{}/", package.trim_matches('/')));
        let directory = package.filter(|package| has(package)).unwrap_or_else(|| match has("") {
            true => String::new(),
            false => {
                let roots = inventory.paths().filter(|path| ROOTS.contains(&name(path)));
                let shallow = roots.min_by_key(|path| (path.matches('/').count(), *path));
                shallow
                    .map_or(String::new(), |path| path[..path.len() - name(path).len()].to_owned())
            }
        });
        let of_directory = NAMES.iter().map(|name| format!("{directory}{name}"));
        let mut wanted = of_directory.chain(["agent.yaml".to_owned()]).collect::<Vec<_>>();
        wanted.retain(|path| inventory.has(path));
        wanted.truncate(MOST);
        wanted.dedup();
        let paths = wanted.iter().map(String::as_str).collect::<Vec<_>>();
        let read = repository.read(&paths, MANIFEST).into_iter().zip(&paths);
        let text = |(bytes, path): (Result<Vec<u8>, String>, &&str)| {
            Some(((*path).to_owned(), String::from_utf8_lossy(&bytes.ok()?).into_owned()))
        };
        let texts = read.filter_map(text).collect();
        Self { texts, paths: inventory.paths().map(str::to_owned).collect(), directory }
    }

    /// The text of a manifest of the directory.
    fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(&format!("{}{name}", self.directory)).map(String::as_str)
    }

    /// Whether the directory has a file of that name, read or not.
    fn has(&self, name: &str) -> bool {
        self.below().any(|path| path == name)
    }

    /// Whether something lies in a directory of the directory.
    fn has_below(&self, directory: &str) -> bool {
        self.below()
            .any(|path| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Paths, seen from the directory.
    fn below(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().filter_map(|path| path.strip_prefix(&self.directory))
    }

    fn source(&self, name: &str) -> Option<String> {
        Some(format!("{}{name}", self.directory))
    }
}

pub(crate) fn detect(manifests: &Manifests) -> Detected {
    let found = [
        native::cargo,
        native::go,
        javascript::node,
        python::python,
        jvm::maven,
        jvm::gradle,
        make::make,
    ]
    .into_iter()
    .find_map(|detector| detector(manifests));
    let mut detected = found.unwrap_or_default();
    if !manifests.directory.is_empty() {
        detected.notes.push(format!(
            "commands are for the directory {}",
            manifests.directory.trim_end_matches('/')
        ));
    }
    if detected.system != System::Make
        && let Some(targets) = make::targets(manifests)
    {
        detected.notes.push(format!("there is a Makefile too, with {targets}"));
    }
    pipeline::complete(manifests, &mut detected);
    detected
}

#[cfg(test)]
mod tests;
