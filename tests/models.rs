//! Methods over language models, end to end. The models are tiny, and most are untrained: the figures mean nothing, and
//! must not depend on how the work is spread, shared and resumed.

use crate::harness::{
    self, document, final_tables, hopeval, journal, kill_after_commits, kill_after_records, models, run_of, succeed,
    wait_for,
};
use hopeval_results::tables::{ConfigurationRow, FinalOutcomeRow, read_table};
use hopeval_results::{Log, Store, layout};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A job over a small world. `temperatures` is the part of the sweep or of the method with the temperatures.
fn job(dir: &Path, name: &str, temperatures: &str) -> PathBuf {
    models(dir, &["t5-v1.1", "electra-span"]);
    let text = format!(
        r#"
name = "{name}"
[dataset.world]
questions = 10
passages = 400
seed = 7
[service.tfidf]
kind = "tfidf"
[service.links]
kind = "link_tfidf"
[service.t5]
kind = "lm"
model = "t5-v1.1"
threads = 1
[service.reader]
kind = "lm"
model = "electra-span"
threads = 1
[method.promptrank]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "t5"
pool = 8
reader = "reader"
read_paths = 4
{temperatures}
[run]
chunk = 4
allowed_failed = 1.0
"#
    );
    let path = dir.join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}

/// EfficientRAG over the binary's embedded models. They are trained, so questions take several iterations. Answered by
/// a reader, and by a language model; its texts hold no JSON, so each question is asked twice and fails.
const EFFICIENTRAG: &str = r#"
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
threads = 1
[service.filter]
kind = "lm"
model = "hopeval:filter"
threads = 1
[service.answers]
kind = "lm"
model = "hopeval:reader"
threads = 1
[service.writer]
kind = "lm"
model = "hopeval:scorer"
threads = 1
[method.efficientrag]
kind = "efficientrag"
retriever = "tfidf"
labeler = "labeler"
filter = "filter"
reader = "answers"
k = 4
[method.written]
kind = "efficientrag"
retriever = "tfidf"
labeler = "labeler"
filter = "filter"
generator = "writer"
k = 4
read_passages = 1
max_tokens = 4
temperature = 0.7
attempts = 2
"#;

const SWEEP: &str = "[method.promptrank.sweep]\ntemperature = [1.0, 1.4]";

fn command(dir: &Path, job: &Path, store: &str, more: &[&str]) -> Command {
    let arguments = ["run", job.to_str().unwrap(), "--store", store, "--cache", "cache", "--json"];
    hopeval(dir, &[&arguments[..], more].concat())
}

fn evaluate(dir: &Path, job: &Path, store: &str, more: &[&str]) -> Value {
    document(&mut command(dir, job, store, more))
}

/// Begins a run, and kills it after its first commits.
fn killed(dir: &Path, job: &Path, store: &str, more: &[&str]) {
    kill_after_commits(&mut command(dir, job, store, more), &dir.join(store));
}

/// Rows of a document's costs: the run's, or a configuration's.
fn costs<'a>(document: &'a Value, configuration: Option<&str>) -> impl Iterator<Item = &'a Value> {
    let rows = document["cost"].as_array().unwrap().iter();
    rows.filter(move |row| row["configuration"].as_str() == configuration)
}

fn computed(document: &Value) -> u64 {
    costs(document, None).map(|row| row["computed"].as_u64().unwrap()).sum()
}

/// Removes the last record of a killed run, a commit, as if the kill had come just before it: its outcomes are made
/// again, and their answers are in the journal.
fn uncommit_last(store: &Store) {
    let run = hopeval_results::run::list_runs(store).unwrap().pop().unwrap();
    let log = Log::open(store, &run).unwrap();
    store.delete(&layout::log_record(&run, log.state().next - 1)).unwrap();
    let left = Log::open(store, &run).unwrap();
    assert_eq!(left.state().commits.len() + 1, log.state().commits.len(), "the last record is a commit");
}

fn open(dir: &Path, store: &str) -> Store {
    Store::open(dir.join(store).to_str().unwrap()).unwrap()
}

