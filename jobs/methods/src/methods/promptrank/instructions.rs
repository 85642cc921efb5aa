//! Instructions to the model about the documents, and their place in the prompt (section 2.2, appendix A).
//!
//! An instruction is a sentence after the documents or before them. The cue ("Question:") comes last in both cases,
//! right before the scored text. A text with `{passages}` is a whole prompt of its own, with the documents at this
//! place.

use super::parameters::bad_value;
use crate::machine::MethodError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The place of the documents in a whole prompt.
const PLACE: &str = "{passages}";

/// The default instruction of a job, as JSON.
pub(super) const DEFAULT: &str = include_str!("../../../prompts/promptrank/one.json").trim_ascii();

/// The instructions in hopeval itself, by name. Their texts are in `prompts/promptrank`.
const SETS: [(&str, &str); 2] =
    [("hopeval:one", DEFAULT), ("hopeval:five", include_str!("../../../prompts/promptrank/five.json"))];

/// The prefix of a name for a set of instructions.
const OWN: &str = "hopeval:";

/// The position of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InstructionPosition {
    /// Between the documents and the cue.
    #[default]
    After,
    /// Before the documents; the cue stands after them.
    Before,
    /// No instruction and no cue: the documents are the prompt. As the method's position it applies to every
    /// instruction except whole prompts.
    None,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected an instruction: a text, or a table of `text` and `position`")]
pub(super) enum Instruction {
    /// At the `position` of the method's parameters, unless it has `{passages}`.
    Text(String),
    /// At a position of its own.
    Placed(PlacedInstruction),
}

/// An instruction with a position of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlacedInstruction {
    text: String,
    position: InstructionPosition,
}

/// Instructions with combined scores, always written out in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "GivenInstructions")]
pub(super) struct Instructions(Vec<Instruction>);

/// The text around the documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DocumentFrame {
    /// Right before the first document.
    pub(super) before: String,
    /// Right after the last one.
    pub(super) after: String,
}

/// A text, the name of a set, or a list.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected an instruction, a list of instructions (each a text, or a table of `text` and `position`), \
                 \"hopeval:one\" or \"hopeval:five\""
)]
enum GivenInstructions {
    One(String),
    Several(Vec<Instruction>),
}

/// An unknown name of a set.
struct UnknownSet(String);

impl fmt::Display for UnknownSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = SETS.map(|(name, _)| format!("`{name}`")).join(" and ");
        write!(f, "no instructions `{}`; allowed are {names}, a text, or a list of texts", self.0)
    }
}

impl TryFrom<GivenInstructions> for Instructions {
    type Error = UnknownSet;

    fn try_from(given: GivenInstructions) -> Result<Self, UnknownSet> {
        match given {
            GivenInstructions::Several(instructions) => Ok(Self(instructions)),
            GivenInstructions::One(text) if !text.starts_with(OWN) => Ok(Self(vec![Instruction::Text(text)])),
            GivenInstructions::One(name) => {
                let found = SETS.iter().find(|(known, _)| *known == name);
                found.map(|(_, set)| Self::embedded_set(set)).ok_or(UnknownSet(name))
            }
        }
    }
}

impl Default for Instructions {
    fn default() -> Self {
        Self::embedded_set(DEFAULT)
    }
}

impl Instructions {
    fn embedded_set(set: &str) -> Self {
        Self(serde_json::from_str(set).expect("embedded instructions are a list of instructions; this is a bug"))
    }

    /// The author of the wording: `hopeval`, or `job`.
    pub(super) fn origin(&self) -> &'static str {
        let own = |instruction| SETS.iter().any(|(_, set)| Self::embedded_set(set).0.contains(instruction));
        if self.0.iter().all(own) { "hopeval" } else { "job" }
    }

    /// The text of each instruction around the documents.
    ///
    /// # Errors
    /// The list is empty, or an instruction is blank or has its documents in two places.
    pub(super) fn document_frames(
        &self,
        position: InstructionPosition,
        cue: &str,
        separator: &str,
    ) -> Result<Vec<DocumentFrame>, MethodError> {
        if self.0.is_empty() {
            return Err(bad_value("instructions", "[]", "must not be empty; for none say position = \"none\""));
        }
        self.0.iter().map(|instruction| instruction.document_frame(position, cue, separator)).collect()
    }
}

impl Instruction {
    fn document_frame(
        &self,
        method: InstructionPosition,
        cue: &str,
        separator: &str,
    ) -> Result<DocumentFrame, MethodError> {
        let (text, position, placed) = match self {
            Self::Text(text) => (text, method, false),
            Self::Placed(PlacedInstruction { text, position }) => (text, *position, true),
        };
        if text.trim().is_empty() {
            return Err(bad_value("instructions", text, "must not be blank; for none say position = \"none\""));
        }
        if let Some((before, after)) = text.split_once(PLACE) {
            if placed || after.contains(PLACE) {
                return Err(bad_value("instructions", text, "may name {passages} once, and then has no `position`"));
            }
            return Ok(DocumentFrame { before: before.to_owned(), after: after.to_owned() });
        }
        // `none` as the method's position overrides the instruction's own.
        let position = if method == InstructionPosition::None { method } else { position };
        let led = |text: &str| if text.is_empty() { String::new() } else { format!("{separator}{text}") };
        Ok(match position {
            InstructionPosition::After => DocumentFrame { before: String::new(), after: led(text) + &led(cue) },
            InstructionPosition::Before => DocumentFrame { before: format!("{text}{separator}"), after: led(cue) },
            InstructionPosition::None => DocumentFrame::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(instruction: &str, position: InstructionPosition, cue: &str) -> (String, String) {
        let frame = Instruction::Text(instruction.to_owned()).document_frame(position, cue, " ").unwrap();
        (frame.before, frame.after)
    }

    #[test]
    fn instructions_stand_around_the_documents() {
        let owned = |before: &str, after: &str| (before.to_owned(), after.to_owned());
        assert_eq!(frame("Ask.", InstructionPosition::After, "Question:"), owned("", " Ask. Question:"));
        assert_eq!(frame("Ask.", InstructionPosition::Before, "Question:"), owned("Ask. ", " Question:"));
        assert_eq!(frame("Ask.", InstructionPosition::Before, ""), owned("Ask. ", ""));
        assert_eq!(frame("Ask.", InstructionPosition::None, "Question:"), owned("", ""));
        assert_eq!(frame("A: {passages}\nB:", InstructionPosition::Before, "Question:"), owned("A: ", "\nB:"));
    }

    #[test]
    fn embedded_sets_are_hopeval_s_and_differ() {
        for (name, set) in SETS {
            let instructions = Instructions::embedded_set(set);
            assert_eq!(instructions.origin(), "hopeval", "{name}");
            let frames = instructions.document_frames(InstructionPosition::After, "Question:", " ").unwrap();
            assert!((1..frames.len()).all(|i| !frames[..i].contains(&frames[i])), "{name} has one twice");
        }
        assert_eq!(Instructions(vec![Instruction::Text("Ask.".to_owned())]).origin(), "job");
    }
}
