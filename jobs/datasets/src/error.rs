//! Errors of one row, and of one field.

use std::fmt;
use std::path::{Path, PathBuf};

/// The position of a record in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordPosition {
    /// The record's number, from 1.
    pub record: u64,
    /// The line of its first byte, from 1. The records of a one-line JSON array all have line 1. A file without lines
    /// (Parquet) has 0.
    pub line: u64,
}

/// A row that violates its format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}{}: record {}: {}found {found}; allowed: {allowed}",
    path.display(),
    LineNumber(position.line),
    position.record,
    FieldName(field)
)]
pub struct RowError {
    /// The file.
    pub path: PathBuf,
    /// The row.
    pub position: RecordPosition,
    /// The field as a JSON path (`context[3][1]`); empty if the error concerns the whole row.
    pub field: String,
    /// The value found.
    pub found: String,
    /// The allowed values.
    pub allowed: String,
}

/// `:LINE` behind a file's name, if the file has lines.
pub(crate) struct LineNumber(pub(crate) u64);

impl fmt::Display for LineNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, ":{}", self.0) }
    }
}

struct FieldName<'f>(&'f str);

impl fmt::Display for FieldName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "field `{}`: ", self.0) }
    }
}

/// A field that violates its format. The row and the file are added later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// The path's segments, innermost first.
    path: Vec<PathSegment>,
    found: String,
    allowed: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathSegment {
    Key(String),
    Index(usize),
}

impl FieldError {
    pub(crate) fn new(found: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { path: Vec::new(), found: found.into(), allowed: allowed.into() }
    }

    /// The same error, seen from the object that has the field under `key`.
    pub(crate) fn under_key(mut self, key: &str) -> Self {
        self.path.push(PathSegment::Key(key.to_owned()));
        self
    }

    /// The same error, seen from the list that has the item at `index`.
    pub(crate) fn at_index(mut self, index: usize) -> Self {
        self.path.push(PathSegment::Index(index));
        self
    }

    pub(crate) fn in_row(self, path: &Path, position: RecordPosition) -> RowError {
        let mut field = String::new();
        for segment in self.path.iter().rev() {
            match segment {
                PathSegment::Key(key) if field.is_empty() => field.push_str(key),
                PathSegment::Key(key) => {
                    field.push('.');
                    field.push_str(key);
                }
                PathSegment::Index(index) => field.push_str(&format!("[{index}]")),
            }
        }
        RowError { path: path.to_owned(), position, field, found: self.found, allowed: self.allowed }
    }
}
