//! `act components`: what may take part, who says so, and that nothing a repository ships can widen it.
//!
//! The component of these stories is the hostile one, which does what its question says.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::{Act, Done, image};
use crate::json::schema;

const REPORT: &str = r#"{"type":["object","array"]}"#;

/// A component as its author packs it: with this version and these needs.
pub(super) fn packed(act: &Act, file: &str, manifest: &Value) -> PathBuf {
    let from = match (&manifest["kind"], &manifest["name"]) {
        (kind, _) if kind == "tool" => "hostile-tool.wasm",
        (_, name) if name == "caller" => "hostile-http.wasm",
        _ => "hostile.wasm",
    };
    let path = act.repo().join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::copy(Path::new(env!("ACT_TEST_COMPONENTS")).join(from), &path).unwrap();
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

pub(super) fn need(grant: &str) -> Value {
    json!({"grant": grant, "why": "for a test"})
}

pub(super) fn scout(version: &str, needs: &[Value]) -> Value {
    json!({"kind": "scout", "name": "hostile", "version": version, "about": "Does as it is told.",
        "needs": needs, "report": serde_json::from_str::<Value>(REPORT).unwrap()})
}

pub(super) fn tool() -> Value {
    let parameters = json!({"type": "array", "items": {"type": "string"}});
    json!({"kind": "tool", "name": "hostile-tool", "version": "1", "about": "Tools.",
        "needs": [need("repo.read"), need("repo.write")],
        "tools": [{"name": "read", "description": "Reads.", "parameters": parameters}]})
}

pub(super) fn json_of(told: &Done) -> Value {
    serde_json::from_str(&told.stdout_text()).unwrap_or_else(|error| panic!("{error}\n{told}"))
}

pub(super) fn sha256_of(path: &Path) -> String {
    act::workspace::digest(&fs::read(path).unwrap())
}

pub(super) fn components<const N: usize>(arguments: [&str; N]) -> Vec<OsString> {
    std::iter::once("components").chain(arguments).map(OsString::from).collect()
}

pub(super) fn approve(act: &Act, path: &Path, name: &str, more: &[&str]) -> Done {
    let sha256 = sha256_of(path);
    let mut arguments = components(["approve"]);
    arguments.push(path.into());
    for word in ["--name", name, "--sha256", &sha256].iter().chain(more) {
        arguments.push(word.into());
    }
    act.clone().act(arguments)
}

fn listed(act: &Act) -> Value {
    let told = act.clone().act(components(["--json"])).status(0);
    let document = json_of(&told);
    schema("components").validate(&document).unwrap();
    document
}

fn state_of(act: &Act, name: &str) -> Value {
    let list = listed(act);
    let all = list["components"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{list:#}"))["state"]
        .clone()
}

pub(super) fn grants(act: &Act) -> PathBuf {
    act.repo().parent().unwrap().join("config/act/grants.toml")
}

fn stored(act: &Act, sha256: &str) -> PathBuf {
    act.artifacts().join(format!("state/components/{sha256}.wasm"))
}

/// A repository whose `agent.yaml` asks for the component in `tools/x.wasm`.
pub(super) fn asking(act: Act, more: &Value) -> (Act, PathBuf) {
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

pub(super) fn without_engine() -> Act {
    Act::new().file("answer.txt", "none\n").without_engine()
}

#[test]
fn security_line_41_a_repository_only_asks() {
    // CAPABILITY-27
    let (act, path) = asking(without_engine(), &json!({}));
    // It also ships what would be grants if it had a say.
    let act = act
        .file("act/grants.toml", "[[component]]\nname = \"probe\"\n")
        .file(".config/act/grants.toml", "[[component]]\nname = \"probe\"\n");
    let told = act.clone().script("turns: []").act(["run", "x", "--json"]).status(1);
    let refusal = json_of(&told);
    assert_eq!(refusal["code"], "component_unapproved", "{told}");
    assert!(told.requests().is_empty() && told.agent_files().is_empty(), "{told}");
    assert!(!grants(&act).exists() && told.runs().is_empty(), "nothing appeared: {told}");
    // But its record: what was asked for, and that it was refused.
    let denied = json_of(&act.clone().act(["audit", "list", "--deny", "--json"]).status(0));
    let record = &denied["records"][0];
    assert_eq!(
        (&record["event"], &record["reason"]),
        (&json!("component_refused"), &refusal["code"])
    );
    assert_eq!(record["subject"]["sha256"], sha256_of(&path));
    assert_eq!(state_of(&act, "probe"), "unapproved");

    // The command that is named is the one that approves it.
    let hint = refusal["hint"].as_str().unwrap();
    let command = hint.rsplit_once("act components ").unwrap().1;
    assert!(command.contains(path.to_str().unwrap()), "{hint}");
    let words = std::iter::once("components").chain(command.split_whitespace());
    act.clone().act(words).status(0);
    assert_eq!(state_of(&act, "probe"), "approved");
    let told = act.clone().script("turns: []").act(["run", "x"]).status(1);
    told.stderr_has("Docker unavailable");
}

#[test]
fn security_line_48_an_approval_needs_somebody_who_looked() {
    // CAPABILITY-21
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    let path = path.to_str().unwrap();
    let told = act.clone().act(components(["approve", path, "--name", "probe"])).status(1);
    let sha256 = sha256_of(Path::new(path));
    told.stderr_has(&format!("hint: add --sha256 {sha256}"))
        .stderr_has("repo.read: for a test")
        .inert();
    let wrong = "0".repeat(64);
    let told =
        act.clone().act(components(["approve", path, "--name", "probe", "--sha256", &wrong]));
    told.status(1).stderr_has(&sha256).stderr_has("the file has");
    assert!(!grants(&act).exists() && !stored(&act, &sha256).exists());

    approve(&act, Path::new(path), "probe", &[]).status(0).stdout_has("Approved probe: repo.read");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&grants(&act)), mode(&stored(&act, &sha256))), (0o600, 0o600));
}

#[test]
fn security_line_39_a_flipped_byte_is_changed_and_nothing_comes_in_its_place() {
    // CAPABILITY-25, CAPABILITY-26
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "probe", &["--replaces", "scout-a"]).status(0);
    let sha256 = sha256_of(&path);
    let told = act.clone().script("turns: []").act(["scout", "a", "batch-list"]);
    // It is asked in the place of Scout A, and held to Scout A's report.
    told.status(4).stderr_has("schema_version");

    let file = stored(&act, &sha256);
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, &bytes).unwrap();
    let found = act::workspace::digest(&bytes);
    assert_eq!(state_of(&act, "probe"), "changed");
    for command in [&["scout", "a"][..], &["scout", "b"]] {
        let told = act.clone().script("turns: []").act(command.iter().copied()).status(1);
        let told = told.stderr_has(&sha256).stderr_has(&found).stderr_has("has changed");
        assert!(told.requests().is_empty(), "nothing was asked: {told}");
    }
    // Approving the same bytes again repairs the store.
    approve(&act, &path, "probe", &["--replaces", "scout-a"]).status(0);
    assert_eq!(state_of(&act, "probe"), "approved");
    fs::remove_file(&file).unwrap();
    assert_eq!(state_of(&act, "probe"), "missing");
    act.clone().script("turns: []").act(["scout", "a"]).status(1).stderr_has("not in the store");
}

