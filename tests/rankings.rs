//! Outcomes of other systems, brought in from files: they have the figures of the runs that made them, state what they
//! cover, and bring their costs.

use crate::harness::{document, final_tables, hopeval, kill_after_commits, measure, run, run_of, succeed};
use hopeval_results::tables::{CostRow, FinalOutcomeRow, Row, read_table};
use hopeval_results::{Store, layout};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const QUESTIONS: u64 = 300;

/// A world with methods whose outcomes are exported.
const HEAD: &str = r#"
name = "brought"
[dataset.world]
questions = 300
passages = 2000
seed = 7
[service.bm25]
kind = "bm25"
[service.tfidf]
kind = "tfidf"
[measures]
recall_at = [1, 2, 5, 10, 20]
[run]
chunk = 8
allowed_failed = 1.0
"#;

const OWN: &str = r#"
[method.bm25]
kind = "one_step"
retriever = "bm25"
k = 20
[method.hops]
kind = "iterative_title"
retriever = "bm25"
[method.oracle]
kind = "oracle"
"#;

/// Runs a job with these methods in the store of this name.
fn run_methods(dir: &Path, store: &str, methods: &str, more: &[&str]) -> Value {
    std::fs::write(dir.join("job.toml"), [HEAD, methods].concat()).unwrap();
    let arguments = ["run", "job.toml", "--json", "--cache", "cache", "--store", store];
    document(&mut hopeval(dir, &[&arguments, more].concat()))
}

/// Runs the job of hopeval's own methods, and exports the rankings of `bm25` and `hops`.
fn exported(dir: &Path) -> Value {
    let own = run_methods(dir, "own", OWN, &[]);
    for name in ["bm25", "hops"] {
        let file = format!("{name}.trec");
        let export =
            ["export", "latest", "--store", "own", "--cache", "cache", "--format", "trec", "--configuration", name];
        succeed(&mut hopeval(dir, &[&export[..], &["--out", &file]].concat()));
    }
    own
}

fn table<R: Row>(dir: &Path, store: &str, run: &str, name: &str) -> Vec<R> {
    let store = Store::open(dir.join(store).to_str().unwrap()).unwrap();
    read_table(&store, &layout::final_table(run, name)).unwrap()
}

/// The values of a configuration's measures, by stratum and measure.
fn figures(document: &Value, configuration: &str) -> BTreeMap<(String, String), Value> {
    let rows = document["measures"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["configuration"] == configuration && !row["value"].is_null());
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    rows.map(|row| {
        let figure = json!([row["value"], row["stderr"], row["low"], row["high"], row["n"], row["coverage"]]);
        ((text(row, "stratum"), text(row, "measure")), figure)
    })
    .collect()
}

const BROUGHT: &str = r#"
[method.theirs]
kind = "rankings"
file = "bm25.trec"
[method.theirs_5]
kind = "rankings"
file = "bm25.trec"
k = 5
[method.hops]
kind = "rankings"
file = "hops.trec"
"#;

#[test]
fn an_exported_run_that_is_brought_in_has_its_own_figures() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let own = exported(dir);
    let found = run_methods(dir, "brought", BROUGHT, &["--workers", "2"]);
    for (brought, exported) in [("theirs", "bm25"), ("hops", "hops")] {
        let (found, own) = (figures(&found, brought), figures(&own, exported));
        assert!(own.len() > 30, "{}", own.len());
        assert_eq!(found, own, "{brought}: to the last digit");
    }
    let cut = measure(&found, "theirs_5", "all", "recall_all@20");
    assert_eq!(cut["ranked"], 5, "a cut-off beyond what it ranks is marked");
    assert_eq!(cut["value"], measure(&own, "bm25", "all", "recall_all@5")["value"]);
    assert_eq!(found["rankings"].as_array().unwrap().len(), 2, "two configurations share a file");
    assert_eq!(found["rankings"][1]["file"], "bm25.trec", "in the order of the configurations");
    assert_eq!(found["rankings"][1]["used"], QUESTIONS);

    // The tables are the same however the run is spread, and after a kill. The files are needed no more.
    let tables = final_tables(&dir.join("brought"), run_of(&found));
    let spread = run_methods(dir, "spread", BROUGHT, &["--workers", "2", "--processes", "3"]);
    assert!(final_tables(&dir.join("spread"), run_of(&spread)) == tables, "three processes");
    let killed = ["run", "job.toml", "--cache", "cache", "--store", "killed", "--set", "run.chunk=1"];
    kill_after_commits(&mut hopeval(dir, &killed), &dir.join("killed"));
    std::fs::rename(dir.join("bm25.trec"), dir.join("elsewhere.trec")).unwrap();
    let resume = ["resume", "latest", "--json", "--cache", "cache", "--store", "killed"];
    let resumed = document(&mut hopeval(dir, &resume));
    assert!(final_tables(&dir.join("killed"), run_of(&resumed)) == tables, "killed and resumed");
    std::fs::rename(dir.join("elsewhere.trec"), dir.join("bm25.trec")).unwrap();

    // Another order of lines, another name and place: the same outcomes.
    let text = std::fs::read_to_string(dir.join("bm25.trec")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_by_key(|line| line.split(' ').nth(2).unwrap().to_owned());
    std::fs::create_dir(dir.join("more")).unwrap();
    std::fs::write(dir.join("more/shuffled"), lines.join("\n")).unwrap();
    let shuffled = BROUGHT.replace("bm25.trec", "more/shuffled");
    let shuffled = run_methods(dir, "shuffled", &shuffled, &[]);
    assert!(final_tables(&dir.join("shuffled"), run_of(&shuffled)) == tables, "lines in another order");
}

