//! Go modules.

use crate::draft::{Draft, Rank};
use crate::facts::{Kind, System};
use crate::tree::{Tree, location};
use crate::version::Claim;
use act_kit::paths::join;
use act_kit::reports::commands::Family;

pub(super) fn project(tree: &Tree<'_>, root: &str) -> Option<Draft> {
    let path = join(root, "go.mod");
    if !tree.has(&path) {
        return None;
    }
    let source = tree.location(&path, "module ");
    let mut draft = Draft::new(root, System::Go, Family::Go, source);
    draft.package_manager = "go".to_owned();
    draft.framework = Some("go test".to_owned());
    draft.offer(Kind::Install, Rank::Declared, "go mod download", draft.source.clone());
    draft.custom(Kind::Build, "go build ./...");
    draft.custom(Kind::Clean, "go clean");
    draft.custom(Kind::Test, "go test ./...");
    draft.custom(Kind::Coverage, "go test -cover ./...");
    draft.has_tests = tree.below(root).any(|path| path.ends_with("_test.go"));
    let text = tree.text(&path).unwrap_or_default();
    for (line, number) in text.lines().zip(1..) {
        let words = line.split_whitespace().collect::<Vec<_>>();
        match words.as_slice() {
            ["go", version, ..] => {
                let range = format!(">={version}");
                draft.needs("go", Some(&range), location(&path, number));
                draft.claims.push(Claim::range("go", &range, location(&path, number)));
            }
            ["toolchain", version, ..] if version.starts_with("go") => {
                let range = format!(">={}", &version[2..]);
                draft.claims.push(Claim::range("go", &range, location(&path, number)));
            }
            _ => {}
        }
    }
    if draft.prerequisites.is_empty() {
        draft.needs("go", None, draft.source.clone());
    }
    Some(draft)
}
