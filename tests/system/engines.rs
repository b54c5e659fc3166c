//! The engines of `engines.toml`, through the program: which one is used, who waits for whom, and what is recorded.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::harness::json::lines;
use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, Done, UNTIL_TOLD, image};
use crate::proxy::{Proxy, Refusal};

fn engine() -> String {
    std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned())
}

/// One entry of the file.
fn entry(name: &str, endpoint: &str, more: &str) -> String {
    format!("[[engine]]\nname = \"{name}\"\nkind = \"docker\"\nendpoint = \"{endpoint}\"\n{more}\n")
}

/// A repository with a green pipeline, and these engines.
fn project(engines: &str) -> Act {
    Act::new()
        .file("answer.txt", "right\n")
        .pipeline(image(), &[("test", "true")])
        .engines_toml(engines)
}

/// Slots are names on the one engine of this machine, so tests that count them run one after another, in whatever process. The
/// lock is on a directory, so nothing is left.
fn alone() -> File {
    let lock = File::open(std::env::temp_dir()).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    lock
}

/// A runtime for proxies.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// The engine in the manifest of the only run.
#[track_caller]
fn used(told: &Done) -> Value {
    let runs = told.runs();
    assert_eq!(runs.len(), 1, "{told}");
    told.manifest(&runs[0])["engine"].clone()
}

fn slots_taken(act: &Act, name: &str) -> Value {
    act.clone().act(["engines", "check", name, "--json"]).status(0).json()["answer"]["taken"]
        .clone()
}

// ENGINE-6
#[test]
fn the_identity_of_an_engine_is_in_the_manifest_the_audit_log_and_the_statement() {
    let _alone = alone();
    let act = project(&entry("lab", &engine(), ""));
    let told = act.clone().act(["verify", "--engine", "lab"]).status(0);
    let engine = used(&told);
    assert_eq!((&engine["name"], &engine["entry"]), (&json!("docker"), &json!("lab")), "{engine}");
    let (id, version) = (engine["id"].as_str().unwrap(), engine["version"].as_str().unwrap());
    let whole = format!("docker {version}, id {id}, lab in engines.toml");
    let run = &told.runs()[0];
    let explained = act.clone().act(["audit", "explain", run, "--json"]).status(0).json();
    assert_eq!(explained["engine"], whole.as_str(), "{explained}");
    let statement = act.clone().act(["audit", "export", "--in-toto", run]).status(0).json();
    let parts = statement["predicate"]["configuration"].as_array().unwrap();
    let record = parts.iter().find(|part| part["annotations"]["role"] == "record").unwrap();
    assert_eq!(record["annotations"]["engine"], whole.as_str(), "{statement}");
    act.act(["verify-claim", run]).status(0);
}

// ENGINE-1: the commands work as without the file.
#[test]
fn without_the_file_the_usual_engine_is_used_and_a_file_of_the_repository_names_none() {
    let act = Act::new()
        .file("answer.txt", "right\n")
        .file("engines.toml", entry("lab", "unix:///nowhere.sock", ""))
        .file(".config/act/engines.toml", entry("lab", "unix:///nowhere.sock", ""))
        .pipeline(image(), &[("test", "true")]);
    let told = act.clone().act(["verify"]).status(0);
    let engine = used(&told);
    assert!(engine.get("entry").is_none(), "{engine}");
    act.clone().act(["engines"]).status(0).stdout_has("no engines.toml");
    act.act(["verify", "--engine", "lab"]).status(2).stderr_has("no engine has the name");
}

