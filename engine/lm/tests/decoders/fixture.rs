//! A fixture's checkpoint, inputs and expected outputs.

use hopeval_checkpoint::Checkpoint;
use safetensors::SafeTensors;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The largest accepted absolute difference from transformers, in states, logits and log-probabilities.
pub(crate) const TOLERANCE: f32 = 1e-4;

/// The temperatures of the expected scores.
pub(crate) const TEMPERATURES: [f32; 2] = [1.0, 1.4];

pub(crate) struct Fixture {
    pub(crate) checkpoint: Checkpoint,
    expected: Value,
    tensors: Vec<u8>,
    /// The checkpoint's folder, if it is a copy instead of the fixture's own folder.
    _copy: Option<TempDir>,
}

pub(crate) struct Sequence {
    pub(crate) ids: Vec<u32>,
    /// The decoder's input; empty for models without an encoder.
    pub(crate) decoder_ids: Vec<u32>,
}

pub(crate) struct Score {
    pub(crate) prompt: Vec<u32>,
    pub(crate) target: Vec<u32>,
    /// For each of [`TEMPERATURES`], one for each token of the target.
    pub(crate) log_probs: Vec<f32>,
}

pub(crate) struct Generation {
    pub(crate) prompt: Vec<u32>,
    pub(crate) ids: Vec<u32>,
}

pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

/// A copy of a fixture's folder with a changed configuration.
pub(crate) fn changed(name: &str, change: impl FnOnce(&mut Map<String, Value>)) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder(name)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = copy.path().join("config.json");
    let mut config = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut config);
    std::fs::write(path, serde_json::to_vec(&config).unwrap()).unwrap();
    copy
}

impl Fixture {
    pub(crate) fn open(name: &str) -> Self {
        let read = |file| std::fs::read(folder(name).join(file)).unwrap();
        Self {
            checkpoint: Checkpoint::open(&folder(name)).unwrap(),
            expected: serde_json::from_slice(&read("expected.json")).unwrap(),
            tensors: read("expected.safetensors"),
            _copy: None,
        }
    }

    /// The fixture, and again (`true`) with the configuration of transformers 4, if it has one.
    pub(crate) fn versions(name: &str) -> Vec<(bool, Self)> {
        let mut versions = vec![(false, Self::open(name))];
        if let Ok(text) = std::fs::read(folder(name).join("config.transformers4.json")) {
            let copy = changed(name, |config| *config = serde_json::from_slice(&text).unwrap());
            let checkpoint = Checkpoint::open(copy.path()).unwrap();
            versions.push((true, Self { checkpoint, _copy: Some(copy), ..Self::open(name) }));
        }
        versions
    }

    pub(crate) fn tensor(&self, name: &str) -> Vec<f32> {
        let tensors = SafeTensors::deserialize(&self.tensors).unwrap();
        let bytes = tensors.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}")).data();
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn list<T>(&self, name: &str, read: impl Fn(&Value) -> T) -> Vec<T> {
        self.expected[name].as_array().unwrap().iter().map(read).collect()
    }

    pub(crate) fn sequences(&self) -> Vec<Sequence> {
        self.list("sequences", |value| Sequence {
            ids: numbers(&value["ids"]),
            decoder_ids: value.get("decoder_ids").map(numbers).unwrap_or_default(),
        })
    }

    pub(crate) fn scores(&self) -> Vec<Score> {
        let log_probs = |value: &Value| {
            let at = |t: &f32| value["logprobs"][format!("{t:.1}")].as_array().unwrap().clone();
            TEMPERATURES.iter().flat_map(at).map(|n| n.as_f64().unwrap() as f32).collect()
        };
        self.list("scores", |value| Score {
            prompt: numbers(&value["prompt_ids"]),
            target: numbers(&value["target_ids"]),
            log_probs: log_probs(value),
        })
    }

    pub(crate) fn generations(&self) -> Vec<Generation> {
        self.list("generations", |value| Generation {
            prompt: numbers(&value["prompt_ids"]),
            ids: numbers(&value["ids"]),
        })
    }
}
