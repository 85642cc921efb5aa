//! A projection of rows: one matrix product for all projections of one input.

use crate::{LmError, Weights};
use hopeval_device::{Activation, Device, DeviceError, Epilogue};

/// `x · weightᵀ`, plus a bias if the checkpoint has it.
pub(super) struct Projection<D: Device> {
    weight: D::Matrix,
    bias: Option<D::Vector>,
}

impl<D: Device> Projection<D> {
    /// Opens projections `(name, out)` of one input, side by side. Their layout is that of PyTorch's `Linear`:
    /// `name.weight [out, into]`, `name.bias [out]`.
    pub(super) fn open(
        weights: &Weights<'_, D>,
        parts: &[(&str, usize)],
        into: usize,
        bias: bool,
    ) -> Result<Self, LmError> {
        let named = |end: &str| parts.iter().map(|(name, out)| (format!("{name}.{end}"), *out)).collect::<Vec<_>>();
        let (matrices, vectors) = (named("weight"), named("bias"));
        Ok(Self {
            weight: weights.stacked_matrix(&borrow_names(&matrices), into)?,
            bias: bias.then(|| weights.joined_vector(&borrow_names(&vectors))).transpose()?,
        })
    }

    /// Opens a projection in the layout of GPT-2's `Conv1D`: `name.weight [into, out]`, `name.bias [out]`.
    pub(super) fn open_transposed(
        weights: &Weights<'_, D>,
        name: &str,
        into: usize,
        out: usize,
    ) -> Result<Self, LmError> {
        let under = weights.under(name);
        Ok(Self { weight: under.transposed_matrix("weight", into, out)?, bias: Some(under.vector("bias", out)?) })
    }

    /// `activation(x · weightᵀ + bias)`.
    pub(super) fn apply(&self, device: &D, x: &D::Tensor, activation: Activation) -> Result<D::Tensor, DeviceError> {
        device.linear(x, &self.weight, Epilogue::bias(self.bias.as_ref()).activation(activation))
    }

    /// `x · weightᵀ + bias + residual`.
    pub(super) fn apply_onto(&self, device: &D, x: &D::Tensor, residual: &D::Tensor) -> Result<D::Tensor, DeviceError> {
        device.linear(x, &self.weight, Epilogue::bias(self.bias.as_ref()).residual(residual))
    }
}

fn borrow_names(parts: &[(String, usize)]) -> Vec<(&str, usize)> {
    parts.iter().map(|(name, size)| (name.as_str(), *size)).collect()
}