fn outcomes(dir: &Path, store: &str, document: &Value, configuration: &str) -> Vec<FinalOutcomeRow> {
    let store = open(dir, store);
    let path = layout::final_table(run_of(document), "outcomes");
    let rows = read_table::<FinalOutcomeRow>(&store, &path).unwrap().into_iter();
    // Of all columns, only the name tells one job's configuration from another's.
    rows.filter(|row| row.configuration == configuration)
        .map(|row| FinalOutcomeRow { configuration: String::new(), ..row })
        .collect()
}

/// The attributed usage of each configuration. It does not depend on the course of the run.
fn needed(document: &Value) -> Vec<Vec<Value>> {
    let rows = document["cost"].as_array().unwrap().iter().filter(|row| !row["configuration"].is_null());
    let fields = [
        "configuration",
        "service",
        "kind",
        "requests",
        "prompt_tokens",
        "completion_tokens",
        "scored_tokens",
        "operations",
    ];
    rows.map(|row| fields.map(|field| row[field].clone()).to_vec()).collect()
}

#[test]
fn both_methods_are_the_same_however_they_are_spread() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(dir.path(), "spread", &[SWEEP, EFFICIENTRAG].concat());
    let run = |store: &str, more: &[&str]| {
        let document = evaluate(dir.path(), &job, store, more);
        let tables = final_tables(&dir.path().join(store), run_of(&document));
        (document, tables)
    };
    let (alone, expected) = run("alone", &["--workers", "1"]);
    let (several, tables) = run("several", &["--workers", "2", "--processes", "2"]);
    assert!(tables == expected);
    let (again, tables) = run("alone", &["--workers", "3"]);
    assert!(tables == expected);
    assert_eq!(computed(&again), 0);
    assert_eq!(computed(&several), computed(&alone));
    assert_eq!(needed(&several), needed(&alone));
    efficientrag(dir.path(), &alone);
    // Looking at a run needs no model.
    std::fs::rename(dir.path().join("t5-v1.1"), dir.path().join("gone")).unwrap();
    let shown = document(&mut hopeval(dir.path(), &["show", "--store", "several", "--cache", "cache", "--json"]));
    assert_eq!(shown, several);
    let plan = harness::run(&mut hopeval(dir.path(), &["plan", job.to_str().unwrap(), "--cache", "cache"]));
    let message = String::from_utf8_lossy(&plan.stderr);
    assert!(
        !plan.status.success() && message.contains("[service.t5]: `model` = \"t5-v1.1\": no such folder"),
        "{message}"
    );
}

/// The spread work is not trivial: questions of several iterations with answers, texts sampled again, and prompts on
/// record.
fn efficientrag(dir: &Path, document: &Value) {
    let read = outcomes(dir, "alone", document, "efficientrag");
    assert!(read.len() == 10 && read.iter().all(|row| row.status == "ok"));
    assert!(read.iter().filter(|row| row.iterations > 1 && row.answer.is_some()).count() > 2, "{read:?}");
    let written = outcomes(dir, "alone", document, "written");
    for (read, written) in read.iter().zip(&written) {
        assert_eq!((written.status.as_str(), &written.answer), ("parse_failure", &None));
        let calls = |row: &FinalOutcomeRow, kind: &str| {
            row.calls.iter().filter(|calls| calls.kind == kind).map(|calls| calls.calls).sum::<u64>()
        };
        assert_eq!(calls(written, "generate"), 2, "a second draw after the first did not parse");
        for kind in ["retrieve", "label", "filter"] {
            assert_eq!(calls(written, kind), calls(read, kind), "{kind}");
        }
    }
    let path = layout::final_table(run_of(document), "configurations");
    let rows = read_table::<ConfigurationRow>(&open(dir, "alone"), &path).unwrap();
    let prompted = |name: &str| {
        let row = rows.iter().find(|row| row.configuration == name).unwrap();
        let parameters: Value = serde_json::from_str(&row.parameters).unwrap();
        (row.prompt_origin.clone(), row.prompt_digest.is_some(), parameters["prompt"].is_string())
    };
    assert_eq!(prompted("efficientrag"), (None, false, false));
    assert_eq!(prompted("written"), (Some("hopeval".to_owned()), true, true));
}

