//! The tables of a run: their documented queries run and agree with `show --json`, their counters agree with each
//! other, their means with their scores, and each file describes its columns.

#![expect(clippy::print_stderr, reason = "a test that skips itself says so")]

use crate::harness::{document, every_method, file_job, hopeval, measure, run, run_of, succeed};
use arrow::datatypes::{DataType, Field};
use hopeval_results::tables::{
    ConfigurationRow, CostRow, FinalOutcomeRow, MeasureRow, QuestionRow, Row, RunRow, ScoreRow, read_table,
};
use hopeval_results::{Store, layout};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Questions of the tested run. Every third has no candidates, so `given` fails there.
const QUESTIONS: u64 = 120;

/// Configurations of that run: every method.
static CONFIGURATIONS: LazyLock<u64> = LazyLock::new(|| {
    let job: toml::Table = toml::from_str(&every_method()).unwrap();
    job["method"].as_table().unwrap().len() as u64
});

/// Questions with a failure of `given`.
const NOT_GIVEN: u64 = QUESTIONS / 3;

/// Configurations that fail on every question, since their model writes no JSON.
const WITHOUT_JSON: [&str; 5] = ["annotate", "decompose", "fsm", "fsm_baseline", "migres"];

/// Failed outcomes: those questions, and all of these configurations.
const FAILED: u64 = NOT_GIVEN + QUESTIONS * WITHOUT_JSON.len() as u64;

/// The services with a model.
const MODELS: [&str; 6] = ["dense", "filter", "labeler", "reader", "reranker", "scorer"];

/// Versions of the readers for the documented queries.
const READERS: [&str; 3] = ["duckdb==2.0.0", "polars==2.1.0", "pyarrow==26.0.1"];

/// Questions of a second run of the same job, in the same store: both use the same names of configurations.
const FEWER: u64 = 30;

/// A finished run, shared by all tests. Its folder stays behind: a static is never dropped.
struct Sample {
    dir: tempfile::TempDir,
    document: Value,
    /// The document of the second run.
    fewer: Value,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = dir.path();
    let sizes = ["--questions", "120", "--passages", "1000", "--seed", "11", "--out", "world"];
    succeed(&mut hopeval(at, &[&["world"], &sizes[..]].concat()));
    let lines = std::fs::read_to_string(at.join("world/questions.jsonl")).unwrap();
    let rows = lines.lines().enumerate().map(|(index, line)| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        if index % 3 == 0 {
            row["candidates"] = Value::Array(Vec::new());
            row["decomposition"] = Value::Array(Vec::new());
        }
        row.to_string()
    });
    std::fs::write(at.join("questions.jsonl"), rows.collect::<Vec<_>>().join("\n")).unwrap();
    let rest = format!("{}[run]\nallowed_failed = 1.0\n", every_method());
    let job = file_job(at, "job", "world", &at.join("questions.jsonl"), &at.join("world/corpus.jsonl"), &rest);
    let arguments = ["run", job.to_str().unwrap(), "--store", "store", "--json"];
    let first = document(&mut hopeval(at, &arguments));
    let fewer = document(&mut hopeval(at, &[&arguments[..], &["--limit", &FEWER.to_string()]].concat()));
    Sample { dir, document: first, fewer }
});

impl Sample {
    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn run(&self) -> &str {
        run_of(&self.document)
    }

    fn table<R: Row>(&self, name: &str) -> Vec<R> {
        let store = Store::open(self.store().to_str().unwrap()).unwrap();
        read_table(&store, &layout::final_table(self.run(), name)).unwrap()
    }

    fn questions(&self) -> Vec<QuestionRow> {
        let store = Store::open(self.store().to_str().unwrap()).unwrap();
        read_table(&store, &layout::questions_table(self.run())).unwrap()
    }

    fn measures(&self) -> &[Value] {
        self.document["measures"].as_array().unwrap()
    }

