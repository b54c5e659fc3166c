//! Components in registries: `act components pull`, `push` and `outdated`, and what `approve` fetches. Only these commands of a
//! person fetch anything; a repository and a task never do.

use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::capabilities::approve::{Difference, Terms, difference};
use crate::capabilities::{RepoRegistry, component_file, not_a_component, pack};
use act_component::registry::{Approval, Policy, Source};
use act_component::{ComponentName, Inspection};
use act_config::UserSettings;
use act_core::public_key::PublicKey;
use act_core::{Document, Failure};
use act_fs::Dir;
use act_oci::{
    Access, Contents, Digest, DockerConfig, Reference, ReferenceError, Registry, RegistryError,
    Signatures,
};
use act_workspace::digest;

/// Maximum number of bytes of a file with certificates. That of a whole platform has 300 KiB.
const MAX_CA: u64 = 1 << 20;
/// Maximum number of bytes of a file with a public key, which has some hundred.
const MAX_KEY: u64 = 64 << 10;

/// The bytes of a component from a registry, which nobody has read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub(super) bytes: Vec<u8>,
    pub source: Source,
    pub signature: Signature,
}

/// What is known of the signatures of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    Unsigned,
    /// There are signatures, and none is of a key that the user or the policy named.
    OfOthers(usize),
    /// Signed with the key in this file.
    With(String),
    /// The registry does not say. The value is its error.
    Unknown(String),
}

/// The keys that may have signed a component.
struct Keys {
    /// The files of the keys, for messages.
    files: Vec<String>,
    keys: Vec<PublicKey>,
    /// The first keys are the policy's.
    of_policy: usize,
}

/// A component that was fetched and approved for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PulledDocument {
    pub reference: String,
    /// The digest that the reference has now, `sha256:…`.
    pub digest: String,
    pub file: String,
    /// SHA-256 of the component.
    pub sha256: String,
    pub bytes: u64,
}

impl Document for PulledDocument {
    const NAME: &'static str = "components-pull";
}

/// A component that was stored in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PushedDocument {
    pub reference: String,
    /// The digest of its manifest, `sha256:…`.
    pub digest: String,
    /// SHA-256 of the component.
    pub sha256: String,
    pub bytes: u64,
}

impl Document for PushedDocument {
    const NAME: &'static str = "components-push";
}

/// The approved components whose tags lead elsewhere now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct OutdatedDocument {
    pub outdated: Vec<Outdated>,
    /// Names of the components whose tags lead to what was approved.
    pub current: Vec<String>,
    /// Components whose tags could not be looked up.
    pub unchecked: Vec<Unchecked>,
}

impl Document for OutdatedDocument {
    const NAME: &'static str = "components-outdated";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Outdated {
    pub name: String,
    pub reference: String,
    /// The digest of the approved artifact.
    pub approved: String,
    /// The digest that the tag has now.
    pub found: String,
    /// Differences from the approved component; null when what the tag has now is no component.
    pub difference: Option<Difference>,
    /// Why what the tag has now is no component; null when it is one.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Unchecked {
    pub name: String,
    pub reference: String,
    /// A stable word.
    pub code: String,
    pub message: String,
}

/// Fetches a component from a registry, for an approval. `keys` are files of public keys, one of which must have signed it.
///
/// # Errors
///
/// The reference is invalid, the registry does not give exactly what its manifest names, or a signature is missing that the
/// user or the policy requires.
pub async fn fetch(reference: &str, keys: &[PathBuf], start: &Path) -> Result<Fetched, Failure> {
    let reference = parsed(reference)?;
    let keys = Keys::read(keys, start)?;
    let registry = Registry::for_pull(&reference, access(&reference, start)?)?;
    let resolved = registry.resolve().await?;
    let signatures = registry.signatures(&resolved.digest, &keys.keys).await;
    let (signature, signed_by) = keys.judge(&reference, signatures)?;
    let bytes = registry.fetch(&resolved).await?;
    let (reference, digest) = (reference.to_string(), resolved.digest.to_string());
    Ok(Fetched { bytes, source: Source { reference, digest, signed_by }, signature })
}

