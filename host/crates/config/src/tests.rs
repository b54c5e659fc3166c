//! `agent.yaml` files on disk, good and bad.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::*;

const MINIMAL: &str = "verification:
  container_image: python:3.12-slim
  steps:
    - {name: test, command: pytest -q}
";

fn repo(yaml: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("agent.yaml"), yaml).unwrap();
    directory
}

fn load_text(yaml: &str) -> Result<Config, ConfigError> {
    load(repo(yaml).path())
}

/// Code and message of a refusal.
fn refused(yaml: &str) -> (&'static str, String) {
    let error = load_text(yaml).expect_err(yaml);
    assert!(!error.hint().is_empty());
    (error.code(), error.to_string())
}

#[test]
fn a_minimal_file_gets_the_documented_defaults() {
    let config = load_text(MINIMAL).unwrap();
    assert_eq!(
        config.pipeline,
        Pipeline {
            image: "python:3.12-slim".into(),
            prepare: vec![],
            prepare_inputs: vec![],
            warm: None,
            steps: vec![Step { name: "test".into(), command: "pytest -q".into(), network: true }],
            workspace: Workspace::Auto,
            include: vec![],
            source_writes: SourceWrites::Fail,
            user: User::Caller,
            ca_bundle: None,
            limits: Limits { cpus: 4.0, memory_mb: 8192, pids: 2048 },
            engine: [].into(),
            private_network: true,
            cut_off: vec![],
        }
    );
    assert_eq!(
        (config.step_timeout, config.scout_timeout),
        (Duration::from_secs(300), Duration::from_secs(60))
    );
    assert_eq!((config.max_tokens, config.gitignore), (None, true));
    assert_eq!((config.monorepo_package, config.components), (None, vec![]));
    assert_eq!(config.sha256, "a43f53019606bcaa30c8df88ec0c7ee578d3ee20d0a10d7234f734bf5468859a");
}

