use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

// security line 64
#[test]
fn a_linked_agent_directory_is_the_users_and_nothing_is_written_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("repo"), dir.path().join("outside"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, root.join("agent")).unwrap();
    assert_eq!(NotesDir::check(&root), Ok(".act"));
    symlink(&outside, root.join(".act")).unwrap();
    let taken = || NotesError::BothTaken { root: root.clone() };
    assert_eq!(NotesDir::check(&root), Err(taken()));
    assert_eq!(NotesDir::open(&root).map(|_| ()), Err(taken()));
    assert!(names(&outside).is_empty());
    fs::remove_file(root.join("agent")).unwrap();
    fs::write(root.join("agent"), "a file").unwrap();
    assert_eq!(NotesDir::check(&root), Err(taken()));
    fs::remove_file(root.join(".act")).unwrap();
    NotesDir::open(&root).unwrap().replace("summary.md", b"x").unwrap();
    assert_eq!(names(&root.join(".act")), ["summary.md"]);
}

// security line 64
#[test]
fn a_directory_swapped_for_a_link_between_check_and_open_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("repo"), dir.path().join("outside"));
    fs::create_dir_all(root.join("agent")).unwrap();
    fs::create_dir(&outside).unwrap();
    NotesDir::check(&root).unwrap();
    fs::rename(root.join("agent"), root.join("was")).unwrap();
    symlink(&outside, root.join("agent")).unwrap();
    assert_eq!(NotesDir::open(&root).unwrap().name(), ".act");
    assert!(names(&outside).is_empty());

    // The name is swapped after the directory was opened: files are written into the open directory.
    fs::remove_file(root.join("agent")).unwrap();
    fs::rename(root.join("was"), root.join("agent")).unwrap();
    let agent = NotesDir::open(&root).unwrap();
    fs::rename(root.join("agent"), root.join("was")).unwrap();
    symlink(&outside, root.join("agent")).unwrap();
    agent.create_new("context_001.md", b"x").unwrap();
    agent.replace("summary.md", b"x").unwrap();
    agent.replace_with_link("context_latest.md", "context_001.md").unwrap();
    assert!(names(&outside).is_empty());
    assert_eq!(names(&root.join("was")), ["context_001.md", "context_latest.md", "summary.md"]);
}

#[test]
fn a_check_makes_nothing_and_an_open_makes_the_directory() {
    let root = tempfile::tempdir().unwrap();
    NotesDir::check(root.path()).unwrap();
    assert!(names(root.path()).is_empty());
    NotesDir::open(root.path()).unwrap();
    let agent = NotesDir::open(root.path()).unwrap();
    assert_eq!(names(root.path()), ["agent"]);
    agent.hide_from_git().unwrap();
    fs::write(root.path().join("agent/.gitignore"), "the user's").unwrap();
    agent.hide_from_git().unwrap();
    assert_eq!(fs::read(root.path().join("agent/.gitignore")).unwrap(), b"the user's");
}

// security line 65
#[test]
fn names_that_a_clone_took_lead_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("repo"), dir.path().join("outside"));
    fs::create_dir_all(root.join("agent")).unwrap();
    fs::write(&outside, "the user's").unwrap();
    for name in ["context_latest.md", "summary.md", "context_001.md"] {
        symlink(&outside, root.join("agent").join(name)).unwrap();
    }
    symlink("nowhere", root.join("agent/context_002.md")).unwrap();
    let agent = NotesDir::open(&root).unwrap();

    let exists = |name: &str| Err(NotesError::Exists { name: name.into() });
    assert_eq!(agent.create_new("context_001.md", b"x"), exists("context_001.md"));
    assert_eq!(agent.create_new("context_002.md", b"x"), exists("context_002.md"));
    agent.create_new("context_003.md", b"third").unwrap();
    assert_eq!(agent.create_new("context_003.md", b"again"), exists("context_003.md"));
    agent.replace_with_link("context_latest.md", "context_003.md").unwrap();
    agent.replace("summary.md", b"done").unwrap();

    assert_eq!(fs::read_to_string(&outside).unwrap(), "the user's");
    assert_eq!(fs::read_to_string(root.join("agent/context_latest.md")).unwrap(), "third");
    assert_eq!(
        fs::read_link(root.join("agent/context_latest.md")).unwrap(),
        Path::new("context_003.md")
    );
    assert!(!fs::symlink_metadata(root.join("agent/summary.md")).unwrap().is_symlink());
    assert_eq!(fs::read(root.join("agent/summary.md")).unwrap(), b"done");
    assert_eq!(names(&root.join("agent")).len(), 5, "no temporary file is left");
}

