//! Products of one query with keys and values where they lie.
//!
//! A step of generation has one query of each sequence, which reads each key once: to lay the keys out first costs more
//! than their products. The chains are those of [`super::tile`], so a step has the bits of a prompt.

use crate::cpu::simd::{Simd, SimdKernel, prefetch};
use std::ops::Range;

/// Keys between the prefetched one and the one being read.
const AHEAD: usize = 24;

/// The places of a head's keys and values in their tensors, in the order of the keys.
pub(super) struct KeyPlaces {
    pub(super) keys: Vec<usize>,
    pub(super) values: Vec<usize>,
}

/// Rows of numbers at places of a tensor.
#[derive(Clone, Copy)]
pub(super) struct PlacedRows<'a> {
    pub(super) from: &'a [f32],
    pub(super) places: &'a [usize],
}

impl<'a> PlacedRows<'a> {
    /// A row's numbers from `column` on.
    #[inline(always)]
    fn part(&self, row: usize, column: usize, count: usize) -> &'a [f32] {
        &self.from[self.places[row] + column..][..count]
    }

    /// Fetches a row that is read soon, if there is one.
    #[inline(always)]
    fn prefetch_part(&self, row: usize, column: usize, count: usize) {
        if let Some(place) = self.places.get(row) {
            prefetch(&self.from[*place + column..][..count]);
        }
    }
}

/// `scores[key] = query · key`, for the vectors with keys in `seen`.
pub(super) struct ScoreRows<'a> {
    /// Whole vectors.
    pub(super) query: &'a [f32],
    pub(super) keys: PlacedRows<'a>,
    pub(super) seen: Range<usize>,
    /// Whole vectors.
    pub(super) scores: &'a mut [f32],
}

impl SimdKernel for ScoreRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { query, keys, seen, scores } = self;
        for first in (seen.start / S::LANES * S::LANES..seen.end).step_by(S::LANES) {
            let lanes = first..keys.places.len().min(first + S::LANES);
            lanes.clone().for_each(|key| keys.prefetch_part(key + AHEAD, 0, query.len()));
            let mut sum = s.splat(0.0);
            for (depth, part) in query.chunks_exact(S::LANES).enumerate() {
                let mut block = s.zeros();
                for (numbers, key) in block.as_mut().iter_mut().zip(lanes.clone()) {
                    *numbers = s.load(keys.part(key, depth * S::LANES, S::LANES));
                }
                for (x, column) in part.iter().zip(s.transpose(block).as_ref()) {
                    sum = s.fma(s.splat(*x), *column, sum);
                }
            }
            s.store(sum, &mut scores[first..]);
        }
    }
}

/// `mixed = Σ weights[key] value[key]`, over the keys in `seen`.
pub(super) struct MixRows<'a> {
    /// By key.
    pub(super) weights: &'a [f32],
    pub(super) values: PlacedRows<'a>,
    pub(super) seen: Range<usize>,
    /// Whole vectors.
    pub(super) mixed: &'a mut [f32],
}

impl MixRows<'_> {
    /// `N` vectors of the result, from `column` on.
    #[inline(always)]
    fn mix<S: Simd, const N: usize>(&mut self, s: S, column: usize) {
        let mut sums = [s.splat(0.0); N];
        for key in self.seen.clone() {
            self.values.prefetch_part(key + AHEAD, column, N * S::LANES);
            let (x, numbers) = (s.splat(self.weights[key]), self.values.part(key, column, N * S::LANES));
            for (sum, numbers) in sums.iter_mut().zip(numbers.chunks_exact(S::LANES)) {
                *sum = s.fma(x, s.load(numbers), *sum);
            }
        }
        for (sum, mixed) in sums.into_iter().zip(self.mixed[column..].chunks_exact_mut(S::LANES)) {
            s.store(sum, mixed);
        }
    }
}

impl SimdKernel for MixRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let vectors = self.mixed.len() / S::LANES;
        for first in (0..vectors).step_by(4) {
            match vectors - first {
                1 => self.mix::<S, 1>(s, first * S::LANES),
                2 => self.mix::<S, 2>(s, first * S::LANES),
                3 => self.mix::<S, 3>(s, first * S::LANES),
                _ => self.mix::<S, 4>(s, first * S::LANES),
            }
        }
    }
}
