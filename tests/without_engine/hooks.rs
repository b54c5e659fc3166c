//! The gate of other agents, as far as it needs no engine. A gate that cannot be loaded is red without one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::engine::image;
use crate::harness::{Act, Done};

const AGENTS: [&str; 6] = ["claude", "codex", "copilot", "gemini", "cursor", "opencode"];

/// A repository with a gate.
fn repo() -> Act {
    Act::new()
        .pipeline(image(), &[("test", "./test.sh")])
        .file("test.sh", "exit 0\n")
        .file("a.txt", "a\n")
}

/// A repository whose gate is red without an engine, because `agent.yaml` cannot be loaded.
fn red() -> Act {
    Act::new().file("agent.yaml", "verification: {container_image: 3}\n").file("a.txt", "a\n")
}

fn begin(session: &str) -> Vec<u8> {
    json!({"hook_event_name": "SessionStart", "session_id": session, "source": "startup"})
        .to_string()
        .into_bytes()
}

fn stop(session: &str) -> Vec<u8> {
    json!({"hook_event_name": "Stop", "session_id": session, "stop_hook_active": false})
        .to_string()
        .into_bytes()
}

fn call(act: &Act, agent: &str, event: impl Into<Vec<u8>>) -> Done {
    act.clone().stdin(event).act(["verify", "--hook", agent])
}

fn answer(act: &Act, agent: &str, event: impl Into<Vec<u8>>) -> Value {
    call(act, agent, event).status(0).json()
}

fn records(act: &Act) -> Vec<PathBuf> {
    let hooks = act.artifacts().join("state/hooks");
    let files = fs::read_dir(hooks).into_iter().flatten().map(|entry| entry.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("s-")).collect()
}

/// Gives a file to another user, where the caller may do that.
fn given_away(path: &std::path::Path) -> bool {
    std::os::unix::fs::chown(path, Some(12_345), None).is_ok()
}

fn text(answer: &Value) -> String {
    let names = ["reason", "systemMessage", "followup_message", "message", "notice"];
    names.iter().find_map(|name| answer[name].as_str()).unwrap_or_default().to_owned()
}

// HOOK-5: without an engine every verification is "not verified", so `{}` proves that there was none.
#[test]
fn a_tree_that_has_not_changed_since_the_session_began_needs_no_engine() {
    for agent in AGENTS {
        let act = repo();
        assert_eq!(answer(&act, agent, begin("s1")), json!({}), "{agent}");
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_eq!(answer(&act, agent, stop("s1")), json!({}), "{agent}");
        fs::write(act.repo().join("a.txt"), "b\n").unwrap();
        let done = call(&act, agent, stop("s1")).status(0);
        let said = format!("{}{}", text(&done.json()), done.stderr_text());
        assert!(said.contains("not verified") && said.contains("Docker unavailable"), "{done}");
        assert!(done.json().get("decision").is_none(), "{done}");
    }
}

// HOOK-5
#[test]
fn a_session_whose_beginning_nobody_saw_is_verified_at_its_first_stop() {
    let act = repo();
    assert!(text(&answer(&act, "claude", stop("s1"))).contains("not verified"));
    // The first event of another agent, or of another session, says nothing about this one.
    answer(&act, "claude", begin("s1"));
    assert!(text(&answer(&act, "codex", stop("s1"))).contains("not verified"));
    assert!(text(&answer(&act, "claude", stop("s2"))).contains("not verified"));
}

// HOOK-1, HOOK-7, HOOK-8
#[test]
fn red_holds_three_times_in_a_row_and_then_lets_go() {
    for (agent, held) in [
        ("claude", json!("block")),
        ("codex", json!("block")),
        ("copilot", json!("block")),
        ("gemini", json!("deny")),
    ] {
        let act = red();
        for at in 1..=3 {
            let answer = answer(&act, agent, stop("s"));
            assert_eq!(answer["decision"], held, "{agent}");
            assert!(text(&answer).contains(&format!("block {at} of 3")), "{answer}");
            assert!(text(&answer).contains("checks cannot run"), "{answer}");
        }
        let done = call(&act, agent, stop("s")).status(0);
        let said = format!("{}{}", text(&done.json()), done.stderr_text());
        assert!(
            said.contains("still red after 3") && done.json().get("decision").is_none(),
            "{done}"
        );
    }
    let act = red();
    let one = |session| {
        act.clone().stdin(stop(session)).act(["verify", "--hook", "cursor", "--max-blocks", "1"])
    };
    assert!(one("a").json()["followup_message"].is_string());
    assert!(one("b").json()["followup_message"].is_string());
    assert_eq!(one("a").json(), json!({}));
}

