//! WORKSPACE-55: an edit preserves the metadata of a file.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::*;
use crate::testing::Fixture;
use crate::{Blob, Change, ProposedFile, RepoWriter, WriteRules};

const NOTE: &str = "user.note";

fn writer(repo: &Fixture) -> RepoWriter {
    RepoWriter::open(&repo.root, WriteRules::default()).unwrap()
}

fn edit(writer: &RepoWriter, path: &str) -> Result<(), crate::EditError> {
    let expect = writer.version(path).unwrap().unwrap();
    let change = Change::Replace { path: path.into(), expect, bytes: b"changed".to_vec() };
    writer.apply(&[change], &|| false).map(drop)
}

fn get(path: &Path, name: &str) -> Option<Vec<u8>> {
    value(File::open(path).unwrap(), &CString::new(name).unwrap()).unwrap()
}

/// Returns whether this file system has extended attributes.
fn set(path: &Path, name: &str, value: &[u8]) -> bool {
    match rustix::fs::setxattr(path, name, value, XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => {
            act_core::testing::skip(format_args!("the file system has no {name}"));
            false
        }
        done => {
            done.unwrap();
            true
        }
    }
}

#[test]
fn the_words_of_a_user_are_kept_and_what_was_granted_to_the_old_bytes_is_not() {
    for open in [writer as fn(&Fixture) -> RepoWriter, |repo| writer(repo).without_exchange()] {
        let repo = Fixture::new(&[("a", "one")]);
        let file = repo.root.join("a");
        if !set(&file, NOTE, b"mine") {
            return;
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        // The capability to bind any port.
        let capability = [2_u32 << 24, 1 << 10, 0, 0, 0].map(u32::to_le_bytes).concat();
        let granted = "security.capability";
        // On other systems this is an ordinary attribute.
        let root = cfg!(target_os = "linux")
            && rustix::fs::setxattr(&file, granted, &capability, XattrFlags::empty()).is_ok();
        assert!(!root || get(&file, granted).is_some());
        edit(&open(&repo), "a").unwrap();
        assert_eq!(repo.text("a"), "changed");
        assert_eq!(get(&file, NOTE).as_deref(), Some(&b"mine"[..]));
        assert_eq!(get(&file, granted), None);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
    }
}

#[test]
fn more_words_than_are_carried_stand_in_nobodys_way() {
    let repo = Fixture::new(&[("a", "one")]);
    let file = repo.root.join("a");
    let names = (0..MAX_ATTRIBUTES + 20).map(|number| format!("user.{number}"));
    // The file system may allow fewer attributes.
    let kept = |name: &String| rustix::fs::setxattr(&file, name, b"x", XattrFlags::empty()).is_ok();
    let names: Vec<_> = names.take_while(kept).collect();
    edit(&writer(&repo), "a").unwrap();
    let left = names.iter().filter(|name| get(&file, name).is_some()).count();
    assert_eq!(left, names.len().min(MAX_ATTRIBUTES));
}

#[test]
fn whoever_is_of_another_group_gains_nothing() {
    let told = |mode| for_another_group(mode);
    assert_eq!([0o664, 0o640, 0o604, 0o755, 0o777].map(told), [0o644, 0o600, 0o600, 0o755, 0o777]);
}

#[test]
fn owner_and_group_are_kept() {
    let repo = Fixture::new(&[("a", "one")]);
    let file = repo.root.join("a");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    if !rustix::process::geteuid().is_root() {
        act_core::testing::skip("only root gives files away");
        return;
    }
    std::os::unix::fs::chown(&file, Some(1234), Some(4321)).unwrap();
    edit(&writer(&repo), "a").unwrap();
    let meta = fs::metadata(&file).unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (1234, 4321, 0o640));
}

#[cfg(target_os = "linux")]
mod lists_of_access {
    use super::*;

    const LIST: &str = "system.posix_acl_access";
    const OF_NEW_FILES: &str = "system.posix_acl_default";

    /// An access list: the owner may read and write, user 65533 may read, and all others may do nothing, the group
    /// included.
    fn list() -> Vec<u8> {
        let nobody = u32::MAX;
        let entries: [(u16, u16, u32); 5] =
            [(1, 6, nobody), (2, 4, 65533), (4, 0, nobody), (16, 4, nobody), (32, 0, nobody)];
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(rights.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn they_are_kept() {
        for open in [writer as fn(&Fixture) -> RepoWriter, |repo| writer(repo).without_exchange()] {
            let repo = Fixture::new(&[("a", "one")]);
            let file = repo.root.join("a");
            if !set(&file, LIST, &list()) {
                return;
            }
            assert_eq!(
                fs::metadata(&file).unwrap().mode() & 0o777,
                0o640,
                "the mask, not the group"
            );
            edit(&open(&repo), "a").unwrap();
            assert_eq!(get(&file, LIST), Some(list()));
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        }
    }

    #[test]
    fn a_file_without_one_gets_none_from_its_directory() {
        let repo = Fixture::new(&[("a", "one")]);
        fs::set_permissions(repo.root.join("a"), fs::Permissions::from_mode(0o644)).unwrap();
        if !set(&repo.root, OF_NEW_FILES, &list()) {
            return;
        }
        let writer = writer(&repo);
        edit(&writer, "a").unwrap();
        assert_eq!(get(&repo.root.join("a"), LIST), None);
        let new = Change::Create { path: "new".into(), bytes: vec![] };
        writer.apply(&[new], &|| false).unwrap();
        assert!(get(&repo.root.join("new"), LIST).is_some(), "a new file is what the system makes");
    }

    #[test]
    fn one_that_cannot_be_kept_refuses_the_write() {
        let repo = Fixture::new(&[("a", "one")]);
        let file = File::open(repo.root.join("a")).unwrap();
        let mut like = Metadata::of(&file).unwrap();
        like.apply_to(&file).unwrap();
        like.access = vec![Some(b"no list at all".to_vec()), None];
        let refused = like.apply_to(&file).unwrap_err().to_string();
        assert!(refused.contains("its access list (system.posix_acl_access)"), "{refused}");
    }

    /// WORKSPACE-52: a file that a dry run moved is made anew when the proposal is applied.
    #[test]
    fn a_moved_file_of_a_proposal_keeps_its_own() {
        let repo = Fixture::new(&[("old", "one")]);
        if !set(&repo.root.join("old"), LIST, &list()) {
            return;
        }
        let blob = |text: &str| Some(Blob::new(text.as_bytes(), 0o640));
        let file = |path: &str, from: Option<&str>, before, after| {
            let from = from.map(str::to_owned);
            ProposedFile { path: path.into(), from, before, after }
        };
        let files =
            [file("old", None, blob("one"), None), file("new", Some("old"), None, blob("two"))];
        writer(&repo).apply_proposal(&files, &|| false).unwrap();
        assert!(!repo.root.join("old").exists());
        assert_eq!(repo.text("new"), "two");
        assert_eq!(get(&repo.root.join("new"), LIST), Some(list()));
    }
}
