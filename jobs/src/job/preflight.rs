//! Checks the methods of a job as soon as it is read: kinds, parameters and names of services.
//!
//! A corpus, its indexes and its models may take hours to make, and these checks need none of them. Checks that depend
//! on them come later ([`crate::services::catalogue`]).

use super::file::Job;
use super::references;
use super::sweep::{self, Configuration, JudgedConfiguration};
use super::tune::SearchSettings;
use crate::error::JobError;
use crate::services::corpus::CORPUS;
use hopeval_methods::{ContextMode, MethodError, MethodSetting, RequestKind, judge_kinds};
use std::path::Path;

/// The largest possible corpus: here no method is refused because the corpus is too small.
pub(super) const ANY: MethodSetting = MethodSetting::of_corpus(u32::MAX);

/// Checks kinds, parameters and the names of services.
///
/// # Errors
/// [`JobError::Within`] names the file, the configuration and the problem.
pub(crate) fn check_methods(job: &Job, path: &Path) -> Result<(), JobError> {
    let within = |source| JobError::Within { path: path.into(), source: Box::new(source) };
    if let Some((name, entry)) = job.method.iter().find(|(_, entry)| is_judge(&entry.kind)) {
        let (key, found) = (format!("method.{name}.kind"), entry.kind.clone());
        return Err(JobError::Value { path: path.into(), key, found, allowed: "a method; a judge is a [judge.NAME]" });
    }
    check_configurations(job, sweep::configurations(job)).map_err(within)
}

/// Checks kinds and parameters of judges, and the names of their services.
///
/// # Errors
/// As [`check_methods`].
pub(crate) fn check_judges(job: &Job, path: &Path) -> Result<(), JobError> {
    let within = |source| JobError::Within { path: path.into(), source: Box::new(source) };
    if let Some((name, entry)) = job.judge.iter().find(|(_, entry)| !is_judge(&entry.kind)) {
        let (key, found) = (format!("judge.{name}.kind"), entry.kind.clone());
        return Err(JobError::Value { path: path.into(), key, found, allowed: "the kind of a judge: yes_no" });
    }
    let filled_in = ["configuration", "context_mode"];
    for (name, entry) in &job.judge {
        let given = filled_in.iter().find_map(|parameter| Some((parameter, entry.parameters.get(*parameter)?)));
        if let Some((parameter, value)) = given {
            let (key, found) = (format!("judge.{name}.{parameter}"), value.to_string());
            return Err(JobError::Value { path: path.into(), key, found, allowed: "nothing; hopeval fills it in" });
        }
    }
    let any = JudgedConfiguration {
        name: "..".to_owned(),
        replicated_name: "..".to_owned(),
        replicate: None,
        control: None,
        context_mode: ContextMode::Closed,
    };
    check_configurations(job, sweep::judge_configurations(job, &[any])).map_err(within)
}

/// Whether a kind is that of a judge.
fn is_judge(kind: &str) -> bool {
    judge_kinds().iter().any(|info| info.kind == kind)
}

fn check_configurations(job: &Job, configurations: Vec<Configuration>) -> Result<(), JobError> {
    for whole in configurations {
        let mut known = whole.clone();
        references::leave_open(std::slice::from_mut(&mut known));
        let open = open_parameters(job, &whole, &known);
        let methods = match sweep::build_methods(std::slice::from_ref(&known), &ANY) {
            Ok(methods) => methods,
            Err(JobError::Method { source, .. }) if depends_on(&source, &open) => continue,
            Err(error) => return Err(error),
        };
        if let Some(source) = methods.iter().find_map(|method| method.check_new().err())
            && !depends_on(&source, &open)
        {
            return Err(JobError::Method { configuration: whole.name, source });
        }
        for used in methods.iter().flat_map(|method| method.service_uses()) {
            let fit = fitting_services(job, used.kind);
            if !job.service.contains_key(&*used.service.0) && !fit.contains(&&*used.service.0) {
                let kind = used.kind.name();
                let is_corpus = &*used.service.0 == CORPUS;
                return Err(JobError::ServiceUse {
                    configuration: whole.name,
                    parameter: used.parameter,
                    service: used.service.to_string(),
                    reason: if is_corpus { format!("it does not answer {kind}") } else { "no such service".to_owned() },
                    allowed: if fit.is_empty() { format!("none that answers {kind}") } else { fit.join(", ") },
                });
            }
        }
    }
    Ok(())
}

/// The open parameters of a configuration: a search, a selection or a draw will give their values.
fn open_parameters<'a>(job: &'a Job, whole: &'a Configuration, known: &Configuration) -> Vec<&'a str> {
    let searches = job.tune.iter().flat_map(|tune| &tune.select).filter(|select| select.method == whole.name);
    let given = whole.parameters.as_object().into_iter().flat_map(|given| given.keys());
    let left = given.filter(|name| known.parameters.get(name).is_none());
    searches.flat_map(SearchSettings::parameters).chain(left.map(String::as_str)).collect()
}

