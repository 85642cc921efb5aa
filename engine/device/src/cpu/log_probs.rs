//! Log-probabilities of targets: the product with the vocabulary, without ever storing a full row of it.
//!
//! Tasks multiply some rows with a tile of the vocabulary. They keep the maximum of each row's logits and, for each
//! temperature, the sum of `exp((logit - greatest) / T)`; these are joined in the order of the tiles, in `f64`.
//!
//! # Contract
//! The tiles depend on the vocabulary alone, and so does the order within them: batch-invariant, as is the product.

use crate::cpu::gemm::{self, ProductTask, SharedResult, WeightPanels};
use crate::cpu::memory::AlignedBuffer;
use crate::cpu::simd::{Simd, SimdKernel};
use crate::cpu::{Cpu, Tensor, WeightMatrix, WeightVector, math};
use crate::{DeviceError, LogProbs};
use std::ops::Range;

/// Columns of a tile: a multiple of every panel's width.
const TILE: usize = 512;

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
    assert!(x.columns() == weight.columns() && x.columns() > 0, "inner sizes of a product; this is a bug");
    assert!(bias.is_none_or(|bias| bias.len() == entries), "a bias for each entry; this is a bug");
    assert!(targets.len() == rows && targets.iter().all(|id| (*id as usize) < entries), "targets; this is a bug");
    assert!(temperatures.iter().all(|t| *t > 0.0 && t.is_finite()), "temperatures above 0; this is a bug");
    let inverse = temperatures.iter().map(|t| 1.0 / t).collect::<Vec<_>>();
    let tiles = entries.div_ceil(TILE);
    let each = 1 + inverse.len();
    let mut target_logits = vec![0.0; rows];
    let mut parts = cpu.memory.take(rows * tiles * each)?;
    let head = VocabularyHead {
        cpu,
        x,
        entries,
        bias: bias.map(|bias| &**bias),
        scale,
        targets,
        inverse: &inverse,
        logits: SharedResult::new(&mut target_logits, rows, 1),
        parts: SharedResult::new(parts.as_mut_slice(), rows, tiles * each),
    };
    let per_tile = TILE / cpu.isa.panel_width();
    gemm::each_chunk(cpu, weight, rows, per_tile, |weights, panels| {
        let row_tasks = rows.div_ceil(gemm::ROWS);
        let work = rows * x.columns() * panels.len() * cpu.isa.panel_width();
        cpu.run_parallel(row_tasks * panels.len().div_ceil(per_tile), work, |task| {
            let (which, tile) = (task % row_tasks, task / row_tasks);
            let some = which * rows / row_tasks..(which + 1) * rows / row_tasks;
            let first = panels.start + tile * per_tile;
            head.sum_tile(weights, some, first..panels.end.min(first + per_tile))
        })
    })?;
    let log_sum_exps = join_tiles(&parts, rows, tiles, temperatures);
    Ok(LogProbs { target_logits, log_sum_exps })
}

/// The inputs of all tasks, and their outputs.
struct VocabularyHead<'a> {
    cpu: &'a Cpu,
    x: &'a Tensor,
    entries: usize,
    bias: Option<&'a [f32]>,
    scale: f32,
    targets: &'a [u32],
    /// Of the temperatures.
    inverse: &'a [f32],
    /// `[rows, 1]`: of the targets.
    logits: SharedResult<'a>,
    /// `[rows, tiles * (1 + temperatures)]`: a tile's greatest logit, and its sums.
    parts: SharedResult<'a>,
}

impl VocabularyHead<'_> {
    /// One task: the logits of `rows` for one tile's panels.
    fn sum_tile(&self, weights: WeightPanels<'_>, rows: Range<usize>, panels: Range<usize>) -> Result<(), DeviceError> {
        let inputs = self.x.columns();
        let start = panels.start * self.cpu.isa.panel_width();
        let count = TILE.min(self.entries - start);
        let mut logits = self.cpu.memory.take(rows.len() * TILE)?;
        let x = &self.x.values()[rows.start * inputs..rows.end * inputs];
        let to = SharedResult::new(logits.as_mut_slice(), rows.len(), TILE);
        let task = ProductTask { x, inputs, outputs: self.entries, panels };
        // SAFETY: the logits are this task's own.
        unsafe { task.run_task(self.cpu, weights, to, (0, 0), &())? };
        let bias = self.bias.map(|bias| &bias[start..start + count]);
        let each = 1 + self.inverse.len();
        for (row, logits) in rows.zip(logits.as_mut_slice().chunks_exact_mut(TILE)) {
            // SAFETY: there is one task for a row and a tile.
            let out = unsafe { self.parts.row_part(row, start / TILE * each..(start / TILE + 1) * each) };
            self.cpu.run(SumLogits { logits, count, scale: self.scale, bias, inverse: self.inverse, out });
            let target = (self.targets[row] as usize).wrapping_sub(start);
            if target < count {
                // SAFETY: the target is in one tile.
                let to = unsafe { self.logits.row_part(row, 0..1) };
                to[0] = logits[target];
            }
        }
        Ok(())
    }
}

/// Turns products into logits and sums them up.
struct SumLogits<'a> {
    /// [`TILE`] products, of which `count` are entries of the vocabulary.
    logits: &'a mut [f32],
    count: usize,
    scale: f32,
    bias: Option<&'a [f32]>,
    inverse: &'a [f32],
    /// The greatest logit, then a sum for each temperature: NaN if any logit is NaN.
    out: &'a mut [f32],
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

/// `[rows, temperatures]`: `log Σ exp(logit / T)` from the tiles' parts.
fn join_tiles(parts: &AlignedBuffer, rows: usize, tiles: usize, temperatures: &[f32]) -> Vec<f32> {
    let each = 1 + temperatures.len();
    let one = |tiles: &[f32], index: usize, temperature: f64| {
        let highest = tiles.chunks_exact(each).map(|tile| tile[0]).fold(f32::NEG_INFINITY, f32::max);
        if highest == f32::NEG_INFINITY && tiles.chunks_exact(each).all(|tile| tile[1 + index] == 0.0) {
            return highest;
        }
        let part =
            |tile: &[f32]| f64::from(tile[1 + index]) * ((f64::from(tile[0]) - f64::from(highest)) / temperature).exp();
        let total = tiles.chunks_exact(each).map(part).sum::<f64>();
        (f64::from(highest) / temperature + total.ln()) as f32
    };
    let rows = parts.as_slice()[..rows * tiles * each].chunks_exact((tiles * each).max(1));
    rows.flat_map(|tiles| temperatures.iter().enumerate().map(move |(i, t)| one(tiles, i, f64::from(*t)))).collect()
}
