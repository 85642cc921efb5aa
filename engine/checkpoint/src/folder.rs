//! [`Checkpoint`]: a folder with `config.json` and `*.safetensors`, memory-mapped.

use crate::CheckpointError;
use bytes::Bytes;
use hopeval_device::{Dtype, HostTensor};
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// An open model folder.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    config: serde_json::Map<String, serde_json::Value>,
    tensors: BTreeMap<String, HostTensor>,
}

impl Checkpoint {
    /// Opens a folder: reads `config.json`, maps `model.safetensors` or the shards of `model.safetensors.index.json`.
    ///
    /// # Errors
    /// [`CheckpointError`], naming the file.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let path = folder.join("config.json");
        let text = std::fs::read(&path).map_err(|source| CheckpointError::Read { path: path.clone(), source })?;
        let config = serde_json::from_slice(&text)
            .map_err(|source| CheckpointError::Format { path, reason: format!("not a JSON object: {source}") })?;
        let mut tensors = BTreeMap::new();
        for shard in shards(folder)? {
            map(&shard, &mut tensors)?;
        }
        Ok(Self { folder: folder.to_owned(), config, tensors })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `config.json`.
    pub fn config(&self) -> &serde_json::Map<String, serde_json::Value> {
        &self.config
    }

    /// A tensor, if it is there.
    pub fn get(&self, name: &str) -> Option<&HostTensor> {
        self.tensors.get(name)
    }

    /// Names of all tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// A tensor that must be there, in this shape.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`], [`CheckpointError::Shape`].
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<HostTensor, CheckpointError> {
        let Some(found) = self.tensors.get(name) else {
            return Err(CheckpointError::Missing {
                folder: self.folder.clone(),
                name: name.into(),
                shape: shape.into(),
            });
        };
        if found.shape != shape {
            return Err(CheckpointError::Shape {
                folder: self.folder.clone(),
                name: name.into(),
                expected: shape.into(),
                found: found.shape.clone(),
            });
        }
        Ok(found.clone())
    }
}

/// The files that hold the weights.
fn shards(folder: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
    let index = folder.join("model.safetensors.index.json");
    if !index.exists() {
        return Ok(vec![folder.join("model.safetensors")]);
    }
    let text = std::fs::read(&index).map_err(|source| CheckpointError::Read { path: index.clone(), source })?;
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let parsed: Index = serde_json::from_slice(&text)
        .map_err(|source| CheckpointError::Format { path: index, reason: source.to_string() })?;
    let mut files = parsed.weight_map.into_values().map(|file| folder.join(file)).collect::<Vec<_>>();
    files.sort();
    files.dedup();
    Ok(files)
}

fn map(path: &Path, tensors: &mut BTreeMap<String, HostTensor>) -> Result<(), CheckpointError> {
    let read = |source| CheckpointError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read)?;
    // SAFETY: the map is read only; a file that changes beneath it is the operator's mistake, as with every mapped index.
    let bytes = Bytes::from_owner(unsafe { memmap2::Mmap::map(&file) }.map_err(read)?);
    let format =
        |source| CheckpointError::Format { path: path.to_owned(), reason: format!("not safetensors: {source}") };
    let parsed = SafeTensors::deserialize(&bytes).map_err(format)?;
    for (name, view) in parsed.tensors() {
        let dtype = match view.dtype() {
            safetensors::Dtype::F32 => Dtype::F32,
            safetensors::Dtype::F16 => Dtype::F16,
            safetensors::Dtype::BF16 => Dtype::Bf16,
            // Buffers such as causal masks and position ids: not weights.
            _ => continue,
        };
        let tensor = HostTensor {
            name: name.as_str().into(),
            dtype,
            shape: view.shape().to_vec(),
            bytes: bytes.slice_ref(view.data()),
        };
        tensors.insert(name, tensor);
    }
    Ok(())
}
