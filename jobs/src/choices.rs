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
pub mod watch;

use crate::cache::Report;
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::references::{Demonstrations, Reference};
use crate::job::sweep::Configuration;
use crate::places::Places;
use demonstrations::Shown;
use hopeval_results::Store;
use selection::Selection;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use watch::Watch;

/// What the choices of a job's configurations came to.
#[derive(Debug, Default)]
pub struct ResolvedChoices {
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
) -> Result<ResolvedChoices, JobError> {
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
pub fn resolve_selections(configurations: &mut [Configuration], store: &Store) -> Result<ResolvedChoices, JobError> {
    let mut resolved = ResolvedChoices::default();
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

fn parameters(configuration: &mut Configuration) -> impl Iterator<Item = (&String, &mut serde_json::Value)> {
    configuration.parameters.as_object_mut().into_iter().flatten()
}
