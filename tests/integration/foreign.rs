//! A component that never heard of this host, called as tools: values, limits, and what it writes.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use act_component::{
    AdmissionError, Clock, ComponentFailure, Grant, GuestFailure, Limit, Limits, LoadError, Random,
    RepoRead, Services, ToolComponent, ToolOutcome, custom_section,
};
use act_core::event::{EventKind, Events};
use act_workspace::{Overlay, RepoWriter, WriteRules};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::hostile::{Heard, PLENTY, Repository, SECRET, bytes, editing, host, nothing};

fn packed(kind: &str, needs: &[&str]) -> Vec<u8> {
    let need = |grant: &&str| json!({"grant": grant, "why": "for a test"});
    let needs: Vec<_> = needs.iter().map(need).collect();
    let manifest = json!({"kind": kind, "name": "ordinary", "version": "1", "about": "Ordinary.", "needs": needs});
    custom_section::pack(&bytes("foreign"), manifest.to_string().as_bytes())
}

fn load(needs: &[&str], grant: Grant) -> ToolComponent {
    host().load(&packed("tool", needs), grant, &Events::silent()).unwrap().into_tool().unwrap()
}

fn pure() -> ToolComponent {
    host()
        .load(&bytes("foreign"), Grant::default(), &Events::silent())
        .unwrap()
        .into_tool()
        .unwrap()
}

fn writing() -> ToolComponent {
    load(&["repo.read", "repo.write"], Grant::builtin_tool())
}

async fn outcome(
    component: &ToolComponent,
    tool: &str,
    arguments: &Value,
    services: Services,
) -> Result<ToolOutcome, ComponentFailure> {
    let never = CancellationToken::new();
    component.call(tool, &arguments.to_string(), services, PLENTY, &never).await
}

async fn answer(
    component: &ToolComponent,
    tool: &str,
    arguments: Value,
    with: Services,
) -> ToolOutcome {
    outcome(component, tool, &arguments, with).await.unwrap()
}

/// An answer without an error.
fn fine(text: &str) -> ToolOutcome {
    ToolOutcome { text: text.to_owned(), is_error: false }
}

/// The word that an error begins with.
fn reason(answer: &ToolOutcome) -> &str {
    assert!(answer.is_error, "{answer:?}");
    answer.text.split_once(": ").unwrap().0
}

// CAPABILITY-55, security line 719
#[tokio::test]
async fn settings_are_the_granted_variables_and_a_line_of_a_log_is_one_of_the_components() {
    let need = json!([{"grant": "env", "why": "for a test", "names": ["PATH"]}]);
    let manifest = json!({"kind": "tool", "name": "ordinary", "version": "1", "about": "Ordinary.", "needs": need});
    let packed = custom_section::pack(&bytes("foreign"), manifest.to_string().as_bytes());
    let granted =
        Grant { env: ["PATH".parse().unwrap()].into_iter().collect(), ..Grant::default() };
    let heard = Heard::default();
    let granted = host().load(&packed, granted, &Events::silent()).unwrap().into_tool().unwrap();
    let ask = async |component: &ToolComponent, key: &str| {
        let services = Services { events: heard.events(), ..nothing() };
        answer(component, "hosted_setting", json!({"key": key}), services).await
    };
    assert_eq!(ask(&granted, "PATH").await, fine(&std::env::var("PATH").unwrap()));
    assert!(heard.denials().is_empty());
    for key in ["HOME", "AGENT_MODEL_KEY", "path", "a-key", "", "PATH=x\n\u{1b}[0m"] {
        let refused = ask(&granted, key).await;
        assert!(refused.is_error && refused.text.contains("denied: "), "{key}: {refused:?}");
        assert!(refused.text.contains("`env`") && !refused.text.contains(['\n', '\u{1b}']));
    }
    let all = answer(&granted, "hosted_settings", json!({}), nothing()).await;
    assert_eq!(all, fine(&json!([["PATH", std::env::var("PATH").unwrap()]]).to_string()));

    let bare = pure();
    assert!(ask(&bare, "PATH").await.is_error);
    assert_eq!(answer(&bare, "hosted_settings", json!({}), nothing()).await, fine("[]"));

    let heard = Heard::default();
    let services = Services { events: heard.events(), ..nothing() };
    let said = json!({"context": "start", "message": "one\n\u{1b}[31mtwo"});
    assert_eq!(answer(&bare, "hosted_say", said, services).await, fine("done"));
    let lines = heard.kinds().into_iter().filter_map(|kind| match kind {
        EventKind::ComponentLog { level, message, .. } => Some((level, message)),
        _ => None,
    });
    assert_eq!(lines.collect::<Vec<_>>(), [("warn".into(), "start: one [31mtwo".into())]);
}

