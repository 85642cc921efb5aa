//! The command line for scripts and people: documents, tables, overrides, signals, metrics.

#![cfg(unix)]

use crate::harness::{self, document, final_tables, hopeval, measure, run, run_of, succeed, wait_for};
use crate::tiny;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Cells of the Markdown table whose header begins with `first`: header, then body.
fn table(text: &str, first: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        let inner = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
        inner.unwrap_or_else(|| panic!("not a row: {line}")).split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut rows: Vec<Vec<String>> = text
        .lines()
        .skip_while(|line| !line.starts_with(&format!("| {first} ")))
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .collect();
    let rule = rows.remove(1);
    assert!(rule.iter().all(|cell| cell.len() >= 3 && cell.chars().all(|c| c == '-')), "{text}");
    assert!(rows.iter().all(|row| row.len() == rule.len()), "{text}");
    rows
}

#[test]
fn the_document_of_a_run_has_its_stable_shape() {
    let dir = tiny::job();
    let output = run(&mut hopeval(dir.path(), &["run", "job.toml", "--json", "--workers", "1"]));
    assert!(output.status.success());
    // Without a terminal there is no progress display, and nothing else to report.
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(out.lines().count(), 1, "one document, on one line");
    let document = harness::parse(&out);
    let keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    let all = [
        "cost",
        "finished",
        "job",
        "left_out",
        "links",
        "measures",
        "out",
        "outcomes",
        "quarantined",
        "questions",
        "replicates",
        "run",
    ];
    assert_eq!(keys, all);
    assert_eq!((&document["job"], &document["finished"]), (&json!("tiny"), &json!(true)));
    assert_eq!(
        (&document["questions"], &document["outcomes"], &document["quarantined"]),
        (&json!(6), &json!(12), &json!(0))
    );
    let id = run_of(&document);
    let out = dir.path().canonicalize().unwrap().join("hopeval-store/runs").join(id);
    assert_eq!(Path::new(document["out"].as_str().unwrap()).canonicalize().unwrap(), out);

    let null_or = |value: &Value, is: fn(&Value) -> bool| value.is_null() || is(value);
    for row in document["measures"].as_array().unwrap() {
        let keys: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        let all = ["configuration", "context_mode", "coverage", "high", "low", "measure", "n", "ranked", "stderr"];
        assert_eq!(keys, [&all[..], &["stratum", "value"]].concat());
        assert!(
            ["configuration", "context_mode", "measure", "stratum"].iter().all(|key| row[key].is_string()),
            "{row}"
        );
        assert!(row["n"].is_u64(), "{row}");
        assert!(["value", "stderr", "coverage"].iter().all(|key| null_or(&row[key], Value::is_f64)), "{row}");
        assert_eq!(row["n"] == 0, row["value"].is_null(), "undefined is null: {row}");
    }
    for configuration in ["bm25", "oracle"] {
        for stratum in ["all", "hops=2", "type=bridge", "type=comparison"] {
            let row = measure(&document, configuration, stratum, "recall_all@5");
            assert_eq!(row["n"], if stratum.starts_with("type") { 3 } else { 6 });
        }
    }
    assert_eq!(measure(&document, "bm25", "all", "em")["value"], Value::Null, "it does not answer");

    let mut services = 0;
    for row in document["cost"].as_array().unwrap() {
        for key in ["prompt_tokens", "completion_tokens", "scored_tokens", "requests", "unique", "computed"] {
            assert!(row.as_object().unwrap().contains_key(key) && null_or(&row[key], Value::is_u64), "{key}: {row}");
        }
        assert!(["device_s", "money", "service_s"].iter().all(|key| null_or(&row[key], Value::is_f64)), "{row}");
        assert!(null_or(&row["configuration"], Value::is_string) && row["service"].is_string(), "{row}");
        if row["service"] == "sparse" {
            assert_eq!(row["kind"], "retrieve");
        }
        if row["configuration"].is_null() && row["service"] == "sparse" {
            services += 1;
            assert_eq!((&row["requests"], &row["unique"], &row["computed"]), (&json!(6), &json!(6), &json!(6)));
        }
    }
    assert_eq!(services, 1);
}

