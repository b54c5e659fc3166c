//! The server as its clients meet it: requests over real connections, on an ARTIFACT_DIR of its own.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::*;
use act_core::process::Process;
use act_core::secret::{Secret, Secrets};
use act_core::verification::{Verdict, testing::verification};
use act_core::{Outcome, TaskState};
use act_records::artifacts::ArtifactDir;
use act_records::store::{Flags, NewStuckReport, Store, Submission};
use act_task::Observer;

/// A key that no answer may hold.
const KEY: &str = "sk-canary-0123456789";
/// A text that an attacker would store wherever one is stored.
const HOSTILE: &str =
    "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{202e}&lt;\u{1b}[31m\u{0}";

pub(crate) struct Place {
    dir: tempfile::TempDir,
    pub(crate) artifacts: Arc<ArtifactDir>,
    pub(crate) store: Store,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        std::fs::create_dir(&repo).unwrap();
        let artifacts = Arc::new(ArtifactDir::open(&dir.path().join("a"), &repo).unwrap());
        let state = artifacts.state().unwrap();
        let store = Store::open(&state, &dir.path().join("a/state")).unwrap();
        Self { dir, artifacts, store }
    }

    /// Accepts a task of a repository of its own, so that it runs at once.
    pub(crate) fn task(&self, task_id: &str, text: &str) -> File {
        let root = self.dir.path().join(format!("repo {HOSTILE}").replace(['\0', '/'], ""));
        let journal = self.artifacts.create_journal(task_id).unwrap();
        self.store
            .submit(&Submission {
                task_id,
                repo: task_id,
                root: &root.to_string_lossy(),
                text,
                flags: &Flags::default(),
                owner: &Process::this(),
            })
            .unwrap();
        assert!(self.store.start(task_id, &Process::this()).unwrap());
        journal.file
    }

    fn journal(&self, task_id: &str) -> PathBuf {
        self.dir.path().join(format!("a/state/journal/{task_id}.jsonl"))
    }

    /// Stores a run of a task with a log for each step.
    fn run(&self, task_id: &str, steps: &[(&str, &str)]) -> String {
        let run = self.artifacts.create_run(chrono::Utc::now()).unwrap();
        let names: Vec<_> = steps.iter().map(|(name, _)| *name).collect();
        let mut manifest = verification(Verdict::Pass, &names, "").manifest.unwrap();
        manifest.run_id = run.id().clone();
        let mut combined = run.create_log("combined.log").unwrap();
        for (number, (name, text)) in (1..).zip(steps) {
            let name = act_records::artifacts::log_name(number, name);
            run.create_log(&name).unwrap().write_all(text.as_bytes()).unwrap();
            combined.write_all(text.as_bytes()).unwrap();
        }
        run.write_manifest(&manifest).unwrap();
        let run_id = run.id().as_str().to_owned();
        self.store.run_started(&run_id, Some(task_id), task_id, false, &Process::this()).unwrap();
        self.store.run_finished(&run_id, "PASS", None).unwrap();
        run_id
    }

    async fn server(&self, door: &Door, limits: Limits) -> Running {
        let observer = Observer::of(Arc::clone(&self.artifacts)).unwrap();
        let secrets = Secrets::new([Secret::new(KEY)]);
        let server = Arc::new(Server::listen(door, observer, secrets, limits).await.unwrap());
        let serving = Arc::clone(&server);
        let task = tokio::spawn(async move { serving.serve().await });
        Running { server, task }
    }

    /// A server on a port, with a browser that has entered.
    async fn entered(&self, limits: Limits) -> (Running, Browser) {
        let running = self.server(&Door::Port(0), limits).await;
        let browser = running.browser().await;
        (running, browser)
    }

    fn socket(&self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let directory = self.dir.path().join("private");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
        directory.join("watch.sock")
    }
}

struct Running {
    server: Arc<Server>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    /// Enters with a new token.
    async fn browser(&self) -> Browser {
        let (host, path) = split(&self.server.address());
        let mut browser = Browser { host, cookie: String::new() };
        let answer = browser.get(&path).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
        let cookie = answer.header("set-cookie").unwrap();
        browser.cookie = cookie.split(';').next().unwrap().to_owned();
        browser
    }
}

/// Splits an address into host with port, and path.
fn split(address: &str) -> (String, String) {
    let rest = address.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    (host.to_owned(), format!("/{path}"))
}

struct Browser {
    host: String,
    cookie: String,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    fn json(&self) -> serde_json::Value {
        let body = self.body.trim();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Browser {
    fn port(&self) -> u16 {
        self.host.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port())).await.unwrap()
    }

