//! A position in a list of blocks that only moves forward.

use super::{BLOCK, BlockList};
use crate::simd::InstructionLevel;

/// The decoded postings of one block, with the block's number.
pub(crate) struct BlockCursor<'a> {
    list: BlockList<'a>,
    level: InstructionLevel,
    /// The number of the block in `docs`; the number of blocks at the end.
    block: usize,
    /// Postings of the block.
    count: usize,
    /// The next posting of the block.
    at: usize,
    docs: [u32; BLOCK],
    frequencies: [u32; BLOCK],
    /// Whether `frequencies` belong to `block`.
    has_frequencies: bool,
}

impl<'a> BlockCursor<'a> {
    pub(crate) fn new(list: BlockList<'a>, level: InstructionLevel) -> Self {
        let mut cursor = Self {
            list,
            level,
            block: 0,
            count: 0,
            at: 0,
            docs: [0; BLOCK],
            frequencies: [0; BLOCK],
            has_frequencies: false,
        };
        cursor.load_block(0);
        cursor
    }

    fn load_block(&mut self, block: usize) {
        self.block = block;
        self.at = 0;
        self.has_frequencies = false;
        self.count =
            if block < self.list.block_count() { self.list.decode_docs(block, &mut self.docs, self.level) } else { 0 };
    }

    /// The passage at the position; `None` at the end.
    #[inline]
    pub(crate) fn current_doc(&self) -> Option<u32> {
        (self.at < self.count).then(|| self.docs[self.at])
    }

    /// Hands the current block's postings before passage `end` to `take` and moves past them. Returns false once the
    /// next posting is at or after `end`, or the list has ended. Call it until it returns false.
    #[inline]
    pub(crate) fn take_before(&mut self, end: u32, mut take: impl FnMut(&[u32], &[u32])) -> bool {
        if self.at >= self.count {
            return false;
        }
        let stop = if self.docs[self.count - 1] < end {
            self.count
        } else {
            self.at + self.docs[self.at..self.count].partition_point(|&doc| doc < end)
        };
        if stop > self.at {
            if !self.has_frequencies {
                self.list.decode_frequencies(self.block, &mut self.frequencies, self.level);
                self.has_frequencies = true;
            }
            take(&self.docs[self.at..stop], &self.frequencies[self.at..stop]);
            self.at = stop;
        }
        if stop < self.count {
            return false;
        }
        self.load_block(self.block + 1);
        self.count > 0
    }

    /// The current or a later block, the first that may have `doc`, found without decoding. If there is none, the
    /// cursor moves to the end of the list.
    #[inline]
    fn seek_block(&mut self, doc: u32) -> Option<usize> {
        let blocks = self.list.block_count();
        if self.block >= blocks {
            return None;
        }
        if self.list.last_passage(self.block) >= doc {
            return Some(self.block);
        }
        // Gallop, then bisect: neighbours are near in long batches, far in sparse ones.
        let (mut low, mut step) = (self.block, 1);
        while low + step < blocks && self.list.last_passage(low + step) < doc {
            low += step;
            step *= 2;
        }
        let mut high = (low + step).min(blocks);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if self.list.last_passage(middle) < doc { low = middle } else { high = middle }
        }
        if high >= blocks {
            self.block = blocks;
            self.count = 0;
            self.at = 0;
            return None;
        }
        Some(high)
    }

    /// Moves to the first passage at or after `doc`.
    pub(crate) fn skip_to(&mut self, doc: u32) {
        if self.current_doc().is_none_or(|here| here >= doc) {
            return;
        }
        let Some(block) = self.seek_block(doc) else { return };
        if block != self.block {
            self.load_block(block);
        }
        self.at += self.docs[self.at..self.count].partition_point(|&d| d < doc);
    }

    /// The frequency of the term in `doc`, 0 if the passage lacks it. Moves to `doc`; passages must ascend.
    #[inline]
    pub(crate) fn frequency(&mut self, doc: u32) -> u32 {
        let Some(block) = self.seek_block(doc) else { return 0 };
        if block != self.block {
            self.load_block(block);
        }
        let docs = &self.docs[self.at..self.count];
        // Near the position first: in a short list the wanted passage is often the next one.
        let skip = match docs.get(4) {
            Some(&near) if near < doc => docs.partition_point(|&d| d < doc),
            _ => docs.iter().take_while(|&&d| d < doc).count(),
        };
        self.at += skip;
        if self.at < self.count && self.docs[self.at] == doc { self.list.frequency(self.block, self.at) } else { 0 }
    }

    /// As [`BlockCursor::frequency`], but `None`, without decoding, for blocks whose bounds `promising` refuses.
    #[inline]
    pub(crate) fn frequency_if(&mut self, doc: u32, promising: impl FnOnce(Option<u32>, u32) -> bool) -> Option<u32> {
        let Some(block) = self.seek_block(doc) else { return Some(0) };
        if block != self.block {
            let (highest, shortest) = self.list.block_bounds(block);
            if !promising(highest, shortest) {
                return None;
            }
        }
        Some(self.frequency(doc))
    }
}
