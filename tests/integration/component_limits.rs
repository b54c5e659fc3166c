//! What a component can waste is bounded, and how its query ended is told as what it was.

use std::sync::Arc;
use std::time::Duration;

use act::component::{
    ComponentFailure, Grant, GuestFailure, Limit, Limits, Llm, RepoRead, Services,
};
use act::event::{EventKind, ModelUsage};
use act::model::{Model, ModelError, ModelErrorKind, Pause};
use act::scout::query::{self, QueryEnd, ReportCheck};
use act::scout::{ComponentScout, Question};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::hostile::{
    Heard, PLENTY, Reply, Repository, Scripted, Told, attack, load, nothing, question, reading,
    talking,
};

const SHORT: Duration = Duration::from_millis(300);

fn scout_with(limits: Limits) -> Grant {
    Grant { limits, ..Grant::builtin_scout() }
}

fn usage(input: u64, output: u64) -> ModelUsage {
    ModelUsage { input, cached: 0, output }
}

/// Waits until the store of a query is gone, its thread with it: nobody else holds the model then.
async fn gone(hear: &mut UnboundedReceiver<Told>) {
    let all = async { while hear.recv().await.is_some_and(|told| told != Told::Dropped) {} };
    tokio::time::timeout(PLENTY, all).await.expect("the guest still runs");
}

#[tokio::test]
async fn security_line_15_an_endless_loop_is_stopped_and_its_thread_ends() {
    let hostile = load(Grant::builtin_scout());
    for waste in ["loop", "sleep"] {
        let (model, mut hear) = Scripted::new(vec![]);
        let services = talking(&model);
        drop(model);
        let never = CancellationToken::new();
        let ended = hostile.ask(question(waste, &[]), services, SHORT, &never).await;
        assert!(matches!(ended, Err(ComponentFailure::Deadline(SHORT))), "{waste}: {ended:?}");
        gone(&mut hear).await;
    }
}

// security line 15: also inside a host call, which no tick can reach
#[tokio::test]
async fn security_line_15_a_host_call_that_nobody_wants_any_more_ends() {
    let repository = Repository::new();
    std::fs::write(repository.root().join("big"), "x".repeat(8 << 20)).unwrap();
    let caps = RepoRead { file_bytes: u64::MAX, query_bytes: u64::MAX, ..RepoRead::default() };
    let hostile = load(Grant { repo_read: Some(caps), ..Grant::builtin_scout() });
    let view = repository.views()[0].clone();
    let (model, mut hear) = Scripted::new(vec![]);
    let services = Services { view: Some(view), ..talking(&model) };
    drop(model);
    // One call that would read and hash hundreds of gigabytes.
    let often = question("batch-read-often", &["big", "40000"]);
    let never = CancellationToken::new();
    let ended = hostile.ask(often, services, SHORT, &never).await;
    assert!(matches!(ended, Err(ComponentFailure::Deadline(SHORT))), "{ended:?}");
    gone(&mut hear).await;
}

/// Writes the waits down instead of waiting.
#[derive(Default)]
struct Waits(std::sync::Mutex<Vec<Duration>>);

impl Pause for Waits {
    fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push(time);
        Box::pin(async {})
    }
}

/// Believes nothing, and is not asked.
struct Unasked;

impl ReportCheck for Unasked {
    fn check<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<String, String>> {
        panic!("there was no report")
    }
}

