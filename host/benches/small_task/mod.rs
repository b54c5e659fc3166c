//! The small task that is measured: one attempt in a repository of a few files, with plan, search, read, an edit, verify
//! and done.

use act_testing::Wire;
use serde_json::{Value, json};

use crate::harness::script::{call, done, plan, script};
use crate::harness::{Act, Running, image};

const FILES: [(&str, &str); 5] = [
    ("answer.txt", "none\n"),
    ("README.md", "# Leap\n\nTells leap years from others.\n\n    sh leap.sh 2024\n"),
    (
        "leap.sh",
        "#!/bin/sh\n# Succeeds for leap years.\nleap() {\n    [ $(($1 % 4)) -eq 0 ]\n}\n\nleap \"$1\"\n",
    ),
    (
        "test.sh",
        "#!/bin/sh\nfailed=0\ncheck() {\n    sh leap.sh \"$1\"; got=$?\n    [ $got -eq \"$2\" ] && echo \"ok $1\" || { echo \"FAIL $1\"; failed=1; }\n}\ncheck 2024 0\ncheck 2023 1\ncheck 1900 1\ncheck 2000 0\nexit $failed\n",
    ),
    ("Makefile", "test:\n\tsh test.sh\n"),
];

/// The number of calls that the model puts into one turn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// One call a turn, as many models of small providers do.
    One,
    /// The calls that do not need each other's answers, as the prompt asks and live models do.
    Several,
}

/// The command line of the task.
pub(crate) const TASK: [&str; 2] = ["run", "leap says that 1900 is a leap year. Fix it."];

fn story(pace: Pace) -> String {
    let rule =
        "    [ $(($1 % 4)) -eq 0 ] && { [ $(($1 % 100)) -ne 0 ] || [ $(($1 % 400)) -eq 0 ]; }";
    let plan = plan("Century years are leap years only when 400 divides them.");
    let search = call("search", json!({"pattern": "leap"}));
    let read = |path: &str| call("read", json!({"path": path}));
    let edit = call(
        "edit_lines",
        json!({"path": "leap.sh", "expect_version": 1, "edits": [{"start": 4, "end": 4, "new": rule}]}),
    );
    match pace {
        Pace::One => {
            let verify = call("verify", json!({}));
            script([plan, search, read("leap.sh"), edit, read("test.sh"), verify, done()])
        }
        Pace::Several => script([
            together([search, read("leap.sh"), read("test.sh")]),
            together([plan, edit, done()]),
        ]),
    }
}

/// Puts the calls of several turns into one.
fn together(turns: impl IntoIterator<Item = Value>) -> Value {
    let calls = turns.into_iter().map(|turn| turn["call"].clone()).collect::<Vec<_>>();
    json!({"role": "editor", "calls": calls})
}

/// Makes the repository and the model of the task.
pub(crate) fn prepare(wire: Wire, pace: Pace) -> Act {
    Act::new()
        .files(&FILES)
        .pipeline(image(), &[("test", "sh test.sh")])
        .script_over(wire, &story(pace))
}

/// Starts the program on the task.
pub(crate) fn start(wire: Wire, pace: Pace) -> Running {
    prepare(wire, pace).start(TASK)
}
