//! Files of the repository that are not in view.

use act_component::Grant;
use act_core::event::Events;

use super::{all_refused, read_both_ways};
use crate::hostile::{
    Repository, SECRET, attack, attack_as_tool, editing, load, load_tool, reading,
};

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
        // A tool may read files that git ignores; no result comes from a hidden file.
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

// CAPABILITY-18, CAPABILITY-11
#[tokio::test]
async fn a_narrower_grant_hides_everything_beside_its_paths() {
    let repository = Repository::new();
    let parts = ["sub"].map(|part| part.parse().unwrap()).into_iter().collect();
    let read = act_component::RepoRead { paths: parts, ..Default::default() };
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