// FOREIGN-1, FOREIGN-4
#[tokio::test]
async fn functions_are_called_with_values_of_every_type() {
    let component = pure();
    assert_eq!(component.world, "foreign");
    let same = |tool: &'static str, arguments: Value| {
        let component = component.clone();
        async move {
            let answer = answer(&component, tool, arguments.clone(), nothing()).await;
            let values: Vec<_> = arguments.as_object().unwrap().values().cloned().collect();
            assert_eq!(answer, fine(&json!(values).to_string()), "{tool}");
        }
    };
    let least = json!({"a": 0, "b": -128, "c": 0, "d": -32768, "e": 0, "f": i32::MIN, "g": 0,
        "h": i64::MIN.to_string()});
    let most = json!({"a": 255, "b": 127, "c": 65535, "d": 32767, "e": u32::MAX, "f": i32::MAX,
        "g": u64::MAX.to_string(), "h": i64::MAX.to_string()});
    same("shapes_numbers", least).await;
    same("shapes_numbers", most).await;
    same("shapes_floats", json!({"a": 0.1, "b": -0.0})).await;
    same("shapes_floats", json!({"a": "NaN", "b": "-Infinity"})).await;
    same("shapes_texts", json!({"a": "naïve \u{1f980}\u{0}", "b": "é", "c": true, "d": "text"}))
        .await;
    same("shapes_texts", json!({"a": "", "b": "\u{0}", "c": false, "d": {"base64": "AP8="}})).await;
    let shapes = json!(["nothing", {"circle": [{"x": 1.5, "y": 2.0}, 0.25]}, {"named": "a"}]);
    same("shapes_draw", json!({"what": shapes, "colour": "dark-green", "style": ["thin"]})).await;
    same("shapes_draw", json!({"what": [], "colour": "red", "style": []})).await;
    let nested = json!({"a": null, "b": {"some": null}, "c": {"error": "no"}, "d": {"ok": null}});
    same("shapes_maybe", nested).await;
    same("shapes_maybe", json!({"a": 7, "b": {"some": "x"}, "c": {"ok": 1}, "d": {"error": null}}))
        .await;
    same("shapes_maybe", json!({"a": 7, "b": null, "c": {"ok": 1}, "d": {"error": null}})).await;
    let swapped = json!({"of": {"left": 1, "right": "x"}});
    let swapped = answer(&component, "swap", swapped, nothing()).await;
    assert_eq!(swapped, fine(r#"["x",1]"#));
    assert!(component.imports.iter().all(|import| import.starts_with("wasi:")));
    let greeted = answer(&component, "greet", json!({"name": "you"}), nothing()).await;
    assert_eq!(greeted, fine("Hello, you!"));
    assert_eq!(answer(&component, "nothing", json!({}), nothing()).await, fine("done"));
}

// CAPABILITY-14, security line 720
#[tokio::test]
async fn a_call_finds_nothing_of_the_calls_before_it() {
    let component = pure();
    let seek = async |component: &ToolComponent| {
        let found = answer(component, "traces_seek", json!({}), nothing()).await;
        serde_json::from_str::<Value>(&found.text).unwrap()
    };
    let first = seek(&component).await;
    assert_eq!((&first["bytes"], &first["state"]), (&json!(0), &json!(0)), "{first}");
    assert_eq!(first["time"], json!(0), "without a grant the clock stands still: {first}");
    for _ in 0..50 {
        assert_eq!(seek(&component).await, first);
    }
    let clones: Vec<_> = (0..8).map(|_| component.clone()).collect();
    let together = clones.iter().map(seek);
    for found in futures_util::future::join_all(together).await {
        assert_eq!(found, first);
    }

    // The numbers of a granted source differ, and the clock of each call begins with it.
    let need = ["random", "clock"].map(|grant| json!({"grant": grant, "why": "for a test"}));
    let manifest = json!({"kind": "tool", "name": "ordinary", "version": "1", "about": "Ordinary.", "needs": need});
    let packed = custom_section::pack(&bytes("foreign"), manifest.to_string().as_bytes());
    let grant = Grant { random: Random::Secure, clock: Clock::Coarse, ..Grant::default() };
    let component = host().load(&packed, grant, &Events::silent()).unwrap().into_tool().unwrap();
    let before = seek(&component).await;
    let pause = Duration::from_secs(2);
    tokio::time::sleep(pause).await;
    let after = seek(&component).await;
    assert_ne!(before["random"], after["random"]);
    assert_eq!((&after["bytes"], &after["state"]), (&json!(0), &json!(0)), "{after}");
    assert!(u128::from(after["time"].as_u64().unwrap()) < pause.as_nanos(), "{after}");
}

// FOREIGN-6
#[tokio::test]
async fn a_result_says_by_itself_whether_the_call_worked() {
    let component = pure();
    let divided = answer(&component, "divide", json!({"a": 7, "b": 2}), nothing()).await;
    assert_eq!(divided, fine("3"));
    let refused = answer(&component, "divide", json!({"a": 7, "b": 0}), nothing()).await;
    assert_eq!(refused.text, "tool_failed: 7 cannot be divided by 0");
    assert!(refused.is_error);
    let wrong = outcome(&component, "divide", &json!({"a": 7}), nothing()).await;
    let Err(ComponentFailure::Guest(GuestFailure::BadArguments(why))) = wrong else {
        panic!("{wrong:?}")
    };
    assert_eq!(why, "`b` is missing");
    let unknown = outcome(&component, "make_counter", &json!({}), nothing()).await;
    assert!(matches!(unknown, Err(ComponentFailure::Guest(GuestFailure::UnknownTool))));
}

// FOREIGN-7, security line 15
#[tokio::test]
async fn a_foreign_component_has_the_limits_of_every_other_one() {
    let component = pure();
    let never = CancellationToken::new();
    let short = Duration::from_millis(300);
    let spun = component.call("trouble_spin", "{}", nothing(), short, &never).await;
    assert!(matches!(spun, Err(ComponentFailure::Deadline(_))), "{spun:?}");
    let eaten = outcome(&component, "trouble_eat", &json!({"megabytes": 1000}), nothing()).await;
    assert!(matches!(eaten, Err(ComponentFailure::Limit(Limit::Memory))), "{eaten:?}");
    let trapped = outcome(&component, "trouble_panic", &json!({}), nothing()).await;
    assert!(matches!(trapped, Err(ComponentFailure::Trap(_))), "{trapped:?}");
    for (bytes, limit) in [(5_000_000, Limit::Result), (20_000_000, Limit::HostCall)] {
        let bytes = json!({"bytes": bytes});
        let long = outcome(&component, "trouble_long_answer", &bytes, nothing()).await;
        assert!(
            matches!(&long, Err(ComponentFailure::Limit(found)) if *found == limit),
            "{bytes}: {:?}",
            long.map(|outcome| outcome.text.len())
        );
    }
    let still = answer(&component, "greet", json!({"name": "you"}), nothing()).await;
    assert_eq!(still, fine("Hello, you!"));
}

// FOREIGN-8
#[tokio::test]
async fn without_a_manifest_it_sees_no_directory_and_with_a_need_the_filtered_one() {
    let repository = Repository::new();
    let writer = &repository.writers()[0];
    let read = |path: &str| json!({"path": path});
    for component in [pure(), load(&["repo.read"], Grant::default().with_view())] {
        let is_closed = component.grant.repo_read.is_none();
        let with = || editing(writer, Events::silent());
        let plain = answer(&component, "files_read", read("/repo/a.txt"), with()).await;
        assert_eq!(plain == fine("hello"), !is_closed, "{plain:?}");
        let secret = answer(&component, "files_read", read("/repo/.env"), with()).await;
        assert!(secret.is_error && !secret.text.contains(SECRET), "{secret:?}");
        // Reading is all that it may do.
        let write = json!({"path": "/repo/a.txt", "text": "owned"});
        let written = answer(&component, "files_write", write, with()).await;
        assert!(written.is_error, "{written:?}");
    }
    assert_eq!(fs::read(repository.root().join("a.txt")).unwrap(), b"hello");
}

trait WithView {
    fn with_view(self) -> Self;
}

impl WithView for Grant {
    fn with_view(self) -> Self {
        Self { repo_read: Some(RepoRead::default()), ..self }
    }
}

// FOREIGN-8, security line 49
#[test]
fn writing_needs_a_need_a_grant_and_a_directory_and_no_scout_gets_it() {
    let refused = |bytes: &[u8], grant: Grant| {
        let error = host().load(bytes, grant, &Events::silent()).err();
        error.unwrap_or_else(|| panic!("loaded"))
    };
    let missing =
        refused(&packed("tool", &["repo.read", "repo.write"]), Grant::default().with_view());
    let said = missing.to_string();
    assert!(said.contains("wasi:filesystem/preopens") && said.contains("`repo.write`"), "{said}");
    // Its exports are not those of a Scout in any case; the need alone is refused before that is looked at.
    let scout = refused(&packed("scout", &["repo.write"]), Grant::everything());
    assert!(
        matches!(scout, LoadError::Refused { why: AdmissionError::ScoutThatEdits(_), .. }),
        "{scout}"
    );
}

// FOREIGN-9
#[tokio::test]
async fn what_it_writes_is_written_by_the_host_and_told_with_versions() {
    let repository = Repository::new();
    let component = writing();
    for (i, writer) in repository.writers().iter().enumerate() {
        let heard = Heard::default();
        let with = || editing(writer, heard.events());
        let new = format!("new/deep/{i}.txt");
        let make = json!({"path": format!("/repo/new/deep/{i}")});
        // A directory alone is no change.
        let made = answer(&component, "files_make_directory", make, with()).await;
        assert_eq!(made, fine("done"));
        let text = json!({"path": "/repo/a.txt", "text": format!("changed {i}")});
        let changed = answer(&component, "files_write", text, with()).await;
        assert_eq!(changed, fine("done\nedited a.txt · version 2"));
        let more = json!({"path": "/repo/a.txt", "text": "!"});
        answer(&component, "files_append", more, with()).await;
        let moved =
            json!({"from": "/repo/sub/b.txt", "to": format!("/repo/{}", new.replace('/', "-"))});
        let moved = answer(&component, "files_rename", moved, with()).await;
        let root = repository.root();
        assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), format!("changed {i}!"));
        assert!(!moved.is_error, "{moved:?}");
        assert!(!root.join("sub/b.txt").exists(), "{moved:?}");
        assert_eq!(fs::read(root.join(new.replace('/', "-"))).unwrap(), b"there");
        fs::write(root.join("sub/b.txt"), "there").unwrap();
        assert!(!root.join("new").exists(), "an empty directory is no change");
        let gone = json!({"path": "/repo/sub/b.txt"});
        let gone = answer(&component, "files_remove", gone, with()).await;
        assert_eq!(gone, fine("done\ndeleted sub/b.txt"));
        assert!(!root.join("sub/b.txt").exists());
        fs::write(root.join("sub/b.txt"), "there").unwrap();
        let edits = heard.kinds().into_iter().filter(|kind| matches!(kind, EventKind::Edit { .. }));
        assert_eq!(edits.count(), 5);
    }
}

