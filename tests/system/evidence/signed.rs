//! A statement that is signed here and checked elsewhere, and what shows that the log is the one of then.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::{notes, repository, run_id, verified};
use crate::harness::Act;
use crate::harness::tree::git;

/// Makes a key pair beside the repository; `None`, after a report that the test is skipped, without openssl.
fn keys(act: &Act, algorithm: &[&str]) -> Option<[PathBuf; 2]> {
    let beside = act.artifacts().parent().unwrap().to_owned();
    let [private, public] = ["key.pem", "key.pub"].map(|name| beside.join(name));
    let mut made = Command::new("openssl");
    let Ok(made) = made.arg("genpkey").args(algorithm).arg("-out").arg(&private).output() else {
        act_core::testing::skip("no openssl");
        return None;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
    let mut shown = Command::new("openssl");
    shown.args(["pkey", "-pubout", "-in"]).arg(&private).arg("-out").arg(&public);
    assert!(shown.status().unwrap().success());
    Some([private, public])
}

/// AUDIT-24, AUDIT-32: signed for another machine, and compared with the log of this one.
#[test]
fn a_statement_is_signed_and_checked_with_the_public_key() {
    let kinds: [(&str, &[&str]); 2] = [
        ("ed25519", &["-algorithm", "ed25519"]),
        ("p256", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ];
    for (name, kind) in kinds {
        let act = repository(&[("test", "grep -qx right answer.txt")]).file("a/b.txt", "x\n");
        git(&act.repo(), &["init", "-q"], "");
        git(&act.repo(), &["add", "-A"], "");
        git(&act.repo(), &["commit", "-q", "-m", "x"], "");
        let Some([private, public]) = keys(&act, kind) else { return };
        let run = run_id(&verified(&act, 0)).to_owned();
        let plain = super::proved(&act, &run);
        let tree = git(&act.repo(), &["write-tree"], "");
        assert_eq!(plain["subject"][0]["digest"]["gitTree"], tree.trim());
        let sign = ["audit", "export", "--in-toto", &run, "--sign", private.to_str().unwrap()];
        let told = act.clone().act(sign).status(0);
        let envelope = told.document("audit-envelope");
        assert_eq!(envelope["payloadType"], "application/vnd.in-toto+json");
        // The library of another language judges it in `scripts/test`.
        if let Some(directory) = std::env::var_os("ACT_CONFORMANCE_DIR") {
            let directory = PathBuf::from(directory).join("statements");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(format!("{name}.json")), told.stdout_text()).unwrap();
            fs::copy(&public, directory.join(format!("{name}.pub"))).unwrap();
        }
        let file = private.with_file_name("statement.json");
        fs::write(&file, told.stdout_text()).unwrap();
        let claim = |run: &str, exit: i32| {
            let [file, key] = [&file, &public].map(|path| path.to_str().unwrap().to_owned());
            let arguments = ["verify-claim", run, "--json", "--statement", &file, "--key", &key];
            act.clone().act(arguments).status(exit).json()
        };
        let check = claim(&run, 0);
        assert!(notes(&check).contains(&"statement_signed"), "{check:#}");
        let another = run_id(&verified(&act, 0)).to_owned();
        assert_eq!(claim(&another, 1)["code"], "statement_differs");
        let mut tampered: Value = envelope.clone();
        let payload = tampered["payload"].as_str().unwrap().replacen('A', "B", 1);
        tampered["payload"] = json!(payload);
        fs::write(&file, tampered.to_string()).unwrap();
        assert_eq!(claim(&run, 1)["code"], "statement_not_signed");
        fs::write(&file, plain.to_string()).unwrap();
        assert_eq!(claim(&run, 1)["code"], "statement_not_signed");
        fs::set_permissions(&private, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(act.clone().act(sign).status(1).stderr_has("mode").stdout_text(), "");

        // Another tree is named file by file.
        let act = act.file("answer.txt", "right \n").file("a/new.txt", "");
        fs::remove_file(act.repo().join("a/b.txt")).unwrap();
        let told = act.clone().act(["verify-claim", &run]).status(1);
        told.stderr_has("files that differ: a/b.txt, a/new.txt, answer.txt");
    }
}

/// AUDIT-20, AUDIT-33: the head is for another place, and a damaged log is named before what it says.
#[test]
fn a_head_is_printed_and_sent_and_a_damaged_log_is_named_first() {
    let act = repository(&[("test", "true")]);
    let run = run_id(&verified(&act, 0)).to_owned();
    let printed = act.clone().act(["audit", "anchor"]).status(0).stdout_text();
    let (seq, head) = printed.trim().split_once(' ').unwrap();
    let shown = act.clone().act(["audit", "show", seq, "--json"]).status(0).json();
    assert_eq!(shown["hash"], head);
    act.clone().act(["audit", "verify", "--head", head]).status(0).stdout_has("against");
    let refused = act.clone().act(["audit", "anchor", "--send", "--json"]).status(1).json();
    assert_eq!(refused["code"], "anchor_required");
    let command = act.settings_file().with_file_name("anchor");
    fs::create_dir_all(command.parent().unwrap()).unwrap();
    let sent = act.artifacts().parent().unwrap().join("sent");
    let text = format!("echo $ACT_AUDIT_SEQ $ACT_AUDIT_HEAD > {}", sent.display());
    fs::write(&command, text).unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o600)).unwrap();
    let told = act.clone().act(["audit", "anchor", "--send"]).status(0);
    assert_eq!(fs::read_to_string(&sent).unwrap(), told.stdout_text());
    assert_eq!(told.stdout_text(), printed);

    // The damage is in the end of another run.
    verified(&act, 0);
    let mut log = fs::read_to_string(act.audit_log()).unwrap();
    let at = log.rfind("\"allow\"").unwrap();
    log.replace_range(at..at + 7, "\"deny\"");
    fs::write(act.audit_log(), log).unwrap();
    let told = act.clone().act(["audit", "explain", &run]).status(1);
    assert!(told.stdout_text().starts_with("The audit log is damaged: record "), "{told}");
    let found = act.act(["audit", "explain", &run, "--json"]).status(1).json();
    assert!(found["log_damaged"].as_str().unwrap().contains("was changed or is missing"));
}
