//! WORKSPACE-50: what reads and edits through a dry run cannot tell it from a repository.

use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;
use crate::testing::Fixture;
use crate::{
    Change, FollowLinks, Handle, Pattern, Profile, RepoView, RepoWriter, Selection, Slice, Version,
    WriteRules, list, patch, read, search,
};

struct Dry {
    fixture: Fixture,
    overlay: Overlay,
    writer: RepoWriter,
}

fn dry(files: &[(&str, &str)]) -> Dry {
    let fixture = Fixture::new(files);
    let overlay = Overlay::default();
    let rules = WriteRules::default();
    let writer = RepoWriter::open_dry(&fixture.root, rules, overlay.clone()).unwrap();
    Dry { fixture, overlay, writer }
}

fn real(files: &[(&str, &str)]) -> (Fixture, RepoWriter) {
    let fixture = Fixture::new(files);
    let rules = WriteRules::default();
    let writer = RepoWriter::open(&fixture.root, rules).unwrap();
    (fixture, writer)
}

fn create(path: &str, text: &str) -> Change {
    Change::Create { path: path.into(), bytes: text.into() }
}

fn version(writer: &RepoWriter, path: &str) -> Version {
    let unknown = || Version { number: 1, digest: "0".repeat(64) };
    writer.version(path).ok().flatten().unwrap_or_else(unknown)
}

fn replace(writer: &RepoWriter, path: &str, text: &str) -> Change {
    Change::Replace { path: path.into(), expect: version(writer, path), bytes: text.into() }
}

fn delete(writer: &RepoWriter, path: &str) -> Change {
    Change::Delete { path: path.into(), expect: version(writer, path) }
}

fn rename(writer: &RepoWriter, from: &str, to: &str) -> Change {
    Change::Move { from: from.into(), expect: version(writer, from), to: to.into() }
}

fn apply(writer: &RepoWriter, change: Change) -> Result<(), EditError> {
    writer.apply(&[change], &|| false).map(|_| ())
}

/// All that a reader can learn: names, sizes, contents and versions.
fn seen(view: &RepoView, writer: &RepoWriter) -> Vec<String> {
    let all = list(view, &Selection::default(), None, 1000).unwrap();
    let mut seen = vec![];
    for entry in all.items {
        let want = Slice { path: entry.path.clone(), with_version: true, ..Slice::default() };
        let held = read(view, &want, Some(writer.versions()));
        let held = held.map(|chunk| (chunk.bytes, chunk.size, chunk.version));
        let held = held.map_err(|error| error.to_string());
        seen.push(format!("{} {:?} {} {held:?}", entry.path, entry.kind, entry.size));
    }
    let pattern = Pattern { regex: "[a-z]".into(), ..Pattern::default() };
    let hits = search(view, &pattern, &Selection::default(), None).unwrap();
    seen.extend(hits.items.iter().map(|hit| format!("{hit:?}")));
    seen
}

#[test]
fn edits_are_read_listed_and_found_and_the_repository_stays() {
    let Dry { fixture, writer, .. } = dry(&[("a.txt", "one\n"), ("src/b.txt", "two\n")]);
    fixture.link("src", "link");
    let before = Fixture::picture(&fixture.root);
    apply(&writer, replace(&writer, "a.txt", "uno\n")).unwrap();
    apply(&writer, create("new/deep/c.txt", "three\n")).unwrap();
    apply(&writer, delete(&writer, "src/b.txt")).unwrap();
    apply(&writer, create("src/d.txt", "four\n")).unwrap();
    for view in [writer.view().clone(), writer.view().clone().without_openat2()] {
        let names: Vec<_> = list(&view, &Selection::default(), None, 100).unwrap().items;
        let names: Vec<_> = names.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(
            names,
            ["a.txt", "link", "new", "new/deep", "new/deep/c.txt", "src", "src/d.txt"]
        );
        let text = |path: &str| {
            let want = Slice { path: path.into(), ..Slice::default() };
            read(&view, &want, None).map(|chunk| String::from_utf8(chunk.bytes).unwrap())
        };
        assert_eq!(text("a.txt").unwrap(), "uno\n");
        assert_eq!(text("new/../new/deep/c.txt").unwrap(), "three\n");
        assert_eq!(text("link/d.txt").unwrap(), "four\n", "through a link of the repository");
        assert!(text("src/b.txt").is_err() && text("new/other").is_err());
        let under = Selection { under: vec!["new".into()], ..Selection::default() };
        assert_eq!(list(&view, &under, None, 100).unwrap().items.len(), 2);
        let pattern = Pattern { regex: "uno|three|two".into(), ..Pattern::default() };
        let hits = search(&view, &pattern, &Selection::default(), None).unwrap().items;
        let paths: Vec<_> = hits.iter().map(|hit| hit.path.as_str()).collect();
        assert_eq!(paths, ["a.txt", "new/deep/c.txt"]);
    }
    assert_eq!(Fixture::picture(&fixture.root), before);
}

