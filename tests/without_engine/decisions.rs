//! Deciding about components while somebody else decides, too, or has put something in the way; and that each act that
//! leaves grants or records does so on the administrator's terms.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::components::{
    approve, components, grants, need, packed, scout, sha256_of, tool, without_engine,
};
use crate::harness::{Act, Running, program};

fn count(act: &Act, event: &str) -> usize {
    act.audit_records().iter().filter(|record| record["event"] == event).count()
}

fn shown(act: &Act, name: &str) -> Value {
    act.clone().act(components(["show", name, "--json"])).status(0).json()
}

/// CAPABILITY-9, AUDIT-5, security line 48: that somebody was not asked is a denial, whatever the reason.
#[test]
fn a_scout_that_may_not_be_asked_is_denied_on_record() {
    let act = without_engine().script("turns: []");
    let path = packed(&act, "../x.wasm", &scout("1", &[need("repo.read")]));
    let hands = packed(&act, "../y.wasm", &tool());
    act.clone().act(["scout", "probe", "x"]).status(1).stderr_has("no Scout `probe` is approved");
    approve(&act, &path, "probe", &[]).status(0);
    act.clone().act(components(["revoke", "probe"])).status(0);
    act.clone().act(["scout", "probe", "x"]).status(1).stderr_has("`probe` was revoked");
    act.clone().act(["scout", "probe", "--facts"]).status(1).stderr_has("`probe` was revoked");
    approve(&act, &hands, "hands", &[]).status(0);
    act.clone().act(["scout", "hands", "x"]).status(1).stderr_has("answers no question");
    approve(&act, &path, "probe", &["--replaces", "scout-a"]).status(0);
    act.clone()
        .act(["scout", "probe", "x"])
        .status(1)
        .stderr_has("the component replaces `scout-a`");
    let denied = act.clone().act(["audit", "list", "--deny", "--json"]).status(0).json();
    let refused = denied["records"].as_array().unwrap().iter();
    let refused: Vec<_> = refused
        .filter(|record| record["event"] == "component_refused")
        .map(|record| {
            (record["subject"]["name"].as_str().unwrap(), record["reason"].as_str().unwrap())
        })
        .collect();
    let wanted = [
        ("probe", "scout_unknown"),
        ("probe", "component_revoked"),
        ("probe", "component_revoked"),
        ("hands", "component_conflict"),
        ("probe", "scout_unknown"),
    ];
    assert_eq!(refused, wanted);
}

/// CAPABILITY-44: what the user took away stays away, also through a version that does not need it.
#[test]
fn a_version_that_needs_less_between_gives_nothing_back() {
    let act = without_engine();
    let all = [need("repo.read"), need("llm"), need("env")];
    let mut all = all.to_vec();
    all[2]["names"] = json!(["FOO"]);
    let first = packed(&act, "../x.wasm", &scout("1", &all));
    let between = packed(&act, "../y.wasm", &scout("2", &[]));
    let again = packed(&act, "../z.wasm", &scout("3", &all));
    approve(&act, &first, "probe", &["--without", "env"]).status(0);
    act.clone().act(components(["narrow", "probe", "--drop", "llm", "--path", "src"])).status(0);
    let told = approve(&act, &between, "probe", &[]).status(0);
    told.stderr_has("no llm").stderr_has("no env").stderr_has("approve --anew");
    assert_eq!(shown(&act, "probe")["component"]["grants"].get("repo.read"), None);
    approve(&act, &again, "probe", &[]).status(0);
    let component = &shown(&act, "probe")["component"];
    assert_eq!(component["grants"].get("llm"), None, "{component:#}");
    assert_eq!(component["grants"].get("env"), None, "{component:#}");
    assert_eq!(component["grants"]["repo.read"]["paths"], json!(["src"]), "{component:#}");
    assert_eq!(component["narrowed"]["withheld"], json!(["env", "llm"]), "{component:#}");
    // Also after a revocation in between.
    act.clone().act(components(["revoke", "probe"])).status(0);
    approve(&act, &again, "probe", &[]).status(0);
    assert_eq!(shown(&act, "probe")["component"]["grants"].get("llm"), None);
    approve(&act, &again, "probe", &["--anew"]).status(0);
    let component = &shown(&act, "probe")["component"];
    assert_eq!(component["grants"]["llm"]["calls"], 32, "{component:#}");
    assert_eq!(component["narrowed"], json!({}), "{component:#}");
}

