//! The gate of a Python project: pip, uv, poetry, pdm and pipenv.
//!
//! The project and its requirements are installed into one virtual environment, which lasts as long as the run. Package
//! managers have an environment of their own, because their dependencies would replace those of the project.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::gate::{Gate, Work, place, quoted, words};

/// The virtual environment of the project: outside of the tested tree.
const VENV: &str = "/artifacts/home/venv";
/// The virtual environment of the package manager.
const TOOLS: &str = "/artifacts/home/tools";

/// Names of groups and extras with the requirements of tests, the most specific first.
const GROUPS: [&str; 8] =
    ["test", "tests", "testing", "dev", "develop", "development", "ci", "all"];

/// Words in manifests of projects that git or a compiler has to be in the image for: the version comes from git's tags,
/// or an extension is compiled.
const NEEDS_FULL_IMAGE: [&str; 17] = [
    "setuptools_scm",
    "setuptools-scm",
    "hatch-vcs",
    "versioneer",
    "pbr",
    "versioningit",
    "dynamic-versioning",
    "dunamai",
    "flit_scm",
    "pdm.version",
    "ext_modules",
    "Extension(",
    "ython.Build",
    "cffi_modules",
    "scikit-build",
    "meson-python",
    "git+https",
];

/// Options in the configuration of pytest that a plugin defines.
const PLUGINS: [(&str, &str); 6] = [
    ("--cov", "pytest-cov"),
    ("-n auto", "pytest-xdist"),
    ("--numprocesses", "pytest-xdist"),
    ("asyncio_mode", "pytest-asyncio"),
    ("--timeout", "pytest-timeout"),
    ("DJANGO_SETTINGS_MODULE", "pytest-django"),
];

pub(super) fn plan(gate: &mut Gate, work: &Work<'_>) -> BTreeSet<String> {
    let manifests = Manifests::read(work);
    if let Some(full) = gate.image.strip_suffix("-slim")
        && gate.image.starts_with("python:")
        && manifests.mentions_any(&NEEDS_FULL_IMAGE)
    {
        gate.image = full.to_owned();
    }
    let manager = work.project.package_manager.as_str();
    let pytest = work.project.framework == "pytest";
    let asked = work.test.command.as_str();
    let bare = without_runner(asked);
    let mut tool = None;
    let mut test = match () {
        () if runs_directly(&bare) => bare,
        // tox and nox build environments for several versions of Python; the image has one.
        () if pytest => {
            gate.note(format!(
                "`{asked}` ({}) runs more than the image has; the step runs pytest",
                work.test_place()
            ));
            "pytest".to_owned()
        }
        () => {
            tool = ["tox", "nox", "hatch"].into_iter().find(|tool| words(asked).contains(tool));
            asked.to_owned()
        }
    };
    if test == "pytest" && !manifests.packaged {
        // It adds the directory to the path of imports.
        test = "python -m pytest".to_owned();
    }
    // A script of the repository may download something.
    let script = words(&test).first().is_some_and(|first| first.contains('/'));
    let install = manifests.install(work, manager, pytest, tool);
    let (why, prepared) = match (&work.project.commands.install, &install) {
        (Some(command), Some(_)) => (place(&command.source), true),
        (None, Some(_)) => {
            (format!("{}; no list of requirements was found", work.test_place()), true)
        }
        (_, None) => (String::new(), false),
    };
    if let Some(install) = install {
        gate.prepare("install", install, why);
        let runner = if tool.is_some() || words(&test).contains(&"run") {
            format!("PATH={TOOLS}/bin:$PATH ")
        } else {
            String::new()
        };
        test = format!(". {VENV}/bin/activate && {runner}{test}");
    }
    // A tool that makes environments of its own downloads into them.
    let offline = prepared && tool.is_none() && !words(&test).contains(&"run");
    gate.test(&test, (offline && !script).then_some(false), work.test_place());
    BTreeSet::new()
}

/// The manifests that say what has to be installed.
struct Manifests<'a> {
    pyproject: Table,
    /// The texts of `pyproject.toml`, `setup.py`, `setup.cfg`, `tox.ini` and `pytest.ini`.
    texts: String,
    /// Whether pip can install the project itself.
    packaged: bool,
    work: &'a Work<'a>,
}

