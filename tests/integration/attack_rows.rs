//! `scripts/attacks`, which checks the table of attacks, on small checkouts with one fault each.

use std::path::Path;
use std::process::Command;

use act_core::testing::{checkout, skip};

const HEAD: &str = "| line | attack or fault | behaviour | tests |\n| --- | --- | --- | --- |\n";
const SOURCE: &str = r#"
    fn no_test() {}

    #[test]
    fn a_test_that_passes() {}

    #[tokio::test]
    async fn an_awaited_test() {}

    #[test]
    #[ignore = "slow"]
    fn a_test_that_is_ignored() {}
"#;
const LOG: &str = "\
test inner::tests::a_test_that_passes ... ok
test an_awaited_test ... FAILED
test inner::a_test_that_is_ignored ... ignored, slow
";

/// Runs the script on a checkout with one row, and returns whether it accepts the row, and its output.
fn judged(tests: &str, ran: bool, skipped: &str) -> (bool, String) {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "specs/attacks.md",
        &format!("{HEAD}| 1 | an attack with `code` | refused | {tests} |\n"),
    );
    write("host/src/lib.rs", SOURCE);
    write("scripts/drill", "");
    write("log", LOG);
    write("skipped", skipped);
    let mut command = Command::new(checkout().join("scripts/attacks"));
    command.arg("--root").arg(root.path());
    if ran {
        command.arg("--ran").args([root.path().join("log"), root.path().join("skipped")]);
    }
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_row_of_the_attacks_needs_a_test_that_exists_is_not_ignored_and_passed() {
    if !std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|directory| Path::new(&directory).join("python3").exists())
    {
        return skip("python3 is missing");
    }
    let accepted = |tests, ran, skipped| {
        let (accepted, output) = judged(tests, ran, skipped);
        assert!(accepted, "{tests}: {output}");
        output
    };
    let refused = |tests, ran, why: &str| {
        let (accepted, output) = judged(tests, ran, "");
        assert!(!accepted, "{tests}: {output}");
        assert!(
            output.contains("attacks.md:3: row 1 ") && output.contains(why),
            "{tests}: {output}"
        );
    };
    accepted("`a_test_that_passes`, `an_awaited_test`, `scripts/drill`", false, "");
    accepted("`a_test_that_passes`", true, "");
    refused("none yet", false, "names no test");
    refused("`no_test`", false, "names no_test, and no test has that name");
    refused("`a_test_that_passes`, `a_test_that_moved`", false, "names a_test_that_moved");
    refused("`scripts/gone`", false, "names scripts/gone, which does not exist");
    refused("`a_test_that_is_ignored`", false, "which is ignored");
    refused("`an_awaited_test`", true, "which did not pass: FAILED");
    refused("`a_test_that_passes` | more", true, "has 5 of 4 columns");
    let output =
        accepted("`an_awaited_test`", true, "17\tskipped: inner::an_awaited_test: no disk\n");
    assert!(output.contains("an_awaited_test was skipped on this machine"), "{output}");
}
