//! EfficientRAG's labeler and filter with the word rules of a file: they change what is read, and the keys.

use crate::harness::{document, hopeval, run, run_of};
use crate::rules_file::RulesFile;
use crate::tiny;
use serde_json::Value;
use std::path::Path;

const JOB: &str = r#"name = "words"
[dataset]
format = "hotpotqa"
questions = "questions.json"
[corpus]
source = "corpus.jsonl"
[service.bm25]
kind = "bm25"
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
threads = 1
LABELER
[service.filter]
kind = "lm"
model = "hopeval:filter"
threads = 1
[method.efficientrag]
kind = "efficientrag"
retriever = "bm25"
labeler = "labeler"
filter = "filter"
k = 3
"#;

/// Runs the job with a line in the labeler's table, into the one store.
fn evaluate(dir: &Path, labeler: &str) -> Value {
    std::fs::write(dir.join("job.toml"), JOB.replace("LABELER", labeler)).unwrap();
    let places = ["run", "job.toml", "--json", "--workers", "1", "--store", "store", "--cache", "cache"];
    document(&mut hopeval(dir, &places))
}

/// Requests that the labeler of a run computed, and the tokens that all of its requests have.
fn labeler(document: &Value) -> (u64, u64) {
    let rows = document["cost"].as_array().unwrap();
    let row = rows.iter().find(|row| row["configuration"].is_null() && row["service"] == "labeler").unwrap();
    (row["computed"].as_u64().unwrap(), row["computed_tokens"].as_u64().unwrap_or_default())
}

#[test]
fn rules_change_words_and_keys_and_their_file_s_place_does_not() {
    let dir = tiny::job();
    let dir = dir.path();
    let write = |name: &str, file: &RulesFile| std::fs::write(dir.join(name), file.bytes()).unwrap();
    let small = RulesFile::small();
    write("rules", &small);
    let own = evaluate(dir, "");
    let with_rules = evaluate(dir, "word_rules = \"rules\"");
    assert_eq!(own["questions"], 6);
    assert_eq!(with_rules["questions"], 6);
    assert!(labeler(&own).0 > 0);
    assert!(labeler(&with_rules).0 > 0, "the rules are part of the key");
    assert_eq!(labeler(&evaluate(dir, "")).0, 0, "the keys without rules are as they were");

    write("same", &small);
    let moved = evaluate(dir, "word_rules = \"same\"");
    assert_ne!(run_of(&moved), run_of(&with_rules));
    assert_eq!(labeler(&moved).0, 0, "equal rules in another file have equal keys");

    // Each letter of a word of the passages is a word: the same requests have more tokens.
    let mut torn = small.clone();
    torn.add_special_case(&["d", "i", "r", "e", "c", "t", "e", "d"]);
    write("rules", &torn);
    let torn = evaluate(dir, "word_rules = \"rules\"");
    assert!(labeler(&torn).0 > 0, "other rules in the same file are other keys");
    assert!(labeler(&torn).1 > labeler(&with_rules).1, "{torn}");
}

#[test]
fn a_file_without_rules_is_refused_before_the_run() {
    let dir = tiny::job();
    let dir = dir.path();
    std::fs::write(dir.join("job.toml"), JOB.replace("LABELER", "word_rules = \"rules\"")).unwrap();
    let refuse = |said: &str| {
        let ended = run(&mut hopeval(dir, &["run", "job.toml", "--store", "store", "--cache", "cache"]));
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{error}");
        assert!(error.contains("[service.labeler]: `word_rules`\n") && error.contains(said), "{error}");
        assert!(!dir.join("store/runs").exists(), "no run was made");
    };
    refuse("cannot read ");
    std::fs::write(dir.join("rules"), "{}").unwrap();
    refuse("rules: `file`: no MessagePack map; allowed: a file that `nlp.tokenizer.to_disk(FILE)` of spaCy 3 writes");
    let mut small = RulesFile::small();
    std::fs::write(dir.join("rules"), &small.bytes()[..200]).unwrap();
    refuse("the file ends within it; allowed: a");
    small.infix_finditer = Some("a|(b".to_owned());
    std::fs::write(dir.join("rules"), small.bytes()).unwrap();
    refuse("rules: `infix_finditer`, character 2: a group without its end; allowed: patterns of Python's `re`");
}