// HOOK-3
#[test]
fn an_agent_that_removes_the_gate_is_held_and_a_project_without_one_is_let_go() {
    let act = repo();
    answer(&act, "claude", begin("s"));
    fs::remove_file(act.repo().join("agent.yaml")).unwrap();
    let held = answer(&act, "claude", stop("s"));
    assert!(text(&held).contains("agent.yaml is gone"), "{held}");
    assert_eq!(answer(&act, "claude", stop("other")), json!({}));
    let none = Act::new().file("a.txt", "a\n");
    assert_eq!(answer(&none, "claude", begin("s")), json!({}));
    assert_eq!(answer(&none, "claude", stop("s")), json!({}));
    assert!(!none.artifacts().exists(), "a project without a gate leaves no trace");
}

// HOOK-3
#[test]
fn the_project_is_that_of_the_agent_and_never_that_of_the_event() {
    let (act, other) = (red(), repo());
    let event = json!({"hook_event_name": "Stop", "session_id": "s", "cwd": other.repo()});
    assert_eq!(answer(&act, "claude", event.to_string())["decision"], "block");
    let away = act.clone().within(other.artifacts().parent().unwrap().join("tmp"));
    assert_eq!(answer(&away, "claude", stop("s")), json!({}));
    let away = away.env("CLAUDE_PROJECT_DIR", act.repo());
    assert_eq!(answer(&away, "claude", stop("s"))["decision"], "block");
}

