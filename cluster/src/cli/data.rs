//! `data`: checks a dataset's files and describes their content.

use crate::print;
use anyhow::Result;
use clap::Subcommand;
use hopeval_cluster::exit;
use hopeval_datasets::{DatasetSpec, Format};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Says what a dataset's files hold.
    Check {
        /// The files, as one dataset.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Their format; told from the first when left out.
        #[arg(long)]
        format: Option<Format>,
        /// Prints one JSON document.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn data(command: DataCommand) -> Result<u8> {
    let DataCommand::Check { files, format, json } = command;
    let report = hopeval_datasets::check_dataset(&DatasetSpec { format, paths: files, limit: None })?;
    print::line(&if json { serde_json::to_string(&report)? } else { report.to_string() });
    if report.bad_rows > 0 {
        print::note(&format!("error: {} of {} rows are bad", report.bad_rows, report.rows));
        return Ok(exit::USAGE);
    }
    Ok(exit::DONE)
}
