//! An engine to test, the containers and volumes of one test, and a repository for runs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use act_audit::Audit;
use act_config::{
    ClusterPlace, EngineKind, EnginePlace, EngineSettings, Limits, Pipeline, SourceWrites, Step,
    User, Workspace,
};
use act_core::event::{Event, EventKind, Events, Sink};
use act_core::secret::Secrets;
use act_core::verification::{Verification, Verifier};
use act_records::artifacts::ArtifactDir;
use act_records::store::Store;
use act_verifier::driver::{
    Ability, Command, ContainerRequest, Driver, DriverError, Fault, Labelled, Mount, MountSource,
    Network, NewVolume, Role, StepUser,
};
use act_verifier::{DockerVerifier, Downloads, Engine, StepTimes, VerificationConfig};
use act_workspace::OpenRoot;
use futures_util::StreamExt;
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;

use crate::image;

/// The label of everything that the tests of the interface create. No run has it, so nothing else removes it.
const TEST: &str = "act.test.engine";
/// How long a test waits for what an engine does by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the settings of the cluster of the tests: the namespace that `ACT_TEST_NAMESPACE` names with the loader of
/// `ACT_TEST_LOADER`, whose nodes have the images already. `None` if the engine of the tests answers Docker's API.
pub(crate) fn cluster(slots: u32) -> Option<EngineSettings> {
    let namespace = std::env::var("ACT_TEST_NAMESPACE").ok()?;
    let loader = std::env::var("ACT_TEST_LOADER").ok()?;
    let requests = [("cpu", "50m"), ("memory", "32Mi")];
    let place = ClusterPlace {
        context: None,
        namespace,
        loader,
        requests: requests.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        processes_by_cluster: false,
        base_volume: None,
    };
    Some(EngineSettings {
        name: "lab".to_owned(),
        kind: EngineKind::Kubernetes,
        place: EnginePlace::Cluster(place),
        id: None,
        labels: [].into(),
        slots,
    })
}

/// Listens at an address that a container with a network reaches, and returns that address; `None` where the engine takes the
/// interface away from a container without one.
pub(crate) fn outside() -> Option<SocketAddr> {
    let host = std::env::var("ACT_TEST_OUTSIDE").ok()?;
    let listener = std::net::TcpListener::bind((host.as_str(), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    Some(address)
}

/// Returns the script that prints 1 if a container has a network, and 0 otherwise.
pub(crate) fn look_for_network(outside: Option<SocketAddr>) -> String {
    match outside {
        None => "ls /sys/class/net | grep -v '^lo$' | wc -l".to_owned(),
        Some(address) => format!(
            "if nc -w 2 {} {} </dev/null 2>/dev/null; then echo 1; else echo 0; fi",
            address.ip(),
            address.port()
        ),
    }
}

/// Returns whether the engine of the tests can do what a test is about; otherwise the test is skipped with the reason.
pub(crate) async fn can(ability: Ability) -> bool {
    let engine = engine().await;
    let lacks = &engine.driver().facts().lacks;
    match lacks.iter().find(|(lacking, _)| *lacking == ability) {
        None => true,
        Some((_, why)) => {
            act_core::testing::skip(format!("the engine declares that it cannot: {why}"));
            false
        }
    }
}

pub(crate) async fn engine() -> Engine {
    if let Some(settings) = cluster(16) {
        static CLUSTER: OnceCell<Engine> = OnceCell::const_new();
        let connect =
            || async { Engine::connect_to_named(&settings).await.unwrap().without_slots() };
        return CLUSTER.get_or_init(connect).await.clone();
    }
    let engine = Engine::connect().await.unwrap_or_else(|error| {
        panic!("these tests need a container engine, scripts/setup starts one: {error}")
    });
    static IMAGE: OnceCell<()> = OnceCell::const_new();
    IMAGE.get_or_init(|| have(&engine, image::BUSYBOX, image::busybox())).await;
    engine
}

/// Gives an image to the engine. The nodes of a cluster have it already.
pub(crate) async fn have(engine: &Engine, image: &str, archive: Vec<u8>) {
    if cluster(1).is_none() {
        let (name, tag) = image.rsplit_once(':').unwrap();
        engine.import_image(name, tag, archive).await.unwrap();
    }
}

/// A name that no other test uses, in whatever process.
pub(crate) fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("act-engine-{what}-{}-{count}", std::process::id())
}

/// Returns the status of an error of the engine.
pub(crate) fn status<T: std::fmt::Debug>(answer: Result<T, DriverError>) -> Option<u16> {
    match answer.expect_err("the engine refuses").fault {
        Fault::Status(status) => Some(status),
        Fault::Unreachable | Fault::Garbled => None,
    }
}

/// A container of one test, with its volumes. Everything is removed when it is dropped.
pub(crate) struct Sandbox {
    pub(crate) engine: Engine,
    pub(crate) name: String,
    volumes: Vec<String>,
}

/// How a command ended, and what it printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: i64,
    pub(crate) output: Vec<u8>,
}

