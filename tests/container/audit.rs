//! A run of the gate in the audit log, and no run without it.

use act_core::verification::{ErrorType, Status};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::world::World;

fn events(world: &World) -> Vec<String> {
    let event = |record: &serde_json::Value| record["event"].as_str().unwrap().to_owned();
    world.audited().iter().map(event).collect()
}

// AUDIT-10, AUDIT-12
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_recorded_with_its_walls_and_its_manifest_names_the_last_record() {
    let world = World::new().await.step("test", "true");
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass);
    let expected = ["gate_started", "container_requested", "container_inspected"];
    let (before, after) = (events(&world), world.audited());
    assert_eq!(before[..3], expected);
    // If the caller is not root, one more container changes the owner of root's files.
    assert_eq!(before.last().unwrap(), "gate_finished");
    let mut manifest = response.manifest.unwrap();
    let finished = after.last().unwrap();
    assert_eq!(manifest["audit_head"], finished["hash"]);
    assert_eq!(finished["digests"]["tree"], manifest["tree_digest"]);
    assert_eq!(finished["object"], manifest["run_id"]);
    // All of the manifest is held to, and the image by what the engine calls it.
    assert_eq!((&finished["counts"]["warnings"], &finished["names"]), (&json!(0), &json!([])));
    let id = world.engine.find_image(crate::image::BUSYBOX).await.unwrap().unwrap().id;
    assert_eq!(finished["digests"]["image_id"], id.trim_start_matches("sha256:"));
    manifest.as_object_mut().unwrap().shift_remove("audit_head");
    let whole: String = Sha256::digest(manifest.to_string().as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(finished["digests"]["manifest"], whole);
    let asked = after[1]["names"].as_array().unwrap();
    let given = after[2]["names"].as_array().unwrap();
    // Podman reports dropped capabilities by name, and mounts as it got them.
    for (wall, in_other_words) in [
        ("privileged=false", "privileged=false"),
        ("cap_drop=ALL", "cap_drop=AUDIT_WRITE,CHOWN,DAC_OVERRIDE,"),
        ("network=none", "network=none"),
        ("mount /workspace ro", ":/workspace:ro"),
    ] {
        assert!(asked.iter().any(|said| said == wall), "{wall} of {asked:?}");
        let given_as = |said: &str| said == wall || said.contains(in_other_words);
        assert!(given.iter().any(|said| given_as(said.as_str().unwrap())), "{wall} of {given:?}");
    }
}

// AUDIT-5
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_be_recorded_does_not_start() {
    let world = World::new().await.step("test", "touch /artifacts/db/ran");
    std::fs::create_dir(world.audit.path()).unwrap();
    let response = world.run().await;
    assert_eq!(
        (response.status, response.error_type),
        (Status::InfraError, Some(ErrorType::Unknown))
    );
    let message = response.error_message.clone().unwrap();
    assert!(message.contains("audit.jsonl is a directory"), "{message}");
    assert!(!world.run_dir(&response).join("db/ran").exists());
    assert!(response.manifest.unwrap()["audit_head"].is_null());
}
