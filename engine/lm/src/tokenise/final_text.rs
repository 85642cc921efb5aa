//! The text of an answer, projected from word pieces onto the text that they are of: BERT's `get_final_text`
//! (`run_squad.py`, Devlin et al. 2019), which MDR's reader has, too.
//!
//! The pieces of the answer, joined to lower-case words, are looked for in the words of the original text, lower-cased
//! and without accents. If they are there, and both texts have as many letters, the answer has the letters of the
//! original in their place. If not, the answer is the whole original: the words between white space from the first
//! piece's to the last piece's. So the projection alone does not make words whole: pieces that end inside a word are
//! found there, and end there.

use super::Tokenizer;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

impl Tokenizer {
    /// The text of tokens, projected onto `original`, the words between white space that they are of.
    pub fn final_text(&self, ids: &[u32], original: &str) -> String {
        let pieces = self.tokens(ids).join(" ").replace(" ##", "").replace("##", "");
        let pieces = pieces.split_whitespace().collect::<Vec<_>>().join(" ");
        projected(&pieces, original).unwrap_or_else(|| original.to_owned())
    }
}

/// The part of `original` that `pieces` are of; `None` if they are not found there.
fn projected(pieces: &str, original: &str) -> Option<String> {
    let words = basic_words(original).join(" ");
    let begin = words.find(pieces)?;
    let letters = |text: &str| text.chars().filter(|&c| c != ' ').count();
    if pieces.is_empty() || letters(&words) != letters(original) {
        return None;
    }
    let first = letters(&words[..begin]);
    let last = first + letters(pieces);
    let places: Vec<usize> = original.char_indices().filter(|&(_, c)| c != ' ').map(|(at, _)| at).collect();
    let end = places.get(last - 1)?;
    let end = end + original[*end..].chars().next()?.len_utf8();
    Some(original[*places.get(first)?..end].to_owned())
}

/// The words of BERT's basic tokenizer, lower-cased and without accents. Chinese characters are not parted, as in MDR.
fn basic_words(text: &str) -> Vec<String> {
    let mut normal = NormalizedString::from(text);
    let mut parted = match BertNormalizer::new(true, false, Some(true), true).normalize(&mut normal) {
        Ok(()) => PreTokenizedString::from(normal),
        Err(_) => return Vec::new(),
    };
    if BertPreTokenizer.pre_tokenize(&mut parted).is_err() {
        return Vec::new();
    }
    let splits = parted.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
    splits.into_iter().map(|(word, ..)| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expectations of BERT's script.
    #[test]
    fn pieces_are_projected_onto_the_original() {
        for (pieces, original, expected) in [
            ("steve smith", "(Steve Smith's)", Some("Steve Smith")),
            ("beyonce", "Beyoncé,", Some("Beyoncé")),
            ("u . s .", "the U.S.;", Some("U.S.")),
            ("x months pregn", "X months pregnant", Some("X months pregn")),
            ("a", "banana a", Some("a")),
            ("[UNK] smith", "☃ Smith", None),
            ("king", "The queen", None),
        ] {
            assert_eq!(projected(pieces, original).as_deref(), expected, "{pieces}");
        }
    }
}
