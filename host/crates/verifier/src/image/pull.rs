//! The engine gets an image from its registry, and tells how far it is.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;

use super::split_reference;
use crate::docker_error::{EngineError, Fault, Phase};
use crate::engine::Engine;
use act_core::event::{EventKind, Events};

/// A pull that says nothing for this long has died.
const SILENCE: Duration = Duration::from_secs(180);
/// Layers whose progress is added up; more than any image has.
const MAX_LAYERS: usize = 512;

impl Engine {
    pub(super) async fn pull(&self, image: &str, events: &Events) -> Result<(), EngineError> {
        let (name, tag) = split_reference(image);
        let options = CreateImageOptions {
            from_image: Some(name.to_owned()),
            tag: Some(tag.to_owned()),
            ..CreateImageOptions::default()
        };
        let mut stream = Box::pin(self.docker.create_image(Some(options), None, None));
        let mut progress = Progress::default();
        loop {
            match tokio::time::timeout(SILENCE, stream.next()).await {
                Ok(Some(Ok(info))) => {
                    if let Some((status, current, total)) = progress.take(info) {
                        let image = image.to_owned();
                        events.emit(EventKind::ImagePull { image, status, current, total });
                    }
                }
                Ok(Some(Err(error))) => return Err(EngineError::new(Phase::Pull, &error)),
                Ok(None) => return Ok(()),
                Err(_) => {
                    // The engine is there; whom it waits for is not.
                    let message = "the pull made no progress in time".to_owned();
                    return Err(EngineError {
                        phase: Phase::Pull,
                        fault: Fault::Status(504),
                        message,
                    });
                }
            }
        }
    }
}

/// Adds the layers up and lets through what is worth telling.
#[derive(Default)]
struct Progress {
    layers: HashMap<String, (u64, u64)>,
    told: Option<(String, u64)>,
}

impl Progress {
    fn take(&mut self, info: CreateImageInfo) -> Option<(String, Option<u64>, Option<u64>)> {
        let status: String = info.status?.chars().take(200).collect();
        // What is said of the image as a whole is no progress.
        let of_layer = info.progress_detail.is_some();
        if let (Some(id), Some(detail)) = (info.id, info.progress_detail)
            && (self.layers.len() < MAX_LAYERS || self.layers.contains_key(&id))
        {
            let bytes = |n: Option<i64>| u64::try_from(n.unwrap_or(0)).unwrap_or(0);
            let (current, total) = (bytes(detail.current), bytes(detail.total));
            if total > 0 {
                self.layers.insert(id, (current, total));
            }
        }
        let (current, total) =
            self.layers.values().fold((0, 0), |(c, t), layer| (layer.0 + c, layer.1 + t));
        // Once a percent is often enough for a person and cheap for everyone else.
        let percent = (current * 100).checked_div(total).unwrap_or(0);
        let now = (status, percent);
        if self.told.as_ref() == Some(&now) {
            return None;
        }
        self.told = Some(now.clone());
        let known = of_layer && total > 0;
        Some((now.0, known.then_some(current), known.then_some(total)))
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::ProgressDetail;

    use super::*;

    #[test]
    fn progress_adds_layers_up_and_says_nothing_twice() {
        let info = |id: &str, current, total| CreateImageInfo {
            id: Some(id.into()),
            status: Some("Downloading".into()),
            progress_detail: Some(ProgressDetail { current: Some(current), total: Some(total) }),
            ..CreateImageInfo::default()
        };
        let mut progress = Progress::default();
        let told = |sum| Some(("Downloading".to_owned(), Some(sum), Some(1000)));
        assert_eq!(progress.take(info("a", 10, 1000)), told(10));
        assert_eq!(progress.take(info("a", 11, 1000)), None);
        assert_eq!(
            progress.take(info("b", 500, 1000)),
            Some(("Downloading".to_owned(), Some(511), Some(2000)))
        );
        let whole = CreateImageInfo { status: Some("Digest: x".into()), ..Default::default() };
        assert_eq!(progress.take(whole), Some(("Digest: x".to_owned(), None, None)));
    }
}
