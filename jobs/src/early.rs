//! What a job's methods are refused for as soon as it is read: a corpus, its indexes and its models may take hours to make, and are
//! needed for none of this. What only they can tell is judged once they are there.

use crate::choices;
use crate::error::JobError;
use crate::job::{Job, Service};
use crate::services::CORPUS;
use crate::sweep;
use hopeval_methods::{Kind, MethodError, Setting};
use std::path::Path;

/// More passages than any corpus has: no method is refused for a corpus that is too small.
const ANY: Setting = Setting { passages: u32::MAX };

/// Checks kinds, parameters and the names of services.
///
/// # Errors
/// [`JobError::Within`] names the file, and what is wrong with which configuration.
pub(crate) fn check(job: &Job, path: &Path) -> Result<(), JobError> {
    let within = |source| JobError::Within { path: path.into(), source: Box::new(source) };
    let searched = |name: &str| job.tune.iter().flat_map(|tune| &tune.select).any(|select| select.method == name);
    for whole in sweep::configurations(job) {
        let mut known = whole.clone();
        choices::leave_open(std::slice::from_mut(&mut known));
        // A parameter that must be given may be what a search chooses.
        let is_open = known != whole || searched(&whole.name);
        let methods = match sweep::methods(std::slice::from_ref(&known), &ANY) {
            Ok(methods) => methods,
            Err(error) if is_open && lacks_a_parameter(&error) => continue,
            Err(error) => return Err(within(error)),
        };
        for used in methods.iter().flat_map(|method| method.services()) {
            let fit = fit(job, used.kind);
            if !job.service.contains_key(&*used.service.0) && !fit.contains(&&*used.service.0) {
                return Err(within(JobError::ServiceUse {
                    configuration: whole.name,
                    parameter: used.parameter,
                    service: used.service.to_string(),
                    reason: "no such service".to_owned(),
                    allowed: if fit.is_empty() { "none that does".to_owned() } else { fit.join(", ") },
                }));
            }
        }
    }
    Ok(())
}

fn lacks_a_parameter(error: &JobError) -> bool {
    match error {
        JobError::Method { source: MethodError::Parameters { source, .. }, .. } => {
            source.to_string().starts_with("missing field")
        }
        _ => false,
    }
}

/// The services that may answer requests of a kind, as far as a job tells: what a model is able to, its checkpoint says.
fn fit(job: &Job, kind: Kind) -> Vec<&str> {
    let asks_model = !matches!(kind, Kind::Retrieve | Kind::Links | Kind::Passages);
    let may = |service: &Service| match service {
        Service::Lm(_) => asks_model,
        Service::ShuffledLinks(_) => kind == Kind::Links,
        Service::Bm25(_) | Service::Tfidf(_) | Service::LinkTfidf {} | Service::Dense(_) => kind == Kind::Retrieve,
    };
    let own = job.service.iter().filter(|(_, service)| may(service)).map(|(name, _)| name.as_str());
    own.chain(matches!(kind, Kind::Links | Kind::Passages).then_some(CORPUS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a job with these tables is refused for; nothing if it is not.
    fn refused(tables: &str) -> Option<String> {
        let head = "name = \"early\"\n[dataset]\nquestions = \"q.json\"\n[corpus]\nsource = \"c.jsonl\"\n\
                    [service.sparse]\nkind = \"bm25\"\n[service.words]\nkind = \"tfidf\"\n[service.t5]\nkind = \"lm\"\nmodel = \"t5\"\n";
        let error = Job::parse(&[head, tables].concat(), Path::new("early.toml"), &[]).err()?;
        let mut said = error.to_string();
        let mut next = std::error::Error::source(&error);
        while let Some(cause) = next {
            said = format!("{said}: {cause}");
            next = cause.source();
        }
        Some(said)
    }

    #[test]
    fn what_a_search_chooses_may_be_left_open() {
        let open = "[method.m]\nkind = \"one_step\"\n[tune]\nsample = 4\n[[tune.select]]\nname = \"s\"\nmethod = \"m\"\n\
                    parameter = \"retriever\"\ncandidates = [\"sparse\", \"words\"]\n";
        assert_eq!(refused(open), None);
        assert_eq!(refused("[method.m]\nkind = \"one_step\"\nretriever = { selection = \"s\" }\n"), None);
        let without = refused("[method.m]\nkind = \"one_step\"\n").unwrap();
        assert!(without.contains("early.toml") && without.contains("missing field `retriever`"), "{without}");
        // What is wrong with the rest is told all the same.
        let rest = "kk = 3\nretriever = { selection = \"s\" }\n";
        for (job, says) in [
            (format!("[method.m]\nkind = \"one_step\"\n{rest}"), "unknown field `kk`"),
            (format!("[method.m]\nkind = \"two_step\"\n{rest}"), "`two_step`"),
        ] {
            let said = refused(&job).unwrap();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn services_that_may_answer_are_named() {
        let said = refused("[method.m]\nkind = \"one_step\"\nretriever = \"dense\"\n").unwrap();
        assert!(said.contains("`retriever` = \"dense\": no such service; the job has sparse, words"), "{said}");
        assert!(!said.contains("t5") && !said.contains(CORPUS), "{said}");
        let said =
            refused("[method.m]\nkind = \"iterative_title\"\nretriever = \"sparse\"\nlinks = \"other\"\n").unwrap();
        assert!(said.ends_with("the job has corpus"), "{said}");
        assert_eq!(refused("[method.m]\nkind = \"iterative_title\"\nretriever = \"sparse\"\n"), None);
    }
}
