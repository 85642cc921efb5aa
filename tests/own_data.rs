//! Data of one's own: the mapping of a job, and damaged Parquet files as the program meets them.

use crate::harness::{document, hopeval, run, run_of, succeed};
use hopeval_results::tables::{RunRow, read_table};
use hopeval_results::{Store, layout};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobs/datasets/tests/parquet").join(format!("{name}.parquet"))
}

/// A job over the three questions of `make.py`, whose passages are given with them.
fn write_job(dir: &Path, questions: &Path, fields: &str) -> PathBuf {
    let job = dir.join("job.toml");
    let text = format!(
        r#"
name = "own"
[dataset]
questions = "{}"
{fields}
[corpus]
source = "contexts"
[service.sparse]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "sparse"
k = 2
[measures]
recall_at = [2]
"#,
        questions.display()
    );
    std::fs::write(&job, text).unwrap();
    job
}

const FIELDS: &str = r#"
missing_gold = "leave_out"
[dataset.fields]
id = "qid"
question = "query"
answers = "golds"
gold_titles = "positives.title"
context_titles = "passages.name"
context_texts = "passages.sents"
"#;

/// The figures of a run in the table: its number of questions and its recall.
fn figures(document: &serde_json::Value) -> Vec<(String, serde_json::Value, serde_json::Value)> {
    let rows = document["measures"].as_array().unwrap().iter();
    let of_all = rows.filter(|row| row["stratum"] == "all");
    of_all.map(|row| (row["measure"].as_str().unwrap().to_owned(), row["n"].clone(), row["value"].clone())).collect()
}

#[test]
fn another_content_or_mapping_is_another_job() {
    let dir = tempfile::tempdir().unwrap();
    let evaluate = |questions: &Path, fields: &str| {
        let job = write_job(dir.path(), questions, fields);
        let document = document(hopeval(dir.path(), &["run"]).arg(job).arg("--json"));
        let store = Store::open(dir.path().join("hopeval-store").to_str().unwrap()).unwrap();
        let rows = read_table::<RunRow>(&store, &layout::final_table(run_of(&document), "runs")).unwrap();
        (figures(&document), rows[0].job_digest.clone())
    };
    let (plain, first) = evaluate(&fixture("none"), FIELDS);
    assert!(!plain.is_empty());
    let (snappy, second) = evaluate(&fixture("snappy"), FIELDS);
    assert_eq!(plain, snappy, "the same rows in another file");
    assert_ne!(first, second, "the digest is of the file");
    let (_, third) = evaluate(&fixture("none"), &FIELDS.replace("positives.title", "passages.name"));
    assert_ne!(first, third, "the digest knows the mapping");
}

#[test]
fn wrong_mappings_are_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |fields: &str| {
        let job = write_job(dir.path(), &fixture("none"), fields);
        let output = run(hopeval(dir.path(), &["run"]).arg(job));
        assert_eq!(output.status.code(), Some(2), "{fields}");
        assert!(!dir.path().join("hopeval-store/runs").exists(), "{fields}: a run was made");
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused(&FIELDS.replace("\"golds\"", "\"gold\""));
    assert!(error.contains("none.parquet: field `gold`: none of 3 rows has it"), "{error}");
    let error = refused(&FIELDS.replace("question = ", "query = "));
    assert!(error.contains("unknown field `query`"), "{error}");
    let error = refused(&format!("format = \"musique\"\n{FIELDS}"));
    assert!(error.contains("`dataset.fields`") && error.contains("format = \"fields\""), "{error}");
    let error = refused(&format!("{FIELDS}gold = \"positives.text\"\n"));
    assert!(error.contains("`gold` beside `gold_ids`"), "{error}");
}

/// A panic of the library that decodes Parquet is an error of the file, not a bug of this program.
#[test]
fn damaged_parquet_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.parquet");
    let whole = std::fs::read(fixture("snappy")).unwrap();
    let check = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let fields = ["--field", "id=qid", "--field", "question=query", "--field", "answers=golds"];
        let output = run(hopeval(dir.path(), &["data", "check"]).arg(&path).args(fields));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(check(&whole), (Some(0), String::new()));
    // A length in a page's header and an offset in the footer, which the decoder trusts.
    for (at, bit) in [(738, 2), (1700, 0)] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        let (code, error) = check(&bytes);
        assert_eq!(code, Some(2), "byte {at}: {error}");
        assert!(error.contains("damaged.parquet: cannot be read as Parquet"), "byte {at}: {error}");
        assert!(error.contains("its decoder stopped"), "byte {at}: {error}");
        assert!(!error.contains("bug"), "byte {at}: {error}");
    }
    let (code, error) = check(&whole[..whole.len() - 9]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("damaged.parquet: cannot be read as Parquet"), "{error}");
}

