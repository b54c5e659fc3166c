//! Components as their authors pack them and users approve them. The tests use the hostile component, which does what its
//! question says.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Act, Done};

const REPORT: &str = r#"{"type":["object","array"]}"#;

/// Packs a component as its author does, with this manifest.
pub(crate) fn packed(act: &Act, file: &str, manifest: &Value) -> PathBuf {
    let from = match (&manifest["kind"], &manifest["name"]) {
        (kind, _) if kind == "tool" => "hostile-tool.wasm",
        (_, name) if name == "caller" => "hostile-http.wasm",
        _ => "hostile.wasm",
    };
    let path = act.repo().join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::copy(Path::new(act_component::builtin::TEST_COMPONENTS).join(from), &path).unwrap();
    let written = act.repo().parent().unwrap().join("manifest.json");
    fs::write(&written, manifest.to_string()).unwrap();
    act.clone()
        .act([
            "components".into(),
            "pack".into(),
            path.clone().into_os_string(),
            "--manifest".into(),
            written.into(),
        ])
        .status(0);
    path
}

/// Packs a component as `act` of another version, or another program, could have done it: nothing is checked.
pub(crate) fn packed_unchecked(act: &Act, file: &str, manifest: &Value) -> PathBuf {
    let from = Path::new(act_component::builtin::TEST_COMPONENTS).join("hostile.wasm");
    let bare = fs::read(from).unwrap();
    let packed = act_component::custom_section::pack(&bare, manifest.to_string().as_bytes());
    let path = act.repo().join(file);
    fs::write(&path, packed).unwrap();
    path
}

pub(crate) fn need(grant: &str) -> Value {
    json!({"grant": grant, "why": "for a test"})
}

pub(crate) fn scout(version: &str, needs: &[Value]) -> Value {
    json!({"kind": "scout", "name": "hostile", "version": version, "about": "Does as it is told.",
        "needs": needs, "report": serde_json::from_str::<Value>(REPORT).unwrap()})
}

pub(crate) fn tool() -> Value {
    let parameters = json!({"type": "array", "items": {"type": "string"}});
    json!({"kind": "tool", "name": "hostile-tool", "version": "1", "about": "Tools.",
        "needs": [need("repo.read"), need("repo.write")],
        "tools": [{"name": "read", "description": "Reads.", "parameters": parameters}]})
}

pub(crate) fn sha256_of(path: &Path) -> String {
    act_workspace::digest(&fs::read(path).unwrap())
}

pub(crate) fn components<const N: usize>(arguments: [&str; N]) -> Vec<OsString> {
    std::iter::once("components").chain(arguments).map(OsString::from).collect()
}
pub(crate) fn approve(act: &Act, path: &Path, name: &str, more: &[&str]) -> Done {
    let sha256 = sha256_of(path);
    let mut arguments = components(["approve"]);
    arguments.push(path.into());
    for word in ["--name", name, "--sha256", &sha256].iter().chain(more) {
        arguments.push(word.into());
    }
    act.clone().act(arguments)
}

pub(crate) fn grants(act: &Act) -> PathBuf {
    act.repo().parent().unwrap().join("config/act/grants.toml")
}

/// Writes an `agent.yaml` that requests the component in `tools/x.wasm`.
pub(crate) fn asking(act: Act, more: &Value) -> (Act, PathBuf) {
    let path = packed(&act, "tools/x.wasm", &scout("1", &[need("repo.read")]));
    let mut request = json!({"name": "probe", "path": "tools/x.wasm", "sha256": sha256_of(&path), "kind": "scout"});
    for (key, value) in more.as_object().into_iter().flatten() {
        request[key] = value.clone();
    }
    let yaml = json!({
        "verification": {"container_image": "busybox:stable", "steps": [{"name": "test", "command": "true"}]},
        "components": [request],
    });
    (act.file("agent.yaml", yaml.to_string()), path)
}

pub(crate) fn without_engine() -> Act {
    Act::new().file("answer.txt", "none\n").without_engine()
}
