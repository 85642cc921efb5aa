//! Races of a sweep: points stopped early, the figures of the whole sweep for the others, and nothing computed twice.
//!
//! The world is tiny, so that a rung has few questions. The decisions still follow from its committed values alone.

use crate::harness::{self, document, hopeval, run_of, wait_for};
use crate::requests::{computed, journalled};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A sweep over instructions: each point has prompts, and so requests, of its own. Another method does not race.
const SWEEP: &str = r#"
name = "raced"
[dataset.world]
questions = 30
passages = 400
seed = 7
[dataset.draw]
questions = 16
seed = 3
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
[method.tfidf]
kind = "one_step"
retriever = "tfidf"
[method.found]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "scorer"
pool = 5
[method.found.sweep]
instructions = [
    "Ask.", "Sum them up.", "Go through the documents above and write the question that they answer together.",
    "no words", "Write the question.", "Question: the documents above and their question",
]
"#;

const RACE: &str = "[method.found.race]\nmeasure = \"recall_frac@2\"\nfirst = 4\nfactor = 2\nleast = 2\nmargin = 0.0\n";

fn job(dir: &Path, name: &str, more: &str) -> PathBuf {
    let path = dir.join(format!("{name}.toml"));
    std::fs::write(&path, format!("{SWEEP}{more}")).unwrap();
    path
}

fn command(dir: &Path, verb: &str, job: &Path, store: &str, more: &[&str]) -> Command {
    let arguments = [verb, job.to_str().unwrap(), "--store", store, "--cache", "cache"];
    hopeval(dir, &[&arguments[..], more].concat())
}

/// The rows of a document's measures, by configuration.
fn rows(document: &Value) -> BTreeMap<String, Vec<Value>> {
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in document["measures"].as_array().unwrap() {
        found.entry(row["configuration"].as_str().unwrap().to_owned()).or_default().push(row.clone());
    }
    found
}

/// The runs of a store, in the order in which they were made.
fn runs(dir: &Path, store: &str) -> Vec<String> {
    let folders = std::fs::read_dir(dir.join(store).join("runs")).unwrap().flatten();
    let mut runs: Vec<String> = folders.map(|run| run.file_name().into_string().unwrap()).collect();
    runs.sort();
    runs
}

