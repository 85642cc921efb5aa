//! ELECTRA's discriminator (Clark et al. 2020; transformers' `electra`): BERT, but the embeddings may be narrower than
//! the hidden states, and are projected then. MDR's reader has these tensors under `encoder`.

use super::bert::{BertVariant, open_variant};
use super::post_norm::PostNormEncoder;
use crate::LmError;
use crate::config::ModelConfig;
use hopeval_checkpoint::Checkpoint;
use hopeval_device::Device;

/// Prefix of the encoder's tensors in a checkpoint with a head.
pub(crate) const PREFIX: &str = "electra";

/// Opens an ELECTRA.
///
/// # Errors
/// [`LmError::Config`], naming the field; [`LmError::Checkpoint`], naming the tensor; [`LmError::Device`].
pub fn open<D: Device>(checkpoint: &Checkpoint, device: &D) -> Result<PostNormEncoder<D>, LmError> {
    let width = ModelConfig::new(checkpoint).size_or("embedding_size", 128)?;
    open_variant(checkpoint, device, BertVariant { prefix: PREFIX, first_position: 0, width })
}
