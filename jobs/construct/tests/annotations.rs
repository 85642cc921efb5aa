//! A language model's annotations: the method is driven with scripted answers, and its outcomes become rows.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "support/indexed_corpus.rs"]
mod indexed_corpus;

use hopeval_construct::{
    AnnotationOutcome, ConstructError, ConstructReport, ConstructSettings, FilterRow, QuestionRows, annotated_rows,
};
use hopeval_datasets::PassageRecord;
use hopeval_methods::response::{FinishReason, Generation, RetrievalHit};
use hopeval_methods::{
    Answer, AnswerWork, MachineStep, MethodSetting, Outcome, PassageId, Question, Request, RequestPayload, Response,
    build_method,
};
use indexed_corpus::IndexedCorpus;
use serde_json::{Value, json};

fn indexed() -> IndexedCorpus {
    let passage = |id: &str, title: &str, text: &str| PassageRecord {
        id: Some(id.to_owned()),
        ..PassageRecord::from_sentences(title.to_owned(), &[text], " ")
    };
    IndexedCorpus::from_passages([
        passage("film", "The Shining", "The Shining is a 1980 film, directed by Stanley Kubrick."),
        passage("man", "Stanley Kubrick", "Stanley Kubrick was born in New York."),
        passage("other", "Stephen King", "Stephen King wrote The Shining, and was born in Portland."),
        passage("far", "Ironville", "Ironville is a town."),
    ])
}

fn question() -> Question {
    Question {
        id: "q".to_owned(),
        text: "Where was the director of The Shining born?".to_owned(),
        gold: vec![vec![PassageId(0)], vec![PassageId(1)]],
        ..Question::default()
    }
}

fn generation(text: impl ToString) -> Response {
    let text = text.to_string();
    Response::answer(Answer::Generate(Generation::new(text, FinishReason::Stop)), AnswerWork::default())
}

/// Drives the method through its own prompts; `written` has the model's texts in the order of its requests.
fn annotate(parameters: &Value, question: &Question, written: &[Value]) -> Outcome {
    let method = build_method("efficientrag_data", parameters, &MethodSetting::of_corpus(4)).unwrap();
    let mut machine = method.start(question);
    let mut written = written.iter();
    let hits = [2, 0, 3, 1].map(|id| RetrievalHit { passage: PassageId(id), score: f64::from(10 - id) });
    let mut answer = |request: &Request| match &request.ask {
        RequestPayload::Generate(_) => generation(written.next().unwrap()),
        RequestPayload::Retrieve(_) => Response::answer(Answer::Retrieve(hits.to_vec()), AnswerWork::default()),
        other => panic!("asked for {}", other.kind().name()),
    };
    let mut responses = Vec::new();
    loop {
        match machine.step(std::mem::take(&mut responses)) {
            MachineStep::Ask(requests) => responses = requests.iter().map(&mut answer).collect(),
            MachineStep::Done(outcome) => return outcome,
        }
    }
}

fn made(
    outcome: &Outcome,
    settings: &ConstructSettings,
    report: &mut ConstructReport,
) -> Result<QuestionRows, ConstructError> {
    let message = outcome.status.message();
    let annotation = outcome.answer.as_deref();
    let ended = AnnotationOutcome { question: "q", status: outcome.status.name(), message, annotation };
    annotated_rows(&ended, &indexed().library(), settings, report)
}

fn two_hops() -> Value {
    json!({"decomposed_questions": {
        "1": {
            "sub_question": "Who directed The Shining?", "answer": "Stanley Kubrick", "dependency": [], "document": "1"
        },
        "2": {"sub_question": "Where was #1 born?", "answer": "New York", "dependency": ["1"], "document": "2"},
    }})
}

fn words(text: &str) -> Value {
    json!({ "extracted_words": text })
}

fn query(text: &str) -> Value {
    json!({ "filtered_query": text })
}

fn shown(row: &FilterRow) -> String {
    let words = row.query_info_tokens.iter().zip(&row.query_info_labels);
    words.map(|(word, kept)| if *kept { format!("[{word}]") } else { word.clone() }).collect::<Vec<_>>().join(" ")
}

const PARAMETERS: &str = r#"{"generator": "llm", "retriever": "bm25"}"#;

