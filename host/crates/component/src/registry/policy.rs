//! `/etc/act/policy.toml`: upper limits that the administrator sets for all users of this machine. A policy only takes
//! away and never grants.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use act_config::{ConfigCeiling, VerifierTable};
use act_core::Usd;
use act_core::public_key::PublicKey;
use act_fs::trusted::{Owner, open_directory, read_text};
use act_workspace::digest;
use serde::Deserialize;
use toml::Spanned;

use super::trusted::{self, FileError};
use crate::{Capability, Ceiling, Grant};

const PATH: &str = "/etc/act/policy.toml";
const MAX_BYTES: u64 = 1 << 20;
/// Maximum number of bytes of a file with a public key, which has some hundred.
const MAX_KEY: u64 = 64 << 10;

/// The policy in force, for built-in components too. Without a file it limits nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub ceiling: Grant,
    /// The head of the audit log must be sent to another machine.
    pub require_anchor: bool,
    /// An image may be named by its tag, without a digest.
    pub allow_unpinned_images: bool,
    /// `act components watch --dev` may begin a session, and the component of a session may be loaded.
    pub allow_dev: bool,
    /// The engines on which a run counts, by their addresses and ids; `None` for every engine.
    engines: Option<Vec<String>>,
    /// The keys of which one must have signed a component, by the names of their files. Without a key no signature is required.
    pub require_signature: Vec<SignatureKey>,
    /// The upper limits for `agent.yaml`.
    pub config: ConfigCeiling,
}

/// A public key that the policy names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureKey {
    pub file: String,
    pub key: PublicKey,
}

impl SignatureKey {
    /// SHA-256 of the key in DER, by which an approval names it.
    pub fn id(&self) -> String {
        digest(self.key.spki())
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ceiling: Grant::everything(),
            require_anchor: false,
            allow_unpinned_images: true,
            allow_dev: true,
            engines: None,
            require_signature: vec![],
            config: ConfigCeiling::default(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PolicyFile {
    require_anchor: bool,
    allow_unpinned_images: Option<bool>,
    allow_dev: Option<bool>,
    /// Addresses and ids of container engines. Names would prove nothing: every user chooses those in `engines.toml`.
    engines: Option<Vec<String>>,
    /// Files with public keys in PEM, beside the policy or by their absolute paths.
    require_signature: Option<Spanned<Vec<String>>>,
    /// False keeps the instructions of every repository from the model. `agent.yaml` has the same key.
    agents_md: Option<bool>,
    /// Names of capabilities that no component gets.
    deny: Vec<String>,
    ceiling: Ceiling,
    verifier: VerifierTable,
    timeouts: Timeouts,
    limits: TaskLimits,
}

/// Limits of one task. `agent.yaml` has the same keys.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TaskLimits {
    max_tokens: Option<NonZeroU64>,
    #[serde(deserialize_with = "act_config::toml_cost_limit")]
    max_cost: Option<Usd>,
}

/// Timeouts in milliseconds. `agent.yaml` has the same keys.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Timeouts {
    verification_step: Option<NonZeroU64>,
}

impl Policy {
    /// Reads the policy of this machine.
    ///
    /// # Errors
    ///
    /// A [`FileError`] if the file is not trusted or malformed. No component may be loaded then.
    pub fn read() -> Result<Self, FileError> {
        let (path, owner) = path_and_owner();
        let untrusted = |why| FileError::Untrusted { path: path.clone(), why };
        let (Some(directory), Some(name)) =
            (path.parent(), path.file_name().and_then(|n| n.to_str()))
        else {
            return Err(untrusted("is not a file name".to_owned()));
        };
        let Some(dir) = open_directory(directory, None, owner).map_err(untrusted)? else {
            return Ok(Self::default());
        };
        match read_text(&dir, name, MAX_BYTES, owner).map_err(untrusted)? {
            Some(text) => Self::parse(&text, &path, |file| read_key(&path, file, owner)),
            None => Ok(Self::default()),
        }
    }

