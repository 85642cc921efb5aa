//! The resolved settings of a run: everything that determines its numbers.
//!
//! The names of fields are stored in the run's record, and hashed into the job's digest. Rename a field only with
//! `serde(rename)`.

use crate::job::file::Job;
use crate::job::sweep::Configuration;
use crate::mode::Mode;
use crate::prepare::questions::Prepared;
use hopeval_datasets::Format;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that determines a run's numbers, resolved: the settings in a run's record.
///
/// A new field has a default that is not written, so that the digests of jobs that do not use it stay as they were.
/// `tests/golden/run-*.txt` and `jobs.txt` have every field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resolved {
    /// The job, paths absolute.
    pub job: Job,
    /// Its configurations, every default filled in.
    pub configurations: Vec<Configuration>,
    /// What preparing the questions found.
    pub prepared: Prepared,
    /// Digest of the questions' files.
    pub dataset_digest: String,
    /// Digest of the corpus.
    pub corpus_digest: String,
    /// What the corpus is kept under in a cache; none where the job names a built corpus.
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
    /// Digests of the selections whose values its configurations have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selections: BTreeMap<String, String>,
    /// Where the corpus's links come from.
    pub links: String,
    /// Questions of a chunk.
    pub chunk: u64,
}

/// Machines that a worker has open at once unless the job says otherwise: of a job without models, at some 15 KB each, and of
/// one with, at some 45 KB where they are PromptRank's (a sweep of 60 points over 300 questions). What configurations share of a
/// model's work is computed once only if it waits at the same time, so few machines make a sweep over a model dear; a
/// retriever's answers are cheap to give again.
const MACHINES: (usize, usize) = (4096, 16_384);

/// The fewest and the most questions in flight on a worker unless the job says otherwise.
const IN_FLIGHT: (usize, usize) = (16, 256);

/// The smallest and largest default chunk.
const CHUNKS: (u64, u64) = (16, 4096);

/// Questions of a chunk unless the job says: a hundred commits or so, whatever the dataset.
pub(super) fn default_chunk(questions: u64) -> u64 {
    (questions / 100).next_power_of_two().clamp(CHUNKS.0, CHUNKS.1)
}

impl Resolved {
    /// Outcomes that a chunk has when it is complete.
    pub fn outcomes_of(&self, chunk: u64) -> u64 {
        let begin = chunk * self.chunk;
        let end = (begin + self.chunk).min(self.prepared.questions);
        end.saturating_sub(begin) * self.configurations.len() as u64
    }

    /// Outcomes of the whole run.
    pub fn outcomes(&self) -> u64 {
        self.prepared.questions * self.configurations.len() as u64
    }

    /// Chunks of the run.
    pub fn chunks(&self) -> u64 {
        self.prepared.questions.div_ceil(self.chunk)
    }

    /// Questions in flight on each worker: unless the job says, as many as keep 4,096 machines open, or 16,384 where there is a
    /// model; one where each is timed.
    pub fn in_flight(&self) -> usize {
        if self.job.run.mode == Mode::Latency {
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

    /// What a run with the same digest would compute again.
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
        // What most jobs do not have leaves their digests as they were.
        if self.job.dataset.draw.is_some() || !self.selections.is_empty() {
            let more = (&self.job.dataset.draw, &self.selections);
            bytes.extend(serde_json::to_vec(&more).expect("plain data can be written as JSON; this is a bug"));
        }
        blake3::hash(&bytes).to_hex().to_string()
    }
}
