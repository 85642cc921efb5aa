//! The service over files: its fingerprint, its answers, and the errors of files that do not fit corpus and questions.

use super::*;
use crate::bad_value::BadValue;
use crate::services::conformance::{self, Effect, ServiceKind, check_kind, settings};
use hopeval_datasets::DatasetSpec;
use hopeval_index::Hit;
use hopeval_methods::request::{PassageId, RetrievePayload, Statistics};
use std::path::Path;

/// A NumPy file of rows of numbers.
fn npy(rows: &[[f32; 2]]) -> Vec<u8> {
    let mut heading = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, 2), }}", rows.len());
    heading += &" ".repeat(117_usize.saturating_sub(heading.len()));
    heading.push('\n');
    let length = (heading.len() as u16).to_le_bytes();
    let numbers = rows.iter().flatten().flat_map(|number| number.to_le_bytes());
    [&b"\x93NUMPY\x01\x00"[..], &length, heading.as_bytes()].concat().into_iter().chain(numbers).collect()
}

/// The vectors of the eight passages of the test's corpus, from the last to the first.
const PASSAGES: [[f32; 2]; 8] =
    [[7.0, 1.0], [6.0, -1.0], [5.0, 0.5], [4.0, 9.0], [3.0, 0.0], [2.0, 2.0], [1.0, -3.0], [0.5, 0.25]];

const QUESTIONS: &str = r#"{"id": "q1", "text": "bridges of Ghent", "answers": [], "gold": []}
{"id": "q2", "text": "cities", "answers": [], "gold": []}
"#;

/// A folder with files for a corpus of eight passages and a dataset of two questions.
fn files() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).expect("a file");
    write("questions.jsonl", QUESTIONS.as_bytes());
    write("p.npy", &npy(&PASSAGES));
    write("other.npy", &npy(&PASSAGES.map(|[a, b]| [a, b + 1.0])));
    write("ids.txt", (0..8).rev().map(|id| format!("{id}\n")).collect::<String>().as_bytes());
    write("q.npy", &npy(&[[1.0, 0.0], [-0.5, 2.0]]));
    write("p-copy.npy", &npy(&PASSAGES));
    write("texts.txt", b"bridges of Ghent\na rewritten query\n");
    dir
}

/// The table of a service over files in `dir`.
fn table(dir: &Path, passages: &str, questions: &str, more: &str) -> String {
    let at = |text: &str| text.replace("DIR", &dir.display().to_string());
    format!("passages = {}\nquestions = {}\n{more}", at(passages), at(questions))
}

const BY_ID: &str = "{ file = \"DIR/p.npy\", ids = \"DIR/ids.txt\" }";
const BY_ORDER: &str = "\"DIR/q.npy\"";

#[test]
fn dense_vectors_conforms() {
    let dir = files();
    let at = |text: &str| text.replace("DIR", &dir.path().display().to_string());
    let answers = [
        "passages = \"DIR/p.npy\"",
        "passages = { file = \"DIR/other.npy\", ids = \"DIR/ids.txt\" }",
        "questions = { file = \"DIR/q.npy\", texts = \"DIR/texts.txt\" }",
        "metric = \"cosine\"",
        "dtype = \"f16\"",
    ];
    let mut cases = settings(Effect::Answers, &answers.map(at).each_ref().map(String::as_str));
    // Another path of the same bytes.
    let copy = at("passages = { file = \"DIR/p-copy.npy\", ids = \"DIR/ids.txt\" }");
    cases.extend(settings(Effect::None, &[&copy]));
    let restricted = vec![PassageId(2), PassageId(5)];
    check_kind(&ServiceKind {
        kind: "dense_vectors",
        table: table(dir.path(), BY_ID, BY_ORDER, ""),
        questions: dir.path().join("questions.jsonl"),
        asks: vec![
            RetrievePayload::new("bridges of Ghent", 5).into(),
            RetrievePayload::new("cities", 20).into(),
            RetrievePayload::new("cities", 3).within(restricted, Statistics::Corpus).into(),
        ],
        settings: cases,
        ..ServiceKind::default()
    });
}

/// A service over files, in a folder with a cache of its own.
struct OpenedService {
    service: DenseVectorsService,
    corpus: Arc<Corpus>,
    _cache: tempfile::TempDir,
}

fn open(dir: &Path, table: &str) -> OpenedService {
    let cache = tempfile::tempdir().expect("a folder");
    let settings: DenseVectorsSettings = toml::from_str(table).unwrap_or_else(|error| panic!("{table}: {error}"));
    assert!(settings.check_values().is_ok(), "{table}");
    let spec = DatasetSpec::file(dir.join("questions.jsonl"));
    let service = DenseVectorsService {
        name: "own".to_owned(),
        settings,
        dataset: DatasetQuestions::new(spec),
        folder: Cache::new(cache.path().to_owned()).ensure_folder("indexes").expect("a folder"),
        cache: Cache::new(cache.path().to_owned()),
        opened: OnceLock::new(),
        opening: Mutex::new(()),
    };
    OpenedService { service, corpus: conformance::corpus(cache.path()), _cache: cache }
}

