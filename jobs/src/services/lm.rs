//! `kind = "lm"`: a Hugging Face folder behind the language-model engine.
//!
//! ```text
//!   request --prompts.. assembled, tokenised--> PreparedRequest: engine requests, and a builder of the response
//!             (threads of the service)             |
//!                                                  +--submit--> Engine (one for the process) --reply--> ticket
//! ```
//!
//! A service's abilities depend on its checkpoint: language models score and generate; an encoder embeds, and its heads
//! decide the other abilities. On the CPU one engine serves all workers of a process: the workers share the device, so
//! their requests meet in its batches, its encoder states and its one copy of the weights, and its threads work inside
//! a batch. With `device = "cuda"` each worker has the engine of its own device, if there are enough devices
//! ([`Service::open_on_devices`]). Only the engine's own thread waits for the device; a second thread of the engine
//! answers the tickets.

pub(super) mod embed;
mod entailment;
pub(super) mod estimate;
mod generate;
mod label;
pub mod model;
mod nli;
mod pairs;
mod prompts;
mod read;
mod score;
mod serve;
mod settings;
mod tokeniser_threads;

pub use hopeval_lm::devices::DeviceName;
pub use settings::{EntailForm, LabelScope, LmSettings, PoolingName, PromptForm};

use self::model::Model;
use self::tokeniser_threads::TokeniserThreads;
use super::fragments::FragmentTexts;
use super::models;
use super::service::{
    Availability, CheckpointSummary, OpeningContext, OtherSettings, Service, ServiceSettings, SettingsError,
};
use super::thread::{ServiceTask, ServiceThread};
use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::mode::TimingMode;
use hopeval_corpus::Corpus;
use hopeval_device::DeviceError;
use hopeval_lm::engine::Engine;
use hopeval_lm::session::Session;
use hopeval_methods::{FailureKind, Request, RequestKind, Response};
use hopeval_wordrules::WordRules;
use std::ffi::OsStr;
use std::fmt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

impl ServiceSettings for LmSettings {
    fn resolve_paths(&mut self, base: &Path) {
        self.resolve_places(base);
    }

    fn check(&self, _: OtherSettings<'_>) -> Result<(), SettingsError> {
        Ok(self.check_values()?)
    }

    /// All kinds for models. The checkpoint later decides.
    fn may_answer(&self, kind: RequestKind) -> bool {
        !matches!(kind, RequestKind::Retrieve | RequestKind::Links | RequestKind::Passages)
    }

    /// Of a folder its own name: the place differs between machines.
    fn model_name(&self) -> Option<&str> {
        let path = Path::new(&self.model);
        path.file_name().and_then(OsStr::to_str).filter(|_| path.is_absolute()).or(Some(&self.model))
    }

    fn has_model(&self) -> bool {
        true
    }

    fn opens_checkpoint(&self) -> bool {
        true
    }

    fn open(&self, opening: &OpeningContext<'_>) -> Result<Arc<dyn Service>, JobError> {
        let settings = if opening.mode == TimingMode::Latency { self.without_sharing() } else { self.clone() };
        let service = LmService::new(opening.name, settings, opening.threads, opening.cache.root());
        Ok(Arc::new(LmService { fragments: opening.fragments.clone(), ..service }))
    }
}

/// A service with a language model. The model is opened on first use.
pub struct LmService {
    name: String,
    settings: LmSettings,
    threads: usize,
    /// The cache folder for hopeval's own models.
    cache: PathBuf,
    /// Texts for prompts.
    fragments: FragmentTexts,
    model: OnceLock<Model>,
    /// Threads beside the engine's; started before the model is open to all.
    tokenisers: OnceLock<TokeniserThreads>,
    /// Sessions on the second device and later ones.
    further: OnceLock<Vec<Session>>,
    opening: Mutex<()>,
    /// Whether the warning about too little memory for batches was logged.
    told_halved: AtomicBool,
}

impl fmt::Display for LmService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.settings.model)
    }
}

