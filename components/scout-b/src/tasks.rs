//! Reads named tasks: targets of Makefiles, recipes of justfiles, environments of tox, sessions of nox.
//!
//! It judges by a target's recipe whether the target does what its name says.

use crate::conflicts::{called, not_a_test, unusable};
use crate::draft::{Draft, Rank};
use crate::facts::Kind;
use crate::tree::{Tree, location};
use act_kit::paths::join;
use act_kit::reports::commands::{self, Family};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) line: u32,
    pub(crate) needs: Vec<String>,
    pub(crate) recipe: Vec<(String, u32)>,
}

impl Target {
    /// The reason why its own recipe proves nothing. make ignores failures of a line that starts with `-`.
    fn hollow(&self) -> Option<&'static str> {
        let mut why = commands::PRINTS;
        let mut lines = self.recipe.iter().map(|(line, _)| line.as_str()).peekable();
        while let Some(line) = lines.next() {
            let mut whole = line.trim_end_matches('\\').to_owned();
            let mut goes_on = line.ends_with('\\');
            while goes_on && let Some(more) = lines.next() {
                goes_on = more.ends_with('\\');
                whole.push_str(more.trim_end_matches('\\'));
            }
            let command = whole.trim_start_matches(['@', '-', '+', ' ']);
            let ignored = whole[..whole.len() - command.len()].contains('-');
            match commands::not_a_test(command, &|_| None) {
                None if ignored => why = commands::SWALLOWS,
                None => return None,
                Some(reason) if why == commands::PRINTS => why = reason.text().unwrap_or(why),
                Some(_) => {}
            }
        }
        Some(why)
    }

    /// Whether it does more than print, itself or through its prerequisites.
    pub(crate) fn acts(&self) -> bool {
        !self.needs.is_empty() || self.recipe.iter().any(|(line, _)| !only_talks(line))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Makefile {
    pub(crate) path: String,
    /// `make` or `just`.
    program: &'static str,
    pub(crate) targets: Vec<Target>,
    /// Whether it includes other files or computes names, so that further targets may exist.
    pub(crate) open: bool,
}

/// Maximum depth to which prerequisites are followed.
const DEPTH: usize = 8;
/// Maximum number of prerequisites, and of lines, of a target that are searched for harm. Makefiles that people write have
/// fewer, and the search runs for each target that is named like a task.
const REACHED: usize = 32;
const LINES: usize = 200;

impl Makefile {
    /// Returns why a target that is called a test proves nothing.
    pub(crate) fn hollow(&self, target: &Target) -> Option<&'static str> {
        self.hollow_at(target, 0)
    }

    fn hollow_at(&self, target: &Target, depth: usize) -> Option<&'static str> {
        let mut why = target.hollow();
        for need in &target.needs {
            // A prerequisite that is defined elsewhere, or is too deep, may run tests.
            let need = self.target(need).filter(|_| depth < DEPTH && !self.open)?;
            why = why.and_then(|why| {
                let of_need = self.hollow_at(need, depth + 1)?;
                Some(if why == commands::PRINTS { of_need } else { why })
            });
        }
        why
    }

    /// Returns a target as lines of shell: its prerequisites, which the same program runs, and its recipe.
    pub(crate) fn text(&self, target: &Target) -> String {
        let needs = target.needs.iter().take(REACHED).filter(|need| self.target(need).is_some());
        let needs = needs.map(|need| format!("{} {need}\n", self.program));
        let lines = target.recipe.iter().take(LINES).map(|(line, _)| format!("{line}\n"));
        needs.chain(lines).collect::<String>().replace("\\\n", " ")
    }

    pub(crate) fn target(&self, name: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.name == name)
    }
}

fn only_talks(line: &str) -> bool {
    let line = line.trim_start_matches(['@', '-', '+', ' ']);
    let program = line.split_whitespace().next().unwrap_or_default();
    let alone = !line.contains("&&") && !line.contains(';') && !line.contains('|');
    matches!(program, "" | "#" | ":" | "true" | "exit")
        || (matches!(program, "echo" | "printf") && alone)
}

pub(crate) fn makefile(tree: &Tree<'_>, root: &str) -> Option<Makefile> {
    let path = tree.first(root, &["GNUmakefile", "makefile", "Makefile"])?;
    let text = tree.text(&path)?;
    let mut makefile = Makefile { path, program: "make", targets: vec![], open: false };
    let mut current = 0..0;
    for (line, number) in text.lines().zip(1..) {
        if let Some(recipe) = line.strip_prefix('\t') {
            for target in makefile.targets.get_mut(current.clone()).unwrap_or_default() {
                target.recipe.push((recipe.trim().to_owned(), number));
            }
            continue;
        }
        let parsed = line.split('#').next().unwrap_or_default();
        if parsed.starts_with("include ") || parsed.starts_with("-include ") {
            makefile.open = true;
        }
        let Some((names, rest)) = parsed.split_once(':') else { continue };
        // Nobody calls assignments and special targets, and computed names are unknown.
        if rest.starts_with(['=', ':'])
            || names.starts_with([' ', '.'])
            || names.contains(['=', '"'])
        {
            continue;
        }
        if names.contains(['$', '%']) {
            makefile.open = true;
            continue;
        }
        let (needs, inline) = rest.split_once(';').unwrap_or((rest, ""));
        let needs = needs.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let recipe = Some(inline.trim()).filter(|inline| !inline.is_empty());
        let recipe =
            recipe.map(|inline| (inline.to_owned(), number)).into_iter().collect::<Vec<_>>();
        let first = makefile.targets.len();
        for name in names.split_whitespace() {
            let (name, needs, recipe) = (name.to_owned(), needs.clone(), recipe.clone());
            makefile.targets.push(Target { name, line: number, needs, recipe });
        }
        current = first..makefile.targets.len();
    }
    Some(makefile)
}