impl<'a> Manifests<'a> {
    fn read(work: &'a Work<'a>) -> Self {
        let pyproject = work.files.toml("pyproject.toml");
        let packaged = pyproject.contains_key("project")
            || pyproject.contains_key("build-system")
            || work.files.has("setup.py")
            || work.files.text("setup.cfg").is_some_and(|text| text.contains("[metadata]"));
        let names = ["pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini"];
        let texts = names.map(|name| work.files.text_or_empty(name)).join("\n");
        Self { pyproject, texts, packaged, work }
    }

    fn mentions_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.texts.contains(word))
    }

    /// Returns the command that installs the project, its requirements and its test tool; `None` if nothing is needed.
    fn install(
        &self,
        work: &Work<'_>,
        manager: &str,
        pytest: bool,
        tool: Option<&str>,
    ) -> Option<String> {
        let mut parts = vec![format!("python -m venv {VENV}")];
        let (mut managers, mut installed) = (tool.into_iter().collect::<Vec<_>>(), true);
        let activate = format!(". {VENV}/bin/activate");
        let group = self.group(pytest);
        match manager {
            "uv" => {
                managers.push("uv");
                let frozen = if work.files.has("uv.lock") { " --frozen" } else { "" };
                let members = self.at(&["tool", "uv", "workspace"]).is_some();
                let all = if members { " --all-packages" } else { "" };
                let option = match &group {
                    Some(Group::Dependencies(name)) => format!(" --group {}", quoted(name)),
                    Some(Group::Extra(name)) => format!(" --extra {}", quoted(name)),
                    _ => String::new(),
                };
                parts.push(activate);
                parts.push(format!(
                    "UV_PROJECT_ENVIRONMENT={VENV} {TOOLS}/bin/uv sync{frozen}{all}{option}"
                ));
                if pytest && group.is_none() {
                    parts.push(format!("{TOOLS}/bin/uv pip install -q pytest"));
                }
            }
            "poetry" => {
                managers.push("poetry");
                let option = match &group {
                    Some(Group::Dependencies(name) | Group::Poetry(name)) => {
                        format!(" --with {}", quoted(name))
                    }
                    Some(Group::Extra(name)) => format!(" --extras {}", quoted(name)),
                    None => String::new(),
                };
                parts.push(activate);
                parts.push(format!("{TOOLS}/bin/poetry install --no-interaction{option}"));
                if pytest && !self.texts.contains("pytest") {
                    parts.push("pip install -q pytest".to_owned());
                }
            }
            manager @ ("pdm" | "pipenv") => {
                managers.push(manager);
                let command =
                    work.project.commands.install.as_ref().map(|install| install.command.clone());
                let command = command.unwrap_or_else(|| format!("{manager} install"));
                let option = match (&group, manager) {
                    (Some(Group::Dependencies(name) | Group::Extra(name)), "pdm")
                        if !command.contains(" -G") =>
                    {
                        format!(" -G {}", quoted(name))
                    }
                    _ => String::new(),
                };
                parts.push(activate);
                parts.push(format!("{TOOLS}/bin/{command}{option}"));
                if pytest && group.is_none() {
                    parts.push("pip install -q pytest".to_owned());
                }
            }
            _ => {
                let commands = self.pip(work, pytest, group.as_ref());
                installed = !commands.is_empty();
                parts.push(activate);
                parts.extend(commands);
            }
        }
        if !managers.is_empty() {
            let own = format!(
                "python -m venv {TOOLS} && {TOOLS}/bin/pip install -q {}",
                managers.join(" ")
            );
            parts.insert(0, own);
        }
        (installed || !managers.is_empty()).then(|| parts.join(" && "))
    }

    /// Returns the commands of pip, in order.
    fn pip(&self, work: &Work<'_>, pytest: bool, group: Option<&Group>) -> Vec<String> {
        let mut out = Vec::new();
        let asked = work.project.commands.install.as_ref().map(|install| install.command.as_str());
        let asked = asked.filter(|command| command.contains("pip")).unwrap_or_default();
        let listed = words(asked).windows(2).any(|pair| pair[0] == "-r");
        let of_project = words(asked).iter().any(|word| {
            let word = word.trim_matches(['\'', '"']);
            word == "." || word.starts_with(".[")
        });
        let extra = match group {
            Some(Group::Extra(name)) => format!("'.[{name}]'"),
            _ => ".".to_owned(),
        };
        match () {
            () if of_project && (extra == "." || asked.contains('[')) => out.push(as_module(asked)),
            () if self.packaged => {
                // The project itself first: its own requirements must not replace those that are pinned.
                out.push(format!("pip install -q -e {extra}"));
                if listed {
                    out.push(as_module(asked));
                }
            }
            () if !asked.is_empty() => out.push(as_module(asked)),
            () => {}
        }
        let own = "requirements.txt";
        let also = listed && !asked.contains(own) && work.files.has(own) && !self.packaged;
        let included = || {
            work.files.names(".").iter().any(|name| {
                name != own
                    && asked.contains(name.as_str())
                    && work.files.text_or_empty(name).contains(own)
            })
        };
        if also && !included() {
            out.push(format!("pip install -q -r {own}"));
        }
        if let Some(Group::Dependencies(name)) = group {
            out.push(format!(
                "pip install -q -U 'pip>=25.1' && pip install -q --group {}",
                quoted(name)
            ));
        } else if group.is_none() && !listed {
            let needed = self.tox();
            if !needed.is_empty() {
                out.push(format!("pip install -q {}", needed.join(" ")));
            }
        }
        if pytest {
            let wanted = PLUGINS.iter().filter(|(option, plugin)| {
                self.texts.contains(option) && !self.required(plugin, work)
            });
            let mut plugins = wanted.map(|(_, plugin)| *plugin).collect::<Vec<_>>();
            plugins.dedup();
            out.push(
                ["pip install -q pytest"].into_iter().chain(plugins).collect::<Vec<_>>().join(" "),
            );
        }
        out
    }

    /// Returns whether a list of requirements names a package.
    fn required(&self, package: &str, work: &Work<'_>) -> bool {
        let listed = work.files.names(".").into_iter().filter(|name| name.contains("requirements"));
        let mut listed = listed.filter(|name| name.ends_with(".txt"));
        listed.any(|name| work.files.text_or_empty(&name).contains(package))
            || self.pyproject.to_string().contains(package)
            || work.files.text_or_empty("setup.cfg").contains(package)
            || work.files.text_or_empty("setup.py").contains(package)
            || self.tox().iter().any(|needed| needed.contains(package))
    }

    fn at(&self, path: &[&str]) -> Option<&Value> {
        let (last, before) = path.split_last()?;
        let mut table = &self.pyproject;
        for name in before {
            table = table.get(*name)?.as_table()?;
        }
        table.get(*last)
    }

    /// Returns the group or extra with the requirements of the tests: one that names the test tool, else one by its name.
    fn group(&self, pytest: bool) -> Option<Group> {
        let table =
            |path: &[&str]| self.at(path).and_then(Value::as_table).cloned().unwrap_or_default();
        let groups = table(&["dependency-groups"]);
        let extras = table(&["project", "optional-dependencies"]);
        let poetry = table(&["tool", "poetry", "group"]);
        let old_extras = table(&["tool", "poetry", "extras"]);
        let names = |of: &Table, needed: bool| {
            let fits = |name: &&String| {
                !needed || of.get(*name).is_some_and(|value| value.to_string().contains("pytest"))
            };
            let mut names = of.keys().filter(fits).cloned().collect::<Vec<_>>();
            names.sort_by_key(|name| {
                GROUPS.iter().position(|known| known == name).unwrap_or(GROUPS.len())
            });
            // Groups for documents and types may need more than the image has.
            names.retain(|name| needed || GROUPS.contains(&name.as_str()));
            names.into_iter().next()
        };
        let found = |needed: bool| {
            names(&groups, needed)
                .map(Group::Dependencies)
                .or_else(|| names(&poetry, needed).map(Group::Poetry))
                .or_else(|| names(&extras, needed).map(Group::Extra))
                .or_else(|| names(&old_extras, needed).map(Group::Extra))
        };
        let setup = || {
            let text = self.work.files.text_or_empty("setup.cfg");
            let (_, section) = text.split_once("[options.extras_require]")?;
            let section = section.split("\n[").next().unwrap_or_default();
            let known = section.lines().filter(|line| !line.starts_with([' ', '\t']));
            let named = known.filter_map(|line| line.split_once('='));
            let mut named = named.map(|(name, _)| name.trim());
            named.find(|name| GROUPS.contains(name)).map(|name| Group::Extra(name.to_owned()))
        };
        found(pytest).or_else(|| found(false)).or_else(setup)
    }

    /// Returns the requirements of `[testenv]` in `tox.ini` that hold for every environment.
    fn tox(&self) -> Vec<String> {
        let text = self.work.files.text_or_empty("tox.ini");
        let Some((_, section)) = text.split_once("[testenv]") else { return vec![] };
        let section = section.split("\n[").next().unwrap_or_default();
        let lines = section.lines().skip_while(|line| !line.starts_with("deps"));
        let lines = lines
            .enumerate()
            .take_while(|(at, line)| *at == 0 || line.starts_with([' ', '\t']) || line.is_empty());
        let mut out = Vec::new();
        for (at, line) in lines {
            let line =
                if at == 0 { line.split_once('=').map_or("", |(_, rest)| rest) } else { line };
            let line =
                line.split('#').next().unwrap_or_default().trim().replace("{toxinidir}/", "");
            let factor = line.split_once(':').is_some_and(|(name, _)| !name.contains('/'));
            if line.is_empty() || line.contains(['{', ';']) || factor {
                continue;
            }
            match line.strip_prefix("-r") {
                Some(file) => out.push(format!("-r {}", quoted(file.trim()))),
                None => out.push(quoted(&line.replace(' ', ""))),
            }
        }
        out
    }
}

