//! Kubernetes: one Pod for each container of steps. This is the only file that names the client.
//!
//! A Pod has two containers. The host writes and reads the volumes through `loader`, which has our own image and runs on when the
//! steps have been killed. `steps` has the image of the user. Commands are executed by the API, whose status channel has the exit
//! code. The program in `sandbox/` is in both.
//!
//! The kubelet reports up to a second late what a container does, so nothing waits for its report that a command in the
//! container can answer: that a container runs, and that no process of a step is left.
//!
//! A volume and the container that fills it exist only within the Pod of the steps, so until that is created they are notes of
//! this process. A slot is a Lease.

use crate::base_volume::{Batch, Batches};
use crate::closed_network::closed_ranges;
use crate::driver::{
    Ability, Answer, Command, Description, Driver, DriverError, ExecState, Facts, Fault, ImageInfo,
    Inspected, Isolation, Labelled, Machine, NewImage, Output, PullProgress, Sharing,
};
use crate::engine_error::EngineUnavailable;
use crate::request::{
    ContainerRequest, Main, MountSource, Network, NewVolume, Role, SentFile, StepUser,
};
use act_config::ClusterPlace;
use act_core::verification::EngineIdentity;
use act_fs::trusted::{Owner, open_directory, read_text};
use act_fs::{Dir, Durability, check_private};
use act_workspace::digest;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::BoxStream;
use futures_util::{AsyncBufReadExt, FutureExt, StreamExt, stream};
use k8s_openapi::api::authorization::v1::{ResourceRule, SelfSubjectRulesReview};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ContainerStatus, Namespace, Pod, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{
    Api, AttachParams, AttachedProcess, DeleteParams, ListParams, LogParams, Patch, PatchParams,
    PostParams, Preconditions,
};
use kube::client::UpgradeConnectionError;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, SimplexStream, WriteHalf};

/// The name that this engine has in a manifest.
pub(crate) const NAME: &str = "kubernetes";
/// How long a session is used again after its last request. Load balancers forget a connection that is silent for a minute.
const IDLE: Duration = Duration::from_secs(20);
/// How long a session may take to show that it still answers. A connection that broke silently would be waited for much longer.
const ALIVE: Duration = Duration::from_secs(5);
/// Pause between two questions about a Pod that is about to change.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a Pod may take until its containers run, with the pull of an image on a node that lacks it.
const BEGIN: Duration = Duration::from_secs(100);
/// How long the API server may be away. It restarts in less than 30 s, and another one takes over in less.
const AWAY: Duration = Duration::from_secs(60);
/// Pause between two attempts to connect to it.
const AWAY_PAUSE: Duration = Duration::from_millis(500);
/// How long the kubelet may take to notice that a container has ended. It looks once a second.
const NOTICED: Duration = Duration::from_secs(3);
/// How long the containers of a Pod may take to end when they were asked to.
const END: Duration = Duration::from_secs(10);
/// How long a Pod may take to go when its containers did not end by themselves. The kubelet answers every 10 s.
const GONE: Duration = Duration::from_secs(40);
/// Bytes of a disk volume. The host fetches at most 4 GiB of artifacts, and a step may need as much again.
const DISK: &str = "8Gi";
/// Bytes in one piece of a stream to or from the program in the Pod.
const PIECE: usize = 64 * 1024;
/// Bytes that the client holds of a stream in each direction.
const BUFFER: usize = 256 * 1024;
/// Bytes that are read of an answer of our own program.
const MAX_ANSWER: usize = 1 << 20;
/// Bytes of the user's kubeconfig, which holds some certificates for each cluster.
const MAX_KUBECONFIG: u64 = 4 << 20;
/// The user of containers for work of `act` itself, and of steps whose caller is root: nobody. No Pod runs as root.
const NOBODY: u32 = 65_534;
/// How long an address may take to answer the probe of the walls. The node and the API server answer in less than 10 ms, and
/// every run waits this long where walls drop packets.
const PROBE_MILLISECONDS: &str = "300";
/// How long a network plugin may take until it has closed the network of a new Pod.
const CLOSED: Duration = Duration::from_secs(5);
/// How long a step with a network waits for its name server. Nodes without one exist.
const OPENED: Duration = Duration::from_secs(2);
/// The port of a kubelet.
const KUBELET: u16 = 10_250;
/// The metadata service of clouds.
const METADATA: &str = "169.254.169.254:80";
/// An address of the internet, which a step without a network does not reach.
const OUTSIDE: &str = "1.1.1.1:443";
/// The words for addresses that only a process of the Pod knows: the API server, and its name servers.
const OF_THE_POD: [&str; 2] = ["api", "names"];
/// How many other Pods are probed.
const OTHER_PODS: usize = 2;

const MANAGED: &str = "app.kubernetes.io/managed-by";
/// `off` or `on`. The NetworkPolicies select Pods by it.
const NETWORK_LABEL: &str = "act.network";
/// The name of the Pod, by which the policy of its open network selects it.
const POD_LABEL: &str = "act.pod";
/// The name of the only network of a Pod.
const NETWORK: &str = "pod";
const OUR_NAME: &str = "act.name";
const OUR_LABELS: &str = "act.labels";
const POLICY: &str = "act-network-off";

const LOADER: &str = "loader";
const STEPS: &str = "steps";
const PROGRAM: &str = "/.act/bin/act-sandbox";
/// The directory of the loader at which the base volume is.
const BASE: &str = "/.act/base";
/// The directory with the files by which the host ends what runs in a Pod.
const CONTROL: &str = "/.act/control";
/// The program in our own image.
const OWN_PROGRAM: &str = "/act-sandbox";
/// The directory of the loader at which the files of a container lie.
const SENT: &str = "/.act/files";
/// Bytes of the files of a container. They are in the Pod, and an object of the API has at most 1.5 MB.
const MAX_FILES: usize = 512 << 10;
/// Bytes of one variable of the environment. The kernel takes at most 128 KiB.
const VARIABLE: usize = 96 << 10;
/// The exit code of our program for a path that does not exist.
const MISSING: i64 = 44;
/// The exit codes of a command that a Pod's end kills.
const KILLED: i64 = 137;
const TERMINATED: i64 = 143;
/// How long the runtime takes to kill all containers of a Pod. They are killed at the same time.
const KILLED_TOGETHER: Duration = Duration::from_millis(300);
/// The status of a Pod that the cluster has taken away, by no doing of what runs in it.
const LOST: u16 = 410;
/// How long the processes that a step has left may take to end when they are killed.
const ALONE_MILLISECONDS: &str = "2000";
/// The exit code of our program for a base volume that it cannot write to.
const NO_BASE: i64 = 46;
/// Its exit code for a volume that is full.
const FULL: i64 = 47;
/// How long the image of a tag is believed to be the same. A Pod is refused whose node has another one, so this decides only how
/// soon a new one is noticed.
const SAME_TAG: Duration = Duration::from_secs(3600);
/// Bytes of a stored description of an image.
const MAX_STORED: u64 = 64 << 10;

/// A namespace of a cluster.
pub(crate) struct KubernetesApi {
    config: Config,
    place: ClusterPlace,
    facts: Facts,
    /// A client works only within the runtime that made it, and a container may be removed by another one.
    clients: Mutex<HashMap<tokio::runtime::Id, Client>>,
    notes: Mutex<Notes>,
    sessions: Mutex<HashMap<Place, Vec<Session>>>,
}

/// Where a session can be used: in the runtime that made it, for a container of a Pod.
type Place = (tokio::runtime::Id, String, &'static str);

impl std::fmt::Debug for KubernetesApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The configuration holds credentials.
        f.debug_struct("KubernetesApi").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// Facts that this process knows and the cluster does not.
#[derive(Default)]
struct Notes {
    volumes: HashMap<String, NewVolume>,
    /// The containers that never start, with the Pod that they belong to once there is one.
    files: HashMap<String, FilesNote>,
    pods: HashMap<String, PodNote>,
    /// By the name in agent.yaml.
    images: HashMap<String, FoundImage>,
    execs: HashMap<String, ExecNote>,
    /// The image that could not be had last, and why.
    not_pulled: Option<(String, String)>,
    count: u64,
}

/// An image as a Pod of it has shown it. It is stored, because only a Pod can.
#[derive(Clone, Serialize, Deserialize)]
struct FoundImage {
    info: ImageInfo,
    /// The reference with a digest by which a node finds it and no other.
    reference: String,
}

#[derive(Clone)]
struct FilesNote {
    /// Volume and target.
    mounts: Vec<(String, String)>,
    /// The container of the steps.
    of: Option<String>,
}

#[derive(Clone)]
struct PodNote {
    pod: String,
    image_id: String,
    /// The walls that are checked before the first step; `None` for a Pod that runs our own program alone.
    walls: Option<Walls>,
    /// The next step is to have a network.
    network: bool,
    /// The policies leave the Pod a network now.
    open: Option<Open>,
    /// How often the network was taken away.
    closings: u64,
    started: bool,
    /// Becomes true when the loader answers, for which one caller waits at a time.
    loaded: Arc<tokio::sync::Mutex<bool>>,
    /// A step has begun, so its processes may do anything to another one in their container.
    stepped: bool,
    /// All processes of the steps have ended, and the host begins no other.
    ended: bool,
    files: Option<String>,
    volumes: Vec<String>,
    kept: Option<Kept>,
}

/// The tree of a run on the base volume, in place of its volume. The steps mount it read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    /// The directory of the run on the base volume, as the loader has it.
    root: String,
    /// The name of the volume.
    volume: String,
    /// The path in the loader by which the host names the volume.
    target: String,
    /// The path in the loader that has the files.
    path: String,
    /// The mount points in it.
    directories: Vec<String>,
    /// The steps have seen what was sent, so another run may have it.
    sound: bool,
}

impl Kept {
    /// Returns where a path of the loader is, if it is in the tree.
    fn at(&self, path: &str) -> Option<String> {
        let below = path.strip_prefix(&*self.target)?;
        let is_below = below.is_empty() || below.starts_with('/');
        is_below.then(|| format!("{}{below}", self.path))
    }
}

/// How often the beginning of a command may arrive. Our own programs may run twice, a step may not.
#[derive(Clone, Copy)]
enum Attempts {
    One,
    Several,
}

#[derive(Clone, Copy)]
struct Open {
    /// An address has answered, so the network plugin has carried that out and what it is asked for next comes after it.
    seen: bool,
}

#[derive(Clone)]
struct Walls {
    processes: u64,
    network: Network,
    /// Addresses that stay closed while a step has the network.
    closed: Vec<String>,
}

struct ExecNote {
    pod: String,
    arguments: Vec<String>,
    end: Option<tokio::sync::watch::Receiver<ExecEnd>>,
}

#[derive(Clone)]
enum ExecEnd {
    Running,
    Code(i64),
    Failed(DriverError),
}

