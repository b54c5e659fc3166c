//! `act components call`: an approved tool runs with its grants, in the record, and changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{approve, components, need, packed, scout, sha256_of, without_engine};
use crate::harness::{Act, Done};

/// Packs and approves the component of ordinary functions with these needs.
fn ordinary(act: &Act, needs: &[Value], more: &[&str]) -> PathBuf {
    let from = Path::new(act_component::builtin::TEST_COMPONENTS).join("foreign.wasm");
    let path = act.repo().parent().unwrap().join("ordinary.wasm");
    fs::copy(from, &path).unwrap();
    let manifest = json!({"kind": "tool", "name": "ordinary", "version": "1", "about": "Functions.",
        "needs": needs});
    let file = path.with_file_name("ordinary.json");
    fs::write(&file, manifest.to_string()).unwrap();
    let words = ["pack", path.to_str().unwrap(), "--manifest", file.to_str().unwrap()];
    act.clone().act(components(words)).status(0);
    approve(act, &path, "ordinary", more).status(0);
    path
}

fn call(act: &Act, tool: &str, arguments: &str) -> Done {
    act.clone().act(components(["call", "ordinary", tool, arguments, "--json"]))
}

// CAPABILITY-52
#[test]
fn security_line_304_a_called_tool_edits_a_copy_and_the_call_is_on_record() {
    let act = without_engine().file("a.txt", "before\n");
    let path = ordinary(&act, &[need("repo.read"), need("repo.write")], &[]);
    let told = call(&act, "files_write", r#"{"path": "/repo/a.txt", "text": "after\n"}"#).status(0);
    let document = told.document("components-call");
    assert_eq!(document["would_change"], json!(["a.txt"]), "{document:#}");
    assert_eq!(document["sha256"], sha256_of(&path));
    assert!(document["answer"].as_str().unwrap().contains("edited a.txt"), "{document:#}");
    assert_eq!(fs::read_to_string(act.repo().join("a.txt")).unwrap(), "before\n");
    let told = act.clone().act(components([
        "call",
        "ordinary",
        "files_read",
        r#"{"path":"/repo/a.txt"}"#,
    ]));
    assert_eq!(told.status(0).stdout_text(), "before\n");
    let queries: Vec<_> =
        act.audit_records().into_iter().filter(|record| record["event"] == "query").collect();
    let objects: Vec<_> = queries.iter().map(|record| record["object"].clone()).collect();
    assert_eq!(objects, ["files_write", "files_read"], "{queries:#?}");
    // What a task may not write, the copy refuses as well.
    let told = call(&act, "files_write", r#"{"path": "/repo/agent/x", "text": "x"}"#).status(1);
    assert_eq!(told.json()["is_error"], true, "{told}");
}

/// A component that exports one function under three names: `greet`, `cabi-realloc`, and `init` in an instance `exports`, as
/// componentize-py does. Nothing else can be exported under the names of a runtime: `_initialize`, `_start` and `cabi_realloc`
/// are names of core modules, which a component cannot have.
fn with_exports_of_a_runtime() -> Vec<u8> {
    let section = |id: u8, content: &[u8]| [&[id, content.len() as u8], content].concat();
    let named = |name: &str| [&[0, name.len() as u8], name.as_bytes()].concat();
    // `(module (func (export "f")))`
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 0, 0]),
        section(3, &[1, 0]),
        section(7, &[1, 1, b'f', 0, 0]),
        section(10, &[1, 2, 0, 0x0b]),
    ];
    let export = |name: &str, sort: u8| [named(name), vec![sort, 0, 0]].concat();
    [
        b"\0asm\x0d\0\x01\0".to_vec(),
        section(1, &module.concat()),
        section(2, &[1, 0, 0, 0]),
        // `f` of the module's instance, as a function of the component without parameters and result.
        section(6, &[1, 0, 0, 1, 0, 1, b'f']),
        section(7, &[1, 0x40, 0, 1, 0]),
        section(8, &[1, 0, 0, 0, 0, 0]),
        section(5, &[&[1, 1, 1], named("init").as_slice(), &[1, 0]].concat()),
        section(
            11,
            &[vec![3], export("greet", 1), export("cabi-realloc", 1), export("exports", 5)]
                .concat(),
        ),
    ]
    .concat()
}

