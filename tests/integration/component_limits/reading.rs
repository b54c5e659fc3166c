//! Handles, names and bytes of the repository.

use act_component::{ComponentFailure, Grant, Limit, RepoRead, Services};

use crate::hostile::{Heard, Repository, attack, load, reading};

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
