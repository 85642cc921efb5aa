//! `score`: predictions against gold: prediction files of the official scripts as these do it; answers and rankings in
//! hopeval's own forms with errors, strata and differences.

mod files;

use self::files::with_forms;
use super::options::field_pair;
use super::tables::markdown_table;
use crate::print;
use anyhow::{Context, Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_datasets::input::InputStream;
use hopeval_datasets::{Format, RankingsFormat};
use hopeval_measures::Profile;
use hopeval_measures::official::{self, FileRole, MeasureError, OfficialFigures, has_official_form};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes read of a file to tell its form.
const BEGINNING: u64 = 256 << 10;

/// Options that belong to predictions in hopeval's own forms.
const OWN_OPTIONS: [&str; 9] =
    ["against", "qrels", "format", "gold_format", "fields", "measures", "strata", "interval", "settings"];

#[derive(Debug, Args)]
pub(crate) struct ScoreArguments {
    /// The profile whose rules score answers; that of the gold's format when left out. A prediction file of an official
    /// script needs it: hotpotqa, 2wikimultihopqa or musique.
    #[arg(long)]
    profile: Option<Profile>,
    /// The predictions: a prediction file of an official script (gzip, zstd and bzip2 are understood), CSV, JSON Lines
    /// of `id`, `answer`, `ranked` and `supporting`, one JSON object of answers by question, or a TREC run.
    #[arg(long, value_name = "FILE", required_unless_present = "pairs")]
    predictions: Option<PathBuf>,
    /// The gold file, in the dataset's format.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["pairs", "qrels"])]
    gold: Option<PathBuf>,
    /// Judgements of passages, TREC's or BEIR's, in place of the gold file's passages, or of the whole file.
    #[arg(long, value_name = "FILE")]
    qrels: Option<PathBuf>,
    /// Other predictions of the same questions: adds paired differences from them, with intervals and p values.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// The format of predictions that are no script's: trec, jsonl, csv or json; told from their beginning when left
    /// out.
    #[arg(long)]
    format: Option<RankingsFormat>,
    /// The gold file's format; told from its first row when left out.
    #[arg(long, requires = "gold")]
    gold_format: Option<Format>,
    /// Maps a field of hopeval to its name in the gold file: question=query. Once for each field.
    #[arg(long = "field", value_name = "NAME=PATH", value_parser = field_pair, requires = "gold")]
    fields: Vec<(String, String)>,
    /// Shows this measure instead of the headline ones; may be repeated.
    #[arg(long = "measure", value_name = "NAME")]
    measures: Vec<String>,
    /// Shows the questions of this stratum alone, e.g. type=bridge; may be repeated.
    #[arg(long = "stratum", value_name = "NAME")]
    strata: Vec<String>,
    /// Shows 95 % intervals in place of standard errors.
    #[arg(long)]
    interval: bool,
    /// Sets a key of a job's `[measures]`, e.g. `recall_at=[1,5]`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// 2WikiMultihopQA's id_aliases.json, with a prediction file of its script.
    #[arg(long, value_name = "FILE")]
    aliases: Option<PathBuf>,
    /// Scores lines {"prediction", "golds"} instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "predictions", "gold", "aliases"],
        conflicts_with_all = OWN_OPTIONS)]
    pairs: Option<PathBuf>,
    /// Prints one JSON document: the figures, and over how many questions and predictions.
    #[arg(long)]
    json: bool,
}

impl ScoreArguments {
    /// The first option that an official script has no use for.
    fn own_option(&self) -> Option<&'static str> {
        let given = [
            self.against.is_some(),
            self.qrels.is_some(),
            self.format.is_some(),
            self.gold_format.is_some(),
            !self.fields.is_empty(),
            !self.measures.is_empty(),
            !self.strata.is_empty(),
            self.interval,
            !self.settings.is_empty(),
        ];
        let names = [
            "--against",
            "--qrels",
            "--format",
            "--gold-format",
            "--field",
            "--measure",
            "--stratum",
            "--interval",
            "--set",
        ];
        names.into_iter().zip(given).find_map(|(name, given)| given.then_some(name))
    }
}

pub(crate) fn score(arguments: ScoreArguments) -> Result<u8> {
    if let Some(path) = &arguments.pairs {
        return score_pairs(path);
    }
    let Some(predictions) = &arguments.predictions else { bail!("--predictions names no file") };
    if arguments.format.is_some() || !is_official(predictions)? {
        return files::score(&arguments, predictions);
    }
    if let Some(option) = arguments.own_option() {
        bail!(
            "{option} does not go with {}, which is in the form of an official script's predictions",
            predictions.display()
        );
    }
    let (Some(profile), Some(gold)) = (arguments.profile, &arguments.gold) else {
        bail!(
            "{} is in the form of an official script's predictions: --profile says whose; allowed: hotpotqa, \
             2wikimultihopqa, musique",
            predictions.display()
        );
    };
    score_officially(&arguments, profile, predictions, gold)
}

/// Whether predictions have the form of an official script's. A pipe, which can be read once, must have it.
fn is_official(predictions: &Path) -> Result<bool> {
    let is_pipe = std::fs::metadata(predictions).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    if is_pipe {
        return Ok(true);
    }
    let mut beginning = Vec::new();
    let stream = InputStream::open(predictions)?;
    stream.take(BEGINNING).read_to_end(&mut beginning).with_context(|| predictions.display().to_string())?;
    Ok(has_official_form(&beginning))
}

/// Whether an error is about the form of the predictions.
fn is_of_predictions(error: &MeasureError) -> bool {
    match error {
        MeasureError::Json { role, .. } | MeasureError::Field { role, .. } | MeasureError::Empty { role } => {
            *role == FileRole::Predictions
        }
        MeasureError::NoScript { .. } => true,
        _ => false,
    }
}

fn score_officially(arguments: &ScoreArguments, profile: Profile, predictions: &Path, gold: &Path) -> Result<u8> {
    let aliases = arguments.aliases.as_ref().map(|path| InputStream::open(path)).transpose()?;
    let scored = official::score_files(profile, InputStream::open(predictions)?, InputStream::open(gold)?, aliases);
    let scored = scored.map_err(|error| {
        let of_form = is_of_predictions(&error);
        let error = anyhow::Error::from(error).context(format!("{} against {}", predictions.display(), gold.display()));
        if of_form { with_forms(error) } else { error }
    })?;
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
    let mut count = 0;
    let mut pairs = official::PairScorer::new(BufReader::new(InputStream::open(path)?));
    while let Some(scored) = pairs.next() {
        let scored = scored.with_context(|| format!("{}:{}", path.display(), pairs.line()))?;
        print::line(&serde_json::to_string(&scored)?);
        count += 1;
    }
    if count == 0 {
        return Err(MeasureError::Empty { role: FileRole::Pairs }).with_context(|| path.display().to_string());
    }
    Ok(exit::DONE)
}
