//! Properties of any edit of any text.

use crate::{Document, Edit, edit_many};
use proptest::prelude::*;

/// Bytes that look like files: every mixture of endings, marks, and bytes that are no UTF-8.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\xEF\xBB\xBF".to_vec()),
        Just(b"\xFF\xE9".to_vec()),
        "[a-z é]{0,6}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Ranges that do not overlap, anywhere in a text of `count` lines.
fn edits(count: usize) -> impl Strategy<Value = Vec<Edit>> {
    let cuts = prop::collection::vec(0..=count, 2..=6);
    (cuts, prop::collection::vec("([a-z]{0,3}\n?){0,3}", 3)).prop_map(|(mut cuts, news)| {
        cuts.sort_unstable();
        let ranges = cuts.chunks_exact(2).zip(news);
        ranges.map(|(cut, new)| Edit { start: cut[0], end: cut[1], new }).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_text_is_its_lines_put_together(bytes in text()) {
        let document = Document::parse(&bytes).unwrap();
        let mut again = document.mark.to_vec();
        for line in &document.lines {
            again.extend_from_slice(line.text);
            again.extend_from_slice(line.ending);
        }
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn writing_a_line_as_it_was_read_changes_nothing(bytes in text(), index in 0..24usize) {
        let document = Document::parse(&bytes).unwrap();
        if let Some(Ok(same)) = document.lines.get(index).map(|line| std::str::from_utf8(line.text))
            && !same.ends_with('\r')
        {
            let edit = Edit { start: index, end: index + 1, new: format!("{same}\n") };
            prop_assert_eq!(edit_many(&document, &[edit]).unwrap(), bytes);
        }
    }

    #[test]
    fn lines_outside_the_edits_stay_byte_for_byte(
        (bytes, edits) in text().prop_flat_map(|bytes| {
            let count = Document::parse(&bytes).unwrap().lines.len();
            (Just(bytes), edits(count))
        })
    ) {
        let document = Document::parse(&bytes).unwrap();
        let count = document.lines.len();
        let out = edit_many(&document, &edits).unwrap();
        let after = Document::parse(&out).unwrap();

        let grown = |edit: &Edit| edit.new.split_inclusive('\n').count();
        let expected = count + edits.iter().map(grown).sum::<usize>()
            - edits.iter().map(|edit| edit.end - edit.start).sum::<usize>();
        prop_assert!(after.mark.starts_with(document.mark));
        // The bytes of a mark in the middle that come to stand first are read as the file's.
        prop_assume!(after.mark == document.mark && after.lines.len() == expected);
        for (index, line) in document.lines.iter().enumerate() {
            if edits.iter().any(|edit| (edit.start..edit.end).contains(&index)) {
                continue;
            }
            let before = edits.iter().filter(|edit| edit.end <= index);
            let shift = before.fold(0_isize, |shift, edit| {
                shift + grown(edit) as isize - (edit.end - edit.start) as isize
            });
            let now = after.lines[(index as isize + shift) as usize];
            // The one change allowed: a last line without ending gets one when others come to follow it.
            let (raw, now) = ([line.text, line.ending].concat(), [now.text, now.ending].concat());
            prop_assert!(now == raw || (line.ending.is_empty() && now.starts_with(&raw)));
        }
    }

    #[test]
    fn refused_edits_are_refused_in_any_order(bytes in text(), far in 1..5usize) {
        let document = Document::parse(&bytes).unwrap();
        let count = document.lines.len();
        let good = Edit { start: 0, end: 0, new: "x".to_owned() };
        let bad = Edit { start: count, end: count + far, new: "y".to_owned() };
        prop_assert_eq!(edit_many(&document, &[good.clone(), bad.clone()]).unwrap_err().0, 1);
        prop_assert_eq!(edit_many(&document, &[bad, good]).unwrap_err().0, 0);
    }
}
