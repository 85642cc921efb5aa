//! Products with weights against the reference.

use super::ConformanceFailure;
use super::rows::ACTIVATIONS;
use super::trial::{OperationTrial, PairedValue};
use crate::reference::PlainMatrix;
use crate::{Activation, Device, Epilogue, HostTensor, LogProbs, Reference, WeightLayout};

/// Rows, in, out: odd ones, single ones, and the edges of tiles.
const SHAPES: [(usize, usize, usize); 12] = [
    (1, 1, 1),
    (1, 64, 48),
    (2, 7, 3),
    (3, 33, 17),
    (5, 16, 100),
    (6, 65, 64),
    (7, 128, 33),
    (13, 100, 97),
    (31, 50, 130),
    (65, 192, 31),
    (50, 300, 257),
    (150, 24, 40),
];

/// In and out of real models' layers.
pub(super) const LAYERS: [(usize, usize); 2] = [(768, 3072), (1024, 1024)];

/// An epilogue's parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) scale: f32,
    pub(super) bias: bool,
    pub(super) activation: Activation,
    pub(super) residual: bool,
}

impl Parts {
    const fn of(bias: bool, activation: Activation, residual: bool) -> Self {
        Self { scale: 1.0, bias, activation, residual }
    }
}

/// Epilogues of real layers: a device may choose another product for each.
pub(super) const EPILOGUES: [Parts; 10] = [
    Parts::of(false, Activation::Identity, false),
    Parts::of(true, Activation::Identity, false),
    Parts::of(false, Activation::Relu, false),
    Parts::of(true, Activation::Relu, false),
    Parts::of(true, Activation::GeluTanh, false),
    Parts::of(true, Activation::Gelu, false),
    Parts::of(false, Activation::Silu, false),
    Parts::of(true, Activation::Identity, true),
    Parts { scale: 0.125, ..Parts::of(false, Activation::Identity, true) },
    Parts { scale: 0.125, ..Parts::of(true, Activation::Relu, true) },
];

/// Operands of a product; an epilogue uses a part of them.
struct ProductOperands<D: Device> {
    x: PairedValue<D::Tensor, PlainMatrix>,
    weight: PairedValue<D::Matrix, PlainMatrix>,
    bias: PairedValue<D::Vector, Vec<f32>>,
    residual: PairedValue<D::Tensor, PlainMatrix>,
    case: String,
}

impl<D: Device> ProductOperands<D> {
    fn random(
        trial: &mut OperationTrial<'_, D>,
        (rows, into, out): (usize, usize, usize),
        layout: WeightLayout,
    ) -> Result<Self, ConformanceFailure> {
        Ok(Self {
            x: trial.random_tensor(rows, into)?,
            weight: trial.random_matrix(out, into, layout, (3.0 / into as f32).sqrt())?,
            bias: trial.random_vector(out, 0.0)?,
            residual: trial.random_tensor(rows, out)?,
            case: format!("{rows} x {into} x {out}, {layout:?}"),
        })
    }

    fn compare_linear(&self, trial: &mut OperationTrial<'_, D>, parts: Parts) -> Result<(), ConformanceFailure> {
        let case = format!("{}, {parts:?}", self.case);
        let Parts { scale, activation, .. } = parts;
        let bias = parts.bias.then_some(&self.bias.device);
        let residual = parts.residual.then_some(&self.residual.device);
        let epilogue = Epilogue { scale, bias, activation, residual };
        let found = trial.with_case(&case, trial.device.linear(&self.x.device, &self.weight.device, epilogue))?;
        let bias = parts.bias.then_some(&self.bias.plain);
        let residual = parts.residual.then_some(&self.residual.plain);
        let epilogue = Epilogue { scale, bias, activation, residual };
        let expected = trial.with_case(&case, Reference.linear(&self.x.plain, &self.weight.plain, epilogue))?;
        trial.compare_tensors(&case, &found, &expected)
    }

