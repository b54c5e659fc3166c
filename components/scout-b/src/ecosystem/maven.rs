//! Maven.

use crate::draft::Draft;
use crate::facts::{Kind, System};
use crate::tree::{Tree, location};
use crate::version::Claim;
use act_kit::paths::{join, resolve, upwards};
use act_kit::reports::commands::Family;
use roxmltree::{Document, Node};

/// Maximum nesting of elements. The parser recurses, so that deeper files are not parsed.
const DEPTH: usize = 200;

pub(super) fn project(tree: &Tree<'_>, root: &str) -> Option<Draft> {
    let path = join(root, "pom.xml");
    if !tree.has(&path) {
        return None;
    }
    let mut draft =
        Draft::new(root, System::Maven, Family::Maven, tree.location(&path, "<project"));
    draft.package_manager = "maven".to_owned();
    draft.framework = Some("junit".to_owned());
    let wrapper = tree.has(&join(root, "mvnw"));
    let mvn = if wrapper { "./mvnw -B" } else { "mvn -B" };
    draft.custom(Kind::Install, &format!("{mvn} dependency:go-offline"));
    draft.custom(Kind::Build, &format!("{mvn} package -DskipTests"));
    draft.custom(Kind::Clean, &format!("{mvn} clean"));
    draft.custom(Kind::Test, &format!("{mvn} test"));
    let sources = [".java", ".kt", ".groovy", ".scala"];
    draft.has_tests = tree.tests(root).any(|path| sources.iter().any(|end| path.ends_with(end)));
    let text = tree.text(&path).unwrap_or_default();
    if let Some(document) = parsed(tree, &path, &text) {
        let says = |word: &str| document.descendants().any(|node| node.text() == Some(word));
        if says("jacoco-maven-plugin") {
            draft.custom(Kind::Coverage, &format!("{mvn} verify"));
        }
        if says("maven-failsafe-plugin") {
            draft.custom(Kind::Integration, &format!("{mvn} verify"));
        }
        if says("testng") && !says("junit") && !says("junit-jupiter") {
            draft.framework = Some("testng".to_owned());
        }
    }
    if let Some((version, source)) = java(tree, root) {
        let range = format!(">={version}");
        draft.needs("java", Some(&range), source.clone());
        draft.claims.push(Claim::range("java", &range, source));
    } else {
        draft.needs("java", None, draft.source.clone());
    }
    if !wrapper {
        draft.needs("maven", None, draft.source.clone());
    }
    Some(draft)
}

/// Returns the directories of the modules that a pom names, with their lines.
pub(crate) fn modules(tree: &Tree<'_>, root: &str) -> Vec<(String, u32)> {
    let path = join(root, "pom.xml");
    let Some(text) = tree.text(&path) else { return vec![] };
    let Some(document) = parsed(tree, &path, &text) else { return vec![] };
    let modules = document.descendants().filter(|node| node.has_tag_name("module"));
    let module = |node: Node<'_, '_>| {
        let path = resolve(root, node.text()?.trim())?;
        Some((path, document.text_pos_at(node.range().start).row))
    };
    modules.filter_map(module).collect()
}

fn parsed<'a>(tree: &Tree<'_>, path: &str, text: &'a str) -> Option<Document<'a>> {
    if depth(text) > DEPTH {
        tree.problem(path, None, "elements are nested too deeply");
        return None;
    }
    let failed = |error: roxmltree::Error| {
        tree.problem(path, Some(error.pos().row), &error.to_string());
    };
    Document::parse(text).map_err(failed).ok()
}

/// Returns an upper bound of how deep the elements are nested.
fn depth(text: &str) -> usize {
    let (mut depth, mut most) = (0_usize, 0);
    for tag in text.split('<').skip(1) {
        match tag.as_bytes().first() {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') => {}
            _ if tag.split('>').next().is_some_and(|tag| tag.ends_with('/')) => {}
            _ => depth += 1,
        }
        most = most.max(depth);
    }
    most
}

/// Returns the version of Java that a pom or its parent asks for.
fn java(tree: &Tree<'_>, root: &str) -> Option<(String, crate::facts::Location)> {
    const NAMES: [&str; 5] = [
        "java.version",
        "maven.compiler.release",
        "maven.compiler.target",
        "maven.compiler.source",
        "release",
    ];
    for above in upwards(root) {
        let path = join(above, "pom.xml");
        let Some(text) = tree.text(&path) else { continue };
        let Some(document) = parsed(tree, &path, &text) else { continue };
        for name in NAMES {
            let node = document.descendants().find(|node| node.has_tag_name(name));
            let Some(node) = node else { continue };
            let version = node.text().unwrap_or_default().trim();
            let version = version.strip_prefix("1.").unwrap_or(version);
            if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) {
                let line = document.text_pos_at(node.range().start).row;
                return Some((version.to_owned(), location(&path, line)));
            }
        }
    }
    None
}
