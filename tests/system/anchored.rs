//! Commands about a run or a proposal that first have to send the head of the audit log away.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::harness::proposals::named;
use crate::harness::script::{call, done, opening, script};
use crate::harness::{Act, image};

fn line(record: &Value) -> String {
    format!("{} {}", record["seq"], record["hash"].as_str().unwrap())
}

/// AUDIT-23: neither the second word on a run nor the changes of a dry run begin before that.
#[test]
fn a_claim_and_a_proposal_wait_until_the_head_is_elsewhere() {
    let act = Act::new().file("answer.txt", "right\n");
    let act = act.pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let response = act.clone().act(["verify", "--json"]).status(0);
    let response = response.json();
    let run = response["run_id"].as_str().unwrap().to_owned();
    let create = call("create", json!({"path": "new.txt", "content": "new\n"}));
    let turns = opening("write it").into_iter().chain([create, done()]);
    let dry = act.clone().script(&script(turns)).act(["run", "--dry-run", "write it"]).status(0);
    let proposal = named(&dry);

    let around = act.repo().parent().unwrap().to_owned();
    let policy = around.join("policy.toml");
    fs::write(&policy, "require_anchor = true\n").unwrap();
    let act = act.env("ACT_POLICY_FILE", &policy).script("turns: []");
    let (config, sent) = (around.join("config/act"), around.join("sent"));
    fs::create_dir_all(&config).unwrap();
    let anchor = |text: &str| {
        fs::write(config.join("anchor"), text).unwrap();
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(config.join("anchor"), mode).unwrap();
    };
    let both = [["verify-claim", &run], ["apply", &proposal]];
    let refused = |says: &str, code: &str| {
        for words in both {
            let (runs, known) = (dry.runs(), act.audit_records());
            let told = act.clone().act(words).status(1).stderr_has(says);
            assert!(told.requests().is_empty() && told.runs() == runs, "{told}");
            assert!(!act.repo().join("new.txt").exists(), "{told}");
            let after = act.audit_records();
            let new = after[known.len()..].iter().map(|record| record["event"].as_str().unwrap());
            // Only what became of the head itself.
            assert!(new.clone().all(|event| event == "anchored"), "{told}");
            assert_eq!(new.count(), usize::from(code == "anchor_failed"), "{told}");
            let words = words.into_iter().chain(["--json"]);
            act.clone().act(words).status(1).stdout_has(&format!("\"{code}\""));
        }
    };
    refused("sent to another machine: there is no command", "anchor_required");
    anchor("exit 3");
    refused("could not be sent (failed)", "anchor_failed");

    anchor(&format!("echo \"$ACT_AUDIT_SEQ $ACT_AUDIT_HEAD\" >> {}", sent.display()));
    let mut known = 0;
    for (words, last) in both.into_iter().zip(["claim_checked", "task_finished"]) {
        let before = act.audit_records().pop().unwrap();
        act.clone().act(words).status(0);
        let all = act.audit_records();
        let last = all.iter().rfind(|record| record["event"] == last).unwrap();
        let text = fs::read_to_string(&sent).unwrap();
        let told: Vec<_> = text.lines().skip(known).collect();
        assert_eq!(told, [line(&before), line(last)], "{words:?}");
        known += told.len();
    }
    assert_eq!(fs::read_to_string(act.repo().join("new.txt")).unwrap(), "new\n");
    act.clone().act(["audit", "verify"]).status(0);
}