#[test]
fn a_race_leaves_points_with_the_figures_of_the_whole_sweep() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let (whole, raced) = (job(dir, "whole", ""), job(dir, "raced", RACE));
    let grid = document(&mut command(dir, "run", &whole, "grid", &["--json"]));
    let race = document(&mut command(dir, "run", &raced, "race", &["--json", "--workers", "2"]));
    assert!(grid.get("races").is_none());
    let (all, left) = (rows(&grid), rows(&race));
    assert_eq!((all.len(), left.len()), (7, 3), "six points and a method; two points are left");
    assert!(left.iter().all(|(name, figures)| all[name] == *figures));
    let recall = |name: &String| harness::measure(&grid, name, "all", "recall_frac@2")["value"].as_f64().unwrap();
    let points = || all.keys().filter(|name| name.starts_with("found"));
    let best = points().map(recall).fold(0.0, f64::max);
    assert!(left.keys().any(|name| recall(name) == best), "the best point is left");
    assert!(points().any(|name| recall(name) < best), "the wording matters");

    // Each stopped point has its end with the reason.
    let decided = &race["races"][0];
    assert_eq!((&decided["method"], &decided["measure"]), (&json!("found"), &json!("recall_frac@2")));
    let counts = |rung: &Value| ["questions", "candidates", "ranked", "stopped"].map(|key| rung[key].as_u64().unwrap());
    let rungs = decided["rungs"].as_array().unwrap();
    assert_eq!(rungs.iter().map(counts).collect::<Vec<_>>(), [[4, 6, 3, 3], [8, 3, 2, 1]]);
    let stopped = decided["stopped"].as_array().unwrap();
    let ends: Vec<u64> = stopped.iter().map(|point| point["stopped"]["questions"].as_u64().unwrap()).collect();
    assert_eq!(ends, [8, 4, 4, 4], "those of the last rung first");
    let names: BTreeSet<&str> = stopped.iter().map(|point| point["configuration"].as_str().unwrap()).collect();
    assert_eq!(names, points().map(String::as_str).filter(|name| !left.contains_key(*name)).collect());

    // The runs: two rungs of the racing method alone, and the whole. No answer is computed twice.
    let ids = runs(dir, "race");
    assert_eq!((ids.len(), ids[2].as_str()), (3, run_of(&race)));
    let rung = document(&mut hopeval(dir, &["show", &ids[1], "--store", "race", "--json"]));
    assert_eq!((&rung["questions"], rows(&rung).len()), (&json!(8), 3));
    assert_eq!(rung["job"], "raced: found, rung 2");
    let each: Vec<u64> = ids.iter().map(|run| computed(dir, "race", run)).collect();
    assert!(each.iter().all(|&computed| computed > 0), "{each:?}");
    assert_eq!(each.iter().sum::<u64>(), journalled(dir, "race"), "{each:?}");
    assert!(each.iter().sum::<u64>() < computed(dir, "grid", run_of(&grid)) * 2 / 3, "{each:?}");

    // Tables and page say what was stopped, when and why; the run opens from its record.
    let text = harness::succeed(&mut hopeval(dir, &["show", run_of(&race), "--store", "race", "--wide"]));
    assert!(text.contains("race of found by recall_frac@2: 4 points stopped"), "{text}");
    let stopped_after = |questions: &str| {
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        text.lines().filter(|line| cells(line).get(2).is_some_and(|cell| cell == questions)).count()
    };
    assert_eq!((stopped_after("4"), stopped_after("8")), (3, 1), "{text}");
    assert!(text.contains("rung 1: 6 candidates over 4 questions, 3 stopped; the cut is rank 3 with 0."), "{text}");
    harness::succeed(&mut hopeval(dir, &["report", run_of(&race), "--store", "race", "--out", "page.html"]));
    let page = std::fs::read_to_string(dir.join("page.html")).unwrap();
    assert!(page.contains("A race stopped 4 points of found after rungs of 4, 8 questions."));
    assert!(names.iter().all(|name| page.contains(name)));
}

/// A draw behind others: its rungs begin with its own first question.
#[test]
fn rungs_of_a_draw_behind_others_have_as_many_questions() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let raced = job(dir, "raced", RACE);
    let text = std::fs::read_to_string(&raced).unwrap().replace("seed = 3\n", "seed = 3\nafter = 5\n");
    std::fs::write(&raced, text).unwrap();
    let race = document(&mut command(dir, "run", &raced, "race", &["--json"]));
    let rungs = race["races"][0]["rungs"].as_array().unwrap();
    assert_eq!(rungs.iter().map(|rung| rung["questions"].as_u64().unwrap()).collect::<Vec<_>>(), [4, 8]);
    let ids = runs(dir, "race");
    let questions = |run: &String| document(&mut hopeval(dir, &["show", run, "--store", "race", "--json"]));
    assert_eq!(
        ids.iter().map(|run| questions(run)["questions"].clone()).collect::<Vec<_>>(),
        [4, 8, 16].map(Value::from)
    );
}

#[test]
fn a_race_that_is_killed_leaves_the_points_that_it_would_have() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let raced = job(dir, "raced", RACE);
    let peace = document(&mut command(dir, "run", &raced, "peace", &["--json", "--workers", "1"]));
    // In the second rung: the first one is decided, the second has commits.
    let mut begun = command(dir, "run", &raced, "war", &["--workers", "1"]);
    let mut child = begun.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let records = |run: std::fs::DirEntry| {
        let log = std::fs::read_dir(run.path().join("log")).ok();
        log.map_or(0, |log| log.flatten().filter(|file| !file.file_name().to_string_lossy().contains('#')).count())
    };
    wait_for("commit of the second rung", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its second rung had a commit");
        let logs: Vec<usize> = std::fs::read_dir(dir.join("war/runs")).ok()?.flatten().map(records).collect();
        (logs.len() == 2 && logs.iter().all(|&records| records >= 3)).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let known = journalled(dir, "war");
    let again = document(&mut command(dir, "run", &raced, "war", &["--json", "--processes", "2"]));
    assert_eq!(again["races"], peace["races"]);
    let tables = |store: &str, document: &Value| harness::final_tables(&dir.join(store), run_of(document));
    assert!(tables("war", &again) == tables("peace", &peace));
    let later = runs(dir, "war").split_off(2);
    let more: u64 = later.iter().map(|run| computed(dir, "war", run)).sum();
    assert_eq!(known + more, journalled(dir, "war"), "what was journalled is not computed again");
    assert_eq!(journalled(dir, "war"), journalled(dir, "peace"));
}

