use std::fs;

use super::*;
use crate::testing::Fixture;
use crate::view::{Profile, ViewError};

fn paths(entries: &Entries) -> Vec<&str> {
    entries.items.iter().map(|entry| entry.path.as_str()).collect()
}

fn everything(view: &RepoView, want: &Selection, limit: usize) -> (Vec<String>, usize) {
    let (mut all, mut cursor, mut pages) = (vec![], None, 0);
    loop {
        let page = list(view, want, cursor.as_deref(), limit).unwrap();
        assert!(page.items.len() <= limit);
        all.extend(page.items.into_iter().map(|entry| entry.path));
        pages += 1;
        match page.next {
            Some(next) => cursor = Some(next),
            None => return (all, pages),
        }
    }
}

fn select(under: &[&str], globs: &[&str], kinds: &[Kind]) -> Selection {
    let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    Selection { under: own(under), globs: own(globs), kinds: kinds.to_vec() }
}

fn repo() -> Fixture {
    let repo = Fixture::new(&[
        ("a/b/deep.rs", "12345"),
        ("a/b.rs", "1"),
        ("a-b/x.rs", ""),
        ("z.md", ""),
        (".env", "secret"),
        ("node_modules/m/index.js", ""),
        (".gitignore", "*.log\n"),
        ("a/x.log", ""),
    ]);
    repo.link("a", "link");
    repo
}

#[test]
fn the_files_are_those_that_a_listing_names() {
    for profile in [Profile::Scout, Profile::Tool] {
        for view in repo().views(profile) {
            let (listed, _) = everything(&view, &select(&[], &[], &[Kind::File]), 2);
            let found = files(&view).unwrap();
            assert_eq!(found, listed.into_iter().collect());
            assert!(found.contains("a/b/deep.rs") && !found.contains(".env"));
        }
    }
}

#[test]
fn entries_come_in_path_order_with_links_as_links_and_without_what_is_excluded() {
    for view in repo().views(Profile::Scout) {
        let all = list(&view, &Selection::default(), None, 100).unwrap();
        let expected =
            [".gitignore", "a", "a/b", "a/b/deep.rs", "a/b.rs", "a-b", "a-b/x.rs", "link", "z.md"];
        assert_eq!(paths(&all), expected);
        assert_eq!((all.next.as_deref(), all.truncated), (None, false));
        let of = |path: &str| all.items.iter().find(|entry| entry.path == path).unwrap();
        assert_eq!((of("a/b/deep.rs").kind, of("a/b/deep.rs").size), (Kind::File, 5));
        assert_eq!((of("link").kind, of("link").size), (Kind::Link, 0));
        assert_eq!(of("a").kind, Kind::Directory);
    }
}

#[test]
fn every_page_size_gives_the_same_whole() {
    let repo = repo();
    for view in repo.views(Profile::Scout) {
        for want in [Selection::default(), select(&["a-b", "a/b", "z.md", "a"], &[], &[])] {
            let (whole, _) = everything(&view, &want, 100);
            for limit in 1..=whole.len() {
                assert_eq!(
                    everything(&view, &want, limit),
                    (whole.clone(), whole.len().div_ceil(limit)),
                    "{limit}"
                );
            }
        }
    }
}

#[test]
fn a_listing_goes_on_when_its_last_entry_is_gone() {
    let repo = repo();
    let view = repo.view(Profile::Scout);
    let first = list(&view, &Selection::default(), None, 4).unwrap();
    assert_eq!(first.next.as_deref(), Some("a/b/deep.rs"));
    fs::remove_dir_all(repo.root.join("a")).unwrap();
    fs::write(repo.root.join("a"), "now a file").unwrap();
    let rest = list(&view, &Selection::default(), first.next.as_deref(), 100).unwrap();
    assert_eq!(paths(&rest), ["a-b", "a-b/x.rs", "link", "z.md"]);
}

