//! Log-probabilities of targets: the product with the vocabulary, without ever storing a full row of it.
//!
//! Tasks multiply some rows with a tile of the vocabulary. They keep the maximum of each row's logits and, for each
//! temperature, the sum of `exp((logit - greatest) / T)`; these are joined in the order of the tiles, in `f64`.
//!
//! # Contract
//! The tiles depend on the vocabulary alone, and so does the order within them: batch-invariant, as is the product.

use crate::cpu::gemm::{self, ProductTask, SharedResult, WeightPanels};
use crate::cpu::simd::{Simd, SimdKernel};
use crate::cpu::{Cpu, Tensor, WeightMatrix, WeightVector, math};
use crate::{DeviceError, LogProbs};
use std::ops::Range;

/// Columns of a tile: a multiple of every panel's width.
pub(super) const TILE: usize = 512;

/// See [`crate::Device::log_probs`].
pub(super) fn log_probs(
    cpu: &Cpu,
    x: &Tensor,
    weight: &WeightMatrix,
    bias: Option<&WeightVector>,
    scale: f32,
    targets: &[u32],
    temperatures: &[f32],
) -> Result<LogProbs, DeviceError> {
    let (rows, entries) = (x.rows(), weight.rows());
    assert!(targets.len() == rows && targets.iter().all(|id| (*id as usize) < entries), "targets; this is a bug");
    assert!(temperatures.iter().all(|t| *t > 0.0 && t.is_finite()), "temperatures above 0; this is a bug");
    let inverse = temperatures.iter().map(|t| 1.0 / t).collect::<Vec<_>>();
    let tiles = entries.div_ceil(TILE);
    let each = 1 + inverse.len();
    let mut target_logits = vec![0.0; rows];
    let mut parts = cpu.memory.take(rows * tiles * each)?;
    {
        let logits_of = SharedResult::new(&mut target_logits, rows, 1);
        let parts = SharedResult::new(parts.as_mut_slice(), rows, tiles * each);
        each_tile(cpu, x, weight, bias, |LogitsTile { row, start, count, logits, bias }: LogitsTile<'_>| {
            // SAFETY: there is one task for a row and a tile.
            let out = unsafe { parts.row_part(row, start / TILE * each..(start / TILE + 1) * each) };
            cpu.run(SumLogits { logits, count, scale, bias, inverse: &inverse, out });
            let target = (targets[row] as usize).wrapping_sub(start);
            if target < count {
                // SAFETY: the target is in one tile.
                let to = unsafe { logits_of.row_part(row, 0..1) };
                to[0] = logits[target];
            }
        })?;
    }
    let rows = parts.as_slice()[..rows * tiles * each].chunks_exact((tiles * each).max(1));
    let sums = |tiles: &[f32]| {
        let one = |(index, t): (usize, &f32)| join_parts(tiles, each, index, f64::from(*t));
        temperatures.iter().enumerate().map(one).collect::<Vec<_>>()
    };
    let log_sum_exps = rows.flat_map(sums).collect();
    Ok(LogProbs { target_logits, log_sum_exps })
}

/// A row's products with a tile of the vocabulary.
pub(super) struct LogitsTile<'a> {
    /// The row.
    pub(super) row: usize,
    /// The first entry of the vocabulary.
    pub(super) start: usize,
    /// The number of entries.
    pub(super) count: usize,
    /// [`TILE`] products, of which `count` are of entries.
    pub(super) logits: &'a mut [f32],
    /// Of the entries.
    pub(super) bias: Option<&'a [f32]>,
}

/// Multiplies each row with each tile of the vocabulary, and gives each once to `take`, on all threads.
pub(super) fn each_tile(
    cpu: &Cpu,
    x: &Tensor,
    weight: &WeightMatrix,
    bias: Option<&WeightVector>,
    take: impl Fn(LogitsTile<'_>) + Sync + Send,
) -> Result<(), DeviceError> {
    let (rows, entries) = (x.rows(), weight.rows());
    assert!(x.columns() == weight.columns() && x.columns() > 0, "inner sizes of a product; this is a bug");
    assert!(bias.is_none_or(|bias| bias.len() == entries), "a bias for each entry; this is a bug");
    let head = VocabularyHead { cpu, x, entries, bias: bias.map(|bias| &**bias), take };
    let per_tile = TILE / cpu.isa.panel_width();
    gemm::each_chunk(cpu, weight, rows, per_tile, |weights, panels| {
        let row_tasks = rows.div_ceil(gemm::ROWS);
        let work = rows * x.columns() * panels.len() * cpu.isa.panel_width();
        cpu.run_parallel(row_tasks * panels.len().div_ceil(per_tile), work, |task| {
            let (which, tile) = (task % row_tasks, task / row_tasks);
            let some = which * rows / row_tasks..(which + 1) * rows / row_tasks;
            let first = panels.start + tile * per_tile;
            head.take_tile(weights, some, first..panels.end.min(first + per_tile))
        })
    })
}

/// The inputs of all tasks, and the taker of their products.
struct VocabularyHead<'a, F> {
    cpu: &'a Cpu,
    x: &'a Tensor,
    entries: usize,
    bias: Option<&'a [f32]>,
    take: F,
}

