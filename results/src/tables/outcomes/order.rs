//! Reads the committed outcomes of a run in final order, in bounded memory.
//!
//! Parts are in the order of commits: each holds some cohorts of all configurations. The final order is by
//! configuration, then index. Therefore the outcomes are read in *windows*. If configurations are small, a window holds
//! all cohorts of as many configurations as fit; if they are large, some cohorts of one. A part is opened once for each
//! window with rows in it, and only the row groups of the window's configurations are read.

use super::OutcomeRow;
use crate::check::{FileCheck, FileRemedy};
use crate::log::{Commit, LogState};
use crate::parallel;
use crate::store::Store;
use crate::tables::reader::FetchedGroups;
use crate::tables::{TableError, TableReader};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Rows of a window. A row with a hundred passages takes about 2 KiB.
const WINDOW_ROWS: u64 = 32_768;

/// Parts read at once. The metadata of a part takes some megabytes if it has hundreds of configurations.
const PARTS_TOGETHER: usize = 8;

/// An iterator over committed outcomes; see [`in_final_order`].
pub struct FinalOrderOutcomes {
    store: Store,
    run: String,
    cohort_size: u64,
    /// For each committed cohort: its commit, and its rows per configuration.
    cohorts: BTreeMap<u64, (usize, u64)>,
    parts: Vec<Vec<CheckedPart>>,
    /// Parts compared with their checks: each is compared once, at its first window.
    compared: Mutex<BTreeSet<String>>,
    windows: VecDeque<OutcomeWindow>,
    rows: std::vec::IntoIter<OutcomeRow>,
}

/// A part with its check, if its commit has one.
type CheckedPart = (String, Option<FileCheck>);

/// The parts of a commit, with their checks.
fn checked_parts(commit: &Commit) -> Vec<CheckedPart> {
    commit.parts.iter().map(|part| (part.clone(), commit.checks.get(part).cloned())).collect()
}

/// A rectangle of outcomes held in memory at once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OutcomeWindow {
    configurations: Range<u32>,
    cohorts: Range<u64>,
}

/// All committed outcomes of `run`, sorted by configuration and index: the rows of each committed cohort, from its
/// first valid commit. `cohort_size` is the run's number of questions in a cohort.
///
/// An item is an error if a part is missing or corrupt, or holds fewer or more outcomes of a cohort than its commit
/// says. An error is the last item.
pub fn in_final_order(
    store: &Store,
    run: &str,
    state: &LogState,
    configurations: usize,
    cohort_size: u64,
) -> FinalOrderOutcomes {
    let configurations = u32::try_from(configurations).unwrap_or(u32::MAX);
    let each = |outcomes: u64| outcomes / u64::from(configurations.max(1));
    let cohorts = state
        .committed
        .iter()
        .map(|(&cohort, &commit)| (cohort, (commit, each(state.outcomes.get(&cohort).copied().unwrap_or(0)))))
        .collect();
    let windows = plan_windows(&cohorts, configurations, WINDOW_ROWS);
    FinalOrderOutcomes {
        store: store.clone(),
        run: run.to_owned(),
        cohort_size: cohort_size.max(1),
        cohorts,
        parts: state.commits.iter().map(checked_parts).collect(),
        compared: Mutex::default(),
        windows,
        rows: Vec::new().into_iter(),
    }
}

/// The outcomes of the question at position `index` under all configurations. Empty if its cohort is not committed.
///
/// # Errors
/// As an item of [`in_final_order`].
pub fn of_question(
    store: &Store,
    state: &LogState,
    cohort_size: u64,
    index: u64,
) -> Result<Vec<OutcomeRow>, TableError> {
    let Some(&commit) = state.committed.get(&(index / cohort_size.max(1))) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (part, check) in state.commits.get(commit).map(checked_parts).unwrap_or_default() {
        let reader = TableReader::<OutcomeRow>::open_checked(store, &part, check.as_ref(), FileRemedy::Restore)?;
        let rows = reader.read_groups(&reader.groups_where("index", index, index))?;
        found.extend(rows.into_iter().filter(|row| row.index == index));
    }
    found.sort_by_key(|row| row.configuration);
    Ok(found)
}

fn plan_windows(cohorts: &BTreeMap<u64, (usize, u64)>, configurations: u32, limit: u64) -> VecDeque<OutcomeWindow> {
    let each: u64 = cohorts.values().map(|(_, rows)| rows).sum();
    let (Some((&first, _)), Some((&last, _))) = (cohorts.first_key_value(), cohorts.last_key_value()) else {
        return VecDeque::new();
    };
    if each <= limit {
        let together = u32::try_from(limit / each.max(1)).unwrap_or(u32::MAX).max(1);
        return (0..configurations)
            .step_by(together as usize)
            .map(|from| OutcomeWindow {
                configurations: from..from.saturating_add(together).min(configurations),
                cohorts: first..last + 1,
            })
            .collect();
    }
    let mut stretches: Vec<Range<u64>> = Vec::new();
    let mut held = 0;
    for (&cohort, &(_, rows)) in cohorts {
        match stretches.last_mut() {
            Some(stretch) if held + rows <= limit => {
                stretch.end = cohort + 1;
                held += rows;
            }
            _ => {
                stretches.push(cohort..cohort + 1);
                held = rows;
            }
        }
    }
    (0..configurations)
        .flat_map(|c| {
            stretches.iter().map(move |cohorts| OutcomeWindow { configurations: c..c + 1, cohorts: cohorts.clone() })
        })
        .collect()
}