impl OpenedService {
    fn hits(&self, query: &str, k: u32) -> Result<Vec<Hit>, String> {
        let request = Request::new(&"own".into(), RetrievePayload::new(query, k));
        let response = self.service.answer(&self.corpus, &request);
        let hits = response.hits().map_err(|failure| failure.message)?;
        Ok(hits.iter().map(|hit| Hit { id: hit.passage.0, score: hit.score }).collect())
    }

    /// The error of opening, with its cause.
    fn refusal(&self) -> String {
        let error = self.service.probe(&self.corpus, &|_, _| ()).expect_err("files that do not fit");
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert_eq!(error.to_string(), "[service.own]: vectors");
        cause
    }
}

#[test]
fn scores_are_products_of_the_files_vectors() {
    let dir = files();
    let hit = |id, score| Hit { id, score };
    // The file's first row is of passage 7.
    let own = open(dir.path(), &table(dir.path(), BY_ID, BY_ORDER, ""));
    assert_eq!(own.hits("bridges of Ghent", 2), Ok(vec![hit(7, 7.0), hit(6, 6.0)]));
    assert_eq!(own.hits("cities", 2), Ok(vec![hit(4, 16.0), hit(2, 3.0)]));
    let refused = own.hits("a rewritten query", 2).unwrap_err();
    assert!(refused.contains("q.npy has no vector of the query \"a rewritten query\""), "{refused}");

    let order = open(dir.path(), &table(dir.path(), "\"DIR/p.npy\"", BY_ORDER, ""));
    assert_eq!(order.hits("bridges of Ghent", 1), Ok(vec![hit(0, 7.0)]));
    let texts = "{ file = \"DIR/q.npy\", texts = \"DIR/texts.txt\" }";
    let texts = open(dir.path(), &table(dir.path(), BY_ID, texts, ""));
    assert_eq!(texts.hits("a rewritten query", 1), Ok(vec![hit(4, 16.0)]), "a query that is no question");
    let missing = texts.service.check_question("q2", "cities").unwrap_err();
    let missing = std::error::Error::source(&missing).map(ToString::to_string).unwrap_or_default();
    assert!(
        missing.contains("q.npy: found no vector of question `q2` (\"cities\"); allowed: a vector of"),
        "{missing}"
    );
    assert!(texts.service.check_question("q1", "bridges of Ghent").is_ok());

    let cosine = open(dir.path(), &table(dir.path(), BY_ID, BY_ORDER, "metric = \"cosine\""));
    let best = cosine.hits("bridges of Ghent", 8).expect("an answer");
    assert_eq!((best[0].id, best[0].score), (3, 1.0), "the passage of the query's direction");
    assert!(best.iter().all(|hit| hit.score <= 1.0));
    // Plans rank something for queries that they invent, and run the others.
    let ask = |query: &str| Request::new(&"own".into(), RetrievePayload::new(query, 3));
    let planned = own.service.estimate(&own.corpus, &ask("what a plan invents"));
    assert_eq!(planned.hits().map(|hits| hits.len()), Ok(3));
    assert_eq!(own.service.estimate(&own.corpus, &ask("cities")), own.service.answer(&own.corpus, &ask("cities")));
}

