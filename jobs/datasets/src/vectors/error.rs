//! Errors of a file of vectors.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::RowError;
use crate::input::InputError;

/// The reason for ending the reading of a file of vectors.
#[derive(Debug, thiserror::Error)]
pub enum VectorError {
    /// The file cannot be read, or not to its end.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A row is wrong.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The file as a whole is wrong, or its heading.
    #[error("{}: {}found {found}; allowed: {allowed}", path.display(), FieldName(field))]
    File {
        /// The file.
        path: PathBuf,
        /// The field of the heading; empty if the error concerns the file.
        field: String,
        /// The value found.
        found: String,
        /// The allowed values.
        allowed: String,
    },
}

struct FieldName<'f>(&'f str);

impl fmt::Display for FieldName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "field `{}`: ", self.0) }
    }
}

/// An error of `field` in the heading of `path`, or of the file as a whole.
pub(super) fn file_error(
    path: &Path,
    field: &str,
    found: impl Into<String>,
    allowed: impl Into<String>,
) -> VectorError {
    let field = field.to_owned();
    VectorError::File { path: path.to_owned(), field, found: found.into(), allowed: allowed.into() }
}
