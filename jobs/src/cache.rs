//! Where corpora, indexes, worlds and unpacked models are kept on this machine.
//!
//! Everything in it can be built again: `CACHE/corpora`, `CACHE/indexes`, `CACHE/worlds`, `CACHE/models`.

use crate::error::JobError;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where corpora and indexes are kept on this machine.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    /// Indexes that were read whole and found good; none where they are trusted.
    verified: Option<Arc<Mutex<BTreeSet<PathBuf>>>>,
}

/// Told what is being built, with how many passages are done.
pub type Report<'a> = &'a (dyn Fn(&str, u64) + Sync);

impl Cache {
    /// The cache in `root`; made when something is built.
    pub fn new(root: PathBuf) -> Self {
        Self { root, verified: None }
    }

    /// The same cache for computing figures: every byte of an index is checked once before it is used. Opening alone
    /// checks header and tables, which is enough for looking at a run.
    pub fn verifying(self) -> Self {
        Self { verified: Some(Arc::default()), ..self }
    }

    /// Calls `verify` unless the index at `path` was found good before, or need not be.
    ///
    /// # Errors
    /// Whatever `verify` finds.
    pub(crate) fn verify_once(
        &self,
        path: &Path,
        verify: impl FnOnce() -> Result<(), hopeval_index::IndexError>,
    ) -> Result<(), hopeval_index::IndexError> {
        let Some(verified) = &self.verified else { return Ok(()) };
        let mut verified = verified.lock().unwrap_or_else(PoisonError::into_inner);
        if !verified.contains(path) {
            verify()?;
            verified.insert(path.to_owned());
        }
        Ok(())
    }

    /// Whether indexes are read whole before they are used.
    pub(crate) fn verifies(&self) -> bool {
        self.verified.is_some()
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder `name` in it, made if it is not there.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, JobError> {
        let path = self.root.join(name);
        std::fs::create_dir_all(&path).map_err(|source| JobError::Io {
            path: path.clone(),
            operation: "cannot make the folder",
            source,
        })?;
        Ok(path)
    }
}
