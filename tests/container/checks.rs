//! Checks: one command of the model on the working tree, in a container that holds what the Editor may read and no more.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use act_config::Warm;
use act_core::check::{CheckEnd, Checked, CheckedOver, Checker, NotChecked};
use act_core::secret::{Secret, Secrets};
use act_verifier::{DockerChecker, DockerVerifier, WarmRuns};
use act_workspace::{PathGlobs, Profile, RepoView};

use crate::world::World;

/// The content of everything that no check may show.
const SECRET: &str = "do-not-show-this-4711";

impl World {
    async fn checker(&self, warm: bool) -> DockerChecker {
        let never = |_: &[act_verifier::ChangedFile]| None;
        let warm = warm.then(|| WarmRuns::of(Warm::Attempts, Box::new(never)).unwrap());
        let verifier = DockerVerifier { warm, ..self.gate().await };
        let view = RepoView::open(&self.repo(), Profile::Tool).unwrap();
        DockerChecker { verifier, view, secrets: Secrets::new([Secret::new("sk-canary-4711")]) }
    }

    async fn check(&self, checker: &DockerChecker, command: &str) -> Checked {
        let checked = checker.check(command, &self.cancel).await.expect("not cancelled");
        checked.unwrap_or_else(|why| panic!("{command}: {why:?}"))
    }

    /// What a command prints, whatever it exits with.
    async fn printed_by(&self, checker: &DockerChecker, command: &str) -> String {
        self.check(checker, command).await.output
    }

