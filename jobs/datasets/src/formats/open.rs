//! Open-domain questions with lists of answers: Natural Questions and TriviaQA, in their common schemas.
//!
//! * `{id, question, answers: […]}`; also `answer`, a list, one string, or a string with a Python or JSON list;
//! * TriviaQA's own `{QuestionId, Question, Answer: {Value, Aliases}}` and its lower-case twin: the value, then its
//!   aliases;
//! * DPR's retriever files: `positive_ctxs` are gold; retrieved lists: `ctxs` are candidates (`{id, title, text}`);
//! * DPR's tables without a header: `question`, tab, `['answer', …]`.
//!
//! The two formats (`nq.rs`, `triviaqa.rs`) are read alike and differ only in name, for reports.

use std::path::Path;

use super::{answer_list, extend_distinct};
use crate::error::FieldError;
use crate::literal;
use crate::passage::PassageRecord;
use crate::question::{GoldPassage, Question};
use crate::table::TableRow;
use crate::value::{FieldResult, JsonValue, quoted};

/// The field's names, in the order of lookup.
const IDS: [&str; 5] = ["id", "_id", "qid", "question_id", "QuestionId"];
const QUESTIONS: [&str; 3] = ["question", "Question", "query"];
const ANSWERS: [&str; 3] = ["answers", "answer", "Answer"];

fn first_of<'n>(row: &JsonValue<'_>, names: &[&'n str]) -> &'n str {
    names.iter().find(|name| row.has(name)).unwrap_or(&names[0])
}

/// Whether a row is a question with an answer, or with a list of answers.
pub(super) fn is_row(row: &JsonValue<'_>) -> bool {
    (row.has("question") || row.has("Question")) && ANSWERS.iter().any(|name| row.has(name))
}

/// Whether a file's name marks its questions as TriviaQA's.
pub(crate) fn is_named_trivia(path: &Path) -> bool {
    path.to_string_lossy().to_lowercase().contains("trivia")
}

/// The question of a row. `format` begins the id of a row without one.
pub(super) fn read_question(row: &JsonValue<'_>, format: &str, n: u64) -> FieldResult<Question> {
    let id = row.optional(first_of(row, &IDS), JsonValue::id)?;
    Ok(Question {
        id: id.unwrap_or_else(|| format!("{format}-{n}")),
        text: row.required(first_of(row, &QUESTIONS), JsonValue::text)?,
        answers: row.optional(first_of(row, &ANSWERS), read_answers)?.unwrap_or_default(),
        gold: row.list("positive_ctxs", |value| {
            let PassageRecord { id, title, text, .. } = read_passage(value)?;
            Ok(GoldPassage { id, title: Some(title), text: Some(text), ..GoldPassage::default() })
        })?,
        candidates: row.list("ctxs", read_passage)?,
        ..Question::default()
    })
}

fn read_answers(value: &JsonValue<'_>) -> FieldResult<Vec<String>> {
    let JsonValue::Object(_) = value else { return answer_list(value) };
    let [value_key, aliases] = if value.has("Value") { ["Value", "Aliases"] } else { ["value", "aliases"] };
    let mut answers = vec![value.required(value_key, JsonValue::string)?];
    extend_distinct(&mut answers, value.list(aliases, JsonValue::string)?);
    // TriviaQA's own script takes what people answered for the verified questions, too.
    extend_distinct(&mut answers, value.list("HumanAnswers", JsonValue::string)?);
    Ok(answers)
}

fn read_passage(value: &JsonValue<'_>) -> FieldResult<PassageRecord> {
    let id = ["id", "passage_id", "psg_id"].into_iter().find(|key| value.has(key)).unwrap_or("id");
    Ok(PassageRecord {
        id: value.optional(id, JsonValue::id)?,
        title: value.optional("title", JsonValue::string)?.unwrap_or_default(),
        text: value.required("text", JsonValue::string)?,
        ..PassageRecord::default()
    })
}

/// Whether a table's first row is a question with its answers, or the header of such a table.
pub(crate) fn is_table_row(row: &TableRow) -> bool {
    match row.fields.as_slice() {
        [question, answers] => !question.is_empty() && (literal::parse_strings(answers).is_some() || is_header(row)),
        _ => false,
    }
}

pub(crate) fn is_header(row: &TableRow) -> bool {
    matches!(
        row.fields.as_slice(),
        [question, answers] if question == "question" && ANSWERS.contains(&answers.as_str())
    )
}

/// The question of a table's row.
pub(super) fn table_question(row: &TableRow, format: &str, n: u64) -> FieldResult<Question> {
    if row.damaged {
        return Err(FieldError::new("bytes that are not UTF-8", "UTF-8"));
    }
    let [question, answers] = row.fields.as_slice() else {
        return Err(FieldError::new(format!("{} columns", row.fields.len()), "2 columns: question, list of answers"));
    };
    if question.trim().is_empty() {
        return Err(FieldError::new("an empty column", "a question").under_key("question"));
    }
    let answers = literal::parse_strings(answers).ok_or_else(|| {
        FieldError::new(quoted(answers), r#"a list of strings such as ["a", 'b']"#).under_key("answers")
    })?;
    Ok(Question { id: format!("{format}-{n}"), text: question.clone(), answers, ..Question::default() })
}
