use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;

use super::*;
use crate::reading::{Slice, read};
use crate::testing::Fixture;
use crate::view::{FollowLinks, Profile};

fn pattern(regex: &str) -> Pattern {
    Pattern { regex: regex.into(), ..Pattern::default() }
}

fn found(view: &RepoView, want: &Pattern) -> Vec<(String, u32, u32, String)> {
    let (mut all, mut cursor) = (vec![], None);
    loop {
        let page = search(view, want, &Selection::default(), cursor.as_deref()).unwrap();
        assert!(page.items.len() <= MAX_HITS);
        all.extend(page.items.into_iter().map(|hit| (hit.path, hit.line, hit.column, hit.text)));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return all,
        }
    }
}

fn hit(path: &str, line: u32, column: u32, text: &str) -> (String, u32, u32, String) {
    (path.into(), line, column, text.into())
}

#[test]
fn hits_are_one_based_lines_in_path_order_of_text_in_view() {
    let repo = Fixture::new(&[
        ("b.txt", "no\nhere is it\nhere here\n"),
        ("a/x.txt", "here\r\nend"),
        (".env", "here"),
        ("bin", "here\0"),
        ("ü.txt", "\u{fc} here"),
    ]);
    repo.link("b.txt", "link");
    for view in repo.views(Profile::Scout) {
        let expected = [
            hit("a/x.txt", 1, 1, "here"),
            hit("b.txt", 2, 1, "here is it"),
            hit("b.txt", 3, 1, "here here"),
            hit("ü.txt", 1, 4, "ü here"),
        ];
        assert_eq!(found(&view, &pattern("here")), expected);
        assert_eq!(found(&view, &pattern("HERE")), []);
        let folded = Pattern { ignore_case: true, ..pattern("HERE IS") };
        assert_eq!(found(&view, &folded), [hit("b.txt", 2, 1, "here is it")]);
    }
}

#[test]
fn a_match_stays_in_its_line_unless_it_may_span() {
    let repo = Fixture::new(&[("a", "one\n  two\nthree\n\nfour")]);
    let view = repo.view(Profile::Scout);
    assert_eq!(found(&view, &pattern(r"one\s+two")), []);
    assert_eq!(found(&view, &pattern(r"\s+two")), [hit("a", 2, 1, "  two")]);
    assert_eq!(found(&view, &pattern(r"^t|^$")), [hit("a", 3, 1, "three"), hit("a", 4, 1, "")]);
    assert_eq!(found(&view, &pattern(r"\Afour\z")), [hit("a", 5, 1, "four")]);
    let spanning = Pattern { multi_line: true, ..pattern(r"one\s+two|our") };
    assert_eq!(found(&view, &spanning), [hit("a", 1, 1, "one"), hit("a", 5, 2, "four")]);
}

#[test]
fn a_line_matches_by_itself_whatever_the_text_around_it_says() {
    let repo = Fixture::new(&[("crlf", "one\r\ntwo\r\n"), ("lf", "one\ntwo\n")]);
    let view = repo.view(Profile::Scout);
    let both = |line, text| [hit("crlf", line, 1, text), hit("lf", line, 1, text)];
    for at_end in [r"^one$", r"(?:one)$", r"\bone\b", r"\Aone", r"(?-m)^one"] {
        assert_eq!(found(&view, &pattern(at_end)), both(1, "one"), "{at_end}");
    }
    assert_eq!(found(&view, &pattern(r"two\z")), [hit("lf", 2, 1, "two")]);
    assert_eq!(found(&view, &pattern(r"two\r$")), [hit("crlf", 2, 1, "two")]);
    assert_eq!(found(&view, &pattern(r"one\stwo|[^x]two")), []);
}

