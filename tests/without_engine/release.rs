//! The packages, made by the steps of the release workflow as a runner runs them. The program in them is a small one that
//! answers the questions of `scripts/package`, because a real one takes half an hour; `scripts/test-packages` installs the real.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use act_core::testing::skip;
use serde_json::Value;
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The program: `exit N`, `die` by a signal, `wait` for SIGTERM, or what `scripts/package` asks for.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void heard(int number) { (void)number; _exit(7); }
int main(int count, char **words) {
    const char *word = count > 1 ? words[1] : "";
    if (!strcmp(word, "--version")) printf("act %s (agent-command-tool, commit unknown)\n", VERSION);
    if (!strcmp(word, "man")) puts(".TH act 1");
    if (!strcmp(word, "completions")) printf("complete %s\n", words[2]);
    if (!strcmp(word, "exit")) return atoi(words[2]);
    if (!strcmp(word, "die")) raise(SIGKILL);
    if (!strcmp(word, "wait")) {
        signal(SIGTERM, heard);
        puts("ready");
        fflush(stdout);
        for (;;) pause();
    }
    return 0;
}
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn workflow() -> Value {
    let text = fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

/// Says whether the machine can make all packages, and reports the first tool that it lacks.
fn can_pack() -> bool {
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        skip("the packages of Linux on x86_64 are made there");
        return false;
    }
    for tool in ["dpkg-deb", "python3", "objdump", "cc"] {
        let found = Command::new(tool).arg("--version").output();
        if found.is_err() {
            skip(format!("no {tool}"));
            return false;
        }
    }
    true
}

/// A runner of Linux on x86_64, with the files of its environment and the artifacts of the workflow.
struct Runner {
    place: TempDir,
    reference: String,
    artifacts: BTreeMap<String, PathBuf>,
}

impl Runner {
    fn new() -> Self {
        let place = tempfile::Builder::new().prefix("act-test-").tempdir().unwrap();
        let bin = place.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir(place.path().join("temp")).unwrap();
        fs::write(place.path().join("act.c"), PROGRAM).unwrap();
        let cargo = format!(
            "#!/bin/sh\n[ \"$1\" = build ] || exec {} \"$@\"\necho \"$*\" >>{place}/built\n\
             mkdir -p \"$CARGO_TARGET_DIR/dist\"\n\
             exec cc -DVERSION='\"{VERSION}\"' -o \"$CARGO_TARGET_DIR/dist/act\" {place}/act.c\n",
            env!("CARGO"),
            place = place.path().display(),
        );
        fs::write(bin.join("cargo"), cargo).unwrap();
        fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        let reference = format!("refs/tags/v{VERSION}");
        Self { place, reference, artifacts: BTreeMap::new() }
    }

    fn temp(&self) -> PathBuf {
        self.place.path().join("temp")
    }

