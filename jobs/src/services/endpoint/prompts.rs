//! Prompts for an endpoint: the protocol's parts, with their texts, within the budget, as messages or as one text.

use super::open::EndpointService;
use super::part_text::PartText;
use super::rough::assemble_roughly;
use crate::services::corpus::content_text;
use crate::services::engine_prompt::{engine_prompt, prompt_failure, prompt_report};
use hopeval_corpus::Corpus;
use hopeval_endpoint::{ApiStyle, ChatMessage, ChatRole, PromptInput, PromptText};
use hopeval_lm::prompt::{self as engine, assemble};
use hopeval_methods::{Content, Failure, Prompt, PromptReport, prompt};

/// A prompt put together.
pub(super) struct EndpointPrompt {
    /// The remaining text of each part.
    pub(super) texts: Vec<PartText>,
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
        let text_of = |content: &Content| match content {
            Content::Fragment(digest) => self.fragments.text(*digest).map(PartText::Shared),
            _ => content_text(corpus, &self.fragments, content).map(|text| PartText::Own(text.into_owned())),
        };
        let most = self.settings.context_tokens.map(|context| (context as usize).saturating_sub(reserved));
        let prompt = engine_prompt(prompt, text_of)?;
        let Some(tokenizer) = self.open_tokenizer() else {
            let (texts, report) = assemble_roughly(prompt, most).map_err(|error| prompt_failure(&error))?;
            return Ok(EndpointPrompt { texts, ids: Vec::new(), report: prompt_report(&report) });
        };
        let assembled = assemble(tokenizer, &prompt, most, special).map_err(|error| prompt_failure(&error))?;
        let engine::AssembledPrompt { ids, texts, report } = assembled;
        let parts = prompt.parts.into_iter().zip(texts).map(|(part, left)| part.text.left_of(left));
        Ok(EndpointPrompt { texts: parts.collect(), ids, report: prompt_report(&report) })
    }

    /// The prompt as the interface takes it: messages of adjacent parts of one role, or one text.
    pub(super) fn prompt_input(&self, parts: &[prompt::PromptPart], texts: Vec<PartText>) -> PromptInput {
        match self.settings.api {
            ApiStyle::Completions => {
                let mut whole = PromptText::default();
                texts.into_iter().for_each(|text| text.append_to(&mut whole));
                PromptInput::Text(whole)
            }
            ApiStyle::Chat => {
                let mut messages: Vec<ChatMessage> = Vec::new();
                for (part, text) in parts.iter().zip(texts) {
                    let role = match part.role {
                        prompt::ChatRole::System => ChatRole::System,
                        prompt::ChatRole::User => ChatRole::User,
                        prompt::ChatRole::Assistant => ChatRole::Assistant,
                    };
                    match messages.last_mut() {
                        Some(last) if last.role == role => text.append_to(&mut last.text),
                        _ => {
                            let mut first = PromptText::default();
                            text.append_to(&mut first);
                            messages.push(ChatMessage { role, text: first });
                        }
                    }
                }
                // A dropped part may have been all of its message.
                messages.retain(|message| !message.text.is_empty());
                PromptInput::Messages(messages)
            }
        }
    }
}
