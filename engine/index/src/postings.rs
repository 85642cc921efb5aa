//! Posting lists: the passages with a term, and its frequency in each.
//!
//! A term of at least a fifth of the passages is **dense**: a table with its frequency in each passage, half a byte
//! each, 0 if absent. 15 stands for "15 or more"; such passages are among the exceptions `{passage u32, frequency
//! u32}`, whose count (u32) and entries follow the table. A dense list is scored without decoding, and a look-up
//! costs one load.
//!
//! All other lists are **blocks** of 128 postings, the last one shorter. A block is a run of gaps (difference to the
//! previous passage, less 1) and a run of frequencies less 1, each bit-packed at the smallest sufficient width. Lists
//! of several blocks begin with a table `{last passage u32, start of the block u32, gap bits u8, frequency bits u8,
//! highest frequency u8 (255: or more), shortest passage u8 (or longer)}`, single blocks with the two widths.
//!
//! Reading never leaves the section's bytes, even if they are damaged: anything outside reads as an empty block.

pub(crate) mod cursor;

use crate::simd;

/// Postings in a block.
pub(crate) const BLOCK: usize = 128;
/// Bytes of a block's entry in the table.
const ENTRY: usize = 12;
/// A term is dense if its document frequency times this is at least the number of passages.
const DENSE_SHARE: u64 = 5;

/// Facts about an encoded list for the term's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncodedList {
    pub dense: bool,
    pub shortest: u32,
    pub highest: u32,
}

fn bit_width(largest: u32) -> u8 {
    (32 - largest.leading_zeros()) as u8
}

/// Appends the values, `bits` bits each, the first in the lowest bits.
fn pack_bits(values: impl Iterator<Item = u32>, bits: u8, out: &mut Vec<u8>) {
    let (mut held, mut count) = (0u64, 0u32);
    for value in values {
        held |= u64::from(value) << count;
        count += u32::from(bits);
        while count >= 8 {
            out.push(held as u8);
            held >>= 8;
            count -= 8;
        }
    }
    if count > 0 {
        out.push(held as u8);
    }
}

/// Appends the list of one term. `docs` ascend; `lengths` are the lengths of all passages.
pub(crate) fn encode_list(docs: &[u32], frequencies: &[u32], lengths: &[u32], out: &mut Vec<u8>) -> EncodedList {
    let highest = frequencies.iter().copied().max().unwrap_or(0);
    let shortest = docs.iter().map(|&doc| lengths[doc as usize]).min().unwrap_or(0);
    let dense = docs.len() as u64 * DENSE_SHARE >= lengths.len() as u64;
    if dense {
        encode_dense(docs, frequencies, lengths.len(), out);
    } else {
        encode_blocks(docs, frequencies, lengths, out);
    }
    EncodedList { dense, shortest, highest }
}

fn encode_dense(docs: &[u32], frequencies: &[u32], passages: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + passages.div_ceil(2), 0);
    let mut exceptions = Vec::new();
    for (&doc, &frequency) in docs.iter().zip(frequencies) {
        out[start + doc as usize / 2] |= (frequency.min(15) as u8) << (4 * (doc % 2));
        if frequency >= 15 {
            exceptions.push((doc, frequency));
        }
    }
    out.extend_from_slice(&(exceptions.len() as u32).to_le_bytes());
    for (doc, frequency) in exceptions {
        out.extend_from_slice(&doc.to_le_bytes());
        out.extend_from_slice(&frequency.to_le_bytes());
    }
}

fn encode_blocks(docs: &[u32], frequencies: &[u32], lengths: &[u32], out: &mut Vec<u8>) {
    let blocks = docs.len().div_ceil(BLOCK);
    let table = out.len();
    if blocks > 1 {
        out.resize(table + blocks * ENTRY, 0);
    }
    let data = out.len();
    let mut before = u32::MAX;
    for (b, (docs, frequencies)) in docs.chunks(BLOCK).zip(frequencies.chunks(BLOCK)).enumerate() {
        let gaps = |mut last: u32| {
            docs.iter().map(move |&doc| {
                let gap = doc.wrapping_sub(last).wrapping_sub(1);
                last = doc;
                gap
            })
        };
        let gap_bits = bit_width(gaps(before).max().unwrap_or(0));
        let highest = frequencies.iter().copied().max().unwrap_or(1);
        let frequency_bits = bit_width(highest - 1);
        if blocks > 1 {
            let shortest = docs.iter().map(|&doc| lengths[doc as usize]).min().unwrap_or(0);
            let (last, start) = (docs[docs.len() - 1], (out.len() - data) as u32);
            let entry = &mut out[table + b * ENTRY..table + (b + 1) * ENTRY];
            entry[..4].copy_from_slice(&last.to_le_bytes());
            entry[4..8].copy_from_slice(&start.to_le_bytes());
            entry[8..].copy_from_slice(&[gap_bits, frequency_bits, highest.min(255) as u8, shortest.min(255) as u8]);
        } else {
            out.extend_from_slice(&[gap_bits, frequency_bits]);
        }
        pack_bits(gaps(before), gap_bits, out);
        pack_bits(frequencies.iter().map(|&f| f - 1), frequency_bits, out);
        before = docs[docs.len() - 1];
    }
}

