//! `[tune]`: the searches of a job, and their sample of questions.

use super::infill::InfillSettings;
use super::paths::OneOrMany;
use super::race::RaceSettings;
use super::sample::SampleSettings;
use super::world::WorldEntry;
use hopeval_datasets::Format;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The searches of a job and the sample for them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuneSettings {
    /// The files' format; recognised from the first file when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// The files to draw the sample from. Without files and without a world it is drawn from the job's own dataset, and
    /// the dataset's other questions are evaluated.
    #[serde(default)]
    pub questions: OneOrMany,
    /// A generated world to draw from, with its own passages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<WorldEntry>,
    /// Questions drawn (PromptRank, section 3: 128).
    #[serde(default = "usual_sample")]
    pub sample: u64,
    /// Another seed draws others.
    #[serde(default)]
    pub seed: u64,
    /// The measure that ranks candidates (PromptRank, section 3: R@2).
    #[serde(default = "usual_measure")]
    pub measure: String,
    /// The searches, in order.
    #[serde(default)]
    pub select: Vec<SearchSettings>,
}

/// One search: the values of one parameter of one method, or of several together.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchSettings {
    /// The selection's name in the store.
    pub name: String,
    /// The method, by its name in the job.
    pub method: String,
    /// The parameter; empty with a grid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parameter: String,
    /// The measure of this search; left out, that of `[tune]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<String>,
    /// Values to choose from; none with a grid.
    #[serde(default)]
    pub candidates: Vec<Value>,
    /// Several parameters that are chosen together, with the values of each: every combination is a candidate, a table
    /// of values by parameter (IRCoT, section 4: K and M).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grid: BTreeMap<String, Vec<Value>>,
    /// More values, from a language model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<InfillSettings>,
    /// Stops weak candidates early; left out, every candidate is evaluated over the whole sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race: Option<RaceSettings>,
}

fn usual_sample() -> u64 {
    128
}

fn usual_measure() -> String {
    "recall_all@2".to_owned()
}

impl SearchSettings {
    /// The chosen parameters.
    pub fn parameters(&self) -> Vec<&str> {
        if self.grid.is_empty() { vec![&self.parameter] } else { self.grid.keys().map(String::as_str).collect() }
    }

    /// The candidates that the job names. Those of a grid come in the order of its keys; the last one varies fastest.
    pub fn named_candidates(&self) -> Vec<Value> {
        if self.grid.is_empty() {
            return self.candidates.clone();
        }
        let mut points = vec![Map::new()];
        for (parameter, values) in &self.grid {
            let with = |point: &Map<String, Value>, value: &Value| {
                let mut point = point.clone();
                point.insert(parameter.clone(), value.clone());
                point
            };
            points = points.iter().flat_map(|point| values.iter().map(|value| with(point, value))).collect();
        }
        points.into_iter().map(Value::Object).collect()
    }
}

impl TuneSettings {
    /// Whether the sample is drawn from the job's own dataset.
    pub fn takes_own(&self) -> bool {
        self.world.is_none() && self.questions.paths().is_empty()
    }

    /// The sample's settings.
    pub fn sample_settings(&self) -> SampleSettings {
        SampleSettings::new(self.sample, self.seed)
    }

    /// The measure that ranks a search's candidates.
    pub fn measure_of<'a>(&'a self, select: &'a SearchSettings) -> &'a str {
        select.measure.as_deref().unwrap_or(&self.measure)
    }
}
