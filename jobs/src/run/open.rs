//! A run opened by a process: its record, its methods and its passages; its corpus and services only where needed.

use super::edits;
use super::evaluator::OutcomeEvaluator;
use super::machines::RunConfigurations;
use super::make::RunNames;
use super::passages::RunPassages;
use super::settings::ResolvedSettings;
use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::paths::CONTEXTS;
use crate::job::sweep;
use crate::places::Places;
use crate::prepare::corpora::dataset_spec;
use crate::services::catalogue::Catalogue;
use crate::services::dataset_questions::DatasetQuestions;
use crate::spending::cap::SpendingCap;
use hopeval_corpus::Corpus;
use hopeval_methods::{Method, MethodSetting, ServiceUse};
use hopeval_results::tables::{QuestionRow, questions as question_table};
use hopeval_results::{Log, RunRecord};
use std::sync::{Arc, OnceLock};

/// A run opened by a process.
pub struct OpenRun {
    /// The store and the cache.
    pub places: Places,
    /// Its record.
    pub record: RunRecord,
    /// Its settings.
    pub resolved: ResolvedSettings,
    /// Its methods, by configuration.
    pub methods: Vec<Box<dyn Method>>,
    /// Its passages.
    pub passages: RunPassages,
    /// The evaluator of its outcomes.
    pub evaluator: Arc<OutcomeEvaluator>,
    /// Changes of its cap by this command.
    pub raised_cap: SpendingCap,
    /// Its corpus and services.
    configurations: OnceLock<Arc<RunConfigurations>>,
}

impl OpenRun {
    /// Opens the run `run` to compute: its corpus and sparse indexes are built here if this machine does not have them.
    ///
    /// # Errors
    /// No such run, another version's record, a corpus with another digest.
    pub fn open(places: &Places, run: &str, report: ProgressReporter<'_>) -> Result<Self, JobError> {
        let (record, resolved) = read_settings(places, run)?;
        Self::with_corpus(places, record, resolved, report)
    }

    /// Opens the run `run` to read its figures. A finished run's are in its tables, so it needs neither its corpus nor
    /// a cache; an unfinished run is opened as by [`OpenRun::open`].
    ///
    /// # Errors
    /// As [`OpenRun::open`].
    pub fn open_figures(places: &Places, run: &str, report: ProgressReporter<'_>) -> Result<Self, JobError> {
        let (record, resolved) = read_settings(places, run)?;
        match Log::open(&places.store, run)?.state().finished {
            Some(_) => Self::with_passages(places, record, resolved, RunPassages::none()),
            None => Self::with_corpus(places, record, resolved, report),
        }
    }

    /// Opens the run `run` to read its outcomes. A finished run has the passages that they name, so it needs neither
    /// its corpus nor a cache; one that an earlier version finished, and an unfinished one, are opened as by
    /// [`OpenRun::open`].
    ///
    /// # Errors
    /// As [`OpenRun::open`]; [`JobError::NoPassages`].
    pub fn open_outcomes(places: &Places, run: &str, report: ProgressReporter<'_>) -> Result<Self, JobError> {
        let (record, resolved) = read_settings(places, run)?;
        let log = Log::open(&places.store, run)?;
        // Edited gold may name other passages than the tables without it.
        let finished = log.state().finished.as_ref().filter(|_| !log.state().lacks_gold());
        let Some(finished) = finished else { return Self::with_corpus(places, record, resolved, report) };
        match RunPassages::read(&places.store, run, finished)? {
            Some(passages) => Self::with_passages(places, record, resolved, passages),
            None => Self::with_corpus(places, record, resolved, report)
                .map_err(|source| JobError::NoPassages { run: run.to_owned(), source: Box::new(source) }),
        }
    }

    fn with_corpus(
        places: &Places,
        record: RunRecord,
        resolved: ResolvedSettings,
        report: ProgressReporter<'_>,
    ) -> Result<Self, JobError> {
        let configurations = open_configurations(places, &resolved, report)?;
        let passages = RunPassages::Corpus(Arc::clone(&configurations.catalogue.corpus));
        let open = Self::with_passages(places, record, resolved, passages)?;
        Ok(Self { configurations: configurations.into(), ..open })
    }

