//! Selections: a search's choice, with its candidates and its questions; committed once, under a name.
//!
//! The record holds every candidate with its figure, best first, so a method may take the best one or the best few. It
//! contains no time, run or path: the same search gives the same bytes on any machine, also after interruptions.
//!
//! Its names are stored, and its digest is part of job digests: a field renamed in Rust keeps its stored name with
//! `serde(rename)`. `tests/golden/selection.txt` has a record.

use super::overlap::SampledQuestion;
use crate::error::JobError;
use crate::job::race_record::{RaceRecord, StoppedCandidate};
use hopeval_results::{FileRemedy, Store, StoreError, layout, seal};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Version of the record's format.
const VERSION: u32 = 1;

/// A committed choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Version of this format.
    pub schema_version: u32,
    /// Its name.
    pub name: String,
    /// The chosen parameter; empty if several were chosen together.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parameter: String,
    /// Parameters that were chosen together, in alphabetical order: a candidate is a table of values by parameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
    /// The measure that ranks the candidates.
    pub measure: String,
    /// Profile and version of the measure.
    pub measure_version: String,
    /// All settings of the search in the job: the method with its other parameters, the sample, the candidates or the
    /// way of generating them.
    pub settings: Value,
    /// Digest of the sample's dataset.
    pub dataset_digest: String,
    /// Digest of the corpus.
    pub corpus_digest: String,
    /// Fingerprints of the services.
    pub services: BTreeMap<String, String>,
    /// The questions, in the dataset's order.
    pub sample: Vec<SampledQuestion>,
    /// The candidates, best first; ties in their original order. Those that a race stopped stand behind all others, the
    /// last stopped first.
    pub candidates: Vec<RankedCandidate>,
    /// The rungs of a race; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race: Option<RaceRecord>,
}

/// A candidate with its figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankedCandidate {
    /// The parameter's value, or the values of several by parameter.
    pub value: Value,
    /// The measure over the sample; null if undefined.
    pub score: Option<f64>,
    /// Its standard error over questions.
    pub stderr: Option<f64>,
    /// Number of questions with a defined measure.
    pub n: u64,
    /// Share of those questions without a failed outcome.
    pub coverage: Option<f64>,
    /// Draws with this value; 0 for a value named by the job.
    pub draws: u32,
    /// Its end in a race; `None` for a candidate with figures over the whole sample. A stopped candidate has no other
    /// figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StoppedCandidate>,
}

impl Selection {
    /// The version written by this program.
    pub fn version() -> u32 {
        VERSION
    }

    /// The selection `name`, if it is committed.
    ///
    /// # Errors
    /// The store; a record of another version.
    pub fn find(store: &Store, name: &str) -> Result<Option<Self>, JobError> {
        let object = layout::selection_record(name);
        let bytes = match store.get(&object) {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            bytes => bytes?,
        };
        let bytes = seal::remove_seal(store, &object, &bytes, FileRemedy::Tune)?.json;
        let malformed = |source| JobError::malformed(store, &object, FileRemedy::Tune, source);
        Ok(Some(serde_json::from_slice(&bytes).map_err(malformed)?))
    }

    /// The selection `name`.
    ///
    /// # Errors
    /// As [`Selection::find`]; [`JobError::NoSelection`].
    pub fn load(store: &Store, name: &str) -> Result<Self, JobError> {
        Self::find(store, name)?.ok_or_else(|| JobError::NoSelection { name: name.to_owned(), store: store.uri() })
    }

    /// Commits the selection. Returns false if it was committed already.
    ///
    /// # Errors
    /// The store; [`JobError::SelectionTaken`] if another selection has its name.
    pub fn commit(&self, store: &Store) -> Result<bool, JobError> {
        if store.put_or_get(&layout::selection_record(&self.name), &self.sealed_bytes().into())?.is_none() {
            return Ok(true);
        }
        // Another version may have written the same selection without a seal.
        if Self::load(store, &self.name)? == *self { Ok(false) } else { Err(self.name_taken(store)) }
    }

