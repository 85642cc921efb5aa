//! `hopeval train-data`: from a generated world, and from a run whose language model annotated the questions.

use crate::harness::{hopeval, run, succeed};
use std::path::Path;

const FILES: [&str; 5] = ["encoder.parquet", "filter.parquet", "labeler.parquet", "reader.parquet", "scorer.parquet"];

fn world(dir: &Path) {
    let arguments = ["world", "--questions", "12", "--passages", "400", "--split", "train", "--out", "world"];
    succeed(&mut hopeval(dir, &arguments));
}

fn files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_world_makes_five_files_and_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    world(dir);
    let common = ["train-data", "--questions", "world/questions.jsonl", "--out", "rows", "--store", "store"];
    let made = |more: &[&str]| succeed(hopeval(dir, &common).args(more));
    let document: serde_json::Value =
        serde_json::from_str(&made(&["--corpus", "world/corpus.jsonl", "--json"])).unwrap();
    assert_eq!(document["questions"], 12);
    assert_eq!(document["skipped"], serde_json::json!({}));
    let (rows, tags) = (&document["rows"], &document["tags"]);
    let total: u64 = tags.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(rows["labeler"].as_u64().unwrap(), total);
    assert_eq!(files(&dir.join("rows")), FILES);
    let shown = made(&["--keep", "answer", "--limit", "3"]);
    assert!(shown.starts_with("questions: 3\nrows: encoder: "), "{shown}");
    assert!(shown.contains("\nwords kept of gold chunks: "), "{shown}");

    let refused = |arguments: &[&str]| {
        let output = run(&mut hopeval(dir, arguments));
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["train-data", "--out", "x"]).contains("--questions"));
    assert!(
        refused(&["train-data", "--out", "x", "--questions", "absent.json", "--store", "store"])
            .contains("absent.json")
    );
    let both = ["train-data", "--out", "x", "--questions", "world/questions.jsonl", "--run", "latest"];
    assert!(refused(&both).contains("cannot be used with"));
}

/// The embedded scorer writes text in another format than the method asks for: every question is a parse failure and is
/// counted.
#[test]
fn a_run_whose_model_does_not_parse_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let job = r#"
name = "annotate"
[dataset.world]
questions = 4
passages = 400
[service.bm25]
kind = "bm25"
[service.writer]
kind = "lm"
model = "hopeval:scorer"
[method.annotate]
kind = "efficientrag_data"
generator = "writer"
retriever = "bm25"
decomposition_prompt = "{documents} {question}"
max_tokens = 4
[method.bm25]
kind = "one_step"
retriever = "bm25"
"#;
    std::fs::write(dir.join("job.toml"), job).unwrap();
    let output = run(&mut hopeval(dir, &["run", "job.toml", "--store", "store"]));
    assert_eq!(
        output.status.code(),
        Some(1),
        "done, but questions failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let output = run(&mut hopeval(dir, &["train-data", "--run", "latest", "--out", "rows", "--store", "store"]));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(error.contains("none of the 4 questions has given a row; parse_failure (decomposition): 4"), "{error}");
    assert!(files(&dir.join("rows")).is_empty());
    let arguments = ["train-data", "--run", "latest", "--configuration", "bm25", "--out", "rows", "--store", "store"];
    let output = run(&mut hopeval(dir, &arguments));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("no configuration `bm25` of `efficientrag_data`") && error.contains("annotate"), "{error}");
}
