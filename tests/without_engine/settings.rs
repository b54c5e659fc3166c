//! The user's `config.toml`: which file counts, what it selects, and where its key appears.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use act_testing::Wire;
use serde_json::{Value, json};

use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, CANARY, Done};

const STEPS: &[(&str, &str)] = &[("test", "true")];
/// Prints [`CANARY`], which is in no file.
const COMMAND: &str = r#"key_command = ["/bin/sh", "-c", "printf 'sk-canary-%s\n' 0123456789"]"#;

fn repository() -> Act {
    Act::new().without_engine().file("answer.txt", "none\n").pipeline("busybox:stable", STEPS)
}

fn check(told: &Done, name: &str) -> Value {
    let document = told.document("doctor");
    let checks = document["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {document}")).clone()
}

fn answer() -> Value {
    json!({"role": "doctor", "call": {"name": "answer", "arguments": {"word": "ready"}}})
}

/// CONFIG-43, CONFIG-44, CONFIG-47, DOCTOR-10: over each wire, by each kind of key.
#[test]
fn the_file_selects_the_model_and_the_key_is_in_the_header_alone() {
    let keys = [
        (format!("key = \"{CANARY}\""), "`key` in config.toml"),
        ("key_env = \"MY_LLM_KEY\"".to_owned(), "the variable of `key_env`"),
        (COMMAND.to_owned(), "`key_command` in config.toml"),
    ];
    for wire in Wire::ALL {
        let header = if wire == Wire::Messages { "x-api-key" } else { "authorization" };
        for (line, source) in &keys {
            let act = repository().env("MY_LLM_KEY", CANARY);
            let act = act.script_by_file(wire, &script([answer()]), line);
            let told = act.act(["doctor", "--model", "--json"]);
            assert_eq!(check(&told, "model_call")["level"], "ok", "{wire:?} {line}: {told}");
            let model = check(&told, "model")["message"].as_str().unwrap().to_owned();
            for words in ["model: config.toml", "endpoint: config.toml", source, "tools: default"] {
                assert!(model.contains(words), "{words}: {model}");
            }
            let request = &told.requests()[0];
            let sent: Vec<_> =
                request.headers.iter().filter(|(_, value)| value.contains(CANARY)).collect();
            assert_eq!(sent.len(), 1, "{wire:?} {line}");
            assert_eq!(sent[0].0, header);
            assert!(!told.to_string().contains(CANARY), "{told}");
        }
    }
}

/// CONFIG-47: the command runs once for a task with all its conversations, and a server that repeats the key is redacted.
#[test]
fn a_command_gives_its_key_when_the_first_request_needs_it() {
    let act = repository();
    let marker = act.repo().with_file_name("marker");
    let line = format!(
        r#"key_command = ["/bin/sh", "-c", "echo >> {}; pwd >> {0}; printf 'sk-canary-%s\n' 0123456789"]"#,
        marker.display()
    );
    let doctor = act.clone().script_by_file(Wire::ChatCompletions, "turns: []", &line);
    let model = check(&doctor.clone().act(["doctor", "--json"]), "model");
    assert!(model["message"].as_str().unwrap().contains("a key that `/bin/sh` prints"), "{model}");
    assert!(!marker.exists(), "nothing was asked");
    let echo = json!({"error": {"message": format!("your key {CANARY} is unknown")}}).to_string();
    let turns = opening("write it")
        .into_iter()
        .chain(attempt("right\n"))
        .chain([json!({"role": "editor", "status": 503, "body": echo}), done()]);
    let act = act.script_by_file(Wire::ChatCompletions, &script(turns), &line);
    let told = act.act(["run", "--dry-run", "--verbose", "write the answer"]).status(0);
    assert_eq!(fs::read_to_string(marker).unwrap(), "\n/\n", "{told}");
    assert!(told.requests().len() > 3, "{told}");
    assert!(told.stderr_text().contains("[redacted]"), "{told}");
    assert_eq!(told.files_with(CANARY), Vec::<std::path::PathBuf>::new(), "{told}");
    assert!(!told.to_string().contains(CANARY), "{told}");
}

