//! Checks and seals: a changed byte is an error that names the file, or changes nothing.

use bytes::Bytes;
use hopeval_results::check::{FileCheck, FileRemedy};
use hopeval_results::log::{CohortCommit, Commit, FinalRecord, RecordBody};
use hopeval_results::run::RUN_VERSION;
use hopeval_results::tables::outcomes::{in_final_order, of_question, write_part};
use hopeval_results::tables::questions::stream_questions;
use hopeval_results::tables::{MeasureRow, OutcomeRow, QuestionRow, read_final, write_table};
use hopeval_results::verify::verify_store;
use hopeval_results::{Log, RunRecord, Store, StoreError, TableError, layout};

/// A store with one finished run of one question.
struct CheckedStore {
    store: Store,
    part: String,
    measures: String,
}

impl CheckedStore {
    fn new() -> Self {
        let store = Store::open("memory:").unwrap();
        let rows = [QuestionRow { id: "q".to_owned(), ..QuestionRow::default() }];
        let questions = write_table(&store, &layout::questions_table("run"), rows).unwrap();
        let record = RunRecord {
            schema_version: RUN_VERSION,
            run: "run".to_owned(),
            job: "j".to_owned(),
            job_digest: "0f3a".to_owned(),
            created_ms: 1,
            settings: serde_json::json!({"chunk": 1, "names": ["oracle"]}),
            checks: [(questions.path.clone(), questions.file_check())].into(),
            method_versions: Default::default(),
        };
        record.create(&store).unwrap();
        let part = layout::outcome_part("run", 1, 0, 0);
        let written = write_part(&store, &part, vec![OutcomeRow::default()]).unwrap();
        let mut log = Log::open(&store, "run").unwrap();
        log.append_fence("a", 1, 1, "d").unwrap();
        let commit = Commit {
            cohorts: vec![CohortCommit { cohort: 0, outcomes: 1 }],
            parts: vec![part.clone()],
            checks: [(part.clone(), written.file_check())].into(),
            ..Commit::default()
        };
        log.append(1, "a", RecordBody::Commit(commit)).unwrap();
        let measures = layout::written_table("run", 1, 2, "measures");
        let tables = vec![write_table(&store, &measures, [MeasureRow::default()]).unwrap()];
        log.append(1, "a", RecordBody::Final(FinalRecord { tables, ..FinalRecord::default() })).unwrap();
        Self { store, part, measures }
    }

    /// Calls `read` with each bit of the object flipped, every `step`-th one, and puts the object back.
    fn flip_bits(&self, name: &str, step: usize, read: &dyn Fn(usize)) {
        let whole = self.store.get(name).unwrap();
        for bit in (0..whole.len() * 8).step_by(step) {
            let mut bytes = whole.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            self.store.put(name, Bytes::from(bytes)).unwrap();
            read(bit);
        }
        self.store.put(name, whole).unwrap();
    }
}

fn is_damage<T>(result: Result<T, TableError>, name: &str) -> bool {
    matches!(result, Err(TableError::Store(StoreError::Damaged { path, .. })) if path.ends_with(name))
}

#[test]
fn a_changed_record_is_an_error_or_reads_the_same() {
    let bench = CheckedStore::new();
    let record = RunRecord::load(&bench.store, "run").unwrap();
    bench.flip_bits(&layout::run_record("run"), 1, &|bit| {
        if let Ok(read) = RunRecord::load(&bench.store, "run") {
            assert_eq!(read, record, "bit {bit}");
        }
    });
    let state = Log::open(&bench.store, "run").unwrap().state().clone();
    for seq in 0..3 {
        bench.flip_bits(&layout::log_record("run", seq), 1, &|bit| {
            if let Ok(log) = Log::open(&bench.store, "run") {
                assert_eq!(*log.state(), state, "record {seq}, bit {bit}");
            }
        });
    }
}

#[test]
fn a_changed_table_is_refused_before_it_is_decoded() {
    let CheckedStore { store, part, measures } = &CheckedStore::new();
    let bench = CheckedStore { store: store.clone(), part: part.clone(), measures: measures.clone() };
    let state = Log::open(store, "run").unwrap().state().clone();
    bench.flip_bits(part, 5, &|bit| {
        let all: Result<Vec<_>, _> = in_final_order(store, "run", &state, 1, 1).collect();
        assert!(is_damage(all, part), "bit {bit}");
        assert!(is_damage(of_question(store, &state, 1, 0), part), "bit {bit}");
    });
    bench.flip_bits(measures, 5, &|bit| {
        let finished = state.finished.as_ref().unwrap();
        assert!(is_damage(read_final::<MeasureRow>(store, "run", finished), measures), "bit {bit}");
    });
    let record = RunRecord::load(store, "run").unwrap();
    let questions = layout::questions_table("run");
    bench.flip_bits(&questions, 5, &|bit| {
        assert!(
            is_damage(stream_questions(store, "run", record.questions_check(), 0).map(drop), &questions),
            "bit {bit}"
        );
    });
    // All is as it was, and one window reads the part.
    assert_eq!(in_final_order(store, "run", &state, 1, 1).count(), 1);
}

#[test]
fn an_error_names_sizes_and_a_remedy() {
    let store = Store::open("memory:").unwrap();
    store.put("a", "abc".into()).unwrap();
    let check = FileCheck::of(b"abcd");
    let error = check.verify_file(&store, "a", FileRemedy::Rewrite).unwrap_err().to_string();
    assert!(
        error.contains("`memory:/a` is damaged: it has 3 bytes, and 4 bytes was written\nhint: `hopeval resume"),
        "{error}"
    );
    assert!(FileCheck::of(b"abc").verify_file(&store, "a", FileRemedy::Rewrite).is_ok());
}

#[test]
fn a_whole_store_is_verified() {
    let bench = CheckedStore::new();
    let whole = verify_store(&bench.store, None).unwrap();
    assert_eq!((whole.runs, whole.unchecked, whole.damage.len()), (1, 0, 0), "{whole:?}");
    // The record, three records of the log, questions, part and table.
    assert_eq!(whole.compared, 7);
    for name in [&bench.part, &bench.measures, &layout::questions_table("run"), &layout::log_record("run", 1)] {
        let bytes = bench.store.get(name).unwrap();
        let mut changed = bytes.to_vec();
        changed[70] ^= 4;
        bench.store.put(name, changed.into()).unwrap();
        let found = verify_store(&bench.store, Some("run")).unwrap();
        assert!(found.damage.len() == 1 && found.damage[0].contains(name.as_str()), "{found:?}");
        bench.store.delete(name).unwrap();
        let found = verify_store(&bench.store, None).unwrap();
        assert!(!found.damage.is_empty() && found.damage[0].contains(name.as_str()), "{found:?}");
        bench.store.put(name, bytes).unwrap();
    }
    bench.store.put(&layout::outcome_part("run", 9, 0, 0), "lost".into()).unwrap();
    assert_eq!(
        verify_store(&bench.store, None).unwrap(),
        hopeval_results::verify::StoreVerification { unnamed: 1, ..whole }
    );
}
