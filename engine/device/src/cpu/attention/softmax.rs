//! Rows of scores become rows of weights.

use super::distance::PositionPanels;
use crate::cpu::math::exp;
use crate::cpu::simd::{Simd, SimdKernel};
use std::ops::Range;

/// The lane numbers, as `f32`.
static LANES: [f32; 16] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];

/// The summand of one row's scores, by the distance of each key.
#[derive(Clone, Copy)]
pub(super) enum ScoreTerm<'a> {
    /// Nothing.
    None,
    /// `biases[key]`, after scaling; whole vectors.
    Bias(&'a [f32]),
    /// `products[columns[first + key]]`, before scaling.
    Looked {
        /// Products of the query with each relative position.
        products: &'a [f32],
        /// The columns of these products.
        position_panels: &'a PositionPanels,
        /// The first key's place in `position_panels`.
        first: usize,
    },
}

/// `e^(score - highest)` of the visible keys, 0 of the others up to whole vectors; returns their sum.
pub(super) struct Softmax<'a> {
    /// By key; whole vectors.
    pub(super) scores: &'a mut [f32],
    /// Keys; not empty.
    pub(super) seen: Range<usize>,
    pub(super) scale: f32,
    pub(super) term: ScoreTerm<'a>,
}

impl SimdKernel for Softmax<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let from = self.seen.start / S::LANES * S::LANES;
        let to = self.seen.end.next_multiple_of(S::LANES);
        let mut highest = s.splat(f32::NEG_INFINITY);
        for key in (from..to).step_by(S::LANES) {
            let score = self.key_scores(s, key);
            highest = s.max(score, highest);
            s.store(score, &mut self.scores[key..]);
        }
        let highest = s.splat(s.highest(highest));
        let mut sums = s.splat(0.0);
        for numbers in self.scores[from..to].chunks_exact_mut(S::LANES) {
            let weight = exp(s, s.sub(s.load(numbers), highest));
            sums = s.add(sums, weight);
            s.store(weight, numbers);
        }
        s.sum(sums)
    }
}

impl Softmax<'_> {
    /// Scores of the keys from `key` on; minus infinity for invisible keys.
    #[inline(always)]
    fn key_scores<S: Simd>(&self, s: S, key: usize) -> S::V {
        let product = s.load(&self.scores[key..]);
        let scale = s.splat(self.scale);
        let score = match self.term {
            ScoreTerm::None => s.mul(product, scale),
            ScoreTerm::Bias(biases) => s.fma(product, scale, s.load(&biases[key..])),
            ScoreTerm::Looked { products, position_panels, first } => {
                s.mul(s.add(product, position_panels.look_up(s, products, first + key)), scale)
            }
        };
        if key >= self.seen.start && key + S::LANES <= self.seen.end {
            return score;
        }
        let lanes = s.load(&LANES);
        let nothing = s.splat(f32::NEG_INFINITY);
        let score = s.where_less(lanes, s.splat(self.seen.end as f32 - key as f32), score, nothing);
        s.where_less(lanes, s.splat(self.seen.start as f32 - key as f32), nothing, score)
    }
}

/// Adds to scores `[queries, keys]` the products of each key with its position relative to each query.
pub(super) struct AddByKey<'a> {
    /// Up to a vector's lanes of queries.
    pub(super) scores: &'a mut [f32],
    pub(super) stride: usize,
    /// Keys; all of them have products.
    pub(super) keys: Range<usize>,
    /// `[keys, products_stride]`.
    pub(super) products: &'a [f32],
    pub(super) products_stride: usize,
    pub(super) position_panels: &'a PositionPanels,
    /// The place in `position_panels` of key 0 and the first query.
    pub(super) first: usize,
}

impl SimdKernel for AddByKey<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        for start in (self.keys.start / S::LANES * S::LANES..self.keys.end).step_by(S::LANES) {
            // Loops of fixed length keep a block in registers: one loop for each way to find it.
            match self
                .position_panels
                .middle_column::<S>(self.first - start)
                .filter(|_| start + S::LANES <= self.keys.end)
            {
                Some(column) => self.add_block(s, start, self.middle_block(s, start, column)),
                None => self.add_block(s, start, self.gather_block(s, start)),
            }
        }
    }
}

impl AddByKey<'_> {
    /// For each of a vector of keys, the products with its positions relative to the queries. They are consecutive:
    /// from `column` on for the first key.
    #[inline(always)]
    fn middle_block<S: Simd>(&self, s: S, start: usize, column: usize) -> S::Block {
        let stride = self.products_stride;
        let products = &self.products[start * stride..(start + S::LANES) * stride];
        assert!(column + 1 >= S::LANES && column + S::LANES <= stride, "a column of products; this is a bug");
        let mut block = s.zeros();
        for (key, lanes) in block.as_mut().iter_mut().enumerate() {
            // The next key is one position nearer, which is the column before.
            // SAFETY: within the key's row, by the assertion.
            *lanes = unsafe { s.load_at(products.as_ptr().add(key * stride + column - key)) };
        }
        block
    }

    /// As [`Self::middle_block`], for any columns and the last keys.
    #[inline(always)]
    fn gather_block<S: Simd>(&self, s: S, start: usize) -> S::Block {
        let rows = self.products[start * self.products_stride..].chunks(self.products_stride);
        let mut block = s.zeros();
        for ((key, row), lanes) in (start..self.keys.end).zip(rows).zip(block.as_mut()) {
            *lanes = self.position_panels.look_up(s, row, self.first - key);
        }
        block
    }

    /// Adds the found products to the scores of a vector of keys.
    #[inline(always)]
    fn add_block<S: Simd>(&mut self, s: S, start: usize, found: S::Block) {
        let rows = self.scores.len() / self.stride;
        for (query, found) in s.transpose(found).as_ref().iter().enumerate() {
            if query < rows {
                let numbers = &mut self.scores[query * self.stride + start..];
                s.store(s.add(s.load(numbers), *found), numbers);
            }
        }
    }
}

/// The results of a row: its weighted values divided by the sum of the weights.
pub(super) struct DivideValues<'a> {
    pub(super) mixed: &'a [f32],
    /// 0 for a row without visible keys: then the result is 0.
    pub(super) sum: f32,
    pub(super) out: &'a mut [f32],
}

impl SimdKernel for DivideValues<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let sum = s.splat(if self.sum == 0.0 { 1.0 } else { self.sum });
        for (out, mixed) in self.out.chunks_mut(S::LANES).zip(self.mixed.chunks(S::LANES)) {
            // Adding zero turns the -0 of an underflowed product into 0.
            s.store_part(s.add(s.div(s.load_part(mixed), sum), s.splat(0.0)), out);
        }
    }
}
