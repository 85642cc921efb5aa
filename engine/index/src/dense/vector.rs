//! Vectors: how they are stored, and which ones can be.

use serde::{Deserialize, Serialize};

use crate::container::ALIGN;

/// The most numbers of a vector.
pub(super) const MOST_NUMBERS: usize = 1 << 16;

/// The greatest Euclidean length of a vector. Two vectors of at most this length have products that no sum of single
/// precision overflows in, whatever its order.
const LONGEST: f64 = 1e18;

/// How the numbers of an index's vectors are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// Single precision, as encoders give them.
    #[default]
    F32,
    /// Half precision, rounded to nearest, ties to even: half the bytes.
    F16,
}

impl Dtype {
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

    /// Appends a vector's bytes, filled up to the pitch with zeros. A vector that [`check`] passes and [`Self::check`] too.
    pub(super) fn write(self, vector: &[f32], out: &mut Vec<u8>) {
        let end = out.len() + self.pitch(vector.len());
        match self {
            Self::F32 => vector.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
            Self::F16 => vector.iter().for_each(|&x| out.extend_from_slice(&half::f16::from_f32(x).to_le_bytes())),
        }
        out.resize(end, 0);
    }

    /// Whether its numbers can be stored so.
    pub(super) fn check(self, vector: &[f32]) -> Result<(), String> {
        let beyond = |&(_, &x): &(usize, &f32)| self == Self::F16 && !half::f16::from_f32(x).is_finite();
        match vector.iter().enumerate().find(beyond) {
            Some((at, x)) => Err(format!("number {at} is {x}; allowed in f16: -65504 to 65504 (f32 has more)")),
            None => Ok(()),
        }
    }
}

/// Whether products can be computed with a vector: its dimension, finite numbers, no overflow.
pub(super) fn check(vector: &[f32], dimension: usize) -> Result<(), String> {
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
