//! Compiled code that is not what this program made for these bytes is compiled again, and nothing of it runs.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::{approve, need, packed, scout, sha256_of, without_engine};
use crate::harness::Act;

const NOBODY: u32 = 65534;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns whether `act scout NAME` had to compile; it must answer in any case.
fn compiles(act: &Act, name: &str) -> bool {
    let told = act.clone().script("turns: []").act(["scout", name, "batch-list"]).status(0);
    told.stderr_text().contains("Compiled component")
}

/// Files of compiled code, under temporary names as well.
fn all(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.to_str().unwrap().contains(".cwasm")).collect()
}

/// The one of the component in `wasm`.
fn code(dir: &Path, wasm: &Path) -> PathBuf {
    let is_of = |path: &PathBuf| path.to_str().unwrap().contains(&sha256_of(wasm));
    all(dir).into_iter().find(is_of).unwrap()
}

/// Security line 43, CAPABILITY-17: whatever replaces the compiled code, the approved bytes run.
#[test]
fn security_line_43_code_that_others_could_have_put_there_is_not_run() {
    let act = without_engine();
    let around = act.repo().parent().unwrap().to_owned();
    let act = act.env("XDG_CACHE_HOME", around.join("cache"));
    let dir = around.join("cache/agent-command-tool/components");
    let kept = [("probe", "1"), ("other", "2")].map(|(name, version)| {
        let manifest = scout(version, &[need("repo.read")]);
        let path = packed(&act, &format!("../{name}.wasm"), &manifest);
        approve(&act, &path, name, &[]).status(0);
        compiles(&act, name);
        code(&dir, &path)
    });
    let [probe, other] = kept;
    assert!(!compiles(&act, "probe"));
    let (whole, valid) = (fs::read(&probe).unwrap(), fs::read(&other).unwrap());
    let elsewhere = around.join("elsewhere");
    let root = rustix::process::geteuid().is_root();
    let put = |bytes: &[u8]| fs::write(&probe, bytes).unwrap();
    let attacks: [(&str, bool, &dyn Fn()); 8] = [
        ("the valid code of another component", false, &|| put(&valid)),
        ("cut off", false, &|| put(&whole[..whole.len() / 2])),
        ("empty", false, &|| put(b"")),
        ("a link", false, &|| {
            fs::rename(&probe, &elsewhere).unwrap();
            symlink(&elsewhere, &probe).unwrap();
        }),
        ("writable by others", false, &|| mode(&probe, 0o666)),
        ("of another user", true, &|| chown(&probe, Some(NOBODY), None).unwrap()),
        ("a hard link to a file of another user", true, &|| {
            fs::rename(&probe, &elsewhere).unwrap();
            chown(&elsewhere, Some(NOBODY), None).unwrap();
            fs::hard_link(&elsewhere, &probe).unwrap();
        }),
        ("a directory", false, &|| {
            fs::remove_file(&probe).unwrap();
            fs::create_dir(&probe).unwrap();
        }),
    ];
    for (what, needs_root, attack) in attacks {
        if needs_root && !root {
            continue;
        }
        attack();
        let linked = fs::read(&elsewhere).ok();
        assert!(compiles(&act, "probe"), "{what}");
        assert_eq!(fs::read(&elsewhere).ok(), linked, "{what}: not written through");
        if probe.is_dir() {
            // Nothing takes its place, and nothing runs from it.
            assert!(compiles(&act, "probe"), "{what}");
            fs::remove_dir(&probe).unwrap();
            assert!(compiles(&act, "probe"), "{what}");
        }
        let ours = fs::symlink_metadata(&probe).unwrap();
        assert!(ours.is_file() && ours.mode() & 0o777 == 0o600 && ours.nlink() == 1, "{what}");
        assert_eq!(ours.uid(), rustix::process::geteuid().as_raw(), "{what}");
        assert!(!compiles(&act, "probe"), "{what}: it is ours again");
        let _ = fs::remove_file(&elsewhere);
    }
    // A directory that others can write is never believed, and nothing is put there.
    for (what, mine, attack) in [("open", 0o777, None), ("of another user", 0o700, Some(NOBODY))] {
        if attack.is_some() && !root {
            continue;
        }
        mode(&dir, mine);
        chown(&dir, attack, None).unwrap();
        let before = all(&dir);
        assert!(compiles(&act, "probe") && compiles(&act, "probe"), "{what}");
        assert_eq!(all(&dir), before, "{what}");
        mode(&dir, 0o700);
        chown(&dir, Some(rustix::process::geteuid().as_raw()), None).unwrap();
    }
    assert!(!compiles(&act, "probe"));
}