#[test]
fn settings_are_resolved_in_their_order() {
    let dir = tiny::job();
    let inner = dir.path().join("jobs");
    std::fs::create_dir(&inner).unwrap();
    std::fs::copy(dir.path().join("job.toml"), inner.join("job.toml")).unwrap();
    let set = [
        "--set",
        "method.bm25.k=7",
        "--set",
        "dataset.questions=questions.json",
        "--set",
        "run.in_flight=256",
        "--show-settings",
    ];
    let mut command = hopeval(dir.path(), &["run", "jobs/job.toml"]);
    let shown = succeed(command.args(set));
    // Paths of the file resolve against the file, those of `--set` against the working directory.
    let shown = shown.replace(dir.path().to_str().unwrap(), "DIR");
    let expected = r#"name = "tiny"

[dataset]
format = "hotpotqa"
questions = "DIR/questions.json"

[corpus]
source = "DIR/jobs/corpus.jsonl"
duplicates = "drop_exact"
links = "auto"

[service.sparse]
kind = "bm25"
analyzer = "word"
fields = "title+text"
formula = "lucene"
k1 = 0.9
b = 0.4
epsilon = 0.25

[method.bm25]
kind = "one_step"
k = 7
retriever = "sparse"

[method.bm25.sweep]

[method.oracle]
kind = "oracle"

[method.oracle.sweep]

[measures]
recall_at = [
    2,
    5,
]
precision_at = []
ndcg_at = [10]
mrr = true
mrr_at = []
map = true
answer_recall_at = []
answer_hit_at = []
budget_recall_at = []
chunk_recall = false
facts = true

[run]
in_flight = 256
batch = 64
allowed_failed = 0.0
mode = "throughput"
"#;
    assert_eq!(shown, expected);
    // The shown text is a job: it resolves to itself.
    std::fs::write(dir.path().join("shown.toml"), shown.replace("DIR", dir.path().to_str().unwrap())).unwrap();
    let again = succeed(&mut hopeval(dir.path(), &["run", "shown.toml", "--show-settings"]));
    assert_eq!(again.replace(dir.path().to_str().unwrap(), "DIR"), expected);

    let mut limited = hopeval(dir.path(), &["run", "job.toml", "--limit", "4", "--set", "dataset.limit=5", "--json"]);
    let document = document(&mut limited);
    assert_eq!((&document["questions"], &document["outcomes"]), (&json!(4), &json!(8)));
}

#[test]
fn a_plan_says_what_the_journal_answers() {
    let dir = tiny::job();
    let plan = || document(&mut hopeval(dir.path(), &["plan", "job.toml", "--json"]));
    let before = plan();
    assert_eq!((&before["questions"], &before["outcomes"], &before["passages"]), (&json!(6), &json!(12), &json!(18)));
    let requests = |journalled: u64| json!({"sparse retrieve": {"asked": 6, "unique": 6, "journalled": journalled}});
    assert_eq!(before["first_round"], requests(0));
    assert_eq!((&before["journal_entries"], &before["estimated"]), (&json!(0), &json!({"sparse retrieve": 6})));
    assert_eq!((&before["sampled"], &before["guessed"]), (&requests(0), &json!([])));
    succeed(&mut hopeval(dir.path(), &["run", "job.toml"]));
    assert_eq!(plan()["first_round"], requests(6));
    assert_eq!(plan()["sampled"], requests(6));
    assert_eq!(plan()["journal_entries"], 6);
    let text = succeed(&mut hopeval(dir.path(), &["plan", "job.toml"]));
    assert!(text.starts_with("6 questions x 2 configurations = 12 outcomes over 18 passages"), "{text}");
    assert_eq!(table(&text, "requests")[1][..4], ["sparse retrieve", "6", "6", "6"]);
    assert_eq!(table(&text, "requests")[1][4..], ["6 of 6", "6"]);
    // A second run asks nothing anew.
    let again = document(&mut hopeval(dir.path(), &["run", "job.toml", "--json"]));
    let incurred = again["cost"].as_array().unwrap().iter().find(|row| row["configuration"].is_null()).unwrap();
    assert_eq!((&incurred["unique"], &incurred["computed"]), (&json!(6), &json!(0)));
}

