//! HotpotQA (Yang et al., EMNLP 2018): `{_id, question, answer, type, level, supporting_facts, context}`.
//!
//! `context` is a list of `[title, [sentence, …]]`: ten passages in the distractor setting, the retrieved ones in
//! fullwiki (where a gold passage may be missing). Sentences after the first begin with a space and are joined by
//! nothing. Test sets have neither answers nor supporting facts. Hugging Face's dumps have `id` for `_id`, and columns
//! for both lists. Rows with `gold_titles` in place of supporting facts and contexts are read too.

use super::{FormatEntry, extend_distinct, single_answer};
use crate::columns::NestedTable;
use crate::gold::GoldMatch;
use crate::passage::PassageRecord;
use crate::question::{GoldPassage, Question};
use crate::scoring::ScoringScript;
use crate::value::{FieldResult, JsonValue};

/// The separator between a dataset's sentences.
#[derive(Clone, Copy)]
pub(crate) enum SentenceJoin {
    /// This separator.
    With(&'static str),
    /// Nothing if a sentence after the first begins with a space, otherwise a space.
    Guess,
}

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::Title,
    scoring: ScoringScript::HotpotQa,
    asked: 20,
    recognises: |row, _| {
        let is_official = || row.has("context") && (row.has("_id") || row.has("supporting_facts"));
        // A list of answers is no field of HotpotQA's, and would be lost.
        let has_titles = || row.has("gold_titles") && !row.has("answers");
        row.has("question") && (has_titles() || is_official())
    },
    read: |row, _| Ok(vec![read_question(row)?]),
    read_table: None,
};

pub(super) fn read_question(row: &JsonValue<'_>) -> FieldResult<Question> {
    read_common_fields(row, SentenceJoin::With(""))
}

/// The common part of HotpotQA and 2WikiMultihopQA.
pub(super) fn read_common_fields(row: &JsonValue<'_>, join: SentenceJoin) -> FieldResult<Question> {
    let id = if row.has("_id") { "_id" } else { "id" };
    let mut question = Question {
        id: row.required(id, JsonValue::id)?,
        text: row.required("question", JsonValue::text)?,
        answers: single_answer(row)?,
        kind: row.optional("type", JsonValue::string)?,
        level: row.optional("level", JsonValue::string)?,
        ..Question::default()
    };
    read_context(row, join, &mut question)?;
    Ok(question)
}

/// Fills candidates, supporting facts, gold and hops from `context`, `supporting_facts` and `gold_titles`.
pub(super) fn read_context(row: &JsonValue<'_>, join: SentenceJoin, question: &mut Question) -> FieldResult<()> {
    question.candidates = row.optional("context", |value| read_passages(value, join))?.unwrap_or_default();
    question.supporting_facts = row.optional("supporting_facts", supporting_facts)?.unwrap_or_default();
    let mut titles: Vec<String> = Vec::new();
    extend_distinct(&mut titles, question.supporting_facts.iter().map(|(title, _)| title.clone()));
    extend_distinct(&mut titles, row.list("gold_titles", JsonValue::string)?);
    if !titles.is_empty() {
        question.hops = Some(titles.len() as u32);
    }
    question.gold = titles
        .into_iter()
        .map(|title| {
            let candidate = question.candidates.iter().find(|candidate| candidate.title == title);
            GoldPassage {
                text: candidate.map(|candidate| candidate.text.clone()),
                title: Some(title),
                ..GoldPassage::default()
            }
        })
        .collect();
    Ok(())
}

/// `[[title, [sentence, …]], …]`, or `{"title": […], "sentences": [[…], …]}`.
fn read_passages(value: &JsonValue<'_>, join: SentenceJoin) -> FieldResult<Vec<PassageRecord>> {
    if let JsonValue::Object(_) = value {
        let columns = NestedTable::from_value(value)?;
        return (0..columns.len())
            .map(|index| {
                let title = columns.required_cell(index, "title", JsonValue::string)?;
                columns.required_cell(index, "sentences", |sentences| join_sentences(title, sentences, join))
            })
            .collect();
    }
    value.read_each(|item| {
        let [title, sentences] = item.tuple("a pair [title, [sentence, ...]]")?;
        let title = title.string().map_err(|error| error.at_index(0))?;
        join_sentences(title, sentences, join).map_err(|error| error.at_index(1))
    })
}

/// A passage of a list of sentences.
pub(crate) fn join_sentences(
    title: String,
    sentences: &JsonValue<'_>,
    join: SentenceJoin,
) -> FieldResult<PassageRecord> {
    let items = sentences.items()?;
    let mut texts = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        texts.push(item.str().map_err(|error| error.at_index(index))?);
    }
    let separator = match join {
        SentenceJoin::With(separator) => separator,
        SentenceJoin::Guess if texts.iter().skip(1).any(|text| text.starts_with(' ')) => "",
        SentenceJoin::Guess => " ",
    };
    Ok(PassageRecord::from_sentences(title, &texts, separator))
}

/// `[[title, index], …]`, or `{"title": […], "sent_id": […]}`.
pub(crate) fn supporting_facts(value: &JsonValue<'_>) -> FieldResult<Vec<(String, u32)>> {
    if let JsonValue::Object(_) = value {
        let columns = NestedTable::from_value(value)?;
        return (0..columns.len())
            .map(|index| {
                let title = columns.required_cell(index, "title", JsonValue::string)?;
                Ok((title, columns.required_cell(index, "sent_id", JsonValue::index)?))
            })
            .collect();
    }
    value.read_each(|item| {
        let [title, index] = item.tuple("a pair [title, index of a sentence]")?;
        Ok((title.string().map_err(|error| error.at_index(0))?, index.index().map_err(|error| error.at_index(1))?))
    })
}
