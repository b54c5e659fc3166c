//! CMake.

use crate::draft::Draft;
use crate::facts::{Kind, System};
use crate::tree::{Tree, location};
use act_kit::paths::join;
use act_kit::reports::commands::Family;

pub(super) fn project(tree: &Tree<'_>, root: &str) -> Option<Draft> {
    let path = join(root, "CMakeLists.txt");
    let text = tree.text(&path)?;
    let line = |word: &str| {
        let parsed = |line: &str| line.trim_start().to_lowercase().starts_with(word);
        Some(text.lines().position(parsed)? as u32 + 1)
    };
    let source = location(&path, line("project").unwrap_or(1));
    let mut draft = Draft::new(root, System::Custom, Family::Cmake, source);
    draft.custom(Kind::Build, "cmake -B build && cmake --build build");
    draft.custom(Kind::Clean, "cmake --build build --target clean");
    let tests =
        line("enable_testing").or_else(|| line("include(ctest")).or_else(|| line("add_test"));
    if let Some(line) = tests {
        draft.framework = Some("ctest".to_owned());
        draft.offer(
            Kind::Test,
            crate::draft::Rank::Configured,
            "ctest --test-dir build",
            location(&path, line),
        );
        draft.has_tests = true;
    }
    let version = text.lines().zip(1..).find_map(|(line, number)| {
        let rest = line.trim().strip_prefix("cmake_minimum_required(VERSION ")?;
        let version = rest.split([')', ' ', '.']).take(2).collect::<Vec<_>>().join(".");
        Some((version, number))
    });
    match version {
        Some((version, line)) => {
            draft.needs("cmake", Some(&format!(">={version}")), location(&path, line))
        }
        None => draft.needs("cmake", None, draft.source.clone()),
    }
    draft.needs("c compiler", None, draft.source.clone());
    Some(draft)
}
