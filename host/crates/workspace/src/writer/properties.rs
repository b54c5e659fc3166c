//! Properties of every sequence of edits of a real file.

use std::fs;

use edit_protocol::{Document, Edit, edit_many};
use proptest::prelude::*;

use super::{Change, RepoWriter, Version, WriteRules};
use crate::testing::Fixture;

/// The lines that an edit names, and the difference between its version and that of the file.
#[derive(Debug, Clone)]
struct Step {
    off: i64,
    edit: Edit,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let off = prop_oneof![4 => Just(0_i64), 1 => -1..=1_i64];
    let step = (off, 0..7_usize, 0..3_usize, "([a-c]{0,2}\n?){0,2}").prop_map(
        |(off, start, length, new)| Step { off, edit: Edit { start, end: start + length, new } },
    );
    prop::collection::vec(step, 1..10)
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines = Document::parse(bytes).unwrap().lines;
    lines.iter().map(|line| [line.text, line.ending].concat()).collect()
}

/// Compares lines. A last line without a newline gets one when others are added after it.
fn same(before: &[Vec<u8>], now: &[Vec<u8>]) -> bool {
    before.len() == now.len()
        && before.iter().zip(now).all(|(a, b)| a == b || (!a.ends_with(b"\n") && b.starts_with(a)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// WORKSPACE-23, WORKSPACE-24, EDIT-16: whatever is edited in whatever order, each line that an edit does
    /// not name is on disk as it was, and the version counts the edits that were made.
    #[test]
    fn any_sequence_of_edits_keeps_other_lines_and_exact_versions(
        start in "\u{feff}?([a-cé]{0,3}(\n|\r\n)){0,5}[a-c]{0,2}", steps in steps()
    ) {
        let repo = Fixture::new(&[("a", &start)]);
        let writer = RepoWriter::open(&repo.root, WriteRules::default()).unwrap();
        let mut bytes = start.into_bytes();
        for Step { off, edit } in steps {
            let known = writer.version("a").unwrap().unwrap();
            let Ok(edited) = edit_many(&Document::parse(&bytes).unwrap(), std::slice::from_ref(&edit)) else { continue };
            let expect = Version { number: known.number.wrapping_add_signed(off), ..known.clone() };
            let change = Change::Replace { path: "a".into(), expect, bytes: edited.clone() };
            let outcome = writer.apply(&[change], &|| false);
            prop_assert_eq!(outcome.is_ok(), off == 0);
            let now = fs::read(repo.root.join("a")).unwrap();
            if off != 0 {
                prop_assert_eq!(writer.version("a").unwrap(), Some(known));
                prop_assert_eq!(now, bytes.clone());
                continue;
            }
            prop_assert_eq!(writer.version("a").unwrap().unwrap().number, known.number + 1);
            prop_assert_eq!(&now, &edited);
            let (before, after) = (lines(&bytes), lines(&now));
            prop_assert!(same(&before[..edit.start], &after[..edit.start]));
            let behind = before.len() - edit.end;
            prop_assert!(same(&before[edit.end..], &after[after.len() - behind..]));
            bytes = now;
        }
    }

    /// WORKSPACE-24: of editors with the same version one wins, and the file holds what that one wrote.
    #[test]
    fn of_any_concurrent_editors_one_wins(
        news in prop::collection::vec("[a-z]{1,4}", 2..8), exchange in any::<bool>()
    ) {
        let repo = Fixture::new(&[("a", "start\n")]);
        let writer = RepoWriter::open(&repo.root, WriteRules::default()).unwrap();
        let writer = if exchange { writer } else { writer.without_exchange() };
        let expect = writer.version("a").unwrap().unwrap();
        let edit = |new: &String| {
            let (expect, bytes) = (expect.clone(), new.clone().into_bytes());
            writer.apply(&[Change::Replace { path: "a".into(), expect, bytes }], &|| false)
        };
        let outcomes: Vec<_> = std::thread::scope(|threads| {
            let started: Vec<_> = news.iter().map(|new| threads.spawn(|| edit(new))).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let winners: Vec<_> = (0..news.len()).filter(|at| outcomes[*at].is_ok()).collect();
        prop_assert_eq!(winners.len(), 1);
        prop_assert_eq!(&repo.text("a"), &news[winners[0]]);
        prop_assert_eq!(writer.version("a").unwrap().unwrap().number, expect.number + 1);
    }
}