impl LmService {
    /// The service `name`, with `threads` threads unless its settings name a number.
    pub(super) fn new(name: &str, settings: LmSettings, threads: usize, cache: &Path) -> Self {
        Self {
            name: name.to_owned(),
            threads: settings.threads.unwrap_or(threads),
            settings,
            cache: cache.to_owned(),
            fragments: FragmentTexts::default(),
            model: OnceLock::new(),
            tokenisers: OnceLock::new(),
            further: OnceLock::new(),
            opening: Mutex::new(()),
            told_halved: AtomicBool::new(false),
        }
    }

    /// Its model, opened by the first call.
    ///
    /// # Errors
    /// [`JobError::NoModel`], [`JobError::WordRules`], [`JobError::Model`], [`JobError::Thread`].
    pub fn model(&self) -> Result<&Model, JobError> {
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = self.model.get() {
            return Ok(model);
        }
        let folder = models::find_folder(&self.name, &self.settings.model, &self.cache)?;
        let rules = self.settings.word_rules.as_deref().map(WordRules::open).transpose();
        let rules = rules.map_err(|source| JobError::WordRules { name: self.name.clone(), source })?;
        let opened = Model::open(&folder, &self.settings, rules, self.threads);
        let model = opened.map_err(|source| JobError::Model { name: self.name.clone(), folder, source })?;
        let tokenisers = TokeniserThreads::start(&self.name, self.threads)?;
        self.tokenisers.get_or_init(|| tokenisers);
        Ok(self.model.get_or_init(|| Model { fragments: self.fragments.clone(), ..model }))
    }

    /// The engine of a worker's own device, if the model is open.
    pub(super) fn engine(&self, worker: usize) -> Option<&Engine> {
        let further = self.further.get().map_or(&[][..], Vec::as_slice);
        match worker % (1 + further.len()) {
            0 => self.model_if_open().map(|model| &model.session.engine),
            nth => further.get(nth - 1).map(|session| &session.engine),
        }
    }

    /// The response of its model, or the failure to open it.
    fn with_model(&self, ask: impl FnOnce(&Model) -> Response) -> Response {
        match self.model() {
            Ok(model) => ask(model),
            Err(error) => Response::failure(FailureKind::Unavailable, error.to_string()),
        }
    }

    /// Its model and the threads beside its engines, if the model is open.
    fn model_and_tokenisers(&self) -> Option<(&Model, &TokeniserThreads)> {
        self.model.get().zip(self.tokenisers.get())
    }

    /// Its model, if it is open.
    pub(super) fn model_if_open(&self) -> Option<&Model> {
        self.model.get()
    }
}

impl Service for LmService {
    fn probe(&self, _: &Corpus, report: ProgressReporter<'_>) -> Result<Availability, JobError> {
        report(&format!("model {}", self.name), 0);
        let model = self.model()?;
        let (answers, identity) = (model.answers().to_vec(), vec![model.digest().to_owned()]);
        Ok(Availability { answers, identity, index: None, abilities: model.abilities() })
    }

