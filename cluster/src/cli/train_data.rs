//! `train-data`: makes training data of the small models, from a dataset's gold annotations or from a run's.

mod annotated;
mod from_questions;

use super::options::{PlaceArguments, question_count};
use crate::print;
use anyhow::Result;
use clap::{ArgGroup, Args, ValueEnum, value_parser};
use hopeval_cluster::exit;
use hopeval_construct::{ConstructSettings, KeptWords};
use hopeval_datasets::Format;
use std::path::PathBuf;

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
    /// Instead of questions, a run of `efficientrag_data`, whose language model annotated them: its id, or the
    /// beginning of it, or `latest`.
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
    /// Passages that BM25 finds for each hop's query, from which negatives are taken; with --run the run's, so many
    /// at most.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=MOST))]
    k: u32,
    /// Chunks labelled as useless for each gold one of a hop, the best that are not gold.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(..=MOST))]
    negatives: u32,
    /// Further ones, drawn from the whole corpus.
    #[arg(long, default_value_t = 0, conflicts_with = "run", value_parser = value_parser!(u32).range(..=MOST))]
    random_negatives: u32,
    /// Which words of a gold chunk are kept.
    #[arg(long, value_enum, default_value_t = WordsToKeep::SubjectAndAnswer, conflicts_with = "run")]
    keep: WordsToKeep,
    /// The first so many questions only.
    #[arg(long, conflicts_with = "run", allow_negative_numbers = true, value_parser = question_count)]
    limit: Option<u64>,
    /// Prints the counts as one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WordsToKeep {
    /// The hop's answer.
    Answer,
    /// The hop's answer and the name of what it was asked about, as in the authors' data.
    SubjectAndAnswer,
}

/// Passages for a hop at most.
const MOST: i64 = 100_000;

pub(crate) fn train_data(places: &PlaceArguments, arguments: TrainDataArguments) -> Result<u8> {
    let settings = ConstructSettings {
        seed: arguments.seed,
        k: arguments.k as usize,
        negatives: arguments.negatives as usize,
        random_negatives: arguments.random_negatives as usize,
        keep: match arguments.keep {
            WordsToKeep::Answer => KeptWords::Answer,
            WordsToKeep::SubjectAndAnswer => KeptWords::SubjectAndAnswer,
        },
    };
    let made = match &arguments.run {
        Some(run) => annotated::construct_annotated(places, &arguments, run, &settings)?,
        None => from_questions::construct_from_questions(places, &arguments, &settings)?,
    };
    print::line(&if arguments.json { serde_json::to_string(&made)? } else { made.to_string() });
    Ok(exit::DONE)
}
