//! The baselines that read and reason, from the command line to their tables, with a simulated language model behind an
//! endpoint over a small generated world. What they answer says that programs work, and nothing about the methods.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "support/harness.rs"]
mod harness;

use harness::{document, hopeval, measure};
use hopeval_simulated_llm::{SimulatedServer, SimulationSettings};
use std::path::Path;

/// Every baseline in its variants, with a generator at `url`.
fn job(url: &str) -> String {
    format!(
        r#"
name = "simulated-baselines"
[dataset.world]
questions = 24
passages = 400
seed = 11
[service.bm25]
kind = "bm25"
[service.llm]
kind = "endpoint"
model = "simulated-llm"
base_url = "{url}"
dialect = "vllm"
identity = "the simulated model"
[method.parallel]
kind = "decompose"
generator = "llm"
retriever = "bm25"
[method.sequential]
kind = "decompose"
mode = "sequential"
generator = "llm"
retriever = "bm25"
[method.iter_retgen]
kind = "iter_retgen"
generator = "llm"
retriever = "bm25"
[method.iter_retgen_code]
kind = "iter_retgen"
as = "code"
generator = "llm"
retriever = "bm25"
[method.self_ask]
kind = "self_ask"
generator = "llm"
retriever = "bm25"
snippet_sentences = 20
[method.self_ask_documents]
kind = "self_ask"
evidence = "documents"
generator = "llm"
retriever = "bm25"
[method.self_ask_reader]
kind = "self_ask"
evidence = "reader"
generator = "llm"
retriever = "bm25"
[method.react]
kind = "react"
generator = "llm"
retriever = "bm25"
sentences = 20
"#
    )
}

fn run_world(folder: &Path) -> serde_json::Value {
    let server = SimulatedServer::start(SimulationSettings::default()).unwrap();
    std::fs::write(folder.join("job.toml"), job(&server.base_url())).unwrap();
    document(&mut hopeval(folder, &["run", "job.toml", "--store", "store", "--cache", "cache", "--json"]))
}

#[test]
fn baselines_answer_questions_of_a_world() {
    let folder = tempfile::tempdir().unwrap();
    let document = run_world(folder.path());
    for configuration in [
        "parallel",
        "sequential",
        "iter_retgen",
        "iter_retgen_code",
        "self_ask",
        "self_ask_documents",
        "self_ask_reader",
        "react",
    ] {
        let row = measure(&document, configuration, "", "em");
        let value = row["value"].as_f64().unwrap();
        assert!(value >= 0.25, "{configuration} answers {value} of the questions");
    }
}
