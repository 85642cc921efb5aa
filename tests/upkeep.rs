//! `rm` and `gc`: what they remove is free, and no other run needs it.

#![cfg(unix)]

use crate::harness::{self, document, final_tables, hopeval, kill_after_records, run, run_of, succeed};
use crate::tiny;
use hopeval_results::{Log, Store, layout};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

fn tiny_run(dir: &Path, more: &[&str]) -> String {
    run_of(&document(&mut hopeval(dir, &[&["run", "job.toml", "--json"], more].concat()))).to_owned()
}

/// Every file below `folder`, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

/// What a command writes to standard error when it is refused.
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = run(&mut hopeval(dir, arguments));
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn gc(dir: &Path, more: &[&str]) -> Value {
    document(&mut hopeval(dir, &[&["gc", "--json"], more].concat()))
}

fn names(document: &Value, place: &str) -> BTreeSet<String> {
    let items = document["items"].as_array().unwrap().iter().filter(|item| item["place"] == place);
    items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

/// Makes a file or folder as old as it would be after `days`.
fn age(path: &Path, days: u64) {
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().flatten().for_each(|entry| age(&entry.path(), days));
    }
    let time = SystemTime::now() - Duration::from_secs(days * 86_400);
    std::fs::File::open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_removed_run_is_gone_and_no_other_misses_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    tiny::write(dir);
    let store = dir.join("hopeval-store");
    let first = tiny_run(dir, &[]);
    // Answered by the first run's segments, and of its own only for another `k`.
    let second = tiny_run(dir, &["--set", "method.other.kind=one_step", "--set", "method.other.retriever=sparse"]);
    let (journal, tables) = (files(&store.join("journal")), final_tables(&store, &second));
    let shown = || succeed(&mut hopeval(dir, &["show", &second, "--question", "q1"]));
    let transcript = shown();

    let before = files(&store.join("runs").join(&first));
    let said = succeed(&mut hopeval(dir, &["rm", &first]));
    assert!(said.contains("nothing is without --yes") && said.contains("| finished "), "{said}");
    assert_eq!(files(&store.join("runs").join(&first)), before, "a dry run removes nothing");

    std::fs::write(store.join("runs").join(&first).join("live.json#7"), "a dead writer's").unwrap();
    let removed = document(&mut hopeval(dir, &["rm", &first[..first.len() - 1], &first, "--yes", "--json"]));
    assert_eq!((&removed["removed"], removed["runs"].as_array().unwrap().len()), (&Value::Bool(true), 1));
    assert!(!store.join("runs").join(&first).exists(), "nothing of it is left");
    assert_eq!(files(&store.join("journal")), journal, "the journal is shared, and stays");
    assert!(final_tables(&store, &second) == tables && shown() == transcript);
    assert!(refused(dir, &["rm", &first]).contains("there is no run"));
    assert!(refused(dir, &["show", &first]).contains("there is no run"));
    succeed(&mut hopeval(dir, &["store", "verify"]));
    // What it computed is answered by the journal still.
    let again = document(&mut hopeval(dir, &["run", "job.toml", "--json"]));
    let cost = again["cost"].as_array().unwrap().iter().find(|row| row["configuration"].is_null()).unwrap();
    assert_eq!(cost["computed"], 0);
}

#[test]
fn a_run_under_way_is_removed_only_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let job = harness::world_job(dir);
    let arguments = ["run", job.to_str().unwrap(), "--store", "store", "--workers", "1"];
    kill_after_records(&mut hopeval(dir, &arguments), &dir.join("store"), 3);
    let said = refused(dir, &["rm", "latest", "--yes", "--store", "store"]);
    assert!(said.contains("is not finished") && said.contains("--unfinished"), "{said}");
    // Nor is anything of the journal garbage while it may go on.
    let found = gc(dir, &["--store", "store", "--older-than", "0", "--most-bytes", "0", "--yes"]);
    assert_eq!((names(&found, "journal").len(), found["unfinished"].as_array().unwrap().len()), (0, 1));
    succeed(&mut hopeval(dir, &["rm", "latest", "--yes", "--unfinished", "--store", "store"]));
    assert_eq!(files(&dir.join("store/runs")), Vec::<PathBuf>::new());

    // Nor is it of one that is being made.
    std::fs::create_dir_all(dir.join("store/runs/20260101T000000000-abcdefab")).unwrap();
    std::fs::write(dir.join("store/runs/20260101T000000000-abcdefab/making.json"), "{}").unwrap();
    let said = refused(dir, &["rm", "2026", "--store", "store"]);
    assert!(said.contains("is not made"), "{said}");
    succeed(&mut hopeval(dir, &["rm", "2026", "--yes", "--unfinished", "--store", "store"]));
    assert!(!dir.join("store/runs/20260101T000000000-abcdefab").exists());
}