impl KubernetesApi {
    /// Connects to a namespace.
    ///
    /// # Errors
    /// The kubeconfig is not to be trusted or does not name the context; the API server does not answer or refuses the caller.
    pub(crate) async fn connect(place: &ClusterPlace) -> Result<Self, EngineUnavailable> {
        let path = kubeconfig_path();
        let unavailable = |why: String, hint: &str| EngineUnavailable {
            host: path.display().to_string(),
            why,
            hint: hint.to_owned(),
        };
        let untrusted = |why: String| {
            unavailable(
                why,
                "the kubeconfig may run programs, so only a file of yours with mode 0600 counts; `chmod 600` it",
            )
        };
        let (Some(parent), Some(name)) =
            (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Err(untrusted("is no path of a file".to_owned()));
        };
        let missing = || untrusted("does not exist".to_owned());
        let dir = open_directory(parent, None, Owner::Caller).map_err(untrusted)?;
        let dir = dir.ok_or_else(missing)?;
        let text = read_text(&dir, name, MAX_KUBECONFIG, Owner::Caller).map_err(untrusted)?;
        let text = text.ok_or_else(missing)?;
        let hint = "correct the kubeconfig, or `context` in engines.toml";
        let wrong = |error: &dyn std::fmt::Display| unavailable(error.to_string(), hint);
        let mut kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| wrong(&error))?;
        resolve_paths(&mut kubeconfig, parent);
        let options =
            KubeConfigOptions { context: place.context.clone(), ..KubeConfigOptions::default() };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| wrong(&error))?;
        config.connect_timeout = Some(crate::engine::QUICK);
        let host = config.cluster_url.to_string();
        let failed = |error: DriverError| EngineUnavailable {
            host: host.clone(),
            why: error.message,
            hint: "ask for access to the namespace; `act engines rbac` prints what it needs"
                .to_owned(),
        };
        let client = Client::try_from(config.clone()).map_err(|error| failed(fault(&error)))?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let asked = async {
            tokio::try_join!(client.apiserver_version(), namespaces.get(&place.namespace))
        };
        let (version, namespace) = match tokio::time::timeout(crate::engine::QUICK, asked).await {
            Ok(answer) => answer.map_err(|error| failed(fault(&error)))?,
            Err(_) => return Err(failed(unreachable("the API server gave no answer in time"))),
        };
        let identity = EngineIdentity {
            name: NAME.to_owned(),
            version: crate::docker::word(&version.git_version).unwrap_or_default(),
            id: namespace.metadata.uid.as_deref().and_then(crate::docker::word),
            cluster: crate::docker::word(host.trim_end_matches('/')),
            namespace: Some(place.namespace.clone()),
            entry: None,
        };
        let without = |ability, why: &str| (ability, why.to_owned());
        let facts = Facts {
            host,
            identity,
            arch: None,
            rootless: false,
            kernel: None,
            sharing: Sharing::Never,
            lacks: vec![
                without(Ability::Root, "no Pod of act runs as root; set `user: caller`"),
                without(Ability::KeepVolumes, "the volumes of a Pod end with it"),
            ],
            removes_politely: false,
            starts_images: true,
            away: AWAY,
        };
        Ok(Self {
            config,
            place: place.clone(),
            facts,
            clients: Mutex::default(),
            notes: Mutex::default(),
            sessions: Mutex::default(),
        })
    }

    fn client(&self) -> Result<Client, DriverError> {
        let runtime = tokio::runtime::Handle::current().id();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&runtime) {
            return Ok(client.clone());
        }
        let client = Client::try_from(self.config.clone()).map_err(|error| fault(&error))?;
        clients.insert(runtime, client.clone());
        Ok(client)
    }

    fn pods(&self) -> Result<Api<Pod>, DriverError> {
        Ok(Api::namespaced(self.client()?, &self.place.namespace))
    }

    fn leases(&self) -> Result<Api<Lease>, DriverError> {
        Ok(Api::namespaced(self.client()?, &self.place.namespace))
    }

    fn policies(&self) -> Result<Api<NetworkPolicy>, DriverError> {
        Ok(Api::namespaced(self.client()?, &self.place.namespace))
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, container: &str) -> Option<PodNote> {
        self.notes().pods.get(container).cloned()
    }

    async fn pod(&self, name: &str) -> Result<Pod, DriverError> {
        let pods = self.pods()?;
        repeatedly(|| pods.get(name)).await
    }

    /// Starts one of our programs or a command in a container of a Pod.
    async fn attach(
        &self,
        pod: &str,
        container: &str,
        arguments: &[String],
        stdin: bool,
        attempts: Attempts,
    ) -> Result<Process, DriverError> {
        let parameters = AttachParams {
            container: Some(container.to_owned()),
            stdin,
            stdout: true,
            stderr: false,
            tty: false,
            max_stdin_buf_size: Some(BUFFER),
            max_stdout_buf_size: Some(BUFFER),
            max_stderr_buf_size: None,
        };
        let pods = self.pods()?;
        let exec = || pods.exec(pod, arguments, &parameters);
        let attached = match attempts {
            Attempts::One => patiently(exec).await,
            Attempts::Several => repeatedly(exec).await,
        };
        match attached {
            Ok(attached) => Process::of(attached),
            Err(error) => Err(explained(&pods, pod, error).await),
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<Place, Vec<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a session that no request uses now.
    fn idle_session(&self, pod: &str, container: &'static str) -> Option<Session> {
        let place = (tokio::runtime::Handle::current().id(), pod.to_owned(), container);
        let mut sessions = self.sessions();
        let idle = sessions.get_mut(&place)?;
        idle.retain_mut(|session| session.used.elapsed() < IDLE && !session.process.is_over());
        idle.pop()
    }

    /// Stores a session for the next request. A process beside a step is asked once only, because the step may stop or end it.
    fn store_session(&self, pod: &str, container: &'static str, mut session: Session) {
        let notes = self.notes();
        let note = notes.pods.values().find(|note| note.pod == pod);
        if note.is_some_and(|note| container == LOADER || !note.stepped) {
            session.used = Instant::now();
            let place = (tokio::runtime::Handle::current().id(), pod.to_owned(), container);
            self.sessions().entry(place).or_default().push(session);
        }
    }

    /// Returns a session that answers. Its program ends when it is dropped.
    async fn session(&self, pod: &str, container: &'static str) -> Result<Session, DriverError> {
        while let Some(mut session) = self.idle_session(pod, container) {
            // The server may have restarted since, and a stream cannot be sent again.
            let answered = async {
                session.request(&["stat", "/"]).await?;
                session.text().await
            };
            if let Ok(Ok((0, _))) = tokio::time::timeout(ALIVE, answered).await {
                return Ok(session);
            }
        }
        self.new_session(pod, container).await
    }

    async fn new_session(&self, pod: &str, container: &str) -> Result<Session, DriverError> {
        let program = if container == STEPS { PROGRAM } else { OWN_PROGRAM };
        let arguments = [program, "serve"].map(str::to_owned);
        let process = self.attach(pod, container, &arguments, true, Attempts::Several).await?;
        Ok(Session { process, pending: vec![], ended: None, used: Instant::now() })
    }

    /// Lets our own program in a container carry out a request, and returns its exit code and what it printed.
    async fn ask(
        &self,
        pod: &str,
        container: &'static str,
        words: &[&str],
    ) -> Result<(i64, String), DriverError> {
        let began = Instant::now();
        loop {
            let answered = async {
                let mut session = self.session(pod, container).await?;
                session.request(words).await?;
                let answer = session.text().await?;
                if answer.0 == 0 {
                    self.store_session(pod, container, session);
                }
                Ok(answer)
            };
            match answered.await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    let error: DriverError = explained(&self.pods()?, pod, error).await;
                    if error.fault != Fault::Unreachable || began.elapsed() > AWAY {
                        return Err(error);
                    }
                    tokio::time::sleep(AWAY_PAUSE).await;
                }
            }
        }
    }

    /// Waits until a container of a Pod runs. That of the steps may also have ended.
    async fn running(&self, pod: &str, container: &'static str) -> Result<Pod, DriverError> {
        let began = Instant::now();
        loop {
            let found = match self.pod(pod).await {
                Err(error) if error.fault == Fault::Status(404) => return Err(deleted(pod)),
                found => found?,
            };
            let of_loader = state_of(&found, LOADER).and_then(|state| state.terminated.as_ref());
            if let Some(refused) =
                of_loader.and_then(|over| self.base_refused(over.exit_code.into()))
                && self.kept(pod, LOADER).is_some()
            {
                return Err(refused);
            }
            if let Some(trouble) = trouble(&found) {
                return Err(trouble);
            }
            // The containers of a Pod that was deleted run for a moment more.
            if found.metadata.deletion_timestamp.is_some() {
                return Err(deleted(pod));
            }
            if runs(&found, container) {
                return Ok(found);
            }
            if let Some(over) =
                state_of(&found, container).and_then(|state| state.terminated.as_ref())
            {
                // A short command may have ended by now.
                if container == STEPS {
                    return Ok(found);
                }
                let why = format!("its container {container} ended with {}", over.exit_code);
                return Err(explained(&self.pods()?, pod, refused(500, &why)).await);
            }
            let is_placed = found.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            if is_placed && matches!(self.ask(pod, container, &["stat", "/"]).await, Ok((0, _))) {
                return Ok(found);
            }
            if began.elapsed() > BEGIN {
                let why = waiting(&found, container).unwrap_or_else(|| "no reason".to_owned());
                return Err(refused(504, &format!("the Pod does not begin to run: {why}")));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns what an exit code of our program says about the base volume.
    fn base_refused(&self, code: i64) -> Option<DriverError> {
        let claim = self.place.base_volume.as_deref()?;
        let why = match code {
            NO_BASE => format!(
                "the user of the steps cannot write to the base volume {claim}; make it writable for every user, or remove \
                 `base_volume` from engines.toml"
            ),
            FULL => format!(
                "the base volume {claim} is full; make it larger, remove directories in it, or remove `base_volume` from \
                 engines.toml"
            ),
            _ => return None,
        };
        Some(refused(500, &why))
    }

    /// Waits until the loader of a Pod answers.
    async fn loaded(&self, note: &PodNote) -> Result<(), DriverError> {
        let mut loaded = note.loaded.lock().await;
        if !*loaded {
            self.running(&note.pod, LOADER).await?;
            // There is a session then, before the check of the process limit leaves no process for another program of the Pod.
            self.ask(&note.pod, LOADER, &["stat", "/"]).await?;
            *loaded = true;
        }
        Ok(())
    }

    /// Waits for the container of the steps, and checks its walls.
    async fn begin(&self, container: &str) -> Result<(), DriverError> {
        let Some(note) = self.note(container) else { return Err(no_such(container)) };
        if note.started {
            return Ok(());
        }
        // The node makes the container of the steps after that of the loader.
        let running = match self.loaded(&note).await {
            Ok(()) => self.running(&note.pod, STEPS).await,
            Err(error) => Err(error),
        };
        let mut found = match running {
            // An image that was found by its tag may be gone from every node.
            Err(error) if error.fault == Fault::Status(404) => {
                self.forget_image(&note.image_id);
                return Err(error);
            }
            found => found?,
        };
        // The walls are checked with the address of the node, which the kubelet reports.
        let began = Instant::now();
        while node_address(&found).is_none() {
            if began.elapsed() > NOTICED {
                return Err(refused(504, "the kubelet does not report the address of the node"));
            }
            tokio::time::sleep(PAUSE).await;
            found = self.pod(&note.pod).await?;
        }
        if let Some(walls) = &note.walls
            && !is_terminated(&found, STEPS)
            && let Err(error) = self.check_walls(container, &note.pod, &found, walls).await
        {
            // No step begins in a container that has ended, which the kubelet notices within a second or two.
            let began = Instant::now();
            while !is_terminated(&self.pod(&note.pod).await?, STEPS) {
                if error.fault != Fault::Status(500) || began.elapsed() > NOTICED {
                    return Err(error);
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        // A step that begins in a Pod which was taken away meanwhile could not be begun anew.
        if note.walls.is_some()
            && let Some(error) = lost(&self.pods()?, &note.pod).await
        {
            return Err(error);
        }
        if let Some(note) = self.notes().pods.get_mut(container) {
            note.started = true;
        }
        Ok(())
    }

    /// Checks the walls of a container, and gives it its network.
    async fn check_walls(
        &self,
        container: &str,
        pod: &str,
        found: &Pod,
        walls: &Walls,
    ) -> Result<(), DriverError> {
        self.check_processes(pod, walls.processes).await?;
        self.check_closed(pod, found, false).await?;
        if walls.network != Network::Off {
            self.make_policy(pod, found, container, walls).await?;
            if let Some(note) = self.notes().pods.get_mut(container) {
                note.network = true;
            }
        }
        Ok(())
    }

    /// Checks that the cluster refuses more processes than a Pod may have.
    async fn check_processes(&self, pod: &str, limit: u64) -> Result<(), DriverError> {
        if self.place.processes_by_cluster {
            return Ok(());
        }
        let more = limit.saturating_add(1).to_string();
        let (code, answer) = self.ask(pod, STEPS, &["processes", &more]).await?;
        done((code, String::new()), "count processes")?;
        if answer.trim() == "refused" {
            return Ok(());
        }
        let why = format!(
            "the cluster lets a Pod have more than {limit} processes; set podPidsLimit of its kubelets, or `pids = \"cluster\"` \
             in engines.toml"
        );
        Err(refused(501, &why))
    }

    /// Returns the addresses of the API server. One at the loopback of this machine is a way to it that no Pod has.
    async fn servers(&self) -> Result<Vec<SocketAddr>, DriverError> {
        let host =
            self.config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = self.config.cluster_url.port_u16().unwrap_or(443);
        let found = tokio::net::lookup_host((host.as_str(), port)).await;
        let found = found.map_err(|error| unreachable(&error.to_string()))?;
        Ok(found.filter(|address| !address.ip().is_loopback()).collect())
    }

    /// Checks that the container of the steps does not reach what it must not: the API server and the kubelet of its node, which
    /// answer for certain where there are no walls, the metadata service, other Pods, and without a network also name servers
    /// and an address of the internet.
    async fn check_closed(&self, pod: &str, found: &Pod, open: bool) -> Result<(), DriverError> {
        let mut addresses = vec![METADATA.to_owned()];
        addresses.extend(node_address(found).map(|address| socket(&address, KUBELET)));
        let ours = ListParams::default().labels(&format!("{MANAGED}=act"));
        let pods = self.pods()?;
        let listed = repeatedly(|| pods.list(&ours)).await?;
        let others =
            listed.items.into_iter().filter(|other| other.metadata.name.as_deref() != Some(pod));
        let others = others.filter_map(|other| other.status?.pod_ip);
        addresses.extend(others.take(OTHER_PODS).map(|address| socket(&address, KUBELET)));
        addresses.extend(self.servers().await?.iter().map(SocketAddr::to_string));
        let of_the_pod = if open { &OF_THE_POD[..1] } else { &OF_THE_POD };
        addresses.extend(of_the_pod.iter().map(|word| (*word).to_owned()));
        if !open {
            addresses.push(OUTSIDE.to_owned());
        }
        // A network plugin learns of a change a moment later. No step has begun.
        let closed = CLOSED.as_millis().to_string();
        let mut words = vec!["probe", PROBE_MILLISECONDS, &closed];
        words.extend(addresses.iter().map(String::as_str));
        let (code, reached) = self.ask(pod, STEPS, &words).await?;
        if code != 0 {
            let why = format!("the walls of the Pod could not be probed: exit code {code}");
            return Err(refused(500, &why));
        }
        let reached = reached.split_whitespace().next().map(str::to_owned);
        match reached {
            None => Ok(()),
            Some(address) => {
                let policy = if open { "that leaves a step its network" } else { POLICY };
                let why = format!(
                    "the cluster does not enforce the NetworkPolicy {policy}: the Pod reaches {address}; install a network \
                     plugin that does"
                );
                Err(refused(501, &why))
            }
        }
    }

    /// Gives the Pod of a container the network, and checks what it reaches then.
    async fn open_network(&self, container: &str, pod: &str) -> Result<(), DriverError> {
        let found = self.pod(pod).await?;
        self.label_network(pod, "on").await?;
        if let Some(note) = self.notes().pods.get_mut(container) {
            note.open = Some(Open { seen: false });
        }
        // A step that begins before the plugin has opened the network would fail, and a check before that would prove nothing. A
        // name server is the only address that is known to be open.
        let milliseconds = OPENED.as_millis().to_string();
        let (code, _) = self.ask(pod, STEPS, &["await", &milliseconds, "names"]).await?;
        if code != 0 {
            tokio::time::sleep(CLOSED).await;
        }
        self.check_closed(pod, &found, true).await?;
        if let Some(note) = self.notes().pods.get_mut(container) {
            note.open = Some(Open { seen: code == 0 });
        }
        Ok(())
    }

    /// Takes the network from the Pod of a container, and checks that it reaches nothing.
    async fn close_pod(&self, container: &str, pod: &str, open: Open) -> Result<(), DriverError> {
        let found = self.pod(pod).await?;
        // A process that an earlier step has left could go on with a connection that it has.
        self.end_others(container, pod).await?;
        self.label_network(pod, "off").await?;
        if !open.seen {
            // The plugin may be about to open the network, and a check before that would prove nothing.
            tokio::time::sleep(CLOSED).await;
        }
        self.check_closed(pod, &found, false).await?;
        if let Some(note) = self.notes().pods.get_mut(container) {
            note.open = None;
        }
        Ok(())
    }

    /// Kills every process of the steps but the first one, which does it, and checks that none is left. None can begin either, unless
    /// the host begins one.
    async fn end_others(&self, container: &str, pod: &str) -> Result<(), DriverError> {
        let mark = {
            let mut notes = self.notes();
            let note = notes.pods.get_mut(container).ok_or_else(|| no_such(container))?;
            note.closings += 1;
            format!("others-{}", note.closings)
        };
        done(self.ask(pod, LOADER, &["mark", &mark]).await?, "end what a step has left")?;
        let alone = ["alone", ALONE_MILLISECONDS];
        let (mut code, _) = self.ask(pod, STEPS, &alone).await?;
        if code == KILLED {
            // It began before the others were killed, and was one of them.
            (code, _) = self.ask(pod, STEPS, &alone).await?;
        }
        match code {
            0 => Ok(()),
            _ => Err(refused(500, "processes that a step has left do not end")),
        }
    }

    /// Ends the steps.
    async fn end_steps(&self, container: &str, pod: &str) -> Result<(), DriverError> {
        match self.end_others(container, pod).await {
            // Only our own program is left in their container, and it ends with the Pod.
            Ok(()) => {
                if let Some(note) = self.notes().pods.get_mut(container) {
                    note.ended = true;
                }
                Ok(())
            }
            // A command could not look whether a process is left, so the whole container ends and the kubelet reports it.
            Err(_) => done(self.ask(pod, LOADER, &["mark", "end-steps"]).await?, "end the steps"),
        }
    }

    async fn label_network(&self, pod: &str, word: &str) -> Result<(), DriverError> {
        let label = Patch::Merge(json!({"metadata": {"labels": {NETWORK_LABEL: word}}}));
        let (pods, parameters) = (self.pods()?, PatchParams::default());
        repeatedly(|| pods.patch(pod, &parameters, &label)).await.map(drop)
    }

    /// Makes the policy of a Pod with a network, unless it exists: everything is open but the addresses of VERIFIER-70, those of
    /// VERIFIER-71 where they are closed, the node and the API server. The cluster removes it with the Pod.
    async fn make_policy(
        &self,
        pod: &str,
        found: &Pod,
        container: &str,
        walls: &Walls,
    ) -> Result<(), DriverError> {
        let private = walls.network == (Network::On { icmp: false });
        let mut closed: Vec<String> = closed_ranges(private);
        let servers = self.servers().await?.into_iter().map(|address| address.ip());
        let node: Option<IpAddr> = node_address(found).and_then(|address| address.parse().ok());
        // Pods may reach the API server by another address than people.
        let (code, inside) = self.ask(pod, STEPS, &["addresses", OF_THE_POD[0]]).await?;
        done((code, String::new()), "read the addresses of the API server")?;
        let inside: Vec<IpAddr> = inside
            .lines()
            .filter_map(|line| Some(line.trim().parse::<SocketAddr>().ok()?.ip()))
            .collect();
        for address in node.into_iter().chain(servers).chain(inside) {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            closed.push(format!("{address}/{bits}"));
        }
        closed.sort();
        closed.dedup();
        if let Some(Walls { closed: noted, .. }) =
            self.notes().pods.get_mut(container).and_then(|note| note.walls.as_mut())
        {
            noted.clone_from(&closed);
        }
        let except = |six: bool| {
            closed.iter().filter(|range| range.contains(':') == six).collect::<Vec<_>>()
        };
        let policy: NetworkPolicy = parsed(json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {
                "name": pod, "labels": {MANAGED: "act"},
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Pod", "name": pod, "uid": found.metadata.uid,
                }],
            },
            "spec": {
                "podSelector": {"matchLabels": {POD_LABEL: pod, NETWORK_LABEL: "on"}},
                "policyTypes": ["Ingress", "Egress"],
                "egress": [
                    {"to": [
                        {"ipBlock": {"cidr": "0.0.0.0/0", "except": except(false)}},
                        {"ipBlock": {"cidr": "::/0", "except": except(true)}},
                    ]},
                    // Name servers (VERIFIER-70).
                    {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
                ],
            },
        }))?;
        made(&self.policies()?, &policy).await
    }

    /// Makes the policy that closes the network of Pods with the label, unless it exists.
    async fn close_network(&self) -> Result<(), DriverError> {
        let policies = self.policies()?;
        let policy: NetworkPolicy = parsed(json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": POLICY, "labels": {MANAGED: "act"}},
            "spec": {
                "podSelector": {"matchLabels": {MANAGED: "act", NETWORK_LABEL: "off"}},
                "policyTypes": ["Ingress", "Egress"],
            },
        }))?;
        // Policies add up, so another one may open what ours closes.
        let all = ListParams::default();
        let found = repeatedly(|| policies.list(&all)).await?.items;
        if let Some(name) = found.iter().find_map(opening) {
            let why = format!(
                "the NetworkPolicy {name} of the namespace opens something to Pods; delete it, because policies add up"
            );
            return Err(refused(409, &why));
        }
        match repeatedly(|| policies.get_opt(POLICY)).await? {
            Some(found) if found.spec == policy.spec => Ok(()),
            Some(_) => {
                let why = format!("the NetworkPolicy {POLICY} is not the one of act; delete it");
                Err(refused(409, &why))
            }
            None => made(&policies, &policy).await,
        }
    }

    /// Makes a Pod.
    async fn make(&self, pod: Value) -> Result<(), DriverError> {
        let (pods, pod, parameters) = (self.pods()?, parsed(pod)?, PostParams::default());
        patiently(|| pods.create(&parameters, &pod)).await.map(drop).map_err(not_created)
    }

    async fn create_pod(&self, name: &str, request: &ContainerRequest) -> Result<(), DriverError> {
        if matches!(request.network, Network::Of { .. }) {
            return Err(refused(501, "no container enters the network of a Pod"));
        }
        let (reference, files) = {
            let notes = self.notes();
            if notes.pods.contains_key(name) {
                return Err(refused(409, "a container of this name exists"));
            }
            let is = |image: &&FoundImage| image.info.id.as_deref() == Some(&*request.image_id);
            let reference = notes.images.values().find(is).map(|image| image.reference.clone());
            (reference, files_of(&notes, request))
        };
        let Some(reference) = reference else {
            return Err(refused(404, &format!("no image {}", request.image_id)));
        };
        let bytes = SentFile::archive(&request.files).map_err(|error| {
            refused(400, &format!("files for the container cannot be packed: {error}"))
        })?;
        let bytes = bytes.len();
        if bytes > MAX_FILES {
            let why = format!(
                "files for the container have {bytes} bytes, and a Pod takes {MAX_FILES}; name fewer certificates in `ca_bundle`"
            );
            return Err(refused(400, &why));
        }
        self.close_network().await?;
        let loads = files.as_ref().map(|(_, note)| note.mounts.clone()).unwrap_or_default();
        let kept = self.place.base_volume.as_ref().and_then(|_| {
            let mut notes = self.notes();
            // A run that begins anew has the name of the first one, which may have a tree still.
            notes.count += 1;
            let now = u64::try_from(act_core::clock::now().timestamp()).unwrap_or_default();
            let until = now.saturating_add(lifetime(request));
            let run = format!("{until}-{}-{}", pod_name(name), notes.count);
            kept_of(&notes.volumes, &run, request, &loads)
        });
        self.make(self.pod_of(name, request, &reference, &loads, kept.as_ref())).await?;
        let mut notes = self.notes();
        let files = files.map(|(name, _)| name);
        if let Some(note) = files.as_ref().and_then(|files| notes.files.get_mut(files)) {
            note.of = Some(name.to_owned());
        }
        let note = PodNote {
            pod: pod_name(name),
            image_id: request.image_id.clone(),
            walls: (request.role == Role::Steps && request.script.is_none()).then(|| Walls {
                processes: request.limits.pids,
                network: request.network.clone(),
                closed: vec![],
            }),
            network: false,
            open: None,
            closings: 0,
            started: false,
            loaded: Arc::default(),
            stepped: request.script.is_some(),
            ended: false,
            files,
            volumes: volumes_of(request).map(str::to_owned).collect(),
            kept,
        };
        notes.pods.insert(name.to_owned(), note);
        Ok(())
    }

    /// Describes the Pod of a container of steps. `loads` are the volumes that the host fills through the loader, with their paths
    /// there.
    fn pod_of(
        &self,
        name: &str,
        request: &ContainerRequest,
        image: &str,
        loads: &[(String, String)],
        kept: Option<&Kept>,
    ) -> Value {
        let (uid, gid) = ids(request.user);
        let names: Vec<&str> = volumes_of(request).collect();
        let number = |volume: &str| names.iter().position(|one| *one == volume).unwrap_or_default();
        let mut volumes =
            vec![disk("act-bin"), disk("act-control"), disk("act-files"), disk("act-tmp")];
        let mut mounts = vec![
            json!({"name": "act-bin", "mountPath": "/.act/bin", "readOnly": true}),
            json!({"name": "act-control", "mountPath": CONTROL, "readOnly": true}),
            json!({"name": "act-tmp", "mountPath": "/tmp"}),
        ];
        volumes.extend((0..names.len()).map(|number| disk(&format!("v{number}"))));
        for (memory, mount) in request.mounts.iter().enumerate() {
            let volume = match &mount.source {
                MountSource::Volume(volume) => {
                    if let Some(kept) = kept.filter(|kept| kept.volume == *volume) {
                        let below = kept.path.strip_prefix(BASE).unwrap_or_default();
                        let below = below.trim_start_matches('/');
                        mounts.push(json!({"name": "act-base", "mountPath": mount.target, "subPath": below, "readOnly": true}));
                        continue;
                    }
                    format!("v{}", number(volume))
                }
                MountSource::Memory { bytes, .. } => {
                    let name = format!("m{memory}");
                    let in_memory = json!({"medium": "Memory", "sizeLimit": bytes.to_string()});
                    volumes.push(json!({"name": name, "emptyDir": in_memory}));
                    name
                }
                // Nothing of this machine is mounted elsewhere; `Facts::sharing` says so.
                MountSource::Path(_) => continue,
            };
            mounts.push(
                json!({"name": volume, "mountPath": mount.target, "readOnly": mount.read_only}),
            );
        }
        for file in &request.files {
            let below = file.path.trim_start_matches('/');
            mounts.push(json!({"name": "act-files", "mountPath": file.path, "subPath": below, "readOnly": true}));
        }
        let mut own = vec![
            json!({"name": "act-bin", "mountPath": "/.act/bin"}),
            json!({"name": "act-control", "mountPath": CONTROL}),
            json!({"name": "act-files", "mountPath": SENT}),
        ];
        let mut load = vec![json!(OWN_PROGRAM), json!("load")];
        let mut directories: Vec<String> = vec![];
        // The names of a million files and the list of 300,000 need about 250 MiB.
        let loader_memory = if kept.is_some() { "512Mi" } else { "128Mi" };
        if let Some(kept) = kept {
            let claim = json!({"claimName": self.place.base_volume});
            volumes.push(json!({"name": "act-base", "persistentVolumeClaim": claim}));
            own.push(json!({"name": "act-base", "mountPath": BASE}));
            load = vec![json!(OWN_PROGRAM), json!("load-kept"), json!(kept.root)];
            directories.push(kept.path.clone());
            directories.extend(kept.directories.iter().cloned());
        }
        for (volume, name) in names.iter().enumerate() {
            let target =
                loads.iter().find(|(load, _)| load == name).map(|(_, target)| target.clone());
            let target = target.unwrap_or_else(|| format!("/.act/volumes/{volume}"));
            own.push(json!({"name": format!("v{volume}"), "mountPath": target}));
            // The kubelet would make mount points in a volume as root, and none in a read-only one.
            directories.extend(mount_points(request, name, &target));
        }
        directories.sort();
        directories.dedup();
        let main = match request.main() {
            Main::Script(script) if request.script.is_some() => {
                json!(["/bin/sh", "-c", literal(&script)])
            }
            _ => json!([PROGRAM, "init", request.lifetime_seconds.to_string()]),
        };
        let security = json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "privileged": false,
            "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
        });
        let environment = request.environment.iter().filter_map(|variable| {
            let (name, value) = variable.split_once('=')?;
            Some(json!({"name": name, "value": literal(value)}))
        });
        let limits = json!({
            "cpu": format!("{}m", (request.limits.cpus * 1000.0).ceil()),
            "memory": request.memory_bytes().to_string(),
        });
        let requests: Value = self
            .place
            .requests
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        // One of the settings that Kubernetes lets every Pod have. No group may open a socket for ICMP then.
        let sysctls = match request.network {
            Network::On { icmp: false } => {
                json!([{"name": "net.ipv4.ping_group_range", "value": "1 0"}])
            }
            _ => json!([]),
        };
        load.extend(directories.iter().map(|directory| json!(directory)));
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": pod_name(name),
                "labels": {MANAGED: "act", NETWORK_LABEL: "off", POD_LABEL: pod_name(name)},
                "annotations": {OUR_NAME: name, OUR_LABELS: json!(request.labels).to_string()},
            },
            "spec": {
                "restartPolicy": "Never",
                // The program in our image is for one architecture.
                "nodeSelector": {"kubernetes.io/os": "linux", "kubernetes.io/arch": crate::loader_image::architecture()},
                "activeDeadlineSeconds": lifetime(request),
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false, "enableServiceLinks": false,
                "hostname": "act", "dnsPolicy": "Default",
                "securityContext": {
                    "runAsUser": uid, "runAsGroup": gid, "runAsNonRoot": true,
                    "seccompProfile": {"type": "RuntimeDefault"}, "sysctls": sysctls,
                },
                "containers": [
                    {
                        "name": LOADER, "image": self.place.loader, "imagePullPolicy": "IfNotPresent", "command": load,
                        "env": files_in_variables(&request.files), "securityContext": security, "volumeMounts": own,
                        "resources": {
                            "limits": {"cpu": "1", "memory": loader_memory}, "requests": {"cpu": "10m", "memory": "16Mi"},
                        },
                        // The kubelet starts the next container when this has ended, which then finds our program, the files and
                        // the mount points.
                        "lifecycle": {"postStart": {"exec": {"command": [OWN_PROGRAM, "loaded"]}}},
                    },
                    {
                        "name": STEPS, "image": image, "imagePullPolicy": "IfNotPresent", "command": main,
                        "workingDir": "/", "env": environment.collect::<Vec<_>>(), "securityContext": security,
                        "resources": {"limits": limits, "requests": requests}, "volumeMounts": mounts,
                    },
                ],
                "volumes": volumes,
            },
        })
    }

    /// Finds out what an image is. Only a container of it knows.
    async fn look_at_image(&self, reference: &str) -> Result<ImageInfo, DriverError> {
        let name = {
            let mut notes = self.notes();
            notes.count += 1;
            format!(
                "act-image-{}-{}-{}",
                &digest(reference.as_bytes())[..12],
                std::process::id(),
                notes.count
            )
        };
        let deadline = act_core::clock::now().timestamp() + 300;
        let this = act_core::process::Process::this();
        let request = ContainerRequest {
            role: Role::Steps,
            image_id: String::new(),
            mounts: vec![],
            environment: vec![],
            volumes: vec![],
            files: vec![],
            user: StepUser::Root,
            limits: act_config::Limits { cpus: 1.0, memory_mb: 128, pids: 64 },
            network: Network::Off,
            script: None,
            lifetime_seconds: 120,
            labels: crate::engine::owner_labels(this, "image", deadline),
        };
        self.close_network().await?;
        self.make(self.pod_of(&name, &request, reference, &[], None)).await?;
        let note = PodNote {
            pod: pod_name(&name),
            image_id: String::new(),
            walls: None,
            network: false,
            open: None,
            closings: 0,
            started: false,
            loaded: Arc::default(),
            stepped: false,
            ended: false,
            files: None,
            volumes: vec![],
            kept: None,
        };
        self.notes().pods.insert(name.clone(), note);
        let looked = async {
            self.begin(&name).await?;
            let (code, text) = self.ask(&pod_name(&name), STEPS, &["image"]).await?;
            done((code, String::new()), "look at the image")?;
            // Only the kubelet reports which image the container has.
            let began = Instant::now();
            let mut found = self.pod(&pod_name(&name)).await?;
            while !runs(&found, STEPS) && began.elapsed() < END {
                tokio::time::sleep(PAUSE).await;
                found = self.pod(&pod_name(&name)).await?;
            }
            let image_id = status_of(&found, STEPS).map(|status| status.image_id.clone());
            // A runtime below Docker's API writes this before a name.
            let image_id = image_id.unwrap_or_default().replace("docker-pullable://", "");
            Ok::<_, DriverError>((image_id, text))
        };
        let looked = looked.await;
        let removed = self.remove_pod(&name).await;
        let (image_id, text) = looked?;
        removed?;
        let id = image_digest(&image_id);
        if !id.starts_with("sha256:") {
            return Err(refused(500, &format!("the node reports no digest of {reference}")));
        }
        let all = |word: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let info = ImageInfo {
            id: Some(id.clone()),
            registry_digests: image_id
                .contains('@')
                .then(|| image_id.clone())
                .into_iter()
                .collect(),
            os: "linux".to_owned(),
            arch: all("arch").pop().unwrap_or_default(),
            environment: all("path").into_iter().map(|path| format!("PATH={path}")).collect(),
            volumes: all("volume"),
            bytes: all("bytes").pop().and_then(|bytes| bytes.parse().ok()).unwrap_or_default(),
        };
        // A digest means the same image on every node. An image that no registry has is named by its id, which runtimes know too.
        let by = if image_id.contains('@') { image_id } else { id };
        let found = FoundImage { info: info.clone(), reference: by };
        if let Ok(text) = serde_json::to_vec(&found) {
            // Without it the next process looks once more.
            let _ = stored_images().and_then(|directory| {
                directory.replace(&self.stored_name(reference), &text, Durability::Unsynced)
            });
        }
        self.notes().images.insert(reference.to_owned(), found);
        Ok(info)
    }

    /// Returns what this process or an earlier one has found out about an image, by its name or its id.
    fn known_image(&self, name: &str) -> Option<ImageInfo> {
        let mut notes = self.notes();
        let is = |image: &&FoundImage| {
            let id = image.info.id.as_deref().unwrap_or_default();
            id == name || id.trim_start_matches("sha256:") == name
        };
        let noted = notes.images.get(name).or_else(|| notes.images.values().find(is));
        if let Some(noted) = noted {
            return Some(noted.info.clone());
        }
        let (directory, file) = (stored_images().ok()?, self.stored_name(name));
        let text = directory.read_existing(&*file, MAX_STORED).ok()??;
        let age = act_core::clock::now().timestamp() - directory.stat(&*file).ok()?.st_mtime;
        if !name.contains("@sha256:") && !(0..SAME_TAG.as_secs() as i64).contains(&age) {
            return None;
        }
        let found: FoundImage = serde_json::from_slice(&text).ok()?;
        let info = found.info.clone();
        notes.images.insert(name.to_owned(), found);
        Some(info)
    }

    /// Forgets an image by its id, because a node has another one by its name.
    fn forget_image(&self, id: &str) {
        let is = |_: &String, image: &mut FoundImage| image.info.id.as_deref() == Some(id);
        let names: Vec<_> = self.notes().images.extract_if(is).map(|(name, _)| name).collect();
        if let Ok(directory) = stored_images() {
            for name in names {
                let _ = directory.remove_file(&*self.stored_name(&name));
            }
        }
    }

    /// Returns the name of the file about an image in this namespace.
    fn stored_name(&self, image: &str) -> String {
        let namespace = self.facts.identity.id.as_deref().unwrap_or_default();
        digest(format!("{namespace} {image}").as_bytes())
    }

    /// Removes the Pod of a container.
    async fn remove_pod(&self, container: &str) -> Result<(), DriverError> {
        let pod = self.note(container).map_or_else(|| pod_name(container), |note| note.pod);
        self.remove_pod_named(&pod, None).await
    }

    /// Removes a Pod, and what is noted about it.
    async fn remove_pod_named(&self, pod: &str, uid: Option<String>) -> Result<(), DriverError> {
        let removed = self.end_pod(pod, uid).await;
        self.sessions().retain(|(_, of, _), _| of != pod);
        if removed.is_ok() || removed.as_ref().is_err_and(|error| error.fault == Fault::Status(404))
        {
            let notes = &mut *self.notes();
            notes.execs.retain(|_, exec| exec.pod != pod);
            notes.pods.retain(|_, note| note.pod != pod);
            for files in notes.files.values_mut() {
                if files.of.as_ref().is_some_and(|of| !notes.pods.contains_key(of)) {
                    files.of = None;
                }
            }
        }
        removed
    }

    /// Checks that a Pod in which a command ended like a killed one was not taken away, which would have killed it. All containers
    /// of a Pod are killed at once then.
    async fn check_not_taken(&self, pod: &str) -> Result<(), DriverError> {
        tokio::time::sleep(KILLED_TOGETHER).await;
        for mark in ["end-steps", "end"] {
            let asked = self.ask(pod, LOADER, &["stat", &format!("{CONTROL}/{mark}")]).await;
            if let Some(error) = lost(&self.pods()?, pod).await {
                return Err(error);
            }
            if !matches!(asked, Ok((MISSING, _))) {
                return Err(deleted(pod));
            }
        }
        Ok(())
    }

    /// Ends what runs in a Pod, waits until the kubelet says so, and deletes the Pod. `uid` is the one that it has to have.
    async fn end_pod(&self, pod: &str, uid: Option<String>) -> Result<(), DriverError> {
        let pods = self.pods()?;
        let found = self.pod(pod).await?;
        let uid = match (uid, found.metadata.uid.clone()) {
            (Some(wanted), Some(found)) if wanted != found => return Err(no_such(pod)),
            (_, found) => found,
        };
        let delete = async |grace: u32| {
            let parameters = DeleteParams {
                grace_period_seconds: Some(grace),
                preconditions: Some(Preconditions { uid: uid.clone(), resource_version: None }),
                ..DeleteParams::default()
            };
            match repeatedly(|| pods.delete(pod, &parameters)).await {
                Err(error) if !matches!(error.fault, Fault::Status(404 | 409)) => Err(error),
                _ => Ok(()),
            }
        };
        let noted = || {
            let notes = self.notes();
            let (name, note) = notes.pods.iter().find(|(_, note)| note.pod == pod)?;
            Some((name.clone(), note.started, note.ended))
        };
        if let Some((container, true, false)) = noted()
            && !is_terminated(&found, STEPS)
        {
            // The kubelet reports the end where this fails.
            let _ = self.end_steps(&container, pod).await;
        }
        let idle = noted().is_some_and(|(_, started, ended)| ended || !started);
        if !is_over(&found) {
            // A process of the steps that is left may still read the tree. It waits for the deadline of the Pod then.
            if let Some(kept) = self.kept(pod, LOADER).filter(|_| idle) {
                let word = if kept.sound { "sound" } else { "doubted" };
                let _ = self.ask(pod, LOADER, &["give-back", &kept.root, word]).await;
            }
            let _ = self.ask(pod, LOADER, &["mark", "end"]).await;
        }
        if idle || is_terminated(&found, STEPS) {
            // The steps have ended. The Pod runs only our own program, which ends by the mark.
            return delete(0).await;
        }
        let began = Instant::now();
        let mut over = is_over(&found);
        while !over && runs(&found, STEPS) && began.elapsed() < END {
            tokio::time::sleep(PAUSE).await;
            match self.pod(pod).await {
                Ok(found) => over = is_over(&found),
                Err(error) if error.fault == Fault::Status(404) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if over {
            // The kubelet has confirmed that every container has ended.
            return delete(0).await;
        }
        delete(1).await?;
        while began.elapsed() < GONE {
            match self.pod(pod).await {
                Ok(found) if found.metadata.uid == uid => tokio::time::sleep(PAUSE).await,
                Ok(_) => return Ok(()),
                Err(error) if error.fault == Fault::Status(404) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        delete(0).await?;
        let why = format!(
            "unconfirmed: the node of the Pod {pod} does not answer, so its processes may run until their deadline"
        );
        Err(refused(504, &why))
    }

    /// Returns the Pod and the container that have the paths of a container now.
    async fn located(&self, container: &str) -> Result<(String, &'static str), DriverError> {
        let files = self.notes().files.get(container).cloned();
        if let Some(files) = files {
            let Some(note) = files.of.as_deref().and_then(|of| self.note(of)) else {
                return Err(refused(409, "the volumes have no Pod yet"));
            };
            self.loaded(&note).await?;
            return Ok((note.pod, LOADER));
        }
        let Some(note) = self.note(container) else { return Err(no_such(container)) };
        // Before it is started, nothing else can look into a container here.
        self.begin(container).await?;
        Ok((note.pod, STEPS))
    }

    /// Returns what the loader of a Pod has on the base volume.
    fn kept(&self, pod: &str, container: &str) -> Option<Kept> {
        let notes = self.notes();
        let note = notes.pods.values().find(|note| note.pod == pod)?;
        note.kept.clone().filter(|_| container == LOADER)
    }

    async fn list(&self) -> Result<Vec<Labelled>, DriverError> {
        let ours = ListParams::default().labels(&format!("{MANAGED}=act"));
        let pods = self.pods()?;
        let leases = self.leases()?;
        let (pods, leases) =
            tokio::try_join!(repeatedly(|| pods.list(&ours)), repeatedly(|| leases.list(&ours)),)?;
        let pods = pods.items.into_iter().map(|pod| ("pod", pod.metadata));
        let leases = leases.items.into_iter().map(|lease| ("lease", lease.metadata));
        let found = pods.chain(leases).filter_map(|(kind, metadata)| {
            let annotations = metadata.annotations.unwrap_or_default();
            let labels = annotations.get(OUR_LABELS)?;
            Some(Labelled {
                id: format!("{kind}/{}/{}", metadata.name?, metadata.uid?),
                name: annotations.get(OUR_NAME).cloned(),
                labels: serde_json::from_str(labels).ok()?,
            })
        });
        Ok(found.collect())
    }

    async fn remove_lease(&self, name: &str, uid: Option<String>) -> Result<(), DriverError> {
        let leases = self.leases()?;
        let uid = match uid {
            Some(uid) => Some(uid),
            None => repeatedly(|| leases.get(name)).await?.metadata.uid,
        };
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version: None }),
            ..DeleteParams::default()
        };
        // With the uid it may arrive twice: a lease that somebody has made since is another one.
        repeatedly(|| leases.delete(name, &parameters)).await.map(drop)
    }
}

