//! Pins the records of the journal: every kind of answer, of failure and of prompt report.

use crate::golden;
use hopeval_jobs::services::record::AnswerRecord;
use hopeval_methods::testing::every_response;
use hopeval_methods::{RequestKind, Response};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn record(kind: RequestKind, response: Response) -> AnswerRecord {
    AnswerRecord { service: "s\u{e9}".to_owned(), kind, response, service_us: 123_456 }
}

fn records() -> Vec<(String, AnswerRecord)> {
    let mut records: Vec<_> =
        every_response().into_iter().map(|(name, kind, response)| (name, record(kind, response))).collect();
    // The kind of request is stored beside the answer, and any kind can fail.
    let refused = || Response::failure(hopeval_methods::FailureKind::Refused, "no");
    records.extend(RequestKind::ALL.map(|kind| (format!("kind-{}", kind.name()), record(kind, refused()))));
    records
}

#[test]
fn records_are_those_of_the_golden_file() {
    golden::check("records", records().iter().map(|(name, record)| format!("{name} {}", hex(&record.to_bytes()))));
}

/// Texts of passages come from the corpus; records do not contain them.
#[test]
fn golden_records_are_read() {
    let golden = include_str!("../golden/records.txt");
    let lines: Vec<_> =
        golden.lines().filter_map(|line| line.split_once(' ')).filter(|(name, _)| *name != "#").collect();
    let samples = records();
    assert_eq!(lines.len(), samples.len());
    for (name, mut record) in samples {
        let (_, bytes) = lines.iter().find(|(of, _)| *of == name).unwrap();
        record.response.passages.clear();
        let read = AnswerRecord::from_bytes(&unhex(bytes)).unwrap();
        // A row may contain NaN, unequal to itself.
        assert_eq!(format!("{read:?}"), format!("{record:?}"), "{name}");
        assert_eq!(hex(&read.to_bytes()), *bytes, "{name}");
    }
}

/// The first versions wrote JSON. No code writes it now, so the file is never blessed.
#[test]
fn the_first_records_are_read() {
    let samples = records();
    let mut read = 0;
    for line in include_str!("../golden/first-records.txt").lines().filter(|line| !line.starts_with("# ")) {
        let (name, written) = line.split_once(' ').unwrap();
        let (_, expected) = samples.iter().find(|(of, _)| of == name).unwrap();
        let found = AnswerRecord::from_bytes(written.as_bytes()).unwrap_or_else(|| panic!("{name}"));
        let mut expected = expected.clone();
        expected.response.passages.clear();
        // The first versions only had reports of prompts.
        if !matches!(expected.kind, RequestKind::Score | RequestKind::Generate) {
            expected.response.prompt = None;
        }
        assert_eq!(found, expected, "{name}");
        read += 1;
    }
    assert!(read > 40, "{read}");
}
