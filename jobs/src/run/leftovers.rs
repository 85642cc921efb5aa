//! Clears staging files of writers that are dead or superseded.
//!
//! A staging name may be used again once its file is gone, and a stopped writer that wakes up would then rename the
//! file of another. So a file is cleared only when nobody stages its object any more: after the fence, what has an
//! earlier generation in its name, log records with a taken number, and the files of the run's making; after the tables
//! are published, copies and live tables. Edits of gold need no generation: their files are cleared once an edit has
//! their number: the put of a writer that still lives is tried again, and finds that edit.

use super::live_table::live_object;
use crate::error::JobError;
use hopeval_results::store::StagingFile;
use hopeval_results::{Store, layout};

/// Removes the staging files that writers of `run` before `generation` left. `next` is the log's next record. Those of
/// edits of gold are left to [`clear_gold`].
///
/// # Errors
/// A folder cannot be listed, or a file cannot be removed.
pub fn clear_staging(store: &Store, run: &str, generation: u64, next: u64) -> Result<u64, JobError> {
    let (gold, log) = (layout::gold_folder(run), layout::log_folder(run));
    let behind = layout::log_record(run, next);
    let dead = |staged: &StagingFile| {
        let object = staged.object.as_str();
        let taken = object < behind.as_str();
        !object.starts_with(&gold) && (!object.starts_with(&log) || taken) && !is_published(run, object)
    };
    let own = store.remove_staging(&layout::run_folder(run), &dead)?;
    // Runs share the journal. The names of its segments have the run and the generation.
    let earlier = |staged: &StagingFile| {
        layout::segment_writer(&staged.object).is_some_and(|(of, number)| of == run && number < generation)
    };
    Ok(own + store.remove_staging(layout::JOURNAL, &earlier)?)
}

/// Removes the staging files of copies and live tables. The caller has published the run's last tables.
///
/// # Errors
/// As [`clear_staging`].
pub fn clear_published(store: &Store, run: &str) -> Result<u64, JobError> {
    Ok(store.remove_staging(&layout::run_folder(run), &|staged| is_published(run, &staged.object))?)
}

/// Removes the staging files of the edits of gold up to `edit`, which is stored.
///
/// # Errors
/// As [`clear_staging`].
pub fn clear_gold(store: &Store, run: &str, edit: u64) -> Result<u64, JobError> {
    let last = layout::gold_edit(run, edit);
    Ok(store.remove_staging(layout::gold_folder(run).trim_end_matches('/'), &|staged| staged.object <= last)?)
}

/// Whether every generation writes this object under the same name.
fn is_published(run: &str, object: &str) -> bool {
    object.starts_with(&layout::final_folder(run)) || object == live_object(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn files(root: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path.strip_prefix(root).unwrap().display().to_string());
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn only_files_of_earlier_writers_are_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().to_str().unwrap()).unwrap();
        let dead = [
            format!("{}#1", layout::outcome_part("a", 1, 0, 3)),
            format!("{}#12", layout::log_record("a", 4)),
            format!("{}#1", layout::questions_table("a")),
            format!("{}#1", layout::segment_name(layout::JOURNAL, 7, "a", 1, 0, 0)),
        ];
        let spared = [
            layout::outcome_part("a", 1, 0, 2),
            format!("{}#1", layout::log_record("a", 5)),
            format!("{}#1", layout::gold_edit("a", 3)),
            format!("{}#1", layout::segment_name(layout::JOURNAL, 7, "a", 2, 0, 0)),
            format!("{}#1", layout::segment_name(layout::JOURNAL, 7, "b", 1, 0, 0)),
            format!("{}#1", layout::outcome_part("b", 1, 0, 0)),
        ];
        let published = [format!("{}#1", layout::final_table("a", "scores")), format!("{}#2", live_object("a"))];
        let edited = [format!("{}#1", layout::gold_edit("a", 1)), format!("{}#3", layout::gold_edit("a", 2))];
        for name in dead.iter().chain(&spared).chain(&published).chain(&edited) {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        assert_eq!(clear_staging(&store, "a", 2, 5).unwrap(), dead.len() as u64);
        assert_eq!(clear_published(&store, "a").unwrap(), 2);
        assert_eq!(clear_gold(&store, "a", 2).unwrap(), 2);
        let mut spared = spared.to_vec();
        spared.sort();
        assert_eq!(files(dir.path()), spared);
    }
}
