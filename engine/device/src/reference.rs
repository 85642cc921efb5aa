//! The reference device: every operation in the most obvious way, in `f64`, on one thread.
//!
//! Fused kernels are compared with it, and architectures are developed against it. It is never fast.

use crate::{
    Activation, Attention, AttentionBias, AttentionMask, Device, DeviceError, DeviceIdentity, Epilogue, HostTensor,
    LogProbs, Norm, RotaryAngles, RotaryStyle, TableLookup, TensorColumns, WeightLayout,
};

/// The reference device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

/// A matrix of `f32` numbers, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainMatrix {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// `rows * columns` numbers.
    pub values: Vec<f32>,
}

impl PlainMatrix {
    fn from_fn(rows: usize, columns: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let at = |i: usize| value(i / columns, i % columns) as f32;
        Self { rows, columns, values: (0..rows * columns).map(at).collect() }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        assert!(column < self.columns, "column {column} of {}; this is a bug", self.columns);
        f64::from(self.values[row * self.columns + column])
    }

    fn set(&mut self, row: usize, column: usize, value: f64) {
        self.values[row * self.columns + column] = value as f32;
    }
}

/// The definition of an activation.
pub fn activate(x: f64, activation: Activation) -> f64 {
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => 0.5 * x * erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
    }
}

