//! What runs left whose owner is dead: told, and removed.

use std::collections::HashMap;
use std::time::Duration;

use bollard::query_parameters::{ListContainersOptions, ListVolumesOptions};
use futures_util::{StreamExt, stream};
use rustix::process::geteuid;

use super::{Engine, QUICK};
use crate::docker_error::{EngineError, Phase};
use crate::owner::{RUN_ID, is_orphan};
use act_core::process::{self, Process};
use act_core::verification::InfraError;

/// For an orphan that somebody else removes; one that cannot be removed is no reason to hold up a task for long.
const PATIENCE: Duration = Duration::from_secs(5);
/// Removals that an engine is asked for at once.
const AT_ONCE: usize = 4;

impl Engine {
    /// Names of the containers of runs whose owner is dead.
    pub async fn left_over(&self) -> Result<Vec<String>, InfraError> {
        let orphans = self.orphans().await?.into_iter();
        Ok(orphans.map(|(_, name)| name).collect())
    }

    /// Removes the containers of runs whose owner is dead. Each is tried; the first that stays is the error.
    pub async fn reap_orphans(&self) -> Result<(), InfraError> {
        let orphans = self.orphans().await?;
        let removals = stream::iter(&orphans).map(|(id, _)| self.remove_within(PATIENCE, id));
        let mut removed: Result<(), EngineError> =
            removals.buffer_unordered(AT_ONCE).fold(Ok(()), async |all, one| all.and(one)).await;
        // Of runs that died between making their volume and their container as well.
        let (this, now) = (Process::this(), act_core::clock::now().timestamp());
        let filters = HashMap::from([("label".to_owned(), vec![RUN_ID.to_owned()])]);
        let options = ListVolumesOptions { filters: Some(filters) };
        let listed =
            self.call(Phase::Inspect, QUICK, self.docker.list_volumes(Some(options))).await?;
        for volume in listed.volumes.unwrap_or_default() {
            if is_orphan(&volume.labels, (&this, geteuid()), now, process::look) {
                removed = removed.and(self.remove_volume(&volume.name).await);
            }
        }
        Ok(removed?)
    }

    /// Ids and names.
    async fn orphans(&self) -> Result<Vec<(String, String)>, InfraError> {
        let filters = HashMap::from([("label".to_owned(), vec![RUN_ID.to_owned()])]);
        let options =
            ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        let listed = self.settled(|| self.docker.list_containers(Some(options.clone()))).await?;
        let (this, now) = (Process::this(), act_core::clock::now().timestamp());
        let orphans = listed.into_iter().filter_map(|container| {
            let labels = container.labels.unwrap_or_default();
            let id = container
                .id
                .filter(|_| is_orphan(&labels, (&this, geteuid()), now, process::look))?;
            let name = container.names.unwrap_or_default().into_iter().next();
            let name = name.map(|name| name.trim_start_matches('/').to_owned());
            Some((id.clone(), name.unwrap_or(id)))
        });
        Ok(orphans.collect())
    }
}
