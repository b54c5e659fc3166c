use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::testing::Fixture;

fn globs(globs: &[&str]) -> PathGlobs {
    PathGlobs::new(&globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn paths(set: &CopySet) -> Vec<&str> {
    set.entries.iter().map(|entry| entry.path.to_str().unwrap()).collect()
}

fn repo() -> Fixture {
    let repo = Fixture::new(&[
        (".gitignore", "out/\n*.log\n"),
        (".env", "needed by the tests"),
        ("logo.png", "\0"),
        ("src/main.rs", "fn main() {}"),
        ("src/agent/mod.rs", ""),
        ("out/kept.txt", "tracked"),
        ("out/left.txt", "ignored"),
        ("out/gen/a.c", "ignored"),
        ("a.log", ""),
        ("agent/context_001.md", ""),
        (".git/config", ""),
        ("sub/.git", "gitdir: elsewhere"),
        ("sub/lib.c", ""),
        (".act-write-0123456789abcdef.tmp", ""),
    ]);
    repo.link("src/main.rs", "link");
    repo.track(&["out/kept.txt", "src/main.rs"]);
    repo
}

#[test]
fn the_set_is_what_git_tracks_or_would_track_never_git_nor_agent() {
    let repo = repo();
    repo.fifo("pipe");
    let set = CopySet::of(&repo.root, &globs(&[])).unwrap();
    let expected = [
        ".env",
        ".gitignore",
        "link",
        "logo.png",
        "out/kept.txt",
        "src/agent/mod.rs",
        "src/main.rs",
        "sub/lib.c",
    ];
    assert_eq!(paths(&set), expected);
    let with = CopySet::of(&repo.root, &globs(&["out/gen/*.c", "*.log"])).unwrap();
    let more: Vec<&str> =
        paths(&with).into_iter().filter(|path| !expected.contains(path)).collect();
    assert_eq!(more, ["a.log", "out/gen/a.c"]);
}

#[test]
fn entries_are_opened_by_handle_and_a_swapped_one_is_told() {
    let repo = repo();
    let set = CopySet::of(&repo.root, &globs(&[])).unwrap();
    let entry =
        |path: &str| set.entries.iter().find(|entry| entry.path == Path::new(path)).unwrap();
    assert_eq!(set.link_target(entry("link")).unwrap(), "src/main.rs");
    assert_eq!(set.open(entry("src/main.rs")).unwrap().metadata().unwrap().len(), 12);
    assert_eq!(set.bytes(), set.entries.iter().map(|entry| entry.size).sum::<u64>());
    fs::remove_dir_all(repo.root.join("src")).unwrap();
    repo.link(&repo.outside, "src");
    fs::write(repo.outside.join("main.rs"), "outside").unwrap();
    let changed = CopyError::Changed { path: "src/main.rs".into() };
    assert_eq!(set.open(entry("src/main.rs")).unwrap_err(), changed);
    assert_eq!(set.tree().unwrap_err(), CopyError::Changed { path: "src/agent/mod.rs".into() });
}

#[test]
fn the_digest_knows_bytes_names_modes_and_links_and_nothing_else() {
    let repo = repo();
    let now = || tree_digest(&repo.root, &globs(&[])).unwrap();
    let first = now();
    assert_eq!(first.len(), 64);
    repo.write("a.log", "ignored");
    repo.write("agent/context_002.md", "ours");
    repo.write("src/main.rs", "fn main() {}");
    fs::set_permissions(repo.root.join("src/main.rs"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(now(), first, "same content");
    let mut seen = vec![first];
    let mut differs = |what: &str| {
        let digest = now();
        assert!(!seen.contains(&digest), "{what}");
        seen.push(digest);
    };
    repo.write("src/main.rs", "fn main() { }");
    differs("bytes");
    fs::set_permissions(repo.root.join("src/main.rs"), fs::Permissions::from_mode(0o700)).unwrap();
    differs("executable");
    fs::rename(repo.root.join("logo.png"), repo.root.join("logo2.png")).unwrap();
    differs("a name");
    fs::remove_file(repo.root.join("link")).unwrap();
    differs("gone");
    repo.link("src/agent", "link");
    differs("another target");
    let name = std::ffi::OsStr::from_bytes(b"not-\xff-utf8");
    fs::write(repo.root.join(name), "").unwrap();
    differs("a name that is no text");
}

#[test]
fn finds_sockets_and_fifos_at_any_depth_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join(".git/x")).unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
    let fifo = dir.path().join(".git/x/fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("a.sock")).unwrap();
    let found = special_files(dir.path()).unwrap();
    assert_eq!(found.channels, [PathBuf::from(".git/x/fifo"), PathBuf::from("a.sock")]);
    assert!(found.mounts.is_empty() && !found.cut);
}

// HOOK-5, line 369
#[test]
fn marks_change_with_every_change_of_a_file_and_with_no_reading_of_it() {
    let repo = Fixture::new(&[("a.txt", "one"), ("b.txt", "two")]);
    let marks = || CopySet::of(&repo.root, &globs(&[])).unwrap().marks();
    let first = marks();
    fs::read(repo.root.join("a.txt")).unwrap();
    assert_eq!(marks(), first);
    assert!(first.newest.is_some() && first.files.len() == 2);
    // A file that changes within one tick of the clock may keep its mark, so the test waits for the next one.
    let tick = || std::thread::sleep(std::time::Duration::from_millis(25));
    tick();
    let before = fs::metadata(repo.root.join("a.txt")).unwrap();
    fs::write(repo.root.join("a.txt"), "six").unwrap();
    let file = fs::File::options().write(true).open(repo.root.join("a.txt")).unwrap();
    // Whoever sets the time back changes the time of the inode.
    file.set_modified(before.modified().unwrap()).unwrap();
    let second = marks();
    assert_ne!(second.digest, first.digest);
    assert_eq!(second.files[1], first.files[1]);
    assert_ne!(second.files[0], first.files[0]);
    tick();
    fs::set_permissions(repo.root.join("b.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_ne!(marks().files[1], first.files[1]);
    fs::remove_file(repo.root.join("a.txt")).unwrap();
    assert_eq!(marks().files.len(), 1);
}
