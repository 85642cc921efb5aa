//! Operations on rows against the reference.

use super::ConformanceFailure;
use super::trial::{OperationTrial, PairedValue};
use crate::reference::PlainMatrix;
use crate::{
    Activation, Device, HostTensor, Norm, Reference, RotaryAngles, RotaryStyle, TableLookup, TensorColumns,
    WeightLayout,
};

/// Rows and columns: odd ones, single ones, and those of real models.
pub(super) const SHAPES: [(usize, usize); 9] =
    [(1, 1), (1, 7), (2, 8), (3, 16), (5, 31), (9, 64), (17, 100), (33, 129), (70, 768)];

/// All activations.
pub(super) const ACTIVATIONS: [Activation; 6] = [
    Activation::Identity,
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
    Activation::Tanh,
];

pub(super) fn check_embed<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (rows, columns) in SHAPES {
        for tables in 1..=3 {
            let scale = trial.random.pick(&[1.0, 0.5, (columns as f32).sqrt()]);
            let mut both = Vec::new();
            for _ in 0..tables {
                let entries = 1 + trial.random.below(50);
                let layout = trial.random.pick(&[WeightLayout::OutIn, WeightLayout::InOut]);
                let ids = (0..rows).map(|_| trial.random.below(entries) as u32).collect::<Vec<_>>();
                both.push((trial.random_matrix(entries, columns, layout, 1.0)?, ids));
            }
            let case = format!("{rows} rows of {tables} tables of {columns} columns, times {scale}");
            let lookups = both.iter().map(|(t, ids)| TableLookup { table: &t.device, ids }).collect::<Vec<_>>();
            let found = trial.with_case(&case, trial.device.embed(&lookups, scale))?;
            let lookups = both.iter().map(|(t, ids)| TableLookup { table: &t.plain, ids }).collect::<Vec<_>>();
            let expected = trial.with_case(&case, Reference.embed(&lookups, scale))?;
            trial.compare_tensors(&case, &found, &expected)?;
        }
    }
    Ok(())
}

/// Rows and columns as wide as those of real models, and one more vector of sixteen bytes than a power of two.
const WIDE: [(usize, usize); 5] = [(9, 1024), (6, 1600), (3, 2048), (2, 2056), (2, 5120)];

/// Weights of a normalisation.
struct PairedNorm<D: Device> {
    weight: PairedValue<D::Vector, Vec<f32>>,
    bias: Option<PairedValue<D::Vector, Vec<f32>>>,
    eps: f32,
}

impl<D: Device> PairedNorm<D> {
    fn random(trial: &mut OperationTrial<'_, D>, width: usize, layer: bool) -> Result<Self, ConformanceFailure> {
        let eps = trial.random.pick(&[1e-12, 1e-6, 1e-5]);
        let bias = if layer { Some(trial.random_vector(width, 0.0)?) } else { None };
        Ok(Self { weight: trial.random_vector(width, 1.0)?, bias, eps })
    }

    fn device_norm(&self) -> Norm<'_, D> {
        let (weight, eps) = (&self.weight.device, self.eps);
        match &self.bias {
            Some(bias) => Norm::Layer { weight, bias: &bias.device, eps },
            None => Norm::Rms { weight, eps },
        }
    }

    fn plain_norm(&self) -> Norm<'_, Reference> {
        let (weight, eps) = (&self.weight.plain, self.eps);
        match &self.bias {
            Some(bias) => Norm::Layer { weight, bias: &bias.plain, eps },
            None => Norm::Rms { weight, eps },
        }
    }
}

pub(super) fn check_norm<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (rows, columns) in SHAPES.into_iter().chain(WIDE) {
        // One number has no variance: its layer norm is noise over noise.
        for layer in [false, true].into_iter().filter(|layer| !layer || columns > 1) {
            let x = trial.random_tensor(rows, columns)?;
            let weights = PairedNorm::random(trial, columns, layer)?;
            let case = format!("{rows} rows of {columns}, layer: {layer}, eps {}", weights.eps);
            let found = trial.with_case(&case, trial.device.norm(&x.device, weights.device_norm()))?;
            let expected = trial.with_case(&case, Reference.norm(&x.plain, weights.plain_norm()))?;
            trial.compare_tensors(&case, &found, &expected)?;
        }
    }
    Ok(())
}

pub(super) fn check_norm_groups<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (rows, start, groups, width, after) in
        [(1, 0, 1, 8, 0), (3, 5, 2, 16, 3), (7, 0, 4, 31, 1), (12, 64, 3, 64, 64), (2, 1, 1, 128, 0)]
    {
        for layer in [false, true] {
            let mut x = trial.random_tensor(rows, start + groups * width + after)?;
            let weights = PairedNorm::random(trial, width, layer)?;
            let case = format!("{rows} rows, {groups} groups of {width} from {start}, layer: {layer}");
            let device = trial.device;
            trial.with_case(&case, device.norm_groups(&mut x.device, start, groups, width, weights.device_norm()))?;
            let plain = Reference.norm_groups(&mut x.plain, start, groups, width, weights.plain_norm());
            trial.with_case(&case, plain)?;
            trial.compare_tensors(&case, &x.device, &x.plain)?;
        }
    }
    Ok(())
}

