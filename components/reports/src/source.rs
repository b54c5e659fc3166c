//! Judges a file by its path: the language in which it is written, and whether it is a test.
//!
//! Both are judged by names alone, because Scouts list up to 100,000 files and read few of them.

/// Source code by the extension of its file's name. The host parses those languages that [`PARSED`] names.
const LANGUAGES: [(&str, &str); 37] = [
    ("c", "C"),
    ("cc", "C++"),
    ("cjs", "JavaScript"),
    ("clj", "Clojure"),
    ("cpp", "C++"),
    ("cs", "C#"),
    ("cts", "TypeScript"),
    ("cxx", "C++"),
    ("dart", "Dart"),
    ("ex", "Elixir"),
    ("exs", "Elixir"),
    ("go", "Go"),
    ("h", "C"),
    ("hh", "C++"),
    ("hpp", "C++"),
    ("hs", "Haskell"),
    ("hxx", "C++"),
    ("java", "Java"),
    ("js", "JavaScript"),
    ("jsx", "JavaScript"),
    ("kt", "Kotlin"),
    ("lua", "Lua"),
    ("mjs", "JavaScript"),
    ("mts", "TypeScript"),
    ("php", "PHP"),
    ("pl", "Perl"),
    ("py", "Python"),
    ("pyi", "Python"),
    ("rb", "Ruby"),
    ("rs", "Rust"),
    ("scala", "Scala"),
    ("sh", "Shell"),
    ("sql", "SQL"),
    ("swift", "Swift"),
    ("ts", "TypeScript"),
    ("tsx", "TypeScript"),
    ("zig", "Zig"),
];

/// Languages that the host has a parser for: the name, and the word that `repo/symbols` has for it.
pub const PARSED: [(&str, &str); 8] = [
    ("C", "c"),
    ("C++", "cpp"),
    ("Go", "go"),
    ("Java", "java"),
    ("JavaScript", "javascript"),
    ("Python", "python"),
    ("Rust", "rust"),
    ("TypeScript", "typescript"),
];

/// Directories in which every file belongs to tests: tests, and what they read or compare with.
const TEST_DIRECTORIES: [&str; 8] =
    ["test", "tests", "__tests__", "__fixtures__", "__mocks__", "__snapshots__", "e2e", "testdata"];
/// Directories in which source code is tests. Many repositories keep documents in directories of these names.
const SPEC_DIRECTORIES: [&str; 2] = ["spec", "specs"];

/// Returns the last part of a path.
pub fn name(path: &str) -> &str {
    last_split(path, b'/').map_or(path, |(_, name)| name)
}

/// Returns the extension of a path's last part, without the dot.
pub fn extension(path: &str) -> Option<&str> {
    last_split(name(path), b'.').map(|(_, extension)| extension)
}

/// Returns the name of a file up to its first dot.
pub fn stem(name: &str) -> &str {
    let end = name.bytes().position(|byte| byte == b'.').unwrap_or(name.len());
    name.get(..end).unwrap_or(name)
}

/// Splits a path at the last of these ASCII characters. `str::rsplit_once` prepares each search for a long text, which takes
/// longer than this one, and a Scout splits each path of a repository several times.
pub fn last_split(path: &str, at: u8) -> Option<(&str, &str)> {
    let place = path.bytes().rposition(|byte| byte == at)?;
    Some((path.get(..place)?, path.get(place + 1..)?))
}

/// Returns the name of the language that a file is written in, or `None` when it is no source code. A header `.h` counts
/// as C; only a look into it can tell that it is C++.
pub fn language(path: &str) -> Option<&'static str> {
    let extension = extension(path)?;
    let found = LANGUAGES.binary_search_by(|(known, _)| known.cmp(&extension)).ok()?;
    Some(LANGUAGES[found].1)
}

/// Returns the name of the language that a parser calls `word`.
pub fn parsed_language(word: &str) -> Option<&'static str> {
    PARSED.iter().find(|(_, known)| *known == word).map(|(name, _)| *name)
}

/// Returns whether the host has a parser for the language of this name.
pub fn is_parsed(language: &str) -> bool {
    PARSED.iter().any(|(name, _)| *name == language)
}

/// Returns whether a path is a test or belongs to tests, by the customs of the languages: by its directory
/// (`tests/data.json`, `spec/cart.rb`, `__snapshots__/cart.snap`), or by its name (`test_cart.py`, `cart_test.go`, `cart.spec.ts`, `CartTest.java`).
/// A document below `specs/` is no test.
pub fn is_test(path: &str) -> bool {
    let (directory, name) = last_split(path, b'/').unwrap_or(("", path));
    Place::of(directory).is_test(name)
}

/// What a directory says about the files in it, so that it is looked at once for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    holds_tests: bool,
    holds_specs: bool,
}

impl Place {
    /// Looks at the names on the path of a directory.
    pub fn of(directory: &str) -> Self {
        let is_in = |directories: &[&str]| {
            let mut parts = directory.split('/');
            parts.any(|part| directories.iter().any(|known| part.eq_ignore_ascii_case(known)))
        };
        Self { holds_tests: is_in(&TEST_DIRECTORIES), holds_specs: is_in(&SPEC_DIRECTORIES) }
    }