#[test]
fn a_sweep_shares_requests_and_changes_no_point() {
    let dir = tempfile::tempdir().unwrap();
    let (one, both) = (job(dir.path(), "one", "temperature = 1.4"), job(dir.path(), "both", SWEEP));
    let alone = evaluate(dir.path(), &one, "alone", &[]);
    let sweep = evaluate(dir.path(), &both, "sweep", &[]);
    let point = "promptrank{temperature=1.4}";
    let (expected, found) =
        (outcomes(dir.path(), "alone", &alone, "promptrank"), outcomes(dir.path(), "sweep", &sweep, point));
    assert_eq!((expected.len(), &found), (10, &expected), "scores to the bit, paths, answers, calls");
    assert!(expected.iter().all(|row| row.status == "ok" && row.ranked.len() >= 8));
    let of = |document: &Value| {
        costs(document, None).find(|row| row["service"] == "t5").map(|row| row["unique"].as_u64().unwrap()).unwrap()
    };
    assert!(of(&sweep) < 2 * of(&alone), "the first hop is shared: {} and {}", of(&sweep), of(&alone));

    // The journal of one temperature lacks the other: repeated requests are kept with both, and then serve either.
    assert!(computed(&evaluate(dir.path(), &both, "alone", &[])) > 0);
    assert_eq!(computed(&evaluate(dir.path(), &both, "alone", &[])), 0);
    assert_eq!(computed(&evaluate(dir.path(), &one, "alone", &[])), 0);

    // The requests of the sweep, as predicted by a plan.
    let plan = succeed(&mut hopeval(dir.path(), &["plan", both.to_str().unwrap(), "--cache", "cache", "--json"]));
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let asked = |field: &str| -> f64 {
        let points = ["promptrank{temperature=1.0}", point].map(Some);
        let rows = points.iter().flat_map(|&point| costs(&sweep, point)).filter(|row| row["service"] == "t5");
        rows.map(|row| row[field].as_f64().unwrap()).sum()
    };
    let tokens = &plan["estimated_tokens"]["t5 score"];
    for (told, field) in [
        (&plan["estimated"]["t5 score"], "requests"),
        (&tokens["prompt"], "prompt_tokens"),
        (&tokens["scored"], "scored_tokens"),
    ] {
        let (told, asked) = (told.as_f64().unwrap(), asked(field));
        assert!((told / asked - 1.0).abs() < 0.1, "{field}: told {told}, asked {asked}");
    }
}

/// Two dense indexes, one of them restricted to the passages linked from another method's pool.
const DENSE: &str = r#"
name = "dense"
[dataset.world]
questions = 60
passages = 400
seed = 7
[service.tfidf]
kind = "tfidf"
[service.encoder]
kind = "lm"
model = "bert"
threads = 1
normalize = true
[service.dense]
kind = "dense"
encoder = "encoder"
[service.half]
kind = "dense"
encoder = "encoder"
dtype = "f16"
fields = "text"
[method.dense]
kind = "one_step"
retriever = "dense"
[method.dense.sweep]
k = [3, 390]
[method.half]
kind = "tfidf_bm25"
retriever = "tfidf"
reranker = "half"
pool = 10
[method.hops]
kind = "iterative_title"
retriever = "dense"
[run]
chunk = 4
"#;

