//! Errors of a dataset: of its files, its format, or one of its rows.

use crate::error::RowError;
use crate::format::FormatError;
use crate::input::InputError;
use crate::passages::PassageFormatError;

/// The reason for ending the reading of a dataset or a passage source.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// A file cannot be read, or not to its end.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A row is wrong, and the policy is [`crate::RowPolicy::Strict`].
    #[error(transparent)]
    Row(#[from] RowError),
    /// The format of the files is unknown, or differs from the specification.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The format of a corpus's files is unknown.
    #[error(transparent)]
    PassageFormat(#[from] PassageFormatError),
}