#[test]
fn failed_questions_are_told_by_configuration() {
    let dir = tiny::job();
    let mut rows = tiny::questions();
    for row in &mut rows[..2] {
        row["context"] = json!([]);
    }
    std::fs::write(dir.path().join("questions.json"), tiny::array(&rows)).unwrap();
    let ranks = ["--set", "method.given.kind=given", "--set", "method.given.retriever=sparse"];
    let output = run(hopeval(dir.path(), &["run", "job.toml"]).args(ranks));
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("2 of 18 outcomes failed; the job allows a share of 0\n"), "{err}");
    let line = err.lines().find(|line| line.starts_with("  given: 2 ")).unwrap_or_else(|| panic!("{err}"));
    assert!(line.contains("first question `q0`: "), "{line}");
    assert!(err.contains("final/outcomes.parquet say more"), "{err}");
}

#[test]
fn figures_are_shown_as_tables_that_paste_into_markdown() {
    let dir = tiny::job();
    let id = run_of(&document(&mut hopeval(dir.path(), &["run", "job.toml", "--json"]))).to_owned();
    let show = |arguments: &[&str]| {
        let mut command = hopeval(dir.path(), &["show", &id]);
        let text = succeed(command.args(arguments));
        assert!(!text.contains('\u{1b}'), "no colour");
        text
    };
    let text = show(&["--measure", "recall_frac@2", "--measure", "em"]);
    let expected = "\
run RUN: tiny
6 questions, 18 passages, links: title_mentions, profile hotpotqa, stratum all

context mode: open

| configuration | n | coverage | em | recall_frac@2           |
|---------------|---|----------|----|-------------------------|
| bm25          | 6 | 1.000    | –  | 1.0000 [0.6097, 1.0000] |

context mode: oracle

| configuration | n | coverage | em                      | recall_frac@2           |
|---------------|---|----------|-------------------------|-------------------------|
| oracle        | 6 | 1.000    | 1.0000 [0.6097, 1.0000] | 1.0000 [0.6097, 1.0000] |

[low, high]: 95 % interval

incurred by this run

";
    assert_eq!(text.replace(&id, "RUN").split_inclusive("incurred by this run\n\n").next().unwrap(), expected);
    let costs = table(&text, "service");
    assert_eq!(costs[0], ["service", "kind", "requests", "unique", "computed", "service seconds"]);
    assert_eq!(costs[1][..5], ["sparse", "retrieve", "6", "6", "6"]);
    assert!(text.trim_end().ends_with(&format!("runs/{id}")), "{text}");

    let columns = &table(&show(&[]), "configuration")[0];
    let headline = ["em", "f1", "recall_frac@2", "recall_frac@5", "recall_all@2", "recall_all@5", "mrr"];
    assert_eq!(columns[3..], headline);
    let bridge = show(&["--stratum", "type=bridge"]);
    assert!(bridge.contains("stratum type=bridge"), "{bridge}");
    assert_eq!(table(&bridge, "configuration")[1][..3], ["bm25", "3", "1.000"]);
    // Without a name the latest run is meant, and the beginning of an id suffices.
    assert_eq!(succeed(&mut hopeval(dir.path(), &["show"])), show(&[]));
    assert_eq!(succeed(&mut hopeval(dir.path(), &["show", &id[..12]])), show(&[]));
    let rescored = succeed(&mut hopeval(dir.path(), &["rescore", &id]));
    assert_eq!(table(&rescored, "configuration"), table(&show(&[]), "configuration"));
    let json = harness::parse(&show(&["--json"]));
    assert_eq!(measure(&json, "oracle", "type=comparison", "f1")["n"], 3);

    let transcript = show(&["--question", "q1", "--configuration", "bm25"]);
    for part in ["question q1 (bridge): Where was the director of Film 1 born?", "configuration bm25", "round 1"] {
        assert!(transcript.contains(part), "{transcript}");
    }
    assert!(transcript.contains("retrieve sparse \"Where was the director of Film 1 born?\" k=5"), "{transcript}");
    assert!(transcript.contains("Film 1 ✓ gold [3]") && transcript.contains("outcome ok"), "{transcript}");
    assert_eq!(show(&["--question", "q1"]).matches("question q1").count(), 2, "all configurations");
    let lines = show(&["--question", "q2", "--question", "q1", "--json"]);
    let documents: Vec<Value> = lines.lines().map(harness::parse).collect();
    let of = |document: &Value| [document["question"]["id"].clone(), document["configuration"].clone()];
    let expected = [["q2", "bm25"], ["q2", "oracle"], ["q1", "bm25"], ["q1", "oracle"]];
    assert_eq!(documents.iter().map(of).collect::<Vec<_>>(), expected.map(|names| names.map(Value::from)));
    let bm25 = &documents[2];
    let round = &bm25["rounds"][0];
    assert_eq!(round["requests"][0]["ask"]["Retrieve"]["query"], "Where was the director of Film 1 born?");
    let hits = round["responses"][0]["result"]["Ok"]["Retrieve"].as_array().unwrap();
    let ranked = bm25["outcome"]["ranked"].as_array().unwrap();
    assert_eq!((hits.len(), hits), (5, ranked), "one step ranks what was retrieved");
    let named = |hit: &Value| bm25["passages"].get(hit["passage"].to_string()).is_some();
    assert!(hits.iter().all(named), "{bm25}");
    assert_eq!(bm25["passages"]["3"]["title"], "Film 1");
    assert_eq!(bm25["run"], id.as_str());

    let listed = succeed(&mut hopeval(dir.path(), &["ls"]));
    assert_eq!(table(&listed, "run")[1], [id.as_str(), "tiny", "finished", "12 of 12", "hotpotqa", "6", "2"]);
    let listed = document(&mut hopeval(dir.path(), &["ls", "--json"]));
    let row = json!({
        "run": id, "job": "tiny", "dataset": "hotpotqa", "questions": 6, "configurations": 2, "judged": null,
        "note": null,
        "state": "finished", "outcomes": 12, "expected": 12, "generations": 1,
    });
    assert_eq!(listed["runs"], json!([row]));
    assert_eq!(listed["journal"]["entries"], 6);

    // The best configuration of each context mode by a measure.
    let shown = document(&mut hopeval(dir.path(), &["show", "--json"]));
    let listed = document(&mut hopeval(dir.path(), &["ls", "--best", "recall_all@5", "--json"]));
    let best = &listed["runs"][0]["best"];
    let modes = [("open", "bm25"), ("oracle", "oracle")].map(|(mode, name)| {
        let value = &measure(&shown, name, "all", "recall_all@5")["value"];
        json!({"context_mode": mode, "configuration": name, "value": value})
    });
    assert_eq!(best["best"], json!(modes));
    assert!(best["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0 && seconds < 3600.0), "{best}");
    let listed = succeed(&mut hopeval(dir.path(), &["ls", "--best", "recall_all@5", "--wide"]));
    assert_eq!(table(&listed, "run")[0][..5], ["run", "job", "state", "seconds", "best recall_all@5"]);
    let output = run(&mut hopeval(dir.path(), &["ls", "--best", "recal"]));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_log_tells_what_happened() {
    let dir = tiny::job();
    let output = run(hopeval(dir.path(), &["run", "job.toml"]).env("RUST_LOG", "info"));
    let said = String::from_utf8(output.stderr).unwrap();
    let events = ["the corpus is built", "an index is built", "the run is made", "committed", "the tables are written"];
    assert!(events.iter().all(|event| said.contains(event)), "{said}");
}

/// A job that takes a while: many small cohorts, few questions in flight.
const LONG: &str = r#"
name = "long"
[dataset.world]
questions = 1200
passages = 1000
seed = 7
[service.bm25]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.hops]
kind = "iterative_title"
retriever = "bm25"
[run]
chunk = 4
in_flight = 2
"#;

/// A running `hopeval`; killed if a test fails before its end.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn signal(&self) {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM).unwrap();
    }

    /// Exit code, standard output and the rest of standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        let stderr = self.0.stderr.take();
        let reader = std::thread::spawn(move || {
            stderr.map(|mut stderr| stderr.read_to_string(&mut err));
            err
        });
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (self.0.wait().unwrap().code(), out, reader.join().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The run of a store with one run, once it has `commits` records in its log.
fn committed(store: &Path, commits: usize) -> String {
    let log = |run: &PathBuf| std::fs::read_dir(run.join("log")).map_or(0, |log| log.count());
    wait_for("commit", || {
        let run = std::fs::read_dir(store.join("runs")).ok()?.flatten().next()?.path();
        (log(&run) >= commits).then(|| run.file_name().unwrap().to_str().unwrap().to_owned())
    })
}

#[test]
fn a_drained_run_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("job.toml"), LONG).unwrap();
    let places = |store: &'static str| ["--store", store, "--cache", "cache", "--json"];
    let peace = document(hopeval(dir.path(), &["run", "job.toml"]).args(places("peace")));
    let tables = final_tables(&dir.path().join("peace"), run_of(&peace));

    for (store, processes) in [("one", "1"), ("two", "2")] {
        let mut command = hopeval(dir.path(), &["run", "job.toml", "--processes", processes]);
        let running = Running::start(command.args(places(store)));
        let id = committed(&dir.path().join(store), 4);
        running.signal();
        let (code, out, err) = running.end();
        assert_eq!((code, out.len()), (Some(75), 0), "{err}");
        assert!(err.contains(&format!("`hopeval resume {id}` goes on from the last commit")), "{err}");
        assert!(!err.contains("panicked") && !err.contains("error:"), "{err}");
        let listed = document(hopeval(dir.path(), &["ls"]).args(places(store)));
        assert_eq!(listed["runs"][0]["state"], "not finished");
        let done = listed["runs"][0]["outcomes"].as_u64().unwrap();
        assert!(done > 0 && done < 2400, "{listed}");
        let shown = succeed(&mut hopeval(dir.path(), &["show", "--store", store, "--cache", "cache"]));
        assert!(shown.contains("not finished: ") && shown.contains(" of 2400 outcomes"), "{shown}");

        let mut command = hopeval(dir.path(), &["resume", "latest", "--workers", "3"]);
        let resumed = document(command.args(places(store)));
        assert_eq!((run_of(&resumed), &resumed["finished"]), (id.as_str(), &json!(true)));
        assert!(final_tables(&dir.path().join(store), &id) == tables, "the tables differ after a resume");
    }

    // The second signal ends the process at once, and the run can still be resumed.
    let mut running = Running::start(hopeval(dir.path(), &["run", "job.toml"]).args(places("twice")));
    let id = committed(&dir.path().join("twice"), 4);
    running.signal();
    let mut said = String::new();
    BufReader::new(running.0.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "draining; press Ctrl-C again to stop now\n");
    let second = Instant::now();
    running.signal();
    let (code, out, _) = running.end();
    assert_eq!((code, out.len()), (Some(75), 0));
    assert!(second.elapsed() < Duration::from_secs(5), "{:?}", second.elapsed());
    document(hopeval(dir.path(), &["resume", &id]).args(places("twice")));
    assert!(final_tables(&dir.path().join("twice"), &id) == tables);
}

