//! Pins the stored bytes: segments, records of logs, records of runs, and the names of objects.

use crate::golden;
use bytes::Bytes;
use hopeval_results::journal::{JournalEntry, JournalKey, scan_segment, write_segment};
use hopeval_results::log::{CohortCommit, Commit, FinalRecord, FinalTable, Log, RecordBody};
use hopeval_results::run::RUN_VERSION;
use hopeval_results::tables::QuestionRow;
use hopeval_results::{FileRemedy, RunRecord, Store, layout, seal};
use serde_json::json;
use std::collections::BTreeMap;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A stored document without its seal, which golden files do not have.
fn text(store: &Store, name: &str) -> String {
    let document = seal::remove_seal(store, name, &store.get(name).unwrap(), FileRemedy::Restore).unwrap();
    assert!(document.sealed, "{name}");
    String::from_utf8(document.json).unwrap()
}

/// An entry whose key is one byte, repeated.
fn entry(bucket: u16, key: u8, value: &[u8]) -> JournalEntry {
    JournalEntry { bucket, key: JournalKey([key; 32]), bytes: Bytes::copy_from_slice(value) }
}

/// No value here is compressed: the output of zstd may change between its versions.
#[test]
fn segments_are_those_of_the_golden_file() {
    let store = Store::open("memory:").unwrap();
    let noise: Vec<u8> = (0..100u32).map(|n| blake3::hash(&n.to_le_bytes()).as_bytes()[0]).collect();
    let entries = vec![
        entry(4095, 9, b"last"),
        entry(0, 2, b""),
        entry(7, 3, b"the same key before"),
        entry(7, 1, &noise),
        entry(7, 3, b"short"),
    ];
    let segment = write_segment(&store, "full", entries).unwrap();
    write_segment(&store, "empty", Vec::new()).unwrap();
    assert_eq!(segment.entries(), 4);
    golden::check("segments", ["full", "empty"].map(|name| format!("{name} {}", hex(&store.get(name).unwrap()))));
}

/// A segment of the first version with one value, 300 letters `a`, compressed by zstd.
const COMPRESSED: &str = "\
    484f50454a524e4c0100000000000000ed49a34c2c010080050505050505050505050505050505050505050505050505\
    050505050505050528b52ffd602c004d00001061610100272ac002050505050505050505050505050505050505050505\
    050505050505050505050510000000000000003b0000000000000007000000010000003d559813893719734b00000000\
    0000000100000000000000010000000100000032400f88ae2ab68a484f50454a524e4c";

#[test]
fn compressed_values_are_read() {
    let store = Store::open("memory:").unwrap();
    let bytes: Vec<u8> =
        (0..COMPRESSED.len()).step_by(2).map(|at| u8::from_str_radix(&COMPRESSED[at..at + 2], 16).unwrap()).collect();
    store.put("old", Bytes::from(bytes)).unwrap();
    let entries = scan_segment(&store, "old").unwrap();
    assert_eq!((entries.len(), entries[0].bucket, entries[0].key), (1, 7, JournalKey([5; 32])));
    assert_eq!(entries[0].value, [b'a'; 300].as_slice());
}

fn commit() -> Commit {
    Commit {
        cohorts: vec![CohortCommit { cohort: 0, outcomes: 10 }, CohortCommit { cohort: 3, outcomes: u64::MAX }],
        parts: vec!["runs/run/outcomes/part.parquet".to_owned()],
        segments: vec!["journal/a.seg".to_owned(), "journal/b.seg".to_owned()],
        live: json!({"spent": [{"service": "\"s\"", "x": 0.1}]}),
        checks: BTreeMap::new(),
    }
}

fn finished() -> FinalRecord {
    let table = FinalTable {
        table: "measures".to_owned(),
        path: "runs/run/tables/x.parquet".to_owned(),
        rows: 3,
        bytes: 4096,
        digest: "d1".to_owned(),
    };
    FinalRecord { tables: vec![table], gold_edit: 2, golds: 1, live: json!(null) }
}

/// A record without its time of writing.
fn timeless(record: &str) -> String {
    let timeless = |line: &str| if line.starts_with("  \"at_ms\": ") { "  \"at_ms\": 0," } else { line }.to_owned();
    record.lines().map(timeless).collect::<Vec<_>>().join("\n")
}

