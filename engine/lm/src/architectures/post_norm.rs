//! The common encoder of BERT, RoBERTa, ELECTRA and DeBERTa: embeddings, then layers of attention and a feed-forward
//! network, each added to its input and then normalised (Devlin et al. 2019, section 3).
//!
//! ```text
//!   ids, positions, types --Embeddings--> x
//!   x = norm(x + attention(x));  x = norm(x + down(act(up(x))))        once for each layer
//! ```
//!
//! The differences (names, configuration, positions) stand in one file for each architecture. Those files build these
//! parts.

pub(crate) use super::norm::LayerNorm;
use crate::LmError;
use crate::config::ModelConfig;
use crate::heads::HostRows;
use crate::model::{Encoder, ModelSizes, Operations, PackedBatch};
use crate::weights::Weights;
use hopeval_device::{
    Activation, Attention, AttentionBias, AttentionMask, Device, DeviceError, DisentangledBias, DistanceBuckets,
    Epilogue, Packing, PendingRead, TableLookup, TensorColumns,
};
use std::fmt;

/// A projection with a bias, like PyTorch's `Linear`.
pub(crate) struct DenseLayer<D: Device> {
    weight: D::Matrix,
    bias: D::Vector,
    out: usize,
}

impl<D: Device> DenseLayer<D> {
    /// Reads `weight [out, into]` and `bias [out]` under the prefix of `weights`.
    pub(crate) fn open(weights: &Weights<'_, D>, out: usize, into: usize) -> Result<Self, LmError> {
        Ok(Self { weight: weights.matrix("weight", out, into)?, bias: weights.vector("bias", out)?, out })
    }

    /// Stacks three projections of one input into one product, each `[out, into]`.
    fn open_stacked(weights: &Weights<'_, D>, names: [&str; 3], out: usize, into: usize) -> Result<Self, LmError> {
        let named = |end: &str| names.map(|name| format!("{name}.{end}"));
        let (matrices, vectors) = (named("weight"), named("bias"));
        Ok(Self {
            weight: weights.stacked_matrix(&matrices.each_ref().map(|name| (name.as_str(), out)), into)?,
            bias: weights.joined_vector(&vectors.each_ref().map(|name| (name.as_str(), out)))?,
            out: names.len() * out,
        })
    }

    /// `activation(x · weightᵀ + bias)`.
    pub(crate) fn apply(&self, device: &D, x: &D::Tensor, activation: Activation) -> Result<D::Tensor, DeviceError> {
        device.linear(x, &self.weight, Epilogue::bias(Some(&self.bias)).activation(activation))
    }

    /// Requests logits: `x · weightᵀ + bias`.
    pub(crate) fn request_logits(&self, device: &D, x: &D::Tensor) -> Result<PendingRead<HostRows>, DeviceError> {
        let columns = self.out;
        let values = device.request_projection(x, &self.weight, Some(&self.bias), 1.0)?;
        Ok(values.map(move |values| HostRows { columns, values }))
    }

    /// `x · weightᵀ + bias + residual`.
    fn apply_onto(&self, device: &D, x: &D::Tensor, residual: &D::Tensor) -> Result<D::Tensor, DeviceError> {
        device.linear(x, &self.weight, Epilogue::bias(Some(&self.bias)).residual(residual))
    }
}

/// Sizes shared by all layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncoderShape {
    /// Numbers of a hidden state.
    pub(crate) hidden: usize,
    /// Attention heads; divides `hidden`.
    pub(crate) heads: usize,
    /// Layers.
    pub(crate) layers: usize,
    /// Numbers between the two projections of the feed-forward network.
    pub(crate) intermediate: usize,
    /// The function between those two projections.
    pub(crate) activation: Activation,
    /// The epsilon of every layer normalisation.
    pub(crate) eps: f32,
}

impl EncoderShape {
    /// Reads the fields with the same names in every encoder's configuration.
    ///
    /// # Errors
    /// [`LmError::Config`]; also if the heads do not divide the hidden size, or the model is configured as a decoder.
    pub(crate) fn from_config(config: &ModelConfig<'_>, eps: f64) -> Result<Self, LmError> {
        config.require_flag("is_decoder", false)?;
        let shape = Self {
            hidden: config.size("hidden_size")?,
            heads: config.size("num_attention_heads")?,
            layers: config.size("num_hidden_layers")?,
            intermediate: config.size("intermediate_size")?,
            activation: config.activation("hidden_act", "gelu")?,
            eps: config.epsilon("layer_norm_eps", eps)?,
        };
        if !shape.hidden.is_multiple_of(shape.heads) {
            let reason = format!("expected a divisor of hidden_size {}, found {}", shape.hidden, shape.heads);
            return Err(config.field_error("num_attention_heads", &reason));
        }
        Ok(shape)
    }

