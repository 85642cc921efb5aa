//! Prompts whose replies programs read: MIGRES's modules, known by the words of their contracts.
//!
//! | a prompt has | reply |
//! | --- | --- |
//! | `"useful_information"` | the facts that the question needs, each with the numbers of its passages |
//! | `"missing_information"` | the answer by the line `Information:`, or `unanswerable` with what is missing |
//! | `"confidence"` | the answer by that line, or by the passages |
//! | `Missing Information:` and `New queries:` | a question for the next fact that the known ones lead to |
//!
//! The input is what stands behind the prompt's last empty line: examples before it are not read.

use serde_json::{Value, json};

use crate::asking::{PromptQuestion, find_question};
use crate::grammar::WorldGrammar;
use crate::solving::UsedFact;

/// A contract of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyContract {
    Statements,
    Verdict,
    Confidence,
    Queries,
}

/// The words of a reply, as far as its contract wants them.
pub(crate) struct ReplyWords<'a> {
    /// `None` if a fact is missing.
    pub(crate) answer: Option<&'a str>,
    /// The answer of a prompt that allows no other.
    pub(crate) guess: &'a str,
    /// The facts as sentences.
    pub(crate) sentences: &'a [String],
    pub(crate) facts: &'a [UsedFact],
    /// The phrase for the missing fact.
    pub(crate) missing: String,
    /// A question for it.
    pub(crate) query: String,
}

impl ReplyContract {
    /// The contract of a prompt, if it has one.
    pub(crate) fn of_prompt(prompt: &str) -> Option<Self> {
        if prompt.contains("\"useful_information\"") {
            Some(Self::Statements)
        } else if prompt.contains("\"missing_information\"") {
            Some(Self::Verdict)
        } else if prompt.contains("\"confidence\"") {
            Some(Self::Confidence)
        } else if prompt.contains("\nMissing Information:") && prompt.contains("\nNew queries:") {
            Some(Self::Queries)
        } else {
            None
        }
    }

    /// The text with the facts, one statement on a line.
    pub(crate) fn known_text(self, prompt: &str) -> String {
        let input = input_of(prompt);
        let line = match self {
            Self::Statements => {
                return input.lines().filter_map(titled_passage).collect::<Vec<String>>().join("\n\n");
            }
            Self::Verdict | Self::Confidence => field(input, "Information: "),
            Self::Queries => field(input, "Known Information: "),
        };
        line.map_or_else(|| input.to_owned(), |line| line.replace(".; ", ".\n").replace("; ", ".\n"))
    }

    /// The question of the input.
    pub(crate) fn question(self, prompt: &str) -> Option<PromptQuestion<'_>> {
        let input = input_of(prompt);
        let asked = match self {
            Self::Queries => field(input, "Original Question: ")?,
            Self::Statements | Self::Verdict | Self::Confidence => field(input, "Question: ")?,
        };
        find_question(WorldGrammar::shared(), asked)
    }

    /// The reply.
    pub(crate) fn write_reply(self, prompt: &str, words: &ReplyWords<'_>) -> String {
        let explanation = words.sentences.join(" ");
        match self {
            Self::Queries => words.query.clone(),
            Self::Statements => {
                let statement = |(sentence, fact): (&String, &UsedFact)| {
                    let passages = supporting_passages(input_of(prompt), fact);
                    json!({"info": sentence, "support_passages": passages})
                };
                let all: Vec<Value> = words.sentences.iter().zip(words.facts).map(statement).collect();
                json!({"useful_information": all}).to_string()
            }
            Self::Verdict => {
                let (text, confidence) = words.answer.map_or(("unanswerable", 1), |answer| (answer, 5));
                let missing = if words.answer.is_some() { "" } else { &words.missing };
                json!({
                    "answer": {"text": text, "confidence": confidence},
                    "explanation": explanation,
                    "missing_information": missing,
                })
                .to_string()
            }
            Self::Confidence => {
                let (text, confidence) = words.answer.map_or((words.guess, 1), |answer| (answer, 5));
                json!({"answer": {"text": text, "confidence": confidence}, "explanation": explanation}).to_string()
            }
        }
    }
}

/// The text behind the last empty line.
fn input_of(prompt: &str) -> &str {
    prompt.rsplit_once("\n\n").map_or(prompt, |(_, input)| input)
}