/// The rights that a run needs in its namespace: API group, resource and verbs.
const RIGHTS: [(&str, &str, &[&str]); 6] = [
    ("", "namespaces", &["get"]),
    ("", "pods", &["create", "delete", "get", "list", "patch"]),
    // A WebSocket begins with a GET, which older servers authorize by its own verb.
    ("", "pods/exec", &["create", "get"]),
    ("", "pods/log", &["get"]),
    ("networking.k8s.io", "networkpolicies", &["create", "get", "list"]),
    ("coordination.k8s.io", "leases", &["create", "delete", "get", "list"]),
];
/// Maximum number of rights or secrets that a concern names.
const LISTED: usize = 5;

/// Returns the rights that go beyond [`RIGHTS`], as `VERB RESOURCE`. Everybody may ask for the own rights.
fn more_than_needed(rules: &[ResourceRule]) -> Vec<String> {
    let mut more = vec![];
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    let is = |(of, name, verbs): &(&str, &str, &[&str])| {
                        of == group && name == resource && verbs.contains(&verb.as_str())
                    };
                    let is_of_everybody =
                        ["authorization.k8s.io", "authentication.k8s.io"].contains(&group.as_str());
                    if !is_of_everybody && !RIGHTS.iter().any(is) {
                        more.push(format!("{verb} {resource}"));
                    }
                }
            }
        }
    }
    more.sort();
    more.dedup();
    more.truncate(LISTED);
    more
}

