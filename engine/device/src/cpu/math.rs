//! Element-wise functions of vectors: exponential, hyperbolic tangent and the activations.
//!
//! Each lane depends on itself only and goes through the same operations on every instruction set. Errors against `f64`
//! are a few 1e-7 relative (the tests state them); results below the smallest normal number are zero.

use crate::Activation;
use crate::cpu::simd::Simd;

/// `e^x`; 0 if this is not a normal number, infinity if it is too large, NaN for NaN.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    /// The logarithms of the smallest normal number and of the largest number.
    const LEAST: f32 = -87.336_54;
    const MOST: f32 = 88.722_83;
    // x = n ln 2 + r; ln 2 in two parts, the first of which times n is exact.
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.fnma(n, s.splat(0.693_359_4), x);
    let r = s.fnma(n, s.splat(-2.121_944_4e-4), r);
    // e^r = 1 + r + r² p(r), p by minimax on |r| <= ln 2 / 2: 3e-9.
    let p = polynomial(s, r, [0.001_381_446_6, 0.008_368_781, 0.041_668_393, 0.166_665_2, 0.499_999_94]);
    let y = s.add(s.fma(s.mul(r, r), p, r), s.splat(1.0));
    let y = s.times_power_of_two(y, n);
    let y = s.where_less(x, s.splat(LEAST), s.splat(0.0), y);
    s.where_less(s.splat(MOST), x, s.splat(f32::INFINITY), y)
}

/// `tanh x`.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::V) -> S::V {
    let magnitude = s.abs(x);
    let one = s.splat(1.0);
    // Near zero x + x³ p(x²), p by minimax; farther out 1 - 2 / (e^2|x| + 1), free of cancellation there.
    let square = s.mul(x, x);
    let p = polynomial(s, square, [-0.005_704_986_4, 0.020_639_101, -0.053_739_71, 0.133_314_42, -0.333_332_8]);
    let near = s.fma(s.mul(x, square), p, x);
    let far = s.sub(one, s.div(s.splat(2.0), s.add(exp(s, s.add(magnitude, magnitude)), one)));
    s.where_less(magnitude, s.splat(0.625), near, s.copysign(far, x))
}

/// `x Φ(x)` as `max(x, 0) - |x| Q(|x|)`, where `Q(a) = e^(-a²/2) u p(u)`, `u = 1 / (1 + 0.35 a)`: the relative error is
/// small in both tails.
#[inline(always)]
fn gelu<S: Simd>(s: S, x: S::V) -> S::V {
    const COEFFICIENTS: [f32; 9] = [
        -0.029_124_8,
        0.143_867_4,
        -0.255_495_3,
        0.158_919_54,
        -0.022_930_97,
        0.105_430_54,
        0.119_852_99,
        0.139_859,
        0.139_621_57,
    ];
    // From 13.3 on Q is 0.
    let magnitude = s.abs(x);
    let a = s.where_less(s.splat(14.0), magnitude, s.splat(14.0), magnitude);
    let u = s.div(s.splat(1.0), s.fma(a, s.splat(0.35), s.splat(1.0)));
    let square = s.mul(a, a);
    // The rounding error of the square, times the derivative.
    let lost = s.fma(a, a, s.sub(s.splat(0.0), square));
    let e = exp(s, s.mul(square, s.splat(-0.5)));
    let e = s.fma(s.mul(lost, s.splat(-0.5)), e, e);
    let tail = s.mul(s.mul(e, u), polynomial(s, u, COEFFICIENTS));
    s.fnma(a, tail, s.max(s.splat(0.0), x))
}

/// `x / (1 + e^-y)`.
#[inline(always)]
fn gated_sigmoid<S: Simd>(s: S, x: S::V, y: S::V) -> S::V {
    s.div(x, s.add(exp(s, s.sub(s.splat(0.0), y)), s.splat(1.0)))
}

/// An activation of each lane.
#[inline(always)]
pub(crate) fn activate<S: Simd>(s: S, activation: Activation, x: S::V) -> S::V {
    match activation {
        Activation::Identity => x,
        // NaN stays.
        Activation::Relu => s.max(s.splat(0.0), x),
        Activation::Gelu => gelu(s, x),
        Activation::GeluTanh => {
            // (1 + tanh z) / 2 = 1 / (1 + e^-2z).
            let cubic = s.fma(s.mul(s.mul(x, x), x), s.splat(0.044_715), x);
            gated_sigmoid(s, x, s.mul(cubic, s.splat(1.595_769_2)))
        }
        Activation::Silu => gated_sigmoid(s, x, x),
        Activation::Tanh => tanh(s, x),
    }
}

