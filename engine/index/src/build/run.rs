//! One chunk of passages during a build: counted, numbered, encoded compactly.

use crate::IndexError;
use crate::vocabulary::{TermInterner, term_hash};

/// A term of a passage.
struct RunEntry {
    /// The term, numbered within the run.
    term: u32,
    /// The passage, counted from the run's first.
    doc: u32,
    frequency: u32,
}

/// The last passage with a term of the run, and its entry.
#[derive(Clone, Copy)]
struct LatestEntry {
    doc: u32,
    entry: u32,
}

/// A run. Its allocations are reused for the next chunk.
#[derive(Default)]
pub(super) struct PassageRun {
    first: u32,
    terms: TermInterner,
    entries: Vec<RunEntry>,
    latest: Vec<LatestEntry>,
    lengths: Vec<u32>,
    /// (number in the index, number in the run), by the former.
    numbers: Vec<(u32, u32)>,
    /// The lists of `numbers`' terms, one after the other, and the end of each.
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<u32>,
}

impl PassageRun {
    /// Takes the terms of passages `from..to`; `each(id, emit)` emits those of one passage.
    pub(super) fn fill_terms(&mut self, from: u32, to: u32, mut each: impl FnMut(u32, &mut dyn FnMut(&[u8]))) {
        self.first = from;
        self.terms.clear();
        self.entries.clear();
        self.latest.clear();
        self.lengths.clear();
        let Self { terms, entries, latest, lengths, .. } = self;
        for id in from..to {
            let (doc, mut length) = (id - from, 0);
            each(id, &mut |term| {
                length += 1;
                let term = terms.intern(term, term_hash(term));
                if term as usize == latest.len() {
                    latest.push(LatestEntry { doc: u32::MAX, entry: 0 });
                }
                let latest = &mut latest[term as usize];
                if latest.doc == doc {
                    entries[latest.entry as usize].frequency += 1;
                } else {
                    *latest = LatestEntry { doc, entry: entries.len() as u32 };
                    entries.push(RunEntry { term, doc, frequency: 1 });
                }
            });
            lengths.push(length);
        }
    }

    /// Checks that the run's offsets fit 32 bits: of its entries, and of its bytes once they are encoded.
    ///
    /// # Errors
    /// [`IndexError::TooLarge`]: passages like whole books.
    pub(super) fn check_size(&self) -> Result<(), IndexError> {
        check_offsets("terms in 32768 passages", self.entries.len() as u64)?;
        check_offsets("bytes of postings in 32768 passages", self.bytes.len() as u64)
    }

    pub(super) fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// Gives the run's terms their numbers in the index and adds to their document frequencies. Runs are numbered in
    /// corpus order, so numbers follow first occurrence.
    pub(super) fn number_terms(&mut self, index: &mut TermInterner, frequencies: &mut Vec<u32>) {
        self.numbers.clear();
        for local in 0..self.terms.len() as u32 {
            self.numbers.push((index.intern(self.terms.term(local), self.terms.hash_of(local)), local));
        }
        frequencies.resize(index.len(), 0);
        for entry in &self.entries {
            frequencies[self.numbers[entry.term as usize].0 as usize] += 1;
        }
        self.numbers.sort_unstable();
    }

    /// The terms' numbers in the index, ascending, in the order of the lists in `bytes`.
    pub(super) fn terms(&self) -> impl Iterator<Item = u32> + '_ {
        self.numbers.iter().map(|&(number, _)| number)
    }

    /// Writes the entries into `bytes`, term by term: for each posting the distance to the previous one (the first to
    /// passage 0 of the index) and its frequency.
    pub(super) fn encode_lists(&mut self) {
        // A counting sort by term; within a term entries stay in passage order.
        let mut starts = vec![0u32; self.terms.len() + 1];
        self.entries.iter().for_each(|e| starts[e.term as usize + 1] += 1);
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut sorted = vec![(0u32, 0u32); self.entries.len()];
        for entry in &self.entries {
            let at = &mut next[entry.term as usize];
            sorted[*at as usize] = (entry.doc, entry.frequency);
            *at += 1;
        }
        self.bytes.clear();
        self.ends.clear();
        for &(_, local) in &self.numbers {
            let mut before = 0;
            for &(doc, frequency) in &sorted[starts[local as usize] as usize..starts[local as usize + 1] as usize] {
                let doc = self.first + doc;
                // Most postings have frequency 1: it costs a bit, not a byte.
                let gap = u64::from(doc - before) << 1;
                if frequency == 1 {
                    push_varint(gap, &mut self.bytes);
                } else {
                    push_varint(gap | 1, &mut self.bytes);
                    push_varint(u64::from(frequency), &mut self.bytes);
                }
                before = doc;
            }
            self.ends.push(self.bytes.len() as u32);
        }
    }
}

fn check_offsets(what: &'static str, length: u64) -> Result<(), IndexError> {
    let limit = u64::from(u32::MAX);
    if length > limit { Err(IndexError::TooLarge { what, limit }) } else { Ok(()) }
}

/// Appends a number, seven bits per byte.
fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn pull_varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 || shift > 56 {
            break;
        }
    }
    value
}

/// Appends the postings of one list written by [`PassageRun::encode_lists`].
pub(super) fn decode_postings(mut bytes: &[u8], docs: &mut Vec<u32>, frequencies: &mut Vec<u32>) {
    let mut doc = 0;
    while !bytes.is_empty() {
        let gap = pull_varint(&mut bytes);
        doc += (gap >> 1) as u32;
        docs.push(doc);
        frequencies.push(if gap & 1 == 1 { pull_varint(&mut bytes) as u32 } else { 1 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_beyond_32_bits_are_refused() {
        assert!(check_offsets("bytes", u64::from(u32::MAX)).is_ok());
        let error = check_offsets("bytes", u64::from(u32::MAX) + 1).unwrap_err();
        assert_eq!(error.to_string(), "the corpus has more bytes than an index holds (4294967295)");
        let mut run = PassageRun::default();
        run.fill_terms(0, 3, |id, emit| (0..=id).for_each(|n| emit(&[b'a' + n as u8])));
        let mut terms = TermInterner::default();
        run.number_terms(&mut terms, &mut Vec::new());
        run.encode_lists();
        assert!(run.check_size().is_ok());
    }
}
