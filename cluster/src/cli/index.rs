//! `index`: builds the indexes of a job.

use super::options::PlaceArguments;
use crate::print;
use crate::stages::CommandStages;
use anyhow::Result;
use clap::Subcommand;
use hopeval_cluster::exit;
use hopeval_jobs::Job;
use hopeval_jobs::prepare::opening::OpenedJob;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Builds the indexes of a job, and its corpus, if they are not there.
    Build {
        /// The job.
        job: PathBuf,
        /// Overrides a key of the job.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        sets: Vec<String>,
    },
}

pub(crate) fn index(places: &PlaceArguments, command: IndexCommand) -> Result<u8> {
    let IndexCommand::Build { job, sets } = command;
    let job = Job::load(&job, &sets)?;
    let places = places.open_to_compute()?;
    let progress = CommandStages::new(None);
    let report = |stage: &str, done: u64| progress.tick(stage, done);
    let opened = OpenedJob::open(&job, &places.cache, places.threads, false, &report)?;
    opened.catalogue.open_all(&report)?;
    progress.clear();
    let bytes: u64 = opened.catalogue.probe(&report)?.values().map(|index| index.bytes).sum();
    let corpus = opened.corpus();
    print::line(&format!("{} passages, digest {}; indexes {bytes} bytes", corpus.len(), corpus.digest()));
    Ok(exit::DONE)
}
