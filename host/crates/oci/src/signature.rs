//! Signatures of artifacts as `cosign` makes them with a key: simple signing at the tag `sha256-HEX.sig`, and bundles of Sigstore
//! that refer to the manifest, by the referrers API or the tag `sha256-HEX`.
//!
//! A signature counts if a key verifies it and the statement that it covers names the digest of the manifest. Whatever else lies
//! at these places was put there by somebody who can write to the registry, and is only counted. Certificates (keyless) and
//! transparency logs are not looked at: a key that a person or an administrator named is the only root of trust.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use act_core::public_key::{PublicKey, dsse_message};

use crate::reference::Digest;

/// Maximum number of signatures that are looked at. Everybody who can write to the registry can add one.
pub(crate) const MAX_SIGNATURES: usize = 16;
/// Maximum number of bytes of a payload of simple signing, which has some hundred.
pub(crate) const MAX_PAYLOAD: u64 = 64 << 10;
/// Maximum number of bytes of a bundle, which has some ten thousand with an entry of a transparency log.
pub(crate) const MAX_BUNDLE: u64 = 1 << 20;

/// The type of a payload of simple signing.
pub(crate) const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation of such a layer that holds its signature.
pub(crate) const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// The beginning of the types of bundles, before their version.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// The type of a payload of DSSE.
const STATEMENT: &str = "application/vnd.in-toto+json";
/// The type of statements in every version.
const IN_TOTO: &str = "https://in-toto.io/Statement/";
/// What a signature states: that the artifact is signed. Other statements about an artifact, such as a list of its parts, are
/// stored at the same places with the same keys, and are no signatures.
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";
/// The same in the payload of simple signing.
const SIMPLY_SIGNED: [&str; 2] = ["cosign container image signature", SIGNED];

/// What the signatures of an artifact show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signatures {
    /// Number of signatures at the registry, valid or not; at most 16 are looked at.
    pub found: usize,
    /// The numbers of the given keys that signed the digest.
    pub keys: BTreeSet<usize>,
}

impl Signatures {
    /// Adds one signature, which is of the key with this number.
    pub(crate) fn add(&mut self, key: Option<usize>) {
        self.found += 1;
        self.keys.extend(key);
    }
}

#[derive(Deserialize)]
struct Simple {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    r#type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Image {
    docker_manifest_digest: String,
}

/// Returns which key signed this payload of simple signing for an artifact. `signature` is in Base64.
pub(crate) fn simply_signed(
    payload: &[u8],
    signature: &str,
    digest: &Digest,
    keys: &[PublicKey],
) -> Option<usize> {
    let signature = STANDARD.decode(signature).ok()?;
    // The payload is read after its signature: only what a key vouches for is parsed.
    let key = keys.iter().position(|key| key.verifies(payload, &signature))?;
    let Simple { critical } = serde_json::from_slice(payload).ok()?;
    let is_signature = SIMPLY_SIGNED.contains(&critical.r#type.as_str());
    let is_this = critical.image.docker_manifest_digest == digest.to_string();
    (is_signature && is_this).then_some(key)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    dsse_envelope: Option<Envelope>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: BTreeMap<String, String>,
}

/// Returns which key signed an artifact by this bundle.
pub(crate) fn signed_by_bundle(
    bundle: &[u8],
    digest: &Digest,
    keys: &[PublicKey],
) -> Option<usize> {
    let (key, statement) = vouched(bundle, keys)?;
    let is_this = statement
        .subject
        .iter()
        .any(|subject| subject.digest.get("sha256").is_some_and(|hex| *hex == digest.hex()));
    let is_signature = statement.predicate_type == SIGNED && statement.kind.starts_with(IN_TOTO);
    (is_signature && is_this).then_some(key)
}

/// Returns the statement in a bundle, and the key that vouches for it.
fn vouched(bundle: &[u8], keys: &[PublicKey]) -> Option<(usize, Statement)> {
    let Bundle { dsse_envelope } = serde_json::from_slice(bundle).ok()?;
    let Envelope { payload, payload_type, signatures } = dsse_envelope?;
    if payload_type != STATEMENT {
        return None;
    }
    let payload = STANDARD.decode(payload).ok()?;
    let message = dsse_message(&payload_type, &payload);
    let signatures: Vec<_> = signatures
        .iter()
        .take(MAX_SIGNATURES)
        .filter_map(|signature| STANDARD.decode(&signature.sig).ok())
        .collect();
    let signed = |key: &PublicKey| signatures.iter().any(|one| key.verifies(&message, one));
    let key = keys.iter().position(signed)?;
    Some((key, serde_json::from_slice(&payload).ok()?))
}

#[cfg(test)]
mod tests;
