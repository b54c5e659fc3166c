//! The interface to an engine by itself.

use std::io;
use std::time::{Duration, Instant};

use act_verifier::driver::{Ability, Command, ContainerRequest, MountSource, Role};
use bytes::Bytes;
use futures_util::{StreamExt, stream};

use crate::image;
use crate::place::{
    PATIENCE, Sandbox, can, engine, mounted, new_volume, status, unique, volumes_of,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_status_404() {
    let engine = engine().await;
    let (driver, missing) = (engine.driver(), unique("missing"));
    let image = format!("docker.io/library/{missing}:1");
    assert_eq!(status(driver.image(&image).await), Some(404));
    assert_eq!(status(driver.image(&"ab".repeat(32)).await), Some(404), "an id without algorithm");
    assert_eq!(status(driver.inspect(&missing).await), Some(404));
    assert_eq!(status(driver.kill(&missing).await), Some(404));
    assert_eq!(status(driver.remove(&missing).await), Some(404));
    assert_eq!(status(driver.remove_volume(&missing).await), Some(404));
    let sandbox = Sandbox::new().await;
    assert_eq!(status(driver.stat(&sandbox.name, "/no/such/path").await), Some(404));
    assert_eq!(status(sandbox.archive("/no/such/path").await), Some(404));
    driver.stat(&sandbox.name, "/bin/sh").await.unwrap();
    let request = ContainerRequest { image_id: image, ..Sandbox::request(&engine).await };
    assert_eq!(status(driver.create(&missing, &request).await), Some(404));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_found_by_its_name_and_by_its_id() {
    let engine = engine().await;
    let by_name = engine.driver().image(image::BUSYBOX).await.unwrap();
    let id = by_name.id.clone().unwrap();
    let by_id = engine.driver().image(&id).await.unwrap();
    assert_eq!(by_id.id, by_name.id);
    let bare = id.trim_start_matches("sha256:");
    assert_eq!(engine.driver().image(bare).await.unwrap().id, by_name.id);
    assert_eq!((by_name.os.as_str(), by_name.arch.is_empty()), ("linux", false));
    assert!(by_name.bytes > 100_000, "{by_name:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_its_own_exit_code_and_its_output_byte_for_byte() {
    let sandbox = Sandbox::new().await;
    for code in [0, 1, 3, 42, 255] {
        assert_eq!(sandbox.run(&format!("exit {code}")).await.code, code);
    }
    let raw = sandbox.run(r"printf '\377\000\033[31mred\r\n\n'").await;
    assert_eq!((raw.code, raw.output.as_slice()), (0, &b"\xff\0\x1b[31mred\r\n\n"[..]));
    let order =
        sandbox.run("i=0; while [ $i -lt 100 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done");
    let expected: String = (0..100).map(|i| format!("o{i}\ne{i}\n")).collect();
    assert_eq!(order.await.text(), expected);
    let silent = sandbox.run("exec >/dev/null 2>&1; echo x; exit 9").await;
    assert_eq!((silent.code, silent.output.len()), (9, 0));
    let large = sandbox.run("yes 0123456789abcde | head -c 20000000; exit 5").await;
    assert_eq!((large.code, large.output.len()), (5, 20_000_000));
    assert!(large.output.chunks(16).all(|line| line == b"0123456789abcde\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_the_environment_and_the_directory_that_were_asked_for() {
    let sandbox = Sandbox::new().await;
    assert_eq!(sandbox.run("echo $GIVEN; pwd").await.text(), "by the request\n/\n");
    let arguments = ["/bin/sh", "-c", "pwd"].map(str::to_owned).to_vec();
    let command = Command { arguments, directory: Some("/etc".to_owned()) };
    let exec = sandbox.driver().prepare_exec(&sandbox.name, command).await.unwrap();
    let mut output = sandbox.driver().start_exec(&exec).await.unwrap();
    let piece = output.next().await.unwrap().unwrap();
    assert_eq!((&piece.bytes[..], piece.cut), (&b"/etc\n"[..], false));
}

// VERIFIER-20
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_cannot_be_executed_has_126_or_127_or_is_refused() {
    let sandbox = Sandbox::new().await;
    for program in ["/no/such/program", "/etc"] {
        let command = Command { arguments: vec![program.to_owned()], directory: None };
        let Ok(exec) = sandbox.driver().prepare_exec(&sandbox.name, command).await else {
            continue;
        };
        if let Ok(mut output) = sandbox.driver().start_exec(&exec).await {
            while output.next().await.is_some() {}
        }
        let code = sandbox.exit_code(&exec).await;
        assert!([126, 127].contains(&code), "{program}: {code}");
    }
    assert!(sandbox.driver().inspect(&sandbox.name).await.unwrap().running);
}

// VERIFIER-13
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_closes_its_output_still_runs() {
    let sandbox = Sandbox::new().await;
    let (exec, mut output) = sandbox.begin("exec >&- 2>&-; sleep 3; exit 4").await;
    while output.next().await.is_some() {}
    let state = sandbox.driver().exec_state(&exec).await.unwrap();
    // An engine may also end the stream with the command.
    assert!(state.running == Some(true) || state.exit_code == Some(4), "{state:?}");
    assert_eq!(sandbox.exit_code(&exec).await, 4);
}

// VERIFIER-14
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_ends_every_process_whatever_it_ignores() {
    let sandbox = Sandbox::new().await;
    let (exec, mut output) = sandbox
        .begin("trap '' HUP INT TERM; (trap '' HUP INT TERM; sleep 600) & echo ready; sleep 600; echo on")
        .await;
    assert_eq!(output.next().await.unwrap(), b"ready\n");
    let driver = sandbox.driver();
    driver.kill(&sandbox.name).await.unwrap();
    let rest = tokio::time::timeout(PATIENCE, output.collect::<Vec<_>>()).await.unwrap();
    assert!(!rest.concat().ends_with(b"on\n"));
    let began = Instant::now();
    while driver.inspect(&sandbox.name).await.is_ok_and(|found| found.running) {
        assert!(began.elapsed() < PATIENCE, "the container runs on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The result of the command is none, or that of a kill.
    let state = driver.exec_state(&exec).await.unwrap_or_default();
    assert!(state.exit_code.is_none_or(|code| code != 0), "{state:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_container_has_the_exit_code_of_its_script() {
    let engine = engine().await;
    for code in [0, 7] {
        let script = Some(format!("exit {code}"));
        let request = ContainerRequest { script, ..Sandbox::request(&engine).await };
        let sandbox = Sandbox::start(&engine, request).await;
        assert_eq!(sandbox.driver().wait(&sandbox.name).await.unwrap(), Some(code));
    }
}

// VERIFIER-18
#[tokio::test(flavor = "multi_thread")]
async fn a_container_ends_by_itself_after_its_lifetime() {
    let engine = engine().await;
    let request = ContainerRequest { lifetime_seconds: 1, ..Sandbox::request(&engine).await };
    let sandbox = Sandbox::start(&engine, request).await;
    assert_eq!(sandbox.driver().wait(&sandbox.name).await.unwrap(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_container_is_gone_with_its_processes_and_its_volume_stays_until_it_is_removed() {
    if !can(Ability::KeepVolumes).await {
        return;
    }
    let engine = engine().await;
    let volume = unique("volume");
    let request = ContainerRequest {
        volumes: vec![new_volume(&volume)],
        mounts: vec![mounted(&volume, "/data", false)],
        user: act_verifier::driver::StepUser::Root,
        ..Sandbox::request(&engine).await
    };
    let sandbox = Sandbox::start(&engine, request).await;
    let driver = sandbox.driver();
    assert_eq!(sandbox.run("echo one > /data/file").await.code, 0);
    assert!(status(driver.remove_volume(&volume).await).is_some(), "a volume in use stays");
    driver.kill(&sandbox.name).await.unwrap();
    driver.remove(&sandbox.name).await.unwrap();
    assert_eq!(status(driver.inspect(&sandbox.name).await), Some(404));
    let found = volumes_of(&engine, &volume).await;
    assert_eq!(found.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), [volume.as_str()]);

    // A volume of that name that exists is left as it is.
    driver.create_volume(new_volume(&volume)).await.unwrap();
    let request = ContainerRequest {
        mounts: vec![mounted(&volume, "/data", true)],
        ..Sandbox::request(&engine).await
    };
    let second = Sandbox::start(&engine, request).await;
    assert_eq!(second.run("cat /data/file").await.text(), "one\n");
    drop(second);
    driver.remove_volume(&volume).await.unwrap();
    assert_eq!(volumes_of(&engine, &volume).await, []);
}

/// An archive with a directory, a file of another owner, an executable and a link.
fn archive() -> Vec<u8> {
    let mut archive = tar::Builder::new(vec![]);
    let header = |kind, mode, size: usize| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size as u64);
        header.set_uid(4242);
        header.set_gid(4343);
        header.set_mtime(1_600_000_000);
        header
    };
    let mut directory = header(tar::EntryType::Directory, 0o755, 0);
    let mut file = header(tar::EntryType::Regular, 0o644, 3);
    let mut program = header(tar::EntryType::Regular, 0o755, 10);
    let mut link = header(tar::EntryType::Symlink, 0o777, 0);
    archive.append_data(&mut directory, "sub/", &[][..]).unwrap();
    archive.append_data(&mut file, "sub/file", &b"\x00\xff\n"[..]).unwrap();
    archive.append_data(&mut program, "sub/program", &b"#!/bin/sh\n"[..]).unwrap();
    archive.append_link(&mut link, "sub/link", "file").unwrap();
    archive.into_inner().unwrap()
}

fn in_pieces(archive: Vec<u8>) -> stream::BoxStream<'static, io::Result<Bytes>> {
    let pieces: Vec<_> =
        archive.chunks(700).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    stream::iter(pieces).boxed()
}

// VERIFIER-33
#[tokio::test(flavor = "multi_thread")]
async fn a_tree_arrives_in_a_container_that_never_starts_and_is_seen_by_another_one() {
    let engine = engine().await;
    let volume = unique("tree");
    let request = ContainerRequest {
        role: Role::Files,
        volumes: vec![new_volume(&volume)],
        mounts: vec![mounted(&volume, "/act/tree", false)],
        user: act_verifier::driver::StepUser::Root,
        ..Sandbox::request(&engine).await
    };
    let files = Sandbox::create(&engine, request).await;
    let request = ContainerRequest {
        mounts: vec![mounted(&volume, "/workspace", true), mounted(&volume, "/build", false)],
        ..Sandbox::request(&engine).await
    };
    // An engine may have the volume only together with the container that mounts it.
    let steps = Sandbox::create(&engine, request).await;
    files.driver().upload(&files.name, "/act/tree", in_pieces(archive())).await.unwrap();
    steps.driver().start(&steps.name).await.unwrap();
    let seen = steps
        .run("cd /workspace/sub; stat -c '%n %a %u %g %F %Y' file program; readlink link; od -An -tx1 file")
        .await;
    assert_eq!(
        seen.text(),
        "file 644 4242 4343 regular file 1600000000\n\
         program 755 4242 4343 regular file 1600000000\nfile\n 00 ff 0a\n"
    );
    let refused = steps.run("touch /workspace/sub/new; echo x > /workspace/sub/file").await;
    assert_ne!(refused.code, 0, "{}", refused.text());
    assert_eq!(steps.run("echo changed > /build/sub/file; mkdir /build/sub/d").await.code, 0);

    // What the steps wrote is in the archive of the container that never started.
    let fetched = files.archive("/act/tree").await.unwrap();
    let mut names = vec![];
    for entry in tar::Archive::new(&fetched[..]).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        if path.ends_with("sub/file") {
            let mut text = String::new();
            io::Read::read_to_string(&mut entry, &mut text).unwrap();
            assert_eq!(text, "changed\n");
        }
        // The first part of a name is the engine's own.
        let below = path.split_once('/').map(|(_, below)| below.trim_end_matches('/').to_owned());
        names.extend(below.filter(|below| !below.is_empty()));
    }
    names.sort();
    assert_eq!(names, ["sub", "sub/d", "sub/file", "sub/link", "sub/program"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_is_an_error() {
    let sandbox = Sandbox::new().await;
    let mut whole = archive();
    whole.truncate(700);
    let broken = stream::iter([Ok(Bytes::from(whole)), Err(io::ErrorKind::Interrupted.into())]);
    let sent = sandbox.driver().upload(&sandbox.name, "/tmp", broken.boxed()).await;
    assert!(sent.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_and_a_mount_that_is_missing_are_refused() {
    let sandbox = Sandbox::new().await;
    let request = Sandbox::request(&sandbox.engine).await;
    assert!(status(sandbox.driver().create(&sandbox.name, &request).await).is_some());
    assert!(sandbox.driver().inspect(&sandbox.name).await.unwrap().running, "the first one stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_names_the_walls_and_what_runs_has_those_that_were_requested() {
    let engine = engine().await;
    let request = ContainerRequest {
        mounts: vec![act_verifier::driver::Mount {
            target: "/memory".to_owned(),
            read_only: false,
            source: MountSource::Memory { bytes: 65536, mode: 0o755 },
        }],
        ..Sandbox::request(&engine).await
    };
    let asked = engine.driver().describe(&request);
    let sandbox = Sandbox::start(&engine, request).await;
    let found = sandbox.driver().inspect(&sandbox.name).await.unwrap();
    assert!(found.running && !found.oom_killed && found.id.is_some());
    for description in [&asked, &found.description] {
        assert_eq!(description.user.as_deref(), Some("4242:4343"));
        let walls = description.isolation.as_ref().unwrap();
        assert!(!walls.privileged && walls.devices == 0, "{walls:?}");
        assert_eq!(walls.added_capabilities, Vec::<String>::new());
        assert!(!walls.dropped_capabilities.is_empty());
        assert_eq!((walls.memory_bytes, walls.processes), (64 << 20, 64));
        assert_eq!(walls.network.as_deref(), Some("none"));
    }
    let again = sandbox.driver().inspect(&sandbox.name).await.unwrap();
    assert_eq!(again.description.whole, found.description.whole, "it does not change by itself");
}
