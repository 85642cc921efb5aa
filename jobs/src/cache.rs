//! The cache of this machine: corpora, indexes, worlds and unpacked models.
//!
//! Everything in it can be built again: `CACHE/corpora`, `CACHE/indexes`, `CACHE/worlds`, `CACHE/models`.

use crate::error::JobError;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The folder of corpora, indexes, worlds and models on this machine.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    /// Corpora and indexes already read whole and found good; `None` if they are trusted.
    verified: Option<Arc<Mutex<BTreeSet<PathBuf>>>>,
}

/// Receives the progress of a build: its name and the number of finished passages.
pub type ProgressReporter<'a> = &'a (dyn Fn(&str, u64) + Sync);

impl Cache {
    /// The cache in `root`. The first build creates the folder.
    pub fn new(root: PathBuf) -> Self {
        Self { root, verified: None }
    }

    /// The same cache for computing figures: every byte of a corpus and of an index is checked once before its first
    /// use. Opening alone checks header and tables, enough for showing a run.
    pub fn verifying(self) -> Self {
        Self { verified: Some(Arc::default()), ..self }
    }

    /// Calls `verify` once for the corpus or the index at `path`, and never if they are trusted.
    ///
    /// # Errors
    /// The error of `verify`.
    pub(crate) fn verify_once<E>(&self, path: &Path, verify: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let Some(verified) = &self.verified else { return Ok(()) };
        let mut verified = verified.lock().unwrap_or_else(PoisonError::into_inner);
        if !verified.contains(path) {
            verify()?;
            verified.insert(path.to_owned());
        }
        Ok(())
    }

    /// Whether indexes are read whole before use.
    pub(crate) fn verifies_indexes(&self) -> bool {
        self.verified.is_some()
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder `name` in the cache, created if it is missing.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(crate) fn ensure_folder(&self, name: &str) -> Result<PathBuf, JobError> {
        let path = self.root.join(name);
        std::fs::create_dir_all(&path).map_err(|source| JobError::Io {
            path: path.clone(),
            operation: "cannot make the folder",
            source,
        })?;
        Ok(path)
    }
}
