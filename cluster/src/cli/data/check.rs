//! `data check`: describes the content of a dataset's files.

use crate::cli::options::field_pair;
use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_datasets::{DatasetSpec, FieldMapping, Format};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The files, as one dataset.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Their format; told from the first when left out.
    #[arg(long)]
    format: Option<Format>,
    /// Maps a field of hopeval to its name in the files, which then are of the format `fields`: question=query,
    /// answers=gold.answers, strata.domain=meta.domain. Once for each field.
    #[arg(long = "field", value_name = "NAME=PATH", value_parser = field_pair)]
    fields: Vec<(String, String)>,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(super) fn check(arguments: CheckArguments) -> Result<u8> {
    let CheckArguments { files, format, fields, json } = arguments;
    let fields = if fields.is_empty() { None } else { Some(FieldMapping::from_pairs(&fields)?) };
    let report = hopeval_datasets::check_dataset(&DatasetSpec { format, paths: files, limit: None, fields })?;
    print::line(&if json { serde_json::to_string(&report)? } else { report.to_string() });
    if report.bad_rows > 0 {
        print::note(&format!("error: {} of {} rows are bad", report.bad_rows, report.rows));
        return Ok(exit::USAGE);
    }
    Ok(exit::DONE)
}
