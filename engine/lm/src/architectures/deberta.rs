//! DeBERTa-v2 and v3 (He et al. 2021; transformers' `deberta-v2`): BERT's layers with disentangled attention.
//!
//! A score has a content term and up to two terms of relative position: content to position (`c2p`) and position to
//! content (`p2c`). Their keys and queries are projections of one small table of relative positions. They depend on the
//! weights only, so they are computed once, when the model is opened.

use super::post_norm::{
    DenseLayer, Embeddings, EncoderLayer, EncoderShape, LayerNorm, PostNormEncoder, RelativePositions, encoder_weights,
};
use crate::LmError;
use crate::config::ModelConfig;
use crate::weights::Weights;
use hopeval_checkpoint::Checkpoint;
use hopeval_device::{Activation, Device, DistanceBuckets};
use serde_json::Value;

/// Prefix of the encoder's tensors in a checkpoint with a head.
pub(crate) const PREFIX: &str = "deberta";

/// Opens a DeBERTa-v2 or v3.
///
/// # Errors
/// [`LmError::Config`], naming the field; [`LmError::Checkpoint`], naming the tensor; [`LmError::Device`].
pub fn open<D: Device>(checkpoint: &Checkpoint, device: &D) -> Result<PostNormEncoder<D>, LmError> {
    let config = ModelConfig::new(checkpoint);
    let shape = EncoderShape::from_config(&config, 1e-7)?;
    let terms = PositionTerms::from_config(checkpoint, &config)?;
    let buckets = position_buckets(&config)?;
    refuse_unsupported(&config, &shape)?;
    let (vocabulary, types) = (config.size("vocab_size")?, config.integer_or("type_vocab_size", 0)?);
    let width = config.size_or("embedding_size", shape.hidden)?;
    let absolute = config.flag_or("position_biased_input", true)?;
    let max_positions = absolute.then(|| config.size_or("max_position_embeddings", 512)).transpose()?;
    let weights = encoder_weights(&Weights::new(checkpoint, device), PREFIX);
    let tables = weights.under("embeddings");
    let position = |rows| tables.matrix("position_embeddings.weight", rows, width);
    let relative = match buckets {
        Some(buckets) if terms.count() > 0 => Some((relative_positions(&config, &weights, &shape, buckets)?, buckets)),
        _ => None,
    };
    let layer = |index: usize| {
        let layer = weights.under(&format!("encoder.layer.{index}"));
        let project =
            |(table, buckets): &(D::Tensor, DistanceBuckets)| terms.project_positions(&layer, &shape, table, *buckets);
        let positions = relative.as_ref().map(project).transpose()?;
        EncoderLayer::open(&layer, &shape, ["query_proj", "key_proj", "value_proj"], positions)
    };
    Ok(PostNormEncoder {
        shape,
        // The terms named by the configuration count, even without relative attention.
        scale: 1.0 / ((shape.hidden / shape.heads * (1 + terms.count())) as f32).sqrt(),
        vocabulary,
        types,
        max_positions,
        width,
        position_terms: if relative.is_some() { terms.count() } else { 0 },
        embeddings: Embeddings {
            words: tables.matrix("word_embeddings.weight", vocabulary, width)?,
            positions: max_positions.map(position).transpose()?.map(|table| (table, 0)),
            types: (types > 0).then(|| tables.matrix("token_type_embeddings.weight", types, width)).transpose()?,
            before: (width != shape.hidden)
                .then(|| tables.matrix("embed_proj.weight", shape.hidden, width))
                .transpose()?,
            norm: LayerNorm::open(&tables.under("LayerNorm"), shape.hidden, shape.eps)?,
            after: None,
        },
        layers: (0..shape.layers).map(layer).collect::<Result<_, _>>()?,
    })
}

/// Terms of relative position in a score (`pos_att_type`), and the source of their projections (`share_att_key`).
#[derive(Clone, Copy, Debug)]
struct PositionTerms {
    content_to_position: bool,
    position_to_content: bool,
    shared: bool,
}

impl PositionTerms {
    /// `pos_att_type` is `"p2c|c2p"` or `["p2c", "c2p"]`, any subset.
    fn from_config(checkpoint: &Checkpoint, config: &ModelConfig<'_>) -> Result<Self, LmError> {
        let field = "pos_att_type";
        let names = match checkpoint.config().get(field) {
            Some(Value::String(text)) => split_alternatives(text),
            _ => config.texts(field)?.unwrap_or_default().into_iter().map(str::to_owned).collect(),
        };
        if let Some(other) = names.iter().find(|name| !["c2p", "p2c"].contains(&name.as_str())) {
            return Err(config.field_error(field, &format!("expected c2p, p2c, both or none, found {other:?}")));
        }
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        Ok(Self {
            content_to_position: has("c2p"),
            position_to_content: has("p2c"),
            shared: config.flag_or("share_att_key", false)?,
        })
    }

