//! A language model at work: turns a request into engine requests, and the engine's answers into a response.

use super::entailment::entailment_position;
use super::settings::{EntailForm, LmSettings, PromptForm};
use crate::services::fragments::FragmentTexts;
use crate::services::service::refuse_kind;
use hopeval_checkpoint::Checkpoint;
use hopeval_corpus::Corpus;
use hopeval_lm::LmError;
use hopeval_lm::architectures::ModelFamily;
use hopeval_lm::chat_template::ChatTemplate;
use hopeval_lm::engine::{Completion, Refusal};
use hopeval_lm::request as engine;
use hopeval_lm::session::Session;
use hopeval_lm::tokenise::Tokenizer;
use hopeval_methods::{
    Answer, AnswerWork, Failure, FailureKind, PromptReport, Request, RequestKind, RequestPayload, Response,
    ServiceAbility,
};
use hopeval_wordrules::WordRules;
use std::path::Path;
use std::sync::Arc;

/// Version of the answers. It rises when they change for other reasons than checkpoint or parameters.
const VERSION: &str = "lm 1";

/// A model at work.
pub struct Model {
    pub(super) session: Session,
    pub(super) tokenizer: Arc<Tokenizer>,
    /// With `prompt = "chat"`.
    pub(super) chat: Option<ChatTemplate>,
    /// With `word_rules`.
    pub(super) word_rules: Option<WordRules>,
    pub(super) settings: LmSettings,
    /// Texts for prompts.
    pub(super) fragments: FragmentTexts,
    pub(super) answers: Vec<RequestKind>,
    pub(super) digest: String,
    pub(super) vectors_digest: String,
    pub(super) parameters: u64,
}

impl Model {
    pub(super) fn open(
        folder: &Path,
        settings: &LmSettings,
        word_rules: Option<WordRules>,
        threads: usize,
    ) -> Result<Self, LmError> {
        let session = settings.device.open(0, Some(threads), folder, settings.options())?;
        let tokenizer = match &session.tokenizer {
            Some(tokenizer) => Arc::clone(tokenizer),
            // Opening it gives the error with its hint.
            None => Arc::new(Tokenizer::open(folder)?),
        };
        let checkpoint = Checkpoint::open(folder)?;
        let chat = match settings.prompt {
            PromptForm::Plain => None,
            PromptForm::Chat => Some(ChatTemplate::open(folder, &settings.chat_variables)?),
        };
        let mut parts = vec![
            VERSION.to_owned(),
            checkpoint.weights_digest().to_owned(),
            checkpoint.tokenizer_digest()?.unwrap_or_default(),
            session.engine.identity().numerics.clone(),
            format!("{:?}", session.ends),
        ];
        parts.extend(chat.as_ref().map(|chat| chat.source().to_owned()));
        let parts = parts.join("\n");
        let digest =
            |behaviour: String| blake3::hash([&parts, "\n", &behaviour].concat().as_bytes()).to_hex().to_string();
        // The rules cut no text that is embedded.
        let rules = word_rules.as_ref().map(|rules| format!("\n{}", rules.digest())).unwrap_or_default();
        let digests = (digest(settings.behaviour() + &rules), digest(settings.behaviour_for_passages()));
        let (digest, vectors_digest) = digests;
        let answers = supported_kinds(&session, settings);
        let shapes = checkpoint.names().filter_map(|name| Some(&checkpoint.get(name)?.shape));
        let parameters = shapes.map(|shape| shape.iter().map(|&n| n as u64).product::<u64>()).sum();
        let (settings, fragments) = (settings.clone(), FragmentTexts::default());
        Ok(Self {
            session,
            tokenizer,
            chat,
            word_rules,
            settings,
            fragments,
            answers,
            digest,
            vectors_digest,
            parameters,
        })
    }

    /// The kinds of requests this model answers.
    pub fn answers(&self) -> &[RequestKind] {
        &self.answers
    }

    /// Its further abilities. A model that reads plain text continues whatever it reads.
    pub(super) fn abilities(&self) -> Vec<ServiceAbility> {
        match self.answers.contains(&RequestKind::Generate) {
            true => vec![ServiceAbility::Continue, ServiceAbility::SpecialTokens, ServiceAbility::Logprobs],
            false => Vec::new(),
        }
    }

