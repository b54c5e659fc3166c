//! The gate of a JavaScript project: npm, pnpm, yarn and bun, with their workspaces.

use std::collections::BTreeSet;

use serde_json::Value;

use super::gate::{Gate, Work, place, quoted, words};
use act_reports::commands::{Kind, not_a_test, parse_line};

/// Programs that run every package of a workspace.
const SPREADERS: [&str; 10] = [
    "-r",
    "--recursive",
    "--workspaces",
    // npm's short forms of it.
    "--ws",
    "-ws",
    "workspaces",
    "turbo",
    "lerna",
    "nx",
    "wsrun",
];

/// Names of scripts that build, the most usual first. The last two run before a package is packed or published.
const BUILDS: [&str; 4] = ["build", "compile", "prepack", "prepublishOnly"];
/// Maximum depth to which scripts that call each other are followed.
const DEPTH: usize = 8;
/// Maximum number of packages of a workspace that get a part of a command each.
const PACKAGES: usize = 20;

/// The scripts of one `package.json`, with its other keys.
struct Package(Value);

impl Package {
    fn script(&self, name: &str) -> Option<&str> {
        self.0.get("scripts")?.get(name)?.as_str()
    }

    fn scripts(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.get("scripts").and_then(Value::as_object).into_iter().flatten();
        all.filter_map(|(name, line)| Some((name.as_str(), line.as_str()?)))
    }

    /// Returns the scripts that a command calls.
    fn called<'s>(&'s self, command: &str) -> Vec<(&'s str, &'s str)> {
        let all = words(command);
        let names = match all.as_slice() {
            ["npm" | "pnpm" | "yarn" | "bun", "run" | "run-script", rest @ ..] => rest,
            ["npm" | "pnpm" | "yarn" | "bun", "test" | "t", ..] => &["test"],
            ["pnpm" | "yarn", rest @ ..] => rest,
            ["run-s" | "run-p" | "npm-run-all" | "npm-run-all2" | "concurrently", rest @ ..] => {
                rest
            }
            _ => return vec![],
        };
        let names =
            names.iter().map(|name| name.trim_matches(['"', '\'']).trim_start_matches("npm:"));
        let names = names.filter(|name| !name.starts_with('-')).collect::<Vec<_>>();
        let fits = |script: &str| {
            names.iter().any(|name| match name.split_once('*') {
                Some((before, _)) => !before.is_empty() && script.starts_with(before),
                None => script == *name,
            })
        };
        self.scripts().filter(|(name, _)| fits(name)).collect()
    }

    fn depends_on(&self, name: &str) -> bool {
        ["dependencies", "devDependencies"]
            .iter()
            .any(|group| self.0.get(group).is_some_and(|all| all.get(name).is_some()))
    }

    fn is_workspace(&self) -> bool {
        self.0.get("workspaces").is_some()
    }
}

pub(super) fn plan(gate: &mut Gate, work: &Work<'_>) -> BTreeSet<String> {
    let package = Package(work.files.json("package.json"));
    let manager = work.project.package_manager.as_str();
    let workspace = package.is_workspace() || work.files.has("pnpm-workspace.yaml");
    let members = work.members().filter(|_| workspace).collect::<Vec<_>>();
    let packages = members
        .iter()
        .map(|(_, inner)| (*inner, Package(work.files.below(inner).json("package.json"))));
    let packages = packages.take(PACKAGES).collect::<Vec<_>>();

    install(gate, work, &package, manager);
    build(gate, work, &package, manager, workspace, &packages);
    let installed = !gate.steps.is_empty();
    // A script of the repository may download something.
    let network = (installed && !is_script(&work.test.command)).then_some(false);
    let asked = work.test.command.as_str();
    let line = package.called(asked).first().and_then(|(name, _)| package.script(name));
    gate.test(asked, network, work.test_place());
    let tests_all = line.unwrap_or(asked);
    covered(gate, work, &package, tests_all, &packages, network)
}

fn is_script(command: &str) -> bool {
    command.starts_with(['.', '/'])
        || words(command).first().is_some_and(|first| first.contains('/'))
}

