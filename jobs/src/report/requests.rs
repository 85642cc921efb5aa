//! The table of journalled requests of a run.

use crate::error::JobError;
use crate::run::open::OpenRun;
use crate::services::record::AnswerRecord;
use hopeval_results::journal::scan_run;
use hopeval_results::log::FinalTable;
use hopeval_results::tables::{RequestRow, TableError, TableWriter};
use hopeval_results::{Log, layout};

/// Writes the table of journalled requests in the segments of the run's commits, and returns where it is. A request is
/// found wherever merges have put it; its row names the segment in which it was first written.
///
/// # Errors
/// A segment cannot be read, the table cannot be written.
pub fn write_requests(run: &OpenRun, log: &Log) -> Result<FinalTable, JobError> {
    let store = &run.places.store;
    let committed = log.state().committed_segments();
    let mut table = TableWriter::<RequestRow>::new(store, &layout::final_table(run.id(), "requests"))?;
    let mut unwritten: Option<TableError> = None;
    let damaged = scan_run(store, run.id(), &mut |entry| {
        if unwritten.is_some() || !committed.contains(&*entry.origin) {
            return Ok(());
        }
        let Some(record) = AnswerRecord::from_bytes(&entry.value) else { return Ok(()) };
        let row = RequestRow {
            run: run.id().to_owned(),
            service: record.service,
            kind: record.kind.name().to_owned(),
            key: entry.key.to_string(),
            bucket: u32::from(entry.bucket),
            segment: entry.origin.to_string(),
            bytes: u64::from(entry.stored),
        };
        unwritten = table.push(row).err();
        Ok(())
    })?;
    if let Some(error) = unwritten {
        return Err(error.into());
    }
    match damaged.into_iter().next() {
        Some(error) => Err(error.into()),
        None => Ok(table.finish()?),
    }
}