/// The response of `/metrics` at `address`, if it serves. The label of the run, which all have, is left out.
fn scrape(address: &str) -> Option<BTreeMap<String, f64>> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    let samples = text.lines().filter(|line| line.starts_with("hopeval_")).filter_map(|line| line.rsplit_once(' '));
    let without_run = |name: &str| {
        let (start, rest) = name.split_once("run=\"").unwrap_or_else(|| panic!("no run: {name}"));
        let (_, rest) = rest.split_once('"').unwrap();
        let rest = rest.strip_prefix(',').unwrap_or(rest);
        format!("{start}{rest}").replace(",}", "}").replace("{}", "")
    };
    Some(samples.map(|(name, value)| (without_run(name), value.parse().unwrap())).collect())
}

#[test]
fn metrics_agree_with_the_tables_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    harness::world_job(dir.path());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let arguments = ["run", "job.toml", "--json", "--workers", "2", "--metrics", &free];
    // Nobody reads its output yet: a document larger than a pipe keeps the process, and so its counters, at the end.
    let running = Running::start(&mut hopeval(dir.path(), &arguments));
    let outcomes = 300.0 * 7.0;
    let mut last = 0.0;
    let counters = wait_for("last outcome", || {
        let counters = scrape(&free)?;
        let now = counters["hopeval_outcomes_total"];
        assert!(now >= last && now <= outcomes, "{last}, then {now}");
        last = now;
        (now == outcomes && counters["hopeval_questions_in_flight"] == 0.0).then_some(counters)
    });
    let (code, out, err) = running.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(out.len() > 1 << 16, "the document would fit into a pipe");
    let document = harness::parse(&out);
    assert_eq!(document["outcomes"].as_f64().unwrap(), outcomes);
    let questions = document["questions"].as_f64().unwrap();
    assert_eq!(counters["hopeval_questions_admitted_total"], questions);
    assert_eq!(counters["hopeval_questions_finished_total"], questions);
    let sum = |of_run: bool, key: &str| -> f64 {
        let rows = document["cost"].as_array().unwrap().iter();
        rows.filter(|row| row["configuration"].is_null() == of_run).filter_map(|row| row[key].as_f64()).sum()
    };
    assert_eq!(counters["hopeval_requests_asked_total"], sum(false, "requests"));
    // A key is sent again when a later question asks it, so what was sent lies between the two counts of the tables.
    let sent = counters["hopeval_requests_sent_total"];
    assert!(sum(true, "unique") <= sent && sent <= sum(false, "requests"), "{sent}");
    assert_eq!(counters["hopeval_requests_served_total"], sent);
    assert_eq!(counters["hopeval_outcomes_expected"], outcomes);
    assert_eq!(counters["hopeval_outcome_seconds_count"], outcomes);
    assert_eq!(counters["hopeval_outcomes_failed_total"], 0.0);
    // Of each service, the counters are those of the run's row in the table of costs.
    let mut services = 0;
    for row in document["cost"].as_array().unwrap().iter().filter(|row| row["configuration"].is_null()) {
        let service = row["service"].as_str().unwrap();
        let labelled = |name: &str| format!("hopeval_service_{name}{{");
        let of_service = |name: &str| {
            let is_own =
                |key: &str| key.starts_with(&labelled(name)) && key.contains(&format!("service=\"{service}\""));
            counters.iter().find(|(key, _)| is_own(key)).map(|(_, value)| *value)
        };
        let Some(requests) = of_service("requests_total") else { continue };
        let computed = row["computed"].as_f64().unwrap();
        assert_eq!(of_service("computed_total"), Some(computed), "{row}");
        assert_eq!(of_service("journal_hits_total"), Some(requests - computed), "{row}");
        assert_eq!((of_service("queue_requests"), of_service("failed_total")), (Some(0.0), Some(0.0)), "{row}");
        services += 1;
    }
    assert_eq!(services, 2, "both retrievers");
    assert_eq!(counters[&format!("hopeval_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))], 1.0);
}

#[test]
fn worlds_and_corpora_are_made_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let world = |out: &str, seed: &str| {
        let arguments = ["world", "--questions", "60", "--passages", "400", "--seed", seed, "--out", out];
        succeed(&mut hopeval(dir.path(), &arguments));
        ["questions.jsonl", "corpus.jsonl"].map(|name| std::fs::read(dir.path().join(out).join(name)).unwrap())
    };
    let first = world("a", "3");
    assert!(first == world("b", "3"), "the same settings give the same bytes");
    assert!(first != world("c", "4"));

    let check = document(&mut hopeval(dir.path(), &["data", "check", "a/questions.jsonl", "--json"]));
    assert_eq!((&check["format"], &check["detected"]), (&json!("world"), &json!(true)));
    assert_eq!((&check["rows"], &check["questions"], &check["bad_rows"]), (&json!(60), &json!(60), &json!(0)));
    let text = succeed(&mut hopeval(dir.path(), &["data", "check", "a/questions.jsonl"]));
    assert!(text.contains("| questions | 60 |") && text.contains("| format | world"), "{text}");

    let built = document(&mut hopeval(dir.path(), &["corpus", "build", "a/corpus.jsonl", "--out", "corpus"]));
    assert_eq!((&built["counts"]["passages"], &built["link_origin"]), (&json!(400), &json!("hyperlinks")));
    assert_eq!(document(&mut hopeval(dir.path(), &["corpus", "info", "corpus"])), built);
    let verified = succeed(&mut hopeval(dir.path(), &["corpus", "verify", "corpus"]));
    assert_eq!(verified, format!("corpus: 400 passages, digest {}\n", built["digest"].as_str().unwrap()));
    let again = run(&mut hopeval(dir.path(), &["corpus", "build", "a/corpus.jsonl", "--out", "corpus"]));
    assert_eq!(again.status.code(), Some(2), "a corpus is not overwritten");
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists already"));

    let passages = dir.path().join("corpus/passages.arrow");
    let mut bytes = std::fs::read(&passages).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x20;
    std::fs::write(&passages, bytes).unwrap();
    let damaged = run(&mut hopeval(dir.path(), &["corpus", "verify", "corpus"]));
    assert_eq!(damaged.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&damaged.stderr).starts_with("error: "));
}

