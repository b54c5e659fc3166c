//! Finds the places that a line of a log names, and the frames of stack traces.

/// Maximum number of places in one line of a log.
const MAX_PER_LINE: usize = 8;

/// Parts of paths to third-party code and to standard libraries.
const ELSEWHERE: [&str; 18] = [
    "site-packages/",
    "dist-packages/",
    "node_modules/",
    "/usr/",
    "/rustc/",
    ".cargo/registry/",
    "/lib/python",
    "/go/pkg/mod/",
    "/.m2/",
    "/.pyenv/",
    "/rustlib/",
    "/.rustup/",
    "node:",
    "internal/",
    "<frozen",
    "<anonymous>",
    "/opt/",
    "<string>",
];

/// Returns whether a path belongs to installed packages or to a standard library, never to a repository.
pub fn is_elsewhere(path: &str) -> bool {
    ELSEWHERE.iter().any(|part| match *part {
        // A repository may have a directory `internal`; node prints its own as `internal/…` or `node:internal/…`.
        "internal/" => path.starts_with(part),
        part => path.contains(part),
    })
}

/// Returns paths with lines: `a.py:3`, `a.ts(3,5)`, `File "a.py", line 3`, `A.java:[3,5]`, `a.c:3:5`.
pub fn mentions(line: &str) -> Vec<(String, u32)> {
    let mut out = Vec::new();
    if let Some((_, rest)) = line.split_once("File \"")
        && let Some((path, rest)) = rest.split_once("\", line ")
    {
        out.push((path.to_owned(), leading(rest)));
    }
    // `run.sh: 1: ruff: not found`, `run.sh: line 1: ruff: command not found`.
    if let Some((path, rest)) = line.split_once(": ")
        && !path.contains(' ')
        && is_path(path)
        && let Some((number, _)) = rest.trim_start_matches("line ").split_once(':')
        && let Ok(number) = number.parse()
    {
        out.push((path.to_owned(), number));
    }
    let line = line.replace(":[", ":").replace("File \"", " ");
    let between = |c: char| c.is_whitespace() || "\"'`[]{}<>,;=|".contains(c);
    for word in line.split(between) {
        if out.len() >= MAX_PER_LINE {
            break;
        }
        // `(src/a.js:3:5)` and `at f(A.java:3)`, but also `a.ts(3`.
        for part in word.split('(') {
            let part = part.trim_end_matches([')', ':', '.']);
            let mut rest = part;
            while let Some((path, tail)) = rest.split_once(':') {
                let line = leading(tail);
                if line > 0 && is_path(path) {
                    out.push((path.to_owned(), line));
                    break;
                }
                rest = if path == "file" && tail.starts_with("//") { &tail[2..] } else { "" };
            }
        }
        if let Some((path, rest)) = word.split_once('(')
            && leading(rest) > 0
            && is_path(path)
        {
            out.push((path.to_owned(), leading(rest)));
        }
    }
    out
}

fn is_path(word: &str) -> bool {
    word.contains(['.', '/']) || word.to_lowercase().ends_with("file")
}

fn leading(text: &str) -> u32 {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Returns the place of a stack frame, or of the line on which a tool names the place of an error.
pub(super) fn frame(line: &str) -> Option<(String, u32)> {
    // pytest marks the lines of an error with `E`.
    let text = line.strip_prefix("E ").unwrap_or(line).trim_start();
    let marked = ["at ", "❯ ", "File \"", "--> ", "from ", "# ./"];
    let is_frame = marked.iter().any(|mark| text.starts_with(mark))
        || text.contains("panicked at ")
        || begins_with_place(text)
        || ends_with_place(text)
        || text.contains(": Assertion")
        || text.starts_with("Assertion failed");
    is_frame.then(|| mentions(text).into_iter().find(|(_, line)| *line > 0)).flatten()
}

/// Returns whether a line begins as `a.py:3: `, `a_test.go:3: ` or `/src/a.go:3 +0x1d`.
pub(super) fn begins_with_place(text: &str) -> bool {
    let word = text.split(char::is_whitespace).next().unwrap_or_default();
    let path = word.split([':', '(']).next().unwrap_or_default();
    let behind = word.get(path.len() + 1..).unwrap_or_default();
    path.contains('.') && !path.contains(['"', '\'', '=', '[']) && leading(behind) > 0
}

/// Returns whether a line ends as `total (src/a.js:3:5)` or is nothing but a place.
fn ends_with_place(text: &str) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let inner = word.strip_prefix('(').and_then(|word| word.strip_suffix(')'));
    inner.is_some_and(|inner| {
        inner.rsplit(':').next().is_some_and(|number| leading(number) > 0) && inner.contains('.')
    })
}