#[test]
fn they_stand_beside_own_methods_and_are_compared_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    exported(dir);
    let beside = "[method.theirs]\nkind = \"rankings\"\n[method.theirs.sweep]\nfile = [\"bm25.trec\", \"hops.trec\"]\n";
    let found = run_methods(dir, "beside", &[OWN, beside].concat(), &[]);
    let places = ["--cache", "cache", "--store", "beside"];
    let shown = document(&mut hopeval(dir, &[&["show", "--json", "--against", "bm25"], &places[..]].concat()));
    let differences = shown["differences"].as_array().unwrap();
    let of = |name: &str| {
        let found = differences.iter().find(|row| row["configuration"] == name && row["measure"] == "recall_all@5");
        found.unwrap_or_else(|| panic!("no difference of {name}")).clone()
    };
    assert_eq!(of("theirs{file=bm25.trec}")["difference"], 0.0);
    let (theirs, hops) = (of("theirs{file=hops.trec}"), of("hops"));
    assert_eq!((&theirs["difference"], &theirs["n"]), (&hops["difference"], &json!(QUESTIONS)));
    assert!(found["measures"].as_array().unwrap().iter().any(|row| row["configuration"] == "oracle"));
    let text = succeed(&mut hopeval(dir, &[&["show"], &places[..]].concat()));
    assert!(text.contains("brought in: hops.trec, 300 of its 300 rows; 0 questions have no row"), "{text}");
}

/// Rows of JSON Lines for every question of the world, with answers and rankings of one passage, and costs.
fn rows_of_world(dir: &Path, own: &Value) -> Vec<Value> {
    let outcomes: Vec<FinalOutcomeRow> = table(dir, "own", run_of(own), "outcomes");
    let oracle = outcomes.iter().filter(|row| row.configuration == "oracle");
    let cost = |index: u64| json!({"calls": 2, "seconds": 0.25 * (index % 4) as f64, "money": 0.5});
    oracle
        .map(|row| {
            let supporting: Vec<Value> = row.ranked_ids.iter().map(|id| json!([id, 0])).collect();
            json!({"id": row.question, "answer": row.answer, "ranked": row.ranked_ids, "supporting": supporting,
                   "cost": cost(row.index)})
        })
        .collect()
}

