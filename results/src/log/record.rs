//! A record of a commit log, as JSON.
//!
//! The names in it are stored: a field that is renamed in Rust keeps its name with `serde(rename)`, and a new one has a
//! default. `tests/golden/log.txt` has a record of every sort.

use super::LogError;
use serde::{Deserialize, Serialize};

/// Version of the records' format.
pub const LOG_VERSION: u32 = 1;

/// A numbered record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`LOG_VERSION`].
    pub version: u32,
    /// Its number in the log, from 0.
    pub seq: u64,
    /// The generation that wrote it.
    pub generation: u64,
    /// A random id of the writer.
    pub committer: String,
    /// When it was written, in milliseconds since 1970; for people, nothing depends on it.
    pub at_ms: u64,
    /// What it says.
    pub body: Body,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Body {
    /// A generation begins; records of lower ones are void from here.
    #[serde(rename = "fence")]
    Fence {
        /// Processes of its mesh.
        processes: u32,
        /// Workers of its mesh, over all processes.
        workers: u32,
        /// Digest of the settings that the mesh runs with.
        settings_digest: String,
    },
    /// Chunks are final.
    #[serde(rename = "commit")]
    Commit(Commit),
    /// Gold was edited; anyone may write this, in any generation.
    #[serde(rename = "gold")]
    Gold {
        /// Number of the edit, from 1.
        edit: u64,
        /// The object that holds the edit.
        path: String,
    },
    /// The run is finished and its tables are written.
    #[serde(rename = "final")]
    Final(Final),
}

/// Chunks whose outcomes are complete and durable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// The chunks.
    pub chunks: Vec<ChunkCommit>,
    /// Outcome parts (object names) that hold their rows, and maybe rows of other chunks.
    pub parts: Vec<String>,
    /// Journal segments (object names) that the outcomes were made with.
    pub segments: Vec<String>,
    /// Live figures, for whoever watches.
    pub live: serde_json::Value,
}

/// A chunk of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkCommit {
    /// Position in the dataset / chunk size.
    pub chunk: u64,
    /// Its outcomes: questions × configurations.
    pub outcomes: u64,
}

/// The tables of a finished run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Final {
    /// Each table that was written.
    pub tables: Vec<FinalTable>,
    /// The last edit of gold that they include; 0 if there was none.
    pub gold_edit: u64,
    /// How many edits of gold they include: the first so many of the log, whose order decides and not their numbers.
    #[serde(default)]
    pub golds: u64,
    /// Figures that are no table, for `show` and `--json`.
    pub live: serde_json::Value,
}

impl Final {
    /// The object that holds a table.
    pub fn path_of(&self, table: &str) -> Option<&str> {
        self.tables.iter().find(|written| written.table == table).map(|written| written.path.as_str())
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

/// What every version of a record has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Record {
    /// Reads the record number `seq` from the object `path`.
    pub(super) fn read(path: &str, seq: u64, bytes: &[u8]) -> Result<Self, LogError> {
        let malformed = |source| LogError::Malformed { path: path.to_owned(), source };
        let Versioned { version } = serde_json::from_slice(bytes).map_err(malformed)?;
        if version != LOG_VERSION {
            return Err(LogError::Version { path: path.to_owned(), found: version, supported: LOG_VERSION });
        }
        let record: Self = serde_json::from_slice(bytes).map_err(malformed)?;
        if record.seq != seq {
            return Err(LogError::Misplaced { path: path.to_owned(), found: record.seq });
        }
        Ok(record)
    }

    /// The record as JSON.
    pub(super) fn write(&self) -> Result<Vec<u8>, LogError> {
        let path = format!("record {}", self.seq);
        serde_json::to_vec_pretty(self).map_err(|source| LogError::Malformed { path, source })
    }

    /// Whether this is the very record that `ours` is, but for the time of writing.
    pub(super) fn same_as(&self, ours: &Self) -> bool {
        (self.seq, self.generation, &self.committer, &self.body)
            == (ours.seq, ours.generation, &ours.committer, &ours.body)
    }

    /// Whether a writer of `ours` must stop when it meets this record.
    pub(super) fn competes_with(&self, ours: &Self) -> bool {
        let anyone = matches!(self.body, Body::Gold { .. } | Body::Fence { .. });
        !anyone && self.generation >= ours.generation
    }
}
