//! Files of vectors of NumPy, safetensors and Parquet: what they may have, and the errors of what they may not.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Float64Type};
use hopeval_datasets::{NameFile, VectorFile, VectorSpec};
use parquet::arrow::ArrowWriter;
use serde_json::json;
use tempfile::TempDir;

/// The vectors of the good files.
const ROWS: [[f32; 4]; 3] = [[1.0, -2.0, 0.5, 0.0], [0.25, 3.0, -1.5, 8.0], [-4.0, 0.125, 2.0, 1.0]];

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn spec(file: &Path) -> VectorSpec {
    VectorSpec { file: file.to_owned(), name_column: "id".to_owned(), ..VectorSpec::default() }
}

fn named(file: &Path, names: &Path) -> VectorSpec {
    VectorSpec { names: Some(NameFile { path: names.to_owned(), setting: "ids" }), ..spec(file) }
}

/// The name of a row, if it has one, and its numbers.
type NamedRow = (Option<String>, Vec<f32>);

/// All rows, or the error with its causes.
fn read(spec: &VectorSpec) -> Result<Vec<NamedRow>, String> {
    let chain = |error: &dyn std::error::Error| {
        let causes = std::iter::successors(error.source(), |error| error.source());
        causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
    };
    let mut file = VectorFile::open(spec).map_err(|error| chain(&error))?;
    let mut rows = Vec::new();
    while let Some(row) = file.next_row().map_err(|error| chain(&error))? {
        rows.push((row.name, row.numbers.to_vec()));
    }
    assert_eq!(rows.len() as u64, file.row_count(), "the heading has the number of rows");
    Ok(rows)
}

/// The error of a file: one line that begins with the file's path.
fn error(spec: &VectorSpec, label: &str) -> String {
    let error = read(spec).expect_err(label);
    let name = spec.file.file_name().unwrap().to_str().unwrap();
    assert!(error.contains(name), "{label}: {error}");
    assert!(error.contains("allowed: ") || error.contains("cannot ") || error.contains("holds no rows"), "{error}");
    error
}

fn npy(heading: &str, data: &[u8]) -> Vec<u8> {
    let mut heading = heading.to_owned();
    while !(10 + heading.len() + 1).is_multiple_of(64) {
        heading.push(' ');
    }
    heading.push('\n');
    let length = u16::try_from(heading.len()).unwrap().to_le_bytes();
    [&b"\x93NUMPY\x01\x00"[..], &length, heading.as_bytes(), data].concat()
}

fn npy_of(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"), data)
}

fn tensors(heading: &serde_json::Value, data: &[u8]) -> Vec<u8> {
    let heading = heading.to_string();
    [&(heading.len() as u64).to_le_bytes()[..], heading.as_bytes(), data].concat()
}

fn tensors_of(dtype: &str, shape: &[u64], data: &[u8]) -> Vec<u8> {
    tensors(&json!({ "v": { "dtype": dtype, "shape": shape, "data_offsets": [0, data.len()] } }), data)
}

/// The entry of a tensor in a heading.
fn entry(dtype: &str, shape: &[u64], from: u64, to: u64) -> serde_json::Value {
    json!({ "dtype": dtype, "shape": shape, "data_offsets": [from, to] })
}

fn f32_bytes() -> Vec<u8> {
    ROWS.iter().flatten().flat_map(|number| number.to_le_bytes()).collect()
}

/// The good numbers in another type.
fn bytes_of<const N: usize>(convert: impl Fn(f32) -> [u8; N]) -> Vec<u8> {
    ROWS.iter().flatten().flat_map(|&number| convert(number)).collect()
}

fn with_number(at: usize, number: f32) -> Vec<u8> {
    let mut bytes = f32_bytes();
    bytes[4 * at..4 * at + 4].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn lists(rows: &[Option<Vec<Option<f32>>>]) -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows.iter().cloned()))
}

fn good_lists() -> Vec<Option<Vec<Option<f32>>>> {
    ROWS.iter().map(|row| Some(row.iter().copied().map(Some).collect())).collect()
}

