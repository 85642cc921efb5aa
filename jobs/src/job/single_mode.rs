//! Refuses races and searches over several context modes: figures of different modes are never ranked together.
//!
//! Most configurations have their mode as soon as the job is read. One whose parameters are filled in later, from the
//! store or a sample, has it before the first run.

use super::file::Job;
use super::preflight::ANY;
use super::references;
use super::sweep::{self, Configuration};
use super::tune::SearchSettings;
use crate::bad_value::{BadValue, ensure};
use crate::error::JobError;
use hopeval_methods::{ContextMode, registry};
use std::collections::BTreeSet;
use std::path::Path;

/// Checks the races and the searches of a job, as far as their configurations have a mode already.
///
/// # Errors
/// [`JobError::Value`] names the file `path`, the key and the modes.
pub(super) fn check_modes(job: &Job, path: &Path) -> Result<(), JobError> {
    let wrong = |bad: BadValue| bad.in_file(path);
    for (name, method) in job.method.iter().filter(|(_, method)| method.race.is_some()) {
        let varied: Vec<&str> = method.sweep.keys().map(String::as_str).collect();
        ensure_one_mode(&format!("method.{name}.race"), known_modes(sweep::points_of(name, method), &varied))
            .map_err(wrong)?;
    }
    for (n, select) in job.tune.iter().flat_map(|tune| &tune.select).enumerate() {
        let searched = &job.method[&select.method];
        let candidates = select.named_candidates();
        let points = candidates
            .iter()
            .flat_map(|candidate| sweep::points_of(&select.name, &select.with_candidate(searched, candidate)));
        check_candidates(n, select, points).map_err(wrong)?;
    }
    Ok(())
}

/// Checks the candidates of the search at position `step`, as far as they have a mode already.
///
/// # Errors
/// The key and the modes.
pub(crate) fn check_candidates(
    step: usize,
    select: &SearchSettings,
    candidates: impl IntoIterator<Item = Configuration>,
) -> Result<(), BadValue> {
    let key = if select.grid.is_empty() { "candidates" } else { "grid" };
    ensure_one_mode(&format!("tune.select[{step}].{key}"), known_modes(candidates, &select.parameters()))
}

/// Refuses several modes of the configurations that `key` ranks.
///
/// # Errors
/// The modes.
pub(crate) fn ensure_one_mode(key: &str, modes: impl IntoIterator<Item = ContextMode>) -> Result<(), BadValue> {
    let modes: BTreeSet<&str> = modes.into_iter().map(ContextMode::name).collect();
    ensure(modes.len() < 2, || {
        let found = format!("configurations of the context modes {}", modes.into_iter().collect::<Vec<_>>().join(", "));
        BadValue::new(key, found, "configurations of one context mode: modes are never ranked together")
    })
}

/// The modes of configurations that differ in the `varied` parameters. Left out are those that cannot be built yet, and
/// those in which a varied parameter is open: its default is not its value.
fn known_modes(
    configurations: impl IntoIterator<Item = Configuration>,
    varied: &[&str],
) -> impl Iterator<Item = ContextMode> {
    configurations.into_iter().filter_map(move |whole| {
        let mut known = whole.clone();
        references::leave_open(std::slice::from_mut(&mut known));
        let is_open = |name: &&str| whole.parameters.get(name).is_some() != known.parameters.get(name).is_some();
        if varied.iter().any(is_open) {
            return None;
        }
        Some(registry::build_method(&known.kind, &known.parameters, &ANY).ok()?.context_mode())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a job with these tables; `None` if it is accepted.
    fn refused(tables: &str) -> Option<String> {
        let head = "name = \"modes\"\n[dataset]\nquestions = \"q.json\"\n[corpus]\nsource = \"c.jsonl\"\n\
                    [service.s]\nkind = \"bm25\"\n[service.t5]\nkind = \"lm\"\nmodel = \"t5\"\n\
                    [method.m]\nkind = \"one_step_qa\"\nretriever = \"s\"\ngenerator = \"t5\"\n";
        Some(Job::parse(&[head, tables].concat(), Path::new("modes.toml"), &[]).err()?.to_string())
    }

    #[test]
    fn configurations_of_several_modes_are_not_ranked() {
        let race = "[method.m.race]\nmeasure = \"f1\"\nleast = 1\n";
        let sweep = |contexts: &str| format!("[method.m.sweep]\ncontext = {contexts}\nk = [2, 4]\n");
        let select =
            |rest: &str| format!("[tune]\nmeasure = \"f1\"\n[[tune.select]]\nname = \"a\"\nmethod = \"m\"\n{rest}");
        let contexts = "parameter = \"context\"\ncandidates = [\"open\", \"oracle\"]\n";
        let grid = "[tune.select.grid]\ncontext = [\"mixed\", \"open\"]\nk = [2, 4]\n";
        for (tables, says) in [
            (
                sweep("[\"open\", \"oracle\", \"mixed\"]") + race,
                "modes.toml: `method.m.race` = configurations of the context modes mixed, open, oracle; allowed: \
                 configurations of one context mode",
            ),
            (
                select(contexts),
                "modes.toml: `tune.select[0].candidates` = configurations of the context modes open, ora",
            ),
            (select(grid), "modes.toml: `tune.select[0].grid` = configurations of the context modes mixed, open"),
            // The mode of one point is not known yet.
            (
                sweep("[{ selection = \"x\" }, \"oracle\", \"open\"]").replace("k = [2, 4]", "") + race,
                "the context modes open, oracle",
            ),
        ] {
            let said = refused(&tables).unwrap_or_else(|| panic!("{tables} was accepted"));
            assert!(said.contains(says), "{tables}: {said}");
        }
        // A sweep without a race ranks nothing; one mode is no mixture; a mode may not be known yet.
        assert_eq!(refused(&sweep("[\"open\", \"oracle\"]")), None);
        assert_eq!(refused(&(sweep("[\"oracle\"]") + race)), None);
        assert_eq!(refused(&(sweep("[{ selection = \"x\" }, \"oracle\"]") + race)), None);
    }
}
