//! What a run needs of a container engine, as one interface. Docker and Podman are behind it, in `docker`.
//!
//! A [`Driver`] carries out single requests and knows no rule of a run: which walls a container has, what is mounted, how long an
//! answer may take, which questions are repeated and what is removed when, [`Engine`](crate::Engine) and the modules above it
//! decide once for all engines. A driver sends no request that was not asked for, and repeats one only while its engine cannot be reached.

pub use crate::request::{
    ContainerRequest, Main, Mount, MountSource, Network, NewVolume, Role, SentFile, StepUser,
};

use act_core::verification::EngineIdentity;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::time::Duration;

/// How an engine failed. `Engine` adds at which request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The engine refused or closed the connection, or did not answer in time.
    Unreachable,
    /// The engine answered with an error. The numbers are those of HTTP: 400 for a request that cannot be carried out, such as
    /// a mount whose source is missing; 404 for an object that does not exist; 409 for one that is in use, exists already or is
    /// being removed; 410 for a container that the engine has lost or taken away, by no doing of what runs in it.
    Status(u16),
    /// The answer could not be parsed.
    Garbled,
}

/// An error of a driver, with the words of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverError {
    pub fault: Fault,
    pub message: String,
}

/// An answer that is under way.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, DriverError>>;

/// What is known of an engine once it has answered.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The address that the engine was found at.
    pub host: String,
    pub identity: EngineIdentity,
    /// The architecture of the engine's machine, by the name that images have for it.
    pub arch: Option<String>,
    /// Root in a container has only the rights of the caller.
    pub rootless: bool,
    /// Major and minor version of the kernel, if the engine says which it is.
    pub kernel: Option<(u32, u32)>,
    pub sharing: Sharing,
    /// What the engine cannot do, each with the reason.
    pub lacks: Vec<(Ability, String)>,
    /// A removal asks the processes of a container to end and waits for them, so they have to be killed before it.
    pub removes_politely: bool,
    /// A question about an image starts a container of it, and pulls the image before that.
    pub starts_images: bool,
    /// How long a request waits for an engine that cannot be connected to. The time limits of requests do not count it.
    pub away: Duration,
}

/// Something that a run may need and that not every engine can do. An engine names what it lacks in [`Facts::lacks`], and a run
/// that needs it is refused before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    LimitMemory,
    LimitCpus,
    LimitProcesses,
    /// A container may have the network of the engine.
    Network,
    /// A container without network reaches no address but its own.
    NoNetwork,
    /// The network of a running container is taken away and given back.
    SwitchNetwork,
    /// Addresses are closed to a container that has a network.
    CloseAddresses,
    /// Processes run as root.
    Root,
    /// A volume outlives the containers that mount it.
    KeepVolumes,
}

/// How far an engine mounts directories of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    Always,
    Never,
    /// It does unless a mount fails. A probe may tell then.
    Assumed,
    /// A probe may tell.
    Unknown,
}

/// The size of the machine that the engine runs on; 0 for what the engine does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    pub cpus: u64,
    pub memory_bytes: u64,
}

/// An image as the engine has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageInfo {
    pub id: Option<String>,
    /// The names with the digests of registries, `NAME@DIGEST`.
    pub registry_digests: Vec<String>,
    pub os: String,
    pub arch: String,
    /// The environment, as `NAME=value`.
    pub environment: Vec<String>,
    /// The paths for which the image declares volumes.
    pub volumes: Vec<String>,
    pub bytes: u64,
}

/// A message about the progress of a pull.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullProgress {
    pub status: Option<String>,
    pub layer: Option<String>,
    /// Bytes that have arrived, and all bytes; 0 where the engine does not know. `None` in a message about the whole image.
    pub bytes: Option<(u64, u64)>,
}

/// An image that is made of a stopped container.
#[derive(Debug, Clone)]
pub struct NewImage {
    pub name: String,
    pub tag: String,
    pub comment: String,
    /// A label, as `NAME=value`.
    pub label: String,
}

/// An object of the engine with its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labelled {
    /// The id of a container or an image, the name of a volume.
    pub id: String,
    /// The name of a container.
    pub name: Option<String>,
    pub labels: HashMap<String, String>,
}

