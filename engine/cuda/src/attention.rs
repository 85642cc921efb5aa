//! Attention as launches. A packing becomes lists of tiles and of key rows, which are sent once; the head's size and
//! the bias choose the kernel.
//!
//! | kernel | for |
//! | --- | --- |
//! | `attention_*` | bf16, heads of up to 128 numbers, smaller ones padded to 32, 64, 96 or 128 within the kernel |
//! | `attention_relative_*` | the same, with a bias for each distance |
//! | `attention_short_*` | either, in blocks of half as many rows, for tiles of up to 32 rows |
//! | `attention_grouped_*` | without a bias, one row of up to 32 heads that share a head of keys |
//! | `attention_disentangled_*` | the same, heads of up to 64 numbers: no DeBERTa has larger ones |
//! | `attention_plain_*` | everything else: `f32`, and bf16 of any size |

mod plans;

pub(crate) use plans::PlanCache;

use crate::kernels::{Kernel, kernel_size};
use crate::runtime::{ElementType, KernelArgument, KernelLaunch, Runtime};
use crate::{Cuda, Tensor};
use KernelArgument::{Buffer, F32, Null, U32};
use hopeval_device::{Attention, AttentionBias, AttentionMask, DeviceError, DisentangledBias, TensorColumns};
use plans::{BlockRows, KnownBlocks, SHORT_SIDE, SIDE};
use std::sync::Arc;

/// The kernels that are not on tensor cores, and their threads.
const PLAIN: [&str; 2] = ["attention_plain_f32", "attention_plain_bf16"];
const PLAIN_THREADS: u32 = 128;

/// Threads for each query row of a block on tensor cores: a warp has 16 rows.
const ROW_THREADS: usize = 2;

/// Numbers between the end of a row in shared memory and the next row, and numbers copied at once.
const CHUNK: usize = 8;

/// The argument that a group of tiles sets.
const TILES: usize = 4;

/// See [`hopeval_device::Device::attention`].
pub(crate) fn attend<R: Runtime>(
    cuda: &Cuda<R>,
    q: TensorColumns<'_, Tensor<R::Buffer>>,
    k: TensorColumns<'_, Tensor<R::Buffer>>,
    v: TensorColumns<'_, Tensor<R::Buffer>>,
    attention: &Attention<'_, Cuda<R>>,
) -> Result<Tensor<R::Buffer>, DeviceError> {
    let Attention { heads, kv_heads, head_dim, packing, .. } = *attention;
    check_shapes(q, k, v, attention);
    let converted = [cuda.convert_tensor(q.tensor)?, cuda.convert_tensor(k.tensor)?, cuda.convert_tensor(v.tensor)?];
    let [of_q, of_k, of_v] = &converted;
    let q = TensorColumns { tensor: of_q.as_ref().unwrap_or(q.tensor), start: q.start };
    let k = TensorColumns { tensor: of_k.as_ref().unwrap_or(k.tensor), start: k.start };
    let v = TensorColumns { tensor: of_v.as_ref().unwrap_or(v.tensor), start: v.start };

    let out = cuda.new_tensor(packing.rows(), heads * head_dim)?;
    let added = AddedBias::of(&attention.bias);
    let (shared, has) =
        (heads / kv_heads, |rows: BlockRows| choose_kernel(cuda.element, head_dim, added, rows).is_some());
    let grouped = (2..=SHORT_SIDE).contains(&shared) && has(BlockRows::Grouped);
    let known = KnownBlocks { short: has(BlockRows::Short), grouped };
    let plan = cuda.plans.of_packing(&cuda.runtime, packing, by_position(attention), known)?;
    if plan.launches.is_empty() {
        return Ok(out);
    }
    let bias = BiasOperands::new(cuda, attention, plan.most_keys)?;
    let (causal, window) = match attention.mask {
        AttentionMask::Full => (0, u32::MAX),
        AttentionMask::Causal => (1, u32::MAX),
        AttentionMask::Window(width) => (1, width),
    };
    let aligned = [head_dim, q.start, q.tensor.columns, k.start, k.tensor.columns, v.start, v.tensor.columns];
    let aligned = aligned.iter().all(|numbers| numbers.is_multiple_of(CHUNK));
    let mut arguments = [
        Buffer(&out.buffer),
        Buffer(&q.tensor.buffer),
        Buffer(&k.tensor.buffer),
        Buffer(&v.tensor.buffer),
        Null,
        Buffer(&plan.keys),
        optional_argument(bias.table),
        optional_argument(bias.position_keys.buffer()),
        optional_argument(bias.position_queries.buffer()),
        optional_argument(bias.places.as_ref().map(|(places, _)| &**places)),
        U32(kernel_size(q.start)),
        U32(kernel_size(q.tensor.columns)),
        U32(kernel_size(k.start)),
        U32(kernel_size(k.tensor.columns)),
        U32(kernel_size(v.start)),
        U32(kernel_size(v.tensor.columns)),
        U32(kernel_size(shared)),
        U32(kernel_size(head_dim)),
        F32(attention.scale),
        U32(causal),
        U32(window),
        U32(bias.places.as_ref().map_or(0, |(_, reach)| kernel_size(*reach))),
        U32(u32::from(aligned)),
    ];
    for launch in &plan.launches {
        arguments[TILES] = Buffer(&launch.tiles);
        let (kernel, threads, shared) = match choose_kernel(cuda.element, head_dim, added, launch.rows) {
            Some(found) => (
                Kernel::named("attention", found.name),
                kernel_size(found.threads()),
                kernel_size(found.shared_bytes()),
            ),
            None => (cuda.typed_kernel("attention_plain", PLAIN), PLAIN_THREADS, 0),
        };
        let across = if launch.rows == BlockRows::Grouped { kv_heads } else { heads };
        let grid = (kernel_size(launch.blocks), kernel_size(across));
        cuda.runtime.launch(KernelLaunch { kernel, grid, threads, shared }, &arguments)?;
    }
    Ok(out)
}

