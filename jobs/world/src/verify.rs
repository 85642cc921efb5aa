//! Checks, from the written text alone, that a question is answerable and its annotations are true.

use crate::record::{Passage, Question};
use crate::schema::{RELATIONS, Relation};

/// An error in a question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionFlaw {
    /// The given passages are not the gold path.
    #[error("gold passage {index} is `{found}`, not `{wanted}`")]
    WrongPassage {
        /// Its place in the path.
        index: usize,
        /// The id in the question.
        wanted: String,
        /// The id given.
        found: String,
    },
    /// The numbers of facts, supporting sentences and sub-questions differ.
    #[error(
        "{evidences} evidences, {supporting_facts} supporting facts and {sub_questions} sub-questions do not match"
    )]
    Counts {
        /// Evidences.
        evidences: usize,
        /// Supporting facts.
        supporting_facts: usize,
        /// Sub-questions.
        sub_questions: usize,
    },
    /// An evidence names a passage off the path, or an unknown relation.
    #[error("evidence {index} does not belong to the path: {what}")]
    StrayEvidence {
        /// The evidence's number.
        index: usize,
        /// Its subject or relation.
        what: String,
    },
    /// A supporting sentence does not state its evidence in any wording of the relation.
    #[error("`{sentence}` does not state {relation} = {object}")]
    NotStated {
        /// The sentence.
        sentence: String,
        /// The relation.
        relation: String,
        /// The object.
        object: String,
    },
    /// A passage of a chain has no link to the next.
    #[error("`{from}` has no link to `{to}`")]
    NoLink {
        /// The passage's title.
        from: String,
        /// The next one's.
        to: String,
    },
    /// The answer does not follow from the evidences.
    #[error("the answer is `{answer}`, but the evidences say {says}")]
    WrongAnswer {
        /// The gold answer.
        answer: String,
        /// The answer that follows.
        says: String,
    },
    /// A gold passage is not among the candidates, or a sub-question points to another passage.
    #[error("the candidates lack `{id}` or place it elsewhere")]
    Candidates {
        /// The passage's id.
        id: String,
    },
}

/// Checks a question against its gold passages, in path order.
///
/// # Errors
/// The first [`QuestionFlaw`] found.
pub fn verify_question(question: &Question, gold: &[Passage]) -> Result<(), QuestionFlaw> {
    for (index, wanted) in question.gold.iter().enumerate() {
        let found = gold.get(index).map_or("", |p| p.id.as_str());
        if found != wanted.id || question.gold.len() != gold.len() {
            return Err(QuestionFlaw::WrongPassage { index, wanted: wanted.id.clone(), found: found.to_owned() });
        }
    }
    let (evidences, supporting_facts) = (&question.evidences, &question.supporting_facts);
    let sub_questions = question.decomposition.len();
    if evidences.len() != supporting_facts.len() || evidences.len() != sub_questions {
        return Err(QuestionFlaw::Counts {
            evidences: evidences.len(),
            supporting_facts: supporting_facts.len(),
            sub_questions,
        });
    }
    for (index, ([subject, relation, object], (title, sentence))) in evidences.iter().zip(supporting_facts).enumerate()
    {
        let passage = gold.iter().find(|p| p.title == *subject && subject == title);
        let known = RELATIONS.iter().find(|r| r.name == relation);
        let (Some(passage), Some(known)) = (passage, known) else {
            return Err(QuestionFlaw::StrayEvidence { index, what: format!("{subject}: {relation}") });
        };
        if !states_fact(passage, *sentence as usize, known, object) {
            let sentence = passage.sentence(*sentence as usize).unwrap_or_default().to_owned();
            return Err(QuestionFlaw::NotStated { sentence, relation: relation.clone(), object: object.clone() });
        }
        let step = &question.decomposition[index];
        let listed = question.candidates.get(step.support as usize).map(crate::record::Candidate::id);
        if listed != Some(passage.id.as_str()) || step.evidence != [passage.id.clone()] {
            return Err(QuestionFlaw::Candidates { id: passage.id.clone() });
        }
    }
    check_links(question, gold)?;
    let says = derive_answer(question);
    let decided = question.answers.contains(&says);
    let shown = match question.kind.as_str() {
        "bridge" => gold.last().is_some_and(|p| p.text.contains(&question.answers[0])),
        _ => true,
    };
    if decided && shown { Ok(()) } else { Err(QuestionFlaw::WrongAnswer { answer: question.answers[0].clone(), says }) }
}

