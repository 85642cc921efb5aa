//! Kills and stops processes of a run at random moments: nothing is lost, nothing is duplicated, and the tables equal
//! those of an undisturbed run.
//!
//! `HOPEVAL_KILL_SEED=N` repeats a choice of victims and moments.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stderr, reason = "the report of a run that fails")]

use crate::faults::{Fault, FaultSequence, FaultTally, Random};
use crate::harness::{final_tables, hopeval, succeed};
use std::time::{Duration, Instant};

/// Small cohorts and few questions in flight: a run has many commits and takes a while.
const JOB: &str = r#"
name = "faults"
[dataset.world]
questions = 1200
passages = 2000
seed = 11
[service.bm25]
kind = "bm25"
[service.tfidf]
kind = "tfidf"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.bm25.sweep]
k = [5, 20]
[method.tfidf_bm25]
kind = "tfidf_bm25"
retriever = "tfidf"
reranker = "bm25"
[method.hops]
kind = "iterative_title"
retriever = "bm25"
[method.random]
kind = "random"
[run]
chunk = 4
in_flight = 2
"#;

/// Questions and configurations of [`JOB`].
const SHAPE: (u64, u64) = (1200, 5);

#[test]
fn a_run_survives_kills_and_stops() {
    let mut random = Random::from_environment();
    let mut faults: Vec<Fault> = (0..20).map(|_| Fault::kill(&mut random, 3)).collect();
    faults.extend([1, 2].map(|processes| Fault::kill(&mut random, processes)));
    faults.extend([0, 1, 2].map(|victim| Fault::stop(&mut random, victim)));
    random.shuffle(&mut faults);
    faults.extend([2, 3, 3].map(|processes| Fault::kill_at_the_end(&mut random, processes)));
    let tally = inject(faults, random);
    assert!(tally.killed[2] >= 20 && tally.stopped == 3 && tally.killed[..2].iter().sum::<u64>() >= 2, "{tally:?}");
}

#[test]
fn a_stop_while_tables_are_written_is_noticed() {
    let random = Random::from_environment();
    let tally = inject([2, 3].map(Fault::stop_at_the_tables).to_vec(), random);
    assert_eq!(tally.stopped, 2, "{tally:?}");
}

/// Injects faults into runs of [`JOB`], and compares with an undisturbed run.
fn inject(faults: Vec<Fault>, random: Random) -> FaultTally {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("job.toml");
    std::fs::write(&job, JOB).unwrap();

    let undisturbed = ["run", "job.toml", "--json", "--workers", "2", "--store", "undisturbed", "--cache", "cache"];
    let start = Instant::now();
    let out = succeed(&mut hopeval(dir.path(), &undisturbed));
    eprintln!("undisturbed: {:?}", start.elapsed());
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    let reference = final_tables(&dir.path().join("undisturbed"), document["run"].as_str().unwrap());

    let stores = dir.path().join("stores").display().to_string();
    let look = Duration::from_millis(2);
    let mut sequence = FaultSequence { dir: dir.path().into(), job, stores, look, shape: SHAPE, reference, random };
    let start = Instant::now();
    let tally = sequence.inject(faults);
    eprintln!("with faults: {:?}, {tally:?}", start.elapsed());
    tally
}
