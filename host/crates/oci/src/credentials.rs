//! The credentials that `docker login` stored: `config.json` of Docker, and the helpers that it names.
//!
//! A helper is a program that runs outside of every sandbox. Its name in the file is a part of the name of the program, and the
//! program is found by `PATH` outside of the repository, as other commands of the user are.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use act_core::secret::Secret;
use act_core::user_command::UserCommand;
use act_fs::Dir;

use crate::error::RegistryError;

const NAME: &str = "config.json";
/// Maximum number of bytes of the file, in which each registry has some hundred.
const MAX_FILE: u64 = 1 << 20;
/// Maximum time of a helper. It may ask a person to unlock a store.
const LONGEST: Duration = Duration::from_secs(60);
/// Docker's registry, and the name of its credentials.
const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";
/// The user name by which a helper says that it has a token for another protocol.
const TOKEN_USER: &str = "<token>";

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    user: String,
    password: Secret,
}

impl Credential {
    fn new(user: &str, password: &str) -> Self {
        Self { user: user.to_owned(), password: Secret::learned(password) }
    }

    /// Returns the value of the header `Authorization`.
    pub(crate) fn basic(&self) -> Secret {
        let both = STANDARD.encode(format!("{}:{}", self.user, self.password.expose()));
        Secret::learned(format!("Basic {both}"))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// Docker's file of credentials.
#[derive(Clone)]
pub struct DockerConfig {
    file: File,
    repo: Option<PathBuf>,
    /// `PATH`, by which helpers are found.
    path: Option<OsString>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    auths: BTreeMap<String, Auth>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Auth {
    auth: String,
    identitytoken: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Helped {
    username: String,
    secret: String,
}

impl DockerConfig {
    /// Reads the file in `$DOCKER_CONFIG`, else in `~/.docker`. `None` without a file. `repo` is the repository in use, in which
    /// neither the file nor a helper may lie.
    ///
    /// # Errors
    ///
    /// A message: the file lies in the repository, cannot be read, or is not as Docker writes it. It quotes nothing of the file.
    pub fn read(repo: Option<&Path>) -> Result<Option<Self>, String> {
        let set =
            |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let place = set("DOCKER_CONFIG").or_else(|| Some(set("HOME")?.join(".docker")));
        place.map_or(Ok(None), |place| Self::read_in(&place, repo))
    }

    fn read_in(place: &Path, repo: Option<&Path>) -> Result<Option<Self>, String> {
        let path = place.join(NAME);
        let wrong = |why: &dyn fmt::Display| format!("{}: {why}", path.display());
        // A person may have linked the file from elsewhere.
        let Ok(real) = path.canonicalize() else { return Ok(None) };
        let repo = repo.map(|repo| repo.canonicalize().unwrap_or_else(|_| repo.to_owned()));
        if repo.as_ref().is_some_and(|repo| real.starts_with(repo)) {
            return Err(wrong(&"it lies in the repository, which must not choose credentials"));
        }
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else { return Ok(None) };
        let bytes = Dir::open_following(parent).and_then(|dir| dir.read(name, MAX_FILE));
        let bytes = bytes.map_err(|error| wrong(&error))?;
        // The message of the parser could quote a password.
        let file = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(&format!("line {} is not as Docker writes it", error.line())))?;
        Ok(Some(Self { file, repo, path: std::env::var_os("PATH") }))
    }

    /// Returns the configuration in this text.
    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        Self { file: serde_json::from_str(text).unwrap(), repo: None, path: None }
    }

    /// Returns the credential for a registry, from a helper if the file names one. It may block while the helper runs.
    pub(crate) fn credential(&self, host: &str) -> Result<Option<Credential>, RegistryError> {
        let wrong = |why: String| RegistryError::Credentials { host: host.to_owned(), why };
        let helper = self.file.cred_helpers.iter().find(|(key, _)| names(key, host));
        if let Some(helper) = helper.map(|(_, helper)| helper).or(self.file.creds_store.as_ref()) {
            return self.ask(helper, host).map_err(wrong);
        }
        let Some((_, auth)) = self.file.auths.iter().find(|(key, _)| names(key, host)) else {
            return Ok(None);
        };
        if !auth.identitytoken.is_empty() {
            return Err(wrong(NO_TOKEN.to_owned()));
        }
        if auth.auth.is_empty() {
            return Ok(None);
        }
        let decoded =
            STANDARD.decode(&auth.auth).ok().and_then(|both| String::from_utf8(both).ok());
        let both = decoded.as_deref().and_then(|both| both.split_once(':'));
        let (user, password) =
            both.ok_or_else(|| wrong("`auth` is no user and password".to_owned()))?;
        Ok(Some(Credential::new(user, password)))
    }

    /// Asks a helper for the credential of a registry.
    fn ask(&self, helper: &str, host: &str) -> Result<Option<Credential>, String> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if helper.is_empty() || !helper.chars().all(fits) {
            return Err("the name of a helper is made of letters a-z, digits and `-`".to_owned());
        }
        let program = format!("docker-credential-{helper}");
        let failed = |why: &dyn fmt::Display| format!("{program} {why}");
        let command = UserCommand::new(vec![program.clone(), "get".to_owned()]);
        let command = command.ok_or_else(|| failed(&"is no program"))?;
        let command = command
            .found_outside_of(self.repo.as_deref(), self.path.as_deref())
            .map_err(|unfit| failed(&unfit))?;
        let key = if host == DOCKER_HUB { DOCKER_HUB_KEY } else { host };
        let (status, printed) = command
            .output(key.as_bytes().to_vec(), LONGEST, &AtomicBool::new(false))
            .map_err(|error| failed(&error))?;
        if !status.success() {
            // The one sentence by which every helper says that it has none.
            let none = String::from_utf8_lossy(&printed).contains("credentials not found");
            return if none { Ok(None) } else { Err(failed(&format!("failed ({status})"))) };
        }
        let helped: Helped =
            serde_json::from_slice(&printed).map_err(|_| failed(&"printed no credential"))?;
        match helped.username.as_str() {
            TOKEN_USER => Err(NO_TOKEN.to_owned()),
            user => Ok(Some(Credential::new(user, &helped.secret))),
        }
    }
}

const NO_TOKEN: &str =
    "they are an identity token, which act does not use; log in with a password or an access token";

/// Returns whether a key of the file means the registry. Docker writes a host, and an address for its own registry.
fn names(key: &str, host: &str) -> bool {
    let bare = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let bare = bare.split('/').next().unwrap_or_default();
    bare == host || (host == DOCKER_HUB && key == DOCKER_HUB_KEY)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn config(text: &str) -> DockerConfig {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join(NAME), text).unwrap();
        DockerConfig::read_in(temp.path(), None).unwrap().unwrap()
    }

