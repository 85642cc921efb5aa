//! `--against`, and the intervals of replicates: they agree with the table `scores`.

use crate::harness::{document, hopeval, run, succeed};
use hopeval_jobs::prepare::questions::row_strata;
use hopeval_measures::aggregate::{ValueRange, mean_interval};
use hopeval_measures::paired::{PairedDifference, holm_p_values};
use hopeval_results::tables::{MeasureRow, QuestionRow, ScoreRow, read_table};
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

const MEASURES: [&str; 2] = ["recall_frac@2", "mrr"];

/// A finished run, shared by the tests. Its folder stays behind: a static is never dropped.
struct Sample {
    dir: tempfile::TempDir,
    document: Value,
    /// Values by measure and configuration, in the questions' order.
    scores: BTreeMap<(String, String), Vec<f64>>,
    /// The strata of each question.
    strata: Vec<Vec<String>>,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(dir.path().join("job.toml"), JOB).unwrap();
    let document = document(&mut hopeval(dir.path(), &["run", "job.toml", "--store", "store", "--json"]));
    let store = Store::open(dir.path().join("store").to_str().unwrap()).unwrap();
    let run = document["run"].as_str().unwrap();
    let mut scores: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for row in read_table::<ScoreRow>(&store, &layout::final_table(run, "scores")).unwrap() {
        if MEASURES.contains(&&*row.measure) {
            scores
                .entry((row.measure.to_string(), row.configuration.to_string()))
                .or_default()
                .push(row.value.unwrap());
        }
    }
    let strata =
        read_table::<QuestionRow>(&store, &layout::questions_table(run)).unwrap().iter().map(row_strata).collect();
    Sample { dir, document, scores, strata }
});

impl Sample {
    fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Values of the questions of a stratum; of `random` the means of its replicates.
    fn values(&self, measure: &str, name: &str, stratum: &str) -> Vec<f64> {
        let of = |name: &str| &self.scores[&(measure.to_owned(), name.to_owned())];
        let replicates = if name == "random" { vec!["random#1", "random#2", "random#3"] } else { vec![name] };
        let mean =
            |question: usize| replicates.iter().map(|name| of(name)[question]).sum::<f64>() / replicates.len() as f64;
        let within = |&question: &usize| self.strata[question].iter().any(|of| of == stratum);
        (0..self.strata.len()).filter(within).map(mean).collect()
    }

    fn against(&self, name: &str, stratum: &str) -> Value {
        let mut show = vec!["show", "latest", "--store", "store", "--against", name, "--stratum", stratum, "--json"];
        MEASURES.iter().for_each(|measure| show.extend(["--measure", measure]));
        document(&mut hopeval(self.dir(), &show))
    }
}

