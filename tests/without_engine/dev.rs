//! `act components watch`: what is built again and again takes part in tasks of one repository while the command runs, and
//! nothing that a build leaves or asks for leads further.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::components::{approve, components, grants, need, packed, scout};

use crate::harness::{Act, Running, program};

const COPY: &str = "cp source.bin out.wasm";

fn act() -> Act {
    Act::new().file("answer.txt", "none\n").script("turns: []")
}

fn reading(version: &str) -> Value {
    scout(version, &[need("repo.read")])
}

/// A project whose build copies a component that is there already.
struct Project {
    act: Act,
    path: PathBuf,
}

impl Project {
    fn new(act: &Act, component: &str, manifest: &Value) -> Self {
        let path = act.repo().parent().unwrap().join("project");
        fs::create_dir(&path).unwrap();
        let project = Self { act: act.clone(), path };
        project.source(component);
        project.manifest(manifest);
        project
    }

    fn source(&self, component: &str) {
        let from = Path::new(act_component::builtin::TEST_COMPONENTS).join(component);
        fs::copy(from, self.path.join("source.bin")).unwrap();
    }

    fn manifest(&self, manifest: &Value) {
        let new = self.path.join("manifest.new");
        fs::write(&new, manifest.to_string()).unwrap();
        fs::rename(new, self.path.join("manifest.json")).unwrap();
    }

    /// The digest that the next build has.
    fn sha256(&self) -> String {
        let read = |file: &str| fs::read(self.path.join(file)).unwrap();
        let packed = act_component::pack_manifest(&read("source.bin"), &read("manifest.json"));
        act_workspace::digest(&packed.unwrap())
    }

    fn command(&self, build: &str, more: &[&str]) -> Vec<String> {
        let path = self.path.to_str().unwrap();
        let words = ["components", "watch", path, "--build", build, "--output", "out.wasm"];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    fn start(&self, act: &Act, build: &str, more: &[&str]) -> Running {
        act.clone().start(self.command(build, more))
    }

    /// Begins a session and waits until its first build is in force.
    fn session(&self, act: &Act) -> Running {
        let sha256 = self.sha256();
        let running = self.start(act, COPY, &["--dev", "--name", "probe", "--sha256", &sha256]);
        running.until_stderr_has_or_end(&format!("In force sha256 {sha256}"));
        assert!(!running.has_ended(), "{}", running.wait());
        running
    }

    fn sessions(&self) -> Vec<PathBuf> {
        let dir = grants(&self.act).parent().unwrap().join("dev");
        let entries = fs::read_dir(dir).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

/// Returns the state and the digest of `probe` as `act components` lists it.
fn probe(act: &Act) -> Option<(String, String)> {
    let told = act.clone().act(["components", "list", "--json"]).status(0);
    let list = told.document("components");
    let all = list["components"].as_array().unwrap();
    let found = all.iter().find(|one| one["name"] == "probe")?;
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    Some((text("state"), text("sha256")))
}

fn asks_probe(act: &Act, status: i32) -> crate::harness::Done {
    act.clone().act(["scout", "probe", "batch-list"]).status(status)
}

fn dev_records(act: &Act) -> Vec<(String, String)> {
    let told = act.clone().act(["audit", "list", "--limit", "200", "--json"]).status(0);
    let list = told.document("audit-list");
    let records = list["records"].as_array().unwrap().iter();
    let dev = records.filter(|record| record["reason"] == "dev");
    dev.map(|record| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&record["event"]), text(&record["subject"]["sha256"]))
    })
    .collect()
}

// CAPABILITY-57, CAPABILITY-58
#[test]
fn what_is_built_takes_part_until_the_command_ends_and_each_build_is_on_record() {
    let act = act().without_engine();
    let project = Project::new(&act, "hostile.wasm", &reading("1"));
    let first = project.sha256();
    let running = project.session(&act);
    assert_eq!(probe(&act), Some(("dev".into(), first.clone())));
    asks_probe(&act, 0);
    act.clone().act(components(["why", "probe", "answer.txt"])).status(0);

    project.manifest(&reading("2"));
    let second = project.sha256();
    running.until_stderr_has(&format!("In force sha256 {second}"));
    assert_eq!(probe(&act), Some(("dev".into(), second.clone())));
    asks_probe(&act, 0);
    running.signal(Signal::TERM);
    running.wait().status(0);
    assert_eq!(probe(&act), None);
    asks_probe(&act, 1).stderr_has("no Scout `probe` is approved here");
    assert!(project.sessions().is_empty(), "nothing is left of it");
    assert!(!grants(&act).exists(), "nothing was granted beyond it");
    let approved = |sha256: &String| ("component_approved".to_owned(), sha256.clone());
    let ended = ("component_revoked".to_owned(), second.clone());
    assert_eq!(dev_records(&act), [approved(&first), approved(&second), ended]);
}