fn write_lines(path: &Path, rows: &[Value]) {
    std::fs::write(path, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
}

#[test]
fn coverage_and_costs_are_stated() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let own = run_methods(dir, "own", OWN, &[]);
    let mut rows = rows_of_world(dir, &own);
    // A third is missing; of three rows the dataset has no question, so that their passages are not looked at.
    rows.retain(|row| row["id"].as_str().unwrap().bytes().map(u64::from).sum::<u64>() % 3 > 0);
    let kept = rows.len() as u64;
    assert!(kept > 100 && kept < 290, "{kept}");
    for n in 0..3 {
        let cost = json!({"calls": 1, "seconds": 1, "money": 1});
        rows.push(json!({"id": format!("other-{n}"), "ranked": ["no such passage"], "cost": cost}));
    }
    write_lines(&dir.join("theirs.jsonl"), &rows);
    let methods = "[method.theirs]\nkind = \"rankings\"\nfile = \"theirs.jsonl\"\ncurrency = \"EUR\"\n\
                   [method.bare]\nkind = \"rankings\"\nfile = \"bare.csv\"\n";
    let bare: String = rows.iter().map(|row| format!("{},yes\n", row["id"].as_str().unwrap())).collect();
    std::fs::write(dir.join("bare.csv"), format!("id,answer\n{bare}")).unwrap();
    let found = run_methods(dir, "covered", methods, &[]);

    let coverage = kept as f64 / QUESTIONS as f64;
    let em = measure(&found, "theirs", "all", "em");
    assert_eq!((em["n"].as_u64(), em["coverage"].as_f64()), (Some(QUESTIONS), Some(coverage)));
    assert!((em["value"].as_f64().unwrap() - coverage).abs() < 1e-12, "missing questions count 0: {em}");
    let recall = measure(&found, "theirs", "all", "recall_frac@10")["value"].as_f64().unwrap();
    assert!((recall - coverage).abs() < 1e-12, "{recall}");
    assert_eq!(measure(&found, "bare", "all", "recall_frac@10")["value"], Value::Null, "it ranks nothing");
    assert_eq!(
        found["rankings"][1]["rows"].as_u64().zip(found["rankings"][1]["used"].as_u64()),
        Some((kept + 3, kept))
    );
    let outcomes: Vec<FinalOutcomeRow> = table(dir, "covered", run_of(&found), "outcomes");
    let missing = outcomes.iter().filter(|row| row.configuration == "theirs" && row.status == "not_in_file");
    assert_eq!(missing.count() as u64, QUESTIONS - kept);
    assert_eq!(outcomes.len() as u64, 2 * QUESTIONS, "none is without an outcome");

    let costs = document(&mut hopeval(dir, &["costs", "--json", "--cache", "cache", "--store", "covered"]));
    let of =
        |name: &str| costs["configurations"].as_array().unwrap().iter().find(|c| c["configuration"] == name).unwrap();
    let brought = &of("theirs")["brought"];
    assert_eq!((&brought["n"], &brought["calls"], &brought["money"]), (&json!(kept), &json!(2.0), &json!(0.5)));
    assert_eq!((&brought["currency"], &brought["prompt_tokens"]), (&json!("EUR"), &Value::Null));
    let seconds = outcomes.iter().filter(|row| row.configuration == "theirs" && row.status == "ok");
    let seconds = seconds.map(|row| 0.25 * (row.index % 4) as f64).sum::<f64>() / kept as f64;
    assert!((brought["seconds"].as_f64().unwrap() - seconds).abs() < 1e-12);
    assert_eq!(of("theirs")["latency"], Value::Null, "nothing of it was measured");
    assert_eq!(
        of("bare")["brought"],
        json!({"n": kept, "calls": null, "prompt_tokens": null,
        "completion_tokens": null, "seconds": null, "money": null, "currency": null})
    );
    let rows: Vec<CostRow> = table(dir, "covered", run_of(&found), "costs");
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.kind.as_str(), row.requests, row.device_s), ("brought", 2 * kept, None));
    let text = succeed(&mut hopeval(dir, &["costs", "--cache", "cache", "--store", "covered"]));
    assert!(text.contains("costs brought with outcomes, as their files give them"), "{text}");
    assert!(text.contains("EUR"), "{text}");
}