fn parquet_of(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn ids() -> ArrayRef {
    Arc::new(StringArray::from(vec!["a", "b", "c"]))
}

fn good_parquet() -> Vec<u8> {
    parquet_of(vec![("id", ids()), ("vector", lists(&good_lists()))])
}

fn expected(names: Option<[&str; 3]>) -> Vec<(Option<String>, Vec<f32>)> {
    let name = |at: usize| names.map(|names| names[at].to_owned());
    ROWS.iter().enumerate().map(|(at, row)| (name(at), row.to_vec())).collect()
}

#[test]
fn every_kind_and_type_has_the_same_numbers() {
    let folder = Folder::new();
    let half = bytes_of(|number| half_bits(number).to_le_bytes());
    let brain = bytes_of(|number| ((number.to_bits() >> 16) as u16).to_le_bytes());
    let double = bytes_of(|number| f64::from(number).to_le_bytes());
    let single = f32_bytes();
    let second = |version: u8| {
        let heading = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n";
        let length = u32::try_from(heading.len()).unwrap().to_le_bytes();
        [&[0x93, b'N', b'U', b'M', b'P', b'Y', version, 0][..], &length, heading, &f32_bytes()].concat()
    };
    for (label, bytes) in [
        ("f4.npy", npy_of("<f4", "(3, 4)", &single)),
        ("f2.npy", npy_of("<f2", "(3, 4)", &half)),
        ("f8.npy", npy_of("<f8", "(3, 4)", &double)),
        ("version-2.npy", second(2)),
        ("version-3.npy", second(3)),
        ("f32.safetensors", tensors_of("F32", &[3, 4], &single)),
        ("f16.safetensors", tensors_of("F16", &[3, 4], &half)),
        ("bf16.safetensors", tensors_of("BF16", &[3, 4], &brain)),
        ("f64.safetensors", tensors_of("F64", &[3, 4], &double)),
    ] {
        let file = folder.write(label, bytes);
        assert_eq!(read(&spec(&file)).unwrap(), expected(None), "{label}");
        let names = folder.write("names.txt", "a\r\nb b\nü");
        assert_eq!(read(&named(&file, &names)).unwrap(), expected(Some(["a", "b b", "ü"])), "{label}");
    }
    let file = folder.write("v.parquet", good_parquet());
    assert_eq!(read(&spec(&file)).unwrap(), expected(Some(["a", "b", "c"])));

    // Other columns, numbers of double precision, ids that are numbers.
    let doubles = ROWS.iter().map(|row| Some(row.iter().map(|&number| Some(f64::from(number))).collect::<Vec<_>>()));
    let doubles: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(doubles));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 9]));
    let more: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 0.0, 1.0]));
    let file = folder.write("w.parquet", parquet_of(vec![("more", more), ("qid", numbers), ("embedding", doubles)]));
    let other = VectorSpec {
        name_column: "qid".to_owned(),
        name_setting: Some("id"),
        vector_column: Some("embedding".to_owned()),
        ..spec(&file)
    };
    assert_eq!(read(&other).unwrap(), expected(Some(["7", "8", "9"])));

    // One of several tensors, which stands behind another one.
    let heading = json!({
        "__metadata__": { "format": "pt" },
        "other": { "dtype": "I64", "shape": [1], "data_offsets": [0, 8] },
        "v": { "dtype": "F32", "shape": [3, 4], "data_offsets": [8, 56] },
    });
    let file = folder.write("two.safetensors", tensors(&heading, &[&[0; 8][..], &single].concat()));
    let second = VectorSpec { tensor: Some("v".to_owned()), ..spec(&file) };
    assert_eq!(read(&second).unwrap(), expected(None));
}

/// Half precision of a number that has it exactly.
fn half_bits(number: f32) -> u16 {
    let bits = number.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    if number == 0.0 {
        return sign;
    }
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    sign | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16
}

