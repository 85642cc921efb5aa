//! Attention as launches. A packing becomes lists of tiles and of key rows, which are sent once; the head's size and
//! the bias choose the kernel.
//!
//! | kernel | for |
//! | --- | --- |
//! | `attention_*` | bf16, heads of up to 128 numbers, smaller ones padded to 32, 64, 96 or 128 within the kernel |
//! | `attention_relative_*` | the same, with a bias for each distance |
//! | `attention_disentangled_*` | the same, heads of up to 64 numbers: no DeBERTa has larger ones |
//! | `attention_plain_*` | everything else: `f32`, and bf16 of any size |

mod plans;

pub(crate) use plans::PlanCache;

use crate::kernels::{Kernel, kernel_size};
use crate::runtime::{ElementType, KernelArgument, KernelLaunch, Runtime};
use crate::{Cuda, Tensor};
use KernelArgument::{Buffer, F32, Null, U32};
use hopeval_device::{Attention, AttentionBias, AttentionMask, DeviceError, DisentangledBias, TensorColumns};
use plans::SIDE;
use std::sync::Arc;

/// Threads of each of these kernels.
const THREADS: u32 = 128;

/// Numbers between the end of a row in shared memory and the next row, and numbers copied at once.
const CHUNK: usize = 8;

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
    let plan = cuda.plans.of_packing(&cuda.runtime, packing, by_position(attention))?;
    if plan.blocks == 0 {
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
    let arguments = [
        Buffer(&out.buffer),
        Buffer(&q.tensor.buffer),
        Buffer(&k.tensor.buffer),
        Buffer(&v.tensor.buffer),
        Buffer(&plan.tiles),
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
        U32(kernel_size(heads / kv_heads)),
        U32(kernel_size(head_dim)),
        F32(attention.scale),
        U32(causal),
        U32(window),
        U32(bias.places.as_ref().map_or(0, |(_, reach)| kernel_size(*reach))),
        U32(u32::from(aligned)),
    ];
    let (kernel, shared) = choose_kernel(cuda.element, head_dim, &attention.bias);
    let launch = KernelLaunch {
        kernel,
        grid: (kernel_size(plan.blocks), kernel_size(heads)),
        threads: THREADS,
        shared: kernel_size(shared),
    };
    cuda.runtime.launch(launch, &arguments)?;
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

/// The kernels on tensor cores: the added term, the largest head, the name; smaller heads first.
const TENSOR_CORES: [(AddedBias, usize, &str); 10] = [
    (AddedBias::Nothing, 32, "attention_32"),
    (AddedBias::Nothing, 64, "attention_64"),
    (AddedBias::Nothing, 96, "attention_96"),
    (AddedBias::Nothing, 128, "attention_128"),
    (AddedBias::Relative, 32, "attention_relative_32"),
    (AddedBias::Relative, 64, "attention_relative_64"),
    (AddedBias::Relative, 96, "attention_relative_96"),
    (AddedBias::Relative, 128, "attention_relative_128"),
    (AddedBias::Disentangled, 32, "attention_disentangled_32"),
    (AddedBias::Disentangled, 64, "attention_disentangled_64"),
];

/// Bytes of dynamic shared memory of a kernel on tensor cores: keys and values of a tile; if disentangled, also keys
/// and queries of the relative positions of two tiles.
const fn shared_bytes(added: AddedBias, head: usize) -> usize {
    let rows = SIDE * (head + CHUNK) * ElementType::Bf16.size();
    match added {
        AddedBias::Disentangled => 6 * rows,
        AddedBias::Nothing | AddedBias::Relative => 2 * rows,
    }
}

/// Bytes of dynamic shared memory in a launch of the kernel of this name.
pub(crate) fn dynamic_shared(kernel: &str) -> usize {
    let found = TENSOR_CORES.iter().find(|(_, _, name)| *name == kernel);
    found.map_or(0, |(added, head, _)| shared_bytes(*added, *head))
}

/// The kernel, and its bytes of dynamic shared memory.
fn choose_kernel<R: Runtime>(
    element: ElementType,
    head_dim: usize,
    bias: &AttentionBias<'_, Cuda<R>>,
) -> (Kernel, usize) {
    let adds = match bias {
        AttentionBias::None => AddedBias::Nothing,
        AttentionBias::Relative { .. } => AddedBias::Relative,
        AttentionBias::Disentangled(_) => AddedBias::Disentangled,
    };
    let plain = |name| (Kernel::named("attention_plain", name), 0);
    match element {
        ElementType::F32 => plain("attention_plain_f32"),
        ElementType::Bf16 => match TENSOR_CORES.iter().find(|(added, head, _)| *added == adds && head_dim <= *head) {
            Some((_, head, name)) => (Kernel::named("attention", name), shared_bytes(adds, *head)),
            None => plain("attention_plain_bf16"),
        },
    }
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
