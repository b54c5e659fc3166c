//! Finds the changed files that the steps of a pipeline reach through scripts: a step runs `./test.sh`, which runs
//! `lib/check.sh`. The search looks for paths in texts and understands no language, so it may find more files than are run,
//! and it misses files that a program finds by itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use globset::GlobBuilder;

/// Returns the real path and the text of the file at a path of the repository, or `None` when no text file is there.
pub type Look<'a> = &'a dyn Fn(&str) -> Option<(String, String)>;

/// Bytes of a file that are searched; a script is rarely larger.
pub const MAX_SCRIPT: u64 = 256 << 10;
/// Files that are searched.
const MAX_SCRIPTS: usize = 256;
/// Bytes of all files that are searched.
const MAX_BYTES: usize = 4 << 20;
/// Files between a step and a file that is searched.
const MAX_DEPTH: usize = 8;
/// Paths that are compared with the changed files.
const MAX_TRIES: usize = 1_000_000;
/// Paths that are looked up on the disk.
const MAX_LOOKS: usize = 20_000;
/// Directories against which the names of one text are resolved. Each `cd` adds one for each of the others.
const MAX_PLACES: usize = 64;
/// Bytes of a path.
const MAX_PATH: usize = 4096;

/// Returns the paths of `changed` that a command names, directly or through scripts, and the scripts that tools such as
/// `make` read by themselves. `changed` has the known texts of each path; the steps run in `package`.
pub(super) fn reached(
    commands: &[&str],
    package: Option<&str>,
    changed: &BTreeMap<&str, Vec<&str>>,
    look: Look<'_>,
) -> BTreeSet<String> {
    let mut walk = Walk {
        changed,
        look,
        tries: 0,
        looks: 0,
        bytes: 0,
        seen: BTreeSet::new(),
        next: VecDeque::new(),
    };
    let places: Vec<String> =
        [Some(""), package].into_iter().flatten().map(str::to_owned).collect();
    for command in commands {
        walk.scan(command, &places, 0);
    }
    let mut read = 0;
    while let Some((path, depth)) = walk.next.pop_front() {
        if depth > MAX_DEPTH || read == MAX_SCRIPTS || walk.bytes > MAX_BYTES {
            break;
        }
        let known = changed.get(path.as_str()).into_iter().flatten();
        let mut texts: Vec<String> = known.map(|text| (*text).to_owned()).collect();
        if texts.is_empty() {
            texts.extend(look(&path).map(|(_, text)| text));
        }
        let texts: Vec<_> = texts.into_iter().filter(|text| is_script(&path, text)).collect();
        read += usize::from(!texts.is_empty());
        let mut around = places.clone();
        around.extend(path.rsplit_once('/').map(|(directory, _)| directory.to_owned()));
        for text in texts {
            walk.bytes += text.len();
            walk.scan(&commands_of(&path, &text), &around, depth);
        }
    }
    walk.seen.into_iter().filter(|path| changed.contains_key(path.as_str())).collect()
}

/// The search, breadth first from the commands.
struct Walk<'a> {
    changed: &'a BTreeMap<&'a str, Vec<&'a str>>,
    look: Look<'a>,
    tries: usize,
    looks: usize,
    bytes: usize,
    /// Every file that was found.
    seen: BTreeSet<String>,
    /// Files that are still to be searched, with their distance from a step.
    next: VecDeque<(String, usize)>,
}

