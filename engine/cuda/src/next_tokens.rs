//! Next tokens of continuations, found on the device: a few numbers of a row are read in place of its logits.
//!
//! The highest logits are found tile by tile of the vocabulary, as for [`crate::log_probs`]. To draw, some rows at a
//! time are multiplied with the whole vocabulary, and a kernel applies each row's rule. Its sums have another order
//! than those of [`choose_token`], so it tells how near another choice was. Where that is too near the row's logits are
//! read, and the definition itself chooses: the token is always that of the definition.

use crate::kernels::{Kernel, kernel_size};
use crate::log_probs::{MOST_LOGITS, THREADS, for_each_tile, request_numbers, tile_count};
use crate::product::multiply_matrices;
use crate::runtime::{ElementType, FusedFunction, KernelArgument, MatrixProduct, Runtime};
use crate::{Cuda, Tensor, WeightMatrix, WeightVector};
use KernelArgument::{Buffer, Null, U32};
use hopeval_device::sampling::choose_token;
use hopeval_device::{ChosenToken, Device, DeviceError, NextToken, TokenRule, UnusableLogits};
use rayon::prelude::*;
use std::f64::consts::LOG2_E;

/// Numbers of a row and a tile: the greatest logit, a sum of exponentials, the greatest's entry.
const PARTS: usize = 3;

/// Entries that `f32` tells apart.
const MOST_ENTRIES: usize = 1 << 24;

/// Entries whose sums [`NEAR`] allows for.
const MOST_DRAWN: usize = 1 << 20;

/// Numbers of a row's rule, and of its drawn token, in `draw.cu`.
const RULE: usize = 4;
const DRAWN: usize = 8;

/// Threads of a block of `draw.cu`: few rows are drawn at once, so that each has a multiprocessor for itself.
const DRAW_THREADS: u32 = 512;

/// The part of a total by which another choice must be missed. The device's weights are within 1e-12 of the host's. The
/// host's sums of `n` numbers in `f64` are within `n * 1.2e-16` of the exact ones, and a choice hangs on three of them
/// at most: 4e-10 for the most entries.
const NEAR: f32 = 1e-9;

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
    assert!(x.columns == weight.columns && x.columns > 0, "inner sizes of a product; this is a bug");
    assert!(bias.is_none_or(|bias| bias.len == weight.rows), "a bias for each entry; this is a bug");
    let mut chosen = vec![Err(UnusableLogits); rules.len()];
    if weight.rows == 0 {
        return Ok(chosen);
    }
    let converted = cuda.convert_tensor(x)?;
    let head = TokenHead { cuda, x: converted.as_ref().unwrap_or(x), weight, bias, scale };
    let is_highest = |row: &u32| rules[*row as usize] == TokenRule::Highest;
    let (highest, drawn): (Vec<u32>, Vec<u32>) = (0..rules.len() as u32).partition(is_highest);
    let at_most = |most, rows| if weight.rows <= most { (rows, vec![]) } else { (vec![], rows) };
    let ((highest, mut whole), (drawn, too_long)) = (at_most(MOST_ENTRIES, highest), at_most(MOST_DRAWN, drawn));
    whole.extend(too_long);
    for (row, token) in highest.iter().zip(head.highest_tokens(&highest)?) {
        chosen[*row as usize] = token;
    }
    for rows in drawn.chunks((MOST_LOGITS / weight.padded_rows()).max(1)) {
        for (row, token) in rows.iter().zip(head.drawn_tokens(rows, rules)?) {
            match token {
                Some(token) => chosen[*row as usize] = token,
                None => whole.push(*row),
            }
        }
    }
    for (row, token) in whole.iter().zip(head.tokens_of_all_logits(&whole, rules)?) {
        chosen[*row as usize] = token;
    }
    Ok(chosen)
}

/// The operands of the logits of all rows.
struct TokenHead<'a, R: Runtime> {
    cuda: &'a Cuda<R>,
    x: &'a Tensor<R::Buffer>,
    weight: &'a WeightMatrix<R::Buffer>,
    bias: Option<&'a WeightVector<R::Buffer>>,
    scale: f32,
}

