//! A component from somebody else cannot change anything and sees nothing that its view does not show. Each
//! attack runs with `openat2` and without, and through the preopen as well as through `repo.read`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use act::audit::Decision;
use act::component::{Grant, RepoRead, Services};
use act::event::Events;
use act::workspace::RepoView;
use serde_json::Value;

use crate::hostile::{
    Heard, PLENTY, Repository, SECRET, attack, attack_as_tool, editing, load, load_tool,
    load_tool_with, load_with, nothing, packed, reading,
};
use crate::recorded::Recorded;

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

// security lines 2 and 3: the writing grant opens `repo.edit` and nothing else, so there is no side to link to
#[tokio::test]
async fn security_line_2_a_tool_that_may_write_changes_nothing_through_its_directory() {
    let repository = Repository::new();
    let tool = load_tool();
    let before = repository.state();
    for writer in repository.writers() {
        for target in ["a.txt", "link", "sub/b.txt"] {
            let heard = Heard::default();
            let services = editing(&writer, heard.events());
            let outcomes = attack_as_tool(&tool, "change", &[target], services).await;
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
    let before = repository.state();
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
    assert_eq!(repository.state(), before);
}

#[tokio::test]
async fn security_line_7_secrets_neither_open_nor_list_for_a_tool() {
    let secrets = [
        ".env",
        ".ENV",
        "sub/.env.local",
        "id_rsa",
        "x.PEM",
        ".npmrc",
        ".git/config",
        ".GIT/config",
        ".git",
        "link-env",
        "sub/link-up",
        "git-link/config",
        "linkdir/../.env",
    ];
    let repository = Repository::new();
    let before = repository.state();
    let tool = load_tool();
    for writer in repository.writers() {
        let ask = async |attack: &str, arguments: &[&str]| {
            attack_as_tool(&tool, attack, arguments, editing(&writer, Events::silent())).await
        };
        for route in ["read", "batch-read"] {
            all_refused(&ask(route, &secrets).await, &secrets);
        }
        all_refused(&ask("list", &[".git", "git-link"]).await, &[".git", "git-link"]);
        let shown = ask("list", &[".", "sub"]).await.to_string();
        let batch = ask("batch-list", &[]).await.to_string();
        assert!(shown.contains("a.txt") && batch.contains("a.txt"), "{shown} {batch}");
        for hidden in ["\".env\"", ".env.local", "id_rsa", "PEM", ".npmrc", "\".git\""] {
            assert!(!shown.contains(hidden) && !batch.contains(hidden), "{shown} {batch}");
        }
        // What git ignores is a tool's to read; of what was found nothing is in a hidden file.
        let found = ask("batch-search", &[SECRET]).await;
        let paths: Vec<_> =
            found["ok"].as_array().unwrap().iter().map(|hit| hit[0].as_str().unwrap()).collect();
        for path in &paths {
            assert!(
                ["ignored.txt", "logs/x", "node_modules/m/x", "image.PNG"].contains(path),
                "{paths:?}"
            );
        }
    }
    assert_eq!(repository.state(), before);
}

/// Security lines 1, 4 and 7: each of them is in the log, with who it was, what was asked for, and under which rights.
#[tokio::test]
async fn what_was_denied_is_on_record_and_changed_nothing() {
    let repository = Repository::new();
    let recorded = Recorded::new();
    let grant = Grant::builtin_scout();
    let hostile = packed("hostile", &["repo.read", "llm"]);
    let hostile = recorded.host().load(&hostile, grant, &Events::silent()).unwrap();
    let before = repository.state();
    for (asked, is) in [
        ("../outside/x", "../outside/x"),
        ("sub/../../outside/x", "sub/../../outside/x"),
        ("out", "out"),
        ("out-dir/x", "out-dir/x"),
        ("etc/passwd", "etc/passwd"),
        (".env", ".env"),
        ("link-env", ".env"),
        (".git/config", ".git/config"),
        ("id_rsa", "id_rsa"),
        ("ignored.txt", "ignored.txt"),
    ] {
        for view in repository.views() {
            for route in ["read", "batch-read"] {
                let known = recorded.of("denied").len();
                let answers = attack(&hostile, route, &[asked], reading(&view)).await.unwrap();
                all_refused(&answers, &[asked]);
                let denied = recorded.of("denied").split_off(known);
                let told = denied.iter().find(|record| record.object.as_deref() == Some(is));
                let told = told.unwrap_or_else(|| panic!("{route} {asked}: {denied:#?}"));
                let who = told.subject.as_ref().unwrap();
                assert_eq!((&*who.name, &*who.sha256), ("hostile", &*hostile.sha256));
                assert_eq!(told.reason.as_deref(), Some("repo.read"));
                assert_eq!(told.decision, Some(Decision::Deny));
                assert_eq!(told.effective_sha256, Some(hostile.grant.sha256()));
            }
        }
    }
    assert_eq!(repository.state(), before);
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

/// Opening a FIFO would wait for a writer that never comes: the refusal arrives all the same, and the runtime
/// ends with no thread left waiting, so leaving the program is not delayed either.
#[test]
fn security_line_9_a_fifo_delays_neither_the_query_nor_the_exit() {
    // Compiled here, so that compiling is not what is waited for.
    drop((load(Grant::builtin_scout()), load_tool()));
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(special_files_are_refused());
        // Dropping it waits for every blocking call.
        drop(runtime);
        ended.send(()).unwrap();
    });
    end.recv_timeout(PLENTY).expect("refused, and nothing waits");
}

async fn special_files_are_refused() {
    let special = ["README.md", "socket"];
    let repository = Repository::new();
    let (hostile, tool) = (load(Grant::builtin_scout()), load_tool());
    for view in repository.views() {
        for answers in read_both_ways(&view, &special).await {
            all_refused(&answers, &special);
        }
        let shown = attack(&hostile, "list", &["."], reading(&view)).await.unwrap();
        assert!(!shown.to_string().contains("README.md"), "{shown}");
    }
    let before = repository.state();
    for writer in repository.writers() {
        let services = editing(&writer, Events::silent());
        let answers = attack_as_tool(&tool, "edit", &special, services).await;
        for path in special {
            for call in ["create", "replace", "delete", "move from", "move onto"] {
                assert!(
                    answers[path][call].as_str().unwrap().starts_with("not_a_file"),
                    "{answers}"
                );
            }
        }
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

/// Raw paths, as a component can hand them to the host, and the word of each refusal.
const UNWRITABLE: [(&str, &str); 32] = [
    // security line 51
    (".git/hooks/pre-commit", "protected"),
    (".git/config", "protected"),
    (".git", "protected"),
    (".GIT/config", "protected"),
    ("sub/.git/hooks/x", "protected"),
    ("x/../.git/HEAD", "outside_repo"),
    ("./.git/HEAD", "protected"),
    // security line 52
    ("agent.yaml", "protected"),
    ("./agent.yaml", "protected"),
    ("AGENT.YAML", "protected"),
    ("agent", "protected"),
    ("agent/x", "protected"),
    ("Agent/x", "protected"),
    ("././agent.yaml", "bad_arguments"),
    // security line 57
    ("out-dir/x", "not_a_file"),
    ("out-dir/new", "not_a_file"),
    ("out", "not_a_file"),
    ("etc/passwd", "not_a_file"),
    ("linkdir/b.txt", "not_a_file"),
    ("link", "not_a_file"),
    // security line 60
    ("", "bad_arguments"),
    (".", "bad_arguments"),
    ("..", "outside_repo"),
    ("../outside/x", "outside_repo"),
    ("/etc/passwd", "outside_repo"),
    ("a.txt/", "bad_arguments"),
    ("sub//b.txt", "bad_arguments"),
    ("sub/./b.txt", "bad_arguments"),
    ("sub\\b.txt", "bad_arguments"),
    ("..\\outside\\x", "bad_arguments"),
    ("a.txt\0", "bad_arguments"),
    // hidden, so not to be written blindly either
    (".env", "excluded"),
];

/// CAPABILITY-12: what may not be read is not written either, and no answer tells whether it is there.
#[tokio::test]
async fn a_tool_writes_where_it_may_read_and_hears_nothing_of_the_rest() {
    let repository = Repository::new();
    let paths = ["sub".parse().unwrap()].into_iter().collect();
    let read = Some(RepoRead { paths, ..RepoRead::default() });
    let tool = load_tool_with(Grant { repo_read: read, ..Grant::builtin_tool() });
    let outside = ["a.txt", "absent.txt", "docs/new.md", ".env", "subx", "SUB/b.txt", "./a.txt"];
    let before = repository.state();
    for writer in repository.writers() {
        let heard = Heard::default();
        let services = editing(&writer, heard.events());
        let answers = attack_as_tool(&tool, "edit", &outside, services).await;
        for path in outside {
            for call in ["create", "replace", "delete", "move from"] {
                let said = answers[path][call].as_str().unwrap_or("done");
                let told = format!("boundary: {path} may not be written (boundary)");
                assert_eq!(said, told, "{call}");
            }
        }
        assert!(heard.denials().contains(&("repo.write".into(), "absent.txt".into())));
        assert_eq!(repository.state(), before);
    }
    let services = editing(&repository.writers()[0], Events::silent());
    let answers = attack_as_tool(&tool, "edit", &["sub/b.txt", "sub/new"], services).await;
    assert_eq!(answers["sub/b.txt"]["create"], "exists", "{answers}");
    assert_eq!(answers["sub/b.txt"]["replace"], Value::Null, "{answers}");
    assert_eq!(answers["sub/new"]["create"], Value::Null, "{answers}");
    let moved = answers["sub/new"]["move from"].as_str().unwrap();
    assert!(moved.starts_with("boundary: moved.txt"), "{answers}");
}

#[tokio::test]
async fn security_lines_51_52_57_60_raw_hostile_paths_are_refused_by_their_reason() {
    let repository = Repository::new();
    std::fs::write(repository.root().join("agent.yaml"), "steps: []").unwrap();
    let tool = load_tool();
    let long = "x".repeat(5_000);
    let paths: Vec<_> = UNWRITABLE.into_iter().chain([(long.as_str(), "bad_arguments")]).collect();
    let names: Vec<&str> = paths.iter().map(|(path, _)| *path).collect();
    let before = repository.state();
    for writer in repository.writers() {
        let heard = Heard::default();
        let services = editing(&writer, heard.events());
        let answers = attack_as_tool(&tool, "edit", &names, services).await;
        for (path, word) in &paths {
            for call in ["create", "replace", "delete", "move from", "move onto"] {
                let why = answers[path][call].as_str().unwrap_or("done");
                let said = why.split(':').next();
                assert_eq!(said, Some(*word), "{call} {path:?}: {why}");
            }
        }
        assert_eq!(repository.state(), before);
        assert!(writer.changed().is_empty());
        let refused = heard
            .kinds()
            .into_iter()
            .filter(|kind| matches!(kind, act::event::EventKind::EditRefused { .. }));
        assert_eq!(refused.count(), 5 * paths.len(), "each refusal is told");
    }
}

#[tokio::test]
async fn a_tool_writes_what_it_may() {
    let repository = Repository::new();
    let [writer, _] = repository.writers();
    let services = editing(&writer, Events::silent());
    let answers = attack_as_tool(&load_tool(), "edit", &["sub/new.txt"], services).await;
    assert_eq!(answers["sub/new.txt"]["create"], Value::Null, "{answers}");
    assert_eq!(std::fs::read_to_string(repository.root().join("sub/new.txt")).unwrap(), "owned");
}

// CAPABILITY-18, CAPABILITY-11
#[tokio::test]
async fn a_narrower_grant_hides_everything_beside_its_paths() {
    let repository = Repository::new();
    let parts = ["sub"].map(|part| part.parse().unwrap()).into_iter().collect();
    let read = act::component::RepoRead { paths: parts, ..Default::default() };
    let hostile = load(Grant { repo_read: Some(read), ..Grant::builtin_scout() });
    let beside = ["a.txt", "link", "sub/../a.txt", ".gitignore", "linkdir/link-up"];
    for view in repository.views() {
        for route in ["read", "batch-read"] {
            let answers = attack(&hostile, route, &beside, reading(&view)).await.unwrap();
            all_refused(&answers, &beside);
            let answers = attack(&hostile, route, &["sub/b.txt"], reading(&view)).await.unwrap();
            assert_eq!(answers["sub/b.txt"]["ok"], "there", "{answers}");
        }
        let listed = attack(&hostile, "batch-list", &[], reading(&view)).await.unwrap();
        assert_eq!(
            listed["ok"],
            serde_json::json!(["sub", "sub/b.txt", "sub/link-up"]),
            "{listed}"
        );
        let root = attack(&hostile, "list", &["."], reading(&view)).await.unwrap();
        assert_eq!(root["."]["ok"], serde_json::json!(["sub"]), "{root}");
        let found = attack(&hostile, "batch-search", &["hello"], reading(&view)).await.unwrap();
        assert_eq!(found["ok"], serde_json::json!([]), "{found}");
    }
}
