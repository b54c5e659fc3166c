//! Reads what CI runs, with which versions and images: GitHub Actions, GitLab, CircleCI, Azure, Travis and similar ones.
//!
//! One walk serves all of them, because their keys have the same meaning wherever they occur.

use crate::draft::Rank;
use crate::facts::{Location, Prerequisite};
use crate::images::Image;
use crate::located::{Node, Value};
use crate::statement::{Statement, script};
use crate::tree::{Tree, location};
use crate::version::Claim;
use act_kit::paths::resolve;

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
    // Workflows that release or publish say less about testing.
    let other = |path: &str| {
        ["release", "publish", "deploy", "docs", "pages", "nightly", "codeql", "lint"]
            .iter()
            .any(|word| path.contains(word))
    };
    paths.sort_by_key(|path| (other(path), *path));
    let mut ci = Ci::default();
    for path in paths.into_iter().take(MOST) {
        if let Some(node) = tree.manifest(path) {
            let mut walk = Walk { path, ci: &mut ci };
            walk.node(&node, &Scope::default(), 0);
        }
    }
    ci
}

/// Settings that apply to everything below a node.
#[derive(Clone, Default)]
struct Scope<'a> {
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
                _ => self.node(&entry.node, &scope, depth + 1),
            }
        }
    }

    fn script<'n>(&mut self, node: &'n Node, scope: &Scope<'n>, depth: usize) {
        for part in node.each() {
            match &part.value {
                Value::Text(text) if !scope.away => {
                    self.packages(text, part.line);
                    let parsed = script(text, self.path, part.line, &scope.directory, Rank::Ci);
                    self.ci.statements.extend(parsed);
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