#[test]
fn only_what_no_run_needs_is_garbage() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    tiny::write(dir);
    let (store, cache) = (dir.join("hopeval-store"), dir.join("hopeval-store/cache"));
    let first = tiny_run(dir, &[]);
    // Another corpus, and so another index, and other answers.
    let fewer: Vec<Value> = tiny::passages()[..15].to_vec();
    std::fs::write(dir.join("fewer.jsonl"), tiny::lines(&fewer)).unwrap();
    let other = ["--set", "corpus.source=fewer.jsonl", "--limit", "5"];
    let second = tiny_run(dir, &other);
    let all = ["--older-than", "0", "--most-bytes", "0"];
    let found = gc(dir, &all);
    assert_eq!(found["items"], Value::Array(Vec::new()), "both runs need theirs: {found}");
    for place in ["journal", "cache"] {
        assert!(found[place]["bytes"].as_u64().unwrap() > 0 && found[place]["unneeded_bytes"] == 0, "{found}");
    }

    let segments = |run: &str| {
        let opened = Store::open(store.to_str().unwrap()).unwrap();
        Log::open(&opened, run).unwrap().state().committed_segments()
    };
    let (needed, freed) = (segments(&first), segments(&second));
    assert!(needed.is_disjoint(&freed) && !freed.is_empty());
    let transcript = || succeed(&mut hopeval(dir, &["show", &first, "--question", "q1"]));
    let (tables, shown) = (final_tables(&store, &first), transcript());
    succeed(&mut hopeval(dir, &["rm", &second, "--yes"]));

    // It is young, and there is room.
    assert_eq!(gc(dir, &["--yes"])["items"], Value::Array(Vec::new()));
    let found = gc(dir, &all);
    assert_eq!(names(&found, "journal"), freed);
    let cached = names(&found, "cache");
    assert_eq!(cached.len(), 2, "a corpus and its index: {cached:?}");
    assert!(cached.iter().all(|path| Path::new(path).exists()), "a dry run removes nothing");
    let said = succeed(&mut hopeval(dir, &[&["gc"], &all[..]].concat()));
    assert!(said.contains("nothing is without --yes"), "{said}");

    // By age alone, with what a killed builder left.
    cached.iter().for_each(|path| age(Path::new(path), 31));
    let left = cache.join("corpora/.abc.building-1-0");
    std::fs::create_dir(&left).unwrap();
    assert!(!names(&gc(dir, &all), "cache").contains(left.to_str().unwrap()), "it may be under way");
    age(&left, 31);
    let found = gc(dir, &["--yes"]);
    assert_eq!((names(&found, "journal").len(), names(&found, "cache").len()), (0, 3), "{found}");
    assert!(cached.iter().all(|path| !Path::new(path).exists()) && !left.exists());

    let found = gc(dir, &[&all[..], &["--yes"]].concat());
    assert_eq!((names(&found, "journal"), names(&found, "cache").len()), (freed.clone(), 0));
    let left: BTreeSet<String> = Store::open(store.to_str().unwrap())
        .unwrap()
        .list(layout::JOURNAL)
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(left, needed);
    assert!(final_tables(&store, &first) == tables && transcript() == shown);

    // A run that cannot be read may need anything.
    let record = store.join(layout::run_record(&first));
    std::fs::write(&record, "{").unwrap();
    assert!(refused(dir, &["gc"]).contains("run.json"));
    // The removed answers are computed again.
    succeed(&mut hopeval(dir, &["rm", &first, "--yes", "--unfinished"]));
    tiny_run(dir, &other);
}

#[test]
fn the_rows_of_a_finished_run_are_stored_twice() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    tiny::write(dir);
    let id = tiny_run(dir, &[]);
    let folder = dir.join("hopeval-store/runs").join(&id);
    let inodes = |name: &str| -> BTreeSet<u64> {
        files(&folder.join(name)).iter().map(|path| std::fs::metadata(path).unwrap().ino()).collect()
    };
    // The table of wrong rows is written with the questions, and has no other place.
    let published: BTreeSet<u64> = inodes("final").difference(&inodes("tables")).copied().collect();
    assert_eq!(published, BTreeSet::from([std::fs::metadata(folder.join("final/errors.parquet")).unwrap().ino()]));
    // A copy of the run elsewhere has them as files of their own.
    succeed(std::process::Command::new("cp").args(["-r"]).arg(dir.join("hopeval-store")).arg(dir.join("other")));
    let show = |store: &str| succeed(&mut hopeval(dir, &["show", &id, "--store", store, "--json"]));
    let without = |text: String| {
        let mut document: Value = serde_json::from_str(&text).unwrap();
        document["out"] = Value::Null;
        document
    };
    assert_eq!(without(show("other")), without(show("hopeval-store")));
}
