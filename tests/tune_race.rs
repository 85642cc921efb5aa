//! Races of a search: candidates stopped early, the same choice as without one, and nothing computed twice.
//!
//! The world is tiny, so that a rung has few questions. The decisions still follow from its committed values alone.

use crate::harness::{self, document, hopeval, wait_for};
use crate::requests::{computed, journalled};
use hopeval_results::tables::{QuestionRow, read_table};
use hopeval_results::{Store, layout};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A search for an instruction: each candidate has prompts, and so requests, of its own.
const SEARCH: &str = r#"
name = "raced"
[dataset.world]
questions = 30
passages = 400
seed = 7
[service.tfidf]
kind = "tfidf"
[service.links]
kind = "link_tfidf"
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
threads = 1
[run]
chunk = 1
in_flight = 1
[method.found]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "scorer"
pool = 5
[tune]
sample = 16
seed = 3
measure = "recall_frac@2"
[[tune.select]]
name = "wording"
method = "found"
parameter = "instructions"
candidates = [
    "Ask.", "Sum them up.", "Go through the documents above and write the question that they answer together.",
    "no words", "Write the question.", "Question: the documents above and their question",
]
"#;

const RACE: &str = "[tune.select.race]\nfirst = 4\nfactor = 2\nleast = 2\nmargin = 0.0\n";

/// Questions of the rungs of [`RACE`], and of the whole sample.
const RUNGS: [u64; 3] = [4, 8, 16];

fn job(dir: &Path, name: &str, race: &str) -> PathBuf {
    let path = dir.join(format!("{name}.toml"));
    std::fs::write(&path, format!("{SEARCH}{race}")).unwrap();
    path
}

fn tune(dir: &Path, job: &Path, store: &str, more: &[&str]) -> std::process::Command {
    let arguments = ["tune", job.to_str().unwrap(), "--store", store, "--cache", "cache"];
    hopeval(dir, &[&arguments[..], more].concat())
}

/// The only selection of a search.
fn selection(document: &Value) -> &Value {
    &document["selections"][0]
}

fn record(dir: &Path, store: &str) -> Vec<u8> {
    std::fs::read(dir.join(store).join(layout::selection_record("wording"))).unwrap()
}

/// The runs of a race, in order.
fn runs(selection: &Value) -> Vec<&str> {
    let rungs = selection["race"]["runs"].as_array().unwrap().iter();
    rungs.chain([&selection["run"]]).map(|run| run.as_str().unwrap()).collect()
}

fn question_ids(dir: &Path, store: &str, run: &str) -> BTreeSet<String> {
    let store = Store::open(dir.join(store).to_str().unwrap()).unwrap();
    read_table::<QuestionRow>(&store, &layout::questions_table(run)).unwrap().into_iter().map(|row| row.id).collect()
}

#[test]
fn a_race_chooses_what_all_candidates_over_all_questions_give() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let (whole, raced) = (job(dir, "whole", ""), job(dir, "raced", RACE));
    let grid = document(&mut tune(dir, &whole, "grid", &["--json"]));
    let race = document(&mut tune(dir, &raced, "race", &["--json", "--workers", "2"]));
    let (grid, race) = (selection(&grid), selection(&race));
    assert!(grid.get("race").is_none());
    let (all, found) = (grid["candidates"].as_array().unwrap(), race["candidates"].as_array().unwrap());
    assert_eq!((found[0]["value"].clone(), &found[0]["score"]), (all[0]["value"].clone(), &all[0]["score"]));
    assert!(all[0]["score"].as_f64() > all[5]["score"].as_f64(), "the wording matters");

    // Each candidate has figures over the whole sample, those of the grid, or its end with the reason.
    assert_eq!(found.len(), all.len());
    let (measured, stopped) = found.split_at(2);
    for candidate in measured {
        let same = all.iter().find(|other| other["value"] == candidate["value"]).unwrap();
        assert_eq!(candidate, same);
    }
    let rungs = race["race"]["rungs"].as_array().unwrap();
    let counts = |rung: &Value| ["questions", "candidates", "ranked", "stopped"].map(|key| rung[key].as_u64().unwrap());
    assert_eq!(rungs.iter().map(counts).collect::<Vec<_>>(), [[4, 6, 3, 3], [8, 3, 2, 1]]);
    let ends: Vec<u64> = stopped.iter().map(|end| end["stopped"]["questions"].as_u64().unwrap()).collect();
    assert_eq!(ends, [8, 4, 4, 4], "those of the last rung first");
    for candidate in stopped {
        assert_eq!(
            (&candidate["score"], &candidate["stderr"], &candidate["n"]),
            (&json!(null), &json!(null), &json!(0))
        );
        let end = |key: &str| candidate["stopped"][key].as_f64().unwrap();
        assert!(end("mean") <= end("cut") && end("difference") <= 0.0, "{candidate}");
        assert!((end("mean") - end("cut") - end("difference")).abs() < 1e-12, "{candidate}");
        let rung = rungs.iter().find(|rung| rung["questions"] == candidate["stopped"]["questions"]).unwrap();
        assert_eq!(rung["cut"], candidate["stopped"]["cut"]);
    }

    // A rung's questions are among those of the next one, and no answer is computed twice.
    let samples: Vec<BTreeSet<String>> = runs(race).into_iter().map(|run| question_ids(dir, "race", run)).collect();
    assert_eq!(samples.iter().map(|sample| sample.len() as u64).collect::<Vec<_>>(), RUNGS);
    assert!(samples.windows(2).all(|pair| pair[0].is_subset(&pair[1])));
    let each: Vec<u64> = runs(race).into_iter().map(|run| computed(dir, "race", run)).collect();
    assert!(each.iter().all(|&computed| computed > 0), "{each:?}");
    assert_eq!(each.iter().sum::<u64>(), journalled(dir, "race"), "{each:?}");
    let all_computed = computed(dir, "grid", grid["run"].as_str().unwrap());
    assert!(each.iter().sum::<u64>() < all_computed * 2 / 3, "{each:?} of {all_computed}");

    // The table has every stopped candidate with its reason, and the race is part of the search.
    let text = harness::succeed(&mut tune(dir, &raced, "race", &[]));
    assert_eq!(text.matches("stopped after 4 questions: mean 0.").count(), 3, "{text}");
    assert_eq!(text.matches("stopped after 8 questions: mean 0.").count(), 1, "{text}");
    assert!(text.contains("rung 1: 6 candidates over 4 questions, 3 stopped; the cut is rank 3 with 0."), "{text}");
    assert!(text.contains("was committed before"), "{text}");
    let output = harness::run(&mut tune(dir, &whole, "race", &[]));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("selection `wording` was made of another search"), "{message}");
}

