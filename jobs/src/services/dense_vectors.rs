//! `kind = "dense_vectors"`: dense retrieval with vectors that the user's own encoder made, from files.
//!
//! ```text
//!   file of passages'  vectors --checked, each at its passage--> index in the cache     once ([`passages`])
//!   file of questions' vectors --checked, by the questions' texts--> memory             each process ([`questions`])
//!   query --its text--> vector --> products with the mapped index --> ranking
//! ```
//!
//! The index is the one of [`super::dense`], and so are the searches of one worker and of all workers. Equal vectors
//! have equal rankings and scores, to the last bit. [`Service::probe`] reads the files, so commands that only show a
//! run do not need them. Their bytes are part of the fingerprint, their paths are not.

mod passages;
mod questions;
mod settings;

pub use settings::{DenseVectorsSettings, VectorFileSettings, VectorMetric};

use self::passages::PassageFile;
use self::questions::QuestionVectors;
use super::corpus;
use super::dataset_questions::DatasetQuestions;
use super::dense::embedding::EmbeddedQuery;
use super::dense::retriever::{self, VectorRetriever};
use super::dense::serve;
use super::service::{
    Availability, IndexState, OpeningContext, OtherSettings, Service, ServiceSettings, SettingsError, refuse_kind,
};
use super::thread::{ServiceTask, ServiceThread};
use super::usage::UsageCounters;
use crate::cache::{Cache, ProgressReporter};
use crate::error::JobError;
use hopeval_corpus::Corpus;
use hopeval_datasets::VectorError;
use hopeval_index::{DenseIndex, SearchScratch};
use hopeval_methods::{AnswerWork, FailureKind, Request, RequestKind, RequestPayload, Response};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Version of the rankings. It rises when they change for other reasons than the files or the settings.
const VERSION: &str = "dense_vectors 1";

impl ServiceSettings for DenseVectorsSettings {
    fn resolve_paths(&mut self, base: &Path) {
        self.passages.resolve_paths(base);
        self.questions.resolve_paths(base);
    }

    fn check(&self, _: OtherSettings<'_>) -> Result<(), SettingsError> {
        Ok(self.check_values()?)
    }

    fn may_answer(&self, kind: RequestKind) -> bool {
        kind == RequestKind::Retrieve
    }

    fn open(&self, opening: &OpeningContext<'_>) -> Result<Arc<dyn Service>, JobError> {
        Ok(Arc::new(DenseVectorsService {
            name: opening.name.to_owned(),
            settings: self.clone(),
            dataset: opening.questions.clone(),
            folder: opening.cache.ensure_folder("indexes")?,
            cache: opening.cache.clone(),
            opened: OnceLock::new(),
            opening: Mutex::new(()),
        }))
    }
}

/// The service. Its files are opened by [`Service::probe`] or by the first request.
pub struct DenseVectorsService {
    name: String,
    settings: DenseVectorsSettings,
    dataset: DatasetQuestions,
    /// The folder of indexes.
    folder: PathBuf,
    /// Reads an existing index whole before use.
    cache: Cache,
    opened: OnceLock<OpenedVectors>,
    opening: Mutex<()>,
}

/// The vectors of passages and questions.
struct OpenedVectors {
    index: DenseIndex,
    path: PathBuf,
    /// What is hashed into the index's name.
    passages: String,
    questions: QuestionVectors,
}

impl DenseVectorsService {
    /// Opens the vectors. A missing index is built.
    ///
    /// # Errors
    /// Unreadable files, wrong rows, vectors that are missing; a full disk, a corrupt index.
    fn open_or_get_vectors(&self, corpus: &Corpus, report: ProgressReporter<'_>) -> Result<&OpenedVectors, JobError> {
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let Self { name, settings, .. } = self;
        let failed = |source| JobError::Index { name: name.clone(), source };
        let file = PassageFile { name, settings, corpus };
        // To hash a pipe would wait for its writer.
        file.open()?;
        let parameters = file.index_parameters()?;
        let path = self.folder.join(format!("{}.idx", DenseIndex::key(corpus.digest(), &parameters)));
        if !path.is_file() {
            file.build_index(&path, &parameters, report)?;
        }
        let index = DenseIndex::open(&path, corpus.digest(), &parameters).map_err(failed)?;
        self.cache.verify_once(&path, || index.verify()).map_err(failed)?;
        let questions = QuestionVectors::read(name, settings, &self.dataset, index.dimension())?;
        let passages = parameters.encoder;
        Ok(self.opened.get_or_init(|| OpenedVectors { index, path, passages, questions }))
    }

