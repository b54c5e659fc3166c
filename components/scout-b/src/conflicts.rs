//! Finds contradictions in what the repository says about itself: package managers, versions, commands that do not exist.
//!
//! An unusual choice is no contradiction.

use crate::draft::{Draft, Rank};
use crate::ecosystem::{node, python};
use crate::facts::{Conflict, Kind, Location, Topic};
use crate::located::Node;
use crate::statement::Statement;
use crate::survey::Survey;
use crate::tasks::{self, Makefile, Target};
use crate::tree::{Tree, location};
use crate::version::{Claim, contradict};
use act_kit::paths::{directory, join, resolve};
use act_kit::reports::commands::{
    self, Called, Family, Instead, Needs, NotATest, of_ci, parse_line, unset_variable,
};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of sources that one conflict lists.
const SOURCES: usize = 8;

pub(crate) fn all(tree: &Tree<'_>, survey: &Survey) -> Vec<Conflict> {
    let mut out = Vec::new();
    for draft in &survey.drafts {
        out.extend(lock_files(tree, draft));
        out.extend(managers(survey, draft));
        out.extend(lying_targets(tree, survey, draft));
        out.extend(lying_scripts(tree, draft));
        out.extend(frameworks(survey, draft));
        out.extend(versions(survey, draft));
    }
    // A command is stated once, however many jobs use it.
    let mut stated = BTreeSet::new();
    let gone = survey.statements.iter().filter_map(|parsed| {
        let foreign = || {
            let why = foreign_variable(parsed)?;
            stated.insert(parsed.parsed.command.clone()).then_some(why)
        };
        let message = missing(tree, parsed).or_else(foreign)?;
        Some(Conflict {
            topic: Topic::Command.word().to_owned(),
            message,
            sources: vec![parsed.location.clone()],
        })
    });
    out.extend(gone);
    out
}

fn conflict(topic: Topic, message: String, mut sources: Vec<Location>) -> Conflict {
    sources.sort();
    sources.dedup();
    sources.truncate(SOURCES);
    Conflict { topic: topic.word().to_owned(), message, sources }
}

fn lock_files(tree: &Tree<'_>, draft: &Draft) -> Vec<Conflict> {
    let names: Vec<(&str, &str)> = match draft.family {
        Family::Node => node::LOCKS.iter().map(|(name, manager, _)| (*name, *manager)).collect(),
        Family::Python => {
            python::LOCKS.iter().map(|(name, manager, ..)| (*name, *manager)).collect()
        }
        _ => return vec![],
    };
    let mut out = Vec::new();
    let there = names.into_iter().filter(|(name, _)| tree.has(&join(&draft.root, name)));
    let there = there.collect::<Vec<_>>();
    let mut managers = there.iter().map(|(_, manager)| *manager).collect::<Vec<_>>();
    managers.dedup();
    if managers.len() > 1 {
        let files = there.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let sources = there.iter().map(|(name, _)| location(&join(&draft.root, name), 1)).collect();
        let message = format!(
            "lock files of several package managers: {files}; {} is taken",
            draft.package_manager
        );
        out.push(conflict(Topic::PackageManager, message, sources));
    }
    if draft.family == Family::Node {
        let manifest = tree.manifest(&join(&draft.root, "package.json")).unwrap_or_default();
        if let Some((field, source)) = node::field(tree, &draft.root, &manifest)
            && let Some((name, _)) = there.iter().find(|(_, manager)| **manager != field)
            && !managers.contains(&field.as_str())
        {
            let message = format!("packageManager is {field}, but the lock file is {name}");
            let sources = vec![source, location(&join(&draft.root, name), 1)];
            out.push(conflict(Topic::PackageManager, message, sources));
        }
    }
    out
}

/// Returns the package manager that a command belongs to, if the choice matters.
pub(crate) fn manager(command: &str) -> Option<&'static str> {
    let first = command.split_whitespace().find(|word| !word.contains('='))?;
    let known = ["npm", "yarn", "pnpm", "bun", "poetry", "pipenv", "pdm", "uv"];
    known.into_iter().find(|name| *name == first)
}

