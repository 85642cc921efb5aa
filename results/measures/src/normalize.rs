//! Normalises answers like the evaluation scripts of the SQuAD family.
//!
//! SQuAD, HotpotQA, 2WikiMultihopQA, MuSiQue and DPR's reader: `lower()`, delete `string.punctuation`, replace
//! `\b(a|an|the)\b` by a space, `" ".join(split())`. TriviaQA replaces punctuation by a space instead, and knows four
//! more marks. The word boundary is Python's: `á` written as `a` and U+0301 loses its `a`, because a combining mark is
//! not a word character in Python, and `a²` keeps it.
//!
//! A [`NormalizedText`] keeps its buffers, so a million answers need no allocation. Plain ASCII takes a byte loop.

use hopeval_pytext::{is_space, is_word, lower_into};

/// The treatment of punctuation and articles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormalizationRules {
    /// SQuAD v1.1, HotpotQA, 2WikiMultihopQA, MuSiQue: punctuation is deleted (`Jean-Luc` is `jeanluc`).
    Squad,
    /// TriviaQA v1.0: punctuation, and `‘ ’ ´`, become spaces (`Jean-Luc` is `jean luc`).
    TriviaQa,
    /// 2WikiMultihopQA's evidences (`normalize_evi`): as [`NormalizationRules::Squad`], but articles stay.
    Evidence,
}

/// A normalised text, its tokens joined by single spaces. Reusable.
#[derive(Clone, Debug, Default)]
pub struct NormalizedText {
    text: String,
    /// Byte ranges of the tokens in `text`.
    tokens: Vec<(u32, u32)>,
    lowered: String,
}

/// `normalize_answer` of the SQuAD family, as a new string.
pub fn normalize(text: &str) -> String {
    normalize_by(NormalizationRules::Squad, text)
}

/// Normalises by the given rules into a new string.
pub fn normalize_by(rules: NormalizationRules, text: &str) -> String {
    let mut out = NormalizedText::default();
    out.set_text(rules, text);
    out.text
}

impl NormalizedText {
    /// Replaces the content by `text`, normalised.
    pub fn set_text(&mut self, rules: NormalizationRules, text: &str) {
        if !self.set_ascii(rules, text) {
            self.set_unicode(rules, text);
        }
    }

    /// The normalised text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether nothing is left after normalisation.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The tokens, `normalized.split()`.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().map(|&(start, end)| &self.text[start as usize..end as usize])
    }

    fn token(&self, index: usize) -> &[u8] {
        let (start, end) = self.tokens[index];
        &self.text.as_bytes()[start as usize..end as usize]
    }

    fn clear(&mut self) {
        self.text.clear();
        self.tokens.clear();
    }

    /// Ends the token that began at `start`, if it has any text. Returns the start of the next token.
    fn end_token(&mut self, start: usize) -> usize {
        if self.text.len() > start {
            self.tokens.push((start as u32, self.text.len() as u32));
            self.text.push(' ');
        }
        self.text.len()
    }

    /// The fast path for ASCII without control characters: every token is one run of word characters. False, with
    /// undefined content, for any other `text`.
    fn set_ascii(&mut self, rules: NormalizationRules, text: &str) -> bool {
        self.clear();
        if !text.is_ascii() {
            return false;
        }
        let mut start = 0;
        for &byte in text.as_bytes() {
            match CLASS[usize::from(byte)] {
                DELETE if rules != NormalizationRules::TriviaQa => {}
                DELETE | SPACE => start = self.end_ascii_token(rules, start),
                OTHER => return false,
                lowered => self.text.push(char::from(lowered)),
            }
        }
        self.end_ascii_token(rules, start);
        self.text.truncate(self.text.trim_end_matches(' ').len());
        true
    }

    fn end_ascii_token(&mut self, rules: NormalizationRules, start: usize) -> usize {
        if rules != NormalizationRules::Evidence && is_article(&self.text.as_bytes()[start..]) {
            self.text.truncate(start);
        }
        self.end_token(start)
    }

    fn set_unicode(&mut self, rules: NormalizationRules, text: &str) {
        self.clear();
        let mut lowered = std::mem::take(&mut self.lowered);
        lowered.clear();
        lower_into(text, &mut lowered);
        let mut start = 0;
        // Start of the current run of word characters, for the article rule.
        let mut run: Option<usize> = None;
        for c in lowered.chars() {
            let mut space = false;
            if is_deleted(rules, c) {
                if rules != NormalizationRules::TriviaQa {
                    continue;
                }
                space = true;
            } else if is_word(c) {
                run.get_or_insert(self.text.len());
                self.text.push(c);
                continue;
            }
            start = self.end_run(rules, run.take(), start);
            if space || is_space(c) {
                start = self.end_token(start);
            } else {
                self.text.push(c);
            }
        }
        start = self.end_run(rules, run, start);
        self.end_token(start);
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.lowered = lowered;
    }

    /// Replaces a run by a space if it is an article. Text before it in the token becomes a separate token.
    fn end_run(&mut self, rules: NormalizationRules, run: Option<usize>, start: usize) -> usize {
        match run {
            Some(run) if rules != NormalizationRules::Evidence && is_article(&self.text.as_bytes()[run..]) => {
                self.text.truncate(run);
                self.end_token(start)
            }
            _ => start,
        }
    }
}

