//! Steps from a decomposition (MuSiQue, generated worlds).

use super::{QuestionStep, StepPassage, stated_at};
use crate::skip::SkipReason;
use hopeval_datasets::{Question, SubQuestion};

/// MuSiQue's sign between a subject and a relation.
const ARROW: &str = " >> ";

pub(super) fn steps(question: &Question) -> Result<Vec<QuestionStep>, SkipReason> {
    let parts = &question.decomposition;
    parts.iter().enumerate().map(|(at, part)| decomposed_step(question, at, part)).collect()
}

fn decomposed_step(question: &Question, at: usize, part: &SubQuestion) -> Result<QuestionStep, SkipReason> {
    let answer = part.answer.clone().filter(|answer| !answer.trim().is_empty()).ok_or(SkipReason::StepWithoutAnswer)?;
    let (asks, references) = without_references(&part.question);
    let mut needs = Vec::new();
    for reference in references {
        let need = reference.checked_sub(1).filter(|need| *need < at).ok_or(SkipReason::BadReference)?;
        if !needs.contains(&need) {
            needs.push(need);
        }
    }
    let triple = question.evidences.get(at).filter(|_| question.evidences.len() == question.decomposition.len());
    let (subject, relation) = match (triple, asks.split_once(ARROW.trim())) {
        (Some([subject, relation, _]), _) => (Some(subject.clone()), relation.clone()),
        (None, Some((subject, relation))) => (Some(subject.trim().to_owned()), relation.trim().to_owned()),
        (None, None) => (None, String::new()),
    };
    let subject = subject.filter(|subject| !subject.is_empty());
    let about = subject.clone().into_iter().collect();
    let subject = subject.filter(|_| needs.is_empty());
    Ok(QuestionStep {
        asks,
        subject,
        about,
        relation,
        needs,
        depth: 0,
        needed_by: Vec::new(),
        answer,
        passage: step_passage(question, at, part).ok_or(SkipReason::StepWithoutPassage)?,
    })
}

fn step_passage(question: &Question, at: usize, part: &SubQuestion) -> Option<StepPassage> {
    if let Some(candidate) = part.support.and_then(|support| question.candidates.get(support as usize)) {
        // A world names one sentence for each step, in their order.
        let aligned = question.supporting_facts.len() == question.decomposition.len();
        let own = question.supporting_facts.get(at).filter(|(title, _)| aligned && *title == candidate.title);
        let sentence = own.map(|(_, sentence)| *sentence).or_else(|| stated_at(question, &candidate.title));
        return Some(StepPassage::from_record(candidate, sentence));
    }
    let id = part.evidence.first()?;
    Some(StepPassage { id: Some(id.clone()), ..StepPassage::default() })
}

/// A sub-question without `#n`, and the numbers.
fn without_references(question: &str) -> (String, Vec<usize>) {
    let mut text = String::with_capacity(question.len());
    let mut numbers = Vec::new();
    let mut rest = question;
    while let Some(at) = rest.find('#') {
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        text.push_str(&rest[..at]);
        match rest[at + 1..at + 1 + digits].parse() {
            Ok(number) => numbers.push(number),
            // A `#` without a number stays.
            Err(_) => text.push('#'),
        }
        rest = &rest[at + 1 + digits..];
    }
    text.push_str(rest);
    (text, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_taken_out() {
        assert_eq!(without_references("Who led #1 and #12 ?"), ("Who led  and  ?".to_owned(), vec![1, 12]));
        assert_eq!(without_references("#2 >> mayor"), (" >> mayor".to_owned(), vec![2]));
        assert_eq!(without_references("the C# book #"), ("the C# book #".to_owned(), vec![]));
    }
}