// security line 65
#[test]
fn a_directory_where_the_latest_link_belongs_is_named_and_kept() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("agent/context_latest.md/inner")).unwrap();
    let agent = NotesDir::open(root.path()).unwrap();
    agent.create_new("context_001.md", b"first").unwrap();
    let occupied = Err(NotesError::Occupied { dir: "agent", name: "context_latest.md".into() });
    assert_eq!(agent.replace_with_link("context_latest.md", "context_001.md"), occupied);
    assert_eq!(agent.replace("context_latest.md", b"x"), occupied);
    assert!(root.path().join("agent/context_latest.md/inner").is_dir());
    assert_eq!(names(&root.path().join("agent")), ["context_001.md", "context_latest.md"]);
}

#[test]
fn only_plain_names_are_taken() {
    let root = tempfile::tempdir().unwrap();
    let agent = NotesDir::open(root.path()).unwrap();
    for name in ["", ".", "..", "../x", "a/b", "a\0b", "/x"] {
        assert!(agent.create_new(name, b"x").is_err(), "{name:?}");
        assert!(agent.replace(name, b"x").is_err(), "{name:?}");
        assert!(agent.replace_with_link("ok", name).is_err(), "{name:?}");
    }
    assert!(names(&root.path().join("agent")).is_empty());
}

// security line 65
#[test]
fn what_is_read_is_a_regular_file_of_the_directory_and_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    assert!(NotesDir::open_existing(root).unwrap().is_none());
    assert!(!root.join("agent").exists(), "looking makes nothing");
    fs::create_dir(root.join("agent")).unwrap();
    fs::write(root.join("outside"), "secret").unwrap();
    fs::write(root.join("agent/summary.md"), "0123456789").unwrap();
    fs::create_dir(root.join("agent/context_001.md")).unwrap();
    symlink(root.join("outside"), root.join("agent/context_latest.md")).unwrap();
    let fifo = root.join("agent/stuck_report.md");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let agent = NotesDir::open_existing(root).unwrap().unwrap();
    assert_eq!(agent.read("summary.md", 4).unwrap().unwrap(), b"0123");
    assert_eq!(agent.read("missing", 4), Ok(None));
    for name in ["context_latest.md", "stuck_report.md", "context_001.md", "../outside", ""] {
        assert!(agent.read(name, 4).is_err(), "{name}");
    }
}

fn of(root: &Path) -> Option<&'static str> {
    notes_dir(root).unwrap()
}

#[test]
fn what_earlier_tasks_left_is_known_at_the_root_alone() {
    // WORKSPACE-7
    for path in ["agent", "agent/summary.md", "Agent/stuck_report.md", "AGENT"] {
        assert!(is_in_notes(path, Some("agent")), "{path}");
        assert!(!is_in_notes(path, Some(".act")) && !is_in_notes(path, None), "{path}");
    }
    for path in ["src/agent/mod.rs", "agent.yaml", "agents/a.md", "agent.rs", ".act/x"] {
        assert!(!is_in_notes(path, Some("agent")), "{path}");
    }
}

// WORKSPACE-57
#[test]
fn a_directory_is_ours_when_it_holds_nothing_but_notes() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    assert_eq!(of(root), Some("agent"));
    fs::create_dir(root.join("agent")).unwrap();
    assert_eq!(of(root), Some("agent"));
    let ours = [
        "context_001.md",
        "context_123456.md",
        "context_latest.md",
        "summary.md",
        "stuck_report.md",
        ".gitignore",
        ".act-write-0123456789abcdef.tmp",
    ];
    for name in ours {
        fs::write(root.join("agent").join(name), "x").unwrap();
        assert_eq!(of(root), Some("agent"), "{name}");
    }
    for name in ["new.py", "context_1.md", "context_0000001.md", "summary.txt", "Summary.md"] {
        fs::write(root.join("agent").join(name), "x").unwrap();
        assert_eq!(of(root), Some(".act"), "{name}");
        fs::remove_file(root.join("agent").join(name)).unwrap();
    }
    fs::write(root.join("agent/new.py"), "x").unwrap();
    fs::create_dir(root.join(".act")).unwrap();
    assert_eq!(of(root), Some(".act"));
    fs::write(root.join(".act/settings"), "x").unwrap();
    assert_eq!(of(root), None, "both are the user's");
}

// WORKSPACE-57, security line 64
#[test]
fn a_link_a_file_and_the_directory_of_another_owner_are_never_ours() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("repo");
    fs::create_dir(&root).unwrap();
    fs::create_dir(dir.path().join("outside")).unwrap();
    symlink(dir.path().join("outside"), root.join("agent")).unwrap();
    assert_eq!(of(&root), Some(".act"));
    fs::remove_file(root.join("agent")).unwrap();
    symlink("nowhere", root.join("agent")).unwrap();
    assert_eq!(of(&root), Some(".act"));
    fs::remove_file(root.join("agent")).unwrap();
    fs::write(root.join("agent"), "a file").unwrap();
    assert_eq!(of(&root), Some(".act"));
    fs::remove_file(root.join("agent")).unwrap();
    fs::create_dir(root.join("agent")).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(root.join("agent"), Some(12345), None).unwrap();
        assert_eq!(of(&root), Some(".act"));
    }
}

