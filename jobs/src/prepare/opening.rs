//! Opens a job: its world, corpus and services, then its configurations with their resolved choices. Runs, plans,
//! searches and calibrations begin here.
//!
//! ```text
//!   job --world's files named--> corpus --> services, not probed                             OpenedJob
//!     --probe--> configurations --choices resolved, rankings read, methods built, services checked--> ConfiguredJob
//! ```

use crate::cache::{Cache, ProgressReporter};
use crate::choices;
use crate::choices::overlap::OverlapCheck;
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::scoring::complete_measures;
use crate::job::sweep::{self, Configuration};
use crate::places::Places;
use crate::prepare::corpora::dataset_spec;
use crate::prepare::rankings::JobRankings;
use crate::services::catalogue::Catalogue;
use crate::services::dataset_questions::DatasetQuestions;
use crate::services::service::IndexState;
use hopeval_corpus::Corpus;
use hopeval_methods::{ContextMode, Method, MethodSetting, registry};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job with its corpus and its services.
pub struct OpenedJob {
    /// The job, with the files of its world and the measures of its format.
    pub job: Job,
    /// Its corpus's key in the cache; `None` if the job names a built corpus.
    pub corpus_key: Option<String>,
    /// Its corpus and its services. Models are not open yet.
    pub catalogue: Catalogue,
}

impl OpenedJob {
    /// Opens a job. A missing world, corpus or word index is built. With `set_aside`, wrong rows of the dataset add no
    /// passages to the corpus.
    ///
    /// # Errors
    /// Unreadable sources, bad passages, a full disk, a corrupt or foreign index.
    pub fn open(
        job: &Job,
        cache: &Cache,
        threads: usize,
        set_aside: bool,
        report: ProgressReporter<'_>,
    ) -> Result<Self, JobError> {
        let mut job = job.clone();
        cache.prepare_world(&mut job, report)?;
        let format = match job.dataset.questions.paths() {
            [] => job.dataset.format,
            [_, ..] => Some(dataset_spec(&job.dataset, None).find_format()?),
        };
        if let Some(format) = format {
            complete_measures(&mut job.measures, format);
        }
        let (corpus, corpus_key) = cache.find_corpus(&job, set_aside, report)?;
        check_passages(&job, &corpus)?;
        let questions = DatasetQuestions::new(dataset_spec(&job.dataset, None));
        let catalogue = Catalogue::open(corpus, &job.service, cache, threads, job.run.mode, &questions, report)?;
        Ok(Self { job, corpus_key, catalogue })
    }

    /// Its corpus.
    pub fn corpus(&self) -> &Arc<Corpus> {
        &self.catalogue.corpus
    }
}

/// Compares the number of passages with the job's.
fn check_passages(job: &Job, corpus: &Corpus) -> Result<(), JobError> {
    let found = corpus.len() as u64;
    match job.corpus.expected {
        Some(expected) if expected != found => {
            let path = job.corpus.source.paths().first().cloned().unwrap_or_default();
            Err(JobError::Unexpected { path, key: "corpus.expected", expected, found })
        }
        _ => Ok(()),
    }
}

/// The configurations of an opened job, ready for a run.
pub struct ConfiguredJob {
    /// In the order of their names, every default filled in.
    pub configurations: Vec<Configuration>,
    /// Their methods.
    pub methods: Vec<Box<dyn Method>>,
    /// Digests of the used selections, by name.
    pub selections: BTreeMap<String, String>,
    /// Refuses questions from the samples of choices.
    pub overlap: OverlapCheck,
    /// The files of rankings that are brought in.
    pub rankings: JobRankings,
    /// Whether a method reads the dataset's own candidates of a question.
    pub needs_candidates: bool,
    /// The index files of a run, existing or to be made.
    pub indexes: BTreeMap<String, IndexState>,
}

impl ConfiguredJob {
    /// Opens the models of a job, and configures its methods.
    ///
    /// # Errors
    /// An unusable model, a missing selection, unsuitable parameters or services.
    pub fn new(opened: &OpenedJob, places: &Places, report: ProgressReporter<'_>) -> Result<Self, JobError> {
        Self::of_configurations(opened, sweep::configurations(&opened.job), places, report)
    }

    /// Opens the models of a job, and configures these configurations.
    ///
    /// # Errors
    /// As [`ConfiguredJob::new`].
    pub fn of_configurations(
        opened: &OpenedJob,
        mut configurations: Vec<Configuration>,
        places: &Places,
        report: ProgressReporter<'_>,
    ) -> Result<Self, JobError> {
        let OpenedJob { job, catalogue, .. } = opened;
        // All workers make dense indexes together, when the run begins.
        let indexes = catalogue.probe(report)?;
        let passages = catalogue.corpus.len() as u32;
        let setting = MethodSetting { passages, largest_cut_off: job.measures.largest_cut_off() };
        let choices::ResolvedChoices { selections, overlap } =
            choices::resolve_choices(job, &mut configurations, places, report)?;
        let rankings = JobRankings::open(&mut configurations)?;
        let methods = sweep::build_methods(&configurations, &setting)?;
        catalogue.fragments().add_methods(methods.iter().map(AsRef::as_ref));
        let mut needs_candidates = false;
        for (configuration, method) in configurations.iter_mut().zip(&methods) {
            catalogue.check_services(&configuration.name, method.as_ref())?;
            needs_candidates |= method.context_mode() == ContextMode::Given;
            configuration.parameters =
                registry::resolve_parameters(&configuration.kind, &configuration.parameters, &setting)
                    .map_err(|source| JobError::Method { configuration: configuration.name.clone(), source })?;
        }
        Ok(Self { configurations, methods, selections, overlap, rankings, needs_candidates, indexes })
    }
}
