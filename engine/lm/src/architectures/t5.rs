//! T5 (Raffel et al. 2020; transformers' `t5`): v1.0, v1.1, LM-adapted and Flan. An encoder and a decoder. Positions
//! are biases of the attention by distance, kept in the first layer of each stack, and the attention is not scaled.
//!
//! ```text
//!   x = shared[ids]
//!   x = x + o(attention(q, k, v of norm(x)))                 self-attention
//!   x = x + o(attention(q of norm(x), k, v of the states))   cross-attention, in the decoder
//!   x = x + wo(act(wi(norm(x))))                             if gated: wo(act(wi_0(y)) * wi_1(y)), one product
//!   final_layer_norm(x)
//! ```
//!
//! v1.0 uses its embedding as head and multiplies the states by `d_model^-0.5`. From v1.1 on, the head has its own
//! weight. `scales_states` decides between the two by the configuration, like transformers.

use super::attend::self_attention;
use super::norm::RmsNorm;
use super::projection::Projection;
use super::vocabulary::Vocabulary;
use crate::config::ModelConfig;
use crate::model::{
    CacheSlots, EncoderDecoder, EncoderMemory, KeyValueCache, LmHead, ModelSizes, Operations, PackedBatch,
};
use crate::{LmError, Weights};
use hopeval_checkpoint::Checkpoint;
use hopeval_device::{
    Activation, Attention, AttentionBias, AttentionMask, Device, DeviceError, DistanceBuckets, Packing, TableLookup,
    TensorColumns,
};
use std::fmt;

/// A T5.
pub struct T5<D: Device> {
    shape: T5Shape,
    vocabulary: Vocabulary<D>,
    encoder: LayerStack<D>,
    decoder: LayerStack<D>,
}

/// Sizes and options from the configuration.
#[derive(Clone, Copy, Debug)]
struct T5Shape {
    hidden: usize,
    heads: usize,
    head_dim: usize,
    /// Numbers between the two projections of the feed-forward network.
    inner: usize,
    activation: Activation,
    gated: bool,
    eps: f32,
    buckets: usize,
    max_distance: usize,
    encoder_layers: usize,
    decoder_layers: usize,
    vocabulary: usize,
    start: u32,
    scaled: bool,
}

struct LayerStack<D: Device> {
    layers: Vec<T5Layer<D>>,
    /// `[buckets, heads]`.
    distances: D::Matrix,
    norm: RmsNorm<D>,
}

struct T5Layer<D: Device> {
    before_attention: RmsNorm<D>,
    query_key_value: Projection<D>,
    output: Projection<D>,
    cross: Option<CrossAttention<D>>,
    before_feed_forward: RmsNorm<D>,
    up: Projection<D>,
    down: Projection<D>,
}

struct CrossAttention<D: Device> {
    norm: RmsNorm<D>,
    query: Projection<D>,
    key_value: Projection<D>,
    output: Projection<D>,
}

/// Opens a T5.
///
/// # Errors
/// [`LmError::Config`], naming the field; [`LmError::Checkpoint`], naming the tensor; [`LmError::Device`].
pub fn open<D: Device>(checkpoint: &Checkpoint, device: &D) -> Result<T5<D>, LmError> {
    let shape = T5Shape::from_config(&ModelConfig::new(checkpoint))?;
    let weights = Weights::new(checkpoint, device);
    // A few real files lack `shared.weight`: they hold it under the name of one of its uses.
    let tables = ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
    let table = tables.into_iter().find(|name| weights.has(name)).unwrap_or(tables[0]);
    let scale = if shape.scaled { (shape.hidden as f64).powf(-0.5) as f32 } else { 1.0 };
    Ok(T5 {
        shape,
        vocabulary: Vocabulary::open(&weights, &weights, table, (shape.vocabulary, shape.hidden), true)?
            .with_scale(scale),
        encoder: LayerStack::open(&weights.under("encoder"), &shape, shape.encoder_layers, false)?,
        decoder: LayerStack::open(&weights.under("decoder"), &shape, shape.decoder_layers, true)?,
    })
}