/// CAPABILITY-46: a number beyond what is ever given is refused with its place, and nothing is loaded.
#[test]
fn a_limit_that_nobody_could_mean_is_refused_with_its_place() {
    let act = without_engine().script("turns: []");
    let path = packed(&act, "../x.wasm", &scout("1", &[need("repo.read"), need("llm")]));
    approve(&act, &path, "probe", &[]).status(0);
    let text = fs::read_to_string(grants(&act)).unwrap();
    for (name, wide) in [
        ("memory_bytes", "9007199254740992"),
        ("handles", "4294967295"),
        ("wall_ms", "18446744073709551615"),
        ("calls", "4294967295"),
        ("query_bytes", "9007199254740992"),
    ] {
        let (at, line) = text
            .lines()
            .enumerate()
            .find(|(_, line)| line.starts_with(&format!("{name} =")))
            .unwrap_or_else(|| panic!("{name}\n{text}"));
        fs::write(grants(&act), text.replacen(line, &format!("{name} = {wide}"), 1)).unwrap();
        let place = format!("grants.toml:{}:", at + 1);
        for words in
            [&["scout", "probe", "batch-list"][..], &["scout", "a", "--facts"], &["components"]]
        {
            let told = act.clone().act(words.iter().copied()).status(1);
            told.stderr_has(&place);
        }
    }
    assert_eq!(count(&act, "component_loaded"), 0);
    let unknown = "[component.grants]\nwithheld = [\"all\"]\n\n[component.grants.";
    fs::write(grants(&act), text.replacen("[component.grants.", unknown, 1)).unwrap();
    act.clone().act(["components"]).status(1).stderr_has("`all` is not a grant");
    // Its author gets the message as well, before anybody is asked to approve it.
    fs::remove_file(grants(&act)).unwrap();
    let mut wide = scout("1", &[]);
    wide["limits"] = json!({"memory_mb": 9_007_199_254_740_992_u64});
    let manifest = act.repo().parent().unwrap().join("manifest.json");
    fs::write(&manifest, wide.to_string()).unwrap();
    let mut words = components(["pack"]);
    words.extend([path.into_os_string(), "--manifest".into(), manifest.into_os_string()]);
    let told = act.clone().act(words).status(1);
    told.stderr_has("wrong `limits.memory_mb`: 9007199254740992 is not from 1 to 4096");
}

