//! A run opened by a process: its record, its corpus, its services, its methods.

use super::edits;
use super::evaluator::OutcomeEvaluator;
use super::machines::RunConfigurations;
use super::settings::ResolvedSettings;
use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::sweep;
use crate::places::Places;
use crate::services::catalogue::Catalogue;
use hopeval_corpus::Corpus;
use hopeval_methods::MethodSetting;
use hopeval_results::tables::{QuestionRow, questions as question_table};
use hopeval_results::{Log, RunRecord};
use std::sync::Arc;

/// A run opened by a process.
pub struct OpenRun {
    /// The store and the cache.
    pub places: Places,
    /// Its record.
    pub record: RunRecord,
    /// Its settings.
    pub resolved: ResolvedSettings,
    /// Its configurations and services.
    pub configurations: Arc<RunConfigurations>,
    /// The evaluator of its outcomes.
    pub evaluator: Arc<OutcomeEvaluator>,
}

impl OpenRun {
    /// Opens the run `run`: its corpus and sparse indexes are built here if this machine does not have them.
    ///
    /// # Errors
    /// No such run, another version's record, a corpus with another digest.
    #[expect(clippy::self_named_constructors, reason = "what is open was opened")]
    pub fn open(places: &Places, run: &str, report: ProgressReporter<'_>) -> Result<Self, JobError> {
        let record = RunRecord::load(&places.store, run)?;
        let resolved: ResolvedSettings = serde_json::from_value(record.settings.clone())
            .map_err(|source| JobError::Stored { what: "the settings", run: run.to_owned(), source })?;
        let corpus = find_corpus(places, &resolved, report)?;
        if corpus.digest() != resolved.corpus_digest {
            return Err(JobError::Differs {
                what: "the corpus",
                found: corpus.digest().to_owned(),
                expected: resolved.corpus_digest,
            });
        }
        let Job { service, run, measures, .. } = &resolved.job;
        let catalogue = Catalogue::open(corpus, service, &places.cache, places.threads, run.mode, report)?;
        let setting = MethodSetting { passages: catalogue.corpus.len() as u32 };
        let methods = sweep::build_methods(&resolved.configurations, &setting)?;
        let strata = &resolved.prepared.strata;
        let evaluator = OutcomeEvaluator::new(measures, resolved.format(), &methods, strata, &catalogue.corpus)?;
        let catalogue = Arc::new(catalogue);
        let configurations = RunConfigurations::with_temperatures(methods, catalogue, &run.temperatures);
        Ok(Self {
            places: places.clone(),
            record,
            resolved,
            configurations: Arc::new(configurations),
            evaluator: Arc::new(evaluator),
        })
    }

    /// Opens its models and the existing dense indexes. Requests have keys from then on.
    ///
    /// # Errors
    /// A model that cannot be opened, or that differs from the run's: other weights, another tokenizer, CPU
    /// instructions with other last digits.
    pub fn open_services(&self, report: ProgressReporter<'_>) -> Result<(), JobError> {
        let catalogue = &self.configurations.catalogue;
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

    /// Opens models on further devices, for `workers` workers of this process: [`Catalogue::open_on_devices`].
    ///
    /// # Errors
    /// As [`Catalogue::open_on_devices`].
    pub fn open_on_devices(&self, workers: usize) -> Result<(), JobError> {
        self.configurations.catalogue.open_on_devices(workers)
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.record.run
    }

    /// Names of the configurations, by position.
    pub fn configuration_names(&self) -> Vec<String> {
        self.resolved.configurations.iter().map(|c| c.name.clone()).collect()
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