    fn head(&self, method: &str, path: &str, more: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !more.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.host);
        }
        if !self.cookie.is_empty() && !more.iter().any(|(name, _)| *name == "Cookie") {
            head += &format!("Cookie: {}\r\n", self.cookie);
        }
        for (name, value) in more {
            head += &format!("{name}: {value}\r\n");
        }
        head + "\r\n"
    }

    async fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[]).await
    }

    async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers = [headers, &[("Connection", "close")]].concat();
        exchange(self.connect().await, &self.head("GET", path, &headers)).await
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let length = body.len().to_string();
        let kind = ("Content-Type", "application/x-www-form-urlencoded");
        let own = [("Connection", "close"), ("Content-Length", length.as_str()), kind];
        let head = self.head("POST", path, &[headers, &own].concat());
        exchange(self.connect().await, &(head + body)).await
    }

    async fn events(&self, after: &str) -> Events<TcpStream> {
        let head = self.head("GET", "/api/events", &[("Last-Event-ID", after)]);
        Events::begin(self.connect().await, &head).await
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Answer {
    // A server that refuses early closes before everything was sent.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut bytes = vec![];
    let read = stream.read_to_end(&mut bytes);
    let _ = tokio::time::timeout(Duration::from_secs(20), read).await;
    Answer::of(&bytes)
}

/// A reader of the stream.
struct Events<S> {
    stream: S,
    buffer: String,
    cursor: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Event {
    kind: String,
    data: serde_json::Value,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Events<S> {
    async fn begin(mut stream: S, head: &str) -> Self {
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut events = Self { stream, buffer: String::new(), cursor: String::new() };
        let first = events.frame().await.unwrap();
        assert!(first.contains("200 OK") && first.contains("text/event-stream"), "{first}");
        let here = events.next().await.unwrap();
        assert_eq!(here.kind, "here");
        events
    }

    /// Returns the bytes up to the next empty line, without the sizes of the chunks.
    async fn frame(&mut self) -> Option<String> {
        loop {
            for end in ["\r\n\r\n", "\n\n"] {
                if let Some((frame, rest)) = self.buffer.split_once(end)
                    && !frame.contains("\n\n")
                {
                    let (frame, rest) = (frame.to_owned(), rest.to_owned());
                    self.buffer = rest;
                    // The last chunk of an answer is empty.
                    return (frame.trim() != "0").then_some(frame);
                }
            }
            let mut piece = [0; 16 << 10];
            let read = self.stream.read(&mut piece);
            let read = tokio::time::timeout(Duration::from_secs(20), read).await.unwrap();
            match read {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.buffer += &String::from_utf8_lossy(&piece[..length]),
            }
        }
    }

    /// Returns the next event; `None` when the stream has ended.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let frame = self.frame().await?;
            let field = |name: &str| {
                frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
            };
            if let Some(id) = field("id: ") {
                self.cursor = id;
            }
            if let Some(data) = field("data: ") {
                let kind = field("event: ").unwrap_or_else(|| "message".to_owned());
                return Some(Event { kind, data: serde_json::from_str(&data).unwrap() });
            }
        }
    }

    async fn seqs(&mut self, count: usize) -> Vec<(String, u64)> {
        let mut seqs = vec![];
        for _ in 0..count {
            let Event { kind, data } = self.next().await.unwrap();
            assert_eq!(kind, "message", "{data}");
            let task = data["task_id"].as_str().unwrap().to_owned();
            seqs.push((task, data["seq"].as_u64().unwrap()));
        }
        seqs
    }
}

pub(crate) fn event(task_id: &str, seq: u64) -> String {
    format!(
        "{{\"v\":1,\"seq\":{seq},\"time\":\"2026-11-24T10:00:00.000Z\",\"task_id\":\"{task_id}\",\
         \"type\":\"milestone\",\"text\":\"Event {seq}\",\"attempt\":null}}\n"
    )
}

pub(crate) fn end(task_id: &str, seq: u64) -> String {
    format!(
        "{{\"v\":1,\"seq\":{seq},\"time\":\"2026-11-24T10:00:00.000Z\",\"task_id\":\"{task_id}\",\
         \"type\":\"task_finished\",\"state\":\"SUCCESS\",\"exit_code\":0,\"run_id\":null}}\n"
    )
}

pub(crate) fn write(journal: &mut File, text: &str) {
    journal.write_all(text.as_bytes()).unwrap();
}

fn pairs(task_id: &str, seqs: impl IntoIterator<Item = u64>) -> Vec<(String, u64)> {
    seqs.into_iter().map(|seq| (task_id.to_owned(), seq)).collect()
}

// WATCH-20, WATCH-21, WATCH-22
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_comes_back_gets_every_event_once_also_after_a_restart_of_the_server() {
    let place = Place::new();
    let (mut one, mut two) = (place.task("t-aaaaaa", "one"), place.task("t-bbbbbb", "two"));
    write(&mut one, &event("t-aaaaaa", 1));
    let (running, browser) = place.entered(Limits::default()).await;
    let mut events = browser.events("").await;
    write(&mut one, &(event("t-aaaaaa", 2) + &event("t-aaaaaa", 3)));
    assert_eq!(events.seqs(2).await, pairs("t-aaaaaa", 2..=3), "what was there before is not sent");
    write(&mut two, &event("t-bbbbbb", 1));
    assert_eq!(events.seqs(1).await, pairs("t-bbbbbb", [1]));
    let cursor = events.cursor.clone();
    drop((events, running));
    // The server is gone; the tasks go on, one ends, and a new one begins.
    write(&mut one, &(event("t-aaaaaa", 4) + &end("t-aaaaaa", 5)));
    write(&mut two, "{\"v\":1,\"seq\":2,\"task_id\":\"t-bbbbbb\",\"ty");
    let mut three = place.task("t-cccccc", "three");
    write(&mut three, &(event("t-cccccc", 1) + &end("t-cccccc", 2)));
    let (running, browser) = place.entered(Limits::default()).await;
    let mut events = browser.events(&cursor).await;
    let mut seqs = events.seqs(4).await;
    seqs.sort();
    assert_eq!(seqs, [pairs("t-aaaaaa", 4..=5), pairs("t-cccccc", 1..=2)].concat());
    write(&mut two, "pe\":\"diagnosis\",\"text\":\"x\"}\n");
    assert_eq!(events.seqs(1).await, pairs("t-bbbbbb", [2]), "half a line is no event");
    let cursor = events.cursor.clone();
    let mut again = browser.events(&cursor).await;
    write(&mut two, &event("t-bbbbbb", 3));
    assert_eq!(again.seqs(1).await, pairs("t-bbbbbb", [3]), "nothing is repeated");
    drop(running);
}

// WATCH-20
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_from_the_start_gets_every_journal_in_order() {
    let place = Place::new();
    for name in ["t-aaaaaa", "t-bbbbbb", "t-cccccc"] {
        let mut journal = place.task(name, "x");
        let lines: String = (1..=40).map(|seq| event(name, seq)).collect();
        write(&mut journal, &(lines + &end(name, 41)));
    }
    let (_running, browser) = place.entered(Limits::default()).await;
    let mut events = browser.events("start").await;
    let seqs = events.seqs(3 * 41).await;
    for name in ["t-aaaaaa", "t-bbbbbb", "t-cccccc"] {
        let own: Vec<_> = seqs.iter().filter(|(task, _)| task == name).cloned().collect();
        assert_eq!(own, pairs(name, 1..=41));
    }
    // The cursor behind ended journals does not name them.
    assert!(events.cursor.len() < 10, "{}", events.cursor);
}

// WATCH-27
#[test]
fn empty_lines_and_long_cursors_take_no_more_than_a_batch() {
    let place = Place::new();
    let mut journal = place.task("t-aaaaaa", "x");
    write(&mut journal, &"\n".repeat(1_000));
    for number in 0..200 {
        place.task(&format!("t-b{number:05}"), "x");
    }
    let observer = Observer::of(Arc::clone(&place.artifacts)).unwrap();
    let journals = crate::journals::Journals::new(Arc::new(observer)).unwrap();
    let (mut position, mut gaps) = (crate::cursor::Position::default(), 0);
    loop {
        let items = journals.next(&mut position);
        let Some((longest, _)) = items.first() else { break };
        assert!(longest.len() > 1_000, "the cursors are long");
        let held: usize = items.iter().map(|(cursor, _)| cursor.len()).sum();
        assert!(held <= (256 << 10) + longest.len(), "{held} bytes of cursors in one step");
        gaps += items.len();
    }
    assert_eq!(gaps, 1_000);
}

// WATCH-23
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_is_gone_or_cut_is_a_gap_with_its_range_and_the_others_go_on() {
    let place = Place::new();
    let (mut one, mut two) = (place.task("t-aaaaaa", "one"), place.task("t-bbbbbb", "two"));
    write(&mut one, &event("t-aaaaaa", 1));
    let (_running, browser) = place.entered(Limits::default()).await;
    let mut events = browser.events("start").await;
    assert_eq!(events.seqs(1).await, pairs("t-aaaaaa", [1]));
    std::fs::remove_file(place.journal("t-aaaaaa")).unwrap();
    let gap = events.next().await.unwrap();
    assert_eq!(gap.kind, "gap");
    let expected = serde_json::json!(
        {"task_id": "t-aaaaaa", "after": 1, "until": 1, "why": "gone"});
    assert_eq!(gap.data, expected);
    write(&mut two, &(event("t-bbbbbb", 1) + &event("t-bbbbbb", 2)));
    assert_eq!(events.seqs(2).await, pairs("t-bbbbbb", 1..=2));
    two.set_len(0).unwrap();
    let gap = events.next().await.unwrap();
    assert_eq!((gap.kind.as_str(), &gap.data["why"]), ("gap", &serde_json::json!("changed")));
    // A link in the place of a journal is no journal.
    let secret = place.dir.path().join("secret");
    std::fs::write(&secret, event("t-bbbbbb", 9)).unwrap();
    std::fs::remove_file(place.journal("t-bbbbbb")).unwrap();
    std::os::unix::fs::symlink(&secret, place.journal("t-bbbbbb")).unwrap();
    let gap = events.next().await.unwrap();
    assert_eq!((gap.kind.as_str(), &gap.data["why"]), ("gap", &serde_json::json!("gone")));
    let page = browser.get("/tasks/t-aaaaaa").await;
    assert!(page.body.contains("no longer on disk"), "{}", page.body);
}

// attack 613
#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_journal_cannot_forge_frames_of_the_stream() {
    let place = Place::new();
    let mut journal = place.task("t-aaaaaa", "x");
    let (_running, browser) = place.entered(Limits::default()).await;
    let mut events = browser.events("").await;
    let forged = "{\"seq\":1,\"task_id\":\"t-aaaaaa\",\"type\":\"diagnosis\",\"text\":\"a\\r\\n\\nevent: gap\\u2028\"}\r\n";
    write(&mut journal, forged);
    write(&mut journal, "data: x\revent: gap\r\r\n{\"seq\":-1,\"type\":\"x\"}\n\n[1]\n");
    write(
        &mut journal,
        &format!("{{\"seq\":2,\"type\":\"diagnosis\",\"text\":\"{}\"}}\n", "x".repeat(2 << 20)),
    );
    write(&mut journal, &event("t-aaaaaa", 3));
    let first = events.next().await.unwrap();
    assert_eq!(first.kind, "message");
    assert_eq!(first.data["text"], "a\r\n\nevent: gap\u{2028}");
    for why in ["unreadable", "unreadable", "unreadable", "unreadable", "too_long"] {
        let gap = events.next().await.unwrap();
        assert_eq!((gap.kind.as_str(), gap.data["why"].as_str()), ("gap", Some(why)));
    }
    assert_eq!(events.seqs(1).await, pairs("t-aaaaaa", [3]));
}