/// CAPABILITY-46: what may be given by hand is given below the ceiling.
#[test]
fn a_wider_limit_within_the_most_stays_below_the_ceiling() {
    let act = without_engine();
    let path = packed(&act, "../x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "probe", &[]).status(0);
    let text = fs::read_to_string(grants(&act)).unwrap();
    let wider = text.replacen("memory_bytes = 268435456", "memory_bytes = 1073741824", 1);
    assert_ne!(wider, text);
    fs::write(grants(&act), wider).unwrap();
    let memory = |act: &Act| shown(act, "probe")["effective"]["limits"]["memory_bytes"].clone();
    assert_eq!(memory(&act), 1_u64 << 30);
    let policy = act.repo().parent().unwrap().join("policy.toml");
    fs::write(&policy, "[ceiling.limits]\nmemory_bytes = 67108864\n").unwrap();
    assert_eq!(memory(&act.clone().env("ACT_POLICY_FILE", &policy)), 64 << 20);
}

/// A terminal whose keyboard is `keys`, a FIFO that the test writes to.
fn at_a_slow_terminal(act: &Act, path: &Path, keys: &Path) -> Running {
    let command = format!("{} components approve {} --name probe", program(), path.display());
    let mut script = Command::new("sh");
    script.args(["-c", "exec script -qec \"$0\" /dev/null < \"$1\"", &command]).arg(keys);
    act.clone().env("NO_COLOR", "1").start_command(script)
}

/// CAPABILITY-21, CAPABILITY-44: the answer is to what was shown; what was decided meanwhile is not undone by it.
#[test]
fn a_yes_does_not_undo_what_was_decided_while_the_question_stood() {
    let act = without_engine();
    let first = packed(&act, "../x.wasm", &scout("1", &[need("repo.read"), need("llm")]));
    let second = packed(&act, "../y.wasm", &scout("2", &[need("repo.read"), need("llm")]));
    approve(&act, &first, "probe", &[]).status(0);
    let keys = act.repo().parent().unwrap().join("keys");
    assert!(Command::new("mkfifo").arg(&keys).status().unwrap().success());
    let terminal = at_a_slow_terminal(&act, &second, &keys);
    let mut hands = OpenOptions::new().write(true).open(&keys).unwrap();
    terminal.until_stdout_has("Type `yes`");
    act.clone().act(components(["narrow", "probe", "--drop", "llm"])).status(0);
    let before = fs::read(grants(&act)).unwrap();
    hands.write_all(b"yes\n").unwrap();
    drop(hands);
    let told = terminal.wait().status(1);
    assert!(told.stdout_text().contains("was changed by another process meanwhile"), "{told}");
    assert_eq!(fs::read(grants(&act)).unwrap(), before);
    assert_eq!(count(&act, "component_approved"), 2, "the approval and the narrowing");
}

/// CAPABILITY-37, AUDIT-7: several approvals of one name at the same time each succeed or are refused, and all are
/// recorded.
#[test]
fn two_who_approve_at_once_are_in_one_line() {
    let act = without_engine();
    let files: Vec<_> = (0..4)
        .map(|n| {
            packed(&act, &format!("../{n}.wasm"), &scout(&n.to_string(), &[need("repo.read")]))
        })
        .collect();
    let other = packed(&act, "../other.wasm", &scout("9", &[need("repo.read")]));
    approve(&act, &other, "first", &[]).status(0);
    let start = |path: &PathBuf, name: &str| {
        let mut words = components(["approve"]);
        words.extend([path.into(), "--name".into(), name.into()]);
        words.extend(["--sha256".into(), sha256_of(path).into()]);
        act.clone().start(words)
    };
    let mut running: Vec<_> = files.iter().map(|path| start(path, "probe")).collect();
    running.push(start(&other, "other"));
    let told: Vec<_> = running.into_iter().map(|one| one.wait()).collect();
    let won = told[..4].iter().filter(|one| one.ended_well()).count();
    assert!(won >= 1 && told[4].ended_well(), "{}", told[4]);
    for lost in told.iter().filter(|one| !one.ended_well()) {
        assert!(lost.stderr_text().contains("was changed by another process meanwhile"), "{lost}");
    }
    assert_eq!(count(&act, "component_approved"), won + 2);
    let last = act
        .audit_records()
        .into_iter()
        .rfind(|record| record["subject"]["name"] == "probe")
        .unwrap();
    assert_eq!(shown(&act, "probe")["component"]["sha256"], last["subject"]["sha256"]);
    assert_eq!(shown(&act, "other")["component"]["state"], "approved");
    act.clone().act(["audit", "verify"]).status(0);
}

/// CAPABILITY-47: two in one place would stop every task, so the second one is not let in.
#[test]
fn a_place_is_taken_once_where_it_counts() {
    let act = without_engine();
    let first = packed(&act, "../x.wasm", &scout("1", &[need("repo.read")]));
    let second = packed(&act, "../y.wasm", &scout("2", &[need("repo.read")]));
    approve(&act, &first, "one", &["--replaces", "scout-a", "--here"]).status(0);
    let before = fs::read(grants(&act)).unwrap();
    for more in [&["--replaces", "scout-a"][..], &["--replaces", "scout-a", "--here"]] {
        let told = approve(&act, &second, "two", more).status(1);
        told.stderr_has("`one` replaces that component already").stderr_has("revoke one");
    }
    assert_eq!(fs::read(grants(&act)).unwrap(), before);
    approve(&act, &second, "two", &["--replaces", "scout-b"]).status(0);
    act.clone().act(components(["revoke", "one"])).status(0);
    approve(&act, &second, "two", &["--replaces", "scout-a"]).status(0);
}

/// CAPABILITY-25, security line 39: whatever lies in the way of the store, other bytes than the approved are not
/// loaded, and nothing outside of it is written.
#[test]
fn what_lies_in_the_way_of_the_store_changes_nothing() {
    let act = without_engine().script("turns: []");
    let path = packed(&act, "../x.wasm", &scout("1", &[need("repo.read")]));
    let sha256 = sha256_of(&path);
    let around = act.repo().parent().unwrap().to_owned();
    act.clone().act(["audit", "verify"]).status(0);
    let store = act.artifacts().join("state/components");
    // A store that is a link leads nowhere.
    let outside = around.join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, &store).unwrap();
    approve(&act, &path, "probe", &[]).status(1).stderr_has("cannot be written");
    assert!(fs::read_dir(&outside).unwrap().next().is_none() && !grants(&act).exists());
    fs::remove_file(&store).unwrap();
    // Neither does a file of that name that is a link, a directory or a FIFO.
    fs::create_dir(&store).unwrap();
    let (stored, victim) = (store.join(format!("{sha256}.wasm")), around.join("victim"));
    fs::write(&victim, "mine\n").unwrap();
    symlink(&victim, &stored).unwrap();
    approve(&act, &path, "probe", &[]).status(0);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
    assert_eq!(sha256_of(&stored), sha256, "the bytes themselves");
    let facts = |exit: i32, says: &str| {
        let told = act.clone().act(["scout", "probe", "batch-list", "--facts"]).status(exit);
        told.stderr_has(says);
    };
    for swap in ["link", "fifo", "directory", "bytes", "nothing"] {
        let _ = fs::remove_file(&stored);
        let says = match swap {
            "link" => symlink(&path, &stored).map(|()| "has changed").unwrap(),
            "fifo" => {
                assert!(Command::new("mkfifo").arg(&stored).status().unwrap().success());
                "has changed"
            }
            "directory" => fs::create_dir(&stored).map(|()| "has changed").unwrap(),
            "bytes" => {
                let mut bytes = fs::read(&path).unwrap();
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
                fs::write(&stored, bytes).map(|()| "has changed").unwrap()
            }
            _ => "is missing",
        };
        facts(1, says);
        let _ = fs::remove_dir(&stored);
    }
    assert_eq!(count(&act, "component_loaded"), 0, "none of them was let in");
    assert_eq!(count(&act, "component_refused"), 5);
}

