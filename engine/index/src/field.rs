//! One field of an open index: vocabulary, lengths and postings. All offsets are checked at opening.

use std::ops::Range;

use crate::{
    container::{Container, SLACK, SectionKind},
    error::IndexError,
    postings::{BlockList, DenseList, cursor::BlockCursor},
    simd::{self, InstructionLevel},
    vocabulary::{TermRecord, Vocabulary},
};

/// The sections of a field in its container.
pub(crate) struct IndexField {
    pub vocabulary: Vocabulary,
    lengths: Range<usize>,
    postings: Range<usize>,
    passages: u32,
}

/// A posting list of either kind.
#[derive(Clone, Copy)]
pub(crate) enum PostingList<'a> {
    Dense(DenseList<'a>),
    Blocks(BlockList<'a>),
}

impl IndexField {
    pub(crate) fn open(container: &Container, field: u32, passages: u32) -> Result<Self, IndexError> {
        let vocabulary = Vocabulary::open(container, field, passages)?;
        let lengths = container.section(SectionKind::Lengths, field)?;
        let postings = container.section(SectionKind::Postings, field)?;
        let aligned = simd::aligned_words(&container.bytes()[lengths.clone()]);
        if aligned.len() != passages as usize || lengths.len() != passages as usize * 4 {
            return Err(container.corrupt_error(format!("the number of lengths of field {field}")));
        }
        Ok(Self { vocabulary, lengths, postings, passages })
    }

    /// The passages' lengths in tokens.
    pub(crate) fn lengths<'a>(&self, bytes: &'a [u8]) -> &'a [u32] {
        simd::aligned_words(&bytes[self.lengths.clone()])
    }

    /// The postings of a term.
    pub(crate) fn posting_list<'a>(&self, bytes: &'a [u8], record: &TermRecord) -> PostingList<'a> {
        // Vector loads may read into the slack after the section; the container has checked for it.
        let start = self.postings.start + record.offset as usize;
        if record.dense {
            let end = self.postings.start + record.end as usize;
            PostingList::Dense(DenseList::new(bytes.get(start..end).unwrap_or(&[]), self.passages))
        } else {
            let end = self.postings.end + SLACK as usize;
            PostingList::Blocks(BlockList::new(bytes.get(start..end).unwrap_or(&[]), record.document_frequency))
        }
    }
}

/// Reads a list, passages ascending.
pub(crate) enum PostingReader<'a> {
    Dense(DenseList<'a>),
    Blocks(Box<BlockCursor<'a>>),
}

impl<'a> PostingReader<'a> {
    pub(crate) fn new(list: PostingList<'a>, level: InstructionLevel) -> Self {
        match list {
            PostingList::Dense(dense) => Self::Dense(dense),
            PostingList::Blocks(blocks) => Self::Blocks(Box::new(BlockCursor::new(blocks, level))),
        }
    }

    #[inline]
    pub(crate) fn frequency(&mut self, doc: u32) -> u32 {
        match self {
            Self::Dense(dense) => dense.frequency(doc),
            Self::Blocks(cursor) => cursor.frequency(doc),
        }
    }

    /// Calls `each` with the passages of `from..to` that have the term, and with its frequency; `from` is the `to` of
    /// the previous call, or 0.
    #[inline]
    pub(crate) fn each_posting(&mut self, from: u32, to: u32, mut each: impl FnMut(u32, u32)) {
        match self {
            Self::Dense(dense) => (from..to).for_each(|doc| match dense.frequency(doc) {
                0 => {}
                frequency => each(doc, frequency),
            }),
            Self::Blocks(cursor) => {
                while cursor.take_before(to, |docs, frequencies| {
                    docs.iter().zip(frequencies).for_each(|(&doc, &frequency)| each(doc, frequency));
                }) {}
            }
        }
    }

    /// Whether a passage before `to` may be left to read.
    #[inline]
    pub(crate) fn any_before(&self, to: u32) -> bool {
        match self {
            Self::Dense(_) => true,
            Self::Blocks(cursor) => cursor.current_doc().is_some_and(|doc| doc < to),
        }
    }
}
