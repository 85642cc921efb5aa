//! The generated world's questions: [`Question`] itself, one JSON object per line.
//!
//! Read field by field and not by serde, so that an error names the field's path. Absent and null fields have their
//! defaults. `id` and `text` are required.

use std::collections::BTreeMap;

use super::{FormatEntry, two_wiki::triple};
use crate::error::FieldError;
use crate::gold::GoldBy;
use crate::passage::PassageRecord;
use crate::question::{GoldPassage, Question, SubQuestion};
use crate::scoring::ScoringScript;
use crate::value::{Field, Value};

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldBy::Id,
    scoring: ScoringScript::HotpotQa,
    asked: 90,
    recognises: |row, _| row.has("text") && row.has("answers") && row.has("gold"),
    read: |row, _| Ok(vec![question(row)?]),
    read_table: None,
};

pub(super) fn question(row: &Value<'_>) -> Field<Question> {
    let question = Question {
        id: row.required("id", Value::id)?,
        text: row.required("text", Value::text)?,
        answers: row.list("answers", Value::string)?,
        answer_spans: row.list("answer_spans", Value::string)?,
        answer_id: row.optional("answer_id", Value::string)?,
        answer_kind: row.optional("answer_kind", Value::string)?,
        answerable: row.optional("answerable", Value::bool)?,
        gold: row.list("gold", gold)?,
        gold_sets: Vec::new(),
        candidates: row.list("candidates", PassageRecord::read)?,
        supporting_facts: row.list("supporting_facts", |value| {
            let [title, index] = value.tuple("a pair [title, index of a sentence]")?;
            Ok((title.string().map_err(|error| error.at(0))?, index.index().map_err(|error| error.at(1))?))
        })?,
        evidences: row.list("evidences", triple)?,
        evidences_id: row.list("evidences_id", triple)?,
        entity_ids: row.list("entity_ids", Value::string)?,
        decomposition: Vec::new(),
        facts: row.list("facts", Value::string)?,
        rationale: row.optional("rationale", Value::string)?,
        kind: row.optional("kind", Value::string)?,
        level: row.optional("level", Value::string)?,
        hops: row.optional("hops", Value::index)?,
        strata: texts(row, "strata")?,
        context: row.optional("context", PassageRecord::read)?,
        links: row.list("links", Value::string)?,
        notes: texts(row, "notes")?,
    };
    let gold_sets = row.list("gold_sets", |set| set.each(|index| below(index, question.gold.len(), "`gold`")))?;
    let decomposition = row.list("decomposition", |step| {
        Ok(SubQuestion {
            question: step.required("question", Value::string)?,
            answer: step.optional("answer", Value::string)?,
            support: step.optional("support", |index| below(index, question.candidates.len(), "`candidates`"))?,
            evidence: step.list("evidence", Value::string)?,
        })
    })?;
    Ok(Question { gold_sets, decomposition, ..question })
}

fn gold(value: &Value<'_>) -> Field<GoldPassage> {
    Ok(GoldPassage {
        id: value.optional("id", Value::id)?,
        title: value.optional("title", Value::string)?,
        text: value.optional("text", Value::string)?,
        grade: value.optional("grade", Value::index)?.unwrap_or(1),
    })
}

/// An index into a list of `length`.
fn below(value: &Value<'_>, length: usize, list: &str) -> Field<u32> {
    let index = value.index()?;
    if (index as usize) < length {
        Ok(index)
    } else {
        Err(FieldError::new(value.describe(), format!("an index into {list}, which has {length}")))
    }
}

fn texts(row: &Value<'_>, key: &str) -> Field<BTreeMap<String, String>> {
    let texts = row.optional(key, |value| {
        value
            .entries()?
            .iter()
            .map(|(key, value)| Ok((key.clone().into_owned(), value.string().map_err(|error| error.under(key))?)))
            .collect()
    })?;
    Ok(texts.unwrap_or_default())
}
