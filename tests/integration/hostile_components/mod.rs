//! A component from somebody else cannot change anything and sees nothing that its view does not show. Each
//! attack runs with `openat2` and without, and through the preopen as well as through `repo.read`.

mod denials;
mod history;
mod outside;
mod secrets;
mod special_files;
mod without_grants;
mod writing;

use act_component::Grant;
use act_workspace::RepoView;
use serde_json::Value;

use crate::hostile::{SECRET, attack, load, reading};

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