    fn count(self) -> usize {
        usize::from(self.content_to_position) + usize::from(self.position_to_content)
    }

    /// A layer's keys and queries of relative positions; `table` is `[2 * span, hidden]`.
    fn project_positions<D: Device>(
        self,
        layer: &Weights<'_, D>,
        shape: &EncoderShape,
        table: &D::Tensor,
        buckets: DistanceBuckets,
    ) -> Result<RelativePositions<D>, LmError> {
        let (key, query) = if self.shared { ("key_proj", "query_proj") } else { ("pos_key_proj", "pos_query_proj") };
        let project = |name: &str| -> Result<D::Tensor, LmError> {
            let dense = DenseLayer::open(&layer.under("attention.self").under(name), shape.hidden, shape.hidden)?;
            Ok(dense.apply(layer.device(), table, Activation::Identity)?)
        };
        Ok(RelativePositions {
            keys: self.content_to_position.then(|| project(key)).transpose()?,
            queries: self.position_to_content.then(|| project(query)).transpose()?,
            buckets,
        })
    }
}

/// The mapping of distances to rows of the table of relative positions; `None` without relative attention.
fn position_buckets(config: &ModelConfig<'_>) -> Result<Option<DistanceBuckets>, LmError> {
    if !config.flag_or("relative_attention", false)? {
        return Ok(None);
    }
    let max_position = match config.number_or("max_relative_positions", -1.0)? {
        given if given < 1.0 => config.size_or("max_position_embeddings", 512)?,
        _ => config.size("max_relative_positions")?,
    };
    if config.number_or("position_buckets", -1.0)? <= 0.0 {
        return Ok(Some(DistanceBuckets::Clamped { span: max_position }));
    }
    let span = config.size("position_buckets")?;
    // Half of the buckets are exact. The logarithm's base is `(max_position - 1) / half`; it must be above 1.
    if span < 2 || max_position <= span / 2 + 1 {
        let reason = format!(
            "expected -1, or 2 or more whose half is below {} relative positions, found {span}",
            max_position - 1
        );
        return Err(config.field_error("position_buckets", &reason));
    }
    Ok(Some(DistanceBuckets::Log { span, max_position }))
}

/// The table of relative positions `[2 * span, hidden]`, ready for the projections of the layers.
fn relative_positions<D: Device>(
    config: &ModelConfig<'_>,
    weights: &Weights<'_, D>,
    shape: &EncoderShape,
    buckets: DistanceBuckets,
) -> Result<D::Tensor, LmError> {
    let (encoder, device) = (weights.under("encoder"), weights.device());
    let normalisations = split_alternatives(config.text("norm_rel_ebd")?.unwrap_or("none"));
    if let Some(other) = normalisations.iter().find(|name| !["layer_norm", "none"].contains(&name.as_str())) {
        return Err(config.field_error("norm_rel_ebd", &format!("expected layer_norm or none, found {other:?}")));
    }
    let stored = encoder.host_tensor("rel_embeddings.weight", &[buckets.table_rows(), shape.hidden])?;
    let table = device.upload(buckets.table_rows(), shape.hidden, &stored.to_f32())?;
    if normalisations.iter().any(|name| name == "layer_norm") {
        return Ok(LayerNorm::open(&encoder.under("LayerNorm"), shape.hidden, shape.eps)?.apply(device, &table)?);
    }
    Ok(table)
}

/// Refuses settings that change the computation and are not implemented: the numbers would differ from those of
/// transformers.
fn refuse_unsupported(config: &ModelConfig<'_>, shape: &EncoderShape) -> Result<(), LmError> {
    let kernel = config.number_or("conv_kernel_size", 0.0)?;
    if kernel > 0.0 {
        let reason = format!("the convolution after the first layer is not supported: expected 0, found {kernel}");
        return Err(config.field_error("conv_kernel_size", &reason));
    }
    let head = shape.hidden / shape.heads;
    let given = config.integer_or("attention_head_size", head)?;
    if given != head {
        let reason = format!("expected hidden_size / num_attention_heads = {head}, found {given}");
        return Err(config.field_error("attention_head_size", &reason));
    }
    Ok(())
}

/// The parts of `a|b`, read as by transformers.
fn split_alternatives(text: &str) -> Vec<String> {
    text.split('|').map(|part| part.trim().to_lowercase()).filter(|part| !part.is_empty()).collect()
}
