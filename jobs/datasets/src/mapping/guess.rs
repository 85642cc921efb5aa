//! Guesses a mapping of fields from the names in a file, and tries each guess on its first rows.
//!
//! A guess is kept if no more of the tried rows are bad with it than without it. So a guessed mapping reads the file,
//! but it may mean something else than the file's author: whoever uses it must be shown it.

use std::collections::BTreeSet;
use std::path::Path;

use super::{FieldMapping, PassageMapping};
use crate::check::{CheckReport, check_dataset};
use crate::dataset_error::DatasetError;
use crate::format::FormatError;
use crate::passages::{PassageSpec, Passages};
use crate::questions::{DatasetSpec, RowPolicy};
use crate::rows::RowReader;
use crate::value::JsonValue;

/// Rows that a guess is tried on.
const ROWS_TRIED: u64 = 200;

/// hopeval's fields of a question with their usual names elsewhere, the commonest first. The question's text stands
/// first, since no row can be read without it.
const QUESTION_NAMES: [(&str, &[&str]); 11] = [
    ("question", &["question", "query", "question_text", "query_text", "input", "prompt", "text", "q"]),
    ("id", &["id", "_id", "qid", "question_id", "query_id", "uid", "uuid", "key", "number", "idx", "index"]),
    (
        "answers",
        &[
            "answers",
            "answer",
            "golden_answers",
            "gold_answers",
            "answer_text",
            "golds",
            "ground_truth",
            "solution",
            "target",
            "targets",
            "label",
            "labels",
            "output",
            "reference",
            "references",
            "gold",
        ],
    ),
    ("contexts", &["contexts", "context", "ctxs", "paragraphs", "passages", "documents", "candidates"]),
    (
        "gold_ids",
        &[
            "gold_ids",
            "positive_ids",
            "relevant_ids",
            "gold_doc_ids",
            "doc_ids",
            "relevant",
            "gold_passages.id",
            "positives.id",
            "supporting.id",
            "evidence.id",
        ],
    ),
    (
        "gold_titles",
        &[
            "gold_titles",
            "supporting_titles",
            "evidence_pages",
            "titles",
            "pages",
            "gold_passages.title",
            "positives.title",
            "supporting.title",
            "evidence.title",
        ],
    ),
    ("gold", &["gold_passages", "positives", "positive_ctxs", "positive_passages", "relevant_docs"]),
    ("supporting_facts", &["supporting_facts"]),
    ("type", &["type", "question_type", "kind", "category"]),
    ("level", &["level", "difficulty"]),
    ("hops", &["hops", "num_hops", "n_hops", "hop"]),
];

/// hopeval's fields of a passage with their usual names elsewhere.
const PASSAGE_NAMES: [(&str, &[&str]); 3] = [
    ("text", &["text", "body", "contents", "content", "passage", "paragraph_text", "paragraph", "document"]),
    ("id", &["id", "_id", "docid", "doc_id", "pid", "passage_id", "key", "uid"]),
    ("title", &["title", "page", "name", "heading", "wikipedia_title"]),
];

/// A guessed mapping of a dataset's fields.
#[derive(Clone, Debug)]
pub struct GuessedQuestions {
    /// hopeval's names with those in the file.
    pub fields: Vec<(String, String)>,
    /// The first rows, read by the mapping.
    pub report: CheckReport,
}

/// A guessed mapping of a passage's fields.
#[derive(Clone, Debug)]
pub struct GuessedPassages {
    /// hopeval's names with those in the file.
    pub fields: Vec<(String, String)>,
    /// Fields of the first rows that are not mapped.
    pub unread: Vec<String>,
}

impl GuessedPassages {
    /// Whether some field has another name than hopeval's own.
    pub fn names_others(&self) -> bool {
        self.fields.iter().any(|(name, path)| name != path)
    }
}

