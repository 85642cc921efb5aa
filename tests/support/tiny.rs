//! A dataset small enough to know by heart: six two-hop questions in HotpotQA's format over eighteen passages.

use serde_json::{Value, json};
use std::path::Path;

/// The job; its files lie beside it.
pub(crate) const JOB: &str = r#"name = "tiny"
[dataset]
format = "hotpotqa"
questions = "questions.json"
[corpus]
source = "corpus.jsonl"
[service.sparse]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "sparse"
k = 5
[method.oracle]
kind = "oracle"
[measures]
recall_at = [2, 5]
"#;

const QUESTIONS: usize = 6;

/// Three passages for each question: a film, its director, the director's town.
pub(crate) fn passages() -> Vec<Value> {
    let trio = |i: usize| {
        [
            json!({"title": format!("Film {i}"), "text": format!("Film {i} is a film directed by Person {i}.")}),
            json!({"title": format!("Person {i}"), "text": format!("Person {i} was born in Town {i}.")}),
            json!({"title": format!("Town {i}"), "text": format!("Town {i} lies by a river.")}),
        ]
    };
    (0..QUESTIONS).flat_map(trio).collect()
}

/// The questions `q0` to `q5`. Even ones have the type `comparison`.
pub(crate) fn questions() -> Vec<Value> {
    let passages = passages();
    let question = |i: usize| {
        let context: Vec<Value> = passages[3 * i..3 * i + 3].iter().map(|p| json!([p["title"], [p["text"]]])).collect();
        json!({
            "_id": format!("q{i}"), "question": format!("Where was the director of Film {i} born?"),
            "answer": format!("Town {i}"), "type": if i.is_multiple_of(2) { "comparison" } else { "bridge" },
            "level": "hard",
            "context": context, "supporting_facts": [[format!("Film {i}"), 0], [format!("Person {i}"), 0]],
        })
    };
    (0..QUESTIONS).map(question).collect()
}

/// A JSON array with one row on each line, the first on line 2.
pub(crate) fn array(rows: &[Value]) -> String {
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    format!("[\n{}\n]\n", rows.join(",\n"))
}

/// JSON Lines.
pub(crate) fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

/// Writes `job.toml`, `questions.json` and `corpus.jsonl` into `dir`.
pub(crate) fn write(dir: &Path) {
    let files =
        [("job.toml", JOB.to_owned()), ("questions.json", array(&questions())), ("corpus.jsonl", lines(&passages()))];
    for (name, text) in files {
        std::fs::write(dir.join(name), text).expect("the dataset can be written");
    }
}

/// A new folder with the files of [`write`].
pub(crate) fn job() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    dir
}
