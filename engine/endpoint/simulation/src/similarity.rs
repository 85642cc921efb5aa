//! Embeddings and relevance by rule: words that two texts share.
//!
//! An embedding adds, for each word, ±1 at four places that the word's hash names, and is scaled to length 1. The
//! relevance of a document is 0.7 of the share of the query's words that it has, plus 0.3 of the share of the query's
//! pairs of neighbouring words, each weighted by its letters.

use rustc_hash::FxHashSet;

/// The embedding of a text, of length 1; all zeros for a text without words.
pub(crate) fn embed_text(text: &str, dimension: usize) -> Vec<f32> {
    let mut sums = vec![0f32; dimension];
    for word in split_words(text) {
        let mut hash = word_hash(&word);
        for _ in 0..4 {
            let sign = if hash & 1 == 0 { 1.0 } else { -1.0 };
            sums[(hash >> 1) as usize % dimension] += sign;
            hash = hash.rotate_left(16).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }
    let length = sums.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        sums.iter_mut().for_each(|x| *x /= length);
    }
    sums
}

/// The relevance of a document to a query, from 0 to 1.
pub(crate) fn relevance(query: &str, document: &str) -> f64 {
    let (query, document): (Vec<String>, Vec<String>) = (split_words(query).collect(), split_words(document).collect());
    let words: FxHashSet<&str> = document.iter().map(String::as_str).collect();
    let pairs: FxHashSet<(&str, &str)> = document.windows(2).map(|w| (w[0].as_str(), w[1].as_str())).collect();
    let share = |found: &mut dyn Iterator<Item = (usize, bool)>| {
        let (mut all, mut shared) = (0, 0);
        for (letters, is_found) in found {
            all += letters;
            shared += if is_found { letters } else { 0 };
        }
        if all == 0 { 0.0 } else { shared as f64 / all as f64 }
    };
    let of_words = share(&mut query.iter().map(|word| (word.len(), words.contains(word.as_str()))));
    let neighbours = query.windows(2).map(|w| (w[0].as_str(), w[1].as_str()));
    let of_pairs = share(&mut neighbours.map(|pair| (pair.0.len() + pair.1.len(), pairs.contains(&pair))));
    0.7 * of_words + 0.3 * of_pairs
}

fn split_words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// FNV-1a (draft-eastlake-fnv).
fn word_hash(word: &str) -> u64 {
    word.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_share_words_are_near() {
        let [a, b, c] = ["the director of Pale Harbor", "Pale Harbor had a director", "rivers and towns"]
            .map(|text| embed_text(text, 256));
        let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f32>();
        assert!(dot(&a, &b) > dot(&a, &c) + 0.2);
        assert!((dot(&a, &a) - 1.0).abs() < 1e-5);
        assert_eq!(relevance("Pale Harbor", "pale harbor!"), 1.0);
        assert!(relevance("Pale Harbor", "a harbor, pale") < 0.8);
        assert_eq!(relevance("", "anything"), 0.0);
    }
}
