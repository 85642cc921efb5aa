//! `score`: predictions in hopeval's own forms have the figures of a run that brings them in, in each form; judgements
//! stand in for gold; two files are compared; a file of no form is told the forms.

use crate::harness::{document, hopeval, measure, run, succeed};
use crate::tiny;
use serde_json::{Value, json};
use std::path::Path;

/// The tiny dataset with predictions of two systems. The first has no row of `q5`, and a row of no question.
fn written() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    tiny::write(dir.path());
    let theirs = |i: usize| {
        let answer = if i == 1 { "nowhere".to_owned() } else { format!("Town {i}") };
        let ranked = match i {
            0 => json!([["Film 0", 3.0], ["Person 0", 2.0], ["Town 0", 1.0]]),
            _ => json!([[format!("Town {i}"), 3.0], [format!("Film {i}"), 2.0]]),
        };
        json!({"id": format!("q{i}"), "answer": answer, "ranked": ranked, "supporting": [[format!("Film {i}"), 0]]})
    };
    let mut rows: Vec<Value> = (0..5).map(theirs).collect();
    rows.push(json!({"id": "another", "answer": "x"}));
    std::fs::write(dir.path().join("theirs.jsonl"), tiny::lines(&rows)).unwrap();
    let base: Vec<Value> =
        (0..6).map(|i| json!({"id": format!("q{i}"), "answer": format!("Town {}", i / 3 * i)})).collect();
    std::fs::write(dir.path().join("base.jsonl"), tiny::lines(&base)).unwrap();
    dir
}

/// Arguments of `score` against the tiny dataset.
fn arguments<'a>(predictions: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["score", "--gold", "questions.json", "--predictions", predictions], more].concat()
}

fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = run(&mut hopeval(dir, arguments));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty(), "nothing but the error");
    said
}

#[test]
fn scored_rows_have_the_figures_of_a_run() {
    let dir = written();
    let job = [tiny::JOB, "[method.theirs]\nkind = \"rankings\"\nfile = \"theirs.jsonl\"\n"].concat();
    std::fs::write(dir.path().join("job.toml"), job).unwrap();
    let set = ["--set", "run.allowed_failed=1.0"];
    let ran =
        document(&mut hopeval(dir.path(), &[&["run", "job.toml", "--json", "--store", "store"], &set[..]].concat()));
    let scored =
        document(&mut hopeval(dir.path(), &arguments("theirs.jsonl", &["--json", "--set", "recall_at=[2,5]"])));
    assert_eq!(
        scored["predictions"],
        json!([{"configuration": "theirs.jsonl", "file": "theirs.jsonl", "rows": 6, "used": 5, "missing": 1,
                "gold_ranked": 6}])
    );
    assert_eq!((&scored["profile"], &scored["questions"]), (&json!("hotpotqa"), &json!(6)));
    let mut compared = 0;
    for row in scored["measures"].as_array().unwrap() {
        let (stratum, name) = (row["stratum"].as_str().unwrap(), row["measure"].as_str().unwrap());
        let own = measure(&ran, "theirs", stratum, name);
        for figure in ["value", "stderr", "low", "high", "n", "coverage", "ranked"] {
            assert_eq!(row[figure], own[figure], "{figure} of {name}, {stratum}");
        }
        compared += usize::from(!row["value"].is_null());
    }
    assert!(compared > 60, "{compared}");
    // By hand: four of six answers are right; all gold is among the first two of q0 alone.
    assert_eq!(measure(&scored, "theirs.jsonl", "all", "em")["value"], 4.0 / 6.0);
    assert_eq!(measure(&scored, "theirs.jsonl", "all", "recall_all@2")["value"], 1.0 / 6.0);
    assert_eq!(measure(&scored, "theirs.jsonl", "type=bridge", "em")["value"], 1.0 / 3.0);
}

