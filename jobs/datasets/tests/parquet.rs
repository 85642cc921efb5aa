//! Parquet files of other writers: every codec and page version, wrong values, and hundreds of damages.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::Int32Type;
use hopeval_datasets::{
    DatasetSpec, FieldMapping, Format, GoldPassage, PassageMapping, PassageRecord, PassageSpec, Passages, Question,
    Questions, RowPolicy, check_dataset, detect_format,
};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parquet").join(format!("{name}.parquet"))
}

fn mapping(pairs: &[(&str, &str)]) -> FieldMapping {
    let pairs: Vec<(String, String)> = pairs.iter().map(|(name, path)| (name.to_string(), path.to_string())).collect();
    FieldMapping::from_pairs(&pairs).unwrap()
}

/// The mapping of the files of `make.py`.
fn own() -> FieldMapping {
    mapping(&[
        ("id", "qid"),
        ("question", "query"),
        ("answers", "golds"),
        ("gold_titles", "positives.title"),
        ("gold_texts", "positives.text"),
        ("context_titles", "passages.name"),
        ("context_texts", "passages.sents"),
        ("hops", "meta.hops"),
        ("strata.domain", "meta.domain"),
    ])
}

fn read(path: &Path, fields: FieldMapping) -> Result<Vec<Question>, String> {
    let spec = DatasetSpec { fields: Some(fields), ..DatasetSpec::file(path) };
    let questions = Questions::open(&spec, RowPolicy::Strict).map_err(|error| chain(&error))?;
    questions.map(|question| question.map_err(|error| chain(&error))).collect()
}

/// An error with its causes, as the program prints them.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[test]
fn every_codec_and_page_version_has_the_same_questions() {
    let plain = read(&fixture("none"), own()).unwrap();
    for name in ["snappy", "gzip", "zstd", "pages-2", "deltas", "checksums"] {
        assert_eq!(read(&fixture(name), own()).unwrap(), plain, "{name}");
    }
    let gold = |title: &str, text: &str| GoldPassage {
        title: Some(title.to_owned()),
        text: Some(text.to_owned()),
        ..GoldPassage::default()
    };
    let [first, second, third] = plain.as_slice() else { panic!("{} questions", plain.len()) };
    assert_eq!((first.id.as_str(), first.text.as_str()), ("1", "Who painted the ceiling?"));
    assert_eq!(first.answers, ["Michelangelo", "Buonarroti"]);
    assert_eq!(first.gold, [gold("Chapel", "The chapel has a ceiling."), gold("Painter", "He painted it.")]);
    let chapel = PassageRecord::from_sentences("Chapel".into(), &["The chapel has a ceiling.", " It is high."], "");
    assert_eq!(first.candidates[0], chapel);
    assert_eq!((first.candidates.len(), first.hops, first.strata["domain"].as_str()), (2, Some(2), "art"));
    assert_eq!((second.text.as_str(), second.answers.len(), second.hops), ("Wer malte das Bild, ü?", 0, None));
    assert_eq!((third.id.as_str(), third.gold.len(), third.strata.len()), ("3", 0, 0));
}

#[test]
fn codecs_that_are_not_read_are_named() {
    let error = read(&fixture("lz4"), own()).unwrap_err();
    assert!(error.ends_with("allowed: nothing, SNAPPY, GZIP, ZSTD"), "{error}");
    assert!(error.contains("lz4.parquet: ") && error.contains("row group 0, column `"), "{error}");
}

#[test]
fn wrong_values_name_record_and_field() {
    let error = |pairs: &[(&str, &str)]| {
        let error = read(&fixture("snappy"), mapping(pairs)).unwrap_err();
        error.split_once("snappy.parquet: ").unwrap().1.to_owned()
    };
    assert_eq!(
        error(&[("question", "made")]),
        "record 1: field `made`: found a point in time; allowed: a string that is not empty"
    );
    assert_eq!(
        error(&[("question", "score")]),
        "record 1: field `score`: found the number 0.5; allowed: a string that is not empty"
    );
    let text = error(&[("question", "frage")]);
    assert_eq!(
        text,
        "record 1: field `frage`: found nothing; allowed: this field is required: `question` is read from it; the row \
         has qid, query, golds, positives, meta, passages, score, made"
    );
    let text = error(&[("question", "query"), ("answers", "antworten")]);
    assert_eq!(
        text,
        "field `antworten`: none of 3 rows has it, and the mapping reads `answers` from it; allowed: fields of the \
         rows, such as qid, query, golds, positives, meta, passages, score, made"
    );
}

