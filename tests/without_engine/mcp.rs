//! `act mcp` as a hostile or broken client meets it. These tests need no engine; those with one are in `tests/system`.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::costs::{PRICES, turns as priced};
use crate::harness::mcp::{SESSION, STATELESS};
use crate::harness::script::script;
use crate::harness::{Act, program};

fn repository() -> Act {
    Act::new()
        .without_engine()
        .file("answer.txt", "right\n")
        .pipeline("busybox:stable", &[("test", "true")])
}

const VERIFY_TOOLS: [&str; 6] = ["verify", "status", "logs", "report", "claim", "cancel"];

// MCP-1, MCP-2
#[test]
fn both_revisions_of_the_protocol_list_the_tools_that_the_person_has_allowed() {
    let mut client = repository().mcp([] as [&str; 0]);
    assert_eq!(client.tools(), VERIFY_TOOLS);
    let all = [&VERIFY_TOOLS[..], &["run", "dry_run", "apply"]].concat();
    assert_eq!(repository().mcp(["--tools", "all"]).tools(), all);

    let mut client = repository().mcp_stateless([] as [&str; 0], json!({}));
    let found = client.request("server/discover", json!({}));
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(
        versions.contains(&json!(STATELESS)) && versions.contains(&json!(SESSION)),
        "{found:#}"
    );
    assert_eq!(client.tools(), VERIFY_TOOLS);
    let schema =
        client.request("tools/list", json!({}))["result"]["tools"][0]["inputSchema"].clone();
    assert_eq!(schema["additionalProperties"], false);
}

// MCP-1
#[test]
fn calls_are_answered_after_the_program_was_replaced() {
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("act");
    // Another process writes the copy, because it could not be started while a child of this one has it open.
    let copied = std::process::Command::new("cp").arg(program()).arg(&copy).status();
    assert!(copied.unwrap().success());
    let mut client = repository().mcp_of(&copy);
    std::fs::remove_file(&copy).unwrap();
    std::fs::write(&copy, "#!/bin/sh\nexit 3\n").unwrap();
    let (answer, is_error) = client.tool("status", json!({}));
    assert!(!is_error, "{answer:#}");
}

// MCP-10
#[test]
fn errors_have_the_codes_and_hints_of_the_command_line() {
    let act = repository();
    let mut client = act.clone().mcp([] as [&str; 0]);
    let at_terminal = act.clone().act(["report", "--json"]).status(1).json();
    let (refusal, is_error) = client.tool("report", json!({}));
    assert!(is_error);
    for field in ["code", "message", "exit_code"] {
        assert_eq!(refusal[field], at_terminal[field], "{field}");
    }
    // No engine: an answer of the verification, and no error of the call.
    let verdict = client.call("verify", json!({}));
    assert_eq!(
        (&verdict["verdict"], &verdict["error_type"]),
        (&json!("INFRA_ERROR"), &json!("docker_unavailable"))
    );
    let none = Act::new().without_engine().mcp([] as [&str; 0]).refused("verify", json!({}));
    assert_eq!(none, Act::new().act(["verify", "--json"]).status(1).json()["code"]);
}

// MCP-3, security line 347
#[test]
fn a_client_reaches_no_repository_but_those_named_at_the_start() {
    let (one, two) = (repository(), repository());
    let two = two.env("AGENT_ARTIFACT_DIR", one.artifacts());
    let path = |act: &Act| act.repo().to_str().unwrap().to_owned();
    let mut client = one.clone().mcp([] as [&str; 0]);
    client.call("status", json!({"repo": path(&one)}));
    let outside = one.repo().parent().unwrap().to_str().unwrap().to_owned();
    for repo in [
        path(&two),
        outside,
        format!("{}/..", path(&one)),
        format!("{}/../../{}", path(&one), two.repo().display()),
        "/".to_owned(),
        "..".to_owned(),
        String::new(),
        "~".to_owned(),
        format!("{}\u{0}", path(&one)),
    ] {
        for tool in ["verify", "status", "logs", "report"] {
            assert_eq!(
                client.refused(tool, json!({"repo": repo})),
                "repo_unknown",
                "{tool} {repo:?}"
            );
        }
    }
    // Several have to be told apart, and a repository that was replaced is not followed.
    let mut both =
        one.clone().mcp(["--repo".to_owned(), path(&one), "--repo".to_owned(), path(&two)]);
    assert_eq!(both.refused("status", json!({})), "repo_needed");
    both.call("status", json!({"repo": path(&two)}));
    fs::rename(two.repo(), two.repo().with_file_name("away")).unwrap();
    std::os::unix::fs::symlink("/", two.repo()).unwrap();
    assert_eq!(both.refused("status", json!({"repo": path(&two)})), "repository_moved");
}

