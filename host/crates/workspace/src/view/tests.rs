use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::exclusion::Rule;
use crate::paths::PathGlobs;
use crate::testing::Fixture;
use crate::view::Profile;
use act_fs::Root;

fn text(seen: OpenEntry) -> String {
    let mut bytes = vec![0; 4096];
    let count = seen.handle.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(count);
    String::from_utf8(bytes).unwrap()
}

fn error(view: &RepoView, path: &str) -> ViewError {
    view.resolve("", path, FollowLinks::Yes).unwrap_err()
}

fn names(view: &RepoView, dir: &str) -> Vec<String> {
    let dir = view.resolve("", dir, FollowLinks::Yes).unwrap();
    let (mut names, mut after) = (vec![], None);
    loop {
        let part = view.read_dir(&dir, after.as_ref()).unwrap();
        names.extend(part.entries.into_iter().map(|entry| entry.name));
        match part.next {
            Some(next) => after = Some(next),
            None => return names,
        }
    }
}

// WORKSPACE-8, security line 265
#[test]
fn a_second_name_of_a_secret_is_a_secret() {
    let repo = Fixture::new(&[("conf/.env", "KEY=1"), ("a.txt", "a"), ("own.txt", "o")]);
    fs::hard_link(repo.root.join("conf/.env"), repo.root.join("notes.txt")).unwrap();
    fs::hard_link(repo.root.join("a.txt"), repo.root.join("b.txt")).unwrap();
    for profile in [Profile::Scout, Profile::Tool] {
        let view = RepoView::open(&repo.root, profile).unwrap();
        let secret = ViewError::Excluded { path: "notes.txt".into(), rule: Rule::Secret };
        assert_eq!(error(&view, "notes.txt"), secret);
        for path in ["a.txt", "b.txt", "own.txt"] {
            assert!(view.resolve("", path, FollowLinks::Yes).is_ok(), "{path}");
        }
    }
    let tool = RepoView::open(&repo.root, Profile::Tool).unwrap();
    let allowed = tool.with_secrets(&PathGlobs::new(&["conf/.env".to_owned()]).unwrap());
    assert!(allowed.resolve("", "notes.txt", FollowLinks::Yes).is_ok());
}

#[test]
fn a_path_is_answered_with_its_handle_and_its_real_name() {
    let repo = Fixture::new(&[("a/b/c.txt", "c"), ("top", "t")]);
    repo.link("b", "a/link");
    repo.link("../a/link/c.txt", "x/deep");
    for view in repo.views(Profile::Scout) {
        for (base, path, real) in [
            ("", "a/b/c.txt", "a/b/c.txt"),
            ("", "a/link/c.txt", "a/b/c.txt"),
            ("", "a/./b//c.txt", "a/b/c.txt"),
            ("", "a/b/../../top", "top"),
            ("", "x/deep", "a/b/c.txt"),
            ("a", "link/../b/c.txt", "a/b/c.txt"),
            ("a/b", "c.txt", "a/b/c.txt"),
        ] {
            let seen = view.resolve(base, path, FollowLinks::Yes).unwrap();
            assert_eq!((seen.path.as_str(), seen.kind), (real, Kind::File), "{base} {path}");
        }
        let root = view.resolve("", ".", FollowLinks::Yes).unwrap();
        assert_eq!((root.path.as_str(), root.kind), ("", Kind::Directory));
        let back = view.resolve("a", "..", FollowLinks::Yes).unwrap();
        assert_eq!((back.path.as_str(), back.kind), ("", Kind::Directory));
        let link = view.resolve("", "a/link", FollowLinks::No).unwrap();
        assert_eq!((link.path.as_str(), link.kind), ("a/link", Kind::Link));
        let through = view.resolve("", "a/link/", FollowLinks::No).unwrap();
        assert_eq!((through.path.as_str(), through.kind), ("a/b", Kind::Directory));
        assert_eq!(text(view.resolve("", "a/link/c.txt", FollowLinks::No).unwrap()), "c");
    }
}

