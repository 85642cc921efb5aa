//! The prompts of `alce`, and their requests.

use super::KIND;
use super::parameters::{AlceParameters, ReaderDemonstrations, ReaderTask, ReaderVariant, token_sampling};
use crate::fragment::Fragment;
use crate::knowledge::compression::{SNIPPET, SUMMARY, compression_template};
use crate::knowledge::{KnowledgePiece, TitleFrame};
use crate::machine::{MethodError, PromptWording};
use crate::prompt::{LengthLimit, OverflowRule};
use crate::request::{GeneratePayload, Request, TextFormat};
use crate::template::{PromptBuilder, PromptTemplate};
use serde_json::json;
use std::collections::BTreeMap;

const READER: &str = include_str!("../../../prompts/alce/reader.txt").trim_ascii_end();
const READER_YES_NO: &str = include_str!("../../../prompts/alce/reader_yes_no.txt").trim_ascii_end();
const DEMONSTRATIONS: &str = include_str!("../../../prompts/alce/demonstrations.json");

/// A passage to be shortened.
const PASSAGE: TitleFrame = TitleFrame { before: "(Title: ", between: ") " };
/// A document behind its number.
pub(super) const DOCUMENT: TitleFrame = TitleFrame { before: "(Title: ", between: "): " };

/// The settings of a configuration, shared by its machines.
#[derive(Debug)]
pub(super) struct AlceSettings {
    pub(super) parameters: AlceParameters,
    reader: PromptTemplate,
    demonstrations: Option<Fragment>,
    compression: PromptTemplate,
    pub(super) wording: PromptWording,
}

impl AlceSettings {
    pub(super) fn new(parameters: AlceParameters) -> Result<Self, MethodError> {
        let wrong = |parameter, allowed| {
            move |_| MethodError::Value { kind: KIND, parameter, found: "a text".to_owned(), allowed }
        };
        let is_open = parameters.task == ReaderTask::Open;
        let reader = parameters.prompt.as_deref().unwrap_or(if is_open { READER } else { READER_YES_NO });
        let own = if parameters.variant == ReaderVariant::Snippet { SNIPPET } else { SUMMARY };
        let compression = parameters.compression_prompt.as_deref().unwrap_or(own);
        let examples = demonstrations(parameters.demonstrations, if is_open { "open" } else { "yes_no" });
        let is_own = parameters.prompt.is_none() && parameters.compression_prompt.is_none();
        Ok(Self {
            wording: PromptWording {
                origin: if is_own { "hopeval" } else { "job" }.into(),
                text: json!([reader, compression, examples]).to_string(),
            },
            reader: PromptTemplate::parse(reader, &["demonstrations", "question", "documents"])
                .map_err(wrong("prompt", "must have {demonstrations}, {question} and {documents}, each once"))?,
            compression: compression_template(compression)
                .map_err(wrong("compression_prompt", "must have {passage} and {question}, each once"))?,
            demonstrations: examples.map(|text| Fragment::new(format!("{text}\n\n"))),
            parameters,
        })
    }

    /// The texts that requests name by digest.
    pub(super) fn fragments(&self) -> Vec<Fragment> {
        let templates = self.reader.fragments().chain(self.compression.fragments());
        templates.chain(&self.demonstrations).cloned().collect()
    }

    fn generate(&self, builder: PromptBuilder, max_tokens: u32, temperature: f64) -> Request {
        let generate = GeneratePayload {
            prompt: builder.finish(),
            max_tokens,
            stop: Vec::new(),
            sampling: token_sampling(temperature),
            format: TextFormat::Text,
            logprobs: false,
        };
        Request::new(&self.parameters.generator, generate)
    }

    /// A short text of a passage.
    pub(super) fn compression_request(&self, piece: &KnowledgePiece, question: &str) -> Request {
        let mut builder = PromptBuilder::new();
        self.compression.append_to(&mut builder, |field, builder| match field {
            "passage" => {
                piece.append_to(builder, PASSAGE);
            }
            _ => builder.text(question),
        });
        let AlceParameters { summary_tokens, summary_temperature, variant, .. } = self.parameters;
        let step = if variant == ReaderVariant::Summ { "summ" } else { "snippet" };
        self.generate(builder, summary_tokens, summary_temperature).at_step(step)
    }

    /// The answer, once for each draw.
    pub(super) fn reader_requests(&self, pieces: &[KnowledgePiece], question: &str) -> Vec<Request> {
        let mut builder = PromptBuilder::new();
        let mut parts = Vec::new();
        self.reader.append_to(&mut builder, |field, builder| match (field, &self.demonstrations) {
            ("demonstrations", Some(examples)) => builder.fragment(examples),
            ("demonstrations", None) => {}
            ("documents", _) => parts = append_documents(builder, pieces),
            _ => builder.text(question),
        });
        if let Some(tokens) = self.parameters.context_tokens {
            builder.budget(Some(tokens));
            for &part in parts.iter().rev() {
                builder.overflow(OverflowRule::Cut { part, to: LengthLimit::Tokens(0) });
            }
        }
        let AlceParameters { max_tokens, temperature, .. } = self.parameters;
        let request = self.generate(builder, max_tokens, temperature).at_step("reader");
        (0..self.parameters.most_draws()).map(|draw| Request { draw, ..request.clone() }).collect()
    }
}

/// Numbers the documents from 1; returns the parts that hold them.
fn append_documents(builder: &mut PromptBuilder, pieces: &[KnowledgePiece]) -> Vec<u32> {
    let append = |(at, piece): (usize, &KnowledgePiece)| {
        builder.text(&format!("{}Document [{}]", if at > 0 { "\n" } else { "" }, at + 1));
        piece.append_to(builder, DOCUMENT)
    };
    pieces.iter().enumerate().map(append).collect()
}

fn demonstrations(choice: ReaderDemonstrations, task: &str) -> Option<String> {
    if choice == ReaderDemonstrations::None {
        return None;
    }
    let mut sets: BTreeMap<String, String> =
        serde_json::from_str(DEMONSTRATIONS).expect("the demonstrations are JSON, as a test shows");
    Some(sets.remove(task).expect("the demonstrations have both tasks, as a test shows"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tasks_have_two_demonstrations() {
        for task in ["open", "yes_no"] {
            let text = demonstrations(ReaderDemonstrations::Two, task).unwrap();
            assert_eq!(text.matches("Question: ").count(), 2, "{task}");
        }
    }
}
