//! The similarity of two texts by their longest common subsequence: `rapidfuzz.fuzz.ratio`, as a test of a threshold.
//!
//! The ratio is `100 * 2 * lcs / (letters of both)`, over Unicode characters. It is compared in whole numbers, so no
//! rounding decides. The subsequence is found 64 letters at a time (Hyyrö, 2004).

use std::collections::BTreeMap;

/// Whether the ratio of two texts is at least `threshold`, of 100.
pub(crate) fn is_similar(a: &str, b: &str, threshold: u32) -> bool {
    if a == b {
        return threshold <= 100;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let reaches = |common: usize| 200 * common as u64 >= u64::from(threshold) * (a.len() + b.len()) as u64;
    // No more letters can be common than the shorter text has.
    reaches(a.len().min(b.len())) && reaches(common_letters(&a, &b))
}

/// The length of the longest common subsequence.
fn common_letters(a: &[char], b: &[char]) -> usize {
    let words = a.len().div_ceil(64);
    let mut places: BTreeMap<char, Vec<u64>> = BTreeMap::new();
    for (at, &letter) in a.iter().enumerate() {
        places.entry(letter).or_insert_with(|| vec![0; words])[at / 64] |= 1 << (at % 64);
    }
    // A bit is 0 where the length of the subsequence rises.
    let mut rises = vec![u64::MAX; words];
    for letter in b {
        let Some(matches) = places.get(letter) else { continue };
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

    #[test]
    fn a_threshold_above_100_is_never_reached() {
        assert!(is_similar("a", "a", 100) && !is_similar("a", "a", 101));
    }
}
