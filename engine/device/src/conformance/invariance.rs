//! The same rows in other batches: alone, in another order, cut into other spans. Not a bit may differ.

use super::attention::{BiasKind, Heads, KINDS, PairedBias, T5_BACK};
use super::next_tokens::some_rules;
use super::products::{EPILOGUES, LAYERS, Parts};
use super::rows::{ACTIVATIONS, angle_table, sequence_ends};
use super::trial::{OperationTrial, SeededRandom};
use super::{ConformanceFailure, MANY_ROWS, Operation};
use crate::{
    Attention, AttentionMask, Device, DeviceError, Epilogue, NextToken, Norm, Packing, RotaryAngles, RotaryStyle,
    TableLookup, TensorColumns, WeightLayout,
};

/// Checks the operation of a trial.
pub(super) fn in_other_batches<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    match trial.check.operation {
        Operation::Embed => embed_invariance(trial),
        Operation::Norm => norm_invariance(trial),
        Operation::NormGroups => norm_groups_invariance(trial),
        Operation::Linear => linear_invariance(trial),
        Operation::Project => project_invariance(trial),
        Operation::Gate => gate_invariance(trial),
        Operation::Rotate => rotate_invariance(trial),
        Operation::Attention => attention_invariance(trial),
        Operation::Gather => gather_invariance(trial),
        Operation::Scatter => scatter_invariance(trial),
        Operation::Average => average_invariance(trial),
        Operation::LogProbs => log_probs_invariance(trial),
        Operation::NextTokens => next_tokens_invariance(trial),
    }
}

/// Rows of activations, in their first batch.
struct ActivationRows {
    rows: usize,
    columns: usize,
    values: Vec<f32>,
}

impl ActivationRows {
    fn random(random: &mut SeededRandom, rows: usize, columns: usize) -> Self {
        Self { rows, columns, values: random.numbers(rows * columns, 1.7) }
    }

    /// Some of the rows, in that order.
    fn select_rows(&self, rows: &[usize]) -> Vec<f32> {
        rows.iter().flat_map(|row| &self.values[row * self.columns..][..self.columns]).copied().collect()
    }
}

/// Selections of `rows` rows: single ones, a few, all in another order, all twice.
fn row_selections(random: &mut SeededRandom, rows: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![0], vec![rows - 1], vec![random.below(rows)]];
    for size in [2, 5, 6, 7, 13, 16] {
        all.push(random.shuffled(rows).into_iter().take(size).collect());
    }
    all.push(random.shuffled(rows));
    all.push((0..rows).chain(random.shuffled(rows)).collect());
    all
}

/// Runs `operation(device, rows, their numbers, which rows)` on all selections; it returns equally many numbers for
/// each row.
fn over_rows<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    case: &str,
    rows: usize,
    columns: usize,
    operation: impl Fn(&D, &D::Tensor, &[usize]) -> Result<Vec<f32>, DeviceError>,
) -> Result<(), ConformanceFailure> {
    let selections = row_selections(&mut trial.random, rows);
    over_selections(trial, case, (rows, columns), &selections, operation)
}

/// As [`over_rows`], on these selections.
fn over_selections<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    case: &str,
    (rows, columns): (usize, usize),
    selections: &[Vec<usize>],
    operation: impl Fn(&D, &D::Tensor, &[usize]) -> Result<Vec<f32>, DeviceError>,
) -> Result<(), ConformanceFailure> {
    let activations = ActivationRows::random(&mut trial.random, rows, columns);
    let all_rows = (0..activations.rows).collect::<Vec<_>>();
    let device = trial.device;
    let x = trial.upload(rows, columns, &activations.values)?;
    let together = trial.with_case(case, operation(device, &x, &all_rows))?;
    let width = together.len() / rows;
    for chosen in selections {
        let case = match chosen.len() {
            ..1000 => format!("{case}, rows {chosen:?}"),
            many => format!("{case}, {many} rows from {}", chosen[0]),
        };
        let x = trial.upload(chosen.len(), columns, &activations.select_rows(chosen))?;
        let apart = trial.with_case(&case, operation(device, &x, chosen))?;
        let expected = chosen.iter().flat_map(|row| &together[row * width..][..width]).copied().collect::<Vec<_>>();
        trial.compare_bits(&case, &apart, &expected)?;
    }
    Ok(())
}

