//! Attention against the reference: masks, biases, shared heads, spans of all uses.

use super::ConformanceFailure;
use super::trial::{OperationTrial, PairedValue, SeededRandom};
use crate::reference::PlainMatrix;
use crate::{
    Attention, AttentionBias, AttentionMask, Device, DisentangledBias, DistanceBuckets, Packing, Reference,
    TensorColumns, WeightLayout,
};

/// Heads, heads of keys and values, numbers per head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
}

/// The kind of bias.
#[derive(Clone, Copy, Debug)]
pub(super) enum BiasKind {
    None,
    Relative(DistanceBuckets),
    /// With keys of positions, with queries of positions.
    Disentangled(DistanceBuckets, bool, bool),
}

/// The bias itself, on the device and for the reference.
pub(super) struct PairedBias<D: Device> {
    kind: BiasKind,
    table: Option<PairedValue<D::Matrix, PlainMatrix>>,
    keys: Option<PairedValue<D::Tensor, PlainMatrix>>,
    queries: Option<PairedValue<D::Tensor, PlainMatrix>>,
}

const T5: DistanceBuckets = DistanceBuckets::T5 { count: 32, max_distance: 128, bidirectional: true };
pub(super) const T5_BACK: DistanceBuckets = DistanceBuckets::T5 { count: 32, max_distance: 128, bidirectional: false };
/// Small enough that short sequences reach all of it.
const LOG: DistanceBuckets = DistanceBuckets::Log { span: 12, max_position: 40 };
const DEBERTA: DistanceBuckets = DistanceBuckets::Log { span: 256, max_position: 512 };
const CLAMPED: DistanceBuckets = DistanceBuckets::Clamped { span: 9 };

/// Masks and biases of real models, and some others.
pub(super) const KINDS: [(AttentionMask, BiasKind); 12] = [
    (AttentionMask::Full, BiasKind::None),
    (AttentionMask::Causal, BiasKind::None),
    (AttentionMask::Window(1), BiasKind::None),
    (AttentionMask::Window(20), BiasKind::None),
    (AttentionMask::Full, BiasKind::Relative(T5)),
    (AttentionMask::Causal, BiasKind::Relative(T5_BACK)),
    (AttentionMask::Full, BiasKind::Disentangled(LOG, true, true)),
    (AttentionMask::Full, BiasKind::Disentangled(DEBERTA, true, true)),
    (AttentionMask::Full, BiasKind::Disentangled(CLAMPED, true, false)),
    (AttentionMask::Full, BiasKind::Disentangled(LOG, false, true)),
    (AttentionMask::Causal, BiasKind::Disentangled(CLAMPED, true, true)),
    (AttentionMask::Window(7), BiasKind::Disentangled(T5, true, true)),
];

const HEADS: [Heads; 11] = [
    Heads { heads: 1, kv_heads: 1, head_dim: 1 },
    Heads { heads: 2, kv_heads: 2, head_dim: 8 },
    Heads { heads: 3, kv_heads: 1, head_dim: 5 },
    Heads { heads: 2, kv_heads: 2, head_dim: 32 },
    Heads { heads: 2, kv_heads: 2, head_dim: 64 },
    Heads { heads: 4, kv_heads: 2, head_dim: 33 },
    Heads { heads: 2, kv_heads: 1, head_dim: 80 },
    Heads { heads: 1, kv_heads: 1, head_dim: 96 },
    Heads { heads: 2, kv_heads: 2, head_dim: 128 },
    Heads { heads: 1, kv_heads: 1, head_dim: 256 },
    Heads { heads: 1, kv_heads: 1, head_dim: 264 },
];