#[test]
fn dense_retrieval_is_the_same_over_any_shards_and_kills() {
    let dir = tempfile::tempdir().unwrap();
    models(dir.path(), &["bert"]);
    let job = dir.path().join("dense.toml");
    std::fs::write(&job, DENSE).unwrap();
    let tables = |store: &str, document: &Value| final_tables(&dir.path().join(store), run_of(document));
    let alone = evaluate(dir.path(), &job, "alone", &["--workers", "1"]);
    let expected = tables("alone", &alone);
    let spent = |document: &Value, field: &str| -> Vec<u64> {
        let rows = costs(document, None).filter(|row| ["dense", "half"].iter().any(|name| row["service"] == *name));
        rows.map(|row| row[field].as_u64().unwrap()).collect()
    };
    assert!(spent(&alone, "computed").iter().all(|&computed| computed > 0));
    for (store, shape) in
        [("workers", ["--workers", "3", "--processes", "1"]), ("processes", ["--workers", "2", "--processes", "2"])]
    {
        let several = evaluate(dir.path(), &job, store, &shape);
        assert!(tables(store, &several) == expected, "{shape:?}");
        for field in ["computed", "prompt_tokens", "operations"] {
            assert_eq!(spent(&several, field), spent(&alone, field), "{field} of {shape:?}");
        }
        for row in costs(&several, None).filter(|row| row["service"] == "dense") {
            let (service_s, device_s) = (row["service_s"].as_f64().unwrap(), row["device_s"].as_f64().unwrap());
            assert!(device_s > 0.0 && service_s > 0.0, "{row}");
        }
    }
    // Killed with queries under way between the workers.
    let slow = dir.path().join("slow.toml");
    std::fs::write(&slow, DENSE.replace("chunk = 4", "chunk = 1\nin_flight = 1")).unwrap();
    let peace = evaluate(dir.path(), &slow, "peace", &["--workers", "1"]);
    killed(dir.path(), &slow, "war", &["--workers", "2", "--processes", "2"]);
    let resume = ["resume", "latest", "--store", "war", "--cache", "cache", "--workers", "3", "--json"];
    let resumed = document(&mut hopeval(dir.path(), &resume));
    assert!(tables("war", &resumed) == tables("peace", &peace));
}

/// Commits each question by itself, with a given number under way.
fn in_small_steps(job: &Path, in_flight: u32) {
    let text = std::fs::read_to_string(job).unwrap();
    let (head, tail) = text.split_once("chunk = 4\n").unwrap();
    std::fs::write(job, format!("{head}chunk = 1\nin_flight = {in_flight}\n{tail}")).unwrap();
}

#[test]
fn a_run_that_is_killed_ends_as_if_it_had_not_been() {
    let dir = tempfile::tempdir().unwrap();
    // Few questions at a time, to have a middle of the run.
    let job = job(dir.path(), "killed", &[SWEEP, EFFICIENTRAG].concat());
    in_small_steps(&job, 1);
    let peace = evaluate(dir.path(), &job, "peace", &["--workers", "1"]);
    killed(dir.path(), &job, "war", &["--workers", "1"]);
    uncommit_last(&open(dir.path(), "war"));
    let resume = ["resume", "latest", "--store", "war", "--cache", "cache", "--workers", "2", "--json"];
    let resumed = document(&mut hopeval(dir.path(), &resume));
    let tables = |store: &str, document: &Value| final_tables(&dir.path().join(store), run_of(document));
    assert!(tables("war", &resumed) == tables("peace", &peace));
    let requests = |store: &str| journal(&open(dir.path(), store)).0;
    assert!(requests("war") == requests("peace"), "the two generations together computed every request exactly once");
    assert_eq!(needed(&resumed), needed(&peace));
}