    /// Operations of a forward pass. `projected` is the width of embeddings before their projection to hidden states.
    ///
    /// A term of relative position counts as a product of `head_dim` numbers in each head, for each pair. For long
    /// sequences fewer would do, because several distances share a bucket. Projecting the relative positions happens at
    /// load and does not count.
    fn operations(&self, projected: Option<usize>, position_terms: usize) -> Operations {
        let Self { hidden, layers, intermediate, .. } = *self;
        let products = layers * (4 * hidden * hidden + 2 * hidden * intermediate) + projected.unwrap_or(0) * hidden;
        // Query with key, weights with value, and the position terms.
        let of_pair = layers * hidden * (2 + position_terms);
        Operations { per_token: 2 * products as u64, per_pair: 2 * of_pair as u64 }
    }
}

/// The tensors of the encoder itself. They stand under `prefix`, under no prefix in a checkpoint of a bare model, or
/// under `encoder` in a model with custom heads (MDR's reader).
pub(crate) fn encoder_weights<'a, D: Device>(weights: &Weights<'a, D>, prefix: &str) -> Weights<'a, D> {
    let holds = |name: &&str| weights.under(name).has("embeddings.word_embeddings.weight");
    weights.under([prefix, "", "encoder"].iter().find(|name| holds(name)).unwrap_or(&prefix))
}

/// Word, position and type embeddings, normalised.
pub(crate) struct Embeddings<D: Device> {
    /// `[vocabulary, width]`.
    pub(crate) words: D::Matrix,
    /// `[positions, width]`, and the row for a sequence's first token.
    pub(crate) positions: Option<(D::Matrix, u32)>,
    /// `[types, width]`.
    pub(crate) types: Option<D::Matrix>,
    /// `[hidden, width]`, applied before the normalisation: DeBERTa.
    pub(crate) before: Option<D::Matrix>,
    /// Normalises the sum.
    pub(crate) norm: LayerNorm<D>,
    /// `[hidden, width]`, applied after the normalisation: ELECTRA.
    pub(crate) after: Option<DenseLayer<D>>,
}

impl<D: Device> Embeddings<D> {
    fn forward(&self, device: &D, batch: &PackedBatch<'_>) -> Result<D::Tensor, DeviceError> {
        let mut lookups = vec![TableLookup { table: &self.words, ids: batch.ids }];
        let first = self.positions.as_ref().map_or(0, |(_, first)| *first);
        let positions = batch.positions.iter().map(|position| position + first).collect::<Vec<_>>();
        if let Some((table, _)) = &self.positions {
            lookups.push(TableLookup { table, ids: &positions });
        }
        let zeros = vec![0; if batch.type_ids.is_empty() { batch.ids.len() } else { 0 }];
        if let Some(table) = &self.types {
            let ids = if batch.type_ids.is_empty() { &zeros } else { batch.type_ids };
            lookups.push(TableLookup { table, ids });
        }
        let mut x = device.embed(&lookups, 1.0)?;
        if let Some(projection) = &self.before {
            x = device.linear(&x, projection, Epilogue::default())?;
        }
        x = self.norm.apply(device, &x)?;
        match &self.after {
            Some(projection) => projection.apply(device, &x, Activation::Identity),
            None => Ok(x),
        }
    }
}

/// DeBERTa's relative positions in one layer: projections of a table. They depend on the weights only and are made at
/// load.
pub(crate) struct RelativePositions<D: Device> {
    /// `[2 * span, hidden]`, content to position.
    pub(crate) keys: Option<D::Tensor>,
    /// `[2 * span, hidden]`, position to content.
    pub(crate) queries: Option<D::Tensor>,
    /// Gives the row for a query and a key.
    pub(crate) buckets: DistanceBuckets,
}

/// One layer.
pub(crate) struct EncoderLayer<D: Device> {
    query_key_value: DenseLayer<D>,
    positions: Option<RelativePositions<D>>,
    output: DenseLayer<D>,
    attention_norm: LayerNorm<D>,
    up: DenseLayer<D>,
    down: DenseLayer<D>,
    norm: LayerNorm<D>,
}

impl<D: Device> EncoderLayer<D> {
    /// Opens the layer under the prefix of `weights`; `names` name the projections to query, key and value.
    pub(crate) fn open(
        weights: &Weights<'_, D>,
        shape: &EncoderShape,
        names: [&str; 3],
        positions: Option<RelativePositions<D>>,
    ) -> Result<Self, LmError> {
        let EncoderShape { hidden, intermediate, eps, .. } = *shape;
        Ok(Self {
            query_key_value: DenseLayer::open_stacked(&weights.under("attention.self"), names, hidden, hidden)?,
            positions,
            output: DenseLayer::open(&weights.under("attention.output.dense"), hidden, hidden)?,
            attention_norm: LayerNorm::open(&weights.under("attention.output.LayerNorm"), hidden, eps)?,
            up: DenseLayer::open(&weights.under("intermediate.dense"), intermediate, hidden)?,
            down: DenseLayer::open(&weights.under("output.dense"), hidden, intermediate)?,
            norm: LayerNorm::open(&weights.under("output.LayerNorm"), hidden, eps)?,
        })
    }

