//! Python, with its many manifests and package managers.

use crate::draft::{Draft, Rank};
use crate::facts::{Kind, Location, System};
use crate::located::Node;
use crate::tree::{Tree, location};
use crate::version::Claim;
use act_kit::inventory::name;
use act_kit::paths::{directory, join, upwards};
use act_kit::reports::commands::Family;

/// Lock files, their managers, the install commands, and the prefixes that run a command in the environment.
pub(crate) const LOCKS: [(&str, &str, &str, &str); 4] = [
    ("uv.lock", "uv", "uv sync", "uv run "),
    ("poetry.lock", "poetry", "poetry install", "poetry run "),
    ("pdm.lock", "pdm", "pdm install", "pdm run "),
    ("Pipfile.lock", "pipenv", "pipenv install --dev", "pipenv run "),
];

/// Requirement files for tests, the most complete first.
const REQUIREMENTS: [&str; 9] = [
    "requirements-dev.txt",
    "requirements_dev.txt",
    "dev-requirements.txt",
    "requirements/dev.txt",
    "requirements-test.txt",
    "requirements_test.txt",
    "test-requirements.txt",
    "requirements/test.txt",
    "requirements.txt",
];

/// The manifests of one directory.
struct Manifests {
    root: String,
    pyproject: Node,
    setup_cfg: Node,
    tox: Node,
    pytest_ini: Node,
    /// Returns the requirement files with their lines.
    requirements: Vec<(String, Vec<String>)>,
}

pub(super) fn project(tree: &Tree<'_>, root: &str) -> Option<Draft> {
    let manifests = Manifests::read(tree, root);
    let source = manifests.source(tree)?;
    Some(manifests.draft(tree, source))
}

/// Returns a project for a repository of scripts: without a manifest, but with tests of a known framework.
pub(crate) fn scripts(tree: &Tree<'_>) -> Option<Draft> {
    let manifests = Manifests::read(tree, "");
    let tests = manifests.test_files(tree);
    let framework = || read_framework(tree, &tests).map(|(_, source)| source);
    let source = manifests.django(tree).or_else(framework)?;
    Some(manifests.draft(tree, source))
}

/// Maximum number of test files that are read to find the framework.
const READ: usize = 8;

#[derive(Clone, Copy, PartialEq)]
enum Framework {
    Pytest,
    Unittest,
}

/// Returns the framework of the first tests, and the line that shows it.
fn read_framework(tree: &Tree<'_>, tests: &[&str]) -> Option<(Framework, Location)> {
    let says = |path: &str, words: &[&str]| {
        let text = tree.text(path)?;
        let line = text.lines().position(|line| words.iter().any(|word| line.starts_with(word)))?;
        Some(location(path, line as u32 + 1))
    };
    tests.iter().take(READ).find_map(|path| {
        let pytest = || says(path, &["import pytest", "from pytest"]);
        let unittest = || says(path, &["import unittest", "from unittest import TestCase"]);
        let plain = || says(path, &["def test_", "async def test_"]);
        let pytest = pytest().or_else(|| unittest().is_none().then(plain).flatten());
        let pytest = pytest.map(|location| (Framework::Pytest, location));
        pytest.or_else(|| unittest().map(|location| (Framework::Unittest, location)))
    })
}

impl Manifests {
    fn draft(&self, tree: &Tree<'_>, source: Location) -> Draft {
        let mut draft = Draft::new(&self.root, System::Custom, Family::Python, source);
        let (manager, install, run) = self.manager(tree);
        draft.package_manager = manager.to_owned();
        if let Some((command, location, rank)) = install {
            draft.offer(Kind::Install, rank, &command, location);
        }
        self.build(tree, &mut draft, manager);
        self.tests(tree, &mut draft, run);
        self.versions(tree, &mut draft);
        draft
    }

