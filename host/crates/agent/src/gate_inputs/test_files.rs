//! Whether a repository has tests, and which of a task's files are some. By name, and for languages that keep
//! tests beside the code, by what stands in the file.

use super::is_test;
use act_workspace::{Kind, MAX_ENTRIES, Pattern, RepoView, Selection, list, search};

/// Pages of a listing that are looked through; a tree without tests in so many files counts as having some.
const PAGES: usize = 20;
/// Attributes that make a Rust function a test.
const INSIDE: &str = r"#\[(\w+::)*test\b";

/// `package`: the directory that counts, if not all do. What cannot be read counts as having tests: then nobody
/// is asked for new ones.
pub fn has_tests(view: &RepoView, package: Option<&str>) -> bool {
    let under: Vec<_> = package.into_iter().map(str::to_owned).collect();
    let all = Selection { under: under.clone(), globs: vec![], kinds: vec![Kind::File] };
    let (mut cursor, mut rust) = (None, false);
    for _ in 0..PAGES {
        let Ok(page) = list(view, &all, cursor.as_deref(), MAX_ENTRIES) else { return true };
        if page.items.iter().any(|entry| is_test(&entry.path)) {
            return true;
        }
        rust |= page.items.iter().any(|entry| is_rust(&entry.path));
        cursor = page.next;
        if cursor.is_none() {
            return rust && has_tests_inside(view, under);
        }
    }
    true
}

fn has_tests_inside(view: &RepoView, under: Vec<String>) -> bool {
    let pattern = Pattern { regex: INSIDE.into(), ..Pattern::default() };
    let files = Selection { under, globs: vec!["*.rs".into()], kinds: vec![] };
    let mut cursor = None;
    for _ in 0..PAGES {
        match search(view, &pattern, &files, cursor.as_deref()) {
            Ok(hits) if hits.items.is_empty() => cursor = hits.next,
            _ => return true,
        }
        if cursor.is_none() {
            return false;
        }
    }
    true
}

/// Whether a changed file is a test or has more of them inside than before.
pub fn touches_tests(path: &str, before: Option<&str>, now: Option<&str>) -> bool {
    let inside = |text: Option<&str>| {
        text.unwrap_or_default().lines().filter(|line| is_test_attribute(line)).count()
    };
    is_test(path) || (is_rust(path) && inside(now) > inside(before))
}

pub(super) fn is_test_attribute(line: &str) -> bool {
    let Some(name) = line.trim_start().strip_prefix("#[") else { return false };
    let name: String =
        name.chars().take_while(|c| c.is_alphanumeric() || "_:".contains(*c)).collect();
    name == "test" || name.ends_with("::test")
}

fn is_rust(path: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|end| end == "rs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_workspace::Profile;

    fn repository(files: &[(&str, &str)]) -> (tempfile::TempDir, RepoView) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let view = RepoView::open(root.path(), Profile::Tool).unwrap();
        (root, view)
    }

    /// EDITOR-16
    #[test]
    fn tests_are_found_by_name_and_inside_of_rust() {
        let found = |files: &[(&str, &str)], package| has_tests(&repository(files).1, package);
        assert!(!found(&[("leap.py", "x"), ("docs/latest.md", "x")], None));
        assert!(found(&[("leap.py", "x"), ("tests/leap.py", "x")], None));
        assert!(found(&[("test.sh", "x")], None));
        assert!(found(&[("src/lib.rs", "    #[tokio::test]\n")], None));
        assert!(!found(&[("src/lib.rs", "#[derive(Debug)]\n"), ("a.py", "#[test]\n")], None));
        let two = [("a/x.go", "x"), ("b/x_test.go", "x")];
        assert!(found(&two, None) && found(&two, Some("b")) && !found(&two, Some("a")));
    }

    /// EDITOR-16
    #[test]
    fn a_changed_file_is_a_test_or_has_more_inside() {
        assert!(touches_tests("tests/a.py", None, Some("x")));
        assert!(touches_tests(
            "src/a.rs",
            Some("fn a() {}"),
            Some("fn a() {}\n#[test]\nfn b() {}")
        ));
        assert!(!touches_tests("src/a.rs", Some("#[test]\n"), Some("#[test]\nfn c() {}")));
        assert!(!touches_tests("src/a.py", None, Some("#[test]\n")));
    }
}
