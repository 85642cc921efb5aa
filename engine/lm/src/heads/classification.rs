//! Labels for tokens and for sequences. A cross-encoder's score is the one logit of a sequence classifier with one
//! label.

use super::HostRows;
use super::pooling::Pooler;
use crate::architectures::post_norm::DenseLayer;
use hopeval_device::{Device, DeviceError, Packing, PendingRead};
use std::fmt;

/// Gives each token a logit for each label.
pub struct TokenClassifier<D: Device> {
    pub(super) labels: Vec<String>,
    pub(super) classifier: DenseLayer<D>,
}

impl<D: Device> TokenClassifier<D> {
    /// The labels' names, in the order of their logits.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Requests logits `[rows, labels]` of `states [rows, hidden]`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    pub fn logits(&self, device: &D, states: &D::Tensor) -> Result<PendingRead<HostRows>, DeviceError> {
        self.classifier.request_logits(device, states)
    }
}

impl<D: Device> fmt::Debug for TokenClassifier<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenClassifier").field("labels", &self.labels).finish_non_exhaustive()
    }
}

/// Gives each sequence a logit for each label.
pub struct SequenceClassifier<D: Device> {
    pub(super) labels: Vec<String>,
    pub(super) pooler: Pooler<D>,
    pub(super) classifier: DenseLayer<D>,
}

impl<D: Device> SequenceClassifier<D> {
    /// The labels' names, in the order of their logits.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Requests logits `[sequences, labels]` of `states [rows, hidden]`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    pub fn logits(
        &self,
        device: &D,
        states: &D::Tensor,
        packing: &Packing,
    ) -> Result<PendingRead<HostRows>, DeviceError> {
        let pooled = self.pooler.pool(device, states, packing)?;
        self.classifier.request_logits(device, &pooled)
    }
}

impl<D: Device> fmt::Debug for SequenceClassifier<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequenceClassifier").field("labels", &self.labels).finish_non_exhaustive()
    }
}
