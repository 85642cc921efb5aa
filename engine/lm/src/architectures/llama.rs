//! The Llama class (Touvron et al. 2023): rotary positions, RMS norms, grouped-query attention and a gated feed-forward
//! network.
//!
//! ```text
//!   x = embed_tokens[ids]
//!   x = x + o_proj(attention(rotate(q), rotate(k), v))      q, k, v = one product of norm(x)
//!   x = x + down_proj(act(gate_proj(y)) * up_proj(y))       y = norm(x); gate and up are one product
//!   norm(x)
//! ```
//!
//! | `model_type` | biases | windows | more |
//! | --- | --- | --- | --- |
//! | llama | `attention_bias` (q, k, v, o), `mlp_bias` | none | |
//! | mistral | none | `sliding_window` on every layer | |
//! | qwen2 | q, k, v | `use_sliding_window`, by layer | |
//! | qwen3 | `attention_bias` | as qwen2 | norms of queries and keys, by head; heads of 128 without `head_dim` |

use super::attend::self_attention;
use super::norm::RmsNorm;
use super::projection::Projection;
use super::rope::RotaryEmbedding;
use super::vocabulary::Vocabulary;
use crate::config::ModelConfig;
use crate::model::{CacheSlots, Decoder, LmHead, ModelSizes, Operations, PackedBatch};
use crate::{LmError, Weights};
use hopeval_checkpoint::Checkpoint;
use hopeval_device::{
    Activation, Attention, AttentionBias, AttentionMask, Device, DeviceError, RotaryAngles, RotaryStyle, TableLookup,
    WeightLayout,
};
use std::fmt;

/// The longest sequence, whatever the configuration allows: the rotary table has a row for each position.
const MOST_POSITIONS: usize = 1 << 17;

/// A model of the Llama class.
pub struct Llama<D: Device> {
    shape: LlamaShape,
    vocabulary: Vocabulary<D>,
    layers: Vec<LlamaLayer<D>>,
    norm: RmsNorm<D>,
    rotary: D::Matrix,
    pairs: usize,
}

struct LlamaLayer<D: Device> {
    before_attention: RmsNorm<D>,
    query_key_value: Projection<D>,
    /// For queries and for keys, applied to each head.
    head_norms: Option<(RmsNorm<D>, RmsNorm<D>)>,
    mask: AttentionMask,
    output: Projection<D>,
    before_feed_forward: RmsNorm<D>,
    gate_up: Projection<D>,
    down: Projection<D>,
}

/// Sizes and options from the configuration.
struct LlamaShape {
    sizes: ModelSizes,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    /// Numbers between the two projections of the feed-forward network.
    inner: usize,
    activation: Activation,
    eps: f32,
    tied: bool,
    /// Biases of queries, keys and values; of the attention's output; of the feed-forward network.
    biases: (bool, bool, bool),
    head_norms: bool,
    /// One for each layer.
    masks: Vec<AttentionMask>,
}

/// Opens a model of the Llama class, with the prefix `model.` or without.
///
/// # Errors
/// [`LmError::Config`], naming the field; [`LmError::Checkpoint`], naming the tensor; [`LmError::Device`].
pub fn open<D: Device>(checkpoint: &Checkpoint, device: &D) -> Result<Llama<D>, LmError> {
    let config = ModelConfig::new(checkpoint);
    let shape = LlamaShape::from_config(&config)?;
    let rope = RotaryEmbedding::from_config(&config, shape.head_dim, config.size("max_position_embeddings")?)?;
    let root = Weights::new(checkpoint, device);
    let weights = root.under_any(&["model", ""]);
    let hidden = shape.sizes.hidden;
    let table = (shape.sizes.vocabulary, hidden);
    let layer = |(index, mask): (usize, &AttentionMask)| {
        LlamaLayer::open(&weights.under(&format!("layers.{index}")), &shape, *mask)
    };
    Ok(Llama {
        vocabulary: Vocabulary::open(&root, &weights, "embed_tokens.weight", table, shape.tied)?,
        layers: shape.masks.iter().enumerate().map(layer).collect::<Result<_, _>>()?,
        norm: RmsNorm::open(&weights.under("norm"), hidden, shape.eps)?,
        rotary: device.load_matrix(&[rope.angle_table(shape.sizes.max_positions.unwrap_or(0))], WeightLayout::OutIn)?,
        pairs: rope.pairs(),
        shape,
    })
}

