//! Lucene's `EnglishAnalyzer`, filter by filter: StandardTokenizer, EnglishPossessiveFilter, LowerCaseFilter,
//! StopFilter with `ENGLISH_STOP_WORDS_SET`, PorterStemFilter.
//!
//! Tokens are the words of UAX #29, as in StandardTokenizer; tokens of more than 255 UTF-16 units are cut there, as
//! in Lucene. Emoji are dropped; newer Lucene versions keep them as tokens.

use unicode_segmentation::UnicodeSegmentation;

use super::porter;

/// Lucene's `ENGLISH_STOP_WORDS_SET`, sorted.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
];

/// StandardAnalyzer's `DEFAULT_MAX_TOKEN_LENGTH`, in UTF-16 units.
const LONGEST: usize = 255;

pub(super) fn each_term(text: &str, lower: &mut String, mut emit: impl FnMut(&[u8])) {
    for word in text.unicode_words() {
        let mut rest = word;
        while !rest.is_empty() {
            let (token, after) = rest.split_at(token_length(rest));
            rest = after;
            lower.clear();
            // `Character.toLowerCase` maps one code point to one: no final sigma, İ becomes i.
            lower.extend(without_possessive(token).chars().map(|c| c.to_lowercase().next().unwrap_or(c)));
            if STOP_WORDS.binary_search(&lower.as_str()).is_err() && !lower.is_empty() {
                porter::stem(lower);
                emit(lower.as_bytes());
            }
        }
    }
}

/// The length in bytes of the first token of `word`.
fn token_length(word: &str) -> usize {
    if word.len() <= LONGEST {
        return word.len();
    }
    let mut units = 0;
    for (at, c) in word.char_indices() {
        units += c.len_utf16();
        if units > LONGEST {
            return at;
        }
    }
    word.len()
}

fn without_possessive(token: &str) -> &str {
    let Some(stem) = token.strip_suffix(['s', 'S']) else { return token };
    stem.strip_suffix(['\'', '\u{2019}', '\u{ff07}']).unwrap_or(token)
}

#[cfg(test)]
mod tests {
    use crate::Analyzer;

    #[test]
    fn filters_apply_in_lucenes_order() {
        let terms = |text| Analyzer::English.terms(text);
        assert_eq!(terms("The dog's bones, and James’s HOUSES"), ["dog", "bone", "jame", "hous"]);
        assert_eq!(terms("o'neil's 3.14 and 1,000 U.S. wi-fi"), ["o'neil", "3.14", "1,000", "u.", "wi", "fi"]);
        assert_eq!(terms("this will be it"), Vec::<String>::new());
        // The possessive goes before stop words are looked up.
        assert_eq!(terms("it's"), Vec::<String>::new());
    }

    #[test]
    fn long_tokens_are_cut() {
        let terms = Analyzer::English.terms(&"b".repeat(300));
        assert_eq!(terms.iter().map(String::len).collect::<Vec<_>>(), [255, 45]);
    }
}