/// CLI-55: on a narrow terminal a value stays beside its name, and a digest in one piece; a program gets whole lines.
#[test]
fn who_may_do_what_can_be_read_on_a_narrow_terminal() {
    let act = without_engine();
    let path = packed(&act, "../x.wasm", &scout("1", &[need("repo.read"), need("llm")]));
    approve(&act, &path, "probe", &[]).status(0);
    for words in ["components show scout-a", "components show probe", "audit grants"] {
        let mut script = Command::new("script");
        let command = format!("stty cols 60 rows 40; {} {words}", program());
        script.args(["-qec", &command, "/dev/null"]);
        let told = act.clone().env("NO_COLOR", "1").start_command(script).wait().status(0);
        let text = told.stdout_text().replace('\r', "");
        let folded = text.lines().filter(|line| line.starts_with("    ")).count();
        assert!(folded > 0, "{told}");
        for line in text.lines() {
            let fits = line.trim_end().chars().count() <= 60;
            assert!(fits || line.split(' ').any(|word| word.len() > 30), "{line:?} {told}");
        }
        let whole = act.clone().act(words.split(' ')).status(0);
        let longest = whole.stdout_text().lines().map(str::len).max().unwrap();
        assert!(longest > 60, "{whole}");
    }
    let shown = act.clone().act(components(["show", "scout-a"])).status(0);
    let shown = shown.stdout_has("part of act").stdout_has("reads files of the repository");
    shown.stdout_has("asks your model");
}