/// Returns what a namespace for runs needs, as documents that `kubectl apply` takes: the namespace with its Pod security, a
/// role with the rights that `act` uses and no other, and a quota. A person binds the role to users.
pub fn rights(namespace: &str) -> Vec<Value> {
    let rule = |(group, resource, verbs): &(&str, &str, &[&str])| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let metadata = json!({"name": "act", "namespace": namespace});
    vec![
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
            "rules": RIGHTS.iter().map(rule).collect::<Vec<_>>(),
        }),
        json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata,
            "spec": {"hard": {"pods": "32", "limits.cpu": "128", "limits.memory": "256Gi"}},
        }),
    ]
}

fn kubeconfig_path() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match (set("KUBECONFIG"), set("HOME")) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(home)) => Path::new(&home).join(".kube/config"),
        (None, None) => PathBuf::from("/nonexistent/config"),
    }
}

/// Completes the relative paths in a kubeconfig, which count from its directory.
fn resolve_paths(kubeconfig: &mut Kubeconfig, directory: &Path) {
    let complete = |path: &mut Option<String>| {
        if let Some(path) = path {
            *path = directory.join(&*path).display().to_string();
        }
    };
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|one| one.cluster.as_mut()) {
        complete(&mut cluster.certificate_authority);
    }
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|one| one.auth_info.as_mut()) {
        complete(&mut user.client_certificate);
        complete(&mut user.client_key);
        complete(&mut user.token_file);
        // A command without a slash is found by the search path.
        if let Some(exec) = user.exec.as_mut()
            && exec.command.as_ref().is_some_and(|command| command.contains('/'))
        {
            complete(&mut exec.command);
        }
    }
}

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, DriverError> {
    serde_json::from_value(value)
        .map_err(|error| DriverError { fault: Fault::Garbled, message: error.to_string() })
}

