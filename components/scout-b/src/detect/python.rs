//! Python: no one manifest, so the sum of what several say.

use super::fields::{has_section, toml_value};
use super::{Detected, Framework, Manifests, System};
use scouting::inventory::{is_test, name};

const SPEAKING: [&str; 5] =
    ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"];
/// Where pytest is mentioned by those who use it.
const MENTIONS: [&str; 8] = [
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "tox.ini",
    "requirements.txt",
    "requirements-dev.txt",
    "requirements-test.txt",
    "Pipfile",
];

pub(super) fn python(manifests: &Manifests) -> Option<Detected> {
    let source = SPEAKING.iter().find(|name| manifests.text(name).is_some())?;
    let project = manifests.text("pyproject.toml").unwrap_or_default();
    let mentions = |word: &str| {
        MENTIONS.iter().any(|name| manifests.text(name).is_some_and(|text| text.contains(word)))
    };
    let pytest = mentions("pytest")
        || manifests.has("pytest.ini")
        || manifests.below().any(|path| name(path) == "conftest.py");
    let tests = manifests.below().any(|path| path.ends_with(".py") && is_test(path));

    let poetry = has_section(project, "tool.poetry");
    let uv = manifests.has("uv.lock");
    let (install, run) = match () {
        () if uv => (Some("uv sync"), "uv run "),
        () if poetry => (Some("poetry install"), "poetry run "),
        () if manifests.has("Pipfile") => (Some("pipenv install --dev"), "pipenv run "),
        () if manifests.has("requirements-dev.txt") => {
            (Some("pip install -r requirements-dev.txt"), "")
        }
        () if manifests.has("requirements.txt") => (Some("pip install -r requirements.txt"), ""),
        () if manifests.has("setup.py") || has_section(project, "project") => {
            (Some("pip install -e ."), "")
        }
        () => (None, ""),
    };
    let packaged = has_section(project, "build-system") || manifests.has("setup.py");
    let build = match () {
        () if poetry => Some("poetry build"),
        () if packaged => Some("python -m build"),
        () => None,
    };
    let (framework, test) = match () {
        () if pytest => (Framework::Pytest, Some("pytest")),
        () if tests => (Framework::Custom, Some("python -m unittest discover")),
        () => (Framework::Custom, None),
    };
    let part = |directory: &str| {
        let there = pytest && manifests.has_below(directory);
        there.then(|| format!("{run}pytest {directory}"))
    };
    let version = toml_value(project, "project", "requires-python")
        .or_else(|| toml_value(project, "tool.poetry.dependencies", "python"));
    Some(Detected {
        system: System::Custom,
        framework,
        source: manifests.source(source),
        install: install.map(str::to_owned),
        build: build.map(str::to_owned),
        test: test.map(|test| format!("{run}{test}")),
        unit: part("tests/unit"),
        integration: part("tests/integration"),
        coverage: mentions("pytest-cov").then(|| format!("{run}pytest --cov")),
        prerequisites: vec![
            version.map_or("python".to_owned(), |version| format!("python {version}")),
        ],
        ..Detected::default()
    })
}
