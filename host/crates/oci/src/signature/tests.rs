//! Signatures that other programs made, and changes of them.

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use super::*;

/// Key, payload and signature of `cosign`, from the tests of sigstore-rs (`src/cosign/signature_layers.rs`, commit 0592e198,
/// Apache-2.0).
const COSIGN_KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAENptdY/l3nB0yqkXLBWkZWQwo6+cu
OSWS1X9vPavpiQOoTTGC0xX57OojUadxF1cdQmrsiReWg2Wn4FneJfa8xw==
-----END PUBLIC KEY-----";
const COSIGN_PAYLOAD: &str = r#"{"critical":{"identity":{"docker-reference":"registry-testing.svc.lan/busybox"},"image":{"docker-manifest-digest":"sha256:f3cfc9d0dbf931d3db4685ec659b7ac68e2a578219da4aae65427886e649b06b"},"type":"cosign container image signature"},"optional":null}"#;
const COSIGN_SIGNATURE: &str = "MEUCIQD6q/COgzOyW0YH1Dk+CCYSt4uAhm3FDHUwvPI55zwnlwIgE0ZK58ZOWpZw8YVmBapJhBqCfdPekIknimuO0xH8Jh8=";
const COSIGN_DIGEST: &str =
    "sha256:f3cfc9d0dbf931d3db4685ec659b7ac68e2a578219da4aae65427886e649b06b";

/// Another key of those tests.
const OTHER_KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAETJP9cqpUQsn2ggmJniWGjHdlsHzD
JsB89BPhZYch0U0hKANx5TY+ncrm0s8bfJxxHoenAEFhwhuXeb4PqIrtoQ==
-----END PUBLIC KEY-----";

/// Key and envelope of a bundle with a managed key, from sigstore-conformance (`test/assets/bundle-verify/
/// intoto-canonical-log-entry`, commit 8524c2bc, Apache-2.0). The bundle is without its entry of a log.
const BUNDLE_KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE7pBlkILi/WN1X8FiQTlZBK2/GlQD
Ol9bn1iDaSE8B5Eu+uccNndQid2Nmgp8mrTWhT2XhZbshUGMDSDx/6jwvw==
-----END PUBLIC KEY-----";
const BUNDLE: &str = r#"{
  "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
  "verificationMaterial": {"publicKey": {"hint": "rJuYlKqs5PMzdPzjkZBg4BveZRpD97PBnngUXPZSlr8="}, "tlogEntries": []},
  "dsseEnvelope": {
    "payload": "eyJfdHlwZSI6Imh0dHBzOi8vaW4tdG90by5pby9TdGF0ZW1lbnQvdjEiLCJzdWJqZWN0IjpbeyJuYW1lIjoiYS50eHQiLCJkaWdlc3QiOnsic2hhMjU2IjoiYTBjZmM3MTI3MWQ2ZTI3OGU1N2NkMzMyZmY5NTdjM2Y3MDQzZmRkYTM1NGM0Y2JiMTkwYTMwZDU2ZWZhMDFiZiJ9fV0sInByZWRpY2F0ZVR5cGUiOiJodHRwczovL2V4YW1wbGUuY29tL3Rlc3QiLCJwcmVkaWNhdGUiOnt9fQ==",
    "payloadType": "application/vnd.in-toto+json",
    "signatures": [{"sig": "MEUCIBb8Pe4/Z0vKtXSvAHV6pcC1F3eTwCZnVejwWERFVwKeAiEAre6v18YSEs3mKaeMgE8Ti0l62CzT5yZvwfGiVd1eTIw=", "keyid": ""}]
  }
}"#;
const BUNDLE_DIGEST: &str =
    "sha256:a0cfc71271d6e278e57cd332ff957c3f7043fdda354c4cbb190a30d56efa01bf";

fn key(pem: &str) -> PublicKey {
    PublicKey::from_pem(pem.as_bytes()).unwrap()
}

// OCI-20
#[test]
fn a_signature_of_cosign_holds_for_its_key_and_its_digest_alone() {
    let keys = [key(OTHER_KEY), key(COSIGN_KEY)];
    let digest: Digest = COSIGN_DIGEST.parse().unwrap();
    let signed = |payload: &str, signature: &str, digest: &Digest, keys: &[PublicKey]| {
        simply_signed(payload.as_bytes(), signature, digest, keys)
    };
    assert_eq!(signed(COSIGN_PAYLOAD, COSIGN_SIGNATURE, &digest, &keys), Some(1));
    // Another key, and none.
    assert_eq!(signed(COSIGN_PAYLOAD, COSIGN_SIGNATURE, &digest, &keys[..1]), None);
    assert_eq!(signed(COSIGN_PAYLOAD, COSIGN_SIGNATURE, &digest, &[]), None);
    // The signature of another artifact.
    let other = Digest::of(b"other");
    assert_eq!(signed(COSIGN_PAYLOAD, COSIGN_SIGNATURE, &other, &keys), None);
    // A payload that was changed to name this artifact.
    let changed = COSIGN_PAYLOAD.replace(COSIGN_DIGEST, &other.to_string());
    assert_eq!(signed(&changed, COSIGN_SIGNATURE, &other, &keys), None);
    for malformed in ["", "=", "AAAA", "not base64", &COSIGN_SIGNATURE[..40]] {
        assert_eq!(signed(COSIGN_PAYLOAD, malformed, &digest, &keys), None, "{malformed}");
    }
}