/// Reads a justfile's recipes into the same type as the targets of a Makefile.
pub(crate) fn justfile(tree: &Tree<'_>, root: &str) -> Option<Makefile> {
    let path = tree.first(root, &["justfile", "Justfile", ".justfile"])?;
    let text = tree.text(&path)?;
    let mut justfile = Makefile { path, program: "just", targets: vec![], open: false };
    let plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    let mut inside = false;
    for (line, number) in text.lines().zip(1..) {
        if line.starts_with([' ', '\t']) {
            if let Some(target) = justfile.targets.last_mut().filter(|_| inside) {
                target.recipe.push((line.trim().to_owned(), number));
            }
            continue;
        }
        justfile.open |= line.starts_with("import ") || line.starts_with("mod ");
        let parsed = line.split('#').next().unwrap_or_default();
        let Some((head, rest)) = parsed.split_once(':') else { continue };
        let name = head.trim_start_matches('@').split_whitespace().next().unwrap_or_default();
        inside = !rest.starts_with('=') && !name.is_empty() && plain(name);
        if inside {
            let needs = rest.split_whitespace().filter(|word| plain(word)).map(str::to_owned);
            let (name, needs) = (name.to_owned(), needs.collect());
            justfile.targets.push(Target { name, line: number, needs, recipe: vec![] });
        }
    }
    Some(justfile)
}

/// Offers the tasks of a directory to its project.
pub(crate) fn offer(tree: &Tree<'_>, draft: &mut Draft, families: &[Family]) {
    let root = draft.root.clone();
    if let Some(makefile) = makefile(tree, &root) {
        for target in by_preference(&makefile.targets) {
            let Some(kind) = Kind::of_task(&target.name) else { continue };
            // `install` copies the build result into the system.
            if target.name == "install"
                || not_a_test(tree, &root, families, &makefile, target).is_some()
            {
                continue;
            }
            let command = format!("make {}", target.name);
            draft.offer(kind, Rank::Task, &command, location(&makefile.path, target.line));
        }
    }
    if let Some(justfile) = justfile(tree, &root) {
        for recipe in by_preference(&justfile.targets) {
            let Some(kind) = Kind::of_task(&recipe.name) else { continue };
            let usable = unusable(&justfile.text(recipe), &called(tree, &root)).is_none();
            if usable && (!kind.tests() || justfile.hollow(recipe).is_none()) {
                let command = format!("just {}", recipe.name);
                draft.offer(kind, Rank::Task, &command, location(&justfile.path, recipe.line));
            }
        }
    }
    if draft.family == Family::Python {
        tox(tree, draft);
        nox(tree, draft);
    }
}

/// Returns the targets, those first whose names are most often the whole suite: `tests` often only builds it, and `check` often
/// checks the style too.
fn by_preference(targets: &[Target]) -> Vec<&Target> {
    let mut targets = targets.iter().collect::<Vec<_>>();
    targets.sort_by_key(|target| match target.name.as_str() {
        "test" => 0,
        "check" => 1,
        _ => 2,
    });
    targets
}

fn tox(tree: &Tree<'_>, draft: &mut Draft) {
    let path = join(&draft.root, "tox.ini");
    if !tree.has(&path) {
        return;
    }
    let Some(tox) = tree.manifest(&path) else { return };
    if let Some(line) = tox.line_of(&["testenv"]) {
        draft.offer(Kind::Test, Rank::Task, "tox", location(&path, line));
    }
    for section in tox.entries() {
        let Some(name) = section.key.strip_prefix("testenv:") else { continue };
        if let Some(kind) = Kind::of_task(name).filter(|kind| *kind != Kind::Test) {
            draft.offer(kind, Rank::Task, &format!("tox -e {name}"), location(&path, section.line));
        }
    }
}

fn nox(tree: &Tree<'_>, draft: &mut Draft) {
    let path = join(&draft.root, "noxfile.py");
    if !tree.has(&path) {
        return;
    }
    let text = tree.text(&path).unwrap_or_default();
    let mut session = false;
    for (line, number) in text.lines().zip(1..) {
        if line.starts_with("@nox.session") || line.starts_with("@session") {
            session = true;
        } else if let Some(rest) = line.strip_prefix("def ").filter(|_| session) {
            session = false;
            let name = rest.split('(').next().unwrap_or_default().trim();
            if let Some(kind) = Kind::of_task(name) {
                draft.offer(kind, Rank::Task, &format!("nox -s {name}"), location(&path, number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_kit::inventory::Inventory;
    use act_kit::testing::Files;

    #[test]
    fn targets_have_lines_needs_and_recipes_and_talking_is_not_acting() {
        let text = "CC := gcc\n.PHONY: test\nbuild: main.c\n\tgcc a:b\ntest check: build\n\t./run\n\
                    lie:\n\t@echo all tests passed\n\t@exit 0\n%.o: %.c\nlast: ; pytest\n";
        let files = Files::of(&[("Makefile", text)]);
        let inventory = Inventory::of(&files).unwrap();
        let makefile = makefile(&Tree::new(&files, &inventory), "").unwrap();
        let names = makefile.targets.iter().map(|target| (target.name.as_str(), target.line));
        assert_eq!(
            names.collect::<Vec<_>>(),
            [("build", 3), ("test", 5), ("check", 5), ("lie", 7), ("last", 11)]
        );
        assert_eq!(makefile.target("check").unwrap().recipe, [("./run".to_owned(), 6)]);
        assert!(!makefile.target("lie").unwrap().acts() && makefile.target("last").unwrap().acts());
        assert!(makefile.open);
    }
}
