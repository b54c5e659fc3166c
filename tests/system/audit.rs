//! `act audit`: what a task leaves in the log, and what is found when somebody touches it.

use std::fs;
use std::path::Path;

use act_workspace::digest;
use serde_json::{Value, json};

use crate::harness::json::schema;
use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::{Act, Done, image, sealed};

/// A repository whose pipeline is green when `answer.txt` says `right`.
fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .file("Makefile", "test:\n\tfalse\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")])
}

/// One task to SUCCESS that also changes what the gate runs, and is refused two edits.
fn task() -> String {
    let rewrite = |path: &str, content: &str| {
        call("full_rewrite", json!({"path": path, "expect_version": 1, "content": content}))
    };
    let turns = opening("write it")
        .into_iter()
        .chain([
            rewrite("Makefile", "test:\n\ttrue\n"),
            call("create", json!({"path": ".git/hooks/pre-commit", "content": "x\n"})),
            call("create", json!({"path": "\u{1b}]0;x\u{7}/../../etc/passwd", "content": "x\n"})),
        ])
        .chain(attempt("right\n"))
        .chain([done()]);
    script(turns)
}

fn lines(act: &Act) -> Vec<String> {
    fs::read_to_string(act.audit_log()).unwrap().lines().map(str::to_owned).collect()
}

fn write(act: &Act, lines: &[String]) {
    fs::write(act.audit_log(), lines.iter().map(|line| format!("{line}\n")).collect::<String>())
        .unwrap();
}

fn of<'a>(records: &'a [Value], event: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["event"] == event).collect()
}

/// The document of a command, checked against its schema.
fn document(act: &Act, name: &str, exit: i32, arguments: &[&str]) -> Value {
    let told = act.clone().act(["audit"].iter().chain(arguments).chain(&["--json"]).copied());
    let told = told.status(exit);
    told.document(name)
}

fn succeeded(act: &Act) -> Done {
    act.clone().script(&task()).run("write the answer").status(0).script_used_up()
}