#[test]
fn every_setting_is_read() {
    let directory = repo(&format!(
        "verification:
  container_image: \"img\"
  steps:
    - name: no
      command: |
        set -e
        make
      network: on
    - {{name: two, command: 'true'}}
  workspace: overlay
  include: ['data/*.bin']
  source_writes: warn
  network: off
  user: root
  ca_bundle: /etc/ssl/ca.pem
  limits: {{cpus: 1.5, memory_mb: 512, pids: 64}}
monorepo: {{package: ./packages//core/}}
timeouts: {{verification_step: 1000, scout_query: 2000}}
components:
  - {{name: my-scout, path: tools/s.wasm, sha256: {}, kind: scout, replaces: scout-a}}
",
        "AB".repeat(32)
    ));
    std::fs::create_dir_all(directory.path().join("packages/core")).unwrap();
    let config = load(directory.path()).unwrap();
    let pipeline = config.pipeline;
    assert_eq!(
        pipeline.steps,
        [
            Step { name: "no".into(), command: "set -e\nmake\n".into(), network: true },
            Step { name: "two".into(), command: "true".into(), network: false },
        ]
    );
    assert_eq!(
        (pipeline.workspace, pipeline.source_writes, pipeline.user),
        (Workspace::Overlay, SourceWrites::Warn, User::Root)
    );
    assert_eq!(
        (pipeline.include, pipeline.ca_bundle),
        (vec!["data/*.bin".into()], Some("/etc/ssl/ca.pem".into()))
    );
    assert_eq!(pipeline.limits, Limits { cpus: 1.5, memory_mb: 512, pids: 64 });
    assert_eq!(config.monorepo_package.as_deref(), Some("packages/core"));
    assert_eq!(
        (config.step_timeout, config.scout_timeout),
        (Duration::from_secs(1), Duration::from_secs(2))
    );
    assert_eq!(
        config.components,
        [ComponentRequest {
            name: "my-scout".into(),
            path: "tools/s.wasm".into(),
            sha256: "ab".repeat(32),
            kind: ComponentKind::Scout,
            replaces: Some("scout-a".into()),
        }]
    );
}

#[test]
fn what_is_missing_is_named() {
    for yaml in [
        "",
        "# nothing\n",
        "verification:\n",
        "verification: {steps: [{name: a, command: b}]}",
        "verification: {container_image: ' '}",
    ] {
        let (code, message) = refused(yaml);
        assert_eq!(code, "container_image_required", "{yaml}");
        assert!(message.starts_with("container image required"));
    }
    for yaml in
        ["verification: {container_image: i}", "verification: {container_image: i, steps: []}"]
    {
        let (code, message) = refused(yaml);
        assert_eq!(code, "steps_required");
        assert!(message.starts_with("at least one verification step required"));
    }
    let step = |step: &str| {
        refused(&format!(
            "verification:\n  container_image: i\n  steps:\n    - {{name: a, command: b}}\n    - {step}\n"
        ))
    };
    assert_eq!(
        step("{command: b}"),
        ("step_incomplete", "agent.yaml:5:7: verification step 2 has no name".into())
    );
    assert_eq!(
        step("{name: lint}"),
        ("step_incomplete", "agent.yaml:5:7: verification step 2 (`lint`) has no command".into())
    );
    assert_eq!(step("{name: lint, command: ''}").0, "step_incomplete");
}

// security line 75
#[test]
fn unknown_keys_are_named_with_place_and_nearest_key() {
    let (code, message) = refused("verification:\n  container_image: i\n  setps: []\n");
    assert_eq!(code, "unknown_key");
    assert_eq!(message, "agent.yaml:3:3: unknown key `setps`; the nearest valid key is `steps`");
    let (_, message) =
        refused("verification:\n  container_image: i\n  steps: [{name: a, comand: b}]\n");
    assert_eq!(
        message,
        "agent.yaml:3:21: unknown key `comand`; the nearest valid key is `command`"
    );
    assert_eq!(refused("environments: {}\n").0, "unknown_key");
    let (_, message) = refused("\"\\e[31mx\": 1\n");
    assert!(!message.contains('\u{1b}'), "{message}");
}

// security line 75
#[test]
fn wrong_types_are_told_with_their_place() {
    for (yaml, place) in [
        ("verification: 12\n", "agent.yaml:1:15: "),
        ("verification:\n  container_image: [a]\n", "agent.yaml:2:3: "),
        ("verification:\n  container_image: i\n  steps: {a: b}\n", "agent.yaml:3:10: "),
        ("verification:\n  container_image: i\n  steps: [text]\n", "agent.yaml:3:11: "),
        ("- a\n- b\n", "agent.yaml:1:1: "),
        ("verification: {container_image: i\n", "agent.yaml:"),
        ("a: b: c\n", "agent.yaml:1:"),
    ] {
        let (_, message) = refused(yaml);
        assert!(message.starts_with(place), "{yaml}: {message}");
    }
}

// security line 77
#[test]
fn yaml_that_reads_in_two_ways_is_refused() {
    let with = |more: &str| format!("{MINIMAL}{more}");
    assert_eq!(refused(&with("timeouts: {scout_query: 1, scout_query: 2}\n")).0, "duplicate_key");
    assert_eq!(
        refused(&with("verification: {}\n")),
        ("duplicate_key", "agent.yaml:5:1: the key `verification` appears twice".into())
    );
    assert_eq!(refused(&with("timeouts: {<<: {scout_query: 1}}\n")).0, "merge_key");
    assert_eq!(refused(&with("---\nverification: {}\n")).0, "second_document");
    assert_eq!(refused(&with("monorepo: !custom {package: a}\n")).0, "custom_tag");
    assert_eq!(refused("verification: {container_image: !custom a}\n").0, "custom_tag");
    let anchored =
        "verification:\n  container_image: i\n  steps:\n    - &a {name: a, command: b}\n    - *a\n";
    assert_eq!(refused(anchored).0, "alias");
    assert_eq!(refused(&with("monorepo: *nowhere\n")).0, "alias");
    let many = format!("verification:\n  include: [{}]\n", "a, ".repeat(30_000));
    assert_eq!(refused(&many).0, "config_too_complex");
}

// CONFIG-22
#[test]
fn a_value_in_the_place_of_a_list_or_of_keys_says_what_belongs_there() {
    let list = "a list belongs here, as in `- name: test`";
    let keys = "keys with values belong here, as in `name: test`";
    for (yaml, place, what) in [
        ("verification:\n  container_image: x\n  steps: pytest\n", "3:10", list),
        ("verification:\n  container_image: x\n  steps:\n    - pytest\n", "4:7", keys),
        ("verification: pytest\n", "1:15", keys),
        ("[]\n", "1:1", keys),
    ] {
        assert_eq!(refused(yaml), ("config_malformed", format!("agent.yaml:{place}: {what}")));
    }
}

#[test]
fn an_alias_bomb_costs_nothing() {
    let mut bomb = "components:\n  - &a0 [x]\n".to_owned();
    for level in 1..20 {
        bomb += &format!("  - &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(","));
    }
    assert_eq!(refused(&bomb).0, "alias");
}

// security line 78
#[test]
fn nothing_is_converted_in_silence() {
    for value in
        ["0", "-1", "1e99", "1.5", "\"5m\"", "5m", "true", "\"1000\"", "99999999999999999999"]
    {
        let (code, message) = refused(&format!("{MINIMAL}timeouts: {{scout_query: {value}}}\n"));
        assert_eq!(code, "wrong_value", "{message}");
        assert!(
            message.starts_with(
                "agent.yaml:5:25: timeouts.scout_query must be a whole number of milliseconds"
            ),
            "{message}"
        );
    }
    let step = |step: &str| format!("verification: {{container_image: i, steps: [{step}]}}\n");
    for wrong in [
        "{name: a, command: 12}",
        "{name: a, command: true}",
        "{name: 1, command: b}",
        "{name: a, command: [b]}",
        "{name: a, command: b, network: yes}",
        "{name: a, command: b, network: true}",
    ] {
        refused(&step(wrong));
    }
    // Only `true` and `false` are booleans; what older YAML took for one is text.
    let config = load_text(&step("{name: no, command: yes}")).unwrap();
    assert_eq!(
        (config.pipeline.steps[0].name.as_str(), config.pipeline.steps[0].command.as_str()),
        ("no", "yes")
    );
    for more in [
        "user: nobody",
        "workspace: Copy",
        "source_writes: off",
        "ca_bundle: ca.pem",
        "ca_bundle: /a/../b",
        "include: [/etc/*]",
        "include: [../x]",
        "include: ['[']",
        "limits: {cpus: 0}",
        "limits: {memory_mb: -1}",
        "limits: {memory_mb: 5}",
        "limits: {pids: 0}",
        "limits: {pids: 1}",
        "limits: {cpus: .inf}",
    ] {
        let (code, message) = refused(&MINIMAL.replace("  steps:", &format!("  {more}\n  steps:")));
        assert!(code == "wrong_value" || code == "config_malformed", "{more}: {message}");
        assert!(message.starts_with("agent.yaml:3:"), "{message}");
    }
}

// security line 80
#[test]
fn the_package_is_a_real_directory_inside() {
    let outside = tempfile::tempdir().unwrap();
    let directory = repo("");
    let root = directory.path();
    std::fs::write(root.join("file"), "").unwrap();
    std::fs::create_dir(root.join("real")).unwrap();
    symlink(outside.path(), root.join("link")).unwrap();
    symlink("real", root.join("inner")).unwrap();
    let load_with = |package: &str| {
        std::fs::write(
            root.join("agent.yaml"),
            format!("{MINIMAL}monorepo: {{package: '{package}'}}\n"),
        )
        .unwrap();
        load(root)
    };
    for package in
        ["..", ".git", "real/../..", "/etc", "link", "link/x", "inner", "file", "missing", "", "."]
    {
        let error = load_with(package).expect_err(package);
        assert_eq!(error.code(), "package_invalid", "{package}");
        assert!(error.to_string().starts_with("agent.yaml:5:21: "), "{error}");
    }
    assert_eq!(load_with("real").unwrap().monorepo_package.as_deref(), Some("real"));
}

#[test]
fn component_requests_are_complete_and_well_formed() {
    let with = |request: &str| refused(&format!("{MINIMAL}components:\n  - {request}\n"));
    let sha = "0".repeat(64);
    assert_eq!(
        with(&format!("{{name: a, sha256: '{sha}', kind: tool}}")),
        ("component_incomplete", "agent.yaml:6:5: component request 1 (`a`) has no path".into())
    );
    for wrong in [
        format!("{{name: ../a, path: p, sha256: '{sha}', kind: tool}}"),
        format!("{{name: a, path: ../p, sha256: '{sha}', kind: tool}}"),
        "{name: a, path: p, sha256: '12', kind: tool}".to_owned(),
        format!("{{name: a, path: p, sha256: '{sha}', kind: editor}}"),
    ] {
        assert_eq!(with(&wrong).0, "wrong_value", "{wrong}");
    }
}

#[test]
fn a_file_is_no_place_to_start_from() {
    let directory = repo("");
    let file = directory.path().join("agent.yaml");
    let error = load(&file).unwrap_err().to_string();
    assert!(error.contains("agent.yaml") && error.contains("not a directory"), "{error}");
}

#[test]
fn the_root_is_the_nearest_directory_with_a_configuration_else_with_git() {
    let top = tempfile::tempdir().unwrap();
    let top = std::fs::canonicalize(top.path()).unwrap();
    let inner = top.join("a/b/c");
    std::fs::create_dir_all(&inner).unwrap();
    let found = |from: &Path| find_root(from).unwrap().map(|root| (root.path, root.has_config));
    std::fs::create_dir(top.join("a/.git")).unwrap();
    assert_eq!(found(&inner), Some((top.join("a"), false)));
    std::fs::write(top.join("agent.yaml"), MINIMAL).unwrap();
    assert_eq!(found(&inner), Some((top.clone(), true)));
    std::fs::write(top.join("a/b/agent.yaml"), MINIMAL).unwrap();
    assert_eq!(found(&inner), Some((top.join("a/b"), true)));
    assert_eq!(load(&inner).unwrap().root, top.join("a/b"));
}

#[test]
fn no_configuration_names_act_init() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join(".git")).unwrap();
    let error = load(directory.path()).unwrap_err();
    assert_eq!(error.code(), "config_missing");
    assert!(
        error.to_string().starts_with("configuration required")
            && error.hint().contains("`act init`")
    );
    let error = load(&directory.path().join("gone")).unwrap_err();
    assert_eq!(error.code(), "directory_unusable");
}

#[test]
fn the_file_itself_is_regular_small_text() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("agent.yaml");
    let code = || load(directory.path()).unwrap_err().code();

    let elsewhere = repo(MINIMAL);
    symlink(elsewhere.path().join("agent.yaml"), &file).unwrap();
    assert_eq!(code(), "config_not_a_file");
    std::fs::remove_file(&file).unwrap();

    std::fs::create_dir(&file).unwrap();
    assert_eq!(code(), "config_not_a_file");
    std::fs::remove_dir(&file).unwrap();

    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    assert_eq!(code(), "config_not_a_file");
    std::fs::remove_file(&file).unwrap();

    std::fs::write(&file, format!("{MINIMAL}#{}", "x".repeat(1 << 20))).unwrap();
    assert_eq!(code(), "config_too_large");
    std::fs::write(&file, b"\xff\xfe").unwrap();
    assert_eq!(code(), "config_unreadable");
}

