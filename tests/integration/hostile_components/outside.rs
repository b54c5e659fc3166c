//! Paths, links and races that lead out of the repository.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use act_component::Grant;
use act_core::event::Events;
use serde_json::Value;

use super::{all_refused, read_both_ways};
use crate::hostile::{
    Repository, SECRET, attack, attack_as_tool, editing, load, load_tool, reading,
};

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
    let before = repository.state();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    for view in repository.views() {
        for answers in read_both_ways(&view, &outside).await {
            all_refused(&answers, &outside);
            assert!(!answers.to_string().contains(passwd.lines().next().unwrap()), "{answers:#}");
        }
    }
    assert_eq!(repository.state(), before);
}

#[tokio::test]
async fn security_lines_1_and_4_batches_within_the_outside_find_nothing() {
    let outside = [
        "../outside",
        "../outside/x",
        "sub/../../outside",
        "..",
        "/etc",
        "/etc/passwd",
        "out-dir",
        "out-dir/x",
        "out",
        "etc",
        "etc/passwd",
        "passwd",
        "loop",
        "sub\0",
    ];
    let repository = Repository::new();
    let before = repository.state();
    let (hostile, tool) = (load(Grant::builtin_scout()), load_tool());
    let mut answers = vec![];
    for view in repository.views() {
        answers.push(attack(&hostile, "batch-within", &outside, reading(&view)).await.unwrap());
    }
    for writer in repository.writers() {
        let services = editing(&writer, Events::silent());
        answers.push(attack_as_tool(&tool, "batch-within", &outside, services).await);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    for answers in answers {
        let all = answers.to_string();
        assert!(!all.contains(SECRET) && !all.contains(passwd.lines().next().unwrap()), "{all}");
        for path in outside {
            let answer = &answers[path];
            for call in ["list under", "search under"] {
                assert!(answer[call]["error"].is_string(), "{path}: {answer}");
            }
            // A glob names nothing outside; a link that it matches is shown as itself and not searched.
            if let Some(found) = answer["search globs"]["ok"].as_array() {
                assert_eq!(found.len(), 0, "{path}: {answer}");
            }
            if let Some(listed) = answer["list globs"]["ok"].as_array() {
                let itself = path.trim_start_matches('/');
                assert!(listed.iter().all(|entry| entry == itself), "{path}: {answer}");
            }
        }
    }
    assert_eq!(repository.state(), before);
}

#[tokio::test]
async fn security_line_4_links_that_lead_outside_are_shown_as_links_and_not_followed() {
    let outside = ["out", "out-dir/x", "passwd", "etc/passwd", "out-dir/../repo/a.txt", "loop"];
    let repository = Repository::new();
    let before = repository.state();
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
    assert_eq!(repository.state(), before);
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
