//! The cache of this machine: corpora, indexes, worlds and unpacked models.
//!
//! Everything in it can be built again: `CACHE/corpora`, `CACHE/indexes`, `CACHE/worlds`, `CACHE/models`. The records
//! in `CACHE/checks` say which of these were read whole and need not be read again (`host_checks`).

mod host_checks;

use crate::error::JobError;
use host_checks::HostChecks;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The folder of corpora, indexes, worlds and models on this machine.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    /// Corpora and indexes already read whole and found good; `None` if they are trusted.
    verified: Option<Arc<VerifiedFiles>>,
}

/// Corpora and indexes that were read whole and found good.
#[derive(Debug)]
struct VerifiedFiles {
    /// By this process, or trusted by it.
    here: Mutex<BTreeSet<PathBuf>>,
    /// By the other processes of this host.
    host: HostChecks,
}

/// Receives the progress of a build: its name and the number of finished passages.
pub type ProgressReporter<'a> = &'a (dyn Fn(&str, u64) + Sync);

impl Cache {
    /// The cache in `root`. The first build creates the folder.
    pub fn new(root: PathBuf) -> Self {
        Self { root, verified: None }
    }

    /// The same cache for computing figures: every byte of a corpus and of an index is checked once on this host before
    /// its first use. Opening alone checks header and tables, enough for showing a run.
    pub fn verifying(self) -> Self {
        let host = HostChecks::new(self.root.join("checks"), SystemTime::now());
        Self { verified: Some(Arc::new(VerifiedFiles { here: Mutex::default(), host })), ..self }
    }

    /// Calls `verify` for the corpus or the index at `path`, once for the processes of a host that start together, and
    /// never if they are trusted.
    ///
    /// # Errors
    /// The error of `verify`.
    pub(crate) fn verify_once<E>(&self, path: &Path, verify: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let Some(verified) = &self.verified else { return Ok(()) };
        let mut here = verified.here.lock().unwrap_or_else(PoisonError::into_inner);
        if !here.contains(path) {
            verified.host.verify_once(path, verify)?;
            here.insert(path.to_owned());
        }
        Ok(())
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
