//! [`Checkpoint`]: a folder with `config.json` and `*.safetensors`, memory-mapped.
//!
//! Opening reads `config.json` and the headers of the weight files. The weights themselves are mapped and come into
//! memory when they are used. Tensor names of BERT's first checkpoints (`LayerNorm.gamma`, `LayerNorm.beta`) are
//! changed to today's.

mod shards;

pub(crate) use shards::read_index;

use crate::digest::{self, DigestCache, FileStamp};
use crate::{CheckpointError, mapped};
use bytes::Bytes;
use hopeval_device::{Dtype, HostTensor};
use safetensors::SafeTensors;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An open model folder; cloning shares it.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    config: serde_json::Map<String, serde_json::Value>,
    tensors: BTreeMap<String, HostTensor>,
    /// Tensors with a dtype other than F32, F16 and BF16, such as causal masks and position ids.
    others: BTreeMap<String, UnusableTensor>,
    files: Vec<PathBuf>,
    /// Sizes and times of the opened files, `config.json` among them.
    stamps: Vec<(PathBuf, FileStamp)>,
    weights_digest: Arc<OnceLock<String>>,
}

/// A tensor with a dtype unfit for weights.
#[derive(Clone, Debug)]
struct UnusableTensor {
    path: PathBuf,
    dtype: String,
}

impl Checkpoint {
    /// Opens a folder: reads `config.json`, maps `model.safetensors` or the shards of `model.safetensors.index.json`.
    ///
    /// # Errors
    /// [`CheckpointError`], naming the file.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let (config, stamp) = read_config(folder)?;
        let shards = shards::find_weights(folder)?;
        let mut checkpoint = Self {
            folder: folder.to_owned(),
            config,
            tensors: BTreeMap::new(),
            others: BTreeMap::new(),
            files: shards.files.clone(),
            stamps: vec![(folder.join("config.json"), stamp)],
            weights_digest: Arc::default(),
        };
        for path in &shards.files {
            let (bytes, stamp) = mapped::map_stamped(path)?;
            checkpoint.stamps.push((path.clone(), stamp));
            let names = checkpoint.add_tensors(path, &bytes)?;
            shards.check_file(path, &names)?;
        }
        Ok(checkpoint)
    }

    /// The folder's path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `config.json`.
    pub fn config(&self) -> &serde_json::Map<String, serde_json::Value> {
        &self.config
    }

    /// The weight files.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The weight tensor called `name`, if the folder has it.
    pub fn get(&self, name: &str) -> Option<&HostTensor> {
        self.tensors.get(name)
    }

    /// Names of all weight tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The weight tensor called `name`, which must have this shape.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`], [`CheckpointError::Dtype`], [`CheckpointError::Shape`].
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<HostTensor, CheckpointError> {
        let Some(found) = self.tensors.get(name) else {
            return Err(match self.others.get(name) {
                Some(UnusableTensor { path, dtype }) => {
                    CheckpointError::Dtype { path: path.clone(), name: name.into(), found: dtype.clone() }
                }
                None => {
                    CheckpointError::Missing { folder: self.folder.clone(), name: name.into(), shape: shape.into() }
                }
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

    /// BLAKE3, in hex, of the configuration and all weights (name, type, shape, numbers, in the order of names). It
    /// does not depend on how the weights are cut into files. The first call reads all weights and remembers the
    /// digest in the folder if it is writable ([`digest::SIDE_FILE`]). The remembered digest holds until the size or
    /// time of a file changes.
    pub fn weights_digest(&self) -> &str {
        self.weights_digest.get_or_init(|| {
            let digests = DigestCache::of_files(&self.folder, &self.stamps);
            digests.read_digest().unwrap_or_else(|| {
                let digest = digest::of_weights(&self.config, self.tensors.values());
                digests.write_digest(&digest);
                digest
            })
        })
    }

    /// BLAKE3, in hex, of the tokenizer's files; `None` if the folder has no `tokenizer.json`.
    ///
    /// # Errors
    /// [`CheckpointError::Read`].
    pub fn tokenizer_digest(&self) -> Result<Option<String>, CheckpointError> {
        digest::of_tokenizer(&self.folder)
    }

    /// Adds the tensors of a mapped file. Returns their names as in the file.
    fn add_tensors(&mut self, path: &Path, bytes: &Bytes) -> Result<BTreeSet<String>, CheckpointError> {
        let format = |source| CheckpointError::Format {
            path: path.to_owned(),
            reason: format!("not a whole safetensors file ({} bytes): {source}", bytes.len()),
        };
        let parsed = SafeTensors::deserialize(bytes).map_err(format)?;
        let mut names = BTreeSet::new();
        for (found, view) in parsed.tensors() {
            let name = modern_name(&found);
            names.insert(found);
            let dtype = match view.dtype() {
                safetensors::Dtype::F32 => Dtype::F32,
                safetensors::Dtype::F16 => Dtype::F16,
                safetensors::Dtype::BF16 => Dtype::Bf16,
                other => {
                    self.others.insert(name, UnusableTensor { path: path.to_owned(), dtype: format!("{other:?}") });
                    continue;
                }
            };
            let tensor = HostTensor {
                name: name.as_str().into(),
                dtype,
                shape: view.shape().to_vec(),
                bytes: bytes.slice_ref(view.data()),
            };
            self.tensors.insert(name, tensor);
        }
        Ok(names)
    }
}

/// The tensor's name in today's transformers.
fn modern_name(name: &str) -> String {
    for (old, new) in [(".gamma", ".weight"), (".beta", ".bias")] {
        if let Some(layer) = name.strip_suffix(old)
            && layer.ends_with("LayerNorm")
        {
            return format!("{layer}{new}");
        }
    }
    name.to_owned()
}

/// `config.json` of a folder, and the stamp of the file that was read.
pub(crate) fn read_config(
    folder: &Path,
) -> Result<(serde_json::Map<String, serde_json::Value>, FileStamp), CheckpointError> {
    let path = folder.join("config.json");
    let read = || {
        let mut file = File::open(&path)?;
        let stamp = FileStamp::of_file(&file)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok((text, stamp))
    };
    let (text, stamp) = read().map_err(|source| CheckpointError::Read { path: path.clone(), source })?;
    let config = serde_json::from_slice(&text)
        .map_err(|source| CheckpointError::Format { path, reason: format!("not a JSON object: {source}") })?;
    Ok((config, stamp))
}