#[test]
fn a_reader_of_another_profile_sees_the_same_edits() {
    let Dry { fixture, overlay, writer } = dry(&[("a.txt", "one\n")]);
    let scout = fixture.view(Profile::Scout).over(&overlay);
    apply(&writer, create("b.txt", "two\n")).unwrap();
    let names: Vec<_> = list(&scout, &Selection::default(), None, 10).unwrap().items;
    assert_eq!(
        names.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(),
        ["a.txt", "b.txt"]
    );
}

// WORKSPACE-51
#[test]
fn what_is_no_text_is_refused() {
    let Dry { fixture, writer, .. } = dry(&[]);
    fixture.write("blob", b"a\0b");
    let refused = |change| apply(&writer, change).unwrap_err().word();
    assert_eq!(refused(create("new", "a\0b")), Some("binary"));
    for change in [
        delete(&writer, "blob"),
        rename(&writer, "blob", "other"),
        replace(&writer, "blob", "text"),
    ] {
        assert_eq!(refused(change), Some("binary"));
    }
    assert!(writer.changed().is_empty());
}

fn copied_up(overlay: &Overlay, path: &str) -> Version {
    let version = Version { number: 3, digest: digest(b"old") };
    overlay.copy_up(path, b"old".to_vec(), NEW_FILE, version.clone()).unwrap();
    version
}

// FOREIGN-9
#[test]
fn only_what_differs_in_the_end_is_a_change_and_it_expects_what_was_read() {
    let overlay = Overlay::default();
    let expect = copied_up(&overlay, "same");
    copied_up(&overlay, "other");
    overlay.write_at("other", Some(1), b"LD!").unwrap();
    overlay.create_file("new").unwrap();
    overlay.write_at("new", None, b"x").unwrap();
    overlay.create_file("brief").unwrap();
    overlay.remove("brief").unwrap();
    copied_up(&overlay, "removed");
    overlay.remove("removed").unwrap();
    overlay.create_directory("empty").unwrap();
    assert_eq!(
        overlay.changes(),
        [
            Change::Delete { path: "removed".to_owned(), expect: expect.clone() },
            Change::Create { path: "new".to_owned(), bytes: b"x".to_vec() },
            Change::Replace { path: "other".to_owned(), expect, bytes: b"oLD!".to_vec() },
        ]
    );
}

// FOREIGN-9: a file that was removed and created again is a change of the file that was there
#[test]
fn a_file_that_is_written_anew_replaces_the_one_that_was_there() {
    let overlay = Overlay::default();
    let expect = copied_up(&overlay, "a");
    overlay.remove("a").unwrap();
    overlay.create_file("a").unwrap();
    overlay.write_at("a", None, b"new").unwrap();
    let bytes = b"new".to_vec();
    assert_eq!(overlay.changes(), [Change::Replace { path: "a".to_owned(), expect, bytes }]);
}

// FOREIGN-10
#[test]
fn it_is_bounded_in_bytes_and_names_and_gives_back_what_is_let_go() {
    let overlay = Overlay::default();
    for path in ["a", "b"] {
        overlay.create_file(path).unwrap();
    }
    overlay.set_size("a", MAX_BYTES as u64 - 10).unwrap();
    assert_eq!(overlay.set_size("b", 11), Err(OverlayFull));
    overlay.set_size("b", 10).unwrap();
    assert_eq!(overlay.write_at("b", None, b"x"), Err(OverlayFull));
    assert_eq!(overlay.write_at("b", Some(u64::MAX), b"x"), Err(OverlayFull));
    assert_eq!(overlay.set_size("b", u64::MAX), Err(OverlayFull));
    overlay.set_size("a", 0).unwrap();
    overlay.write_at("b", Some(100), b"x").unwrap();
    assert_eq!(overlay.read_at("b", 99, 10).unwrap(), b"\0x");
    overlay.remove("b").unwrap();
    assert_eq!(overlay.layer().bytes, 0);
    let held = overlay.layer().entries.len();
    for i in held..MAX_ENTRIES {
        overlay.create_file(&format!("n{i}")).unwrap();
    }
    // A rename that finds no room changes nothing.
    overlay.write_at("n20", None, b"x").unwrap();
    assert_eq!(overlay.rename("n20", "more"), Err(OverlayFull));
    assert_eq!(overlay.read_at("n20", 0, 9).unwrap(), b"x");
    overlay.rename("n20", "n21").unwrap();
    assert!(matches!(overlay.lookup("n20"), Lookup::Nothing));
    assert_eq!(overlay.read_at("n21", 0, 9).unwrap(), b"x");
    assert_eq!(overlay.layer().bytes, 1);
    assert_eq!(overlay.create_file("more"), Err(OverlayFull));
    assert_eq!(overlay.create_directory("more"), Err(OverlayFull));
}

