//! Applies the overflow rules.

use super::joined::JoinedTokens;
use super::{AssembledPrompt, LengthLimit, OverflowRule, Prompt, PromptError, PromptPart, PromptReport};
use crate::tokenise::{TokeniseError, Tokenizer};

/// Puts a prompt together. The effective budget is the smaller of `most`, the model's limit, and the prompt's own
/// budget. `special` puts the tokenizer's special tokens around the whole; they count.
///
/// # Errors
/// [`PromptError`].
pub fn assemble<T: AsRef<str>>(
    tokenizer: &Tokenizer,
    prompt: &Prompt<T>,
    most: Option<usize>,
    special: bool,
) -> Result<AssembledPrompt, PromptError> {
    let parts = prompt.parts.len();
    if let Some(rule) = prompt.overflow.iter().find(|rule| rule.parts().end > parts) {
        return Err(PromptError::NoPart { part: rule.parts().end - 1, parts });
    }
    let joined = JoinedTokens::new(tokenizer, special, parts);
    let count_parts = prompt.count_parts;
    let mut assembly =
        PromptAssembly { joined, texts: Vec::new(), lost: Vec::new(), count_parts, tokens: 0, trimmed: None };
    for part in &prompt.parts {
        let (text, lost) = truncate_part(tokenizer, part)?;
        assembly.texts.push(text);
        assembly.lost.push(lost);
    }
    let mut dropped = prompt.dropped_shots(&assembly.texts, |text| Ok(tokenizer.ids(text, false)?.len()))?;
    dropped.iter().for_each(|&part| assembly.texts[part].clear());
    assembly.update_tokens()?;
    let budget = prompt.budget.into_iter().chain(most).min().unwrap_or(usize::MAX);
    for rule in &prompt.overflow {
        if assembly.tokens <= budget {
            break;
        }
        match *rule {
            OverflowRule::Drop { .. } => {
                let begun = dropped.len();
                dropped.extend(rule.parts().filter(|part| !dropped.contains(part)).collect::<Vec<_>>());
                for &part in &dropped[begun..] {
                    assembly.texts[part].clear();
                }
                if dropped.len() > begun {
                    assembly.update_tokens()?;
                }
            }
            OverflowRule::Cut { part, to } => assembly.cut_part(part, to, budget)?,
        }
    }
    let tokens = assembly.tokens;
    if tokens > budget {
        return Err(PromptError::TooLong { tokens, budget });
    }
    let PromptAssembly { joined, texts, lost, trimmed, .. } = assembly;
    let cut = lost.into_iter().enumerate().filter(|(part, lost)| *lost > 0 && !dropped.contains(part)).collect();
    let (ids, part_tokens) = match trimmed {
        Some(TrimmedWhole { ids, part_tokens }) => (ids, part_tokens),
        None => (joined.ids(0), if count_parts { joined.part_counts()? } else { Vec::new() }),
    };
    let report = PromptReport { tokens, dropped, cut, part_tokens };
    Ok(AssembledPrompt { ids, texts, report })
}

/// A part's text within its own limit, and the number of tokens lost.
fn truncate_part<T: AsRef<str>>(tokenizer: &Tokenizer, part: &PromptPart<T>) -> Result<(String, usize), TokeniseError> {
    let text = part.text.as_ref();
    match part.truncate {
        None => Ok((text.to_owned(), 0)),
        Some(LengthLimit::Tokens(most)) => tokenizer.shorten(text, most),
        Some(limit @ (LengthLimit::Words(_) | LengthLimit::SpacedWords(_))) => {
            let end = limit.words_end(text).unwrap_or(text.len());
            let rest = &text[end..];
            // Spaces behind the last word are no further word, but for the rule that counts every space.
            if rest.is_empty() || matches!(limit, LengthLimit::Words(_)) && rest.trim().is_empty() {
                return Ok((text.to_owned(), 0));
            }
            let kept = text[..end].to_owned();
            let tokens = |text: &str| tokenizer.ids(text, false).map(|ids| ids.len());
            let lost = tokens(text)?.saturating_sub(tokens(&kept)?);
            Ok((kept, lost))
        }
    }
}

/// A prompt during its assembly.
struct PromptAssembly<'a> {
    /// The tokens of the texts.
    joined: JoinedTokens<'a>,
    /// The text left of each part.
    texts: Vec<String>,
    /// The tokens lost from each part.
    lost: Vec<usize>,
    /// Whether the report counts the tokens of each part.
    count_parts: bool,
    /// Tokens of the whole, special ones included.
    tokens: usize,
    /// The whole after a cut at its right, until it is tokenised again.
    trimmed: Option<TrimmedWhole>,
}

/// A whole without its last tokens.
struct TrimmedWhole {
    ids: Vec<u32>,
    /// The remaining tokens of each part, if counted.
    part_tokens: Vec<usize>,
}

impl PromptAssembly<'_> {
    fn update_tokens(&mut self) -> Result<(), TokeniseError> {
        self.trimmed = None;
        self.joined.update(&self.texts)?;
        self.tokens = self.joined.len();
        Ok(())
    }

    /// Leaves out the last `gone` tokens, all of `part`.
    fn trim_whole(&mut self, part: usize, gone: usize) -> Result<(), TokeniseError> {
        let mut part_tokens = if self.count_parts { self.joined.part_counts()? } else { Vec::new() };
        if let Some(tokens) = part_tokens.get_mut(part) {
            *tokens -= gone;
        }
        self.tokens = self.joined.len() - gone;
        self.trimmed = Some(TrimmedWhole { ids: self.joined.ids(gone), part_tokens });
        Ok(())
    }

    /// Cuts a part until the whole fits or no more than `to` is left of the part.
    fn cut_part(&mut self, part: usize, to: LengthLimit, budget: usize) -> Result<(), TokeniseError> {
        if self.trimmed.is_some() {
            // The tokens of the remaining texts; the trimmed whole stays valid until something is cut.
            self.joined.update(&self.texts)?;
        }
        let begin: usize = self.texts[..part].iter().map(String::len).sum();
        let text = self.texts[part].clone();
        let own = self.joined.part_spans(&self.texts, part)?;
        let least = match (to, to.words_end(&text)) {
            (LengthLimit::Tokens(least), _) => least.min(own.len()),
            (_, end) => own.iter().filter(|token| token.start < begin + end.unwrap_or(0)).count(),
        };
        let is_last = self.texts[part + 1..].iter().all(String::is_empty);
        let mut kept = own.len();
        while self.tokens > budget && kept > least {
            kept = kept.saturating_sub(self.tokens - budget).max(least);
            let end = kept.checked_sub(1).map_or(0, |last| own[last].end - begin);
            text[..end].clone_into(&mut self.texts[part]);
            if is_last && kept > 0 {
                // Nothing follows, so the other tokens stay as they are: the whole is cut at the right.
                self.trim_whole(part, own.len() - kept)?;
            } else {
                self.update_tokens()?;
            }
        }
        self.lost[part] += own.len() - kept;
        Ok(())
    }
}