fn embed_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for columns in [7, 64, 300] {
        let tables = [
            trial.random_matrix(40, columns, WeightLayout::OutIn, 1.0)?,
            trial.random_matrix(12, columns, WeightLayout::OutIn, 1.0)?,
        ];
        let ids = (0..40).map(|_| trial.random.below(40) as u32).collect::<Vec<_>>();
        over_rows(trial, &format!("{columns} columns"), 40, 1, |device, _, rows| {
            let chosen = rows.iter().map(|row| ids[*row]).collect::<Vec<_>>();
            let others = chosen.iter().map(|id| id % 12).collect::<Vec<_>>();
            let lookups = [
                TableLookup { table: &tables[0].device, ids: &chosen },
                TableLookup { table: &tables[1].device, ids: &others },
            ];
            device.embed(&lookups, 1.5).and_then(|x| device.read_tensor(&x))
        })?;
    }
    Ok(())
}

fn norm_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for columns in [5, 64, 777] {
        let (weight, bias) = (trial.random_vector(columns, 1.0)?, trial.random_vector(columns, 0.0)?);
        let (weight, bias) = (&weight.device, &bias.device);
        for norm in [Norm::Layer { weight, bias, eps: 1e-5 }, Norm::Rms { weight, eps: 1e-6 }] {
            over_rows(trial, &format!("{columns} columns"), 40, columns, |device, x, _| {
                device.norm(x, norm).and_then(|x| device.read_tensor(&x))
            })?;
        }
    }
    Ok(())
}

fn norm_groups_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    let weight = trial.random_vector(48, 1.0)?;
    over_rows(trial, "3 groups of 48", 40, 160, |device, x, _| {
        let mut x = device.upload(device.shape(x).0, 160, &device.read_tensor(x)?)?;
        device.norm_groups(&mut x, 5, 3, 48, Norm::Rms { weight: &weight.device, eps: 1e-6 })?;
        device.read_tensor(&x)
    })
}

fn linear_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (into, out) in [(5, 3), (64, 48), (100, 97), (384, 130)] {
        for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
            let activation = trial.random.pick(&ACTIVATIONS);
            let weight = trial.random_matrix(out, into, layout, (3.0 / into as f32).sqrt())?;
            let bias = trial.random_vector(out, 0.0)?;
            let epilogue = Epilogue { scale: 0.5, ..Epilogue::bias(Some(&bias.device)) }.activation(activation);
            over_rows(trial, &format!("{into} x {out}, {layout:?}, {activation:?}"), 150, into, |device, x, _| {
                device.linear(x, &weight.device, epilogue).and_then(|x| device.read_tensor(&x))
            })?;
        }
    }
    // Every epilogue at one layer; at the slower one, only the epilogues of its models.
    for ((into, out), epilogues) in LAYERS.into_iter().zip([&EPILOGUES[4..6], &EPILOGUES[..]]) {
        let weight = trial.random_matrix(out, into, WeightLayout::OutIn, (3.0 / into as f32).sqrt())?;
        let bias = trial.random_vector(out, 0.0)?;
        for parts in epilogues {
            layer_invariance(trial, (into, out), &weight.device, &bias.device, *parts)?;
        }
    }
    Ok(())
}

/// The rows of a large batch in smaller ones: a device may use another product for few rows.
fn layer_invariance<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    (into, out): (usize, usize),
    weight: &D::Matrix,
    bias: &D::Vector,
    parts: Parts,
) -> Result<(), ConformanceFailure> {
    let rows = 300;
    let residual = ActivationRows::random(&mut trial.random, rows, out);
    let selections = [1, 7, 64].map(|size| trial.random.shuffled(rows).into_iter().take(size).collect::<Vec<_>>());
    over_selections(trial, &format!("{into} x {out}, {parts:?}"), (rows, into), &selections, |device, x, rows| {
        let residual =
            parts.residual.then(|| device.upload(rows.len(), out, &residual.select_rows(rows))).transpose()?;
        let Parts { scale, activation, .. } = parts;
        let epilogue = Epilogue { scale, bias: parts.bias.then_some(bias), activation, residual: residual.as_ref() };
        device.linear(x, weight, epilogue).and_then(|x| device.read_tensor(&x))
    })
}