// CAPABILITY-58, security line 740
#[test]
fn security_line_740_a_build_that_asks_for_more_ends_the_session_without_a_terminal() {
    let http = |origins: &[&str]| {
        json!({"kind": "scout", "name": "caller", "version": "1", "about": "Calls.", "report": {"type": ["object", "array"]},
            "needs": [{"grant": "http", "why": "x", "origins": origins}]})
    };
    let renamed = |name: &str| {
        let mut manifest = reading("2");
        manifest["name"] = name.into();
        manifest
    };
    for (component, before, then, after, says) in [
        (
            "hostile.wasm",
            reading("1"),
            "hostile.wasm",
            scout("2", &[need("repo.read"), need("llm")]),
            "it needs llm",
        ),
        (
            "hostile-http.wasm",
            http(&["https://a.example"]),
            "hostile-http.wasm",
            http(&["https://a.example", "https://b.example"]),
            "it needs http",
        ),
        (
            "hostile.wasm",
            reading("1"),
            "hostile-http.wasm",
            http(&["https://a.example"]),
            "it imports wasi:http",
        ),
        // CAPABILITY-58, security line 741
        ("hostile.wasm", reading("1"), "hostile.wasm", renamed("scout-a"), "the name `scout-a`"),
    ] {
        let act = act().without_engine();
        let project = Project::new(&act, component, &before);
        let running = project.session(&act);
        project.source(then);
        project.manifest(&after);
        let told = running.wait().status(1).stderr_has("asks for more than").stderr_has(says);
        assert_eq!(probe(&act), None, "{told}");
        asks_probe(&act, 1);
    }
}

// CAPABILITY-58, security line 740
#[test]
fn security_line_740_a_person_is_asked_again_about_a_build_that_asks_for_more() {
    const QUESTION: &str =
        "Type `yes` to let this build and later ones take part within these terms:";
    let act = act().without_engine();
    let project = Project::new(&act, "hostile.wasm", &reading("1"));
    let words = project.command(COPY, &["--dev", "--name", "probe"]);
    let words: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{} {}", program(), words.join(" ")), "/dev/null"]);
    let at_terminal = act.clone().env("NO_COLOR", "1").answer(QUESTION, "yes\n");
    let running = at_terminal.start_command(script);
    running.until_stdout_has("In force sha256");
    project.manifest(&scout("2", &[need("repo.read"), need("llm")]));
    running.until_stdout_has("within these wider terms:");
    assert_eq!(probe(&act).unwrap().0, "dev", "the build before stays in force meanwhile");
    // The terminal is closed, which is no yes.
    running.signal(Signal::TERM);
    let told = running.wait();
    let text = told.stdout_text();
    let (first, second) = text.split_once("In force sha256").unwrap();
    for shown in ["built by", COPY, "until", &project.path.display().to_string()] {
        assert!(first.contains(shown), "{shown}: {told}");
    }
    assert!(second.contains("it needs llm"), "{told}");
    for _ in 0..500 {
        if probe(&act).is_none() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the session goes on: {told}");
}

// CAPABILITY-58, security line 742
#[test]
fn security_line_742_bytes_that_are_swapped_after_the_check_are_not_loaded() {
    let act = act().without_engine();
    let project = Project::new(&act, "hostile.wasm", &reading("1"));
    let sha256 = project.sha256();
    let running = project.session(&act);
    // What the build left was read once; the file counts for nothing any more.
    let other = Path::new(act_component::builtin::TEST_COMPONENTS).join("hostile-http.wasm");
    fs::copy(other, project.path.join("out.wasm")).unwrap();
    assert_eq!(probe(&act), Some(("dev".into(), sha256.clone())));
    asks_probe(&act, 0);
    let stored = project.sessions()[0].join(format!("{sha256}.wasm"));
    let mut bytes = fs::read(&stored).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&stored, &bytes).unwrap();
    assert_eq!(probe(&act).unwrap().0, "changed");
    asks_probe(&act, 1).stderr_has("has changed");
    fs::remove_file(&stored).unwrap();
    symlink(project.path.join("out.wasm"), &stored).unwrap();
    asks_probe(&act, 1).stderr_has("has changed");
    running.signal(Signal::INT);
    running.wait().status(0);
}

