use super::*;
use crate::testing::Fixture;

fn slice(path: &str) -> Slice {
    Slice { path: path.into(), ..Slice::default() }
}

#[test]
fn a_slice_is_cut_at_the_files_end_and_knows_the_whole_size() {
    let repo = Fixture::new(&[("a", "0123456789")]);
    for view in repo.views(Profile::Scout) {
        let of = |offset, length| {
            let chunk = read(&view, &Slice { offset, length, ..slice("a") }, None).unwrap();
            assert_eq!((chunk.size, chunk.version), (10, None));
            String::from_utf8(chunk.bytes).unwrap()
        };
        assert_eq!(of(0, None), "0123456789");
        assert_eq!(of(3, Some(4)), "3456");
        assert_eq!(of(8, Some(100)), "89");
        assert_eq!(of(u64::MAX, Some(u64::MAX)), "");
        assert_eq!(of(0, Some(0)), "");
    }
}

#[test]
fn a_version_is_of_the_real_path_and_rises_with_changed_bytes() {
    let repo = Fixture::new(&[("a", "one")]);
    repo.link("a", "link");
    let (view, versions) = (repo.view(Profile::Tool), Versions::default());
    let versioned = |path| {
        let want = Slice { with_version: true, offset: 1, length: Some(1), ..slice(path) };
        let chunk = read(&view, &want, Some(&versions)).unwrap();
        assert_eq!((chunk.path.as_str(), chunk.bytes.len()), ("a", 1));
        chunk.version.unwrap()
    };
    assert_eq!(versioned("a"), Version { number: 1, digest: digest(b"one") });
    assert_eq!(versioned("link").number, 1);
    repo.write("a", "two");
    assert_eq!(versioned("link"), Version { number: 2, digest: digest(b"two") });
}

#[test]
fn a_scout_is_refused_a_binary_and_a_tool_gets_it() {
    let repo = Fixture::new(&[("a", "text\0more"), ("late", "")]);
    repo.write("late", [vec![b'x'; BINARY_PROBE], vec![0]].concat());
    let scout = repo.view(Profile::Scout);
    assert_eq!(read(&scout, &slice("a"), None), Err(ReadError::Binary { path: "a".into() }));
    let tail = Slice { offset: 6, ..slice("a") };
    assert_eq!(read(&scout, &tail, None), Err(ReadError::Binary { path: "a".into() }));
    read(&scout, &slice("late"), None).unwrap();
    assert_eq!(read(&repo.view(Profile::Tool), &slice("a"), None).unwrap().bytes, b"text\0more");
}

#[test]
fn a_large_file_is_read_in_parts_and_has_no_version() {
    let repo = Fixture::new(&[]);
    let size = MAX_READ + 5;
    std::fs::File::create(repo.root.join("big")).unwrap().set_len(size).unwrap();
    let view = repo.view(Profile::Tool);
    let chunk = read(&view, &slice("big"), None).unwrap();
    assert_eq!((chunk.bytes.len() as u64, chunk.size), (MAX_READ, size));
    let rest = read(&view, &Slice { offset: MAX_READ, ..slice("big") }, None).unwrap();
    assert_eq!(rest.bytes.len(), 5);
    let versioned = read(&view, &Slice { with_version: true, ..slice("big") }, None);
    assert_eq!(versioned, Err(ReadError::TooLarge { path: "big".into(), size }));
}

#[test]
fn a_directory_is_no_file() {
    let repo = Fixture::new(&[("d/a", "")]);
    let error = read(&repo.view(Profile::Scout), &slice("d"), None);
    assert_eq!(error, Err(ReadError::NotAFile { path: "d".into() }));
}

#[test]
fn a_version_rises_when_other_bytes_are_seen_and_with_every_write() {
    let versions = Versions::default();
    assert_eq!(versions.observe("a", "x").number, 1);
    assert_eq!(versions.observe("a", "x").number, 1);
    assert_eq!(versions.observe("a", "y").number, 2, "changed from outside");
    assert_eq!(versions.written("a", "z").number, 3);
    assert_eq!(versions.written("a", "z").number, 4, "the same bytes, written again");
    assert_eq!(versions.observe("b", "x").number, 1, "counted per file");
}

// VIEW: whatever was read before, a file has the same answer.
#[test]
fn a_reader_of_several_files_answers_as_for_each_alone() {
    let repo = Fixture::new(&[
        ("src/a.rs", "a"),
        ("src/b.rs", "b"),
        ("src/.env", "SECRET=1"),
        ("src/ignored.rs", "no"),
        ("src/binary", "text\0more"),
        ("src/deep/c.rs", "c"),
        (".gitignore", "ignored.rs\n"),
        (".env", "SECRET=2"),
        ("top.rs", "top"),
        ("other.rs", "other"),
    ]);
    repo.link("a.rs", "src/link.rs");
    repo.link("src", "linked");
    std::fs::hard_link(repo.root.join(".env"), repo.root.join("src/harmless.rs")).unwrap();
    let paths = [
        "src/a.rs",
        "src/b.rs",
        "src/.env",
        "src/ignored.rs",
        "src/binary",
        "src/deep",
        "src/link.rs",
        "src/harmless.rs",
        "src/missing",
        "src/",
        "src/.",
        "src/..",
        "src/a.rs/b",
        "src//a.rs",
        "src/deep/c.rs",
        "top.rs",
        "other.rs",
        ".env",
        "linked/a.rs",
        "linked/b.rs",
        "../a",
        "../b",
        "/etc/passwd",
        "/etc/hosts",
        "",
    ];
    for profile in [Profile::Scout, Profile::Tool] {
        for view in repo.views(profile) {
            let mut reader = Reader::new(&view);
            // Each path comes after each other one, and twice in turn.
            for first in paths {
                for path in paths.iter().flat_map(|path| [first, path, path]) {
                    let alone = read(&view, &slice(path), None);
                    assert_eq!(reader.read(&slice(path), None), alone, "{path:?} after {first:?}");
                }
            }
        }
    }
}
