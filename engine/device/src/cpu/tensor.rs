//! Operands of the CPU device: tensors, matrices and vectors.

use crate::cpu::InstructionSet;
use crate::cpu::memory::AlignedBuffer;
use crate::{DeviceError, Dtype, HostTensor, WeightLayout};
use std::ops::Range;
use std::sync::OnceLock;

/// Activations: rows one after the other, without gaps, the first at a multiple of 64 bytes.
#[derive(Debug)]
pub struct Tensor {
    pub(crate) buffer: AlignedBuffer,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Tensor {
    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All numbers, row-major.
    pub fn values(&self) -> &[f32] {
        self.buffer.as_slice()
    }

    /// All numbers, row-major.
    pub fn values_mut(&mut self) -> &mut [f32] {
        self.buffer.as_mut_slice()
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values()[row * self.columns..][..self.columns]
    }

    /// One row.
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        let columns = self.columns;
        &mut self.values_mut()[row * columns..][..columns]
    }
}

/// Weights of one dimension.
#[derive(Clone, Debug)]
pub struct WeightVector(Box<[f32]>);

impl WeightVector {
    pub(crate) fn new(parts: &[HostTensor]) -> Self {
        Self(parts.iter().flat_map(HostTensor::to_f32).collect())
    }
}

impl std::ops::Deref for WeightVector {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.0
    }
}

/// Weights `[out, columns]`: the mapped bytes and, from the first product on, the packed panels read by products, if
/// the budget for packed weights allows. Looked-up rows always come from the mapped bytes.
#[derive(Debug)]
pub struct WeightMatrix {
    parts: Vec<HostTensor>,
    /// The first row of each part, and the end.
    starts: Vec<usize>,
    columns: usize,
    layout: WeightLayout,
    /// The instruction set of the panels, and all panels; `None` if there was no room for them.
    pub(crate) panels: OnceLock<(InstructionSet, Option<AlignedBuffer>)>,
}

impl WeightMatrix {
    pub(crate) fn new(parts: &[HostTensor], layout: WeightLayout) -> Result<Self, DeviceError> {
        let mut starts = vec![0];
        let mut columns = None;
        for part in parts {
            let (first, second) = part.matrix_shape()?;
            let (out, into) = match layout {
                WeightLayout::OutIn => (first, second),
                WeightLayout::InOut => (second, first),
            };
            let expected = *columns.get_or_insert(into);
            if expected != into {
                let reason = format!("expected {expected} inputs like {}, found {into}", parts[0].name);
                return Err(DeviceError::Weight { name: part.name.to_string(), reason });
            }
            if part.bytes.len() != part.len() * part.dtype.size() {
                let (wanted, found) = (part.len() * part.dtype.size(), part.bytes.len());
                let reason = format!("expected {wanted} bytes for shape {:?}, found {found}", part.shape);
                return Err(DeviceError::Weight { name: part.name.to_string(), reason });
            }
            starts.push(starts[starts.len() - 1] + out);
        }
        Ok(Self { parts: parts.to_vec(), starts, columns: columns.unwrap_or(0), layout, panels: OnceLock::new() })
    }

    /// Rows: the *out* of a product, or the entries of a table.
    pub fn rows(&self) -> usize {
        self.starts[self.parts.len()]
    }

    /// Columns: the *in* of a product.
    pub fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn layout(&self) -> WeightLayout {
        self.layout
    }

    /// Its stored types of numbers.
    pub(crate) fn dtypes(&self) -> impl Iterator<Item = Dtype> {
        self.parts.iter().map(|part| part.dtype)
    }

    /// The parts with rows of `rows`, each with those rows in its own numbering.
    pub(crate) fn parts_of(&self, rows: Range<usize>) -> impl Iterator<Item = (&HostTensor, Range<usize>)> {
        self.parts.iter().zip(self.starts.windows(2)).filter_map(move |(part, bounds)| {
            let (from, to) = (rows.start.max(bounds[0]), rows.end.min(bounds[1]));
            (from < to).then(|| (part, from - bounds[0]..to - bounds[0]))
        })
    }

    /// Columns `start..start + out.len()` of a row, as `f32`: exactly the stored numbers.
    pub fn read_row(&self, row: usize, start: usize, out: &mut [f32]) {
        let (part, rows) = self.parts_of(row..row + 1).next().expect("a row of the matrix; this is a bug");
        match self.layout {
            WeightLayout::OutIn => part.read_into(rows.start * self.columns + start, out),
            WeightLayout::InOut => {
                for (i, to) in out.iter_mut().enumerate() {
                    part.read_into((start + i) * part.shape[1] + rows.start, std::slice::from_mut(to));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_stacked_parts_are_read_in_both_layouts() {
        let values = |from: u8, n: u8| (from..from + n).map(f32::from).collect::<Vec<_>>();
        let parts =
            [HostTensor::from_f32("a", &[2, 3], &values(0, 6)), HostTensor::from_f32("b", &[1, 3], &values(6, 3))];
        let stacked = WeightMatrix::new(&parts, WeightLayout::OutIn).unwrap();
        let mut row = [0.0; 2];
        stacked.read_row(2, 1, &mut row);
        assert_eq!((stacked.rows(), stacked.columns(), row), (3, 3, [7.0, 8.0]));

        let parts =
            [HostTensor::from_f32("a", &[2, 3], &values(0, 6)), HostTensor::from_f32("b", &[2, 1], &values(6, 2))];
        let stacked = WeightMatrix::new(&parts, WeightLayout::InOut).unwrap();
        let mut rows = vec![[0.0; 2]; 4];
        for (row, out) in rows.iter_mut().enumerate() {
            stacked.read_row(row, 0, out);
        }
        assert_eq!((stacked.rows(), stacked.columns()), (4, 2));
        assert_eq!(rows, [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0], [6.0, 7.0]]);
    }

    #[test]
    fn parts_that_do_not_fit_are_named() {
        let parts = [HostTensor::from_f32("q", &[1, 3], &[0.0; 3]), HostTensor::from_f32("k", &[1, 2], &[0.0; 2])];
        let error = WeightMatrix::new(&parts, WeightLayout::OutIn).unwrap_err();
        assert_eq!(error.to_string(), "tensor k: expected 3 inputs like q, found 2");
        let error = WeightMatrix::new(&[HostTensor::from_f32("v", &[3], &[0.0; 3])], WeightLayout::OutIn).unwrap_err();
        assert!(error.to_string().contains("expected a matrix"), "{error}");
    }
}