    fn compare_project(
        &self,
        trial: &mut OperationTrial<'_, D>,
        biased: bool,
        scale: f32,
    ) -> Result<(), ConformanceFailure> {
        let case = format!("{}, times {scale}, bias: {biased}", self.case);
        let bias = biased.then_some(&self.bias.device);
        let found = trial.with_case(&case, trial.device.project(&self.x.device, &self.weight.device, bias, scale))?;
        let bias = biased.then_some(&self.bias.plain);
        let expected = trial.with_case(&case, Reference.project(&self.x.plain, &self.weight.plain, bias, scale))?;
        trial.compare_numbers(&case, &found, &expected)
    }
}

pub(super) fn check_linear<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for shape in SHAPES {
        for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
            for activation in [trial.random.pick(&ACTIVATIONS), Activation::Identity] {
                let scale = trial.random.pick(&[1.0, 0.125]);
                let (bias, residual) = (trial.random.below(4) > 0, trial.random.below(2) == 0);
                let operands = ProductOperands::random(trial, shape, layout)?;
                operands.compare_linear(trial, Parts { scale, bias, activation, residual })?;
            }
        }
    }
    for (into, out) in LAYERS {
        let operands = ProductOperands::random(trial, (3, into, out), WeightLayout::OutIn)?;
        for parts in EPILOGUES {
            operands.compare_linear(trial, parts)?;
        }
    }
    Ok(())
}

pub(super) fn check_project<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    // Heads of one number and of two, a head for each word, and usual products.
    let heads = [(9, 768, 1), (5, 1024, 2), (3, 96, 5003)].into_iter();
    for shape in heads.chain(SHAPES).chain(LAYERS.map(|(into, out)| (3, into, out))) {
        let layout = trial.random.pick(&[WeightLayout::OutIn, WeightLayout::InOut]);
        let operands = ProductOperands::random(trial, shape, layout)?;
        for (biased, scale) in [(false, 1.0), (true, 1.0), (true, 0.125)] {
            operands.compare_project(trial, biased, scale)?;
        }
    }
    Ok(())
}

/// Rows, in, words.
pub(super) const VOCABULARIES: [(usize, usize, usize); 6] =
    [(1, 8, 1), (1, 16, 50), (3, 31, 130), (9, 64, 1000), (40, 48, 777), (5, 20, 5003)];

/// In, words: the most that a device may take at once, and a few or many more.
pub(super) const LARGE_VOCABULARIES: [(usize, usize); 6] =
    [(8, 8192), (8, 8195), (8, 8200), (12, 8195), (8, 20_003), (8, 24_576)];

/// The targets and temperatures of a request for log-probabilities.
struct LogProbsRequest<'a> {
    scale: f32,
    targets: &'a [u32],
    temperatures: &'a [f32],
}

pub(super) fn check_log_probs<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (rows, into, vocabulary) in VOCABULARIES {
        for temperatures in [&[1.0][..], &[0.3, 1.0, 1.4, 2.5]] {
            let (scale, biased) = (trial.random.pick(&[1.0, 0.25]), trial.random.below(2) == 0);
            let targets = (0..rows).map(|_| trial.random.below(vocabulary) as u32).collect::<Vec<_>>();
            of_words(trial, (into, vocabulary), biased, &LogProbsRequest { scale, targets: &targets, temperatures })?;
        }
    }
    for (into, vocabulary) in LARGE_VOCABULARIES {
        for (biased, temperatures) in [(false, &[1.0][..]), (true, &[0.3, 1.0, 1.4, 2.5])] {
            let within = [0, 8191, 8192, 16_383, 16_384, vocabulary - 1, trial.random.below(vocabulary)];
            let targets = within.map(|word| word.min(vocabulary - 1) as u32);
            of_words(
                trial,
                (into, vocabulary),
                biased,
                &LogProbsRequest { scale: 1.0, targets: &targets, temperatures },
            )?;
        }
    }
    not_numbers(trial)
}

/// Random logits.
fn of_words<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    (into, vocabulary): (usize, usize),
    biased: bool,
    request: &LogProbsRequest<'_>,
) -> Result<(), ConformanceFailure> {
    let layout = trial.random.pick(&[WeightLayout::OutIn, WeightLayout::InOut]);
    let x = trial.random_tensor(request.targets.len(), into)?;
    let weight = trial.random_matrix(vocabulary, into, layout, 3.0 * (3.0 / into as f32).sqrt())?;
    let bias = if biased { Some(trial.random_vector(vocabulary, 0.0)?) } else { None };
    let case = format!("{into} numbers, {vocabulary} words, {layout:?}, bias: {biased}");
    compare_log_probs(trial, &case, &x, &weight, bias.as_ref(), request)
}