/// An operand, or null.
fn optional_argument<B>(buffer: Option<&B>) -> KernelArgument<'_, B> {
    buffer.map_or(Null, Buffer)
}

/// A tensor as the caller holds it, or converted.
enum InputTensor<'a, B> {
    Nothing,
    There(&'a B),
    Converted(Tensor<B>),
}

impl<'a, B> InputTensor<'a, B> {
    fn new<R: Runtime<Buffer = B>>(cuda: &Cuda<R>, x: Option<&'a Tensor<B>>) -> Result<Self, DeviceError> {
        let Some(x) = x else { return Ok(Self::Nothing) };
        Ok(cuda.convert_tensor(x)?.map_or(Self::There(&x.buffer), Self::Converted))
    }

    fn buffer(&self) -> Option<&B> {
        match self {
            Self::Nothing => None,
            Self::There(buffer) => Some(buffer),
            Self::Converted(tensor) => Some(&tensor.buffer),
        }
    }
}

/// The operands that a bias adds to a launch.
struct BiasOperands<'a, B> {
    table: Option<&'a B>,
    position_keys: InputTensor<'a, B>,
    position_queries: InputTensor<'a, B>,
    /// The rows of relative positions by distance, and the largest distance.
    places: Option<(Arc<B>, usize)>,
}

impl<'a, B> BiasOperands<'a, B> {
    fn new<R: Runtime<Buffer = B>>(
        cuda: &Cuda<R>,
        attention: &Attention<'a, Cuda<R>>,
        most_keys: usize,
    ) -> Result<Self, DeviceError> {
        let mut operands = Self {
            table: None,
            position_keys: InputTensor::Nothing,
            position_queries: InputTensor::Nothing,
            places: None,
        };
        match &attention.bias {
            AttentionBias::None => {}
            AttentionBias::Relative { table, buckets } => {
                operands.table = Some(&table.buffer);
                operands.places = Some(cuda.plans.places_for(&cuda.runtime, *buckets, most_keys)?);
            }
            AttentionBias::Disentangled(DisentangledBias { position_keys, position_queries, buckets }) => {
                operands.position_keys = InputTensor::new(cuda, *position_keys)?;
                operands.position_queries = InputTensor::new(cuda, *position_queries)?;
                operands.places = Some(cuda.plans.places_for(&cuda.runtime, *buckets, most_keys)?);
            }
        }
        Ok(operands)
    }
}

/// True if the result depends on a query's position.
fn by_position<R: Runtime>(attention: &Attention<'_, Cuda<R>>) -> bool {
    attention.mask != AttentionMask::Full || !matches!(attention.bias, AttentionBias::None)
}

/// The kind of term added to the scores, as far as it decides the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AddedBias {
    Nothing,
    Relative,
    Disentangled,
}

impl AddedBias {
    fn of<R: Runtime>(bias: &AttentionBias<'_, Cuda<R>>) -> Self {
        match bias {
            AttentionBias::None => Self::Nothing,
            AttentionBias::Relative { .. } => Self::Relative,
            AttentionBias::Disentangled(_) => Self::Disentangled,
        }
    }
}

/// A kernel on tensor cores.
struct TensorCoreKernel {
    added: AddedBias,
    rows: BlockRows,
    /// The largest head.
    head: usize,
    name: &'static str,
}

impl TensorCoreKernel {
    const fn new(added: AddedBias, rows: BlockRows, head: usize, name: &'static str) -> Self {
        Self { added, rows, head, name }
    }

    const fn threads(&self) -> usize {
        match self.rows {
            BlockRows::Long => SIDE * ROW_THREADS,
            BlockRows::Short | BlockRows::Grouped => SHORT_SIDE * ROW_THREADS,
        }
    }

    /// Bytes of dynamic shared memory: keys and values of a tile, and a second stage of both in blocks of all rows; if
    /// disentangled, one stage, and keys and queries of the relative positions of two tiles.
    const fn shared_bytes(&self) -> usize {
        let rows = SIDE * (self.head + CHUNK) * ElementType::Bf16.size();
        match (self.added, self.rows) {
            (AddedBias::Disentangled, _) => 6 * rows,
            (AddedBias::Nothing | AddedBias::Relative, BlockRows::Short | BlockRows::Grouped) => 2 * rows,
            (AddedBias::Nothing | AddedBias::Relative, BlockRows::Long) => 4 * rows,
        }
    }
}