fn managers(survey: &Survey, draft: &Draft) -> Vec<Conflict> {
    let mut others = BTreeMap::<&str, Vec<Location>>::new();
    for statement in &survey.statements {
        let here = statement.directory == draft.root && statement.parsed.family == draft.family;
        let tells =
            statement.parsed.kind.is_some() || matches!(statement.parsed.needs, Needs::Script(_));
        let Some(manager) = manager(&statement.parsed.command).filter(|_| here && tells) else {
            continue;
        };
        // `uv pip` and `npx` do not use the project's manager.
        let apart =
            statement.parsed.command.starts_with("uv pip") || draft.package_manager == "pip";
        if manager != draft.package_manager && !apart {
            others.entry(manager).or_default().push(statement.location.clone());
        }
    }
    let conflict_with = |(other, mut sources): (&str, Vec<Location>)| {
        sources.sort();
        let at = sources.first().map_or(String::new(), |at| format!("{}:{}", at.path, at.line));
        let by = draft.offers.iter().find(|offer| offer.kind == Kind::Install);
        let by =
            by.map(|offer| offer.command.source.clone()).unwrap_or_else(|| draft.source.clone());
        let message = format!("{} says {}, but {at} uses {other}", by.path, draft.package_manager);
        sources.insert(0, by);
        conflict(Topic::PackageManager, message, sources)
    };
    others.into_iter().map(conflict_with).collect()
}

/// Says which variable of CI a command needs that does not exist in a container.
fn foreign_variable(statement: &Statement) -> Option<String> {
    let parsed = &statement.parsed;
    parsed.kind?;
    let name = unset_variable(&parsed.command).filter(|name| of_ci(name))?;
    let Location { path, line } = &statement.location;
    let command = &parsed.command;
    Some(format!(
        "{path}:{line} says `{command}`, but {name} is set by CI alone and not in a container"
    ))
}

/// Returns whether a command names a script or a file that does not exist, also where that is no conflict: a package may
/// bring a program of the script's name, and a build may make the file.
pub(crate) fn gone(tree: &Tree<'_>, statement: &Statement) -> bool {
    let root = &statement.directory;
    match &statement.parsed.needs {
        Needs::Script(script) => {
            let path = join(root, "package.json");
            let manifest = tree.has(&path).then(|| tree.manifest(&path)).flatten();
            manifest.is_none_or(|manifest| manifest.get(&["scripts", script]).is_none())
        }
        Needs::File(file) => {
            !file.starts_with(['/', '~', '$'])
                && resolve(root, file).is_none_or(|path| !tree.exists(&path))
        }
        Needs::Target(target) if target.is_empty() => {
            tasks::makefile(tree, root).is_none() && tree.first(root, &MAKES_MAKEFILE).is_none()
        }
        _ => false,
    }
}

/// Files from which a Makefile is made.
const MAKES_MAKEFILE: [&str; 8] = [
    "configure.ac",
    "configure.in",
    "configure",
    "Makefile.am",
    "Makefile.in",
    "CMakeLists.txt",
    "Makefile.PL",
    "configure.py",
];

/// Says what a command needs and does not exist.
pub(crate) fn missing(tree: &Tree<'_>, statement: &Statement) -> Option<String> {
    let at = format!("{}:{}", statement.location.path, statement.location.line);
    let parsed = &statement.parsed;
    let root = &statement.directory;
    match &parsed.needs {
        Needs::Nothing => None,
        Needs::Target(target) if target.is_empty() => None,
        Needs::Target(target) => match tasks::makefile(tree, root) {
            None if tree.first(root, &MAKES_MAKEFILE).is_some() => None,
            // A document shows commands of other projects as well.
            None if parsed.kind.is_none() && statement.rank == Rank::Documents => None,
            None => Some(format!(
                "{at} says `{}`, but there is no Makefile{}",
                parsed.command,
                within(root)
            )),
            Some(makefile) if makefile.open || makefile.target(target).is_some() => None,
            Some(makefile) => Some(format!(
                "{at} says `{}`, but {} has no such target",
                parsed.command, makefile.path
            )),
        },
        Needs::Recipe(recipe) => match tasks::justfile(tree, root) {
            None => Some(format!(
                "{at} says `{}`, but there is no justfile{}",
                parsed.command,
                within(root)
            )),
            Some(justfile) if justfile.open || justfile.target(recipe).is_some() => None,
            Some(justfile) => Some(format!(
                "{at} says `{}`, but {} has no such recipe",
                parsed.command, justfile.path
            )),
        },
        Needs::Script(script) => {
            let path = join(root, "package.json");
            if !tree.has(&path) {
                return None;
            }
            let manifest = tree.manifest(&path)?;
            let there = manifest.get(&["scripts", script]).is_some();
            // `yarn x` and `bun x` may also run a program of a dependency.
            let direct = parsed.command.contains(" run ") || script == "test";
            (!there && direct && manager(&parsed.command).is_some()).then(|| {
                format!("{at} says `{}`, but {path} has no script {script}", parsed.command)
            })
        }
        Needs::File(file) => {
            // A module's path or a program of the system is no missing file.
            let path = absent(tree, root, file).filter(|_| parsed.kind.is_some())?;
            Some(format!("{at} says `{}`, but there is no file {path}", parsed.command))
        }
    }
}