// FOREIGN-9
#[tokio::test]
async fn of_a_call_that_failed_nothing_is_kept() {
    let repository = Repository::new();
    let component = writing();
    let writer = &repository.writers()[0];
    let with = || editing(writer, Events::silent());
    let text = json!({"path": "/repo/a.txt", "text": "owned"});
    let failed = answer(&component, "files_write_and_fail", text.clone(), with()).await;
    assert_eq!(failed.text, "tool_failed: changed my mind");
    let trapped = outcome(&component, "files_write_and_trap", &text, with()).await;
    assert!(matches!(trapped, Err(ComponentFailure::Trap(_))), "{trapped:?}");
    assert_eq!(fs::read(repository.root().join("a.txt")).unwrap(), b"hello");
    assert!(writer.changed().is_empty());
}

// FOREIGN-9, security line 3: no way from what may be read to what may be written but through the host
#[tokio::test]
async fn security_line_3_links_lead_no_file_into_the_scratch_copy() {
    let repository = Repository::new();
    let root = repository.root();
    let component = writing();
    for writer in repository.writers() {
        let with = || editing(&writer, Events::silent());
        for from in ["/repo/a.txt", "/repo/passwd", "/repo/out"] {
            for tool in ["files_hard_link", "files_symbolic_link"] {
                let link = json!({"from": from, "to": "/repo/linked"});
                let linked = answer(&component, tool, link, with()).await;
                assert!(linked.is_error, "{tool} {from}: {linked:?}");
            }
        }
        // Through a link out, onto one, and onto a link that stays inside.
        for path in ["/repo/out", "/repo/out-dir/x", "/repo/passwd", "/repo/../outside/x"] {
            let write = json!({"path": path, "text": "owned"});
            let written = answer(&component, "files_write", write, with()).await;
            assert!(written.is_error, "{path}: {written:?}");
            let onto = json!({"from": "/repo/a.txt", "to": path});
            let moved = answer(&component, "files_rename", onto, with()).await;
            assert!(moved.is_error, "{path}: {moved:?}");
        }
        let through = json!({"path": "/repo/link", "text": "hello"});
        answer(&component, "files_write", through, with()).await;
        assert!(root.join("link").is_symlink(), "the link itself stays");
        assert!(!root.join("linked").exists());
        assert_eq!(fs::read(root.join("../outside/x")).unwrap(), SECRET.as_bytes());
        assert_eq!(fs::read(root.join("a.txt")).unwrap(), b"hello");
    }
}

