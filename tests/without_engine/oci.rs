//! Components in registries: a real one, Debian's docker-registry, which the tests start on this machine with and without TLS
//! and a password, and one that does what the real one does not.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::components::{grants, need, packed, scout, sha256_of, without_engine};
use crate::harness::{Act, Done, program};

const PASSWORD: &str = "canary-password";
/// The same with the user `me`, as `docker login` stores it.
const AUTH: &str = "bWU6Y2FuYXJ5LXBhc3N3b3Jk";
/// The same as the registry reads it, by bcrypt.
const HTPASSWD: &str = "me:$2b$05$abcdefghijklmnopqrstuuTvmw3qcMpAvEgQGhbFMhqjD3R/evDDW\n";

/// Debian's registry, as a process with its directory.
struct Registry {
    process: Child,
    place: tempfile::TempDir,
    host: String,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the program of the registry, which `scripts/docker-registry` unpacks.
fn docker_registry() -> Option<PathBuf> {
    let named = std::env::var_os("ACT_DOCKER_REGISTRY").map(PathBuf::from);
    let cache = std::env::var_os("HOME")
        .map(|home| Path::new(&home).join(".cache/act/docker-registry/usr/bin/docker-registry"));
    let found = named.into_iter().chain(cache).find(|file| file.exists());
    if found.is_none() {
        act_core::testing::skip("docker-registry is missing; scripts/docker-registry unpacks it");
    }
    found
}

fn openssl(arguments: &str, directory: &Path) {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).current_dir(directory).stderr(Stdio::null());
    assert!(command.status().unwrap().success(), "{arguments}");
}

/// Makes an authority `NAME.pem` and a certificate `NAME-leaf.pem` with its key for this machine.
fn authority(name: &str, directory: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(
        &format!(
            "req -x509 {key} -keyout {name}.key -out {name}.pem -subj /CN={name} -addext basicConstraints=critical,CA:TRUE"
        ),
        directory,
    );
    openssl(
        &format!(
            "req -x509 {key} -keyout {name}-leaf.key -out {name}-leaf.pem -subj /CN=localhost -CA {name}.pem -CAkey {name}.key -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
        ),
        directory,
    );
}

impl Registry {
    fn start(with_tls: bool, with_password: bool) -> Option<Self> {
        let program = docker_registry()?;
        let place = tempfile::Builder::new().prefix("act-test-").tempdir().unwrap();
        let root = place.path();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut config = json!({
            "version": 0.1,
            "log": {"level": "error", "accesslog": {"disabled": true}},
            "storage": {"filesystem": {"rootdirectory": root.join("data")}},
            "http": {"addr": format!("127.0.0.1:{port}")},
        });
        if with_tls {
            authority("ca", root);
            config["http"]["tls"] =
                json!({"certificate": root.join("ca-leaf.pem"), "key": root.join("ca-leaf.key")});
        }
        if with_password {
            fs::write(root.join("htpasswd"), HTPASSWD).unwrap();
            config["auth"] = json!({"htpasswd": {"realm": "x", "path": root.join("htpasswd")}});
        }
        // JSON is YAML.
        fs::write(root.join("config.yml"), config.to_string()).unwrap();
        let mut command = Command::new(program);
        command.arg("serve").arg(root.join("config.yml")).env("OTEL_TRACES_EXPORTER", "none");
        let log = || fs::File::create(root.join("log")).unwrap();
        let process = command.stdout(log()).stderr(log()).spawn().unwrap();
        let registry = Self { process, place, host: format!("localhost:{port}") };
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "the registry does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(registry)
    }

    fn reference(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.host)
    }

    /// Returns the file in which the registry stores a blob.
    fn blob(&self, sha256: &str) -> PathBuf {
        let blobs = self.place.path().join("data/docker/registry/v2/blobs/sha256");
        blobs.join(&sha256[..2]).join(sha256).join("data")
    }

    /// Lets `act` trust the authority of the registry.
    fn trusted(&self, act: Act) -> Act {
        let ca = self.place.path().join("ca.pem");
        act.config_toml(&format!("[registries.\"{}\"]\nca = \"{}\"\n", self.host, ca.display()))
    }
}

/// Logs in to a registry as Docker does.
fn logged_in(act: Act, host: &str) -> Act {
    let docker = act.repo().parent().unwrap().join("home/.docker");
    fs::create_dir_all(&docker).unwrap();
    let config = json!({"auths": {host: {"auth": AUTH}}});
    fs::write(docker.join("config.json"), config.to_string()).unwrap();
    act
}

fn act<'a>(act: &Act, words: impl IntoIterator<Item = &'a str>) -> Done {
    let words = ["components"].into_iter().chain(words).map(OsString::from);
    act.clone().act(words.collect::<Vec<_>>())
}

