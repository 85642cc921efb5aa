//! Prompts without the model's tokenizer: three bytes of UTF-8 count as a token.
//!
//! English text has about four bytes a token, so the rule seldom counts too few. It is a fixed rule and not a guess of
//! the server's, so a prompt is the same in every run. Limits in words are exact.

use hopeval_lm::prompt::{AssembledPrompt, LengthLimit, OverflowRule, Prompt, PromptError, PromptReport};

/// Bytes of a token.
const TOKEN_BYTES: usize = 3;

/// The tokens of a text by the rule.
pub(super) fn count_tokens(text: &str) -> usize {
    text.len().div_ceil(TOKEN_BYTES)
}

/// Puts a prompt together as [`hopeval_lm::prompt::assemble`] does, with counts by the rule and without ids.
///
/// # Errors
/// [`PromptError::TooLong`], [`PromptError::NoPart`].
pub(super) fn assemble_roughly(prompt: &Prompt, most: Option<usize>) -> Result<AssembledPrompt, PromptError> {
    let parts = prompt.parts.len();
    if let Some(rule) = prompt.overflow.iter().find(|rule| rule.parts().end > parts) {
        return Err(PromptError::NoPart { part: rule.parts().end - 1, parts });
    }
    let mut lost = vec![0; parts];
    let mut texts: Vec<String> = Vec::with_capacity(parts);
    for (part, lost) in prompt.parts.iter().zip(&mut lost) {
        let end = part.truncate.map_or(part.text.len(), |limit| end_within(&part.text, limit));
        // Spaces behind the last word are no further word, but for the rule that counts every space.
        let counts_spaces = matches!(part.truncate, Some(LengthLimit::SpacedWords(_)));
        let is_whole = !counts_spaces && part.text[end..].trim().is_empty();
        let kept = if is_whole { &part.text[..] } else { &part.text[..end] };
        *lost = count_tokens(&part.text) - count_tokens(kept);
        texts.push(kept.to_owned());
    }
    let budget = prompt.budget.into_iter().chain(most).min().unwrap_or(usize::MAX);
    let whole = |texts: &[String]| texts.iter().map(String::len).sum::<usize>().div_ceil(TOKEN_BYTES);
    let mut dropped = prompt.dropped_shots(&texts, |text| Ok(count_tokens(text)))?;
    dropped.iter().for_each(|&part| texts[part].clear());
    for rule in &prompt.overflow {
        let tokens = whole(&texts);
        if tokens <= budget {
            break;
        }
        match *rule {
            OverflowRule::Drop { .. } => {
                for part in rule.parts() {
                    if !dropped.contains(&part) {
                        dropped.push(part);
                        texts[part].clear();
                    }
                }
            }
            OverflowRule::Cut { part, to } => {
                let text = &texts[part];
                let least = end_within(text, to);
                let wanted = text.len().saturating_sub((tokens - budget) * TOKEN_BYTES);
                let end = floor_boundary(text, wanted).max(least);
                lost[part] += count_tokens(text) - count_tokens(&text[..end]);
                texts[part].truncate(end);
            }
        }
    }
    let tokens = whole(&texts);
    if tokens > budget {
        return Err(PromptError::TooLong { tokens, budget });
    }
    let cut = lost.into_iter().enumerate().filter(|(part, lost)| *lost > 0 && !dropped.contains(part)).collect();
    let part_tokens =
        if prompt.count_parts { texts.iter().map(|text| count_tokens(text)).collect() } else { Vec::new() };
    let report = PromptReport { tokens, dropped, cut, part_tokens };
    Ok(AssembledPrompt { ids: Vec::new(), texts, report })
}

/// The last byte of a text within a limit.
fn end_within(text: &str, limit: LengthLimit) -> usize {
    match limit {
        LengthLimit::Tokens(tokens) => floor_boundary(text, tokens.saturating_mul(TOKEN_BYTES)),
        LengthLimit::Words(_) | LengthLimit::SpacedWords(_) => limit.words_end(text).unwrap_or(text.len()),
    }
}

/// The last boundary of a character at or before a byte.
fn floor_boundary(text: &str, byte: usize) -> usize {
    text.floor_char_boundary(byte.min(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_lm::prompt::PromptPart;

    fn part(text: &str, truncate: Option<LengthLimit>) -> PromptPart {
        PromptPart { text: text.to_owned(), truncate }
    }

    #[test]
    fn parts_are_cut_by_their_limits() {
        let parts = vec![
            part("one two  three four", Some(LengthLimit::Words(2))),
            part("sixteen letters.", Some(LengthLimit::Tokens(3))),
            part("äöü", Some(LengthLimit::Tokens(1))),
            part("one  two three", Some(LengthLimit::SpacedWords(3))),
        ];
        let found = assemble_roughly(&Prompt { parts, ..Prompt::default() }, None).expect("no budget");
        assert_eq!(found.texts, ["one two", "sixteen l", "ä", "one  two"]);
        assert_eq!(found.report.cut, [(0, 4), (1, 3), (2, 1), (3, 2)]);
        assert_eq!(found.report.tokens, 9);
    }

    #[test]
    fn rules_apply_in_order_until_it_fits() {
        let parts = vec![part("demonstration one. ", None), part("demonstration two. ", None), part("question", None)];
        let rules = vec![OverflowRule::drop_part(0), OverflowRule::Cut { part: 1, to: LengthLimit::Words(1) }];
        let prompt = |budget| Prompt {
            parts: parts.clone(),
            budget: Some(budget),
            overflow: rules.clone(),
            ..Prompt::default()
        };
        let all = assemble_roughly(&prompt(16), None).expect("it fits");
        assert_eq!((all.report.tokens, all.report.dropped.len()), (16, 0));
        let fewer = assemble_roughly(&prompt(9), None).expect("one is dropped");
        assert_eq!((fewer.texts.concat(), fewer.report.dropped), ("demonstration two. question".to_owned(), vec![0]));
        let cut = assemble_roughly(&prompt(8), None).expect("one is cut, too");
        assert_eq!(cut.texts.concat(), "demonstration twquestion");
        assert_eq!(cut.report.cut, [(1, 1)]);
        let error = assemble_roughly(&prompt(3), None).expect_err("a word and the question stay");
        assert!(matches!(error, PromptError::TooLong { tokens: 7, budget: 3 }), "{error}");
    }
}