/// A container as the engine reports it.
#[derive(Debug, Clone, Default)]
pub struct Inspected {
    pub id: Option<String>,
    /// The process id of PID 1 on the engine's machine.
    pub pid: Option<i64>,
    pub running: bool,
    /// The kernel killed a process of the container because its memory was used up.
    pub oom_killed: bool,
    /// The machine of the engine that the container is on, where the engine has several.
    pub node: Option<String>,
    pub description: Description,
}

/// A container in the engine's own words, as it is requested or as it runs.
#[derive(Debug, Clone, Default)]
pub struct Description {
    /// Everything that does not change while the container runs, as the engine's interface writes it.
    pub whole: serde_json::Value,
    pub user: Option<String>,
    /// `None` if the engine reports none.
    pub isolation: Option<Isolation>,
}

/// The settings that isolate a container from the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Isolation {
    pub privileged: bool,
    pub dropped_capabilities: Vec<String>,
    pub added_capabilities: Vec<String>,
    pub security_options: Vec<String>,
    pub network: Option<String>,
    pub ipc: Option<String>,
    pub pid: Option<String>,
    pub memory_bytes: i64,
    pub processes: i64,
    pub devices: usize,
    /// Mounts in the engine's older notation, `SOURCE:TARGET:OPTIONS`.
    pub binds: Vec<String>,
    /// The targets of mounts, with whether they are read-only.
    pub mounts: Vec<(String, bool)>,
}

/// A command that is executed in a running container.
#[derive(Debug, Clone)]
pub struct Command {
    pub arguments: Vec<String>,
    /// `None` for the directory of the container.
    pub directory: Option<String>,
}

/// A piece of what a command prints.
#[derive(Debug, Clone)]
pub struct Output {
    pub bytes: Bytes,
    /// The engine's stream ended within the piece.
    pub cut: bool,
}

/// The state of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecState {
    pub running: Option<bool>,
    pub exit_code: Option<i64>,
}

/// A container engine, as a run needs it. Names of containers and volumes are chosen by the caller.
pub trait Driver: std::fmt::Debug + Send + Sync {
    fn facts(&self) -> &Facts;

    /// Asks for any answer.
    fn ping(&self) -> Answer<'_, ()>;

    fn machine(&self) -> Answer<'_, Machine>;

    /// Describes an image that the engine has. A missing one is status 404.
    fn image<'a>(&'a self, name: &'a str) -> Answer<'a, ImageInfo>;

    /// Describes an image that the engine has, without a container of it and without a pull. An engine that would need one
    /// answers with status 404 for an image that it has not looked at.
    fn present_image<'a>(&'a self, name: &'a str) -> Answer<'a, ImageInfo> {
        self.image(name)
    }