/// A dense list.
#[derive(Clone, Copy)]
pub(crate) struct DenseList<'a> {
    /// Half a byte for each passage.
    pub table: &'a [u8],
    exceptions: &'a [u8],
}

impl<'a> DenseList<'a> {
    pub(crate) fn new(bytes: &'a [u8], passages: u32) -> Self {
        let size = (passages as usize).div_ceil(2);
        let (table, rest) = bytes.split_at_checked(size).unwrap_or((&[], &[]));
        let (count, rest) = rest.split_at_checked(4).unwrap_or((&[0; 4], &[]));
        let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]) as usize;
        let exceptions = rest.get(..count.saturating_mul(8)).unwrap_or(&[]);
        Self { table, exceptions }
    }

    /// The term's frequency in `doc`, 0 if the passage lacks it.
    #[inline]
    pub(crate) fn frequency(&self, doc: u32) -> u32 {
        let pair = self.table.get(doc as usize / 2).copied().unwrap_or(0);
        let small = u32::from(pair >> (4 * (doc % 2)) & 15);
        if small == 15 { self.exception_frequency(doc) } else { small }
    }

    fn exception_frequency(&self, doc: u32) -> u32 {
        let (mut low, mut high) = (0, self.exceptions.len() / 8);
        while low < high {
            let middle = usize::midpoint(low, high);
            let (at, frequency) = self.exception_at(middle);
            match at.cmp(&doc) {
                std::cmp::Ordering::Equal => return frequency,
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        15
    }

    fn exception_at(&self, index: usize) -> (u32, u32) {
        let e = &self.exceptions[index * 8..index * 8 + 8];
        (u32::from_le_bytes([e[0], e[1], e[2], e[3]]), u32::from_le_bytes([e[4], e[5], e[6], e[7]]))
    }

    /// The passages of `from..to` with a frequency of 15 or more, with this frequency. A damaged table is not sorted;
    /// its entries before `from` are left out, so that callers can rely on the range.
    pub(crate) fn exceptions(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (mut low, mut high) = (0, self.exceptions.len() / 8);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.exception_at(middle).0 < from { low = middle + 1 } else { high = middle }
        }
        let rest = (low..self.exceptions.len() / 8).map(|i| self.exception_at(i));
        rest.take_while(move |&(doc, _)| doc < to).filter(move |&(doc, _)| doc >= from)
    }
}

/// The position of a block.
#[derive(Debug, Clone, Copy)]
struct BlockPlace {
    /// Offset of its first byte.
    start: usize,
    count: usize,
    gap_bits: u8,
    frequency_bits: u8,
}

/// A list of blocks.
#[derive(Clone, Copy)]
pub(crate) struct BlockList<'a> {
    /// From the list's first byte to the end of the section and its slack.
    bytes: &'a [u8],
    postings: u32,
}

impl<'a> BlockList<'a> {
    pub(crate) fn new(bytes: &'a [u8], postings: u32) -> Self {
        Self { bytes, postings }
    }

    pub(crate) fn block_count(&self) -> usize {
        (self.postings as usize).div_ceil(BLOCK)
    }

