//! Attention against the reference: masks, biases, shared heads, spans of all uses.

use super::Failure;
use super::trial::{Both, Random, Trial};
use crate::reference::Plain;
use crate::{Attention, Bias, Buckets, Columns, Device, Disentangled, Layout, Mask, Packing, Reference};

/// Heads, heads of keys and values, numbers per head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
}

/// The kind of bias.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    None,
    Relative(Buckets),
    /// With keys of positions, with queries of positions.
    Disentangled(Buckets, bool, bool),
}

/// The bias itself, on the device and for the reference.
pub(super) struct Biases<D: Device> {
    kind: Kind,
    table: Option<Both<D::Matrix, Plain>>,
    keys: Option<Both<D::Tensor, Plain>>,
    queries: Option<Both<D::Tensor, Plain>>,
}

const T5: Buckets = Buckets::T5 { count: 32, max_distance: 128, bidirectional: true };
const T5_BACK: Buckets = Buckets::T5 { count: 32, max_distance: 128, bidirectional: false };
/// Small enough that short sequences reach all of it.
const LOG: Buckets = Buckets::Log { span: 12, max_position: 40 };
const DEBERTA: Buckets = Buckets::Log { span: 256, max_position: 512 };
const CLAMPED: Buckets = Buckets::Clamped { span: 9 };

/// Masks and biases of real models, and some others.
pub(super) const KINDS: [(Mask, Kind); 12] = [
    (Mask::Full, Kind::None),
    (Mask::Causal, Kind::None),
    (Mask::Window(1), Kind::None),
    (Mask::Window(20), Kind::None),
    (Mask::Full, Kind::Relative(T5)),
    (Mask::Causal, Kind::Relative(T5_BACK)),
    (Mask::Full, Kind::Disentangled(LOG, true, true)),
    (Mask::Full, Kind::Disentangled(DEBERTA, true, true)),
    (Mask::Full, Kind::Disentangled(CLAMPED, true, false)),
    (Mask::Full, Kind::Disentangled(LOG, false, true)),
    (Mask::Causal, Kind::Disentangled(CLAMPED, true, true)),
    (Mask::Window(7), Kind::Disentangled(T5, true, true)),
];

const HEADS: [Heads; 9] = [
    Heads { heads: 1, kv_heads: 1, head_dim: 1 },
    Heads { heads: 2, kv_heads: 2, head_dim: 8 },
    Heads { heads: 3, kv_heads: 1, head_dim: 5 },
    Heads { heads: 2, kv_heads: 2, head_dim: 64 },
    Heads { heads: 4, kv_heads: 2, head_dim: 33 },
    Heads { heads: 2, kv_heads: 1, head_dim: 80 },
    Heads { heads: 1, kv_heads: 1, head_dim: 96 },
    Heads { heads: 2, kv_heads: 2, head_dim: 128 },
    Heads { heads: 1, kv_heads: 1, head_dim: 256 },
];

impl<D: Device> Biases<D> {
    pub(super) fn random(trial: &mut Trial<'_, D>, kind: Kind, heads: Heads) -> Result<Self, Failure> {
        let mut biases = Self { kind, table: None, keys: None, queries: None };
        match kind {
            Kind::None => {}
            Kind::Relative(buckets) => {
                biases.table = Some(trial.matrix(buckets.rows(), heads.heads, Layout::OutIn, 2.0)?);
            }
            Kind::Disentangled(buckets, keys, queries) => {
                let mut positions =
                    |there: bool| there.then(|| trial.tensor(buckets.rows(), heads.heads * heads.head_dim)).transpose();
                (biases.keys, biases.queries) = (positions(keys)?, positions(queries)?);
            }
        }
        Ok(biases)
    }

    pub(super) fn device(&self) -> Bias<'_, D> {
        match (self.kind, &self.table) {
            (Kind::Relative(buckets), Some(table)) => Bias::Relative { table: &table.device, buckets },
            (Kind::Disentangled(buckets, ..), _) => Bias::Disentangled(Disentangled {
                position_keys: self.keys.as_ref().map(|k| &k.device),
                position_queries: self.queries.as_ref().map(|q| &q.device),
                buckets,
            }),
            _ => Bias::None,
        }
    }

    fn plain(&self) -> Bias<'_, Reference> {
        match (self.kind, &self.table) {
            (Kind::Relative(buckets), Some(table)) => Bias::Relative { table: &table.plain, buckets },
            (Kind::Disentangled(buckets, ..), _) => Bias::Disentangled(Disentangled {
                position_keys: self.keys.as_ref().map(|k| &k.plain),
                position_queries: self.queries.as_ref().map(|q| &q.plain),
                buckets,
            }),
            _ => Bias::None,
        }
    }
}

