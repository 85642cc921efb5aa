//! DrQA's hashed n-grams.
//!
//! Text is normalised to NFD, unless it is taken as written, and cut by DrQA's simple tokenizer
//! (`[\p{L}\p{N}\p{M}]+` or a single character of `[^\p{Z}\p{C}]`). Tokens are lower-cased. An n-gram with a stop
//! word or a token of punctuation only is dropped (`filter_ngram`, mode `any`); the others, joined by a space, are
//! hashed modulo a power of two. Categories are Unicode 14's.

use unicode_normalization::{UnicodeNormalization, is_nfd_quick};

use super::{murmur, tables};

/// DrQA's `STOPWORDS`, as far as the simple tokenizer can produce them, sorted. Contractions such as `n't` come only
/// from tokenizers that keep them whole.
const STOP_WORDS: [&str; 153] = [
    "a",
    "about",
    "above",
    "after",
    "again",
    "against",
    "ain",
    "all",
    "am",
    "an",
    "and",
    "any",
    "are",
    "aren",
    "as",
    "at",
    "be",
    "because",
    "been",
    "before",
    "being",
    "below",
    "between",
    "both",
    "but",
    "by",
    "can",
    "couldn",
    "d",
    "did",
    "didn",
    "do",
    "does",
    "doesn",
    "doing",
    "don",
    "down",
    "during",
    "each",
    "few",
    "for",
    "from",
    "further",
    "had",
    "hadn",
    "has",
    "hasn",
    "have",
    "haven",
    "having",
    "he",
    "her",
    "here",
    "hers",
    "herself",
    "him",
    "himself",
    "his",
    "how",
    "i",
    "if",
    "in",
    "into",
    "is",
    "isn",
    "it",
    "its",
    "itself",
    "just",
    "ll",
    "m",
    "ma",
    "me",
    "mightn",
    "more",
    "most",
    "mustn",
    "my",
    "myself",
    "needn",
    "no",
    "nor",
    "not",
    "now",
    "o",
    "of",
    "off",
    "on",
    "once",
    "only",
    "or",
    "other",
    "our",
    "ours",
    "ourselves",
    "out",
    "over",
    "own",
    "re",
    "s",
    "same",
    "shan",
    "she",
    "should",
    "shouldn",
    "so",
    "some",
    "such",
    "t",
    "than",
    "that",
    "the",
    "their",
    "theirs",
    "them",
    "themselves",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "through",
    "to",
    "too",
    "under",
    "until",
    "up",
    "ve",
    "very",
    "was",
    "wasn",
    "we",
    "were",
    "weren",
    "what",
    "when",
    "where",
    "which",
    "while",
    "who",
    "whom",
    "why",
    "will",
    "with",
    "won",
    "wouldn",
    "y",
    "you",
    "your",
    "yours",
    "yourself",
    "yourselves",
];

fn in_table(table: &[(u32, u32)], c: char) -> bool {
    let after = table.partition_point(|&(first, _)| first <= c as u32);
    after > 0 && c as u32 <= table[after - 1].1
}

fn is_alphanumeric(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() } else { in_table(&tables::ALPHANUMERIC, c) }
}

fn is_blank(c: char) -> bool {
    if c.is_ascii() { c <= ' ' || c == '\x7f' } else { in_table(&tables::BLANK, c) }
}

/// Calls `emit` with four bytes for each n-gram of `text` in NFD: its hash modulo 2 to the power `bits`,
/// little-endian.
pub(crate) fn each_gram(text: &str, ngrams: u8, bits: u8, emit: impl FnMut(&[u8])) {
    if is_nfd_quick(text.chars()) == unicode_normalization::IsNormalized::Yes {
        each_gram_as_written(text, ngrams, bits, emit);
    } else {
        each_gram_as_written(&text.nfd().collect::<String>(), ngrams, bits, emit);
    }
}

/// As [`each_gram`], of `text` in whatever Unicode form it has.
pub(crate) fn each_gram_as_written(text: &str, ngrams: u8, bits: u8, mut emit: impl FnMut(&[u8])) {
    let mask = ((1u64 << bits) - 1) as u32;
    let mut send = |gram: &str| emit(&(murmur::hash(gram.as_bytes()) & mask).to_le_bytes());
    // `pair` holds the previous token, a space, and then this token; empty if the previous token was filtered.
    let (mut word, mut pair) = (String::new(), String::new());
    for token in tokens(text) {
        word.clear();
        hopeval_pytext::lower_into(token, &mut word);
        if is_filtered(&word) {
            pair.clear();
            continue;
        }
        send(&word);
        if ngrams > 1 {
            if !pair.is_empty() {
                pair.push_str(&word);
                send(&pair);
            }
            pair.clear();
            pair.push_str(&word);
            pair.push(' ');
        }
    }
}

/// Runs of letters, numbers and marks, and every other non-blank character.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(is_blank);
        let first = rest.chars().next()?;
        let end = if is_alphanumeric(first) {
            rest.find(|c| !is_alphanumeric(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    })
}

fn is_filtered(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok() || word.chars().all(|c| in_table(&tables::PUNCTUATION, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(text: &str) -> Vec<u32> {
        let mut found = Vec::new();
        each_gram(text, 2, 24, |gram| found.push(u32::from_le_bytes([gram[0], gram[1], gram[2], gram[3]])));
        found
    }

    fn of(grams: &[&str]) -> Vec<u32> {
        grams.iter().map(|g| murmur::hash(g.as_bytes()) & 0xff_ffff).collect()
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn ngrams_with_a_filtered_token_are_dropped() {
        assert_eq!(hashes("The Battle of Silda, Norway"), of(&["battle", "silda", "norway"]));
        assert_eq!(hashes("New York City"), of(&["new", "york", "new york", "city", "york city"]));
        // A symbol is no punctuation to `\p{P}`; an underscore is.
        assert_eq!(hashes("5 + 6_7"), of(&["5", "+", "5 +", "6", "+ 6", "7"]));
    }

    #[test]
    fn text_is_decomposed() {
        assert_eq!(hashes("Café"), of(&["cafe\u{301}"]));
        assert_eq!(hashes("Cafe\u{301}"), of(&["cafe\u{301}"]));
    }

    #[test]
    fn text_as_written_keeps_its_form() {
        let mut found = Vec::new();
        each_gram_as_written("Café", 2, 24, |gram| {
            found.push(u32::from_le_bytes([gram[0], gram[1], gram[2], gram[3]]))
        });
        assert_eq!(found, of(&["café"]));
        assert_ne!(found, hashes("Café"));
    }
}
