//! Twenty malformed files for each kind that a mapping reads: CSV, JSON and Parquet. Each has one error, which names
//! the file, and the row and the field where there are such.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use hopeval_datasets::{DatasetSpec, FieldMapping, Questions, RowPolicy};
use parquet::arrow::ArrowWriter;

/// Reads a file by a mapping. Returns its only error, without the folder, behind the number of questions before it.
fn only_error(path: &Path, fields: &[(&str, &str)]) -> String {
    let pairs: Vec<(String, String)> = fields.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let fields = Some(FieldMapping::from_pairs(&pairs).unwrap());
    let spec = DatasetSpec { fields, ..DatasetSpec::file(path) };
    let chain = |error: &dyn std::error::Error| {
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        let texts: Vec<String> = std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect();
        texts.join(": ").replace(&format!("{}/", path.parent().unwrap().display()), "")
    };
    let questions = match Questions::open(&spec, RowPolicy::Strict) {
        Ok(questions) => questions,
        Err(error) => return format!("0 {}", chain(&error)),
    };
    let (good, bad): (Vec<_>, Vec<_>) = questions.partition(Result::is_ok);
    assert_eq!(bad.len(), 1, "one error, after which the reader ends");
    format!("{} {}", good.len(), chain(bad[0].as_ref().unwrap_err()))
}

/// A malformed file with the beginning of its message.
type MalformedFile<'a> = (&'a str, Vec<u8>, &'a str);

/// Compares the messages of malformed files.
fn check_messages(files: &[MalformedFile<'_>], fields: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(files.len(), 20);
    for (name, content, expected) in files {
        let path = folder.path().join("file");
        fs::write(&path, content).unwrap();
        let message = only_error(&path, fields);
        assert!(message.starts_with(expected), "{name}:\n{message}\n{expected}");
    }
}

const FIELDS: [(&str, &str); 4] = [("id", "qid"), ("question", "query"), ("answers", "golds"), ("hops", "hops")];

#[test]
fn csv() {
    let text = |text: &str| text.as_bytes().to_vec();
    let head = "qid,query,golds,hops\n1,Who?,Ada,2\n";
    let after = |line: &str| format!("{head}{line}\n").into_bytes();
    check_messages(
        &[
            ("empty", vec![], "0 file: holds no rows"),
            ("one line", text("qid,query,golds,hops\n"), "0 file: holds no rows"),
            ("a column twice", text("qid,query,qid\n1,Who?,2\n"), "0 file:1: record 1: found the column \"qid\" twice"),
            (
                "a column without a name",
                text("qid,,golds\n1,Who?,Ada\n"),
                "0 file:2: record 1: field `query`: found nothing",
            ),
            ("too many cells", after("2,Where?,Arlen,2,more"), "1 file:3: record 2: found a row of 5 cells"),
            ("too few cells", after("2,Where?"), "1 file:3: record 2: found a row of 2 cells"),
            ("an empty question", after("2,,Arlen,2"), "1 file:3: record 2: field `query`: found nothing"),
            (
                "a count in words",
                after("2,Where?,Arlen,two"),
                "1 file:3: record 2: field `hops`: found the string \"two\"",
            ),
            (
                "a negative count",
                after("2,Where?,Arlen,-1"),
                "1 file:3: record 2: field `hops`: found the string \"-1\"",
            ),
            ("a fraction", after("2,Where?,Arlen,1.5"), "1 file:3: record 2: field `hops`: found the string \"1.5\""),
            (
                "the same id",
                after("1,Where?,Arlen,2"),
                "1 file:3: record 2: field `id`: found \"1\", which file:2 (record 1) has too",
            ),
            ("a quote without an end", after("2,\"Where?,Arlen,2"), "1 file:3: record 2: found a row of 2 cells"),
            (
                "bytes that are no text",
                [head.as_bytes(), b"2,Wh\xffere?,Arlen,2\n"].concat(),
                "1 file:3: record 2: found bytes that are not UTF-8",
            ),
            ("spaces for a question", after("2,   ,Arlen,2"), "1 file:3: record 2: field `query`: found nothing"),
            (
                "a huge count",
                after("2,Where?,Arlen,99999999999999999999"),
                "1 file:3: record 2: field `hops`: found the string \"99999999999999999999\"",
            ),
            (
                "a list of lists of lists",
                after("2,Where?,\"[[[1]]]\",2"),
                "1 file:3: record 2: field `golds[0][0]`: found a list of 1",
            ),
            (
                "an object of answers",
                after("2,Where?,\"{\"\"a\"\": 1}\",2"),
                "1 file:3: record 2: field `golds`: found an object",
            ),
            ("a binary file", vec![0, 1, 2, 3, 0, 255, 254], "0 file:1: record 1: found bytes that are not UTF-8"),
            (
                "a cut archive",
                vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2],
                "0 file: the gzip stream is truncated: it ends after 0 uncompressed bytes, in line 1",
            ),
            ("no column of the mapping", text("a,b\n1,2\n"), "0 file:2: record 1: field `query`: found nothing"),
        ],
        &FIELDS,
    );
}

