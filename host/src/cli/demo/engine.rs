//! What the demo borrows from other modules: an engine that takes an image, and the scripted model.

use super::image::LocalImage;
use crate::output::Failure;

/// Gives the engine the image, unless it has it.
pub(super) async fn provide(image: &LocalImage) -> Result<(), Failure> {
    let _ = (&image.tag, &image.archive);
    Err(Failure::refused("not_wired", "images cannot be imported yet"))
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
