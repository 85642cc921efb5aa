//! Fills the JSON objects that a prompt describes in words: `one JSON object and nothing else: {"simple": ..}`.
//!
//! These are the contracts of FSM (`jobs/methods/src/methods/fsm.rs`) and of readers with supporting facts. A question
//! is taken apart by its own words: the innermost relation of a noun phrase is the first sub-question.

use crate::asking::{NounPhrase, QuestionReading, understand};
use crate::grammar::WorldGrammar;
use crate::solving::FoundAnswer;
use serde_json::{Map, Value, json};

/// The words before a described object.
const MARKER: &str = "JSON object and nothing else: {";
/// Keys without which an object is not one of these.
const KEYS: [&str; 6] = ["simple", "identical", "relation", "explain", "supporting-facts", "paragraph title"];

/// The object that a prompt describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DescribedObject {
    keys: Vec<String>,
    /// The lines behind the description, by what stands before their colons.
    question: String,
    complex_question: String,
    sub_question: String,
    answer: String,
    /// The question after its sub-question was answered; empty if it cannot be said.
    revised: String,
    /// The sub-question of a compound question.
    first: Option<String>,
}

/// The object that a prompt describes last, if it is one of these.
pub(crate) fn described_object(prompt: &str) -> Option<DescribedObject> {
    let at = prompt.rfind(MARKER)? + MARKER.len();
    let (line, fields) = prompt[at..].split_once('\n').unwrap_or((&prompt[at..], ""));
    let mut keys: Vec<String> = Vec::new();
    for (place, _) in line.match_indices("\":") {
        let key = line[..place].rsplit('"').next().unwrap_or_default();
        if !keys.iter().any(|known| known == key) {
            keys.push(key.to_owned());
        }
    }
    if !keys.iter().any(|key| KEYS.contains(&key.as_str())) {
        return None;
    }
    // A review names its question before the description.
    let before = || prompt[..at].lines().rev().find_map(|line| line.strip_prefix("Question: ")).unwrap_or_default();
    let field =
        |name: &str| fields.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
    let mut object = DescribedObject {
        keys,
        question: field("Question: "),
        complex_question: field("Complex question: "),
        sub_question: field("Sub-question: "),
        answer: field("Answer: "),
        revised: String::new(),
        first: None,
    };
    if object.question.is_empty() {
        before().clone_into(&mut object.question);
    }
    object.first = first_question(&object.question);
    object.revised = revised_question(&object.complex_question, &object.answer).unwrap_or_default();
    Some(object)
}

/// The reading of a question for an object of an object.
fn nested_reading(question: &str) -> Option<(usize, NounPhrase)> {
    let readings = understand(WorldGrammar::shared(), question);
    readings.into_iter().find_map(|reading| match reading {
        QuestionReading::Object { relation, of: of @ NounPhrase::Object { .. } } => Some((relation, of)),
        _ => None,
    })
}

/// The first simple question of a compound one; `None` of a simple one.
fn first_question(question: &str) -> Option<String> {
    let (_, mut phrase) = nested_reading(question)?;
    loop {
        match phrase {
            NounPhrase::Object { relation, of } => match *of {
                NounPhrase::Name(entity) => return Some(ask(relation, &entity.name)),
                inner => phrase = inner,
            },
            NounPhrase::Name(_) => return None,
        }
    }
}

fn ask(relation: usize, subject: &str) -> String {
    WorldGrammar::shared().relations[relation].asks[0].replace("{x}", subject)
}

/// The question with the answer in the place of its innermost phrase.
fn revised_question(question: &str, answer: &str) -> Option<String> {
    let (relation, phrase) = nested_reading(question)?;
    Some(ask(relation, &with_answer(&phrase, answer)))
}

fn with_answer(phrase: &NounPhrase, answer: &str) -> String {
    let NounPhrase::Object { relation, of } = phrase else { return answer.to_owned() };
    if matches!(**of, NounPhrase::Name(_)) {
        return answer.to_owned();
    }
    let wordings = &WorldGrammar::shared().relations[*relation];
    let subject = with_answer(of, answer);
    match wordings.phrase {
        Some(wording) => wording[0].replace("{x}", &subject),
        None => format!("the {} of {subject}", wordings.name),
    }
}

impl DescribedObject {
    /// The object, filled with what was found.
    pub(crate) fn fill(&self, found: Option<&FoundAnswer>, answer: &str, thought: &str) -> Value {
        let decomposes = self.keys.iter().any(|key| key == "subquestion");
        let facts = || found.iter().flat_map(|found| found.facts.iter());
        let title = || facts().filter_map(|fact| fact.title.clone()).next_back().unwrap_or_default();
        let triple = || facts().map(|fact| (fact, WorldGrammar::shared().relations[fact.relation].name));
        let value = |key: &str| match key {
            "simple" if decomposes => json!(self.first.is_none()),
            "simple" => json!(true),
            "subquestion" => json!(self.first),
            "identical" => json!(self.complex_question == self.sub_question),
            "question" if self.complex_question.is_empty() => json!(self.question),
            "question" => json!(self.revised),
            "relation" => json!("composition"),
            "answer" if self.answer.is_empty() => json!(answer),
            "answer" => json!(self.answer),
            "paragraph title" => json!(title()),
            "explain" => json!(thought),
            "supporting-facts" => facts().filter_map(|fact| Some(json!([fact.title.as_ref()?, 0]))).collect(),
            "evidences" => triple().map(|(fact, name)| json!([fact.subject, name, fact.object])).collect(),
            _ => Value::Null,
        };
        Value::Object(self.keys.iter().map(|key| (key.clone(), value(key))).collect::<Map<_, _>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compound_question_is_taken_apart() {
        let prompt =
            |keys: &str, fields: &str| format!("Reply with one JSON object and nothing else: {{{keys}}}.\n\n{fields}");
        let object = |keys: &str, fields: &str| described_object(&prompt(keys, fields)).unwrap().fill(None, "", "");
        let question = "Where was the director of Pale Harbor born?";
        let decomposition = object("\"simple\": true, \"subquestion\": null", &format!("Question: {question}"));
        assert_eq!(decomposition, json!({"simple": false, "subquestion": "Who directed Pale Harbor?"}));
        let fields =
            format!("Complex question: {question}\nSub-question: Who directed Pale Harbor?\nAnswer: Margot Zimova");
        let revision = object("\"question\": \"...\", \"relation\": \"composition\"", &fields);
        assert_eq!(revision, json!({"question": "Where was Margot Zimova born?", "relation": "composition"}));
        let simple = object("\"simple\": true, \"subquestion\": null", "Question: Where was Margot Zimova born?");
        assert_eq!(simple, json!({"simple": true, "subquestion": null}));
        let check = object("\"simple\": true, \"answer\": \"the answer\"", "Question: Who?\nAnswer: Margot Zimova");
        assert_eq!(check, json!({"simple": true, "answer": "Margot Zimova"}));
        let search = object("\"question\": \"..\", \"paragraph title\": \"..\", \"answer\": \"..\"", "Question: Who?");
        assert_eq!(search, json!({"question": "Who?", "paragraph title": "", "answer": ""}));
        assert_eq!(described_object(&prompt("\"answer\": \"...\"", question)), None);
    }
}