    /// Reads a policy. `key` reads the file of a public key.
    fn parse(
        text: &str,
        path: &Path,
        key: impl Fn(&str) -> Result<PublicKey, String>,
    ) -> Result<Self, FileError> {
        let written: PolicyFile = trusted::parse(text, path)?;
        if !written.ceiling.withheld.is_empty() {
            let at = text.find("withheld").unwrap_or_default();
            let why = "unknown field `withheld`; list forbidden capabilities in `deny`";
            return Err(trusted::malformed(text, path, at, why));
        }
        let mut ceiling = Grant::everything();
        written.ceiling.lower(&mut ceiling);
        for name in &written.deny {
            let Some(capability) = Capability::named(name) else {
                let at = text.find(&format!("\"{name}\"")).unwrap_or_default();
                let why = format!("`{}` is not a grant", name.escape_debug());
                return Err(trusted::malformed(text, path, at, &why));
            };
            capability.close(&mut ceiling);
        }
        let mut config = ConfigCeiling {
            max_tokens: written.limits.max_tokens.map(NonZeroU64::get),
            max_cost: written.limits.max_cost,
            step_timeout: written
                .timeouts
                .verification_step
                .map(|ms| Duration::from_millis(ms.get())),
            agents_md: written.agents_md,
            ..ConfigCeiling::default()
        };
        written.verifier.lower(&mut config);
        Ok(Self {
            ceiling,
            require_anchor: written.require_anchor,
            allow_unpinned_images: written.allow_unpinned_images.unwrap_or(true),
            allow_dev: written.allow_dev.unwrap_or(true),
            engines: written.engines,
            require_signature: signature_keys(written.require_signature, text, path, key)?,
            config,
        })
    }

    /// Returns whether runs count on the engine at this address, which reports this id.
    pub fn allows_engine(&self, address: &str, id: Option<&str>) -> bool {
        let is_named = |name: &String| name == address || Some(name.as_str()) == id;
        self.engines.as_ref().is_none_or(|engines| engines.iter().any(is_named))
    }
}

fn signature_keys(
    files: Option<Spanned<Vec<String>>>,
    text: &str,
    path: &Path,
    key: impl Fn(&str) -> Result<PublicKey, String>,
) -> Result<Vec<SignatureKey>, FileError> {
    let Some(files) = files else { return Ok(vec![]) };
    let malformed = |why: &str| trusted::malformed(text, path, files.span().start, why);
    // An empty list could mean that nothing or everything is signed well enough.
    if files.get_ref().is_empty() {
        return Err(malformed("`require_signature` names at least one file with a public key"));
    }
    let key = |file: &String| match key(file) {
        Ok(key) => Ok(SignatureKey { file: file.clone(), key }),
        Err(why) => Err(malformed(&format!("`require_signature`: {} {why}", file.escape_debug()))),
    };
    files.get_ref().iter().map(key).collect()
}

/// Reads a public key under the conditions of the policy, because whoever writes it decides which signatures count.
fn read_key(policy: &Path, file: &str, owner: Owner) -> Result<PublicKey, String> {
    let path = policy.parent().unwrap_or(policy).join(file);
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        return Err("is not a file name".to_owned());
    };
    let dir = open_directory(directory, None, owner)?.ok_or("does not exist")?;
    let pem = read_text(&dir, name, MAX_KEY, owner)?.ok_or("does not exist")?;
    match PublicKey::from_pem(pem.as_bytes()) {
        Ok(key) if key.is_p256() => Ok(key),
        Ok(_) => Err("is no key of P-256, which cosign signs with".to_owned()),
        Err(why) => Err(format!("cannot be used: {why}")),
    }
}

