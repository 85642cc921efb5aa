//! The official scripts' own results on real files: `../shared/golden`, beside the repository. Skipped without it.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a panic is a report, and a skip must be loud")]

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use hopeval_measures::official::{PairScorer, score_files};
use hopeval_measures::{Profile, drop};
use serde_json::Value;

fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if !path.exists() {
        eprintln!("SKIPPED: {} is not there", path.display());
        return None;
    }
    Some(path)
}

fn gzip(path: &Path) -> GzDecoder<File> {
    GzDecoder::new(File::open(path).unwrap())
}

fn golden(profile: Profile, stem: &str, predictions: &str, gold: &str) -> Option<Vec<(&'static str, f64, f64)>> {
    let (predictions, expected, gold) =
        (shared(predictions)?, shared(&format!("golden/{stem}_expected.json"))?, shared(gold)?);
    let figures = score_files(profile, gzip(&predictions), gzip(&gold), None::<&[u8]>).unwrap().figures;
    let expected: serde_json::Map<String, Value> = serde_json::from_reader(File::open(expected).unwrap()).unwrap();
    assert_eq!(figures.len(), expected.len());
    Some(
        figures
            .into_iter()
            .map(|(name, value)| {
                let official = expected[name].as_f64().unwrap();
                (name, value, official)
            })
            .collect(),
    )
}

#[test]
fn hotpotqa_figures() {
    let Some(figures) = golden(
        Profile::HotpotQa,
        "hotpotqa_dev_1267",
        "golden/hotpotqa_dev_1267_predictions.json.gz",
        "data/hotpotqa/dev_1267.json.gz",
    ) else {
        return;
    };
    for (name, value, official) in figures {
        assert_eq!(value, official, "{name}");
    }
}

#[test]
fn two_wiki_figures() {
    let Some(figures) = golden(
        Profile::TwoWiki,
        "2wikimultihopqa_train_500",
        "golden/2wikimultihopqa_train_500_predictions.json.gz",
        "data/2wikimultihopqa/train_500.json.gz",
    ) else {
        return;
    };
    for (name, value, official) in figures {
        assert_eq!(format!("{value:.2}").parse::<f64>().unwrap(), official, "{name}: {value}");
    }
}

#[test]
fn musique_figures() {
    let Some(figures) = golden(
        Profile::Musique,
        "musique_train_299",
        "golden/musique_train_299_predictions.jsonl.gz",
        "data/musique/train_299.jsonl.gz",
    ) else {
        return;
    };
    for (name, value, official) in figures {
        assert_eq!(format!("{value:.3}").parse::<f64>().unwrap(), official, "{name}: {value}");
    }
}

#[test]
fn every_answer_pair() {
    let Some(path) = shared("golden/answers.jsonl.gz") else { return };
    let mut text = String::new();
    gzip(&path).read_to_string(&mut text).unwrap();
    let scores = PairScorer::new(BufReader::new(text.as_bytes())).map(Result::unwrap);
    let mut compared = 0;
    for (line, score) in text.lines().zip(scores) {
        let row: Value = serde_json::from_str(line).unwrap();
        let official = |family: &str, measure: &str| row[family][measure].as_f64().unwrap();
        for (family, got) in [("hotpot", score.hotpotqa), ("squad", score.squad)] {
            assert_eq!(got.em, official(family, "em"), "{family} {line}");
            assert!((got.f1 - official(family, "f1")).abs() <= 1e-12, "{family} {line}");
        }
        assert_eq!(score.normalized, row["normalized"].as_str().unwrap(), "{line}");
        compared += 1;
    }
    assert_eq!(compared, 1530);
}

/// A published IIRC pipeline's rows, with the EM and F1 of its evaluator.
#[test]
fn iirc_rows_under_drop() {
    let Some(path) = shared("data/iirc/dev_300_with_predictions.jsonl.gz") else { return };
    let mut text = String::new();
    gzip(&path).read_to_string(&mut text).unwrap();
    let mut compared = 0;
    for line in text.lines() {
        let qa = &serde_json::from_str::<Value>(line).unwrap()["qa"];
        let strings = |value: &Value| -> Vec<String> {
            value.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
        };
        let predicted = match &qa["predicted_answer"] {
            Value::String(one) => vec![one.clone()],
            list => strings(list),
        };
        let golds: Vec<Vec<String>> = qa["gold_answer"]
            .as_array()
            .unwrap()
            .iter()
            .map(|gold| match gold["number"].as_str() {
                _ if qa["gold_answer_type"] == "none" => vec!["none".to_owned()],
                Some(number) if !number.is_empty() => vec![number.to_owned()],
                _ => strings(&gold["spans"]),
            })
            .collect();
        let best = golds
            .iter()
            .map(|gold| drop::score_spans(&predicted, gold))
            .fold((0.0f64, 0.0f64), |best, s| (best.0.max(s.em), best.1.max(s.f1)));
        assert_eq!(best.0, qa["em"].as_f64().unwrap(), "{qa}");
        // The pipeline multiplied and divided by 100 once more: 0.6699999999999999 for 0.67.
        assert!((best.1 - qa["f1"].as_f64().unwrap()).abs() < 1e-12, "{qa}");
        compared += 1;
    }
    assert_eq!(compared, 300);
}
