//! The costs of a question: `hopeval costs`, runs that time each question alone, and the controls of methods.

use crate::harness::{self, document, final_tables, hopeval, run, run_of, succeed};
use hopeval_results::tables::{ConfigurationRow, FinalOutcomeRow, LatencyRow, Row, read_table};
use hopeval_results::{Store, layout};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const QUESTIONS: u64 = 6;

const JOB: &str = r#"
name = "costs"
title = "a world for its costs"
[dataset.world]
questions = 6
passages = 400
seed = 5
[service.bm25]
kind = "bm25"
[service.tfidf]
kind = "tfidf"
[service.shuffled]
kind = "shuffled_links"
seed = 2
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
threads = 1
[service.untrained]
kind = "lm"
model = "hopeval:scorer?untrained=3"
threads = 1
[service.reader]
kind = "lm"
model = "hopeval:reader"
threads = 1
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
threads = 1
[service.filter]
kind = "lm"
model = "hopeval:filter"
threads = 1
[service.encoder]
kind = "lm"
model = "hopeval:encoder"
threads = 1
[service.dense]
kind = "dense"
encoder = "encoder"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.dense]
kind = "one_step"
retriever = "dense"
[method.efficientrag]
kind = "efficientrag"
retriever = "dense"
labeler = "labeler"
filter = "filter"
reader = "reader"
k = 4
[method.promptrank]
kind = "promptrank"
retriever = "tfidf"
scorer = "scorer"
pool = 6
first_hops = 3
reader = "reader"
read_paths = 3
[method.shuffled]
kind = "promptrank"
control = "shuffled links"
retriever = "tfidf"
links = "shuffled"
scorer = "scorer"
pool = 6
first_hops = 3
[method.untrained]
kind = "promptrank"
control = "untrained scorer"
retriever = "tfidf"
scorer = "untrained"
pool = 6
first_hops = 3
[measures]
recall_at = [2]
chunk_recall = true
[run]
price_per_device_hour = 36.0
"#;

fn evaluate(dir: &Path, more: &[&str]) -> Value {
    document(&mut hopeval(dir, &[&["run", "job.toml", "--json"][..], more].concat()))
}

fn table<R: Row>(dir: &Path, document: &Value, name: &str) -> Vec<R> {
    let store = Store::open(dir.join("hopeval-store").to_str().unwrap()).unwrap();
    read_table(&store, &layout::final_table(run_of(document), name)).unwrap()
}

fn computed(document: &Value, service: &str) -> u64 {
    let rows = document["cost"].as_array().unwrap();
    rows.iter()
        .find(|row| row["configuration"].is_null() && row["service"] == service)
        .map(|row| row["computed"].as_u64().unwrap())
        .unwrap_or_else(|| panic!("no {service}"))
}

/// The account of a configuration.
fn of<'a>(costs: &'a Value, configuration: &str) -> &'a Value {
    let accounts = costs["configurations"].as_array().unwrap();
    accounts.iter().find(|account| account["configuration"] == configuration).unwrap()
}

