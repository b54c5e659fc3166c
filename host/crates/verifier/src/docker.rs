//! Docker and Podman, which both answer Docker's API: how such an engine is found, and its requests. This is the only file that
//! names the client.

use crate::driver::{
    Ability, Answer, Command, Description, Driver, DriverError, ExecState, Facts, Fault, ImageInfo,
    Inspected, Isolation, Labelled, Machine, NewImage, Output, PullProgress, Sharing,
};
use crate::engine::QUICK;
use crate::engine_error::EngineUnavailable;
use crate::request::{ContainerRequest, Main, Mount, MountSource, Network, NewVolume, SentFile};
use act_config::EnginePlace;
use act_core::process;
use act_core::verification::EngineIdentity;
use act_workspace::digest;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{
    ContainerConfig, ContainerCreateBody, ContainerInspectResponse, CreateImageInfo,
    EndpointSettings, ExecConfig, HealthConfig, HostConfig, HostConfigLogConfig, ImageInspect,
    MountBindOptions, MountTmpfsOptions, MountType, MountVolumeOptions, NetworkConnectRequest,
    NetworkDisconnectRequest, SystemInfo, VolumeCreateRequest,
};
use bollard::query_parameters::{
    CommitContainerOptions, ContainerArchiveInfoOptions, CreateContainerOptions,
    CreateImageOptions, DownloadFromContainerOptions, EventsOptions, InspectContainerOptions,
    KillContainerOptions, ListContainersOptions, ListImagesOptions, ListVolumesOptions,
    RemoveContainerOptions, RemoveImageOptions, RemoveVolumeOptions, StartContainerOptions,
    UploadToContainerOptions, WaitContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::HashMap;
use std::error::Error as _;
use std::fs::File;
use std::future::ready;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Time limit, in seconds, that the client library gets. It is longer than any limit of `Engine`, and streams such as the
/// output of a step have none.
const CLIENT_LIMIT: u64 = 24 * 60 * 60;

/// Period of the CPU scheduler in microseconds. The quota is the part of it that the container gets.
const CPU_PERIOD: i64 = 100_000;

const PODMAN: &str = "podman";

/// An engine that answers Docker's API.
#[derive(Debug)]
pub(crate) struct DockerApi {
    docker: Docker,
    facts: Facts,
}

impl DockerApi {
    /// Connects to the engine at an address.
    ///
    /// # Errors
    /// No engine answers at that address, or the address is of a kind that is not supported. The error names the
    /// address and a remedy.
    pub(crate) async fn connect(address: &Address) -> Result<Self, EngineUnavailable> {
        let host = address.host.as_str();
        let unavailable = |why: String, hint: &str| EngineUnavailable {
            host: shown(host),
            why,
            hint: hint.to_owned(),
        };
        if host.starts_with("ssh://") {
            return Err(unavailable(
                "an engine behind ssh is reached by forwarding its socket".to_owned(),
                "run `ssh -nNT -L 127.0.0.1:2375:/var/run/docker.sock USER@HOST` and set DOCKER_HOST to \
                 tcp://127.0.0.1:2375",
            ));
        }
        let failed = |error: &Error| unavailable(describe(error), hint(address, error));
        // Both questions are asked at once, because every task waits for their answers.
        let docker = client(address, API_DEFAULT_VERSION).map_err(|error| failed(&error))?;
        let asked = async { tokio::try_join!(docker.version(), docker.info()) };
        let (version, info) = tokio::time::timeout(QUICK, asked)
            .await
            .unwrap_or(Err(Error::RequestTimeoutError))
            .map_err(|error| failed(&error))?;
        let api_version = common_version(version.api_version.as_deref());
        let docker = client(address, &api_version).map_err(|error| failed(&error))?;
        let parts = version.components.unwrap_or_default();
        let podman = parts.iter().any(|part| part.name.to_lowercase().contains("podman"));
        let identity = EngineIdentity {
            name: if podman { PODMAN } else { "docker" }.to_owned(),
            version: version.version.as_deref().and_then(word).unwrap_or_default(),
            // Podman invents another one for each answer.
            id: info.id.as_deref().filter(|_| !podman).and_then(word),
            cluster: None,
            namespace: None,
            entry: None,
        };
        let lacks = lacks(&info);
        let security = info.security_options.unwrap_or_default();
        // Podman 4 does not say so there. Its service has the rights of the owner of its socket.
        let rootless = security.iter().any(|option| option.contains("name=rootless"))
            || (podman && socket_owner(host).is_some_and(|uid| uid != 0));
        let facts = Facts {
            host: shown(host),
            identity,
            arch: info.architecture.as_deref().and_then(word).map(|name| architecture(&name)),
            rootless,
            kernel: info.kernel_version.as_deref().and_then(kernel_version),
            sharing: sharing(host, podman, info.name.as_deref()),
            lacks,
            // Podman sends SIGTERM first and waits.
            removes_politely: podman,
            starts_images: false,
            away: std::time::Duration::ZERO,
        };
        Ok(Self { docker, facts })
    }
}

impl Driver for DockerApi {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn ping(&self) -> Answer<'_, ()> {
        Box::pin(async { self.docker.ping().await.map(drop).map_err(|error| failed(&error)) })
    }

    fn machine(&self) -> Answer<'_, Machine> {
        Box::pin(async {
            let info = self.docker.info().await.map_err(|error| failed(&error))?;
            let positive =
                |number: Option<i64>| u64::try_from(number.unwrap_or_default()).unwrap_or(0);
            Ok(Machine { cpus: positive(info.ncpu), memory_bytes: positive(info.mem_total) })
        })
    }

    fn image<'a>(&'a self, name: &'a str) -> Answer<'a, ImageInfo> {
        Box::pin(async move {
            // Podman reports the id of a new image without its algorithm. For such an id that it does not have it answers
            // with an error of its own, 500, because no name may look like one.
            let is_bare = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            let name = if is_bare { format!("sha256:{name}") } else { name.to_owned() };
            let found = self.docker.inspect_image(&name).await;
            found.map(image_info).map_err(|error| failed(&error))
        })
    }

    fn pull<'a>(
        &'a self,
        name: &'a str,
        tag: &'a str,
    ) -> BoxStream<'a, Result<PullProgress, DriverError>> {
        let options = CreateImageOptions {
            from_image: Some(name.to_owned()),
            tag: Some(tag.to_owned()),
            ..CreateImageOptions::default()
        };
        let messages = self.docker.create_image(Some(options), None, None);
        messages.map(|message| message.map(pull_progress).map_err(|error| failed(&error))).boxed()
    }

    fn import<'a>(&'a self, reference: &'a str, archive: Vec<u8>) -> Answer<'a, ()> {
        let options = CreateImageOptions {
            from_src: Some("-".to_owned()),
            // Podman does not read the field `tag`.
            repo: Some(reference.to_owned()),
            ..CreateImageOptions::default()
        };
        let archive = bollard::body_full(Bytes::from(archive));
        let import = self.docker.create_image(Some(options), Some(archive), None);
        let ended = import.map(|info| info.map(drop)).try_collect::<()>();
        Box::pin(async move { ended.await.map_err(|error| failed(&error)) })
    }

    fn images<'a>(&'a self, label: &'a str) -> Answer<'a, Vec<Labelled>> {
        let filters = HashMap::from([("label".to_owned(), vec![label.to_owned()])]);
        let options = ListImagesOptions { filters: Some(filters), ..ListImagesOptions::default() };
        Box::pin(async move {
            let images = self.docker.list_images(Some(options)).await;
            let images = images.map_err(|error| failed(&error))?.into_iter();
            Ok(images
                .map(|image| Labelled { id: image.id, name: None, labels: image.labels })
                .collect())
        })
    }

    fn remove_image<'a>(&'a self, image: &'a str) -> Answer<'a, ()> {
        let options = RemoveImageOptions { force: true, ..RemoveImageOptions::default() };
        Box::pin(async move {
            let removed = self.docker.remove_image(image, Some(options), None).await;
            removed.map(drop).map_err(|error| failed(&error))
        })
    }

    fn changes<'a>(&'a self, container: &'a str) -> Answer<'a, Vec<(String, u8)>> {
        Box::pin(async move {
            let changes = self.docker.container_changes(container).await;
            let changes = changes.map_err(|error| failed(&error))?.unwrap_or_default();
            Ok(changes.into_iter().map(|change| (change.path, change.kind as u8)).collect())
        })
    }

    fn commit<'a>(&'a self, container: &'a str, image: NewImage) -> Answer<'a, String> {
        let options = CommitContainerOptions {
            container: Some(container.to_owned()),
            repo: Some(image.name),
            tag: Some(image.tag),
            comment: Some(image.comment),
            pause: false,
            // Podman 4 ignores the configuration in the body of the request.
            changes: Some(format!("LABEL {}", image.label)),
            ..CommitContainerOptions::default()
        };
        Box::pin(async move {
            let commit = self.docker.commit_container(options, ContainerConfig::default()).await;
            commit.map(|made| made.id).map_err(|error| failed(&error))
        })
    }

    fn create_volume(&self, volume: NewVolume) -> Answer<'_, ()> {
        Box::pin(async move {
            let created = self.docker.create_volume(volume_request(volume)).await;
            created.map(drop).map_err(|error| failed(&error))
        })
    }

    fn remove_volume<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let removed = self.docker.remove_volume(name, None::<RemoveVolumeOptions>).await;
            removed.map_err(|error| failed(&error))
        })
    }

    fn volumes(&self, label: String) -> Answer<'_, Vec<Labelled>> {
        let filters = HashMap::from([("label".to_owned(), vec![label])]);
        let options = ListVolumesOptions { filters: Some(filters) };
        Box::pin(async move {
            let listed = self.docker.list_volumes(Some(options)).await;
            let volumes = listed.map_err(|error| failed(&error))?.volumes.unwrap_or_default();
            Ok(volumes
                .into_iter()
                .map(|volume| Labelled { id: volume.name, name: None, labels: volume.labels })
                .collect())
        })
    }

    fn describe(&self, request: &ContainerRequest) -> Description {
        description_of(body(request))
    }

    fn create<'a>(&'a self, name: &'a str, request: &'a ContainerRequest) -> Answer<'a, ()> {
        let options = CreateContainerOptions { name: Some(name.to_owned()), ..Default::default() };
        Box::pin(async move {
            let created = self.docker.create_container(Some(options), body(request)).await;
            created.map_err(|error| failed(&error))?;
            if request.files.is_empty() {
                return Ok(());
            }
            let archive = stream::once(ready(SentFile::archive(&request.files).map(Bytes::from)));
            self.upload(name, "/", archive.boxed()).await.map_err(|error| DriverError {
                // The image exists; a directory in it is missing.
                fault: match error.fault {
                    Fault::Status(404) => Fault::Status(500),
                    fault => fault,
                },
                message: format!("the files of the container cannot be written: {}", error.message),
            })
        })
    }

    fn start<'a>(&'a self, container: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let options = None::<StartContainerOptions>;
            let started = self.docker.start_container(container, options).await;
            started.map_err(|error| failed(&error))
        })
    }

    fn inspect<'a>(&'a self, container: &'a str) -> Answer<'a, Inspected> {
        Box::pin(async move {
            let options = None::<InspectContainerOptions>;
            let found = self.docker.inspect_container(container, options).await;
            found.map(inspected).map_err(|error| failed(&error))
        })
    }

    fn containers<'a>(&'a self, label: &'a str) -> Answer<'a, Vec<Labelled>> {
        let filters = HashMap::from([("label".to_owned(), vec![label.to_owned()])]);
        let options =
            ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        Box::pin(async move {
            let listed = self.docker.list_containers(Some(options)).await;
            let listed = listed.map_err(|error| failed(&error))?.into_iter();
            let labelled = listed.filter_map(|container| {
                let name = container.names.unwrap_or_default().into_iter().next();
                Some(Labelled {
                    id: container.id?,
                    name: name.map(|name| name.trim_start_matches('/').to_owned()),
                    labels: container.labels.unwrap_or_default(),
                })
            });
            Ok(labelled.collect())
        })
    }

    fn stat<'a>(&'a self, container: &'a str, path: &'a str) -> Answer<'a, ()> {
        let options = ContainerArchiveInfoOptions { path: path.to_owned() };
        Box::pin(async move {
            let found = self.docker.get_container_archive_info(container, Some(options)).await;
            found.map(drop).map_err(|error| failed(&error))
        })
    }

    fn upload<'a>(
        &'a self,
        container: &'a str,
        path: &'a str,
        archive: BoxStream<'static, io::Result<Bytes>>,
    ) -> Answer<'a, ()> {
        let options = UploadToContainerOptions {
            path: path.to_owned(),
            // Without this, some engines make the container's user the owner of everything.
            copy_uidgid: Some("false".to_owned()),
            ..UploadToContainerOptions::default()
        };
        let body = bollard::body_try_stream(archive);
        Box::pin(async move {
            let upload = self.docker.upload_to_container(container, Some(options), body).await;
            upload.map_err(|error| failed(&error))
        })
    }

    fn download<'a>(
        &'a self,
        container: &'a str,
        path: &str,
    ) -> BoxStream<'a, Result<Bytes, DriverError>> {
        let options = DownloadFromContainerOptions { path: path.to_owned() };
        let pieces = self.docker.download_from_container(container, Some(options));
        pieces.map(|piece| piece.map_err(|error| failed(&error))).boxed()
    }

    fn wait<'a>(&'a self, container: &'a str) -> Answer<'a, Option<i64>> {
        // The state is not polled, because Podman has states that the client cannot parse.
        Box::pin(async move {
            let wait = self.docker.wait_container(container, None::<WaitContainerOptions>);
            match Box::pin(wait).next().await {
                Some(Ok(ended)) => Ok(Some(ended.status_code)),
                Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(Some(code)),
                None => Ok(None),
                Some(Err(error)) => Err(failed(&error)),
            }
        })
    }

    fn oom_events(&self, container: &str) -> BoxStream<'static, ()> {
        let filter = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
        let options = EventsOptions {
            since: Some("1".to_owned()),
            until: None,
            filters: Some(HashMap::from([
                filter("type", "container"),
                filter("container", container),
                filter("event", "oom"),
            ])),
        };
        let events = self.docker.events(Some(options));
        events.take_while(|event| ready(event.is_ok())).map(drop).boxed()
    }

    fn kill<'a>(&'a self, container: &'a str) -> Answer<'a, ()> {
        let options = KillContainerOptions { signal: "KILL".to_owned() };
        Box::pin(async move {
            let killed = self.docker.kill_container(container, Some(options)).await;
            killed.map_err(|error| failed(&error))
        })
    }

    fn remove<'a>(&'a self, container: &'a str) -> Answer<'a, ()> {
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        Box::pin(async move {
            let removed = self.docker.remove_container(container, Some(options)).await;
            removed.map_err(|error| failed(&error))
        })
    }

    fn prepare_exec<'a>(&'a self, container: &'a str, command: Command) -> Answer<'a, String> {
        let config = ExecConfig {
            attach_stdin: Some(false),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            cmd: Some(command.arguments),
            working_dir: command.directory,
            ..ExecConfig::default()
        };
        Box::pin(async move {
            let created = self.docker.create_exec(container, config).await;
            created.map(|created| created.id).map_err(|error| failed(&error))
        })
    }

    fn start_exec<'a>(
        &'a self,
        exec: &'a str,
    ) -> Answer<'a, BoxStream<'static, Result<Output, DriverError>>> {
        let options =
            StartExecOptions { detach: false, tty: false, output_capacity: Some(64 * 1024) };
        Box::pin(async move {
            match self.docker.start_exec(exec, Some(options)).await {
                Ok(StartExecResults::Attached { output, .. }) => Ok(output.map(piece).boxed()),
                Ok(StartExecResults::Detached) => Ok(stream::empty().boxed()),
                Err(error) => Err(failed(&error)),
            }
        })
    }

    fn exec_state<'a>(&'a self, exec: &'a str) -> Answer<'a, ExecState> {
        Box::pin(async move {
            let found = self.docker.inspect_exec(exec).await.map_err(|error| failed(&error))?;
            Ok(ExecState { running: found.running, exit_code: found.exit_code })
        })
    }

    fn networks<'a>(&'a self, container: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(async move {
            let options = None::<InspectContainerOptions>;
            let found = self.docker.inspect_container(container, options).await;
            let settings = found.map_err(|error| failed(&error))?.network_settings;
            let networks = settings.and_then(|settings| settings.networks);
            Ok(networks.unwrap_or_default().into_keys().collect())
        })
    }

    fn disconnect<'a>(&'a self, container: &'a str, network: &'a str) -> Answer<'a, ()> {
        let request =
            NetworkDisconnectRequest { container: container.to_owned(), force: Some(true) };
        Box::pin(async move {
            let done = self.docker.disconnect_network(network, request).await;
            done.map_err(|error| failed(&error))
        })
    }

    fn connect<'a>(&'a self, container: &'a str, network: &'a str) -> Answer<'a, ()> {
        let request = NetworkConnectRequest {
            container: container.to_owned(),
            endpoint_config: Some(EndpointSettings::default()),
        };
        Box::pin(async move {
            let done = self.docker.connect_network(network, request).await;
            done.map_err(|error| failed(&error))
        })
    }
}

