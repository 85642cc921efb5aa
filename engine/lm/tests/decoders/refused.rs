//! Checkpoints that contradict their configuration, or need unsupported features: one error each, with the field or the
//! tensor, the allowed values and the value found.

use super::fixture::{Fixture, changed, folder};
use super::packed::logits_of_decoder;
use hopeval_checkpoint::Checkpoint;
use hopeval_device::{Device, Reference};
use hopeval_lm::architectures::{ModelFamily, identify, open_decoder, open_encoder_decoder};
use hopeval_lm::{EncoderDecoder, LmError};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Map, Value, json};
use std::path::Path;
use tempfile::TempDir;

fn open(folder: &Path) -> Result<(), LmError> {
    let checkpoint = Checkpoint::open(folder).unwrap();
    match identify(&checkpoint)?.1 {
        ModelFamily::EncoderDecoder => open_encoder_decoder(&checkpoint, &Reference).map(drop),
        _ => open_decoder(&checkpoint, &Reference).map(drop),
    }
}

/// The message after a change of the configuration, without the folder.
fn message(name: &str, change: impl FnOnce(&mut Map<String, Value>)) -> String {
    let copy = changed(name, change);
    let message = open(copy.path()).expect_err("a configuration that cannot be served").to_string();
    message.replace(&*copy.path().to_string_lossy(), "model")
}

fn set(field: &str, value: Value) -> impl FnOnce(&mut Map<String, Value>) {
    move |config| drop(config.insert(field.into(), value))
}

/// A copy of a fixture with changed tensors; `change` gives another name, bytes and shape, or nothing.
type Part = (String, Vec<u8>, Vec<usize>);
fn with_tensors(name: &str, change: impl Fn(Part) -> Vec<Part>) -> TempDir {
    let copy = changed(name, |_| {});
    let path = copy.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let parts = tensors
        .tensors()
        .into_iter()
        .flat_map(|(name, view)| change((name, view.data().to_vec(), view.shape().to_vec())))
        .collect::<Vec<_>>();
    let views = parts.iter().map(|(name, bytes, shape)| {
        (name.as_str(), TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes).unwrap())
    });
    std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
    copy
}

#[test]
fn configurations() {
    let cases: [(&str, &str, Value, &str); 22] = [
        ("gpt2", "model_type", json!("mamba"), "model_type: expected one of bert, "),
        ("gpt2", "model_type", Value::Null, "found nothing"),
        ("gpt2", "n_embd", json!(25), "n_embd: expected a multiple of n_head, 3, found 25"),
        ("gpt2", "n_layer", json!("2"), "n_layer: expected a whole number, found \"2\""),
        ("gpt2", "n_positions", json!(0), "n_positions: expected a whole number above 0"),
        ("gpt2", "vocab_size", json!(1_u64 << 40), "vocab_size: expected a whole number above 0 and below 2^31"),
        ("gpt2", "activation_function", json!("quick_gelu"), "activation_function: expected one of gelu, "),
        ("gpt2", "add_cross_attention", json!(true), "add_cross_attention: only false is supported, found true"),
        ("gpt2", "layer_norm_epsilon", json!(0), "layer_norm_epsilon: expected a number above 0, found 0"),
        ("opt", "ffn_dim", Value::Null, "ffn_dim: expected a whole number, found nothing"),
        (
            "opt",
            "num_attention_heads",
            json!(5),
            "hidden_size: expected a multiple of num_attention_heads, 5, found 24",
        ),
        (
            "llama",
            "num_key_value_heads",
            json!(4),
            "num_attention_heads: expected a multiple of num_key_value_heads, 4",
        ),
        ("llama", "head_dim", json!(7), "head_dim: expected an even number, found 7"),
        ("llama", "rope_scaling", json!({"type": "longrope"}), "rope_scaling.type: expected one of default, linear"),
        ("llama", "rope_parameters", json!({"rope_type": "linear"}), "rope_parameters.factor: expected a number"),
        ("llama", "partial_rotary_factor", json!(0.5), "partial_rotary_factor: only 1 is supported, found 0.5"),
        (
            "qwen2",
            "layer_types",
            json!(["full_attention"]),
            "layer_types: expected one for each of num_hidden_layers, 2",
        ),
        ("qwen3", "layer_types", json!(["full_attention", "chunked"]), "layer_types: expected full_attention or"),
        ("t5-v1.1", "feed_forward_proj", json!("gated-elu"), "feed_forward_proj: expected one of gelu, "),
        ("t5-v1.1", "relative_attention_num_buckets", json!(3), "relative_attention_num_buckets: expected an even"),
        ("t5-v1.1", "relative_attention_max_distance", json!(4), "relative_attention_max_distance: expected more than"),
        (
            "t5-v1.1",
            "decoder_start_token_id",
            json!(163),
            "decoder_start_token_id: expected a token below vocab_size, 163",
        ),
    ];
    for (fixture, field, value, expected) in cases {
        let message = message(fixture, set(field, value));
        assert!(message.starts_with("model: config.json: ") && message.contains(expected), "{message}");
    }
}

