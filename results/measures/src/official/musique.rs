//! `evaluate_v1.0.py` of MuSiQue: three figures, and two more if some gold question is unanswerable. The script rounds
//! these fractions to three digits.

use std::collections::HashMap;
use std::io::Read;

use super::input::FileRow;
use super::{FileRole, MeasureError, OfficialFigures, input};
use crate::answer::{AnswerScorer, Profile};
use crate::facts::support_indices;

/// A question of MuSiQue-Full. It comes twice: with and without the paragraphs needed to answer it.
#[derive(Default)]
struct SufficiencyGroup {
    /// Answer and support F1 of its answerable side.
    answerable: Option<(f64, f64)>,
    predicted: Vec<bool>,
    gold: Vec<bool>,
}

/// The figures in the script's order.
pub(super) fn score_files(predictions: impl Read, gold: impl Read) -> Result<OfficialFigures, MeasureError> {
    let predictions = input::read_rows(FileRole::Predictions, predictions)?;
    let gold = input::read_rows(FileRole::Gold, gold)?;
    if gold.is_empty() {
        return Err(MeasureError::Empty { role: FileRole::Gold });
    }
    if gold.len() != predictions.len() {
        let problem = format!("{} gold rows, {} predictions", gold.len(), predictions.len());
        return Err(MeasureError::Mismatch { problem });
    }
    let questions = gold.len() as u64;
    let mut scorer = AnswerScorer::new();
    let (mut em, mut f1, mut support_f1, mut answerable) = (0.0, 0.0, 0.0, 0u64);
    let mut unanswerable = false;
    let mut groups: Vec<SufficiencyGroup> = Vec::new();
    let mut group_of: HashMap<String, usize> = HashMap::new();
    for (mut question, mut prediction) in gold.into_iter().zip(predictions) {
        let id = question.take_id("id")?;
        let predicted_id = prediction.take_id("id")?;
        if id != predicted_id {
            let problem = format!(
                "gold {} stands against predictions {}; they must have the same ids in the same order",
                question.at(),
                prediction.at()
            );
            return Err(MeasureError::Mismatch { problem });
        }
        let index = *group_of.entry(id).or_insert(groups.len());
        if index == groups.len() {
            groups.push(SufficiencyGroup::default());
        }
        let group = &mut groups[index];
        let is_answerable = question.optional("answerable").map_or(Ok(true), |v| question.truth_of("answerable", v))?;
        if is_answerable {
            let mut golds = question.answers("answer")?;
            golds.extend(question.texts("answer_aliases")?);
            let answer = scorer.score(Profile::Musique, prediction.text("predicted_answer")?, &golds);
            let field = "predicted_support_idxs";
            let predicted =
                prediction.list_of(field, prediction.required(field)?, |value| prediction.integer(field, value))?;
            let support = support_indices(&predicted, &gold_support(&question)?);
            em += answer.em;
            f1 += answer.f1;
            support_f1 += support.f1;
            answerable += 1;
            group.answerable = Some((answer.f1, support.f1));
        }
        unanswerable |= !is_answerable;
        group.gold.push(is_answerable);
        group.predicted.push(prediction.bool_field("predicted_answerable")?);
    }
    let mean = |sum: f64| if answerable > 0 { sum / answerable as f64 } else { 0.0 };
    let mut figures = vec![("answer_f1", mean(f1)), ("answer_em", mean(em)), ("support_f1", mean(support_f1))];
    if unanswerable {
        let [answer, support] = sufficiency_scores(&groups)?;
        figures.push(("group_answer_sufficiency_f1", answer));
        figures.push(("group_support_sufficiency_f1", support));
    }
    // Every row has a prediction; otherwise the two files would not match row by row.
    Ok(OfficialFigures { figures, questions, predicted: vec![("answer", questions), ("support", questions)] })
}

/// The mean F1 of answer and support over questions, 0 if sufficiency was misjudged on either side.
fn sufficiency_scores(groups: &[SufficiencyGroup]) -> Result<[f64; 2], MeasureError> {
    let (mut answer, mut support) = (0.0, 0.0);
    for group in groups {
        let (true, Some((answer_f1, support_f1))) = (group.gold.len() == 2, group.answerable) else {
            return Err(MeasureError::Mismatch {
                problem: "with unanswerable questions, every id must come twice, once answerable".to_owned(),
            });
        };
        if group.predicted == group.gold {
            answer += answer_f1;
            support += support_f1;
        }
    }
    let n = groups.len() as f64;
    Ok([answer / n, support / n])
}

/// The indices of the supporting paragraphs; paragraphs are a list of objects, or an object of lists.
fn gold_support(question: &FileRow) -> Result<Vec<i64>, MeasureError> {
    let paragraphs = question.required("paragraphs")?;
    let missing = |field: &str| question.field_error(field, "is missing");
    let mut support = Vec::new();
    let mut add = |index: &serde_json::Value, supporting: &serde_json::Value| {
        let index = question.integer("paragraphs.idx", index)?;
        if question.truth_of("paragraphs.is_supporting", supporting)? {
            support.push(index);
        }
        Ok(())
    };
    if let Some(columns) = paragraphs.as_object() {
        let column = |name: &str| columns.get(name).and_then(|v| v.as_array()).ok_or_else(|| missing(name));
        for (index, supporting) in column("idx")?.iter().zip(column("is_supporting")?) {
            add(index, supporting)?;
        }
    } else {
        question.list_of("paragraphs", paragraphs, |_| Ok(()))?;
        for paragraph in paragraphs.as_array().into_iter().flatten() {
            let field = |name: &str| paragraph.get(name).ok_or_else(|| missing(&format!("paragraphs.{name}")));
            add(field("idx")?, field("is_supporting")?)?;
        }
    }
    Ok(support)
}
