//! The digests of a corpus: BLAKE3 over a canonical encoding of its content, in order.
//!
//! Strings and lists are prefixed with their length and numbers are little-endian, so different contents have
//! different encodings. Neither the batch size nor the layout of files enters.

use crate::info::LinkOrigin;

const BLOCK: usize = 1 << 16;

/// A BLAKE3 hasher with a buffer for small pieces: the hash is several times faster on long input.
pub(crate) struct CanonicalHasher {
    pending: Vec<u8>,
    hasher: blake3::Hasher,
}

impl CanonicalHasher {
    fn new(domain: &str) -> Self {
        let mut canonical = Self { pending: Vec::with_capacity(BLOCK), hasher: blake3::Hasher::new() };
        canonical.push_string(domain);
        canonical
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= BLOCK {
            self.hasher.update(&self.pending);
            self.pending.clear();
        }
    }

    fn push_string(&mut self, string: &str) {
        self.push_bytes(&(string.len() as u64).to_le_bytes());
        self.push_bytes(string.as_bytes());
    }

    fn push_count(&mut self, count: usize) {
        self.push_bytes(&(count as u64).to_le_bytes());
    }

    fn push_number(&mut self, number: u32) {
        self.push_bytes(&number.to_le_bytes());
    }

    /// The digest in hexadecimal.
    pub(crate) fn finish(mut self) -> String {
        self.hasher.update(&self.pending);
        self.hasher.finalize().to_hex().to_string()
    }
}

/// Digest of the passages.
pub(crate) struct PassagesDigest(CanonicalHasher);

impl PassagesDigest {
    pub(crate) fn new() -> Self {
        Self(CanonicalHasher::new("hopeval passages 1"))
    }

    pub(crate) fn push_passage(&mut self, id: &str, title: &str, text: &str, sentences: &[u32]) {
        self.0.push_string(id);
        self.0.push_string(title);
        self.0.push_string(text);
        self.0.push_count(sentences.len());
        for &end in sentences {
            self.0.push_number(end);
        }
    }

    pub(crate) fn finish(self) -> String {
        self.0.finish()
    }
}

/// Digest of the links.
pub(crate) struct LinksDigest(CanonicalHasher);

impl LinksDigest {
    pub(crate) fn new(origin: LinkOrigin) -> Self {
        let mut canonical = CanonicalHasher::new("hopeval links 1");
        canonical.push_string(origin.as_str());
        Self(canonical)
    }

    pub(crate) fn push_passage(&mut self, links: impl ExactSizeIterator<Item = [u32; 3]>) {
        self.0.push_count(links.len());
        for number in links.flatten() {
            self.0.push_number(number);
        }
    }

    pub(crate) fn finish(self) -> String {
        self.0.finish()
    }
}

/// Digest of the aliases, in the input order of the duplicates.
pub(crate) fn of_aliases<'a>(aliases: impl ExactSizeIterator<Item = (&'a str, u32)>) -> String {
    let mut canonical = CanonicalHasher::new("hopeval aliases 1");
    canonical.push_count(aliases.len());
    for (id, passage) in aliases {
        canonical.push_string(id);
        canonical.push_number(passage);
    }
    canonical.finish()
}

/// Digest of a corpus from those of its parts.
pub(crate) fn of_parts(passages: &str, links: &str, aliases: &str) -> String {
    let mut canonical = CanonicalHasher::new("hopeval corpus 1");
    for part in [passages, links, aliases] {
        canonical.push_string(part);
    }
    canonical.finish()
}

/// Digest of raw bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The 64-bit key of a string in a lookup on disk.
pub(crate) fn string_key(string: &str) -> u64 {
    hash_halves(blake3::hash(string.as_bytes())).0
}

/// 128 bits of a passage's title and text. The first half is its key in a lookup; both together identify it during a
/// build.
pub(crate) fn content_key(title: &str, text: &str) -> (u64, u64) {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(title.len() as u64).to_le_bytes()).update(title.as_bytes()).update(text.as_bytes());
    hash_halves(hasher.finalize())
}

fn hash_halves(hash: blake3::Hash) -> (u64, u64) {
    let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7, ..] = *hash.as_bytes();
    (u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]), u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_run_into_each_other() {
        let digest = |id: &str, title: &str| {
            let mut digest = PassagesDigest::new();
            digest.push_passage(id, title, "", &[]);
            digest.finish()
        };
        assert_ne!(digest("ab", "c"), digest("a", "bc"));
        assert_ne!(content_key("ab", "c"), content_key("a", "bc"));
    }

    #[test]
    fn gathering_does_not_change_the_hash() {
        let mut canonical = CanonicalHasher::new("d");
        let mut whole = 1u64.to_le_bytes().to_vec();
        whole.push(b'd');
        for i in 0..40_000u32 {
            canonical.push_number(i);
            whole.extend(i.to_le_bytes());
        }
        assert_eq!(canonical.finish(), of_bytes(&whole));
    }
}
