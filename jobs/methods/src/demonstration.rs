//! Demonstrations: solved questions that stand in a prompt before the question itself.
//!
//! A set is a list of rows, as in a file of JSON Lines. A job gives the rows, or the name of one of the sets below
//! `prompts/demonstrations`, whose words and facts are the project's own. A first row with the key `origin` names the
//! author of the others ([`DemonstrationSet::imported`]).
//!
//! A demonstration with other passages, or another question, is another demonstration: methods make one text of each,
//! and name the text by its digest ([`crate::Fragment`]).

pub mod ircot;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{Display, Formatter};

/// The sets in hopeval itself, by name.
const SHIPPED: [(&str, &str); 2] = [
    ("hopeval:multihop", include_str!("../prompts/demonstrations/multihop.jsonl")),
    ("hopeval:grounded", include_str!("../prompts/demonstrations/grounded.jsonl")),
];

/// The origin of the sets in hopeval itself.
const OWN: &str = "hopeval";

/// The origin of rows that a job gives, and of an imported set that was edited.
const JOB: &str = "job";

/// A solved question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demonstration {
    /// Its name in the set; empty for one that nobody chooses by name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The passage that belongs to the question (IIRC). It is shown first, and where no other passage is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<DemonstrationPassage>,
    /// The passages that the answer needs. An imported one has all passages that its authors show, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passages: Vec<DemonstrationPassage>,
    /// Further passages, which do not help. Methods show the first ones, as many as their parameters say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distractors: Vec<DemonstrationPassage>,
    /// The question.
    pub question: String,
    /// The chain of thought, with the sentence at its end that gives the answer; empty for one without.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The answer.
    pub answer: String,
    /// The titles of the pages that help, for methods that let a model name pages (IIRC).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub titles: Vec<String>,
}

/// A passage of a demonstration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemonstrationPassage {
    /// Its title.
    pub title: String,
    /// Its text.
    pub text: String,
}

/// A set of demonstrations, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct DemonstrationSet {
    source: Option<DemonstrationSource>,
    demonstrations: Vec<Demonstration>,
}

/// The source of an imported set: its first row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemonstrationSource {
    /// The author of the words, such as `ircot`.
    pub origin: String,
    /// The name of the imported file.
    pub file: String,
    /// The BLAKE3 digest of the imported file.
    pub file_digest: String,
    /// The BLAKE3 digest of the rows behind this one: if they were edited since, the words are the job's.
    pub rows_digest: String,
}

/// A set that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemonstrationMistake(String);

impl Display for DemonstrationMistake {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl DemonstrationSet {
    /// Demonstrations without a source.
    pub fn new(demonstrations: Vec<Demonstration>) -> Self {
        Self { source: None, demonstrations }
    }

    /// Imported demonstrations: `file` is the name of their file, `bytes` its contents.
    pub fn imported(origin: &str, file: &str, bytes: &[u8], demonstrations: Vec<Demonstration>) -> Self {
        let source = DemonstrationSource {
            origin: origin.to_owned(),
            file: file.to_owned(),
            file_digest: blake3::hash(bytes).to_hex().to_string(),
            rows_digest: rows_digest(&demonstrations),
        };
        Self { source: Some(source), demonstrations }
    }

    /// The set in hopeval itself that has this name.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn shipped(name: &str) -> Self {
        let found = SHIPPED.iter().find(|(known, _)| *known == name);
        let (_, rows) = found.expect("a known set of demonstrations; this is a bug");
        Self::from_lines(rows)
    }

    fn from_lines(rows: &str) -> Self {
        let rows = rows.lines().map(|row| serde_json::from_str(row).expect("a shipped row is JSON; this is a bug"));
        Self::from_rows(rows.collect()).expect("shipped rows are demonstrations; this is a bug")
    }

    fn from_rows(rows: Vec<Value>) -> Result<Self, DemonstrationMistake> {
        let mut set = Self::default();
        let mut ids = BTreeSet::new();
        for (number, row) in (1..).zip(rows) {
            let wrong = |message: String| DemonstrationMistake(format!("row {number}: {message}"));
            if number == 1 && row.get("origin").is_some() {
                set.source = Some(DemonstrationSource::deserialize(row).map_err(|error| wrong(error.to_string()))?);
                continue;
            }
            let row = Demonstration::deserialize(row).map_err(|error| wrong(error.to_string()))?;
            if row.question.trim().is_empty() {
                return Err(wrong("`question` is empty; allowed: a question".to_owned()));
            }
            if !row.id.is_empty() && !ids.insert(row.id.clone()) {
                return Err(wrong(format!("`id` = \"{}\" twice; allowed: ids that each occur once", row.id)));
            }
            set.demonstrations.push(row);
        }
        Ok(set)
    }

    /// The demonstrations, in order.
    pub fn demonstrations(&self) -> &[Demonstration] {
        &self.demonstrations
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.demonstrations.is_empty()
    }

