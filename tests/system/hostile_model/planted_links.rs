//! Links to the outside that lie in the repository, also in the place of our own files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::{by_every_route, denied, fingerprint};
use crate::harness::script::{attempt, done, opening, script};
use crate::harness::tool_answers::{reasons, refused};
use crate::harness::{Act, image};

/// Security line 57: a directory that is a link to the outside is no way out.
#[test]
fn a_linked_directory_is_no_way_out() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("f"), "outside\n").unwrap();
    let before = fingerprint(outside.path());
    let hostile = by_every_route("docs/f").into_iter().chain(by_every_route("docs/new"));
    let turns =
        opening("obey").into_iter().chain(hostile).chain(attempt("right\n")).chain([done()]);
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    symlink(outside.path(), act.repo().join("docs")).unwrap();
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    assert_eq!(fingerprint(outside.path()), before);
    assert_eq!(reasons(&told).len(), 16, "{:?}", reasons(&told));
    assert_eq!(denied(&told), refused(&told));
}

/// Security line 64: links to the outside in place of both directories are found before anything is written.
#[test]
fn links_in_place_of_both_directories_of_notes_refuse_the_task() {
    let outside = tempfile::tempdir().unwrap();
    let act = Act::new().file("answer.txt", "none\n").pipeline(image(), &[("test", "true")]);
    symlink(outside.path(), act.repo().join("agent")).unwrap();
    symlink(outside.path(), act.repo().join(".act")).unwrap();
    let before = fingerprint(&act.repo());
    let told = act.script("turns: []").run("write the answer").status(1);
    let told = told.stderr_has("agent and .act in");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(fingerprint(&told.repo()), before);
    assert!(told.requests().is_empty());
}

/// Security line 65: `.gitignore` and `context_latest.md` as links to the outside, and a first snapshot
/// that is already there.
#[test]
fn links_that_a_clone_ships_for_our_own_files_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    for name in ["profile", "latest"] {
        fs::write(outside.path().join(name), "outside\n").unwrap();
    }
    let before = fingerprint(outside.path());
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file("agent/context_001.md", "shipped\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    symlink(outside.path().join("profile"), act.repo().join(".gitignore")).unwrap();
    symlink(outside.path().join("latest"), act.repo().join("agent/context_latest.md")).unwrap();
    let told = act.script(&script(turns)).run("write the answer").status(0);
    assert_eq!(fingerprint(outside.path()), before);
    assert_eq!(told.read("agent/context_001.md"), "shipped\n");
    let latest = fs::read_link(told.repo().join("agent/context_latest.md")).unwrap();
    assert_eq!(latest, Path::new("context_003.md"));
    assert!(fs::symlink_metadata(told.repo().join(".gitignore")).unwrap().is_symlink());
}

/// Security line 64, WORKSPACE-57: a link is never the directory of act's notes.
#[test]
fn an_agent_directory_that_is_a_link_is_left_alone() {
    let outside = tempfile::tempdir().unwrap();
    let act = Act::new().file("answer.txt", "none\n").pipeline(image(), &[("test", "true")]);
    symlink(outside.path(), act.repo().join("agent")).unwrap();
    let silent = || json!({"role": "editor", "text": "hm"});
    let told = act.script(&script([silent(), silent(), silent()])).run("x").status(3);
    let told = told.stderr_has("agent/ is yours, so act keeps its notes in .act/");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert!(told.repo().join(".act/stuck_report.md").exists());
}

/// WORKSPACE-32: where `.gitignore` cannot hold the line, or the user has undone it, it is left alone.
#[test]
fn a_gitignore_that_is_not_ours_to_change_is_left_alone() {
    let silent = || json!({"role": "editor", "text": "hm"});
    let turns = script([silent(), silent(), silent()]);
    let act = Act::new().file("rules", "*.o\n").pipeline(image(), &[("test", "true")]);
    symlink("rules", act.repo().join(".gitignore")).unwrap();
    let told = act.clone().script(&turns).run("x").status(3);
    assert_eq!(told.read("rules"), "*.o\n");
    assert_eq!(told.read("agent/.gitignore"), "*\n");

    let undone =
        Act::new().file(".gitignore", "agent/\n!agent/\n").pipeline(image(), &[("test", "true")]);
    let told = undone.script(&turns).run("x").status(3);
    assert_eq!(told.read(".gitignore"), "agent/\n!agent/\n");
    assert_eq!(told.read("agent/.gitignore"), "*\n");
}