    /// Returns whether a file of this name in the directory is a test, as [`is_test`] tells it.
    pub fn is_test(self, name: &str) -> bool {
        let stem = stem(name);
        // `flag_go1.21_test.go` has a version in its name.
        let whole_stem = last_split(name, b'.').map_or(name, |(stem, _)| stem);
        self.holds_tests
            || (self.holds_specs && language(name).is_some())
            || ["test", "tests", "conftest"].contains(&stem)
            || stem.starts_with("test_")
            || ["_test", "_tests", "_spec", "Test", "Tests"]
                .iter()
                .any(|end| stem.ends_with(end) || whole_stem.ends_with(end))
            || (whole_stem != stem && (name.contains(".test.") || name.contains(".spec.")))
    }
}

/// Kinds of files in the order in which a reader wants to see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Source code, and whatever else is neither a test nor a document, such as a configuration.
    Source,
    Test,
    Document,
}

/// Names, without their extension, of text files that people read. Programs read most other `.txt` files:
/// `requirements.txt`, `CMakeLists.txt`, `robots.txt`, a list of words.
const PROSE: [&str; 18] = [
    "authors",
    "changelog",
    "changes",
    "contributing",
    "contributors",
    "copying",
    "copyright",
    "credits",
    "faq",
    "history",
    "install",
    "license",
    "licence",
    "news",
    "notice",
    "readme",
    "thanks",
    "todo",
];
/// Directories whose text files people read, apart from those that begin with one of `DOCUMENT_INPUTS`.
const DOCUMENT_DIRECTORIES: [&str; 3] = ["doc", "docs", "documentation"];
/// The beginnings of text files that the builds of documents read.
const DOCUMENT_INPUTS: [&str; 5] =
    ["requirements", "constraints", "cmakelists", "robots", "spelling"];

/// Returns whether a file is prose: changing it changes no program, as far as its name says.
fn is_document(path: &str) -> bool {
    let (directory, name) = last_split(path, b'/').unwrap_or(("", path));
    let name = name.to_ascii_lowercase();
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    let below_documents = || {
        let is_input = DOCUMENT_INPUTS.iter().any(|input| stem.starts_with(input));
        let mut parts = directory.split('/');
        !is_input && parts.any(|part| DOCUMENT_DIRECTORIES.contains(&&*part.to_lowercase()))
    };
    match extension {
        "md" | "rst" | "adoc" => true,
        "txt" => PROSE.contains(&stem) || below_documents(),
        _ => false,
    }
}

/// Returns the kind of a file by its path.
pub fn kind(path: &str) -> Kind {
    match () {
        () if is_test(path) => Kind::Test,
        () if is_document(path) => Kind::Document,
        () => Kind::Source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_comes_before_tests_and_documents() {
        let mut paths = ["CHANGES.RST", "tests/data.txt", "src/a.py", "setup.cfg", "docs/a.md"];
        paths.sort_by_key(|path| kind(path));
        assert_eq!(paths, ["src/a.py", "setup.cfg", "tests/data.txt", "CHANGES.RST", "docs/a.md"]);
    }

    #[test]
    fn a_text_file_that_programs_read_is_no_document() {
        for path in ["README.txt", "docs/guide/first.txt", "pkg/LICENSE.txt", "a.MD", "doc/x.rst"] {
            assert_eq!(kind(path), Kind::Document, "{path}");
        }
        for path in [
            "requirements.txt",
            "requirements/dev.txt",
            "docs/requirements-dev.txt",
            "constraints.txt",
            "CMakeLists.txt",
            "docs/CMakeLists.txt",
            "web/robots.txt",
            "words.txt",
            "readme.txt.py",
        ] {
            assert_eq!(kind(path), Kind::Source, "{path}");
        }
    }

    #[test]
    fn tests_are_known_by_place_or_name() {
        for path in [
            "tests/a.rs",
            "test_a.py",
            "a_test.go",
            "src/a.test.ts",
            "src/__tests__/a.js",
            "x/FooTest.java",
            "x/FooTests.cs",
            "test.sh",
            "src/store/tests.rs",
            "src/store/open_tests.rs",
            "Tests/AppTests/Cart.swift",
            "e2e/login.ts",
            "pkg/testdata/input.json",
            "spec/foo_spec.rb",
            "spec/helper.rb",
            "specs/cart.ts",
            "web/foo.spec.ts",
            "lib/foo_spec.lua",
            "flag_go1.21_test.go",
            "src/__snapshots__/cart.test.js.snap",
            "pkg/conftest.py",
        ] {
            assert!(is_test(path), "{path}");
        }
        for path in [
            "src/contest.py",
            "latest.rs",
            "testing/a.rs",
            "specs/editor.md",
            "specs/schemas/run.json",
            "spec/openapi.yaml",
            "docs/spec",
        ] {
            assert!(!is_test(path), "{path}");
        }
    }

    #[test]
    fn languages_are_known_by_extension() {
        for (path, expected) in [
            ("src/a.rs", Some("Rust")),
            ("a.cjs", Some("JavaScript")),
            ("a.mts", Some("TypeScript")),
            ("a.cts", Some("TypeScript")),
            ("typings/a.pyi", Some("Python")),
            ("a.cxx", Some("C++")),
            ("a.hh", Some("C++")),
            ("a.hxx", Some("C++")),
            ("include.d/a", None),
            ("Makefile", None),
            ("a.md", None),
        ] {
            assert_eq!(language(path), expected, "{path}");
        }
    }

    #[test]
    fn every_parsed_language_has_files() {
        for (name, word) in PARSED {
            assert!(LANGUAGES.iter().any(|(_, language)| *language == name), "{name}");
            assert_eq!(parsed_language(word), Some(name));
        }
        assert!(LANGUAGES.is_sorted());
    }
}