#[test]
fn a_question_s_cost_is_told_alone_and_shared() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::write(at.join("job.toml"), JOB).unwrap();
    let costs = |document: &Value| harness::document(&mut hopeval(at, &["costs", run_of(document), "--json"]));
    let tables = |document: &Value| final_tables(&at.join("hopeval-store"), run_of(document));
    let together = evaluate(at, &[]);
    let alone = evaluate(at, &["--mode", "latency", "--workers", "3"]);
    let journalled = evaluate(at, &[]);

    // The mode is a matter of time alone, and takes nothing from the journal or from other configurations.
    assert!(tables(&alone) == tables(&together), "a run of the other mode has other tables");
    assert!(tables(&journalled) == tables(&together));
    assert!(computed(&alone, "tfidf") >= computed(&together, "tfidf") + 2 * QUESTIONS, "three ask for the same pool");
    assert!(computed(&alone, "scorer") > computed(&together, "scorer"));
    assert_eq!(computed(&journalled, "scorer"), 0);

    let modes = |document: &Value| -> BTreeSet<(Option<String>, bool)> {
        let rows = table::<LatencyRow>(at, document, "latencies").into_iter();
        rows.filter(|row| row.configuration == "promptrank").map(|row| (row.mode, row.device_s.is_some())).collect()
    };
    assert_eq!(modes(&together), BTreeSet::from([(Some("throughput".to_owned()), false)]));
    assert_eq!(modes(&alone), BTreeSet::from([(Some("latency".to_owned()), true)]));

    let (shared, isolated, unknown) = (costs(&together), costs(&alone), costs(&journalled));
    assert_eq!((&shared["mode"], &isolated["mode"]), (&json!("throughput"), &json!("latency")));
    for name in ["bm25", "dense", "efficientrag", "promptrank", "shuffled", "untrained"] {
        let (ours, others) = (of(&isolated, name), of(&shared, name));
        assert_eq!((&ours["n"], &ours["coverage"]), (&json!(QUESTIONS), &json!(1.0)));
        for logical in ["iterations", "rounds", "passages_retrieved", "passages_kept", "parameters"] {
            assert_eq!(ours[logical], others[logical], "{name} {logical}");
        }
        assert!(others["isolated"].is_null());
        let wall = ours["isolated"]["wall_s"].as_f64().unwrap();
        let times = &ours["latency"]["wall"];
        let [mean, p50, p90, p99] = ["mean", "p50", "p90", "p99"].map(|name| times[name].as_f64().unwrap());
        assert!(0.0 < p50 && p50 <= p90 && p90 <= p99 && mean == wall, "{times}");
        let device = &ours["isolated"]["device_s"];
        assert_eq!(device.is_null(), name == "bm25", "{name}: {device}");
        assert!(device.as_f64().is_none_or(|device| device > 0.0 && device <= wall), "{name}: {device} of {wall}");
        assert!(ours["attributed"]["service_s"].as_f64().unwrap() > 0.0);
        for cost in ["attributed", "isolated"] {
            let [seconds, money] = ["device_s", "money"].map(|key| ours[cost][key].as_f64());
            assert_eq!(seconds.is_some(), name != "bm25", "{name}");
            assert!(money.zip(seconds).is_none_or(|(money, seconds)| (money - seconds / 100.0).abs() < 1e-12));
            assert_eq!(money.is_some(), seconds.is_some());
        }
    }
    let ranked = of(&shared, "promptrank");
    let calls = |kind: &str| {
        let calls = ranked["calls"].as_array().unwrap().iter().find(|calls| calls["kind"] == kind);
        calls.map_or(0.0, |calls| calls["calls"].as_f64().unwrap())
    };
    assert_eq!((calls("read"), calls("generate")), (3.0, 0.0));
    assert!(calls("score") > 6.0 && calls("links") >= 1.0);
    assert!(ranked["passages_retrieved"].as_f64().unwrap() > 6.0, "the pool, and the links that were ranked");
    assert_eq!(of(&shared, "bm25")["parameters"], Value::Null);
    assert!(of(&shared, "dense")["parameters"].as_u64().unwrap() > 100_000);
    let models = ranked["parameters"].as_u64().unwrap();
    assert!(models > of(&shared, "shuffled")["parameters"].as_u64().unwrap(), "the reader's, too");
    // If the journal answered everything, no rate was measured.
    assert_eq!(of(&unknown, "promptrank")["attributed"]["device_s"], Value::Null);
    assert!(of(&unknown, "promptrank")["attributed"]["prompt_tokens"].as_f64().unwrap() > 0.0);
    assert!(!shared["incurred"].as_array().unwrap().is_empty());

    let text = succeed(&mut hopeval(at, &["costs", run_of(&alone)]));
    assert!(text.starts_with("a world for its costs\n\nrun "), "{text}");
    for part in [
        "6 questions, 400 passages, mode latency, workers: 3",
        "| configuration       | n | coverage | iterations | rounds | retrieve | links | score | label | filter | \
         read | passages retrieved |",
        "| shuffled (control)  |",
        "| system              | #params | avg. query time (s) |",
        "| method              | # LLM calls | # iterations | latency (s) | device use (%) |",
        "incurred by this run",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = succeed(&mut hopeval(at, &["costs", run_of(&together)]));
    assert!(text.contains("not those of a single user") && text.contains("`hopeval run --mode latency`"), "{text}");
    // The mode of throughput measures no query time, so that column is left out, and so are others of dashes alone.
    let header = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(header("| system").contains("#params") && !header("| system").contains("query time"), "{text}");
    assert!(!text.contains("| isolated") && !text.contains("device use"), "{text}");

    efficientrag(at, &alone, of(&isolated, "efficientrag"));
    controls(at, &together);
}