    /// The shown mean for a row that begins with run, configuration and measure.
    fn shown_mean(&self, row: &Value) -> &Value {
        let [run, configuration, named] = [0usize, 1, 2].map(|at| row[at].as_str().unwrap());
        let document = [&self.document, &self.fewer].into_iter().find(|document| run_of(document) == run);
        let document = document.unwrap_or_else(|| panic!("no run {run}"));
        measure(document, configuration, "all", named)
    }

    fn names(&self) -> Vec<String> {
        self.table::<ConfigurationRow>("configurations").into_iter().map(|row| row.configuration).collect()
    }
}

/// Whether a configuration fails on a question.
fn fails(configuration: &str, index: u64) -> bool {
    WITHOUT_JSON.contains(&configuration) || configuration == "given" && index.is_multiple_of(3)
}

#[test]
fn outcomes_are_all_there_once_and_in_order() {
    let sample = &*SAMPLE;
    let outcomes: Vec<FinalOutcomeRow> = sample.table("outcomes");
    let questions = sample.questions();
    let names = sample.names();
    assert_eq!(names.len() as u64, *CONFIGURATIONS);
    let expected = names.iter().flat_map(|name| questions.iter().map(move |q| (name.as_str(), q.index, q.id.as_str())));
    let found = outcomes.iter().map(|row| (row.configuration.as_str(), row.index, row.question.as_str()));
    assert!(found.eq(expected), "outcomes are configurations in the job's order by questions in the dataset's");
    for row in &outcomes {
        assert_eq!(row.message.is_none(), row.status == "ok", "{row:?}");
        assert_eq!(row.ranked.len(), row.ranked_ids.len());
    }
    let failed: Vec<_> = outcomes.iter().filter(|row| row.status != "ok").collect();
    assert_eq!(failed.len() as u64, FAILED);
    assert!(failed.iter().all(|row| fails(&row.configuration, row.index)));
    let runs: Vec<RunRow> = sample.table("runs");
    let [run] = runs.as_slice() else { panic!("{} rows in `runs`", runs.len()) };
    assert_eq!((run.questions, u64::from(run.configurations)), (QUESTIONS, *CONFIGURATIONS));
    assert_eq!((run.outcomes, run.failed), (QUESTIONS * *CONFIGURATIONS, FAILED));
    assert_eq!(run.run, sample.run());
    assert_eq!(sample.document["questions"], QUESTIONS);
    assert_eq!(sample.document["outcomes"], QUESTIONS * *CONFIGURATIONS);
}

