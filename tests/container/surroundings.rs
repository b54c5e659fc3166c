//! Users, certificates, caches and git: what surrounds the steps.

use act_config::{User, Workspace};
use act_core::verification::{ErrorType, Status};
use act_verifier::Downloads;

use crate::world::World;

// VERIFIER-7
#[tokio::test(flavor = "multi_thread")]
async fn root_by_request_can_install_packages_and_nothing_of_it_stays() {
    let mut world = World::new().await.file("code", "x").step(
        "install",
        "id -u && touch /etc/new && chown 12:34 /etc/new && mkdir -m 700 /p && chown 12:34 /p && \
         touch /p/x && grep CapEff /proc/self/status | cut -f2; \
         cp /bin/busybox $TMPDIR/su && chown 12:34 $TMPDIR/su && chmod 4755 $TMPDIR/su; \
         mount -t tmpfs none /mnt 2>/dev/null && echo MOUNTED; true",
    );
    world.pipeline.user = User::Root;
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    // CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID
    assert_eq!(response.tail_log.as_deref(), Some("0\n00000000000000cb\n"));
    assert!(!world.run_dir(&response).join("tmp/su").exists());
    assert_eq!(World::warned(&response), ["artifacts_changed"]);
}

// VERIFIER-26
#[tokio::test(flavor = "multi_thread")]
async fn a_ca_bundle_reaches_the_steps_as_certificates_and_nothing_else() {
    let block = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n";
    let mut world = World::new().await.step(
        "read",
        "cat $SSL_CERT_FILE; test $SSL_CERT_FILE = /etc/ssl/certs/ca-certificates.crt && \
         ! (echo > $SSL_CERT_FILE) 2>/dev/null",
    );
    let file = world.outside().join("ca.pem");
    std::fs::write(&file, format!("private words\n{block}")).unwrap();
    world.pipeline.ca_bundle = Some(file.clone());
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    assert_eq!(response.tail_log.as_deref(), Some(block));

    std::fs::write(&file, "private words\n").unwrap();
    let response = world.run().await;
    assert_eq!(response.error_type, Some(ErrorType::ContainerCreation));
    assert!(response.error_message.unwrap().contains("ca_bundle"));
}

// VERIFIER-29
#[tokio::test(flavor = "multi_thread")]
async fn downloads_outlive_a_run_and_builds_do_not() {
    let mut world = World::new().await.step(
        "fetch",
        // Maven takes its repository as a property, Gradle's home has caches of both kinds.
        "m2=${MAVEN_OPTS#-Dmaven.repo.local=}; g=$GRADLE_USER_HOME/caches; test -d ${m2%/maven}; \
         cat $npm_config_cache/_cacache/x $g/modules-2/x $m2/org/lib/1/lib.jar $GOCACHE/x \
         $g/build-cache-1/x $m2/own/app/1/app.jar 2>/dev/null; \
         put() { mkdir -p ${1%/*}; echo $2 > $1; }; \
         put $npm_config_cache/_cacache/x npm; put $g/modules-2/x gradle; \
         put $m2/org/lib/1/lib.jar maven; put $m2/org/lib/1/_remote.repositories 'lib.jar>central='; \
         put $m2/own/app/1/app.jar stale; put $m2/own/app/1/_remote.repositories 'app.jar>='; \
         put $g/build-cache-1/x stale; put $GOCACHE/x stale",
    );
    assert_eq!(world.run().await.tail_log.as_deref(), Some(""));
    assert_eq!(world.run().await.tail_log.as_deref(), Some("npm\ngradle\nmaven\n"));
    assert_eq!(world.artifacts().cache_sizes().unwrap().len(), 1);
    world.downloads = Downloads::Private;
    let response = world.run().await;
    assert_eq!(response.tail_log.as_deref(), Some(""));
    assert!(!world.run_dir(&response).join("cache").exists());
}

// VERIFIER-4
#[tokio::test(flavor = "multi_thread")]
async fn a_linked_worktree_keeps_its_history_in_every_view() {
    for view in [Workspace::Copy, Workspace::Overlay, Workspace::Readonly] {
        let world = World::new().await.view(view).file("code", "x").step(
            "git",
            "p=$(sed 's/gitdir: //' .git); cat $p/HEAD; cat $p/$(cat $p/commondir)/shared; \
             ! touch $p/x 2>/dev/null",
        );
        let own = world.outside().join("main/.git/worktrees/w");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("HEAD"), "own\n").unwrap();
        std::fs::write(own.join("commondir"), "../..\n").unwrap();
        std::fs::write(world.outside().join("main/.git/shared"), "common\n").unwrap();
        let pointer = world.repo().join(".git");
        std::fs::write(own.join("gitdir"), format!("{}\n", pointer.display())).unwrap();
        std::fs::write(&pointer, format!("gitdir: {}\n", own.display())).unwrap();
        let before = world.fingerprint();
        let response = world.run().await;
        assert_eq!(response.status, Status::Pass, "{view:?} {response:?}");
        assert_eq!(response.tail_log.as_deref(), Some("own\ncommon\n"));
        assert_eq!(world.fingerprint(), before);
    }
}

// VERIFIER-5: what proves nothing is not lent, and neither is the git directory of a submodule, whose settings
// name a working tree elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_git_file_that_points_astray_or_into_a_superproject_lends_nothing_and_is_told() {
    for (place, pointer) in
        [("private", "../private"), ("super/.git/modules/x", "../super/.git/modules/x")]
    {
        let world = World::new().await.step("look", "ls -a; ls /artifacts");
        let directory = world.outside().join(place);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let config = "[core]\n\tworktree = ../../../../repo\n";
        std::fs::write(directory.join("config"), config).unwrap();
        std::fs::write(world.repo().join(".git"), format!("gitdir: {pointer}\n")).unwrap();
        let response = world.run().await;
        assert_eq!(response.status, Status::Pass, "{response:?}");
        assert!(!response.tail_log.as_ref().unwrap().contains("git"), "{response:?}");
        assert_eq!(World::warned(&response), ["git_unavailable"]);
    }
}
