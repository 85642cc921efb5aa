//! Training data from a dataset's gold annotations.

use super::TrainDataArguments;
use crate::cli::options::PlaceArguments;
use crate::stages::CommandStages;
use anyhow::Result;
use hopeval_construct::{ConstructReport, ConstructSettings, CorpusLibrary, construct};
use hopeval_datasets::DatasetSpec;
use hopeval_jobs::Job;
use hopeval_jobs::job::OneOrMany;
use hopeval_jobs::services::bm25::{self, Bm25Parameters};
use std::path::Path;

/// A job for its corpus, and a method, for a job must have one.
const JOB: &str = "name = \"train-data\"\n[dataset]\nquestions = \"\"\n[corpus]\nsource = \"contexts\"\n\
                   [method.none]\nkind = \"random\"\n";

pub(super) fn construct_from_questions(
    places: &PlaceArguments,
    arguments: &TrainDataArguments,
    settings: &ConstructSettings,
) -> Result<ConstructReport> {
    let mut job = Job::parse(JOB, Path::new("train-data"), &[])?;
    job.dataset.format = arguments.format;
    job.dataset.questions = OneOrMany::Many(arguments.questions.clone());
    if !arguments.corpus.is_empty() {
        job.corpus.source = OneOrMany::Many(arguments.corpus.clone());
    }
    let places = places.open_to_compute()?;
    let progress = CommandStages::new(None);
    let report = |stage: &str, done: u64| progress.tick(stage, done);
    let corpus = places.cache.corpus(&job, &report)?;
    let index = bm25::open_bm25(&Bm25Parameters::default(), "negatives", &corpus, &places, &report)?;
    let (format, paths) = (arguments.format, arguments.questions.clone());
    let spec = DatasetSpec { format, paths, limit: arguments.limit, fields: None };
    let mut library = CorpusLibrary::new(&corpus, &index);
    let made = construct(&spec, &mut library, settings, &arguments.out, &mut |done| progress.tick("questions", done));
    progress.clear();
    Ok(made?)
}
