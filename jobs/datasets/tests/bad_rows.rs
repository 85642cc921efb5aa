//! Wrong rows: their exact messages, and a quarantine that sets them aside and continues.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hopeval_datasets::{DatasetSpec, Format, Questions, RowError, RowPolicy, check_dataset};
use tempfile::TempDir;

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The message, with paths relative to the folder.
    fn message(&self, error: impl ToString) -> String {
        error.to_string().replace(&format!("{}/", self.folder.path().display()), "")
    }

    /// The first error of a dataset, read strictly.
    fn strict(&self, spec: &DatasetSpec) -> String {
        let error = match Questions::open(spec, RowPolicy::Strict) {
            Err(error) => error,
            Ok(mut questions) => {
                let error = questions.find_map(Result::err).expect("a bad row");
                assert!(questions.next().is_none(), "reading ends with the error");
                error
            }
        };
        self.message(error)
    }

    fn bad(&self, format: Format, text: impl AsRef<[u8]>) -> String {
        let path = self.write("f", text);
        self.strict(&DatasetSpec { format: Some(format), ..DatasetSpec::file(path) })
    }
}

#[test]
fn hotpotqa_rows() {
    let files = Files::new();
    let bad = |text: &str| files.bad(Format::HotpotQa, text);
    assert_eq!(
        bad("{\"_id\":\"a\",\"question\":\"q\",\"answer\":3}\n"),
        "f:1: record 1: field `answer`: found the number 3; allowed: a string"
    );
    assert_eq!(
        bad("{\"_id\":\"a\",\"question\":\"q\"}\n\n{\"question\":\"q\"}\n"),
        "f:3: record 2: field `id`: found nothing; allowed: this field is required"
    );
    assert_eq!(
        bad("[{\"_id\":\"a\"}]"),
        "f:1: record 1: field `question`: found nothing; allowed: this field is required"
    );
    assert_eq!(
        bad("[{\"_id\":\"a\",\"question\":\" \"}]"),
        "f:1: record 1: field `question`: found the string \" \"; allowed: a string that is not empty"
    );
    assert_eq!(
        bad(r#"[{"_id":"a","question":"q","context":[["T",["s"]],["U",["s",null]]]}]"#),
        "f:1: record 1: field `context[1][1][1]`: found null; allowed: a string"
    );
    assert_eq!(
        bad(r#"[{"_id":"a","question":"q","context":[["T"]]}]"#),
        "f:1: record 1: field `context[0]`: found a list of 1; allowed: a pair [title, [sentence, ...]]"
    );
    assert_eq!(
        bad(r#"[{"_id":"a","question":"q","supporting_facts":[["T",-1]]}]"#),
        "f:1: record 1: field `supporting_facts[0][1]`: found the number -1; allowed: a whole number from 0"
    );
    assert_eq!(
        bad(r#"[{"_id":"a","question":"q","supporting_facts":{"title":["T"],"sent_id":[0,1]}}]"#),
        "f:1: record 1: field `supporting_facts.sent_id`: found a list of 2; allowed: a list of 1, \
         like the columns before"
    );
    assert_eq!(bad("[1]"), "f:1: record 1: found the number 1; allowed: an object");
}

#[test]
fn rows_that_are_not_json() {
    let files = Files::new();
    assert_eq!(
        files.bad(Format::HotpotQa, "{\"_id\":\"a\",\"question\":\"q\"}\n{\"_id\":\"b\" \"question\":\"q\"}\n"),
        "f:2: record 2: found invalid JSON (expected `,` or `}`, column 12); allowed: one JSON value"
    );
    assert_eq!(
        files.bad(Format::HotpotQa, "{\"_id\":\"a\",\"question\":\"q"),
        "f:1: record 1: found invalid JSON (EOF while parsing a string, column 24); allowed: one JSON value"
    );
    assert_eq!(
        files.bad(Format::HotpotQa, b"{\"_id\":\"a\",\"question\":\"\xff\"}"),
        "f:1: record 1: found bytes that are not UTF-8 at byte 23 of the record; allowed: UTF-8"
    );
}

#[test]
fn two_wiki_rows() {
    let files = Files::new();
    assert_eq!(
        files.bad(Format::TwoWiki, r#"[{"_id":"a","question":"q","evidences":[["s","r"]]}]"#),
        "f:1: record 1: field `evidences[0]`: found a list of 2; allowed: a triple [subject, relation, object]"
    );
    assert_eq!(
        files.bad(Format::TwoWiki, r#"[{"_id":"a","question":"q","entity_ids":5}]"#),
        "f:1: record 1: field `entity_ids`: found the number 5; allowed: ids joined by `_`, or a list of ids"
    );
}

#[test]
fn musique_rows() {
    let files = Files::new();
    let row = |paragraphs: &str, decomposition: &str| {
        format!(
            r#"{{"id":"2hop__1_2","question":"q","paragraphs":{paragraphs},"question_decomposition":{decomposition}}}"#
        )
    };
    assert_eq!(
        files.bad(Format::Musique, row(r#"[{"idx":0,"title":"T","paragraph_text":["x"]}]"#, "[]")),
        "f:1: record 1: field `paragraphs[0].paragraph_text`: found a list of 1; allowed: a string"
    );
    assert_eq!(
        files.bad(
            Format::Musique,
            row(
                r#"{"idx":[4],"title":["T"],"paragraph_text":["x"]}"#,
                r#"[{"question":"s","paragraph_support_idx":0}]"#
            )
        ),
        "f:1: record 1: field `question_decomposition[0].paragraph_support_idx`: found the number 0; \
         allowed: the `idx` of one of the paragraphs, or null"
    );
    assert_eq!(
        files.bad(Format::Musique, row(r#"{"title":["T"],"paragraph_text":[7]}"#, "[]")),
        "f:1: record 1: field `paragraphs.paragraph_text[0]`: found the number 7; allowed: a string"
    );
}

#[test]
fn other_rows() {
    let files = Files::new();
    assert_eq!(
        files.bad(Format::StrategyQa, r#"[{"qid":"a","question":"q","answer":"yes"}]"#),
        "f:1: record 1: field `answer`: found the string \"yes\"; allowed: true or false"
    );
    assert_eq!(
        files.bad(Format::StrategyQa, r#"[{"qid":"a","question":"q","evidence":[[[5]]]}]"#),
        "f:1: record 1: field `evidence[0][0][0]`: found the number 5; \
         allowed: a paragraph id, `operation`, `no_evidence`, or a list of them"
    );
    assert_eq!(
        files
            .bad(Format::Iirc, r#"[{"title":"T","text":"x","questions":[{"question":"q","answer":{"type":"date"}}]}]"#),
        "f:1: record 1: field `questions[0].answer.type`: found the string \"date\"; \
         allowed: `span`, `binary`, `value`, `none` or `bad`"
    );
    assert_eq!(
        files.bad(Format::Nq, r#"{"question":"q","answers":[null]}"#),
        "f:1: record 1: field `answers[0]`: found null; allowed: a string"
    );
    assert_eq!(
        files.bad(Format::Nq, "q\t[\"a\"]\nr\ta\n"),
        "f:2: record 2: field `answers`: found \"a\"; allowed: a list of strings such as [\"a\", 'b']"
    );
    assert_eq!(
        files.bad(Format::FlashRag, r#"{"id":"a","question":"q","golden_answers":{}}"#),
        "f:1: record 1: field `golden_answers`: found an object; allowed: a string, or a list of strings"
    );
    assert_eq!(
        files.bad(Format::World, r#"{"id":"a","text":"q","gold":[{"id":"p"}],"gold_sets":[[0,1]]}"#),
        "f:1: record 1: field `gold_sets[0][1]`: found the number 1; allowed: an index into `gold`, which has 1"
    );
    assert_eq!(
        files.bad(Format::World, r#"{"id":"a","text":"q","candidates":[{"title":"T","text":"é","sentences":[1]}]}"#),
        "f:1: record 1: field `candidates[0]`: found offsets of sentences or links that do not fit `text`; \
         allowed: ascending byte offsets of characters in `text`"
    );
}

#[test]
fn repeated_ids_name_both_rows() {
    let files = Files::new();
    let row = |id: &str| format!("{{\"_id\":\"{id}\",\"question\":\"q\",\"gold_titles\":[]}}\n");
    let first = files.write("first.json", row("a") + &row("b"));
    let second = files.write("second.json", row("c") + "\n" + &row("b"));
    let spec = DatasetSpec { paths: vec![first, second], ..DatasetSpec::default() };
    assert_eq!(
        files.strict(&spec),
        "second.json:3: record 2: field `id`: found \"b\", which first.json:2 (record 2) has too; \
         allowed: an id that no other row has"
    );
    // A limit before the repeat never sees it.
    let questions = Questions::open(&DatasetSpec { limit: Some(3), ..spec }, RowPolicy::Strict).unwrap();
    assert_eq!(questions.map(|question| question.unwrap().id).collect::<Vec<_>>(), ["a", "b", "c"]);
}

/// MuSiQue-Full has each id twice, once answerable. Other repeats are errors, as everywhere.
#[test]
fn repeated_ids_of_musique_are_errors_but_for_its_pairs() {
    let files = Files::new();
    let row = |id: &str, text: &str, more: &str| {
        let paragraphs = format!(r#"[{{"title":"T","paragraph_text":"{text}"}}]"#);
        format!("{{\"id\":\"{id}\",\"question\":\"q\",\"paragraphs\":{paragraphs}{more}}}\n")
    };
    let bad = |rows: &[String]| files.bad(Format::Musique, rows.concat());
    let (yes, no) = (r#","answer":"a","answerable":true"#, r#","answer":"a","answerable":false"#);
    let again = "f:3: record 3: field `id`: found \"2hop__1_2\", which f:1 (record 1) has too; \
                 allowed: an id that no other row has";
    assert_eq!(bad(&[row("2hop__1_2", "x", yes), row("2hop__1_2", "y", no), row("2hop__1_2", "y", yes)]), again);
    assert_eq!(bad(&[row("2hop__1_2", "x", ""), row("2hop__1_2", "y", ""), row("2hop__1_2", "x", "")]), again);
    assert_eq!(
        bad(&[row("2hop__1_2", "x", ""), row("2hop__1_2", "y", ""), row("2hop__1_2", "z", "")]),
        "f:3: record 3: field `id`: found \"2hop__1_2__second\", which f:2 (record 2) has too; \
         allowed: an id that no other row has"
    );
    // Without `answerable`, only rows without answers are of Full's test set.
    let answered = r#","answer":"a""#;
    assert_eq!(
        bad(&[row("2hop__1_2", "x", answered), row("2hop__1_2", "y", answered)]),
        "f:2: record 2: field `id`: found \"2hop__1_2\", which f:1 (record 1) has too; \
         allowed: an id that no other row has"
    );
    assert_eq!(
        bad(&[row("2hop__1_2__second", "x", yes)]),
        "f:1: record 1: field `id`: found \"2hop__1_2__second\"; \
         allowed: an official id: hopeval itself marks questions by `__unanswerable` and `__second`"
    );
}

#[test]
fn quarantine_sets_rows_aside_and_counts_them() {
    let files = Files::new();
    let text = "{\"id\":\"1\",\"question\":\"q\",\"answers\":[\"a\"]}\n\
                {\"id\":\"2\",\"question\":\"q\",\"answers\":[[7]]}\n\
                not json\n\
                {\"id\":\"1\",\"question\":\"r\",\"answers\":[\"a\"]}\n\
                {\"id\":\"3\",\"question\":\"yes?\",\"answers\":[\"yes\"]}\n";
    let path = files.write("f.jsonl", text);
    let aside: Arc<Mutex<Vec<(RowError, String)>>> = Arc::default();
    let sink = Arc::clone(&aside);
    let policy = RowPolicy::Quarantine(Box::new(move |row| sink.lock().unwrap().push((row.error, row.raw))));
    let mut questions = Questions::open(&DatasetSpec::file(&path), policy).unwrap();
    let ids: Vec<String> = questions.by_ref().map(|question| question.unwrap().id).collect();
    assert_eq!(ids, ["1", "3"]);
    assert_eq!((questions.quarantined(), questions.rows()), (3, 5));
    let aside = aside.lock().unwrap();
    let rows: Vec<&str> = aside.iter().map(|(_, raw)| raw.as_str()).collect();
    assert_eq!(rows, text.lines().skip(1).take(3).collect::<Vec<_>>());
    assert_eq!(aside.iter().map(|(error, _)| error.position.line).collect::<Vec<_>>(), [2, 3, 4]);

    let report = check_dataset(&DatasetSpec::file(&path)).unwrap();
    assert_eq!((report.rows, report.questions, report.bad_rows, report.yes_no), (5, 2, 3, 1));
    assert_eq!(report.first_errors.len(), 3);
    let shown = files.message(&report);
    assert!(shown.contains("| format | nq (found by content) |"), "{shown}");
    assert!(shown.contains("| rows | 5, of which 3 bad |"), "{shown}");
    assert!(
        shown.contains("* f.jsonl:2: record 2: field `answers[0]`: found a list of 1; allowed: a string"),
        "{shown}"
    );
}

#[test]
fn ids_made_of_positions_do_not_depend_on_the_policy() {
    let files = Files::new();
    let path = files.write("f", "{\"question\":\"q\",\"answers\":[]}\n{}\n{\"question\":\"r\",\"answers\":[]}\n");
    let spec = DatasetSpec { format: Some(Format::TriviaQa), ..DatasetSpec::file(path) };
    let questions = Questions::open(&spec, RowPolicy::Quarantine(Box::new(|_| {}))).unwrap();
    assert_eq!(questions.map(|question| question.unwrap().id).collect::<Vec<_>>(), ["triviaqa-0", "triviaqa-2"]);
}

#[test]
fn unknown_formats_list_what_is_allowed() {
    let files = Files::new();
    let allowed = Format::ALL.map(Format::name).join(", ");
    let first = "hotpotqa, 2wikimultihopqa, musique, strategyqa, iirc, nq, triviaqa, flashrag, beir, world, fields";
    assert!(allowed.starts_with(first), "{allowed}: a new format comes last");
    assert_eq!(
        "hotpot".parse::<Format>().unwrap_err().to_string(),
        format!("unknown dataset format \"hotpot\"; allowed: {allowed}")
    );
    let path = files.write("odd.jsonl", "{\"chunk\":1,\"tag\":2}\n");
    assert_eq!(
        files.strict(&DatasetSpec::file(path)),
        format!(
            "odd.jsonl: cannot tell the dataset's format from a row with the fields chunk, tag; \
             allowed: rows of {allowed}\n\
             hint: [dataset.fields] in a job, or --field NAME=PATH, maps other names"
        )
    );
    assert_eq!(
        files.strict(&DatasetSpec::default()),
        "a dataset needs at least one file; allowed: a list of files, or a BEIR folder"
    );
}

#[test]
fn judgements() {
    let files = Files::new();
    files.write("beir/queries.jsonl", "{\"_id\":\"q1\",\"text\":\"one\"}\n{\"_id\":\"q2\",\"text\":\"two\"}\n");
    let header = "query-id\tcorpus-id\tscore\n";
    let spec = DatasetSpec::file(files.folder.path().join("beir"));
    assert_eq!(
        files.strict(&spec),
        "beir/qrels: no judgements (*.tsv); allowed: a folder with queries.jsonl and qrels/test.tsv \
         (or one other split), or the files queries.jsonl and SPLIT.tsv"
    );
    files.write("beir/qrels/test.tsv", format!("{header}q1\td1\tone\n"));
    assert_eq!(
        files.strict(&spec),
        "beir/qrels/test.tsv:2: record 2: field `score`: found \"one\"; allowed: a whole number"
    );
    files.write("beir/qrels/test.tsv", format!("{header}q1\td1\t1\nq3\td1\t1\n"));
    assert_eq!(
        files.strict(&spec),
        "beir/qrels/test.tsv:3: record 3: field `query-id`: found \"q3\"; \
         allowed: the `_id` of a query in the queries file"
    );
}
