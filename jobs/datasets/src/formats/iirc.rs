//! IIRC (Ferguson et al., EMNLP 2020), in two schemas.
//!
//! *Official*: a row is an introductory paragraph, `{pid, title, text, links: [{target, indices}], questions: [{qid,
//! question, answer, question_links, context: [{passage, text, indices}]}]}`. `answer.type` is `span`
//! (`answer_spans[].text`), `binary` or `value` (`answer_value`, `answer_unit`), `none` (no answer) or `bad`. Questions
//! of type `bad` are left out, as in the official baseline. A `context` entry's `passage` is `main` or a link's target.
//! A bad field in one of a paragraph's questions makes the whole row bad.
//!
//! *Pipeline*: a row is a question of the dev set as a published system wrote it with its predictions: `{question,
//! original_paragraph, link_prediction.gold_question_links, context_retrieval.gold_link_name_sent_list,
//! qa.{gold_answer_type, gold_answer}}`. Its answers are DROP's (`spans`, `number`), and each of them is right. The
//! predictions are not read.
//!
//! Gold is that of the official baseline, which scores it with DROP's script (`make_drop_style.py`, `drop_eval.py`). An
//! answer is a list of spans: those of `answer_spans`, or the one word of a `binary`. Of a `value` it is the number
//! alone: the unit becomes a note. Without a span it is `none`. A list of one span is written as that span. A list of
//! several is written as a JSON array, which is how the measure `drop` tells it from a text with commas.

use super::{FormatEntry, answer_text, extend_distinct};
use crate::error::FieldError;
use crate::gold::GoldMatch;
use crate::passage::{LinkRecord, PassageRecord};
use crate::question::{GoldPassage, Question};
use crate::scoring::ScoringScript;
use crate::value::{FieldResult, JsonValue};

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::Id,
    scoring: ScoringScript::Drop,
    asked: 40,
    recognises: |row, _| row.has("original_paragraph") || row.has("questions") && (row.has("links") || row.has("text")),
    read: read_questions,
    read_table: None,
};

pub(super) fn read_questions(row: &JsonValue<'_>, n: u64) -> FieldResult<Vec<Question>> {
    if row.has("original_paragraph") {
        return Ok(vec![read_pipeline(row, n)?]);
    }
    let context = read_introduction(row)?;
    let row_id = row.optional("pid", JsonValue::id)?.unwrap_or_else(|| format!("iirc-{n}"));
    let mut number = 0;
    let questions = row.required("questions", |questions| {
        questions.read_each(|question| {
            let position = number;
            number += 1;
            read_official(question, &context, || format!("{row_id}-{position}"))
        })
    })?;
    Ok(questions.into_iter().flatten().collect())
}

fn read_introduction(row: &JsonValue<'_>) -> FieldResult<PassageRecord> {
    let text = row.required("text", JsonValue::string)?;
    // `indices` count characters, as in Python.
    let byte_of = |character: u32| {
        let offset = text.char_indices().nth(character as usize).map(|(offset, _)| offset);
        offset.unwrap_or(text.len()) as u32
    };
    let links = row.optional("links", |links| {
        links.read_each(|link| {
            let span = link.optional("indices", |value| {
                let [start, end] = value.tuple("a pair [start, end]")?;
                Ok((start.index()?, end.index()?))
            })?;
            let (start, end) = span.unwrap_or((0, 0));
            let (start, end) = (byte_of(start), byte_of(end));
            Ok(LinkRecord { title: link.required("target", JsonValue::string)?, start, end: end.max(start) })
        })
    })?;
    let title = row.required("title", JsonValue::string)?;
    // Links count from the begin of the text, so white space there stays.
    Ok(PassageRecord { title, text: text.trim_end().to_owned(), links, ..PassageRecord::default() })
}

/// A question of the official schema; `None` if it is marked bad.
fn read_official(
    row: &JsonValue<'_>,
    context: &PassageRecord,
    id: impl FnOnce() -> String,
) -> FieldResult<Option<Question>> {
    let mut question = Question {
        id: row.optional("qid", JsonValue::id)?.unwrap_or_else(id),
        text: row.required("question", JsonValue::text)?.trim().to_owned(),
        links: row.list("question_links", JsonValue::string)?,
        context: Some(context.clone()),
        ..Question::default()
    };
    let kind = row.optional("answer", |answer| official_answer(answer, &mut question))?;
    if kind.as_deref() == Some("bad") {
        return Ok(None);
    }
    let mut gold: Vec<GoldPassage> = Vec::new();
    row.optional("context", |snippets| {
        snippets.read_each(|snippet| {
            let passage = snippet.required("passage", JsonValue::string)?;
            let text = snippet.required("text", JsonValue::string)?;
            if !passage.eq_ignore_ascii_case("main") {
                add_snippet(&mut gold, passage, text);
            }
            Ok(())
        })
    })?;
    question.gold = gold;
    Ok(Some(question))
}

