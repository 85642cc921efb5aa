//! A device and the reference, given the same numbers.

use super::{Arithmetic, ConformanceFailure, Operation, OperationCheck, tolerance::tolerance_of};
use crate::reference::PlainMatrix;
use crate::{Device, DeviceError, Dtype, HostTensor, NextToken, Reference, WeightLayout};
use half::{bf16, f16};

/// Seeded random numbers: SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct SeededRandom(u64);

impl SeededRandom {
    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next_u64() % n as u64) as usize
    }

    /// One element of the slice.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Evenly between `-scale` and `scale`.
    pub(super) fn number(&mut self, scale: f32) -> f32 {
        ((self.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0) * scale
    }

    pub(super) fn numbers(&mut self, n: usize, scale: f32) -> Vec<f32> {
        (0..n).map(|_| self.number(scale)).collect()
    }

    /// `0..n` in any order.
    pub(super) fn shuffled(&mut self, n: usize) -> Vec<usize> {
        let mut order = (0..n).collect::<Vec<_>>();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

/// A value on the device, and the same for the reference.
pub(super) struct PairedValue<T, P> {
    pub(super) device: T,
    pub(super) plain: P,
}

/// One operation of one device under check.
pub(super) struct OperationTrial<'a, D: Device> {
    pub(super) device: &'a D,
    pub(super) random: SeededRandom,
    pub(super) check: OperationCheck,
    /// Failed cases, if they do not end the trial.
    pub(super) failures: Vec<ConformanceFailure>,
    goes_on: bool,
    arithmetic: Arithmetic,
}

/// Magnitude of activations.
const ACTIVATION: f32 = 1.7;

impl<'a, D: Device> OperationTrial<'a, D> {
    pub(super) fn new(device: &'a D, arithmetic: Arithmetic, operation: Operation) -> Self {
        let check = OperationCheck { operation, cases: 0, largest: 0.0, companies: 0 };
        Self { device, random: SeededRandom(0x40E_7A1), check, failures: Vec::new(), goes_on: false, arithmetic }
    }

    /// From now on wrong numbers do not end the trial, and are collected.
    pub(super) fn collecting_failures(mut self) -> Self {
        self.goes_on = true;
        self
    }

    fn record_failure(&mut self, failure: ConformanceFailure) -> Result<(), ConformanceFailure> {
        if self.goes_on {
            self.failures.push(failure);
            return Ok(());
        }
        Err(failure)
    }

    /// Adds the operation and the case to a device's error.
    pub(super) fn with_case<T>(&self, case: &str, result: Result<T, DeviceError>) -> Result<T, ConformanceFailure> {
        result.map_err(|source| ConformanceFailure::Device {
            operation: self.check.operation,
            case: case.into(),
            source,
        })
    }

    pub(super) fn upload(&self, rows: usize, columns: usize, values: &[f32]) -> Result<D::Tensor, ConformanceFailure> {
        self.with_case("upload", self.device.upload(rows, columns, values))
    }

    /// Random activations.
    pub(super) fn random_tensor(
        &mut self,
        rows: usize,
        columns: usize,
    ) -> Result<PairedValue<D::Tensor, PlainMatrix>, ConformanceFailure> {
        let values = self.random.numbers(rows * columns, ACTIVATION);
        let values = self.round_storable(values);
        Ok(PairedValue { device: self.upload(rows, columns, &values)?, plain: PlainMatrix { rows, columns, values } })
    }

    /// The numbers, rounded to the device's precision.
    pub(super) fn round_storable(&self, mut numbers: Vec<f32>) -> Vec<f32> {
        if self.arithmetic == Arithmetic::Bf16 {
            numbers.iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32());
        }
        numbers
    }

    /// Random weights of any type, in parts of any size; in a file they may begin at any byte.
    pub(super) fn random_matrix(
        &mut self,
        rows: usize,
        columns: usize,
        layout: WeightLayout,
        scale: f32,
    ) -> Result<PairedValue<D::Matrix, PlainMatrix>, ConformanceFailure> {
        let mut parts = Vec::new();
        let mut left = rows;
        while left > 0 {
            let part = if self.random.below(2) == 0 { left } else { 1 + self.random.below(left) };
            left -= part;
            let shape = match layout {
                WeightLayout::OutIn => [part, columns],
                WeightLayout::InOut => [columns, part],
            };
            parts.push(self.random_host_tensor(&shape, scale));
        }
        let plain = self.with_case("matrix of the reference", Reference.load_matrix(&parts, layout))?;
        Ok(PairedValue { device: self.with_case("matrix", self.device.load_matrix(&parts, layout))?, plain })
    }

    /// Random weights of one dimension around `centre`.
    pub(super) fn random_vector(
        &mut self,
        n: usize,
        centre: f32,
    ) -> Result<PairedValue<D::Vector, Vec<f32>>, ConformanceFailure> {
        let values = self.random.numbers(n, 0.5).into_iter().map(|x| x + centre).collect::<Vec<_>>();
        let part = HostTensor::from_f32("vector", &[n], &values);
        let plain = self.with_case("vector of the reference", Reference.load_vector(std::slice::from_ref(&part)))?;
        Ok(PairedValue { device: self.with_case("vector", self.device.load_vector(&[part]))?, plain })
    }

    fn random_host_tensor(&mut self, shape: &[usize], scale: f32) -> HostTensor {
        let dtype = self.random.pick(&[Dtype::F32, Dtype::F16, Dtype::Bf16]);
        let offset = self.random.below(4);
        let values = self.random.numbers(shape.iter().product(), scale);
        let values = self.round_storable(values);
        let mut bytes = vec![0; offset];
        for value in values {
            match dtype {
                Dtype::F32 => bytes.extend(value.to_le_bytes()),
                Dtype::F16 => bytes.extend(f16::from_f32(value).to_le_bytes()),
                Dtype::Bf16 => bytes.extend(bf16::from_f32(value).to_le_bytes()),
            }
        }
        let bytes = bytes::Bytes::from(bytes).slice(offset..);
        HostTensor { name: dtype.name().into(), dtype, shape: shape.to_vec(), bytes }
    }

    /// The device's numbers.
    pub(super) fn read_tensor(&self, case: &str, x: &D::Tensor) -> Result<Vec<f32>, ConformanceFailure> {
        self.with_case(case, self.device.read_tensor(x))
    }

    /// Compares a result with the reference's.
    pub(super) fn compare_tensors(
        &mut self,
        case: &str,
        found: &D::Tensor,
        expected: &PlainMatrix,
    ) -> Result<(), ConformanceFailure> {
        let shape = self.device.shape(found);
        if shape != (expected.rows, expected.columns) {
            let (operation, expected) = (self.check.operation, (expected.rows, expected.columns));
            return Err(ConformanceFailure::Shape { operation, case: case.into(), expected, found: shape });
        }
        let found = self.read_tensor(case, found)?;
        self.compare_numbers(case, &found, &expected.values)
    }

    /// Compares numbers with the reference's.
    pub(super) fn compare_numbers(
        &mut self,
        case: &str,
        found: &[f32],
        expected: &[f32],
    ) -> Result<(), ConformanceFailure> {
        let operation = self.check.operation;
        if found.len() != expected.len() {
            let (expected, found) = ((expected.len(), 1), (found.len(), 1));
            return Err(ConformanceFailure::Shape { operation, case: case.into(), expected, found });
        }
        let tolerance = tolerance_of(operation, self.arithmetic);
        let part = |found: f32, expected: f32| {
            if found == expected || (found.is_nan() && expected.is_nan()) {
                return 0.0;
            }
            let allowed = f64::from(tolerance.absolute) + f64::from(tolerance.relative) * f64::from(expected.abs());
            let part = f64::from((found - expected).abs()) / allowed;
            if part.is_nan() { f64::INFINITY } else { part }
        };
        let parts = found.iter().zip(expected).map(|(&found, &expected)| part(found, expected));
        let parts: Vec<f64> = parts.collect();
        self.check.largest = parts.iter().copied().fold(self.check.largest, f64::max);
        if let Some(at) = parts.iter().position(|&part| part > 1.0) {
            let wrong = parts.iter().filter(|&&part| part > 1.0).count();
            let (numbers, expected, found) = (parts.len(), expected[at], found[at]);
            let case = case.into();
            return self.record_failure(ConformanceFailure::Differs {
                operation,
                case,
                at,
                expected,
                found,
                wrong,
                numbers,
                tolerance,
            });
        }
        self.check.cases += 1;
        Ok(())
    }

    /// Compares next tokens with those of the definition: exactly, but for their log-probabilities.
    pub(super) fn compare_tokens(
        &mut self,
        case: &str,
        found: &[NextToken],
        expected: &[NextToken],
    ) -> Result<(), ConformanceFailure> {
        let operation = self.check.operation;
        if found.len() != expected.len() {
            let (expected, found) = ((expected.len(), 1), (found.len(), 1));
            return Err(ConformanceFailure::Shape { operation, case: case.into(), expected, found });
        }
        let id = |token: &NextToken| token.map(|token| token.id);
        let pairs = || found.iter().zip(expected);
        let differs = |(found, expected): (&NextToken, &NextToken)| id(found) != id(expected);
        if let Some(row) = pairs().position(differs) {
            let (wrong, rows, expected, found) =
                (pairs().filter(|pair| differs(*pair)).count(), found.len(), expected[row], found[row]);
            let case = case.into();
            let failure = ConformanceFailure::OtherToken { operation, case, row, expected, found, wrong, rows };
            return self.record_failure(failure);
        }
        let log_probs = |tokens: &[NextToken]| {
            let numbers = tokens.iter().map(|token| token.map_or(f32::NAN, |token| token.log_prob));
            numbers.collect::<Vec<_>>()
        };
        self.compare_numbers(case, &log_probs(found), &log_probs(expected))
    }

    /// Compares the bits of two computations of the same numbers in different batches.
    pub(super) fn compare_bits(
        &mut self,
        case: &str,
        alone: &[f32],
        together: &[f32],
    ) -> Result<(), ConformanceFailure> {
        if alone.len() != together.len() {
            let (operation, expected, found) = (self.check.operation, (together.len(), 1), (alone.len(), 1));
            return Err(ConformanceFailure::Shape { operation, case: case.into(), expected, found });
        }
        let pairs = || alone.iter().zip(together);
        let different = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits();
        if let Some(at) = pairs().position(different) {
            let (operation, case, different) =
                (self.check.operation, case.into(), pairs().filter(|&p| different(p)).count());
            let (numbers, alone, together) = (alone.len(), alone[at], together[at]);
            return self.record_failure(ConformanceFailure::OtherBatch {
                operation,
                case,
                at,
                alone,
                together,
                different,
                numbers,
            });
        }
        self.check.companies += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_the_tolerance_is_a_failure() {
        for operation in Operation::ALL {
            for arithmetic in [Arithmetic::F32, Arithmetic::Tf32, Arithmetic::Bf16] {
                let allowed = tolerance_of(operation, arithmetic);
                let expected = [0.0, 1.5, -8.0, f32::INFINITY];
                let mut trial = OperationTrial::new(&Reference, arithmetic, operation);
                let beyond = |x: f32, part: f32| x + part * (allowed.absolute + allowed.relative * x.abs());
                trial.compare_numbers("equal", &expected, &expected).unwrap();
                if allowed.absolute > 0.0 {
                    let within = [beyond(0.0, 0.9), beyond(1.5, 0.5), beyond(-8.0, -0.5), f32::INFINITY];
                    trial.compare_numbers("within", &within, &expected).unwrap();
                    assert!(trial.check.largest > 0.8 && trial.check.largest <= 1.0, "{:?}", trial.check);
                }
                for (at, x) in expected.into_iter().enumerate() {
                    for wrong in [beyond(x, 1.5).next_up().min(1e9), beyond(x, -1.5).next_down().min(-1e-9), f32::NAN] {
                        let mut found = expected;
                        found[at] = wrong;
                        let failure = trial.compare_numbers("wrong", &found, &expected).unwrap_err();
                        assert!(
                            matches!(failure, ConformanceFailure::Differs { at: there, .. } if there == at),
                            "{failure}"
                        );
                    }
                }
                let short = trial.compare_numbers("short", &expected[1..], &expected).unwrap_err();
                assert!(matches!(short, ConformanceFailure::Shape { .. }), "{short}");
            }
        }
    }

    #[test]
    fn one_bit_in_another_batch_is_a_failure() {
        let mut trial = OperationTrial::new(&Reference, Arithmetic::Bf16, Operation::Linear);
        trial.compare_bits("equal", &[1.0, f32::NAN], &[1.0, f32::NAN]).unwrap();
        for (alone, together) in [(1.0, 1.0 + f32::EPSILON), (0.0, -0.0), (1.0, f32::NAN)] {
            let failure = trial.compare_bits("other", &[2.0, alone], &[2.0, together]).unwrap_err();
            assert!(
                matches!(failure, ConformanceFailure::OtherBatch { at: 1, different: 1, numbers: 2, .. }),
                "{failure}"
            );
        }
    }

    #[test]
    fn wrong_numbers_end_nothing_where_all_are_asked_for() {
        let mut trial = OperationTrial::new(&Reference, Arithmetic::F32, Operation::Norm).collecting_failures();
        assert!(matches!(trial.compare_numbers("short", &[1.0], &[1.0, 2.0]), Err(ConformanceFailure::Shape { .. })));
        assert!(matches!(trial.compare_bits("short", &[1.0], &[1.0, 2.0]), Err(ConformanceFailure::Shape { .. })));
        trial.compare_numbers("wrong", &[1.0, 3.0, f32::NAN], &[1.0, 2.0, 2.0]).unwrap();
        trial.compare_numbers("right", &[1.0], &[1.0]).unwrap();
        trial.compare_bits("other", &[1.0, 2.0], &[3.0, 2.0]).unwrap();
        assert_eq!((trial.check.cases, trial.check.companies, trial.check.largest), (1, 0, f64::INFINITY));
        let said: Vec<_> = trial.failures.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            matches!(trial.failures[0], ConformanceFailure::Differs { at: 1, wrong: 2, numbers: 3, .. }),
            "{said:?}"
        );
        assert!(matches!(trial.failures[1], ConformanceFailure::OtherBatch { at: 0, different: 1, .. }), "{said:?}");
    }
}