impl Walk<'_> {
    /// Finds every file that a text names by a path from one of these directories.
    fn scan(&mut self, text: &str, places: &[String], depth: usize) {
        let words = words(text);
        let places = places_of(&words, places);
        let mut tried = BTreeSet::new();
        let mut before = "";
        for (after_variable, word) in words {
            // A bare word is a file only in a step's command or behind a program that runs files.
            let sure = depth == 0 || RUNNERS.contains(&before);
            if before == "-m" {
                let module = word.replace('.', "/");
                self.try_all(&format!("{module}.py"), &places, depth, true);
                self.try_all(&format!("{module}/__main__.py"), &places, depth, true);
            }
            before = word;
            let says_something = word.contains(char::is_alphanumeric);
            if !says_something || !tried.insert((after_variable, sure, word)) {
                continue;
            }
            for name in unasked(word) {
                self.try_all(name, &places, depth, true);
            }
            for path in ends(word, after_variable) {
                self.try_all(path, &places, depth, sure);
            }
        }
    }

    fn try_all(&mut self, path: &str, places: &BTreeSet<String>, depth: usize, sure: bool) {
        for place in places {
            self.tries += 1;
            if self.tries > MAX_TRIES {
                return;
            }
            if let Some(joined) = joined(place, path) {
                self.try_one(&joined, depth, sure || path.contains(['/', '.']));
            }
        }
    }

    /// Finds one path. A path that is not `likely` to be a file is not looked up on the disk.
    fn try_one(&mut self, path: &str, depth: usize, likely: bool) {
        if path.contains(['*', '?']) {
            let glob = GlobBuilder::new(path).literal_separator(true).build();
            let Ok(glob) = glob.map(|glob| glob.compile_matcher()) else { return };
            let found = self.changed.keys().filter(|path| glob.is_match(path));
            let found: Vec<_> = found.map(|path| (*path).to_owned()).collect();
            found.into_iter().for_each(|path| self.found(path, depth));
        } else if self.changed.contains_key(path) {
            self.found(path.to_owned(), depth);
        } else if likely && self.looks < MAX_LOOKS && !self.seen.contains(path) {
            self.looks += 1;
            if let Some((real, _)) = (self.look)(path) {
                self.found(real, depth);
            }
        }
    }

    fn found(&mut self, path: String, depth: usize) {
        if self.seen.insert(path.clone()) {
            self.next.push_back((path, depth + 1));
        }
    }
}

/// The given directories, and those to which the text changes from them.
fn places_of(words: &[(bool, &str)], from: &[String]) -> BTreeSet<String> {
    let mut places: BTreeSet<_> = from.iter().cloned().collect();
    for pair in words.windows(2) {
        if let [(_, "cd" | "-C" | "--directory" | "--prefix" | "--cwd"), (_, place)] = pair {
            let there: Vec<_> = places.iter().filter_map(|from| joined(from, place)).collect();
            places.extend(there.into_iter().take(MAX_PLACES.saturating_sub(places.len())));
        }
    }
    places
}

/// Joins a path to a directory. Returns `None` when the result leaves the repository or is too long.
fn joined(place: &str, path: &str) -> Option<String> {
    if place.len() + path.len() > MAX_PATH {
        return None;
    }
    let mut parts: Vec<&str> = vec![];
    for part in place.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            part => parts.push(part),
        }
    }
    (!path.starts_with('/') && !parts.is_empty() && !path.ends_with('/')).then(|| parts.join("/"))
}

/// Directories that are removed from the front of a path whose beginning is unknown.
const MAX_DROPPED: usize = 4;

/// The words of a text that may be part of a path, in order, each with whether a variable precedes it.
fn words(text: &str) -> Vec<(bool, &str)> {
    let part = |c: char| c.is_alphanumeric() || "._-/+@*?".contains(c);
    let mut words = vec![];
    let mut rest = text;
    let mut before = ' ';
    while let Some(start) = rest.find(part) {
        if let Some(c) = rest[..start].chars().next_back() {
            before = c;
        }
        let word = &rest[start..];
        let end = word.find(|c| !part(c)).unwrap_or(word.len());
        words.push((matches!(before, '$' | '}' | ')'), &word[..end]));
        rest = &word[end..];
        before = ' ';
    }
    words
}

/// A path, and where its beginning is a variable or absolute, the path without its first directories.
fn ends(word: &str, after_variable: bool) -> Vec<&str> {
    let mut ends = vec![word];
    if word.starts_with('/') || after_variable {
        let mut rest = word.trim_start_matches('/');
        ends.push(rest);
        for _ in 0..MAX_DROPPED {
            let Some((_, tail)) = rest.split_once('/') else { break };
            ends.push(tail);
            rest = tail;
        }
    }
    ends
}

