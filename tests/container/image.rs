//! Tiny images: busybox with every applet, and one with nothing at all.

use std::collections::BTreeSet;
use std::process::Command;

use bollard::Docker;
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;

/// The number changes with the recipe; an image that is there is not made again.
/// The full name is the same one for every engine.
pub(crate) const BUSYBOX: &str = "docker.io/library/act-test-busybox:1";
pub(crate) const EMPTY: &str = "docker.io/library/act-test-empty:1";

pub(crate) async fn ensure(docker: &Docker) {
    static MADE: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    MADE.get_or_init(|| import_into(docker)).await;
}

/// The image for an engine that is not the machine's own.
pub(crate) async fn import_into(docker: &Docker) {
    for (image, archive) in [(BUSYBOX, busybox as fn() -> Vec<u8>), (EMPTY, empty)] {
        if docker.inspect_image(image).await.is_err() {
            import(docker, image, archive()).await;
        }
    }
}

async fn import(docker: &Docker, image: &str, archive: Vec<u8>) {
    import_changed(docker, image, archive, vec![]).await;
}

pub(crate) async fn import_changed(
    docker: &Docker,
    image: &str,
    archive: Vec<u8>,
    changes: Vec<String>,
) {
    let options = CreateImageOptions {
        changes,
        from_src: Some("-".into()),
        // Name and tag in one: Podman does not read the tag's own field.
        repo: Some(image.into()),
        ..CreateImageOptions::default()
    };
    let body = bollard::body_full(archive.into());
    let mut stream = Box::pin(docker.create_image(Some(options), Some(body), None));
    while let Some(told) = stream.next().await {
        told.unwrap_or_else(|error| panic!("importing {image} failed: {error}"));
    }
}

pub(crate) fn busybox() -> Vec<u8> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/bin".into(), "/usr/bin".into()])
        .map(|directory| directory.join("busybox"))
        .find(|candidate| candidate.is_file())
        .expect("a static busybox is needed for the test image; scripts/setup installs it");
    let listed = Command::new(&found).arg("--list").output().unwrap();
    let applets: BTreeSet<_> = std::str::from_utf8(&listed.stdout).unwrap().lines().collect();

    let mut archive = tar::Builder::new(vec![]);
    for directory in ["bin/", "etc/", "tmp/"] {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(if directory == "tmp/" { 0o1777 } else { 0o755 });
        header.set_size(0);
        archive.append_data(&mut header, directory, &[][..]).unwrap();
    }
    let program = std::fs::read(&found).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o755);
    header.set_size(program.len() as u64);
    archive.append_data(&mut header, "bin/busybox", &program[..]).unwrap();
    for applet in applets.into_iter().filter(|applet| *applet != "busybox") {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, format!("bin/{applet}"), "busybox").unwrap();
    }
    archive.into_inner().unwrap()
}

fn empty() -> Vec<u8> {
    tar::Builder::new(vec![]).into_inner().unwrap()
}
