//! A model with random weights in place of its own: the control that shows the effect of training.
//!
//! Architecture, tokenizer and the names and shapes of all tensors stay. Matrices are drawn evenly from `[-a, a)`, `a =
//! sqrt(3 / columns)`, so that their variance is one over the inputs (LeCun et al. 1998, "Efficient BackProp", section
//! 4.6). T5's queries are not scaled by a later division, so their variance is also divided by the width of a head, as
//! in the original. Vectors have their values from the start of training: weights of norms 1, biases 0. A draw uses
//! only whole numbers and one division, so a seed gives the same model on every machine.

use serde_json::{Map, Value, json};

/// The message of a panic over a damaged embedded file.
const BROKEN: &str = "an embedded model is a whole safetensors file; this is a bug";

/// A tensor's place in a file.
struct TensorHeader {
    name: String,
    shape: Vec<u64>,
}

/// The tensors of a safetensors file: an eight-byte length, a JSON header of that length, numbers.
fn read_headers(file: &[u8]) -> Vec<TensorHeader> {
    let (length, rest) = file.split_first_chunk::<8>().expect(BROKEN);
    let header = rest.get(..u64::from_le_bytes(*length) as usize).expect(BROKEN);
    let header: Map<String, Value> = serde_json::from_slice(header).expect(BROKEN);
    let named = header.into_iter().filter(|(name, _)| name != "__metadata__");
    named
        .map(|(name, entry)| {
            let shape = entry["shape"].as_array().expect(BROKEN).iter().map(|n| n.as_u64().expect(BROKEN)).collect();
            TensorHeader { name, shape }
        })
        .collect()
}

/// A file with the tensors of `file`, as 32-bit random numbers of `seed`.
pub(crate) fn random_weights(file: &[u8], config: &[u8], seed: u64) -> Vec<u8> {
    let config: Value = serde_json::from_slice(config).expect("an embedded model has a configuration; this is a bug");
    let head_width = config["d_kv"].as_u64();
    let (mut header, mut data) = (Map::new(), Vec::new());
    header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    for tensor in read_headers(file) {
        let begin = data.len();
        match tensor.shape.as_slice() {
            &[rows, columns] => {
                let scaled = if tensor.name.ends_with("Attention.q.weight") { head_width.unwrap_or(1) } else { 1 };
                let bound = (3.0 / (columns * scaled) as f64).sqrt();
                let mut draws = uniform_draws(seed, &tensor.name);
                data.extend((0..rows * columns).flat_map(|_| ((draws() * bound) as f32).to_le_bytes()));
            }
            other => {
                let value = if tensor.name.ends_with("weight") { 1.0f32 } else { 0.0 };
                data.extend((0..other.iter().product()).flat_map(|_| value.to_le_bytes()));
            }
        }
        let entry = json!({"dtype": "F32", "shape": tensor.shape, "data_offsets": [begin, data.len()]});
        header.insert(tensor.name, entry);
    }
    let mut header = Value::Object(header).to_string();
    // The numbers begin at a multiple of eight.
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    let mut whole = (header.len() as u64).to_le_bytes().to_vec();
    whole.extend(header.as_bytes());
    whole.extend(data);
    whole
}

/// Evenly distributed numbers from -1 to 1 for one tensor, independent of the other tensors.
fn uniform_draws(seed: u64, tensor: &str) -> impl FnMut() -> f64 {
    let mut bits = blake3::Hasher::new_derive_key("hopeval untrained weights 1")
        .update(&seed.to_le_bytes())
        .update(tensor.as_bytes())
        .finalize_xof();
    move || {
        let mut four = [0; 4];
        bits.fill(&mut four);
        f64::from(u32::from_le_bytes(four)) / f64::from(1u32 << 31) - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::MODELS;

    fn numbers(file: &[u8]) -> Vec<f32> {
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        file[8 + header..].chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
    }

    #[test]
    fn weights_are_of_the_same_shapes_and_of_their_seed() {
        for model in MODELS {
            let file = |wanted: &str| model.files.iter().find(|(name, _)| *name == wanted).unwrap().1;
            let (trained, config) = (file("model.safetensors"), file("config.json"));
            let untrained = random_weights(trained, config, 7);
            let shapes = |file: &[u8]| read_headers(file).into_iter().map(|t| (t.name, t.shape)).collect::<Vec<_>>();
            assert_eq!(shapes(&untrained), shapes(trained), "{}", model.name);
            let count: u64 = shapes(trained).iter().map(|(_, shape)| shape.iter().product::<u64>()).sum();
            let values = numbers(&untrained);
            assert_eq!(values.len() as u64, count);
            assert!(values.iter().all(|x| x.is_finite()));
            assert_eq!(untrained, random_weights(trained, config, 7));
            assert_ne!(untrained, random_weights(trained, config, 8));
        }
    }

    #[test]
    fn a_matrix_has_the_variance_of_its_inputs() {
        let mut draw = uniform_draws(1, "a.weight");
        let drawn: Vec<f64> = (0..20_000).map(|_| draw()).collect();
        let mean = drawn.iter().sum::<f64>() / 20_000.0;
        let variance = drawn.iter().map(|x| x * x).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.02 && (variance - 1.0 / 3.0).abs() < 0.01, "{mean} {variance}");
        assert!(drawn.iter().all(|x| (-1.0..1.0).contains(x)));
    }
}