/// Files that a program reads from its working directory by default.
fn unasked(program: &str) -> &'static [&'static str] {
    match program.rsplit('/').next().unwrap_or_default() {
        "make" | "gmake" => &["Makefile", "makefile", "GNUmakefile"],
        "npm" | "npx" | "pnpm" | "yarn" | "bun" => &["package.json"],
        "just" => &["justfile", "Justfile", ".justfile"],
        _ => &[],
    }
}

/// Programs and keywords that run the file named by the next word.
const RUNNERS: [&str; 12] = [
    ".", "source", "sh", "bash", "dash", "zsh", "ksh", "python", "python3", "ruby", "perl",
    "include",
];

/// Returns whether a text runs other files: a script of a shell, of a build tool or of a scripting language. Modules of a
/// program name each other too, but they are what is tested.
fn is_script(path: &str, text: &str) -> bool {
    const ENDS: [&str; 11] =
        ["sh", "bash", "zsh", "ksh", "bats", "mk", "mak", "just", "py", "rb", "pl"];
    let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
    let ending =
        name.rsplit_once('.').map(|(stem, ending)| if stem.is_empty() { "" } else { ending });
    text.starts_with("#!")
        || name == "package.json"
        || ending.is_none_or(|ending| ending.is_empty() || ENDS.contains(&ending))
}