#[test]
fn pages_lose_and_repeat_nothing() {
    let many = "x\ny\n".repeat(1_700);
    let repo = Fixture::new(&[("a", &many), ("b", "x\n"), ("c/d", &many)]);
    for view in repo.views(Profile::Scout) {
        let all = found(&view, &pattern("x"));
        assert_eq!(all.len(), 3_401);
        let lines = |path: &str| {
            all.iter().filter(|hit| hit.0 == path).map(|hit| hit.1).collect::<Vec<_>>()
        };
        let odd: Vec<u32> = (0..1_700).map(|n| 2 * n + 1).collect();
        assert_eq!((lines("a"), lines("b"), lines("c/d")), (odd.clone(), vec![1], odd));
    }
}

#[test]
fn a_long_line_is_cut_at_a_character() {
    let line = "ü".repeat(1_000);
    let repo = Fixture::new(&[("a", &line)]);
    let hits = found(&repo.view(Profile::Scout), &pattern("ü"));
    assert_eq!(hits[0].3, format!("{}…", "ü".repeat(MAX_HIT_BYTES / 2)));
    let repo = Fixture::new(&[("a", &format!("x{line}"))]);
    let hits = found(&repo.view(Profile::Scout), &pattern("ü"));
    assert_eq!(hits[0].3, format!("x{}…", "ü".repeat(MAX_HIT_BYTES / 2 - 1)));
    let whole = "x".repeat(MAX_HIT_BYTES);
    let repo = Fixture::new(&[("a", &whole)]);
    assert_eq!(found(&repo.view(Profile::Scout), &pattern("x"))[0].3, whole);
}

// WORKSPACE-16, EDIT-1, EDIT-3, EDIT-4
#[test]
fn a_hit_is_the_text_that_a_reader_of_the_file_sees() {
    let repo = Fixture::new(&[]);
    repo.write("a", b"\xef\xbb\xbffirst\ncaf\xe9\ncrlf\r\nlast\r");
    let view = repo.view(Profile::Scout);
    let bytes = read(&view, &Slice { path: "a".into(), ..Slice::default() }, None).unwrap().bytes;
    let document = edit_protocol::Document::parse(&bytes).unwrap();
    let lines: Vec<_> = document.lines.iter().map(|line| line.shown().into_owned()).collect();
    assert_eq!(lines, ["first", "caf\u{fffd}", "crlf", "last\r"]);
    for want in [pattern("."), Pattern { multi_line: true, ..pattern("(?-u:.)+") }] {
        let hits = found(&view, &want);
        assert_eq!(hits.iter().map(|hit| hit.3.clone()).collect::<Vec<_>>(), lines);
        assert!(hits.iter().map(|hit| (hit.1, hit.2)).eq((1..5).map(|line| (line, 1))), "{hits:?}");
    }
    assert_eq!(found(&view, &pattern("^first"))[0], hit("a", 1, 1, "first"));
}

#[test]
fn a_pattern_that_is_none_or_too_costly_is_refused() {
    let repo = Fixture::new(&[("a", "a")]);
    let view = repo.view(Profile::Scout);
    for bad in ["(", r"(\w{1000}){1000}", &"x".repeat(MAX_PATTERN + 1)] {
        let error = search(&view, &pattern(bad), &Selection::default(), None).unwrap_err();
        assert!(matches!(error, SearchError::Pattern(_)));
    }
    let odd = search(&view, &pattern("a"), &Selection::default(), Some("nonsense"));
    assert!(matches!(odd, Err(SearchError::Selection(SelectionError::Invalid(_)))));
}

#[test]
fn a_file_that_is_too_large_is_passed_over_and_the_answer_says_so() {
    let repo = Fixture::new(&[("z", "x")]);
    repo.write("a", "x\n".repeat(usize::try_from(MAX_FILE).unwrap() / 2 + 1));
    let hits =
        search(&repo.view(Profile::Scout), &pattern("x"), &Selection::default(), None).unwrap();
    assert!(hits.truncated);
    assert_eq!(hits.items.iter().map(|hit| hit.path.as_str()).collect::<Vec<_>>(), ["z"]);
}

