//! `reproduce`: a run's figures beside the published ones of its job.

use super::options::PlaceArguments;
use super::tables::reproduced::reproduction_text;
use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_jobs::report::reproduce::{PaperJob, PublishedFigures, reproduce as set_beside};
use hopeval_jobs::run::open::OpenRun;
use hopeval_public_files::PublicFiles;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ReproduceArguments {
    /// The job's TOML file, as jobs/papers/promptrank/table-1.toml: its folder and its name say which published figures
    /// are its.
    job: PathBuf,
    /// The finished run to compare: its id, or the beginning of it [default: the latest one of the job].
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Prints differences where conditions differ, too, with what differs in the heading.
    #[arg(long)]
    anyway: bool,
    /// Another table of published figures and their conditions [default: the project's own].
    #[arg(long, value_name = "FILE")]
    published: Option<PathBuf>,
    /// Another list of public files, which tells the split of a questions' file [default: the project's own].
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn reproduce(places: &PlaceArguments, arguments: &ReproduceArguments) -> Result<u8> {
    let ReproduceArguments { job, run, anyway, published, list, json } = arguments;
    let job = PaperJob::load(job)?;
    let published = published.as_ref().map_or_else(PublishedFigures::own, |path| PublishedFigures::load(path))?;
    let files = list.as_ref().map_or_else(PublicFiles::own, |path| PublicFiles::load(path))?;
    let places = places.open_existing()?;
    let run = job.find_run(&places, run.as_deref())?;
    let run = OpenRun::open_figures(&places, &run, &|_, _| ())?;
    let found = set_beside(&run, &job.key, &published, &files, *anyway)?;
    if *json {
        print::line(&serde_json::to_string(&found)?);
    } else {
        print::line(&print::wrapped(reproduction_text(&found).trim_end()));
    }
    if found.comparable == 0 && !anyway {
        print::note(&format!(
            "error: none of the {} published figures compares with run {}; --anyway prints the differences",
            found.figures.len(),
            found.run
        ));
        return Ok(exit::USAGE);
    }
    Ok(exit::DONE)
}
