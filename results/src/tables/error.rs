//! Errors of a table.

use crate::check::FileRemedy;
use crate::log::LogError;
use crate::store::StoreError;

impl TableError {
    /// The error of reading `path`: of the store, if that is what Parquet met, else a corrupt file.
    pub(crate) fn reading(path: &str, source: parquet::errors::ParquetError) -> Self {
        match source {
            parquet::errors::ParquetError::External(error) => match error.downcast::<StoreError>() {
                Ok(error) => Self::Store(*error),
                Err(error) => {
                    let source = parquet::errors::ParquetError::External(error);
                    Self::Corrupt { path: path.to_owned(), source }
                }
            },
            source => Self::Corrupt { path: path.to_owned(), source },
        }
    }
}

/// A failed table operation.
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
        /// Version of the file, as written in it.
        found: String,
        /// The supported version.
        supported: u32,
    },
    /// The file is another table, or not a table of this project.
    #[error("`{path}` holds {found}, not the table `{expected}`")]
    Foreign {
        /// The file.
        path: String,
        /// Content of the file.
        found: String,
        /// The expected table.
        expected: &'static str,
    },
    /// A column differs from the schema.
    #[error("table `{path}`: column `{column}` is {found}, expected {expected}")]
    Column {
        /// The file.
        path: String,
        /// The column.
        column: String,
        /// Type in the file.
        found: String,
        /// Type in the schema.
        expected: String,
    },
    /// The file is torn or was changed.
    #[error("table `{path}` is corrupt: {source}\nhint: {}", FileRemedy::Restore.hint())]
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
    /// Committed rows are missing, or rows are there twice.
    #[error("run `{run}`: chunk {cohort} was committed with {expected} outcomes, but its parts hold {found}")]
    Incomplete {
        /// The run.
        run: String,
        /// The cohort.
        cohort: u64,
        /// Outcomes in the commit, of the requested configurations.
        expected: u64,
        /// Outcomes in the parts.
        found: u64,
    },
}
