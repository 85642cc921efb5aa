//! Products with weights against the reference.

use super::Failure;
use super::rows::ACTIVATIONS;
use super::trial::Trial;
use crate::{Activation, Device, Epilogue, Layout, Reference};

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

pub(super) fn linear<D: Device>(trial: &mut Trial<'_, D>) -> Result<(), Failure> {
    for (rows, into, out) in SHAPES {
        for layout in [Layout::OutIn, Layout::InOut] {
            for activation in [trial.random.pick(&ACTIVATIONS), Activation::Identity] {
                let scale = trial.random.pick(&[1.0, 0.125]);
                let (biased, added) = (trial.random.below(4) > 0, trial.random.below(2) == 0);
                let x = trial.tensor(rows, into)?;
                let weight = trial.matrix(out, into, layout, (3.0 / into as f32).sqrt())?;
                let bias = if biased { Some(trial.vector(out, 0.0)?) } else { None };
                let residual = if added { Some(trial.tensor(rows, out)?) } else { None };
                let case = format!(
                    "{rows} x {into} x {out}, {layout:?}, {activation:?}, times {scale}, bias: {biased}, residual: {added}"
                );
                let epilogue = Epilogue {
                    scale,
                    bias: bias.as_ref().map(|b| &b.device),
                    activation,
                    residual: residual.as_ref().map(|r| &r.device),
                };
                let found = trial.done(&case, trial.device.linear(&x.device, &weight.device, epilogue))?;
                let epilogue = Epilogue {
                    scale,
                    bias: bias.as_ref().map(|b| &b.plain),
                    activation,
                    residual: residual.as_ref().map(|r| &r.plain),
                };
                let expected = trial.done(&case, Reference.linear(&x.plain, &weight.plain, epilogue))?;
                trial.compare(&case, &found, &expected)?;
            }
        }
    }
    Ok(())
}

pub(super) fn log_probs<D: Device>(trial: &mut Trial<'_, D>) -> Result<(), Failure> {
    for (rows, into, vocabulary) in [(1, 8, 1), (1, 16, 50), (3, 31, 130), (9, 64, 1000), (40, 48, 777), (5, 20, 5003)]
    {
        for temperatures in [&[1.0][..], &[0.3, 1.0, 1.4, 2.5]] {
            let layout = trial.random.pick(&[Layout::OutIn, Layout::InOut]);
            let (scale, biased) = (trial.random.pick(&[1.0, 0.25]), trial.random.below(2) == 0);
            let x = trial.tensor(rows, into)?;
            let weight = trial.matrix(vocabulary, into, layout, 3.0 * (3.0 / into as f32).sqrt())?;
            let bias = if biased { Some(trial.vector(vocabulary, 0.0)?) } else { None };
            let targets = (0..rows).map(|_| trial.random.below(vocabulary) as u32).collect::<Vec<_>>();
            let case = format!(
                "{rows} x {into}, {vocabulary} words, {layout:?}, times {scale}, bias: {biased}, temperatures {temperatures:?}"
            );
            let bias_there = bias.as_ref().map(|b| &b.device);
            let device = trial.device;
            let found = device.log_probs(&x.device, &weight.device, bias_there, scale, &targets, temperatures);
            let found = trial.done(&case, found)?;
            let bias_there = bias.as_ref().map(|b| &b.plain);
            let expected = Reference.log_probs(&x.plain, &weight.plain, bias_there, scale, &targets, temperatures);
            let expected = trial.done(&case, expected)?;
            trial.compare_numbers(&case, &found.target_logits, &expected.target_logits)?;
            trial.compare_numbers(&case, &found.log_sum_exps, &expected.log_sum_exps)?;
        }
    }
    Ok(())
}
