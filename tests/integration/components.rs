//! Loading components: what is checked before anything runs, the cache of compiled code, and the built-in
//! file tools at work.

use std::fs;

use act_component::{
    AdmissionError, ComponentHost, Grant, Kind, LoadError, NotAComponent, ScoutQuestion, Services,
    builtin, custom_section,
};
use act_core::event::{EventKind, Events};
use act_workspace::{RepoWriter, WriteRules};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::hostile::{
    Heard, PLENTY, Repository, attack, attack_as_tool, bytes, editing, host, load_with, nothing,
    packed, reading,
};

fn refused(bytes: &[u8]) -> LoadError {
    host().load(bytes, Grant::builtin_scout(), &Events::silent()).err().unwrap()
}

// security line 37
#[test]
fn security_line_37_what_is_no_component_is_refused_with_what_it_is() {
    let named = |bytes: &[u8]| match refused(bytes) {
        LoadError::NotAComponent(what) => what,
        other => panic!("{other}"),
    };
    let whole = packed("hostile", &[]);
    assert_eq!(named(b""), NotAComponent::Empty);
    assert_eq!(named(b"#!/bin/sh\nrm -rf /\n"), NotAComponent::Text);
    assert_eq!(named(b"\0asm\x01\0\0\0"), NotAComponent::CoreModule);
    assert!(matches!(named(&whole[..whole.len() - 1]), NotAComponent::Cut(_)));
    assert!(matches!(named(&whole[..whole.len() / 2]), NotAComponent::Cut(_)));
    assert_eq!(named(&bytes("hostile")), NotAComponent::NoManifest);
    let limits = act_component::Limits { wasm_bytes: 1000, ..Default::default() };
    let grant = Grant { limits, ..Grant::default() };
    let large = host().load(&whole, grant, &Events::silent()).err().unwrap();
    assert!(matches!(large, LoadError::NotAComponent(NotAComponent::TooLarge { limit: 1000, .. })));
}

#[test]
fn a_body_that_does_not_compile_is_refused() {
    // A component whose first section claims to be a type section and is not.
    let broken =
        custom_section::pack(b"\0asm\x0d\0\x01\0\x07\x01\xff", manifest("scout").as_bytes());
    assert!(matches!(refused(&broken), LoadError::Engine { .. }));
}

fn manifest(kind: &str) -> String {
    json!({ "kind": kind, "name": "small", "version": "1", "about": "Small.", "needs": [] })
        .to_string()
}

/// A component that imports an empty interface and exports nothing.
fn importing(interface: &str) -> Vec<u8> {
    let mut component = b"\0asm\x0d\0\x01\0".to_vec();
    component.extend([7, 3, 1, 0x42, 0]); // one type: an instance with no exports
    let name = interface.as_bytes();
    let length = u8::try_from(name.len()).unwrap();
    component.extend([10, length + 5, 1, 0, length]);
    component.extend(name);
    component.extend([5, 0]); // an instance of that type
    custom_section::pack(&component, manifest("scout").as_bytes())
}

// security line 27
#[test]
fn security_line_27_an_import_without_its_grant_is_refused_at_load() {
    for (import, grant) in
        [("wasi:sockets/tcp@0.2.0", "sockets"), ("wasi:http/outgoing-handler@0.2.0", "http")]
    {
        let shown = refused(&importing(import)).to_string();
        assert!(shown.contains(import) && shown.contains(&format!("`{grant}`")), "{shown}");
    }
    let edits = refused(&importing("agentcommand:repo/edit@1.5.0"));
    assert!(
        matches!(edits, LoadError::Refused { why: AdmissionError::ScoutThatEdits(_), .. }),
        "{edits}"
    );
    let unknown = refused(&importing("evil:shell/run@1.0.0"));
    assert!(
        matches!(&unknown, LoadError::Refused { why: AdmissionError::UnknownImport(import), .. } if import == "evil:shell/run@1.0.0"),
        "{unknown}"
    );
}

