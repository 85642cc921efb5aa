//! The conformance suite: what every device must pass, and the one table of tolerances.
//!
//! ```text
//!   tolerance    how far a device may be from the reference, by operation and arithmetic
//!   trial        a device and the reference, given the same seeded numbers
//!   rows         embed, norm, norm_groups, gate, rotate, gather, scatter, average
//!   products     linear, project, log_probs
//!   attention    masks, biases, spans
//!   invariance   the same rows in other company: not a bit may differ
//! ```
//!
//! It is a function, not a test, so that devices of other crates and a command line can call it. It draws its cases from a
//! fixed seed and takes seconds.
//!
//! ```
//! use hopeval_device::conformance::{Arithmetic, Operation, check};
//! use hopeval_device::Reference;
//!
//! let found = check(&Reference, Arithmetic::F32, Operation::Rotate)?;
//! assert!(found.cases > 0 && found.largest == 0.0);
//! # Ok::<(), hopeval_device::conformance::Failure>(())
//! ```

mod attention;
mod invariance;
mod products;
mod rows;
pub mod tolerance;
mod trial;

pub use tolerance::{Arithmetic, Operation, Tolerance};

use crate::{Device, DeviceError};
use trial::Trial;

/// Rows of the largest batch whose log-probabilities are taken: more than a device should hold the logits of at once.
pub const MANY_ROWS: usize = 4101;

/// What was found of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// Which.
    pub operation: Operation,
    /// How often it was compared with the reference.
    pub cases: usize,
    /// The largest difference found, as a part of what is tolerated: at most 1 if none failed.
    pub largest: f64,
    /// How often the same rows were computed in other company.
    pub companies: usize,
}

/// What was found of one operation, and every case that failed.
#[derive(Debug)]
pub struct Finding {
    /// `cases` and `companies` are those that passed; `largest` is of failed ones, too.
    pub check: Check,
    /// First what ended the operation, if anything did: the device refused, or gave another shape, and other cases were not tried.
    /// Then numbers that were wrong, in the order of the cases.
    pub failures: Vec<Failure>,
}

/// What was found of a device.
#[derive(Debug)]
pub struct Report {
    /// One for each operation, in the order of [`Operation::ALL`].
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether nothing failed.
    pub fn conforms(&self) -> bool {
        self.findings.iter().all(|finding| finding.failures.is_empty())
    }
}

/// A case in which a device does not conform.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The device refused.
    #[error("{operation:?}, {case}: the device failed")]
    Device {
        /// Which operation.
        operation: Operation,
        /// Of what shape.
        case: String,
        /// Why.
        #[source]
        source: DeviceError,
    },
    /// A result of another size.
    #[error("{operation:?}, {case}: {found:?} rows and columns instead of {expected:?}")]
    Shape {
        /// Which operation.
        operation: Operation,
        /// Of what shape.
        case: String,
        /// `(rows, columns)` of the reference.
        expected: (usize, usize),
        /// `(rows, columns)` of the device.
        found: (usize, usize),
    },
    /// Farther from the reference than is tolerated.
    #[error(
        "{operation:?}, {case}: number {at} is {found:e} instead of {expected:e}; {wrong} of {numbers} are beyond {tolerance}"
    )]
    Differs {
        /// Which operation.
        operation: Operation,
        /// Of what shape.
        case: String,
        /// The first such number of the result.
        at: usize,
        /// The reference's.
        expected: f32,
        /// The device's.
        found: f32,
        /// How many numbers are so far off.
        wrong: usize,
        /// Of how many.
        numbers: usize,
        /// What would have been tolerated.
        tolerance: Tolerance,
    },
    /// The same row in other company gave other bits.
    #[error(
        "{operation:?}, {case}: number {at} is {alone:e} ({:08x}) and {together:e} ({:08x}) in other company; {different} of \
        {numbers} differ", alone.to_bits(), together.to_bits()
    )]
    Company {
        /// Which operation.
        operation: Operation,
        /// Of what shape, and which company.
        case: String,
        /// The first such number of the result.
        at: usize,
        /// In the one company.
        alone: f32,
        /// In the other.
        together: f32,
        /// How many numbers differ.
        different: usize,
        /// Of how many.
        numbers: usize,
    },
}

/// Checks all operations of a device: against the reference, and against themselves in other batches. Wrong numbers end neither their
/// operation nor the others: a device is borrowed for minutes, and one run should tell all.
pub fn run<D: Device>(device: &D, arithmetic: Arithmetic) -> Report {
    let finding = |operation: &Operation| {
        let mut trial = Trial::new(device, arithmetic, *operation).going_on();
        let ended = against_the_reference(&mut trial).and_then(|()| invariance::in_other_company(&mut trial));
        let mut failures: Vec<Failure> = ended.err().into_iter().collect();
        failures.append(&mut trial.failures);
        Finding { check: trial.check, failures }
    };
    Report { findings: Operation::ALL.iter().map(finding).collect() }
}

/// Checks one operation.
///
/// # Errors
/// The first [`Failure`].
pub fn check<D: Device>(device: &D, arithmetic: Arithmetic, operation: Operation) -> Result<Check, Failure> {
    let mut trial = Trial::new(device, arithmetic, operation);
    against_the_reference(&mut trial)?;
    invariance::in_other_company(&mut trial)?;
    Ok(trial.check)
}

fn against_the_reference<D: Device>(trial: &mut Trial<'_, D>) -> Result<(), Failure> {
    match trial.check.operation {
        Operation::Embed => rows::embed(trial),
        Operation::Norm => rows::norm(trial),
        Operation::NormGroups => rows::norm_groups(trial),
        Operation::Linear => products::linear(trial),
        Operation::Project => products::project(trial),
        Operation::Gate => rows::gate(trial),
        Operation::Rotate => rows::rotate(trial),
        Operation::Attention => attention::attention(trial),
        Operation::Gather => rows::gather(trial),
        Operation::Scatter => rows::scatter(trial),
        Operation::Average => rows::average(trial),
        Operation::LogProbs => products::log_probs(trial),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reference;

    #[test]
    fn the_reference_conforms_to_itself() {
        // Large batches of layers would take it half a minute; its projections are the same products.
        for operation in Operation::ALL.into_iter().filter(|operation| *operation != Operation::Linear) {
            let check = check(&Reference, Arithmetic::F32, operation).unwrap();
            assert!(check.cases > 0 && check.companies > 0 && check.largest == 0.0, "{check:?}");
        }
        let mut linear = Trial::new(&Reference, Arithmetic::F32, Operation::Linear);
        against_the_reference(&mut linear).unwrap();
        assert!(linear.check.cases > 0 && linear.check.largest == 0.0, "{:?}", linear.check);
    }
}
