//! A prompt's tokens, from pieces of its parts that are tokenised once.
//!
//! ```text
//!   parts:   Question: who |made it?\nAnswer: | the first.\n   |   |: a cut of a part, its first or its last one
//!            '---- join --''---- inner ----''-- join with the next part ..
//! ```
//!
//! The inner text of a part, from its first cut to its last one, gives the same tokens in every prompt; the tokenizer
//! remembers them. Between the inner texts of neighbours are joins of a few words. So the tokens of a prompt are known
//! exactly from sums, and a dropped part costs one new join. For a tokenizer without safe cuts (see `joins.rs`), or a
//! text with an added token that forbids them, the whole is one join: it is tokenised again after every change.

use crate::tokenise::joins::{first_cut, last_cut};
use crate::tokenise::{TokenSpan, TokeniseError, Tokenizer};
use std::ops::Range;
use std::sync::Arc;

/// The tokens of a prompt's parts, kept up to date with their texts.
pub(super) struct JoinedTokens<'a> {
    tokenizer: &'a Tokenizer,
    /// Whether cuts are safe.
    may_cut: bool,
    prefix: &'a [u32],
    suffix: &'a [u32],
    parts: Vec<PartTokens>,
    segments: Vec<TokenSegment>,
    /// The tokens of all segments.
    tokens: usize,
}

/// The tokens of one part's inner text.
struct PartTokens {
    /// Bytes of the part's text. A part is only cut at its right or emptied, so equal lengths mean equal texts.
    length: usize,
    /// Its inner text in it; `None` without two cuts.
    inner: Option<(Range<usize>, Arc<[u32]>)>,
    /// The join that began behind its inner text, as it was last.
    join: (String, Arc<[u32]>),
}

/// Neighbouring tokens of the whole.
enum TokenSegment {
    /// The inner text of a part.
    Inner(usize),
    /// A join, with the byte of the whole at which it begins.
    Join { begin: usize, text: String, ids: Arc<[u32]> },
}

impl<'a> JoinedTokens<'a> {
    /// For `parts` parts. With `special`, the tokenizer's special tokens are around the whole.
    pub(super) fn new(tokenizer: &'a Tokenizer, special: bool, parts: usize) -> Self {
        let none = || PartTokens { length: usize::MAX, inner: None, join: (String::new(), Arc::new([])) };
        let joins = tokenizer.joins();
        let around = |ids: &'a [u32]| if special { ids } else { &[] };
        Self {
            tokenizer,
            may_cut: joins.may_cut,
            prefix: around(&joins.prefix),
            suffix: around(&joins.suffix),
            parts: (0..parts).map(|_| none()).collect(),
            segments: Vec::new(),
            tokens: 0,
        }
    }

    /// Tokenises the changed parts, and the joins.
    ///
    /// # Errors
    /// [`TokeniseError::Failed`].
    pub(super) fn update(&mut self, texts: &[String]) -> Result<(), TokeniseError> {
        if self.update_pieces(texts)?.is_none() {
            self.may_cut = false;
            self.parts.iter_mut().for_each(|part| part.inner = None);
            self.update_pieces(texts)?;
        }
        Ok(())
    }

    /// `None` if the texts cannot be cut after all.
    fn update_pieces(&mut self, texts: &[String]) -> Result<Option<()>, TokeniseError> {
        for (part, text) in self.parts.iter_mut().zip(texts) {
            if part.length != text.len() {
                part.length = text.len();
                part.inner = None;
                if let Some(range) = inner_range(text).filter(|_| self.may_cut) {
                    let Some(ids) = self.tokenizer.ids_behind_cut(&text[range.clone()])? else { return Ok(None) };
                    part.inner = Some((range, ids));
                }
            }
        }
        self.segments.clear();
        self.tokens = 0;
        let (mut begin, mut at, mut left) = (0, 0, None);
        let mut join = String::new();
        for (part, text) in texts.iter().enumerate() {
            match self.parts[part].inner.as_ref().map(|(range, _)| range.clone()) {
                None => join.push_str(text),
                Some(range) => {
                    join.push_str(&text[..range.start]);
                    if self.add_join(left, begin, &join)?.is_none() {
                        return Ok(None);
                    }
                    self.add_inner(part);
                    join.clear();
                    join.push_str(&text[range.end..]);
                    (begin, left) = (at + range.end, Some(part));
                }
            }
            at += text.len();
        }
        self.add_join(left, begin, &join)
    }

    fn add_inner(&mut self, part: usize) {
        self.tokens += self.parts[part].inner.as_ref().map_or(0, |(_, ids)| ids.len());
        self.segments.push(TokenSegment::Inner(part));
    }

