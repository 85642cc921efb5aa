//! `reproduce` over papers' jobs with stand-in models: what it says of each published figure, and the differences where
//! conditions match.

use crate::harness::{self, document, hopeval, run, run_of, succeed};
use crate::stand_ins::{job, with_stand_ins, write_world};
use hopeval_public_files::file_sha256;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn run_job(dir: &Path, name: &str) -> String {
    run_of(&document(with_stand_ins(dir, "run", name, "").arg("--json"))).to_owned()
}

fn reproduce(dir: &Path, name: &str, more: &[&str]) -> Command {
    let command = ["reproduce", job(name).to_str().unwrap(), "--store", "store"].map(ToOwned::to_owned);
    let arguments: Vec<&str> = command.iter().map(String::as_str).chain(more.iter().copied()).collect();
    hopeval(dir, &arguments)
}

/// Exit code, document and message of `reproduce --json`.
fn reproduced(dir: &Path, name: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    let output = run(reproduce(dir, name, more).arg("--json"));
    let message = String::from_utf8(output.stderr).unwrap();
    let found = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {message}"));
    (output.status.code(), found, message)
}

/// The figure of a system and a measure.
fn figure<'a>(found: &'a Value, system: &str, measure: &str) -> &'a Value {
    let figures = found["figures"].as_array().unwrap().iter();
    let mut of =
        figures.filter(|figure| figure["published"]["system"] == system && figure["published"]["measure"] == measure);
    of.next().unwrap_or_else(|| panic!("no {measure} of {system}: {found}"))
}

/// The finding of a figure's condition.
fn condition<'a>(figure: &'a Value, name: &str) -> &'a Value {
    let mut conditions = figure["conditions"].as_array().unwrap().iter();
    conditions.find(|found| found["condition"] == name).unwrap_or_else(|| panic!("no {name}: {figure}"))
}

#[test]
fn every_published_figure_of_two_jobs_is_told_why_it_does_not_compare() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_world(dir);
    for name in ["promptrank/table-1", "efficientrag/table-2-retrieval-musique"] {
        run_job(dir, name);
        let (code, found, message) = reproduced(dir, name, &[]);
        assert_eq!((code, &found["comparable"]), (Some(2), &0.into()));
        assert!(message.contains("none of the") && message.contains("--anyway"), "{message}");
        let figures = found["figures"].as_array().unwrap();
        assert!(figures.len() >= 8, "{name}: {figures:?}");
        for figure in figures {
            assert!(!figure["conditions"].as_array().unwrap().is_empty(), "{figure}");
            assert!(figure["difference"].is_null() && figure["is_comparable"] == false, "{figure}");
        }
        let text = String::from_utf8(run(&mut reproduce(dir, name, &[])).stdout).unwrap();
        assert!(text.contains("not comparable: ") && text.contains("is not a public file by its SHA-256"), "{text}");
    }
    let (_, found, _) = reproduced(dir, "promptrank/table-1", &[]);
    let tfidf = figure(&found, "TF-IDF", "recall_all@2");
    assert_eq!((&tfidf["published"]["value"], &condition(tfidf, "questions")["run"]), (&9.9.into(), &"20".into()));
    assert_eq!(condition(tfidf, "passages of the corpus")["paper"], "5233329");
    let other = figure(&found, "DrKit", "recall_all@2");
    assert!(condition(other, "configuration")["reason"].as_str().unwrap().contains("none for `DrKit`"), "{other}");
    let promptrank = figure(&found, "PROMPTRANK", "recall_all@2");
    assert_eq!(condition(promptrank, "model (scorer)")["run"], "hopeval:scorer");
    let unstated = figure(&found, "TF-IDF", "answer_recall@2");
    assert_eq!(condition(unstated, "questions")["finding"], "unknown_in_paper");
    assert!(unstated["conditions"].as_array().unwrap().iter().any(|found| found["condition"] == "rule"));
    let (_, found, _) = reproduced(dir, "efficientrag/table-2-retrieval-musique", &[]);
    let direct = figure(&found, "Direct-R@10", "recall");
    assert_eq!(condition(direct, "split")["finding"], "unknown_in_paper");

    // Asked for, the differences are told under what differs.
    let (code, found, _) = reproduced(dir, "promptrank/table-1", &["--anyway"]);
    let tfidf = figure(&found, "TF-IDF", "recall_all@2");
    let (own, difference) = (tfidf["value"].as_f64().unwrap(), tfidf["difference"]["value"].as_f64().unwrap());
    assert_eq!((code, difference), (Some(0), own - 9.9));
    let text = succeed(&mut reproduce(dir, "promptrank/table-1", &["--anyway"]));
    let heading = text.lines().find(|line| line.starts_with("not comparable: split unknown")).unwrap();
    assert!(heading.contains("questions: 7405 in the paper, 20 in the run"), "{heading}");
}

/// A table of published figures with the columns of the shipped one, and these rows.
fn write_published(dir: &Path, rows: &[String]) {
    let shipped = std::fs::read_to_string(job("published").with_extension("csv")).unwrap();
    let header = shipped.lines().next().unwrap();
    std::fs::write(dir.join("published.csv"), [&[header.to_owned()], rows].concat().join("\n") + "\n").unwrap();
}

