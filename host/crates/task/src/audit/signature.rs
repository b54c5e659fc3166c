//! Signed statements: DSSE envelopes, which `act audit export --sign` writes and `act verify-claim --statement` checks. The keys
//! are Ed25519, or ECDSA over P-256 with SHA-256 and a signature in DER, as other tools for such envelopes expect them.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};

use act_core::Failure;
use act_core::public_key::{ED25519_SPKI, P256_SPKI, PublicKey, dsse_message};
use act_fs::trusted::{Owner, open_directory, read_text};
use act_fs::{Dir, Sha256};
use act_workspace::RootIdentity;

const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// Maximum number of bytes of a file with a key, which has some hundred.
const MAX_KEY: u64 = 64 << 10;
/// Maximum number of bytes of an envelope. A statement has some KiB.
const MAX_ENVELOPE: u64 = 16 << 20;
/// Maximum number of signatures that are tried.
const MAX_SIGNATURES: usize = 16;
/// A DSSE envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// `application/vnd.in-toto+json`.
    pub payload_type: String,
    /// The statement in Base64.
    pub payload: String,
    pub signatures: Vec<Signature>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "EnvelopeSignature")
)]
pub struct Signature {
    /// SHA-256 of the public key in DER, as hex.
    #[serde(default)]
    pub keyid: String,
    /// The signature in Base64.
    pub sig: String,
}

/// The repositories in which a private key must not lie, because a task could read or replace it there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Repositories<'a> {
    /// The repository around the directory in which the command runs.
    pub(super) here: Option<&'a Path>,
    /// The identity of the repository of the run, which may be another one.
    pub(super) of_run: Option<&'a str>,
}

/// Signs a statement with the private key in the file `key`.
///
/// # Errors
///
/// The file is not trusted, or holds no unencrypted PKCS#8 key of a known kind (`key_unusable`).
pub(super) fn sign(
    statement: &[u8],
    key: &Path,
    repos: Repositories<'_>,
) -> Result<Envelope, Failure> {
    let pem = read_private(key, repos).map_err(|why| unusable(key, &why))?;
    let message = dsse_message(PAYLOAD_TYPE, statement);
    let (sig, spki) = signed(pem.as_bytes(), &message).map_err(|why| unusable(key, &why))?;
    let signature = Signature { keyid: Sha256::of(&spki).to_string(), sig: STANDARD.encode(sig) };
    Ok(Envelope {
        payload_type: PAYLOAD_TYPE.to_owned(),
        payload: STANDARD.encode(statement),
        signatures: vec![signature],
    })
}

fn unusable(key: &Path, why: &str) -> Failure {
    Failure::refused("key_unusable", format!("the key {}: {why}", key.display())).hint(
        "make one with `openssl genpkey -algorithm ed25519 -out FILE`, outside of the repository, with mode 0600",
    )
}

/// Reads the file of a private key, under the conditions of the user's other secrets.
fn read_private(key: &Path, repos: Repositories<'_>) -> Result<String, String> {
    let path = std::path::absolute(key).map_err(|error| error.to_string())?;
    let parts = path.parent().zip(path.file_name().and_then(|name| name.to_str()));
    let (parent, name) = parts.ok_or("it is not the path of a file")?;
    let dir =
        open_directory(parent, repos.here, Owner::Caller)?.ok_or("there is no such directory")?;
    let real = parent.canonicalize().map_err(|error| error.to_string())?;
    let is_of_run = |above: &Path| {
        let identity = RootIdentity::of(above).ok().map(|identity| identity.to_string());
        identity.is_some() && identity.as_deref() == repos.of_run
    };
    if real.ancestors().any(is_of_run) {
        return Err(
            "it lies in the repository of the run, where a task could replace it".to_owned()
        );
    }
    // Another name of the file may be in a repository, where a task reads it.
    if dir.stat(name).is_ok_and(|stat| stat.st_nlink > 1) {
        return Err("it is a hard link, whose other names may be anywhere; copy it".to_owned());
    }
    read_text(&dir, name, MAX_KEY, Owner::Caller)?.ok_or_else(|| "there is no such file".to_owned())
}