    /// Adds the join behind the inner text of the part `left`, or before all of them. `None` if the texts cannot be
    /// cut after all.
    fn add_join(&mut self, left: Option<usize>, begin: usize, text: &str) -> Result<Option<()>, TokeniseError> {
        if text.is_empty() {
            return Ok(Some(()));
        }
        let known = left.map(|part| &self.parts[part].join).filter(|(known, _)| known == text);
        let ids = match (known, left) {
            (Some((_, ids)), _) => Some(Arc::clone(ids)),
            (None, Some(_)) => self.tokenizer.ids_behind_cut(text)?,
            (None, None) if self.may_cut => self.tokenizer.ids_before_cut(text)?,
            (None, None) => Some(self.tokenizer.ids(text, false)?),
        };
        let Some(ids) = ids else { return Ok(None) };
        if let Some(part) = left {
            self.parts[part].join = (text.to_owned(), Arc::clone(&ids));
        }
        self.tokens += ids.len();
        self.segments.push(TokenSegment::Join { begin, text: text.to_owned(), ids });
        Ok(Some(()))
    }

    /// The tokens of the whole, special ones included.
    pub(super) fn len(&self) -> usize {
        self.prefix.len() + self.tokens + self.suffix.len()
    }

    /// The ids of the whole without the last `lost` tokens of the text.
    pub(super) fn ids(&self, lost: usize) -> Vec<u32> {
        let mut ids = Vec::with_capacity(self.len());
        ids.extend_from_slice(self.prefix);
        for segment in &self.segments {
            match segment {
                TokenSegment::Inner(part) => {
                    ids.extend(self.parts[*part].inner.iter().flat_map(|(_, ids)| ids.iter().copied()));
                }
                TokenSegment::Join { ids: join, .. } => ids.extend_from_slice(join),
            }
        }
        ids.truncate(ids.len() - lost);
        ids.extend_from_slice(self.suffix);
        ids
    }

    /// The bytes in the whole of each token that ends in a part: behind its begin and not behind its end. A token
    /// across a part's begin thus belongs to the part, a token across its end to the next part.
    ///
    /// # Errors
    /// [`TokeniseError::Failed`].
    pub(super) fn part_spans(&self, texts: &[String], part: usize) -> Result<Vec<Range<usize>>, TokeniseError> {
        let begin: usize = texts[..part].iter().map(String::len).sum();
        let end = begin + texts[part].len();
        let mut spans = Vec::new();
        let mut add = |at: usize, text: &str| -> Result<(), TokeniseError> {
            let found = self.segment_spans(at, text)?;
            let found = found.into_iter().filter_map(|(_, span)| span).map(|(from, to)| at + from..at + to);
            spans.extend(found.filter(|span| span.end > begin && span.end <= end));
            Ok(())
        };
        for segment in &self.segments {
            match segment {
                TokenSegment::Inner(of) if *of == part => {
                    if let Some((range, _)) = &self.parts[part].inner {
                        add(begin + range.start, &texts[part][range.clone()])?;
                    }
                }
                TokenSegment::Inner(_) => {}
                TokenSegment::Join { begin: from, text, .. } => {
                    if from + text.len() > begin && *from < end {
                        add(*from, text)?;
                    }
                }
            }
        }
        Ok(spans)
    }

    /// The tokens of a segment and their bytes in it; `begin` is its place in the whole.
    fn segment_spans(&self, begin: usize, text: &str) -> Result<Vec<TokenSpan>, TokeniseError> {
        if begin == 0 { self.tokenizer.token_spans(text, false) } else { self.tokenizer.spans_behind_cut(text) }
    }

    /// The number of tokens that end in each part, as by [`part_spans`](Self::part_spans).
    ///
    /// # Errors
    /// [`TokeniseError::Failed`].
    pub(super) fn part_counts(&self) -> Result<Vec<usize>, TokeniseError> {
        let ends = self.parts.iter().scan(0, |end, part| {
            *end += part.length;
            Some(*end)
        });
        let ends: Vec<usize> = ends.collect();
        let mut counts: Vec<usize> =
            self.parts.iter().map(|part| part.inner.as_ref().map_or(0, |(_, ids)| ids.len())).collect();
        for segment in &self.segments {
            let TokenSegment::Join { begin, text, .. } = segment else { continue };
            let spans = self.segment_spans(*begin, text)?;
            for (_, to) in spans.into_iter().filter_map(|(_, span)| span) {
                // Empty parts end where the part before them ends, and no token ends in them.
                let part = ends.partition_point(|&end| end < begin + to);
                if begin + to > 0 && part < counts.len() {
                    counts[part] += 1;
                }
            }
        }
        Ok(counts)
    }
}

/// A text between its first and its last cut.
fn inner_range(text: &str) -> Option<Range<usize>> {
    let (first, last) = (first_cut(text)?, last_cut(text)?);
    (first < last).then_some(first..last)
}
