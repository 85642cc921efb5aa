//! A language model's annotation of a question's hops: the outcome of `efficientrag_data` and the source of training
//! data.
//!
//! It is stored as JSON in the place of an answer ([`crate::Outcome::answer`]). Steps are the single-hop questions of a
//! multi-hop question. Hop n answers all steps of depth n at once; a retriever gets its query at that hop.

use crate::request::PassageId;
use serde::{Deserialize, Serialize};

/// The stages of an annotation. The message of a failure begins with its stage and a colon.
pub const STAGES: [&str; 4] = ["passages", "decomposition", "labelling", "filtering"];

/// A question, annotated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotation {
    /// Single-hop questions. Each needs answers of earlier ones only.
    pub steps: Vec<AnnotatedStep>,
    /// One for each depth of the steps, the first hop first.
    pub hops: Vec<AnnotatedHop>,
}

/// A single-hop question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnotatedStep {
    /// In the model's words; `#n` stands for the answer of the n-th step, from 1.
    pub question: String,
    /// Its answer.
    pub answer: String,
    /// Positions of the steps needed for their answers, from 0, all of them before its own.
    pub needs: Vec<u32>,
    /// The passage that answers it.
    pub passage: PassageId,
    /// The important words of the passage, with spaces between them.
    pub words: String,
}

/// A hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnotatedHop {
    /// The retrieval's query: at the first hop the question, then the model's queries.
    pub query: String,
    /// The passages found by it without gold ones, best first.
    pub found: Vec<PassageId>,
}

impl Annotation {
    /// The hop of each step, from 0: 0 if it needs nothing, else one more than the deepest it needs.
    pub fn depths(&self) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let below = step.needs.iter().filter_map(|&need| depths.get(need as usize)).max();
            depths.push(below.map_or(0, |depth| depth + 1));
        }
        depths
    }

    /// Whether another step needs the answer of step `at`.
    pub fn is_needed(&self, at: usize) -> bool {
        self.steps.iter().any(|step| step.needs.contains(&(at as u32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_deeper_than_what_it_needs() {
        let step = |needs: &[u32]| AnnotatedStep {
            question: String::new(),
            answer: String::new(),
            needs: needs.to_vec(),
            passage: PassageId(0),
            words: String::new(),
        };
        let annotation =
            Annotation { steps: vec![step(&[]), step(&[]), step(&[0]), step(&[1, 2])], ..Annotation::default() };
        assert_eq!(annotation.depths(), [0, 0, 1, 2]);
        assert_eq!([0, 1, 2, 3].map(|at| annotation.is_needed(at)), [true, true, true, false]);
    }
}
