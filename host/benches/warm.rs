//! `scripts/bench warm`: the price of proof. A task of four attempts, three of them red, on a project of C that takes about a
//! minute to build: warm, and with four cold runs as without a base. Beside it the same commands as a person has them, in a
//! container that is kept and in a fresh one, on the same engine.
//!
//! BENCH_UNITS is the number of generated sources (140, for a minute on two processors), ACT_BIN the program to measure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on panics"
)]

#[allow(dead_code, reason = "a bench needs a part of it")]
#[path = "../../tests/harness/engine.rs"]
mod engine;
#[path = "../../tests/harness/mod.rs"]
mod harness;
#[path = "../../tests/container/image.rs"]
mod image;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use harness::script::{call, opening, script};
use harness::{Act, Done};
use serde_json::{Value, json};

/// The values that the three red attempts and the green attempt write; the test expects the last value.
const ANSWERS: [u32; 4] = [1, 2, 3, 42];
/// What a warm attempt, and a task, may cost at most, in times of the same work by hand.
const AIM: f64 = 1.3;
/// Functions in each generated source, which a compiler optimizes for about a second.
const PARTS: usize = 150;
/// Cells that each function works on in the test, which then takes some seconds in all.
const CELLS: usize = 16_384;

const BUILD: &str = "make -s -j2 all";
const CHECK: &str = "make -s -j2 check";

/// The Makefile, the sources and the test: `n` units, and one that holds the answer.
fn project(n: usize) -> Vec<(String, String)> {
    let makefile = "\
        OBJECTS := $(patsubst src/%.c,build/%.o,$(wildcard src/*.c))\n\
        all: build/run\n\
        build/run: $(OBJECTS) build/check.o\n\tcc -o $@ $^\n\
        build/check.o: tests/check.c tests/expected.h\n\t@mkdir -p build\n\tcc -O2 -c -o $@ $<\n\
        build/%.o: src/%.c\n\t@mkdir -p build\n\tcc -O2 -c -o $@ $<\n\
        check: build/run\n\tbuild/run\n";
    let mut files = vec![
        (".gitignore".to_owned(), "/build/\n/agent/\n".to_owned()),
        ("Makefile".to_owned(), makefile.to_owned()),
        ("tests/expected.h".to_owned(), "#define EXPECTED 42\n".to_owned()),
    ];
    let (mut declared, mut called) = (String::new(), String::new());
    for unit in 0..n {
        let (mut parts, mut sum) = (String::new(), String::new());
        for part in 0..PARTS {
            let (odd, prime, shift, rest) = (part | 1, part + 3, part % 13 + 1, part % 7);
            write!(
                parts,
                "static unsigned part_{part}(unsigned *cells, unsigned count) {{\n    unsigned sum = {part};\n    \
                 for (unsigned i = 0; i < count; i++) {{\n        cells[i] = cells[i] * {factor}u + sum;\n        \
                 sum ^= cells[i] >> {shift};\n        if (sum % 7 == {rest}) sum += cells[(i * {prime}) % count];\n        \
                 switch (sum & 7) {{ case 0: sum += {part}; break; case 1: sum ^= i; break; case 2: sum -= cells[0]; break; \
                 default: sum *= {odd}; }}\n    }}\n    return sum;\n}}\n",
                factor = 2_654_435_761 - part,
            )
            .unwrap();
            writeln!(sum, "    sum += part_{part}(cells, count);").unwrap();
        }
        let unit_of = format!(
            "{parts}unsigned unit_{unit}(unsigned *cells, unsigned count) {{\n    unsigned sum = 0;\n{sum}    return sum;\n}}\n"
        );
        // The unit that the task edits is as large as the others.
        let answer = if unit == 0 { "unsigned answer(void) { return 0; }\n" } else { "" };
        files.push((format!("src/unit_{unit}.c"), format!("{answer}{unit_of}")));
        writeln!(declared, "unsigned unit_{unit}(unsigned *, unsigned);").unwrap();
        // All units together do as much work as 140 do, so that the test takes as long whatever the number.
        let count = CELLS * 140 / n;
        writeln!(called, "    printf(\"unit {unit}: %u\\n\", unit_{unit}(cells, {count}));")
            .unwrap();
    }
    let check = format!(
        "#include <stdio.h>\n#include \"expected.h\"\n{declared}unsigned answer(void);\nstatic unsigned cells[{cells}];\n\
         int main(void) {{\n{called}    if (answer() != EXPECTED) {{\n        printf(\"tests/check.c:%d: answer is %u, expected %d\\n\", \
         __LINE__, answer(), EXPECTED);\n        return 1;\n    }}\n    return 0;\n}}\n",
        cells = CELLS * 140 / n,
    );
    files.push(("tests/check.c".to_owned(), check));
    files
}

