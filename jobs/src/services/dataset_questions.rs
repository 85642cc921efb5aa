//! The questions of a job's dataset, for services that know questions by their ids or by their order.

use crate::error::JobError;
use hopeval_datasets::{DatasetSpec, Questions, RowPolicy};

/// The place of a job's questions. They are read when a service needs them.
#[derive(Clone, Debug, Default)]
pub struct DatasetQuestions(DatasetSpec);

impl DatasetQuestions {
    /// The questions of a dataset, whatever part of them is evaluated.
    pub fn new(spec: DatasetSpec) -> Self {
        Self(DatasetSpec { limit: None, ..spec })
    }

    /// Their ids and texts, in the dataset's order. Wrong rows are left out: whoever prepares the questions of a run
    /// reports them.
    ///
    /// # Errors
    /// Unreadable files, an unknown format.
    pub fn read(&self) -> Result<Vec<(String, String)>, JobError> {
        let leave_out = RowPolicy::Quarantine(Box::new(|_| ()));
        let questions = Questions::open(&self.0, leave_out)?;
        let read = questions.map(|question| question.map(|question| (question.id, question.text)));
        Ok(read.collect::<Result<_, _>>()?)
    }
}