#[test]
fn security_line_39_a_request_for_other_bytes_is_changed() {
    let (act, path) = asking(without_engine(), &json!({}));
    approve(&act, &path, "probe", &[]).status(0);
    let approved = sha256_of(&path);
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(state_of(&act, "probe"), "changed");
    let told = act.clone().script("turns: []").act(["run", "x"]).status(1);
    told.stderr_has(&approved).stderr_has(&sha256_of(&path)).stderr_has("has changed");
}

#[test]
fn security_line_44_a_new_version_is_approved_anew_and_its_difference_is_shown() {
    // CAPABILITY-21
    let act = without_engine();
    let first = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &first, "probe", &[]).status(0);
    let before = sha256_of(&first);
    let llm = json!({"grant": "llm", "why": "to talk"});
    let second = packed(&act, "y.wasm", &scout("2", &[need("repo.read"), llm]));
    let path = second.to_str().unwrap();
    let told = act.clone().act(components(["approve", path, "--name", "probe"])).status(1);
    told.stderr_has(&format!("Differs from sha256 {before} (1)"))
        .stderr_has("+ needs llm: to talk");
    // What was approved is still the first one, with what it had.
    let show = act.clone().act(components(["show", "probe", "--json"])).status(0);
    let shown = json_of(&show);
    schema("components-show").validate(&shown).unwrap();
    assert_eq!(shown["component"]["sha256"], before);
    assert_eq!(shown["component"]["grants"].get("llm"), None, "{shown:#}");
    let told = approve(&act, &second, "probe", &["--json"]).status(0);
    let document = json_of(&told);
    schema("components-approve").validate(&document).unwrap();
    assert_eq!(document["difference"]["before"], before);
    assert_eq!(document["component"]["sha256"], sha256_of(&second));
    assert_eq!(document["component"]["grants"]["llm"]["calls"], 32);
}