#[test]
fn means_are_those_of_the_scores_and_state_n_and_coverage() {
    let sample = &*SAMPLE;
    let ok: BTreeMap<(String, u64), bool> = sample
        .table::<FinalOutcomeRow>("outcomes")
        .into_iter()
        .map(|row| ((row.configuration, row.index), row.status == "ok"))
        .collect();
    let mut strata: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for question in sample.questions() {
        let kind = question.kind.iter().map(|kind| format!("type={kind}"));
        let hops = question.hops.iter().map(|hops| format!("hops={hops}"));
        let own = question.strata.iter().map(|(name, value)| format!("{name}={value}"));
        strata.insert(question.index, kind.chain(hops).chain(own).chain(["all".to_owned()]).collect());
    }
    // (values, outcomes that are ok) of each mean, from the scores alone.
    let mut means: BTreeMap<(String, String, String), (Vec<f64>, u64)> = BTreeMap::new();
    for score in sample.table::<ScoreRow>("scores") {
        for stratum in &strata[&score.index] {
            let key = (score.configuration.to_string(), stratum.clone(), score.measure.to_string());
            let (values, fine) = means.entry(key).or_default();
            if let Some(value) = score.value {
                values.push(value);
                *fine += u64::from(ok[&(score.configuration.to_string(), score.index)]);
            }
        }
    }
    let rows: Vec<MeasureRow> = sample.table("measures");
    assert_eq!(rows.len(), means.len(), "every configuration, stratum and measure has a row");
    for row in &rows {
        let key = (row.configuration.clone(), row.stratum.clone(), row.measure.clone());
        let (values, fine) = &means[&key];
        let n = values.len() as f64;
        assert_eq!(row.n, values.len() as u64, "{key:?}");
        if values.is_empty() {
            let nothing = (row.value, row.stderr, row.low, row.high, row.coverage);
            assert_eq!(nothing, (None, None, None, None, None), "what is undefined is null: {key:?}");
            continue;
        }
        let mean = values.iter().sum::<f64>() / n;
        assert!((row.value.unwrap() - mean).abs() < 1e-12, "{key:?}: {row:?} {mean}");
        assert!((row.coverage.unwrap() - *fine as f64 / n).abs() < 1e-12, "{key:?}");
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        match row.stderr {
            None => assert_eq!(row.n, 1, "{key:?}"),
            Some(stderr) => assert!((stderr - (squares / (n - 1.0) / n).sqrt()).abs() < 1e-7, "{key:?}"),
        }
        assert!(row.low <= row.value && row.value <= row.high || row.n == 1, "{key:?}");
    }
    for name in sample.names() {
        assert!(rows.iter().any(|row| row.configuration == name && row.stratum == "all"));
    }
    // Failed outcomes stay in and score 0; a method without answers has no answer measure.
    let given = measure(&sample.document, "given", "all", "recall_frac@10");
    assert_eq!(given["n"], QUESTIONS);
    assert!((given["coverage"].as_f64().unwrap() - (QUESTIONS - NOT_GIVEN) as f64 / QUESTIONS as f64).abs() < 1e-12);
    for score in sample.table::<ScoreRow>("scores") {
        if *score.configuration == *"given" && score.index % 3 == 0 && *score.measure == *"recall_frac@10" {
            assert_eq!(score.value, Some(0.0));
        }
    }
    let answers = measure(&sample.document, "bm25", "all", "em");
    assert_eq!((&answers["n"], &answers["value"], &answers["coverage"]), (&0.into(), &Value::Null, &Value::Null));
}

#[test]
fn the_document_says_what_the_tables_say() {
    let sample = &*SAMPLE;
    let rows: Vec<MeasureRow> = sample.table("measures");
    assert_eq!(rows.len(), sample.measures().len());
    for (row, shown) in rows.iter().zip(sample.measures()) {
        assert_eq!(shown["configuration"], row.configuration.as_str());
        assert_eq!(shown["stratum"], row.stratum.as_str());
        assert_eq!(shown["measure"], row.measure.as_str());
        assert_eq!(shown["value"].as_f64(), row.value);
        assert_eq!(shown["stderr"].as_f64(), row.stderr);
        assert_eq!(shown["n"].as_u64(), Some(row.n));
        assert_eq!(shown["coverage"].as_f64(), row.coverage);
    }
    let costs: Vec<CostRow> = sample.table("costs");
    let shown = sample.document["cost"].as_array().unwrap();
    assert_eq!(costs.len(), shown.len());
    for (row, shown) in costs.iter().zip(shown) {
        assert_eq!(shown["configuration"].as_str(), row.configuration.as_deref());
        assert_eq!(shown["service"], row.service.as_str());
        assert_eq!(shown["requests"].as_u64(), Some(row.requests));
        assert_eq!(shown["unique"].as_u64(), row.unique);
        assert_eq!(shown["computed"].as_u64(), row.computed);
        for (name, value) in [("service_s", row.service_s), ("device_s", row.device_s), ("money", row.money)] {
            assert_eq!(shown[name].as_f64(), value, "{name}");
        }
    }
    // `show` later, and on a machine that builds the corpus anew, is the same document.
    let elsewhere = ["show", sample.run(), "--store", "store", "--cache", "other", "--json"];
    let again = document(&mut hopeval(sample.dir.path(), &elsewhere));
    assert_eq!(again, sample.document);
}

