//! `prepare`: cold runs execute it, a warm base holds what it left, and no verdict comes from the base alone.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use act_config::{Step, User, Warm, Workspace};
use act_core::event::EventKind;
use act_core::verification::{FailReason, Status, Verifier};
use act_verifier::{ChangedFile, DockerVerifier, Downloads, WarmRuns};

use crate::world::{VerifyResponse, World};

impl World {
    /// A step of `prepare`, without network.
    fn prepare(mut self, name: &str, command: &str) -> Self {
        let (name, command) = (name.into(), command.into());
        self.pipeline.prepare.push(Step { name, command, network: false });
        self
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.repo().join(path), text).unwrap();
    }

    fn git(&self, arguments: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let mut git = Command::new("git");
        let done = git.args(identity).args(arguments).current_dir(self.repo()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn committed(self) -> Self {
        self.git(&["init", "-q"]);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "x"]);
        self
    }

    /// The gate of a task whose attempts may be warm.
    async fn task(&self, mode: Warm) -> DockerVerifier {
        let gate = |files: &[ChangedFile]| {
            let build = files.iter().find(|file| file.path.ends_with("Makefile"));
            build.map(|file| format!("{} has changed", file.path))
        };
        let warm = WarmRuns::of(mode, Box::new(gate));
        DockerVerifier { warm, ..self.gate().await }
    }

    async fn attempt(&self, task: &DockerVerifier, number: u32) -> VerifyResponse {
        let run = task.run(number, &self.cancel).await.expect("not cancelled");
        VerifyResponse::from(run)
    }

    fn bases(&self) -> PathBuf {
        self.artifacts().path().join("cache/bases")
    }

    /// The warnings that a person got since the last call.
    fn told(&mut self) -> Vec<String> {
        let events = self.events_so_far().into_iter();
        let texts = events.filter_map(|event| match event {
            EventKind::Notice(notice) => Some(notice.text),
            _ => None,
        });
        texts.collect()
    }
}

/// The names of the steps that a run executed.
fn executed(response: &VerifyResponse) -> Vec<&str> {
    let commands = response.manifest.as_ref().unwrap()["commands_executed"].as_array().unwrap();
    commands.iter().map(|command| command["name"].as_str().unwrap()).collect()
}

fn is_warm(response: &VerifyResponse) -> bool {
    response.manifest.as_ref().unwrap()["base"].is_string()
}

/// Names, kinds, modes, sizes, times and contents of everything below a directory.
fn fingerprint(directory: &Path) -> String {
    let script = "find . ! -name base.json -printf '%p %y %m %s %T@ %l\\n' | sort; \
                  find . -type f ! -name base.json -print0 | sort -z | xargs -0 -r sha256sum";
    let listed = Command::new("sh").args(["-c", script]).current_dir(directory).output().unwrap();
    String::from_utf8(listed.stdout).unwrap()
}

/// A step that builds as `make` does, by the times of files: each `x.src` into `target/x.src.o`.
const MAKE: &str = "mkdir -p target; for f in *.src; do \
                    if [ ! -e target/$f.o ] || [ $f -nt target/$f.o ]; then \
                    cp $f target/$f.o; echo built $f; fi; done";

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