/// CONFIG-47
#[test]
fn a_command_without_a_key_ends_the_task_and_shows_nothing_of_its_output() {
    for (script, why) in [
        ("echo sk-canary-0123456789; exit 1", "exit status: 1"),
        (r"printf 'sk-canary\\033[2J\\n'", "characters that a key cannot have"),
        ("yes sk-canary-0123456789", "printed more than 65536 bytes"),
        ("exit 0", "is empty"),
    ] {
        let line = format!(r#"key_command = ["/bin/sh", "-c", "{script}"]"#);
        let act = repository().script_by_file(Wire::Messages, "turns: []", &line);
        let told = act.clone().act(["run", "--dry-run", "write it"]).status(4).inert();
        let told = told.stderr_has("`/bin/sh` of `key_command` in config.toml").stderr_has(why);
        assert!(told.requests().is_empty() && !told.to_string().contains("canary"), "{told}");
        assert_eq!(
            told.files_with("sk-canary-0123456789").len(),
            usize::from(script.contains("0123456789"))
        );
    }
}

/// CONFIG-40: the file that every command refuses, with its path and what is wrong.
#[test]
fn a_file_that_others_could_have_written_is_refused_by_every_command() {
    let with = |act: &Act| act.clone().script("turns: []");
    type Spoil = fn(&Act);
    let spoils: [(&str, Spoil); 6] = [
        ("has mode 0644", |act| {
            let mode = fs::Permissions::from_mode(0o644);
            fs::set_permissions(act.settings_file(), mode).unwrap();
        }),
        ("is a symbolic link", |act| {
            let real = act.settings_file().with_file_name("real");
            fs::rename(act.settings_file(), &real).unwrap();
            symlink(real, act.settings_file()).unwrap();
        }),
        ("is not a regular file", |act| {
            fs::remove_file(act.settings_file()).unwrap();
            fs::create_dir(act.settings_file()).unwrap();
        }),
        ("is larger than", |act| {
            let file = fs::File::options().write(true).open(act.settings_file()).unwrap();
            file.set_len(100 << 20).unwrap();
        }),
        ("is not UTF-8 text", |act| fs::write(act.settings_file(), b"\xff").unwrap()),
        ("others can write", |act| {
            let mode = fs::Permissions::from_mode(0o777);
            fs::set_permissions(act.settings_file().parent().unwrap(), mode).unwrap();
        }),
    ];
    for (why, spoil) in spoils {
        let act = repository().config_toml("[limits]\nmax_tokens = 7\n");
        spoil(&act);
        let path = act.settings_file().parent().unwrap().display().to_string();
        for command in [&["run", "x"][..], &["run", "--dry-run", "x"], &["verify"], &["scout", "a"]]
        {
            let told = with(&act).act(command.iter().copied()).status(1).inert();
            let told = told.stderr_has(&path).stderr_has(why);
            assert!(told.requests().is_empty() && told.runs().is_empty(), "{told}");
        }
        let told = with(&act).act(["doctor", "--json"]).status(1);
        let settings = check(&told, "settings");
        assert_eq!(settings["level"], "red", "{settings}");
        assert!(settings["message"].as_str().unwrap().contains(why), "{settings}");
    }
}

/// CONFIG-40
#[test]
fn a_file_in_the_repository_is_refused() {
    let act = repository().script("turns: []");
    let inside = act.repo().join("act");
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("config.toml"), "[limits]\nmax_tokens = 7\n").unwrap();
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(inside.join("config.toml"), mode).unwrap();
    let configuration = act.repo();
    let act = act.env("XDG_CONFIG_HOME", configuration);
    act.run("x").status(1).stderr_has("inside of the repository in use");
}

/// CONFIG-41: with the place, whichever command reads it, and also where the environment selects the model.
#[test]
fn a_mistake_in_the_file_is_named_with_its_place() {
    for (text, says) in [
        ("[model]\nendpiont = \"x\"\n", "config.toml:2:1: unknown field `endpiont`"),
        ("[limits]\nmax_tokens = -5\n", "config.toml:2:14: `max_tokens` is a whole number from 1"),
        ("\n[timeouts]\nmodel_total = 3600001\n", "config.toml:3:15: a time limit is"),
        (
            "[model]\nkey = 1\nendpoint = \"http://localhost/v1\"\n",
            "config.toml:2:7: `key` is a text",
        ),
    ] {
        let act = repository().script("turns: []").config_toml(text);
        let told = act.clone().run("x").status(1).stderr_has(says).inert();
        assert!(told.requests().is_empty(), "{told}");
        act.act(["doctor"]).status(1).stdout_has("RED  settings").stdout_has(says);
    }
}

/// CONFIG-43
#[test]
fn a_provider_of_the_environment_wins_as_a_whole_and_the_models_name_wins_alone() {
    let elsewhere = format!(
        "[model]\nendpoint = \"http://127.0.0.1:9/v1\"\nname = \"other\"\nkey = \"{CANARY}\"\ntools = \"schema\"\n"
    );
    let act = repository().script(&script([answer()])).config_toml(&elsewhere);
    let told = act.act(["doctor", "--model", "--json"]);
    assert_eq!(check(&told, "model_call")["level"], "ok", "{told}");
    let request = &told.requests()[0];
    assert_eq!(request.body["model"], "scripted");
    assert!(request.body.get("tools").is_some(), "native tools");
    assert!(!request.headers.iter().any(|(_, value)| value.contains(CANARY)), "{told}");

    let act = repository().script_by_file(Wire::ChatCompletions, &script([answer()]), "");
    let told = act.env("AGENT_LLM_MODEL", "another").act(["doctor", "--model", "--json"]);
    assert_eq!(told.requests()[0].body["model"], "another");
    let model = check(&told, "model")["message"].as_str().unwrap().to_owned();
    assert!(
        model.contains("model: AGENT_LLM_MODEL") && model.contains("endpoint: config.toml"),
        "{model}"
    );
}

