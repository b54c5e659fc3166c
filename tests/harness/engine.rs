//! The container engine of this machine, for tests that need it.

use std::collections::HashMap;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::{
    ListContainersOptions, RemoveContainerOptions, RemoveImageOptions, TagImageOptions,
};

fn with_engine<T>(work: impl AsyncFnOnce(Docker) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let docker = Docker::connect_with_defaults().unwrap().negotiate_version().await.unwrap();
        work(docker).await
    })
}

/// Returns the address of the engine for the program under test; `None` is the default one.
pub(crate) fn engine_address() -> Option<std::ffi::OsString> {
    std::env::var_os("DOCKER_HOST")
}

/// Returns the name of an image with a shell and its tools, which is built once.
pub(crate) fn image() -> &'static str {
    with_engine(async |docker| crate::image::ensure(&docker).await);
    crate::image::BUSYBOX
}

/// Returns the image of one language, or `None`, after a report that the test is skipped, when it cannot be had.
pub(crate) fn image_of(language: &str) -> Option<String> {
    let root = act_core::testing::checkout();
    let made = std::process::Command::new(root.join("scripts/test-images"))
        .arg(language)
        .output()
        .unwrap();
    let listed = String::from_utf8(made.stdout).unwrap();
    let line = listed.lines().find_map(|line| line.split_once('='));
    if line.is_none() {
        let why = String::from_utf8_lossy(&made.stderr);
        act_core::testing::skip(format_args!("no image for {language}: {}", why.trim()));
    }
    line.map(|(_, image)| image.to_owned())
}

/// One more name for that image, which can be moved to another image. Dropping it removes the name.
pub(crate) struct Tag {
    repo: &'static str,
    tag: String,
}

impl Tag {
    /// Returns the only name of an image of its own, in a registry that never answers, and the id of the image.
    pub(crate) fn of_its_own() -> (Self, String) {
        let tag = Self::unused("127.0.0.1:9/act-test-own");
        let changes = vec![format!("LABEL act.test={}", tag.tag)];
        let archive = crate::image::busybox();
        let id = with_engine(async |docker| {
            crate::image::import_changed(&docker, &tag.name(), archive, changes).await;
            docker.inspect_image(&tag.name()).await.unwrap().id.unwrap()
        });
        (tag, id)
    }

    /// Returns another name for the image with this id.
    pub(crate) fn for_image(id: &str) -> Self {
        let tag = Self::unused("127.0.0.1:9/act-test-other");
        tag.point_to(id);
        tag
    }

    fn unused(repo: &'static str) -> Self {
        let tag = format!("t{}-{:08x}", std::process::id(), rand::random::<u32>());
        Self { repo, tag }
    }

    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.repo, self.tag)
    }

    pub(crate) fn move_to_empty(&self) {
        self.point_to(crate::image::EMPTY);
    }

    /// Removes the name. The image stays if it has another one.
    pub(crate) fn remove(&self) {
        let (name, options) = (self.name(), None::<RemoveImageOptions>);
        let _ = with_engine(async |docker| docker.remove_image(&name, options, None).await);
    }

    fn point_to(&self, image: &str) {
        let (repo, tag) = (Some(self.repo.to_owned()), Some(self.tag.clone()));
        let options = TagImageOptions { repo, tag };
        with_engine(async |docker| docker.tag_image(image, Some(options)).await.unwrap());
    }
}

impl Drop for Tag {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Returns the names of the containers of a run, including stopped ones.
pub(crate) fn containers_of(run_id: &str) -> Vec<String> {
    let filters = HashMap::from([("label".to_owned(), vec![format!("act.run_id={run_id}")])]);
    let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
    let listed = with_engine(async |docker| docker.list_containers(Some(options)).await.unwrap());
    listed.into_iter().flat_map(|container| container.names.unwrap_or_default()).collect()
}

/// Removes the containers of a run, for tests that take the engine away from the program. Another `act` may remove them at
/// the same time, because their owner is dead.
pub(crate) fn remove_containers_of(run_id: &str) {
    let force = || RemoveContainerOptions { force: true, ..Default::default() };
    for name in containers_of(run_id) {
        let name = name.trim_start_matches('/').to_owned();
        let removed =
            with_engine(async |docker| docker.remove_container(&name, Some(force())).await);
        match removed {
            Err(Error::DockerResponseServerError { status_code: 404 | 409, .. }) => {}
            removed => removed.unwrap(),
        }
    }
}