impl LlamaShape {
    fn from_config(config: &ModelConfig<'_>) -> Result<Self, LmError> {
        let kind = config.text("model_type")?.unwrap_or_default();
        let (hidden, heads) = (config.size("hidden_size")?, config.size("num_attention_heads")?);
        let kv_heads = config.size_or("num_key_value_heads", heads)?;
        config.divide_exactly("num_attention_heads", heads, "num_key_value_heads", kv_heads)?;
        let head_dim = match config.has("head_dim") || kind == "qwen3" {
            true => config.size_or("head_dim", 128)?,
            false => config.divide_exactly("hidden_size", hidden, "num_attention_heads", heads)?,
        };
        if head_dim % 2 == 1 {
            return Err(config.field_error("head_dim", &format!("expected an even number, found {head_dim}")));
        }
        let layers = config.size("num_hidden_layers")?;
        let attention_bias = || config.flag_or("attention_bias", false);
        let biases = match kind {
            "llama" => (attention_bias()?, attention_bias()?, config.flag_or("mlp_bias", false)?),
            "qwen2" => (true, false, false),
            "qwen3" => (attention_bias()?, attention_bias()?, false),
            _ => (false, false, false),
        };
        let masks = match kind {
            "mistral" => vec![window_mask(config)?; layers],
            "qwen2" | "qwen3" => masks_by_layer(config, layers)?,
            _ => vec![AttentionMask::Causal; layers],
        };
        Ok(Self {
            sizes: ModelSizes {
                layers,
                hidden,
                kv_width: kv_heads * head_dim,
                max_positions: Some(config.size("max_position_embeddings")?.min(MOST_POSITIONS)),
                vocabulary: config.size("vocab_size")?,
            },
            heads,
            kv_heads,
            head_dim,
            inner: config.size("intermediate_size")?,
            activation: config.activation("hidden_act", "silu")?,
            eps: config.epsilon("rms_norm_eps", 1e-6)?,
            tied: config.flag_or("tie_word_embeddings", false)?,
            biases,
            head_norms: kind == "qwen3",
            masks,
        })
    }

    /// Numbers of a token's queries.
    fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Counts the projections (query, output, key, value, gate, up, down), and the products of queries with keys and of
    /// weights with values.
    fn operations(&self) -> Operations {
        let ModelSizes { layers, hidden, kv_width, .. } = self.sizes;
        let products = layers * hidden * (2 * self.query_width() + 2 * kv_width + 3 * self.inner);
        Operations { per_token: 2 * products as u64, per_pair: (4 * layers * self.query_width()) as u64 }
    }
}

/// The window of a model with a window: 4,096 if the field is missing, no window if it is `null`.
fn window_mask(config: &ModelConfig<'_>) -> Result<AttentionMask, LmError> {
    let field = "sliding_window";
    if config.is_null(field) {
        return Ok(AttentionMask::Causal);
    }
    Ok(AttentionMask::Window(config.size_or(field, 4096)? as u32))
}

/// Qwen's windows: `layer_types` (transformers 5), or layers from `max_window_layers` on.
fn masks_by_layer(config: &ModelConfig<'_>, layers: usize) -> Result<Vec<AttentionMask>, LmError> {
    let sliding = match config.flag_or("use_sliding_window", false)? {
        true => window_mask(config)?,
        false => AttentionMask::Causal,
    };
    let Some(types) = config.texts("layer_types")? else {
        let first = config.integer_or("max_window_layers", 28)?;
        return Ok((0..layers).map(|layer| if layer >= first { sliding } else { AttentionMask::Causal }).collect());
    };
    if types.len() != layers {
        let reason = format!("expected one for each of num_hidden_layers, {layers}, found {}", types.len());
        return Err(config.field_error("layer_types", &reason));
    }
    let mask = |name: &str| match (name, sliding) {
        ("full_attention", _) => Ok(AttentionMask::Causal),
        ("sliding_attention", AttentionMask::Window(_)) => Ok(sliding),
        ("sliding_attention", _) => {
            Err(config.field_error("layer_types", "sliding_attention needs use_sliding_window and sliding_window"))
        }
        _ => {
            let reason = format!("expected full_attention or sliding_attention, found {name:?}");
            Err(config.field_error("layer_types", &reason))
        }
    };
    types.into_iter().map(mask).collect()
}

impl<D: Device> LlamaLayer<D> {
    fn open(weights: &Weights<'_, D>, shape: &LlamaShape, mask: AttentionMask) -> Result<Self, LmError> {
        let LlamaShape { sizes: ModelSizes { hidden, kv_width, .. }, inner, head_dim, eps, .. } = *shape;
        let (attention, feed_forward) = (weights.under("self_attn"), weights.under("mlp"));
        let norm = |name, size| RmsNorm::open(&weights.under(name), size, eps);
        let queries = shape.query_width();
        let projections = [("q_proj", queries), ("k_proj", kv_width), ("v_proj", kv_width)];
        let head_norms =
            || Ok::<_, LmError>((norm("self_attn.q_norm", head_dim)?, norm("self_attn.k_norm", head_dim)?));
        let (inputs, output, mlp) = shape.biases;
        Ok(Self {
            before_attention: norm("input_layernorm", hidden)?,
            query_key_value: Projection::open(&attention, &projections, hidden, inputs)?,
            head_norms: shape.head_norms.then(head_norms).transpose()?,
            mask,
            output: Projection::open(&attention, &[("o_proj", hidden)], queries, output)?,
            before_feed_forward: norm("post_attention_layernorm", hidden)?,
            gate_up: Projection::open(&feed_forward, &[("gate_proj", inner), ("up_proj", inner)], hidden, mlp)?,
            down: Projection::open(&feed_forward, &[("down_proj", hidden)], inner, mlp)?,
        })
    }
}