/// Whether a sentence states the relation with the object, in one of the relation's wordings.
fn states_fact(passage: &Passage, sentence: usize, relation: &Relation, object: &str) -> bool {
    let (Some((start, end)), Some(text)) = (passage.sentence_span(sentence), passage.sentence(sentence)) else {
        return false;
    };
    let said = if relation.is_literal() {
        text.contains(object)
    } else {
        passage.links.iter().any(|l| l.title == object && (start..end).contains(&(l.start as usize)))
    };
    // The wording's words in order; the first letter may be a capital.
    let text = text.to_lowercase();
    let worded = relation.says.iter().any(|pattern| {
        let pattern = pattern.to_lowercase();
        let mut rest = text.as_str();
        pattern.split("{s}").flat_map(|part| part.split("{o}")).map(str::trim).filter(|part| !part.is_empty()).all(
            |part| {
                rest.find(part).is_some_and(|at| {
                    rest = &rest[at + part.len()..];
                    true
                })
            },
        )
    });
    said && worded
}

/// Chains, and each half of a bridge comparison, are links from passage to passage.
fn check_links(question: &Question, gold: &[Passage]) -> Result<(), QuestionFlaw> {
    let steps: &[(usize, usize)] = match question.kind.as_str() {
        "bridge" => &[(0, 1), (1, 2), (2, 3)][..gold.len().saturating_sub(1)],
        "bridge_comparison" => &[(0, 1), (2, 3)],
        _ => &[],
    };
    for &(from, to) in steps {
        let (Some(from), Some(to)) = (gold.get(from), gold.get(to)) else { continue };
        if !from.links.iter().any(|l| l.title == to.title) {
            return Err(QuestionFlaw::NoLink { from: from.title.clone(), to: to.title.clone() });
        }
    }
    Ok(())
}

/// The answer that follows from the evidences: the last object of a chain, or the result of the comparison.
fn derive_answer(question: &Question) -> String {
    let evidences = &question.evidences;
    let side = |n: usize| evidences.get(n).map(|e| e[2].as_str()).unwrap_or_default();
    let name = |n: usize| evidences.get(n).map(|e| e[0].clone()).unwrap_or_default();
    let (a, b) = match question.kind.as_str() {
        "comparison" => (0, 1),
        "bridge_comparison" => (1, 3),
        _ => return side(evidences.len().saturating_sub(1)).to_owned(),
    };
    // The first subject of each chain names its side.
    let (name_a, name_b) = (name(0), name(if b == 3 { 2 } else { 1 }));
    match question.strata.get("comparison").map(String::as_str) {
        Some("same") => if side(a) == side(b) { "yes" } else { "no" }.to_owned(),
        Some("first") if order_value(side(a)) < order_value(side(b)) => name_a,
        Some("last") if order_value(side(a)) > order_value(side(b)) => name_a,
        _ => name_b,
    }
}

/// A sort key for dates (`12 March 1956`), years, counts (`48,213`) or lengths (`213 kilometres`) of one kind.
pub fn order_value(text: &str) -> Vec<u64> {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let words = text.split_whitespace().rev();
    words
        .filter_map(|word| match MONTHS.iter().position(|m| *m == word) {
            Some(month) => Some(month as u64),
            None => word.replace(',', "").parse().ok(),
        })
        .collect()
}
