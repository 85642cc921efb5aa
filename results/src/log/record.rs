//! A record of a commit log, as JSON.
//!
//! The field names are stored: a field renamed in Rust keeps its stored name with `serde(rename)`, and a new field has
//! a default. `tests/golden/log.txt` has a record of every kind.

use super::LogError;
use crate::check::{FileCheck, FileRemedy};
use crate::seal;
use crate::store::Store;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the records' format.
pub const LOG_VERSION: u32 = 1;

/// A numbered record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogRecord {
    /// [`LOG_VERSION`].
    pub version: u32,
    /// Number of the record in the log, from 0.
    pub seq: u64,
    /// Generation of the writer.
    pub generation: u64,
    /// A random id of the writer.
    pub committer: String,
    /// Time of writing, in milliseconds since 1970. For people: nothing depends on it.
    pub at_ms: u64,
    /// The statement of the record.
    pub body: RecordBody,
}

/// The statement of a record, by kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum RecordBody {
    /// A generation begins; records of lower generations are void from here on.
    #[serde(rename = "fence")]
    Fence {
        /// Processes of its mesh.
        processes: u32,
        /// Workers of its mesh, over all processes.
        workers: u32,
        /// Digest of the mesh's settings.
        settings_digest: String,
    },
    /// Cohorts are final.
    #[serde(rename = "commit")]
    Commit(Commit),
    /// Gold was edited; anyone may write this, in any generation.
    #[serde(rename = "gold")]
    Gold {
        /// Number of the edit, from 1.
        edit: u64,
        /// The object with the edit.
        path: String,
        /// Its check; `None` in records of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<FileCheck>,
    },
    /// The run is finished and its tables are written.
    #[serde(rename = "final")]
    Final(FinalRecord),
}

/// Cohorts with complete and durable outcomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// The cohorts.
    #[serde(rename = "chunks")]
    pub cohorts: Vec<CohortCommit>,
    /// Outcome parts (object names) with their rows, and maybe rows of other cohorts.
    pub parts: Vec<String>,
    /// Journal segments (object names) used to make the outcomes.
    pub segments: Vec<String>,
    /// Live figures, for people watching the run.
    pub live: serde_json::Value,
    /// Checks of the parts, by object; empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checks: BTreeMap<String, FileCheck>,
}

/// A cohort of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CohortCommit {
    /// Position in the dataset divided by the cohort size.
    #[serde(rename = "chunk")]
    pub cohort: u64,
    /// Outcomes of the cohort: questions × configurations.
    pub outcomes: u64,
}

/// The tables of a finished run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FinalRecord {
    /// Each written table.
    pub tables: Vec<FinalTable>,
    /// The last edit of gold included in them; 0 if there was no edit.
    pub gold_edit: u64,
    /// Number of gold edits included in them: the first `golds` edits in the order of the log, not of their numbers.
    #[serde(default)]
    pub golds: u64,
    /// Figures outside the tables, for `show` and `--json`.
    pub live: serde_json::Value,
}

impl FinalRecord {
    /// A written table.
    pub fn find_table(&self, table: &str) -> Option<&FinalTable> {
        self.tables.iter().find(|written| written.table == table)
    }
}

/// A table of a finished run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalTable {
    /// The table's name.
    pub table: String,
    /// Its object.
    pub path: String,
    /// Its rows.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// BLAKE3 of the file, in hexadecimal.
    pub digest: String,
}

impl FinalTable {
    /// The check of its object.
    pub fn file_check(&self) -> FileCheck {
        FileCheck { bytes: self.bytes, digest: self.digest.clone() }
    }
}

/// The part of a record common to all versions.
#[derive(Deserialize)]
struct LogRecordVersion {
    version: u32,
}

impl LogRecord {
    /// Reads the record number `seq` from the object `name`.
    pub(super) fn from_json(store: &Store, name: &str, seq: u64, bytes: &[u8]) -> Result<Self, LogError> {
        let path = store.full_name(name);
        if let Ok(LogRecordVersion { version }) = serde_json::from_slice(bytes)
            && version != LOG_VERSION
        {
            return Err(LogError::Version { path, found: version, supported: LOG_VERSION });
        }
        let json = seal::remove_seal(store, name, bytes, FileRemedy::Restore)?.json;
        let malformed = |source| LogError::Malformed { path: path.clone(), source };
        let record: Self = serde_json::from_slice(&json).map_err(malformed)?;
        if record.seq != seq {
            return Err(LogError::Misplaced { path, found: record.seq });
        }
        Ok(record)
    }

    /// The record as JSON, with a seal.
    pub(super) fn to_json(&self) -> Result<Vec<u8>, LogError> {
        let path = format!("record {}", self.seq);
        let json = serde_json::to_vec_pretty(self).map_err(|source| LogError::Malformed { path, source })?;
        Ok(seal::add_seal(&json))
    }

    /// True if this record equals `ours` except for the time of writing.
    pub(super) fn same_as(&self, ours: &Self) -> bool {
        (self.seq, self.generation, &self.committer, &self.body)
            == (ours.seq, ours.generation, &ours.committer, &ours.body)
    }

    /// Whether a writer of `ours` must stop when it meets this record.
    pub(super) fn competes_with(&self, ours: &Self) -> bool {
        let anyone = matches!(self.body, RecordBody::Gold { .. } | RecordBody::Fence { .. });
        !anyone && self.generation >= ours.generation
    }
}
