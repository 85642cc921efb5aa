//! The run record and the names of runs.

use bytes::Bytes;
use hopeval_results::run::{RUN_VERSION, list_runs, resolve_run, run_id};
use hopeval_results::{RunError, RunRecord, Store, layout};

fn record(run: &str) -> RunRecord {
    RunRecord {
        schema_version: RUN_VERSION,
        run: run.to_owned(),
        job: "bm25".to_owned(),
        job_digest: "0f3a".to_owned(),
        created_ms: 1,
        settings: serde_json::json!({"chunk_size": 64, "k1": 0.9}),
        checks: Default::default(),
        method_versions: Default::default(),
    }
}

#[test]
fn a_record_is_made_once_and_read_back() {
    let store = Store::open("memory:").unwrap();
    record("a").create(&store).unwrap();
    record("a").create(&store).unwrap();
    assert_eq!(RunRecord::load(&store, "a").unwrap(), record("a"));
    let other = RunRecord { job: "another".to_owned(), ..record("a") };
    assert!(matches!(other.create(&store), Err(RunError::Taken { .. })));
    assert_eq!(RunRecord::load(&store, "a").unwrap(), record("a"), "the first stays");
}

#[test]
fn runs_are_listed_and_found_by_a_beginning() {
    let store = Store::open("memory:").unwrap();
    assert!(list_runs(&store).unwrap().is_empty());
    for run in ["20260102T000000000-bb", "20260101T000000000-aa", "20260102T000000001-cc"] {
        record(run).create(&store).unwrap();
    }
    assert_eq!(list_runs(&store).unwrap()[0], "20260101T000000000-aa");
    assert_eq!(resolve_run(&store, "20260101").unwrap(), "20260101T000000000-aa");
    assert_eq!(resolve_run(&store, "last").unwrap(), "20260102T000000001-cc");
    for unknown in ["2027", ""] {
        assert!(matches!(resolve_run(&store, unknown), Err(RunError::Unknown { .. })), "{unknown}");
    }
    let error = resolve_run(&store, "20260102").unwrap_err();
    let said = "`20260102` is the beginning of 2 runs in `memory:`: 20260102T000000000-bb, 20260102T000000001-cc";
    assert_eq!(error.to_string(), said);
}

#[test]
fn runs_are_found_by_their_job_their_digest_and_their_place() {
    let store = Store::open("memory:").unwrap();
    let made = [
        ("20260101T000000000-0a0b0c0d", "sweep"),
        ("20260102T000000000-20260101", "table-1"),
        ("20260103T000000000-0a0b1111", "sweep"),
        ("20260104T000000000-beefbeef", "0a0b0c0d~x"),
    ];
    for (run, job) in made {
        RunRecord { job: job.to_owned(), ..record(run) }.create(&store).unwrap();
    }
    let found = |name: &str| resolve_run(&store, name).map(|run| made.iter().position(|(id, _)| *id == run).unwrap());
    for (name, place) in [
        ("latest", 3),
        ("latest~0", 3),
        ("last~3", 0),
        ("sweep", 2),
        ("sweep~1", 0),
        ("table-1", 1),
        ("0a0b0", 0),
        ("beef", 3),
        ("0a0b0c0d~x", 3),
        // The beginning of an id comes before a digest.
        ("20260101", 0),
    ] {
        assert_eq!(found(name).unwrap(), place, "{name}");
    }
    for unknown in ["latest~4", "sweep~2", "bee", "sweep~", "~1", "20260101~0", "latest~-1"] {
        assert!(matches!(found(unknown), Err(RunError::Unknown { .. })), "{unknown}");
    }
    assert!(matches!(found("0a0b"), Err(RunError::Ambiguous { .. })));
    assert!(found("swep").unwrap_err().to_string().contains("hint: `hopeval ls` lists runs"));
}

#[test]
fn ids_sort_by_time_and_have_the_right_date() {
    assert_eq!(run_id(0, "d"), "19700101T000000000-d");
    assert_eq!(run_id(951_782_400_000, "d"), "20000229T000000000-d");
    assert_eq!(run_id(4_102_444_799_999, "d"), "20991231T235959999-d");
    let ids: Vec<String> = (0..2_000).map(|i| run_id(i * 86_399_999_123 / 40, "d")).collect();
    assert!(ids.is_sorted());
}

#[test]
fn foreign_and_broken_records_are_named() {
    let store = Store::open("memory:").unwrap();
    assert!(matches!(RunRecord::load(&store, "a"), Err(RunError::Unknown { .. })));
    let name = layout::run_record("a");
    store.put(&name, Bytes::from_static(b"{\"schema_version\": 7, \"other\": 1}")).unwrap();
    let error = RunRecord::load(&store, "a").unwrap_err();
    assert!(matches!(error, RunError::Version { found: 7, supported: RUN_VERSION, .. }));
    assert!(error.to_string().contains(&name));
    store.put(&name, Bytes::from_static(b"{\"schema_version\": 1,")).unwrap();
    assert!(RunRecord::load(&store, "a").unwrap_err().to_string().contains(&name));
}