#[test]
fn malformed_npy_files_have_one_error_each() {
    let folder = Folder::new();
    let good = npy_of("<f4", "(3, 4)", &f32_bytes());
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        bytes
    };
    let mut huge = good.clone();
    huge[8..10].copy_from_slice(&u16::MAX.to_le_bytes());
    let long = [&b"\x93NUMPY\x02\x00"[..], &u32::MAX.to_le_bytes(), b"{'descr': '<f4'"].concat();
    let big = |shape| npy_of("<f4", shape, &f32_bytes());
    let order = npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", &f32_bytes());
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", Vec::new(), "holds no rows"),
        ("text", b"1.0 2.0 3.0\n".to_vec(), "starts with `1.0 2.0 3`"),
        ("magic", flipped(3), "starts with `\\x93NU\\rPY"),
        ("archive", b"PK\x03\x04 and so on".to_vec(), "as zip archives and .npz files"),
        ("gzip", b"\x1f\x8b\x08 and so on".to_vec(), "a gzip stream"),
        ("version", flipped(6), "field `version`: found 65.0; allowed: 1.0, 2.0 and 3.0"),
        ("cut heading", good[..40].to_vec(), "found a heading of 118 bytes in a file of 40"),
        ("cut magic", good[..9].to_vec(), "found 9 bytes; allowed: a whole heading"),
        ("huge heading", huge, "found a heading of 65535 bytes"),
        ("longer heading", long, "found a heading of 4294967295 bytes"),
        ("flipped heading", flipped(12), "the key \"$escr\""),
        ("no text", flipped_to(&good, 20, 0xff), "a heading that is not text"),
        ("big-endian", npy_of(">f4", "(3, 4)", &f32_bytes()), "field `descr`: found \">f4\"; allowed: '<f2', '<f4'"),
        ("integers", npy_of("<i4", "(3, 4)", &f32_bytes()), "field `descr`: found \"<i4\""),
        ("objects", npy_of("|O", "(3, 4)", &f32_bytes()), "field `descr`: found \"|O\""),
        ("fortran", order, "field `fortran_order`: found True; allowed: False: rows one after the other"),
        ("one size", big("(12,)"), "field `shape`: found (12); allowed: two sizes"),
        ("three sizes", big("(3, 2, 2)"), "field `shape`: found (3, 2, 2); allowed: two sizes"),
        ("no size", big("()"), "field `shape`: found (); allowed: two sizes"),
        ("zero width", npy_of("<f4", "(3, 0)", b""), "field `shape`: found (3, 0); allowed: at least one row"),
        ("no rows", npy_of("<f4", "(0, 4)", b""), "field `shape`: found (0, 4); allowed: at least one row"),
        ("too wide", big("(1, 70000)"), "found (1, 70000); allowed: at least one row, of 1 to 65536 numbers"),
        ("huge shape", big("(4611686018427387904, 4)"), "found 48 bytes of numbers for 4611686018427387904 rows"),
        (
            "many rows",
            big("(4000000000, 4)"),
            "found 48 bytes of numbers for 4000000000 rows of 4 numbers; allowed: 16",
        ),
        ("fewer rows", big("(2, 4)"), "found 48 bytes of numbers for 2 rows"),
        ("cut numbers", good[..good.len() - 3].to_vec(), "found 45 bytes of numbers for 3 rows of 4 numbers"),
        ("more bytes", [&good[..], b"x"].concat(), "found 49 bytes of numbers"),
        (
            "NaN",
            npy_of("<f4", "(3, 4)", &with_number(6, f32::NAN)),
            "record 2: field `[2]`: found NaN; allowed: finite",
        ),
        ("inf", npy_of("<f4", "(3, 4)", &with_number(8, f32::INFINITY)), "record 3: field `[0]`: found infinity"),
        ("-inf", npy_of("<f2", "(1, 2)", &[0, 0xfc, 0, 0]), "record 1: field `[0]`: found -infinity"),
        (
            "1e300",
            npy_of("<f8", "(1, 1)", &1e300_f64.to_le_bytes()),
            "record 1: field `[0]`: found 1e300; allowed: num",
        ),
    ];
    assert!(cases.len() >= 20);
    for (label, bytes, says) in cases {
        let error = error(&spec(&folder.write("p.npy", bytes)), label);
        assert!(error.contains(says), "{label}: {error}");
    }
}

fn flipped_to(good: &[u8], at: usize, byte: u8) -> Vec<u8> {
    let mut bytes = good.to_vec();
    bytes[at] = byte;
    bytes
}