// HOOK-11
#[test]
fn the_gate_can_be_turned_off_for_a_session_and_for_a_repository() {
    let act = red();
    assert_eq!(answer(&act.clone().env("ACT_HOOK", "off"), "claude", stop("s")), json!({}));
    let off = act.clone().act(["hook", "off", "--json"]).status(0).json();
    assert_eq!((off["on"].clone(), off["changed"].clone()), (json!(false), json!(true)));
    assert_eq!(answer(&act, "claude", stop("s")), json!({}));
    let before: Vec<_> =
        fs::read_dir(act.repo()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(before.len(), 3, "nothing is stored in the repository: {before:?}");
    act.clone().act(["hook", "off"]).status(0).stdout_has("already off");
    act.clone().act(["hook", "on"]).status(0).stdout_has("now on");
    assert_eq!(answer(&act, "claude", stop("s"))["decision"], "block");
}

// HOOK-1, line 360
#[test]
fn arguments_that_are_none_let_the_agent_go() {
    for arguments in [
        &["verify", "--hook", "nobody"][..],
        &["verify", "--hook", "claude", "--new-option"],
        &["verify", "--hook=claude", "--max-blocks", "-1"],
    ] {
        let done = repo().stdin(stop("s")).act(arguments.iter().copied()).status(0);
        assert!(text(&done.json()).contains("not verified"), "{done}");
    }
    repo().act(["verify", "--max-blocks", "3"]).status(2);
}

// HOOK-2, line 361
#[test]
fn an_event_of_100_mb_is_read_to_its_end_and_counts_as_none() {
    let act = red();
    let mut event = br#"{"session_id": "s", "hook_event_name": "SessionStart", "x": ""#.to_vec();
    event.resize(100 << 20, b'x');
    event.extend(b"\"}");
    let done = call(&act, "claude", event).status(0);
    // It is no beginning of a session, whatever it says.
    assert_eq!(done.json()["decision"], "block", "{done}");
    let size = |path: &PathBuf| fs::metadata(path).unwrap().len();
    assert!(records(&act).iter().all(|path| size(path) < 4096));
}

// HOOK-2, HOOK-8, lines 362 and 363
#[test]
fn an_event_that_is_no_json_or_names_no_session_holds_no_agent_for_ever() {
    let deep = format!("{{\"session_id\": {}", "[".repeat(100_000));
    let events: [&[u8]; 9] = [
        b"",
        b"no json",
        b"\xff\xfe\x00",
        b"[]",
        b"{\"session_id\": 3}",
        b"{\"session_id\": \"\"}",
        b"{\"session_id\": null, \"hook_event_name\": \"Stop\"}",
        b"{\"hook_event_name\": [\"SessionStart\"]}",
        deep.as_bytes(),
    ];
    let act = red();
    let answers: Vec<_> = events.map(|event| answer(&act, "claude", event)).to_vec();
    let held = answers.iter().filter(|answer| answer["decision"] == "block").count();
    // One count for all sessions that nobody knows: three blocks, one release, and so on.
    assert_eq!(held, 7, "{answers:?}");
    assert!(text(&answers[3]).contains("still red after 3"), "{answers:?}");
    // Without a session there is no beginning to compare with.
    let act = repo();
    answer(&act, "claude", "{\"hook_event_name\": \"SessionStart\"}");
    assert!(
        text(&answer(&act, "claude", "{\"hook_event_name\": \"Stop\"}")).contains("not verified")
    );
}

// HOOK-4, line 364
#[test]
fn a_session_id_is_no_path() {
    let act = repo();
    let long = "x".repeat(5_000_000);
    for id in ["../../../../tmp/x", "/etc/passwd", "..", "a\0b", "a\nb", "installed.json", &long] {
        answer(&act, "claude", begin(id));
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_eq!(answer(&act, "claude", stop(id)), json!({}), "{id:.40}");
    }
    let names: Vec<_> = fs::read_dir(act.artifacts().join("state/hooks")).unwrap().collect();
    assert_eq!(names.len(), 14, "a record and a list for each id");
    for name in names {
        let name = name.unwrap().file_name().into_string().unwrap();
        let hash = name.strip_prefix("s-").unwrap().trim_end_matches(".list");
        assert!(hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    }
    assert!(!act.artifacts().parent().unwrap().join("tmp/x").exists());
}

// HOOK-4, HOOK-9, line 365
#[test]
fn state_that_others_can_read_or_that_is_a_link_is_not_used_and_lets_go() {
    let act = red();
    let state = act.artifacts().join("state");
    fs::create_dir_all(state.join("hooks")).unwrap();
    for directory in [act.artifacts(), state.clone()] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::set_permissions(state.join("hooks"), fs::Permissions::from_mode(0o755)).unwrap();
    let told = answer(&act, "claude", stop("s"));
    assert!(text(&told).contains("not verified") && text(&told).contains("state/hooks"), "{told}");
    fs::set_permissions(state.join("hooks"), fs::Permissions::from_mode(0o700)).unwrap();
    if given_away(&state.join("hooks")) {
        let told = answer(&act, "claude", stop("s"));
        assert!(text(&told).contains("not verified"), "{told}");
    }
    fs::remove_dir(state.join("hooks")).unwrap();
    let elsewhere = act.artifacts().parent().unwrap().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&elsewhere, state.join("hooks")).unwrap();
    assert!(text(&answer(&act, "claude", begin("s"))).contains("not verified"));
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

// HOOK-4, line 366
#[test]
fn a_record_that_somebody_wrote_by_hand_is_no_permission() {
    let act = red();
    answer(&act, "claude", stop("s"));
    let record = records(&act).pop().unwrap();
    let mut value: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    for (name, wrong) in [
        ("root", json!("/elsewhere")),
        ("agent", json!("codex")),
        ("v", json!(2)),
        ("blocks", json!("many")),
        ("unknown", json!(1)),
    ] {
        let was = value[name].clone();
        value[name] = wrong;
        fs::write(&record, value.to_string()).unwrap();
        let held = answer(&act, "claude", stop("s"));
        assert!(text(&held).contains("block 1 of 3"), "{name}: {held}");
        value[name] = was;
        value.as_object_mut().unwrap().remove("unknown");
    }
    fs::write(&record, vec![b'x'; 1 << 20]).unwrap();
    let told = answer(&act, "claude", stop("s"));
    assert!(text(&told).contains("not verified"), "{told}");
}

// HOOK-4, line 367
#[test]
fn a_repository_that_ships_state_or_hooks_of_act_changes_nothing() {
    let act = red()
        .file(".act/state/hooks/off", "")
        .file("state/hooks/installed.json", "[]")
        .file(".claude/settings.json", "{\"hooks\": {\"Stop\": []}}")
        .file("agent/state/hooks/off", "");
    assert_eq!(answer(&act, "claude", stop("s"))["decision"], "block");
    // ARTIFACT_DIR in the repository is refused, and that lets go with a word.
    let inside = act.clone().env("AGENT_ARTIFACT_DIR", act.repo().join("state"));
    let told = answer(&inside, "claude", stop("s"));
    assert!(text(&told).contains("not verified"), "{told}");
}

// HOOK-4, HOOK-8, line 368
#[test]
fn hooks_of_one_session_at_the_same_time_count_each_block_once() {
    let act = red();
    let running: Vec<_> = (0..8)
        .map(|_| act.clone().stdin(stop("s")).start(["verify", "--hook", "claude"]))
        .collect();
    let answers: Vec<_> = running.into_iter().map(|one| one.wait().status(0).json()).collect();
    let held = answers.iter().filter(|answer| answer["decision"] == "block").count();
    assert_eq!(held, 6, "{answers:?}");
    assert_eq!(records(&act).len(), 1);
}

// HOOK-4
#[test]
fn the_records_of_64_sessions_are_stored_and_no_more() {
    let act = red();
    for session in 0..70 {
        answer(&act, "claude", stop(&session.to_string()));
    }
    assert_eq!(records(&act).len(), 64);
}

// HOOK-7
#[test]
fn nothing_that_acts_on_a_terminal_is_in_an_answer() {
    let yaml = "verification: {container_image: \"\u{1b}[31m\u{202e}x\u{7}\", steps: 3}\n";
    let act = Act::new().file("agent.yaml", yaml);
    let held = answer(&act, "claude", stop("s"));
    let hostile = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!text(&held).chars().any(hostile), "{held}");
}

mod settings {
    use super::*;

    fn path(act: &Act, name: &str) -> PathBuf {
        act.repo().join(name)
    }

    fn init(act: &Act, more: &[&str]) -> Done {
        act.clone().act([&["init"], more].concat())
    }

    // HOOK-20, HOOK-21, HOOK-23, HOOK-24
    #[test]
    fn each_agent_gets_server_and_hook_once_and_undo_leaves_what_was_there() {
        for agent in AGENTS {
            let act = repo();
            let before = files(&act);
            let shown = init(&act, &["--for", agent]).status(1);
            let shown = shown.stdout_has("+").stdout_has("mcp").stderr_has("nothing was written");
            assert_eq!(files(&act), before, "{shown}");
            let done = init(&act, &["--for", agent, "--yes"]).status(0).stdout_has("Wrote");
            assert_ne!(files(&act), before, "{done}");
            let wrote = files(&act);
            init(&act, &["--for", agent, "--yes"]).status(0).stdout_has("Nothing to change");
            assert_eq!(files(&act), wrote);
            let undone = init(&act, &["--for", agent, "--undo", "--yes"]).status(0);
            assert_eq!(files(&act), before, "{undone}");
        }
    }

    /// Every file below the repository with its content.
    fn files(act: &Act) -> Vec<(String, String)> {
        fn walk(directory: &std::path::Path, found: &mut Vec<(String, String)>) {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => walk(&entry.path(), found),
                    false => found.push((
                        entry.path().display().to_string(),
                        fs::read_to_string(entry.path()).unwrap_or_default(),
                    )),
                }
            }
        }
        let mut found = vec![];
        walk(&act.repo(), &mut found);
        found.sort();
        found
    }

    // HOOK-20
    #[test]
    fn the_limit_of_the_hook_is_above_that_of_the_pipeline() {
        let yaml = json!({"verification": {"container_image": image(), "steps": [
            {"name": "a", "command": "true"}, {"name": "b", "command": "true"}]},
            "timeouts": {"verification_step": 1_000_000}});
        let act = Act::new().file("agent.yaml", yaml.to_string());
        init(&act, &["--for", "claude", "--yes"]).status(0);
        let text = fs::read_to_string(path(&act, ".claude/settings.json")).unwrap();
        let settings: Value = serde_json::from_str(&text).unwrap();
        let stop = &settings["hooks"]["Stop"][0]["hooks"][0];
        assert_eq!(stop["timeout"], 2300, "{settings}");
        assert_eq!(stop["command"], "act verify --hook claude --hook-timeout 2300", "{settings}");
    }

    // HOOK-21, HOOK-24
    #[test]
    fn hooks_and_servers_of_others_stay_and_so_does_what_was_changed_since() {
        let mine = "{\n  \"model\": \"x\",\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}\n    ]\n  }\n}\n";
        let act = repo()
            .file(".claude/settings.json", mine)
            .file(".mcp.json", "{\"mcpServers\": {\"other\": {\"command\": \"x\"}}}\n");
        init(&act, &["--for", "claude", "--yes"]).status(0);
        let read = |name: &str| fs::read_to_string(path(&act, name)).unwrap();
        let settings = read(".claude/settings.json");
        assert!(settings.starts_with("{\n  \"model\": \"x\",\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}"), "{settings}");
        assert!(settings.contains("--hook claude") && read(".mcp.json").contains("other"));
        let changed = settings.replacen("\"timeout\": 30", "\"timeout\": 31", 1);
        fs::write(path(&act, ".claude/settings.json"), &changed).unwrap();
        let undone = init(&act, &["--for", "claude", "--undo", "--yes"]).status(0);
        undone.stdout_has("hooks.SessionStart").stdout_has("was changed, so it stays");
        let left = read(".claude/settings.json");
        assert!(left.contains("\"timeout\": 31") && left.contains("say done"), "{left}");
        assert_eq!(left.matches("--hook claude").count(), 1, "{left}");
        let servers: Value = serde_json::from_str(&read(".mcp.json")).unwrap();
        assert_eq!(servers, json!({"mcpServers": {"other": {"command": "x"}}}));
    }

    // HOOK-22, line 370
    #[test]
    fn a_settings_file_that_is_a_link_or_behind_one_is_not_written_through() {
        let outside = |act: &Act| act.artifacts().parent().unwrap().join("outside");
        let act = repo();
        fs::create_dir_all(path(&act, ".claude")).unwrap();
        fs::create_dir(outside(&act)).unwrap();
        fs::write(outside(&act).join("real"), "{}").unwrap();
        symlink(outside(&act).join("real"), path(&act, ".claude/settings.json")).unwrap();
        let refused = init(&act, &["--for", "claude", "--yes"]).status(1);
        refused.stderr_has("symbolic link");
        assert_eq!(fs::read_to_string(outside(&act).join("real")).unwrap(), "{}");
        assert!(!path(&act, ".mcp.json").exists(), "all or nothing");
        let act = repo();
        fs::create_dir(outside(&act)).unwrap();
        symlink(outside(&act), path(&act, ".claude")).unwrap();
        init(&act, &["--for", "claude", "--yes"]).status(1).stderr_has("link");
        assert_eq!(fs::read_dir(outside(&act)).unwrap().count(), 0);
        let act = repo();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path(&act, ".mcp.json"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        init(&act, &["--for", "claude", "--yes"]).status(1).stderr_has("not a regular file");
    }

    // HOOK-22, line 370
    #[test]
    fn a_settings_file_of_another_user_is_not_replaced() {
        let act = repo().file(".mcp.json", "{}\n").file(".claude/settings.json", "{}\n");
        if !given_away(&path(&act, ".mcp.json")) {
            return act_core::testing::skip("only root gives files away");
        }
        init(&act, &["--for", "claude", "--yes"]).status(1).stderr_has("belongs to another user");
        assert_eq!(fs::read_to_string(path(&act, ".mcp.json")).unwrap(), "{}\n");
        assert_eq!(fs::read_to_string(path(&act, ".claude/settings.json")).unwrap(), "{}\n");
    }

    // HOOK-22, line 371
    #[test]
    fn another_server_named_act_is_never_replaced() {
        let other = "{\"mcpServers\": {\"act\": {\"command\": \"somebody-elses-act\"}}}";
        let act = repo().file(".mcp.json", other);
        let refused = init(&act, &["--for", "claude", "--yes"]).status(1);
        refused.stderr_has("mcpServers.act").stderr_has("not from act");
        assert_eq!(fs::read_to_string(path(&act, ".mcp.json")).unwrap(), other);
        assert!(!path(&act, ".claude").exists());
        init(&act, &["--for", "claude", "--undo", "--yes"]).status(0);
        assert_eq!(fs::read_to_string(path(&act, ".mcp.json")).unwrap(), other);
    }

    // HOOK-25
    #[test]
    fn codex_says_how_to_trust_the_hook_and_doctor_does_not_say_that_it_is_trusted() {
        let act = repo().file(".codex/config.toml", "# mine\nmodel = \"m\"\n");
        let done = init(&act, &["--for", "codex", "--yes"]).status(0);
        done.stdout_has("/hooks").stdout_has("trust");
        let text = fs::read_to_string(path(&act, ".codex/config.toml")).unwrap();
        assert!(text.starts_with("# mine\nmodel = \"m\"\n"), "{text}");
        assert!(text.contains("[mcp_servers.act]") && text.contains("[[hooks.Stop]]"), "{text}");
        let doctor = act.clone().act(["doctor"]).status(1);
        doctor.stdout_has("trust: not known").stdout_lacks("ok    hooks");
        init(&act, &["--for", "codex", "--undo", "--yes"]).status(0);
        let text = fs::read_to_string(path(&act, ".codex/config.toml")).unwrap();
        assert_eq!(text.trim(), "# mine\nmodel = \"m\"");
    }

    // HOOK-20
    #[test]
    fn the_settings_of_the_user_name_this_act_by_its_path() {
        let act = repo();
        let before = fs::read_dir(act.repo()).unwrap().count();
        init(&act, &["--for", "gemini", "--scope", "user", "--yes"]).status(0);
        let file = act.artifacts().parent().unwrap().join("home/.gemini/settings.json");
        let settings: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let command = settings["mcpServers"]["act"]["command"].as_str().unwrap();
        assert!(command.starts_with('/') && command.ends_with("/act"), "{settings}");
        let hook = &settings["hooks"]["AfterAgent"][0]["hooks"][0];
        assert_eq!(hook["timeout"], 3_600_000, "{settings}");
        assert_eq!(fs::read_dir(act.repo()).unwrap().count(), before);
    }

    #[test]
    fn a_program_reads_what_would_change() {
        let act = repo();
        let document = init(&act, &["--for", "cursor", "--json"]).status(1).json();
        assert_eq!(document["written"], false);
        assert_eq!(document["files"][0]["action"], "create");
        for (file, line) in ["+  \"mcpServers\": {", "+  \"version\": 1"].iter().enumerate() {
            let diff = document["files"][file]["diff"].as_str().unwrap();
            assert!(diff.contains(line), "{document}");
        }
        assert!(document["notes"][0].as_str().unwrap().contains("cannot be held"), "{document}");
    }
}

