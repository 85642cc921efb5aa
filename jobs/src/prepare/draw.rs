//! Draws questions at random, independently of their order and of the dataset's other questions.
//!
//! The seed and the id of a question decide its rank. The questions with the lowest ranks are drawn, and come in the
//! dataset's order. So a sample of 128 includes the sample of 64, and removing a row from a file changes one question
//! at most. A draw `after` others has the ranks behind theirs.

use crate::error::JobError;
use crate::job::sample::SampleSettings;
use std::collections::BTreeSet;
use std::path::PathBuf;

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
    /// Draws those of the lowest ranks, from the rank and the position of each question. `path` is the dataset's.
    ///
    /// # Errors
    /// Too few questions.
    pub(crate) fn draw_lowest(
        &self,
        mut line: Vec<([u8; 16], u64)>,
        path: impl FnOnce() -> PathBuf,
    ) -> Result<SamplePositions, JobError> {
        let Self { questions: wanted, rest, after, .. } = *self;
        let found = line.len() as u64;
        if found < wanted.saturating_add(after) || (rest && found == wanted) {
            return Err(JobError::TooFew { path: path(), wanted, after, found, rest });
        }
        line.sort_unstable();
        let drawn = line.into_iter().skip(after as usize).take(wanted as usize);
        let positions = drawn.map(|(_, position)| position).collect();
        Ok(SamplePositions { positions, rest })
    }
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