#[test]
fn corpora_are_built_by_a_mapping() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("passages.csv");
    std::fs::write(&source, "key,name,body\np1,Ada,\"An engineer, from Arlen.\"\np2,Arlen,A town.\n").unwrap();
    let fields = ["--field", "id=key", "--field", "title=name", "--field", "text=body"];
    let out = dir.path().join("corpus");
    let printed = succeed(hopeval(dir.path(), &["corpus", "build"]).arg(&source).arg("--out").arg(&out).args(fields));
    let info: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(info["counts"]["passages"], 2, "{info}");
    let wrong =
        run(hopeval(dir.path(), &["corpus", "build"]).arg(&source).arg("--out").arg("x").args(["--field", "text"]));
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("NAME=PATH"));
}

/// `init` prints a job that runs as it is: for a known format, for guessed fields, and with a corpus beside it.
#[test]
fn init_prints_a_job_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "own.jsonl",
        "{\"qid\": 1, \"query\": \"Where was the designer of the Corran Bridge born?\", \"golds\": [\"Arlen\"], \
         \"pages\": [\"Corran Bridge\", \"Ada Marsh\"], \"by\": \"me\"}\n{\"qid\": 2, \"query\": \"Which river is in \
         Arlen?\", \"golds\": [\"Teel\"], \"pages\": [\"Arlen\"]}\n",
    );
    write(
        "passages.tsv",
        "key\tpage\tbody\np1\tCorran Bridge\tThe Corran Bridge was designed by Ada Marsh.\np2\tAda Marsh\tAda Marsh \
         came from Arlen.\np3\tArlen\tArlen lies on the Teel.\n",
    );
    write(
        "given.json",
        "[{\"_id\": \"a\", \"question\": \"Who designed the bridge?\", \"answer\": \"Ada\", \"supporting_facts\": \
         [[\"Bridge\", 0]], \"context\": [[\"Bridge\", [\"Ada designed the bridge.\"]], [\"Ferry\", [\"A ferry.\"]]]}]",
    );
    let init = |name: &str, arguments: &[&str]| {
        let output = run(&mut hopeval(dir.path(), &[&["init"], arguments].concat()));
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{notes}");
        write(name, std::str::from_utf8(&output.stdout).unwrap());
        (String::from_utf8(output.stdout).unwrap(), notes)
    };
    let recall = |job: &str, measure: &str| {
        let document = document(&mut hopeval(dir.path(), &["run", job, "--json"]));
        let of_bm25 = crate::harness::measure(&document, "bm25", "all", measure);
        (document["questions"].as_u64().unwrap(), of_bm25["value"].as_f64().unwrap())
    };
    let (job, notes) = init("own.toml", &["own.jsonl", "--corpus", "passages.tsv"]);
    let fields = "[dataset.fields]\nquestion = \"query\"\nid = \"qid\"\nanswers = \"golds\"\ngold_titles = \"pages\"\n";
    assert!(job.contains(fields), "{job}");
    assert!(job.contains("fields = { text = \"body\", id = \"key\", title = \"page\" }"), "{job}");
    assert!(notes.contains("fields not read: by") && notes.contains("are guessed from their names"), "{notes}");
    // No word of the first question is in the passage on Ada Marsh.
    assert_eq!(recall("own.toml", "recall_all@10"), (2, 0.5));
    let (job, notes) = init("given.toml", &["given.json"]);
    assert!(
        job.contains("format = \"hotpotqa\"") && job.contains("source = \"contexts\"") && notes.is_empty(),
        "{job}"
    );
    assert_eq!(recall("given.toml", "recall_all@2"), (1, 1.0));

    // Without passages the job has a place for them; a file without a question is no dataset.
    let (_, notes) = init("bare.toml", &["own.jsonl"]);
    assert!(notes.contains("the job needs a corpus: `--corpus FILE`"), "{notes}");
    let output = run(&mut hopeval(dir.path(), &["init", "passages.tsv"]));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("passages.tsv: none of its fields can be the question: it has key, page, body"),
        "{message}"
    );
}
