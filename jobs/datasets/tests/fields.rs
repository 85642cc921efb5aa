//! Files of one's own, read by a mapping of fields: JSON, JSON Lines, CSV and TSV alike.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use hopeval_datasets::{
    DatasetSpec, FieldMapping, Format, GoldMatch, GoldPassage, PassageMapping, PassageSpec, Passages, Question,
    Questions, RowPolicy, check_dataset,
};
use tempfile::TempDir;

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The questions of `text`, or the first error, with paths relative to the folder.
    fn read(&self, text: &str, fields: &[(&str, &str)]) -> Result<Vec<Question>, String> {
        let path = self.write("f", text);
        let spec = DatasetSpec { fields: Some(mapping(fields)), ..DatasetSpec::file(path) };
        let questions = Questions::open(&spec, RowPolicy::Strict).map_err(|error| self.message(&error))?;
        questions.map(|question| question.map_err(|error| self.message(&error))).collect()
    }

    fn message(&self, error: &dyn Error) -> String {
        error.to_string().replace(&format!("{}/", self.folder.path().display()), "")
    }
}

fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, path)| (name.to_string(), path.to_string())).collect()
}

fn mapping(fields: &[(&str, &str)]) -> FieldMapping {
    FieldMapping::from_pairs(&pairs(fields)).unwrap()
}

fn by_title(title: &str) -> GoldPassage {
    GoldPassage { title: Some(title.to_owned()), ..GoldPassage::default() }
}

fn by_id(id: &str) -> GoldPassage {
    GoldPassage { id: Some(id.to_owned()), ..GoldPassage::default() }
}

/// The same two questions in every kind of file.
#[test]
fn kinds_of_files_give_the_same_questions() {
    let files = Files::new();
    let rows = [
        concat!(
            r#"{"qid": 7, "query": "Who, then?", "golds": ["Ada", "A. L."], "docs": ["d1", "d2"], "#,
            r#""meta": {"hops": 2}, "kind": "bridge"}"#
        ),
        r#"{"qid": 8, "query": "Where \"there\"?", "golds": ["Bath"], "docs": [], "meta": {}, "kind": null}"#,
    ];
    let csv = "qid,query,golds,docs,meta,kind\n\
               7,\"Who, then?\",\"['Ada', 'A. L.']\",\"[\"\"d1\"\", \"\"d2\"\"]\",\"{\"\"hops\"\": 2}\",bridge\n\
               8,\"Where \"\"there\"\"?\",Bath,,,\n";
    let tsv = "qid\tquery\tgolds\tdocs\tmeta.hops\tkind\n\
               7\tWho, then?\t[\"Ada\", \"A. L.\"]\t['d1', 'd2']\t2\tbridge\n\
               8\tWhere \"there\"?\tBath\t\t\t\n";
    let fields = [
        ("id", "qid"),
        ("question", "query"),
        ("answers", "golds"),
        ("gold_ids", "docs"),
        ("hops", "meta.hops"),
        ("type", "kind"),
    ];
    for (kind, text) in [
        ("array", format!("[{}]", rows.join(","))),
        ("lines", rows.join("\n")),
        ("csv", csv.to_owned()),
        ("tsv", tsv.to_owned()),
    ] {
        let questions = files.read(&text, &fields).unwrap();
        let [first, second] = questions.as_slice() else { panic!("{kind}: {} questions", questions.len()) };
        assert_eq!((first.id.as_str(), first.text.as_str(), first.hops), ("7", "Who, then?", Some(2)), "{kind}");
        assert_eq!(first.answers, ["Ada", "A. L."], "{kind}");
        assert_eq!(first.gold, [by_id("d1"), by_id("d2")], "{kind}");
        assert_eq!(first.kind.as_deref(), Some("bridge"), "{kind}");
        assert_eq!((second.id.as_str(), second.text.as_str(), second.hops), ("8", "Where \"there\"?", None), "{kind}");
        assert_eq!((second.answers.as_slice(), second.gold.len()), (["Bath".to_owned()].as_slice(), 0), "{kind}");
        assert_eq!(second.kind, None, "{kind}");
    }
}

