//! The conformance suite that every device must pass, and the one table of tolerances.
//!
//! ```text
//!   tolerance    how far a device may be from the reference, by operation and arithmetic
//!   trial        a device and the reference, given the same seeded numbers
//!   rows         embed, norm, norm_groups, gate, rotate, gather, scatter, average
//!   products     linear, project, log_probs
//!   next_tokens  highest and drawn tokens
//!   attention    masks, biases, spans
//!   invariance   the same rows in other batches: not a bit may differ
//! ```
//!
//! It is a function, not a test, so other crates' devices and a command line can call it. It draws its cases from a
//! fixed seed and takes seconds.
//!
//! ```
//! use hopeval_device::conformance::{Arithmetic, Operation, check};
//! use hopeval_device::Reference;
//!
//! let found = check(&Reference, Arithmetic::F32, Operation::Rotate)?;
//! assert!(found.cases > 0 && found.largest == 0.0);
//! # Ok::<(), hopeval_device::conformance::ConformanceFailure>(())
//! ```

mod attention;
mod invariance;
mod next_tokens;
mod products;
mod rows;
pub mod tolerance;
mod trial;

pub use tolerance::{Arithmetic, Operation, Tolerance};

use crate::{Device, DeviceError, NextToken};
use trial::OperationTrial;

/// Rows of the largest batch of log-probabilities: a device should not hold the logits of so many at once.
pub const MANY_ROWS: usize = 4101;

/// The counts of one operation's check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationCheck {
    /// The operation.
    pub operation: Operation,
    /// Number of comparisons with the reference.
    pub cases: usize,
    /// The largest difference found, as a part of the tolerance: at most 1 if no case failed.
    pub largest: f64,
    /// Number of times that the same rows were computed in another batch.
    pub companies: usize,
}

/// The result of one operation's check, with every failed case.
#[derive(Debug)]
pub struct OperationFinding {
    /// `cases` and `companies` count passed cases only; `largest` includes failed ones.
    pub check: OperationCheck,
    /// First the failure that ended the operation, if any: the device refused, or returned another shape, and the
    /// remaining cases were not tried. Then wrong numbers, in the order of the cases.
    pub failures: Vec<ConformanceFailure>,
}

/// The result of a device's check.
#[derive(Debug)]
pub struct ConformanceReport {
    /// One for each operation, in the order of [`Operation::ALL`].
    pub findings: Vec<OperationFinding>,
}

impl ConformanceReport {
    /// True if nothing failed.
    pub fn conforms(&self) -> bool {
        self.findings.iter().all(|finding| finding.failures.is_empty())
    }
}

/// A case that shows a device's fault.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceFailure {
    /// The device refused.
    #[error("{operation:?}, {case}: the device failed")]
    Device {
        /// The operation.
        operation: Operation,
        /// The case's shape.
        case: String,
        /// The cause.
        #[source]
        source: DeviceError,
    },
    /// The result has another size.
    #[error("{operation:?}, {case}: {found:?} rows and columns instead of {expected:?}")]
    Shape {
        /// The operation.
        operation: Operation,
        /// The case's shape.
        case: String,
        /// `(rows, columns)` of the reference.
        expected: (usize, usize),
        /// `(rows, columns)` of the device.
        found: (usize, usize),
    },
    /// A number is farther from the reference than the tolerance.
    #[error(
        "{operation:?}, {case}: number {at} is {found:e} instead of {expected:e}; \
         {wrong} of {numbers} are beyond {tolerance}"
    )]
    Differs {
        /// The operation.
        operation: Operation,
        /// The case's shape.
        case: String,
        /// The first such number of the result.
        at: usize,
        /// The reference's.
        expected: f32,
        /// The device's.
        found: f32,
        /// How many numbers are too far off.
        wrong: usize,
        /// How many numbers there are.
        numbers: usize,
        /// The tolerance.
        tolerance: Tolerance,
    },
    /// A row has another next token, or one instead of none.
    #[error(
        "{operation:?}, {case}: row {row} of {rows} goes on with {found:?} instead of {expected:?}; {wrong} differ"
    )]
    OtherToken {
        /// The operation.
        operation: Operation,
        /// The case's shape.
        case: String,
        /// The first such row.
        row: usize,
        /// By the definition.
        expected: NextToken,
        /// The device's.
        found: NextToken,
        /// How many rows have another token.
        wrong: usize,
        /// How many rows there are.
        rows: usize,
    },
    /// The same row in another batch gave other bits.
    #[error(
        "{operation:?}, {case}: number {at} is {alone:e} ({:08x}) and {together:e} ({:08x}) in other company; \
        {different} of {numbers} differ", alone.to_bits(), together.to_bits()
    )]
    OtherBatch {
        /// The operation.
        operation: Operation,
        /// The case's shape and batch.
        case: String,
        /// The first such number of the result.
        at: usize,
        /// The device's number in one batch.
        alone: f32,
        /// The device's number in the other.
        together: f32,
        /// How many numbers differ.
        different: usize,
        /// How many numbers there are.
        numbers: usize,
    },
}