/// Guesses the mapping of a dataset's file.
///
/// # Errors
/// The file cannot be read; [`FormatError::Unguessed`] if none of its fields can be the question.
pub fn guess_questions(path: &Path) -> Result<GuessedQuestions, DatasetError> {
    let names = field_names(path)?;
    let read = |fields: &[(String, String)]| {
        let fields = FieldMapping::from_pairs(fields).ok()?;
        let spec = DatasetSpec { fields: Some(fields), limit: Some(ROWS_TRIED), ..DatasetSpec::file(path) };
        check_dataset(&spec).ok().filter(|report| report.questions > 0)
    };
    let fields = guess_fields(&QUESTION_NAMES, &names, |fields| Some(read(fields)?.bad_rows));
    match read(&fields) {
        Some(report) if !fields.is_empty() => Ok(GuessedQuestions { fields, report }),
        _ => Err(unguessed(path, &QUESTION_NAMES, &names)),
    }
}

/// Guesses the mapping of a file of passages.
///
/// # Errors
/// The file cannot be read; [`FormatError::Unguessed`] if none of its fields can be the text.
pub fn guess_passages(path: &Path) -> Result<GuessedPassages, DatasetError> {
    let names = field_names(path)?;
    let bad_rows = |fields: &[(String, String)]| {
        let fields = PassageMapping::from_pairs(fields).ok()?;
        let spec = PassageSpec { fields: Some(fields), ..PassageSpec::file(path) };
        let mut passages = Passages::open(&spec, RowPolicy::Quarantine(Box::new(|_| ()))).ok()?;
        let read = passages.by_ref().take(ROWS_TRIED as usize).take_while(Result::is_ok).count();
        (read > 0).then(|| passages.quarantined())
    };
    let fields = guess_fields(&PASSAGE_NAMES, &names, bad_rows);
    if fields.is_empty() {
        return Err(unguessed(path, &PASSAGE_NAMES, &names));
    }
    let is_unread = |name: &String| !name.contains('.') && fields.iter().all(|(_, mapped)| mapped != name);
    let unread = names.into_iter().filter(is_unread).collect();
    Ok(GuessedPassages { fields, unread })
}

