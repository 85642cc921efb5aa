//! Prompts without the model's tokenizer: three bytes of UTF-8 count as a token.
//!
//! English text has about four bytes a token, so the rule seldom counts too few. It is a fixed rule and not a guess of
//! the server's, so a prompt is the same in every run. Limits in words are exact.

use super::part_text::PartText;
use hopeval_lm::prompt::{LengthLimit, OverflowRule, Prompt, PromptError, PromptReport};

/// Bytes of a token.
const TOKEN_BYTES: usize = 3;

/// The tokens of a text by the rule.
pub(super) fn count_tokens(text: &str) -> usize {
    text.len().div_ceil(TOKEN_BYTES)
}

/// Puts a prompt together as [`hopeval_lm::prompt::assemble`] does, with counts by the rule and without ids: the text
/// left of each part, and the changes to the parts.
///
/// # Errors
/// [`PromptError::TooLong`], [`PromptError::NoPart`].
pub(super) fn assemble_roughly(
    mut prompt: Prompt<PartText>,
    most: Option<usize>,
) -> Result<(Vec<PartText>, PromptReport), PromptError> {
    let parts = prompt.parts.len();
    if let Some(rule) = prompt.overflow.iter().find(|rule| rule.parts().end > parts) {
        return Err(PromptError::NoPart { part: rule.parts().end - 1, parts });
    }
    let mut lost = vec![0; parts];
    let mut texts: Vec<PartText> = Vec::with_capacity(parts);
    for (part, lost) in std::mem::take(&mut prompt.parts).into_iter().zip(&mut lost) {
        let mut text = part.text;
        if let Some(limit) = part.truncate {
            let whole = text.as_ref();
            let (end, tokens) = (end_within(whole, limit), count_tokens(whole));
            // Spaces behind the last word are no further word, but for the rule that counts every space.
            let counts_spaces = matches!(limit, LengthLimit::SpacedWords(_));
            if counts_spaces || !whole[end..].trim().is_empty() {
                text.truncate(end);
            }
            *lost = tokens - count_tokens(text.as_ref());
        }
        texts.push(text);
    }
    let budget = prompt.budget.into_iter().chain(most).min().unwrap_or(usize::MAX);
    let length = |text: &PartText| text.as_ref().len();
    let whole = |texts: &[PartText]| texts.iter().map(length).sum::<usize>().div_ceil(TOKEN_BYTES);
    let mut dropped = prompt.dropped_shots(&texts, |text| Ok(count_tokens(text)))?;
    dropped.iter().for_each(|&part| texts[part].truncate(0));
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
                        texts[part].truncate(0);
                    }
                }
            }
            OverflowRule::Cut { part, to } => {
                let text = texts[part].as_ref();
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
        if prompt.count_parts { texts.iter().map(|text| count_tokens(text.as_ref())).collect() } else { Vec::new() };
    Ok((texts, PromptReport { tokens, dropped, cut, part_tokens }))
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
    use hopeval_endpoint::SharedText;
    use hopeval_lm::prompt::PromptPart;

    fn part(text: &str, truncate: Option<LengthLimit>) -> PromptPart<PartText> {
        PromptPart { text: PartText::Own(text.to_owned()), truncate }
    }

    fn texts(parts: &[PartText]) -> Vec<&str> {
        parts.iter().map(AsRef::as_ref).collect()
    }

    fn prompt(parts: Vec<PromptPart<PartText>>, budget: Option<usize>, overflow: &[OverflowRule]) -> Prompt<PartText> {
        Prompt { parts, budget, overflow: overflow.to_vec(), count_parts: false, packing: None }
    }

    #[test]
    fn parts_are_cut_by_their_limits() {
        let parts = vec![
            part("one two  three four", Some(LengthLimit::Words(2))),
            part("sixteen letters.", Some(LengthLimit::Tokens(3))),
            part("äöü", Some(LengthLimit::Tokens(1))),
            part("one  two three", Some(LengthLimit::SpacedWords(3))),
            part("all of it ", Some(LengthLimit::Words(3))),
        ];
        let (left, report) = assemble_roughly(prompt(parts, None, &[]), None).expect("no budget");
        assert_eq!(texts(&left), ["one two", "sixteen l", "ä", "one  two", "all of it "]);
        assert_eq!(report.cut, [(0, 4), (1, 3), (2, 1), (3, 2)]);
        assert_eq!(report.tokens, 12);
    }

    #[test]
    fn rules_apply_in_order_until_it_fits() {
        let parts = vec![part("demonstration one. ", None), part("demonstration two. ", None), part("question", None)];
        let rules = [OverflowRule::drop_part(0), OverflowRule::Cut { part: 1, to: LengthLimit::Words(1) }];
        let assembled = |budget| assemble_roughly(prompt(parts.clone(), Some(budget), &rules), None);
        let (_, all) = assembled(16).expect("it fits");
        assert_eq!((all.tokens, all.dropped.len()), (16, 0));
        let (fewer, report) = assembled(9).expect("one is dropped");
        assert_eq!((texts(&fewer).concat(), report.dropped), ("demonstration two. question".to_owned(), vec![0]));
        let (cut, report) = assembled(8).expect("one is cut, too");
        assert_eq!(texts(&cut).concat(), "demonstration twquestion");
        assert_eq!(report.cut, [(1, 1)]);
        let error = assembled(3).expect_err("a word and the question stay");
        assert!(matches!(error, PromptError::TooLong { tokens: 7, budget: 3 }), "{error}");
    }

    #[test]
    fn shared_texts_are_shared_until_they_are_cut() {
        let shared = || PartText::Shared(SharedText::new("demonstration two. ".into()));
        let parts = [None, Some(LengthLimit::Words(2)), Some(LengthLimit::Words(1))];
        let parts = parts.map(|truncate| PromptPart { text: shared(), truncate }).to_vec();
        let rules = [OverflowRule::drop_part(0)];
        let kinds = |budget| {
            let (left, _) = assemble_roughly(prompt(parts.clone(), budget, &rules), None).expect("it fits");
            let is_shared = left.iter().map(|text| matches!(text, PartText::Shared(_))).collect::<Vec<_>>();
            (is_shared, texts(&left).concat())
        };
        let all = "demonstration two. demonstration two. demonstration";
        assert_eq!(kinds(None), (vec![true, true, false], all.to_owned()));
        assert_eq!(kinds(Some(11)), (vec![false, true, false], all[19..].to_owned()), "a dropped one is empty");
    }
}
