//! Turns a question's annotations into steps, with their answers, passages and dependencies.
//!
//! MuSiQue and generated worlds have decompositions: `#n` stands for the answer of the n-th step. 2WikiMultihopQA has
//! evidence triples: the subject of one is the object of another. Both become [`QuestionStep`]s.

mod decomposition;
mod evidences;

use crate::skip::SkipReason;
use hopeval_datasets::{PassageRecord, Question};

/// One single-hop question of a multi-hop question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuestionStep {
    /// The sub-question without its references, or relation and subject.
    pub(crate) asks: String,
    /// The name of its subject, if known: the subject of a triple without dependencies.
    pub(crate) subject: Option<String>,
    /// Names of its subjects: the subject of its triple, else the answers it needs; empty for a first step in free
    /// words.
    pub(crate) about: Vec<String>,
    /// The name of the relation, or empty.
    pub(crate) relation: String,
    /// Positions of the steps needed for their answers.
    pub(crate) needs: Vec<usize>,
    /// The hop that answers it: 1 if it needs nothing, else one more than the deepest it needs.
    pub(crate) depth: u32,
    /// Positions of the steps in need of its answer.
    pub(crate) needed_by: Vec<usize>,
    /// Its answer.
    pub(crate) answer: String,
    /// The passage that answers it.
    pub(crate) passage: StepPassage,
}

/// A gold passage as the dataset describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepPassage {
    pub(crate) id: Option<String>,
    pub(crate) title: String,
    /// Empty if the dataset gives the passage by reference.
    pub(crate) text: String,
    /// Ends of its sentences in `text`, in bytes.
    pub(crate) sentences: Vec<u32>,
    /// The sentence that states the fact, if the dataset names it.
    pub(crate) sentence: Option<u32>,
}

impl StepPassage {
    fn from_record(record: &PassageRecord, sentence: Option<u32>) -> Self {
        Self {
            id: record.id.clone(),
            title: record.title.clone(),
            text: record.text.clone(),
            sentences: record.sentences.clone(),
            sentence,
        }
    }
}

/// The steps of a question, in the dataset's order.
pub(crate) fn question_steps(question: &Question) -> Result<Vec<QuestionStep>, SkipReason> {
    let mut steps = if !question.decomposition.is_empty() {
        decomposition::steps(question)?
    } else if !question.evidences.is_empty() {
        evidences::steps(question)?
    } else {
        return Err(SkipReason::NoAnnotations);
    };
    for at in 0..steps.len() {
        // Needs point backwards only, so depths are known by the time they are needed.
        let below = steps[at].needs.iter().map(|&need| steps[need].depth).max().unwrap_or(0);
        steps[at].depth = below + 1;
        if steps[at].about.is_empty() {
            steps[at].about = steps[at].needs.iter().map(|&need| steps[need].answer.clone()).collect();
        }
        for need in steps[at].needs.clone() {
            steps[need].needed_by.push(at);
        }
    }
    Ok(steps)
}

/// The number of the first supporting sentence of a title.
fn stated_at(question: &Question, title: &str) -> Option<u32> {
    question.supporting_facts.iter().find(|(named, _)| named == title).map(|(_, sentence)| *sentence)
}
