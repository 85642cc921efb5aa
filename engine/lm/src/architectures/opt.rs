//! OPT (Zhang et al. 2022; transformers' `opt`): GPT-2 with other names, and with positions from row 2 of their table
//! on. One size (350m) also has projections around the stack, and layers with the normalisation last.
//!
//! ```text
//!   x = project_in(embed_tokens[ids]) + embed_positions[positions + 2]
//!   x = x + out_proj(attention(q, k, v of norm(x)));  x = x + fc2(act(fc1(norm(x))))     normalised first, or
//!   x = norm(x + out_proj(attention(q, k, v of x)));  x = norm(x + fc2(act(fc1(x))))     last
//!   project_out(final_layer_norm(x))                                                     each if the checkpoint has it
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

/// Rows of the table before the row of a sequence's first position (fairseq's padding).
const FIRST_POSITION: usize = 2;

/// PyTorch's default; OPT has no setting for it.
const EPSILON: f32 = 1e-5;

/// An OPT.
pub struct Opt<D: Device> {
    sizes: ModelSizes,
    /// Numbers of a state between layers. `sizes.hidden` counts the numbers of an output state.
    width: usize,
    heads: usize,
    /// Numbers between the two projections of the feed-forward network.
    inner: usize,
    activation: Activation,
    norm_first: bool,
    vocabulary: Vocabulary<D>,
    positions: D::Matrix,
    project_in: Option<Projection<D>>,
    layers: Vec<OptLayer<D>>,
    norm: Option<LayerNorm<D>>,
    project_out: Option<Projection<D>>,
}

struct OptLayer<D: Device> {
    attention_norm: LayerNorm<D>,
    query_key_value: Projection<D>,
    output: Projection<D>,
    feed_forward_norm: LayerNorm<D>,
    up: Projection<D>,
    down: Projection<D>,
}

/// Opens an OPT, with the prefix `model.decoder.`, `decoder.` or none.
///
/// # Errors
/// [`LmError::Config`], naming the field; [`LmError::Checkpoint`], naming the tensor; [`LmError::Device`].
pub fn open<D: Device>(checkpoint: &Checkpoint, device: &D) -> Result<Opt<D>, LmError> {
    let config = ModelConfig::new(checkpoint);
    let (width, heads) = (config.size("hidden_size")?, config.size("num_attention_heads")?);
    config.divide_exactly("hidden_size", width, "num_attention_heads", heads)?;
    let (vocabulary, positions) = (config.size("vocab_size")?, config.size("max_position_embeddings")?);
    let (inner, layers) = (config.size("ffn_dim")?, config.size("num_hidden_layers")?);
    let hidden = config.size_or("word_embed_proj_dim", width)?;
    let activation = config.activation("activation_function", "relu")?;
    let norm_first = config.flag_or("do_layer_norm_before", true)?;
    let final_norm = norm_first && !config.flag_or("_remove_final_layer_norm", false)?;
    let bias = config.flag_or("enable_bias", true)?;
    let affine = config.flag_or("layer_norm_elementwise_affine", true)?;
    let tied = config.flag_or("tie_word_embeddings", true)?;

    let root = Weights::new(checkpoint, device);
    let weights = root.under_any(&["model.decoder", "decoder", ""]);
    let norm = |weights: Weights<'_, D>| match affine {
        true => LayerNorm::open(&weights, width, EPSILON),
        false => LayerNorm::without_parameters(device, width, EPSILON),
    };
    let layer = |index: usize| {
        let weights = weights.under(&format!("layers.{index}"));
        let attention = weights.under("self_attn");
        let projections = [("q_proj", width), ("k_proj", width), ("v_proj", width)];
        Ok::<_, LmError>(OptLayer {
            attention_norm: norm(weights.under("self_attn_layer_norm"))?,
            query_key_value: Projection::open(&attention, &projections, width, bias)?,
            output: Projection::open(&attention, &[("out_proj", width)], width, bias)?,
            feed_forward_norm: norm(weights.under("final_layer_norm"))?,
            up: Projection::open(&weights, &[("fc1", inner)], width, bias)?,
            down: Projection::open(&weights, &[("fc2", width)], inner, bias)?,
        })
    };
    let project = |name, out, into| {
        (width != hidden).then(|| Projection::open(&weights, &[(name, out)], into, false)).transpose()
    };
    Ok(Opt {
        sizes: ModelSizes { layers, hidden, kv_width: width, max_positions: Some(positions), vocabulary },
        width,
        heads,
        inner,
        activation,
        norm_first,
        vocabulary: Vocabulary::open(&root, &weights, "embed_tokens.weight", (vocabulary, hidden), tied)?,
        positions: weights.matrix("embed_positions.weight", positions + FIRST_POSITION, width)?,
        project_in: project("project_in", width, hidden)?,
        layers: (0..layers).map(layer).collect::<Result<_, _>>()?,
        norm: final_norm.then(|| norm(weights.under("final_layer_norm"))).transpose()?,
        project_out: project("project_out", hidden, width)?,
    })
}