// ENGINE-4
#[test]
fn an_unknown_engine_is_exit_code_2_and_one_that_cannot_be_used_4_before_the_first_request() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let place = tempfile::tempdir().unwrap();
    let body = r#"{"Name":"box","MemoryLimit":false,"CpuCfsQuota":true,"PidsLimit":true}"#;
    let (weak, _) = Proxy::answering(place.path(), &engine(), "/info", body);
    let engines = [
        entry("lab", &engine(), ""),
        entry("gone", "unix:///nowhere.sock", ""),
        entry("other", &engine(), "id = \"AAAA\""),
        entry("mixed", &engine(), "labels = { arch = \"s390x\" }"),
        entry("weak", &weak.host(), ""),
        entry("pod", &engine(), "").replace("\"docker\"", "\"podman\""),
    ];
    let act = project(&engines.concat()).script(&script(opening("write it")));
    for (name, code, why) in [
        ("missing", 2, "no engine has the name \"missing\""),
        ("gone", 4, "unix:///nowhere.sock (gone in engines.toml)"),
        ("other", 4, "engines.toml says AAAA"),
        ("mixed", 4, "engines.toml labels it s390x"),
        ("weak", 4, "cannot limit memory"),
        ("pod", 4, "docker answers there, and engines.toml says podman"),
    ] {
        let told = act.clone().act(["run", "--engine", name, "write the answer"]);
        let told = told.status(code).stderr_has(why);
        assert!(told.requests().is_empty() && told.runs().is_empty(), "{name}\n{told}");
        let told = act.clone().act(["verify", "--engine", name]).status(code);
        assert!(told.runs().is_empty(), "{name}\n{told}");
        if name != "weak" {
            act.clone().act(["engines", "check", name]).status(code);
        }
    }
    act.clone().act(["engines", "check", "lab"]).status(0).stdout_has("lab  docker");
    act.clone().act(["engines", "check", "weak"]).status(0).stdout_has("cannot limit memory");
    let listed = act.act(["engines", "--json"]).status(0).json();
    let engines = listed["engines"].as_array().unwrap();
    let known = |engine: &&Value| engine["answer"].is_object() && engine["error"].is_null();
    let usable: Vec<_> = engines.iter().filter(known).map(|engine| &engine["name"]).collect();
    assert_eq!(usable, ["lab", "weak"]);
    assert_eq!(engines.len(), 6);
}

// ENGINE-2
#[test]
fn a_file_that_is_not_understood_or_not_trusted_is_refused_with_its_place_and_shows_no_password() {
    for (text, place, why) in [
        (entry("lab", "tcp://me:hunter2@box:2375", ""), "engines.toml:4:12", "without a user"),
        (entry("lab", "unix:///x", "colour = 1"), "engines.toml:5:1", "unknown field `colour`"),
        (
            entry("lab", "unix:///x", "requests = { cpu = \"2\" }"),
            "engines.toml:5:12",
            "`requests` belongs to an engine of the kind kubernetes",
        ),
        (
            entry("lab", "unix:///x", "base_volume = \"base\""),
            "engines.toml:5:15",
            "`base_volume` belongs to an engine of the kind kubernetes",
        ),
        (entry("lab\\u001b[31m", "unix:///x", ""), "engines.toml:2:8", "`name` has 1 to 64"),
        (
            entry("lab", "unix:///x", "").replace("\"docker\"", "\"kubernetes\""),
            "engines.toml:4:12",
            "the address and the certificates of a cluster are in the kubeconfig",
        ),
        ("[[engine]]\nname = \"a\"\n".repeat(2), "engines.toml:1:1", "kind"),
        ("x".repeat(2 << 20), "engines.toml", "larger than"),
    ] {
        let told =
            project(&text).act(["verify"]).status(1).inert().stderr_has(place).stderr_has(why);
        told.stderr_lacks("hunter2");
    }
    for (mode, why) in [(0o644, "0600"), (0o602, "0600")] {
        let act = project(&entry("lab", &engine(), ""));
        let file = act.settings_file().with_file_name("engines.toml");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        act.act(["engines"]).status(1).stderr_has(why);
    }
    let act = project("");
    let file = act.settings_file().with_file_name("engines.toml");
    fs::rename(&file, file.with_file_name("real")).unwrap();
    std::os::unix::fs::symlink("real", &file).unwrap();
    act.act(["verify"]).status(1).stderr_has("symbolic link");
}

// ENGINE-6: an engine chooses what it says of itself.
#[test]
fn an_engine_that_says_nonsense_of_itself_has_no_id_and_no_version() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let place = tempfile::tempdir().unwrap();
    let body = "{\"ID\":\"7TRN\\u001b[31m PASS\",\"Name\":\"box\",\"Architecture\":\"x86_64\\n\"}";
    let (liar, _) = Proxy::answering(place.path(), &engine(), "/info", body);
    let act = project(&entry("liar", &liar.host(), ""));
    let _alone = alone();
    let told = act.clone().act(["verify"]).status(0).inert();
    let engine = used(&told);
    assert!(engine.get("id").is_none(), "{engine}");
    let told = act.act(["engines"]).status(0).inert();
    told.stdout_lacks("7TRN");
}

