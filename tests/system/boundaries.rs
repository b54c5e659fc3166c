//! Where a task may write: the package of a monorepo, and the paths that its `Boundaries:` name.

use crate::harness::script::{call, done, opening, script};
use crate::harness::{Act, image};
use serde_json::{Value, json};

use crate::harness::tool_answers::{answers, refused};

/// Two packages with the same files; the pipeline runs in `packages/core`.
fn monorepo() -> Act {
    let yaml = json!({
        "verification": {
            "container_image": image(),
            "steps": [{"name": "test", "command": "grep -qx right answer.txt"}],
        },
        "monorepo": {"package": "packages/core"},
    });
    Act::new().file("agent.yaml", yaml.to_string()).files(&[
        ("answer.txt", "root\n"),
        ("Cargo.lock", "lock\n"),
        ("packages/core/answer.txt", "none\n"),
        ("packages/core2/answer.txt", "two\n"),
        ("packages/other/answer.txt", "other\n"),
    ])
}

fn write(path: &str, content: &str) -> Value {
    call("full_rewrite", json!({"path": path, "expect_version": 1, "content": content}))
}

/// EDITOR-15
#[test]
fn list_and_search_mean_the_package_unless_a_place_is_named() {
    let turns = opening("write it").into_iter().chain([
        call("list", json!({})),
        call("list", json!({"path": "packages/other"})),
        call("list", json!({"path": "."})),
        call("search", json!({"pattern": "."})),
        call("search", json!({"pattern": ".", "glob": "*.txt"})),
        call("search", json!({"pattern": ".", "glob": "packages/other/**"})),
        write("packages/core/answer.txt", "right\n"),
        call("verify", json!({})),
        done(),
    ]);
    let told = monorepo().script(&script(turns)).run("write the answer").status(0);
    let answers = answers(&told.script_used_up());
    assert_eq!(answers[1], "packages/core/answer.txt");
    assert_eq!(answers[2], "packages/other/answer.txt");
    assert!(answers[3].lines().count() >= 5, "{}", answers[3]);
    let files = |at: usize| {
        let headers = answers[at].lines().filter_map(|line| line.split_once(" · version "));
        headers.map(|(path, _)| path).collect::<Vec<_>>()
    };
    assert_eq!(files(4), ["packages/core/answer.txt"]);
    assert_eq!(files(5), ["packages/core/answer.txt"]);
    assert_eq!(files(6), ["packages/other/answer.txt"]);
}

/// WORKSPACE-37: outside the package nothing is written, by any route, unless the user named the path.
#[test]
fn writes_outside_the_package_are_refused_and_the_loop_goes_on() {
    let turns = opening("write it").into_iter().chain([
        write("packages/other/answer.txt", "owned\n"),
        write("packages/core2/answer.txt", "owned\n"),
        write("answer.txt", "owned\n"),
        call("create", json!({"path": "new.txt", "content": "owned\n"})),
        call("delete", json!({"path": "answer.txt", "expect_version": 1})),
        call("move", json!({"from": "packages/core/answer.txt", "to": "x", "expect_version": 1})),
        call("move", json!({"from": "answer.txt", "to": "packages/core/x", "expect_version": 1})),
        write("Cargo.lock", "new lock\n"),
        write("packages/core/answer.txt", "right\n"),
        call("verify", json!({})),
        done(),
    ]);
    let act = monorepo().script(&script(turns));
    let told = act.act(["run", "write the answer", "--allow-path", "/Cargo.lock"]).status(0);
    let told = told.script_used_up();
    for (path, content) in [
        ("answer.txt", "root\n"),
        ("Cargo.lock", "new lock\n"),
        ("packages/core/answer.txt", "right\n"),
        ("packages/core2/answer.txt", "two\n"),
        ("packages/other/answer.txt", "other\n"),
    ] {
        assert_eq!(told.read(path), content, "{path}");
    }
    assert!(!told.repo().join("new.txt").exists() && !told.repo().join("x").exists());
    assert_eq!(refused(&told), json!({"boundary": 7}));
    let first = told.requests_of("editor")[0].body.to_string();
    assert!(first.contains("Scope: the package `packages/core`"), "{first}");
}

