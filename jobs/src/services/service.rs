//! The face of a service: its settings in a job, and the service once it is opened over a corpus.
//!
//! A kind of service is one file that implements both traits, and one line in the table of [`super`].
//!
//! ```text
//!   [service.NAME] --parse--> ServiceSettings --open--> Service --probe--> what it answers, its fingerprint, what is missing
//!                             check, resolve              |
//!                                                         +--make what is missing, open_index, open_on_devices
//!                                                         +--serve--> the service's thread of each worker of a run
//!                                                         +--answer, estimate--> outside a run: transcripts, plans
//! ```
//!
//! `services/conformance.rs` holds what every kind must keep to; each kind's tests call it.

use super::thread::{ServiceThread, Task};
use crate::bad_value::BadValue;
use crate::cache::{Cache, Report};
use crate::error::JobError;
use crate::mode::Mode;
use hopeval_corpus::Corpus;
use hopeval_index::IndexError;
use hopeval_methods::{FailureKind, Kind, Request, Response};
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
    /// Makes paths independent of the working directory: relative ones are relative to `base`.
    fn resolve(&mut self, _base: &Path) {}

    /// Refuses values that make no sense; `others` gives the other services of the job.
    ///
    /// # Errors
    /// The first such value.
    fn check(&self, _others: OtherSettings<'_>) -> Result<(), SettingsError> {
        Ok(())
    }

    /// Whether such a service may answer requests of this kind. A model may: its checkpoint says whether it does.
    fn may_answer(&self, kind: Kind) -> bool;

    /// The service that this one asks itself, which is opened before it.
    fn needs(&self) -> Option<&str> {
        None
    }

    /// Whether a model answers: slowly, and perhaps not on this machine.
    fn has_model(&self) -> bool {
        false
    }

    /// Whether answers are journalled. A look-up in the mapped corpus is not worth it.
    fn is_journalled(&self) -> bool {
        true
    }

    /// The service over a corpus. An index of words is built if it is not there; models are opened by
    /// [`Service::probe`].
    ///
    /// # Errors
    /// A full disk, a corrupt or foreign index.
    fn open(&self, opening: &Opening<'_>) -> Result<Arc<dyn Service>, JobError>;
}

/// Why a service's settings are refused.
#[derive(Debug)]
pub enum SettingsError {
    /// A value makes no sense.
    Value(BadValue),
    /// An index refuses its parameters.
    Index(IndexError),
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

/// Everything that a service is opened with.
pub struct Opening<'a> {
    /// The service's name in the job.
    pub name: &'a str,
    /// The corpus.
    pub corpus: &'a Arc<Corpus>,
    /// The place of indexes and unpacked models.
    pub cache: &'a Cache,
    /// Threads that a build or a model may use.
    pub threads: usize,
    /// The way in which the run is timed.
    pub mode: Mode,
    /// Told of indexes that are built.
    pub report: Report<'a>,
    /// The services that were opened before.
    pub opened: &'a Services,
}

/// Answers the requests of one `[service.NAME]` over one corpus, for all workers of a process.
///
/// # Contract
/// * Every request is answered once, by [`Service::serve`] as by [`Service::answer`], with the same answer.
/// * [`Service::estimate`] gives an answer of the same kind.
/// * The fingerprint of [`Service::probe`] differs whenever an answer can.
pub trait Service: Any + Send + Sync {
    /// Opens the model and the index, as far as they are there, and says what is known then. Makes nothing.
    ///
    /// # Errors
    /// A model that is not there or that cannot be used, a device that is not there, a corrupt index.
    fn probe(&self, corpus: &Corpus, report: Report<'_>) -> Result<Availability, JobError>;

    /// Opens an index that was made after [`Service::probe`] had missed it.
    ///
    /// # Errors
    /// An index that is not there or that is corrupt.
    fn open_index(&self, _corpus: &Corpus) -> Result<(), JobError> {
        Ok(())
    }

    /// Opens the model on further devices, so that each of `workers` workers of this process has its own, as far as
    /// there are.
    ///
    /// # Errors
    /// A device or a model that cannot be opened; devices that compute differently.
    fn open_on_devices(&self, _workers: usize) -> Result<(), JobError> {
        Ok(())
    }

    /// Serves one worker of a run, until nobody can ask any more. Services whose answers are not journalled are not
    /// served: a worker asks them for an answer at once.
    fn serve(&self, thread: &ServiceThread, tasks: &Receiver<Task>) {
        let answer = |request: &&Request| self.answer(&thread.corpus, request);
        thread.serve_batches(tasks, |requests| (requests.iter().map(answer).collect(), 0));
    }

    /// Answers one request, here and now: for transcripts and small things outside a run.
    fn answer(&self, corpus: &Corpus, request: &Request) -> Response;

    /// The response that a plan takes for `request`: of a model its work and an invented answer, else the answer.
    fn estimate(&self, corpus: &Corpus, request: &Request) -> Response {
        self.answer(corpus, request)
    }

    /// Numbers that the weights of its model are, once it is open.
    fn parameters(&self) -> Option<u64> {
        None
    }

    /// The checkpoint that decides what it answers, once it is open.
    fn checkpoint(&self) -> Option<CheckpointSummary> {
        None
    }
}

/// Facts about an opened service.
#[derive(Clone, Debug)]
pub struct Availability {
    /// The kinds of requests that it answers.
    pub answers: Vec<Kind>,
    /// Everything that can change an answer, beside its kind and the corpus: hashed into its fingerprint.
    pub identity: Vec<String>,
    /// Its index file, if it has one.
    pub index: Option<IndexState>,
}

/// An index file that a run finds, or makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexState {
    /// Its file, which several services may share.
    pub path: PathBuf,
    /// Bytes of the file, or of its vectors where it is to be made.
    pub bytes: u64,
    /// Passages to be embedded first.
    pub passages_to_embed: u64,
}

/// A checkpoint, in errors that speak of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointSummary {
    /// The model, as the job names it.
    pub name: String,
    /// How many labels a sequence can get: of a labeler, its tags.
    pub tags: usize,
}

/// The service as its own type, if it is of that kind: for what kinds have to do with each other beyond this trait.
pub(super) fn downcast<S: Service>(service: &Arc<dyn Service>) -> Option<Arc<S>> {
    let service: Arc<dyn Any + Send + Sync> = Arc::<dyn Service>::clone(service);
    service.downcast().ok()
}

/// Refuses a request of a kind that its service does not answer.
pub(super) fn cannot(request: &Request) -> Response {
    let message = format!("`{}` does not answer {}", request.service, request.ask.kind().name());
    Response::failure(FailureKind::Refused, message)
}