/// Returns the body of the API call that creates a container.
fn body(request: &ContainerRequest) -> ContainerCreateBody {
    let memory = i64::try_from(request.memory_bytes()).unwrap_or(i64::MAX);
    let (entrypoint, arguments) = match request.main() {
        Main::Program(program) => (vec![program.to_owned()], None),
        Main::Script(script) => (vec!["/bin/sh".to_owned(), "-c".to_owned()], Some(vec![script])),
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let capabilities = Some(owned(request.capabilities())).filter(|some| !some.is_empty());
    let (uid, gid) = request.user.ids();
    let joined = matches!(request.network, Network::Of { .. });
    // No group is from 1 to 0, so the kernel refuses the socket to everybody without CAP_NET_RAW, which no step has.
    let no_icmp = || ("net.ipv4.ping_group_range".to_owned(), "1 0".to_owned());
    let sysctls = (request.network == Network::On { icmp: false }).then(|| [no_icmp()].into());
    let host = HostConfig {
        // `NanoCpus` would be simpler, but engines refuse a value above the number of cores.
        cpu_period: Some(CPU_PERIOD),
        cpu_quota: Some((request.limits.cpus * CPU_PERIOD as f64) as i64),
        memory: Some(memory),
        // Equal to `memory`, because the engine would otherwise add as much swap.
        memory_swap: Some(memory),
        pids_limit: Some(i64::try_from(request.limits.pids).unwrap_or(i64::MAX)),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: capabilities,
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        privileged: Some(false),
        ipc_mode: Some("private".to_owned()),
        init: Some(arguments.is_some()),
        network_mode: match &request.network {
            Network::Off => Some("none".to_owned()),
            Network::On { .. } => None,
            Network::Of { container, .. } => Some(format!("container:{container}")),
        },
        sysctls,
        mounts: Some(request.mounts.iter().map(mount).collect()),
        // The output of steps arrives by exec; a log driver would store a second, inexact copy.
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            ..HostConfigLogConfig::default()
        }),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        image: Some(request.image_id.clone()),
        // A container in the network of another one has the name of that one.
        hostname: (!joined).then(|| "act".to_owned()),
        user: Some(format!("{uid}:{gid}")),
        env: Some(request.environment.clone()),
        entrypoint: Some(entrypoint),
        cmd: arguments,
        working_dir: Some("/".to_owned()),
        labels: Some(request.labels.clone()),
        // The health check of an image would run a command that no step asked for.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

fn description_of(body: ContainerCreateBody) -> Description {
    Description {
        whole: serde_json::to_value(&body).unwrap_or_default(),
        user: body.user,
        isolation: body.host_config.map(isolation),
    }
}

/// Returns a mount in the words of the API. `Mounts` is used and not `Binds`, which would create a missing source on the host,
/// as root.
fn mount(mount: &Mount) -> bollard::models::Mount {
    let target = Some(mount.target.clone());
    match &mount.source {
        MountSource::Path(source) => bollard::models::Mount {
            typ: Some(MountType::BIND),
            source: Some(source.clone()),
            target,
            read_only: Some(mount.read_only),
            bind_options: Some(MountBindOptions {
                // A file system mounted below the source would stay writable under a read-only bind.
                non_recursive: Some(true),
                ..MountBindOptions::default()
            }),
            ..Default::default()
        },
        MountSource::Volume(name) => bollard::models::Mount {
            typ: Some(MountType::VOLUME),
            source: Some(name.clone()),
            target,
            read_only: Some(mount.read_only),
            volume_options: Some(MountVolumeOptions {
                // Without this, an engine fills an empty volume from the image's directory.
                no_copy: Some(true),
                ..MountVolumeOptions::default()
            }),
            ..Default::default()
        },
        MountSource::Memory { bytes, mode } => bollard::models::Mount {
            typ: Some(MountType::TMPFS),
            target,
            tmpfs_options: Some(MountTmpfsOptions {
                size_bytes: Some(i64::from(*bytes)),
                mode: Some(i64::from(*mode)),
                ..MountTmpfsOptions::default()
            }),
            ..Default::default()
        },
    }
}

fn volume_request(volume: NewVolume) -> VolumeCreateRequest {
    let options = volume.layers.map(|layers| {
        let layers = layers.display();
        let layers = format!(
            "lowerdir={layers}/lower,upperdir={layers}/upper,workdir={layers}/work,userxattr"
        );
        let options = [("type", "overlay"), ("device", "overlay"), ("o", layers.as_str())];
        options.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect()
    });
    VolumeCreateRequest {
        name: Some(volume.name),
        driver: Some("local".to_owned()),
        labels: Some(volume.labels),
        driver_opts: options,
        ..VolumeCreateRequest::default()
    }
}

fn image_info(found: ImageInspect) -> ImageInfo {
    let config = found.config.unwrap_or_default();
    ImageInfo {
        id: found.id,
        registry_digests: found.repo_digests.unwrap_or_default(),
        os: found.os.unwrap_or_default(),
        arch: found.architecture.unwrap_or_default(),
        environment: config.env.unwrap_or_default(),
        volumes: config.volumes.unwrap_or_default(),
        bytes: u64::try_from(found.size.unwrap_or(0)).unwrap_or(0),
    }
}

fn pull_progress(info: CreateImageInfo) -> PullProgress {
    let number = |n: Option<i64>| u64::try_from(n.unwrap_or(0)).unwrap_or(0);
    let bytes = info.progress_detail.map(|detail| (number(detail.current), number(detail.total)));
    PullProgress { status: info.status, layer: info.id, bytes }
}

fn inspected(found: ContainerInspectResponse) -> Inspected {
    // These parts do not change while the container runs.
    let fixed = (&found.image, &found.config, &found.host_config, &found.mounts);
    let whole = serde_json::to_value(fixed).unwrap_or_default();
    let state = found.state.unwrap_or_default();
    Inspected {
        id: found.id,
        pid: state.pid,
        running: state.running.unwrap_or(false),
        oom_killed: state.oom_killed.unwrap_or(false),
        node: None,
        description: Description {
            whole,
            user: found.config.and_then(|config| config.user),
            isolation: found.host_config.map(isolation),
        },
    }
}

fn isolation(host: HostConfig) -> Isolation {
    let mounts = host.mounts.unwrap_or_default().into_iter();
    Isolation {
        privileged: host.privileged.unwrap_or(false),
        dropped_capabilities: host.cap_drop.unwrap_or_default(),
        added_capabilities: host.cap_add.unwrap_or_default(),
        security_options: host.security_opt.unwrap_or_default(),
        network: host.network_mode,
        ipc: host.ipc_mode,
        pid: host.pid_mode,
        memory_bytes: host.memory.unwrap_or_default(),
        processes: host.pids_limit.unwrap_or_default(),
        devices: host.devices.map_or(0, |devices| devices.len()),
        binds: host.binds.unwrap_or_default(),
        mounts: mounts
            .map(|mount| (mount.target.unwrap_or_default(), mount.read_only.unwrap_or(false)))
            .collect(),
    }
}

fn piece(frame: Result<LogOutput, Error>) -> Result<Output, DriverError> {
    let frame = frame.map_err(|error| failed(&error))?;
    // The client returns this kind for a frame that was cut.
    let cut = matches!(frame, LogOutput::Console { .. });
    Ok(Output { bytes: frame.into_bytes(), cut })
}

/// Returns the limits that the engine says it does not enforce. It would create containers without them, with a warning.
fn lacks(info: &SystemInfo) -> Vec<(Ability, String)> {
    let limits = [
        (Ability::LimitMemory, info.memory_limit, "memory"),
        (Ability::LimitCpus, info.cpu_cfs_quota, "CPU quota"),
        (Ability::LimitProcesses, info.pids_limit, "process limit"),
    ];
    let missing = limits.into_iter().filter(|(_, enforced, _)| *enforced == Some(false));
    missing
        .map(|(ability, _, what)| {
            let why = format!(
                "its kernel or its user has no cgroup for that ({what}); for an engine without root, delegate the controllers \
                 `cpu memory pids` to the user"
            );
            (ability, why)
        })
        .collect()
}

fn failed(error: &Error) -> DriverError {
    DriverError { fault: fault(error), message: describe(error) }
}

fn fault(error: &Error) -> Fault {
    match error {
        Error::DockerResponseServerError { status_code, .. } => Fault::Status(*status_code),
        // The error arrived in a stream that began with status 200.
        Error::DockerStreamError { .. } | Error::DockerContainerWaitError { .. } => {
            Fault::Status(500)
        }
        Error::SocketNotFoundError(_)
        | Error::RequestTimeoutError
        | Error::HyperLegacyError { .. }
        | Error::HyperResponseError { .. }
        | Error::IOError { .. } => Fault::Unreachable,
        _ => Fault::Garbled,
    }
}

/// Returns the message of the engine, or that of the innermost cause: the client's own, such as "client error
/// (Connect)", does not help.
fn describe(error: &Error) -> String {
    const LONGEST: usize = 2_000;
    let text = match error {
        Error::DockerResponseServerError { message, .. } => message.trim().to_owned(),
        Error::SocketNotFoundError(_) => "the socket does not exist".to_owned(),
        Error::RequestTimeoutError => "the engine gave no answer in time".to_owned(),
        _ => io_cause(error).map_or_else(|| error.to_string(), ToString::to_string),
    };
    text.chars().take(LONGEST).collect()
}

/// Returns the error of the operating system behind an error of the client.
fn io_cause(error: &Error) -> Option<&io::Error> {
    let mut cause = match error {
        Error::IOError { err } => return Some(err),
        Error::HyperLegacyError { err } => err.source(),
        Error::HyperResponseError { err } => err.source(),
        _ => error.source(),
    };
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<io::Error>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// Judges by its address whether an engine mounts directories of this machine. `hostname` is the name of the engine's machine.
fn sharing(host: &str, podman: bool, hostname: Option<&str>) -> Sharing {
    // Podman creates a directory where the source of a mount is missing, so it is never probed.
    match (host.starts_with("unix://"), podman) {
        // Outside Linux every engine runs in a virtual machine, which mounts our directories.
        (true, true) if cfg!(target_os = "linux") && hostname != Some(&process::hostname()) => {
            Sharing::Never
        }
        (true, true) => Sharing::Always,
        (true, false) => Sharing::Assumed,
        (false, false) if is_loopback(host) => Sharing::Unknown,
        (false, _) => Sharing::Never,
    }
}

/// Returns an address as it is shown and stored: without a user and a password.
fn shown(host: &str) -> String {
    match host.split_once("://") {
        Some((scheme, rest)) if scheme != "unix" && rest.contains('@') => {
            let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
            format!("{scheme}://[redacted]@{rest}")
        }
        _ => host.to_owned(),
    }
}

/// Returns a word that the engine chose, or `None` if it is no word: it is stored, printed and compared.
pub(crate) fn word(text: &str) -> Option<String> {
    const LONGEST: usize = 128;
    let fits = |c: char| c.is_ascii_graphic();
    ((1..=LONGEST).contains(&text.len()) && text.chars().all(fits)).then(|| text.to_owned())
}

/// Returns the architecture by the name that images have for it.
fn architecture(name: &str) -> String {
    match name {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
    .to_owned()
}

fn is_loopback(host: &str) -> bool {
    let address = host.split_once("://").map_or(host, |(_, address)| address);
    let address = address.split('/').next().unwrap_or_default();
    let name = match address.strip_prefix('[') {
        Some(v6) => v6.split(']').next(),
        None => address.split(':').next(),
    };
    name.is_some_and(|name| {
        name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    })
}

/// Returns major and minor number of a kernel's version, such as `6.1.0-18-amd64`.
fn kernel_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns the newest version of the API that both sides know.
fn common_version(engine: Option<&str>) -> ClientVersion {
    let ours = || ClientVersion { ..*API_DEFAULT_VERSION };
    let theirs = engine.and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        Some(ClientVersion {
            major_version: major.parse().ok()?,
            minor_version: minor.parse().ok()?,
        })
    });
    theirs.filter(|theirs| *theirs < ours()).unwrap_or_else(ours)
}

fn client(address: &Address, version: &ClientVersion) -> Result<Docker, Error> {
    let host = address.host.as_str();
    if host.starts_with("unix://") {
        return Docker::connect_with_unix(host, CLIENT_LIMIT, version);
    }
    if !["tcp://", "http://", "https://"].iter().any(|scheme| host.starts_with(scheme)) {
        return Err(Error::UnsupportedURISchemeError { uri: host.to_owned() });
    }
    let Some(directory) = &address.certificates else {
        return Docker::connect_with_http(host, CLIENT_LIMIT, version);
    };
    let [key, cert, ca] = ["key.pem", "cert.pem", "ca.pem"].map(|name| directory.join(name));
    Docker::connect_with_ssl(host, &key, &cert, &ca, CLIENT_LIMIT, version)
}

/// Returns what the user can do when the engine does not answer.
fn hint(address: &Address, error: &Error) -> &'static str {
    if address.certificates.is_some() {
        return "DOCKER_CERT_PATH must hold the ca.pem, cert.pem and key.pem that the engine takes";
    }
    if matches!(error, Error::UnsupportedURISchemeError { .. }) {
        return "set DOCKER_HOST to unix://PATH or tcp://HOST:PORT";
    }
    match io_cause(error).map(io::Error::kind) {
        Some(io::ErrorKind::PermissionDenied) => {
            "add your user to the group of the socket (usually `docker`) and log in again"
        }
        _ if !address.host.starts_with("unix://") => {
            "start it with its address as `--host`, or set DOCKER_HOST to another engine's"
        }
        _ if cfg!(target_os = "macos") => {
            "start it with `open -a Docker`, or set DOCKER_HOST to its socket"
        }
        _ => "start it with `sudo systemctl start docker`, or set DOCKER_HOST to its socket",
    }
}

