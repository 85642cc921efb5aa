//! `compare`: configurations of several runs beside each other agree with `--against` within one run, with the tables
//! of costs, and refuse what has no meaning.

use crate::harness::{document, hopeval, run, run_of};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Retrieval with parameters of BM25, and PromptRank's scorer over a device.
fn job(more: &str) -> String {
    format!(
        r#"
name = "beside"
[dataset.world]
questions = 30
passages = 400
seed = 5
[service.bm25]
kind = "bm25"
[service.other]
kind = "bm25"
k1 = 1.6
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
threads = 1
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.other]
kind = "one_step"
retriever = "other"
[method.given]
kind = "given"
retriever = "bm25"
[method.promptrank]
kind = "promptrank"
retriever = "bm25"
scorer = "scorer"
pool = 8
{more}
"#
    )
}

/// Runs the job with more settings, and returns the run's id.
fn run_job(dir: &Path, more: &str, arguments: &[&str]) -> String {
    std::fs::write(dir.join("job.toml"), job(more)).unwrap();
    let command = ["run", "job.toml", "--store", "store", "--cache", "cache", "--json"];
    run_of(&document(&mut hopeval(dir, &[&command, arguments].concat()))).to_owned()
}

fn compare(dir: &Path, sides: &[&str]) -> Command {
    hopeval(dir, &[&["compare", "--store", "store"], sides].concat())
}

fn pairs(dir: &Path, sides: &[&str]) -> Vec<Value> {
    document(compare(dir, sides).arg("--json"))["pairs"].as_array().unwrap().clone()
}

/// The message of a comparison that is refused.
fn refused(dir: &Path, sides: &[&str]) -> String {
    let output = run(&mut compare(dir, sides));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn cost<'a>(pair: &'a Value, name: &str) -> &'a Value {
    let costs = pair["costs"].as_array().unwrap();
    costs.iter().find(|cost| cost["cost"] == name).unwrap_or_else(|| panic!("no {name}: {costs:?}"))
}

#[test]
fn two_runs_differ_as_two_configurations_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (first, second) = (run_job(dir, "", &[]), run_job(dir, "", &["--workers", "2"]));
    let sides = [&format!("{first}:bm25"), &format!("{second}:other")];
    let found = pairs(dir, &sides.map(String::as_str));
    // Configurations are numbered by their names: bm25, given, other, promptrank.
    let numbered = [&format!("{first}:#1"), &format!("{second}:3")];
    assert_eq!(pairs(dir, &numbered.map(String::as_str)), found);
    let [pair] = &found[..] else { panic!("{found:?}") };
    let show = ["show", &first, "--store", "store", "--against", "bm25", "--json"];
    let shown = document(&mut hopeval(dir, &show));
    let within: Vec<&Value> =
        shown["differences"].as_array().unwrap().iter().filter(|row| row["configuration"] == "other").collect();
    assert!(!within.is_empty());
    // Neither gives answers, so that `em` has no value.
    for row in pair["quality"].as_array().unwrap().iter().filter(|row| row["n"] != 0) {
        let same = within.iter().find(|other| other["measure"] == row["measure"]).unwrap();
        for key in ["n", "difference", "low", "high", "p"] {
            assert_eq!(row[key], same[key], "{key}: {row}");
        }
        let mean = |name: &str| {
            let measures = shown["measures"].as_array().unwrap();
            let of = |row: &&Value, configuration: &str, measure: &Value| {
                row["configuration"] == configuration && row["measure"] == *measure && row["stratum"] == "all"
            };
            measures.iter().find(|shown| of(shown, name, &row["measure"])).unwrap()["value"].as_f64().unwrap()
        };
        assert!((row["mean"].as_f64().unwrap() - mean("other")).abs() < 1e-12, "{row}");
        assert!((row["against_mean"].as_f64().unwrap() - mean("bm25")).abs() < 1e-12, "{row}");
    }
    assert_eq!((&pair["questions"], &pair["share"]), (&30.into(), &1.0.into()));
    let settings: Vec<&str> =
        pair["setup"].as_array().unwrap().iter().map(|found| found["setting"].as_str().unwrap()).collect();
    assert!(settings.contains(&"parameter retriever"), "{settings:?}");

    // Name by name: the same configurations of both runs, without a difference in set-up or quality.
    let all = pairs(dir, &[&first, &second]);
    assert_eq!(all.len(), 4);
    for pair in &all {
        assert_eq!(pair["against"]["configuration"], pair["compared"]["configuration"]);
        assert_eq!(pair["setup"].as_array().unwrap().len(), 0, "{pair}");
        let told = pair["quality"].as_array().unwrap().iter().filter(|row| row["n"] != 0);
        assert!(told.clone().count() > 0 && told.clone().all(|row| row["difference"] == 0.0), "{pair}");
    }
    let text = String::from_utf8(run(&mut compare(dir, &[&first, &second])).stdout).unwrap();
    assert!(text.contains("no setting differs") && text.contains("| measure"), "{text}");

    // The second run's answers came from the journal: its attributed work is the same, and its rates are not known.
    let promptrank = all.iter().find(|pair| pair["against"]["configuration"] == "promptrank").unwrap();
    for name in ["prompt_tokens", "scored_tokens", "operations"] {
        let cost = cost(promptrank, name);
        assert_eq!((&cost["ratio"], &cost["low"], &cost["high"]), (&1.0.into(), &1.0.into(), &1.0.into()), "{cost}");
    }
    let seconds = cost(promptrank, "device_seconds");
    assert!(seconds["against"].as_f64().unwrap() > 0.0 && seconds["compared"].is_null(), "{seconds}");
    assert!(text.contains(&format!("device seconds of run {second} are not known")), "{text}");
}