impl<R: Runtime> TokenHead<'_, R> {
    /// The inputs of some rows; `None` for all of them.
    fn gather_rows(&self, rows: &[u32]) -> Result<Option<Tensor<R::Buffer>>, DeviceError> {
        if rows.len() == self.x.rows { Ok(None) } else { self.cuda.gather(self.x, rows).map(Some) }
    }

    fn bias_argument(&self) -> KernelArgument<'_, R::Buffer> {
        self.bias.map_or(Null, |bias| Buffer(&bias.exact))
    }

    /// The token with the highest logit of each of `rows`.
    fn highest_tokens(&self, rows: &[u32]) -> Result<Vec<NextToken>, DeviceError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let (cuda, weight, some) = (self.cuda, self.weight, self.gather_rows(rows)?);
        let x = some.as_ref().unwrap_or(self.x);
        let each = tile_count(weight.rows) * PARTS;
        let parts = cuda.runtime.allocate(x.rows * each * size_of::<f32>())?;
        for_each_tile(cuda, x, weight, self.scale, |tile| {
            let arguments = [
                Buffer(&parts),
                Buffer(tile.logits),
                self.bias_argument(),
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

    /// The drawn token of each of `rows`, whose logits are in memory at once; `None` where another one was too near.
    fn drawn_tokens(&self, rows: &[u32], rules: &[TokenRule]) -> Result<Vec<Option<NextToken>>, DeviceError> {
        let (cuda, weight, some) = (self.cuda, self.weight, self.gather_rows(rows)?);
        let (x, stride) = (some.as_ref().unwrap_or(self.x), weight.padded_rows());
        // As for `Device::project`, whose logits the definition is about.
        let logits = cuda.runtime.allocate(x.rows * stride * size_of::<f32>())?;
        let product = MatrixProduct {
            rows: x.rows,
            inner: x.columns,
            out: stride,
            element: cuda.element,
            x: &x.buffer,
            weight: &weight.buffer,
            first: 0,
            scale: self.scale,
            bias: None,
            fused: FusedFunction::Nothing,
            residual: None,
            output_element: ElementType::F32,
            output: &logits,
        };
        multiply_matrices(cuda, &product)?;
        let numbers = rows.iter().flat_map(|row| rule_numbers(&rules[*row as usize], weight.rows));
        let rules = cuda.runtime.upload(&numbers.flat_map(f64::to_le_bytes).collect::<Vec<u8>>())?;
        let drawn = cuda.runtime.allocate(x.rows * DRAWN * size_of::<f32>())?;
        let arguments = [
            Buffer(&drawn),
            Buffer(&logits),
            self.bias_argument(),
            Buffer(&rules),
            U32(kernel_size(stride)),
            U32(kernel_size(weight.rows)),
        ];
        cuda.launch_blocks(Kernel::named("draw", "draw_token"), x.rows, DRAW_THREADS, &arguments)?;
        let numbers = request_numbers(&cuda.runtime, &drawn, x.rows * DRAWN)?.read()?;
        Ok(numbers.chunks_exact(DRAWN).map(certain_token).collect())
    }

    /// The token of each of `rows` by the definition.
    fn tokens_of_all_logits(&self, rows: &[u32], rules: &[TokenRule]) -> Result<Vec<NextToken>, DeviceError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let some = self.gather_rows(rows)?;
        let logits = self.cuda.project(some.as_ref().unwrap_or(self.x), self.weight, self.bias, self.scale)?;
        let rows = logits.par_chunks_exact(self.weight.rows).zip(rows);
        Ok(rows.map(|(logits, row)| choose_token(logits, &rules[*row as usize])).collect())
    }
}

/// A rule as `draw.cu` reads it.
fn rule_numbers(rule: &TokenRule, entries: usize) -> [f64; RULE] {
    let TokenRule::Drawn { temperature, top_k, top_p, at } = *rule else { panic!("a row that draws; this is a bug") };
    let top_k = if top_k < entries { top_k as f64 } else { 0.0 };
    let top_p = if top_p < 1.0 { f64::from(top_p) } else { 1.0 };
    [LOG2_E / f64::from(temperature), top_k, top_p, at]
}

/// A row's token from the numbers of `draw.cu`; `None` where the host's sums may lead to another one.
fn certain_token(drawn: &[f32]) -> Option<NextToken> {
    let &[id, logit, highest, sum, top_p_distance, top_p_total, distance, total] = drawn else {
        panic!("{DRAWN} numbers of a row; this is a bug")
    };
    if !highest.is_finite() || sum.is_nan() {
        return Some(Err(UnusableLogits));
    }
    let is_certain = top_p_distance > NEAR * top_p_total && distance > NEAR * total;
    let log_prob = f64::from(logit) - f64::from(highest) - f64::from(sum).ln();
    is_certain.then(|| Ok(ChosenToken { id: id.to_bits(), log_prob: log_prob as f32 }))
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

    #[test]
    fn a_token_is_certain_if_no_other_choice_is_near() {
        let id = f32::from_bits(70_000);
        let certain = |distances: [f32; 4]| certain_token(&[&[id, 1.0, 3.0, 2.0], &distances[..]].concat());
        let expected = ChosenToken { id: 70_000, log_prob: (-2.0 - 2.0_f64.ln()) as f32 };
        assert_eq!(certain([1.0, 0.0, 1e-6, 50.0]), Some(Ok(expected)));
        assert_eq!(certain([1e-6, 50.0, 1e-6, 50.0]), Some(Ok(expected)));
        let (near, nan) = (4e-8, f32::NAN);
        for distances in [[near, 50.0, 1.0, 50.0], [1.0, 50.0, near, 50.0], [1.0, 0.0, 0.0, 50.0]] {
            assert_eq!(certain(distances), None, "{distances:?}");
        }
        assert_eq!(certain([1.0, 0.0, -1.0, 50.0]), None);
        assert_eq!(certain([nan, 0.0, 1.0, 50.0]), None);
        assert_eq!(certain([1.0, 0.0, nan, 50.0]), None);
        for (highest, sum) in [(f32::INFINITY, nan), (f32::NEG_INFINITY, 0.0), (2.0, nan)] {
            // The kernel writes no more of such a row.
            assert_eq!(certain_token(&[nan, nan, highest, sum, nan, nan, nan, nan]), Some(Err(UnusableLogits)));
        }
    }

    #[test]
    fn a_rule_that_keeps_all_truncates_nothing() {
        let rule = |top_k, top_p| TokenRule::Drawn { temperature: 0.5, top_k, top_p, at: 0.25 };
        assert_eq!(rule_numbers(&rule(0, 1.0), 50), [2.0 * LOG2_E, 0.0, 1.0, 0.25]);
        assert_eq!(rule_numbers(&rule(50, 1.5), 50), [2.0 * LOG2_E, 0.0, 1.0, 0.25]);
        assert_eq!(rule_numbers(&rule(49, 0.5), 50), [2.0 * LOG2_E, 49.0, 0.5, 0.25]);
    }
}
