//! Normalisations with their weights.

use crate::{LmError, Weights};
use hopeval_device::{Device, DeviceError, HostTensor, Norm};

/// Layer normalisation (Ba et al. 2016).
pub(crate) struct LayerNorm<D: Device> {
    weight: D::Vector,
    bias: D::Vector,
    eps: f32,
}

impl<D: Device> LayerNorm<D> {
    /// Reads `weight` and `bias`, `[size]`, under the prefix of `weights`; `gamma` and `beta` in checkpoints converted
    /// from TensorFlow.
    pub(crate) fn open(weights: &Weights<'_, D>, size: usize, eps: f32) -> Result<Self, LmError> {
        let old = weights.has("gamma") && !weights.has("weight");
        let (weight, bias) = if old { ("gamma", "beta") } else { ("weight", "bias") };
        Ok(Self { weight: weights.vector(weight, size)?, bias: weights.vector(bias, size)?, eps })
    }

    /// A normalisation without learnt parameters.
    pub(crate) fn without_parameters(device: &D, size: usize, eps: f32) -> Result<Self, LmError> {
        let constant = |name, value| device.load_vector(&[HostTensor::from_f32(name, &[size], &vec![value; size])]);
        Ok(Self { weight: constant("ones", 1.0)?, bias: constant("zeros", 0.0)?, eps })
    }

    /// Normalises rows.
    pub(crate) fn apply(&self, device: &D, x: &D::Tensor) -> Result<D::Tensor, DeviceError> {
        device.norm(x, Norm::Layer { weight: &self.weight, bias: &self.bias, eps: self.eps })
    }
}

/// Normalisation by the root mean square (Zhang & Sennrich 2019).
pub(super) struct RmsNorm<D: Device> {
    weight: D::Vector,
    eps: f32,
}

impl<D: Device> RmsNorm<D> {
    /// Reads `weight`, `[size]`, under the prefix of `weights`.
    pub(super) fn open(weights: &Weights<'_, D>, size: usize, eps: f32) -> Result<Self, LmError> {
        Ok(Self { weight: weights.vector("weight", size)?, eps })
    }

    /// Normalises rows.
    pub(super) fn apply(&self, device: &D, x: &D::Tensor) -> Result<D::Tensor, DeviceError> {
        device.norm(x, self.norm_arguments())
    }

    /// The arguments of [`Device::norm_groups`].
    pub(super) fn norm_arguments(&self) -> Norm<'_, D> {
        Norm::Rms { weight: &self.weight, eps: self.eps }
    }
}