/// Returns the component as a toolchain builds it from interfaces of another version: only the names of imports differ.
fn built_against(from: &str, to: &str) -> Vec<u8> {
    let (component, changed) = renamed(packed("hostile", &["repo.read"]), from, to);
    assert!(changed > 0, "{from} is nowhere in it");
    component
}

/// Replaces a name everywhere in a component, and returns how often it occurred.
fn renamed(mut component: Vec<u8>, from: &str, to: &str) -> (Vec<u8>, usize) {
    assert_eq!(from.len(), to.len(), "names have a length in front");
    let mut at = 0;
    let mut changed = 0;
    while let Some(found) = component[at..].windows(from.len()).position(|w| w == from.as_bytes()) {
        component[at + found..at + found + to.len()].copy_from_slice(to.as_bytes());
        at += found + to.len();
        changed += 1;
    }
    (component, changed)
}

// COMPONENT-2
#[tokio::test]
async fn a_component_built_against_an_older_minor_version_still_runs() {
    let older = built_against("agentcommand:repo/read@1.5.0", "agentcommand:repo/read@1.0.0");
    let loaded = host().load(&older, Grant::builtin_scout(), &Events::silent()).unwrap();
    let loaded = loaded.into_scout().unwrap();
    assert!(loaded.imports.iter().any(|import| import == "agentcommand:repo/read@1.0.0"));
    let repository = Repository::new();
    let view = &repository.views()[0];
    let read = attack(&loaded, "batch-read", &["a.txt"], reading(view)).await.unwrap();
    assert_eq!(read["a.txt"]["ok"], "hello");
}

// COMPONENT-2
#[tokio::test]
async fn a_component_built_before_there_was_a_history_runs_unchanged() {
    // The tool imports neither the history nor anything else that is new.
    let manifest = json!({
        "kind": "tool", "name": "old", "version": "1", "about": "Old.",
        "needs": [{"grant": "repo.read", "why": "x"}, {"grant": "repo.write", "why": "x"}],
        "tools": [{"name": "attack", "description": "Old.", "parameters": {}}],
    });
    let mut bytes = custom_section::pack(&bytes("hostile-tool"), manifest.to_string().as_bytes());
    for interface in ["read", "symbols", "edit"] {
        let name = |version: &str| format!("agentcommand:repo/{interface}@{version}");
        bytes = renamed(bytes, &name("1.5.0"), &name("1.3.0")).0;
    }
    let loaded = host().load(&bytes, Grant::builtin_tool(), &Events::silent()).unwrap();
    let loaded = loaded.into_tool().unwrap();
    let imports = || loaded.imports.iter().filter(|import| import.starts_with("agentcommand:repo"));
    assert!(imports().count() > 0 && imports().all(|import| import.ends_with("@1.3.0")));
    let repository = Repository::new();
    let services = editing(&repository.writers()[0], Events::silent());
    let read = attack_as_tool(&loaded, "read", &["a.txt"], services).await;
    assert_eq!(read["a.txt"]["ok"], "hello");
}

// COMPONENT-2
#[tokio::test]
async fn a_component_built_before_names_were_counted_runs_unchanged() {
    // The scout lists, reads and asks for history, and calls nothing that is new in 1.5.0.
    let mut bytes = packed("hostile", &["repo.read", "repo.history"]);
    for interface in ["read", "symbols", "history"] {
        let name = |version: &str| format!("agentcommand:repo/{interface}@{version}");
        bytes = renamed(bytes, &name("1.5.0"), &name("1.4.0")).0;
    }
    let loaded = host().load(&bytes, Grant::builtin_scout(), &Events::silent()).unwrap();
    let loaded = loaded.into_scout().unwrap();
    let imports = || loaded.imports.iter().filter(|import| import.starts_with("agentcommand:repo"));
    assert!(imports().count() > 0 && imports().all(|import| import.ends_with("@1.4.0")));
    let repository = Repository::new();
    let view = &repository.views()[0];
    let read = attack(&loaded, "batch-read", &["a.txt"], reading(view)).await.unwrap();
    assert_eq!(read["a.txt"]["ok"], "hello");
}