    /// The error if another search has the name.
    pub(crate) fn name_taken(&self, store: &Store) -> JobError {
        JobError::SelectionTaken {
            name: self.name.clone(),
            object: store.full_name(&layout::selection_record(&self.name)),
        }
    }

    /// The stored bytes.
    fn sealed_bytes(&self) -> Vec<u8> {
        seal::add_seal(self.json_bytes().trim_ascii_end())
    }

    fn json_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("plain data can be written as JSON; this is a bug");
        bytes.push(b'\n');
        bytes
    }

    /// Hash of the whole record.
    pub fn digest(&self) -> String {
        blake3::hash(&self.json_bytes()).to_hex().to_string()
    }

    /// The parameters that were chosen.
    pub fn chosen(&self) -> Vec<&str> {
        if self.parameters.is_empty() {
            vec![&self.parameter]
        } else {
            self.parameters.iter().map(String::as_str).collect()
        }
    }

    /// The same for people: "`distractors`, `k` together".
    pub fn chosen_text(&self) -> String {
        let names: Vec<String> = self.chosen().iter().map(|parameter| format!("`{parameter}`")).collect();
        let together = if self.parameters.is_empty() { "" } else { " together" };
        format!("{}{together}", names.join(", "))
    }

    /// The candidates with figures over the whole sample, best first.
    pub fn measured(&self) -> impl Iterator<Item = &RankedCandidate> {
        self.candidates.iter().filter(|candidate| candidate.stopped.is_none())
    }

    /// The value for `parameter` of a configuration: the best candidate's, or a list of the `best` best.
    ///
    /// # Errors
    /// [`JobError::Choice`] for another parameter's selection, more values than candidates, or several values of
    /// parameters that were chosen together.
    pub(super) fn take_values(
        &self,
        configuration: &str,
        parameter: &str,
        best: Option<usize>,
    ) -> Result<Value, JobError> {
        let wrong = |reason: String| {
            Err(JobError::Choice { configuration: configuration.to_owned(), parameter: parameter.to_owned(), reason })
        };
        if !self.chosen().contains(&parameter) {
            return wrong(format!("selection `{}` is of {}", self.name, self.chosen_text()));
        }
        if !self.parameters.is_empty() {
            if best.is_some() {
                return wrong(format!("`best` with selection `{}`, which is of {}", self.name, self.chosen_text()));
            }
            let first = self.measured().next().and_then(|candidate| candidate.value.get(parameter));
            let has_none = || wrong(format!("selection `{}` has no value of `{parameter}`", self.name));
            return first.cloned().map_or_else(has_none, Ok);
        }
        let wanted = best.unwrap_or(1);
        let has = self.measured().count();
        if wanted == 0 || wanted > has {
            let stopped = match self.candidates.len() - has {
                0 => String::new(),
                stopped => format!(" over the whole sample: its race stopped {stopped} (`least` keeps more)"),
            };
            return wrong(format!("best = {wanted}, and selection `{}` has 1 to {has} candidates{stopped}", self.name));
        }
        let mut values = self.measured().take(wanted).map(|candidate| candidate.value.clone());
        if best.is_none() {
            return Ok(values.next().unwrap_or_default());
        }
        // A candidate that is itself a list is spliced into the result.
        let parts = |value| match value {
            Value::Array(parts) => parts,
            one => vec![one],
        };
        Ok(Value::Array(values.flat_map(parts).collect()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::job::references::SelectionReference;
    use serde_json::json;

    /// A selection of these candidates, the best first.
    pub(crate) fn selection(values: &[Value]) -> Selection {
        let ranked = |value: &Value| RankedCandidate {
            value: value.clone(),
            score: Some(0.5),
            stderr: None,
            n: 2,
            coverage: Some(1.0),
            draws: 0,
            stopped: None,
        };
        Selection {
            schema_version: VERSION,
            name: "x".into(),
            parameter: "instructions".into(),
            parameters: Vec::new(),
            measure: "recall_all@2".into(),
            measure_version: "1".into(),
            settings: json!({}),
            dataset_digest: "d".into(),
            corpus_digest: "c".into(),
            services: BTreeMap::new(),
            sample: vec![SampledQuestion::new("q1", "Who?")],
            candidates: values.iter().map(ranked).collect(),
            race: None,
        }
    }

    #[test]
    fn a_selection_is_committed_once() {
        let store = Store::open("memory:").unwrap();
        assert_eq!(Selection::find(&store, "x").unwrap(), None);
        assert!(matches!(Selection::load(&store, "x"), Err(JobError::NoSelection { .. })));
        let one = selection(&[json!("Ask.")]);
        assert!(one.commit(&store).unwrap());
        assert!(!one.commit(&store).unwrap(), "the same again changes nothing");
        let found = Selection::load(&store, "x").unwrap();
        assert_eq!((&found, found.digest()), (&one, one.digest()));
        let other = selection(&[json!("Say.")]);
        assert!(matches!(other.commit(&store), Err(JobError::SelectionTaken { .. })));
        assert_ne!(other.digest(), one.digest());
    }

    #[test]
    fn the_best_is_a_value_and_the_best_few_are_a_list() {
        let placed = json!([{"text": "Say.", "position": "before"}]);
        let one = selection(&[json!("Ask."), placed, json!("Write.")]);
        let take = |best| one.take_values("m", "instructions", best);
        assert_eq!(take(None).unwrap(), json!("Ask."));
        assert_eq!(take(Some(1)).unwrap(), json!(["Ask."]));
        assert_eq!(take(Some(2)).unwrap(), json!(["Ask.", {"text": "Say.", "position": "before"}]));
        assert!(take(Some(4)).unwrap_err().to_string().contains("1 to 3 candidates"));
        let message = one.take_values("m", "temperature", None).unwrap_err().to_string();
        assert!(message.contains("selection `x` is of `instructions`"), "{message}");
    }

    #[test]
    fn parameters_that_were_chosen_together_have_the_values_of_one_candidate() {
        let mut joint = selection(&[json!({"k": 4, "distractors": 2}), json!({"k": 6, "distractors": 1})]);
        joint.parameter.clear();
        joint.parameters = vec!["distractors".into(), "k".into()];
        let take = |parameter, best| joint.take_values("m", parameter, best);
        assert_eq!((take("k", None).unwrap(), take("distractors", None).unwrap()), (json!(4), json!(2)));
        let message = take("k", Some(2)).unwrap_err().to_string();
        assert!(message.contains("`best` with selection `x`, which is of `distractors`, `k` together"), "{message}");
        let message = take("temperature", None).unwrap_err().to_string();
        assert!(message.contains("selection `x` is of `distractors`, `k` together"), "{message}");
        let bytes = joint.json_bytes();
        assert_eq!(serde_json::from_slice::<Selection>(&bytes).unwrap(), joint);
        assert!(!String::from_utf8(bytes).unwrap().contains("\"parameter\""));
    }

    #[test]
    fn stopped_candidates_are_never_taken() {
        let mut raced = selection(&[json!("Ask."), json!("Say."), json!("Write.")]);
        let stopped = StoppedCandidate {
            questions: 9,
            mean: Some(0.2),
            stderr: Some(0.1),
            n: 9,
            cut: 0.4,
            difference: -0.2,
            difference_stderr: 0.1,
        };
        raced.candidates[2].stopped = Some(stopped);
        assert_eq!(raced.take_values("m", "instructions", Some(2)).unwrap(), json!(["Ask.", "Say."]));
        let message = raced.take_values("m", "instructions", Some(3)).unwrap_err().to_string();
        assert!(message.contains("1 to 2 candidates over the whole sample: its race stopped 1"), "{message}");
    }

    #[test]
    fn references_are_told_from_other_values() {
        let of = |value: Value| SelectionReference::from_value("m", "instructions", &value);
        assert_eq!(of(json!("text")).unwrap(), None);
        assert_eq!(of(json!({"text": "t", "position": "after"})).unwrap(), None);
        assert_eq!(of(json!({"selection": "x"})).unwrap().map(|r| (r.selection, r.best)), Some(("x".into(), None)));
        let message = of(json!({"selection": "x", "top": 5})).unwrap_err().to_string();
        assert!(message.contains("unknown field `top`"), "{message}");
    }
}
