//! FlashRAG's `{id, question, golden_answers, metadata}` (Jin et al., 2024), its common schema for some forty datasets.
//!
//! HotpotQA's fields in `metadata` (`type`, `level`, `supporting_facts`, `context`) are read as such. Sentences are
//! joined by nothing if they begin with a space, otherwise by a space. All other metadata becomes notes.

use super::hotpotqa::{SentenceJoin, read_context};
use super::{FormatEntry, answer_list};
use crate::gold::GoldMatch;
use crate::question::Question;
use crate::scoring::ScoringScript;
use crate::value::{FieldResult, JsonValue};

/// Metadata with a place in the question model.
const READ: [&str; 4] = ["type", "level", "supporting_facts", "context"];

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::Id,
    scoring: ScoringScript::Squad,
    asked: 50,
    recognises: |row, _| row.has("golden_answers"),
    read: |row, _| Ok(vec![read_question(row)?]),
    read_table: None,
};

pub(super) fn read_question(row: &JsonValue<'_>) -> FieldResult<Question> {
    let mut question = Question {
        id: row.required("id", JsonValue::id)?,
        text: row.required("question", JsonValue::text)?,
        answers: row.required("golden_answers", answer_list)?,
        ..Question::default()
    };
    row.optional("metadata", |metadata| {
        let entries = metadata.entries()?;
        let is_table = |key| matches!(metadata.get(key), Some(JsonValue::List(_) | JsonValue::Object(_)));
        // Other datasets have a text as `context`; HotpotQA's is a table.
        let tables = is_table("supporting_facts") && is_table("context");
        if tables {
            read_context(metadata, SentenceJoin::Guess, &mut question)?;
        }
        let text = |key| metadata.get(key).and_then(|value| value.string().ok());
        question.kind = text("type");
        question.level = text("level");
        let is_read = |key: &str| match key {
            "type" => question.kind.is_some(),
            "level" => question.level.is_some(),
            key => tables && READ.contains(&key),
        };
        question.notes = entries
            .iter()
            .filter(|(key, _)| !is_read(key))
            .map(|(key, value)| (key.clone().into_owned(), value.note_text()))
            .collect();
        Ok(())
    })?;
    Ok(question)
}
