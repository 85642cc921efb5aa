//! Reads every file of a store and compares it with its check, its seal or its hashes.
//!
//! Files are compared with the objects that name them: the questions with the run's record, parts and edits of gold
//! with the commit log, tables and their copies with the last `Final` record. A file that nothing names (a part of a
//! generation that never committed it) is counted and not read: no figure is made from it.

use crate::check::{FileCheck, FileRemedy};
use crate::journal::{JournalError, scan_segment};
use crate::log::Log;
use crate::run::RunRecord;
use crate::store::{Store, StoreError};
use crate::{layout, parallel, seal};
use std::collections::{BTreeMap, BTreeSet};

/// The findings of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct StoreVerification {
    /// Runs read.
    pub runs: u64,
    /// Files compared with a check, a seal or hashes.
    pub compared: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Files that are used and carry no check, as earlier versions wrote them.
    pub unchecked: u64,
    /// Files that nothing names.
    pub unnamed: u64,
    /// Runs with files that carry no check.
    pub unchecked_runs: Vec<String>,
    /// An error for each damaged or missing file.
    pub damage: Vec<String>,
}

impl StoreVerification {
    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.compared += other.compared;
        self.bytes += other.bytes;
        self.unchecked += other.unchecked;
        self.unnamed += other.unnamed;
        self.unchecked_runs.extend(other.unchecked_runs);
        self.damage.extend(other.damage);
    }

    fn note_compared(&mut self, size: u64, result: Result<(), impl std::fmt::Display>) {
        self.compared += 1;
        self.bytes += size;
        if let Err(error) = result {
            self.damage.push(error.to_string());
        }
    }
}

/// Verifies all runs of a store, its journal and its selections; or one run and its own files.
///
/// # Errors
/// A folder cannot be listed. Damage is no error here.
pub fn verify_store(store: &Store, run: Option<&str>) -> Result<StoreVerification, StoreError> {
    let runs = match run {
        Some(run) => vec![run.to_owned()],
        None => store.list_folders(layout::RUNS)?,
    };
    let mut all = StoreVerification::default();
    for found in parallel::map(&runs, |run| verify_run(store, run)) {
        all.add(found?);
    }
    if run.is_none() {
        let mut shared = [store.list(layout::JOURNAL)?, store.list(layout::SELECTIONS)?].concat();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        // A run that is going on merges segments: what is new in a second listing may replace what is gone meanwhile.
        for _ in 0..2 {
            for found in parallel::map(&shared, |(name, size)| verify_by_itself(store, name, *size)) {
                all.add(found);
            }
            seen.extend(shared.into_iter().map(|(name, _)| name));
            shared = store.list(layout::JOURNAL)?;
            shared.retain(|(name, _)| !seen.contains(name));
        }
    }
    Ok(all)
}

fn verify_run(store: &Store, run: &str) -> Result<StoreVerification, StoreError> {
    let mut found = StoreVerification { runs: 1, ..StoreVerification::default() };
    let listed = store.list(&layout::run_folder(run))?;
    let mut named = match NamedFiles::read_names(store, run) {
        Ok(named) => named,
        Err(error) => {
            // Without its record and log a run's files can only be compared with themselves.
            found.damage.push(error);
            NamedFiles::default()
        }
    };
    for (name, size) in &listed {
        match named.checks.remove(name) {
            Some(Some((check, remedy))) => {
                found.note_compared(*size, check.verify_file(store, name, remedy).map(drop));
            }
            Some(None) => found.unchecked += 1,
            None => {
                let other = verify_by_itself(store, name, *size);
                // The record and the log were read above, and their damage is known.
                let known: Vec<String> =
                    other.damage.into_iter().filter(|error| !found.damage.contains(error)).collect();
                found.add(StoreVerification { damage: known, ..other });
            }
        }
    }
    for (name, _) in named.checks {
        // Copies for people are made after the record that names their originals.
        if !name.starts_with(&layout::final_folder(run)) {
            let missing = StoreError::NotFound { operation: "read", path: store.full_name(&name) };
            found.damage.push(format!("{missing}\nhint: {}", FileRemedy::Restore.hint()));
        }
    }
    if found.unchecked > 0 {
        found.unchecked_runs.push(run.to_owned());
    }
    Ok(found)
}

/// Verifies a file by its own seal or hashes.
fn verify_by_itself(store: &Store, name: &str, size: u64) -> StoreVerification {
    let mut found = StoreVerification::default();
    if name.ends_with(".seg") {
        match scan_segment(store, name) {
            // It was listed, so it has been merged with others since then.
            Err(JournalError::Store(StoreError::NotFound { .. })) => {}
            scanned => found.note_compared(size, scanned.map(drop)),
        }
        return found;
    }
    if !name.ends_with(".json") {
        found.unnamed += 1;
        return found;
    }
    let remedy = if name.starts_with(layout::SELECTIONS) { FileRemedy::Tune } else { FileRemedy::Restore };
    let document = store.get(name).and_then(|bytes| seal::remove_seal(store, name, &bytes, remedy));
    match document {
        Ok(document) if document.sealed => found.note_compared(size, Ok::<(), StoreError>(())),
        Ok(document) => match serde_json::from_slice::<serde::de::IgnoredAny>(&document.json) {
            Ok(_) => found.unchecked += 1,
            Err(error) => {
                let (path, hint) = (store.full_name(name), remedy.hint());
                found.damage.push(format!("`{path}` is damaged: {error}\nhint: {hint}"));
            }
        },
        Err(error) => found.note_compared(size, Err(error)),
    }
    found
}

/// The files of a run that its record and its log name, each with its check if it has one.
#[derive(Default)]
struct NamedFiles {
    checks: BTreeMap<String, Option<(FileCheck, FileRemedy)>>,
}

impl NamedFiles {
    fn read_names(store: &Store, run: &str) -> Result<Self, String> {
        let mut named = Self::default();
        let made = store.exists(&layout::run_record(run)).map_err(|error| error.to_string())?;
        if !made {
            return Ok(named);
        }
        let record = RunRecord::load(store, run).map_err(|error| error.to_string())?;
        named.add(layout::questions_table(run), None, FileRemedy::Restore);
        for (name, check) in record.checks {
            named.add(name, Some(check), FileRemedy::Restore);
        }
        let log = Log::open(store, run).map_err(|error| error.to_string())?;
        for commit in &log.state().commits {
            for part in &commit.parts {
                named.add(part.clone(), commit.checks.get(part).cloned(), FileRemedy::Restore);
            }
        }
        for gold in &log.state().golds {
            named.add(gold.path.clone(), gold.check.clone(), FileRemedy::Restore);
        }
        for table in log.state().finished.iter().flat_map(|finished| &finished.tables) {
            let check = Some(table.file_check());
            named.add(table.path.clone(), check.clone(), FileRemedy::Rewrite);
            named.add(layout::final_table(run, &table.table), check, FileRemedy::Rewrite);
        }
        Ok(named)
    }

    fn add(&mut self, name: String, check: Option<FileCheck>, remedy: FileRemedy) {
        self.checks.insert(name, check.map(|check| (check, remedy)));
    }
}