    fn read(tree: &Tree<'_>, root: &str) -> Self {
        let manifest = |name: &str| {
            let path = join(root, name);
            tree.has(&path).then(|| tree.manifest(&path)).flatten().unwrap_or_default()
        };
        let named = REQUIREMENTS.iter().map(|name| join(root, name)).filter(|path| tree.has(path));
        let requirements = named.map(|path| {
            let text = tree.text(&path).unwrap_or_default();
            let lines = text.lines().map(|line| line.trim().to_owned()).collect();
            (path, lines)
        });
        Self {
            root: root.to_owned(),
            pyproject: manifest("pyproject.toml"),
            setup_cfg: manifest("setup.cfg"),
            tox: manifest("tox.ini"),
            pytest_ini: manifest("pytest.ini"),
            requirements: requirements.collect(),
        }
    }

    fn path(&self, name: &str) -> String {
        join(&self.root, name)
    }

    /// Returns the manifest that makes the directory a project. Below the root a list of requirements is not enough.
    fn source(&self, tree: &Tree<'_>) -> Option<Location> {
        let pyproject = self.path("pyproject.toml");
        if tree.has(&pyproject) {
            let tables = ["project", "build-system"];
            let line = tables.iter().find_map(|table| self.pyproject.line_of(&[table]));
            let line = line.or_else(|| self.pyproject.line_of(&["tool", "poetry"]));
            if line.is_some() || self.root.is_empty() || self.pyproject.entries().is_empty() {
                return Some(location(&pyproject, line.unwrap_or(1)));
            }
        }
        for name in ["setup.py", "setup.cfg", "Pipfile"] {
            let path = self.path(name);
            if tree.has(&path)
                && (name != "setup.cfg" || self.setup_cfg.get(&["metadata"]).is_some())
            {
                return Some(location(&path, 1));
            }
        }
        let sources = tree
            .below(&self.root)
            .any(|path| path.ends_with(".py") && !["conf.py", "noxfile.py"].contains(&name(path)));
        let beside = ["docs", "doc", ".github", "scripts", "tools", "tests", "test", "ci"];
        if let Some((path, _)) = self.requirements.last()
            && sources
            && !self.root.split('/').any(|part| beside.contains(&part))
        {
            return Some(location(path, 1));
        }
        let tox = self.path("tox.ini");
        (tree.has(&tox) && sources).then(|| location(&tox, 1))
    }

    /// Returns the manager, its install command with the source, and the prefix of commands.
    fn manager(
        &self,
        tree: &Tree<'_>,
    ) -> (&'static str, Option<(String, Location, Rank)>, &'static str) {
        let lock = upwards(&self.root).find_map(|above| {
            let found = LOCKS.iter().find(|(name, ..)| tree.has(&join(above, name)))?;
            Some((found, join(above, found.0)))
        });
        if let Some(((_, manager, install, run), path)) = lock {
            let install = format!("{install}{}", self.test_group(manager));
            return (manager, Some((install, location(&path, 1), Rank::Declared)), run);
        }
        let tools = [("poetry", 1), ("pdm", 2), ("uv", 0)];
        for (tool, at) in tools {
            if let Some(line) = self.pyproject.line_of(&["tool", tool]) {
                let (_, manager, install, run) = LOCKS[at];
                let source = location(&self.path("pyproject.toml"), line);
                let install = format!("{install}{}", self.test_group(manager));
                return (manager, Some((install, source, Rank::Declared)), run);
            }
        }
        if tree.has(&self.path("Pipfile")) {
            let source = location(&self.path("Pipfile"), 1);
            return (
                "pipenv",
                Some(("pipenv install --dev".to_owned(), source, Rank::Declared)),
                "pipenv run ",
            );
        }
        ("pip", self.pip(tree), "")
    }