/// Returns whether a command does harm by its target, script or file, or should test and proves nothing.
pub(crate) fn unfit(tree: &Tree<'_>, statement: &Statement) -> bool {
    let parsed = &statement.parsed;
    let root = &statement.directory;
    let Some(kind) = parsed.kind else { return false };
    let called = called(tree, root);
    let within = |tasks: Option<Makefile>, name: &str| {
        tasks.is_some_and(|tasks| {
            tasks.target(name).is_some_and(|target| {
                unusable(&tasks.text(target), &called).is_some()
                    || kind.tests() && tasks.hollow(target).is_some()
            })
        })
    };
    match &parsed.needs {
        Needs::Nothing => false,
        Needs::Target(target) => within(tasks::makefile(tree, root), target),
        Needs::Recipe(recipe) => within(tasks::justfile(tree, root), recipe),
        Needs::Script(script) => {
            let path = join(root, "package.json");
            let manifest = tree.has(&path).then(|| tree.manifest(&path)).flatten();
            manifest.is_some_and(|manifest| {
                let line = node::script(&manifest, script).unwrap_or_default();
                unusable(&line, &called).is_some()
                    || kind.tests() && node::not_a_test(&manifest, script).is_some()
            })
        }
        Needs::File(file) => {
            let path = resolve(root, file).filter(|path| tree.has(path));
            let Some(path) = path else { return false };
            let text = tree.text(&path).unwrap_or_default();
            is_shell(&path, &text)
                && (unusable(&text, &called).is_some() || kind.tests() && proves_nothing(&text))
        }
    }
}

/// Returns why no container may run a script: it publishes, deploys or deletes, or starts containers itself.
pub(crate) fn unusable(script: &str, called: &Called<'_>) -> Option<&'static str> {
    let engine = || commands::needs_engine(script, called).then_some(Instead::Engine);
    Some(commands::harm(script, called).or_else(engine)?.text())
}

/// Returns the function that finds the text of what a command in a directory calls. Manifests are read when they are needed.
pub(crate) fn called<'t>(
    tree: &'t Tree<'_>,
    root: &str,
) -> impl Fn(&Needs) -> Option<String> + use<'t> {
    let root = root.to_owned();
    let (manifest, makefile, justfile) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
    let of = |tasks: &Option<Makefile>, name: &str| {
        let tasks = tasks.as_ref()?;
        let target = match name {
            "" => tasks.targets.first(),
            name => tasks.target(name),
        };
        Some(tasks.text(target?))
    };
    move |needs| match needs {
        Needs::Nothing => None,
        Needs::Script(name) => {
            let path = join(&root, "package.json");
            let manifest =
                manifest.get_or_init(|| tree.has(&path).then(|| tree.manifest(&path)).flatten());
            node::script(manifest.as_ref()?, name)
        }
        Needs::Target(name) => of(makefile.get_or_init(|| tasks::makefile(tree, &root)), name),
        Needs::Recipe(name) => of(justfile.get_or_init(|| tasks::justfile(tree, &root)), name),
        Needs::File(file) => {
            let path = resolve(&root, file).filter(|path| tree.has(path))?;
            let text = tree.text(&path)?;
            is_shell(&path, &text).then(|| text.to_string())
        }
    }
}

/// Returns whether a file is a shell script, by its first line or else by its name.
fn is_shell(path: &str, text: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    text.lines().next().is_some_and(|first| match first.strip_prefix("#!") {
        Some(program) => program.ends_with("sh") || program.contains("sh "),
        None => name.ends_with("sh") || !name.contains('.'),
    })
}

/// Returns whether no line of a shell script may run tests: it prints, prepares, builds, checks style or reports.
fn proves_nothing(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    // `${PREFIX}pytest` is a program of an environment.
    let program = |line: &str| match line.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
        Some((_, rest)) => rest.to_owned(),
        None => line.to_owned(),
    };
    lines.all(|line| {
        let why = commands::not_a_test(&program(line), &|_| None);
        why.is_some_and(|why| why != NotATest::Instead(commands::SWALLOWS))
    })
}

