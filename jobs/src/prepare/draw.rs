//! Draws questions at random, independently of their order and of the dataset's other questions.
//!
//! The seed and the id of a question decide its rank. The questions with the lowest ranks are drawn, and come in the
//! dataset's order. So a sample of 128 includes the sample of 64, and removing a row from a file changes one question
//! at most.

use crate::error::JobError;
use crate::job::sample::SampleSettings;
use hopeval_datasets::{DatasetSpec, Questions, RowPolicy};
use std::collections::{BTreeSet, HashSet};

/// The positions of a [`SampleSettings`]'s questions in a dataset.
#[derive(Clone, Debug)]
pub(crate) struct SamplePositions {
    positions: BTreeSet<u64>,
    rest: bool,
}

impl SamplePositions {
    /// Whether the question at `position` among the good rows belongs to the draw.
    pub(crate) fn takes_position(&self, position: u64) -> bool {
        self.positions.contains(&position) != self.rest
    }
}

impl SampleSettings {
    /// Draws from a dataset. With `lenient`, wrong rows are skipped, as in a run with a quarantine.
    ///
    /// # Errors
    /// An unreadable file, a wrong row, too few questions.
    pub(crate) fn draw_from(&self, spec: &DatasetSpec, lenient: bool) -> Result<SamplePositions, JobError> {
        let policy = if lenient { RowPolicy::Quarantine(Box::new(|_| ())) } else { RowPolicy::Strict };
        let mut line = Vec::new();
        for question in Questions::open(spec, policy)? {
            line.push((sample_rank(self.seed, &question?.id), line.len() as u64));
        }
        let found = line.len() as u64;
        if found < self.questions || (self.rest && found == self.questions) {
            let path = spec.paths.first().cloned().unwrap_or_default();
            return Err(JobError::TooFew { path, wanted: self.questions, found, rest: self.rest });
        }
        line.sort_unstable();
        let positions = line.into_iter().take(self.questions as usize).map(|(_, position)| position).collect();
        Ok(SamplePositions { positions, rest: self.rest })
    }
}

/// The sizes of draws by `seed` that have so many of the `wanted` questions: the first one has 1 of them, the next one
/// 2. With `lenient`, wrong rows are skipped, as in a run with a quarantine.
///
/// # Errors
/// An unreadable file; a wrong row.
pub(crate) fn draws_with(
    spec: &DatasetSpec,
    seed: u64,
    lenient: bool,
    wanted: &HashSet<String>,
) -> Result<Vec<u64>, JobError> {
    let policy = if lenient { RowPolicy::Quarantine(Box::new(|_| ())) } else { RowPolicy::Strict };
    let mut line = Vec::new();
    for question in Questions::open(spec, policy)? {
        let id = question?.id;
        line.push((sample_rank(seed, &id), line.len() as u64, wanted.contains(&id)));
    }
    line.sort_unstable();
    Ok((1..).zip(line).filter(|(_, (.., is_wanted))| *is_wanted).map(|(size, _)| size).collect())
}

/// A question's rank in the random order of a seed.
pub(crate) fn sample_rank(seed: u64, id: &str) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("hopeval draw 1");
    hasher.update(&seed.to_le_bytes());
    hasher.update(id.as_bytes());
    let mut place = [0; 16];
    place.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(ids: &[String]) -> tempfile::NamedTempFile {
        let rows: String = ids
            .iter()
            .map(|id| format!("{{\"id\": \"{id}\", \"question\": \"q {id}?\", \"golden_answers\": [\"a\"]}}\n"))
            .collect();
        let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
        std::fs::write(file.path(), rows).unwrap();
        file
    }

    fn drawn(ids: &[String], draw: SampleSettings) -> Vec<String> {
        let file = file(ids);
        let spec = DatasetSpec { format: Some(hopeval_datasets::Format::FlashRag), ..DatasetSpec::file(file.path()) };
        let drawn = draw.draw_from(&spec, false).unwrap();
        ids.iter().enumerate().filter(|(at, _)| drawn.takes_position(*at as u64)).map(|(_, id)| id.clone()).collect()
    }

    #[test]
    fn a_sample_is_independent_of_order_and_has_a_complement() {
        let mut ids: Vec<String> = (0..50).map(|n| format!("q{n}")).collect();
        let draw = SampleSettings { questions: 8, seed: 3, rest: false };
        let sample = drawn(&ids, draw);
        assert_eq!(sample.len(), 8);
        let rest = drawn(&ids, SampleSettings { rest: true, ..draw });
        assert!(rest.len() == 42 && rest.iter().all(|id| !sample.contains(id)));
        let small = drawn(&ids, SampleSettings { questions: 4, ..draw });
        assert!(small.iter().all(|id| sample.contains(id)), "{small:?} and {sample:?}");
        assert_ne!(drawn(&ids, SampleSettings { seed: 4, ..draw }), sample);
        ids.reverse();
        let mut again = drawn(&ids, draw);
        again.reverse();
        assert_eq!(again, sample);
    }

    #[test]
    fn a_draw_can_be_so_large_that_it_has_so_many_of_some_questions() {
        let ids: Vec<String> = (0..50).map(|n| format!("q{n}")).collect();
        let wanted: HashSet<String> = ids.iter().step_by(5).cloned().collect();
        let file = file(&ids);
        let spec = DatasetSpec { format: Some(hopeval_datasets::Format::FlashRag), ..DatasetSpec::file(file.path()) };
        let sizes = draws_with(&spec, 3, false, &wanted).unwrap();
        assert_eq!(sizes.len(), 10);
        for (count, questions) in (1..).zip(sizes) {
            let sample = drawn(&ids, SampleSettings { questions, seed: 3, rest: false });
            assert_eq!(sample.iter().filter(|id| wanted.contains(*id)).count(), count);
        }
    }

    #[test]
    fn too_small_a_dataset_is_refused() {
        let ids: Vec<String> = (0..3).map(|n| format!("q{n}")).collect();
        let file = file(&ids);
        let spec = DatasetSpec { format: Some(hopeval_datasets::Format::FlashRag), ..DatasetSpec::file(file.path()) };
        let message = |draw: SampleSettings| draw.draw_from(&spec, false).unwrap_err().to_string();
        let draw = SampleSettings { questions: 4, seed: 0, rest: false };
        assert!(message(draw).contains("4 questions are to be drawn, and there are 3"), "{}", message(draw));
        let all = SampleSettings { questions: 3, seed: 0, rest: true };
        assert!(message(all).contains("none would be left"), "{}", message(all));
    }
}