/// Whether states are multiplied by `d_model^-0.5` before the head.
///
/// Transformers 4 scales unless `tie_word_embeddings` is `false`. Transformers 5 decides the same once, at its first
/// reading of a configuration. It then writes `scale_decoder_outputs`, and a `tie_word_embeddings` with the constant
/// value `true`.
fn scales_states(config: &ModelConfig<'_>) -> Result<bool, LmError> {
    let tied = config.flag_or("tie_word_embeddings", true)?;
    config.flag_or("scale_decoder_outputs", tied)
}

impl T5Shape {
    fn from_config(config: &ModelConfig<'_>) -> Result<Self, LmError> {
        let layers = config.size("num_layers")?;
        let (gated, activation) = feed_forward(config)?;
        let (buckets, max_distance) = (
            config.size_or("relative_attention_num_buckets", 32)?,
            config.size_or("relative_attention_max_distance", 128)?,
        );
        // Half of the buckets for each direction. Half of those are exact, the rest logarithmic up to `max_distance`.
        if buckets < 4 || buckets % 2 == 1 {
            let reason = format!("expected an even number of at least 4, found {buckets}");
            return Err(config.field_error("relative_attention_num_buckets", &reason));
        }
        if max_distance <= buckets / 2 {
            let reason = format!("expected more than half of the {buckets} buckets, found {max_distance}");
            return Err(config.field_error("relative_attention_max_distance", &reason));
        }
        let vocabulary = config.size("vocab_size")?;
        let start = config.integer_or("decoder_start_token_id", config.integer_or("pad_token_id", 0)?)?;
        if start >= vocabulary {
            let reason = format!("expected a token below vocab_size, {vocabulary}, found {start}");
            return Err(config.field_error("decoder_start_token_id", &reason));
        }
        Ok(Self {
            hidden: config.size("d_model")?,
            heads: config.size("num_heads")?,
            head_dim: config.size("d_kv")?,
            inner: config.size("d_ff")?,
            activation,
            gated,
            eps: config.epsilon("layer_norm_epsilon", 1e-6)?,
            buckets,
            max_distance,
            encoder_layers: layers,
            decoder_layers: config.size_or("num_decoder_layers", layers)?,
            vocabulary,
            start: start as u32,
            scaled: scales_states(config)?,
        })
    }

    /// Numbers of a token's queries, of its keys, and of its values.
    fn attention_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Multiplications of the feed-forward network for one token.
    fn feed_forward_products(&self) -> usize {
        (if self.gated { 3 } else { 2 }) * self.hidden * self.inner
    }

    /// Counts four projections of attention, the feed-forward network, and the products of queries with keys and of
    /// weights with values.
    fn encoder_operations(&self) -> Operations {
        let (layers, width) = (self.encoder_layers, self.attention_width());
        let products = layers * (4 * self.hidden * width + self.feed_forward_products());
        Operations { per_token: 2 * products as u64, per_pair: (4 * layers * width) as u64 }
    }

    /// As for the encoder, plus queries and outputs of cross-attention.
    fn decoder_operations(&self) -> Operations {
        let (layers, width) = (self.decoder_layers, self.attention_width());
        let products = layers * (6 * self.hidden * width + self.feed_forward_products());
        Operations { per_token: 2 * products as u64, per_pair: (4 * layers * width) as u64 }
    }

    /// Keys and values of the encoder's states.
    fn cross_operations(&self) -> Operations {
        let (layers, width) = (self.decoder_layers, self.attention_width());
        Operations { per_token: 2 * (layers * 2 * self.hidden * width) as u64, per_pair: (4 * layers * width) as u64 }
    }

