//! `engines.toml`, the user's list of container engines. It decides where the code of repositories runs and to whom the tree is
//! sent, so it counts under the same conditions as `config.toml`, and no repository can name an engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::error::SettingsError;
use super::user::Source;
use act_fs::trusted::{Owner, open_directory, read_text, user_directory};

const NAME: &str = "engines.toml";
/// Maximum number of bytes of the file. An engine has some hundred.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum number of engines. `act engines` asks all of them at once.
const MAX_ENGINES: usize = 64;
/// Longest name of an engine, in bytes. It is shown in lines of a terminal.
const MAX_NAME: usize = 64;
/// Number of runs at once on an engine whose entry does not say: a run has four CPUs by default, and machines for such work have
/// eight or more.
const DEFAULT_SLOTS: u32 = 2;
/// Maximum number of runs at once on one engine. Each is a name that a waiting run asks for.
const MAX_SLOTS: u32 = 64;
/// Maximum number of labels of an engine, and of labels that `agent.yaml` asks for. Each is compared with each engine.
pub(super) const MAX_LABELS: usize = 16;
/// Longest name or value of a label, and longest id of an engine, in bytes: Docker's ids have 36 or 59.
const MAX_LABEL: usize = 64;

/// Labels by their names.
pub type Labels = BTreeMap<String, String>;

/// The engines of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Engines {
    /// The path of the file; `None` if there is no file.
    pub file: Option<PathBuf>,
    /// In the order of the file.
    pub engines: Vec<EngineSettings>,
}

/// One engine of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineSettings {
    pub name: String,
    pub kind: EngineKind,
    pub place: EnginePlace,
    /// The id that the engine has to report.
    pub id: Option<String>,
    /// What `verification.engine` in `agent.yaml` is compared with.
    pub labels: Labels,
    /// Number of runs at once, of all users who share the engine.
    pub slots: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    Docker,
    Podman,
    Kubernetes,
}

impl EngineKind {
    /// Returns the word of the file, which is also the name that an engine has in a manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Kubernetes => "kubernetes",
        }
    }
}

/// Where an engine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnginePlace {
    /// An address, with the directory of `ca.pem`, `cert.pem` and `key.pem` for TLS.
    Endpoint { address: String, certificates: Option<PathBuf> },
    /// A context of Docker's client.
    Context(String),
    /// A namespace of a Kubernetes cluster.
    Cluster(ClusterPlace),
}

/// A namespace of a Kubernetes cluster, as the user's kubeconfig reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPlace {
    /// `None` for the current context of the kubeconfig.
    pub context: Option<String>,
    pub namespace: String,
    /// The image that `act engines image` writes, as the cluster finds it.
    pub loader: String,
    /// The resources that the container of the steps asks the scheduler for; its limits are those of `agent.yaml`.
    pub requests: Labels,
    /// The cluster limits processes in a way that a Pod cannot see.
    pub processes_by_cluster: bool,
    /// The claim of a volume that stores the contents of files between runs.
    pub base_volume: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    engine: Vec<Spanned<RawEngine>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEngine {
    name: Spanned<String>,
    kind: Spanned<String>,
    endpoint: Option<Spanned<String>>,
    context: Option<Spanned<String>>,
    certificates: Option<Spanned<String>>,
    id: Option<Spanned<String>>,
    labels: Option<Spanned<Labels>>,
    slots: Option<Spanned<i64>>,
    namespace: Option<Spanned<String>>,
    loader: Option<Spanned<String>>,
    requests: Option<Spanned<Labels>>,
    pids: Option<Spanned<String>>,
    base_volume: Option<Spanned<String>>,
}

impl Engines {
    /// Reads `engines.toml` from the user's directory; without a file there are no engines. `repo` is the repository in use, in
    /// which the file must not lie.
    ///
    /// # Errors
    ///
    /// The file is not trusted or malformed.
    pub fn read(repo: Option<&Path>) -> Result<Self, SettingsError> {
        let Some(directory) = user_directory() else { return Ok(Self::default()) };
        Self::read_in(&directory, repo)
    }

