//! `repo.symbols` from inside a component: the same view, grant, bytes and limits as reading.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use act_component::{Grant, RepoRead, Services};
use act_workspace::{Profile, RepoView};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::hostile::{Heard, PLENTY, attack, load, question, reading};

fn write(root: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn view(root: &Path) -> RepoView {
    RepoView::open(root, Profile::Scout).unwrap()
}

async fn outlines(grant: Grant, services: Services, paths: &[&str]) -> Vec<String> {
    let answer = attack(&load(grant), "symbols", paths, services).await.unwrap();
    let words = ["c", "cpp", "go", "java", "javascript", "python", "rust", "typescript"];
    assert_eq!(answer["languages"], json!(words));
    let outlines = answer["outlines"].as_array().unwrap();
    outlines.iter().map(|outline| outline.as_str().unwrap().to_owned()).collect()
}

// SYMBOLS-1, SYMBOLS-3
#[tokio::test]
async fn what_is_hidden_has_no_outline_and_asking_is_a_denial() {
    let temp = tempfile::tempdir().unwrap();
    let (root, outside) = (temp.path().join("repo"), temp.path().join("outside.py"));
    fs::write(&outside, "def outside(): pass\n").unwrap();
    for path in ["a.py", "credentials.py", "node_modules/x.js", "out/built.py", ".git/hook.py"] {
        write(&root, path, "def one(): pass\n");
    }
    write(&root, ".gitignore", "out/\n");
    write(&root, "binary.py", b"\0def two(): pass\n");
    write(&root, "notes.txt", "def three(): pass\n");
    symlink("a.py", root.join("link.py")).unwrap();
    symlink("credentials.py", root.join("secret-link.py")).unwrap();
    symlink(&outside, root.join("out-link.py")).unwrap();
    let heard = Heard::default();
    let services = Services { events: heard.events(), ..reading(&view(&root)) };
    let paths = [
        "a.py",
        "link.py",
        "credentials.py",
        "node_modules/x.js",
        "out/built.py",
        ".git/hook.py",
        "binary.py",
        "secret-link.py",
        "out-link.py",
        "missing.py",
        "credentials.txt",
        "notes.txt",
        "../outside.py",
        ".",
    ];
    let answers = outlines(Grant::builtin_scout(), services, &paths).await;
    for seen in &answers[..2] {
        assert!(seen.contains("name: \"one\"") && seen.contains("language: \"python\""), "{seen}");
    }
    for (path, hidden) in paths.iter().zip(&answers).skip(2).take(9) {
        let nothing =
            ["Refusal::NotFound", "outside_repo"].iter().any(|word| hidden.contains(word));
        assert!(nothing && !hidden.contains("one"), "{path}: {hidden}");
    }
    assert!(answers[11].contains("no_grammar"), "{}", answers[11]);
    assert!(answers[12].contains("outside_repo"), "{}", answers[12]);
    assert!(!answers[13].contains("symbols"), "{}", answers[13]);
    let denials = heard.denials();
    for denied in ["credentials.py", "node_modules/x.js", "binary.py"] {
        assert!(
            denials.iter().any(|(_, object)| object.starts_with(denied)),
            "{denied}: {denials:?}"
        );
    }
}

// SYMBOLS-8
#[tokio::test]
async fn a_summary_says_no_more_than_the_outline_and_is_refused_like_it() {
    let temp = tempfile::tempdir().unwrap();
    let text = "import os\ndef parsePrice(): pass\ndef _other(): pass\ndef test_price(): pass\n";
    for path in ["test_a.py", "credentials.py", "part/test_b.py"] {
        write(temp.path(), path, text);
    }
    let view = view(temp.path());
    let summaries = async |grant: Grant, name: &str| {
        let paths =
            [name, "test_a.py", "part/test_b.py", "credentials.py", "notes.txt", "missing.py"];
        attack(&load(grant), "symbols-summaries", &paths, reading(&view)).await.unwrap()
    };
    let all = summaries(Grant::builtin_scout(), "PRICE").await;
    let whole = json!([3, 1, 1, ["parsePrice", "test_price"], ["os"]]);
    assert_eq!((&all[0], &all[1]), (&whole, &whole));
    for hidden in 2..5 {
        assert!(all[hidden].as_str().unwrap().contains("Refusal::NotFound"), "{all}");
    }
    let caps =
        RepoRead { paths: ["part".parse().unwrap()].into_iter().collect(), ..RepoRead::default() };
    let narrow = Grant { repo_read: Some(caps), ..Grant::builtin_scout() };
    let part = summaries(narrow, "_other").await;
    assert!(part[0].as_str().unwrap().contains("Refusal::NotFound"), "{part}");
    assert_eq!(part[1], json!([3, 1, 1, ["_other"], ["os"]]));
    let senseless = summaries(Grant::builtin_scout(), &"x".repeat(257)).await;
    assert!(senseless[0].as_str().unwrap().contains("bad_arguments"), "{senseless}");
    // The table of the same summaries: 1 is `not-found`, 2 is `invalid`.
    let table = async |grant: Grant, name: &str| {
        let paths = [name, "test_a.py", "credentials.py", "missing.py"];
        attack(&load(grant), "symbols-table", &paths, reading(&view)).await.unwrap()
    };
    let rows = table(Grant::builtin_scout(), "PRICE").await;
    assert_eq!(rows, json!([whole, 1, 1]));
    assert_eq!(table(Grant::builtin_scout(), &"x".repeat(257)).await, json!([2, 2, 2]));
}

// SYMBOLS-2
#[tokio::test]
async fn what_is_parsed_counts_as_read_and_large_files_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let line = "x = 1 # a comment that is there to be long enough for its purpose\n";
    for n in 0..40 {
        write(temp.path(), &format!("f{n}.py"), line.repeat(100));
    }
    write(temp.path(), "large.py", line.repeat(20_000));
    let view = view(temp.path());
    let large = outlines(Grant::builtin_scout(), reading(&view), &["large.py"]).await;
    assert!(large[0].starts_with("Refusal::Limit(\"too_large"), "{large:?}");
    let caps = RepoRead { query_bytes: 10 * 100 * line.len() as u64, ..RepoRead::default() };
    let grant = Grant { repo_read: Some(caps), ..Grant::builtin_scout() };
    let paths = (0..40).map(|n| format!("f{n}.py")).collect::<Vec<_>>();
    let paths = paths.iter().map(String::as_str).collect::<Vec<_>>();
    let answers = outlines(grant, reading(&view), &paths).await;
    let spent = answers.iter().filter(|answer| answer.contains("repo.read.bytes")).count();
    // A few are read side by side when the last bytes go.
    assert!((26..=30).contains(&spent), "{spent}");
}