// WATCH-24, WATCH-25
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_heartbeats_and_the_sixth_of_a_session_parks_the_first() {
    let place = Place::new();
    let mut journal = place.task("t-aaaaaa", "x");
    let limits = Limits { heartbeat: Duration::from_millis(30), ..Limits::default() };
    let (running, browser) = place.entered(limits).await;
    let mut first = browser.events("").await;
    assert!(first.frame().await.unwrap().contains(": heartbeat"));
    let mut others = vec![];
    for _ in 0..5 {
        others.push(browser.events("").await);
    }
    let parked = first.next().await.unwrap();
    assert_eq!(parked.kind, "parked");
    assert_eq!(first.next().await, None, "the connection is free for a page");
    let other = running.browser().await;
    let mut of_other = other.events("").await;
    write(&mut journal, &event("t-aaaaaa", 1));
    for events in others.iter_mut().chain([&mut of_other]) {
        assert_eq!(events.seqs(1).await, pairs("t-aaaaaa", [1]));
    }
}

// attack 610
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_is_dropped_and_resumes_without_loss() {
    let place = Place::new();
    let mut journal = place.task("t-aaaaaa", "x");
    let limits = Limits { patience: Duration::from_millis(200), ..Limits::default() };
    let (running, browser) = place.entered(limits).await;
    let mut slow = browser.events("start").await;
    // More than the buffers of both ends hold.
    let line = format!(
        "{{\"seq\":1,\"task_id\":\"t-aaaaaa\",\"type\":\"diagnosis\",\"text\":\"{}\"}}\n",
        "x".repeat(200_000)
    );
    for _ in 0..150 {
        write(&mut journal, &line);
    }
    write(&mut journal, &event("t-aaaaaa", 2));
    let dropped = Instant::now();
    while running.server.streams() > 0 {
        assert!(dropped.elapsed() < Duration::from_secs(20), "the slow reader is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut got = 0;
    while let Some(event) = slow.next().await {
        assert_eq!(event.kind, "message");
        got += 1;
    }
    assert!(got < 150, "{got}");
    // On a busy machine this reader may be too slow as well, and resumes as often as it must.
    let (mut cursor, mut last) = (slow.cursor, 0);
    while got < 151 {
        let mut again = browser.events(&cursor).await;
        while got < 151
            && let Some(event) = again.next().await
        {
            got += 1;
            last = event.data["seq"].as_u64().unwrap();
            cursor = again.cursor.clone();
        }
    }
    assert_eq!(last, 2);
}

// attack 601
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_used_up_by_the_first_who_comes_and_no_page_opens_without_one() {
    let place = Place::new();
    place.task("t-aaaaaa", "a secret text");
    let limits = Limits { token_life: Duration::from_millis(300), ..Limits::default() };
    let running = place.server(&Door::Port(0), limits).await;
    let (host, path) = split(&running.server.address());
    let stranger = Browser { host, cookie: String::new() };
    for closed in [
        "/",
        "/tasks/t-aaaaaa",
        "/api/tasks",
        "/api/events",
        "/audit",
        "/metrics",
        "/enter/",
        "/enter/AAAAAAAAAAAAAAAAAAAAAA",
    ] {
        let answer = stranger.get(closed).await;
        assert_eq!(answer.status, 401, "{closed}");
        assert!(!answer.body.contains("t-aaaaaa") && !answer.body.contains("secret text"));
    }
    let entered = stranger.get(&path).await;
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!entered.body.contains(&path[7..]) && entered.header("location") == Some("/"));
    assert_eq!(stranger.get(&path).await.status, 401, "the token was used");
    let (_, late) = split(&running.server.address());
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(stranger.get(&late).await.status, 401, "the token is too old");
    let guess = Browser { cookie: "act_watch=x; act_watch=y".into(), ..stranger };
    assert_eq!(guess.get("/").await.status, 401);
}

// attack 622
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_comes_from_a_file_goes_on_by_itself_because_its_cookie_is_strict() {
    let place = Place::new();
    let running = place.server(&Door::Port(0), Limits::default()).await;
    let (host, path) = split(&running.server.address());
    let browser = Browser { host, cookie: String::new() };
    let link = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
    ];
    let entered = browser.get_with(&path, &link).await;
    assert_eq!(entered.status, 200);
    assert!(entered.body.contains("content=\"0;url=/\"") && entered.header("set-cookie").is_some());
}