fn run(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{command:?}\n{}{}", text(&done.stdout), text(&done.stderr));
    text(&done.stdout)
}

fn git(repo: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
    run(Command::new("git").args(identity).args(arguments).current_dir(repo));
}

/// A container as a person has one, with a copy of the project.
struct Container(String);

impl Container {
    fn of(image: &str, project: &Path) -> Self {
        let id = run(Command::new("docker")
            .args(["run", "--detach", "--init", image])
            .args(["sleep", "infinity"]));
        let container = Self(id.trim().to_owned());
        let from = format!("{}/.", project.display());
        run(Command::new("docker").args(["cp", &from, &format!("{}:/project", container.0)]));
        container
    }

    /// Returns the seconds that a command takes, whatever its exit code.
    fn seconds(&self, command: &str) -> f64 {
        let began = Instant::now();
        let arguments = ["exec", "--workdir", "/project", &self.0, "/bin/sh", "-c", command];
        Command::new("docker").args(arguments).output().unwrap();
        began.elapsed().as_secs_f64()
    }

    fn answer(&self, value: u32) {
        self.seconds(&format!("sed -i '1s/return [0-9]*/return {value}/' src/unit_0.c"));
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["rm", "--force", "--volumes", &self.0]).output();
    }
}

/// What a person spends who keeps a container: `prepare`, each attempt, and the whole once more in a fresh one.
struct ByHand {
    prepare: f64,
    attempts: Vec<f64>,
    cold: f64,
}

impl ByHand {
    fn measure(image: &str, project: &Path) -> Self {
        let container = Container::of(image, project);
        let prepare = container.seconds(BUILD);
        let attempts = ANSWERS.map(|answer| {
            container.answer(answer);
            container.seconds(CHECK)
        });
        drop(container);
        let fresh = Container::of(image, project);
        let cold = fresh.seconds(BUILD) + fresh.seconds(CHECK);
        Self { prepare, attempts: attempts.to_vec(), cold }
    }

    fn sum(&self) -> f64 {
        self.prepare + self.attempts.iter().sum::<f64>() + self.cold
    }
}

fn replace(old: &str, new: &str, path: &str) -> Value {
    call("replace", json!({"path": path, "old": old, "new": new}))
}

fn answer(before: u32, now: u32) -> Value {
    let line = |value| format!("unsigned answer(void) {{ return {value}; }}");
    replace(&line(before), &line(now), "src/unit_0.c")
}

fn done() -> Value {
    call("done", json!({"what": "Answered.", "why": "It was wrong.", "tests": "tests/check.c"}))
}

/// Four attempts; after the third red one the model makes another plan.
fn four_attempts() -> String {
    let mut turns = opening("try it");
    let before = [0].into_iter().chain(ANSWERS);
    for (number, (before, now)) in before.zip(ANSWERS).enumerate() {
        if number == 3 {
            turns.extend(opening("think"));
        }
        turns.extend([answer(before, now), call("verify", json!({}))]);
    }
    turns.push(done());
    script(turns)
}

/// One attempt that changes a test as well, so that the change is compared with the start in two more runs.
fn one_attempt_with_a_test() -> String {
    let mut turns = opening("do it");
    turns.extend([
        answer(0, 43),
        replace("EXPECTED 42", "EXPECTED 43", "tests/expected.h"),
        call("verify", json!({})),
        done(),
        done(),
    ]);
    script(turns)
}

/// One run of a task: whether it was warm, its result, and its seconds.
struct Ran {
    warm: bool,
    status: String,
    began: DateTime<Utc>,
    seconds: f64,
}

struct Task {
    seconds: f64,
    /// From the start of the task to its first run.
    until_first: f64,
    runs: Vec<Ran>,
    /// From the end of the last run to the end of the task.
    after_last: f64,
}

impl Task {
    fn run(act: &Act) -> Self {
        let program = std::env::var_os("ACT_BIN").unwrap_or_else(|| harness::program().into());
        let mut command = Command::new(program);
        command.args(["run", "Let the answer be right.", "--json"]);
        let began = Instant::now();
        let running = act.clone().start_command(command);
        // Cold tasks may take longer than the harness waits.
        while !running.has_ended() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let seconds = began.elapsed().as_secs_f64();
        let told = running.wait().status(0).script_used_up();
        git(&act.repo(), &["checkout", "--quiet", "--", "."]);
        Self::of(&told, seconds)
    }