/// Finds scripts of package.json that are called tests and run none.
fn lying_scripts(tree: &Tree<'_>, draft: &Draft) -> Vec<Conflict> {
    let path = join(&draft.root, "package.json");
    if draft.family != Family::Node {
        return vec![];
    }
    let manifest = tree.manifest(&path).unwrap_or_default();
    let called = called(tree, &draft.root);
    let scripts = manifest.get(&["scripts"]).map_or(&[][..], Node::entries);
    let lies = scripts.iter().filter_map(|script| {
        Kind::of_task(&script.key).filter(|kind| kind.tests())?;
        let line = node::script(&manifest, &script.key).unwrap_or_default();
        let nothing = node::not_a_test(&manifest, &script.key).map(NotATest::text);
        let why = nothing.unwrap_or_else(|| unusable(&line, &called))?;
        let message = format!("{path} has a script {}, but {why}", script.key);
        Some(conflict(Topic::Command, message, vec![location(&path, script.line)]))
    });
    lies.collect()
}

/// Returns the path that a command names, if it is one of the repository and does not exist.
fn absent(tree: &Tree<'_>, root: &str, file: &str) -> Option<String> {
    const BUILT: [&str; 8] =
        ["build/", "dist/", "target/", "bin/", "out/", "node_modules/", ".venv/", "venv/"];
    if file.starts_with(['/', '~', '-']) || file.contains(['$', '*', ':']) {
        return None;
    }
    let path = resolve(root, file)?;
    let built = BUILT.iter().any(|start| path.starts_with(start));
    (!built && !tree.exists(&path)).then_some(path)
}

fn within(root: &str) -> String {
    if root.is_empty() { String::new() } else { format!(" in {root}") }
}

/// Says why a target does not do what its name says.
pub(crate) fn not_a_test(
    tree: &Tree<'_>,
    root: &str,
    families: &[Family],
    makefile: &Makefile,
    target: &Target,
) -> Option<String> {
    if !target.acts() {
        return Some("its recipe only prints".to_owned());
    }
    if let Some(why) = unusable(&makefile.text(target), &called(tree, root)) {
        return Some(why.to_owned());
    }
    if Kind::of_task(&target.name).is_some_and(Kind::tests)
        && let Some(why) = makefile.hollow(target)
    {
        return Some(why.to_owned());
    }
    for (line, _) in &target.recipe {
        for parsed in parse_line(line.trim_start_matches(['@', '-', '+'])) {
            let needed = [
                (Family::Node, "package.json"),
                (Family::Cargo, "Cargo.toml"),
                (Family::Go, "go.mod"),
                (Family::Maven, "pom.xml"),
            ];
            let foreign = needed.iter().find(|(family, _)| *family == parsed.family);
            if parsed.directory.is_empty()
                && parsed.kind.is_some()
                && let Some((family, manifest)) = foreign
                && !families.contains(family)
                && !tree.has(&join(root, manifest))
            {
                return Some(format!("it runs `{}`, and there is no {manifest}", parsed.command));
            }
            if let Needs::File(file) = &parsed.needs
                && parsed.directory.is_empty()
                && parsed.kind.is_some()
                && let Some(path) = absent(tree, root, file)
                && makefile.target(file).is_none()
            {
                return Some(format!("it runs {path}, which is not there"));
            }
        }
    }
    None
}

fn lying_targets(tree: &Tree<'_>, survey: &Survey, draft: &Draft) -> Vec<Conflict> {
    let makefile = tasks::makefile(tree, &draft.root);
    let here = survey.drafts.iter().filter(|other| other.root == draft.root);
    let families = here.map(|other| other.family).collect::<Vec<_>>();
    let targets = makefile
        .iter()
        .flat_map(|makefile| makefile.targets.iter().map(move |target| (makefile, target)));
    let lies = targets.filter_map(|(makefile, target)| {
        let kind = Kind::of_task(&target.name)?;
        let why = not_a_test(tree, &draft.root, &families, makefile, target)?;
        // A target that other rules extend, and an empty build, are no conflict. An image may well be built.
        let idle = why.contains("only prints") || why == Instead::Engine.text();
        let matters = kind == Kind::Test || !idle;
        matters.then(|| {
            let message = format!("{} has a target {}, but {why}", makefile.path, target.name);
            conflict(Topic::Command, message, vec![location(&makefile.path, target.line)])
        })
    });
    let recipes = tasks::justfile(tree, &draft.root);
    let talk = recipes.iter().flat_map(|justfile| {
        justfile.targets.iter().filter_map(|recipe| {
            Kind::of_task(&recipe.name).filter(|kind| kind.tests())?;
            let why = justfile.hollow(recipe)?;
            let message = format!("{} has a recipe {}, but {why}", justfile.path, recipe.name);
            Some(conflict(Topic::Command, message, vec![location(&justfile.path, recipe.line)]))
        })
    });
    lies.chain(talk).collect()
}