/// AUDIT-9, AUDIT-10, AUDIT-13, security line 73: everything that a task did is there, and a run can be explained.
#[test]
fn a_task_leaves_who_did_what_with_which_right() {
    let act = repository();
    let told = succeeded(&act);
    let run_id = told.runs().remove(0);
    let all = act.audit_records();
    let task_id = of(&all, "task_started")[0]["task"].as_str().unwrap().to_owned();
    let one_of_task = schema("audit-record");
    for record in &all {
        one_of_task.validate(record).unwrap_or_else(|error| panic!("{error}: {record}"));
        assert_eq!(record["task"].as_str(), Some(task_id.as_str()), "{record}");
        assert!(
            record["repo"]["identity"].is_string() && record["boot_id"].is_string(),
            "{record}"
        );
    }
    // Components, with what was in force; each query says what it used.
    let loaded: Vec<_> =
        of(&all, "component_loaded").iter().map(|r| r["subject"]["name"].clone()).collect();
    assert_eq!(loaded, ["scout-a", "scout-b", "file-tools"]);
    let queries = of(&all, "query");
    let scouts = queries.iter().filter(|query| query["object"] == "ask").count();
    assert!(scouts == 2 && queries.len() >= 7, "{queries:#?}");
    for query in &queries {
        assert!(query["effective_sha256"].is_string() && query["digests"]["input"].is_string());
    }
    let read = queries.iter().find(|query| query["object"] == "read").unwrap();
    assert_eq!(read["counts"]["files"], 1);
    assert_eq!(read["digests"]["files"], digest(b"answer.txt\n"));
    // The first reports are made of facts.
    let asked = queries.iter().find(|query| query["subject"]["name"] == "scout-a").unwrap();
    assert!(asked["counts"]["files"].as_u64() > Some(0), "{asked}");
    assert_eq!(asked["counts"].get("tokens_in"), None, "{asked}");
    // Edits with both digests, and refusals.
    let edits = of(&all, "edit");
    assert_eq!(edits.len(), 2);
    assert_eq!(edits[0]["object"], "Makefile");
    assert_eq!(edits[0]["digests"]["before"], digest(b"test:\n\tfalse\n"));
    assert_eq!(edits[0]["digests"]["after"], digest(b"test:\n\ttrue\n"));
    let refused = of(&all, "edit_refused");
    assert_eq!(
        (refused[0]["object"].as_str(), refused[0]["reason"].as_str()),
        (Some(".git/hooks/pre-commit"), Some("protected"))
    );
    assert_eq!(refused.len(), 2, "{refused:#?}");
    // The gate: what it was, what stood around it, what came out; the manifest names the record.
    let manifest = told.manifest(&run_id);
    let finished = of(&all, "gate_finished")[0];
    assert_eq!(of(&all, "gate_snapshot")[0]["digests"]["pipeline"], manifest["pipeline_sha256"]);
    assert_eq!(finished["digests"]["tree"], manifest["tree_digest"]);
    assert_eq!(
        (&finished["hash"], finished["reason"].as_str()),
        (&manifest["audit_head"], Some("pass"))
    );
    let walls = of(&all, "container_inspected")[0];
    assert!(walls["digests"]["inspect"].is_string(), "{walls}");
    assert!(
        walls["names"].as_array().unwrap().iter().any(|wall| wall == "cap_drop=ALL"),
        "{walls}"
    );
    let inputs: Vec<_> =
        of(&all, "gate_input_changed").iter().map(|r| r["object"].clone()).collect();
    assert_eq!(inputs, ["Makefile", "answer.txt"]);
    assert_eq!(of(&all, "task_finished")[0]["object"], "SUCCESS");
    assert_eq!(all.last().unwrap()["event"], "task_finished");
    let summary = told.read("agent/summary.md");
    assert!(summary.contains("The audit log was at record "), "{summary}");
    // No terminal is acted upon, by the file or by the command.
    assert!(!fs::read_to_string(act.audit_log()).unwrap().contains('\u{1b}'));
    act.clone().act(["audit", "list"]).status(0).inert().stdout_has("protected");

    let explained = document(&act, "audit-explain", 0, &["explain", &run_id]);
    assert_eq!(explained["outcome"], "pass");
    assert_eq!(explained["manifest"]["state"], "agrees", "{explained}");
    for (field, of_manifest) in [
        ("tree_digest", "tree_digest"),
        ("pipeline_sha256", "pipeline_sha256"),
        ("image_digest", "image_digest"),
        ("task_id", "task_id"),
    ] {
        assert_eq!(explained[field], manifest[of_manifest], "{field}");
    }
    let makefile = &explained["gate_inputs_changed"][0];
    assert_eq!(
        (makefile["path"].as_str(), makefile["why"].as_str()),
        (Some("Makefile"), Some("build_script"))
    );
    assert_eq!(makefile["sha256_before"], digest(b"test:\n\tfalse\n"));
    assert_eq!(makefile["sha256_after"], digest(b"test:\n\ttrue\n"));
    let components: Vec<_> = explained["components"].as_array().unwrap().iter().collect();
    assert_eq!(components.len(), 3);
    for component in components {
        let known = manifest["components"].as_array().unwrap().iter();
        let known: Vec<_> = known.filter(|known| known["name"] == component["name"]).collect();
        assert_eq!(known[0]["sha256"], component["sha256"]);
    }
    act.clone()
        .act(["audit", "explain", &run_id])
        .status(0)
        .stdout_has("Makefile (build_script, ")
        .inert();

    let list = document(&act, "audit-list", 0, &["list", "--limit", "1000"]);
    assert_eq!(list["records"].as_array().unwrap(), &all);
    assert_eq!(list["head"]["hash"], all.last().unwrap()["hash"]);
    let denied = document(&act, "audit-list", 0, &["list", "--deny"]);
    assert!(denied["records"].as_array().unwrap().iter().all(|r| r["decision"] != "allow"));
    assert!(!denied["records"].as_array().unwrap().is_empty());
    let scout = document(&act, "audit-list", 0, &["list", "--component", "scout-a"]);
    assert!(scout["records"].as_array().unwrap().iter().all(|r| r["subject"]["name"] == "scout-a"));
    assert_eq!(
        document(&act, "audit-list", 0, &["list", "--task", "t-none00"])["records"],
        json!([])
    );
    assert_eq!(
        document(&act, "audit-list", 0, &["list", "--until", "2020-01-01"])["records"],
        json!([])
    );
    assert_eq!(document(&act, "audit-record", 0, &["show", "2"]), all[1]);
    act.clone().act(["audit", "show", "9999"]).status(1).stderr_has("there is no record 9999");

    let grants = document(&act, "audit-grants", 0, &["grants"]);
    assert_eq!(grants["components"].as_array().unwrap().len(), 3);
    let tools = &grants["components"][0];
    assert_eq!(
        (tools["name"].as_str(), tools["state"].as_str()),
        (Some("file-tools"), Some("in_use"))
    );
    assert!(tools["capabilities"].as_array().unwrap().iter().any(|word| word == "repo.write"));
    let before = document(&act, "audit-grants", 0, &["grants", "--at", "2020-01-01"]);
    assert_eq!(before["components"], json!([]));

    let verified = document(&act, "audit-verify", 0, &["verify"]);
    assert_eq!(
        (verified["ok"].as_bool(), verified["runs_compared"].as_u64()),
        (Some(true), Some(1))
    );
    assert_eq!(verified["store"]["seq"], all.last().unwrap()["seq"], "the last edge");
    let head = manifest["audit_head"].as_str().unwrap();
    assert_eq!(
        document(&act, "audit-verify", 0, &["verify", "--head", head])["asked_seq"],
        finished["seq"]
    );
    document(&act, "audit-verify", 1, &["verify", "--head", &"0".repeat(64)]);
}

