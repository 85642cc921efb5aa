//! Word lengths of chunks that were cut before, as spaCy keeps them. It never changes a word.

use rustc_hash::FxHashMap;
use std::sync::{PoisonError, RwLock};

/// Most chunks. Words follow Zipf's law, so the first ones are the frequent ones.
const MOST_CHUNKS: usize = 1 << 16;

/// Longest chunk that is kept, in bytes. A word's length fits a byte.
const LONGEST_CHUNK: usize = 64;

/// Lengths of the words of frequent chunks, in bytes.
#[derive(Debug, Default)]
pub(crate) struct ChunkCache {
    lengths: RwLock<FxHashMap<Box<str>, Box<[u8]>>>,
}

impl ChunkCache {
    /// Calls `take` with the lengths of a chunk's words if they are known, and says whether they are.
    pub(crate) fn with_lengths(&self, chunk: &str, take: impl FnOnce(LengthsOfWords<'_>)) -> bool {
        // A panic in another thread leaves only whole entries behind.
        let lengths = self.lengths.read().unwrap_or_else(PoisonError::into_inner);
        let found = lengths.get(chunk);
        if let Some(found) = found {
            take(found.iter().map(|&length| usize::from(length)));
        }
        found.is_some()
    }

    /// Keeps the lengths of a chunk's words, if there is room.
    pub(crate) fn keep(&self, chunk: &str, words: &[usize]) {
        if chunk.len() > LONGEST_CHUNK {
            return;
        }
        let short: Option<Box<[u8]>> = words.iter().map(|&length| u8::try_from(length).ok()).collect();
        let mut lengths = self.lengths.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(short) = short.filter(|_| lengths.len() < MOST_CHUNKS) {
            lengths.insert(chunk.into(), short);
        }
    }
}

/// The lengths of a chunk's words.
pub(crate) type LengthsOfWords<'c> = std::iter::Map<std::slice::Iter<'c, u8>, fn(&u8) -> usize>;

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(cache: &ChunkCache, chunk: &str) -> Option<Vec<usize>> {
        let mut found = None;
        cache.with_lengths(chunk, |lengths| found = Some(lengths.collect()));
        found
    }

    #[test]
    fn chunks_are_kept_within_bounds() {
        let cache = ChunkCache::default();
        for number in 0..MOST_CHUNKS + 9 {
            cache.keep(&number.to_string(), &[number.to_string().len()]);
        }
        assert_eq!(kept(&cache, "70"), Some(vec![2]));
        assert_eq!(kept(&cache, &MOST_CHUNKS.to_string()), None, "the cache is full");
        let cache = ChunkCache::default();
        cache.keep(&"x".repeat(LONGEST_CHUNK + 1), &[LONGEST_CHUNK + 1]);
        assert_eq!(kept(&cache, &"x".repeat(LONGEST_CHUNK + 1)), None);
    }
}
