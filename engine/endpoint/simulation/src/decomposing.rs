//! Breaks a question of the world down into single-hop questions, in the order of the hops.

use crate::asking::{NounPhrase, QuestionReading};
use crate::grammar::{ComparisonRule, WorldGrammar};

/// The way in which a later question names the answer of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReferenceStyle {
    /// `#1`.
    Numbers,
    /// `the director of Pale Harbor`.
    Phrases,
}

/// The single-hop questions of a reading.
pub(crate) fn single_hop_questions(reading: &QuestionReading, style: ReferenceStyle) -> Vec<String> {
    let mut parts = SingleHops { grammar: WorldGrammar::shared(), style, questions: Vec::new() };
    match reading {
        QuestionReading::Object { relation, of } => {
            let subject = parts.name_phrase(of);
            parts.ask(*relation, &subject);
        }
        QuestionReading::Comparison { rule, a, b } => {
            for side in [a, b] {
                let subject = parts.name_phrase(side);
                match *rule {
                    ComparisonRule::Same { relation } | ComparisonRule::Order { relation, .. } => {
                        parts.ask(relation, &subject);
                    }
                    ComparisonRule::Age { bridge, .. } => {
                        let person = parts.ask(bridge, &subject);
                        let relations = &parts.grammar.relations;
                        if let Some(birth) = relations.iter().position(|relation| relation.name == "date of birth") {
                            parts.ask(birth, &person);
                        }
                    }
                }
            }
        }
    }
    parts.questions
}

struct SingleHops {
    grammar: &'static WorldGrammar,
    style: ReferenceStyle,
    questions: Vec<String>,
}

impl SingleHops {
    /// Asks for a relation's object. Returns the words for it in later questions.
    fn ask(&mut self, relation: usize, subject: &str) -> String {
        let wordings = &self.grammar.relations[relation];
        self.questions.push(wordings.asks[0].replace("{x}", subject));
        match (self.style, wordings.phrase) {
            (ReferenceStyle::Numbers, _) => format!("#{}", self.questions.len()),
            (ReferenceStyle::Phrases, Some(phrase)) => phrase[0].replace("{x}", subject),
            (ReferenceStyle::Phrases, None) => format!("the {} of {subject}", wordings.name),
        }
    }

    /// The words for an entity; those before it are asked for first.
    fn name_phrase(&mut self, phrase: &NounPhrase) -> String {
        match phrase {
            NounPhrase::Name(named) => match named.noun {
                Some(noun @ ("river" | "award")) => format!("the {noun} {}", named.name),
                _ => named.name.clone(),
            },
            NounPhrase::Object { relation, of } => {
                let subject = self.name_phrase(of);
                self.ask(*relation, &subject)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking::understand;

    fn parts(question: &str, style: ReferenceStyle) -> Vec<String> {
        single_hop_questions(&understand(WorldGrammar::shared(), question)[0], style)
    }

    #[test]
    fn hops_come_in_order() {
        let question = "Where was the director of Pale Harbor born?";
        assert_eq!(parts(question, ReferenceStyle::Numbers), ["Who directed Pale Harbor?", "Where was #1 born?"]);
        assert_eq!(
            parts(question, ReferenceStyle::Phrases),
            ["Who directed Pale Harbor?", "Where was the director of Pale Harbor born?"]
        );
    }
}
