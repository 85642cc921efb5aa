//! What methods take from choices made before: values of committed selections, demonstrations drawn from the tune sample.
//!
//! ```text
//!   instructions   = { selection = "NAME" }             the best candidate
//!   instructions   = { selection = "NAME", best = 5 }   a list of the five best
//!   demonstrations = { draw = 2, sets = 1, seed = 0 }   solved questions of the [tune] sample
//! ```
//!
//! Both are replaced by what they mean before a run is made: its record, its requests and its digest hold the values, as if the
//! job had said them, and the record says which selections they came from. Questions that a choice was made on must not be
//! evaluated under it: [`Watch`] refuses that.

pub mod demonstrations;
pub mod selection;

use crate::error::JobError;
use crate::job::Job;
use crate::job::sweep::Configuration;
use crate::prepare::corpora::Report;
use crate::run::Places;
use demonstrations::{Demonstrations, Shown};
use hopeval_datasets::Format;
use hopeval_results::Store;
use hopeval_results::tables::QuestionRow;
use selection::{Reference, Selection};
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// A question that a choice was made on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampled {
    /// Its id; none where the dataset has none of its own and ids are positions in a file.
    pub id: Option<String>,
    /// Digest of its text.
    pub text: String,
}

impl Sampled {
    /// Of a question.
    pub fn new(id: &str, text: &str) -> Self {
        // `<format>-<n>` is what a dataset without ids gets.
        let numbered = id.rsplit_once('-').filter(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        let is_place = numbered.is_some_and(|(format, _)| Format::ALL.iter().any(|known| known.name() == format));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { id: (!is_place).then(|| id.to_owned()), text: blake3::hash(words.as_bytes()).to_hex()[..16].to_owned() }
    }
}

/// Questions that choices were made on, by what was chosen.
#[derive(Debug, Default)]
pub struct Watch {
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    of: String,
    ids: BTreeSet<String>,
    texts: BTreeSet<String>,
    /// Evaluated questions that are in it: how many, and the first.
    met: (u64, String),
}

impl Watch {
    /// Keeps the questions of `sampled` out; `of` says what was chosen on them.
    pub fn add<'a>(&mut self, of: &str, sampled: impl IntoIterator<Item = &'a Sampled>) {
        if self.samples.iter().any(|sample| sample.of == of) {
            return;
        }
        let (mut ids, mut texts) = (BTreeSet::new(), BTreeSet::new());
        for question in sampled {
            ids.extend(question.id.clone());
            texts.insert(question.text.clone());
        }
        self.samples.push(Sample { of: of.to_owned(), ids, texts, met: (0, String::new()) });
    }

    /// Looks at a question that is to be evaluated.
    pub fn see(&mut self, id: &str, text: &str) {
        if self.samples.is_empty() {
            return;
        }
        let seen = Sampled::new(id, text);
        for sample in &mut self.samples {
            if sample.texts.contains(&seen.text) || seen.id.as_ref().is_some_and(|id| sample.ids.contains(id)) {
                if sample.met.0 == 0 {
                    id.clone_into(&mut sample.met.1);
                }
                sample.met.0 += 1;
            }
        }
    }

    /// [`Watch::see`], for a row.
    pub fn see_row(&mut self, row: &QuestionRow) {
        self.see(&row.id, &row.text);
    }

    /// # Errors
    /// [`JobError::Overlap`] if a question was seen that something was chosen on.
    pub fn check(&self) -> Result<(), JobError> {
        match self.samples.iter().find(|sample| sample.met.0 > 0) {
            None => Ok(()),
            Some(Sample { of, met: (questions, first), .. }) => {
                Err(JobError::Overlap { of: of.clone(), questions: *questions, first: first.clone() })
            }
        }
    }
}

/// What the choices of a job's configurations came to.
#[derive(Debug, Default)]
pub struct Resolved {
    /// Digests of the selections, by name.
    pub selections: BTreeMap<String, String>,
    /// Whose questions must not be evaluated.
    pub watch: Watch,
}

/// Replaces what `configurations` take from choices by the values, and says where those came from.
///
/// # Errors
/// A selection that is not there or that is another parameter's; demonstrations without a sample to draw from.
pub fn resolve(
    job: &Job,
    configurations: &mut [Configuration],
    places: &Places,
    report: Report<'_>,
) -> Result<Resolved, JobError> {
    let mut resolved = resolve_selections(configurations, &places.store)?;
    let mut sample: Option<Shown> = None;
    for configuration in configurations {
        let name = configuration.name.clone();
        for (parameter, value) in parameters(configuration) {
            let Some(wanted) = Demonstrations::of(&name, parameter, value)? else { continue };
            let shown = match &sample {
                Some(shown) => shown,
                None => &*sample.insert(Shown::read(job, &name, places, report)?),
            };
            *value = shown.draw(&name, &wanted)?;
            resolved.watch.add("demonstrations", &shown.sampled);
        }
    }
    Ok(resolved)
}

/// Replaces references to selections alone.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_selections(configurations: &mut [Configuration], store: &Store) -> Result<Resolved, JobError> {
    let mut resolved = Resolved::default();
    let mut known: BTreeMap<String, Selection> = BTreeMap::new();
    for configuration in configurations {
        let name = configuration.name.clone();
        for (parameter, value) in parameters(configuration) {
            let Some(reference) = Reference::of(&name, parameter, value)? else { continue };
            let selection = match known.entry(reference.selection) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(free) => {
                    let found = Selection::load(store, free.key())?;
                    free.insert(found)
                }
            };
            *value = selection.take(&name, parameter, reference.best)?;
            resolved.selections.insert(selection.name.clone(), selection.digest());
            resolved.watch.add(&format!("selection `{}`", selection.name), &selection.sample);
        }
    }
    Ok(resolved)
}

/// Leaves parameters that only a store or a sample can fill at their defaults: for looking at a job by itself.
pub fn leave_open(configurations: &mut [Configuration]) {
    for configuration in configurations {
        if let Some(parameters) = configuration.parameters.as_object_mut() {
            parameters.retain(|_, value| !(Reference::is_one(value) || Demonstrations::is_one(value)));
        }
    }
}

fn parameters(configuration: &mut Configuration) -> impl Iterator<Item = (&String, &mut serde_json::Value)> {
    configuration.parameters.as_object_mut().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_meet_by_id_or_text_but_not_by_position() {
        let mut watch = Watch::default();
        let sample = [Sampled::new("5a8b", "Who was born first?"), Sampled::new("nq-3", "who sang it")];
        watch.add("selection `x`", &sample);
        watch.see("nq-3", "another question");
        watch.see("5a8c", "Who was born last?");
        assert!(watch.check().is_ok());
        watch.see("dev_7", "Who was  born first?");
        watch.see("5a8b", "Who was born first, then?");
        let message = watch.check().unwrap_err().to_string();
        assert!(
            message.contains("2 questions") && message.contains("`dev_7`") && message.contains("selection `x`"),
            "{message}"
        );
    }
}
