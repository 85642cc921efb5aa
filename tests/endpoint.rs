//! A run whose generator stands behind an endpoint: a simulated server, its faults, its outages, its key.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "support/harness.rs"]
mod harness;

use harness::{document, final_tables, hopeval, run, run_of, wait_for};
use hopeval_simulated_llm::{
    FaultKind, FaultSettings, FaultWindow, LatencySettings, SimulatedServer, SimulationSettings,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The key of the simulated server: nothing that hopeval writes may hold it.
const KEY: &str = "sk-simulated-0123456789abcdef";

/// EfficientRAG whose answers come from a generator at `url`.
fn job(url: &str, more: &str) -> String {
    format!(
        r#"
name = "behind-an-endpoint"
[dataset.world]
questions = 24
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
key_env = "SIMULATED_KEY"
identity = "the simulated model"
first_pause_s = 0.01
longest_pause_s = 0.1
{more}
[service.llm.price]
input = 1.0
output = 2.0
[method.efficientrag]
kind = "efficientrag"
retriever = "bm25"
labeler = "labeler"
filter = "filter"
generator = "llm"
k = 5
[run]
chunk = 8
"#
    )
}

fn server(faults: FaultSettings) -> SimulatedServer {
    let api_key = Some(KEY.to_owned());
    SimulatedServer::start(SimulationSettings { api_key, faults, ..SimulationSettings::default() }).unwrap()
}

/// `hopeval run` of the job at `url`, into `store`.
fn run_job(dir: &Path, url: &str, more: &str, store: &str, arguments: &[&str]) -> Command {
    std::fs::write(dir.join("job.toml"), job(url, more)).unwrap();
    let mut command = hopeval(dir, &["run", "job.toml", "--store", store, "--cache", "cache", "--json"]);
    command.args(arguments).env("SIMULATED_KEY", KEY);
    command
}

/// Every file below a folder that holds the key.
fn files_with_key(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with_key(&path));
        } else if std::fs::read(&path).unwrap().windows(KEY.len()).any(|bytes| bytes == KEY.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Standard output and error of an ended process, without the key.
fn words(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(!text.contains(KEY), "the key is printed: {text}");
    text
}

#[test]
fn faults_of_a_server_change_no_table_and_answer_no_body_twice() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let faultless = server(FaultSettings::default());
    let peace = document(&mut run_job(dir, &faultless.base_url(), "", "peace", &[]));
    let tables = final_tables(&dir.join("peace"), run_of(&peace));
    let expected = faultless.summary();
    assert!(expected.answered_bodies >= 20, "{expected:?}");
    assert_eq!((expected.repeated_answers, expected.failed), (0, 0), "{expected:?}");

    // The same job asks nothing again.
    let again = document(&mut run_job(dir, &faultless.base_url(), "", "peace", &[]));
    assert_eq!(final_tables(&dir.join("peace"), run_of(&again)), tables);
    assert_eq!(faultless.summary().calls, expected.calls, "the journal answers");

    for (store, arguments) in [("one", vec![]), ("three", vec!["--processes", "3"])] {
        let faults = FaultSettings {
            rate: 0.3,
            per_body: Some(2),
            stall_ms: 400,
            refused_ms: 50,
            retry_after_s: 0,
            ..FaultSettings::default()
        };
        let faulty = server(faults);
        let more = "stall_s = 0.2\npatience_s = 60";
        let found = document(&mut run_job(dir, &faulty.base_url(), more, store, &arguments));
        assert_eq!(final_tables(&dir.join(store), run_of(&found)), tables, "{store}");
        let summary = faulty.summary();
        assert!(summary.failed + summary.limited > 5, "{summary:?}");
        assert_eq!(summary.answered_bodies, expected.answered_bodies, "{summary:?}");
    }
    assert_eq!(files_with_key(dir), Vec::<String>::new());
}