/// The complementary error function: its series near zero, Lentz's continued fraction farther out.
fn erfc(x: f64) -> f64 {
    if x.abs() < 2.0 {
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term.abs() > 1e-18 * sum.abs() && n < 200.0 {
            n += 1.0;
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return 1.0 - sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let z = x.abs();
    let fraction = (1..=200).rev().fold(0.0, |below, k| 0.5 * f64::from(k) / (z + below));
    let tail = (-z * z).exp() / ((z + fraction) * std::f64::consts::PI.sqrt());
    if x > 0.0 { tail } else { 2.0 - tail }
}

fn normalise_values(values: &[f64], norm: Norm<'_, Reference>) -> Vec<f64> {
    let n = values.len() as f64;
    match norm {
        Norm::Layer { weight, bias, eps } => {
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let factor = 1.0 / (variance + f64::from(eps)).sqrt();
            let at = |(i, x): (usize, &f64)| (x - mean) * factor * f64::from(weight[i]) + f64::from(bias[i]);
            values.iter().enumerate().map(at).collect()
        }
        Norm::Rms { weight, eps } => {
            let square = values.iter().map(|x| x * x).sum::<f64>() / n;
            let factor = 1.0 / (square + f64::from(eps)).sqrt();
            values.iter().enumerate().map(|(i, x)| x * factor * f64::from(weight[i])).collect()
        }
    }
}

impl Device for Reference {
    type Tensor = PlainMatrix;
    type Matrix = PlainMatrix;
    type Vector = Vec<f32>;

    fn identity(&self) -> DeviceIdentity {
        DeviceIdentity { name: "reference".into(), numerics: "reference-1".into() }
    }

    fn load_matrix(&self, parts: &[HostTensor], layout: WeightLayout) -> Result<PlainMatrix, DeviceError> {
        let mut stacked = PlainMatrix { rows: 0, columns: 0, values: Vec::new() };
        for part in parts {
            let (rows, columns) = part.matrix_shape()?;
            let values = part.to_f32();
            let part = match layout {
                WeightLayout::OutIn => PlainMatrix { rows, columns, values },
                WeightLayout::InOut => {
                    let there = PlainMatrix { rows, columns, values };
                    PlainMatrix::from_fn(columns, rows, |out, into| there.at(into, out))
                }
            };
            if stacked.rows > 0 && stacked.columns != part.columns {
                let reason =
                    format!("expected {} columns like the parts before it, found {}", stacked.columns, part.columns);
                return Err(DeviceError::Weight { name: parts[0].name.to_string(), reason });
            }
            stacked.rows += part.rows;
            stacked.columns = part.columns;
            stacked.values.extend(part.values);
        }
        Ok(stacked)
    }

    fn load_vector(&self, parts: &[HostTensor]) -> Result<Vec<f32>, DeviceError> {
        Ok(parts.iter().flat_map(HostTensor::to_f32).collect())
    }

    fn upload(&self, rows: usize, columns: usize, values: &[f32]) -> Result<PlainMatrix, DeviceError> {
        assert_eq!(values.len(), rows * columns, "numbers of a tensor; this is a bug");
        Ok(PlainMatrix { rows, columns, values: values.to_vec() })
    }

    fn reserve(&self, rows: usize, columns: usize) -> Result<PlainMatrix, DeviceError> {
        Ok(PlainMatrix { rows, columns, values: vec![0.0; rows * columns] })
    }

    fn read_tensor(&self, x: &PlainMatrix) -> Result<Vec<f32>, DeviceError> {
        Ok(x.values.clone())
    }

    fn shape(&self, x: &PlainMatrix) -> (usize, usize) {
        (x.rows, x.columns)
    }

    fn embed(&self, lookups: &[TableLookup<'_, Self>], scale: f32) -> Result<PlainMatrix, DeviceError> {
        let (rows, columns) = (lookups[0].ids.len(), lookups[0].table.columns);
        Ok(PlainMatrix::from_fn(rows, columns, |row, column| {
            f64::from(scale) * lookups.iter().map(|l| l.table.at(l.ids[row] as usize, column)).sum::<f64>()
        }))
    }

    fn norm(&self, x: &PlainMatrix, norm: Norm<'_, Self>) -> Result<PlainMatrix, DeviceError> {
        let mut out = x.clone();
        self.norm_groups(&mut out, 0, 1, x.columns, norm)?;
        Ok(out)
    }

    fn norm_groups(
        &self,
        x: &mut PlainMatrix,
        start: usize,
        groups: usize,
        width: usize,
        norm: Norm<'_, Self>,
    ) -> Result<(), DeviceError> {
        for row in 0..x.rows {
            for first in (0..groups).map(|group| start + group * width) {
                let values = (0..width).map(|i| x.at(row, first + i)).collect::<Vec<_>>();
                for (i, value) in normalise_values(&values, norm).into_iter().enumerate() {
                    x.set(row, first + i, value);
                }
            }
        }
        Ok(())
    }

    fn linear(
        &self,
        x: &PlainMatrix,
        weight: &PlainMatrix,
        epilogue: Epilogue<'_, Self>,
    ) -> Result<PlainMatrix, DeviceError> {
        assert_eq!(x.columns, weight.columns, "inner sizes of a product; this is a bug");
        Ok(PlainMatrix::from_fn(x.rows, weight.rows, |row, out| {
            let product = (0..x.columns).map(|i| x.at(row, i) * weight.at(out, i)).sum::<f64>();
            let biased = f64::from(epilogue.scale) * product + epilogue.bias.map_or(0.0, |b| f64::from(b[out]));
            activate(biased, epilogue.activation) + epilogue.residual.map_or(0.0, |r| r.at(row, out))
        }))
    }

    fn gate(&self, x: &PlainMatrix, activation: Activation) -> Result<PlainMatrix, DeviceError> {
        let half = x.columns / 2;
        Ok(PlainMatrix::from_fn(x.rows, half, |row, i| activate(x.at(row, i), activation) * x.at(row, half + i)))
    }

    fn rotate(
        &self,
        x: &mut PlainMatrix,
        start: usize,
        heads: usize,
        head_dim: usize,
        positions: &[u32],
        rotary: &RotaryAngles<'_, Self>,
    ) -> Result<(), DeviceError> {
        for (row, position) in positions.iter().enumerate() {
            for first in (0..heads).map(|head| start + head * head_dim) {
                for pair in 0..rotary.pairs {
                    let (a, b) = match rotary.style {
                        RotaryStyle::Half => (first + pair, first + rotary.pairs + pair),
                        RotaryStyle::Interleaved => (first + 2 * pair, first + 2 * pair + 1),
                    };
                    let cosine = rotary.table.at(*position as usize, pair);
                    let sine = rotary.table.at(*position as usize, rotary.pairs + pair);
                    let (left, right) = (x.at(row, a), x.at(row, b));
                    x.set(row, a, left * cosine - right * sine);
                    x.set(row, b, right * cosine + left * sine);
                }
            }
        }
        Ok(())
    }

    fn attention(
        &self,
        q: TensorColumns<'_, PlainMatrix>,
        k: TensorColumns<'_, PlainMatrix>,
        v: TensorColumns<'_, PlainMatrix>,
        attention: &Attention<'_, Self>,
    ) -> Result<PlainMatrix, DeviceError> {
        let Attention { heads, kv_heads, head_dim, packing, .. } = *attention;
        let mut out = PlainMatrix {
            rows: packing.rows(),
            columns: heads * head_dim,
            values: vec![0.0; packing.rows() * heads * head_dim],
        };
        for sequence in 0..packing.len() {
            let keys =
                packing.key_spans(sequence).iter().flat_map(|&(start, rows)| start..start + rows).collect::<Vec<_>>();
            let queries = packing.query_rows(sequence);
            for head in 0..heads {
                let shared = head / (heads / kv_heads);
                for row in queries.clone() {
                    let position = (keys.len() + row).wrapping_sub(queries.end);
                    let seen = match attention.mask {
                        AttentionMask::Full => 0..keys.len(),
                        AttentionMask::Causal => 0..position + 1,
                        AttentionMask::Window(width) => (position + 1).saturating_sub(width as usize)..position + 1,
                    };
                    let scores = seen
                        .clone()
                        .map(|key| {
                            attention_score(attention, q, k, (row, position), (keys[key] as usize, key), (head, shared))
                        })
                        .collect::<Vec<_>>();
                    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let weights = scores.iter().map(|s| (s - highest).exp()).collect::<Vec<_>>();
                    let total = weights.iter().sum::<f64>();
                    for i in 0..head_dim {
                        let values =
                            seen.clone().map(|key| v.tensor.at(keys[key] as usize, v.start + shared * head_dim + i));
                        let mixed = weights.iter().zip(values).map(|(w, x)| w / total * x).sum();
                        out.set(row, head * head_dim + i, mixed);
                    }
                }
            }
        }
        Ok(out)
    }

    fn gather(&self, x: &PlainMatrix, rows: &[u32]) -> Result<PlainMatrix, DeviceError> {
        Ok(PlainMatrix::from_fn(rows.len(), x.columns, |row, column| x.at(rows[row] as usize, column)))
    }

    fn scatter(
        &self,
        into: &mut PlainMatrix,
        to: &[u32],
        from: TensorColumns<'_, PlainMatrix>,
    ) -> Result<(), DeviceError> {
        for (row, to) in to.iter().enumerate() {
            for column in 0..into.columns {
                into.set(*to as usize, column, from.tensor.at(row, from.start + column));
            }
        }
        Ok(())
    }

    fn average(&self, x: &PlainMatrix, cu_seqlens: &[u32]) -> Result<PlainMatrix, DeviceError> {
        Ok(PlainMatrix::from_fn(cu_seqlens.len() - 1, x.columns, |sequence, column| {
            let rows = cu_seqlens[sequence] as usize..cu_seqlens[sequence + 1] as usize;
            let n = rows.len() as f64;
            rows.map(|row| x.at(row, column)).sum::<f64>() / n
        }))
    }

    fn log_probs(
        &self,
        x: &PlainMatrix,
        weight: &PlainMatrix,
        bias: Option<&Vec<f32>>,
        scale: f32,
        targets: &[u32],
        temperatures: &[f32],
    ) -> Result<LogProbs, DeviceError> {
        let logits = self.linear(x, weight, Epilogue { scale, ..Epilogue::bias(bias) })?;
        let target = |(row, id): (usize, &u32)| logits.at(row, *id as usize) as f32;
        let sum = |row: usize, temperature: f32| {
            let scaled = (0..logits.columns).map(|i| logits.at(row, i) / f64::from(temperature)).collect::<Vec<_>>();
            let highest = scaled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            (highest + scaled.iter().map(|s| (s - highest).exp()).sum::<f64>().ln()) as f32
        };
        Ok(LogProbs {
            target_logits: targets.iter().enumerate().map(target).collect(),
            log_sum_exps: (0..x.rows).flat_map(|row| temperatures.iter().map(move |t| sum(row, *t))).collect(),
        })
    }
}

/// The softmax's input for one query, one key and one head.
fn attention_score(
    attention: &Attention<'_, Reference>,
    q: TensorColumns<'_, PlainMatrix>,
    k: TensorColumns<'_, PlainMatrix>,
    (query_row, query): (usize, usize),
    (key_row, key): (usize, usize),
    (head, shared): (usize, usize),
) -> f64 {
    let width = attention.head_dim;
    let query_at = |i: usize| q.tensor.at(query_row, q.start + head * width + i);
    let key_at = |i: usize| k.tensor.at(key_row, k.start + shared * width + i);
    let scale = f64::from(attention.scale);
    let content = scale * (0..width).map(|i| query_at(i) * key_at(i)).sum::<f64>();
    content
        + match &attention.bias {
            AttentionBias::None => 0.0,
            AttentionBias::Relative { table, buckets } => table.at(buckets.table_row(query, key), head),
            AttentionBias::Disentangled(terms) => {
                let row = terms.buckets.table_row(query, key);
                let position = |term: Option<&PlainMatrix>, content: &dyn Fn(usize) -> f64| {
                    term.map_or(0.0, |t| (0..width).map(|i| content(i) * t.at(row, head * width + i)).sum::<f64>())
                };
                scale * (position(terms.position_keys, &query_at) + position(terms.position_queries, &key_at))
            }
        }
}
