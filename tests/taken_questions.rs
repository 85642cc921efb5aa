//! The questions that a job takes of its dataset: `only` and `expected` of `[dataset]`, `expected` of `[corpus]`.

use crate::harness::{document, hopeval, measure, run};
use crate::tiny;
use serde_json::{Value, json};
use std::path::Path;

fn set(dir: &Path, sets: &[&str]) -> std::process::Command {
    let mut command = hopeval(dir, &["run", "job.toml", "--json"]);
    command.args(sets.iter().flat_map(|set| ["--set", set]));
    command
}

/// Exit code 2, and an error that says all of `says`.
fn refused(dir: &Path, sets: &[&str], says: &[&str]) {
    let output = run(&mut set(dir, sets));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(says.iter().all(|part| error.contains(part)), "{error}");
}

/// The ids of a run's questions.
fn questions_of(dir: &Path, document: &Value) -> Vec<String> {
    let run = document["run"].as_str().unwrap();
    let arguments = ["export", run, "--format", "csv", "--configuration", "bm25"];
    let csv = crate::harness::succeed(&mut hopeval(dir, &arguments));
    csv.lines().skip(1).filter_map(|line| line.split(',').nth(1)).map(ToOwned::to_owned).collect()
}

#[test]
fn only_the_questions_of_a_file_are_evaluated() {
    let dir = tiny::job();
    let dir = dir.path();
    std::fs::write(dir.join("ids.txt"), "q4\n\nq1\nq4\n").unwrap();
    std::fs::write(dir.join("rows.jsonl"), "{\"id\": \"q1\", \"answer\": \"?\"}\n{\"id\": \"q4\"}\n").unwrap();
    std::fs::write(dir.join("others.txt"), "q4\nq2\n").unwrap();
    let whole = document(&mut set(dir, &[]));
    let taken = document(&mut set(dir, &["dataset.only=ids.txt", "dataset.expected=6", "corpus.expected=18"]));
    assert_eq!((&whole["questions"], &taken["questions"]), (&json!(6), &json!(2)));
    // In the dataset's order, and alike from both forms of the file.
    assert_eq!(questions_of(dir, &taken), ["q1", "q4"]);
    let rows = document(&mut set(dir, &["dataset.only=rows.jsonl"]));
    assert_eq!(rows["measures"], taken["measures"]);
    let file = std::fs::File::create(dir.join("ids.gz")).unwrap();
    let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    std::io::Write::write_all(&mut file, b"q1\nq4\n").unwrap();
    file.finish().unwrap();
    assert_eq!(document(&mut set(dir, &["dataset.only=ids.gz"]))["measures"], taken["measures"]);
    // The same number of other questions is another dataset.
    let others = document(&mut set(dir, &["dataset.only=others.txt"]));
    assert_eq!(questions_of(dir, &others), ["q2", "q4"]);
    let digest = |run: &Value| {
        let record = dir.join("hopeval-store/runs").join(run["run"].as_str().unwrap()).join("run.json");
        let record: Value = serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
        record["job_digest"].clone()
    };
    let digests = [&taken, &rows, &others].map(digest);
    assert!(digests[0].is_string() && digests[0] == digests[1] && digests[0] != digests[2], "{digests:?}");
    // Of the named questions, the draw and the limit take some.
    let sets = ["dataset.only=ids.txt", "dataset.draw={ questions = 1, seed = 1 }"];
    assert_eq!(document(&mut set(dir, &sets))["questions"], 1);
    assert_eq!(questions_of(dir, &document(&mut set(dir, &["dataset.only=ids.txt", "dataset.limit=1"]))), ["q1"]);
    let planned = document(hopeval(dir, &["plan", "job.toml", "--json"]).args(["--set", "dataset.only=ids.txt"]));
    assert_eq!(planned["questions"], 2);
}

#[test]
fn what_is_not_there_is_refused() {
    let dir = tiny::job();
    let dir = dir.path();
    std::fs::write(dir.join("ids.txt"), "q4\nq9\nq8\n").unwrap();
    std::fs::write(dir.join("empty.txt"), "\n").unwrap();
    refused(
        dir,
        &["dataset.only=ids.txt"],
        &["ids.txt:2: `q9`, the first of 2 ids that no readable question of the dataset has"],
    );
    refused(dir, &["dataset.only=empty.txt"], &["empty.txt: no id; allowed: an id in each line"]);
    refused(dir, &["dataset.only="], &["`dataset.only` = no file; allowed: a file of ids"]);
    refused(dir, &["dataset.only=absent.txt"], &["absent.txt"]);
    refused(
        dir,
        &["dataset.expected=7"],
        &["questions.json: `dataset.expected` = 7, and 6 could be read", "not whole"],
    );
    // A limit does not hide that the file is short.
    refused(dir, &["dataset.expected=7", "dataset.limit=2"], &["`dataset.expected` = 7, and 6 could be read"]);
    refused(dir, &["corpus.expected=17"], &["corpus.jsonl: `corpus.expected` = 17, and 18 could be read"]);
    // A name that may be of a row that was set aside is told all the same.
    let mut rows = tiny::questions();
    rows[4]["question"] = json!(7);
    std::fs::write(dir.join("bad.json"), tiny::array(&rows)).unwrap();
    std::fs::write(dir.join("ids.txt"), "q1\nq4\n").unwrap();
    let mut lenient = set(dir, &["dataset.questions=bad.json", "dataset.only=ids.txt"]);
    let output = run(lenient.args(["--quarantine", "aside.jsonl"]));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("ids.txt:2: `q4`, the first of 1 ids that no readable question"), "{error}");
    assert!(
        !dir.join("hopeval-store/runs").exists()
            || std::fs::read_dir(dir.join("hopeval-store/runs")).unwrap().count() == 0
    );
}

#[test]
fn chunks_are_counted_as_often_as_they_were_found() {
    let dir = tiny::job();
    let sets = ["measures.chunk_recall=true", "measures.chunks_with_repeats=true", "measures.profile=efficientrag"];
    let document = document(&mut set(dir.path(), &sets));
    // One retrieval finds a passage once, so K is the number of passages.
    for name in ["chunks", "chunks_with_repeats"] {
        assert_eq!(measure(&document, "bm25", "all", name)["value"], 5.0, "{name}");
    }
    // The oracle has no retrievals.
    assert!(measure(&document, "oracle", "all", "chunks_with_repeats")["value"].is_null());
    assert_eq!(measure(&document, "oracle", "all", "em")["value"], 1.0);
}
