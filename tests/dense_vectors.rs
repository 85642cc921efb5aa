//! Dense retrieval with vectors from files: an encoder's own vectors, brought in, have its rankings and scores.

use crate::harness::{document, final_tables, hopeval, kill_after_commits, models, run, run_of, succeed};
use hopeval_results::tables::{FinalOutcomeRow, read_table};
use hopeval_results::{Store, layout};
use serde_json::{Value, json};
use std::path::Path;

const JOB: &str = r#"
name = "vectors"
[dataset]
questions = "world/questions.jsonl"
[corpus]
source = "world/corpus.jsonl"
[service.encoder]
kind = "lm"
model = "bert"
threads = 1
normalize = true
[service.dense]
kind = "dense"
encoder = "encoder"
[method.own]
kind = "one_step"
retriever = "dense"
k = 20
[method.own_hops]
kind = "iterative_title"
retriever = "dense"
[run]
chunk = 4
"#;

/// The same methods over the service `brought`.
const BROUGHT: &str = r#"
[method.brought]
kind = "one_step"
retriever = "brought"
k = 20
[method.brought_hops]
kind = "iterative_title"
retriever = "brought"
"#;

/// The head of the job, without the encoder and its methods.
fn without_encoder() -> String {
    let (head, rest) = JOB.split_once("[service.encoder]").unwrap();
    [head, "[run]", rest.split_once("[run]").unwrap().1].concat()
}

fn service(passages: &str, questions: &str, more: &str) -> String {
    format!("[service.brought]\nkind = \"dense_vectors\"\npassages = {passages}\nquestions = {questions}\n{more}\n")
}

fn run_job(dir: &Path, store: &str, text: &str, more: &[&str]) -> std::process::Command {
    let file = format!("{store}.toml");
    std::fs::write(dir.join(&file), text).unwrap();
    hopeval(dir, &[&["run", &file, "--json", "--cache", "cache", "--store", store], more].concat())
}

/// The ids, texts and vectors of texts, as `hopeval lm embed` makes them.
fn embedded(dir: &Path, name: &str, texts: &[(String, String)]) -> Vec<(String, Vec<f32>)> {
    let lines: String = texts.iter().map(|(id, text)| format!("{}\n", json!({"id": id, "text": text}))).collect();
    std::fs::write(dir.join(name), lines).unwrap();
    let made = succeed(&mut hopeval(dir, &["lm", "embed", "--model", "bert", "--normalize", "--input", name]));
    let rows = made.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        let vector = row["embedding"].as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32);
        (row["id"].as_str().unwrap().to_owned(), vector.collect())
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), texts.len());
    rows
}

fn little_endian(rows: &[(String, Vec<f32>)]) -> Vec<u8> {
    rows.iter().flat_map(|(_, row)| row).flat_map(|number| number.to_le_bytes()).collect()
}

fn write_npy(path: &Path, rows: &[(String, Vec<f32>)]) {
    let shape = format!("({}, {})", rows.len(), rows[0].1.len());
    let mut heading = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    heading += &" ".repeat(117 - heading.len());
    heading.push('\n');
    let length = (heading.len() as u16).to_le_bytes();
    let bytes = [&b"\x93NUMPY\x01\x00"[..], &length, heading.as_bytes(), &little_endian(rows)].concat();
    std::fs::write(path, bytes).unwrap();
}

fn write_tensor(path: &Path, name: &str, rows: &[(String, Vec<f32>)]) {
    let data = little_endian(rows);
    let shape = [rows.len(), rows[0].1.len()];
    let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [0, data.len()] });
    let heading = json!({ name: entry }).to_string();
    let bytes = [&(heading.len() as u64).to_le_bytes()[..], heading.as_bytes(), &data].concat();
    std::fs::write(path, bytes).unwrap();
}

/// Questions and passages with their vectors. Their texts are short: no encoder cuts them.
struct Brought {
    passages: Vec<(String, Vec<f32>)>,
    questions: Vec<(String, Vec<f32>)>,
    texts: Vec<String>,
}

const QUESTIONS: usize = 60;

/// The title and the text of a passage: a film, its maker, the maker's town.
fn passage(n: usize) -> (String, String) {
    match (n % 3, n / 3) {
        (0, film) => (format!("Film {film}"), format!("Film {film} was made by Person {film}.")),
        (1, person) => (format!("Person {person}"), format!("Person {person} was born in Town {person}.")),
        (_, town) => (format!("Town {town}"), format!("Town {town} lies by a river.")),
    }
}

