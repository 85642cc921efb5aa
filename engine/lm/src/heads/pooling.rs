//! One vector for a sequence: its first token's state or the mean of all, with or without a projection.

use super::HostRows;
use crate::architectures::post_norm::DenseLayer;
use hopeval_device::{Activation, Device, DeviceError, Packing, PendingRead};

/// The vector that stands for a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// The first token's state.
    Cls,
    /// The mean of all tokens' states, special ones included.
    Mean,
}

impl Pooling {
    /// Pools `states [rows, hidden]` into a vector for each sequence of `packing`: `[sequences, hidden]`. No sequence
    /// may be empty.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn pool<D: Device>(self, device: &D, states: &D::Tensor, packing: &Packing) -> Result<D::Tensor, DeviceError> {
        match self {
            Self::Cls => device.gather(states, &packing.cu_seqlens[..packing.len()]),
            Self::Mean => device.average(states, &packing.cu_seqlens),
        }
    }

    /// Requests an embedding of each sequence: `[sequences, hidden]`, of length 1 if `normalize`. BERT's pooler is not
    /// applied, as in Contriever, E5 and BGE.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn embed<D: Device>(
        self,
        device: &D,
        states: &D::Tensor,
        packing: &Packing,
        normalize: bool,
    ) -> Result<PendingRead<HostRows>, DeviceError> {
        let rows = HostRows::from_tensor(device, &self.pool(device, states, packing)?)?;
        Ok(rows.map(move |mut rows| {
            if normalize {
                rows.values.chunks_mut(rows.columns).for_each(normalise_row);
            }
            rows
        }))
    }
}

/// Divides by the Euclidean length, at least 1e-12 as in PyTorch's `normalize`; summed in `f64`, in order.
fn normalise_row(row: &mut [f32]) {
    let length = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt().max(1e-12);
    row.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
}

/// A pooled vector, projected if the checkpoint has a projection.
pub(super) struct Pooler<D: Device> {
    pub(super) pooling: Pooling,
    /// `[hidden, hidden]`.
    pub(super) dense: Option<(DenseLayer<D>, Activation)>,
}

impl<D: Device> Pooler<D> {
    /// `[sequences, hidden]`.
    pub(super) fn pool(&self, device: &D, states: &D::Tensor, packing: &Packing) -> Result<D::Tensor, DeviceError> {
        let pooled = self.pooling.pool(device, states, packing)?;
        match &self.dense {
            Some((dense, activation)) => dense.apply(device, &pooled, *activation),
            None => Ok(pooled),
        }
    }
}
