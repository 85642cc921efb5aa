//! Errors of a construction.

use crate::report::ConstructReport;
use hopeval_datasets::DatasetError;
use parquet::errors::ParquetError;
use std::path::PathBuf;

/// An error that stops a construction. A question without rows does not stop it; see [`crate::ConstructReport`].
#[derive(Debug, thiserror::Error)]
pub enum ConstructError {
    /// The questions cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// No question has given a row for the labeler, so no file is written.
    #[error("none of the {} questions has given a row{}", report.questions, reasons(report))]
    NoRows {
        /// Counts of the questions, with reasons.
        report: Box<ConstructReport>,
    },
    /// The outcome of a question in a run is no annotation.
    #[error("question `{question}`: its outcome is no annotation of `efficientrag_data`: {reason}")]
    Annotation {
        /// The question's id.
        question: String,
        /// The mistake.
        reason: String,
    },
    /// A file of another construction would stand beside these.
    #[error(
        "{}: is of another construction, and this one makes no such file; choose another folder, or remove it",
        path.display()
    )]
    Stale {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("{}: cannot write", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A table cannot be written.
    #[error("{}: cannot write the table", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// The encoder's reason.
        #[source]
        source: ParquetError,
    },
}

fn reasons(report: &ConstructReport) -> String {
    let reasons: Vec<String> = report.skipped.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
    if reasons.is_empty() { String::new() } else { format!("; {}", reasons.join(", ")) }
}
