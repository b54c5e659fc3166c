//! Projects as people have them, with the commands that people use, in images of Debian's packages: they pass
//! unchanged in the copy and in the overlay, and the repository is bit for bit what it was.
//!
//! No step has network: the projects depend on nothing that is not in the image or in themselves.

use std::process::Command;
use std::time::Duration;

use act_config::Workspace;
use act_core::verification::Status;

use crate::world::World;

/// The image of one language, made or found by the script. Returns `None`, after a report that the test is skipped, when it cannot be had.
pub(crate) fn image(language: &str) -> Option<String> {
    let root = act_core::testing::checkout();
    let made = Command::new(root.join("scripts/test-images")).arg(language).output().unwrap();
    let listed = String::from_utf8(made.stdout).unwrap();
    let line = listed.lines().find_map(|line| line.split_once('='));
    if line.is_none() {
        let why = String::from_utf8_lossy(&made.stderr);
        act_core::testing::skip(format_args!("no image for {language}: {}", why.trim()));
    }
    line.map(|(_, image)| image.to_owned())
}

async fn passes_in_copy_and_overlay(
    language: &str,
    files: &[(&str, &str)],
    steps: &[(&str, &str)],
    expected: &str,
) {
    let Some(image) = image(language) else { return };
    for view in [Workspace::Copy, Workspace::Overlay] {
        let mut world = World::new().await.view(view);
        for (path, text) in files {
            world = world.file(path, text);
        }
        for (name, command) in steps {
            world = world.step(name, command);
        }
        world.pipeline.image = image.clone();
        (world.pipeline.limits.memory_mb, world.pipeline.limits.pids) = (4096, 2048);
        world.step_timeout = Duration::from_secs(1200);
        let before = world.fingerprint();
        let response = world.run().await;
        assert_eq!(response.status, Status::Pass, "{view:?}\n{response:#?}");
        assert_eq!(World::warned(&response), Vec::<&str>::new(), "{response:#?}");
        let log = world.log(&response, "combined.log");
        assert!(String::from_utf8_lossy(&log).contains(expected), "{response:#?}");
        assert_eq!(world.fingerprint(), before, "{view:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_project_installs_itself_and_passes_its_tests() {
    passes_in_copy_and_overlay(
        "python",
        &[
            (
                "pyproject.toml",
                "[build-system]\nrequires = [\"setuptools>=64\"]\nbuild-backend = \"setuptools.build_meta\"\n\n\
                 [project]\nname = \"tiny\"\nversion = \"1.0\"\n",
            ),
            ("src/tiny/__init__.py", "def double(n):\n    return 2 * n\n"),
            (
                "tests/test_tiny.py",
                "import getpass\nfrom tiny import double\n\ndef test_double():\n    assert double(2) == 4\n\n\
                 def test_user():\n    assert getpass.getuser()\n",
            ),
        ],
        &[("install", "pip install -e ."), ("test", "pytest")],
        "2 passed",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_project_installs_tests_and_builds() {
    passes_in_copy_and_overlay(
        "node",
        &[
            (
                "package.json",
                r#"{"name": "tiny", "version": "1.0.0", "dependencies": {"dep": "file:dep"},
                    "scripts": {"test": "node --test", "build": "node build.js"}}"#,
            ),
            (
                "package-lock.json",
                r#"{"name": "tiny", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
                    "": {"name": "tiny", "version": "1.0.0", "dependencies": {"dep": "file:dep"}},
                    "dep": {"version": "1.0.0"}, "node_modules/dep": {"resolved": "dep", "link": true}}}"#,
            ),
            ("dep/package.json", r#"{"name": "dep", "version": "1.0.0", "main": "index.js"}"#),
            ("dep/index.js", "module.exports = n => 2 * n;\n"),
            (
                "test/tiny.test.js",
                "const test = require('node:test');\nconst assert = require('node:assert');\n\
                 require('os').userInfo();\n\
                 test('double', () => assert.equal(require('dep')(2), 4));\n",
            ),
            (
                "build.js",
                "const fs = require('fs');\nfs.mkdirSync('dist', {recursive: true});\n\
                 fs.writeFileSync('dist/tiny.js', 'built');\nconsole.log('built', fs.readdirSync('dist'));\n",
            ),
        ],
        &[("install", "npm ci"), ("test", "npm test"), ("build", "npm run build")],
        "built [ 'tiny.js' ]",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rust_project_passes_with_and_without_its_lock_file() {
    let files = [
        (
            "Cargo.toml",
            "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\n\
             [dependencies]\ndep = { path = \"dep\" }\n",
        ),
        ("src/lib.rs", "pub fn double(n: u32) -> u32 {\n    dep::twice(n)\n}\n"),
        ("tests/double.rs", "#[test]\nfn doubles() {\n    assert_eq!(tiny::double(2), 4);\n}\n"),
        ("dep/Cargo.toml", "[package]\nname = \"dep\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"),
        ("dep/src/lib.rs", "pub fn twice(n: u32) -> u32 {\n    2 * n\n}\n"),
    ];
    let lock = (
        "Cargo.lock",
        "version = 3\n\n[[package]]\nname = \"dep\"\nversion = \"1.0.0\"\n\n\
         [[package]]\nname = \"tiny\"\nversion = \"1.0.0\"\ndependencies = [\n \"dep\",\n]\n",
    );
    let steps = [("test", "cargo test")];
    let passed = "test doubles ... ok";
    passes_in_copy_and_overlay("rust", &files, &steps, passed).await;
    let locked: Vec<_> = files.into_iter().chain([lock]).collect();
    passes_in_copy_and_overlay("rust", &locked, &[("test", "cargo test --locked")], passed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_go_project_passes_its_tests() {
    passes_in_copy_and_overlay(
        "go",
        &[
            ("go.mod", "module example.com/tiny\n\ngo 1.19\n"),
            ("tiny.go", "package tiny\n\nfunc Double(n int) int {\n\treturn 2 * n\n}\n"),
            (
                "tiny_test.go",
                "package tiny\n\nimport \"testing\"\n\nfunc TestDouble(t *testing.T) {\n\
                 \tif Double(2) != 4 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n",
            ),
        ],
        &[("test", "go test -coverprofile=coverage.out ./...")],
        "ok  \texample.com/tiny",
    )
    .await;
}

/// Where Maven keeps its repository is told by an option that no image sets: it says so itself. Its plugins come from
/// a network that no test has, so the compiler is called by the step.
#[tokio::test(flavor = "multi_thread")]
async fn a_maven_project_is_valid_and_keeps_its_repository_in_the_cache() {
    passes_in_copy_and_overlay(
        "java",
        &[
            (
                "pom.xml",
                "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
                 <groupId>t</groupId><artifactId>tiny</artifactId><version>1</version></project>\n",
            ),
            (
                "src/main/java/tiny/Twice.java",
                "package tiny;\n\npublic class Twice {\n    public static void main(String[] args) {\n        \
                 System.out.println(\"twice \" + 2 * 2);\n    }\n}\n",
            ),
        ],
        &[
            ("local repository", "mvn -o -X validate | grep 'Using local repository at /artifacts/cache/maven'"),
            ("valid", "mvn -o -B validate"),
            ("build", "mkdir -p target/classes && javac -d target/classes src/main/java/tiny/Twice.java"),
            ("run", "java -cp target/classes tiny.Twice"),
        ],
        "twice 4",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gradle_project_runs_its_tasks_with_its_home_in_the_cache() {
    passes_in_copy_and_overlay(
        "java",
        &[
            ("settings.gradle", "rootProject.name = 'tiny'\n"),
            (
                "build.gradle",
                "task check { doLast { println \"home ${gradle.gradleUserHomeDir}\" } }\n",
            ),
            (".gitignore", ".gradle\n"),
        ],
        &[("check", "gradle --offline --no-daemon check")],
        "home /artifacts/cache/gradle",
    )
    .await;
}
