//! The traits of a service: its settings in a job, and the opened service over a corpus.
//!
//! A kind of service is one file with implementations of both traits, and one line in the table of [`super`].
//!
//! ```text
//!   [service.NAME] --parse--> ServiceSettings --open--> Service --probe--> its kinds of requests, fingerprint, index
//!                             check, resolve              |
//!                                                         +--make a missing index, open_index, open_on_devices
//!                                                         +--serve--> the service's thread of each worker of a run
//!                                                         +--answer, estimate--> outside a run: transcripts, plans
//! ```
//!
//! `services/conformance.rs` tests the rules for every kind; each kind's tests call it.

use super::dataset_questions::DatasetQuestions;
use super::fragments::FragmentTexts;
use super::thread::{ServiceTask, ServiceThread};
use crate::bad_value::BadValue;
use crate::cache::{Cache, ProgressReporter};
use crate::error::JobError;
use crate::mode::TimingMode;
use hopeval_corpus::Corpus;
use hopeval_endpoint::{EndpointError, PriceSettings};
use hopeval_index::IndexError;
use hopeval_methods::{FailureKind, Request, RequestKind, Response, ServiceAbility};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// The opened services of a process, by name.
pub type Services = BTreeMap<Arc<str>, Arc<dyn Service>>;

/// Gives the settings of another service of the job, by its name.
pub type OtherSettings<'a> = &'a dyn Fn(&str) -> Option<&'a dyn ServiceSettings>;

/// The keys of a `[service.NAME]` table, for one kind.
pub trait ServiceSettings: Send + Sync {
    /// Makes paths independent of the working directory: relative paths are relative to `base`.
    fn resolve_paths(&mut self, _base: &Path) {}

    /// Refuses nonsensical values; `others` gives the other services of the job.
    ///
    /// # Errors
    /// The first such value.
    fn check(&self, _others: OtherSettings<'_>) -> Result<(), SettingsError> {
        Ok(())
    }

    /// Whether such a service may answer requests of this kind. For models the checkpoint decides later.
    fn may_answer(&self, kind: RequestKind) -> bool;

    /// The other service this one depends on. It is opened first.
    fn needed_service(&self) -> Option<&str> {
        None
    }

    /// Whether a model computes the answers: slowly, and perhaps not on this machine.
    fn has_model(&self) -> bool {
        false
    }

    /// Whether it opens a checkpoint in this process, as an encoder of passages must.
    fn opens_checkpoint(&self) -> bool {
        false
    }

    /// The name of its model, as the job has it; `None` without one.
    fn model_name(&self) -> Option<&str> {
        None
    }

    /// Whether one worker of the run must send all requests, because it keeps the service's limits and accounts.
    fn has_one_owner(&self) -> bool {
        false
    }

    /// Whether answers are journalled. A look-up in the mapped corpus is not worth it.
    fn is_journalled(&self) -> bool {
        true
    }

    /// Whether an answer costs money. Paid answers are durable in the journal within a second, whatever else the run
    /// does.
    fn is_paid(&self) -> bool {
        false
    }

    /// Whether a server answers: its answers are durable in the journal within a second, as paid ones are, and whoever
    /// only looks at a run asks it nothing.
    fn is_remote(&self) -> bool {
        self.is_paid()
    }

    /// Its prices, if it has any.
    fn price(&self) -> Option<&PriceSettings> {
        None
    }

