//! Operands of the CUDA device: tensors, matrices and vectors in the device's memory.

use crate::runtime::Element;
use half::bf16;
use hopeval_device::{DeviceError, Dtype, HostTensor, Layout};

/// Activations, row-major, without gaps.
#[derive(Debug)]
pub struct Tensor<B> {
    pub(crate) buffer: B,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) element: Element,
}

/// Weights `[rows, columns]`, row-major, followed by zeros up to a multiple of 8 rows.
#[derive(Debug)]
pub struct Matrix<B> {
    pub(crate) buffer: B,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// Weights of one dimension, in one form for kernels and in another for the epilogue of a product.
#[derive(Debug)]
pub struct Vector<B> {
    /// `f32`.
    pub(crate) exact: B,
    /// In the element of activations; `None` if this is `f32`, too.
    pub(crate) rounded: Option<B>,
    pub(crate) len: usize,
}

impl<B> Matrix<B> {
    /// Rows are padded, so products with any vocabulary have sizes for tensor cores.
    pub(crate) const PAD: usize = 8;

    /// Rows including the zero rows behind them.
    pub(crate) fn padded(&self) -> usize {
        self.rows.next_multiple_of(Self::PAD)
    }
}

/// Bytes of weights, stacked along *out*, in the device's element.
pub(crate) struct Stacked {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// Numbers converted at once.
const STEP: usize = 1 << 16;

/// Stacks `parts` and converts them.
pub(crate) fn stack(parts: &[HostTensor], layout: Layout, element: Element) -> Result<Stacked, DeviceError> {
    let mut stacked = Stacked { bytes: Vec::new(), rows: 0, columns: 0 };
    for part in parts {
        let (first, second) = part.matrix_shape()?;
        let (rows, columns) = match layout {
            Layout::OutIn => (first, second),
            Layout::InOut => (second, first),
        };
        if stacked.rows > 0 && stacked.columns != columns {
            let reason = format!("expected {} inputs like {}, found {columns}", stacked.columns, parts[0].name);
            return Err(DeviceError::Weight { name: part.name.to_string(), reason });
        }
        if part.bytes.len() != part.len() * part.dtype.size() {
            let (wanted, found) = (part.len() * part.dtype.size(), part.bytes.len());
            let reason = format!("expected {wanted} bytes for shape {:?}, found {found}", part.shape);
            return Err(DeviceError::Weight { name: part.name.to_string(), reason });
        }
        stacked.bytes.reserve(rows * columns * element.size());
        match layout {
            Layout::OutIn => append(&mut stacked.bytes, part, element),
            Layout::InOut => append_transposed(&mut stacked.bytes, part, (rows, columns), element),
        }
        stacked.rows += rows;
        stacked.columns = columns;
    }
    let padded = stacked.rows.next_multiple_of(Matrix::<()>::PAD);
    stacked.bytes.resize(padded * stacked.columns * element.size(), 0);
    Ok(stacked)
}

/// Appends a part in its stored order.
fn append(bytes: &mut Vec<u8>, part: &HostTensor, element: Element) {
    let same = matches!((part.dtype, element), (Dtype::F32, Element::F32) | (Dtype::Bf16, Element::Bf16));
    if same {
        bytes.extend_from_slice(&part.bytes);
        return;
    }
    let mut numbers = vec![0.0; STEP.min(part.len())];
    for start in (0..part.len()).step_by(STEP) {
        let some = &mut numbers[..STEP.min(part.len() - start)];
        part.read_into(start, some);
        extend(bytes, some.iter().copied(), element);
    }
}

/// Appends a part `[columns, rows]`, transposed.
fn append_transposed(bytes: &mut Vec<u8>, part: &HostTensor, (rows, columns): (usize, usize), element: Element) {
    let there = part.to_f32();
    for row in 0..rows {
        extend(bytes, (0..columns).map(|column| there[column * rows + row]), element);
    }
}

/// Numbers in the device's element.
pub(crate) fn to_bytes(numbers: &[f32], element: Element) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(numbers.len() * element.size());
    extend(&mut bytes, numbers.iter().copied(), element);
    bytes
}

fn extend(bytes: &mut Vec<u8>, numbers: impl Iterator<Item = f32>, element: Element) {
    match element {
        Element::F32 => bytes.extend(numbers.flat_map(f32::to_le_bytes)),
        Element::Bf16 => bytes.extend(numbers.flat_map(|x| bf16::from_f32(x).to_le_bytes())),
    }
}

/// Numbers from the device's element.
pub(crate) fn from_bytes(bytes: &[u8], element: Element) -> Vec<f32> {
    match element {
        Element::F32 => bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect(),
        Element::Bf16 => bytes.as_chunks::<2>().0.iter().map(|x| bf16::from_le_bytes(*x).to_f32()).collect(),
    }
}
