//! The action of GitHub: its steps as a runner runs them, with a shell and files of the environment, on the real program.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
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
            ("artifact", "act".to_owned()),
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
        let mut environment = BTreeMap::new();
        for (name, value) in step["env"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap();
            let input = value.strip_prefix("${{ inputs.").and_then(|rest| rest.strip_suffix(" }}"));
            environment.insert(name.clone(), self.inputs[input.unwrap()].clone());
        }
        self.shell(&step, &action(), environment, event)
    }

    /// Runs the script of a step with the shell and the files of the runner.
    fn shell(
        &self,
        step: &Value,
        action: &Path,
        environment: BTreeMap<String, String>,
        event: &Value,
    ) -> Ran {
        assert_eq!(step["shell"], "bash");
        let script = self.temp.join("step.sh");
        fs::write(&script, step["run"].as_str().unwrap()).unwrap();
        let files = ["output", "summary", "event.json"].map(|name| self.temp.join(name));
        let [output, summary, event_file] = &files;
        fs::write(output, "").unwrap();
        fs::write(summary, "").unwrap();
        fs::write(event_file, event.to_string()).unwrap();
        let act = environment
            .into_iter()
            .fold(self.act.clone(), |act, (name, value)| act.env(name, value));
        let mut shell = Command::new("bash");
        shell.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(&script);
        let done = act
            .env("GITHUB_ACTION_PATH", action)
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

/// One step of the action, as the runner came to it.
enum Step {
    Skipped,
    Ran(Box<Ran>),
    /// Another action, with its inputs.
    Used {
        name: String,
        with: BTreeMap<String, String>,
    },
}

/// What a runner knows when it decides about a step: the inputs, and the outputs of the steps before.
struct Known {
    values: BTreeMap<String, String>,
    failed: bool,
}

impl Known {
    /// Evaluates an expression of the runner, as far as this action has any: names, texts, `==`, `!=`, `&&`, `always()`, and
    /// `success()` for a step without one.
    fn is_true(&self, expression: &str) -> bool {
        let always = expression.contains("always()");
        let holds = expression.split("&&").map(str::trim).all(|term| {
            let value = |text: &str| self.value(text.trim());
            match (term.split_once("!="), term.split_once("==")) {
                _ if ["always()", "success()"].contains(&term) => true,
                (Some((left, right)), _) => value(left) != value(right),
                (_, Some((left, right))) => value(left) == value(right),
                _ => panic!("unknown expression: {term}"),
            }
        });
        // A step without `always()` is skipped after a failure.
        holds && (always || !self.failed)
    }

    fn value(&self, name: &str) -> String {
        match name.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
            Some(text) => text.to_owned(),
            // An output that no step wrote is empty.
            None => self.values.get(name).cloned().unwrap_or_default(),
        }
    }

    /// Replaces the expressions in a text.
    fn text(&self, text: &str) -> String {
        let mut parts = text.split("${{");
        let mut out = parts.next().unwrap().to_owned();
        for part in parts {
            let (name, rest) = part.split_once("}}").unwrap();
            out.push_str(&self.value(name.trim()));
            out.push_str(rest);
        }
        out
    }
}

impl Runner {
    /// Has the steps find the `cargo` of a quick action.
    fn with_cargo_of(self, action: &Path) -> Self {
        let path = format!("{}:{}", action.join("bin").display(), std::env::var("PATH").unwrap());
        Self { act: self.act.env("PATH", path), ..self }
    }