#[test]
fn malformed_safetensors_files_have_one_error_each() {
    let folder = Folder::new();
    let single = f32_bytes();
    let good = tensors_of("F32", &[3, 4], &single);
    let of = |entries: serde_json::Value| tensors(&entries, &single);
    let length = |length: u64| [&length.to_le_bytes()[..], b"{\"v\": 1}"].concat();
    let two = json!({"v": entry("F32", &[1, 4], 0, 16), "w": entry("F32", &[2, 4], 16, 48)});
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", Vec::new(), "holds no rows"),
        ("text", b"tensors of a model".to_vec(), "starts with `tensors o`"),
        ("cut length", good[..6].to_vec(), "starts with `"),
        ("cut heading", good[..30].to_vec(), "bytes in a file of 30"),
        ("huge heading", length(1 << 62), "found a heading of 4611686018427387904 bytes in a file of 16"),
        ("long heading", length(9), "found a heading of 9 bytes in a file of 16"),
        ("no JSON", [&3_u64.to_le_bytes()[..], b"{]}"].concat(), "a damaged heading ("),
        ("no tensors", tensors(&json!({}), b""), "found no tensor"),
        ("no entry", length(8), "a damaged heading ("),
        ("two tensors", of(two.clone()), "found 2 tensors; allowed: one tensor, or its name as `tensor`: \"v\", \"w\""),
        ("integers", of(json!({"v": entry("I32", &[3, 4], 0, 48)})), "field `v.dtype`: found I32; allowed: F16, BF16"),
        ("bytes", of(json!({"v": entry("F8_E5M2", &[12, 4], 0, 48)})), "field `v.dtype`: found F8_E5M2"),
        ("unknown type", of(json!({"v": entry("F33", &[3, 4], 0, 48)})), "a damaged heading ("),
        ("one size", of(json!({"v": entry("F32", &[12], 0, 48)})), "field `v.shape`: found (12); allowed: two sizes"),
        ("three sizes", of(json!({"v": entry("F32", &[3, 2, 2], 0, 48)})), "field `v.shape`: found (3, 2, 2)"),
        ("zero width", tensors_of("F32", &[3, 0], b""), "field `v.shape`: found (3, 0); allowed: at least one row"),
        ("no rows", tensors_of("F32", &[0, 4], b""), "field `v.shape`: found (0, 4)"),
        (
            "too wide",
            tensors_of("F16", &[1, 65537], &[0; 131_074]),
            "found (1, 65537); allowed: at least one row, of 1",
        ),
        ("huge shape", of(json!({"v": entry("F32", &[1 << 62, 4], 0, 48)})), "a damaged heading ("),
        ("many rows", of(json!({"v": entry("F32", &[1 << 40, 4], 0, 1 << 44)})), "allowed: 17592186044416, as the"),
        ("other place", of(json!({"v": entry("F32", &[2, 4], 16, 48)})), "a damaged heading ("),
        ("overlap", of(json!({"v": entry("F32", &[3, 4], 0, 48), "w": entry("F32", &[3, 4], 0, 48)})), "damaged head"),
        ("cut numbers", good[..good.len() - 5].to_vec(), "found 43 bytes behind the heading; allowed: 48, as the"),
        ("more bytes", [&good[..], b"x"].concat(), "found 49 bytes behind the heading"),
        ("NaN", tensors_of("F32", &[3, 4], &with_number(5, f32::NAN)), "record 2: field `[1]`: found NaN"),
        ("inf", tensors_of("F32", &[3, 4], &with_number(11, f32::NEG_INFINITY)), "record 3: field `[3]`: found -inf"),
    ];
    assert!(cases.len() >= 20);
    for (label, bytes, says) in cases {
        let error = error(&spec(&folder.write("p.safetensors", bytes)), label);
        assert!(error.contains(says), "{label}: {error}");
    }
    let missing = VectorSpec { tensor: Some("x".to_owned()), ..spec(&folder.write("p.safetensors", of(two))) };
    let error = error(&missing, "missing tensor");
    assert!(error.contains("found no tensor \"x\"; allowed: \"v\", \"w\""), "{error}");
}

