//! The files: of a generated world, of MuSiQue and of 2WikiMultihopQA, and their schema beside the authors'.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

#[path = "support/indexed_corpus.rs"]
mod indexed_corpus;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int8Type, Int32Type};
use hopeval_construct::{ConstructError, ConstructReport, ConstructSettings, KeptWords, construct, words};
use hopeval_datasets::{DatasetSpec, PassageSpec, Passages, Questions, RowPolicy};
use hopeval_world::{WorldSettings, WorldSplit, generate_world};
use indexed_corpus::IndexedCorpus;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

const TABLES: [&str; 5] = ["labeler", "filter", "scorer", "reader", "encoder"];

/// The questions' own candidates.
fn contexts(questions: &Path) -> IndexedCorpus {
    let all = Questions::open(&DatasetSpec::file(questions), RowPolicy::Strict).unwrap();
    IndexedCorpus::from_passages(all.flat_map(|question| question.unwrap().candidates))
}

fn made(
    indexed: &IndexedCorpus,
    questions: &Path,
    settings: &ConstructSettings,
) -> (ConstructReport, tempfile::TempDir) {
    let out = tempfile::tempdir().unwrap();
    let spec = DatasetSpec::file(questions);
    let report = construct(&spec, &mut indexed.library(), settings, out.path(), &mut |_| ()).unwrap();
    check(out.path(), &report);
    (report, out)
}

/// A file of the folder of data beside the repository.
fn shared(path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(path);
    if !found.exists() {
        eprintln!("SKIPPED: ../shared/data/{path} is not there");
        return None;
    }
    Some(found)
}

fn batches(path: &Path) -> Vec<RecordBatch> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    builder.build().unwrap().map(Result::unwrap).collect()
}

fn texts(batch: &RecordBatch, column: &str) -> Vec<String> {
    batch.column_by_name(column).unwrap().as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).collect()
}

fn lists(batch: &RecordBatch, column: &str) -> Vec<Vec<String>> {
    let lists = batch.column_by_name(column).unwrap().as_list::<i32>();
    lists.iter().map(|list| list.unwrap().as_string::<i32>().iter().map(|t| t.unwrap().to_owned()).collect()).collect()
}

fn flags(batch: &RecordBatch, column: &str) -> Vec<Vec<bool>> {
    let lists = batch.column_by_name(column).unwrap().as_list::<i32>();
    lists.iter().map(|list| list.unwrap().as_boolean().iter().map(Option::unwrap).collect()).collect()
}

fn hops(batch: &RecordBatch) -> Vec<i32> {
    batch.column_by_name("hop").unwrap().as_primitive::<Int32Type>().values().to_vec()
}

fn relevance(batch: &RecordBatch) -> Vec<i8> {
    batch.column_by_name("relevance").unwrap().as_primitive::<Int8Type>().values().to_vec()
}

fn kept(words: &[String], labels: &[bool]) -> String {
    let kept: Vec<&str> = words.iter().zip(labels).filter(|(_, kept)| **kept).map(|(word, _)| word.as_str()).collect();
    kept.join(" ")
}