    fn git_in(&self, arguments: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let mut git = Command::new("git");
        let done = git.args(identity).args(arguments).current_dir(self.repo()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// A repository with secrets of each kind, some committed and some not.
    async fn with_secrets() -> Self {
        let world = Self::new()
            .await
            .file("code", "one\n")
            .file("tests/test.sh", "grep -q two code\n")
            .file(".env", SECRET)
            .file("deploy/server.pem", SECRET)
            .file("config/secrets/db.txt", SECRET)
            .file(".gitignore", "ignored\ntarget\n")
            .file("ignored/plain", SECRET)
            .step("test", "sh tests/test.sh");
        world.git_in(&["init", "-q"]);
        world.git_in(&["config", "act.token", SECRET]);
        world.git_in(&["add", "-A"]);
        world.git_in(&["commit", "-q", "-m", SECRET]);
        world
    }

    /// Adds a step of `prepare` that leaves copies of a secret wherever a step can write.
    fn preparing(mut self) -> Self {
        let command = "mkdir -p target && cp .env target/copy && cp .env /artifacts/home/copy && \
                       mkdir -p /artifacts/cache/npm/_cacache && cp .env /artifacts/cache/npm/_cacache/copy && \
                       echo built > target/out && echo tool > /tmp/tool";
        let (name, command) = ("build".to_owned(), command.to_owned());
        self.pipeline.prepare.push(act_config::Step { name, command, network: false });
        self
    }
}

/// Digest of the repository's files.
fn tree(world: &World) -> String {
    act_workspace::tree_digest(&world.repo(), &PathGlobs::default()).unwrap()
}

impl World {
    /// Removes the bases, whose images would stay in the engine.
    async fn without_bases(&self) {
        let (cleared, _) = self.artifacts().clear_bases().unwrap();
        self.engine.remove_base_images(&cleared).await;
    }
}

/// Directories below `runs/`.
fn runs(world: &World) -> usize {
    std::fs::read_dir(world.artifacts().path().join("runs")).unwrap().count()
}

// VERIFIER-56, EDITOR-85
#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_on_the_tree_as_it_is_and_leaves_nothing() {
    let world = World::with_secrets().await;
    let before = tree(&world);
    let checker = world.checker(false).await;
    let red = world.check(&checker, "sh tests/test.sh").await;
    assert_eq!((red.end, red.over), (CheckEnd::Exited(1), CheckedOver::Image), "{red:?}");
    std::fs::write(world.repo().join("code"), "two\n").unwrap();
    std::fs::write(world.repo().join("new"), "untracked\n").unwrap();
    let green = world.check(&checker, "sh tests/test.sh && cat new && pwd").await;
    assert_eq!(green.end, CheckEnd::Exited(0), "{green:?}");
    assert_eq!(green.output, "untracked\n.\n");

    let wrote = "echo x > code; echo x > made; echo x > /artifacts/home/h; echo x > /tmp/t; mkdir -p \
                 /artifacts/cache/npm/_cacache; echo x > /artifacts/cache/npm/_cacache/c";
    assert_eq!(world.check(&checker, wrote).await.end, CheckEnd::Exited(0));
    let look = "cat code; ls made /artifacts/home/h /tmp/t /artifacts/cache/npm/_cacache/c 2>/dev/null | wc -l";
    assert_eq!(world.printed_by(&checker, look).await, "two\n0\n");
    std::fs::write(world.repo().join("code"), "one\n").unwrap();
    std::fs::remove_file(world.repo().join("new")).unwrap();
    assert_eq!(tree(&world), before, "no check writes to the repository");
    assert_eq!(runs(&world), 0, "a check is no run");
    let log = world.audited();
    let of = |event: &str| log.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    assert_eq!((of("check_started").len(), of("check_finished").len()), (4, 4));
    assert_eq!(of("gate_started").len(), 0);
    assert_eq!(of("check_finished")[0]["counts"]["exit_code"], 1);
    for request in of("container_requested") {
        let names = request["names"].as_array().unwrap();
        assert!(names.iter().any(|name| name == "network=none"), "{request}");
        assert!(
            !names.iter().any(|name| name.as_str().unwrap().contains("/workspace")),
            "{request}"
        );
    }
}

/// Commands that look for the secrets of the repository in every way.
const SEARCHES: [&str; 7] = [
    "cat .env deploy/server.pem config/secrets/db.txt",
    "cat /proc/self/cwd/.env /proc/1/root/artifacts/build/tree/.env",
    "cat /workspace/.env ../../../workspace/.env",
    "grep -rs do-not-show . /artifacts /workspace",
    "umount .env; umount /artifacts/build/tree; cat .env",
    "unshare -rm sh -c 'umount -l .env; cat .env'; ls /proc/1/root/artifacts/lower",
    "cp .env /tmp/x; cat /tmp/x; cat .e*",
];

async fn finds_nothing(world: &World, checker: &DockerChecker) {
    for command in SEARCHES {
        let printed = world.printed_by(checker, command).await;
        assert!(!printed.contains("4711"), "{command}: {printed}");
    }
    let listed = world.check(checker, "ls -l .env deploy config/secrets").await;
    assert_eq!(listed.covered, [".env", "config/secrets/db.txt", "deploy/server.pem"]);
}

// VERIFIER-57
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_the_repository_is_empty_in_a_check() {
    let world = World::with_secrets().await;
    let checker = world.checker(false).await;
    finds_nothing(&world, &checker).await;
    // The person may let the Editor see one.
    let allowed = PathGlobs::new(&[".env".to_owned()]).unwrap();
    let view = checker.view.with_secrets(&allowed);
    let checker = DockerChecker { view, ..checker };
    assert_eq!(world.printed_by(&checker, "cat .env deploy/server.pem").await, SECRET);
}

// VERIFIER-56, VERIFIER-33: the image alone suffices where the pipeline prepares nothing, on an engine elsewhere as well.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_shares_no_files_runs_checks_after_the_image_alone() {
    let Some(far) = crate::elsewhere::Far::start().await else { return };
    let mut world = World::with_secrets().await;
    (world.engine, world.docker) = (far.engine.clone(), far.docker.clone());
    let checker = world.checker(false).await;
    let red = world.check(&checker, "sh tests/test.sh; echo x > code; cat code").await;
    assert_eq!((red.end, red.over), (CheckEnd::Exited(0), CheckedOver::Image), "{red:?}");
    assert_eq!(red.output, "x\n");
    std::fs::write(world.repo().join("code"), "two\n").unwrap();
    assert_eq!(world.check(&checker, "sh tests/test.sh").await.end, CheckEnd::Exited(0));
    finds_nothing(&world, &checker).await;
    let printed = world.printed_by(&checker, "ls -A .git /workspace/.git /artifacts/git").await;
    assert!(!printed.contains("HEAD"), "{printed}");
    assert_eq!(runs(&world), 0);
    for line in world.audited() {
        if line["event"] == "check_started" {
            far.nothing_is_left(line["object"].as_str().unwrap()).await;
        }
    }
    // There is no base on such an engine, and what `prepare` installs is not in the image.
    let mut world = World::with_secrets().await.preparing();
    (world.engine, world.docker) = (far.engine.clone(), far.docker.clone());
    let checker = world.checker(true).await;
    let refused = checker.check("true", &world.cancel).await.unwrap().unwrap_err();
    let NotChecked::NoBase(why) = refused else { panic!("{refused:?}") };
    assert!(why.contains("does not mount directories of this machine"), "{why}");
}

