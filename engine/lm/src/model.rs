//! The interface between the engine and an architecture.
//!
//! ```text
//!   Encoder          ids --encode--> states                       BERT, RoBERTa, ELECTRA, DeBERTa
//!   Decoder          ids --forward--> hidden --head--> logits     GPT-2, OPT, Llama class
//!   EncoderDecoder   ids --encode--> states --decode--> hidden    T5
//! ```
//!
//! Hidden states come out normalised, ready for the head. They come out for every row: the engine gathers the wanted
//! rows, and applies the head to those only.

use hopeval_device::{Device, DeviceError, Packing};
use std::fmt::Debug;

/// Packed sequences of token ids; every slice has one entry per row of `packing`.
#[derive(Clone, Copy, Debug)]
pub struct PackedBatch<'a> {
    /// Token ids.
    pub ids: &'a [u32],
    /// Position of each token in its own sequence, from 0; architectures add their own offset.
    pub positions: &'a [u32],
    /// Token types (BERT class); empty means 0 everywhere.
    pub type_ids: &'a [u32],
    /// Groups rows into sequences, and says which rows each attends to.
    pub packing: &'a Packing,
}

/// Keys and values of every layer: `[capacity, kv_heads * head_dim]` each.
#[derive(Debug)]
pub struct KeyValueCache<D: Device> {
    /// One for each layer.
    pub keys: Vec<D::Tensor>,
    /// One for each layer.
    pub values: Vec<D::Tensor>,
}

impl<D: Device> KeyValueCache<D> {
    /// Reserves room for `rows` tokens in each of `layers` layers, `width` numbers per token.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn reserve(device: &D, layers: usize, rows: usize, width: usize) -> Result<Self, DeviceError> {
        let tensors = || (0..layers).map(|_| device.reserve(rows, width)).collect::<Result<Vec<_>, _>>();
        Ok(Self { keys: tensors()?, values: tensors()? })
    }
}

/// A cache, and the rows of this batch's tokens in it.
#[derive(Debug)]
pub struct CacheSlots<'a, D: Device> {
    /// Written by this pass, then read by it: the batch's spans are rows of the cache.
    pub cache: &'a mut KeyValueCache<D>,
    /// The cache row of each token of the batch.
    pub rows: &'a [u32],
}

/// The language-model head: logits are `scale * hidden · weightᵀ + bias`.
#[derive(Debug)]
pub struct LmHead<D: Device> {
    /// `[vocabulary, hidden]`.
    pub weight: D::Matrix,
    /// `[vocabulary]`.
    pub bias: Option<D::Vector>,
    /// T5 v1.0 multiplies by `d_model^-0.5`; else 1.
    pub scale: f32,
    /// The number of tokens with a logit.
    pub vocabulary: usize,
}

/// Sizes for the engine's planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelSizes {
    /// Layers in a cache of keys and values; with two stacks, the decoder's.
    pub layers: usize,
    /// Numbers of a hidden state.
    pub hidden: usize,
    /// Numbers of a key, and of a value: `kv_heads * head_dim`.
    pub kv_width: usize,
    /// The longest sequence; `None` if positions are relative and unbounded.
    pub max_positions: Option<usize>,
    /// Token ids are below this.
    pub vocabulary: usize,
}

/// Operations of a forward pass without padding. A multiplication and an addition count as two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// For each token, in the matrix products.
    pub per_token: u64,
    /// For each visible pair of a query and a key, over all layers.
    pub per_pair: u64,
}

/// A bidirectional encoder.
pub trait Encoder<D: Device>: Debug + Send + Sync {
    /// Sizes; `layers` and `kv_width` are 0.
    fn sizes(&self) -> ModelSizes;

    /// Token types are below this; 0 if the encoder has no types and ignores [`PackedBatch::type_ids`].
    fn type_vocabulary(&self) -> usize;

    /// Operations of [`encode`](Self::encode).
    fn operations(&self) -> Operations;

    /// Final hidden states `[rows, hidden]`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn encode(&self, device: &D, batch: &PackedBatch<'_>) -> Result<D::Tensor, DeviceError>;
}

/// A causal decoder.
pub trait Decoder<D: Device>: Debug + Send + Sync {
    /// Sizes.
    fn sizes(&self) -> ModelSizes;

    /// Operations of [`forward`](Self::forward) without the head.
    fn operations(&self) -> Operations;

    /// The head.
    fn head(&self) -> &LmHead<D>;

    /// Final hidden states `[rows, hidden]`. Without slots the spans are rows of the batch, so a prefix tree needs no
    /// cache. With slots, keys and values go to the cache first, and the spans are rows of the cache.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn forward(
        &self,
        device: &D,
        batch: &PackedBatch<'_>,
        slots: Option<CacheSlots<'_, D>>,
    ) -> Result<D::Tensor, DeviceError>;
}

/// Encoder states for the decoder's cross-attention.
#[derive(Debug)]
pub enum EncoderMemory<'a, D: Device> {
    /// States `[rows, hidden]`; keys and values are projected layer by layer and dropped: scoring.
    States(&'a D::Tensor),
    /// Keys and values of all layers, from [`EncoderDecoder::project`]: generation.
    Projected(&'a KeyValueCache<D>),
}

/// An encoder with a decoder.
pub trait EncoderDecoder<D: Device>: Debug + Send + Sync {
    /// Sizes, the decoder's.
    fn sizes(&self) -> ModelSizes;

    /// Operations of [`encode`](Self::encode).
    fn encoder_operations(&self) -> Operations;

    /// Operations of [`decode`](Self::decode) for its own tokens (self-attention's pairs), without the head.
    fn decoder_operations(&self) -> Operations;

    /// Operations of projecting the encoder's states (per encoder token) and of attending to them (per pair).
    fn cross_operations(&self) -> Operations;

    /// The head.
    fn head(&self) -> &LmHead<D>;

    /// The first token of every decoder sequence.
    fn decoder_start(&self) -> u32;

    /// Final encoder states `[rows, hidden]`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn encode(&self, device: &D, batch: &PackedBatch<'_>) -> Result<D::Tensor, DeviceError>;

    /// Cross-attention's keys and values of all layers.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn project(&self, device: &D, states: &D::Tensor) -> Result<KeyValueCache<D>, DeviceError>;

    /// Final decoder states `[rows, hidden]`. `batch` is the decoder's. `cross` has the same query rows; its spans are
    /// rows of `memory`. Slots as in [`Decoder::forward`].
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn decode(
        &self,
        device: &D,
        batch: &PackedBatch<'_>,
        memory: EncoderMemory<'_, D>,
        cross: &Packing,
        slots: Option<CacheSlots<'_, D>>,
    ) -> Result<D::Tensor, DeviceError>;
}
