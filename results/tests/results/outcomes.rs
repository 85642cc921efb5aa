//! Committed outcomes in final order, against a naive sort.

use hopeval_results::log::{CohortCommit, Commit, Log, RecordBody};
use hopeval_results::tables::outcomes::{in_final_order, of_question, write_part};
use hopeval_results::tables::{OutcomeRow, TableError, TableReader};
use hopeval_results::{Store, layout};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use proptest::collection::vec;
use proptest::prelude::*;

fn row(configuration: u32, index: u64, answer: &str) -> OutcomeRow {
    OutcomeRow {
        configuration,
        index,
        question: format!("q{index}"),
        status: "ok".to_owned(),
        answer: Some(answer.to_owned()),
        ranked: vec![index as u32; 3],
        scores: vec![0.5; 3],
        ..OutcomeRow::default()
    }
}

/// The rows of a cohort, as computed by a generation. The last cohort of a dataset is short.
fn cohort_rows(cohort: u64, size: u64, questions: u64, configurations: u32, answer: &str) -> Vec<OutcomeRow> {
    let end = ((cohort + 1) * size).min(questions);
    (cohort * size..end)
        .flat_map(|index| (0..configurations).map(move |c| (c, index)))
        .map(|(c, i)| row(c, i, answer))
        .collect()
}

fn cohort_commits(cohorts: &[u64], size: u64, questions: u64, configurations: u32) -> Vec<CohortCommit> {
    let count = |cohort: u64| ((cohort + 1) * size).min(questions) - cohort * size;
    cohorts.iter().map(|&cohort| CohortCommit { cohort, outcomes: count(cohort) * u64::from(configurations) }).collect()
}

fn read(store: &Store, log: &Log, configurations: u32, size: u64) -> Result<Vec<OutcomeRow>, TableError> {
    in_final_order(store, "run", log.state(), configurations as usize, size).collect()
}

#[test]
fn of_a_part_only_long_texts_are_compressed() {
    let store = Store::open("memory:").unwrap();
    write_part(&store, "part", vec![row(0, 0, "x")]).unwrap();
    let part = ParquetRecordBatchReaderBuilder::try_new(store.get("part").unwrap()).unwrap();
    let columns = part.metadata().row_group(0).columns();
    let compressed = columns.iter().filter(|column| column.compression() != Compression::UNCOMPRESSED);
    let paths: Vec<String> = compressed.map(|column| column.column_path().string()).collect();
    assert_eq!(paths, ["message", "answer", "trace.notes.list.item.text"]);
}

#[test]
fn a_large_configuration_is_read_in_windows() {
    let (store, size, questions) = (Store::open("memory:").unwrap(), 4_000, 70_000);
    let mut log = Log::open(&store, "run").unwrap();
    log.append_fence("a", 1, 1, "d").unwrap();
    let cohorts: Vec<u64> = (0..questions / size + 1).collect();
    for (n, cohorts) in cohorts.chunks(5).rev().enumerate() {
        let part = layout::outcome_part("run", 1, 0, n as u64);
        let rows = cohorts.iter().flat_map(|&cohort| cohort_rows(cohort, size, questions, 2, "x")).collect();
        write_part(&store, &part, rows).unwrap();
        let commit =
            Commit { cohorts: cohort_commits(cohorts, size, questions, 2), parts: vec![part], ..Commit::default() };
        log.append(1, "a", RecordBody::Commit(commit)).unwrap();
    }
    let read =
        in_final_order(&store, "run", log.state(), 2, size).map(|row| row.map(|row| (row.configuration, row.index)));
    let expected = (0..2).flat_map(|c| (0..questions).map(move |i| (c, i)));
    assert!(read.map(Result::unwrap).eq(expected));
}

#[test]
fn configurations_are_found_by_row_group() {
    let store = Store::open("memory:").unwrap();
    let part = layout::outcome_part("run", 1, 0, 0);
    write_part(&store, &part, cohort_rows(0, 300, 300, 4, "x")).unwrap();
    let reader = TableReader::<OutcomeRow>::open(&store, &part).unwrap();
    assert_eq!(reader.row_groups(), 4);
    assert_eq!(reader.groups_where("configuration", 2, 2), [2]);
    let many = layout::outcome_part("run", 1, 0, 1);
    write_part(&store, &many, cohort_rows(0, 4, 4, 200, "x")).unwrap();
    let reader = TableReader::<OutcomeRow>::open(&store, &many).unwrap();
    assert_eq!(reader.row_groups(), 4, "small configurations share row groups");
    assert_eq!(reader.groups_where("configuration", 70, 130), [1, 2]);
}