/// Adds the step that installs the packages, with the package manager if the image may not have it.
fn install(gate: &mut Gate, work: &Work<'_>, package: &Package, manager: &str) {
    let Some(install) = &work.project.commands.install else { return };
    let mut command = install.command.clone();
    // No browser is downloaded that no step uses.
    let skipped = [
        ("puppeteer", "PUPPETEER_SKIP_DOWNLOAD=1"),
        ("playwright", "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1"),
        ("cypress", "CYPRESS_INSTALL_BINARY=0"),
    ];
    for (name, variable) in skipped {
        if package.depends_on(name) {
            command = format!("{variable} {command}");
        }
    }
    let own = |package: String| {
        format!("npm install -q -g --prefix \"$HOME/.local\" {} && ", quoted(&package))
    };
    let wanted = package.0.get("packageManager").and_then(Value::as_str).unwrap_or_default();
    let version =
        wanted.strip_prefix(&format!("{manager}@")).and_then(|rest| rest.split('+').next());
    let version = version.filter(|version| version.starts_with(|c: char| c.is_ascii_digit()));
    let tool = match manager {
        "pnpm" => {
            let lock = work.files.text_or_empty("pnpm-lock.yaml");
            let of_lock = match lock.lines().next().unwrap_or_default() {
                line if line.contains("5.3") => "6",
                line if line.contains("5.4") => "7",
                line if line.contains("6.") => "8",
                _ => "9",
            };
            own(format!("pnpm@{}", version.unwrap_or(of_lock)))
        }
        "yarn" => {
            let rc = work.files.text_or_empty(".yarnrc.yml");
            let named = rc.lines().find_map(|line| line.strip_prefix("yarnPath:"));
            let committed =
                named.is_some_and(|path| work.files.has(path.trim().trim_matches(['"', '\''])));
            let lock = work.files.text("yarn.lock");
            let berry = version.is_some_and(|version| !version.starts_with("1."))
                || lock.as_ref().is_some_and(|lock| lock.contains("__metadata:"));
            if berry {
                let option = if lock.is_some() { "--immutable" } else { "--no-immutable" };
                command = command.replace("--frozen-lockfile", option);
            }
            match berry && !committed {
                true => own(format!("@yarnpkg/cli-dist@{}", version.unwrap_or("4"))),
                // Version 1 calls the program that `yarnPath` names.
                false => own("yarn@1".to_owned()),
            }
        }
        _ => String::new(),
    };
    gate.prepare("install", format!("{tool}{command}"), place(&install.source));
}

/// Adds the step that builds, if a file that the package names as its entry is not in the repository.
fn build(
    gate: &mut Gate,
    work: &Work<'_>,
    package: &Package,
    manager: &str,
    workspace: bool,
    packages: &[(&str, Package)],
) {
    let here = missing_entry(package, work.files);
    let of_member = packages.iter().find_map(|(inner, member)| {
        let entry = missing_entry(member, &work.files.below(inner))?;
        Some(format!("{inner}/{entry}"))
    });
    let Some(entry) = here.or(of_member) else { return };
    let name = BUILDS.into_iter().find(|name| builds_alone(package, name));
    // npm and its like run these by themselves.
    let builds = |script: &str| {
        package.script(script).is_some_and(|line| name.is_some_and(|name| line.contains(name)))
    };
    if ["prepare", "pretest", "postinstall"].into_iter().any(builds)
        || package.script("test").is_some_and(|line| line.contains(" build"))
    {
        return;
    }
    let why = format!("{}; {entry} is built", work.named("package.json"));
    match (name, workspace) {
        (Some(name), _) => gate.prepare("build", format!("{manager} run {name}"), why),
        (None, true) => {
            let any = |name: &&str| packages.iter().any(|(_, member)| builds_alone(member, name));
            let command = BUILDS
                .into_iter()
                .find(any)
                .and_then(|name| in_every_package(work, manager, packages, name));
            if let Some(command) = command {
                gate.prepare("build", command, why);
            }
        }
        _ => {}
    }
}

/// Returns whether a package has a script of that name which builds. What runs before a package is published often tests or
/// checks as well, and is then no build.
fn builds_alone(package: &Package, name: &str) -> bool {
    let alone = |line: &str| {
        let mut parts = parse_line(line).into_iter();
        parts.all(|part| !part.kind.is_some_and(Kind::tests) && part.instead.is_none())
            && !line.contains("lint")
    };
    package.script(name).is_some_and(|line| ["build", "compile"].contains(&name) || alone(line))
}

