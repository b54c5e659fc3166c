//! Does the engine see the files of this machine? Behind a loopback address there may be an engine of this
//! machine, or the end of a tunnel to another. So it is shown a file and asked what it sees.

use bollard::query_parameters::{ContainerArchiveInfoOptions, CreateContainerOptions};

use super::container::Guard;
use super::docker_error::{InfraError, Phase};
use super::engine::{Engine, QUICK, WORK};
use super::image::ResolvedImage;
use super::owner;
use super::request::{ContainerRequest, StepUser, bind};
use crate::artifacts::RunDir;
use crate::config::Limits;
use crate::process::Process;

const SEEN_AT: &str = "/act-sight";

impl Engine {
    /// Asked once per engine. `run` lends the file, whose directory has a name that no other machine has.
    pub(super) async fn sees_files(
        &self,
        run: &RunDir,
        image: &ResolvedImage,
    ) -> Result<bool, InfraError> {
        self.sees_files.get_or_try_init(|| self.show(run, image)).await.copied()
    }

    async fn show(&self, run: &RunDir, image: &ResolvedImage) -> Result<bool, InfraError> {
        // This one makes a directory where it finds nothing to mount, on a machine that is not ours.
        if self.is_podman() {
            return Ok(false);
        }
        let file = run
            .lend_file("sight", b"seen")
            .map_err(|error| InfraError::from_io("show the engine a file", &error))?;
        let name = format!("act-{}-sight", run.id());
        let guard = Guard::arm(self, &name, vec![]);
        let deadline = crate::clock::now().timestamp();
        let request = ContainerRequest {
            image_id: image.id.clone(),
            mounts: vec![bind(&file, SEEN_AT, true)?],
            volume: None,
            files: vec![],
            environment: vec![],
            user: StepUser::Root,
            limits: Limits { cpus: 1.0, memory_mb: 256, pids: 64 },
            network: false,
            lifetime_seconds: 1,
            labels: owner::labels(Process::this(), run.id().as_str(), deadline),
        };
        let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
        let create = self.docker.create_container(Some(options), request.body());
        let seen = match self.call(Phase::Create, WORK, create).await {
            Ok(_) => {
                let options = ContainerArchiveInfoOptions { path: SEEN_AT.to_owned() };
                let look = self.docker.get_container_archive_info(&name, Some(options));
                match self.call(Phase::Prepare, QUICK, look).await {
                    Ok(_) => Ok(true),
                    Err(error) if error.status() == Some(404) => Ok(false),
                    Err(error) => Err(error),
                }
            }
            // What it is to mount does not exist there.
            Err(error) if error.status() == Some(400) => Ok(false),
            Err(error) => Err(error),
        };
        guard.remove().await?;
        Ok(seen?)
    }
}