// MCP-3, security line 348
#[test]
fn names_of_runs_and_steps_are_neither_paths_nor_options() {
    let mut client = repository().mcp(["--tools", "all"]);
    for run in [
        "../../etc/passwd",
        "/etc/passwd",
        "--help",
        "-v",
        "run_20200101_000000_aaaaaa",
        "t-aaaaaa",
        "",
        "run_\u{0}",
    ] {
        for tool in ["logs", "claim"] {
            let code = client.refused(tool, json!({"run": run}));
            assert!(["run_id_invalid", "run_unknown"].contains(&&*code), "{tool} {run:?}: {code}");
        }
    }
    for id in ["--show", "-", "--json"] {
        assert_eq!(client.refused("apply", json!({"task_id": id})), "arguments_invalid");
    }
    let code = client.refused("apply", json!({"task_id": "../x"}));
    assert!(code != "no_result", "{code}");
}

// MCP-4, security line 349
#[test]
fn nothing_that_grants_approves_narrows_or_configures_is_a_tool() {
    let mut client = repository().mcp(["--tools", "all"]);
    for name in [
        "approve",
        "components",
        "components_approve",
        "narrow",
        "grant",
        "config",
        "init",
        "audit",
        "edit",
        "shell",
        "cache",
        "verify-claim",
        "Verify",
        "verify ",
        "../verify",
        "",
        "run; id",
        "anchor",
        "doctor",
    ] {
        let answer = client.request("tools/call", json!({"name": name, "arguments": {}}));
        assert_eq!(answer["error"]["code"], -32602, "{name}: {answer:#}");
    }
    // A server for verifications has no tool that changes files, whatever the client sends.
    let mut verifies = repository().mcp([] as [&str; 0]);
    for name in ["run", "dry_run", "apply"] {
        let answer =
            verifies.request("tools/call", json!({"name": name, "arguments": {"text": "x"}}));
        assert_eq!(answer["error"]["code"], -32602, "{name}: {answer:#}");
    }
    for method in [
        "resources/list",
        "prompts/list",
        "completion/complete",
        "sampling/createMessage",
        "roots/list",
    ] {
        let answer = verifies.request(method, json!({}));
        assert!(
            answer
                .get("result")
                .is_none_or(|all| all["resources"] == json!([]) || all["prompts"] == json!([])),
            "{method}: {answer:#}"
        );
    }
}

// MCP-4, security line 350
#[test]
fn no_call_has_a_parameter_for_guarded_paths_or_other_options() {
    let mut client = repository().mcp(["--tools", "all"]);
    for (name, value) in [
        ("allow_path", json!([".github/**"])),
        ("allow-path", json!(".github/**")),
        ("allow_paths", json!([".git/**"])),
        ("allow_test_change", json!("**")),
        ("no_agents_md", json!(true)),
        ("args", json!(["--allow-path", "**"])),
        ("env", json!({"DOCKER_HOST": "tcp://evil"})),
        ("model", json!("evil")),
        ("max_tasks", json!(1000)),
    ] {
        for tool in ["run", "dry_run"] {
            let mut arguments = json!({"text": "x"});
            arguments[name] = value.clone();
            assert_eq!(client.refused(tool, arguments), "arguments_invalid", "{tool} {name}");
        }
        assert_eq!(client.refused("verify", json!({name: value})), "arguments_invalid", "{name}");
    }
    for (tool, arguments) in [
        ("verify", json!({"repo": 7})),
        ("verify", json!({"wait_s": -1})),
        ("verify", json!({"wait_s": 1e30})),
        ("verify", json!({"wait_s": 601})),
        ("verify", json!({"fresh": "yes"})),
        ("cancel", json!({})),
        ("run", json!({})),
        ("run", json!({"text": ["a"]})),
    ] {
        assert_eq!(
            client.refused(tool, arguments.clone()),
            "arguments_invalid",
            "{tool} {arguments}"
        );
    }
}