// attack 603
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_pointed_at_this_machine_gets_no_answer() {
    let place = Place::new();
    place.task("t-aaaaaa", "x");
    let (_running, browser) = place.entered(Limits::default()).await;
    let port = browser.port();
    let names = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost:{port}"),
        format!("act-evil.localhost:{port}"),
        format!("127.0.0.1:{}", port.wrapping_add(1)),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{port}.evil.example"),
        format!("{}.", browser.host),
        String::new(),
    ];
    for name in names {
        let answer = browser.get_with("/api/tasks", &[("Host", &name)]).await;
        assert!(matches!(answer.status, 421 | 400), "{name}: {answer:?}");
        assert!(!answer.body.contains("t-aaaaaa"));
    }
    let two =
        browser.get_with("/api/tasks", &[("Host", &browser.host), ("Host", "evil.example")]).await;
    assert_eq!(two.status, 421);
    assert_eq!(browser.get("/api/tasks").await.status, 200);
    let literal = format!("127.0.0.1:{port}");
    let page = browser.get_with("/", &[("Host", &literal)]).await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("reached by 127.0.0.1"), "the page says what remains");
    assert!(!browser.get("/").await.body.contains("reached by 127.0.0.1"));
}

// attack 606
#[tokio::test(flavor = "multi_thread")]
async fn another_page_reads_nothing_also_from_another_port_of_the_same_host() {
    let place = Place::new();
    place.task("t-aaaaaa", "x");
    let (_running, browser) = place.entered(Limits::default()).await;
    for site in ["cross-site", "same-site"] {
        for path in ["/", "/api/tasks", "/api/events", "/script.js"] {
            let answer = browser
                .get_with(path, &[("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "cors")])
                .await;
            assert_eq!(answer.status, 403, "{site} {path}");
        }
        let frame = [
            ("Sec-Fetch-Site", site),
            ("Sec-Fetch-Mode", "navigate"),
            ("Sec-Fetch-Dest", "iframe"),
        ];
        assert_eq!(browser.get_with("/", &frame).await.status, 403);
    }
    let foreign = browser.get_with("/api/events", &[("Origin", "http://evil.example")]).await;
    assert_eq!(foreign.status, 403);
    let own = browser.get_with("/api/tasks", &[("Sec-Fetch-Site", "same-origin")]).await;
    assert_eq!((own.status, own.header("access-control-allow-origin")), (200, None));
}

// attack 604
#[tokio::test(flavor = "multi_thread")]
async fn only_a_form_of_this_page_and_session_cancels_and_asking_changes_nothing() {
    let place = Place::new();
    place.task("t-aaaaaa", "x");
    let (running, browser) = place.entered(Limits::default()).await;
    let asked = browser.get("/tasks/t-aaaaaa/cancel").await;
    assert_eq!((asked.status, asked.header("referrer-policy")), (200, Some("same-origin")));
    let (_, rest) = asked.body.split_once("name=\"form\" value=\"").unwrap();
    let form = rest.split('"').next().unwrap();
    let own = format!("http://{}", browser.host);
    let other_port = format!("http://{}", browser.host.replace(&browser.port().to_string(), "1"));
    let body = format!("form={form}");
    let path = "/tasks/t-aaaaaa/cancel";
    let same = ("Sec-Fetch-Site", "same-origin");
    let other = running.browser().await;
    let foreign = other.get("/tasks/t-aaaaaa/cancel").await.body;
    let foreign = foreign
        .split_once("name=\"form\" value=\"")
        .unwrap()
        .1
        .split('"')
        .next()
        .unwrap()
        .to_owned();
    let attempts: Vec<(Vec<(&str, &str)>, String)> = vec![
        (vec![], body.clone()),
        (vec![("Origin", "null"), same], body.clone()),
        (vec![("Origin", &other_port), ("Sec-Fetch-Site", "same-site")], body.clone()),
        (vec![("Origin", &own), ("Sec-Fetch-Site", "same-site")], body.clone()),
        (vec![("Origin", &own), ("Sec-Fetch-Site", "cross-site")], body.clone()),
        (vec![("Origin", &own), ("Sec-Fetch-Site", "none")], body.clone()),
        (vec![("Origin", &own), same, ("Cookie", "act_watch=x")], body.clone()),
        (vec![("Origin", &own), same], String::new()),
        (vec![("Origin", &own), same], "form=".to_owned()),
        (vec![("Origin", &own), same], format!("form={foreign}")),
        (vec![("Origin", &own), same], format!("form={form}&x={}", "x".repeat(9000))),
    ];
    for (headers, body) in attempts {
        let answer = browser.post(path, &headers, &body).await;
        assert!(matches!(answer.status, 400 | 401 | 403), "{headers:?} {answer:?}");
    }
    assert!(browser.get(&format!("{path}?form={form}")).await.status == 200);
    assert!(!place.store.cancel_requested("t-aaaaaa").unwrap());
    for elsewhere in ["/", "/tasks/t-aaaaaa", "/api/tasks/t-aaaaaa/cancel"] {
        assert_eq!(browser.post(elsewhere, &[("Origin", &own), same], &body).await.status, 404);
    }
    // This process is the owner of the task and would get the signal.
    place.store.end("t-aaaaaa", &Process::this(), &Outcome::cancelled()).unwrap();
    let ended = browser.post(path, &[("Origin", &own), same], &body).await;
    assert_eq!(ended.status, 409, "every wall was passed, and the task has ended: {ended:?}");
}

// attack 607
#[tokio::test(flavor = "multi_thread")]
async fn only_files_that_the_manifest_of_a_run_names_are_sent_and_never_through_a_link() {
    let place = Place::new();
    place.task("t-aaaaaa", "x");
    let run_id = place.run("t-aaaaaa", &[("test", "plain output\n"), ("a/b", "other\n")]);
    let run = place.dir.path().join("a/runs").join(&run_id);
    std::fs::write(run.join("logs/notes"), "not named").unwrap();
    let (_running, browser) = place.entered(Limits::default()).await;
    for name in ["combined.log", "step-01-test.log", "step-02-a_b.log"] {
        let answer = browser.get(&format!("/runs/{run_id}/files/{name}")).await;
        assert_eq!(answer.status, 200, "{name}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header("content-disposition"), Some("attachment"));
    }
    let names = [
        "notes",
        "manifest.json",
        "tree",
        "..%2fmanifest.json",
        "%2e%2e/manifest.json",
        "../manifest.json",
        "step-01-test.log%00",
        "step-1-test.log",
        "step-03-test.log",
        "..%2f..%2f..%2fstate%2fact.db",
        "",
        ".",
    ];
    for name in names {
        let answer = browser.get(&format!("/runs/{run_id}/files/{name}")).await;
        assert!(matches!(answer.status, 400 | 404), "{name}: {answer:?}");
    }
    for run in ["..", "%2e%2e", "run_20260101_000000_aaaaaa", "x"] {
        let answer = browser.get(&format!("/runs/{run}/files/combined.log")).await;
        assert!(matches!(answer.status, 400 | 404), "{run}: {answer:?}");
    }
    let secret = place.dir.path().join("secret");
    std::fs::write(&secret, "another file").unwrap();
    std::fs::remove_file(run.join("logs/step-01-test.log")).unwrap();
    std::os::unix::fs::symlink(&secret, run.join("logs/step-01-test.log")).unwrap();
    let answer = browser.get(&format!("/runs/{run_id}/files/step-01-test.log")).await;
    assert_eq!(answer.status, 404);
    let page = browser.get(&format!("/runs/{run_id}?step=test")).await;
    assert!(page.status == 200 && !page.body.contains("another file"));
}

// attack 625, WATCH-40
#[tokio::test(flavor = "multi_thread")]
async fn a_store_with_thousands_of_unresolved_reports_makes_no_endless_page() {
    let place = Place::new();
    for number in 0..120 {
        let task_id = format!("t-{number:06}");
        place.task(&task_id, "x");
        let how = Outcome::recorded(TaskState::Stuck, Some("hard_stop".into())).unwrap();
        assert!(place.store.end(&task_id, &Process::this(), &how).unwrap());
        let report = NewStuckReport {
            task_id: &task_id,
            repo: &task_id,
            path: "agent/STUCK.md",
            sha256: "0",
            run_ids: &[],
        };
        place.store.add_stuck_report(&report).unwrap();
    }
    let (_running, browser) = place.entered(Limits::default()).await;
    let page = browser.get("/").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.body.matches(" gave up (").count(), 100);
    assert!(page.body.contains("There are more; ") && page.body.contains("more than 100 need you"));
}

// attack 653
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_row_is_shown_as_damaged_and_the_other_pages_work() {
    let place = Place::new();
    let database = rusqlite::Connection::open(place.dir.path().join("a/state/act.db")).unwrap();
    let columns = ["tokens = '{'", "flags = '7'", "state = 'ELSEWHERE'", "owner_pid = -1"];
    for (number, column) in columns.into_iter().enumerate() {
        let task_id = format!("t-bad{number:03}");
        place.task(&task_id, "x");
        let damage = format!("UPDATE tasks SET {column} WHERE task_id = '{task_id}'");
        assert_eq!(database.execute(&damage, []).unwrap(), 1);
    }
    place.task("t-aaaaaa", "a text that is whole");
    let (_running, browser) = place.entered(Limits::default()).await;
    let page = browser.get("/").await;
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.contains("a text that is whole"));
    for number in 0..columns.len() {
        assert!(page.body.contains(&format!("t-bad{number:03}</span>: ")), "{}", page.body);
    }
    for path in ["/tasks/t-aaaaaa", "/metrics", "/audit", "/api/tasks", "/api/tasks/t-aaaaaa"] {
        assert_eq!(browser.get(path).await.status, 200, "{path}");
    }
    assert_eq!(browser.get("/api/tasks").await.json()["damaged"].as_array().unwrap().len(), 4);
    assert!(browser.get("/metrics").await.body.contains("2 tasks are not counted"));
    let damaged = browser.get("/tasks/t-bad000").await;
    assert!(damaged.status == 500 && damaged.body.contains("is damaged"), "{}", damaged.body);
}

// WATCH-41
#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_task_has_the_questions_of_the_scouts_its_budget_and_what_it_asks() {
    let place = Place::new();
    let mut journal = place.task("t-aaaaaa", "x");
    for line in [
        r#"{"seq":1,"type":"scout_started","scout":"scout-a","sha256":"0","attempt":1,"question":"Where is the parser?"}"#,
        r#"{"seq":2,"type":"scout_finished","scout":"scout-a","outcome":"ok","summary":"In src/parse.rs.","duration_ms":1}"#,
        r#"{"seq":3,"type":"consent_asked","path":".envrc","op":"create"}"#,
    ] {
        write(&mut journal, &format!("{line}\n"));
    }
    let (_running, browser) = place.entered(Limits::default()).await;
    let page = browser.get("/tasks/t-aaaaaa").await.body;
    for text in [
        "Asked: Where is the parser?",
        "In src/parse.rs.",
        "asks whether it may change <code>.envrc</code>",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
}

// attack 611
#[tokio::test(flavor = "multi_thread")]
async fn no_stored_text_is_ever_html() {
    let place = Place::new();
    let mut journal = place.task("t-aaaaaa", HOSTILE);
    let run_id = place.run("t-aaaaaa", &[(HOSTILE, HOSTILE), ("test", KEY)]);
    let text = serde_json::to_string(HOSTILE).unwrap();
    let line = |fields: &str| {
        format!(
            "{{\"seq\":1,\"time\":{text},\"task_id\":\"t-aaaaaa\",{}}}\n",
            fields.replace("$", &text)
        )
    };
    for fields in [
        "\"type\":\"milestone\",\"text\":$",
        "\"type\":\"constraints\",\"constraints\":[$],\"non_goals\":[$],\"boundaries\":[$],\"enforced\":[$]",
        "\"type\":\"plan\",\"strategy\":$,\"criteria\":[$],\"acceptance\":[$]",
        "\"type\":\"replan\",\"number\":1,\"strategy\":$",
        "\"type\":\"scout_started\",\"scout\":$,\"attempt\":1,\"question\":$",
        "\"type\":\"scout_finished\",\"scout\":$,\"outcome\":$,\"summary\":$,\"error\":$,\"duration_ms\":1",
        "\"type\":\"verify_started\",\"run_id\":$,\"attempt\":1",
        "\"type\":\"step_started\",\"run_id\":$,\"name\":$",
        "\"type\":\"step_finished\",\"run_id\":$,\"name\":$,\"exit_code\":1,\"duration_ms\":1",
        "\"type\":\"verify_finished\",\"run_id\":$,\"status\":$,\"reason\":$,\"duration_ms\":1",
        "\"type\":\"edit\",\"path\":$,\"op\":$",
        "\"type\":\"edit_refused\",\"path\":$,\"reason\":$",
        "\"type\":\"component_denied\",\"name\":$,\"grant\":$,\"object\":$",
        "\"type\":\"component_refused\",\"name\":$,\"message\":$",
        "\"type\":\"consent\",\"path\":$,\"answer\":$",
        "\"type\":\"check_finished\",\"command\":$,\"outcome\":$",
        "\"type\":\"instructions_read\",\"path\":$",
        "\"type\":\"diagnosis\",\"text\":$",
        "\"type\":\"baseline\",\"status\":$,\"failures\":[$]",
        "\"type\":\"evidence\",\"red_first\":{\"result\":$,\"reason\":$}",
        "\"type\":\"proposed\",\"diff\":$,\"apply\":$",
        "\"type\":\"model_request\",\"role\":$,\"error\":$,\"usage\":{\"input\":1,\"cached\":0,\"output\":1}",
        "\"type\":\"task_finished\",\"state\":$,\"reason\":$,\"summary\":$,\"report_path\":$,\"gate_inputs_changed\":[$]",
    ] {
        write(&mut journal, &line(fields));
    }
    let reason = Outcome::recorded(act_core::TaskState::Stuck, Some(HOSTILE.to_owned())).unwrap();
    place.store.end("t-aaaaaa", &Process::this(), &reason).unwrap();
    let (_running, browser) = place.entered(Limits::default()).await;
    let step = "%3C%2Ftitle%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E%22%27%3E%3Cimg%20src%3Dx%20onerror%3Dalert(2)%3E";
    let pages = [
        "/".to_owned(),
        "/tasks/t-aaaaaa".to_owned(),
        format!("/runs/{run_id}"),
        format!("/runs/{run_id}?step={step}"),
        format!("/runs/{run_id}?q={step}"),
        format!("/runs/{run_id}?step=test"),
        "/audit".to_owned(),
        "/metrics".to_owned(),
        format!("/tasks/{step}"),
        format!("/{step}"),
    ];
    for path in pages {
        let page = browser.get(&path).await;
        assert!(page.header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
        for found in [
            "<script>",
            "<img",
            "alert(1)<",
            "\"'>",
            "onerror=alert(2)>",
            "\u{202e}",
            "\u{1b}",
            "\0",
        ] {
            assert!(!page.body.contains(found), "{found:?} in {path}:\n{}", page.body);
        }
        assert!(!page.body.contains(KEY), "{path}");
        assert_eq!(
            page.body.matches("<script").count(),
            page.body.matches("<script src=\"/script.js\" defer>").count()
        );
        assert_eq!(page.body.matches("<title>").count(), 1, "{path}");
    }
    let task = browser.get("/tasks/t-aaaaaa").await.body;
    assert!(task.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "the text is there, as text");
    assert!(!browser.get(&format!("/api/runs/{run_id}/log?step=test")).await.body.contains(KEY));
}

// attack 615
#[tokio::test(flavor = "multi_thread")]
async fn every_answer_forbids_what_a_page_does_not_need() {
    let place = Place::new();
    place.task("t-aaaaaa", "x");
    let (_running, browser) = place.entered(Limits::default()).await;
    let stranger = Browser { host: browser.host.clone(), cookie: String::new() };
    let answers = [
        browser.get("/").await,
        browser.get("/api/tasks").await,
        browser.get("/nothing").await,
        browser.get("/style.css").await,
        browser.get_with("/", &[("Host", "evil")]).await,
        stranger.get("/").await,
        browser.post("/tasks/t-aaaaaa/cancel", &[], "").await,
    ];
    for answer in answers {
        for (name, value) in [
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{answer:?}");
        }
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none';") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("base-uri 'none'"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert_eq!(answer.header("server"), None);
    }
    // Nothing on a page needs what the policy forbids.
    for path in ["/", "/tasks/t-aaaaaa", "/metrics"] {
        let page = browser.get(path).await.body;
        for found in [" style=", " onclick=", "javascript:", "//", "<iframe", "<base"] {
            assert!(!page.contains(found), "{found} in {path}");
        }
    }
}

// attack 608
#[tokio::test(flavor = "multi_thread")]
async fn huge_headers_and_many_headers_are_refused() {
    let place = Place::new();
    let (_running, browser) = place.entered(Limits::default()).await;
    let long = "x".repeat(40 << 10);
    assert!(matches!(browser.get_with("/", &[("X-Long", &long)]).await.status, 431 | 0));
    assert!(matches!(browser.get(&format!("/{long}")).await.status, 414 | 431 | 0));
    let many: Vec<_> = (0..200).map(|_| ("X-Many", "x")).collect();
    assert_eq!(browser.get_with("/", &many).await.status, 431);
    assert_eq!(browser.get("/").await.status, 200, "the server goes on");
}

// attack 609
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_sends_its_request_for_ever_is_closed_and_blocks_nobody() {
    let place = Place::new();
    let limits =
        Limits { header_time: Duration::from_millis(200), connections: 4, ..Limits::default() };
    let (_running, browser) = place.entered(limits).await;
    let mut slow = vec![];
    for _ in 0..4 {
        let mut stream = browser.connect().await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x").await.unwrap();
        slow.push(stream);
    }
    // All places are taken, until the slow ones lose theirs.
    assert_eq!(browser.get("/").await.status, 200);
    for mut stream in slow {
        let mut bytes = vec![];
        let read = stream.read_to_end(&mut bytes);
        tokio::time::timeout(Duration::from_secs(20), read).await.unwrap().ok();
    }
    // An idle connection is closed as well.
    let mut idle = browser.connect().await;
    idle.write_all(browser.head("GET", "/style.css", &[]).as_bytes()).await.unwrap();
    let mut bytes = vec![];
    tokio::time::timeout(Duration::from_secs(20), idle.read_to_end(&mut bytes)).await.unwrap().ok();
    assert!(Answer::of(&bytes).status == 200);
}

// attack 650
#[tokio::test(flavor = "multi_thread")]
async fn peers_without_a_session_keep_no_place_from_those_who_have_one() {
    let place = Place::new();
    let limits =
        Limits { connections: 4, stranger_time: Duration::from_secs(600), ..Limits::default() };
    let (_running, browser) = place.entered(limits).await;
    let mut events = browser.events("").await;
    let mut strangers = vec![];
    for number in 0..12 {
        let mut stream = browser.connect().await;
        if number % 2 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x").await.unwrap();
        }
        strangers.push(stream);
    }
    let asked = tokio::time::timeout(Duration::from_secs(10), browser.get("/api/tasks")).await;
    assert_eq!(asked.unwrap().status, 200);
    // The oldest stranger has gone, and who has shown a session stays.
    let mut byte = [0];
    let gone = tokio::time::timeout(Duration::from_secs(10), strangers[0].read(&mut byte)).await;
    assert!(matches!(gone.unwrap(), Ok(0) | Err(_)));
    let mut journal = place.task("t-aaaaaa", "x");
    write(&mut journal, &event("t-aaaaaa", 1));
    assert_eq!(events.seqs(1).await, pairs("t-aaaaaa", [1]));
}

// attack 650
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_shows_no_session_is_gone_soon_and_one_with_a_session_has_more_time() {
    let place = Place::new();
    let limits = Limits { stranger_time: Duration::from_millis(300), ..Limits::default() };
    let (_running, browser) = place.entered(limits).await;
    let mut with_session = browser.connect().await;
    with_session.write_all(browser.head("GET", "/api/tasks", &[]).as_bytes()).await.unwrap();
    let mut piece = [0; 64 << 10];
    assert!(with_session.read(&mut piece).await.unwrap() > 0);
    let mut slow = browser.connect().await;
    slow.write_all(b"GET / HTTP/1.1\r\nHost: x").await.unwrap();
    // A page without a session is answered, but its connection does not stay.
    let mut without = browser.connect().await;
    let closed = browser.head("GET", "/", &[("Cookie", "act_watch=x")]);
    without.write_all(closed.as_bytes()).await.unwrap();
    for mut stranger in [slow, without] {
        let mut bytes = vec![];
        let end = stranger.read_to_end(&mut bytes);
        // The limit for those with a session is 20 s.
        let _ = tokio::time::timeout(Duration::from_secs(10), end).await.unwrap();
    }
    let again = browser.head("GET", "/api/tasks", &[("Connection", "close")]);
    assert_eq!(exchange(with_session, &again).await.status, 200);
}

// attack 617
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_has_a_bounded_number_of_requests_and_streams_have_a_bounded_number() {
    let place = Place::new();
    let limits = Limits { requests: 3, streams: 2, ..Limits::default() };
    let (_running, browser) = place.entered(limits).await;
    let mut stream = browser.connect().await;
    stream.write_all(browser.head("GET", "/icon.svg", &[]).repeat(10).as_bytes()).await.unwrap();
    let mut bytes = vec![];
    tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes))
        .await
        .unwrap()
        .ok();
    assert_eq!(String::from_utf8_lossy(&bytes).matches("HTTP/1.1 200").count(), 3);
    let one = browser.events("").await;
    let _two = browser.events("").await;
    assert_eq!(browser.get("/api/events").await.status, 503);
    // A reader that was refused does not occupy its connection, although it did not ask to end it.
    let mut stream = browser.connect().await;
    stream.write_all(browser.head("GET", "/api/events", &[]).as_bytes()).await.unwrap();
    let mut refused = vec![];
    let ended = stream.read_to_end(&mut refused);
    tokio::time::timeout(Duration::from_secs(5), ended).await.unwrap().unwrap();
    assert!(refused.starts_with(b"HTTP/1.1 503"));
    drop(one);
    // The place of a stream is free when its reader has gone.
    let begun = Instant::now();
    loop {
        let mut stream = browser.connect().await;
        stream.write_all(browser.head("GET", "/api/events", &[]).as_bytes()).await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        if head.ends_with(b"200") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

// attack 618
#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_proxy_other_methods_and_two_lengths_are_refused() {
    let place = Place::new();
    place.task("t-aaaaaa", "x");
    let (_running, browser) = place.entered(Limits::default()).await;
    for method in ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "GETT"] {
        let head = browser.head(method, "/api/tasks", &[("Connection", "close")]);
        let answer = exchange(browser.connect().await, &head).await;
        assert!(matches!(answer.status, 405 | 400), "{method} {answer:?}");
    }
    let absolute = browser.head("GET", "http://evil.example/api/tasks", &[("Connection", "close")]);
    assert_eq!(exchange(browser.connect().await, &absolute).await.status, 421);
    let connect = browser.head("CONNECT", "evil.example:80", &[("Connection", "close")]);
    assert!(exchange(browser.connect().await, &connect).await.status >= 400);
    let lengths = [("Content-Length", "1"), ("Content-Length", "2"), ("Connection", "close")];
    let two = browser.head("POST", "/tasks/t-aaaaaa/cancel", &lengths);
    assert_eq!(exchange(browser.connect().await, &two).await.status, 400);
    let head = browser.head("HEAD", "/api/tasks", &[("Connection", "close")]);
    let answer = exchange(browser.connect().await, &head).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
}

