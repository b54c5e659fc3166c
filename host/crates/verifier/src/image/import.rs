//! Giving the engine an image that no registry has.

use bollard::query_parameters::CreateImageOptions;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};

use crate::docker_error::Phase;
use crate::engine::{Engine, WORK};
use act_core::verification::InfraError;

impl Engine {
    /// Imports a root file system, a tar archive, as `NAME:TAG`. An image of that name stays as it is: the
    /// tag is expected to say what is in the archive.
    pub async fn import_image(
        &self,
        name: &str,
        tag: &str,
        archive: Vec<u8>,
    ) -> Result<(), InfraError> {
        let reference = format!("{name}:{tag}");
        if self.inspect(&reference).await?.is_some() {
            return Ok(());
        }
        let options = CreateImageOptions {
            from_src: Some("-".to_owned()),
            // Name and tag in one: Podman does not read the tag's own field.
            repo: Some(reference.clone()),
            ..CreateImageOptions::default()
        };
        let archive = bollard::body_full(Bytes::from(archive));
        let import = self.docker.create_image(Some(options), Some(archive), None);
        // What it says on the way is of no interest; that it ended without an error is.
        let ended = import.map(|info| info.map(drop)).try_collect::<()>();
        self.call(Phase::Pull, WORK, ended).await.map_err(|error| {
            let mut error = InfraError::from(error);
            error.message = format!("import of {reference}: {}", error.message);
            error
        })
    }
}