#[test]
fn counters_agree_with_each_other() {
    let sample = &*SAMPLE;
    type Key = (Option<String>, String);
    let mut asked: BTreeMap<Key, [u64; 5]> = BTreeMap::new();
    for outcome in sample.table::<FinalOutcomeRow>("outcomes") {
        for call in &outcome.calls {
            for configuration in [Some(outcome.configuration.clone()), None] {
                let sums = asked.entry((configuration, call.service.clone())).or_default();
                let call =
                    [call.calls, call.prompt_tokens, call.completion_tokens, call.scored_tokens, call.operations];
                sums.iter_mut().zip(call).for_each(|(sum, n)| *sum += n);
            }
        }
    }
    let mut told: BTreeMap<Key, [u64; 5]> = BTreeMap::new();
    for row in sample.table::<CostRow>("costs") {
        let sums = told.entry((row.configuration.clone(), row.service.clone())).or_default();
        let row_sums = [row.requests, row.prompt_tokens, row.completion_tokens, row.scored_tokens, row.operations];
        sums.iter_mut().zip(row_sums).for_each(|(sum, n)| *sum += n);
        match row.configuration {
            Some(_) => assert_eq!((row.unique, row.computed), (None, None), "what is shared belongs to the run"),
            None => {
                let (unique, computed) = (row.unique.unwrap(), row.computed.unwrap());
                assert!(computed <= unique && unique <= row.requests, "{row:?}");
                // In a fresh store each different request of a service that computes is computed, once.
                let looks_up = ["corpus", "shuffled"].contains(&row.service.as_str());
                assert_eq!(computed, if looks_up { 0 } else { unique }, "{row:?}");
                assert!(row.service_s.is_some(), "{row:?}");
            }
        }
        assert_eq!(row.device_s.is_some(), MODELS.contains(&row.service.as_str()), "{row:?}");
        assert_eq!((row.money, row.energy_j), (None, None), "what is not known is null, never 0");
    }
    assert_eq!(told.keys().collect::<Vec<_>>(), asked.keys().collect::<Vec<_>>());
    for (key, told) in &told {
        let asked = asked[key];
        // A configuration's row counts the requests of each outcome; the run's row counts computed requests once.
        let same = if key.0.is_some() { told == &asked } else { told[0] == asked[0] };
        assert!(same && told.iter().zip(asked).all(|(told, asked)| *told <= asked), "{key:?}: {told:?} {asked:?}");
    }
    let services: BTreeSet<&str> = told.keys().map(|(_, service)| service.as_str()).collect();
    assert_eq!(services, MODELS.into_iter().chain(["bm25", "corpus", "links", "shuffled", "tfidf"]).collect());
}

/// Each Parquet file below the run's folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let parquet = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    parquet.chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
}

/// Columns and fields of structs, each with its description.
fn described(parent: &str, field: &Field, found: &mut Vec<(String, Option<String>)>) {
    let name = format!("{parent}{}", field.name());
    found.push((name.clone(), field.metadata().get("description").cloned()));
    let (inner, mark) = match field.data_type() {
        DataType::List(item) => (item.data_type(), "[]."),
        other => (other, "."),
    };
    if let DataType::Struct(fields) = inner {
        fields.iter().for_each(|inner| described(&format!("{name}{mark}"), inner, found));
    }
}

fn documentation() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/docs/tables.md")
}

#[test]
fn every_file_describes_its_columns_as_documented() {
    let sample = &*SAMPLE;
    let documentation = std::fs::read_to_string(documentation()).unwrap();
    let mut seen = BTreeSet::new();
    for path in files(&sample.store().join("runs").join(sample.run())) {
        let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&path).unwrap()).unwrap();
        let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let value = |key: &str| metadata.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
        let table = value("hopeval.table").unwrap();
        assert_eq!(value("hopeval.schema_version").as_deref(), Some("1"), "{}", path.display());
        let section = documentation.split("\n## ").find(|section| section.starts_with(&format!("`{table}`\n")));
        let section = section.unwrap_or_else(|| panic!("`{table}` is not documented"));
        let mut fields = Vec::new();
        reader.schema().fields().iter().for_each(|field| described("", field, &mut fields));
        assert_eq!(section.matches("\n| `").count(), fields.len(), "columns of `{table}`");
        for (name, description) in fields {
            let description = description.unwrap_or_else(|| panic!("{table}.{name} has no description"));
            let words = description.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
            let row = section.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            assert!(row.is_some_and(|row| row.contains(&words)), "{table}.{name}: {words}");
        }
        seen.insert(table);
    }
    let tables = ["runs", "configurations", "questions", "outcomes", "scores", "measures", "costs", "latencies"];
    for table in tables.into_iter().chain(["passages"]) {
        assert!(seen.contains(table), "a run leaves `{table}`");
    }
}

