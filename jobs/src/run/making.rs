//! The order to make a run: stored before its questions, and removed after its record.
//!
//! ```text
//!   making.json (the job) --> questions.parquet --> run.json --> making.json is removed
//! ```
//!
//! A process killed in between leaves the order. Then `resume` makes the run from it, under the same id.

use crate::error::JobError;
use crate::job::file::Job;
use hopeval_results::run::find_run;
use hopeval_results::{FileRemedy, RunError, Store, StoreError, layout, seal};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// An order to make a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MakingOrder {
    /// The run's id.
    pub(super) run: String,
    /// Time of its creation, in milliseconds since 1970.
    pub(super) created_ms: u64,
    /// The job, paths absolute.
    pub(super) job: Job,
    /// The file for wrong rows, if they are set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) quarantine: Option<PathBuf>,
    /// The judged run, for a run of judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) judged: Option<String>,
}

impl MakingOrder {
    /// Stores the order. An order of the same run is replaced.
    pub(super) fn store(&self, store: &Store) -> Result<(), JobError> {
        let unwritable = |source| JobError::Stored { what: "the order", run: self.run.clone(), source };
        let json = serde_json::to_vec_pretty(self).map_err(unwritable)?;
        Ok(store.put(&layout::making_order(&self.run), seal::add_seal(&json).into())?)
    }

    /// The order to make `run`; `None` if there is none.
    pub(super) fn load(store: &Store, run: &str) -> Result<Option<Self>, JobError> {
        let name = layout::making_order(run);
        let bytes = match store.get(&name) {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            bytes => bytes?,
        };
        let json = seal::remove_seal(store, &name, &bytes, FileRemedy::Restore)?.json;
        let malformed = |source| JobError::malformed(store, &name, FileRemedy::Restore, source);
        serde_json::from_slice(&json).map(Some).map_err(malformed)
    }

    /// Makes the run by `write`, which writes its files and its record, and returns its id. After an error that may
    /// pass the order stays: `resume` makes the run once the storage answers. After another one the run is withdrawn.
    pub(super) fn complete(
        &self,
        store: &Store,
        write: impl FnOnce() -> Result<(), JobError>,
    ) -> Result<String, JobError> {
        match write() {
            Ok(()) => {
                store.delete(&layout::making_order(&self.run))?;
                Ok(self.run.clone())
            }
            Err(error) if error.is_transient() => Err(error),
            Err(error) => {
                if let Err(error) = self.withdraw(store) {
                    tracing::warn!(%error, "cannot remove what is left of a run that was not made");
                }
                Err(error)
            }
        }
    }

    /// Removes everything of a run that cannot be made: nobody has seen it. Nothing is removed of a run that has a
    /// record: while this process was stopped, `resume` made the run from the order, and may have finished it.
    pub(super) fn withdraw(&self, store: &Store) -> Result<(), StoreError> {
        let (order, record) = (layout::making_order(&self.run), layout::run_record(&self.run));
        for (name, _) in store.list(&layout::run_folder(&self.run))? {
            if store.exists(&record)? {
                return Ok(());
            }
            if name != order {
                store.delete(&name)?;
            }
        }
        if store.exists(&record)? {
            return Ok(());
        }
        store.delete(&order)?;
        if let Some(root) = store.local_path() {
            // The folders are empty; another process may have removed them.
            let folder = root.join(layout::run_folder(&self.run));
            let _ = std::fs::remove_dir(folder.join("final"));
            let _ = std::fs::remove_dir(folder);
        }
        Ok(())
    }
}

/// Finds the named run among the runs and the orders to make one.
///
/// # Errors
/// No such run; several; an error of the store.
pub fn find_resumable(store: &Store, name: &str) -> Result<String, RunError> {
    find_run(store, name, &|run| {
        Ok(store.exists(&layout::run_record(run))? || store.exists(&layout::making_order(run))?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str =
        "name = \"a\"\n[dataset.world]\nquestions = 5\npassages = 400\n[method.oracle]\nkind = \"oracle\"\n";

    fn order() -> MakingOrder {
        let job = Job::parse(JOB, std::path::Path::new("job.toml"), &[]).unwrap();
        MakingOrder { run: "r".to_owned(), created_ms: 1, job, quarantine: None, judged: None }
    }

    fn files(store: &Store) -> Vec<String> {
        store.list("runs").unwrap().into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn what_is_written_of_a_run_without_record_is_withdrawn() {
        let store = Store::open("memory:").unwrap();
        order().store(&store).unwrap();
        store.put(&layout::questions_table("r"), "rows".into()).unwrap();
        order().withdraw(&store).unwrap();
        assert_eq!(files(&store), [""; 0]);
    }

    /// The maker was stopped, `resume` made the run and removed the order, and then the maker's put failed.
    #[test]
    fn a_run_that_another_process_made_is_not_withdrawn() {
        let store = Store::open("memory:").unwrap();
        let made = [layout::log_record("r", 0), layout::questions_table("r"), layout::run_record("r")];
        for name in &made {
            store.put(name, "x".into()).unwrap();
        }
        order().withdraw(&store).unwrap();
        assert_eq!(files(&store), made);
    }
}
