//! `--against`, and the intervals of replicates: what they say is what the table `scores` says.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod harness;

use harness::{document, hopeval, run, succeed};
use hopeval_measures::paired::Difference;
use hopeval_results::tables::{ScoreRow, read_table};
use hopeval_results::{Store, layout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// Three draws of `random` beside two retrievers, and a method of another context mode.
const JOB: &str = r#"
name = "beside"
[dataset.world]
questions = 90
passages = 800
seed = 5
[service.bm25]
kind = "bm25"
[service.tfidf]
kind = "tfidf"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.tfidf]
kind = "one_step"
retriever = "tfidf"
[method.given]
kind = "given"
retriever = "bm25"
[method.random]
kind = "random"
[method.random.replicates]
draw = [0, 1, 2]
"#;

const MEASURE: &str = "recall_frac@2";

/// A finished run that the tests share: its folder goes when the process does.
struct Sample {
    dir: tempfile::TempDir,
    document: Value,
    /// Values of [`MEASURE`] by configuration, in the questions' order.
    scores: BTreeMap<String, Vec<f64>>,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(dir.path().join("job.toml"), JOB).unwrap();
    let document = document(&mut hopeval(dir.path(), &["run", "job.toml", "--store", "store", "--json"]));
    let store = Store::open(dir.path().join("store").to_str().unwrap()).unwrap();
    let table = layout::final_table(document["run"].as_str().unwrap(), "scores");
    let mut scores: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in read_table::<ScoreRow>(&store, &table).unwrap() {
        if row.measure == MEASURE {
            scores.entry(row.configuration).or_default().push(row.value.unwrap());
        }
    }
    Sample { dir, document, scores }
});

impl Sample {
    fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Values by question; of `random` the means of its replicates.
    fn values(&self, name: &str) -> Vec<f64> {
        if name != "random" {
            return self.scores[name].clone();
        }
        let draws = ["random#1", "random#2", "random#3"].map(|name| &self.scores[name]);
        (0..draws[0].len()).map(|n| draws.iter().map(|draw| draw[n]).sum::<f64>() / 3.0).collect()
    }

    fn against(&self, name: &str) -> Vec<Value> {
        let show = ["show", "latest", "--store", "store", "--against", name, "--measure", MEASURE, "--json"];
        document(&mut hopeval(self.dir(), &show))["differences"].as_array().unwrap().clone()
    }
}

#[test]
fn differences_are_those_of_the_scores() {
    for (against, wanted) in [("tfidf", ["bm25", "random"]), ("random", ["bm25", "tfidf"])] {
        let rows = SAMPLE.against(against);
        let names: Vec<&str> = rows.iter().map(|row| row["configuration"].as_str().unwrap()).collect();
        assert_eq!(names, wanted, "`given` has another context mode, and nothing is compared with itself");
        for row in rows {
            let (own, other) = (SAMPLE.values(row["configuration"].as_str().unwrap()), SAMPLE.values(against));
            let differences: Vec<f64> = own.iter().zip(other).map(|(own, other)| own - other).collect();
            let expected = Difference::of(&differences).unwrap();
            let number = |key: &str| row[key].as_f64().unwrap();
            assert_eq!((row["n"].as_u64(), number("coverage")), (Some(90), 1.0));
            for (key, value) in
                [("difference", expected.mean), ("low", expected.low), ("high", expected.high), ("p", expected.p)]
            {
                assert!((number(key) - value).abs() < 1e-9, "{key} of {row}: {value}");
            }
            assert!(number("p_holm") >= number("p") && number("low") <= number("difference"));
        }
    }
    let random = &SAMPLE.against("tfidf")[1];
    assert!(random["high"].as_f64().unwrap() < 0.0 && random["p_holm"].as_f64().unwrap() < 0.001, "{random}");
}

#[test]
fn an_interval_of_replicates_is_that_of_their_means_by_question() {
    let rows = SAMPLE.document["replicates"].as_array().unwrap();
    let row = rows.iter().find(|row| row["stratum"] == "all" && row["measure"] == MEASURE).unwrap();
    let values = SAMPLE.values("random");
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let stderr = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    let number = |key: &str| row[key].as_f64().unwrap();
    assert!((number("mean") - mean).abs() < 1e-12);
    // A share of 0 or 1 everywhere has Wilson's interval, which is not around the mean.
    assert!(values.iter().any(|&value| value != 0.0 && value != 1.0), "the sample is to be of another kind");
    assert!((number("high") - mean - 1.96 * stderr).abs() < 1e-4 * stderr, "{row} {stderr}");
    assert!((mean - number("low") - 1.96 * stderr).abs() < 1e-4 * stderr, "{row} {stderr}");
    // Every stratum has one of its own.
    assert!(rows.iter().filter(|row| row["measure"] == MEASURE).all(|row| row["low"].is_f64()), "{rows:?}");
}

#[test]
fn tables_say_what_they_show() {
    let show = ["show", "latest", "--store", "store", "--against", "bm25", "--stratum", "type=bridge"];
    let text = succeed(&mut hopeval(SAMPLE.dir(), &show));
    assert!(text.contains("less `bm25`, paired by question: mean difference [95 % interval] p value"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("| random ") && line.contains(" [-0.")), "{text}");
    assert!(text.contains("over replicates: mean (standard deviation between them) [95 % interval"), "{text}");
}

#[test]
fn what_is_not_there_is_refused() {
    for (option, name, allowed) in [
        ("--against", "random#1", "its configurations are bm25, given, random, tfidf"),
        ("--stratum", "type=nothing", "type=bridge"),
    ] {
        let output = run(&mut hopeval(SAMPLE.dir(), &["show", "latest", "--store", "store", option, name]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(name) && said.contains(allowed), "{said}");
    }
}
