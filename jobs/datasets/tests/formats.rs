//! Every schema of every dataset, from rows written here: the result of each field.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::fs;
use std::path::PathBuf;

use hopeval_datasets::{
    DatasetSpec, Format, GoldPassage, LinkRecord, PassageRecord, Question, Questions, RowPolicy, SubQuestion,
    detect_format, musique_official_id,
};
use tempfile::TempDir;

/// The questions of a file with this text. The format must be detected from its content.
fn read(format: Format, name: &str, text: &str) -> Vec<Question> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    assert_eq!(detect_format(&path).unwrap(), format, "{text}");
    Questions::open(&DatasetSpec::file(path), RowPolicy::Strict).unwrap().map(|question| question.unwrap()).collect()
}

fn one(format: Format, text: &str) -> Question {
    let mut questions = read(format, "file.json", text);
    assert_eq!(questions.len(), 1);
    questions.remove(0)
}

fn titles(question: &Question) -> Vec<&str> {
    question.gold.iter().filter_map(|gold| gold.title.as_deref()).collect()
}

const HOTPOT: &str = r#"[{"_id":"5a","question":"Which?","answer":"B","type":"bridge","level":"hard",
    "supporting_facts":[["U",1],["T",0],["U",0]],"context":[["T",["One."," Two."]],["U",["Three."," Four."]],["V",[]]]}]"#;

#[test]
fn hotpotqa_official_and_by_columns_are_one() {
    let official = one(Format::HotpotQa, HOTPOT);
    let columns = one(
        Format::HotpotQa,
        r#"{"id":"5a","question":"Which?","answer":"B","type":"bridge","level":"hard",
            "supporting_facts":{"title":["U","T","U"],"sent_id":[1,0,0]},
            "context":{"title":["T","U","V"],"sentences":[["One."," Two."],["Three."," Four."],[]]}}"#,
    );
    assert_eq!(official, columns);
    assert_eq!(titles(&official), ["U", "T"]);
    assert_eq!(official.gold[0].text.as_deref(), Some("Three. Four."));
    assert_eq!(official.supporting_facts[0], ("U".to_owned(), 1));
    assert_eq!(official.hops, Some(2));
    assert_eq!(official.candidates[2], PassageRecord { title: "V".into(), ..PassageRecord::default() });
}

#[test]
fn hotpotqa_test_sets_have_no_answer() {
    let question = one(Format::HotpotQa, r#"[{"_id":"5a","question":"Which?","context":[["T",["One."]]]}]"#);
    assert!(question.answers.is_empty() && question.gold.is_empty() && question.hops.is_none());
}

#[test]
fn fullwiki_may_lack_a_gold_passage() {
    let text = HOTPOT.replace(r#"["U",["Three."," Four."]],"#, "");
    let question = one(Format::HotpotQa, &text);
    assert_eq!(titles(&question), ["U", "T"]);
    assert_eq!((question.gold[0].text.as_deref(), question.gold[1].text.as_deref()), (None, Some("One. Two.")));
}

#[test]
fn two_wiki_nested_or_as_text_is_one() {
    let official = one(
        Format::TwoWiki,
        r#"[{"_id":"9","type":"inference","question":"Who?","context":[["T",["One.","Two."]]],"entity_ids":"Q1_Q2",
            "supporting_facts":[["T",0]],"evidences":[["a","child","b"]],"evidences_id":[],"answer":"b","answer_id":"Q2"}]"#,
    );
    let text = one(
        Format::TwoWiki,
        r#"{"_id":"9","type":"inference","question":"Who?","context":"[[\"T\",[\"One.\",\"Two.\"]]]","entity_ids":["Q1","Q2"],
            "supporting_facts":"[[\"T\",0]]","evidences":"[[\"a\",\"child\",\"b\"]]","answer":"b","answer_id":"Q2"}"#,
    );
    assert_eq!(official, text);
    assert_eq!(official.candidates[0].text, "One. Two.");
    assert_eq!(official.candidates[0].sentences, [4, 9]);
    assert_eq!(official.evidences, [["a", "child", "b"]]);
    assert_eq!(official.answer_id.as_deref(), Some("Q2"));
}

