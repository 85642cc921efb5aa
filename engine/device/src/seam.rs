//! [`Device`]: an architecture's demands on the hardware.
//!
//! Activations are matrices `[rows, columns]`, one row per token: of `f32` numbers, or rounded to bf16 on a device with
//! that arithmetic. Every operation that makes a tensor returns a new one; devices recycle memory. [`Packing`]
//! describes sequences, on the host.
//!
//! # Contract
//! * **Batch invariance.** A row of a result depends on its own inputs only: not on the other rows or their number, nor
//!   on threads, nor on the cut of key rows into spans. Bit for bit, within a numerics class.
//! * **Bounds.** Shapes and indices are the caller's duty; a violation panics with "this is a bug".
//! * **Memory.** Exhausted memory is [`DeviceError::OutOfMemory`], and leaves the device usable.
//! * Every implementation passes [`crate::conformance`].

use crate::sampling::{ChosenToken, TokenRule, UnusableLogits, choose_token};
use crate::{DeviceEnergy, DeviceError, DistanceBuckets, HostTensor, Packing, PendingRead, TensorColumns};
use std::time::{Duration, Instant};

/// The identity of a device, for tables, messages and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// For people: "Intel Xeon, 2 threads".
    pub name: String,
    /// Everything about it that can change a bit of a result: `cpu-avx512-1`. Part of every request's key.
    pub numerics: String,
}

/// The layout of a weight matrix in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightLayout {
    /// `[out, in]`, as PyTorch's `Linear`.
    OutIn,
    /// `[in, out]`, as GPT-2's `Conv1D`.
    InOut,
}

/// Element-wise functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x`.
    Identity,
    /// `max(x, 0)`.
    Relu,
    /// `x Φ(x)`, by the error function: transformers' `gelu`.
    Gelu,
    /// `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))`: transformers' `gelu_new`, `gelu_pytorch_tanh`.
    GeluTanh,
    /// `x / (1 + e^-x)`: `silu`, `swish`.
    Silu,
    /// `tanh x`.
    Tanh,
}

/// The last step of a product before it is stored: `activation(scale * product + bias) + residual`.
#[derive(Debug)]
pub struct Epilogue<'a, D: Device + ?Sized> {
    /// Factor of the product; 1 leaves every bit alone.
    pub scale: f32,
    /// `[out]`.
    pub bias: Option<&'a D::Vector>,
    /// Element-wise.
    pub activation: Activation,
    /// `[rows, out]`.
    pub residual: Option<&'a D::Tensor>,
}

impl<D: Device + ?Sized> Clone for Epilogue<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device + ?Sized> Copy for Epilogue<'_, D> {}

impl<D: Device + ?Sized> Default for Epilogue<'_, D> {
    fn default() -> Self {
        Self { scale: 1.0, bias: None, activation: Activation::Identity, residual: None }
    }
}

impl<'a, D: Device + ?Sized> Epilogue<'a, D> {
    /// An epilogue that adds a bias, if there is one.
    pub fn bias(bias: Option<&'a D::Vector>) -> Self {
        Self { bias, ..Self::default() }
    }

    /// With an activation.
    #[must_use]
    pub fn activation(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    /// With a residual stream added.
    #[must_use]
    pub fn residual(self, residual: &'a D::Tensor) -> Self {
        Self { residual: Some(residual), ..self }
    }
}

/// Rows of an embedding table, one for each row of the result.
#[derive(Debug)]
pub struct TableLookup<'a, D: Device + ?Sized> {
    /// `[entries, columns]`.
    pub table: &'a D::Matrix,
    /// The entry for each row of the result.
    pub ids: &'a [u32],
}

/// Normalisation of rows.
#[derive(Debug)]
pub enum Norm<'a, D: Device + ?Sized> {
    /// `(x - mean) / √(var + eps) * weight + bias`.
    Layer {
        /// `[columns]`.
        weight: &'a D::Vector,
        /// `[columns]`.
        bias: &'a D::Vector,
        /// Added to the variance.
        eps: f32,
    },
    /// `x / √(mean(x²) + eps) * weight`.
    Rms {
        /// `[columns]`.
        weight: &'a D::Vector,
        /// Added to the mean square.
        eps: f32,
    },
}