    /// Opens the service over a corpus. A missing word index is built; models are opened by [`Service::probe`].
    ///
    /// # Errors
    /// A full disk, a corrupt or foreign index.
    fn open(&self, opening: &OpeningContext<'_>) -> Result<Arc<dyn Service>, JobError>;
}

/// Refusals of a service's settings.
#[derive(Debug)]
pub enum SettingsError {
    /// A value makes no sense.
    Value(BadValue),
    /// An index refuses its parameters.
    Index(IndexError),
    /// An endpoint refuses its settings.
    Endpoint(EndpointError),
}

impl From<BadValue> for SettingsError {
    fn from(bad: BadValue) -> Self {
        Self::Value(bad)
    }
}

impl From<IndexError> for SettingsError {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

impl From<EndpointError> for SettingsError {
    fn from(error: EndpointError) -> Self {
        Self::Endpoint(error)
    }
}

/// Everything for opening a service.
pub struct OpeningContext<'a> {
    /// The service's name in the job.
    pub name: &'a str,
    /// The corpus.
    pub corpus: &'a Arc<Corpus>,
    /// The place of indexes and unpacked models.
    pub cache: &'a Cache,
    /// Number of threads for a build or a model.
    pub threads: usize,
    /// The way of timing the run.
    pub mode: TimingMode,
    /// Receives the progress of builds.
    pub report: ProgressReporter<'a>,
    /// The services opened before this one.
    pub opened: &'a Services,
    /// The texts of prompts' fragments, complete before the first request.
    pub fragments: &'a FragmentTexts,
    /// The questions of the job's dataset.
    pub questions: &'a DatasetQuestions,
}

/// Answers the requests of one `[service.NAME]` over one corpus, for all workers of a process.
///
/// # Contract
/// * Every request is answered once, by [`Service::serve`] as by [`Service::answer`], with the same answer.
/// * [`Service::estimate`] gives an answer of the same kind.
/// * The fingerprint of [`Service::probe`] differs whenever an answer can.
pub trait Service: Any + Send + Sync {
    /// Opens the model and an existing index, and returns the facts about the service. Makes nothing, except an index
    /// of files of vectors.
    ///
    /// # Errors
    /// A missing or unusable model, a missing device, a corrupt index, wrong files of vectors.
    fn probe(&self, corpus: &Corpus, report: ProgressReporter<'_>) -> Result<Availability, JobError>;

    /// Checks, before a run is made, that the service can answer for a question that is evaluated.
    ///
    /// # Errors
    /// It cannot.
    fn check_question(&self, _id: &str, _text: &str) -> Result<(), JobError> {
        Ok(())
    }

    /// Opens an index made after [`Service::probe`].
    ///
    /// # Errors
    /// A missing or corrupt index.
    fn open_index(&self, _corpus: &Corpus) -> Result<(), JobError> {
        Ok(())
    }

    /// Opens the model on further devices: each of `workers` workers of this process gets its own device, if there are
    /// enough.
    ///
    /// # Errors
    /// A device or a model that cannot be opened; devices that compute differently.
    fn open_on_devices(&self, _workers: usize) -> Result<(), JobError> {
        Ok(())
    }

    /// Serves one worker of a run, until all senders are gone. Services without journalled answers have no thread: a
    /// worker calls [`Service::answer`] directly.
    fn serve(&self, thread: &ServiceThread, tasks: &Receiver<ServiceTask>) {
        let answer = |request: &&Request| self.answer(&thread.corpus, request);
        thread.serve_batches(tasks, |requests| (requests.iter().map(answer).collect(), 0));
    }

    /// Completes the batch files of a run whose requests all have been served, and says what waits; `None` for a
    /// service without any.
    ///
    /// # Errors
    /// A file that cannot be written.
    fn close_batches(&self) -> Result<Option<WaitingBatch>, JobError> {
        Ok(None)
    }

    /// Answers one request directly: for transcripts and single requests outside a run.
    fn answer(&self, corpus: &Corpus, request: &Request) -> Response;

    /// The response for plans: from a model its work and an invented answer, from other services the real answer.
    fn estimate(&self, corpus: &Corpus, request: &Request) -> Response {
        self.answer(corpus, request)
    }

    /// Requests to its model that are prepared so far, and their tokens; `None` without a model of its own. Only grows.
    fn prepared_requests(&self) -> Option<(u64, u64)> {
        None
    }

    /// Number of weights of its model, if it is open.
    fn parameter_count(&self) -> Option<u64> {
        None
    }

    /// The open checkpoint, for a service with abilities that depend on it.
    fn checkpoint(&self) -> Option<CheckpointSummary> {
        None
    }
}

/// The batch files of a service at the end of a run's generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingBatch {
    /// The service.
    pub service: String,
    /// Requests of this run without an answer.
    pub waiting: u64,
    /// Those of them that stand in files of requests from before, and have no result yet.
    pub written_earlier: u64,
    /// The files with all others.
    pub files: Vec<PathBuf>,
    /// The folder for files of results.
    pub results: PathBuf,
    /// Lines of results that are of no use, each with its file, its number and the reason.
    pub problems: Vec<String>,
    /// The file that has them all.
    pub problem_file: PathBuf,
}

/// Facts about an opened service.
#[derive(Clone, Debug, Default)]
pub struct Availability {
    /// The kinds of requests this service answers.
    pub answers: Vec<RequestKind>,
    /// Everything that can change an answer, except its kind and the corpus: hashed into its fingerprint.
    pub identity: Vec<String>,
    /// Its index file, if it has one.
    pub index: Option<IndexState>,
    /// Its further abilities, in the order of [`ServiceAbility::ALL`].
    pub abilities: Vec<ServiceAbility>,
}

/// An index file of a run, existing or to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexState {
    /// Its file. Several services may share it.
    pub path: PathBuf,
    /// Bytes of the existing file, or of the vectors of a missing one.
    pub bytes: u64,
    /// Number of passages to embed first.
    pub passages_to_embed: u64,
}

/// A checkpoint, for errors about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointSummary {
    /// The model, as named in the job.
    pub name: String,
    /// Number of sequence labels; for a labeler, its tags.
    pub tags: usize,
}

/// The service as its own type, if it has that type: for cooperation of kinds beyond this trait.
pub(super) fn downcast_service<S: Service>(service: &Arc<dyn Service>) -> Option<Arc<S>> {
    let service: Arc<dyn Any + Send + Sync> = Arc::<dyn Service>::clone(service);
    service.downcast().ok()
}

/// Refuses a request of a kind unknown to its service.
pub(super) fn refuse_kind(request: &Request) -> Response {
    let message = format!("`{}` does not answer {}", request.service, request.ask.kind().name());
    Response::failure(FailureKind::Refused, message)
}