/// Writes the dataset and the corpus, and embeds them.
fn bring(dir: &Path) -> Brought {
    models(dir, &["bert"]);
    std::fs::create_dir(dir.join("world")).unwrap();
    let (mut corpus, mut passages) = (Vec::new(), Vec::new());
    for n in 0..3 * QUESTIONS {
        let (id, (title, text)) = (format!("p{n}"), passage(n));
        corpus.push(json!({ "id": id, "title": title, "text": text }).to_string());
        passages.push((id, format!("{title} {text}")));
    }
    let gold = |n: usize| json!({ "id": format!("p{n}"), "title": passage(n).0 });
    let (mut rows, mut asked) = (Vec::new(), Vec::new());
    for n in 0..QUESTIONS {
        let (id, text) = (format!("q{n}"), format!("Where was the maker of Film {n} born?"));
        let gold = [gold(3 * n), gold(3 * n + 1)];
        let answers = [format!("Town {n}")];
        rows.push(json!({ "id": id, "text": text, "answers": answers, "gold": gold }).to_string());
        asked.push((id, text));
    }
    std::fs::write(dir.join("world/corpus.jsonl"), lines(corpus.into_iter())).unwrap();
    std::fs::write(dir.join("world/questions.jsonl"), lines(rows.into_iter())).unwrap();
    Brought {
        passages: embedded(dir, "passages.in", &passages),
        questions: embedded(dir, "questions.in", &asked),
        texts: asked.into_iter().map(|(_, text)| text).collect(),
    }
}

/// Rankings and scores of a configuration, by question.
fn rankings(dir: &Path, store: &str, run: &str, configuration: &str) -> Vec<(String, Vec<String>, Vec<u64>)> {
    let store = Store::open(dir.join(store).to_str().unwrap()).unwrap();
    let rows: Vec<FinalOutcomeRow> = read_table(&store, &layout::final_table(run, "outcomes")).unwrap();
    let rows = rows.into_iter().filter(|row| row.configuration == configuration);
    rows.map(|row| (row.question, row.ranked_ids, row.scores.iter().map(|score| score.to_bits()).collect())).collect()
}

fn lines(rows: impl Iterator<Item = String>) -> String {
    rows.map(|row| row + "\n").collect()
}

#[test]
fn an_encoders_vectors_from_files_have_its_rankings_and_scores() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let Brought { mut passages, questions, texts } = bring(dir);
    write_npy(&dir.join("passages.npy"), &passages);
    write_npy(&dir.join("questions.npy"), &questions);
    passages.reverse();
    write_tensor(&dir.join("passages.safetensors"), "rows", &passages);
    std::fs::write(dir.join("ids.txt"), lines(passages.iter().map(|(id, _)| id.clone()))).unwrap();
    std::fs::write(dir.join("texts.txt"), lines(texts.iter().cloned())).unwrap();

    // All in order.
    let plain = service("\"passages.npy\"", "\"questions.npy\"", "");
    let found = document(&mut run_job(dir, "plain", &[JOB, &plain, BROUGHT].concat(), &["--workers", "1"]));
    for (own, brought) in [("own", "brought"), ("own_hops", "brought_hops")] {
        let expected = rankings(dir, "plain", run_of(&found), own);
        assert!(expected.len() == QUESTIONS && expected.iter().all(|(_, ids, _)| ids.len() > 2), "{expected:?}");
        assert!(rankings(dir, "plain", run_of(&found), brought) == expected, "{own}: every bit is the same");
    }

    // Another kind of file, in another order, and questions by their texts: the same tables.
    let head = without_encoder();
    let alone = document(&mut run_job(dir, "alone", &[&head, &plain, BROUGHT].concat(), &["--workers", "1"]));
    let tables = final_tables(&dir.join("alone"), run_of(&alone));
    let named = service(
        "{ file = \"passages.safetensors\", ids = \"ids.txt\", tensor = \"rows\" }",
        "{ file = \"questions.npy\", texts = \"texts.txt\" }",
        "",
    );
    let named = [&head, &named, BROUGHT].concat();
    let spread = document(&mut run_job(dir, "spread", &named, &["--workers", "2", "--processes", "2"]));
    assert!(final_tables(&dir.join("spread"), run_of(&spread)) == tables, "two processes of two workers");
    let slow = ["--set", "run.chunk=1", "--set", "run.in_flight=1", "--workers", "2"];
    kill_after_commits(&mut run_job(dir, "killed", &named, &slow), &dir.join("killed"));
    let resume = ["resume", "latest", "--json", "--cache", "cache", "--store", "killed"];
    let resumed = document(&mut hopeval(dir, &resume));
    assert!(final_tables(&dir.join("killed"), run_of(&resumed)) == tables, "killed and resumed");

    // The vectors have length 1 up to rounding, so cosines rank the same questions.
    let cosine = [&head, &service("\"passages.npy\"", "\"questions.npy\"", "metric = \"cosine\""), BROUGHT].concat();
    let cosine = document(&mut run_job(dir, "cosine", &cosine, &[]));
    let expected = rankings(dir, "plain", run_of(&found), "own");
    for ((_, _, cosines), (question, _, products)) in
        rankings(dir, "cosine", run_of(&cosine), "brought").iter().zip(&expected)
    {
        for (cosine, product) in cosines.iter().zip(products) {
            let difference = (f64::from_bits(*cosine) - f64::from_bits(*product)).abs();
            assert!(difference < 1e-6, "{question}: {difference}");
        }
    }
}