    /// Returns the option that installs the group of dependencies with the test framework, where the manager leaves it out:
    /// uv installs only the group `dev` by itself, and poetry no optional group.
    fn test_group(&self, manager: &str) -> String {
        let framework = |list: &Node| {
            let listed = list.items().iter().filter_map(Node::text);
            let named = list.entries().iter().map(|entry| entry.key.as_str());
            listed.chain(named).any(|name| name.starts_with("pytest") || name == "nose2")
        };
        match manager {
            "uv" => {
                let path = ["tool", "uv", "default-groups"];
                let defaults = self.pyproject.get(&path).map_or(&[][..], Node::each);
                let defaults = defaults.iter().filter_map(Node::text).collect::<Vec<_>>();
                let installed = |name: &str| match defaults.as_slice() {
                    [] => name == "dev",
                    names => names.contains(&name) || names == ["all"],
                };
                let groups = self.pyproject.get(&["dependency-groups"]);
                let groups = groups.map_or(&[][..], Node::entries);
                let with = groups.iter().filter(|group| framework(&group.node));
                let with = with.map(|group| group.key.as_str()).collect::<Vec<_>>();
                let chosen = with.iter().find(|name| name.starts_with("test")).or(with.first());
                match chosen {
                    Some(name) if !with.iter().any(|name| installed(name)) => {
                        format!(" --group {name}")
                    }
                    Some(_) => String::new(),
                    None => self.test_extra("uv"),
                }
            }
            "poetry" => {
                let groups = self.pyproject.get(&["tool", "poetry", "group"]);
                let groups = groups.map_or(&[][..], Node::entries);
                let optional =
                    |node: &Node| node.text_at(&["optional"]).is_some_and(|(t, _)| t == "true");
                let mut with = groups.iter().filter(|group| {
                    optional(&group.node)
                        && group.node.get(&["dependencies"]).is_some_and(framework)
                });
                with.next().map_or_else(
                    || self.test_extra("poetry"),
                    |group| format!(" --with {}", group.key),
                )
            }
            _ => String::new(),
        }
    }

    /// Returns the option for the extra with the test framework, which no manager installs by itself.
    fn test_extra(&self, manager: &str) -> String {
        let in_project = |list: &Node| {
            let mut listed = list.items().iter().filter_map(Node::text);
            listed.any(|name| name.starts_with("pytest"))
        };
        let path: &[&str] = &["project", "optional-dependencies"];
        let extras = self.pyproject.get(path).map_or(&[][..], Node::entries);
        let elsewhere = [
            self.pyproject.get(&["tool", "uv", "dev-dependencies"]),
            self.pyproject.get(&["project", "dependencies"]),
        ];
        if elsewhere.into_iter().flatten().any(in_project) {
            return String::new();
        }
        let with = extras.iter().find(|extra| in_project(&extra.node));
        let option = if manager == "poetry" { "--extras" } else { "--extra" };
        with.map_or(String::new(), |extra| format!(" {option} {}", extra.key))
    }

    fn pip(&self, tree: &Tree<'_>) -> Option<(String, Location, Rank)> {
        let prefix = if self.root.is_empty() { String::new() } else { format!("{}/", self.root) };
        if let Some((path, _)) = self.requirements.first() {
            let name = path.strip_prefix(&prefix).unwrap_or(path);
            return Some((format!("pip install -r {name}"), location(path, 1), Rank::Custom));
        }
        let groups = self.pyproject.get(&["project", "optional-dependencies"]);
        let wanted = ["dev", "test", "tests", "testing"];
        let group = wanted.iter().find_map(|name| groups?.entry(name));
        if let Some(group) = group {
            let source = location(&self.path("pyproject.toml"), group.line);
            return Some((format!("pip install -e '.[{}]'", group.key), source, Rank::Custom));
        }
        let extras = self.setup_cfg.get(&["options.extras_require"]);
        if let Some(group) = wanted.iter().find_map(|name| extras?.entry(name)) {
            let source = location(&self.path("setup.cfg"), group.line);
            return Some((format!("pip install -e '.[{}]'", group.key), source, Rank::Custom));
        }
        let installable =
            [("pyproject.toml", self.packaged()), ("setup.py", true), ("setup.cfg", true)];
        let (name, _) =
            installable.into_iter().find(|(name, yes)| *yes && tree.has(&self.path(name)))?;
        Some(("pip install -e .".to_owned(), location(&self.path(name), 1), Rank::Custom))
    }

    fn packaged(&self) -> bool {
        ["project", "build-system"].iter().any(|table| self.pyproject.get(&[table]).is_some())
    }

