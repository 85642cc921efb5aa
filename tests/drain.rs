//! A draining run loses no computed result: the segments of the drained generation and of the next one together hold
//! every request of the job exactly once, and the drain itself writes at most one segment for each worker.

#![cfg(target_os = "linux")]

use crate::harness::{document, final_tables, hopeval, journal, run_of, wait_for};
use hopeval_results::{Log, Store};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Output, Stdio};

/// Many questions in flight: a drain then finds many results that no complete cohort has caused to be written.
const JOB: &str = r#"
name = "drained"
[dataset.world]
questions = 8000
passages = 2000
seed = 23
[service.bm25]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.hops]
kind = "iterative_title"
retriever = "bm25"
[run]
chunk = 250
in_flight = 128
"#;

/// Starts of a run, as a run may end too soon.
const ATTEMPTS: usize = 8;

/// A running `hopeval`; killed if a test fails before its end.
struct Running(Option<Child>);

impl Running {
    fn drained(mut self) -> Output {
        let child = self.0.take().unwrap();
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        child.wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until the one run of `store` has made `commits` commits, and returns its id.
fn committed(store: &Store, commits: usize) -> String {
    wait_for("run with its commits", || {
        let run = hopeval_results::run::list_runs(store).unwrap().pop()?;
        (Log::open(store, &run).unwrap().state().commits.len() >= commits).then_some(run)
    })
}

/// The computed requests of a run's services, by its commits.
fn computed(document: &serde_json::Value) -> u64 {
    let costs = document["cost"].as_array().unwrap().iter();
    costs.filter(|row| row["configuration"].is_null()).map(|row| row["computed"].as_u64().unwrap()).sum()
}

/// A job with every question in flight, each with rounds to go: its drain ends none of them.
const ROUNDS: &str = r#"
name = "rounds"
[dataset.world]
questions = 24
passages = 400
seed = 3
[service.tfidf]
kind = "tfidf"
[service.links]
kind = "link_tfidf"
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
threads = 1
[method.promptrank]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "scorer"
pool = 6
first_hops = 3
[run]
in_flight = 512
"#;

/// Waits until a process that serves metrics at `address` has served `least` requests.
fn served(address: SocketAddr, least: u64) {
    wait_for("served requests", || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let line = text.lines().find(|line| line.starts_with("hopeval_requests_served_total{"))?;
        let (_, count) = line.rsplit_once(' ')?;
        (count.parse::<u64>().ok()? >= least).then_some(())
    });
}

#[test]
fn a_question_with_rounds_to_go_is_not_driven_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("job.toml"), ROUNDS).unwrap();
    let peace = document(hopeval(dir, &["run", "job.toml"]).args(["--store", "peace", "--cache", "cache", "--json"]));
    let (requests, _) = journal(&open(dir, "peace"));

    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = hopeval(dir, &["run", "job.toml", "--store", "drained", "--cache", "cache"]);
    command.args(["--metrics", &address.to_string()]).stdout(Stdio::null()).stderr(Stdio::piped());
    let running = Running(Some(command.spawn().unwrap()));
    // Every question has asked its retriever; the scorer has some of the first paths.
    served(address, 40);
    let ended = running.drained();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(75), "{said}");
    let store = open(dir, "drained");
    let (before, _) = journal(&store);
    assert!(before.len() >= 20 && before.len() < requests.len(), "{} of {}", before.len(), requests.len());
    let id = hopeval_results::run::list_runs(&store).unwrap().pop().unwrap();
    assert!(Log::open(&store, &id).unwrap().state().commits.is_empty(), "a cohort with open questions was committed");

    let places = ["--store", "drained", "--cache", "cache", "--json"];
    document(hopeval(dir, &["resume", &id, "--workers", "3"]).args(places));
    assert!(journal(&store).0 == requests, "the two generations together computed every request exactly once");
    let tables = final_tables(&dir.join("peace"), run_of(&peace));
    assert!(final_tables(&dir.join("drained"), &id) == tables, "the tables differ after a resume");
}

fn open(dir: &Path, store: &str) -> Store {
    Store::open(dir.join(store).to_str().unwrap()).unwrap()
}

/// Starts the job and drains it once it has committed; the run's id, unless it was over before.
fn drain(dir: &Path, store: &str, processes: usize, workers: usize) -> Option<String> {
    let mut command = hopeval(dir, &["run", "job.toml", "--store", store, "--cache", "cache", "--json"]);
    command.args(["--processes", &processes.to_string(), "--workers", &workers.to_string()]);
    let running = Running(Some(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()));
    let id = committed(&open(dir, store), 1);
    let ended = running.drained();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!said.contains("error") && !said.contains("was lost"), "{said}");
    match ended.status.code() {
        Some(0) => None,
        code => {
            assert_eq!(code, Some(75), "{said}");
            Some(id)
        }
    }
}

#[test]
fn what_a_drained_run_has_computed_is_not_computed_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("job.toml"), JOB).unwrap();
    let peace = document(hopeval(dir, &["run", "job.toml"]).args(["--store", "peace", "--cache", "cache", "--json"]));
    let tables = final_tables(&dir.join("peace"), run_of(&peace));
    let (requests, _) = journal(&open(dir, "peace"));
    assert_eq!(computed(&peace), requests.len() as u64, "in peace, every request is computed once");
    assert!(requests.values().all(|&times| times == 1));

    for (name, processes, workers) in [("one", 1, 2), ("two", 2, 2)] {
        // A fast machine may be done before the signal comes. Then there is nothing to drain: the test tries again.
        let drained = (0..ATTEMPTS).find_map(|attempt| {
            let store = format!("{name}-{attempt}");
            drain(dir, &store, processes, workers).map(|id| (store, id))
        });
        let (name, id) = drained.expect("a run that is drained on its way");
        let (store, places) = (open(dir, &name), ["--store", &name, "--cache", "cache", "--json"]);

        let (before, segments) = journal(&store);
        assert!(before.len() < requests.len(), "the run was over before it was drained");
        assert!(before.keys().all(|key| requests.contains_key(key)) && before.values().all(|&times| times == 1));
        // One segment for each complete cohort (the last one may stay uncommitted), and one for the flush.
        let cohorts = Log::open(&store, &id).unwrap().state().committed.len();
        let most = processes * workers * (cohorts + 2);
        assert!(segments <= most, "{segments} segments for {cohorts} cohorts: the drain wrote many small ones");

        let resumed = document(hopeval(dir, &["resume", &id, "--workers", "3"]).args(places));
        let (after, _) = journal(&store);
        assert!(after == requests, "the two generations together computed every request exactly once");
        // The accounts are those of the commits: work after the last commit is in no account.
        assert!(computed(&resumed) <= requests.len() as u64, "{}", resumed["cost"]);
        assert!(computed(&resumed) >= (requests.len() - before.len()) as u64, "{}", resumed["cost"]);
        assert!(final_tables(&dir.join(&name), &id) == tables, "the tables differ after a resume");
    }
}