#[test]
fn a_missing_or_doubled_outcome_is_an_error() {
    let stray = row(1, 1, "of a configuration that nobody asks for");
    for (rows, expected) in [
        (vec![row(0, 0, "x")], Err(1)),
        (vec![row(0, 0, "x"), row(0, 0, "x")], Err(3)),
        (vec![row(0, 0, "x"), row(0, 1, "x"), stray], Ok(2)),
    ] {
        let store = Store::open("memory:").unwrap();
        let mut log = Log::open(&store, "run").unwrap();
        log.append_fence("a", 1, 1, "d").unwrap();
        let part = layout::outcome_part("run", 1, 0, 0);
        write_part(&store, &part, rows).unwrap();
        let commit = Commit { cohorts: cohort_commits(&[0], 2, 2, 1), parts: vec![part], ..Commit::default() };
        log.append(1, "a", RecordBody::Commit(commit)).unwrap();
        let outcome = match read(&store, &log, 1, 2) {
            Ok(rows) => Ok(rows.len()),
            Err(TableError::Incomplete { cohort: 0, expected: 2, found, .. }) => Err(found),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(outcome, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random generations, commits of random cohorts (some committed before), rows of other cohorts in the parts, and
    /// parts outside all commits.
    #[test]
    fn final_order_is_a_sort_of_what_was_committed(
        commits in vec((vec(0u64..8, 1..4), vec(0u64..8, 0..3), any::<bool>(), 1usize..3), 1..8),
        configurations in 1u32..4,
        size in 1u64..5,
    ) {
        let store = Store::open("memory:").unwrap();
        let questions = 8 * size - size / 2;
        let mut log = Log::open(&store, "run").unwrap();
        let mut generation = log.append_fence("a", 1, 1, "d").unwrap();
        let mut expected: Vec<OutcomeRow> = Vec::new();
        let mut done = [false; 8];
        for (n, (mut cohorts, strays, new_generation, workers)) in commits.into_iter().enumerate() {
            cohorts.sort_unstable();
            cohorts.dedup();
            if new_generation {
                generation = log.append_fence("a", 1, 1, "d").unwrap();
            }
            let answer = format!("commit {n}");
            let mut parts = vec![Vec::new(); workers];
            for &cohort in &cohorts {
                let rows = cohort_rows(cohort, size, questions, configurations, &answer);
                if !std::mem::replace(&mut done[cohort as usize], true) {
                    expected.extend(rows.iter().cloned());
                }
                for row in rows {
                    parts[row.index as usize % workers].push(row);
                }
            }
            for &cohort in strays.iter().filter(|cohort| !cohorts.contains(cohort)) {
                parts[0].extend(cohort_rows(cohort, size, questions, configurations, "stray"));
            }
            let mut names = Vec::new();
            for (worker, rows) in parts.into_iter().enumerate() {
                let name = layout::outcome_part("run", generation, worker as u32, n as u64);
                write_part(&store, &name, rows).unwrap();
                names.push(name);
            }
            let cohorts = cohort_commits(&cohorts, size, questions, configurations);
            let body = RecordBody::Commit(Commit { cohorts, parts: names, ..Commit::default() });
            log.append(generation, "a", body).unwrap();
        }
        write_part(&store, &layout::outcome_part("run", 99, 0, 0), cohort_rows(0, size, questions, 1, "lost")).unwrap();
        expected.sort_by_key(|row| (row.configuration, row.index));
        let found = read(&store, &log, configurations, size).unwrap();
        prop_assert_eq!(&found, &expected);
        for index in [0, questions / 2, questions - 1, questions + 9] {
            let one: Vec<OutcomeRow> = expected.iter().filter(|row| row.index == index).cloned().collect();
            prop_assert_eq!(of_question(&store, log.state(), size, index).unwrap(), one);
        }
    }
}
