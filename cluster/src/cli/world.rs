//! `world`: writes a generated world, or compares one with a real corpus.

use super::options::question_count;
use crate::print;
use crate::stages::CommandStages;
use anyhow::{Context, Result};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_world::{WorldSettings, WorldSplit, generate_world};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct WorldArguments {
    /// How many questions.
    #[arg(long, default_value_t = 1267, allow_negative_numbers = true, value_parser = question_count)]
    questions: u64,
    /// How many passages.
    #[arg(long, default_value_t = 12392)]
    passages: u64,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// train or eval.
    #[arg(long, default_value = "eval")]
    split: WorldSplit,
    /// How many distractors of each question state a relation of its facts, of another subject: without them the answer
    /// of a long chain can be guessed by its kind.
    #[arg(long, default_value_t = 0)]
    rivals: u32,
    /// The folder to write questions.jsonl and corpus.jsonl to.
    #[arg(long, required_unless_present = "calibrate")]
    out: Option<PathBuf>,
    /// Prints the world's retrieval figures and lengths beside those of this real dataset, whose contexts are its
    /// corpus.
    #[arg(long, value_name = "DATASET")]
    calibrate: Option<PathBuf>,
}

pub(crate) fn world(arguments: WorldArguments) -> Result<u8> {
    let WorldArguments { questions, passages, seed, split, rivals, .. } = arguments;
    let settings = WorldSettings { rivals, ..WorldSettings::new(questions, passages, seed, split) };
    let progress = CommandStages::new(None);
    if let Some(out) = &arguments.out {
        let report = generate_world(&settings, out, |p| progress.tick(p.stage, p.done))?;
        progress.clear();
        print::line(&format!("{}: {} questions, {} passages", out.display(), settings.questions, settings.passages));
        tracing::info!(?report, "the world is written");
    }
    if let Some(dataset) = &arguments.calibrate {
        let folder = std::env::temp_dir().join(format!("hopeval-world-{}", std::process::id()));
        let table = hopeval_jobs::report::calibrate::calibrate(&settings, dataset, &folder);
        // The folder holds only files made for this table.
        let _ = std::fs::remove_dir_all(&folder);
        progress.clear();
        print::line(&table.with_context(|| format!("cannot calibrate against {}", dataset.display()))?.to_string());
    }
    Ok(exit::DONE)
}
