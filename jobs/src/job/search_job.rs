//! The job of a search: the same job over the tune sample alone, with the searched method as its candidates have it.

use super::file::{Job, MethodEntry};
use super::paths::{CONTEXTS, OneOrMany};
use super::tune::{SearchSettings, TuneSettings};
use hopeval_datasets::Format;
use serde_json::Value;

impl TuneSettings {
    /// A job over the sample alone; everything else is as in `job`.
    pub fn over_sample(&self, job: &Job) -> Job {
        let mut sampled = job.clone();
        if !self.takes_own() {
            // Contexts of other questions are another corpus.
            if sampled.corpus.source.paths().iter().any(|path| path.as_os_str() == CONTEXTS) {
                sampled.corpus.expected = None;
            }
            sampled.dataset.format = self.format;
            // Files of the same format have the same names.
            if self.world.is_some() || self.format.is_some_and(|format| format != Format::Fields) {
                sampled.dataset.fields = None;
            }
            sampled.dataset.questions = self.questions.clone();
            sampled.dataset.world = self.world.clone();
            (sampled.dataset.only, sampled.dataset.expected) = (None, None);
        }
        if self.world.is_some() {
            sampled.corpus.source = OneOrMany::default();
            sampled.corpus.expected = None;
        }
        sampled.dataset.limit = None;
        sampled.dataset.draw = Some(self.sample_settings());
        sampled.tune = None;
        sampled
    }
}

impl SearchSettings {
    /// The searched method with the values of a candidate.
    pub(crate) fn with_candidate(&self, method: &MethodEntry, candidate: &Value) -> MethodEntry {
        let mut method = method.clone();
        match candidate {
            Value::Object(point) if !self.grid.is_empty() => method.parameters.extend(point.clone()),
            one => drop(method.parameters.insert(self.parameter.clone(), one.clone())),
        }
        method
    }
}