#[test]
fn differences_are_those_of_the_scores() {
    let questions = |stratum: &str| SAMPLE.strata.iter().filter(|of| of.iter().any(|name| name == stratum)).count();
    assert!((2..90).contains(&questions("type=bridge")), "the world is to have other types too");
    for (against, compared) in [("tfidf", ["bm25", "random"]), ("random", ["bm25", "tfidf"])] {
        for stratum in ["all", "type=bridge"] {
            let document = SAMPLE.against(against, stratum);
            assert_eq!(document["differences_left_out"], serde_json::json!(["given"]));
            let rows = document["differences"].as_array().unwrap();
            assert_eq!(rows.len(), compared.len() * MEASURES.len());
            for measure in MEASURES {
                let of: Vec<&Value> = rows.iter().filter(|row| row["measure"] == measure).collect();
                let names: Vec<&str> = of.iter().map(|row| row["configuration"].as_str().unwrap()).collect();
                assert_eq!(names, compared);
                let expected = compared.map(|name| {
                    let (own, other) =
                        (SAMPLE.values(measure, name, stratum), SAMPLE.values(measure, against, stratum));
                    let differences: Vec<f64> = own.iter().zip(other).map(|(own, other)| own - other).collect();
                    PairedDifference::of(&differences).unwrap()
                });
                let adjusted = holm_p_values(&expected.map(|expected| expected.p.value()));
                for ((row, expected), adjusted) in of.iter().zip(expected).zip(adjusted) {
                    assert_eq!(row["n"].as_u64(), Some(questions(stratum) as u64));
                    assert_eq!(row["p_kind"], expected.p.kind());
                    let told = [
                        ("share", 1.0),
                        ("difference", expected.mean),
                        ("low", expected.low),
                        ("high", expected.high),
                        ("p", expected.p.value()),
                        ("p_t", expected.t_test.unwrap()),
                        ("p_holm", adjusted),
                    ];
                    for (key, value) in told {
                        assert!((row[key].as_f64().unwrap() - value).abs() < 1e-9, "{key} of {row}: {value}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_interval_of_replicates_is_that_of_their_means_by_question() {
    let rows = SAMPLE.document["replicates"].as_array().unwrap();
    let row = rows.iter().find(|row| row["stratum"] == "all" && row["measure"] == MEASURES[0]).unwrap();
    let values = SAMPLE.values(MEASURES[0], "random", "all");
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let stderr = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    let number = |key: &str| row[key].as_f64().unwrap();
    assert!((number("mean") - mean).abs() < 1e-12);
    let (low, high) = mean_interval(ValueRange::Share, mean, Some(stderr), values.len() as u64).unwrap();
    assert!((number("low") - low).abs() < 1e-9 && (number("high") - high).abs() < 1e-9, "{row} {low} {high}");
    // Every stratum has its own.
    assert!(rows.iter().filter(|row| row["measure"] == MEASURES[0]).all(|row| row["low"].is_f64()), "{rows:?}");
}

#[test]
fn intervals_are_alike_on_screen_in_json_and_in_parquet() {
    let show = ["show", "latest", "--store", "store"];
    let shown = document(hopeval(SAMPLE.dir(), &show).arg("--json"));
    let shown = shown["measures"].as_array().unwrap();
    let store = Store::open(SAMPLE.dir().join("store").to_str().unwrap()).unwrap();
    let run = SAMPLE.document["run"].as_str().unwrap();
    let rows = read_table::<MeasureRow>(&store, &layout::final_table(run, "measures")).unwrap();
    assert_eq!(rows.len(), shown.len());
    for (row, shown) in rows.iter().zip(shown) {
        assert_eq!(row.low.is_some(), row.n > 0, "{row:?}");
        let Some((low, high)) = row.low.zip(row.high) else { continue };
        assert!(0.0 <= low && low < high && high <= 1.0, "{row:?}");
        let number = |key: &str| shown[key].as_f64().unwrap();
        assert!((number("low") - low).abs() < 1e-12 && (number("high") - high).abs() < 1e-12, "{row:?} {shown}");
    }
    // None of 90 questions: Wilson's interval, without asking for it.
    let text = succeed(hopeval(SAMPLE.dir(), &show).args(["--measure", "recall_all@2"]));
    let random = text.lines().find(|line| line.starts_with("| random#1 ")).unwrap();
    assert!(random.contains("0.0000 [0.0000, 0.0409]"), "{text}");
    let bm25 = |text: &str| text.lines().find(|line| line.starts_with("| bm25 ")).unwrap().to_owned();
    assert!(bm25(&text).contains('±'), "{text}");
    let text = succeed(hopeval(SAMPLE.dir(), &show).args(["--measure", "recall_all@2", "--interval"]));
    let row =
        rows.iter().find(|row| (&*row.configuration, &*row.stratum, &*row.measure) == ("bm25", "all", "recall_all@2"));
    let (low, high) = row.and_then(|row| row.low.zip(row.high)).unwrap();
    assert!(bm25(&text).contains(&format!("[{low:.4}, {high:.4}]")) && text.contains("95 % interval"), "{text}");
}

#[test]
fn tables_say_what_they_show() {
    let show = ["show", "latest", "--store", "store", "--against", "bm25", "--stratum", "type=bridge"];
    let text = succeed(&mut hopeval(SAMPLE.dir(), &show));
    let heading = "less `bm25`, stratum type=bridge, paired by question: mean difference [95 % interval] p value";
    assert!(text.contains(heading), "{text}");
    assert!(text.lines().any(|line| line.starts_with("| random ") && line.contains(" [-0.")), "{text}");
    assert!(text.contains("of another context mode, and left out: given"), "{text}");
    let nothing = succeed(&mut hopeval(SAMPLE.dir(), &["show", "latest", "--store", "store", "--against", "given"]));
    assert!(
        nothing.contains("nothing: of no other configuration") && nothing.contains("left out: bm25, random, tfidf")
    );
    assert!(text.contains("higher is better: + is better than `bm25`, - is worse"), "{text}");
    assert!(!text.contains("context mode: ") && !text.contains("over replicates"), "differences alone: {text}");
    let mrr = succeed(&mut hopeval(SAMPLE.dir(), &[&show[..], &["--measure", "mrr"]].concat()));
    assert!(mrr.contains("| configuration | n  | mrr "), "{mrr}");
    let spread =
        succeed(&mut hopeval(SAMPLE.dir(), &["show", "latest", "--store", "store", "--stratum", "type=bridge"]));
    assert!(
        spread.contains("over replicates, stratum type=bridge: mean (standard deviation between them) [95 % interval"),
        "{spread}"
    );
}

#[test]
fn what_is_not_there_is_refused() {
    for (option, name, allowed) in [
        ("--against", "random#1", "the run has bm25, given, random, tfidf"),
        ("--stratum", "type=nothing", "type=bridge"),
    ] {
        let output = run(&mut hopeval(SAMPLE.dir(), &["show", "latest", "--store", "store", option, name]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(name) && said.contains(allowed), "{said}");
    }
}
