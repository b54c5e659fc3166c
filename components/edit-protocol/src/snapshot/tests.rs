use super::*;
use proptest::prelude::*;

fn document(version: u64, lines: &[&str]) -> Snapshot {
    let lines: Vec<_> = lines.iter().map(|line| (*line).to_owned()).collect();
    let lines = fields::print_lines(&lines);
    let text = format!(r#"{{"doc_id":"d","version":{version},"meta":{{}},"lines":{lines}}}"#);
    Snapshot::parse(&text).unwrap()
}

fn bad(text: &str) -> String {
    Snapshot::parse(text).unwrap_err().0
}

// EDIT-20
#[test]
fn one_line_changes_and_the_version_is_one_higher() {
    let after = document(3, &["a", "b", "c"]).edit_line(3, 1, "x").unwrap();
    assert_eq!((after.version(), after.lines()), (4, &["a", "x", "c"].map(str::to_owned)[..]));
}

// EDIT-22
#[test]
fn a_rewrite_is_split_at_every_line_feed() {
    let after = document(1, &["a"]).full_rewrite(1, "x\n\ny\n").unwrap();
    assert_eq!((after.version(), after.lines()), (2, &["x", "", "y", ""].map(str::to_owned)[..]));
    assert_eq!(document(1, &["a"]).full_rewrite(1, "").unwrap_err(), Refusal::ContentEmpty);
}

// EDIT-23
#[test]
fn finishing_takes_pass_or_hold_and_nothing_else() {
    let document = document(7, &[]);
    assert_eq!(document.finish(7, "pass"), Ok(Decision::Pass));
    assert_eq!(document.finish(7, "hold"), Ok(Decision::Hold));
    for decision in ["", "PASS", "publish", "pass "] {
        assert_eq!(document.finish(7, decision), Err(Refusal::InvalidDecision), "{decision:?}");
    }
}

// security line 182; EDIT-5, EDIT-7, EDIT-8
#[test]
fn what_does_not_fit_is_refused_the_version_first() {
    let two = document(3, &["a", "b"]);
    let stale = Refusal::VersionMismatch { current_version: 3 };
    assert_eq!(two.edit_line(2, 9, "x\n").unwrap_err(), stale);
    assert_eq!(two.full_rewrite(u64::MAX, "").unwrap_err(), stale);
    assert_eq!(two.finish(4, "maybe").unwrap_err(), stale);
    for index in [2, usize::MAX] {
        let refusal = two.edit_line(3, index, "x\n").unwrap_err();
        assert_eq!(refusal, Refusal::IndexOutOfBounds { max_index: 1 });
    }
    let refusal = document(3, &[]).edit_line(3, 0, "x").unwrap_err();
    assert_eq!(refusal, Refusal::IndexOutOfBounds { max_index: -1 });
    for new in ["\n", "a\nb", "a\r\n", "a\r"] {
        assert_eq!(two.edit_line(3, 0, new).unwrap_err(), Refusal::NewHasNewline, "{new:?}");
    }
    assert_eq!(two.edit_line(3, 0, "a\0b").unwrap_err().reason(), "bad_arguments");
    assert_eq!(two.full_rewrite(3, "a\0b").unwrap_err().reason(), "bad_arguments");
}

// security line 182; EDIT-21
#[test]
fn the_highest_version_is_the_last() {
    let last = document(MAX_VERSION, &["a"]);
    assert_eq!(last.edit_line(MAX_VERSION, 0, "x").unwrap_err(), Refusal::VersionExhausted);
    assert_eq!(last.full_rewrite(MAX_VERSION, "x").unwrap_err(), Refusal::VersionExhausted);
    let before = document(MAX_VERSION - 1, &["a"]);
    assert_eq!(before.edit_line(MAX_VERSION - 1, 0, "x").unwrap().version(), MAX_VERSION);
}

// EDIT-19
#[test]
fn what_nobody_asked_about_survives_as_it_was_written() {
    let text = "{\n  \"tags\": [1e400,  1.10, 123456789012345678901234567890],\n  \
        \"doc_id\": \"d\",\n  \"version\": 1,\n  \"meta\": {\"b\": \"\\u00e9\", \"a\": null},\n  \
        \"lines\": {\n    \"0\": \"x\"\n  },\n  \"note\": {\"deep\": {}}\n}\n";
    let before = Snapshot::parse(text).unwrap();
    assert_eq!(before.print(), text);
    let after = before.edit_line(1, 0, "y").unwrap().print();
    let expected = text.replace("\"version\": 1", "\"version\": 2").replace("\"x\"", "\"y\"");
    assert_eq!(after, expected);
}

// EDIT-18
#[test]
fn what_is_no_document_says_why() {
    for (text, why) in [
        ("", "EOF"),
        ("[]", "an object"),
        (r#"{"version":1,"lines":{}}"#, "no field doc_id"),
        (r#"{"doc_id":"d","lines":{}}"#, "no field version"),
        (r#"{"doc_id":"d","version":1}"#, "no field lines"),
        (r#"{"doc_id":1,"version":1,"lines":{}}"#, "doc_id: "),
        (r#"{"doc_id":"d","version":"1","lines":{}}"#, "version: "),
        (r#"{"doc_id":"d","version":-1,"lines":{}}"#, "version: "),
        (r#"{"doc_id":"d","version":1.5,"lines":{}}"#, "version: "),
        (r#"{"doc_id":"d","version":18446744073709551615,"lines":{}}"#, "above"),
        (r#"{"doc_id":"d","version":18446744073709551616,"lines":{}}"#, "version: "),
        (r#"{"doc_id":"d","version":1,"version":2,"lines":{}}"#, "occurs twice"),
        (r#"{"doc_id":"d","version":1,"meta":[],"lines":{}}"#, "meta: "),
        (r#"{"doc_id":"d","version":1,"lines":["a"]}"#, "lines: "),
        (r#"{"doc_id":"d","version":1,"lines":{"0":1}}"#, "lines: "),
        (r#"{"doc_id":"d","version":1,"lines":{"1":"a"}}"#, "index 0 is missing"),
        (r#"{"doc_id":"d","version":1,"lines":{"0":"a","2":"a"}}"#, "index 1 is missing"),
        (r#"{"doc_id":"d","version":1,"lines":{"0":"a","0":"b"}}"#, "index 0 occurs twice"),
        (r#"{"doc_id":"d","version":1,"lines":{"00":"a"}}"#, "is not an index"),
        (r#"{"doc_id":"d","version":1,"lines":{"-1":"a"}}"#, "is not an index"),
        (r#"{"doc_id":"d","version":1,"lines":{"0":"\ud800"}}"#, "lines: "),
        (r#"{"doc_id":"d","version":1,"lines":{}} x"#, "trailing"),
    ] {
        assert!(bad(text).contains(why), "{text}: {}", bad(text));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Line { behind: i8, index: usize, new: String },
    Rewrite { behind: i8, content: String },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let behind = || prop_oneof![4 => Just(0_i8), 1 => -1..=1_i8];
    let line = (behind(), 0..8_usize, "[a-zé\"\\\\\n]{0,5}")
        .prop_map(|(behind, index, new)| Step::Line { behind, index, new });
    let rewrite =
        (behind(), "[a-z\n]{0,12}").prop_map(|(behind, content)| Step::Rewrite { behind, content });
    prop::collection::vec(prop_oneof![4 => line, 1 => rewrite], 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_printed_snapshot_is_parsed_as_what_it_was(
        id in any::<String>(), version in 0..=MAX_VERSION, lines in prop::collection::vec(any::<String>(), 0..20)
    ) {
        let lines_json = fields::print_lines(&lines);
        let id_json = serde_json::Value::from(id.as_str());
        let text = format!(r#"{{"x": {id_json},"version":{version},"doc_id":{id_json},"lines":{lines_json}}}"#);
        let first = Snapshot::parse(&text).unwrap();
        let again = Snapshot::parse(&first.print()).unwrap();
        prop_assert_eq!((again.doc_id(), again.version(), again.lines()), (id.as_str(), version, &lines[..]));
        prop_assert_eq!(again.print(), first.print());
    }

    #[test]
    fn after_any_edits_untouched_lines_and_the_version_are_exact(start in 0..1000_u64, steps in steps()) {
        let mut document = document(start, &["zero", "one", "two", "three"]);
        for step in steps {
            let version = document.version();
            let expected = |behind: i8| version.wrapping_add_signed(i64::from(behind));
            let (after, touched) = match &step {
                Step::Line { behind, index, new } => {
                    let after = document.edit_line(expected(*behind), *index, new);
                    let fits = *behind == 0 && *index < document.lines().len() && !new.contains('\n');
                    prop_assert_eq!(after.is_ok(), fits, "{:?}", step);
                    (after, Some((*index, new)))
                }
                Step::Rewrite { behind, content } => {
                    let after = document.full_rewrite(expected(*behind), content);
                    prop_assert_eq!(after.is_ok(), *behind == 0 && !content.is_empty());
                    if let Ok(after) = &after {
                        prop_assert_eq!(after.lines().join("\n"), content.as_str());
                    }
                    (after, None)
                }
            };
            let Ok(after) = after else { continue };
            prop_assert_eq!(after.version(), version + 1);
            if let Some((index, new)) = touched {
                let mut lines = document.lines().to_vec();
                new.clone_into(&mut lines[index]);
                prop_assert_eq!(after.lines(), &lines[..]);
            }
            document = Snapshot::parse(&after.print()).unwrap();
        }
    }
}
