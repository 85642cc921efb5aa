//! The resolved settings of a run: all determinants of its numbers.
//!
//! The names of fields are stored in the run's record, and hashed into the job's digest. Rename a field only with
//! `serde(rename)`.

use crate::job::file::Job;
use crate::job::sweep::Configuration;
use crate::mode::TimingMode;
use crate::prepare::questions::PreparationSummary;
use hopeval_datasets::Format;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All determinants of a run's numbers, resolved: the settings in a run's record.
///
/// A new field needs a default, and the default must not be written: digests of jobs without the field must not change.
/// `tests/golden/run-*.txt` and `jobs.txt` have every field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResolvedSettings {
    /// The job, paths absolute.
    pub job: Job,
    /// Its configurations, every default filled in.
    pub configurations: Vec<Configuration>,
    /// Counts and findings of the questions' preparation.
    pub prepared: PreparationSummary,
    /// Digest of the questions' files.
    pub dataset_digest: String,
    /// Digest of the corpus.
    pub corpus_digest: String,
    /// The key of the corpus in a cache; `None` if the job names a built corpus.
    #[serde(default)]
    pub corpus_key: Option<String>,
    /// Whether wrong rows of the dataset were set aside.
    #[serde(default)]
    pub set_aside: bool,
    /// Passages in the corpus.
    pub passages: u64,
    /// Fingerprints of the services.
    #[serde(default)]
    pub services: BTreeMap<String, String>,
    /// Parameters of the models of its services.
    #[serde(default)]
    pub parameters: BTreeMap<String, u64>,
    /// Digests of the selections used by its configurations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selections: BTreeMap<String, String>,
    /// The origin of the corpus's links.
    pub links: String,
    /// Whether the records of its questions have the grades of gold passages. Not set where gold has none, nor in runs
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "is_false")]
    pub grades: bool,
    /// The judged run, for a run of judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<JudgedRun>,
    /// Questions of a cohort.
    #[serde(rename = "chunk")]
    pub cohort_size: u64,
}

/// The run whose outcomes a run of judges judges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedRun {
    /// Its id.
    pub run: String,
    /// The digest of its settings.
    pub job_digest: String,
    /// The last edit of its gold that counts here; 0 if there was none.
    pub gold_edit: u64,
}

/// Open machines of a worker unless the job says otherwise, for jobs without and with models. A machine takes some 15
/// KB without models, and some 45 KB in PromptRank (a sweep of 60 points over 300 questions). Configurations share a
/// model's work only if their requests wait at the same time, so few open machines make a sweep over a model expensive.
/// A retriever's answers are cheap to repeat.
const MACHINES: (usize, usize) = (4096, 16_384);

/// The fewest and the most questions in flight on a worker unless the job says otherwise.
const IN_FLIGHT: (usize, usize) = (16, 256);

/// The smallest and the largest default size of a cohort.
const COHORT_SIZES: (u64, u64) = (16, 4096);

/// Questions of a cohort unless the job says: for about a hundred commits, whatever the dataset.
pub(super) fn default_cohort_size(questions: u64) -> u64 {
    (questions / 100).next_power_of_two().clamp(COHORT_SIZES.0, COHORT_SIZES.1)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Whether gold passages of a job's questions, which are of this format, can have grades. A generated world has none.
pub(super) fn can_have_grades(job: &Job, format: Format) -> bool {
    format.has_grades() && job.dataset.world.is_none()
}

impl ResolvedSettings {
    /// Whether its questions may have grades that their records lack: it was begun before they were recorded.
    pub fn lacks_grades(&self) -> bool {
        !self.grades && can_have_grades(&self.job, self.format())
    }

    /// Outcomes of a complete cohort.
    pub fn outcomes_of(&self, cohort: u64) -> u64 {
        let begin = cohort * self.cohort_size;
        let end = (begin + self.cohort_size).min(self.prepared.questions);
        end.saturating_sub(begin) * self.configurations.len() as u64
    }

    /// Outcomes of the whole run.
    pub fn outcome_count(&self) -> u64 {
        self.prepared.questions * self.configurations.len() as u64
    }

    /// Cohorts of the run.
    pub fn cohort_count(&self) -> u64 {
        self.prepared.questions.div_ceil(self.cohort_size)
    }

    /// Questions in flight on each worker: one in the mode `latency`. Otherwise, unless the job says, enough to keep
    /// 4,096 machines open, or 16,384 if the job has a model.
    pub fn in_flight(&self) -> usize {
        if self.job.run.mode == TimingMode::Latency {
            return 1;
        }
        let models = self.job.service.values().any(|service| service.settings().has_model());
        let machines = if models { MACHINES.1 } else { MACHINES.0 };
        let share = machines / self.configurations.len().max(1);
        self.job.run.in_flight.unwrap_or_else(|| share.clamp(IN_FLIGHT.0, IN_FLIGHT.1))
    }

    /// The dataset's format.
    pub fn format(&self) -> Format {
        self.prepared.format.unwrap_or(Format::World)
    }

    /// The digest of the settings: runs with equal digests compute the same figures, but for `ndcg` of a run that was
    /// begun before grades were recorded (`grades`), which says so by its version.
    pub(super) fn digest(&self) -> String {
        let all = (
            &self.configurations,
            &self.job.measures,
            &self.dataset_digest,
            &self.corpus_digest,
            &self.prepared,
            self.job.dataset.gold,
            &self.services,
        );
        let mut bytes = serde_json::to_vec(&all).expect("plain data can be written as JSON; this is a bug");
        // Settings absent from most jobs are hashed only if present, so that the digests of other jobs do not change.
        if self.job.dataset.draw.is_some() || !self.selections.is_empty() {
            let more = (&self.job.dataset.draw, &self.selections);
            bytes.extend(serde_json::to_vec(&more).expect("plain data can be written as JSON; this is a bug"));
        }
        if let Some(fields) = &self.job.dataset.fields {
            bytes.extend(serde_json::to_vec(fields).expect("plain data can be written as JSON; this is a bug"));
        }
        blake3::hash(&bytes).to_hex().to_string()
    }
}
