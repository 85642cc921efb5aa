//! Prompts for an endpoint: the protocol's parts, with their texts, within the budget, as messages or as one text.

use super::open::EndpointService;
use super::rough::assemble_roughly;
use crate::services::engine_prompt::{engine_prompt, prompt_failure, prompt_report};
use hopeval_corpus::Corpus;
use hopeval_endpoint::{ApiStyle, ChatMessage, ChatRole, PromptInput};
use hopeval_lm::prompt::{self as engine, assemble};
use hopeval_methods::{Failure, Prompt, PromptReport, prompt};

/// A prompt put together.
pub(super) struct EndpointPrompt {
    /// The remaining text of each part.
    pub(super) texts: Vec<String>,
    /// The ids of the whole, special tokens included; empty without a tokenizer.
    pub(super) ids: Vec<u32>,
    /// Dropped and cut parts.
    pub(super) report: PromptReport,
}

impl EndpointService {
    /// Puts a prompt together, with `reserved` tokens of the context kept free for the answer. The tokens of a chat's
    /// template are not counted: no tokenizer here knows them.
    ///
    /// # Errors
    /// As [`engine_prompt`] and [`prompt_failure`].
    pub(super) fn assemble_prompt(
        &self,
        corpus: &Corpus,
        prompt: &Prompt,
        reserved: usize,
        special: bool,
    ) -> Result<EndpointPrompt, Failure> {
        let prompt = engine_prompt(corpus, &self.fragments, prompt)?;
        let most = self.settings.context_tokens.map(|context| (context as usize).saturating_sub(reserved));
        let assembled = match self.open_tokenizer() {
            Some(tokenizer) => assemble(tokenizer, &prompt, most, special),
            None => assemble_roughly(&prompt, most),
        };
        let engine::AssembledPrompt { ids, texts, report } = assembled.map_err(|error| prompt_failure(&error))?;
        Ok(EndpointPrompt { texts, ids, report: prompt_report(&report) })
    }

    /// The prompt as the interface takes it: messages of adjacent parts of one role, or one text.
    pub(super) fn prompt_input(&self, parts: &[prompt::PromptPart], texts: Vec<String>) -> PromptInput {
        match self.settings.api {
            ApiStyle::Completions => PromptInput::Text(texts.concat()),
            ApiStyle::Chat => {
                let mut messages: Vec<ChatMessage> = Vec::new();
                for (part, text) in parts.iter().zip(texts) {
                    let role = match part.role {
                        prompt::ChatRole::System => ChatRole::System,
                        prompt::ChatRole::User => ChatRole::User,
                        prompt::ChatRole::Assistant => ChatRole::Assistant,
                    };
                    match messages.last_mut() {
                        Some(last) if last.role == role => last.text.push_str(&text),
                        _ => messages.push(ChatMessage { role, text }),
                    }
                }
                // A dropped part may have been all of its message.
                messages.retain(|message| !message.text.is_empty());
                PromptInput::Messages(messages)
            }
        }
    }
}