// security lines 1 and 4
#[test]
fn nothing_leads_outside() {
    let repo = Fixture::new(&[("a/file", "in")]);
    repo.link("/etc", "absolute");
    repo.link(&repo.outside, "absolute-outside");
    repo.link("../outside", "a-up");
    repo.link("../../outside/file", "a/up");
    repo.link("loop", "loop");
    for view in repo.views(Profile::Scout) {
        for path in [
            "../outside/file",
            "a/../../outside/file",
            "/etc/passwd",
            "absolute/passwd",
            "absolute-outside/file",
            "a-up/file",
            "a/up",
            "..",
            "a/../..",
        ] {
            let error = error(&view, path);
            assert!(matches!(error, ViewError::NotPermitted { .. }), "{path}: {error:?}");
        }
        assert_eq!(error(&view, "a\0b"), ViewError::Invalid("a path with a NUL byte"));
        assert!(matches!(view.resolve("", "", FollowLinks::Yes), Err(ViewError::Invalid(_))));
        for path in ["a/file/", "a/file/.", "a/file/x", "a/file/../file"] {
            assert_eq!(error(&view, path), ViewError::NotDirectory, "{path}");
        }
        assert_eq!(error(&view, "loop"), ViewError::Loop);
        assert_eq!(error(&view, &"x/".repeat(2100)), ViewError::TooLong);
        assert_eq!(error(&view, &"x".repeat(300)), ViewError::TooLong);
        assert_eq!(error(&view, "gone"), ViewError::NotFound);
        assert_eq!(
            names(&view, "."),
            ["a", "a-up", "absolute", "absolute-outside", "loop"],
            "links are listed"
        );
    }
}

// security line 7
#[test]
fn secrets_git_and_ignored_files_neither_open_nor_list_also_through_a_link() {
    let repo = Fixture::new(&[
        (".env", "s"),
        ("src/.env.local", "s"),
        ("id_rsa", "s"),
        ("x.PEM", "s"),
        (".npmrc", "s"),
        (".git/config", "s"),
        (".gitignore", "private/\n*.log\n!keep.log\n"),
        ("private/a.txt", "s"),
        ("b.log", "s"),
        ("keep.log", "k"),
        ("src/main.rs", "m"),
        ("logo.png", "p"),
    ]);
    repo.link("../.env", "src/innocent");
    repo.link("../.git", "src/history");
    repo.link("../private", "src/public");
    for view in repo.views(Profile::Scout) {
        for path in [
            ".env",
            "src/.env.local",
            "id_rsa",
            "x.PEM",
            ".npmrc",
            ".git/config",
            ".git",
            "private",
            "private/a.txt",
            "b.log",
            "src/innocent",
            "src/history/config",
            "src/public/a.txt",
            "src/../.env",
            "logo.png",
            ".env.not-even-there",
            ".git/not/there",
        ] {
            let error = error(&view, path);
            assert!(matches!(error, ViewError::Excluded { .. }), "{path}: {error:?}");
        }
        assert_eq!(names(&view, "."), [".gitignore", "keep.log", "src"]);
        assert_eq!(names(&view, "src"), ["history", "innocent", "main.rs", "public"]);
    }
}

#[test]
fn tools_see_what_git_ignores_except_tool_directories() {
    let repo = Fixture::new(&[
        (".gitignore", "local.cfg\nbuild/\n"),
        ("local.cfg", "c"),
        ("build/out.txt", "o"),
        ("dist/tracked.js", "d"),
        (".env", "s"),
        ("web/.env", "s"),
    ]);
    for view in repo.views(Profile::Tool) {
        assert_eq!(names(&view, "."), [".gitignore", "dist", "local.cfg", "web"]);
        let out = error(&view, "build/out.txt");
        assert!(matches!(out, ViewError::Excluded { rule: Rule::BuildDirectory, .. }));
        assert_eq!(text(view.resolve("", "dist/tracked.js", FollowLinks::Yes).unwrap()), "d");

        let lifted = view.with_secrets(&PathGlobs::new(&["web/.env".into()]).unwrap());
        assert_eq!(text(lifted.resolve("", "web/.env", FollowLinks::Yes).unwrap()), "s");
        assert!(matches!(
            lifted.resolve("", ".env", FollowLinks::Yes),
            Err(ViewError::Excluded { .. })
        ));
    }
    let scout = repo.view(Profile::Scout).with_secrets(&PathGlobs::new(&["**".into()]).unwrap());
    assert!(matches!(
        scout.resolve("", "web/.env", FollowLinks::Yes),
        Err(ViewError::Excluded { .. })
    ));
}