    fn open_on_devices(&self, workers: usize) -> Result<(), JobError> {
        let folder = &self.model()?.session.folder;
        let failed = |source| JobError::Model { name: self.name.clone(), folder: folder.clone(), source };
        if self.further.get().is_some() {
            return Ok(());
        }
        let devices = self.settings.device.device_count(workers).map_err(|error| failed(error.into()))?;
        let open = &|nth| self.settings.device.open(nth, Some(self.threads), folder, self.settings.options());
        // Beside each other: each reads the weights and prepares them for its device.
        let further = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..devices).map(|nth| scope.spawn(move || open(nth))).collect();
            let opened = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            opened.collect::<Result<Vec<_>, _>>()
        });
        let further = further.map_err(failed)?;
        let numerics = |session: &Session| session.engine.identity().numerics.clone();
        let first = numerics(&self.model()?.session);
        // A key has one answer, so all devices must compute alike.
        if let Some((nth, other)) = further.iter().map(numerics).enumerate().find(|(_, other)| *other != first) {
            let name = format!("cuda:{}", nth + 1);
            let reason = format!(
                "it computes as {other}, and cuda:0 as {first}, so their last digits differ; let CUDA_VISIBLE_DEVICES \
                 show devices of one kind, or take one by `device = \"cuda:N\"`"
            );
            return Err(failed(DeviceError::Unavailable { name, reason }.into()));
        }
        self.further.get_or_init(|| further);
        Ok(())
    }

    fn serve(&self, thread: &ServiceThread, tasks: &Receiver<ServiceTask>) {
        serve::serve_tasks(thread, self, tasks);
    }

    fn answer(&self, corpus: &Corpus, request: &Request) -> Response {
        self.with_model(|model| model.answer(corpus, request))
    }

    fn estimate(&self, corpus: &Corpus, request: &Request) -> Response {
        self.with_model(|model| model.estimate(corpus, request))
    }

    fn prepared_requests(&self) -> Option<(u64, u64)> {
        let further = self.further.get().map_or(&[][..], Vec::as_slice);
        let engines = self.model_if_open().map(|model| &model.session).into_iter().chain(further);
        let counters = engines.map(|session| session.engine.counters());
        counters
            .map(|counters| {
                (counters.requests.load(Ordering::Relaxed), counters.requested_tokens.load(Ordering::Relaxed))
            })
            .reduce(|sum, more| (sum.0 + more.0, sum.1 + more.1))
    }

    fn parameter_count(&self) -> Option<u64> {
        self.model_if_open().map(Model::parameters)
    }

    fn checkpoint(&self) -> Option<CheckpointSummary> {
        let name = self.settings.model.clone();
        self.model_if_open().map(|model| CheckpointSummary { name, tags: model.tag_count() })
    }
}

#[cfg(test)]
#[path = "../../../tests/support/rules_file.rs"]
mod rules_file;

#[cfg(test)]
mod tests {
    use super::rules_file::RulesFile;
    use super::{FailureKind, JobError, LmService, LmSettings, Request, Response};
    use crate::services::conformance::{Effect, ServiceKind, check_answers, check_kind, settings, tiny_model};
    use hopeval_methods::request::{
        EmbedPayload, EmbedRole, EntailPayload, FilterPayload, GeneratePayload, LabelPayload, ReadPayload,
        RerankPayload, Sampling, ScorePayload, SpanText, TextFormat,
    };
    use hopeval_methods::{ChatRole, Content, OverflowRule, Prompt, PromptPart, RequestPayload};
    use std::path::Path;

    fn of_model(model: &str, more: &str, asks: Vec<RequestPayload>, dir: &Path) -> ServiceKind {
        let table = format!("model = {:?}\nthreads = 2\n{more}", tiny_model(model, dir));
        ServiceKind { kind: "lm", table, asks, ..ServiceKind::default() }
    }

    fn text(text: &str) -> Content {
        Content::Text(text.into())
    }

    fn prompt(text: &str) -> Prompt {
        Prompt::text(text)
    }

    fn embed(words: &str) -> RequestPayload {
        EmbedPayload { text: text(words), role: EmbedRole::Query }.into()
    }

    fn generate(sampling: Sampling) -> RequestPayload {
        let (prompt, format) = (prompt("The city lies near"), TextFormat::Text);
        GeneratePayload { prompt, max_tokens: 4, stop: Vec::new(), sampling, format, logprobs: false }.into()
    }