#[test]
fn json() {
    let text = |text: &str| text.as_bytes().to_vec();
    let head = "{\"qid\": 1, \"query\": \"Who?\", \"golds\": [\"Ada\"], \"hops\": 2}\n";
    let after = |line: &str| format!("{head}{line}\n").into_bytes();
    check_messages(
        &[
            ("an array of numbers", text("[7]"), "0 file:1: record 1: found the number 7"),
            (
                "an array without an end",
                text("[{\"qid\": 1, \"query\": \"Who?\"}, "),
                "1 file:1: after record 1: found the end of the file",
            ),
            (
                "a row without an end",
                after("{\"qid\": 2, \"query\": \"Whe"),
                "1 file:2: record 2: found invalid JSON (EOF while parsing a string, column 24)",
            ),
            (
                "a row without quotes",
                after("{qid: 2}"),
                "1 file:2: record 2: found invalid JSON (key must be a string, column 2)",
            ),
            (
                "two commas",
                after("{\"qid\": 2,, \"query\": \"Where?\"}"),
                "1 file:2: record 2: found invalid JSON (key must be a string, column 11)",
            ),
            (
                "text between rows",
                after("and then\n{\"qid\": 2, \"query\": \"Where?\"}"),
                "1 file:2: record 2: found invalid JSON (expected value, column 1)",
            ),
            (
                "bytes that are no text",
                [head.as_bytes(), b"{\"qid\": 2, \"query\": \"Wh\xffere?\"}\n"].concat(),
                "1 file:2: record 2: found bytes that are not UTF-8 at byte 23 of the record",
            ),
            (
                "a boolean count",
                after("{\"qid\": 2, \"query\": \"Where?\", \"hops\": true}"),
                "1 file:2: record 2: field `hops`: found the boolean true",
            ),
            (
                "a lone surrogate",
                after("{\"qid\": 2, \"query\": \"\\ud800\"}"),
                "1 file:2: record 2: found invalid JSON (unexpected end of hex escape, column 28)",
            ),
            (
                "an empty question",
                after("{\"qid\": 2, \"query\": \"\"}"),
                "1 file:2: record 2: field `query`: found the string \"\"",
            ),
            (
                "a question of null",
                after("{\"qid\": 2, \"query\": null}"),
                "1 file:2: record 2: field `query`: found nothing",
            ),
            (
                "a question of numbers",
                after("{\"qid\": 2, \"query\": 5}"),
                "1 file:2: record 2: field `query`: found the number 5",
            ),
            (
                "an id of a list",
                after("{\"qid\": [2], \"query\": \"Where?\"}"),
                "1 file:2: record 2: field `qid`: found a list of 1",
            ),
            (
                "an id of a fraction",
                after("{\"qid\": 2.5, \"query\": \"Where?\"}"),
                "1 file:2: record 2: field `qid`: found the number 2.5",
            ),
            (
                "the same id",
                after("{\"qid\": \"1\", \"query\": \"Where?\"}"),
                "1 file:2: record 2: field `id`: found \"1\", which file:1 (record 1) has too",
            ),
            (
                "answers of objects",
                after("{\"qid\": 2, \"query\": \"Where?\", \"golds\": [{\"a\": 1}]}"),
                "1 file:2: record 2: field `golds[0]`: found an object",
            ),
            (
                "a count of text",
                after("{\"qid\": 2, \"query\": \"Where?\", \"hops\": \"two\"}"),
                "1 file:2: record 2: field `hops`: found the string \"two\"",
            ),
            (
                "a huge count",
                after("{\"qid\": 2, \"query\": \"Where?\", \"hops\": 1e300}"),
                "1 file:2: record 2: field `hops`: found the number 1e+300",
            ),
            (
                "deep lists",
                after(&format!("{{\"qid\": 2, \"query\": {}1{}}}", "[".repeat(300), "]".repeat(300))),
                "1 file:2: record 2: found invalid JSON (recursion limit exceeded, column 147)",
            ),
            ("no field of the mapping", text("{\"a\": 1}\n"), "0 file:1: record 1: field `query`: found nothing"),
        ],
        &FIELDS,
    );
}

