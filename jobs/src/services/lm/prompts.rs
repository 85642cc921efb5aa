//! Prompts: the protocol's parts, with the texts of their passages, assembled by the engine's rules; as chats, if the
//! service's settings say so.

use super::model::Model;
use crate::services::corpus::content_text;
use hopeval_corpus::Corpus;
use hopeval_lm::chat_prompt::{ChatPromptError, assemble_chat};
use hopeval_lm::chat_template::ChatRole as EngineRole;
use hopeval_lm::prompt::{self as engine, PromptError, assemble};
use hopeval_methods::{ChatRole, Failure, FailureKind, LengthLimit, OverflowRule, Prompt, PromptReport};

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
        let prompt = engine_prompt(corpus, prompt)?;
        let assembled = assemble(&self.tokenizer, &prompt, most, special).map_err(|error| prompt_failure(&error))?;
        Ok(model_prompt(assembled))
    }

    /// Assembles what a language model reads before it answers: special tokens around the whole, or a chat.
    ///
    /// # Errors
    /// As [`assemble_prompt`](Self::assemble_prompt); [`FailureKind::Refused`] if the chat template refuses it.
    pub(super) fn assemble_input(
        &self,
        corpus: &Corpus,
        prompt: &Prompt,
        most: Option<usize>,
    ) -> Result<ModelPrompt, Failure> {
        let Some(template) = &self.chat else { return self.assemble_prompt(corpus, prompt, most, true) };
        let roles: Vec<EngineRole> = prompt.parts.iter().map(|part| engine_role(part.role)).collect();
        let prompt = engine_prompt(corpus, prompt)?;
        let assembled =
            assemble_chat(&self.tokenizer, template, &prompt, &roles, most).map_err(|error| match error {
                ChatPromptError::Prompt(error) => prompt_failure(&error),
                // The template is part of the fingerprint: it would refuse the prompt again.
                ChatPromptError::Chat(error) => Failure { kind: FailureKind::Refused, message: error.to_string() },
            })?;
        Ok(model_prompt(assembled))
    }
}

/// The prompt with the texts of its passages.
fn engine_prompt(corpus: &Corpus, prompt: &Prompt) -> Result<engine::Prompt, Failure> {
    let parts = prompt.parts.iter().map(|part| {
        let text = content_text(corpus, &part.content)?.into_owned();
        Ok(engine::PromptPart { text, truncate: part.truncate.map(engine_limit) })
    });
    let parts = parts.collect::<Result<Vec<_>, Failure>>()?;
    let overflow = prompt.overflow.iter().map(|rule| match *rule {
        OverflowRule::Drop { part } => engine::OverflowRule::Drop { part: part as usize },
        OverflowRule::Cut { part, to } => engine::OverflowRule::Cut { part: part as usize, to: engine_limit(to) },
    });
    Ok(engine::Prompt { parts, budget: prompt.budget.map(|budget| budget as usize), overflow: overflow.collect() })
}

fn model_prompt(assembled: engine::AssembledPrompt) -> ModelPrompt {
    ModelPrompt { ids: assembled.ids, texts: assembled.texts, report: prompt_report(&assembled.report) }
}

fn engine_role(role: ChatRole) -> EngineRole {
    match role {
        ChatRole::System => EngineRole::System,
        ChatRole::User => EngineRole::User,
        ChatRole::Assistant => EngineRole::Assistant,
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