    fn credential(text: &str, host: &str) -> Result<Option<String>, String> {
        let found = config(text).credential(host).map_err(|error| error.to_string())?;
        Ok(found.map(|one| format!("{}:{}", one.user, one.password.expose())))
    }

    // OCI-5
    #[test]
    fn a_password_is_for_the_registry_that_it_is_stored_for() {
        let auth = STANDARD.encode("me:pass:word");
        let text = format!(
            r#"{{"auths": {{"one.example:5000": {{"auth": "{auth}"}}, "https://two.example/v2/": {{"auth": "{auth}"}},
                "https://index.docker.io/v1/": {{"auth": "{auth}"}}, "empty.example": {{}}}}, "other": 1}}"#
        );
        let found = Ok(Some("me:pass:word".to_owned()));
        for host in ["one.example:5000", "two.example", "docker.io"] {
            assert_eq!(credential(&text, host), found, "{host}");
        }
        for host in ["one.example", "ne.example:5000", "empty.example", "index.docker.io.example"] {
            assert_eq!(credential(&text, host), Ok(None), "{host}");
        }
    }

    // OCI-5
    #[test]
    fn what_docker_would_not_write_is_refused_and_not_quoted() {
        let temp = tempfile::tempdir().unwrap();
        assert!(DockerConfig::read_in(temp.path(), None).unwrap().is_none());
        fs::write(temp.path().join(NAME), r#"{"auths": "hunter2-secret"}"#).unwrap();
        let why = DockerConfig::read_in(temp.path(), None).err().unwrap();
        assert!(why.contains("line 1") && !why.contains("hunter2"), "{why}");
        let inside = DockerConfig::read_in(temp.path(), Some(temp.path())).err().unwrap();
        assert!(inside.contains("in the repository"), "{inside}");
        for auth in ["bm9jb2xvbg==", "%%%", "//79"] {
            let text = format!(r#"{{"auths": {{"a.example": {{"auth": "{auth}"}}}}}}"#);
            let why = credential(&text, "a.example").unwrap_err();
            assert!(why.contains("no user and password") && !why.contains(auth), "{why}");
        }
        let token = r#"{"auths": {"a.example": {"identitytoken": "secret-token"}}}"#;
        let why = credential(token, "a.example").unwrap_err();
        assert!(why.contains("identity token") && !why.contains("secret-token"), "{why}");
        for helper in ["../evil", "a/b", "Evil", "a b", ""] {
            let text = format!(r#"{{"credsStore": "{helper}"}}"#);
            let why = credential(&text, "a.example").unwrap_err();
            assert!(why.contains("the name of a helper"), "{helper}: {why}");
        }
    }

    // OCI-5, security line 704
    #[test]
    fn a_helper_of_the_repository_never_runs() {
        let temp = tempfile::tempdir().unwrap();
        let (repo, bin) = (temp.path().join("repo"), temp.path().join("bin"));
        let ran = temp.path().join("ran");
        for directory in [&repo, &bin] {
            fs::create_dir(directory).unwrap();
            let helper = directory.join("docker-credential-test-one");
            let script = "#!/bin/sh\nread host; echo \"$1 $host\" >>RAN\necho '{\"Username\":\"u\",\"Secret\":\"of-a-helper\"}'\n";
            fs::write(&helper, script.replace("RAN", ran.to_str().unwrap())).unwrap();
            fs::set_permissions(helper, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let ask = |first: &Path, file: &str| {
            let path = std::env::join_paths([first, Path::new("/usr/bin"), Path::new("/bin")]);
            let file = serde_json::from_str(file).unwrap();
            let config = DockerConfig { file, repo: Some(repo.clone()), path: path.ok() };
            config.credential("a.example").map_err(|error| error.to_string())
        };
        for file in
            [r#"{"credsStore": "test-one"}"#, r#"{"credHelpers": {"a.example": "test-one"}}"#]
        {
            let why = ask(&repo, file).unwrap_err();
            assert!(why.contains("a file of the repository") && !ran.exists(), "{why}");
        }
        for file in
            [r#"{"credsStore": "test-one"}"#, r#"{"credHelpers": {"a.example": "test-one"}}"#]
        {
            let credential = ask(&bin, file).unwrap().unwrap();
            assert_eq!(
                (credential.user.as_str(), credential.password.expose()),
                ("u", "of-a-helper")
            );
        }
        let other = r#"{"credHelpers": {"b.example": "test-one"}}"#;
        assert_eq!(ask(&bin, other), Ok(None));
        assert_eq!(fs::read_to_string(&ran).unwrap(), "get a.example\nget a.example\n");
        let missing = ask(&bin, r#"{"credsStore": "not-installed"}"#).unwrap_err();
        assert!(missing.contains("docker-credential-not-installed"), "{missing}");
    }

    // OCI-5
    #[test]
    fn a_helper_that_has_none_is_no_failure_and_what_it_prints_is_not_quoted() {
        let temp = tempfile::tempdir().unwrap();
        let ask = |script: &str| {
            let helper = temp.path().join("docker-credential-x");
            fs::write(&helper, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
            let file = File { creds_store: Some("x".to_owned()), ..File::default() };
            let path = Some(temp.path().as_os_str().to_owned());
            let config = DockerConfig { file, repo: None, path };
            config.credential("a.example").map_err(|error| error.to_string())
        };
        let none = "echo credentials not found in native keychain; exit 1";
        assert_eq!(ask(none), Ok(None));
        for script in
            ["echo secret-1234; exit 1", "echo secret-1234", "echo '{\"Secret\":\"secret-1234\"}'"]
        {
            let why = ask(script).unwrap_err();
            assert!(why.contains("docker-credential-x") && !why.contains("secret-1234"), "{why}");
        }
        let token = ask(r#"echo '{"Username":"<token>","Secret":"secret-1234"}'"#).unwrap_err();
        assert!(token.contains("identity token") && !token.contains("secret-1234"), "{token}");
    }
}
