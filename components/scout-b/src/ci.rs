//! Reads what CI runs, with which versions and images: GitHub Actions, GitLab, CircleCI, Azure, Travis and similar ones.
//!
//! One walk serves all of them, because their keys have the same meaning wherever they occur.
//!
//! Jobs are weighed: the one that runs the tests of a change is the best evidence. A job for a release, a subset, one of
//! several platforms or a linter weighs more, by the names of its file, job and steps, its triggers and its conditions.

use crate::draft::Rank;
use crate::facts::{Location, Prerequisite};
use crate::images::Image;
use crate::located::{Node, Value};
use crate::statement::{Statement, script};
use crate::tree::{Tree, location};
use crate::version::Claim;
use act_kit::inventory::name;
use act_kit::paths::resolve;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct Ci {
    pub(crate) statements: Vec<Statement>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) images: Vec<Image>,
    /// Services and system packages.
    pub(crate) prerequisites: Vec<Prerequisite>,
}

const MOST: usize = 30;
const DEPTH: usize = 40;

/// The weight from which a job is about something else than the tests of a change.
pub(crate) const ASIDE: u32 = 4;
/// The weight of a job for another platform than the Linux of a container. Such a job still runs the tests.
const PLATFORM: u32 = 3;

/// Words in the name of a file, job or step that is about something else than the tests of a change.
const OTHER: [&str; 53] = [
    "release",
    "releases",
    "publish",
    "deploy",
    "deployment",
    "docs",
    "doc",
    "documentation",
    "pages",
    "website",
    "nightly",
    "cron",
    "codeql",
    "lint",
    "linter",
    "lints",
    "linting",
    "format",
    "fmt",
    "style",
    "typing",
    "typecheck",
    "bench",
    "benches",
    "benchmark",
    "benchmarks",
    "fuzz",
    "fuzzing",
    "sanitizer",
    "sanitizers",
    "asan",
    "valgrind",
    "audit",
    "security",
    "legacy",
    "compat",
    "compatibility",
    "msrv",
    "minimal",
    "subset",
    "native",
    "graal",
    "graalvm",
    "android",
    "ios",
    "wasm",
    "reproducible",
    "e2e",
    "browser",
    "smoke",
    "downstream",
    "experimental",
    "qemu",
];
const PLATFORMS: [&str; 12] = [
    "windows", "win", "macos", "mac", "osx", "freebsd", "openbsd", "netbsd", "mingw64", "msys2",
    "cygwin", "riscv64",
];

/// Returns the weight of a name.
fn of_name(name: &str) -> u32 {
    let name = name.to_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let has = |list: &[&str]| words.clone().any(|word| list.contains(&word));
    let platform = u32::from(has(&PLATFORMS)) * PLATFORM;
    match has(&OTHER) {
        true => ASIDE + platform,
        false => {
            platform + u32::from(words.any(|word| ["check", "checks", "build"].contains(&word)))
        }
    }
}

/// Returns the weight of the events that start a workflow. One that no change starts says less about changes.
fn of_triggers(on: &Node) -> u32 {
    let listed = on.each().iter().filter_map(Node::text);
    let names = listed.chain(on.entries().iter().map(|entry| entry.key.as_str()));
    let names = names.collect::<Vec<_>>();
    let change = ["pull_request", "pull_request_target", "merge_group"];
    if names.is_empty() || names.iter().any(|name| change.contains(name)) {
        return 0;
    }
    let push = on.get(&["push"]);
    let tagged =
        push.is_some_and(|push| push.get(&["tags"]).is_some() && push.get(&["branches"]).is_none());
    match names.contains(&"push") && !tagged {
        true => 0,
        false if names.contains(&"workflow_call") => 1,
        false => ASIDE,
    }
}

/// Returns the weight of what a job or step says about itself: where it runs, when, and whether its failure counts.
fn of_conditions(node: &Node) -> u32 {
    let platform = ["runs-on", "os", "vmImage"].iter().find_map(|key| node.text_at(&[key]));
    let foreign =
        platform.is_some_and(|(text, _)| of_name(text) >= PLATFORM && !text.contains("${{"));
    let condition = node.text_at(&["if"]).map_or("", |(text, _)| text);
    let other = ["schedule", "workflow_dispatch", "release", "refs/tags"];
    let ignored = ["continue-on-error", "allow_failure", "continueOnError"];
    let ignored =
        ignored.iter().any(|key| node.text_at(&[key]).is_some_and(|(text, _)| text == "true"));
    u32::from(foreign) * PLATFORM
        + u32::from(ignored) * PLATFORM
        + match condition {
            "" => 0,
            text if other.iter().any(|word| text.contains(word)) => ASIDE,
            _ => 1,
        }
}

