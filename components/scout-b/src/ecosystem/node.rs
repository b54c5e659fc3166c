//! package.json with its package manager.

use crate::conflicts::{called, unusable};
use crate::draft::{Draft, Offer, Rank};
use crate::facts::{Command, Kind, Location, System};
use crate::located::{Entry, Node};
use crate::tree::{Tree, location};
use crate::version::Claim;
use act_kit::paths::{directory, join, upwards};
use act_kit::reports::commands::{self, Called, Family, Instead, NotATest};

/// Lock files, their managers, and the commands that install exactly the locked versions.
pub(crate) const LOCKS: [(&str, &str, &str); 6] = [
    ("pnpm-lock.yaml", "pnpm", "pnpm install --frozen-lockfile"),
    ("yarn.lock", "yarn", "yarn install --frozen-lockfile"),
    ("bun.lock", "bun", "bun install --frozen-lockfile"),
    ("bun.lockb", "bun", "bun install --frozen-lockfile"),
    ("package-lock.json", "npm", "npm ci"),
    ("npm-shrinkwrap.json", "npm", "npm ci"),
];

/// Words of a test script or names of dependencies, and the frameworks that they mean.
const FRAMEWORKS: [(&str, &str); 11] = [
    ("vitest", "vitest"),
    ("jest", "jest"),
    ("react-scripts test", "jest"),
    ("mocha", "mocha"),
    ("node --test", "node:test"),
    ("node:test", "node:test"),
    ("ava", "ava"),
    ("jasmine", "jasmine"),
    ("karma", "karma"),
    ("tap", "tap"),
    ("playwright", "playwright"),
];

/// Returns the text of a script of the manifest; of several scripts, joined, where the name holds `*`.
pub(crate) fn script(manifest: &Node, name: &str) -> Option<String> {
    let Some((start, _)) = name.split_once('*') else {
        return Some(manifest.text_at(&["scripts", name])?.0.to_owned());
    };
    let scripts = manifest.get(&["scripts"]).map_or(&[][..], Node::entries);
    let deep = name.contains("**");
    let fits = |entry: &&Entry| {
        let rest = entry.key.strip_prefix(start);
        rest.is_some_and(|rest| !rest.is_empty() && (deep || !rest.contains(':')))
    };
    let lines = scripts.iter().filter(fits).filter_map(|entry| entry.node.text());
    let lines = lines.collect::<Vec<_>>();
    (!lines.is_empty()).then(|| lines.join(" && "))
}

/// Returns why a script of the manifest that is called a test proves nothing.
pub(crate) fn not_a_test(manifest: &Node, name: &str) -> Option<NotATest> {
    let text = |name: &str| script(manifest, name);
    commands::not_a_test(&text(name)?, &text)
}

/// Returns where a directory declares the packages of a workspace.
pub(crate) fn workspace(tree: &Tree<'_>, root: &str) -> Option<Location> {
    let pnpm = join(root, "pnpm-workspace.yaml");
    if tree.has(&pnpm) {
        return Some(location(&pnpm, 1));
    }
    let path = join(root, "package.json");
    let manifest = tree.has(&path).then(|| tree.manifest(&path)).flatten()?;
    Some(location(&path, manifest.line_of(&["workspaces"])?))
}

/// Returns whether a script of the manifest runs tests in a browser.
fn in_browser(manifest: &Node, name: &str, called: &Called<'_>) -> bool {
    script(manifest, name).is_some_and(|line| commands::needs_browser(&line, called))
}

/// Returns the script that tests the most without a browser and ends by itself: one for unit tests, else another whose name
/// begins with `test`.
fn narrower<'m>(manifest: &'m Node, called: &Called<'_>) -> Option<&'m Entry> {
    let scripts = manifest.get(&["scripts"]).map_or(&[][..], Node::entries);
    let fits = |entry: &&Entry| {
        let name = entry.key.as_str();
        let other = ["watch", "update", "lint", "types", "debug", "cov", "ci"];
        !other.iter().any(|word| name.contains(word))
            && !in_browser(manifest, name, called)
            && not_a_test(manifest, name).is_none()
            && unusable(&script(manifest, name).unwrap_or_default(), called).is_none()
    };
    let unit = |entry: &&Entry| Kind::of_task(&entry.key) == Some(Kind::Unit);
    let named = |entry: &&Entry| entry.key.starts_with("test:") || entry.key.starts_with("test-");
    let mut fitting = scripts.iter().filter(fits);
    fitting.clone().find(unit).or_else(|| fitting.find(named))
}