// CAPABILITY-59, security lines 743 and 744
#[test]
fn security_lines_743_and_744_what_a_build_leaves_is_read_through_no_link_and_within_its_bounds() {
    let act = act().without_engine();
    let project = Project::new(&act, "hostile.wasm", &reading("1"));
    for (build, says) in [
        ("ln -sf source.bin out.wasm", "is behind a link"),
        ("ln -sf /etc/passwd out.wasm", "is behind a link"),
        ("rm -f out.wasm; mkfifo out.wasm", "out.wasm"),
        ("rm -f out.wasm; truncate -s 65M out.wasm", "is larger than"),
        ("rm -f out.wasm; mkdir out.wasm", "out.wasm"),
        ("rm -rf out.wasm", "does not exist"),
        ("echo text > out.wasm", "a text file"),
        ("cp source.bin out.wasm; ln -sf /etc/passwd manifest.json", "is behind a link"),
        (
            "rm manifest.json; cp source.bin out.wasm; truncate -s 2M manifest.json",
            "is larger than",
        ),
    ] {
        let running = project.start(&act, build, &["--dev", "--name", "probe"]);
        running.until_stderr_has_or_end("Waiting for a change");
        running.signal_if_alive(Signal::INT);
        let told = running.wait().status(0).stderr_has(says);
        assert!(project.sessions().is_empty(), "{build}: {told}");
    }
    // A directory on the way is no better.
    fs::create_dir_all(project.path.join("real")).unwrap();
    symlink("real", project.path.join("there")).unwrap();
    let path = project.path.to_str().unwrap();
    let build = "cp source.bin real/x.wasm";
    let words = ["components", "watch", path, "--build", build, "--output", "there/x.wasm"];
    let running = act.clone().start(words);
    running.until_stderr_has_or_end("Waiting for a change");
    running.signal_if_alive(Signal::INT);
    running.wait().status(0).stderr_has("is behind a link");
}

// CAPABILITY-57, security line 745
#[test]
fn security_line_745_a_session_counts_for_its_repository_alone() {
    let act = act().without_engine();
    let project = Project::new(&act, "hostile.wasm", &reading("1"));
    let running = project.session(&act);
    let other = act.repo().parent().unwrap().join("other");
    fs::create_dir_all(other.join(".git")).unwrap();
    fs::write(other.join("a.txt"), "x\n").unwrap();
    let elsewhere = act.clone().within(other);
    assert_eq!(probe(&elsewhere), None);
    asks_probe(&elsewhere, 1);
    assert!(probe(&act).is_some());
    running.signal(Signal::HUP);
    running.wait().status(0);
}

// CAPABILITY-57, security line 746
#[test]
fn security_line_746_a_killed_session_grants_nothing_and_the_next_one_removes_it() {
    let act = act().without_engine();
    let project = Project::new(&act, "hostile.wasm", &reading("1"));
    let running = project.session(&act);
    running.kill();
    assert!(!running.wait().ended_well());
    let left = project.sessions();
    assert!(left.len() == 1 && left[0].join("session.toml").is_file());
    assert_eq!(probe(&act), None);
    asks_probe(&act, 1);
    // A copy by hand has no lock either, and neither has a link to a live one.
    let dev = left[0].parent().unwrap();
    let copy = dev.join("0123456789abcdef");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(&left[0]).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    assert_eq!(probe(&act), None);
    let running = project.session(&act);
    let live = project.sessions();
    assert!(live.len() == 1 && live[0] != left[0] && live[0] != copy, "{live:?}");
    symlink(&live[0], dev.join("fedcba9876543210")).unwrap();
    assert_eq!(probe(&act).unwrap().0, "dev");
    running.signal(Signal::TERM);
    running.wait().status(0);
    let ends = dev_records(&act).iter().filter(|(event, _)| event == "component_revoked").count();
    assert!(ends >= 2, "the end of the killed one is on record, too");
}

// CAPABILITY-19, security line 747
#[test]
fn security_line_747_the_policy_forbids_sessions_before_they_begin_and_while_they_run() {
    let plain = act().without_engine();
    let policy = plain.repo().parent().unwrap().join("policy.toml");
    fs::write(&policy, "").unwrap();
    let act = plain.env("ACT_POLICY_FILE", &policy);
    let project = Project::new(&act, "hostile.wasm", &reading("1"));
    let running = project.session(&act);
    asks_probe(&act, 0);
    fs::write(&policy, "allow_dev = false\n").unwrap();
    asks_probe(&act, 1).stderr_has("policy.toml forbids");
    project.manifest(&reading("2"));
    running.wait().status(1).stderr_has("allow_dev = false");
    assert!(project.sessions().is_empty());
    let sha256 = project.sha256();
    let again = project.command(COPY, &["--dev", "--name", "probe", "--sha256", &sha256]);
    act.clone().act(again).status(1).stderr_has("allow_dev = false");
    // Without a session nothing is asked for.
    let running = project.start(&act.env("ACT_POLICY_FILE", "/nonexistent"), COPY, &[]);
    running.until_stdout_has("checks passed");
    running.signal(Signal::INT);
    running.wait().status(0);
}