/// The commands of a script. From `package.json` only its scripts count, because the rest names what is built.
fn commands_of(path: &str, text: &str) -> String {
    if path.rsplit('/').next() != Some("package.json") {
        return text.to_owned();
    }
    let read: Result<serde_json::Value, _> = serde_json::from_str(text);
    let scripts = read.ok().and_then(|read| read.get("scripts")?.as_object().cloned());
    let Some(scripts) = scripts else { return text.to_owned() };
    scripts.values().filter_map(|value| value.as_str()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the changed files are reached; files are `(path, text)`.
    fn of(
        commands: &[&str],
        package: Option<&str>,
        files: &[(&str, &str)],
        changed: &[&str],
    ) -> Vec<String> {
        let all: BTreeMap<&str, &str> = files.iter().copied().collect();
        let changed =
            changed.iter().map(|path| (*path, all.get(path).copied().into_iter().collect()));
        let look = |path: &str| Some((path.to_owned(), (*all.get(path)?).to_owned()));
        reached(commands, package, &changed.collect(), &look).into_iter().collect()
    }

    const NPM: &str = r#"{"main":"src/a.js","scripts":{"test":"node ci/check.js"}}"#;

    /// Returns whether a command reaches a changed file through a script. Without `there` the file was deleted.
    fn is_reached(command: &str, script: (&str, &str), path: &str, there: bool) -> bool {
        let files = [script, (path, "x")];
        !of(&[command], None, &files[..1 + usize::from(there)], &[path]).is_empty()
    }

    /// VERIFIER-31
    #[test]
    fn scripts_are_followed_to_what_they_run() {
        for (command, script, text, path) in [
            ("./test.sh", "test.sh", "sh lib/check.sh", "lib/check.sh"),
            ("sh test.sh", "test.sh", ". ./lib/check.sh", "lib/check.sh"),
            ("sh ci/run.sh", "ci/run.sh", "sh \"$(dirname \"$0\")/check.sh\"", "ci/check.sh"),
            ("sh ci/run.sh", "ci/run.sh", "exec \"$HERE/../lib/check\"", "lib/check"),
            ("sh ci/run.sh", "ci/run.sh", "sh ${ROOT}/lib/a/check.sh", "lib/a/check.sh"),
            ("sh run", "run", "for f in checks/*.sh; do sh $f; done", "checks/one.sh"),
            ("sh run", "run", "sh /workspace/lib/check.sh", "lib/check.sh"),
            ("sh run", "run", "check", "check"),
            ("run", "run", "sh next; x", "next"),
            ("sh run", "run", "cd tools && ./check.sh", "tools/check.sh"),
            ("make test", "Makefile", "include mk/rules.mk", "mk/rules.mk"),
            ("make -C sub test", "sub/Makefile", "test:\n\t./check.sh", "sub/check.sh"),
            ("npm test", "package.json", NPM, "ci/check.js"),
            ("just", "justfile", "test:\n  bash ci/check.sh", "ci/check.sh"),
            ("python a/b.py", "a/b.py", "run(['sh', 'lib/check.sh'])", "lib/check.sh"),
            ("sh run", "run", "python -m tools.check", "tools/check.py"),
            ("sh run", "run", "diff out data/expected.json", "data/expected.json"),
        ] {
            assert!(is_reached(command, (script, text), path, true), "{command}: {text}");
            // The command also reaches the file after its deletion.
            assert!(is_reached(command, (script, text), path, false), "{command}: {text}");
        }
        let chain =
            [("a.sh", "sh b.sh"), ("b.sh", "sh c/d.sh"), ("c/d.sh", "sh e.sh"), ("c/e.sh", "")];
        assert_eq!(of(&["sh a.sh"], None, &chain, &["c/e.sh", "b.sh"]), ["b.sh", "c/e.sh"]);
        // Scripts without an ending are found as well.
        let bare = [("run", "bash next"), ("next", "sh lib/x.sh"), ("lib/x.sh", "")];
        assert_eq!(of(&["run"], None, &bare, &["lib/x.sh"]), ["lib/x.sh"]);
        let package = [("pkg/test.sh", "sh lib/x.sh"), ("pkg/lib/x.sh", ""), ("lib/x.sh", "")];
        assert_eq!(of(&["sh test.sh"], Some("pkg"), &package, &["pkg/lib/x.sh"]), ["pkg/lib/x.sh"]);
    }

    /// VERIFIER-31
    #[test]
    fn what_no_step_names_is_not_reached() {
        for (command, script, text, path) in [
            ("sh test.sh", "other.sh", "sh lib/check.sh", "lib/check.sh"),
            ("sh test.sh", "test.sh", "sh lib/check.sh", "lib/other.sh"),
            ("sh test.sh", "test.sh", "sh ../../lib/check.sh", "check.sh"),
            ("npm test", "package.json", NPM, "src/a.js"),
            ("node src/a.js", "src/a.js", "import './b.js'", "src/b.js"),
        ] {
            assert!(!is_reached(command, (script, text), path, true), "{command}: {text}");
        }
    }

    /// VERIFIER-31: circles and heaps of names end.
    #[test]
    fn following_is_bounded() {
        let circle = [("a.sh", "sh b.sh"), ("b.sh", "sh a.sh; sh c.sh"), ("c.sh", "")];
        assert_eq!(of(&["sh a.sh"], None, &circle, &["c.sh"]), ["c.sh"]);
        let far: Vec<(String, String)> =
            (0..12).map(|n| (format!("s{n}.sh"), format!("sh s{}.sh", n + 1))).collect();
        let far: Vec<_> = far.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        assert_eq!(of(&["sh s0.sh"], None, &far, &["s8.sh", "s11.sh"]), ["s8.sh"]);
        let asked = std::cell::Cell::new(0);
        let look = |path: &str| {
            asked.set(asked.get() + 1);
            (path == "a.sh")
                .then(|| (path.to_owned(), (0..50_000).map(|n| format!("x/{n} ")).collect()))
        };
        reached(&["sh a.sh"], None, &BTreeMap::new(), &look);
        assert!(asked.get() <= MAX_LOOKS + MAX_SCRIPTS, "{}", asked.get());
        // Each of these may lead on from each of the others.
        let wander: String = (0..60).map(|n| format!("cd dir{n} && sh x{n}.sh\n")).collect();
        let files = [("a.sh", wander.as_str()), ("dir0/x0.sh", "")];
        assert_eq!(of(&["sh a.sh"], None, &files, &["dir0/x0.sh"]), ["dir0/x0.sh"]);
    }
}