    #[inline]
    fn word_at(&self, at: usize) -> u32 {
        self.bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// The last passage of block `b`; for a single block, the last possible passage.
    #[inline]
    pub(crate) fn last_passage(&self, b: usize) -> u32 {
        if self.block_count() == 1 { u32::MAX - 1 } else { self.word_at(b * ENTRY) }
    }

    /// An upper bound of the frequencies in block `b` (`None`: unknown) and a lower bound of its passages' lengths.
    #[inline]
    pub(crate) fn block_bounds(&self, b: usize) -> (Option<u32>, u32) {
        if self.block_count() == 1 {
            return (None, 0);
        }
        let word = self.word_at(b * ENTRY + 8);
        let highest = word >> 16 & 255;
        ((highest < 255).then_some(highest), word >> 24)
    }

    fn block_place(&self, b: usize) -> BlockPlace {
        let blocks = self.block_count();
        let count = if b + 1 == blocks { self.postings as usize - b * BLOCK } else { BLOCK };
        let (start, widths) = if blocks == 1 {
            (2, self.word_at(0))
        } else {
            (blocks * ENTRY + self.word_at(b * ENTRY + 4) as usize, self.word_at(b * ENTRY + 8))
        };
        BlockPlace { start, count, gap_bits: widths as u8, frequency_bits: (widths >> 8) as u8 }
    }

    /// Decodes the passages of block `b`. Returns their number.
    #[inline]
    pub(crate) fn decode_docs(&self, b: usize, out: &mut [u32; BLOCK], level: simd::InstructionLevel) -> usize {
        let place = self.block_place(b);
        let before = if b == 0 { u32::MAX } else { self.last_passage(b - 1) };
        let bytes = self.bytes.get(place.start..).unwrap_or(&[]);
        if simd::unpack(level, bytes, place.gap_bits, place.count, out) {
            simd::sum_gaps(level, before, out);
            place.count
        } else {
            0
        }
    }

    /// Decodes the frequencies of block `b`.
    #[inline]
    pub(crate) fn decode_frequencies(&self, b: usize, out: &mut [u32; BLOCK], level: simd::InstructionLevel) {
        let place = self.block_place(b);
        let start = place.start + (place.count * place.gap_bits as usize).div_ceil(8);
        let bytes = self.bytes.get(start..).unwrap_or(&[]);
        if !simd::unpack(level, bytes, place.frequency_bits, place.count, out) {
            out.fill(0);
        }
        simd::increment(out);
    }

    /// The frequency of posting `i` of block `b`.
    #[inline]
    pub(crate) fn frequency(&self, b: usize, i: usize) -> u32 {
        let place = self.block_place(b);
        if place.frequency_bits == 0 {
            return 1;
        }
        let start = place.start + (place.count * place.gap_bits as usize).div_ceil(8);
        simd::unpack_one(self.bytes.get(start..).unwrap_or(&[]), place.frequency_bits, i).wrapping_add(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The list, read whole and posting by posting.
    fn decoded(
        bytes: &[u8],
        df: u32,
        dense: bool,
        passages: u32,
        level: simd::InstructionLevel,
    ) -> [Vec<(u32, u32)>; 2] {
        if dense {
            let list = DenseList::new(bytes, passages);
            let all: Vec<_> = (0..passages).map(|doc| (doc, list.frequency(doc))).filter(|&(_, f)| f > 0).collect();
            return [all.clone(), all];
        }
        let list = BlockList::new(bytes, df);
        let (mut docs, mut frequencies) = ([0; BLOCK], [0; BLOCK]);
        let (mut out, mut singles) = (Vec::new(), Vec::new());
        for b in 0..list.block_count() {
            let n = list.decode_docs(b, &mut docs, level);
            list.decode_frequencies(b, &mut frequencies, level);
            out.extend((0..n).map(|i| (docs[i], frequencies[i])));
            singles.extend((0..n).map(|i| (docs[i], list.frequency(b, i))));
        }
        [out, singles]
    }

    #[test]
    fn exceptions_of_a_damaged_table_are_within_the_range() {
        let passages = 64;
        let mut bytes = vec![0xff; passages as usize / 2];
        let table = [(40u32, 20u32), (41, 30), (42, 16), (3, 99), (43, 17)];
        bytes.extend_from_slice(&(table.len() as u32).to_le_bytes());
        table.iter().for_each(|(doc, frequency)| {
            bytes.extend_from_slice(&doc.to_le_bytes());
            bytes.extend_from_slice(&frequency.to_le_bytes());
        });
        let list = DenseList::new(&bytes, passages);
        assert_eq!(list.exceptions(32, 64).collect::<Vec<_>>(), [(40, 20), (41, 30), (42, 16), (43, 17)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn lists_round_trip(passages in 1u32..40_000, share in 1u32..2000, seed in any::<u64>()) {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as u32
            };
            let mut postings: Vec<(u32, u32)> =
                (0..passages).filter(|_| next() % share == 0).map(|doc| (doc, 0)).collect();
            for p in &mut postings { p.1 = if next() % 50 == 0 { next() % 70_000 + 1 } else { next() % 3 + 1 }; }
            prop_assume!(!postings.is_empty());
            let (docs, frequencies): (Vec<u32>, Vec<u32>) = postings.iter().copied().unzip();
            let lengths: Vec<u32> = (0..passages).map(|_| next() % 400).collect();
            let mut bytes = Vec::new();
            let encoded = encode_list(&docs, &frequencies, &lengths, &mut bytes);
            bytes.resize(bytes.len() + 64, 0);
            for level in simd::InstructionLevel::supported_levels() {
                for list in decoded(&bytes, docs.len() as u32, encoded.dense, passages, level) {
                    prop_assert_eq!(&list, &postings);
                }
            }
            prop_assert_eq!(encoded.highest, frequencies.iter().copied().max().unwrap());
        }

        #[test]
        fn any_bytes_are_read_in_bounds(bytes in proptest::collection::vec(any::<u8>(), 0..600), df in 1u32..1000) {
            for level in simd::InstructionLevel::supported_levels() {
                let _ = decoded(&bytes, df, false, 1000, level);
                let _ = decoded(&bytes, df, true, 1000, level);
            }
        }
    }
}