#[test]
fn an_outage_ends_the_run_as_resumable_and_a_wrong_key_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let faultless = server(FaultSettings::default());
    let peace = document(&mut run_job(dir, &faultless.base_url(), "", "peace", &[]));
    let tables = final_tables(&dir.join("peace"), run_of(&peace));

    let window = FaultWindow { from_s: 0.0, to_s: 1e6, kind: FaultKind::Unavailable };
    let dead = server(FaultSettings { schedule: vec![window], ..FaultSettings::default() });
    let more = "patience_s = 0.5";
    let ended = run(&mut run_job(dir, &dead.base_url(), more, "outage", &[]));
    let said = words(&ended);
    assert_eq!(ended.status.code(), Some(75), "{said}");
    assert!(said.contains("[service.llm]") && said.contains("503") && said.contains("hopeval resume"), "{said}");
    let id = only_run(&dir.join("outage"));

    // The server is well again, at the same address.
    dead.change(SimulationSettings { faults: FaultSettings::default(), ..dead.settings() }).unwrap();
    let mut resume = hopeval(dir, &["resume", &id, "--store", "outage", "--cache", "cache", "--json"]);
    document(resume.env("SIMULATED_KEY", KEY));
    assert_eq!(final_tables(&dir.join("outage"), &id), tables, "an outage leaves no trace in the tables");

    let mut wrong = run_job(dir, &faultless.base_url(), "", "wrong", &[]);
    let ended = run(wrong.env("SIMULATED_KEY", "sk-another-key-0123456789"));
    let said = words(&ended);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("does not take the key") && said.contains("goes on"), "{said}");
    let mut absent = run_job(dir, &faultless.base_url(), "", "absent", &[]);
    let ended = run(absent.env_remove("SIMULATED_KEY"));
    let said = words(&ended);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("SIMULATED_KEY"), "{said}");
    assert_eq!(files_with_key(dir), Vec::<String>::new());
}

/// The ways in which a run ends while calls are in flight.
#[derive(Clone, Copy, Debug)]
enum Interruption {
    Kill,
    Terminate,
    Refusal,
}

impl Interruption {
    /// Ends the run. Its exit code, if it has one.
    fn end_run(self, server: &SimulatedServer, mut child: std::process::Child) -> Option<i32> {
        match self {
            Self::Kill => {
                // No answer comes any more, and a second is what a paid answer has to become durable.
                change_latency(server, 3.6e6);
                std::thread::sleep(Duration::from_secs(1));
                child.kill().unwrap();
            }
            Self::Terminate => kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap(),
            Self::Refusal => {
                let kinds = vec![FaultKind::Unauthorized];
                let faults = FaultSettings { rate: 1.0, kinds, ..FaultSettings::default() };
                server.change(SimulationSettings { faults, ..server.settings() }).unwrap();
            }
        }
        child.wait().unwrap().code()
    }
}

fn change_latency(server: &SimulatedServer, first_ms: f64) {
    let latency = LatencySettings { first_ms, ..LatencySettings::default() };
    server.change(SimulationSettings { latency, ..server.settings() }).unwrap();
}

#[test]
fn paid_answers_outlive_kills_signals_and_refusals() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let faultless = server(FaultSettings::default());
    let peace = document(&mut run_job(dir, &faultless.base_url(), "", "peace", &[]));
    let tables = final_tables(&dir.join("peace"), run_of(&peace));

    let ways = [(Interruption::Kill, None), (Interruption::Terminate, Some(75)), (Interruption::Refusal, Some(2))];
    for (way, code) in ways {
        let server = server(FaultSettings::default());
        change_latency(&server, 40.0);
        let store = format!("{way:?}");
        let mut command = run_job(dir, &server.base_url(), "", &store, &[]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("answer", || (server.summary().answered >= 6).then_some(()));
        assert_eq!(way.end_run(&server, child), code, "{way:?}");
        // Calls of a killed run end when the server sees that their caller has gone.
        wait_for("end of all calls", || (server.summary().in_flight == 0).then_some(()));
        let before = server.summary();

        server.change(SimulationSettings { faults: FaultSettings::default(), ..server.settings() }).unwrap();
        change_latency(&server, 0.0);
        let id = only_run(&dir.join(&store));
        let mut resume = hopeval(dir, &["resume", &id, "--store", &store, "--cache", "cache", "--json"]);
        document(resume.env("SIMULATED_KEY", KEY));
        assert_eq!(final_tables(&dir.join(&store), &id), tables, "{way:?}");
        let after = server.summary();
        assert_eq!(after.repeated_answers, 0, "{way:?}: a paid answer was lost: {before:?} {after:?}");
        let asked_again = after.calls - after.bodies;
        assert_eq!(asked_again, before.callers_gone + before.failed, "{way:?}: {before:?} {after:?}");
    }
}

/// The one run of a store.
fn only_run(store: &Path) -> String {
    let mut runs = std::fs::read_dir(store.join("runs")).unwrap().flatten();
    let run = runs.next().unwrap().file_name().to_string_lossy().into_owned();
    assert!(runs.next().is_none(), "one run");
    run
}