#[test]
fn a_tracked_file_is_not_ignored_whatever_a_pattern_says() {
    let repo = Fixture::new(&[
        (".gitignore", "gen/\n*.lock\n"),
        ("gen/kept.rs", "k"),
        ("gen/other.rs", "o"),
        ("a.lock", "a"),
        ("b.lock", "b"),
        ("sub/.gitignore", "x.txt\n!a.lock\n"),
        ("sub/x.txt", "x"),
        ("sub/a.lock", "a"),
        (".git/info/exclude", "mine.txt\n"),
        ("mine.txt", "m"),
    ]);
    repo.track(&["gen/kept.rs", "b.lock"]);
    for view in repo.views(Profile::Scout) {
        assert_eq!(names(&view, "."), [".gitignore", "b.lock", "gen", "sub"]);
        assert_eq!(names(&view, "gen"), ["kept.rs"]);
        assert_eq!(names(&view, "sub"), [".gitignore", "a.lock"]);
        view.resolve("", "gen/kept.rs", FollowLinks::Yes).unwrap();
        error(&view, "gen/other.rs");
    }
    repo.write(".git/index", "DIRC damaged");
    assert_eq!(names(&repo.view(Profile::Scout), "."), [".gitignore", "sub"]);
}

#[test]
fn a_linked_gitignore_is_not_read() {
    let repo = Fixture::new(&[("a.txt", "a")]);
    fs::write(repo.outside.join("rules"), "a.txt\n").unwrap();
    repo.link("../outside/rules", ".gitignore");
    assert_eq!(names(&repo.view(Profile::Scout), "."), [".gitignore", "a.txt"]);
}

// security line 9
#[test]
fn a_fifo_is_refused_at_once_and_not_listed() {
    let repo = Fixture::new(&[("a", "a")]);
    repo.fifo("README.md");
    repo.link("README.md", "link");
    for view in repo.views(Profile::Scout) {
        for path in ["README.md", "link"] {
            let error = error(&view, path);
            assert!(matches!(error, ViewError::NotPermitted { .. }), "{path}: {error:?}");
        }
        assert_eq!(names(&view, "."), ["a", "link"]);
    }
}

/// While one thread swaps a directory for a link to the outside, and a file for a link to a secret, every answer to
/// another thread is the file inside or a refusal.
#[test]
fn a_race_never_leaks() {
    let repo = Fixture::new(&[("d/file", "inside"), ("e/file", "inside"), (".env", "secret")]);
    repo.link("../outside", "to-outside");
    repo.link("../.env", "e/to-secret");
    let stop = AtomicBool::new(false);
    let root = Root::open(&repo.root).unwrap();
    let swap = |a: &str, b: &str| {
        let _ = rustix::fs::renameat_with(&root, a, &root, b, rustix::fs::RenameFlags::EXCHANGE);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap("d", "to-outside");
                swap("e/file", "e/to-secret");
            }
        });
        let mut counts = vec![];
        for view in repo.views(Profile::Scout) {
            let (mut inside, mut refused) = (0, 0);
            for round in 0..2_000_000 {
                let path = if round % 2 == 0 { "d/file" } else { "e/file" };
                match view.resolve("", path, FollowLinks::Yes) {
                    Ok(seen) => {
                        assert_eq!(text(seen), "inside");
                        inside += 1;
                    }
                    Err(_) => refused += 1,
                }
                if inside > 5_000 && refused > 5_000 {
                    break;
                }
            }
            counts.push((inside, refused));
        }
        stop.store(true, Ordering::Relaxed);
        let both = counts.iter().all(|(inside, refused)| *inside > 0 && *refused > 0);
        assert!(both, "inside and refused, with and without openat2: {counts:?}");
    });
}

