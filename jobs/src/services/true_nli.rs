//! Entailment by a text-to-text model, as that of Honovich et al. 2022 (TRUE) was trained: `t5_xxl_true_nli_mixture`.
//!
//! It reads `premise: P hypothesis: H` and writes `1` or `0`. The answer is the probability of the `1`, or, where no
//! probabilities are to be had, whether it is written.

use hopeval_methods::request::EntailPayload;
use hopeval_methods::{Prompt, PromptPart};

/// The word that means entailment.
pub(super) const ENTAILED: &str = "1";

/// Tokens enough for the word.
pub(super) const WORD_TOKENS: u32 = 4;

/// The model's input.
pub(super) fn entailment_prompt(asked: &EntailPayload) -> Prompt {
    let mut parts = vec![PromptPart::text("premise: ")];
    parts.extend(asked.premise.parts.iter().cloned());
    parts.push(PromptPart::text(format!(" hypothesis: {}", asked.hypothesis)));
    // The rules count the premise's own parts.
    let overflow = asked.premise.overflow.iter().map(|rule| rule.shifted(1)).collect();
    Prompt { parts, overflow, ..asked.premise.clone() }
}

/// The answer of a written text: 1 if its first word is the one of entailment, else 0.
pub(super) fn written_entailment(text: &str) -> f64 {
    let word = text.split_whitespace().next().unwrap_or_default();
    f64::from(u8::from(word.trim_matches(['.', '"', '\'']) == ENTAILED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_methods::{LengthLimit, OverflowRule};

    #[test]
    fn the_premise_stands_between_its_words() {
        let rule = OverflowRule::Cut { part: 0, to: LengthLimit::Tokens(0) };
        let premise = Prompt { overflow: vec![rule.shifted(0)], ..Prompt::text("P.") };
        let prompt = entailment_prompt(&EntailPayload { premise, hypothesis: "H.".to_owned() });
        assert_eq!(prompt.parts, ["premise: ", "P.", " hypothesis: H."].map(PromptPart::text));
        assert_eq!(prompt.overflow, [rule.shifted(1)]);
    }

    #[test]
    fn only_a_one_means_entailment() {
        let read = [" 1", "1.", "1\n0", "0", "10", "", "yes"].map(written_entailment);
        assert_eq!(read, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