impl FinalOrderOutcomes {
    /// Leaves out all windows without an outcome of these configurations, which are given by position. Others of the
    /// remaining windows are not left out.
    #[must_use]
    pub fn of_configurations(mut self, wanted: &BTreeSet<u32>) -> Self {
        self.windows.retain(|window| wanted.range(window.configurations.clone()).next().is_some());
        self
    }

    /// The rows of a window, sorted and counted.
    fn read_window(&self, window: &OutcomeWindow) -> Result<Vec<OutcomeRow>, TableError> {
        let wanted = || self.cohorts.range(window.cohorts.clone());
        let commits: BTreeSet<usize> = wanted().map(|(_, (commit, _))| *commit).collect();
        let parts: Vec<(usize, &CheckedPart)> =
            commits.iter().flat_map(|&commit| self.parts[commit].iter().map(move |part| (commit, part))).collect();
        let mut rows = Vec::new();
        for together in parts.chunks(PARTS_TOGETHER) {
            self.read_parts(window, together, &mut rows)?;
        }
        rows.sort_by_key(|row| (row.configuration, row.index));
        self.check_counts(window, &rows)?;
        Ok(rows)
    }

    /// Appends the rows that `parts`, each with the number of its commit, hold of a window.
    ///
    /// Threads only wait for the store, and this thread decodes. Rows from many threads would stay in the allocator's
    /// arena of each thread, and memory would grow with the number of windows.
    fn read_parts(
        &self,
        window: &OutcomeWindow,
        parts: &[(usize, &CheckedPart)],
        rows: &mut Vec<OutcomeRow>,
    ) -> Result<(), TableError> {
        let (low, high) = (u64::from(window.configurations.start), u64::from(window.configurations.end) - 1);
        let fetched = parallel::map(parts, |&(_, part)| {
            let mut reader = self.open_part(part)?;
            let groups = reader.groups_where("configuration", low, high);
            let fetched = reader.request_groups(&groups).into_iter().map(|groups| reader.fetch_groups(groups));
            let fetched = fetched.collect::<Result<Vec<FetchedGroups>, TableError>>()?;
            reader.forget_whole();
            Ok::<_, TableError>((reader, fetched))
        });
        for (&(commit, _), fetched) in parts.iter().zip(fetched) {
            let counts = |row: &OutcomeRow| {
                let cohort = row.index / self.cohort_size;
                window.configurations.contains(&row.configuration)
                    && window.cohorts.contains(&cohort)
                    && self.cohorts.get(&cohort).is_some_and(|(of, _)| *of == commit)
            };
            let (reader, fetched) = fetched?;
            for groups in fetched {
                reader.decode_fetched(groups, &counts, rows)?;
            }
        }
        Ok(())
    }

    fn open_part(&self, (part, check): &CheckedPart) -> Result<TableReader<OutcomeRow>, TableError> {
        let known = self.compared.lock().unwrap_or_else(PoisonError::into_inner).contains(part);
        let check = check.as_ref().filter(|_| !known);
        let reader = TableReader::open_checked(&self.store, part, check, FileRemedy::Restore)?;
        if check.is_some() {
            self.compared.lock().unwrap_or_else(PoisonError::into_inner).insert(part.clone());
        }
        Ok(reader)
    }

    /// Checks that a window holds each outcome of its cohorts exactly once.
    fn check_counts(&self, window: &OutcomeWindow, rows: &[OutcomeRow]) -> Result<(), TableError> {
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        let mut last = None;
        for row in rows {
            let twice = last.replace((row.configuration, row.index)) == Some((row.configuration, row.index));
            // A duplicated outcome counts as three, so it cannot make up for a missing one.
            *found.entry(row.index / self.cohort_size).or_default() += if twice { 2 } else { 1 };
        }
        let configurations = u64::from(window.configurations.end - window.configurations.start);
        for (&cohort, &(_, each)) in self.cohorts.range(window.cohorts.clone()) {
            let (expected, found) = (each * configurations, found.get(&cohort).copied().unwrap_or(0));
            if expected != found {
                return Err(TableError::Incomplete { run: self.run.clone(), cohort, expected, found });
            }
        }
        Ok(())
    }
}

impl Iterator for FinalOrderOutcomes {
    type Item = Result<OutcomeRow, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(Ok(row));
            }
            let window = self.windows.pop_front()?;
            match self.read_window(&window) {
                Ok(rows) => self.rows = rows.into_iter(),
                Err(error) => {
                    self.windows.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}