// attack 614
#[tokio::test(flavor = "multi_thread")]
async fn a_socket_is_for_its_owner_alone_and_for_names_of_this_machine() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.task("t-aaaaaa", "x");
    let path = place.socket();
    // The socket of a killed server does not stop the next one.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let running = place.server(&Door::Socket(path.clone()), Limits::default()).await;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = async |host: &str, more: &str| {
        let stream = UnixStream::connect(&path).await.unwrap();
        let request =
            format!("GET /api/tasks HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
        exchange(stream, &request).await
    };
    for host in ["localhost", "localhost:7777", "127.0.0.1:7777", "[::1]:7777"] {
        let answer = ask(host, "").await;
        assert_eq!(answer.json()["tasks"][0]["task_id"], "t-aaaaaa", "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:7777",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
        "localhost:7777@evil",
    ] {
        assert_eq!(ask(host, "").await.status, 421, "{host}");
    }
    assert_eq!(ask("localhost:7777", "Sec-Fetch-Site: cross-site\r\n").await.status, 403);
    assert_eq!(ask("localhost:7777", "Sec-Fetch-Site: same-site\r\n").await.status, 403);
    drop(running);
    for mode in [0o750, 0o705, 0o777] {
        let parent = path.parent().unwrap();
        std::fs::set_permissions(parent, std::fs::Permissions::from_mode(mode)).unwrap();
        let observer = Observer::of(Arc::clone(&place.artifacts)).unwrap();
        let door = Door::Socket(path.clone());
        let refused = Server::listen(&door, observer, Secrets::default(), Limits::default()).await;
        let refused = refused.err().unwrap();
        assert_eq!(refused.code, "watch_unusable", "{mode:o}");
        let fact = format!("other users can enter its directory, which has mode 0{mode:o}");
        assert!(refused.message.ends_with(&fact), "{}", refused.message);
    }
}