impl<D: Device> Llama<D> {
    /// Queries, keys and values of a layer, normalised and turned.
    fn query_key_value(
        &self,
        device: &D,
        layer: &LlamaLayer<D>,
        x: &D::Tensor,
        positions: &[u32],
    ) -> Result<D::Tensor, DeviceError> {
        let LlamaShape { heads, kv_heads, head_dim, .. } = self.shape;
        let normed = layer.before_attention.apply(device, x)?;
        let mut qkv = layer.query_key_value.apply(device, &normed, Activation::Identity)?;
        if let Some((queries, keys)) = &layer.head_norms {
            device.norm_groups(&mut qkv, 0, heads, head_dim, queries.norm_arguments())?;
            device.norm_groups(&mut qkv, heads * head_dim, kv_heads, head_dim, keys.norm_arguments())?;
        }
        // Keys follow queries, so both turn at once.
        let rotary = RotaryAngles { table: &self.rotary, pairs: self.pairs, style: RotaryStyle::Half };
        device.rotate(&mut qkv, 0, heads + kv_heads, head_dim, positions, &rotary)?;
        Ok(qkv)
    }
}

impl<D: Device> Decoder<D> for Llama<D> {
    fn sizes(&self) -> ModelSizes {
        self.shape.sizes
    }

    fn operations(&self) -> Operations {
        self.shape.operations()
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
        let LlamaShape { heads, kv_heads, head_dim, activation, .. } = self.shape;
        let mut x = device.embed(&[TableLookup { table: self.vocabulary.table(), ids: batch.ids }], 1.0)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let qkv = self.query_key_value(device, layer, &x, batch.positions)?;
            let attention = Attention {
                heads,
                kv_heads,
                head_dim,
                scale: 1.0 / (head_dim as f32).sqrt(),
                mask: layer.mask,
                bias: AttentionBias::None,
                packing: batch.packing,
            };
            let mixed = self_attention(device, index, &qkv, &mut slots, &attention)?;
            x = layer.output.apply_onto(device, &mixed, &x)?;
            let normed = layer.before_feed_forward.apply(device, &x)?;
            let both = layer.gate_up.apply(device, &normed, Activation::Identity)?;
            x = layer.down.apply_onto(device, &device.gate(&both, activation)?, &x)?;
        }
        self.norm.apply(device, &x)
    }
}

impl<D: Device> fmt::Debug for Llama<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Llama").field("sizes", &self.shape.sizes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::path::Path;

    fn shape(more: Value) -> Result<LlamaShape, LmError> {
        let mut config = json!({"model_type": "qwen2", "vocab_size": 100, "hidden_size": 2048,
            "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 5632, "num_hidden_layers": 4,
            "max_position_embeddings": 64});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        LlamaShape::from_config(&ModelConfig::from_fields(Path::new("model"), config.as_object().unwrap()))
    }

    #[test]
    fn windows_are_those_of_transformers() {
        let masks = |more: Value| shape(more).map(|shape| shape.masks);
        let (full, eight) = (AttentionMask::Causal, AttentionMask::Window(8));
        assert_eq!(masks(json!({"sliding_window": 8})).unwrap(), [full; 4]);
        let used = json!({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 3});
        assert_eq!(masks(used).unwrap(), [full, full, full, eight]);
        let types = json!(["sliding_attention", "full_attention", "sliding_attention", "full_attention"]);
        let listed = json!({"use_sliding_window": true, "sliding_window": 8, "layer_types": types});
        assert_eq!(masks(listed).unwrap(), [eight, full, eight, full]);
        let unused = masks(json!({"sliding_window": 8, "layer_types": types})).unwrap_err().to_string();
        assert!(unused.contains("layer_types: sliding_attention needs use_sliding_window"), "{unused}");
        let mistral = |window: Value| masks(json!({"model_type": "mistral", "sliding_window": window})).unwrap();
        assert_eq!((mistral(json!(8)), mistral(Value::Null)), (vec![eight; 4], vec![full; 4]));
        assert_eq!(masks(json!({"model_type": "mistral"})).unwrap(), [AttentionMask::Window(4096); 4]);
        assert_eq!(masks(json!({"model_type": "llama", "sliding_window": 8})).unwrap(), [full; 4]);
    }

    /// TinyLlama's shape with 4 layers, counted by hand: 2048 x (2 x 2048 + 2 x 256 + 3 x 5632) weights a layer.
    #[test]
    fn operations_are_those_counted_by_hand() {
        let operations = shape(json!({"model_type": "llama"})).unwrap().operations();
        assert_eq!(operations, Operations { per_token: 2 * 4 * 44_040_192, per_pair: 4 * 4 * 2048 });
    }
}
