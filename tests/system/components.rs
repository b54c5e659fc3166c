//! Approved components in a task, and what is known of them afterwards.

use std::fs;

use serde_json::json;

use crate::harness::components::{approve, components, need, packed, scout, tool};
use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::{Act, image};

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
        told.document("components-show")
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

/// CAPABILITY-60, AUDIT-24, security line 751: what a developer is still building is named wherever the run is.
#[test]
fn a_run_with_a_component_in_development_says_so_everywhere() {
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file("docs/a.txt", "there\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let project = act.repo().parent().unwrap().join("project");
    fs::create_dir(&project).unwrap();
    let bare =
        std::path::Path::new(act_component::builtin::TEST_COMPONENTS).join("hostile-tool.wasm");
    fs::copy(&bare, project.join("source.bin")).unwrap();
    fs::write(project.join("manifest.json"), tool().to_string()).unwrap();
    let packed =
        act_component::pack_manifest(&fs::read(&bare).unwrap(), tool().to_string().as_bytes());
    let sha256 = act_workspace::digest(&packed.unwrap());
    let watch = [
        "components",
        "watch",
        project.to_str().unwrap(),
        "--dev",
        "--name",
        "more-hands",
        "--sha256",
        &sha256,
        "--build",
        "cp source.bin out.wasm",
        "--output",
        "out.wasm",
    ];
    let watching = act.clone().start(watch);
    watching.until_stderr_has_or_end("In force");
    let mut turns = opening("write it");
    turns.push(call("more-hands__read", json!(["docs/a.txt"])));
    let turns = turns.into_iter().chain(attempt("right\n")).chain([done()]);
    let told =
        act.clone().script(&script(turns)).act(["run", "write the answer", "--json"]).status(0);
    watching.signal(rustix::process::Signal::TERM);
    watching.wait().status(0);
    let run = told.runs().pop().unwrap();
    let manifest = told.manifest(&run);
    let components = manifest["components"].as_array().unwrap();
    let dev: Vec<_> = components.iter().filter(|one| one["dev_component"] == true).collect();
    assert!(
        dev.len() == 1 && dev[0]["name"] == "more-hands" && dev[0]["sha256"] == sha256.as_str(),
        "{manifest:#}"
    );
    assert!(components[0].get("dev_component").is_none(), "{manifest:#}");
    let summary = told.read("agent/summary.md");
    assert!(
        summary.contains("dev_component: more-hands") && summary.contains(&sha256),
        "{summary}"
    );
    let statement = act.clone().act(["audit", "export", "--in-toto", &run]).status(0).json();
    let parts = statement["predicate"]["configuration"].as_array().unwrap();
    let marked: Vec<_> =
        parts.iter().filter(|part| part["annotations"]["dev_component"] == "true").collect();
    assert!(marked.len() == 1 && marked[0]["name"] == "more-hands", "{statement:#}");
    let record = parts.last().unwrap();
    assert_eq!(
        record["annotations"]["dev_component"],
        format!("more-hands {sha256}"),
        "{statement:#}"
    );
    let explained = act.clone().act(["audit", "explain", &run, "--json"]).status(0).json();
    assert_eq!(
        explained["dev_components"],
        json!([format!("more-hands {sha256}")]),
        "{explained:#}"
    );
    assert!(explained["warnings"].to_string().contains("dev_component"), "{explained:#}");
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
        let response = act.clone().act(["verify", "--json"]).status(0).json();
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
    assert!(
        warning["message"].as_str().unwrap().ends_with("turns it on for \"fetch\""),
        "{warning}"
    );
    let told = act.clone().act(["audit", "list", "--json"]).status(0);
    let walls = told.json()["records"].as_array().unwrap().iter().rev().find_map(|record| {
        (record["event"] == "container_inspected").then(|| record["names"].to_string())
    });
    assert!(walls.unwrap().contains("network=none"), "{told}");
}

/// CONFIG-18: an `agent.yaml` that asks for more gets what `policy.toml` allows.
#[test]
fn the_administrator_bounds_the_resources_and_the_time_of_a_step() {
    let yaml = json!({
        "verification": {
            "container_image": image(),
            "steps": [{"name": "wait", "command": "sleep 60"}],
            "limits": {"cpus": 64, "memory_mb": 4096, "pids": 4096},
        },
        "timeouts": {"verification_step": 600_000},
    });
    let act = Act::new().file("agent.yaml", yaml.to_string());
    let policy = act.repo().parent().unwrap().join("policy.toml");
    let bounds = "[timeouts]\nverification_step = 2000\n[verifier.limits]\ncpus = 1\nmemory_mb = 128\npids = 64\n";
    fs::write(&policy, bounds).unwrap();
    let act = act.env("ACT_POLICY_FILE", &policy);
    let response = act.clone().act(["verify", "--json"]).status(3).json();
    assert_eq!(response["reason"], "timeout", "{response:#}");
    let log = act.act(["audit", "list", "--json"]).status(0).json();
    // The container that closes addresses in the network of the steps runs no step.
    let of_steps = |record: &serde_json::Value| {
        let walls = record["names"].to_string();
        (record["event"] == "container_inspected" && !walls.contains("cap_add=NET_ADMIN"))
            .then_some(walls)
    };
    let inspected = log["records"].as_array().unwrap().iter().rev().find_map(of_steps).unwrap();
    for bound in ["memory=134217728", "pids=64"] {
        assert!(inspected.contains(bound), "{inspected}");
    }
}
