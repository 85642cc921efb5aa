//! The angles of rotary position embeddings (Su et al. 2021) and of their scaling variants, computed as by transformers
//! (`modeling_rope_utils.py`): frequencies and angles in `f32`, to match far positions to the last digits, too.
//!
//! | `rope_type` | frequencies |
//! | --- | --- |
//! | default | `theta^(-2i/d)` |
//! | linear | divided by `factor` (Chen et al. 2023) |
//! | dynamic | the default's, for sequences up to `max_position_embeddings`; longer ones are refused (see below) |
//! | llama3 | low ones divided by `factor`, high ones kept, a ramp between (Llama 3.1) |
//! | yarn | the same by number of rotations, and cosines and sines times an attention factor (Peng et al. 2023) |
//!
//! With `dynamic`, transformers' frequencies beyond `max_position_embeddings` depend on the longest sequence of the
//! batch.
//!
//! Transformers 4 writes `rope_theta` and `rope_scaling`, 5 writes both into `rope_parameters`.

use crate::LmError;
use crate::config::ModelConfig;
use hopeval_device::HostTensor;
use std::f64::consts::PI;

/// The supported types.
const TYPES: [&str; 5] = ["default", "linear", "dynamic", "llama3", "yarn"];

/// Rotary position embeddings of one head.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RotaryEmbedding {
    /// Radians per position, for each pair.
    frequencies: Vec<f32>,
    /// Factor of the cosines and sines.
    factor: f32,
}

impl RotaryEmbedding {
    /// Reads the configuration of heads of `head_dim` numbers, in a model of `max_positions`.
    ///
    /// # Errors
    /// [`LmError::Config`], naming the field.
    pub(super) fn from_config(
        config: &ModelConfig<'_>,
        head_dim: usize,
        max_positions: usize,
    ) -> Result<Self, LmError> {
        let section = match config.section("rope_scaling")?.filter(|section| section.fields().next().is_some()) {
            Some(scaling) => Some(scaling),
            None => config.section("rope_parameters")?,
        };
        let partial = |fields: &ModelConfig<'_>| match fields.number_or("partial_rotary_factor", 1.0)? {
            1.0 => Ok(()),
            found => Err(fields.field_error("partial_rotary_factor", &format!("only 1 is supported, found {found}"))),
        };
        partial(config)?;
        let Some(fields) = section else {
            let powers = theta_powers(above_zero(config, "rope_theta", Some(10_000.0))?, head_dim);
            return Ok(Self { frequencies: powers.iter().map(|power| 1.0 / power).collect(), factor: 1.0 });
        };
        partial(&fields)?;
        if let Some(layers) = fields.fields().find(|field| field.ends_with("_attention")) {
            return Err(fields.field_error(layers, "rotary parameters that differ between layers are not supported"));
        }
        let kind = fields.one_of(if fields.has("rope_type") { "rope_type" } else { "type" }, &TYPES, "default")?;
        let theta = match fields.has("rope_theta") {
            true => above_zero(&fields, "rope_theta", None)?,
            false => above_zero(config, "rope_theta", Some(10_000.0))?,
        };
        let powers = theta_powers(theta, head_dim);
        let mut frequencies = powers.iter().map(|power| 1.0 / power).collect::<Vec<_>>();
        let mut factor = 1.0;
        match kind {
            "linear" => {
                let factor = above_zero(&fields, "factor", None)? as f32;
                frequencies.iter_mut().for_each(|frequency| *frequency /= factor);
            }
            "llama3" => {
                let ramp = Llama3Scaling::from_config(&fields, original_positions(config, &fields, max_positions)?)?;
                frequencies.iter_mut().for_each(|frequency| *frequency = ramp.scale(*frequency));
            }
            "yarn" => {
                let yarn = YarnScaling::from_config(
                    &fields,
                    original_positions(config, &fields, max_positions)?,
                    max_positions,
                )?;
                frequencies = yarn.frequencies(&powers, theta);
                factor = yarn.attention_factor;
            }
            _ => {}
        }
        Ok(Self { frequencies, factor })
    }

    /// Rotated pairs of a head.
    pub(super) fn pairs(&self) -> usize {
        self.frequencies.len()
    }

    /// Cosines, then sines, of each position's pairs: `[positions, 2 * pairs]`.
    pub(super) fn angle_table(&self, positions: usize) -> HostTensor {
        let mut values = Vec::with_capacity(positions * 2 * self.pairs());
        for position in 0..positions {
            let angles = || self.frequencies.iter().map(|frequency| f64::from(frequency * position as f32));
            values.extend(angles().map(|angle| angle.cos() as f32 * self.factor));
            values.extend(angles().map(|angle| angle.sin() as f32 * self.factor));
        }
        HostTensor::from_f32("rotary table", &[positions, 2 * self.pairs()], &values)
    }
}

