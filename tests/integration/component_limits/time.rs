//! Loops, sleeps and stalls end: at the deadline, when they are cancelled, and when their caller has gone.

use std::time::Duration;

use act_agent::scout::Question;
use act_agent::scout::{self, QueryEnd, ReportCheck};
use act_component::{ComponentFailure, Grant, Limits, RepoRead, Services};
use act_core::event::EventKind;
use act_model::Timer;
use act_task::ComponentScout;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{SHORT, gone, scout_with};
use crate::hostile::{
    Heard, PLENTY, Reply, Repository, Scripted, Told, attack, load, nothing, question, talking,
};

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

impl Timer for Waits {
    fn wait(&self, time: Duration) -> BoxFuture<'static, ()> {
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
    let question = Question { text: "loop".to_owned(), ..Question::default() };
    let events = heard.events();
    let ended = scout::ask(&scout, &question, &Unasked, &events, &waits, &never).await;
    let Err(QueryEnd::Failed { message: why, .. }) = ended else { panic!("{ended:?}") };
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
            (outcome.as_str(), (300..60_300).contains(&duration)),
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

#[tokio::test]
async fn security_line_21_the_deadline_holds_inside_a_stalled_model_call() {
    let hostile = load(Grant::builtin_scout());
    let never = CancellationToken::new();
    let mut short = SHORT;
    // On a busy machine it may be over before the model is asked: then it was too short for this story.
    loop {
        let (model, mut hear) = Scripted::new(vec![Reply::Stall]);
        let services = talking(&model);
        drop(model);
        let ended = hostile.ask(question("chat", &["1"]), services, short, &never).await;
        use ComponentFailure::{Deadline, Request};
        assert!(
            matches!(ended, Err(Request(after) | Deadline(after)) if after == short),
            "{ended:?}"
        );
        let mut told = vec![];
        while let Ok(one) = hear.try_recv() {
            told.push(one);
        }
        if !told.contains(&Told::Dropped) {
            gone(&mut hear).await;
        }
        if told.iter().any(|one| matches!(one, Told::Asked { .. })) {
            let closed = told.contains(&Told::Closed);
            assert!(closed, "closed by the time the query has ended: {told:?}");
            return;
        }
        short *= 2;
        assert!(short < PLENTY, "the model is never asked");
    }
}

// SCOUT-13
#[tokio::test]
async fn requests_to_the_model_share_no_time_with_each_other_and_the_component() {
    let hostile = load(Grant::builtin_scout());
    let never = CancellationToken::new();
    // Long enough for the component's own computing on a busy machine.
    let wall = Duration::from_secs(2);
    let (model, _hear) = Scripted::new((0..3).map(|_| Reply::Late(wall * 3 / 5)).collect());
    let asked = std::time::Instant::now();
    let ended = hostile.ask(question("chat", &["3"]), talking(&model), wall, &never).await;
    assert!(ended.is_ok(), "{ended:?}");
    assert!(asked.elapsed() >= wall, "three requests took longer than one may");
}

// SCOUT-13, CONFIG-18
#[tokio::test]
async fn a_scout_that_asks_again_and_again_ends() {
    let never = CancellationToken::new();
    let request = Duration::from_secs(2);
    let whole = request * 2;
    let hostile = load(Grant::builtin_scout().within(whole));
    let (model, mut hear) = Scripted::new((0..30).map(|_| Reply::Late(request / 2)).collect());
    let services = talking(&model);
    drop(model);
    let ended = hostile.ask(question("chat", &["30"]), services, request, &never).await;
    assert!(matches!(ended, Err(ComponentFailure::Deadline(after)) if after == whole), "{ended:?}");
    gone(&mut hear).await;
}

#[test]
fn a_query_has_the_time_of_its_requests_at_most_what_is_granted() {
    let request = Duration::from_secs(60);
    let built_in = Grant::builtin_scout().for_requests_of(request);
    assert_eq!(built_in.query_time(request), request * 33);
    let ceiling = built_in.within(Duration::from_secs(90));
    assert_eq!(ceiling.query_time(request), Duration::from_secs(90));
    assert_eq!(Grant::default().within(request * 9).query_time(request), request);
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
