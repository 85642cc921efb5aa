//! `data check`: describes the content of a dataset's files.

use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_datasets::{DatasetSpec, Format};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The files, as one dataset.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Their format; told from the first when left out.
    #[arg(long)]
    format: Option<Format>,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(super) fn check(arguments: CheckArguments) -> Result<u8> {
    let CheckArguments { files, format, json } = arguments;
    let report = hopeval_datasets::check_dataset(&DatasetSpec { format, paths: files, limit: None })?;
    print::line(&if json { serde_json::to_string(&report)? } else { report.to_string() });
    if report.bad_rows > 0 {
        print::note(&format!("error: {} of {} rows are bad", report.bad_rows, report.rows));
        return Ok(exit::USAGE);
    }
    Ok(exit::DONE)
}
