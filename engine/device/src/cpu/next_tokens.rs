//! The next token of each row: the product with the vocabulary, without a copy of all logits for anyone.
//!
//! Of each row and tile of the vocabulary, the greatest logit, its place and the sum of exponents are kept, as for
//! [`super::log_probs`]: a token's log-probability has the bits that scoring it gives. Rows with drawn tokens also keep
//! their logits, in scratch memory, and threads draw for one row each.

use crate::cpu::gemm::SharedResult;
use crate::cpu::log_probs::{self, LogitsTile, SumLogits, TILE};
use crate::cpu::{Cpu, Tensor, WeightMatrix, WeightVector};
use crate::sampling::{self, ChosenToken, TokenRule, UnusableLogits};
use crate::{DeviceError, NextToken};
use std::convert::Infallible;
use std::sync::OnceLock;

/// Numbers of a tile's part: the greatest logit, the sum of exponents, the bits of the greatest's id.
const PART: usize = 3;

/// See [`crate::Device::next_tokens`].
pub(super) fn next_tokens(
    cpu: &Cpu,
    x: &Tensor,
    weight: &WeightMatrix,
    bias: Option<&WeightVector>,
    scale: f32,
    rules: &[TokenRule],
) -> Result<Vec<NextToken>, DeviceError> {
    let (rows, entries) = (x.rows(), weight.rows());
    assert!(rules.len() == rows, "a rule for each row; this is a bug");
    let tiles = entries.div_ceil(TILE);
    let drawn: Vec<usize> = (0..rows).filter(|&row| rules[row] != TokenRule::Highest).collect();
    let place: Vec<Option<usize>> = rules.iter().scan(0, |next, rule| Some(place_of(rule, next))).collect();
    let mut parts = cpu.memory.take(rows * tiles * PART)?;
    let mut kept = cpu.memory.take(drawn.len() * entries)?;
    {
        let parts = SharedResult::new(parts.as_mut_slice(), rows, tiles * PART);
        let kept = SharedResult::new(kept.as_mut_slice(), drawn.len(), entries);
        log_probs::each_tile(cpu, x, weight, bias, |tile: LogitsTile<'_>| {
            let LogitsTile { row, start, count, logits, bias } = tile;
            let mut sums = [0.0; 2];
            cpu.run(SumLogits { logits, count, scale, bias, inverse: &[1.0], out: &mut sums });
            let logits = &logits[..count];
            let [highest, sum] = sums;
            // Without a highest logit the row is refused below, or another tile has it.
            let usable = highest > f32::NEG_INFINITY && highest < f32::INFINITY;
            let id = if usable { start as u32 + sampling::first_of(logits, highest) } else { 0 };
            let at = start / TILE * PART;
            // SAFETY: there is one task for a row and a tile.
            let out = unsafe { parts.row_part(row, at..at + PART) };
            out.copy_from_slice(&[highest, sum, f32::from_bits(id)]);
            if let Some(place) = place[row] {
                // SAFETY: as above.
                unsafe { kept.row_part(place, start..start + count) }.copy_from_slice(logits);
            }
        })?;
    }
    let parts = &parts.as_slice()[..rows * tiles * PART];
    let of_row = |row: usize| &parts[row * tiles * PART..(row + 1) * tiles * PART];
    let tokens: Vec<OnceLock<u32>> = drawn.iter().map(|_| OnceLock::new()).collect();
    let kept = &kept.as_slice()[..drawn.len() * entries];
    let draw = |nth: usize| {
        let row = drawn[nth];
        if let Some((highest, _)) = row_highest(of_row(row)) {
            let logits = &kept[nth * entries..(nth + 1) * entries];
            tokens[nth].get_or_init(|| sampling::draw_token(logits, highest, &rules[row]));
        }
        Ok::<(), Infallible>(())
    };
    // An exponential and a comparison or two for each logit.
    let Ok(()) = cpu.run_parallel(drawn.len(), kept.len() * 32, draw);
    let next = |row: usize| {
        let (highest, best) = row_highest(of_row(row)).ok_or(UnusableLogits)?;
        let sum = log_probs::join_parts(of_row(row), PART, 0, 1.0);
        if !sum.is_finite() {
            return Err(UnusableLogits);
        }
        let (id, logit) = match place[row] {
            None => (best, highest),
            Some(nth) => {
                let id = *tokens[nth].get().expect("a token was drawn; this is a bug");
                (id, kept[nth * entries + id as usize])
            }
        };
        Ok(ChosenToken { id, log_prob: logit - sum })
    };
    Ok((0..rows).map(next).collect())
}

/// The place of a row's logits among those that are kept.
fn place_of(rule: &TokenRule, next: &mut usize) -> Option<usize> {
    let drawn = *rule != TokenRule::Highest;
    *next += usize::from(drawn);
    drawn.then(|| *next - 1)
}

/// A row's greatest logit and its first place; `None` if no token has a probability.
fn row_highest(tiles: &[f32]) -> Option<(f32, u32)> {
    let mut best: Option<(f32, u32)> = None;
    for tile in tiles.chunks_exact(PART) {
        let [highest, sum, id] = [tile[0], tile[1], tile[2]];
        if sum.is_nan() || highest == f32::INFINITY {
            return None;
        }
        if highest > best.map_or(f32::NEG_INFINITY, |(highest, _)| highest) {
            best = Some((highest, id.to_bits()));
        }
    }
    best
}