/// `theta^(2i/d)`.
fn theta_powers(theta: f64, head_dim: usize) -> Vec<f32> {
    let power = |i: usize| f64::from(theta as f32).powf(f64::from(i as f32 / head_dim as f32)) as f32;
    (0..head_dim).step_by(2).map(power).collect()
}

fn above_zero(fields: &ModelConfig<'_>, field: &str, default: Option<f64>) -> Result<f64, LmError> {
    let number = match default {
        Some(default) => fields.number_or(field, default)?,
        None => fields.number(field)?,
    };
    if number > 0.0 {
        return Ok(number);
    }
    Err(fields.field_error(field, &format!("expected a number above 0, found {number}")))
}

/// Positions before scaling. A field at the top level wins over one in the section (Phi-3 has the former).
fn original_positions(
    config: &ModelConfig<'_>,
    fields: &ModelConfig<'_>,
    max_positions: usize,
) -> Result<f64, LmError> {
    let field = "original_max_position_embeddings";
    let own = if config.has(field) { config.size(field)? } else { fields.size_or(field, max_positions)? };
    Ok(own as f64)
}

/// Llama 3.1's scaling.
struct Llama3Scaling {
    factor: f64,
    low: f64,
    high: f64,
    positions: f64,
}

impl Llama3Scaling {
    fn from_config(fields: &ModelConfig<'_>, positions: f64) -> Result<Self, LmError> {
        let (low, high) = (above_zero(fields, "low_freq_factor", None)?, above_zero(fields, "high_freq_factor", None)?);
        if low >= high {
            let reason = format!("expected less than high_freq_factor, {high}, found {low}");
            return Err(fields.field_error("low_freq_factor", &reason));
        }
        Ok(Self { factor: above_zero(fields, "factor", None)?, low, high, positions })
    }

    fn scale(&self, frequency: f32) -> f32 {
        let wavelength = (2.0 * PI) as f32 / frequency;
        if f64::from(wavelength) < self.positions / self.high {
            return frequency;
        }
        let factor = self.factor as f32;
        if f64::from(wavelength) > self.positions / self.low {
            return frequency / factor;
        }
        let smooth = (self.positions as f32 / wavelength - self.low as f32) / (self.high - self.low) as f32;
        (1.0 - smooth) * frequency / factor + smooth * frequency
    }
}

/// YaRN's scaling.
struct YarnScaling {
    factor: f64,
    fast: f64,
    slow: f64,
    truncate: bool,
    positions: f64,
    attention_factor: f32,
}

impl YarnScaling {
    fn from_config(fields: &ModelConfig<'_>, positions: f64, max_positions: usize) -> Result<Self, LmError> {
        let given = |field: &str| Ok::<_, LmError>(fields.optional_number(field)?.filter(|number| *number != 0.0));
        let factor = match fields.has("factor") {
            true => above_zero(fields, "factor", None)?,
            false => max_positions as f64 / positions,
        };
        let magnitude = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
        let attention_factor = match fields.optional_number("attention_factor")? {
            Some(attention_factor) => attention_factor,
            None => match (given("mscale")?, given("mscale_all_dim")?) {
                (Some(scale), Some(all)) => magnitude(scale) / magnitude(all),
                _ => magnitude(1.0),
            },
        };
        Ok(Self {
            factor,
            fast: given("beta_fast")?.unwrap_or(32.0),
            slow: given("beta_slow")?.unwrap_or(1.0),
            truncate: fields.flag_or("truncate", true)?,
            positions,
            attention_factor: attention_factor as f32,
        })
    }

