//! What can go wrong with a table.

use crate::log::LogError;
use crate::store::StoreError;

/// A table operation that did not work.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The commit log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The file was written with another version of the schema.
    #[error("table `{path}` has schema version {found}; this program reads version {supported}")]
    Version {
        /// The file.
        path: String,
        /// Its version, as it stands there.
        found: String,
        /// The one that can be read.
        supported: u32,
    },
    /// The file is another table, or none of this project's.
    #[error("`{path}` holds {found}, not the table `{expected}`")]
    Foreign {
        /// The file.
        path: String,
        /// What it holds.
        found: String,
        /// What was wanted.
        expected: &'static str,
    },
    /// A column is not as the schema says.
    #[error("table `{path}`: column `{column}` is {found}, expected {expected}")]
    Column {
        /// The file.
        path: String,
        /// The column.
        column: String,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// The file is torn or was changed.
    #[error("table `{path}` is corrupt: {source}")]
    Corrupt {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: parquet::errors::ParquetError,
    },
    /// Rows could not be encoded.
    #[error("cannot write table `{path}`: {source}")]
    Encode {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: parquet::errors::ParquetError,
    },
    /// Committed rows are not there.
    #[error("run `{run}`: chunk {chunk} was committed with {expected} outcomes, but its parts hold {found}")]
    Incomplete {
        /// The run.
        run: String,
        /// The chunk.
        chunk: u64,
        /// Outcomes of the commit, as far as they were asked for.
        expected: u64,
        /// Outcomes in the parts.
        found: u64,
    },
}
