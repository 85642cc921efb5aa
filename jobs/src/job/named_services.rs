//! Leaves out the services that no method of a job names: their models and indexes are not needed.

use super::file::Job;
use super::sweep;
use serde_json::Value;
use std::collections::BTreeSet;

/// Leaves out services without any configuration.
pub(crate) fn keep_named_services(job: &mut Job) {
    let mut named: BTreeSet<String> = BTreeSet::new();
    for configuration in sweep::configurations(job) {
        let values = configuration.parameters.as_object().into_iter().flat_map(|parameters| parameters.values());
        named.extend(values.filter_map(Value::as_str).map(ToOwned::to_owned));
    }
    let needed: Vec<String> = job
        .service
        .iter()
        .filter(|(name, _)| named.contains(*name))
        .filter_map(|(_, service)| service.settings().needed_service().map(ToOwned::to_owned))
        .collect();
    named.extend(needed);
    job.service.retain(|name, _| named.contains(name));
}