    /// The author of the words: `hopeval`, `job`, or the name of an imported set whose rows are as they were imported.
    pub fn origin(&self) -> Cow<'static, str> {
        match &self.source {
            Some(source) if source.rows_digest == rows_digest(&self.demonstrations) => {
                Cow::Owned(source.origin.clone())
            }
            None if SHIPPED.iter().any(|(_, rows)| Self::from_lines(rows).demonstrations == self.demonstrations) => {
                Cow::Borrowed(OWN)
            }
            _ => Cow::Borrowed(JOB),
        }
    }

    /// The demonstrations with these ids, in their order.
    ///
    /// # Errors
    /// The first id that no demonstration has.
    pub(crate) fn chosen(&self, ids: &[String]) -> Result<Vec<&Demonstration>, String> {
        let one = |id: &String| self.demonstrations.iter().find(|row| row.id == *id).ok_or_else(|| id.clone());
        ids.iter().map(one).collect()
    }

    /// The set as JSON Lines, its source first.
    pub fn to_lines(&self) -> String {
        match Value::from(self.clone()) {
            Value::Array(rows) => rows.iter().map(|row| format!("{row}\n")).collect(),
            _ => String::new(),
        }
    }
}

/// The digest of rows, in hexadecimal digits.
fn rows_digest(demonstrations: &[Demonstration]) -> String {
    let mut hasher = blake3::Hasher::new();
    for row in demonstrations {
        hasher.update(json_row(row).to_string().as_bytes()).update(b"\n");
    }
    hasher.finalize().to_hex().to_string()
}

fn json_row(row: &impl Serialize) -> Value {
    serde_json::to_value(row).expect("texts and lists are JSON; this is a bug")
}

impl TryFrom<Value> for DemonstrationSet {
    type Error = DemonstrationMistake;

    fn try_from(given: Value) -> Result<Self, DemonstrationMistake> {
        let names = || SHIPPED.map(|(name, _)| format!("\"{name}\"")).join(", ");
        match given {
            Value::Array(rows) => Self::from_rows(rows),
            Value::String(name) => match SHIPPED.iter().find(|(known, _)| *known == name) {
                Some((_, rows)) => Ok(Self::from_lines(rows)),
                None => Err(DemonstrationMistake(format!(
                    "no demonstrations \"{name}\"; allowed are {}, or a list of rows",
                    names()
                ))),
            },
            other => Err(DemonstrationMistake(format!(
                "demonstrations are {other}; allowed are {}, or a list of rows",
                names()
            ))),
        }
    }
}

impl From<DemonstrationSet> for Value {
    fn from(set: DemonstrationSet) -> Self {
        let rows = set.demonstrations.iter().map(json_row);
        set.source.iter().map(json_row).chain(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: Value) -> Result<DemonstrationSet, String> {
        serde_json::from_value(value).map_err(|error: serde_json::Error| error.to_string())
    }

    #[test]
    fn shipped_sets_are_whole() {
        for (name, _) in SHIPPED {
            let shipped = DemonstrationSet::shipped(name);
            assert!(shipped.demonstrations().len() >= 5, "{name}");
            assert_eq!(shipped.origin(), "hopeval");
            assert_eq!(set(json!(name)), Ok(shipped.clone()));
            for row in shipped.demonstrations() {
                assert!(row.reasoning.ends_with(&format!("So the answer is: {}.", row.answer)), "{}", row.id);
                assert!(row.passages.len() + usize::from(row.main.is_some()) >= 2 && row.distractors.len() == 3);
            }
            // What a record shows is read as the same set.
            assert_eq!(set(Value::from(shipped.clone())), Ok(shipped));
        }
    }

    #[test]
    fn an_imported_set_is_its_author_s_until_it_is_edited() {
        let row = Demonstration { question: "Who?".to_owned(), answer: "Ann".to_owned(), ..Demonstration::default() };
        let imported = DemonstrationSet::imported("ircot", "a.txt", b"bytes", vec![row]);
        assert_eq!(imported.origin(), "ircot");
        let mut edited = Value::from(imported.clone());
        assert_eq!(set(edited.clone()), Ok(imported));
        edited[1]["answer"] = "Bea".into();
        assert_eq!(set(edited).map(|set| set.origin()), Ok("job".into()));
        assert_eq!(set(json!([{"question": "Who?", "answer": "Ann"}])).map(|set| set.origin()), Ok("job".into()));
    }

    #[test]
    fn mistakes_name_their_row() {
        let good = json!({"id": "a", "question": "Who?", "answer": "Ann"});
        for (given, expected) in [
            (json!([good, {"question": "Who?"}]), "row 2: missing field `answer`"),
            (json!([good, good]), "row 2: `id` = \"a\" twice"),
            (json!([{"question": " ", "answer": "x"}]), "row 1: `question` is empty"),
            (json!([{"question": "Who?", "answer": "x", "texts": []}]), "row 1: unknown field `texts`"),
            (json!([good, {"origin": "x"}]), "row 2: unknown field `origin`"),
            (json!("hopeval:none"), "allowed are \"hopeval:multihop\""),
            (json!(3), "demonstrations are 3"),
        ] {
            let message = set(given).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
