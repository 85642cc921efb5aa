//! Tables: there and back, the same bytes each time, and clear errors for other files.

use arrow::array::{Array, ListArray, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use bytes::Bytes;
use hopeval_results::tables::*;
use hopeval_results::{Store, layout};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

fn memory() -> Store {
    Store::open("memory:").unwrap()
}

/// Writes and reads a table, and checks that writing again gives the same bytes.
fn there_and_back<R: Row + Clone + PartialEq + std::fmt::Debug>(rows: &[R]) {
    let store = memory();
    let written = write_table(&store, "one", rows.iter().cloned()).unwrap();
    assert_eq!((written.rows, written.table.as_str()), (rows.len() as u64, R::TABLE.name));
    let bytes = store.get("one").unwrap();
    assert_eq!(written.bytes, bytes.len() as u64);
    assert_eq!(written.digest, blake3::hash(&bytes).to_hex().as_str());
    assert_eq!(read_table::<R>(&store, "one").unwrap(), rows);
    write_table(&store, "two", rows.iter().cloned()).unwrap();
    assert_eq!(bytes, store.get("two").unwrap());
}

fn score(i: u64) -> ScoreRow {
    ScoreRow {
        configuration: format!("bm25{{k={}}}", i % 3).into(),
        index: i,
        question: format!("question {i}").into(),
        measure: "em".into(),
        version: "hotpotqa 1".into(),
        gold_digest: "0f".into(),
        value: (!i.is_multiple_of(5)).then_some(i as f64 / 7.0),
    }
}

#[test]
fn every_table_comes_back() {
    there_and_back(&[RunRow { run: "r".to_owned(), corpus: None, passages: Some(7), ..RunRow::default() }]);
    there_and_back(&[ConfigurationRow { services: vec!["retriever=sparse".to_owned()], ..Default::default() }]);
    there_and_back(&(0..100).map(score).collect::<Vec<_>>());
    there_and_back(&[
        MeasureRow { stderr: Some(0.1 + 0.2), n: u64::MAX, ..MeasureRow::default() },
        MeasureRow { low: Some(f64::MIN_POSITIVE), high: Some(-0.0), ..MeasureRow::default() },
    ]);
    there_and_back(&[CostRow { configuration: Some("a".to_owned()), money: Some(1.5), ..CostRow::default() }]);
    there_and_back(&[LatencyRow { wall_s: 0.25, mode: Some("latency".to_owned()), ..LatencyRow::default() }]);
    there_and_back(&[RequestRow { bucket: 4095, ..RequestRow::default() }]);
    there_and_back(&[ErrorRow { line: Some(3), ..ErrorRow::default() }, ErrorRow::default()]);
    there_and_back::<ScoreRow>(&[]);
}

#[test]
fn questions_stream_from_any_position() {
    let store = memory();
    let rows: Vec<QuestionRow> = (0..2500u64)
        .map(|index| QuestionRow {
            index,
            id: format!("q{index}"),
            text: "who? \u{2028} naïve".to_owned(),
            kind: index.is_multiple_of(2).then(|| "bridge".to_owned()),
            hops: Some(2),
            strata: vec![("type".to_owned(), "bridge".to_owned()), ("hops".to_owned(), "2".to_owned())],
            answers: vec!["yes".to_owned(), String::new()],
            gold: vec![vec![1, 2], vec![], vec![index as u32]],
            candidates: (0..index as u32 % 4).collect(),
            gold_digest: "d".to_owned(),
            record: "{}".to_owned(),
        })
        .collect();
    write_table(&store, &layout::questions_table("run"), rows.clone()).unwrap();
    for from in [0, 1, 1023, 1024, 2499, 2500, 9999] {
        let read: Result<Vec<_>, _> = questions::stream_questions(&store, "run", None, from).unwrap().collect();
        assert_eq!(read.unwrap(), rows[(from as usize).min(2500)..], "from {from}");
    }
    let reader = TableReader::<QuestionRow>::open(&store, &layout::questions_table("run")).unwrap();
    assert_eq!((reader.rows(), reader.row_groups()), (2500, 3));
    assert_eq!(reader.groups_where("index", 1024, 2047), [1]);
    there_and_back(&rows);
}

#[test]
fn a_table_in_a_folder_is_written_in_parts_and_read_by_range() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let rows = || (0..70_000).map(score);
    let mut writer = TableWriter::new(&store, "final/scores.parquet").unwrap();
    for row in rows() {
        writer.push(row).unwrap();
    }
    assert!(!store.exists("final/scores.parquet").unwrap(), "nothing is visible before the end");
    writer.finish().unwrap();
    let reader = TableReader::<ScoreRow>::open(&store, "final/scores.parquet").unwrap();
    assert_eq!(reader.row_groups(), 2);
    assert!(reader.rows_from(0).map(Result::unwrap).eq(rows()));
}