impl Ended {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

impl Sandbox {
    /// Returns the request for a closed container that waits, as a run makes it.
    pub(crate) async fn request(engine: &Engine) -> ContainerRequest {
        let (events, never) = (Events::silent(), CancellationToken::new());
        let image = engine.ensure_image(image::BUSYBOX, &events, &never).await;
        let image = image.unwrap().expect("the image of the tests");
        ContainerRequest {
            role: Role::Steps,
            image_id: image.id,
            mounts: vec![],
            environment: vec!["GIVEN=by the request".to_owned()],
            volumes: vec![],
            files: vec![],
            user: StepUser::Ids { uid: 4242, gid: 4343 },
            limits: Limits { cpus: 1.0, memory_mb: 64, pids: 64 },
            network: Network::Off,
            script: None,
            lifetime_seconds: 600,
            labels: HashMap::from([(TEST.to_owned(), "sandbox".to_owned())]),
        }
    }

    /// Creates a container and its volumes, without starting it.
    pub(crate) async fn create(engine: &Engine, request: ContainerRequest) -> Self {
        let volumes = request.volumes.iter().map(|volume| volume.name.clone()).collect();
        let sandbox = Self { engine: engine.clone(), name: unique("box"), volumes };
        for volume in &request.volumes {
            sandbox.driver().create_volume(volume.clone()).await.unwrap();
        }
        sandbox.driver().create(&sandbox.name, &request).await.unwrap();
        sandbox
    }

    pub(crate) async fn start(engine: &Engine, request: ContainerRequest) -> Self {
        let sandbox = Self::create(engine, request).await;
        sandbox.driver().start(&sandbox.name).await.unwrap();
        sandbox
    }

    /// Starts a container as a run has it.
    pub(crate) async fn new() -> Self {
        let engine = engine().await;
        let request = Self::request(&engine).await;
        Self::start(&engine, request).await
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        self.engine.driver()
    }

    /// Starts a command and returns its id with its output so far unread.
    pub(crate) async fn begin(
        &self,
        script: &str,
    ) -> (String, impl futures_util::Stream<Item = Vec<u8>> + Unpin) {
        let arguments = ["/bin/sh", "-c", "exec /bin/sh -c \"$1\" 2>&1", "sh", script];
        let command = Command { arguments: arguments.map(str::to_owned).to_vec(), directory: None };
        let exec = self.driver().prepare_exec(&self.name, command).await.unwrap();
        let output = self.driver().start_exec(&exec).await.unwrap();
        let output =
            output.map(|piece| piece.map(|piece| piece.bytes.to_vec()).unwrap_or_default());
        (exec, output)
    }

    /// Runs a script to its end.
    pub(crate) async fn run(&self, script: &str) -> Ended {
        let (exec, mut pieces) = self.begin(script).await;
        let mut output = vec![];
        while let Some(piece) = pieces.next().await {
            output.extend(piece);
        }
        Ended { code: self.exit_code(&exec).await, output }
    }

