//! 2WikiMultihopQA (Ho et al., COLING 2020): HotpotQA's schema with `evidences`, `evidences_id`, `entity_ids`,
//! `answer_id`.
//!
//! Sentences do not begin with a space and are joined by one. Aliases are not in the file: `answer_id` is the key into
//! the official `id_aliases.json`. Hugging Face's dump writes the nested fields as JSON inside strings, which is read
//! too.

use super::FormatEntry;
use super::hotpotqa::{self, SentenceJoin};
use crate::error::FieldError;
use crate::gold::GoldMatch;
use crate::question::Question;
use crate::scoring::ScoringScript;
use crate::value::{FieldList, FieldResult, JsonValue};

/// Fields written as JSON inside a string by some dumps.
const NESTED: [&str; 4] = ["context", "supporting_facts", "evidences", "evidences_id"];

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::Title,
    scoring: ScoringScript::TwoWiki,
    asked: 10,
    recognises: |row, _| {
        let marks = ["evidences", "entity_ids", "evidences_id"];
        row.has("question") && row.has("context") && marks.into_iter().any(|mark| row.has(mark))
    },
    read: |row, _| Ok(vec![read_question(row)?]),
    read_table: None,
};

pub(super) fn read_question(row: &JsonValue<'_>) -> FieldResult<Question> {
    let is_text = |key: &&str| matches!(row.get(key), Some(JsonValue::String(_)));
    if !NESTED.iter().any(is_text) {
        return read_fields(row);
    }
    let mut unpacked = row.entries()?.to_vec();
    for (key, value) in &mut unpacked {
        if let Some(name) = NESTED.iter().find(|name| *name == key)
            && let Some(JsonValue::String(text)) = row.get(name)
        {
            *value = JsonValue::parse(text.as_bytes()).map_err(|error| error.under_key(name))?;
        }
    }
    read_fields(&JsonValue::Object(FieldList::new(unpacked)))
}

fn read_fields(row: &JsonValue<'_>) -> FieldResult<Question> {
    let entity_ids = row.optional("entity_ids", |value| match value {
        JsonValue::String(ids) => Ok(ids.split('_').filter(|id| !id.is_empty()).map(str::to_owned).collect()),
        JsonValue::List(_) => value.read_each(JsonValue::string),
        _ => Err(FieldError::new(value.describe(), "ids joined by `_`, or a list of ids")),
    })?;
    Ok(Question {
        answer_id: row.optional("answer_id", JsonValue::string)?,
        evidences: row.list("evidences", read_triple)?,
        evidences_id: row.list("evidences_id", read_triple)?,
        entity_ids: entity_ids.unwrap_or_default(),
        ..hotpotqa::read_common_fields(row, SentenceJoin::With(" "))?
    })
}

pub(super) fn read_triple(value: &JsonValue<'_>) -> FieldResult<[String; 3]> {
    let [subject, relation, object] = value.tuple("a triple [subject, relation, object]")?;
    Ok([
        subject.string().map_err(|error| error.at_index(0))?,
        relation.string().map_err(|error| error.at_index(1))?,
        object.string().map_err(|error| error.at_index(2))?,
    ])
}
