//! Reads an answer's span. With a rank head, also says how likely the passage is to hold the answer.

use super::pooling::Pooler;
use crate::architectures::post_norm::DenseLayer;
use hopeval_device::{Device, DeviceError, Packing, PendingRead};
use std::fmt;

/// A reader's logits for packed sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanLogits {
    /// For each row: an answer starts there.
    pub start: Vec<f32>,
    /// For each row: an answer ends there.
    pub end: Vec<f32>,
    /// For each sequence: it holds the answer; larger is better. `None` without a rank head.
    pub rank: Option<Vec<f32>>,
}

/// Reads spans: `qa_outputs [2, hidden]`, start then end, on each token's state, as in transformers. A rank head is
/// MDR's `rank [1, hidden]` (Xiong et al. 2021; `mdr/qa/qa_model.py`) on the pooled first token. The caller combines
/// both (MDR sorts passages by `λ rank + (1 - λ) span`).
pub struct SpanReader<D: Device> {
    pub(super) spans: DenseLayer<D>,
    pub(super) rank: Option<(Pooler<D>, DenseLayer<D>)>,
}

impl<D: Device> SpanReader<D> {
    /// True if it has a rank head.
    pub fn ranks(&self) -> bool {
        self.rank.is_some()
    }

    /// Requests logits of `states [rows, hidden]`. [`best_span`](super::best_span) finds the answer in a sequence's
    /// part of them.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    pub fn logits(
        &self,
        device: &D,
        states: &D::Tensor,
        packing: &Packing,
    ) -> Result<PendingRead<SpanLogits>, DeviceError> {
        let spans = self.spans.request_logits(device, states)?;
        let rank = |(pooler, dense): &(Pooler<D>, DenseLayer<D>)| {
            let pooled = pooler.pool(device, states, packing)?;
            dense.request_logits(device, &pooled)
        };
        let rank = self.rank.as_ref().map(rank).transpose()?;
        Ok(spans.zip(PendingRead::optional(rank)).map(|(spans, rank)| SpanLogits {
            start: spans.iter().map(|row| row[0]).collect(),
            end: spans.iter().map(|row| row[1]).collect(),
            rank: rank.map(|rows| rows.values),
        }))
    }
}

impl<D: Device> fmt::Debug for SpanReader<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanReader").field("ranks", &self.ranks()).finish_non_exhaustive()
    }
}
