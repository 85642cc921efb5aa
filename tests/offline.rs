//! A finished run is read from its own folder: without its corpus, its source files, a cache or a home.

use crate::harness::{document, hopeval, run, run_of, succeed};
use crate::tiny;
use std::path::Path;

/// Every command that reads a finished run. The measures of the job read texts and titles.
const READERS: [&[&str]; 13] = [
    &["show"],
    &["show", "--json"],
    &["show", "--against", "bm25"],
    &["show", "--against", "bm25", "--json", "--stratum", "type=bridge"],
    &["costs"],
    &["costs", "--json"],
    &["rescore", "--json"],
    &["export", "latest", "--format", "trec", "--configuration", "bm25"],
    &["export", "latest", "--format", "qrels"],
    &["export", "latest", "--format", "csv", "--configuration", "bm25"],
    &["export", "latest", "--format", "hotpotqa", "--configuration", "oracle"],
    &["export", "latest", "--format", "2wikimultihopqa", "--configuration", "oracle"],
    &["export", "latest", "--format", "musique", "--configuration", "oracle"],
];

/// A finished run of the tiny job, in the folder `home` below the returned one, and its id.
fn finished_run() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    tiny::write(&home);
    let job = std::fs::read_to_string(home.join("job.toml")).unwrap();
    std::fs::write(home.join("job.toml"), format!("{job}answer_hit_at = [1, 5]\n")).unwrap();
    let document = document(&mut hopeval(&home, &["run", "job.toml", "--json"]));
    let id = run_of(&document).to_owned();
    (dir, id)
}

/// Puts a folder with nothing but the run's own in the place of `home`.
fn move_away(dir: &Path, id: &str) {
    let (home, old) = (dir.join("home"), dir.join("old"));
    std::fs::rename(&home, &old).unwrap();
    copy(&old.join("hopeval-store/runs").join(id), &home.join("hopeval-store/runs").join(id));
    std::fs::remove_dir_all(&old).unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}

fn read(dir: &Path, arguments: &[&str]) -> String {
    let mut command = hopeval(&dir.join("home"), arguments);
    succeed(command.env("HOME", dir.join("nowhere")).env_remove("XDG_CACHE_HOME"))
}

/// Standard error of a command that is refused.
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = run(&mut hopeval(&dir.join("home"), arguments));
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_finished_run_is_read_from_its_own_folder() {
    let (dir, id) = finished_run();
    let dir = dir.path();
    let tables = ["outcomes", "scores", "measures", "passages"];
    let bytes =
        |table: &str| std::fs::read(dir.join(format!("home/hopeval-store/runs/{id}/final/{table}.parquet"))).unwrap();
    let expected: Vec<String> = READERS.iter().map(|arguments| read(dir, arguments)).collect();
    let written = tables.map(bytes);
    assert!(expected[9].contains("answer_hit@5"), "a measure reads texts: {}", expected[9]);

    move_away(dir, &id);
    for (arguments, expected) in READERS.iter().zip(&expected) {
        assert_eq!(&read(dir, arguments), expected, "{arguments:?}");
    }
    assert_eq!(read(dir, &["rescore", "--json", "--write"]), expected[6]);
    assert_eq!(tables.map(bytes), written, "the tables are written again from the run alone");
    assert_eq!(read(dir, &["show"]), expected[0]);
    assert!(!dir.join("home/hopeval-store/cache").exists(), "nothing is built");

    // A transcript needs the corpus, and says first from what it is built.
    let message = refused(dir, &["show", "--question", "q1"]);
    let note = message.find("a transcript drives its question again").unwrap_or_else(|| panic!("{message}"));
    assert!(message[..message.find("error").unwrap()].contains("corpus.jsonl"), "{message}");
    assert!(note < message.find("error").unwrap(), "{message}");
}

#[test]
fn a_run_of_before_says_that_it_needs_its_corpus() {
    let (dir, id) = finished_run();
    let dir = dir.path();
    let expected: Vec<String> = READERS.iter().map(|arguments| read(dir, arguments)).collect();
    // As an earlier version finished it: the log's last record names no table of passages.
    let log = dir.join("home/hopeval-store/runs").join(&id).join("log");
    let mut records: Vec<_> = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path()).collect();
    records.sort();
    let last = records.last().unwrap();
    let text = std::fs::read_to_string(last).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let named = find_tables(&mut record).unwrap();
    let before = named.len();
    named.retain(|table| table["table"] != "passages");
    assert_eq!(named.len() + 1, before);
    std::fs::write(last, serde_json::to_vec_pretty(&record).unwrap()).unwrap();
    for (arguments, expected) in READERS.iter().zip(&expected) {
        assert_eq!(&read(dir, arguments), expected, "the corpus is there: {arguments:?}");
    }

    move_away(dir, &id);
    for (arguments, expected) in READERS.iter().zip(&expected) {
        if ["show", "costs"].contains(&arguments[0]) {
            assert_eq!(&read(dir, arguments), expected, "{arguments:?}");
            continue;
        }
        let message = refused(dir, arguments);
        let parts = ["has no table `passages`", "corpus.jsonl", "hint: `hopeval rescore"];
        assert!(parts.iter().all(|part| message.contains(part)), "{arguments:?}: {message}");
    }
}

/// The list `tables`, wherever a record has it.
fn find_tables(record: &mut serde_json::Value) -> Option<&mut Vec<serde_json::Value>> {
    match record {
        serde_json::Value::Object(fields) => {
            if fields.get("tables").is_some_and(serde_json::Value::is_array) {
                return fields.get_mut("tables")?.as_array_mut();
            }
            fields.values_mut().find_map(find_tables)
        }
        _ => None,
    }
}
