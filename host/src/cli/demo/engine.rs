//! What the demo borrows from other modules: an engine that takes an image, and the scripted model.

use super::image::LocalImage;
use act_core::Failure;
use act_model::scripted::{Script, ScriptedServer};
use act_verifier::Engine;

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

/// A model that says what the script says, for as long as the value lives.
pub(super) fn model() -> Result<ScriptedServer, Failure> {
    let failed =
        |why: String| Failure::refused("demo_failed", format!("failed to start the model: {why}"));
    let script =
        Script::from_yaml(include_str!("demo.yaml")).map_err(|error| failed(error.to_string()))?;
    ScriptedServer::start(script).map_err(|error| {
        failed(error.to_string()).hint("the demo needs a free port of the loopback interface")
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_model_of_the_demo_starts() {
        let model = super::model().unwrap();
        assert!(model.base_url().starts_with("http://127.0.0.1:"));
        assert_eq!(
            model.left().into_iter().collect::<Vec<_>>(),
            [("editor".to_owned(), 7), ("scout-a".to_owned(), 1), ("scout-b".to_owned(), 1)]
        );
    }
}