    /// Hash of everything that can change its answers: weights with their types, configuration, tokenizer, the device's
    /// numerics class, word rules, and all settings except those for speed.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Hash of everything that can change a passage's vector: as [`Model::digest`], without settings for other answers.
    pub(in crate::services) fn vectors_digest(&self) -> &str {
        &self.vectors_digest
    }

    /// Number of sequence labels; for a labeler, its tags.
    pub(in crate::services) fn tag_count(&self) -> usize {
        self.session.sequence_labels.len()
    }

    /// Number of its weights.
    pub fn parameters(&self) -> u64 {
        self.parameters
    }

    /// Answers one request directly.
    pub fn answer(&self, corpus: &Corpus, request: &Request) -> Response {
        match self.prepare(corpus, request) {
            Ok(PreparedRequest { requests, builder }) => builder.build_response(self.session.engine.ask(requests)).0,
            Err(response) => *response,
        }
    }

    /// Prepares the engine requests for a request.
    ///
    /// # Errors
    /// The response, if no engine request is needed.
    pub(super) fn prepare(&self, corpus: &Corpus, request: &Request) -> Result<PreparedRequest, Box<Response>> {
        let kind = request.ask.kind();
        if !self.answers.contains(&kind) {
            return Err(Box::new(refuse_kind(request)));
        }
        let asked = match &request.ask {
            RequestPayload::Score(score) => self.score(corpus, score),
            RequestPayload::Label(label) => self.label(corpus, label),
            RequestPayload::Filter(filter) => self.filter(filter),
            RequestPayload::Rerank(rerank) => self.rerank(corpus, rerank),
            RequestPayload::Entail(entail) => self.entail(corpus, entail),
            RequestPayload::Read(read) => self.read(corpus, read),
            RequestPayload::Embed(embed) => self.embed(corpus, embed),
            RequestPayload::Generate(generate) => self.generate(corpus, generate, request.draw),
            RequestPayload::Retrieve(_) | RequestPayload::Passages(_) | RequestPayload::Links(_) => {
                return Err(Box::new(refuse_kind(request)));
            }
        };
        asked.map_err(|failure| Box::new(Response::from_failure(failure)))
    }

    /// The greatest length of a sequence for the model; `most` is the limit of a setting.
    pub(super) fn length_limit(&self, most: usize) -> usize {
        most.min(self.session.engine.abilities().sizes.max_positions.unwrap_or(usize::MAX))
    }

    /// The tokenizer's token types if the model has several, else no types.
    pub(super) fn type_ids(&self, type_ids: Vec<u32>) -> engine::TokenIds {
        if self.session.token_types > 1 { type_ids.into() } else { engine::TokenIds::default() }
    }
}

/// The kinds of requests a checkpoint can answer, in the order of the kinds.
fn supported_kinds(session: &Session, settings: &LmSettings) -> Vec<RequestKind> {
    if session.family != ModelFamily::Encoder {
        let mut kinds = vec![RequestKind::Score, RequestKind::Generate];
        if settings.entail == EntailForm::TrueNli {
            kinds.insert(1, RequestKind::Entail);
        }
        return kinds;
    }
    let (token, sequence) = (!session.token_labels.is_empty(), session.sequence_labels.len());
    let reads = session.engine.abilities().tasks.contains(&"read");
    let entails = settings.entail.is_classifier() && entailment_position(session, settings).is_some();
    let offers = [
        (RequestKind::Label, token && sequence > 0),
        (RequestKind::Filter, token && sequence == 0),
        (RequestKind::Rerank, !token && sequence == 1),
        (RequestKind::Entail, !token && entails),
        (RequestKind::Read, reads),
        (RequestKind::Embed, true),
    ];
    offers.into_iter().filter_map(|(kind, offered)| offered.then_some(kind)).collect()
}

type AnswerDecoder = Box<dyn FnOnce(Vec<engine::Answer>) -> Result<Answer, Failure> + Send>;

/// The engine requests for one request.
pub(super) struct PreparedRequest {
    pub(super) requests: Vec<engine::Request>,
    pub(super) builder: ResponseBuilder,
}

/// Turns the engine's answers into a response.
pub(super) struct ResponseBuilder {
    pub(super) report: Option<PromptReport>,
    pub(super) finish: AnswerDecoder,
}

