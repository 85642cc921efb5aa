//! Collects the passages that a run's outcomes and gold name, for the table `passages`.

use crate::error::JobError;
use crate::run::open::OpenRun;
use hopeval_results::Log;
use hopeval_results::tables::{OutcomeRow, PassageRow};

/// The passages named so far: one flag for each passage of the corpus, whatever the number of outcomes.
pub(super) struct NamedPassages(Vec<bool>);

impl NamedPassages {
    /// No passages of the run's corpus.
    pub(super) fn new(run: &OpenRun) -> Self {
        Self(vec![false; run.resolved.passages as usize])
    }

    /// Adds the passages of an outcome.
    pub(super) fn add(&mut self, outcome: &OutcomeRow) {
        let supporting = outcome.supporting.iter().map(|(passage, _)| passage);
        let paths = outcome.paths.iter().flat_map(|(passages, _)| passages);
        outcome.ranked.iter().chain(supporting).chain(paths).for_each(|&passage| self.add_passage(passage));
    }

    /// Adds the gold passages of all questions, with the edits in `log`.
    ///
    /// # Errors
    /// The questions cannot be read.
    pub(super) fn add_gold(&mut self, run: &OpenRun, log: &Log) -> Result<(), JobError> {
        for question in run.questions_from(log, 0)? {
            question?.gold.iter().flatten().for_each(|&passage| self.add_passage(passage));
        }
        Ok(())
    }

    fn add_passage(&mut self, passage: u32) {
        if let Some(named) = self.0.get_mut(passage as usize) {
            *named = true;
        }
    }

    /// The rows of the table, by number. Texts are stored only if a measure of the run reads them.
    pub(super) fn rows<'a>(&'a self, run: &'a OpenRun) -> impl Iterator<Item = PassageRow> + 'a {
        let with_text = run.evaluator.measure_set().needs_text();
        let named = self.0.iter().enumerate().filter(|(_, named)| **named);
        named.map(move |(passage, _)| run.passages.row(passage as u32, with_text))
    }
}