// MCP-5, security line 351
#[test]
fn a_call_can_lower_a_budget_and_not_raise_it() {
    let script = "turns: []";
    let act = repository().script(script);
    let mut client =
        act.clone().mcp(["--tools", "all", "--max-tokens", "1000", "--max-tasks", "2"]);
    for tokens in [1001, u64::MAX] {
        for tool in ["run", "dry_run"] {
            let arguments = json!({"text": "x", "max_tokens": tokens});
            assert_eq!(client.refused(tool, arguments), "budget_raised");
        }
        assert_eq!(client.refused("apply", json!({"max_tokens": tokens})), "budget_raised");
    }
    assert_eq!(client.refused("run", json!({"text": "x", "max_tokens": 0})), "arguments_invalid");
    // Without a budget at the start, that of the configuration is the highest.
    let act = act.config_toml("[limits]\nmax_tokens = 500\n");
    let mut other = act.clone().mcp(["--tools", "all"]);
    assert_eq!(other.refused("run", json!({"text": "x", "max_tokens": 501})), "budget_raised");
    // A call that the command refuses, because there is no engine, has started no task and spends nothing.
    for _ in 0..5 {
        assert_ne!(client.refused("run", json!({"text": "x", "max_tokens": 999})), "budget_spent");
    }
    for _ in 0..2 {
        let ended = client.call("dry_run", json!({"text": "x", "max_tokens": 999}));
        assert!(ended["task_id"].is_string(), "{ended:#}");
    }
    for tool in ["run", "dry_run"] {
        assert_eq!(client.refused(tool, json!({"text": "x"})), "budget_spent");
    }
}

