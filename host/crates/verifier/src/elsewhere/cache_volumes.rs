//! What this user's runs keep on an engine that does not see our files: shown and thrown away.

use std::collections::HashMap;

use bollard::query_parameters::ListVolumesOptions;

use super::cache::{IMAGE, OWNER, REPO, owner};
use crate::docker_error::Phase;
use crate::engine::{Engine, QUICK};
use act_core::verification::InfraError;

/// A download cache in a volume of the engine; its size only the engine's machine knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheVolume {
    pub volume: String,
    pub image: String,
    pub repo: String,
}

impl Engine {
    pub async fn cache_volumes(&self) -> Result<Vec<CacheVolume>, InfraError> {
        let filters = HashMap::from([("label".to_owned(), vec![format!("{OWNER}={}", owner())])]);
        let options = ListVolumesOptions { filters: Some(filters) };
        let list = self.docker.list_volumes(Some(options));
        let listed = self.call(Phase::Inspect, QUICK, list).await?;
        let mut found: Vec<_> = listed
            .volumes
            .unwrap_or_default()
            .into_iter()
            .map(|mut volume| CacheVolume {
                image: volume.labels.remove(IMAGE).unwrap_or_default(),
                repo: volume.labels.remove(REPO).unwrap_or_default(),
                volume: volume.name,
            })
            .collect();
        found.sort_by(|a, b| (&a.image, &a.repo).cmp(&(&b.image, &b.repo)));
        Ok(found)
    }

    /// Removes all that no run holds; what was removed and how many are in use.
    pub async fn clear_cache_volumes(&self) -> Result<(Vec<CacheVolume>, usize), InfraError> {
        let (mut cleared, mut busy) = (vec![], 0);
        for cache in self.cache_volumes().await? {
            match self.remove_volume(&cache.volume).await {
                Ok(()) => cleared.push(cache),
                Err(error) if error.status() == Some(409) => busy += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok((cleared, busy))
    }
}
