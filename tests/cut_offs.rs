//! A measure whose cut-off is beyond what its configuration ranks is marked, on screen, in `--json` and in the tables.

#![cfg(unix)]

use crate::harness::{document, hopeval, measure, run_of, succeed};
use crate::tiny;
use hopeval_results::tables::{ConfigurationRow, MeasureRow, read_table};
use hopeval_results::{Store, layout};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A job of several lengths of rankings, one of which is left to its default.
const JOB: &str = r#"name = "cut-offs"
[dataset]
format = "hotpotqa"
questions = "questions.json"
[corpus]
source = "corpus.jsonl"
[service.sparse]
kind = "bm25"
[method.short]
kind = "one_step"
retriever = "sparse"
[method.short.sweep]
k = [2, 12]
[method.unset]
kind = "one_step"
retriever = "sparse"
[method.drawn]
kind = "random"
k = 4
[method.drawn.replicates]
seed = [1, 2]
[method.oracle]
kind = "oracle"
[measures]
recall_at = [2, 5, 12]
budget_recall_at = [3]
ndcg_at = []
"#;

fn write_job(dir: &Path) {
    tiny::write(dir);
    std::fs::write(dir.join("job.toml"), JOB).unwrap();
}

/// The mark of each configuration in `recall_all@K` and `budget_recall@3`, over all questions.
fn marks<'a>(document: &'a Value, configuration: &str) -> Vec<&'a Value> {
    ["recall_all@2", "recall_all@5", "recall_all@12", "budget_recall@3", "mrr"]
        .map(|name| &measure(document, configuration, "all", name)["ranked"])
        .to_vec()
}

#[test]
fn a_cut_off_beyond_a_ranking_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    write_job(dir.path());
    let found = document(&mut hopeval(dir.path(), &["run", "job.toml", "--json"]));
    let none = Value::Null;
    let (two, four) = (json!(2), json!(4));
    assert_eq!(marks(&found, "short{k=2}"), [&none, &two, &two, &two, &none]);
    assert_eq!(marks(&found, "drawn#1"), [&none, &four, &four, &none, &none]);
    for whole in ["short{k=12}", "unset", "oracle"] {
        assert_eq!(marks(&found, whole), [&none; 5], "{whole}");
    }
    let spread = found["replicates"].as_array().unwrap().iter();
    let spread: BTreeMap<&str, &Value> = spread
        .filter(|row| row["stratum"] == "all")
        .map(|row| (row["measure"].as_str().unwrap(), &row["ranked"]))
        .collect();
    assert_eq!((spread["recall_all@2"], spread["recall_all@5"]), (&none, &four));

    // The default is the largest cut-off, and the record shows it.
    let store = Store::open(dir.path().join("hopeval-store").to_str().unwrap()).unwrap();
    let rows: Vec<ConfigurationRow> =
        read_table(&store, &layout::final_table(run_of(&found), "configurations")).unwrap();
    let unset = rows.iter().find(|row| row.configuration == "unset").unwrap();
    assert_eq!(serde_json::from_str::<Value>(&unset.parameters).unwrap()["k"], 12);

    // The table has the same marks as the document.
    let rows: Vec<MeasureRow> = read_table(&store, &layout::final_table(run_of(&found), "measures")).unwrap();
    let documented = found["measures"].as_array().unwrap();
    assert_eq!(rows.len(), documented.len());
    for (row, document) in rows.iter().zip(documented) {
        assert_eq!(json!(row.ranked), document["ranked"], "{row:?}");
    }
}

#[test]
fn a_mark_on_the_screen_is_explained_beneath() {
    let dir = tempfile::tempdir().unwrap();
    write_job(dir.path());
    let show = |arguments: &[&str]| succeed(hopeval(dir.path(), &["show"]).args(arguments));
    let all = succeed(&mut hopeval(dir.path(), &["run", "job.toml"]));
    let note = "\n*: not measured to its cut-off: the configuration ranks fewer passages, and the figure is of these\n";
    let row =
        |text: &str, name: &str| text.lines().find(|line| line.starts_with(&format!("| {name} "))).unwrap().to_owned();
    assert!(all.contains(note), "{all}");
    // recall_frac and recall_all at 5 and 12. The swept k has a column of its own.
    let marks = |name: &str, k: &str| {
        let is_row = |line: &&str| line.split('|').map(str::trim).skip(2).take(2).eq([name, k]);
        all.lines().find(is_row).unwrap().matches('*').count()
    };
    assert_eq!((marks("short", "2"), marks("unset", "–")), (4, 0), "{all}");
    let shown = show(&["--measure", "recall_all@2", "--stratum", "all"]);
    assert!(!shown.contains('*'), "nothing is marked, and nothing explained: {shown}");

    let against = show(&["--against", "short{k=2}", "--measure", "recall_all@12"]);
    let differences = against.split("\nless `short{k=2}`").nth(1).unwrap();
    assert!(row(differences, "unset").contains('*'), "one of the two is short: {differences}");
    assert!(differences.contains("of the configuration or of `short{k=2}`"), "{differences}");
    let against = show(&["--against", "short{k=12}", "--measure", "recall_all@12"]);
    let differences = against.split("\nless `short{k=12}`").nth(1).unwrap();
    assert!(!row(differences, "unset").contains('*'), "{differences}");
}