#[test]
fn a_selection_narrows_by_place_glob_and_kind() {
    let repo = repo();
    let view = repo.view(Profile::Scout);
    let of = |want: &Selection| everything(&view, want, 100).0;
    assert_eq!(
        of(&select(&["a", "a/b", "z.md"], &[], &[Kind::File])),
        ["a/b/deep.rs", "a/b.rs", "z.md"]
    );
    assert_eq!(
        of(&select(&["link"], &[], &[Kind::File])),
        ["a/b/deep.rs", "a/b.rs"],
        "through a link, by its real name"
    );
    assert_eq!(of(&select(&[], &["*.rs"], &[])), ["a/b/deep.rs", "a/b.rs", "a-b/x.rs"]);
    assert_eq!(of(&select(&[], &["a/*.rs"], &[])), ["a/b.rs"]);
    assert_eq!(of(&select(&[], &[], &[Kind::Link])), ["link"]);
    let hidden = list(&view, &select(&[".env"], &[], &[]), None, 10).unwrap_err();
    assert!(matches!(hidden, SelectionError::View(ViewError::Excluded { .. })));
    assert!(matches!(
        list(&view, &select(&[], &["["], &[]), None, 10),
        Err(SelectionError::Glob(_))
    ));
    assert!(matches!(
        list(&view, &Selection::default(), Some(""), 10),
        Err(SelectionError::Invalid(_))
    ));
}

// security line 12
#[test]
fn a_huge_directory_comes_in_bounded_pages() {
    let repo = Fixture::new(&[]);
    let dir = fs::File::open(&repo.root).unwrap();
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    for number in 0..60_000 {
        rustix::fs::openat(&dir, format!("{number:06}"), flags, 0o600.into()).unwrap();
    }
    let view = repo.view(Profile::Scout);
    let none = select(&[], &["no-such-name"], &[]);
    let page = list(&view, &none, None, 10).unwrap();
    assert!(page.items.is_empty() && page.next.is_some(), "a call that finds nothing ends as well");
    let (all, pages) = everything(&view, &Selection::default(), MAX_ENTRIES);
    assert_eq!((all.len(), pages), (60_000, 12));
    assert!(all.is_sorted());
}

// security line 12
#[test]
fn deep_nesting_is_cut_and_the_answer_says_so() {
    let repo = Fixture::new(&[("near", "n")]);
    let mut at = std::os::fd::OwnedFd::from(fs::File::open(&repo.root).unwrap());
    for _ in 0..2_000 {
        rustix::fs::mkdirat(&at, "d", 0o700.into()).unwrap();
        at = rustix::fs::openat(&at, "d", rustix::fs::OFlags::DIRECTORY, 0o700.into()).unwrap();
    }
    for view in repo.views(Profile::Scout) {
        let answer = list(&view, &Selection::default(), None, MAX_ENTRIES).unwrap();
        assert!(answer.truncated && answer.next.is_none());
        assert!(answer.items.len() < 300 && answer.items.iter().any(|entry| entry.path == "near"));
    }
}

#[test]
fn a_call_that_names_too_many_paths_is_refused() {
    let repo = Fixture::new(&[("d/x", ""), ("e/y", "")]);
    let view = repo.view(Profile::Scout);
    let under = |count: usize| Selection { under: vec!["d".into(); count], ..Selection::default() };
    let refused = list(&view, &under(257), None, 10).unwrap_err();
    assert!(matches!(refused, SelectionError::Invalid(why) if why.contains("256")), "{refused}");
    assert_eq!(list(&view, &under(256), None, 10).unwrap().items.len(), 1);
}

#[test]
fn a_named_directory_is_opened_when_its_turn_comes_and_judged_again() {
    let repo = Fixture::new(&[("d/x", ""), ("e/y", ""), ("f/z", "")]);
    let view = repo.view(Profile::Scout);
    let under = ["d", "e", "f"].map(String::from).to_vec();
    let mut walk =
        SelectionWalk::new(&view, &Selection { under, ..Selection::default() }, None).unwrap();
    std::fs::remove_dir_all(repo.root.join("d")).unwrap();
    std::fs::remove_dir_all(repo.root.join("e")).unwrap();
    repo.link("../outside", "e");
    let mut seen = vec![];
    while let Step::Item(item) = walk.step().unwrap() {
        seen.push(item.path);
    }
    assert_eq!(seen, ["f/z"], "nothing of them was held open meanwhile");
}

#[test]
fn a_window_moves_over_a_directory_of_any_size_without_losing_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = vec![];
    for number in 0..57 {
        let name = format!("{:03}", (number * 31) % 57);
        std::fs::write(dir.path().join(&name), "").unwrap();
        expected.push(name.into_bytes());
    }
    expected.sort();
    let handle = std::fs::File::open(dir.path()).unwrap();
    let mut seen: Vec<Vec<u8>> = vec![];
    loop {
        let from = seen.last().map_or(Bound::Unbounded, |last| Bound::Excluded(last.as_slice()));
        let part =
            scan(Some(&handle), &OverlayNames::new(), from, 10, &StopCheck::default()).unwrap();
        assert!(part.names.len() <= 10 && !part.cut);
        seen.extend(part.names.into_iter().map(|(name, _)| name));
        if !part.more {
            break;
        }
    }
    assert_eq!(seen, expected);
}