// FOREIGN-9, security line 45
#[tokio::test]
async fn every_rule_for_writing_holds_for_the_difference() {
    let repository = Repository::new();
    let root = repository.root();
    fs::write(root.join("agent.yaml"), "x: 1").unwrap();
    let component = writing();
    let within = WriteRules::default().within(&["sub/**".to_owned()], &[]).unwrap();
    let plain = Arc::new(RepoWriter::open(&root, WriteRules::default()).unwrap());
    let bounded = Arc::new(RepoWriter::open(&root, within).unwrap());
    for (writer, path, expected) in [
        (&plain, "agent.yaml", "protected"),
        (&plain, "agent/summary.md", "protected"),
        (&plain, ".envrc", "guarded"),
        (&plain, ".GitHub/Workflows/x.yml", "guarded"),
        (&bounded, "a.txt", "boundary"),
    ] {
        let with = || editing(writer, Events::silent());
        if let Some((dir, _)) = path.rsplit_once('/') {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        let before = fs::read(root.join(path)).ok();
        let write = json!({"path": format!("/repo/{path}"), "text": "owned"});
        let written = answer(&component, "files_write", write, with()).await;
        assert!(written.is_error, "{path}: {written:?}");
        // The component itself meets the error where the name is hidden from it.
        assert!([expected, "tool_failed"].contains(&reason(&written)), "{path}: {written:?}");
        assert_eq!(fs::read(root.join(path)).ok(), before, "{path}");
    }
    // Secrets and `.git` are not even there to be written.
    for path in [".env", ".git/config", ".git/hooks/pre-commit", "id_rsa"] {
        let before = fs::read(root.join(path)).ok();
        let write = json!({"path": format!("/repo/{path}"), "text": "owned"});
        let with = editing(&plain, Events::silent());
        let written = answer(&component, "files_write", write, with).await;
        assert!(written.is_error, "{path}: {written:?}");
        assert_eq!(fs::read(root.join(path)).ok(), before, "{path}");
    }
    assert!(plain.changed().is_empty() && bounded.changed().is_empty());
}

// FOREIGN-10
#[tokio::test]
async fn the_scratch_copy_is_bounded_and_so_is_its_difference() {
    let repository = Repository::new();
    let writer = &repository.writers()[0];
    let component = writing();
    let with = || editing(writer, Events::silent());
    let fill = json!({"path": "/repo/full", "megabytes": 100});
    let filled = answer(&component, "files_fill", fill, with()).await;
    assert!(filled.is_error, "{filled:?}");
    let large = json!({"path": "/repo/full", "megabytes": 20});
    let large = answer(&component, "files_fill", large, with()).await;
    assert_eq!(reason(&large), "too_large");
    let many = answer(&component, "files_many", json!({"count": 300}), with()).await;
    assert_eq!(reason(&many), "bad_arguments");
    assert!(many.text.contains("more than 200 changes"), "{many:?}");
    assert!(!repository.root().join("full").exists());
    assert!(!repository.root().join("many-0").exists(), "all or nothing");
    let few = answer(&component, "files_many", json!({"count": 150}), with()).await;
    assert_eq!(few.text.matches("\ncreated many-").count(), 150);
}

/// Returns the kilobytes of memory that this process has.
#[cfg(target_os = "linux")]
fn memory() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

// FOREIGN-10: a handle of a file in the scratch copy holds none of the content, because nothing would bound their number. The
// component writes to the file between two handles, so each of them would hold another content.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn many_handles_of_one_large_file_cost_the_memory_of_one() {
    let repository = Repository::new();
    let component = writing();
    let with = editing(&repository.writers()[0], Events::silent());
    let (before, done) = (memory(), Arc::new(AtomicBool::new(false)));
    let watch = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            let mut most = before;
            while !done.load(Ordering::Relaxed) {
                most = most.max(memory());
                std::thread::sleep(Duration::from_millis(2));
            }
            most
        }
    });
    let hold = json!({"path": "/repo/large", "megabytes": 20, "count": 60});
    let held = answer(&component, "files_hold_files", hold, with).await;
    done.store(true, Ordering::Relaxed);
    let most = watch.join().unwrap();
    assert!(!held.is_error, "{held:?}");
    assert!(most - before < 600 << 10, "{before} kB before, {most} kB with the handles");
}