#[test]
fn a_plan_says_what_a_race_saves() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let raced = job(dir, "raced", RACE);
    let text = std::fs::read_to_string(&raced).unwrap().replace("pool = 5", "pool = 5\nhops = 1");
    std::fs::write(&raced, text).unwrap();
    let document = document(&mut command(dir, "plan", &raced, "store", &["--json"]));
    let races = document["races"].as_array().unwrap();
    assert_eq!((races.len(), &races[0]["name"], &races[0]["rungs"]), (1, &json!("found"), &json!([4, 8])));
    // Six points over 8 questions score five passages each: 240 requests, none shared.
    let sharing = json!({"questions": 8, "alone": 240, "together": 240, "guessed": false,
        "request_share": races[0]["outcome_share"]});
    assert_eq!(races[0]["sharing"], sharing);

    // Too few questions for a rung: said, and every point is evaluated.
    let raced = job(dir, "few", RACE);
    let output = harness::run(&mut command(dir, "run", &raced, "few", &["--limit", "4", "--json"]));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    assert!(message.contains("the race of `found` has no rung"), "{message}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(rows(&found).len() == 7 && found.get("races").is_none());
    // A misspelt measure is refused before the first rung.
    let output = harness::run(&mut command(dir, "run", &raced, "few", &["--measure", "recal"]));
    assert_eq!((output.status.code(), runs(dir, "few").len()), (Some(2), 1));
}

/// Rungs have questions that are evaluated, as many as they say, also where most rows are left out.
#[test]
fn rungs_have_evaluated_questions_alone() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let question = |n: u32| format!("{{\"id\": \"q{n}\", \"question\": \"Word{n}?\", \"gold_titles\": [\"T{n}\"]}}\n");
    let passage = |n: u32| format!("{{\"title\": \"T{n}\", \"text\": \"Word{n} stands here.\"}}\n");
    std::fs::write(dir.join("q.jsonl"), (0..90).map(question).collect::<String>()).unwrap();
    // Of every third question the gold is in the corpus.
    std::fs::write(dir.join("p.jsonl"), (0..90).step_by(3).map(passage).collect::<String>()).unwrap();
    let job = "name = \"sparse\"\n[dataset]\nformat = \"fields\"\nquestions = \"q.jsonl\"\ngold = \"title\"\n\
        missing_gold = \"leave_out\"\n[corpus]\nsource = \"p.jsonl\"\n[service.s]\nkind = \"bm25\"\n[service.s.sweep]\n\
        k1 = [0.5, 1.0, 1.5, 2.0]\n[method.m]\nkind = \"one_step\"\nretriever = \"s\"\n[method.m.race]\n\
        measure = \"mrr\"\nfirst = 4\nfactor = 2\nleast = 1\nmargin = 0.0\n";
    std::fs::write(dir.join("job.toml"), job).unwrap();
    let found = document(&mut hopeval(dir, &["run", "job.toml", "--store", "sparse", "--json"]));
    assert_eq!(found["questions"], 30);
    let rungs = found["races"][0]["rungs"].as_array().unwrap();
    assert_eq!(rungs.iter().map(|rung| rung["questions"].as_u64().unwrap()).collect::<Vec<_>>(), [4, 8]);
    for (run, questions) in runs(dir, "sparse").iter().zip([4, 8, 30]) {
        let shown = document(&mut hopeval(dir, &["show", run, "--store", "sparse", "--json"]));
        assert_eq!(shown["questions"], questions, "{run}");
    }

    // The points and the numbers of a race are known when it is over.
    for against in ["m{retriever=s{k1=0.5}}", "2"] {
        let output = harness::run(&mut hopeval(dir, &["run", "job.toml", "--store", "other", "--against", against]));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("is known when the race is over"), "{message}");
        assert!(!dir.join("other/runs").exists());
    }
}
