//! Texts that cannot be read.

use crate::containers::MAX_DEPTH;

/// A text without a readable value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text:?}")]
pub struct ParseFailure {
    /// The reason.
    pub reason: FailureReason,
    /// The text.
    pub text: String,
}

/// The reason of a [`ParseFailure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FailureReason {
    /// Nothing in the text looks like a value.
    #[error("no JSON value")]
    NoValue,
    /// It has values, but none is an object with one of the keys asked for.
    #[error("no JSON object with an expected key")]
    NoObject,
    /// Containers are nested beyond [`MAX_DEPTH`].
    #[error("JSON deeper than {MAX_DEPTH} containers")]
    TooDeep,
}