    fn command(&self, program: &str) -> Command {
        let path = format!(
            "{}:{}",
            self.place.path().join("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = Command::new(program);
        command
            .current_dir(root())
            .env("PATH", path)
            .env("CARGO_TARGET_DIR", self.place.path().join("target"))
            .env("RUNNER_TEMP", self.temp())
            .env("GITHUB_REF", &self.reference)
            .env("SOURCE_DATE_EPOCH", "1700000000");
        command
    }

    /// Replaces the expressions that the workflow has in the inputs of actions.
    fn text(&self, text: &str) -> String {
        text.replace("${{ runner.temp }}", self.temp().to_str().unwrap())
            .replace("${{ matrix.platform }}", "linux-x64")
    }

    /// Runs the steps of a job, and returns the output of the first one that fails.
    fn job(&mut self, name: &str) -> Result<(), Output> {
        let job = &workflow()["jobs"][name];
        for step in job["steps"].as_array().unwrap() {
            if let Some(script) = step["run"].as_str() {
                assert_eq!(step["shell"], "bash");
                let arguments = ["--noprofile", "--norc", "-eo", "pipefail", "-c", script];
                let output = self.command("bash").args(arguments).output().unwrap();
                if !output.status.success() {
                    return Err(output);
                }
                continue;
            }
            let input = |key: &str| self.text(step["with"][key].as_str().unwrap());
            match step["uses"].as_str().unwrap().split_once('@').unwrap().0 {
                "actions/checkout" => assert_eq!(step["with"]["persist-credentials"], false),
                "actions/upload-artifact" => {
                    // The runner is thrown away after a job.
                    let stored = self.place.path().join(input("name"));
                    fs::rename(input("path"), &stored).unwrap();
                    self.artifacts.insert(input("name"), stored);
                }
                "actions/download-artifact" => {
                    assert_eq!(step["with"]["merge-multiple"], true);
                    let prefix = input("pattern").strip_suffix('*').unwrap().to_owned();
                    fs::create_dir(input("path")).unwrap();
                    for (_, stored) in
                        self.artifacts.iter().filter(|(name, _)| name.starts_with(&prefix))
                    {
                        for entry in fs::read_dir(stored).unwrap() {
                            let from = entry.unwrap().path();
                            let to = Path::new(&input("path")).join(from.file_name().unwrap());
                            fs::copy(from, to).unwrap();
                        }
                    }
                }
                other => panic!("no runner for {other}"),
            }
        }
        Ok(())
    }
}

fn shell(script: &str, place: &Path) -> String {
    let output =
        Command::new("bash").args(["-euo", "pipefail", "-c", script]).current_dir(place).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn names(place: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Unpacks every package of a directory below `deb`, `wheel` and `node_modules` in it.
fn unpack(place: &Path) {
    shell(
        "dpkg-deb -x *.deb deb; python3 -m zipfile -e *.whl wheel
         for file in *.tgz; do
             name=node_modules/${file%-*}
             mkdir -p $name; tar -xzf $file -C $name --strip-components=1
         done",
        place,
    );
}

// PACKAGE-1 to PACKAGE-5
#[test]
fn the_steps_of_a_release_make_packages_with_the_same_bytes_of_one_program() {
    if !can_pack() {
        return;
    }
    let mut runner = Runner::new();
    for job in ["build", "collect"] {
        runner
            .job(job)
            .unwrap_or_else(|output| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    }
    let built = fs::read_to_string(runner.place.path().join("built")).unwrap();
    assert_eq!(built, "build --profile dist --locked --bin act\n");

    let packages = &runner.artifacts["packages"];
    let all = names(packages);
    let [sums, main, linux, deb, wheel] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(sums, "SHA256SUMS");
    assert_eq!(*linux, format!("agent-command-tool-linux-x64-{VERSION}.tgz"));
    assert_eq!(*main, format!("agent-command-tool-{VERSION}.tgz"));
    assert_eq!(*deb, format!("agent-command-tool_{VERSION}_amd64.deb"));
    // The glibc that the program needs is in the name and in the dependency.
    let glibc = wheel
        .strip_prefix(&format!("agent_command_tool-{VERSION}-py3-none-manylinux_2_"))
        .and_then(|rest| rest.strip_suffix("_x86_64.whl"))
        .unwrap();
    let needs = shell("dpkg-deb -f *.deb Depends", packages);
    assert_eq!(needs, format!("libc6 (>= 2.{glibc}), libgcc-s1\n"));
    shell("sha256sum --quiet --check SHA256SUMS", packages);

    // The same program again gives the same packages, in another directory.
    let program = runner.place.path().join("target/dist/act");
    let again =
        runner.command("scripts/package").args(["all", "--binary"]).arg(&program).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let second = runner.place.path().join("target/packages/SHA256SUMS");
    assert_eq!(fs::read(second).unwrap(), fs::read(packages.join("SHA256SUMS")).unwrap());

    unpack(packages);
    let content = fs::read(&program).unwrap();
    let scripts = format!("wheel/agent_command_tool-{VERSION}.data/scripts");
    for place in [
        "deb/usr/bin/act",
        &format!("{scripts}/act"),
        "node_modules/agent-command-tool-linux-x64/bin/act",
    ] {
        assert!(fs::read(packages.join(place)).unwrap() == content, "{place}");
    }
    assert_eq!(
        fs::read_link(packages.join("deb/usr/bin/agent-command-tool")).unwrap(),
        Path::new("act")
    );
    let manifest = |name: &str| {
        let path = packages.join("node_modules").join(name).join("package.json");
        serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap()
    };
    let main = manifest("agent-command-tool");
    // A name that this release does not publish could be a stranger's.
    assert_eq!(
        main["optionalDependencies"],
        serde_json::json!({"agent-command-tool-linux-x64": VERSION})
    );
    for package in [&main, &manifest("agent-command-tool-linux-x64")] {
        assert_eq!((&package["scripts"], &package["dependencies"]), (&Value::Null, &Value::Null));
    }
    // pip takes the modes from the archive; it checks neither them nor the digests of RECORD.
    shell(
        "python3 - <<'END'
import base64, csv, glob, hashlib, io, zipfile
archive = zipfile.ZipFile(glob.glob('*.whl')[0])
names = archive.namelist()
record = next(name for name in names if name.endswith('/RECORD'))
rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
assert [row[0] for row in rows] == names, rows
for name, digest, size in rows[:-1]:
    content = archive.read(name)
    own = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()
    assert (digest, size) == ('sha256=' + own, str(len(content))), name
for name in names:
    mode = archive.getinfo(name).external_attr >> 16
    assert mode == (0o100755 if '/scripts/' in name else 0o100644), (name, oct(mode))
END",
        packages,
    );
    let licences = "wheel/*.dist-info/licenses/third-party-licences";
    let of =
        |name: &str| shell(&format!("grep -c '^{name} [0-9.]*: ' {licences} || true"), packages);
    // The first is a part of the program, the second of its components alone.
    assert_eq!([of("wasmtime"), of("wit-bindgen")], ["1\n", "1\n"]);
    // A crate of the tests is in no program.
    assert_eq!(of("proptest"), "0\n");
}

// PACKAGE-5
#[test]
fn the_launcher_of_npm_passes_arguments_signals_and_the_end_of_the_program() {
    if !can_pack() {
        return;
    }
    if Command::new("node").arg("--version").output().is_err() {
        skip("no node");
        return;
    }
    let mut runner = Runner::new();
    runner.job("build").unwrap();
    let packages = runner.artifacts["packages-linux-x64"].clone();
    unpack(&packages);
    let launcher = packages.join("node_modules/agent-command-tool/act.js");
    let act = |words: &[&str]| {
        let mut node = Command::new("node");
        node.arg(&launcher).args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        node
    };
    let version = act(&["--version"]).output().unwrap();
    assert_eq!(
        version.stdout,
        format!("act {VERSION} (agent-command-tool, commit unknown)\n").into_bytes()
    );
    assert_eq!(act(&["exit", "42"]).status().unwrap().code(), Some(42));
    let died = act(&["die"]).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&died), Some(9));

    let mut waiting = act(&["wait"]).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(waiting.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    assert_eq!(line, "ready\n");
    let pid = rustix::process::Pid::from_child(&waiting);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(7));

    // The package of the platform was left out.
    fs::remove_dir_all(packages.join("node_modules/agent-command-tool-linux-x64")).unwrap();
    let missing = act(&["--version"]).output().unwrap();
    let text = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        text.starts_with(
            "act: the package agent-command-tool-linux-x64 is missing\nhint: install "
        ),
        "{text}"
    );

    // A platform for which there is no package, which a changed name of the system stands for.
    let elsewhere = packages.join("elsewhere.js");
    let script = format!(
        "Object.defineProperty(process, 'platform', {{ value: 'plan9' }}); require({:?});",
        launcher.to_str().unwrap()
    );
    fs::write(&elsewhere, script).unwrap();
    let none = Command::new("node").arg(&elsewhere).output().unwrap();
    let text = String::from_utf8(none.stderr).unwrap();
    assert_eq!(none.status.code(), Some(1));
    assert!(
        text.starts_with(
            "act: there is no program for plan9-x64, only for linux-x64\nhint: build "
        ),
        "{text}"
    );
}

// PACKAGE-3
#[test]
fn no_package_carries_a_version_that_neither_tag_nor_program_has() {
    if !can_pack() {
        return;
    }
    let mut runner = Runner::new();
    runner.reference = "refs/tags/v99.0.0".to_owned();
    let refused = runner.job("build").unwrap_err();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("refs/tags/v99.0.0 is not the tag of version"), "{text}");
    assert!(!runner.place.path().join("built").exists());

    let other = runner.place.path().join("other");
    fs::write(&other, "#!/bin/sh\necho 'act 99.0.0 (agent-command-tool, commit unknown)'\n")
        .unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let refused =
        runner.command("scripts/package").args(["all", "--binary"]).arg(&other).output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && text.contains("says `act 99.0.0 "), "{text}");
    assert_eq!(names(&runner.place.path().join("target/packages")), Vec::<String>::new());
}