/// Returns whether a line belongs to the stack of a standard library, of a test runner or of an installed package.
pub(super) fn is_foreign_frame(line: &str) -> bool {
    let text = line.trim_start();
    let is_frame = text.starts_with("at ") || text.starts_with("❯ ") || text.starts_with("File \"");
    // `at TestContext.<anonymous> (/workspace/a.js:3:5)` is a function without a name in a file of the repository.
    let place = text.rsplit_once('(').map_or(text, |(_, place)| place);
    if is_frame && is_elsewhere(place) {
        return true;
    }
    if text.starts_with("at ") && !text.contains(['/', '\\']) {
        // `at Array.reduce (<anonymous>)`, `at org.junit.Assert.fail(Assert.java:89)`.
        const RUNNERS: [&str; 8] = [
            "org.junit.",
            "java.base/",
            "java.",
            "jdk.",
            "sun.",
            "org.gradle.",
            "org.apache.maven.",
            "async Promise",
        ];
        return RUNNERS.iter().any(|start| text[3..].starts_with(start));
    }
    // Python before 3.11 and pytest print `/usr/lib/python3/ast.py:50: in parse`, Go `\t/usr/lib/go/src/a.go:3 +0x2`.
    begins_with_place(text)
        && is_elsewhere(text.split(char::is_whitespace).next().unwrap_or_default())
}

/// Returns whether a line names a function of Rust's standard library in a backtrace: `   3: core::panicking::panic_fmt`.
pub(super) fn is_std_symbol(line: &str) -> bool {
    let Some((number, symbol)) = line.trim_start().split_once(": ") else { return false };
    const STD: [&str; 12] = [
        "std::",
        "core::",
        "alloc::",
        "test::",
        "<core::",
        "<std::",
        "<alloc::",
        "rust_begin_unwind",
        "__rust",
        "<&mut ",
        "main",
        "_start",
    ];
    number.parse::<u32>().is_ok()
        && line.starts_with(' ')
        && (STD.iter().any(|start| symbol.starts_with(start))
            || symbol.ends_with("::{{closure}}::{{closure}}")
            || symbol.contains("as core::ops::function::Fn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_known_by_their_shape() {
        for (line, place) in [
            ("  File \"/w/a.py\", line 3, in f", Some(("/w/a.py", 3))),
            ("E     File \"/w/conftest.py\", line 4", Some(("/w/conftest.py", 4))),
            ("tests/a.py:14: ", Some(("tests/a.py", 14))),
            ("src/a.py:11: in total", Some(("src/a.py", 11))),
            ("thread 'a' (20720) panicked at src/lib.rs:4:24:", Some(("src/lib.rs", 4))),
            ("             at ./src/lib.rs:8:30", Some(("./src/lib.rs", 8))),
            ("\t/workspace/price/price.go:10 +0x1d", Some(("/workspace/price/price.go", 10))),
            ("        price_test.go:12: Show(0)", Some(("price_test.go", 12))),
            ("      at total (price.js:3:18)", Some(("price.js", 3))),
            ("    total (/w/price.js:3:18)", Some(("/w/price.js", 3))),
            (" ❯ total price.js:3:18", Some(("price.js", 3))),
            ("\tat shop.Price.total(Price.java:5)", Some(("Price.java", 5))),
            ("t: test_ini.c:14: main: Assertion `x' failed.", Some(("test_ini.c", 14))),
            ("E   assert -900 == 90.0", None),
            ("amount = 100, percent = 10", None),
            ("at 10:30 the clock", None),
        ] {
            let found = frame(line);
            assert_eq!(found.as_ref().map(|(p, l)| (p.as_str(), *l)), place, "{line}");
        }
    }

    #[test]
    fn frames_of_toolchains_are_foreign() {
        for line in [
            "             at /rustc/5980/library/std/src/panicking.rs:689:5",
            "      at Test.run (node:internal/test_runner/test:796:25)",
            "/root/.pyenv/versions/3.11.7/lib/python3.11/ast.py:50: in parse",
            "\t/usr/lib/go-1.19/src/testing/testing.go:1399 +0x39f",
            "\tat org.junit.Assert.fail(Assert.java:89)",
            "      at Array.reduce (<anonymous>)",
            "    at resolve (/w/node_modules/jest-config/build/index.js:2596:11)",
        ] {
            assert!(is_foreign_frame(line), "{line}");
        }
        for line in [
            "      at total (price.js:3:18)",
            "      at TestContext.<anonymous> (/workspace/a.test.js:3:18)",
            "\tat shop.Price.total(Price.java:5)",
            "src/a.py:3: in f",
        ] {
            assert!(!is_foreign_frame(line), "{line}");
        }
        assert!(is_std_symbol("   1: core::panicking::panic_fmt"));
        assert!(!is_std_symbol("   4: shop::parse"));
    }
}