/// The highest power's coefficient first.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, x: S::V, coefficients: [f32; N]) -> S::V {
    let mut sum = s.splat(coefficients[0]);
    for coefficient in &coefficients[1..] {
        sum = s.fma(sum, x, s.splat(*coefficient));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::{SimdKernel, SimdLevel};
    use crate::reference;

    /// An activation of all numbers of a slice, in place.
    struct ActivateAll<'a> {
        /// The numbers.
        values: &'a mut [f32],
        /// The function.
        activation: Activation,
    }

    impl SimdKernel for ActivateAll<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            let mut chunks = self.values.chunks_exact_mut(S::LANES);
            for chunk in &mut chunks {
                s.store(activate(s, self.activation, s.load(chunk)), chunk);
            }
            let rest = chunks.into_remainder();
            s.store_part(activate(s, self.activation, s.load_part(rest)), rest);
        }
    }

    struct ExpAll<'a>(&'a mut [f32]);

    impl SimdKernel for ExpAll<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            for chunk in self.0.chunks_mut(S::LANES) {
                let y = exp(s, s.load_part(chunk));
                s.store_part(y, chunk);
            }
        }
    }

    /// Every 10,007th of all numbers, both signs, and the neighbourhood of zero evenly.
    fn dense() -> Vec<f32> {
        let bits = (0..u32::MAX / 10_007).map(|i| f32::from_bits(i * 10_007)).filter(|x| x.is_finite());
        let even = (-50_000..50_000).map(|i| i as f32 * 4e-4);
        bits.chain(even).collect()
    }

    fn largest_error(inputs: &[f32], outputs: &[f32], exact: impl Fn(f64) -> f64, floor: f64) -> f64 {
        let mut worst = 0.0_f64;
        for (x, y) in inputs.iter().zip(outputs) {
            let want = exact(f64::from(*x));
            if want.abs() > f64::from(f32::MAX) {
                assert_eq!(f64::from(*y), want.signum() * f64::INFINITY, "at {x}");
                continue;
            }
            let error = (f64::from(*y) - want).abs() / want.abs().max(floor);
            assert!(!error.is_nan(), "{y} for {want} at {x}");
            worst = worst.max(error);
        }
        worst
    }

    fn apply(level: SimdLevel, activation: Activation, inputs: &[f32]) -> Vec<f32> {
        let mut values = inputs.to_vec();
        level.run(ActivateAll { values: &mut values, activation });
        values
    }

    fn exps(level: SimdLevel, inputs: &[f32]) -> Vec<f32> {
        let mut values = inputs.to_vec();
        level.run(ExpAll(&mut values));
        values
    }

    #[test]
    fn exp_is_exact_to_two_tenths_of_a_millionth() {
        let (normal, beyond): (Vec<f32>, Vec<f32>) =
            dense().into_iter().partition(|x| f64::from(*x).exp() >= f64::from(f32::MIN_POSITIVE));
        for level in SimdLevel::available() {
            let error = largest_error(&normal, &exps(level, &normal), f64::exp, 0.0);
            assert!(error < 2e-7, "{level:?}: {error}");
            assert!(exps(level, &beyond).iter().all(|y| (0.0..1.2e-38).contains(y)), "{level:?}");
        }
    }

    #[test]
    fn exp_of_the_extremes() {
        let inputs = [f32::NEG_INFINITY, -1e30, -87.4, -0.0, 0.0, 88.8, 1e30, f32::INFINITY, f32::NAN];
        for level in SimdLevel::available() {
            let outputs = exps(level, &inputs);
            assert_eq!(outputs[..8], [0.0, 0.0, 0.0, 1.0, 1.0, f32::INFINITY, f32::INFINITY, f32::INFINITY]);
            assert!(outputs[8].is_nan());
        }
    }

    #[test]
    fn activations_are_what_the_reference_says() {
        let inputs = dense();
        for level in SimdLevel::available() {
            for (activation, bound) in [
                (Activation::Identity, 0.0),
                (Activation::Relu, 0.0),
                (Activation::Gelu, 6e-7),
                // Nearly 0: e^-60 of a rounded argument.
                (Activation::GeluTanh, 2e-5),
                (Activation::Silu, 3e-7),
                (Activation::Tanh, 3e-7),
            ] {
                let outputs = apply(level, activation, &inputs);
                let exact = |x: f64| match activation {
                    // 1 + tanh loses all its digits in the lower tail, even in f64.
                    Activation::GeluTanh => x / (1.0 + (-1.595_769_121_605_730_7 * (x + 0.044_715 * x * x * x)).exp()),
                    _ => reference::activate(x, activation),
                };
                let error = largest_error(&inputs, &outputs, exact, 1e-30);
                assert!(error <= bound, "{level:?} {activation:?}: {error}");
            }
        }
    }

    #[test]
    fn nan_stays_and_infinities_saturate() {
        for level in SimdLevel::available() {
            for activation in
                [Activation::Relu, Activation::Gelu, Activation::GeluTanh, Activation::Silu, Activation::Tanh]
            {
                let outputs = apply(level, activation, &[f32::NAN, f32::INFINITY, 1e30, -1e30]);
                let top = if activation == Activation::Tanh { [1.0, 1.0] } else { [f32::INFINITY, 1e30] };
                let bottom = if activation == Activation::Tanh { -1.0 } else { 0.0 };
                assert!(outputs[0].is_nan(), "{activation:?}: {outputs:?}");
                assert_eq!(outputs[1..3], top, "{activation:?}");
                assert_eq!(outputs[3], bottom, "{activation:?}");
            }
        }
    }

    #[test]
    fn all_instruction_sets_agree_to_the_bit() {
        let inputs = dense();
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu, Activation::Tanh] {
            let mut found = SimdLevel::available().into_iter().map(|level| bits(apply(level, activation, &inputs)));
            let Some(first) = found.next() else { return };
            assert!(found.all(|other| other == first), "{activation:?}");
        }
    }
}
