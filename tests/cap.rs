//! A run with a cap in money: it is never exceeded by the server's own account, whatever kills the run; a higher one
//! goes on. `ops/endpoint/cap.py` does the same at length.

#![cfg(target_os = "linux")]

use crate::harness::{document, final_tables, hopeval, run, run_of, succeed, wait_for};
use hopeval_simulated_llm::{LatencySettings, PriceSettings, SimulatedServer, SimulationSettings};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// EfficientRAG whose answers come from a generator at `url`: one call for each question and number of tokens.
fn job(url: &str, cap: &str) -> String {
    format!(
        r#"
name = "capped"
[dataset.world]
questions = 40
passages = 400
seed = 11
[service.bm25]
kind = "bm25"
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
threads = 1
[service.filter]
kind = "lm"
model = "hopeval:filter"
threads = 1
[service.llm]
kind = "endpoint"
model = "simulated-llm"
base_url = "{url}"
identity = "the simulated model"
concurrency = 12
[service.llm.price]
input = 1.0
output = 2.0
request = 0.001
[method.efficientrag]
kind = "efficientrag"
retriever = "bm25"
labeler = "labeler"
filter = "filter"
generator = "llm"
k = 3
[method.efficientrag.sweep]
max_tokens = [100, 120, 140, 160]
[run]
chunk = 8
{cap}
"#
    )
}

/// A server with the job's prices, whose answers take a while.
fn server() -> SimulatedServer {
    let latency = LatencySettings { first_ms: 30.0, sigma: 0.5, ..LatencySettings::default() };
    let price = PriceSettings { input: 1.0, cached_input: 1.0, output: 2.0, request: 0.001 };
    SimulatedServer::start(SimulationSettings { latency, price, ..SimulationSettings::default() }).unwrap()
}

/// `hopeval run` of the job, into `store`.
fn start(dir: &Path, server: &SimulatedServer, cap: &str, store: &str, more: &[&str]) -> Command {
    std::fs::write(dir.join("job.toml"), job(&server.base_url(), cap)).unwrap();
    let mut command = hopeval(dir, &["run", "job.toml", "--store", store, "--cache", "cache", "--json"]);
    command.args(more);
    command
}

fn resume(dir: &Path, store: &str, id: &str, more: &[&str]) -> Command {
    let mut command = hopeval(dir, &["resume", id, "--store", store, "--cache", "cache", "--json"]);
    command.args(more);
    command
}

/// The id of a store's only run.
fn only_run(store: &Path) -> Option<String> {
    let run = std::fs::read_dir(store.join("runs")).ok()?.flatten().next()?;
    Some(run.file_name().to_string_lossy().into_owned())
}

/// A command that must end with 2 because the cap is reached; the setting of its hint.
fn must_reach_cap(command: &mut Command) -> String {
    let ended = run(command);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("[run.cap] `money` = ") && said.contains("is reached"), "{said}");
    let (_, set) = said.split_once(" --set ").unwrap_or_else(|| panic!("no command that goes on: {said}"));
    set.split('`').next().unwrap().to_owned()
}

/// The row of the endpoint for the whole run.
fn incurred(document: &Value) -> Value {
    let rows = document["cost"].as_array().unwrap();
    let row = rows.iter().find(|row| row["configuration"].is_null() && row["service"] == "llm");
    row.unwrap_or_else(|| panic!("no row of `llm`: {rows:?}")).clone()
}

fn assert_close(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap_or_else(|| panic!("no number: {found}"));
    assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
}

