//! The papers' jobs over a generated world of 20 questions, with stand-ins for their models: hopeval's own small ones,
//! untrained ones of the engine's tests, and a simulated server for endpoints.

use crate::harness::{hopeval, models, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::{Table, Value};

/// The questions of the world.
pub(crate) const QUESTIONS: u64 = 20;

/// The questions that searches are over.
const SAMPLE: u64 = 4;

/// The most values of a swept parameter.
const MOST_POINTS: usize = 3;

/// A paper's job, PAPER/NAME.
pub(crate) fn job(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobs/papers").join(format!("{name}.toml"))
}

/// The names of a paper's jobs, PAPER/NAME.
pub(crate) fn jobs_of(paper: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobs/papers").join(paper);
    let files = std::fs::read_dir(&folder).expect("the paper has a folder").flatten().map(|entry| entry.path());
    let jobs = files.filter(|file| file.extension().is_some_and(|extension| extension == "toml"));
    let mut names: Vec<String> =
        jobs.filter_map(|file| Some(format!("{paper}/{}", file.file_stem()?.to_str()?))).collect();
    names.sort();
    names
}

/// Whether a job has searches, which come before its run.
pub(crate) fn has_searches(name: &str) -> bool {
    let text = std::fs::read_to_string(job(name)).expect("the job can be read");
    text.parse::<Table>().expect("the job is TOML").contains_key("tune")
}

/// Writes the world, and the folders of untrained models.
pub(crate) fn write_world(dir: &Path) {
    let questions = (QUESTIONS + SAMPLE).to_string();
    let world = ["world", "--questions", &questions, "--passages", "400", "--seed", "3", "--out", "world"];
    succeed(&mut hopeval(dir, &world));
    let file = dir.join("world/questions.jsonl");
    let text = std::fs::read_to_string(&file).expect("the world has questions");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (evaluated, sample) = lines.split_at(QUESTIONS as usize);
    std::fs::write(file, evaluated.concat()).expect("the questions can be written");
    std::fs::write(dir.join("world/sample.jsonl"), sample.concat()).expect("the sample can be written");
    models(dir, &["roberta-rerank"]);
}

/// A command over a paper's job with the world's files and stand-in models; `server` answers for all endpoints.
pub(crate) fn with_stand_ins(dir: &Path, command: &str, name: &str, server: &str) -> Command {
    let text = std::fs::read_to_string(job(name)).expect("the job can be read");
    let table: Table = text.parse().expect("the job is TOML");
    let mut sets: Vec<String> = [
        "dataset.format=world",
        "dataset.questions=world/questions.jsonl",
        "dataset.gold=id",
        "corpus.source=world/corpus.jsonl",
        "run.allowed_failed=1.0",
    ]
    .map(ToOwned::to_owned)
    .to_vec();
    if table["dataset"].get("draw").is_some() {
        // A sample of other questions has a file of its own here.
        sets.extend([format!("dataset.draw.questions={QUESTIONS}"), "dataset.draw.after=0".to_owned()]);
    }
    if table["dataset"].get("expected").is_some() {
        sets.push(format!("dataset.expected={QUESTIONS}"));
    }
    if let Some(tune) = table.get("tune") {
        sets.extend(["tune.format=world", "tune.questions=world/sample.jsonl"].map(ToOwned::to_owned));
        sets.extend([format!("tune.sample={SAMPLE}"), format!("tune.select={}", quick_searches(&tune["select"]))]);
        // As many paths as in the papers would be scored once for each candidate and each draw of demonstrations.
        for (method, settings) in table["method"].as_table().into_iter().flatten() {
            let small = [("pool", 2), ("first_hops", 1), ("links_per_passage", 1)];
            let small = small.map(|(key, value)| format!("method.{method}.{key}={value}"));
            sets.extend(small.into_iter().filter(|_| settings["kind"].as_str() == Some("promptrank")));
            for (parameter, values) in settings.get("replicates").and_then(Value::as_table).into_iter().flatten() {
                let two = Value::Array(values.as_array().map(|values| values[..2].to_vec()).unwrap_or_default());
                sets.push(format!("method.{method}.replicates.{parameter}={two}"));
            }
        }
    }
    let services = table.get("service").and_then(Value::as_table).into_iter().flatten();
    for (service, settings) in services {
        let set = |key: &str, value: &str| format!("service.{service}.{key}={value}");
        match settings["kind"].as_str() {
            Some("endpoint") => sets.extend([set("base_url", server), set("model", "simulated-llm")]),
            Some("lm") => sets.push(set("model", stand_in(service))),
            _ => {}
        }
    }
    // Figures with many points get three: models are slow in a test's build.
    for (method, settings) in table["method"].as_table().into_iter().flatten() {
        for (parameter, values) in settings.get("sweep").and_then(Value::as_table).into_iter().flatten() {
            let points = values.as_array().map(|values| &values[..values.len().min(MOST_POINTS)]).unwrap_or_default();
            let points = Value::Array(points.to_vec());
            sets.push(format!("method.{method}.sweep.{parameter}={points}"));
        }
    }
    let file = job(name);
    let arguments = [command, file.to_str().expect("a path is text"), "--store", "store", "--cache", "cache"];
    let mut command = hopeval(dir, &arguments);
    command.args(sets.iter().flat_map(|set| ["--set", set])).env_remove("OPENAI_API_KEY");
    command
}

/// Searches with few candidates. Five are given: what the stand-in for a writer fills in may be the same twice.
fn quick_searches(searches: &Value) -> Value {
    let mut searches = searches.clone();
    for search in searches.as_array_mut().into_iter().flatten().filter_map(Value::as_table_mut) {
        if let Some(generate) = search.get_mut("generate").and_then(Value::as_table_mut) {
            generate.extend([("draws".to_owned(), 2.into()), ("max_tokens".to_owned(), 4.into())]);
            generate.insert("fill".to_owned(), "in_turn".into());
            let named = (1..=5).map(|number| Value::from(format!("Instruction {number}.")));
            search.insert("candidates".to_owned(), Value::Array(named.collect()));
        }
        let grid = search.get_mut("grid").and_then(Value::as_table_mut).into_iter().flatten();
        grid.filter_map(|(_, values)| values.as_array_mut()).for_each(|values| values.truncate(2));
    }
    searches
}

/// The stand-in for a service's model.
fn stand_in(service: &str) -> &'static str {
    match service {
        "contriever" | "bge_base" => "hopeval:encoder",
        labeler if labeler.starts_with("labeler") => "hopeval:labeler",
        filter if filter.starts_with("filter") => "hopeval:filter",
        "reader" => "hopeval:reader",
        "bge" | "bge_sentences" => "roberta-rerank",
        // Of scorers, writers and the NLI model: one T5.
        _ => "hopeval:scorer",
    }
}