fn project_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (into, out) in [(5, 3), (64, 48), (100, 97), (768, 2), (384, 130)] {
        let layout = trial.random.pick(&[WeightLayout::OutIn, WeightLayout::InOut]);
        let weight = trial.random_matrix(out, into, layout, (3.0 / into as f32).sqrt())?;
        let bias = trial.random_vector(out, 0.0)?;
        for (bias, scale) in [(None, 1.0), (Some(&bias.device), 0.5)] {
            let case = format!("{into} x {out}, {layout:?}, times {scale}, bias: {}", bias.is_some());
            over_rows(trial, &case, 150, into, |device, x, _| device.project(x, &weight.device, bias, scale))?;
        }
    }
    Ok(())
}

fn gate_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for activation in ACTIVATIONS {
        over_rows(trial, &format!("{activation:?}"), 40, 2 * 77, |device, x, _| {
            device.gate(x, activation).and_then(|x| device.read_tensor(&x))
        })?;
    }
    Ok(())
}

fn rotate_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for style in [RotaryStyle::Half, RotaryStyle::Interleaved] {
        let table =
            trial.with_case("angles", trial.device.load_matrix(&[angle_table(trial, 40, 24)], WeightLayout::OutIn))?;
        over_rows(trial, &format!("{style:?}"), 40, 3 * 64, |device, x, rows| {
            let positions = rows.iter().map(|row| *row as u32).collect::<Vec<_>>();
            let mut x = device.upload(rows.len(), 3 * 64, &device.read_tensor(x)?)?;
            device.rotate(&mut x, 64, 2, 64, &positions, &RotaryAngles { table: &table, pairs: 24, style })?;
            device.read_tensor(&x)
        })?;
    }
    Ok(())
}

fn gather_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    over_rows(trial, "its own rows", 40, 33, |device, x, rows| {
        let all = (0..rows.len() as u32).collect::<Vec<_>>();
        device.gather(x, &all).and_then(|x| device.read_tensor(&x))
    })
}

fn scatter_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    over_rows(trial, "its own rows", 40, 33, |device, x, rows| {
        let all = (0..rows.len() as u32).collect::<Vec<_>>();
        let mut into = device.reserve(rows.len(), 33)?;
        device.scatter(&mut into, &all, TensorColumns { tensor: x, start: 0 })?;
        device.read_tensor(&into)
    })
}

/// The batches for log-probabilities.
enum BatchSizes {
    /// [`row_selections`] of 60 rows.
    Small,
    /// [`MANY_ROWS`] in one batch and in two.
    Large,
}