/// A NaN logit makes the sums of its row NaN, however improbable all others are; impossible words are left out.
fn not_numbers<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    const NEVER: f32 = f32::NEG_INFINITY;
    for words in [50, 8300] {
        let (rows, into) = (4, 16);
        let x = trial.random_tensor(rows, into)?;
        let targets = [0, 2, words as u32 - 1, 7];
        let request = LogProbsRequest { scale: 1.0, targets: &targets, temperatures: &[1.0, 0.7] };
        let weight = trial.random_matrix(words, into, WeightLayout::OutIn, 0.5)?;
        for (name, usual, others) in [
            ("one bias is NaN", 0.5, &[(11, f32::NAN)][..]),
            ("the last bias but one is NaN", -0.5, &[(words - 2, f32::NAN)]),
            ("biases are -inf, one is NaN", NEVER, &[(words - 3, f32::NAN)]),
            ("some biases are -inf", 0.0, &[(1, NEVER), (12, NEVER), (words - 1, NEVER)]),
            ("biases are -inf but for the last", NEVER, &[(words - 1, 1.0)]),
        ] {
            let mut biases = vec![usual; words];
            others.iter().for_each(|(word, bias)| biases[*word] = *bias);
            let bias = upload_vector(trial, &biases)?;
            compare_log_probs(trial, &format!("{words} words, {name}"), &x, &weight, Some(&bias), &request)?;
        }
        let mut weights = trial.random.numbers(words * into, 0.5);
        weights[5 * into + 3] = f32::NAN;
        let weights = [HostTensor::from_f32("weights", &[words, into], &trial.round_storable(weights))];
        let plain =
            trial.with_case("weights of the reference", Reference.load_matrix(&weights, WeightLayout::OutIn))?;
        let weight_with = PairedValue {
            device: trial.with_case("weights", trial.device.load_matrix(&weights, WeightLayout::OutIn))?,
            plain,
        };
        compare_log_probs(trial, &format!("{words} words, a weight is NaN"), &x, &weight_with, None, &request)?;
        let mut values = x.plain.values.clone();
        values[into] = f32::NAN;
        let x = PairedValue {
            device: trial.upload(rows, into, &values)?,
            plain: PlainMatrix { rows, columns: into, values },
        };
        compare_log_probs(trial, &format!("{words} words, a row has a NaN"), &x, &weight, None, &request)?;
    }
    Ok(())
}

pub(super) fn upload_vector<D: Device>(
    trial: &OperationTrial<'_, D>,
    values: &[f32],
) -> Result<PairedValue<D::Vector, Vec<f32>>, ConformanceFailure> {
    let part = HostTensor::from_f32("vector", &[values.len()], values);
    Ok(PairedValue { device: trial.with_case("vector", trial.device.load_vector(&[part]))?, plain: values.to_vec() })
}

fn compare_log_probs<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    case: &str,
    x: &PairedValue<D::Tensor, PlainMatrix>,
    weight: &PairedValue<D::Matrix, PlainMatrix>,
    bias: Option<&PairedValue<D::Vector, Vec<f32>>>,
    request: &LogProbsRequest<'_>,
) -> Result<(), ConformanceFailure> {
    let LogProbsRequest { scale, targets, temperatures } = *request;
    let case = format!("{case}, times {scale}, targets {targets:?}, temperatures {temperatures:?}");
    let there = bias.map(|bias| &bias.device);
    let found = trial.device.log_probs(&x.device, &weight.device, there, scale, targets, temperatures);
    let found: LogProbs = trial.with_case(&case, found)?;
    let there = bias.map(|bias| &bias.plain);
    let expected = Reference.log_probs(&x.plain, &weight.plain, there, scale, targets, temperatures);
    let expected = trial.with_case(&case, expected)?;
    trial.compare_numbers(&case, &found.target_logits, &expected.target_logits)?;
    trial.compare_numbers(&case, &found.log_sum_exps, &expected.log_sum_exps)
}