    fn with_passages(
        places: &Places,
        record: RunRecord,
        resolved: ResolvedSettings,
        passages: RunPassages,
    ) -> Result<Self, JobError> {
        let methods = build_methods(&resolved)?;
        let (measures, strata) = (&resolved.job.measures, &resolved.prepared.strata);
        let mut evaluator = OutcomeEvaluator::new(measures, resolved.format(), &methods, strata, &passages)?;
        if resolved.lacks_grades() {
            evaluator = evaluator.with_binary_gold();
        }
        let (places, evaluator) = (places.clone(), Arc::new(evaluator));
        let raised_cap = SpendingCap::default();
        Ok(Self { places, record, resolved, methods, passages, evaluator, raised_cap, configurations: OnceLock::new() })
    }

    /// Its configurations over its corpus and services, which are opened now if the run was opened without them.
    ///
    /// # Errors
    /// As [`OpenRun::open`].
    pub fn configurations(&self) -> Result<&Arc<RunConfigurations>, JobError> {
        if let Some(open) = self.configurations.get() {
            return Ok(open);
        }
        let opened = open_configurations(&self.places, &self.resolved, &|_, _| ())?;
        Ok(self.configurations.get_or_init(|| opened))
    }

    /// Replaces its configurations.
    pub fn set_configurations(&mut self, configurations: RunConfigurations) {
        self.configurations = Arc::new(configurations).into();
    }

    /// Opens its models and the existing dense indexes. Requests have keys from then on.
    ///
    /// # Errors
    /// A model that cannot be opened, or that differs from the run's: other weights, another tokenizer, CPU
    /// instructions with other last digits.
    pub fn open_services(&self, report: ProgressReporter<'_>) -> Result<(), JobError> {
        let catalogue = &self.configurations()?.catalogue;
        catalogue.probe(report)?;
        // Runs of earlier versions did not record fingerprints.
        let mut recorded = self.resolved.services.iter();
        let found = catalogue.fingerprints();
        match recorded.find(|(name, expected)| found.get(*name) != Some(*expected)) {
            None => Ok(()),
            Some((name, expected)) => Err(JobError::ServiceDiffers {
                name: name.clone(),
                found: found.get(name).cloned().unwrap_or_default(),
                expected: expected.clone(),
            }),
        }
    }

    /// Whether its record has the versions of its methods. Runs of earlier versions of the program have none.
    pub fn has_method_versions(&self) -> bool {
        !self.record.method_versions.is_empty()
    }

    /// Refuses to compute outcomes of `method` if the run was begun with another version of it.
    ///
    /// # Errors
    /// [`JobError::MethodDiffers`].
    pub fn check_version(&self, method: &dyn Method) -> Result<(), JobError> {
        let (kind, found) = (method.kind(), method.version());
        match self.record.method_versions.get(kind) {
            Some(&expected) if expected != found => {
                Err(JobError::MethodDiffers { run: self.id().to_owned(), kind, found, expected })
            }
            _ => Ok(()),
        }
    }

    /// Refuses to compute the outcomes that it lacks, if it was begun with another version of any of its methods. A run
    /// with all its outcomes only has its tables written.
    ///
    /// # Errors
    /// [`JobError::MethodDiffers`]; its log cannot be read.
    pub fn check_versions(&self) -> Result<(), JobError> {
        let log = Log::open(&self.places.store, self.id())?;
        if log.state().total_outcomes() >= self.resolved.outcome_count() {
            return Ok(());
        }
        self.methods.iter().try_for_each(|method| self.check_version(method.as_ref()))
    }

    /// Opens models on further devices, for `workers` workers of this process: [`Catalogue::open_on_devices`].
    ///
    /// # Errors
    /// As [`Catalogue::open_on_devices`].
    pub fn open_on_devices(&self, workers: usize) -> Result<(), JobError> {
        self.configurations()?.catalogue.open_on_devices(workers)
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.record.run
    }

    /// The names in its figures.
    pub fn names(&self) -> RunNames {
        RunNames::from_parts(&self.evaluator, &self.resolved.configurations)
    }

    /// Names of the configurations, by position.
    pub fn configuration_names(&self) -> Vec<String> {
        self.resolved.configurations.iter().map(|c| c.name.clone()).collect()
    }