fn log_probs_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (into, vocabulary, batches) in [
        (31, 200, BatchSizes::Small),
        (64, 3001, BatchSizes::Small),
        (8, 8203, BatchSizes::Small),
        (8, 37, BatchSizes::Large),
    ] {
        let (rows, selections) = match batches {
            BatchSizes::Small => (60, row_selections(&mut trial.random, 60)),
            BatchSizes::Large => {
                let half = MANY_ROWS / 2;
                (MANY_ROWS, vec![(0..half).collect(), (half..MANY_ROWS).collect()])
            }
        };
        let layout = trial.random.pick(&[WeightLayout::OutIn, WeightLayout::InOut]);
        let weight = trial.random_matrix(vocabulary, into, layout, 0.5)?;
        let targets = (0..rows).map(|_| trial.random.below(vocabulary) as u32).collect::<Vec<_>>();
        let temperatures = [1.0, 0.7, 1.4];
        let case = format!("{into} x {vocabulary}");
        over_selections(trial, &case, (rows, into), &selections, |device, x, rows| {
            let targets = rows.iter().map(|row| targets[*row]).collect::<Vec<_>>();
            let found = device.log_probs(x, &weight.device, None, 1.0, &targets, &temperatures)?;
            let sums = found.log_sum_exps.chunks(temperatures.len());
            Ok(found
                .target_logits
                .iter()
                .zip(sums)
                .flat_map(|(t, sums)| [*t].into_iter().chain(sums.iter().copied()))
                .collect())
        })?;
    }
    // A temperature's result does not depend on the others.
    let weight = trial.random_matrix(500, 20, WeightLayout::OutIn, 0.5)?;
    let x = trial.random_tensor(7, 20)?;
    let device = trial.device;
    let sums = |temperatures: &[f32]| {
        let found = device.log_probs(&x.device, &weight.device, None, 1.0, &[3; 7], temperatures);
        trial.with_case("grids of temperatures", found).map(|found| found.log_sum_exps)
    };
    let (one, three) = (sums(&[1.4])?, sums(&[0.5, 1.4, 1.0])?);
    let same = three.chunks(3).map(|row| row[1]).collect::<Vec<_>>();
    trial.compare_bits("grids of temperatures", &one, &same)
}

/// Rows keep their rules in any batch.
fn next_tokens_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (into, vocabulary) in [(31, 200), (8, 8203)] {
        let weight = trial.random_matrix(vocabulary, into, WeightLayout::OutIn, 1.0)?;
        let rules = some_rules(&mut trial.random, vocabulary, 40);
        over_rows(trial, &format!("{into} x {vocabulary}"), rules.len(), into, |device, x, rows| {
            let rules: Vec<_> = rows.iter().map(|row| rules[*row]).collect();
            let found = device.next_tokens(x, &weight.device, None, 1.0, &rules)?;
            let numbers =
                |token: NextToken| token.map_or([f32::NAN; 2], |token| [f32::from_bits(token.id), token.log_prob]);
            Ok(found.into_iter().flat_map(numbers).collect())
        })?;
    }
    Ok(())
}

fn average_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    let lengths = [1, 40, 3, 17, 100, 8];
    let activations = ActivationRows::random(&mut trial.random, lengths.iter().sum(), 70);
    let starts = sequence_ends(&lengths);
    let device = trial.device;
    let x = trial.upload(activations.rows, activations.columns, &activations.values)?;
    let together = trial.with_case("all", device.average(&x, &starts))?;
    let together = trial.read_tensor("all", &together)?;
    for chosen in row_selections(&mut trial.random, lengths.len()) {
        let case = format!("sequences {chosen:?}");
        let rows = chosen.iter().flat_map(|s| starts[*s] as usize..starts[s + 1] as usize).collect::<Vec<_>>();
        let x = trial.upload(rows.len(), 70, &activations.select_rows(&rows))?;
        let lengths = chosen.iter().map(|s| lengths[*s]).collect::<Vec<_>>();
        let apart = trial.with_case(&case, device.average(&x, &sequence_ends(&lengths)))?;
        let apart = trial.read_tensor(&case, &apart)?;
        let expected = chosen.iter().flat_map(|s| &together[s * 70..][..70]).copied().collect::<Vec<_>>();
        trial.compare_bits(&case, &apart, &expected)?;
    }
    Ok(())
}

/// Sequences of a batch, for attention.
struct AttentionBatch<'a, D: Device> {
    heads: Heads,
    mask: AttentionMask,
    biases: &'a PairedBias<D>,
    /// Rows `[queries | keys | values]`, one sequence after the other.
    activations: ActivationRows,
    starts: Vec<u32>,
}

