//! Public keys in PEM, the signatures that they verify, and the bytes that the signature of a DSSE envelope covers.

use ring::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;

/// The beginnings of public keys in DER (SubjectPublicKeyInfo), before the bytes of the key.
pub const ED25519_SPKI: &[u8] =
    &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
pub const P256_SPKI: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A public key: Ed25519, or P-256 with SHA-256 and signatures in DER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    spki: Vec<u8>,
    is_p256: bool,
}

/// Why a text holds no public key that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnusableKey {
    #[error("it holds no public key in PEM")]
    NoPem,
    #[error("its key is neither Ed25519 nor P-256")]
    OtherKind,
    #[error(
        "its key is a point of small order or is written in a second way, so signatures of it prove nothing"
    )]
    Weak,
}

impl PublicKey {
    /// Reads the first public key of a text in PEM.
    ///
    /// # Errors
    ///
    /// There is none, it is of another kind, or everybody can sign for it.
    pub fn from_pem(pem: &[u8]) -> Result<Self, UnusableKey> {
        let spki = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| UnusableKey::NoPem)?;
        let spki = spki.as_ref().to_vec();
        match spki.strip_prefix(ED25519_SPKI) {
            Some(key) if is_weak(key) => Err(UnusableKey::Weak),
            Some(_) => Ok(Self { spki, is_p256: false }),
            None if spki.starts_with(P256_SPKI) => Ok(Self { spki, is_p256: true }),
            None => Err(UnusableKey::OtherKind),
        }
    }

    /// The key in DER (SubjectPublicKeyInfo), whose SHA-256 is the name of the key.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    pub fn is_p256(&self) -> bool {
        self.is_p256
    }

    /// Returns whether a signature of a message is one of this key.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = if self.is_p256 {
            let key = self.spki.get(P256_SPKI.len()..).unwrap_or_default();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key).verify(message, signature)
        } else {
            let key = self.spki.get(ED25519_SPKI.len()..).unwrap_or_default();
            UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
        };
        verified.is_ok()
    }
}

/// Returns the bytes that a signature of a DSSE envelope covers: its pre-authentication encoding.
pub fn dsse_message(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head =
        format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    [head, payload.to_vec()].concat()
}

/// The y coordinates, in the order of their bytes, of the eight points of Ed25519's curve whose order divides 8. Everybody can
/// make a signature that holds for such a key and any message; the library for signatures accepts them.
const SMALL_ORDER: [[u8; 32]; 5] = [
    filled(0, 0, 0),
    filled(1, 0, 0),
    filled(0xec, 0xff, 0x7f),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98,
        0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53,
        0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ],
];

const fn filled(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    bytes[0] = first;
    bytes[31] = last;
    bytes
}

/// Returns whether a public key of Ed25519 is a point of small order, or has a y coordinate that is not below the prime
/// 2^255 - 19. The last bit is the sign of x.
fn is_weak(key: &[u8]) -> bool {
    let Ok(mut y) = <[u8; 32]>::try_from(key) else { return false };
    y[31] &= 0x7f;
    let is_reduced = y[0] < 0xed || y[1..31].iter().any(|byte| *byte != 0xff) || y[31] != 0x7f;
    !is_reduced || SMALL_ORDER.contains(&y)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    // AUDIT-25
    #[test]
    fn a_public_key_for_which_everybody_can_sign_is_refused() {
        let key = |bytes: [u8; 32]| {
            let der = STANDARD.encode([ED25519_SPKI, &bytes].concat());
            let pem = format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n");
            PublicKey::from_pem(pem.as_bytes())
        };
        let signed = |mut key: [u8; 32]| {
            key[31] |= 0x80;
            key
        };
        for bytes in SMALL_ORDER.into_iter().flat_map(|key| [key, signed(key)]) {
            assert_eq!(key(bytes), Err(UnusableKey::Weak), "{bytes:?}");
        }
        for y in 0xed..=0xff {
            let twice = filled(y, 0xff, 0x7f);
            let weak = Err(UnusableKey::Weak);
            assert_eq!((key(twice), key(signed(twice))), (weak.clone(), weak));
        }
        // R is the neutral element and S is 0: the equation holds for a key of small order and half of all messages or more.
        let signature = [filled(1, 0, 0), [0; 32]].concat();
        assert!(!key(filled(9, 0, 0)).unwrap().verifies(b"{\"forged\":true}", &signature));
    }
}