/// Returns the signature of a message, and the public key in DER.
fn signed(pem: &[u8], message: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem)
        .map_err(|_| "it holds no unencrypted private key as PKCS#8 in PEM")?;
    let der = der.secret_pkcs8_der();
    // A key that OpenSSL wrote does not hold its public part.
    if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
        let spki = [ED25519_SPKI, pair.public_key().as_ref()].concat();
        return Ok((pair.sign(message).as_ref().to_vec(), spki));
    }
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der, &random)
        .map_err(|_| "its key is neither Ed25519 nor P-256")?;
    let sig = pair.sign(&random, message).map_err(|_| "signing failed")?;
    Ok((sig.as_ref().to_vec(), [P256_SPKI, pair.public_key().as_ref()].concat()))
}

/// A statement whose signature was checked.
pub(crate) struct Signed {
    pub(crate) payload: Vec<u8>,
    /// SHA-256 of the public key in DER.
    pub(crate) keyid: String,
}

/// Reads an envelope and checks that it has a signature of this public key.
///
/// # Errors
///
/// A file cannot be read (`statement_unusable`, `key_unusable`), or no signature is one of this key
/// (`statement_not_signed`).
pub(crate) fn checked(envelope: &Path, key: &Path) -> Result<Signed, Failure> {
    let unread = |why: String| {
        let message = format!("the statement {}: {why}", envelope.display());
        Failure::refused("statement_unusable", message)
            .hint("`act audit export RUN_ID --in-toto --sign KEY` writes one")
    };
    let text = read(envelope, MAX_ENVELOPE).map_err(unread)?;
    let pem = read(key, MAX_KEY).map_err(|why| unusable(key, &why))?;
    let public = PublicKey::from_pem(&pem).map_err(|why| unusable(key, &why.to_string()))?;
    let parsed: Result<Envelope, _> = serde_json::from_slice(&text);
    let not_signed = |why: &str| {
        let message = format!("the statement {}: {why}", envelope.display());
        Failure::refused("statement_not_signed", message)
            .hint("use the public key of whoever signed it, and the file as it was written")
    };
    let Ok(Envelope { payload_type, payload, signatures }) = parsed else {
        return Err(not_signed("it is no DSSE envelope, so it has no signature"));
    };
    let payload = STANDARD.decode(payload).map_err(|_| not_signed("its payload is not Base64"))?;
    let message = dsse_message(&payload_type, &payload);
    let is_valid = |signature: &Signature| {
        let sig = STANDARD.decode(&signature.sig);
        sig.is_ok_and(|sig| public.verifies(&message, &sig))
    };
    if payload_type != PAYLOAD_TYPE || !signatures.iter().take(MAX_SIGNATURES).any(is_valid) {
        return Err(not_signed("no signature in it is one of this key"));
    }
    Ok(Signed { payload, keyid: Sha256::of(public.spki()).to_string() })
}