/// Sealed again by the published rule, as somebody can who wants to hide what was done.
fn sealed_again(records: &[Value]) -> Vec<String> {
    let mut prev = "0".repeat(64);
    let seal = |record: &Value| {
        let (line, hash) = sealed(record.clone(), &prev);
        prev = hash;
        line
    };
    records.iter().map(seal).collect()
}

#[track_caller]
fn bad(act: &Act, what: &str) -> u64 {
    let found = document(act, "audit-verify", 1, &["verify"]);
    let seq = found["bad"]["seq"].as_u64().unwrap_or_else(|| panic!("{what}: {found}"));
    act.clone().act(["audit", "verify"]).status(1).stdout_has(&format!("Record {seq}"));
    seq
}

/// Security lines 185 and 186: whatever is done to the log afterwards, the first bad record is named and nothing
/// goes on with it until it is set aside.
#[test]
fn a_log_that_was_touched_is_found_and_not_gone_on_with() {
    let act = repository();
    let told = succeeded(&act);
    let (whole, all) = (lines(&act), act.audit_records());
    let count = whole.len();
    let changed = |work: &dyn Fn(&mut Vec<String>)| {
        let mut lines = whole.clone();
        work(&mut lines);
        write(&act, &lines);
    };
    changed(&|lines| lines[6] = lines[6].replacen("\"uid\":", "\"uid\":1", 1));
    assert_eq!(bad(&act, "a byte"), 7);
    changed(&|lines| drop(lines.remove(6)));
    assert_eq!(bad(&act, "deleted"), 7);
    changed(&|lines| lines.swap(6, 7));
    assert_eq!(bad(&act, "swapped"), 7);
    changed(&|lines| lines.insert(6, lines[2].clone()));
    assert_eq!(bad(&act, "inserted"), 7);
    // A log written anew from the refusal on, sound in itself.
    let refused = all.iter().position(|record| record["event"] == "edit_refused").unwrap();
    let mut anew = all.clone();
    anew[refused]["object"] = "harmless.txt".into();
    write(&act, &sealed_again(&anew));
    let finished = all.iter().position(|record| record["event"] == "gate_finished").unwrap();
    assert_eq!(bad(&act, "written anew"), finished as u64 + 1, "the manifest remembers {all:#?}");
    changed(&|lines| lines.truncate(count - 3));
    assert_eq!(bad(&act, "cut"), count as u64 - 2);

    // Nothing begins with it.
    let runs = told.runs();
    let refused = act.clone().script("turns: []").run("again").status(1);
    let refused = refused.stderr_has("was cut or rewritten").stderr_has("act audit restart");
    assert_eq!(refused.runs(), runs);
    assert!(refused.requests().is_empty(), "the model was not asked");
    act.clone().act(["verify"]).status(1).stderr_has("was cut or rewritten");
    act.clone().act(["audit", "restart"]).status(0).stdout_has("now audit.1.jsonl");
    assert_eq!(
        fs::read_to_string(act.artifacts().join("state/audit.1.jsonl")).unwrap().lines().count(),
        count - 3
    );
    act.clone().act(["verify"]).status(0);
    // A restart does not hide the lost records.
    let found = document(&act, "audit-verify", 1, &["verify"]);
    let seq = count as u64 + 1;
    assert_eq!((&found["restarted_at"], &found["history"]), (&json!(seq), &json!("missing")));
    assert_eq!(
        (&found["bad"], &found["earlier"][0]["name"]),
        (&Value::Null, &json!("audit.1.jsonl"))
    );
    act.clone().act(["audit", "verify"]).status(1).stdout_has("History is missing").inert();
    let accept = |seq: &str| ["verify".to_owned(), "--accept-restart".to_owned(), seq.to_owned()];
    let words = accept(&seq.to_string());
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    document(&act, "audit-verify", 1, &["verify", "--accept-restart", "1"]);
    assert_eq!(document(&act, "audit-verify", 0, &words)["history"], "accepted");
    let found = document(&act, "audit-verify", 0, &["verify"]);
    assert_eq!(found["runs_unknown"], json!([]), "its end is in what is left: {found:#}");
    act.clone().act(["audit", "verify"]).status(0).stdout_has("as it is now, by record").inert();
    // The acceptance covers exactly this state of the log.
    let aside = act.artifacts().join("state/audit.1.jsonl");
    let kept = fs::read(&aside).unwrap();
    fs::write(&aside, [&kept[..], b"{}\n"].concat()).unwrap();
    let found = document(&act, "audit-verify", 1, &["verify"]);
    assert_eq!(found["earlier"][0]["reason"], "changed", "{found:#}");
    fs::remove_file(&aside).unwrap();
    let found = document(&act, "audit-verify", 1, &["verify"]);
    assert_eq!(found["earlier"][0]["reason"], "absent", "{found:#}");
    // The log no longer proves that the run ended as its manifest says.
    assert_eq!(found["runs_unknown"][0]["run_id"].as_str(), Some(told.runs()[0].as_str()));
    assert!(found["runs_unknown"][0]["accepted_seq"].is_null(), "{found:#}");
    fs::write(&aside, kept).unwrap();
    document(&act, "audit-verify", 0, &["verify"]);
    // Nor is a run that somebody thinks up beside it.
    let runs = act.artifacts().join("runs");
    let invented = runs.join("run_20200101_000000_aaaaaa");
    let model = runs.join(&told.runs()[0]);
    fs::create_dir_all(&invented).unwrap();
    let manifest = fs::read_to_string(model.join("manifest.json")).unwrap();
    let manifest = manifest.replace(&told.runs()[0], "run_20200101_000000_aaaaaa");
    fs::write(invented.join("manifest.json"), manifest).unwrap();
    // Its logs are compared with its manifest, although no record knows either.
    let shown = act.clone().act(["audit", "verify"]).status(1);
    shown.stdout_has(
        "logs/step-01-test.log of run_20200101_000000_aaaaaa was changed or is missing",
    );
    fs::create_dir(invented.join("logs")).unwrap();
    for log in fs::read_dir(model.join("logs")).unwrap().flatten() {
        fs::copy(log.path(), invented.join("logs").join(log.file_name())).unwrap();
    }
    let found = document(&act, "audit-verify", 1, &["verify"]);
    let all = found["runs_unknown"].as_array().unwrap();
    let open: Vec<_> = all.iter().filter(|run| run["accepted_seq"].is_null()).collect();
    assert_eq!(open.len(), 1, "{found:#}");
    assert_eq!(open[0]["run_id"], "run_20200101_000000_aaaaaa");
    let shown = act.clone().act(["audit", "verify"]).status(1);
    shown.stdout_has("run_20200101_000000_aaaaaa").stdout_has("would be in the missing part");
    fs::remove_dir_all(&invented).unwrap();
    document(&act, "audit-verify", 0, &["verify"]);
    act.clone().act(["audit", "restart"]).status(1).stderr_has("is in order");
}