impl Keys {
    /// Reads the keys of the policy and those that the user named.
    fn read(files: &[PathBuf], start: &Path) -> Result<Self, Failure> {
        let policy = RepoRegistry::open(start)?.registry.policy.require_signature;
        let of_policy = policy.len();
        let (mut names, mut keys): (Vec<_>, Vec<_>) =
            policy.into_iter().map(|one| (one.file, one.key)).unzip();
        for file in files {
            let wrong = |why: &dyn Display| {
                let message = format!("the key {}: {why}", file.display());
                Failure::refused("key_unusable", message)
                    .hint("name a public key of P-256 in PEM, as `cosign public-key` prints it")
            };
            let pem = public_file(file, MAX_KEY).map_err(|why| wrong(&why))?;
            let key = PublicKey::from_pem(&pem).map_err(|why| wrong(&why))?;
            if !key.is_p256() {
                return Err(wrong(&"it is none of P-256, which cosign signs with"));
            }
            names.push(file.display().to_string());
            keys.push(key);
        }
        Ok(Self { files: names, keys, of_policy })
    }

    /// Returns what to say of the signatures, and the name of the key that signed.
    fn judge(
        &self,
        reference: &Reference,
        signatures: Result<Signatures, RegistryError>,
    ) -> Result<(Signature, Option<String>), Failure> {
        let signatures = match signatures {
            Ok(signatures) => signatures,
            Err(error) if self.keys.is_empty() => {
                return Ok((Signature::Unknown(error.to_string()), None));
            }
            Err(error) => return Err(error.into()),
        };
        let signed: Vec<&PublicKey> =
            signatures.keys.iter().filter_map(|number| self.keys.get(*number)).collect();
        // One key may be named by both.
        let (policy, user) = self.keys.split_at(self.of_policy);
        for (required, who) in [
            (policy, "the administrator's policy.toml requires (`require_signature`)"),
            (user, "--key names"),
        ] {
            if !required.is_empty() && !required.iter().any(|key| signed.contains(&key)) {
                let message = format!(
                    "{reference} has no signature of a key that {who}; of {} signatures none is one",
                    signatures.found
                );
                return Err(Failure::refused("signature_required", message).hint(
                    "approve a version that was signed for its digest with `cosign sign --key`",
                ));
            }
        }
        let first = signatures.keys.first();
        let named = first.and_then(|number| self.files.get(*number).zip(self.keys.get(*number)));
        Ok(match (named, signatures.found) {
            (Some((file, key)), _) => (Signature::With(file.clone()), Some(digest(key.spki()))),
            (None, 0) => (Signature::Unsigned, None),
            (None, found) => (Signature::OfOthers(found), None),
        })
    }
}

/// Refuses a component from a file if the policy requires a signature, because a file has none.
pub(super) fn unsigned_file(policy: &Policy) -> Result<(), Failure> {
    if policy.require_signature.is_empty() {
        return Ok(());
    }
    let message = "the administrator's policy.toml requires a signature (`require_signature`), and a file has none";
    Err(Failure::refused("signature_required", message)
        .hint("approve a signed component from a registry: oci://HOST/NAME:TAG"))
}

/// Checks that a reference still has the digest that the user saw.
///
/// # Errors
///
/// The tag has moved (`tag_moved`), or the registry cannot be asked.
pub async fn confirm(source: &Source, start: &Path) -> Result<(), Failure> {
    let reference = parsed(&source.reference)?;
    if reference.digest().is_some() {
        return Ok(());
    }
    let found = lookup(&reference, start).await?.to_string();
    if found == source.digest {
        return Ok(());
    }
    let message = format!("{reference} was {} and is {found} now", source.digest);
    Err(Failure::refused("tag_moved", message)
        .hint("nothing was changed; approve it again to see what it is now, or name the digest"))
}

/// Fetches a component into a file, and approves nothing. Without `output` the file is named after the last part of the name.
///
/// # Errors
///
/// As [`fetch`]; the bytes are no component, or the file exists or cannot be written.
pub async fn pull(
    reference: &str,
    output: Option<PathBuf>,
    start: &Path,
) -> Result<PulledDocument, Failure> {
    let name = parsed(reference)?.repository().rsplit('/').next().unwrap_or_default().to_owned();
    let file = output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.wasm")));
    // The registry's name must not choose a file of the user.
    if output.is_none() && file.symlink_metadata().is_ok() {
        let message = format!("{} exists", file.display());
        return Err(Failure::refused("file_exists", message).hint("name a file with --output"));
    }
    let reference = parsed(reference)?;
    let registry = Registry::for_pull(&reference, access(&reference, start)?)?;
    let resolved = registry.resolve().await?;
    let bytes = registry.fetch(&resolved).await?;
    let (reference, digest) = (reference.to_string(), resolved.digest.to_string());
    let inspection = inspected(&reference, bytes)?;
    pack::replace(&file, &inspection.bytes).map_err(|error| pack::unwritable(&file, &error))?;
    Ok(PulledDocument {
        reference,
        digest,
        file: file.display().to_string(),
        sha256: inspection.sha256,
        bytes: inspection.bytes.len() as u64,
    })
}