fn anchor(act: &Act, text: &str) {
    let path = grants(act).parent().unwrap().join("anchor");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// AUDIT-22, AUDIT-23: not only tasks; whatever leaves grants or records waits until the head is elsewhere, and sends
/// the new one after.
#[test]
fn every_act_that_leaves_grants_or_records_is_anchored() {
    let plain = without_engine().script("turns: []");
    let policy = plain.repo().parent().unwrap().join("policy.toml");
    fs::write(&policy, "require_anchor = true\n").unwrap();
    let act = plain.clone().env("ACT_POLICY_FILE", &policy);
    let path = packed(&act, "../x.wasm", &scout("1", &[need("repo.read"), need("llm")]));
    let other = packed(&act, "../y.wasm", &scout("2", &[need("repo.read")]));
    approve(&act, &path, "probe", &[]).status(1).stderr_has("there is no command for it");
    assert!(!grants(&act).exists());
    let sent = act.repo().parent().unwrap().join("sent");
    let send = format!("echo \"$ACT_AUDIT_SEQ $ACT_AUDIT_HEAD\" >> {}", sent.display());
    let heads = || fs::read_to_string(&sent).unwrap_or_default().lines().count();
    anchor(&act, &send);
    approve(&act, &path, "probe", &[]).status(0);
    assert_eq!(heads(), 2, "before and after");
    let last = fs::read_to_string(&sent).unwrap().lines().last().unwrap().to_owned();
    let approved =
        act.audit_records().into_iter().rfind(|one| one["event"] == "component_approved").unwrap();
    assert_eq!(last, format!("{} {}", approved["seq"], approved["hash"].as_str().unwrap()));

    let acts = |other: &Path| {
        let approve =
            ["components", "approve", other.to_str().unwrap(), "--name", "second", "--sha256"];
        let mut approve: Vec<_> = approve.map(str::to_owned).to_vec();
        approve.push(sha256_of(other));
        let more = [
            "components narrow probe --drop llm",
            "scout probe batch-list",
            "scout probe batch-list --facts",
            "components revoke probe",
        ];
        let more = more.map(|line| line.split(' ').map(str::to_owned).collect());
        [vec![approve], more.to_vec()].concat()
    };
    let before = fs::read(grants(&act)).unwrap();
    anchor(&act, "exit 3");
    for words in acts(&other) {
        let told = act.clone().act(&words).status(1);
        told.stderr_has("could not be sent (failed)");
        assert_eq!(fs::read(grants(&act)).unwrap(), before, "{words:?}");
    }
    assert_eq!(count(&act, "component_loaded"), 0);
    anchor(&act, &send);
    for words in acts(&other) {
        let (known, anchored) = (heads(), count(&act, "anchored"));
        let told = act.clone().act(&words);
        assert_eq!(
            (heads() - known, count(&act, "anchored") - anchored),
            (2, 2),
            "{words:?} {told}"
        );
    }
    // Before a restart of the log, the head in the store is sent.
    let log = act.audit_log();
    let kept = act.audit_records().pop().unwrap();
    fs::remove_file(&log).unwrap();
    anchor(&act, "exit 3");
    act.clone().act(["audit", "restart"]).status(1).stderr_has("could not be sent");
    assert!(!log.exists());
    anchor(&act, &send);
    let known = heads();
    act.clone().act(["audit", "restart"]).status(0);
    let text = fs::read_to_string(&sent).unwrap();
    let first = text.lines().nth(known).unwrap();
    assert_eq!(first, format!("{} {}", kept["seq"], kept["hash"].as_str().unwrap()));
    assert_eq!((heads() - known, count(&act, "anchored")), (2, 2));
    let known = heads();
    let seq = act.audit_records()[0]["seq"].to_string();
    act.clone().act(["audit", "verify"]).status(1);
    assert_eq!(heads(), known, "to look leaves nothing");
    act.clone().act(["audit", "verify", "--accept-restart", &seq]).status(0);
    assert_eq!((heads() - known, count(&act, "gap_accepted")), (2, 1));
    act.clone().act(["audit", "verify"]).status(0);
}
