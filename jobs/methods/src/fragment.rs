//! Fragments: literal texts of prompts that many requests share, named by their digest.
//!
//! Demonstrations are tens of kilobytes and stand in every prompt of a configuration. A request holds a fragment's
//! digest, so its key, its way between processes and its place in memory stay small. [`crate::Method::fragments`] gives
//! the texts. The host collects those of all configurations in every process and hands them to the services that put
//! prompts together. A service refuses an unknown digest by name; it never takes it for an empty text.

use serde::{Deserialize, Serialize};
use std::fmt::{Debug, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

/// The BLAKE3 hash of a fragment's text; in JSON and in keys its 64 hexadecimal digits, in small letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FragmentDigest(pub [u8; 32]);

/// A literal text of prompts, with its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    digest: FragmentDigest,
    text: Arc<str>,
}

/// A text that is no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no digest of a fragment: expected 64 hexadecimal digits in small letters")]
pub struct FragmentDigestError(String);

impl Fragment {
    /// A fragment; computes its digest.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self { digest: FragmentDigest(*blake3::hash(text.as_bytes()).as_bytes()), text }
    }

    /// Its digest, for [`crate::Content::Fragment`].
    pub fn digest(&self) -> FragmentDigest {
        self.digest
    }

    /// Its text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }
}

impl FragmentDigest {
    /// Its 64 hexadecimal digits.
    pub(crate) fn to_hex(self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 64];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        hex
    }
}

impl Display for FragmentDigest {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_hex()).expect("digits are letters of ASCII; this is a bug"))
    }
}

impl Debug for FragmentDigest {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "FragmentDigest({self})")
    }
}

impl FromStr for FragmentDigest {
    type Err = FragmentDigestError;

    fn from_str(text: &str) -> Result<Self, FragmentDigestError> {
        let wrong = || FragmentDigestError(text.to_owned());
        // Exactly one spelling, because keys hold it.
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.bytes().all(is_digit) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for FragmentDigest {
    type Error = FragmentDigestError;

    fn try_from(text: String) -> Result<Self, FragmentDigestError> {
        text.parse()
    }
}

impl From<FragmentDigest> for String {
    fn from(digest: FragmentDigest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_hash_of_the_text() {
        // The first of BLAKE3's published test vectors: the hash of nothing.
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        let fragment = Fragment::new("");
        assert_eq!(fragment.digest().to_string(), empty);
        assert_eq!(empty.parse(), Ok(fragment.digest()));
        assert_ne!(Fragment::new("a").digest(), fragment.digest());
    }

    #[test]
    fn a_digest_has_one_spelling() {
        let digest = Fragment::new("a").digest().to_string();
        for wrong in ["", &digest[1..], &digest.to_uppercase(), &digest.replacen('a', "g", 1), &"é".repeat(32)] {
            let error = wrong.parse::<FragmentDigest>().unwrap_err();
            assert!(error.to_string().contains("64 hexadecimal digits"), "{wrong}");
        }
    }
}