/// The size of the multiset intersection of the tokens: `sum((Counter(a) & Counter(b)).values())`.
pub(crate) fn common_tokens(a: &NormalizedText, b: &NormalizedText, scratch: &mut Vec<(u32, u32)>) -> usize {
    if b.len() <= 64 && a.len() * b.len() <= 1024 {
        let mut taken = 0u64;
        let mut common = 0;
        for i in 0..a.len() {
            let token = a.token(i);
            for j in 0..b.len() {
                if taken & (1 << j) == 0 && b.token(j) == token {
                    taken |= 1 << j;
                    common += 1;
                    break;
                }
            }
        }
        return common;
    }
    // Long texts: both sides sorted, then merged.
    scratch.clear();
    scratch.extend_from_slice(&a.tokens);
    scratch.extend_from_slice(&b.tokens);
    let (left, right) = scratch.split_at_mut(a.len());
    fn of(text: &str, token: (u32, u32)) -> &str {
        &text[token.0 as usize..token.1 as usize]
    }
    left.sort_unstable_by(|&x, &y| of(&a.text, x).cmp(of(&a.text, y)));
    right.sort_unstable_by(|&x, &y| of(&b.text, x).cmp(of(&b.text, y)));
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < left.len() && j < right.len() {
        match of(&a.text, left[i]).cmp(of(&b.text, right[j])) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                common += 1;
                i += 1;
                j += 1;
            }
        }
    }
    common
}

fn is_article(run: &[u8]) -> bool {
    matches!(run, b"a" | b"an" | b"the")
}

fn is_deleted(rules: NormalizationRules, c: char) -> bool {
    c.is_ascii_punctuation() || (rules == NormalizationRules::TriviaQa && matches!(c, '‘' | '’' | '´'))
}

// Classes of ASCII bytes: a letter or digit (then its lower case), or one of these.
const DELETE: u8 = 0;
const SPACE: u8 = 1;
const OTHER: u8 = 2;

const CLASS: [u8; 256] = {
    let mut class = [OTHER; 256];
    let mut byte = 0;
    while byte < 128 {
        let b = byte as u8;
        if b.is_ascii_punctuation() {
            class[byte] = DELETE;
        } else if b.is_ascii_alphanumeric() {
            class[byte] = b.to_ascii_lowercase();
        } else if matches!(b, b'\t'..=b'\r' | 0x1c..=0x20) {
            class[byte] = SPACE;
        }
        byte += 1;
    }
    class
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn punctuation_articles_and_space() {
        assert_eq!(normalize("  The U.S.,\tand an A-team! "), "us and ateam");
        assert_eq!(normalize("state-of-the-art"), "stateoftheart");
        assert_eq!(normalize("The The"), "");
        assert_eq!(normalize("Tom_Hanks"), "tomhanks");
        assert_eq!(normalize("x\x1cy\x00the\x00z"), "xy\0 \0z".replace("xy", "x y"));
    }

    #[test]
    fn python_word_boundaries() {
        assert_eq!(normalize("a\u{301}"), "\u{301}");
        assert_eq!(normalize("a²"), "a²");
        assert_eq!(normalize("the–an"), "–");
        assert_eq!(normalize("«The» naïve"), "« » naïve");
        assert_eq!(normalize("Straße ΑΣ"), "straße ας");
    }

    #[test]
    fn trivia_qa_replaces_and_evidences_keep_articles() {
        assert_eq!(
            normalize_by(NormalizationRules::TriviaQa, "Jean-Luc_the U.S. Rock ’n’ Roll"),
            "jean luc u s rock n roll"
        );
        assert_eq!(normalize_by(NormalizationRules::Evidence, "The  Date-of a birth"), "the dateof a birth");
    }

    #[test]
    fn long_and_short_intersections_agree() {
        let (mut a, mut b) = (NormalizedText::default(), NormalizedText::default());
        let long: String = (0..200).map(|i| format!("w{} ", i % 37)).collect();
        a.set_text(NormalizationRules::Squad, &long);
        b.set_text(NormalizationRules::Squad, "w1 w1 w2 w40 w36 w36 w36 w36 w36 w36 w36");
        // w36 occurs five times in 0..200 step 37.
        assert_eq!(common_tokens(&a, &b, &mut Vec::new()), 3 + 5);
        assert_eq!(common_tokens(&b, &a, &mut Vec::new()), 3 + 5);
    }

    proptest! {
        #[test]
        fn the_short_way_agrees_with_the_long_one(text in "[ -~\t\n\x0b\x1c]{0,24}|([aA]n?|[tT]he|[.!?_-]| ){0,8}") {
            for rules in [NormalizationRules::Squad, NormalizationRules::TriviaQa, NormalizationRules::Evidence] {
                let (mut short, mut long) = (NormalizedText::default(), NormalizedText::default());
                prop_assert!(short.set_ascii(rules, &text));
                long.set_unicode(rules, &text);
                prop_assert_eq!(&short.text, &long.text);
                prop_assert_eq!(&short.tokens, &long.tokens);
            }
        }

        #[test]
        fn tokens_are_the_split_text(text in any::<String>()) {
            let mut out = NormalizedText::default();
            out.set_text(NormalizationRules::Squad, &text);
            let split: Vec<&str> = hopeval_pytext::split(out.text()).collect();
            prop_assert_eq!(out.tokens().collect::<Vec<_>>(), split);
        }
    }
}