const DEFAULT_SOCKET: &str = "/var/run/docker.sock";
/// Maximum size of a configuration file of the Docker client, in bytes. Such files have a few kilobytes.
const MAX_CLIENT_FILE: u64 = 1024 * 1024;

/// The address of an engine and how to authenticate to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    /// A directory with `ca.pem`, `cert.pem` and `key.pem`. Its presence makes the connection TLS.
    certificates: Option<PathBuf>,
}

impl Address {
    pub(crate) fn plain(host: &str) -> Self {
        Self { host: host.to_owned(), certificates: None }
    }
}

/// Returns the address of an engine in `engines.toml`.
///
/// # Errors
/// Docker's client has no context of that name.
pub(crate) fn named_address(
    place: &EnginePlace,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Address, EngineUnavailable> {
    match place {
        EnginePlace::Endpoint { address, certificates } => {
            Ok(Address { host: address.clone(), certificates: certificates.clone() })
        }
        EnginePlace::Context(name) => {
            let address = client_directory(&env)
                .and_then(|client| context_address(&client, Some(name.clone())));
            address.ok_or_else(|| EngineUnavailable {
                host: format!("the context {name}"),
                why: "Docker's client has no such context".to_owned(),
                hint: "`docker context ls` lists them; the default context is an `endpoint`"
                    .to_owned(),
            })
        }
        EnginePlace::Cluster(place) => Err(EngineUnavailable {
            host: format!("the namespace {}", place.namespace),
            why: "a cluster does not answer Docker's API".to_owned(),
            hint: "`kind` in engines.toml is kubernetes for it".to_owned(),
        }),
    }
}

/// Returns the directory of Docker's client.
fn client_directory(env: &impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("DOCKER_CONFIG").or_else(|| Some(set("HOME")?.join(".docker")))
}

/// Finds the address as Docker's client does: `DOCKER_HOST`, the chosen context, then the known sockets.
pub(crate) fn find_address(env: impl Fn(&str) -> Option<String>) -> Address {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let home = set("HOME").map(PathBuf::from);
    let client = client_directory(&env);
    if let Some(host) = set("DOCKER_HOST") {
        let wanted = set("DOCKER_TLS_VERIFY").is_some() || host.starts_with("https://");
        let directory = set("DOCKER_CERT_PATH").map(PathBuf::from).or(client);
        return Address { host, certificates: directory.filter(|_| wanted) };
    }
    if let Some(address) = client.and_then(|client| context_address(&client, set("DOCKER_CONTEXT")))
    {
        return address;
    }
    let runtime = set("XDG_RUNTIME_DIR").map(PathBuf::from);
    let sockets = known_sockets(home.as_deref(), runtime.as_deref());
    let socket = sockets.iter().find(|socket| socket.exists());
    let socket = socket.map_or(Path::new(DEFAULT_SOCKET), PathBuf::as_path);
    Address::plain(&format!("unix://{}", socket.display()))
}

/// Returns the user who owns the socket of an engine, or `None` for another address.
fn socket_owner(host: &str) -> Option<u32> {
    let path = host.strip_prefix("unix://")?;
    Some(std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(path).ok()?))
}

