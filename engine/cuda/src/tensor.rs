//! Operands of the CUDA device: tensors, matrices and vectors in the device's memory.

mod stacked_weights;

use crate::runtime::ElementType;
use half::bf16;
pub(crate) use stacked_weights::{stack_weights, to_bytes};
use std::sync::Arc;

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
    pub(crate) numbers: Arc<[f32]>,
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

/// Numbers from the device's element.
pub(crate) fn from_bytes(bytes: &[u8], element: ElementType) -> Vec<f32> {
    match element {
        ElementType::F32 => bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect(),
        ElementType::Bf16 => bytes.as_chunks::<2>().0.iter().map(|x| bf16::from_le_bytes(*x).to_f32()).collect(),
    }
}