// COMPONENT-3
#[test]
fn a_newer_minor_and_another_major_version_are_refused_with_both_versions() {
    for (from, to, code) in [
        ("agentcommand:repo/read@1.5.0", "agentcommand:repo/read@1.6.0", "interface_newer"),
        ("agentcommand:repo/read@1.5.0", "agentcommand:repo/read@2.0.0", "interface_foreign"),
        ("agentcommand:scout/scout@1.0.0", "agentcommand:scout/scout@1.1.0", "interface_newer"),
        ("agentcommand:scout/scout@1.0.0", "agentcommand:scout/scout@0.1.0", "interface_foreign"),
    ] {
        let error = refused(&built_against(from, to));
        assert_eq!(error.code(), code, "{error}");
        let ours = from.rsplit_once('@').unwrap().1.strip_suffix(".0").unwrap();
        let told = error.to_string();
        assert!(told.contains(to) && told.contains(&format!(" {ours}")), "{told}");
    }
}

#[test]
fn a_declared_need_that_was_not_granted_is_refused_at_load() {
    let refused = load_with(&["repo.read", "llm"], Grant { llm: None, ..Grant::builtin_scout() });
    let shown = refused.err().unwrap().to_string();
    assert!(shown.contains("agentcommand:model/chat@1.0.0") && shown.contains("`llm`"), "{shown}");
}

#[test]
fn the_kind_is_what_the_component_exports() {
    let as_tool = json!({
        "kind": "tool", "name": "hostile", "version": "1", "about": "Lies.", "needs": [],
        "tools": [{ "name": "x", "description": "X.", "parameters": {} }],
    });
    let lying = custom_section::pack(&bytes("hostile"), as_tool.to_string().as_bytes());
    assert!(matches!(refused(&lying), LoadError::WrongKind { kind: Kind::Tool, .. }));
}

#[test]
fn loading_tells_what_it_found() {
    let loaded = load_with(&["repo.read"], Grant::builtin_scout()).unwrap();
    assert_eq!(loaded.world, "agentcommand:worlds/scout@1.2.0");
    assert_eq!(loaded.sha256, act_workspace::digest(&packed("hostile", &["repo.read"])));
    assert!(loaded.imports.iter().any(|import| import == "agentcommand:repo/read@1.5.0"));
    assert_eq!(loaded.grant.llm, None, "granted but not declared");
}

// The tests beside the cache hold security line 43; this one checks that the cache is used, and reported when it is
// not.
#[test]
fn compiling_is_told_and_happens_once() {
    let temp = tempfile::tempdir().unwrap();
    let cache = temp.path().join("deep/code");
    let component = packed("hostile", &[]);
    let compiled = || {
        let heard = Heard::default();
        let host = ComponentHost::new(Some(&cache));
        host.load(&component, Grant::default(), &heard.events()).unwrap();
        heard
            .kinds()
            .iter()
            .filter(|kind| matches!(kind, EventKind::ComponentCompiled { .. }))
            .count()
    };
    assert_eq!((compiled(), compiled()), (1, 0));
    let file = fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    assert_eq!((compiled(), compiled()), (1, 0), "damaged: compiled again, and repaired");
}

#[tokio::test]
async fn a_host_that_cannot_keep_code_still_answers() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    for cache in [None, Some(file.join("code"))] {
        let host = ComponentHost::new(cache.as_deref());
        let loaded =
            host.load(&packed("hostile", &[]), Grant::default(), &Events::silent()).unwrap();
        let loaded = loaded.into_scout().unwrap();
        let question = ScoutQuestion { text: "remember".to_owned(), ..ScoutQuestion::default() };
        let never = CancellationToken::new();
        assert!(loaded.ask(question, nothing(), PLENTY, &never).await.is_ok());
    }
}

struct Tools {
    repository: Repository,
    writer: std::sync::Arc<RepoWriter>,
    loaded: act_component::ToolComponent,
    heard: Heard,
}