#[test]
fn differences_are_told_where_all_conditions_match() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_world(dir);
    let id = run_job(dir, "promptrank/table-1");
    let shown = document(&mut hopeval(dir, &["show", &id, "--store", "store", "--json"]));
    let (_, first, _) = reproduced(dir, "promptrank/table-1", &[]);
    let prompts = condition(figure(&first, "PROMPTRANK", "recall_all@2"), "prompts")["run"].as_str().unwrap();
    let digest = prompts.rsplit_once(' ').unwrap().1;
    let links = shown["links"].as_str().unwrap();
    let sha256 = file_sha256(&dir.join("world/questions.jsonl"), &mut |_| ()).unwrap();
    let list = format!(
        "[tiny]\npath = \"questions.jsonl\"\nfrom = [\"http://files.invalid\"]\ndataset = \"Tiny\"\nsplit = \"dev\"\n\
         sha256 = \"{sha256}\"\n"
    );
    std::fs::write(dir.join("list.toml"), list).unwrap();
    let row = |system: &str, value: f64, questions: &str, passages: &str, rest: &str| {
        let figure = format!("p,table 1,{system},,,Tiny,dev,{questions},recall_all@2,{value},,%,");
        format!("{figure},promptrank/table-1,{rest},all,{passages}")
    };
    let promptrank = format!("{links},scorer=hopeval:scorer,{digest},");
    let rows = [
        row("A", 40.0, "20", "400", "tfidf,recall_all@2") + ",-,-,-,",
        row("B", 30.0, "20", "400", "t5_xl,recall_all@2") + "," + &promptrank,
        row("C", 40.0, "20", "401", "tfidf,recall_all@2") + ",-,-,-,",
        row("D", 40.0, "21", "400", "tfidf,recall_all@2") + ",-,-,-,",
        row("E", 40.0, "20", "400", "t5_xl,recall_all@2") + ",none,scorer=other,-,",
        row("F", 40.0, "", "", "tfidf,recall_all@3") + ",,,,",
        row("G", 40.0, "20", "400", "tfidf,em by efficientrag") + ",-,-,-,",
    ];
    write_published(dir, &rows);
    let options = ["--published", "published.csv", "--list", "list.toml"];
    let (code, found, _) = reproduced(dir, "promptrank/table-1", &options);
    assert_eq!((code, &found["comparable"], &found["run"]), (Some(0), &2.into(), &id.clone().into()));
    for (system, configuration, published) in [("A", "tfidf", 40.0), ("B", "t5_xl", 30.0)] {
        let own = harness::measure(&shown, configuration, "all", "recall_all@2");
        let told = figure(&found, system, "recall_all@2");
        assert_eq!((&told["is_comparable"], &told["questions"]), (&true.into(), &20.into()), "{told}");
        for (key, own) in [("value", &own["value"]), ("low", &own["low"]), ("high", &own["high"])] {
            let (told, own) = (told["difference"][key].as_f64().unwrap(), own.as_f64().unwrap() * 100.0 - published);
            assert!((told - own).abs() < 1e-9, "{key} of {system}: {told} {own}");
        }
    }
    for (system, name, paper, run) in [
        ("C", "passages of the corpus", "401", "400"),
        ("D", "questions", "21", "20"),
        ("E", "links", "none", links),
        ("E", "model (scorer)", "other", "hopeval:scorer"),
        ("G", "rules of answers", "efficientrag", "hotpotqa"),
    ] {
        let told = figure(&found, system, "recall_all@2");
        let differing = condition(told, name);
        assert_eq!((&differing["finding"], &differing["paper"]), (&"differs".into(), &paper.into()), "{told}");
        assert_eq!(differing["run"], run);
        assert!(told["difference"].is_null(), "{told}");
    }
    let unknown = figure(&found, "F", "recall_all@2");
    for name in ["questions", "passages of the corpus", "links", "models", "prompts"] {
        assert_eq!(condition(unknown, name)["finding"], "unknown_in_paper", "{name}");
    }
    assert_eq!(condition(unknown, "measure")["finding"], "unknown_in_run");
    let text = succeed(&mut reproduce(dir, "promptrank/table-1", &options));
    assert!(text.contains("2 of 7 published figures compare") && text.contains("\ncomparable\n"), "{text}");
    assert!(text.contains("not comparable: passages of the corpus: 401 in the paper, 400 in the run"), "{text}");

    write_published(dir, &[row("A", 40.0, "20", "400", "tfidf,recall_all@2 by musique") + ",-,-,-,"]);
    let output = run(&mut reproduce(dir, "promptrank/table-1", &options));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("published.csv:2: `own_measure` = recall_all@2 by musique; allowed:"), "{error}");
    write_published(dir, &rows);

    // The split is told by the file's content: another content, or none, is not taken for it.
    let questions = dir.join("world/questions.jsonl");
    let content = std::fs::read(&questions).unwrap();
    std::fs::write(&questions, [&content[..], b"\n"].concat()).unwrap();
    let (code, found, _) = reproduced(dir, "promptrank/table-1", &options);
    assert_eq!((code, &found["comparable"]), (Some(2), &0.into()));
    let split = condition(figure(&found, "A", "recall_all@2"), "split");
    assert!(split["reason"].as_str().unwrap().contains("have changed since the run"), "{split}");
}

#[test]
fn a_job_without_run_or_figures_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_world(dir);
    let id = run_job(dir, "efficientrag/table-2-retrieval-musique");
    let message = |name: &str, more: &[&str]| {
        let output = run(&mut reproduce(dir, name, more));
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        String::from_utf8(output.stderr).unwrap()
    };
    let told = message("promptrank/table-1", &[]);
    assert!(told.contains("no run of the job `promptrank/table-1`") && told.contains("hopeval run"), "{told}");
    let told = message("promptrank/table-1", &["--run", &id]);
    assert!(told.contains("is not of the job") && told.contains("tfidf_bm25"), "{told}");
    write_published(dir, &[]);
    let told = message("efficientrag/table-2-retrieval-musique", &["--published", "published.csv"]);
    assert!(told.contains("no published figure belongs to the job"), "{told}");
}
