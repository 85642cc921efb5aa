//! `export`: writes a configuration's outcomes, or a run's gold, in the format of another program.

use super::options::PlaceArguments;
use crate::print;
use anyhow::{Context, Result};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_jobs::report::export::{self as exporting, ExportError, ExportFormat};
use hopeval_results::Log;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// The run: its id or the beginning of it, its job, `latest`, or `latest~1`.
    run: String,
    /// trec, qrels, hotpotqa, 2wikimultihopqa, musique or csv.
    #[arg(long)]
    format: ExportFormat,
    /// The configuration; qrels, which are the gold of all questions, need none.
    #[arg(long)]
    configuration: Option<String>,
    /// Where to [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn export(places: &PlaceArguments, arguments: ExportArguments) -> Result<u8> {
    let run = places.open_outcomes(&arguments.run)?;
    let log = Log::open(&run.places.store, run.id())?;
    let configuration = arguments.configuration.as_deref();
    let rows = match &arguments.out {
        None => {
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            let rows = exporting::export_outcomes(&run, &log, configuration, arguments.format, &mut out);
            let flushed = rows.and_then(|rows| out.flush().map(|()| rows).map_err(ExportError::from));
            match flushed {
                Err(ExportError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => {
                    // The rest of the buffer has no reader either, and is not to be written when it is dropped.
                    drop(out.into_parts());
                    return Ok(exit::CLOSED_PIPE);
                }
                rows => rows?,
            }
        }
        Some(path) => {
            // A refused export leaves an earlier file as it is. The outcomes are in memory, too.
            let mut text = Vec::new();
            let rows = exporting::export_outcomes(&run, &log, configuration, arguments.format, &mut text)?;
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
            rows
        }
    };
    print::note(&format!("{rows} questions of {}", configuration.unwrap_or(run.id())));
    Ok(exit::DONE)
}
