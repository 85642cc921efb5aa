//! `kind = "dense"`: exact inner products of a query's vector with the vectors of all or some passages. An encoder of
//! the job makes the vectors.
//!
//! ```text
//!   passages --encoder, each worker a part--> vectors --> index in the cache of every host            once ([`build`])
//!   queries  --encoder, a batch--> vectors --> products with the mapped index --> rankings            in each run
//! ```
//!
//! The index's name hashes the corpus, everything that can change the encoder's vector of a passage, and the written
//! form of passages. So another model has another index, and another prefix of queries has the same. Every host has the
//! whole file. In a run with several workers each multiplies with its part of the rows ([`shards`]). A single worker,
//! or a caller outside a run, multiplies with all rows, here.

pub mod build;
pub(super) mod embedding;
mod punctuation;
pub mod query;
pub(super) mod retriever;
pub(super) mod serve;
mod settings;
pub mod shards;

pub use settings::{DenseFields, DenseSettings};

use self::embedding::EmbeddedQuery;
use self::retriever::VectorRetriever;
use super::corpus;
use super::lm::LmService;
use super::lm::model::Model;
use super::service::{
    Availability, IndexState, OpeningContext, OtherSettings, Service, ServiceSettings, Services, SettingsError,
    downcast_service, refuse_kind,
};
use super::thread::{ServiceTask, ServiceThread};
use super::usage::UsageCounters;
use crate::bad_value::{BadValue, ensure};
use crate::cache::{Cache, ProgressReporter};
use crate::error::JobError;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_index::{DenseIndex, DenseParameters, DenseWriter, SearchScratch};
use hopeval_lm::engine::Completion;
use hopeval_lm::request as engine;
use hopeval_methods::request::EmbedRole;
use hopeval_methods::{Failure, FailureKind, Request, RequestKind, RequestPayload, Response};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Version of the rankings. It rises when they change for other reasons than encoder or parameters.
const VERSION: &str = "dense 1";

impl ServiceSettings for DenseSettings {
    fn check(&self, others: OtherSettings<'_>) -> Result<(), SettingsError> {
        // The vectors of passages are made by the engine itself: an endpoint that embeds is no encoder of an index.
        let is_encoder = |other: &dyn ServiceSettings| other.opens_checkpoint() && other.may_answer(RequestKind::Embed);
        let embeds = others(&self.encoder).is_some_and(is_encoder);
        Ok(ensure(embeds, || BadValue::new("encoder", &self.encoder, "the name of a service of kind \"lm\""))?)
    }

    fn may_answer(&self, kind: RequestKind) -> bool {
        kind == RequestKind::Retrieve
    }

    fn needed_service(&self) -> Option<&str> {
        Some(&self.encoder)
    }

    fn has_model(&self) -> bool {
        true
    }

    fn open(&self, opening: &OpeningContext<'_>) -> Result<Arc<dyn Service>, JobError> {
        let encoder = opening.opened.get(self.encoder.as_str()).and_then(downcast_service::<LmService>);
        let encoder = encoder.expect("a job's dense services name encoders; this is a bug");
        Ok(Arc::new(DenseService::new(opening.name, self, encoder, opening.cache)?))
    }
}

/// A service with a dense index. [`build`] makes a missing index.
pub struct DenseService {
    name: String,
    settings: DenseSettings,
    encoder: Arc<LmService>,
    /// The folder of indexes.
    folder: PathBuf,
    /// Reads an existing index whole before use.
    cache: Cache,
    index: OnceLock<DenseIndex>,
    opening: Mutex<()>,
}

impl DenseService {
    /// The dense indexes among the services of a process, by name.
    pub fn dense_services(services: &Services) -> impl Iterator<Item = (Arc<str>, Arc<Self>)> {
        services.iter().filter_map(|(name, service)| Some((Arc::clone(name), downcast_service(service)?)))
    }

    /// The service `name` with its index in `cache`.
    ///
    /// # Errors
    /// The folder of indexes cannot be made.
    fn new(name: &str, settings: &DenseSettings, encoder: Arc<LmService>, cache: &Cache) -> Result<Self, JobError> {
        Ok(Self {
            name: name.to_owned(),
            settings: settings.clone(),
            encoder,
            folder: cache.ensure_folder("indexes")?,
            cache: cache.clone(),
            index: OnceLock::new(),
            opening: Mutex::new(()),
        })
    }

