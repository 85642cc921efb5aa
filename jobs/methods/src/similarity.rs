//! The similarity of two texts by their longest common subsequence: `rapidfuzz.fuzz.ratio`, as a test of a threshold,
//! and `rapidfuzz.fuzz.partial_ratio`.
//!
//! The ratio is `100 * 2 * lcs / (letters of both)`, over Unicode characters. It is compared in whole numbers, so no
//! rounding decides. The subsequence is found 64 letters at a time (Hyyrö, 2004). The partial ratio is the best ratio
//! of the shorter text with a piece of the longer one that is as long, or with a shorter piece at its begin or end.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A ratio of two texts, from 0 to 1. Equal ratios of texts of other lengths are equal.
#[derive(Clone, Copy, Debug)]
pub struct TextRatio {
    /// Letters in common, counted in both texts.
    common: u64,
    /// Letters of both texts, at least 1.
    letters: u64,
}

impl TextRatio {
    /// The ratio as a number.
    pub fn value(self) -> f64 {
        self.common as f64 / self.letters as f64
    }

    const NONE: Self = Self { common: 0, letters: 1 };
    const WHOLE: Self = Self { common: 1, letters: 1 };

    fn of(common: usize, letters: usize) -> Self {
        Self { common: 2 * common as u64, letters: letters as u64 }
    }
}

impl Ord for TextRatio {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.common * other.letters).cmp(&(other.common * self.letters))
    }
}

impl PartialOrd for TextRatio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for TextRatio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for TextRatio {}

/// The best ratio of the shorter text with a piece of the longer one. Of an empty text and another one it is 0.
pub fn partial_ratio(a: &str, b: &str) -> TextRatio {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let (short, long) = if a.len() <= b.len() { (&a, &b) } else { (&b, &a) };
    if short.is_empty() {
        return if long.is_empty() { TextRatio::WHOLE } else { TextRatio::NONE };
    }
    let best = best_piece(short, long);
    // Of equally long texts either may be cut.
    if short.len() == long.len() { best.max(best_piece(long, short)) } else { best }
}

fn best_piece(short: &[char], long: &[char]) -> TextRatio {
    let places = LetterPlaces::new(short);
    let length = short.len();
    let begins = (0..=long.len() - length).map(|begin| &long[begin..begin + length]);
    let edges = (1..length).flat_map(|part| [&long[..part], &long[long.len() - part..]]);
    let ratio = |piece: &[char]| TextRatio::of(places.common_letters(piece), length + piece.len());
    begins.chain(edges).map(ratio).max().unwrap_or(TextRatio::NONE)
}

/// Whether the ratio of two texts is at least `threshold`, of 100.
pub(crate) fn is_similar(a: &str, b: &str, threshold: u32) -> bool {
    if a == b {
        return threshold <= 100;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let reaches = |common: usize| 200 * common as u64 >= u64::from(threshold) * (a.len() + b.len()) as u64;
    // No more letters can be common than the shorter text has.
    reaches(a.len().min(b.len())) && reaches(LetterPlaces::new(&a).common_letters(&b))
}

/// The places of each letter in a text, 64 in a word.
struct LetterPlaces {
    words: usize,
    places: BTreeMap<char, Vec<u64>>,
}

impl LetterPlaces {
    fn new(text: &[char]) -> Self {
        let words = text.len().div_ceil(64);
        let mut places: BTreeMap<char, Vec<u64>> = BTreeMap::new();
        for (at, &letter) in text.iter().enumerate() {
            places.entry(letter).or_insert_with(|| vec![0; words])[at / 64] |= 1 << (at % 64);
        }
        Self { words, places }
    }

    /// The length of the longest common subsequence with another text.
    fn common_letters(&self, other: &[char]) -> usize {
        // A bit is 0 where the length of the subsequence rises.
        let mut rises = vec![u64::MAX; self.words];
        for letter in other {
            let Some(matches) = self.places.get(letter) else { continue };
            let mut carry = false;
            for (row, &matched) in rises.iter_mut().zip(matches) {
                let both = *row & matched;
                let (sum, first) = row.overflowing_add(both);
                let (sum, second) = sum.overflowing_add(u64::from(carry));
                carry = first || second;
                *row = sum | (*row & !matched);
            }
        }
        rises.iter().map(|row| row.count_zeros() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest threshold that two texts reach.
    fn whole_ratio(a: &str, b: &str) -> Option<u32> {
        (0..=100).rev().find(|&threshold| is_similar(a, b, threshold))
    }

    /// Whole parts of `rapidfuzz.fuzz.ratio` (rapidfuzz 3.14.6, Python).
    #[test]
    fn ratios_are_those_of_rapidfuzz() {
        let long = "The quick brown fox jumps over the lazy dog. ".repeat(9);
        let other = long.replace("lazy", "sleepy").replace("brown ", "");
        let rows: [(&str, &str, u32); 10] = [
            ("", "", 100),
            ("abc", "", 0),
            ("Rome", "Rome", 100),
            ("Rome", "rome", 75),
            ("kitten", "sitting", 61),
            ("Zürich is a city", "Zurich is a city.", 90),
            ("The Lamp and the River", "Lamp and River, The", 68),
            ("aaaaaaaaab", "baaaaaaaaa", 90),
            (&long, &other, 86),
            (&long, &long[45..], 94),
        ];
        for (a, b, expected) in rows {
            assert_eq!(whole_ratio(a, b), Some(expected), "{a:?} {b:?}");
            assert_eq!(whole_ratio(b, a), Some(expected), "{b:?} {a:?}");
        }
    }

    /// `rapidfuzz.fuzz.partial_ratio` (rapidfuzz 3.14.6, Python).
    #[test]
    fn partial_ratios_are_those_of_rapidfuzz() {
        let long = "The quick brown fox jumps over the lazy dog. ".repeat(9);
        let other = long.replace("lazy", "sleepy").replace("brown ", "");
        let piece: String = long.chars().skip(10).take(190).collect();
        let rows: [(&str, &str, f64); 11] = [
            ("", "", 100.0),
            ("abc", "", 0.0),
            ("Rome", "In rome they live", 75.0),
            ("kitten", "sitting", 66.66666666666667),
            ("Zürich is a city", "It says: Zurich is a city.", 93.75),
            ("The Lamp and the River", "Lamp and River, The", 75.67567567567568),
            ("aaaaaaaaab", "baaaaaaaaa", 94.73684210526316),
            ("ended in 1945", "The war in Europe ended", 55.55555555555556),
            ("It began here", "had it begun here or there, it began her way", 84.61538461538461),
            (&piece, &other, 83.15217391304348),
            (&long, &other, 82.65582655826557),
        ];
        for (a, b, expected) in rows {
            for ratio in [partial_ratio(a, b), partial_ratio(b, a)] {
                assert!((100.0 * ratio.value() - expected).abs() < 1e-9, "{a:?} {b:?} {}", ratio.value());
            }
        }
    }

    #[test]
    fn a_threshold_above_100_is_never_reached() {
        assert!(is_similar("a", "a", 100) && !is_similar("a", "a", 101));
    }
}
