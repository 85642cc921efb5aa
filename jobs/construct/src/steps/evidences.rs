//! Steps from evidence triples (2WikiMultihopQA).
//!
//! A triple needs an earlier one if its subject is the earlier one's object. Both are compared in lower case and
//! without parentheses. If names do not agree (the dataset names some people differently in both places), the
//! question's kind decides: the second of two triples of `compositional` and `inference` questions needs the first, the
//! third and fourth of `bridge_comparison` need the first and second. The passage of a triple is the gold one with its
//! subject as title, compared exactly, then as above; else the one at its position, if there are as many passages as
//! triples.

use super::{QuestionStep, StepPassage, stated_at};
use crate::skip::SkipReason;
use crate::words::lower_case;
use hopeval_datasets::Question;

pub(super) fn steps(question: &Question) -> Result<Vec<QuestionStep>, SkipReason> {
    let triples = &question.evidences;
    let mut steps = Vec::with_capacity(triples.len());
    for (at, [subject, relation, object]) in triples.iter().enumerate() {
        if object.trim().is_empty() {
            return Err(SkipReason::StepWithoutAnswer);
        }
        let needs: Vec<usize> = needed_step(question, at).into_iter().collect();
        let known = needs.is_empty().then(|| subject.clone());
        steps.push(QuestionStep {
            asks: match &known {
                Some(subject) => format!("{relation} of {subject}"),
                None => relation.clone(),
            },
            subject: known,
            about: vec![subject.clone()],
            relation: relation.clone(),
            needs,
            depth: 0,
            needed_by: Vec::new(),
            answer: object.clone(),
            passage: step_passage(question, at).ok_or(SkipReason::StepWithoutPassage)?,
        });
    }
    Ok(steps)
}

fn needed_step(question: &Question, at: usize) -> Option<usize> {
    let triples = &question.evidences;
    let subject = folded_name(&triples[at][0]);
    let by_name = triples[..at].iter().position(|[_, _, object]| folded_name(object) == subject);
    by_name.or_else(|| match (question.kind.as_deref(), triples.len(), at) {
        (Some("compositional" | "inference"), 2, 1) => Some(0),
        (Some("bridge_comparison"), 4, 2 | 3) => Some(at - 2),
        _ => None,
    })
}

fn step_passage(question: &Question, at: usize) -> Option<StepPassage> {
    let subject = &question.evidences[at][0];
    let titles: Vec<&str> = question.gold.iter().filter_map(|gold| gold.title.as_deref()).collect();
    let exact = titles.iter().find(|title| *title == subject);
    let folded_alike = || titles.iter().find(|title| folded_name(title) == folded_name(subject));
    let by_place = || titles.get(at).filter(|_| titles.len() == question.evidences.len());
    let title = *exact.or_else(folded_alike).or_else(by_place)?;
    let candidate = question.candidates.iter().find(|candidate| candidate.title == title)?;
    Some(StepPassage::from_record(candidate, stated_at(question, title)))
}

/// A name for comparison.
fn folded_name(name: &str) -> String {
    let bare = name.split_once(" (").map_or(name, |(bare, _)| bare);
    lower_case(bare.trim())
}
