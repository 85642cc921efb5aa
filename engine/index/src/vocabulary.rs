//! Maps terms to numbers and back, during a build and in the file.
//!
//! Terms are numbered in the order of their first occurrence in the corpus. In the file a term is a record of 16
//! bytes `{text start u32, document frequency u32, where u64}`. From the lowest bit, `where` holds the offset of its
//! postings (40 bits), whether they are dense (1), the length of the shortest passage with the term (15, capped) and
//! its highest frequency in a passage (8, capped; 255 means "255 or more"). One more record closes the table. A hash
//! table with open addressing maps a term to its number + 1; 0 is empty.

use std::ops::Range;

use crate::{
    container::{Container, SectionKind},
    error::IndexError,
};

const RECORD: usize = 16;
const OFFSET_BITS: u32 = 40;
const DENSE: u64 = 1 << OFFSET_BITS;
/// Cap of a record's shortest length.
pub(crate) const LENGTH_CAP: u32 = (1 << 15) - 1;
/// Cap of a record's highest frequency: this many or more.
pub(crate) const FREQUENCY_CAP: u32 = 255;
/// Maximum length of the posting section, in bytes.
pub(crate) const MOST_POSTING_BYTES: u64 = 1 << OFFSET_BITS;

/// The hash of a term. Part of the file format.
pub(crate) fn term_hash(term: &[u8]) -> u32 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = (term.len() as u64).wrapping_mul(K);
    let mut mix = |word: u64| {
        state = (state ^ word).wrapping_mul(K);
        state ^= state >> 29;
    };
    let mut chunks = term.chunks_exact(8);
    for chunk in &mut chunks {
        let mut eight = [0; 8];
        eight.copy_from_slice(chunk);
        mix(u64::from_le_bytes(eight));
    }
    let mut last = 0u64;
    for (i, &byte) in chunks.remainder().iter().enumerate() {
        last |= u64::from(byte) << (8 * i);
    }
    mix(last);
    (state.wrapping_mul(K) >> 32) as u32
}

/// A growing set of terms, numbered in the order of insertion.
#[derive(Default)]
pub(crate) struct TermInterner {
    text: Vec<u8>,
    ends: Vec<u64>,
    hashes: Vec<u32>,
    slots: Vec<u32>,
}

impl TermInterner {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.hashes.clear();
        self.slots.fill(0);
    }

    pub(crate) fn term(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] as usize };
        &self.text[start..self.ends[id] as usize]
    }

    pub(crate) fn hash_of(&self, id: u32) -> u32 {
        self.hashes[id as usize]
    }

    /// The number of `term`. The term is new if its number equals the former [`TermInterner::len`].
    pub(crate) fn intern(&mut self, term: &[u8], hash: u32) -> u32 {
        if (self.ends.len() + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            let id = self.slots[at] - 1;
            if self.hashes[id as usize] == hash && self.term(id) == term {
                return id;
            }
            at = (at + 1) & mask;
        }
        let id = self.ends.len() as u32;
        self.text.extend_from_slice(term);
        self.ends.push(self.text.len() as u64);
        self.hashes.push(hash);
        self.slots[at] = id + 1;
        id
    }

    fn grow(&mut self) {
        self.slots = hash_slots(&self.hashes, (self.slots.len() * 2).max(1024));
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The text's length after term `id`.
    pub(crate) fn text_end(&self, id: usize) -> u64 {
        self.ends[id]
    }

    /// The hash table for the file: at most two thirds full, to keep look-ups short.
    pub(crate) fn file_slots(&self) -> Vec<u32> {
        hash_slots(&self.hashes, (self.hashes.len() * 3 / 2 + 1).next_power_of_two())
    }
}

fn hash_slots(hashes: &[u32], size: usize) -> Vec<u32> {
    let mut slots = vec![0u32; size];
    for (id, &hash) in hashes.iter().enumerate() {
        let mut at = hash as usize & (size - 1);
        while slots[at] != 0 {
            at = (at + 1) & (size - 1);
        }
        slots[at] = id as u32 + 1;
    }
    slots
}

/// A term's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TermRecord {
    /// Passages with the term.
    pub document_frequency: u32,
    /// Start of its postings in the section of postings.
    pub offset: u64,
    /// Start of the next term's postings.
    pub end: u64,
    /// Whether the postings are a table over all passages.
    pub dense: bool,
    /// A lower bound of the lengths of the passages with the term.
    pub shortest: u32,
    /// Its highest frequency in a passage; `None` if it is not known exactly.
    pub highest: Option<u32>,
}

pub(crate) fn record_bytes(
    text_start: u32,
    df: u32,
    offset: u64,
    dense: bool,
    shortest: u32,
    highest: u32,
) -> [u8; 16] {
    let place = offset
        | if dense { DENSE } else { 0 }
        | u64::from(shortest.min(LENGTH_CAP)) << (OFFSET_BITS + 1)
        | u64::from(highest.min(FREQUENCY_CAP)) << 56;
    let mut bytes = [0; RECORD];
    bytes[..4].copy_from_slice(&text_start.to_le_bytes());
    bytes[4..8].copy_from_slice(&df.to_le_bytes());
    bytes[8..].copy_from_slice(&place.to_le_bytes());
    bytes
}