// ENGINE-7
#[test]
fn an_engine_with_the_image_is_preferred_and_among_equals_the_one_with_more_free_slots() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let (bare, plain) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // It has every image but says that it has none.
    let refusal = Refusal { path: "/images/", end: "/json", status: 404 };
    let (empty, _) = Proxy::refusing(bare.path(), &engine(), refusal, |_| true);
    let second = Proxy::start(plain.path(), &engine());
    let engines = |entries: &[(&str, &str, &str)]| -> String {
        entries.iter().map(|(name, endpoint, more)| entry(name, endpoint, more)).collect()
    };
    let _alone = alone();
    let told = project(&engines(&[
        ("empty", &empty.host(), "slots = 9"),
        ("full", &engine(), "slots = 1"),
    ]))
    .act(["verify"])
    .status(0)
    .stderr_has("using the engine full: it has the image, 1 free slot");
    assert_eq!(used(&told)["entry"], "full");

    let told = project(&engines(&[
        ("small", &engine(), "slots = 1"),
        ("large", &second.host(), "slots = 3"),
    ]))
    .act(["verify"])
    .status(0)
    .stderr_has("using the engine large: it has the image, 3 free slots");
    assert_eq!(used(&told)["entry"], "large");

    // An engine that is away is named, and another one is used.
    let told = project(&engines(&[
        ("gone", "unix:///nowhere.sock", "slots = 9"),
        ("here", &engine(), ""),
    ]))
    .act(["verify"])
    .status(0)
    .stderr_has("unix:///nowhere.sock (gone in engines.toml)");
    assert_eq!(used(&told)["entry"], "here");
    let away = engines(&[("one", "unix:///nowhere.sock", ""), ("two", "unix:///nothing.sock", "")]);
    let told = project(&away).script(&script(opening("write it"))).run("write the answer");
    let told = told.status(4).stderr_has("one in engines.toml").stderr_has("two in engines.toml");
    assert!(told.requests().is_empty());
}

// ENGINE-7
#[test]
fn a_repository_asks_for_labels_and_an_engine_without_them_is_not_used() {
    let pipeline = |labels: Value| {
        let steps = json!([{"name": "test", "command": "true"}]);
        json!({"verification": {"container_image": image(), "engine": labels, "steps": steps}})
            .to_string()
    };
    let _alone = alone();
    let engines = [
        entry("plain", &engine(), "slots = 3"),
        entry("gpu", &engine(), "labels = { gpu = \"A100\" }"),
    ]
    .concat();
    let act = project(&engines).file("agent.yaml", pipeline(json!({"gpu": "A100"})));
    assert_eq!(used(&act.clone().act(["verify"]).status(0))["entry"], "gpu");
    let told = act.act(["verify", "--engine", "plain"]).status(4);
    told.stderr_has("asks for an engine with gpu: A100, and the engine plain has none");

    let act = project(&engines).file("agent.yaml", pipeline(json!({"arch": "s390x"})));
    let act = act.script(&script(opening("write it")));
    let told =
        act.run("write the answer").status(4).stderr_has("asks for an engine with arch: s390x");
    assert!(told.requests().is_empty());

    // Without the file the engine has the label that it reports.
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let usual = || Act::new().file("answer.txt", "right\n");
    usual().file("agent.yaml", pipeline(json!({"arch": arch}))).act(["verify"]).status(0);
    usual().file("agent.yaml", pipeline(json!({"ssd": "yes"}))).act(["verify"]).status(4);
    let odd = usual().file("agent.yaml", pipeline(json!({"Arch": arch}))).act(["verify"]);
    odd.status(1).stderr_has("agent.yaml:1:").stderr_has("labels are");
}

// ENGINE-5
#[test]
fn two_people_share_an_engine_and_who_waits_is_told_for_whom() {
    let _alone = alone();
    let lab = entry("lab", &engine(), "slots = 1");
    let first = project(&lab).pipeline(image(), &[("hold", UNTIL_TOLD)]);
    let second = project(&lab);
    let holding = first.clone().start(["verify", "--verbose"]);
    holding.until_stderr_has("it has begun");
    let owner = format!("slot 1 by process {} ", holding.pid().as_raw_nonzero());
    let taken = slots_taken(&second, "lab");
    assert!(taken[0].as_str().unwrap().starts_with(&owner), "{taken}");
    let waiting = second.clone().start(["verify"]);
    waiting.until_stderr_has(
        "waiting for a free slot of the engine lab, which has 1: slot 1 by process",
    );
    std::thread::sleep(Duration::from_secs(2));
    assert!(!waiting.has_ended());
    first.tell_step();
    holding.wait().status(0);
    waiting.wait().status(0).stderr_has(&owner);
    assert_eq!(slots_taken(&second, "lab"), json!([]));
}