#[test]
fn records_of_logs_are_those_of_the_golden_file() {
    let store = Store::open("memory:").unwrap();
    let mut log = Log::open(&store, "run").unwrap();
    log.append_fence("mesh", 2, 8, "settings").unwrap();
    log.append(1, "mesh", RecordBody::Commit(commit())).unwrap();
    log.append(1, "mesh", RecordBody::Commit(Commit::default())).unwrap();
    log.append_gold("someone", 1, "runs/run/gold/000001.jsonl", None).unwrap();
    log.append(1, "mesh", RecordBody::Final(finished())).unwrap();
    log.append(1, "mesh", RecordBody::Final(FinalRecord::default())).unwrap();
    let records = (0..log.state().records).map(|seq| timeless(&text(&store, &layout::log_record("run", seq))));
    golden::check("log", records);
}

/// `golds` was added after the first version: records without it are still read.
#[test]
fn final_records_without_golds_are_read() {
    let store = Store::open("memory:").unwrap();
    let fence = r#"{"version":1,"seq":0,"generation":1,"committer":"m","at_ms":5,
        "body":{"kind":"fence","processes":1,"workers":1,"settings_digest":"d"}}"#;
    let last = r#"{"version":1,"seq":1,"generation":1,"committer":"m","at_ms":6,
        "body":{"kind":"final","tables":[],"gold_edit":0,"live":null}}"#;
    for (seq, record) in [(0, fence), (1, last)] {
        store.put(&layout::log_record("run", seq), Bytes::from_static(record.as_bytes())).unwrap();
    }
    let log = Log::open(&store, "run").unwrap();
    assert_eq!(log.state().finished.as_ref().map(|finished| finished.golds), Some(0));
}

#[test]
fn run_records_are_those_of_the_golden_file() {
    let store = Store::open("memory:").unwrap();
    let record = RunRecord {
        schema_version: RUN_VERSION,
        run: "20261121T223304123-0f3a99c1".to_owned(),
        job: "bm25 \"first\"".to_owned(),
        job_digest: "0f3a".to_owned(),
        created_ms: 1_795_300_384_123,
        settings: json!({"chunk": 64, "links": "none", "job": {"k1": 0.9}}),
        checks: BTreeMap::new(),
        method_versions: Default::default(),
    };
    record.create(&store).unwrap();
    golden::check("run", [text(&store, &layout::run_record(&record.run))]);
}

/// Edits of gold are rows of questions, as JSON.
#[test]
fn rows_of_questions_are_those_of_the_golden_file() {
    let full = QuestionRow {
        index: 7,
        id: "q\"7\"".to_owned(),
        text: "Who?".to_owned(),
        kind: Some("bridge".to_owned()),
        hops: Some(2),
        strata: vec![("held_out".to_owned(), "yes".to_owned())],
        answers: vec!["she".to_owned(), "her".to_owned()],
        gold: vec![vec![1, 2], vec![3]],
        candidates: vec![3, 1],
        gold_digest: "0f3a".to_owned(),
        record: "{}".to_owned(),
    };
    golden::check("question", [full, QuestionRow::default()].map(|row| serde_json::to_string(&row).unwrap()));
}

#[test]
fn names_of_objects_are_those_of_the_golden_file() {
    let merged = layout::SegmentId { created_ms: 1_795_300_384_123, generation: 2, worker: 3, seq: 4, merge: 5 };
    let names = [
        layout::JOURNAL.to_owned(),
        layout::RUNS.to_owned(),
        layout::run_folder("r"),
        layout::run_record("r"),
        layout::log_folder("r"),
        layout::log_record("r", 12),
        layout::questions_table("r"),
        layout::gold_edit("r", 3),
        layout::run_journal("r"),
        layout::segment_name(layout::JOURNAL, 1_795_300_384_123, "r", 2, 3, 4),
        layout::outcome_parts("r"),
        layout::outcome_part("r", 2, 3, 4),
        layout::written_table("r", 2, 17, "measures"),
        layout::final_table("r", "measures"),
        layout::selection_record("s"),
        layout::segment_object(layout::JOURNAL, "r", &merged),
        layout::spending_folder("r"),
        layout::spending_note("r", 12),
    ];
    golden::check("names", names);
}
