//! A run whose generator stands behind an endpoint: a simulated server, its faults, its outages, its key.

use crate::batch_runner::BatchRunner;
use crate::harness::{document, final_tables, hopeval, run, run_of, wait_for};
use hopeval_results::tables::{FinalOutcomeRow, read_table};
use hopeval_results::{Store, layout};
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

#[test]
fn a_call_that_always_fails_alone_is_a_failed_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let rates = [(FaultKind::InternalError, 1.0)].into();
    let failing = server(FaultSettings { rates, ..FaultSettings::default() });
    // Two calls are few, and the server lists its models.
    let more = "patience_s = 0.5\n[dataset.draw]\nquestions = 2";
    let ended = run(&mut run_job(dir, &failing.base_url(), more, "store", &[]));
    assert_eq!(ended.status.code(), Some(1), "{}", words(&ended));
    let id = only_run(&dir.join("store"));
    let store = Store::open(dir.join("store").to_str().unwrap()).unwrap();
    let rows: Vec<FinalOutcomeRow> = read_table(&store, &layout::final_table(&id, "outcomes")).unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let said = row.message.unwrap_or_default();
        assert_eq!(row.status, "unavailable", "{said}");
        assert!(said.contains("HTTP 500") && said.contains("while the server works"), "{said}");
    }
}

/// Methods of several rounds for [`job`]: one writes anew in each, the other draws again what does not parse.
const ROUNDS: &str = r#"
[method.iter_retgen]
kind = "iter_retgen"
retriever = "bm25"
generator = "llm"
iterations = 3
[method.annotate]
kind = "efficientrag_data"
retriever = "bm25"
generator = "llm"
temperature = 0.5
attempts = 2
"#;

/// [`job`] with these methods, and with batch files if there is a folder for them.
fn write_batch_job(dir: &Path, name: &str, url: &str, batch: Option<&str>) {
    let more = batch.map_or_else(String::new, |folder| format!("batch = \"{folder}\""));
    let text = job(url, &more).replace("chunk = 8", "chunk = 8\nallowed_failed = 1.0") + ROUNDS;
    std::fs::write(dir.join(name), text).unwrap();
}

#[test]
fn batch_files_give_the_tables_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let online = server(FaultSettings::default());
    write_batch_job(dir, "online.toml", &online.base_url(), None);
    let place = |store| ["--store", store, "--cache", "cache", "--json"];
    let mut command = hopeval(dir, &["run", "online.toml"]);
    let found = document(command.args(place("online")).env("SIMULATED_KEY", KEY));
    let tables = final_tables(&dir.join("online"), run_of(&found));
    let expected = online.summary().answered_bodies;

    for (store, processes) in [("one", "1"), ("two", "2")] {
        let runner_server = server(FaultSettings::default());
        let folder = dir.join(store).join("batches").join("llm");
        // Nothing listens there, and no key is set: nothing is sent.
        write_batch_job(dir, "batch.toml", "http://127.0.0.1:9/v1", Some(&format!("{store}/batches")));
        let (mut runner, mut rounds, mut lines) = (BatchRunner::default(), 0, 0);
        let mut output = run(hopeval(dir, &["run", "batch.toml", "--processes", processes]).args(place(store)));
        let id = only_run(&dir.join(store));
        while output.status.code() == Some(75) {
            let said = words(&output);
            assert!(
                said.contains("requests wait for results") && said.contains(&format!("hopeval resume {id}")),
                "{said}"
            );
            let first = rounds == 0;
            // In the first round every fourth line has failed, and there are lines that are of no use.
            lines += runner.answer_files(&folder, runner_server.address(), KEY, |number, line| {
                let mut failed = line.clone();
                failed["response"] = serde_json::json!({ "status_code": 500, "body": {} });
                match (first, number % 4) {
                    (true, 0) => vec![failed],
                    (true, 1) => vec![line.clone(), line],
                    _ => vec![line],
                }
            });
            if first {
                let foreign = format!("{{\"custom_id\":\"{}\",\"response\":null}}\nno JSON\n", "ab".repeat(32));
                std::fs::write(folder.join("results/other.jsonl"), foreign).unwrap();
            }
            rounds += 1;
            assert!(rounds < 10, "it does not end: {said}");
            output = run(hopeval(dir, &["resume", &id, "--processes", processes]).args(place(store)));
            if first {
                let said = std::fs::read_to_string(folder.join("unused-results.txt")).unwrap();
                let found =
                    ["other.jsonl:1: no file of requests", "other.jsonl:2: not a JSON", "status_500", "a copy of"];
                assert!(found.iter().all(|part| said.contains(part)), "{said}");
            }
        }
        assert_eq!(output.status.code(), Some(0), "{}", words(&output));
        assert!(rounds >= 3, "{rounds} rounds");
        assert_eq!(final_tables(&dir.join(store), &id), tables, "{store}");
        let answered = runner_server.summary().answered_bodies;
        assert!(answered == expected && lines as u64 > expected, "{answered} of {expected} bodies, {lines} lines");

        // The journal has every answer: the job asks nothing, neither by files nor by the server.
        let again = run(hopeval(dir, &["run", "batch.toml"]).args(place(store)));
        assert_eq!(again.status.code(), Some(0), "{}", words(&again));
    }
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