/// Checks operations of a device: against the reference, and against themselves in other batches. Wrong numbers end
/// neither their operation nor the others: a device is borrowed for minutes, and one run should report everything.
pub fn check_device<D: Device>(device: &D, arithmetic: Arithmetic, operations: &[Operation]) -> ConformanceReport {
    let finding = |operation: &Operation| {
        let mut trial = OperationTrial::new(device, arithmetic, *operation).collecting_failures();
        let ended = against_the_reference(&mut trial).and_then(|()| invariance::in_other_batches(&mut trial));
        let mut failures: Vec<ConformanceFailure> = ended.err().into_iter().collect();
        failures.append(&mut trial.failures);
        OperationFinding { check: trial.check, failures }
    };
    ConformanceReport { findings: operations.iter().map(finding).collect() }
}

/// Checks one operation.
///
/// # Errors
/// The first [`ConformanceFailure`].
pub fn check<D: Device>(
    device: &D,
    arithmetic: Arithmetic,
    operation: Operation,
) -> Result<OperationCheck, ConformanceFailure> {
    let mut trial = OperationTrial::new(device, arithmetic, operation);
    against_the_reference(&mut trial)?;
    invariance::in_other_batches(&mut trial)?;
    Ok(trial.check)
}

fn against_the_reference<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    match trial.check.operation {
        Operation::Embed => rows::check_embed(trial),
        Operation::Norm => rows::check_norm(trial),
        Operation::NormGroups => rows::check_norm_groups(trial),
        Operation::Linear => products::check_linear(trial),
        Operation::Project => products::check_project(trial),
        Operation::Gate => rows::check_gate(trial),
        Operation::Rotate => rows::check_rotate(trial),
        Operation::Attention => attention::check_attention(trial),
        Operation::Gather => rows::check_gather(trial),
        Operation::Scatter => rows::check_scatter(trial),
        Operation::Average => rows::check_average(trial),
        Operation::LogProbs => products::check_log_probs(trial),
        Operation::NextTokens => next_tokens::check_next_tokens(trial),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reference;

    #[test]
    fn the_reference_conforms_to_itself() {
        // Large batches of layers would take the reference half a minute; its projections are the same products.
        for operation in Operation::ALL.into_iter().filter(|operation| *operation != Operation::Linear) {
            let check = check(&Reference, Arithmetic::F32, operation).unwrap();
            assert!(check.cases > 0 && check.companies > 0 && check.largest == 0.0, "{check:?}");
        }
        let mut linear = OperationTrial::new(&Reference, Arithmetic::F32, Operation::Linear);
        against_the_reference(&mut linear).unwrap();
        assert!(linear.check.cases > 0 && linear.check.largest == 0.0, "{:?}", linear.check);
    }
}
