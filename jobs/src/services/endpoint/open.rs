//! The opened service: its settings, its model's tokenizer, its client.

use super::desk::BatchDesk;
use crate::error::JobError;
use crate::services::fragments::FragmentTexts;
use hopeval_endpoint::{AnswerKind, Endpoint, EndpointError, EndpointHost, EndpointSettings};
use hopeval_lm::tokenise::Tokenizer;
use hopeval_methods::ServiceAbility;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A model behind an endpoint.
pub(in crate::services) struct EndpointService {
    pub(super) name: String,
    pub(super) settings: EndpointSettings,
    /// Texts for prompts.
    pub(super) fragments: FragmentTexts,
    /// The model's tokenizer with its digest, if the job names one.
    tokenizer: OnceLock<Option<(Arc<Tokenizer>, String)>>,
    /// The client, opened by the first request.
    endpoint: OnceLock<Endpoint>,
    opening: Mutex<()>,
    /// The batch files, while a run uses them.
    pub(super) desk: Mutex<Option<BatchDesk>>,
}

impl EndpointService {
    /// The service `name`; nothing is opened yet.
    pub(in crate::services) fn new(name: &str, settings: EndpointSettings, fragments: FragmentTexts) -> Self {
        Self {
            name: name.to_owned(),
            settings,
            fragments,
            tokenizer: OnceLock::new(),
            endpoint: OnceLock::new(),
            opening: Mutex::new(()),
            desk: Mutex::new(None),
        }
    }

    /// The model's tokenizer and its digest, if the job names one.
    ///
    /// # Errors
    /// [`JobError::EndpointTokenizer`], [`JobError::Io`].
    pub(super) fn tokenizer(&self) -> Result<Option<&(Arc<Tokenizer>, String)>, JobError> {
        if let Some(found) = self.tokenizer.get() {
            return Ok(found.as_ref());
        }
        let opened = match &self.settings.tokenizer {
            None => None,
            Some(folder) => {
                let tokenizer = Tokenizer::open(folder)
                    .map_err(|source| JobError::EndpointTokenizer { service: self.name.clone(), source })?;
                Some((Arc::new(tokenizer), tokenizer_digest(folder)?))
            }
        };
        Ok(self.tokenizer.get_or_init(|| opened).as_ref())
    }

    /// The tokenizer, if it is open. [`Service::probe`] opens it.
    pub(super) fn open_tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.get()?.as_ref().map(|(tokenizer, _)| &**tokenizer)
    }

    /// The client, if it is open.
    pub(super) fn open_endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.get()
    }

    /// The client; the first call opens it for `host`.
    ///
    /// # Errors
    /// [`JobError::Endpoint`].
    pub(super) fn endpoint(&self, host: impl FnOnce() -> EndpointHost) -> Result<&Endpoint, JobError> {
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = self.endpoint.get() {
            return Ok(endpoint);
        }
        let failed = |source: EndpointError| JobError::Endpoint { service: self.name.clone(), source };
        let key = self.settings.read_key().map_err(failed)?;
        let endpoint = Endpoint::open(&self.name, &self.settings, key, host()).map_err(failed)?;
        Ok(self.endpoint.get_or_init(|| endpoint))
    }

    /// Its abilities beyond answering at all, by its dialect.
    pub(super) fn abilities(&self) -> Vec<ServiceAbility> {
        let facts = self.settings.facts();
        let can = |ability: &ServiceAbility| match ability {
            ServiceAbility::Continue => self.settings.continues(),
            ServiceAbility::Json => facts.json_object,
            ServiceAbility::Schema => facts.schema != hopeval_endpoint::dialect::SchemaForm::Absent,
            ServiceAbility::SpecialTokens => false,
            ServiceAbility::Logprobs => facts.logprobs,
            // Of OpenAI's own interface, and sent whatever the dialect.
            ServiceAbility::Penalties | ServiceAbility::ServerSampling => true,
            ServiceAbility::RepetitionPenalty => facts.repetition_penalty.is_some(),
        };
        match self.settings.answers.contains(&AnswerKind::Generate) {
            true => ServiceAbility::ALL.into_iter().filter(can).collect(),
            false => Vec::new(),
        }
    }
}

/// The hash of everything that decides a tokenizer's ids.
fn tokenizer_digest(folder: &Path) -> Result<String, JobError> {
    let mut hasher = blake3::Hasher::new();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        let path = folder.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => {
                hasher.update(name.as_bytes()).update(&(bytes.len() as u64).to_le_bytes()).update(&bytes);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && name != "tokenizer.json" => {}
            Err(source) => return Err(JobError::Io { path, operation: "cannot read the tokenizer", source }),
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}