// VERIFIER-50, VERIFIER-51, VERIFIER-52
#[tokio::test(flavor = "multi_thread")]
async fn attempts_begin_with_what_prepare_left_and_success_with_nothing() {
    let mut world = World::new()
        .await
        .file("a.src", "one\n")
        .file("b.src", "two\n")
        .file(".gitignore", "target\n.env\n")
        .file(".env", "SECRET\n")
        .prepare("build", &format!("{MAKE}; echo x > /artifacts/home/h; echo y > /tmp/outside"))
        .step("make", MAKE)
        .step("test", "grep -q right target/a.src.o && cat /artifacts/home/h /tmp/outside")
        .committed();
    let task = world.task(Warm::Attempts).await;

    world.write("a.src", "wrong\n");
    let red = world.attempt(&task, 1).await;
    assert_eq!((red.status, red.reason), (Status::Fail, Some(FailReason::StepFailed)), "{red:?}");
    assert_eq!((executed(&red), is_warm(&red)), (vec!["make", "test"], true));
    assert_eq!(world.log(&red, "step-01-make.log"), b"built a.src\n", "b.src was built before");
    assert_eq!(world.told(), [""; 0]);

    world.write("a.src", "right\n");
    let green = world.attempt(&task, 2).await;
    assert_eq!(green.status, Status::Pass, "{green:?}");
    assert_eq!((executed(&green), is_warm(&green)), (vec!["build", "make", "test"], false));
    let runs: Vec<_> = world.events_so_far();
    let runs: Vec<_> = runs
        .iter()
        .filter_map(|event| match event {
            EventKind::VerifyStarted { attempt, warm, .. } => Some((*attempt, *warm)),
            _ => None,
        })
        .collect();
    assert_eq!(runs, [(2, true), (2, false)]);

    // The base holds nothing that git ignores, and its image goes with it.
    let bases = world.artifacts().bases().unwrap();
    let image = bases[0].container_image.clone().unwrap();
    let key = &bases[0].key;
    assert!(!world.bases().join(key).join("tree/.env").exists());
    assert!(world.docker.inspect_image(&image).await.is_ok());
    let prepared: Vec<_> =
        world.audited().into_iter().filter(|line| line["event"] == "base_prepared").collect();
    assert_eq!((prepared.len(), prepared[0]["object"].as_str()), (1, Some(key.as_str())));

    // Another task finds it.
    world.write("a.src", "wrong\n");
    let other = world.task(Warm::Attempts).await;
    assert!(is_warm(&world.attempt(&other, 1).await));
    assert_eq!(world.artifacts().clear_bases().unwrap(), (vec![], 1), "it is in use");
    drop((task, other));
    let (cleared, _) = world.artifacts().clear_bases().unwrap();
    world.engine.remove_base_images(&cleared).await;
    assert!(world.docker.inspect_image(&image).await.is_err());
}

// VERIFIER-51: an older time than that of the output would leave the output as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_is_newer_than_the_base_whatever_its_own_time() {
    let world = World::new()
        .await
        .file("a.src", "one\n")
        .file("b.src", "two\n")
        .file(".gitignore", "target\n")
        .prepare("build", MAKE)
        .step("make", MAKE)
        .step("test", "cat target/*; stat -c %Y a.src target/b.src.o")
        .committed();
    world.write("a.src", "new\n");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = std::fs::File::open(world.repo().join("a.src")).unwrap();
    file.set_modified(old).unwrap();
    let task = world.task(Warm::Final).await;
    let response = world.attempt(&task, 1).await;
    assert_eq!((response.status, is_warm(&response)), (Status::Pass, true), "{response:?}");
    let tail = response.tail_log.clone().unwrap();
    let lines: Vec<&str> = tail.lines().collect();
    assert_eq!(lines[..3], ["built a.src", "new", "two"], "only what changed is built");
    // Whole seconds differ, for tools that compare nothing else.
    let [source, made] = [3, 4].map(|at: usize| lines[at].parse::<i64>().unwrap());
    assert!(source > made, "{tail}");
}

// VERIFIER-51: each of these would be judged by what an earlier commit left.
#[tokio::test(flavor = "multi_thread")]
async fn what_build_tools_overlook_makes_an_attempt_cold_and_is_said_once() {
    type Change = fn(&World);
    let changes: [(&str, Change, &str); 5] = [
        (
            "deleted",
            |world| std::fs::remove_file(world.repo().join("b.src")).unwrap(),
            "b.src of the last commit was deleted or renamed",
        ),
        (
            "renamed",
            |world| {
                std::fs::rename(world.repo().join("b.src"), world.repo().join("c.src")).unwrap();
            },
            "b.src of the last commit was deleted or renamed",
        ),
        (
            "mode",
            |world| {
                let path = world.repo().join("a.src");
                let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                std::fs::set_permissions(path, executable).unwrap();
            },
            "the mode of a.src",
        ),
        ("build script", |world| world.write("Makefile", "all:\n"), "Makefile has changed"),
        (
            "input",
            |world| world.write("x.lock", "2\n"),
            "x.lock is one of verification.prepare_inputs",
        ),
    ];
    for (name, change, why) in changes {
        let mut world = World::new()
            .await
            .file("a.src", "one\n")
            .file("b.src", "two\n")
            .file("x.lock", "1\n")
            .file("Makefile", "")
            .file(".gitignore", "target\n")
            .prepare("build", &format!("{MAKE}; cp x.lock target/lock"))
            // A stale object, an old lock or the mode of before would be seen here.
            .step(
                "test",
                "ls target; cat target/lock; for f in *.src; do test -e target/$f.o; done",
            )
            .committed();
        world.pipeline.prepare_inputs = vec!["*.lock".into()];
        let task = world.task(Warm::Final).await;
        let warm = world.attempt(&task, 1).await;
        assert!(is_warm(&warm), "{name} {warm:?} {:?}", world.told());
        change(&world);
        for _ in 0..2 {
            let cold = world.attempt(&task, 2).await;
            assert_eq!((cold.status, is_warm(&cold)), (Status::Pass, false), "{name} {cold:?}");
            assert_eq!(executed(&cold), ["build", "test"], "{name}");
            let seen = cold.tail_log.unwrap();
            assert!(!(name == "deleted" && seen.contains("b.src.o")), "{seen}");
            assert!(name != "input" || seen.contains("\n2\n"), "{seen}");
        }
        let told = world.told();
        assert_eq!(told.len(), 1, "{name}: {told:?}");
        assert!(told[0].starts_with("this attempt is cold: ") && told[0].contains(why), "{told:?}");
    }
}

