//! Reads the gold of a run's questions in the order of the final tables.

use super::evaluator::QuestionGold;
use super::open::OpenRun;
use crate::error::JobError;
use hopeval_results::Log;
use hopeval_results::tables::QuestionRow;

/// Most questions with their gold held in memory. More are read again for every configuration.
const HELD: u64 = 1 << 15;

/// Gives the gold of questions in the order of final tables: all of them for one configuration, then for the next.
pub struct GoldReader<'a> {
    run: &'a OpenRun,
    log: &'a Log,
    held: Vec<QuestionGold>,
    rows: Option<Box<dyn Iterator<Item = Result<QuestionRow, JobError>> + 'a>>,
    current: Option<QuestionGold>,
}

impl<'a> GoldReader<'a> {
    /// A reader of the run's questions, with the edits in `log`.
    ///
    /// # Errors
    /// The questions cannot be read.
    pub fn new(run: &'a OpenRun, log: &'a Log) -> Result<Self, JobError> {
        let mut held = Vec::new();
        if run.resolved.prepared.questions <= HELD {
            for row in run.questions_from(log, 0)? {
                held.push(run.evaluator.question_gold(&row?));
            }
        }
        Ok(Self { run, log, held, rows: None, current: None })
    }

    /// The gold of the question at position `index`; cheap as long as positions rise.
    ///
    /// # Errors
    /// The questions cannot be read, or end before `index`.
    pub fn for_question(&mut self, index: u64) -> Result<&QuestionGold, JobError> {
        if !self.held.is_empty() {
            return self.held.get(index as usize).ok_or_else(|| self.missing_question(index));
        }
        if self.current.as_ref().is_some_and(|current| current.index > index) {
            self.rows = None;
        }
        while self.current.as_ref().is_none_or(|current| current.index != index) {
            let rows = match &mut self.rows {
                Some(rows) => rows,
                None => self.rows.insert(Box::new(self.run.questions_from(self.log, index)?)),
            };
            let row = rows.next().transpose()?;
            self.current = Some(self.run.evaluator.question_gold(&row.ok_or_else(|| self.missing_question(index))?));
        }
        self.current.as_ref().ok_or_else(|| self.missing_question(index))
    }

    fn missing_question(&self, index: u64) -> JobError {
        JobError::Unfit { run: self.run.id().to_owned(), reason: format!("its questions end before position {index}") }
    }
}