/// AUDIT-5: no record, no action.
#[test]
fn a_task_does_nothing_that_cannot_be_recorded() {
    let act = repository();
    fs::create_dir_all(act.audit_log()).unwrap();
    let told = act.clone().script(&task()).run("write the answer").status(1);
    let told = told.stderr_has("is a directory, not a log of act");
    assert!(told.requests().is_empty() && told.runs().is_empty());
    act.clone().act(["verify"]).status(1).stderr_has("is a directory");
    act.clone().script(&task()).act(["scout", "a", "where"]).status(1).stderr_has("is a directory");
    assert_eq!(told.read("answer.txt"), "none\n");
    fs::remove_dir(act.audit_log()).unwrap();

    // In the middle of a task the requested action is not performed, and the task ends as INFRA_ERROR.
    let stalled = json!({"role": "editor", "call": {"name": "full_rewrite", "arguments": {
        "path": "answer.txt", "expect_version": 1, "content": "right\n"}}, "delay_ms": 600_000});
    let turns = opening("write it").into_iter().chain([stalled]);
    let running = act.clone().script(&script(turns)).start(["run", "write the answer"]);
    running.until_stderr_has("Implementing changes...");
    fs::rename(act.audit_log(), act.audit_log().with_extension("aside")).unwrap();
    fs::create_dir(act.audit_log()).unwrap();
    running.model().release();
    let told = running.wait().status(4).stdout_has("INFRA_ERROR");
    assert_eq!(told.read("answer.txt"), "none\n");
    let report = told.read("agent/stuck_report.md");
    assert!(
        report.contains("audit_foreign") && report.contains("- audit log: record "),
        "{report}"
    );
    fs::remove_dir(act.audit_log()).unwrap();
    fs::rename(act.audit_log().with_extension("aside"), act.audit_log()).unwrap();
    document(&act, "audit-verify", 0, &["verify"]);
}

