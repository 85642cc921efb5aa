//! Imports a model folder of older formats. Weights of `torch.save` become safetensors, SentencePiece models and
//! vocabulary files become `tokenizer.json`, and configuration files are copied.
//!
//! ```text
//!   pytorch_model.bin, or its shards  --pickle, archive--> tensors --weights--> model*.safetensors (and index)
//!   spiece.model, spm.model, tokenizer.model, sentencepiece.bpe.model --.
//!   vocab.json + merges.txt                                             +--tokenizer--> tokenizer.json,
//!   vocab.txt                                                         --'               tokenizer_config.json
//!   *.safetensors, tokenizer.json, config.json                        --copied
//! ```
//!
//! Nothing in a file is executed, and the model is never in memory whole. Files are written beside the folder and
//! moved into it when all of them are complete.

mod archive;
mod pickle;
mod staging;
pub mod tokenizer;
mod weights;

use crate::CheckpointError;
use crate::folder::{read_config, read_index};
use staging::ImportStaging;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The summary of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Names of the files written, in order.
    pub files: Vec<String>,
    /// Tensors written; 0 if safetensors were copied.
    pub tensors: usize,
    /// Bytes of weights written.
    pub bytes: u64,
    /// Entries left out because the model does not need them.
    pub skipped: Vec<SkippedEntry>,
    /// Tensors left out because they are the same as another.
    pub tied: Vec<TiedTensor>,
    /// Tensors of f64, rounded to f32.
    pub narrowed: Vec<String>,
    /// The source of the tokenizer; `None` if the folder has no tokenizer.
    pub tokenizer: Option<tokenizer::TokenizerSource>,
}

/// An entry left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// The file with the entry.
    pub file: PathBuf,
    /// The entry's name in the file.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// A tensor left out because it is the same as another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiedTensor {
    /// The tensor left out.
    pub name: String,
    /// The tensor written in its place.
    pub same_as: String,
}

/// Files copied unchanged.
const COPIED: [&str; 4] = ["config.json", "generation_config.json", "special_tokens_map.json", "chat_template.jinja"];

/// Imports the model folder `dir` into the folder `out`: `config.json`, safetensors and, if `dir` has the files for
/// one, a tokenizer. `out` is created if necessary; it may hold other files, but no model.
///
/// # Errors
/// [`CheckpointError`], naming the file. `out` is then unchanged; if it did not exist, it is not created.
pub fn import(dir: &Path, out: &Path) -> Result<ImportReport, CheckpointError> {
    import_by(dir, out, tokenizer::SentencePieceRules::default())
}

/// [`import`] with a choice of the rules for SentencePiece tokenizers.
///
/// # Errors
/// As [`import`].
pub fn import_by(
    dir: &Path,
    out: &Path,
    rules: tokenizer::SentencePieceRules,
) -> Result<ImportReport, CheckpointError> {
    let (config, _) = read_config(dir)?;
    refuse_a_model(out)?;
    let staging = ImportStaging::create_beside(out)?;
    let mut report = ImportReport::default();
    let tied = config.get("tie_word_embeddings").and_then(serde_json::Value::as_bool) != Some(false);
    import_weights(dir, staging.path(), tied, &mut report)?;
    for name in COPIED {
        if dir.join(name).exists() {
            copy_file(dir, staging.path(), name, &mut report)?;
        }
    }
    report.tokenizer = tokenizer::import_tokenizer(dir, staging.path(), &config, rules, &mut report.files)?;
    staging.commit()?;
    Ok(report)
}

fn refuse_a_model(out: &Path) -> Result<(), CheckpointError> {
    if !out.exists() {
        return Ok(());
    }
    let entries = std::fs::read_dir(out).map_err(|source| CheckpointError::Read { path: out.to_owned(), source })?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let model = |name: &&String| *name == "config.json" || *name == "tokenizer.json" || name.ends_with(".safetensors");
    match names.iter().find(model) {
        Some(file) => Err(CheckpointError::Exists { folder: out.to_owned(), file: file.clone() }),
        None => Ok(()),
    }
}

fn import_weights(dir: &Path, out: &Path, tied: bool, report: &mut ImportReport) -> Result<(), CheckpointError> {
    // In the order in which a folder is opened.
    if dir.join("model.safetensors").exists() {
        return copy_file(dir, out, "model.safetensors", report);
    }
    let index = dir.join("model.safetensors.index.json");
    if index.exists() {
        let mut files: Vec<PathBuf> = read_index(&index)?.into_values().collect();
        files.dedup();
        files.sort();
        files.dedup();
        for file in files {
            let name = file.strip_prefix(dir).unwrap_or(&file).to_string_lossy().into_owned();
            copy_file(dir, out, &name, report)?;
        }
        return copy_file(dir, out, "model.safetensors.index.json", report);
    }
    let index = dir.join("pytorch_model.bin.index.json");
    if !index.exists() {
        let file = dir.join("pytorch_model.bin");
        if !file.exists() {
            let folder = dir.to_owned();
            let found = "neither those nor pytorch_model.bin or its index".to_owned();
            return Err(CheckpointError::NoWeights { folder, found, hint: String::new() });
        }
        weights::convert_file(&file, &out.join("model.safetensors"), tied, report)?;
        report.files.push("model.safetensors".to_owned());
        return Ok(());
    }
    let mut shards: Vec<PathBuf> = read_index(&index)?.into_values().collect();
    shards.sort();
    shards.dedup();
    let mut weight_map = BTreeMap::new();
    let mut sources: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for shard in shards {
        let name = weights::converted_name(&shard);
        let shown = name.display().to_string();
        if let Some(other) = sources.insert(name.clone(), shard.clone()) {
            let within = |path: &Path| path.strip_prefix(dir).unwrap_or(path).display().to_string();
            let (other, shard) = (within(&other), within(&shard));
            let reason =
                format!("shards {other} and {shard} would both be written as {shown}\nhint: rename one of them");
            return Err(CheckpointError::Format { path: index, reason });
        }
        for tensor in weights::convert_file(&shard, &out.join(&name), tied, report)? {
            if let Some(other) = weight_map.insert(tensor.clone(), shown.clone()) {
                let reason = format!("tensor {tensor} is in two shards, {other} and {shown}");
                return Err(CheckpointError::Format { path: index, reason });
            }
        }
        report.files.push(shown);
    }
    let path = out.join("model.safetensors.index.json");
    let about = serde_json::json!({"metadata": {"total_size": report.bytes}, "weight_map": weight_map});
    let text = serde_json::to_vec_pretty(&about).expect("names; this is a bug");
    std::fs::write(&path, text).map_err(|source| CheckpointError::Write { path: path.clone(), source })?;
    report.files.push("model.safetensors.index.json".to_owned());
    Ok(())
}

fn copy_file(dir: &Path, out: &Path, name: &str, report: &mut ImportReport) -> Result<(), CheckpointError> {
    let (from, to) = (dir.join(name), out.join(name));
    // A shard may lie in a folder of its own.
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).map_err(|source| CheckpointError::Write { path: folder.to_owned(), source })?;
    }
    std::fs::File::open(&from).map_err(|source| CheckpointError::Read { path: from.clone(), source })?;
    // Copies, not links: the source may be a cache and be cleared later.
    std::fs::copy(&from, &to).map_err(|source| CheckpointError::Write { path: to, source })?;
    report.files.push(name.to_owned());
    Ok(())
}
