//! Maven and Gradle, through the project's own wrapper where it has one.

use super::{Detected, Framework, Manifests, System};

pub(super) fn maven(manifests: &Manifests) -> Option<Detected> {
    let text = manifests.text("pom.xml")?;
    let tool = if manifests.has("mvnw") { "./mvnw" } else { "mvn" };
    Some(Detected {
        system: System::Maven,
        framework: if text.contains("junit") { Framework::Junit } else { Framework::Custom },
        source: manifests.source("pom.xml"),
        build: Some(format!("{tool} -B package -DskipTests")),
        clean: Some(format!("{tool} -B clean")),
        test: Some(format!("{tool} -B test")),
        integration: text.contains("failsafe").then(|| format!("{tool} -B verify")),
        coverage: text.contains("jacoco").then(|| format!("{tool} -B test jacoco:report")),
        prerequisites: vec![java(
            text,
            &["<maven.compiler.release>", "<java.version>", "<maven.compiler.source>"],
        )],
        ..Detected::default()
    })
}

pub(super) fn gradle(manifests: &Manifests) -> Option<Detected> {
    let source = ["build.gradle", "build.gradle.kts"]
        .into_iter()
        .find(|name| manifests.text(name).is_some())?;
    let text = manifests.text(source)?;
    let tool = if manifests.has("gradlew") { "./gradlew" } else { "gradle" };
    let junit = ["junit", "useJUnit"].iter().any(|word| text.contains(word));
    Some(Detected {
        system: System::Gradle,
        framework: if junit { Framework::Junit } else { Framework::Custom },
        source: manifests.source(source),
        build: Some(format!("{tool} assemble")),
        clean: Some(format!("{tool} clean")),
        test: Some(format!("{tool} test")),
        integration: text.contains("integrationTest").then(|| format!("{tool} integrationTest")),
        coverage: text.contains("jacoco").then(|| format!("{tool} test jacocoTestReport")),
        prerequisites: vec![java(text, &["JavaLanguageVersion.of("])],
        ..Detected::default()
    })
}

/// The version behind one of the marks, if it is a plain number.
fn java(text: &str, marks: &[&str]) -> String {
    let version = marks.iter().find_map(|mark| {
        let rest = text.split_once(mark)?.1;
        let digits = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        (!digits.is_empty()).then(|| format!("java >= {digits}"))
    });
    version.unwrap_or_else(|| "java".to_owned())
}
