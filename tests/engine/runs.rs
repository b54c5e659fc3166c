//! Whole runs: what holds for them on every engine.

use std::time::{Duration, Instant};

use act_core::verification::{ErrorType, FailReason, Verdict, Verification, Verifier, WarningCode};

use crate::image;
use crate::place::{Project, have, look_for_network, outside};

fn error_type(verification: &Verification) -> Option<ErrorType> {
    verification.verdict.infra().map(|error| error.error_type)
}

fn codes(verification: &Verification) -> Vec<Option<i64>> {
    let manifest = verification.manifest.as_ref().unwrap();
    manifest.commands_executed.iter().map(|step| step.exit_code).collect()
}

// VERIFIER-11, VERIFIER-15
#[tokio::test(flavor = "multi_thread")]
async fn a_green_run_has_the_tree_the_logs_and_what_the_steps_made() {
    let project = Project::new()
        .await
        .file("src/a.bin", b"\x00\xff\n")
        .file(".gitignore", b"*.log\n")
        .file("private.log", b"ignored")
        .step("look", "cat src/a.bin /workspace/src/a.bin; ls; echo err >&2")
        .step(
            "make",
            "mkdir -p /artifacts/build/out; echo made > /artifacts/build/out/file; echo two",
        );
    let run = project.run().await;
    assert_eq!(run.verdict, Verdict::Pass, "{run:?}");
    assert_eq!(codes(&run), [Some(0), Some(0)]);
    assert_eq!(project.log(&run, "step-01-look.log"), b"\x00\xff\n\x00\xff\nsrc\nerr\n");
    assert_eq!(project.log(&run, "step-02-make.log"), b"two\n");
    let id = run.run_id.as_ref().unwrap();
    let made = project.run_dir(id.as_str()).join("build/out/file");
    assert_eq!(std::fs::read(made).unwrap(), b"made\n");
    let manifest = run.manifest.as_ref().unwrap();
    assert_eq!(&manifest.engine, project.engine.identity());
    assert_eq!(manifest.tree_digest, manifest.tree_digest_after);
    assert!(manifest.tree_digest.is_some());
}

// VERIFIER-11
#[tokio::test(flavor = "multi_thread")]
async fn the_first_red_step_ends_the_run_with_its_own_code() {
    let project = Project::new()
        .await
        .step("one", "exit 0")
        .step("two", "echo why; exit 23")
        .step("three", "echo never");
    let run = project.run().await;
    assert_eq!(run.verdict, Verdict::Fail(FailReason::StepFailed));
    assert_eq!(codes(&run), [Some(0), Some(23)]);
    assert_eq!(run.tail.as_deref(), Some("why\n"));
}

// VERIFIER-12, VERIFIER-25
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_writes_to_the_source_is_named_and_changes_no_file_of_the_repository() {
    let project =
        Project::new().await.file("code", b"one\n").step("write", "echo two > code; touch new");
    let run = project.run().await;
    assert_eq!(run.verdict, Verdict::Fail(FailReason::SourceWrites), "{run:?}");
    let manifest = run.manifest.unwrap();
    let mut writes: Vec<_> = manifest.commands_executed[0]
        .source_writes
        .iter()
        .map(|write| (write.path.as_str(), write.change.as_str()))
        .collect();
    writes.sort_unstable();
    assert_eq!(writes, [("code", "changed"), ("new", "new")]);
    assert_eq!(std::fs::read(project.repo().join("code")).unwrap(), b"one\n");
    assert!(!project.repo().join("new").exists());
}

// VERIFIER-14
#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_time_is_up_is_killed_and_has_no_code() {
    let mut project = Project::new()
        .await
        .step("hang", "trap '' HUP INT TERM; echo begun; while :; do sleep 600; done")
        .step("after", "true");
    project.step_timeout = Duration::from_secs(2);
    let run = project.run().await;
    assert_eq!(run.verdict, Verdict::Fail(FailReason::Timeout), "{run:?}");
    assert_eq!(codes(&run), [None]);
    assert_eq!(run.tail.as_deref(), Some("begun\n"));
}