// VERIFIER-50, VERIFIER-51, VERIFIER-29
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_an_attempt_plants_is_there_in_the_next_or_in_the_cold_run() {
    const PLANT: &str = "echo evil > /artifacts/home/sitecustomize.py; \
        echo evil > /artifacts/home/lib/x.pth; echo evil > /artifacts/home/conftest.py; \
        mkdir -p /artifacts/cache/npm/_cacache /artifacts/cache/cargo/bin; \
        echo evil > /artifacts/cache/npm/_cacache/x; echo evil > /artifacts/cache/npm/_cacache/tool; \
        echo evil > /artifacts/cache/cargo/bin/tool; \
        echo evil > target/a.src.o; touch -d 2037-01-01 target/a.src.o; echo evil > target/fake.o; \
        rm -f /artifacts/home/lib/good; echo evil > /artifacts/tmp/x; echo evil > /artifacts/db/x; \
        echo evil > /tmp/evil; chmod 0 /artifacts/home/lib; mv target moved; ln -s /tmp target; exit 1";
    let world = World::new()
        .await
        .file("a.src", "one\n")
        .file("mode", "plant\n")
        .file(".gitignore", "target\nmoved\n")
        .prepare(
            "build",
            &format!(
                "{MAKE}; mkdir -p /artifacts/home/lib /artifacts/cache/npm/_cacache; \
                 echo good > /artifacts/home/lib/good; echo good > /artifacts/cache/npm/_cacache/tool"
            ),
        )
        .step("test", &format!("if grep -q plant mode; then {PLANT}; fi"))
        .step(
            "look",
            "grep -rls evil /artifacts/home /artifacts/cache /artifacts/tmp /artifacts/db \
             /artifacts/build /tmp; cat /artifacts/home/lib/good /artifacts/cache/npm/_cacache/tool",
        )
        .committed();
    let task = world.task(Warm::Attempts).await;
    world.write("a.src", "two\n");
    let red = world.attempt(&task, 1).await;
    assert_eq!((red.status, is_warm(&red)), (Status::Fail, true), "{red:?}");
    let key = world.artifacts().bases().unwrap()[0].key.clone();
    let before = fingerprint(&world.bases().join(&key));
    let red = world.attempt(&task, 2).await;
    assert_eq!(red.status, Status::Fail);
    assert_eq!(fingerprint(&world.bases().join(&key)), before, "no attempt writes the base");

    world.write("mode", "look\n");
    let green = world.attempt(&task, 3).await;
    assert_eq!((green.status, is_warm(&green)), (Status::Pass, false), "{green:?}");
    assert_eq!(green.tail_log.as_deref(), Some("built a.src\ngood\ngood\n"), "{green:?}");
    let runs = std::fs::read_dir(world.artifacts().path().join("runs")).unwrap();
    let looked: Vec<_> = runs
        .filter_map(|run| {
            std::fs::read_to_string(run.ok()?.path().join("logs/step-02-look.log")).ok()
        })
        .collect();
    assert_eq!(looked, ["good\ngood\n"], "the warm run before it");
}

