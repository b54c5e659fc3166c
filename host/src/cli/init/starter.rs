//! Which image and steps fit which manifests (pure). Public images by tag: a person chooses the version.

use std::collections::BTreeMap;

/// What is looked for in the root.
pub(super) const NAMES: [&str; 17] = [
    "Cargo.lock",
    "Cargo.toml",
    "GNUmakefile",
    "Makefile",
    "build.gradle",
    "build.gradle.kts",
    "go.mod",
    "gradlew",
    "makefile",
    "mvnw",
    "package-lock.json",
    "package.json",
    "pnpm-lock.yaml",
    "pom.xml",
    "pyproject.toml",
    "requirements.txt",
    "setup.py",
];

/// Names with their texts, of those that are there.
#[derive(Debug, Default)]
pub(super) struct Manifests(pub(super) BTreeMap<String, String>);

impl Manifests {
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.has(name))
    }

    fn says(&self, name: &str, word: &str) -> bool {
        self.0.get(name).is_some_and(|text| text.contains(word))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Starter {
    pub(super) kind: &'static str,
    pub(super) image: &'static str,
    pub(super) steps: Vec<(&'static str, &'static str)>,
}

impl Starter {
    pub(super) fn yaml(&self) -> String {
        // JSON strings are YAML strings.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let steps: String = self
            .steps
            .iter()
            .map(|(name, command)| {
                format!("    - {{name: {}, command: {}}}\n", quoted(name), quoted(command))
            })
            .collect();
        format!(
            "# What \"done\" means: every step ends with exit code 0, in a fresh container of this image.\n\
             verification:\n  container_image: {}\n  steps:\n{steps}",
            quoted(self.image)
        )
    }

    pub(super) fn check(&self) -> String {
        match self.kind {
            UNKNOWN => {
                "Check: no manifest says how this project is tested. Put your image and your test \
                        command in; until then the step fails."
                    .to_owned()
            }
            _ => {
                "Check: the image's version, and that the steps are what proves a change of yours."
                    .to_owned()
            }
        }
    }
}

const UNKNOWN: &str = "a project of unknown kind";

/// The first row that fits.
pub(super) fn choose(manifests: &Manifests) -> Starter {
    let starter = |kind, image, steps: &[(&'static str, &'static str)]| Starter {
        kind,
        image,
        steps: steps.to_vec(),
    };
    if manifests.has("Cargo.toml") {
        let locked = manifests.has("Cargo.lock");
        let test = if locked { "cargo test --locked" } else { "cargo test" };
        return starter("a Rust project", "rust:1", &[("test", test)]);
    }
    if manifests.has("go.mod") {
        let steps = [("vet", "go vet ./..."), ("test", "go test ./...")];
        return starter("a Go project", "golang:1", &steps);
    }
    if manifests.has("package.json") {
        let install = match (manifests.has("pnpm-lock.yaml"), manifests.has("package-lock.json")) {
            (true, _) => {
                "corepack enable --install-directory \"$TMPDIR\" && \"$TMPDIR/pnpm\" install --frozen-lockfile"
            }
            (_, true) => "npm ci",
            _ => "npm install",
        };
        return starter(
            "a Node.js project",
            "node:22",
            &[("install", install), ("test", "npm test")],
        );
    }
    if manifests.any(&["pyproject.toml", "setup.py", "requirements.txt"]) {
        let install = match manifests.any(&["pyproject.toml", "setup.py"]) {
            true => {
                "python -m venv /artifacts/home/venv && /artifacts/home/venv/bin/pip install -q . pytest"
            }
            false => {
                "python -m venv /artifacts/home/venv && /artifacts/home/venv/bin/pip install -q -r requirements.txt pytest"
            }
        };
        let test = "/artifacts/home/venv/bin/python -m pytest -q";
        return starter(
            "a Python project",
            "python:3.12-slim",
            &[("install", install), ("test", test)],
        );
    }
    if manifests.has("pom.xml") {
        let test = if manifests.has("mvnw") { "sh ./mvnw -B test" } else { "mvn -B test" };
        return starter("a Maven project", "maven:3-eclipse-temurin-21", &[("test", test)]);
    }
    if manifests.any(&["build.gradle", "build.gradle.kts"]) {
        let test = if manifests.has("gradlew") {
            "sh ./gradlew --no-daemon test"
        } else {
            "gradle --no-daemon test"
        };
        return starter("a Gradle project", "gradle:8-jdk21", &[("test", test)]);
    }
    for makefile in ["GNUmakefile", "makefile", "Makefile"] {
        if manifests.has(makefile) {
            let test =
                if manifests.says(makefile, "\ncheck:") && !manifests.says(makefile, "\ntest:") {
                    "make check"
                } else {
                    "make test"
                };
            return starter("a project with a Makefile", "gcc:14", &[("test", test)]);
        }
    }
    // Green by default would be a lie.
    let test = "echo 'agent.yaml: put your test command here'; exit 1";
    starter(UNKNOWN, "debian:stable-slim", &[("test", test)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifests(names: &[(&str, &str)]) -> Manifests {
        Manifests(names.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect())
    }

    #[test]
    fn every_row_is_a_configuration_that_loads() {
        // CLI-22
        let rows: [&[(&str, &str)]; 12] = [
            &[("Cargo.toml", ""), ("Cargo.lock", "")],
            &[("Cargo.toml", "")],
            &[("go.mod", "")],
            &[("package.json", ""), ("package-lock.json", "")],
            &[("package.json", ""), ("pnpm-lock.yaml", "")],
            &[("pyproject.toml", "")],
            &[("requirements.txt", "")],
            &[("pom.xml", "")],
            &[("build.gradle.kts", ""), ("gradlew", "")],
            &[("Makefile", "all:\ntest:\n")],
            &[("Makefile", "all:\ncheck:\n")],
            &[],
        ];
        for row in rows {
            let starter = choose(&manifests(row));
            let temp = tempfile::tempdir().unwrap();
            std::fs::write(temp.path().join("agent.yaml"), starter.yaml()).unwrap();
            let config = crate::config::load(temp.path()).unwrap();
            assert_eq!(config.pipeline.image, starter.image);
            let steps: Vec<_> = config.pipeline.steps.iter().map(|step| &*step.command).collect();
            let expected: Vec<_> = starter.steps.iter().map(|(_, command)| *command).collect();
            assert_eq!(steps, expected);
        }
    }

    #[test]
    fn an_unknown_project_is_not_green_by_default() {
        // CLI-22
        let starter = choose(&Manifests::default());
        assert!(starter.steps[0].1.ends_with("exit 1") && starter.check().contains("your test"));
    }
}
