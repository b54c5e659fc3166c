//! A component from somebody else cannot change anything and sees nothing that its view does not show. Each
//! attack runs with `openat2` and without, and through the preopen as well as through `repo.read`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use act::component::{Grant, Services};
use act::workspace::RepoView;
use serde_json::Value;

use crate::hostile::{Heard, Repository, SECRET, attack, load, load_with, nothing, reading};

/// Every answer is an error, and no secret is anywhere in them.
fn all_refused(answers: &Value, paths: &[&str]) {
    assert!(!answers.to_string().contains(SECRET), "{answers:#}");
    for path in paths {
        assert!(answers[path]["error"].is_string(), "{path}: {answers:#}");
    }
}

async fn read_both_ways(view: &RepoView, paths: &[&str]) -> [Value; 2] {
    let hostile = load(Grant::builtin_scout());
    [
        attack(&hostile, "read", paths, reading(view)).await.unwrap(),
        attack(&hostile, "batch-read", paths, reading(view)).await.unwrap(),
    ]
}

#[tokio::test]
async fn what_is_in_view_can_be_read_also_through_links() {
    let repository = Repository::new();
    for view in repository.views() {
        for answers in
            read_both_ways(&view, &["a.txt", "sub/b.txt", "link", "chain", "sub/../a.txt"]).await
        {
            for (path, text) in [
                ("a.txt", "hello"),
                ("sub/b.txt", "there"),
                ("link", "hello"),
                ("chain", "hello"),
                ("sub/../a.txt", "hello"),
            ] {
                assert_eq!(answers[path]["ok"], text, "{path}: {answers:#}");
            }
        }
    }
}

#[tokio::test]
async fn security_line_1_nothing_outside_opens() {
    let outside = [
        "../outside/x",
        "sub/../../outside/x",
        "a/../../outside/x",
        "../repo/../outside/x",
        "/etc/passwd",
        "//etc/passwd",
        "./../outside/x",
        "sub/../../../../../../etc/passwd",
        "a.txt\0",
        "../outside/x\0.txt",
        "",
        "..",
        "a.txt/",
        "a.txt/..",
        "a.txt/../a.txt/",
    ];
    let repository = Repository::new();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    for view in repository.views() {
        for answers in read_both_ways(&view, &outside).await {
            all_refused(&answers, &outside);
            assert!(!answers.to_string().contains(passwd.lines().next().unwrap()), "{answers:#}");
        }
    }
}

#[tokio::test]
async fn security_line_2_nothing_is_created_changed_or_deleted() {
    let repository = Repository::new();
    let before = repository.state();
    let hostile = load(Grant::builtin_scout());
    for view in repository.views() {
        for target in ["a.txt", "link", "sub/b.txt"] {
            let heard = Heard::default();
            let services = Services { events: heard.events(), ..reading(&view) };
            let outcomes = attack(&hostile, "change", &[target], services).await.unwrap();
            let outcomes = outcomes.as_object().unwrap();
            assert!(outcomes.len() >= 24, "every attack ran: {outcomes:#?}");
            for (call, outcome) in outcomes {
                assert!(outcome["error"].is_string(), "{call} on {target}: {outcome}");
            }
            assert!(heard.denials().iter().any(|(grant, _)| grant == "repo.write"));
        }
    }
    assert_eq!(repository.state(), before);
}

#[tokio::test]
async fn security_line_4_links_that_lead_outside_are_shown_as_links_and_not_followed() {
    let outside = ["out", "out-dir/x", "passwd", "etc/passwd", "out-dir/../repo/a.txt", "loop"];
    let repository = Repository::new();
    let hostile = load(Grant::builtin_scout());
    for view in repository.views() {
        for answers in read_both_ways(&view, &outside).await {
            all_refused(&answers, &outside);
        }
        let listed = attack(&hostile, "list", &["out-dir", "etc"], reading(&view)).await.unwrap();
        all_refused(&listed, &["out-dir", "etc"]);
        let stat = attack(&hostile, "stat", &["out"], reading(&view)).await.unwrap();
        assert_eq!(stat["out"]["ok"]["followed"], Value::Null, "{stat}");
        let target = attack(&hostile, "readlink", &["out"], reading(&view)).await.unwrap();
        assert_eq!(target["out"]["ok"], "../outside/x");
        let all = attack(&hostile, "batch-list", &[], reading(&view)).await.unwrap().to_string();
        assert!(all.contains("\"out-dir\"") && !all.contains("outside"), "{all}");
    }
}

