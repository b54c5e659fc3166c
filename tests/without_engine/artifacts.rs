//! Who can write ARTIFACT_DIR: what lies there is believed, so no other user may have put it there.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::harness::{Act, Done};

/// Some other user.
const SOMEBODY: u32 = 4321;

/// A repository whose ARTIFACT_DIR holds a store.
fn used() -> Act {
    let act = Act::new().pipeline("image", &[("test", "true")]);
    act.clone().act(["queue"]).status(0);
    act
}

/// Returns the directories and files that are checked, from the outermost.
fn trusted(act: &Act) -> Vec<PathBuf> {
    let names = ["runs", "cache", "state", "state/act.db"];
    let inside = names.map(|name| act.artifacts().join(name));
    [act.artifacts()].into_iter().chain(inside).collect()
}

#[track_caller]
fn foreign(done: Done, place: &Path, holder: &str) {
    let place = place.to_str().unwrap();
    done.status(1)
        .stdout("")
        .stderr_has(&format!("{place} can be written by others: it has {holder}"))
        .stderr_has("hint: set AGENT_ARTIFACT_DIR to a directory of your own")
        .stderr_has("chown -R");
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// ARTIFACT-30, STORE-1, security lines 125 and 138.
#[test]
fn what_belongs_to_another_user_is_refused_with_owner_mode_and_cure() {
    if !rustix::process::geteuid().is_root() {
        act_core::testing::skip("files of another user need root");
        return;
    }
    let act = used();
    for place in trusted(&act) {
        let mode = mode_of(&place);
        chown(&place, Some(SOMEBODY), None).unwrap();
        let holder = format!("the owner {SOMEBODY} and the mode {mode:04o}");
        for command in [&["queue"][..], &["verify"], &["history"]] {
            let act = act.clone().script("turns: []").without_engine();
            foreign(act.act(command.iter().copied()), &place, &holder);
        }
        let refused = act.clone().act(["queue", "--json"]).status(1);
        assert_eq!(refused.json()["code"], "artifact_dir_foreign");
        let doctor = act.clone().without_engine().act(["doctor"]);
        assert!(doctor.stdout_text().contains("can be written by others"), "{doctor}");
        chown(&place, Some(0), None).unwrap();
    }
    act.act(["queue"]).status(0);
}

/// ARTIFACT-30: another file that lies in `state/`, whatever its name, is one that act could believe some day.
#[test]
fn any_file_of_another_user_in_state_is_refused() {
    if !rustix::process::geteuid().is_root() {
        act_core::testing::skip("files of another user need root");
        return;
    }
    let act = used();
    for name in ["audit.jsonl", "act.db-wal", "journal"] {
        let planted = act.artifacts().join("state").join(name);
        let _ = fs::remove_file(&planted);
        let _ = fs::remove_dir_all(&planted);
        fs::write(&planted, "").unwrap();
        set_mode(&planted, 0o600);
        chown(&planted, Some(SOMEBODY), None).unwrap();
        let holder = format!("the owner {SOMEBODY} and the mode 0600");
        foreign(act.clone().act(["queue"]), &planted, &holder);
        fs::remove_file(&planted).unwrap();
    }
}

/// ARTIFACT-30
#[test]
fn what_others_can_write_is_closed_and_said_once() {
    let act = used();
    for place in trusted(&act) {
        for mode in [0o770, 0o707, 0o777] {
            set_mode(&place, mode);
            let text = format!("could be written by others (mode {mode:04o})");
            let closed = act.clone().act(["queue"]).status(0);
            let said = format!("{} {text}", place.display());
            assert_eq!(closed.stderr_text().matches(&said).count(), 1, "{closed}");
            assert_eq!(mode_of(&place) & 0o022, 0, "{place:?}");
            act.clone().act(["queue"]).status(0).stderr_lacks("could be written by others");
        }
    }
}

/// ARTIFACT-30: a name in a directory that everybody can write may lead elsewhere in the next moment; in one like `/tmp` only
/// its owner can change it.
#[test]
fn directories_above_may_be_sticky_and_no_more() {
    let act = used();
    let above = act.repo().parent().unwrap().join("shared");
    let place = above.join("artifacts");
    fs::create_dir(&above).unwrap();
    let act = act.env("AGENT_ARTIFACT_DIR", &place);
    set_mode(&above, 0o777);
    let refused = act.clone().act(["queue"]);
    let owner = rustix::process::geteuid().as_raw();
    foreign(refused, &above, &format!("the owner {owner} and the mode 0777"));
    assert!(!place.join("state").exists());
    for mode in [0o1777, 0o755, 0o775] {
        set_mode(&above, mode);
        act.clone().act(["queue"]).status(0).stderr_lacks("written by others");
        assert_eq!(mode_of(&above), mode);
    }
    // The directory itself may be like /tmp, where others cannot replace what is ours.
    set_mode(&above, 0o1777);
    let act = act.env("AGENT_ARTIFACT_DIR", &above);
    act.clone().act(["queue"]).status(0).stderr_lacks("written by others");
    assert_eq!(mode_of(&above), 0o1777);
}

/// ARTIFACT-30: an access list lets another user write although the mode of the group does not mean a group.
#[cfg(target_os = "linux")]
#[test]
fn an_access_list_does_not_let_others_write_any_more() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    const NAME: &str = "system.posix_acl_access";
    const MASK: u8 = 0x10;
    let act = used();
    let runs = act.artifacts().join("runs");
    // Version 2; then tag, permissions and id of the owner, user 4321, the group, the mask and the others.
    let any = u32::MAX;
    let entries =
        [(1u16, 7u16, any), (2, 7, SOMEBODY), (4, 0, any), (MASK.into(), 7, any), (0x20, 0, any)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    if setxattr(&runs, NAME, &list, XattrFlags::empty()).is_err() {
        act_core::testing::skip("the file system has no access lists");
        return;
    }
    act.clone().act(["queue"]).status(0).stderr_has("runs could be written by others (mode 0770)");
    let mut now = [0u8; 256];
    let length = getxattr(&runs, NAME, &mut now).unwrap();
    let mask = now[4..length].chunks(8).find(|entry| entry[0] == MASK).unwrap();
    assert_eq!(mask[2], 5, "the mask of the list has lost the permission to write");
}
