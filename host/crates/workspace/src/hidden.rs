//! Tracked files that no Scout can see, and which rule hides each.

use std::path::Path;

use super::exclusion::Rule;
use super::git::WorkTree;
use super::reading::{ReadError, Slice, read};
use super::view::{Kind, Profile, RepoView, ViewError};

/// A tracked file that is not in view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    pub path: String,
    pub rule: Rule,
}

/// In path order. Empty without a git index.
pub fn hidden(root: &Path) -> Result<Vec<Hidden>, ViewError> {
    let view = RepoView::open(root, Profile::Scout)?;
    let Some(tree) = WorkTree::of(view.root()) else { return Ok(vec![]) };
    let tracked = tree.tracked();
    let paths = tracked.paths().iter().map(|path| String::from_utf8_lossy(path).into_owned());
    let found = paths.filter_map(|path| {
        let rule = view.rule_of(&path, Some(Kind::File)).or_else(|| by_content(&view, &path))?;
        Some(Hidden { path, rule })
    });
    Ok(found.collect())
}

/// What reading would refuse; a file that is gone is not hidden.
fn by_content(view: &RepoView, path: &str) -> Option<Rule> {
    let slice = Slice { path: path.to_owned(), length: Some(1), ..Slice::default() };
    match read(view, &slice, None) {
        Err(ReadError::Binary { .. }) => Some(Rule::Binary),
        Err(ReadError::View(ViewError::Excluded { rule, .. })) => Some(rule),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn every_tracked_file_that_is_out_of_view_is_named_with_its_rule() {
        // DOCTOR-8
        let files = [
            ("src/main.rs", "fn main() {}"),
            (".env", "KEY=1"),
            ("dist/app.js", "x"),
            ("logo.png", "x"),
            ("data", "a\0b"),
            ("untracked.pem", "x"),
        ];
        let fixture = Fixture::new(&files);
        fixture.track(&["src/main.rs", ".env", "dist/app.js", "logo.png", "data", "gone.txt"]);
        let found = hidden(&fixture.root).unwrap();
        let found: Vec<_> = found.iter().map(|file| (file.path.as_str(), file.rule)).collect();
        assert_eq!(
            found,
            [
                (".env", Rule::Secret),
                ("data", Rule::Binary),
                ("dist/app.js", Rule::BuildDirectory),
                ("logo.png", Rule::Binary),
            ]
        );
    }
}
