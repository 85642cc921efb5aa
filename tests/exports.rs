//! Predictions and rankings in the formats of those who define them: `export` writes what `score` and trec_eval read.

#![cfg(unix)]

use crate::harness::{self, document, hopeval, measure, run, shared, succeed};
use crate::tiny;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

#[test]
fn exports_are_read_back_by_those_who_define_them() {
    let dir = tiny::job();
    let document = document(&mut hopeval(dir.path(), &["run", "job.toml", "--json"]));
    let export = |format: &str, configuration: &str| {
        let arguments = ["export", "latest", "--format", format, "--configuration", configuration];
        let text = succeed(&mut hopeval(dir.path(), &arguments));
        let file = dir.path().join(format!("{configuration}.{format}"));
        let mut to_file = hopeval(dir.path(), &arguments);
        assert_eq!(succeed(to_file.arg("--out").arg(&file)), "");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        (text, file)
    };
    // TREC: six fields, ranks from 1, scores that fall, in single precision too: equal ones are sorted by name there.
    let (trec, _) = export("trec", "bm25");
    let mut rankings: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for line in trec.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [question, "Q0", passage, rank, score, "bm25"] = fields[..] else { panic!("{line}") };
        let ranking = rankings.entry(question).or_default();
        assert!(passage.parse::<u32>().unwrap() < 18);
        ranking.push(score.parse().unwrap());
        assert_eq!(rank.parse::<usize>().unwrap(), ranking.len());
    }
    assert_eq!(rankings.len(), 6);
    let fall = |scores: &Vec<f64>| scores.is_sorted_by(|a, b| *a as f32 > *b as f32);
    assert!(rankings.values().all(|scores| scores.len() == 5 && fall(scores)), "{trec}");
    // The judgements are of all configurations: the two gold passages of each question.
    let qrels = succeed(&mut hopeval(dir.path(), &["export", "latest", "--format", "qrels"]));
    let judged: Vec<Vec<&str>> = qrels.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(judged.len(), 12, "{qrels}");
    assert!(judged.iter().all(|fields| matches!(fields[..], [question, "0", _, "1"] if question.starts_with('q'))));
    let nameless = hopeval(dir.path(), &["export", "latest", "--format", "trec"]).output().unwrap();
    let error = String::from_utf8_lossy(&nameless.stderr).into_owned();
    assert!(
        !nameless.status.success() && error.contains("--configuration") && error.contains("bm25, oracle"),
        "{error}"
    );
    // What is refused leaves an earlier file alone.
    let kept = dir.path().join("kept.trec");
    std::fs::write(&kept, "an earlier export").unwrap();
    let arguments = ["export", "latest", "--format", "trec", "--out", "kept.trec"];
    let refused = hopeval(dir.path(), &arguments).output().unwrap();
    assert_eq!((refused.status.success(), std::fs::read(&kept).unwrap()), (false, b"an earlier export".to_vec()));

    for (format, profile) in [("hotpotqa", "hotpotqa"), ("2wikimultihopqa", "2wikimultihopqa")] {
        let (_, file) = export(format, "oracle");
        let mut gold = tiny::questions();
        for row in &mut gold {
            row["evidences"] = json!([]);
        }
        std::fs::write(dir.path().join("gold.json"), tiny::array(&gold)).unwrap();
        let scored = score(dir.path(), profile, &file, Path::new("gold.json"));
        let unit = if profile == "hotpotqa" { 1.0 } else { 100.0 };
        for name in ["em", "f1"] {
            let ours = measure(&document, "oracle", "all", name)["value"].as_f64().unwrap();
            assert_eq!(scored[name].as_f64().unwrap(), ours * unit, "{format} {name}");
        }
    }
    let (lines, _) = export("musique", "oracle");
    let first = harness::parse(lines.lines().next().unwrap());
    assert_eq!((&first["id"], &first["predicted_answer"]), (&json!("q0"), &json!("Town 0")));
    assert_eq!((&first["predicted_answerable"], lines.lines().count()), (&json!(true), 6));

    let (csv, _) = export("csv", "bm25");
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    assert_eq!(header[..7], ["index", "question", "status", "answer", "ranked", "iterations", "rounds"]);
    let column = header.iter().position(|name| *name == "ndcg@10").unwrap();
    let values: Vec<f64> = rows.map(|row| row[column].parse().unwrap()).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    assert_eq!(values.len(), 6);
    assert!((mean - measure(&document, "bm25", "all", "ndcg@10")["value"].as_f64().unwrap()).abs() < 1e-12);
}