// PACKAGE-6
#[test]
fn a_release_has_no_secret_in_builds_and_names_other_actions_by_commit() {
    let workflow = workflow();
    assert_eq!(workflow["permissions"], serde_json::json!({}));
    let jobs = workflow["jobs"].as_object().unwrap();
    assert_eq!(jobs.keys().collect::<Vec<_>>(), ["build", "collect", "draft"]);
    for (name, job) in jobs {
        let writes = job["permissions"].as_object().unwrap().values().any(|value| value == "write");
        assert_eq!(writes, name == "draft");
        for step in job["steps"].as_array().unwrap() {
            if let Some(run) = step["run"].as_str() {
                assert!(!run.contains("${{"), "{run}");
                // Nothing of the repository runs where a token may write.
                assert!(!writes || !run.contains("scripts/"), "{run}");
            }
            if let Some(uses) = step["uses"].as_str() {
                let (action, commit) = uses.split_once('@').unwrap();
                assert!(
                    commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()),
                    "{uses}"
                );
                assert!(!writes || action != "actions/checkout", "{uses}");
            }
            let text = step.to_string();
            assert!(writes || !(text.contains("secrets.") || text.contains("token")), "{text}");
        }
    }
    assert_eq!(jobs["draft"]["if"], "github.ref_type == 'tag'");
}
