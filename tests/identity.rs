//! The final tables are the same, byte for byte, for any number of workers and processes, and for any queues, batches
//! and cohorts. A second run of a job computes nothing.

use crate::harness::{
    METHODS_WITHOUT_MODELS, WORLD_JOB, document, every_method, file_job, final_tables, hopeval, run_of, shared,
};
use std::collections::BTreeSet;
use std::path::Path;

/// One worker, two, four, and three processes of two workers each.
const SPREADS: [&[&str]; 4] =
    [&["--workers", "1"], &["--workers", "2"], &["--workers", "4"], &["--workers", "2", "--processes", "3"]];

/// Queues and cohorts far from the defaults, each with another number of workers.
const SETTINGS: [&[&str]; 3] = [
    &["--workers", "2", "--set", "run.in_flight=1", "--set", "run.batch=1", "--set", "run.chunk=1"],
    &["--workers", "1", "--set", "run.in_flight=4096", "--set", "run.batch=1000", "--set", "run.chunk=100000"],
    &["--workers", "3", "--set", "run.in_flight=7", "--set", "run.batch=3", "--set", "run.chunk=13"],
];

/// Runs `job` in a store of its own for each of `spreads` and compares all tables with the first one's; then runs it
/// again in the first store.
fn is_identical(dir: &Path, job: &Path, spreads: &[&[&str]], questions: u64) {
    let job = job.to_str().unwrap();
    let run = |store: &str, spread: &[&str]| {
        // Corpora and indexes are the same files for all; journals and runs are not.
        let places = ["run", job, "--json", "--cache", "cache", "--store", store];
        let found = document(&mut hopeval(dir, &[&places, spread].concat()));
        assert_eq!(found["questions"], questions);
        let tables = final_tables(&dir.join(store), run_of(&found));
        (found, tables)
    };
    let (first, expected) = run("store-0", spreads[0]);
    for (n, spread) in spreads.iter().enumerate().skip(1) {
        let (found, tables) = run(&format!("store-{n}"), spread);
        assert_eq!(found["measures"], first["measures"], "{spread:?}");
        for (name, (table, expected)) in ["outcomes", "scores", "measures"].iter().zip(tables.iter().zip(&expected)) {
            assert!(table == expected, "{name} differ with {spread:?}");
        }
    }
    assert!(incurred(&first).iter().any(|&(_, computed)| computed > 0), "the first run computes something");
    let (again, tables) = run("store-0", spreads[spreads.len() - 1]);
    assert_ne!(run_of(&again), run_of(&first));
    for (service, computed) in incurred(&again) {
        assert_eq!(computed, 0, "a second run asks {service} nothing");
    }
    assert!(tables == expected, "a second run's tables are the first one's");
}

/// The usage of each service by a run: its computed requests.
fn incurred(document: &serde_json::Value) -> Vec<(String, u64)> {
    let costs = document["cost"].as_array().unwrap();
    let incurred: Vec<_> = costs
        .iter()
        .filter(|row| row["configuration"].is_null())
        .map(|row| (row["service"].as_str().unwrap().to_owned(), row["computed"].as_u64().unwrap()))
        .collect();
    assert!(!incurred.is_empty());
    incurred
}

/// A dataset of the folder beside the repository, under every method that needs no model.
fn real(name: &str, questions: &str, rest: &str, spreads: &[&[&str]], number: u64) {
    real_under(METHODS_WITHOUT_MODELS, name, questions, rest, spreads, number);
}

fn real_under(methods: &str, name: &str, questions: &str, rest: &str, spreads: &[&[&str]], number: u64) {
    let Some(shared) = shared(&format!("identity of {name}")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let data = shared.join("data").join(name);
    let rest = format!("{methods}{rest}");
    let corpus = data.join("corpus.jsonl.gz");
    let job = file_job(dir.path(), name, name, &data.join(questions), &corpus, &rest);
    is_identical(dir.path(), &job, spreads, number);
}

#[test]
fn hotpotqa_is_the_same_however_it_is_spread() {
    real("hotpotqa", "dev_1267.json.gz", "", &SPREADS, 1267);
}

#[test]
fn two_wiki_is_the_same_however_it_is_spread() {
    real("2wikimultihopqa", "train_500.json.gz", "", &SPREADS, 500);
}

#[test]
fn musique_is_the_same_however_it_is_spread() {
    real("musique", "train_299.jsonl.gz", "", &SPREADS[1..], 299);
}

/// Its questions have no candidates, so that all outcomes of `given` fail: those are the same too.
#[test]
fn strategyqa_is_the_same_however_it_is_spread() {
    real("strategyqa", "dev.json.gz", "[run]\nallowed_failed = 1.0\n", &SPREADS[1..], 229);
}

#[test]
fn a_world_is_the_same_however_it_is_spread_and_queued() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("job.toml");
    std::fs::write(&job, WORLD_JOB).unwrap();
    is_identical(dir.path(), &job, &[&SPREADS[..], &SETTINGS[..]].concat(), 300);
}

/// Few questions: one costs every method what hundreds cost the methods without models.
#[test]
fn two_wiki_under_every_method_is_the_same_however_it_is_spread() {
    let spreads = [&["--limit", "20", "--workers", "2"][..], &["--limit", "20", "--workers", "2", "--processes", "3"]];
    let rest = "[run]\nchunk = 4\nallowed_failed = 1.0\n";
    real_under(&every_method(), "2wikimultihopqa", "train_500.json.gz", rest, &spreads, 20);
}

#[test]
fn every_method_is_the_same_however_it_is_spread_and_queued() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("job.toml");
    let world = "name = \"every-method\"\n[dataset.world]\nquestions = 24\npassages = 400\nseed = 7\n";
    let text = [world, &every_method(), "[run]\nchunk = 4\nallowed_failed = 1.0\n"].concat();
    std::fs::write(&job, text).unwrap();
    is_identical(dir.path(), &job, &[&SPREADS[..], &SETTINGS[..]].concat(), 24);
}

/// The job must have every kind of method: these tests show nothing about a missing kind.
#[test]
fn every_method_has_every_kind_of_this_build() {
    let job: toml::Table = toml::from_str(&every_method()).unwrap();
    let kinds = |table: &str| -> BTreeSet<String> {
        job[table].as_table().unwrap().values().map(|one| one["kind"].as_str().unwrap().to_owned()).collect()
    };
    let methods: BTreeSet<String> = hopeval_methods::method_kinds().iter().map(|info| info.kind.to_owned()).collect();
    assert_eq!(kinds("method"), methods);

    // Files of vectors fit one corpus: `dense_vectors.rs` spreads and kills runs over them.
    let services = hopeval_jobs::services::KINDS.iter().filter(|kind| **kind != "dense_vectors");
    let services = services.map(|kind| (*kind).to_owned());
    assert_eq!(kinds("service"), services.collect::<BTreeSet<_>>());
}