// WORKSPACE-57
#[test]
fn a_directory_with_a_tracked_file_is_the_users_whatever_its_name() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let git = |arguments: &[&str]| {
        let done = Command::new("git").args(arguments).current_dir(root).status().unwrap();
        assert!(done.success(), "{arguments:?}");
    };
    git(&["init", "-q"]);
    fs::create_dir(root.join("agent")).unwrap();
    fs::write(root.join("agent/stuck_report.md"), "x").unwrap();
    assert_eq!(of(root), Some("agent"));
    git(&["add", "-f", "agent/stuck_report.md"]);
    assert_eq!(of(root), Some(".act"));
}

#[test]
fn the_line_is_added_once_and_nothing_else_changes() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join(".gitignore");
    for (before, after) in [
        (None, "/agent/\n"),
        (Some(""), "/agent/\n"),
        (Some("target\n"), "target\n/agent/\n"),
        (Some("target"), "target\n/agent/\n"),
        (Some("a\r\nb\r\n"), "a\r\nb\r\n/agent/\n"),
    ] {
        let _ = fs::remove_file(&file);
        before.inspect(|text| fs::write(&file, text).unwrap());
        assert_eq!(add_gitignore_line(root.path(), "agent"), Ok(true));
        assert_eq!(add_gitignore_line(root.path(), "agent"), Ok(false));
        assert_eq!(fs::read_to_string(&file).unwrap(), after);
        let before = before.unwrap_or_default();
        assert!(hides_only_notes(before, after));
        for other in [format!("{after}x\n"), format!("!y\n{after}"), before.to_owned()] {
            assert!(!hides_only_notes(before, &other), "{other:?}");
        }
    }
    for there in ["/agent\n", "x\nagent/  \r\n", "agent"] {
        fs::write(&file, there).unwrap();
        assert_eq!(add_gitignore_line(root.path(), "agent"), Ok(false));
        assert_eq!(fs::read_to_string(&file).unwrap(), there);
    }
}

// WORKSPACE-32
#[test]
fn nothing_is_written_where_a_rule_hides_the_directory_or_the_user_has_undone_the_line() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join(".gitignore");
    for there in ["ag*\n", "agent/\n!agent/\n", "/agent/\n"] {
        fs::write(&file, there).unwrap();
        let entry = add_gitignore_line(root.path(), "agent");
        assert_eq!(entry, Ok(false), "{there}");
        assert_eq!(fs::read_to_string(&file).unwrap(), there);
    }
    assert_eq!(add_gitignore_line(root.path(), ".act"), Ok(true));
    assert_eq!(fs::read_to_string(&file).unwrap(), "/agent/\n/.act/\n");
}

// WORKSPACE-32
#[test]
fn directories_that_the_unanchored_line_hides_are_named() {
    let root = tempfile::tempdir().unwrap();
    for directory in ["agent", "src/agent/agent", "src/agents", "lib/deep/agent", "target/agent"] {
        fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    let file = root.path().join(".gitignore");
    fs::write(&file, "target/\n/agent/\n").unwrap();
    assert!(hidden_by_unanchored_line(root.path()).is_empty());
    for line in ["agent/", "agent"] {
        fs::write(&file, format!("target/\n{line}\n")).unwrap();
        let hidden = hidden_by_unanchored_line(root.path());
        assert_eq!(hidden, ["lib/deep/agent", "src/agent"]);
    }
}

// security line 65
#[test]
fn a_link_a_shared_file_and_a_directory_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("repo"), dir.path().join("profile"));
    fs::create_dir(&root).unwrap();
    fs::write(&outside, "PATH=x").unwrap();
    let file = root.join(".gitignore");

    symlink(&outside, &file).unwrap();
    assert_eq!(add_gitignore_line(&root, "agent"), Err(NotesError::ForeignGitignore));
    fs::remove_file(&file).unwrap();
    symlink(dir.path().join("new"), &file).unwrap();
    assert_eq!(add_gitignore_line(&root, "agent"), Err(NotesError::ForeignGitignore));
    assert!(!dir.path().join("new").exists());
    fs::remove_file(&file).unwrap();
    fs::hard_link(&outside, &file).unwrap();
    assert_eq!(add_gitignore_line(&root, "agent"), Err(NotesError::ForeignGitignore));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(add_gitignore_line(&root, "agent"), Err(NotesError::ForeignGitignore));
    assert_eq!(fs::read_to_string(&outside).unwrap(), "PATH=x");
}

#[test]
fn a_fifo_does_not_hang() {
    let root = tempfile::tempdir().unwrap();
    let fifo = root.path().join(".gitignore");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    assert_eq!(add_gitignore_line(root.path(), "agent"), Err(NotesError::ForeignGitignore));
}
