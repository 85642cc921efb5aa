//! Puts prompts together: parts, each with its own truncation, within a budget of tokens.
//!
//! ```text
//!   parts --truncate each--> texts --join, tokenise--> ids --within budget?--> done
//!                              ^                            | no
//!                              '------ next overflow rule --'      (none left: refused, with both numbers)
//! ```
//!
//! The ids are those of the joined text, special tokens included, so a prompt that was not cut is what the model would read of one
//! string. Rules are applied in order, each as little as makes the whole fit; a part that no rule names is whole, or the prompt is
//! refused. The types mirror the protocol's prompts (`hopeval-methods`), whose passages are already texts here and whose roles
//! completion models ignore.

mod assemble;

pub use assemble::assemble;

use crate::tokenise::TokeniseError;

/// A prompt in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// In order; nothing is put between them.
    pub parts: Vec<Part>,
    /// Most tokens of the whole, special ones included; none for what the model takes.
    pub budget: Option<usize>,
    /// What to do, in order, until the whole fits.
    pub overflow: Vec<Overflow>,
}

/// One part of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// What stands there.
    pub text: String,
    /// Cuts this part from the right, whatever the budget: to tokens of the part alone, which are then decoded (PromptRank's
    /// `max_doc_len`), or to words.
    pub truncate: Option<Limit>,
}

/// A length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Of the model's tokenizer.
    Tokens(usize),
    /// Between white space.
    Words(usize),
}

/// A rule for a prompt that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Leave the part out.
    Drop {
        /// Index in [`Prompt::parts`].
        part: usize,
    },
    /// Cut the part from the right, no further than to `to`.
    Cut {
        /// Index in [`Prompt::parts`].
        part: usize,
        /// What remains at least.
        to: Limit,
    },
}

impl Overflow {
    /// The part that the rule is about.
    pub const fn part(self) -> usize {
        match self {
            Self::Drop { part } | Self::Cut { part, .. } => part,
        }
    }
}

/// A prompt as the model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// Token ids.
    pub ids: Vec<u32>,
    /// What is left of each part.
    pub texts: Vec<String>,
    /// What became of the parts.
    pub report: PromptReport,
}

/// What became of a prompt when it was put together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptReport {
    /// Tokens of the whole, special ones included.
    pub tokens: usize,
    /// Parts left out, in the order of the rules.
    pub dropped: Vec<usize>,
    /// Parts cut, each with the tokens it lost, in the order of the parts.
    pub cut: Vec<(usize, usize)>,
}

/// Why a prompt was not put together.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// It does not fit, whatever the rules allow.
    #[error("the prompt has {tokens} tokens after its overflow rules, and {budget} fit")]
    TooLong {
        /// Tokens left when all rules were applied.
        tokens: usize,
        /// Tokens that fit.
        budget: usize,
    },
    /// A rule is about a part that does not exist.
    #[error("an overflow rule names part {part}; the prompt has {parts}, counted from 0")]
    NoPart {
        /// The rule's part.
        part: usize,
        /// How many there are.
        parts: usize,
    },
    /// The tokenizer does not do it.
    #[error(transparent)]
    Tokenise(#[from] TokeniseError),
}

#[cfg(test)]
mod tests;