/// A view that stops its reader after a number of checks.
fn stopping_after(view: &RepoView, looks: usize) -> RepoView {
    let left = AtomicUsize::new(looks);
    let spend = |left: usize| left.checked_sub(1);
    view.until(move || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err())
}

const STOPPED: SelectionError = SelectionError::View(ViewError::Io(Errno::CANCELED));

#[test]
fn what_a_pattern_could_cross_does_not_make_it_go_over_the_rest_again() {
    let line = "call foo(a, b\n";
    let repo = Fixture::new(&[("a", &line.repeat(100_000))]);
    let view = repo.view(Profile::Scout);
    // Each of these patterns would run to the end of the text from every line.
    for crossing in [r"(?s)foo.*bar", r"foo\([^)]*bar", r"foo\((\s|\S)*bar"] {
        assert_eq!(found(&view, &pattern(crossing)), [], "{crossing}");
    }
    let spanning = |regex| Pattern { multi_line: true, ..pattern(regex) };
    let repo = Fixture::new(&[("a", &line.repeat(3_000)), ("b", "foo(\nbar\nfoo(\nbar")]);
    let view = repo.view(Profile::Scout);
    assert_eq!(found(&view, &pattern(r"(?s)foo.*b"))[2_999], hit("a", 3_000, 6, line.trim()));
    assert_eq!(found(&view, &spanning(r"(?s)foo.*b")).len(), 2, "a match begins behind the last");
    let both = [hit("b", 1, 1, "foo("), hit("b", 3, 1, "foo(")];
    assert_eq!(found(&view, &spanning(r"foo\([^)]*?bar")), both);
}

// security line 15
#[test]
fn a_search_that_nobody_wants_any_more_ends_inside_a_file() {
    let repo = Fixture::new(&[("a", &"x\n".repeat(10_000))]);
    for multi_line in [false, true] {
        let want = Pattern { multi_line, ..pattern("y|x$") };
        for looks in [0, 1, 50, 900] {
            let view = stopping_after(&repo.view(Profile::Scout), looks);
            let ended = search(&view, &want, &Selection::default(), None);
            assert_eq!(ended, Err(SearchError::Selection(STOPPED)), "{looks}");
        }
    }
    let seldom = stopping_after(&repo.view(Profile::Scout), 1_000_000);
    assert!(search(&seldom, &pattern("x"), &Selection::default(), None).is_ok());
}

// security line 15
#[test]
fn listings_and_reads_that_nobody_wants_any_more_end_too() {
    let names: Vec<_> = (0..3_000).map(|n| format!("d/{n}")).collect();
    let repo = Fixture::new(&names.iter().map(|n| (n.as_str(), "")).collect::<Vec<_>>());
    let view = repo.view(Profile::Scout);
    for looks in [0, 1, 2, 100] {
        let ended = crate::list(&stopping_after(&view, looks), &Selection::default(), None, 5_000);
        assert_eq!(ended, Err(STOPPED), "{looks}");
    }
    let dir = view.resolve("", "d", FollowLinks::Yes).unwrap();
    let ended = stopping_after(&view, 1).read_dir(&dir, None);
    assert_eq!(ended, Err(ViewError::Io(Errno::CANCELED)), "inside one directory");
    let slice = crate::Slice { path: "d/1".into(), ..Default::default() };
    let ended = crate::read(&stopping_after(&view, 0), &slice, None);
    assert_eq!(ended, Err(ViewError::Io(Errno::CANCELED).into()));
}

#[test]
fn a_line_is_searched_up_to_its_bound_and_the_answer_says_so() {
    let long = "a".repeat(MAX_LINE);
    let repo = Fixture::new(&[("a", &format!("{long}b\n{}b", &long[1..]))]);
    let hits =
        search(&repo.view(Profile::Scout), &pattern("b"), &Selection::default(), None).unwrap();
    assert_eq!(hits.items.iter().map(|hit| hit.line).collect::<Vec<_>>(), [2]);
    assert!(hits.truncated);
}