/// Keys with lines of shell as values.
const SCRIPTS: [&str; 9] = [
    "run",
    "script",
    "before_script",
    "install",
    "before_install",
    "command",
    "commands",
    "bash",
    "sh",
];

/// Keys with a version as value, and the tool.
const VERSIONS: [(&str, &str); 6] = [
    ("node-version", "node"),
    ("python-version", "python"),
    ("go-version", "go"),
    ("java-version", "java"),
    ("toolchain", "rust"),
    ("rust-version", "rust"),
];

pub(crate) fn read(tree: &Tree<'_>) -> Ci {
    let single = [
        ".gitlab-ci.yml",
        ".circleci/config.yml",
        ".travis.yml",
        "azure-pipelines.yml",
        ".woodpecker.yml",
        ".drone.yml",
        "bitbucket-pipelines.yml",
        ".cirrus.yml",
        ".buildkite/pipeline.yml",
    ];
    let yaml = |path: &&str| path.ends_with(".yml") || path.ends_with(".yaml");
    let workflows = tree.below(".github/workflows").filter(yaml);
    let mut paths =
        workflows.chain(single.into_iter().filter(|path| tree.has(path))).collect::<Vec<_>>();
    // Where there are more files than are read, those about tests are.
    paths.sort_by_key(|path| (of_name(name(path)), *path));
    let mut ci = Ci::default();
    for path in paths.into_iter().take(MOST) {
        if let Some(node) = tree.manifest(path) {
            let mut walk = Walk { path, ci: &mut ci };
            let triggers = node.get(&["on"]).map_or(0, of_triggers);
            let scope = Scope { weight: of_name(name(path)).max(triggers), ..Scope::default() };
            walk.node(&node, &scope, 0);
        }
    }
    ci.statements.sort_by_key(|statement| statement.weight);
    several_versions(&mut ci.claims);
    ci
}

/// Marks the versions of a tool that CI uses beside another: jobs and matrices differ on purpose.
fn several_versions(claims: &mut [Claim]) {
    let specs =
        claims.iter().map(|claim| (claim.tool, claim.spec.clone())).collect::<BTreeSet<_>>();
    for claim in claims {
        claim.among |= specs.iter().filter(|(tool, _)| *tool == claim.tool).count() > 1;
    }
}

/// Settings that apply to everything below a node.
#[derive(Clone, Default)]
struct Scope<'a> {
    weight: u32,
    /// Whether the entries are jobs by their names.
    jobs: bool,
    directory: String,
    /// Whether the directory is outside of the repository or unknown.
    away: bool,
    matrix: Option<&'a Node>,
}

struct Walk<'a> {
    path: &'a str,
    ci: &'a mut Ci,
}

