//! Fingerprints of a model's weights and of a tokenizer, 32 bytes each.
//!
//! A digest of weights reads them all, minutes for the largest models. It is therefore taken only on request, and
//! remembered in a side file of the model's folder, beside the sizes and modification times of its input files. They
//! are of the files as they were opened: a file that replaces one meanwhile has other ones.

use crate::CheckpointError;
use hopeval_device::HostTensor;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The file in a model's folder with the remembered digest of its weights.
pub const SIDE_FILE: &str = ".hopeval-digest.json";

/// The recipe of the digest. It is hashed too, so a change of the recipe changes every digest.
const RECIPE: &str = "hopeval weights 1";

/// The files that define a tokenizer.
const TOKENIZER_FILES: [&str; 3] = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"];

/// The side file of a folder, for its present files.
pub(crate) struct DigestCache {
    path: PathBuf,
    present: BTreeMap<String, FileStamp>,
}

/// Size and modification time of a file; either changes when the file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    size: u64,
    /// Nanoseconds since 1970.
    modified: u64,
}

impl FileStamp {
    /// The stamp of an open file.
    pub(crate) fn of_file(file: &File) -> std::io::Result<Self> {
        let about = file.metadata()?;
        let since = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { size: about.len(), modified: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredDigest {
    recipe: String,
    files: BTreeMap<String, FileStamp>,
    weights: String,
    /// BLAKE3 of the rest. Files of earlier versions have none.
    #[serde(default)]
    check: Option<String>,
}

impl StoredDigest {
    /// The digest of everything but itself.
    fn own_check(&self) -> String {
        let rest = serde_json::to_vec(&(&self.recipe, &self.files, &self.weights));
        blake3::hash(&rest.expect("names and numbers; this is a bug")).to_hex().to_string()
    }
}

impl DigestCache {
    /// For `config.json` and the files of weights with these stamps.
    pub(crate) fn of_files(folder: &Path, files: &[(PathBuf, FileStamp)]) -> Self {
        let name = |path: &Path| path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned();
        let present = files.iter().map(|(path, stamp)| (name(path), *stamp)).collect();
        Self { path: folder.join(SIDE_FILE), present }
    }

    /// The remembered digest, if it was taken of exactly these files.
    pub(crate) fn read_digest(&self) -> Option<String> {
        let text = std::fs::read(&self.path).ok()?;
        let stored: StoredDigest = serde_json::from_slice(&text).ok()?;
        let whole = stored.check.as_ref().is_none_or(|check| *check == stored.own_check());
        (whole && stored.recipe == RECIPE && stored.files == self.present).then_some(stored.weights)
    }

    /// Writes the digest down. If the folder is not writable, the weights are read again next time.
    pub(crate) fn write_digest(&self, weights: &str) {
        let (recipe, files) = (RECIPE.to_owned(), self.present.clone());
        let mut stored = StoredDigest { recipe, files, weights: weights.to_owned(), check: None };
        stored.check = Some(stored.own_check());
        let text = serde_json::to_vec_pretty(&stored).expect("names and numbers; this is a bug");
        // Several processes may do this at once: each writes its own file, and the last rename wins.
        let own = self.path.with_extension(format!("json.{}", std::process::id()));
        if std::fs::write(&own, text).and_then(|()| std::fs::rename(&own, &self.path)).is_err() {
            let _ = std::fs::remove_file(&own);
        }
    }
}

/// BLAKE3 of the configuration and of the tensors, in the order of their names.
pub(crate) fn of_weights<'a>(
    config: &serde_json::Map<String, serde_json::Value>,
    tensors: impl Iterator<Item = &'a HostTensor>,
) -> String {
    let mut hasher = blake3::Hasher::new();
    let text = serde_json::to_vec(config).expect("a JSON object; this is a bug");
    hash_framed(&mut hasher, RECIPE.as_bytes());
    hash_framed(&mut hasher, &text);
    for tensor in tensors {
        hash_framed(&mut hasher, tensor.name.as_bytes());
        hash_framed(&mut hasher, tensor.dtype.name().as_bytes());
        let shape: Vec<u8> = tensor.shape.iter().flat_map(|&n| (n as u64).to_le_bytes()).collect();
        hash_framed(&mut hasher, &shape);
        hash_framed(&mut hasher, &tensor.bytes);
    }
    hasher.finalize().to_hex().to_string()
}

/// BLAKE3 of a folder's tokenizer, if it has one.
pub(crate) fn of_tokenizer(folder: &Path) -> Result<Option<String>, CheckpointError> {
    if !folder.join("tokenizer.json").exists() {
        return Ok(None);
    }
    let mut hasher = blake3::Hasher::new();
    for name in TOKENIZER_FILES {
        let path = folder.join(name);
        if path.exists() {
            let text = std::fs::read(&path).map_err(|source| CheckpointError::Read { path, source })?;
            hash_framed(&mut hasher, name.as_bytes());
            hash_framed(&mut hasher, &text);
        }
    }
    Ok(Some(hasher.finalize().to_hex().to_string()))
}

/// Hashes the length first, so that no two lists of fields run together to the same bytes.
fn hash_framed(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}