// security line 15
#[tokio::test]
async fn security_line_15_three_loops_are_three_attempts_and_the_query_has_failed() {
    let heard = Heard::default();
    let services = Services { events: heard.events(), ..nothing() };
    let loaded = load(Grant::builtin_scout());
    let scout = ComponentScout::new("scout-a", loaded, services, SHORT);
    let (waits, never) = (Waits::default(), CancellationToken::new());
    let question = Question { text: "loop".to_owned(), context: vec![] };
    let events = heard.events();
    let ended = query::ask(&scout, &question, &Unasked, &events, &waits, &never).await;
    let Err(QueryEnd::Failed(why)) = ended else { panic!("{ended:?}") };
    assert!(why.contains("3 attempts") && why.contains("300 ms"), "{why}");
    assert_eq!(*waits.0.lock().unwrap(), [1, 2].map(Duration::from_secs));
    let outcomes: Vec<_> = heard
        .kinds()
        .into_iter()
        .filter_map(|kind| match kind {
            EventKind::ScoutFinished { outcome, duration_ms, .. } => Some((outcome, duration_ms)),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes.len(), 3);
    for (outcome, duration) in outcomes {
        // Not before the time it had, and not long after it.
        assert_eq!(
            (outcome.as_str(), (300..10_300).contains(&duration)),
            ("failed", true),
            "{duration}"
        );
    }
}

#[tokio::test]
async fn the_granted_wall_time_bounds_what_the_caller_asks_for() {
    let hostile = load(scout_with(Limits { wall: SHORT, ..Limits::default() }));
    let ended = attack(&hostile, "loop", &[], nothing()).await;
    assert!(matches!(ended, Err(ComponentFailure::Deadline(SHORT))), "{ended:?}");
}

#[tokio::test]
async fn cancelling_ends_a_query_and_its_thread_at_once() {
    let hostile = load(Grant::builtin_scout());
    let (model, mut hear) = Scripted::new(vec![]);
    let services = talking(&model);
    drop(model);
    let cancel = CancellationToken::new();
    let asked = hostile.ask(question("loop", &[]), services, PLENTY, &cancel);
    let (ended, ()) = tokio::join!(asked, async { cancel.cancel() });
    assert!(matches!(ended, Err(ComponentFailure::Cancelled)), "{ended:?}");
    gone(&mut hear).await;
}

#[tokio::test]
async fn a_caller_that_loses_interest_ends_the_query_too() {
    let hostile = load(Grant::builtin_scout());
    let (model, mut hear) = Scripted::new(vec![]);
    let services = talking(&model);
    drop(model);
    let never = CancellationToken::new();
    {
        let asked = hostile.ask(question("loop", &[]), services, PLENTY, &never);
        tokio::select! {
            biased;
            ended = asked => panic!("{ended:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    gone(&mut hear).await;
}

#[tokio::test]
async fn stopping_one_query_leaves_the_others_alone() {
    let hostile = load(Grant::builtin_scout());
    let never = CancellationToken::new();
    let (model, mut hear) = Scripted::new(vec![]);
    let looped = hostile.ask(question("loop", &[]), talking(&model), PLENTY, &never);
    tokio::pin!(looped);
    for _ in 0..3 {
        tokio::select! {
            ended = &mut looped => panic!("{ended:?}"),
            ended = hostile.ask(question("loop", &[]), nothing(), Duration::from_millis(50), &never) => {
                assert!(matches!(ended, Err(ComponentFailure::Deadline(_))), "{ended:?}");
            }
        }
    }
    assert!(hear.try_recv().is_err(), "the first one still runs");
}

// security line 16; the host's own memory is measured in a process of its own
#[tokio::test]
async fn security_line_16_a_memory_bomb_is_refused_at_the_grant() {
    let hostile = load(Grant::builtin_scout());
    let had = attack(&hostile, "grow", &[], nothing()).await.unwrap().as_u64().unwrap();
    assert!(had <= 256 << 20 && had > 200 << 20, "{had}");
    let ended = attack(&hostile, "allocate", &[], nothing()).await;
    assert!(matches!(ended, Err(ComponentFailure::Limit(Limit::Memory))), "{ended:?}");
    let small = load(scout_with(Limits { memory_bytes: 32 << 20, ..Limits::default() }));
    let had = attack(&small, "grow", &[], nothing()).await.unwrap().as_u64().unwrap();
    assert!(had <= 32 << 20, "{had}");
}

#[tokio::test]
async fn security_line_18_half_a_gigabyte_goes_neither_out_nor_into_a_host_call() {
    // The guest may hold that much; the host takes no more than its bound all the same.
    let hostile = load(scout_with(Limits { memory_bytes: 1 << 30, ..Limits::default() }));
    for waste in ["huge-report", "huge-argument"] {
        let ended = attack(&hostile, waste, &[], nothing()).await;
        assert!(
            matches!(ended, Err(ComponentFailure::Limit(Limit::HostCall))),
            "{waste}: {ended:?}"
        );
        let next = attack(&hostile, "remember", &[], nothing()).await;
        assert!(next.is_ok(), "the next query works: {next:?}");
    }
}

#[tokio::test]
async fn one_call_hands_the_host_no_more_than_its_limit() {
    let hostile = load(Grant::builtin_scout());
    let (fits, over) = ((8 << 20).to_string(), ((8 << 20) + 1).to_string());
    attack(&hostile, "argument", &[&fits], nothing()).await.unwrap();
    let ended = attack(&hostile, "argument", &[&over], nothing()).await;
    assert!(matches!(ended, Err(ComponentFailure::Limit(Limit::HostCall))), "{ended:?}");
}

#[tokio::test]
async fn a_report_over_its_own_limit_is_refused() {
    let hostile = load(Grant::builtin_scout());
    let length = async |bytes: u64| {
        let never = CancellationToken::new();
        let bytes = bytes.to_string();
        let asked = hostile.ask(question("long-report", &[&bytes]), nothing(), PLENTY, &never);
        asked.await.map(|report| report.len())
    };
    assert_eq!(length(4 << 20).await.unwrap(), 4 << 20);
    let over = length((4 << 20) + 1).await;
    assert!(matches!(over, Err(ComponentFailure::Limit(Limit::Result))), "{over:?}");
}

/// Runs the attacks of lines 16 and 18 alone in this process and says how far its memory rose.
#[tokio::test]
#[ignore = "run by `the_hosts_memory_stays_bounded` in a process of its own"]
async fn measure_memory() {
    let own = |field: &str| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    let hostile = load(scout_with(Limits { memory_bytes: 64 << 20, ..Limits::default() }));
    let roomy = load(scout_with(Limits { memory_bytes: 1 << 30, ..Limits::default() }));
    let before = own("VmHWM");
    attack(&hostile, "grow", &[], nothing()).await.unwrap();
    let grown = own("VmHWM") - before;
    for waste in ["huge-report", "huge-argument"] {
        attack(&roomy, waste, &[], nothing()).await.unwrap_err();
    }
    println!("measured {grown} {}", own("VmHWM") - before);
}

// security lines 16 and 18
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_hosts_memory_stays_bounded() {
    load(Grant::builtin_scout()); // compiled here, so that compiling is not what is measured
    let test = "component_limits::measure_memory";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = shown
        .lines()
        .find_map(|line| line.split_once("measured "))
        .unwrap_or_else(|| panic!("{shown}"));
    let numbers: Vec<u64> = line.1.split(' ').map(|number| number.parse().unwrap()).collect();
    for number in numbers {
        assert!(number < (64 + 64) << 20, "{shown}");
    }
}

#[tokio::test]
async fn security_line_20_a_trap_is_one_bounded_line_and_the_next_query_is_fresh() {
    let hostile = load(Grant::builtin_scout());
    for (waste, argument, says) in [
        ("recurse", "", "call stack exhausted"),
        ("unreachable", "", "unreachable"),
        ("panic", "10000000", "panicked at"),
    ] {
        let ended = attack(&hostile, waste, &[argument], nothing()).await;
        let Err(failure @ ComponentFailure::Trap(_)) = ended else { panic!("{waste}: {ended:?}") };
        let line = failure.to_string();
        assert!(line.contains(says), "{line}");
        assert!(line.len() < 500 && !line.chars().any(char::is_control), "{line}");
        let next = attack(&hostile, "remember", &[], nothing()).await.unwrap();
        assert_eq!(next, serde_json::json!({ "global": 0, "heap": 0 }));
    }
}

#[tokio::test]
async fn security_line_21_the_deadline_holds_inside_a_stalled_model_call() {
    let hostile = load(Grant::builtin_scout());
    let (model, mut hear) = Scripted::new(vec![Reply::Stall]);
    let services = talking(&model);
    drop(model);
    let never = CancellationToken::new();
    let ended = hostile.ask(question("chat", &["1"]), services, SHORT, &never).await;
    assert!(matches!(ended, Err(ComponentFailure::Deadline(SHORT))), "{ended:?}");
    let mut told = vec![];
    while let Ok(one) = hear.try_recv() {
        told.push(one);
    }
    assert!(told.contains(&Told::Closed), "closed by the time the query has ended: {told:?}");
    if !told.contains(&Told::Dropped) {
        gone(&mut hear).await;
    }
}

#[tokio::test]
async fn cancelling_closes_a_stalled_model_call() {
    let hostile = load(Grant::builtin_scout());
    let (model, mut hear) = Scripted::new(vec![Reply::Stall]);
    let cancel = CancellationToken::new();
    let asked = hostile.ask(question("chat", &["1"]), talking(&model), PLENTY, &cancel);
    let stalled = async {
        while !matches!(hear.recv().await, Some(Told::Asked { .. }) | None) {}
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(asked, stalled);
    assert!(matches!(ended, Err(ComponentFailure::Cancelled)), "{ended:?}");
    assert_eq!(hear.try_recv().ok(), Some(Told::Closed));
}

#[tokio::test]
async fn security_line_24_nothing_is_remembered_between_queries() {
    let hostile = load(Grant::builtin_scout());
    for _ in 0..2 {
        let left = attack(&hostile, "remember", &[], nothing()).await.unwrap();
        assert_eq!(left, serde_json::json!({ "global": 0, "heap": 0 }));
    }
    let many = (0..4).map(|_| attack(&hostile, "remember", &[], nothing()));
    for left in futures_util::future::join_all(many).await {
        assert_eq!(left.unwrap()["global"], 0);
    }
}

#[tokio::test]
async fn handles_are_bounded() {
    let repository = Repository::new();
    let hostile = load(Grant::builtin_scout());
    let ended = attack(&hostile, "handles", &[], reading(&repository.views()[0])).await;
    assert!(matches!(ended, Err(ComponentFailure::Limit(Limit::Handles))), "{ended:?}");
}

// security line 12
#[tokio::test]
async fn names_that_open_listings_hold_are_bounded_and_a_large_directory_is_listed_whole() {
    let repository = Repository::new();
    for n in 0..5_000 {
        let name = format!("sub/many/{n:0200}");
        let path = repository.root().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    let hostile = load(Grant::builtin_scout());
    let view = &repository.views()[0];
    let heard = Heard::default();
    let services = Services { events: heard.events(), ..reading(view) };
    let listed = attack(&hostile, "listings", &["sub/many"], services).await.unwrap();
    let held = listed["held"].as_u64().unwrap();
    assert!(
        (1..10).contains(&held) && listed["error"].as_str().unwrap().contains("\"quota\""),
        "{listed}"
    );
    assert_eq!(listed["again"], true, "what is closed is given back: {listed}");
    assert!(heard.denials().contains(&("limits.listings".into(), "sub/many".into())));
    let all = attack(&hostile, "list", &["sub/many"], reading(view)).await.unwrap();
    assert_eq!(all["sub/many"]["ok"].as_array().map(Vec::len), Some(5_000));
}

#[tokio::test]
async fn bytes_that_are_read_are_bounded_per_file_and_per_query() {
    let repository = Repository::new();
    std::fs::write(repository.root().join("big"), "x".repeat(100_000)).unwrap();
    let view = &repository.views()[0];
    let caps = |file_bytes, query_bytes| Grant {
        repo_read: Some(RepoRead { file_bytes, query_bytes, ..RepoRead::default() }),
        ..Grant::builtin_scout()
    };
    let heard = Heard::default();
    let services = Services { events: heard.events(), ..reading(view) };
    let hostile = load(caps(u64::MAX, 250_000));
    let read = attack(&hostile, "read-until-refused", &["big"], services).await.unwrap();
    assert_eq!(read["bytes"], 200_000, "two whole files, and the third is refused: {read}");
    assert!(heard.denials().contains(&("repo.read.bytes".into(), "big".into())));

    let hostile = load(caps(50_000, u64::MAX));
    let read = attack(&hostile, "read", &["big", "a.txt"], reading(view)).await.unwrap();
    assert!(read["big"]["error"].is_string() && read["a.txt"]["ok"] == "hello", "{read}");
    let read = attack(&hostile, "batch-read", &["big"], reading(view)).await.unwrap();
    assert_eq!(read["big"]["ok"].as_str().map(str::len), Some(50_000));

    let hostile = load(caps(u64::MAX, 5));
    let read =
        attack(&hostile, "batch-read", &["a.txt", "sub/b.txt"], reading(view)).await.unwrap();
    assert_eq!(read["a.txt"]["ok"], "hello");
    assert!(read["sub/b.txt"]["error"].as_str().unwrap().contains("repo.read.bytes"), "{read}");
}

// CAPABILITY-45
#[tokio::test]
async fn what_searches_and_outlines_give_counts_against_the_same_bytes() {
    let repository = Repository::new();
    let write = |path: &str, text: String| {
        std::fs::write(repository.root().join(path), text).unwrap();
    };
    write("many", "needle\n".repeat(1_000));
    write("late", format!("early\n{}later\n", "-\n".repeat(300)));
    write("code.rs", "fn a() {}\n".repeat(100));
    let view = &repository.views()[0];
    let caps = |file_bytes, query_bytes| {
        let read = RepoRead { file_bytes, query_bytes, ..RepoRead::default() };
        load(Grant { repo_read: Some(read), ..Grant::builtin_scout() })
    };
    let heard = Heard::default();
    let services = Services { events: heard.events(), ..reading(view) };
    let found = attack(&caps(1 << 20, 1_000), "batch-search", &["needle"], services).await.unwrap();
    let given = found["ok"].as_array().unwrap().len();
    assert!((1..=1_000 / "needle".len()).contains(&given), "{given}");
    assert!(heard.denials().contains(&("repo.read.bytes".into(), "many".into())));

    let none = caps(1 << 20, 0);
    let found = attack(&none, "batch-search", &["needle"], reading(view)).await.unwrap();
    assert!(found["error"].as_str().unwrap().contains("repo.read.bytes"), "{found}");

    let short = caps(500, 1 << 20);
    for (word, hits) in [("early", 1), ("later", 0)] {
        let found = attack(&short, "batch-search", &[word], reading(view)).await.unwrap();
        assert_eq!(found["ok"].as_array().map(Vec::len), Some(hits), "{word}: {found}");
    }
    for (file_bytes, query_bytes, outlined) in
        [(500, 1 << 20, false), (1 << 20, 500, false), (1_000, 1_000, true)]
    {
        let heard = Heard::default();
        let services = Services { events: heard.events(), ..reading(view) };
        let hostile = caps(file_bytes, query_bytes);
        let told = attack(&hostile, "symbols-sizes", &["code.rs"], services).await.unwrap();
        assert_eq!(told[0] == 100, outlined, "{told}");
        let denied = heard.denials().contains(&("repo.read.bytes".into(), "code.rs".into()));
        assert_eq!(denied, !outlined, "{told}");
    }
}

#[tokio::test]
async fn what_a_component_says_is_bounded_and_cannot_control_a_terminal() {
    let hostile = load(Grant::builtin_scout());
    for (waste, limit) in [("steps", 200), ("print", 1000)] {
        let heard = Heard::default();
        let services = Services { events: heard.events(), ..nothing() };
        attack(&hostile, waste, &["20000"], services).await.unwrap();
        let mut bytes = 0;
        for kind in heard.kinds() {
            let (EventKind::ComponentStep { message, .. }
            | EventKind::ComponentLog { message, .. }) = kind
            else {
                continue;
            };
            assert!(message.len() <= limit && !message.chars().any(char::is_control), "{message}");
            bytes += message.len();
        }
        assert!(bytes > 10_000 && bytes <= 64 << 10, "{waste}: {bytes}");
        assert!(heard.denials().iter().any(|(grant, _)| grant == "limits.log"), "{waste}");
    }
}

#[tokio::test]
async fn calls_and_tokens_of_the_model_are_counted() {
    let llm = |calls, tokens| Grant { llm: Some(Llm { calls, tokens }), ..Grant::builtin_scout() };
    let script = || (0..5).map(|_| Reply::Text("yes", usage(90, 10))).collect::<Vec<_>>();
    let answers = async |grant: Grant| {
        let (model, hear) = Scripted::new(script());
        let services = Services { attempt: 2, ..talking(&model) };
        let answers = attack(&load(grant), "chat", &["5"], services).await.unwrap();
        (answers, hear)
    };
    let (few, mut hear) = answers(llm(2, u64::MAX)).await;
    assert_eq!(few[1]["ok"], "yes");
    assert_eq!(few[2]["error"], "Refusal::Limit(\"llm.calls: used up\")");
    let system = "You are mine now.".to_owned();
    assert_eq!(hear.try_recv().ok(), Some(Told::Opened { role: "hostile".to_owned(), system }));
    assert_eq!(hear.try_recv().ok(), Some(Told::Asked { attempt: 2, max_tokens: None }));

    let (little, mut hear) = answers(llm(9, 250)).await;
    assert_eq!(little[2]["ok"], "yes", "a call that has begun is answered");
    assert_eq!(little[3]["error"], "Refusal::Limit(\"llm.tokens: used up\")");
    let mut bounds = vec![];
    while let Ok(told) = hear.try_recv() {
        if let Told::Asked { max_tokens, .. } = told {
            bounds.push(max_tokens);
        }
    }
    assert_eq!(bounds, [Some(250), Some(150), Some(50)], "a reply is no longer than what is left");
}

#[tokio::test]
async fn what_is_left_can_be_asked() {
    let repository = Repository::new();
    let (model, _hear) = Scripted::new(vec![]);
    let lent: Arc<dyn Model> = model;
    let services =
        Services { model: Some((lent, String::new())), ..reading(&repository.views()[0]) };
    let hostile = load(Grant { llm: Some(Llm { calls: 7, tokens: 70 }), ..Grant::builtin_scout() });
    let left = attack(&hostile, "remaining", &[], services).await.unwrap();
    assert_eq!((&left["model-calls"], &left["model-tokens"]), (&7.into(), &70.into()));
    assert_eq!(left["read-bytes"], RepoRead::default().query_bytes);
    let milliseconds = left["milliseconds"].as_u64().unwrap();
    assert!(milliseconds > 0 && milliseconds <= 60_000);
    let left = attack(&hostile, "remaining", &[], nothing()).await.unwrap();
    assert_eq!((&left["model-calls"], &left["read-bytes"]), (&0.into(), &0.into()));
}

#[tokio::test]
async fn the_history_of_conversations_is_bounded() {
    let (model, _hear) = Scripted::new(vec![]);
    let ended = attack(&load(Grant::builtin_scout()), "chat-forever", &[], talking(&model)).await;
    assert!(matches!(ended, Err(ComponentFailure::Limit(Limit::Conversation))), "{ended:?}");
}

#[tokio::test]
async fn what_the_model_says_counts_into_the_history_as_well() {
    let long: &str = "x".repeat(6 << 20).leak();
    let replies = (0..3).map(|_| Reply::Text(long, usage(1, 1))).collect();
    let (model, _hear) = Scripted::new(replies);
    let hostile = load(Grant::builtin_scout());
    let ended = attack(&hostile, "chat", &["2"], talking(&model)).await;
    // It came to its end: what is too long is its report.
    assert!(matches!(ended, Err(ComponentFailure::Limit(Limit::HostCall))), "{ended:?}");
    let replies = (0..3).map(|_| Reply::Text(long, usage(1, 1))).collect();
    let (model, _hear) = Scripted::new(replies);
    let ended = attack(&hostile, "chat", &["3"], talking(&model)).await;
    assert!(matches!(ended, Err(ComponentFailure::Limit(Limit::Conversation))), "{ended:?}");
}

fn unavailable() -> ModelError {
    ModelError {
        kind: ModelErrorKind::Unavailable,
        message: "the server is busy".to_owned(),
        status: Some(503),
        retry_after: Some(Duration::from_secs(7)),
    }
}

#[tokio::test]
async fn giving_up_after_a_failed_model_call_tells_what_the_model_said() {
    let hostile = load(Grant::builtin_scout());
    let (model, _hear) = Scripted::new(vec![Reply::Error(unavailable())]);
    let ended = attack(&hostile, "fail-like-the-model", &[], talking(&model)).await;
    let Err(ComponentFailure::Model(error)) = ended else { panic!("{ended:?}") };
    assert_eq!((error.status, error.can_heal()), (Some(503), true));
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));

    // After a turn that came the guest cannot blame the model.
    let (model, _hear) = Scripted::new(vec![Reply::Text("yes", usage(1, 1))]);
    let ended = attack(&hostile, "fail-like-the-model", &[], talking(&model)).await;
    assert!(matches!(ended, Err(ComponentFailure::Guest(GuestFailure::Model(_)))), "{ended:?}");
}

#[tokio::test]
async fn a_failed_model_call_is_a_refusal_that_the_guest_may_survive() {
    let (model, _hear) =
        Scripted::new(vec![Reply::Error(unavailable()), Reply::Text("yes", usage(1, 1))]);
    let answers =
        attack(&load(Grant::builtin_scout()), "chat", &["2"], talking(&model)).await.unwrap();
    assert_eq!(answers[0]["error"], "Refusal::Failed(\"the server is busy\")");
    assert_eq!(answers[1]["ok"], "yes");
}

#[tokio::test]
async fn what_the_guest_says_when_it_gives_up_is_one_line() {
    let hostile = load(Grant::builtin_scout());
    let ended = attack(&hostile, "fail", &[], nothing()).await;
    let Err(ComponentFailure::Guest(GuestFailure::Other(why))) = ended else { panic!("{ended:?}") };
    assert_eq!(why, "no reason [2J");
    let ended = attack(&hostile, "dance", &[], nothing()).await;
    assert!(
        matches!(ended, Err(ComponentFailure::Guest(GuestFailure::OutOfScope(_)))),
        "{ended:?}"
    );
}