// SYMBOLS-2
#[tokio::test]
async fn what_does_not_fit_into_one_answer_is_said_to_be_asked_for_again() {
    let temp = tempfile::tempdir().unwrap();
    let many = (0..5_000)
        .map(|n| format!("def a_name_of_some_length_{n:0>100}(): pass\n"))
        .collect::<String>();
    let paths = (0..40).map(|n| format!("f{n}.py")).collect::<Vec<_>>();
    paths.iter().for_each(|path| write(temp.path(), path, &many));
    let component = load(Grant::builtin_scout());
    let listed = paths.iter().map(String::as_str).collect::<Vec<_>>();
    let answer =
        attack(&component, "symbols-sizes", &listed, reading(&view(temp.path()))).await.unwrap();
    let answers = answer.as_array().unwrap();
    let told = answers.iter().position(|answer| answer.is_string()).unwrap();
    assert!((5..20).contains(&told), "{told}");
    assert!(answers[..told].iter().all(|symbols| symbols == 5_000));
    for answer in &answers[told..] {
        assert!(answer.as_str().unwrap().contains("call_bytes"), "{answer}");
    }
}

// SYMBOLS-4
#[tokio::test]
async fn a_cancelled_query_ends_in_the_middle_of_parsing() {
    let temp = tempfile::tempdir().unwrap();
    let text = "fn a() { b(c(d(e))); }\n".repeat(40_000);
    let paths = (0..60).map(|n| format!("f{n}.rs")).collect::<Vec<_>>();
    paths.iter().for_each(|path| write(temp.path(), path, &text));
    let component = load(Grant::builtin_scout());
    let paths = paths.iter().map(String::as_str).collect::<Vec<_>>();
    let cancel = CancellationToken::new();
    let (asked, services) = (question("symbols", &paths), reading(&view(temp.path())));
    let query = component.ask(asked, services, PLENTY, &cancel);
    tokio::pin!(query);
    tokio::select! {
        ended = &mut query => panic!("{ended:?}"),
        () = tokio::time::sleep(Duration::from_millis(300)) => {}
    }
    let started = Instant::now();
    cancel.cancel();
    assert!(query.await.is_err());
    // All of it would take until the query's own limit; generous, because machines are shared.
    assert!(started.elapsed() < PLENTY / 3, "{:?}", started.elapsed());
}

// SYMBOLS-5
#[tokio::test]
async fn a_kept_outline_is_the_one_that_parsing_gives() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "a.rs", "pub fn one() {}\n");
    let asked =
        async || outlines(Grant::builtin_scout(), reading(&view(temp.path())), &["a.rs"]).await;
    let first = asked().await;
    assert_eq!(first, asked().await);
    write(temp.path(), "a.rs", "pub fn two() {}\n");
    let changed = asked().await;
    assert!(changed[0].contains("\"two\"") && !changed[0].contains("\"one\""), "{changed:?}");
}
