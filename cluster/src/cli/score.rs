//! `score`: predictions against gold, as the official scripts do it.

use super::tables::markdown_table;
use crate::print;
use anyhow::{Context, Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_datasets::input::InputStream;
use hopeval_measures::Profile;
use hopeval_measures::official::{self, OfficialFigures};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct ScoreArguments {
    /// Whose script: hotpotqa, 2wikimultihopqa or musique.
    #[arg(long, required_unless_present = "pairs")]
    profile: Option<Profile>,
    /// The predictions, in the script's format; gzip, zstd and bzip2 are understood.
    #[arg(long, value_name = "FILE", required_unless_present = "pairs")]
    predictions: Option<PathBuf>,
    /// The gold file, in the dataset's format.
    #[arg(long, value_name = "FILE", required_unless_present = "pairs")]
    gold: Option<PathBuf>,
    /// 2WikiMultihopQA's id_aliases.json.
    #[arg(long, value_name = "FILE")]
    aliases: Option<PathBuf>,
    /// Scores lines {"prediction", "golds"} instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "predictions", "gold", "aliases"])]
    pairs: Option<PathBuf>,
    /// Prints one JSON document: the figures, and over how many questions and predictions.
    #[arg(long)]
    json: bool,
}

pub(crate) fn score(arguments: ScoreArguments) -> Result<u8> {
    if let Some(path) = &arguments.pairs {
        return score_pairs(path);
    }
    let (Some(profile), Some(predictions), Some(gold)) = (arguments.profile, &arguments.predictions, &arguments.gold)
    else {
        bail!("--profile, --predictions and --gold belong together");
    };
    let aliases = arguments.aliases.as_ref().map(|path| InputStream::open(path)).transpose()?;
    let scored = official::score_files(profile, InputStream::open(predictions)?, InputStream::open(gold)?, aliases)
        .with_context(|| format!("{} against {}", predictions.display(), gold.display()))?;
    if arguments.json {
        print::line(&serde_json::to_string(&score_document(&scored))?);
    } else {
        let rows = scored.figures.iter().map(|&(name, value)| vec![name.to_owned(), value.to_string()]);
        print::line(&markdown_table(&["figure", "value"], rows));
    }
    for (part, predicted) in scored.predicted {
        let missing = scored.questions - predicted;
        if missing > 0 {
            let of = scored.questions;
            print::note(&format!(
                "{missing} of {of} questions have no `{part}` in the predictions: they count 0, as in the script"
            ));
        }
    }
    Ok(exit::DONE)
}

/// The figures under the script's names, with the numbers of questions and predictions.
fn score_document(scored: &OfficialFigures) -> serde_json::Map<String, serde_json::Value> {
    let by_part = |of: &dyn Fn(u64) -> serde_json::Value| -> serde_json::Value {
        let parts = scored.predicted.iter().map(|&(part, predicted)| (part.to_owned(), of(predicted)));
        serde_json::Value::Object(parts.collect())
    };
    let figures = scored.figures.iter().map(|&(name, value)| (name.to_owned(), value.into()));
    let about = [
        ("questions", scored.questions.into()),
        ("predicted", by_part(&|predicted| predicted.into())),
        ("coverage", by_part(&|predicted| (predicted as f64 / scored.questions as f64).into())),
    ];
    figures.chain(about.map(|(name, value)| (name.to_owned(), value))).collect()
}

fn score_pairs(path: &Path) -> Result<u8> {
    let input = BufReader::new(InputStream::open(path)?);
    for (number, line) in input.lines().enumerate() {
        let line = line.with_context(|| format!("{}:{}", path.display(), number + 1))?;
        if line.trim().is_empty() {
            continue;
        }
        let scored = official::score_pairs(&line).with_context(|| format!("{}:{}", path.display(), number + 1))?;
        print::line(&serde_json::to_string(&scored)?);
    }
    Ok(exit::DONE)
}
