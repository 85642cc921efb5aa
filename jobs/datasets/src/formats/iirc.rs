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
//! qa.{gold_answer_type, gold_answer}}`. Its answers are DROP's (`spans`, `number`). The predictions are not read.

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
    let parts = match kind.as_str() {
        "span" => value.required("answer_spans", |spans| {
            spans.read_each(|span| span.required("text", |text| Ok(text.str()?.trim().to_owned())))
        })?,
        "binary" => vec![value.required("answer_value", answer_text)?],
        "value" => {
            let number = value.required("answer_value", answer_text)?;
            let unit = value.optional("answer_unit", JsonValue::string)?.unwrap_or_default();
            vec![format!("{} {}", number.trim(), unit.trim()).trim().to_owned()]
        }
        "none" | "bad" => Vec::new(),
        _ => {
            let found = format!("the string {kind:?}");
            return Err(FieldError::new(found, "`span`, `binary`, `value`, `none` or `bad`").under_key("type"));
        }
    };
    set_answer(question, &kind, parts);
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
        let parts = qa.required("gold_answer", |answers| {
            answers.read_each(|answer| {
                let number = answer.optional("number", answer_text)?.filter(|number| !number.is_empty());
                let mut parts = answer.list("spans", JsonValue::string)?;
                parts.extend(number);
                Ok(parts)
            })
        })?;
        set_answer(&mut question, &kind, parts.into_iter().flatten().collect());
        Ok(())
    })?;
    Ok(question)
}

/// Several parts are one answer. An empty list of parts is the answer `none`.
fn set_answer(question: &mut Question, kind: &str, parts: Vec<String>) {
    question.answerable = Some(!parts.is_empty());
    question.answers = vec![if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }];
    if parts.len() > 1 {
        question.answer_spans = parts;
    }
    question.answer_kind = Some(kind.to_owned());
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