#[test]
fn files_that_do_not_fit_have_one_error_each() {
    let dir = files();
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).expect("a file");
    let mut nine = PASSAGES.to_vec();
    nine.push([1.0, 1.0]);
    write("nine.npy", &npy(&nine));
    write("seven.npy", &npy(&PASSAGES[..7]));
    write("zero.npy", &npy(&[[1.0, 1.0], [0.0, 0.0]]));
    write("large.npy", &npy(&PASSAGES.map(|[a, b]| [a, b * 30_000.0])));
    write("long.npy", &npy(&PASSAGES.map(|[a, b]| [a * 1e18, b])));
    write("twice.txt", b"7\n6\n5\n4\n3\n2\n1\n7\n");
    write("unknown.txt", b"7\n6\n5\ntown 4\n3\n2\n1\n0\n");
    write("seven.txt", b"7\n6\n5\n4\n3\n2\n1\n");
    write("wide.npy", &{
        let mut bytes = npy(&[[1.0, 2.0], [3.0, 4.0]]);
        let at = bytes.windows(6).position(|text| text == b"(2, 2)").expect("its shape");
        bytes[at..at + 6].copy_from_slice(b"(1, 4)");
        bytes
    });
    write("q-ids.txt", b"q2\nq2\n");
    write("strangers.txt", b"q8\nq9\n");
    let passages = |file: &str, ids: &str| format!("{{ file = \"DIR/{file}\", ids = \"DIR/{ids}\" }}");
    let questions = |ids: &str| passages("q.npy", ids);
    let good = questions_in_order();
    for (label, passages, questions, more, says) in [
        (
            "more rows",
            "\"DIR/nine.npy\"".to_owned(),
            good.clone(),
            "",
            "nine.npy: found 9 rows without ids; allowed: 8, one",
        ),
        ("fewer rows", "\"DIR/seven.npy\"".to_owned(), good.clone(), "", "seven.npy: found 7 rows without ids"),
        (
            "twice",
            passages("p.npy", "twice.txt"),
            good.clone(),
            "",
            "twice.txt:8: record 8: found \"7\" once more; allowed: each",
        ),
        (
            "unknown",
            passages("p.npy", "unknown.txt"),
            good.clone(),
            "",
            "unknown.txt:4: record 4: found \"town 4\", which is no",
        ),
        (
            "missing",
            passages("seven.npy", "seven.txt"),
            good.clone(),
            "",
            "seven.npy: found no vector of passage `0` (1 of 8",
        ),
        (
            "names",
            passages("p.npy", "seven.txt"),
            good.clone(),
            "",
            "seven.txt: found 7 lines; allowed: 8, one for each row",
        ),
        (
            "half",
            "\"DIR/large.npy\"".to_owned(),
            good.clone(),
            "dtype = \"f16\"",
            "large.npy: record 4: found 270000; allowed: with",
        ),
        (
            "long",
            "\"DIR/long.npy\"".to_owned(),
            good.clone(),
            "",
            "long.npy: record 1: found a vector of length 7.000e18; allowed: len",
        ),
        (
            "width",
            BY_ID.to_owned(),
            questions_file("wide.npy"),
            "",
            "wide.npy: found 1 rows without ids; allowed: 2, one for each qu",
        ),
        (
            "zero",
            BY_ID.to_owned(),
            questions_file("zero.npy"),
            "metric = \"cosine\"",
            "zero.npy: record 2: found a vector of length 0e0",
        ),
        (
            "question twice",
            BY_ID.to_owned(),
            questions("q-ids.txt"),
            "",
            "q-ids.txt:2: record 2: found \"q2\" once more; allowed: each",
        ),
        (
            "strangers",
            BY_ID.to_owned(),
            questions("strangers.txt"),
            "",
            "q.npy: found 2 rows, none of them of a question of the",
        ),
    ] {
        let refusal = open(dir.path(), &table(dir.path(), &passages, &questions, more)).refusal();
        assert!(refusal.contains(says), "{label}: {refusal}");
    }
    write("one.txt", b"q1\n");
    let wide = "{ file = \"DIR/wide.npy\", ids = \"DIR/one.txt\" }";
    let refusal = open(dir.path(), &table(dir.path(), BY_ID, wide, "")).refusal();
    assert!(refusal.contains("wide.npy: record 1: found a vector of 4 numbers; allowed: 2, as in "), "{refusal}");
}

fn questions_in_order() -> String {
    BY_ORDER.to_owned()
}

fn questions_file(name: &str) -> String {
    format!("\"DIR/{name}\"")
}

#[test]
fn wrong_settings_are_named_by_their_keys() {
    let refused = |table: &str| {
        let settings: DenseVectorsSettings = toml::from_str(table).expect("a table");
        let BadValue { key, found, .. } = settings.check_values().expect_err(table);
        format!("{key}: {found}")
    };
    for (table, says) in [
        ("passages = \"\"\nquestions = \"q\"", "passages.file: empty"),
        (
            "passages = \"p\"\nquestions = { file = \"q\", ids = \"a\", texts = \"b\" }",
            "questions: a table with `ids` and `texts`",
        ),
        ("passages = { file = \"p\", text = \"t\" }\nquestions = \"q\"", "passages: a table with `text` or `texts`"),
    ] {
        assert_eq!(refused(table), says);
    }
    for (table, says) in [
        ("passages = \"p\"", "missing field `questions`"),
        ("passages = 3\nquestions = \"q\"", "expected a file, or a table with `file`"),
        ("passages = { ids = \"i\" }\nquestions = \"q\"", "missing field `file`"),
        ("passages = { file = \"p\", idz = \"i\" }\nquestions = \"q\"", "unknown field `idz`"),
        ("passages = \"p\"\nquestions = \"q\"\nmetric = \"l2\"", "unknown variant `l2`"),
    ] {
        let error = toml::from_str::<DenseVectorsSettings>(table).expect_err(table).to_string();
        assert!(error.contains(says), "{table}: {error}");
    }
}