/// A file system of two megabytes, unmounted when dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let arguments = ["-t", "tmpfs", "-o", "size=2m", "tmpfs"];
        let mounted = std::process::Command::new("mount").args(arguments).arg(at).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0).status();
    }
}

/// AUDIT-5: on a full disk nothing begins, and the message says why.
#[test]
fn a_full_disk_is_said_before_anything_is_done() {
    let act = repository();
    let artifacts = act.artifacts();
    // Needs root; where it is missing, the other tests hold the rule.
    let Some(_mounted) = SmallDisk::mount(&artifacts) else { return };
    let told = act.clone().script(&task()).run("write the answer").status(0);
    drop(told);
    let filler = artifacts.join("filler");
    let _ = fs::write(&filler, vec![0; 4 << 20]);
    let told = act.clone().script(&task()).run("write the answer");
    assert!(!told.ended_well() && told.requests().is_empty(), "{told}");
    fs::remove_file(&filler).unwrap();
    document(&act, "audit-verify", 0, &["verify"]);
}

/// AUDIT-23: where the administrator wants the head elsewhere, nothing begins that could be taken back unseen.
#[test]
fn nothing_begins_before_the_head_is_elsewhere_if_the_policy_wants_it_there() {
    use std::os::unix::fs::PermissionsExt;
    let act = repository();
    let around = act.repo().parent().unwrap().to_owned();
    let policy = around.join("policy.toml");
    fs::write(&policy, "require_anchor = true\n").unwrap();
    let act = act.env("ACT_POLICY_FILE", &policy);
    for arguments in [&["run", "write the answer"][..], &["run", "--detach", "x"], &["verify"]] {
        let told = act.clone().script("turns: []").act(arguments.iter().copied()).status(1);
        let told = told.stderr_has("sent to another machine: there is no command");
        assert!(told.requests().is_empty() && told.runs().is_empty(), "{told}");
    }
    assert!(!act.artifacts().exists() && !act.repo().join("agent").exists());

    let config = around.join("config/act");
    fs::create_dir_all(&config).unwrap();
    let (anchor, sent) = (config.join("anchor"), config.join("sent"));
    let command = |text: &str| {
        fs::write(&anchor, text).unwrap();
        fs::set_permissions(&anchor, fs::Permissions::from_mode(0o600)).unwrap();
    };
    command("exit 3");
    let told = act.clone().script("turns: []").run("write the answer").status(1);
    let told = told.stderr_has("could not be sent (failed)");
    assert!(told.requests().is_empty() && told.runs().is_empty(), "{told}");
    act.clone().act(["verify", "--json"]).status(1).stdout_has("\"anchor_failed\"");
    assert_eq!(of(&act.audit_records(), "anchored").len(), 2);
    assert!(act.audit_records().iter().all(|record| record["event"] == "anchored"));

    command(&format!("echo \"$ACT_AUDIT_SEQ $ACT_AUDIT_HEAD\" >> {}", sent.display()));
    succeeded(&act);
    let sent = fs::read_to_string(&sent).unwrap();
    let told: Vec<_> = sent.lines().collect();
    let all = act.audit_records();
    let line = |record: &Value| format!("{} {}", record["seq"], record["hash"].as_str().unwrap());
    assert_eq!(told[0], line(&all[1]), "before the task: the last record so far");
    assert_eq!(told[1..], [line(of(&all, "task_finished")[0])]);
    assert_eq!(all[2]["event"], "anchored");
    assert_eq!(all[3]["event"], "task_started");
    document(&act, "audit-verify", 0, &["verify"]);
    // A file that others could have written is no command.
    fs::set_permissions(&anchor, fs::Permissions::from_mode(0o644)).unwrap();
    act.clone().act(["verify"]).status(1).stderr_has("it must be 0600 and owned by you");
}