// VERIFIER-57: what `prepare` made had the secrets, and may hold copies of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_empty_in_a_check_over_a_base_and_so_are_its_copies() {
    let world = World::with_secrets().await.preparing();
    let checker = world.checker(true).await;
    let built = world.check(&checker, "cat target/out /tmp/tool; ls target /artifacts/home").await;
    assert_eq!(built.over, CheckedOver::Base, "{built:?}");
    assert!(built.output.starts_with("built\ntool\n"), "{built:?}");
    assert_eq!(
        built.output.matches("copy\n").count(),
        2,
        "the copies are there, and empty: {built:?}"
    );
    finds_nothing(&world, &checker).await;
    // What a check writes is in a layer of its own.
    let plant = "echo evil > target/out; echo evil > target/fake.o; touch -d 2037-01-01 target/out; rm target/copy; \
                 echo evil > /artifacts/home/sitecustomize.py; echo evil > /artifacts/home/x.pth; echo evil > /tmp/evil; \
                 mkdir -p /artifacts/cache/cargo/bin; echo evil > /artifacts/cache/cargo/bin/tool; echo evil > conftest.py";
    assert_eq!(world.check(&checker, plant).await.end, CheckEnd::Exited(0));
    let look = "grep -rls evil . /artifacts /tmp; cat target/out; ls target/copy";
    assert_eq!(world.printed_by(&checker, look).await, "built\ntarget/copy\n");
    // A file that is gone from the tree is gone from the container, also one that the base has.
    std::fs::remove_file(world.repo().join("tests/test.sh")).unwrap();
    std::fs::remove_file(world.repo().join("deploy/server.pem")).unwrap();
    std::fs::write(world.repo().join("code"), "changed\n").unwrap();
    let gone = world.check(&checker, "cat code; ls tests deploy").await;
    assert_eq!(gone.output, "changed\ndeploy:\n\ntests:\n", "{gone:?}");
    assert!(gone.outdated.as_deref().unwrap().contains("was deleted or renamed"), "{gone:?}");
    assert_eq!(world.artifacts().bases().unwrap().len(), 1, "the base stays");
    drop(checker);
    world.without_bases().await;
}

// VERIFIER-56
#[tokio::test(flavor = "multi_thread")]
async fn a_check_has_no_git_directory() {
    let world = World::with_secrets().await;
    for (warm, world) in [(false, &world), (true, &World::with_secrets().await.preparing())] {
        let checker = world.checker(warm).await;
        let printed = world
            .printed_by(&checker, "ls -A .git /workspace /artifacts/git; cat .git/config")
            .await;
        assert!(!printed.contains("HEAD") && !printed.contains("4711"), "{printed}");
        drop(checker);
        world.without_bases().await;
    }
    // A linked worktree, whose `.git` is a file.
    let linked = world.outside().join("linked");
    world.git_in(&["worktree", "add", "-q", linked.to_str().unwrap()]);
    let mut checker = world.checker(false).await;
    checker.verifier.repo = act_workspace::OpenRoot::open(&linked.canonicalize().unwrap()).unwrap();
    let printed = world.printed_by(&checker, "cat .git; ls -A /artifacts/git").await;
    assert!(!printed.contains("gitdir") && !printed.contains("HEAD"), "{printed}");
}

// VERIFIER-56
#[tokio::test(flavor = "multi_thread")]
async fn a_check_has_no_network() {
    let world = World::with_secrets().await.with_network();
    let server = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = server.local_addr().unwrap().port();
    server.set_nonblocking(true).unwrap();
    let checker = world.checker(false).await;
    let command = format!(
        "cat /proc/net/dev | grep -c :; for host in 127.0.0.1 172.17.0.1 host.docker.internal 192.0.2.1; do \
         wget -q -T 2 -O - http://$host:{port}/ && echo reached; done; true"
    );
    let checked = world.check(&checker, &command).await;
    assert!(checked.output.starts_with("1\n"), "loopback alone: {checked:?}");
    assert!(!checked.output.contains("reached"), "{checked:?}");
    assert!(server.accept().is_err(), "something was connected to");
}