    /// The judge behind a configuration's accuracies, for the versions of its measures: the model with the beginning of
    /// its service's fingerprint, the beginning of the prompt's digest, and the method's version above 1. `None` if the
    /// configuration is no judge.
    pub fn judge_version(&self, configuration: usize) -> Option<String> {
        let method = self.methods.get(configuration).filter(|method| method.judging().is_some())?;
        let model = |used: ServiceUse| {
            let name = &*used.service.0;
            let entry = self.resolved.job.service.get(name);
            let model = entry.and_then(|entry| entry.settings().model_name()).unwrap_or(name);
            let fingerprint = self.resolved.services.get(name).map_or("", String::as_str);
            format!("{model}@{}", fingerprint.get(..8).unwrap_or_default())
        };
        let mut parts: Vec<String> = method.service_uses().into_iter().map(model).collect();
        let wording = method.wording();
        parts.extend(wording.map(|wording| blake3::hash(wording.text.as_bytes()).to_hex()[..16].to_owned()));
        // Judges of the first version have none, so that their measures' versions stay.
        parts.extend(Some(method.version()).filter(|&version| version > 1).map(|version| format!("v{version}")));
        Some(parts.join(" "))
    }

    /// The questions from position `from` on, with every edit of gold in `log`.
    ///
    /// # Errors
    /// The table or an edit cannot be read.
    pub fn questions_from(
        &self,
        log: &Log,
        from: u64,
    ) -> Result<impl Iterator<Item = Result<QuestionRow, JobError>> + Send + use<>, JobError> {
        let edits = edits::read_edits(&self.places.store, log)?;
        let rows =
            question_table::stream_questions(&self.places.store, self.id(), self.record.questions_check(), from)?;
        Ok(rows.map(move |row| row.map(|row| edits::edited_row(&edits, row)).map_err(JobError::from)))
    }
}

/// The record of a run, and its settings.
fn read_settings(places: &Places, run: &str) -> Result<(RunRecord, ResolvedSettings), JobError> {
    let record = RunRecord::load(&places.store, run)?;
    let resolved: ResolvedSettings = serde_json::from_value(record.settings.clone())
        .map_err(|source| JobError::Stored { what: "the settings", run: run.to_owned(), source })?;
    Ok((record, resolved))
}

fn build_methods(resolved: &ResolvedSettings) -> Result<Vec<Box<dyn Method>>, JobError> {
    sweep::build_methods(&resolved.configurations, &MethodSetting::of_corpus(resolved.passages as u32))
}

/// Opens the corpus and the services of a run.
fn open_configurations(
    places: &Places,
    resolved: &ResolvedSettings,
    report: ProgressReporter<'_>,
) -> Result<Arc<RunConfigurations>, JobError> {
    let corpus = find_corpus(places, resolved, report)?;
    if corpus.digest() != resolved.corpus_digest {
        return Err(JobError::Differs {
            what: "the corpus",
            found: corpus.digest().to_owned(),
            expected: resolved.corpus_digest.clone(),
        });
    }
    let Job { dataset, service, run, .. } = &resolved.job;
    let questions = DatasetQuestions::new(dataset_spec(dataset, None));
    let catalogue = Catalogue::open(corpus, service, &places.cache, places.threads, run.mode, &questions, report)?;
    let methods = build_methods(resolved)?;
    Ok(Arc::new(RunConfigurations::with_temperatures(methods, Arc::new(catalogue), &run.temperatures)))
}

/// The sources from which a transcript of `run` builds the corpus first, if this machine's cache does not have it.
///
/// # Errors
/// No such run, another version's record, a damaged corpus.
pub fn missing_corpus(places: &Places, run: &str) -> Result<Option<String>, JobError> {
    let (_, resolved) = read_settings(places, run)?;
    let Some(key) = resolved.corpus_key.as_deref() else { return Ok(None) };
    if places.cache.built_corpus(key)?.is_some() {
        return Ok(None);
    }
    let job = &resolved.job;
    let named = job.corpus.source.paths().iter();
    let files = named.flat_map(|path| match path.as_os_str() == CONTEXTS {
        true => job.dataset.questions.paths().to_vec(),
        false => vec![path.clone()],
    });
    let files: Vec<String> = files.map(|path| path.display().to_string()).collect();
    Ok(Some(if files.is_empty() { "the generated world".to_owned() } else { files.join(", ") }))
}

/// The corpus of a run, from the cache or built again.
fn find_corpus(
    places: &Places,
    resolved: &ResolvedSettings,
    report: ProgressReporter<'_>,
) -> Result<Arc<Corpus>, JobError> {
    let built = resolved.corpus_key.as_deref().map(|key| places.cache.built_corpus(key)).transpose()?.flatten();
    if let Some(corpus) = built {
        return Ok(corpus);
    }
    // A world's files are made again if this machine does not have them: the same bytes.
    places.cache.prepare_world(&mut resolved.job.clone(), report)?;
    Ok(places.cache.find_corpus(&resolved.job, resolved.set_aside, report)?.0)
}