impl<F: Fn(LogitsTile<'_>)> VocabularyHead<'_, F> {
    /// One task: the products of `rows` with one tile's panels.
    fn take_tile(
        &self,
        weights: WeightPanels<'_>,
        rows: Range<usize>,
        panels: Range<usize>,
    ) -> Result<(), DeviceError> {
        let inputs = self.x.columns();
        let start = panels.start * self.cpu.isa.panel_width();
        let count = TILE.min(self.entries - start);
        let mut logits = self.cpu.memory.take(rows.len() * TILE)?;
        let x = &self.x.values()[rows.start * inputs..rows.end * inputs];
        let to = SharedResult::new(logits.as_mut_slice(), rows.len(), TILE);
        let task = ProductTask { x, inputs, outputs: self.entries, panels };
        // SAFETY: the products are this task's own.
        unsafe { task.run_task(self.cpu, weights, to, (0, 0), &())? };
        let bias = self.bias.map(|bias| &bias[start..start + count]);
        for (row, logits) in rows.zip(logits.as_mut_slice().chunks_exact_mut(TILE)) {
            (self.take)(LogitsTile { row, start, count, logits, bias });
        }
        Ok(())
    }
}

/// Turns products into logits and sums them up.
pub(super) struct SumLogits<'a> {
    /// [`TILE`] products, of which `count` are entries of the vocabulary; they become logits.
    pub(super) logits: &'a mut [f32],
    pub(super) count: usize,
    pub(super) scale: f32,
    pub(super) bias: Option<&'a [f32]>,
    /// Of the temperatures.
    pub(super) inverse: &'a [f32],
    /// The greatest logit, then a sum for each temperature: NaN if any logit is NaN.
    pub(super) out: &'a mut [f32],
}

impl SimdKernel for SumLogits<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let whole = self.count / S::LANES * S::LANES;
        let end = self.count.next_multiple_of(S::LANES);
        let scale = s.splat(self.scale);
        let plain = self.scale == 1.0 && self.bias.is_none();
        let mut highest = s.splat(f32::NEG_INFINITY);
        for at in (0..whole).step_by(S::LANES) {
            let mut y = s.load(&self.logits[at..]);
            if !plain {
                y = s.mul(scale, y);
                if let Some(bias) = self.bias {
                    y = s.add(y, s.load(&bias[at..]));
                }
                s.store(y, &mut self.logits[at..]);
            }
            highest = s.max(y, highest);
        }
        if whole < end {
            for (at, logit) in self.logits.iter_mut().enumerate().take(self.count).skip(whole) {
                *logit = self.scale * *logit + self.bias.map_or(0.0, |bias| bias[at]);
            }
            // Lanes beyond the vocabulary are improbable.
            self.logits[self.count..end].fill(f32::NEG_INFINITY);
            highest = s.max(s.load(&self.logits[whole..]), highest);
        }
        let highest = s.highest(highest);
        self.out[0] = highest;
        if highest == f32::NEG_INFINITY {
            // The maximum ignores NaN.
            let unknown = self.logits[..self.count].iter().any(|logit| logit.is_nan());
            self.out[1..].fill(if unknown { f32::NAN } else { 0.0 });
            return;
        }
        let (highest, zero) = (s.splat(highest), s.splat(0.0));
        for (inverse, out) in self.inverse.iter().zip(&mut self.out[1..]) {
            let inverse = s.splat(*inverse);
            let mut sum = zero;
            for at in (0..end).step_by(S::LANES) {
                let below = s.sub(s.load(&self.logits[at..]), highest);
                sum = s.add(sum, math::exp(s, s.mul(below, inverse)));
            }
            *out = s.sum(sum);
        }
    }
}

/// `log Σ exp(logit / T)` of a row from its tiles' parts of `each` numbers: the greatest logit, then the sums, of which
/// the one at `index` is of temperature `T`.
pub(super) fn join_parts(tiles: &[f32], each: usize, index: usize, temperature: f64) -> f32 {
    let highest = tiles.chunks_exact(each).map(|tile| tile[0]).fold(f32::NEG_INFINITY, f32::max);
    if highest == f32::NEG_INFINITY && tiles.chunks_exact(each).all(|tile| tile[1 + index] == 0.0) {
        return highest;
    }
    let part =
        |tile: &[f32]| f64::from(tile[1 + index]) * ((f64::from(tile[0]) - f64::from(highest)) / temperature).exp();
    let total = tiles.chunks_exact(each).map(part).sum::<f64>();
    (f64::from(highest) / temperature + total.ln()) as f32
}