/// AUDIT-22: only a command of the user's own sends the head off the machine.
#[test]
fn the_head_is_sent_off_by_the_command_of_the_user() {
    use std::os::unix::fs::PermissionsExt;
    let act = repository().file("act/anchor", "touch evil").file("answer.txt", "right\n");
    let config = act.repo().parent().unwrap().join("config/act");
    fs::create_dir_all(&config).unwrap();
    let (anchor, sent) = (config.join("anchor"), config.join("sent"));
    let command =
        format!("echo \"$ACT_AUDIT_SEQ $ACT_AUDIT_HEAD $OPENAI_API_KEY.\" >> {}", sent.display());
    fs::write(&anchor, command).unwrap();
    fs::set_permissions(&anchor, fs::Permissions::from_mode(0o600)).unwrap();
    let act = act.env("OPENAI_API_KEY", crate::harness::CANARY);
    act.clone().act(["verify"]).status(0);
    let told = fs::read_to_string(&sent).unwrap();
    let all = act.audit_records();
    let finished = of(&all, "gate_finished")[0];
    assert_eq!(told, format!("{} {} .\n", finished["seq"], finished["hash"].as_str().unwrap()));
    let anchored = of(&all, "anchored")[0];
    assert_eq!(
        (&anchored["digests"]["head"], &anchored["reason"]),
        (&finished["hash"], &json!("sent"))
    );
    fs::write(&anchor, "exit 3").unwrap();
    act.clone().act(["verify"]).status(0).stderr_has("could not be sent (failed)");
    // Others could have written it.
    fs::set_permissions(&anchor, fs::Permissions::from_mode(0o666)).unwrap();
    act.clone().act(["verify"]).status(0).stderr_has("is not anchored");
    // Or they could have put it there.
    fs::write(&anchor, format!("touch {}", act.repo().join("evil").display())).unwrap();
    fs::set_permissions(&anchor, fs::Permissions::from_mode(0o600)).unwrap();
    for (directory, mode) in [(&*config, 0o777), (config.parent().unwrap(), 0o777)] {
        fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
        act.clone().act(["verify"]).status(1).stderr_has("can write");
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(of(&act.audit_records(), "anchored").len(), 2);
    assert!(!act.repo().join("evil").exists());
}

/// AUDIT-17: a red test is no denial, and the records of one repository are listed alone.
#[test]
fn denials_are_listed_without_red_tests_and_a_repository_alone() {
    let act = Act::new().pipeline(image(), &[("test", "exit 1")]);
    act.clone().act(["verify"]).status(3);
    act.clone().act(["audit", "list", "--deny"]).status(0).stdout("No such record\n");
    let red = act.clone().act(["audit", "list"]).status(0);
    let red = red.stdout_has("gate_finished").stdout_text();
    let other = Act::new().pipeline(image(), &[("test", "true")]);
    let other = other.env("AGENT_ARTIFACT_DIR", act.artifacts());
    other.clone().act(["verify"]).status(0);
    let repo = |act: &Act| act.repo().into_os_string().into_string().unwrap();
    let listed = |of: &Act, act: &Act| {
        let arguments = ["audit", "list", "--json", "--repo", &repo(of)];
        let list = act.clone().act(arguments).status(0).json();
        let records = list["records"].as_array().unwrap().clone();
        let identities: std::collections::BTreeSet<String> =
            records.iter().map(|record| record["repo"]["identity"].to_string()).collect();
        (records.len(), identities)
    };
    let (all, here, there) = (
        act.clone().act(["audit", "list", "--json"]).status(0).json(),
        listed(&act, &other),
        listed(&other, &act),
    );
    assert_eq!((here.1.len(), there.1.len()), (1, 1));
    assert_ne!(here.1, there.1);
    assert!(here.0 + there.0 <= all["records"].as_array().unwrap().len());
    // No task ran there, so the column has the beginning of the identity.
    let identity = here.1.first().unwrap().trim_matches('"').to_owned();
    assert!(red.contains(&identity[..12]), "{identity}\n{red}");
}