/// Returns an entry of a package that is not in the repository.
fn missing_entry(package: &Package, files: &super::files::Files) -> Option<String> {
    fn paths<'v>(value: &'v Value, out: &mut Vec<&'v str>, depth: usize) {
        match value {
            Value::String(path) => out.push(path),
            Value::Object(all) if depth < DEPTH => {
                all.iter()
                    .filter(|(key, _)| *key != "types")
                    .for_each(|(_, value)| paths(value, out, depth + 1));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for key in ["main", "module", "exports", "bin"] {
        if let Some(value) = package.0.get(key) {
            paths(value, &mut found, 0);
        }
    }
    let file = |path: &&&str| {
        !path.contains(['*', ':']) && path.len() < 200 && !path.ends_with(".d.ts") && **path != "."
    };
    let mut named =
        found.iter().filter(file).map(|path| path.trim_start_matches("./").trim_end_matches('/'));
    let missing = named.find(|path| {
        !path.is_empty()
            && files
                .first(&[
                    path,
                    &format!("{path}.js"),
                    &format!("{path}.json"),
                    &format!("{path}/index.js"),
                ])
                .is_none()
    });
    missing.map(str::to_owned)
}

/// Returns the command that runs a script in every package of a workspace that has it.
fn in_every_package(
    work: &Work<'_>,
    manager: &str,
    packages: &[(&str, Package)],
    script: &str,
) -> Option<String> {
    let berry = work.files.text_or_empty("yarn.lock").contains("__metadata:");
    Some(match manager {
        "npm" => format!("npm run {script} --workspaces --if-present"),
        "pnpm" => format!("pnpm -r --if-present run {script}"),
        "yarn" if berry => format!("yarn workspaces foreach --all --topological run {script}"),
        _ => {
            let having = packages.iter().filter(|(_, member)| member.script(script).is_some());
            let each = having
                .map(|(inner, _)| format!("(cd {} && {manager} run {script})", quoted(inner)));
            let each = each.collect::<Vec<_>>();
            if each.is_empty() {
                return None;
            }
            each.join(" && ")
        }
    })
}

/// Returns the projects that the test command runs as well. If it runs no package of the workspace, a step for the packages
/// is added.
fn covered(
    gate: &mut Gate,
    work: &Work<'_>,
    package: &Package,
    line: &str,
    packages: &[(&str, Package)],
    network: Option<bool>,
) -> BTreeSet<String> {
    let all = work.members().map(|(project, _)| project.root.clone()).collect::<BTreeSet<_>>();
    if packages.is_empty() {
        return BTreeSet::new();
    }
    let called = |command: &str| {
        package.called(command).into_iter().map(|(_, line)| line.to_owned()).collect::<Vec<_>>()
    };
    let mut lines = vec![line.to_owned()];
    let mut at = 0;
    while let Some(line) = lines.get(at).cloned() {
        at += 1;
        let deeper =
            parse_line(&line).iter().flat_map(|part| called(&part.command)).collect::<Vec<_>>();
        lines.extend(deeper.into_iter().filter(|_| at < 50));
    }
    let whole = lines.iter().flat_map(|line| parse_line(line)).any(|part| {
        let words = words(&part.command);
        let runner = words.iter().any(|word| ["jest", "vitest"].contains(word));
        let paths = words.iter().any(|word| word.contains('/') && !word.starts_with('-'));
        words.iter().any(|word| SPREADERS.contains(word)) || (runner && !paths)
    });
    // The root's own tests may be all there are.
    let inner = packages.iter().any(|(_, member)| {
        let script = |name: &str| member.script(name).map(str::to_owned);
        member.script("test").is_some_and(|line| not_a_test(line, &script).is_none())
    });
    if whole {
        return all;
    }
    let manager = work.project.package_manager.as_str();
    if inner && let Some(command) = in_every_package(work, manager, packages, "test") {
        gate.named_test("test packages", &command, network, work.named("package.json"));
        return all;
    }
    BTreeSet::new()
}