/// Reads a file that the user named; a link is followed.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    let parts = path.parent().zip(path.file_name());
    let (parent, name) = parts.ok_or("it is not the path of a file")?;
    let dir = Dir::open_following(parent).map_err(|error| error.to_string())?;
    dir.read(name, most).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::process::Command;

    struct Keys(tempfile::TempDir);

    impl Keys {
        /// Makes a key pair as a user does, or returns `None` after a report that the test is skipped.
        fn new(algorithm: &[&str]) -> Option<Self> {
            let keys = Self(tempfile::tempdir().unwrap());
            let (private, public) = (keys.path("private"), keys.path("public"));
            let made = Command::new("openssl")
                .arg("genpkey")
                .args(algorithm)
                .arg("-out")
                .arg(&private)
                .output();
            let Ok(made) = made else {
                act_core::testing::skip("no openssl");
                return None;
            };
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o600)).unwrap();
            let mut shown = Command::new("openssl");
            shown.args(["pkey", "-pubout", "-in"]).arg(&private).arg("-out").arg(public);
            assert!(shown.status().unwrap().success());
            Some(keys)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn store(&self, envelope: &Envelope) -> PathBuf {
            let path = self.path("envelope");
            std::fs::write(&path, serde_json::to_vec(envelope).unwrap()).unwrap();
            path
        }
    }

    const KINDS: [&[&str]; 2] =
        [&["-algorithm", "ed25519"], &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]];

    // AUDIT-31
    #[test]
    fn a_signature_holds_for_its_key_and_its_bytes_alone() {
        for kind in KINDS {
            let (Some(keys), Some(others)) = (Keys::new(kind), Keys::new(kind)) else { return };
            let envelope =
                sign(b"{\"a\":1}", &keys.path("private"), Repositories::default()).unwrap();
            let public = keys.path("public");
            let signed = checked(&keys.store(&envelope), &public).unwrap();
            assert_eq!(signed.payload, b"{\"a\":1}");
            assert_eq!(signed.keyid, envelope.signatures[0].keyid);
            let code = |envelope: &Envelope, key: &Path| {
                checked(&keys.store(envelope), key)
                    .map(|_| "holds")
                    .unwrap_or_else(|error| error.code)
            };
            assert_eq!(code(&envelope, &public), "holds");
            assert_eq!(code(&envelope, &others.path("public")), "statement_not_signed");
            let tampered = Envelope { payload: STANDARD.encode("{\"a\":2}"), ..envelope.clone() };
            assert_eq!(code(&tampered, &public), "statement_not_signed");
            let other = Envelope { payload_type: "text/plain".into(), ..envelope.clone() };
            assert_eq!(code(&other, &public), "statement_not_signed");
            let bare = Envelope { signatures: vec![], ..envelope.clone() };
            assert_eq!(code(&bare, &public), "statement_not_signed");
            std::fs::write(keys.path("plain"), "{\"a\":1}").unwrap();
            let plain = checked(&keys.path("plain"), &public).err().unwrap();
            assert_eq!(plain.code, "statement_not_signed");
            assert_eq!(code(&envelope, &keys.path("private")), "key_unusable");
        }
    }

    // AUDIT-31
    #[test]
    fn a_key_that_others_could_have_read_or_written_signs_nothing() {
        let Some(keys) = Keys::new(KINDS[0]) else { return };
        let private = keys.path("private");
        let why = |key: &Path, here: Option<&Path>| {
            let refused = sign(b"{}", key, Repositories { here, of_run: None }).unwrap_err();
            assert_eq!(refused.code, "key_unusable");
            refused.message
        };
        why(&private, Some(keys.0.path()));
        // Also where the command runs outside of the repository whose run it signs.
        let identity = RootIdentity::of(keys.0.path()).unwrap().to_string();
        let repos = Repositories { here: None, of_run: Some(&identity) };
        let refused = sign(b"{}", &private, repos).unwrap_err();
        assert!(refused.message.contains("in the repository of the run"), "{}", refused.message);
        std::fs::hard_link(&private, keys.path("second")).unwrap();
        assert!(why(&private, None).contains("hard link"));
        std::fs::remove_file(keys.path("second")).unwrap();
        std::os::unix::fs::symlink(&private, keys.path("link")).unwrap();
        why(&keys.path("link"), None);
        assert!(why(&keys.path("missing"), None).contains("no such file"));
        assert!(why(&keys.path("public"), None).contains("mode"));
        std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(why(&private, None).contains("mode"));
        let text = std::fs::read_to_string(&private).unwrap();
        std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&private, text.replace("PRIVATE", "ENCRYPTED PRIVATE")).unwrap();
        assert!(why(&private, None).contains("unencrypted"));
        let rsa = Keys::new(&["-algorithm", "RSA"]).unwrap();
        assert!(why(&rsa.path("private"), None).contains("neither Ed25519 nor P-256"));
    }

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::holds::<Envelope>("audit-envelope");
    }
}
