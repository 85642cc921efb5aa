//! Decides whether a text contains an answer, as DPR's `has_answer` does (`dpr/data/qa_validation.py`, match type
//! `string`): NFD, DrQA's `SimpleTokenizer` (`[\p{L}\p{N}\p{M}]+` or one visible character), lower case, then an
//! answer's tokens as a contiguous part of the text's.
//!
//! An answer without tokens (empty, or only spaces) is in every text, as in the script.

pub(crate) mod categories;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use categories::PUNCTUATION_OR_SYMBOL;

/// A text as lower-cased tokens. Reusable.
#[derive(Clone, Debug, Default)]
struct TextTokens {
    text: String,
    /// End of each token in `text`. Tokens are adjacent.
    ends: Vec<u32>,
}

/// Searches texts for a question's answers.
#[derive(Clone, Debug, Default)]
pub struct AnswerMatcher {
    answers: Vec<TextTokens>,
    used: usize,
    text: TextTokens,
    decomposed: String,
}

impl AnswerMatcher {
    /// A matcher for these answers.
    pub fn new<S: AsRef<str>>(answers: &[S]) -> Self {
        let mut matcher = Self::default();
        matcher.set_answers(answers);
        matcher
    }

    /// Replaces the answers.
    pub fn set_answers<S: AsRef<str>>(&mut self, answers: &[S]) {
        self.used = answers.len();
        if self.answers.len() < self.used {
            self.answers.resize_with(self.used, TextTokens::default);
        }
        for (slot, answer) in self.answers.iter_mut().zip(answers) {
            slot.set(answer.as_ref(), &mut self.decomposed);
        }
    }

    /// Whether `text` contains one of the answers.
    pub fn is_in(&mut self, text: &str) -> bool {
        self.text.set(text, &mut self.decomposed);
        self.answers[..self.used].iter().any(|answer| self.text.contains(answer))
    }
}

/// DPR's `has_answer` for one text. [`AnswerMatcher`] is faster for many.
///
/// ```
/// use hopeval_measures::has_answer::has_answer;
/// assert!(has_answer(&["New York"], "She moved to new york, then left."));
/// assert!(!has_answer(&["York"], "Yorkshire"));
/// ```
pub fn has_answer<S: AsRef<str>>(answers: &[S], text: &str) -> bool {
    AnswerMatcher::new(answers).is_in(text)
}

impl TextTokens {
    fn set(&mut self, text: &str, decomposed: &mut String) {
        self.text.clear();
        self.ends.clear();
        let text = if text.is_ascii() {
            text
        } else {
            decomposed.clear();
            decomposed.extend(text.nfd());
            decomposed
        };
        let mut rest = text.char_indices().peekable();
        while let Some((start, c)) = rest.next() {
            let mut end = start + c.len_utf8();
            if is_alphanumeric(c) {
                while let Some((at, c)) = rest.next_if(|&(_, c)| is_alphanumeric(c)) {
                    end = at + c.len_utf8();
                }
            } else if !is_visible(c) {
                continue;
            }
            hopeval_pytext::lower_into(&text[start..end], &mut self.text);
            self.ends.push(self.text.len() as u32);
        }
    }

    fn range(&self, first: usize, count: usize) -> &str {
        let at = |index: usize| if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.text[at(first)..at(first + count)]
    }

    fn contains(&self, answer: &Self) -> bool {
        let count = answer.ends.len();
        (0..(self.ends.len() + 1).saturating_sub(count)).any(|first| {
            self.range(first, count) == answer.text
                && (0..count).all(|i| self.range(first, i + 1).len() == answer.ends[i] as usize)
        })
    }
}

/// `[\p{L}\p{N}\p{M}]`
fn is_alphanumeric(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() } else { hopeval_pytext::is_word(c) || is_combining_mark(c) }
}

/// `[^\p{Z}\p{C}]`, of characters that are not alphanumeric.
fn is_visible(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation();
    }
    let after = PUNCTUATION_OR_SYMBOL.partition_point(|&(first, _)| first <= c as u32);
    after > 0 && c as u32 <= PUNCTUATION_OR_SYMBOL[after - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_match_whole_and_in_order() {
        assert!(has_answer(&["1,000"], "about 1,000 men"));
        assert!(!has_answer(&["1000"], "about 1,000 men"));
        assert!(!has_answer(&["Paris France"], "Paris, France"));
        assert!(has_answer(&["Beyoncé"], "BEYONCE\u{301} sang"));
        assert!(has_answer(&["x", "C++"], "in c + + or c++"));
        assert!(!has_answer(&["ab c"], "a bc"));
    }

    #[test]
    fn invisible_characters_separate_tokens() {
        assert!(has_answer(&["New York"], "New\u{200b}\u{a0}York"));
        assert!(has_answer(&["\u{2028}"], ""));
        assert!(!has_answer(&["a"], ""));
        assert!(!has_answer::<&str>(&[], "a"));
    }

    #[test]
    fn answers_can_be_replaced() {
        let mut matcher = AnswerMatcher::new(&["one", "two"]);
        assert!(matcher.is_in("two"));
        matcher.set_answers(&["one"]);
        assert!(!matcher.is_in("two"));
    }
}
