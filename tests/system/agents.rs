//! Agents of other makers with the gate of act: the real programs from npm, with a scripted model on loopback that speaks
//! their own wire. `scripts/test-agents` installs them and runs these tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use act_testing::{Script, ScriptedServer};

use crate::engine::image;
use crate::harness::{Act, Done};

/// The project: its check passes as long as `state.txt` is `good`.
const CHECK: &str =
    "grep -q good state.txt || { echo 'state.txt:1: error: the state is bad'; exit 1; }";

/// An agent, and the tool with which it runs a command.
#[derive(Clone, Copy, PartialEq)]
enum Agent {
    Claude,
    Codex,
}

impl Agent {
    fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    fn runs(self, command: &str) -> String {
        let call = match self {
            Self::Claude => serde_json::json!({"name": "Bash", "arguments": {"command": command}}),
            Self::Codex => {
                serde_json::json!({"name": "exec_command", "arguments": {"cmd": command, "login": false}})
            }
        };
        format!("  - {{role: '', call: {call}}}\n")
    }

    /// Calls a tool of the server `act`; Codex has those of a server in a namespace.
    fn verifies(self) -> String {
        let name = match self {
            Self::Claude => "mcp__act__verify",
            Self::Codex => "mcp__act/verify",
        };
        let call = serde_json::json!({"name": name, "arguments": {}});
        format!("  - {{role: '', call: {call}}}\n")
    }
}

fn says(text: &str) -> String {
    format!("  - {{role: '', text: '{text}'}}\n")
}

/// Runs the agent in a repository where `act init --for` made act its gate. Returns the requests to its model as text.
fn session(agent: Agent, turns: &[String]) -> (Act, Done, Vec<String>) {
    let packages = std::env::var_os("ACT_TEST_AGENTS").expect("scripts/test-agents sets it");
    let program = PathBuf::from(packages).join("node_modules/.bin").join(agent.word());
    let script = format!("turns:\n{}", turns.concat());
    let model = ScriptedServer::start(Script::from_yaml(&script).unwrap()).unwrap();
    let act = Act::new().pipeline(image(), &[("test", CHECK)]).file("state.txt", "good\n");
    let place = act.artifacts().parent().unwrap().to_owned();
    fs::create_dir(place.join("bin")).unwrap();
    symlink(crate::harness::program(), place.join("bin/act")).unwrap();
    let path = format!("{}:{}", place.join("bin").display(), std::env::var("PATH").unwrap());
    let act = act.env("PATH", path);
    act.clone().act(["init", "--for", agent.word(), "--yes"]).status(0);
    let mut command = Command::new(program);
    let act = match agent {
        Agent::Claude => {
            // The answer of the user to the question about the servers of the repository.
            fs::create_dir(place.join("home/.claude")).unwrap();
            let settings = "{\"enabledMcpjsonServers\": [\"act\"]}";
            fs::write(place.join("home/.claude/settings.json"), settings).unwrap();
            command.args(["-p", "--permission-mode", "bypassPermissions", "make it better"]);
            act.env("ANTHROPIC_API_KEY", "sk-ant-scripted")
                .env("ANTHROPIC_BASE_URL", model.anthropic_base_url())
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                // It refuses to skip questions as root anywhere else.
                .env("IS_SANDBOX", "1")
        }
        Agent::Codex => {
            command.args(["exec", "--dangerously-bypass-hook-trust", "--sandbox"]);
            command.args(["danger-full-access", "make it better"]);
            let home = place.join("home/.codex");
            fs::create_dir(&home).unwrap();
            let config = format!(
                "model = \"scripted\"\nmodel_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\n\
                 base_url = \"{}\"\nwire_api = \"responses\"\nenv_key = \"SCRIPTED_KEY\"\n[projects.\"{}\"]\n\
                 trust_level = \"trusted\"\n[analytics]\nenabled = false\n",
                model.base_url(),
                act.repo().canonicalize().unwrap().display()
            );
            fs::write(home.join("config.toml"), config).unwrap();
            act.env("SCRIPTED_KEY", "sk-scripted")
        }
    };
    let done = act.clone().start_command(command).wait();
    let requests = model.requests().into_iter().filter(|request| request.path.contains("/v1/"));
    let requests = requests.map(|request| request.body.to_string()).collect();
    (act, done, requests)
}

