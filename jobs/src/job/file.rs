//! The tables and keys of a job file, and their defaults.
//!
//! The names of fields are stored: a run's record holds its job. Rename a field only with `serde(rename)`.

use super::missing_gold::MissingGold;
use super::paths::OneOrMany;
use super::race_record::RacedSweep;
use super::sample::SampleSettings;
use super::sweep_conditions::SweepConditions;
use super::sweep_draw::SweepDraw;
use super::sweep_race::SweepRace;
use super::tune::TuneSettings;
use super::world::WorldEntry;
use crate::mode::TimingMode;
use crate::services::ServiceEntry;
use crate::spending::cap::SpendingCap;
use hopeval_corpus::{DuplicatePolicy, LinkSource};
use hopeval_datasets::{FieldMapping, Format, GoldMatch, PassageMapping};
use hopeval_measures::Settings as MeasureSettings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A job: the contents of its file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name, in tables and listings.
    pub name: String,
    /// The heading of its tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The questions.
    pub dataset: DatasetEntry,
    /// The passages.
    #[serde(default)]
    pub corpus: CorpusEntry,
    /// Services, by their names in methods.
    #[serde(default)]
    pub service: BTreeMap<String, ServiceEntry>,
    /// Methods, by their names in configurations.
    pub method: BTreeMap<String, MethodEntry>,
    /// Judges of the configurations' answers, by their names in the configurations of a run of judges.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judge: BTreeMap<String, MethodEntry>,
    /// Settings of the measures.
    #[serde(default)]
    pub measures: MeasureSettings,
    /// Searches made first, on questions outside the evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<TuneSettings>,
    /// How it is run. These settings never change a number.
    #[serde(default)]
    pub run: RunSettings,
}

/// The questions of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetEntry {
    /// The files' format; recognised from the first file when left out.
    pub format: Option<Format>,
    /// One file or several, in this order. Left out for a generated world.
    #[serde(default)]
    pub questions: OneOrMany,
    /// The names of hopeval's fields in the files, for the format `fields`, which a mapping means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<FieldMapping>,
    /// A generated world instead of files.
    #[serde(default)]
    pub world: Option<WorldEntry>,
    /// How gold passages are identified.
    pub gold: Option<GoldMatch>,
    /// A file of ids: only these questions are evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<PathBuf>,
    /// The number of questions in the files; with another one there is no run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// Evaluates only the first questions, at most this number.
    pub limit: Option<u64>,
    /// Evaluates questions drawn at random, or all but those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<SampleSettings>,
    /// The treatment of questions whose gold is not in the corpus.
    #[serde(default, skip_serializing_if = "MissingGold::is_refuse")]
    pub missing_gold: MissingGold,
}

impl DatasetEntry {
    /// Leaves a part of the questions. A part that is smaller, by the same seed, is in every larger one. Returns
    /// whether it is drawn at random: a job's own draw is drawn from again, by its own seed; other parts of a dataset
    /// begin with their first questions.
    pub(crate) fn take_part(&mut self, questions: u64, seed: u64) -> bool {
        match (self.draw, self.limit) {
            (None, None) => {
                self.draw = Some(SampleSettings::new(questions, seed));
                true
            }
            // The questions of a smaller draw are those of lowest rank among the larger one's.
            (Some(draw), None) if !draw.rest => {
                self.draw = Some(SampleSettings { questions: questions.min(draw.questions), ..draw });
                true
            }
            (_, limit) => {
                self.limit = Some(limit.map_or(questions, |limit| limit.min(questions)));
                false
            }
        }
    }
}

/// The passages of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusEntry {
    /// Files or folders to build from, `contexts` for the questions' own candidates, or the folder of a built corpus.
    /// Left out for the passages of a generated world.
    #[serde(default)]
    pub source: OneOrMany,
    /// The names of a passage's fields in the source files, which then are of the format `fields`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<PassageMapping>,
    /// The treatment of duplicate passages.
    #[serde(default)]
    pub duplicates: DuplicatePolicy,
    /// The source of links.
    #[serde(default)]
    pub links: LinkSource,
    /// The number of its passages; with another one there is no run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
}

/// A method or a judge with its parameters and its sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MethodEntry {
    /// The method's kind.
    pub kind: String,
    /// For a control: the controlled effect, in words. Tables show controls apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// Parameters with several values each; they multiply.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<serde_json::Value>>,
    /// Draws points of the sweep; left out, it has all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_draw: Option<SweepDraw>,
    /// Parameters that are swept only where others have certain values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep_when: SweepConditions,
    /// Stops weak points of the sweep early; left out, every point is evaluated over all questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race: Option<SweepRace>,
    /// The decisions of the race, in the job of a run. A job file cannot have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raced: Option<RacedSweep>,
    /// Parameters that distinguish replicates: the first values of all make the first replicate, and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replicates: BTreeMap<String, Vec<serde_json::Value>>,
    /// The other parameters; the method itself checks them.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, serde_json::Value>,
}

/// How a job is run. These settings never change a number.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// Questions in flight on each worker. The default depends on the number of configurations, since each question has
    /// one machine for each of them.
    pub in_flight: Option<usize>,
    /// The number of questions of a cohort; they share a timestamp and a commit. The default depends on the dataset's
    /// size.
    pub chunk: Option<u64>,
    /// The most requests in one batch of a retriever.
    pub batch: usize,
    /// The largest share of failed outcomes in a fully successful run.
    pub allowed_failed: f64,
    /// The way of timing.
    pub mode: TimingMode,
    /// Price of an hour of a device, in any currency. Without it costs in money are unknown.
    pub price_per_device_hour: Option<f64>,
    /// The most that it may spend on endpoints.
    #[serde(skip_serializing_if = "SpendingCap::is_empty")]
    pub cap: SpendingCap,
    /// More temperatures for stored scores, beside those of methods: a later run finds them in the journal.
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
            mode: TimingMode::default(),
            price_per_device_hour: None,
            cap: SpendingCap::default(),
            temperatures: Vec::new(),
        }
    }
}

impl Job {
    /// The tables of its methods and of its judges, with their names: `method.bm25`.
    pub fn method_tables(&self) -> impl Iterator<Item = (String, &MethodEntry)> {
        let methods = self.method.iter().map(|(name, entry)| (format!("method.{name}"), entry));
        methods.chain(self.judge.iter().map(|(name, entry)| (format!("judge.{name}"), entry)))
    }

    /// How gold passages are identified: the job's setting, else by the mapped fields, else the default of the format.
    pub fn gold_by(&self, format: Format) -> GoldMatch {
        let mapped = || self.dataset.fields.as_ref().map(FieldMapping::gold_match);
        self.dataset.gold.or_else(mapped).unwrap_or_else(|| format.default_gold())
    }
}
