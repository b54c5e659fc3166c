//! `prepare`: cold runs execute it, a warm base holds what it left, and no verdict comes from the base alone.

use act_config::Step;
use act_core::verification::{FailReason, Status};

use crate::world::{VerifyResponse, World};

impl World {
    /// A step of `prepare`, without network.
    fn prepare(mut self, name: &str, command: &str) -> Self {
        let (name, command) = (name.into(), command.into());
        self.pipeline.prepare.push(Step { name, command, network: false });
        self
    }
}

/// The names of the steps that a run executed.
fn executed(response: &VerifyResponse) -> Vec<&str> {
    let commands = response.manifest.as_ref().unwrap()["commands_executed"].as_array().unwrap();
    commands.iter().map(|command| command["name"].as_str().unwrap()).collect()
}

// VERIFIER-11, CONFIG-50
#[tokio::test(flavor = "multi_thread")]
async fn a_cold_run_prepares_and_tests_in_one_container() {
    let world = World::new()
        .await
        .file("code", "one\n")
        .prepare("build", "mkdir target && cp code target/made && echo $$ > /artifacts/home/here")
        .step("test", "grep -q one target/made && test -f /artifacts/home/here");
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    assert_eq!(executed(&response), ["build", "test"]);
    assert!(world.log(&response, "step-01-build.log").is_empty());

    let world = world.prepare("broken", "exit 3");
    let response = world.run().await;
    assert_eq!((response.status, response.reason), (Status::Fail, Some(FailReason::StepFailed)));
    assert_eq!(executed(&response), ["build", "broken"]);
}
