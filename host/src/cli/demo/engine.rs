//! The image for the engine, and the script of the model.

use super::image::LocalImage;
use act_core::Failure;
use act_model::scripted::Script;
use act_verifier::Engine;

/// Loads the image into the engine, unless the engine has it already.
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

/// The turns of the model.
pub(super) fn script() -> Result<Script, Failure> {
    Script::from_yaml(include_str!("demo.yaml")).map_err(|error| {
        Failure::refused("demo_failed", format!("failed to read the script of the model: {error}"))
            .hint("this is a defect of act; please report it")
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_model_of_the_demo_has_a_script() {
        let script = super::script().unwrap();
        assert_eq!(
            script.left().into_iter().collect::<Vec<_>>(),
            [("editor".to_owned(), 7), ("scout-a".to_owned(), 1), ("scout-b".to_owned(), 1)]
        );
    }
}