// MCP-6
#[test]
fn a_task_that_has_ended_is_neither_running_nor_cancelled_while_its_process_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("pid");
    // The command of `notify` runs in the process of the task, which has ended by then.
    let wait = format!("echo $$ > {0}.new; mv {0}.new {0}; sleep 600", file.display());
    let notify = format!("notify = {}\n{PRICES}", json!(["/bin/sh", "-c", wait]));
    let act = repository().config_toml(&notify).script(&script(priced()));
    let mut client = act.clone().mcp(["--tools", "all", "--max-cost", "0.003"]);
    let ended = client.call("dry_run", json!({"text": "write it"}));
    let pid = loop {
        match fs::read_to_string(&file) {
            Ok(pid) => break rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap(),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(rustix::process::test_kill_process(pid).is_ok(), "the process goes on");
    let how = |answer: &Value| (answer["state"].clone(), answer["outcome"].clone());
    assert_eq!(how(&ended), (json!("done"), json!("STUCK")), "{ended:#}");
    for tool in ["status", "cancel"] {
        let answer = client.call(tool, json!({"id": "j-1"}));
        assert_eq!(how(&answer), how(&ended), "{tool}: {answer:#}");
    }
    let stored = act.act(["history", "--json"]).status(0).json();
    assert_eq!(stored["tasks"][0]["state"], "STUCK", "{stored:#}");
}

// MCP-5, MCP-10, line 351
#[test]
fn a_call_can_lower_the_limit_of_cost_and_not_raise_it_and_its_result_names_the_cost() {
    let act = repository().config_toml(PRICES).script(&script(priced()));
    let mut client = act.clone().mcp(["--tools", "all", "--max-cost", "2.5"]);
    for cost in [json!(2.500_000_001), json!(1_000_000)] {
        for tool in ["run", "dry_run"] {
            let arguments = json!({"text": "x", "max_cost": cost});
            assert_eq!(client.refused(tool, arguments), "budget_raised", "{cost}");
        }
        assert_eq!(client.refused("apply", json!({"max_cost": cost})), "budget_raised");
    }
    for cost in
        [json!(0), json!(-1), json!(1e300), json!("1"), json!("$1"), json!([1]), json!(1e-12)]
    {
        let arguments = json!({"text": "x", "max_cost": cost});
        assert_eq!(client.refused("dry_run", arguments), "arguments_invalid", "{cost}");
    }
    // Two requests of $0.0015 reach the limit of the call.
    let ended = client.call("dry_run", json!({"text": "write it", "max_cost": 0.003}));
    assert_eq!(
        (&ended["outcome"], &ended["reason"], &ended["cost_usd"]),
        (&json!("STUCK"), &json!("budget"), &json!("0.003")),
        "{ended:#}"
    );

    // The limit of the start holds for a call that names none.
    let mut low =
        act.clone().script(&script(priced())).mcp(["--tools", "all", "--max-cost", "0.003"]);
    let ended = low.call("dry_run", json!({"text": "write it"}));
    assert_eq!((&ended["reason"], &ended["cost_usd"]), (&json!("budget"), &json!("0.003")));
    // Without one, that of the configuration is the highest.
    let limited = format!("[limits]\nmax_cost = 0.5\n{PRICES}");
    let act = act.config_toml(&limited);
    let mut other = act.clone().mcp(["--tools", "all"]);
    let arguments = json!({"text": "x", "max_cost": 0.51});
    assert_eq!(other.refused("dry_run", arguments), "budget_raised");
    // A limit is worth nothing where the price of the model is not known.
    let mut unknown =
        repository().script(&script(priced())).mcp(["--tools", "all", "--max-cost", "1"]);
    assert_eq!(unknown.refused("dry_run", json!({"text": "x"})), "price_unknown");
}

// MCP-7, security line 352
#[test]
fn only_what_this_server_has_begun_can_be_cancelled_or_followed() {
    let act = repository();
    let mut client = act.clone().mcp([] as [&str; 0]);
    for id in ["j-1", "j-0", "t-abc123", "run_20200101_000000_aaaaaa", "1", "", "--id", "j-1\u{0}"]
    {
        for tool in ["cancel", "status"] {
            assert_eq!(client.refused(tool, json!({"id": id})), "id_unknown", "{tool} {id:?}");
        }
    }
    // Ids of one server mean nothing to another.
    client.call("verify", json!({}));
    client.call("status", json!({"id": "j-1"}));
    let mut other = act.mcp([] as [&str; 0]);
    assert_eq!(other.refused("cancel", json!({"id": "j-1"})), "id_unknown");
}

// MCP-8, security line 353
#[test]
fn broken_lines_and_a_line_of_a_hundred_megabytes_end_nothing_and_take_no_memory() {
    let mut client = repository().mcp([] as [&str; 0]);
    for line in [
        "{",
        "[]",
        "null",
        "\"x\"",
        "{\"jsonrpc\":\"2.0\"}",
        "\u{1}\u{2}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\"}",
        "[[[[[[[[",
        "",
    ] {
        client.send_bytes(format!("{line}\n").as_bytes());
    }
    client.send_bytes(b"\xff\xfe\n\0\n");
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{}1{}}}\n",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    client.send_bytes(deep.as_bytes());
    let piece = vec![b'a'; 1 << 20];
    for _ in 0..100 {
        client.send_bytes(&piece);
    }
    client.send_bytes(b"\n");
    assert_eq!(client.tools(), VERIFY_TOOLS);
    let peak = client.peak_kb();
    assert!(peak.is_none_or(|peak| peak < 200 * 1024), "{peak:?} kB");
}