fn push(to: &Act, file: &Path, reference: &str) -> String {
    let told = act(to, ["push", file.to_str().unwrap(), reference, "--json"]).status(0);
    told.document("components-push")["digest"].as_str().unwrap().to_owned()
}

/// Pushes a component, pulls it, and approves it by its tag.
fn whole_way(registry: &Registry, user: &Act) {
    let path = packed(user, "x.wasm", &scout("1", &[need("repo.read")]));
    let reference = registry.reference("tools/probe:1");
    let digest = push(user, &path, &reference);
    assert_eq!(push(user, &path, &reference), digest, "the same each time");

    let told = act(user, ["pull", &reference, "--json"]).status(0);
    let pulled = told.document("components-pull");
    assert_eq!((&pulled["digest"], &pulled["file"]), (&json!(digest), &json!("probe.wasm")));
    assert_eq!(sha256_of(&user.repo().join("probe.wasm")), sha256_of(&path));
    act(user, ["pull", &reference])
        .status(1)
        .stderr_has("probe.wasm exists")
        .stderr_has("--output");
    assert!(!grants(user).exists(), "a pull approves nothing");
    let by_digest = format!("{}@{digest}", registry.reference("tools/probe"));
    act(user, ["pull", &by_digest, "--output", "second.wasm"]).status(0).stdout_has(&digest);
    assert_eq!(sha256_of(&user.repo().join("second.wasm")), sha256_of(&path));

    // Without a terminal the digest is asked for, and it has to be the right one.
    let told = act(user, ["approve", &reference, "--name", "probe"]).status(1);
    told.stderr_has(&digest).stderr_has(&sha256_of(&path)).stderr_has("repo.read: for a test");
    assert!(!grants(user).exists(), "{digest}");
    let other = format!("sha256:{}", "0".repeat(64));
    for words in [vec!["--digest", &digest], vec!["--digest", &other, "--yes"], vec!["--yes"]] {
        let told = act(user, [vec!["approve", &reference, "--name", "probe"], words].concat());
        assert_ne!(told.exit_code(), 0, "{told}");
        assert!(!grants(user).exists(), "{told}");
    }
    let words = ["approve", &reference, "--name", "probe", "--digest", &digest, "--yes", "--json"];
    let approved = act(user, words).status(0).document("components-approve");
    assert_eq!(approved["component"]["source"], json!({"reference": reference, "digest": digest}));
    assert_eq!(approved["component"]["sha256"], sha256_of(&path));
    assert!(fs::read_to_string(user.audit_log()).unwrap().contains(&format!("from {reference}")));
    act(user, ["outdated"]).status(0).stdout_has("No tag");
}

// OCI-8, OCI-10, OCI-11, OCI-12
#[test]
fn a_component_is_pushed_pulled_and_approved_by_its_tag() {
    let Some(registry) = Registry::start(false, false) else { return };
    whole_way(&registry, &without_engine());
}

// OCI-5, CONFIG-66, security line 714
#[test]
fn a_registry_behind_a_private_authority_is_used_with_and_without_a_password() {
    let Some(open) = Registry::start(true, false) else { return };
    whole_way(&open, &open.trusted(without_engine()));

    let registry = Registry::start(true, true).unwrap();
    let user = registry.trusted(without_engine());
    let path = packed(&user, "x.wasm", &scout("1", &[]));
    let reference = registry.reference("x:1");
    let words = ["push", path.to_str().unwrap(), &reference];
    let told = act(&user, words).status(1);
    told.stderr_has("there are no credentials")
        .stderr_has(&format!("docker login {}", registry.host));
    let user = logged_in(user, &registry.host);
    whole_way(&registry, &user);
    let found =
        Command::new("grep").args(["-rl", PASSWORD]).arg(user.artifacts()).output().unwrap();
    assert!(found.stdout.is_empty(), "{found:?}");

    // Another authority of the same name, and none.
    authority("other", registry.place.path());
    let other = registry.place.path().join("other.pem");
    let settings = format!("[registries.\"{}\"]\nca = \"{}\"\n", registry.host, other.display());
    let wrong = user.clone().config_toml(&settings);
    let told = act(&wrong, ["pull", &reference, "--output", "y.wasm", "--json"]).status(1);
    assert_eq!(told.json()["code"], "registry_failed", "{told}");
    assert!(told.json()["message"].as_str().unwrap().contains("certificate"), "{told}");
    let none = user.config_toml("");
    act(&none, ["pull", &reference, "--output", "y.wasm"]).status(1);
    assert!(!none.repo().join("y.wasm").exists());
}

