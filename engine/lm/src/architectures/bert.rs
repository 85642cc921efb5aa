//! BERT (Devlin et al. 2019; transformers' `bert`): absolute positions, token types, post-norm layers. Contriever, E5
//! and BGE have this architecture, too. RoBERTa and ELECTRA differ in a few numbers and names, and pass them to
//! `open_variant`.

use super::post_norm::{
    DenseLayer, Embeddings, EncoderLayer, EncoderShape, LayerNorm, PostNormEncoder, encoder_weights,
};
use crate::LmError;
use crate::config::ModelConfig;
use crate::weights::Weights;
use hopeval_checkpoint::Checkpoint;
use hopeval_device::Device;

/// Prefix of the encoder's tensors in a checkpoint with a head.
pub(crate) const PREFIX: &str = "bert";

/// Opens a BERT.
///
/// # Errors
/// [`LmError::Config`], naming the field; [`LmError::Checkpoint`], naming the tensor; [`LmError::Device`].
pub fn open<D: Device>(checkpoint: &Checkpoint, device: &D) -> Result<PostNormEncoder<D>, LmError> {
    let config = ModelConfig::new(checkpoint);
    let width = config.size("hidden_size")?;
    open_variant(checkpoint, device, BertVariant { prefix: PREFIX, first_position: 0, width })
}

/// Differences between BERT and another encoder with BERT's tensors.
pub(super) struct BertVariant {
    /// Prefix of the tensors.
    pub(super) prefix: &'static str,
    /// The row of the position embeddings for a sequence's first token.
    pub(super) first_position: usize,
    /// Numbers of an embedding. `embeddings_project` projects it if this is not `hidden_size`.
    pub(super) width: usize,
}

/// Opens an encoder with BERT's tensors.
pub(super) fn open_variant<D: Device>(
    checkpoint: &Checkpoint,
    device: &D,
    variant: BertVariant,
) -> Result<PostNormEncoder<D>, LmError> {
    let BertVariant { prefix, first_position, width } = variant;
    let config = ModelConfig::new(checkpoint);
    config.one_of("position_embedding_type", &["absolute"], "absolute")?;
    let shape = EncoderShape::from_config(&config, 1e-12)?;
    let (vocabulary, types) = (config.size("vocab_size")?, config.size_or("type_vocab_size", 2)?);
    let rows = config.size_or("max_position_embeddings", 512)?;
    let Some(max_positions) = rows.checked_sub(first_position).filter(|positions| *positions > 0) else {
        let reason = format!("expected more than the {first_position} that padding takes, found {rows}");
        return Err(config.field_error("max_position_embeddings", &reason));
    };
    let weights = encoder_weights(&Weights::new(checkpoint, device), prefix);
    let tables = weights.under("embeddings");
    let projection = |weights: Weights<'_, D>| DenseLayer::open(&weights, shape.hidden, width);
    let layer = |index: usize| {
        let names = ["query", "key", "value"];
        EncoderLayer::open(&weights.under(&format!("encoder.layer.{index}")), &shape, names, None)
    };
    Ok(PostNormEncoder {
        shape,
        scale: 1.0 / ((shape.hidden / shape.heads) as f32).sqrt(),
        vocabulary,
        types,
        max_positions: Some(max_positions),
        width,
        position_terms: 0,
        embeddings: Embeddings {
            words: tables.matrix("word_embeddings.weight", vocabulary, width)?,
            positions: Some((tables.matrix("position_embeddings.weight", rows, width)?, first_position as u32)),
            types: Some(tables.matrix("token_type_embeddings.weight", types, width)?),
            before: None,
            norm: LayerNorm::open(&tables.under("LayerNorm"), width, shape.eps)?,
            after: (width != shape.hidden).then(|| projection(weights.under("embeddings_project"))).transpose()?,
        },
        layers: (0..shape.layers).map(layer).collect::<Result<_, _>>()?,
    })
}