#[test]
fn families() {
    let decoder = Checkpoint::open(&folder("gpt2")).unwrap();
    let message = open_encoder_decoder(&decoder, &Reference).unwrap_err().to_string();
    assert!(message.ends_with("model_type: expected one of t5, found \"gpt2\""), "{message}");
    let both = Checkpoint::open(&folder("t5-v1.0")).unwrap();
    let message = open_decoder(&both, &Reference).unwrap_err().to_string();
    assert!(message.ends_with("expected one of gpt2, llama, mistral, opt, qwen2, qwen3, found \"t5\""), "{message}");
}

#[test]
fn tensors() {
    let missing = with_tensors("llama", |part| match part.0.contains("layers.1.mlp.up_proj") {
        true => Vec::new(),
        false => vec![part],
    });
    let message = open(missing.path()).unwrap_err().to_string();
    assert!(message.contains("no tensor model.layers.1.mlp.up_proj.weight (shape [44, 24] expected"), "{message}");
    let untied = with_tensors("llama", |part| if part.0 == "lm_head.weight" { Vec::new() } else { vec![part] });
    let message = open(untied.path()).unwrap_err().to_string();
    assert!(message.contains("no tensor lm_head.weight (shape [101, 24]"), "{message}");
    let misshaped = changed("opt", set("ffn_dim", json!(45)));
    let message = open(misshaped.path()).unwrap_err().to_string();
    let expected = "model.decoder.layers.0.fc1.weight: expected shape [45, 24] by config.json, found [44, 24]";
    assert!(message.contains(expected), "{message}");
}

/// The first row of logits of a token.
fn first_logits(folder: &Path) -> Vec<f32> {
    let checkpoint = Checkpoint::open(folder).unwrap();
    let model = open_decoder(&checkpoint, &Reference).unwrap();
    let sequences = Fixture::open("gpt2").sequences();
    logits_of_decoder(&Reference, model.as_ref(), &sequences[..1]).remove(0)
}

fn halved(bytes: &[u8]) -> Vec<u8> {
    let half = |b: &[u8]| (f32::from_le_bytes(b.try_into().unwrap()) / 2.0).to_le_bytes();
    bytes.chunks_exact(4).flat_map(half).collect()
}

/// A head in the file is used, whatever the configuration says about tying.
#[test]
fn own_heads_beside_tied_configurations() {
    let tied = first_logits(&folder("gpt2"));
    let head = |change: fn(&[u8]) -> Vec<u8>| {
        with_tensors("gpt2", move |(name, bytes, shape)| match name.as_str() {
            "transformer.wte.weight" => {
                let own = ("lm_head.weight".to_owned(), change(&bytes), shape.clone());
                vec![own, (name, bytes, shape)]
            }
            _ => vec![(name, bytes, shape)],
        })
    };
    assert_eq!(first_logits(head(<[u8]>::to_vec).path()), tied);
    // Halving is exact, all the way through the product.
    let half = tied.iter().map(|logit| logit / 2.0).collect::<Vec<_>>();
    assert_eq!(first_logits(head(halved).path()), half);
}

fn head_of<D: Device>(model: &dyn EncoderDecoder<D>, device: &D, ids: &[u32]) -> Vec<f32> {
    let rows = hopeval_device::TableLookup { table: &model.head().weight, ids };
    device.read_tensor(&device.embed(&[rows], model.head().scale).unwrap()).unwrap()
}

/// T5's head: its weight and its scale, by the configurations of transformers 4 and 5.
#[test]
fn heads_of_t5() {
    let open = |name: &str, fields: Value| {
        let copy = changed(name, |config| {
            for field in ["tie_word_embeddings", "scale_decoder_outputs"] {
                config.remove(field);
            }
            config.extend(fields.as_object().unwrap().clone());
        });
        let checkpoint = Checkpoint::open(copy.path()).unwrap();
        let model = open_encoder_decoder(&checkpoint, &Reference).unwrap();
        (head_of(model.as_ref(), &Reference, &[5]), checkpoint)
    };
    let row = |checkpoint: &Checkpoint, name: &str, scale: f32| {
        let tensor = checkpoint.get(name).unwrap();
        let mut row = vec![0.0; tensor.shape[1]];
        tensor.read_into(5 * tensor.shape[1], &mut row);
        row.into_iter().map(|x| x * scale).collect::<Vec<_>>()
    };
    // d_model of both fixtures.
    let scale = (24_f64.powf(-0.5)) as f32;
    let close = |found: &[f32], expected: &[f32]| found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-7);
    // (fixture, configuration, the head's tensor, its scale)
    for (name, fields, tensor, scale) in [
        ("t5-v1.0", json!({}), "shared.weight", scale),
        ("t5-v1.0", json!({"tie_word_embeddings": true}), "shared.weight", scale),
        ("t5-v1.0", json!({"tie_word_embeddings": true, "scale_decoder_outputs": false}), "shared.weight", 1.0),
        ("t5-v1.0", json!({"tie_word_embeddings": false}), "shared.weight", 1.0),
        ("t5-v1.1", json!({"tie_word_embeddings": false}), "lm_head.weight", 1.0),
        ("t5-v1.1", json!({"tie_word_embeddings": true, "scale_decoder_outputs": false}), "lm_head.weight", 1.0),
        ("t5-v1.1", json!({}), "lm_head.weight", scale),
    ] {
        let (found, checkpoint) = open(name, fields.clone());
        assert!(close(&found, &row(&checkpoint, tensor, scale)), "{name}: {fields}");
    }
}