impl<D: Device> AttentionBatch<'_, D> {
    fn row_width(&self) -> usize {
        self.heads.heads * self.heads.head_dim
    }

    /// Attention of queries in rows `queries`, over keys in rows `keys`.
    fn attend_queries(
        &self,
        trial: &OperationTrial<'_, D>,
        case: &str,
        queries: &[usize],
        keys: &[usize],
        packing: &Packing,
    ) -> Result<Vec<f32>, ConformanceFailure> {
        let Heads { heads, kv_heads, head_dim } = self.heads;
        let q = trial.upload(queries.len(), self.activations.columns, &self.activations.select_rows(queries))?;
        let kv = trial.upload(keys.len(), self.activations.columns, &self.activations.select_rows(keys))?;
        let (scale, mask) = ((head_dim as f32).powf(-0.5), self.mask);
        let attention = Attention { heads, kv_heads, head_dim, scale, mask, bias: self.biases.device_bias(), packing };
        let at = |tensor, start| TensorColumns { tensor, start };
        let value_start = (heads + kv_heads) * head_dim;
        let device = trial.device;
        let out = device.attention(at(&q, 0), at(&kv, heads * head_dim), at(&kv, value_start), &attention);
        trial.read_tensor(case, &trial.with_case(case, out)?)
    }

    fn sequence_rows(&self, sequence: usize) -> std::ops::Range<usize> {
        self.starts[sequence] as usize..self.starts[sequence + 1] as usize
    }
}

fn attention_invariance<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    let heads = [
        Heads { heads: 2, kv_heads: 2, head_dim: 64 },
        Heads { heads: 4, kv_heads: 2, head_dim: 24 },
        Heads { heads: 3, kv_heads: 1, head_dim: 7 },
    ];
    let turns = KINDS.into_iter().enumerate().map(|(turn, (mask, kind))| (mask, kind, heads[turn % heads.len()]));
    // Models whose heads have keys of their own: a step reads them otherwise than a prompt.
    let own_keys = Heads { heads: 2, kv_heads: 2, head_dim: 32 };
    let steps = [BiasKind::None, BiasKind::Relative(T5_BACK)].map(|kind| (AttentionMask::Causal, kind, own_keys));
    for (mask, kind, heads) in turns.chain(steps) {
        let biases = PairedBias::random(trial, kind, heads)?;
        let lengths = [37, 1, 64, 6, 75];
        let columns = (heads.heads + 2 * heads.kv_heads) * heads.head_dim;
        let activations = ActivationRows::random(&mut trial.random, lengths.iter().sum(), columns);
        let batch = AttentionBatch { heads, mask, biases: &biases, activations, starts: sequence_ends(&lengths) };
        let case = format!("{mask:?}, {kind:?}, {heads:?}");
        let all = (0..batch.activations.rows).collect::<Vec<_>>();
        let together = batch.attend_queries(trial, &case, &all, &all, &Packing::of_lengths(lengths))?;
        sequences_in_other_batches(trial, &case, &batch, &lengths, &together)?;
        keys_in_pieces(trial, &case, &batch, &together)?;
        if mask != AttentionMask::Full || matches!(kind, BiasKind::None) {
            one_query_at_a_time(trial, &case, &batch, &together)?;
        }
        if mask != AttentionMask::Full {
            prefix_apart(trial, &case, &batch, &together)?;
        }
    }
    very_many_keys(trial)
}

/// Queries at the end of very many keys: together, and one at a time.
fn very_many_keys<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    let heads = Heads { heads: 2, kv_heads: 1, head_dim: 4 };
    let biases = PairedBias::random(trial, BiasKind::None, heads)?;
    let (keys, queries) = (4110, 11);
    let activations = ActivationRows::random(&mut trial.random, keys, 4 * heads.head_dim);
    let batch = AttentionBatch {
        heads,
        mask: AttentionMask::Causal,
        biases: &biases,
        activations,
        starts: sequence_ends(&[keys]),
    };
    let (all, last) = ((0..keys).collect::<Vec<_>>(), (keys - queries..keys).collect::<Vec<_>>());
    let case = format!("{queries} queries at the end of {keys} keys");
    let (mut together, mut alone) = (Packing::new(), Packing::new());
    together.push(queries, [(0, keys as u32)]);
    for row in &last {
        alone.push(1, [(0, *row as u32 + 1)]);
    }
    let together = batch.attend_queries(trial, &case, &last, &all, &together)?;
    let alone = batch.attend_queries(trial, &case, &last, &all, &alone)?;
    trial.compare_bits(&case, &alone, &together)
}