#[test]
fn a_check_says_parquet_and_names_unread_fields() {
    let fields = Some(mapping(&[("id", "qid"), ("question", "query"), ("answers", "golds")]));
    let report = check_dataset(&DatasetSpec { fields, ..DatasetSpec::file(fixture("snappy")) }).unwrap();
    assert_eq!((report.format, report.parquet, report.questions, report.bad_rows), (Format::Fields, true, 3, 0));
    let unread: Vec<(&str, u64)> = report.unread.iter().map(|(name, rows)| (name.as_str(), *rows)).collect();
    assert_eq!(unread, [("made", 1), ("meta", 2), ("passages", 2), ("positives", 3), ("score", 2)]);
    assert!(report.to_string().contains("plain, Parquet, "), "{report}");
    // Wrong rows are set aside as JSON.
    let (send, set_aside) = std::sync::mpsc::channel();
    let policy = RowPolicy::Quarantine(Box::new(move |row| drop(send.send(row.raw))));
    let fields = Some(mapping(&[("question", "query"), ("hops", "meta.domain")]));
    let mut questions =
        Questions::open(&DatasetSpec { fields, ..DatasetSpec::file(fixture("snappy")) }, policy).unwrap();
    assert_eq!((questions.by_ref().filter(Result::is_ok).count(), questions.quarantined()), (1, 2));
    let rows: Vec<String> = set_aside.try_iter().collect();
    assert!(rows[0].contains(r#""made":"(a point in time)","meta":{"domain":"art","hops":2}"#), "{rows:?}");
    assert!(rows[1].contains(r#""qid":2,"query":"Wer malte das Bild, ü?","score":null"#), "{rows:?}");
}

/// A table with the given columns, `rows` rows to a row group.
fn write_table(path: &Path, columns: Vec<(&str, ArrayRef)>, rows: usize) {
    write_as(path, columns, WriterProperties::builder().set_max_row_group_row_count(Some(rows)));
}

fn write_as(path: &Path, columns: Vec<(&str, ArrayRef)>, properties: WriterPropertiesBuilder) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = properties.build();
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn texts(count: usize, text: impl Fn(usize) -> String) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..count).map(text)))
}

#[test]
fn known_formats_come_as_parquet() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("questions");
    let answers = ListArray::from_iter_primitive::<Int32Type, _, _>((0..700).map(|n| Some([Some(n), Some(n + 1)])));
    let columns = vec![
        ("id", texts(700, |n| format!("q{n}"))),
        ("question", texts(700, |n| format!("question {n}?"))),
        ("golden_answers", Arc::new(answers) as ArrayRef),
    ];
    write_table(&path, columns, 300);
    assert_eq!(detect_format(&path).unwrap(), Format::FlashRag);
    let questions: Vec<Question> =
        Questions::open(&DatasetSpec::file(&path), RowPolicy::Strict).unwrap().map(Result::unwrap).collect();
    assert_eq!((questions.len(), questions[699].id.as_str()), (700, "q699"));
    assert_eq!(questions[699].answers, ["699", "700"]);

    let path = folder.path().join("corpus");
    let passages = || vec![("docid", texts(9, |n| n.to_string())), ("body", texts(9, |n| format!("text {n}")))];
    write_table(&path, passages(), 4);
    let fields = PassageMapping { id: Some("docid".into()), text: Some("body".into()), title: None };
    let spec = PassageSpec { fields: Some(fields), ..PassageSpec::file(&path) };
    let read: Vec<PassageRecord> =
        Passages::open(&spec, RowPolicy::Strict).unwrap().map(|passage| passage.unwrap()).collect();
    assert_eq!((read.len(), read[8].id.as_deref(), read[8].text.as_str()), (9, Some("8"), "text 8"));
    let titled = vec![("title", texts(9, |n| format!("T{n}"))), ("text", texts(9, |n| format!("text {n}")))];
    write_table(&path, titled, 4);
    let read: Vec<_> = Passages::open(&PassageSpec::file(&path), RowPolicy::Strict).unwrap().collect();
    assert_eq!((read.len(), read[8].as_ref().unwrap().title.as_str()), (9, "T8"));

    write_table(&path, vec![("title", texts(0, |n| n.to_string())), ("text", texts(0, |n| n.to_string()))], 4);
    let error = chain(&Passages::open(&PassageSpec::file(&path), RowPolicy::Strict).err().unwrap());
    assert!(error.ends_with("corpus: holds no rows"), "{error}");
    let numbers = Arc::new(Int64Array::from_iter_values(0..3)) as ArrayRef;
    write_table(&path, vec![("title", texts(3, |n| n.to_string())), ("text", numbers)], 4);
    let error = Passages::open(&PassageSpec::file(&path), RowPolicy::Strict).unwrap().next().unwrap().unwrap_err();
    let error = chain(&error);
    assert!(error.ends_with("corpus: record 1: field `text`: found the number 0; allowed: a string"), "{error}");
}