#[test]
fn vectors_that_do_not_fit_end_the_command_before_a_run_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let Brought { passages, questions, texts } = bring(dir);
    write_npy(&dir.join("passages.npy"), &passages);
    write_npy(&dir.join("questions.npy"), &questions[..59]);
    std::fs::write(dir.join("texts.txt"), lines(texts[..59].iter().cloned())).unwrap();
    std::fs::write(dir.join("ids.txt"), lines(passages.iter().map(|(id, _)| id.replace('1', "one")))).unwrap();
    let mut broken = passages.clone();
    broken[7].1[3] = f32::NAN;
    write_npy(&dir.join("broken.npy"), &broken);
    let head = without_encoder();
    let last =
        "questions.npy: found no vector of question `q59` (\"Where was the maker of Film 59 born?\"); allowed: a";
    let fewer = "questions.npy: found 59 rows without ids; allowed: 60, one";
    let by_text = "{ file = \"questions.npy\", texts = \"texts.txt\" }";
    for (store, passages, questions, says) in [
        ("absent", "\"none.npy\"", by_text, "none.npy"),
        ("count", "\"passages.npy\"", "\"questions.npy\"", fewer),
        ("number", "\"broken.npy\"", by_text, "broken.npy: record 8: field `[3]`: found NaN; allowed: finite numbers"),
        ("unknown", "{ file = \"passages.npy\", ids = \"ids.txt\" }", by_text, "ids.txt:2: record 2: found"),
        ("missing", "\"passages.npy\"", by_text, last),
    ] {
        let ended = run(&mut run_job(dir, store, &[&head, &service(passages, questions, ""), BROUGHT].concat(), &[]));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{store}: {said}");
        assert!(said.contains(says), "{store}: {said}");
        assert!(said.contains("[service.brought]: vectors"), "{store}: {said}");
        let made = std::fs::read_dir(dir.join(store).join("runs")).map_or(0, Iterator::count);
        assert_eq!(made, 0, "{store}: no run is made");
    }

    // A query that is no question: its outcome says so, and the others are not touched.
    write_npy(&dir.join("questions.npy"), &questions);
    let rewriting =
        "[method.rewritten]\nkind = \"iterative_title\"\nretriever = \"brought\"\nquery = \"question+title\"\n";
    let good = service("\"passages.npy\"", "\"questions.npy\"", "");
    let methods = "[method.brought]\nkind = \"one_step\"\nretriever = \"brought\"\n";
    let text = [&head, &good, methods, rewriting].concat();
    let ended = run(&mut run_job(dir, "rewritten", &text, &[]));
    assert_eq!(ended.status.code(), Some(1), "{}", String::from_utf8_lossy(&ended.stderr));
    let found: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let store = Store::open(dir.join("rewritten").to_str().unwrap()).unwrap();
    let rows: Vec<FinalOutcomeRow> = read_table(&store, &layout::final_table(run_of(&found), "outcomes")).unwrap();
    let mut refused = 0;
    for row in rows {
        let failed = row.message.as_ref().is_some_and(|message| message.contains("questions.npy has no vector of the"));
        // A question whose passages have no links has no second query.
        assert!(row.configuration == "rewritten" || !failed, "{row:?}");
        assert_eq!(row.status, if failed { "refused" } else { "ok" });
        refused += u32::from(failed);
    }
    assert!(refused > 30, "{refused} of 60");
}