/// The kernels on tensor cores; of a term and a block smaller heads first. Disentangled blocks have 64 rows alone:
/// DeBERTa's sequences are long.
const TENSOR_CORES: [TensorCoreKernel; 22] = [
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Long, 32, "attention_32"),
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Long, 64, "attention_64"),
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Long, 96, "attention_96"),
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Long, 128, "attention_128"),
    TensorCoreKernel::new(AddedBias::Relative, BlockRows::Long, 32, "attention_relative_32"),
    TensorCoreKernel::new(AddedBias::Relative, BlockRows::Long, 64, "attention_relative_64"),
    TensorCoreKernel::new(AddedBias::Relative, BlockRows::Long, 96, "attention_relative_96"),
    TensorCoreKernel::new(AddedBias::Relative, BlockRows::Long, 128, "attention_relative_128"),
    TensorCoreKernel::new(AddedBias::Disentangled, BlockRows::Long, 32, "attention_disentangled_32"),
    TensorCoreKernel::new(AddedBias::Disentangled, BlockRows::Long, 64, "attention_disentangled_64"),
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Short, 32, "attention_short_32"),
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Short, 64, "attention_short_64"),
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Short, 96, "attention_short_96"),
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Short, 128, "attention_short_128"),
    TensorCoreKernel::new(AddedBias::Relative, BlockRows::Short, 32, "attention_short_relative_32"),
    TensorCoreKernel::new(AddedBias::Relative, BlockRows::Short, 64, "attention_short_relative_64"),
    TensorCoreKernel::new(AddedBias::Relative, BlockRows::Short, 96, "attention_short_relative_96"),
    TensorCoreKernel::new(AddedBias::Relative, BlockRows::Short, 128, "attention_short_relative_128"),
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Grouped, 32, "attention_grouped_32"),
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Grouped, 64, "attention_grouped_64"),
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Grouped, 96, "attention_grouped_96"),
    TensorCoreKernel::new(AddedBias::Nothing, BlockRows::Grouped, 128, "attention_grouped_128"),
];

/// Bytes of dynamic shared memory in a launch of the kernel of this name.
pub(crate) fn dynamic_shared(kernel: &str) -> usize {
    let found = TENSOR_CORES.iter().find(|known| known.name == kernel);
    found.map_or(0, TensorCoreKernel::shared_bytes)
}

/// The kernel on tensor cores for these blocks, if there is one.
fn choose_kernel(
    element: ElementType,
    head_dim: usize,
    added: AddedBias,
    rows: BlockRows,
) -> Option<&'static TensorCoreKernel> {
    let fits = |known: &&TensorCoreKernel| known.added == added && known.rows == rows && head_dim <= known.head;
    TENSOR_CORES.iter().find(fits).filter(|_| element == ElementType::Bf16)
}

fn check_shapes<R: Runtime>(
    q: TensorColumns<'_, Tensor<R::Buffer>>,
    k: TensorColumns<'_, Tensor<R::Buffer>>,
    v: TensorColumns<'_, Tensor<R::Buffer>>,
    attention: &Attention<'_, Cuda<R>>,
) {
    let Attention { heads, kv_heads, head_dim, packing, .. } = *attention;
    // The greatest score is that of the greatest product.
    assert!(attention.scale > 0.0, "a positive scale; this is a bug");
    assert!(kv_heads > 0 && heads.is_multiple_of(kv_heads) && head_dim > 0, "heads of attention; this is a bug");
    assert!(u16::try_from(heads).is_ok(), "less than 2^16 heads; this is a bug");
    assert!(q.start + heads * head_dim <= q.tensor.columns, "columns of queries; this is a bug");
    assert!(k.start + kv_heads * head_dim <= k.tensor.columns, "columns of keys; this is a bug");
    assert!(v.start + kv_heads * head_dim <= v.tensor.columns, "columns of values; this is a bug");
    assert!(packing.rows() <= q.tensor.rows, "rows of queries; this is a bug");
    let rows = k.tensor.rows.min(v.tensor.rows);
    for (start, count) in &packing.spans {
        assert!(*start as usize + *count as usize <= rows, "rows of keys and values; this is a bug");
    }
    let enough = |s| packing.query_rows(s).len() <= packing.key_count(s);
    assert!(!by_position(attention) || (0..packing.len()).all(enough), "positions of queries; this is a bug");
    match &attention.bias {
        AttentionBias::None => {}
        AttentionBias::Relative { table, buckets } => {
            assert!(
                table.rows >= buckets.table_rows() && table.columns == heads,
                "a bias for each head; this is a bug"
            );
        }
        AttentionBias::Disentangled(terms) => {
            for positions in [terms.position_keys, terms.position_queries].into_iter().flatten() {
                let fits = positions.rows >= terms.buckets.table_rows() && positions.columns == heads * head_dim;
                assert!(fits, "relative positions; this is a bug");
            }
        }
    }
}
