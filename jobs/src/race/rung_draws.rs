//! The draws of a race's rungs. A rung has as many evaluated questions as it says: others of the dataset, whose gold is
//! missing or whose rows are wrong, are left out of a run.

use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::job::file::Job;
use crate::places::Places;
use crate::prepare::question_filter::draws_with;
use std::collections::HashSet;

/// The sizes of draws that have 1, 2 and more of the evaluated questions. Empty where rungs have the first questions.
#[derive(Clone, Debug, Default)]
pub(crate) struct RungDraws(Vec<u64>);

impl RungDraws {
    /// The draws of a race over the `evaluated` questions of `job`; by `seed`, if the job itself draws none. None where
    /// a part of the dataset begins with its first questions, of which the limit counts those that are evaluated.
    ///
    /// # Errors
    /// An unreadable file; a wrong row, unless wrong rows are skipped (`lenient`).
    pub(crate) fn of_job(
        job: &Job,
        seed: u64,
        places: &Places,
        lenient: bool,
        evaluated: &HashSet<String>,
        report: ProgressReporter<'_>,
    ) -> Result<Self, JobError> {
        let mut part = job.dataset.clone();
        if !part.take_part(1, seed) {
            return Ok(Self::default());
        }
        let (seed, after) = part.draw.map_or((seed, 0), |draw| (draw.seed, draw.after));
        let mut whole = job.clone();
        places.cache.prepare_world(&mut whole, report)?;
        let mut sizes = draws_with(&whole.dataset, seed, lenient, evaluated)?;
        // A draw behind others counts from the first one behind them, which is none of theirs.
        sizes.iter_mut().for_each(|size| *size = size.saturating_sub(after));
        Ok(Self(sizes))
    }

    /// The size of the part of the dataset that has so many evaluated questions.
    pub(crate) fn part_with(&self, questions: u64) -> u64 {
        self.0.get(questions as usize - 1).copied().unwrap_or(questions)
    }
}