/// MODEL-40: a key of the file in a task is found before anything is stored.
#[test]
fn a_task_that_holds_the_key_of_the_file_is_refused() {
    let line = format!("key = \"{CANARY}\"");
    let act = repository().script_by_file(Wire::Messages, "turns: []", &line);
    let told = act.act(["run", "--dry-run", &format!("use {CANARY}")]).status(1);
    let told = told.stderr_has("holds a key").stderr_lacks(CANARY);
    assert!(told.requests().is_empty(), "{told}");
}

/// CONFIG-16, CONFIG-18: the user's limit ends the task, and a flag of the person exceeds it.
#[test]
fn the_users_limit_of_tokens_holds_until_a_flag_replaces_it() {
    let turns =
        || script(opening("write it").into_iter().chain(attempt("right\n")).chain([done()]));
    let act = || repository().script(&turns()).config_toml("[limits]\nmax_tokens = 1000\n");
    act().act(["run", "--dry-run", "write it"]).status(3).stderr_has("token budget");
    act().act(["run", "--dry-run", "--max-tokens", "9000000", "write it"]).status(0);
}

/// MODEL-52, CONFIG-45: a whole task in which every call is a JSON object as text.
#[test]
fn a_model_that_writes_its_calls_as_text_works_on_a_task() {
    let as_text = |turn: Value| {
        let call = &turn["call"];
        let object = json!({"tool": call["name"], "arguments": call["arguments"]}).to_string();
        // A version is a number, in a text as well.
        let object = object.replace("\"{{last_version}}\"", "{{last_version}}");
        json!({"role": turn["role"], "text": object})
    };
    let turns: Vec<_> = opening("write it")
        .into_iter()
        .chain(attempt("right\n"))
        .chain([done()])
        .map(as_text)
        .collect();
    for in_file in [false, true] {
        let yaml = script(turns.clone());
        let act = match in_file {
            false => repository().script(&yaml).env("AGENT_LLM_TOOLS", "schema"),
            true => repository().script_by_file(Wire::ChatCompletions, &yaml, "tools = \"schema\""),
        };
        let told = act.act(["run", "--dry-run", "write the answer"]).status(0);
        assert!(told.stdout_text().contains("+right"), "{told}");
        for request in told.requests() {
            assert!(request.body.get("tools").is_none(), "{told}");
            assert_eq!(request.body["response_format"]["type"], "json_schema", "{told}");
        }
    }
}

/// CONFIG-45, DOCTOR-7
#[test]
fn doctor_finds_calls_as_text_and_another_wire_refuses_them() {
    let written = json!({"role": "doctor", "text": "{\"name\": \"answer\", \"arguments\": {\"word\": \"ready\"}}"});
    let told = repository().script(&script([written])).act(["doctor", "--model", "--json"]);
    let call = check(&told, "model_call");
    assert!(call["message"].as_str().unwrap().contains("as text"), "{call}");
    assert!(call["fix"].as_str().unwrap().starts_with("set AGENT_LLM_TOOLS=schema"), "{call}");
    let object = json!({"role": "doctor", "text": "{\"tool\": \"answer\", \"arguments\": {\"word\": \"ready\"}}"});
    let act = repository().script(&script([object])).env("AGENT_LLM_TOOLS", "schema");
    let told = act.act(["doctor", "--model", "--json"]);
    assert_eq!(check(&told, "model_call")["level"], "ok", "{told}");
    for wire in [Wire::Messages, Wire::Responses] {
        let act = repository().script_over(wire, "turns: []").env("AGENT_LLM_TOOLS", "schema");
        act.run("x").status(1).stderr_has("exist for Chat Completions only");
    }
    let act = repository().script("turns: []").env("AGENT_LLM_TOOLS", "always");
    act.run("x").status(1).stderr_has("neither native nor schema");
}

/// MODEL-21, DOCTOR-10: the time limits in force, with their sources.
#[test]
fn doctor_shows_the_time_limits_of_the_model_and_who_set_them() {
    let steps = json!([{"name": "test", "command": "true"}]);
    let yaml = json!({
        "verification": {"container_image": "busybox:stable", "steps": steps},
        "timeouts": {"model_silence": 5000, "model_total": 3600000},
    });
    let act = Act::new().without_engine().file("agent.yaml", yaml.to_string());
    let settings = "[timeouts]\nmodel_first_byte = 1200000\n";
    let told = act.script("turns: []").config_toml(settings).act(["doctor", "--json"]);
    assert_eq!(
        check(&told, "timeouts")["message"],
        "a request to the model ends after: no first byte for 1200 s (config.toml), silence of 5 s (agent.yaml), in all 3600 s (default)"
    );
}

/// MODEL-21
#[test]
fn a_silent_model_is_given_up_after_the_time_that_the_user_set() {
    let silent = json!({"role": "doctor", "text": "late", "delay_ms": 60000});
    let act = repository().script(&script([silent]));
    let told =
        act.config_toml("[timeouts]\nmodel_first_byte = 50\n").act(["doctor", "--model", "--json"]);
    let call = check(&told, "model_call");
    assert!(
        call["message"].as_str().unwrap().contains("no answer within the time allowed"),
        "{call}"
    );
}