impl<D: Device> PairedBias<D> {
    pub(super) fn random(
        trial: &mut OperationTrial<'_, D>,
        kind: BiasKind,
        heads: Heads,
    ) -> Result<Self, ConformanceFailure> {
        let mut biases = Self { kind, table: None, keys: None, queries: None };
        match kind {
            BiasKind::None => {}
            BiasKind::Relative(buckets) => {
                biases.table =
                    Some(trial.random_matrix(buckets.table_rows(), heads.heads, WeightLayout::OutIn, 2.0)?);
            }
            BiasKind::Disentangled(buckets, keys, queries) => {
                let mut positions = |there: bool| {
                    there.then(|| trial.random_tensor(buckets.table_rows(), heads.heads * heads.head_dim)).transpose()
                };
                (biases.keys, biases.queries) = (positions(keys)?, positions(queries)?);
            }
        }
        Ok(biases)
    }

    pub(super) fn device_bias(&self) -> AttentionBias<'_, D> {
        match (self.kind, &self.table) {
            (BiasKind::Relative(buckets), Some(table)) => AttentionBias::Relative { table: &table.device, buckets },
            (BiasKind::Disentangled(buckets, ..), _) => AttentionBias::Disentangled(DisentangledBias {
                position_keys: self.keys.as_ref().map(|k| &k.device),
                position_queries: self.queries.as_ref().map(|q| &q.device),
                buckets,
            }),
            _ => AttentionBias::None,
        }
    }

    fn plain_bias(&self) -> AttentionBias<'_, Reference> {
        match (self.kind, &self.table) {
            (BiasKind::Relative(buckets), Some(table)) => AttentionBias::Relative { table: &table.plain, buckets },
            (BiasKind::Disentangled(buckets, ..), _) => AttentionBias::Disentangled(DisentangledBias {
                position_keys: self.keys.as_ref().map(|k| &k.plain),
                position_queries: self.queries.as_ref().map(|q| &q.plain),
                buckets,
            }),
            _ => AttentionBias::None,
        }
    }
}

pub(super) fn check_attention<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (turn, (mask, kind)) in KINDS.into_iter().enumerate() {
        for (i, packing) in
            test_packings(&mut trial.random, matches!((mask, kind), (AttentionMask::Full, BiasKind::None)))
        {
            let heads = HEADS[(turn + i) % HEADS.len()];
            // Every other case has the layout of models: heads begin at places that allow a device to load many numbers
            // at once. This is independent of the size of the heads.
            compare_attention(trial, mask, kind, heads, &packing, (i + turn / 2) % 2)?;
        }
    }
    as_models_have_it(trial)?;
    // A few queries at the end of very many keys.
    let mut long = Packing::new();
    long.push(8, [(0, 4100)]);
    for (mask, kind) in
        [(AttentionMask::Full, BiasKind::None), (AttentionMask::Causal, BiasKind::Relative(T5_BACK)), KINDS[6]]
    {
        compare_attention(trial, mask, kind, Heads { heads: 2, kv_heads: 1, head_dim: 4 }, &long, 1)?;
    }
    Ok(())
}

/// Heads of 64 and 128 numbers with each of their models' biases, over sequences of several tiles, without gaps; and
/// single steps of models whose heads have keys of their own.
fn as_models_have_it<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    let packing = Packing::of_lengths([130, 3]);
    let mut steps = Packing::new();
    steps.push(1, [(3, 70), (90, 1), (100, 61)]);
    steps.push(1, [(0, 7)]);
    for (mask, kind) in [
        (AttentionMask::Full, BiasKind::None),
        (AttentionMask::Full, BiasKind::Relative(T5)),
        (AttentionMask::Causal, BiasKind::None),
        (AttentionMask::Causal, BiasKind::Relative(T5_BACK)),
        (AttentionMask::Window(20), BiasKind::Relative(T5_BACK)),
    ] {
        for head_dim in [32, 64] {
            compare_attention(trial, mask, kind, Heads { heads: 2, kv_heads: 2, head_dim }, &steps, 1)?;
        }
    }
    for (mask, relative) in [(AttentionMask::Full, T5), (AttentionMask::Causal, T5_BACK)] {
        for (head_dim, kind) in [
            (64, BiasKind::None),
            (64, BiasKind::Relative(relative)),
            (64, BiasKind::Disentangled(DEBERTA, true, true)),
            (128, BiasKind::None),
            (128, BiasKind::Relative(relative)),
        ] {
            compare_attention(trial, mask, kind, Heads { heads: 2, kv_heads: 1, head_dim }, &packing, 0)?;
        }
    }
    Ok(())
}