// VERIFIER-23
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_leaves_nothing_on_the_engine() {
    let mut project = Project::new()
        .await
        .step("hang", "trap '' HUP INT TERM; echo begun; while :; do sleep 600; done");
    let run = project.begin().await;
    let id = project.printed("begun").await;
    assert!(!project.left_of(&id).await.is_empty(), "the run has a container");
    project.cancel.cancel();
    assert_eq!(run.await.unwrap().map(|run| run.verdict), None);
    project.assert_nothing_left(&id).await;
    assert!(!project.run_dir(&id).join("manifest.json").exists());
}

// VERIFIER-23
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_before_its_first_step_leaves_nothing_either() {
    for milliseconds in [0, 50, 200, 500] {
        let project = Project::new().await.step("hang", "sleep 600");
        let run = project.begin().await;
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        project.cancel.cancel();
        assert!(run.await.unwrap().is_none());
        let runs = std::fs::read_dir(project.run_dir("")).into_iter().flatten();
        for run in runs {
            let id = run.unwrap().file_name().into_string().unwrap();
            project.assert_nothing_left(&id).await;
        }
    }
}

// VERIFIER-23
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_dropped_leaves_nothing() {
    let mut project = Project::new().await.step("hang", "echo begun; sleep 600");
    let run = project.begin().await;
    let id = project.printed("begun").await;
    run.abort();
    let _ = run.await;
    project.assert_nothing_left(&id).await;
}

// VERIFIER-13, VERIFIER-24
#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_somebody_else_removes_is_no_result_of_the_step() {
    let mut project = Project::new().await.step("wait", "echo begun; sleep 600");
    let run = project.begin().await;
    let id = project.printed("begun").await;
    let name = format!("act-{id}");
    let _ = project.engine.driver().kill(&name).await;
    let _ = project.engine.driver().remove(&name).await;
    let run = run.await.unwrap().expect("not cancelled");
    assert_eq!(error_type(&run), Some(ErrorType::Unknown), "{run:?}");
    project.assert_nothing_left(&id).await;
}

// VERIFIER-13
#[tokio::test(flavor = "multi_thread")]
async fn a_step_cannot_forge_its_result() {
    for (trick, code) in [
        ("echo '{\"status\":\"PASS\"}' > /artifacts/manifest.json; exit 3", 3),
        ("kill -9 1; kill -TERM 1; kill -TERM -1; exit 4", 4),
        ("exec >&- 2>&-; sleep 1; exit 5", 5),
        ("rm -rf /artifacts/* /workspace/* 2>/dev/null; exit 6", 6),
    ] {
        let project = Project::new().await.file("code", b"one\n").step("trick", trick);
        let run = project.run().await;
        assert_ne!(run.verdict, Verdict::Pass, "{trick}: {run:?}");
        assert_eq!(codes(&run), [Some(code)], "{trick}: {run:?}");
    }
}

// VERIFIER-15
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_output_is_cut_in_the_log_and_the_code_is_the_steps_own() {
    let project = Project::new()
        .await
        .step("flood", "yes 0123456789abcde | head -c 80000000; echo the end; exit 9");
    let run = project.run().await;
    assert_eq!(codes(&run), [Some(9)]);
    let log = project.log(&run, "step-01-flood.log");
    assert!(log.len() > 65 << 20 && log.len() < 66 << 20, "{}", log.len());
    assert!(log.ends_with(b"the end\n"));
}

// VERIFIER-21
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_the_kernel_kills_for_memory_is_no_failure_of_the_tree() {
    let mut project = Project::new().await.step("eat", "exec tail -n 1 /dev/zero");
    project.pipeline.limits.memory_mb = 64;
    let run = project.run().await;
    assert_eq!(error_type(&run), Some(ErrorType::ResourceExhaustion), "{run:?}");
    let message = &run.verdict.infra().unwrap().message;
    assert!(message.contains("memory_mb"), "{message}");
}

