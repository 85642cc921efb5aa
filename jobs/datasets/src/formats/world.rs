//! The generated world's questions: [`Question`] itself, one JSON object per line.
//!
//! Read field by field and not by serde, so that an error names the field's path. Absent and null fields have their
//! defaults. `id` and `text` are required.

use std::collections::BTreeMap;

use super::{FormatEntry, two_wiki::read_triple};
use crate::error::FieldError;
use crate::gold::GoldMatch;
use crate::passage::PassageRecord;
use crate::question::{GoldPassage, Question, SubQuestion};
use crate::scoring::ScoringScript;
use crate::value::{FieldResult, JsonValue};

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::Id,
    scoring: ScoringScript::HotpotQa,
    asked: 90,
    recognises: |row, _| row.has("text") && row.has("answers") && row.has("gold"),
    read: |row, _| Ok(vec![read_question(row)?]),
    read_table: None,
};

pub(super) fn read_question(row: &JsonValue<'_>) -> FieldResult<Question> {
    let question = Question {
        id: row.required("id", JsonValue::id)?,
        text: row.required("text", JsonValue::text)?,
        answers: row.list("answers", JsonValue::string)?,
        answer_spans: row.list("answer_spans", JsonValue::string)?,
        answer_id: row.optional("answer_id", JsonValue::string)?,
        answer_kind: row.optional("answer_kind", JsonValue::string)?,
        answerable: row.optional("answerable", JsonValue::bool)?,
        gold: row.list("gold", read_gold)?,
        gold_sets: Vec::new(),
        candidates: row.list("candidates", PassageRecord::read)?,
        supporting_facts: row.list("supporting_facts", |value| {
            let [title, index] = value.tuple("a pair [title, index of a sentence]")?;
            Ok((title.string().map_err(|error| error.at_index(0))?, index.index().map_err(|error| error.at_index(1))?))
        })?,
        evidences: row.list("evidences", read_triple)?,
        evidences_id: row.list("evidences_id", read_triple)?,
        entity_ids: row.list("entity_ids", JsonValue::string)?,
        decomposition: Vec::new(),
        facts: row.list("facts", JsonValue::string)?,
        rationale: row.optional("rationale", JsonValue::string)?,
        kind: row.optional("kind", JsonValue::string)?,
        level: row.optional("level", JsonValue::string)?,
        hops: row.optional("hops", JsonValue::index)?,
        strata: read_texts(row, "strata")?,
        context: row.optional("context", PassageRecord::read)?,
        links: row.list("links", JsonValue::string)?,
        notes: read_texts(row, "notes")?,
    };
    let gold_sets =
        row.list("gold_sets", |set| set.read_each(|index| index_below(index, question.gold.len(), "`gold`")))?;
    let decomposition = row.list("decomposition", |step| {
        Ok(SubQuestion {
            question: step.required("question", JsonValue::string)?,
            answer: step.optional("answer", JsonValue::string)?,
            support: step.optional("support", |index| index_below(index, question.candidates.len(), "`candidates`"))?,
            evidence: step.list("evidence", JsonValue::string)?,
        })
    })?;
    Ok(Question { gold_sets, decomposition, ..question })
}

pub(crate) fn read_gold(value: &JsonValue<'_>) -> FieldResult<GoldPassage> {
    Ok(GoldPassage {
        id: value.optional("id", JsonValue::id)?,
        title: value.optional("title", JsonValue::string)?,
        text: value.optional("text", JsonValue::string)?,
        snippets: value.list("snippets", JsonValue::string)?,
        grade: value.optional("grade", read_grade)?.unwrap_or(1),
    })
}

fn read_grade(value: &JsonValue<'_>) -> FieldResult<u32> {
    value.index().ok().filter(|&grade| grade > 0).ok_or_else(|| {
        FieldError::new(value.describe(), "a whole number, at least 1: a passage that is not relevant is not gold")
    })
}

/// An index into a list of `length`.
fn index_below(value: &JsonValue<'_>, length: usize, list: &str) -> FieldResult<u32> {
    let index = value.index()?;
    if (index as usize) < length {
        Ok(index)
    } else {
        Err(FieldError::new(value.describe(), format!("an index into {list}, which has {length}")))
    }
}

fn read_texts(row: &JsonValue<'_>, key: &str) -> FieldResult<BTreeMap<String, String>> {
    let texts = row.optional(key, |value| {
        value
            .entries()?
            .iter()
            .map(|(key, value)| Ok((key.clone().into_owned(), value.string().map_err(|error| error.under_key(key))?)))
            .collect()
    })?;
    Ok(texts.unwrap_or_default())
}