/// The rest of the last line that begins with `name`.
fn field<'t>(input: &'t str, name: &str) -> Option<&'t str> {
    input.lines().rev().find_map(|line| line.strip_prefix(name))
}

/// A passage `Passage 0: (Title: T) text` as its title and its text, each on its line.
fn titled_passage(line: &str) -> Option<String> {
    let (_, passage) = line.strip_prefix("Passage ")?.split_once(": ")?;
    let Some(titled) = passage.strip_prefix("(Title: ") else { return Some(passage.to_owned()) };
    let mut depth = 0;
    let end = titled.char_indices().find(|&(_, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth < 0
    });
    let (title, text) = titled.split_at(end.map_or(titled.len(), |(at, _)| at));
    Some(format!("Title: {title}\n{}", text.trim_start_matches(')').trim_start()))
}

/// The numbers of the passages with a fact: those of its title, or else with both of its names.
fn supporting_passages(input: &str, fact: &UsedFact) -> Vec<usize> {
    let passages = input.lines().filter_map(|line| line.strip_prefix("Passage ")?.split_once(": "));
    let numbered: Vec<(usize, &str)> =
        passages.filter_map(|(number, text)| Some((number.parse().ok()?, text))).collect();
    let of = |wanted: &dyn Fn(&str) -> bool| -> Vec<usize> {
        numbered.iter().filter(|(_, text)| wanted(text)).map(|(number, _)| *number).collect()
    };
    let named = of(&|text| text.contains(&*fact.subject) && text.contains(&*fact.object));
    match &fact.title {
        Some(title) if named.is_empty() => of(&|text| text.contains(&**title)),
        _ => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answering::{AnswerDraw, AnswerFormat, read_prompt};
    use crate::reading::PassageReader;
    use crate::settings::SimulationSettings;

    fn reply(prompt: &str) -> String {
        let settings = SimulationSettings::default();
        let draw = AnswerDraw { identity: prompt.as_bytes(), is_sampled: false, choice: 0 };
        read_prompt(&mut PassageReader::new(), prompt).write_answer(&settings, &AnswerFormat::Text, draw).text
    }

    const QUESTION: &str = "Where was the director of Pale Harbor born?";

    #[test]
    fn statements_cite_their_passages() {
        let prompt = format!(
            "As {{\"useful_information\": []}}.\n\nPassage 0: (Title: Ada Other (writer)) Ada Other is a writer known \
             for urban essays and stark poems.\nPassage 1: (Title: Pale Harbor) It was directed by Margot Zimova.\n\
             Question: {QUESTION}\nYour response:"
        );
        let statement = r#"{"info":"Pale Harbor was directed by Margot Zimova.","support_passages":[1]}"#;
        assert_eq!(reply(&prompt), format!(r#"{{"useful_information":[{statement}]}}"#));
        assert_eq!(reply(&prompt.replace(QUESTION, "Who?")), r#"{"useful_information":[]}"#);
    }

    #[test]
    fn a_verdict_says_what_is_missing() {
        let prompt = |known: &str| {
            format!("As {{\"missing_information\": m}}.\n\nInformation: {known}\nQuestion: {QUESTION}\nYour response:")
        };
        let first = "Pale Harbor was directed by Margot Zimova.";
        let missing: Value = serde_json::from_str(&reply(&prompt(first))).unwrap();
        assert_eq!(missing["answer"]["text"], "unanswerable");
        assert_eq!(missing["missing_information"], "the birthplace of Margot Zimova");
        let known: Value =
            serde_json::from_str(&reply(&prompt(&format!("{first}; Margot Zimova was born in Millford.")))).unwrap();
        assert_eq!(known["answer"], json!({"text": "Millford", "confidence": 5}));
        let nothing: Value = serde_json::from_str(&reply(&prompt("None"))).unwrap();
        assert_eq!(nothing["answer"]["text"], "unanswerable");
    }

    #[test]
    fn a_query_asks_for_the_next_fact() {
        let prompt = format!(
            "Write.\n\nOriginal Question: {QUESTION}\nHistorical Questions: {QUESTION}\nKnown Information: Pale Harbor \
             was directed by Margot Zimova.\nMissing Information: the birthplace of Margot Zimova\nNew queries:"
        );
        assert_eq!(reply(&prompt), "Where was Margot Zimova born?");
    }
}
