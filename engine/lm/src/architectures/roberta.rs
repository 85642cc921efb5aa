//! RoBERTa and XLM-R (Liu et al. 2019, Conneau et al. 2020; transformers' `roberta`, `xlm-roberta`; BGE's rerankers are
//! XLM-R): BERT with positions from `pad_token_id + 1` on.
//!
//! transformers counts the positions of tokens without padding. Nothing is padded here, so every token counts.

use super::bert::{BertVariant, open_variant};
use super::post_norm::PostNormEncoder;
use crate::LmError;
use crate::config::ModelConfig;
use hopeval_checkpoint::Checkpoint;
use hopeval_device::Device;

/// Prefix of the encoder's tensors in a checkpoint with a head.
pub(crate) const PREFIX: &str = "roberta";

/// Opens a RoBERTa or an XLM-R.
///
/// # Errors
/// [`LmError::Config`], naming the field; [`LmError::Checkpoint`], naming the tensor; [`LmError::Device`].
pub fn open<D: Device>(checkpoint: &Checkpoint, device: &D) -> Result<PostNormEncoder<D>, LmError> {
    let config = ModelConfig::new(checkpoint);
    let first_position = config.integer_or("pad_token_id", 1)? + 1;
    let width = config.size("hidden_size")?;
    open_variant(checkpoint, device, BertVariant { prefix: PREFIX, first_position, width })
}
