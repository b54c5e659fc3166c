//! The files of a run on an engine that does not see ours: volumes of the run's own, filled and emptied through
//! a container that never starts. So nothing of the steps runs where we read and write.

use std::io::{Read, Write};

use bollard::models::Mount;

use super::cache::CacheThere;
use super::pack::Packer;
use super::transfer;
use crate::container::Guard;
use crate::docker_error::EngineError;
use crate::engine::Engine;
use crate::image::ResolvedImage;
use crate::request::{ContainerRequest, new_volume, scaffold, volume};
use crate::view::{COPY, View, WORKSPACE};
use act_core::verification::InfraError;
use act_records::artifacts::STEP_PARTS;

/// Where the container that never starts has the volumes.
const PLACE: &str = "/act";
/// Each part is a volume of its own, as it is a mount of its own on an engine of this machine.
const PARTS: &str = "/act/artifacts";
/// Of a run that shares none.
const CACHE: &str = "cache";
const TREE: &str = "/act/tree";
const GIT: &str = "/act/git";

pub(crate) struct Depot {
    engine: Engine,
    /// Of the container that holds the volumes, and of the volumes but for their endings.
    name: String,
    guard: Guard,
    /// None where the run has a cache of its own.
    cache: Option<CacheThere>,
}

/// What steps write into.
fn parts() -> impl Iterator<Item = &'static str> {
    STEP_PARTS.into_iter().chain([CACHE])
}

impl Depot {
    /// Makes the volumes and what steps write into: `tree`, empty, belongs to `ids`, as do the parts. The labels
    /// are those of the run, so that whoever finds it left over knows whose it was.
    pub(super) async fn create(
        engine: &Engine,
        run: &str,
        image: &ResolvedImage,
        labels: std::collections::HashMap<String, String>,
        ids: (u32, u32),
    ) -> Result<Self, InfraError> {
        let name = format!("{run}-files");
        let places: Vec<_> = parts()
            .map(|part| (part, format!("{PARTS}/{part}")))
            .chain([("tree", TREE.to_owned()), ("git", GIT.to_owned())])
            .map(|(end, place)| (format!("{name}-{end}"), place))
            .collect();
        let volumes = places.iter().map(|(volume, _)| volume.clone()).collect();
        let guard = Guard::arm(engine, &name, volumes);
        let depot = Self { engine: engine.clone(), name, guard, cache: None };
        for (volume, _) in &places {
            engine.create_volume(new_volume(volume, labels.clone())).await?;
        }
        let mounts = places.iter().map(|(name, place)| volume(name, place, false)).collect();
        let request = ContainerRequest::chore(image, mounts, 1, labels);
        engine.create(&depot.name, request.body()).await?;
        // The root of a volume is made by the engine, and some engines let nobody name its owner but from
        // above.
        depot
            .send(PLACE, ids, |packer| {
                packer.directory("tree".as_ref())?;
                parts()
                    .try_for_each(|part| packer.directory(format!("artifacts/{part}").as_ref()))?;
                // Where the copy is mounted.
                packer.directory("artifacts/build/tree".as_ref())
            })
            .await?;
        Ok(depot)
    }

    /// Given back when the depot is removed.
    pub(super) fn keep(&mut self, cache: CacheThere) {
        self.cache = Some(cache);
    }

    /// The tree that the steps work in, once.
    pub(super) async fn send_tree<T: Send + 'static>(
        &self,
        ids: (u32, u32),
        pack: impl FnOnce(&mut Packer<&mut dyn Write>) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, InfraError> {
        self.send(TREE, ids, pack).await
    }

    pub(super) async fn send_git(
        &self,
        ids: (u32, u32),
        pack: impl FnOnce(&mut Packer<&mut dyn Write>) -> std::io::Result<()> + Send + 'static,
    ) -> Result<(), InfraError> {
        self.send(GIT, ids, pack).await
    }

    async fn send<T: Send + 'static>(
        &self,
        path: &str,
        ids: (u32, u32),
        pack: impl FnOnce(&mut Packer<&mut dyn Write>) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, InfraError> {
        let root = path != PLACE;
        transfer::upload(&self.engine, &self.name, path, move |to| {
            let mut packer = Packer::new(to, ids);
            if root {
                packer.top()?;
            }
            let packed = pack(&mut packer)?;
            packer.finish()?;
            Ok(packed)
        })
        .await
    }

    /// What the container of the steps gets: the same places as on an engine of this machine. `git` is where
    /// the git directory is wanted.
    pub(super) fn mounts(&self, view: View, git: &[String]) -> Vec<Mount> {
        let of = |end: &str| format!("{}-{end}", self.name);
        let mut mounts = vec![scaffold(), volume(&of("tree"), WORKSPACE, true)];
        let own = parts().filter(|part| *part != CACHE || self.cache.is_none());
        mounts.extend(own.map(|part| volume(&of(part), &format!("/artifacts/{part}"), false)));
        if view == View::Copy {
            mounts.push(volume(&of("tree"), COPY, false));
        }
        mounts.extend(self.cache.iter().map(CacheThere::mount));
        mounts.extend(git.iter().map(|target| volume(&of("git"), target, true)));
        mounts
    }

    /// The tree as it is now, archived below `tree/`.
    pub(crate) async fn read_tree<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut dyn Read) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, InfraError> {
        transfer::download(&self.engine, &self.name, TREE, read).await
    }

    /// One of the parts that steps write, archived below its name. The tree is not in it.
    pub(crate) async fn read_part<T: Send + 'static>(
        &self,
        part: &str,
        read: impl FnOnce(&mut dyn Read) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, InfraError> {
        transfer::download(&self.engine, &self.name, &format!("{PARTS}/{part}"), read).await
    }

    /// Only after the container of the steps is gone.
    pub(crate) async fn remove(self) -> Result<(), EngineError> {
        let released = match self.cache {
            Some(cache) => cache.release().await,
            None => Ok(()),
        };
        self.guard.remove().await.and(released)
    }
}
