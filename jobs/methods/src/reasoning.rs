//! Chains of thought as IRCoT writes and reads them: their sentences, their end, their answer, the next query.
//!
//! Rules of texts that the authors' code has and the paper does not name stand here with their source; whether a method
//! follows them is a parameter of the method.

use hopeval_pytext::{is_space, sentences, split};
use serde::{Deserialize, Serialize};

/// The words of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QueryWords {
    /// All words of the text.
    #[default]
    All,
    /// Without the words that only ask.
    WithoutQuestionWords,
}

impl QueryWords {
    /// The query that a text makes, without white space around it.
    pub(crate) fn query(self, text: &str) -> String {
        match self {
            Self::All => text.trim_matches(is_space).to_owned(),
            Self::WithoutQuestionWords => without_question_words(text),
        }
    }
}

/// The first sentence of a generated text; empty for a text without one.
pub(crate) fn first_sentence(text: &str) -> &str {
    sentences(text).next().unwrap_or_default()
}

/// The answer that a chain of thought gives: the words behind its last `answer is`, with or without a colon. `None` if
/// it gives none. One full stop at the end is not part of it (IRCoT's code: the pattern `.* answer is:? (.*)\.?`).
pub(crate) fn stated_answer(text: &str) -> Option<&str> {
    const PHRASE: &str = " answer is";
    let answer = text.rmatch_indices(PHRASE).find_map(|(at, _)| {
        let rest = &text[at + PHRASE.len()..];
        rest.strip_prefix(':').unwrap_or(rest).strip_prefix(' ')
    })?;
    Some(without_stop(answer))
}

/// The answer in a reader's text: the stated one, or else the whole text, without a full stop at its end (section 3.2).
pub(crate) fn read_answer(text: &str) -> &str {
    stated_answer(text).unwrap_or_else(|| without_stop(text.trim_matches(is_space)))
}

fn without_stop(answer: &str) -> &str {
    let answer = answer.trim_matches(is_space);
    answer.strip_suffix('.').unwrap_or(answer)
}

/// Whether a sentence concludes from earlier ones and so brings no new words to search for: it begins with `Thus`,
/// `So`, `That is,`, `Therefore` or `Hence`, or it is a sum such as `1990 - 1950 = 40` (IRCoT's code).
pub(crate) fn is_conclusion(sentence: &str) -> bool {
    const OPENINGS: [&str; 7] = ["thus ", "thus,", "so ", "so,", "that is,", "therefore", "hence"];
    let lower = sentence.to_lowercase();
    OPENINGS.iter().any(|opening| lower.starts_with(opening)) || states_a_sum(sentence)
}

/// Whether `number + number = number` or `number - number = number` stands in a sentence, with single spaces.
fn states_a_sum(sentence: &str) -> bool {
    let words: Vec<&str> = sentence.split(' ').collect();
    let ends_in_digit = |word: &str| word.ends_with(|c: char| c.is_ascii_digit());
    let begins_with_digit = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    words.windows(5).any(|five| match five {
        [left, sign, right, "=", result] => {
            let whole = begins_with_digit(right) && ends_in_digit(right);
            matches!(*sign, "+" | "-") && ends_in_digit(left) && whole && begins_with_digit(result)
        }
        _ => false,
    })
}

/// A query without the words that stand alone and only ask: `who`, `what`, .. `does`, `is`, whatever their case. A word
/// with a mark behind it stays (IRCoT's code).
fn without_question_words(query: &str) -> String {
    const WORDS: [&str; 9] = ["who", "what", "when", "where", "why", "which", "how", "does", "is"];
    let kept = split(query).filter(|word| !WORDS.contains(&word.to_lowercase().as_str()));
    kept.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_what_is_stated_last() {
        assert_eq!(stated_answer("A is B. So the answer is: The Operation M.D.."), Some("The Operation M.D."));
        assert_eq!(stated_answer("The answer is x. So the answer is 1911."), Some("1911"));
        assert_eq!(stated_answer("So the answer is:"), None);
        assert_eq!(stated_answer("So the answer is: "), Some(""));
        assert_eq!(stated_answer("answer is: x"), None, "the pattern wants a space before it");
        assert_eq!(read_answer(" Rome.\n"), "Rome");
        assert_eq!(read_answer("It is so. Thus the answer is Rome."), "Rome");
    }

    #[test]
    fn conclusions_bring_nothing_to_search_for() {
        for sentence in
            ["Thus, Ann is older.", "so it is.", "That is, four.", "Hence no.", "Her age was 1,990 - 1950 = 40 years."]
        {
            assert!(is_conclusion(sentence), "{sentence}");
        }
        for sentence in ["Sofia is a city.", "Thusis is a town.", "It is 4 + four = 8.", "That is Ann.", ""] {
            assert!(!is_conclusion(sentence), "{sentence}");
        }
    }

    #[test]
    fn question_words_that_stand_alone_go() {
        assert_eq!(without_question_words("Who is older, who? Which one  IS it"), "older, who? one it");
        assert_eq!(without_question_words("what is"), "");
    }

    #[test]
    fn a_generation_gives_its_first_sentence() {
        assert_eq!(
            first_sentence(" J. Smith was born in the U.S. in 1911. He died."),
            "J. Smith was born in the U.S. in 1911."
        );
        assert_eq!(first_sentence("\n"), "");
    }
}