fn refused(status: u16, why: &str) -> DriverError {
    DriverError { fault: Fault::Status(status), message: why.to_owned() }
}

fn garbled(why: &str) -> DriverError {
    DriverError { fault: Fault::Garbled, message: why.to_owned() }
}

/// The archive that was to be sent cannot be read.
fn unsent(error: io::Error) -> DriverError {
    unreachable(&error.to_string())
}

fn unreachable(why: &str) -> DriverError {
    DriverError { fault: Fault::Unreachable, message: why.to_owned() }
}

fn no_such(name: &str) -> DriverError {
    refused(404, &format!("no Pod of {name}"))
}

fn unable() -> DriverError {
    refused(501, "Kubernetes has no request for this")
}

fn fault(error: &kube::Error) -> DriverError {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let text = inner.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        source = inner.source();
    }
    let fault = match error {
        kube::Error::Api(status) => {
            message = status.message.clone();
            Fault::Status(status.code)
        }
        kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(status)) => {
            Fault::Status(status.as_u16())
        }
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => Fault::Garbled,
        _ => Fault::Unreachable,
    };
    DriverError { fault, message }
}

/// Sends a request, and again while the API server cannot be connected to, when nothing of it has arrived. A server that has just
/// started may refuse everybody for a moment.
async fn patiently<T, F>(ask: impl Fn() -> F) -> Result<T, DriverError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    until_answered(ask, false).await
}

/// Sends a request that may arrive twice, and again as long as there is no answer.
async fn repeatedly<T, F>(ask: impl Fn() -> F) -> Result<T, DriverError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    until_answered(ask, true).await
}

async fn until_answered<T, F>(ask: impl Fn() -> F, may_arrive_twice: bool) -> Result<T, DriverError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let (began, mut away) = (Instant::now(), false);
    loop {
        let error = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let starts = matches!(&error, kube::Error::Api(status) if matches!(status.code, 401 | 403 | 429 | 503) || may_arrive_twice && status.code == 500);
        let not_connected = is_not_connected(&error);
        let mut fault = fault(&error);
        let lost = may_arrive_twice && fault.fault == Fault::Unreachable;
        if began.elapsed() > AWAY || !(not_connected || lost || away && starts) {
            if not_connected {
                let seconds = began.elapsed().as_secs();
                fault.message =
                    format!("the API server is away for {seconds} s: {}", fault.message);
            }
            return Err(fault);
        }
        away |= not_connected;
        tokio::time::sleep(AWAY_PAUSE).await;
    }
}

/// Returns whether a request was never sent, because there is no connection.
fn is_not_connected(error: &kube::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(error) = inner.downcast_ref::<hyper_util::client::legacy::Error>() {
            return error.is_connect();
        }
        source = inner.source();
    }
    false
}

/// Makes a policy, unless it exists.
async fn made(policies: &Api<NetworkPolicy>, policy: &NetworkPolicy) -> Result<(), DriverError> {
    let parameters = PostParams::default();
    match patiently(|| policies.create(&parameters, policy)).await {
        Err(error) if error.fault == Fault::Status(409) => {}
        made => return made.map(drop),
    }
    let name = policy.metadata.name.as_deref().unwrap_or_default();
    if repeatedly(|| policies.get(name)).await?.spec == policy.spec {
        return Ok(());
    }
    Err(refused(409, &format!("the NetworkPolicy {name} is not the one of act; delete it")))
}

/// Returns the name of a policy that is none of `act` and opens something.
fn opening(policy: &NetworkPolicy) -> Option<String> {
    let labels = policy.metadata.labels.as_ref();
    let is_ours = labels.and_then(|labels| labels.get(MANAGED)).is_some_and(|by| by == "act");
    let opens = policy.spec.as_ref().is_some_and(|spec| {
        spec.egress.as_ref().is_some_and(|rules| !rules.is_empty())
            || spec.ingress.as_ref().is_some_and(|rules| !rules.is_empty())
    });
    (!is_ours && opens).then(|| policy.metadata.name.clone().unwrap_or_default())
}

fn deleted(pod: &str) -> DriverError {
    refused(LOST, &format!("the Pod {pod} was evicted or deleted"))
}

/// Returns how the cluster has taken a Pod away, if it has.
async fn lost(pods: &Api<Pod>, pod: &str) -> Option<DriverError> {
    match repeatedly(|| pods.get(pod)).await {
        Err(error) => (error.fault == Fault::Status(404)).then(|| deleted(pod)),
        Ok(found) => trouble(&found)
            .or_else(|| found.metadata.deletion_timestamp.is_some().then(|| deleted(pod))),
    }
}

/// Returns in place of an error what has become of the Pod, where that explains it.
async fn explained(pods: &Api<Pod>, pod: &str, error: DriverError) -> DriverError {
    lost(pods, pod).await.unwrap_or(error)
}

/// Opens the directory of the descriptions of images, which only this user can write.
fn stored_images() -> io::Result<Dir> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let path = base.ok_or(io::ErrorKind::NotFound)?.join("agent-command-tool/images");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    let directory = Dir::open(&path)?;
    check_private(&directory)?;
    Ok(directory)
}

/// Names why the API server made no Pod.
fn not_created(error: DriverError) -> DriverError {
    let name = match error.fault {
        Fault::Status(403) if error.message.contains("exceeded quota") => {
            "the quota of the namespace is used up"
        }
        Fault::Status(400 | 403 | 422) => "the cluster does not admit the Pod",
        _ => return error,
    };
    DriverError { message: format!("{name}: {}", error.message), ..error }
}

fn done((code, _): (i64, String), what: &str) -> Result<(), DriverError> {
    match code {
        0 => Ok(()),
        code => Err(refused(500, &format!("the program of act failed to {what}: {code}"))),
    }
}

/// A command in a container, with its streams. Those of the client neither end nor fail when the connection does; only the
/// status ends then, without a value.
struct Process {
    /// The command ends when this is dropped.
    _attached: AttachedProcess,
    input: Option<WriteHalf<SimplexStream>>,
    output: ReadHalf<SimplexStream>,
    status: BoxFuture<'static, Option<Status>>,
    ended: Option<Option<Status>>,
}

impl Process {
    fn of(mut attached: AttachedProcess) -> Result<Self, DriverError> {
        let (input, output, status) = (attached.stdin(), attached.stdout(), attached.take_status());
        let (Some(output), Some(status)) = (output, status) else {
            return Err(unreachable("a command without an output"));
        };
        Ok(Self { _attached: attached, input, output, status: status.boxed(), ended: None })
    }

    /// Reads what is there, at least one byte. 0 is the end of the output.
    async fn read(&mut self, into: &mut [u8]) -> Result<usize, DriverError> {
        if self.ended.is_none() {
            tokio::select! {
                biased;
                read = self.output.read(into) => {
                    return read.map_err(|error| unreachable(&error.to_string()));
                }
                status = &mut self.status => self.ended = Some(status),
            }
        }
        match &self.ended {
            Some(Some(_)) => {
                let read = self.output.read(into).await;
                read.map_err(|error| unreachable(&error.to_string()))
            }
            _ => Err(broken()),
        }
    }

    /// Reads as many bytes as `into` has. False is an output that ended before.
    async fn read_exact(&mut self, into: &mut [u8]) -> Result<bool, DriverError> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read(into.get_mut(filled..).unwrap_or_default()).await? {
                0 => return Ok(false),
                count => filled += count,
            }
        }
        Ok(true)
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<(), DriverError> {
        let Some(input) = &mut self.input else { return Err(unreachable("no standard input")) };
        if self.ended.is_none() {
            tokio::select! {
                biased;
                written = input.write_all(bytes) => {
                    return written.map_err(|error| unreachable(&error.to_string()));
                }
                status = &mut self.status => self.ended = Some(status),
            }
        }
        Err(unreachable("the command ended before its input did"))
    }

    /// Returns whether the command or the connection has ended.
    fn is_over(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = (&mut self.status).now_or_never();
        }
        self.ended.is_some()
    }

    /// Waits for the exit code.
    async fn end(&mut self) -> Result<i64, DriverError> {
        let status = match self.ended.take() {
            Some(status) => status,
            None => (&mut self.status).await,
        };
        self.ended = Some(status.clone());
        code_of(status)
    }
}

/// Our own program in a container, which carries out requests one after another (`serve` in `sandbox/`).
struct Session {
    process: Process,
    /// Bytes that the next write sends. The kernel holds a small write back until the one before has arrived, which takes 40 ms.
    pending: Vec<u8>,
    /// The exit code of a program that has ended by itself or by a signal.
    ended: Option<i64>,
    /// When its last request ended.
    used: Instant,
}

impl Session {
    /// Sends a request without an archive.
    async fn request(&mut self, words: &[&str]) -> Result<(), DriverError> {
        self.put(words.join("\0").as_bytes()).await?;
        let Err(error) = self.flush().await else { return Ok(()) };
        // The program may have ended or never begun, which its code says.
        if self.process.is_over() { self.note_end().await } else { Err(error) }
    }

    /// Notes how the program has ended. It does so by itself only when its input ends.
    async fn note_end(&mut self) -> Result<(), DriverError> {
        match self.process.end().await? {
            0 => Err(broken()),
            code => {
                self.ended = Some(code);
                Ok(())
            }
        }
    }

    /// Adds bytes as pieces with their lengths to what is to be sent, and sends it when it is much.
    async fn put(&mut self, bytes: &[u8]) -> Result<(), DriverError> {
        for piece in bytes.chunks(PIECE) {
            self.put_length(piece.len());
            self.pending.extend_from_slice(piece);
            if self.pending.len() >= PIECE {
                self.flush().await?;
            }
        }
        Ok(())
    }

    fn put_length(&mut self, length: usize) {
        let length = u32::try_from(length).unwrap_or_default();
        self.pending.extend_from_slice(&length.to_be_bytes());
    }

    async fn flush(&mut self) -> Result<(), DriverError> {
        let sent = self.process.write_all(&self.pending).await;
        self.pending.clear();
        sent
    }

    /// Sends a batch, without what the base volume has of it.
    async fn send_batch(&mut self, batch: Batch) -> Result<(), DriverError> {
        let mut answer = vec![];
        if batch.files() > 0 {
            self.put(&batch.question()).await?;
            self.flush().await?;
        }
        while answer.len() < batch.files() {
            let Some(piece) = self.piece().await? else {
                // The program has failed, and its code follows.
                self.ended = Some(self.code().await?);
                return Err(broken());
            };
            answer.extend_from_slice(&piece);
        }
        self.put(&batch.message(&answer)).await
    }

    /// Ends the archive of a request.
    async fn end_archive(&mut self) -> Result<(), DriverError> {
        self.put_length(0);
        self.flush().await
    }

