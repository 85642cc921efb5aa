//! Corrects the live figures of a running run when gold is edited.
//!
//! An outcome leaving `drive` is evaluated by the gold known when its generation began. The committing thread sees the
//! edits in the log. For every edited question with committed outcomes it takes back the old scores and adds the new
//! ones, as changes of the differential tallies. The final tables are computed anew in any case.

use crate::error::JobError;
use crate::run::evaluator::{GroupTally, OutcomeEvaluator, QuestionGold, TallyGroup};
use crate::waker::OperatorWaker;
use hopeval_measures::MeasureBuffers;
use hopeval_operators::tally::KeyedChange;
use hopeval_results::log::{CohortCommit, LogState};
use hopeval_results::tables::{QuestionRow, outcomes, questions as question_table};
use hopeval_results::{FileCheck, Log, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Makes corrections for one generation.
pub struct Corrector {
    /// The run's store.
    pub store: Store,
    /// The evaluator of the run's outcomes.
    pub evaluator: Arc<OutcomeEvaluator>,
    /// The check of the run's questions.
    pub questions: Option<FileCheck>,
    /// Questions of a cohort.
    pub cohort_size: u64,
    /// Edits known at the generation's start.
    pub before: BTreeMap<u64, QuestionRow>,
    /// Edits handled so far, counted from the log's beginning.
    pub seen: usize,
    /// Gold in the tallies, for edited questions of committed cohorts.
    pub applied: BTreeMap<u64, QuestionGold>,
    /// Edited questions of cohorts not committed yet.
    pub waiting: BTreeMap<u64, QuestionGold>,
    /// Sends corrections into the dataflow.
    pub sender: Sender<Vec<KeyedChange<TallyGroup, GroupTally>>>,
    /// Wakes the dataflow.
    pub waker: OperatorWaker,
}

impl Corrector {
    /// Handles new edits, and the edits of the newly `committed` cohorts.
    ///
    /// # Errors
    /// An edit, a part or the questions cannot be read.
    pub fn handle_edits(&mut self, log: &Log, committed: &[CohortCommit]) -> Result<(), JobError> {
        let state = log.state();
        let mut changes = Vec::new();
        let newly_committed: Vec<u64> = self
            .waiting
            .keys()
            .copied()
            .filter(|index| committed.iter().any(|commit| commit.cohort == index / self.cohort_size))
            .collect();
        for index in newly_committed {
            if let Some(new) = self.waiting.remove(&index) {
                self.replace_scores(log, state, index, new, &mut changes)?;
            }
        }
        if state.golds.len() > self.seen {
            let edits = crate::run::edits::edits_after(&self.store, log, self.seen)?;
            self.seen = state.golds.len();
            for (index, row) in edits {
                let new = self.evaluator.question_gold(&row);
                if state.committed.contains_key(&(index / self.cohort_size)) {
                    self.replace_scores(log, state, index, new, &mut changes)?;
                } else {
                    self.waiting.insert(index, new);
                }
            }
        }
        if !changes.is_empty() && self.sender.send(changes).is_ok() {
            self.waker.wake();
        }
        Ok(())
    }

    /// Takes back the scores of a question's outcomes by their former gold, and adds those by `new`.
    fn replace_scores(
        &mut self,
        log: &Log,
        state: &LogState,
        index: u64,
        new: QuestionGold,
        changes: &mut Vec<KeyedChange<TallyGroup, GroupTally>>,
    ) -> Result<(), JobError> {
        let old = match (self.applied.remove(&index), self.before.get(&index)) {
            (Some(old), _) => old,
            (None, Some(row)) => self.evaluator.question_gold(row),
            (None, None) => {
                let mut rows =
                    question_table::stream_questions(&self.store, log.run(), self.questions.as_ref(), index)?;
                let Some(row) = rows.next().transpose()? else { return Ok(()) };
                self.evaluator.question_gold(&row)
            }
        };
        let (mut buffers, mut values) = (MeasureBuffers::default(), Vec::new());
        for outcome in outcomes::of_question(&self.store, state, self.cohort_size, index)? {
            for (gold, sign) in [(&old, -1), (&new, 1)] {
                self.evaluator.evaluate_outcome(gold, &outcome, &mut buffers, &mut values);
                changes.push(self.evaluator.tally_change(gold, &outcome, &values, sign));
            }
        }
        self.applied.insert(index, new);
        Ok(())
    }
}
