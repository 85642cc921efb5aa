//! Vectors: number formats and checks.

use serde::{Deserialize, Serialize};

use crate::container::ALIGN;

/// Maximum number of numbers in a vector.
pub(super) const MOST_NUMBERS: usize = 1 << 16;

/// Maximum Euclidean length of a vector. Sums in single precision for products of two such vectors never overflow, in
/// any order.
const LONGEST: f64 = 1e18;

/// Number format of an index's stored vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VectorDtype {
    /// Single precision, as encoders produce it.
    #[default]
    F32,
    /// Half precision, rounded to nearest, ties to even: half the bytes.
    F16,
}

impl VectorDtype {
    /// Its name in settings files.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
        }
    }

    /// Bytes from one vector to the next, in memory and in the file.
    pub fn pitch(self, dimension: usize) -> usize {
        let size = match self {
            Self::F32 => 4,
            Self::F16 => 2,
        };
        (dimension * size).next_multiple_of(ALIGN as usize)
    }

    /// Appends a vector's bytes, padded to the pitch with zeros. The vector must pass [`check_vector`] and
    /// [`Self::check_range`].
    pub(super) fn write_vector(self, vector: &[f32], out: &mut Vec<u8>) {
        let end = out.len() + self.pitch(vector.len());
        match self {
            Self::F32 => vector.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
            Self::F16 => vector.iter().for_each(|&x| out.extend_from_slice(&half::f16::from_f32(x).to_le_bytes())),
        }
        out.resize(end, 0);
    }

    /// Checks that the numbers fit this format.
    pub(super) fn check_range(self, vector: &[f32]) -> Result<(), String> {
        let beyond = |&(_, &x): &(usize, &f32)| self == Self::F16 && !half::f16::from_f32(x).is_finite();
        match vector.iter().enumerate().find(beyond) {
            Some((at, x)) => Err(format!("number {at} is {x}; allowed in f16: -65504 to 65504 (f32 has more)")),
            None => Ok(()),
        }
    }
}

/// Checks that products can be computed with a vector: its dimension, finite numbers, no overflow.
pub(super) fn check_vector(vector: &[f32], dimension: usize) -> Result<(), String> {
    if vector.len() != dimension {
        return Err(format!("it has {} numbers; the index has vectors of {dimension}", vector.len()));
    }
    let length = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    if length <= LONGEST {
        return Ok(());
    }
    Err(match vector.iter().enumerate().find(|(_, x)| !x.is_finite()) {
        Some((at, x)) => format!("number {at} is {x}; allowed: finite numbers"),
        None => format!("its length is {length:e}; allowed: at most {LONGEST:e}"),
    })
}