/// Packings of all uses, numbered. Where positions do not matter, some have more queries than keys.
fn test_packings(random: &mut SeededRandom, anywhere: bool) -> Vec<(usize, Packing)> {
    let mut packings = vec![
        Packing::of_lengths([1]),
        Packing::of_lengths([2, 1, 7]),
        Packing::of_lengths([0, 16, 0, 17, 33]),
        Packing::of_lengths([61, 5, 53]),
        Packing::of_lengths([101]),
    ];
    // A prefix of 20 rows and of 9 more, with leaves; key rows are those of the queries.
    let mut tree = Packing::of_lengths([20]);
    tree.push(9, [(0, 20), (20, 9)]);
    for _ in 0..3 {
        let start = tree.rows() as u32;
        tree.push(6, [(0, 20), (20, 9), (start, 6)]);
    }
    packings.push(tree);
    // Steps of generation: one query, keys in scattered pieces.
    let mut steps = Packing::new();
    for _ in 0..5 {
        let pieces = (0..1 + random.below(4)).map(|_| (random.below(100) as u32, 1 + random.below(30) as u32));
        steps.push(1, pieces.collect::<Vec<_>>());
    }
    packings.push(steps);
    if anywhere {
        // Many sequences over one encoded prompt, and one over nothing.
        let mut cross = Packing::new();
        for length in [3, 1, 50, 8] {
            cross.push(length, [(4, 30)]);
        }
        cross.push(2, [(0, 5)]);
        cross.push(2, []);
        // Steps of an encoder-decoder, over a prompt and over nothing.
        cross.push(1, [(7, 21)]);
        cross.push(1, []);
        packings.push(cross);
    }
    packings.into_iter().enumerate().collect()
}

/// One tensor holds queries, keys and values, with `gap` columns before them and between.
fn compare_attention<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    mask: AttentionMask,
    kind: BiasKind,
    heads: Heads,
    packing: &Packing,
    gap: usize,
) -> Result<(), ConformanceFailure> {
    let Heads { heads: count, kv_heads, head_dim } = heads;
    let (lengths, spans) = (&packing.cu_seqlens, &packing.spans);
    let case = format!("{mask:?}, {kind:?}, {heads:?}, lengths {lengths:?}, spans {spans:?}, gaps of {gap}");
    let key_rows = packing.spans.iter().map(|(start, rows)| (start + rows) as usize).max().unwrap_or(1);
    let (key_start, value_start) = (2 * gap + count * head_dim, 3 * gap + (count + kv_heads) * head_dim);
    let fused = trial.random_tensor(packing.rows().max(key_rows), value_start + kv_heads * head_dim)?;
    let biases = PairedBias::random(trial, kind, heads)?;
    let scale = (head_dim as f32).powf(-0.5);
    let at = |start| TensorColumns { tensor: &fused.device, start };
    let attention = Attention { heads: count, kv_heads, head_dim, scale, mask, bias: biases.device_bias(), packing };
    let device = trial.device;
    let found = trial.with_case(&case, device.attention(at(gap), at(key_start), at(value_start), &attention))?;
    let at = |start| TensorColumns { tensor: &fused.plain, start };
    let attention = Attention { heads: count, kv_heads, head_dim, scale, mask, bias: biases.plain_bias(), packing };
    let expected = Reference.attention(at(gap), at(key_start), at(value_start), &attention);
    let expected = trial.with_case(&case, expected)?;
    trial.compare_tensors(&case, &found, &expected)
}
