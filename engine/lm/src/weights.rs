//! Copies a checkpoint's tensors to a device, checked against the configuration.

use crate::LmError;
use hopeval_checkpoint::Checkpoint;
use hopeval_device::{Device, HostTensor, WeightLayout};

/// Reads the tensors under a prefix.
#[derive(Debug)]
pub struct Weights<'a, D: Device> {
    checkpoint: &'a Checkpoint,
    device: &'a D,
    prefix: String,
}

impl<'a, D: Device> Weights<'a, D> {
    /// All tensors of a checkpoint.
    pub fn new(checkpoint: &'a Checkpoint, device: &'a D) -> Self {
        Self { checkpoint, device, prefix: String::new() }
    }

    /// The device of the tensors.
    pub fn device(&self) -> &'a D {
        self.device
    }

    /// The tensors under `name`, within this prefix: `weights.under("layer.0")`.
    #[must_use]
    pub fn under(&self, name: &str) -> Self {
        Self { checkpoint: self.checkpoint, device: self.device, prefix: self.tensor_path(name) }
    }

    /// Like [`under`](Self::under) for the first of `names` that holds a tensor: checkpoints of a bare model lack the
    /// prefix of checkpoints with a head. Takes the last name if none holds a tensor, so that errors name it.
    #[must_use]
    pub fn under_any(&self, names: &[&str]) -> Self {
        let holds = |prefix: &str| {
            prefix.is_empty()
                || self.checkpoint.names().any(|n| n.strip_prefix(prefix).is_some_and(|r| r.starts_with('.')))
        };
        let last = names.last().copied().unwrap_or_default();
        let name = names.iter().copied().find(|name| holds(&self.tensor_path(name))).unwrap_or(last);
        self.under(name)
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.checkpoint.get(&self.tensor_path(name)).is_some()
    }

    /// A tensor of this shape, as stored in the file.
    ///
    /// # Errors
    /// [`LmError::Checkpoint`], naming the tensor.
    pub fn host_tensor(&self, name: &str, shape: &[usize]) -> Result<HostTensor, LmError> {
        Ok(self.checkpoint.tensor(&self.tensor_path(name), shape)?)
    }

    /// A projection `[out, into]` in the layout of PyTorch's `Linear`.
    ///
    /// # Errors
    /// [`LmError::Checkpoint`], [`LmError::Device`].
    pub fn matrix(&self, name: &str, out: usize, into: usize) -> Result<D::Matrix, LmError> {
        self.stacked_matrix(&[(name, out)], into)
    }

    /// Several projections of one input, `(name, out)` each, as one product: `[Σ out, into]`.
    ///
    /// # Errors
    /// [`LmError::Checkpoint`], [`LmError::Device`].
    pub fn stacked_matrix(&self, parts: &[(&str, usize)], into: usize) -> Result<D::Matrix, LmError> {
        let parts =
            parts.iter().map(|(name, out)| self.host_tensor(name, &[*out, into])).collect::<Result<Vec<_>, _>>()?;
        Ok(self.device.load_matrix(&parts, WeightLayout::OutIn)?)
    }

    /// A projection `[into, out]` in the layout of GPT-2's `Conv1D`.
    ///
    /// # Errors
    /// [`LmError::Checkpoint`], [`LmError::Device`].
    pub fn transposed_matrix(&self, name: &str, into: usize, out: usize) -> Result<D::Matrix, LmError> {
        Ok(self.device.load_matrix(&[self.host_tensor(name, &[into, out])?], WeightLayout::InOut)?)
    }

    /// A vector `[size]`.
    ///
    /// # Errors
    /// [`LmError::Checkpoint`], [`LmError::Device`].
    pub fn vector(&self, name: &str, size: usize) -> Result<D::Vector, LmError> {
        self.joined_vector(&[(name, size)])
    }

    /// Several vectors, `(name, size)` each, as one.
    ///
    /// # Errors
    /// [`LmError::Checkpoint`], [`LmError::Device`].
    pub fn joined_vector(&self, parts: &[(&str, usize)]) -> Result<D::Vector, LmError> {
        let parts = parts.iter().map(|(name, size)| self.host_tensor(name, &[*size])).collect::<Result<Vec<_>, _>>()?;
        Ok(self.device.load_vector(&parts)?)
    }

    fn tensor_path(&self, name: &str) -> String {
        match (self.prefix.is_empty(), name.is_empty()) {
            (true, _) => name.to_owned(),
            (false, true) => self.prefix.clone(),
            (false, false) => format!("{}.{name}", self.prefix),
        }
    }
}
