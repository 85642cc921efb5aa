//! The tables and keys of a job file, and their defaults.
//!
//! The names of fields are stored: a run's record holds its job. Rename a field only with `serde(rename)`.

use super::paths::OneOrMany;
use super::sample::Draw;
use super::tune::Tune;
use super::world::WorldEntry;
use crate::mode::Mode;
use crate::services::ServiceEntry;
use hopeval_corpus::{Duplicates, LinkSource};
use hopeval_datasets::{Format, GoldBy};
use hopeval_measures::Settings as MeasureSettings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A job, as its file says it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name, in tables and listings.
    pub name: String,
    /// What stands above its tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The questions.
    pub dataset: Dataset,
    /// The passages.
    #[serde(default)]
    pub corpus: Corpus,
    /// Retrievers, models and endpoints, by the name that methods use.
    #[serde(default)]
    pub service: BTreeMap<String, ServiceEntry>,
    /// Methods, by the name that their configurations carry.
    pub method: BTreeMap<String, MethodEntry>,
    /// What is measured.
    #[serde(default)]
    pub measures: MeasureSettings,
    /// What is chosen before, on questions that are not evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<Tune>,
    /// How it is run; nothing here can change a number.
    #[serde(default)]
    pub run: RunSettings,
}

/// The questions of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// The files' format; told from the first file when left out.
    pub format: Option<Format>,
    /// One file or several, in this order. Left out for a generated world.
    #[serde(default)]
    pub questions: OneOrMany,
    /// A generated world instead of files.
    #[serde(default)]
    pub world: Option<WorldEntry>,
    /// What makes a passage gold.
    pub gold: Option<GoldBy>,
    /// The first so many questions only.
    pub limit: Option<u64>,
    /// Questions drawn at random, or all but those, instead of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<Draw>,
}

/// The passages of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// Files or folders to build from, `contexts` for the questions' own candidates, or the folder of a built corpus.
    /// Left out for the passages of a generated world.
    #[serde(default)]
    pub source: OneOrMany,
    /// What happens to passages that occur twice.
    #[serde(default)]
    pub duplicates: Duplicates,
    /// Where links come from.
    #[serde(default)]
    pub links: LinkSource,
}

/// A method with its parameters and its sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MethodEntry {
    /// Which method.
    pub kind: String,
    /// What it is a control of, in words; tables show controls apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// Parameters that each take several values; they multiply.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<serde_json::Value>>,
    /// Parameters whose values tell replicates apart: the first values of all make the first replicate, and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replicates: BTreeMap<String, Vec<serde_json::Value>>,
    /// The other parameters; the method itself judges them.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, serde_json::Value>,
}

/// How a job is run. Nothing here can change a number.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// Questions in flight on each worker; by the number of configurations when left out, since each question has a
    /// machine under each of them.
    pub in_flight: Option<usize>,
    /// Questions that share a timestamp and a commit; by the size of the dataset when left out.
    pub chunk: Option<u64>,
    /// Most requests that a retriever takes in one batch.
    pub batch: usize,
    /// Share of failed outcomes up to which the run counts as done without reservation.
    pub allowed_failed: f64,
    /// What it is timed for.
    pub mode: Mode,
    /// Price of an hour of a device, in whatever currency; money is not known without it.
    pub price_per_device_hour: Option<f64>,
    /// Temperatures that scores are kept at beside those that methods name, so that a later run finds them in the journal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub temperatures: Vec<f64>,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            in_flight: None,
            chunk: None,
            batch: 64,
            allowed_failed: 0.0,
            mode: Mode::default(),
            price_per_device_hour: None,
            temperatures: Vec::new(),
        }
    }
}

impl Job {
    /// What makes a passage gold: the job's word, else the dataset's custom.
    pub fn gold_by(&self, format: Format) -> GoldBy {
        self.dataset.gold.unwrap_or_else(|| format.gold())
    }
}