#[test]
fn security_line_49_needs_that_do_not_fit_the_imports_are_refused() {
    let act = without_engine();
    // The tool imports `repo/edit` and does not say so.
    let mut sly = tool();
    sly["needs"] = json!([need("repo.read")]);
    let path = packed(&act, "x.wasm", &sly);
    let told = approve(&act, &path, "probe", &[]).status(1);
    told.stderr_has("agentcommand:repo/edit@1.1.0 (grant `repo.write`)")
        .stderr_has("without declaring");
    let path = packed(&act, "y.wasm", &scout("1", &[need("shell")]));
    approve(&act, &path, "probe", &[]).status(1).stderr_has("`shell`, which is no grant");
    let unused = json!({"grant": "http", "why": "x", "origins": ["https://api.example.com"]});
    let path = packed(&act, "z.wasm", &scout("1", &[unused]));
    approve(&act, &path, "probe", &[]).status(1).stderr_has("needs `http` but imports nothing");
    assert!(!grants(&act).exists());
    let told = act.clone().act(components(["inspect", path.to_str().unwrap(), "--json"])).status(0);
    let document = json_of(&told);
    schema("components-inspect").validate(&document).unwrap();
    assert!(document["problem"].as_str().unwrap().contains("http"), "{document:#}");
}

#[test]
fn revoking_takes_it_out_everywhere() {
    // CAPABILITY-36
    let (act, path) = asking(without_engine(), &json!({}));
    approve(&act, &path, "probe", &[]).status(0);
    act.clone().act(components(["revoke", "probe"])).status(0).stdout_has("Revoked probe");
    assert_eq!(state_of(&act, "probe"), "revoked");
    act.clone().script("turns: []").act(["run", "x"]).status(1).stderr_has("`probe` was revoked");
    act.clone().act(["scout", "probe"]).status(1).stderr_has("`probe` was revoked");
    act.clone().act(components(["revoke", "probe"])).status(1).stderr_has("revoked already");
    act.clone().act(components(["revoke", "other"])).status(1).stderr_has("no component `other`");
    act.clone().act(components(["revoke", "scout-a"])).status(1).stderr_has("is builtin");
}

