//! Parameters from earlier choices: values of committed selections, and demonstrations drawn from the tune sample.
//!
//! ```text
//!   instructions   = { selection = "NAME" }             the best candidate
//!   instructions   = { selection = "NAME", best = 5 }   a list of the five best
//!   k, distractors = { selection = "NAME" }             each its value of the best pair, if they were chosen together
//!   demonstrations = { draw = 2, sets = 1, seed = 0 }   solved questions of the [tune] sample
//! ```
//!
//! Both are replaced by their values before a run is made: its record, its requests and its digest hold the values, as
//! if the job had named them, and the record names their selections. A choice must not be evaluated on the questions it
//! was made on: [`OverlapCheck`] refuses that.

pub mod demonstrations;
pub mod overlap;
pub mod selection;

use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::references::{DemonstrationDraw, SelectionReference};
use crate::job::sweep::Configuration;
use crate::places::Places;
use demonstrations::DemonstrationSample;
use hopeval_results::Store;
use overlap::OverlapCheck;
use selection::Selection;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The results of resolving the choices of a job's configurations.
#[derive(Debug, Default)]
pub struct ResolvedChoices {
    /// Digests of the selections, by name.
    pub selections: BTreeMap<String, String>,
    /// The samples of the choices: their questions must not be evaluated.
    pub overlap: OverlapCheck,
}

/// Replaces the choices in `configurations` by their values, and returns the sources of the values.
///
/// # Errors
/// A missing selection or one of another parameter; demonstrations without a sample to draw from.
pub fn resolve_choices(
    job: &Job,
    configurations: &mut [Configuration],
    places: &Places,
    report: ProgressReporter<'_>,
) -> Result<ResolvedChoices, JobError> {
    let mut resolved = resolve_selections(configurations, &places.store)?;
    let mut read_sample: Option<DemonstrationSample> = None;
    for configuration in configurations {
        let name = configuration.name.clone();
        for (parameter, value) in parameters_mut(configuration) {
            let Some(wanted) = DemonstrationDraw::from_value(&name, parameter, value)? else { continue };
            let sample = match &read_sample {
                Some(sample) => sample,
                None => &*read_sample.insert(DemonstrationSample::read_sample(job, &name, places, report)?),
            };
            *value = sample.draw_sets(&name, &wanted)?;
            resolved.overlap.add_sample("demonstrations", &sample.sampled);
        }
    }
    Ok(resolved)
}

/// Replaces only references to selections.
///
/// # Errors
/// As [`resolve_choices`].
pub fn resolve_selections(configurations: &mut [Configuration], store: &Store) -> Result<ResolvedChoices, JobError> {
    let mut resolved = ResolvedChoices::default();
    let mut known: BTreeMap<String, Selection> = BTreeMap::new();
    for configuration in configurations {
        let name = configuration.name.clone();
        let mut taken: Vec<(String, String)> = Vec::new();
        for (parameter, value) in parameters_mut(configuration) {
            let Some(reference) = SelectionReference::from_value(&name, parameter, value)? else { continue };
            taken.push((reference.selection.clone(), parameter.clone()));
            let selection = match known.entry(reference.selection) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(free) => {
                    let found = Selection::load(store, free.key())?;
                    free.insert(found)
                }
            };
            *value = selection.take_values(&name, parameter, reference.best)?;
            resolved.selections.insert(selection.name.clone(), selection.digest());
            resolved.overlap.add_sample(&format!("selection `{}`", selection.name), &selection.sample);
        }
        refuse_half(&name, &taken, &known)?;
    }
    Ok(resolved)
}

/// Refuses a configuration that takes some of the parameters that were chosen together, and sets others.
fn refuse_half(
    configuration: &str,
    taken: &[(String, String)],
    known: &BTreeMap<String, Selection>,
) -> Result<(), JobError> {
    for (selection, parameter) in taken {
        let has = |wanted: &str| taken.iter().any(|(from, of)| from == selection && of == wanted);
        if let Some(missing) = known[selection].chosen().into_iter().find(|wanted| !has(wanted)) {
            return Err(JobError::Choice {
                configuration: configuration.to_owned(),
                parameter: missing.to_owned(),
                reason: format!(
                    "selection `{selection}` chose it together with `{parameter}`: set it to \
                     {{ selection = \"{selection}\" }}, too"
                ),
            });
        }
    }
    Ok(())
}

fn parameters_mut(configuration: &mut Configuration) -> impl Iterator<Item = (&String, &mut serde_json::Value)> {
    configuration.parameters.as_object_mut().into_iter().flatten()
}