mod git {
    use super::*;
    use std::process::Command;

    fn git(act: &Act, arguments: &[&str]) -> Done {
        let mut git = Command::new("git");
        git.args(arguments).env_remove("GIT_DIR");
        act.clone().start_command(git).wait()
    }

    // HOOK-30, HOOK-31
    #[test]
    fn a_pre_push_hook_is_written_and_removed_and_that_of_somebody_else_stays() {
        let act = repo();
        let hook = act.repo().join(".git/hooks/pre-push");
        let install = || act.clone().act(["hook", "git", "install"]);
        install().status(0).stdout_has("pre-push");
        assert_eq!(fs::metadata(&hook).unwrap().permissions().mode() & 0o777, 0o755);
        install().status(0).stdout_has("Unchanged");
        act.clone().act(["hook", "git", "remove"]).status(0).stdout_has("Removed");
        assert!(!hook.exists());
        fs::write(&hook, "#!/bin/sh\nmine\n").unwrap();
        install().status(1).stderr_has("not a hook of act");
        act.clone().act(["hook", "git", "remove"]).status(1);
        assert_eq!(fs::read_to_string(&hook).unwrap(), "#!/bin/sh\nmine\n");
        fs::remove_file(&hook).unwrap();
        symlink("/bin/true", &hook).unwrap();
        install().status(1);
        assert!(hook.is_symlink());
    }

    // HOOK-30
    #[test]
    fn the_hooks_path_of_git_counts_and_a_push_waits_for_the_checks() {
        let act = repo();
        git(&act, &["config", "core.hooksPath", ".githooks"]).status(0);
        act.clone().act(["hook", "git", "install"]).status(0).stdout_has(".githooks/pre-push");
        let hook = act.repo().join(".githooks/pre-push");
        let text = fs::read_to_string(&hook).unwrap();
        assert!(text.contains("\nact verify"), "a file that others get names no path: {text}");
        let bin = act.artifacts().parent().unwrap().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(crate::harness::program(), bin.join("act")).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let act = act.env("PATH", path);
        let run = |act: &Act| act.clone().start_command(Command::new(&hook)).wait();
        // No engine answers here, so nothing is pushed.
        run(&act).status(1).stderr_has("not pushed");
        run(&act.clone().env("ACT_HOOK", "off")).status(0);
        fs::remove_file(act.repo().join("agent.yaml")).unwrap();
        run(&act).status(0);
    }
}
