//! The files of the repository: their names, their languages, and which of them a question seems to be about.

pub use act_reports::source::{is_test, language, name};

use crate::world::{Entry, Kind, Repository};
use std::collections::BTreeMap;

/// Maximum number of files and links that are listed, so that memory stays bounded.
const MOST_NAMES: usize = 100_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// Sorted by path.
    pub files: Vec<Entry>,
    /// Paths of links, sorted, whatever their targets are.
    pub links: Vec<String>,
    /// Whether there are more files or links, apart from those that `not_utf8` counts.
    pub truncated: bool,
    /// Number of names that are not UTF-8, so that they are not among `files` and `links`. A directory counts once.
    pub not_utf8: u64,
}

impl Inventory {
    pub fn of(repository: &dyn Repository) -> Result<Self, String> {
        let found = repository.list(MOST_NAMES)?;
        let (mut files, mut links) = (Vec::new(), Vec::new());
        for entry in found.items {
            match entry.kind {
                Kind::Link => links.push(entry.path),
                _ => files.push(entry),
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        links.sort();
        Ok(Self { files, links, truncated: found.truncated, not_utf8: found.not_utf8 })
    }

    pub fn has(&self, path: &str) -> bool {
        self.files.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok()
    }

    pub fn is_link(&self, path: &str) -> bool {
        self.links.binary_search_by(|link| link.as_str().cmp(path)).is_ok()
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.path.as_str())
    }

    /// Returns the languages with their numbers of files, most files first.
    pub fn languages(&self) -> Vec<(&'static str, usize)> {
        let mut counts = BTreeMap::new();
        for language in self.paths().filter_map(language) {
            *counts.entry(language).or_insert(0) += 1;
        }
        let mut counts = counts.into_iter().collect::<Vec<_>>();
        counts.sort_by_key(|(name, count)| (usize::MAX - count, *name));
        counts
    }

    /// Returns the files in which a program or a package starts, by the names that tools look for.
    pub fn entry_points(&self) -> Vec<String> {
        const NAMES: [&str; 12] = [
            "main.rs",
            "lib.rs",
            "main.go",
            "main.py",
            "__main__.py",
            "app.py",
            "manage.py",
            "index.js",
            "index.ts",
            "main.ts",
            "main.c",
            "Main.java",
        ];
        let entry = |path: &&str| {
            NAMES.contains(&name(path)) && path.matches('/').count() <= 3 && !is_test(path)
        };
        self.paths().filter(entry).take(12).map(str::to_owned).collect()
    }

    /// Describes the repository for a prompt: every path if they fit into `most` bytes, else directories with their numbers of
    /// files.
    pub fn outline(&self, most: usize) -> String {
        let languages = self.languages().into_iter().take(6);
        let languages =
            languages.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ");
        let more = if self.truncated { "at least " } else { "" };
        let mut out = format!("{more}{} files; {languages}\n", self.files.len());
        out.push_str(&self.unnamed().map(|unnamed| format!("{unnamed}\n")).unwrap_or_default());
        let all = self.files.iter().map(|file| format!("{} ({} bytes)\n", file.path, file.size));
        let all = all.collect::<String>();
        if all.len() <= most {
            out.push_str(&all);
            return out;
        }
        for depth in (1..=4).rev() {
            let mut directories = BTreeMap::<String, usize>::new();
            for path in self.paths() {
                *directories.entry(above(path, depth)).or_default() += 1;
            }
            let folded = directories.iter().map(|(name, count)| match count {
                1 => format!("{name}\n"),
                more => format!("{name} ({more} files)\n"),
            });
            let folded = folded.collect::<String>();
            if folded.len() <= most || depth == 1 {
                out.push_str(&crate::quoting::cut(&folded, most));
                break;
            }
        }
        out
    }

    /// Says how many names no path can name, if there are any.
    pub fn unnamed(&self) -> Option<String> {
        match self.not_utf8 {
            0 => None,
            1 => Some("1 name is not UTF-8, so it is not listed".to_owned()),
            more => Some(format!("{more} names are not UTF-8, so they are not listed")),
        }
    }

    /// Returns the files whose path shares words with the question, best first, with their scores.
    pub fn ranked(&self, question: &str) -> Vec<(&Entry, usize)> {
        let words = words(question);
        let score = |file: &Entry| {
            let path = file.path.to_lowercase();
            let stem = name(&path).split('.').next().unwrap_or_default().to_owned();
            let named = question.contains(&file.path) || question.contains(name(&file.path));
            let score = |word: &String| match () {
                () if *word == stem => 4,
                () if path.contains(word.as_str()) => 1,
                () => 0,
            };
            words.iter().map(score).sum::<usize>() + if named { 12 } else { 0 }
        };
        let mut ranked = self.files.iter().map(|file| (file, score(file))).collect::<Vec<_>>();
        ranked.retain(|(_, score)| *score > 0);
        ranked.sort_by(|(a, x), (b, y)| y.cmp(x).then(a.path.cmp(&b.path)));
        ranked
    }
}

/// Returns the words of a question that could be part of a name.
fn words(question: &str) -> Vec<String> {
    const COMMON: [&str; 24] = [
        "that", "this", "with", "from", "when", "what", "which", "where", "file", "files", "test",
        "tests", "code", "make", "should", "does", "have", "into", "there", "must", "change",
        "function", "error", "because",
    ];
    let split = question.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut words = split.map(str::to_lowercase).filter(|word| word.len() >= 3).collect::<Vec<_>>();
    words.retain(|word| !COMMON.contains(&word.as_str()));
    words.sort();
    words.dedup();
    words
}

/// Returns the words of a question that are written like identifiers. They are worth a search.
pub fn identifiers(question: &str) -> Vec<String> {
    let split = question.split(|c: char| !c.is_alphanumeric() && c != '_');
    let like_code = |word: &&str| {
        let inner_capital =
            word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
        word.len() >= 3
            && (word.trim_matches('_').contains('_') || inner_capital || called(question, word))
    };
    let mut found = split.filter(like_code).map(str::to_owned).collect::<Vec<_>>();
    found.sort();
    found.dedup();
    found.truncate(6);
    found
}

/// Returns whether the question writes a word as code: in backticks, or followed by `(`.
fn called(question: &str, word: &str) -> bool {
    question.contains(&format!("`{word}`")) || question.contains(&format!("{word}("))
}

fn above(path: &str, depth: usize) -> String {
    let mut parts = path.splitn(depth + 1, '/').collect::<Vec<_>>();
    if parts.len() > depth {
        parts.truncate(depth);
        return format!("{}/", parts.join("/"));
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(paths: &[&str]) -> Inventory {
        let mut files = paths
            .iter()
            .map(|path| Entry { path: (*path).to_owned(), kind: Kind::File, size: 10 })
            .collect::<Vec<_>>();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Inventory { files, links: vec![], truncated: false, not_utf8: 0 }
    }

    #[test]
    fn a_small_repository_is_named_whole_and_a_large_one_by_directories() {
        let small = inventory(&["src/main.rs", "README.md"]);
        assert_eq!(
            small.outline(200),
            "2 files; Rust 1\nREADME.md (10 bytes)\nsrc/main.rs (10 bytes)\n"
        );
        let many = (0..500).map(|n| format!("src/deep/d{}/f{n}.py", n % 100)).collect::<Vec<_>>();
        let many = inventory(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(many.outline(200), "500 files; Python 500\nsrc/deep/ (500 files)\n");
        // What was not listed may be links alone.
        let cut = Inventory { truncated: true, ..many };
        assert!(cut.outline(200).starts_with("at least 500 files; "));
        let odd = Inventory { not_utf8: 2, ..small };
        let shown = odd.outline(200);
        assert!(
            shown.starts_with("2 files; Rust 1\n2 names are not UTF-8, so they are not listed\n")
        );
    }

    #[test]
    fn files_that_the_question_names_come_first() {
        let inventory = inventory(&["src/parser.py", "src/price.py", "docs/price/list.md", "x.py"]);
        let ranked = inventory.ranked("Fix rounding of the price in src/parser.py");
        let paths = ranked.iter().map(|(file, _)| file.path.as_str()).collect::<Vec<_>>();
        assert_eq!(paths, ["src/parser.py", "src/price.py", "docs/price/list.md"]);
    }

    #[test]
    fn identifiers_are_words_written_like_code() {
        assert_eq!(
            identifiers("Why does parse_price() lose cents in `total`, PriceList and Fix?"),
            ["PriceList", "parse_price", "total"]
        );
    }

    #[test]
    fn entry_points_are_what_tools_look_for() {
        let inventory = inventory(&[
            "src/main.rs",
            "cmd/x/main.go",
            "a/b/c/d/e/index.js",
            "tests/main.rs",
            "x.rs",
        ]);
        assert_eq!(inventory.entry_points(), ["cmd/x/main.go", "src/main.rs"]);
    }
}