/// A Parquet file with the given columns.
fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn texts(texts: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(texts.to_vec()))
}

#[test]
fn parquet_files() {
    let ids = || -> ArrayRef { Arc::new(Int64Array::from(vec![1, 2])) };
    let questions = || texts(&["Who?", "Where?"]);
    let good = parquet(vec![("qid", ids()), ("query", questions())]);
    let changed = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let end = good.len();
    let footer = u32::from_le_bytes(good[end - 8..end - 4].try_into().unwrap()) as usize;
    let with =
        |name: &'static str, column: ArrayRef| parquet(vec![("qid", ids()), ("query", questions()), (name, column)]);
    check_messages(
        &[
            (
                "the mark alone",
                b"PAR1".to_vec(),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "two marks",
                b"PAR1PAR1".to_vec(),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "no footer",
                good[..end - 8].to_vec(),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "half a file",
                good[..end / 2].to_vec(),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "the last byte is missing",
                good[..end - 1].to_vec(),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "another mark at the end",
                changed(end - 4, b"PARX"),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "an encrypted footer",
                changed(end - 4, b"PARE"),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "a footer of no bytes",
                changed(end - 8, &[0; 4]),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "a footer beyond the file",
                changed(end - 8, &u32::MAX.to_le_bytes()),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "a footer of zeroes",
                changed(end - 8 - footer, &vec![0; footer]),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "a page of zeroes",
                changed(4, &[0; 24]),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "a page of ones",
                changed(4, &[255; 24]),
                "0 file: cannot be read as Parquet: the file is damaged, or of another kind",
            ),
            (
                "no rows",
                parquet(vec![("qid", Arc::new(Int64Array::from(Vec::<i64>::new()))), ("query", texts(&[]))]),
                "0 file: holds no rows",
            ),
            (
                "numbers for questions",
                parquet(vec![("qid", ids()), ("query", ids())]),
                "0 file: record 1: field `query`: found the number 1",
            ),
            (
                "truths for questions",
                parquet(vec![("query", Arc::new(BooleanArray::from(vec![true, false])))]),
                "0 file: record 1: field `query`: found the boolean true",
            ),
            (
                "null for a question",
                parquet(vec![("query", Arc::new(StringArray::from(vec![Some("Who?"), None])))]),
                "1 file: record 2: field `query`: found nothing",
            ),
            (
                "an empty question",
                parquet(vec![("qid", ids()), ("query", texts(&["Who?", ""]))]),
                "1 file: record 2: field `query`: found the string \"\"",
            ),
            (
                "the same id",
                parquet(vec![("qid", texts(&["1", "1"])), ("query", questions())]),
                "1 file: record 2: field `id`: found \"1\", which file (record 1) has too",
            ),
            (
                "counts that are none",
                with("hops", Arc::new(Float64Array::from(vec![2.0, 2.5]))),
                "1 file: record 2: field `hops`: found the number 2.5",
            ),
            (
                "bytes for questions",
                parquet(vec![("query", Arc::new(BinaryArray::from_vec(vec![b"Who?", b"\xff\xfe"])))]),
                "1 file: record 2: field `query`: found bytes that are not UTF-8",
            ),
        ],
        &[("id", "qid"), ("question", "query"), ("hops", "hops")],
    );
}