// attack 616
#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_text_in_bounded_pieces_that_end_with_a_character() {
    let place = Place::new();
    place.task("t-aaaaaa", "x");
    let long = format!("{}\u{1b}[31m<b>red</b>\u{1b}[0m\u{202e}\n", "ä".repeat(300_000));
    let run_id = place.run("t-aaaaaa", &[("test", &long)]);
    let (_running, browser) = place.entered(Limits::default()).await;
    let address = format!("/api/runs/{run_id}/log?step=test&from=");
    let (mut from, mut text) = (0, String::new());
    loop {
        let piece = browser.get(&format!("{address}{from}")).await.json();
        assert!(piece["log"].as_str().unwrap().len() <= 256 << 10);
        text += piece["log"].as_str().unwrap();
        from = piece["to"].as_u64().unwrap();
        if from == piece["end"].as_u64().unwrap() {
            break;
        }
    }
    assert_eq!(text, long);
    // The end of a log may begin within a character, and a log may hold bytes that are none.
    let marked = format!("{}x", "\u{20ac}".repeat(200_000));
    let other = place.run("t-aaaaaa", &[("test", &marked)]);
    let end = browser.get(&format!("/api/runs/{other}/log?step=test")).await.json();
    let log = end["log"].as_str().unwrap();
    assert!(!log.contains('\u{fffd}') && log.len() > (256 << 10) - 4, "{}", &log[..9]);
    let (from, to) = (end["from"].as_u64().unwrap(), end["to"].as_u64().unwrap());
    assert_eq!((to - from, to), (log.len() as u64, marked.len() as u64));
    let file = place.dir.path().join(format!("a/runs/{other}/logs/step-01-test.log"));
    let mut broken = marked.into_bytes();
    broken[3000] = 0xff;
    std::fs::write(file, broken).unwrap();
    let begin = browser.get(&format!("/api/runs/{other}/log?step=test&from=0")).await.json();
    let log = begin["log"].as_str().unwrap();
    assert!(log.ends_with('\u{20ac}') && log.contains('\u{fffd}'), "the border cuts no character");
    let page = browser.get(&format!("/runs/{run_id}?step=test")).await.body;
    assert!(page.contains("&lt;b&gt;red&lt;/b&gt;\\u{202e}"), "control sequences are gone");
    let beyond = browser.get(&format!("{address}99999999999")).await.json();
    assert_eq!((beyond["log"].as_str(), &beyond["from"]), (Some(""), &beyond["end"]));
    let found = browser.get(&format!("/runs/{run_id}?q=RED")).await.body;
    assert!(found.contains("Lines with “RED”: 1"), "{found}");
}

