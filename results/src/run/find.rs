//! Finds the run that a person names: by its id, the beginning of its id or of the digest in it, its job, or `latest`.

use super::{RunError, RunRecord, is_made};
use crate::layout;
use crate::store::{Store, StoreError};

/// The ways to name a run, for messages.
pub(super) const NAMES: &str = "`hopeval ls` lists runs; one is named by its id, the beginning of its id, `latest`, \
                                its job (the latest run of it), or four or more letters of the digest behind the id's \
                                `-`; `latest~1` and `JOB~1` are the ones before";

/// The fewest letters of a digest that name a run.
const SHORTEST_DIGEST: usize = 4;

/// Finds a run that has a record, as [`find_run`] does.
///
/// # Errors
/// As [`find_run`].
pub fn resolve_run(store: &Store, name: &str) -> Result<String, RunError> {
    find_run(store, name, &|run| is_made(store, run))
}

/// Finds the run that `name` names, among the folders of runs that `counts` accepts. The first of these that fits
/// counts:
///
/// * `latest` (`last` means the same): the newest run
/// * a run's id, or the beginning of one
/// * the name of a job: its newest run
/// * the beginning of the digest in a run's id, of four letters or more
///
/// `latest~N` and `JOB~N` are the run that is N before it, of the store or of the job.
///
/// # Errors
/// [`RunError::Unknown`], [`RunError::Ambiguous`] if a beginning fits several runs, or an error of the store.
pub fn find_run(
    store: &Store,
    name: &str,
    counts: &dyn Fn(&str) -> Result<bool, StoreError>,
) -> Result<String, RunError> {
    let mut folders = store.list_folders(layout::RUNS)?;
    folders.reverse();
    let (base, back) = split_name(name);
    let unknown = || RunError::Unknown { run: name.to_owned(), store: store.uri() };
    if matches!(base, "latest" | "last") {
        return nth_counting(folders, back.unwrap_or(0), counts)?.ok_or_else(unknown);
    }
    if back.is_none()
        && let Some(run) = find_beginning(store, name, &folders, &|run| run.starts_with(name), counts)?
    {
        return Ok(run);
    }
    if let Some(run) = nth_counting(runs_of_job(store, base, &folders)?, back.unwrap_or(0), counts)? {
        return Ok(run);
    }
    let has_digest = |run: &str| run.rsplit_once('-').is_some_and(|(_, digest)| digest.starts_with(name));
    match back {
        None if name.len() >= SHORTEST_DIGEST => find_beginning(store, name, &folders, &has_digest, counts)?,
        _ => None,
    }
    .ok_or_else(unknown)
}

/// The name without `~N`, and N. A job may have a `~` in its name: what does not end in a number is no count.
fn split_name(name: &str) -> (&str, Option<usize>) {
    match name.rsplit_once('~') {
        Some((base, count)) => match count.parse() {
            Ok(back) => (base, Some(back)),
            Err(_) => (name, None),
        },
        None => (name, None),
    }
}

/// The run that is `back` before the newest of `runs` (newest first) that count.
fn nth_counting(
    runs: Vec<String>,
    back: usize,
    counts: &dyn Fn(&str) -> Result<bool, StoreError>,
) -> Result<Option<String>, RunError> {
    let mut left = back;
    for run in runs {
        if counts(&run)? {
            match left.checked_sub(1) {
                Some(less) => left = less,
                None => return Ok(Some(run)),
            }
        }
    }
    Ok(None)
}

/// The only run of `folders` (newest first) that fits and counts, or the one whose id is `name`.
fn find_beginning(
    store: &Store,
    name: &str,
    folders: &[String],
    fits: &dyn Fn(&str) -> bool,
    counts: &dyn Fn(&str) -> Result<bool, StoreError>,
) -> Result<Option<String>, RunError> {
    let mut matching = Vec::new();
    for run in folders.iter().filter(|run| !name.is_empty() && fits(run)) {
        if !counts(run)? {
            continue;
        }
        if run == name {
            return Ok(Some(run.clone()));
        }
        matching.push(run.clone());
    }
    matching.reverse();
    match matching.len() {
        0 => Ok(None),
        1 => Ok(matching.pop()),
        _ => Err(RunError::Ambiguous { run: name.to_owned(), matching, store: store.uri() }),
    }
}

/// The runs of a job, in the order of `folders`. A run whose record cannot be read has no job.
fn runs_of_job(store: &Store, job: &str, folders: &[String]) -> Result<Vec<String>, RunError> {
    let records = RunRecord::load_many(store, folders)?;
    let named = |record: &Option<Result<RunRecord, RunError>>| matches!(record, Some(Ok(record)) if record.job == job);
    Ok(folders.iter().zip(&records).filter(|(_, record)| named(record)).map(|(run, _)| run.clone()).collect())
}