impl<D: Device + ?Sized> Clone for Norm<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device + ?Sized> Copy for Norm<'_, D> {}

/// The pairs of dimensions turned together by a rotary embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotaryStyle {
    /// Dimension `i` with `i + rotary/2`: Llama as transformers stores it.
    Half,
    /// Dimension `2i` with `2i + 1`: GPT-J.
    Interleaved,
}

/// Rotary position embedding. The model makes the angles' cosines and sines (scaling variants differ there only).
#[derive(Debug)]
pub struct RotaryAngles<'a, D: Device + ?Sized> {
    /// `[positions, 2 * pairs]`: cosines of the pairs, then their sines.
    pub table: &'a D::Matrix,
    /// Number of pairs to turn; the dimensions of a head beyond `2 * pairs` stay.
    pub pairs: usize,
    /// The dimensions of a pair.
    pub style: RotaryStyle,
}

/// The keys visible to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionMask {
    /// All keys of its sequence.
    Full,
    /// The keys up to itself: the last query row of a sequence stands at its last key.
    Causal,
    /// As [`AttentionMask::Causal`], but only the last `n` of them.
    Window(u32),
}

/// The summand of the product of query and key before the softmax.
#[derive(Debug)]
pub enum AttentionBias<'a, D: Device + ?Sized> {
    /// Nothing.
    None,
    /// A number for each head and bucket of distances: `table [buckets, heads]` (T5). Not scaled.
    Relative {
        /// `[buckets, heads]`.
        table: &'a D::Matrix,
        /// The row of the table for a distance.
        buckets: DistanceBuckets,
    },
    /// DeBERTa's disentangled attention.
    Disentangled(DisentangledBias<'a, D>),
}

/// Content-to-position and position-to-content terms (He et al. 2021, section 3.1), both scaled like the content term.
#[derive(Debug)]
pub struct DisentangledBias<'a, D: Device + ?Sized> {
    /// `[2 * span, heads * head_dim]`: keys of relative positions; the term is `query · keys[row]`.
    pub position_keys: Option<&'a D::Tensor>,
    /// `[2 * span, heads * head_dim]`: queries of relative positions; the term is `key · queries[row]`.
    pub position_queries: Option<&'a D::Tensor>,
    /// The row for a query and a key, the same for both terms.
    pub buckets: DistanceBuckets,
}

/// Attention of packed queries over spans of key rows.
#[derive(Debug)]
pub struct Attention<'a, D: Device + ?Sized> {
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of keys and values; divides `heads`: query head `h` uses `h / (heads / kv_heads)`.
    pub kv_heads: usize,
    /// Numbers per head.
    pub head_dim: usize,
    /// Factor of the product of query and key.
    pub scale: f32,
    /// The visible keys.
    pub mask: AttentionMask,
    /// Relative positions; a query's position is its row's distance from the end of its sequence's keys.
    pub bias: AttentionBias<'a, D>,
    /// The rows of each sequence.
    pub packing: &'a Packing,
}

/// Log-probabilities in two parts, from which those of any temperature follow by arithmetic: `logit / T -
/// log_sum_exp(T)`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogProbs {
    /// The target's logit (unscaled), for each row.
    pub target_logits: Vec<f32>,
    /// `log Σ exp(logit / T)`: `[rows, temperatures]`.
    pub log_sum_exps: Vec<f32>,
}

/// The next token of a row, unless its logits have no probabilities.
pub type NextToken = Result<ChosenToken, UnusableLogits>;