#[test]
fn what_is_decided_is_in_the_audit_log_and_so_is_what_was_decided_past_it() {
    // AUDIT-16, CAPABILITY-37
    let act = without_engine().script("turns: []");
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read"), need("llm")]));
    approve(&act, &path, "probe", &[]).status(0);
    act.clone().act(components(["narrow", "probe", "--drop", "llm"])).status(0);
    act.clone().act(["scout", "probe", "batch-list"]).status(0);
    act.clone().act(components(["revoke", "probe"])).status(0);
    let file = grants(&act);
    let text = fs::read_to_string(&file).unwrap();
    let by_hand: Vec<_> = text.lines().filter(|line| !line.starts_with("revoked_at")).collect();
    fs::write(&file, by_hand.join("\n")).unwrap();
    act.clone().act(["scout", "probe", "batch-list"]).status(0);
    let told = act.clone().act(["audit", "list", "--json"]).status(0);
    let log = json_of(&told);
    let of_grants = |record: &&Value| {
        let event = record["event"].as_str().unwrap();
        event.starts_with("component_") || event == "grants_changed"
    };
    let records: Vec<_> = log["records"].as_array().unwrap().iter().filter(of_grants).collect();
    let events: Vec<_> = records.iter().map(|record| record["event"].as_str().unwrap()).collect();
    let wanted = [
        "component_approved",
        "component_approved",
        "component_loaded",
        "component_revoked",
        "grants_changed",
        "component_granted",
        "component_loaded",
    ];
    assert_eq!(events, wanted, "{log:#}");
    assert_eq!(records[0]["subject"]["sha256"], sha256_of(&path));
    assert!(records[0]["names"].to_string().contains("llm calls=32"), "{}", records[0]);
    assert!(!records[1]["names"].to_string().contains("llm calls"), "{}", records[1]);
    assert_eq!(records[4]["reason"], "changed_outside");
    act.clone().act(["audit", "verify"]).status(0);
}

#[test]
fn an_approval_for_here_holds_nowhere_else() {
    // CAPABILITY-28
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[]));
    approve(&act, &path, "probe", &["--here"]).status(0);
    act.clone().script("turns: []").act(["scout", "probe", "batch-list"]).status(0);
    let elsewhere = act.repo().parent().unwrap().join("other");
    fs::create_dir_all(elsewhere.join(".git")).unwrap();
    let told = act.clone().within(elsewhere).script("turns: []").act(["scout", "probe", "x"]);
    told.status(1).stderr_has("no Scout `probe` is approved here");
}

#[test]
fn only_a_place_of_our_own_is_replaced_and_only_by_its_kind() {
    // CAPABILITY-29
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[]));
    approve(&act, &path, "scout-a", &[]).status(1).stderr_has("a name of our own");
    approve(&act, &path, "probe", &["--replaces", "file-tools"])
        .status(1)
        .stderr_has("cannot take the place");
    approve(&act, &path, "probe", &["--replaces", "nobody"]).status(2).stderr_has("built in are");
    // Whether it replaces is the user's to say, not the repository's.
    let (act, path) = asking(without_engine(), &json!({"replaces": "scout-b"}));
    approve(&act, &path, "probe", &[]).status(0);
    let told = act.clone().script("turns: []").act(["run", "x"]).status(1);
    told.stderr_has("in the place of `scout-b`").stderr_has("--replaces scout-b");
}

#[test]
fn the_administrator_takes_away_and_what_he_did_not_write_does_not_count() {
    // CAPABILITY-19, CAPABILITY-23
    let act = without_engine();
    let policy = act.repo().parent().unwrap().join("policy.toml");
    let write = |text: &str, mode: u32| {
        fs::write(&policy, text).unwrap();
        fs::set_permissions(&policy, fs::Permissions::from_mode(mode)).unwrap();
    };
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "probe", &[]).status(0);
    let act = act.env("ACT_POLICY_FILE", &policy);
    write("deny = [\"repo.read\"]\n", 0o644);
    let told = act.clone().act(["scout", "probe", "x"]).status(1);
    told.stderr_has("needs `repo.read`, which the administrator's policy.toml does not allow");
    let told = act.clone().act(components(["why", "probe", "answer.txt", "--json"])).status(1);
    let answer = json_of(&told);
    schema("components-why").validate(&answer).unwrap();
    let no: Vec<_> = answer["parties"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|says| says["allows"] == false)
        .collect();
    assert_eq!(no, [&json!({"party": "ceiling", "allows": false})], "{answer}");
    write("", 0o666);
    act.clone().act(["scout", "probe", "x"]).status(1).stderr_has("policy.toml has mode 0666");
    write("\ndenny = []\n", 0o644);
    act.clone()
        .act(["scout", "probe", "x"])
        .status(1)
        .stderr_has("policy.toml:2:1: unknown field `denny`");
    write("allow_unpinned_images = false\n", 0o644);
    let act = act.pipeline("busybox:stable", &[("test", "true")]);
    act.clone().script("turns: []").act(["run", "x"]).status(1).stderr_has("not pinned by digest");
    act.act(["verify"]).status(1).stderr_has("not pinned by digest");
}

