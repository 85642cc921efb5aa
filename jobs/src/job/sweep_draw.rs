//! `[method.NAME.sweep_draw]`: a sweep over points of its grid that are drawn at random.
//!
//! The draw is Floyd's (Bentley and Floyd 1987): each set of points is as likely as any other, to a part in 2,000 for
//! the largest grids. The grid itself is never made.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The draw of a sweep's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepDraw {
    /// Number of points.
    pub points: u64,
    /// Another seed draws others.
    #[serde(default)]
    pub seed: u64,
}

impl SweepDraw {
    /// The positions of the drawn points in a grid of `size` points, in order; all of them if there are no more.
    pub(crate) fn positions(self, size: u64) -> BTreeSet<u64> {
        let mut drawn = BTreeSet::new();
        for last in size - self.points.min(size)..size {
            let position = self.random_number(last) % (last + 1);
            if !drawn.insert(position) {
                drawn.insert(last);
            }
        }
        drawn
    }

    /// The number that the seed gives to a step of the draw.
    fn random_number(self, step: u64) -> u64 {
        let mut hasher = blake3::Hasher::new_derive_key("hopeval sweep draw 1");
        hasher.update(&self.seed.to_le_bytes());
        hasher.update(&step.to_le_bytes());
        let mut number = [0; 8];
        number.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        u64::from_le_bytes(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: u64, seed: u64, size: u64) -> Vec<u64> {
        SweepDraw { points, seed }.positions(size).into_iter().collect()
    }

    #[test]
    fn a_draw_has_so_many_points_and_follows_its_seed() {
        assert_eq!(drawn(5, 1, 5), [0, 1, 2, 3, 4]);
        assert_eq!(drawn(9, 1, 3), [0, 1, 2]);
        assert_eq!(drawn(3, 1, 0), [0; 0]);
        let of_many = drawn(20, 1, u64::MAX);
        assert_eq!(of_many.len(), 20);
        assert_eq!(drawn(20, 1, u64::MAX), of_many);
        assert_ne!(drawn(20, 2, u64::MAX), of_many);
        // Two of four points: each of the six sets is as likely as any other.
        let mut times = std::collections::BTreeMap::new();
        for seed in 0..6000 {
            *times.entry(drawn(2, seed, 4)).or_insert(0) += 1;
        }
        assert_eq!(times.len(), 6);
        // The standard deviation of a count of 1,000 is 29.
        assert!(times.values().all(|&count| (880..=1120).contains(&count)), "{times:?}");
    }
}
