//! What a job's methods are refused for as soon as it is read: a corpus, its indexes and its models may take hours to make, and are
//! needed for none of this. What only they can tell is judged once they are there.

use crate::choices;
use crate::error::JobError;
use crate::job::Job;
use crate::services::CORPUS;
use crate::sweep;
use hopeval_methods::{Kind, Setting};
use std::path::Path;

/// More passages than any corpus has: no method is refused for a corpus that is too small.
const ANY: Setting = Setting { passages: u32::MAX };

/// Checks kinds, parameters and the names of services.
///
/// # Errors
/// [`JobError::Within`] names the file, and what is wrong with which configuration.
pub(crate) fn check(job: &Job, path: &Path) -> Result<(), JobError> {
    let within = |source| JobError::Within { path: path.into(), source: Box::new(source) };
    for whole in sweep::configurations(job) {
        let mut known = whole.clone();
        choices::leave_open(std::slice::from_mut(&mut known));
        let is_whole = known == whole;
        let method = match sweep::methods(std::slice::from_ref(&known), &ANY) {
            Ok(methods) => methods,
            // A parameter that must be given may be what a selection chooses.
            Err(_) if !is_whole => continue,
            Err(error) => return Err(within(error)),
        };
        for used in method.iter().flat_map(|method| method.services()) {
            let of_corpus = matches!(used.kind, Kind::Links | Kind::Passages).then_some(CORPUS);
            let mut services = job.service.keys().map(String::as_str).chain(of_corpus);
            if !services.any(|name| *name == *used.service.0) {
                let services: Vec<&str> = job.service.keys().map(String::as_str).chain(of_corpus).collect();
                return Err(within(JobError::ServiceUse {
                    configuration: whole.name,
                    parameter: used.parameter,
                    service: used.service.to_string(),
                    reason: "no such service".to_owned(),
                    allowed: services.join(", "),
                }));
            }
        }
    }
    Ok(())
}