/// CAPABILITY-40: also a step that asks for the network by name has none.
#[test]
fn the_administrator_takes_the_network_from_every_step() {
    let steps = json!([
        {"name": "fetch", "command": "ls /sys/class/net", "network": "on"},
        {"name": "test", "command": "grep -qx none answer.txt", "network": "off"},
    ]);
    let yaml = json!({"verification": {"container_image": image(), "steps": steps}});
    let act = Act::new().file("answer.txt", "none\n").file("agent.yaml", yaml.to_string());
    let interfaces = |act: &Act| {
        let response = json_of(&act.clone().act(["verify", "--json"]).status(0));
        (response["tail_log"].as_str().unwrap().to_owned(), response)
    };
    let (tail, response) = interfaces(&act);
    assert_ne!(tail, "lo\n");
    assert_eq!(response["warnings"], json!([]));

    let policy = act.repo().parent().unwrap().join("policy.toml");
    fs::write(&policy, "[verifier]\nnetwork = \"off\"\n").unwrap();
    let act = act.env("ACT_POLICY_FILE", &policy);
    let (tail, response) = interfaces(&act);
    assert_eq!(tail, "lo\n", "{response:#}");
    let manifest = &response["manifest"];
    for command in manifest["commands_executed"].as_array().unwrap() {
        assert_eq!(command["network"], "off", "{manifest:#}");
    }
    let warning = &response["warnings"][0];
    assert_eq!(warning["code"], "network_cut_off", "{response:#}");
    assert!(warning["message"].as_str().unwrap().ends_with("gives it to \"fetch\""), "{warning}");
    let told = act.clone().act(["audit", "list", "--json"]).status(0);
    let walls = json_of(&told)["records"].as_array().unwrap().iter().rev().find_map(|record| {
        (record["event"] == "container_inspected").then(|| record["names"].to_string())
    });
    assert!(walls.unwrap().contains("network=none"), "{told}");
}

#[test]
fn grants_that_somebody_else_could_have_written_stop_everything() {
    // CAPABILITY-23, security line 41
    let act = without_engine().script("turns: []");
    let path = packed(&act, "x.wasm", &scout("1", &[]));
    approve(&act, &path, "probe", &[]).status(0);
    let file = grants(&act);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    act.clone().act(["scout", "probe", "x"]).status(1).stderr_has("must be 0600 and yours");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("kind = \"scout\"", "kind = \"scout\"\nroot = true")).unwrap();
    act.clone()
        .act(["scout", "probe", "x"])
        .status(1)
        .stderr_has("grants.toml:7:1: unknown field `root`");
    fs::write(&file, &text).unwrap();
    // A configuration home inside of the repository grants nothing.
    let inside = act.repo().join("config/act");
    fs::create_dir_all(&inside).unwrap();
    fs::copy(&file, inside.join("grants.toml")).unwrap();
    let act = act.clone().env("XDG_CONFIG_HOME", act.repo().join("config"));
    act.act(["scout", "probe", "x"]).status(1).stderr_has("lies inside of the repository");
}