    fn read_in(directory: &Path, repo: Option<&Path>) -> Result<Self, SettingsError> {
        let path = directory.join(NAME);
        let untrusted = |why| SettingsError::Untrusted { path: path.clone(), why };
        let Some(dir) = open_directory(directory, repo, Owner::Caller).map_err(untrusted)? else {
            return Ok(Self::default());
        };
        match read_text(&dir, NAME, MAX_BYTES, Owner::Caller).map_err(untrusted)? {
            Some(text) => Self::parse(&text, &path),
            None => Ok(Self::default()),
        }
    }

    /// Returns the engine of this name.
    pub fn find(&self, name: &str) -> Option<&EngineSettings> {
        self.engines.iter().find(|engine| engine.name == name)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        let source = Source { text, path, repo: None };
        let file: File = source.parse()?;
        let mut engines: Vec<EngineSettings> = vec![];
        for raw in file.engine {
            let at = raw.span().start;
            let engine = engine(source, at, raw.into_inner())?;
            if engines.iter().any(|other| other.name == engine.name) {
                return Err(source.malformed(at, "a second engine of this name"));
            }
            if engines.len() == MAX_ENGINES {
                return Err(source.malformed(at, &format!("more than {MAX_ENGINES} engines")));
            }
            engines.push(engine);
        }
        Ok(Self { file: Some(path.to_owned()), engines })
    }
}

fn engine(
    source: Source<'_>,
    start: usize,
    raw: RawEngine,
) -> Result<EngineSettings, SettingsError> {
    let RawEngine { name, kind, id, labels, slots, .. } = &raw;
    if !is_name(name.get_ref()) {
        let why = format!(
            "`name` has 1 to {MAX_NAME} of the characters a-z, 0-9 and `-`, and begins with a letter"
        );
        return Err(source.malformed(name.span().start, &why));
    }
    let kind = match kind.get_ref().as_str() {
        "docker" => EngineKind::Docker,
        "podman" => EngineKind::Podman,
        "kubernetes" => EngineKind::Kubernetes,
        _ => {
            return Err(
                source.malformed(kind.span().start, "`kind` is docker, podman or kubernetes")
            );
        }
    };
    let place = match kind {
        EngineKind::Kubernetes => EnginePlace::Cluster(cluster(source, start, &raw)?),
        EngineKind::Docker | EngineKind::Podman => container_place(source, start, &raw)?,
    };
    let slots = match slots {
        None => DEFAULT_SLOTS,
        Some(slots) => match u32::try_from(*slots.get_ref()) {
            Ok(number @ 1..=MAX_SLOTS) => number,
            _ => {
                let why = format!("`slots` is a whole number from 1 to {MAX_SLOTS}");
                return Err(source.malformed(slots.span().start, &why));
            }
        },
    };
    let id = match id {
        Some(id) if !is_label_value(id.get_ref(), ":") => {
            let why = "`id` is what `act engines check` shows: letters, digits and `:._-`";
            return Err(source.malformed(id.span().start, why));
        }
        id => id.as_ref().map(|id| id.get_ref().clone()),
    };
    let labels = match labels {
        Some(labels) if !are_labels(labels.get_ref()) => {
            return Err(source.malformed(labels.span().start, LABELS));
        }
        labels => labels.as_ref().map(|labels| labels.get_ref().clone()).unwrap_or_default(),
    };
    Ok(EngineSettings { name: name.get_ref().clone(), kind, place, id, labels, slots })
}

