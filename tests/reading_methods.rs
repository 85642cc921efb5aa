//! Methods that have a language model read and reason, against the simulated server over a generated world.

use crate::harness::{document, hopeval, measure};
use hopeval_simulated_llm::{SimulatedServer, SimulationSettings};
use serde_json::Value;

fn job(url: &str) -> String {
    format!(
        r#"
name = "reading"
[dataset.world]
questions = 40
passages = 2000
seed = 5
[service.bm25]
kind = "bm25"
[service.llm]
kind = "endpoint"
model = "simulated-llm"
base_url = "{url}"
identity = "the simulated model"
[method.closed]
kind = "no_retrieval"
generator = "llm"
style = "direct"
[method.one_step]
kind = "one_step_qa"
retriever = "bm25"
generator = "llm"
k = 15
[method.oracle]
kind = "one_step_qa"
context = "oracle"
generator = "llm"
[method.ircot]
kind = "ircot"
retriever = "bm25"
generator = "llm"
k = 4
[measures]
budget_recall_at = [15]
"#
    )
}

#[test]
fn reading_step_by_step_finds_more_and_answers_better() {
    let server = SimulatedServer::start(SimulationSettings::default()).expect("a server");
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("job.toml"), job(&server.base_url())).expect("the job can be written");
    let found = document(&mut hopeval(dir.path(), &["run", "job.toml", "--json"]));
    let value =
        |configuration: &str, name: &str| -> Value { measure(&found, configuration, "all", name)["value"].clone() };
    let number = |configuration: &str, name: &str| value(configuration, name).as_f64().expect("a figure");
    let [closed, one_step, oracle, ircot] = ["closed", "one_step", "oracle", "ircot"].map(|name| number(name, "f1"));
    assert!(closed < 0.2, "nothing is known without passages: {closed}");
    assert!(oracle >= 0.9, "gold passages are understood in these prompts: {oracle}");
    assert!(ircot > one_step && one_step > closed, "f1: ircot {ircot}, one step {one_step}, closed {closed}");
    let recall = ["one_step", "ircot"].map(|name| number(name, "budget_recall@15"));
    assert!(recall[1] > recall[0], "recall in 15 passages: {recall:?}");
    assert_eq!(value("closed", "budget_recall@15"), Value::Null, "it ranks nothing");
    for (name, mode) in [("closed", "closed"), ("one_step", "open"), ("oracle", "oracle"), ("ircot", "open")] {
        assert_eq!(measure(&found, name, "all", "f1")["context_mode"], mode);
    }
}
