//! Settings with values that make no sense.

use crate::error::JobError;
use std::path::Path;

/// A setting with a value that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValue {
    /// The key, relative to the checked table.
    pub key: String,
    /// Its value, as the job has it.
    pub found: String,
    /// The allowed values, in words.
    pub allowed: &'static str,
}

impl std::fmt::Display for BadValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` = {}; allowed: {}", self.key, self.found, self.allowed)
    }
}

impl BadValue {
    /// The job has `found` for `key`; only `allowed` makes sense.
    pub fn new(key: impl Into<String>, found: impl Into<String>, allowed: &'static str) -> Self {
        Self { key: key.into(), found: found.into(), allowed }
    }

    /// The error of the job's file `path`.
    pub fn in_file(self, path: &Path) -> JobError {
        let Self { key, found, allowed } = self;
        JobError::Value { path: path.into(), key, found, allowed }
    }

    /// Prefixes the key with `table`, the checked table's name in its parent.
    #[must_use]
    pub fn within_table(self, table: &str) -> Self {
        Self { key: format!("{table}.{}", self.key), ..self }
    }
}

/// Refuses the value unless it is good.
///
/// # Errors
/// The [`BadValue`] from `otherwise`.
pub fn ensure(good: bool, otherwise: impl FnOnce() -> BadValue) -> Result<(), BadValue> {
    if good { Ok(()) } else { Err(otherwise()) }
}