/// Returns where an engine of containers is.
fn container_place(
    source: Source<'_>,
    start: usize,
    raw: &RawEngine,
) -> Result<EnginePlace, SettingsError> {
    let RawEngine { endpoint, context, certificates, namespace, loader, requests, pids, .. } = raw;
    let base_volume = raw.base_volume.as_ref();
    let of_clusters = [
        namespace.as_ref().map(|key| ("namespace", key.span())),
        loader.as_ref().map(|key| ("loader", key.span())),
        requests.as_ref().map(|key| ("requests", key.span())),
        pids.as_ref().map(|key| ("pids", key.span())),
        base_volume.map(|key| ("base_volume", key.span())),
    ];
    if let Some((key, span)) = of_clusters.into_iter().flatten().next() {
        let why = format!("`{key}` belongs to an engine of the kind kubernetes");
        return Err(source.malformed(span.start, &why));
    }
    match (endpoint, context) {
        (Some(endpoint), None) => {
            let address = address(source, endpoint)?;
            let certificates = match certificates {
                Some(path) => Some(directory(source, path, &address)?),
                None if address.starts_with("https://") => {
                    let why = "https:// needs `certificates`, a directory with ca.pem, cert.pem and key.pem";
                    return Err(source.malformed(endpoint.span().start, why));
                }
                None => None,
            };
            Ok(EnginePlace::Endpoint { address, certificates })
        }
        (None, Some(context)) => {
            if let Some(certificates) = certificates {
                let why = "`certificates` belongs to an `endpoint`; a context has its own";
                return Err(source.malformed(certificates.span().start, why));
            }
            let Some(name) = source.line("context", Some(context.clone()))? else {
                return Err(source.malformed(start, "`context` is empty"));
            };
            Ok(EnginePlace::Context(name))
        }
        _ => {
            let why = "an engine has either an `endpoint`, such as unix:///run/podman/podman.sock, or a `context` of \
                       Docker's client";
            Err(source.malformed(start, why))
        }
    }
}

/// Returns where a cluster is.
fn cluster(
    source: Source<'_>,
    start: usize,
    raw: &RawEngine,
) -> Result<ClusterPlace, SettingsError> {
    let RawEngine { endpoint, context, certificates, namespace, loader, requests, pids, .. } = raw;
    if let Some(key) = endpoint.as_ref().or(certificates.as_ref()) {
        let why = "the address and the certificates of a cluster are in the kubeconfig; name its `context`";
        return Err(source.malformed(key.span().start, why));
    }
    let context = match context {
        Some(context) => source.line("context", Some(context.clone()))?,
        None => None,
    };
    let namespace = match namespace {
        Some(name) if is_dns_label(name.get_ref()) => name.get_ref().clone(),
        Some(name) => {
            let why = "`namespace` has 1 to 63 of the characters a-z, 0-9 and `-`, and `-` neither first nor last";
            return Err(source.malformed(name.span().start, why));
        }
        None => {
            let why = "an engine of the kind kubernetes has a `namespace`, which runs of act have for themselves";
            return Err(source.malformed(start, why));
        }
    };
    let loader = match loader {
        Some(image) if is_by_digest(image.get_ref()) => image.get_ref().clone(),
        Some(image) => {
            let why = "`loader` is the image that `act engines image` writes, with its digest: NAME@sha256:DIGEST";
            return Err(source.malformed(image.span().start, why));
        }
        None => {
            let why = "an engine of the kind kubernetes has a `loader`, the image that `act engines image` writes";
            return Err(source.malformed(start, why));
        }
    };
    let requests = match requests {
        None => Labels::new(),
        Some(requests) => {
            let known = |(key, value): (&String, &String)| {
                ["cpu", "memory"].contains(&key.as_str()) && is_label_value(value, "")
            };
            if !requests.get_ref().iter().all(known) {
                let why = "`requests` has `cpu` and `memory`, such as { cpu = \"500m\", memory = \"512Mi\" }";
                return Err(source.malformed(requests.span().start, why));
            }
            requests.get_ref().clone()
        }
    };
    let processes_by_cluster = match pids {
        None => false,
        Some(pids) if pids.get_ref() == "cluster" => true,
        Some(pids) => {
            let why = "`pids` is \"cluster\", if the cluster limits processes in a way that a Pod cannot see";
            return Err(source.malformed(pids.span().start, why));
        }
    };
    let base_volume = match &raw.base_volume {
        Some(name) if !is_dns_label(name.get_ref()) => {
            let why = "`base_volume` is the name of a PersistentVolumeClaim in the namespace: a-z, 0-9 and `-`";
            return Err(source.malformed(name.span().start, why));
        }
        name => name.as_ref().map(|name| name.get_ref().clone()),
    };
    Ok(ClusterPlace { context, namespace, loader, requests, processes_by_cluster, base_volume })
}