/// Stores a component file in a registry.
///
/// # Errors
///
/// The file is no component, the reference has no tag, or the registry refuses the component or cannot be used.
pub async fn push(file: &Path, reference: &str, start: &Path) -> Result<PushedDocument, Failure> {
    let reference = parsed(reference)?;
    if reference.tag().is_none() {
        let message = format!("{reference} has no tag, and a component is pushed to one");
        return Err(
            Failure::refused("reference_invalid", message).hint("write oci://HOST/NAME:TAG")
        );
    }
    let inspection = inspected(&file.display().to_string(), component_file(file)?)?;
    let registry = Registry::for_push(&reference, access(&reference, start)?)?;
    let Inspection { bytes, imports, exports, sha256, .. } = &inspection;
    let digest = registry.push(Contents { component: bytes, imports, exports }).await?;
    Ok(PushedDocument {
        reference: reference.to_string(),
        digest: digest.to_string(),
        sha256: sha256.clone(),
        bytes: bytes.len() as u64,
    })
}

/// Stores the image that Pods of Kubernetes get in a registry, and returns its reference with its digest.
///
/// # Errors
///
/// The reference has no tag, or the registry refuses the image or cannot be used.
pub async fn push_loader(
    image: &act_verifier::LoaderImage,
    reference: &str,
    start: &Path,
) -> Result<String, Failure> {
    let text = reference.strip_prefix("oci://").unwrap_or(reference);
    let reference = parsed(&format!("oci://{text}"))?;
    if reference.tag().is_none() {
        let message = format!("{reference} has no tag, and an image is pushed to one");
        return Err(Failure::refused("reference_invalid", message).hint("write HOST/NAME:TAG"));
    }
    let registry = Registry::for_push(&reference, access(&reference, start)?)?;
    let (manifest, blobs) = image.parts();
    let digest = registry.store(&blobs, manifest).await?;
    Ok(format!("{}/{}@{digest}", reference.host(), reference.repository()))
}

/// Looks up the tags of all components that were approved from a registry and are in force.
///
/// # Errors
///
/// The file of the grants cannot be read. A registry that does not answer is a part of the document.
pub async fn outdated(start: &Path) -> Result<OutdatedDocument, Failure> {
    let here = RepoRegistry::open(start)?;
    let mut document = OutdatedDocument { outdated: vec![], current: vec![], unchecked: vec![] };
    for approval in &here.registry.grants.approvals {
        let Some(source) = approval.source.as_ref().filter(|_| approval.revoked_at.is_none())
        else {
            continue;
        };
        let (name, reference) = (approval.name.to_string(), source.reference.clone());
        match moved(&here, approval, source, start).await {
            Ok(Some(outdated)) => document.outdated.push(outdated),
            Ok(None) => document.current.push(name),
            Err(Failure { code, message, .. }) => {
                let code = code.to_owned();
                document.unchecked.push(Unchecked { name, reference, code, message });
            }
        }
    }
    Ok(document)
}

/// Returns what the tag of an approved component leads to now; `None` if that is what was approved.
async fn moved(
    here: &RepoRegistry,
    approval: &Approval,
    source: &Source,
    start: &Path,
) -> Result<Option<Outdated>, Failure> {
    let reference = parsed(&source.reference)?;
    if reference.tag().is_none() || lookup(&reference, start).await?.to_string() == source.digest {
        return Ok(None);
    }
    let registry = Registry::for_pull(&reference, access(&reference, start)?)?;
    let resolved = registry.resolve().await?;
    let bytes = registry.fetch(&resolved).await?;
    let (name, found) = (approval.name.to_string(), resolved.digest.to_string());
    let outdated = |difference, problem| Outdated {
        name,
        reference: source.reference.clone(),
        approved: source.digest.clone(),
        found,
        difference,
        problem,
    };
    let now = match inspected(&source.reference, bytes) {
        Ok(now) => now,
        Err(failure) => return Ok(Some(outdated(None, Some(failure.message)))),
    };
    let stored = here.registry.store.load(&approval.sha256).ok();
    let stored = stored.and_then(|bytes| Inspection::of(bytes).ok());
    let terms = Terms {
        grant: &approval.grants,
        repo: approval.repo.as_deref(),
        replaces: approval.replaces.as_ref().map(ComponentName::as_str),
        revoked: false,
    };
    let difference = difference(approval.sha256.as_str(), stored.as_ref(), &now, terms, terms);
    Ok(Some(outdated(Some(difference), None)))
}

