//! Lists the configurations of a finished run with failed questions, and the reasons.

use crate::error::JobError;
use crate::run::evaluator::OK;
use hopeval_results::tables::{FinalOutcomeRow, TableReader};
use hopeval_results::{Log, Store};
use std::fmt;

/// The failed outcomes of one configuration with the same status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureGroup {
    /// The configuration's name.
    pub configuration: String,
    /// The kind of failure.
    pub status: String,
    /// How many outcomes.
    pub outcomes: u64,
    /// The first question, in the dataset's order.
    pub question: String,
    /// The failure message of that question.
    pub message: Option<String>,
}

impl fmt::Display for FailureGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}, first question `{}`", self.configuration, self.outcomes, self.status, self.question)?;
        self.message.iter().try_for_each(|message| write!(f, ": {message}"))
    }
}

/// The failures of a finished run, in the order of its final outcomes.
///
/// # Errors
/// The table cannot be read.
pub fn read_failures(store: &Store, run: &str) -> Result<Vec<FailureGroup>, JobError> {
    let mut found: Vec<FailureGroup> = Vec::new();
    let log = Log::open(store, run)?;
    let finished = log.state().finished.clone().unwrap_or_default();
    let table = TableReader::<FinalOutcomeRow>::open_final(store, run, &finished)?;
    for row in table.rows_from(0) {
        let row = row?;
        if row.status == OK {
            continue;
        }
        match found.iter_mut().find(|f| f.configuration == row.configuration && f.status == row.status) {
            Some(failure) => failure.outcomes += 1,
            None => found.push(FailureGroup {
                configuration: row.configuration,
                status: row.status,
                outcomes: 1,
                question: row.question,
                message: row.message,
            }),
        }
    }
    Ok(found)
}
