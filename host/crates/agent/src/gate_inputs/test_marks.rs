//! What stands in a file of tests: how many it declares, and how often it takes some out of a run. By the marks of the
//! usual frameworks; told, so a mark too many does no harm and one that is missing hides something.

use super::test_files::is_test_attribute;

/// Tests that a text declares, one to a line.
pub(super) fn declared(text: &str) -> usize {
    const STARTS: [&str; 17] = [
        "def test",
        "async def test",
        "func Test",
        "func Fuzz",
        "func Example",
        "@Test",
        "@ParameterizedTest",
        "it(",
        "it.each",
        "test(",
        "test.each",
        "Deno.test(",
        "TEST(",
        "TEST_F(",
        "TEST_P(",
        "TYPED_TEST(",
        "TEST_CASE(",
    ];
    let declares = |line: &&str| {
        let line = line.trim_start();
        STARTS.iter().any(|start| line.starts_with(start)) || is_test_attribute(line)
    };
    text.lines().filter(declares).count()
}

/// How often a text takes tests out of a run, or narrows it to some.
pub(super) fn skips(text: &str) -> usize {
    const MARKS: [&str; 41] = [
        "mark.skip",
        "mark.xfail",
        "pytest.skip(",
        "unittest.skip",
        "@skip(",
        "@skipIf(",
        "@skipUnless(",
        "self.skipTest(",
        "SkipTest",
        "expectedFailure",
        "collect_ignore",
        "it.skip(",
        "it.todo(",
        "it.only(",
        "test.skip(",
        "test.todo(",
        "test.only(",
        "test.fixme(",
        "describe.skip(",
        "describe.only(",
        "this.skip()",
        "t.skip(",
        "skip: true",
        "skip:true",
        "xit(",
        "xtest(",
        "xdescribe(",
        "fit(",
        "fdescribe(",
        "#[ignore",
        "#[cfg(any())]",
        "t.Skip(",
        "t.Skipf(",
        "t.SkipNow(",
        "b.Skip(",
        "//go:build ignore",
        "// +build ignore",
        "@Disabled",
        "@Ignore",
        "GTEST_SKIP",
        "DISABLED_",
    ];
    // `exit(` is not `xit(`, nor is `model.fit(` a `fit(`.
    let whole = |mark: &str, at: usize| {
        let joins = |c: char| {
            c.is_alphanumeric()
                || c == '_'
                || (c == '.' && mark.ends_with('(') && !mark.contains('.'))
        };
        !text[..at].ends_with(joins)
    };
    let count = |mark: &&str| text.match_indices(*mark).filter(|(at, _)| whole(mark, *at)).count();
    MARKS.iter().map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-31
    #[test]
    fn marks_are_whole_words_and_tests_are_counted_by_line() {
        for (text, count) in [
            ("from pytest import mark\n@mark.skip\ndef test(): ...", 1),
            ("raise SkipTest", 1),
            ("model.fit(x); process.exit(1)", 0),
            ("fit('one', f); t.skip('x')", 2),
            ("#[cfg(any())]\nmod tests {}", 1),
            ("TEST(A, DISABLED_b) {}", 1),
        ] {
            assert_eq!(skips(text), count, "{text}");
        }
        let text = "def test_a(): ...\n  it('b', f)\n#[tokio::test]\nfunc TestC(t *testing.T) {\nlet test = 1;\n";
        assert_eq!(declared(text), 4);
    }
}