#[test]
fn a_race_that_is_killed_decides_what_it_would_have() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let raced = job(dir, "raced", RACE);
    let peace = document(&mut tune(dir, &raced, "peace", &["--json", "--workers", "1"]));
    // In the second rung: the first one is decided, the second has commits.
    let mut command = tune(dir, &raced, "war", &["--workers", "1"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let logs = || -> Option<Vec<usize>> {
        let runs = std::fs::read_dir(dir.join("war/runs")).ok()?.flatten();
        let written = |file: &std::fs::DirEntry| !file.file_name().to_string_lossy().contains('#');
        let log = |run: std::fs::DirEntry| {
            std::fs::read_dir(run.path().join("log")).ok().map_or(0, |log| log.flatten().filter(written).count())
        };
        Some(runs.map(log).collect())
    };
    wait_for("commit of the second rung", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its second rung had a commit");
        logs().filter(|logs| logs.len() == 2 && logs.iter().all(|&records| records >= 3))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!dir.join("war").join(layout::selection_record("wording")).exists());
    let known = journalled(dir, "war");
    let resumed = document(&mut tune(dir, &raced, "war", &["--json", "--workers", "3"]));
    assert!(record(dir, "war") == record(dir, "peace"));
    assert_eq!(selection(&resumed)["race"]["rungs"], selection(&peace)["race"]["rungs"]);
    let again: u64 = runs(selection(&resumed)).into_iter().map(|run| computed(dir, "war", run)).sum();
    assert_eq!(known + again, journalled(dir, "war"), "what was journalled is not computed again");
    assert_eq!(journalled(dir, "war"), journalled(dir, "peace"));
}

#[test]
fn a_plan_says_where_a_race_saves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let plan = |job: &Path, more: &[&str]| {
        let arguments = ["plan", job.to_str().unwrap(), "--store", "store", "--cache", "cache"];
        hopeval(dir, &[&arguments[..], more].concat())
    };
    // Each wording has prompts of its own. Every temperature has the same prompts, and the same answers.
    let temperatures = "[[tune.select]]\nname = \"temperature\"\nmethod = \"found\"\nparameter = \"temperature\"\n\
        candidates = [0.5, 1.0, 1.5, 2.0]\n";
    let sizes = "[[tune.select]]\nname = \"sizes\"\nmethod = \"found\"\n[tune.select.grid]\n\
        first_hops = [2, 3]\nlinks_per_passage = [2, 4]\n";
    let whole = job(dir, "whole", &format!("{RACE}{temperatures}{RACE}{sizes}{RACE}"));
    let text = std::fs::read_to_string(&whole).unwrap().replace("pool = 5", "pool = 5\nhops = 1");
    std::fs::write(&whole, &text).unwrap();
    let document = document(&mut plan(&whole, &["--json"]));
    let races = document["races"].as_array().unwrap();
    assert_eq!(races.iter().map(|race| &race["name"]).collect::<Vec<_>>(), ["wording", "temperature", "sizes"]);
    assert_eq!((&races[2]["candidates"], &races[2]["rungs"]), (&json!(4), &json!([4])));
    // Six candidates over 8 questions score five passages each: 240 requests, none shared.
    let sharing = json!({"questions": 8, "alone": 240, "together": 240, "guessed": false,
        "request_share": races[0]["outcome_share"]});
    assert_eq!((&races[0]["sharing"], &races[0]["rungs"]), (&sharing, &json!([4, 8])));
    assert!((races[0]["outcome_share"].as_f64().unwrap() - 52.0 / 96.0).abs() < 1e-12);
    let sharing = json!({"questions": 8, "alone": 160, "together": 40, "guessed": false, "request_share": 1.0});
    assert_eq!(races[1]["sharing"], sharing);
    let printed = harness::succeed(&mut plan(&whole, &[])).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        printed.contains("race `wording`: 6 candidates over 16 questions, in rungs of 4, 8: 54 % of all outcomes"),
        "{printed}"
    );
    assert!(printed.contains("race `temperature`: 4 candidates over 16 questions, in rungs of 4: it saves nothing"));

    // Before the searches, the races alone are planned.
    let chosen = "scorer = \"scorer\"\ninstructions = { selection = \"wording\" }\n";
    std::fs::write(&whole, text.replacen("scorer = \"scorer\"\n", chosen, 1)).unwrap();
    let printed = harness::succeed(&mut plan(&whole, &[])).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(printed.contains("race `wording`: 6 candidates over 16 questions"), "{printed}");
    assert!(printed.contains("its requests follow selection `wording`, which is not in the store"), "{printed}");
    assert!(
        printed.contains("selection `wording` is not in the store, so the requests of the job itself"),
        "{printed}"
    );
}