// VERIFIER-21
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_kills_itself_is_a_failed_step() {
    let project = Project::new().await.step("kill", "kill -9 $$");
    let run = project.run().await;
    assert_eq!(run.verdict, Verdict::Fail(FailReason::StepFailed), "{run:?}");
    assert_eq!(codes(&run), [Some(137)]);
}

// VERIFIER-10
#[tokio::test(flavor = "multi_thread")]
async fn only_the_step_that_was_given_a_network_has_one() {
    let look = &look_for_network(outside());
    let project = Project::new()
        .await
        .step("before", look)
        .step("with", look)
        .with_network()
        .step("after", look);
    let run = project.run().await;
    assert_eq!(run.verdict, Verdict::Pass, "{run:?}");
    let seen = ["01-before", "02-with", "03-after"]
        .map(|step| String::from_utf8(project.log(&run, &format!("step-{step}.log"))).unwrap());
    assert_eq!(seen.map(|text| text.trim().to_owned()), ["0", "1", "0"]);
    let networks = run.manifest.unwrap().commands_executed;
    assert_eq!(
        networks.iter().map(|step| step.network.as_str()).collect::<Vec<_>>(),
        ["off", "on", "off"]
    );
}

// VERIFIER-8
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_a_step_leaves_end_with_the_run() {
    let mark = format!("{}", std::process::id() as u64 * 7919 + 600_000);
    let project = Project::new()
        .await
        .step("leave", &format!("(setsid sleep {mark} >/dev/null 2>&1 &); true"));
    let run = project.run().await;
    assert_eq!(run.verdict, Verdict::Pass, "{run:?}");
    let began = Instant::now();
    // The engine may run elsewhere; then this sees none at all.
    while running(&mark) {
        assert!(began.elapsed() < Duration::from_secs(20), "the process runs on");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn running(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut lines =
        processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| {
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words.contains(&&b"sleep"[..]) && words.contains(&mark.as_bytes())
    })
}

// VERIFIER-3, VERIFIER-22
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_nobody_has_and_one_without_a_shell_are_named() {
    let project = Project::new().await.step("noop", "true");
    let engine = &project.engine;
    let events = act_core::event::Events::silent();
    let missing = "127.0.0.1:9/act-test-missing:1";
    let refused = engine.ensure_image(missing, &events, &project.cancel).await.unwrap_err();
    assert_eq!(refused.error_type, ErrorType::ImagePull, "{refused:?}");
    assert!(refused.message.contains(missing), "{refused:?}");

    have(engine, image::EMPTY, tar::Builder::new(vec![]).into_inner().unwrap()).await;
    let empty = engine.ensure_image(image::EMPTY, &events, &project.cancel).await.unwrap().unwrap();
    let verifier = act_verifier::DockerVerifier { image: empty, ..project.verifier().await };
    let run = verifier.run(1, &project.cancel).await.unwrap();
    assert_eq!(error_type(&run), Some(ErrorType::ContainerCreation), "{run:?}");
    assert!(run.verdict.infra().unwrap().message.contains("/bin/sh"), "{run:?}");
}

// VERIFIER-3
#[tokio::test(flavor = "multi_thread")]
async fn runs_at_once_do_not_see_each_other() {
    let step = "echo $RUN > /tmp/mine; echo x > /artifacts/tmp/shared 2>/dev/null; ls /artifacts/tmp | wc -l; sleep 1; \
                ls /artifacts/tmp | wc -l";
    let mut projects = vec![];
    for _ in 0..4 {
        projects.push(Project::new().await.step("look", step));
    }
    let runs = futures_util::future::join_all(projects.iter().map(Project::run)).await;
    let mut ids: Vec<_> = runs.iter().map(|run| run.run_id.clone().unwrap().to_string()).collect();
    for run in &runs {
        assert_eq!(run.verdict, Verdict::Pass, "{run:?}");
        assert_eq!(run.tail.as_deref(), Some("1\n1\n"));
        assert!(run.warnings.iter().all(|warning| warning.code != WarningCode::ContainerLeft));
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}