/// The figures of the official script `profile`.
fn score(dir: &Path, profile: &str, predictions: &Path, gold: &Path) -> Value {
    let mut command = hopeval(dir, &["score", "--profile", profile, "--json"]);
    document(command.arg("--predictions").arg(predictions).arg("--gold").arg(gold))
}

/// Questions without a prediction count in the figures' denominator. A document without that count would make half a
/// file look like a weak method.
#[test]
fn questions_without_a_prediction_are_counted_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("gold.json"), tiny::array(&tiny::questions())).unwrap();
    let predictions = json!({"answer": {"q0": "Town 0", "q1": "Town 1", "q2": "Town 2"}, "sp": {"q0": []}});
    std::fs::write(dir.join("predictions.json"), predictions.to_string()).unwrap();
    let arguments = ["score", "--profile", "hotpotqa", "--predictions", "predictions.json", "--gold", "gold.json"];
    for more in [&[][..], &["--json"]] {
        let output = run(hopeval(dir, &arguments).args(more));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("3 of 6 questions have no `answer` in the predictions: they count 0"), "{said}");
        assert!(said.contains("5 of 6 questions have no `sp` in the predictions: they count 0"), "{said}");
    }
    let scored = score(dir, "hotpotqa", Path::new("predictions.json"), Path::new("gold.json"));
    assert_eq!((&scored["em"], &scored["questions"]), (&json!(0.5), &json!(6)));
    assert_eq!(scored["predicted"], json!({"answer": 3, "sp": 1}));
    assert_eq!(scored["coverage"], json!({"answer": 0.5, "sp": 1.0 / 6.0}));

    // MuSiQue's script wants every question predicted.
    let gold = json!({"id": "q0", "answer": "Town 0", "answer_aliases": [], "answerable": true,
        "paragraphs": [{"idx": 0, "is_supporting": true}]});
    let predicted = json!({"id": "q0", "predicted_answer": "Town 0", "predicted_support_idxs": [0],
        "predicted_answerable": true});
    std::fs::write(dir.join("gold.jsonl"), format!("{gold}\n")).unwrap();
    std::fs::write(dir.join("predictions.jsonl"), format!("{predicted}\n")).unwrap();
    let scored = score(dir, "musique", Path::new("predictions.jsonl"), Path::new("gold.jsonl"));
    assert_eq!((&scored["questions"], &scored["coverage"]), (&json!(1), &json!({"answer": 1.0, "support": 1.0})));
}

#[test]
fn a_musique_export_is_scored_as_the_run_was() {
    let Some(shared) = shared("a_musique_export_is_scored_as_the_run_was") else { return };
    let dir = tempfile::tempdir().unwrap();
    let data = shared.join("data/musique");
    let questions = data.join("train_299.jsonl.gz");
    let rest = "[method.oracle]\nkind = \"oracle\"\n[method.random]\nkind = \"random\"\n";
    let job = harness::file_job(dir.path(), "musique", "musique", &questions, &data.join("corpus.jsonl.gz"), rest);
    let figures = document(&mut hopeval(dir.path(), &["run", job.to_str().unwrap(), "--json"]));
    let arguments = ["export", "latest", "--format", "musique", "--configuration", "oracle", "--out", "predictions"];
    succeed(&mut hopeval(dir.path(), &arguments));
    let scored = score(dir.path(), "musique", Path::new("predictions"), &questions);
    for (official, ours) in [("answer_em", "em"), ("answer_f1", "f1")] {
        assert_eq!(scored[official], measure(&figures, "oracle", "all", ours)["value"], "{official}");
    }
    assert_eq!(figures["questions"], 299);
}