/// Operations on packed tensors; see the module's contract.
pub trait Device: Send + Sync + 'static {
    /// Activations `[rows, columns]`.
    type Tensor: Send + Sync + std::fmt::Debug;
    /// Weights for products with rows, or tables of rows.
    type Matrix: Send + Sync + std::fmt::Debug;
    /// Weights of one dimension.
    type Vector: Send + Sync + std::fmt::Debug;

    /// The device's identity.
    fn identity(&self) -> DeviceIdentity;

    /// The account of its energy; `None` if nothing counts it.
    fn energy(&self) -> Option<&DeviceEnergy> {
        None
    }

    /// Does the work of a batch on the fastest thread for it, and returns for how long it kept the device busy: from
    /// begin to end, unless the device shares its processors with others and knows its own part, as [`Cpu`](crate::Cpu)
    /// does.
    ///
    /// `work` reads the results of its requests, or ends with [`Self::finish_work`]: work still pending at its return
    /// is not counted; a caller that keeps a [`PendingRead`] measures on its own. It does not call this again.
    fn run_timed<R: Send>(&self, work: impl FnOnce() -> R + Send) -> (R, Duration) {
        let begun = Instant::now();
        (work(), begun.elapsed())
    }

    /// The time since the last call that the device spent on preparing itself, such as a choice of algorithms that
    /// later batches have, too: it belongs to no request.
    fn take_preparation(&self) -> Duration {
        Duration::ZERO
    }

    /// Prepares for batches of at most `most_rows` rows of a model, before its first request. A device that loads or
    /// chooses something when it is first used does it here: `pass` runs the model on a few tokens, whose results are
    /// dropped. It changes no result. Other devices do not call `pass`.
    ///
    /// # Errors
    /// As `pass`; [`DeviceError::Lost`].
    fn warm_up(&self, most_rows: usize, pass: impl FnOnce() -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        let _ = (most_rows, pass);
        Ok(())
    }

    /// The numbers of activations that its free memory has room for; `None` if it is the host's, or unknown.
    fn free_numbers(&self) -> Option<u64> {
        None
    }

    /// Waits until all requested work is done; for callers that read nothing but report time or energy.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] if any of it failed.
    fn finish_work(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Makes weights usable: `parts` are stacked along *out*, so that one product serves several projections.
    ///
    /// # Errors
    /// [`DeviceError::Weight`] if a part is not a matrix or their *in* differ; [`DeviceError::OutOfMemory`].
    fn load_matrix(&self, parts: &[HostTensor], layout: WeightLayout) -> Result<Self::Matrix, DeviceError>;

    /// Makes a vector usable: `parts` one after the other.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn load_vector(&self, parts: &[HostTensor]) -> Result<Self::Vector, DeviceError>;

    /// A tensor of these `rows * columns` numbers.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn upload(&self, rows: usize, columns: usize, values: &[f32]) -> Result<Self::Tensor, DeviceError>;

    /// A tensor of any content: room for a cache.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn reserve(&self, rows: usize, columns: usize) -> Result<Self::Tensor, DeviceError>;

    /// All numbers, row-major.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    fn read_tensor(&self, x: &Self::Tensor) -> Result<Vec<f32>, DeviceError>;

    /// As [`read_tensor`](Self::read_tensor), without a wait where the device works beside the host.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    fn request_tensor(&self, x: &Self::Tensor) -> Result<PendingRead<Vec<f32>>, DeviceError> {
        self.read_tensor(x).map(PendingRead::ready)
    }

    /// `(rows, columns)`.
    fn shape(&self, x: &Self::Tensor) -> (usize, usize);

    /// `scale * Σ table[id]` over the lookups, in their order.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn embed(&self, lookups: &[TableLookup<'_, Self>], scale: f32) -> Result<Self::Tensor, DeviceError>;

    /// Normalises rows.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn norm(&self, x: &Self::Tensor, norm: Norm<'_, Self>) -> Result<Self::Tensor, DeviceError>;

    /// Normalises each group of `width` columns of `start..start + groups * width`, in place; weights are `[width]`.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    fn norm_groups(
        &self,
        x: &mut Self::Tensor,
        start: usize,
        groups: usize,
        width: usize,
        norm: Norm<'_, Self>,
    ) -> Result<(), DeviceError>;

    /// `x [rows, in] · weightᵀ [out, in]` and its epilogue: `[rows, out]`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn linear(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        epilogue: Epilogue<'_, Self>,
    ) -> Result<Self::Tensor, DeviceError>;

    /// `scale * x [rows, in] · weightᵀ [out, in] + bias`, read: `rows * out` numbers, row-major. For logits on the
    /// host: they are never rounded to the precision of stored activations.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    fn project(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        scale: f32,
    ) -> Result<Vec<f32>, DeviceError> {
        self.read_tensor(&self.linear(x, weight, Epilogue { scale, ..Epilogue::bias(bias) })?)
    }

    /// As [`project`](Self::project), without a wait where the device works beside the host.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    fn request_projection(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        scale: f32,
    ) -> Result<PendingRead<Vec<f32>>, DeviceError> {
        self.project(x, weight, bias, scale).map(PendingRead::ready)
    }

    /// `activation(x[.., ..n]) * x[.., n..2n]`: `[rows, n]` of `[rows, 2n]`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn gate(&self, x: &Self::Tensor, activation: Activation) -> Result<Self::Tensor, DeviceError>;

    /// Turns `heads` heads of `head_dim` columns from column `start` on by the angles of each row's position, in place.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    fn rotate(
        &self,
        x: &mut Self::Tensor,
        start: usize,
        heads: usize,
        head_dim: usize,
        positions: &[u32],
        rotary: &RotaryAngles<'_, Self>,
    ) -> Result<(), DeviceError>;

    /// `softmax(scale * q·k + bias) · v` for each query row: `[rows, heads * head_dim]`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn attention(
        &self,
        q: TensorColumns<'_, Self::Tensor>,
        k: TensorColumns<'_, Self::Tensor>,
        v: TensorColumns<'_, Self::Tensor>,
        attention: &Attention<'_, Self>,
    ) -> Result<Self::Tensor, DeviceError>;

    /// `x[rows]`, in that order.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn gather(&self, x: &Self::Tensor, rows: &[u32]) -> Result<Self::Tensor, DeviceError>;

    /// Writes each row of `from`, from column `from.start` on, to a row of `into`: row `i` to row `to[i]`.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    fn scatter(
        &self,
        into: &mut Self::Tensor,
        to: &[u32],
        from: TensorColumns<'_, Self::Tensor>,
    ) -> Result<(), DeviceError>;

    /// The mean of each sequence's rows: `[sequences, columns]`. `cu_seqlens` as in [`Packing`].
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn average(&self, x: &Self::Tensor, cu_seqlens: &[u32]) -> Result<Self::Tensor, DeviceError>;

    /// Logits `scale * x · weightᵀ + bias`; only the target's and one log-sum-exp for each temperature are kept.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn log_probs(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        scale: f32,
        targets: &[u32],
        temperatures: &[f32],
    ) -> Result<LogProbs, DeviceError>;

    /// As [`log_probs`](Self::log_probs), without a wait where the device works beside the host.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    fn request_log_probs(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        scale: f32,
        targets: &[u32],
        temperatures: &[f32],
    ) -> Result<PendingRead<LogProbs>, DeviceError> {
        self.log_probs(x, weight, bias, scale, targets, temperatures).map(PendingRead::ready)
    }

    /// The next token of each row, by its own rule, from logits `scale * x · weightᵀ + bias`. A device should neither
    /// keep all logits nor hand them out. The token is that of [`choose_token`] for the logits of
    /// [`project`](Self::project); the last bits of its log-probability are the device's.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    fn next_tokens(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        scale: f32,
        rules: &[TokenRule],
    ) -> Result<Vec<NextToken>, DeviceError> {
        assert_eq!(self.shape(x).0, rules.len(), "a rule for each row; this is a bug");
        let logits = self.project(x, weight, bias, scale)?;
        let rows = logits.chunks_exact((logits.len() / rules.len().max(1)).max(1));
        Ok(rows.zip(rules).map(|(logits, rule)| choose_token(logits, rule)).collect())
    }
}
