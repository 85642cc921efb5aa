//! A file to be fetched: its place, and what is known of its bytes.

use super::progress::{FetchProgress, ProgressReport};
use crate::checksum::file_sha256;
use crate::error::FetchError;
use std::path::PathBuf;

/// A file to be fetched.
pub(super) struct WantedFile<'a> {
    /// Its name for people.
    pub(super) name: &'a str,
    /// Its place.
    pub(super) path: PathBuf,
    /// Its size, if known.
    pub(super) bytes: Option<u64>,
    /// Its SHA-256, if known.
    pub(super) sha256: Option<&'a str>,
}

impl WantedFile<'_> {
    /// Whether a file of the hub is in its place.
    ///
    /// # Errors
    /// Another file is.
    pub(super) fn is_there(&self, report: ProgressReport<'_>) -> Result<bool, FetchError> {
        let Ok(metadata) = std::fs::metadata(&self.path) else { return Ok(false) };
        let taken = |finding: String| FetchError::Taken { path: self.path.clone(), finding };
        if let Some(expected) = self.bytes.filter(|&expected| expected != metadata.len()) {
            return Err(taken(format!("{} bytes, and the hub says {expected}", metadata.len())));
        }
        let Some(expected) = self.sha256 else { return Ok(true) };
        let tell = &mut |done| {
            report(FetchProgress { file: self.name, compared: true, done, total: Some(metadata.len()) });
        };
        let found = file_sha256(&self.path, tell).map_err(|source| FetchError::Io {
            path: self.path.clone(),
            operation: "cannot read",
            source,
        })?;
        if found != expected {
            return Err(taken(format!("its SHA-256 is {found}, and the hub says {expected}")));
        }
        Ok(true)
    }
}
