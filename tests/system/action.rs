//! The action of GitHub: its steps as a runner runs them, with a shell and files of the environment, on the real program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::engine::image;
use crate::harness::{Act, Done};

/// The directory of the action, which is the root of this repository.
fn action() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn steps() -> Vec<Value> {
    let text = fs::read_to_string(action().join("action.yml")).unwrap();
    let value: Value = serde_yaml::from_str(&text).unwrap();
    value["runs"]["steps"].as_array().unwrap().clone()
}

/// A runner with one workflow step that uses the action.
struct Runner {
    act: Act,
    inputs: BTreeMap<&'static str, String>,
    temp: PathBuf,
}

/// What a step left.
struct Ran {
    done: Done,
    /// The commands that the runner obeys.
    commands: Vec<String>,
    outputs: String,
    summary: String,
}

impl Runner {
    fn new(act: Act) -> Self {
        let temp = act.artifacts().parent().unwrap().join("runner");
        fs::create_dir(&temp).unwrap();
        let inputs = [
            ("command", "verify".to_owned()),
            ("repo", ".".to_owned()),
            ("act-path", crate::harness::program().to_owned()),
            ("task", String::new()),
            ("token", String::new()),
        ];
        Self { act, inputs: inputs.into(), temp }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.inputs.insert(name, value.into());
        self
    }

    /// Runs the step with this id as the runner does.
    fn step(&self, id: &str, event: &Value) -> Ran {
        let step = steps().into_iter().find(|step| step["id"] == id).unwrap();
        assert_eq!(step["shell"], "bash");
        let script = self.temp.join("step.sh");
        fs::write(&script, step["run"].as_str().unwrap()).unwrap();
        let files = ["output", "summary", "event.json"].map(|name| self.temp.join(name));
        let [output, summary, event_file] = &files;
        fs::write(output, "").unwrap();
        fs::write(summary, "").unwrap();
        fs::write(event_file, event.to_string()).unwrap();
        let mut act = self.act.clone();
        for (name, value) in step["env"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap();
            let input = value.strip_prefix("${{ inputs.").and_then(|rest| rest.strip_suffix(" }}"));
            act = act.env(name, &*self.inputs[input.unwrap()]);
        }
        let mut shell = Command::new("bash");
        shell.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(&script);
        let done = act
            .env("GITHUB_ACTION_PATH", action())
            .env("GITHUB_OUTPUT", output)
            .env("GITHUB_STEP_SUMMARY", summary)
            .env("GITHUB_EVENT_PATH", event_file)
            .env("GITHUB_WORKSPACE", self.act.repo())
            .env("GITHUB_REPOSITORY", "owner/repo")
            .env("RUNNER_TEMP", &self.temp)
            .start_command(shell)
            .wait();
        let commands = obeyed(&done.stdout_text());
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        Ran { commands, outputs: read(output), summary: read(summary), done }
    }

    fn result(&self, name: &str) -> PathBuf {
        self.temp.join("act-result").join(name)
    }
}

/// Returns the commands in the output of a step, by the rules of the runner: none between `stop-commands` and its word.
fn obeyed(output: &str) -> Vec<String> {
    let mut commands = vec![];
    let mut stopped: Option<String> = None;
    for line in output.lines() {
        let line = line.trim_start();
        if let Some(word) = &stopped {
            if line == format!("::{word}::") {
                stopped = None;
            }
            continue;
        }
        if let Some(word) = line.strip_prefix("::stop-commands::") {
            stopped = Some(word.to_owned());
        } else if line.starts_with("::") || line.starts_with("##[") {
            commands.push(line.to_owned());
        }
    }
    assert_eq!(stopped, None, "commands are never allowed again");
    commands
}

/// A step that tries to command the runner, also by guessing the word, and a failure with a hostile name and place.
const HOSTILE: &str = "printf '::error::owned\\n::set-output name=status::PASS\\n::stop-commands::x\\n::x::\\n\
    ::add-mask::a\\n##[error]owned\\n::0000000000000000000000000000000000000000000000000000000000000000::\\n'; \
    printf 'a%%.py,b:2:1: error: oops %%0A::error::owned\\n::notice::no end'; exit 1";

// HOOK-41, HOOK-42, lines 372 and 373
#[test]
fn what_a_step_prints_is_no_command_to_the_runner() {
    let act = Act::new().pipeline(image(), &[("test", HOSTILE)]).file("a.txt", "");
    let runner = Runner::new(act);
    let ran = runner.step("act", &json!({}));
    let done = ran.done.status(3).stdout_has("::error::owned");
    assert!(ran.commands.iter().all(|command| command.starts_with("::error file=")), "{done}");
    assert!(!ran.commands.iter().any(|command| command.contains("::owned")), "{done}");
    assert!(
        ran.outputs.contains("status=FAIL\n") && !ran.outputs.contains("PASS"),
        "{}",
        ran.outputs
    );
    assert!(ran.summary.starts_with("## act: FAIL\n"), "{}", ran.summary);
}

// HOOK-42
#[test]
fn a_failing_place_becomes_an_annotation_and_the_evidence_an_artifact() {
    let step = "printf 'src/a.c:3:5: error: 100%% wrong, <b>::x::\\n'; exit 1";
    let act = Act::new().pipeline(image(), &[("build", step)]).file("src/a.c", "int x;\n");
    let runner = Runner::new(act);
    let ran = runner.step("act", &json!({}));
    let done = ran.done.status(3);
    let annotation = "::error file=src/a.c,line=3,title=act%3A ::";
    assert_eq!(ran.commands.len(), 1, "{done}");
    assert!(ran.commands[0].starts_with(annotation), "{:?}", ran.commands);
    assert!(ran.commands[0].contains("100%25 wrong"), "{:?}", ran.commands);
    assert!(
        ran.summary.contains("src/a.c:3") && ran.summary.contains("&lt;b&gt;"),
        "{}",
        ran.summary
    );
    let run = ran.outputs.lines().find_map(|line| line.strip_prefix("run-id=")).unwrap().to_owned();
    for name in ["verification.json", "failures.json", "statement.json", &format!("{run}.tar.gz")] {
        assert!(fs::metadata(runner.result(name)).unwrap().len() > 0, "{name}\n{done}");
    }
    let statement: Value =
        serde_json::from_slice(&fs::read(runner.result("statement.json")).unwrap()).unwrap();
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1", "{statement}");
}

