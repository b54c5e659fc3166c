//! The lines that Scout A's facts name, read again for people: a component says which lines, and never what is in them.

use act_reports::FactsA;
use act_reports::report_a::Excerpt;
use act_workspace::{RepoView, Slice, read};

/// Maximum number of bytes of all lines together, as in the Editor's first message, and of one line.
const MOST: usize = 12 * 1024;
const LINE: usize = 300;
/// Maximum number of bytes of a file that is read for its lines. Scout A looks at smaller ones only.
const FILE: u64 = 1 << 20;
/// Maximum number of excerpts. Scout A names about a dozen.
const COUNT: usize = 64;

/// Lines of a file in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    pub path: String,
    /// The number of the first line, from 1.
    pub first: u32,
    pub lines: Vec<String>,
}

/// Returns the text of the excerpts, in their order, as the files are now. Lines that do not fit into 12 kB and lines that
/// are not there are left out.
pub fn excerpts(facts: &FactsA, view: &RepoView) -> Vec<Lines> {
    let mut left = MOST;
    let mut shown = vec![];
    for Excerpt { file, start_line, end_line } in facts.excerpts.iter().take(COUNT) {
        let want = Slice { path: file.clone(), length: Some(FILE), ..Slice::default() };
        let Ok(chunk) = read(view, &want, None) else { continue };
        let text = String::from_utf8_lossy(&chunk.bytes);
        let first = (*start_line).max(1);
        let count = (end_line.saturating_add(1)).saturating_sub(first);
        let mut lines = vec![];
        for line in text.lines().skip(first as usize - 1).take(count as usize) {
            let line = &line[..line.floor_char_boundary(LINE)];
            let Some(rest) = left.checked_sub(line.len() + 1) else { break };
            left = rest;
            lines.push(line.to_owned());
        }
        if !lines.is_empty() {
            shown.push(Lines { path: file.clone(), first, lines });
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_workspace::Profile;
    use serde_json::json;
    use std::fs;

    fn facts(excerpts: serde_json::Value) -> FactsA {
        let facts = json!({
            "schema_version": "1", "scout": "a", "question": null, "truncated": false,
            "inventory": {"files": 1, "bytes": 1, "languages": []},
            "symbols": [], "imports": [], "entry_points": [], "tests": [], "map": [],
            "excerpts": excerpts, "conventions": [], "risk": [], "left_out": {}
        });
        FactsA::parse(&facts.to_string()).unwrap()
    }

    // SCOUT-A-14
    #[test]
    fn the_lines_are_those_of_the_file_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let long = format!("{}\n", "x".repeat(1_000)).repeat(100);
        for (name, text) in [("a.rs", "one\ntwo\nthree\n"), ("long.rs", &long), (".env", "KEY=1\n")]
        {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let view = RepoView::open(dir.path(), Profile::Scout).unwrap();
        let of = |file: &str, first: u32, last: u32| json!({"file": file, "start_line": first, "end_line": last});
        let shown =
            excerpts(&facts(json!([of("a.rs", 2, 9), of("b.rs", 1, 1), of(".env", 1, 1)])), &view);
        let lines = vec!["two".to_owned(), "three".to_owned()];
        assert_eq!(shown, [Lines { path: "a.rs".to_owned(), first: 2, lines }]);
        let long = (0..100).map(|_| of("long.rs", 1, 100)).collect::<Vec<_>>();
        let long = excerpts(&facts(json!(long)), &view);
        let bytes = long.iter().flat_map(|one| &one.lines).map(String::len).sum::<usize>();
        assert!((10_000..=MOST).contains(&bytes), "{bytes}");
        assert!(excerpts(&facts(json!([of("a.rs", 0, u32::MAX)])), &view)[0].lines.len() == 3);
    }
}