    fn attention<'a, D: Device>(
        &self,
        mask: AttentionMask,
        bias: AttentionBias<'a, D>,
        packing: &'a Packing,
    ) -> Attention<'a, D> {
        Attention { heads: self.heads, kv_heads: self.heads, head_dim: self.head_dim, scale: 1.0, mask, bias, packing }
    }
}

/// Reads `feed_forward_proj`: `ACTIVATION` or `gated-ACTIVATION`. `gated-gelu` means `gelu_new`.
fn feed_forward(config: &ModelConfig<'_>) -> Result<(bool, Activation), LmError> {
    let field = "feed_forward_proj";
    let name = config.text(field)?.unwrap_or("relu");
    Ok(match name.strip_prefix("gated-") {
        Some("gelu") => (true, Activation::GeluTanh),
        Some(activation) => (true, config.activation_named(field, activation)?),
        None => (false, config.activation_named(field, name)?),
    })
}

impl<D: Device> LayerStack<D> {
    fn open(weights: &Weights<'_, D>, shape: &T5Shape, layers: usize, decodes: bool) -> Result<Self, LmError> {
        let layer = |index| T5Layer::open(&weights.under(&format!("block.{index}.layer")), shape, decodes);
        let distances = "block.0.layer.0.SelfAttention.relative_attention_bias.weight";
        Ok(Self {
            layers: (0..layers).map(layer).collect::<Result<_, _>>()?,
            distances: weights.matrix(distances, shape.buckets, shape.heads)?,
            norm: RmsNorm::open(&weights.under("final_layer_norm"), shape.hidden, shape.eps)?,
        })
    }
}

impl<D: Device> T5Layer<D> {
    /// Opens a layer. `weights` stand at its list of parts: self-attention, cross-attention in a decoder, feed-forward
    /// network.
    fn open(weights: &Weights<'_, D>, shape: &T5Shape, decodes: bool) -> Result<Self, LmError> {
        let (hidden, width, inner) = (shape.hidden, shape.attention_width(), shape.inner);
        let (attention, last) = (weights.under("0.SelfAttention"), weights.under(if decodes { "2" } else { "1" }));
        let norm = |weights: &Weights<'_, D>| RmsNorm::open(&weights.under("layer_norm"), hidden, shape.eps);
        let cross = || {
            let attention = weights.under("1.EncDecAttention");
            Ok::<_, LmError>(CrossAttention {
                norm: norm(&weights.under("1"))?,
                query: Projection::open(&attention, &[("q", width)], hidden, false)?,
                key_value: Projection::open(&attention, &[("k", width), ("v", width)], hidden, false)?,
                output: Projection::open(&attention, &[("o", hidden)], width, false)?,
            })
        };
        let up: &[(&str, usize)] = if shape.gated { &[("wi_0", inner), ("wi_1", inner)] } else { &[("wi", inner)] };
        let feed_forward = last.under("DenseReluDense");
        Ok(Self {
            before_attention: norm(&weights.under("0"))?,
            query_key_value: Projection::open(&attention, &[("q", width), ("k", width), ("v", width)], hidden, false)?,
            output: Projection::open(&attention, &[("o", hidden)], width, false)?,
            cross: decodes.then(cross).transpose()?,
            before_feed_forward: norm(&last)?,
            up: Projection::open(&feed_forward, up, hidden, false)?,
            down: Projection::open(&feed_forward, &[("wo", hidden)], inner, false)?,
        })
    }

    /// Adds the self-attention over the layer's own rows, or over the cache.
    fn attend_own_rows(
        &self,
        device: &D,
        index: usize,
        x: &D::Tensor,
        slots: &mut Option<CacheSlots<'_, D>>,
        attention: &Attention<'_, D>,
    ) -> Result<D::Tensor, DeviceError> {
        let normed = self.before_attention.apply(device, x)?;
        let qkv = self.query_key_value.apply(device, &normed, Activation::Identity)?;
        self.output.apply_onto(device, &self_attention(device, index, &qkv, slots, attention)?, x)
    }