#[test]
fn the_same_questions_taken_in_two_ways_are_a_difference() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let sets = ["limit=30", "draw.questions=30"].map(|set| format!("dataset.{set}"));
    let runs = sets.each_ref().map(|set| run_job(dir, "", &["--set", set]));
    let sides = runs.each_ref().map(|run| format!("{run}:bm25"));
    let found = pairs(dir, &sides.each_ref().map(String::as_str));
    let setup = found[0]["setup"].as_array().unwrap().iter();
    let settings: Vec<&str> = setup.map(|difference| difference["setting"].as_str().unwrap()).collect();
    assert_eq!(found[0]["questions"], 30, "{found:?}");
    assert_eq!(settings, ["data: draw.questions", "data: draw.rest", "data: draw.seed", "data: limit"]);
}

#[test]
fn costs_are_those_of_the_table_and_devices_are_compared_by_money() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let price = |hour: f64| format!("[run]\nprice_per_device_hour = {hour}\n");
    let first = run_job(dir, &price(3.0), &[]);
    // Another device, by its name: its answers are computed anew. On a machine without AVX-512 it is the same device with
    // the same keys, so the journal goes.
    std::fs::remove_dir_all(dir.join("store/journal")).unwrap();
    let second = run_job(dir, &price(1.5), &["--set", "service.scorer.device=cpu-avx2"]);
    let unpriced =
        run_job(dir, "", &["--set", "service.scorer.device=cpu-avx2", "--set", "service.scorer.batch_tokens=512"]);
    let found = pairs(dir, &[&format!("{first}:promptrank"), &second]);
    let [pair] = &found[..] else { panic!("{found:?}") };
    let seconds = cost(pair, "device_seconds");
    assert!(seconds["refused"].as_str().unwrap().contains("on different devices (cpu; cpu-avx2)"), "{seconds}");
    assert!(seconds["ratio"].is_null() && seconds["against"].as_f64().unwrap() > 0.0, "{seconds}");
    let money = cost(pair, "money");
    let (low, ratio, high) = (&money["low"], &money["ratio"], &money["high"]);
    let [low, ratio, high] = [low, ratio, high].map(|value| value.as_f64().unwrap_or_else(|| panic!("{money}")));
    // The operations of a question are the same, so the ratio is that of the rates, and certain up to rounding.
    assert!(low <= ratio * (1.0 + 1e-12) && ratio <= high * (1.0 + 1e-12), "{money}");
    // The means are those of the table `costs`.
    for (run, side) in [(&first, "against"), (&second, "compared")] {
        let costs = document(&mut hopeval(dir, &["costs", run, "--store", "store", "--json"]));
        let row = costs["configurations"].as_array().unwrap().iter().find(|row| row["configuration"] == "promptrank");
        let attributed = &row.unwrap()["attributed"];
        for (name, key) in [("prompt_tokens", "prompt_tokens"), ("device_seconds", "device_s"), ("money", "money")] {
            let (found, expected) = (cost(pair, name)[side].as_f64().unwrap(), attributed[key].as_f64().unwrap());
            assert!((found / expected - 1.0).abs() < 1e-9, "{name} of {side}: {found} {expected}");
        }
    }
    // A configuration without a model is on no device, and not on another one.
    let found = pairs(dir, &[&format!("{first}:bm25"), &format!("{second}:promptrank")]);
    let seconds = cost(&found[0], "device_seconds");
    assert!(seconds["refused"].is_null() && seconds["ratio"].is_null(), "{seconds}");
    assert!(seconds["against"] == 0.0 && seconds["compared"].as_f64().unwrap() > 0.0, "{seconds}");
    // Without a price there is no money to compare.
    let found = pairs(dir, &[&format!("{first}:promptrank"), &unpriced]);
    let money = cost(&found[0], "money");
    assert!(money["compared"].is_null() && money["ratio"].is_null(), "{money}");
    let text = String::from_utf8(run(&mut compare(dir, &[&format!("{first}:promptrank"), &unpriced])).stdout).unwrap();
    assert!(text.contains(&format!("money of run {unpriced} are not known: no price is known")), "{text}");
}

