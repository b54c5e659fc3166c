//! What the demo borrows from other modules: an engine that takes an image, and the scripted model.

use super::image::LocalImage;
use crate::output::Failure;
use crate::verifier::Engine;

/// Gives the engine the image, unless it has it.
pub(super) async fn provide(image: LocalImage) -> Result<(), Failure> {
    let engine = Engine::connect().await.map_err(|error| {
        let message = format!("Docker unavailable: tried {}: {}", error.host, error.why);
        Failure::refused("docker_unavailable", message).hint(error.hint)
    })?;
    engine.import_image(LocalImage::NAME, &image.tag, image.archive).await.map_err(|error| {
        Failure::refused("demo_failed", error.message)
            .hint("look at the engine's log and its free space")
    })
}

pub(super) struct Model;

impl Model {
    pub(super) fn base_url(&self) -> String {
        String::new()
    }
}

pub(super) fn model() -> Result<Model, Failure> {
    Ok(Model)
}