#[test]
fn security_line_33_the_environment_is_what_was_granted() {
    // CAPABILITY-34
    let act = without_engine().script("turns: []").env("FOO", "bar").env("BAR", "foo");
    let surroundings = |act: &Act, name: &str| {
        let told = act.clone().act(["scout", name, "surroundings", "--json"]).status(0);
        json_of(&told)["report"].clone()
    };
    let path = packed(&act, "x.wasm", &scout("1", &[]));
    approve(&act, &path, "bare", &[]).status(0);
    assert_eq!(surroundings(&act, "bare")["environment"], json!([]));
    let wanted = json!({"grant": "env", "why": "x", "names": ["FOO", "UNSET"]});
    let path = packed(&act, "y.wasm", &scout("2", &[wanted, need("clock"), need("random")]));
    approve(&act, &path, "probe", &[])
        .status(0)
        .stdout_has("env FOO UNSET, clock (coarse), random");
    let (first, second) = (surroundings(&act, "probe"), surroundings(&act, "probe"));
    assert_eq!(first["environment"], json!([["FOO", "bar"]]));
    // CAPABILITY-35
    assert!(first["wall"].as_u64().unwrap() > 1_700_000_000, "{first}");
    assert_ne!(first["random"], second["random"]);
    assert_eq!(first["insecure"], second["insecure"]);
    // The host's own key, under a name that was granted.
    let leaking = act
        .clone()
        .env("OPENAI_API_KEY", crate::harness::CANARY)
        .env("FOO", format!("Bearer {}", crate::harness::CANARY));
    assert_eq!(surroundings(&leaking, "probe")["environment"], json!([]));
    let told = leaking.act(["audit", "list", "--deny", "--json"]).status(0);
    told.stdout_has("FOO: it holds a key of the host");
    for never in ["ANTHROPIC_API_KEY", "AGENT_LLM_MODEL"] {
        let greedy = json!({"grant": "env", "why": "x", "names": [never]});
        let manifest = act.repo().parent().unwrap().join("manifest.json");
        fs::write(&manifest, scout("3", &[greedy]).to_string()).unwrap();
        let file = act.repo().join("x.wasm");
        let arguments = [
            "components".into(),
            "pack".into(),
            file.into_os_string(),
            "--manifest".into(),
            manifest.into(),
        ];
        act.clone().act::<OsString>(arguments).status(1).stderr_has("never granted");
    }
}

// CAPABILITY-31, CAPABILITY-33
#[test]
fn why_says_no_to_what_the_host_never_reaches_and_takes_no_slip_for_a_path() {
    let act = without_engine();
    let (inward, outward) = ("http://127.0.0.1:9911", "https://api.example.com");
    let http = json!({"grant": "http", "why": "x", "origins": [inward, outward]});
    let mut caller = scout("1", &[http]);
    caller["name"] = json!("caller");
    let path = packed(&act, "x.wasm", &caller);
    let told = approve(&act, &path, "net", &[]).status(0);
    told.stderr_has(&format!("{inward} is not public"));
    let why = |object: &str, code| {
        act.clone().act(components(["why", "net", object, "--json"])).status(code)
    };
    let no = json_of(&why(&format!("{inward}/x"), 1));
    schema("components-why").validate(&no).unwrap();
    assert_eq!((&no["allowed"], &no["carved_out"]), (&json!(false), &json!("not_public")), "{no}");
    assert_eq!(json_of(&why(&format!("{outward}/x"), 0))["carved_out"], Value::Null);
    for slip in ["repo.reed", "nonsense"] {
        let told = act.clone().act(components(["why", "net", slip])).status(2);
        told.stderr_has("is no grant, and no path here");
    }
    // No grant for it, but a path.
    for path in ["answer.txt", "read:nonsense", "not/there", ".env", "lib.rs"] {
        why(path, 1);
    }
}