// MCP-8, security line 354
#[test]
fn thousands_of_calls_and_repeated_ids_are_each_answered() {
    let mut client = repository().mcp([] as [&str; 0]);
    let call = |id: u64, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {"id": "j-9"}}});
    for round in 0..2_000 {
        // Every id twice: the server must not stop.
        client.send(&call(1000 + round / 2, "cancel"));
    }
    // A call whose id repeats that of one without an answer may share its answer.
    let mut unanswered: BTreeSet<u64> = (1000..2000).collect();
    while !unanswered.is_empty() {
        let answer = client.receive();
        let (result, error) = (&answer["result"]["structuredContent"]["code"], &answer["error"]);
        assert!(
            *result == "id_unknown" || *result == "too_many_calls" || error.is_object(),
            "{answer:#}"
        );
        unanswered.remove(&answer["id"].as_u64().unwrap());
    }
    client.tools();
    // Calls that start processes are bounded as well.
    let ids: Vec<_> = (0..200)
        .map(|_| client.ask("tools/call", json!({"name": "status", "arguments": {}})))
        .collect();
    let mut refused = 0;
    let mut answered = 0;
    while answered < ids.len() {
        let answer = client.receive();
        if ids.contains(&answer["id"].as_u64().unwrap()) {
            answered += 1;
            refused +=
                usize::from(answer["result"]["structuredContent"]["code"] == "too_many_calls");
        }
    }
    assert!(refused >= 100, "{refused} of 200 were refused");
    client.call("status", json!({}));
}

// MCP-9, security line 355
#[test]
fn a_huge_text_is_refused_and_a_hostile_one_acts_on_nothing() {
    let mut client = repository().script("turns: []").mcp(["--tools", "all"]);
    let huge = "x".repeat(300 << 10);
    assert_eq!(client.refused("dry_run", json!({"text": huge})), "task_too_large");
    assert_eq!(client.refused("dry_run", json!({"text": ""})), "task_empty");
    let (refusal, _) = client.tool("logs", json!({"run": "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}"}));
    let text = refusal.to_string();
    assert!(
        !text.contains("u001b") && !text.contains("u0007") && !text.contains('\u{202e}'),
        "{text}"
    );
    let (refusal, _) = client.tool("verify", json!({"repo": "\u{1b}[31m".repeat(100_000)}));
    assert!(refusal.to_string().len() < 4_000);
}

// MCP-4, line 450
#[test]
fn the_text_of_a_task_is_never_an_option_or_a_file() {
    let secret = repository().file("secret.txt", "of another\n");
    let file = secret.repo().join("secret.txt").display().to_string();
    for text in ["--help", "-", "--allow-path=**", "--repo=/", "--no-agents-md x", "- --detach"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("--file={file}"), format!("@{file}")])
    {
        let act = repository().file("answer.txt", "none\n").script(&script(priced()));
        let ended = act.clone().mcp(["--tools", "all"]).call("dry_run", json!({"text": text}));
        assert!(ended["outcome"].is_string(), "{text:?}: {ended:#}");
        let requests = act.model_server().requests();
        let asked = requests.first().unwrap_or_else(|| panic!("{text:?}: {ended:#}"));
        let asked = asked.body.to_string();
        let quoted = Value::String(text.clone()).to_string();
        assert!(asked.contains(quoted.trim_matches('"')), "{text:?} is the task: {asked}");
        assert!(!asked.contains("of another"), "{text:?}");
    }
}

// MCP-8, line 451
#[test]
fn answers_to_nothing_and_cancellations_of_nothing_end_nothing() {
    let mut client = repository().mcp([] as [&str; 0]);
    for message in [
        json!({"jsonrpc": "2.0", "id": "x", "result": {}}),
        json!({"jsonrpc": "2.0", "id": 0, "result": {"roots": [{"uri": "file:///", "name": "all"}]}}),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "x"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}),
        json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
        json!({"jsonrpc": "2.0", "method": "notifications/unheard/of", "params": [1]}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}),
    ] {
        client.send(&message);
    }
    // A second beginning, with capabilities that would let a server ask for more, opens nothing.
    let again = json!({"protocolVersion": SESSION, "clientInfo": {"name": "test", "version": "2"},
        "capabilities": {"roots": {"listChanged": true}, "sampling": {}, "elicitation": {}}});
    client.request("initialize", again);
    assert_eq!(client.refused("status", json!({"repo": "/"})), "repo_unknown");
    assert_eq!(client.tools(), VERIFY_TOOLS);
    assert!(
        client.notifications.iter().all(|message| message.get("method").is_none()),
        "the server asks the client for nothing: {:?}",
        client.notifications
    );
}