#[test]
fn below_what_is_gone_or_new_nothing_shows_through() {
    let overlay = Overlay::default();
    overlay.remove("d").unwrap();
    assert!(matches!(overlay.lookup("d/x"), Lookup::Nothing));
    overlay.create_directory("d").unwrap();
    assert!(matches!(overlay.lookup("d"), Lookup::Directory));
    assert!(matches!(overlay.lookup("d/x"), Lookup::Nothing));
    assert!(matches!(overlay.lookup("dx"), Lookup::Lower));
    overlay.create_file("d/y").unwrap();
    assert_eq!(overlay.names("d"), BTreeMap::from([(b"y".to_vec(), Some(Kind::File))]));
}

// FOREIGN-9: the scratch copy of a component in a dry run
#[test]
fn a_branch_begins_with_the_overlay_and_its_changes_are_made_over_it() {
    let Dry { fixture, overlay, writer } = dry(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    apply(&writer, replace(&writer, "a.txt", "uno\n")).unwrap();
    let branch = overlay.branch();
    let view = writer.view().over(&branch);
    let text = |view: &RepoView| {
        let want = Slice { path: "a.txt".into(), ..Slice::default() };
        read(view, &want, None).unwrap().bytes
    };
    let bytes = text(&view);
    let version = version(&writer, "a.txt");
    assert_eq!((bytes.as_slice(), branch.read_at("a.txt", 0, 9)), (&b"uno\n"[..], None));
    branch.copy_up("a.txt", bytes, NEW_FILE, version).unwrap();
    branch.write_at("a.txt", None, b"due\n").unwrap();
    assert_eq!(branch.layer().bytes, 8, "the content of the file below is not held");
    assert_eq!((text(&view), text(writer.view())), (b"uno\ndue\n".into(), b"uno\n".into()));
    writer.apply(&branch.changes(), &|| false).unwrap();
    let [file] = overlay.files().try_into().unwrap();
    assert_eq!(*file.before.unwrap().bytes, *b"one\n");
    assert_eq!(*file.after.unwrap().bytes, *b"uno\ndue\n");
    assert_eq!(fixture.text("a.txt"), "one\n");
}

// FOREIGN-9: a deletion needs the version of the file and not its content
#[test]
fn a_large_file_below_is_removed_without_a_copy_and_replaced_by_what_takes_its_name() {
    let fixture = Fixture::new(&[]);
    let file = std::fs::File::create(fixture.root.join("large")).unwrap();
    file.set_len(MAX_BYTES as u64 + 1).unwrap();
    let overlay = Overlay::default();
    let view = fixture.view(Profile::Tool).over(&overlay);
    let writer = RepoWriter::open(&fixture.root, WriteRules::default()).unwrap();
    let expect = crate::version(&view, "large", Some(writer.versions())).unwrap();
    overlay.remove_unchanged("large", expect.clone()).unwrap();
    assert_eq!(overlay.layer().bytes, 0);
    let gone = Change::Delete { path: "large".to_owned(), expect: expect.clone() };
    assert_eq!(overlay.changes(), [gone]);
    overlay.create_file("large").unwrap();
    overlay.write_at("large", None, b"x").unwrap();
    let bytes = b"x".to_vec();
    assert_eq!(overlay.changes(), [Change::Replace { path: "large".into(), expect, bytes }]);
    overlay.remove("large").unwrap();
    writer.apply(&overlay.changes(), &|| false).unwrap();
    assert!(!fixture.root.join("large").exists());
}

#[test]
fn a_look_up_shares_the_content_of_a_file() {
    let overlay = Overlay::default();
    let fixture = Fixture::new(&[]);
    overlay.create_file("a").unwrap();
    overlay.write_at("a", None, b"content").unwrap();
    let view = fixture.view(Profile::Tool).over(&overlay);
    let content = || match view.resolve("", "a", FollowLinks::No).unwrap().handle {
        Handle::Overlay(bytes) => bytes,
        Handle::Real(_) => panic!("it is in the overlay alone"),
    };
    let first = content();
    assert!(Arc::ptr_eq(&first, &content()));
    overlay.write_at("a", Some(0), b"C").unwrap();
    assert_eq!((first.as_slice(), content().as_slice()), (&b"content"[..], &b"Content"[..]));
}

// FOREIGN-10: the entries of the dry run are bounded by its own writer
#[test]
fn the_entries_that_a_branch_began_with_take_no_room_in_it() {
    let overlay = Overlay::default();
    for i in 0..MAX_ENTRIES {
        overlay.create_file(&format!("n{i}")).unwrap();
    }
    let branch = overlay.branch();
    for i in 0..MAX_ENTRIES {
        branch.create_file(&format!("m{i}")).unwrap();
    }
    assert_eq!(branch.create_file("more"), Err(OverlayFull));
}

#[derive(Debug, Clone)]
enum Step {
    Create(usize, usize),
    Replace(usize, usize),
    Delete(usize),
    Move(usize, usize),
}

const PATHS: [&str; 6] = ["a", "b c", "d/e", "d/e/f", "g/h", "a/x"];
const TEXTS: [&str; 6] = ["", "x", "x\n", "one\ntwo\nthree\n", "one\r\ntwo\r\n", "one\ntwo\né"];

fn step() -> impl Strategy<Value = Step> {
    let (path, text) = (0..PATHS.len(), 0..TEXTS.len());
    prop_oneof![
        (path.clone(), text.clone()).prop_map(|(path, text)| Step::Create(path, text)),
        (path.clone(), text).prop_map(|(path, text)| Step::Replace(path, text)),
        path.clone().prop_map(Step::Delete),
        (path.clone(), path).prop_map(|(from, to)| Step::Move(from, to)),
    ]
}

fn change(writer: &RepoWriter, step: &Step) -> Change {
    match step {
        Step::Create(path, text) => create(PATHS[*path], TEXTS[*text]),
        Step::Replace(path, text) => replace(writer, PATHS[*path], TEXTS[*text]),
        Step::Delete(path) => delete(writer, PATHS[*path]),
        Step::Move(from, to) => rename(writer, PATHS[*from], PATHS[*to]),
    }
}

fn git(root: &std::path::Path, arguments: &[&str], stdin: &[u8]) -> Result<(), String> {
    use std::io::Write;
    let mut child = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", root.parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    let out = child.wait_with_output().unwrap();
    match out.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
    }
}

