//! The small models embedded in the binary. They are trained on generated worlds, so a fresh machine without weights
//! can run every method with a real model.
//!
//! Each model is a Hugging Face folder under `files/`, with the log of its training and a card (`README.md`): training
//! data, command and quality. [`unpack`] writes a folder once into a cache, under a name with its digest. The caller
//! opens it. Nothing here knows the engine. [`untrained()`] writes a model's control.

mod embedded;
mod untrained;

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use embedded::{MODELS, Model};

/// Why a model could not be provided.
#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    /// No model has this name.
    #[error("no embedded model is called `{name}`: there are {}", list())]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// The cache cannot be written.
    #[error("cannot unpack the embedded model `{name}` into {}", path.display())]
    Write {
        /// The model.
        name: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

fn list() -> String {
    names().collect::<Vec<_>>().join(", ")
}

/// The models' names, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|model| model.name)
}

/// A model of the binary, for listings.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedModel {
    /// Its name.
    pub name: &'static str,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its `config.json`.
    pub config: &'static [u8],
}

/// The models, in the order of their names.
pub fn models() -> impl Iterator<Item = EmbeddedModel> {
    MODELS.iter().map(|model| EmbeddedModel {
        name: model.name,
        bytes: model.files.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
        config: model.config(),
    })
}

/// The digest of a model's files, different for different builds of the model: BLAKE3, hexadecimal.
///
/// # Errors
/// [`ModelsError::Unknown`].
pub fn digest(name: &str) -> Result<String, ModelsError> {
    Ok(find_model(name)?.digest())
}

/// Writes a model's folder below `cache_dir`, unless it already exists, and returns its path.
///
/// Several processes may do so at once. Each writes to a temporary folder and renames it, and the first one wins. A
/// folder with a missing file, or with a file of another content, is written again.
///
/// # Errors
/// [`ModelsError::Unknown`]; [`ModelsError::Write`], naming the file.
pub fn unpack(name: &str, cache_dir: &Path) -> Result<PathBuf, ModelsError> {
    let model = find_model(name)?;
    let place = cache_dir.join(format!("{}-{}", model.name, &model.digest()[..16]));
    model.ensure_folder(cache_dir, &place, |_, bytes| bytes.into())?;
    Ok(place)
}

/// As [`unpack`], for a control: a model with the same architecture and tokenizer, whose weights are random numbers of
/// `seed`.
///
/// # Errors
/// As [`unpack`].
pub fn untrained(name: &str, seed: u64, cache_dir: &Path) -> Result<PathBuf, ModelsError> {
    let model = find_model(name)?;
    let place = cache_dir.join(format!("{}-untrained-{seed}-{}", model.name, &model.digest()[..16]));
    model.ensure_folder(cache_dir, &place, |name, bytes| match name {
        WEIGHTS => untrained::random_weights(bytes, model.config(), seed).into(),
        _ => bytes.into(),
    })?;
    Ok(place)
}

/// The file with a model's weights.
const WEIGHTS: &str = "model.safetensors";

fn find_model(name: &str) -> Result<&'static Model, ModelsError> {
    MODELS.iter().find(|model| model.name == name).ok_or_else(|| ModelsError::Unknown { name: name.to_owned() })
}

/// Names and contents of a folder.
type FolderFiles<'a> = [(&'static str, Cow<'a, [u8]>)];

/// Whether all files exist with their content. The digest of weights is remembered by size and time, so a damage that
/// changes neither would go unnoticed later.
fn is_whole(place: &Path, files: &FolderFiles<'_>) -> bool {
    files.iter().all(|(name, bytes)| fs::read(place.join(name)).is_ok_and(|found| found == **bytes))
}

impl Model {
    fn config(&self) -> &'static [u8] {
        self.files.iter().find(|(name, _)| *name == "config.json").map_or(&b""[..], |(_, bytes)| bytes)
    }

    /// Over names and contents, each preceded by its length.
    fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (name, bytes) in self.files {
            for part in [name.as_bytes(), bytes] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Writes the folder unless it exists. `content` returns the content of each file.
    fn ensure_folder<'a>(
        &'a self,
        cache_dir: &Path,
        place: &Path,
        content: impl Fn(&str, &'a [u8]) -> Cow<'a, [u8]>,
    ) -> Result<(), ModelsError> {
        let files: Vec<_> = self.files.iter().map(|&(name, bytes)| (name, content(name, bytes))).collect();
        if is_whole(place, &files) { Ok(()) } else { self.write_folder(cache_dir, place, &files) }
    }

    fn write_folder(&self, cache_dir: &Path, place: &Path, files: &FolderFiles<'_>) -> Result<(), ModelsError> {
        static TURN: AtomicU64 = AtomicU64::new(0);
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let beside = cache_dir.join(format!(".{}-{}-{turn}.partial", self.name, process::id()));
        let failed = |path: &Path, source| ModelsError::Write { name: self.name, path: path.to_owned(), source };
        fs::create_dir_all(&beside).map_err(|source| failed(&beside, source))?;
        for (name, bytes) in files {
            let path = beside.join(name);
            fs::write(&path, bytes).map_err(|source| failed(&path, source))?;
        }
        let mut renamed = fs::rename(&beside, place);
        if renamed.is_err() && !is_whole(place, files) {
            // The existing folder is incomplete: a disk was full, or somebody removed a file.
            drop(fs::remove_dir_all(place));
            renamed = fs::rename(&beside, place);
        }
        if let Err(source) = renamed {
            drop(fs::remove_dir_all(&beside));
            // Another process may have been first.
            if !is_whole(place, files) {
                return Err(failed(place, source));
            }
        }
        Ok(())
    }
}
