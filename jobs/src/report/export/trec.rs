//! Rankings and relevance judgements for trec_eval, with the figures that hopeval shows.
//!
//! trec_eval orders documents by their scores in single precision, and equal scores by name. It ignores the ranks of
//! the file. So each exported score is less than the one before it, also in single precision.
//!
//! A gold passage that several passages of the corpus satisfy is one document of the judgements, named by the first of
//! them. A run gives this name to the one that it ranks first.

use super::{EvaluatedRows, ExportError};
use crate::prepare::questions::QuestionDetails;
use crate::prepare::rankings::exported_name;
use crate::run::open::OpenRun;
use hopeval_results::Log;
use std::collections::BTreeSet;
use std::io::Write;

/// Writes a run: `qid Q0 docid rank score tag`.
pub(super) fn write_run(
    run: &OpenRun,
    log: &Log,
    configuration: &str,
    rows: &EvaluatedRows,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let tag = exported_name(configuration);
    let mut outcomes = rows.iter().peekable();
    for question in run.questions_from(log, 0)? {
        let question = question?;
        // An unfinished run may lack cohorts in the middle.
        let Some((outcome, _)) = outcomes.next_if(|(outcome, _)| outcome.index == question.index) else { continue };
        let name = exported_name(&outcome.question);
        let documents = named_documents(&outcome.ranked, &question.gold);
        run.passages.require(&run.record, documents.iter().copied())?;
        for (place, (id, score)) in documents.into_iter().zip(falling_scores(&outcome.scores)).enumerate() {
            let document = exported_name(run.passages.id(id));
            writeln!(out, "{name} Q0 {document} {} {score:?} {tag}", place + 1)?;
        }
    }
    Ok(())
}

/// Writes the judgements of all questions: `qid 0 docid grade`, a line for each gold passage. Returns the number of
/// questions with gold passages.
pub(super) fn write_qrels(run: &OpenRun, log: &Log, out: &mut dyn Write) -> Result<u64, ExportError> {
    let mut judged = 0;
    for question in run.questions_from(log, 0)? {
        let question = question?;
        let (name, mut seen) = (exported_name(&question.id), BTreeSet::new());
        run.passages.require(&run.record, question.gold.iter().flatten().copied())?;
        let grades = QuestionDetails::of_row(&question).gold_grades;
        for (at, group) in question.gold.iter().enumerate() {
            let (Some(&passage), grade) = (group.first(), grades.get(at).unwrap_or(&1)) else { continue };
            // trec_eval refuses a document that is judged twice.
            if seen.insert(passage) {
                writeln!(out, "{name} 0 {} {grade}", exported_name(run.passages.id(passage)))?;
            }
        }
        judged += u64::from(!seen.is_empty());
    }
    Ok(judged)
}

/// The ranked passages as documents of the judgements: in each group of gold, the first ranked passage and the group's
/// first one swap their names.
fn named_documents(ranked: &[u32], gold: &[Vec<u32>]) -> Vec<u32> {
    let mut named = ranked.to_vec();
    for group in gold.iter().filter(|group| group.len() > 1) {
        let Some(first) = ranked.iter().position(|id| group.contains(id)) else { continue };
        let judged = group[0];
        if let Some(later) = ranked.iter().position(|&id| id == judged) {
            named[later] = ranked[first];
        }
        named[first] = judged;
    }
    named
}

/// The scores of a ranking, each less than the one before it in single precision. A score that already is stays
/// unchanged; another becomes the next smaller number of single precision. A ranking with an infinite score, for which
/// there is no smaller one, is scored by its ranks.
fn falling_scores(scores: &[f64]) -> Vec<f64> {
    let mut last = f32::INFINITY;
    let falling: Vec<f64> = scores
        .iter()
        .map(|&score| {
            let falling = if (score as f32) < last { score } else { f64::from(last.next_down()) };
            last = falling as f32;
            falling
        })
        .collect();
    if last.is_finite() { falling } else { (1..=scores.len()).rev().map(|rank| rank as f64).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_fall_in_single_precision() {
        let falls = |scores: &[f64]| {
            let falling = falling_scores(scores);
            assert_eq!(falling.len(), scores.len());
            assert!(falling.iter().all(|score| (*score as f32).is_finite()), "{scores:?} {falling:?}");
            assert!(falling.windows(2).all(|pair| pair[1] < pair[0]), "{scores:?} {falling:?}");
            assert!(falling.windows(2).all(|pair| (pair[1] as f32) < pair[0] as f32), "{scores:?} {falling:?}");
            falling
        };
        assert_eq!(falls(&[3.5, 2.25, 0.1]), [3.5, 2.25, 0.1], "nothing is tied");
        // Equal; equal in single precision only; then one that the ties have overtaken.
        let tied = falls(&[2.0, 2.0, 2.0 - 1e-12, 2.0 - 2e-7, 1.0]);
        assert_eq!((tied[0], tied[4]), (2.0, 1.0));
        falls(&[0.0; 300]);
        falls(&[1.0, 5.0, 5.0, -3.0]);
        falls(&[f64::INFINITY, f64::NAN, 1.0, 1.0]);
        assert_eq!(falls(&[1.0, f64::NEG_INFINITY, f64::NEG_INFINITY]), [3.0, 2.0, 1.0]);
        assert!(falling_scores(&[]).is_empty());
    }

    #[test]
    fn the_first_of_equal_golds_has_the_judged_name() {
        let gold = [vec![4], vec![7, 8, 9]];
        assert_eq!(named_documents(&[1, 4, 7, 8], &gold), [1, 4, 7, 8]);
        assert_eq!(named_documents(&[9, 4, 2, 7], &gold), [7, 4, 2, 9]);
        assert_eq!(named_documents(&[1, 8, 9], &gold), [1, 7, 9]);
        assert_eq!(named_documents(&[1, 2], &gold), [1, 2]);
    }
}