impl Walk<'_> {
    fn node<'n>(&mut self, node: &'n Node, scope: &Scope<'n>, depth: usize) {
        if depth > DEPTH {
            return;
        }
        for item in node.items() {
            self.node(item, scope, depth + 1);
        }
        let mut scope = scope.clone();
        if depth > 0 && !node.entries().is_empty() {
            let named = node.text_at(&["name"]).map_or(0, |(name, _)| of_name(name));
            scope.weight = scope.weight.max(named).max(of_conditions(node));
        }
        // GitLab has its jobs at the top.
        let jobs = std::mem::take(&mut scope.jobs) || depth == 0;
        if let Some(matrix) = node.get(&["strategy", "matrix"]) {
            scope.matrix = Some(matrix);
        }
        let defaults = node.get(&["defaults", "run"]);
        for holder in [defaults, Some(node)].into_iter().flatten() {
            for key in ["working-directory", "working_directory", "workingDirectory"] {
                let Some((to, _)) = holder.text_at(&[key]) else { continue };
                match resolve("", to).filter(|_| !to.contains("${{") && !to.starts_with(['/', '~']))
                {
                    Some(directory) => scope.directory = directory,
                    None => scope.away = !to.starts_with('~') || scope.away,
                }
            }
        }
        if let Some((action, line)) = node.text_at(&["uses"]) {
            self.action(action, line);
        }
        for entry in node.entries() {
            match entry.key.as_str() {
                key if SCRIPTS.contains(&key) => self.script(&entry.node, &scope, depth),
                "image" | "container" => self.image(&entry.node),
                "services" => self.services(&entry.node),
                "with" => self.versions(&entry.node, scope.matrix),
                key => {
                    let own = if jobs && key != "on" { of_name(key) } else { 0 };
                    let weight = scope.weight.max(own);
                    let below = Scope { weight, jobs: key == "jobs", ..scope.clone() };
                    self.node(&entry.node, &below, depth + 1);
                }
            }
        }
    }

    fn script<'n>(&mut self, node: &'n Node, scope: &Scope<'n>, depth: usize) {
        for part in node.each() {
            match &part.value {
                Value::Text(text) if !scope.away => {
                    self.packages(text, part.line);
                    let parsed = script(text, self.path, part.line, &scope.directory, Rank::Ci);
                    let weighed = parsed
                        .into_iter()
                        .map(|statement| Statement { weight: scope.weight, ..statement });
                    self.ci.statements.extend(weighed);
                }
                Value::Text(_) | Value::Null => {}
                _ => self.node(part, scope, depth + 1),
            }
        }
    }

    fn packages(&mut self, text: &str, line: u32) {
        let path = self.path;
        self.ci.prerequisites.extend(packages(text, line, path));
    }

    fn image(&mut self, node: &Node) {
        let named = node.text().map(|text| (text, node.line));
        let found = named.or_else(|| node.text_at(&["image"])).or_else(|| node.text_at(&["name"]));
        if let Some((reference, line)) = found
            && let Some(image) = Image::of(reference, location(self.path, line))
        {
            self.ci.images.push(image);
        }
    }

    fn services(&mut self, node: &Node) {
        let listed = node.items().iter().filter_map(|item| {
            item.text().map(|text| (text, item.line)).or_else(|| item.text_at(&["name"]))
        });
        let named = node.entries().iter().filter_map(|entry| entry.node.text_at(&["image"]));
        for (reference, line) in listed.chain(named) {
            if let Some(image) = Image::of(reference, location(self.path, line)) {
                self.ci.prerequisites.push(image.prerequisite());
            }
        }
    }

    /// Reads `with:` of an action that sets up a language.
    fn versions(&mut self, with: &Node, matrix: Option<&Node>) {
        for entry in with.entries() {
            let Some((_, tool)) = VERSIONS.iter().find(|(key, _)| *key == entry.key) else {
                continue;
            };
            let several = entry.node.each().len() > 1;
            for node in entry.node.each() {
                let text = node.text().unwrap_or_default();
                let inner =
                    text.trim().strip_prefix("${{").and_then(|rest| rest.strip_suffix("}}"));
                let Some(name) = inner.and_then(|name| name.trim().strip_prefix("matrix.")) else {
                    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                    for version in lines {
                        self.claim(tool, version, node.line, several || text.trim().contains('\n'));
                    }
                    continue;
                };
                let values =
                    matrix.and_then(|matrix| matrix.get(&[name])).map_or(&[][..], Node::items);
                for value in values {
                    self.claim(
                        tool,
                        value.text().unwrap_or_default(),
                        value.line,
                        values.len() > 1,
                    );
                }
            }
        }
    }

    fn claim(&mut self, tool: &'static str, version: &str, line: u32, among: bool) {
        let named = tool == "rust" && !version.starts_with(|c: char| c.is_ascii_digit());
        if version.is_empty() || version.contains("${{") || named {
            return;
        }
        let claim = Claim::of(tool, version, location(self.path, line));
        self.ci.claims.push(if among { claim.among() } else { claim });
    }

    /// Reads a version behind an action's name: `dtolnay/rust-toolchain@1.80`.
    fn action(&mut self, action: &str, line: u32) {
        if let Some((name, version)) = action.split_once('@')
            && name.ends_with("rust-toolchain")
        {
            self.claim("rust", version, line, false);
        }
    }
}

/// Returns the system packages that a script installs.
pub(crate) fn packages(text: &str, line: u32, path: &str) -> Vec<Prerequisite> {
    let mut out = Vec::new();
    let mut joined = String::new();
    for (part, number) in text.lines().zip(line..) {
        if let Some(more) = part.trim_end().strip_suffix('\\') {
            joined.push_str(more);
            joined.push(' ');
            continue;
        }
        joined.push_str(part);
        let parsed = std::mem::take(&mut joined);
        for command in parsed.split(['&', ';', '|']) {
            let words =
                command.split_whitespace().filter(|word| *word != "sudo" && !word.contains('='));
            let words =
                words.skip_while(|word| ["RUN", "run:", "-"].contains(word)).collect::<Vec<_>>();
            let [manager, rest @ ..] = words.as_slice() else { continue };
            let verb = match *manager {
                "apt-get" | "apt" => "install",
                "apk" => "add",
                "dnf" | "yum" => "install",
                _ => continue,
            };
            if !rest.contains(&verb) {
                continue;
            }
            let named = rest.iter().filter(|word| {
                **word != verb
                    && !word.starts_with(['-', '$', '{', '"', '.', '/'])
                    && word.len() > 1
            });
            let source = |_| Location { path: path.to_owned(), line: number };
            out.extend(named.map(|name| Prerequisite {
                name: (*name).to_owned(),
                version: None,
                source: source(()),
            }));
        }
    }
    out
}
