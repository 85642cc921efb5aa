//! Prompts: the protocol's parts, assembled by the engine's rules: as plain text, or as a chat.

use super::model::Model;
use crate::services::corpus::content_text;
use crate::services::engine_prompt::{engine_prompt, prompt_failure, prompt_report};
use hopeval_corpus::Corpus;
use hopeval_lm::chat_prompt::{ChatPromptError, assemble_chat};
use hopeval_lm::chat_template::ChatRole as EngineRole;
use hopeval_lm::prompt::{self as engine, assemble};
use hopeval_methods::{ChatRole, Content, Failure, FailureKind, Prompt, PromptReport};
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
        let prompt = engine_prompt(prompt, |content| self.content_text(corpus, content).map(Cow::into_owned))?;
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
        let prompt = engine_prompt(prompt, |content| self.content_text(corpus, content).map(Cow::into_owned))?;
        let assembled =
            assemble_chat(&self.tokenizer, template, &prompt, &roles, most).map_err(|error| match error {
                ChatPromptError::Prompt(error) => prompt_failure(&error),
                // The template is part of the fingerprint: it would refuse the prompt again.
                ChatPromptError::Chat(error) => Failure { kind: FailureKind::Refused, message: error.to_string() },
            })?;
        Ok(model_prompt(assembled))
    }
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

/// A refusal, because the tokenizer would fail again: its files are part of the fingerprint.
pub(super) fn tokenizer_failure(error: &hopeval_lm::tokenise::TokeniseError) -> Failure {
    Failure { kind: FailureKind::Refused, message: error.to_string() }
}