/// The sections of a vocabulary in a container. All starts and offsets were checked at opening.
pub(crate) struct Vocabulary {
    slots: Range<usize>,
    text: Range<usize>,
    terms: Range<usize>,
    count: usize,
}

fn word_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

fn long_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(word_at(bytes, at)) | u64::from(word_at(bytes, at + 4)) << 32
}

impl Vocabulary {
    /// Finds and checks the sections of `field`.
    pub(crate) fn open(container: &Container, field: u32, passages: u32) -> Result<Self, IndexError> {
        let slots = container.section(SectionKind::Slots, field)?;
        let text = container.section(SectionKind::TermText, field)?;
        let terms = container.section(SectionKind::Terms, field)?;
        let postings = container.section(SectionKind::Postings, field)?;
        let wrong = |what: &str| Err(container.corrupt_error(format!("{what} of field {field}")));
        if !slots.len().is_multiple_of(4) || !(slots.len() / 4).is_power_of_two() {
            return wrong("the size of the hash table");
        }
        if !terms.len().is_multiple_of(RECORD) || terms.is_empty() {
            return wrong("the size of the term table");
        }
        let count = terms.len() / RECORD - 1;
        if slots.len() / 4 <= count {
            return wrong("the size of the hash table");
        }
        let bytes = container.bytes();
        let (mut last_text, mut last_offset) = (0, 0);
        for record in bytes[terms.clone()].chunks_exact(RECORD) {
            let (start, df, offset) = (word_at(record, 0), word_at(record, 4), long_at(record, 8) & (DENSE - 1));
            let ordered = start >= last_text && offset >= last_offset;
            if !ordered || start as usize > text.len() || offset > postings.len() as u64 || df > passages {
                return wrong("a term record");
            }
            (last_text, last_offset) = (start, offset);
        }
        Ok(Self { slots, text, terms, count })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The number of `term`.
    pub(crate) fn find(&self, bytes: &[u8], term: &[u8]) -> Option<u32> {
        let (slots, text, terms) = (&bytes[self.slots.clone()], &bytes[self.text.clone()], &bytes[self.terms.clone()]);
        let mask = slots.len() / 4 - 1;
        let mut at = term_hash(term) as usize & mask;
        // The table has an empty slot, but a damaged file may not: the search is bounded.
        for _ in 0..=mask {
            let id = word_at(slots, at * 4).checked_sub(1)?;
            if (id as usize) < self.count {
                let record = id as usize * RECORD;
                if text.get(word_at(terms, record) as usize..word_at(terms, record + RECORD) as usize) == Some(term) {
                    return Some(id);
                }
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// The record of term `id`, which must be less than [`Vocabulary::len`].
    pub(crate) fn record(&self, bytes: &[u8], id: u32) -> TermRecord {
        let terms = &bytes[self.terms.clone()];
        let at = id as usize * RECORD;
        let place = long_at(terms, at + 8);
        let highest = (place >> 56) as u32;
        TermRecord {
            document_frequency: word_at(terms, at + 4),
            offset: place & (DENSE - 1),
            end: long_at(terms, at + RECORD + 8) & (DENSE - 1),
            dense: place & DENSE != 0,
            shortest: (place >> (OFFSET_BITS + 1)) as u32 & LENGTH_CAP,
            highest: (highest < FREQUENCY_CAP).then_some(highest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_numbered_as_they_come() {
        let mut interner = TermInterner::default();
        let terms: Vec<String> = (0..5000u32).map(|i| format!("t{}", i * i)).collect();
        for (i, term) in terms.iter().enumerate() {
            assert_eq!(interner.intern(term.as_bytes(), term_hash(term.as_bytes())), i as u32);
        }
        for (i, term) in terms.iter().enumerate() {
            assert_eq!(interner.intern(term.as_bytes(), term_hash(term.as_bytes())), i as u32);
            assert_eq!(interner.term(i as u32), term.as_bytes());
        }
        interner.clear();
        assert_eq!(interner.intern(b"x", term_hash(b"x")), 0);
    }

    #[test]
    fn the_hash_is_pinned_and_spreads() {
        // Files hold tables in the order of these numbers.
        let hashes = [term_hash(b""), term_hash(b"a"), term_hash(b"the"), term_hash(b"retrieval")];
        assert_eq!(hashes, [0, 2_921_196_007, 4_181_759_180, 2_789_393_624]);
        let mut low = vec![0u32; 1 << 12];
        for i in 0..1u32 << 16 {
            low[term_hash(format!("w{i}").as_bytes()) as usize & 0xfff] += 1;
        }
        assert!(low.iter().all(|&n| n < 60), "{:?}", low.iter().max());
    }
}