#[test]
fn each_form_has_the_same_figures() {
    let dir = written();
    let rows: Vec<(String, String)> = (0..5).map(|i| (format!("q{i}"), format!("Town {}", i % 4))).collect();
    let object: serde_json::Map<String, Value> = rows.iter().map(|(id, answer)| (id.clone(), json!(answer))).collect();
    let json_lines: Vec<Value> = rows.iter().map(|(id, answer)| json!({"id": id, "answer": answer})).collect();
    let cells: String = rows.iter().map(|(id, answer)| format!("{answer},{id}\n")).collect();
    let files = [
        ("a.jsonl", tiny::lines(&json_lines)),
        ("a.csv", format!("answer,id\n{cells}")),
        ("a.json", serde_json::to_string_pretty(&object).unwrap()),
        ("b.json", serde_json::to_string(&object).unwrap()),
    ];
    let figures = |name: &str| {
        let scored = document(&mut hopeval(dir.path(), &arguments(name, &["--json"])));
        let rows = scored["measures"].as_array().unwrap().iter().cloned();
        rows.map(|mut row| {
            row.as_object_mut().unwrap().remove("configuration");
            row
        })
        .collect::<Vec<_>>()
    };
    for (name, text) in &files {
        std::fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(figures(name), figures("a.jsonl"), "{name}");
    }
    assert_eq!(figures("a.csv").iter().find(|row| row["measure"] == "em").unwrap()["value"], 4.0 / 6.0);
    // A script's own file is scored by the script, under its names.
    let official = json!({"answer": object, "sp": {}});
    std::fs::write(dir.path().join("official.json"), official.to_string()).unwrap();
    let official =
        document(&mut hopeval(dir.path(), &arguments("official.json", &["--json", "--profile", "hotpotqa"])));
    assert_eq!((&official["em"], &official["predicted"]["answer"]), (&json!(4.0 / 6.0), &json!(5)));
}

#[test]
fn judgements_stand_in_for_gold() {
    let dir = written();
    let at = dir.path();
    std::fs::write(at.join("run.trec"), "q0 Q0 d1 1 9 r\nq0 Q0 d2 2 8 r\nq1 Q0 d3 1 9 r\nq1 Q0 d4 2 8 r\n").unwrap();
    std::fs::write(at.join("qrels"), "q0 0 d2 1\nq0 0 d9 0\nq1 0 d3 1\nq1 0 d4 1\nq2 0 d5 2\n").unwrap();
    let alone = document(&mut hopeval(
        at,
        &["score", "--qrels", "qrels", "--predictions", "run.trec", "--json", "--set", "mrr=true"],
    ));
    let value = |document: &Value, name: &str| measure(document, "run.trec", "all", name)["value"].clone();
    assert_eq!((&alone["questions"], &alone["predictions"][0]["missing"]), (&json!(3), &json!(1)));
    // 1/2 of q0, 1 of q1, and 0 of q2, which has no line.
    assert_eq!((value(&alone, "mrr"), value(&alone, "recall_all@2")), (json!(0.5), json!(2.0 / 3.0)));
    assert_eq!(measure(&alone, "run.trec", "all", "recall_all@20")["ranked"], 2);
    assert!(value(&alone, "em").is_null());
    let beside = document(&mut hopeval(at, &arguments("run.trec", &["--qrels", "qrels", "--json"])));
    assert_eq!((&beside["questions"], &beside["unjudged"]), (&json!(6), &json!(3)));
    assert_eq!((value(&beside, "mrr"), &measure(&beside, "run.trec", "all", "mrr")["n"]), (json!(0.5), &json!(3)));
    assert_eq!(measure(&beside, "run.trec", "type=bridge", "mrr")["value"], 1.0, "q1");
    // Names of another corpus are no silent 0.
    let output = run(&mut hopeval(at, &arguments("run.trec", &[])));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("run.trec ranks no gold passage of any question") && said.contains("`Film 0`"), "{said}");
}

