//! Cargo.

use crate::draft::{Draft, Rank};
use crate::facts::{Kind, System};
use crate::tree::{Tree, location};
use crate::version::Claim;
use act_kit::paths::{join, upwards};
use act_kit::reports::commands::Family;

/// Attributes that mark a test in a source file.
const MARK: &str = r"#\[test\]|#\[tokio::test|#\[cfg\(test\)\]|#\[rstest|#\[async_std::test";

pub(super) fn project(tree: &Tree<'_>, root: &str) -> Option<Draft> {
    let path = join(root, "Cargo.toml");
    if !tree.has(&path) {
        return None;
    }
    let manifest = tree.manifest(&path).unwrap_or_default();
    let workspace = manifest.line_of(&["workspace"]);
    let line = manifest.line_of(&["package"]).or(workspace).unwrap_or(1);
    let mut draft = Draft::new(root, System::Cargo, Family::Cargo, location(&path, line));
    draft.package_manager = "cargo".to_owned();
    draft.framework = Some("cargo test".to_owned());
    let all = if workspace.is_some() { " --workspace" } else { "" };
    draft.custom(Kind::Build, &format!("cargo build{all}"));
    draft.custom(Kind::Clean, "cargo clean");
    draft.custom(Kind::Test, &format!("cargo test{all}"));
    if tree.has(&join(root, "src/lib.rs")) || workspace.is_some() {
        draft.custom(Kind::Unit, &format!("cargo test{all} --lib"));
    }
    let integration = tree.below(&join(root, "tests")).any(|path| path.ends_with(".rs"));
    let declared = manifest.get(&["test"]).is_some_and(|tests| !tests.items().is_empty());
    if integration || declared {
        draft.custom(Kind::Integration, &format!("cargo test{all} --test '*'"));
    }
    draft.has_tests = integration
        || declared
        || tree.tests(root).any(|path| path.ends_with(".rs"))
        || marked(tree, root);

    let inherited = |name: &str| {
        let own = manifest.get(&["package", name]);
        let (manifest, path) = match own.is_some_and(|node| node.get(&["workspace"]).is_some()) {
            true => upwards(root).skip(1).find_map(|above| {
                let path = join(above, "Cargo.toml");
                let manifest = tree.manifest(&path).filter(|m| m.get(&["workspace"]).is_some())?;
                Some((manifest, path))
            })?,
            false => (manifest.clone(), path.clone()),
        };
        let found = manifest.text_at(&["package", name]);
        let found = found.or_else(|| manifest.text_at(&["workspace", "package", name]))?;
        Some((found.0.to_owned(), location(&path, found.1)))
    };
    if let Some((version, source)) = inherited("rust-version") {
        draft.needs("rust", Some(&format!(">={version}")), source.clone());
        draft.claims.push(Claim::range("rust", &format!(">={version}"), source));
    }
    for above in upwards(root) {
        let Some(path) = tree.first(above, &["rust-toolchain.toml", "rust-toolchain"]) else {
            continue;
        };
        let plain = tree.text(&path).filter(|text| !text.contains('['));
        let channel = match plain {
            Some(text) => text.lines().next().map(|line| (line.trim().to_owned(), 1)),
            None => tree.manifest(&path).and_then(|manifest| {
                let (channel, line) = manifest.text_at(&["toolchain", "channel"])?;
                Some((channel.trim_matches('"').to_owned(), line))
            }),
        };
        if let Some((channel, line)) = channel.filter(|(channel, _)| !channel.is_empty()) {
            draft.needs("rust", Some(&channel), location(&path, line));
            draft.claims.push(Claim::of("rust", &channel, location(&path, line)));
        }
        break;
    }
    if draft.prerequisites.is_empty() {
        draft.needs("rust", None, draft.source.clone());
    }
    if let Some(lock) =
        upwards(root).map(|above| join(above, "Cargo.lock")).find(|path| tree.has(path))
    {
        draft.offer(Kind::Install, Rank::Declared, "cargo fetch --locked", location(&lock, 1));
    }
    Some(draft)
}

/// Returns whether a source file of the project contains a test.
fn marked(tree: &Tree<'_>, root: &str) -> bool {
    let glob = join(root, "**/*.rs");
    tree.repository.search(MARK, Some(&glob), 1).is_ok_and(|found| !found.items.is_empty())
}