fn held_until_green(agent: Agent) {
    let (act, done, requests) = session(
        agent,
        &[
            agent.runs("echo bad > state.txt"),
            says("I am done."),
            says("I looked again, and I really am done."),
            agent.runs("echo good > state.txt"),
            says("Now it is mended."),
        ],
    );
    let done = done.status(0).stdout_has("Now it is mended.");
    assert_eq!(requests.len(), 5, "{requests:#?}\n{done}");
    let held = ["The project's checks are red: step", "state.txt:1", "block 1 of 3"];
    assert!(held.iter().all(|text| requests[2].contains(text)), "{}\n{done}", requests[2]);
    assert!(requests[3].contains("block 2 of 3"), "{}\n{done}", requests[3]);
    assert!(!requests[4].contains("block 3 of 3"), "{}\n{done}", requests[4]);
    assert_eq!(fs::read_to_string(act.repo().join("state.txt")).unwrap(), "good\n");
    let verdicts = act.clone().act(["audit", "list", "--json"]).status(0).stdout_text();
    assert!(verdicts.contains("step_failed"), "every red run is on record: {verdicts}");
}

fn asks_before_it_says_so(agent: Agent) {
    let (act, done, requests) = session(
        agent,
        &[
            agent.runs("echo bad > state.txt"),
            agent.verifies(),
            says("I am done all the same."),
            agent.runs("echo good > state.txt"),
            agent.verifies(),
            says("Now it is mended."),
        ],
    );
    let done = done.status(0).stdout_has("Now it is mended.");
    assert_eq!(requests.len(), 6, "{requests:#?}\n{done}");
    // The result is JSON in a text in JSON.
    let verdict = |request: &str, verdict: &str| {
        let plain: String = request.chars().filter(|c| !c.is_whitespace() && *c != '\\').collect();
        plain.contains(&format!("\"verdict\":\"{verdict}\""))
    };
    let red = &requests[2];
    assert!(verdict(red, "FAIL") && red.contains("the state is bad"), "{red}\n{done}");
    assert!(requests[3].contains("block 1 of 3"), "{}\n{done}", requests[3]);
    assert!(!verdict(&requests[4], "PASS"), "{}\n{done}", requests[4]);
    assert!(verdict(&requests[5], "PASS"), "{}\n{done}", requests[5]);
    assert_eq!(fs::read_to_string(act.repo().join("state.txt")).unwrap(), "good\n");
}

fn let_go_after_three(agent: Agent) {
    let turns = [vec![agent.runs("echo bad > state.txt")], vec![says("I am done."); 6]].concat();
    let (act, done, requests) = session(agent, &turns);
    let done = done.status(0);
    assert_eq!(
        requests.len(),
        5,
        "a stop that is let go asks the model nothing: {requests:#?}\n{done}"
    );
    assert!(requests[4].contains("block 3 of 3"), "{}\n{done}", requests[4]);
    assert_eq!(fs::read_to_string(act.repo().join("state.txt")).unwrap(), "bad\n");
}

fn a_question_costs_nothing(agent: Agent) {
    let (act, done, requests) = session(agent, &[says("It is a project with one file.")]);
    let done = done.status(0).stdout_has("one file");
    assert_eq!(requests.len(), 1, "{done}");
    let runs = fs::read_dir(act.artifacts().join("runs")).map_or(0, Iterator::count);
    assert_eq!(runs, 0, "no container was started\n{done}");
}

// HOOK-7, HOOK-8
#[test]
#[ignore = "needs the programs of scripts/test-agents"]
fn claude_code_is_held_while_the_checks_are_red_and_let_go_when_they_are_green() {
    held_until_green(Agent::Claude);
}

// MCP-10, HOOK-20
#[test]
#[ignore = "needs the programs of scripts/test-agents"]
fn claude_code_calls_verify_through_mcp_and_is_held_all_the_same() {
    asks_before_it_says_so(Agent::Claude);
}

#[test]
#[ignore = "needs the programs of scripts/test-agents"]
fn claude_code_is_let_go_after_three_red_runs() {
    let_go_after_three(Agent::Claude);
}

#[test]
#[ignore = "needs the programs of scripts/test-agents"]
fn claude_code_answers_a_question_without_a_verification() {
    a_question_costs_nothing(Agent::Claude);
}

#[test]
#[ignore = "needs the programs of scripts/test-agents"]
fn codex_is_held_while_the_checks_are_red_and_let_go_when_they_are_green() {
    held_until_green(Agent::Codex);
}

// MCP-10, HOOK-20
#[test]
#[ignore = "needs the programs of scripts/test-agents"]
fn codex_calls_verify_through_mcp_and_is_held_all_the_same() {
    asks_before_it_says_so(Agent::Codex);
}

#[test]
#[ignore = "needs the programs of scripts/test-agents"]
fn codex_is_let_go_after_three_red_runs() {
    let_go_after_three(Agent::Codex);
}

#[test]
#[ignore = "needs the programs of scripts/test-agents"]
fn codex_answers_a_question_without_a_verification() {
    a_question_costs_nothing(Agent::Codex);
}
