//! Opening and cutting files: compressions, layouts, and the messages for broken files.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use hopeval_datasets::input::InputError;
use hopeval_datasets::records::{RecordLayout, RecordReader};
use hopeval_datasets::{DatasetSpec, Questions, RowPolicy};
use tempfile::TempDir;

fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The records as text, with their lines.
fn records(path: &Path) -> Result<Vec<(u64, String)>, InputError> {
    let mut records = RecordReader::open(path)?;
    let mut out = Vec::new();
    while let Some(record) = records.next()? {
        assert_eq!(record.position.record, out.len() as u64 + 1);
        out.push((record.position.line, String::from_utf8(record.bytes.to_vec()).unwrap()));
    }
    Ok(out)
}

/// An error with its causes, paths shortened to the file's name.
fn message(folder: &TempDir, error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn compression_is_told_by_content_and_spans_members() {
    let folder = TempDir::new().unwrap();
    let (first, second) = (b"{\"a\":1}\n".as_slice(), b"{\"a\":2}\n".as_slice());
    let zstd = |bytes| zstd::encode_all(bytes, 3).unwrap();
    for (name, bytes) in [
        ("plain.gz", [first, second].concat()),
        ("gzip.json", [gzip(first), gzip(second)].concat()),
        ("zstd.json", [zstd(first), zstd(second)].concat()),
        ("bzip2.json", [bzip2(first), bzip2(second)].concat()),
    ] {
        let path = write(&folder, name, &bytes);
        let expected = [(1, "{\"a\":1}".to_owned()), (2, "{\"a\":2}".to_owned())];
        assert_eq!(records(&path).unwrap(), expected, "{name}");
    }
}

#[test]
fn every_layout_gives_the_same_records() {
    let folder = TempDir::new().unwrap();
    for (layout, text) in [
        (RecordLayout::Lines, "{\"a\":[1,\"]\"]}\n\n  {\"b\":\"\u{2028}x\u{85}\"}\r\n"),
        (RecordLayout::Lines, "\u{feff}{\"a\":[1,\"]\"]}\n{\"b\":\"\u{2028}x\u{85}\"}"),
        (RecordLayout::Array, "[{\"a\":[1,\"]\"]},{\"b\":\"\u{2028}x\u{85}\"}]"),
        (RecordLayout::Array, "\u{feff}\n[\n{\"a\":[1,\"]\"]} ,\n{\"b\":\"\u{2028}x\u{85}\"}\n]\n"),
        (
            RecordLayout::Member,
            "{\"v\":{\"data\":[0]},\"data\": [{\"a\":[1,\"]\"]},{\"b\":\"\u{2028}x\u{85}\"}],\"w\":[1]}",
        ),
        (RecordLayout::Values, "{\n\"a\":[1,\"]\"]}\n{\n\"b\":\"\u{2028}x\u{85}\"}"),
    ] {
        let path = write(&folder, "file", text.as_bytes());
        assert_eq!(RecordReader::open(&path).unwrap().layout(), layout, "{text}");
        let found: Vec<String> = records(&path).unwrap().into_iter().map(|(_, text)| text.replace('\n', "")).collect();
        assert_eq!(found, ["{\"a\":[1,\"]\"]}", "{\"b\":\"\u{2028}x\u{85}\"}"], "{text}");
    }
}

/// Records across every buffer's end, and one longer than the buffer.
#[test]
fn long_files_are_cut_as_short_ones() {
    let folder = TempDir::new().unwrap();
    let rows: Vec<String> = (0..3000)
        .map(|n: usize| {
            let filler = "\\\"}{],".repeat(if n == 1500 { 200_000 } else { n % 400 });
            format!("{{\"n\":{n},\"filler\":\"{filler}\"}}")
        })
        .collect();
    for (name, text) in [("lines", rows.join("\n")), ("array", format!("[{}]", rows.join(", ")))] {
        let path = write(&folder, name, &gzip(text.as_bytes()));
        let found = records(&path).unwrap();
        assert_eq!(found.len(), rows.len());
        assert!(found.iter().map(|(_, text)| text).eq(&rows));
        assert_eq!(found.last().unwrap().0, if name == "lines" { 3000 } else { 1 });
    }
}

#[test]
fn truncated_streams_say_where() {
    let folder = TempDir::new().unwrap();
    // Random-like digits, so that the compressed file is long enough to be cut in its middle.
    let mut state = 1_u64;
    let text: String = (0..100_000)
        .map(|n| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{{\"id\":\"{n}\",\"question\":\"{state}?\",\"answers\":[\"a\"]}}\n")
        })
        .collect();
    for (name, whole) in [
        ("cut.gz", gzip(text.as_bytes())),
        ("cut.zst", zstd::encode_all(text.as_bytes(), 3).unwrap()),
        ("cut.bz2", bzip2(text.as_bytes())),
    ] {
        let path = write(&folder, name, &whole[..whole.len() / 2]);
        let mut questions =
            Questions::open(&DatasetSpec::file(&path), RowPolicy::Quarantine(Box::new(|_| {}))).unwrap();
        let read = questions.by_ref().take_while(Result::is_ok).count() as u64;
        let Err(InputError::Truncated { bytes, line, .. }) = records(&path) else { panic!("{name} is not truncated") };
        assert!(read > 10_000, "{name}: {read} rows");
        assert!(bytes > 500_000 && bytes < text.len() as u64, "{name}: {bytes}");
        assert_eq!(
            line as usize,
            1 + text.as_bytes()[..bytes as usize].iter().filter(|&&b| b == b'\n').count(),
            "{name}"
        );
        assert!(questions.next().is_none(), "reading ends with the error");
    }
    let path = write(&folder, "short.gz", &gzip(b"{\"a\":1}\n{\"a\":2}\n")[..20]);
    let error = records(&path).unwrap_err();
    assert!(message(&folder, &error).starts_with("short.gz: the gzip stream is truncated: it ends after "), "{error}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = TempDir::new().unwrap();
    let error = |path: &Path| message(&folder, &records(path).unwrap_err());
    let missing = folder.path().join("missing.json");
    assert_eq!(error(&missing), "cannot open missing.json: No such file or directory (os error 2)");
    fs::create_dir(folder.path().join("folder")).unwrap();
    assert_eq!(error(&folder.path().join("folder")), "folder is a folder; allowed: a file");
    let prose = write(&folder, "prose.txt", b"Question: which?\nmore");
    let allowed = "JSON (an array, an object or lines), Parquet, or a table (TSV, CSV) where the format has one; \
                   `fields` reads tables whose first line names the columns";
    assert_eq!(error(&prose), format!("prose.txt: starts with \"Question: which?\"; allowed: {allowed}"));
    let mut damaged = gzip(&[b"{\"a\":1}\n".as_slice(); 500].concat());
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    let damaged = write(&folder, "damaged.gz", &damaged);
    assert!(error(&damaged).contains("damaged.gz: "), "{}", error(&damaged));
}

#[test]
fn broken_arrays_say_where() {
    let folder = TempDir::new().unwrap();
    for (text, expected) in [
        (
            "[{\"a\":1}\n,{\"a\":2}",
            "file:2: after record 1: found the end of the file; allowed: the rest of the record",
        ),
        ("[{\"a\":1},\n{\"a\":", "file:2: after record 1: found the end of the file; allowed: the rest of the record"),
        ("[{\"a\":1},]", "file:1: after record 1: found \"]\"; allowed: a JSON value"),
        ("[{\"a\":1}]\n{}", "file:2: after record 1: found \"{}\"; allowed: the end of the file"),
        ("[", "file:1: after record 0: found the end of the file; allowed: a JSON value"),
    ] {
        let path = write(&folder, "file", text.as_bytes());
        assert_eq!(message(&folder, &records(&path).unwrap_err()), expected, "{text}");
    }
}

#[test]
fn files_without_rows_are_errors() {
    let folder = TempDir::new().unwrap();
    for text in ["", " \n", "[]", "[\n]\n"] {
        let path = write(&folder, "empty.json", text.as_bytes());
        for format in [None, Some(hopeval_datasets::Format::HotpotQa)] {
            let spec = DatasetSpec { format, ..DatasetSpec::file(&path) };
            let error = match Questions::open(&spec, RowPolicy::Strict) {
                Ok(mut questions) => questions.next().unwrap().unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(message(&folder, &error), "empty.json: holds no rows", "{text:?}");
        }
    }
}

#[test]
fn a_record_that_would_fill_the_memory_is_refused() {
    // 66 MiB of numbers are 64 kB of gzip, and a gigabyte of parsed values.
    let numbers = b"0,".repeat(33 << 20);
    let folder = TempDir::new().unwrap();
    for (name, start, end) in [("array.json.gz", "[{\"a\":[", "0]}]"), ("lines.jsonl.gz", "{\"a\":[", "0]}\n")] {
        let path = write(&folder, name, &gzip(&[start.as_bytes(), &numbers, end.as_bytes()].concat()));
        let error = records(&path).unwrap_err();
        assert!(message(&folder, &error).contains("records of at most 64 MiB"), "{}", message(&folder, &error));
    }
}
