//! The heads on an encoder's states: labels, scores, spans, embeddings.
//!
//! | head | tensors | input states |
//! | --- | --- | --- |
//! | token classifier | `classifier`; labeler `token_classifier` | every token's |
//! | sequence classifier, cross-encoder | `classifier`, `classifier.out_proj`; labeler `sequence_classifier` | pooled |
//! | span reader | `qa_outputs`, and MDR's `rank` | every token's, and pooled |
//! | embedding | none | pooled |
//!
//! The labeler is EfficientRAG's. [`open`] finds the heads of a checkpoint.

pub mod classification;
mod opening;
pub mod pooling;
pub mod reading;
pub mod span;

pub use classification::{SequenceClassifier, TokenClassifier};
pub use opening::open;
pub use pooling::Pooling;
pub use reading::{SpanLogits, SpanReader};
pub use span::{AnswerSpan, best_span};

use crate::LmError;
use hopeval_device::{Device, DeviceError, PendingRead};
use std::fmt;
use std::path::PathBuf;

/// Rows of numbers, read from a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostRows {
    /// Numbers per row.
    pub columns: usize,
    /// All numbers, row by row.
    pub values: Vec<f32>,
}

impl HostRows {
    /// Requests a tensor's rows.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    pub fn from_tensor<D: Device>(device: &D, x: &D::Tensor) -> Result<PendingRead<Self>, DeviceError> {
        let columns = device.shape(x).1;
        Ok(device.request_tensor(x)?.map(move |values| Self { columns, values }))
    }

    /// A row.
    ///
    /// # Panics
    /// If there is none with this number.
    pub fn row(&self, number: usize) -> &[f32] {
        &self.values[number * self.columns..][..self.columns]
    }

    /// The rows, in order.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.columns.max(1))
    }
}

/// A classifier's decision: the index of the highest logit, the first of equal ones. `None` for an empty list.
pub fn highest_logit(logits: &[f32]) -> Option<usize> {
    (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]).then(b.cmp(a)))
}

/// The kinds of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// A logit for each token and label.
    TokenClassifier,
    /// A logit for each sequence and label.
    SequenceClassifier,
    /// A sequence classifier with one label.
    CrossEncoder,
    /// Logits of an answer's start and end.
    SpanReader,
    /// A vector for each sequence; every encoder has it.
    Embedding,
}

impl fmt::Display for HeadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TokenClassifier => "token classifier",
            Self::SequenceClassifier => "sequence classifier",
            Self::CrossEncoder => "cross-encoder (a sequence classifier with one label)",
            Self::SpanReader => "span reader",
            Self::Embedding => "pooled embedding",
        })
    }
}

/// The heads of a checkpoint.
#[derive(Debug)]
pub struct CheckpointHeads<D: Device> {
    folder: PathBuf,
    token: Option<TokenClassifier<D>>,
    sequence: Option<SequenceClassifier<D>>,
    reader: Option<SpanReader<D>>,
}

impl<D: Device> CheckpointHeads<D> {
    /// The token classifier.
    ///
    /// # Errors
    /// [`LmError::Head`], listing the checkpoint's heads.
    pub fn token_classifier(&self) -> Result<&TokenClassifier<D>, LmError> {
        self.token.as_ref().ok_or_else(|| self.missing_head(HeadKind::TokenClassifier))
    }

    /// The sequence classifier.
    ///
    /// # Errors
    /// [`LmError::Head`], listing the checkpoint's heads.
    pub fn sequence_classifier(&self) -> Result<&SequenceClassifier<D>, LmError> {
        self.sequence.as_ref().ok_or_else(|| self.missing_head(HeadKind::SequenceClassifier))
    }

    /// The sequence classifier, if it has one label; its logit is the score.
    ///
    /// # Errors
    /// [`LmError::Head`], listing the checkpoint's heads.
    pub fn cross_encoder(&self) -> Result<&SequenceClassifier<D>, LmError> {
        let scores = |classifier: &&SequenceClassifier<D>| classifier.labels().len() == 1;
        self.sequence.as_ref().filter(scores).ok_or_else(|| self.missing_head(HeadKind::CrossEncoder))
    }

    /// The span reader.
    ///
    /// # Errors
    /// [`LmError::Head`], listing the checkpoint's heads.
    pub fn span_reader(&self) -> Result<&SpanReader<D>, LmError> {
        self.reader.as_ref().ok_or_else(|| self.missing_head(HeadKind::SpanReader))
    }

    /// The checkpoint's heads, in the order of [`HeadKind`]; [`Pooling::embed`] always works.
    pub fn kinds(&self) -> Vec<HeadKind> {
        [
            (HeadKind::TokenClassifier, self.token.is_some()),
            (HeadKind::SequenceClassifier, self.sequence.is_some()),
            (HeadKind::CrossEncoder, self.cross_encoder_is_there()),
            (HeadKind::SpanReader, self.reader.is_some()),
            (HeadKind::Embedding, true),
        ]
        .into_iter()
        .filter_map(|(kind, there)| there.then_some(kind))
        .collect()
    }

    fn cross_encoder_is_there(&self) -> bool {
        self.sequence.as_ref().is_some_and(|classifier| classifier.labels().len() == 1)
    }

    fn missing_head(&self, wanted: HeadKind) -> LmError {
        let described = |kind: &HeadKind| match (kind, &self.sequence) {
            (HeadKind::SequenceClassifier, Some(head)) => format!("{kind} of {} labels", head.labels().len()),
            _ => kind.to_string(),
        };
        let has = self.kinds().iter().map(described).collect::<Vec<_>>().join(", ");
        LmError::Head { folder: self.folder.clone(), wanted, has }
    }
}

#[cfg(test)]
mod tests {
    use super::highest_logit;

    #[test]
    fn the_first_of_equal_logits_is_the_highest() {
        assert_eq!(highest_logit(&[1.0, 3.0, 3.0, 2.0]), Some(1));
        assert_eq!(highest_logit(&[f32::NEG_INFINITY; 2]), Some(0));
        assert_eq!(highest_logit(&[]), None);
    }
}
