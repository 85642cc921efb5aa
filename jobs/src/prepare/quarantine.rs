//! Keeps the wrong rows of a dataset: in a file for people to read, and as errors for the run's tables.
//!
//! Rows come from two places: the dataset's reader sets aside unreadable rows, and the preparation of questions sets
//! aside questions that do not fit the corpus.

use crate::error::JobError;
use hopeval_datasets::{QuarantinedRow, Question, RowPolicy};
use hopeval_results::tables::ErrorRow;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The file of rows set aside. Its clones write to the same file.
#[derive(Clone)]
pub(super) struct QuarantineFile {
    path: PathBuf,
    state: Arc<Mutex<QuarantineState>>,
}

struct QuarantineState {
    file: std::io::BufWriter<std::fs::File>,
    errors: Vec<ErrorRow>,
    failed: Option<std::io::Error>,
}

impl QuarantineFile {
    pub(super) fn open(path: &Path) -> Result<Self, JobError> {
        let file = std::fs::File::create(path).map_err(|source| JobError::Io {
            path: path.into(),
            operation: "cannot write the quarantine",
            source,
        })?;
        let state = QuarantineState { file: std::io::BufWriter::new(file), errors: Vec::new(), failed: None };
        Ok(Self { path: path.into(), state: Arc::new(Mutex::new(state)) })
    }

    /// The policy for a dataset's reader: it sets unreadable rows aside here.
    pub(super) fn policy(&self) -> RowPolicy {
        let quarantine = self.clone();
        RowPolicy::Quarantine(Box::new(move |row: QuarantinedRow| {
            let error = ErrorRow {
                stage: "dataset".to_owned(),
                file: row.error.path.display().to_string(),
                line: Some(row.error.position.line).filter(|line| *line > 0),
                field: Some(row.error.field.clone()).filter(|field| !field.is_empty()),
                message: row.error.to_string(),
            };
            quarantine.put_error(error, &row.raw);
        }))
    }

    /// Sets aside a question that does not fit the corpus. `path` is the dataset's, for errors without a file.
    pub(super) fn put_question(&self, question: &Question, error: &JobError, path: &Path) {
        let raw = serde_json::to_string(question).unwrap_or_default();
        let (file, field) = match error {
            JobError::Question { path, field, .. } => (path.display().to_string(), Some((*field).to_owned())),
            _ => (path.display().to_string(), None),
        };
        let message = error.to_string();
        self.put_error(ErrorRow { stage: "corpus".to_owned(), file, line: None, field, message }, &raw);
    }

    fn put_error(&self, error: ErrorRow, raw: &str) {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let line = serde_json::json!({"error": error.message, "row": raw});
        if let Err(error) = writeln!(state.file, "{line}") {
            state.failed.get_or_insert(error);
        }
        state.errors.push(error);
    }

    /// Ends the file and returns the errors of its rows, in order.
    pub(super) fn close(self) -> Result<Vec<ErrorRow>, JobError> {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let flushed = state.file.flush();
        let failed =
            |source| JobError::Io { path: self.path.clone(), operation: "cannot write the quarantine", source };
        state.failed.take().map_or(Ok(()), Err).and(flushed).map_err(failed)?;
        Ok(std::mem::take(&mut state.errors))
    }
}