/// Sets the answer and returns its type.
fn official_answer(value: &JsonValue<'_>, question: &mut Question) -> FieldResult<String> {
    let kind = value.required("type", JsonValue::string)?;
    let spans = match kind.as_str() {
        "span" => value.required("answer_spans", |spans| {
            spans.read_each(|span| span.required("text", |text| Ok(text.str()?.trim().to_owned())))
        })?,
        "binary" => vec![value.required("answer_value", answer_text)?],
        "value" => {
            let unit = value.optional("answer_unit", JsonValue::string)?.filter(|unit| !unit.trim().is_empty());
            question.notes.extend(unit.map(|unit| ("answer_unit".to_owned(), unit.trim().to_owned())));
            let number = value.required("answer_value", answer_text)?.trim().to_owned();
            Some(number).filter(|number| !number.is_empty()).into_iter().collect()
        }
        "none" | "bad" => Vec::new(),
        _ => {
            let found = format!("the string {kind:?}");
            return Err(FieldError::new(found, "`span`, `binary`, `value`, `none` or `bad`").under_key("type"));
        }
    };
    set_answers(question, &kind, vec![spans]);
    Ok(kind)
}

fn read_pipeline(row: &JsonValue<'_>, n: u64) -> FieldResult<Question> {
    let text = row.required("original_paragraph", JsonValue::string)?;
    let mut question = Question {
        id: format!("iirc-{n}"),
        text: row.required("question", JsonValue::text)?.trim().to_owned(),
        context: Some(PassageRecord { text: text.trim().to_owned(), ..PassageRecord::default() }),
        ..Question::default()
    };
    if let Some(links) =
        row.optional("link_prediction", |links| links.list("gold_question_links", JsonValue::string))?
    {
        question.links = links;
    }
    let mut gold = Vec::new();
    row.optional("context_retrieval", |retrieval| {
        retrieval.list("gold_link_name_sent_list", |snippet| {
            let title = snippet.required("title", JsonValue::string)?;
            add_snippet(&mut gold, title, snippet.required("sent", JsonValue::string)?);
            Ok(())
        })
    })?;
    question.gold = gold;
    row.required("qa", |qa| {
        let kind = qa.required("gold_answer_type", JsonValue::string)?;
        let alternatives = qa.required("gold_answer", |answers| {
            answers.read_each(|answer| {
                let number = answer.optional("number", answer_text)?.filter(|number| !number.is_empty());
                let spans = answer.list("spans", JsonValue::string)?;
                // The script looks at spans only where there is no number.
                Ok(number.map_or(spans, |number| vec![number]))
            })
        })?;
        set_answers(&mut question, &kind, alternatives);
        Ok(())
    })?;
    Ok(question)
}

/// Sets the gold answers, each of them a list of spans.
fn set_answers(question: &mut Question, kind: &str, mut alternatives: Vec<Vec<String>>) {
    if alternatives.is_empty() {
        alternatives.push(Vec::new());
    }
    question.answerable = Some(alternatives.iter().any(|spans| !spans.is_empty()));
    extend_distinct(&mut question.answers, alternatives.iter().map(|spans| answer_of_spans(spans)));
    let first = alternatives.swap_remove(0);
    if first.len() > 1 {
        question.answer_spans = first;
    }
    question.answer_kind = Some(kind.to_owned());
}

/// The text of an answer of these spans.
fn answer_of_spans(spans: &[String]) -> String {
    match spans {
        [] => "none".to_owned(),
        [span] => span.clone(),
        spans => {
            let quoted: Vec<String> =
                spans.iter().map(|span| serde_json::Value::from(span.as_str()).to_string()).collect();
            format!("[{}]", quoted.join(", "))
        }
    }
}

/// An article is one gold passage, even if the answer needs several of its snippets.
fn add_snippet(gold: &mut Vec<GoldPassage>, title: String, snippet: String) {
    match gold.iter_mut().find(|passage| passage.title.as_ref() == Some(&title)) {
        Some(GoldPassage { text: Some(text), snippets, .. }) => {
            if !text.contains(&snippet) {
                text.push('\n');
                text.push_str(&snippet);
            }
            extend_distinct(snippets, [snippet]);
        }
        _ => {
            let snippets = vec![snippet.clone()];
            let passage = GoldPassage { title: Some(title), text: Some(snippet), snippets, ..GoldPassage::default() };
            extend_distinct(gold, [passage]);
        }
    }
}
