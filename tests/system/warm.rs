//! Warm runs through whole tasks: which attempts begin with what `prepare` made, and which of their results count.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::harness::json::lines;
use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::{Act, Done, image, image_of};

fn git(repo: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
    let done = Command::new("git").args(identity).args(arguments).current_dir(repo).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

impl Act {
    /// Commits every file of the repository.
    fn committed(self) -> Self {
        git(&self.repo(), &["add", "--all"]);
        git(&self.repo(), &["commit", "--quiet", "--message", "x"]);
        self
    }

    fn prepared(self, image: &str, prepare: &str, steps: &[(&str, &str)]) -> Self {
        let step = |(name, command): &(&str, &str)| json!({"name": name, "command": command});
        let yaml = json!({"verification": {
            "container_image": image,
            "network": "off",
            "prepare": [{"name": "prepare", "command": prepare}],
            "steps": steps.iter().map(step).collect::<Vec<_>>(),
        }});
        self.file("agent.yaml", yaml.to_string())
    }
}

/// The attempt and the warmth of each run that the task told of, in order.
fn ran(told: &Done) -> Vec<(u64, bool)> {
    let started = lines(told)
        .into_iter()
        .filter(|line| line["type"] == "verify_started")
        .map(|line| (line["attempt"].as_u64().unwrap(), line["warm"].as_bool().unwrap()));
    started.collect()
}

fn replace(path: &str, old: &str, new: &str) -> Value {
    call("replace", json!({"path": path, "old": old, "new": new}))
}

const SHOP: [(&str, &str); 6] = [
    // Objects are linked as they lie there, and know nothing of the flags that they were compiled with.
    (
        "Makefile",
        "FLAGS = -DRATE=1\nbuild/shop: $(patsubst src/%.c,build/%.o,$(wildcard src/*.c))\n\tcc -o $@ build/*.o\n\
         build/%.o: src/%.c\n\t@mkdir -p build\n\tcc $(FLAGS) -c -o $@ $<\n",
    ),
    (
        "src/main.c",
        "#include <stdio.h>\nint half(int);\n__attribute__((weak)) int extra(void);\n\
         int main(void) {\n    printf(\"%d %d %d\\n\", half(8), RATE, extra ? extra() : 0);\n    return 0;\n}\n",
    ),
    ("src/half.c", "int half(int n) { return n; }\n"),
    ("src/extra.c", "int extra(void) { return 7; }\n"),
    ("poetry.lock", "v1\n"),
    (".gitignore", "/build/\n"),
];

// VERIFIER-51: each of these attempts would be judged by what the last commit left, and fail although it is right.
#[test]
fn an_attempt_never_fails_for_what_a_build_tool_overlooks() {
    let Some(image) = image_of("c") else { return };
    type Before = fn(&Path);
    let nothing: Before = |_| {};
    let older: Before = |repo| {
        let path = repo.join("src/half.c");
        fs::write(&path, "int half(int n) { return n / 2; }\n").unwrap();
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    };
    let half = || replace("src/half.c", "return n", "return n / 2");
    let cases: [(&str, Before, Value, &str, &str); 5] = [
        ("edited", nothing, half(), "4 1 7 v1", ""),
        ("older", older, replace("src/main.c", "return 0", "return  0"), "4 1 7 v1", ""),
        (
            "deleted",
            nothing,
            call("delete", json!({"path": "src/extra.c", "expect_version": "{{last_version}}"})),
            "8 1 0 v1",
            "src/extra.c of the last commit was deleted or renamed",
        ),
        (
            "lock file",
            nothing,
            replace("poetry.lock", "v1", "v2"),
            "8 1 7 v2",
            "poetry.lock has changed (build_script)",
        ),
        (
            "build script",
            nothing,
            replace("Makefile", "RATE=1", "RATE=2"),
            "8 2 7 v1",
            "Makefile has changed (build_script)",
        ),
    ];
    for (name, before, edit, wanted, why) in cases {
        let test = format!(
            "test \"$(build/shop) $(cat build/installed)\" = '{wanted}' || {{ build/shop; cat build/installed; exit 1; }}"
        );
        let install = "make -s build/shop && cp poetry.lock build/installed";
        // As after `act init`, `agent.yaml` is not committed yet.
        let act = Act::new().files(&SHOP).committed();
        let act = act.prepared(&image, install, &[("make", "make -s build/shop"), ("test", &test)]);
        before(&act.repo());
        let read = call("read", json!({"path": edit["call"]["arguments"]["path"]}));
        let turns = opening("do it").into_iter().chain([read, edit, done()]);
        let told = act.script(&script(turns)).act(["run", "do it", "--json"]).status(0);
        let cold = [(1, true), (1, false)];
        // The line that hides the notes is new in .gitignore, and changes no build.
        assert!(told.read(".gitignore").contains("/agent/"), "{name}: {told}");
        assert_eq!(
            ran(&told),
            if why.is_empty() { &cold[..] } else { &cold[1..] },
            "{name}: {told}"
        );
        let reason = format!("this attempt is cold: {why}");
        assert_eq!(
            told.stderr_text().matches(&reason).count(),
            usize::from(!why.is_empty()),
            "{name}: {told}"
        );
        let finished = lines(&told).pop().unwrap();
        let manifest = told.manifest(finished["run_id"].as_str().unwrap());
        assert_eq!(
            (&manifest["base"], &manifest["status"]),
            (&Value::Null, &json!("PASS")),
            "{name}"
        );
    }
}

/// A repository whose pipeline is green when `answer.txt` says `right`, or nothing yet.
fn answering() -> Act {
    // A file that a step names makes an attempt cold.
    let steps =
        [("test", "cat $(ls | grep ^answer) | grep -qx -e right -e none && test -e target/made")];
    let act = Act::new().file("answer.txt", "none\n").file(".gitignore", "/target/\n/agent/\n");
    act.prepared(image(), "mkdir -p target && touch target/made", &steps).committed()
}

fn one_attempt() -> String {
    script(opening("write it").into_iter().chain(attempt("right\n")).chain([done()]))
}

// VERIFIER-52, EDITOR-51
#[test]
fn a_green_baseline_needs_no_cold_run_and_ends_no_task() {
    let act = answering().script(&one_attempt());
    let told = act.act(["run", "--baseline", "write it", "--json"]).status(0);
    assert_eq!(ran(&told), [(0, true), (1, true), (1, false)], "{told}");
}

// VERIFIER-52, CONFIG-51
#[test]
fn a_task_that_a_warm_run_ends_says_so_wherever_it_names_the_run() {
    let act = answering().config_toml("[verifier]\nwarm = \"final\"\n");
    let first = act.clone().script(&one_attempt()).act(["run", "write it", "--json"]).status(0);
    assert_eq!(ran(&first), [(1, true)], "{first}");
    let run = lines(&first).pop().unwrap()["run_id"].as_str().unwrap().to_owned();
    git(&act.repo(), &["checkout", "--quiet", "--", "answer.txt"]);
    let told = act.clone().script(&one_attempt()).run("write it").status(0);
    told.stdout_has("SUCCESS: verified by the warm run run_");
    let summary = fs::read_to_string(act.repo().join("agent/summary.md")).unwrap();
    assert!(summary.contains("warm run"), "{summary}");
    let told = act.clone().act(["history"]).status(0);
    assert_eq!(told.stdout_text().matches(" (warm)\n").count(), 2, "{told}");
    let history = act.clone().act(["history", "--json"]).status(0).json();
    for task in history["tasks"].as_array().unwrap() {
        assert_eq!(task["warm_run_ids"], task["run_ids"], "{history}");
    }
    let base = first.manifest(&run)["base"].as_str().unwrap().to_owned();
    let told = act.clone().act(["audit", "explain", &run]).status(0);
    told.stdout_has(&format!("warm base      {base}"));
    let statement = act.clone().act(["audit", "export", "--in-toto", &run]).status(0).json();
    let record =
        statement["predicate"]["configuration"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(record["annotations"]["warm_base"], base.as_str());

    // Another task proposed what `act apply` writes, so a cold run accepts it.
    git(&act.repo(), &["checkout", "--quiet", "--", "answer.txt"]);
    let mut propose = opening("write it");
    propose.extend(attempt("right\n").into_iter().take(2));
    propose.push(done());
    let told = act.clone().script(&script(propose)).act(["run", "--dry-run", "write it"]).status(0);
    let id = crate::harness::proposals::named(&told);
    let told = act.clone().script(&script([done()])).act(["apply", &id, "--json"]).status(0);
    assert_eq!(ran(&told), [(1, true), (1, false)], "{told}");

    // A verification and a claim begin with no base, whatever the person chose for tasks.
    let verified = act.clone().act(["verify", "--fresh", "--json"]).status(0).json();
    let claimed = act.clone().act(["verify-claim", &run, "--json"]).json();
    for run in [&verified["run_id"], &claimed["response"]["run_id"]] {
        let manifest = first.manifest(run.as_str().unwrap_or_else(|| panic!("{claimed:#}")));
        assert_eq!(manifest["base"], Value::Null, "{manifest:#}");
        assert_eq!(manifest["commands_executed"][0]["name"], "prepare", "{manifest:#}");
    }
}

/// VERIFIER-50, ARTIFACT-22: what a killed process had of a base is used by nobody, and the next task makes its own.
#[test]
fn a_base_that_a_killed_task_was_making_is_made_anew() {
    // It takes a while, and would fail on what a killed one left.
    let prepare = "test ! -e target/half && mkdir -p target && touch target/half && sleep 5 && mv target/half target/made";
    let steps = [("test", "cat $(ls | grep ^answer) | grep -qx right && test -e target/made")];
    let act = Act::new().file("answer.txt", "none\n").file(".gitignore", "/target/\n/agent/\n");
    let act = act.prepared(image(), prepare, &steps).committed();
    let bases = act.repo().parent().unwrap().join("artifacts/cache/bases");
    let bases = || {
        let bases = fs::read_dir(&bases).into_iter().flatten().flatten();
        bases.map(|base| base.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let running = act.clone().script(&one_attempt()).start(["run", "write it", "--json"]);
    let since = std::time::Instant::now();
    while bases().is_empty() {
        assert!(since.elapsed() < Duration::from_secs(120), "no base was begun");
        std::thread::sleep(Duration::from_millis(50));
    }
    running.kill();
    assert_eq!(running.wait().killed_by(), Some(9));
    let begun = bases();
    assert!(begun.len() == 1 && begun[0].starts_with(".new-"), "{begun:?}");
    // The killed task may have written its answer already, and the next one would change nothing.
    fs::write(act.repo().join("answer.txt"), "none\n").unwrap();
    let told = act.clone().script(&one_attempt()).act(["run", "write it", "--json"]).status(0);
    assert_eq!(ran(&told), [(1, true), (1, false)], "{told}");
    assert_eq!(bases(), [begun[0].trim_start_matches(".new-")], "{told}");
    act.act(["cache", "clear"]).status(0);
}

/// VERIFIER-17, VERIFIER-51: what root and the kernel leave in the layers is no obstacle for a caller who is not root.
#[test]
fn a_caller_who_is_not_root_has_warm_attempts_and_leaves_nothing() {
    use std::os::unix::fs::MetadataExt;
    const CALLER: &str = "12321";
    if !rustix::process::geteuid().is_root() {
        // Then every test here is one of such a caller.
        return;
    }
    let Ok(socket) = fs::metadata("/var/run/docker.sock") else {
        return act_core::testing::skip("the engine has no socket that another user may open");
    };
    for user in ["caller", "root"] {
        let act = Act::new().file("answer.txt", "none\n").file(".gitignore", "/target/\n/agent/\n");
        let prepare = "mkdir -p target && id -u > target/made && echo x > /artifacts/home/x && chmod 600 /artifacts/home/x";
        let test = "cat target/made /artifacts/home/x && echo y > /artifacts/home/x && \
                    cat $(ls | grep ^answer) | grep -qx right";
        let steps = [("test", test)];
        let act = act.prepared(image(), prepare, &steps);
        let yaml = fs::read_to_string(act.repo().join("agent.yaml")).unwrap();
        let mut yaml: Value = serde_json::from_str(&yaml).unwrap();
        yaml["verification"]["user"] = json!(user);
        let act = act.file("agent.yaml", yaml.to_string()).committed();
        let turns = attempt("wrong\n").into_iter().chain(attempt("right\n"));
        let turns = opening("write it").into_iter().chain(turns).chain([done()]);
        let place = act.repo().parent().unwrap().to_owned();
        let act = act.env("XDG_CACHE_HOME", place.join("cache")).script(&script(turns));
        // Only the person lets steps be root.
        let act = act.config_toml(&format!("[verifier]\nuser = \"{user}\"\n"));
        fs::create_dir(place.join("cache")).unwrap();
        let owner = format!("{CALLER}:{CALLER}");
        let owned = Command::new("chown").args(["--recursive", &owner]).arg(&place).status();
        assert!(owned.unwrap().success());
        let as_caller = |arguments: &[&str]| {
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid",
                CALLER,
                "--regid",
                CALLER,
                "--groups",
                &socket.gid().to_string(),
            ]);
            command.arg(crate::harness::program()).args(arguments);
            command
        };
        let told = act.clone().start_command(as_caller(&["run", "write it", "--json"])).wait();
        let told = told.status(0);
        assert_eq!(ran(&told), [(1, true), (2, true), (2, false)], "{user}: {told}");
        for line in lines(&told).iter().filter(|line| line["type"] == "verify_finished") {
            let manifest = told.manifest(line["run_id"].as_str().unwrap());
            assert_eq!(line["warm"], manifest["base"].is_string(), "{user}");
        }
        // Everything belongs to the caller, who can remove it.
        let foreign = Command::new("find").arg(&place).args(["!", "-user", CALLER]).output();
        let foreign = String::from_utf8(foreign.unwrap().stdout).unwrap();
        assert_eq!(foreign, "", "{user}");
        let cleared = act.clone().start_command(as_caller(&["cache", "clear"])).wait().status(0);
        let left = fs::read_dir(place.join("artifacts/cache/bases")).unwrap().count();
        assert_eq!(left, 0, "{user}: {cleared}");
    }
}