/// Returns the script that runs the tests once, where `test` waits for changes: one that is made for CI, or is called so.
fn once<'m>(manifest: &'m Node, called: &Called<'_>) -> Option<&'m Entry> {
    let scripts = manifest.get(&["scripts"]).map_or(&[][..], Node::entries);
    let named = |entry: &&Entry| {
        let name = entry.key.replace([':', '_', '.'], "-");
        ["test-ci", "test-run", "test-once", "ci-test", "test-all"].contains(&name.as_str())
    };
    let usable = |entry: &&Entry| {
        let name = entry.key.as_str();
        not_a_test(manifest, name).is_none()
            && !in_browser(manifest, name, called)
            && unusable(&script(manifest, name).unwrap_or_default(), called).is_none()
    };
    scripts.iter().filter(named).find(usable)
}

pub(super) fn project(tree: &Tree<'_>, root: &str) -> Option<Draft> {
    let path = join(root, "package.json");
    if !tree.has(&path) {
        return None;
    }
    let manifest = tree.manifest(&path).unwrap_or_default();
    let (manager, install, source) = manager(tree, root, &manifest);
    let system = match manager {
        "yarn" => System::Yarn,
        "pnpm" => System::Pnpm,
        "npm" => System::Npm,
        _ => System::Custom,
    };
    let mut draft = Draft::new(root, system, Family::Node, location(&path, 1));
    draft.package_manager = manager.to_owned();
    draft.offer(Kind::Install, Rank::Declared, install, source);

    let called = called(tree, root);
    // A narrower script, for a test that cannot be used. The custom of the framework runs more.
    let mut replacement = None;
    let scripts = manifest.get(&["scripts"]).map_or(&[][..], Node::entries);
    for script in scripts {
        let Some(kind) = Kind::of_task(&script.key) else { continue };
        if kind == Kind::Install || (kind == Kind::Test && script.key != "test") {
            continue;
        }
        let idle = kind.tests().then(|| not_a_test(&manifest, &script.key)).flatten();
        let line = self::script(&manifest, &script.key).unwrap_or_default();
        let command = |name: &str| match name {
            "test" if manager == "bun" => "bun run test".to_owned(),
            "test" => format!("{manager} test"),
            name => format!("{manager} run {name}"),
        };
        let why = idle.map(NotATest::text).unwrap_or_else(|| unusable(&line, &called));
        if idle.is_some() || why.is_some() {
            if let Some(why) = why.filter(|_| kind == Kind::Test) {
                let whole = command(&script.key);
                let remark = format!("`{whole}` cannot be used, because {why}");
                let offer = |other: &Entry| Command {
                    command: command(&other.key),
                    source: location(&path, other.line),
                    remark: Some(remark.clone()),
                };
                let waits = why == Instead::Waits.text();
                let once = waits.then(|| once(&manifest, &called)).flatten().map(offer);
                // A script that lints instead of testing says nothing about the others.
                let other = waits || idle.is_none();
                replacement = other.then(|| narrower(&manifest, &called)).flatten().map(offer);
                draft.offers.extend(once.map(|command| Offer {
                    kind,
                    rank: Rank::Declared,
                    weight: 0,
                    command,
                }));
            }
            continue;
        }
        draft.offer(kind, Rank::Declared, &command(&script.key), location(&path, script.line));
        if kind == Kind::Test && in_browser(&manifest, &script.key, &called) {
            let whole = command(&script.key);
            let narrower = narrower(&manifest, &called);
            let (used, line, remark) = match narrower {
                Some(entry) => (
                    command(&entry.key),
                    entry.line,
                    format!("`{whole}` needs a browser; this runs only the tests that need none"),
                ),
                None => (whole.clone(), script.line, format!("`{whole}` needs a browser")),
            };
            if let Some(offer) = draft.offers.last_mut() {
                let (source, remark) = (location(&path, line), Some(remark));
                offer.command = Command { command: used, source, remark };
            }
        }
    }

    let script = |name: &str| manifest.text_at(&["scripts", name]).map(|(text, _)| text);
    let refuses = not_a_test(&manifest, "test") == Some(NotATest::Placeholder);
    let test = script("test").filter(|_| !refuses).unwrap_or_default();
    let dependency = |name: &str| {
        let groups = ["devDependencies", "dependencies"];
        groups.into_iter().find_map(|group| manifest.line_of(&[group, name]))
    };
    let by_word = FRAMEWORKS.iter().find(|(word, _)| has_word(test, word));
    let by_dependency = || FRAMEWORKS.iter().find(|(word, _)| dependency(word).is_some());
    let framework = by_word.or_else(by_dependency).map(|(_, framework)| *framework);
    draft.framework = framework.map(str::to_owned);
    let run = |tool: &str| match manager {
        "npm" => format!("npx {tool}"),
        "bun" => format!("bunx {tool}"),
        manager => format!("{manager} exec {tool}"),
    };
    if let Some(line) = framework.and_then(dependency) {
        let at = location(&path, line);
        match framework {
            Some("jest" | "mocha" | "ava" | "jasmine") => {
                draft.offer(
                    Kind::Test,
                    Rank::Custom,
                    &run(framework.unwrap_or_default()),
                    at.clone(),
                );
            }
            Some("vitest") => draft.offer(Kind::Test, Rank::Custom, &run("vitest run"), at.clone()),
            _ => {}
        }
        match framework {
            Some("jest") => draft.offer(Kind::Coverage, Rank::Custom, &run("jest --coverage"), at),
            Some("vitest") if dependency("@vitest/coverage-v8").is_some() => {
                draft.offer(Kind::Coverage, Rank::Custom, &run("vitest run --coverage"), at);
            }
            _ => {}
        }
    }
    let replacement = replacement.map(|command| Offer {
        kind: Kind::Test,
        rank: Rank::Custom,
        weight: 0,
        command,
    });
    draft.offers.extend(replacement);
    let globs = test_globs(tree, root, &manifest);
    draft.has_tests = tree.tests(root).any(is_source)
        || tree
            .below(root)
            .filter(|path| is_source(path))
            .any(|path| globs.iter().any(|glob| loosely(glob, path)));
    versions(tree, root, &manifest, &path, &mut draft);
    Some(draft)
}