/// Checks every row by rules for all datasets.
fn check(folder: &Path, report: &ConstructReport) {
    for table in TABLES {
        let rows: usize = batches(&folder.join(format!("{table}.parquet"))).iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows as u64, report.rows[table], "{table}");
    }
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), TABLES.len(), "{left:?}");
    let mut next = BTreeMap::new();
    for batch in batches(&folder.join("filter.parquet")) {
        let (tokens, labels) = (lists(&batch, "query_info_tokens"), flags(&batch, "query_info_labels"));
        let (ids, hops) = (texts(&batch, "question_id"), hops(&batch));
        for at in 0..batch.num_rows() {
            assert_eq!(tokens[at][..2], ["Query", ":"]);
            assert_eq!(tokens[at].len(), labels[at].len());
            assert_eq!(
                words::owned_words(&tokens[at].join(" ")),
                tokens[at],
                "cutting the words again changes nothing"
            );
            next.insert((ids[at].clone(), hops[at] + 1), kept(&tokens[at], &labels[at]));
        }
    }
    for batch in batches(&folder.join("labeler.parquet")) {
        let (chunks, tokens, labels) = (texts(&batch, "chunk"), lists(&batch, "chunk_tokens"), flags(&batch, "labels"));
        let (matched, tags) = (texts(&batch, "matched"), texts(&batch, "tag"));
        let (ids, hops, queries) = (texts(&batch, "question_id"), hops(&batch), texts(&batch, "question"));
        for at in 0..batch.num_rows() {
            assert_eq!(words::owned_words(&chunks[at]), tokens[at]);
            assert_eq!(tokens[at].len(), labels[at].len());
            assert_eq!(kept(&tokens[at], &labels[at]), matched[at]);
            assert!(tags[at] != "<TERMINATE>" || matched[at].is_empty());
            if hops[at] > 0 {
                assert_eq!(next[&(ids[at].clone(), hops[at])], queries[at], "a query is what the filter kept");
            }
        }
    }
    for batch in batches(&folder.join("reader.parquet")) {
        let (passages, answers, relevance) = (lists(&batch, "passages"), texts(&batch, "answer"), relevance(&batch));
        for at in 0..batch.num_rows() {
            let held = passages[at].iter().any(|passage| passage.contains(&answers[at]));
            let (right, answer) = (relevance[at] == 1, answers[at].as_str());
            assert!(if right { held || matches!(answer, "yes" | "no") } else { answer.is_empty() }, "{answer}");
        }
    }
    let (mut right, mut questions) = (BTreeSet::new(), Vec::new());
    for batch in batches(&folder.join("scorer.parquet")) {
        let (paths, ids) = (lists(&batch, "path"), texts(&batch, "question_id"));
        for (at, relevance) in relevance(&batch).into_iter().enumerate() {
            assert!((1..=2).contains(&paths[at].len()) && (0..=2).contains(&relevance));
            if relevance == 2 {
                right.insert(ids[at].clone());
            }
        }
        questions.extend(ids);
    }
    questions.dedup();
    assert_eq!(questions.len(), right.len(), "the rows of a question stand together, and have a right path");
    for batch in batches(&folder.join("encoder.parquet")) {
        let (positives, negatives) = (texts(&batch, "positive"), lists(&batch, "negatives"));
        assert!(positives.iter().zip(&negatives).all(|(positive, negatives)| !negatives.contains(positive)));
    }
}

fn world(questions: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let settings = WorldSettings::new(questions, 400, 3, WorldSplit::Train);
    generate_world(&settings, folder.path(), |_| ()).unwrap();
    folder
}

#[test]
fn a_world_is_used_whole_and_gives_the_same_bytes_again() {
    let world = world(120);
    let (path, corpus) = (world.path().join("questions.jsonl"), world.path().join("corpus.jsonl"));
    let indexed = IndexedCorpus::from_passages(
        Passages::open(&PassageSpec::file(corpus), RowPolicy::Strict).unwrap().map(Result::unwrap),
    );
    let (report, out) = made(&indexed, &path, &ConstructSettings::default());
    assert_eq!(report.questions, 120);
    assert!(report.skipped.is_empty() && report.cut_short.is_empty(), "{report}");
    assert_eq!((report.gold_without_span, report.queries_without_question), (0, 0), "{report}");
    let (again, other) = made(&indexed, &path, &ConstructSettings::default());
    assert_eq!(again, report);
    for table in TABLES {
        let bytes = |folder: &Path| std::fs::read(folder.join(format!("{table}.parquet"))).unwrap();
        assert_eq!(bytes(out.path()), bytes(other.path()), "{table}");
    }
    let answers = ConstructSettings {
        keep: KeptWords::Answer,
        negatives: 3,
        random_negatives: 1,
        ..ConstructSettings::default()
    };
    let (fewer, _) = made(&indexed, &path, &answers);
    assert!(fewer.kept_words < report.kept_words && fewer.gold_words == report.gold_words, "{fewer}");
    let gold = fewer.tags["<CONTINUE>"] + fewer.tags["<FINISH>"];
    assert!(fewer.tags["<TERMINATE>"] > 3 * gold && report.tags["<TERMINATE>"] <= gold, "{fewer}");
}

#[test]
fn musique_gives_rows_for_nearly_every_question() {
    let Some(path) = shared("musique/train_299.jsonl.gz") else { return };
    let (report, _) = made(&contexts(&path), &path, &ConstructSettings::default());
    assert_eq!(report.questions, 299);
    assert!(report.skipped.is_empty(), "{report}");
    let cut: u64 = report.cut_short.values().sum();
    assert!(cut * 20 <= report.questions, "{report}");
    assert!(report.queries_without_question * 20 <= report.rows["filter"], "{report}");
}

#[test]
fn two_wiki_gives_rows_for_nearly_every_question() {
    let Some(path) = shared("2wikimultihopqa/train_500.json.gz") else { return };
    let (report, _) = made(&contexts(&path), &path, &ConstructSettings::default());
    assert_eq!(report.questions, 500);
    let skipped: u64 = report.skipped.values().chain(report.cut_short.values()).sum();
    assert!(skipped * 20 <= report.questions, "{report}");
    assert!(report.queries_without_question * 20 <= report.rows["filter"], "{report}");
}