    fn build(&self, tree: &Tree<'_>, draft: &mut Draft, manager: &str) {
        let system = self.pyproject.line_of(&["build-system"]);
        if let Some(line) = system {
            let command = match manager {
                "poetry" => "poetry build",
                "uv" => "uv build",
                "pdm" => "pdm build",
                _ => "python -m build",
            };
            let source = location(&self.path("pyproject.toml"), line);
            draft.offer(Kind::Build, Rank::Custom, command, source);
        } else if tree.has(&self.path("setup.py")) {
            let source = location(&self.path("setup.py"), 1);
            draft.offer(Kind::Build, Rank::Custom, "python -m build", source);
        }
    }

    /// Returns where pytest is configured or required.
    fn pytest(&self, tree: &Tree<'_>) -> Option<Location> {
        let at = |name: &str, line| location(&self.path(name), line);
        if let Some(line) = self.pyproject.line_of(&["tool", "pytest"]) {
            return Some(at("pyproject.toml", line));
        }
        for (name, node, section) in [
            ("pytest.ini", &self.pytest_ini, "pytest"),
            ("setup.cfg", &self.setup_cfg, "tool:pytest"),
            ("tox.ini", &self.tox, "pytest"),
        ] {
            if let Some(line) = node.line_of(&[section]) {
                return Some(at(name, line));
            }
        }
        for (path, lines) in &self.requirements {
            if let Some(line) = lines.iter().position(|line| line.starts_with("pytest")) {
                return Some(location(path, line as u32 + 1));
            }
        }
        for name in [
            "pyproject.toml",
            "setup.cfg",
            "setup.py",
            "Pipfile",
            "tox.ini",
            "conftest.py",
            "tests/conftest.py",
            "noxfile.py",
        ] {
            let path = self.path(name);
            if !tree.has(&path) {
                continue;
            }
            if name.ends_with("conftest.py") {
                return Some(location(&path, 1));
            }
            let text = tree.text(&path).unwrap_or_default();
            let parsed =
                |line: &str| !line.trim_start().starts_with('#') && line.contains("pytest");
            if let Some(line) = text.lines().position(parsed) {
                return Some(location(&path, line as u32 + 1));
            }
        }
        None
    }

    fn test_files<'t>(&self, tree: &'t Tree<'_>) -> Vec<&'t str> {
        let patterns = self.patterns();
        let own = tree.below(&self.root).filter(|path| path.ends_with(".py"));
        let asked = own.filter(|path| patterns.iter().any(|pattern| matches(pattern, name(path))));
        let helpers = ["conftest.py", "__init__.py"];
        let named = tree.tests(&self.root);
        let named = named.filter(|path| path.ends_with(".py") && !helpers.contains(&name(path)));
        named.chain(asked).collect()
    }

    /// Returns Django's `manage.py`, unless pytest is required.
    fn django(&self, tree: &Tree<'_>) -> Option<Location> {
        let path = self.path("manage.py");
        tree.has(&path).then(|| location(&path, 1))
    }

    fn tests(&self, tree: &Tree<'_>, draft: &mut Draft, run: &str) {
        let tests = self.test_files(tree);
        let own = |path: &&str| ["tests.py", "test.py"].contains(&name(path));
        let django = self.django(tree);
        draft.has_tests =
            !tests.is_empty() || (django.is_some() && tree.below(&self.root).any(|p| own(&p)));
        if let Some(source) = django.filter(|_| draft.has_tests && self.pytest(tree).is_none()) {
            draft.framework = Some("django".to_owned());
            draft.offer(Kind::Test, Rank::Custom, &format!("{run}python manage.py test"), source);
            return;
        }
        let asked = self.pytest(tree).map(|location| (Framework::Pytest, location));
        match asked.or_else(|| read_framework(tree, &tests)) {
            Some((Framework::Pytest, source)) => self.pytest_commands(tree, draft, run, source),
            Some((Framework::Unittest, source)) => {
                draft.framework = Some("unittest".to_owned());
                let below = directory(&source.path).strip_prefix(self.root.as_str());
                let below = below.unwrap_or_default().trim_start_matches('/');
                let start = if below.is_empty() { String::new() } else { format!(" -s {below}") };
                let command = format!("{run}python -m unittest discover{start}");
                draft.offer(Kind::Test, Rank::Custom, &command, source);
            }
            None => {}
        }
    }