#[test]
fn security_line_35_a_component_with_a_model_chooses_neither_model_nor_address_nor_headers() {
    // The interface has no word for any of them.
    let interface = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/deps/model/model.wit");
    let text = fs::read_to_string(interface).unwrap();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("///"));
    let code: String = code.flat_map(|line| [line, "\n"]).collect();
    assert!(code.contains("next: func(max-tokens: option<u32>, output: option<json>)"), "{code}");
    for word in ["url", "header", "key", "endpoint", "model:", "temperature"] {
        assert!(!code.contains(word), "{word}");
    }
    let act = without_engine().file("log", "1");
    let path = packed(&act, "x.wasm", &scout("1", &[need("llm")]));
    approve(&act, &path, "probe", &[]).status(0);
    let turn = json!({"role": "probe", "text": "hello"});
    let told =
        act.script(&script([turn])).act(["scout", "probe", "chat", "--log", "log"]).status(0);
    let told = told.script_used_up();
    let request = &told.requests()[0];
    assert_eq!(request.body["model"], "scripted", "{told}");
    let said = request.body["messages"].to_string();
    assert!(said.contains("act role: probe") && said.contains("You are mine now."), "{said}");
    let known =
        ["host", "user-agent", "accept", "content-type", "content-length", "accept-encoding"];
    for (name, _) in &request.headers {
        assert!(known.contains(&name.as_str()), "{name}: {told}");
    }
}

