//! Opens a model folder whole: tokenizer, model, engine.

use crate::architectures;
use crate::engine::{Engine, EngineOptions};
use crate::generate::Detokeniser;
use crate::heads;
use crate::loaded_model::{EncoderWithHeads, LoadedModel};
use crate::tokenise::{TokeniseError, Tokenizer};
use crate::warm_up::warm_up;
use crate::{LmError, architectures::ModelFamily};
use hopeval_checkpoint::Checkpoint;
use hopeval_device::Device;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An opened model folder.
#[derive(Debug)]
pub struct Session {
    /// The folder.
    pub folder: PathBuf,
    /// Answers requests.
    pub engine: Engine,
    /// `None` if the folder has no tokenizer: token ids still work.
    pub tokenizer: Option<Arc<Tokenizer>>,
    /// The family of the model.
    pub family: ModelFamily,
    /// Names of the token classifier's labels; empty without one.
    pub token_labels: Arc<[String]>,
    /// Names of the sequence classifier's labels; empty without one.
    pub sequence_labels: Arc<[String]>,
    /// Token types of the model; 0 or 1 if they mean nothing.
    pub token_types: usize,
    /// Tokens that end a continuation.
    pub ends: Vec<u32>,
}

impl Session {
    /// Opens a folder on a device, which is warmed up if it wants to be, and starts its engine.
    ///
    /// # Errors
    /// [`LmError`], naming the file, tensor or field.
    pub fn open<D: Device>(folder: &Path, device: D, options: EngineOptions) -> Result<Self, LmError> {
        let checkpoint = Checkpoint::open(folder)?;
        let tokenizer = Tokenizer::open_if_there(folder)?.map(Arc::new);
        let (_, family) = architectures::identify(&checkpoint)?;
        let (mut token_labels, mut sequence_labels): (Arc<[String]>, Arc<[String]>) = Default::default();
        let model = match family {
            ModelFamily::Decoder => LoadedModel::Decoder(architectures::open_decoder(&checkpoint, &device)?),
            ModelFamily::EncoderDecoder => {
                LoadedModel::EncoderDecoder(architectures::open_encoder_decoder(&checkpoint, &device)?)
            }
            ModelFamily::Encoder => {
                let heads = heads::open(&checkpoint, &device)?;
                token_labels = heads.token_classifier().map_or(Arc::default(), |head| head.labels().into());
                sequence_labels = heads.sequence_classifier().map_or(Arc::default(), |head| head.labels().into());
                LoadedModel::Encoder(EncoderWithHeads {
                    encoder: architectures::open_encoder(&checkpoint, &device)?,
                    heads,
                })
            }
        };
        // Opening belongs to no request. The first batch must pay for itself alone, and a device lost until now is an
        // error here.
        device.finish_work()?;
        warm_up(&device, &model, options.batch_tokens)?;
        let (ends, token_types) = (end_tokens(&checkpoint)?, model.token_types());
        let detokenise = tokenizer
            .clone()
            .map(|tokenizer| -> Box<Detokeniser> { Box::new(move |ids: &[u32]| tokenizer.decode(ids, true)) });
        let engine = Engine::start(device, model, options, detokenise)?;
        let folder = folder.to_owned();
        Ok(Self { folder, engine, tokenizer, family, token_labels, sequence_labels, token_types, ends })
    }

    /// The tokenizer, for a request with text.
    ///
    /// # Errors
    /// [`TokeniseError::Absent`].
    pub fn tokenizer(&self) -> Result<&Tokenizer, TokeniseError> {
        self.tokenizer.as_deref().ok_or_else(|| TokeniseError::Absent { folder: self.folder.clone() })
    }
}

/// Fields of `generation_config.json` that change what transformers and vLLM write even without sampling, with the
/// value that changes nothing. They do not count here.
const ALTERS_GREEDY: [(&str, f64); 3] =
    [("repetition_penalty", 1.0), ("no_repeat_ngram_size", 0.0), ("encoder_repetition_penalty", 1.0)];

/// Such fields whose mere presence counts.
const FORCES_TOKENS: [&str; 4] =
    ["suppress_tokens", "begin_suppress_tokens", "forced_bos_token_id", "forced_eos_token_id"];

/// Warns of what the folder's own settings of generation would change.
fn warn_of_ignored(path: &Path, generation: &serde_json::Map<String, serde_json::Value>) {
    let penalised = ALTERS_GREEDY.iter().filter(|(name, neutral)| {
        generation.get(*name).and_then(serde_json::Value::as_f64).is_some_and(|value| value != *neutral)
    });
    let is_set = |value: &serde_json::Value| !value.is_null() && value.as_array().is_none_or(|ids| !ids.is_empty());
    let forced = FORCES_TOKENS.iter().filter(|name| generation.get(**name).is_some_and(is_set));
    let ignored: Vec<&str> = penalised.map(|(name, _)| *name).chain(forced.copied()).collect();
    if !ignored.is_empty() {
        tracing::warn!(
            "{}: {} not applied: texts can differ from those of transformers and vLLM",
            path.display(),
            ignored.join(", ")
        );
    }
}

/// The end token of transformers' configuration class, where a folder does not name one.
fn usual_end(model_type: &str) -> Option<u32> {
    match model_type {
        "gpt2" => Some(50_256),
        "t5" => Some(1),
        "llama" | "mistral" | "opt" => Some(2),
        _ => None,
    }
}

/// `eos_token_id` of `generation_config.json`, or of `config.json`: one, several or none, as in transformers.
fn end_tokens(checkpoint: &Checkpoint) -> Result<Vec<u32>, LmError> {
    let path = checkpoint.folder().join("generation_config.json");
    let generation = match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&text).map_err(|source| {
            let (path, reason) = (path.clone(), format!("not a JSON object: {source}"));
            hopeval_checkpoint::CheckpointError::Format { path, reason }
        })?,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => serde_json::Map::new(),
        Err(source) => return Err(hopeval_checkpoint::CheckpointError::Read { path: path.clone(), source }.into()),
    };
    warn_of_ignored(&path, &generation);
    let config = checkpoint.config();
    let found = generation.get("eos_token_id").filter(|v| !v.is_null()).or_else(|| config.get("eos_token_id"));
    let bad = |found: &serde_json::Value| LmError::Config {
        folder: checkpoint.folder().to_owned(),
        field: "eos_token_id".into(),
        reason: format!("expected a token id or a list of them, found {found}"),
    };
    let id = |v: &serde_json::Value| v.as_u64().and_then(|id| u32::try_from(id).ok());
    match found {
        None => {
            let model_type = config.get("model_type").and_then(serde_json::Value::as_str).unwrap_or_default();
            Ok(usual_end(model_type).into_iter().collect())
        }
        Some(serde_json::Value::Null) => Ok(Vec::new()),
        Some(serde_json::Value::Array(ids)) => ids.iter().map(|v| id(v).ok_or_else(|| bad(v))).collect(),
        Some(one) => Ok(vec![id(one).ok_or_else(|| bad(one))?]),
    }
}

#[cfg(test)]
mod tests {
    use super::usual_end;

    /// As in the configuration classes of transformers 5.17.
    #[test]
    fn the_end_of_each_architecture() {
        let found = ["gpt2", "t5", "llama", "mistral", "opt", "qwen2", "bert"].map(usual_end);
        assert_eq!(found, [Some(50_256), Some(1), Some(2), Some(2), Some(2), None, None]);
    }
}