/// Returns the default socket, then those of rootless Docker, Docker Desktop, Colima, OrbStack, Rancher and Podman.
fn known_sockets(home: Option<&Path>, runtime: Option<&Path>) -> Vec<PathBuf> {
    let mut sockets = vec![PathBuf::from(DEFAULT_SOCKET)];
    sockets.extend(runtime.map(|runtime| runtime.join("docker.sock")));
    let in_home = [
        ".docker/run/docker.sock",
        ".docker/desktop/docker.sock",
        ".colima/default/docker.sock",
        ".orbstack/run/docker.sock",
        ".rd/docker.sock",
    ];
    sockets.extend(home.iter().flat_map(|home| in_home.map(|socket| home.join(socket))));
    sockets.extend(runtime.map(|runtime| runtime.join("podman/podman.sock")));
    sockets.push(PathBuf::from("/run/podman/podman.sock"));
    sockets
}

/// Returns the address of the chosen Docker context, or `None` for the default context, which has no files.
fn context_address(client: &Path, chosen: Option<String>) -> Option<Address> {
    let chosen = chosen.or_else(|| {
        let config = read_json(&client.join("config.json"))?;
        Some(config.get("currentContext")?.as_str()?.to_owned())
    })?;
    if chosen.is_empty() || chosen == "default" {
        return None;
    }
    let directory = digest(chosen.as_bytes());
    let meta = read_json(&client.join("contexts/meta").join(&directory).join("meta.json"))?;
    let host = meta.get("Endpoints")?.get("docker")?.get("Host")?.as_str()?.to_owned();
    let certificates = client.join("contexts/tls").join(&directory).join("docker");
    Some(Address { host, certificates: Some(certificates).filter(|path| path.is_dir()) })
}