    fn feed_forward(&self, device: &D, x: &D::Tensor, shape: &T5Shape) -> Result<D::Tensor, DeviceError> {
        let normed = self.before_feed_forward.apply(device, x)?;
        let inner = if shape.gated {
            device.gate(&self.up.apply(device, &normed, Activation::Identity)?, shape.activation)?
        } else {
            self.up.apply(device, &normed, shape.activation)?
        };
        self.down.apply_onto(device, &inner, x)
    }
}

impl<D: Device> CrossAttention<D> {
    /// Adds the cross-attention over the encoder's states.
    fn attend_encoder_states(
        &self,
        device: &D,
        index: usize,
        x: &D::Tensor,
        memory: &EncoderMemory<'_, D>,
        attention: &Attention<'_, D>,
    ) -> Result<D::Tensor, DeviceError> {
        let queries = self.query.apply(device, &self.norm.apply(device, x)?, Activation::Identity)?;
        let columns = |tensor, start| TensorColumns { tensor, start };
        let mixed = match memory {
            EncoderMemory::States(states) => {
                let both = self.key_value.apply(device, states, Activation::Identity)?;
                let values = attention.kv_heads * attention.head_dim;
                device.attention(columns(&queries, 0), columns(&both, 0), columns(&both, values), attention)?
            }
            EncoderMemory::Projected(cache) => {
                let (keys, values) = (&cache.keys[index], &cache.values[index]);
                device.attention(columns(&queries, 0), columns(keys, 0), columns(values, 0), attention)?
            }
        };
        self.output.apply_onto(device, &mixed, x)
    }
}

impl<D: Device> T5<D> {
    fn distance_bias<'a>(&self, stack: &'a LayerStack<D>, bidirectional: bool) -> AttentionBias<'a, D> {
        let T5Shape { buckets: count, max_distance, .. } = self.shape;
        AttentionBias::Relative {
            table: &stack.distances,
            buckets: DistanceBuckets::T5 { count, max_distance, bidirectional },
        }
    }

    fn embed(&self, device: &D, batch: &PackedBatch<'_>) -> Result<D::Tensor, DeviceError> {
        device.embed(&[TableLookup { table: self.vocabulary.table(), ids: batch.ids }], 1.0)
    }
}

impl<D: Device> EncoderDecoder<D> for T5<D> {
    fn sizes(&self) -> ModelSizes {
        ModelSizes {
            layers: self.shape.decoder_layers,
            hidden: self.shape.hidden,
            kv_width: self.shape.attention_width(),
            max_positions: None,
            vocabulary: self.shape.vocabulary,
        }
    }

    fn encoder_operations(&self) -> Operations {
        self.shape.encoder_operations()
    }

    fn decoder_operations(&self) -> Operations {
        self.shape.decoder_operations()
    }

    fn cross_operations(&self) -> Operations {
        self.shape.cross_operations()
    }

    fn head(&self) -> &LmHead<D> {
        self.vocabulary.head()
    }

    fn decoder_start(&self) -> u32 {
        self.shape.start
    }

    fn encode(&self, device: &D, batch: &PackedBatch<'_>) -> Result<D::Tensor, DeviceError> {
        let attention =
            self.shape.attention(AttentionMask::Full, self.distance_bias(&self.encoder, true), batch.packing);
        let mut x = self.embed(device, batch)?;
        for (index, layer) in self.encoder.layers.iter().enumerate() {
            x = layer.attend_own_rows(device, index, &x, &mut None, &attention)?;
            x = layer.feed_forward(device, &x, &self.shape)?;
        }
        self.encoder.norm.apply(device, &x)
    }

