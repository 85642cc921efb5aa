//! The commit log: fences, lost answers, zombies, gold and races.

use bytes::Bytes;
use hopeval_results::log::{CohortCommit, Commit, FinalRecord, Log, LogError, LogState, RecordBody};
use hopeval_results::{Store, layout};
use std::collections::BTreeSet;

fn memory() -> Store {
    Store::open("memory:").unwrap()
}

fn open(store: &Store) -> Log {
    Log::open(store, "run").unwrap()
}

fn commit(cohorts: &[u64], part: &str) -> RecordBody {
    RecordBody::Commit(Commit {
        cohorts: cohorts.iter().map(|&cohort| CohortCommit { cohort, outcomes: 10 }).collect(),
        parts: vec![part.to_owned()],
        segments: vec![format!("segment of {part}")],
        live: serde_json::json!({"em": 0.1 + 0.2}),
        checks: Default::default(),
    })
}

#[test]
fn records_are_numbered_and_read_back() {
    let store = memory();
    let mut log = open(&store);
    assert_eq!(log.state().records, 0);
    assert_eq!(log.append_fence("a", 1, 2, "digest").unwrap(), 1);
    assert_eq!(log.append(1, "a", commit(&[0, 1], "p")).unwrap(), 1);
    assert_eq!(log.append(1, "a", commit(&[3], "q")).unwrap(), 2);
    assert_eq!(log.append(1, "a", RecordBody::Final(FinalRecord::default())).unwrap(), 3);
    let read = open(&store);
    assert_eq!(read.state(), log.state());
    assert_eq!(read.state().committed.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>(), [(0, 0), (1, 0), (3, 1)]);
    assert_eq!(read.state().total_outcomes(), 30);
    assert!(read.state().finished.is_some());
    assert_eq!(
        read.state().committed_segments(),
        BTreeSet::from(["segment of p".to_owned(), "segment of q".to_owned()])
    );
}

#[test]
fn a_zombie_learns_that_it_was_superseded() {
    let store = memory();
    let mut old = open(&store);
    old.append_fence("old", 1, 1, "d").unwrap();
    old.append(1, "old", commit(&[0], "p")).unwrap();
    let mut new = open(&store);
    assert_eq!(new.append_fence("new", 1, 1, "d").unwrap(), 2);
    new.append(2, "new", commit(&[1], "q")).unwrap();
    let error = old.append(1, "old", commit(&[2], "r")).unwrap_err();
    assert!(matches!(error, LogError::Superseded { generation: 1, by: 2 }), "{error}");
    let error = old.append(1, "old", commit(&[2], "r")).unwrap_err();
    assert!(matches!(error, LogError::Superseded { .. }), "and stays so: {error}");
    let committed: Vec<u64> = open(&store).state().committed.keys().copied().collect();
    assert_eq!(committed, [0, 1]);
}

/// A writer unaware of the fence cannot pass it. A record put against the rules must not count, either.
#[test]
fn records_of_lower_generations_are_void_after_a_fence() {
    let store = memory();
    let mut log = open(&store);
    log.append_fence("old", 1, 1, "d").unwrap();
    log.append(1, "old", commit(&[0], "p")).unwrap();
    log.append_fence("new", 1, 1, "d").unwrap();
    let mut unaware = log.clone();
    let late = |seq: u64, body: RecordBody| {
        let record = serde_json::json!({"version": 1, "seq": seq, "generation": 1, "committer": "old", "at_ms": 0,
            "body": serde_json::to_value(body).unwrap()});
        store.put(&layout::log_record("run", seq), Bytes::from(record.to_string())).unwrap();
    };
    late(3, commit(&[0, 5], "late"));
    late(4, RecordBody::Final(FinalRecord::default()));
    let state = log.refresh().unwrap();
    assert_eq!(state.committed.keys().copied().collect::<Vec<_>>(), [0]);
    assert_eq!((state.void, state.records, state.commits.len()), (2, 5, 1));
    assert!(state.finished.is_none());
    assert_eq!(unaware.append(2, "new", commit(&[5], "q")).unwrap(), 5, "a void record in the way is passed over");
}

#[test]
fn a_lost_answer_is_recognised() {
    let store = memory();
    let mut log = open(&store);
    log.append_fence("a", 1, 1, "d").unwrap();
    let mut unaware = log.clone();
    assert_eq!(log.append(1, "a", commit(&[0], "p")).unwrap(), 1);
    assert_eq!(unaware.append(1, "a", commit(&[0], "p")).unwrap(), 1, "the record there is its own");
    assert_eq!(open(&store).state().records, 2);
    let mut unaware = open(&store);
    let first = log.append_fence("b", 1, 1, "d").unwrap();
    assert_eq!((first, unaware.append_fence("c", 1, 1, "d").unwrap()), (2, 3), "another's fence is not");
}