// WATCH-10
#[tokio::test(flavor = "multi_thread")]
async fn programs_get_the_documents_of_the_commands() {
    let place = Place::new();
    place.task("t-aaaaaa", "x");
    let run_id = place.run("t-aaaaaa", &[("test", "fine\n")]);
    let (_running, browser) = place.entered(Limits::default()).await;
    let tasks = browser.get("/api/tasks").await.json();
    assert_eq!((&tasks["tasks"][0]["state"], &tasks["more"]), (&"RUNNING".into(), &false.into()));
    assert_eq!(browser.get("/api/tasks/t-aaaaaa").await.json()["run_ids"][0], *run_id);
    let manifest = browser.get(&format!("/api/runs/{run_id}")).await.json();
    assert_eq!(manifest["commands_executed"][0]["name"], "test");
    assert!(browser.get("/api/metrics").await.json()["tasks"]["SUCCESS"].is_number());
    assert!(browser.get("/api/audit/denials").await.json()["records"].is_array());
    assert!(browser.get("/api/audit/grants").await.json()["components"].is_array());
    for (path, code) in [
        ("/api/tasks/t-zzzzzz", "task_unknown"),
        ("/api/tasks/%2e%2e", "task_unknown"),
        ("/api/runs/run_20260101_000000_aaaaaa", "run_unknown"),
        ("/api/runs/x", "run_id_invalid"),
        ("/api/nothing", "not_found"),
    ] {
        let answer = browser.get(path).await;
        assert_eq!((answer.status, &answer.json()["code"]), (404, &code.into()), "{path}");
    }
    let wrong = browser.get_with("/api/events", &[("Last-Event-ID", "made up")]).await;
    assert_eq!((wrong.status, &wrong.json()["code"]), (400, &"cursor_invalid".into()));
}

// WATCH-26
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_task_whose_process_was_killed_reaches_those_who_watch() {
    let place = Place::new();
    let dead = Process { boot_id: "earlier".into(), ..Process::this() };
    drop(place.artifacts.create_journal("t-aaaaaa").unwrap());
    let task = Submission {
        task_id: "t-aaaaaa",
        repo: "r",
        root: "/r",
        text: "x",
        flags: &Flags::default(),
        owner: &dead,
    };
    place.store.submit(&task).unwrap();
    let limits = Limits { dead_tasks: Duration::from_millis(50), ..Limits::default() };
    let (_running, browser) = place.entered(limits).await;
    let mut events = browser.events("start").await;
    let end = events.next().await.unwrap();
    assert_eq!(
        (end.data["type"].as_str(), end.data["reason"].as_str()),
        (Some("task_finished"), Some("owner_died"))
    );
}

#[test]
fn the_schemas_are_published() {
    // EVENT-8
    use act_core::event::schema;
    schema::holds::<Gap>("watch-gap");
    schema::document_holds::<LogPiece>();
}