    fn pytest_commands(&self, tree: &Tree<'_>, draft: &mut Draft, run: &str, source: Location) {
        draft.framework = Some("pytest".to_owned());
        draft.offer(Kind::Test, Rank::Custom, &format!("{run}pytest"), source.clone());
        for (kind, part) in [(Kind::Unit, "tests/unit"), (Kind::Integration, "tests/integration")] {
            if tree.has_directory(&self.path(part)) {
                draft.offer(kind, Rank::Custom, &format!("{run}pytest {part}"), source.clone());
            }
        }
        if let Some(source) = self.mentions(tree, "pytest-cov") {
            draft.offer(Kind::Coverage, Rank::Custom, &format!("{run}pytest --cov"), source);
        }
    }

    /// Returns the configured patterns of test files.
    fn patterns(&self) -> Vec<String> {
        let lists = [
            self.pyproject.get(&["tool", "pytest", "ini_options", "python_files"]),
            self.pytest_ini.get(&["pytest", "python_files"]),
            self.setup_cfg.get(&["tool:pytest", "python_files"]),
            self.tox.get(&["pytest", "python_files"]),
        ];
        let texts = lists.into_iter().flatten().flat_map(Node::each).filter_map(Node::text);
        texts.flat_map(str::split_whitespace).map(str::to_owned).collect()
    }

    fn mentions(&self, tree: &Tree<'_>, word: &str) -> Option<Location> {
        let names = ["pyproject.toml", "setup.cfg", "setup.py", "Pipfile", "tox.ini"];
        let paths = names.iter().map(|name| self.path(name));
        let mut paths = paths.chain(self.requirements.iter().map(|(path, _)| path.clone()));
        paths.find_map(|path| {
            let text = tree.has(&path).then(|| tree.text(&path)).flatten()?;
            let line = text.lines().position(|line| line.contains(word))?;
            Some(location(&path, line as u32 + 1))
        })
    }

    fn versions(&self, tree: &Tree<'_>, draft: &mut Draft) {
        let fields: [(&str, &Node, &[&str]); 3] = [
            ("pyproject.toml", &self.pyproject, &["project", "requires-python"]),
            ("pyproject.toml", &self.pyproject, &["tool", "poetry", "dependencies", "python"]),
            ("setup.cfg", &self.setup_cfg, &["options", "python_requires"]),
        ];
        for (name, node, path) in fields {
            if let Some((version, line)) = node.text_at(path) {
                let source = location(&self.path(name), line);
                draft.needs("python", Some(version), source.clone());
                draft.claims.push(Claim::range("python", version, source));
            }
        }
        let setup = self.path("setup.py");
        if let Some(text) = tree.has(&setup).then(|| tree.text(&setup)).flatten() {
            for (line, number) in text.lines().zip(1..) {
                let Some((_, rest)) = line.split_once("python_requires") else { continue };
                let Some(version) = rest.split(['"', '\'']).nth(1) else { continue };
                draft.needs("python", Some(version), location(&setup, number));
                draft.claims.push(Claim::range("python", version, location(&setup, number)));
            }
        }
        let pin = upwards(&self.root).map(|above| join(above, ".python-version"));
        if let Some(path) = pin.into_iter().find(|path| tree.has(path)) {
            let text = tree.text(&path).unwrap_or_default();
            let version = text.lines().next().unwrap_or_default().trim();
            if !version.is_empty() {
                draft.needs("python", Some(version), location(&path, 1));
                draft.claims.push(Claim::of("python", version, location(&path, 1)));
            }
        }
        if draft.prerequisites.is_empty() {
            draft.needs("python", None, draft.source.clone());
        }
    }
}

/// Returns whether a name matches a pattern with stars.
fn matches(pattern: &str, name: &str) -> bool {
    let mut rest = name;
    let mut parts = pattern.split('*').peekable();
    if let Some(first) = parts.next() {
        let Some(after) = rest.strip_prefix(first) else { return false };
        rest = after;
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}
