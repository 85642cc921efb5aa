//! Prompts: the protocol's parts, with the texts of their passages, assembled by the engine's rules.

use super::model::Model;
use crate::services::corpus::content_text;
use hopeval_corpus::Corpus;
use hopeval_lm::prompt::{self as engine, PromptError, assemble};
use hopeval_methods::{Content, Failure, FailureKind, LengthLimit, OverflowRule, Prompt, PromptReport};
use std::borrow::Cow;

/// A prompt ready for the model.
pub(super) struct ModelPrompt {
    /// Token ids.
    pub(super) ids: Vec<u32>,
    /// The remaining text of each part.
    pub(super) texts: Vec<String>,
    /// Dropped and cut parts.
    pub(super) report: PromptReport,
}

impl Model {
    /// The text of a content, with its fragment or passage looked up.
    ///
    /// # Errors
    /// As [`content_text`].
    pub(super) fn content_text<'a>(&self, corpus: &'a Corpus, content: &'a Content) -> Result<Cow<'a, str>, Failure> {
        content_text(corpus, &self.fragments, content)
    }

    /// Assembles a prompt of at most `most` tokens. With `special`, the tokenizer's special tokens surround it.
    ///
    /// # Errors
    /// [`FailureKind::ContextOverflow`], [`FailureKind::Refused`].
    pub(super) fn assemble_prompt(
        &self,
        corpus: &Corpus,
        prompt: &Prompt,
        most: Option<usize>,
        special: bool,
    ) -> Result<ModelPrompt, Failure> {
        let parts = prompt.parts.iter().map(|part| {
            let text = self.content_text(corpus, &part.content)?.into_owned();
            Ok(engine::PromptPart { text, truncate: part.truncate.map(engine_limit) })
        });
        let parts = parts.collect::<Result<Vec<_>, Failure>>()?;
        let overflow = prompt.overflow.iter().map(|rule| match *rule {
            OverflowRule::Drop { part } => engine::OverflowRule::drop_part(part as usize),
            OverflowRule::DropParts { first, count } => {
                engine::OverflowRule::Drop { first: first as usize, count: count as usize }
            }
            OverflowRule::Cut { part, to } => engine::OverflowRule::Cut { part: part as usize, to: engine_limit(to) },
        });
        let prompt = engine::Prompt {
            parts,
            budget: prompt.budget.map(|budget| budget as usize),
            overflow: overflow.collect(),
            count_parts: prompt.count_parts,
        };
        let assembled = assemble(&self.tokenizer, &prompt, most, special).map_err(|error| prompt_failure(&error))?;
        Ok(ModelPrompt { ids: assembled.ids, texts: assembled.texts, report: prompt_report(&assembled.report) })
    }
}

fn engine_limit(limit: LengthLimit) -> engine::LengthLimit {
    match limit {
        LengthLimit::Tokens(tokens) => engine::LengthLimit::Tokens(tokens as usize),
        LengthLimit::Words(words) => engine::LengthLimit::Words(words as usize),
    }
}

fn prompt_report(report: &engine::PromptReport) -> PromptReport {
    PromptReport {
        tokens: report.tokens as u32,
        dropped: report.dropped.iter().map(|&part| part as u32).collect(),
        cut: report.cut.iter().map(|&(part, lost)| (part as u32, lost as u32)).collect(),
        part_tokens: report.part_tokens.iter().map(|&tokens| tokens as u32).collect(),
    }
}

fn prompt_failure(error: &PromptError) -> Failure {
    let kind = match error {
        PromptError::TooLong { .. } => FailureKind::ContextOverflow,
        PromptError::NoPart { .. } | PromptError::Tokenise(_) => FailureKind::Refused,
    };
    Failure { kind, message: error.to_string() }
}

/// A refusal, because the tokenizer would fail again: its files are part of the fingerprint.
pub(super) fn tokenizer_failure(error: &hopeval_lm::tokenise::TokeniseError) -> Failure {
    Failure { kind: FailureKind::Refused, message: error.to_string() }
}