/// Whether an error may be due only to open parameters. They have their defaults here.
fn depends_on(error: &MethodError, open: &[&str]) -> bool {
    match error {
        MethodError::UnknownKind { .. } => false,
        MethodError::Parameters { source, .. } => {
            let said = source.to_string();
            let missing = said.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
            missing.is_some_and(|name| open.contains(&name))
        }
        // The allowed values can depend on any other parameter.
        MethodError::Value { .. } => !open.is_empty(),
    }
}

/// The services that may answer a kind of request, as far as the job tells. The abilities of a model depend on its
/// checkpoint.
fn fitting_services(job: &Job, kind: RequestKind) -> Vec<&str> {
    let own =
        job.service.iter().filter(|(_, service)| service.settings().may_answer(kind)).map(|(name, _)| name.as_str());
    own.chain(matches!(kind, RequestKind::Links | RequestKind::Passages).then_some(CORPUS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a job with these tables; `None` if it is accepted.
    fn refused(tables: &str) -> Option<String> {
        let head = "name = \"early\"\n[dataset]\nquestions = \"q.json\"\n[corpus]\nsource = \"c.jsonl\"\n\
                    [service.sparse]\nkind = \"bm25\"\n[service.words]\nkind = \"tfidf\"\n\
                    [service.t5]\nkind = \"lm\"\nmodel = \"t5\"\n";
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
        let open = "[method.m]\nkind = \"one_step\"\n[tune]\nsample = 4\n\
                    [[tune.select]]\nname = \"s\"\nmethod = \"m\"\n\
                    parameter = \"retriever\"\ncandidates = [\"sparse\", \"words\"]\n";
        assert_eq!(refused(open), None);
        assert_eq!(refused("[method.m]\nkind = \"one_step\"\nretriever = { selection = \"s\" }\n"), None);
        let without = refused("[method.m]\nkind = \"one_step\"\n").unwrap();
        assert!(without.contains("early.toml") && without.contains("missing field `retriever`"), "{without}");
        // Errors in the rest are reported all the same.
        let rest = "kk = 3\nretriever = { selection = \"s\" }\n";
        let missing = "temperature = { selection = \"t\" }\nretriever = \"words\"\n";
        for (kind, rest, says) in [
            ("one_step", rest, "unknown field `kk`"),
            ("two_step", rest, "`two_step`"),
            ("promptrank", missing, "missing field `scorer`"),
        ] {
            let said = refused(&format!("[method.m]\nkind = \"{kind}\"\n{rest}")).unwrap();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn what_a_parameter_may_be_can_depend_on_one_that_is_open() {
        let given = |order: &str| refused(&format!("[method.m]\nkind = \"given\"\n{order}\n"));
        assert!(given("").unwrap().contains("`retriever`"));
        assert_eq!(given("order = \"dataset\""), None);
        assert_eq!(given("order = { selection = \"s\" }"), None);
    }

    #[test]
    fn judges_are_checked_in_their_own_tables() {
        let method = "[method.m]\nkind = \"one_step\"\nretriever = \"sparse\"\n";
        let judge = |more: &str| refused(&format!("{method}[judge.j]\n{more}"));
        let good = "kind = \"yes_no\"\nrule = \"migres\"\ngenerator = \"t5\"\n";
        assert_eq!(judge(good), None);
        for (more, says) in [
            ("kind = \"oracle\"\n", "`judge.j.kind` = oracle; allowed: the kind of a judge: yes_no"),
            ("kind = \"yes_no\"\nrule = \"migres\"\ngenerator = \"llm\"\n", "no such service"),
            (format!("{good}configuration = \"m\"\n").as_str(), "`judge.j.configuration` = \"m\"; allowed: nothing"),
            (format!("{good}words = 3\n").as_str(), "unknown field `words`"),
            (format!("{good}[judge.j.sweep]\nmax_tokens = []\n").as_str(), "judge.j.sweep.max_tokens"),
        ] {
            let said = judge(more).unwrap();
            assert!(said.contains(says), "{said}");
        }
        let said = refused(&format!("[method.m]\n{good}")).unwrap();
        assert!(said.contains("`method.m.kind` = yes_no; allowed: a method; a judge is a [judge.NAME]"), "{said}");
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
        let said = refused("[method.m]\nkind = \"one_step\"\nretriever = \"corpus\"\n").unwrap();
        assert!(said.contains("= \"corpus\": it does not answer retrieve; the job has sparse, words"), "{said}");
    }
}