/// Tests choose another path with `ACT_POLICY_FILE`. Only builds with debug assertions read that variable.
fn path_and_owner() -> (PathBuf, Owner) {
    #[cfg(debug_assertions)]
    if let Some(path) = std::env::var_os("ACT_POLICY_FILE") {
        return (path.into(), Owner::CallerAsRoot);
    }
    (PATH.into(), Owner::Root)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::Clock;
    use act_config::User;

    fn parse(text: &str) -> Result<Policy, String> {
        let read = |file: &str| read_key(Path::new("/nonexistent/policy.toml"), file, Owner::Root);
        Policy::parse(text, Path::new("policy.toml"), read).map_err(|error| error.to_string())
    }

    // OCI-22
    #[test]
    fn a_policy_names_keys_of_cosign_and_reads_them_as_it_is_read_itself() {
        let temp = tempfile::tempdir().unwrap();
        let policy = temp.path().join("policy.toml");
        let write = |name: &str, text: &str, mode: u32| {
            fs::write(temp.path().join(name), text).unwrap();
            fs::set_permissions(temp.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let p256 = "-----BEGIN PUBLIC KEY-----\n\
            MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE7pBlkILi/WN1X8FiQTlZBK2/GlQD\n\
            Ol9bn1iDaSE8B5Eu+uccNndQid2Nmgp8mrTWhT2XhZbshUGMDSDx/6jwvw==\n-----END PUBLIC KEY-----\n";
        let ed25519 = "-----BEGIN PUBLIC KEY-----\n\
            MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
        write("one.pem", p256, 0o644);
        write("other.pem", ed25519, 0o644);
        write("open.pem", p256, 0o666);
        write("text.pem", "no key", 0o644);
        let parse = |text: &str| {
            let read = |file: &str| read_key(&policy, file, Owner::CallerAsRoot);
            Policy::parse(text, &policy, read).map_err(|error| error.to_string())
        };
        let absolute = temp.path().join("one.pem");
        let both = format!("require_signature = [\"one.pem\", \"{}\"]", absolute.display());
        let keys = parse(&both).unwrap().require_signature;
        assert_eq!((keys.len(), keys[0].file.as_str()), (2, "one.pem"));
        assert_eq!(keys[0].key, keys[1].key);
        assert_eq!(parse("").unwrap().require_signature, []);
        for (files, why) in [
            ("[]", "at least one file"),
            ("[\"other.pem\"]", "other.pem is no key of P-256"),
            ("[\"one.pem\", \"open.pem\"]", "open.pem has mode 0666"),
            ("[\"text.pem\"]", "holds no public key in PEM"),
            ("[\"missing.pem\"]", "missing.pem does not exist"),
        ] {
            let error = parse(&format!("require_signature = {files}")).unwrap_err();
            assert!(error.contains(why), "{files}: {error}");
        }
    }

    // CAPABILITY-19
    #[test]
    fn a_policy_takes_away_and_the_empty_one_takes_nothing() {
        assert_eq!(parse("").unwrap(), Policy::default());
        let policy = parse(
            "allow_dev = false\nallow_unpinned_images = false\nagents_md = false\nrequire_anchor = true\ndeny = [\"http\", \"repo.write\"]\n\
             [verifier]\nnetwork = \"off\"\n[ceiling]\nenv = [\"FOO\"]\nclock = \"coarse\"\n[ceiling.llm]\ncalls = 2\n\
             [ceiling.limits]\nwall_ms = 5000\n[limits]\nmax_tokens = 70\n",
        )
        .unwrap();
        assert_eq!((policy.config.max_tokens, policy.config.agents_md), (Some(70), Some(false)));
        assert!(policy.require_anchor && !policy.allow_unpinned_images && !policy.allow_dev);
        assert_eq!(policy.config.step_network, Some(false));
        assert_eq!(parse("[verifier]\nnetwork = \"on\"").unwrap().config.step_network, Some(true));
        let Grant { http, repo_write, env, clock, llm, limits, repo_read, .. } = &policy.ceiling;
        assert_eq!((http.is_none(), *repo_write, *clock), (true, false, Clock::Coarse));
        assert_eq!(env.values().count(), 1);
        assert_eq!((llm.as_ref().unwrap().calls, limits.wall.as_millis()), (2, 5000));
        assert_eq!(*repo_read, Grant::everything().repo_read);
    }

    // ENGINE-8
    #[test]
    fn a_policy_names_the_engines_that_count_by_address_or_id() {
        let socket = "unix:///var/run/docker.sock";
        assert!(Policy::default().allows_engine(socket, None));
        let policy = parse("engines = [\"unix:///var/run/docker.sock\", \"7TRN:IPZB\"]").unwrap();
        assert!(policy.allows_engine(socket, None));
        assert!(policy.allows_engine("tcp://10.0.0.5:2376", Some("7TRN:IPZB")));
        assert!(!policy.allows_engine("tcp://10.0.0.5:2376", Some("other")));
        assert!(!policy.allows_engine("unix:///tmp/docker.sock", None));
        assert!(!parse("engines = []").unwrap().allows_engine(socket, Some("7TRN:IPZB")));
        assert!(parse("engines = \"lab\"").is_err());
    }

    // CONFIG-18
    #[test]
    fn a_policy_bounds_what_a_pipeline_may_use() {
        let policy = parse(
            "[timeouts]\nverification_step = 9000\n[verifier]\nuser = \"caller\"\n\
             [verifier.limits]\ncpus = 2\nmemory_mb = 512\npids = 64\n[limits]\nmax_tokens = 70\nmax_cost = 0.5\n",
        );
        let config = ConfigCeiling {
            max_tokens: Some(70),
            max_cost: Usd::parse("0.5"),
            step_timeout: Some(Duration::from_secs(9)),
            cpus: Some(2.0),
            memory_mb: Some(512),
            pids: Some(64),
            step_user: Some(User::Caller),
            ..ConfigCeiling::default()
        };
        assert_eq!(policy.unwrap().config, config);
        for wrong in [
            "[limits]\nmax_tokens = 0",
            "[limits]\nmax_cost = 0",
            "[limits]\nmax_cost = -1",
            "[limits]\nmax_cost = \"none\"",
            "[timeouts]\nverification_step = 0",
            "[timeouts]\nscout_query = 1",
            "[verifier.limits]\ncpus = 0",
            "[verifier.limits]\ncpus = inf",
            "[verifier.limits]\nmemory_mb = 5",
            "[verifier.limits]\npids = 7",
            "[verifier]\nuser = \"nobody\"",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    // CAPABILITY-19
    #[test]
    fn a_policy_that_is_not_understood_is_refused_with_its_place() {
        for (text, says) in [
            ("allow = true", "policy.toml:1:1: unknown field `allow`"),
            ("deny = [\n  \"shell\"]", "policy.toml:2:3: `shell` is not a grant"),
            ("[verifier]\nnetwork = \"none\"", "policy.toml:2:11: unknown variant `none`"),
            ("[ceiling.llm]\ncall = 1", "policy.toml:2:1: unknown field `call`"),
            ("[ceiling]\nwithheld = [\"llm\"]", "policy.toml:2:1: unknown field `withheld`"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }

    // CAPABILITY-19
    #[test]
    fn every_bound_of_a_grant_has_a_ceiling_of_its_name() {
        let everything = serde_json::to_value(Grant::everything()).unwrap();
        let mut bounds = 0;
        for (table, values) in everything.as_object().unwrap() {
            for (name, _) in values.as_object().into_iter().flatten().filter(|(_, v)| v.is_number())
            {
                let policy = parse(&format!("[ceiling.\"{table}\"]\n{name} = 7\n")).unwrap();
                let ceiling = serde_json::to_value(&policy.ceiling).unwrap();
                assert_eq!(ceiling[table][name], 7, "{table} {name}");
                bounds += 1;
            }
        }
        assert_eq!(bounds, 18);
    }
}