#[test]
fn wrong_files_are_refused_by_file_row_and_field() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let own = run_methods(dir, "own", OWN, &[]);
    let rows = rows_of_world(dir, &own);
    let (first, second) = (rows[0]["id"].as_str().unwrap(), rows[1]["id"].as_str().unwrap());
    let passage = rows[0]["ranked"][0].as_str().unwrap();
    let refuses = |name: &str, text: &str, says: &[&str]| {
        std::fs::write(dir.join(name), text).unwrap();
        let method = format!("[method.theirs]\nkind = \"rankings\"\nfile = {name:?}\n");
        std::fs::write(dir.join("job.toml"), [HEAD, &method].concat()).unwrap();
        for command in ["run", "plan"] {
            let arguments = [command, "job.toml", "--cache", "cache", "--store", "refused"];
            let output = run(&mut hopeval(dir, &arguments));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{command}: {said}");
            assert!(says.iter().all(|part| said.contains(part)), "{command} of {text}: {said}");
            assert_eq!(said.matches("error").count(), 1, "{said}");
        }
    };
    refuses(
        "a.trec",
        &format!("{first} Q0 {passage} 1 2 r\n{first} Q0 nowhere 2 1 r\n"),
        &["a.trec:2: record 2: field `document`: found `nowhere`, which is no passage"],
    );
    refuses(
        "a.jsonl",
        &json!({"id": second, "ranked": [passage, "nowhere"]}).to_string(),
        &["a.jsonl:1: record 1: field `ranked[1]`: found `nowhere`, which is no passage"],
    );
    refuses(
        "b.jsonl",
        &json!({"id": second, "supporting": [["nowhere", 0]]}).to_string(),
        &["b.jsonl:1: record 1: field `supporting[0]`: found `nowhere`"],
    );
    refuses(
        "a.csv",
        &format!("id,ranked\n{first},{passage} nowhere\n"),
        &["a.csv:2: record 2: field `ranked[1]`: found `nowhere`"],
    );
    refuses(
        "b.trec",
        &format!("{first} Q0 {passage} 1 high r\n"),
        &["b.trec:1: record 1: field `score`: found \"high\""],
    );
    refuses(
        "c.trec",
        &format!("x{first} Q0 {passage} 1 1 r\n"),
        &["c.trec:1: record 1: field `qid`: found", "and no row is of an evaluated question, such as"],
    );
    // The same passage by its id and by its title.
    let outcomes: Vec<hopeval_results::tables::PassageRow> = table(dir, "own", run_of(&own), "passages");
    let title = &outcomes.iter().find(|row| row.id == passage).unwrap().title;
    refuses(
        "c.jsonl",
        &json!({"id": first, "ranked": [passage, title]}).to_string(),
        &["c.jsonl:1: record 1: field `ranked[1]`: found", "a passage that has another name before"],
    );
    std::fs::write(
        dir.join("job.toml"),
        [HEAD, "[method.theirs]\nkind = \"rankings\"\nfile = \"none.trec\"\n"].concat(),
    )
    .unwrap();
    let output = run(&mut hopeval(dir, &["run", "job.toml", "--cache", "cache", "--store", "refused"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("none.trec"), "{said}");
    assert!(
        !dir.join("refused/runs").exists() || std::fs::read_dir(dir.join("refused/runs")).unwrap().next().is_none()
    );
}

/// Gold that is edited while a run is not finished: the questions keep their brought rows.
#[test]
fn edited_questions_keep_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(&mut hopeval(dir, &["world", "--questions", "300", "--passages", "2000", "--seed", "7", "--out", "world"]));
    let own = run_methods(dir, "own", OWN, &[]);
    write_lines(&dir.join("theirs.jsonl"), &rows_of_world(dir, &own));
    let method = "[method.theirs]\nkind = \"rankings\"\nfile = \"theirs.jsonl\"\n";
    std::fs::write(dir.join("job.toml"), [HEAD, method].concat()).unwrap();
    let killed = ["run", "job.toml", "--cache", "cache", "--store", "killed", "--set", "run.chunk=1"];
    kill_after_commits(&mut hopeval(dir, &killed), &dir.join("killed"));
    let lines = std::fs::read_to_string(dir.join("world/questions.jsonl")).unwrap();
    let edited = lines.lines().map(|line| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        row["answers"] = json!(["another answer"]);
        format!("{row}\n")
    });
    std::fs::write(dir.join("edited.jsonl"), edited.collect::<String>()).unwrap();
    let places = ["--cache", "cache", "--store", "killed"];
    let said = run(&mut hopeval(dir, &[&["gold", "apply", "latest", "edited.jsonl"], &places[..]].concat()));
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let found = document(&mut hopeval(dir, &[&["resume", "latest", "--json"], &places[..]].concat()));
    let recall = measure(&found, "theirs", "all", "recall_frac@10");
    assert_eq!((recall["value"].as_f64(), recall["coverage"].as_f64()), (Some(1.0), Some(1.0)));
    assert_eq!(measure(&found, "theirs", "all", "em")["value"], 0.0, "the edit counts");
}

/// A TREC run has white space between its fields, so a title has `_` there.
#[test]
fn titles_stand_for_documents_with_underscores() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("q.jsonl", "{\"id\": \"q1\", \"question\": \"Who?\", \"gold_titles\": [\"Corran Bridge\"]}\n");
    write(
        "p.jsonl",
        "{\"title\": \"Ada Marsh\", \"text\": \"Ada.\"}\n{\"title\": \"Corran Bridge\", \"text\": \"A bridge.\"}\n",
    );
    write("a.trec", "q1 Q0 Ada_Marsh 1 2 r\nq1 Q0 Corran_Bridge 2 1 r\n");
    write(
        "job.toml",
        "name = \"titles\"\n[dataset]\nformat = \"fields\"\nquestions = \"q.jsonl\"\ngold = \"title\"\n[corpus]\n\
         source = \"p.jsonl\"\n[method.theirs]\nkind = \"rankings\"\nfile = \"a.trec\"\n",
    );
    let found = document(&mut hopeval(dir.path(), &["run", "job.toml", "--json"]));
    assert_eq!(measure(&found, "theirs", "all", "mrr")["value"], 0.5);
}