    /// Pulls an image from its registry, until the stream ends.
    fn pull<'a>(
        &'a self,
        name: &'a str,
        tag: &'a str,
    ) -> BoxStream<'a, Result<PullProgress, DriverError>>;

    /// Makes an image of the tar archive of a root file system.
    fn import<'a>(&'a self, reference: &'a str, archive: Vec<u8>) -> Answer<'a, ()>;

    fn images<'a>(&'a self, label: &'a str) -> Answer<'a, Vec<Labelled>>;

    /// Removes an image with all its names.
    fn remove_image<'a>(&'a self, image: &'a str) -> Answer<'a, ()>;

    /// Lists the paths of a container that differ from its image, outside of mounts, with how: 0 is a change, 1 an addition,
    /// 2 a deletion.
    fn changes<'a>(&'a self, container: &'a str) -> Answer<'a, Vec<(String, u8)>>;

    /// Makes an image of a container and returns its id.
    fn commit<'a>(&'a self, container: &'a str, image: NewImage) -> Answer<'a, String>;

    /// Creates a volume. An existing volume of that name is left as it is.
    fn create_volume(&self, volume: NewVolume) -> Answer<'_, ()>;

    fn remove_volume<'a>(&'a self, name: &'a str) -> Answer<'a, ()>;

    /// Lists the volumes with a label, given as `NAME` or `NAME=VALUE`.
    fn volumes(&self, label: String) -> Answer<'_, Vec<Labelled>>;

    /// Describes what [`Driver::create`] would request, without a call to the engine.
    fn describe(&self, request: &ContainerRequest) -> Description;

    /// Creates a container with its files, without starting it.
    fn create<'a>(&'a self, name: &'a str, request: &'a ContainerRequest) -> Answer<'a, ()>;

    fn start<'a>(&'a self, container: &'a str) -> Answer<'a, ()>;

    fn inspect<'a>(&'a self, container: &'a str) -> Answer<'a, Inspected>;

    /// Lists the containers with a label, in whatever state.
    fn containers<'a>(&'a self, label: &'a str) -> Answer<'a, Vec<Labelled>>;

    /// Asks for a path of a container that is created, running or stopped. A missing path is status 404.
    fn stat<'a>(&'a self, container: &'a str, path: &'a str) -> Answer<'a, ()>;

    /// Sends an archive that is unpacked at `path`, with the owners that it names. The container runs, or is one of files, which
    /// never does.
    fn upload<'a>(
        &'a self,
        container: &'a str,
        path: &'a str,
        archive: BoxStream<'static, io::Result<Bytes>>,
    ) -> Answer<'a, ()>;

    /// Returns an archive of `path`, piece by piece. The first part of each name in it is the engine's own: the last part of
    /// `path`, or nothing.
    fn download<'a>(
        &'a self,
        container: &'a str,
        path: &str,
    ) -> BoxStream<'a, Result<Bytes, DriverError>>;

    /// Waits until a container ends, and returns its exit code, or `None` if the engine does not say.
    fn wait<'a>(&'a self, container: &'a str) -> Answer<'a, Option<i64>>;

    /// Returns the kills of processes of a container for memory, earlier ones included, until the connection fails. An engine
    /// that reports none returns a stream that ends.
    fn oom_events(&self, container: &str) -> BoxStream<'static, ()>;

    /// Kills all processes of a container at once, so that no process in it can delay or survive that. A container that has
    /// stopped is status 404 or 409.
    fn kill<'a>(&'a self, container: &'a str) -> Answer<'a, ()>;

    /// Kills a container and removes it with its anonymous volumes. Status 409 says that another removal is under way.
    fn remove<'a>(&'a self, container: &'a str) -> Answer<'a, ()>;

    /// Prepares a command in a running container and returns its id.
    fn prepare_exec<'a>(&'a self, container: &'a str, command: Command) -> Answer<'a, String>;

    /// Starts a prepared command and returns the stream of its output, standard output and error in the order in which the
    /// engine has them.
    fn start_exec<'a>(
        &'a self,
        exec: &'a str,
    ) -> Answer<'a, BoxStream<'static, Result<Output, DriverError>>>;

    fn exec_state<'a>(&'a self, exec: &'a str) -> Answer<'a, ExecState>;

    /// Returns the names of the networks that a container is connected to.
    fn networks<'a>(&'a self, container: &'a str) -> Answer<'a, Vec<String>>;

    /// Disconnects a container from a network. It reaches no address of that network when this returns.
    fn disconnect<'a>(&'a self, container: &'a str, network: &'a str) -> Answer<'a, ()>;

    fn connect<'a>(&'a self, container: &'a str, network: &'a str) -> Answer<'a, ()>;

    /// Compares the tree at a directory of a started container, as its processes see it, without `.git`, with the digest of the one
    /// that was sent. Returns the digest of another one; `None` too if the engine has no program there that computes it.
    fn sees_another_tree<'a>(
        &'a self,
        _container: &'a str,
        _path: &'a str,
        _sent: &'a str,
    ) -> Answer<'a, Option<String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns what a person should know of the engine before it runs anything: rights that no run needs, and what lies beside the
    /// runs.
    fn concerns(&self) -> Answer<'_, Vec<String>> {
        Box::pin(std::future::ready(Ok(vec![])))
    }

    /// Returns the addresses that the engine itself closes to the steps of a container with a network, those of VERIFIER-70
    /// among them; `None` if they have to be closed from within the network.
    fn closed(&self, _container: &str) -> Option<Vec<String>> {
        None
    }
}
