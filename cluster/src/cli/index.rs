//! `index`: builds the indexes of a job.

use super::options::PlaceArguments;
use crate::print;
use crate::stages::Stages;
use anyhow::Result;
use clap::Subcommand;
use hopeval_cluster::exit;
use hopeval_jobs::Job;
use hopeval_jobs::services::Catalogue;
use std::path::PathBuf;
use std::sync::Arc;

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
    let mut job = Job::load(&job, &sets)?;
    let places = places.open_to_compute()?;
    let progress = Stages::new();
    let report = |stage: &str, done: u64| progress.tick(stage, done);
    places.cache.world(&mut job, &report)?;
    let corpus = places.cache.corpus(&job, &report)?;
    let engines = places.cache.engines(&job, &corpus, places.threads, &report)?;
    let catalogue = Catalogue::new(Arc::clone(&corpus), engines, &job.service);
    catalogue.open(&report)?;
    progress.clear();
    let dense: u64 = catalogue.look(&report)?.values().map(|dense| dense.bytes).sum();
    let bytes = places.cache.index_bytes(&job, corpus.digest()) + dense;
    print::line(&format!("{} passages, digest {}; indexes {bytes} bytes", corpus.len(), corpus.digest()));
    Ok(exit::DONE)
}
