//! Reads what the model writes: JSON objects with the keys of FSM's prompts, and every departure from them counted.

use super::paragraphs::written;
use hopeval_loosejson::{ValueChoice, parse_object};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The texts that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplyReading {
    /// Every text with a readable object; repairs are counted.
    Tolerant,
    /// JSON with the keys of the prompt alone.
    Strict,
}

/// A member of a reply: the key of the prompt, then other spellings that models use.
pub(crate) type ReplyKey = &'static [&'static str];

pub(crate) const SIMPLE: ReplyKey = &["simple", "is_simple", "Simple"];
pub(crate) const SUBQUESTION: ReplyKey = &["subquestion", "sub_question", "sub-question", "Subquestion", "subQuestion"];
pub(crate) const IDENTICAL: ReplyKey = &["identical", "is_identical", "Identical"];
pub(crate) const QUESTION: ReplyKey = &["question", "Question"];
pub(crate) const RELATION: ReplyKey = &["relation", "relationship", "Relation"];
pub(crate) const TITLE: ReplyKey = &["paragraph title", "paragraph_title", "title", "paragraph", "Title"];
pub(crate) const ANSWER: ReplyKey = &["answer", "Answer", "final_answer", "final answer"];
pub(crate) const EXPLAIN: ReplyKey = &["explain", "explanation", "reasoning", "Explain"];
pub(crate) const SUPPORT: ReplyKey =
    &["supporting-facts", "supporting_facts", "supporting facts", "supportin_facts", "supportingFacts"];
pub(crate) const EVIDENCES: ReplyKey = &["evidences", "evidence", "Evidences"];

/// A reply that was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadReply {
    members: Map<String, Value>,
    /// The repairs by name.
    pub(crate) repairs: BTreeMap<&'static str, u32>,
}

/// The reason why a reply breaks its form, in words for the model.
pub(crate) type FormProblem = String;

impl ReadReply {
    /// Reads the object of `text` with one of the spellings of `key`: the last one, since models think aloud.
    pub(crate) fn parse(text: &str, key: ReplyKey) -> Result<Self, FormProblem> {
        let parsed = parse_object(text, key, ValueChoice::Last).map_err(|failure| failure.reason.to_string())?;
        let repairs = parsed.repairs.iter().map(|(repair, count)| (repair.name(), count)).collect();
        let Value::Object(members) = parsed.value else { return Err("it is no object".to_owned()) };
        Ok(Self { members, repairs })
    }

    fn repair(&mut self, name: &'static str) {
        *self.repairs.entry(name).or_default() += 1;
    }

    /// The value of a key; another spelling is a repair.
    fn take(&mut self, key: ReplyKey) -> Option<Value> {
        let (at, value) = key.iter().enumerate().find_map(|(at, name)| Some((at, self.members.remove(*name)?)))?;
        if at > 0 {
            self.repair("other_key");
        }
        Some(value)
    }

    /// A truth value, also as a word.
    pub(crate) fn truth(&mut self, key: ReplyKey) -> Result<bool, FormProblem> {
        let value = self.take(key).ok_or_else(|| missing(key))?;
        if let Value::Bool(truth) = value {
            return Ok(truth);
        }
        let truth = match written(&value).trim().to_lowercase().as_str() {
            "true" | "yes" => true,
            "false" | "no" => false,
            _ => return Err(format!("\"{}\" is neither true nor false", key[0])),
        };
        self.repair("quoted_truth");
        Ok(truth)
    }

    /// A text that is not empty. A number or a list of texts is one after a repair.
    pub(crate) fn text(&mut self, key: ReplyKey) -> Result<String, FormProblem> {
        let value = self.take(key).ok_or_else(|| missing(key))?;
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => {
                self.repair("other_type");
                written(&value)
            }
            Value::Array(items) if items.iter().all(|item| item.is_string() || item.is_number()) => {
                self.repair("other_type");
                items.iter().map(written).collect::<Vec<_>>().join(", ")
            }
            _ => return Err(format!("\"{}\" is no text", key[0])),
        };
        let text = text.trim();
        if text.is_empty() {
            return Err(format!("\"{}\" is empty", key[0]));
        }
        Ok(text.to_owned())
    }

    /// A text that may be missing.
    pub(crate) fn text_if_any(&mut self, key: ReplyKey) -> Option<String> {
        self.text(key).ok()
    }

    /// The entries of a list. One entry by itself is a list after a repair, and a missing list is empty after one.
    pub(crate) fn list(&mut self, key: ReplyKey) -> Vec<Value> {
        match self.take(key) {
            Some(Value::Array(items)) => {
                let is_entry = items.len() >= 2 && items.iter().all(|item| !item.is_array() && !item.is_object());
                if is_entry {
                    self.repair("other_type");
                    return vec![Value::Array(items)];
                }
                items
            }
            Some(Value::Null) | None => {
                self.repair("missing_list");
                Vec::new()
            }
            Some(other) => {
                self.repair("other_type");
                vec![other]
            }
        }
    }

    /// The triples of a list; entries of another length are left out.
    pub(crate) fn triples(&mut self, key: ReplyKey) -> Vec<[String; 3]> {
        let entries = self.list(key);
        let mut triples = Vec::with_capacity(entries.len());
        for entry in entries {
            let parts: Vec<String> = match &entry {
                Value::Array(parts) => parts.iter().map(written).collect(),
                Value::Object(members) => ["subject", "relation", "object"]
                    .iter()
                    .filter_map(|name| members.get(*name).map(written))
                    .collect(),
                _ => Vec::new(),
            };
            match <[String; 3]>::try_from(parts) {
                Ok(triple) => triples.push(triple),
                Err(_) => self.repair("no_triple"),
            }
        }
        triples
    }

    /// Whether it took repairs.
    pub(crate) fn is_repaired(&self) -> bool {
        !self.repairs.is_empty()
    }
}

fn missing(key: ReplyKey) -> FormProblem {
    format!("the key \"{}\" is missing", key[0])
}

/// The beginning of a text, for messages.
pub(crate) fn excerpt(text: &str) -> String {
    const MOST: usize = 400;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_are_read_and_counted() {
        let mut reply = ReadReply::parse("{'sub_question': 'Who?', 'simple': 'False'}", SUBQUESTION).unwrap();
        assert_eq!(reply.text(SUBQUESTION), Ok("Who?".to_owned()));
        assert_eq!(reply.truth(SIMPLE), Ok(false));
        assert_eq!(reply.repairs, [("single_quotes", 4), ("other_key", 1), ("quoted_truth", 1)].into());
        let mut reply = ReadReply::parse(r#"{"answer": 1870, "evidences": [["a", "b", "c"], ["d"]]}"#, ANSWER).unwrap();
        assert_eq!(reply.text(ANSWER), Ok("1870".to_owned()));
        assert_eq!(reply.triples(EVIDENCES), [["a", "b", "c"].map(str::to_owned)]);
        assert!(reply.list(SUPPORT).is_empty());
        assert_eq!(reply.repairs, [("missing_list", 1), ("no_triple", 1), ("other_type", 1)].into());
    }

    #[test]
    fn problems_are_told_in_words() {
        let read = |text: &str| ReadReply::parse(text, ANSWER).and_then(|mut reply| reply.text(ANSWER)).unwrap_err();
        assert_eq!(read("I do not know."), "no JSON value");
        assert_eq!(read("{\"question\": \"x\"}"), "no JSON object with an expected key");
        assert_eq!(read("{\"answer\": \" \"}"), "\"answer\" is empty");
        assert_eq!(read("{\"answer\": null}"), "\"answer\" is no text");
    }
}