/// Returns the manager, its install command and the source: the lock file, else the field, else the custom.
fn manager(tree: &Tree<'_>, root: &str, manifest: &Node) -> (&'static str, &'static str, Location) {
    let field = field(tree, root, manifest);
    let locks = upwards(root).find_map(|above| {
        let found = LOCKS.iter().filter(|(name, ..)| tree.has(&join(above, name)));
        let found = found.map(|lock| (lock, join(above, lock.0))).collect::<Vec<_>>();
        (!found.is_empty()).then_some(found)
    });
    let locks = locks.unwrap_or_default();
    // With several lock files the field decides.
    let named = field.as_ref().and_then(|(name, _)| locks.iter().find(|(lock, _)| lock.1 == name));
    match named.or(locks.first()) {
        Some(((_, manager, install), path))
            if field.as_ref().is_none_or(|(name, _)| name == manager) =>
        {
            // Since version 2 the option of yarn has another name, and a file of settings of its own.
            let berry = *manager == "yarn"
                && (tree.has(&join(directory(path), ".yarnrc.yml"))
                    || tree.text(path).is_some_and(|text| text.contains("__metadata:")));
            let install = if berry { "yarn install --immutable" } else { install };
            (manager, install, location(path, 1))
        }
        _ => {
            let (name, source) = field
                .unwrap_or_else(|| ("npm".to_owned(), location(&join(root, "package.json"), 1)));
            let (manager, install) = match name.as_str() {
                "yarn" => ("yarn", "yarn install"),
                "pnpm" => ("pnpm", "pnpm install"),
                "bun" => ("bun", "bun install"),
                _ => ("npm", "npm install"),
            };
            (manager, install, source)
        }
    }
}