    /// Reads the next piece of what the request prints. `None` is the end, after which [`Session::code`] follows.
    async fn piece(&mut self) -> Result<Option<Bytes>, DriverError> {
        let mut length = [0; 4];
        if self.ended.is_some() {
            return Ok(None);
        }
        if !self.process.read_exact(&mut length).await? {
            self.note_end().await?;
            return Ok(None);
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > PIECE {
            return Err(garbled("a piece of the stream is too large"));
        }
        let mut piece = vec![0; length];
        match self.process.read_exact(&mut piece).await? {
            true => Ok((length > 0).then(|| Bytes::from(piece))),
            false => Err(unreachable("the stream ended within a piece")),
        }
    }

    /// Reads the exit code of the request.
    async fn code(&mut self) -> Result<i64, DriverError> {
        let mut code = [0];
        if self.ended.is_none() && !self.process.read_exact(&mut code).await? {
            self.note_end().await?;
        }
        Ok(self.ended.unwrap_or(i64::from(code[0])))
    }

    /// Reads the exit code and everything that the request prints.
    async fn text(&mut self) -> Result<(i64, String), DriverError> {
        let mut text = vec![];
        while let Some(piece) = self.piece().await? {
            text.extend_from_slice(&piece);
            if text.len() > MAX_ANSWER {
                return Err(garbled("an answer of the program of act is too large"));
            }
        }
        Ok((self.code().await?, String::from_utf8_lossy(&text).into_owned()))
    }

    /// Returns the answer to a request whose input the program did not take, if there is one.
    async fn refusal(&mut self) -> Option<(i64, String)> {
        if self.ended.is_none() && !self.process.is_over() {
            return None;
        }
        let answer = self.text().await;
        answer.ok().filter(|(code, _)| *code != 0)
    }
}

fn broken() -> DriverError {
    unreachable("the connection ended before the command did")
}

fn code_of(status: Option<Status>) -> Result<i64, DriverError> {
    let Some(status) = status else {
        return Err(broken());
    };
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
    let code = causes.iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    match code.and_then(|cause| cause.message.as_deref()?.parse().ok()) {
        Some(code) if status.reason.as_deref() == Some("NonZeroExitCode") => Ok(code),
        _ => Err(refused(500, &status.message.unwrap_or_default())),
    }
}

fn pod_name(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(63)
        .collect()
}

fn ids(user: StepUser) -> (u32, u32) {
    match user {
        StepUser::Ids { uid, gid } if uid != 0 && gid != 0 => (uid, gid),
        StepUser::Ids { uid, .. } if uid != 0 => (uid, NOBODY),
        StepUser::Ids { .. } | StepUser::Rootless | StepUser::Root => (NOBODY, NOBODY),
    }
}

/// Returns a text that the kubelet changes into `text`: it replaces `$(NAME)` in commands and values.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

fn node_address(pod: &Pod) -> Option<String> {
    pod.status.as_ref()?.host_ip.clone()
}

fn disk(name: &str) -> Value {
    json!({"name": name, "emptyDir": {"sizeLimit": DISK}})
}

/// Returns the variables by which the loader gets the files of a container: an archive in base64, cut into pieces.
fn files_in_variables(files: &[SentFile]) -> Vec<Value> {
    if files.is_empty() {
        return vec![];
    }
    let text = BASE64_STANDARD.encode(SentFile::archive(files).unwrap_or_default());
    let pieces = text.as_bytes().chunks(VARIABLE).map(String::from_utf8_lossy);
    let variables = pieces.enumerate();
    variables.map(|(n, piece)| json!({"name": format!("ACT_FILES_{n}"), "value": piece})).collect()
}

fn socket(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

/// Returns the names of the volumes of a container, each once.
fn volumes_of(request: &ContainerRequest) -> impl Iterator<Item = &str> {
    let mut seen: Vec<&str> = vec![];
    request.mounts.iter().filter_map(move |mount| match &mount.source {
        MountSource::Volume(name) if !seen.contains(&name.as_str()) => {
            seen.push(name);
            Some(name.as_str())
        }
        _ => None,
    })
}

/// Returns the seconds after which the kubelet ends a Pod.
fn lifetime(request: &ContainerRequest) -> u64 {
    request.lifetime_seconds.saturating_add(BEGIN.as_secs() + 60)
}

/// Returns the mount points in a volume, which is at `top` somewhere else.
fn mount_points(request: &ContainerRequest, volume: &str, top: &str) -> Vec<String> {
    let mut points = vec![];
    for mount in &request.mounts {
        if mount.source == MountSource::Volume(volume.to_owned()) {
            let above = format!("{}/", mount.target);
            let inside =
                request.mounts.iter().filter_map(|other| other.target.strip_prefix(&above));
            points.extend(inside.map(|below| format!("{top}/{below}")));
        }
    }
    points
}

/// Returns the tree that a run has on the base volume: the first volume whose content has a name, if the steps can change nothing
/// in it. `run` is a name that no other run has.
fn kept_of(
    volumes: &HashMap<String, NewVolume>,
    run: &str,
    request: &ContainerRequest,
    loads: &[(String, String)],
) -> Option<Kept> {
    let content = |volume: &String| volumes.get(volume)?.content.as_ref();
    let (volume, target) = loads.iter().find(|(volume, _)| content(volume).is_some())?;
    let mut mounts = request
        .mounts
        .iter()
        .filter(|mount| mount.source == MountSource::Volume(volume.clone()))
        .peekable();
    mounts.peek()?;
    if !mounts.all(|mount| mount.read_only) {
        return None;
    }
    let (uid, gid) = ids(request.user);
    let owner = digest(format!("{uid}:{gid}:{}", content(volume)?).as_bytes());
    let root = format!("{BASE}/{}.used-{run}", &owner[..32]);
    let path = format!("{root}/tree");
    Some(Kept {
        directories: mount_points(request, volume, &path),
        volume: volume.clone(),
        target: target.clone(),
        root,
        path,
        sound: false,
    })
}

fn files_of(notes: &Notes, request: &ContainerRequest) -> Option<(String, FilesNote)> {
    let names: Vec<_> = volumes_of(request).collect();
    let shares = |note: &&FilesNote| {
        note.of.is_none() && note.mounts.iter().any(|(volume, _)| names.contains(&volume.as_str()))
    };
    let found = notes.files.iter().find(|(_, note)| shares(note));
    found.map(|(name, note)| (name.clone(), note.clone()))
}

/// Returns the digest in what a node reports as the id of an image.
fn image_digest(image_id: &str) -> String {
    let id = image_id.rsplit_once('@').map_or(image_id, |(_, digest)| digest);
    id.trim_start_matches("docker://").to_owned()
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten()
}

fn status_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    statuses(pod).find(|status| status.name == container)
}

fn state_of<'a>(
    pod: &'a Pod,
    container: &str,
) -> Option<&'a k8s_openapi::api::core::v1::ContainerState> {
    status_of(pod, container)?.state.as_ref()
}

fn runs(pod: &Pod, container: &str) -> bool {
    state_of(pod, container).is_some_and(|state| state.running.is_some())
}

fn is_terminated(pod: &Pod, container: &str) -> bool {
    state_of(pod, container).is_some_and(|state| state.terminated.is_some())
}

/// Returns whether no container of a Pod runs or will run.
fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let runs = statuses(pod)
        .any(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
    matches!(phase, Some("Failed" | "Succeeded")) && !runs
}

/// Names what keeps a Pod from running, or what ended it.
fn trouble(pod: &Pod) -> Option<DriverError> {
    let status = pod.status.as_ref()?;
    let text = |reason: &str, message: &Option<String>| {
        format!("{reason}: {}", message.as_deref().unwrap_or("without a message"))
    };
    if status.phase.as_deref() == Some("Failed") {
        let name = match status.reason.as_deref() {
            Some("Evicted") => "the Pod was evicted",
            Some("Preempting" | "Preempted") => "the Pod was preempted",
            Some("NodeLost" | "NodeAffinity" | "Terminated") => "the node of the Pod was lost",
            Some("DeadlineExceeded") => "the time of the Pod is over",
            _ => "the Pod ended",
        };
        let ended = statuses(pod).find_map(|one| {
            let over = one.state.as_ref()?.terminated.as_ref()?;
            let why = over.message.as_deref().unwrap_or_default();
            (over.exit_code != 0)
                .then(|| format!("{} ended with {} {why}", one.name, over.exit_code))
        });
        return Some(refused(LOST, &text(name, &status.message.clone().or(ended))));
    }
    for waiting in statuses(pod).filter_map(|one| one.state.as_ref()?.waiting.as_ref()) {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        if matches!(
            reason,
            "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName"
        ) {
            let name = format!("the image cannot be pulled ({reason})");
            return Some(refused(404, &text(&name, &waiting.message)));
        }
        if matches!(
            reason,
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError"
        ) {
            return Some(refused(
                500,
                &text("the node cannot create the container", &waiting.message),
            ));
        }
    }
    None
}

/// Returns why a container of a Pod waits.
fn waiting(pod: &Pod, container: &str) -> Option<String> {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let unscheduled = conditions
        .into_iter()
        .flatten()
        .find(|one| one.type_ == "PodScheduled" && one.status == "False");
    if let Some(condition) = unscheduled {
        return Some(format!(
            "no node has room for it: {}",
            condition.message.as_deref().unwrap_or_default()
        ));
    }
    let waiting = state_of(pod, container)?.waiting.as_ref()?;
    Some(format!(
        "{} {}",
        waiting.reason.as_deref()?,
        waiting.message.as_deref().unwrap_or_default()
    ))
}

/// Describes a Pod in its own words and in those of every engine.
fn description_of(spec: Value, processes: i64, network: bool) -> Description {
    let steps =
        spec["containers"].as_array().into_iter().flatten().find(|one| one["name"] == STEPS);
    let steps = steps.cloned().unwrap_or_default();
    let user = (&spec["securityContext"]["runAsUser"], &spec["securityContext"]["runAsGroup"]);
    let words = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let security = &steps["securityContext"];
    let mut options = vec![];
    if security["allowPrivilegeEscalation"] == false {
        options.push("no-new-privileges".to_owned());
    }
    options.extend(
        spec["securityContext"]["seccompProfile"]["type"]
            .as_str()
            .map(|kind| format!("seccomp={kind}")),
    );
    let mounts = steps["volumeMounts"].as_array().into_iter().flatten();
    let isolation = Isolation {
        privileged: security["privileged"] == true,
        dropped_capabilities: words(&security["capabilities"]["drop"]),
        added_capabilities: words(&security["capabilities"]["add"]),
        security_options: options,
        network: Some(if network { NETWORK } else { "none" }.to_owned()),
        ipc: Some("private".to_owned()),
        pid: Some("private".to_owned()),
        memory_bytes: steps["resources"]["limits"]["memory"]
            .as_str()
            .and_then(quantity)
            .unwrap_or_default(),
        processes,
        devices: 0,
        binds: vec![],
        mounts: mounts
            .filter_map(|mount| {
                Some((mount["mountPath"].as_str()?.to_owned(), mount["readOnly"] == true))
            })
            .collect(),
    };
    Description {
        user: Some(format!("{}:{}", user.0, user.1)),
        isolation: Some(isolation),
        whole: spec,
    }
}

fn as_signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the bytes of a quantity as the API server writes those that `act` asks for.
fn quantity(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(factor)
}

