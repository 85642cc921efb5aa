//! MuSiQue (Trivedi et al., TACL 2022): `{id, paragraphs, question, question_decomposition, answer, answer_aliases,
//! answerable}`.
//!
//! `paragraphs` are `{idx, title, paragraph_text, is_supporting}`. A step's `paragraph_support_idx` names one by `idx`,
//! or is null (the Full set's unanswerable questions). Both tables also come by columns. The id begins with the shape
//! of the reasoning (`2hop__…`, `3hop1__…`), which becomes the question's kind. Test sets have no answer,
//! decomposition, support or `answerable`.
//!
//! *Full* has each id twice: a question with the paragraphs that answer it, and the same question without some of them.
//! The answerable one is read as in *Answerable*, under the official id. The other one is read so:
//!
//! * its id is the official one with the mark `__unanswerable`;
//! * it has neither gold answers nor gold passages, although its row has the answer of the answerable one, and its
//!   paragraphs may have a part of the support. `evaluate_v1.0.py` scores answers and support of answerable questions
//!   alone. So no measure against gold is defined for it, and none counts it wrong;
//! * it is in the stratum `answerable=false`.
//!
//! In Full's test set, the later question of an id has the mark `__second` (`questions/unlabelled_pairs.rs`). The first
//! one cannot have a mark by its contents: that another one follows is not known yet, and in *Answerable*'s test set
//! none does. So these ids hold for one order of rows.
//! [`musique_official_id`] takes both marks away, for files in the official format.

use super::{FormatEntry, extend_distinct, single_answer};
use crate::columns::NestedTable;
use crate::error::FieldError;
use crate::gold::GoldMatch;
use crate::passage::PassageRecord;
use crate::question::{GoldPassage, Question, SubQuestion};
use crate::scoring::ScoringScript;
use crate::value::{FieldResult, JsonValue, quoted};

/// Behind the id of a question that is not answerable.
const UNANSWERABLE: &str = "__unanswerable";

/// Behind the id of the second question of a pair without `answerable`.
pub(crate) const SECOND: &str = "__second";

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::TitleAndText,
    scoring: ScoringScript::Musique,
    asked: 30,
    recognises: |row, _| row.has("question") && row.has("paragraphs"),
    read: |row, _| Ok(vec![read_question(row)?]),
    read_table: None,
};

/// The id that MuSiQue's files have for the question `id`: without the mark of MuSiQue-Full's second questions.
///
/// ```
/// use hopeval_datasets::musique_official_id;
/// assert_eq!(musique_official_id("2hop__482757_12019__unanswerable"), "2hop__482757_12019");
/// assert_eq!(musique_official_id("2hop__482757_12019"), "2hop__482757_12019");
/// ```
pub fn musique_official_id(id: &str) -> &str {
    [UNANSWERABLE, SECOND].iter().find_map(|mark| id.strip_suffix(mark)).unwrap_or(id)
}

pub(super) fn read_question(row: &JsonValue<'_>) -> FieldResult<Question> {
    let id = row.required("id", read_id)?;
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
    let mut question = Question {
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
    };
    if question.answerable == Some(false) {
        mark_unanswerable(&mut question);
    }
    Ok(question)
}

fn read_id(value: &JsonValue<'_>) -> FieldResult<String> {
    let id = value.id()?;
    if musique_official_id(&id) == id {
        return Ok(id);
    }
    let allowed = format!("an official id: hopeval itself marks questions by `{UNANSWERABLE}` and `{SECOND}`");
    Err(FieldError::new(quoted(&id), allowed))
}

fn mark_unanswerable(question: &mut Question) {
    question.id.push_str(UNANSWERABLE);
    question.answers.clear();
    question.gold.clear();
    question.strata.insert("answerable".to_owned(), "false".to_owned());
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
