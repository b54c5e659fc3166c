//! The engine of the machine, as far as stories look at it.

use std::collections::HashMap;

use bollard::Docker;
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

/// An image with a shell and its tools; made once.
pub(crate) fn image() -> &'static str {
    with_engine(async |docker| crate::image::ensure(&docker).await);
    crate::image::BUSYBOX
}

/// One more name for that image, which can be made to mean another one; gone when dropped.
pub(crate) struct Tag(String);

impl Tag {
    const REPO: &str = "docker.io/library/act-test-moving";

    pub(crate) fn new() -> Self {
        let tag = Self(format!("t{}-{:08x}", std::process::id(), rand::random::<u32>()));
        tag.means(image());
        tag
    }

    pub(crate) fn name(&self) -> String {
        format!("{}:{}", Self::REPO, self.0)
    }

    pub(crate) fn moves(&self) {
        self.means(crate::image::EMPTY);
    }

    fn means(&self, image: &str) {
        let (repo, tag) = (Some(Self::REPO.to_owned()), Some(self.0.clone()));
        let options = TagImageOptions { repo, tag };
        with_engine(async |docker| docker.tag_image(image, Some(options)).await.unwrap());
    }
}

impl Drop for Tag {
    fn drop(&mut self) {
        let name = self.name();
        let options = None::<RemoveImageOptions>;
        let _ = with_engine(async |docker| docker.remove_image(&name, options, None).await);
    }
}

/// Names of the containers of a run, also of stopped ones.
pub(crate) fn containers_of(run_id: &str) -> Vec<String> {
    let filters = HashMap::from([("label".to_owned(), vec![format!("act.run_id={run_id}")])]);
    let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
    let listed = with_engine(async |docker| docker.list_containers(Some(options)).await.unwrap());
    listed.into_iter().flat_map(|container| container.names.unwrap_or_default()).collect()
}

/// For stories that take the engine away from the program, which then cannot clean up.
pub(crate) fn remove_containers_of(run_id: &str) {
    let force = || RemoveContainerOptions { force: true, ..Default::default() };
    for name in containers_of(run_id) {
        let name = name.trim_start_matches('/').to_owned();
        with_engine(async |docker| docker.remove_container(&name, Some(force())).await.unwrap());
    }
}