// FOREIGN-3
#[test]
fn functions_that_a_toolchain_exports_for_itself_are_no_tools() {
    let act = without_engine();
    let path = act.repo().parent().unwrap().join("runtime.wasm");
    fs::write(&path, with_exports_of_a_runtime()).unwrap();
    let told = act.clone().act(components(["inspect", path.to_str().unwrap(), "--json"])).status(0);
    let document = told.document("components-inspect");
    assert_eq!(document["tools"], json!(["greet"]), "{document:#}");
    let left_out: Vec<_> = document["left_out"].as_array().unwrap().iter().collect();
    let functions: Vec<_> = left_out.iter().map(|one| one["function"].as_str().unwrap()).collect();
    assert_eq!(functions, ["cabi-realloc", "exports#init"], "{document:#}");
    assert!(
        left_out.iter().all(|one| one["why"].as_str().unwrap().contains("belongs to the runtime")),
        "{document:#}"
    );
    approve(&act, &path, "ordinary", &[]).status(0);
    call(&act, "greet", "{}").status(0);
    for tool in ["exports_init", "init", "exports#init", "cabi_realloc", "_initialize"] {
        let refusal = call(&act, tool, "{}").status(1).json();
        assert_eq!(refusal["code"], "unknown_tool", "{tool}: {refusal:#}");
    }
}