    /// The index's state for a run. Opens the encoder and an existing index; makes nothing.
    ///
    /// # Errors
    /// As [`VectorRetriever::open_or_get_index`], except for a missing index; an unreadable folder.
    fn index_state(&self, corpus: &Corpus) -> Result<IndexState, JobError> {
        let model = self.model()?;
        let (_, path) = self.index_place(corpus, model);
        let passages = corpus.len() as u64;
        if let Some(bytes) = file_size(&path)? {
            self.open_or_get_index(corpus)?;
            return Ok(IndexState { path, bytes, passages_to_embed: 0 });
        }
        let bytes = passages * self.settings.dtype.pitch(model.vector_width()) as u64;
        Ok(IndexState { path, bytes, passages_to_embed: passages })
    }

    /// Whether its index is missing.
    fn lacks_index(&self, corpus: &Corpus) -> Result<bool, JobError> {
        Ok(self.index.get().is_none() && file_size(&self.index_place(corpus, self.model()?).1)?.is_none())
    }

    /// The writer of its index file.
    fn index_writer(&self, corpus: &Corpus) -> Result<DenseWriter, JobError> {
        let model = self.model()?;
        let (parameters, path) = self.index_place(corpus, model);
        DenseWriter::create(&path, corpus.digest(), &parameters, model.vector_width(), corpus.len() as u32)
            .map_err(|source| JobError::Index { name: self.name.clone(), source })
    }

    /// The request to the encoder for the vector of a passage.
    fn passage_request(&self, corpus: &Corpus, passage: PassageId) -> Result<(&Model, engine::Request), Failure> {
        let model = self.model().map_err(|error| unavailable_failure(&error))?;
        let text = corpus::passage_text(corpus, passage, &self.settings.passage_form());
        let text = self.settings.punctuation.apply(&text);
        Ok((model, model.embedding_request(&text, EmbedRole::Passage)?.0))
    }

    /// Asks the encoder on a worker's device and does not wait. If the encoder is not open, `reply` is dropped.
    fn submit(&self, worker: usize, request: engine::Request, reply: impl FnOnce(Completion) + Send + 'static) {
        if let Some(engine) = self.encoder.engine(worker) {
            engine.submit(request, reply);
        }
    }

    /// The open encoder.
    fn model(&self) -> Result<&Model, JobError> {
        let model = self.encoder.model()?;
        if !model.answers().contains(&RequestKind::Embed) {
            return Err(JobError::Encoder {
                name: self.name.clone(),
                encoder: self.settings.encoder.clone(),
                model: self.encoder.to_string(),
            });
        }
        Ok(model)
    }

    /// The parameters in the index's name, and its path.
    fn index_place(&self, corpus: &Corpus, model: &Model) -> (DenseParameters, PathBuf) {
        let encoder = [model.vectors_digest(), &self.settings.form_json()].join(" ");
        let encoder = blake3::hash(encoder.as_bytes()).to_hex().to_string();
        let parameters = DenseParameters { encoder, dtype: self.settings.dtype };
        let path = self.folder.join(format!("{}.idx", DenseIndex::key(corpus.digest(), &parameters)));
        (parameters, path)
    }

    /// Everything that can change an answer. Opens the encoder.
    fn digest(&self) -> Result<String, JobError> {
        let settings = &self.settings;
        Ok([VERSION, self.encoder.model()?.digest(), settings.dtype.name(), &settings.form_json()].join("\n"))
    }

    /// A response for plans without an index: the query's work, and passages chosen by a hash of the query.
    fn invented_response(&self, corpus: &Corpus, request: &Request) -> Response {
        let RequestPayload::Retrieve(asked) = &request.ask else { return refuse_kind(request) };
        let embedding = match self.encoder.model() {
            Ok(model) => model.embedding_request(&asked.query, EmbedRole::Query),
            Err(error) => return Response::failure(FailureKind::Unavailable, error.to_string()),
        };
        let work = match embedding {
            Ok((embedding, _)) => super::lm::estimate::request_work(&embedding),
            Err(failure) => return Response::failure(failure.kind, failure.message),
        };
        retriever::invented_ranking(corpus, asked, work)
    }
}

impl VectorRetriever for DenseService {
    fn open_or_get_index(&self, corpus: &Corpus) -> Result<&DenseIndex, JobError> {
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let failed = |source| JobError::Index { name: self.name.clone(), source };
        let (parameters, path) = self.index_place(corpus, self.model()?);
        let index = DenseIndex::open(&path, corpus.digest(), &parameters).map_err(failed)?;
        self.cache.verify_once(&path, || index.verify()).map_err(failed)?;
        Ok(self.index.get_or_init(|| index))
    }

