//! Scores predictions in hopeval's own forms: measures with errors, strata, and paired differences of two files.

use super::ScoreArguments;
use crate::cli::tables::measures::MeasureChoice;
use crate::cli::tables::replicates::is_wanted;
use crate::cli::tables::scored::scored_text;
use crate::print;
use anyhow::{Context, Error, Result, anyhow, bail};
use hopeval_cluster::exit;
use hopeval_datasets::{DatasetSpec, FieldMapping, RankingsFile, RankingsFormat};
use hopeval_jobs::report::compare::{Comparison, ComparisonResults};
use hopeval_jobs::report::scoring::{ScoredFile, ScoredFiles, ScoringFiles, score_files};
use hopeval_measures::{MeasureSet, Profile, Settings};
use hopeval_results::tables::MeasureRow;
use serde_json::{Value, json};
use std::path::Path;

/// The forms of prediction files, for messages.
pub(super) fn form_hint() -> String {
    let mut hint = "hint: a file of predictions has one of these forms:".to_owned();
    for format in RankingsFormat::ALL {
        hint.push_str(&format!("\n  {:<9}{}", format.name(), format.example()));
    }
    hint.push_str(
        "\n  official {\"answer\": {\"QUESTION\": \"ANSWER\", …}, \"sp\": {\"QUESTION\": [[\"TITLE\", 0], …], …}} of \
         HotpotQA\n           and 2WikiMultihopQA, with \"evidence\"; MuSiQue's lines with \"predicted_answer\"",
    );
    hint
}

/// An error of a file of predictions, with the forms that it may have.
pub(super) fn with_forms(error: Error) -> Error {
    anyhow!("{error:#}\n{}", form_hint())
}

/// Scores the files, and prints their figures.
pub(super) fn score(arguments: &ScoreArguments, predictions: &Path) -> Result<u8> {
    if arguments.aliases.is_some() {
        bail!("--aliases belongs to a prediction file of 2WikiMultihopQA's script");
    }
    let spec = arguments.gold.as_ref().map(|path| {
        let fields = &arguments.fields;
        let fields = if fields.is_empty() { None } else { Some(FieldMapping::from_pairs(fields)?) };
        Ok::<_, Error>(DatasetSpec { format: arguments.gold_format, fields, ..DatasetSpec::file(path) })
    });
    let open = |path: &Path| {
        let file = RankingsFile::open(path, arguments.format);
        file.map_err(|error| with_forms(error.into()))
    };
    let mut files = vec![open(predictions)?];
    if let Some(against) = &arguments.against {
        files.push(open(against)?);
    }
    let scored = score_files(ScoringFiles {
        gold: spec.transpose()?,
        qrels: arguments.qrels.clone(),
        predictions: files,
        measures: measure_settings(arguments)?,
    })?;
    let choice = MeasureChoice {
        measures: arguments.measures.clone(),
        strata: arguments.strata.clone(),
        intervals: arguments.interval,
        ..MeasureChoice::default()
    };
    check_names(&scored, &choice)?;
    let rows = scored.measures();
    if rows.iter().all(|row| row.n == 0) {
        bail!(
            "no measure has a value for any question: the gold has neither answers nor passages that the predictions \
             give; `hopeval data check` shows what is read of the gold, and --gold-format and --field say what it is"
        );
    }
    for name in &choice.measures {
        if !rows.iter().any(|row| row.n > 0 && row.measure == *name) {
            print::note(&format!("`{name}` has no value: the gold or the predictions lack what it measures"));
        }
    }
    note_strange_rankings(&scored);
    let compared = compare_shown(&scored, &choice);
    if arguments.json {
        print::line(&document(&scored, &rows, &compared).to_string());
    } else {
        print::line(&scored_text(&scored, &rows, &choice, &compared));
    }
    Ok(exit::DONE)
}

/// The measures that `--profile` and `--set` ask for.
fn measure_settings(arguments: &ScoreArguments) -> Result<Settings> {
    let text = arguments.settings.join("\n");
    let mut settings: Settings =
        toml::from_str(&text).with_context(|| format!("--set {}", arguments.settings.join(" --set ")))?;
    settings.profile = arguments.profile.or(settings.profile);
    // Whether texts are needed does not depend on the profile.
    if MeasureSet::new(&settings, Profile::Squad)?.needs_text() {
        bail!(
            "--set asks for measures over the texts of passages, and files of predictions have none; a job with \
             kind = \"rankings\" has them"
        );
    }
    Ok(settings)
}

fn check_names(scored: &ScoredFiles, choice: &MeasureChoice) -> Result<()> {
    let missing =
        |what: &str, name: &str, known: &[String]| bail!("no {what} `{name}`; there are {}", known.join(", "));
    if let Some(name) = choice.measures.iter().find(|name| !scored.set.names().contains(name)) {
        return missing("measure", name, scored.set.names());
    }
    if let Some(name) = choice.strata.iter().find(|name| !scored.strata.contains(name)) {
        return missing("stratum", name, &scored.strata);
    }
    Ok(())
}

/// The differences from the file of `--against`, over each shown stratum.
fn compare_shown(scored: &ScoredFiles, choice: &MeasureChoice) -> Vec<ComparisonResults> {
    if scored.files.len() < 2 {
        return Vec::new();
    }
    let position = |name: &str| scored.strata.iter().position(|known| known == name).map(|at| at as u32);
    let wanted = |measure: &str| is_wanted(measure, &choice.measures);
    let shown = choice.strata();
    shown.into_iter().filter_map(position).map(|stratum| scored.compare(1, stratum, &wanted)).collect()
}

/// Says of rankings without any gold passage what names gold passages have: the names may be of another corpus.
fn note_strange_rankings(scored: &ScoredFiles) {
    let Some(example) = &scored.gold_example else { return };
    for ScoredFile { name, gold_found, .. } in &scored.files {
        if *gold_found == Some(0) {
            print::note(&format!(
                "warning: {name} ranks no gold passage of any question; gold passages have names such as `{example}`"
            ));
        }
    }
}

/// The document of `--json`, with the names that `show --json` has.
fn document(scored: &ScoredFiles, rows: &[MeasureRow], compared: &[ComparisonResults]) -> Value {
    let files = scored.files.iter().map(|file| {
        json!({"configuration": file.name, "file": file.path.display().to_string(), "rows": file.rows,
               "used": file.used, "missing": scored.questions - file.used, "gold_ranked": file.gold_found})
    });
    let measures = rows.iter().map(|row| {
        json!({"configuration": row.configuration, "stratum": row.stratum, "measure": row.measure,
               "value": row.value, "stderr": row.stderr, "low": row.low, "high": row.high, "n": row.n,
               "coverage": row.coverage, "ranked": row.ranked})
    });
    let mut document = json!({
        "profile": scored.set.profile().name(),
        "questions": scored.questions,
        "unjudged": scored.unjudged,
        "predictions": files.collect::<Vec<_>>(),
        "measures": measures.collect::<Vec<_>>(),
    });
    if !compared.is_empty() {
        let differences: Vec<&Comparison> = compared.iter().flat_map(|found| &found.differences).collect();
        document["differences"] = json!(differences);
    }
    document
}
