//! A repository of git as users have it: neither git nor what is set up in it is ever run, and looking changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, lsetxattr};
use serde_json::json;

use crate::harness::script::{attempt, done, opening, script};
use crate::harness::tree::{committed, fingerprint, git, with_attributes};
use crate::harness::{Act, image};

/// Each of these changes must result in another fingerprint.
#[test]
fn a_fingerprint_sees_every_kind_of_change() {
    let act = Act::new().file("answer.txt", "none\n").file("other.txt", "x");
    committed(&act);
    let repo = act.repo();
    let answer = repo.join("answer.txt");
    let attributed = with_attributes(&repo);
    std::os::unix::fs::symlink("answer.txt", repo.join("link")).unwrap();
    let mut last = fingerprint(&repo);
    assert_eq!(last, fingerprint(&repo), "looking changes nothing");
    let mut seen = |what: &str| {
        let now = fingerprint(&repo);
        assert_ne!(last, now, "{what}");
        last = now;
    };
    fs::set_permissions(&answer, fs::Permissions::from_mode(0o600)).unwrap();
    seen("a mode");
    let again = fs::read(&answer).unwrap();
    fs::write(&answer, again).unwrap();
    seen("the same bytes written once more");
    fs::rename(&answer, repo.join("y")).unwrap();
    fs::rename(repo.join("y"), &answer).unwrap();
    seen("a name that was taken back");
    fs::write(repo.join(".git/refs/heads/new"), "x").unwrap();
    seen("a ref");
    if attributed {
        lsetxattr(&answer, "user.act.test", b"new", XattrFlags::empty()).unwrap();
        seen("an attribute");
    } else {
        act_core::testing::skip("this file system has no extended attributes");
    }
}

/// Security line 171: neither git nor what its configuration names is ever run, by any command that looks at a
/// repository; and each of them did its work.
#[test]
fn no_command_runs_git_or_what_its_configuration_names() {
    let green = "grep -qx right answer.txt || { echo FAIL: $(cat answer.txt); exit 1; }";
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file(".gitattributes", "* filter=evil diff=evil\n")
        .file("package.json", r#"{"name":"x","scripts":{"test":"node --test"}}"#);
    committed(&act);
    let canary = act.artifacts().with_file_name("canary");
    let trap = |path: PathBuf| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\ntouch {}\nexit 1\n", canary.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let hooks = act.repo().join(".git/hooks");
    for hook in
        ["pre-commit", "post-checkout", "post-index-change", "fsmonitor-watchman", "pre-auto-gc"]
    {
        trap(hooks.join(hook));
    }
    let evil = trap(act.artifacts().with_file_name("monitor"));
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "diff.external",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "credential.helper",
    ] {
        git(&act.repo(), &["config", key, &evil], "");
    }
    // It bites whoever does run git.
    git(&act.repo(), &["status", "--short"], "");
    assert!(canary.exists(), "git runs what its configuration names");
    fs::remove_file(&canary).unwrap();
    let false_git = trap(act.artifacts().with_file_name("bin").join("git"));
    let bin = Path::new(&false_git).parent().unwrap().display().to_string();
    let act = act.env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap()));

    let did = |act: Act, arguments: &[&str], code: i32| {
        let told = act.act(arguments.iter().copied()).status(code);
        assert!(!canary.exists(), "{arguments:?} ran it: {told}");
        told
    };
    let quiet = |act: &Act| act.clone().script("turns: []");
    // There is no agent.yaml yet; afterwards it is ours.
    did(act.clone(), &["init"], 0).stdout_has("agent.yaml");
    assert!(act.repo().join("agent.yaml").is_file());
    did(act.clone(), &["init"], 1).stderr_has("agent.yaml");
    let act = act.pipeline(image(), &[("test", green)]);
    did(quiet(&act), &["doctor"], 0);
    did(quiet(&act), &["doctor", "--excluded"], 0);
    did(act.clone(), &["status"], 0);
    did(act.clone(), &["queue"], 0);
    did(act.clone(), &["report"], 1).stderr_has("no stuck report");
    let turns = || opening("write it").into_iter();
    let proposal = turns().chain(attempt("right\n").into_iter().take(2)).chain([done()]);
    did(act.clone().script(&script(proposal)), &["run", "--dry-run", "x"], 0).stdout_has("+right");
    did(quiet(&act), &["apply"], 0).stdout_has("SUCCESS");
    did(act.clone(), &["verify"], 0);
    did(act.clone(), &["logs"], 0);
    let silent = json!({"role": "editor", "text": "hm"});
    let stuck = turns().chain(attempt("wrong\n"));
    let stuck = stuck.chain([silent.clone(), silent.clone(), silent]);
    did(act.clone().script(&script(stuck)), &["run", "x"], 3);
    did(act.clone(), &["report"], 0).stdout_has("FAIL: wrong");
    let again = turns().chain(attempt("right\n")).chain([done()]);
    let told = did(act.clone().script(&script(again)), &["run", "--baseline", "x"], 0);
    let run_id = told.runs().pop().unwrap();
    for arguments in [
        &["history"][..],
        &["metrics"],
        &["components"],
        &["components", "why", "scout-a", ".git/config"],
        &["scout", "b", "--facts"],
        &["scout", "a", "--facts"],
        &["audit", "list"],
        &["audit", "verify"],
        &["audit", "explain", &run_id],
        &["verify-claim", &run_id],
        &["cache"],
    ] {
        let code = i32::from(arguments[0] == "components" && arguments.len() > 1);
        did(act.clone(), arguments, code);
    }
}