#[test]
fn a_server_that_changes_is_reported_as_drift() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = server(FaultSettings::default());
    change_latency(&server, 40.0);
    // Few calls at once, so that answers of both systems are in the run.
    let mut command = run_job(dir, &server.base_url(), "concurrency = 2", "store", &[]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("answers", || (server.summary().answered >= 4).then_some(()));
    let changed = SimulationSettings { fingerprint: "another".to_owned(), ..server.settings() };
    server.change(changed).unwrap();
    change_latency(&server, 0.0);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", words(&output));

    let shown = words(&run(&mut hopeval(dir, &["costs", "latest", "--store", "store", "--cache", "cache"])));
    let warning = "warning: `llm` answered as several models (model, fingerprint, answers): ";
    let (_, models) = shown.split_once(warning).unwrap_or_else(|| panic!("{shown}"));
    let models = models.lines().next().unwrap();
    let answers = |fingerprint: &str| -> u64 {
        let named = models.split(", ").find(|named| named.starts_with(&format!("simulated-llm {fingerprint} ")));
        named.unwrap_or_else(|| panic!("{fingerprint}: {models}")).rsplit(' ').next().unwrap().parse().unwrap()
    };
    let (before, after) = (answers("simulated"), answers("another"));
    assert!(before >= 4 && after > 0, "{models}");
    assert_eq!(before + after, server.summary().answered, "{models}");
}

/// Answers from the journal keep the price of the job that asked for them: none, or one in another currency.
#[test]
fn money_is_shown_where_all_answers_have_a_price_in_one_currency() {
    const PRICE: &str = "[service.llm.price]\ninput = 1.0\noutput = 2.0\n";
    for (earlier, gap) in [("", " answers priced)"), (&*format!("{PRICE}currency = \"EUR\"\n"), "(in EUR and USD)")] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let server = server(FaultSettings::default());
        let text = job(&server.base_url(), "");
        assert!(text.contains(PRICE));
        std::fs::write(dir.join("earlier.toml"), text.replace(PRICE, earlier)).unwrap();
        std::fs::write(dir.join("job.toml"), text).unwrap();
        let evaluate = |file: &str, more: &[&str]| {
            let arguments = [&["run", file, "--store", "store", "--cache", "cache", "--json"], more].concat();
            document(hopeval(dir, &arguments).env("SIMULATED_KEY", KEY));
            server.summary().answered
        };
        let costs = |more: &[&str]| hopeval(dir, &[&["costs", "latest", "--store", "store"], more].concat());
        let journalled = evaluate("earlier.toml", &["--set", "dataset.limit=8"]);
        let answered = evaluate("job.toml", &[]);
        assert!(journalled > 0 && answered > journalled, "{journalled} of {answered}");
        let found = document(&mut costs(&["--json"]));
        let account = &found["configurations"][0];
        let calls = account["calls"].as_array().unwrap().iter().find(|calls| calls["service"] == "llm").unwrap();
        assert!(calls["money"].is_null() && account["attributed"]["money"].is_null(), "{account}");
        if earlier.is_empty() {
            // Equal requests of several questions are counted for each.
            let part = &calls["price_gap"]["unpriced"];
            let [priced, answers] = ["priced", "answers"].map(|key| part[key].as_u64().unwrap());
            assert!(priced > 0 && answers - priced >= journalled && answers >= answered, "{part}");
        } else {
            assert_eq!(calls["price_gap"]["currencies"], serde_json::json!(["EUR", "USD"]));
        }
        // What this run has asked for itself is priced as a whole.
        let incurred = found["incurred"].as_array().unwrap().iter().find(|row| row["service"] == "llm").unwrap();
        assert_eq!((&incurred["computed"], &incurred["unpriced"]), (&(answered - journalled).into(), &0.into()));
        assert!(incurred["money"].as_f64().unwrap() > 0.0 && incurred["currency"] == "USD", "{incurred}");
        let shown = words(&run(&mut costs(&[])));
        assert!(shown.contains(gap), "{gap}: {shown}");
    }
}

#[test]
fn a_probe_asks_few_questions_once_and_says_what_all_cost() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = server(FaultSettings::default());
    std::fs::write(dir.join("job.toml"), job(&server.base_url(), "")).unwrap();
    let plan = |more: &[&str]| {
        let arguments = ["plan", "job.toml", "--store", "store", "--cache", "cache", "--json"];
        document(hopeval(dir, &[&arguments, more].concat()).env("SIMULATED_KEY", KEY))
    };
    // A plan spends nothing.
    assert!(plan(&[]).get("probe").is_none());
    assert_eq!(server.summary().calls, 0);

    let probed = plan(&["--probe", "8"])["probe"].clone();
    let asked = server.summary();
    assert!((1..=8).contains(&asked.calls) && asked.repeated_answers == 0, "{asked:?}");
    assert_eq!((&probed["sampled"], &probed["questions"], &probed["drawn"]), (&8.into(), &24.into(), &true.into()));
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{probed}"));
    let money = &probed["services"]["llm"]["money"];
    let (low, expected, high) = (number(&money["low"]), number(&money["expected"]), number(&money["high"]));
    assert!(low <= expected && expected <= high, "{probed}");

    // The same probe asks nothing again, and the run pays only for what the probe did not ask.
    assert_eq!(plan(&["--probe", "8"])["probe"]["services"], probed["services"]);
    assert_eq!(server.summary().calls, asked.calls);
    let found = document(&mut run_job(dir, &server.base_url(), "", "store", &[]));
    let all = server.summary();
    assert_eq!(all.repeated_answers, 0, "{all:?}");
    let rows = found["cost"].as_array().unwrap();
    let attributed = rows.iter().filter(|row| row["configuration"] == "efficientrag" && row["service"] == "llm");
    let paid: f64 = attributed.map(|row| number(&row["money"])).sum();
    assert!((low..=high).contains(&paid), "{paid} {probed}");
}

/// The one run of a store.
fn only_run(store: &Path) -> String {
    let mut runs = std::fs::read_dir(store.join("runs")).unwrap().flatten();
    let run = runs.next().unwrap().file_name().to_string_lossy().into_owned();
    assert!(runs.next().is_none(), "one run");
    run
}