// FOREIGN-10, security line 12: what a listing of the copy holds in the host is paid for when it is opened, read or not
#[tokio::test]
async fn listings_that_nobody_reads_are_bounded() {
    let repository = Repository::new();
    let many = repository.root().join("sub/many");
    fs::create_dir_all(&many).unwrap();
    for n in 0..5_000 {
        fs::write(many.join(format!("{n:0200}")), "").unwrap();
    }
    let component = writing();
    let heard = Heard::default();
    let with = || editing(&repository.writers()[0], heard.events());
    let path = json!({"path": "sub/many"});
    let answer = answer(&component, "files_hold_listings", path, with()).await;
    let answer: Value = serde_json::from_str(&answer.text).unwrap();
    let (held, why, again) = (&answer[0], &answer[1], &answer[2]);
    assert!((1..20).contains(&held.as_u64().unwrap()), "{answer}");
    assert!(why.as_str().unwrap().contains("\"quota\""), "{answer}");
    assert_eq!(again, true, "what is closed is given back: {answer}");
    assert!(heard.denials().contains(&("limits.listings".into(), "sub/many".into())));
}

// FOREIGN-9: in a dry run the answers are the same, and the repository is not
#[tokio::test]
async fn a_dry_run_takes_the_difference_too() {
    let repository = Repository::new();
    let root = repository.root();
    let overlay = Overlay::default();
    let writer = RepoWriter::open_dry(&root, WriteRules::default(), overlay.clone()).unwrap();
    let writer = Arc::new(writer);
    let component = writing();
    let with = || editing(&writer, Events::silent());
    let text = json!({"path": "/repo/a.txt", "text": "dry"});
    let written = answer(&component, "files_write", text, with()).await;
    assert_eq!(written, fine("done\nedited a.txt · version 2"));
    let read = answer(&component, "files_read", json!({"path": "/repo/a.txt"}), with()).await;
    assert_eq!(read, fine("dry"));
    let listed = answer(&component, "files_list", json!({"path": "/repo"}), with()).await;
    let names: Vec<String> = serde_json::from_str(&listed.text).unwrap();
    assert!(
        names.contains(&"a.txt".to_owned()) && !names.contains(&".env".to_owned()),
        "{names:?}"
    );
    assert_eq!(fs::read(root.join("a.txt")).unwrap(), b"hello");
    assert_eq!(overlay.files().len(), 1);
}

// FOREIGN-7: limits are those of the grant
#[tokio::test]
async fn a_smaller_grant_is_a_smaller_limit() {
    let small = Limits { result_bytes: 100, ..Limits::default() };
    let grant = Grant { limits: small, ..Grant::default() };
    let component =
        host().load(&bytes("foreign"), grant, &Events::silent()).unwrap().into_tool().unwrap();
    let long = outcome(&component, "trouble_long_answer", &json!({"bytes": 101}), nothing()).await;
    assert!(matches!(long, Err(ComponentFailure::Limit(Limit::Result))), "{long:?}");
}