fn read_json(path: &Path) -> Option<serde_json::Value> {
    let bytes = act_fs::read_bounded(File::open(path).ok()?, MAX_CLIENT_FILE).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{self, canonical_digest};
    use crate::engine_error::{EngineError, Phase};
    use crate::remote_engine::FileSharing;
    use crate::request::Role;
    use crate::request::StepUser;
    use act_config::Limits;
    use act_core::verification::{ErrorType, InfraError};
    use std::fs;

    // VERIFIER-7
    #[test]
    fn the_owner_of_a_socket_is_known_and_an_address_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine.sock");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let owner = socket_owner(&format!("unix://{}", path.display()));
        assert_eq!(owner, Some(rustix::process::geteuid().as_raw()));
        assert_eq!(socket_owner("tcp://127.0.0.1:2375"), None);
        assert_eq!(socket_owner("unix:///nowhere/engine.sock"), None);
    }

    #[test]
    fn the_version_of_a_kernel_is_its_first_two_numbers() {
        assert_eq!(kernel_version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("4.9-rc1"), Some((4, 9)));
        assert_eq!(kernel_version("linux"), None);
    }

    #[test]
    fn the_older_of_two_versions_is_spoken() {
        let of = |version| common_version(version).to_string();
        assert_eq!(of(Some("1.41")), "1.41");
        assert_eq!(of(Some("1.9999")), API_DEFAULT_VERSION.to_string());
        assert_eq!(of(Some("new")), of(None));
    }

    // VERIFIER-35
    #[tokio::test]
    async fn what_cannot_be_spoken_to_is_refused_with_a_way_out() {
        let refused =
            async |address: Address| DockerApi::connect(&address).await.unwrap_err().to_string();
        let ssh = refused(Address::plain("ssh://me@box")).await;
        assert!(ssh.contains("ssh -nNT -L") && ssh.contains("DOCKER_HOST"), "{ssh}");
        assert!(
            refused(Address::plain("ftp://x")).await.contains("unix://PATH or tcp://HOST:PORT")
        );
        let empty = tempfile::tempdir().unwrap();
        let certificates = Some(empty.path().to_owned());
        let tls = refused(Address { host: "tcp://127.0.0.1:1".to_owned(), certificates }).await;
        assert!(tls.contains("ca.pem"), "{tls}");
    }

    // VERIFIER-19
    #[tokio::test]
    async fn an_absent_engine_is_named_with_its_socket_and_how_to_start_it() {
        let dir = tempfile::tempdir().unwrap();
        let missing = format!("unix://{}", dir.path().join("none.sock").display());
        let dead = dir.path().join("dead.sock");
        drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
        let dead = format!("unix://{}", dead.display());
        for host in [missing.as_str(), dead.as_str(), "tcp://127.0.0.1:1"] {
            let message = DockerApi::connect(&Address::plain(host)).await.unwrap_err().to_string();
            assert!(message.starts_with("Docker unavailable"), "{message}");
            assert!(message.contains(host) && message.contains("start it with"), "{message}");
        }
    }

    fn address(variables: &[(&str, &str)]) -> Address {
        find_address(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn found(variables: &[(&str, &str)]) -> String {
        address(variables).host
    }

    // VERIFIER-19
    #[test]
    fn docker_host_wins_over_the_context_and_the_context_over_sockets() {
        let home = tempfile::tempdir().unwrap();
        let client = home.path().join(".docker");
        // The directory of a context is the digest of its name; this is that of `far`.
        let meta = client.join("contexts/meta").join(digest(b"far"));
        fs::create_dir_all(&meta).unwrap();
        fs::write(client.join("config.json"), r#"{"currentContext":"far"}"#).unwrap();
        let text = r#"{"Name":"far","Endpoints":{"docker":{"Host":"tcp://127.0.0.1:9"}}}"#;
        fs::write(meta.join("meta.json"), text).unwrap();
        let at_home = ("HOME", home.path().to_str().unwrap());
        assert_eq!(found(&[at_home]), "tcp://127.0.0.1:9");
        assert_eq!(found(&[at_home, ("DOCKER_HOST", "unix:///x.sock")]), "unix:///x.sock");
        assert!(found(&[at_home, ("DOCKER_CONTEXT", "default")]).starts_with("unix:///"));
        fs::write(client.join("config.json"), "no json").unwrap();
        assert_eq!(found(&[at_home, ("DOCKER_CONTEXT", "far")]), "tcp://127.0.0.1:9");
        assert_eq!(address(&[at_home, ("DOCKER_CONTEXT", "far")]).certificates, None);
        let tls = client.join("contexts/tls").join(meta.file_name().unwrap()).join("docker");
        fs::create_dir_all(&tls).unwrap();
        assert_eq!(address(&[at_home, ("DOCKER_CONTEXT", "far")]).certificates, Some(tls));
        assert!(found(&[at_home]).starts_with("unix:///"));
    }

    // VERIFIER-35
    #[test]
    fn certificates_are_used_when_they_are_asked_for_and_where_dockers_client_has_them() {
        let host = ("DOCKER_HOST", "tcp://10.0.0.1:2376");
        let (home, verify) = (("HOME", "/home/me"), ("DOCKER_TLS_VERIFY", "1"));
        let of = |more: &[(&str, &str)]| {
            let set: Vec<_> = [host, home].iter().chain(more).copied().collect();
            address(&set).certificates.map(|place| place.display().to_string())
        };
        let path = ("DOCKER_CERT_PATH", "/certs");
        assert_eq!(of(&[path]), None);
        assert_eq!(of(&[verify, path]).as_deref(), Some("/certs"));
        assert_eq!(of(&[verify]).as_deref(), Some("/home/me/.docker"));
        assert_eq!(of(&[("DOCKER_TLS_VERIFY", ""), path]), None);
    }

    // VERIFIER-19
    #[test]
    fn known_sockets_are_tried_in_order_and_the_default_is_named_when_none_is_there() {
        let all = known_sockets(Some(Path::new("/home/me")), Some(Path::new("/run/user/7")));
        let shown: Vec<_> = all.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(shown.first(), Some(&DEFAULT_SOCKET));
        assert!(shown.contains(&"/run/user/7/podman/podman.sock"));
        assert!(shown.contains(&"/home/me/.docker/run/docker.sock"));
        assert!(found(&[]).starts_with("unix:///"));
    }

    // ENGINE-6
    #[test]
    fn a_password_in_an_address_is_never_shown() {
        assert_eq!(shown("tcp://me:se@cret@box:2375"), "tcp://[redacted]@box:2375");
        assert_eq!(shown("ssh://me@box"), "ssh://[redacted]@box");
        for plain in ["unix:///run/a@b.sock", "tcp://10.0.0.5:2376", "nonsense"] {
            assert_eq!(shown(plain), plain);
        }
    }

    // ENGINE-6
    #[test]
    fn what_an_engine_says_of_itself_is_a_word_or_nothing() {
        assert_eq!(word("7TRN:IPZB").as_deref(), Some("7TRN:IPZB"));
        for odd in ["", "a b", "\u{1b}[31m", "ä", "x".repeat(129).as_str()] {
            assert_eq!(word(odd), None, "{odd:?}");
        }
        assert_eq!(architecture("aarch64"), "arm64");
        assert_eq!(architecture("riscv64"), "riscv64");
    }

    // VERIFIER-33
    #[test]
    fn a_socket_is_believed_an_address_elsewhere_is_not_and_loopback_is_tried() {
        let of = |host: &str| FileSharing::new(sharing(host, false, Some("any"))).so_far();
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
        let of =
            |host: &str, name: &str| FileSharing::new(sharing(host, true, Some(name))).so_far();
        assert_eq!(of("unix:///x.sock", &process::hostname()), Some(true));
        assert_eq!(of("unix:///x.sock", "some-other-machine"), Some(false));
        assert_eq!(of("tcp://127.0.0.1:1", &process::hostname()), Some(false));
    }

    // VERIFIER-8
    #[test]
    fn limits_are_a_quota_and_memory_without_swap() {
        let request = |cpus, network, user| ContainerRequest {
            role: Role::Steps,
            image_id: "sha256:x".into(),
            mounts: vec![],
            volumes: vec![],
            files: vec![],
            environment: vec![],
            user,
            limits: Limits { cpus, memory_mb: 64, pids: 9 },
            network: if network { Network::On { icmp: true } } else { Network::Off },
            script: None,
            lifetime_seconds: 61,
            labels: HashMap::new(),
        };
        let caller = StepUser::Ids { uid: 7, gid: 8 };
        let body = super::body(&request(0.5, false, caller));
        let host = body.host_config.unwrap();
        assert_eq!(
            (host.cpu_period, host.cpu_quota, host.nano_cpus),
            (Some(100_000), Some(50_000), None)
        );
        assert_eq!((host.memory, host.memory_swap), (Some(64 << 20), Some(64 << 20)));
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!(host.binds, None);
        let [keepalive] = &body.cmd.unwrap()[..] else { panic!("one command") };
        assert!(keepalive.contains("n=5;") && keepalive.contains("sleep 15"), "{keepalive}");
        assert_eq!((body.user.as_deref(), host.cap_add), (Some("7:8"), None));
        assert_eq!(
            super::body(&request(4.0, true, caller)).host_config.unwrap().network_mode,
            None
        );
    }

    // VERIFIER-7
    #[test]
    fn only_root_by_request_gets_capabilities_and_only_five() {
        let request = ContainerRequest {
            role: Role::Steps,
            image_id: "sha256:x".into(),
            mounts: vec![],
            volumes: vec![],
            files: vec![],
            environment: vec![],
            user: StepUser::Root,
            limits: Limits::default(),
            network: Network::Off,
            script: None,
            lifetime_seconds: 61,
            labels: HashMap::new(),
        };
        let body = super::body(&request);
        let host = body.host_config.unwrap();
        assert_eq!(body.user.as_deref(), Some("0:0"));
        assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
        assert_eq!(host.cap_add.unwrap(), ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]);
        assert_eq!(host.security_opt.unwrap(), ["no-new-privileges"]);
        assert_eq!(StepUser::Rootless.ids(), (0, 0));
    }

    // VERIFIER-70
    #[test]
    fn the_helper_of_a_network_runs_one_program_with_one_capability() {
        let request = ContainerRequest {
            role: Role::Steps,
            image_id: "sha256:x".into(),
            mounts: vec![],
            volumes: vec![],
            files: vec![],
            environment: vec![],
            user: StepUser::Root,
            limits: Limits::default(),
            network: Network::Of { container: "act-run".into(), program: "/helper" },
            script: None,
            lifetime_seconds: 1,
            labels: HashMap::new(),
        };
        let body = super::body(&request);
        assert_eq!((body.entrypoint.unwrap(), body.cmd), (vec!["/helper".to_owned()], None));
        assert_eq!(body.hostname, None);
        let host = body.host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("container:act-run"));
        assert_eq!(host.cap_add.unwrap(), ["NET_ADMIN"]);
        assert_eq!(
            (host.cap_drop.unwrap(), host.privileged),
            (vec!["ALL".to_owned()], Some(false))
        );
    }

    // VERIFIER-71
    #[test]
    fn a_network_without_icmp_has_no_group_that_may_open_its_sockets() {
        let sysctls = |network| {
            let request = ContainerRequest {
                role: Role::Steps,
                image_id: "sha256:x".into(),
                mounts: vec![],
                volumes: vec![],
                files: vec![],
                environment: vec![],
                user: StepUser::Root,
                limits: Limits::default(),
                network,
                script: None,
                lifetime_seconds: 61,
                labels: HashMap::new(),
            };
            super::body(&request).host_config.unwrap().sysctls
        };
        assert_eq!(sysctls(Network::Off), None);
        assert_eq!(sysctls(Network::On { icmp: true }), None);
        let closed = sysctls(Network::On { icmp: false }).unwrap();
        assert_eq!(closed["net.ipv4.ping_group_range"], "1 0");
    }

    // VERIFIER-81
    #[test]
    fn a_limit_is_lacking_only_if_the_engine_says_so() {
        assert_eq!(lacks(&SystemInfo::default()), []);
        let info = SystemInfo {
            memory_limit: Some(true),
            cpu_cfs_quota: Some(false),
            pids_limit: Some(false),
            ..SystemInfo::default()
        };
        let lacking: Vec<_> = lacks(&info).into_iter().map(|(ability, _)| ability).collect();
        assert_eq!(lacking, [Ability::LimitCpus, Ability::LimitProcesses]);
    }

    // VERIFIER-20
    #[test]
    fn the_wording_of_an_answer_changes_nothing() {
        let class = |message: &str| {
            let error =
                Error::DockerResponseServerError { status_code: 400, message: message.into() };
            InfraError::from(EngineError::new(Phase::Start, failed(&error))).error_type
        };
        assert_eq!(class("No such image: x"), ErrorType::ContainerCreation);
        assert_eq!(class("out of memory, no space left on device"), ErrorType::ContainerCreation);
    }

    // AUDIT-10
    #[test]
    fn isolation_is_recorded_in_words_and_the_request_by_a_digest_that_ignores_the_order_of_keys() {
        let labels = |order: [usize; 3]| {
            let mut body = ContainerCreateBody {
                user: Some("1000:1000".to_owned()),
                host_config: Some(HostConfig {
                    cap_drop: Some(vec!["ALL".to_owned()]),
                    network_mode: Some("none".to_owned()),
                    mounts: Some(vec![bollard::models::Mount {
                        target: Some("/workspace".to_owned()),
                        read_only: Some(true),
                        ..Default::default()
                    }]),
                    ..HostConfig::default()
                }),
                ..ContainerCreateBody::default()
            };
            body.labels = Some(order.map(|n| (format!("l{n}"), "x".to_owned())).into());
            body
        };
        let (one, other) = (labels([1, 2, 3]), labels([3, 1, 2]));
        let (one, other) = (description_of(one), description_of(other));
        assert_eq!(canonical_digest(&one), canonical_digest(&other));
        let words = container::isolation(&one);
        for word in [
            "user=1000:1000",
            "cap_drop=ALL",
            "network=none",
            "privileged=false",
            "mount /workspace ro",
        ] {
            assert!(words.iter().any(|found| found == word), "no {word} in {words:?}");
        }
    }

    #[test]
    fn the_digest_of_an_inspection_leaves_out_what_changes() {
        let found = |status: &str| ContainerInspectResponse {
            id: Some("abc".to_owned()),
            name: Some(status.to_owned()),
            config: Some(ContainerConfig {
                labels: Some(HashMap::from([("a".to_owned(), "b".to_owned())])),
                ..ContainerConfig::default()
            }),
            ..ContainerInspectResponse::default()
        };
        let digest =
            |found: ContainerInspectResponse| canonical_digest(&inspected(found).description);
        assert_eq!(digest(found("one")), digest(found("two")));
    }
}