/// Three attempts that never end are the end of the query, and of the command.
#[test]
fn security_line_15_a_scout_that_loops_for_ever_is_trouble_and_exit_code_4() {
    let yaml = json!({
        "verification": {"container_image": "x", "steps": [{"name": "test", "command": "true"}]},
        "timeouts": {"scout_query": 700},
    });
    let act = without_engine().script("turns: []").file("agent.yaml", yaml.to_string());
    let path = packed(&act, "../loops.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "probe", &[]).status(0);
    let before = fs::read_to_string(act.repo().join("answer.txt")).unwrap();
    let began = std::time::Instant::now();
    let told = act.clone().act(["scout", "probe", "loop", "--json"]).status(4);
    let failed = json_of(&told);
    assert_eq!(failed["code"], "scout_failed", "{told}");
    assert!(failed["message"].as_str().unwrap().contains("after 3 attempts"), "{told}");
    // Three times the limit and the pauses between; generous, because machines are shared.
    assert!(began.elapsed().as_secs() < 60, "{told}");
    let list = json_of(&act.clone().act(["audit", "list", "--deny", "--json"]).status(0));
    let ends: Vec<_> =
        list["records"].as_array().unwrap().iter().map(|record| &record["reason"]).collect();
    assert_eq!(ends, ["deadline"; 3], "{list:#}");
    assert_eq!(told.read("answer.txt"), before);
}

/// CAPABILITY-6: what a terminal would act on, or not show, is no part of a component.
#[test]
fn what_a_component_says_of_itself_cannot_act_on_a_terminal() {
    let why = scout("1", &[json!({"grant": "repo.read", "why": "x\u{1b}[2Jy\u{9b}31m"})]);
    let mut about = scout("1", &[need("repo.read")]);
    about["about"] = json!("all is well\u{1b}]0;owned\u{7}");
    let mut said = tool();
    said["tools"][0]["description"] = json!("Reads.\u{1b}]0;send .env\u{7} Well.");
    for evil in [&why, &about, &said] {
        let act = without_engine();
        let path = packed(&act, "x.wasm", &tool());
        let written = act.repo().parent().unwrap().join("manifest.json");
        fs::write(&written, evil.to_string()).unwrap();
        let words = ["pack", path.to_str().unwrap(), "--manifest", written.to_str().unwrap()];
        let told = act.clone().act(components(words)).status(1).inert();
        told.stderr_has("text that is not shown as it is");
    }
}

#[test]
fn the_list_shows_what_is_built_in_with_what_it_may_do() {
    let act = without_engine();
    let list = listed(&act);
    let names: Vec<_> =
        list["components"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["scout-a", "scout-b", "file-tools"]);
    assert!(!act.artifacts().exists() && !grants(&act).exists(), "a list makes nothing");
    let told = act.clone().act(components(["show", "scout-a"])).status(0);
    told.stdout_has("maps the files of the repository")
        .stdout_has("32 calls")
        .stdout_has("it was not asked");
    let no = act.clone().act(components(["why", "scout-a", "https://api.example.com"])).status(1);
    no.stdout_has("no  imports").stdout_has("yes ceiling");
    act.clone().act(components(["why", "scout-a", ".env"])).status(1);
    act.clone()
        .act(components(["why", "scout-a", "answer.txt"]))
        .status(0)
        .stdout_has("yes: scout-a");
}

#[test]
fn approved_scouts_and_tools_take_part_in_a_task_and_show_what_they_used() {
    // CAPABILITY-28, CAPABILITY-29, CAPABILITY-30, CAPABILITY-32
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file("docs/a.txt", "there\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let path = packed(&act, "../probe.wasm", &scout("1", &[need("repo.read"), need("llm")]));
    let hands = packed(&act, "../hands.wasm", &tool());
    approve(&act, &path, "probe", &[]).status(0);
    approve(&act, &hands, "more-hands", &[]).status(0);
    let mut turns = opening("write it");
    turns[0]["call"]["arguments"]["questions"] = json!({"probe": "batch-list"});
    turns.push(call("more-hands__read", json!(["docs/a.txt"])));
    turns.push(call("ask_scout", json!({"scout": "probe", "question": "batch-list"})));
    let turns = turns.into_iter().chain(attempt("right\n")).chain([done()]);
    let told =
        act.clone().script(&script(turns)).act(["run", "write the answer", "--json"]).status(0);
    let told = told.script_used_up();
    let asked = told.requests_of("editor");
    let first = asked[0].body.to_string();
    assert!(
        first.contains("Also probe: Does as it is told.") && first.contains("more-hands__read"),
        "{told}"
    );
    let all = asked.last().unwrap().body.to_string();
    assert!(all.contains("docs/a.txt") && all.contains("there"), "{told}");
    let lines = told.stdout_text();
    assert!(lines.contains(r#""type":"component_loaded","name":"probe""#), "{told}");
    assert!(lines.contains(r#""type":"component_used","name":"probe""#), "{told}");
    let run = told.runs().pop().unwrap();
    let names: Vec<_> = told.manifest(&run)["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["scout-a", "scout-b", "file-tools", "probe", "more-hands"]);

    let show = |name: &str| {
        let told = act.clone().act(components(["show", name, "--json"])).status(0);
        let shown = json_of(&told);
        schema("components-show").validate(&shown).unwrap();
        shown
    };
    let probe = show("probe");
    assert_eq!(
        (&probe["used"]["queries"], &probe["used"]["tasks"]),
        (&json!(2), &json!(1)),
        "{probe:#}"
    );
    assert_eq!(probe["never_used"], json!(["llm"]));
    assert_eq!(probe["can_be_narrowed_with"], "act components narrow probe --drop llm");
    let hands = show("more-hands");
    assert_eq!(hands["never_used"], json!(["repo.write"]));
    assert_eq!(hands["used"]["parts"], json!(["docs"]));
    assert!(show("scout-a")["used"]["queries"].as_u64() > Some(0));

    act.clone().act(components(["narrow", "more-hands"])).status(0);
    let hands = show("more-hands");
    assert_eq!(hands["component"]["grants"]["repo.read"]["paths"], json!(["docs"]));
    assert_eq!(hands["component"]["grants"]["withheld"], json!(["repo.write"]));
    let no = act.clone().act(components(["why", "more-hands", "answer.txt"])).status(1);
    no.stdout_has("no  grants");
    act.clone().act(components(["why", "more-hands", "docs/a.txt"])).status(0);
}