/// WORKSPACE-21, TASK-5: boundaries that are paths hold by every route; a sentence is for the model alone.
#[test]
fn boundaries_that_name_paths_are_held() {
    let turns = opening("write it").into_iter().chain([
        write("docs/a.md", "owned\n"),
        call("create", json!({"path": "docs/b.md", "content": "owned\n"})),
        call("delete", json!({"path": "docs/a.md", "expect_version": 1})),
        call("move", json!({"from": "docs/a.md", "to": "answer.md", "expect_version": 1})),
        call("move", json!({"from": "answer.txt", "to": "docs/x", "expect_version": 1})),
        call("create", json!({"path": ".envrc", "content": "owned\n"})),
        write("answer.txt", "right\n"),
        call("verify", json!({})),
        done(),
    ]);
    let act = Act::new()
        .files(&[("answer.txt", "none\n"), ("docs/a.md", "mine\n")])
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let text = "write the answer\n\nBoundaries:\n- answer.*\n- leave docs/a.md alone\n";
    let act = act.script(&script(turns));
    let told = act.act(["run", text, "--allow-path", ".envrc"]).status(0).script_used_up();
    assert_eq!(told.read("docs/a.md"), "mine\n");
    assert_eq!(told.read("answer.txt"), "right\n");
    for path in ["docs/b.md", "docs/x", "answer.md", ".envrc"] {
        assert!(!told.repo().join(path).exists(), "{path}");
    }
    assert_eq!(refused(&told), json!({"boundary": 6}));
}

/// TASK-5, TASK-8: a bare name that is there, and a list, name paths; the echo says which are held to.
#[test]
fn names_that_are_there_and_lists_of_paths_are_boundaries() {
    let turns = opening("write it").into_iter().chain([
        write("docs/a.md", "owned\n"),
        call("create", json!({"path": "other/b.md", "content": "owned\n"})),
        write("src/a.txt", "ours\n"),
        write("lib/a.txt", "ours\n"),
        write("answer.txt", "right\n"),
        call("verify", json!({})),
        done(),
    ]);
    let files =
        [("answer.txt", "none\n"), ("docs/a.md", "mine\n"), ("src/a.txt", "-"), ("lib/a.txt", "-")];
    let act = Act::new().files(&files).pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let text = "write the answer\n\nBoundaries:\n- src\n- lib/, `answer.txt`\n- performance\n";
    let told = act.script(&script(turns)).run(text).status(0).script_used_up();
    let told = told.stderr_has("\n- src (enforced)\n- lib/, `answer.txt` (enforced)\n").stderr_has(
        "\n- performance (not enforced: no path found in it; passed to the model as text)\n",
    );
    assert_eq!(
        (told.read("docs/a.md"), told.read("src/a.txt")),
        ("mine\n".into(), "ours\n".into())
    );
    assert_eq!(told.read("lib/a.txt"), "ours\n");
    assert_eq!(refused(&told), json!({"boundary": 2}));
    let summary = told.read("agent/summary.md");
    assert!(
        summary.contains("## Boundaries that were not enforced\n\n- `performance`\n"),
        "{summary}"
    );
}

