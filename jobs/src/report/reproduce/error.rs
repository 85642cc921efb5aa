//! Why a run's figures cannot be set beside published ones.

use crate::error::JobError;
use hopeval_public_files::PublicFilesError;
use hopeval_results::{RunError, StoreError};
use std::path::PathBuf;

/// A failed comparison with published figures. Figures that do not compare are no error.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// The table of published figures cannot be read.
    #[error("{}: the table of published figures", path.display())]
    Published {
        /// The table.
        path: PathBuf,
        /// Why, with line and column.
        #[source]
        source: csv::Error,
    },
    /// The table has no figure of the job.
    #[error(
        "no published figure belongs to the job `{job}`: it is named by its folder and its name; allowed: {allowed}"
    )]
    NoFigures {
        /// The job, PAPER/NAME.
        job: String,
        /// The jobs with figures.
        allowed: String,
    },
    /// A cell of `own_measure` names rules of answers that are none.
    #[error(
        "{}:{line}: `own_measure` = {found}; allowed: a measure of answers, ` by `, and a profile that has it: {}",
        path.display(),
        hopeval_measures::Profile::ALL.map(hopeval_measures::Profile::name).join(", ")
    )]
    Rules {
        /// The table.
        path: PathBuf,
        /// The line.
        line: u64,
        /// The cell.
        found: String,
    },
    /// No finished run is of the job.
    #[error("`{store}` has no run of the job `{job}`\nhint: `hopeval run` makes one; --store names another store")]
    NoRun {
        /// The job.
        job: String,
        /// The store's address.
        store: String,
    },
    /// The named run is of another job.
    #[error("run {run} is not of the job `{job}`, whose methods are {methods}")]
    OtherJob {
        /// The run.
        run: String,
        /// The job.
        job: String,
        /// The names of its methods.
        methods: String,
    },
    /// The run has no final figures yet.
    #[error("run {run} is not finished\nhint: `hopeval resume {run}` goes on with it")]
    Unfinished {
        /// The run.
        run: String,
    },
    /// A file of the dataset cannot be read.
    #[error("{}: cannot read the questions' file, to tell its split", path.display())]
    Questions {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The list of public files.
    #[error(transparent)]
    Files(#[from] PublicFilesError),
    /// The job or the run.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The run's record.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl ReproduceError {
    /// Whether the same command may succeed later without a person's help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Job(error) => error.is_transient(),
            Self::Run(error) => hopeval_results::store_error(error).is_some_and(StoreError::may_pass),
            _ => false,
        }
    }
}