#[test]
fn answers_are_texts_lists_and_aliases() {
    let files = Files::new();
    let answers = |value: &str| {
        let row = format!("{{\"question\": \"q\", \"a\": {value}}}\n{{\"question\": \"q\", \"a\": \"x\"}}");
        files.read(&row, &[("answers", "a")]).map(|questions| questions[0].answers.clone())
    };
    assert_eq!(answers("\"one\"").unwrap(), ["one"]);
    assert_eq!(answers("[\"one\", 2, true, \"\", \"one\"]").unwrap(), ["one", "2", "yes"]);
    assert_eq!(answers("[[\"one\", \"two\"], [\"three\"]]").unwrap(), ["one", "two", "three"]);
    assert_eq!(answers("\"[Foo] bar\"").unwrap(), ["[Foo] bar"]);
    assert_eq!(answers("null").unwrap(), [""; 0]);
    assert_eq!(answers("[{\"b\": 1}]").unwrap_err(), "f:1: record 1: field `a[0]`: found an object; allowed: a string");
    let squad = r#"{"question": "q", "answers": {"text": ["a", "b"], "answer_start": [1, 2]}}"#;
    assert_eq!(files.read(squad, &[("answers", "answers.text")]).unwrap()[0].answers, ["a", "b"]);
    let listed = r#"{"question": "q", "answers": [{"text": "a"}, {"text": "b"}]}"#;
    assert_eq!(files.read(listed, &[("answers", "answers.text")]).unwrap()[0].answers, ["a", "b"]);
}

#[test]
fn gold_is_ids_titles_or_objects() {
    let files = Files::new();
    let row = r#"{"question": "q", "g": [3, "d4"], "o": [{"id": "x", "title": "T"}, "y"],
                  "f": [["T", 0], ["U", 1], ["T", 2]],
                  "p": [{"t": "A", "x": "1"}, {"t": "B", "x": "2"}, {"t": "B", "x": "3"}]}"#;
    let gold = |fields: &[(&str, &str)]| files.read(row, fields).map(|questions| questions[0].gold.clone());
    assert_eq!(gold(&[("gold_ids", "g")]).unwrap(), [by_id("3"), by_id("d4")]);
    assert_eq!(gold(&[("gold", "g")]).unwrap(), [by_id("3"), by_id("d4")]);
    assert_eq!(gold(&[("gold", "o")]).unwrap(), [GoldPassage { id: Some("x".into()), ..by_title("T") }, by_id("y")]);
    // Titles that repeat are one passage, unless their texts differ.
    assert_eq!(gold(&[("gold_titles", "p.t")]).unwrap(), [by_title("A"), by_title("B")]);
    let texts: Vec<_> = gold(&[("gold_titles", "p.t"), ("gold_texts", "p.x")]).unwrap();
    assert_eq!(texts.iter().map(|gold| gold.text.as_deref().unwrap()).collect::<Vec<_>>(), ["1", "2", "3"]);
    let facts = files.read(row, &[("supporting_facts", "f")]).unwrap();
    assert_eq!(facts[0].supporting_facts, [("T".to_owned(), 0), ("U".to_owned(), 1), ("T".to_owned(), 2)]);
    assert_eq!(
        gold(&[("gold_ids", "g"), ("gold_titles", "p.t")]).unwrap_err(),
        "f:1: record 1: field `p.t`: found a list of 3; allowed: a list of 2, as in `g`"
    );
    // An item without the field is no silent gap.
    let gap = r#"{"question": "q", "p": [{"t": "A"}, {"u": "B"}]}"#;
    assert_eq!(
        files.read(gap, &[("gold_titles", "p.t")]).unwrap_err(),
        "f:1: record 1: field `p.t[1]`: found null; allowed: a string"
    );
    for (fields, expected) in [
        ([("gold_ids", "g")].as_slice(), GoldMatch::Id),
        (&[("gold", "g")], GoldMatch::Id),
        (&[("gold_titles", "g")], GoldMatch::Title),
        (&[("gold_titles", "g"), ("gold_texts", "g")], GoldMatch::TitleAndText),
        (&[("gold_titles", "g"), ("gold_ids", "g")], GoldMatch::Id),
        (&[], GoldMatch::Id),
    ] {
        assert_eq!(mapping(fields).gold_match(), expected, "{fields:?}");
    }
}

