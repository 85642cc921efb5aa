//! Normalisation of rows, whole or in groups of columns.
//!
//! Sums run over four vectors side by side, then over their lanes: the order depends on the length of a row only.

use crate::cpu::simd::{Simd, SimdKernel};
use crate::cpu::{Cpu, Tensor};
use crate::{DeviceError, Norm};

/// Normalises each row of `x`.
pub(super) fn norm(cpu: &Cpu, x: &Tensor, norm: Norm<'_, Cpu>) -> Result<Tensor, DeviceError> {
    let mut out = cpu.new_tensor(x.rows(), x.columns())?;
    let weights = NormWeights::of_norm(norm, x.columns());
    cpu.for_rows(&mut out, WORK * x.columns(), |row, numbers| {
        numbers.copy_from_slice(x.row(row));
        cpu.run(NormaliseRow { numbers, weights });
    });
    Ok(out)
}

/// Normalises groups of columns of each row of `x`, in place.
pub(super) fn norm_groups(cpu: &Cpu, x: &mut Tensor, start: usize, groups: usize, width: usize, norm: Norm<'_, Cpu>) {
    let weights = NormWeights::of_norm(norm, width);
    cpu.for_rows(x, WORK * groups * width, |_, row| {
        for numbers in row[start..][..groups * width].chunks_exact_mut(width) {
            cpu.run(NormaliseRow { numbers, weights });
        }
    });
}

/// Cost of a number, in multiply-adds.
const WORK: usize = 4;

#[derive(Clone, Copy)]
struct NormWeights<'a> {
    weight: &'a [f32],
    /// With it, the mean is subtracted.
    bias: Option<&'a [f32]>,
    eps: f32,
}

impl<'a> NormWeights<'a> {
    fn of_norm(norm: Norm<'a, Cpu>, width: usize) -> Self {
        let (weight, bias, eps) = match norm {
            Norm::Layer { weight, bias, eps } => (&weight[..], Some(&bias[..]), eps),
            Norm::Rms { weight, eps } => (&weight[..], None, eps),
        };
        assert_eq!(weight.len(), width, "weights of a normalisation; this is a bug");
        assert!(bias.is_none_or(|b| b.len() == width), "biases of a normalisation; this is a bug");
        Self { weight, bias, eps }
    }
}

struct NormaliseRow<'a> {
    numbers: &'a mut [f32],
    weights: NormWeights<'a>,
}

impl SimdKernel for NormaliseRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { numbers, weights } = self;
        let n = numbers.len() as f32;
        let mean = if weights.bias.is_some() { sum_numbers(s, numbers) / n } else { 0.0 };
        let factor = 1.0 / (sum_squares(s, numbers, mean) / n + weights.eps).sqrt();
        let (mean, factor) = (s.splat(mean), s.splat(factor));
        let whole = numbers.len() / S::LANES * S::LANES;
        let (body, rest) = numbers.split_at_mut(whole);
        for (i, chunk) in body.chunks_exact_mut(S::LANES).enumerate() {
            let x = s.mul(s.sub(s.load(chunk), mean), factor);
            let weight = s.load(&weights.weight[i * S::LANES..]);
            let y = match weights.bias {
                Some(bias) => s.fma(x, weight, s.load(&bias[i * S::LANES..])),
                None => s.mul(x, weight),
            };
            s.store(y, chunk);
        }
        let x = s.mul(s.sub(s.load_part(rest), mean), factor);
        let weight = s.load_part(&weights.weight[whole..]);
        let y = match weights.bias {
            Some(bias) => s.fma(x, weight, s.load_part(&bias[whole..])),
            None => s.mul(x, weight),
        };
        s.store_part(y, rest);
    }
}

#[inline(always)]
fn sum_numbers<S: Simd>(s: S, numbers: &[f32]) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    let mut fours = numbers.chunks_exact(4 * S::LANES);
    for four in &mut fours {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = s.add(*sum, s.load(&four[i * S::LANES..]));
        }
    }
    for (chunk, sum) in fours.remainder().chunks(S::LANES).zip(&mut sums) {
        *sum = s.add(*sum, s.load_part(chunk));
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}

/// `Σ (x - centre)²`.
#[inline(always)]
fn sum_squares<S: Simd>(s: S, numbers: &[f32], centre: f32) -> f32 {
    let all = s.splat(centre);
    let mut sums = [s.splat(0.0); 4];
    let mut fours = numbers.chunks_exact(4 * S::LANES);
    for four in &mut fours {
        for (i, sum) in sums.iter_mut().enumerate() {
            let x = s.sub(s.load(&four[i * S::LANES..]), all);
            *sum = s.fma(x, x, *sum);
        }
    }
    let centres = [centre; 16];
    for (chunk, sum) in fours.remainder().chunks(S::LANES).zip(&mut sums) {
        let x = s.sub(s.load_part(chunk), s.load_part(&centres[..chunk.len()]));
        *sum = s.fma(x, x, *sum);
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}
