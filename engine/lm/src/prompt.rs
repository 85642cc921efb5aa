//! Puts prompts together: parts, each with its own truncation, within a budget of tokens.
//!
//! ```text
//!   parts --truncate each--> texts --join, tokenise--> ids --within budget?--> done
//!                              ^                            | no
//!                              '------ next overflow rule --'      (none left: refused, with both numbers)
//! ```
//!
//! The ids are those of the joined text, special tokens included: an uncut prompt reads like one string. They are put
//! together from pieces that the tokenizer remembers (`joined.rs`), so a demonstration is tokenised once. Rules are
//! applied in order, each only until the whole fits. A part without a rule stays whole, or the prompt is refused. The
//! types mirror the protocol's prompts (`hopeval-methods`). Here passages are texts already, and there are no roles,
//! because completion models ignore them.

mod assemble;
mod joined;
mod packing;

pub use assemble::assemble;
pub use packing::ShotPacking;

use crate::tokenise::TokeniseError;
use std::ops::Range;

/// A prompt in parts, whose texts are of the type `T`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt<T = String> {
    /// In order, joined without separators.
    pub parts: Vec<PromptPart<T>>,
    /// Tokens of the whole at most, special ones included; `None` means the model's limit.
    pub budget: Option<usize>,
    /// The rules to apply, in order, until the whole fits.
    pub overflow: Vec<OverflowRule>,
    /// Whether the report counts the tokens of each part.
    pub count_parts: bool,
    /// Leaves out demonstrations before the rules apply.
    pub packing: Option<ShotPacking>,
}

/// One part of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptPart<T = String> {
    /// The part's text.
    pub text: T,
    /// Cuts this part from the right, whatever the budget. A limit in tokens counts the part's tokens alone; the kept
    /// ones are decoded (PromptRank's `max_doc_len`). The other limit counts words.
    pub truncate: Option<LengthLimit>,
}

/// A length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthLimit {
    /// Tokens of the model's tokenizer.
    Tokens(usize),
    /// Words between white space.
    Words(usize),
    /// Pieces between single spaces: two spaces have an empty one between them (Python's `text.split(" ")`).
    SpacedWords(usize),
}

impl LengthLimit {
    /// The byte behind the last word of `text` within a limit of words; `None` for one of tokens.
    pub fn words_end(self, text: &str) -> Option<usize> {
        match self {
            Self::Tokens(_) => None,
            Self::Words(most) => {
                let last = text.split_whitespace().take(most).last();
                Some(last.map_or(0, |word| word.as_ptr() as usize + word.len() - text.as_ptr() as usize))
            }
            Self::SpacedWords(0) => Some(0),
            Self::SpacedWords(most) => Some(text.match_indices(' ').nth(most - 1).map_or(text.len(), |(at, _)| at)),
        }
    }
}

/// A rule for a prompt that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowRule {
    /// Leave out adjacent parts together.
    Drop {
        /// Index of the first one in [`Prompt::parts`].
        first: usize,
        /// The number of parts.
        count: usize,
    },
    /// Cut the part from the right, no further than to `to`.
    Cut {
        /// Index in [`Prompt::parts`].
        part: usize,
        /// The minimal rest.
        to: LengthLimit,
    },
}

impl OverflowRule {
    /// The rule to leave out one part.
    pub const fn drop_part(part: usize) -> Self {
        Self::Drop { first: part, count: 1 }
    }

    /// The indexes of the rule's parts.
    pub const fn parts(self) -> Range<usize> {
        match self {
            Self::Drop { first, count } => first..first.saturating_add(count),
            Self::Cut { part, .. } => part..part + 1,
        }
    }
}

/// A prompt in token ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssembledPrompt {
    /// Token ids.
    pub ids: Vec<u32>,
    /// The text left of each part.
    pub texts: Vec<String>,
    /// The changes to the parts.
    pub report: PromptReport,
}

/// The changes to a prompt's parts during assembly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptReport {
    /// Tokens of the whole, special ones included.
    pub tokens: usize,
    /// Parts left out, in the order of the rules.
    pub dropped: Vec<usize>,
    /// Parts cut, each with the tokens it lost, in the order of the parts.
    pub cut: Vec<(usize, usize)>,
    /// Tokens of the whole that end in each part, if counted; else empty.
    pub part_tokens: Vec<usize>,
}

/// The reason for the failure of an assembly.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// It does not fit even after all rules.
    #[error("the prompt has {tokens} tokens after its overflow rules, and {budget} fit")]
    TooLong {
        /// Tokens left after all rules.
        tokens: usize,
        /// Tokens allowed.
        budget: usize,
    },
    /// A rule names a missing part.
    #[error("an overflow rule names part {part}; the prompt has {parts}, counted from 0")]
    NoPart {
        /// The rule's part.
        part: usize,
        /// The number of parts.
        parts: usize,
    },
    /// A packing has more demonstrations than there are parts.
    #[error("a packing has {shots} demonstrations; the prompt has {parts} parts")]
    NoShots {
        /// The packing's demonstrations.
        shots: usize,
        /// The number of parts.
        parts: usize,
    },
    /// The tokenizer failed.
    #[error(transparent)]
    Tokenise(#[from] TokeniseError),
}

#[cfg(test)]
mod tests;
