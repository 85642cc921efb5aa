//! Finds the rows of questions in a file of rankings.

use super::names::exported_name;
use crate::error::JobError;
use hopeval_datasets::{DatasetError, RankingsFile, RankingsRow, RowError};
use std::collections::BTreeSet;

/// A file of rankings whose rows are taken by the ids of questions.
pub(crate) struct BroughtRows {
    file: RankingsFile,
    /// The used rows, by the file's id of their question.
    used: BTreeSet<String>,
    /// The first question.
    first: Option<String>,
}

impl BroughtRows {
    /// For a file of which no row is used so far.
    pub(crate) fn new(file: RankingsFile) -> Self {
        Self { file, used: BTreeSet::new(), first: None }
    }

    /// The file.
    pub(crate) fn file(&self) -> &RankingsFile {
        &self.file
    }

    /// The row of the question `id`, under this name or the one that hopeval exports it by.
    ///
    /// # Errors
    /// A row of two questions; a file that was changed.
    pub(crate) fn find_row(&mut self, id: &str) -> Result<Option<RankingsRow>, JobError> {
        self.first.get_or_insert_with(|| id.to_owned());
        let mut row = self.file.row(id)?;
        if row.is_none() {
            let name = exported_name(id);
            row = if name == id { None } else { self.file.row(&name)? };
        }
        let Some(row) = row else { return Ok(None) };
        if !self.used.insert(row.id.clone()) {
            let found = format!("`{}`, which names question `{id}` and another one", row.id);
            return Err(wrong_row(self.file.id_error(row.position, found, "the ids of single questions")));
        }
        Ok(Some(row))
    }

    /// The number of used rows, once all questions were seen.
    ///
    /// # Errors
    /// No row is of a question.
    pub(crate) fn count_used(&self) -> Result<u64, JobError> {
        if self.used.is_empty() {
            let (facts, first) = (self.file.facts(), self.first.as_deref().unwrap_or_default());
            let found = format!("`{}`, and no row is of an evaluated question, such as `{first}`", facts.first);
            return Err(wrong_row(self.file.id_error(facts.position, found, "ids of the dataset's questions")));
        }
        Ok(self.used.len() as u64)
    }
}

/// The error of a wrong row.
pub(crate) fn wrong_row(error: RowError) -> JobError {
    JobError::Dataset(DatasetError::Row(error))
}
