use super::*;

fn lines(text: &str, start: usize, end: usize, new: &str) -> Result<String, Refusal> {
    let document = Document::parse(text.as_bytes()).unwrap();
    edit_many(&document, &[Edit { start, end, new: new.to_owned() }])
        .map(|bytes| String::from_utf8(bytes).unwrap())
        .map_err(|(_, refusal)| refusal)
}

fn many(text: &str, edits: &[(usize, usize, &str)]) -> Result<String, (usize, Refusal)> {
    let edits = edits
        .iter()
        .map(|(start, end, new)| Edit { start: *start, end: *end, new: (*new).to_owned() })
        .collect::<Vec<_>>();
    edit_many(&Document::parse(text.as_bytes()).unwrap(), &edits)
        .map(|bytes| String::from_utf8(bytes).unwrap())
}

// EDIT-9
#[test]
fn a_range_is_replaced_inserted_or_deleted() {
    assert_eq!(lines("a\nb\nc\n", 1, 2, "x\ny").unwrap(), "a\nx\ny\nc\n");
    assert_eq!(lines("a\nb\nc\n", 1, 1, "x").unwrap(), "a\nx\nb\nc\n");
    assert_eq!(lines("a\nb\nc\n", 3, 3, "x").unwrap(), "a\nb\nc\nx\n");
    assert_eq!(lines("a\nb\nc\n", 0, 2, "").unwrap(), "c\n");
    assert_eq!(lines("", 0, 0, "x").unwrap(), "x\n");
}

// EDIT-10
#[test]
fn a_final_newline_in_the_new_text_adds_no_line_and_a_lone_one_is_an_empty_line() {
    assert_eq!(lines("a\nb\n", 0, 1, "x\n").unwrap(), "x\nb\n");
    assert_eq!(lines("a\nb\n", 0, 1, "\n").unwrap(), "\nb\n");
}

// EDIT-11
#[test]
fn new_lines_take_the_endings_of_those_they_replace_or_stand_beside() {
    assert_eq!(lines("a\r\nb\r\n", 1, 1, "x\ny\n").unwrap(), "a\r\nx\r\ny\r\nb\r\n");
    assert_eq!(lines("a\r\nb\nc\n", 0, 2, "x\ny\nz").unwrap(), "x\r\ny\nz\nc\n");
    assert_eq!(lines("a\nb\n", 1, 1, "x\r\n").unwrap(), "a\nx\nb\n");
    assert_eq!(lines("a\r\n", 0, 0, "x").unwrap(), "x\r\na\r\n");
}

// EDIT-12
#[test]
fn a_file_without_final_newline_goes_on_without_one() {
    assert_eq!(lines("a\nb", 1, 2, "x\ny\n").unwrap(), "a\nx\ny");
    assert_eq!(lines("a\r\nb", 2, 2, "x").unwrap(), "a\r\nb\r\nx");
    assert_eq!(lines("a\nb", 0, 1, "x").unwrap(), "x\nb");
    assert_eq!(lines("a\nb", 1, 2, "").unwrap(), "a\n");
}

#[test]
fn a_range_behind_the_end_or_backwards_is_refused() {
    assert_eq!(lines("a\n", 1, 2, "x"), Err(Refusal::IndexOutOfBounds { max_index: 0 }));
    assert_eq!(lines("a\nb\n", 2, 1, "x").unwrap_err().reason(), "bad_arguments");
}

// EDIT-13
#[test]
fn many_edits_use_the_indices_of_the_text_that_was_read() {
    let text = "0\n1\n2\n3\n4\n";
    assert_eq!(
        many(text, &[(3, 4, "x\ny"), (0, 1, ""), (2, 2, "z")]).unwrap(),
        "1\nz\n2\nx\ny\n4\n"
    );
    assert_eq!(
        many(text, &[(5, 5, "first"), (5, 5, "second")]).unwrap(),
        "0\n1\n2\n3\n4\nfirst\nsecond\n"
    );
}

#[test]
fn many_edits_are_refused_together_and_the_culprit_is_named() {
    let text = "0\n1\n2\n";
    let (at, refusal) = many(text, &[(0, 1, "x"), (2, 9, "y")]).unwrap_err();
    assert_eq!((at, refusal), (1, Refusal::IndexOutOfBounds { max_index: 2 }));
    let (at, refusal) = many(text, &[(0, 2, "x"), (1, 3, "y")]).unwrap_err();
    assert_eq!((at, refusal.reason()), (1, "bad_arguments"));
    let (_, refusal) = many(text, &[(0, 2, "x"), (1, 1, "y")]).unwrap_err();
    assert_eq!(refusal.reason(), "bad_arguments");
    assert_eq!(many(text, &[]).unwrap_err().1.reason(), "bad_arguments");
}

// EDIT-14
#[test]
fn a_rewrite_keeps_the_mark_and_uniform_crlf_and_refuses_nothing_as_content() {
    let rewrite = |old: &[u8], new: &str| full_rewrite(&Document::parse(old).unwrap(), new);
    assert_eq!(rewrite(b"a\n", "x\ny").unwrap(), b"x\ny");
    assert_eq!(rewrite(b"\xEF\xBB\xBFa\r\nb\r\n", "x\ny\n").unwrap(), b"\xEF\xBB\xBFx\r\ny\r\n");
    assert_eq!(rewrite(b"a\r\nb\n", "x\n").unwrap(), b"x\n");
    assert_eq!(rewrite(b"a\r\n", "x\r\ny\n").unwrap(), b"x\r\ny\n");
    assert_eq!(rewrite(b"a\n", ""), Err(Refusal::ContentEmpty));
}

// EDIT-5
#[test]
fn a_refusal_is_json_with_its_reason_and_facts() {
    assert_eq!(crate::expect(3, 3), Ok(()));
    let refusal = crate::expect(3, 4).unwrap_err();
    assert_eq!(refusal, Refusal::VersionMismatch { current_version: 4 });
    assert_eq!(refusal.reason(), "version_mismatch");
}
