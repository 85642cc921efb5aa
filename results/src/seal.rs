//! Seals of JSON documents: a digest of the document as its last member. Runs' records, records of logs, live tables
//! and selections have one, since no other object names their digest.
//!
//! ```text
//!   { "run": ..., "settings": ... }    ---->    { "run": ..., "settings": ..., "blake3": "5f0c..." }
//! ```
//!
//! The digest is of the bytes without the seal. Documents of earlier versions have no seal and are read as they are.
//! Damage to the seal's own name makes a document look like one of those; everything else in it is undamaged then.

use crate::check::FileRemedy;
use crate::store::{Store, StoreError};

/// The text between a document's last value and its digest.
const SEAL: &str = ",\n  \"blake3\": \"";

/// The text behind the digest.
const END: &str = "\"\n}";

/// Letters of a digest.
const DIGEST_LETTERS: usize = 64;

/// A stored JSON document without its seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsealedDocument {
    /// The document.
    pub json: Vec<u8>,
    /// Whether it carried a seal.
    pub sealed: bool,
}

/// Adds a seal to a JSON object with at least one member.
pub fn add_seal(json: &[u8]) -> Vec<u8> {
    let digest = blake3::hash(json).to_hex();
    let body = json.strip_suffix(b"}").unwrap_or(json).trim_ascii_end();
    // The ending of the document cannot be told from the sealed bytes, so it is one of these two.
    let pretty = json.ends_with(b"\n}");
    let mut sealed = body.to_vec();
    sealed.extend_from_slice(SEAL.as_bytes());
    sealed.extend_from_slice(digest.as_bytes());
    sealed.extend_from_slice(if pretty { END.as_bytes() } else { b"\"}" });
    sealed
}

/// Compares a document with its seal, if it has one, and removes the seal.
///
/// # Errors
/// [`StoreError::Damaged`]; `name` is the document's object.
pub fn remove_seal(
    store: &Store,
    name: &str,
    bytes: &[u8],
    remedy: FileRemedy,
) -> Result<UnsealedDocument, StoreError> {
    let Some((json, digest)) = split_seal(bytes) else {
        return Ok(UnsealedDocument { json: bytes.to_vec(), sealed: false });
    };
    let found = blake3::hash(&json).to_hex();
    if found.as_bytes() != digest {
        return Err(StoreError::Damaged {
            path: store.full_name(name),
            found: format!("its BLAKE3 digest is {found}"),
            expected: String::from_utf8_lossy(digest).into_owned(),
            hint: remedy.hint(),
        });
    }
    Ok(UnsealedDocument { json, sealed: true })
}

/// The document without its seal, and the digest in the seal.
fn split_seal(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (rest, end) = match bytes.strip_suffix(END.as_bytes()) {
        Some(rest) => (rest, "\n}"),
        None => (bytes.strip_suffix(b"\"}")?, "}"),
    };
    let (rest, digest) = rest.split_at_checked(rest.len().checked_sub(DIGEST_LETTERS)?)?;
    let mut json = rest.strip_suffix(SEAL.as_bytes())?.to_vec();
    json.extend_from_slice(end.as_bytes());
    Some((json, digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unseal(bytes: &[u8]) -> Result<UnsealedDocument, StoreError> {
        remove_seal(&Store::open("memory:").unwrap(), "a.json", bytes, FileRemedy::Restore)
    }

    #[test]
    fn a_seal_is_added_and_removed() {
        for json in ["{\n  \"a\": 1\n}", "{\"a\":{\"b\":[]}}"] {
            let sealed = add_seal(json.as_bytes());
            assert!(serde_json::from_slice::<serde_json::Value>(&sealed).unwrap()["blake3"].is_string());
            assert_eq!(unseal(&sealed).unwrap(), UnsealedDocument { json: json.into(), sealed: true });
            assert_eq!(unseal(json.as_bytes()).unwrap(), UnsealedDocument { json: json.into(), sealed: false });
        }
    }

    /// Each bit in turn: an error here, an error of JSON, or the same values.
    #[test]
    fn no_flipped_bit_changes_a_value() {
        #[derive(serde::Deserialize, Debug, PartialEq)]
        struct Pair {
            a: u64,
            text: String,
        }
        let sealed = add_seal(b"{\n  \"a\": 127,\n  \"text\": \"q\"\n}");
        let whole = Pair { a: 127, text: "q".to_owned() };
        for bit in 0..sealed.len() * 8 {
            let mut bytes = sealed.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(document) = unseal(&bytes)
                && let Ok(read) = serde_json::from_slice::<Pair>(&document.json)
            {
                assert_eq!(read, whole, "bit {bit}");
            }
        }
    }
}