#[test]
fn a_cap_is_never_exceeded_and_a_higher_one_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let free = server();
    let peace = document(&mut start(dir, &free, "", "peace", &[]));
    let whole = free.summary();
    assert!(whole.answered >= 100, "{whole:?}");
    let paid = incurred(&peace);
    assert_close(&paid["money"], whole.money);
    assert_close(&paid["unanswered_money"], 0.0);
    assert_eq!((paid["currency"].as_str(), paid["attempts"].as_u64()), (Some("USD"), Some(whole.calls)));
    let shown = succeed(&mut hopeval(dir, &["costs", "--store", "peace", "--cache", "cache"]));
    assert!(shown.contains("unanswered, at most") && shown.contains(" USD |"), "{shown}");

    for (store, processes) in [("one", "1"), ("two", "2")] {
        let capped = server();
        let cap = whole.money * 0.6;
        let mut command =
            start(dir, &capped, &format!("cap = {{ money = {cap} }}"), store, &["--processes", processes]);
        let set = must_reach_cap(&mut command);
        let id = only_run(&dir.join(store)).unwrap();
        let spent = capped.summary().money;
        assert!(spent <= cap && spent > 0.9 * cap, "{spent} of {cap}");
        // Bounds of calls that were in flight are settled by now: what they left over may be used, and no more.
        // Nothing of the cap is committed.
        must_reach_cap(&mut resume(dir, store, &id, &[]));
        let spent = capped.summary().money;
        assert!(spent <= cap, "{spent} of {cap}");
        let live = document(&mut hopeval(dir, &["show", &id, "--store", store, "--cache", "cache", "--json"]));
        assert_close(&incurred(&live)["money"], spent);
        assert_close(&incurred(&live)["unanswered_money"], 0.0);
        let ended = document(&mut resume(dir, store, &id, &["--set", &set, "--processes", processes]));
        assert_eq!(final_tables(&dir.join(store), run_of(&ended)), final_tables(&dir.join("peace"), run_of(&peace)));
        assert_close(&incurred(&ended)["money"], whole.money);
        assert_eq!(capped.summary().repeated_answers, 0);
    }
}

#[test]
fn kills_do_not_exceed_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let capped = server();
    // In all, the questions cost more.
    let cap = 0.12;
    let mut command = start(dir, &capped, &format!("cap = {{ money = {cap} }}"), "killed", &[]);
    for kill in 1..=3 {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let before = capped.summary().answered;
        wait_for("answers to kill after", || {
            let ended = child.try_wait().unwrap();
            (ended.is_some() || capped.summary().answered >= before + 8).then_some(())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(capped.summary().money <= cap, "after {kill} kills: {:?}", capped.summary());
        let id = only_run(&dir.join("killed")).unwrap();
        command = resume(dir, "killed", &id, &[]);
    }
    must_reach_cap(&mut command);
    // Calls that a kill has broken off are billed when the server has finished them.
    wait_for("the end of all calls", || (capped.summary().in_flight == 0).then_some(()));
    let (id, spent) = (only_run(&dir.join("killed")).unwrap(), capped.summary());
    assert!(spent.money <= cap, "{spent:?}");
    let live = document(&mut hopeval(dir, &["show", &id, "--store", "killed", "--cache", "cache", "--json"]));
    let row = incurred(&live);
    let (counted, unanswered) = (row["money"].as_f64().unwrap(), row["unanswered_money"].as_f64().unwrap());
    assert!(counted <= spent.money + 1e-9 && spent.money <= counted + unanswered + 1e-9, "{row} {spent:?}");
    assert!(counted + unanswered <= cap + 1e-9, "{row}");
}

#[test]
fn caps_are_refused_that_cannot_be_kept() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let url = "http://127.0.0.1:9/v1";
    let refused = |text: String| {
        std::fs::write(dir.join("job.toml"), text).unwrap();
        let ended = run(&mut hopeval(dir, &["run", "job.toml", "--store", "s", "--cache", "cache"]));
        assert_eq!(ended.status.code(), Some(2));
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    let unpriced = job(url, "cap = { money = 1 }").replace("[service.llm.price]", "[service.llm.body]");
    let said = refused(unpriced);
    assert!(said.contains("service.llm.price") && said.contains("run.cap"), "{said}");
    let said = refused(job(url, "cap = { money = -1 }"));
    assert!(said.contains("run.cap.money"), "{said}");
    let said = refused(job(url, "cap = { dollars = 1 }"));
    assert!(said.contains("unknown field `dollars`"), "{said}");
    let ended =
        run(&mut hopeval(dir, &["resume", "latest", "--set", "run.batch=3", "--store", "s", "--cache", "cache"]));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(2) && said.contains("run.cap.money"), "{said}");
}