    /// Runs every step of the action, as a runner does. `cached` says whether the cache holds a program.
    fn action(&self, action: &Path, event: &Value, cached: bool) -> Vec<Step> {
        let mut known = Known { values: BTreeMap::new(), failed: false };
        for (name, value) in &self.inputs {
            known.values.insert(format!("inputs.{name}"), value.clone());
        }
        for (name, value) in
            [("temp", self.temp.to_str().unwrap()), ("os", "Linux"), ("arch", "X64")]
        {
            known.values.insert(format!("runner.{name}"), value.to_owned());
        }
        let mut all = vec![];
        for step in steps() {
            if !known.is_true(step["if"].as_str().unwrap_or("success()")) {
                all.push(Step::Skipped);
                continue;
            }
            let id = step["id"].as_str().unwrap_or_default();
            if let Some(name) = step["uses"].as_str() {
                let with = step["with"].as_object().unwrap().iter();
                let with =
                    with.map(|(key, value)| (key.clone(), known.text(value.as_str().unwrap())));
                all.push(Step::Used { name: name.to_owned(), with: with.collect() });
                known.values.insert(format!("steps.{id}.outputs.cache-hit"), cached.to_string());
                continue;
            }
            let environment = step["env"].as_object().into_iter().flatten();
            let environment = environment
                .map(|(name, value)| (name.clone(), known.text(value.as_str().unwrap())))
                .collect();
            let ran = self.shell(&step, action, environment, event);
            known.failed |= ran.done.exit_code() != 0;
            for line in ran.outputs.lines() {
                let (name, value) = line.split_once('=').unwrap();
                known.values.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
            }
            all.push(Step::Ran(Box::new(ran)));
        }
        all
    }
}

/// A `cargo` that is quick: it writes a program that runs the real `act`.
fn quick_cargo() -> String {
    format!(
        "#!/bin/sh\necho \"cargo $*\" >>\"$RUNNER_TEMP/built\"\nmkdir -p \"$CARGO_TARGET_DIR/release\"\n\
         printf '#!/bin/sh\\nexec {} \"$@\"\\n' >\"$CARGO_TARGET_DIR/release/act\"\n",
        crate::harness::program()
    )
}

