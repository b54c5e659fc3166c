use super::*;
use crate::workspace::testing::Fixture;
use crate::workspace::view::Profile;

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
    assert_eq!(hits[0].3, "ü".repeat(MAX_HIT_BYTES / 2));
    let repo = Fixture::new(&[("a", &format!("x{line}"))]);
    let hits = found(&repo.view(Profile::Scout), &pattern("ü"));
    assert_eq!(hits[0].3, format!("x{}", "ü".repeat(MAX_HIT_BYTES / 2 - 1)));
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
