//! The pieces of words that were tokenised alone before, within a bound of bytes. It never changes a piece.
//!
//! There are two generations. New words go to the young one. When it is full, the old one is dropped and the young one
//! becomes old: a frequent word that is lost with the old one is tokenised once more, and is young again. So a look-up
//! changes nothing, and threads look up beside each other.

use rustc_hash::FxHashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Longest word that is kept, in bytes. A longer one hardly comes twice.
const LONGEST_WORD: usize = 64;

/// Bytes of an entry beside its word and pieces: both boxes with their allocations, and its place in the table.
const ENTRY_BYTES: usize = 96;

/// A piece of a word: its id, and its characters in the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachedPiece {
    pub(super) id: u32,
    pub(super) characters: (u32, u32),
}

type PieceGeneration = FxHashMap<Box<str>, Box<[CachedPiece]>>;

/// A bounded map of words to pieces, shared by threads.
#[derive(Debug)]
pub(super) struct PieceCache {
    most_bytes: usize,
    known: RwLock<KnownPieces>,
}

/// The words at hand.
#[derive(Debug, Default)]
pub(super) struct KnownPieces {
    young: PieceGeneration,
    young_bytes: usize,
    old: PieceGeneration,
}

impl PieceCache {
    /// For at most `most_bytes`.
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, known: RwLock::default() }
    }

    /// The words at hand, for many look-ups. No word is kept meanwhile.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, KnownPieces> {
        // A panic in another thread leaves only whole entries behind.
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the pieces of a word.
    pub(super) fn keep(&self, word: &str, pieces: &[CachedPiece]) {
        let bytes = word.len() + size_of_val(pieces) + ENTRY_BYTES;
        let most = self.most_bytes / 2;
        if word.len() > LONGEST_WORD || bytes > most {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.young_bytes + bytes > most {
            known.old = std::mem::take(&mut known.young);
            known.young_bytes = 0;
        }
        if known.young.insert(word.into(), pieces.into()).is_none() {
            known.young_bytes += bytes;
        }
    }
}

impl KnownPieces {
    /// The pieces of a word, if they are known.
    pub(super) fn of_word(&self, word: &str) -> Option<&[CachedPiece]> {
        self.young.get(word).or_else(|| self.old.get(word)).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_within_the_bound() {
        let cache = PieceCache::new(4000);
        let piece = |id| CachedPiece { id, characters: (0, 8) };
        for id in 0..1000 {
            cache.keep(&format!("word{id:04}"), &[piece(id)]);
            let known = cache.read();
            assert_eq!(known.of_word(&format!("word{id:04}")), Some(&[piece(id)][..]));
            // 8 bytes of the word, 12 of the piece, and the entry's.
            assert!((known.young.len() + known.old.len()) * (8 + 12 + ENTRY_BYTES) <= 4000);
        }
        let known = cache.read();
        assert_eq!((known.of_word("word0000"), known.of_word("word0980").is_some()), (None, true));
    }

    #[test]
    fn words_without_pieces_are_known_and_long_words_are_not_kept() {
        let cache = PieceCache::new(4000);
        cache.keep(" ", &[]);
        let longest = "x".repeat(LONGEST_WORD);
        cache.keep(&longest, &[]);
        cache.keep(&format!("{longest}x"), &[]);
        let known = cache.read();
        assert_eq!((known.of_word(" "), known.of_word(&longest)), (Some(&[][..]), Some(&[][..])));
        assert_eq!(known.of_word(&format!("{longest}x")), None);
        drop(known);
        let small = PieceCache::new(200);
        small.keep("word", &[]);
        assert_eq!((small.read().young.len(), small.read().young_bytes), (1, 100));
        small.keep("words", &[]);
        assert_eq!(small.read().of_word("words"), None, "larger than a generation");
    }
}
