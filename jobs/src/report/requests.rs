//! The table of journalled requests of a run.

use crate::error::JobError;
use crate::run::open::OpenRun;
use crate::services::record::AnswerRecord;
use hopeval_results::journal::scan_segment;
use hopeval_results::log::FinalTable;
use hopeval_results::tables::{RequestRow, TableWriter};
use hopeval_results::{Log, layout};

/// Writes the table of journalled requests in the segments of the run's commits, and returns where it is.
///
/// # Errors
/// A segment cannot be read, the table cannot be written.
pub fn write_requests(run: &OpenRun, log: &Log) -> Result<FinalTable, JobError> {
    let store = &run.places.store;
    let mut table = TableWriter::<RequestRow>::new(store, &layout::final_table(run.id(), "requests"))?;
    for segment in log.state().committed_segments() {
        for entry in scan_segment(store, &segment)? {
            let Some(record) = AnswerRecord::from_bytes(&entry.value) else { continue };
            table.push(RequestRow {
                run: run.id().to_owned(),
                service: record.service,
                kind: record.kind.name().to_owned(),
                key: entry.key.to_string(),
                bucket: u32::from(entry.bucket),
                segment: segment.clone(),
                bytes: u64::from(entry.stored),
            })?;
        }
    }
    Ok(table.finish()?)
}