/// MuSiQue-Full, which has each id twice, from its file to the official figures of pairs.
#[test]
fn musique_full_goes_from_its_file_to_the_figures_of_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let row = |id: &str, answerable: bool| {
        let paragraph = |idx: u32, title: &str, is_supporting: bool| {
            let text = format!("{title} of {id}.");
            json!({"idx": idx, "title": title, "paragraph_text": text, "is_supporting": is_supporting})
        };
        let last = if answerable { "Person" } else { "Town" };
        json!({"id": id, "question": format!("Who directed {id}?"), "answer": "Ann", "answer_aliases": ["A."],
            "paragraphs": [paragraph(0, "Film", true), paragraph(1, last, answerable)],
            "question_decomposition": [], "answerable": answerable})
    };
    let rows = [row("2hop__1_2", true), row("2hop__1_2", false), row("2hop__3_4", false), row("2hop__3_4", true)];
    std::fs::write(dir.path().join("full.jsonl"), tiny::lines(&rows)).unwrap();
    let job = "name = \"full\"\n[dataset]\nquestions = \"full.jsonl\"\n[corpus]\nsource = \"contexts\"\n\
               [method.oracle]\nkind = \"oracle\"\n";
    std::fs::write(dir.path().join("job.toml"), job).unwrap();
    let figures = document(&mut hopeval(dir.path(), &["run", "job.toml", "--json"]));
    assert_eq!(figures["questions"], 4);
    // Questions without an answer are not wrong: they are not measured.
    for (stratum, name, value, n) in [
        ("all", "em", json!(1.0), 2),
        ("all", "mrr", json!(1.0), 2),
        ("answerable=false", "em", json!(null), 0),
        ("answerable=false", "mrr", json!(null), 0),
    ] {
        let found = measure(&figures, "oracle", stratum, name);
        assert_eq!((&found["value"], &found["n"]), (&value, &json!(n)), "{stratum} {name}");
    }
    let arguments = ["export", "latest", "--format", "musique", "--configuration", "oracle", "--out", "predictions"];
    succeed(&mut hopeval(dir.path(), &arguments));
    let lines = std::fs::read_to_string(dir.path().join("predictions")).unwrap();
    let said = lines.lines().map(harness::parse).map(|line| {
        let id = line["id"].as_str().unwrap().to_owned();
        (id, line["predicted_answerable"].as_bool().unwrap())
    });
    let expected = [("2hop__1_2", true), ("2hop__1_2", false), ("2hop__3_4", false), ("2hop__3_4", true)];
    assert_eq!(said.collect::<Vec<_>>(), expected.map(|(id, said)| (id.to_owned(), said)));
    let scored = score(dir.path(), "musique", Path::new("predictions"), Path::new("full.jsonl"));
    assert_eq!((&scored["answer_em"], &scored["group_answer_sufficiency_f1"]), (&json!(1.0), &json!(1.0)));
}

#[test]
fn official_figures_are_reproduced() {
    let Some(shared) = shared("official_figures_are_reproduced") else { return };
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        ("hotpotqa", "hotpotqa_dev_1267", "hotpotqa/dev_1267.json.gz", "json", None),
        ("2wikimultihopqa", "2wikimultihopqa_train_500", "2wikimultihopqa/train_500.json.gz", "json", Some(2)),
        ("musique", "musique_train_299", "musique/train_299.jsonl.gz", "jsonl", Some(3)),
    ];
    for (profile, name, gold, ending, digits) in cases {
        let predictions = shared.join(format!("golden/{name}_predictions.{ending}.gz"));
        let scored = score(dir.path(), profile, &predictions, &shared.join("data").join(gold));
        let expected =
            harness::parse(&std::fs::read_to_string(shared.join(format!("golden/{name}_expected.json"))).unwrap());
        for (figure, value) in expected.as_object().unwrap() {
            let (value, ours) = (value.as_f64().unwrap(), scored[figure].as_f64().unwrap());
            match digits {
                None => assert!((ours - value).abs() <= 1e-12, "{profile} {figure}: {ours}, official {value}"),
                Some(digits) => {
                    assert_eq!(format!("{ours:.digits$}"), format!("{value:.digits$}"), "{profile} {figure}")
                }
            }
        }
        assert!(expected.as_object().unwrap().len() >= 3);
    }

    let pairs = shared.join("golden/answers.jsonl.gz");
    let out = succeed(hopeval(dir.path(), &["score", "--pairs"]).arg(&pairs));
    let mut golden = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&pairs).unwrap()).read_to_string(&mut golden).unwrap();
    // `lines` would also end at nothing but \n, but answers hold other separators: both sides are JSON Lines.
    let (golden, ours): (Vec<&str>, Vec<&str>) = (golden.lines().collect(), out.lines().collect());
    assert_eq!((golden.len(), ours.len()), (1530, 1530));
    for (golden, ours) in
        golden.iter().map(|line| harness::parse(line)).zip(ours.iter().map(|line| harness::parse(line)))
    {
        for (official, name) in [("hotpot", "hotpotqa"), ("squad", "squad")] {
            for figure in ["em", "f1"] {
                let (theirs, ours) = (golden[official][figure].as_f64().unwrap(), ours[name][figure].as_f64().unwrap());
                assert!((theirs - ours).abs() <= 1e-12, "{name} {figure}: {ours} for {golden}");
            }
        }
        assert_eq!(ours["normalized"], golden["normalized"]);
    }
}