// OCI-2, OCI-13, security line 700
#[test]
fn what_a_registry_changes_is_refused_or_shown() {
    let Some(registry) = Registry::start(false, false) else { return };
    let user = without_engine();
    let first = packed(&user, "x.wasm", &scout("1", &[need("repo.read")]));
    let reference = registry.reference("probe:1");
    let digest = push(&user, &first, &reference);
    act(&user, ["approve", &reference, "--name", "probe", "--digest", &digest, "--yes"]).status(0);
    let before = fs::read(grants(&user)).unwrap();

    // The tag moves to a component that needs more.
    let second = packed(&user, "y.wasm", &scout("2", &[need("repo.read"), need("llm")]));
    let moved = push(&user, &second, &reference);
    let told = act(&user, ["approve", &reference, "--name", "probe", "--digest", &digest, "--yes"]);
    told.status(1).stderr_has(&moved).stderr_has("nothing was changed");
    let told = act(&user, ["outdated", "--json"]).status(1);
    let document = told.document("components-outdated");
    let [one] = document["outdated"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert_eq!((&one["approved"], &one["found"]), (&json!(digest), &json!(moved)));
    assert_eq!(one["difference"]["needs_added"][0]["grant"], "llm", "{one}");
    act(&user, ["outdated"]).status(1).stdout_has("+ needs llm: for a test").stdout_has(&moved);

    // The layer of the new version is swapped on the server: other bytes of the same length, then more and fewer.
    let blob = registry.blob(&sha256_of(&second));
    let mut bytes = fs::read(&blob).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    let swapped = [bytes.clone(), [bytes.as_slice(), b"more"].concat(), bytes[..99].to_vec()];
    for bytes in swapped {
        fs::write(&blob, bytes).unwrap();
        let words =
            ["approve", &reference, "--name", "probe", "--digest", &moved, "--yes", "--json"];
        let code = act(&user, words).status(1).json()["code"].clone();
        assert!([json!("artifact_differs"), json!("artifact_too_large")].contains(&code), "{code}");
        act(&user, ["pull", &reference, "--output", "z.wasm"]).status(1);
        let unchecked = act(&user, ["outdated", "--json"]).status(4);
        assert_eq!(unchecked.document("components-outdated")["unchecked"][0]["name"], "probe");
    }
    assert!(!user.repo().join("z.wasm").exists());
    assert_eq!(fs::read(grants(&user)).unwrap(), before, "nothing was approved");
    // A name that the registry does not have.
    let missing = act(&user, ["pull", &registry.reference("nothing:1"), "--json"]).status(1);
    assert_eq!(missing.json()["code"], "artifact_missing");
}

/// What the hostile registry answers.
enum Answer {
    /// Status 200 with a content type and a body.
    Body(&'static str, Vec<u8>),
    /// The status line and the headers, without `content-length`, and no body.
    Head(String),
    /// The beginning of an answer, after which nothing comes.
    Stall(String),
}

impl From<(&'static str, Vec<u8>)> for Answer {
    fn from((kind, body): (&'static str, Vec<u8>)) -> Self {
        Self::Body(kind, body)
    }
}

/// A registry that answers as `answer` says, with the requests that it got.
struct Hostile {
    host: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Hostile {
    /// `answer` gets the number of earlier requests for a manifest, and the request.
    fn start<A: Into<Answer>>(answer: impl Fn(usize, &str) -> A + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let requests = Arc::clone(&seen);
        std::thread::spawn(move || {
            // Connections that stall stay open.
            let mut stalled = vec![];
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (mut request, mut byte) = (vec![], [0]);
                while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                    request.push(byte[0]);
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                let earlier = {
                    let seen = requests.lock().unwrap();
                    seen.iter().filter(|one| one.contains("/manifests/")).count()
                };
                requests.lock().unwrap().push(request.clone());
                let (head, body) = match answer(earlier, &request).into() {
                    Answer::Body(kind, body) => {
                        let length = body.len();
                        let head = format!(
                            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}"
                        );
                        (head, body)
                    }
                    Answer::Head(head) => (format!("HTTP/1.1 {head}\r\ncontent-length: 0"), vec![]),
                    Answer::Stall(beginning) => {
                        let _ = stream.write_all(beginning.as_bytes());
                        stalled.push(stream);
                        continue;
                    }
                };
                let head = format!("{head}\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(&[head.as_bytes(), &body].concat());
            }
        });
        Self { host, seen }
    }

    fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Returns a manifest of these bytes; `note` makes it another one.
fn manifest(bytes: &[u8], note: &str) -> Vec<u8> {
    let digest = format!("sha256:{}", act_workspace::digest(bytes));
    let layer = json!({"mediaType": "application/wasm", "digest": digest, "size": bytes.len()});
    json!({"schemaVersion": 2, "layers": [layer], "note": note}).to_string().into_bytes()
}

// OCI-11, security line 709
#[test]
fn a_tag_that_moves_between_question_and_answer_is_refused() {
    const QUESTION: &str = "Type `yes` to approve exactly these bytes:";
    let user = without_engine();
    let path = packed(&user, "x.wasm", &scout("1", &[need("repo.read")]));
    let bytes = fs::read(&path).unwrap();
    let component = bytes.clone();
    // The second time that the tag is looked up, it has another manifest; from the third on it rests.
    let hostile = Hostile::start(move |earlier, request| match request.contains("/manifests/") {
        true => (MANIFEST, manifest(&component, if earlier == 0 { "first" } else { "moved" })),
        false => ("application/octet-stream", component.clone()),
    });
    let reference = format!("oci://{}/x:1", hostile.host);
    let approve = || {
        let mut script = Command::new("script");
        let command = format!("{} components approve {reference} --name probe", program());
        script.args(["-qec", &command, "/dev/null"]);
        user.clone().answer(QUESTION, "yes\n").env("NO_COLOR", "1").start_command(script).wait()
    };
    let told = approve().status(1);
    let first = act_workspace::digest(&manifest(&bytes, "first"));
    let text = told.stdout_text();
    let (shown, after) = text.split_once(QUESTION).unwrap_or_else(|| panic!("{told}"));
    assert!(shown.contains(&reference) && shown.contains(&first), "{told}");
    assert!(after.contains(&act_workspace::digest(&manifest(&bytes, "moved"))), "{told}");
    assert!(!grants(&user).exists(), "{told}");
    approve().status(0);
    assert!(fs::read_to_string(grants(&user)).unwrap().contains(&reference));
}

// OCI-10, security line 712
#[test]
fn what_a_registry_holds_is_read_with_limits_before_it_is_shown() {
    let user = without_engine();
    // Types that nest thousands deep are refused by the reading process; the others are no components.
    let nested = {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        for _ in 0..3000 {
            bytes = [b"\0asm\x0d\0\x01\0".as_slice(), &section(4, &bytes)].concat();
        }
        bytes
    };
    for (bytes, code) in [
        (b"\x1b]0;hostile\x07text of a registry".to_vec(), "not_a_component"),
        (b"\0asm\x01\0\0\0".to_vec(), "not_a_component"),
        (nested, "component_over_limit"),
    ] {
        let component = bytes.clone();
        let hostile = Hostile::start(move |_, request| match request.contains("/manifests/") {
            true => (MANIFEST, manifest(&component, "")),
            false => ("application/octet-stream", component.clone()),
        });
        let reference = format!("oci://{}/x:1", hostile.host);
        for words in [
            vec!["approve", &reference, "--name", "probe", "--json"],
            vec!["pull", &reference, "--output", "out.wasm", "--json"],
        ] {
            let told = act(&user, words).status(1);
            assert_eq!(told.json()["code"], code, "{told}");
            assert!(!told.stdout_text().contains("hostile"), "{told}");
        }
        assert!(!user.repo().join("out.wasm").exists() && !grants(&user).exists());
    }
}

// OCI-5, OCI-6, security lines 705 and 706
#[test]
fn a_redirect_takes_no_credential_along_and_leads_into_no_private_network() {
    let user = without_engine();
    let path = packed(&user, "x.wasm", &scout("1", &[need("repo.read")]));
    let bytes = fs::read(&path).unwrap();
    let stored = bytes.clone();
    // Where the registry keeps its layers. It asks for credentials, in vain.
    let store = Hostile::start(move |_, request| match request.contains("/asks") {
        true => Answer::Head("401 Unauthorized\r\nwww-authenticate: Basic realm=\"x\"".to_owned()),
        false => Answer::Body("application/octet-stream", stored.clone()),
    });
    let start = |to: String| {
        let component = bytes.clone();
        Hostile::start(move |_, request| {
            let with_credentials = request.contains(AUTH);
            match () {
                () if !with_credentials => Answer::Head(
                    "401 Unauthorized\r\nwww-authenticate: Basic realm=\"x\"".to_owned(),
                ),
                () if request.contains("/manifests/") => {
                    Answer::Body(MANIFEST, manifest(&component, ""))
                }
                () => Answer::Head(format!("307 Temporary Redirect\r\nlocation: {to}")),
            }
        })
    };
    let pull = |registry: &Hostile| {
        let user = logged_in(user.clone(), &registry.host);
        let reference = format!("oci://{}/x:1", registry.host);
        act(&user, ["pull", &reference, "--output", "out.wasm", "--json"])
    };
    for to in [
        "http://10.1.2.3/blob",
        "http://169.254.169.254/latest",
        "https://192.168.1.1/blob",
        "http://[fd00::1]/blob",
        "https://2852039166/latest",
    ] {
        let told = pull(&start(to.to_owned())).status(1);
        assert_eq!(told.json()["code"], "redirect_refused", "{to}: {told}");
    }
    let told = pull(&start(format!("http://{}/asks", store.host))).status(1);
    assert_eq!(told.json()["code"], "registry_denied", "{told}");
    assert!(!user.repo().join("out.wasm").exists());
    pull(&start(format!("http://{}/blob", store.host))).status(0);
    assert_eq!(sha256_of(&user.repo().join("out.wasm")), sha256_of(&path));
    let seen = store.seen.lock().unwrap();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(
        seen.iter().all(|request| !request.to_lowercase().contains("authorization")),
        "{seen:?}"
    );
}

// OCI-4, security lines 700 and 703
#[test]
fn a_registry_that_fails_lies_or_stalls_gets_nothing_approved() {
    let user = without_engine();
    let path = packed(&user, "x.wasm", &scout("1", &[need("repo.read")]));
    let bytes = fs::read(&path).unwrap();
    let with_size = |size: usize| {
        let mut lie: Value = serde_json::from_slice(&manifest(&bytes, "")).unwrap();
        lie["layers"][0]["size"] = json!(size);
        lie.to_string().into_bytes()
    };
    let digest_of_another = manifest(&[bytes.as_slice(), b"x"].concat(), "");
    let mut lies = vec![with_size(bytes.len() + 1), with_size(bytes.len() - 1), with_size(1 << 40)];
    lies.push(digest_of_another);
    let digest_of = |bytes: &[u8]| format!("sha256:{}", act_workspace::digest(bytes));
    let registry = |document: Vec<u8>, blob: fn(&[u8]) -> Answer| {
        let (component, digest) = (bytes.clone(), digest_of(&document));
        let registry = Hostile::start(move |_, request| match request.contains("/manifests/") {
            true => Answer::Body(MANIFEST, document.clone()),
            false => blob(&component),
        });
        (registry, digest)
    };
    let whole: fn(&[u8]) -> Answer =
        |bytes| Answer::Body("application/octet-stream", bytes.to_vec());
    let lies = lies.into_iter().map(|lie| registry(lie, whole));
    let mut cases: Vec<_> =
        lies.map(|lie| (lie, vec!["artifact_differs", "artifact_too_large"])).collect();
    let honest = || manifest(&bytes, "");
    let failed = || Answer::Head("500 Internal Server Error".to_owned());
    cases.push((
        registry(honest(), |_| Answer::Head("500 Internal Server Error".to_owned())),
        vec!["registry_failed"],
    ));
    cases.push(((Hostile::start(move |_, _| failed()), digest_of(b"")), vec!["registry_failed"]));
    // Half of an answer, and then silence.
    let half = |bytes: &[u8]| {
        let length = bytes.len();
        Answer::Stall(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n\0asm"))
    };
    cases.push((registry(honest(), half), vec!["registry_stalled"]));
    let silent = Hostile::start(|_, _| Answer::Stall(String::new()));
    cases.push(((silent, digest_of(b"")), vec!["registry_stalled"]));
    // At the same time, because a server that stalls is left after half a minute.
    std::thread::scope(|scope| {
        for (number, ((registry, digest), codes)) in cases.iter().enumerate() {
            let user = &user;
            scope.spawn(move || {
                let reference = format!("oci://{}/x:1", registry.host);
                let words = ["approve", &reference, "--name", "probe", "--digest", digest];
                let told = act(user, words.into_iter().chain(["--yes", "--json"])).status(1);
                let code = told.json()["code"].as_str().unwrap().to_owned();
                assert!(codes.contains(&code.as_str()), "{number}: {told}");
            });
        }
    });
    assert!(!grants(&user).exists());
}

/// Returns a section of a component.
fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let (mut bytes, mut length) = (vec![id], content.len());
    loop {
        let low = (length & 0x7f) as u8;
        length >>= 7;
        bytes.push(if length == 0 { low } else { low | 0x80 });
        if length == 0 {
            return [bytes.as_slice(), content].concat();
        }
    }
}

// OCI-7, security line 711
#[test]
fn a_clone_that_names_a_registry_starts_no_request() {
    let user = without_engine();
    let path = packed(&user, "x.wasm", &scout("1", &[need("repo.read")]));
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let sha256 = act_workspace::digest(&bytes);
    let component = bytes.clone();
    let hostile = Hostile::start(move |_, request| match request.contains("/manifests/") {
        true => (MANIFEST, manifest(&component, "")),
        false => ("application/octet-stream", component.clone()),
    });
    let reference = format!("oci://{}/x:1", hostile.host);
    let request = json!({"name": "probe", "path": reference, "sha256": sha256, "kind": "scout"});
    let yaml = json!({
        "verification": {"container_image": "busybox:stable", "steps": [{"name": "test", "command": "true"}]},
        "components": [request],
    });
    let user = user.file("agent.yaml", yaml.to_string()).script("turns: []");
    let told = user.clone().act(["run", "x", "--json"]).status(1);
    let refusal = told.json();
    assert_eq!(refusal["code"], "component_unapproved", "{told}");
    let hint = refusal["hint"].as_str().unwrap();
    let command = format!("act components approve '{reference}' --name probe --sha256 {sha256}");
    assert!(hint.contains(&command), "{hint}");
    for words in [vec![], vec!["list"], vec!["outdated"]] {
        act(&user, words).status(0);
    }
    user.clone().act(["verify"]).status(4);
    user.clone().act(["doctor"]);
    user.clone().act(["scout", "probe", "x"]).status(1);
    assert_eq!(hostile.requests(), 0);
    // The person who types the command fetches it.
    let command = command.replace('\'', "");
    let words = command.strip_prefix("act ").unwrap().split(' ');
    user.clone().act(words).status(0);
    assert!(hostile.requests() > 0);
    user.act(["run", "x"]).status(1).stderr_has("Docker unavailable");
}

/// Shows that nothing of a password reaches a person, by its word in each stream.
#[test]
fn a_password_is_printed_nowhere() {
    let user = without_engine();
    let user = logged_in(user, "127.0.0.1:1");
    for words in [vec!["pull", "oci://127.0.0.1:1/x:1"], vec!["outdated", "--json"]] {
        let told = act(&user, words);
        let all = format!("{}{}", told.stdout_text(), told.stderr_text());
        assert!(!all.contains(PASSWORD) && !all.contains(AUTH), "{all}");
    }
    let docker = user.repo().parent().unwrap().join("home/.docker/config.json");
    fs::write(&docker, format!("{{\"auths\": \"{AUTH}\"}}")).unwrap();
    let told = act(&user, ["pull", "oci://127.0.0.1:1/x:1"]).status(1);
    told.stderr_has("is not as Docker writes it").stderr_lacks(AUTH);
    let value: Value = act(&user, ["outdated", "--json"]).status(0).json();
    assert_eq!(value["outdated"], json!([]));
}

/// Sends one request to the registry, and returns its status and its header `location`.
fn http(host: &str, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = vec![];
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
    (status, location.unwrap_or_default().to_owned())
}

impl Registry {
    /// Stores a blob of the repository `x`, and returns its descriptor with this type.
    fn put_blob(&self, kind: &str, bytes: &[u8]) -> Value {
        let digest = format!("sha256:{}", act_workspace::digest(bytes));
        let (status, location) =
            http(&self.host, "POST", "/v2/x/blobs/uploads/", "text/plain", b"");
        assert_eq!(status, 202);
        let path = location.split_once(&self.host).unwrap().1;
        let path = format!("{path}&digest={digest}");
        let put = http(&self.host, "PUT", &path, "application/octet-stream", bytes);
        assert_eq!(put.0, 201, "{path}");
        json!({"mediaType": kind, "digest": digest, "size": bytes.len()})
    }

    /// Stores a document of the repository `x` under a name, and returns its descriptor.
    fn put_document(&self, name: &str, document: &Value) -> Value {
        let kind = document["mediaType"].as_str().unwrap();
        let bytes = document.to_string().into_bytes();
        let put = http(&self.host, "PUT", &format!("/v2/x/manifests/{name}"), kind, &bytes);
        assert_eq!(put.0, 201, "{document}");
        let digest = format!("sha256:{}", act_workspace::digest(&bytes));
        json!({"mediaType": kind, "digest": digest, "size": bytes.len()})
    }
}

/// A key pair in a directory, made as a person makes one.
struct Signer(PathBuf);

impl Signer {
    fn new(directory: &Path, name: &str) -> Self {
        let key = directory.join(name);
        openssl(&format!("ecparam -name prime256v1 -genkey -noout -out {name}"), directory);
        openssl(&format!("ec -in {name} -pubout -out {name}.pem"), directory);
        Self(key)
    }

    fn public(&self) -> String {
        format!("{}.pem", self.0.display())
    }

    /// Returns the signature of a message in Base64.
    fn sign(&self, message: &[u8]) -> String {
        let mut openssl = Command::new("sh");
        let script = format!("openssl dgst -sha256 -sign '{}' | base64 -w0", self.0.display());
        let mut openssl = openssl
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        openssl.stdin.take().unwrap().write_all(message).unwrap();
        String::from_utf8(openssl.wait_with_output().unwrap().stdout).unwrap()
    }

    /// Signs `signed` as cosign does by simple signing, at the tag of `digest`.
    fn simply(&self, registry: &Registry, digest: &str, signed: &str) {
        let payload = json!({"critical": {"identity": {"docker-reference": ""},
            "image": {"docker-manifest-digest": signed}, "type": "cosign container image signature"},
            "optional": null})
        .to_string();
        let mut layer = registry
            .put_blob("application/vnd.dev.cosign.simplesigning.v1+json", payload.as_bytes());
        let signature = self.sign(payload.as_bytes());
        layer["annotations"] = json!({"dev.cosignproject.cosign/signature": signature});
        let config = registry.put_blob("application/vnd.oci.image.config.v1+json", b"{}");
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        registry.put_document(&format!("{}.sig", digest.replace(':', "-")), &manifest);
    }

    /// Returns the bundle with which cosign signs `signed`.
    fn bundle(&self, signed: &str) -> Value {
        const STATEMENT: &str = "application/vnd.in-toto+json";
        let statement = json!({"_type": "https://in-toto.io/Statement/v1",
            "subject": [{"digest": {"sha256": signed.strip_prefix("sha256:").unwrap()}}],
            "predicateType": "https://sigstore.dev/cosign/sign/v1", "predicate": {}})
        .to_string();
        let message =
            format!("DSSEv1 {} {STATEMENT} {} {statement}", STATEMENT.len(), statement.len());
        let mut base64 = Command::new("base64");
        let mut base64 =
            base64.arg("-w0").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        base64.stdin.take().unwrap().write_all(statement.as_bytes()).unwrap();
        let payload = String::from_utf8(base64.wait_with_output().unwrap().stdout).unwrap();
        json!({"mediaType": BUNDLE, "dsseEnvelope": {"payload": payload,
            "payloadType": STATEMENT, "signatures": [{"sig": self.sign(message.as_bytes())}]}})
    }

    /// Signs `signed` as cosign does by a bundle that refers to `digest`, for a registry without the API of referrers.
    fn by_bundle(&self, registry: &Registry, digest: &str, signed: &str) {
        let layer = registry.put_blob(BUNDLE, self.bundle(signed).to_string().as_bytes());
        let config = registry.put_blob("application/vnd.oci.empty.v1+json", b"{}");
        let manifest = with_bundle(layer, config);
        let digest_of =
            format!("sha256:{}", act_workspace::digest(manifest.to_string().as_bytes()));
        let referrer = registry.put_document(&digest_of, &manifest);
        registry.put_document(&digest.replace(':', "-"), &index_of(referrer));
    }
}

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// Returns the manifest of a bundle whose blob is described by `layer`.
fn with_bundle(layer: Value, config: Value) -> Value {
    json!({"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE, "config": config,
        "layers": [layer]})
}

/// Returns an index of what refers to an artifact: this bundle alone.
fn index_of(mut referrer: Value) -> Value {
    referrer["artifactType"] = json!(BUNDLE);
    json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [referrer]})
}

// OCI-20, OCI-21
#[test]
fn a_bundle_is_found_by_the_api_of_referrers() {
    let user = without_engine();
    let keys = user.repo().parent().unwrap().join("keys");
    fs::create_dir(&keys).unwrap();
    let (signer, other) = (Signer::new(&keys, "signer"), Signer::new(&keys, "other"));
    let path = packed(&user, "x.wasm", &scout("1", &[need("repo.read")]));
    let bytes = fs::read(&path).unwrap();
    let component = manifest(&bytes, "");
    let digest_of = |bytes: &[u8]| format!("sha256:{}", act_workspace::digest(bytes));
    let digest = digest_of(&component);
    let bundle = signer.bundle(&digest).to_string().into_bytes();
    let described = |kind: &str, bytes: &[u8]| json!({"mediaType": kind, "digest": digest_of(bytes), "size": bytes.len()});
    let empty = described("application/vnd.oci.empty.v1+json", b"{}");
    let signature = with_bundle(described(BUNDLE, &bundle), empty).to_string().into_bytes();
    let index = index_of(described(MANIFEST, &signature)).to_string().into_bytes();
    let places = [
        (format!("/referrers/{digest}"), "application/vnd.oci.image.index.v1+json", index),
        (format!("/manifests/{}", digest_of(&signature)), MANIFEST, signature),
        (format!("/blobs/{}", digest_of(&bundle)), "application/octet-stream", bundle),
        (format!("/blobs/{}", digest_of(&bytes)), "application/octet-stream", bytes),
        ("/manifests/1".to_owned(), MANIFEST, component.clone()),
        (format!("/manifests/{digest}"), MANIFEST, component),
    ];
    let registry = Hostile::start(move |_, request| {
        let line = request.lines().next().unwrap_or_default();
        let found = places.iter().find(|(path, _, _)| line.contains(&format!("{path} ")));
        match found {
            Some((_, kind, body)) => Answer::Body(kind, body.clone()),
            None => Answer::Head("404 Not Found".to_owned()),
        }
    });
    let reference = format!("oci://{}/x:1", registry.host);
    let approve = |key: &str| {
        let words = ["approve", &reference, "--name", "probe", "--digest", &digest, "--yes"];
        act(&user, words.into_iter().chain(["--key", key]))
    };
    approve(&other.public()).status(1).stderr_has("of 1 signatures none is one");
    assert!(!grants(&user).exists());
    let shown = format!("valid, with the key {}", signer.public());
    approve(&signer.public()).status(0).stderr_has(&shown);
}

// OCI-20, OCI-21, OCI-22, security lines 715 and 716
#[test]
fn a_required_signature_is_one_of_the_named_key_for_this_digest() {
    let Some(registry) = Registry::start(false, false) else { return };
    let user = without_engine();
    let keys = registry.place.path();
    let (signer, other) = (Signer::new(keys, "signer"), Signer::new(keys, "other"));
    let policy = keys.join("policy.toml");
    fs::write(&policy, "require_signature = [\"other.pem\", \"signer.pem\"]\n").unwrap();
    let bound = user.clone().env("ACT_POLICY_FILE", &policy);
    // Each version has its own name, so that no signature is found by accident.
    let version = |number: &str| {
        let path = packed(&user, &format!("{number}.wasm"), &scout(number, &[need("repo.read")]));
        let reference = registry.reference(&format!("x:{number}"));
        let digest = push(&user, &path, &reference);
        (reference, digest)
    };
    let approve = |user: &Act, (reference, digest): &(String, String), more: &[&str]| {
        let words = ["approve", reference, "--name", "probe", "--digest", digest, "--yes"];
        act(user, words.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let key = signer.public();

    let unsigned = version("1");
    approve(&user, &unsigned, &["--key", &key]).status(1).stderr_has("has no signature of a key");
    let told = approve(&bound, &unsigned, &["--json"]).status(1);
    assert_eq!(told.json()["code"], "signature_required");
    let file = packed(&user, "file.wasm", &scout("1", &[]));
    let sha256 = sha256_of(&file);
    let words = ["approve", file.to_str().unwrap(), "--name", "probe", "--sha256", &sha256];
    act(&bound, words).status(1).stderr_has("a file has none");
    assert!(!grants(&user).exists());

    // A signature of a stranger, and one for another digest, in both forms.
    for (number, by_bundle) in [("2", false), ("3", true)] {
        let sign = if by_bundle { Signer::by_bundle } else { Signer::simply };
        let one = version(number);
        sign(&Signer::new(keys, "stranger"), &registry, &one.1, &one.1);
        approve(&bound, &one, &[]).status(1).stderr_has("of 1 signatures none is one");
        sign(&signer, &registry, &one.1, &unsigned.1);
        approve(&bound, &one, &[]).status(1).stderr_has("of 1 signatures none is one");
        approve(&user, &one, &["--key", &key]).status(1);
        assert!(!grants(&user).exists());
        // Without a policy it is told.
        let told = act(&user, ["approve", &one.0, "--name", "probe"]).status(1);
        told.stderr_has("1 found, none of a key");
        sign(&signer, &registry, &one.1, &one.1);
        approve(&user, &one, &["--key", &other.public()]).status(1);
        let told = approve(&bound, &one, &["--key", &key]).status(0);
        told.stderr_has("valid, with the key signer.pem");
        let told = approve(&bound, &one, &["--json"]).status(0).document("components-approve");
        assert!(told["component"]["source"]["signed_by"].is_string(), "{told}");
        fs::remove_file(grants(&user)).unwrap();
    }

    // What was approved without a signature is not loaded under the policy.
    let told = approve(&user, &unsigned, &[]).status(0);
    told.stderr_has("unsigned");
    user.script("turns: []").act(["scout", "probe", "batch-list"]).status(0);
    let told = bound.script("turns: []").act(["scout", "probe", "batch-list", "--json"]).status(1);
    assert_eq!(told.json()["code"], "signature_required", "{told}");
}