// MCP-2, MCP-8, line 452
#[test]
fn a_call_before_the_beginning_runs_nothing() {
    let act = repository();
    let mut client = act.clone().mcp_silent([] as [&str; 0]);
    let params = json!({"name": "verify", "arguments": {}});
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let (_, _) = client.close();
    let records = act.clone().act(["audit", "list", "--json"]).status(0).json();
    assert_eq!(records["records"], json!([]), "{records:#}");
}

// MCP-8, line 453
#[test]
fn a_client_that_asks_and_never_reads_takes_no_memory_and_is_gone() {
    let mut client = repository().mcp_unread([] as [&str; 0]);
    let ask = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}}});
    // An answer has more than 5 kB: these would be 500 MB.
    let sent = (0..100_000).take_while(|_| client.try_send(&ask)).count();
    assert!(sent < 100_000, "the server reads on without end");
    assert!(client.peak_kb().is_none_or(|peak| peak < 200 * 1024), "{:?} kB", client.peak_kb());
    assert!(client.ended().success());
}

// MCP-2, line 454
#[test]
fn ids_of_tasks_are_not_guessed_and_their_results_do_not_pile_up() {
    let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let act = repository();
    let mut client = act.clone().mcp_stateless([] as [&str; 0], extension.clone());
    let begin = |client: &mut crate::harness::mcp::Client| {
        let created = client.request("tools/call", json!({"name": "verify", "arguments": {}}));
        created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created:#}")).to_owned()
    };
    let first = begin(&mut client);
    let get = |client: &mut crate::harness::mcp::Client, id: &str| {
        client.request("tasks/get", json!({"taskId": id}))
    };
    let mut another = act.mcp_stateless([] as [&str; 0], extension);
    for id in [&*first, "j-1", "1", "", "t-abc123", "../x", "00000000-0000-4000-8000-000000000000"]
    {
        for method in ["tasks/get", "tasks/cancel"] {
            let answer = another.request(method, json!({"taskId": id}));
            assert!(answer["error"].is_object(), "{method} {id:?}: {answer:#}");
        }
    }
    let wait = |client: &mut crate::harness::mcp::Client, id: &str| {
        while get(client, id)["result"]["status"] == "working" {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait(&mut client, &first);
    assert!(get(&mut client, &first)["result"].is_object());
    // Two times 64 newer ones: each is refused by the engine that is not there, and each has a result.
    let mut last = first.clone();
    for _ in 0..128 {
        last = begin(&mut client);
        wait(&mut client, &last);
    }
    assert!(get(&mut client, &first)["error"].is_object(), "the first one is forgotten");
    assert_eq!(get(&mut client, &last)["result"]["status"], "completed");
}

// MCP-6
#[test]
fn the_end_of_stdin_and_a_signal_end_the_server_at_once_when_nothing_runs() {
    let client = repository().mcp([] as [&str; 0]);
    let (status, took) = client.close();
    assert!(status.success() && took < Duration::from_secs(5));
    let client = repository().mcp_silent([] as [&str; 0]);
    assert!(client.close().0.success(), "a client that says nothing");
    let client = repository().mcp([] as [&str; 0]);
    rustix::process::kill_process(client.pid(), rustix::process::Signal::TERM).unwrap();
    while rustix::process::test_kill_process(client.pid()).is_ok() && !is_zombie(client.pid()) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_zombie(pid: rustix::process::Pid) -> bool {
    let stat =
        fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z")
}

// MCP-1
#[test]
fn a_start_that_cannot_be_is_refused_before_the_protocol_begins() {
    let act = repository();
    let told = act.clone().act(["mcp", "--repo", "/nonexistent/place"]).status(1).stdout("");
    told.stderr_has("name an existing directory");
    act.clone().act(["mcp", "--tools", "everything"]).status(2);
    act.act(["mcp", "--max-tokens", "0"]).status(2);
}

// MCP-2
#[test]
fn an_unknown_revision_is_refused_with_the_known_ones() {
    let mut client = repository().mcp_silent([] as [&str; 0]);
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2099-01-01",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}}}));
    let answer: Value = client.receive();
    assert!(answer["error"].is_object() && answer.to_string().contains(STATELESS), "{answer:#}");
}