/// How reading a damaged file may end.
#[derive(Debug, Default)]
struct DamageCounts {
    errors: usize,
    /// Of these, panics of the decoder that were caught.
    panics: usize,
    same: usize,
    /// As many questions, another content: a changed value in a page without a checksum, or a changed name.
    other: usize,
}

/// A generator of numbers (Knuth's, 64 bits).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

/// Reads `whole` with `count` damages: flipped bits, overwritten words, removed ends.
fn damage(whole: &[u8], count: usize, fields: &FieldMapping) -> DamageCounts {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("damaged.parquet");
    fs::write(&path, whole).unwrap();
    let undamaged = read(&path, fields.clone()).unwrap();
    let mut numbers = Numbers(whole.len() as u64);
    let mut counts = DamageCounts::default();
    for n in 0..count {
        let mut bytes = whole.to_vec();
        // Half of the damages hit the footer and its surroundings.
        let at = if n % 2 == 0 { numbers.below(bytes.len()) } else { bytes.len() - 1 - numbers.below(bytes.len() / 4) };
        match n % 8 {
            0..=4 => bytes[at] ^= 1 << numbers.below(8),
            5 => bytes[at] = [0x00, 0x7f, 0x80, 0xff][numbers.below(4)],
            6 => bytes[at..].iter_mut().take(4).for_each(|byte| *byte = 0xff),
            _ => bytes.truncate(at),
        }
        if bytes == whole {
            counts.same += 1;
            continue;
        }
        fs::write(&path, &bytes).unwrap();
        match read(&path, fields.clone()) {
            Err(error) => {
                assert!(error.contains("damaged.parquet"), "damage {n} at {at}: the file is not named: {error}");
                counts.errors += 1;
                counts.panics += usize::from(error.contains("its decoder stopped"));
            }
            Ok(questions) => {
                assert_eq!(questions.len(), undamaged.len(), "damage {n} at {at}: rows are lost in silence");
                if questions == undamaged { counts.same += 1 } else { counts.other += 1 }
            }
        }
    }
    counts
}

#[test]
fn damaged_files_end_with_errors_or_all_rows() {
    for name in ["none", "snappy", "gzip", "zstd", "pages-2", "deltas"] {
        let counts = damage(&fs::read(fixture(name)).unwrap(), 160, &own());
        println!("{name}: {counts:?}");
        assert!(counts.errors > 40 && counts.same > 0, "{name}: {counts:?}");
    }
}

/// Long columns with dictionaries, several pages and row groups, of this project's own writer.
#[test]
fn damaged_long_files_end_with_errors_or_all_rows() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("long");
    let answers =
        ListArray::from_iter_primitive::<Int32Type, _, _>((0..900).map(|n| (n % 7 > 0).then_some([Some(n % 5), None])));
    let columns = vec![
        ("id", texts(900, |n| format!("question-{n}"))),
        ("question", texts(900, |n| format!("question {} of {}?", n % 13, n * n))),
        ("answers", Arc::new(answers) as ArrayRef),
        ("type", texts(900, |n| ["bridge", "comparison", "inference"][n % 3].to_owned())),
    ];
    let fields = mapping(&[("id", "id"), ("question", "question"), ("answers", "answers"), ("type", "type")]);
    let groups = WriterProperties::builder().set_max_row_group_row_count(Some(400));
    let deltas = groups.clone().set_writer_version(WriterVersion::PARQUET_2_0).set_dictionary_enabled(false);
    for (name, properties) in [("dictionaries", groups), ("deltas", deltas)] {
        write_as(&path, columns.clone(), properties);
        let counts = damage(&fs::read(&path).unwrap(), 240, &fields);
        println!("{name}: {counts:?}");
        assert!(counts.errors > 80, "{name}: {counts:?}");
    }
}

/// A damage of a page with a checksum is never taken for content.
#[test]
fn checksums_of_pages_are_compared() {
    let whole = fs::read(fixture("checksums")).unwrap();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    let undamaged = read(&fixture("checksums"), own()).unwrap();
    let place = whole.windows(24).position(|window| window == b"Who painted the ceiling?").unwrap();
    for at in place..place + 24 {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        match read(&path, own()) {
            // The statistics have the same text, and nobody reads them.
            Ok(questions) => assert_eq!(questions, undamaged, "byte {at}"),
            Err(error) => assert!(error.contains("checksum"), "byte {at}: {error}"),
        }
    }
}
