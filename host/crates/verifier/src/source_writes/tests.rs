use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use tokio_util::sync::CancellationToken;

use super::*;
use crate::copy_view;
use act_workspace::PathGlobs;

struct Tried {
    _dirs: [tempfile::TempDir; 2],
    view: std::path::PathBuf,
    watch: TreeDiff,
    /// The same for an engine that archives the copy.
    elsewhere: TreeDiff,
}

/// A small repository, its copy, and the watches between them.
fn tried() -> Tried {
    let (repo, view) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |path: &str| repo.path().join(path);
    fs::create_dir_all(at("src/deep")).unwrap();
    fs::create_dir_all(at("build")).unwrap();
    for file in ["src/a.rs", "src/deep/b.rs", "build/config.js", "top", "gen.env"] {
        fs::write(at(file), file).unwrap();
    }
    fs::write(at(".gitignore"), "*.env\nlogs/\n").unwrap();
    symlink("top", at("link")).unwrap();
    let include = PathGlobs::new(&["gen.env".to_owned()]).unwrap();
    let set = || CopySet::of(repo.path(), &include).unwrap();
    let handle = || OwnedFd::from(fs::File::open(view.path()).unwrap());
    let mut into = copy_view::Directory::new(handle());
    let tree = copy_view::copy(&set(), &mut into, &CancellationToken::new()).unwrap();
    let watch = TreeDiff::new(set(), tree.clone(), Backing::Copy(handle())).unwrap();
    let elsewhere = TreeDiff::new(set(), tree, Backing::Remote).unwrap();
    Tried { view: view.path().to_owned(), _dirs: [repo, view], watch, elsewhere }
}

/// As an engine sends it.
fn archived(view: &Path) -> Vec<u8> {
    let mut archive = tar::Builder::new(vec![]);
    archive.follow_symlinks(false);
    archive.append_dir_all("tree", view).unwrap();
    archive.into_inner().unwrap()
}

/// Whether it is looked at here or fetched, the same is found.
fn told_both(tried: &mut Tried) -> Vec<String> {
    let fetched = tried.elsewhere.look_into(&archived(&tried.view)[..]).unwrap();
    let looked = tried.watch.look().unwrap();
    assert_eq!(fetched, looked);
    looked.told.into_iter().map(|write| format!("{} {}", write.change, write.path)).collect()
}

fn told(watch: &mut TreeDiff) -> Vec<String> {
    let writes = watch.look().unwrap();
    writes.told.into_iter().map(|write| format!("{} {}", write.change, write.path)).collect()
}

// VERIFIER-25
#[test]
fn changed_deleted_and_new_sources_are_told_once() {
    let mut tried = tried();
    assert_eq!(told_both(&mut tried), Vec::<String>::new());
    fs::write(tried.view.join("src/a.rs"), "src/A.rs").unwrap();
    fs::remove_dir_all(tried.view.join("src/deep")).unwrap();
    fs::create_dir_all(tried.view.join("tests/__snapshots__")).unwrap();
    fs::write(tried.view.join("tests/__snapshots__/a.snap"), "x").unwrap();
    fs::write(tried.view.join("build/config.js"), "x").unwrap();
    fs::remove_file(tried.view.join("link")).unwrap();
    symlink("elsewhere", tried.view.join("link")).unwrap();
    assert_eq!(
        told_both(&mut tried),
        [
            "changed build/config.js",
            "changed link",
            "changed src/a.rs",
            "deleted src/deep/b.rs",
            "new tests/__snapshots__/a.snap",
        ]
    );
    assert_eq!(told_both(&mut tried), Vec::<String>::new(), "a later step is not blamed");
    fs::remove_file(tried.view.join("top")).unwrap();
    assert_eq!(told_both(&mut tried), ["deleted top"]);
}