/// Finds files that test with different frameworks.
fn frameworks(survey: &Survey, draft: &Draft) -> Option<Conflict> {
    let names = ["pytest", "unittest", "jest", "vitest", "mocha"];
    let mut by = BTreeMap::<&str, Vec<Location>>::new();
    for statement in &survey.statements {
        let parsed = &statement.parsed;
        let tests = matches!(parsed.kind, Some(Kind::Test | Kind::Coverage));
        if statement.directory == draft.root
            && parsed.family == draft.family
            && tests
            && let Some(name) = names.iter().find(|name| **name == parsed.program)
        {
            by.entry(name).or_default().push(statement.location.clone());
        }
    }
    if by.len() < 2 {
        return None;
    }
    let parsed = by.iter().map(|(name, locations)| {
        let at =
            locations.iter().min().map_or(String::new(), |at| format!("{}:{}", at.path, at.line));
        format!("{at} tests with {name}")
    });
    let message = parsed.collect::<Vec<_>>().join(", ");
    Some(conflict(Topic::Command, message, by.into_values().flatten().collect()))
}

/// Finds contradictions between statements about one tool's version in a project.
fn versions(survey: &Survey, draft: &Draft) -> Vec<Conflict> {
    let near = |location: &Location| {
        let at = directory(&location.path);
        at == draft.root || (draft.root.is_empty() && at.starts_with('.'))
    };
    let docker = survey.docker.images.iter().filter(|image| near(&image.location));
    let ci = survey.ci.images.iter().filter(|_| draft.root.is_empty());
    // One of several versions in CI is a choice of its job, as an image too.
    let in_ci = |claim: Claim| {
        let images = survey.ci.images.iter().filter_map(|image| image.claim());
        let mut all = images.chain(survey.ci.claims.iter().cloned());
        let several = all.any(|other| other.tool == claim.tool && other.spec != claim.spec);
        if several { claim.among() } else { claim }
    };
    let ci = ci.filter_map(|image| image.claim()).map(in_ci);
    let images = docker.filter_map(|image| image.claim()).chain(ci);
    let jobs = survey.ci.claims.iter().filter(|_| draft.root.is_empty()).cloned();
    let claims = draft.claims.iter().cloned().chain(jobs).chain(images).collect::<Vec<_>>();
    let mut out = Vec::new();
    for tool in ["node", "python", "go", "java", "rust"] {
        let own = draft.claims.iter().any(|claim| claim.tool == tool);
        let claims = claims.iter().filter(|claim| claim.tool == tool).collect::<Vec<_>>();
        let mut disagree = Vec::<&Claim>::new();
        for (at, a) in claims.iter().enumerate() {
            for b in claims.iter().skip(at + 1) {
                if clash(a, b, &claims) {
                    disagree.extend([*a, *b]);
                }
            }
        }
        disagree.sort_by_key(|claim| (claim.location.clone(), claim.spec.clone()));
        disagree.dedup();
        if disagree.is_empty() || !own && disagree.len() < 2 {
            continue;
        }
        let parsed = disagree.iter().take(SOURCES).map(|claim| {
            format!("{}:{} says {}", claim.location.path, claim.location.line, claim.spec)
        });
        let message = format!("{tool}: {}", parsed.collect::<Vec<_>>().join(", "));
        let sources = disagree.iter().map(|claim| claim.location.clone()).collect();
        out.push(conflict(Topic::Version, message, sources));
    }
    out
}

/// Versions of a matrix differ on purpose: a pinned version or a range only has to fit one of them.
fn clash(a: &Claim, b: &Claim, all: &[&Claim]) -> bool {
    match (a.among, b.among) {
        (true, true) => false,
        (false, false) => contradict(a, b),
        (among, _) => {
            let other = if among { b } else { a };
            let mut matrix = all.iter().filter(|claim| claim.among);
            contradict(a, b) && !matrix.any(|claim| !contradict(claim, other))
        }
    }
}
