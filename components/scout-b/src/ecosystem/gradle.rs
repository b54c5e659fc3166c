//! Gradle, by the text of its scripts; only Gradle can run them.

use crate::draft::Draft;
use crate::facts::{Kind, System};
use crate::tree::{Tree, location};
use crate::version::Claim;
use act_kit::paths::{join, upwards};
use act_kit::reports::commands::Family;

pub(super) fn project(tree: &Tree<'_>, root: &str) -> Option<Draft> {
    let path = tree.first(root, &["build.gradle.kts", "build.gradle"])?;
    let mut draft = Draft::new(root, System::Gradle, Family::Gradle, location(&path, 1));
    draft.package_manager = "gradle".to_owned();
    draft.framework = Some("junit".to_owned());
    let wrapper = upwards(root).find(|above| tree.has(&join(above, "gradlew")));
    let gradle = wrapper.map_or("gradle".to_owned(), |above| {
        let depth = root.matches('/').count() + usize::from(!root.is_empty());
        let up = depth - (above.matches('/').count() + usize::from(!above.is_empty()));
        if up == 0 { "./gradlew".to_owned() } else { format!("{}gradlew", "../".repeat(up)) }
    });
    draft.custom(Kind::Build, &format!("{gradle} assemble"));
    draft.custom(Kind::Clean, &format!("{gradle} clean"));
    draft.custom(Kind::Test, &format!("{gradle} test"));
    let text = tree.text(&path).unwrap_or_default();
    if text.contains("jacoco") {
        draft.custom(Kind::Coverage, &format!("{gradle} jacocoTestReport"));
    }
    if text.contains("integrationTest") {
        draft.custom(Kind::Integration, &format!("{gradle} integrationTest"));
    }
    let sources = [".java", ".kt", ".groovy", ".scala"];
    draft.has_tests = tree.tests(root).any(|path| sources.iter().any(|end| path.ends_with(end)));
    for (line, number) in text.lines().zip(1..) {
        let digits = |after: &str| {
            let at = line.find(after)? + after.len();
            let rest = line[at..].trim_start_matches(['(', ' ', '=', '.', '"', '\'']);
            let rest = rest.trim_start_matches("JavaVersion.VERSION_").trim_start_matches("1_");
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            Some(rest[..digits].to_owned()).filter(|digits| !digits.is_empty())
        };
        let found = ["JavaLanguageVersion.of", "sourceCompatibility", "jvmToolchain"]
            .iter()
            .find_map(|after| digits(after));
        if let Some(version) = found {
            draft.needs("java", Some(&format!(">={version}")), location(&path, number));
            draft.claims.push(Claim::range(
                "java",
                &format!(">={version}"),
                location(&path, number),
            ));
            break;
        }
    }
    if draft.prerequisites.is_empty() {
        draft.needs("java", None, draft.source.clone());
    }
    if wrapper.is_none() {
        draft.needs("gradle", None, draft.source.clone());
    }
    Some(draft)
}