// VERIFIER-25
#[test]
fn touched_ignored_and_built_files_are_no_writes() {
    let mut tried = tried();
    let at = |path: &str| tried.view.join(path);
    fs::write(at("src/a.rs"), "src/a.rs").unwrap();
    fs::set_permissions(at("top"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(at("gen.env"), "made anew").unwrap();
    for file in [
        "logs/x",
        "other.env",
        "node_modules/dep/index.js",
        "src/pkg.egg-info/PKG-INFO",
        "target/debug/x",
        "build/out.js",
        "Cargo.lock",
        "src/__pycache__/a.pyc",
        ".coverage",
        ".git/index",
    ] {
        fs::create_dir_all(at(file).parent().unwrap()).unwrap();
        fs::write(at(file), "x").unwrap();
    }
    fs::create_dir(at("empty")).unwrap();
    assert_eq!(told_both(&mut tried), Vec::<String>::new());
}

// VERIFIER-25
#[test]
fn an_executable_bit_and_a_kept_time_do_not_hide_a_change() {
    let mut tried = tried();
    let top = tried.view.join("top");
    let before = fs::metadata(&top).unwrap().modified().unwrap();
    fs::write(&top, "pot").unwrap();
    fs::File::options().write(true).open(&top).unwrap().set_modified(before).unwrap();
    let a = tried.view.join("src/a.rs");
    fs::set_permissions(a, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(told_both(&mut tried), ["changed src/a.rs", "changed top"]);
}

#[test]
fn a_fifo_or_a_directory_in_a_files_place_is_a_change_and_blocks_nobody() {
    let mut tried = tried();
    let (top, link) = (tried.view.join("top"), tried.view.join("link"));
    fs::remove_file(&top).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&top).status().unwrap().success());
    fs::remove_file(&link).unwrap();
    fs::create_dir(&link).unwrap();
    assert_eq!(told_both(&mut tried), ["deleted link", "changed top"]);
}

#[test]
fn many_writes_are_told_in_part_and_counted() {
    let mut tried = tried();
    for number in 0..MOST + 7 {
        fs::write(tried.view.join(format!("new-{number:04}")), "").unwrap();
    }
    let writes = tried.watch.look().unwrap();
    assert_eq!((writes.told.len(), writes.more), (MOST, 7));
    let text = listed(&writes);
    assert!(text.starts_with("new-0000 (new), ") && text.ends_with("and 197 more"), "{text}");
}

/// An upper layer as the kernel writes it, made by hand; deletions need root and are left to the container
/// tests.
#[test]
fn an_upper_layer_tells_of_changed_and_new_files_and_of_replaced_directories() {
    let mut tried = tried();
    let upper = tempfile::tempdir().unwrap();
    let at = |path: &str| upper.path().join(path);
    fs::create_dir_all(at("src/deep")).unwrap();
    fs::write(at("src/a.rs"), "src/a.rs").unwrap();
    fs::write(at("src/new.rs"), "x").unwrap();
    fs::write(at("top"), "x").unwrap();
    let deep = fs::File::open(at("src/deep")).unwrap();
    let opaque =
        rustix::fs::fsetxattr(&deep, "user.overlay.opaque", b"y", rustix::fs::XattrFlags::empty());
    tried.watch.place = Backing::OverlayUpper(fs::File::open(upper.path()).unwrap().into());
    tried.watch.stamps.clear();
    let mut expected = vec!["changed top", "new src/new.rs"];
    if opaque.is_ok() {
        expected.insert(0, "deleted src/deep/b.rs");
    }
    let mut found = told(&mut tried.watch);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

// VERIFIER-33
#[test]
fn a_hard_link_in_an_archive_counts_as_what_it_leads_to() {
    let mut tried = tried();
    let mut told = |original: &str| {
        let mut archive = tar::Builder::new(vec![]);
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(original.len() as u64);
        archive.append_data(&mut header, "tree/node_modules/x", original.as_bytes()).unwrap();
        let files = ["build/config.js", "src/deep/b.rs", "top"].map(|path| (path, path));
        for (path, text) in files.into_iter().chain([(".gitignore", "*.env\nlogs/\n")]) {
            header.set_size(text.len() as u64);
            archive.append_data(&mut header, format!("tree/{path}"), text.as_bytes()).unwrap();
        }
        header.set_size(0);
        header.set_entry_type(tar::EntryType::Link);
        archive.append_link(&mut header, "tree/src/a.rs", "tree/node_modules/x").unwrap();
        header.set_entry_type(tar::EntryType::Symlink);
        archive.append_link(&mut header, "tree/link", "top").unwrap();
        let archive = archive.into_inner().unwrap();
        tried.elsewhere.look_into(&archive[..]).unwrap().told
    };
    assert_eq!(told("src/a.rs"), []);
    assert_eq!(told("src/A.rs").len(), 1);
    // An archive without its end says nothing of what is missing.
    assert!(tried.elsewhere.look_into(&archived(&tried.view)[..512]).is_err());
}
