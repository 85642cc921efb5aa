//! Weights in the form of their file: bytes with a type, a shape and a name, shared and never copied.

use crate::DeviceError;
use bytes::Bytes;
use half::{bf16, f16};
use std::sync::Arc;

/// Types of numbers in stored weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 32-bit IEEE.
    F32,
    /// 16-bit IEEE.
    F16,
    /// The upper half of 32-bit IEEE.
    Bf16,
}

impl Dtype {
    /// Bytes of one number.
    pub const fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
        }
    }
}

/// A tensor in host memory, usually a slice of a memory-mapped file; cloning shares it.
#[derive(Clone, Debug)]
pub struct HostTensor {
    /// The name in its file, for messages.
    pub name: Arc<str>,
    /// The type of its numbers.
    pub dtype: Dtype,
    /// Outermost first.
    pub shape: Vec<usize>,
    /// Row-major, little-endian; not necessarily aligned.
    pub bytes: Bytes,
}

impl HostTensor {
    /// A tensor of `f32` numbers, copied.
    ///
    /// # Panics
    /// If the number of `values` does not fit `shape`.
    pub fn from_f32(name: &str, shape: &[usize], values: &[f32]) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "shape of {name}; this is a bug");
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        Self { name: name.into(), dtype: Dtype::F32, shape: shape.to_vec(), bytes: bytes.into() }
    }

    /// The number of its numbers.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True if it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows and columns of a matrix.
    ///
    /// # Errors
    /// [`DeviceError::Weight`] if it does not have two dimensions.
    pub fn matrix_shape(&self) -> Result<(usize, usize), DeviceError> {
        match self.shape[..] {
            [rows, columns] => Ok((rows, columns)),
            _ => Err(DeviceError::Weight {
                name: self.name.to_string(),
                reason: format!("expected a matrix, found shape {:?}", self.shape),
            }),
        }
    }

    /// Numbers `start..start + out.len()` of the row-major order, as `f32`: exact for every [`Dtype`].
    pub fn read_into(&self, start: usize, out: &mut [f32]) {
        let size = self.dtype.size();
        let bytes = &self.bytes[start * size..(start + out.len()) * size];
        match self.dtype {
            Dtype::F32 => {
                for (to, from) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                    *to = f32::from_le_bytes(*from);
                }
            }
            Dtype::F16 => {
                for (to, from) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                    *to = f16::from_le_bytes(*from).to_f32();
                }
            }
            Dtype::Bf16 => {
                for (to, from) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                    *to = bf16::from_le_bytes(*from).to_f32();
                }
            }
        }
    }

    /// All numbers as `f32`.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.len()];
        self.read_into(0, &mut out);
        out
    }
}
