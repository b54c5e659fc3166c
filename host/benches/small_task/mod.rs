//! The small task that is measured: one attempt in a repository of a few files, with plan, search, read, an edit, verify
//! and done.

use act_testing::Wire;
use serde_json::json;

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

fn story() -> String {
    let rule =
        "    [ $(($1 % 4)) -eq 0 ] && { [ $(($1 % 100)) -ne 0 ] || [ $(($1 % 400)) -eq 0 ]; }";
    let turns = [plan("Century years are leap years only when 400 divides them.")]
        .into_iter()
        .chain([
            call("search", json!({"pattern": "leap"})),
            call("read", json!({"path": "leap.sh"})),
            call(
                "edit_lines",
                json!({"path": "leap.sh", "expect_version": 1, "edits": [{"start": 4, "end": 4, "new": rule}]}),
            ),
            call("read", json!({"path": "test.sh"})),
            call("verify", json!({})),
            done(),
        ]);
    script(turns)
}

/// Starts the program on the task.
pub(crate) fn start(wire: Wire) -> Running {
    Act::new()
        .files(&FILES)
        .pipeline(image(), &[("test", "sh test.sh")])
        .script_over(wire, &story())
        .start(["run", "leap says that 1900 is a leap year. Fix it."])
}