/// The usage of the engine by an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::services) struct EngineUsage {
    pub(super) service_s: f64,
    /// Seconds of the device.
    pub(in crate::services) device_s: f64,
    /// Seconds of the device with metered energy.
    pub(in crate::services) metered_s: f64,
    /// Joules used in the metered seconds.
    pub(in crate::services) energy_j: f64,
    /// Its share of the tokens computed by the model.
    pub(in crate::services) computed_tokens: u64,
}

impl PreparedRequest {
    /// A single engine request.
    pub(super) fn single_request(
        request: engine::Request,
        report: Option<PromptReport>,
        finish: impl FnOnce(engine::Answer) -> Result<Answer, Failure> + Send + 'static,
    ) -> Self {
        Self { requests: vec![request], builder: ResponseBuilder::for_single_request(report, finish) }
    }
}

impl ResponseBuilder {
    /// For a single engine request.
    pub(super) fn for_single_request(
        report: Option<PromptReport>,
        finish: impl FnOnce(engine::Answer) -> Result<Answer, Failure> + Send + 'static,
    ) -> Self {
        let first = move |answers: Vec<engine::Answer>| match answers.into_iter().next() {
            Some(answer) => finish(answer),
            None => Err(Failure { kind: FailureKind::Dropped, message: "the engine gave no answer".to_owned() }),
        };
        Self { report, finish: Box::new(first) }
    }

    /// The response and its usage, from the completions of the engine requests, in their order.
    pub(super) fn build_response(self, completions: Vec<Completion>) -> (Response, EngineUsage) {
        let (mut work, mut usage) = (AnswerWork::default(), EngineUsage::default());
        let mut answers = Vec::with_capacity(completions.len());
        let mut refused = None;
        for Completion { result, work: needed, cost } in completions {
            work += AnswerWork {
                prompt_tokens: needed.prompt_tokens,
                completion_tokens: needed.completion_tokens,
                scored_tokens: needed.scored_tokens,
                operations: needed.operations,
            };
            usage.service_s = usage.service_s.max(cost.service_s);
            usage.device_s += cost.device_s;
            if let Some(joules) = cost.energy_j {
                usage.metered_s += cost.device_s;
                usage.energy_j += joules;
            }
            usage.computed_tokens += cost.computed_tokens;
            match result {
                Ok(answer) => answers.push(answer),
                Err(refusal) => refused = refused.or(Some(engine_failure(&refusal))),
            }
        }
        let result = match refused {
            Some(failure) => Err(failure),
            None => (self.finish)(answers),
        };
        let response = match result {
            Ok(answer) => Response::answer(answer, work),
            Err(failure) => Response { work, ..Response::from_failure(failure) },
        };
        (Response { prompt: self.report, ..response }, usage)
    }
}

/// A refusal of the engine as a failure for methods.
fn engine_failure(refusal: &Refusal) -> Failure {
    let kind = match refusal {
        Refusal::Positions { .. } => FailureKind::ContextOverflow,
        // Sizes of batches and caches, and abilities of devices, are not part of a key: another run must not reuse this
        // answer.
        Refusal::TooLong { .. } | Refusal::OutOfMemory { .. } | Refusal::Incapable { .. } => FailureKind::Unavailable,
        Refusal::Device { .. } => FailureKind::DeviceLost,
        Refusal::NotFinite => FailureKind::ParseFailure,
        Refusal::Empty { .. } | Refusal::Token { .. } | Refusal::Parameter { .. } | Refusal::Unsupported { .. } => {
            FailureKind::Refused
        }
    };
    let hint = match refusal {
        Refusal::TooLong { what: "the cache", .. } => " (raise the service's `cache_tokens`)",
        Refusal::TooLong { .. } => " (raise the service's `batch_tokens`)",
        Refusal::OutOfMemory { .. } => " (lower what services on this device keep: `states_tokens`, `cache_tokens`)",
        _ => "",
    };
    Failure { kind, message: format!("{refusal}{hint}") }
}

/// Panics because the engine's answer has another kind than its request.
pub(super) fn unexpected_answer(answer: &engine::Answer) -> ! {
    panic!("{answer:?} answers another request; this is a bug")
}

pub(super) fn encoded_answer(answer: engine::Answer) -> engine::EncodeResult {
    match answer {
        engine::Answer::Encoded(encoded) => encoded,
        other => unexpected_answer(&other),
    }
}