#[test]
fn musique_by_rows_and_by_columns_is_one() {
    let rows = one(
        Format::Musique,
        r##"{"id":"3hop1__7_8_9","question":"Who?","answer":"C","answer_aliases":["c","C"],"answerable":true,
            "paragraphs":[{"idx":5,"title":"T","paragraph_text":"t","is_supporting":true},
                          {"idx":6,"title":"U","paragraph_text":"u","is_supporting":false},
                          {"idx":7,"title":"V","paragraph_text":"v","is_supporting":true}],
            "question_decomposition":[{"id":7,"question":"A?","answer":"B","paragraph_support_idx":7},
                                      {"id":8,"question":"#1 >> x","answer":"C","paragraph_support_idx":null}]}"##,
    );
    let columns = one(
        Format::Musique,
        r##"{"id":"3hop1__7_8_9","question":"Who?","answer":"C","answer_aliases":["c","C"],"answerable":true,
            "paragraphs":{"idx":[5,6,7],"title":["T","U","V"],"paragraph_text":["t","u","v"],"is_supporting":[true,false,true]},
            "question_decomposition":{"id":[7,8],"question":["A?","#1 >> x"],"answer":["B","C"],"paragraph_support_idx":[7,null]}}"##,
    );
    assert_eq!(rows, columns);
    assert_eq!(rows.answers, ["C", "c"]);
    assert_eq!(titles(&rows), ["V", "T"]);
    assert_eq!(rows.decomposition[0].support, Some(2));
    assert_eq!((rows.kind.as_deref(), rows.hops), (Some("3hop1"), Some(2)));
}

#[test]
fn musique_test_rows_tell_hops_by_their_id() {
    let text = r#"{"id":"4hop3__1_2_3_4","question":"Who?","paragraphs":[{"idx":0,"title":"T","paragraph_text":"t"}]}"#;
    let question = one(Format::Musique, text);
    assert_eq!((question.hops, question.gold.len(), question.answerable), (Some(4), 0, None));
}

