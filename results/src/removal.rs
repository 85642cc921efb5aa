//! Removes runs. A run's folder holds what only this run needs: its record, log, questions, parts, tables, edits of
//! gold and the failures that it alone keeps. What runs share, the journal and the selections, lies elsewhere and
//! stays.

use crate::layout;
use crate::log::Log;
use crate::run::{RunError, RunRecord, find_run};
use crate::store::{Store, StoreError};

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunProgress {
    /// Its tables are final: no process works on it, but for an edit of its gold.
    Finished,
    /// It can be resumed, and a process may be working on it.
    NotFinished,
    /// It has no record: it is being made, or its maker was killed.
    NotMade,
    /// Its record or its log cannot be read.
    NotReadable,
}

impl RunProgress {
    /// In words, for tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::NotFinished => "not finished",
            Self::NotMade => "not made",
            Self::NotReadable => "not readable",
        }
    }
}

/// A run with what its removal would free.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RemovableRun {
    /// Its id.
    pub run: String,
    /// Its job's name; `None` without a readable record.
    pub job: Option<String>,
    /// How far it has come.
    pub progress: RunProgress,
    /// Files of its folder.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// Finds the run named by an id, a unique prefix of one or `latest`, made or not.
///
/// # Errors
/// [`RunError::Unknown`], [`RunError::Ambiguous`], or an error of the store. An unreadable run is none.
pub fn find_removable(store: &Store, name: &str) -> Result<RemovableRun, RunError> {
    let run = find_run(store, name, &|_| Ok(true))?;
    let sizes = store.list(&layout::run_folder(&run))?;
    let (job, progress) = match RunRecord::load(store, &run) {
        Ok(record) => (Some(record.job), log_progress(store, &run)),
        Err(RunError::Unknown { .. }) => (None, RunProgress::NotMade),
        Err(RunError::Store(error)) if error.may_pass() => return Err(error.into()),
        Err(_) => (None, RunProgress::NotReadable),
    };
    let bytes = sizes.iter().map(|(_, size)| size).sum();
    Ok(RemovableRun { run, job, progress, files: sizes.len() as u64, bytes })
}

fn log_progress(store: &Store, run: &str) -> RunProgress {
    match Log::open(store, run) {
        Ok(log) if log.state().finished.is_some() => RunProgress::Finished,
        Ok(_) => RunProgress::NotFinished,
        Err(_) => RunProgress::NotReadable,
    }
}

/// Removes a run, its record last, so that a removal that is interrupted can be repeated. No process may be working on
/// it.
///
/// # Errors
/// An error of the store.
pub fn remove_run(store: &Store, run: &str) -> Result<(), StoreError> {
    store.remove_folder(&layout::run_folder(run), &[layout::making_order(run), layout::run_record(run)])
}
