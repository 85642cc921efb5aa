//! The record of a run: its job and settings, fixed at the creation of the run.
//!
//! The field names are stored: a field renamed in Rust keeps its stored name with `serde(rename)`.
//! `tests/golden/run.txt` has a record.

use crate::check::{FileCheck, FileRemedy};
use crate::layout;
use crate::parallel;
use crate::seal;
use crate::store::{Store, StoreError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod find;

pub use find::{find_run, resolve_run};

/// Version of the run record's format.
pub const RUN_VERSION: u32 = 1;

/// The stored description of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`RUN_VERSION`].
    pub schema_version: u32,
    /// Its id; see [`run_id`].
    pub run: String,
    /// The job's name.
    pub job: String,
    /// Digest of everything that determines the outcomes.
    pub job_digest: String,
    /// Time of creation, in milliseconds since 1970.
    pub created_ms: u64,
    /// The resolved settings of the job.
    pub settings: serde_json::Value,
    /// Checks of the files written before the record, by object; empty in runs of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checks: BTreeMap<String, FileCheck>,
    /// Versions of the methods that compute its outcomes, by kind; empty in runs of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub method_versions: BTreeMap<String, u32>,
}

/// A failed run-record operation.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no such run.
    #[error("there is no run `{run}` in `{store}`\nhint: {}", find::NAMES)]
    Unknown {
        /// The requested id.
        run: String,
        /// The store.
        store: String,
    },
    /// The given beginning fits the ids, or the digests in them, of several runs.
    #[error("`{run}` is the beginning of {} runs in `{store}`: {}", matching.len(), join_first(matching))]
    Ambiguous {
        /// The requested id.
        run: String,
        /// The matching runs, oldest first.
        matching: Vec<String>,
        /// The store.
        store: String,
    },
    /// Another run has this id.
    #[error("there is another run `{run}` in `{store}` already")]
    Taken {
        /// Its id.
        run: String,
        /// The store.
        store: String,
    },
    /// The record is not JSON of the right shape.
    #[error("run record `{path}` cannot be read: {source}\nhint: {}", FileRemedy::Restore.hint())]
    Malformed {
        /// The record.
        path: String,
        /// Why, with line and column.
        #[source]
        source: serde_json::Error,
    },
    /// The record was written by another version of the format.
    #[error("run record `{path}` has schema version {found}; this program reads version {supported}")]
    Version {
        /// The record.
        path: String,
        /// Its version.
        found: u32,
        /// The supported version.
        supported: u32,
    },
}

/// The first few of a list, for messages.
fn join_first(runs: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = if runs.len() > SHOWN { " …" } else { "" };
    runs.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ") + more
}

/// The part of a record common to all versions.
#[derive(Deserialize)]
struct RunRecordVersion {
    schema_version: u32,
}

impl RunRecord {
    /// Writes the record. Several processes starting one run together may all call this.
    ///
    /// # Errors
    /// [`RunError::Taken`] if another record has this id, or an error of the store.
    pub fn create(&self, store: &Store) -> Result<(), RunError> {
        let name = layout::run_record(&self.run);
        let malformed = |source| RunError::Malformed { path: store.full_name(&name), source };
        let bytes = Bytes::from(seal::add_seal(&serde_json::to_vec_pretty(self).map_err(malformed)?));
        match store.put_or_get(&name, &bytes)? {
            Some(there) if there != bytes => Err(RunError::Taken { run: self.run.clone(), store: store.uri() }),
            _ => Ok(()),
        }
    }

    /// Reads the record of `run`.
    ///
    /// # Errors
    /// [`RunError::Unknown`], [`RunError::Version`], [`RunError::Malformed`], or an error of the store.
    pub fn load(store: &Store, run: &str) -> Result<Self, RunError> {
        let name = layout::run_record(run);
        let bytes = match store.get(&name) {
            Err(StoreError::NotFound { .. }) => {
                return Err(RunError::Unknown { run: run.to_owned(), store: store.uri() });
            }
            got => got?,
        };
        Self::from_bytes(store, run, &bytes)
    }

    /// The records of several runs, in their order; `None` for a run without a record. An unreadable one does not hide
    /// the others.
    ///
    /// # Errors
    /// An error of the store.
    pub fn load_many(store: &Store, runs: &[String]) -> Result<Vec<Option<Result<Self, RunError>>>, StoreError> {
        let names: Vec<String> = runs.iter().map(|run| layout::run_record(run)).collect();
        let read = store.get_many(&names)?.into_iter().zip(runs);
        Ok(read.map(|(bytes, run)| Some(Self::from_bytes(store, run, &bytes?))).collect())
    }

    fn from_bytes(store: &Store, run: &str, bytes: &[u8]) -> Result<Self, RunError> {
        let name = layout::run_record(run);
        let path = store.full_name(&name);
        if let Ok(RunRecordVersion { schema_version }) = serde_json::from_slice(bytes)
            && schema_version != RUN_VERSION
        {
            return Err(RunError::Version { path, found: schema_version, supported: RUN_VERSION });
        }
        let bytes = seal::remove_seal(store, &name, bytes, FileRemedy::Restore)?.json;
        let malformed = |source| RunError::Malformed { path: path.clone(), source };
        serde_json::from_slice(&bytes).map_err(malformed)
    }

    /// The check of the run's questions; `None` in runs of earlier versions.
    pub fn questions_check(&self) -> Option<&FileCheck> {
        self.checks.get(&layout::questions_table(&self.run))
    }
}

/// The ids of all runs of a store, oldest first. A folder without a record is skipped: the creation of its run failed.
///
/// # Errors
/// An error of the store.
pub fn list_runs(store: &Store) -> Result<Vec<String>, StoreError> {
    let folders = store.list_folders(layout::RUNS)?;
    let there = parallel::map(&folders, |run| is_made(store, run));
    let mut runs = Vec::new();
    for (run, there) in folders.into_iter().zip(there) {
        if there? {
            runs.push(run);
        }
    }
    Ok(runs)
}

/// Whether the run has a record.
fn is_made(store: &Store, run: &str) -> Result<bool, StoreError> {
    store.exists(&layout::run_record(run))
}

/// A run's id: the UTC time of its creation and the first 8 letters of a digest. Ids sort by time.
///
/// ```
/// assert_eq!(hopeval_results::run::run_id(1_795_300_384_123, "0f3a99c1d2"), "20261121T223304123-0f3a99c1");
/// ```
pub fn run_id(created_ms: u64, digest: &str) -> String {
    let (days, ms) = (created_ms / 86_400_000, created_ms % 86_400_000);
    let (year, month, day) = gregorian_date(days);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    let digest: String = digest.chars().take(8).collect();
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}{:03}-{digest}", ms % 1_000)
}

/// The Gregorian date of a day counted from 1970-01-01 (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn gregorian_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}
