//! Puts prompts together as chats: parts are truncated, joined to messages and rendered, within a budget of tokens.
//!
//! ```text
//!   parts --truncate each--> texts --join by role--> messages --template--> text --tokenise--> ids --within budget?
//!                              ^                                                                     | no
//!                              '------------------- next overflow rule -----------------------------'
//! ```
//!
//! The rules are those of [`crate::prompt`]. Two things differ, because a template decides what stands around a part
//! and what it does to a text. A part is measured alone when it is cut, and the whole is rendered and counted again.
//! And dropped parts are as if they had never been there: a message of dropped parts alone is none, and its neighbours
//! of one role are one message.
//!
//! The template writes all special tokens. The tokenizer adds none of its own, so there is one beginning of a sequence.

use crate::chat_template::{ChatError, ChatMessage, ChatRole, ChatTemplate};
use crate::prompt::{AssembledPrompt, OverflowRule, Prompt, PromptError, PromptPart, PromptReport, assemble};
use crate::tokenise::Tokenizer;

/// The reason for the failure of an assembly.
#[derive(Debug, thiserror::Error)]
pub enum ChatPromptError {
    /// As for every prompt.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The template fails on the messages.
    #[error(transparent)]
    Chat(#[from] ChatError),
}

/// Puts a prompt together. `roles` has the speaker of each part; the budget is that of [`assemble`].
///
/// # Errors
/// [`ChatPromptError`].
///
/// # Panics
/// If there are not as many roles as parts.
pub fn assemble_chat(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    prompt: &Prompt,
    roles: &[ChatRole],
    most: Option<usize>,
) -> Result<AssembledPrompt, ChatPromptError> {
    let parts = prompt.parts.len();
    assert_eq!(roles.len(), parts, "a role for each part; this is a bug");
    if let Some(rule) = prompt.overflow.iter().find(|rule| rule.parts().end > parts) {
        return Err(PromptError::NoPart { part: rule.parts().end - 1, parts }.into());
    }
    let mut texts = Vec::with_capacity(parts);
    let mut lost = vec![0; parts];
    for (part, lost) in prompt.parts.iter().zip(&mut lost) {
        let alone = part_alone(tokenizer, part, None, Vec::new())?;
        *lost = lost_tokens(&alone);
        texts.extend(alone.texts);
    }
    let mut chat = ChatAssembly { tokenizer, template, roles, texts, dropped: vec![false; parts], ids: Vec::new() };
    let mut dropped = prompt.dropped_shots(&chat.texts, |text| Ok(tokenizer.ids(text, false)?.len()))?;
    for &part in &dropped {
        chat.dropped[part] = true;
        chat.texts[part].clear();
    }
    chat.encode_messages()?;
    let budget = prompt.budget.into_iter().chain(most).min().unwrap_or(usize::MAX);
    for rule in &prompt.overflow {
        if chat.ids.len() <= budget {
            break;
        }
        match *rule {
            OverflowRule::Drop { .. } => {
                let begun = dropped.len();
                for part in rule.parts().filter(|&part| !chat.dropped[part]).collect::<Vec<_>>() {
                    dropped.push(part);
                    chat.dropped[part] = true;
                    chat.texts[part].clear();
                }
                if dropped.len() > begun {
                    chat.encode_messages()?;
                }
            }
            OverflowRule::Cut { part, .. } => lost[part] += chat.cut_part(part, *rule, budget)?,
        }
    }
    let tokens = chat.ids.len();
    if tokens > budget {
        return Err(PromptError::TooLong { tokens, budget }.into());
    }
    let cut = lost.into_iter().enumerate().filter(|(part, lost)| *lost > 0 && !chat.dropped[*part]).collect();
    let part_tokens = if prompt.count_parts { chat.count_parts()? } else { Vec::new() };
    let report = PromptReport { tokens, dropped, cut, part_tokens };
    Ok(AssembledPrompt { ids: chat.ids, texts: chat.texts, report })
}

/// A chat during its assembly.
struct ChatAssembly<'a> {
    tokenizer: &'a Tokenizer,
    template: &'a ChatTemplate,
    roles: &'a [ChatRole],
    /// The text left of each part.
    texts: Vec<String>,
    /// Whether each part was dropped.
    dropped: Vec<bool>,
    /// Token ids of the whole.
    ids: Vec<u32>,
}

impl ChatAssembly<'_> {
    fn encode_messages(&mut self) -> Result<(), ChatPromptError> {
        let kept = (0..self.texts.len()).filter(|&part| !self.dropped[part]);
        let messages = join_parts(kept.map(|part| (self.roles[part], self.texts[part].as_str())));
        let text = self.template.render(&messages)?;
        self.ids = self.tokenizer.ids(&text, false).map_err(PromptError::from)?.to_vec();
        Ok(())
    }

    /// The tokens of each part alone: a template may put marks between the parts of one message.
    fn count_parts(&self) -> Result<Vec<usize>, ChatPromptError> {
        let count = |text: &String| Ok(self.tokenizer.ids(text, false).map_err(PromptError::from)?.len());
        self.texts.iter().map(count).collect()
    }

    /// Cuts a part until the whole fits or the rule's rest is left. Returns the part's lost tokens.
    fn cut_part(&mut self, part: usize, rule: OverflowRule, budget: usize) -> Result<usize, ChatPromptError> {
        let alone = |text: &str| PromptPart { text: text.to_owned(), truncate: None };
        let OverflowRule::Cut { to, .. } = rule else { return Ok(0) };
        let own_rule = vec![OverflowRule::Cut { part: 0, to }];
        let whole = part_alone(self.tokenizer, &alone(&self.texts[part]), None, Vec::new())?;
        let mut kept = whole.report.tokens;
        while self.ids.len() > budget {
            let wanted = kept.saturating_sub(self.ids.len() - budget);
            let cut = match part_alone(self.tokenizer, &alone(&self.texts[part]), Some(wanted), own_rule.clone()) {
                // Its rest is longer than wanted.
                Err(PromptError::TooLong { tokens, .. }) if tokens < kept => {
                    part_alone(self.tokenizer, &alone(&self.texts[part]), Some(tokens), own_rule.clone())?
                }
                Err(PromptError::TooLong { .. }) => break,
                cut => cut?,
            };
            if cut.report.tokens >= kept {
                break;
            }
            kept = cut.report.tokens;
            self.texts[part].clone_from(&cut.texts[0]);
            self.encode_messages()?;
        }
        Ok(whole.report.tokens - kept)
    }
}

/// A part by itself, without special tokens.
fn part_alone(
    tokenizer: &Tokenizer,
    part: &PromptPart,
    budget: Option<usize>,
    overflow: Vec<OverflowRule>,
) -> Result<AssembledPrompt, PromptError> {
    assemble(tokenizer, &Prompt { parts: vec![part.clone()], budget, overflow, ..Prompt::default() }, None, false)
}

fn lost_tokens(alone: &AssembledPrompt) -> usize {
    alone.report.cut.iter().map(|(_, lost)| lost).sum()
}

/// Messages of parts: adjacent parts of one role make one.
pub fn join_parts<'a>(parts: impl IntoIterator<Item = (ChatRole, &'a str)>) -> Vec<ChatMessage> {
    let mut messages: Vec<ChatMessage> = Vec::new();
    for (role, text) in parts {
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.push_str(text),
            _ => messages.push(ChatMessage { role, content: text.to_owned() }),
        }
    }
    messages
}
