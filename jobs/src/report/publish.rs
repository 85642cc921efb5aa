//! Publishes final tables: gives them a second name in `final/`, their well-known place.
//!
//! Each writer writes its tables under unique names, and they count once the fenced log says so: a process stopped for
//! a while cannot touch the tables of its successors. The tables in `final/` are made afterwards: in a local folder
//! they are links to the same files, in a bucket copies.
//!
//! ```text
//!   write tables/G-R/*.parquet --> append Final (fails if superseded) --> link to final/*.parquet --> still the last?
//!                                                                               ^                         |
//!                                                                               +--------- no ------------+
//! ```
//!
//! A process may be stopped while it links, too. So it reads the log before each link and after the last, and
//! publishes the tables of a later record if it finds one. To be sure, read the tables named by the record, as `show`
//! does.

use crate::error::JobError;
use hopeval_results::{FileRemedy, Log, Store, layout};

/// Links the tables named by the last `Final` record to their published places, and reports the number of links so far.
/// Without such a record it does nothing.
///
/// # Errors
/// The log or a table cannot be read, a link or a copy cannot be made. Calling it again is safe.
pub fn publish_tables(store: &Store, log: &mut Log, report: &dyn Fn(u64)) -> Result<(), JobError> {
    while let Some(last) = log.refresh()?.finished.clone() {
        let mut later = false;
        for (copied, written) in last.tables.iter().enumerate() {
            report(copied as u64);
            later = later || log.refresh()?.finished.as_ref() != Some(&last);
            if !later {
                written.file_check().verify_file(store, &written.path, FileRemedy::Rewrite)?;
                store.link(&written.path, &layout::final_table(log.run(), &written.table))?;
            }
        }
        if !later && log.refresh()?.finished.as_ref() == Some(&last) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_results::FileCheck;
    use hopeval_results::log::{FinalRecord, FinalTable, LogError, RecordBody};

    const TABLES: [&str; 2] = ["outcomes", "scores"];

    /// Writes tables with the content `text`, and returns the body of their record.
    fn written(store: &Store, log: &Log, generation: u64, text: &str) -> RecordBody {
        let tables = TABLES.map(|table| {
            let path = layout::written_table(log.run(), generation, log.state().next, table);
            store.put(&path, text.to_owned().into()).expect("memory takes it");
            let FileCheck { bytes, digest } = FileCheck::of(text.as_bytes());
            FinalTable { table: table.into(), path, rows: 1, bytes, digest }
        });
        RecordBody::Final(FinalRecord { tables: tables.to_vec(), ..FinalRecord::default() })
    }

    fn published(store: &Store) -> Vec<String> {
        let read = |table: &str| store.get(&layout::final_table("run", table)).expect("it is published");
        TABLES.map(|table| String::from_utf8(read(table).to_vec()).expect("it is text")).to_vec()
    }

    fn open() -> (Store, Log) {
        let store = Store::open("memory:").expect("it opens");
        let log = Log::open(&store, "run").expect("it opens");
        (store, log)
    }

    #[test]
    fn nothing_is_published_before_the_log_says_so() {
        let (store, mut log) = open();
        let generation = log.append_fence("a", 1, 1, "d").expect("it is fenced");
        let body = written(&store, &log, generation, "first");
        publish_tables(&store, &mut log, &|_| ()).expect("there is nothing to do");
        assert!(!store.exists(&layout::final_table("run", "outcomes")).expect("it is known"));
        log.append(generation, "a", body).expect("it is appended");
        publish_tables(&store, &mut log, &|_| ()).expect("it is published");
        assert_eq!(published(&store), ["first", "first"]);
    }

    #[test]
    fn a_writer_that_was_stopped_replaces_no_later_table() {
        let (store, mut old) = open();
        let generation = old.append_fence("old", 1, 1, "d").expect("it is fenced");
        let late = written(&store, &old, generation, "old");
        // It is stopped; another generation finishes the run, and its edits.
        let mut new = old.clone();
        for text in ["new", "newer"] {
            let generation = new.append_fence("new", 1, 1, "d").expect("it is fenced");
            let body = written(&store, &new, generation, text);
            new.append(generation, "new", body).expect("it is appended");
            publish_tables(&store, &mut new, &|_| ()).expect("it is published");
        }
        let error = old.append(generation, "old", late).expect_err("it is superseded");
        assert!(matches!(error, LogError::Superseded { .. }), "{error}");
        assert_eq!(published(&store), ["newer", "newer"]);
    }

    #[test]
    fn a_publisher_that_was_stopped_publishes_what_counts_now() {
        let (store, mut old) = open();
        let generation = old.append_fence("old", 1, 1, "d").expect("it is fenced");
        let body = written(&store, &old, generation, "old");
        old.append(generation, "old", body).expect("it is appended");
        // It is stopped before it publishes, or while it does: some of its copies come late.
        let mut new = old.clone();
        let generation = new.append_fence("new", 1, 1, "d").expect("it is fenced");
        let body = written(&store, &new, generation, "new");
        new.append(generation, "new", body).expect("it is appended");
        publish_tables(&store, &mut new, &|_| ()).expect("it is published");
        store.put(&layout::final_table("run", "scores"), "old".into()).expect("memory takes it");
        publish_tables(&store, &mut old, &|_| ()).expect("it is published");
        assert_eq!(published(&store), ["new", "new"]);
        assert_eq!(
            new.state().finished.as_ref().and_then(|last| Some(last.find_table("scores")?.path.as_str())),
            Some("runs/run/tables/000002-000003/scores.parquet")
        );
    }
}