// VERIFIER-50, VERIFIER-51
#[tokio::test(flavor = "multi_thread")]
async fn even_root_in_an_attempt_finds_no_path_by_which_it_writes_the_base() {
    // In place, through hard links, times, modes and owners, by the names that the kernel shows, and by mounts of its own.
    const ATTACK: &str = r"
        echo evil >> target/a.src.o; ln target/b.src.o target/link; echo evil >> target/link
        ln target/b.src.o /artifacts/home/link && echo evil >> /artifacts/home/link
        : > /artifacts/home/lib/good; chmod 777 /artifacts/home/lib; chown 1:1 /artifacts/home/lib/good
        touch -d 2001-01-01 target a.src /artifacts/home; dd if=/dev/zero of=target/b.src.o conv=notrunc bs=1 count=1
        for lower in $(tr ',: ' '\n\n\n' < /proc/self/mountinfo | sed -n 's/^lowerdir=//p; s/^upperdir=//p; s/^workdir=//p'); do
            echo evil > $lower/evil; echo evil > /proc/1/root$lower/evil; echo evil > /proc/1/cwd/../..$lower/evil
        done
        for mounted in /artifacts/build/tree /artifacts/home /artifacts/cache /workspace /; do
            mount -o remount,rw $mounted; umount $mounted; mount --bind $mounted /tmp; umount -l $mounted
        done
        mount -t proc proc /tmp; mount -t overlay overlay -o lowerdir=/,upperdir=/tmp,workdir=/tmp /tmp
        for disk in /sys/block/*/dev; do mknod /tmp/disk b $(tr : ' ' < $disk); dd if=/tmp/disk of=/tmp/read bs=512 count=1; rm /tmp/disk; done
        echo evil > /workspace/a.src; nsenter -t 1 -m true; unshare -rm true
        rm -rf target /artifacts/home/lib; exit 1";
    let mut world = World::new()
        .await
        .file("a.src", "one\n")
        .file("b.src", "two\n")
        .file(".gitignore", "target\n")
        .prepare(
            "build",
            &format!("{MAKE}; mkdir -p /artifacts/home/lib; echo good > /artifacts/home/lib/good"),
        )
        .step("attack", ATTACK)
        .committed();
    world.pipeline.user = User::Root;
    let task = world.task(Warm::Attempts).await;
    world.write("a.src", "two\n");
    assert!(is_warm(&world.attempt(&task, 1).await));
    let key = world.artifacts().bases().unwrap()[0].key.clone();
    let before = fingerprint(&world.bases().join(&key));
    assert!(before.contains("target/b.src.o") && before.contains("home/lib/good"), "{before}");
    world.write("a.src", "three\n");
    let again = world.attempt(&task, 2).await;
    assert_eq!((again.status, is_warm(&again)), (Status::Fail, true), "{again:?}");
    assert_eq!(fingerprint(&world.bases().join(&key)), before);
    assert_eq!(std::fs::read_to_string(world.repo().join("a.src")).unwrap(), "three\n");
    drop(task);
    world.engine.remove_base_images(&world.artifacts().clear_bases().unwrap().0).await;
}

// VERIFIER-52
#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_hides_a_failure_is_destroyed_and_the_attempt_fails() {
    let mut world = World::new()
        .await
        .file("code", "one\n")
        .file(".gitignore", "target\n")
        .prepare("build", "mkdir -p target; if grep -q one code; then touch target/ok; fi")
        .step("test", "test -e target/ok")
        .committed();
    let task = world.task(Warm::Attempts).await;
    world.write("code", "two\n");
    let failed = world.attempt(&task, 1).await;
    assert_eq!((failed.status, is_warm(&failed)), (Status::Fail, false), "{failed:?}");
    assert_eq!(World::warned(&failed), ["base_disproved"], "{failed:?}");
    assert!(world.artifacts().bases().unwrap().is_empty());
    let disproved: Vec<_> =
        world.audited().into_iter().filter(|line| line["event"] == "base_disproved").collect();
    assert_eq!(disproved.len(), 1);
    let runs = disproved[0]["names"].as_array().unwrap();
    assert_eq!(runs[1].as_str(), failed.run_id.as_deref(), "the warm run and the cold one");
    world.told();
    let next = world.attempt(&task, 2).await;
    assert_eq!((next.status, is_warm(&next)), (Status::Fail, false));
    assert!(World::warned(&next).is_empty());
    assert_eq!(world.told(), [""; 0], "that was said");
}

// VERIFIER-50
#[tokio::test(flavor = "multi_thread")]
async fn without_a_base_attempts_are_cold_and_the_reason_is_said_once() {
    for (prepare, why) in [
        ("exit 3", "`prepare` failed on the last commit in step \"build\" (step_failed)"),
        ("echo x > code", "`prepare` failed on the last commit in step \"build\" (source_writes)"),
    ] {
        let mut world = World::new()
            .await
            .file("code", "one\n")
            .prepare("build", &format!("if ! grep -q new code; then {prepare}; fi"))
            .step("test", "true")
            .committed();
        world.write("code", "new\n");
        let task = world.task(Warm::Attempts).await;
        for number in 1..3 {
            let response = world.attempt(&task, number).await;
            assert_eq!((response.status, is_warm(&response)), (Status::Pass, false));
        }
        let told = world.told();
        assert!(told.len() == 1 && told[0].contains(why), "{told:?}");
        assert!(world.artifacts().bases().unwrap().is_empty());
        let left = std::fs::read_dir(world.bases()).unwrap().count();
        assert_eq!(left, 0, "nothing of a base that was not made");
    }
    // Without a commit there is nothing to make one of.
    let mut world =
        World::new().await.file("code", "x").prepare("build", "true").step("test", "true");
    let task = world.task(Warm::Attempts).await;
    assert!(!is_warm(&world.attempt(&task, 1).await));
    assert!(world.told()[0].contains("there is no commit"));
}

// VERIFIER-50: a base of another configuration would be a wrong one.
#[tokio::test(flavor = "multi_thread")]
async fn a_base_is_made_anew_for_everything_that_decides_what_prepare_leaves() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 8] = [
        ("nothing", |_| {}),
        ("a commit", |world| {
            world.write("code", "two\n");
            world.git(&["commit", "-q", "-a", "-m", "y"]);
        }),
        ("a command", |world| world.pipeline.prepare[0].command.push_str("; true")),
        ("the network", |world| world.pipeline.prepare[0].network = true),
        ("the user", |world| world.pipeline.user = User::Root),
        ("the package", |world| world.package = Some("package".into())),
        ("the inputs", |world| world.pipeline.prepare_inputs = vec!["code".into()]),
        ("the image", |world| world.pipeline.image = other_image(world)),
    ];
    let mut world = World::new()
        .await
        .file("code", "one\n")
        .file("package/x", "x\n")
        .prepare("build", "echo x > /tmp/outside")
        .step("test", "true")
        .committed();
    let label = vec!["LABEL act.test=another".to_owned()];
    let other = other_image(&world);
    crate::image::import_changed(&world.docker, &other, crate::image::busybox(), label).await;
    let mut known = std::collections::BTreeSet::new();
    let is_root = rustix::process::geteuid().is_root();
    // Root is no other user for root.
    for (what, change) in changes.into_iter().filter(|(what, _)| *what != "the user" || !is_root) {
        change(&mut world);
        for is_new in [true, false] {
            let task = world.task(Warm::Final).await;
            assert!(is_warm(&world.attempt(&task, 1).await), "{what}: {:?}", world.told());
            let keys = world.artifacts().bases().unwrap().into_iter().map(|base| base.key);
            let made = keys.filter(|key| known.insert(key.clone())).count();
            assert_eq!(made, usize::from(is_new), "{what}");
        }
    }
    world.engine.remove_base_images(&world.artifacts().clear_bases().unwrap().0).await;
    let _ = world
        .docker
        .remove_image(&other, None::<bollard::query_parameters::RemoveImageOptions>, None)
        .await;
}

/// An image with the files of the usual one.
fn other_image(world: &World) -> String {
    let place = world.outside().file_name().unwrap().display().to_string();
    format!("act-test-another:{}", place.to_lowercase().trim_start_matches('.'))
}

// VERIFIER-50, VERIFIER-51
#[tokio::test(flavor = "multi_thread")]
async fn without_a_copy_or_room_for_two_trees_there_is_no_base_and_that_is_said_once() {
    let world = || async {
        let world = World::new().await.file("code", "one\n").prepare("build", "true");
        world.step("test", "true").committed()
    };
    for view in [Workspace::Readonly, Workspace::Overlay] {
        let mut world = world().await.view(view);
        let task = world.task(Warm::Final).await;
        for number in 1..3 {
            let response = world.attempt(&task, number).await;
            assert_eq!((response.status, is_warm(&response)), (Status::Pass, false), "{view:?}");
        }
        let told = world.told();
        let why = "and only a copy can begin warm";
        assert!(told.len() == 1 && told[0].contains(why), "{view:?}: {told:?}");
    }
    // A file without blocks, which is larger than half of every disk of tests.
    let mut world = world().await.view(Workspace::Copy);
    let huge = std::fs::File::create(world.repo().join("huge")).unwrap();
    huge.set_len(8 << 40).unwrap();
    let task = world.task(Warm::Final).await;
    let base = task.warm.clone().unwrap().begin(&task, &world.cancel);
    let told = loop {
        match world.told().pop() {
            Some(told) => break told,
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(told.contains("the disk has less room than twice the tree needs"), "{told}");
    base.stop().await;
    assert_eq!(std::fs::read_dir(world.bases()).unwrap().count(), 0);
}

// VERIFIER-50, ARTIFACT-22: several tasks at once, and a process that was killed while it made the base.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_share_a_base_and_one_is_made_anew_after_a_killed_process() {
    let world = World::new()
        .await
        .file("a.src", "one\n")
        .file(".gitignore", "target\n")
        .prepare("build", &format!("{MAKE}; test ! -e target/half"))
        .step("test", "grep -q one target/a.src.o")
        .committed();
    let first = world.task(Warm::Final).await;
    assert!(is_warm(&world.attempt(&first, 1).await));
    drop(first);
    let key = world.artifacts().bases().unwrap()[0].key.clone();
    world.artifacts().clear_bases().unwrap();
    let half = world.bases().join(format!(".new-{key}"));
    std::fs::create_dir_all(half.join("tree/target")).unwrap();
    std::fs::write(half.join("tree/target/half"), "x").unwrap();
    let (one, other) = (world.task(Warm::Final).await, world.task(Warm::Final).await);
    let (one, other) = tokio::join!(world.attempt(&one, 1), world.attempt(&other, 1));
    for response in [one, other] {
        assert_eq!((response.status, is_warm(&response)), (Status::Pass, true), "{response:?}");
    }
    assert_eq!(world.artifacts().bases().unwrap().len(), 1);
    assert!(!half.exists());
    let prepared = world.audited().into_iter().filter(|line| line["event"] == "base_prepared");
    assert_eq!(prepared.count(), 2, "the first, and one of the two");
}

// ARTIFACT-22: what another process or the engine lost is found by the next task, without `act cache clear`.
#[tokio::test(flavor = "multi_thread")]
async fn lost_images_and_bases_without_their_image_are_removed_by_the_next_task() {
    let world = World::new()
        .await
        .file("code", "one\n")
        .prepare("build", "echo x > /tmp/outside")
        .step("test", "cat /tmp/outside")
        .committed();
    let first = world.task(Warm::Final).await;
    assert!(is_warm(&world.attempt(&first, 1).await));
    drop(first);
    let artifacts = world.artifacts();
    let base = artifacts.bases().unwrap().remove(0);
    let image = base.container_image.clone().unwrap();
    // Its record is gone, as after a kill between the image and the record.
    std::fs::remove_dir_all(world.bases().join(&base.key)).unwrap();
    // The image of a base that a process is about to publish stays.
    let begun = "c".repeat(64);
    let _making = artifacts.begin_base(&begun, || true).unwrap().unwrap();
    let store: PathBuf = artifacts.path().components().collect();
    let store = act_workspace::digest(store.as_os_str().as_encoded_bytes());
    let labelled = |key: &str| vec![format!("LABEL act.base={store}.{key}")];
    let name = format!("act-base:test-{}", world.outside().file_name().unwrap().display());
    let name = name.to_lowercase().replace("test-.", "test-");
    crate::image::import_changed(&world.docker, &name, crate::image::busybox(), labelled(&begun))
        .await;

    let second = world.task(Warm::Final).await;
    let made = second.warm.clone().unwrap().begin(&second, &world.cancel);
    assert!(is_warm(&world.attempt(&second, 1).await));
    let began = std::time::Instant::now();
    while world.docker.inspect_image(&image).await.is_ok() {
        assert!(began.elapsed() < Duration::from_secs(60), "{image} stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    made.stop().await;
    assert!(world.docker.inspect_image(&name).await.is_ok(), "another process needs it");
    let kept = artifacts.bases().unwrap()[0].container_image.clone().unwrap();
    assert!(world.docker.inspect_image(&kept).await.is_ok(), "the second base needs it");
    drop(second);
    // The engine has the image of the second base no more; a task on another commit finds that.
    let old = artifacts.bases().unwrap().remove(0);
    world.engine.remove_base_images(std::slice::from_ref(&old)).await;
    world.write("code", "two\n");
    world.git(&["commit", "-q", "-a", "-m", "y"]);
    let third = world.task(Warm::Final).await;
    let made = third.warm.clone().unwrap().begin(&third, &world.cancel);
    assert!(is_warm(&world.attempt(&third, 1).await));
    let began = std::time::Instant::now();
    while artifacts.bases().unwrap().iter().any(|base| base.key == old.key) {
        assert!(began.elapsed() < Duration::from_secs(60), "{} stays", old.key);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    made.stop().await;
    drop(third);
    world.engine.remove_base_images(&artifacts.clear_bases().unwrap().0).await;
    drop(_making);
    world.engine.remove_lost_bases(&artifacts).await.unwrap();
    assert!(world.docker.inspect_image(&name).await.is_err(), "nobody publishes it any more");
}

// EDITOR-81, VERIFIER-52: a run on another tree begins warm only after a cold run agreed with a warm one.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_another_tree_is_warm_once_the_base_has_proved_itself() {
    let world = World::new()
        .await
        .file("a.src", "one\n")
        .file(".gitignore", "target\n")
        .prepare("build", MAKE)
        .step("make", MAKE)
        .step("test", "cat target/a.src.o; grep -q right target/a.src.o")
        .committed();
    let task = world.task(Warm::Attempts).await;
    let place = world.outside().join("variant");
    std::fs::create_dir(&place).unwrap();
    for (path, text) in [("a.src", "start\n"), (".gitignore", "target\n")] {
        std::fs::write(place.join(path), text).unwrap();
    }
    let variant = DockerVerifier {
        variant: Some(act_verifier::Variant { of: task.repo.clone(), purpose: "red_first" }),
        repo: act_workspace::OpenRoot::open(&place).unwrap(),
        events: act_core::event::Events::silent(),
        ..task.clone()
    };
    let red = world.attempt(&variant, 0).await;
    assert_eq!((red.status, is_warm(&red)), (Status::Fail, false), "{red:?}");
    world.write("a.src", "right\n");
    assert_eq!(world.attempt(&task, 1).await.status, Status::Pass);
    for _ in 0..2 {
        let red = world.attempt(&variant, 0).await;
        assert_eq!((red.status, is_warm(&red)), (Status::Fail, true), "{red:?}");
        assert_eq!(red.tail_log.as_deref(), Some("built a.src\nstart\n"));
    }
    // An attempt that has to be cold proves nothing about the base.
    std::fs::remove_file(world.repo().join(".gitignore")).unwrap();
    world.attempt(&task, 2).await;
    assert!(!is_warm(&world.attempt(&variant, 0).await));
}

// VERIFIER-29
#[tokio::test(flavor = "multi_thread")]
async fn downloads_of_red_runs_are_dropped_and_those_of_green_runs_stay() {
    let mut world = World::new().await.file("code", "x\n").step(
        "load",
        "ls /artifacts/cache/npm/_cacache; mkdir -p /artifacts/cache/npm/_cacache; \
         echo y > /artifacts/cache/npm/_cacache/$(cat code); grep -q green code",
    );
    let listed = |response: &VerifyResponse| response.tail_log.clone().unwrap();
    let red = world.run().await;
    assert_eq!(red.status, Status::Fail);
    world.write("code", "green\n");
    let green = world.run().await;
    assert_eq!(green.status, Status::Pass, "{green:?}");
    assert!(!listed(&green).contains("\nx\n") && !listed(&green).starts_with("x\n"), "{green:?}");
    world.write("code", "green2\n");
    assert_eq!(listed(&world.run().await), "green\n");
    world.downloads = Downloads::Private;
    assert!(listed(&world.run().await).contains("No such file"));
    let shared = Arc::new(world.artifacts());
    assert_eq!(shared.cache_sizes().unwrap()[0].files, 2);
}
