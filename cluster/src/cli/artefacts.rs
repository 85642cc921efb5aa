//! `data`, `corpus`, `index`: what runs are made from.

use super::PlaceArguments;
use super::stages::Stages;
use crate::print;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use hopeval_cluster::exit;
use hopeval_corpus::{Corpus, CorpusBuilder, CorpusSettings, Duplicates, LinkSource, Source};
use hopeval_datasets::{DatasetSpec, Format, PassageFormat, PassageSpec, Passages, Policy};
use hopeval_jobs::services::Catalogue;
use hopeval_jobs::{Job, corpora};
use std::path::PathBuf;
use std::sync::Arc;

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

#[derive(Debug, Subcommand)]
pub(crate) enum CorpusCommand {
    /// Builds a corpus.
    Build(BuildArguments),
    /// Says what a corpus holds.
    Info {
        /// Its folder.
        dir: PathBuf,
    },
    /// Reads all of a corpus and compares it with its digest.
    Verify {
        /// Its folder.
        dir: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct BuildArguments {
    /// Passages: {title,text} or {id,contents} JSON Lines, BEIR, DPR TSV, datasets whose contexts are the passages, or
    /// folders of the HotpotQA abstracts dump.
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// The folder to make.
    #[arg(long)]
    out: PathBuf,
    /// The sources' format; told from the content when left out.
    #[arg(long)]
    format: Option<PassageFormat>,
    /// What happens to passages that occur twice: keep_all, drop_exact or error.
    #[arg(long, default_value = "drop_exact")]
    duplicates: String,
    /// Where links come from: auto, hyperlinks, mentions or none.
    #[arg(long, default_value = "auto")]
    links: String,
}

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

pub(crate) fn data(command: DataCommand) -> Result<u8> {
    let DataCommand::Check { files, format, json } = command;
    let report = hopeval_datasets::check(&DatasetSpec { format, paths: files, limit: None })?;
    print::line(&if json { serde_json::to_string(&report)? } else { report.to_string() });
    if report.bad_rows > 0 {
        print::note(&format!("error: {} of {} rows are bad", report.bad_rows, report.rows));
        return Ok(exit::USAGE);
    }
    Ok(exit::DONE)
}

/// A value by its name in job files.
fn named<T: serde::de::DeserializeOwned>(option: &str, name: &str) -> Result<T> {
    match serde_json::from_value(serde_json::Value::String(name.to_owned())) {
        Ok(value) => Ok(value),
        Err(error) => bail!("--{option} {name}: {error}"),
    }
}

pub(crate) fn corpus(places: &PlaceArguments, command: CorpusCommand) -> Result<u8> {
    // Corpora are folders of their own; the store has no part in them.
    let _ = places;
    match command {
        CorpusCommand::Build(arguments) => build(&arguments),
        CorpusCommand::Info { dir } => {
            let corpus = Corpus::open(&dir)?;
            print::line(&serde_json::to_string_pretty(corpus.info())?);
            Ok(exit::DONE)
        }
        CorpusCommand::Verify { dir } => {
            let corpus = Corpus::open(&dir)?;
            corpus.verify()?;
            print::line(&format!("{}: {} passages, digest {}", dir.display(), corpus.len(), corpus.digest()));
            Ok(exit::DONE)
        }
    }
}

fn build(arguments: &BuildArguments) -> Result<u8> {
    let settings = CorpusSettings {
        duplicates: named::<Duplicates>("duplicates", &arguments.duplicates)?,
        links: named::<LinkSource>("links", &arguments.links)?,
        ..CorpusSettings::default()
    };
    let progress = Stages::new();
    let mut builder = CorpusBuilder::create(&arguments.out, settings)?;
    for path in &arguments.sources {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        builder.add_source(Source { name, digest: corpora::digest(path)? });
    }
    let spec = PassageSpec { format: arguments.format, paths: arguments.sources.clone() };
    for (done, record) in Passages::open(&spec, Policy::Strict)?.enumerate() {
        corpora::push_record(&mut builder, &record?)?;
        if done % 4096 == 0 {
            progress.tick("passages", done as u64);
        }
    }
    let report = builder.finish()?;
    progress.clear();
    print::line(&serde_json::to_string_pretty(&report.info)?);
    Ok(exit::DONE)
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