    fn index_if_open(&self) -> Option<&DenseIndex> {
        self.index.get()
    }

    fn embed_queries(
        &self,
        corpus: &Corpus,
        requests: &[&Request],
        usage: Option<&UsageCounters>,
        worker: usize,
    ) -> (Vec<Result<EmbeddedQuery, Box<Response>>>, u64) {
        embedding::embed_queries(&self.encoder, corpus, requests, usage, worker)
    }
}

impl Service for DenseService {
    fn probe(&self, corpus: &Corpus, _: ProgressReporter<'_>) -> Result<Availability, JobError> {
        let index = Some(self.index_state(corpus)?);
        let (answers, identity) = (vec![RequestKind::Retrieve], vec![self.digest()?]);
        Ok(Availability { answers, identity, index, ..Availability::default() })
    }

    fn open_index(&self, corpus: &Corpus) -> Result<(), JobError> {
        self.open_or_get_index(corpus).map(drop)
    }

    fn serve(&self, thread: &ServiceThread, tasks: &Receiver<ServiceTask>) {
        serve::serve_queries(self, thread, tasks);
    }

    fn answer(&self, corpus: &Corpus, request: &Request) -> Response {
        self.retrieve_batch(corpus, &[request], &mut SearchScratch::default(), None, 0).0.remove(0)
    }

    fn estimate(&self, corpus: &Corpus, request: &Request) -> Response {
        match self.index.get() {
            Some(_) => self.answer(corpus, request),
            None => self.invented_response(corpus, request),
        }
    }

    fn parameter_count(&self) -> Option<u64> {
        self.encoder.model_if_open().map(Model::parameters)
    }
}

/// The failure of a passage or a query if the encoder or the index cannot be opened.
fn unavailable_failure(error: &JobError) -> Failure {
    Failure { kind: FailureKind::Unavailable, message: error.to_string() }
}

/// Bytes of a file, or `None` if it is missing.
fn file_size(path: &Path) -> Result<Option<u64>, JobError> {
    match path.metadata() {
        Ok(file) => Ok(Some(file.len())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(JobError::Io { path: path.to_owned(), operation: "cannot read", source }),
    }
}

#[cfg(test)]
mod tests {
    use crate::services::conformance::{Effect, ServiceKind, check_kind, settings, tiny_model};
    use hopeval_methods::request::{PassageId, RetrievePayload, Statistics};
    use std::path::Path;

    #[test]
    fn dense_conforms() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (bert, roberta) = (tiny_model("bert", dir.path()), tiny_model("roberta-rerank", dir.path()));
        let encoder = |name: &str, model: &Path, more: &str| {
            format!("[{name}]\nkind = \"lm\"\nmodel = {model:?}\nthreads = 1\n{more}\n")
        };
        let needs = |more: &str| encoder("encoder", &bert, more) + &encoder("other", &roberta, "");
        let with = |effect: Effect, settings: &[&str]| -> Vec<(String, Effect)> {
            settings.iter().map(|setting| (needs(setting), effect)).collect()
        };
        let mut other_needs = with(Effect::None, &["batch_tokens = 64", "states_tokens = 9"]);
        other_needs.extend(with(Effect::Answers, &["query_prefix = \"q: \"", "pooling = \"cls\"", "max_tokens = 8"]));
        // The encoder's digest covers all its answers; these settings do not change its vectors.
        other_needs.extend(with(Effect::MovesWithoutNeed, &["read_tokens = 60", "label_tokens = 60", "seed = 4"]));
        let restricted = vec![PassageId(2), PassageId(5)];
        check_kind(&ServiceKind {
            kind: "dense",
            table: "encoder = \"encoder\"".to_owned(),
            needs: needs(""),
            other_needs,
            asks: vec![
                RetrievePayload::new("bridges of Ghent", 5).into(),
                RetrievePayload::new("city near Corin", 3).within(restricted, Statistics::Corpus).into(),
            ],
            settings: settings(
                Effect::Answers,
                &[
                    "encoder = \"other\"",
                    "dtype = \"f16\"",
                    "fields = \"text\"",
                    "between = \": \"",
                    "punctuation = \"ascii\"",
                ],
            ),
            ..ServiceKind::default()
        });
    }
}