#[test]
fn other_files_are_told_apart() {
    let store = memory();
    write_table(&store, "scores", [score(1)]).unwrap();
    let error = read_table::<MeasureRow>(&store, "scores").unwrap_err();
    assert_eq!(error.to_string(), "`memory:/scores` holds the table `scores`, not the table `measures`");
    let bytes = store.get("scores").unwrap().to_vec();

    let version = b"hopeval.schema_version";
    let at = bytes.windows(version.len()).position(|found| found == version).unwrap() + version.len();
    let mut foreign = bytes.clone();
    let digit = foreign[at..].iter().position(|byte| *byte == b'1').unwrap();
    foreign[at + digit] = b'9';
    store.put("foreign", Bytes::from(foreign)).unwrap();
    let error = read_table::<ScoreRow>(&store, "foreign").unwrap_err();
    assert!(matches!(&error, TableError::Version { found, supported: SCHEMA_VERSION, .. } if found == "9"), "{error}");

    store.put("text", Bytes::from_static(b"id,score\n1,2\n")).unwrap();
    store.put("empty", Bytes::new()).unwrap();
    for name in ["text", "empty"] {
        let error = read_table::<ScoreRow>(&store, name).unwrap_err();
        assert!(matches!(error, TableError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    assert!(matches!(read_table::<ScoreRow>(&store, "absent").unwrap_err(), TableError::Store(_)));
}

/// A run finished before a column was added must still be shown.
#[test]
fn a_column_added_at_the_end_is_null_in_earlier_files() {
    let store = memory();
    let row = CostRow { service: "reader".to_owned(), cut: Some(7), ..CostRow::default() };
    write_table(&store, "now", [row.clone()]).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(store.get("now").unwrap()).unwrap();
    let pairs = builder.metadata().file_metadata().key_value_metadata().cloned();
    let batch = builder.build().unwrap().next().unwrap().unwrap();
    let without = |columns: usize| {
        let batch = batch.project(&(0..batch.num_columns() - columns).collect::<Vec<_>>()).unwrap();
        let mut bytes = Vec::new();
        let properties = WriterProperties::builder().set_key_value_metadata(pairs.clone()).build();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        store.put("earlier", Bytes::from(bytes)).unwrap();
        read_table::<CostRow>(&store, "earlier")
    };
    // `step`, and the counts and money of endpoints are newer.
    assert_eq!(without(9).unwrap(), [CostRow { cut: None, ..row }]);
    // `cut`, `computed_tokens`, `energy_j`, `money`, `device_s` and `service_s` may be null, `operations` may not.
    let error = without(15).unwrap_err();
    assert!(matches!(&error, TableError::Column { column, .. } if column == "operations"), "{error}");
}

#[test]
fn a_field_added_to_a_struct_is_null_in_earlier_files() {
    let store = memory();
    let call = |cut| CallRow { service: "reader".to_owned(), calls: 3, cut, ..CallRow::default() };
    let row = |cut| OutcomeRow { question: "q".to_owned(), calls: vec![call(cut), call(cut)], ..OutcomeRow::default() };
    write_table(&store, "now", [row(Some(1)), OutcomeRow::default(), row(Some(2))]).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(store.get("now").unwrap()).unwrap();
    let pairs = builder.metadata().file_metadata().key_value_metadata().cloned();
    let batch = builder.build().unwrap().next().unwrap().unwrap();
    let (at, field) = batch.schema_ref().column_with_name("calls").map(|(at, field)| (at, field.clone())).unwrap();
    let without = |fields_gone: usize| {
        let lists = batch.column(at).as_any().downcast_ref::<ListArray>().unwrap();
        let structs = lists.values().as_any().downcast_ref::<StructArray>().unwrap();
        let kept = structs.num_columns() - fields_gone;
        let fields = Fields::from(structs.fields()[..kept].to_vec());
        let structs = StructArray::new(fields.clone(), structs.columns()[..kept].to_vec(), structs.nulls().cloned());
        let item = Arc::new(Field::new("item", DataType::Struct(fields), false));
        let list = ListArray::new(item, lists.offsets().clone(), Arc::new(structs), lists.nulls().cloned());
        let mut columns = batch.columns().to_vec();
        let mut all = batch.schema_ref().fields().to_vec();
        all[at] = Arc::new(Field::new("calls", list.data_type().clone(), field.is_nullable()));
        columns[at] = Arc::new(list);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(all)), columns).unwrap();
        let properties = WriterProperties::builder().set_key_value_metadata(pairs.clone()).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        store.put("earlier", Bytes::from(writer.into_inner().unwrap())).unwrap();
        read_table::<OutcomeRow>(&store, "earlier")
    };
    assert_eq!(without(1).unwrap(), [row(None), OutcomeRow::default(), row(None)]);
    let error = without(2).unwrap_err();
    assert!(matches!(&error, TableError::Column { column, .. } if column == "calls"), "{error}");
}

#[test]
fn a_torn_table_is_an_error_wherever_it_was_cut() {
    let store = memory();
    write_table(&store, "whole", (0..50).map(score)).unwrap();
    let whole = store.get("whole").unwrap();
    for cut in (0..whole.len()).step_by(37) {
        store.put("torn", whole.slice(..cut)).unwrap();
        assert!(matches!(read_table::<ScoreRow>(&store, "torn"), Err(TableError::Corrupt { .. })), "cut at {cut}");
    }
}

/// The committed documentation is generated from the schemas. Set `HOPEVAL_BLESS` to write it again.
#[test]
fn the_documentation_is_up_to_date() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/docs/tables.md");
    if std::env::var_os("HOPEVAL_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, schema_markdown()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == schema_markdown(), "{} is old: run this test with HOPEVAL_BLESS=1", path.display());
}

#[test]
fn every_column_is_described() {
    let text = schema_markdown();
    assert!(text.lines().filter(|line| line.starts_with("| `")).count() > 100);
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        assert!(!line.ends_with("|  |"), "no description: {line}");
        let null = line.split(" | ").nth(2) == Some("yes");
        assert_eq!(null, line.contains("null "), "a null is explained where it may be, and only there: {line}");
    }
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

fn call() -> impl Strategy<Value = CallRow> {
    (text(), text(), any::<u64>(), any::<u64>()).prop_map(|(service, kind, calls, prompt_tokens)| CallRow {
        service,
        kind,
        calls,
        prompt_tokens,
        ..CallRow::default()
    })
}

fn outcome() -> impl Strategy<Value = OutcomeRow> {
    let nested = (
        vec((vec(any::<u32>(), 0..3), -1e9..1e9), 0..3),
        vec(any::<(u32, u32)>(), 0..3),
        vec([text(), text(), text()], 0..3),
        vec(call(), 0..3),
        proptest::option::of((0.0..1e3, 0.0..1e3, 0.0..1e3)),
    );
    let plain =
        (any::<u32>(), any::<u64>(), text(), proptest::option::of(text()), vec((any::<u32>(), -1e9..1e9), 0..5));
    (plain, nested).prop_map(|((configuration, index, question, answer, ranked), nested)| {
        let (paths, supporting, evidences, calls, timing) = nested;
        OutcomeRow {
            configuration,
            index,
            question: question.clone(),
            status: "ok".to_owned(),
            message: answer.is_none().then_some(question),
            answer,
            scores: ranked.iter().map(|(_, score)| *score).collect(),
            ranked: ranked.into_iter().map(|(passage, _)| passage).collect(),
            paths,
            supporting,
            evidences,
            iterations: 3,
            rounds: 4,
            calls,
            timing: timing.map(|(service_s, queue_s, wall_s)| Timing { service_s, queue_s, wall_s }),
            retrieved: timing.map(|_| index),
            device_s: timing.map(|(service_s, ..)| service_s),
            trace: timing.map(|_| trace(index)),
            measured: timing.map(|_| vec![MeasuredCallRow { attempts: index, ..MeasuredCallRow::default() }]),
        }
    })
}

fn trace(n: u64) -> OutcomeTrace {
    let note = NoteRow { name: "thought".to_owned(), text: format!("{n}") };
    let named = NamedSentenceRow { title: "T".to_owned(), sentence: "1".to_owned() };
    let step = StepCallRow { step: "leaf".to_owned(), calls: n, cut: Some(n), ..StepCallRow::default() };
    OutcomeTrace {
        notes: vec![note; n as usize % 3],
        format: [None, Some(true), Some(false)][n as usize % 3],
        repairs: 2,
        named_support: vec![named; n as usize % 2],
        steps: vec![step],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn outcomes_come_back(rows in vec(outcome(), 0..12)) {
        there_and_back(&rows);
        let last: Vec<FinalOutcomeRow> =
            rows.iter().map(|row| row.clone().into_final("bm25", |passage| format!("p{passage}"))).collect();
        prop_assert!(last.iter().all(|row| row.ranked.len() == row.ranked_ids.len()));
        there_and_back(&last);
        let traces: Vec<TraceRow> =
            rows.into_iter().filter_map(|mut row| row.take_trace_row("bm25")).collect();
        there_and_back(&traces);
    }
}
