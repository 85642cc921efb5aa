//! MuSiQue (Trivedi et al., TACL 2022): `{id, paragraphs, question, question_decomposition, answer, answer_aliases,
//! answerable}`.
//!
//! `paragraphs` are `{idx, title, paragraph_text, is_supporting}`. A step's `paragraph_support_idx` names one by `idx`,
//! or is null (the Full set's unanswerable questions). Both tables also come by columns. The id begins with the shape
//! of the reasoning (`2hop__…`, `3hop1__…`), which becomes the question's kind. Test sets have no answer, decomposition
//! or support.

use super::{FormatEntry, extend_distinct, single_answer};
use crate::columns::NestedTable;
use crate::error::FieldError;
use crate::gold::GoldMatch;
use crate::passage::PassageRecord;
use crate::question::{GoldPassage, Question, SubQuestion};
use crate::scoring::ScoringScript;
use crate::value::{FieldResult, JsonValue};

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::TitleAndText,
    scoring: ScoringScript::Musique,
    asked: 30,
    recognises: |row, _| row.has("question") && row.has("paragraphs"),
    read: |row, _| Ok(vec![read_question(row)?]),
    read_table: None,
};

pub(super) fn read_question(row: &JsonValue<'_>) -> FieldResult<Question> {
    let id = row.required("id", JsonValue::id)?;
    let paragraphs = row.required("paragraphs", read_paragraphs)?;
    let decomposition =
        row.optional("question_decomposition", |value| read_decomposition(value, &paragraphs.idx))?.unwrap_or_default();

    // The path's passages in its order, then the other marked ones.
    let mut support: Vec<usize> = Vec::new();
    extend_distinct(&mut support, decomposition.iter().filter_map(|step| step.support).map(|at| at as usize));
    extend_distinct(&mut support, paragraphs.supporting);
    let gold = support.iter().map(|&at| {
        let PassageRecord { title, text, .. } = &paragraphs.passages[at];
        GoldPassage { title: Some(title.clone()), text: Some(text.clone()), ..GoldPassage::default() }
    });

    let mut answers = single_answer(row)?;
    extend_distinct(&mut answers, row.list("answer_aliases", JsonValue::string)?);
    let shape = id.split("__").next().filter(|shape| shape.contains("hop")).map(str::to_owned);
    let hops = match decomposition.len() {
        0 => shape.as_ref().and_then(|shape| shape.split("hop").next()?.parse().ok()),
        steps => Some(steps as u32),
    };
    Ok(Question {
        text: row.required("question", JsonValue::text)?,
        answers,
        answerable: row.optional("answerable", JsonValue::bool)?,
        gold: gold.collect(),
        kind: shape,
        hops,
        candidates: paragraphs.passages,
        decomposition,
        id,
        ..Question::default()
    })
}

struct ParagraphTable {
    passages: Vec<PassageRecord>,
    /// Each paragraph's `idx`.
    idx: Vec<u32>,
    /// Positions of the supporting paragraphs.
    supporting: Vec<usize>,
}

fn read_paragraphs(value: &JsonValue<'_>) -> FieldResult<ParagraphTable> {
    let table = NestedTable::from_value(value)?;
    let mut read =
        ParagraphTable { passages: Vec::with_capacity(table.len()), idx: Vec::new(), supporting: Vec::new() };
    for at in 0..table.len() {
        read.idx.push(table.optional_cell(at, "idx", JsonValue::index)?.unwrap_or(at as u32));
        read.passages.push(PassageRecord {
            title: table.required_cell(at, "title", JsonValue::string)?,
            text: table.required_cell(at, "paragraph_text", JsonValue::string)?,
            ..PassageRecord::default()
        });
        if table.optional_cell(at, "is_supporting", JsonValue::bool)? == Some(true) {
            read.supporting.push(at);
        }
    }
    Ok(read)
}

fn read_decomposition(value: &JsonValue<'_>, idx: &[u32]) -> FieldResult<Vec<SubQuestion>> {
    let table = NestedTable::from_value(value)?;
    (0..table.len())
        .map(|at| {
            let support = table.optional_cell(at, "paragraph_support_idx", |value| {
                let named = value.index()?;
                let position = idx.iter().position(|&idx| idx == named);
                position
                    .map(|position| position as u32)
                    .ok_or_else(|| FieldError::new(value.describe(), "the `idx` of one of the paragraphs, or null"))
            })?;
            Ok(SubQuestion {
                question: table.required_cell(at, "question", JsonValue::string)?,
                answer: table.optional_cell(at, "answer", JsonValue::string)?,
                support,
                evidence: Vec::new(),
            })
        })
        .collect()
}