impl Tools {
    fn new() -> Self {
        let repository = Repository::new();
        let writer = RepoWriter::open(&repository.root(), WriteRules::default()).unwrap();
        let heard = Heard::default();
        let loaded =
            host().load(builtin::FILE_TOOLS.bytes, Grant::builtin_tool(), &heard.events()).unwrap();
        let loaded = loaded.into_tool().unwrap();
        Self { repository, writer: writer.into(), loaded, heard }
    }

    async fn call(&self, tool: &str, arguments: Value) -> String {
        let services = Services {
            view: Some(self.writer.view().clone()),
            versions: Some(self.writer.versions().clone()),
            writer: Some(self.writer.clone()),
            model: None,
            attempt: 1,
            events: self.heard.events(),
        };
        let never = CancellationToken::new();
        let outcome =
            self.loaded.call(tool, &arguments.to_string(), services, PLENTY, &never).await;
        outcome.unwrap().text
    }
}

#[tokio::test]
async fn the_file_tools_edit_what_they_read_and_nothing_that_is_protected() {
    let tools = Tools::new();
    assert_eq!(tools.loaded.world, "agentcommand:worlds/tool@1.2.0");
    let read = tools.call("read", json!({ "path": "a.txt" })).await;
    let expected = "a.txt · version 1 · lines 1-1 of 1 · no newline at the end\n1| hello";
    assert_eq!(read, expected);
    let edit = json!({ "path": "a.txt", "expect_version": 1, "old": "hello", "new": "goodbye" });
    let edited = tools.call("replace", edit.clone()).await;
    assert_eq!(edited, "edited a.txt · version 2 · 1 lines");
    assert_eq!(fs::read_to_string(tools.repository.root().join("a.txt")).unwrap(), "goodbye");
    let again = tools.call("replace", edit).await;
    assert!(again.starts_with("version_mismatch: "), "{again}");
    for (path, reason) in [
        (".git/hooks/post-commit", "protected"),
        ("agent.yaml", "protected"),
        ("agent/summary.md", "protected"),
        (".envrc", "guarded"),
        (".env.production", "excluded"),
        ("../outside/y", "outside_repo"),
    ] {
        let refused = tools.call("create", json!({ "path": path, "content": "x" })).await;
        assert!(refused.starts_with(&format!("{reason}: ")), "{path}: {refused}");
    }
    let edits: Vec<_> = tools
        .heard
        .kinds()
        .into_iter()
        .filter_map(|kind| match kind {
            EventKind::Edit { path, op, version, sha256_after, .. } => {
                Some((path, op, version, sha256_after))
            }
            _ => None,
        })
        .collect();
    let digest = act_workspace::digest(b"goodbye");
    assert_eq!(edits, [("a.txt".to_owned(), "replace".to_owned(), 2, Some(digest))]);
    let refusals = tools.heard.kinds();
    let reasons: Vec<_> = refusals
        .iter()
        .filter_map(|kind| match kind {
            EventKind::EditRefused { reason, .. } => Some(reason.as_str()),
            _ => None,
        })
        .collect();
    assert!(reasons.contains(&"protected") && reasons.contains(&"guarded"), "{reasons:?}");
}

#[tokio::test]
async fn a_listing_that_cannot_show_everything_says_so() {
    let tools = Tools::new();
    let listed = tools.call("list", json!({ "path": "sub" })).await;
    assert!(!listed.contains("there are more"), "{listed}");
    let deep = vec!["d"; 300].join("/");
    fs::create_dir_all(tools.repository.root().join("sub").join(deep)).unwrap();
    let listed = tools.call("list", json!({ "path": "sub" })).await;
    assert!(listed.ends_with("\n… there are more; list a directory of them"), "{listed}");
}

#[tokio::test]
async fn a_large_directory_behind_a_link_is_listed_by_its_real_names() {
    let tools = Tools::new();
    for n in 0..250 {
        fs::create_dir_all(tools.repository.root().join("sub/many")).unwrap();
        fs::write(tools.repository.root().join(format!("sub/many/{n}")), "").unwrap();
    }
    let listed = tools.call("list", json!({ "path": "linkdir" })).await;
    assert_eq!(listed, "sub/b.txt\nsub/link-up@\nsub/many/ (250 files)");
}