// CAPABILITY-57, security line 748
#[test]
fn security_line_748_a_session_takes_no_name_that_is_approved_or_built_in() {
    let act = act().without_engine();
    let mut manifest = reading("1");
    manifest["name"] = "scout-a".into();
    let project = Project::new(&act, "hostile.wasm", &manifest);
    let sha256 = project.sha256();
    let begin = |more: &[&str]| {
        let words = [&["--dev", "--sha256", &sha256], more].concat();
        act.clone().act(project.command(COPY, &words)).status(1)
    };
    begin(&[]).stderr_has("`scout-a` is a reserved name");
    begin(&["--name", "editor"]).stderr_has("is a reserved name");
    let path = packed(&act, "../x.wasm", &reading("1"));
    approve(&act, &path, "probe", &[]).status(0);
    begin(&["--name", "probe"]).stderr_has("`probe` is approved already");
    // An approval that a person gives while a session has the name stops both.
    let project = Project { act: act.clone(), path: project.path };
    act.clone().act(components(["revoke", "probe"])).status(0);
    project.manifest(&reading("3"));
    let running = project.session(&act);
    approve(&act, &path, "probe", &[]).status(0);
    asks_probe(&act, 1).stderr_has("both approved and of a development session");
    running.signal(Signal::INT);
    running.wait().status(0);
}

// CAPABILITY-59, security line 749
#[test]
fn security_line_749_a_build_that_does_not_end_is_killed_with_what_it_started() {
    let act = act().without_engine();
    let project = Project::new(&act, "hostile.wasm", &reading("1"));
    let gone = |file: &str| {
        let pid = fs::read_to_string(project.path.join(file)).unwrap();
        // An orphan that was killed is reaped by whoever adopted it.
        for _ in 0..500 {
            let status = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            if status.is_err() || status.is_ok_and(|text| text.contains(") Z ")) {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        false
    };
    let build = "sleep 600 & echo $! > .a; sleep 600";
    let running = project.start(&act, build, &["--build-timeout", "1"]);
    running.until_stderr_has_or_end("did not end within 1 s");
    assert!(gone(".a"));
    running.signal(Signal::INT);
    running.wait().status(0);
    // What a build leaves running in its group ends with it, and a signal ends a build.
    let running = project.start(&act, "sleep 600 & echo $! > .b; cp source.bin out.wasm", &[]);
    running.until_stdout_has("checks passed");
    assert!(gone(".b"));
    running.signal(Signal::INT);
    running.wait().status(0);
    let running = project.start(&act, "echo $$ > .c; exec sleep 600", &[]);
    while !project.path.join(".c").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    running.signal(Signal::TERM);
    running.wait().status(0);
    assert!(gone(".c"));
}

// CAPABILITY-59, security line 750
#[test]
fn security_line_750_a_build_sees_no_key_and_what_it_prints_does_nothing_on_a_terminal() {
    let act = act()
        .without_engine()
        .env("ANTHROPIC_API_KEY", "sk-secret-1")
        .env("OPENAI_API_KEY", "sk-secret-2");
    let project = Project::new(&act, "hostile.wasm", &reading("1"));
    let build =
        "env > .env; printf '\\033]0;title\\007\\033[2Jred\\r\\n'; seq 1 100000; echo last; exit 7";
    let running = project.start(&act, build, &[]);
    running.until_stderr_has_or_end("Waiting for a change");
    running.signal(Signal::INT);
    let told = running.wait().status(0).stderr_has("exit code 7").stderr_has("last").inert();
    assert!(told.stderr_text().len() < 32 << 10, "its output is cut");
    let variables = fs::read_to_string(project.path.join(".env")).unwrap();
    assert!(!variables.contains("sk-secret") && variables.contains("PATH="), "{variables}");
}

// CAPABILITY-57, security line 748
#[test]
fn without_a_terminal_a_session_needs_the_digest_of_its_first_build() {
    let act = act().without_engine();
    let project = Project::new(&act, "hostile.wasm", &reading("1"));
    let sha256 = project.sha256();
    let begin = |more: &[&str]| {
        let words = [&["--dev", "--name", "probe"], more].concat();
        act.clone().act(project.command(COPY, &words)).status(1)
    };
    begin(&[]).stderr_has(&format!("add --sha256 {sha256}"));
    begin(&["--sha256", &"0".repeat(64)]).stderr_has("--sha256 is 000");
    assert!(project.sessions().is_empty() && probe(&act).is_none());
}
