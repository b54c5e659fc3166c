//! The policy of the machine's administrator only takes away.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{approve, components, need, packed, scout, without_engine};

#[test]
fn the_administrator_takes_away_and_what_he_did_not_write_does_not_count() {
    // CAPABILITY-19, CAPABILITY-23
    let act = without_engine();
    let policy = act.repo().parent().unwrap().join("policy.toml");
    let write = |text: &str, mode: u32| {
        fs::write(&policy, text).unwrap();
        fs::set_permissions(&policy, fs::Permissions::from_mode(mode)).unwrap();
    };
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "probe", &[]).status(0);
    let act = act.env("ACT_POLICY_FILE", &policy);
    write("deny = [\"repo.read\"]\n", 0o644);
    let told = act.clone().act(["scout", "probe", "x"]).status(1);
    told.stderr_has("needs `repo.read`, which the administrator's policy.toml does not allow");
    let told = act.clone().act(components(["why", "probe", "answer.txt", "--json"])).status(1);
    let answer = told.document("components-why");
    let no: Vec<_> = answer["parties"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|says| says["allows"] == false)
        .collect();
    assert_eq!(no, [&json!({"party": "ceiling", "allows": false})], "{answer}");
    write("", 0o666);
    act.clone().act(["scout", "probe", "x"]).status(1).stderr_has("policy.toml has mode 0666");
    write("\ndenny = []\n", 0o644);
    act.clone()
        .act(["scout", "probe", "x"])
        .status(1)
        .stderr_has("policy.toml:2:1: unknown field `denny`");
    write("allow_unpinned_images = false\n", 0o644);
    let act = act.pipeline("busybox:stable", &[("test", "true")]);
    act.clone().script("turns: []").act(["run", "x"]).status(1).stderr_has("not pinned by digest");
    act.act(["verify"]).status(1).stderr_has("not pinned by digest");
}

/// CAPABILITY-23, security line 41: a policy that somebody else could have put there, or that nobody can read, stops
/// everything; it is never taken for none.
#[test]
fn a_policy_that_cannot_be_trusted_is_not_taken_for_none() {
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "probe", &[]).status(0);
    let etc = act.repo().parent().unwrap().join("etc");
    fs::create_dir(&etc).unwrap();
    let (policy, real) = (etc.join("policy.toml"), etc.join("real.toml"));
    let act = act.env("ACT_POLICY_FILE", &policy).script("turns: []");
    let act = act.pipeline("busybox:stable", &[("test", "true")]);
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::write(&real, "").unwrap();
    let text = |text: &[u8], access: u32| {
        fs::write(&policy, text).unwrap();
        mode(&policy, access);
    };
    let attacks: [(&dyn Fn(), &str); 9] = [
        (&|| symlink(&real, &policy).unwrap(), "is a symbolic link"),
        (&|| symlink("/nonexistent", &policy).unwrap(), "is a symbolic link"),
        (&|| text(b"", 0o664), "has mode 0664"),
        (
            &|| assert!(Command::new("mkfifo").arg(&policy).status().unwrap().success()),
            "is not a regular file",
        ),
        (&|| fs::create_dir(&policy).unwrap(), "is not a regular file"),
        (&|| text(&[b'#'; (1 << 20) + 1], 0o644), "is larger than 1048576 bytes"),
        (&|| text(b"# \xff\n", 0o644), "is not UTF-8 text"),
        (&|| mode(&etc, 0o777), "lies in a directory that others can write"),
        (
            &|| {
                fs::rename(&etc, etc.with_extension("away")).unwrap();
                symlink("nowhere", &etc).unwrap();
            },
            "is behind a broken link",
        ),
    ];
    for (attack, says) in attacks {
        attack();
        for words in
            [&["scout", "probe", "batch-list"][..], &["run", "x"], &["verify"], &["components"]]
        {
            act.clone().act(words.iter().copied()).status(1).stderr_has(says);
            let told = act.clone().act(words.iter().chain(&["--json"]).copied()).status(1);
            assert_eq!(told.json()["code"], "grants_untrusted", "{told}");
        }
        let _ = fs::remove_dir(&policy).or_else(|_| fs::remove_file(&policy));
        if etc.is_dir() {
            mode(&etc, 0o700);
        }
    }
    let log = fs::read_to_string(act.audit_log()).unwrap();
    assert!(!log.contains("component_loaded"), "{log}");
    fs::remove_file(&etc).unwrap();
    act.act(["scout", "probe", "batch-list"]).status(0);
}