// CAPABILITY-52
#[test]
fn each_mistake_of_a_call_has_an_error_of_its_own() {
    let act = without_engine();
    let asked = |name: &str, tool: &str, arguments: &str| {
        let told = act.clone().act(components(["call", name, tool, arguments, "--json"])).status(1);
        let refused = told.json();
        assert!(refused["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{refused}");
        refused["code"].as_str().unwrap().to_owned()
    };
    assert_eq!(asked("ordinary", "files_read", "{}"), "component_unknown");
    ordinary(&act, &[need("repo.read")], &[]);
    let scout = packed(&act, "../x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &scout, "probe", &[]).status(0);
    assert_eq!(asked("ordinary", "files_read", "path=a"), "bad_arguments");
    assert_eq!(asked("ordinary", "files_read", r#"{"path":1}"#), "bad_arguments");
    assert_eq!(asked("ordinary", "files_read", r#"{"path":"a","b":1}"#), "bad_arguments");
    assert_eq!(asked("ordinary", "no_such_tool", "{}"), "unknown_tool");
    assert_eq!(asked("probe", "files_read", "{}"), "component_conflict");
    act.clone().act(components(["revoke", "ordinary"])).status(0);
    assert_eq!(asked("ordinary", "files_read", r#"{"path":"a"}"#), "component_not_in_force");
}

// CAPABILITY-52
#[test]
fn a_call_has_the_grants_of_the_approval_and_no_others() {
    let act = without_engine().file("a.txt", "text\n");
    ordinary(&act, &[need("repo.read"), need("repo.write")], &["--without", "repo.write"]);
    let told = call(&act, "files_write", r#"{"path": "/repo/a.txt", "text": "x"}"#).status(1);
    assert_eq!(told.json()["would_change"], json!([]), "{told}");
    ordinary(&act, &[], &["--anew"]);
    let told = call(&act, "files_read", r#"{"path": "/repo/a.txt"}"#).status(1);
    assert!(!told.stdout_text().contains("text\\n"), "{told}");
}

// CAPABILITY-52, CLI-60
#[test]
fn a_call_that_traps_has_its_own_exit_code_and_hint() {
    let act = without_engine();
    ordinary(&act, &[need("repo.read"), need("repo.write")], &[]);
    let told =
        call(&act, "files_write_and_trap", r#"{"path": "/repo/b.txt", "text": "x"}"#).status(4);
    let failed = told.json();
    assert_eq!(failed["code"], "tool_failed", "{failed}");
    assert!(failed["message"].as_str().unwrap().contains("trapped"), "{failed}");
    assert!(failed["hint"].as_str().unwrap().contains("fault of the component"), "{failed}");
    assert!(!act.repo().join("b.txt").exists());
}

// CAPABILITY-21, CAPABILITY-18
#[test]
fn an_approval_grants_few_tokens_and_a_minute_unless_the_user_says_more() {
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[need("llm")]));
    let granted = |more: &[&str]| {
        let words = [&["--json"], more].concat();
        let told = approve(&act, &path, "probe", &words).status(0).json();
        let grants = &told["component"]["grants"];
        (grants["llm"]["tokens"].as_u64().unwrap(), grants["limits"]["wall_ms"].as_u64().unwrap())
    };
    assert_eq!(granted(&[]), (100_000, 60_000));
    assert_eq!(granted(&["--tokens", "500000", "--seconds", "600"]), (500_000, 600_000));
    assert_eq!(granted(&[]), (100_000, 60_000), "each approval says it anew");
    approve(&act, &path, "probe", &["--tokens", "0"]).status(2);
    approve(&act, &path, "probe", &["--seconds", "3601"]).status(2);
    let path = packed(&act, "y.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "other", &["--tokens", "5"]).status(2).stderr_has("does not need `llm`");
}

// CAPABILITY-22
#[test]
fn a_manifest_with_an_unknown_grant_is_not_packed() {
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    let before = fs::read(&path).unwrap();
    let file = act.repo().parent().unwrap().join("manifest.json");
    for unknown in ["repo.reed", "sockets"] {
        fs::write(&file, scout("1", &[need(unknown)]).to_string()).unwrap();
        let words = ["pack", path.to_str().unwrap(), "--manifest", file.to_str().unwrap()];
        let told = act.clone().act(components(words)).status(1);
        told.stderr_has(&format!("`{unknown}` is not a grant")).stderr_has("`repo.read`");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

// CAPABILITY-4
#[test]
fn an_unknown_import_is_found_before_anything_is_compiled() {
    let act = without_engine();
    // The body of the function in the module is no code: a compiler would refuse it first.
    let (import, body) = ("made:up/thing", [0, 0xff]);
    let name = [&[0, import.len() as u8], import.as_bytes()].concat();
    let section = |id: u8, content: &[u8]| [&[id, content.len() as u8], content].concat();
    let module = [
        b"\0asm\x01\0\0\0".as_slice(),
        &section(1, &[1, 0x60, 0, 0]),
        &section(3, &[1, 0]),
        &section(10, &[&[1, 3], body.as_slice(), &[0x0b]].concat()),
    ]
    .concat();
    let bare = [
        b"\0asm\x0d\0\x01\0".as_slice(),
        &section(7, &[1, 0x42, 0]),
        &section(10, &[&[1], name.as_slice(), &[5, 0]].concat()),
        &section(1, &module),
    ]
    .concat();
    let manifest = scout("1", &[]).to_string();
    let path = act.repo().join("x.wasm");
    fs::write(&path, act_component::custom_section::pack(&bare, manifest.as_bytes())).unwrap();
    let told = approve(&act, &path, "probe", &[]).status(1);
    told.stderr_has("imports or exports made:up/thing");
}

// CAPABILITY-53
#[test]
fn a_local_origin_is_named_literally_for_one_repository_and_shown() {
    let act = without_engine();
    let origin = "http://127.0.0.1:8080";
    let http =
        json!({"grant": "http", "why": "to ask", "origins": [origin, "http://localhost:8080"]});
    let mut manifest = scout("1", &[http]);
    manifest["name"] = "caller".into();
    let path = packed(&act, "../x.wasm", &manifest);
    let approve = |more: &[&str]| approve(&act, &path, "probe", more);
    approve(&["--allow-local", origin]).status(2).stderr_has("--here");
    for (wrong, says) in [
        ("http://localhost:8080", "loopback address"),
        ("http://10.0.0.1:8080", "loopback address"),
        ("http://127.0.0.1:8081", "does not need that origin"),
    ] {
        approve(&["--here", "--allow-local", wrong]).status(2).stderr_has(says);
    }
    let told = approve(&["--here", "--allow-local", origin]).status(0);
    let told = told.stderr_has("http://127.0.0.1:8080 is on this machine");
    told.stdout_has("on this machine: http://127.0.0.1:8080")
        .stderr_has("localhost:8080 is not public");
    let why = |object: &str, status| {
        act.clone().act(components(["why", "probe", object, "--json"])).status(status).json()
    };
    assert_eq!(why(origin, 0)["allowed"], true);
    assert_eq!(why("http://localhost:8080", 1)["carved_out"], "not_public");
    // The approval for one repository cannot be widened by hand.
    let file = super::grants(&act);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("local = [\"http://127.0.0.1:8080\"]"), "{text}");
    let lines = text.lines().filter(|line| !line.starts_with("repo = "));
    fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    act.clone()
        .act(components(["list"]))
        .status(1)
        .stderr_has("only an approval for one repository");
}