/// Returns whether an image is named by its digest, so that no tag decides which program fills the volumes.
fn is_by_digest(image: &str) -> bool {
    let Some((name, digest)) = image.split_once("@sha256:") else { return false };
    let of_name = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    !name.is_empty()
        && image.len() <= 512
        && name.chars().all(of_name)
        && digest.len() == 64
        && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The form of labels, for messages.
pub(super) const LABELS: &str = "labels are at most 16 names of a-z, 0-9 and `._-`, each with a text of letters, digits and `._-`";

/// Returns whether labels have the form of [`LABELS`].
pub(super) fn are_labels(labels: &Labels) -> bool {
    let is_key =
        |key: &str| is_label_value(key, "") && !key.contains(|c: char| c.is_ascii_uppercase());
    labels.len() <= MAX_LABELS
        && labels.iter().all(|(key, value)| is_key(key) && is_label_value(value, ""))
}

fn is_label_value(text: &str, more: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c) || more.contains(c);
    (1..=MAX_LABEL).contains(&text.len()) && text.chars().all(fits)
}

/// Returns the address of an endpoint. It holds no user, password, path or query, so it can be shown.
fn address(source: Source<'_>, endpoint: &Spanned<String>) -> Result<String, SettingsError> {
    let text = endpoint.get_ref().as_str();
    let is_path = |path: &str| path.starts_with('/') && !path.contains(char::is_control);
    let of_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]_".contains(c);
    let is_host = |host: &str| !host.is_empty() && host.chars().all(of_host);
    let fits = match text.split_once("://") {
        Some(("unix", path)) => is_path(path),
        Some(("tcp" | "http" | "https", host)) => is_host(host),
        _ => false,
    };
    if fits {
        return Ok(text.to_owned());
    }
    // A longer text would be cut.
    let why = "`endpoint` is unix:///PATH, tcp://HOST:PORT or https://HOST:PORT, without a user; for ssh, forwarding its \
               socket works";
    Err(source.malformed(endpoint.span().start, why))
}

fn directory(
    source: Source<'_>,
    path: &Spanned<String>,
    address: &str,
) -> Result<PathBuf, SettingsError> {
    let directory = PathBuf::from(path.get_ref());
    if address.starts_with("unix://") || address.starts_with("http://") {
        let why = "`certificates` are for tcp:// and https://";
        return Err(source.malformed(path.span().start, why));
    }
    if !directory.is_absolute() {
        let why =
            "`certificates` is the absolute path of a directory with ca.pem, cert.pem and key.pem";
        return Err(source.malformed(path.span().start, why));
    }
    Ok(directory)
}