// CONFIG-16
#[test]
fn a_budget_is_a_whole_number_from_1_or_none() {
    let with = |limit: &str| load_text(&format!("{MINIMAL}limits: {{max_tokens: {limit}}}\n"));
    assert_eq!(with("500000").unwrap().max_tokens, Some(500_000));
    assert_eq!(with("none").unwrap().max_tokens, None);
    for wrong in ["0", "-1", "1.5", "true", "\"5\"", "all"] {
        assert_eq!(with(wrong).unwrap_err().code(), "wrong_value", "{wrong}");
    }
    assert_eq!(refused(&format!("{MINIMAL}limits: {{tokens: 5}}\n")).0, "unknown_key");
}

// CONFIG-65
#[test]
fn a_limit_of_cost_is_a_number_of_dollars_or_none() {
    let with = |limit: &str| load_text(&format!("{MINIMAL}limits: {{max_cost: {limit}}}\n"));
    let dollars = |text| act_core::Usd::parse(text);
    for (limit, sum) in [("2", "2"), ("0.1", "0.1"), ("0.000000001", "0.000000001")] {
        assert_eq!(with(limit).unwrap().max_cost, dollars(sum), "{limit}");
    }
    assert_eq!(with("none").unwrap().max_cost, None);
    for wrong in ["0", "0.0", "-1", "1000001", "true", "\"5\"", "$5", "all"] {
        assert_eq!(with(wrong).unwrap_err().code(), "wrong_value", "{wrong}");
    }
    // The parser itself reads no such number.
    for wrong in [".inf", ".nan"] {
        assert_eq!(with(wrong).unwrap_err().code(), "config_malformed", "{wrong}");
    }
}

