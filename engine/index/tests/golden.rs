//! Figures and lists of other programs, on the real passages beside the repository.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]
#![expect(clippy::print_stderr, reason = "a skipped test must say so")]

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
};

use flate2::read::MultiGzDecoder;
use hopeval_index::{Analyzer, Bm25Formula, Bm25Index, Bm25Parameters, Passages, Query, SearchScratch, SearchedFields};
use serde_json::Value;

/// A file of the folder beside the repository, or a loud skip.
fn shared(file: &str) -> Option<Box<dyn BufRead>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(file);
    match File::open(&path) {
        Ok(file) => Some(Box::new(BufReader::new(MultiGzDecoder::new(file)))),
        Err(_) => {
            eprintln!("SKIPPED: {} is absent", path.display());
            None
        }
    }
}

fn corpus(file: &str) -> Option<Vec<(String, String)>> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    Some(
        shared(file)?
            .lines()
            .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
            .map(|row| (text(&row, "title"), text(&row, "text")))
            .collect(),
    )
}

fn json(file: &str) -> Option<Value> {
    let mut text = String::new();
    shared(file)?.read_to_string(&mut text).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

fn index(passages: &impl Passages, parameters: &Bm25Parameters) -> (tempfile::TempDir, Bm25Index) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    Bm25Index::build(passages, "golden", parameters, &path, 2).unwrap();
    let index = Bm25Index::open(&path, "golden", parameters).unwrap();
    index.verify().unwrap();
    (folder, index)
}

#[test]
fn rank_bm25_lists_are_reproduced() {
    let Some(passages) = corpus("hotpotqa_first500/corpus.jsonl.gz") else { return };
    let questions = json("hotpotqa_first500/questions.json.gz").unwrap();
    let parameters = Bm25Parameters {
        analyzer: Analyzer::Whitespace,
        fields: SearchedFields::Text,
        formula: Bm25Formula::Okapi,
        k1: 1.5,
        b: 0.75,
        epsilon: 0.25,
    };
    let (_folder, index) = index(&passages, &parameters);
    let mut scratch = SearchScratch::default();
    let questions: HashMap<&str, &str> = questions
        .as_array()
        .unwrap()
        .iter()
        .map(|q| (q["_id"].as_str().unwrap(), q["question"].as_str().unwrap()))
        .collect();
    let (mut lists, mut identical) = (0, 0);
    for line in shared("hotpotqa_first500/bm25_okapi_top50.jsonl.gz").unwrap().lines() {
        let golden: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let ranking = golden["ranking"].as_array().unwrap();
        let query = Query { text: questions[golden["id"].as_str().unwrap()], k: ranking.len(), within: None };
        let hits = index.search(&[query], &mut scratch).remove(0);
        assert_eq!(hits.len(), ranking.len(), "{}", golden["id"]);
        for (hit, wanted) in hits.iter().zip(ranking) {
            assert_eq!(wanted[0], passages[hit.id as usize].0.as_str(), "{}", golden["id"]);
            let score = wanted[1].as_f64().unwrap();
            assert!((hit.score - score).abs() <= 1e-9, "{}: {} for {score}", golden["id"], hit.score);
            identical += usize::from(hit.score.to_bits() == score.to_bits());
        }
        lists += 1;
    }
    assert_eq!(lists, 500);
    assert!(identical > 24_900, "{identical} of 25,000 scores are the same to the last bit");
}

#[test]
fn hotpotqa_figures_are_reproduced() {
    let Some(passages) = corpus("hotpotqa/corpus.jsonl.gz") else { return };
    let questions = json("hotpotqa/dev_1267.json.gz").unwrap();
    let (_folder, index) = index(&passages, &Bm25Parameters::default());
    let questions = questions.as_array().unwrap();
    let queries: Vec<Query<'_>> =
        questions.iter().map(|q| Query { text: q["question"].as_str().unwrap(), k: 20, within: None }).collect();
    let found = index.search(&queries, &mut SearchScratch::default());
    let (mut recall, mut all) = ([0.0; 4], 0.0);
    for (question, hits) in questions.iter().zip(&found) {
        let mut gold: Vec<&str> =
            question["supporting_facts"].as_array().unwrap().iter().map(|f| f[0].as_str().unwrap()).collect();
        gold.sort_unstable();
        gold.dedup();
        let share = |k: usize| {
            let titles: Vec<&str> = hits.iter().take(k).map(|h| passages[h.id as usize].0.as_str()).collect();
            gold.iter().filter(|title| titles.contains(title)).count() as f64 / gold.len() as f64
        };
        recall.iter_mut().zip([2, 5, 10, 20]).for_each(|(sum, k)| *sum += share(k));
        all += f64::from(share(10) == 1.0);
    }
    let n = questions.len() as f64;
    let figures = [recall[0] / n, recall[1] / n, recall[2] / n, recall[3] / n, all / n];
    for (figure, wanted) in figures.iter().zip([0.5517, 0.7107, 0.8287, 0.8942, 0.6701]) {
        assert!((figure - wanted).abs() <= 0.0005, "{figures:?}");
    }
}
