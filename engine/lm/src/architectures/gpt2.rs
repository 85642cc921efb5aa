//! GPT-2 (Radford et al. 2019; transformers' `gpt2`): learnt positions, layers with the normalisation first, one matrix
//! for embedding and head.
//!
//! ```text
//!   x = wte[ids] + wpe[positions]
//!   x = x + c_proj(attention(c_attn(ln_1(x))));  x = x + c_proj(act(c_fc(ln_2(x))))      once for each layer
//!   ln_f(x)
//! ```

use super::attend::self_attention;
use super::norm::LayerNorm;
use super::projection::Projection;
use super::vocabulary::Vocabulary;
use crate::config::ModelConfig;
use crate::model::{CacheSlots, Decoder, LmHead, ModelSizes, Operations, PackedBatch};
use crate::{LmError, Weights};
use hopeval_checkpoint::Checkpoint;
use hopeval_device::{Activation, Attention, AttentionBias, AttentionMask, Device, DeviceError, TableLookup};
use std::fmt;

/// A GPT-2.
pub struct Gpt2<D: Device> {
    sizes: ModelSizes,
    heads: usize,
    /// Numbers between the two projections of the feed-forward network.
    inner: usize,
    activation: Activation,
    vocabulary: Vocabulary<D>,
    positions: D::Matrix,
    layers: Vec<Gpt2Layer<D>>,
    norm: LayerNorm<D>,
}

struct Gpt2Layer<D: Device> {
    before_attention: LayerNorm<D>,
    query_key_value: Projection<D>,
    /// Factor of the product of query and key.
    scale: f32,
    output: Projection<D>,
    before_feed_forward: LayerNorm<D>,
    up: Projection<D>,
    down: Projection<D>,
}

/// Opens a GPT-2, with the prefix `transformer.` or without.
///
/// # Errors
/// [`LmError::Config`], naming the field; [`LmError::Checkpoint`], naming the tensor; [`LmError::Device`].
pub fn open<D: Device>(checkpoint: &Checkpoint, device: &D) -> Result<Gpt2<D>, LmError> {
    let config = ModelConfig::new(checkpoint);
    config.require_flag("add_cross_attention", false)?;
    let (hidden, heads) = (config.size("n_embd")?, config.size("n_head")?);
    let head_dim = config.divide_exactly("n_embd", hidden, "n_head", heads)?;
    let (vocabulary, positions) = (config.size("vocab_size")?, config.size("n_positions")?);
    let inner = config.size_or("n_inner", 4 * hidden)?;
    let activation = config.activation("activation_function", "gelu_new")?;
    let eps = config.epsilon("layer_norm_epsilon", 1e-5)?;
    let scaled = config.flag_or("scale_attn_weights", true)?;
    let by_layer = config.flag_or("scale_attn_by_inverse_layer_idx", false)?;
    let tied = config.flag_or("tie_word_embeddings", true)?;
    let layers = config.size("n_layer")?;

    let root = Weights::new(checkpoint, device);
    let weights = root.under_any(&["transformer", ""]);
    let layer = |index: usize| {
        let weights = weights.under(&format!("h.{index}"));
        let scale = if scaled { 1.0 / (head_dim as f64).sqrt() } else { 1.0 };
        let (attention, feed_forward) = (weights.under("attn"), weights.under("mlp"));
        Ok::<_, LmError>(Gpt2Layer {
            before_attention: LayerNorm::open(&weights.under("ln_1"), hidden, eps)?,
            query_key_value: Projection::open_transposed(&attention, "c_attn", hidden, 3 * hidden)?,
            scale: if by_layer { scale / (index + 1) as f64 } else { scale } as f32,
            output: Projection::open_transposed(&attention, "c_proj", hidden, hidden)?,
            before_feed_forward: LayerNorm::open(&weights.under("ln_2"), hidden, eps)?,
            up: Projection::open_transposed(&feed_forward, "c_fc", hidden, inner)?,
            down: Projection::open_transposed(&feed_forward, "c_proj", inner, hidden)?,
        })
    };
    Ok(Gpt2 {
        sizes: ModelSizes { layers, hidden, kv_width: hidden, max_positions: Some(positions), vocabulary },
        heads,
        inner,
        activation,
        vocabulary: Vocabulary::open(&root, &weights, "wte.weight", (vocabulary, hidden), tied)?,
        positions: weights.matrix("wpe.weight", positions, hidden)?,
        layers: (0..layers).map(layer).collect::<Result<_, _>>()?,
        norm: LayerNorm::open(&weights.under("ln_f"), hidden, eps)?,
    })
}

/// Counts four projections of attention, two of the feed-forward network, and the products of queries with keys and of
/// weights with values.
fn count_operations(layers: usize, hidden: usize, inner: usize) -> Operations {
    let products = layers * (4 * hidden * hidden + 2 * hidden * inner);
    Operations { per_token: 2 * products as u64, per_pair: (4 * layers * hidden) as u64 }
}

impl<D: Device> Decoder<D> for Gpt2<D> {
    fn sizes(&self) -> ModelSizes {
        self.sizes
    }

    fn operations(&self) -> Operations {
        count_operations(self.sizes.layers, self.sizes.hidden, self.inner)
    }

    fn head(&self) -> &LmHead<D> {
        self.vocabulary.head()
    }

    fn forward(
        &self,
        device: &D,
        batch: &PackedBatch<'_>,
        mut slots: Option<CacheSlots<'_, D>>,
    ) -> Result<D::Tensor, DeviceError> {
        let tokens = TableLookup { table: self.vocabulary.table(), ids: batch.ids };
        let positions = TableLookup { table: &self.positions, ids: batch.positions };
        let mut x = device.embed(&[tokens, positions], 1.0)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let normed = layer.before_attention.apply(device, &x)?;
            let qkv = layer.query_key_value.apply(device, &normed, Activation::Identity)?;
            let attention = Attention {
                heads: self.heads,
                kv_heads: self.heads,
                head_dim: self.sizes.hidden / self.heads,
                scale: layer.scale,
                mask: AttentionMask::Causal,
                bias: AttentionBias::None,
                packing: batch.packing,
            };
            let mixed = self_attention(device, index, &qkv, &mut slots, &attention)?;
            x = layer.output.apply_onto(device, &mixed, &x)?;
            let normed = layer.before_feed_forward.apply(device, &x)?;
            let inner = layer.up.apply(device, &normed, self.activation)?;
            x = layer.down.apply_onto(device, &inner, &x)?;
        }
        self.norm.apply(device, &x)
    }
}

impl<D: Device> fmt::Debug for Gpt2<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpt2").field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GPT-2 small: 12 layers of 12 * 768² weights, and 2 * 768 multiply-adds a pair.
    #[test]
    fn operations_are_those_counted_by_hand() {
        let counted = Operations { per_token: 12 * 12 * 768 * 768 * 2, per_pair: 4 * 768 * 12 };
        assert_eq!(count_operations(12, 768, 3072), counted);
        assert_eq!(counted.per_token, 169_869_312);
    }
}
