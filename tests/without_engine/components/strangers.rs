//! Components that were built to end the host, or to hold it: the bytes of a stranger cost a bounded amount of memory and
//! time, and the message names the limit.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{approve, components, listed, packed_unchecked, scout, sha256_of, without_engine};
use crate::harness::Act;

const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";
const EMPTY_MODULE: &[u8] = b"\0asm\x01\0\0\0";

fn number(mut value: usize) -> Vec<u8> {
    let mut bytes = vec![];
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id], number(content.len()).as_slice(), content].concat()
}

/// A component of some kilobytes whose types nest so deep.
fn nested(depth: usize) -> Vec<u8> {
    let content = [[1].as_slice(), &[0x42, 1, 1].repeat(depth), &[0x42, 0]].concat();
    [EMPTY, &section(7, &content)].concat()
}

/// The section of a module in which each function has this body.
fn module(functions: usize, body: &[u8]) -> Vec<u8> {
    let types = [1, 0x60, 0, 0];
    let declared = [number(functions), vec![0; functions]].concat();
    let one = [number(body.len() + 2), vec![0], body.to_vec(), vec![0x0b]].concat();
    let code = [number(functions), one.repeat(functions)].concat();
    let sections = [section(1, &types), section(3, &declared), section(10, &code)].concat();
    section(1, &[EMPTY_MODULE, &sections].concat())
}

fn written(act: &Act, name: &str, bytes: &[u8]) -> PathBuf {
    let path = act.repo().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// The refusal of each command that reads the file.
fn refusals(act: &Act, path: &Path) -> Vec<(String, String)> {
    let file = path.to_str().unwrap();
    let mut all = vec![];
    for arguments in [
        components(["inspect", file, "--json"]),
        components(["approve", file, "--name", "probe", "--json"]),
    ] {
        let told = act.clone().act(arguments).status(1).json();
        let word = |field: &str| told[field].as_str().unwrap().to_owned();
        all.push((word("code"), word("message")));
    }
    let told = act.clone().act(components(["test", file, "--json"])).status(1).json();
    let failed = told["checks"].as_array().unwrap().iter().find(|check| check["verdict"] == "fail");
    let failed = failed.unwrap_or_else(|| panic!("{told:#}"));
    all.push((
        failed["name"].as_str().unwrap().to_owned(),
        failed["reason"].as_str().unwrap().to_owned(),
    ));
    all
}

/// Asks for the file in `agent.yaml`, as a clone would.
fn asked_for(act: Act, file: &str) -> Act {
    let sha256 = sha256_of(&act.repo().join(file));
    let yaml = json!({
        "verification": {"container_image": "busybox:stable", "steps": [{"name": "test", "command": "true"}]},
        "components": [{"name": "probe", "path": file, "sha256": sha256, "kind": "scout"}],
    });
    act.file("agent.yaml", yaml.to_string())
}

// CAPABILITY-50
#[test]
fn security_line_300_types_that_nest_thousands_deep_are_refused_and_the_host_goes_on() {
    let act = without_engine();
    for depth in [100, 4_900, 1_000_000] {
        let path = written(&act, "x.wasm", &nested(depth));
        for (code, message) in refusals(&act, &path) {
            assert!(["component_over_limit", "component"].contains(&code.as_str()), "{code}");
            assert!(message.contains("nest more than 100 deep"), "{message}");
        }
        let act = asked_for(act.clone(), "x.wasm");
        let list = listed(&act);
        let all = list["components"].as_array().unwrap();
        let probe = all.iter().find(|one| one["name"] == "probe").unwrap();
        assert_eq!(probe["state"], "unapproved", "{list:#}");
        act.clone().act(components(["show", "probe"])).status(0).stdout_has("it cannot be loaded");
    }
}

// CAPABILITY-50
#[test]
fn security_line_301_a_million_functions_are_refused_before_they_are_read() {
    let act = without_engine();
    let bytes = [EMPTY, &module(1_000_000, &[])].concat();
    let path = written(&act, "x.wasm", &bytes);
    for (_, message) in refusals(&act, &path) {
        assert!(message.contains("more than 100000 functions"), "{message}");
    }
    let act = asked_for(act, "x.wasm");
    assert_eq!(super::state_of(&act, "probe"), "unapproved");
}

/// A component of ordinary functions, and beside them a module whose one function is huge.
fn huge_function() -> Vec<u8> {
    let foreign = Path::new(act_component::builtin::TEST_COMPONENTS).join("foreign.wasm");
    // `i32.const 1; drop`, which a compiler keeps in memory before it finds that nothing is left of it.
    let body = [0x41, 1, 0x1a].repeat(2_000_000);
    [fs::read(foreign).unwrap(), module(1, &body)].concat()
}

// CAPABILITY-50
#[test]
fn security_line_302_compiling_what_a_stranger_wrote_holds_no_more_memory_than_the_limit() {
    let act = without_engine().config_toml("[components]\ncheck_memory_mb = 512\n");
    // The limit is enough for an ordinary component.
    let ordinary = Path::new(act_component::builtin::TEST_COMPONENTS).join("foreign.wasm");
    let path = written(&act, "ordinary.wasm", &fs::read(ordinary).unwrap());
    approve(&act, &path, "ordinary", &[]).status(0);
    let path = written(&act, "x.wasm", &huge_function());
    let told = approve(&act, &path, "probe", &["--json"]).status(1).json();
    assert_eq!(told["code"], "component_over_limit", "{told}");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("more than 512 MiB of memory"), "{message}");
    assert!(message.contains("`check_memory_mb` of [components] in config.toml"), "{message}");
}

// CAPABILITY-51
#[test]
fn security_line_303_a_schema_that_would_be_validated_for_ever_is_refused() {
    let mut schema = json!({"$ref": "#/$defs/d0", "$defs": {"d13": {"type": "string"}}});
    for level in 0..13 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        schema["$defs"][format!("d{level}")] = json!({"allOf": vec![next; 10]});
    }
    let act = without_engine();
    let mut manifest = scout("1", &[]);
    manifest["report"] = schema;
    let path = packed_unchecked(&act, "x.wasm", &manifest);
    for (_, message) in refusals(&act, &path) {
        assert!(message.contains("more than 10000 of its parts"), "{message}");
    }
    let before = fs::read(&path).unwrap();
    let file = written(&act, "manifest.json", manifest.to_string().as_bytes());
    let words = ["pack", path.to_str().unwrap(), "--manifest", file.to_str().unwrap(), "--json"];
    let told: Value = act.clone().act(components(words)).status(1).json();
    assert_eq!(told["code"], "manifest_wrong", "{told}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

// CONFIG-62
#[test]
fn a_limit_outside_of_its_range_checks_nothing() {
    let act = without_engine();
    let path = written(&act, "x.wasm", &nested(3));
    for (text, says) in [
        ("check_seconds = 0", "`check_seconds` is a whole number from 1 to 3600"),
        ("check_memory_mb = 100", "`check_memory_mb` is a whole number from 256 to 65536"),
        ("check_files = 1", "unknown field"),
    ] {
        let act = act.clone().config_toml(&format!("[components]\n{text}\n"));
        let told = act.act(components(["inspect", path.to_str().unwrap()])).status(1);
        told.stderr_has(says);
    }
}
