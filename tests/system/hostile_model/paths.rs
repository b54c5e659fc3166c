//! Names that are protected, guarded or none, by every route that writes.

use std::fs;

use serde_json::{Value, json};

use super::{by_every_route, denied, fingerprint, tree};
use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::tool_answers::{answers, reason, reasons, refused};
use crate::harness::{Act, image};

/// Security lines 51 and 52: git's files, the gate and our own are out of reach by every route; the model
/// hears so and the loop goes on to a green run.
#[test]
fn protected_names_are_refused_by_every_route_and_the_loop_goes_on() {
    let paths = [
        ".git/hooks/pre-commit",
        ".git/config",
        "x/../.git/HEAD",
        "sub/.git/hooks/x",
        ".git./hooks/x",
        ".git /hooks/x",
        "git~1/hooks/x",
        "sub/.git::$INDEX_ALLOCATION/x",
        ".g\u{200d}it/hooks/x",
        "agent.yaml",
        "agent.yaml::$DATA",
        "./agent.yaml",
        "AGENT.YAML",
        "agent/x",
    ];
    let hostile: Vec<Value> = paths.into_iter().flat_map(by_every_route).collect();
    let count = hostile.len();
    let turns =
        opening("obey").into_iter().chain(hostile).chain(attempt("right\n")).chain([done()]);
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file("sub/.git/HEAD", "ref: x\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let before = fingerprint(&act.repo().join(".git"));
    let nested = fingerprint(&act.repo().join("sub"));
    let gate = fs::read(act.repo().join("agent.yaml")).unwrap();
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    assert_eq!(fingerprint(&told.repo().join(".git")), before);
    assert_eq!(fingerprint(&told.repo().join("sub")), nested);
    assert_eq!(fs::read(told.repo().join("agent.yaml")).unwrap(), gate);
    assert!(!told.repo().join("agent/x").exists() && !told.repo().join("moved.txt").exists());
    let reasons = reasons(&told);
    assert_eq!(reasons.len(), count, "{reasons:?}");
    assert!(
        reasons.iter().filter(|reason| *reason == "protected").count() >= count / 2,
        "{reasons:?}"
    );
    // EDITOR-14: every refusal is counted, under the rule that the model saw.
    let told_counts: u64 =
        refused(&told).as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(told_counts, count as u64, "{}", refused(&told));
    assert_eq!(denied(&told), refused(&told));
}

/// Security line 52, WORKSPACE-54: where the user's own directories would lie in the repository, nothing is written there,
/// so that no command and no grant appears that the next run would obey.
#[test]
fn what_this_program_believes_is_out_of_reach_before_it_exists() {
    let paths = ["act/anchor", "act/grants.toml", "ACT/anchor", "act"];
    let hostile: Vec<Value> = paths.into_iter().flat_map(by_every_route).collect();
    let turns =
        opening("obey").into_iter().chain(hostile).chain(attempt("right\n")).chain([done()]);
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let configuration = act.repo();
    let act = act.env("XDG_CONFIG_HOME", configuration);
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    assert!(!told.repo().join("act").exists() && !told.repo().join("ACT").exists(), "{told}");
    // A file that is searched before it is written does not exist.
    let reasons = reasons(&told);
    assert_eq!(reasons.len(), paths.len() * 8, "{reasons:?}");
    let count = |word: &str| reasons.iter().filter(|reason| *reason == word).count();
    assert!(count("protected") >= paths.len() * 2, "{reasons:?}");
    assert_eq!(count("protected") + count("not_found"), reasons.len(), "{reasons:?}");
}

/// Security line 55: what editors, agents and hooks obey is refused by every route.
#[test]
fn guarded_names_are_refused_by_every_route_and_the_loop_goes_on() {
    let paths = [
        ".vscode/settings.json",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".envrc",
        ".husky/pre-commit",
        ".mcp.json",
        ".claude/settings.json",
        ".cursor/mcp.json",
        ".cUrSoR/mcp.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".devcontainer/devcontainer.json",
        ".gitmodules",
        ".gitmodules .",
        "GITMOD~1",
        ".gitattributes",
        ".github/workflows/ci.yml",
        "sub/.bashrc",
        "packages/a/agent.yaml",
    ];
    let hostile: Vec<Value> = paths.into_iter().flat_map(by_every_route).collect();
    let count = hostile.len();
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file(".vscode/settings.json", "{}\n")
        .file(".envrc", "true\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let mut expected = tree(&act.repo());
    // Thirty calls in each turn keep the script short.
    let calls: Vec<Value> = hostile.iter().map(|turn| turn["call"].clone()).collect();
    let hostile = calls.chunks(30).map(|calls| json!({"role": "editor", "calls": calls}));
    let turns =
        opening("obey").into_iter().chain(hostile).chain(attempt("right\n")).chain([done()]);
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    expected.insert("answer.txt".to_owned(), "right\n".to_owned());
    expected.insert(".gitignore".to_owned(), "/agent/\n".to_owned());
    assert_eq!(tree(&told.repo()), expected);
    let reasons = reasons(&told);
    assert_eq!(reasons.len(), count, "{reasons:?}");
    let guarded = reasons.iter().filter(|reason| *reason == "guarded").count();
    assert_eq!(refused(&told)["guarded"], guarded);
    assert_eq!(denied(&told), refused(&told));
    assert!(guarded >= count - paths.len(), "{reasons:?}");
}

/// Security line 55: with the user's permission for that path, it is written, and named in the summary.
#[test]
fn a_guarded_path_that_the_user_allowed_is_written_and_named() {
    let turns = opening("obey")
        .into_iter()
        .chain([
            call("create", json!({"path": ".vscode/settings.json", "content": "{}\n"})),
            call("create", json!({"path": ".vscode/tasks.json", "content": "owned\n"})),
            call("create", json!({"path": "agent.yaml.d/../agent.yaml", "content": "owned\n"})),
            call("create", json!({"path": ".git/hooks/x", "content": "owned\n"})),
        ])
        .chain(attempt("right\n"))
        .chain([done()]);
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")])
        .script(&script(turns));
    let allow = ["--allow-path", ".vscode/settings.json", "--allow-path", ".git/**"];
    let arguments = ["run", "write the answer"].into_iter().chain(allow);
    let told = act.act(arguments).status(0).script_used_up();
    assert_eq!(told.read(".vscode/settings.json"), "{}\n");
    assert!(!told.repo().join(".vscode/tasks.json").exists());
    assert!(!told.repo().join(".git/hooks").exists());
    assert_eq!(reasons(&told), ["guarded", "outside_repo", "protected"]);
    let summary = told.read("agent/summary.md");
    let named = "## Guarded, and allowed for this task\n\n- `.vscode/settings.json`\n";
    assert!(summary.contains(named), "{summary}");
}

/// Security line 60: a path that is none says why.
#[test]
fn paths_that_are_none_are_refused() {
    let long = "x".repeat(5000);
    let paths = ["/etc/passwd", "../x", "a/../../x", "", ".", "a\0b", &long, "a/", "a\\b"];
    let hostile = paths.map(|path| call("create", json!({"path": path, "content": "owned"})));
    let turns =
        opening("obey").into_iter().chain(hostile).chain(attempt("right\n")).chain([done()]);
    let told = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")])
        .script(&script(turns))
        .run("write the answer")
        .status(0)
        .script_used_up();
    let answers = answers(&told);
    let why: Vec<_> = answers.iter().filter(|answer| reason(answer).is_some()).collect();
    let expected = [
        ("outside_repo", "absolute"),
        ("outside_repo", ".."),
        ("outside_repo", ".."),
        ("not_a_file", "empty"),
        ("not_a_file", "the root"),
        ("bad_arguments", "NUL"),
        ("bad_arguments", "4096 bytes"),
        ("not_a_file", "ends with /"),
        ("bad_arguments", "backslash"),
    ];
    assert_eq!(why.len(), expected.len(), "{why:?}");
    for (answer, (word, message)) in why.iter().zip(expected) {
        assert_eq!(reason(answer), Some(word), "{answer}");
        assert!(answer.contains(message), "{answer}");
    }
    let mut left: Vec<_> = fs::read_dir(told.repo())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, [".git", ".gitignore", "agent", "agent.yaml", "answer.txt"]);
}

/// Security line 63, WORKSPACE-70: the user took the permission to write away, and an edit that replaces files would not notice.
#[test]
fn a_file_without_write_permission_is_read_only_by_every_route() {
    use std::os::unix::fs::PermissionsExt;
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file("locked.txt", "as it is\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let locked = act.repo().join("locked.txt");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o444)).unwrap();
    let version = json!("{{last_version}}");
    let edits = [
        call(
            "full_rewrite",
            json!({"path": "locked.txt", "expect_version": version, "content": "x"}),
        ),
        call("delete", json!({"path": "locked.txt", "expect_version": version})),
        call("move", json!({"from": "locked.txt", "to": "b.txt", "expect_version": version})),
    ];
    let read = || call("read", json!({"path": "locked.txt"}));
    let hostile = edits.into_iter().flat_map(|edit| [read(), edit]);
    let turns =
        opening("obey").into_iter().chain(hostile).chain(attempt("right\n")).chain([done()]);
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    assert_eq!(told.read("locked.txt"), "as it is\n");
    assert!(!told.repo().join("b.txt").exists());
    assert_eq!(refused(&told), json!({"protected": 3}));
    let answer = &answers(&told)[2];
    assert!(
        answer.starts_with("protected: read_only: ") && answer.contains("chmod u+w"),
        "{answer}"
    );
}