/// The error of a file without a field that can be the first one of `usual`.
fn unguessed(path: &Path, usual: &[(&'static str, &[&str])], names: &[String]) -> DatasetError {
    let (wanted, usual) = usual[0];
    let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.contains('.')).collect();
    let fields = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    FormatError::Unguessed { path: path.to_owned(), wanted, fields, usual: usual.join(", ") }.into()
}

/// Maps each field to that of its usual names with which the fewest rows are bad; of equal ones the commoner. A field
/// with which more rows are bad than without it is not mapped. Nothing is mapped if the first field is not.
///
/// `bad_rows` counts the bad rows of a mapping; `None` if nothing can be read by it.
fn guess_fields(
    usual: &[(&str, &[&str])],
    names: &[String],
    bad_rows: impl Fn(&[(String, String)]) -> Option<u64>,
) -> Vec<(String, String)> {
    let (mut fields, mut fewest) = (Vec::<(String, String)>::new(), u64::MAX);
    for (field, usual) in usual {
        let known = usual.iter().filter_map(|usual| names.iter().find(|name| plain(name) == *usual));
        let free = known.filter(|name| fields.iter().all(|(_, mapped)| mapped != *name));
        let tried = free.filter_map(|name| {
            let with = [&fields[..], &[((*field).to_owned(), name.clone())]].concat();
            Some((bad_rows(&with)?, with))
        });
        // The first of several with the fewest.
        if let Some((bad, with)) = tried.min_by_key(|(bad, _)| *bad).filter(|(bad, _)| *bad <= fewest) {
            (fields, fewest) = (with, bad);
        }
        if fields.is_empty() {
            break;
        }
    }
    fields
}

/// A name without regard to case and to the kind of its joints.
fn plain(name: &str) -> String {
    name.trim().to_lowercase().replace(['-', ' '], "_")
}

/// The names of the fields of a file's first rows, in their order; of fields within them as paths.
fn field_names(path: &Path) -> Result<Vec<String>, DatasetError> {
    let mut rows = RowReader::open_named(path)?;
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    for _ in 0..ROWS_TRIED {
        let Some(row) = rows.next()? else { break };
        let found = row.read(|row| Ok(paths_of(row)));
        names.extend(found.unwrap_or_default().into_iter().filter(|name| seen.insert(name.clone())));
    }
    Ok(names)
}

/// The names of a row's fields, and the paths of the fields within them, also within the first item of a list.
fn paths_of(row: &JsonValue<'_>) -> Vec<String> {
    let mut paths = Vec::new();
    for name in row.field_names() {
        paths.push(name.to_owned());
        let inner = match row.get(name) {
            Some(JsonValue::List(items)) => items.first(),
            inner => inner,
        };
        paths.extend(inner.into_iter().flat_map(JsonValue::field_names).map(|field| format!("{name}.{field}")));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(suffix: &str, text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::Builder::new().suffix(suffix).tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn pairs(fields: &[(String, String)]) -> Vec<(&str, &str)> {
        fields.iter().map(|(name, path)| (name.as_str(), path.as_str())).collect()
    }

    #[test]
    fn usual_names_are_mapped_as_far_as_rows_can_be_read() {
        let rows = "{\"QID\": 1, \"query\": \"Who?\", \"golds\": [\"Ada\"], \"hops\": 2, \"gold-ids\": [\"p1\"], \
                    \"x\": 0}\n{\"QID\": 2, \"query\": \"Where?\", \"golds\": [\"Arlen\"], \"gold-ids\": [\"p2\"]}\n";
        let file = file(".jsonl", rows);
        let guessed = guess_questions(file.path()).unwrap();
        let expected = [("question", "query"), ("id", "QID"), ("answers", "golds"), ("gold_ids", "gold-ids")];
        assert_eq!(pairs(&guessed.fields), [&expected[..], &[("hops", "hops")]].concat());
        assert_eq!((guessed.report.questions, guessed.report.unread.keys().next().unwrap().as_str()), (2, "x"));
    }

    #[test]
    fn gold_within_lists_is_told_by_ids_or_titles() {
        let mapped = |gold: &str| {
            let row = format!("{{\"question\": \"Who?\", \"answer\": \"Ada\", \"supporting\": [{gold}]}}\n");
            let guessed = guess_questions(file(".jsonl", &row).path()).unwrap();
            let fields: Vec<String> = guessed.fields.iter().map(|(name, path)| format!("{name}={path}")).collect();
            (fields[2..].join(" "), guessed.report.gold.max)
        };
        assert_eq!(mapped("{\"title\": \"T\"}, {\"title\": \"U\"}"), ("gold_titles=supporting.title".to_owned(), 2));
        assert_eq!(
            mapped("{\"id\": \"p1\", \"title\": \"T\"}"),
            ("gold_ids=supporting.id gold_titles=supporting.title".to_owned(), 1)
        );
    }

    #[test]
    fn a_name_whose_rows_cannot_be_read_is_not_taken() {
        // `id` repeats, so it is no id.
        let rows = "id,number,text,level\n1,7,Who?,easy\n1,8,Where?,hard\n";
        let guessed = guess_questions(file(".csv", rows).path()).unwrap();
        assert_eq!(pairs(&guessed.fields), [("question", "text"), ("id", "number"), ("level", "level")]);
        for rows in ["{\"a\": 1, \"b\": 2}\n", "{\"question\": [1, 2]}\n"] {
            let file = file(".jsonl", rows);
            let message = guess_questions(file.path()).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{}: none of its fields can be the question", file.path().display())));
        }
    }

    #[test]
    fn passages_need_a_text() {
        let rows = "key\tpage\tbody\tlanguage\np1\tArlen\tArlen lies on the Teel.\ten\n";
        let guessed = guess_passages(file(".tsv", rows).path()).unwrap();
        assert_eq!(pairs(&guessed.fields), [("text", "body"), ("id", "key"), ("title", "page")]);
        assert_eq!(guessed.unread, ["language"]);
        let message = guess_passages(file(".jsonl", "{\"title\": \"Arlen\"}\n").path()).unwrap_err().to_string();
        assert!(message.contains("none of its fields can be the text: it has title; allowed: fields of"), "{message}");
    }
}