fn sequences_in_other_batches<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    case: &str,
    batch: &AttentionBatch<'_, D>,
    lengths: &[usize],
    together: &[f32],
) -> Result<(), ConformanceFailure> {
    let width = batch.row_width();
    let few = row_selections(&mut trial.random, lengths.len()).into_iter().skip(1).step_by(3);
    for chosen in few {
        let case = format!("{case}, sequences {chosen:?}");
        let rows = chosen.iter().flat_map(|s| batch.sequence_rows(*s)).collect::<Vec<_>>();
        let packing = Packing::of_lengths(chosen.iter().map(|s| lengths[*s]));
        let apart = batch.attend_queries(trial, &case, &rows, &rows, &packing)?;
        let expected = rows.iter().flat_map(|row| &together[row * width..][..width]).copied().collect::<Vec<_>>();
        trial.compare_bits(&case, &apart, &expected)?;
    }
    Ok(())
}

/// Keys in scattered pieces.
fn keys_in_pieces<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    case: &str,
    batch: &AttentionBatch<'_, D>,
    together: &[f32],
) -> Result<(), ConformanceFailure> {
    let case = format!("{case}, keys in pieces");
    let all = (0..batch.activations.rows).collect::<Vec<_>>();
    // Pieces of at most 9 rows, shuffled, and the new place of each key row.
    let pieces = all.chunks(9).collect::<Vec<_>>();
    let order = trial.random.shuffled(pieces.len());
    let keys = order.iter().flat_map(|piece| pieces[*piece]).copied().collect::<Vec<_>>();
    let mut place = vec![0; keys.len()];
    for (at, row) in keys.iter().enumerate() {
        place[*row] = at as u32;
    }
    let mut packing = Packing::new();
    for sequence in 0..batch.starts.len() - 1 {
        let rows = batch.sequence_rows(sequence);
        let mut spans: Vec<(u32, u32)> = Vec::new();
        for row in rows.clone() {
            match spans.last_mut() {
                Some((start, count)) if *start + *count == place[row] => *count += 1,
                _ => spans.push((place[row], 1)),
            }
        }
        packing.push(rows.len(), spans);
    }
    let apart = batch.attend_queries(trial, &case, &all, &keys, &packing)?;
    trial.compare_bits(&case, &apart, together)
}

/// As in generation: each query alone, over the keys up to it (or over all, if the mask allows all).
fn one_query_at_a_time<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    case: &str,
    batch: &AttentionBatch<'_, D>,
    together: &[f32],
) -> Result<(), ConformanceFailure> {
    let case = format!("{case}, one query at a time");
    let all = (0..batch.activations.rows).collect::<Vec<_>>();
    let mut packing = Packing::new();
    for rows in (0..batch.starts.len() - 1).map(|sequence| batch.sequence_rows(sequence)) {
        for row in rows.clone() {
            let end = if batch.mask == AttentionMask::Full { rows.end } else { row + 1 };
            packing.push(1, [(rows.start as u32, (end - rows.start) as u32)]);
        }
    }
    let apart = batch.attend_queries(trial, &case, &all, &all, &packing)?;
    trial.compare_bits(&case, &apart, together)
}

/// As in a tree: the first queries of each sequence, then the others over two spans.
fn prefix_apart<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    case: &str,
    batch: &AttentionBatch<'_, D>,
    together: &[f32],
) -> Result<(), ConformanceFailure> {
    let case = format!("{case}, prefixes apart");
    let all = (0..batch.activations.rows).collect::<Vec<_>>();
    let mut packing = Packing::new();
    for rows in (0..batch.starts.len() - 1).map(|sequence| batch.sequence_rows(sequence)) {
        let first = 1 + trial.random.below(rows.len());
        let (start, prefix) = (rows.start as u32, first as u32);
        packing.push(first, [(start, prefix)]);
        packing.push(rows.len() - first, [(start, prefix), (start + prefix, (rows.len() - first) as u32)]);
    }
    let apart = batch.attend_queries(trial, &case, &all, &all, &packing)?;
    trial.compare_bits(&case, &apart, together)
}