/// Rows of MuSiQue-Full: the paragraph with the answer, or another one in its place. Test rows have no labels.
fn full_row(id: &str, answerable: Option<bool>, last: &str) -> String {
    let labels = answerable.map_or(String::new(), |answerable| {
        format!(
            r##","answer":"Rome","answer_aliases":["Roma"],"answerable":{answerable},"question_decomposition":[
            {{"id":1,"question":"Who?","answer":"Ann","paragraph_support_idx":0}},
            {{"id":2,"question":"Where was #1 born?","answer":"Rome","paragraph_support_idx":{}}}]"##,
            if answerable { "1" } else { "null" }
        )
    });
    let paragraph = |idx: u32, title: &str, is: bool| {
        let supports = answerable.map_or(String::new(), |_| format!(r#","is_supporting":{is}"#));
        format!(r#"{{"idx":{idx},"title":"{title}","paragraph_text":"Of {title}."{supports}}}"#)
    };
    let paragraphs = [paragraph(0, "Film", true), paragraph(1, last, answerable == Some(true))].join(",");
    format!(r#"{{"id":"{id}","question":"Where?","paragraphs":[{paragraphs}]{labels}}}"#).replace('\n', "")
}

#[test]
fn musique_full_has_each_id_twice() {
    let rows = [
        full_row("2hop__1_2", Some(true), "Ann"),
        full_row("2hop__1_2", Some(false), "Sea"),
        full_row("2hop__3_4", Some(false), "Sea"),
        full_row("2hop__3_4", Some(true), "Ann"),
    ];
    let questions = read(Format::Musique, "musique_full_v1.0_dev.jsonl", &rows.join("\n"));
    let ids: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    assert_eq!(ids, ["2hop__1_2", "2hop__1_2__unanswerable", "2hop__3_4__unanswerable", "2hop__3_4"]);
    let official: Vec<&str> = ids.iter().map(|id| musique_official_id(id)).collect();
    assert_eq!(official, ["2hop__1_2", "2hop__1_2", "2hop__3_4", "2hop__3_4"]);
    let [answerable, unanswerable] = &questions[..2] else { panic!("two questions") };
    assert_eq!((answerable.answers.join("|").as_str(), titles(answerable)), ("Rome|Roma", vec!["Film", "Ann"]));
    assert!(answerable.strata.is_empty() && answerable.answerable == Some(true));
    // The answer and a part of the support stand in the row, and are gold of nothing.
    assert!(unanswerable.answers.is_empty() && unanswerable.gold.is_empty());
    assert_eq!(unanswerable.answerable, Some(false));
    assert_eq!(unanswerable.strata, [("answerable".to_owned(), "false".to_owned())].into());
    assert_eq!(
        (unanswerable.kind.as_deref(), unanswerable.hops, unanswerable.candidates.len()),
        (Some("2hop"), Some(2), 2)
    );
    assert_eq!(unanswerable.decomposition[1].support, None);
}

#[test]
fn musique_full_s_test_rows_are_told_apart_by_their_paragraphs() {
    let rows = [("2hop__1_2", "Sea"), ("2hop__3_4", "Ann"), ("2hop__1_2", "Ann"), ("2hop__3_4", "Sea")];
    let rows = rows.map(|(id, last)| full_row(id, None, last));
    let questions = read(Format::Musique, "musique_full_v1.0_test.jsonl", &rows.join("\n"));
    let ids: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    assert_eq!(ids, ["2hop__1_2", "2hop__3_4", "2hop__1_2__second", "2hop__3_4__second"]);
    assert!(questions.iter().all(|question| question.answerable.is_none() && question.kind.as_deref() == Some("2hop")));
    assert_eq!(musique_official_id(ids[2]), "2hop__1_2");
}

#[test]
fn strategyqa_test_rows() {
    let question = one(Format::StrategyQa, r#"[{"qid":"a","question":"Can it?"}]"#);
    assert!(question.answers.is_empty() && question.gold.is_empty());
}

#[test]
fn iirc_official_rows_have_several_questions() {
    let text = r#"[{"pid":"p1","title":"Ä Intro","text":"Zoë saw Rome.\n","links":[{"target":"Rome","indices":[8,12]}],"questions":[
        {"qid":"q1","question":"Where?","answer":{"type":"span","answer_spans":[{"text":" Rome ","passage":"Rome"},{"text":"Bonn"}]},
         "question_links":["Rome"],"context":[{"passage":"main","text":"Zoë saw Rome."},{"passage":"Rome","text":"Rome is."},
                                               {"passage":"Rome","text":"It was."}]},
        {"question":"How long?","answer":{"type":"value","answer_value":" 3","answer_unit":"years"},"context":[]},
        {"qid":"q3","question":"Really?","answer":{"type":"binary","answer_value":"yes"}},
        {"qid":"q4","question":"Who?","answer":{"type":"none"}},
        {"qid":"q5","question":"?","answer":{"type":"bad"}}]}]"#;
    let questions = read(Format::Iirc, "dev.json", text);
    let ids: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    assert_eq!(ids, ["q1", "p1-1", "q3", "q4"]);
    let answers: Vec<&str> = questions.iter().map(|question| question.answers[0].as_str()).collect();
    assert_eq!(answers, [r#"["Rome", "Bonn"]"#, "3", "yes", "none"]);
    assert_eq!(questions[0].answer_spans, ["Rome", "Bonn"]);
    assert_eq!(questions[1].notes["answer_unit"], "years");
    assert_eq!(questions[3].answerable, Some(false));
    assert_eq!(questions[0].gold.len(), 1);
    assert_eq!(questions[0].gold[0].text.as_deref(), Some("Rome is.\nIt was."));
    assert_eq!(questions[0].gold[0].snippets, ["Rome is.", "It was."]);
    let context = questions[0].context.as_ref().unwrap();
    assert_eq!(context.text, "Zoë saw Rome.");
    // Character indices 8..12 are bytes 9..13 behind the `ë`.
    assert_eq!(context.links, Some(vec![LinkRecord { title: "Rome".into(), start: 9, end: 13 }]));
}

/// A number comes before spans, every answer of the list is right, and several spans are one answer.
#[test]
fn iirc_pipeline_rows_have_answers_of_drop() {
    let row = |kind: &str, answers: &str| {
        let qa = format!(r#"{{"gold_answer_type":"{kind}","gold_answer":{answers}}}"#);
        format!(r#"{{"question":"Who?","original_paragraph":"Text.","qa":{qa}}}"#)
    };
    let text = [
        row("spans", r#"[{"number":"","spans":["The \"Bear\", a film","B "]},{"number":"","spans":["C"]}]"#),
        row("number", r#"[{"number":"4","spans":["four"]}]"#),
        row("none", r#"[{"number":"","spans":[]}]"#),
        row("none", "[]"),
    ];
    let questions = read(Format::Iirc, "dev.jsonl", &text.join("\n"));
    let answers: Vec<Vec<&str>> =
        questions.iter().map(|question| question.answers.iter().map(String::as_str).collect()).collect();
    assert_eq!(answers, [vec![r#"["The \"Bear\", a film", "B "]"#, "C"], vec!["4"], vec!["none"], vec!["none"]]);
    assert_eq!(questions[0].answer_spans, ["The \"Bear\", a film", "B "]);
    let answerable: Vec<Option<bool>> = questions.iter().map(|question| question.answerable).collect();
    assert_eq!(answerable, [Some(true), Some(true), Some(false), Some(false)]);
}

#[test]
fn open_questions_in_every_dress() {
    let nq = r#"{"question":"q","answer":["a","b"]}
{"question":"r","answer":"['a', \"it's\"]"}
{"question":"s","answer":"[sic] a"}
{"dataset":"nq","question":"t","answers":["a"],"positive_ctxs":[{"title":"T","text":"x","passage_id":"7"}],"ctxs":[{"id":"8","title":"U","text":"y"}]}
"#;
    let questions = read(Format::Nq, "dev.json", nq);
    let answers: Vec<String> = questions.iter().map(|question| question.answers.join("|")).collect();
    assert_eq!(answers, ["a|b", "a|it's", "[sic] a", "a"]);
    assert_eq!(questions[3].id, "nq-3");
    assert_eq!(questions[3].gold[0].id.as_deref(), Some("7"));
    assert_eq!(questions[3].candidates[0].id.as_deref(), Some("8"));

    let trivia =
        r#"{"Data":[{"QuestionId":"tc_1","Question":"q","Answer":{"Value":"A","Aliases":["a","A"]}}],"Version":1}"#;
    let question = one(Format::TriviaQa, trivia);
    let verified = trivia.replace(r#""Aliases""#, r#""HumanAnswers":["a","the A"],"Aliases""#);
    assert_eq!(one(Format::TriviaQa, &verified).answers, ["A", "a", "the A"]);
    assert_eq!((question.id.as_str(), question.answers.join("|").as_str()), ("tc_1", "A|a"));
    let lower = r#"{"question_id":"tc_1","question":"q","answer":{"value":"A","aliases":["a","A"]}}"#;
    assert_eq!(one(Format::TriviaQa, lower), question);
}

#[test]
fn dpr_tables() {
    let table = "what is \"x\"?\t[\"a\", 'b']\n\"he said \"\"y\"\"\"\t['c']\n";
    let questions = read(Format::Nq, "nq-dev.qa.csv", table);
    let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
    assert_eq!(texts, ["what is \"x\"?", "he said \"y\""]);
    assert_eq!(questions[0].answers, ["a", "b"]);
    assert_eq!(questions[1].id, "nq-1");
    let headed = read(Format::TriviaQa, "trivia.tsv", &format!("question\tanswers\n{table}"));
    assert_eq!(headed.len(), 2);
    assert_eq!(headed[0].id, "triviaqa-0");
}

#[test]
fn flashrag_rows() {
    let question = one(
        Format::FlashRag,
        r#"{"id":"dev_0","question":"q","golden_answers":["a"],"metadata":{"type":"bridge","level":"hard","n":3,
            "supporting_facts":{"title":["T"],"sent_id":[1]},"context":{"title":["T"],"sentences":[["One.","Two."]]}}}"#,
    );
    assert_eq!((question.kind.as_deref(), question.level.as_deref()), (Some("bridge"), Some("hard")));
    assert_eq!(titles(&question), ["T"]);
    assert_eq!(question.candidates[0].text, "One. Two.");
    assert_eq!(question.notes.iter().collect::<Vec<_>>(), [(&"n".to_owned(), &"3".to_owned())]);
    let literal = one(Format::FlashRag, r#"{"id":"dev_0","question":"q","golden_answers":"['a', 'b']"}"#);
    assert_eq!(literal.answers, ["a", "b"]);
    let boolean = one(Format::FlashRag, r#"{"id":0,"question":"q","golden_answers":[true]}"#);
    assert_eq!((boolean.id.as_str(), boolean.answers[0].as_str()), ("0", "yes"));
}

#[test]
fn beir_folders_and_files() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    let queries = write(
        "queries.jsonl",
        "{\"_id\":\"q1\",\"text\":\"one\",\"metadata\":{\"answer\":\"yes\",\"type\":\"bridge\"}}\n\
         {\"_id\":\"q2\",\"text\":\"two\"}\n{\"_id\":\"q3\",\"text\":\"three\"}\n",
    );
    write("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq3\td1\t1\nq3\td2\t2\nq3\td3\t0\nq1\td4\t1\nq3\td1\t1\n");
    let train = write("qrels/train.tsv", "q2 0 d9 1\n");
    let read = |paths: Vec<PathBuf>| -> Vec<Question> {
        let questions = Questions::open(&DatasetSpec { paths, ..DatasetSpec::default() }, RowPolicy::Strict).unwrap();
        assert_eq!(questions.format(), Format::Beir);
        questions.map(|question| question.unwrap()).collect()
    };
    let test = read(vec![folder.path().to_owned()]);
    assert_eq!(test.iter().map(|question| question.id.as_str()).collect::<Vec<_>>(), ["q1", "q3"]);
    assert_eq!((test[0].answers.join("|").as_str(), test[0].kind.as_deref()), ("yes", Some("bridge")));
    let graded: Vec<(&str, u32)> = test[1].gold.iter().map(|gold| (gold.id.as_deref().unwrap(), gold.grade)).collect();
    assert_eq!(graded, [("d2", 2), ("d1", 1)]);
    let train = read(vec![queries.clone(), train]);
    assert_eq!(train.iter().map(|question| question.id.as_str()).collect::<Vec<_>>(), ["q2"]);
    // A first judgement that is wrong is no header.
    for first in ["q2\td9\t1.5", "q2\td9\t"] {
        let bad = write("qrels/bad.tsv", &format!("{first}\nq1\td4\t1\n"));
        let spec = DatasetSpec { paths: vec![queries.clone(), bad], ..DatasetSpec::default() };
        let Err(error) = Questions::open(&spec, RowPolicy::Strict) else { panic!("{first} is taken for a header") };
        let error = error.to_string();
        assert!(error.contains("bad.tsv:1"), "{error}");
    }
}

/// The world's format is the model itself: what serde writes, the reader reads.
#[test]
fn world_rows_are_the_model() {
    let passage = PassageRecord {
        id: Some("p".into()),
        links: Some(vec![LinkRecord { title: "U".into(), start: 0, end: 3 }]),
        ..PassageRecord::from_sentences("T".into(), &["One.", "Two."], " ")
    };
    let full = Question {
        id: "w1".into(),
        text: "Who\u{2028}?".into(),
        answers: vec!["a".into(), "b".into()],
        answer_spans: vec!["a".into()],
        answer_id: Some("e1".into()),
        answer_kind: Some("span".into()),
        answerable: Some(true),
        gold: vec![GoldPassage { id: Some("p".into()), title: Some("T".into()), grade: 2, ..GoldPassage::default() }],
        gold_sets: vec![vec![0]],
        candidates: vec![passage.clone()],
        supporting_facts: vec![("T".into(), 1)],
        evidences: vec![["s".into(), "r".into(), "o".into()]],
        evidences_id: vec![["1".into(), "2".into(), "3".into()]],
        entity_ids: vec!["e1".into()],
        decomposition: vec![SubQuestion {
            question: "#1?".into(),
            answer: Some("x".into()),
            support: Some(0),
            evidence: vec!["p".into()],
        }],
        facts: vec!["f".into()],
        rationale: Some("so".into()),
        kind: Some("bridge".into()),
        level: Some("hard".into()),
        hops: Some(2),
        strata: [("held_out".to_owned(), "relation".to_owned())].into(),
        context: Some(passage),
        links: vec!["U".into()],
        notes: [("n".to_owned(), "1".to_owned())].into(),
    };
    let sparse = Question { id: "w2".into(), text: "q".into(), ..Question::default() };
    let lines: Vec<String> = [&full, &sparse].map(|question| serde_json::to_string(question).unwrap()).into();
    assert_eq!(read(Format::World, "world.jsonl", &lines.join("\n")), [full.clone(), sparse]);
    assert_eq!(serde_json::from_str::<Question>(&lines[0]).unwrap(), full);
}

/// A passage that is judged not relevant is no gold: a file that lists it as gold says what it does not mean.
#[test]
fn gold_of_grade_0_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("world.jsonl");
    for (grade, found) in [("0", "0"), ("-1", "-1"), ("1.5", "1.5"), ("\"high\"", "high")] {
        let gold = format!("{{\"id\":\"p\",\"grade\":1}},{{\"id\":\"o\",\"grade\":{grade}}}");
        fs::write(&path, format!("{{\"id\":\"w\",\"text\":\"q\",\"gold\":[{gold}]}}\n")).unwrap();
        let format = Some(Format::World);
        let spec = DatasetSpec { format, paths: vec![path.clone()], ..DatasetSpec::default() };
        let error = Questions::open(&spec, RowPolicy::Strict).and_then(|mut questions| questions.next().unwrap());
        let error = error.unwrap_err().to_string();
        for part in ["world.jsonl:1", "gold[1].grade", found, "at least 1"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
