//! Signed statements: DSSE envelopes, which `act audit export --sign` writes and `act verify-claim --statement` checks. The keys
//! are Ed25519, or ECDSA over P-256 with SHA-256 and a signature in DER, as other tools for such envelopes expect them.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair, UnparsedPublicKey,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde::{Deserialize, Serialize};

use act_core::Failure;
use act_fs::trusted::{Owner, open_directory, read_text};
use act_fs::{Dir, Sha256};

const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// Maximum number of bytes of a file with a key, which has some hundred.
const MAX_KEY: u64 = 64 << 10;
/// Maximum number of bytes of an envelope. A statement has some KiB.
const MAX_ENVELOPE: u64 = 16 << 20;
/// Maximum number of signatures that are tried.
const MAX_SIGNATURES: usize = 16;
/// The beginnings of public keys in DER (SubjectPublicKeyInfo), before the bytes of the key.
const ED25519_SPKI: &[u8] =
    &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const P256_SPKI: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

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

/// Returns the bytes that a signature covers: the pre-authentication encoding of DSSE.
fn covered(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head =
        format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    [head, payload.to_vec()].concat()
}

/// Signs a statement with the private key in the file `key`.
///
/// # Errors
///
/// The file is not trusted, or holds no unencrypted PKCS#8 key of a known kind (`key_unusable`).
pub(super) fn sign(statement: &[u8], key: &Path, repo: Option<&Path>) -> Result<Envelope, Failure> {
    let pem = read_private(key, repo).map_err(|why| unusable(key, &why))?;
    let message = covered(PAYLOAD_TYPE, statement);
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
fn read_private(key: &Path, repo: Option<&Path>) -> Result<String, String> {
    let path = std::path::absolute(key).map_err(|error| error.to_string())?;
    let parts = path.parent().zip(path.file_name().and_then(|name| name.to_str()));
    let (parent, name) = parts.ok_or("it is not the path of a file")?;
    let dir = open_directory(parent, repo, Owner::Caller)?.ok_or("there is no such directory")?;
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
    let spki = SubjectPublicKeyInfoDer::from_pem_slice(&pem)
        .map_err(|_| unusable(key, "it holds no public key in PEM"))?;
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
    let message = covered(&payload_type, &payload);
    let algorithm = public_key(spki.as_ref())
        .ok_or_else(|| unusable(key, "its key is neither Ed25519 nor P-256"))?;
    let is_valid = |signature: &Signature| {
        let sig = STANDARD.decode(&signature.sig);
        sig.is_ok_and(|sig| algorithm.verify(&message, &sig).is_ok())
    };
    if payload_type != PAYLOAD_TYPE || !signatures.iter().take(MAX_SIGNATURES).any(is_valid) {
        return Err(not_signed("no signature in it is one of this key"));
    }
    Ok(Signed { payload, keyid: Sha256::of(spki.as_ref()).to_string() })
}

fn public_key(spki: &[u8]) -> Option<UnparsedPublicKey<&[u8]>> {
    if let Some(key) = spki.strip_prefix(ED25519_SPKI) {
        return Some(UnparsedPublicKey::new(&ED25519, key));
    }
    let key = spki.strip_prefix(P256_SPKI)?;
    Some(UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key))
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
            let envelope = sign(b"{\"a\":1}", &keys.path("private"), None).unwrap();
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
        let why = |key: &Path, repo: Option<&Path>| {
            let refused = sign(b"{}", key, repo).unwrap_err();
            assert_eq!(refused.code, "key_unusable");
            refused.message
        };
        why(&private, Some(keys.0.path()));
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
