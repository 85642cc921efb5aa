//! `hotpot_evaluate_v1.py`: twelve figures, as fractions of all gold questions.

use std::io::Read;

use super::{FileRole, MeasureError, OfficialFigures, ScoreSums, input};
use crate::answer::{AnswerScorer, Profile};
use crate::facts::{SetScore, joint, supporting_facts};

const NAMES: [&str; 12] = [
    "em",
    "f1",
    "prec",
    "recall",
    "sp_em",
    "sp_f1",
    "sp_prec",
    "sp_recall",
    "joint_em",
    "joint_f1",
    "joint_prec",
    "joint_recall",
];

/// The figures in the script's order. A question without prediction adds nothing and stays in the denominator; the
/// joint figures need both parts.
pub(super) fn score_files(predictions: impl Read, gold: impl Read) -> Result<OfficialFigures, MeasureError> {
    let predictions = input::read_object(FileRole::Predictions, predictions)?;
    let (answers, facts) = (predictions.object("answer")?, predictions.object("sp")?);
    let gold = input::read_rows(FileRole::Gold, gold)?;
    if gold.is_empty() {
        return Err(MeasureError::Empty { role: FileRole::Gold });
    }
    let (questions, n) = (gold.len() as u64, gold.len() as f64);
    let mut scorer = AnswerScorer::new();
    let (mut predicted_answers, mut predicted_facts) = (0, 0);
    let mut sums = [ScoreSums::default(); 3];
    for mut question in gold {
        let id = question.take_id("_id")?;
        let golds = question.answers("answer")?;
        let mut parts: Vec<SetScore> = Vec::with_capacity(2);
        if let Some(answer) = answers.get(&id) {
            let answer = answer.as_str().ok_or_else(|| {
                predictions.field_error(
                    &format!("answer.{id}"),
                    format!("is {}, allowed is a string", input::value_kind(answer)),
                )
            })?;
            parts.push(scorer.score(Profile::HotpotQa, answer, &golds).into());
            predicted_answers += 1;
            sums[0].add(parts[0]);
        }
        if let Some(predicted) = facts.get(&id) {
            let predicted = predictions.facts(&format!("sp.{id}"), predicted)?;
            let gold = question.facts("supporting_facts", question.required("supporting_facts")?)?;
            let score = supporting_facts(&predicted, &gold);
            predicted_facts += 1;
            sums[1].add(score);
            parts.push(score);
        }
        if let [answer, facts] = parts[..] {
            sums[2].add(joint(&[answer, facts]));
        }
    }
    let predicted = vec![("answer", predicted_answers), ("sp", predicted_facts)];
    let values = sums.into_iter().flat_map(ScoreSums::values);
    let figures = NAMES.into_iter().zip(values).map(|(name, sum)| (name, sum / n)).collect();
    Ok(OfficialFigures { figures, questions, predicted })
}