impl Driver for KubernetesApi {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn ping(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let client = self.client()?;
            repeatedly(|| client.apiserver_version()).await.map(drop)
        })
    }

    fn machine(&self) -> Answer<'_, Machine> {
        // A namespace does not show the size of its nodes; 0 is what an engine does not say.
        Box::pin(ready(Ok(Machine { cpus: 0, memory_bytes: 0 })))
    }

    fn image<'a>(&'a self, name: &'a str) -> Answer<'a, ImageInfo> {
        Box::pin(async move {
            match self.known_image(name) {
                Some(known) => Ok(known),
                None if !name.contains(['/', ':', '.']) => {
                    Err(refused(404, "no image of this process has this id"))
                }
                None => {
                    let looked = self.look_at_image(name).await;
                    if let Err(error) = &looked {
                        self.notes().not_pulled = Some((name.to_owned(), error.message.clone()));
                    }
                    looked
                }
            }
        })
    }

    fn present_image<'a>(&'a self, name: &'a str) -> Answer<'a, ImageInfo> {
        let known = self.known_image(name);
        Box::pin(ready(known.ok_or_else(|| refused(404, "no Pod has shown this image yet"))))
    }

    fn pull<'a>(
        &'a self,
        name: &'a str,
        tag: &'a str,
    ) -> BoxStream<'a, Result<PullProgress, DriverError>> {
        let noted = self.notes().not_pulled.clone();
        let of_this = noted.filter(|(image, _)| image.starts_with(name)).map(|(_, why)| why);
        let why = of_this.unwrap_or_else(|| {
            format!("the kubelet could not pull {name}:{tag} on the node that it chose")
        });
        stream::once(ready(Err(refused(404, &why)))).boxed()
    }

    fn import<'a>(&'a self, _: &'a str, _: Vec<u8>) -> Answer<'a, ()> {
        Box::pin(ready(Err(unable())))
    }

    fn images<'a>(&'a self, _: &'a str) -> Answer<'a, Vec<Labelled>> {
        // `act` makes no image in a cluster, so none has a label of it.
        Box::pin(ready(Ok(vec![])))
    }

    fn remove_image<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        Box::pin(ready(Err(unable())))
    }

    fn changes<'a>(&'a self, _: &'a str) -> Answer<'a, Vec<(String, u8)>> {
        Box::pin(ready(Err(unable())))
    }

    fn commit<'a>(&'a self, _: &'a str, _: NewImage) -> Answer<'a, String> {
        Box::pin(ready(Err(unable())))
    }

    fn create_volume(&self, volume: NewVolume) -> Answer<'_, ()> {
        self.notes().volumes.entry(volume.name.clone()).or_insert(volume);
        Box::pin(ready(Ok(())))
    }

    fn remove_volume<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        let mut notes = self.notes();
        let in_use = notes.pods.values().any(|pod| pod.volumes.iter().any(|volume| volume == name));
        let answer = match (in_use, notes.volumes.contains_key(name)) {
            (true, _) => Err(refused(409, "a Pod has the volume")),
            (false, false) => Err(refused(404, "no such volume")),
            (false, true) => {
                notes.volumes.remove(name);
                Ok(())
            }
        };
        Box::pin(ready(answer))
    }

    fn volumes(&self, label: String) -> Answer<'_, Vec<Labelled>> {
        let notes = self.notes();
        let found = notes.volumes.values().filter(|volume| has_label(&volume.labels, &label));
        let found = found.map(|volume| Labelled {
            id: volume.name.clone(),
            name: None,
            labels: volume.labels.clone(),
        });
        Box::pin(ready(Ok(found.collect())))
    }

    fn describe(&self, request: &ContainerRequest) -> Description {
        let loads =
            files_of(&self.notes(), request).map(|(_, note)| note.mounts).unwrap_or_default();
        let kept = self.place.base_volume.as_ref();
        let kept = kept.and_then(|_| kept_of(&self.notes().volumes, "act", request, &loads));
        let pod = self.pod_of("act", request, &request.image_id, &loads, kept.as_ref());
        description_of(
            pod["spec"].clone(),
            as_signed(request.limits.pids),
            request.network != Network::Off,
        )
    }

    fn create<'a>(&'a self, name: &'a str, request: &'a ContainerRequest) -> Answer<'a, ()> {
        Box::pin(async move {
            match request.role {
                Role::Steps => self.create_pod(name, request).await,
                Role::Image => {
                    self.create_pod(name, request).await?;
                    self.begin(name).await
                }
                Role::Files => {
                    let mounts = request.mounts.iter().filter_map(|mount| match &mount.source {
                        MountSource::Volume(volume) => Some((volume.clone(), mount.target.clone())),
                        _ => None,
                    });
                    let note = FilesNote { mounts: mounts.collect(), of: None };
                    self.notes().files.insert(name.to_owned(), note);
                    Ok(())
                }
                Role::Name => {
                    let lease: Lease = parsed(json!({
                        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                        "metadata": {
                            "name": pod_name(name), "labels": {MANAGED: "act"},
                            "annotations": {OUR_NAME: name, OUR_LABELS: json!(request.labels).to_string()},
                        },
                        "spec": {"holderIdentity": "act"},
                    }))?;
                    let (leases, parameters) = (self.leases()?, PostParams::default());
                    match patiently(|| leases.create(&parameters, &lease)).await {
                        // It may have arrived all the same.
                        Err(error) if error.fault == Fault::Unreachable => {
                            let name = pod_name(name);
                            let found = repeatedly(|| leases.get(&name)).await;
                            let is_ours = found.is_ok_and(|found| {
                                found.metadata.annotations == lease.metadata.annotations
                            });
                            if is_ours { Ok(()) } else { Err(error) }
                        }
                        created => created.map(drop).map_err(not_created),
                    }
                }
            }
        })
    }

    fn start<'a>(&'a self, container: &'a str) -> Answer<'a, ()> {
        Box::pin(self.begin(container))
    }

    fn inspect<'a>(&'a self, container: &'a str) -> Answer<'a, Inspected> {
        Box::pin(async move {
            if self.notes().files.contains_key(container) {
                return Ok(Inspected::default());
            }
            let note = self.note(container);
            let name = note.as_ref().map_or_else(|| pod_name(container), |note| note.pod.clone());
            let found = match self.pod(&name).await {
                Err(error) if error.fault == Fault::Status(404) && note.is_none() => {
                    let leases = self.leases()?;
                    let lease = repeatedly(|| leases.get(&name)).await?;
                    let id = lease.metadata.uid.map(|uid| format!("lease/{name}/{uid}"));
                    return Ok(Inspected { id, ..Inspected::default() });
                }
                found => found?,
            };
            let state = state_of(&found, STEPS);
            let over = state.and_then(|state| state.terminated.as_ref());
            let spec = serde_json::to_value(&found.spec).map_err(|error| DriverError {
                fault: Fault::Garbled,
                message: error.to_string(),
            })?;
            let begun = note.as_ref().map(|note| (note.started, note.ended));
            let walls = note.and_then(|note| note.walls);
            let processes = walls.as_ref().map_or(0, |walls| as_signed(walls.processes));
            let network = walls.is_some_and(|walls| walls.network != Network::Off);
            // This process knows what it has begun and ended before the kubelet reports it.
            let running = match begun {
                Some((started, ended)) => started && !ended && !is_terminated(&found, STEPS),
                None => runs(&found, STEPS),
            };
            Ok(Inspected {
                id: found.metadata.uid.clone().map(|uid| format!("pod/{name}/{uid}")),
                pid: None,
                running,
                oom_killed: over.is_some_and(|over| over.reason.as_deref() == Some("OOMKilled")),
                node: found.spec.and_then(|spec| crate::docker::word(&spec.node_name?)),
                description: description_of(spec, processes, network),
            })
        })
    }

    fn containers<'a>(&'a self, label: &'a str) -> Answer<'a, Vec<Labelled>> {
        Box::pin(async move {
            let mut found = self.list().await?;
            found.retain(|one| has_label(&one.labels, label));
            Ok(found)
        })
    }

    fn stat<'a>(&'a self, container: &'a str, path: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let (pod, of) = self.located(container).await?;
            let kept = self.kept(&pod, of);
            let kept = kept.as_ref().and_then(|kept| kept.at(path));
            let path = kept.as_deref().unwrap_or(path);
            match self.ask(&pod, of, &["stat", path]).await?.0 {
                0 => Ok(()),
                MISSING => Err(refused(404, &format!("no {path} in the container"))),
                code => Err(refused(500, &format!("{path} cannot be asked for: {code}"))),
            }
        })
    }

    fn upload<'a>(
        &'a self,
        container: &'a str,
        path: &'a str,
        mut archive: BoxStream<'static, io::Result<Bytes>>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let (pod, of) = self.located(container).await?;
            let kept = self.kept(&pod, of);
            // A directory above the tree is a volume of the Pod.
            let kept = kept.as_ref().and_then(|kept| Some((kept, kept.at(path)?)));
            let mut session = self.session(&pod, of).await?;
            let sent = async {
                match &kept {
                    None => {
                        session.put(["receive", path].join("\0").as_bytes()).await?;
                        while let Some(piece) = archive.next().await {
                            session.put(&piece.map_err(unsent)?).await?;
                        }
                    }
                    Some((kept, path)) => {
                        let inside = kept.directories.iter().filter_map(|directory| {
                            directory.strip_prefix(&format!("{path}/")).map(str::to_owned)
                        });
                        let words = ["refresh".to_owned(), path.clone()].into_iter().chain(inside);
                        let words: Vec<_> = words.collect();
                        session.put(words.join("\0").as_bytes()).await?;
                        let mut batches = Batches::default();
                        while let Some(piece) = archive.next().await {
                            for piece in piece.map_err(unsent)?.chunks(PIECE) {
                                batches.push(piece).map_err(unsent)?;
                                if batches.is_full() {
                                    session.send_batch(batches.take()).await?;
                                }
                            }
                        }
                        session.send_batch(batches.take()).await?;
                    }
                }
                session.end_archive().await
            };
            let ended = match sent.await {
                Ok(()) => session.text().await,
                // A program that refuses its input says why by its code.
                Err(error) => session.refusal().await.ok_or(error),
            };
            let code = match ended {
                Ok((code, _)) => code,
                Err(error) => return Err(explained(&self.pods()?, &pod, error).await),
            };
            if code == 0 {
                self.store_session(&pod, of, session);
            }
            if let Some(refused) = self.base_refused(code).filter(|_| kept.is_some()) {
                return Err(refused);
            }
            done((code, String::new()), "unpack what was sent")
        })
    }

    fn download<'a>(
        &'a self,
        container: &'a str,
        path: &str,
    ) -> BoxStream<'a, Result<Bytes, DriverError>> {
        let path = path.to_owned();
        let open = async move {
            let (pod, of) = self.located(container).await?;
            let kept = self.kept(&pod, of).and_then(|kept| kept.at(&path));
            let path = kept.unwrap_or(path);
            let mut session = self.session(&pod, of).await?;
            session.request(&["send", &path]).await?;
            Ok::<_, DriverError>(Reading { api: self, session, pod, of, path })
        };
        let pieces = stream::once(open).flat_map(|opened| match opened {
            Err(error) => stream::once(ready(Err(error))).boxed(),
            Ok(reading) => stream::unfold(Some(reading), Reading::next).boxed(),
        });
        pieces.boxed()
    }

    fn wait<'a>(&'a self, container: &'a str) -> Answer<'a, Option<i64>> {
        Box::pin(async move {
            let Some(note) = self.note(container) else { return Err(no_such(container)) };
            loop {
                let found = self.pod(&note.pod).await?;
                if let Some(over) =
                    state_of(&found, STEPS).and_then(|state| state.terminated.as_ref())
                {
                    return Ok(Some(i64::from(over.exit_code)));
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    }

    fn oom_events(&self, container: &str) -> BoxStream<'static, ()> {
        let (Some(note), Ok(pods)) = (self.note(container), self.pods()) else {
            return stream::empty().boxed();
        };
        let parameters =
            LogParams { container: Some(STEPS.to_owned()), follow: true, ..LogParams::default() };
        let (sender, receiver) = tokio::sync::mpsc::channel(8);
        tokio::spawn(async move {
            let mut reported = 0;
            let follow = async {
                loop {
                    // The log begins from its beginning each time.
                    let mut found = 0;
                    if let Ok(log) = pods.log_stream(&note.pod, &parameters).await {
                        let mut lines = log.lines();
                        while let Some(Ok(line)) = lines.next().await {
                            found += usize::from(line == "oom_kill");
                            if found > reported {
                                reported = found;
                                if sender.send(()).await.is_err() {
                                    return;
                                }
                            }
                        }
                    }
                    match pods.get(&note.pod).await {
                        Err(kube::Error::Api(status)) if status.code == 404 => return,
                        Ok(found)
                            if state_of(&found, STEPS)
                                .is_some_and(|state| state.terminated.is_some()) =>
                        {
                            return;
                        }
                        _ => tokio::time::sleep(PAUSE).await,
                    }
                }
            };
            tokio::select! {
                () = follow => {}
                () = sender.closed() => {}
            }
        });
        stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) })
            .boxed()
    }

    fn kill<'a>(&'a self, container: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let Some(note) = self.note(container) else { return Err(no_such(container)) };
            let found = self.pod(&note.pod).await?;
            if note.ended || !note.started || is_terminated(&found, STEPS) {
                return Err(refused(409, "the container does not run"));
            }
            self.end_steps(container, &note.pod).await
        })
    }

    fn remove<'a>(&'a self, container: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut parts = container.splitn(3, '/');
            match (parts.next(), parts.next(), parts.next()) {
                (Some("lease"), Some(name), uid) => {
                    return self.remove_lease(name, uid.map(str::to_owned)).await;
                }
                (Some("pod"), Some(pod), uid) => {
                    return self.remove_pod_named(pod, uid.map(str::to_owned)).await;
                }
                _ => {}
            }
            let files = self.notes().files.get(container).cloned();
            if let Some(files) = files {
                if let Some(of) = files.of {
                    match self.remove_pod(&of).await {
                        Err(error) if error.fault == Fault::Status(404) => {}
                        removed => removed?,
                    }
                }
                self.notes().files.remove(container);
                return Ok(());
            }
            let note = self.note(container);
            let keeps = note.as_ref().and_then(|note| note.files.clone());
            match (note, keeps) {
                // The volumes are read after the steps are gone, and their container removes the Pod.
                (Some(note), Some(_)) => {
                    match self.kill(container).await {
                        Err(error)
                            if matches!(error.fault, Fault::Status(404 | 409 | LOST | 500)) => {}
                        killed => killed?,
                    }
                    if self.note(container).is_none_or(|note| note.ended || !note.started) {
                        return Ok(());
                    }
                    let began = Instant::now();
                    while began.elapsed() < END {
                        let found = match self.pod(&note.pod).await {
                            Err(error) if error.fault == Fault::Status(404) => return Ok(()),
                            found => found?,
                        };
                        if is_terminated(&found, STEPS) {
                            return Ok(());
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                    Err(refused(
                        504,
                        "unconfirmed: the kubelet does not say that the steps have ended",
                    ))
                }
                (Some(_), None) => self.remove_pod(container).await,
                (None, _) => match self.remove_pod(container).await {
                    Err(error) if error.fault == Fault::Status(404) => {
                        self.remove_lease(&pod_name(container), None).await
                    }
                    removed => removed,
                },
            }
        })
    }

    fn prepare_exec<'a>(&'a self, container: &'a str, command: Command) -> Answer<'a, String> {
        Box::pin(async move {
            let Some(note) = self.note(container) else { return Err(no_such(container)) };
            let directory = command.directory.unwrap_or_else(|| "/".to_owned());
            let mut arguments = vec![PROGRAM.to_owned(), "run".to_owned(), directory];
            arguments.extend(command.arguments);
            let mut notes = self.notes();
            notes.count += 1;
            let id = format!("{}-{}", note.pod, notes.count);
            let exec = ExecNote { pod: note.pod, arguments, end: None };
            notes.execs.insert(id.clone(), exec);
            Ok(id)
        })
    }

    fn start_exec<'a>(
        &'a self,
        exec: &'a str,
    ) -> Answer<'a, BoxStream<'static, Result<Output, DriverError>>> {
        Box::pin(async move {
            let found =
                self.notes().execs.get(exec).map(|one| (one.pod.clone(), one.arguments.clone()));
            let Some((pod, arguments)) = found else { return Err(refused(404, "no such command")) };
            let closed = {
                let notes = self.notes();
                let is = |(_, note): &(&String, &PodNote)| note.pod == pod;
                let found = notes.pods.iter().find(is);
                found
                    .filter(|(_, note)| note.network && note.open.is_none())
                    .map(|(name, _)| name.clone())
            };
            if let Some(container) = closed {
                self.open_network(&container, &pod).await?;
            }
            for note in self.notes().pods.values_mut().filter(|note| note.pod == pod) {
                note.stepped = true;
            }
            // The host closes its sessions, and their programs end a moment later: none is asked beside a step, and that of the
            // loader would be too old after most steps.
            self.sessions().retain(|(_, of, _), _| *of != pod);
            let mut process = self.attach(&pod, STEPS, &arguments, false, Attempts::One).await?;
            let (sender, receiver) = tokio::sync::mpsc::channel(8);
            let (report, reported) = tokio::sync::watch::channel(ExecEnd::Running);
            if let Some(note) = self.notes().execs.get_mut(exec) {
                note.end = Some(reported);
            }
            let pods = self.pods()?;
            tokio::spawn(async move {
                let mut buffer = vec![0; PIECE];
                loop {
                    let piece = match process.read(&mut buffer).await {
                        Ok(0) | Err(_) => break,
                        Ok(count) => {
                            Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default())
                        }
                    };
                    // A reader that has gone ends the connection.
                    if sender.send(Ok(Output { bytes: piece, cut: false })).await.is_err() {
                        return;
                    }
                }
                let end = match process.end().await {
                    Ok(code) => ExecEnd::Code(code),
                    Err(error) => ExecEnd::Failed(explained(&pods, &pod, error).await),
                };
                let lost = match &end {
                    ExecEnd::Failed(error) => Some(error.clone()),
                    _ => None,
                };
                let _ = report.send(end);
                if let Some(error) = lost {
                    let _ = sender.send(Err(error)).await;
                }
            });
            let pieces = stream::unfold(receiver, |mut receiver| async {
                receiver.recv().await.map(|piece| (piece, receiver))
            });
            Ok(pieces.boxed())
        })
    }

    fn exec_state<'a>(&'a self, exec: &'a str) -> Answer<'a, ExecState> {
        Box::pin(async move {
            let found = {
                let notes = self.notes();
                let note = notes.execs.get(exec);
                note.and_then(|note| Some((note.pod.clone(), note.end.as_ref()?.borrow().clone())))
            };
            match found {
                None | Some((_, ExecEnd::Running)) => {
                    Ok(ExecState { running: Some(true), exit_code: None })
                }
                Some((_, ExecEnd::Failed(error))) => Err(error),
                Some((pod, ExecEnd::Code(code))) => {
                    if [KILLED, TERMINATED].contains(&code) {
                        self.check_not_taken(&pod).await?;
                    }
                    Ok(ExecState { running: Some(false), exit_code: Some(code) })
                }
            }
        })
    }

    fn networks<'a>(&'a self, container: &'a str) -> Answer<'a, Vec<String>> {
        let network = self.note(container).map(|note| note.network);
        let names = network.map(|network| if network { vec![NETWORK.to_owned()] } else { vec![] });
        Box::pin(ready(names.ok_or_else(|| no_such(container))))
    }

    fn disconnect<'a>(&'a self, container: &'a str, _: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let (pod, open) = {
                let mut notes = self.notes();
                let note = notes.pods.get_mut(container).ok_or_else(|| no_such(container))?;
                note.network = false;
                (note.pod.clone(), note.open)
            };
            match open {
                Some(open) => self.close_pod(container, &pod, open).await,
                None => Ok(()),
            }
        })
    }

    // The network is opened when a step begins that is to have it, so that none is opened for nothing and closed again.
    fn connect<'a>(&'a self, container: &'a str, _: &'a str) -> Answer<'a, ()> {
        let mut notes = self.notes();
        let note = notes.pods.get_mut(container).ok_or_else(|| no_such(container));
        Box::pin(ready(note.map(|note| note.network = true)))
    }

    fn sees_another_tree<'a>(
        &'a self,
        container: &'a str,
        path: &'a str,
        sent: &'a str,
    ) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let Some(note) = self.note(container) else { return Err(no_such(container)) };
            let (code, digest) = self.ask(&note.pod, STEPS, &["digest", path]).await?;
            done((code, String::new()), "read the tree")?;
            let digest = digest.trim();
            if digest != sent {
                return Ok(Some(digest.to_owned()));
            }
            if let Some(note) = self.notes().pods.get_mut(container)
                && let Some(kept) = &mut note.kept
            {
                kept.sound = true;
            }
            Ok(None)
        })
    }

    fn concerns(&self) -> Answer<'_, Vec<String>> {
        Box::pin(async {
            let reviews: Api<SelfSubjectRulesReview> = Api::all(self.client()?);
            let parameters = PostParams::default();
            let question: SelfSubjectRulesReview =
                parsed(json!({"spec": {"namespace": self.place.namespace}}))?;
            let review = patiently(|| reviews.create(&parameters, &question)).await?;
            let rules = review.status.map(|status| status.resource_rules).unwrap_or_default();
            let more = more_than_needed(&rules);
            let mut concerns = vec![];
            if !more.is_empty() {
                concerns.push(format!(
                    "the account may do more in the namespace than runs need: {}",
                    more.join(", ")
                ));
            }
            let secrets: Api<Secret> = Api::namespaced(self.client()?, &self.place.namespace);
            let all = ListParams::default();
            // An account with the rights of the role alone cannot list them.
            if let Ok(found) = repeatedly(|| secrets.list_metadata(&all)).await {
                let of_account = "kubernetes.io/service-account.name";
                let others = found.items.into_iter().filter(|secret| {
                    let annotations = secret.metadata.annotations.as_ref();
                    annotations.is_none_or(|found| !found.contains_key(of_account))
                });
                let names: Vec<_> =
                    others.filter_map(|secret| secret.metadata.name).take(LISTED).collect();
                if !names.is_empty() {
                    concerns.push(format!(
                        "the namespace holds secrets beside the runs: {}",
                        names.join(", ")
                    ));
                }
            }
            Ok(concerns)
        })
    }

    fn closed(&self, container: &str) -> Option<Vec<String>> {
        Some(self.note(container)?.walls?.closed)
    }
}

