//! A command line whose task runs on an engine.

use crate::harness::script::script;
use crate::harness::{Act, image};

/// CLI-4: an item of a list is a task as well.
#[test]
fn a_task_that_begins_with_a_dash_is_taken_behind_two_and_told_about_elsewhere() {
    let told = Act::new().act(["run", "- fix the parser"]).status(2).stdout("");
    told.stderr_has("begins with a dash, after all options: act run -- \"- fix the parser\"");
    let silent = || serde_json::json!({"role": "editor", "text": "hm"});
    let act = Act::new().pipeline(image(), &[("test", "true")]);
    let told = act.script(&script([silent(), silent(), silent()]));
    let told = told.act(["run", "--json", "--", "- fix the parser"]).status(3);
    assert!(told.stdout_text().contains("\"text\":\"- fix the parser\""), "{told}");
    assert!(told.requests()[0].body.to_string().contains("- fix the parser"), "{told}");
}