    fn of(told: &Done, seconds: f64) -> Self {
        let lines = harness::json::parse(&told.stdout_text());
        let time = |line: &Value| line["time"].as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
        let of = |kind: &str| -> Vec<&Value> {
            lines.iter().filter(|line| line["type"] == kind).collect()
        };
        let between = |from: DateTime<Utc>, to: DateTime<Utc>| (to - from).as_seconds_f64();
        let (began, ended) = (of("verify_started"), of("verify_finished"));
        let runs = began.iter().zip(&ended).map(|(began, ended)| Ran {
            warm: ended["warm"] == true,
            status: ended["status"].as_str().unwrap().to_owned(),
            began: time(began),
            seconds: between(time(began), time(ended)),
        });
        let runs: Vec<_> = runs.collect();
        let end = time(ended.last().unwrap());
        Self {
            seconds,
            until_first: between(time(of("task_started")[0]), runs[0].began),
            after_last: between(end, time(of("task_finished")[0])),
            runs,
        }
    }

    /// The seconds from each call of `verify` to its answer, and those of a cold run among them.
    fn shown(&self) -> String {
        let each = |ran: &Ran| {
            let warm = if ran.warm { "warm" } else { "cold" };
            format!("{} {warm} {:.1}", ran.status, ran.seconds)
        };
        self.runs.iter().map(each).collect::<Vec<_>>().join(", ")
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = values.len() / 2;
    if values.len() % 2 == 1 { values[at] } else { (values[at - 1] + values[at]) / 2.0 }
}

fn show(what: &str, seconds: f64, more: &str) {
    println!("{what:<58}{seconds:>8.1} s  {more}");
}

fn main() {
    let units = std::env::var("BENCH_UNITS").ok().and_then(|units| units.parse().ok());
    let root = act_core::testing::checkout();
    let listed = run(Command::new(root.join("scripts/test-images")).arg("c"));
    let Some((_, image)) = listed.trim().split_once('=') else {
        println!("no image with a compiler of C: see above");
        return;
    };
    let pipeline = json!({"verification": {
        "container_image": image,
        "network": "off",
        "prepare": [{"name": "build", "command": BUILD}],
        "steps": [{"name": "check", "command": CHECK}],
    }});
    let act = project(units.unwrap_or(140))
        .iter()
        .fold(Act::new(), |act, (path, text)| act.file(path, text));
    let act = act.file("agent.yaml", pipeline.to_string());
    git(&act.repo(), &["add", "--all"]);
    git(&act.repo(), &["commit", "--quiet", "--message", "x"]);
    // Compiles the components and connects the engine, which the first task of an installation does.
    act.clone().act(["verify", "--help"]).status(0);

    let hand = ByHand::measure(image, &act.repo());
    let warm = Task::run(&act.clone().script(&four_attempts()));
    let tested = Task::run(&act.clone().script(&one_attempt_with_a_test()));
    let off = act.clone().config_toml("[verifier]\nwarm = \"off\"\n");
    let cold = Task::run(&off.script(&four_attempts()));

    let by_hand = median(hand.attempts.clone());
    show("by hand: `prepare` in a container that is kept", hand.prepare, "");
    show("by hand: the steps after an edit there, median of 4", by_hand, "");
    show("by hand: `prepare` and steps in a fresh container", hand.cold, "");
    show("by hand: prepare, 4 x the steps, once in a fresh one", hand.sum(), "");
    let times = |ratio: f64| format!("{ratio:.2} x by hand, aim: {AIM}");
    show("act, four attempts, three red, warm", warm.seconds, &times(warm.seconds / hand.sum()));
    show("  until the first run: the base is made", warm.until_first, "");
    let warm_runs: Vec<_> =
        warm.runs.iter().filter(|ran| ran.warm).map(|ran| ran.seconds).collect();
    let attempt = median(warm_runs);
    show("  a warm run, median of 4", attempt, &times(attempt / by_hand));
    let last: f64 = warm.runs.iter().filter(|ran| !ran.warm).map(|ran| ran.seconds).sum();
    show("  the cold run that decides", last, &format!("{:.2} x by hand", last / hand.cold));
    println!("  its runs: {}", warm.shown());
    let saved = format!("{:.2} x the warm task", cold.seconds / warm.seconds);
    show("act, the same task with `warm: off`", cold.seconds, &saved);
    println!("  its runs: {}", cold.shown());
    show("red first and old tests of a task that changes a test", tested.after_last, "apart");
    println!("  its runs before: {}", tested.shown());
}
