//! Bytes that a component takes, and those that it hands to the host.

use act_component::{ComponentFailure, Grant, Limit, Limits};
use tokio_util::sync::CancellationToken;

use super::scout_with;
use crate::hostile::{PLENTY, attack, load, nothing, question};

// security line 16; the host's own memory is measured in a process of its own
#[tokio::test]
async fn security_line_16_a_memory_bomb_is_refused_at_the_grant() {
    let hostile = load(Grant::builtin_scout());
    let had = attack(&hostile, "grow", &[], nothing()).await.unwrap().as_u64().unwrap();
    assert!(had <= 256 << 20 && had > 200 << 20, "{had}");
    let ended = attack(&hostile, "allocate", &[], nothing()).await;
    assert!(matches!(ended, Err(ComponentFailure::Limit(Limit::Memory))), "{ended:?}");
    let small = load(scout_with(Limits { memory_bytes: 32 << 20, ..Limits::default() }));
    let had = attack(&small, "grow", &[], nothing()).await.unwrap().as_u64().unwrap();
    assert!(had <= 32 << 20, "{had}");
}

#[tokio::test]
async fn security_line_18_half_a_gigabyte_goes_neither_out_nor_into_a_host_call() {
    // The guest may hold that much; the host takes no more than its bound all the same.
    let hostile = load(scout_with(Limits { memory_bytes: 1 << 30, ..Limits::default() }));
    for waste in ["huge-report", "huge-argument"] {
        let ended = attack(&hostile, waste, &[], nothing()).await;
        assert!(
            matches!(ended, Err(ComponentFailure::Limit(Limit::HostCall))),
            "{waste}: {ended:?}"
        );
        let next = attack(&hostile, "remember", &[], nothing()).await;
        assert!(next.is_ok(), "the next query works: {next:?}");
    }
}

#[tokio::test]
async fn one_call_hands_the_host_no_more_than_its_limit() {
    let hostile = load(Grant::builtin_scout());
    let (fits, over) = ((8 << 20).to_string(), ((8 << 20) + 1).to_string());
    attack(&hostile, "argument", &[&fits], nothing()).await.unwrap();
    let ended = attack(&hostile, "argument", &[&over], nothing()).await;
    assert!(matches!(ended, Err(ComponentFailure::Limit(Limit::HostCall))), "{ended:?}");
}

#[tokio::test]
async fn a_report_over_its_own_limit_is_refused() {
    let hostile = load(Grant::builtin_scout());
    let length = async |bytes: u64| {
        let never = CancellationToken::new();
        let bytes = bytes.to_string();
        let asked = hostile.ask(question("long-report", &[&bytes]), nothing(), PLENTY, &never);
        asked.await.map(|report| report.len())
    };
    assert_eq!(length(4 << 20).await.unwrap(), 4 << 20);
    let over = length((4 << 20) + 1).await;
    assert!(matches!(over, Err(ComponentFailure::Limit(Limit::Result))), "{over:?}");
}

/// Runs the attacks of lines 16 and 18 alone in this process and says how far its memory rose.
#[tokio::test]
#[ignore = "run by `the_hosts_memory_stays_bounded` in a process of its own"]
async fn measure_memory() {
    let own = |field: &str| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    let hostile = load(scout_with(Limits { memory_bytes: 64 << 20, ..Limits::default() }));
    let roomy = load(scout_with(Limits { memory_bytes: 1 << 30, ..Limits::default() }));
    let before = own("VmHWM");
    attack(&hostile, "grow", &[], nothing()).await.unwrap();
    let grown = own("VmHWM") - before;
    for waste in ["huge-report", "huge-argument"] {
        attack(&roomy, waste, &[], nothing()).await.unwrap_err();
    }
    println!("measured {grown} {}", own("VmHWM") - before);
}

// security lines 16 and 18
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_hosts_memory_stays_bounded() {
    load(Grant::builtin_scout()); // compiled here, so that compiling is not what is measured
    let test = "component_limits::memory::measure_memory";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = shown
        .lines()
        .find_map(|line| line.split_once("measured "))
        .unwrap_or_else(|| panic!("{shown}"));
    let numbers: Vec<u64> = line.1.split(' ').map(|number| number.parse().unwrap()).collect();
    for number in numbers {
        assert!(number < (64 + 64) << 20, "{shown}");
    }
}
