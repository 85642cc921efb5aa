//! Files of rankings: what is read, in which order, and the exact messages about wrong files.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use hopeval_datasets::{RankingsFile, RankingsFormat, RankingsRow, RowCost};
use tempfile::TempDir;

fn written(text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn opened(text: impl AsRef<[u8]>) -> (TempDir, RankingsFile) {
    let (folder, path) = written(text);
    (folder, RankingsFile::open(&path, None).unwrap())
}

fn row(text: impl AsRef<[u8]>, id: &str) -> RankingsRow {
    opened(text).1.row(id).unwrap().unwrap()
}

fn names(row: &RankingsRow) -> Vec<&str> {
    row.ranked.iter().map(|entry| entry.name.as_str()).collect()
}

/// The messages of an error and of its causes, with the path shortened.
fn message(format: RankingsFormat, text: &[u8]) -> String {
    let (folder, path) = written(text);
    let error = RankingsFile::open(&path, Some(format)).expect_err(&String::from_utf8_lossy(text));
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        said.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    said.replace(&format!("{}/", folder.path().display()), "")
}

/// Compares the one error of each file with the expected message.
fn refused(format: RankingsFormat, files: &[(&[u8], &str)]) {
    assert!(files.len() >= 20, "{} files", files.len());
    for (text, expected) in files {
        assert_eq!(message(format, text), *expected, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn a_trec_run_is_ordered_as_trec_eval_does() {
    let text = "q2 Q0 x 1 1.5 run\n\
                q1 Q0 b 1 2.0 run\n\
                q1 Q0 c 7 2.0 run\n\
                q1\tQ0  a 3 3 run\r\n\
                \n\
                q1 Q0 d 4 -1e0 run\n";
    let (_folder, mut file) = opened(text);
    let found = file.row("q1").unwrap().unwrap();
    assert_eq!(names(&found), ["a", "c", "b", "d"], "equal scores: the last name first, whatever the rank says");
    assert_eq!(found.ranked.iter().map(|entry| entry.score.unwrap()).collect::<Vec<_>>(), [3.0, 2.0, 2.0, -1.0]);
    assert_eq!(file.facts().rows, 2);
    assert_eq!((file.facts().longest, file.facts().answers, file.facts().rankings), (4, 0, 2));
    assert_eq!(file.row("q3").unwrap(), None);
    assert_eq!(names(&file.row("q2").unwrap().unwrap()), ["x"], "in any order");
    // trec_eval holds scores in single precision, where these are equal.
    let close = row("q Q0 a 1 2.00000000002 r\nq Q0 b 2 2.00000000001 r\n", "q");
    assert_eq!(names(&close), ["b", "a"]);
}

#[test]
fn lines_of_a_question_may_stand_apart() {
    let text = "\u{feff}q1 Q0 a 1 1 r\nq2 Q0 a 1 5 r\nq1 Q0 b 2 3 r\nq2 Q0 b 2 9 r\nq1 Q0 c 3 2 r";
    let (_folder, mut file) = opened(text);
    assert_eq!(names(&file.row("q1").unwrap().unwrap()), ["b", "c", "a"]);
    assert_eq!(names(&file.row("q2").unwrap().unwrap()), ["b", "a"]);
    assert_eq!((file.facts().rows, file.facts().longest), (2, 3));
}

#[test]
fn json_lines_give_answers_rankings_support_and_costs() {
    let text = concat!(r#"{"id": 7, "answer": "yes", "ranked": ["b", ["c"], 3], "supporting": null}"#, "\n",);
    assert!(message(RankingsFormat::Jsonl, text.as_bytes()).contains("field `ranked[1]`"));
    let text = concat!(
        "\n",
        r#"{"id": 7, "answer": "yes", "ranked": ["b", "a", 3], "cost": {"calls": 2, "seconds": 0.5}}"#,
        "\r\n\n",
        r#"{"cost": {"seconds": 1, "calls": 0}, "supporting": [["b", 0], ["c", 4]], "ranked": null, "id": "x y"}"#,
        "\n",
        r#"{"id": "z", "ranked": [["a", 0.1], ["b", 0.1], ["c", -2]], "cost": {"seconds": 1, "calls": 1}}"#,
    );
    let (_folder, mut file) = opened(text);
    let last = file.row("z").unwrap().unwrap();
    assert_eq!(names(&last), ["a", "b", "c"], "a list's own order");
    assert_eq!(last.ranked.iter().map(|entry| entry.score).collect::<Vec<_>>(), [Some(0.1), Some(0.1), Some(-2.0)]);
    let first = file.row("7").unwrap().unwrap();
    assert_eq!((names(&first), first.answer.as_deref()), (vec!["b", "a", "3"], Some("yes")));
    assert_eq!(first.cost, RowCost { calls: Some(2), seconds: Some(0.5), ..RowCost::default() });
    assert_eq!((first.position.line, first.position.record), (2, 1));
    let second = file.row("x y").unwrap().unwrap();
    assert_eq!(second.supporting, [("b".to_owned(), 0), ("c".to_owned(), 4)]);
    assert_eq!((second.answer, second.ranked), (None, Vec::new()));
    let facts = file.facts();
    assert_eq!((facts.rows, facts.answers, facts.rankings, facts.supporting, facts.longest), (3, 1, 2, 1, 3));
    assert_eq!(facts.costs, ["calls", "seconds"]);
    let money = row(r#"{"id": "a", "answer": "", "cost": 0.25}"#, "a");
    assert_eq!((money.cost.money, money.answer.as_deref()), (Some(0.25), Some("")));
}

#[test]
fn csv_has_the_same_rows() {
    let text = "\u{feff}answer,id,ranked,supporting,cost\r\n\
                \"one, \"\"two\"\"\nthree\",q1,b a  c,\"[[\"\"b\"\", 1]]\",0.5\r\n\
                \r\n\
                ,q2,\"[[\"\"x y\"\", 2.5], [\"\"z\"\", 1]]\",,\"{\"\"money\"\": 2}\"";
    let (_folder, mut file) = opened(text);
    let second = file.row("q2").unwrap().unwrap();
    assert_eq!((names(&second), second.answer.as_deref()), (vec!["x y", "z"], None));
    assert_eq!((second.ranked[0].score, second.cost.money), (Some(2.5), Some(2.0)));
    assert_eq!((second.position.line, second.position.record), (5, 3));
    let first = file.row("q1").unwrap().unwrap();
    assert_eq!(first.answer.as_deref(), Some("one, \"two\"\nthree"));
    assert_eq!((names(&first), first.position.line), (vec!["b", "a", "c"], 2));
    assert_eq!(first.supporting, [("b".to_owned(), 1)]);
    assert_eq!(file.facts().costs, ["money"]);
}

#[test]
fn formats_are_told_from_the_beginning() {
    assert_eq!(names(&row("id,ranked\nq,a b\n", "q")), ["a", "b"]);
    assert_eq!(names(&row("ranked , id\nb,q\n", "q")), ["b"]);
    assert_eq!(names(&row("\n {\"id\": \"q\", \"ranked\": [\"a\"]}\n", "q")), ["a"]);
    assert_eq!(names(&row("id Q0 a 1 1 r\n", "id")), ["a"], "not the header of a table");
}

#[test]
fn malformed_trec_runs_are_refused() {
    const SIX: &str = "six fields: qid Q0 document rank score tag";
    let missing =
        |line: u32, field: &str| format!("f:{line}: record {line}: field `{field}`: found nothing; allowed: {SIX}");
    let number = |field: &str, found: &str, allowed: &str| {
        format!("f:1: record 1: field `{field}`: found {found:?}; allowed: {allowed}")
    };
    let (good, finite, whole) = ("q Q0 a 1 2 r\n", "a finite number", "a whole number");
    let files = [
        ("".to_owned(), "f: holds no rows".to_owned()),
        (" \n\n".to_owned(), "f: holds no rows".to_owned()),
        ("q\n".to_owned(), missing(1, "Q0")),
        ("q Q0\n".to_owned(), missing(1, "document")),
        ("q Q0 a\n".to_owned(), missing(1, "rank")),
        ("q Q0 a 1\n".to_owned(), missing(1, "score")),
        ("q Q0 a 1 2\n".to_owned(), missing(1, "tag")),
        (format!("{good}q Q0 b 1 2.5"), missing(2, "tag")),
        ("q Q0 a 1 2 r more\n".to_owned(), format!("f:1: record 1: field `tag`: found 7 fields; allowed: {SIX}")),
        ("q Q0 a first 2 r\n".to_owned(), number("rank", "first", whole)),
        ("q Q0 a 1.5 2 r\n".to_owned(), number("rank", "1.5", whole)),
        ("q Q0 a 1 high r\n".to_owned(), number("score", "high", finite)),
        ("q Q0 a 1 nan r\n".to_owned(), number("score", "nan", finite)),
        ("q Q0 a 1 -inf r\n".to_owned(), number("score", "-inf", finite)),
        ("q Q0 a 1 1e999 r\n".to_owned(), number("score", "1e999", finite)),
        ("q Q0 a 1 2,5 r\n".to_owned(), number("score", "2,5", finite)),
        (
            format!("{good}q Q0 b 2 1 r\nq Q0 a 3 0 r\n"),
            "f:3: record 3: field `document`: found \"a\" again; allowed: each passage once".to_owned(),
        ),
        (
            format!("{good}p Q0 a 1 1 r\n\nq Q0 a 3 0 r\n"),
            "f:4: record 3: field `document`: found \"a\" again; allowed: each passage once".to_owned(),
        ),
        (
            format!("{good}q Q0 b 2 1 s\n"),
            "f:2: record 2: field `tag`: found \"s\", another run than \"r\"; allowed: the lines of one run".to_owned(),
        ),
        (
            format!("{good}p Q0 b 2 1 s\n"),
            "f:2: record 2: field `tag`: found \"s\", another run than \"r\"; allowed: the lines of one run".to_owned(),
        ),
        ("{\"id\": \"q\"}\n".to_owned(), missing(1, "document")),
        ("id,ranked\nq,a\n".to_owned(), missing(1, "Q0")),
        ("\u{1f}\u{8b}".to_owned(), missing(1, "Q0")),
    ];
    let mut files: Vec<(Vec<u8>, String)> =
        files.into_iter().map(|(text, expected)| (text.into_bytes(), expected)).collect();
    let utf8 = |field: &str| format!("f:1: record 1: field `{field}`: found bytes that are not UTF-8; allowed: UTF-8");
    files.push((b"q Q0 \xff 1 2 r\n".to_vec(), utf8("document")));
    files.push((b"q Q0 a\xff 1 2 r\n".to_vec(), utf8("document")));
    files.push((b"\xff Q0 a 1 2 r\n".to_vec(), utf8("qid")));
    let plain = "a TREC run, JSON Lines, CSV or a JSON object of answers that is not compressed";
    files.push((b"\x1f\x8b\x08\x00".to_vec(), format!("f: starts with gzip; allowed: {plain}")));
    let files: Vec<(&[u8], &str)> = files.iter().map(|(text, expected)| (text.as_slice(), expected.as_str())).collect();
    refused(RankingsFormat::Trec, &files);
}

#[test]
fn malformed_json_lines_are_refused() {
    let field = |field: &str, found: &str, allowed: &str| {
        format!("f:1: record 1: field `{field}`: found {found}; allowed: {allowed}")
    };
    let id = "a string that is not empty, or a whole number";
    let files: Vec<(&[u8], String)> = vec![
        (b"", "f: holds no rows".to_owned()),
        (b"[1]\n", "f:1: record 1: found a list of 1; allowed: an object".to_owned()),
        (
            b"{\"id\": \"q\", \"answer\": \"a\"}\n{\"id\": \"p\", \"ans",
            "f:2: record 2: found invalid JSON (EOF while parsing a string, column 16); allowed: one JSON value"
                .to_owned(),
        ),
        (
            b"{\"id\": \"q\", \"answer\": \"a\"} {}\n",
            "f:1: record 1: found invalid JSON (trailing characters, column 28); allowed: one JSON value".to_owned(),
        ),
        (
            b"{\"id\": \"\xff\", \"answer\": \"a\"}\n",
            "f:1: record 1: found bytes that are not UTF-8 at byte 8 of the record; allowed: UTF-8".to_owned(),
        ),
        (b"{\"answer\": \"a\"}\n", field("id", "nothing", "this field is required")),
        (b"{\"id\": null, \"answer\": \"a\"}\n", field("id", "nothing", "this field is required")),
        (b"{\"id\": \"\", \"answer\": \"a\"}\n", field("id", "the string \"\"", id)),
        (b"{\"id\": 1.5, \"answer\": \"a\"}\n", field("id", "the number 1.5", id)),
        (
            b"{\"id\": \"q\", \"answers\": \"a\"}\n",
            field("answers", "an unknown field", "id, answer, ranked, supporting, cost"),
        ),
        (b"{\"id\": \"q\", \"answer\": 3}\n", field("answer", "the number 3", "a string")),
        (b"{\"id\": \"q\", \"ranked\": \"a b\"}\n", field("ranked", "the string \"a b\"", "a list")),
        (b"{\"id\": \"q\", \"ranked\": [\"a\", null]}\n", field("ranked[1]", "null", id)),
        (b"{\"id\": \"q\", \"ranked\": [[\"a\", \"1\"]]}\n", field("ranked[0][1]", "the string \"1\"", "a number")),
        (
            b"{\"id\": \"q\", \"ranked\": [[\"a\", 1, 2]]}\n",
            field("ranked[0]", "a list of 3", "a name, or a pair [name, score]"),
        ),
        (
            b"{\"id\": \"q\", \"ranked\": [\"a\", [\"b\", 1]]}\n",
            field("ranked[1]", "a score", "scores of all passages, or of none"),
        ),
        (
            b"{\"id\": \"q\", \"ranked\": [[\"a\", 1], \"b\"]}\n",
            field("ranked[1]", "no score", "scores of all passages, or of none"),
        ),
        (
            b"{\"id\": \"q\", \"ranked\": [[\"a\", 1], [\"b\", 2]]}\n",
            field("ranked[1]", "the score 2 after 1", "the best passage first"),
        ),
        (
            b"{\"id\": \"q\", \"ranked\": [\"a\", \"b\", \"a\"]}\n",
            field("ranked[2]", "\"a\" again", "each passage once"),
        ),
        (
            b"{\"id\": \"q\", \"supporting\": [\"a\"]}\n",
            field("supporting[0]", "the string \"a\"", "a pair [name, index of a sentence]"),
        ),
        (
            b"{\"id\": \"q\", \"supporting\": [[\"a\", -1]]}\n",
            field("supporting[0][1]", "the number -1", "a whole number from 0"),
        ),
        (b"{\"id\": \"q\", \"answer\": \"a\", \"cost\": -1}\n", field("cost", "the number -1", "a number, at least 0")),
        (
            b"{\"id\": \"q\", \"answer\": \"a\", \"cost\": \"1 EUR\"}\n",
            field("cost", "the string \"1 EUR\"", "an object"),
        ),
        (
            b"{\"id\": \"q\", \"answer\": \"a\", \"cost\": {\"calls\": 0.5}}\n",
            field("cost.calls", "the number 0.5", "a whole number from 0 to 4294967295"),
        ),
        (
            b"{\"id\": \"q\", \"answer\": \"a\", \"cost\": {\"usd\": 1}}\n",
            field("cost.usd", "an unknown field", "calls, prompt_tokens, completion_tokens, seconds, money"),
        ),
        (
            b"{\"id\": \"q\", \"answer\": \"a\", \"cost\": 1}\n{\"id\": \"p\", \"answer\": \"a\"}\n",
            "f:2: record 2: field `cost`: found nothing; allowed: the figures of the first row: money".to_owned(),
        ),
        (
            b"{\"id\": \"q\", \"answer\": \"a\"}\n\n{\"id\": \"q\", \"answer\": \"b\"}\n",
            "f:3: record 2: field `id`: found \"q\", which line 1 has too; allowed: each question once".to_owned(),
        ),
        (
            b"{\"id\": \"q\"}\n{\"id\": \"p\", \"ranked\": []}\n",
            field(
                "ranked",
                "no answer, ranking or supporting sentence, nor in any other row",
                "rows of which some have `answer`, `ranked` or `supporting`",
            ),
        ),
    ];
    let files: Vec<(&[u8], &str)> = files.iter().map(|(text, expected)| (*text, expected.as_str())).collect();
    refused(RankingsFormat::Jsonl, &files);
}

#[test]
fn malformed_csv_is_refused() {
    let at = |line: u32, record: u32, field: &str, found: &str, allowed: &str| {
        format!("f:{line}: record {record}: field `{field}`: found {found}; allowed: {allowed}")
    };
    let columns = "id, answer, ranked, supporting, cost";
    let whole = "quotes around the whole cell, and two for each one inside";
    let files: Vec<(&[u8], String)> = vec![
        (b"", "f: holds no rows".to_owned()),
        (b"id,answer\n", "f: holds no rows".to_owned()),
        (b"answer,ranked\na,b\n", at(1, 1, "id", "no such column", "a first line with the column `id`")),
        (b"id,answers\nq,a\n", at(1, 1, "answers", "the column \"answers\"", columns)),
        (b"id;answer\nq;a\n", at(1, 1, "id;answer", "the column \"id;answer\"", columns)),
        (b"id,answer,id\nq,a,p\n", at(1, 1, "id", "a second column of this name", "each column once")),
        (b"id,answer\nq\n", at(2, 2, "answer", "a row of 1 cells", "2 cells")),
        (b"id,answer\nq,a,b\n", at(2, 2, "answer", "a row of 3 cells", "2 cells")),
        (b"id,answer\n,a\n", at(2, 2, "id", "nothing", "this field is required")),
        (
            b"id,answer\nq,\"a\n",
            at(2, 2, "answer", "a quote without its end", "a quote at the end of a cell that begins with one"),
        ),
        (b"id,answer\nq,5\" disk\n", at(2, 2, "answer", "a quote within \"5\\\" disk\"", whole)),
        (b"id,answer\nq,\"a\"b\n", at(2, 2, "answer", "\"b\" after a quoted cell", "a comma or the end of the line")),
        (
            "id,answer\nq,\"a\"é\n".as_bytes(),
            at(2, 2, "answer", "\"é\" after a quoted cell", "a comma or the end of the line"),
        ),
        (b"id,answer\nq,\xff\n", at(2, 2, "id", "bytes that are not UTF-8 at byte 2 of the row", "UTF-8")),
        (b"id,ranked\nq,a b a\n", at(2, 2, "ranked[2]", "\"a\" again", "each passage once")),
        (b"id,ranked\nq,[a]\n", at(2, 2, "ranked", "invalid JSON (expected value, column 2)", "one JSON value")),
        (
            b"id,ranked\nq,\"[[\"\"a\"\", 1], [\"\"b\"\", 2]]\"\n",
            at(2, 2, "ranked[1]", "the score 2 after 1", "the best passage first"),
        ),
        (b"id,supporting\nq,a\n", at(2, 2, "supporting", "invalid JSON (expected value, column 1)", "one JSON value")),
        (
            b"id,supporting\nq,\"[[\"\"a\"\", \"\"0\"\"]]\"\n",
            at(2, 2, "supporting[0][1]", "the string \"0\"", "a whole number from 0"),
        ),
        (b"id,answer,cost\nq,a,free\n", at(2, 2, "cost", "invalid JSON (expected ident, column 2)", "one JSON value")),
        (b"id,answer,cost\nq,a,-2\n", at(2, 2, "cost", "the number -2", "a number, at least 0")),
        (
            b"id,answer,cost\nq,a,\"{\"\"usd\"\": 1}\"\n",
            at(2, 2, "cost.usd", "an unknown field", "calls, prompt_tokens, completion_tokens, seconds, money"),
        ),
        (b"id,answer,cost\nq,a,\np,a,3\n", at(3, 3, "cost", "money", "the figures of the first row: nothing")),
        (b"id,answer\nq,\"a\nb\"\n\nq,c\n", at(5, 3, "id", "\"q\", which line 2 has too", "each question once")),
        (
            b"id,answer\nq,\np, \n",
            at(
                2,
                2,
                "ranked",
                "no answer, ranking or supporting sentence, nor in any other row",
                "rows of which some have `answer`, `ranked` or `supporting`",
            ),
        ),
    ];
    let files: Vec<(&[u8], &str)> = files.iter().map(|(text, expected)| (*text, expected.as_str())).collect();
    refused(RankingsFormat::Csv, &files);
}

#[test]
fn a_file_that_is_none_is_named() {
    let folder = TempDir::new().unwrap();
    let said = |path: PathBuf| RankingsFile::open(&path, None).unwrap_err().to_string();
    assert!(said(folder.path().join("none")).ends_with("/none"), "{}", said(folder.path().join("none")));
    assert!(said(folder.path().to_owned()).ends_with("is a folder; allowed: a file"));
}