#[test]
fn what_has_no_meaning_side_by_side_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let first = run_job(dir, "", &[]);
    let message = refused(dir, &[&format!("{first}:bm25"), &format!("{first}:given")]);
    assert!(message.contains("context mode `given`") && message.contains("never ranked together"), "{message}");
    let message = refused(dir, &[&format!("{first}:bm25"), &first]);
    assert!(message.contains("compared with itself"), "{message}");
    let message = refused(dir, &[&format!("{first}:bm26"), &first]);
    assert!(
        message.contains("no configuration `bm26`") && message.contains("bm25, given, other, promptrank"),
        "{message}"
    );
    let larger = run_job(dir, "", &["--set", "dataset.world.passages=500"]);
    let message = refused(dir, &[&first, &larger]);
    assert!(message.contains("its corpus is another one"), "{message}");

    // An edit of gold: the digest of that question's gold is another one.
    let second = run_job(dir, "", &["--workers", "2"]);
    let world = ["world", "--questions", "30", "--passages", "400", "--seed", "5", "--out", "world"];
    assert!(run(&mut hopeval(dir, &world)).status.success());
    let rows = std::fs::read_to_string(dir.join("world/questions.jsonl")).unwrap();
    let mut row: Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    row["answers"] = serde_json::json!(["Nobody Inparticular"]);
    let id = row["id"].as_str().unwrap().to_owned();
    std::fs::write(dir.join("edits.jsonl"), format!("{row}\n")).unwrap();
    let apply = ["gold", "apply", &second, "edits.jsonl", "--store", "store", "--cache", "cache"];
    assert!(run(&mut hopeval(dir, &apply)).status.success());
    let message = refused(dir, &[&first, &second]);
    assert!(message.contains("1 of the 30 questions") && message.contains("0 there, 1 here"), "{message}");
    assert!(message.contains(&format!("`{id}`")), "{message}");

    // A part of the questions is enough, and its share is said.
    let fewer = run_job(dir, "", &["--limit", "10"]);
    let found = pairs(dir, &[&first, &fewer]);
    assert_eq!((&found[0]["questions"], found[0]["share"].as_f64().unwrap()), (&10.into(), 10.0 / 30.0));
    let message = refused(dir, &[&first]);
    assert!(message.contains("2 values"), "{message}");
}