/// A Python with the readers, made once and kept below the target folder; `None`, with a message, if it is unavailable.
fn python() -> Option<PathBuf> {
    let versions = READERS.join("-").replace("==", "-");
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-{versions}"));
    let (python, done) = (home.join("bin/python"), home.join("complete"));
    if done.is_file() {
        return Some(python);
    }
    let steps = [
        Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home).output(),
        Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(READERS).output(),
    ];
    for step in steps {
        let failure = match step {
            Ok(output) if output.status.success() => continue,
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        eprintln!("SKIPPED: the documented queries: no Python with {}: {failure}", READERS.join(", "));
        return None;
    }
    std::fs::write(done, "").unwrap();
    Some(python)
}

#[test]
fn the_documented_queries_run_and_agree_with_the_document() {
    let Some(python) = python() else { return };
    let sample = &*SAMPLE;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/support/tables.py");
    let output = run(Command::new(python).arg(script).arg(documentation()).arg(sample.store()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(results.len() >= 8, "{} queries", results.len());
    let rows = |beginning: &str| -> &Vec<Value> {
        let result = results.iter().find(|result| result["query"].as_str().unwrap().starts_with(beginning));
        result.unwrap_or_else(|| panic!("no query begins with {beginning}"))["rows"].as_array().unwrap()
    };

    // DuckDB: means of everything, by run.
    let means = rows("SELECT split_part(filename, '/', -3) AS run, configuration, measure, round(value, 4)");
    let of_all = |document: &Value| -> usize {
        document["measures"].as_array().unwrap().iter().filter(|row| row["stratum"] == "all").count()
    };
    assert_eq!(means.len(), of_all(&sample.document) + of_all(&sample.fewer));
    for row in means {
        let shown = sample.shown_mean(row);
        assert_eq!(row[5], shown["n"]);
        for (rounded, exact) in [(&row[3], &shown["value"]), (&row[4], &shown["stderr"])] {
            match (rounded.as_f64(), exact.as_f64()) {
                (Some(rounded), Some(exact)) => assert!((rounded - exact).abs() <= 0.5001e-4, "{row} {shown}"),
                (rounded, exact) => assert_eq!(rounded, exact, "{row} {shown}"),
            }
        }
    }
    // How outcomes ended.
    let ends = rows("SELECT split_part(filename, '/', -3) AS run, configuration, status, count(*)");
    let count = |run: &str, fine: bool| -> u64 {
        let counted = ends.iter().filter(|row| row[0] == run && (row[2] == "ok") == fine);
        counted.map(|row| row[3].as_u64().unwrap()).sum()
    };
    let (run, fewer) = (sample.run(), run_of(&sample.fewer));
    assert_eq!((count(run, true), count(run, false)), (QUESTIONS * *CONFIGURATIONS - FAILED, FAILED));
    let failed = FEWER / 3 + FEWER * WITHOUT_JSON.len() as u64;
    assert_eq!((count(fewer, true), count(fewer, false)), (FEWER * *CONFIGURATIONS - failed, failed));
    // The requests, against the documents' costs.
    let mut asked: BTreeMap<(String, String), u64> = BTreeMap::new();
    for row in rows("SELECT run, configuration, call.kind, sum(call.calls)") {
        let calls = row[3].as_u64().or_else(|| row[3].as_str()?.parse().ok()).unwrap();
        let key = (row[0].as_str().unwrap().to_owned(), row[1].as_str().unwrap().to_owned());
        *asked.entry(key).or_default() += calls;
    }
    let mut told: BTreeMap<(String, String), u64> = BTreeMap::new();
    for document in [&sample.document, &sample.fewer] {
        for row in document["cost"].as_array().unwrap() {
            if let Some(configuration) = row["configuration"].as_str() {
                let key = (run_of(document).to_owned(), configuration.to_owned());
                *told.entry(key).or_default() += row["requests"].as_u64().unwrap();
            }
        }
    }
    assert_eq!(asked, told);
    assert_eq!(rows("SELECT split_part(filename, '/', -3) AS run, configuration, question, ranked_ids[1]").len(), 5);
    assert!(results.iter().any(|result| {
        let rows = result["rows"].as_array().unwrap();
        rows.iter().any(|row| row.as_array().unwrap().contains(&"hopeval.schema_version".into()))
    }));

    // Polars: means of scores are the measures of each run.
    let means = rows("polars.scan_parquet(\"runs/*/final/scores.parquet\"");
    assert_eq!(means.len(), of_all(&sample.document) + of_all(&sample.fewer));
    for row in means {
        let shown = sample.shown_mean(row);
        match (row[3].as_f64(), shown["value"].as_f64()) {
            (Some(mean), Some(exact)) => assert!((mean - exact).abs() < 1e-12, "{row} {shown}"),
            (mean, exact) => assert_eq!(mean, exact, "{row} {shown}"),
        }
    }
    let failures = rows("polars.scan_parquet(\"runs/*/final/outcomes.parquet\"");
    assert_eq!(failures.len() as u64, FAILED + failed);
    let may_fail = |name: &str| name == "given" || WITHOUT_JSON.contains(&name);
    assert!(failures.iter().all(|row| may_fail(row[1].as_str().unwrap()) && row[4].is_string()));
    assert_eq!(failures.iter().filter(|row| row[0] == fewer).count() as u64, failed);
    let questions = rows("polars.scan_parquet(\"runs/*/questions.parquet\"");
    assert!(questions.len() == 5 && questions.iter().all(|row| row[0] == run || row[0] == fewer));
}

/// The documented queries take a run from the path: the folder before `final`, or before the file. The same path leads
/// to the run's own means, without the readers of the queries.
#[test]
fn the_path_of_a_table_tells_its_run() {
    let sample = &*SAMPLE;
    let documented = std::fs::read_to_string(documentation()).unwrap();
    for line in documented.lines().filter(|line| line.contains("runs/*/") && !line.contains("parquet_kv_metadata")) {
        let place = if line.contains("final/") { ["'/', -3)", "get(-3)"] } else { ["'/', -2)", "get(-2)"] };
        assert!(place.iter().any(|place| line.contains(place)), "the run of a row: {line}");
        assert!(!line.contains("GROUP BY configuration") && !line.contains("group_by(\"configuration\""), "{line}");
    }
    let mut runs = BTreeSet::new();
    for path in files(&sample.store().join("runs")) {
        if !path.ends_with("final/measures.parquet") {
            continue;
        }
        let parts: Vec<&str> = path.iter().map(|part| part.to_str().unwrap()).collect();
        let run = parts[parts.len() - 3];
        let store = Store::open(sample.store().to_str().unwrap()).unwrap();
        for row in read_table::<MeasureRow>(&store, &layout::final_table(run, "measures")).unwrap() {
            if row.stratum == "all" {
                let name = serde_json::json!([run, row.configuration, row.measure]);
                assert_eq!(sample.shown_mean(&name)["value"].as_f64(), row.value);
            }
        }
        runs.insert(run.to_owned());
    }
    assert_eq!(runs, BTreeSet::from([sample.run(), run_of(&sample.fewer)].map(ToOwned::to_owned)));
    let of = |document: &Value| measure(document, "bm25", "all", "ndcg@10")["value"].as_f64().unwrap();
    assert_ne!(of(&sample.document), of(&sample.fewer), "a mean over both runs is neither's");
}