// CONFIG-17
#[test]
fn the_line_in_gitignore_can_be_turned_off() {
    let with = |value: &str| load_text(&format!("{MINIMAL}gitignore: {value}\n"));
    assert!(!with("false").unwrap().gitignore && with("true").unwrap().gitignore);
    for wrong in ["no", "0", "off"] {
        assert_eq!(with(wrong).unwrap_err().code(), "wrong_value", "{wrong}");
    }
}

// CONFIG-50
#[test]
fn steps_that_prepare_stand_before_the_others_and_share_their_rules() {
    let config = load_text(
        "verification:\n  container_image: i\n  network: off\n  prepare_inputs: [\"*.lock\"]\n  warm: off\n  \
         prepare: [{name: install, command: make deps, network: on}, {name: build, command: make}]\n  \
         steps: [{name: test, command: make test}]\n",
    )
    .unwrap();
    let all: Vec<_> =
        config.pipeline.all_steps().map(|step| (step.name.as_str(), step.network)).collect();
    assert_eq!(all, [("install", true), ("build", false), ("test", false)]);
    assert_eq!(config.pipeline.prepare.len(), 2);
    assert_eq!(config.pipeline.prepare_inputs, ["*.lock"]);
    assert_eq!(config.pipeline.warm, Some(crate::Warm::Off));
    let mut cut = config.pipeline.clone();
    cut.cut_off();
    assert_eq!(cut.cut_off, ["install"]);
    for wrong in ["prepare: [{name: a}]", "prepare_inputs: [../x]", "warm: always"] {
        let text = format!(
            "verification: {{container_image: i, steps: [{{name: t, command: t}}], {wrong}}}\n"
        );
        assert!(load_text(&text).is_err(), "{wrong}");
    }
    let only = "verification: {container_image: i, prepare: [{name: t, command: t}]}\n";
    assert_eq!(load_text(only).unwrap_err().code(), "steps_required");
}
