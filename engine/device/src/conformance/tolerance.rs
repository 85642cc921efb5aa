//! The tolerated distance of a device from the reference.
//!
//! The suite's numbers are of magnitude one, and weights are scaled to keep products so. A result with sums in `f32` is
//! then within about 1e-6 of the reference, which computes in `f64`; a sum of a thousand products within a few times
//! this. A device that rounds the factors of products to fewer bits, and sums in `f32`, errs by about the rounding of
//! one factor for each product in a row:
//!
//! | arithmetic | a factor keeps | rounding |
//! | --- | --- | --- |
//! | `F32` | 24 bits | 6e-8 |
//! | `Tf32` | 11 bits | 5e-4 |
//! | `Bf16` | 8 bits | 4e-3 |
//!
//! A device of `Bf16` also stores its weights and intermediate results with 8 bits. The suite gives it representable
//! numbers, and allows each operation the rounding of its result: half of 2^-7 for each unit of it. Results that are
//! never stored this way get no such allowance. `project` has exact factors and sums in `f32`, so it errs by these sums
//! alone, and a result rounded to 8 bits is found.

use std::fmt;

/// The rounding of the factors of products; sums are always `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Nothing.
    F32,
    /// Rounds them to 11 bits of precision.
    Tf32,
    /// Rounds factors and everything stored to 8 bits of precision, except final results: means, logits and
    /// log-sum-exps.
    Bf16,
}

/// The checked operations: all those of [`Device`](crate::Device) that compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as the methods of `Device` are")]
pub enum Operation {
    Embed,
    Norm,
    NormGroups,
    Linear,
    Project,
    Gate,
    Rotate,
    Attention,
    Gather,
    Scatter,
    Average,
    LogProbs,
    NextTokens,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Embed,
        Self::Norm,
        Self::NormGroups,
        Self::Linear,
        Self::Project,
        Self::Gate,
        Self::Rotate,
        Self::Attention,
        Self::Gather,
        Self::Scatter,
        Self::Average,
        Self::LogProbs,
        Self::NextTokens,
    ];
}

/// `|found - expected| <= absolute + relative * |expected|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The part for any number.
    pub absolute: f32,
    /// The part for each unit of a number.
    pub relative: f32,
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tolerated is {:e} and {:e} of it", self.absolute, self.relative)
    }
}

/// The table of tolerances.
pub fn tolerance_of(operation: Operation, arithmetic: Arithmetic) -> Tolerance {
    let of = |absolute, relative| Tolerance { absolute, relative };
    match (operation, arithmetic) {
        // Numbers are only moved.
        (Operation::Gather | Operation::Scatter, _) => of(0.0, 0.0),
        // One rounding, of the result.
        (Operation::Embed | Operation::Rotate | Operation::Gate, Arithmetic::Bf16) => of(4e-7, 4e-3),
        (Operation::Norm | Operation::NormGroups, Arithmetic::Bf16) => of(1e-6, 4e-3),
        // There are no products of two activations: the arithmetic of products does not matter.
        (Operation::Embed | Operation::Rotate | Operation::Average, _) => of(4e-7, 4e-7),
        (Operation::Gate, _) => of(4e-7, 8e-7),
        (Operation::Norm | Operation::NormGroups, _) => of(1e-6, 1e-6),
        // Sums of products, up to a thousand in a row.
        (Operation::Linear | Operation::Project, Arithmetic::F32) => of(1e-5, 4e-6),
        (Operation::Linear | Operation::Project, Arithmetic::Tf32) => of(4e-3, 2e-3),
        (Operation::Linear, Arithmetic::Bf16) => of(3e-2, 1e-2),
        // The factors are exact; a GPU's units truncate sums, a processor rounds them.
        (Operation::Project, Arithmetic::Bf16) => of(1e-4, 1e-4),
        // Two sums of products with an exponential between; scores reach 10.
        (Operation::Attention, Arithmetic::F32) => of(4e-6, 4e-6),
        (Operation::Attention, Arithmetic::Tf32) => of(2e-2, 1e-2),
        // One key less of fifty, or one bias of another distance, is beyond this; a GPU's largest is under half of it.
        (Operation::Attention, Arithmetic::Bf16) => of(8e-3, 4e-3),
        // A product, divided by temperatures down to 0.3.
        (Operation::LogProbs | Operation::NextTokens, Arithmetic::F32) => of(2e-5, 2e-6),
        (Operation::LogProbs | Operation::NextTokens, Arithmetic::Tf32) => of(1e-2, 2e-3),
        // The factors are exact in bf16, too.
        (Operation::LogProbs | Operation::NextTokens, Arithmetic::Bf16) => of(1e-3, 1e-4),
    }
}