    /// A query with its vector, or the response instead.
    fn find_vector(&self, corpus: &Corpus, request: &Request) -> Result<EmbeddedQuery, Box<Response>> {
        let RequestPayload::Retrieve(asked) = &request.ask else { return Err(Box::new(refuse_kind(request))) };
        let refused = |kind, message| Box::new(Response::failure(kind, message));
        let opened = self
            .open_or_get_vectors(corpus, &|_, _| ())
            .map_err(|error| refused(FailureKind::Unavailable, error.to_string()))?;
        let vector = opened.questions.vector(&asked.query).ok_or_else(|| {
            refused(FailureKind::Refused, missing_vector(&self.settings.questions.file, &asked.query))
        })?;
        let within = asked.within.as_ref().map(|within| corpus::index_restriction(corpus, within).ids);
        let (vector, k) = (vector.to_vec(), asked.k as usize);
        Ok(EmbeddedQuery { vector, work: AnswerWork::default(), report: None, k, within })
    }
}

/// The message of a query without a vector. It is kept with the outcome, so it has no place of this machine.
fn missing_vector(file: &Path, query: &str) -> String {
    let file = file.file_name().unwrap_or_default().display();
    format!(
        "{file} has no vector of the query {query:?}; a query that is no question of the dataset needs one by its text \
         (`text` or `texts`)"
    )
}

impl VectorRetriever for DenseVectorsService {
    fn open_or_get_index(&self, corpus: &Corpus) -> Result<&DenseIndex, JobError> {
        self.open_or_get_vectors(corpus, &|_, _| ()).map(|opened| &opened.index)
    }

    fn index_if_open(&self) -> Option<&DenseIndex> {
        self.opened.get().map(|opened| &opened.index)
    }

    fn embed_queries(
        &self,
        corpus: &Corpus,
        requests: &[&Request],
        _: Option<&UsageCounters>,
        _: usize,
    ) -> (Vec<Result<EmbeddedQuery, Box<Response>>>, u64) {
        (requests.iter().map(|request| self.find_vector(corpus, request)).collect(), 0)
    }
}

impl Service for DenseVectorsService {
    fn probe(&self, corpus: &Corpus, report: ProgressReporter<'_>) -> Result<Availability, JobError> {
        let OpenedVectors { path, passages, questions, .. } = self.open_or_get_vectors(corpus, report)?;
        let bytes = path.metadata().map_or(0, |file| file.len());
        let index = Some(IndexState { path: path.clone(), bytes, passages_to_embed: 0 });
        let dtype = self.settings.dtype.name().to_owned();
        let identity = vec![VERSION.to_owned(), passages.clone(), dtype, questions.digest().to_owned()];
        Ok(Availability { answers: vec![RequestKind::Retrieve], identity, index, ..Availability::default() })
    }

    fn check_question(&self, id: &str, text: &str) -> Result<(), JobError> {
        let Some(opened) = self.opened.get() else { return Ok(()) };
        if opened.questions.vector(text).is_some() {
            return Ok(());
        }
        let source = VectorError::File {
            path: self.settings.questions.file.clone(),
            field: String::new(),
            found: format!("no vector of question `{id}` ({text:?})"),
            allowed: "a vector of every evaluated question".to_owned(),
        };
        Err(JobError::Vectors { name: self.name.clone(), source })
    }

    fn serve(&self, thread: &ServiceThread, tasks: &Receiver<ServiceTask>) {
        serve::serve_queries(self, thread, tasks);
    }

    fn answer(&self, corpus: &Corpus, request: &Request) -> Response {
        self.retrieve_batch(corpus, &[request], &mut SearchScratch::default(), None, 0).0.remove(0)
    }

    /// A query that a plan has invented has no vector, and the run's own query may have one.
    fn estimate(&self, corpus: &Corpus, request: &Request) -> Response {
        match (&request.ask, self.find_vector(corpus, request)) {
            (RequestPayload::Retrieve(asked), Err(refused))
                if refused.result.as_ref().is_err_and(|failure| failure.kind == FailureKind::Refused) =>
            {
                retriever::invented_ranking(corpus, asked, AnswerWork::default())
            }
            _ => self.answer(corpus, request),
        }
    }
}

#[cfg(test)]
mod tests;