    /// Waits for the exit code of a command.
    pub(crate) async fn exit_code(&self, exec: &str) -> i64 {
        let began = Instant::now();
        loop {
            let state = self.driver().exec_state(exec).await.unwrap();
            if let (Some(false), Some(code)) = (state.running, state.exit_code) {
                return code;
            }
            assert!(began.elapsed() < PATIENCE, "the command does not end: {state:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns a file or directory of the container as an archive.
    pub(crate) async fn archive(&self, path: &str) -> Result<Vec<u8>, DriverError> {
        let mut pieces = self.driver().download(&self.name, path);
        let mut archive = vec![];
        while let Some(piece) = pieces.next().await {
            archive.extend_from_slice(&piece?);
        }
        Ok(archive)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let (engine, name) = (self.engine.clone(), self.name.clone());
        let volumes = std::mem::take(&mut self.volumes);
        let removal = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let _ = engine.driver().kill(&name).await;
                let _ = engine.driver().remove(&name).await;
                for volume in volumes {
                    let _ = engine.driver().remove_volume(&volume).await;
                }
            });
        });
        let _ = removal.join();
    }
}

pub(crate) fn new_volume(name: &str) -> NewVolume {
    let labels = HashMap::from([(TEST.to_owned(), name.to_owned())]);
    NewVolume { name: name.to_owned(), labels, layers: None, content: None }
}

pub(crate) fn mounted(name: &str, target: &str, read_only: bool) -> Mount {
    Mount { target: target.to_owned(), read_only, source: MountSource::Volume(name.to_owned()) }
}

/// Returns the volumes with the label of one test.
pub(crate) async fn volumes_of(engine: &Engine, value: &str) -> Vec<Labelled> {
    engine.driver().volumes(format!("{TEST}={value}")).await.unwrap()
}

/// A repository with a pipeline, and everything that a run of it needs.
pub(crate) struct Project {
    dir: tempfile::TempDir,
    pub(crate) engine: Engine,
    pub(crate) pipeline: Pipeline,
    pub(crate) step_timeout: Duration,
    pub(crate) cancel: CancellationToken,
    audit: Audit,
    events: Events,
    heard: mpsc::UnboundedReceiver<EventKind>,
}

struct Channel(mpsc::UnboundedSender<EventKind>);

impl Sink for Channel {
    fn event(&mut self, event: &Event) {
        let _ = self.0.send(event.kind.clone());
    }
}

