//! The rules on whole texts: each change tokenises the whole prompt again. Slow, and plainly right; the reference for
//! [`super::assemble`].

use super::super::{AssembledPrompt, LengthLimit, OverflowRule, Prompt, PromptError, PromptPart, PromptReport};
use crate::tokenise::{TokenSpan, TokeniseError, Tokenizer};

/// Puts a prompt together. The effective budget is the smaller of `most`, the model's limit, and the prompt's own
/// budget. `special` puts the tokenizer's special tokens around the whole; they count.
///
/// # Errors
/// [`PromptError`].
pub(super) fn assemble_whole(
    tokenizer: &Tokenizer,
    prompt: &Prompt,
    most: Option<usize>,
    special: bool,
) -> Result<AssembledPrompt, PromptError> {
    let parts = prompt.parts.len();
    if let Some(rule) = prompt.overflow.iter().find(|rule| rule.parts().end > parts) {
        return Err(PromptError::NoPart { part: rule.parts().end - 1, parts });
    }
    let mut assembly = PromptAssembly { tokenizer, special, texts: Vec::new(), lost: Vec::new(), ids: Vec::new() };
    for part in &prompt.parts {
        let (text, lost) = truncate_part(tokenizer, part)?;
        assembly.texts.push(text);
        assembly.lost.push(lost);
    }
    let packed = prompt.dropped_shots(&assembly.texts, |text| Ok(tokenizer.ids(text, false)?.len()))?;
    packed.iter().for_each(|&part| assembly.texts[part].clear());
    assembly.encode_texts()?;
    let budget = prompt.budget.into_iter().chain(most).min().unwrap_or(usize::MAX);
    let mut dropped = packed;
    for rule in &prompt.overflow {
        if assembly.ids.len() <= budget {
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
                    assembly.encode_texts()?;
                }
            }
            OverflowRule::Cut { part, to } => assembly.cut_part(part, to, budget)?,
        }
    }
    let tokens = assembly.ids.len();
    if tokens > budget {
        return Err(PromptError::TooLong { tokens, budget });
    }
    let part_tokens = if prompt.count_parts { assembly.count_parts()? } else { Vec::new() };
    let cut =
        assembly.lost.into_iter().enumerate().filter(|(part, lost)| *lost > 0 && !dropped.contains(part)).collect();
    let report = PromptReport { tokens, dropped, cut, part_tokens };
    Ok(AssembledPrompt { ids: assembly.ids, texts: assembly.texts, report })
}

/// The length of the first pieces between single spaces, joined again.
fn end_of_pieces(text: &str, count: usize) -> usize {
    text.split(' ').take(count).collect::<Vec<_>>().join(" ").len()
}

/// A part's text within its own limit, and the number of tokens lost.
fn truncate_part(tokenizer: &Tokenizer, part: &PromptPart) -> Result<(String, usize), TokeniseError> {
    match part.truncate {
        None => Ok((part.text.clone(), 0)),
        Some(LengthLimit::Tokens(most)) => tokenizer.shorten(&part.text, most),
        Some(limit @ (LengthLimit::Words(most) | LengthLimit::SpacedWords(most))) => {
            let spaced = matches!(limit, LengthLimit::SpacedWords(_));
            let end = if spaced { end_of_pieces(&part.text, most) } else { end_of_words(&part.text, most) };
            if end == part.text.len() || !spaced && part.text[end..].trim().is_empty() {
                return Ok((part.text.clone(), 0));
            }
            let kept = part.text[..end].to_owned();
            let tokens = |text: &str| tokenizer.ids(text, false).map(|ids| ids.len());
            let lost = tokens(&part.text)?.saturating_sub(tokens(&kept)?);
            Ok((kept, lost))
        }
    }
}

/// The byte after the first `count` words of a text.
fn end_of_words(text: &str, count: usize) -> usize {
    let start = text.as_ptr() as usize;
    let words = text.split_whitespace().take(count);
    words.last().map_or(0, |word| word.as_ptr() as usize + word.len() - start)
}

/// A prompt during its assembly.
struct PromptAssembly<'a> {
    tokenizer: &'a Tokenizer,
    special: bool,
    /// The text left of each part.
    texts: Vec<String>,
    /// The tokens lost from each part.
    lost: Vec<usize>,
    /// Token ids of the whole.
    ids: Vec<u32>,
}

impl PromptAssembly<'_> {
    fn encode_texts(&mut self) -> Result<(), TokeniseError> {
        self.ids = self.tokenizer.ids(&self.texts.concat(), self.special)?.to_vec();
        Ok(())
    }

    /// The tokens of the whole that end in each part.
    fn count_parts(&self) -> Result<Vec<usize>, TokeniseError> {
        let whole = self.tokenizer.token_spans(&self.texts.concat(), self.special)?;
        let mut begin = 0;
        let count = |text: &String| {
            let end = begin + text.len();
            let tokens = tokens_ending_in(&whole, begin, end).len();
            begin = end;
            tokens
        };
        Ok(self.texts.iter().map(count).collect())
    }

    /// Cuts a part until the whole fits or no more than `to` is left of the part.
    fn cut_part(&mut self, part: usize, to: LengthLimit, budget: usize) -> Result<(), TokeniseError> {
        let begin: usize = self.texts[..part].iter().map(String::len).sum();
        let text = self.texts[part].clone();
        let whole = self.tokenizer.token_spans(&self.texts.concat(), self.special)?;
        let own = tokens_ending_in(&whole, begin, begin + text.len());
        let least = match to {
            LengthLimit::Tokens(least) => least.min(own.len()),
            LengthLimit::Words(least) => {
                let end = begin + end_of_words(&text, least);
                own.iter().filter(|token| token.begin < end).count()
            }
            LengthLimit::SpacedWords(least) => {
                let end = begin + end_of_pieces(&text, least);
                own.iter().filter(|token| token.begin < end).count()
            }
        };
        let is_last = self.texts[part + 1..].iter().all(String::is_empty);
        let mut kept = own.len();
        while self.ids.len() > budget && kept > least {
            kept = kept.saturating_sub(self.ids.len() - budget).max(least);
            let end = kept.checked_sub(1).map_or(0, |last| own[last].end - begin);
            text[..end].clone_into(&mut self.texts[part]);
            if is_last && kept > 0 {
                // Nothing follows, so the other ids stay as they are: the whole is cut at the right.
                let gone = &own[kept..];
                let stays = |at: &usize| gone.binary_search_by_key(at, |token| token.at).is_err();
                self.ids = (0..whole.len()).filter(stays).map(|at| whole[at].0).collect();
            } else {
                self.encode_texts()?;
            }
        }
        self.lost[part] += own.len() - kept;
        Ok(())
    }
}

/// A token of a part.
struct PartToken {
    /// Its index in the whole.
    at: usize,
    /// The bytes that it covers in the whole text.
    begin: usize,
    end: usize,
}

/// The tokens of the whole text with an end after byte `begin` and at most at byte `end`. A token across a part's start
/// thus belongs to the part, a token across its end to the next part.
fn tokens_ending_in(whole: &[TokenSpan], begin: usize, end: usize) -> Vec<PartToken> {
    let token = |(at, (_, span)): (usize, &TokenSpan)| span.map(|(begin, end)| PartToken { at, begin, end });
    whole.iter().enumerate().filter_map(token).filter(|token| token.end > begin && token.end <= end).collect()
}