#[test]
fn contexts_come_in_several_shapes() {
    let files = Files::new();
    let shown = |value: &str, fields: &[(&str, &str)]| {
        let row = format!("{{\"question\": \"q\", \"c\": {value}}}");
        let questions = files.read(&row, fields)?;
        let passages = questions[0].candidates.iter();
        Ok::<_, String>(passages.map(|p| format!("{}|{}|{}", p.title, p.text, p.sentences.len())).collect::<Vec<_>>())
    };
    let contexts = [("contexts", "c")];
    assert_eq!(shown(r#"["plain", "text"]"#, &contexts).unwrap(), ["|plain|0", "|text|0"]);
    assert_eq!(shown(r#"[["T", ["One.", " Two."]], ["U", "x"]]"#, &contexts).unwrap(), ["T|One. Two.|2", "U|x|0"]);
    assert_eq!(shown(r#"[{"title": "T", "text": "x"}, {"text": "y"}]"#, &contexts).unwrap(), ["T|x|0", "|y|0"]);
    assert_eq!(shown(r#"[{"title": "T", "sentences": ["One.", "Two."]}]"#, &contexts).unwrap(), ["T|One. Two.|2"]);
    let columns = r#"{"title": ["T", "U"], "sentences": [["One."], ["Two."]]}"#;
    assert_eq!(shown(columns, &contexts).unwrap(), ["T|One.|1", "U|Two.|1"]);
    let named = [("context_titles", "c.name"), ("context_texts", "c.body")];
    let rows = r#"[{"name": "T", "body": "x"}, {"name": "U", "body": ["One.", "Two."]}]"#;
    assert_eq!(shown(rows, &named).unwrap(), ["T|x|0", "U|One. Two.|2"]);
    assert_eq!(
        shown(r#"[{"title": "T"}]"#, &contexts).unwrap_err(),
        "f:1: record 1: field `c[0].text`: found nothing; allowed: this field is required"
    );
}

#[test]
fn ids_and_labels() {
    let files = Files::new();
    let rows = "{\"question\": \"q\", \"d\": 3, \"ok\": true}\n{\"question\": \"r\", \"d\": \"x\", \"ok\": false}";
    let fields = [("strata.domain", "d"), ("answerable", "ok")];
    let questions = files.read(rows, &fields).unwrap();
    assert_eq!((questions[0].id.as_str(), questions[1].id.as_str()), ("fields-0", "fields-1"));
    assert_eq!((questions[0].strata["domain"].as_str(), questions[1].strata["domain"].as_str()), ("3", "x"));
    assert_eq!((questions[0].answerable, questions[1].answerable), (Some(true), Some(false)));
    let own = "{\"id\": \"a\", \"question\": \"q\"}\n{\"id\": \"a\", \"question\": \"r\"}";
    assert_eq!(
        files.read(own, &[]).unwrap_err(),
        "f:2: record 2: field `id`: found \"a\", which f:1 (record 1) has too; allowed: an id that no other row has"
    );
}

/// A file that has hopeval's own names needs no mapping, only the name of the format.
#[test]
fn own_names_need_no_mapping() {
    let files = Files::new();
    let path = files.write("own.csv", "id,question,answers,gold_titles,type\n1,Who?,Ada,\"['T', 'U']\",bridge\n");
    let spec = DatasetSpec { format: Some(Format::Fields), ..DatasetSpec::file(path) };
    let questions: Vec<Question> =
        Questions::open(&spec, RowPolicy::Strict).unwrap().map(|question| question.unwrap()).collect();
    assert_eq!((questions[0].id.as_str(), questions[0].kind.as_deref()), ("1", Some("bridge")));
    assert_eq!(questions[0].gold, [by_title("T"), by_title("U")]);
}

#[test]
fn wrong_rows_and_mappings_are_named() {
    let files = Files::new();
    let error = |text: &str, fields: &[(&str, &str)]| files.read(text, fields).unwrap_err();
    let csv = "qid,query\n1,Who?\n2,Where?,there\n";
    let fields = [("id", "qid"), ("question", "query")];
    assert_eq!(error(csv, &fields), "f:3: record 2: found a row of 3 cells; allowed: 2 cells, as in the first line");
    assert_eq!(
        error("qid,qid\n1,2\n", &fields),
        "f:1: record 1: found the column \"qid\" twice; allowed: each name once"
    );
    assert_eq!(error("qid,query\n", &fields), "f: holds no rows");
    assert_eq!(error("", &fields), "f: holds no rows");
    assert_eq!(
        error("qid,query\n1,\n", &fields),
        "f:2: record 1: field `query`: found nothing; allowed: this field is required: `question` is read from it; \
         the row has qid, query"
    );
    assert_eq!(
        error("qid,query,n\n1,Who?,two\n", &[("id", "qid"), ("question", "query"), ("hops", "n")]),
        "f:2: record 1: field `n`: found the string \"two\"; allowed: a whole number from 0"
    );
    assert_eq!(error("[1]", &fields), "f:1: record 1: found the number 1; allowed: an object");
    assert_eq!(
        error("{\"qid\": 1, \"query\": \"Who?\"}\n", &[("question", "query"), ("answers", "golds.text")]),
        "f: field `golds.text`: none of 1 rows has it, and the mapping reads `answers` from it; allowed: fields of the \
         rows, such as qid, query"
    );
    // A limit asks for the same among the rows that were read.
    let path = files.write("f", "{\"question\": \"q\"}\n{\"question\": \"r\", \"a\": \"x\"}\n");
    let spec = DatasetSpec { fields: Some(mapping(&[("answers", "a")])), limit: Some(1), ..DatasetSpec::file(&path) };
    let read: Vec<_> = Questions::open(&spec, RowPolicy::Strict).unwrap().collect();
    assert!(read[0].is_ok());
    assert!(files.message(read[1].as_ref().unwrap_err()).starts_with("f: field `a`: none of 1 rows has it"));
    assert!(
        Questions::open(&DatasetSpec { limit: Some(2), ..spec.clone() }, RowPolicy::Strict).unwrap().all(|q| q.is_ok())
    );
    let other = DatasetSpec { format: Some(Format::Musique), ..spec };
    assert_eq!(
        Questions::open(&other, RowPolicy::Strict).unwrap_err().to_string(),
        "a mapping of fields beside the format musique; allowed: the format `fields`, or no mapping"
    );
}

#[test]
fn mappings_are_checked() {
    let error = |fields: &[(&str, &str)]| {
        let mapping = FieldMapping::from_pairs(&pairs(fields));
        mapping.and_then(|mapping| mapping.check()).unwrap_err().to_string()
    };
    assert!(
        error(&[("anwers", "a")])
            .starts_with("the mapping of fields has unknown field `anwers`, expected one of `id`, ")
    );
    assert_eq!(error(&[("id", "a"), ("id", "b")]), "the mapping of fields has `id` twice; allowed: each field once");
    assert!(error(&[("id", "a..b")]).contains("found \"a..b\"; allowed: a field's name, or several with dots"));
    assert!(error(&[("strata", "a"), ("strata.b", "c")]).contains("both `strata` and `strata.b`"));
    assert!(error(&[("gold", "a"), ("gold_ids", "b")]).contains("`gold` beside `gold_ids`"));
    assert!(error(&[("gold_texts", "a")]).contains("`gold_texts` without `gold_titles`"));
    assert!(error(&[("contexts", "a"), ("context_texts", "b")]).contains("`contexts` beside"));
    assert!(error(&[("context_titles", "a")]).contains("without `context_texts`"));
}

#[test]
fn unread_fields_are_counted() {
    let files = Files::new();
    let path = files.write("f.csv", "query,golds,note\nWho?,Ada,x\nWhere?,Bath,\n");
    let spec = DatasetSpec {
        fields: Some(mapping(&[("question", "query"), ("answers", "golds")])),
        ..DatasetSpec::file(path)
    };
    let report = check_dataset(&spec).unwrap();
    assert_eq!((report.rows, report.questions, report.format), (2, 2, Format::Fields));
    assert_eq!(report.unread.into_iter().collect::<Vec<_>>(), [("note".to_owned(), 1)]);
}

#[test]
fn passages_are_mapped() {
    let files = Files::new();
    let read = |text: &str, fields: &[(&str, &str)]| {
        let fields = PassageMapping::from_pairs(&pairs(fields)).map_err(|error| error.to_string())?;
        let spec = PassageSpec { fields: Some(fields), ..PassageSpec::file(files.write("c", text)) };
        let passages = Passages::open(&spec, RowPolicy::Strict).map_err(|error| files.message(&error))?;
        let shown = passages.map(|passage| {
            let passage = passage.map_err(|error| files.message(&error))?;
            Ok(format!("{}|{}|{}", passage.id.as_deref().unwrap_or("-"), passage.title, passage.text))
        });
        shown.collect::<Result<Vec<_>, String>>()
    };
    let fields = [("id", "docid"), ("title", "meta.name"), ("text", "body")];
    let lines = concat!(
        r#"{"docid": 1, "meta": {"name": "T"}, "body": "x"}"#,
        "\n",
        r#"{"docid": 2, "body": ["One.", "Two."]}"#,
        "\n"
    );
    assert_eq!(read(lines, &fields).unwrap(), ["1|T|x", "2||One. Two."]);
    let csv = "docid,meta.name,body\n1,T,\"x, y\"\n2,,z\n";
    assert_eq!(read(csv, &fields).unwrap(), ["1|T|x, y", "2||z"]);
    assert_eq!(
        read("docid,body\n1,x\n", &fields).unwrap_err(),
        "c: field `meta.name`: none of 1 rows has it, and the mapping reads `title` from it; allowed: fields of the \
         rows, such as docid, body"
    );
    assert_eq!(
        read("docid,body\n1,\n", &[("text", "body")]).unwrap_err(),
        "c:2: record 1: field `body`: found nothing; allowed: this field is required: `text` is read from it; the row \
         has docid, body"
    );
    assert_eq!(read("docid,body\n", &fields).unwrap_err(), "c: holds no rows");
    assert!(
        read("a,b\n", &[("titel", "a")])
            .unwrap_err()
            .contains("unknown field `titel`, expected one of `id`, `title`, `text`")
    );
}