/// TASK-5: a list with a name that is not there yet, words around a path, and what is to be left alone.
#[test]
fn boundaries_are_held_in_the_words_of_users() {
    let create = |path: &str| call("create", json!({"path": path, "content": "new\n"}));
    let opened = || {
        Act::new()
            .files(&[("answer.txt", "none\n"), ("src/a.txt", "-"), ("docs/a.md", "mine\n")])
            .pipeline(image(), &[("test", "grep -qx right answer.txt")])
    };
    for (boundary, outcomes) in [
        ("src, tests, answer.txt", [true, true, false]),
        ("only `src/` and answer.txt", [true, false, false]),
        ("!docs/", [true, true, false]),
        ("do not touch docs/ or tests/", [true, false, false]),
        ("newdir", [true, true, true]),
    ] {
        let paths = ["src/b.txt", "tests/b.txt", "docs/b.txt"];
        let turns = opening("write it").into_iter().chain(paths.map(create)).chain([
            self::write("answer.txt", "right\n"),
            call("verify", json!({})),
            done(),
        ]);
        let text = format!("write the answer\n\nBoundaries:\n- {boundary}\n");
        let told = opened().script(&script(turns)).run(&text).status(0).script_used_up();
        let mark = if boundary == "newdir" { "not enforced" } else { "enforced)" };
        let told = told.stderr_has(&format!("\n- {boundary} ({mark}"));
        let made = paths.map(|path| told.repo().join(path).exists());
        assert_eq!(made, outcomes, "{boundary}");
    }
}

/// TASK-5: a boundary that names a path in other words refuses the task, with the spelling that is enforced.
#[test]
fn a_boundary_that_could_mean_its_opposite_refuses_the_task() {
    let act = Act::new()
        .files(&[("answer.txt", "none\n"), ("docs/a.md", "mine\n")])
        .pipeline(image(), &[("test", "true")]);
    for boundary in ["docs/ is off limits", "docs/\n  stays as it is", "nothing outside docs"] {
        let text = format!("write the answer\n\nBoundaries:\n- {boundary}\n");
        let told = act.clone().script("turns: []").run(&text).status(1);
        told.stderr_has("cannot enforce").stderr_has("`!docs").stderr_has("Constraints:");
    }
    let told = act
        .script("turns: []")
        .act(["run", "--json", "x\n\nBoundaries:\n- keep docs/\n"])
        .status(1);
    told.stdout_has("\"code\":\"boundary_unclear\"");
}

/// TASK-5: a name that is there means that very file, in a package the package's; not every one of that name.
#[test]
fn a_boundary_that_is_there_is_that_very_thing() {
    let turns = opening("write it").into_iter().chain([
        call("create", json!({"path": "packages/core/sub/answer.txt", "content": "owned\n"})),
        write("answer.txt", "owned\n"),
        write("packages/core/answer.txt", "right\n"),
        call("verify", json!({})),
        done(),
    ]);
    let text = "write the answer\n\nBoundaries:\n- only answer.txt\n";
    let act = monorepo().script(&script(turns));
    let told = act.act(["run", text, "--allow-path", "/answer.txt"]).status(0).script_used_up();
    assert_eq!(
        (told.read("answer.txt"), refused(&told)),
        ("root\n".into(), json!({"boundary": 2}))
    );
    assert!(!told.repo().join("packages/core/sub").exists());
}

/// WORKSPACE-7, EDITOR-36: what earlier tasks left in `agent/` is no source of this one, whatever git ignores.
#[test]
fn no_tool_sees_what_earlier_tasks_left() {
    let turns = opening("write it").into_iter().chain([
        call("list", json!({})),
        call("search", json!({"pattern": "zebra"})),
        call("read", json!({"path": "agent/stuck_report.md"})),
        call("list", json!({"path": "agent"})),
        write("answer.txt", "right\n"),
        call("verify", json!({})),
        done(),
    ]);
    let act = Act::new()
        .files(&[("answer.txt", "none\n"), ("agent/stuck_report.md", "zebra: run this\n")])
        .files(&[("notes.txt", "zebra\n"), (".gitignore", "!agent/\n")])
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    let answers = answers(&told);
    assert!(!answers[1].contains("agent/"), "{}", answers[1]);
    assert_eq!(answers[2], "notes.txt · version 1\n1| zebra");
    for at in [3, 4] {
        assert!(answers[at].starts_with("not_found: "), "{}", answers[at]);
    }
    let told_scouts = told.requests().into_iter().filter(|request| request.role != "editor");
    assert!(
        told_scouts.into_iter().all(|request| !request.body.to_string().contains("zebra: run"))
    );
}
