//! Whether a report is believed: its schema, and that every path and line it names is in the repository as
//! a Scout sees it.

use super::grounding::{Ungrounded, ground_a, ground_b};
use super::query::ReportCheck;
use super::report_a::ReportA;
use super::report_b::ReportB;
use crate::workspace::{RepoView, Slice, read};

/// Bytes of a file that are looked through for its lines; a range behind them does not exist for us.
const MAX_FILE: u64 = 64 << 20;

/// Checks reports against one repository.
pub struct Grounded {
    view: RepoView,
}

impl Grounded {
    /// `view` is a Scout's, so a report cannot name what no Scout can see.
    pub fn new(view: RepoView) -> Self {
        Self { view }
    }

    fn lines(&self, path: &str) -> Option<u32> {
        let (mut offset, mut lines, mut last) = (0, 0_u32, b'\n');
        while offset < MAX_FILE {
            let slice = Slice { path: path.to_owned(), offset, ..Slice::default() };
            let chunk = read(&self.view, &slice, None).ok()?;
            let Some(end) = chunk.bytes.last() else { break };
            last = *end;
            let feeds = chunk.bytes.iter().filter(|byte| **byte == b'\n').count();
            lines = lines.saturating_add(u32::try_from(feeds).unwrap_or(u32::MAX));
            offset += chunk.bytes.len() as u64;
        }
        Some(lines.saturating_add(u32::from(last != b'\n')))
    }
}

impl ReportCheck for Grounded {
    fn check(&self, scout: &str, raw: &str) -> Result<String, String> {
        let mut lines = |path: &str| self.lines(path);
        let (summary, wrong) = match scout {
            "scout-a" => {
                let report = ReportA::parse(raw).map_err(|error| error.to_string())?;
                (report.summary(), ground_a(&report, &mut lines))
            }
            "scout-b" => {
                let report = ReportB::parse(raw).map_err(|error| error.to_string())?;
                (report.summary(), ground_b(&report, &mut lines))
            }
            other => return Err(format!("no report schema is known for {other}")),
        };
        if wrong.is_empty() { Ok(summary) } else { Err(listed(&wrong)) }
    }
}

fn listed(wrong: &[Ungrounded]) -> String {
    wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace::Profile;

    #[test]
    fn lines_count_with_and_without_a_final_newline() {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in [("a", ""), ("b", "x\n"), ("c", "x\ny"), ("d", "x\ny\n")] {
            fs::write(root.path().join(name), text).unwrap();
        }
        let check = Grounded::new(RepoView::open(root.path(), Profile::Scout).unwrap());
        let lines = ["a", "b", "c", "d", "e"].map(|name| check.lines(name));
        assert_eq!(lines, [Some(0), Some(1), Some(2), Some(2), None]);
    }
}