impl<D: Device> Opt<D> {
    fn embed(&self, device: &D, batch: &PackedBatch<'_>) -> Result<D::Tensor, DeviceError> {
        let rows = batch.positions.iter().map(|position| position + FIRST_POSITION as u32).collect::<Vec<_>>();
        let tokens = TableLookup { table: self.vocabulary.table(), ids: batch.ids };
        let positions = TableLookup { table: &self.positions, ids: &rows };
        match &self.project_in {
            None => device.embed(&[tokens, positions], 1.0),
            Some(project_in) => {
                project_in.apply_onto(device, &device.embed(&[tokens], 1.0)?, &device.embed(&[positions], 1.0)?)
            }
        }
    }

    /// Computes one layer's residual stream from the stream before it.
    fn forward_layer(
        &self,
        device: &D,
        index: usize,
        x: &D::Tensor,
        slots: &mut Option<CacheSlots<'_, D>>,
        attention: &Attention<'_, D>,
    ) -> Result<D::Tensor, DeviceError> {
        let layer = &self.layers[index];
        let attended = |input: &D::Tensor, slots: &mut Option<CacheSlots<'_, D>>| {
            let qkv = layer.query_key_value.apply(device, input, Activation::Identity)?;
            layer.output.apply_onto(device, &self_attention(device, index, &qkv, slots, attention)?, x)
        };
        let fed = |input: &D::Tensor, residual: &D::Tensor| {
            layer.down.apply_onto(device, &layer.up.apply(device, input, self.activation)?, residual)
        };
        if self.norm_first {
            let x = attended(&layer.attention_norm.apply(device, x)?, slots)?;
            fed(&layer.feed_forward_norm.apply(device, &x)?, &x)
        } else {
            let x = layer.attention_norm.apply(device, &attended(x, slots)?)?;
            layer.feed_forward_norm.apply(device, &fed(&x, &x)?)
        }
    }
}

impl<D: Device> Decoder<D> for Opt<D> {
    fn sizes(&self) -> ModelSizes {
        self.sizes
    }

    fn operations(&self) -> Operations {
        let ModelSizes { layers, hidden, .. } = self.sizes;
        let around = if self.project_in.is_some() { 2 * hidden * self.width } else { 0 };
        let products = layers * (4 * self.width * self.width + 2 * self.width * self.inner) + around;
        Operations { per_token: 2 * products as u64, per_pair: (4 * layers * self.width) as u64 }
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
        let head_dim = self.width / self.heads;
        let attention = Attention {
            heads: self.heads,
            kv_heads: self.heads,
            head_dim,
            scale: 1.0 / (head_dim as f32).sqrt(),
            mask: AttentionMask::Causal,
            bias: AttentionBias::None,
            packing: batch.packing,
        };
        let mut x = self.embed(device, batch)?;
        for index in 0..self.layers.len() {
            x = self.forward_layer(device, index, &x, &mut slots, &attention)?;
        }
        if let Some(norm) = &self.norm {
            x = norm.apply(device, &x)?;
        }
        match &self.project_out {
            Some(project_out) => project_out.apply(device, &x, Activation::Identity),
            None => Ok(x),
        }
    }
}

impl<D: Device> fmt::Debug for Opt<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opt").field("sizes", &self.sizes).finish_non_exhaustive()
    }
}
