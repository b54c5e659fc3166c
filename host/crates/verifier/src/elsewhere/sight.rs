//! Does the engine see the files of this machine? Behind a loopback address there may be an engine of this
//! machine, or the end of a tunnel to another; so may there be behind a socket, but seldom. So it is shown a file
//! and asked what it sees: at a loopback address at once, behind a socket when it cannot mount what it is given.

use std::sync::OnceLock;

use bollard::query_parameters::ContainerArchiveInfoOptions;

use crate::container::Guard;
use crate::docker_error::Phase;
use crate::engine::{Engine, QUICK};
use crate::image::ResolvedImage;
use crate::owner;
use crate::request::{ContainerRequest, bind};
use act_core::process::{self, Process};
use act_core::verification::InfraError;
use act_records::artifacts::RunDir;

const SEEN_AT: &str = "/act-sight";

/// What is known, or believed until it is disproved.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    known: OnceLock<bool>,
    /// Nobody asks before something goes wrong.
    believed: bool,
}

impl Sight {
    pub(crate) fn of(host: &str, podman: bool, hostname: Option<&str>) -> Self {
        let known = |sees: bool| Self { known: OnceLock::from(sees), believed: false };
        if host.starts_with("unix://") {
            // Podman makes a directory where it finds nothing to mount, on a machine that is not ours: it is
            // never asked. On other systems every engine is in a virtual machine, which has our files.
            let far = podman && cfg!(target_os = "linux") && hostname != Some(&process::hostname());
            return if far { known(false) } else { Self { believed: true, ..Self::default() } };
        }
        if podman || !is_loopback(host) { known(false) } else { Self::default() }
    }

    fn so_far(&self) -> Option<bool> {
        self.known.get().copied().or(self.believed.then_some(true))
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.split_once("://").map_or(host, |(_, address)| address);
    let address = address.split('/').next().unwrap_or_default();
    let name = match address.strip_prefix('[') {
        Some(v6) => v6.split(']').next(),
        None => address.split(':').next(),
    };
    name.is_some_and(|name| {
        name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    })
}

impl Engine {
    /// As far as it is known or believed.
    pub(crate) fn sees_files(&self) -> bool {
        self.sight.so_far() == Some(true)
    }

    /// Asked once per engine, if at all. `run` lends the file, whose directory has a name that no other machine
    /// has.
    pub(crate) async fn find_sight(
        &self,
        run: &RunDir,
        image: &ResolvedImage,
    ) -> Result<bool, InfraError> {
        match self.sight.so_far() {
            Some(sees) => Ok(sees),
            None => self.look(run, image).await,
        }
    }

    /// After the engine could not make a container with our files: whether it was wrong to believe that it
    /// sees them.
    pub(crate) async fn was_blind(
        &self,
        run: &RunDir,
        image: &ResolvedImage,
    ) -> Result<bool, InfraError> {
        if self.is_podman() || self.sight.known.get().is_some() {
            return Ok(false);
        }
        self.look(run, image).await.map(|sees| !sees)
    }

    async fn look(&self, run: &RunDir, image: &ResolvedImage) -> Result<bool, InfraError> {
        let sees = self.show(run, image).await?;
        Ok(*self.sight.known.get_or_init(|| sees))
    }

    async fn show(&self, run: &RunDir, image: &ResolvedImage) -> Result<bool, InfraError> {
        let file = run
            .lend_file("sight", b"seen")
            .map_err(|error| InfraError::from_io("show the engine a file", &error))?;
        let name = format!("act-{}-sight", run.id());
        let guard = Guard::arm(self, &name, vec![]);
        let deadline = act_core::clock::now().timestamp();
        let mounts = vec![bind(&file, SEEN_AT, true)?];
        let labels = owner::labels(Process::this(), run.id().as_str(), deadline);
        let request = ContainerRequest::chore(image, mounts, 1, labels);
        let seen = match self.create(&name, request.body()).await {
            Ok(()) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-33
    #[test]
    fn a_socket_is_believed_an_address_elsewhere_is_not_and_loopback_is_tried() {
        let of = |host: &str| Sight::of(host, false, Some("any")).so_far();
        assert_eq!(of("unix:///x.sock"), Some(true));
        for host in ["tcp://127.0.0.1:2375", "tcp://localhost:1", "http://[::1]:2"] {
            assert_eq!(of(host), None, "{host}");
        }
        for host in ["tcp://10.0.0.1:2375", "tcp://127.0.0.1.example.com:1", "https://[fe80::1]:2"]
        {
            assert_eq!(of(host), Some(false), "{host}");
        }
    }

    // VERIFIER-33
    #[cfg(target_os = "linux")]
    #[test]
    fn podman_is_never_shown_anything_and_is_here_when_its_machine_has_our_name() {
        let of = |host: &str, name: &str| Sight::of(host, true, Some(name)).so_far();
        assert_eq!(of("unix:///x.sock", &process::hostname()), Some(true));
        assert_eq!(of("unix:///x.sock", "some-other-machine"), Some(false));
        assert_eq!(of("tcp://127.0.0.1:1", &process::hostname()), Some(false));
    }
}