/// Returns whether a text is a name as Kubernetes gives it to namespaces.
fn is_dns_label(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(fits)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn parse(text: &str) -> Result<Engines, String> {
        Engines::parse(text, Path::new("engines.toml")).map_err(|error| error.to_string())
    }

    // ENGINE-2
    #[test]
    fn an_engine_has_a_name_a_kind_and_a_place() {
        let read = parse(
            r#"
            [[engine]]
            name = "lab"
            kind = "docker"
            endpoint = "tcp://10.0.0.5:2376"
            certificates = "/home/me/.docker/lab"
            id = "7TRN:IPZB"
            labels = { arch = "arm64", "gpu.model" = "A100" }
            slots = 6

            [[engine]]
            name = "here"
            kind = "podman"
            context = "mine"
            "#,
        )
        .unwrap();
        let lab = read.find("lab").unwrap();
        assert_eq!((lab.kind, lab.slots), (EngineKind::Docker, 6));
        assert_eq!(lab.id.as_deref(), Some("7TRN:IPZB"));
        let labels = [("arch", "arm64"), ("gpu.model", "A100")];
        assert_eq!(lab.labels, labels.map(|(key, value)| (key.into(), value.into())).into());
        let certificates = Some("/home/me/.docker/lab".into());
        let address = "tcp://10.0.0.5:2376".to_owned();
        assert_eq!(lab.place, EnginePlace::Endpoint { address, certificates });
        let here = read.find("here").unwrap();
        assert_eq!((here.kind, here.slots), (EngineKind::Podman, DEFAULT_SLOTS));
        assert_eq!(here.place, EnginePlace::Context("mine".to_owned()));
        assert_eq!(read.find("elsewhere"), None);
        assert_eq!(here.labels, Labels::new());
        assert_eq!(parse("").unwrap().engines, []);
    }

    // ENGINE-2
    #[test]
    fn whatever_is_wrong_is_named_with_its_place() {
        let entry = |more: &str| format!("[[engine]]\nname = \"a\"\nkind = \"docker\"\n{more}\n");
        let good = entry("endpoint = \"unix:///x.sock\"");
        assert!(parse(&good).is_ok());
        for (text, place, why) in [
            (entry(""), "1:", "either an `endpoint`"),
            (entry("endpoint = \"unix:///x\"\ncontext = \"c\""), "1:", "either an `endpoint`"),
            (entry("endpoint = \"ssh://me@box\""), "4:12", "forwarding its socket"),
            (entry("endpoint = \"tcp://me:secret@box:1\""), "4:12", "without a user"),
            (entry("endpoint = \"unix://relative\""), "4:12", "unix:///PATH"),
            (entry("endpoint = \"https://h:1/?token=secret\""), "4:12", "https://HOST:PORT"),
            (entry("endpoint = \"tcp://h\\u001b[31m\""), "4:12", "tcp://HOST:PORT"),
            (entry("endpoint = \"https://h:1\""), "4:12", "needs `certificates`"),
            (entry("context = \"c\"\nid = \"a\\nb\""), "5:6", "act engines check"),
            (entry("context = \"c\"\nlabels = { Arch = \"x\" }"), "5:10", "labels are"),
            (entry("context = \"c\"\nlabels = { arch = \"a b\" }"), "5:10", "labels are"),
            (entry("context = \"c\"\nlabels = { arch = 1 }"), "5:", "invalid type"),
            (entry("endpoint = \"unix:///x\"\ncertificates = \"/c\""), "5:", "are for tcp://"),
            (entry("endpoint = \"tcp://h:1\"\ncertificates = \"c\""), "5:", "absolute path"),
            (entry("context = \"c\"\ncertificates = \"/c\""), "5:", "a context has its own"),
            (entry("context = \"c\"\nslots = 0"), "5:9", "from 1 to 64"),
            (entry("context = \"c\"\nslots = 65"), "5:9", "from 1 to 64"),
            (entry("context = \"c\"\ncolour = 1"), "5:1", "unknown field `colour`"),
            (format!("{good}{good}"), "5:", "a second engine of this name"),
            (
                "[[engine]]\nname = \"A\"\nkind = \"docker\"\ncontext = \"c\"".into(),
                "2:8",
                "`name`",
            ),
            (
                "[[engine]]\nname = \"a\"\nkind = \"slurm\"\ncontext = \"c\"".into(),
                "3:8",
                "docker, podman or kubernetes",
            ),
            (
                "[[engine]]\nname = \"a\"\nkind = \"kubernetes\"\ncontext = \"c\"".into(),
                "1:",
                "`namespace`",
            ),
            (
                "[[engine]]\nname = \"a\"\nkind = \"kubernetes\"\nnamespace = \"n\"".into(),
                "1:",
                "`loader`",
            ),
            (
                "[[engine]]\nname = \"a\"\nkind = \"kubernetes\"\nnamespace = \"n\"\nloader = \"act:1\"".into(),
                "5:10",
                "with its digest",
            ),
            (entry("context = \"c\"\nnamespace = \"n\""), "5:13", "kind kubernetes"),
            ("[[engine]]\nname = \"a\"\ncontext = \"c\"".into(), "1:", "kind"),
            ("[engine]\nname = \"a\"".into(), "1:", "invalid type"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(&format!("engines.toml:{place}")), "{text}\n{error}");
            assert!(error.contains(why), "{text}\n{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    // ENGINE-1
    #[test]
    fn a_file_that_others_could_have_written_does_not_count() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("act");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(Engines::read_in(&directory, None).unwrap(), Engines::default());
        let path = directory.join(NAME);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Engines::read_in(&directory, None).unwrap().file, Some(path.clone()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Engines::read_in(&directory, None).unwrap_err();
        assert_eq!(error.code(), "settings_untrusted");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = Engines::read_in(&directory, Some(home.path())).unwrap_err().to_string();
        assert!(error.contains("inside of the repository"), "{error}");
    }
}
