//! Operands of the CUDA device: tensors, matrices and vectors in the device's memory.

use crate::runtime::ElementType;
use half::bf16;
use hopeval_device::{DeviceError, Dtype, HostTensor, WeightLayout};

/// Activations, row-major, without gaps.
#[derive(Debug)]
pub struct Tensor<B> {
    pub(crate) buffer: B,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) element: ElementType,
}

/// Weights `[rows, columns]`, row-major, followed by zeros up to a multiple of 8 rows.
#[derive(Debug)]
pub struct WeightMatrix<B> {
    pub(crate) buffer: B,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// Weights of one dimension, in one form for kernels and in another for the epilogue of a product.
#[derive(Debug)]
pub struct WeightVector<B> {
    /// `f32`.
    pub(crate) exact: B,
    /// In the element of activations; `None` if this is `f32`, too.
    pub(crate) rounded: Option<B>,
    /// On the host, for results that are read.
    pub(crate) numbers: Vec<f32>,
    pub(crate) len: usize,
}

impl<B> WeightMatrix<B> {
    /// Rows are padded, so products with any vocabulary have sizes for tensor cores.
    pub(crate) const PAD: usize = 8;

    /// Rows including the zero rows behind them.
    pub(crate) fn padded_rows(&self) -> usize {
        self.rows.next_multiple_of(Self::PAD)
    }
}

/// Bytes of weights, stacked along *out*, in the device's element.
pub(crate) struct StackedWeights {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// Numbers converted at once.
const STEP: usize = 1 << 16;

/// Stacks `parts` and converts them.
pub(crate) fn stack_weights(
    parts: &[HostTensor],
    layout: WeightLayout,
    element: ElementType,
) -> Result<StackedWeights, DeviceError> {
    let mut stacked = StackedWeights { bytes: Vec::new(), rows: 0, columns: 0 };
    for part in parts {
        let (first, second) = part.matrix_shape()?;
        let (rows, columns) = match layout {
            WeightLayout::OutIn => (first, second),
            WeightLayout::InOut => (second, first),
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
            WeightLayout::OutIn => append_part(&mut stacked.bytes, part, element),
            WeightLayout::InOut => append_transposed(&mut stacked.bytes, part, (rows, columns), element),
        }
        stacked.rows += rows;
        stacked.columns = columns;
    }
    let padded = stacked.rows.next_multiple_of(WeightMatrix::<()>::PAD);
    stacked.bytes.resize(padded * stacked.columns * element.size(), 0);
    Ok(stacked)
}

/// Appends a part in its stored order.
fn append_part(bytes: &mut Vec<u8>, part: &HostTensor, element: ElementType) {
    let same = matches!((part.dtype, element), (Dtype::F32, ElementType::F32) | (Dtype::Bf16, ElementType::Bf16));
    if same {
        bytes.extend_from_slice(&part.bytes);
        return;
    }
    let mut numbers = vec![0.0; STEP.min(part.len())];
    for start in (0..part.len()).step_by(STEP) {
        let some = &mut numbers[..STEP.min(part.len() - start)];
        part.read_into(start, some);
        extend_bytes(bytes, some.iter().copied(), element);
    }
}

/// Appends a part `[columns, rows]`, transposed.
fn append_transposed(bytes: &mut Vec<u8>, part: &HostTensor, (rows, columns): (usize, usize), element: ElementType) {
    let there = part.to_f32();
    for row in 0..rows {
        extend_bytes(bytes, (0..columns).map(|column| there[column * rows + row]), element);
    }
}

/// Numbers in the device's element.
pub(crate) fn to_bytes(numbers: &[f32], element: ElementType) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(numbers.len() * element.size());
    extend_bytes(&mut bytes, numbers.iter().copied(), element);
    bytes
}

fn extend_bytes(bytes: &mut Vec<u8>, numbers: impl Iterator<Item = f32>, element: ElementType) {
    match element {
        ElementType::F32 => bytes.extend(numbers.flat_map(f32::to_le_bytes)),
        ElementType::Bf16 => bytes.extend(numbers.flat_map(|x| bf16::from_f32(x).to_le_bytes())),
    }
}

/// Numbers from the device's element.
pub(crate) fn from_bytes(bytes: &[u8], element: ElementType) -> Vec<f32> {
    match element {
        ElementType::F32 => bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect(),
        ElementType::Bf16 => bytes.as_chunks::<2>().0.iter().map(|x| bf16::from_le_bytes(*x).to_f32()).collect(),
    }
}