#[test]
fn the_doctor_looks_at_the_machine_and_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let facts = document(&mut hopeval(dir.path(), &["doctor", "--json"]));
    let fact = |name: &str| facts.as_array().unwrap().iter().find(|fact| fact["name"] == name).unwrap();
    assert_eq!(fact("hopeval")["found"], env!("CARGO_PKG_VERSION"));
    assert_eq!(fact("store")["health"], "fine");
    assert!(succeed(&mut hopeval(dir.path(), &["doctor"])).contains("| store "));
    // Nothing works without a valid store.
    std::fs::write(dir.path().join("file"), "").unwrap();
    let broken = run(&mut hopeval(dir.path(), &["doctor", "--store", "file"]));
    assert_eq!(broken.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&broken.stdout).contains("| store "));
}

#[test]
fn children_get_a_random_token_by_their_environment() {
    let dir = tempfile::tempdir().unwrap();
    harness::world_job(dir.path());
    let mut command = hopeval(dir.path(), &["run", "job.toml", "--processes", "2"]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let parent = running.id().to_string();
    let (line, token) = wait_for("child with a token", || {
        std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let read =
                |file| std::fs::read(entry.path().join(file)).ok().map(|b| String::from_utf8_lossy(&b).into_owned());
            // The parent is the second field after the name, which stands in brackets.
            let stat = read("stat")?;
            let line = read("cmdline").filter(|line| line.contains("--hosts"))?;
            if stat.rsplit_once(") ")?.1.split(' ').nth(1)? != parent {
                return None;
            }
            let environment = read("environ")?;
            let token = environment.split('\0').find_map(|variable| variable.strip_prefix("HOPEVAL_MESH_TOKEN="))?;
            Some((line, token.to_owned()))
        })
    });
    assert!(running.wait().unwrap().success());
    assert!(token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    assert!(!line.contains(&token), "{line}");
}

#[test]
fn a_shell_and_a_reader_learn_all_commands() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let version = succeed(&mut hopeval(dir, &["--version"]));
    assert_eq!(version.trim_end(), format!("hopeval {} (debug build)", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        let script = succeed(&mut hopeval(dir, &["completions", shell]));
        assert!(script.contains("reproduce") && script.contains("against"), "{shell}: commands and options");
    }
    succeed(&mut hopeval(dir, &["man", "--out", "pages"]));
    let page = |name: &str| std::fs::read_to_string(dir.join("pages").join(name)).unwrap();
    assert!(page("hopeval.1").contains("hopeval\\-report(1)"), "the main page names the others");
    assert!(page("hopeval-report.1").contains("\\-\\-plots"), "a command's page has its options");
}