async fn lookup(reference: &Reference, start: &Path) -> Result<Digest, Failure> {
    Ok(Registry::for_pull(reference, access(reference, start)?)?.digest().await?)
}

/// Reads the bytes of a stranger in a process with limits.
fn inspected(what: &str, bytes: Vec<u8>) -> Result<Inspection, Failure> {
    Inspection::of_stranger(bytes).map_err(|error| not_a_component(what, &error))
}

fn parsed(reference: &str) -> Result<Reference, Failure> {
    reference.parse().map_err(|error: ReferenceError| {
        let message = format!("{} is no reference: {error}", reference.escape_debug());
        Failure::refused("reference_invalid", message)
            .hint("write oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:…")
    })
}

/// Returns what the user set for the registry of a reference.
fn access(reference: &Reference, start: &Path) -> Result<Access, Failure> {
    let root = act_config::find_root(start)?.map(|root| root.path);
    let user = UserSettings::read(root.as_deref())?;
    let settings = user.registries.get(reference.host()).cloned().unwrap_or_default();
    let wrong = |why: String| {
        Failure::refused("registry_settings", why)
            .hint("correct the file, or the settings of the registry in config.toml")
    };
    let ca = settings.ca.map(|path| {
        authorities(&path, root.as_deref())
            .map_err(|why| wrong(format!("the certificates {}: {why}", path.display())))
    });
    let docker = DockerConfig::read(root.as_deref()).map_err(wrong)?;
    Ok(Access { ca: ca.transpose()?, realm: settings.realm, docker })
}

/// Reads the certificate authorities of a registry. Whoever writes that file decides whom `act` believes to be the registry.
fn authorities(path: &Path, repo: Option<&Path>) -> Result<Vec<u8>, String> {
    let real = path.canonicalize().map_err(|error| error.to_string())?;
    let repo = repo.and_then(|repo| repo.canonicalize().ok());
    if repo.is_some_and(|repo| real.starts_with(repo)) {
        return Err("it lies in the repository, which must not decide whom to trust".to_owned());
    }
    let (dir, name) = opened(&real)?;
    let mode =
        dir.file(name).and_then(|file| file.metadata()).map_err(|error| error.to_string())?;
    if mode.permissions().mode() & 0o022 != 0 {
        return Err("others than its owner can write it".to_owned());
    }
    dir.read(name, MAX_CA).map_err(|error| error.to_string())
}

/// Reads a file that the user named; a link is followed.
fn public_file(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let real = path.canonicalize().map_err(|error| error.to_string())?;
    let (dir, name) = opened(&real)?;
    dir.read(name, most).map_err(|error| error.to_string())
}

fn opened(path: &Path) -> Result<(Dir, &OsStr), String> {
    let (parent, name) =
        path.parent().zip(path.file_name()).ok_or("it is not the path of a file")?;
    Ok((Dir::open_following(parent).map_err(|error| error.to_string())?, name))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;
    use act_core::event::schema;

    // CONFIG-66
    #[test]
    fn authorities_that_others_could_have_written_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("ca.pem");
        fs::write(&file, "x").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(authorities(&file, None), Ok(b"x".to_vec()));
        let inside = authorities(&file, Some(temp.path())).unwrap_err();
        assert!(inside.contains("in the repository"), "{inside}");
        for mode in [0o646, 0o664] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert!(authorities(&file, None).unwrap_err().contains("can write it"), "{mode:o}");
        }
        assert!(authorities(&temp.path().join("none"), None).is_err());
    }

    #[test]
    fn the_schemas_are_published() {
        // EVENT-8
        schema::document_holds::<PulledDocument>();
        schema::document_holds::<PushedDocument>();
        schema::document_holds::<OutdatedDocument>();
    }
}