/// EfficientRAG alone: whenever the run is killed, its open questions are in the middle of their iterations.
#[test]
fn efficientrag_goes_on_where_it_was_killed() {
    const QUESTIONS: u64 = 16;
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("alone.toml");
    let world = format!("[dataset.world]\nquestions = {QUESTIONS}\npassages = 400\nseed = 8\n");
    let rest = "[service.tfidf]\nkind = \"tfidf\"\n[run]\nchunk = 4\nallowed_failed = 1.0\n";
    std::fs::write(&job, ["name = \"alone\"\n", &world, rest, EFFICIENTRAG].concat()).unwrap();
    in_small_steps(&job, 2);
    let peace = evaluate(dir.path(), &job, "peace", &["--workers", "1"]);

    let committed = || {
        let store = open(dir.path(), "war");
        let run = std::fs::read_dir(dir.path().join("war/runs")).unwrap().next().unwrap().unwrap().file_name();
        let log = Log::open(&store, run.to_str().unwrap()).unwrap();
        let state = log.state();
        assert!(state.finished.is_none() && state.total_outcomes() < 2 * QUESTIONS, "it was killed at its end");
        state.commits.clone()
    };
    killed(dir.path(), &job, "war", &["--workers", "1"]);
    let first = committed();
    assert!(first.len() >= 2);
    // Once more: a fence and a commit of the second generation.
    let resume = ["resume", "latest", "--store", "war", "--cache", "cache", "--workers"];
    let mut again = hopeval(dir.path(), &[&resume[..], &["1"]].concat());
    kill_after_records(&mut again, &dir.path().join("war"), first.len() + 3);
    let second = committed();
    assert!(second.len() > first.len() && second.starts_with(&first), "what was committed stays, and it went on");

    let resumed = document(&mut hopeval(dir.path(), &[&resume[..], &["2", "--processes", "2", "--json"]].concat()));
    let tables = |store: &str, document: &Value| final_tables(&dir.path().join(store), run_of(document));
    assert!(tables("war", &resumed) == tables("peace", &peace));
    assert_eq!(needed(&resumed), needed(&peace));
    let read = outcomes(dir.path(), "war", &resumed, "efficientrag");
    assert!(read.iter().filter(|row| row.iterations > 1).count() > 4, "{read:?}");
}

/// A corpus that takes the tiny encoder a while, and one method.
const SLOW_TO_EMBED: &str = r#"
name = "slow-to-embed"
[dataset.world]
questions = 4
passages = 10000
seed = 7
[service.encoder]
kind = "lm"
model = "bert"
threads = 1
[service.dense]
kind = "dense"
encoder = "encoder"
[method.dense]
kind = "one_step"
retriever = "dense"
"#;

#[test]
fn an_interrupted_embedding_of_the_corpus_begins_again() {
    let dir = tempfile::tempdir().unwrap();
    models(dir.path(), &["bert"]);
    let job = dir.path().join("slow.toml");
    std::fs::write(&job, SLOW_TO_EMBED).unwrap();
    let paths = |cache: &str, ending: &str| -> Vec<PathBuf> {
        let files = std::fs::read_dir(dir.path().join(cache).join("indexes")).into_iter().flatten().flatten();
        files.map(|file| file.path()).filter(|path| path.to_str().unwrap().ends_with(ending)).collect()
    };
    let indexes = |cache: &str| -> Vec<Vec<u8>> {
        paths(cache, ".idx").iter().map(|path| std::fs::read(path).unwrap()).collect()
    };
    let peace = evaluate(dir.path(), &job, "peace", &["--workers", "2"]);
    let expected = indexes("cache");
    assert_eq!(expected.len(), 1);

    let arguments = ["run", job.to_str().unwrap(), "--store", "war", "--cache", "elsewhere", "--processes", "2"];
    let mut command = hopeval(dir.path(), &arguments);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    wait_for("index that is being made", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it made an index");
        (!paths("elsewhere", ".part").is_empty()).then_some(())
    });
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::SIGTERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(75), "{said}");
    assert!(said.contains("interrupted before any question was admitted"), "{said}");
    assert!(said.contains("`hopeval resume "), "{said}");
    assert!(indexes("elsewhere").is_empty(), "half an index is none");

    let resume = ["resume", "latest", "--store", "war", "--cache", "elsewhere", "--workers", "3", "--json"];
    let resumed = document(&mut hopeval(dir.path(), &resume));
    assert!(indexes("elsewhere") == expected);
    assert!(paths("elsewhere", ".part").is_empty(), "what was left has been cleared away");
    let tables = |store: &str, document: &Value| final_tables(&dir.path().join(store), run_of(document));
    assert!(tables("war", &resumed) == tables("peace", &peace));
}