/// The sources of an action that this `cargo` builds.
fn quick_action(place: &Path, cargo: String) -> PathBuf {
    let root = place.join("action");
    for directory in ["scripts", "components", "host", "wit", "bin"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::copy(action().join("scripts/action"), root.join("scripts/action")).unwrap();
    for (name, text) in [
        ("scripts/setup", "#!/bin/sh\necho \"setup $*\" >>\"$RUNNER_TEMP/built\"\n".to_owned()),
        ("bin/cargo", cargo),
        ("Cargo.toml", "[workspace]\n".to_owned()),
        ("Cargo.lock", String::new()),
    ] {
        fs::write(root.join(name), text).unwrap();
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    root
}

// HOOK-40, HOOK-42
#[test]
fn the_action_builds_act_once_verifies_with_it_and_uploads_what_the_run_left() {
    let act = Act::new().pipeline(image(), &[("test", HOSTILE)]).file("a.txt", "");
    let runner = Runner::new(act).with("act-path", "").with("artifact", "evidence");
    let root = quick_action(&runner.temp, quick_cargo());
    let runner = runner.with_cargo_of(&root);
    let all = runner.action(&root, &json!({}), false);
    let [
        Step::Ran(key),
        Step::Used { name, with },
        Step::Ran(build),
        Step::Ran(verify),
        Step::Used { name: upload, with: files },
    ] = all.as_slice()
    else {
        panic!("other steps");
    };
    let digest = key.outputs.trim().strip_prefix("key=").unwrap();
    assert!(name.starts_with("actions/cache@"), "{name}");
    assert_eq!(with["path"], runner.temp.join("act-bin").to_str().unwrap());
    assert_eq!(with["key"], format!("act-Linux-X64-{digest}"));
    assert_eq!(build.done.exit_code(), 0, "{}", build.done);
    let built = fs::read_to_string(runner.temp.join("built")).unwrap();
    assert_eq!(built, "setup --without-docker\ncargo build --release --locked --bin act\n");
    let mode = fs::metadata(runner.temp.join("act-bin/act")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);

    // The program that was built has judged, and nothing that the step printed commands the runner.
    assert_eq!(verify.done.exit_code(), 3, "{}", verify.done);
    assert!(verify.outputs.contains("status=FAIL\n"), "{}", verify.outputs);
    assert!(!verify.commands.iter().any(|command| command.contains("::owned")), "{}", verify.done);
    // What a failed verification left is uploaded, as files alone: the upload follows links.
    assert!(upload.starts_with("actions/upload-artifact@"), "{upload}");
    assert_eq!(files["name"], "evidence");
    let directory = PathBuf::from(&files["path"]);
    assert_eq!(directory, runner.temp.join("act-result"));
    let left: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()).collect();
    assert!(
        left.len() >= 4 && left.iter().all(|entry| entry.file_type().unwrap().is_file()),
        "{left:?}"
    );

    // With the same sources in the cache nothing is built.
    fs::remove_file(runner.temp.join("built")).unwrap();
    let again = runner.action(&root, &json!({}), true);
    assert!(matches!(again[2], Step::Skipped));
    assert!(!runner.temp.join("built").exists());
    let Step::Ran(verify) = &again[3] else { panic!("no verification") };
    assert_eq!(verify.done.exit_code(), 3, "{}", verify.done);
}

// HOOK-40, HOOK-41
#[test]
fn an_act_that_cannot_be_built_is_an_error_with_its_reason_and_nothing_looks_like_a_verdict() {
    let act = Act::new().pipeline(image(), &[("test", "true")]);
    let runner = Runner::new(act).with("act-path", "");
    let cargo = "#!/bin/sh\necho 'error[E0308]: mismatched types' >&2\necho '::set-output name=status::PASS'\nexit 101\n";
    let root = quick_action(&runner.temp, cargo.to_owned());
    let runner = runner.with_cargo_of(&root);
    let all = runner.action(&root, &json!({}), false);
    let [Step::Ran(_), Step::Used { .. }, Step::Ran(build), Step::Skipped, Step::Skipped] =
        all.as_slice()
    else {
        panic!("a step ran after the build had failed");
    };
    assert_eq!(build.done.exit_code(), 1, "{}", build.done);
    let log = build.done.stdout_text();
    assert!(log.contains("error[E0308]: mismatched types"), "{log}");
    let [error] = build.commands.as_slice() else { panic!("{:?}", build.commands) };
    assert!(error.starts_with("::error title=act::act could not be built"), "{error}");
    assert_eq!(build.outputs, "");
    assert_eq!(build.summary, "## act: not built\n\n");
    // No program is left for the cache or for a later step.
    assert!(!runner.temp.join("act-bin/act").exists());

    // The preparation of the machine is a part of the build.
    let setup = "#!/bin/sh\necho 'no network' >&2\nexit 7\n";
    fs::write(root.join("scripts/setup"), setup).unwrap();
    let all = runner.action(&root, &json!({}), false);
    let [.., Step::Ran(build), Step::Skipped, Step::Skipped] = all.as_slice() else {
        panic!("a step ran after the preparation had failed");
    };
    let log = build.done.stdout_text();
    assert!(log.contains("no network") && !log.contains("E0308"), "{log}");
    assert_eq!((build.done.exit_code(), build.commands.len()), (1, 1), "{log}");
}

// HOOK-42
#[test]
fn nothing_is_uploaded_without_a_name_and_a_task_that_may_not_start_uploads_nothing() {
    let green = || Act::new().pipeline(image(), &[("test", "true")]);
    let all = Runner::new(green()).with("artifact", "").action(&action(), &json!({}), false);
    let [Step::Skipped, Step::Skipped, Step::Skipped, Step::Ran(verify), Step::Skipped] =
        all.as_slice()
    else {
        panic!("other steps");
    };
    assert_eq!(verify.done.exit_code(), 0, "{}", verify.done);

    let (api, asked) = github(&["read"]);
    let act = green().env("GITHUB_API_URL", api).env("GITHUB_EVENT_NAME", "issues");
    let runner = Runner::new(act).with("command", "run").with("token", "ghs_secret");
    let all = runner.with("artifact", "act").action(&action(), &issue("x"), false);
    asked.join().unwrap();
    let [.., Step::Ran(refused), Step::Skipped] = all.as_slice() else { panic!("other steps") };
    assert_eq!(refused.done.exit_code(), 1, "{}", refused.done);
    assert_eq!(refused.outputs, "");
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