#[test]
fn what_a_model_says_becomes_rows() {
    let parameters: Value = serde_json::from_str(PARAMETERS).unwrap();
    let said = [
        two_hops(),
        words("The Shining directed by Kubrick Stanley"),
        words("Stanley Kubrick born New York City"),
        query("Where was born? Stanley Kubrick"),
    ];
    let outcome = annotate(&parameters, &question(), &said);
    assert_eq!((outcome.status.name(), outcome.iterations), ("ok", 2));
    let mut report = ConstructReport::default();
    let rows = made(&outcome, &ConstructSettings::default(), &mut report).unwrap();
    let labels: Vec<_> = rows
        .labeler
        .iter()
        .map(|row| (row.hop, row.question.as_str(), row.passage.as_str(), row.matched.as_str(), row.tag))
        .collect();
    let first = "Where was the director of The Shining born?";
    let second = "Where was born? Stanley Kubrick";
    assert_eq!(
        labels,
        [
            (0, first, "film", "The Shining directed by Stanley Kubrick", "<CONTINUE>"),
            (0, first, "other", "", "<TERMINATE>"),
            (1, second, "man", "Stanley Kubrick born New York", "<FINISH>"),
            (1, second, "other", "", "<TERMINATE>"),
        ]
    );
    let filters: Vec<String> = rows.filter.iter().map(shown).collect();
    let filter = "Query : [Where] [was] the director of The Shining [born] [?] Info : The Shining directed by \
                  [Stanley] [Kubrick]";
    assert_eq!(filters, [filter]);
    assert_eq!(rows.encoder.len(), 2);
    assert_eq!(rows.encoder[1].negatives.len(), 2, "what was found, less gold");
    assert!(rows.scorer.is_empty() && rows.reader.is_empty());
    assert_eq!((report.copied_words, report.copied_words_not_found), (18, 1), "`City` is not in the passage");
    assert_eq!(report.rows["labeler"], 4);
}

#[test]
fn what_does_not_parse_is_counted_by_its_stage() {
    let greedy: Value = serde_json::from_str(PARAMETERS).unwrap();
    let mut sampled = greedy.clone();
    sampled["temperature"] = json!(0.7);
    sampled["attempts"] = json!(2);
    let mut report = ConstructReport::default();
    let mut add = |outcome: &Outcome| made(outcome, &ConstructSettings::default(), &mut report).unwrap();
    let no = json!("Certainly!");
    let failed = [
        annotate(&greedy, &question(), std::slice::from_ref(&no)),
        annotate(&sampled, &question(), &[no.clone(), no.clone()]),
        annotate(&greedy, &question(), &[two_hops(), words("x"), no.clone()]),
        annotate(&greedy, &question(), &[two_hops(), words("x"), words("y"), query(" ")]),
        annotate(&greedy, &Question { gold: Vec::new(), ..question() }, &[]),
        Outcome::failed(Response::failure(hopeval_methods::FailureKind::TimedOut, "after: 60 s").result.unwrap_err()),
    ];
    for outcome in &failed {
        assert_eq!(add(outcome), QuestionRows::default());
    }
    let said = [no, two_hops(), words("Kubrick"), words("New York"), query("Where born?")];
    let good = annotate(&sampled, &question(), &said);
    assert_eq!(add(&good).labeler.len(), 4, "the second draw parses");
    assert_eq!(report.questions, 7);
    let skipped: Vec<(&str, u64)> = report.skipped.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(
        skipped,
        [
            ("parse_failure (decomposition)", 2),
            ("parse_failure (filtering)", 1),
            ("parse_failure (labelling)", 1),
            ("refused (passages)", 1),
            ("timed_out", 1),
        ]
    );
}

#[test]
fn a_bad_annotation_is_an_error_with_the_question() {
    let message = |annotation: Option<&str>| {
        let ended = AnnotationOutcome { question: "q7", status: "ok", message: None, annotation };
        let made = annotated_rows(
            &ended,
            &indexed().library(),
            &ConstructSettings::default(),
            &mut ConstructReport::default(),
        );
        let message = made.unwrap_err().to_string();
        assert!(message.starts_with("question `q7`: its outcome is no annotation"), "{message}");
        message
    };
    assert!(message(None).ends_with("there is none"));
    assert!(message(Some("Rome")).contains("expected value"));
    let step = |passage: u32, needs: &[u32]| {
        let (question, answer, words) = ("Q?", "A", "w");
        json!({"question": question, "answer": answer, "needs": needs, "passage": passage, "words": words})
    };
    let whole = |steps: &[Value], hops: usize| {
        let hop = json!({"query": "Q?", "found": []});
        json!({"steps": steps, "hops": vec![hop; hops]}).to_string()
    };
    assert!(message(Some(&whole(&[step(9, &[])], 1))).ends_with("passage 9 is not in the corpus"));
    assert!(message(Some(&whole(&[step(0, &[])], 2))).ends_with("2 hops for steps of 1"));
    assert!(message(Some(&whole(&[], 1))).ends_with("1 hops for steps of 0"));
    assert!(message(Some(&whole(&[step(0, &[0])], 1))).ends_with("step 1 needs one that is not before it"));
}
