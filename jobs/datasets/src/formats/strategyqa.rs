//! StrategyQA (Geva et al., TACL 2021): `{qid, term, description, question, answer, facts, decomposition, evidence}`.
//!
//! `evidence` has one list per annotator, with one list per step of the decomposition. A step's list has paragraph ids,
//! possibly nested, and the marks `operation` (no evidence is needed) and `no_evidence` (not found). The gold passages
//! are the union. Each annotator's own set is kept, since the paper takes the best of them. A paragraph id is the
//! article's title, a hyphen and a number. Test sets have only `qid` and `question`.

use super::{FormatEntry, extend_distinct};
use crate::error::FieldError;
use crate::gold::GoldMatch;
use crate::question::{GoldPassage, Question, SubQuestion};
use crate::scoring::ScoringScript;
use crate::value::{FieldResult, JsonValue};

/// Marks in an evidence list, in place of a paragraph.
const MARKS: [&str; 2] = ["operation", "no_evidence"];

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::Id,
    scoring: ScoringScript::StrategyQa,
    asked: 60,
    recognises: |row, _| row.has("qid") && row.has("question") && !row.has("answers") && is_own(row),
    read: |row, _| Ok(vec![read_question(row)?]),
    read_table: None,
};

/// Whether a row is not one of open questions, which may have a `qid`, too: the answer is true, false or not there, or
/// the row has fields of this dataset alone.
fn is_own(row: &JsonValue<'_>) -> bool {
    let own_fields = ["decomposition", "evidence", "term"];
    matches!(row.get("answer"), None | Some(JsonValue::Bool(_))) || own_fields.iter().any(|field| row.has(field))
}

pub(super) fn read_question(row: &JsonValue<'_>) -> FieldResult<Question> {
    let steps = row.list("decomposition", JsonValue::string)?;
    let mut decomposition: Vec<SubQuestion> =
        steps.into_iter().map(|question| SubQuestion { question, ..SubQuestion::default() }).collect();
    let mut ids: Vec<String> = Vec::new();
    let mut gold_sets = Vec::new();
    for annotator in row.list("evidence", |annotator| annotator.read_each(paragraph_ids))? {
        let mut set = Vec::new();
        for (step, evidence) in annotator.into_iter().enumerate() {
            extend_distinct(&mut ids, evidence.iter().cloned());
            let positions = evidence.iter().filter_map(|id| ids.iter().position(|known| known == id));
            extend_distinct(&mut set, positions.map(|at| at as u32));
            if let Some(step) = decomposition.get_mut(step) {
                extend_distinct(&mut step.evidence, evidence);
            }
        }
        gold_sets.push(set);
    }
    let notes = ["term", "description"].into_iter().filter_map(|key| Some((key.to_owned(), row.get(key)?.note_text())));
    let id = if row.has("qid") { "qid" } else { "id" };
    Ok(Question {
        id: row.required(id, JsonValue::id)?,
        text: row.required("question", JsonValue::text)?,
        answers: row.optional("answer", yes_or_no)?.into_iter().collect(),
        gold: ids.into_iter().map(gold_passage).collect(),
        gold_sets,
        hops: (!decomposition.is_empty()).then_some(decomposition.len() as u32),
        decomposition,
        facts: row.list("facts", JsonValue::string)?,
        notes: notes.collect(),
        ..Question::default()
    })
}

fn yes_or_no(value: &JsonValue<'_>) -> FieldResult<String> {
    Ok(if value.bool()? { "yes" } else { "no" }.to_owned())
}

/// All ids in one step's evidence, at any depth, in order.
fn paragraph_ids(value: &JsonValue<'_>) -> FieldResult<Vec<String>> {
    match value {
        JsonValue::String(mark) if MARKS.contains(&mark.as_ref()) => Ok(Vec::new()),
        JsonValue::String(id) => Ok(vec![id.clone().into_owned()]),
        JsonValue::List(_) => Ok(value.read_each(paragraph_ids)?.into_iter().flatten().collect()),
        _ => Err(FieldError::new(value.describe(), "a paragraph id, `operation`, `no_evidence`, or a list of them")),
    }
}

fn gold_passage(id: String) -> GoldPassage {
    let title = id.rsplit_once('-').map(|(title, _)| title.to_owned());
    GoldPassage { id: Some(id), title, ..GoldPassage::default() }
}