// WORKSPACE-19
#[test]
fn what_is_in_a_git_directory_under_another_name_is_not_in_view() {
    let repo = Fixture::new(&[
        (".git", "gitdir: ./.gitdata\n"),
        (".gitdata/HEAD", "ref: refs/heads/main\n"),
        (".gitdata/config", "[core]\n"),
        (".gitdata/objects/x", ""),
        (".gitdata/refs/x", ""),
        ("src/objects/a.rs", "x"),
        ("src/refs/a.rs", "x"),
    ]);
    for profile in [Profile::Scout, Profile::Tool] {
        for view in repo.views(profile) {
            for path in [".gitdata/config", ".gitdata/objects/x"] {
                let refused = view.resolve("", path, FollowLinks::Yes).unwrap_err();
                let hidden =
                    matches!(refused, ViewError::Excluded { rule: Rule::VersionControl, .. });
                assert!(hidden, "{path}: {refused}");
            }
            assert!(view.resolve("", "src/objects/a.rs", FollowLinks::Yes).is_ok());
            let listed = crate::files(&view).unwrap();
            assert!(listed.contains("src/refs/a.rs"), "{listed:?}");
            assert!(!listed.iter().any(|path| path.starts_with(".gitdata")), "{listed:?}");
        }
    }
}

// WORKSPACE-4, security line 327
#[test]
fn a_name_that_is_swapped_meanwhile_is_denied_or_not_found() {
    let repo = Fixture::new(&[("d/file", "inside"), ("f", "inside")]);
    repo.link("../outside", "to-outside");
    repo.link("d/file", "to-file");
    let stop = AtomicBool::new(false);
    let root = Root::open(&repo.root).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for (a, b) in [("d", "to-outside"), ("f", "to-file")] {
                    let both = rustix::fs::RenameFlags::EXCHANGE;
                    let _ = rustix::fs::renameat_with(&root, a, &root, b, both);
                }
            }
        });
        let mut odd = None;
        for view in repo.views(Profile::Scout) {
            for round in 0..40_000 {
                let path = ["d/file", "f", "to-file", "to-outside/file"][round % 4];
                let follow = [FollowLinks::Yes, FollowLinks::No][round / 4 % 2];
                match view.resolve("", path, follow) {
                    Ok(_)
                    | Err(
                        ViewError::NotFound
                        | ViewError::NotPermitted { .. }
                        | ViewError::NotDirectory,
                    ) => {}
                    Err(other) => odd = Some(format!("{path}: {other}")),
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(odd, None);
    });
}

// A file must not be seen because its directory was judged for all of its files.
#[test]
fn a_file_is_hidden_in_its_judged_directory_exactly_if_its_path_is_hidden() {
    let fixture = Fixture::new(&[
        (".gitignore", "*.log\n/out/\n"),
        ("odd.git/HEAD", "ref: refs/heads/main\n"),
        ("odd.git/objects/x", ""),
        ("odd.git/refs/x", ""),
    ]);
    let directories = [
        "",
        "src",
        "a/b",
        "secrets",
        ".docker",
        "x/.Docker",
        ".kube",
        "node_modules",
        "a/.git/b",
        "dist",
        "out",
        "odd.git",
        ".ssh",
        "agent",
        ".act-write-0123456789abcdef.tmp",
        "x/Target",
    ];
    let names = [
        "a.rs",
        "config.json",
        "CONFIG",
        "config",
        ".env",
        "id_rsa.pub",
        "x.PEM",
        "a.png",
        "b.log",
        ".git",
        "build",
        "out",
        "credentials.py",
        ".act-write-0123456789abcdef.tmp",
        "agent",
        "ſecret.py",
    ];
    let whole = fixture.view(Profile::Scout);
    let parts = whole.restricted(Restriction {
        parts: Some(vec!["src".to_owned(), "a/b/config".to_owned()]),
        stopped: Box::new(|| false),
        on_read: Box::new(|_| {}),
    });
    for view in [&whole, &parts, &fixture.view(Profile::Tool)] {
        for directory in directories {
            let judged = view.judge(directory);
            for name in names {
                let path = join(directory, name);
                let hidden = view.rule(&path, Kind::File).is_some();
                assert_eq!(view.hides(&judged, &path), hidden, "{path}");
            }
        }
    }
}