#[tokio::test]
async fn security_line_7_secrets_neither_open_nor_list() {
    let secrets = [
        ".env",
        ".ENV",
        "sub/.env.local",
        "id_rsa",
        "x.PEM",
        "x.pem",
        ".npmrc",
        ".git/config",
        ".GIT/config",
        ".git",
        "sub/../.git/config",
        "node_modules/m/x",
        "ignored.txt",
        "logs/x",
        "image.PNG",
        "data",
        // through links
        "link-env",
        "sub/link-up",
        "linkdir/link-up",
        "git-link/config",
        "linkdir/../.env",
    ];
    let repository = Repository::new();
    let hostile = load(Grant::builtin_scout());
    for view in repository.views() {
        for answers in read_both_ways(&view, &secrets).await {
            all_refused(&answers, &secrets);
        }
        let directories = [".git", "git-link", "logs", "node_modules", ".git/objects"];
        let listed = attack(&hostile, "list", &directories, reading(&view)).await.unwrap();
        all_refused(&listed, &directories);
        let named = [".env", ".git", "id_rsa", "ignored.txt", ".git/config"];
        let stat = attack(&hostile, "stat", &named, reading(&view)).await.unwrap();
        all_refused(&stat, &named);

        let shown = attack(&hostile, "list", &[".", "sub"], reading(&view)).await.unwrap();
        let root = shown["."]["ok"].to_string();
        assert!(root.contains("a.txt") && root.contains(".gitignore"), "{root}");
        let batch = attack(&hostile, "batch-list", &[], reading(&view)).await.unwrap().to_string();
        for hidden in [
            "\".env\"",
            ".env.local",
            "id_rsa",
            "PEM",
            ".npmrc",
            "\".git\"",
            "ignored.txt",
            "logs",
            "modules",
        ] {
            assert!(
                !shown.to_string().contains(hidden) && !batch.contains(hidden),
                "{hidden}: {shown} {batch}"
            );
        }
        let found = attack(&hostile, "batch-search", &[SECRET], reading(&view)).await.unwrap();
        assert_eq!(found["ok"], serde_json::json!([]), "{found}");
    }
}

#[tokio::test]
async fn a_hidden_name_is_audited_as_a_denial_and_an_absent_one_is_not() {
    let repository = Repository::new();
    let hostile = load(Grant::builtin_scout());
    for view in repository.views() {
        for route in ["read", "batch-read"] {
            let heard = Heard::default();
            let services = Services { events: heard.events(), ..reading(&view) };
            let paths = ["link-env", ".git/config", "absent"];
            attack(&hostile, route, &paths, services).await.unwrap();
            let denials = heard.denials();
            for object in [".env", ".git/config"] {
                assert!(
                    denials.contains(&("repo.read".into(), object.into())),
                    "{route}: {denials:?}"
                );
            }
            assert!(!denials.iter().any(|(_, object)| object.contains("absent")), "{denials:?}");
        }
    }
}

#[tokio::test]
async fn security_line_9_a_fifo_does_not_hang_the_host() {
    let special = ["README.md", "socket"];
    let repository = Repository::new();
    let hostile = load(Grant::builtin_scout());
    for view in repository.views() {
        for answers in read_both_ways(&view, &special).await {
            all_refused(&answers, &special);
        }
        let shown = attack(&hostile, "list", &["."], reading(&view)).await.unwrap();
        assert!(!shown.to_string().contains("README.md"), "{shown}");
    }
}