/// Returns `packageManager` of the package or of the nearest one above.
pub(crate) fn field(tree: &Tree<'_>, root: &str, manifest: &Node) -> Option<(String, Location)> {
    let own = |manifest: &Node, root: &str| {
        let (text, line) = manifest.text_at(&["packageManager"])?;
        let name = text.split('@').next()?.to_owned();
        Some((name, location(&join(root, "package.json"), line)))
    };
    own(manifest, root).or_else(|| {
        upwards(root).skip(1).find_map(|above| {
            let path = join(above, "package.json");
            tree.has(&path).then(|| own(&tree.manifest(&path)?, above)).flatten()
        })
    })
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let outside =
            |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '-' && c != '_');
        outside(before) && (outside(after) || word == "jest")
    })
}

fn is_source(path: &str) -> bool {
    let extensions = [".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".vue", ".svelte"];
    extensions.iter().any(|end| path.ends_with(end))
}

/// Returns the patterns with which the framework is configured to find tests.
fn test_globs(tree: &Tree<'_>, root: &str, manifest: &Node) -> Vec<String> {
    let mut globs = Vec::new();
    let locations: [&[&str]; 3] =
        [&["jest", "testMatch"], &["mocha", "spec"], &["jest", "testRegex"]];
    for path in locations {
        let found = manifest.get(path).map_or(&[][..], Node::each);
        globs.extend(found.iter().filter_map(Node::text).map(str::to_owned));
    }
    for name in [".mocharc.json", ".mocharc.yml", ".mocharc.yaml"] {
        let path = join(root, name);
        let manifest = tree.has(&path).then(|| tree.manifest(&path)).flatten();
        let found = manifest.as_ref().and_then(|m| m.get(&["spec"])).map_or(&[][..], Node::each);
        globs.extend(found.iter().filter_map(Node::text).map(str::to_owned));
    }
    let configs = ["jest.config", "vitest.config", "vite.config"];
    for config in configs {
        for extension in ["js", "ts", "mjs", "cjs", "mts"] {
            let path = join(root, &format!("{config}.{extension}"));
            let Some(text) = tree.has(&path).then(|| tree.text(&path)).flatten() else { continue };
            let lines = text.lines().skip_while(|line| {
                !["testMatch", "include:", "testRegex"].iter().any(|word| line.contains(word))
            });
            let quoted =
                lines.take(6).flat_map(|line| line.split(['"', '\'', '`']).skip(1).step_by(2));
            globs.extend(quoted.filter(|glob| glob.contains('*')).map(str::to_owned));
        }
    }
    globs
}

/// Returns whether a path may match a glob: the literal parts of the glob's last name occur in the path in that order.
fn loosely(glob: &str, path: &str) -> bool {
    let name = glob.rsplit('/').next().unwrap_or(glob);
    let fixed = name.split(['*', '?', '{', '}', '(', ')', '[', ']', '|', ',', '\\', '$', '^', '+']);
    let mut fixed = fixed.filter(|part| part.len() > 2).take(1).peekable();
    fixed.peek().is_some() && {
        let last = path.rsplit('/').next().unwrap_or(path);
        fixed.all(|part| last.contains(part))
    }
}

fn versions(tree: &Tree<'_>, root: &str, manifest: &Node, path: &str, draft: &mut Draft) {
    let engines = manifest.get(&["engines"]).map_or(&[][..], Node::entries);
    for engine in engines {
        let Some(version) = engine.node.text() else { continue };
        if ["node", "npm", "yarn", "pnpm", "bun"].contains(&engine.key.as_str()) {
            draft.needs(&engine.key, Some(version), location(path, engine.line));
        }
        if engine.key == "node" {
            draft.claims.push(Claim::range("node", version, location(path, engine.line)));
        }
    }
    for name in [".nvmrc", ".node-version"] {
        let Some(file) = upwards(root).map(|above| join(above, name)).find(|path| tree.has(path))
        else {
            continue;
        };
        let text = tree.text(&file).unwrap_or_default();
        let version = text.lines().next().unwrap_or_default().trim();
        if !version.is_empty() {
            draft.needs("node", Some(version.trim_start_matches('v')), location(&file, 1));
            draft.claims.push(Claim::of("node", version, location(&file, 1)));
        }
    }
    if let Some((text, line)) = manifest.text_at(&["packageManager"])
        && let Some((name, version)) = text.split_once('@')
    {
        let version = version.split('+').next().unwrap_or(version);
        draft.needs(name, Some(version), location(path, line));
    }
    if !draft.prerequisites.iter().any(|needed| needed.name == "node") {
        draft.needs("node", None, location(path, 1));
    }
}
