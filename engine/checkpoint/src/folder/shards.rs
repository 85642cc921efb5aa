//! Finds the weight files of a folder and checks them against their index.

use crate::CheckpointError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Files of weights, in order.
pub(super) struct WeightFiles {
    pub(super) files: Vec<PathBuf>,
    /// The index, and the file of each tensor according to it.
    index: Option<(PathBuf, BTreeMap<String, PathBuf>)>,
}

impl WeightFiles {
    /// Checks that a file holds all tensors listed for it in the index; `names` are the tensors in the file.
    pub(super) fn check_file(&self, file: &Path, names: &BTreeSet<String>) -> Result<(), CheckpointError> {
        let Some((index, promised)) = &self.index else { return Ok(()) };
        let lacking = promised.iter().find(|(name, at)| at.as_path() == file && !names.contains(*name));
        match lacking {
            Some((name, _)) => Err(CheckpointError::Format {
                path: index.clone(),
                reason: format!("says that {} holds tensor {name}, which it does not", file.display()),
            }),
            None => Ok(()),
        }
    }
}

/// Finds `model.safetensors`, or `model.safetensors.index.json` and its shards, in transformers' order: where a sharded
/// model was saved again as one file, the index is the old one's.
pub(super) fn find_weights(folder: &Path) -> Result<WeightFiles, CheckpointError> {
    let single = folder.join("model.safetensors");
    if single.exists() {
        return Ok(WeightFiles { files: vec![single], index: None });
    }
    let index = folder.join("model.safetensors.index.json");
    if index.exists() {
        let promised = read_index(&index)?;
        let mut files = promised.values().cloned().collect::<Vec<_>>();
        files.sort();
        files.dedup();
        return Ok(WeightFiles { files, index: Some((index, promised)) });
    }
    Err(no_weights(folder))
}

/// The `weight_map` of an index: the file of each tensor. All files exist and lie in the index's folder.
///
/// # Errors
/// [`CheckpointError`] if it is no index, or if a listed file is missing or elsewhere.
pub(crate) fn read_index(index: &Path) -> Result<BTreeMap<String, PathBuf>, CheckpointError> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let format = |reason| CheckpointError::Format { path: index.to_owned(), reason };
    let text = std::fs::read(index).map_err(|source| CheckpointError::Read { path: index.to_owned(), source })?;
    let parsed: Index =
        serde_json::from_slice(&text).map_err(|source| format(format!("not an index of weights: {source}")))?;
    let folder = index.parent().unwrap_or(Path::new("."));
    let mut files = BTreeMap::new();
    for (name, file) in parsed.weight_map {
        let plain = Path::new(&file).components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || file.is_empty() {
            return Err(format(format!("tensor {name} is said to be in {file:?}, which is not a file of this folder")));
        }
        let path = folder.join(&file);
        if !path.exists() {
            return Err(format(format!("names the shard {file}, which is not there")));
        }
        files.insert(name, path);
    }
    Ok(files)
}

fn no_weights(folder: &Path) -> CheckpointError {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(source) => return CheckpointError::Read { path: folder.to_owned(), source },
    };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let pickled = names.iter().any(|name| name.starts_with("pytorch_model") && name.ends_with(".bin"));
    let hint =
        if pickled { "\nhint: hopeval model import DIR --out DIR makes safetensors of pytorch_model.bin" } else { "" };
    let mut found = if names.is_empty() { "nothing".to_owned() } else { names[..names.len().min(20)].join(", ") };
    if names.len() > 20 {
        found.push_str(&format!(" and {} more", names.len() - 20));
    }
    CheckpointError::NoWeights { folder: folder.to_owned(), found, hint: hint.to_owned() }
}