impl Project {
    pub(crate) async fn new() -> Self {
        let engine = engine().await;
        let dir = tempfile::tempdir().unwrap();
        for name in ["repo", "audit"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let path = dir.path().join("audit");
        let state = act_fs::Dir::open(&path).unwrap();
        let store = Arc::new(Store::open(&state, &path).unwrap());
        let (sender, heard) = mpsc::unbounded_channel();
        Self {
            audit: Audit::new(state, &path, store, Secrets::default()),
            dir,
            engine,
            pipeline: Pipeline {
                image: image::BUSYBOX.into(),
                prepare: vec![],
                prepare_inputs: vec![],
                warm: None,
                steps: vec![],
                workspace: Workspace::Auto,
                include: vec![],
                source_writes: SourceWrites::Fail,
                user: User::Caller,
                ca_bundle: None,
                limits: Limits { cpus: 4.0, memory_mb: 256, pids: 256 },
                engine: [].into(),
                private_network: true,
                cut_off: vec![],
            },
            // Only tests about the time limit reach it.
            step_timeout: Duration::from_secs(600),
            cancel: CancellationToken::new(),
            events: Events::new("t-abc123", vec![Box::new(Channel(sender))]),
            heard,
        }
    }

    pub(crate) fn step(mut self, name: &str, command: &str) -> Self {
        let (name, command) = (name.into(), command.into());
        self.pipeline.steps.push(Step { name, command, network: false });
        self
    }

    /// The last step gets the network.
    pub(crate) fn with_network(mut self) -> Self {
        self.pipeline.steps.last_mut().unwrap().network = true;
        self
    }

    pub(crate) fn file(self, path: &str, content: &[u8]) -> Self {
        let path = self.repo().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    pub(crate) async fn verifier(&self) -> DockerVerifier {
        let image = self.engine.ensure_image(&self.pipeline.image, &self.events, &self.cancel);
        let artifacts = ArtifactDir::open(&self.dir.path().join("artifacts"), &self.repo());
        DockerVerifier {
            image: image.await.unwrap().unwrap(),
            variant: None,
            tests_weakened: Arc::default(),
            step_times: StepTimes::default(),
            downloads: Downloads::Private,
            warm: None,
            engine: self.engine.clone(),
            artifacts: Arc::new(artifacts.unwrap()),
            repo: OpenRoot::open(&self.repo().canonicalize().unwrap()).unwrap(),
            config: Arc::new(VerificationConfig {
                pipeline: self.pipeline.clone(),
                step_timeout: self.step_timeout,
                package: None,
                sha256: "feed".into(),
                downloads_of: None,
            }),
            task_id: None,
            components: vec![],
            audit: self.audit.clone(),
            events: self.events.clone(),
        }
    }

    /// Runs the pipeline once, and checks that nothing of the run is left on the engine.
    pub(crate) async fn run(&self) -> Verification {
        let verification = self.verifier().await.run(1, &self.cancel).await.expect("not cancelled");
        if let Some(run) = &verification.run_id {
            self.assert_nothing_left(run.as_str()).await;
        }
        verification
    }

    /// Starts a run that the test does something to. It ends with `None` when it is cancelled.
    pub(crate) async fn begin(&self) -> tokio::task::JoinHandle<Option<Verification>> {
        let (verifier, cancel) = (self.verifier().await, self.cancel.clone());
        tokio::spawn(async move { verifier.run(1, &cancel).await })
    }

    /// Waits until a step has printed `text`, and returns the id of its run.
    pub(crate) async fn printed(&mut self, text: &str) -> String {
        let (mut run, mut output) = (String::new(), vec![]);
        while let Some(kind) = self.heard.recv().await {
            match kind {
                EventKind::VerifyStarted { run_id, .. } => run = run_id,
                EventKind::StepOutput(bytes) => output.extend_from_slice(&bytes.0),
                _ => {}
            }
            if String::from_utf8_lossy(&output).contains(text) {
                return run;
            }
        }
        panic!("no step printed {text:?}");
    }

    /// Waits until the person is told a text that holds `part`, and returns it.
    pub(crate) async fn told(&mut self, part: &str) -> String {
        while let Some(kind) = self.heard.recv().await {
            if let EventKind::Notice(notice) = kind
                && notice.text.contains(part)
            {
                return notice.text;
            }
        }
        panic!("nobody was told {part:?}");
    }

    /// Containers and volumes of a run.
    pub(crate) async fn left_of(&self, run: &str) -> Vec<String> {
        let label = format!("act.run_id={run}");
        let driver = self.engine.driver();
        let containers = driver.containers(&label).await.unwrap();
        let volumes = driver.volumes(label).await.unwrap();
        containers.into_iter().chain(volumes).map(|left| left.name.unwrap_or(left.id)).collect()
    }

    pub(crate) async fn assert_nothing_left(&self, run: &str) {
        assert_eq!(self.left_of(run).await, Vec::<String>::new(), "the run left something");
    }

    pub(crate) fn run_dir(&self, run: &str) -> PathBuf {
        self.dir.path().join("artifacts/runs").join(run)
    }

    pub(crate) fn log(&self, verification: &Verification, name: &str) -> Vec<u8> {
        let run = verification.run_id.as_ref().unwrap();
        std::fs::read(self.run_dir(run.as_str()).join("logs").join(name)).unwrap()
    }
}