    #[test]
    fn lm_conforms() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let elsewhere = tempfile::tempdir().expect("a temporary folder");
        let asks = vec![generate(Sampling::Greedy)];
        let mut kind = of_model("gpt2", "", asks, dir.path());
        let template = "{% for message in messages %}{{ message.content }}{% endfor %}";
        std::fs::write(dir.path().join("gpt2/chat_template.jinja"), template).expect("a template");
        // Place and speed of the model. The same checkpoint in another folder is the same model.
        let same_model = format!("model = {:?}", tiny_model("gpt2", elsewhere.path()));
        let speed = ["threads = 1", "device = \"cpu\"", "batch_tokens = 64", "states_tokens = 9", "cache_tokens = 9"];
        kind.settings = settings(Effect::None, &speed);
        kind.settings.extend(settings(Effect::None, &[&same_model]));
        kind.settings.extend(settings(
            Effect::Answers,
            &[
                "pooling = \"cls\"",
                "normalize = true",
                "max_tokens = 8",
                "query_prefix = \"q: \"",
                "passage_prefix = \"p: \"",
            ],
        ));
        let rules = dir.path().join("tokenizer");
        std::fs::write(&rules, RulesFile::small().bytes()).expect("a file of rules");
        kind.settings.extend(settings(Effect::Answers, &[&format!("word_rules = {rules:?}")]));
        // One fingerprint covers all kinds of requests: these settings change the answers of other checkpoints.
        kind.settings.extend(settings(
            Effect::Answers,
            &[
                "target_eos = false",
                "label_tokens = 60",
                "label_scope = \"sequence\"",
                "filter_tokens = 60",
                "drop_commas = false",
                "pair_tokens = 60",
                "entail_label = \"yes\"",
                "entail = \"true_nli\"",
                "read_tokens = 60",
                "question_tokens = 9",
                "seed = 4",
                "prompt = \"chat\"",
                "chat_variables = { a = 1 }\nprompt = \"chat\"",
            ],
        ));
        check_kind(&kind);
    }

    #[test]
    fn every_ability_of_checkpoints_conforms() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let sampled = Sampling::sample(1.0, 1.0, 5);
        let score = || ScorePayload {
            prompt: prompt("Ghent is a city."),
            target: prompt("bridges"),
            temperatures: vec![1.0, 1.4],
        };
        let pairs = vec![text("Ghent has 6 bridges."), text("Halle is a city.")];
        let label = LabelPayload { query: "bridges of Ghent".into(), chunk: text("Ghent has 6 bridges.") };
        let filter = FilterPayload { query: "bridges of Ghent".into(), information: vec!["Ghent".into(), "6".into()] };
        let entail = EntailPayload { premise: prompt("Ghent has 6 bridges."), hypothesis: "Ghent has bridges.".into() };
        let read = ReadPayload {
            question: "How many bridges?".into(),
            context: prompt("Ghent has 6 bridges."),
            max_answer_tokens: 5,
            spans: 2,
            ..ReadPayload::default()
        };
        let rules = dir.path().join("tokenizer");
        std::fs::write(&rules, RulesFile::small().bytes()).expect("a file of rules");
        let rules = format!("word_rules = {rules:?}");
        let words = |read| ReadPayload { span_text: SpanText::Words, ..read };
        let marked = |read| {
            let (markers, context) = (vec!["[SEP]".to_owned()], prompt("yes no [SEP] Ghent has 6 bridges."));
            ReadPayload { markers, context, span_text: SpanText::FinalText, ..read }
        };
        for (model, more, asks) in [
            ("bert", "", vec![embed("bridges of Ghent"), embed("near Corin")]),
            ("t5-v1.1", "", vec![score().into(), generate(Sampling::Greedy)]),
            ("gpt2", "seed = 3", vec![score().into(), generate(Sampling::Greedy), generate(sampled)]),
            ("efficientrag-labeler", "label_tokens = 60", vec![label.clone().into()]),
            ("efficientrag-labeler", rules.as_str(), vec![label.into()]),
            ("deberta-v3-token", "", vec![filter.into()]),
            ("roberta-rerank", "", vec![RerankPayload { query: "bridges".into(), items: pairs }.into()]),
            ("bert-sequence", "entail_label = \"yes\"", vec![entail.clone().into()]),
            ("t5-v1.1", "entail = \"true_nli\"", vec![entail.into(), score().into()]),
            ("electra-span", "", vec![read.clone().into(), words(read.clone()).into(), marked(read).into()]),
        ] {
            check_answers(&of_model(model, more, asks, dir.path()));
        }
    }

    /// The fingerprints of a labeler with a line in its table: of its answers, and of passages' vectors.
    fn digests(more: &str, dir: &Path) -> (String, String) {
        let model = tiny_model("efficientrag-labeler", dir);
        let table = format!("model = {model:?}\nthreads = 1\n{more}");
        let service = LmService::new("labeler", toml::from_str(&table).expect("settings"), 1, dir);
        let model = service.model().expect("a model");
        (model.digest().to_owned(), model.vectors_digest().to_owned())
    }

    #[test]
    fn word_rules_are_in_the_key_of_answers_and_not_of_vectors() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("tokenizer");
        let line = format!("word_rules = {path:?}");
        let own = digests("", dir.path());
        let mut rules = RulesFile::small();
        std::fs::write(&path, rules.bytes()).expect("a file of rules");
        let small = digests(&line, dir.path());
        rules.add_special_case(&["Gh", "ent"]);
        std::fs::write(&path, rules.bytes()).expect("a file of rules");
        let other = digests(&line, dir.path());
        assert!(own.0 != small.0 && small.0 != other.0 && own.0 != other.0);
        assert!(own.1 == small.1 && small.1 == other.1);
    }

    /// Opens gpt2's fixture with a chat template, and asks it.
    fn chat_answer(template: Option<&str>, prompt: Prompt) -> Result<Response, JobError> {
        let (dir, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let model = tiny_model("gpt2", dir.path());
        if let Some(template) = template {
            std::fs::write(model.join("chat_template.jinja"), template).expect("a template");
        }
        let settings: LmSettings =
            toml::from_str(&format!("model = {model:?}\nthreads = 1\nprompt = \"chat\"")).expect("settings");
        let corpus = crate::services::conformance::corpus(dir.path());
        let service = LmService::new("chat", settings, 1, cache.path());
        let (stop, sampling, format) = (Vec::new(), Sampling::Greedy, TextFormat::Text);
        let ask = GeneratePayload { prompt, max_tokens: 4, stop, sampling, format, logprobs: false };
        Ok(service.model()?.answer(&corpus, &Request::new(&"chat".into(), ask)))
    }

    #[test]
    fn chats_are_rendered_counted_and_refused_with_the_template_s_words() {
        let part = |role, words: &str| PromptPart { role, ..PromptPart::text(words) };
        let parts = vec![part(ChatRole::System, "Be short."), part(ChatRole::User, "Who?")];
        let asked = |overflow| Prompt { parts: parts.clone(), overflow, ..Prompt::default() };
        let marked = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]";
        let answered = chat_answer(Some(marked), asked(Vec::new())).expect("a model");
        let tokens = answered.prompt.expect("a report").tokens;
        // As many as of the text that the template writes; GPT-2 has no special tokens around it.
        let plain = chat_answer(Some("[system] Be short.\n[user] Who?\n[assistant]"), asked(Vec::new()));
        assert_eq!(tokens, plain.expect("a model").prompt.expect("a report").tokens);
        assert!(answered.result.is_ok());
        let drop = OverflowRule::Drop { part: 0 };
        let fitting = Prompt { budget: Some(tokens - 1), ..asked(vec![drop]) };
        let report = chat_answer(Some(marked), fitting).expect("a model").prompt.expect("a report");
        assert_eq!(report.dropped, [0]);
        let refusing = "{{ raise_exception('no system here') }}";
        let refused = chat_answer(Some(refusing), asked(Vec::new())).expect("a model").result.unwrap_err();
        assert_eq!(refused.kind, FailureKind::Refused);
        assert!(refused.message.contains("no system here"), "{}", refused.message);
        let Err(JobError::Model { source, .. }) = chat_answer(None, asked(Vec::new())) else { panic!("no template") };
        assert!(source.to_string().contains("no chat template"), "{source}");
    }
}