pub(super) fn check_gate<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (rows, columns) in SHAPES {
        for activation in ACTIVATIONS {
            let x = trial.random_tensor(rows, 2 * columns)?;
            let case = format!("{rows} rows of 2 x {columns}, {activation:?}");
            let found = trial.with_case(&case, trial.device.gate(&x.device, activation))?;
            let expected = trial.with_case(&case, Reference.gate(&x.plain, activation))?;
            trial.compare_tensors(&case, &found, &expected)?;
        }
    }
    Ok(())
}

pub(super) fn check_rotate<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (rows, start, heads, head_dim, pairs) in
        [(1, 0, 1, 2, 1), (3, 4, 2, 8, 4), (5, 1, 3, 33, 7), (9, 64, 2, 64, 32), (4, 0, 2, 80, 16), (2, 0, 1, 128, 64)]
    {
        for style in [RotaryStyle::Half, RotaryStyle::Interleaved] {
            let mut x = trial.random_tensor(rows, start + heads * head_dim + 3)?;
            let places = 40;
            let table = angle_table(trial, places, pairs);
            let positions = (0..rows).map(|_| trial.random.below(places) as u32).collect::<Vec<_>>();
            let case = format!("{rows} rows, {heads} heads of {head_dim} from {start}, {pairs} pairs, {style:?}");
            let device = trial.device;
            let matrix =
                trial.with_case(&case, device.load_matrix(std::slice::from_ref(&table), WeightLayout::OutIn))?;
            let rotary = RotaryAngles { table: &matrix, pairs, style };
            trial.with_case(&case, device.rotate(&mut x.device, start, heads, head_dim, &positions, &rotary))?;
            let matrix = trial.with_case(&case, Reference.load_matrix(&[table], WeightLayout::OutIn))?;
            let rotary = RotaryAngles { table: &matrix, pairs, style };
            let plain = Reference.rotate(&mut x.plain, start, heads, head_dim, &positions, &rotary);
            trial.with_case(&case, plain)?;
            trial.compare_tensors(&case, &x.device, &x.plain)?;
        }
    }
    Ok(())
}

/// Cosines and sines of the usual frequencies.
pub(super) fn angle_table<D: Device>(trial: &OperationTrial<'_, D>, positions: usize, pairs: usize) -> HostTensor {
    let angle = |position: usize, pair: usize| position as f64 * 1e4_f64.powf(-(pair as f64) / pairs as f64);
    let row = |position: usize| {
        let cosines = (0..pairs).map(move |pair| angle(position, pair).cos() as f32);
        cosines.chain((0..pairs).map(move |pair| angle(position, pair).sin() as f32))
    };
    let values = trial.round_storable((0..positions).flat_map(row).collect());
    HostTensor::from_f32("angles", &[positions, 2 * pairs], &values)
}

pub(super) fn check_gather<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (rows, columns) in SHAPES {
        for count in [1, rows, 3 * rows] {
            let x = trial.random_tensor(rows, columns)?;
            let chosen = (0..count).map(|_| trial.random.below(rows) as u32).collect::<Vec<_>>();
            let case = format!("{count} of {rows} rows of {columns}");
            let found = trial.with_case(&case, trial.device.gather(&x.device, &chosen))?;
            let expected = trial.with_case(&case, Reference.gather(&x.plain, &chosen))?;
            trial.compare_tensors(&case, &found, &expected)?;
        }
    }
    Ok(())
}

pub(super) fn check_scatter<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (rows, columns) in SHAPES {
        for (count, start, after) in [(1, 0, 0), (rows.div_ceil(2), 3, 2), (rows, columns, 0)] {
            let mut into = trial.random_tensor(rows, columns)?;
            let from = trial.random_tensor(count, start + columns + after)?;
            let to = trial.random.shuffled(rows).into_iter().take(count).map(|row| row as u32).collect::<Vec<_>>();
            let case = format!("{count} of {rows} rows of {columns}, from column {start}");
            let device = trial.device;
            let columns = TensorColumns { tensor: &from.device, start };
            trial.with_case(&case, device.scatter(&mut into.device, &to, columns))?;
            let columns = TensorColumns { tensor: &from.plain, start };
            trial.with_case(&case, Reference.scatter(&mut into.plain, &to, columns))?;
            trial.compare_tensors(&case, &into.device, &into.plain)?;
        }
    }
    Ok(())
}

pub(super) fn check_average<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (_, columns) in SHAPES {
        for lengths in [&[1][..], &[3, 1, 8], &[40, 2, 2, 17]] {
            let cu_seqlens = sequence_ends(lengths);
            let x = trial.random_tensor(lengths.iter().sum(), columns)?;
            let case = format!("sequences of {lengths:?} rows of {columns}");
            let found = trial.with_case(&case, trial.device.average(&x.device, &cu_seqlens))?;
            let expected: PlainMatrix = trial.with_case(&case, Reference.average(&x.plain, &cu_seqlens))?;
            trial.compare_tensors(&case, &found, &expected)?;
        }
    }
    Ok(())
}

/// 0, then the end of each sequence.
pub(super) fn sequence_ends(lengths: &[usize]) -> Vec<u32> {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += *length as u32;
        Some(*end)
    });
    [0].into_iter().chain(ends).collect()
}
