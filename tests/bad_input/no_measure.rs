//! A run that would measure nothing is refused: over all formats, and over all formats that are named wrongly.

use super::*;

/// A file of one dataset format over the corpus of `tiny`, as small as it gets: its name, and its text.
fn smallest_datasets() -> Vec<(&'static str, String)> {
    let row = |value: Value| lines(&[value]);
    let context = json!([["Film 0", ["Film 0 is a film directed by Person 0."]]]);
    let question = "Who directed Film 0?";
    let hotpot = json!({"_id": "h", "question": question, "answer": "Person 0", "context": context,
                        "supporting_facts": [["Film 0", 0]]});
    let mut two_wiki = hotpot.clone();
    two_wiki["evidences"] = json!([["Film 0", "director", "Person 0"]]);
    let paragraph = json!({"idx": 0, "title": "Film 0", "paragraph_text": "Film 0 is a film directed by Person 0.",
                           "is_supporting": true});
    vec![
        ("hotpotqa", row(hotpot)),
        ("2wikimultihopqa", row(two_wiki)),
        ("musique", row(json!({"id": "m", "question": question, "answer": "Person 0", "paragraphs": [paragraph]}))),
        ("strategyqa", row(json!({"qid": "s", "question": question, "answer": true, "evidence": [[[["Film 0-1"]]]]}))),
        (
            "iirc",
            row(json!({"pid": "i", "title": "T", "text": "A text.", "links": [], "questions": [{
                "qid": "i0", "question": question,
                "context": [{"passage": "Film 0", "text": "directed", "indices": [0, 1]}],
                "answer": {"type": "span", "answer_spans": [{"text": "Person 0"}]},
            }]})),
        ),
        ("nq", row(json!({"id": "n", "question": question, "answer": ["Person 0"]}))),
        ("triviaqa", row(json!({"QuestionId": "t", "Question": question, "Answer": {"Value": "Person 0"}}))),
        ("flashrag", row(json!({"id": "f", "question": question, "golden_answers": ["Person 0"]}))),
        ("beir", row(json!({"_id": "b", "text": question}))),
        ("world", row(json!({"id": "w", "text": question, "answers": ["Person 0"], "gold": [{"id": "Film 0-1"}]}))),
    ]
}

const RETRIEVAL: &str = r#"name = "formats"
[corpus]
source = "named.jsonl"
[service.sparse]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "sparse"
"#;

/// Of each format's file, the names under which a run measures something. NQ and TriviaQA need no more than a question
/// and its answers. FlashRAG's questions have no gold passages, BEIR's no judgements here.
const MEASURED: [(&str, &[&str]); 10] = [
    ("hotpotqa", &["hotpotqa", "2wikimultihopqa", "nq", "triviaqa"]),
    ("2wikimultihopqa", &["hotpotqa", "2wikimultihopqa", "nq", "triviaqa"]),
    ("musique", &["musique", "nq", "triviaqa"]),
    ("strategyqa", &["strategyqa", "nq", "triviaqa"]),
    ("iirc", &["iirc"]),
    ("nq", &["nq", "triviaqa"]),
    ("triviaqa", &["nq", "triviaqa"]),
    ("flashrag", &[]),
    ("beir", &[]),
    ("world", &["world"]),
];

/// Ten formats under each of their names: a run measures something, or is refused.
#[test]
fn no_format_gives_an_empty_table() {
    let dir = tempfile::tempdir().unwrap();
    let mut corpus = passages();
    for (n, passage) in corpus.iter_mut().enumerate() {
        passage["id"] = json!(format!("p{n}"));
    }
    corpus[0]["id"] = json!("Film 0-1");
    std::fs::write(dir.path().join("named.jsonl"), lines(&corpus)).unwrap();
    let datasets = smallest_datasets();
    let mut found = Vec::new();
    for (of, text) in &datasets {
        let mut measured = Vec::new();
        std::fs::write(dir.path().join("questions.jsonl"), text).unwrap();
        for (named, _) in &datasets {
            // IIRC names its gold by title.
            let gold = if *named == "iirc" { "gold = \"title\"\n" } else { "" };
            let dataset = format!("[dataset]\nformat = \"{named}\"\nquestions = \"questions.jsonl\"\n{gold}");
            std::fs::write(dir.path().join("job.toml"), format!("{RETRIEVAL}{dataset}")).unwrap();
            let output = run(&mut hopeval(dir.path(), &["run", "job.toml", "--store", "store", "--json"]));
            if output.status.code() == Some(2) {
                refused(&output, &[]);
                continue;
            }
            assert_eq!(output.status.code(), Some(0), "{of} as {named}");
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            let figures = document["measures"].as_array().unwrap();
            assert!(figures.iter().any(|row| row["n"] != 0), "{of} as {named} measures nothing");
            measured.push(*named);
        }
        found.push((*of, measured));
    }
    assert_eq!(found, MEASURED.map(|(of, named)| (of, named.to_vec())));
}

#[test]
fn a_run_without_any_measure_says_why() {
    let bench = Bench::new();
    for (name, text) in smallest_datasets() {
        bench.write(&format!("{name}.jsonl"), text);
    }
    bench.write("retrieval.toml", RETRIEVAL.replace("named.jsonl", "corpus.jsonl") + "[dataset]\nquestions = \"\"\n");
    let run_of = |name: &str, format: &str| {
        let questions = format!("dataset.questions={name}.jsonl");
        let mut command = bench.command(&["run", "retrieval.toml", "--set", &questions]);
        if !format.is_empty() {
            command.args(["--set", &format!("dataset.format={format}")]);
        }
        command
    };
    let says = [
        "musique.jsonl: no measure is defined for any question: of 1 questions, read as hotpotqa, 1 have answers and \
         0 gold passages; the configurations give rankings; fields not read: paragraphs\n",
        "hint: the first row is of musique: leave `format` out of [dataset]",
    ];
    bench.refuses(&mut run_of("musique", "hotpotqa"), &says);
    let says = ["read as flashrag, 1 have answers and 0 gold passages", "hint: `answer_hit_at = [10]` in [measures]"];
    bench.refuses(&mut run_of("flashrag", ""), &says);
    bench.refuses(&mut run_of("beir", ""), &["0 have answers and 0 gold passages", "hint: `hopeval data check`"]);

    let checked = succeed(&mut bench.command(&["data", "check", "musique.jsonl", "--format", "hotpotqa"]));
    assert!(checked.contains("| format | hotpotqa (as named, but the first row is of musique) |"), "{checked}");
    assert!(checked.contains("| fields not read | paragraphs 1 |"), "{checked}");

    let table = succeed(&mut run_of("nq", ""));
    assert!(table.contains("answer_hit@10"), "{table}");
    let table = succeed(&mut run_of("triviaqa", ""));
    assert!(table.contains("answer_hit@2"), "{table}");
}