enum Group {
    /// A group of `[dependency-groups]`.
    Dependencies(String),
    /// A group of `[tool.poetry.group]`.
    Poetry(String),
    /// An extra of the project.
    Extra(String),
}

/// Returns a command of pip for the environment that is active. The project is installed editable, so that a step which
/// was prepared before a change tests the changed sources.
fn as_module(command: &str) -> String {
    let command = command.replace("pip3 install", "pip install").replace("python3 -m pip", "pip");
    // uv is not in the environment, and pip installs the same packages.
    let command = command.replace("uv pip install", "pip install");
    let alone = ["--system", "--locked"];
    let all = command.split_whitespace().filter(|word| !alone.contains(word)).collect::<Vec<_>>();
    let editable = all.iter().any(|word| ["-e", "--editable"].contains(word));
    let own = all.iter().map(|word| {
        let bare = word.trim_matches(['\'', '"']);
        match !editable && (bare == "." || bare.starts_with(".[")) {
            true => format!("-e {word}"),
            false => (*word).to_owned(),
        }
    });
    own.collect::<Vec<_>>().join(" ")
}

/// Returns a command without the manager that would run it in an environment of its own.
fn without_runner(command: &str) -> String {
    let all = words(command);
    let before = command.split_whitespace().count() - all.len();
    let rest = match all.as_slice() {
        ["uv" | "poetry" | "pdm" | "pipenv" | "hatch" | "rye", "run", rest @ ..] => rest,
        _ => return command.to_owned(),
    };
    let mut rest = rest;
    while let [option, after @ ..] = rest
        && option.starts_with('-')
    {
        let valued = [
            "--group",
            "--extra",
            "--with",
            "--python",
            "-p",
            "--env-file",
            "--package",
            "--directory",
        ];
        let skipped = usize::from(valued.contains(option));
        rest = after.get(skipped..).unwrap_or_default();
    }
    let assigned = command.split_whitespace().take(before);
    let bare = assigned.chain(rest.iter().copied()).collect::<Vec<_>>().join(" ");
    // A manager can also run scripts that only the manager knows.
    if runs_directly(&bare) { bare } else { command.to_owned() }
}

/// Returns whether a command runs pytest, unittest or Django's tests, and nothing that makes environments.
fn runs_directly(command: &str) -> bool {
    match words(command).as_slice() {
        ["pytest" | "py.test", ..] => true,
        ["python" | "python3", "-m", "pytest" | "unittest", ..] => true,
        ["python" | "python3", script, "test", ..] => script.ends_with("manage.py"),
        ["./manage.py", "test", ..] => true,
        ["make" | "tox" | "nox" | "hatch" | "just" | "uv" | "poetry" | "pdm" | "pipenv", ..] => {
            false
        }
        // A script of the repository.
        [script, ..] => script.contains('/') || script.ends_with(".py"),
        [] => false,
    }
}
