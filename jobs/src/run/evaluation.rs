//! Evaluates all committed outcomes of a run, in the order of its final tables.

use super::edits;
use super::evaluator::{GroupTally, QuestionGold, TallyGroup};
use super::gold_reader::GoldReader;
use super::open::OpenRun;
use super::transcript::drive_again;
use crate::error::JobError;
use hopeval_measures::MeasureBuffers;
use hopeval_operators::tally::add_change;
use hopeval_results::Log;
use hopeval_results::tables::{OutcomeRow, outcomes};
use std::collections::BTreeMap;

/// Takes an outcome with its question's gold and the values of all measures.
type OutcomeVisitor<'a> = &'a mut dyn FnMut(&QuestionGold, OutcomeRow, &[Option<f64>]) -> Result<(), JobError>;

/// Evaluates all committed outcomes and passes them on in final order.
///
/// # Errors
/// The questions, a part or an edit of gold cannot be read.
pub fn evaluate_outcomes(run: &OpenRun, log: &Log, visit: OutcomeVisitor<'_>) -> Result<(), JobError> {
    let edits = edits::read_edits(&run.places.store, log)?;
    let mut gold = GoldReader::new(run, log)?;
    let (mut buffers, mut values) = (MeasureBuffers::default(), Vec::new());
    let (configurations, cohort_size) = (run.resolved.configurations.len(), run.resolved.cohort_size);
    for outcome in outcomes::in_final_order(&run.places.store, run.id(), log.state(), configurations, cohort_size) {
        let mut outcome = outcome?;
        let question = gold.for_question(outcome.index)?;
        if let Some(edit) = edits.get(&outcome.index)
            && run.methods[outcome.configuration as usize].reads_gold()
        {
            outcome = drive_again(run, outcome.configuration, edit)?;
        }
        let supporting = outcome.supporting.iter().map(|&(passage, _)| passage);
        run.passages.require(&run.record, outcome.ranked.iter().copied().chain(supporting))?;
        run.evaluator.evaluate_outcome(question, &outcome, &mut buffers, &mut values);
        visit(question, outcome, &values)?;
    }
    Ok(())
}

/// The live tallies of all committed outcomes, computed anew.
///
/// # Errors
/// A part or the questions cannot be read.
pub fn live_tallies(run: &OpenRun, log: &Log) -> Result<BTreeMap<TallyGroup, GroupTally>, JobError> {
    let mut tallies: BTreeMap<TallyGroup, GroupTally> = BTreeMap::new();
    if log.state().committed.is_empty() {
        return Ok(tallies);
    }
    evaluate_outcomes(run, log, &mut |question, outcome, values| {
        let (groups, change) = run.evaluator.tally_change(question, &outcome, values, 1);
        groups.into_iter().for_each(|group| add_change(tallies.entry(group).or_default(), &change));
        Ok(())
    })?;
    Ok(tallies)
}