// OCI-20
#[test]
fn a_bundle_is_verified_by_its_key_and_its_statement_has_to_be_a_signature() {
    let digest: Digest = BUNDLE_DIGEST.parse().unwrap();
    let (number, statement) =
        vouched(BUNDLE.as_bytes(), &[key(OTHER_KEY), key(BUNDLE_KEY)]).unwrap();
    assert_eq!((number, statement.subject[0].digest["sha256"].as_str()), (1, &BUNDLE_DIGEST[7..]));
    assert!(vouched(BUNDLE.as_bytes(), &[key(OTHER_KEY)]).is_none());
    // The key vouches for a statement about the artifact which does not say that it is signed.
    assert_eq!(statement.predicate_type, "https://example.com/test");
    assert_eq!(signed_by_bundle(BUNDLE.as_bytes(), &digest, &[key(BUNDLE_KEY)]), None);
}

/// A key that signs in the tests.
struct Signer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random);
        Self { pair: pair.unwrap(), random }
    }

    fn public(&self) -> PublicKey {
        let spki = [act_core::public_key::P256_SPKI, self.pair.public_key().as_ref()].concat();
        let pem = format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            STANDARD.encode(spki)
        );
        key(&pem)
    }

    fn sign(&self, message: &[u8]) -> String {
        STANDARD.encode(self.pair.sign(&self.random, message).unwrap())
    }

    fn bundle(&self, payload_type: &str, statement: &Value) -> Value {
        let payload = statement.to_string().into_bytes();
        let sig = self.sign(&dsse_message(payload_type, &payload));
        json!({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "dsseEnvelope": {
            "payload": STANDARD.encode(payload), "payloadType": payload_type, "signatures": [{"sig": sig}]}})
    }
}

fn statement(digest: &Digest, predicate: &str) -> Value {
    json!({"_type": "https://in-toto.io/Statement/v1", "predicateType": predicate, "predicate": {},
        "subject": [{"name": "", "digest": {"sha256": digest.hex()}}]})
}

// OCI-20, security line 716
#[test]
fn a_replayed_or_changed_bundle_signs_nothing() {
    let signer = Signer::new();
    let keys = [signer.public()];
    let digest = Digest::of(b"manifest");
    let signed = |bundle: &Value, digest: &Digest| {
        signed_by_bundle(bundle.to_string().as_bytes(), digest, &keys)
    };
    let sound = signer.bundle(STATEMENT, &statement(&digest, SIGNED));
    assert_eq!(signed(&sound, &digest), Some(0));
    assert_eq!(signed(&sound, &Digest::of(b"other")), None, "replayed for another artifact");
    let stranger = Signer::new().bundle(STATEMENT, &statement(&digest, SIGNED));
    assert_eq!(signed(&stranger, &digest), None);
    // Signed by this key, for other purposes.
    let other_purposes = [
        signer.bundle(STATEMENT, &statement(&digest, "https://slsa.dev/provenance/v1")),
        signer.bundle("text/plain", &statement(&digest, SIGNED)),
        signer.bundle(STATEMENT, &json!({"subject": [], "predicateType": SIGNED, "_type": "x"})),
        signer.bundle(STATEMENT, &json!("sha256")),
        {
            let mut other = statement(&digest, SIGNED);
            other["_type"] = json!("https://example.com/Statement/v1");
            signer.bundle(STATEMENT, &other)
        },
        {
            let mut other = statement(&digest, SIGNED);
            other["subject"] = json!([{"digest": {"sha512": digest.hex()}}, {"digest": {}}]);
            signer.bundle(STATEMENT, &other)
        },
    ];
    for bundle in &other_purposes {
        assert_eq!(signed(bundle, &digest), None, "{bundle}");
    }
    // Changed or incomplete.
    let mut changed = sound.clone();
    let forged = statement(&Digest::of(b"other"), SIGNED).to_string();
    changed["dsseEnvelope"]["payload"] = json!(STANDARD.encode(forged));
    assert_eq!(signed(&changed, &Digest::of(b"other")), None);
    for (field, value) in [
        ("payload", json!("%")),
        ("payload", json!("")),
        ("signatures", json!([])),
        ("signatures", json!([{"sig": "AAAA"}])),
        ("payloadType", json!("application/json")),
    ] {
        let mut changed = sound.clone();
        changed["dsseEnvelope"][field] = value;
        assert_eq!(signed(&changed, &digest), None, "{changed}");
    }
    for text in ["", "{}", "[]", "null", "{\"dsseEnvelope\": 1}"] {
        assert_eq!(signed_by_bundle(text.as_bytes(), &digest, &keys), None, "{text}");
    }
    // A simple signature is none of a statement, and the other way round.
    let payload = statement(&digest, SIGNED).to_string();
    assert_eq!(
        simply_signed(payload.as_bytes(), &signer.sign(payload.as_bytes()), &digest, &keys),
        None
    );
    let simple = json!({"critical": {"image": {"docker-manifest-digest": digest.to_string()}, "type": "other"}});
    let simple = simple.to_string();
    assert_eq!(
        simply_signed(simple.as_bytes(), &signer.sign(simple.as_bytes()), &digest, &keys),
        None
    );
}