fn has_label(labels: &HashMap<String, String>, wanted: &str) -> bool {
    match wanted.split_once('=') {
        Some((name, value)) => labels.get(name).is_some_and(|found| found == value),
        None => labels.contains_key(wanted),
    }
}

/// An archive on its way from a Pod.
struct Reading<'a> {
    api: &'a KubernetesApi,
    session: Session,
    pod: String,
    of: &'static str,
    path: String,
}

impl Reading<'_> {
    /// Reads one piece, and at the end how the program ended.
    async fn next(reading: Option<Self>) -> Option<(Result<Bytes, DriverError>, Option<Self>)> {
        let mut reading = reading?;
        let piece = async {
            if let Some(piece) = reading.session.piece().await? {
                return Ok(Some(piece));
            }
            let path = &reading.path;
            match reading.session.code().await? {
                0 => Ok(None),
                MISSING => Err(refused(404, &format!("no {path} in the container"))),
                code => Err(refused(500, &format!("{path} cannot be read: {code}"))),
            }
        };
        match piece.await {
            Ok(Some(piece)) => Some((Ok(piece), Some(reading))),
            Ok(None) => {
                reading.api.store_session(&reading.pod, reading.of, reading.session);
                None
            }
            Err(error) => Some((Err(error), None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{new_volume, volume};

    fn pod(status: Value) -> Pod {
        parsed(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "status": status}))
            .unwrap()
    }

    /// A request with the tree at `/workspace`, its git directory in it, and a part that steps write.
    fn request_of_steps(view: &[(&str, bool)]) -> ContainerRequest {
        let tree = view.iter().map(|(target, read_only)| volume("run-tree", target, *read_only));
        let others =
            [volume("run-git", "/workspace/.git", true), volume("run-logs", "/logs", false)];
        ContainerRequest {
            role: Role::Steps,
            image_id: String::new(),
            mounts: tree.chain(others).collect(),
            environment: vec![],
            volumes: vec![],
            files: vec![],
            user: StepUser::Ids { uid: 1000, gid: 1000 },
            limits: act_config::Limits { cpus: 1.0, memory_mb: 128, pids: 64 },
            network: Network::Off,
            script: None,
            lifetime_seconds: 120,
            labels: HashMap::new(),
        }
    }

    // ENGINE-19
    #[test]
    fn only_a_tree_that_the_steps_cannot_change_is_on_the_base_volume() {
        let content = |name: &str| NewVolume {
            content: (name == "run-tree").then(|| "repository".to_owned()),
            ..new_volume(name, HashMap::new())
        };
        let names = ["run-logs", "run-git", "run-tree"];
        let volumes: HashMap<_, _> = names.map(|name| (name.to_owned(), content(name))).into();
        let loads = [("run-logs", "/act/logs"), ("run-tree", "/act/tree"), ("run-git", "/act/git")];
        let loads = loads.map(|(volume, target)| (volume.to_owned(), target.to_owned()));
        let kept =
            |view: &[(&str, bool)]| kept_of(&volumes, "1-run", &request_of_steps(view), &loads);

        let of_readonly = kept(&[("/workspace", true)]).unwrap();
        assert_eq!((&*of_readonly.volume, &*of_readonly.target), ("run-tree", "/act/tree"));
        assert!(of_readonly.root.ends_with(".used-1-run"));
        assert_eq!(of_readonly.path, format!("{}/tree", of_readonly.root));
        assert_eq!(of_readonly.directories, [format!("{}/.git", of_readonly.path)]);
        let below = of_readonly.at("/act/tree/a/b").unwrap();
        assert_eq!(below, format!("{}/a/b", of_readonly.path));
        assert_eq!(of_readonly.at("/act/tree").as_ref(), Some(&of_readonly.path));
        assert_eq!((of_readonly.at("/act"), of_readonly.at("/act/trees")), (None, None));

        assert_eq!(kept(&[("/workspace", true), ("/artifacts/build/tree", false)]), None);
        assert_eq!(kept(&[("/workspace", false)]), None);
        assert_eq!(kept(&[]), None, "a container without the tree");
        assert_eq!(
            kept_of(&HashMap::new(), "1", &request_of_steps(&[("/workspace", true)]), &loads),
            None
        );
    }

    #[test]
    fn the_code_of_a_command_comes_from_the_status_and_from_nothing_else() {
        let status = |value: Value| Some(parsed::<Status>(value).unwrap());
        assert_eq!(code_of(status(json!({"status": "Success"}))), Ok(0));
        let failed = json!({
            "status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated",
            "details": {"causes": [{"reason": "ExitCode", "message": "137"}]},
        });
        assert_eq!(code_of(status(failed)), Ok(137));
        let odd =
            json!({"status": "Failure", "reason": "InternalError", "message": "no such file"});
        assert_eq!(code_of(status(odd)).unwrap_err().fault, Fault::Status(500));
        assert_eq!(code_of(None).unwrap_err().fault, Fault::Unreachable);
    }

    #[test]
    fn what_keeps_a_pod_from_running_has_its_name() {
        let waiting = |reason: &str| {
            json!({"containerStatuses": [{
                "name": STEPS, "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": reason}},
            }]})
        };
        let named = |status: Value| trouble(&pod(status)).map(|error| (error.fault, error.message));
        assert_eq!(named(waiting("ContainerCreating")), None);
        let (fault, message) = named(waiting("ErrImagePull")).unwrap();
        assert_eq!(fault, Fault::Status(404));
        assert!(message.starts_with("the image cannot be pulled"), "{message}");
        for (reason, name) in [
            ("Evicted", "evicted"),
            ("Preempting", "preempted"),
            ("NodeLost", "node"),
            ("DeadlineExceeded", "time"),
        ] {
            let (_, message) = named(json!({"phase": "Failed", "reason": reason})).unwrap();
            assert!(message.contains(name), "{message}");
        }
        let quota = not_created(refused(403, "pods \"a\" is forbidden: exceeded quota: act"));
        assert!(quota.message.starts_with("the quota of the namespace"), "{quota:?}");
        let denied = not_created(refused(403, "admission webhook denied the request"));
        assert!(denied.message.starts_with("the cluster does not admit"), "{denied:?}");
    }

    #[test]
    fn names_digests_and_quantities_are_read_as_the_api_writes_them() {
        assert_eq!(pod_name("act-run_20260131_235959_a1b2c3"), "act-run-20260131-235959-a1b2c3");
        assert_eq!(image_digest("docker.io/library/a@sha256:00"), "sha256:00");
        assert_eq!(image_digest("sha256:11"), "sha256:11");
        assert_eq!(quantity("64Mi"), Some(64 << 20));
        assert_eq!(quantity("67108864"), Some(64 << 20));
        assert_eq!(quantity("1Ei"), None);
        assert_eq!(socket("fd00::1", 10_250), "[fd00::1]:10250");
        assert_eq!(ids(StepUser::Ids { uid: 0, gid: 0 }), (NOBODY, NOBODY));
        assert_eq!(ids(StepUser::Ids { uid: 7, gid: 8 }), (7, 8));
    }

    // ENGINE-11
    #[test]
    fn files_reach_the_loader_in_variables_that_the_kernel_takes() {
        let file = |path, size| SentFile { path, mode: 0o644, content: vec![b'x'; size] };
        assert_eq!(files_in_variables(&[]), Vec::<Value>::new());
        let files = [file("/etc/passwd", 100), file("/etc/ca.pem", 200_000)];
        let variables = files_in_variables(&files);
        assert!(variables.len() > 2);
        let mut whole = String::new();
        for (at, variable) in variables.iter().enumerate() {
            assert_eq!(variable["name"], format!("ACT_FILES_{at}"));
            let piece = variable["value"].as_str().unwrap();
            // The loader takes a shorter piece for the last one.
            assert!(piece.len() == VARIABLE || at + 1 == variables.len());
            whole.push_str(piece);
        }
        assert_eq!(BASE64_STANDARD.decode(whole).unwrap(), SentFile::archive(&files).unwrap());
    }

    #[test]
    fn the_role_reads_no_secret() {
        let documents = rights("act");
        let all = json!(documents).to_string();
        assert!(all.contains("restricted") && !all.contains("secrets"), "{all}");
        assert!(!all.contains('*'), "{all}");
    }

    #[test]
    fn rights_beyond_those_of_the_role_are_found() {
        let rules = |rules: Value| more_than_needed(&parsed::<Vec<ResourceRule>>(rules).unwrap());
        let ours = rights("act")[1]["rules"].clone();
        assert_eq!(rules(ours), Vec::<String>::new());
        let asked = json!([{
            "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectrulesreviews"], "verbs": ["create"],
        }]);
        assert_eq!(rules(asked), Vec::<String>::new());
        let more = json!([{"apiGroups": [""], "resources": ["secrets", "pods"], "verbs": ["get", "watch"]}]);
        assert_eq!(rules(more), ["get secrets", "watch pods", "watch secrets"]);
        let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        assert_eq!(rules(all), ["* *"]);
    }
}