// WORKSPACE-6, security line 326
#[cfg(target_os = "linux")]
#[test]
fn a_listing_without_a_name_that_is_not_utf8_says_that_it_is_not_whole() {
    use std::os::unix::ffi::OsStrExt;
    let repo = Fixture::new(&[("plain", "x"), ("node_modules/x", "x")]);
    let odd = std::ffi::OsStr::from_bytes(b"odd-\xff");
    fs::write(repo.root.join("node_modules").join(odd), "x").unwrap();
    for view in repo.views(Profile::Scout) {
        let hidden = list(&view, &Selection::default(), None, 10).unwrap();
        assert_eq!((paths(&hidden), hidden.truncated), (vec!["plain"], false));
    }
    fs::write(repo.root.join(odd), "x").unwrap();
    for view in repo.views(Profile::Scout) {
        let without = list(&view, &Selection::default(), None, 10).unwrap();
        assert_eq!((paths(&without), without.truncated), (vec!["plain"], true));
    }
}

// WORKSPACE-6
#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf8_are_counted_once_over_all_pages() {
    use std::os::unix::ffi::OsStrExt;
    let repo = Fixture::new(&[("a/one", "x"), ("a/two", "x"), ("b/three", "x"), ("z", "x")]);
    let odd = |path: &[u8]| repo.root.join(std::ffi::OsStr::from_bytes(path));
    // Some come first, some last, some between two pages; one is a directory with files below it.
    for path in [&b"\x80first"[..], b"a/\xfflast", b"a/one\xff", b"b/\xff.rs", b"\xffz"] {
        fs::write(odd(path), "x").unwrap();
    }
    fs::create_dir(odd(b"b/\xfedir")).unwrap();
    fs::write(odd(b"b/\xfedir/below"), "x").unwrap();
    let count = |view: &RepoView, want: &Selection, limit: usize| {
        let (mut count, mut cursor, mut given) = (0, None, 0);
        loop {
            let page = list(view, want, cursor.as_deref(), limit).unwrap();
            assert!(!page.cut && page.truncated == (page.not_utf8 > 0), "{page:?}");
            (count, given) = (count + page.not_utf8, given + page.items.len());
            cursor = page.next;
            if cursor.is_none() {
                return (count, given);
            }
        }
    };
    let files = Selection { kinds: vec![Kind::File], ..Selection::default() };
    let links = Selection { kinds: vec![Kind::Link], ..Selection::default() };
    let below = Selection { under: vec!["a".into()], ..Selection::default() };
    let named = Selection { globs: vec!["*.rs".into()], ..files.clone() };
    for view in repo.views(Profile::Scout) {
        for limit in [1, 2, 3, 100] {
            assert_eq!(count(&view, &files, limit), (6, 4), "{limit}");
            assert_eq!(count(&view, &links, limit), (1, 0), "{limit}");
            assert_eq!(count(&view, &below, limit).0, 2, "{limit}");
            assert_eq!(count(&view, &named, limit), (1, 0), "{limit}");
        }
    }
}

#[test]
fn every_file_of_a_long_answer_has_its_own_size() {
    let root = tempfile::tempdir().unwrap();
    for directory in 0..40 {
        let path = root.path().join(format!("d{directory:02}"));
        fs::create_dir(&path).unwrap();
        for file in 0..20 {
            let text = "x".repeat(directory * 20 + file);
            fs::write(path.join(format!("f{file:02}")), text).unwrap();
        }
        std::os::unix::fs::symlink("f00", path.join("link")).unwrap();
    }
    let view = RepoView::open(root.path(), Profile::Scout).unwrap();
    let listed = list(&view, &Selection::default(), None, MAX_ENTRIES).unwrap();
    assert!(listed.items.len() > 3 * BEFORE_THREAD);
    for Entry { path, kind, size } in listed.items {
        let number = |part: &str| part[1..].parse::<u64>().unwrap();
        let expected = match (kind, path.split_once('/')) {
            (Kind::File, Some((directory, file))) => number(directory) * 20 + number(file),
            _ => 0,
        };
        assert_eq!(size, expected, "{path}");
    }
}