    fn project(&self, device: &D, states: &D::Tensor) -> Result<KeyValueCache<D>, DeviceError> {
        let (rows, width) = (device.shape(states).0, self.shape.attention_width());
        let mut cache = KeyValueCache::reserve(device, self.shape.decoder_layers, rows, width)?;
        let all = (0..rows as u32).collect::<Vec<_>>();
        for (index, cross) in self.decoder.layers.iter().filter_map(|layer| layer.cross.as_ref()).enumerate() {
            let both = cross.key_value.apply(device, states, Activation::Identity)?;
            device.scatter(&mut cache.keys[index], &all, TensorColumns { tensor: &both, start: 0 })?;
            device.scatter(&mut cache.values[index], &all, TensorColumns { tensor: &both, start: width })?;
        }
        Ok(cache)
    }

    fn decode(
        &self,
        device: &D,
        batch: &PackedBatch<'_>,
        memory: EncoderMemory<'_, D>,
        cross: &Packing,
        mut slots: Option<CacheSlots<'_, D>>,
    ) -> Result<D::Tensor, DeviceError> {
        let own = self.shape.attention(AttentionMask::Causal, self.distance_bias(&self.decoder, false), batch.packing);
        let states = self.shape.attention(AttentionMask::Full, AttentionBias::None, cross);
        let mut x = self.embed(device, batch)?;
        for (index, layer) in self.decoder.layers.iter().enumerate() {
            x = layer.attend_own_rows(device, index, &x, &mut slots, &own)?;
            if let Some(cross) = &layer.cross {
                x = cross.attend_encoder_states(device, index, &x, &memory, &states)?;
            }
            x = layer.feed_forward(device, &x, &self.shape)?;
        }
        self.decoder.norm.apply(device, &x)
    }
}

impl<D: Device> fmt::Debug for T5<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("T5").field("shape", &self.shape).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::path::Path;

    fn shape(more: Value) -> Result<T5Shape, LmError> {
        let mut config = json!({"d_model": 768, "d_kv": 64, "d_ff": 2048, "num_layers": 12, "num_heads": 12,
            "vocab_size": 32128, "feed_forward_proj": "gated-gelu"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        T5Shape::from_config(&ModelConfig::from_fields(Path::new("model"), config.as_object().unwrap()))
    }

    /// T5-v1.1-base: attention projects with 4 * 768² weights, the gated network with 3 * 768 * 2048.
    #[test]
    fn operations_are_those_counted_by_hand() {
        let (square, network, per_pair) = (768 * 768, 3 * 768 * 2048, 4 * 768 * 12);
        let base = shape(json!({})).unwrap();
        let counted = |weights: u64| Operations { per_token: 12 * weights * 2, per_pair };
        assert_eq!(base.encoder_operations(), counted(4 * square + network));
        assert_eq!(base.decoder_operations(), counted(4 * square + 2 * square + network));
        assert_eq!(base.cross_operations(), counted(2 * square));
        // v1.0 has two matrices of 768 * 3072 there.
        let old = shape(json!({"feed_forward_proj": "relu", "d_ff": 3072, "num_decoder_layers": 6})).unwrap();
        assert_eq!(old.encoder_operations().per_token, 12 * 2 * (4 * square + 2 * 768 * 3072));
        assert_eq!(old.cross_operations(), Operations { per_token: 6 * 2 * 2 * square, per_pair: per_pair / 2 });
    }

    #[test]
    fn defaults_are_those_of_transformers() {
        let base = shape(json!({"num_decoder_layers": null, "pad_token_id": 3})).unwrap();
        assert_eq!((base.decoder_layers, base.start, base.buckets, base.max_distance), (12, 3, 32, 128));
        let feed_forward = |name: &str| shape(json!({"feed_forward_proj": name})).map(|s| (s.gated, s.activation));
        assert_eq!(feed_forward("relu").unwrap(), (false, Activation::Relu));
        assert_eq!(feed_forward("gelu").unwrap(), (false, Activation::Gelu));
        assert_eq!(feed_forward("gated-gelu").unwrap(), (true, Activation::GeluTanh));
        assert_eq!(feed_forward("gated-silu").unwrap(), (true, Activation::Silu));
        assert!(feed_forward("gated-").is_err());
    }
}
