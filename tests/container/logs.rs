//! The output of steps: exact, bounded, in order, and valid text where that is promised.

use act_core::verification::Status;

use crate::world::World;

const MIB: usize = 1024 * 1024;

// VERIFIER-15
#[tokio::test(flavor = "multi_thread")]
async fn both_streams_are_logged_in_the_order_they_were_written() {
    let world = World::new().await.step(
        "talk",
        "i=0; while [ $i -lt 200 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done",
    );
    let response = world.run().await;
    let expected: String = (0..200).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(world.log(&response, "step-01-talk.log"), expected.as_bytes());
    assert_eq!(world.log(&response, "combined.log"), expected.as_bytes());
    let tail: String = (100..200).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(response.tail_log, Some(tail));
}

// VERIFIER-15, VERIFIER-16, security line 108
#[tokio::test(flavor = "multi_thread")]
async fn any_bytes_are_kept_raw_in_the_log_and_become_text_in_the_tail() {
    let world = World::new().await.step("raw", r"printf '\377\000\033[31mred\n'");
    let response = world.run().await;
    assert_eq!(world.log(&response, "step-01-raw.log"), b"\xff\0\x1b[31mred\n");
    assert_eq!(response.tail_log.as_deref(), Some("\u{fffd}\0\u{1b}[31mred\n"));
    let json = serde_json::to_string(&response).unwrap();
    assert!(json.contains(r"\u0000\u001b[31m"), "control characters are escaped");
}

// VERIFIER-15, security line 106
#[tokio::test(flavor = "multi_thread")]
async fn endless_output_is_capped_with_a_marker_and_the_steps_own_status_stands() {
    let printed = 200 * MIB;
    let world = World::new().await.step(
        "loud",
        &format!("yes 'a line of forty bytes, more or less so' | head -c {printed}; echo; echo the end; exit 7"),
    );
    let response = world.run().await;
    assert_eq!(response.status, Status::Fail);
    assert_eq!(response.manifest.as_ref().unwrap()["commands_executed"][0]["exit_code"], 7);
    let log = world.log(&response, "step-01-loud.log");
    let left_out = printed + "\nthe end\n".len() - 65 * MIB;
    let marker = format!("\n[act: {left_out} bytes left out here, the end follows]\n");
    assert_eq!(log.len(), 65 * MIB + marker.len());
    assert_eq!(&log[64 * MIB..64 * MIB + marker.len()], marker.as_bytes());
    assert!(log.ends_with(b"\nthe end\n"));
    assert_eq!(world.log(&response, "combined.log"), log);
    let tail = response.tail_log.unwrap();
    assert_eq!(tail.lines().count(), 200);
    assert!(tail.ends_with("the end\n"));
}
