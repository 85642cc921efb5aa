//! `train-data`: makes training data of the small models, from a dataset's gold annotations or from a run's.

use super::stages::Stages;
use super::{PlaceArguments, some};
use crate::print;
use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args, ValueEnum, value_parser};
use hopeval_cluster::exit;
use hopeval_construct::{Ended, Keep, Library, Report, Settings, Tables, annotated_rows, construct};
use hopeval_datasets::{DatasetSpec, Format};
use hopeval_jobs::job::OneOrMany;
use hopeval_jobs::run::Open;
use hopeval_jobs::services::Engine;
use hopeval_jobs::{Job, tables};
use hopeval_results::Log;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("source").required(true).args(["questions", "run"])))]
pub(crate) struct TrainDataArguments {
    /// Questions with decompositions or evidences.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    questions: Vec<PathBuf>,
    /// Their format: world, musique or 2wikimultihopqa; told from the first when left out.
    #[arg(long, conflicts_with = "run")]
    format: Option<Format>,
    /// Passages to find negatives in, or the folder of a built corpus [default: the questions' own contexts].
    #[arg(long, conflicts_with = "run", num_args = 1.., value_name = "FILE_OR_DIR")]
    corpus: Vec<PathBuf>,
    /// Instead of questions, a run of `efficientrag_data`, whose language model annotated them: its id, or the beginning of it, or
    /// `latest`.
    #[arg(long)]
    run: Option<String>,
    /// Its configuration, if it has several of that kind.
    #[arg(long, requires = "run")]
    configuration: Option<String>,
    /// The folder for labeler, filter and encoder.parquet, and, without --run, scorer and reader.parquet.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Decides what is drawn at random.
    #[arg(long, default_value_t = 1, conflicts_with = "run")]
    seed: u64,
    /// Passages that BM25 finds for each hop's query, from which negatives are taken; with --run the run's, so many at most.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=MOST))]
    k: u32,
    /// Chunks labelled as useless for each gold one of a hop, the best that are not gold.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(..=MOST))]
    negatives: u32,
    /// Further ones, drawn from the whole corpus.
    #[arg(long, default_value_t = 0, conflicts_with = "run", value_parser = value_parser!(u32).range(..=MOST))]
    random_negatives: u32,
    /// Which words of a gold chunk are kept.
    #[arg(long, value_enum, default_value_t = Kept::SubjectAndAnswer, conflicts_with = "run")]
    keep: Kept,
    /// The first so many questions only.
    #[arg(long, conflicts_with = "run", allow_negative_numbers = true, value_parser = some)]
    limit: Option<u64>,
    /// Prints the counts as one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kept {
    /// The hop's answer.
    Answer,
    /// The hop's answer and the name of what it was asked about, as in the authors' data.
    SubjectAndAnswer,
}

/// Passages for a hop at most.
const MOST: i64 = 100_000;

/// The retriever of negatives, and a method, for a job must have one.
const JOB: &str = "name = \"train-data\"\n[dataset]\nquestions = \"\"\n[corpus]\nsource = \"contexts\"\n\
                   [service.negatives]\nkind = \"bm25\"\n[method.none]\nkind = \"random\"\n";

/// The method whose outcomes are annotations.
const ANNOTATES: &str = "efficientrag_data";

pub(crate) fn train_data(places: &PlaceArguments, arguments: TrainDataArguments) -> Result<u8> {
    let settings = Settings {
        seed: arguments.seed,
        k: arguments.k as usize,
        negatives: arguments.negatives as usize,
        random_negatives: arguments.random_negatives as usize,
        keep: match arguments.keep {
            Kept::Answer => Keep::Answer,
            Kept::SubjectAndAnswer => Keep::SubjectAndAnswer,
        },
    };
    let made = match &arguments.run {
        Some(run) => of_run(places, &arguments, run, &settings)?,
        None => of_questions(places, &arguments, &settings)?,
    };
    print::line(&if arguments.json { serde_json::to_string(&made)? } else { made.to_string() });
    Ok(exit::DONE)
}