// VERIFIER-56
#[tokio::test(flavor = "multi_thread")]
async fn proc_shows_nothing_of_this_machine() {
    let world = World::with_secrets().await;
    let checker = world.checker(false).await;
    let mut sleeper = Command::new("sleep").arg("4711").env("CANARY_OF_HOST", "x").spawn().unwrap();
    let command = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n'; \
                   ls /proc/1/root /proc/1/fd /proc/self/map_files; cat /proc/1/root/etc/hostname; \
                   cat /proc/kcore | head -c 10; cat /proc/keys /proc/sys/kernel/core_pattern; \
                   echo x > /proc/sys/kernel/core_pattern; echo b > /proc/sysrq-trigger; echo end";
    let printed = world.printed_by(&checker, command).await;
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(printed.contains("end"), "{printed}");
    assert!(!printed.contains("4711") && !printed.contains("CANARY_OF_HOST"), "{printed}");
    assert!(!printed.contains("AGENT_") && !printed.contains("CARGO_MANIFEST"), "{printed}");
    let ids = world.printed_by(&checker, "ls -d /proc/[0-9]* | wc -l").await;
    assert!(ids.trim().parse::<u32>().unwrap() < 10, "only its own processes: {ids}");
}

// VERIFIER-57
#[tokio::test(flavor = "multi_thread")]
async fn an_output_is_cut_and_holds_no_key() {
    let world = World::with_secrets().await;
    let checker = world.checker(false).await;
    let printed = world.printed_by(&checker, "echo a sk-canary-4711 b; echo $PWD/x").await;
    assert_eq!(printed, "a [redacted] b\nx\n");
    // Security line 264: no sequence for a terminal and nothing that cannot be seen.
    let command = r"printf 'a\033[2J\033]0;t\007b\r\n\342\200\256c\001'";
    assert_eq!(world.printed_by(&checker, command).await, "ab\n\\u{202e}c\\u{1}");
    let command = "echo begin; i=0; while [ $i -lt 9000 ]; do echo line $i sk-canary-4711; i=$((i+1)); done; echo end";
    let printed = world.printed_by(&checker, command).await;
    assert!(printed.starts_with("begin\n") && printed.ends_with("\nend\n"), "{printed}");
    assert!(
        printed.len() < 17_000 && printed.contains(" bytes left out here"),
        "{}",
        printed.len()
    );
    assert!(!printed.contains("canary"), "{printed}");
    let huge = "yes 0123456789abcdef | head -c 30000000; echo end";
    let printed = world.printed_by(&checker, huge).await;
    assert!(printed.len() < 17_000 && printed.ends_with("end\n"), "{}", printed.len());
}

// VERIFIER-56
#[tokio::test(flavor = "multi_thread")]
async fn a_check_ends_at_its_time_limit_and_when_it_is_cancelled() {
    let mut world = World::with_secrets().await;
    world.step_timeout = Duration::from_secs(2);
    let checker = world.checker(false).await;
    let late = world.check(&checker, "echo begun; trap '' TERM; sleep 60").await;
    assert_eq!(late.end, CheckEnd::TimedOut(Duration::from_secs(2)), "{late:?}");
    assert_eq!(late.output, "begun\n");
    world.step_timeout = Duration::from_secs(60);
    let checker = world.checker(false).await;
    let cancel = world.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(2)).await;
        cancel.cancel();
    });
    assert!(checker.check("sleep 60", &world.cancel).await.is_none());
    assert_eq!(runs(&world), 0);
    let last = world.audited().pop().unwrap();
    assert_eq!(
        (last["event"].as_str(), last["reason"].as_str()),
        (Some("check_finished"), Some("cancelled"))
    );
    let run = last["object"].as_str().unwrap().to_owned();
    assert_eq!(world.containers_of(&run).await, 0);
}

// VERIFIER-56
#[tokio::test(flavor = "multi_thread")]
async fn without_a_base_a_pipeline_that_prepares_has_no_check() {
    let mut world = World::with_secrets().await.preparing();
    let checker = world.checker(false).await;
    let refused = checker.check("true", &world.cancel).await.unwrap().unwrap_err();
    assert_eq!(refused, NotChecked::NoBase("`verification.warm` is off".to_owned()));
    world.pipeline.prepare[0].command = "exit 3".to_owned();
    let checker = world.checker(true).await;
    let refused = checker.check("true", &world.cancel).await.unwrap().unwrap_err();
    let NotChecked::NoBase(why) = refused else { panic!("{refused:?}") };
    assert!(why.starts_with("`prepare` failed on the last commit"), "{why}");
    assert_eq!(Arc::strong_count(&checker.verifier.artifacts), 1);
}