#[test]
fn malformed_parquet_files_have_one_error_each() {
    let folder = Folder::new();
    let good = good_parquet();
    let of = |rows: Vec<Option<Vec<Option<f32>>>>| parquet_of(vec![("id", ids()), ("vector", lists(&rows))]);
    let changed = |at: usize, row: Option<Vec<Option<f32>>>| {
        let mut rows = good_lists();
        rows[at] = row;
        of(rows)
    };
    let four = |number: Option<f32>| Some(vec![Some(1.0), number, Some(0.0), Some(2.0)]);
    let with_ids = |ids: ArrayRef| parquet_of(vec![("id", ids), ("vector", lists(&good_lists()))]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1,2", "3,4", "5,6"]));
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"a"[..], b"\xff\xfe", b"c"]));
    let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]));
    let big = ListArray::from_iter_primitive::<Float64Type, _, _>([1.0, 1e300, 2.0].map(|number| Some([Some(number)])));
    let words = {
        let mut builder = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
        for word in ["x", "y", "z"] {
            builder.values().append_value(word);
            builder.append(true);
        }
        Arc::new(builder.finish()) as ArrayRef
    };
    let flipped = |from_end: usize| {
        let mut bytes = good.clone();
        let at = bytes.len() - from_end;
        bytes[at] ^= 0xff;
        bytes
    };
    let mut huge = good.clone();
    let at = huge.len() - 8;
    huge[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", Vec::new(), "holds no rows"),
        ("text", b"id,vector\n".to_vec(), "starts with `id,vector`"),
        ("magic", flipped_to(&good, 0, b'Q'), "starts with `QAR1"),
        ("magic alone", b"PAR1".to_vec(), "cannot be read as Parquet"),
        ("cut", good[..good.len() / 2].to_vec(), "cannot be read as Parquet"),
        ("cut by a byte", good[..good.len() - 1].to_vec(), "cannot be read as Parquet"),
        ("footer's mark", flipped(1), "cannot be read as Parquet"),
        ("huge footer", huge, "cannot be read as Parquet"),
        ("flipped footer", flipped(40), "cannot be read as Parquet"),
        ("no rows", parquet_of(vec![("id", ids().slice(0, 0)), ("vector", lists(&[]))]), "holds no rows"),
        ("no vectors", parquet_of(vec![("id", ids())]), "field `vector`: found no such column, but \"id\""),
        (
            "no ids",
            parquet_of(vec![("vector", lists(&good_lists()))]),
            "field `id`: found no such column, but \"vector\"",
        ),
        ("null vector", changed(1, None), "record 2: field `vector`: found nothing; allowed: this field is required"),
        ("null number", changed(2, four(None)), "record 3: field `vector[1]`: found null; allowed: finite numbers"),
        (
            "ragged",
            changed(2, Some(vec![Some(1.0); 5])),
            "record 3: field `vector`: found a list of 5; allowed: a list of 4",
        ),
        ("empty list", changed(1, Some(vec![])), "record 2: field `vector`: found a list of 0; allowed: a list of 4"),
        (
            "zero width",
            of(vec![Some(vec![]); 3]),
            "record 1: field `vector`: found a list of 0; allowed: lists of 1 to",
        ),
        (
            "too wide",
            of(vec![Some(vec![Some(0.0); 65537]); 3]),
            "record 1: field `vector`: found a list of 65537; allowed: lists",
        ),
        ("NaN", changed(0, four(Some(f32::NAN))), "record 1: field `vector[1]`: found a number that is not finite"),
        ("inf", changed(2, four(Some(f32::INFINITY))), "record 3: field `vector[1]`: found a number that is not"),
        (
            "1e300",
            parquet_of(vec![("id", ids()), ("vector", Arc::new(big))]),
            "record 2: field `vector[0]`: found 1e300",
        ),
        (
            "texts",
            parquet_of(vec![("id", ids()), ("vector", texts)]),
            "record 1: field `vector`: found the string \"1,2\"",
        ),
        (
            "words",
            parquet_of(vec![("id", ids()), ("vector", words)]),
            "record 1: field `vector[0]`: found the string \"x\"",
        ),
        ("flat", parquet_of(vec![("id", ids()), ("vector", flat)]), "record 1: field `vector`: found the number 1"),
        ("bytes", with_ids(bytes), "record 2: field `id`: found bytes that are not UTF-8"),
        (
            "null id",
            with_ids(Arc::new(StringArray::from(vec![Some("a"), Some("b"), None]))),
            "record 3: field `id`: found nothing; allowed: this field is required",
        ),
        (
            "empty id",
            with_ids(Arc::new(StringArray::from(vec!["", "b", "c"]))),
            "record 1: field `id`: found the string \"\"",
        ),
    ];
    assert!(cases.len() >= 20);
    for (label, bytes, says) in cases {
        let error = error(&spec(&folder.write("p.parquet", bytes)), label);
        assert!(error.contains(says), "{label}: {error}");
    }
}

