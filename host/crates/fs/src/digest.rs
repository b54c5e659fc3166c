//! SHA-256 digests and their hexadecimal form.

use std::fmt;

use sha2::Digest;

/// A SHA-256 digest. It displays as 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// Computes the digest of `bytes`.
    ///
    /// ```
    /// let digest = act_fs::Sha256::of(b"").to_string();
    /// assert_eq!(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    /// ```
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Reads 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let value = |digit: &u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair.first()?)? << 4 | value(pair.get(1)?)?;
        }
        Some(Self(bytes))
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Takes over the result of a hasher that was fed piece by piece.
impl From<sha2::Sha256> for Sha256 {
    fn from(hasher: sha2::Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// Returns bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_displayed() {
        let digest = Sha256::of(b"abc");
        let text = digest.to_string();
        assert!(text.starts_with("ba7816bf8f01cfea"));
        assert_eq!(Sha256::parse(&text), Some(digest));
        assert_eq!(Sha256::parse(&text.to_uppercase()), None);
        assert_eq!(Sha256::parse(&text[1..]), None);
        assert_eq!(hex(&[0, 0x0f, 0xf0, 0xff]), "000ff0ff");
    }
}