/// Files and their bytes; directories come and go with them.
fn files(root: &std::path::Path) -> Vec<(String, String)> {
    let all = Fixture::picture(root).into_iter().filter(|(_, holds)| holds != "/");
    all.map(|(path, holds)| (path.strip_prefix(root).unwrap().display().to_string(), holds))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// WORKSPACE-50, WORKSPACE-52, WORKSPACE-53: whatever is done, a dry run answers and shows the same as the
    /// repository itself would; its patch and its proposal both lead there.
    #[test]
    fn a_dry_run_is_like_the_real_one(steps in prop::collection::vec(step(), 1..12)) {
        let before = [("a", "one\ntwo\n"), ("d/k", "kept\n"), ("g/h", "x")];
        let (real_place, real_writer) = real(&before);
        let Dry { fixture, overlay, writer } = dry(&before);
        let untouched = Fixture::picture(&fixture.root);
        for step in &steps {
            let mine = apply(&writer, change(&writer, step)).map_err(|error| error.to_string());
            let theirs =
                apply(&real_writer, change(&real_writer, step)).map_err(|error| error.to_string());
            prop_assert_eq!(mine, theirs, "{:?}", step);
            prop_assert_eq!(
                seen(writer.view(), &writer),
                seen(real_writer.view(), &real_writer),
                "{:?}", step
            );
        }
        prop_assert_eq!(writer.changed(), real_writer.changed());
        prop_assert_eq!(Fixture::picture(&fixture.root), untouched);

        let proposed = overlay.files();
        let wanted = files(&real_place.root);
        if !proposed.is_empty() {
            let text = patch(&proposed, b"");
            let copy = Fixture::new(&before);
            let taken = git(&copy.root, &["apply", "-"], &text);
            prop_assert_eq!(taken, Ok(()), "{}", String::from_utf8_lossy(&text));
            prop_assert_eq!(files(&copy.root), wanted.clone());
        }
        let (place, writer) = real(&before);
        writer.apply_proposal(&proposed, &|| false).unwrap();
        prop_assert_eq!(files(&place.root), wanted);
    }
}
