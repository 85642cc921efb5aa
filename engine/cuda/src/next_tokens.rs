//! Next tokens of continuations: the highest logits are found on the device, and only three numbers a tile of the
//! vocabulary are read. Rows that draw their token need all logits, which are read; the host draws, in several threads.

use crate::kernels::{Kernel, kernel_size};
use crate::log_probs::{THREADS, for_each_tile, request_numbers, tile_count};
use crate::runtime::{KernelArgument, Runtime};
use crate::{Cuda, Tensor, WeightMatrix, WeightVector};
use KernelArgument::{Buffer, Null, U32};
use hopeval_device::sampling::choose_token;
use hopeval_device::{ChosenToken, Device, DeviceError, NextToken, TokenRule, UnusableLogits};
use rayon::prelude::*;

/// Numbers of a row and a tile: the greatest logit, a sum of exponentials, the greatest's entry.
const PARTS: usize = 3;

/// Entries that `f32` tells apart.
const MOST_ENTRIES: usize = 1 << 24;

/// See [`hopeval_device::Device::next_tokens`].
pub(crate) fn next_tokens<R: Runtime>(
    cuda: &Cuda<R>,
    x: &Tensor<R::Buffer>,
    weight: &WeightMatrix<R::Buffer>,
    bias: Option<&WeightVector<R::Buffer>>,
    scale: f32,
    rules: &[TokenRule],
) -> Result<Vec<NextToken>, DeviceError> {
    assert_eq!(x.rows, rules.len(), "a rule for each row; this is a bug");
    assert!(bias.is_none_or(|bias| bias.len == weight.rows), "a bias for each entry; this is a bug");
    let is_highest = |row: &u32| rules[*row as usize] == TokenRule::Highest && weight.rows <= MOST_ENTRIES;
    let (highest, drawn): (Vec<u32>, Vec<u32>) = (0..rules.len() as u32).partition(is_highest);
    let mut chosen = vec![Err(UnusableLogits); rules.len()];
    if !highest.is_empty() {
        let some = if drawn.is_empty() { None } else { Some(cuda.gather(x, &highest)?) };
        let tokens = highest_tokens(cuda, some.as_ref().unwrap_or(x), weight, bias, scale)?;
        highest.iter().zip(tokens).for_each(|(row, token)| chosen[*row as usize] = token);
    }
    if !drawn.is_empty() {
        let some = if highest.is_empty() { None } else { Some(cuda.gather(x, &drawn)?) };
        let logits = cuda.project(some.as_ref().unwrap_or(x), weight, bias, scale)?;
        let rows = logits.par_chunks_exact(weight.rows.max(1)).zip(&drawn);
        let tokens = rows.map(|(logits, row)| choose_token(logits, &rules[*row as usize])).collect::<Vec<_>>();
        drawn.iter().zip(tokens).for_each(|(row, token)| chosen[*row as usize] = token);
    }
    Ok(chosen)
}

/// The token with the highest logit of each row.
fn highest_tokens<R: Runtime>(
    cuda: &Cuda<R>,
    x: &Tensor<R::Buffer>,
    weight: &WeightMatrix<R::Buffer>,
    bias: Option<&WeightVector<R::Buffer>>,
    scale: f32,
) -> Result<Vec<NextToken>, DeviceError> {
    let converted = cuda.convert_tensor(x)?;
    let x = converted.as_ref().unwrap_or(x);
    let each = tile_count(weight.rows) * PARTS;
    let parts = cuda.runtime.allocate(x.rows * each * size_of::<f32>())?;
    for_each_tile(cuda, x, weight, scale, |tile| {
        let arguments = [
            Buffer(&parts),
            Buffer(tile.logits),
            bias.map_or(Null, |bias| Buffer(&bias.exact)),
            U32(kernel_size(tile.stride)),
            U32(kernel_size(tile.first)),
            U32(kernel_size(tile.count)),
            U32(kernel_size(tile.nth * PARTS)),
            U32(kernel_size(each)),
        ];
        cuda.launch_blocks(Kernel::named("log_probs", "highest_tile"), x.rows, THREADS, &arguments)
    })?;
    let numbers = request_numbers(&cuda.runtime, &parts, x.rows * each)?.read()?;
    Ok(numbers.chunks_exact(each).map(join_parts).collect())
}

/// A row's token from its tiles' parts, in their order: the first of equal ones has the lowest entry.
fn join_parts(parts: &[f32]) -> NextToken {
    let tiles = || parts.chunks_exact(PARTS);
    let highest = tiles().map(|tile| tile[0]).fold(f32::NEG_INFINITY, f32::max);
    if !highest.is_finite() || tiles().any(|tile| tile[1].is_nan()) {
        return Err(UnusableLogits);
    }
    let of = tiles().find(|tile| tile[0] == highest).expect("a tile has the highest logit; this is a bug");
    let part = |tile: &[f32]| f64::from(tile[1]) * (f64::from(tile[0]) - f64::from(highest)).exp();
    let log_sum = tiles().filter(|tile| tile[1] != 0.0).map(part).sum::<f64>().ln();
    Ok(ChosenToken { id: of[2] as u32, log_prob: -log_sum as f32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tile_with_the_highest_logit_has_the_token() {
        let low = f32::NEG_INFINITY;
        let token = join_parts(&[1.0, 2.0, 7.0, 3.0, 1.5, 8200.0, 3.0, 1.0, 16400.0, low, 0.0, 0.0]).unwrap();
        let sum = 2.0 * (-2.0_f64).exp() + 1.5 + 1.0;
        assert_eq!((token.id, token.log_prob), (8200, -sum.ln() as f32));
    }

    #[test]
    fn logits_without_probabilities_are_refused() {
        let (low, high, nan) = (f32::NEG_INFINITY, f32::INFINITY, f32::NAN);
        for parts in [[low, 0.0, 0.0], [high, nan, 3.0], [1.0, nan, 2.0]] {
            assert_eq!(join_parts(&parts), Err(UnusableLogits), "{parts:?}");
            assert_eq!(join_parts(&[&[1.0, 1.0, 0.0], &parts[..]].concat()).is_err(), parts[0] != low, "{parts:?}");
        }
    }
}