// ENGINE-5
#[test]
fn a_cancelled_run_that_waits_ends_at_once_and_leaves_the_slot_to_its_owner() {
    let _alone = alone();
    let lab = entry("lab", &engine(), "slots = 1");
    let first = project(&lab).pipeline(image(), &[("hold", UNTIL_TOLD)]);
    let holding = first.clone().start(["verify", "--verbose"]);
    holding.until_stderr_has("it has begun");
    let second = project(&lab);
    let waiting = second.clone().start(["verify"]);
    waiting.until_stderr_has("waiting for a free slot");
    waiting.signal(rustix::process::Signal::INT);
    waiting.wait().status(130);
    let taken = slots_taken(&second, "lab");
    assert_eq!(taken.as_array().unwrap().len(), 1, "{taken}");
    first.tell_step();
    holding.wait().status(0);
}

// ENGINE-5
#[test]
fn the_slot_of_a_killed_process_is_freed_by_whoever_comes_next() {
    let _alone = alone();
    let lab = entry("lab", &engine(), "slots = 1");
    let first = project(&lab).pipeline(image(), &[("hold", UNTIL_TOLD)]);
    let holding = first.start(["verify", "--verbose"]);
    holding.until_stderr_has("it has begun");
    holding.kill();
    let killed = holding.wait();
    assert_eq!(killed.killed_by(), Some(9));
    let second = project(&lab);
    second.clone().act(["verify"]).status(0).stderr_lacks("waiting for a free slot");
    assert_eq!(slots_taken(&second, "lab"), json!([]));
}

// ENGINE-5: the base, the warm run, the cold run and a check each take the one slot and free it.
#[test]
fn a_task_with_a_warm_base_needs_no_second_slot() {
    let _alone = alone();
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let yaml = json!({"verification": {
        "container_image": image(),
        "network": "off",
        "prepare": [{"name": "prepare", "command": "mkdir -p target && touch target/made"}],
        // A step that names the file would make it an input of the verification, whose change makes the attempt cold.
        "steps": [{"name": "test", "command": "cat $(ls | grep ^answer) | grep right"}],
    }});
    let act = Act::new()
        .file("answer.txt", "wrong\n")
        .file("agent.yaml", yaml.to_string())
        .file(".gitignore", "/target/\n/agent/\n")
        .engines_toml(&entry("lab", &engine(), "slots = 1"))
        .script(&script(turns));
    let repo = act.repo();
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let mut command = std::process::Command::new("git");
        assert!(
            command.args(identity).args(arguments).current_dir(&repo).status().unwrap().success()
        );
    };
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "x"]);
    let told = act.clone().act(["run", "--json", "--engine", "lab", "write the answer"]).status(0);
    let started = lines(&told).into_iter().filter(|line| line["type"] == "verify_started");
    let warm: Vec<_> = started.map(|line| line["warm"].as_bool().unwrap()).collect();
    assert_eq!(warm, [true, false], "{told}");
    assert_eq!(slots_taken(&act, "lab"), json!([]));
}

// ENGINE-8
#[test]
fn the_administrator_names_the_engines_that_count() {
    let place = tempfile::tempdir().unwrap();
    let policy = place.path().join("policy.toml");
    let with = |text: &str| {
        fs::write(&policy, text).unwrap();
        fs::set_permissions(&policy, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let _alone = alone();
    let act = project(&entry("lab", &engine(), "")).env("ACT_POLICY_FILE", &policy);
    with("engines = [\"lab\", \"unix:///elsewhere.sock\"]");
    let told = act.clone().script(&script(opening("write it"))).run("write the answer").status(4);
    assert!(told.requests().is_empty(), "{told}");
    told.stderr_has("the administrator's policy does not allow the engine lab");
    act.clone().act(["engines"]).status(0).stdout_has("not allowed by the administrator's policy");
    with(&format!("engines = [\"{}\"]", engine()));
    let id = used(&act.clone().act(["verify"]).status(0))["id"].as_str().unwrap().to_owned();
    with(&format!("engines = [\"{id}\"]"));
    act.clone().act(["verify", "--fresh"]).status(0);

    // The usual engine is held to it, too.
    let usual = Act::new().file("answer.txt", "x").pipeline(image(), &[("test", "true")]);
    let usual = usual.env("ACT_POLICY_FILE", &policy);
    usual.clone().act(["verify"]).status(0);
    with("engines = []");
    usual.act(["verify"]).status(4).stderr_has("policy does not allow the engine at");
}