/// Columns of a JSON Lines file with the types of their values, and the values of the column `tag`.
fn published(path: &Path) -> (Vec<(String, DataType)>, BTreeSet<String>) {
    let bytes = lines(path);
    let mut columns: Vec<(String, DataType)> = Vec::new();
    let mut tags = BTreeSet::new();
    for line in bytes {
        let row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
        let of = |value: &serde_json::Value| match value {
            serde_json::Value::Array(items) => match items.first() {
                Some(serde_json::Value::Bool(_)) => "bools",
                _ => "texts",
            },
            _ => "text",
        };
        for (name, value) in &row {
            let data_type = match of(value) {
                "bools" => DataType::new_list(DataType::Boolean, true),
                "texts" => DataType::new_list(DataType::Utf8, true),
                _ => DataType::Utf8,
            };
            if !columns.contains(&(name.clone(), data_type.clone())) {
                columns.push((name.clone(), data_type));
            }
        }
        tags.extend(row.get("tag").and_then(|tag| tag.as_str()).map(str::to_owned));
    }
    columns.sort_by(|a, b| a.0.cmp(&b.0));
    (columns, tags)
}

fn lines(path: &Path) -> Vec<String> {
    let file = BufReader::new(flate2::read::MultiGzDecoder::new(File::open(path).unwrap()));
    file.lines().map(Result::unwrap).collect()
}

#[test]
fn the_authors_columns_are_there_with_their_types_and_tags() {
    let (Some(questions), Some(labeler), Some(filter)) = (
        shared("musique/train_299.jsonl.gz"),
        shared("efficientrag_labels/labeler_musique.jsonl.gz"),
        shared("efficientrag_labels/filter_musique_train.jsonl.gz"),
    ) else {
        return;
    };
    let (report, out) = made(&contexts(&questions), &questions, &ConstructSettings::default());
    for (theirs, ours, count) in [(labeler, "labeler", 6), (filter, "filter", 2)] {
        let (columns, tags) = published(&theirs);
        assert_eq!(columns.len(), count, "one type for each column");
        let batch = &batches(&out.path().join(format!("{ours}.parquet")))[0];
        let schema = batch.schema();
        let mut first: Vec<(String, DataType)> =
            schema.fields().iter().take(count).map(|f| (f.name().clone(), f.data_type().clone())).collect();
        first.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(first, columns, "{ours}");
        assert!(tags.is_empty() || tags.iter().map(String::as_str).eq(report.tags.keys().copied()), "{tags:?}");
    }
}

#[test]
fn a_dataset_without_annotations_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("questions.json");
    let row = r#"[{"_id": "a", "question": "Who?", "answer": "Ann", "type": "bridge", "level": "hard",
        "supporting_facts": [["Ann", 0]], "context": [["Ann", ["Ann is Ann."]]]}]"#;
    std::fs::write(&path, row).unwrap();
    let (indexed, out) = (contexts(&path), folder.path().join("rows"));
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("labeler.parquet"), "what was there").unwrap();
    let run = |spec: &DatasetSpec, out: &Path| {
        construct(spec, &mut indexed.library(), &ConstructSettings::default(), out, &mut |_| ()).unwrap_err()
    };
    let error = run(&DatasetSpec::file(&path), &out);
    assert!(matches!(error, ConstructError::NoRows { .. }));
    assert_eq!(
        error.to_string(),
        "none of the 1 questions has given a row; no decomposition and no evidences (musique, 2wikimultihopqa and \
         world have them): 1"
    );
    let left: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["labeler.parquet"], "nothing half-written stays");
    assert_eq!(std::fs::read_to_string(out.join("labeler.parquet")).unwrap(), "what was there");

    let bad = folder.path().join("bad.jsonl");
    std::fs::write(&bad, "{\"id\": \"2hop__1_2\", \"question\": 7}\n").unwrap();
    let spec = DatasetSpec { format: Some(hopeval_datasets::Format::Musique), ..DatasetSpec::file(&bad) };
    let message = run(&spec, &out).to_string();
    assert!(message.contains("bad.jsonl") && message.contains('1'), "{message}");
    let occupied = folder.path().join("occupied");
    std::fs::write(&occupied, "").unwrap();
    assert!(run(&DatasetSpec::file(&path), &occupied).to_string().contains("occupied"));
}
