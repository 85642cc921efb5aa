//! Opens a job: its world, corpus and services, then its configurations with all that choices give them. Whoever runs,
//! plans, searches or calibrates begins here.
//!
//! ```text
//!   job --world's files named--> corpus --> services, not probed       OpenedJob
//!     --probe--> configurations --choices resolved, methods built, services checked-->       ConfiguredJob
//! ```

use crate::cache::{Cache, Report};
use crate::choices;
use crate::choices::watch::Watch;
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::sweep::{self, Configuration};
use crate::places::Places;
use crate::services::catalogue::Catalogue;
use crate::services::service::IndexState;
use hopeval_corpus::Corpus;
use hopeval_methods::{ContextMode, Method, Setting, registry};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job with its corpus and its services.
pub struct OpenedJob {
    /// The job, with the files of its world.
    pub job: Job,
    /// The key that its corpus is kept under in the cache; `None` where the job names a built corpus.
    pub corpus_key: Option<String>,
    /// Its corpus and its services, whose models are not open yet.
    pub catalogue: Catalogue,
}

impl OpenedJob {
    /// Opens a job; its world, its corpus and its indexes of words are built where they are not there. With `set_aside`,
    /// wrong rows of the dataset give the corpus no passages.
    ///
    /// # Errors
    /// Sources that cannot be read, bad passages, a full disk, a corrupt or foreign index.
    pub fn open(
        job: &Job,
        cache: &Cache,
        threads: usize,
        set_aside: bool,
        report: Report<'_>,
    ) -> Result<Self, JobError> {
        let mut job = job.clone();
        cache.world(&mut job, report)?;
        let (corpus, corpus_key) = cache.find_corpus(&job, set_aside, report)?;
        let catalogue = Catalogue::open(corpus, &job.service, cache, threads, job.run.mode, report)?;
        Ok(Self { job, corpus_key, catalogue })
    }

    /// Its corpus.
    pub fn corpus(&self) -> &Arc<Corpus> {
        &self.catalogue.corpus
    }
}

/// The configurations of an opened job, fit to be run.
pub struct ConfiguredJob {
    /// In the order of their names, every default filled in.
    pub configurations: Vec<Configuration>,
    /// Their methods.
    pub methods: Vec<Box<dyn Method>>,
    /// Digests of the selections whose values they have, by name.
    pub selections: BTreeMap<String, String>,
    /// Refuses questions that something was chosen on.
    pub watch: Watch,
    /// Whether a method reads the passages that the dataset gives with a question.
    pub needs_candidates: bool,
    /// The index files that a run finds or makes.
    pub indexes: BTreeMap<String, IndexState>,
}

impl ConfiguredJob {
    /// Opens the models of a job, and configures its methods.
    ///
    /// # Errors
    /// A model that cannot be used; a selection that is not there; parameters or services that do not fit.
    pub fn new(opened: &OpenedJob, places: &Places, report: Report<'_>) -> Result<Self, JobError> {
        let OpenedJob { job, catalogue, .. } = opened;
        // Dense indexes are made by all workers, when the run begins.
        let indexes = catalogue.probe(report)?;
        let setting = Setting { passages: catalogue.corpus.len() as u32 };
        let mut configurations = sweep::configurations(job);
        let choices::ResolvedChoices { selections, watch } =
            choices::resolve(job, &mut configurations, places, report)?;
        let methods = sweep::methods(&configurations, &setting)?;
        let mut needs_candidates = false;
        for (configuration, method) in configurations.iter_mut().zip(&methods) {
            catalogue.check(&configuration.name, method.as_ref())?;
            needs_candidates |= method.context_mode() == ContextMode::Given;
            configuration.parameters = registry::resolve(&configuration.kind, &configuration.parameters, &setting)
                .map_err(|source| JobError::Method { configuration: configuration.name.clone(), source })?;
        }
        Ok(Self { configurations, methods, selections, watch, needs_candidates, indexes })
    }
}