pub(super) fn attention<D: Device>(trial: &mut Trial<'_, D>) -> Result<(), Failure> {
    for (turn, (mask, kind)) in KINDS.into_iter().enumerate() {
        for (i, packing) in packings(&mut trial.random, matches!((mask, kind), (Mask::Full, Kind::None))) {
            let heads = HEADS[(turn + i) % HEADS.len()];
            // Every other case has the layout of models: heads begin at places that allow a device to load many numbers
            // at once. This is independent of the size of the heads.
            compare(trial, mask, kind, heads, &packing, (i + turn / 2) % 2)?;
        }
    }
    as_models_have_it(trial)?;
    // A few queries at the end of very many keys.
    let mut long = Packing::new();
    long.push(8, [(0, 4100)]);
    for (mask, kind) in [(Mask::Full, Kind::None), (Mask::Causal, Kind::Relative(T5_BACK)), KINDS[6]] {
        compare(trial, mask, kind, Heads { heads: 2, kv_heads: 1, head_dim: 4 }, &long, 1)?;
    }
    Ok(())
}

/// Heads of 64 and 128 numbers with each of their models' biases, over sequences of several tiles, without gaps.
fn as_models_have_it<D: Device>(trial: &mut Trial<'_, D>) -> Result<(), Failure> {
    let packing = Packing::of_lengths([130, 3]);
    for (mask, relative) in [(Mask::Full, T5), (Mask::Causal, T5_BACK)] {
        for (head_dim, kind) in [
            (64, Kind::None),
            (64, Kind::Relative(relative)),
            (64, Kind::Disentangled(DEBERTA, true, true)),
            (128, Kind::None),
            (128, Kind::Relative(relative)),
        ] {
            compare(trial, mask, kind, Heads { heads: 2, kv_heads: 1, head_dim }, &packing, 0)?;
        }
    }
    Ok(())
}

/// Packings of all uses, numbered. Where positions do not matter, some have more queries than keys.
fn packings(random: &mut Random, anywhere: bool) -> Vec<(usize, Packing)> {
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
        packings.push(cross);
    }
    packings.into_iter().enumerate().collect()
}

/// One tensor holds queries, keys and values, with `gap` columns before them and between.
fn compare<D: Device>(
    trial: &mut Trial<'_, D>,
    mask: Mask,
    kind: Kind,
    heads: Heads,
    packing: &Packing,
    gap: usize,
) -> Result<(), Failure> {
    let Heads { heads: count, kv_heads, head_dim } = heads;
    let (lengths, spans) = (&packing.cu_seqlens, &packing.spans);
    let case = format!("{mask:?}, {kind:?}, {heads:?}, lengths {lengths:?}, spans {spans:?}, gaps of {gap}");
    let key_rows = packing.spans.iter().map(|(start, rows)| (start + rows) as usize).max().unwrap_or(1);
    let (key_start, value_start) = (2 * gap + count * head_dim, 3 * gap + (count + kv_heads) * head_dim);
    let fused = trial.tensor(packing.rows().max(key_rows), value_start + kv_heads * head_dim)?;
    let biases = Biases::random(trial, kind, heads)?;
    let scale = (head_dim as f32).powf(-0.5);
    let at = |start| Columns { tensor: &fused.device, start };
    let attention = Attention { heads: count, kv_heads, head_dim, scale, mask, bias: biases.device(), packing };
    let device = trial.device;
    let found = trial.done(&case, device.attention(at(gap), at(key_start), at(value_start), &attention))?;
    let at = |start| Columns { tensor: &fused.plain, start };
    let attention = Attention { heads: count, kv_heads, head_dim, scale, mask, bias: biases.plain(), packing };
    let expected = Reference.attention(at(gap), at(key_start), at(value_start), &attention);
    let expected = trial.done(&case, expected)?;
    trial.compare(&case, &found, &expected)
}