/// EfficientRAG's account and its row of the paper's table 4, compared with its outcomes.
fn efficientrag(at: &Path, document: &Value, account: &Value) {
    let rows = table::<FinalOutcomeRow>(at, document, "outcomes");
    let rows: Vec<_> = rows.iter().filter(|row| row.configuration == "efficientrag").collect();
    let mean =
        |of: &dyn Fn(&FinalOutcomeRow) -> u64| rows.iter().map(|row| of(row)).sum::<u64>() as f64 / QUESTIONS as f64;
    let iterations = mean(&|row| row.iterations.into());
    assert!(iterations > 1.0 && iterations < 4.0, "{iterations}");
    assert_eq!(account["iterations"], iterations);

    // Chunks are kept in iterations; what is kept again is one passage.
    let different = |row: &FinalOutcomeRow| {
        let kept = row.paths.iter().flat_map(|(passages, _)| passages);
        kept.collect::<BTreeSet<_>>().len() as u64
    };
    let kept = mean(&different);
    assert!(kept > 0.0 && kept < 4.0 * iterations, "{kept}");
    assert_eq!(account["passages_kept"], kept);
    assert_eq!(harness::measure(document, "efficientrag", "all", "chunks")["value"], kept);

    // Each iteration retrieves, and its passages are labelled. Each but the first follows a filter; a filter may return
    // nothing.
    let calls = |kind: &str| {
        let calls = account["calls"].as_array().unwrap().iter().find(|calls| calls["kind"] == kind);
        calls.map_or(0.0, |calls| calls["calls"].as_f64().unwrap())
    };
    assert_eq!((calls("retrieve"), calls("label")), (iterations, 4.0 * iterations));
    assert!((iterations - 1.0..=iterations).contains(&calls("filter")), "{}", calls("filter"));
    assert_eq!(calls("read"), mean(&|row| u64::from(!row.ranked.is_empty())));
    let counted = |row: &FinalOutcomeRow| row.calls.iter().map(|calls| calls.calls).sum();
    let all = account["calls"].as_array().unwrap().iter().map(|calls| calls["calls"].as_f64().unwrap()).sum::<f64>();
    assert!((mean(&counted) - all).abs() < 1e-9, "{account}");

    let text = succeed(&mut hopeval(at, &["costs", run_of(document)]));
    let table = text.split_once("as EfficientRAG's table 4\n").unwrap().1;
    let row = table.lines().find(|line| line.starts_with("| efficientrag ")).unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let isolated = |key: &str| account["isolated"][key].as_f64().unwrap();
    // No language model is asked: its reader points at a span.
    let expected = [
        "efficientrag".to_owned(),
        "0.00".to_owned(),
        format!("{iterations:.2}"),
        format!("{:.4}", isolated("wall_s")),
        format!("{:.2}", 100.0 * isolated("device_use")),
    ];
    assert_eq!(cells, expected);
}

/// Controls are marked as such, and have their effect.
fn controls(at: &Path, document: &Value) {
    let rows = table::<ConfigurationRow>(at, document, "configurations");
    let told: Vec<_> = rows.iter().map(|row| (row.configuration.as_str(), row.control.as_deref())).collect();
    let expected = [
        ("bm25", None),
        ("dense", None),
        ("efficientrag", None),
        ("promptrank", None),
        ("shuffled", Some("shuffled links")),
        ("untrained", Some("untrained scorer")),
    ];
    assert_eq!(told, expected);
    let shown = succeed(&mut hopeval(at, &["show", run_of(document)]));
    let (methods, apart) = shown.split_once("context mode: open, controls\n").unwrap();
    assert!(methods.starts_with("a world for its costs\n\nrun ") && methods.contains("| promptrank"), "{shown}");
    assert!(apart.contains("| shuffled      | shuffled links   | 6 |"), "{shown}");

    let outcomes = table::<FinalOutcomeRow>(at, document, "outcomes");
    let paths = |name: &str| -> BTreeSet<(u64, Vec<u32>)> {
        let rows = outcomes.iter().filter(|row| row.configuration == name);
        let paths = rows.flat_map(|row| row.paths.iter().map(|(passages, _)| (row.index, passages.clone())));
        paths.filter(|(_, passages)| passages.len() == 2).collect()
    };
    let (linked, shuffled) = (paths("promptrank"), paths("shuffled"));
    assert!(linked.len() > 6 && shuffled.len() > 6);
    assert!(linked.intersection(&shuffled).count() * 10 <= linked.len(), "links lead where they led");
    let scores = |name: &str| -> Vec<Vec<f64>> {
        outcomes.iter().filter(|row| row.configuration == name).map(|row| row.scores.clone()).collect()
    };
    assert_ne!(scores("promptrank"), scores("untrained"));
}

#[test]
fn a_mode_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("job.toml"), JOB).unwrap();
    let refused = run(&mut hopeval(dir.path(), &["run", "job.toml", "--mode", "fast"]));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("allowed: throughput, latency"), "{said}");
    let set = ["run", "job.toml", "--set", "run.mode=latency", "--show-settings"];
    assert!(succeed(&mut hopeval(dir.path(), &set)).contains("mode = \"latency\""));
}
