//! Prompts for an endpoint: the protocol's parts, with their texts, within the budget, as messages or as one text.

use super::open::EndpointService;
use super::rough::assemble_roughly;
use crate::services::corpus::content_text;
use hopeval_corpus::Corpus;
use hopeval_endpoint::{ApiStyle, ChatMessage, ChatRole, PromptInput};
use hopeval_lm::prompt::{self as engine, PromptError, assemble};
use hopeval_methods::{Failure, FailureKind, LengthLimit, OverflowRule, Prompt, PromptReport, prompt};

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
    /// [`FailureKind::ContextOverflow`], [`FailureKind::Refused`].
    pub(super) fn assemble_prompt(
        &self,
        corpus: &Corpus,
        prompt: &Prompt,
        reserved: usize,
        special: bool,
    ) -> Result<EndpointPrompt, Failure> {
        let parts = prompt.parts.iter().map(|part| {
            let text = content_text(corpus, &self.fragments, &part.content)?.into_owned();
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