    fn frequencies(&self, powers: &[f32], theta: f64) -> Vec<f32> {
        let size = 2.0 * powers.len() as f64;
        // The pair with this number of rotations within the original positions.
        let pair = |rotations: f64| size * (self.positions / (rotations * 2.0 * PI)).ln() / (2.0 * theta.ln());
        let (mut low, mut high) = (pair(self.fast), pair(self.slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low, high) = (low.max(0.0), high.min(size - 1.0));
        if low == high {
            high += 0.001;
        }
        let blend = |(i, power): (usize, &f32)| {
            let kept = 1.0 - ((i as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
            1.0 / (self.factor as f32 * power) * (1.0 - kept) + 1.0 / power * kept
        };
        powers.iter().enumerate().map(blend).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::path::Path;

    fn read(config: Value, head_dim: usize, max_positions: usize) -> Result<RotaryEmbedding, LmError> {
        let fields = config.as_object().unwrap();
        RotaryEmbedding::from_config(&ModelConfig::from_fields(Path::new("model"), fields), head_dim, max_positions)
    }

    /// Values of transformers 5.17's `LlamaRotaryEmbedding`: `inv_freq`, `attention_scaling`.
    #[test]
    fn frequencies_are_those_of_transformers() {
        let llama3 = json!({"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192});
        let yarn = json!({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768});
        let detailed = json!({"rope_type": "yarn", "rope_theta": 1e4, "factor": 40.0, "mscale": 1.3,
            "mscale_all_dim": 0.7, "original_max_position_embeddings": 4096, "beta_fast": 16.0, "beta_slow": 2.0,
            "truncate": false});
        let cases: [(Value, usize, usize, &[f64], f64); 6] = [
            (json!({}), 8, 4096, &[1.0, 0.1, 0.01, 0.001], 1.0),
            (json!({"rope_theta": 1e4, "rope_scaling": {}}), 8, 4096, &[1.0, 0.1, 0.01, 0.001], 1.0),
            (
                json!({"rope_scaling": {"type": "linear", "factor": 4.0}}),
                8,
                4096,
                &[0.25, 0.02500000037252903, 0.0024999999441206455, 0.0002500000118743628],
                1.0,
            ),
            (
                json!({"rope_parameters": llama3}),
                16,
                131072,
                &[
                    1.0,
                    0.193922758102417,
                    0.03760603070259094,
                    0.00729266507551074,
                    0.0005248460220173001,
                    3.428102354519069e-05,
                    6.647869668086059e-06,
                    1.289173155782919e-06,
                ],
                1.0,
            ),
            (
                json!({"rope_theta": 1e6, "rope_scaling": yarn}),
                16,
                131072,
                &[
                    1.0,
                    0.17782793939113617,
                    0.03162277862429619,
                    0.004217559937387705,
                    0.0005000000237487257,
                    4.4456985051510856e-05,
                    7.905693564680405e-06,
                    1.405853367941745e-06,
                ],
                1.138629436111989,
            ),
            (
                json!({"rope_parameters": detailed}),
                16,
                4096,
                &[
                    1.0,
                    0.3162277638912201,
                    0.10000000149011612,
                    0.03162277862429619,
                    0.005790104623883963,
                    0.00012395245721563697,
                    2.499999936844688e-05,
                    7.905694474175107e-06,
                ],
                1.1759092150132244,
            ),
        ];
        for (config, head_dim, max_positions, frequencies, factor) in cases {
            let rope = read(config.clone(), head_dim, max_positions).unwrap();
            assert_eq!(rope.pairs(), frequencies.len());
            for (found, expected) in rope.frequencies.iter().zip(frequencies) {
                assert!((f64::from(*found) / expected - 1.0).abs() < 3e-7, "{config}: {found} {expected}");
            }
            assert!((f64::from(rope.factor) - factor).abs() < 1e-6, "{config}: {}", rope.factor);
        }
    }

    /// Cosine and sine of the second pair at the last position, as the same module gives them.
    #[test]
    fn far_angles_are_those_of_transformers() {
        let table = read(json!({}), 8, 4096).unwrap().angle_table(4096).to_f32();
        let last = &table[4095 * 8..];
        assert!((last[1] - 0.459_863_33).abs() < 1e-6 && (last[5] - 0.887_989_7).abs() < 1e-6, "{last:?}");
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let message = |config| read(config, 8, 64).unwrap_err().to_string();
        let longrope = message(json!({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}}));
        assert!(longrope.contains("rope_parameters.rope_type: expected one of default, linear, dynamic"), "{longrope}");
        let layers = message(json!({"rope_parameters": {"full_attention": {"rope_type": "default"}}}));
        assert!(layers.contains("rope_parameters.full_attention: "), "{layers}");
        let ramp = json!({"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4});
        let ramp = message(json!({"rope_scaling": ramp}));
        assert!(ramp.contains("rope_scaling.low_freq_factor: expected less than high_freq_factor, 4"), "{ramp}");
        assert!(message(json!({"rope_theta": 0})).contains("rope_theta: expected a number above 0"));
    }
}