/// A directory in view and a link to one that is not change places all the time; no read between them ever
/// gives what the link leads to.
#[tokio::test]
async fn swapping_a_directory_for_a_link_leaks_nothing() {
    let repository = Repository::new();
    let hostile = load(Grant::builtin_scout());
    for (target, view) in
        [("../outside", 0), ("../outside", 1), (".git/objects", 0), (".git/objects", 1)]
    {
        let (flip, other) = (repository.root().join("flip"), repository.root().join("flop"));
        std::fs::create_dir_all(&flip).unwrap();
        std::fs::write(flip.join("x"), "fine").unwrap();
        let _ = std::fs::remove_file(&other);
        std::os::unix::fs::symlink(target, &other).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let swapping = std::thread::spawn({
            let (stop, flip, other) = (stop.clone(), flip.clone(), other.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    swap(&flip, &other);
                }
            }
        });
        let services = reading(&repository.views()[view]);
        let outcome = attack(&hostile, "race", &["flip/x", SECRET, "3000"], services).await;
        stop.store(true, Ordering::Relaxed);
        swapping.join().unwrap();
        let outcome = outcome.unwrap();
        assert_eq!(outcome["leaked"], 0, "{outcome}");
        assert!(
            outcome["read"].as_u64() > Some(0) && outcome["refused"].as_u64() > Some(0),
            "{outcome}"
        );
        if flip.is_symlink() {
            swap(&flip, &other);
        }
    }
}

fn swap(a: &std::path::Path, b: &std::path::Path) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
}

#[tokio::test]
async fn without_the_grant_there_is_no_directory_and_every_batch_call_is_denied() {
    let repository = Repository::new();
    // Declared and lent, but not granted: not loaded at all. Not declared: linked closed.
    assert!(load_with(&["repo.read", "llm"], Grant::default()).is_err());
    let undeclared = load_with(&[], Grant::builtin_scout()).unwrap();
    for view in repository.views() {
        let heard = Heard::default();
        let ask = async |name: &str, arguments: &[&str]| {
            let services = Services { events: heard.events(), ..reading(&view) };
            attack(&undeclared, name, arguments, services).await.unwrap()
        };
        assert_eq!(ask("preopens", &[]).await, serde_json::json!([]));
        all_refused(&ask("read", &["a.txt"]).await, &["a.txt"]);
        let denied = "Refusal::Denied(\"repo.read: not granted to this component\")";
        assert_eq!(ask("batch-read", &["a.txt"]).await["a.txt"]["error"], denied);
        assert_eq!(ask("batch-list", &[]).await["error"], denied);
        assert_eq!(ask("batch-search", &["x"]).await["error"], denied);
        assert_eq!(ask("symbols", &["a.txt"]).await["outlines"][0], denied);
        assert_eq!(
            ask("chat", &["1"]).await[0]["error"],
            "Refusal::Denied(\"llm: not granted to this component\")"
        );
        assert!(heard.denials().contains(&("repo.read".into(), "a.txt".into())));
        assert!(heard.denials().contains(&("llm".into(), "model.chat".into())));
    }
}

// security line 33 without a grant, security line 38
#[tokio::test]
async fn the_surroundings_are_empty_and_two_runs_are_the_same() {
    let hostile = load(Grant::builtin_scout());
    let first = attack(&hostile, "surroundings", &[], nothing()).await.unwrap();
    assert_eq!(first["environment"], serde_json::json!([]));
    assert_eq!(first["arguments"], serde_json::json!([]));
    assert_eq!(first["directory"], Value::Null);
    assert_eq!(first["input"], "");
    assert_eq!((&first["wall"], &first["monotonic"]), (&0.into(), &0.into()));
    let second = attack(&hostile, "surroundings", &[], nothing()).await.unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn symbols_invent_nothing_without_a_grammar() {
    let repository = Repository::new();
    let hostile = load(Grant::builtin_scout());
    let answers =
        attack(&hostile, "symbols", &["a.txt"], reading(&repository.views()[0])).await.unwrap();
    assert_eq!(answers["languages"], serde_json::json!([]));
    assert_eq!(
        answers["outlines"][0],
        "Refusal::Invalid(\"no_grammar: no language can be parsed here\")"
    );
}