// HOOK-42
#[test]
fn a_green_tree_is_green_and_says_nothing_more() {
    let runner = Runner::new(Act::new().pipeline(image(), &[("test", "true")]));
    let ran = runner.step("act", &json!({}));
    let done = ran.done.status(0);
    assert_eq!(ran.commands, Vec::<String>::new(), "{done}");
    assert!(ran.outputs.contains("status=PASS\n"), "{}", ran.outputs);
}

/// Answers the question for a permission, once for each of the words, and returns the address.
fn github(permissions: &'static [&'static str]) -> (String, std::thread::JoinHandle<Vec<String>>) {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let mut asked = vec![];
        for permission in permissions {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut head = vec![];
            while let Some(Ok(line)) =
                lines.next().filter(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
            {
                head.push(line);
            }
            asked.push(head.join("\n"));
            let body = json!({"permission": permission}).to_string();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
            .unwrap();
        }
        asked
    });
    (address, thread)
}

fn issue(title: &str) -> Value {
    json!({
        "sender": {"login": "octo-cat"},
        "issue": {"title": title, "body": "the state is bad"},
        "label": {"name": "act"},
    })
}

const MENDS: &str = "turns:
  - {role: editor, call: {name: plan, arguments: {criteria: [\"the test passes\"], strategy: \"write the state\"}}}
  - {role: editor, call: {name: create, arguments: {path: state.txt, content: \"good\\n\"}}}
  - {role: editor, call: {name: verify}}
  - {role: editor, call: {name: done, arguments: {summary: \"ok ::error::owned\", evidence: \"{{last_run_id}}\"}}}
";

// HOOK-41, HOOK-43, line 374
#[test]
fn a_hostile_title_reaches_the_task_as_text_alone() {
    let title = "$(touch /tmp/owned) `id` ${{ github.token }}\n::error::owned\"; exit 0; '";
    let act = Act::new().pipeline(image(), &[("test", "test -e state.txt")]).script(MENDS);
    let (api, asked) = github(&["write"]);
    let runner = Runner::new(act.env("GITHUB_API_URL", api).env("GITHUB_EVENT_NAME", "issues"));
    let runner = runner.with("command", "run").with("token", "ghs_secret");
    let ran = runner.step("act", &issue(title));
    let asked = asked.join().unwrap();
    assert!(
        asked[0].starts_with("GET /repos/owner/repo/collaborators/octo-cat/permission "),
        "{asked:?}"
    );
    assert!(asked[0].contains("Bearer ghs_secret"), "{asked:?}");
    let task = fs::read_to_string(runner.result("task.md")).unwrap();
    assert_eq!(task, format!("{title}\n\nthe state is bad\n"));
    assert_eq!(ran.commands, Vec::<String>::new(), "{}", ran.done);
    assert!(!ran.done.stdout_text().contains("ghs_secret"));
    assert!(!Path::new("/tmp/owned").exists());
    assert!(ran.outputs.contains("status="), "{}", ran.outputs);
    let requests = ran.done.requests();
    assert!(
        requests.is_empty() || requests[0].body.to_string().contains("touch /tmp/owned"),
        "{}",
        ran.done
    );
}

// HOOK-43
#[test]
fn a_task_starts_only_for_somebody_who_may_write() {
    let refused = |event: Value, name: &str, permissions: &'static [&'static str]| {
        let act = Act::new().pipeline(image(), &[("test", "true")]);
        let (api, asked) = github(permissions);
        let act = act.env("GITHUB_API_URL", api).env("GITHUB_EVENT_NAME", name);
        let runner = Runner::new(act).with("command", "run").with("token", "ghs_secret");
        let ran = runner.step("act", &event);
        let done = ran.done.status(1);
        assert_eq!(asked.join().unwrap().len(), permissions.len());
        assert!(
            ran.commands.len() == 1 && ran.commands[0].starts_with("::error title=act::"),
            "{done}"
        );
        assert!(!runner.result("events.jsonl").exists(), "{done}");
        ran.commands[0].clone()
    };
    assert!(refused(issue("x"), "issues", &["read"]).contains("may not write"));
    assert!(refused(issue("x"), "issues", &["triage"]).contains("may not write"));
    assert!(refused(issue("x"), "pull_request_target", &[]).contains("pull_request_target"));
    let mut event = issue("x");
    event["sender"]["login"] = json!("a/../../b");
    assert!(refused(event, "issues", &[]).contains("names no user"));
}

// HOOK-40, HOOK-41
#[test]
fn no_expression_is_part_of_a_script_and_other_actions_are_named_by_commit() {
    for step in steps() {
        if let Some(run) = step["run"].as_str() {
            assert!(!run.contains("${{"), "{run}");
        }
        if let Some(uses) = step["uses"].as_str() {
            let (_, commit) = uses.split_once('@').unwrap();
            assert!(
                commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{uses}"
            );
        }
    }
    let runner = Runner::new(Act::new());
    let key = runner.step("key", &json!({})).outputs;
    let digest = key.trim().strip_prefix("key=").unwrap();
    assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
}