    fn forward(
        &self,
        device: &D,
        x: &D::Tensor,
        shape: &EncoderShape,
        scale: f32,
        packing: &Packing,
    ) -> Result<D::Tensor, DeviceError> {
        let fused = self.query_key_value.apply(device, x, Activation::Identity)?;
        let part = |index: usize| TensorColumns { tensor: &fused, start: index * shape.hidden };
        let bias = self.positions.as_ref().map_or(AttentionBias::None, |positions| {
            AttentionBias::Disentangled(DisentangledBias {
                position_keys: positions.keys.as_ref(),
                position_queries: positions.queries.as_ref(),
                buckets: positions.buckets,
            })
        });
        let attention = Attention {
            heads: shape.heads,
            kv_heads: shape.heads,
            head_dim: shape.hidden / shape.heads,
            scale,
            mask: AttentionMask::Full,
            bias,
            packing,
        };
        let mixed = device.attention(part(0), part(1), part(2), &attention)?;
        let x = self.attention_norm.apply(device, &self.output.apply_onto(device, &mixed, x)?)?;
        let inner = self.up.apply(device, &x, shape.activation)?;
        self.norm.apply(device, &self.down.apply_onto(device, &inner, &x)?)
    }
}

/// An encoder of BERT's class.
pub struct PostNormEncoder<D: Device> {
    pub(crate) shape: EncoderShape,
    /// Factor of the product of query and key, and of the position terms.
    pub(crate) scale: f32,
    pub(crate) vocabulary: usize,
    /// Token types; 0 if the model does not use them.
    pub(crate) types: usize,
    pub(crate) max_positions: Option<usize>,
    /// Numbers of an embedding before its projection to a hidden state.
    pub(crate) width: usize,
    /// Terms of relative position in attention: 0 to 2.
    pub(crate) position_terms: usize,
    pub(crate) embeddings: Embeddings<D>,
    pub(crate) layers: Vec<EncoderLayer<D>>,
}

impl<D: Device> fmt::Debug for PostNormEncoder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostNorm").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl<D: Device> Encoder<D> for PostNormEncoder<D> {
    fn sizes(&self) -> ModelSizes {
        ModelSizes {
            layers: 0,
            hidden: self.shape.hidden,
            kv_width: 0,
            max_positions: self.max_positions,
            vocabulary: self.vocabulary,
        }
    }

    fn type_vocabulary(&self) -> usize {
        self.types
    }

    fn operations(&self) -> Operations {
        let projects = self.embeddings.before.is_some() || self.embeddings.after.is_some();
        self.shape.operations(projects.then_some(self.width), self.position_terms)
    }

    fn encode(&self, device: &D, batch: &PackedBatch<'_>) -> Result<D::Tensor, DeviceError> {
        let mut x = self.embeddings.forward(device, batch)?;
        for layer in &self.layers {
            x = layer.forward(device, &x, &self.shape, self.scale, batch.packing)?;
        }
        Ok(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BERT-base and DeBERTa-v3-base.
    const BASE: EncoderShape = EncoderShape {
        hidden: 768,
        heads: 12,
        layers: 12,
        intermediate: 3072,
        activation: Activation::Gelu,
        eps: 1e-12,
    };

    /// By hand. For a token, 12 layers of (Q, K, V, output: 4 * 768 * 768) and (2 * 768 * 3072) multiplications, and as
    /// many additions. For a pair, 768 of each for query with key, and for weight with value.
    #[test]
    fn operations_of_bert_base() {
        let operations = BASE.operations(None, 0);
        assert_eq!(operations, Operations { per_token: 169_869_312, per_pair: 36_864 });
        // 128 tokens: 21.7 GFLOP in products, 0.6 in attention.
        assert_eq!(128 * operations.per_token + 128 * 128 * operations.per_pair, 22_347_251_712);
    }

    /// A product that computes the position terms for whole rows of positions, as PyTorch's packed variant does, takes
    /// `min(512, 2 n)` of them for each of `n` tokens: the same as by pair at 512 tokens, more below.
    #[test]
    fn operations_of_deberta_v3_base() {
        let operations = BASE.operations(None, 2);
        assert_eq!(operations, Operations { per_token: 169_869_312, per_pair: 73_728 });
        let by_pair = |n: u64| n * operations.per_token + n * n * operations.per_pair;
        let by_row = |n: u64| n * 169_869_312 + 36_864 * n * n + 36_864 * n * (2 * n).min(512);
        assert_eq!(by_pair(512), by_row(512));
        assert!((1..512).all(|n| by_pair(n) < by_row(n)));
    }

    #[test]
    fn operations_of_a_projected_embedding() {
        let extra = BASE.operations(Some(128), 0).per_token - BASE.operations(None, 0).per_token;
        assert_eq!(extra, 2 * 128 * 768);
    }
}