#[test]
fn two_files_are_compared_question_by_question() {
    let dir = written();
    let more = ["--against", "base.jsonl", "--measure", "em"];
    let both = document(&mut hopeval(dir.path(), &arguments("theirs.jsonl", &[&more[..], &["--json"]].concat())));
    let [difference] = both["differences"].as_array().unwrap().as_slice() else { panic!("one measure: {both}") };
    // Theirs is right of q0, q2, q3, q4; the base of q0, q3, q4, q5.
    assert_eq!((&difference["configuration"], &difference["against"]), (&json!("theirs.jsonl"), &json!("base.jsonl")));
    assert_eq!((&difference["n"], &difference["difference"], &difference["p"]), (&json!(6), &json!(0.0), &json!(1.0)));
    assert_eq!(difference["p_kind"], "exact");
    let text = succeed(&mut hopeval(dir.path(), &arguments("theirs.jsonl", &more)));
    for part in [
        "6 questions, profile hotpotqa",
        "theirs.jsonl: 5 of its 6 rows; 1 of 6 questions have no row, and count 0",
        "base.jsonl: 6 of its 6 rows; every question has a row",
        "by type",
        "| type=bridge ",
        "less `base.jsonl`, paired by question",
        "higher is better",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let stratum = ["--stratum", "type=bridge", "--json"];
    let bridge = document(&mut hopeval(dir.path(), &arguments("theirs.jsonl", &[&more[..], &stratum].concat())));
    assert_eq!(
        (&bridge["differences"][0]["n"], &bridge["differences"][0]["stratum"]),
        (&json!(3), &json!("type=bridge"))
    );
}

#[test]
fn errors_show_the_wanted_form() {
    let dir = written();
    let at = dir.path();
    let write = |name: &str, text: &str| std::fs::write(at.join(name), text).unwrap();
    write("list.csv", "question,answer\nq0,Town 0\n");
    write("nested.json", "{\n\"q0\": \"Town 0\",\n\"q1\": [\"Town 1\"]\n}\n");
    write("cut.json", "{\n\"q0\": \"Town 0\",\n\"q1\": \"Town 1\"\n");
    write("official.json", "{\"answer\": {\"q0\": 3}, \"sp\": {}}");
    let forms =
        ["hint: a file of predictions has one of these forms:", "{\"QUESTION\": \"ANSWER\", …}", "id,answer,ranked"];
    for (file, more, found) in [
        ("list.csv", &["--format", "csv"][..], "list.csv:1: record 1: field `question`: found the column \"question\""),
        ("nested.json", &[], "nested.json:3: record 2: field `q1`: found a list of 1; allowed: a string"),
        ("cut.json", &[], "cut.json:3: record 2: found the end of the file"),
        ("official.json", &["--profile", "hotpotqa"], "is a number, allowed is a string"),
        ("official.json", &["--profile", "squad"], "has no official script for whole files"),
    ] {
        let said = refused(at, &arguments(file, more));
        assert!(said.contains(found) && forms.iter().all(|form| said.contains(form)), "{file}: {said}");
    }
    // Gold without answers, and predictions without rankings: nothing is measured, and no table is printed.
    write("bare.jsonl", "{\"question\": \"Who?\", \"id\": \"q0\", \"type\": \"x\"}\n");
    write("some.json", "{\"q0\": \"Town 0\"}");
    let said = refused(at, &["score", "--gold", "bare.jsonl", "--gold-format", "fields", "--predictions", "some.json"]);
    assert!(said.contains("no measure has a value for any question"), "{said}");
    write("others.jsonl", "{\"id\": \"x\", \"answer\": \"y\"}\n");
    for (file, more, found) in [
        ("others.jsonl", &[][..], "no row is of an evaluated question, such as `q0`"),
        ("official.json", &["--profile", "hotpotqa", "--against", "base.jsonl"], "--against does not go with official"),
        ("official.json", &[], "--profile says whose"),
        ("theirs.jsonl", &["--measure", "bleu"], "no measure `bleu`; there are em, f1"),
        ("theirs.jsonl", &["--stratum", "type=x"], "no stratum `type=x`; there are all, hops=2, type=bridge"),
        (
            "theirs.jsonl",
            &["--set", "recal_at=[2]"],
            "unknown field `recal_at`, expected one of `profile`, `recall_at`",
        ),
        ("theirs.jsonl", &["--set", "answer_recall_at=[2]"], "files of predictions have none"),
        ("theirs.jsonl", &["--aliases", "base.jsonl"], "2WikiMultihopQA's script"),
        ("nowhere.jsonl", &[], "nowhere.jsonl"),
    ] {
        let said = refused(at, &arguments(file, more));
        assert!(said.contains(found), "{file}: {said}");
    }
}