#[test]
fn a_flipped_byte_is_an_error_or_other_finite_numbers() {
    let folder = Folder::new();
    let files = [
        ("p.npy", npy_of("<f4", "(3, 4)", &f32_bytes())),
        ("p.safetensors", tensors_of("F32", &[3, 4], &f32_bytes())),
        ("p.parquet", good_parquet()),
    ];
    for (name, good) in files {
        let mut refused = 0;
        for at in 0..good.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut bytes = good.clone();
                bytes[at] ^= mask;
                match read(&spec(&folder.write(name, bytes))) {
                    Err(_) => refused += 1,
                    Ok(rows) => assert!(rows.iter().flat_map(|(_, row)| row).all(|number| number.is_finite())),
                }
            }
        }
        assert!(refused > good.len() / 4, "{name}: {refused} of {}", 3 * good.len());
    }
}

#[test]
fn names_that_do_not_fit_are_errors_of_their_line() {
    let folder = Folder::new();
    let file = folder.write("p.npy", npy_of("<f4", "(3, 4)", &f32_bytes()));
    let long = vec![b'a'; 2 << 20];
    for (label, names, says) in [
        ("fewer", &b"a\nb\n"[..], "names.txt: found 2 lines; allowed: 3, one for each row of "),
        ("more", b"a\nb\nc\nd\ne", "names.txt: found 5 lines; allowed: 3"),
        ("none", b"", "names.txt: found 0 lines; allowed: 3"),
        ("no UTF-8", b"a\n\xff\nc\n", "names.txt:2: record 2: found bytes that are not UTF-8; allowed: UTF-8"),
        ("an empty line", b"a\n\nc\n", "names.txt:2: record 2: found an empty line; allowed: one name a line"),
        ("an endless line", &long, "names.txt:1: record 1: found a line of a megabyte or more"),
    ] {
        let error = read(&named(&file, &folder.write("names.txt", names))).expect_err(label);
        assert!(error.contains(says), "{label}: {error}");
    }
    let error = read(&named(&file, &folder.0.path().join("missing.txt"))).unwrap_err();
    assert!(error.contains("cannot open") && error.contains("missing.txt"), "{error}");
}

#[test]
fn settings_of_another_kind_of_file_are_refused() {
    let folder = Folder::new();
    let array = spec(&folder.write("p.npy", npy_of("<f4", "(3, 4)", &f32_bytes())));
    let table = spec(&folder.write("p.parquet", good_parquet()));
    let names = Some(NameFile { path: folder.write("n.txt", "a\nb\nc\n"), setting: "ids" });
    let tensor = Some("v".to_owned());
    let column = VectorSpec { vector_column: tensor.clone(), ..array.clone() };
    for (spec, says) in [
        (
            VectorSpec { tensor: tensor.clone(), ..array.clone() },
            "p.npy: found the setting `tensor` (v); allowed: it with a safetensors",
        ),
        (column, "p.npy: found the setting `vector` (v); allowed: it with a Parquet file"),
        (
            VectorSpec { name_setting: Some("text"), ..array },
            "p.npy: found the setting `text` (a column); allowed: it with a Parquet",
        ),
        (
            VectorSpec { tensor, ..table.clone() },
            "p.parquet: found the setting `tensor` (v); allowed: it with a safetensors",
        ),
        (
            VectorSpec { names, ..table },
            "p.parquet: found the setting `ids` (a file of names); allowed: it with a NumPy or",
        ),
    ] {
        let error = read(&spec).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
    for (path, says) in [(folder.0.path().to_owned(), "is a folder"), (folder.0.path().join("none"), "cannot open")] {
        let error = read(&spec(&path)).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}