#[test]
fn two_committers_in_one_generation_are_a_conflict() {
    let store = memory();
    let mut log = open(&store);
    log.append_fence("a", 1, 1, "d").unwrap();
    let mut other = log.clone();
    log.append(1, "a", commit(&[0], "p")).unwrap();
    let error = other.append(1, "b", commit(&[1], "q")).unwrap_err();
    assert!(matches!(&error, LogError::Conflict { seq: 1, committer, .. } if committer == "a"), "{error}");
}

#[test]
fn gold_is_anyones_and_passed_over() {
    let store = memory();
    let mut log = open(&store);
    log.append_fence("a", 1, 1, "d").unwrap();
    let mut user = open(&store);
    log.append(1, "a", commit(&[0], "p")).unwrap();
    assert_eq!(user.append_gold("user", 1, "gold/1", None).unwrap(), 2, "a commit in the way is passed over");
    assert_eq!(user.append_gold("user", 2, "gold/2", None).unwrap(), 3);
    assert_eq!(log.append(1, "a", commit(&[1], "q")).unwrap(), 4, "so is gold");
    let golds: Vec<(u64, u64)> = log.state().golds.iter().map(|gold| (gold.edit, gold.seq)).collect();
    assert_eq!(golds, [(1, 2), (2, 3)], "and it is remembered");
    log.append_fence("b", 1, 1, "d").unwrap();
    assert_eq!(log.state().golds.len(), 2, "a fence voids no gold");
    // The writer of the third took its number before the fourth, and recorded it later.
    user.append_gold("user", 4, "gold/4", None).unwrap();
    user.append_gold("user", 3, "gold/3", None).unwrap();
    assert_eq!((open(&store).state().last_gold_edit(), LogState::default().last_gold_edit()), (3, 0));
}

#[test]
fn the_first_valid_commit_of_a_cohort_counts() {
    let store = memory();
    let mut log = open(&store);
    log.append_fence("a", 1, 1, "d").unwrap();
    log.append(1, "a", commit(&[0, 1], "p")).unwrap();
    log.append(1, "a", commit(&[1, 2], "q")).unwrap();
    let state = open(&store).state().clone();
    assert_eq!(state.committed.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>(), [(0, 0), (1, 0), (2, 1)]);
    assert_eq!(state.total_outcomes(), 30);
}

#[test]
fn refresh_reads_what_others_appended() {
    let store = memory();
    let mut log = open(&store);
    let mut reader = open(&store);
    log.append_fence("a", 1, 1, "d").unwrap();
    for cohort in 0..150 {
        log.append(1, "a", commit(&[cohort], "p")).unwrap();
    }
    assert_eq!(reader.refresh().unwrap().committed.len(), 150);
    assert_eq!(reader.state(), log.state());
}

#[test]
fn eight_appenders_race_and_each_number_has_one_winner() {
    let store = memory();
    let mut log = open(&store);
    log.append_fence("a", 1, 1, "d").unwrap();
    let mut numbers: Vec<u64> = std::thread::scope(|scope| {
        let appenders: Vec<_> = (0..8)
            .map(|i| {
                let mut log = log.clone();
                scope.spawn(move || -> Vec<u64> {
                    (0..25).map(|n| log.append_gold(&format!("user {i}"), n, "gold", None).unwrap()).collect()
                })
            })
            .collect();
        appenders.into_iter().flat_map(|appender| appender.join().unwrap()).collect()
    });
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
    let racing: BTreeSet<u64> = std::thread::scope(|scope| {
        let fences: Vec<_> = (0..8)
            .map(|i| {
                let mut log = open(&store);
                scope.spawn(move || log.append_fence(&format!("mesh {i}"), 1, 1, "d").unwrap())
            })
            .collect();
        fences.into_iter().map(|fence| fence.join().unwrap()).collect()
    });
    assert_eq!(racing, (2..=9).collect(), "each fence has its own generation");
    assert_eq!(log.refresh().unwrap().golds.len(), 200);
}

#[test]
fn broken_logs_are_named() {
    let store = memory();
    let mut log = open(&store);
    log.append_fence("a", 1, 1, "d").unwrap();
    let name = layout::log_record("run", 1);
    let refresh = |bytes: &'static str| {
        store.put(&name, Bytes::from_static(bytes.as_bytes())).unwrap();
        let error = Log::open(&store, "run").unwrap_err();
        assert!(error.to_string().contains(&name), "{error}");
        error
    };
    assert!(matches!(refresh("{"), LogError::Malformed { .. }));
    assert!(matches!(refresh("{\"version\": 2, \"what\": 1}"), LogError::Version { found: 2, supported: 1, .. }));
    let gold =
        r#"{"version":1,"seq":9,"generation":1,"committer":"a","at_ms":0,"body":{"kind":"gold","edit":1,"path":"p"}}"#;
    assert!(matches!(refresh(gold), LogError::Misplaced { found: 9, .. }));
    store.delete(&name).unwrap();
    store.put(&layout::log_record("run", 2), Bytes::from_static(b"{}")).unwrap();
    assert!(matches!(Log::open(&store, "run").unwrap_err(), LogError::Gap { .. }));
}