fn of_questions(places: &PlaceArguments, arguments: &TrainDataArguments, settings: &Settings) -> Result<Report> {
    let mut job = Job::parse(JOB, Path::new("train-data"), &[])?;
    job.dataset.format = arguments.format;
    job.dataset.questions = OneOrMany::Many(arguments.questions.clone());
    if !arguments.corpus.is_empty() {
        job.corpus.source = OneOrMany::Many(arguments.corpus.clone());
    }
    let places = places.open_to_compute()?;
    let progress = Stages::new();
    let report = |stage: &str, done: u64| progress.tick(stage, done);
    let corpus = places.cache.corpus(&job, &report)?;
    let engines = places.cache.engines(&job, &corpus, places.threads, &report)?;
    let index = engines.values().find_map(|engine| match engine.as_ref() {
        Engine::Bm25(index) => Some(index),
        _ => None,
    });
    let index = index.context("the index of negatives was not built; this is a bug")?;
    let spec = DatasetSpec { format: arguments.format, paths: arguments.questions.clone(), limit: arguments.limit };
    let mut library = Library::new(&corpus, index);
    let made = construct(&spec, &mut library, settings, &arguments.out, &mut |done| progress.tick("questions", done));
    progress.clear();
    Ok(made?)
}

fn of_run(places: &PlaceArguments, arguments: &TrainDataArguments, run: &str, settings: &Settings) -> Result<Report> {
    let places = places.open_existing()?;
    let run = hopeval_results::run::resolve(&places.store, run)?;
    let run = Open::open(&places, &run, &|_, _| ())?;
    let log = Log::open(&run.places.store, run.id())?;
    let position = configuration(&run, arguments.configuration.as_deref())?;
    let library = Library::unsearched(&run.company.catalogue.corpus);
    let mut made = Report::default();
    let mut files = Tables::of_hops(&arguments.out)?;
    let mut wrong = None;
    tables::judged(&run, &log, &mut |_, outcome, _| {
        if outcome.configuration as usize == position && wrong.is_none() {
            let ended = Ended {
                question: &outcome.question,
                status: &outcome.status,
                message: outcome.message.as_deref(),
                annotation: outcome.answer.as_deref(),
            };
            let rows = annotated_rows(&ended, &library, settings, &mut made);
            wrong = rows.and_then(|rows| files.extend(rows)).err();
        }
        Ok(())
    })?;
    if let Some(error) = wrong {
        return Err(error.into());
    }
    files.finish(&made)?;
    let expected = run.resolved.prepared.questions;
    if made.questions < expected {
        let open = expected - made.questions;
        print::note(&format!("{open} of {expected} questions have no outcome yet: `hopeval resume {}`", run.id()));
    }
    Ok(made)
}

/// The position of the configuration whose outcomes are annotations.
fn configuration(run: &Open, wanted: Option<&str>) -> Result<usize> {
    let names = run.names();
    let annotates = |at: &usize| run.company.methods[*at].kind() == ANNOTATES;
    let fitting: Vec<usize> = (0..names.len()).filter(annotates).collect();
    let listed = fitting.iter().map(|&at| names[at].as_str()).collect::<Vec<_>>().join(", ");
    if fitting.is_empty() {
        bail!("run {} has no configuration of `{ANNOTATES}`; it has {}", run.id(), names.join(", "));
    }
    match (wanted, fitting.as_slice()) {
        (None, [only]) => Ok(*only),
        (None, _) => bail!(
            "run {} has several configurations of `{ANNOTATES}`; name one with --configuration: {listed}",
            run.id()
        ),
        (Some(name), _) => {
            let found = fitting.iter().find(|&&at| names[at] == name);
            found
                .copied()
                .with_context(|| format!("no configuration `{name}` of `{ANNOTATES}`; run {} has {listed}", run.id()))
        }
    }
}
